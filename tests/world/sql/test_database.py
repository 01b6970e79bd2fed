"""What every database does alike: the same scenario has the same world on each of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.core import c1
from pytest_evarness.core.interfaces import ServiceDownError
from pytest_evarness.world.service import EffectFailedError, QueryError, takes_statements
from pytest_evarness.world.sql.base import ChangedError
from tests.world.sql.engines import ENGINES, SERVERS, Opener, rows_of

INIT = """
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, item VARCHAR(40), price DECIMAL(10, 2), paid BOOLEAN,
    day DATE, seen TIMESTAMP NULL);
CREATE TABLE logs (at VARCHAR(20), message VARCHAR(200));
CREATE TABLE kids (id INTEGER PRIMARY KEY, parent INTEGER,
    FOREIGN KEY (parent) REFERENCES orders (id) ON DELETE CASCADE);
INSERT INTO orders VALUES (2, 'b;''', 2.5, FALSE, '2026-01-31', '2026-01-31 10:00:00');
INSERT INTO orders VALUES (1, NULL, NULL, NULL, NULL, NULL);
INSERT INTO logs VALUES ('z', 'one'), ('a', 'two'), ('a', 'two');
INSERT INTO kids VALUES (7, 2);
"""
TRIGGER = {
    "sqlite": "CREATE TRIGGER note AFTER UPDATE ON orders WHEN new.paid BEGIN"
    " INSERT INTO logs VALUES ('t', new.item); END;",
    "postgres": "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " INSERT INTO logs VALUES ('t', new.item); RETURN new; END $$;"
    " CREATE TRIGGER note AFTER UPDATE ON orders FOR EACH ROW WHEN (new.paid)"
    " EXECUTE FUNCTION note();",
    "mysql": "DELIMITER //\nCREATE TRIGGER note AFTER UPDATE ON orders FOR EACH ROW BEGIN"
    " IF new.paid THEN INSERT INTO logs VALUES ('t', new.item); END IF; END//\nDELIMITER ;",
}

engines = pytest.mark.parametrize("kind", ENGINES)
servers = pytest.mark.parametrize("kind", SERVERS)


@engines
def test_a_database_is_a_service_and_answers(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT)
    assert database.problem is None
    assert takes_statements(database)
    assert (database.name, database.kind) == ("db", kind)
    assert rows_of(database, "SELECT count(*) FROM orders") == [(2,)]


@engines
def test_the_snapshot_is_that_of_every_other_engine(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT)
    database.execute("DELETE FROM logs WHERE message = 'one'", [])
    database.execute("CREATE TABLE made (a INTEGER)", [])
    database.execute("DROP TABLE kids", [])
    database.seal()
    snapshot: Any = database.snapshot()
    by_name = {table["name"]: table for table in snapshot["tables"]}
    assert sorted(by_name) == ["logs", "made", "orders"]
    assert snapshot["dropped"] == ["kids"]
    logs = by_name["logs"]
    assert (logs["columns"], logs["count"]) == (["at", "message"], 2)
    assert logs["rows"] == [["a", "two"], ["a", "two"]]
    assert logs["start"]["count"] == 3
    assert logs["start"]["digest"] != logs["digest"]
    assert by_name["made"]["start"] is None
    one, two = by_name["orders"]["rows"]
    assert one == [1, None, None, None, None, None]
    assert two[:2] == [2, "b;'"]
    assert two[4:] == ["2026-01-31", "2026-01-31 10:00:00"]
    # SQLite has neither decimals nor truth values.
    assert two[2] == (2.5 if kind == "sqlite" else "2.50")
    assert two[3] == (False if kind == "postgres" else 0)
    assert c1.text(snapshot).count("evarness_run") == 0


def test_rows_of_texts_have_one_digest_on_all_engines(open_database: Opener) -> None:
    found = set()
    for kind in ("sqlite", "postgres", "mysql"):
        database = open_database(kind, INIT)
        database.seal()
        snapshot: Any = database.snapshot()
        found |= {
            (table["name"], table["digest"])
            for table in snapshot["tables"]
            if table["name"] in ("logs", "kids")
        }
    assert len(found) == 2


@engines
def test_texts_in_a_key_are_in_the_order_of_code_points(kind: str, open_database: Opener) -> None:
    names = ["b", "A", "a", "Z", "é", "z", "ab"]
    values = ", ".join(f"('{name}')" for name in names)
    database = open_database(
        kind, f"CREATE TABLE t (name VARCHAR(9) PRIMARY KEY); INSERT INTO t VALUES {values}"
    )
    database.seal()
    snapshot: Any = database.snapshot()
    assert [row[0] for row in snapshot["tables"][0]["rows"]] == sorted(names)
    # A query sees them so, too.
    assert [row[0] for row in rows_of(database, "SELECT name FROM t ORDER BY name")] == sorted(
        names
    )
    assert rows_of(database, "SELECT count(*) FROM t WHERE name = 'a'") == [(1,)]
    assert rows_of(database, "SELECT count(*) FROM t WHERE 'a' = 'A'") == [(0,)]


@servers
def test_the_order_in_a_snapshot_is_that_of_code_points_in_any_collation(
    kind: str, open_database: Opener
) -> None:
    collation = {"postgres": '"en-x-icu"', "mysql": "utf8mb4_unicode_ci"}[kind]
    names = ["b", "Ab", "a", "Z", "é", "az"]
    values = ", ".join(f"('{name}')" for name in names)
    database = open_database(
        kind,
        f"CREATE TABLE t (name VARCHAR(9) COLLATE {collation} PRIMARY KEY);"
        f" INSERT INTO t VALUES {values}",
    )
    if database.problem is not None and "does not exist" in database.problem:
        pytest.skip("this server has no such collation")
    database.seal()
    snapshot: Any = database.snapshot()
    assert [row[0] for row in snapshot["tables"][0]["rows"]] == sorted(names)
    by_server = [row[0] for row in rows_of(database, "SELECT name FROM t ORDER BY name")]
    assert by_server != sorted(names)


@servers
def test_a_transaction_that_is_left_open_is_closed(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT)
    for statement in ("SET autocommit = 0", "START TRANSACTION", "COMMIT"):
        with contextlib.suppress(EffectFailedError):
            database.execute(statement, [])
        assert database.execute("INSERT INTO logs VALUES ('a', 'b')", []).rows == 1
    assert rows_of(database, "SELECT count(*) FROM logs") == [(6,)]


@engines
def test_an_effect_says_what_it_wrote(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT + TRIGGER[kind])
    assert database.problem is None
    effects: list[tuple[str, Any]] = [
        ("UPDATE orders SET item = ? WHERE id = 2", ["x"]),
        ("UPDATE orders SET item = 'x' WHERE id = 2", []),
        ("UPDATE orders SET paid = TRUE WHERE id = 2", []),
        ("UPDATE orders SET item = 'y' WHERE id = 99", []),
        ("DELETE FROM orders WHERE id = :id", {"id": 2}),
        ("DELETE FROM orders WHERE id = :id", {"id": 1}),
        ("INSERT INTO logs VALUES ('a', 'b'), ('c', 'd')", []),
        ("CREATE TABLE made (a INTEGER)", []),
        ("DROP TABLE made", []),
        ("SELECT * FROM logs", []),
    ]
    did = [database.execute(statement, params) for statement, params in effects]
    assert [(change.rows, change.tables) for change in did] == [
        (1, ("orders",)),
        (1, ("orders",)),
        (1, ("logs", "orders")),
        (0, ()),
        (1, ("kids", "orders")),
        (1, ("orders",)),
        (2, ("logs",)),
        (0, ("made",)),
        (0, ("made",)),
        (0, ()),
    ]


@engines
def test_a_value_is_never_part_of_the_statement(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT)
    wild = "x'); DROP TABLE orders; -- \\' \" ; %s :a ? é\n"
    database.execute("INSERT INTO logs VALUES (:at, :message)", {"at": "w", "message": wild})
    query = "SELECT message FROM logs WHERE message = ?"
    assert rows_of(database, query, [wild]) == [(wild,)]
    assert rows_of(database, "SELECT count(*) FROM orders") == [(2,)]


@engines
@pytest.mark.parametrize(
    ("statement", "params", "said"),
    [
        ("SELECT 1; SELECT 2", [], "an effect is one statement (got 2)"),
        ("", [], "an effect is one statement (got 0)"),
        ("SELECT 'a", [], "a quote or comment that begins in line 1 is not closed"),
        ("DELETE FROM orders WHERE id = :id", {"no": 1}, "no value for :id (values: no)"),
        ("INSERT INTO orders (id) VALUES (1)", [], "orders|PRIMARY"),
        ("INSERT INTO nowhere VALUES (1)", [], "nowhere"),
    ],
)
def test_an_effect_that_is_refused_changes_nothing(
    kind: str, open_database: Opener, statement: str, params: Any, said: str
) -> None:
    database = open_database(kind, INIT)
    with pytest.raises(EffectFailedError) as caught:
        database.execute(statement, params)
    assert any(word in caught.value.reason for word in said.split("|"))
    assert "evarness_run" not in caught.value.reason
    assert rows_of(database, "SELECT count(*) FROM orders") == [(2,)]
    with pytest.raises(EffectFailedError, match=r"^the run is over"):
        database.execute("DELETE FROM orders", [])


@engines
@pytest.mark.parametrize("statement", ["BEGIN", "START TRANSACTION"])
def test_an_effect_opens_no_transaction(kind: str, open_database: Opener, statement: str) -> None:
    database = open_database(kind, INIT)
    with contextlib.suppress(EffectFailedError):
        database.execute(statement, [])
    assert database.execute("DELETE FROM logs", []).rows == 3
    assert rows_of(database, "SELECT count(*) FROM logs") == [(0,)]


@engines
@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM orders",
        "SELECT 1; DELETE FROM orders",
        "WITH a AS (SELECT 1) DELETE FROM orders",
        "SELECT * INTO copied FROM orders",
        "CREATE TABLE copied (a INTEGER)",
    ],
)
def test_a_query_that_writes_is_refused(kind: str, open_database: Opener, query: str) -> None:
    database = open_database(kind, INIT)
    with pytest.raises(QueryError, match=r"^a check asks one statement that reads, and "):
        rows_of(database, query)
    assert rows_of(database, "SELECT count(*) FROM orders") == [(2,)]


WRITERS = {
    # What looks like reading: only the engine can tell.
    "sqlite": ("PRAGMA user_version = 7", "not authorized"),
    "postgres": ("SELECT wipe()", "cannot execute DELETE in a read-only transaction"),
    "mysql": ("SELECT wipe()", "Cannot execute statement in a READ ONLY transaction"),
}
WIPE = {
    "sqlite": "",
    "postgres": "CREATE FUNCTION wipe() RETURNS int LANGUAGE sql"
    " AS $$ DELETE FROM orders; SELECT 1 $$;",
    "mysql": "CREATE FUNCTION wipe() RETURNS int DETERMINISTIC BEGIN"
    " DELETE FROM orders; RETURN 1; END;",
}


@engines
def test_the_engine_itself_refuses_to_write(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT + WIPE[kind])
    assert database.problem is None
    query, said = WRITERS[kind]
    with pytest.raises(QueryError) as caught:
        rows_of(database, query)
    assert said in caught.value.reason
    assert rows_of(database, "SELECT count(*) FROM orders") == [(2,)]


@servers
def test_the_same_statement_writes_where_it_may(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT + WIPE[kind])
    assert database.execute("SELECT wipe()", []).tables == ("kids", "orders")


OUTSIDE = {
    "sqlite": "SELECT load_extension('x')",
    "postgres": "SELECT pg_read_file('/etc/hostname')",
    "mysql": "SELECT * FROM mysql.user",
}


@engines
def test_a_query_reaches_nothing_else(kind: str, open_database: Opener) -> None:
    with pytest.raises(QueryError, match=r"denied|not authorized"):
        rows_of(open_database(kind, INIT), OUTSIDE[kind])


LONG = {
    "sqlite": "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x FROM a) SELECT max(x) FROM a",
    "postgres": "SELECT pg_sleep(600)",
    "mysql": "SELECT sleep(600)",
}


@engines
def test_a_query_is_ended_when_its_time_is_up(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT)
    database.seal()
    with pytest.raises(QueryError, match=r"^timed out after 0\.2 s$"):
        database.query(LONG[kind], seconds=0.2, max_rows=10)
    assert rows_of(database, "SELECT count(*) FROM orders") == [(2,)]


@engines
def test_only_as_many_rows_are_read_as_are_wanted(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT)
    database.seal()
    whole = database.query("SELECT at FROM logs ORDER BY at", seconds=9.0, max_rows=3)
    assert (whole.columns, whole.rows, whole.is_cut) == (("at",), (("a",), ("a",), ("z",)), False)
    part = database.query("SELECT at FROM logs ORDER BY at", seconds=9.0, max_rows=2)
    assert (part.rows, part.is_cut) == ((("a",), ("a",)), True)


@engines
def test_large_values_are_bounded(kind: str, open_database: Opener) -> None:
    database = open_database(kind, "CREATE TABLE t (a INTEGER, b TEXT)")
    for number in range(8):
        database.execute("INSERT INTO t VALUES (?, ?)", [number, "x" * 60_000])
    database.seal()
    found = database.query("SELECT * FROM t ORDER BY a", seconds=9.0, max_rows=1000)
    assert found.is_cut
    assert len(found.rows) == 4
    snapshot: Any = database.snapshot()
    assert snapshot["tables"][0]["rows"] is None
    assert snapshot["tables"][0]["count"] == 8


@engines
def test_what_is_done_to_a_copy_reaches_nobody(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT + TRIGGER[kind])
    database.seal()
    with database.copy() as address:
        assert address != database.address
        with connected(kind, address) as run:
            assert run("SELECT count(*) FROM kids") == 1
            run("UPDATE orders SET paid = TRUE WHERE id = 2")
            run("DELETE FROM orders")
            assert run("SELECT count(*) FROM logs") == 4
            assert run("SELECT count(*) FROM kids") == 0
    assert rows_of(database, "SELECT count(*) FROM orders") == [(2,)]
    with database.copy() as address, connected(kind, address) as run:
        assert run("SELECT count(*) FROM orders") == 2


class connected:  # noqa: N801 - used as a function
    """A connection of somebody else."""

    def __init__(self, kind: str, address: Any) -> None:
        if kind == "sqlite":
            import sqlite3

            self.connection: Any = sqlite3.connect(address["path"], isolation_level=None)
            self.connection.execute("PRAGMA foreign_keys = ON")
        elif kind == "postgres":
            import psycopg

            words = {name: address[name] for name in ("host", "port", "user", "password")}
            self.connection = psycopg.connect(dbname=address["database"], autocommit=True, **words)
        else:
            import pymysql

            self.connection = pymysql.connect(autocommit=True, **address)

    def __enter__(self) -> Callable[[str], Any]:
        def run(statement: str) -> Any:
            cursor = self.connection.cursor()
            cursor.execute(statement)
            row = cursor.fetchone() if cursor.description else None
            cursor.close()
            return row[0] if row else None

        return run

    def __exit__(self, *error: object) -> None:
        self.connection.close()


@engines
def test_a_step_reaches_it_by_its_address(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT)
    with connected(kind, database.address) as run:
        run("INSERT INTO logs VALUES ('s', 'by a step')")
        assert run("SELECT count(*) FROM logs") == 4
    assert rows_of(database, "SELECT count(*) FROM logs WHERE at = 's'") == [(1,)]


@engines
def test_what_changes_after_the_seal_is_stale(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT)
    address = dict(database.address)
    database.seal()
    refused = ""
    try:
        with connected(kind, address) as run:
            run("DELETE FROM logs")
    except Exception as error:  # noqa: BLE001 - each driver has its own
        refused = str(error)
    if kind == "sqlite":
        assert not refused
        with pytest.raises(ChangedError, match=r"^the database was changed after the run"):
            rows_of(database, "SELECT 1")
    else:
        # A server takes the database away from whoever has its address.
        assert refused
        assert rows_of(database, "SELECT count(*) FROM logs") == [(3,)]


@servers
def test_somebody_who_is_still_there_is_put_out(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT)
    with connected(kind, database.address) as run:
        assert run("SELECT count(*) FROM logs") == 3
        database.seal()
        with pytest.raises(Exception, match=r"(?i)terminat|lost|gone|closed|kill"):
            run("DELETE FROM logs")
    assert rows_of(database, "SELECT count(*) FROM logs") == [(3,)]


@engines
def test_every_run_has_a_fresh_database(kind: str, open_database: Opener) -> None:
    one, two = open_database(kind, INIT), open_database(kind, INIT)
    one.execute("DELETE FROM logs", [])
    assert dict(one.address) != dict(two.address)
    assert rows_of(one, "SELECT count(*) FROM logs") == [(0,)]
    assert rows_of(two, "SELECT count(*) FROM logs") == [(3,)]


@engines
def test_a_mistake_in_init_is_told_with_its_statement(kind: str, open_database: Opener) -> None:
    database = open_database(kind, "CREATE TABLE a (b INTEGER);\n\nINSERT INTO nope VALUES (1);")
    assert database.problem is not None
    assert database.problem.startswith("init, line 3, INSERT INTO nope VALUES (1): ")
    assert "nope" in database.problem.partition("(1): ")[2]
    assert database.snapshot() == {"type": kind, "down": True}
    with pytest.raises(ServiceDownError, match=r"^service db: init, line 3"):
        database.execute("SELECT 1", [])
    with pytest.raises(QueryError, match=r"^init, line 3"):
        database.query("SELECT 1", seconds=1.0, max_rows=1)


@engines
def test_init_stays_in_its_database(kind: str, open_database: Opener) -> None:
    beyond = {"sqlite": "ATTACH '/x' AS y", "postgres": "COPY a TO '/x'", "mysql": "USE mysql"}
    database = open_database(kind, beyond[kind])
    assert database.problem is not None
    assert database.problem.startswith(f"init, line 1, {beyond[kind]}: ")


@engines
def test_closing_twice_is_fine_and_leaves_nothing(kind: str, open_database: Opener) -> None:
    database = open_database(kind, INIT)
    address = dict(database.address)
    database.close()
    database.close()
    if kind == "sqlite":
        assert not Path(str(address["path"])).exists()
    else:
        with pytest.raises(Exception, match=r"(?i)does not exist|denied|unknown|failed"):
            connected(kind, address)


@engines
def test_two_threads_may_start_databases(kind: str, open_database: Opener) -> None:
    made: list[Any] = []
    threads = [
        threading.Thread(target=lambda: made.append(open_database(kind, INIT))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [database.problem for database in made] == [None, None]

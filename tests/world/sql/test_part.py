"""What a database holds beside rows: an effect or a step that changes it is noticed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from pytest_evarness.world.service import EffectFailedError
from pytest_evarness.world.sql.part import Part, parts_of
from tests.world.sql.engines import ENGINES, Opener

engines = pytest.mark.parametrize("kind", ENGINES)

TABLES = """
CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(20));
CREATE TABLE orders (id INTEGER PRIMARY KEY, item VARCHAR(20));
INSERT INTO users VALUES (1, 'ann');
CREATE VIEW names AS SELECT name FROM users;
CREATE INDEX by_name ON users (name);
"""
KEEP = {
    "sqlite": "CREATE TRIGGER keep BEFORE DELETE ON users BEGIN SELECT RAISE(ABORT, 'no'); END;",
    "postgres": "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE 'no'; END $$; CREATE TRIGGER keep BEFORE DELETE ON users"
    " FOR EACH ROW EXECUTE FUNCTION no();",
    "mysql": "CREATE TRIGGER keep BEFORE DELETE ON users FOR EACH ROW"
    " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no';",
}
DROP_TRIGGER = {"postgres": "DROP TRIGGER keep ON users"}
DROP_INDEX = {"mysql": "DROP INDEX by_name ON users"}


def objects(database: Any) -> list[tuple[str, str, str | None, str]]:
    database.seal()
    assert database.problem is None, database.problem
    found = []
    for one in database.snapshot()["objects"]:
        word = "new" if one["start"] is None else "gone" if one["digest"] is None else "changed"
        found.append((one["kind"], one["name"], one["table"], word))
    return found


@engines
def test_a_run_that_writes_rows_changes_no_definition(kind: str, open_database: Opener) -> None:
    database = open_database(kind, TABLES + KEEP[kind])
    assert database.execute("INSERT INTO users VALUES (2, 'bob')", []).tables == ("users",)
    assert database.execute("UPDATE users SET name = 'cy'", []).tables == ("users",)
    assert objects(database) == []


@engines
@pytest.mark.parametrize(
    ("statement", "owner", "expected"),
    [
        ("DROP VIEW names", "names", ("view", "names", None, "gone")),
        ("CREATE VIEW more AS SELECT id FROM users", "more", ("view", "more", None, "new")),
        ("DROP TRIGGER keep", "users", ("trigger", "keep", "users", "gone")),
        ("DROP INDEX by_name", "users", ("index", "by_name", "users", "gone")),
        ("CREATE INDEX by_id ON users (id, name)", "users", ("index", "by_id", "users", "new")),
    ],
)
def test_what_an_effect_makes_or_drops_is_told_and_seen(
    kind: str, open_database: Opener, statement: str, owner: str, expected: Any
) -> None:
    database = open_database(kind, TABLES + KEEP[kind])
    if "TRIGGER" in statement:
        statement = DROP_TRIGGER.get(kind, statement)
    if statement == "DROP INDEX by_name":
        statement = DROP_INDEX.get(kind, statement)
    assert database.execute(statement, []).tables == (owner,)
    if kind == "mysql" and expected[0] == "index":
        # An index stands in the definition of its table there.
        expected = ("table", "users", "users", "changed")
    assert objects(database) == [expected]


CHANGED: list[tuple[str, str, str, Any]] = [
    (
        "postgres",
        "CREATE OR REPLACE VIEW names AS SELECT upper(name)::varchar(20) AS name FROM users",
        "names",
        ("view", "names", None, "changed"),
    ),
    (
        "mysql",
        "CREATE OR REPLACE VIEW names AS SELECT upper(name) AS name FROM users",
        "names",
        ("view", "names", None, "changed"),
    ),
    (
        "postgres",
        "ALTER TABLE users DISABLE TRIGGER keep",
        "users",
        ("trigger", "keep", "users", "changed"),
    ),
    (
        "postgres",
        "ALTER TABLE users ALTER name SET DEFAULT 'eve'",
        "users",
        ("table", "users", "users", "changed"),
    ),
    (
        "mysql",
        "ALTER TABLE users ALTER name SET DEFAULT 'eve'",
        "users",
        ("table", "users", "users", "changed"),
    ),
    (
        "postgres",
        (
            "CREATE OR REPLACE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RETURN old; END $$"
        ),
        "no",
        ("routine", "no", None, "changed"),
    ),
    (
        "mysql",
        "CREATE FUNCTION one() RETURNS INTEGER DETERMINISTIC RETURN 1",
        "one",
        ("routine", "one", None, "new"),
    ),
    (
        "postgres",
        "CREATE RULE quiet AS ON INSERT TO orders DO INSTEAD NOTHING",
        "orders",
        ("rule", "quiet", "orders", "new"),
    ),
]


@pytest.mark.parametrize(
    ("kind", "statement", "owner", "expected"),
    [
        pytest.param(*row, marks=getattr(pytest.mark, row[0]), id=f"{row[0]}-{row[3][0]}-{place}")
        for place, row in enumerate(CHANGED)
    ],
)
def test_what_an_effect_changes_is_told_and_seen(
    kind: str, statement: str, owner: str, expected: Any, open_database: Opener
) -> None:
    database = open_database(kind, TABLES + KEEP[kind])
    assert database.execute(statement, []).tables == (owner,)
    assert objects(database) == [expected]


COUNTERS: dict[str, tuple[str, str]] = {
    "sqlite": (
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a INTEGER UNIQUE);",
        "UPDATE sqlite_sequence SET seq = 90 WHERE name = 't'",
    ),
    "postgres": (
        "CREATE TABLE t (id SERIAL PRIMARY KEY, a INTEGER UNIQUE);",
        "SELECT setval('t_id_seq', 90)",
    ),
    "mysql": (
        "CREATE TABLE t (id INTEGER AUTO_INCREMENT PRIMARY KEY, a INTEGER UNIQUE);",
        "ALTER TABLE t AUTO_INCREMENT = 90",
    ),
}


@engines
def test_a_counter_belongs_to_its_table(kind: str, open_database: Opener) -> None:
    init, move = COUNTERS[kind]
    database = open_database(kind, init + "INSERT INTO t (a) VALUES (7)")
    assert database.execute(move, []).tables == ("t",)
    (found,) = objects(database)
    assert (found[0], found[2], found[3]) == ("sequence", "t", "changed")


@engines
def test_a_counter_of_a_refused_insert_tells_of_no_other_table(
    kind: str, open_database: Opener
) -> None:
    database = open_database(kind, COUNTERS[kind][0] + "INSERT INTO t (a) VALUES (7)")
    with pytest.raises(EffectFailedError):
        database.execute("INSERT INTO t (a) VALUES (7)", [])
    assert {table for _, _, table, _ in objects(database)} <= {"t"}


@pytest.mark.postgres
def test_a_sequence_is_of_the_table_whose_default_it_is_or_stands_alone(
    open_database: Opener,
) -> None:
    init = (
        "CREATE SEQUENCE s; CREATE SEQUENCE free; CREATE TABLE t (id INTEGER DEFAULT nextval('s'));"
    )
    database = open_database("postgres", init)
    assert database.execute("INSERT INTO t DEFAULT VALUES", []).tables == ("t",)
    assert database.execute("SELECT nextval('free')", []).tables == ("free",)
    assert objects(database) == [
        ("sequence", "free", None, "changed"),
        ("sequence", "s", "t", "changed"),
    ]


@pytest.mark.postgres
def test_a_materialized_view_that_is_filled_anew_changed(open_database: Opener) -> None:
    init = "CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW m AS SELECT a FROM t;"
    database = open_database("postgres", init)
    assert database.execute("REFRESH MATERIALIZED VIEW m", []).tables == ()
    assert database.execute("INSERT INTO t VALUES (1)", []).tables == ("t",)
    assert database.execute("REFRESH MATERIALIZED VIEW m", []).tables == ("m",)
    assert objects(database) == [("view", "m", None, "changed")]


@pytest.mark.postgres
def test_a_path_that_init_has_set_changes_no_definition(open_database: Opener) -> None:
    init = (
        "CREATE SCHEMA more; SET search_path = more; CREATE TABLE t (a INTEGER);"
        " CREATE VIEW v AS SELECT a FROM t;"
    )
    database = open_database("postgres", init)
    # The path is that of the effects as well.
    assert database.execute("INSERT INTO t VALUES (1)", []).tables == ("more.t",)
    assert database.execute("DROP VIEW v", []).tables == ("more.v",)
    assert objects(database) == [("view", "more.v", None, "gone")]


@engines
def test_what_belongs_to_a_dropped_table_is_told_by_the_table(
    kind: str, open_database: Opener
) -> None:
    database = open_database(kind, TABLES + KEEP[kind])
    database.execute("DROP VIEW names", [])
    assert database.execute("DROP TABLE users", []).tables == ("users",)
    assert objects(database) == [("view", "names", None, "gone")]
    snapshot: Any = database.snapshot()
    assert snapshot["dropped"] == ["users"]


def test_a_step_that_drops_a_view_is_seen(open_database: Opener) -> None:
    database: Any = open_database("sqlite", TABLES)
    with sqlite3.connect(database.address["path"]) as connection:
        connection.execute("DROP VIEW names")
    connection.close()
    assert objects(database) == [("view", "names", None, "gone")]


FULL_TEXT = "CREATE TABLE t (a); CREATE VIRTUAL TABLE notes USING fts5(body);"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO notes VALUES ('tea')",
        "INSERT INTO notes_content VALUES (5, 'tea')",
        "INSERT INTO notes_config VALUES ('x', 1)",
    ],
)
def test_an_index_of_texts_is_one_table(statement: str, open_database: Opener) -> None:
    database = open_database("sqlite", FULL_TEXT)
    assert database.execute(statement, []).tables == ("notes",)
    database.seal()
    snapshot: Any = database.snapshot()
    assert [table["name"] for table in snapshot["tables"]] == ["notes", "t"]
    assert {one["table"] for one in snapshot["objects"]} == {"notes"}


def test_an_index_of_texts_that_nobody_touched_is_as_it_was(open_database: Opener) -> None:
    database = open_database("sqlite", FULL_TEXT)
    assert database.execute("INSERT INTO t VALUES (1)", []).tables == ("t",)
    assert database.execute("SELECT * FROM notes WHERE notes MATCH 'tea'", []).tables == ()
    assert objects(database) == []


def test_an_index_of_texts_is_made_and_dropped_as_one(open_database: Opener) -> None:
    database = open_database("sqlite", "CREATE TABLE t (a)")
    make: Callable[[str], Any] = lambda text: database.execute(text, []).tables  # noqa: E731
    assert make("CREATE VIRTUAL TABLE notes USING fts5(body)") == ("notes",)
    assert make("DROP TABLE notes") == ("notes",)
    assert make("CREATE VIRTUAL TABLE more USING fts5(body)") == ("more",)
    database.seal()
    snapshot: Any = database.snapshot()
    assert [table["name"] for table in snapshot["tables"]] == ["more", "t"]
    assert snapshot["dropped"] == snapshot["objects"] == []


def test_digests_know_no_order_and_no_secrets() -> None:
    from pytest_evarness.core.secret import Masker

    one, two = Part("routine", "f"), Part("view", "v")
    assert parts_of([(one, "a"), (two, "x"), (one, "b")]) == parts_of(
        [(one, "b"), (one, "a"), (two, "x")]
    )
    assert parts_of([(one, "a")]) != parts_of([(one, "b")])
    masker = Masker({"KEY": "s3cret-value"})
    assert parts_of([(one, "k s3cret-value")], masker) == parts_of([(one, "k «secret:KEY»")])

"""Rows that were gathered are held against the sealed ones, or nothing is said of them."""

from __future__ import annotations

import itertools
import re
import sqlite3
import time
from typing import Any

import pytest

from pytest_evarness.bundle import answered
from pytest_evarness.bundle.answered import Budget, rows_problem
from pytest_evarness.checks.kind import UnavailableError
from pytest_evarness.core import c1
from pytest_evarness.world.sql.sqlite import SqliteType
from pytest_evarness.world.sql.value import cell, plain

INIT = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, who TEXT, amount REAL, n NUMERIC CHECK (n > 100));
CREATE TABLE loose (a, b);
CREATE UNIQUE INDEX by_who ON orders (who);
CREATE VIEW paid AS SELECT who, amount FROM orders WHERE amount > 1;
CREATE TRIGGER more AFTER INSERT ON orders BEGIN INSERT INTO loose VALUES (new.id, 'added'); END;
INSERT INTO orders VALUES (1, 'kim', 1, 200), (2, 'lee', 2.5, 300), (3, 'O''Hara', 2.5, 101);
INSERT INTO loose VALUES ('7', 7), (NULL, X'00ff');
DELETE FROM loose WHERE b = X'00ff';
"""
QUERIES = [
    ("SELECT count(*) FROM orders", "equals"),
    ("SELECT who FROM orders WHERE id = 2", "equals"),
    ("SELECT amount FROM orders WHERE who = 'kim'", "equals"),
    ("SELECT * FROM orders ORDER BY id", "rows"),
    ("SELECT sum(amount), max(n) FROM orders", "rows"),
    ("SELECT who, count(*) FROM paid GROUP BY who HAVING count(*) > 0", "unordered"),
    ("SELECT a.who FROM orders a JOIN orders b ON a.amount = b.amount", "unordered"),
    ("SELECT a, typeof(a), b, typeof(b) FROM loose", "unordered"),
    ("SELECT who FROM orders WHERE id = 99", "empty"),
    ("WITH big AS (SELECT * FROM orders WHERE n >= 200) SELECT count(*) FROM big", "equals"),
    ("SELECT 1.10", "equals"),
    ("SELECT count(*) FROM orders WHERE who LIKE '%e%' OR who GLOB 'k*'", "equals"),
    ("SELECT instr(trim(who), 'e') FROM orders WHERE id = 2", "equals"),
    ("WITH a AS (SELECT * FROM paid), b AS (SELECT * FROM a) SELECT count(*) FROM b", "equals"),
]


def sealed(init: str = INIT) -> tuple[sqlite3.Connection, dict[str, Any]]:
    """A database, and the world in which its tables are sealed."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(init)
    tables = []
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (name,) in names:
        cursor = connection.execute(f"SELECT * FROM {name}")
        rows = [[plain(value) for value in row] for row in cursor]
        columns = [column[0] for column in cursor.description]
        tables.append({"name": name, "columns": columns, "count": len(rows), "rows": rows})
    return connection, {"services": [{"name": "db", "type": "sqlite", "tables": tables}]}


def definition(query: str, compare: str = "rows", params: Any = ()) -> dict[str, Any]:
    return {
        "service": "db",
        "query": query,
        "params": params,
        "compare": "rows" if compare == "unordered" else compare,
        "unordered": compare == "unordered",
    }


def gathered(connection: sqlite3.Connection, query: str, compare: str) -> dict[str, Any]:
    cursor = connection.execute(query)
    columns = [column[0] for column in cursor.description]
    rows = [[cell(value) for value in row] for row in cursor]
    if compare not in ("rows", "equals"):
        rows.sort(key=c1.text)
    return {"columns": columns, "rows": rows, "is_cut": False}


def services(init: str = INIT, kind: str = "sqlite") -> dict[str, Any]:
    config, faults = SqliteType().parse({"init": init})
    assert not faults
    return {"db": {**config, "type": kind}}


def silence(query: str, compare: str = "rows", init: str = INIT, **more: Any) -> str:
    connection, world = sealed(init)
    got = {"columns": ["x"], "rows": [], "is_cut": False, **more}
    connection.close()
    with pytest.raises(UnavailableError) as caught:
        rows_problem(definition(query, compare), got, world, services(init))
    return caught.value.reason


@pytest.mark.parametrize(("query", "compare"), QUERIES)
def test_what_the_real_database_answers_is_what_the_sealed_rows_give(
    query: str, compare: str
) -> None:
    connection, world = sealed()
    got = gathered(connection, query, compare)
    assert rows_problem(definition(query, compare), got, world, services()) is None
    # The twin: another value, a row more, a column's other name.
    other = {"t": "text", "v": "another"}
    wrong = [
        {**got, "rows": [*got["rows"], [other for _ in got["columns"]]]},
        {**got, "columns": ["x" for _ in got["columns"]]},
    ]
    if got["rows"]:
        wrong.append({**got, "rows": got["rows"][1:]})
        wrong.append({**got, "rows": [[other, *got["rows"][0][1:]], *got["rows"][1:]]})
    for one in wrong:
        said = rows_problem(definition(query, compare), one, world, services())
        assert said is not None, one
        assert re.fullmatch(r"the query gives \d+ rows there, and others were gathered", said)


def test_rows_in_another_order_are_not_told() -> None:
    connection, world = sealed()
    query = "SELECT who FROM orders ORDER BY amount"
    got = gathered(connection, query, "rows")
    assert rows_problem(definition(query), got, world, services()) is None
    got["rows"].reverse()
    with pytest.raises(UnavailableError, match="an order that nothing gives"):
        rows_problem(definition(query), got, world, services())


def test_parameters_are_bound() -> None:
    _, world = sealed()
    asked = definition(
        "SELECT who FROM orders WHERE id = ?", "equals", [{"t": "integer", "v": "3"}]
    )
    got = {"columns": ["who"], "rows": [[{"t": "text", "v": "O'Hara"}]], "is_cut": False}
    assert rows_problem(asked, got, world, services()) is None
    asked["params"] = [{"t": "integer", "v": "2"}]
    assert rows_problem(asked, got, world, services()) is not None


def test_the_sum_of_floats_in_another_order_is_the_same_sum() -> None:
    init = "CREATE TABLE t (x REAL); INSERT INTO t VALUES (0.1), (0.2), (0.3), (1e16), (-1e16);"
    init = init.replace("(1e16), (-1e16)", "(0.7), (0.1)")
    connection, world = sealed(init)
    query = "SELECT sum(x) FROM t"
    got = gathered(connection, query, "equals")
    got["rows"][0][0]["v"] = repr(float(got["rows"][0][0]["v"]) + 2e-16)
    assert rows_problem(definition(query, "equals"), got, world, services(init)) is None


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT datetime('now')", "the query calls datetime"),
        ("SELECT random()", "the query calls random"),
        ("SELECT zeroblob(100000)", "the query calls zeroblob"),
        ("SELECT load_extension('x')", "the query calls load_extension"),
        ("SELECT rowid FROM loose", "the query reads row ids"),
        ("SELECT sql FROM sqlite_master", "the query reads the schema"),
        ("SELECT who FROM orders", "the answer depends on an order that nothing gives"),
        ("SELECT who FROM orders LIMIT 1 OFFSET 1", "depends on an order"),
        ("SELECT who || amount FROM orders WHERE id = 1", "writes numbers as text"),
        (
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT x + 1 FROM c) SELECT count(*) FROM c",
            "the query does more than to select",
        ),
        (
            f"SELECT count(*) FROM {', '.join(f'orders o{number}' for number in range(14))}",
            "the tables cannot be asked here (OperationalError)",
        ),
        ("PRAGMA table_info(orders)", "the query does more than to select"),
        ("DELETE FROM orders", "does not only read"),
        ("ATTACH 'x.db' AS x", "does not only read"),
        ("SELECT nothing FROM orders", "cannot be asked here"),
    ],
)
def test_where_the_rows_do_not_tell_nothing_is_said(query: str, why: str) -> None:
    assert why in silence(query)


def test_what_init_does_beyond_tables_and_rows_is_not_done() -> None:
    for more in (
        "ALTER TABLE orders ADD COLUMN z;",
        "PRAGMA user_version = 3;",
        "CREATE TEMP TABLE z (a);",
        "DROP TABLE loose;",
    ):
        assert "init does more" in silence("SELECT count(*) FROM orders", init=INIT + more)
    # A table that the run made is not one of init's.
    connection, world = sealed(INIT + "CREATE TABLE made (a);")
    connection.close()
    got = {"columns": ["x"], "rows": [], "is_cut": False}
    with pytest.raises(UnavailableError, match="cannot be asked here"):
        rows_problem(definition("SELECT a FROM made"), got, world, services())


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("9007199254740993", "sealed in another form"),
        ("inf", "sealed in another form"),
        ({"base64": "AP8="}, "cannot be asked here"),
        ("«secret:TOKEN»", "sealed in another form"),
    ],
)
def test_values_that_are_sealed_in_another_form_do_not_tell(value: Any, why: str) -> None:
    _, world = sealed("CREATE TABLE t (a);")
    world["services"][0]["tables"][0].update(count=1, rows=[[value]])
    got = {"columns": ["a"], "rows": [], "is_cut": False}
    with pytest.raises(UnavailableError, match=why):
        rows_problem(definition("SELECT a FROM t"), got, world, services("CREATE TABLE t (a);"))


def test_only_rows_that_are_all_sealed_tell() -> None:
    _, world = sealed()
    got = {"columns": ["count(*)"], "rows": [[{"t": "integer", "v": "3"}]], "is_cut": False}
    asked = definition("SELECT count(*) FROM orders WHERE id > 0", "equals")
    got["columns"] = ["count(*)"]
    assert rows_problem(asked, got, world, services()) is None
    with pytest.raises(UnavailableError, match="only SQLite"):
        rows_problem(asked, got, world, services(kind="postgres"))
    with pytest.raises(UnavailableError, match="was cut"):
        rows_problem(asked, {**got, "is_cut": True}, world, services())
    world["services"][0]["tables"][0].update(rows=None)
    with pytest.raises(UnavailableError, match="are not all sealed"):
        rows_problem(asked, got, world, services())
    with pytest.raises(UnavailableError, match="no tables are sealed"):
        rows_problem(asked, got, {"services": []}, services())


def test_the_engine_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    _, world = sealed()
    query = "SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e, orders f"
    got = {"columns": ["count(*)"], "rows": [[{"t": "integer", "v": "729"}]], "is_cut": False}
    assert rows_problem(definition(query, "equals"), got, world, services()) is None
    monkeypatch.setattr(answered, "MAX_STEPS", 1000)
    with pytest.raises(UnavailableError, match="OperationalError"):
        rows_problem(definition(query, "equals"), got, world, services())


def asked_of(rows: list[list[Any]], query: str, init: str = "", **more: Any) -> str:
    """Why a query of a table ``t (a, b)`` is left as it is."""
    init = f"CREATE TABLE t (a, b); {init}"
    table = {"name": "t", "columns": ["a", "b"], "count": len(rows), "rows": rows}
    world = {"services": [{"name": "db", "type": "sqlite", "tables": [table]}]}
    got = {"columns": ["n"], "rows": [], "is_cut": False}
    with pytest.raises(UnavailableError) as caught:
        rows_problem(definition(query), got, world, services(init), **more)
    return caught.value.reason


LONG = "SELECT count(*) AS n FROM t x, t y WHERE"
DEAR = [
    (["a" * 60_000, "a" * 900 + "b"], f"{LONG} x.a LIKE '%' || y.b"),
    (["a" * 900, "%" + "a" * 97 + "b"], f"{LONG} x.a LIKE y.b"),
    (["a" * 900, "*" + "[a-z]" * 19 + "b"], f"{LONG} x.a GLOB y.b"),
    (["a" * 60_000, "a" * 30_000 + "b"], f"{LONG} instr(x.a, y.b)"),
    (["a" * 120, "b" * 120], f"{LONG} trim(x.a, y.b) = ''"),
    (["a" * 15_000, "b" * 15_000], f"{LONG} upper(x.a) = lower(y.b || x.a)"),
    (["a" * 900, "b"], "SELECT DISTINCT x.a || y.a AS n FROM t x, t y ORDER BY 1 COLLATE NOCASE"),
    (["a" * 900, "a%"], f"SELECT {', '.join(['a LIKE b'] * 490)} FROM t"),
]


@pytest.mark.parametrize(("row", "query"), DEAR)
def test_dear_functions_and_long_values_do_not_outlast_the_clock(
    row: list[Any], query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answered, "_SECONDS_EACH", 0.2)
    begin = time.monotonic()
    assert "cannot be asked here" in asked_of([row] * 300, query)
    # Ten times what it may take; unbounded the first of them takes minutes.
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize(
    ("row", "query"),
    [
        (["a" * 3000, "a%"], "SELECT a LIKE b AS n FROM t"),
        (["a" * 3000, "a"], "SELECT instr(a, b) AS n FROM t"),
        (["a" * 300, "a"], "SELECT trim(a, b) AS n FROM t"),
        (["a" * 900, "a"], "SELECT a || a || a || a AS n FROM t"),
        (["a" * 900, "a" * 101], "SELECT a LIKE b AS n FROM t"),
    ],
)
def test_values_are_short_beside_dear_functions(row: list[Any], query: str) -> None:
    assert "cannot be asked here" in asked_of([row], query)
    # The twin: with a shorter value there is an answer, and it is not the one that was gathered.
    short = [str(value)[: len(value) // 20] for value in row]
    table = {"name": "t", "columns": ["a", "b"], "count": 1, "rows": [short]}
    world = {"services": [{"name": "db", "type": "sqlite", "tables": [table]}]}
    got = {"columns": ["n"], "rows": [], "is_cut": False}
    try:
        said = rows_problem(definition(query), got, world, services("CREATE TABLE t (a, b)"))
    except UnavailableError as error:
        said = error.reason  # an answer with "||" is none to be sure of
    assert said in (
        "the query gives 1 rows there, and others were gathered",
        "the query writes numbers as text",
    )


def test_the_clock_is_looked_at_within_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the one above: the same questions are stopped by the clock alone."""
    ticks = itertools.count()
    monkeypatch.setattr(answered, "monotonic", lambda: float(next(ticks)))
    monkeypatch.setattr(answered, "_SECONDS_EACH", 50.0)
    budget = Budget(1e9)
    assert "OperationalError" in asked_of([["a", "a"]] * 300, f"{LONG} x.a LIKE y.b", budget=budget)
    assert next(ticks) < 60


def test_all_questions_of_a_bundle_share_their_time() -> None:
    _, world = sealed()
    budget = Budget(0)
    got = {"columns": ["count(*)"], "rows": [], "is_cut": False}
    asked = definition("SELECT count(*) FROM orders", "equals")
    with pytest.raises(UnavailableError, match="takes too long"):
        rows_problem(asked, got, world, services(), budget)
    budget = Budget(60)
    assert rows_problem(asked, got, world, services(), budget) is not None
    budget._left = 0
    with pytest.raises(UnavailableError, match="takes too long"):
        rows_problem(asked, got, world, services(), budget)


def _views(count: int, text: str = "SELECT * FROM v{0} UNION ALL SELECT * FROM v{0}") -> str:
    made = "CREATE VIEW v0 AS SELECT * FROM t;"
    return made + "".join(
        f"CREATE VIEW v{number + 1} AS {text.format(number)};" for number in range(count)
    )


def _queries(count: int, word: str = "AS (") -> str:
    named = "".join(
        f", c{number + 1} {word}SELECT * FROM c{number} UNION ALL SELECT * FROM c{number})"
        for number in range(count)
    )
    return f"WITH c0 AS (SELECT * FROM t){named} SELECT count(*) FROM c{count}"


def test_views_and_named_queries_inside_each_other_do_not_grow() -> None:
    rows: list[list[Any]] = [["a", "b"]]
    said = "too many views and queries stand inside each other"
    for count in (12, 40):
        assert said == asked_of(rows, f"SELECT * FROM v{count}", _views(count))
        assert said == asked_of(rows, _queries(count))
        assert said == asked_of(rows, _queries(count, "AS/* a */("))
        assert said == asked_of(rows, _queries(count, "AS NOT MATERIALIZED ("))
    assert said == asked_of(rows, _queries(6).replace("FROM t)", "FROM v6)"), _views(6))
    # A view that nothing asks for is not written out, and few of them are no danger.
    assert "order that nothing gives" in asked_of(
        [["a", "b"], ["c", "d"]], "SELECT a FROM t", _views(40)
    )
    assert "order that nothing gives" in asked_of(
        [["a", "b"], ["c", "d"]], "SELECT a FROM v2", _views(2)
    )
    assert "too many views" in asked_of(rows, "SELECT 1", _views(200))


def test_a_view_is_no_table() -> None:
    init = "CREATE TABLE t (a, b);" + _views(40)
    table = {"name": "V40", "columns": ["a", "b"], "count": 0, "rows": []}
    world = {"services": [{"name": "db", "type": "sqlite", "tables": [table]}]}
    got = {"columns": ["n"], "rows": [], "is_cut": False}
    with pytest.raises(UnavailableError, match="not those of init"):
        rows_problem(definition("SELECT 1 AS n"), got, world, services(init))


def test_what_init_calls_for_every_row_is_cheap() -> None:
    for more in (
        "CREATE TABLE u (a CHECK (a LIKE '%x%'));",
        "CREATE TABLE u (a, b AS (instr(a, a)));",
        "CREATE INDEX i ON t (trim(a, b));",
        "CREATE TABLE u AS SELECT a LIKE b FROM t;",
    ):
        assert "cannot be asked here" in asked_of([["a", "b"]], "SELECT 1 AS n", more)
    wide = ", ".join(f"g{n + 1} AS (g{n} + g{n})" for n in range(40))
    more = f"CREATE TABLE u (g0, {wide});"
    assert "MemoryError" in asked_of([], "SELECT g40 AS n FROM u", more)
    assert "init is too long" in asked_of([], "SELECT 1 AS n", "CREATE TABLE u (a);" * 20_000)

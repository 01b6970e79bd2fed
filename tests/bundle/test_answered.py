"""Rows that were gathered are held against the sealed ones, or nothing is said of them."""

from __future__ import annotations

import re
import sqlite3
from typing import Any

import pytest

from pytest_evarness.bundle import answered
from pytest_evarness.bundle.answered import rows_problem
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
    monkeypatch.setattr(answered, "MAX_STEPS", 1)
    with pytest.raises(UnavailableError, match="OperationalError"):
        rows_problem(definition(query, "equals"), got, world, services())

"""What only SQLite does."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.core.json import shown
from pytest_evarness.world.service import EffectFailedError, QueryError
from pytest_evarness.world.sql import sqlite as module
from tests.world.sql.engines import Opener, rows_of


@pytest.fixture(autouse=True)
def _no_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_templates", {})


def sealed(database: Any) -> Any:
    database.seal()
    return database.snapshot()


def test_a_database_of_a_known_init_is_the_same_one(open_database: Opener) -> None:
    init = "CREATE TABLE t (a); INSERT INTO t VALUES (1)"
    first = open_database("sqlite", init)
    assert len(module._templates) == 1
    again = open_database("sqlite", init)
    first.execute("INSERT INTO t VALUES (2)", [])
    assert [row[0] for row in rows_of(again, "SELECT a FROM t")] == [1]
    assert sealed(first)["tables"][0]["rows"] == [[1], [2]]
    assert sealed(again)["tables"][0]["start"] == sealed(first)["tables"][0]["start"]


@pytest.mark.parametrize(
    "value", ["random()", "CURRENT_TIMESTAMP", "datetime('now')", "date()", "julianday( )"]
)
def test_what_differs_each_time_is_made_each_time(open_database: Opener, value: str) -> None:
    assert open_database("sqlite", f"CREATE TABLE t AS SELECT {value} AS a").problem is None
    assert module._templates == {}


def test_digests_over_secrets_are_not_shared(open_database: Opener) -> None:
    init = "CREATE TABLE t (a); INSERT INTO t VALUES ('hunter22')"
    open_database("sqlite", init, secrets={"KEY": "hunter22"})
    assert module._templates == {}


def test_the_templates_are_bounded(open_database: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_TEMPLATES", 2)
    for number in range(4):
        open_database("sqlite", f"CREATE TABLE t{number} (a)")
    assert len(module._templates) == 2


@pytest.mark.parametrize(
    "pragma", ["writable_schema = 1", "temp_store_directory = '/x'", "trusted_schema = 1"]
)
def test_a_setting_that_reaches_out_is_refused(open_database: Opener, pragma: str) -> None:
    database = open_database("sqlite")
    with pytest.raises(EffectFailedError, match=r"^not authorized$"):
        database.execute(f"PRAGMA {pragma}", [])


def test_a_log_of_a_step_s_own_is_part_of_the_database(open_database: Opener) -> None:
    database = open_database("sqlite", "CREATE TABLE t (a)")
    other = sqlite3.connect(str(database.address["path"]), isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("INSERT INTO t VALUES (1)")
    other.close()
    assert rows_of(database, "SELECT a FROM t") == [(1,)]
    assert sealed(database)["tables"][0]["rows"] == [[1]]


def test_a_step_that_never_commits_is_told(
    open_database: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOCKED_SECONDS", 0.01)
    database = open_database("sqlite", "CREATE TABLE t (a)")
    other = sqlite3.connect(str(database.address["path"]), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    other.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(EffectFailedError, match=r"^database is locked$"):
        database.execute("INSERT INTO t VALUES (2)", [])
    database.seal()
    assert database.problem == "database is locked"
    assert database.snapshot() == {"type": "sqlite", "down": True}
    other.close()


def test_a_file_that_is_broken_is_told(open_database: Opener) -> None:
    database = open_database("sqlite", "CREATE TABLE t (a)")
    with open(str(database.address["path"]), "wb") as file:  # noqa: PTH123
        file.write(b"no database at all, and long enough to be looked at" * 100)
    database.seal()
    assert database.problem is not None
    assert "not a database" in database.problem


@pytest.mark.parametrize("ending", ["", "-wal"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_never_opened(
    open_database: Opener, tmp_path: Path, kind: str, ending: str
) -> None:
    other = tmp_path / "other.sqlite"
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE t (a)")
    database = open_database("sqlite", "CREATE TABLE t (a)")
    path = Path(str(database.address["path"]) + ending)
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert sealed(database)["down"] is True
    assert database.problem == f"the database{ending} is no regular file any more"


def test_a_file_of_the_same_bytes_is_the_same_database(open_database: Opener) -> None:
    database = open_database("sqlite", "CREATE TABLE t (a)")
    path = Path(str(database.address["path"]))
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    assert [table["name"] for table in sealed(database)["tables"]] == ["t"]


def test_null_in_a_primary_key_is_in_no_order(open_database: Opener) -> None:
    init = "CREATE TABLE t (a TEXT PRIMARY KEY, b)"
    rows = ["(NULL, 2)", "(NULL, 1)", "('x', 0)"]
    found = [
        sealed(open_database("sqlite", f"{init}; INSERT INTO t VALUES {', '.join(order)}"))
        for order in (rows, rows[::-1])
    ]
    assert found[0] == found[1]
    assert found[0]["tables"][0]["rows"] == [["x", 0], [None, 1], [None, 2]]


def test_bytes_and_texts_that_are_none_are_told_apart(open_database: Opener) -> None:
    database = open_database(
        "sqlite", "CREATE TABLE t (a); INSERT INTO t VALUES (x'ff'), (CAST(x'ff' AS TEXT)), ('ÿ')"
    )
    rows = sealed(database)["tables"][0]["rows"]
    assert rows.count([{"base64": "/w=="}]) == 2
    assert ["ÿ"] in rows


def test_a_value_beyond_all_memory_is_refused(open_database: Opener) -> None:
    with pytest.raises(QueryError, match=r"^string or blob too big$"):
        rows_of(open_database("sqlite"), "SELECT zeroblob(999999999)")


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("PRAGMA table_info(t)", 1),
        ("SELECT * FROM pragma_table_info('t')", 1),
        ("SELECT name FROM sqlite_master", 1),
        ("PRAGMA integrity_check", 1),
    ],
)
def test_what_the_database_is_like_may_be_asked(
    open_database: Opener, query: str, count: int
) -> None:
    assert len(rows_of(open_database("sqlite", "CREATE TABLE t (a)"), query)) == count


@pytest.mark.parametrize("query", ["PRAGMA journal_mode", "PRAGMA foreign_keys = OFF"])
def test_other_settings_may_not(open_database: Opener, query: str) -> None:
    with pytest.raises(QueryError, match=r"^not authorized$"):
        rows_of(open_database("sqlite"), query)


def test_no_message_holds_a_path(open_database: Opener) -> None:
    database = open_database("sqlite", "CREATE TABLE t (a)")
    folder = str(database.address["path"]).rpartition("/")[0]
    database.seal()
    import pathlib

    pathlib.Path(str(database.address["path"])).unlink()
    with pytest.raises(QueryError) as caught:
        rows_of(database, "SELECT 1")
    assert folder not in caught.value.reason, shown(caught.value.reason)

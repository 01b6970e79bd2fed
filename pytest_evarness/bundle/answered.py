"""The rows that a ``sql`` check gathered, held against the sealed tables.

The tables are made again in memory, from the ``CREATE`` statements of ``init`` and the sealed rows,
and the query is asked again. Its text comes from a bundle that may be hostile: the engine may read
and nothing else, no file is opened, and steps, lengths and rows are bounded. Wherever this cannot
say what the real database had to answer, it says nothing: rows of a table that are not all sealed,
other engines, a query about time, chance, row ids or the schema, an order that no ORDER BY gives.

Source: docs/bundle-format.md, "What stays on the signer's word".
"""

from __future__ import annotations

import contextlib
import math
import random
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from pytest_evarness.checks.kind import UnavailableError
from pytest_evarness.core import c1
from pytest_evarness.core.matcher import holds_secret
from pytest_evarness.core.outcome import Cause
from pytest_evarness.world.sql.text import Dialect, bind, first_word, not_reading, split
from pytest_evarness.world.sql.value import cell

__all__ = ["MAX_STEPS", "rows_problem"]

MAX_STEPS: Final = 200
"""Thousands of instructions of the engine for one question."""

_ORDERS: Final = 12
_MAX_ROWS: Final = 2000
_MAX_VALUE_BYTES: Final = 64 * 1024
_CREATES: Final = re.compile(r"\s*create\s+(?:table|view|(?:unique\s+)?index)\b", re.IGNORECASE)
_FILLS: Final = frozenset(
    {"insert", "update", "delete", "replace", "begin", "commit", "end", "select", "values"}
)
_FUNCTIONS: Final = frozenset(
    {"abs", "avg", "coalesce", "count", "glob", "ifnull", "iif", "instr", "length", "like"}
    | {"lower", "ltrim", "max", "min", "nullif", "round", "rtrim", "substr", "substring", "sum"}
    | {"total", "trim", "typeof", "upper"}
)
_TRIGGER: Final = re.compile(r"\s*create\s+trigger\b", re.IGNORECASE)
_LIMIT: Final = re.compile(r"\blimit\b", re.IGNORECASE)
# Versions of the engine write a binary float with other digits.
_WRITES_NUMBERS: Final = re.compile(r"\|\||\bcast\b", re.IGNORECASE)
# A text in a snapshot that was a number there, or that was no text at all.
_DOUBTFUL: Final = re.compile(r"[+-]?(?:\d{16,}|inf|infinity|nan)", re.IGNORECASE)
_CREATING: Final = frozenset(
    {
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_VIEW,
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_REINDEX,
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_UPDATE,
    }
)


def rows_problem(
    definition: Mapping[str, Any],
    gathered: Mapping[str, Any],
    world: Mapping[str, Any],
    services: Mapping[str, Any],
) -> str | None:
    """Whether the sealed rows can have given what was gathered.

    Args:
        services: As the case declares them, normalised.

    Returns:
        None where they can, else the contradiction in words.

    Raises:
        UnavailableError: They do not tell.
    """
    config: Any = services.get(str(definition["service"])) or {}
    if config.get("type") != "sqlite":
        raise _silent("only SQLite is asked again")
    query = str(definition["query"])
    if not_reading(query, Dialect.SQLITE) is not None:
        raise _silent("the query does not only read")
    tables = _tables(world, str(definition["service"]))
    if gathered["is_cut"]:
        raise _silent("the result was cut")
    is_ordered = definition["compare"] in ("equals", "matcher") or (
        definition["compare"] == "rows" and not definition["unordered"]
    )
    params = _values(definition["params"])
    answers = [
        _answer(config, tables, query, params, number, is_ordered=is_ordered)
        for number in range(_ORDERS)
    ]
    first = answers[0]
    if any(not _is_same(first, other) for other in answers[1:]):
        raise _silent("the answer depends on an order that nothing gives")
    got = (list(gathered["columns"]), list(gathered["rows"]))
    if _is_same(first, got):
        return None
    if _LIMIT.search(query) or _is_same(_sorted(first), _sorted(got)):
        # Rows that are equal in what they are ordered by come in an order of the engine's own.
        raise _silent("the answer depends on an order that nothing gives")
    if _WRITES_NUMBERS.search(query):
        raise _silent("the query writes numbers as text")
    return f"the query gives {len(first[1])} rows there, and others were gathered"


_Answer = tuple[list[Any], list[Any]]


def _sorted(answer: _Answer) -> _Answer:
    return answer[0], sorted(answer[1], key=c1.text)


def _silent(why: str) -> UnavailableError:
    return UnavailableError(Cause.MISSING_EVIDENCE, why)


def _tables(world: Mapping[str, Any], name: str) -> dict[str, Mapping[str, Any]]:
    for service in world.get("services") or ():
        if service.get("name") == name and service.get("tables") is not None:
            return {str(table["name"]): table for table in service["tables"]}
    raise _silent("no tables are sealed")


def _values(params: Any) -> Any:
    def value(typed: Mapping[str, Any]) -> Any:
        if typed["t"] == "integer":
            return int(typed["v"])
        return Decimal(typed["v"]) if typed["t"] == "number" else typed["v"]

    if isinstance(params, Mapping):
        return {name: value(typed) for name, typed in params.items()}
    return [value(typed) for typed in params]


def _answer(
    config: Mapping[str, Any],
    tables: Mapping[str, Mapping[str, Any]],
    query: str,
    params: Any,
    number: int,
    *,
    is_ordered: bool,
) -> _Answer:
    """What the query gives with the rows put in in one order of many."""
    try:
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            _bound(connection)
            if number % 2:
                # What no ORDER BY gives comes the other way round, whichever index is there.
                connection.execute("PRAGMA reverse_unordered_selects = ON").close()
            _create(connection, config.get("init"))
            _fill(connection, tables, number)
            columns, rows = _ask(connection, query, params, tables)
    except (sqlite3.Error, OverflowError, ValueError) as error:
        raise _silent(f"the tables cannot be asked here ({type(error).__name__})") from None
    answer = columns, [[cell(value) for value in row] for row in rows]
    return answer if is_ordered else _sorted(answer)


def _bound(connection: sqlite3.Connection) -> None:
    for limit, most in (
        (sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0),
        (sqlite3.SQLITE_LIMIT_VDBE_OP, 100_000),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100),
        (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 20),
        (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
    ):
        connection.setlimit(limit, most)
    connection.execute("PRAGMA trusted_schema = OFF").close()
    connection.execute("PRAGMA ignore_check_constraints = ON").close()
    done = 0

    def step() -> int:
        nonlocal done
        done += 1
        return int(done > MAX_STEPS)

    connection.set_progress_handler(step, 1000)


def _create(connection: sqlite3.Connection, init: Any) -> None:
    """The schema alone; what fills it is in the sealed rows, and triggers are not wanted."""

    def guard(action: int, *named: str | None) -> int:
        if action == sqlite3.SQLITE_FUNCTION:
            return sqlite3.SQLITE_OK if named[1] in _FUNCTIONS else sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK if action in _CREATING else sqlite3.SQLITE_DENY

    connection.set_authorizer(guard)
    scripts = [init] if isinstance(init, str) else init or []
    for script in scripts:
        if not isinstance(script, str):
            raise _silent("a script of init is not enclosed")
        for statement in split(script, Dialect.SQLITE):
            word = first_word(statement.text, Dialect.SQLITE)
            if _CREATES.match(statement.text):
                connection.execute(statement.text).close()
            elif word not in _FILLS and not _TRIGGER.match(statement.text):
                raise _silent("init does more than to create tables and to fill them")
    connection.set_authorizer(None)


def _fill(
    connection: sqlite3.Connection, tables: Mapping[str, Mapping[str, Any]], number: int
) -> None:
    """Put in the rows of every table whose rows are all sealed."""
    shuffle = random.Random(number).shuffle  # noqa: S311 - an order, no secret
    for name, table in tables.items():
        own = '"' + name.replace('"', '""') + '"'
        connection.execute(f"DELETE FROM {own}").close()  # noqa: S608 - quoted
        info = connection.execute(f"PRAGMA table_info({own})").fetchall()
        if [column[1] for column in info] != table["columns"]:
            raise _silent("the tables are not those of init")
        rows = table["rows"]
        if rows is None or not rows:
            continue
        if len(rows) > _MAX_ROWS or len(rows) != table["count"]:
            raise _silent("too many rows are sealed")
        ordered = [list(row) for row in rows]
        if number == 1:
            ordered.reverse()
        elif number:
            shuffle(ordered)
        holes = ", ".join("?" for _ in info)
        connection.executemany(f"INSERT INTO {own} VALUES ({holes})", ordered)  # noqa: S608


def _ask(
    connection: sqlite3.Connection,
    query: str,
    params: Any,
    tables: Mapping[str, Mapping[str, Any]],
) -> tuple[list[Any], list[Any]]:
    refused: list[str] = []

    def guard(action: int, *named: str | None) -> int:
        why = _refusal(action, named, tables)
        if why is None:
            return sqlite3.SQLITE_OK
        refused.append(why)
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(guard)
    text, values = bind(query, params, Dialect.SQLITE, "?")
    numbers = [float(value) if isinstance(value, Decimal) else value for value in values]
    try:
        cursor = connection.execute(text, numbers)
        columns = [column[0] for column in cursor.description or ()]
        return columns, list(_bounded(cursor))
    except sqlite3.Error:
        if refused:
            raise _silent(refused[0]) from None
        raise


def _refusal(
    action: int, named: Sequence[str | None], tables: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """Why the sealed rows do not answer a query that does this."""
    if action == sqlite3.SQLITE_SELECT:
        return None
    if action == sqlite3.SQLITE_FUNCTION:
        return None if named[1] in _FUNCTIONS else f"the query calls {named[1]}"
    if action != sqlite3.SQLITE_READ:
        return "the query does more than to select"
    name, column = named[0] or "", named[1] or ""
    table = next((one for key, one in tables.items() if key.lower() == name.lower()), None)
    if table is None:
        # What a view or a query in brackets names is read from tables of its own.
        return "the query reads the schema" if name.startswith("sqlite_") else None
    if table["rows"] is None:
        return "a table's rows are not all sealed"
    if column.lower() == "rowid" and column not in table["columns"]:
        return "the query reads row ids"
    if any(_is_doubtful(value) for row in table["rows"] for value in row):
        return "a value is sealed in another form than it had"
    return None


def _is_doubtful(value: Any) -> bool:
    if isinstance(value, str):
        return _DOUBTFUL.fullmatch(value) is not None or holds_secret(value)
    return isinstance(value, dict | list | bool)


def _bounded(rows: Iterator[Any]) -> Iterator[Any]:
    for number, row in enumerate(rows):
        if number >= _MAX_ROWS:
            raise _silent("the query gives too many rows")
        yield row


def _is_same(one: _Answer, other: _Answer) -> bool:
    return one[0] == other[0] and (
        len(one[1]) == len(other[1])
        and all(
            len(row) == len(their_row) and all(map(_is_alike, row, their_row))
            for row, their_row in zip(one[1], other[1], strict=True)
        )
    )


def _is_alike(one: Any, other: Any) -> bool:
    """One value, sums of binary floats in another order included."""
    if one == other:
        return True
    if one["t"] != "float" or other["t"] != "float":
        return False
    return math.isclose(float(one["v"]), float(other["v"]), rel_tol=1e-9)

"""The rows that a ``sql`` check gathered, held against the sealed tables.

The tables are made again in memory, from the ``CREATE`` statements of ``init`` and the sealed rows,
and the query is asked again. Its text comes from a bundle that may be hostile: the engine may read
and nothing else, and no file is opened. Its work is bounded twice. Steps, rows, lengths and the
size of a program bound what happens between two looks at the clock, since the engine is not asked
to stop inside a step or a run of steps without a loop; and the clock bounds all questions of a
bundle together. Wherever this cannot
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
from dataclasses import dataclass
from decimal import Decimal
from time import monotonic
from typing import Any, Final

from pytest_evarness.checks.kind import UnavailableError
from pytest_evarness.core import c1
from pytest_evarness.core.matcher import holds_secret
from pytest_evarness.core.outcome import Cause
from pytest_evarness.world.sql.text import Dialect, bind, first_word, not_reading, split
from pytest_evarness.world.sql.value import cell

__all__ = ["MAX_SECONDS", "MAX_STEPS", "Budget", "rows_problem"]

MAX_STEPS: Final = 200_000
"""Instructions of the engine for one question in one order of the rows."""

MAX_SECONDS: Final = 10.0
"""Of all questions of a bundle."""

_SECONDS_EACH: Final = 2.0
_ORDERS: Final = 12
_MAX_ROWS: Final = 2000
_MAX_INIT: Final = 256 * 1024
_MAX_VALUE_BYTES: Final = 64 * 1024
_LEAST_VALUE_BYTES: Final = 1024
_MAX_VOLUME: Final = 256 * 1024 * 1024
"""Instructions times the bytes of the longest value: what a sorter may come to hold."""

_MAX_VIEWS: Final = 100
_MAX_EXPANDED: Final = 100_000
"""Times that one view or named query may stand in another, all in all."""

# Functions whose one call costs the product of the lengths of what they are given, and how long
# values, and a program, may then be.
_COSTLY: Final = frozenset({"glob", "instr", "like", "ltrim", "rtrim", "trim"})
_COSTLY_WORD: Final = re.compile(r"\b(?:glob|instr|like|[lr]?trim)\b", re.IGNORECASE)
_TRIM_WORD: Final = re.compile(r"trim\b", re.IGNORECASE)
_COSTLY_BYTES: Final = 1024
_TRIM_BYTES: Final = 256
_MAX_PATTERN: Final = 100
_MAX_PROGRAM: Final = 20_000
_COSTLY_PROGRAM: Final = 2000
_CREATES: Final = re.compile(r"\s*create\s+(?:table|view|(?:unique\s+)?index)\b", re.IGNORECASE)
_VIEW: Final = re.compile(r"\s*create\s+view\b", re.IGNORECASE)
_VIEW_NAME: Final = re.compile(
    r"""\s*create\s+view\s+(?:if\s+not\s+exists\s+)?["`\[]?(\w+)""", re.IGNORECASE
)
_WORD: Final = re.compile(r"\w+")
_NAMED_QUERY: Final = re.compile(r"\bas\W*\(|\bmaterialized\W*\(", re.IGNORECASE)
_AS: Final = re.compile(r"\bas\b", re.IGNORECASE)
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


class Budget:
    """The time that the questions of one bundle may take together."""

    def __init__(self, seconds: float = MAX_SECONDS) -> None:
        self._left = seconds
        self._end = 0.0

    @contextlib.contextmanager
    def question(self) -> Iterator[None]:
        """One question, in all orders of its rows."""
        begin = monotonic()
        self._end = begin + min(self._left, _SECONDS_EACH)
        try:
            yield
        finally:
            self._left -= monotonic() - begin

    def is_over(self) -> bool:
        """Whether the question has to be left as it is."""
        return monotonic() >= self._end

    def check(self) -> None:
        """Refuse to go on behind the end."""
        if self.is_over():
            raise _silent("it takes too long to ask here")


def rows_problem(
    definition: Mapping[str, Any],
    gathered: Mapping[str, Any],
    world: Mapping[str, Any],
    services: Mapping[str, Any],
    budget: Budget | None = None,
) -> str | None:
    """Whether the sealed rows can have given what was gathered.

    Args:
        services: As the case declares them, normalised.
        budget: Of the whole bundle.

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
    own = budget if budget is not None else Budget()
    with own.question():
        own.check()
        creates = _creates(config.get("init"))
        _check_nesting(query, creates, tables)
        question = _Question(creates, tables, query, params, own, {})
        answers = [_answer(question, number, is_ordered=is_ordered) for number in range(_ORDERS)]
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


@dataclass(frozen=True, slots=True)
class _Question:
    """A query and all that it is asked of.

    Attributes:
        creates: The statements that make the tables.
        doubtful: Names of tables to whether a value of theirs is sealed in another form; filled in
            as it is asked for.
    """

    creates: Sequence[str]
    tables: Mapping[str, Mapping[str, Any]]
    query: str
    params: Any
    budget: Budget
    doubtful: dict[str, bool]

    def is_doubtful(self, name: str) -> bool:
        """Whether a value of the table had another form than it is sealed in."""
        if name not in self.doubtful:
            rows = self.tables[name]["rows"]
            self.doubtful[name] = any(_is_doubtful(value) for row in rows for value in row)
        return self.doubtful[name]


def _creates(init: Any) -> list[str]:
    """The statements of ``init`` that make tables, views and indexes."""
    found = []
    scripts = [init] if isinstance(init, str) else init or []
    if sum(len(script) for script in scripts) > _MAX_INIT:
        raise _silent("init is too long")
    for script in scripts:
        if not isinstance(script, str):
            raise _silent("a script of init is not enclosed")
        for statement in split(script, Dialect.SQLITE):
            if _CREATES.match(statement.text):
                found.append(statement.text)
            elif first_word(statement.text, Dialect.SQLITE) not in _FILLS and not _TRIGGER.match(
                statement.text
            ):
                raise _silent("init does more than to create tables and to fill them")
    return found


def _check_nesting(
    query: str, creates: Sequence[str], tables: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse views and named queries inside each other that grow beyond all bounds.

    The engine writes each of them out wherever it is named, before it can be stopped. Words alone
    are counted, so that no quote hides any: more are counted than there are, never fewer.
    """
    views = [text for text in creates if _VIEW.match(text)]
    if len(views) > _MAX_VIEWS:
        raise _silent("init makes too many views")
    names = {text: found.group(1).lower() for text in views if (found := _VIEW_NAME.match(text))}
    if {name.lower() for name in tables} & set(names.values()):
        raise _silent("the tables are not those of init")
    taken, waiting = [query], [query]
    while waiting:
        here = waiting.pop().lower()
        for text in [one for one in views if names.get(one, "") in here]:
            views.remove(text)
            taken.append(text)
            waiting.append(text)
    words = sum(len(_WORD.findall(text)) for text in taken)
    named = len(taken) - 1
    for text in taken:
        has_comment = "/*" in text or "--" in text
        named += len((_AS if has_comment else _NAMED_QUERY).findall(text))
    if named > 1 and (named > 20 or (words / named) ** named > _MAX_EXPANDED):
        raise _silent("too many views and queries stand inside each other")


def _answer(question: _Question, number: int, *, is_ordered: bool) -> _Answer:
    """What the query gives with the rows put in in one order of many."""
    question.budget.check()
    try:
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            _bound(connection, question)
            if number % 2:
                # What no ORDER BY gives comes the other way round, whichever index is there.
                connection.execute("PRAGMA reverse_unordered_selects = ON").close()
            _create(connection, question)
            _fill(connection, question, number)
            columns, rows = _ask(connection, question)
    except (sqlite3.Error, OverflowError, ValueError, MemoryError) as error:
        # The engine says that memory is short where a program is longer than it may be.
        raise _silent(f"the tables cannot be asked here ({type(error).__name__})") from None
    answer = columns, [[cell(value) for value in row] for row in rows]
    return answer if is_ordered else _sorted(answer)


def _bound(connection: sqlite3.Connection, question: _Question) -> None:
    for limit, most in (
        (sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES),
        (sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MAX_VALUE_BYTES),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0),
        (sqlite3.SQLITE_LIMIT_COLUMN, 500),
        (sqlite3.SQLITE_LIMIT_VDBE_OP, _MAX_PROGRAM),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100),
        (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 20),
        (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _MAX_PATTERN),
    ):
        connection.setlimit(limit, most)
    connection.execute("PRAGMA trusted_schema = OFF").close()
    connection.execute("PRAGMA ignore_check_constraints = ON").close()
    _stop(connection, question.budget, MAX_STEPS, 1000)


def _stop(connection: sqlite3.Connection, budget: Budget, most: int, each: int) -> None:
    """Have the engine asked after every ``each`` steps whether it is to stop."""
    done = 0

    def step() -> int:
        nonlocal done
        done += each
        return int(done > most or budget.is_over())

    connection.set_progress_handler(step, each)


def _create(connection: sqlite3.Connection, question: _Question) -> None:
    """The schema alone; what fills it is in the sealed rows, and triggers are not wanted."""

    def guard(action: int, *named: str | None) -> int:
        if action == sqlite3.SQLITE_FUNCTION:
            # What a column or an index calls is called for every row, before lengths are cut down.
            is_known = named[1] in _FUNCTIONS and named[1] not in _COSTLY
            return sqlite3.SQLITE_OK if is_known else sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK if action in _CREATING else sqlite3.SQLITE_DENY

    connection.set_authorizer(guard)
    for text in question.creates:
        question.budget.check()
        connection.execute(text).close()
    connection.set_authorizer(None)


def _fill(connection: sqlite3.Connection, question: _Question, number: int) -> None:
    """Put in the rows of every table whose rows are all sealed."""
    shuffle = random.Random(number).shuffle  # noqa: S311 - an order, no secret
    count = 0
    for name, table in question.tables.items():
        question.budget.check()
        own = '"' + name.replace('"', '""') + '"'
        connection.execute(f"DELETE FROM {own}").close()  # noqa: S608 - quoted
        info = connection.execute(f"PRAGMA table_info({own})").fetchall()
        if [column[1] for column in info] != table["columns"]:
            raise _silent("the tables are not those of init")
        rows = table["rows"]
        if rows is None or not rows:
            continue
        count += len(rows)
        if count > _MAX_ROWS or len(rows) != table["count"]:
            raise _silent("too many rows are sealed")
        ordered = [list(row) for row in rows]
        if number == 1:
            ordered.reverse()
        elif number:
            shuffle(ordered)
        holes = ", ".join("?" for _ in info)
        connection.executemany(f"INSERT INTO {own} VALUES ({holes})", ordered)  # noqa: S608


def _ask(connection: sqlite3.Connection, question: _Question) -> tuple[list[Any], list[Any]]:
    refused: list[str] = []
    texts = [question.query, *(text for text in question.creates if _VIEW.match(text))]
    is_costly = any(_COSTLY_WORD.search(text) for text in texts)

    def guard(action: int, *named: str | None) -> int:
        why = _refusal(action, named, question)
        if action == sqlite3.SQLITE_FUNCTION and named[1] in _COSTLY and not is_costly:
            why = f"the query calls {named[1]} without naming it"
        if why is None:
            return sqlite3.SQLITE_OK
        refused.append(why)
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(guard)
    text, values = bind(question.query, question.params, Dialect.SQLITE, "?")
    numbers = [float(value) if isinstance(value, Decimal) else value for value in values]
    longest = _longest(question, numbers)
    if is_costly:
        longest = _TRIM_BYTES if any(map(_TRIM_WORD.search, texts)) else _COSTLY_BYTES
        connection.setlimit(sqlite3.SQLITE_LIMIT_VDBE_OP, _COSTLY_PROGRAM)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
    most = min(MAX_STEPS, _MAX_VOLUME // longest)
    _stop(connection, question.budget, most, 20 if is_costly else 1000)
    try:
        cursor = connection.execute(text, numbers)
        columns = [column[0] for column in cursor.description or ()]
        return columns, list(_bounded(cursor))
    except sqlite3.Error:
        if refused:
            raise _silent(refused[0]) from None
        raise


def _longest(question: _Question, values: Sequence[Any]) -> int:
    """How long a value of the answer may be: twice what the longest row holds."""
    rows = [row for table in question.tables.values() for row in table["rows"] or ()]
    held = max((sum(map(_size, row)) for row in (*rows, values)), default=0)
    return min(_MAX_VALUE_BYTES, max(_LEAST_VALUE_BYTES, 2 * held))


def _size(value: Any) -> int:
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else 10


def _refusal(action: int, named: Sequence[str | None], question: _Question) -> str | None:
    """Why the sealed rows do not answer a query that does this."""
    if action == sqlite3.SQLITE_SELECT:
        return None
    if action == sqlite3.SQLITE_FUNCTION:
        return None if named[1] in _FUNCTIONS else f"the query calls {named[1]}"
    if action != sqlite3.SQLITE_READ:
        return "the query does more than to select"
    name, column = named[0] or "", named[1] or ""
    own = next((key for key in question.tables if key.lower() == name.lower()), None)
    if own is None:
        # What a view or a query in brackets names is read from tables of its own.
        return "the query reads the schema" if name.startswith("sqlite_") else None
    table = question.tables[own]
    if table["rows"] is None:
        return "a table's rows are not all sealed"
    if column.lower() == "rowid" and column not in table["columns"]:
        return "the query reads row ids"
    if question.is_doubtful(own):
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

"""The check ``sql``: does the sealed database answer a query as expected?

Source: docs/checks/sql.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_evarness.checks.found import bounded, bounded_text, found
from pytest_evarness.checks.kind import (
    DEFAULT_TIMEOUT_SECONDS,
    CheckKind,
    Facts,
    Known,
    UnavailableError,
)
from pytest_evarness.checks.sqlvalue import (
    as_json,
    difference,
    expected_of,
    is_equal,
    named_cell,
    named_expected,
)
from pytest_evarness.core import c1
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.json import shown as shown_text
from pytest_evarness.core.matcher import Matcher, Operation, parse_matcher
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.triviality import triviality
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import unknown_key
from pytest_evarness.source.number import WrittenFloat
from pytest_evarness.source.quote import kind as kind_of
from pytest_evarness.source.quote import nearest, one_of, quoted, shown
from pytest_evarness.world.service import QueryError, takes_statements
from pytest_evarness.world.sql.base import ChangedError
from pytest_evarness.world.sql.text import Dialect, not_reading, placeholder_mistake
from pytest_evarness.world.sql.value import cell

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.world.sealed import Scene
    from pytest_evarness.world.service import QueryResult

__all__ = ["MAX_BYTES", "MAX_ROWS", "Sql"]

MAX_ROWS: Final = 1000
MAX_BYTES: Final = 256 * 1024
"""Of a result, in rows and in the bytes that they take in a bundle."""

_COMPARISONS: Final = ("equals", "matcher", "rows", "row_count", "empty")
_KEYS: Final = ("service", "query", "params", *_COMPARISONS, "unordered")
_COMPLEMENTS: Final = frozenset({"not", "not_contains", "none"})
_BOUND: Final = f"{MAX_ROWS} rows or {MAX_BYTES // 1024} KiB"
_SCALAR: Final[JsonObject] = {"type": ["null", "boolean", "number", "string"]}
_COUNT: Final[JsonObject] = {"type": "integer", "minimum": 0}
_MAX_TOLD: Final = 5

_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "type": {"const": "sql"},
        "service": {"type": "string", "description": "A database of environment.services."},
        "query": {"type": "string", "description": "One statement that reads."},
        "params": {
            "description": "Values for ? (a list) or :name (a mapping).",
            "anyOf": [
                {"type": "array", "items": _SCALAR},
                {"type": "object", "additionalProperties": _SCALAR},
            ],
        },
        "equals": {**_SCALAR, "description": "The first column of the first row."},
        "matcher": {"description": "A matcher over the first column of the first row."},
        "rows": {
            "description": "All rows: lists of values, or mappings of all columns.",
            "type": "array",
            "items": {
                "anyOf": [
                    {"type": "array", "items": _SCALAR},
                    {"type": "object", "additionalProperties": _SCALAR},
                ]
            },
        },
        "unordered": {"type": "boolean", "description": "Compare rows in any order."},
        "row_count": {"description": "How many rows: a number, or a matcher over it."},
        "empty": {"type": "boolean", "description": "Whether there is no row."},
    },
    "required": ["type", "service", "query"],
    "oneOf": [{"required": [name]} for name in _COMPARISONS],
    "additionalProperties": False,
}


class Sql(CheckKind):
    """Asks the sealed database and compares what it says."""

    @property
    def name(self) -> str:
        """``sql``."""
        return "sql"

    @property
    def schema(self) -> JsonObject:
        """For editors."""
        return _SCHEMA

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """See ``CheckKind.parse``; numbers stand in the definition as texts of their digits."""
        faults = [
            unknown_key((), key, _KEYS) for key in value if key not in _KEYS and key != "type"
        ]
        dialect = _dialect(value, known, faults)
        query = _query(value, dialect, faults)
        params = _params(value.get("params", []), faults)
        if query is not None and dialect is not None and params is not None:
            mistake = placeholder_mistake(query, params, dialect)
            if mistake is not None:
                at: tuple[str, ...] = ("params",) if "params" in value else ("query",)
                rule = "params: [..] fills ?, params: {name: ..} fills :name"
                faults.append(Fault(at, mistake, rule=rule))
        compare, expected = _comparison(value, faults)
        definition: dict[str, Json] = {
            "type": self.name,
            "service": value.get("service"),
            "query": query,
            "params": params,
            "compare": compare,
            "expected": expected,
            "unordered": value.get("unordered", False),
        }
        return ({} if faults else definition), faults

    def needs(self, definition: JsonObject) -> frozenset[str]:
        """The service."""
        return frozenset({f"service:{definition['service']}"})

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        """``{"columns", "rows": [[cell, ...], ...], "is_cut"}``."""
        name = str(definition["service"])
        service = scene.services[name]
        if service.problem is not None:
            raise UnavailableError(Cause.MISSING_EVIDENCE, f"{name}: {service.problem}")
        if not takes_statements(service):
            raise UnavailableError(
                Cause.EVALUATOR_ERROR, f"{name} is no database but a service of type {service.kind}"
            )
        seconds: Any = definition.get("timeout", DEFAULT_TIMEOUT_SECONDS)
        try:
            result = service.query(
                str(definition["query"]),
                _values(definition["params"]),
                seconds=float(seconds),
                max_rows=MAX_ROWS,
            )
        except ChangedError as error:
            raise UnavailableError(Cause.STALE_EVIDENCE, f"{name}: {error.reason}") from None
        except QueryError as error:
            raise UnavailableError(Cause.EVALUATOR_ERROR, f"{name}: {error.reason}") from None
        # A result that is asked for in no order has none.
        is_ordered = definition["compare"] in ("equals", "matcher") or (
            definition["compare"] == "rows" and not definition["unordered"]
        )
        return _record(result, is_ordered=is_ordered)

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """See ``CheckKind.judge``."""
        definition: Any = item.definition
        rows: Any = gathered["rows"]
        if gathered["is_cut"] and item.gate:
            raise UnavailableError(
                Cause.MISSING_EVIDENCE,
                f"the result has more than {_BOUND}, and a gate records all of it: "
                "let the query count or choose",
            )
        answer = _JUDGES[definition["compare"]](definition, gathered)
        if answer.cause is not None:
            raise UnavailableError(answer.cause, answer.reason)
        service, query = definition["service"], definition["query"]
        place = f"service {service} ({_kind_of(facts, service)}), sealed"
        there = f"more than {_BOUND}" if gathered["is_cut"] else _counted(len(rows))
        return found(
            item,
            Outcome.PASS if answer.holds else Outcome.FAIL,
            bounded_text(answer.reason),
            witness=bounded(
                Witness(
                    expected=answer.expected,
                    observed=answer.observed,
                    entries=() if answer.holds else tuple(_row_line(row) for row in rows),
                    absent=() if rows else (f"no row for {shown_text(query, 200)}",),
                )
            ),
            looked_at=(f"{place}: {there} for {shown_text(query, 300)}",),
        )


# -- reading ---------------------------------------------------------------------------------------


def _dialect(value: Mapping[str, Json], known: Known, faults: list[Fault]) -> Dialect | None:
    """Of the service that is named, where it is a database of this scenario."""
    databases = [name for name, kind in known.services.items() if kind in tuple(Dialect)]
    rule = f"databases: {one_of(databases) or 'none'}"
    name = value.get("service")
    if not isinstance(name, str):
        if "service" in value:
            faults.append(
                Fault(("service",), f"must be text, is {kind_of(name)}", shown(name), rule)
            )
        else:
            problem = "required key 'service' is missing"
            faults.append(Fault((), problem, rule=rule, code="missing_key"))
        return None
    kind = known.services.get(name)
    if kind is None:
        near = nearest(name, databases)
        problem = "names no service of environment.services"
        fix = f"write '{near}'" if near else None
        faults.append(Fault(("service",), problem, quoted(name), rule, fix))
        return None
    if not kind:
        return None  # a type that nobody can guess, which is told where it stands
    if kind not in tuple(Dialect):
        problem = f"is no database but a service of type {kind}"
        faults.append(Fault(("service",), problem, quoted(name), rule))
        return None
    return Dialect(kind)


def _query(value: Mapping[str, Json], dialect: Dialect | None, faults: list[Fault]) -> str | None:
    query = value.get("query")
    rule = "one statement that reads"
    if not isinstance(query, str):
        if "query" in value:
            faults.append(
                Fault(("query",), f"must be text, is {kind_of(query)}", shown(query), rule)
            )
        else:
            faults.append(
                Fault((), "required key 'query' is missing", rule=rule, code="missing_key")
            )
        return None
    refused = not_reading(query, dialect or Dialect.SQLITE) if query.strip() else "it is empty"
    if refused is not None and (dialect is not None or not query.strip()):
        problem = f"must be one statement that reads: {refused}"
        faults.append(Fault(("query",), problem, shown(query, 80)))
        return None
    return query


def _params(value: Json, faults: list[Fault]) -> Any:
    """Typed values in a list or a mapping; None where there is a fault."""
    if isinstance(value, Mapping):
        pairs: list[tuple[str | int, Json]] = list(value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        pairs = list(enumerate(value))
    else:
        rule = "[..] for ?, {name: ..} for :name"
        faults.append(
            Fault(
                ("params",), f"must be a list or a mapping, is {kind_of(value)}", shown(value), rule
            )
        )
        return None
    made: dict[str | int, Json] = {}
    for key, entry in pairs:
        typed = expected_of(entry)
        if typed is None:
            rule = "text, a number, true, false or null"
            faults.append(Fault(("params", key), "is no value of a column", shown(entry), rule))
            return None
        made[key] = typed
    return made if isinstance(value, Mapping) else list(made.values())


def _comparison(value: Mapping[str, Json], faults: list[Fault]) -> tuple[str, Json]:
    named = [name for name in _COMPARISONS if name in value]
    unordered = value.get("unordered", False)
    if not isinstance(unordered, bool):
        faults.append(Fault(("unordered",), "must be true or false", shown(unordered)))
    elif "unordered" in value and "rows" not in value:
        faults.append(
            Fault(("unordered",), "says nothing without rows", fix="remove it", at_key=True)
        )
    if len(named) != 1:
        rule = f"exactly one of {', '.join(_COMPARISONS)}"
        problem = "compares the result with nothing" if not named else "compares it twice"
        got = ", ".join(named) or None
        fix = (
            None if named else "to expect NULL write 'equals: null', to expect no row 'empty: true'"
        )
        faults.append(
            Fault((), problem, got, rule, fix, code="invalid" if named else "missing_key")
        )
        return "", None
    name = named[0]
    return name, _READERS[name](value[name], faults)


def _read_equals(value: Json, faults: list[Fault]) -> Json:
    typed = expected_of(value)
    if typed is None:
        rule = "a value of one column: text, a number, true, false or null"
        fix = "write it under 'matcher'" if isinstance(value, Mapping) else None
        if isinstance(value, Sequence) and not isinstance(value, str):
            fix = "to compare rows write 'rows'"
        faults.append(Fault(("equals",), "is no value of a column", shown(value), rule, fix))
    return typed


def _read_matcher(value: Json, faults: list[Fault]) -> Json:
    matcher = _parsed_matcher(value, "matcher", faults)
    if matcher is None:
        return None
    if any(one.name == "secret" for one in matcher.operations):
        problem = "asks for the placeholder of a secret, and a check sees the true value"
        faults.append(Fault(("matcher", "secret"), problem, at_key=True))
        return None
    _check_weight(matcher, _SCALAR, "matcher", value, faults)
    return _with_digits(value)


def _read_count(value: Json, faults: list[Fault]) -> Json:
    matcher = _parsed_matcher(value, "row_count", faults)
    if matcher is None:
        return None
    _check_weight(matcher, _COUNT, "row_count", value, faults)
    return _with_digits(value)


def _parsed_matcher(value: Json, key: str, faults: list[Fault]) -> Matcher | None:
    matcher, found_in = parse_matcher(value)
    faults += [fault.under(key) for fault in found_in]
    return matcher


def _check_weight(
    matcher: Matcher, schema: JsonObject, key: str, value: Json, faults: list[Fault]
) -> None:
    answer = triviality(matcher, schema)
    if answer is not None:
        says = "holds whatever the result is" if answer == "always" else "can never hold"
        faults.append(Fault((key,), says, shown(value, 60), "it would decide nothing"))


def _read_rows(value: Json, faults: list[Fault]) -> Json:
    if not isinstance(value, Sequence) or isinstance(value, str):
        rule = "a list of rows"
        faults.append(Fault(("rows",), f"must be a list, is {kind_of(value)}", shown(value), rule))
        return None
    if len(value) > MAX_ROWS:
        rule = f"at most {MAX_ROWS}"
        faults.append(Fault(("rows",), "expects too many rows", str(len(value)), rule))
    made: list[Json] = []
    for place, row in enumerate(value):
        if isinstance(row, Mapping) and row:
            pairs: list[tuple[str | int, Json]] = list(row.items())
        elif isinstance(row, Sequence) and not isinstance(row, str) and row:
            pairs = list(enumerate(row))
        else:
            rule = "a list of values, or a mapping of all columns"
            fix = f"write [{shown(row)}]" if isinstance(row, str | int | float | None) else None
            faults.append(Fault(("rows", place), "is no row", shown(row), rule, fix))
            continue
        typed: dict[str | int, Json] = {}
        for key, entry in pairs:
            typed[key] = expected_of(entry)
            if typed[key] is None:
                rule = "text, a number, true, false or null"
                where = ("rows", place, key)
                faults.append(Fault(where, "is no value of a column", shown(entry), rule))
        made.append(
            {str(key): entry for key, entry in typed.items()}
            if isinstance(row, Mapping)
            else list(typed.values())
        )
    return made


def _read_empty(value: Json, faults: list[Fault]) -> Json:
    if not isinstance(value, bool):
        faults.append(Fault(("empty",), "must be true or false", shown(value)))
    return value


_READERS: Final = {
    "equals": _read_equals,
    "matcher": _read_matcher,
    "rows": _read_rows,
    "row_count": _read_count,
    "empty": _read_empty,
}


def _with_digits(value: Json) -> str:
    """A matcher as a JSON text in which every number has the digits that were written."""
    if isinstance(value, WrittenFloat):
        # What YAML writes and JSON does not: a plus sign, a dot without a digit beside it.
        sign = "-" if value.written.startswith("-") else ""
        digits = value.written.lstrip("+-").lower().replace("_", "")
        whole, mark, power = digits.partition("e")
        before, _, after = whole.partition(".")
        return f"{sign}{before.lstrip('0') or '0'}.{after or '0'}{mark}{power}"
    if isinstance(value, Mapping):
        inner = ",".join(f"{json.dumps(key)}:{_with_digits(part)}" for key, part in value.items())
        return f"{{{inner}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{','.join(_with_digits(part) for part in value)}]"
    return json.dumps(value)


def _matcher_of(definition: Mapping[str, Any]) -> Matcher:
    matcher, _ = parse_matcher(json.loads(definition["expected"], parse_float=WrittenFloat))
    assert matcher is not None, "the loader has read it"
    return matcher


# -- asking ----------------------------------------------------------------------------------------


def _values(params: Any) -> Any:
    """Typed values as drivers take them."""
    if isinstance(params, Mapping):
        return {name: _value(typed) for name, typed in params.items()}
    return [_value(typed) for typed in params]


def _value(typed: Mapping[str, Any]) -> Any:
    if typed["t"] == "integer":
        return int(typed["v"])
    return Decimal(typed["v"]) if typed["t"] == "number" else typed["v"]


def _record(result: QueryResult, *, is_ordered: bool) -> JsonObject:
    rows: list[Json] = []
    size = 0
    is_cut = result.is_cut
    for row in result.rows:
        cells: list[Json] = [cell(value) for value in row]
        size += len(c1.text(cells)) + 1
        if size > MAX_BYTES - _MARGIN:
            is_cut = True
            break
        rows.append(cells)
    if not is_ordered:
        rows.sort(key=c1.text)
    return {"columns": list(result.columns), "rows": rows, "is_cut": is_cut}


_MARGIN: Final = 16 * 1024
"""For the names of columns and the rest of the record."""


# -- judging ---------------------------------------------------------------------------------------


class _Answer:
    """How a comparison came out.

    Attributes:
        holds: Whether it holds; of no meaning where there is a cause.
        cause: Why it is undecided.
    """

    __slots__ = ("cause", "expected", "holds", "observed", "reason")

    def __init__(
        self,
        holds: bool,
        reason: str,
        *,
        expected: str | None = None,
        observed: str | None = None,
        cause: Cause | None = None,
    ) -> None:
        self.holds = holds
        self.reason = reason
        self.expected = expected
        self.observed = observed
        self.cause = cause


def _cut() -> _Answer:
    reason = f"the result has more than {_BOUND}: what was read does not decide"
    return _Answer(False, reason, cause=Cause.MISSING_EVIDENCE)


def _first(gathered: JsonObject) -> tuple[Any, str]:
    """The first column of the first row (None for no row), and which one it was of several."""
    rows: Any = gathered["rows"]
    if not rows:
        return None, ""
    many = f"of {len(rows)} rows" if len(rows) > 1 else ""
    if gathered["is_cut"]:
        many = "of many rows"
    parts = [part for part in (f"first {many}" if many else "",) if part]
    if len(rows[0]) > 1:
        columns: Any = gathered["columns"]
        parts.append(f"column {shown_text(columns[0], 60)} of {len(rows[0])}")
    return rows[0][0], f" ({', '.join(parts)})" if parts else ""


def _judge_equals(definition: Mapping[str, Any], gathered: JsonObject) -> _Answer:
    expected = definition["expected"]
    wanted = named_expected(expected)
    met, where = _first(gathered)
    if met is None:
        if gathered["is_cut"]:
            return _cut()
        return _Answer(
            False,
            f"expected {wanted}, got no row",
            expected=wanted,
            observed="no row",
        )
    if is_equal(expected, met):
        return _Answer(True, f"the query gives {named_cell(met)}, as expected{where}")
    return _Answer(
        False,
        f"{difference(expected, met)}{where}",
        expected=wanted,
        observed=named_cell(met),
    )


def _judge_matcher(definition: Mapping[str, Any], gathered: JsonObject) -> _Answer:
    matcher = _matcher_of(definition)
    wanted = matcher.describe()
    met, where = _first(gathered)
    if met is None:
        if gathered["is_cut"]:
            return _cut()
        return _Answer(
            False,
            f"expected a value {wanted}, got no row",
            expected=wanted,
            observed="no row",
        )
    missed: list[str] = []
    for operation in matcher.operations:
        held, why, cause = _held(operation, met)
        if held is None:
            return _Answer(False, f"{named_cell(met)}: {why}", cause=cause)
        if not held:
            missed.append(why)
    if not missed:
        return _Answer(True, f"the query gives {named_cell(met)}, which is {wanted}{where}")
    return _Answer(
        False,
        f"got {named_cell(met)}, which {' and '.join(missed)}{where}",
        expected=wanted,
        observed=named_cell(met),
    )


def _held(operation: Operation, met: Mapping[str, Any]) -> tuple[bool | None, str, Cause | None]:
    """Whether one operation holds of a value or of its twin: 1 and true are the same here."""
    one = Matcher((operation,))
    answers = [one.test(form) for form in as_json(met)]
    verdicts = [answer.held for answer in answers]
    broken = next(
        (
            answer
            for answer in answers
            if answer.held is None and answer.cause is not Cause.MALFORMED_EVIDENCE
        ),
        None,
    )
    if broken is not None:
        return None, broken.why, broken.cause
    holds = (
        all(verdict is True for verdict in verdicts)
        if operation.name in _COMPLEMENTS
        else any(verdict is True for verdict in verdicts)
    )
    if not holds and all(verdict is None for verdict in verdicts):
        # Of another type than the operator takes: a check fails, and says so.
        return False, f"has another type: {answers[0].why}", None
    return holds, operation.sentence(holds), None


def _judge_count(definition: Mapping[str, Any], gathered: JsonObject) -> _Answer:
    if gathered["is_cut"]:
        return _cut()
    matcher = _matcher_of(definition)
    rows: Any = gathered["rows"]
    met = _counted(len(rows))
    wanted = f"a number of rows {matcher.describe()}"
    if matcher.test(len(rows)).held is True:
        return _Answer(True, f"the query gives {met}, as expected")
    return _Answer(False, f"expected {wanted}, got {met}", expected=wanted, observed=met)


def _judge_empty(definition: Mapping[str, Any], gathered: JsonObject) -> _Answer:
    rows: Any = gathered["rows"]
    is_empty = not rows and not gathered["is_cut"]
    some = f"more than {_BOUND}" if gathered["is_cut"] else _counted(len(rows))
    observed = "no row" if is_empty else some
    if is_empty == definition["expected"]:
        return _Answer(True, f"the query gives {observed}, as expected")
    wanted = "no row" if definition["expected"] else "at least one row"
    return _Answer(False, f"expected {wanted}, got {observed}", expected=wanted, observed=observed)


def _judge_rows(definition: Mapping[str, Any], gathered: JsonObject) -> _Answer:
    expected: Any = definition["expected"]
    rows: Any = gathered["rows"]
    columns: Any = gathered["columns"]
    wanted = _counted(len(expected))
    unfit = next((why for row in expected if (why := _unfit(row, columns))), None)
    if unfit is not None:
        return _Answer(False, unfit, expected=wanted, observed=f"columns {_listed(columns)}")
    lists = [_as_list(row, columns) for row in expected]
    if gathered["is_cut"] and len(expected) > len(rows):
        return _cut()
    compare = _unordered if definition["unordered"] else _ordered
    wrong = list(compare(lists, rows, columns))
    if len(lists) != len(rows) or gathered["is_cut"]:
        met = f"more than {_BOUND}" if gathered["is_cut"] else _counted(len(rows))
        wrong.insert(0, f"expected {wanted}, got {met}")
    if not wrong:
        are = "is" if wanted == "1 row" else "are"
        return _Answer(True, f"the query gives the {wanted} that {are} expected")
    told = "; ".join(wrong[:_MAX_TOLD])
    left = len(wrong) - _MAX_TOLD
    return _Answer(
        False,
        told if left <= 0 else f"{told}; and {left} more",
        expected="; ".join(_expected_line(row) for row in lists[:20]) or "no row",
        observed=_counted(len(rows)),
    )


def _unfit(row: Any, columns: Sequence[str]) -> str | None:
    """Why an expected row cannot be one of the result's."""
    if isinstance(row, Mapping):
        if len(set(columns)) != len(columns):
            return f"two columns have one name, so rows are written as lists ({_listed(columns)})"
        lacking = [name for name in row if name not in columns]
        left_out = [name for name in columns if name not in row]
        if lacking:
            return f"no column {quoted(lacking[0])} in the result (columns {_listed(columns)})"
        if left_out:
            return f"column {quoted(left_out[0])} is not in the expected row"
        return None
    if len(row) != len(columns):
        return f"an expected row has {len(row)} values, the result {len(columns)} columns"
    return None


def _as_list(row: Any, columns: Sequence[str]) -> list[Any]:
    return [row[name] for name in columns] if isinstance(row, Mapping) else list(row)


def _ordered(expected: list[Any], rows: Any, columns: Sequence[str]) -> Iterator[str]:
    for number, (wanted, met) in enumerate(zip(expected, rows, strict=False), 1):
        for name, one, other in zip(columns, wanted, met, strict=True):
            if not is_equal(one, other):
                yield f"row {number}, column {quoted(name)}: {difference(one, other)}"
    for number in range(len(rows) + 1, len(expected) + 1):
        yield f"row {number} is not there: {_expected_line(expected[number - 1])}"
    for number in range(len(expected) + 1, len(rows) + 1):
        yield f"row {number} was not expected: {_row_line(rows[number - 1])}"


def _unordered(expected: list[Any], rows: Any, columns: Sequence[str]) -> Iterator[str]:
    del columns
    taken = _paired(expected, rows)
    for number, wanted in enumerate(expected):
        if number not in taken:
            yield f"no row is {_expected_line(wanted)}"
    used = set(taken.values())
    for number, met in enumerate(rows):
        if number not in used:
            yield f"a row was not expected: {_row_line(met)}"


def _paired(expected: list[Any], rows: Any) -> dict[int, int]:
    """As many expected rows as possible, each with a row of its own.

    Two rows may be equal to one expected row and not to each other (0.1 as a decimal and as a
    binary float), so a row that was given away is taken back where its owner finds another.
    """
    fits = [
        [
            place
            for place, met in enumerate(rows)
            if all(is_equal(one, other) for one, other in zip(wanted, met, strict=True))
        ]
        for wanted in expected
    ]
    owner: dict[int, int] = {}
    for start in range(len(expected)):
        came: dict[int, int] = {}
        pending = [start]
        free = None
        while pending and free is None:
            wanted = pending.pop()
            for place in fits[wanted]:
                if place in came:
                    continue
                came[place] = wanted
                if place not in owner:
                    free = place
                    break
                pending.append(owner[place])
        held = {wanted: place for place, wanted in owner.items()}
        while free is not None:
            wanted = came[free]
            before = held.get(wanted)
            owner[free] = wanted
            free = before
    return {wanted: place for place, wanted in owner.items()}


def _counted(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def _expected_line(row: Sequence[Mapping[str, Any]]) -> str:
    return bounded_text(f"[{', '.join(named_expected(one) for one in row)}]", 300)


def _row_line(row: Sequence[Mapping[str, Any]]) -> str:
    return bounded_text(f"[{', '.join(named_cell(one) for one in row)}]", 300)


def _listed(columns: Sequence[str]) -> str:
    return one_of([quoted(name) for name in columns])


def _kind_of(facts: Facts, service: str) -> str:
    services = cast("Sequence[Any]", facts.world.get("services") or [])
    return next((str(one["type"]) for one in services if one.get("name") == service), "database")


_JUDGES: Final = {
    "equals": _judge_equals,
    "matcher": _judge_matcher,
    "rows": _judge_rows,
    "row_count": _judge_count,
    "empty": _judge_empty,
}

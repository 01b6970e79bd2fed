"""The check ``sql``: what is equal, what is not, and how each is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.checks.kind import Facts, Known, UnavailableError
from pytest_evarness.checks.sql import MAX_ROWS, Sql, _paired
from pytest_evarness.checks.sqlvalue import difference, expected_of, is_equal
from pytest_evarness.core import c1
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import Registry
from pytest_evarness.source.document import parse_yaml
from pytest_evarness.source.number import WrittenFloat
from pytest_evarness.world.service import QueryError, QueryResult
from pytest_evarness.world.sql.value import Dated, cell
from tests.world.sql.engines import ENGINES, opener

KIND = Sql()
SERVICES = {"db": "sqlite", "pg": "postgres", "my": "mysql", "api": "http_mock"}
KNOWN = Known(
    services=SERVICES,
    has_workspace=False,
    secrets=frozenset(),
    read=lambda reference: (None, None),
    ids={},
    environment={},
    registry=Registry(),
)


def written(text: str) -> dict[str, Any]:
    """A check as a scenario writes it, numbers with their digits."""
    value: Any = parse_yaml(text).value
    assert isinstance(value, Mapping)
    return {"service": "db", **value}


def parsed(
    check: str | Mapping[str, Any], services: Mapping[str, str] = SERVICES
) -> dict[str, Any]:
    """The definition as it is sealed."""
    value = written(check) if isinstance(check, str) else dict(check)
    known = Known(services, False, frozenset(), KNOWN.read, {}, {}, Registry())
    definition, faults = KIND.parse(value, known)
    assert not faults, faults
    sealed: dict[str, Any] = c1.thaw(c1.text(definition))
    return sealed


def item(definition: Mapping[str, Any], *, gate: bool = False) -> PlannedItem:
    return PlannedItem(id="i", kind="sql", gate=gate, definition=definition)


def facts_of(kind: str) -> Facts:
    return Facts({"services": [{"name": "db", "type": kind}]}, (), "completed", None, {})


class Answered:
    """A sealed database that gives what it is told to."""

    kind = "sqlite"
    name = "db"

    def __init__(self, rows: Any, columns: tuple[str, ...] = ("v",), **more: Any) -> None:
        self.rows = tuple(rows)
        self.columns = columns
        self.problem = more.get("problem")
        self.error = more.get("error")
        self.is_cut = more.get("is_cut", False)
        self.asked: list[Any] = []

    def query(self, query: str, params: Any, *, seconds: float, max_rows: int) -> QueryResult:
        self.asked.append((query, params, seconds, max_rows))
        if self.error is not None:
            raise self.error
        return QueryResult(self.columns, self.rows, self.is_cut)

    def __getattr__(self, name: str) -> Any:
        # The rest of what a database is; nobody here calls it.
        if name in ("start", "address", "seal", "snapshot", "copy", "close", "execute"):
            return lambda *words: None
        raise AttributeError(name)


def ask(check: str | Mapping[str, Any], service: Any, *, gate: bool = False) -> Any:
    definition = parsed(check)
    scene: Any = SimpleNamespace(services={"db": service})
    gathered = KIND.gather(definition, scene)
    again: Any = c1.thaw(c1.text(gathered))
    return KIND.judge(item(definition, gate=gate), again, facts_of(service.kind))


def told(check: str, *rows: Any, **more: Any) -> tuple[Outcome, str]:
    found = ask("query: SELECT v FROM t\n" + check, Answered(rows, **more))
    return found.outcome, found.reason


PASS, FAIL = Outcome.PASS, Outcome.FAIL


# -- the handed cases, on every engine -------------------------------------------------------------

INIT = """
CREATE TABLE t (v INTEGER); INSERT INTO t VALUES (NULL);
CREATE TABLE e (v INTEGER);
CREATE TABLE orders (id INTEGER PRIMARY KEY, paid BOOLEAN, n INTEGER, day DATE,
    seen TIMESTAMP NULL, price DECIMAL(10, 4), name VARCHAR(20));
INSERT INTO orders VALUES (1, TRUE, 2, '2026-01-31', '2026-01-31 10:00:00', 1299.5, 'Zoë');
"""


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """``databases(kind)``: sealed, the same for all tests of the module."""
    folder = tmp_path_factory.mktemp("databases")
    made: dict[str, Any] = {}
    with opener(folder, folder) as make:

        def of(kind: str) -> Any:
            if kind not in made:
                made[kind] = make(kind, INIT)
                assert made[kind].problem is None
                made[kind].seal()
            return made[kind]

        yield of


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize(
    ("query", "equals", "outcome", "reason"),
    [
        # SQL-01
        ("SELECT v FROM t", "null", PASS, "the query gives NULL, as expected"),
        ("SELECT v FROM t", '"null"', FAIL, 'expected text "null", got NULL'),
        ("SELECT v FROM e", "null", FAIL, "expected NULL, got no row"),
        ("SELECT sum(v) FROM e", "0", FAIL, "expected integer 0, got NULL"),
        ("SELECT count(*) FROM e", "0", PASS, "the query gives integer 0, as expected"),
        ("SELECT v FROM t", '""', FAIL, 'expected text "", got NULL'),
        ("SELECT ''", '""', PASS, 'the query gives text "", as expected'),
        # SQL-03
        ("SELECT paid FROM orders", "true", PASS, None),
        ("SELECT paid FROM orders", "1", PASS, None),
        ("SELECT paid FROM orders", "1.0", PASS, None),
        ("SELECT paid FROM orders", "false", FAIL, None),
        ("SELECT paid FROM orders", "0", FAIL, None),
        ("SELECT n FROM orders", "true", FAIL, "expected boolean true, got integer 2"),
        ("SELECT paid FROM orders", '"true"', FAIL, None),
        ("SELECT count(*) FROM e", "false", PASS, None),
        # SQL-06
        ("SELECT 40711", '"40711"', FAIL, 'expected text "40711", got integer 40711'),
        ("SELECT '40711'", "40711", FAIL, 'expected integer 40711, got text "40711"'),
        # the rest of what the engines have in common
        ("SELECT price FROM orders", "1299.5", PASS, None),
        ("SELECT price FROM orders", "1299.50000", PASS, None),
        ("SELECT price FROM orders", "1299.51", FAIL, None),
        ("SELECT price FROM orders", '"1299.5"', FAIL, None),
        ("SELECT day FROM orders", '"2026-01-31"', PASS, None),
        ("SELECT day FROM orders", "2026-01-31", PASS, None),
        ("SELECT seen FROM orders", '"2026-01-31 10:00:00"', PASS, None),
        ("SELECT seen FROM orders", '"2026-01-31 10:00:01"', FAIL, None),
        ("SELECT name FROM orders", "Zoë", PASS, None),
        ("SELECT name FROM orders", "zoë", FAIL, None),
    ],
)
def test_the_verdict_is_the_same_on_every_engine(
    databases: Any, kind: str, query: str, equals: str, outcome: Outcome, reason: str | None
) -> None:
    found = ask(f"query: {query!r}\nequals: {equals}", databases(kind))
    assert found.outcome is outcome, found.reason
    if reason is not None:
        assert found.reason == reason
    assert found.looked_at[0].startswith(f"service db ({kind}), sealed: ")


SERVER = [engine for engine in ENGINES if engine != "sqlite"]


@pytest.mark.parametrize("kind", SERVER)
@pytest.mark.parametrize(
    ("query", "equals", "outcome", "reason"),
    [
        ("SELECT CAST(1299.5 AS DECIMAL(10,4))", "1299.5", PASS, None),
        ("SELECT CAST(3 AS DECIMAL(4,1))", "3", PASS, "the query gives decimal 3.0, as expected"),
        ("SELECT CAST(0.1 AS DECIMAL(4,1))", "0.1", PASS, None),
        (
            "SELECT CAST(12345678901234567.89 AS DECIMAL(20,2))",
            "12345678901234567.88",
            FAIL,
            "expected number 12345678901234567.88, got decimal 12345678901234567.89",
        ),
        ("SELECT CAST(12345678901234567.89 AS DECIMAL(20,2))", "12345678901234567.89", PASS, None),
    ],
)
def test_a_decimal_is_compared_by_its_digits(
    databases: Any, kind: str, query: str, equals: str, outcome: Outcome, reason: str | None
) -> None:
    found = ask(f"query: {query}\nequals: {equals}", databases(kind))
    assert (found.outcome, found.reason) == (outcome, reason or found.reason)


def test_a_binary_float_is_shown_in_full(databases: Any) -> None:
    found = ask("query: SELECT 0.1 + 0.2\nequals: 0.3", databases("sqlite"))
    assert found.outcome is FAIL
    assert found.reason == "expected number 0.3, got floating point 0.30000000000000004"
    assert ask("query: SELECT 0.1\nequals: 0.1", databases("sqlite")).outcome is PASS
    assert ask("query: SELECT 0.1\nequals: 1e-1", databases("sqlite")).outcome is PASS


@pytest.mark.parametrize("kind", ENGINES)
def test_matchers_and_rows_are_the_same_on_every_engine(databases: Any, kind: str) -> None:
    def outcome(check: str) -> Outcome:
        result: Outcome = ask(check, databases(kind)).outcome
        return result

    paid = "query: SELECT paid FROM orders\n"
    assert outcome(paid + "matcher: {equals: true}") is PASS
    assert outcome(paid + "matcher: {equals: 1}") is PASS
    assert outcome(paid + "matcher: {in: [true, x]}") is PASS
    assert outcome(paid + "matcher: {not: true}") is FAIL
    assert outcome(paid + "matcher: {not: 1}") is FAIL
    assert outcome(paid + "matcher: {not: 2}") is PASS
    assert outcome("query: SELECT n FROM orders\nmatcher: {equals: true}") is FAIL
    price = "query: SELECT price FROM orders\n"
    assert outcome(price + "matcher: {gte: 1299.5, lt: 1299.51}") is PASS
    assert outcome(price + "matcher: {gt: 1299.5}") is FAIL
    assert outcome(price + "matcher: {contains: '9'}") is FAIL
    seen = "query: SELECT seen FROM orders\n"
    assert outcome(seen + 'matcher: {pattern: "^2026-01-31 1"}') is PASS
    row = "query: SELECT id, paid, price, day FROM orders WHERE id = :id\nparams: {id: 1}\n"
    assert outcome(row + 'rows: [[1, true, 1299.5, "2026-01-31"]]') is PASS
    assert outcome(row + "rows: [{id: 1, price: 1299.5, day: 2026-01-31, paid: 1}]") is PASS
    assert outcome(row + 'rows: [[1, true, 1299.4, "2026-01-31"]]') is FAIL
    assert outcome("query: SELECT 1 FROM e\nempty: true") is PASS
    assert outcome("query: SELECT 1 FROM t\nrow_count: 1") is PASS
    assert (
        outcome("query: SELECT name FROM orders WHERE name = ?\nparams: [Zoë]\nequals: Zoë") is PASS
    )


# -- equality --------------------------------------------------------------------------------------


def equal(value: Any, column: Any) -> bool:
    expected = expected_of(value)
    assert expected is not None
    return is_equal(expected, cell(column))


@pytest.mark.parametrize(
    ("value", "equals", "differs"),
    [
        (None, [None], ["", "null", 0, False]),
        ("", [""], [None, " ", 0, b""]),
        ("1", ["1"], [1, 1.0, Decimal(1), b"1", True]),
        (1, [1, 1.0, Decimal("1.00"), True], ["1", 2, False, None, b"\x01"]),
        (0, [0, 0.0, Decimal("0.0"), False], [None, "", "0", True]),
        (True, [True, 1, 1.0, Decimal(1)], [2, "true", "1", False, None]),
        (False, [False, 0, Decimal(0)], [None, "", 1]),
        (WrittenFloat("0.1"), [0.1, Decimal("0.10")], ["0.1", 0.1 + 2**-53, Decimal("0.11")]),
        (WrittenFloat("1e3"), [1000, Decimal(1000), 1000.0], [1001]),
        (WrittenFloat("1.0"), [True, 1], [2]),
        (2**60 + 1, [2**60 + 1, Decimal(2**60 + 1)], [2**60]),
        (
            "2026-01-31 10:00:00",
            ["2026-01-31 10:00:00", Dated("2026-01-31 10:00:00", "timestamp")],
            ["2026-01-31T10:00:00"],
        ),
        (
            "2026-01-31T10:00:00",
            ["2026-01-31T10:00:00", Dated("2026-01-31 10:00:00", "timestamp")],
            ["2026-01-31 10:00:00", Dated("2026-01-31", "date")],
        ),
        ("NaN", ["NaN"], [float("nan"), Decimal("NaN")]),
        (0, [], [float("nan"), float("inf"), Decimal("NaN"), Decimal("Infinity")]),
    ],
)
def test_what_is_equal(value: Any, equals: list[Any], differs: list[Any]) -> None:
    assert [column for column in equals if not equal(value, column)] == []
    assert [column for column in differs if equal(value, column)] == []


columns = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.text(),
    st.binary(),
    st.sampled_from(["date", "time", "timestamp"]).flatmap(
        lambda kind: st.text(max_size=20).map(lambda text: Dated(text, kind))
    ),
)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(values, columns)
def test_two_sides_that_differ_never_look_the_same(value: Any, column: Any) -> None:
    expected = expected_of(value)
    if expected is None or is_equal(expected, cell(column)):
        return
    said = difference(expected, cell(column))
    assert "\n" not in said
    assert said.isprintable()
    left, _, right = said.removeprefix("expected ").partition(", got ")
    assert left != right


@given(st.text(max_size=300), st.text(max_size=300))
def test_texts_that_differ_are_told_apart_by_a_character(one: str, other: str) -> None:
    if one == other:
        return
    said = difference({"t": "text", "v": one}, {"t": "text", "v": other})
    shown = said.removeprefix("expected ").split("; they part at character ")
    left, _, right = shown[0].partition(", got ")
    assert left != right or len(shown) == 2


def test_what_cannot_be_seen_is_shown() -> None:
    one, other = {"t": "text", "v": "a b"}, {"t": "text", "v": "a\u00a0b"}
    assert difference(one, other) == (
        r'expected text "a b", got text "a\u00a0b";'
        " they part at character 2: U+0020 against U+00A0"
    )
    long = "x" * 300
    assert difference({"t": "text", "v": long}, {"t": "text", "v": long + "y"}).endswith(
        "they part at character 301: the end against U+0079"
    )


@pytest.mark.parametrize("number", ["1e401", "1e-9999999999", "-1e999"])
def test_a_number_that_would_fill_the_memory_is_no_value(number: str) -> None:
    assert expected_of(WrittenFloat(number)) is None


# -- the comparisons -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "rows", "outcome", "reason"),
    [
        (
            "equals: 1",
            [(1,), (2,)],
            PASS,
            "the query gives integer 1, as expected (first of 2 rows)",
        ),
        ("equals: 2", [(1,), (2,)], FAIL, "expected integer 2, got integer 1 (first of 2 rows)"),
        ("matcher: {gt: 5}", [(7,)], PASS, "the query gives integer 7, which is > 5"),
        ("matcher: {gt: 5}", [(3,)], FAIL, "got integer 3, which is not > 5"),
        (
            "matcher: {gte: 1, lt: 3}",
            [(3,)],
            FAIL,
            "got integer 3, which is not < 3",
        ),
        ("matcher: {gt: 5}", [], FAIL, "expected a value > 5, got no row"),
        ("matcher: {not: 5}", [], FAIL, "expected a value != 5, got no row"),
        (
            "matcher: {gt: 5}",
            [("7",)],
            FAIL,
            'got text "7", which has another type: gt 5 needs a number, met a text ("7")',
        ),
        ("matcher: {gt: 0.1}", [(Decimal("0.1"),)], FAIL, None),
        ("matcher: {gte: 0.1}", [(Decimal("0.1"),)], PASS, None),
        ("matcher: {equals: 0.1}", [(Decimal("0.10"),)], PASS, None),
        (
            "matcher: {lt: 12345678901234567.89}",
            [(Decimal("12345678901234567.88"),)],
            PASS,
            None,
        ),
        ("matcher: {contains: x}", [(b"x",)], FAIL, None),
        ("matcher: {not: x}", [(b"x",)], PASS, None),
        ("matcher: {equals: null}", [(None,)], PASS, None),
        ("row_count: 2", [(1,), (1,)], PASS, "the query gives 2 rows, as expected"),
        ("row_count: 1", [], FAIL, "expected a number of rows = 1, got 0 rows"),
        ("row_count: {gte: 1, lte: 3}", [(1,)], PASS, None),
        ("row_count: {gte: 2}", [(1,)], FAIL, "expected a number of rows >= 2, got 1 row"),
        ("empty: true", [], PASS, "the query gives no row, as expected"),
        ("empty: true", [(None,)], FAIL, "expected no row, got 1 row"),
        ("empty: false", [], FAIL, "expected at least one row, got no row"),
        ("empty: false", [(None,)], PASS, None),
        ("rows: []", [], PASS, "the query gives the 0 rows that are expected"),
        ("rows: [[1], [2]]", [(1,), (2,)], PASS, "the query gives the 2 rows that are expected"),
        (
            "rows: [[1], [2]]",
            [(2,), (1,)],
            FAIL,
            (
                "row 1, column 'v': expected integer 1, got integer 2;"
                " row 2, column 'v': expected integer 2, got integer 1"
            ),
        ),
        ("rows: [[1], [2]]\nunordered: true", [(2,), (1,)], PASS, None),
        (
            "rows: [[1], [2]]\nunordered: true",
            [(2,), (3,), (4,)],
            FAIL,
            (
                "expected 2 rows, got 3 rows; no row is [integer 1];"
                " a row was not expected: [integer 3]; a row was not expected: [integer 4]"
            ),
        ),
        (
            "rows: [[1]]",
            [(1,), (2,)],
            FAIL,
            "expected 1 row, got 2 rows; row 2 was not expected: [integer 2]",
        ),
        (
            "rows: [[1], [null]]",
            [(1,)],
            FAIL,
            "expected 2 rows, got 1 row; row 2 is not there: [NULL]",
        ),
        ("rows: [[1, 2]]", [(1,)], FAIL, "an expected row has 2 values, the result 1 columns"),
        ("rows: [{v: 1}]", [(1,)], PASS, None),
        ("rows: [{w: 1}]", [(1,)], FAIL, "no column 'w' in the result (columns 'v')"),
    ],
)
def test_a_comparison(check: str, rows: list[Any], outcome: Outcome, reason: str | None) -> None:
    assert told(check, *rows) == (outcome, reason if reason is not None else told(check, *rows)[1])


def test_all_columns_of_a_row_are_named_once() -> None:
    rows = [(1, 2)]
    assert told("rows: [{a: 1}]", *rows, columns=("a", "b")) == (
        FAIL,
        "column 'b' is not in the expected row",
    )
    assert told("rows: [{a: 1}]", *rows, columns=("a", "a"))[1].startswith(
        "two columns have one name, so rows are written as lists"
    )


def test_a_fail_shows_what_was_met() -> None:
    found = ask("query: SELECT v FROM t\nequals: 3", Answered([(1,), (2,)]))
    assert found.witness.expected == "integer 3"
    assert found.witness.observed == "integer 1"
    assert found.witness.entries == ("[integer 1]", "[integer 2]")
    assert found.looked_at == ('service db (sqlite), sealed: 2 rows for "SELECT v FROM t"',)
    none = ask("query: SELECT v FROM t\nempty: true", Answered([]))
    assert none.witness.absent == ('no row for "SELECT v FROM t"',)


@given(
    st.lists(st.sampled_from(["0.1", "0.10000000000000001", "1", "2"]), max_size=6),
    st.randoms(use_true_random=False),
)
def test_rows_in_any_order_find_each_other(written_rows: list[str], random: Any) -> None:
    expected = [[{"t": "number", "v": digits}] for digits in written_rows]
    made = [
        [cell(Decimal(digits))] if random.random() < 0.5 else [cell(float(digits))]
        for digits in written_rows
    ]
    random.shuffle(made)
    # A slow search through all orders is the reference.
    import itertools

    possible = any(
        all(is_equal(one[0], other[0]) for one, other in zip(expected, order, strict=True))
        for order in itertools.permutations(made)
    )
    assert (len(_paired(expected, made)) == len(expected)) is possible


# -- bounds and failures ---------------------------------------------------------------------------


def unavailable(check: str, service: Any, *, gate: bool = False) -> tuple[Cause, str]:
    with pytest.raises(UnavailableError) as caught:
        ask("query: SELECT v FROM t\n" + check, service, gate=gate)
    return caught.value.cause, caught.value.reason


def test_a_gate_records_all_of_its_rows() -> None:
    cut = Answered([(1,)] * MAX_ROWS, is_cut=True)
    assert ask("query: SELECT v FROM t\nequals: 1", cut).outcome is PASS
    cause, reason = unavailable("equals: 1", cut, gate=True)
    assert cause is Cause.MISSING_EVIDENCE
    assert reason.startswith("the result has more than 1000 rows or 256 KiB, and a gate records")


def test_the_record_is_bounded_in_bytes_too() -> None:
    large = Answered([("x" * 1000,)] * 500)
    definition = parsed("query: SELECT v FROM t\nempty: false")
    scene: Any = SimpleNamespace(services={"db": large})
    gathered = KIND.gather(definition, scene)
    assert gathered["is_cut"] is True
    assert len(c1.text(gathered)) <= 256 * 1024
    single = Answered([("x" * 300_000,)])
    assert unavailable("equals: x", single) == (
        Cause.MISSING_EVIDENCE,
        "the result has more than 1000 rows or 256 KiB: what was read does not decide",
    )


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        ("rows: [[1]]", FAIL),
        ("empty: true", FAIL),
        ("empty: false", PASS),
        ("matcher: {gt: 0}", PASS),
    ],
)
def test_what_was_read_decides_where_it_can(check: str, outcome: Outcome) -> None:
    cut = Answered([(1,)] * 3, is_cut=True)
    assert ask("query: SELECT v FROM t\n" + check, cut).outcome is outcome
    assert unavailable("row_count: 3", cut)[0] is Cause.MISSING_EVIDENCE


@pytest.mark.parametrize(
    ("error", "cause"),
    [(QueryError("no such table: t"), Cause.EVALUATOR_ERROR)],
)
def test_an_error_of_the_database_is_no_fail(error: Exception, cause: Cause) -> None:
    assert unavailable("equals: 1", Answered([], error=error)) == (cause, "db: no such table: t")


def test_a_database_that_changed_is_stale(tmp_path: Path) -> None:
    with opener(tmp_path, tmp_path) as make:
        database = make("sqlite", "CREATE TABLE t (v INTEGER)")
        database.seal()
        import sqlite3

        other = sqlite3.connect(str(database.address["path"]), isolation_level=None)
        other.execute("INSERT INTO t VALUES (1)")
        other.close()
        cause, reason = unavailable("equals: 1", database)
    assert cause is Cause.STALE_EVIDENCE
    assert reason == "db: the database was changed after the run was sealed"


def test_one_that_is_down_is_missing() -> None:
    assert unavailable("equals: 1", Answered([], problem="it broke")) == (
        Cause.MISSING_EVIDENCE,
        "db: it broke",
    )


@pytest.mark.parametrize("kind", ENGINES)
def test_a_query_that_hangs_is_ended(databases: Any, kind: str) -> None:
    long = {
        "sqlite": "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT 1 FROM a) SELECT count(*) FROM a",
        "postgres": "SELECT pg_sleep(600)",
        "mysql": "SELECT sleep(600)",
    }[kind]
    definition = {**parsed({"service": "db", "query": long, "equals": 1}), "timeout": 0.2}
    scene: Any = SimpleNamespace(services={"db": databases(kind)})
    with pytest.raises(UnavailableError, match=r"^db: timed out after 0\.2 s$") as caught:
        KIND.gather(definition, scene)
    assert caught.value.cause is Cause.EVALUATOR_ERROR


def test_params_reach_the_database_with_their_types() -> None:
    service = Answered([(1,)])
    ask(
        {"service": "db", "query": "SELECT :a, :b, :c, :d, :e", "equals": 1}
        | {"params": {"a": 1, "b": WrittenFloat("0.10"), "c": "x", "d": None, "e": True}},
        service,
    )
    ((_, params, seconds, max_rows),) = service.asked
    assert params == {"a": 1, "b": Decimal("0.10"), "c": "x", "d": None, "e": True}
    assert str(params["b"]) == "0.10"
    assert (seconds, max_rows) == (30.0, MAX_ROWS)


# -- mistakes --------------------------------------------------------------------------------------


def faults_of(check: str) -> list[str]:
    value = written(check)
    definition, faults = KIND.parse(value, KNOWN)
    assert bool(faults) is (definition == {})
    return [
        f"{'.'.join(str(part) for part in fault.path)}: {fault.text}"
        + (f" | {fault.fix}" if fault.fix else "")
        for fault in faults
    ]


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (
            "query: SELECT 1",
            (
                ": compares the result with nothing (exactly one of equals, matcher, rows,"
                " row_count, empty) | to expect NULL write 'equals: null',"
                " to expect no row 'empty: true'"
            ),
        ),
        (
            "query: SELECT 1\nequals: 1\nempty: false",
            (
                ": compares it twice (got equals, empty; exactly one of equals, matcher, rows,"
                " row_count, empty)"
            ),
        ),
        ("equals: 1", ": required key 'query' is missing (one statement that reads)"),
        (
            "query: 3\nequals: 1",
            "query: must be text, is integer (got 3; one statement that reads)",
        ),
        (
            "query: ''\nequals: 1",
            'query: must be one statement that reads: it is empty (got "")',
        ),
        (
            "query: SELECT 1; SELECT 2\nequals: 1",
            (
                "query: must be one statement that reads: it holds 2 statements"
                ' (got "SELECT 1; SELECT 2")'
            ),
        ),
        (
            "query: DELETE FROM t\nequals: 1",
            'query: must be one statement that reads: it begins with DELETE (got "DELETE FROM t")',
        ),
        (
            "service: dbb\nquery: SELECT 1\nequals: 1",
            (
                "service: names no service of environment.services"
                " (got 'dbb'; databases: db, pg, my) | write 'db'"
            ),
        ),
        (
            "service: api\nquery: SELECT 1\nequals: 1",
            (
                "service: is no database but a service of type http_mock"
                " (got 'api'; databases: db, pg, my)"
            ),
        ),
        (
            "query: SELECT 1\nequals: {gt: 1}",
            (
                'equals: is no value of a column (got {"gt": 1}; a value of one column: text,'
                " a number, true, false or null) | write it under 'matcher'"
            ),
        ),
        (
            "query: SELECT 1\nequals: [1]",
            (
                "equals: is no value of a column (got [1]; a value of one column: text,"
                " a number, true, false or null) | to compare rows write 'rows'"
            ),
        ),
        (
            "query: SELECT :a\nequals: 1",
            (
                "query: no value for :a (params is empty)"
                " (params: [..] fills ?, params: {name: ..} fills :name)"
            ),
        ),
        (
            "query: SELECT 1\nparams: [1]\nequals: 1",
            (
                "params: placeholders and values differ in number (? 0, values 1)"
                " (params: [..] fills ?, params: {name: ..} fills :name)"
            ),
        ),
        (
            "query: SELECT ?\nparams: [[1]]\nequals: 1",
            "params.0: is no value of a column (got [1]; text, a number, true, false or null)",
        ),
        (
            "query: SELECT 1\nrows: [1]",
            "rows.0: is no row (got 1; a list of values, or a mapping of all columns) | write [1]",
        ),
        ("query: SELECT 1\nrows: 1", "rows: must be a list, is integer (got 1; a list of rows)"),
        (
            "query: SELECT 1\nequals: 1\nunordered: true",
            "unordered: says nothing without rows | remove it",
        ),
        (
            "query: SELECT 1\nrows: []\nunordered: yes please",
            'unordered: must be true or false (got "yes please")',
        ),
        ("query: SELECT 1\nempty: 1", "empty: must be true or false (got 1)"),
        (
            "query: SELECT 1\nrow_count: {gte: 0}",
            'row_count: holds whatever the result is (got {"gte": 0}; it would decide nothing)',
        ),
        (
            "query: SELECT 1\nrow_count: -1",
            "row_count: can never hold (got -1; it would decide nothing)",
        ),
        (
            "query: SELECT 1\nmatcher: {secret: KEY}",
            "matcher.secret: asks for the placeholder of a secret, and a check sees the true value",
        ),
        (
            "query: SELECT 1\nequlas: 1\nequals: 1",
            (
                "equlas: unknown key (got 'equlas'; known: service, query, params, equals, matcher,"
                " rows, row_count, empty, unordered) | write 'equals'"
            ),
        ),
    ],
)
def test_a_mistake_is_told_at_load(check: str, expected: str) -> None:
    assert expected in faults_of(check)


def test_an_operator_that_is_unknown_is_told_at_load() -> None:
    (text,) = faults_of("query: SELECT 1\nmatcher: {gt: '2'}")
    assert text.startswith("matcher.gt: ")


def test_the_words_of_another_engine_are_read_as_its_own() -> None:
    assert faults_of("service: pg\nquery: \"SELECT '\\\\'\"\nequals: 1") == []
    (text,) = faults_of("service: my\nquery: \"SELECT '\\\\'\"\nequals: 1")
    assert "is not closed" in text


def test_the_definition_keeps_the_digits() -> None:
    definition = parsed("query: SELECT ?\nparams: [0.10]\nequals: 12345678901234567.88")
    assert definition["expected"] == {"t": "number", "v": "12345678901234567.88"}
    assert definition["params"] == [{"t": "number", "v": "0.10"}]
    matcher = parsed("query: SELECT 1\nmatcher: {in: [0.10, .5, 1e3, +2.5, x]}")
    assert matcher["expected"] == '{"in":[0.10,0.5,1.0e3,2.5,"x"]}'


def test_it_needs_its_service_and_may_gate() -> None:
    definition = parsed("query: SELECT 1\nequals: 1")
    assert KIND.needs(definition) == frozenset({"service:db"})
    assert KIND.only_reads
    assert KIND.may_gate


@pytest.mark.parametrize(
    "check",
    [
        "query: SELECT 1\nequals: null",
        "query: SELECT ?\nparams: [1]\nrows: [[1], {a: 2}]\nunordered: true",
        "query: SELECT 1\nmatcher: {gt: 1}",
        "query: SELECT 1\nempty: true",
    ],
)
def test_the_schema_takes_what_the_reader_takes(check: str) -> None:
    schema: Any = KIND.schema
    jsonschema.Draft202012Validator.check_schema(schema)
    value = {"type": "sql", **written(check)}
    jsonschema.validate(value, schema)
    for broken in (
        {**value, "unknown": 1},
        {key: part for key, part in value.items() if key != "query"},
        {key: part for key, part in value.items() if key in ("type", "service", "query")},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)


def test_a_gathered_record_is_exactly_json() -> None:
    rows = [(None, True, 2**70, Decimal("1.50"), float("nan"), "x", b"y", Dated("d", "date"))]
    columns_ = tuple("abcdefgh")
    scene: Any = SimpleNamespace(services={"db": Answered(rows, columns_)})
    gathered: Any = KIND.gather(parsed("query: SELECT 1\nempty: false"), scene)
    assert c1.thaw(c1.text(gathered)) == gathered
    (row,) = gathered["rows"]
    assert [entry["t"] for entry in row] == [
        "null", "boolean", "integer", "decimal", "float", "text", "bytes", "date",
    ]  # fmt: skip


def test_rows_that_are_in_no_order_are_recorded_in_one() -> None:
    check = "query: SELECT v FROM t\nrows: [[1], [2]]\nunordered: true"
    records = []
    for rows in ([(1,), (2,)], [(2,), (1,)]):
        scene: Any = SimpleNamespace(services={"db": Answered(rows)})
        records.append(KIND.gather(parsed(check), scene))
    assert records[0] == records[1]

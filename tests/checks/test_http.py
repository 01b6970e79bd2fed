"""``http_mock_assertions``: a request that is not there proves nothing; types are part of JSON."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from pytest_evarness.checks.http import HttpMockAssertions
from pytest_evarness.checks.kind import Facts, Known, UnavailableError
from pytest_evarness.core import c1
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import Registry
from pytest_evarness.core.secret import Masker
from pytest_evarness.world.http.limit import MAX_KEPT
from tests.world.http.mocks import mock

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding

KIND = HttpMockAssertions()
Request = tuple[Any, ...]


def known() -> Known:
    return Known(
        services={"pay": "http_mock", "smtp": "http_mock", "db": "sqlite"},
        has_workspace=False,
        secrets=frozenset({"KEY"}),
        read=lambda _: (None, None),
        ids={},
        environment={},
        registry=Registry(),
    )


def parse(**check: Any) -> tuple[Any, list[str]]:
    made, faults = KIND.parse({"type": KIND.name, "service": "pay", **check}, known())
    assert bool(faults) is (made == {}), "a definition, or faults"
    told = [
        f"{'.'.join(map(str, fault.path))}: {fault.text}" + (f" [{fault.fix}]" if fault.fix else "")
        for fault in faults
    ]
    return made, told


def refused(**check: Any) -> str:
    _, told = parse(**check)
    assert len(told) == 1, told
    return told[0]


@dataclass
class Scene:
    """As much of a sealed world as this check looks at."""

    snapshot: dict[str, Any]
    masker: Masker = field(default_factory=lambda: Masker({}))


def sealed(
    requests: Sequence[Request] = (), name: str = "pay", **declaration: Any
) -> dict[str, Any]:
    """The snapshot of a world whose one service got these requests: (method, path, body, ...)."""
    service = mock(name, **{"allow_unmatched": True, **declaration})
    for method, path, *rest in requests:
        body = rest[0] if rest else None
        more = rest[1] if len(rest) > 1 else {}
        service.request(method, path, body=body, **more)
    service.seal()
    return {"workspace": None, "services": [{"name": name, **service.snapshot()}], "ledger": []}


def events(world: dict[str, Any]) -> list[dict[str, Any]]:
    """What the run told of it, with other events between."""
    told: list[dict[str, Any]] = []
    for service in world["services"]:
        for one in service.get("requests") or ():
            payload = {"service": service["name"], "path": one["path"]}
            told.append({"seq": len(told), "type": "node_started", "node_id": "n", "payload": {}})
            told.append(
                {"seq": len(told), "type": "http_request", "node_id": "n", "payload": payload}
            )
    return told


def judge(
    world: dict[str, Any], *assertions: Any, masker: Masker | None = None, **check: Any
) -> Finding:
    """The finding, by way of what a bundle holds; a verifier comes to the same."""
    if assertions:
        check["assertions"] = list(assertions)
    made, told = parse(**check)
    assert told == []
    definition = c1.frozen({**made, "timeout": 30.0, "recheck": False})[0]
    item = PlannedItem(
        id="it", kind=KIND.name, gate=True, weight=Fraction(1), definition=definition
    )
    scene: Any = Scene(world, masker or Masker({}))
    gathered = c1.frozen(KIND.gather(definition, scene))[0]
    shown = scene.masker.value(world)
    facts = Facts(
        world=c1.frozen(shown)[0],
        events=events(world),
        status="completed",
        output=None,
        findings={},
    )
    finding = KIND.judge(item, gathered, facts)
    assert finding == KIND.judge(item, gathered, facts)
    assert finding.looked_at
    assert c1.text(finding.as_record())
    return finding


def outcome(*args: Any, **more: Any) -> str:
    return judge(*args, **more).outcome.word


def one(text: str) -> dict[str, Any]:
    """A world in which one request with this body came."""
    return sealed([("POST", "/x", text)])


def body(world: dict[str, Any], **matcher: Any) -> Finding:
    return judge(world, {"field": "last_request.body", **matcher})


# -- the handed cases ---------------------------------------------------------------------------


def test_a_body_is_equal_or_it_is_not() -> None:
    # HTTP-01: empty extras let through, an empty expectation that matched everything.
    world = one('{"order":"X1","sum":5,"lines":[],"meta":{}}')
    first = body(world, equals={"order": "X1", "sum": 5})
    assert first.outcome is Outcome.FAIL
    assert first.reason == (
        "request #1 POST /x (404, unmatched): last_request.body.lines: expected nothing, got list"
        " []; last_request.body.meta: expected nothing, got mapping {}"
    )
    assert body(world, equals={}).outcome is Outcome.FAIL
    third = body(world, equals={"meta": {}, "lines": [], "sum": 5, "order": "X1"})
    assert third.outcome is Outcome.PASS
    assert body(one("[1,2]"), equals=[2, 1]).outcome is Outcome.FAIL
    assert body(one("[1,2]"), equals=[1, 2]).outcome is Outcome.PASS
    # The partial form has its own spelling.
    assert outcome(world, {"field": "last_request.json.sum", "equals": 5}) == "pass"


def test_a_count_of_zero_is_a_count() -> None:
    # HTTP-03: verifying that a request came zero times never failed.
    world = sealed([("POST", "/refunds", {"amount": 5})])
    refund = {"method": "POST", "path": "/refunds"}
    first = judge(world, {"field": "request_count", "filters": refund, "equals": 0})
    assert first.outcome is Outcome.FAIL
    assert first.reason == (
        'request_count is 1, expected = 0 with method = "POST" and path = "/refunds":'
        " #1 POST /refunds (404, unmatched)"
    )
    assert first.witness.events == (1,)
    delete = {"method": "DELETE"}
    assert outcome(world, {"field": "request_count", "filters": delete, "equals": 0}) == "pass"
    third = judge(world, {"field": "last_request.body", "filters": delete, "equals": None})
    assert third.outcome is Outcome.FAIL
    assert third.reason.startswith(
        'last_request.body: no such request, only 0 requests with method = "DELETE"; nearest: #1 '
    )
    fourth = judge(world, {"field": "requests[1].body", "equals": {}})
    assert fourth.outcome is Outcome.FAIL
    assert fourth.reason == "requests[1].body: no such request, only 1 request"
    assert refused(
        assertions=[{"field": "request_count", "filters": {"pth": "/refunds"}, "equals": 0}]
    ).startswith("assertions.0.filters.pth: unknown filter (got 'pth'; known: method, path, ")


def test_two_sides_that_differ_never_look_alike() -> None:
    # SQL-06, second part.
    world = one('{"user_id":40711,"note":"a\u00a0b"}')
    finding = body(world, equals={"user_id": "40711", "note": "a b"})
    assert finding.outcome is Outcome.FAIL
    assert finding.witness.observed == (
        'last_request.body.note: expected text "a b", got text "a\\u00a0b"'
        '; last_request.body.user_id: expected text "40711", got integer 40711'
    )
    assert body(world, equals={"user_id": 40711, "note": "a\u00a0b"}).outcome is Outcome.PASS


# -- requests that are not there ----------------------------------------------------------------


@pytest.mark.parametrize(
    "assertion",
    [
        {"field": "last_request", "exists": True},
        {"field": "last_request.body", "not": "x"},
        {"field": "last_request.body", "not_contains": "x"},
        {"field": "last_request.body", "equals": ""},
        {"field": "last_request.json.a", "exists": False},
        {"field": "last_request.headers.x-a", "exists": False},
        {"field": "last_request.query.a", "not": "x"},
        {"field": "last_request.to", "not": "x"},
        {"field": "requests[0].path", "not": "/x"},
        {"field": "requests[-1].path", "not": "/x"},
        {"field": "requests", "any": {"exists": True}},
        {"field": "requests", "all": {"exists": True}},
    ],
)
def test_a_request_that_is_not_there_fails_whatever_is_asked_of_it(
    assertion: dict[str, Any],
) -> None:
    assert outcome(sealed(), assertion) == "fail"
    # The twin: with a request each of them can hold.
    assert outcome(sealed([("GET", "/y", "[]")]), assertion) in ("pass", "fail")


@pytest.mark.parametrize(
    ("index", "found"),
    [("0", "a"), ("1", "b"), ("2", None), ("-1", "b"), ("-2", "a"), ("-3", None)],
)
def test_requests_are_counted_from_both_ends(index: str, found: str | None) -> None:
    world = sealed([("POST", "/x", "a"), ("GET", "/y"), ("POST", "/x", "b")])
    assertion = {"field": f"requests[{index}].body", "filters": {"method": "POST"}}
    if found is None:
        finding = judge(world, {**assertion, "not": "c"})
        assert finding.outcome is Outcome.FAIL
        assert "only 2 requests" in finding.reason
    else:
        assert outcome(world, {**assertion, "equals": found}) == "pass"
        assert outcome(world, {**assertion, "not": found}) == "fail"


# -- fields -------------------------------------------------------------------------------------

REQUEST = (
    "POST",
    "/a b/c",
    {
        "to": "fin@co",
        "cc": ["x@co", "y@co"],
        "subject": "Q3",
        "body": "Hi",
        "n": [{"id": 1}, {"id": 2}],
    },
    {"headers": {"X-Key": "k", "Accept": "text/html"}, "query": {"page": "2", "q": "é"}},
)


@pytest.mark.parametrize(
    ("name", "matcher"),
    [
        ("request_count", {"equals": 1}),
        ("request_count", {"gte": 1, "lt": 3}),
        ("requests", {"length": 1}),
        ("last_request", {"exists": True}),
        ("last_request.method", {"equals": "POST"}),
        ("last_request.path", {"equals": "/a b/c"}),
        ("last_request.query", {"equals": {"q": "é", "page": "2"}}),
        ("last_request.query.page", {"in": ["1", "2"]}),
        ("last_request.query.none", {"exists": False}),
        ("last_request.headers.X-KEY", {"equals": "k"}),
        ("last_request.headers.host", {"equals": "pay"}),
        ("last_request.headers.none", {"not": "k"}),
        ("last_request.body", {"contains": '"subject":"Q3"'}),
        ("last_request.body", {"pattern": "^\\{.*\\}$", "length": {"gt": 20}}),
        ("last_request.json", {"length": 5}),
        ("last_request.json.subject", {"equals": "Q3"}),
        ("last_request.json.body", {"length": {"lte": 200}}),
        ("last_request.json.n[1].id", {"equals": 2}),
        ("last_request.json.n[*].id", {"gt": 1}),
        ('last_request.json["subject"]', {"equals": "Q3"}),
        ("last_request.json.n", {"equals": [{"id": 1}, {"id": 2.0}]}),
        ("last_request.to", {"equals": "fin@co"}),
        ("last_request.cc", {"equals": "y@co"}),
        ("last_request.cc", {"equals": ["x@co", "y@co"]}),
        ("last_request.cc", {"pattern": "^x@"}),
        ("last_request.cc", {"not": "z@co"}),
        ("last_request.subject", {"contains": "3"}),
        ("requests[0].subject", {"exists": True}),
    ],
)
def test_each_field_is_readable(name: str, matcher: dict[str, Any]) -> None:
    assert outcome(sealed([REQUEST]), {"field": name, **matcher}) == "pass"


@pytest.mark.parametrize(
    ("name", "matcher", "told"),
    [
        ("last_request.method", {"equals": "GET"}, 'expected text "GET", got text "POST"'),
        ("last_request.query.page", {"equals": "3"}, 'expected text "3", got text "2"'),
        ("last_request.query.page", {"equals": 2}, 'expected integer 2, got text "2"'),
        ("last_request.query.none", {"equals": "x"}, 'expected text "x", got nothing'),
        ("last_request.json.subject", {"gt": 3}, 'gt 3 needs a number, met a text ("Q3")'),
        ("last_request.json.subject", {"not_contains": 3}, "needs a list to hold a integer"),
        ("last_request.json.n[*].id", {"gt": 2}, "none of 2 values > 2 ([1, 2])"),
        ("last_request.json.none", {"exists": True}, "a missing value is not there"),
        ("last_request.cc", {"not": "y@co"}, 'list ["x@co", "y@co"] is not != "y@co"'),
        ("last_request.body", {"contains": "renewal"}, 'does not contain "renewal"'),
        ("last_request.headers.accept", {"equals": "a"}, 'expected text "a", got text "text/html"'),
    ],
)
def test_what_does_not_hold_is_told_with_both_sides(
    name: str, matcher: dict[str, Any], told: str
) -> None:
    finding = judge(sealed([REQUEST]), {"field": name, **matcher})
    assert finding.outcome is Outcome.FAIL
    assert told in finding.reason
    assert finding.reason.startswith("request #1 POST /a b/c (404, unmatched): ")
    assert finding.witness.entries == ("#1 POST /a b/c (404, unmatched)",)


@pytest.mark.parametrize("text", ["hello", "", '{"a":1,"a":2}', "[" * 200])
@pytest.mark.parametrize(
    "assertion",
    [
        {"field": "last_request.json.a", "exists": False},
        {"field": "last_request.json.a", "not": 1},
        {"field": "last_request.to", "not": "x"},
        {"field": "last_request.body", "not": {"a": 2}},
        {"field": "last_request.body", "equals": {}},
    ],
)
def test_a_body_that_is_no_json_meets_nothing_that_is_asked_of_json(
    text: str, assertion: dict[str, Any]
) -> None:
    finding = judge(one(text), assertion)
    assert finding.outcome is Outcome.FAIL
    assert "the body " in finding.reason


def test_a_repeated_parameter_is_the_list_of_its_values() -> None:
    world = sealed([("GET", "/x?a=1&a=2")])
    assert outcome(world, {"field": "last_request.query.a", "contains": "2"}) == "pass"
    assert outcome(world, {"field": "last_request.query.a", "equals": ["1", "2"]}) == "pass"
    assert outcome(world, {"field": "last_request.query.a", "equals": "2"}) == "fail"


# -- filters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({}, 3),
        ({"method": "post"}, 2),
        ({"METHOD": "POST", "Path": "/api/messages"}, 1),
        ({"path": "/api/{kind}"}, 2),
        ({"path": "/api/m%65ssages"}, 1),
        ({"path": {"pattern": "^/api"}}, 2),
        ({"query": {"page": "2"}}, 1),
        ({"headers": {"X-Key": "k"}}, 1),
        ({"x-key": "k"}, 1),
        ({"X-KEY": {"exists": False}}, 2),
        ({"to": "finance@co"}, 2),
        ({"to": "boss@co"}, 1),
        ({"to": {"not": "boss@co"}}, 2),
        ({"cc": {"exists": False}}, 3),
        ({"subject": "Q3", "to": "finance@co"}, 1),
        ({"body": {"contains": "renewal"}}, 1),
        ({"body": {"to": "finance@co", "subject": "Q3", "body": "renewal"}}, 1),
        ({"body": {"to": "finance@co"}}, 0),
        ({"body": {}}, 0),
        ({"body": {"json": {"subject": "Q3"}}}, 1),
        ({"body": {"json": {"n": {"gt": 5}}}}, 0),
        ({"body": ""}, 1),
    ],
)
def test_filters_narrow_which_requests_count(filters: dict[str, Any], count: int) -> None:
    world = sealed(
        [
            ("POST", "/api/messages", {"to": "finance@co", "subject": "Q3", "body": "renewal"}),
            ("POST", "/api/more", {"to": ["finance@co", "boss@co"]}, {"headers": {"x-key": "k"}}),
            ("GET", "/other", None, {"query": {"page": "2"}}),
        ]
    )
    assertion = {"field": "request_count", "filters": filters}
    assert outcome(world, {**assertion, "equals": count}) == "pass"
    assert outcome(world, {**assertion, "not": count}) == "fail"


def test_filters_apply_to_the_last_request_too() -> None:
    world = sealed([("POST", "/x", "a"), ("GET", "/y", "b")])
    last = {"field": "last_request.body", "filters": {"method": "POST"}}
    assert outcome(world, {**last, "equals": "a"}) == "pass"
    assert outcome(world, {"field": "last_request.body", "equals": "b"}) == "pass"


def test_the_nearest_requests_are_shown_with_every_difference() -> None:
    world = sealed([("GET", "/z"), ("POST", "/refnuds", {"n": "1"}), ("PUT", "/other")])
    filters = {"method": "POST", "path": "/refunds", "body": {"json": {"n": 1}}}
    finding = judge(world, {"field": "request_count", "filters": filters, "equals": 1})
    assert finding.outcome is Outcome.FAIL
    first, *others = finding.witness.nearest
    assert first == {
        "seq": 3,
        "why": '#2 POST /refnuds (404, unmatched): path: expected text "/refunds", got text '
        '"/refnuds"; json.n: expected integer 1, got text "1"',
    }
    assert len(others) == 2
    assert "; nearest: #2 POST /refnuds" in finding.reason


def test_what_came_too_often_needs_no_neighbours() -> None:
    world = sealed([("POST", "/x"), ("POST", "/x"), ("GET", "/x")])
    finding = judge(world, {"field": "request_count", "filters": {"method": "POST"}, "equals": 1})
    assert finding.witness.nearest == ()
    assert "nearest" not in finding.reason
    assert finding.witness.events == (1, 3)


def test_a_filter_that_cannot_be_decided_fails_where_it_matters() -> None:
    world = sealed([("POST", "/pay", {"amount": "9"})])
    large = {"body": {"json": {"amount": {"gt": 5}}}}
    finding = judge(world, {"field": "request_count", "filters": large, "equals": 0})
    assert finding.outcome is Outcome.FAIL
    assert "whether #1 POST /pay (404, unmatched) is meant cannot be told: gt 5 needs a number" in (
        finding.reason
    )
    # Where another filter leaves it out, or any number will do, it does not matter.
    other = {**large, "path": "/refund"}
    assert outcome(world, {"field": "request_count", "filters": other, "equals": 0}) == "pass"
    assert outcome(world, {"field": "request_count", "filters": large, "lte": 1}) == "pass"


# -- what was cut -------------------------------------------------------------------------------

LONG = "start" + "z" * MAX_KEPT


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        ({"contains": "start"}, "pass"),
        ({"not_contains": "start"}, "fail"),
        ({"contains": "end"}, "indeterminate"),
        ({"not_contains": "end"}, "indeterminate"),
        ({"pattern": "^start"}, "pass"),
        ({"pattern": "end"}, "indeterminate"),
        ({"pattern": "z$"}, "indeterminate"),
        ({"length": {"gt": 5}}, "indeterminate"),
        ({"equals": "start"}, "fail"),
        ({"not": "start"}, "pass"),
        ({"equals": LONG}, "pass"),
        ({"equals": LONG + "x"}, "fail"),
        ({"in": ["a", LONG]}, "pass"),
        ({"equals": {"a": 1}}, "indeterminate"),
        ({"exists": True}, "pass"),
        ({"contains": "end", "equals": "x"}, "fail"),
    ],
)
def test_of_a_cut_body_only_what_was_read_decides(matcher: dict[str, Any], expected: str) -> None:
    finding = body(one(LONG), **matcher)
    assert finding.outcome.word == expected
    if expected == "indeterminate":
        assert finding.causes == (Cause.MISSING_EVIDENCE,)
        assert finding.reason.endswith(f"only the first {MAX_KEPT} bytes of the body were kept")


def test_a_cut_body_in_a_filter_leaves_open_what_depends_on_it() -> None:
    world = sealed([("POST", "/x", LONG), ("POST", "/x", "end")])
    ends = {"body": {"contains": "end"}}
    for matcher, expected in (
        ({"equals": 1}, "indeterminate"),
        ({"gte": 1}, "pass"),
        ({"equals": 3}, "fail"),
    ):
        assert outcome(world, {"field": "request_count", "filters": ends, **matcher}) == expected
    last = {"field": "last_request.body", "filters": ends}
    assert outcome(world, {**last, "equals": "end"}) == "pass"
    first = {"field": "requests[0].path", "filters": ends}
    assert outcome(world, {**first, "equals": "/x"}) == "pass"
    assert outcome(world, {**first, "equals": "/y"}) == "fail"
    second = {"field": "requests[1].path", "filters": ends}
    assert outcome(world, {**second, "equals": "/x"}) == "indeterminate"
    assert outcome(world, {**second, "equals": "/y"}) == "fail"
    assert outcome(world, {"field": "requests", "filters": ends, "length": 2}) == "indeterminate"


def test_an_expression_that_takes_too_long_is_our_own_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pytest_evarness.core import matcher

    monkeypatch.setattr(matcher, "REGEX_SECONDS", 0.05)
    finding = body(one("a" * 30), pattern="^(a|aa)+$(?<!a)")
    assert (finding.outcome, finding.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))


def test_a_check_that_takes_too_long_is_our_own_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 7))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    world = sealed([("GET", "/x")] * 20)
    with pytest.raises(UnavailableError, match=r"^timed out after 30 s$"):
        judge(world, {"field": "request_count", "equals": 1})


# -- several assertions, order, unmatched ---------------------------------------------------------


def test_one_that_fails_decides_and_the_others_are_counted() -> None:
    world = sealed([("POST", "/x", LONG)])
    holds = {"field": "request_count", "equals": 1}
    fails = {"field": "last_request.path", "equals": "/y"}
    opens = {"field": "last_request.body", "contains": "end"}
    assert judge(world, holds, holds).reason == "2 assertions hold over 1 request"
    assert judge(world, holds, opens).outcome is Outcome.INDETERMINATE
    finding = judge(world, opens, fails, holds, fails)
    assert finding.outcome is Outcome.FAIL
    assert finding.reason.endswith("(and 1 more assertion fails)")
    assert judge(world, opens, opens).reason.endswith("(and 1 more assertion is undecided)")


A, B, C = ({"path": path} for path in ("/a", "/b", "/c"))


@pytest.mark.parametrize(
    ("order", "came", "expected"),
    [
        ([A, B], "ab", "pass"),
        ([A, B], "axbx", "pass"),
        ([A, B], "aabb", "pass"),
        ([A, B], "ba", "fail"),
        ([A, B], "bab", "fail"),  # one came before it was its turn, whatever came later
        ([A, B], "aba", "fail"),
        ([A, B], "a", "fail"),
        ([A, B], "b", "fail"),
        ([A, B], "", "fail"),
        ([A, B, A], "aba", "pass"),
        ([A, B, A], "ab", "fail"),
        ([A, B, C], "ac", "fail"),
        ([A, {"method": "POST"}], "ab", "pass"),
        ([A, {"method": "POST"}], "aab", "pass"),
        ([{"method": "POST"}, A], "ba", "pass"),
    ],
)
def test_requests_come_in_the_order_of_the_entries(
    order: list[Any], came: str, expected: str
) -> None:
    world = sealed([("POST", f"/{one}") for one in came])
    assert outcome(world, order=order) == expected


def test_what_came_out_of_turn_is_named() -> None:
    finding = judge(sealed([("POST", "/b"), ("POST", "/a")]), order=[A, B])
    assert finding.reason == 'order: #1 POST /b (404, unmatched) comes out of turn (path = "/b")'
    finding = judge(sealed([("POST", "/a"), ("POST", "/bb")]), order=[A, B])
    assert finding.reason == 'order: no request came for path = "/b", only 1 request before'
    assert "#2 POST /bb" in str(finding.witness.nearest[0]["why"])


def test_an_order_over_a_cut_body_is_open() -> None:
    world = sealed([("POST", "/a", LONG), ("POST", "/b")])
    entry = {"path": "/a", "body": {"contains": "end"}}
    finding = judge(world, order=[entry, B])
    assert (finding.outcome, finding.causes) == (Outcome.INDETERMINATE, (Cause.MISSING_EVIDENCE,))


def test_no_unmatched_asks_whether_a_route_met_each_request() -> None:
    routes = [{"path": "/x"}]
    finding = judge(sealed([("GET", "/x"), ("GET", "/y")], routes=routes), no_unmatched=True)
    assert finding.outcome is Outcome.FAIL
    assert finding.reason == "1 request without a route: #2 GET /y (404, unmatched)"
    held = judge(sealed([("GET", "/x")], routes=routes), no_unmatched=True)
    assert (held.outcome, held.vacuous) == (Outcome.PASS, False)
    nothing = judge(sealed(routes=routes), no_unmatched=True)
    assert (nothing.outcome, nothing.vacuous) == (Outcome.PASS, True)


# -- no journal, secrets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        (
            {"type": "http_mock", "record": False, "strict": True, "requests": None},
            "service 'pay' keeps no journal (record: false)",
        ),
        ({"type": "http_mock", "down": True}, "service 'pay' is down"),
        (
            {"type": "http_mock", "record": True, "strict": True, "requests": [], "lost": 3},
            "the journal of service 'pay' was full, 3 requests are not in it",
        ),
        (None, "service 'pay' is not there"),
    ],
)
def test_without_a_whole_journal_nothing_is_decided(service: Any, reason: str) -> None:
    services = [] if service is None else [{"name": "pay", **service}]
    with pytest.raises(UnavailableError) as caught:
        judge({"services": services}, {"field": "request_count", "equals": 0})
    assert (caught.value.cause, caught.value.reason) == (Cause.MISSING_EVIDENCE, reason)


def test_true_values_are_compared_and_masked_ones_are_shown() -> None:
    masker = Masker({"KEY": "hunter22"})
    world = sealed([("POST", "/x", {"k": "hunter22", "n": 1}, {"headers": {"x-key": "hunter22"}})])

    def asked(name: str, **matcher: Any) -> Finding:
        return judge(world, {"field": name, **matcher}, masker=masker)

    assert asked("last_request.headers.x-key", length=8).outcome is Outcome.PASS
    assert asked("last_request.headers.x-key", secret="KEY").outcome is Outcome.PASS
    assert asked("last_request.json.k", secret="any").outcome is Outcome.PASS
    assert asked("last_request.json.n", secret="any").outcome is Outcome.FAIL
    assert asked("last_request.body", contains='"k"', secret="KEY").outcome is Outcome.PASS
    assert asked("last_request.json.k", pattern="^hunter").outcome is Outcome.PASS
    finding = asked("last_request.json.k", equals="hunter2")
    assert finding.outcome is Outcome.FAIL
    assert "«secret:KEY»" in finding.reason
    assert "hunter22" not in c1.text(finding.as_record())
    long = sealed([("POST", "/x", "p" * 110 + "hunter22" + "s" * 100)])
    cut = judge(long, {"field": "last_request.body", "contains": "none"}, masker=masker)
    assert "hun" not in c1.text(cut.as_record())  # no beginning of it where a text is cut


def test_a_verifier_asks_what_the_sealed_journal_can_tell() -> None:
    made, _ = parse(assertions=[{"field": "request_count", "equals": 1}])
    plain, masked = (
        Masker({"KEY": "hunter22"}).value(sealed([("GET", "/x", text)]))
        for text in ("plain", "hunter22")
    )
    assert KIND.consistent(made, {}, plain) is None
    with pytest.raises(UnavailableError, match=r"^the journal held a secret"):
        KIND.consistent(made, {"result": {}}, masked)
    assert KIND.consistent(made, {"result": {}}, plain) == (
        "an answer was gathered although the sealed journal hides nothing"
    )


# -- reading ----------------------------------------------------------------------------------


def test_what_is_sealed_holds_all_that_decides() -> None:
    made, _ = parse(
        assertions=[
            {
                "field": "last_request.body",
                "filters": {"X-Key": "k", "method": "post", "Headers": {"X-Other": "o"}},
                "contains": "x",
            }
        ],
        order=[A, B],
    )
    assert made == {
        "type": "http_mock_assertions",
        "service": "pay",
        "assertions": [
            {
                "field": "last_request.body",
                "filters": {"method": "POST", "headers": {"x-key": "k", "x-other": "o"}},
                "matcher": {"contains": "x"},
            }
        ],
        "order": [{"path": "/a"}, {"path": "/b"}],
        "no_unmatched": False,
    }
    assert KIND.needs(made) == {"service:pay"}
    assert (KIND.only_reads, KIND.may_gate) == (True, True)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ({}, ": asserts nothing (at least one entry of 'assertions' or 'order', or "),
        ({"assertions": []}, "assertions: asserts nothing ("),
        ({"no_unmatched": False}, ": asserts nothing ("),
        ({"no_unmatched": "yes"}, "no_unmatched: must be true or false"),
        (
            {"asertions": [], "no_unmatched": True},
            "asertions: unknown key (got 'asertions'; known: ",
        ),
        ({"filter": {}, "no_unmatched": True}, "filter: unknown key"),
        ({"service": "payy", "no_unmatched": True}, "service: unknown service (got 'payy'; "),
        ({"service": "db", "no_unmatched": True}, "service: 'db' is a service of another type "),
        ({"service": 1, "no_unmatched": True}, "service: must be text (got 1; "),
        ({"order": [A]}, "order: one entry has no order"),
        ({"order": [A, {}]}, "order.1: an entry without filters means every request"),
        ({"order": ["/a", B]}, "order.0: must be a mapping"),
        ({"order": {}}, "order: must be a list of filters"),
    ],
)
def test_a_mistake_of_the_check_is_told(check: dict[str, Any], said: str) -> None:
    _, told = parse(**check)
    assert any(one.startswith(said) for one in told), told


COUNT = "request_count"


@pytest.mark.parametrize(
    ("assertion", "said"),
    [
        ({"field": COUNT}, ": an assertion without a matcher asserts nothing ("),
        ({"equals": 1}, ": required key 'field' is missing (known: request_count, requests, "),
        ({"field": COUNT, "filter": {}, "equals": 1}, "filter: unknown key (got 'filter'; known: "),
        ({"field": COUNT, "equls": 1}, "equls: unknown key"),
        (
            {"field": COUNT, "gte": 0},
            ": always holds, so it asserts nothing (got request_count >= ",
        ),
        ({"field": COUNT, "exists": True}, ": always holds"),
        ({"field": "requests", "exists": True}, ": always holds"),
        ({"field": COUNT, "exists": True, "gte": 0}, ": always holds"),
        ({"field": COUNT, "equals": "1"}, ': can never hold (got request_count = "1"; '),
        ({"field": COUNT, "equals": -1}, ": can never hold"),
        ({"field": COUNT, "gt": 2, "lt": 2}, ": can never hold"),
        ({"field": COUNT, "gt": "2"}, 'gt: gt needs a number, got a text (got "2"; '),
        ({"field": "requests", "length": {"gte": 0}}, ": always holds"),
        ({"field": "last_request", "exists": False}, "exists: a request that is not there fails "),
        ({"field": "last_request.body", "contains": ""}, ": every request meets it, so it asks "),
        ({"field": "last_request.body", "not": 5}, ": every request meets it, so it asks nothing"),
        ({"field": "last_request.path", "not": 5}, ": every request meets it, so it asks nothing"),
    ],
)
def test_an_assertion_that_says_nothing_is_refused(assertion: dict[str, Any], said: str) -> None:
    point = "" if said.startswith(":") else "."
    assert refused(assertions=[assertion]).startswith(f"assertions.0{point}{said}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("request_cont", "unknown field (got 'request_cont'; known: request_count, requests, "),
        ("last_requst.body", "unknown field (got 'last_requst.body'; "),
        ("requests[x]", "unknown field (got 'requests[x]'; "),
        ("requests[*].body", "unknown field"),
        ("requests[0", "unknown field"),
        ("requests.body", "is not of one request (got 'requests.body'; "),
        ("request_count.x", "has no parts (got 'request_count.x'; "),
        ("request_count[0]", "unknown field"),
        ("last_request[0]", "is one request (got 'last_request[0]') [write 'requests[0]']"),
        ("last_request.bdy", "unknown part of a request (got 'bdy'; known: method, path, query, "),
        ("last_request.amount", "unknown part of a request (got 'amount'; "),
        ("last_request.body.a", "'body' has no parts (got 'last_request.body.a') [write 'json.a' "),
        ("last_request.path.a", "'path' has no parts"),
        ("last_request.", "unknown part of a request"),
        ("last_request.headers.", "is no name of a header"),
        ("last_request.headers.Date", "'date' is not recorded: it is the wall clock"),
        ("last_request.headers.Content-Length", "'content-length' is not recorded: it says how "),
        ("last_request.query.", "a name is missing after '.'"),
        ("last_request.json.", "must be a path"),
        ("last_request.json.a..b", "a name is missing before '.'"),
        ("last_request.json[x]", "brackets hold an index, a quoted key or *"),
        (5, "must be text (got 5; known: request_count, "),
    ],
)
def test_a_field_that_is_none_is_refused(name: Any, said: str) -> None:
    assert refused(assertions=[{"field": name, "equals": 1}]).startswith(
        f"assertions.0.field: {said}"
    )


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"status": 200}, "status: unknown filter (got 'status'; known: method, path, query, "),
        ({"matehod": "GET"}, "matehod: unknown filter"),
        ({"amount": 5}, "amount: unknown filter (got 'amount'; "),
        ({"path": "refunds"}, "path: is no path (got 'refunds'; a path begins with '/') [write "),
        ({"path": "/x?a=1"}, "path: must not hold '?'"),
        ({"path": {"equals": "x"}}, "path.equals: is no path"),
        ({"path": {"in": ["/{id}"]}}, "path.in: must be an exact path"),
        ({"method": {"contians": "x"}}, "method.contians: unknown operator"),
        ({"query": {"page": 2}}, "query.page: no request can meet it: query.page is a text (got "),
        ({"X-Key": 5}, "X-Key: no request can meet it"),
        ({"Content-Length": "5"}, "Content-Length: 'content-length' is not recorded"),
        ({"headers": {"Date": "x"}}, "headers.Date: 'date' is not recorded"),
        ({"headers": []}, "headers: must be a mapping"),
        ({"to": {"contians": "x"}}, "to.contians: unknown operator"),
        ({"to": {"gt": 5, "lt": 5}}, "to: no request can meet it"),
        ({"body": 5}, "body: a body is a text (got 5; "),
        ({"body": {"contains": 5}}, "body: no request can meet it"),
        ({"body": {"not_contains": ""}}, "body: no request can meet it"),
        ({"body": {"contains": ""}}, "body: every request meets it, so it asks nothing"),
        ({"method": "GET", "METHOD": "POST"}, "METHOD: is a filter again"),
        ([], ": must be a mapping"),
    ],
)
def test_a_filter_that_is_none_is_refused(filters: Any, said: str) -> None:
    told = refused(assertions=[{"field": COUNT, "filters": filters, "equals": 0}])
    point = "" if said.startswith(":") else "."
    assert told.startswith(f"assertions.0.filters{point}{said}")


def test_the_schema_for_editors_agrees() -> None:
    schema: Any = KIND.schema
    jsonschema.Draft202012Validator.check_schema(schema)
    head = {"type": KIND.name, "service": "pay"}
    good = {"assertions": [{"field": "requests[-1].json.a", "filters": {"X-Key": "k"}, "gt": 1}]}
    assert parse(**good)[1] == []
    jsonschema.validate({**head, **good}, schema)
    wrong: tuple[dict[str, Any], ...] = (
        {"assertions": []},
        {"assertions": [{"field": COUNT}]},
        {"assertions": [{"field": "request", "equals": 1}]},
        {"asserts": []},
        {"order": [A]},
    )
    for bad in wrong:
        assert parse(**bad)[1]
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**head, **bad}, schema)


# -- the page that this check comes from ----------------------------------------------------------


def test_the_examples_of_the_page_work_as_written() -> None:
    sent = {"to": "finance@co", "subject": "Renewal", "body": "Your renewal is due"}
    world = sealed([("POST", "/api/messages", sent)], name="smtp")
    message = {"method": "POST", "path": "/api/messages"}
    email_sent_once = [
        {"field": "request_count", "filters": message, "equals": 1},
        {"field": "last_request.body", "contains": "renewal"},
    ]
    summary_sent_once = [{"field": "request_count", "filters": {"to": "finance@co"}, "equals": 1}]
    fields = [
        {"field": "last_request.headers.content-type", "equals": "application/json"},
        {"field": "requests[0]", "exists": True},
        {"field": "requests[0].body", "contains": "due"},
        {"field": "requests[0].headers", "exists": True},
    ]
    for assertions in (email_sent_once, summary_sent_once, fields):
        assert outcome(world, *assertions, service="smtp") == "pass"
    twice = sealed([("POST", "/api/messages", sent)] * 2, name="smtp")
    for assertions in (email_sent_once, summary_sent_once):
        assert outcome(twice, *assertions, service="smtp") == "fail"


# -- a run that did not come to an end ------------------------------------------------------------

ROUTED = [{"method": "POST", "path": "/a"}, {"method": "POST", "path": "/b"}]
MANY: list[tuple[dict[str, Any], str]] = [
    ({"assertions": [{"field": "request_count", "equals": 1}]}, "too many"),
    ({"assertions": [{"field": "request_count", "filters": {"path": "/b"}, "lt": 1}]}, "too many"),
    ({"assertions": [{"field": "requests[0].path", "equals": "/a"}]}, "the first"),
    ({"assertions": [{"field": "requests[1].path", "equals": "/a"}]}, "the second"),
    ({"assertions": [{"field": "requests[0].json.n", "filters": {"path": "/b"}, "gt": 7}]}, "of b"),
    ({"assertions": [{"field": "last_request.path", "equals": "/a"}]}, "never"),
    ({"assertions": [{"field": "requests[-2].path", "equals": "/a"}]}, "never"),
    ({"order": [{"path": "/a"}, {"path": "/b"}]}, "out of turn"),
    ({"no_unmatched": True}, "no route"),
]


def is_final(world: dict[str, Any], check: dict[str, Any]) -> bool:
    made, told = parse(**check)
    assert told == []
    definition = c1.frozen({**made, "timeout": 30.0, "recheck": False})[0]
    item = PlannedItem(id="it", kind=KIND.name, gate=True, definition=definition)
    facts = Facts(
        world=c1.frozen(world)[0], events=events(world), status="paused", output=None, findings={}
    )
    return KIND.is_final(item, {}, facts)


@pytest.mark.parametrize(("check", "why"), MANY)
def test_a_fail_is_final_where_no_request_heals_it_and_only_there(
    check: dict[str, Any], why: str
) -> None:
    paths = ("/a", "/b", "/c")
    runs = [row for count in range(4) for row in itertools.product(paths, repeat=count)]
    worlds = {
        run: sealed([("POST", path, {"n": 1}) for path in run], routes=ROUTED) for run in runs
    }
    failed = {run: outcome(world, **check) == "fail" for run, world in worlds.items()}
    final = {run for run in runs if failed[run] and is_final(worlds[run], check)}
    for run in runs:
        longer = [one for one in runs if one[: len(run)] == run]
        if run in final:
            assert all(failed[one] for one in longer), run
    assert bool(final) is (why != "never")


@pytest.mark.parametrize(
    ("check", "fix"),
    [
        ({"assertions": []}, "[write 'assertions: "),
        ({"assertions": [{"field": COUNT}]}, "[write what the field is to be"),
        ({"assertions": [{"field": COUNT, "gte": 0}]}, "[ask what can be otherwise"),
    ],
)
def test_what_asserts_nothing_is_told_with_what_to_do(check: dict[str, Any], fix: str) -> None:
    _, (told,) = parse(**check)
    assert fix in told
    # The twin: what asserts something is told nothing.
    assert parse(assertions=[{"field": COUNT, "equals": 1}])[1] == []

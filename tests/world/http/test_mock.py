"""A mock asked in process: each request is noted on receipt, the first route that fits answers."""

from __future__ import annotations

import hashlib
import sys
import threading
from typing import Any

import pytest

from pytest_evarness.core import c1
from pytest_evarness.core.interfaces import ServiceDownError
from pytest_evarness.world.http import journal
from pytest_evarness.world.http.limit import MAX_BODY, MAX_KEPT
from pytest_evarness.world.service import EffectFailedError, takes_requests, takes_statements
from tests.world.http.mocks import entries, mock


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_asking_what_kind_of_service_it_is_starts_no_server() -> None:
    service = mock()
    before = threading.active_count()
    assert takes_requests(service)
    assert not takes_statements(service)
    assert threading.active_count() == before
    assert service.address["port"]
    assert threading.active_count() > before
    service.close()


def test_a_request_is_noted_with_all_that_can_be_asked_of_it() -> None:
    service = mock(routes=[{"method": "POST", "path": "/api/{kind}", "status": 202}])
    answer = service.request(
        "post",
        "/api/mess%61ges?b=2&a=1&b=3&c",
        body={"to": "é", "n": 1},
        headers={"X-Trace": "7", "Date": "now", "Host": "elsewhere:99"},
        query={"z": "a b&c"},
    )
    body = '{"n":1,"to":"é"}'
    assert entries(service) == [
        {
            "n": 1,
            "method": "POST",
            "path": "/api/messages",
            "query": [["b", "2"], ["a", "1"], ["b", "3"], ["c", ""], ["z", "a b&c"]],
            "headers": [["content-type", "application/json"], ["host", "mail"], ["x-trace", "7"]],
            "body": body,
            "body_digest": digest(body.encode()),
            "matched": True,
            "route": 0,
            "status": 202,
            "fault": None,
        }
    ]
    assert (answer.n, answer.status, answer.matched, answer.delay_ms) == (1, 202, True, 0)
    assert answer.body_digest == digest(body.encode())


def test_what_came_since_the_last_look_is_drained_once() -> None:
    service = mock(routes=[{"path": "/x", "fault": ["empty", None]}])
    with pytest.raises(EffectFailedError):
        service.request("GET", "/x")
    service.request("GET", "/y")
    empty = digest(b"")
    head = {"service": "mail", "method": "GET", "body_digest": empty}
    assert list(service.drain()) == [
        {**head, "path": "/x", "matched": True, "status": None},
        {**head, "path": "/y", "matched": False, "status": 404},
    ]
    assert list(service.drain()) == []


# -- routes ---------------------------------------------------------------------------------------


def asked(service: Any, *request: Any, **more: Any) -> int | None:
    """Which route took a request."""
    service.request(*request, **more)
    taken: int | None = entries(service)[-1]["route"]
    return taken


def test_the_first_route_in_the_order_of_the_file_wins() -> None:
    routes: list[dict[str, Any]] = [
        {"method": "POST", "path": "/x", "body": {"contains": "special"}},
        {"method": "POST", "path": "/x"},
        {"path": "/{any}"},
    ]
    service = mock(routes=routes)
    assert asked(service, "POST", "/x", body="a special one") == 0
    assert asked(service, "POST", "/x", body="another") == 1
    assert asked(service, "GET", "/x") == 2
    assert asked(mock(routes=routes[::-1][:1] + routes[:1]), "POST", "/x", body="special") == 0


def test_no_other_route_answers_because_it_is_the_only_one() -> None:
    service = mock(routes=[{"method": "POST", "path": "/refunds", "status": 201}])
    answer = service.request("POST", "/refnuds")
    assert (answer.status, answer.matched) == (404, False)
    assert answer.body == "no route for POST /refnuds\n"
    assert service.request("POST", "/refunds").status == 201


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("/orders/{id}", "/orders/7", True),
        ("/orders/{id}", "/orders/", False),
        ("/orders/{id}", "/orders", False),
        ("/orders/{id}", "/orders/7/lines", False),
        ("/orders/{id}", "/orders/a%2Fb", True),
        ("/orders/a", "/orders/%61", True),
        ("/orders/a/b", "/orders/a%2Fb", False),
        ("/a%2Fb", "/a%2fb", True),
        ("/caf%C3%A9", "/café", True),
        ("/100%25", "/100%25", True),
        ("/100%", "/100%25", True),
        ("/x", "/x/", False),
        ("/x", "//x", False),
        ("/x", "/X", False),
        ("/x", "http://elsewhere/x", True),
        ("/", "http://elsewhere", True),
    ],
)
def test_a_path_is_exact_but_for_names_in_braces(pattern: str, path: str, fits: bool) -> None:
    service = mock(routes=[{"path": pattern}])
    assert (asked(service, "GET", path) == 0) is fits


@pytest.mark.parametrize(
    ("condition", "request_", "fits"),
    [
        ({"query": {"q": "a"}}, {"query": {"q": "a", "r": "b"}}, True),
        ({"query": {"q": "a"}}, {"query": {"q": "b"}}, False),
        ({"query": {"q": "a"}}, {}, False),
        ({"query": {"q": {"exists": False}}}, {}, True),
        ({"headers": {"x-key": "k"}}, {"headers": {"X-KEY": "k"}}, True),
        ({"headers": {"X-Key": {"pattern": "^k"}}}, {"headers": {"x-key": "xk"}}, False),
        ({"body": "hi"}, {"body": "hi"}, True),
        ({"body": "hi"}, {"body": "hi "}, False),
        ({"body": {"to": "a"}}, {"body": {"to": "a"}}, True),
        ({"body": {"to": "a"}}, {"body": {"to": "a", "cc": []}}, False),
        ({"body": {}}, {"body": {"to": "a"}}, False),
        ({"body": {}}, {"body": {}}, True),
        ({"body": {}}, {}, False),
        ({"body": [1, {"a": 2}]}, {"body": [1.0, {"a": 2}]}, True),
        ({"body": [1, 2]}, {"body": [2, 1]}, False),
        ({"body": {"to": "1"}}, {"body": {"to": 1}}, False),
        ({"body": {"json": {"to": "a"}}}, {"body": {"to": "a", "cc": []}}, True),
        ({"body": {"json": {"to": "a"}}}, {"body": "to=a"}, False),
        ({"body": {"json": {"n": {"gt": 5}}}}, {"body": {"n": "83"}}, False),
        ({"body": {"contains": "to", "json": {"n": {"gt": 5}}}}, {"body": {"n": 6, "to": 1}}, True),
        ({"body": {"equals": {"length": 5}}}, {"body": {"length": 5}}, True),
        ({"body": {"in": ["hi", {"a": 1}]}}, {"body": {"a": 1}}, True),
        ({"method": {"in": ["put", "PATCH"]}}, {}, False),
        ({"method": {"not": "delete"}}, {}, True),
    ],
)
def test_a_route_takes_what_meets_all_its_conditions(
    condition: dict[str, Any], request_: dict[str, Any], fits: bool
) -> None:
    service = mock(routes=[{"path": "/x", **condition}])
    assert (asked(service, "POST", "/x", **request_) == 0) is fits


def test_a_condition_that_cannot_be_decided_is_not_met() -> None:
    twice = '{"to": "a", "to": "b"}'
    service = mock(routes=[{"path": "/x", "body": {"json": {"to": "b"}}}])
    assert asked(service, "POST", "/x", body=twice) is None
    service = mock(routes=[{"path": "/x", "body": {"json": {"to": {"not": "b"}}}}])
    assert asked(service, "POST", "/x", body=twice) is None


def test_head_and_options_meet_their_own_routes_alone() -> None:
    service = mock(
        routes=[{"method": "GET", "path": "/x"}, {"method": "HEAD", "path": "/y", "response": "z"}]
    )
    assert service.request("HEAD", "/x").status == 404
    assert service.request("OPTIONS", "/x").status == 404
    assert (service.request("HEAD", "/y").status, service.request("HEAD", "/y").body) == (200, "")


# -- answers --------------------------------------------------------------------------------------


def test_an_answer_is_text_or_json_with_its_type() -> None:
    service = mock(
        routes=[
            {"path": "/t", "response": "hi"},
            {"path": "/j", "response": {"b": "é", "a": 1}},
            {"path": "/n"},
            {"path": "/h", "response": "<x/>", "response_headers": {"content-type": "text/xml"}},
        ]
    )
    answers = [service.request("GET", path) for path in ("/t", "/j", "/n", "/h")]
    assert [(answer.body, dict(answer.headers)) for answer in answers] == [
        ("hi", {"Content-Type": "text/plain; charset=utf-8"}),
        ('{"a":1,"b":"é"}', {"Content-Type": "application/json"}),
        ("", {}),
        ("<x/>", {"content-type": "text/xml"}),
    ]


def test_a_list_answers_in_turn_and_the_last_one_stays() -> None:
    service = mock(
        routes=[
            {"path": "/x", "status": [503, 200], "response": ["busy", {"ok": True}, "later"]},
            {"path": "/y", "response": "apart"},
        ]
    )
    got = []
    for _ in range(4):
        answer = service.request("GET", "/x")
        got.append((answer.status, answer.body))
        assert service.request("GET", "/y").body == "apart"
    assert got == [(503, "busy"), (200, '{"ok":true}'), (200, "later"), (200, "later")]


def test_a_list_in_a_list_is_one_answer() -> None:
    service = mock(routes=[{"path": "/x", "response": [[1, 2]]}])
    assert service.request("GET", "/x").body == "[1,2]"


def test_a_delay_is_told_and_nobody_waits() -> None:
    service = mock(routes=[{"path": "/x", "delay": ["2s", 0.25]}])
    assert [service.request("GET", "/x").delay_ms for _ in range(2)] == [2000, 250]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("reset", "mail: the connection was reset"),
        ("timeout", "mail: no answer came in time"),
        ("empty", "mail: the connection was closed without an answer"),
        ("malformed", "mail: the answer was no HTTP"),
    ],
)
def test_a_fault_of_a_route_notes_the_request_and_loses_the_answer(fault: str, why: str) -> None:
    service = mock(routes=[{"path": "/x", "status": 201, "fault": [fault, None]}])
    with pytest.raises(EffectFailedError) as caught:
        service.request("POST", "/x")
    assert (caught.value.reason, caught.value.is_applied, caught.value.n) == (why, True, 1)
    assert service.request("POST", "/x").status == 201
    assert [(one["status"], one["fault"], one["matched"]) for one in entries(service)] == [
        (None, fault, True),
        (201, None, True),
    ]


def test_a_fault_of_the_scenario_refuses_or_loses_the_answer() -> None:
    service = mock(routes=[{"path": "/x"}])
    with pytest.raises(EffectFailedError, match=r"^mail: the connection was refused$") as refused:
        service.request("POST", "/x", fault="refuse")
    assert refused.value.is_applied is False
    assert entries(service) == []
    assert list(service.drain()) == []
    for fault, why in (("reset", "the connection was reset"), ("stall", "no answer came")):
        with pytest.raises(EffectFailedError, match=f"^mail: {why}$") as lost:
            service.request("POST", "/x", fault=fault)
        assert lost.value.is_applied is True
    assert [(one["n"], one["fault"]) for one in entries(service)] == [(1, "reset"), (2, "stall")]


# -- what is kept ---------------------------------------------------------------------------------


def test_without_a_journal_there_is_none_but_events() -> None:
    service = mock(record=False, routes=[{"path": "/x"}])
    assert service.request("GET", "/x").n is None
    assert service.snapshot() == {
        "type": "http_mock",
        "record": False,
        "strict": True,
        "requests": None,
    }
    assert [one["path"] for one in service.drain()] == ["/x"]


@pytest.mark.parametrize(
    ("declaration", "strict", "status"),
    [
        ({}, True, 404),
        ({"allow_unmatched": False}, True, 404),
        ({"allow_unmatched": True}, False, 404),
        ({"default_response": 501}, False, 501),
    ],
)
def test_who_allows_unmatched_requests_is_not_strict(
    declaration: dict[str, Any], strict: bool, status: int
) -> None:
    service = mock(**declaration)
    assert service.request("GET", "/x").status == status
    assert service.snapshot()["strict"] is strict


def test_bytes_that_are_no_text_are_kept_as_such() -> None:
    service = mock()
    service.request("POST", "/x", body="\udcff")
    (entry,) = entries(service)
    assert entry["body"] == "\\udcff"  # half a character has no bytes


def test_a_large_body_is_cut_and_its_digest_is_of_the_whole() -> None:
    service = mock(routes=[{"path": "/x"}])
    text = "é" * MAX_KEPT
    service.request("POST", "/x", body="a" + text)
    service.request("POST", "/x", body="b" * MAX_KEPT)
    cut, whole = entries(service)
    data = ("a" + text).encode()
    assert (cut["truncated"], cut["size"], cut["body_digest"]) == (True, len(data), digest(data))
    # The cut falls into a character: the rest of it is dropped.
    assert cut["body"] == ("a" + text)[: MAX_KEPT // 2]
    assert "truncated" not in whole
    assert len(whole["body"]) == MAX_KEPT


def test_a_body_beyond_the_hard_limit_is_not_taken() -> None:
    service = mock(routes=[{"path": "/x"}])
    answer = service.request("POST", "/x", body="a" * (MAX_BODY + 1))
    assert (answer.status, answer.matched) == (413, False)
    (entry,) = entries(service)
    assert (entry["body"], entry["truncated"], entry["status"]) == ("", True, 413)
    assert "size" not in entry


def test_a_journal_has_room_for_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_JOURNAL", 10)
    service = mock()
    for body in ("12345678", "abcdef", "x"):
        service.request("POST", "/x", body=body)
    assert [one["body"] for one in entries(service)] == ["12345678", "ab", ""]
    assert [one.get("truncated", False) for one in entries(service)] == [False, True, True]
    assert entries(service)[1]["body_digest"] == digest(b"abcdef")


def test_a_full_journal_says_how_many_it_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_REQUESTS", 2)
    service = mock(routes=[{"path": "/x"}])
    answers = [service.request("GET", "/x") for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 503, 503]
    assert [answer.n for answer in answers] == [1, 2, None, None]
    assert (len(entries(service)), service.snapshot()["lost"]) == (2, 2)
    assert len(list(service.drain())) == 4


def test_a_digest_does_not_tell_a_secret() -> None:
    service = mock(secrets={"KEY": "hunter22"})
    service.request("POST", "/x", body={"k": "hunter22"})
    (entry,) = entries(service)
    assert entry["body"] == '{"k":"hunter22"}'  # true: the world masks it
    assert entry["body_digest"] == digest('{"k":"«secret:KEY»"}'.encode())


@pytest.mark.parametrize("shift", [0, 1, 4, 7, 8, 9])
def test_a_cut_leaves_no_beginning_of_a_secret(shift: int) -> None:
    service = mock(secrets={"KEY": "hunter22"})
    # The secret begins ``shift`` characters before the cut.
    service.request("POST", "/x", body="a" * (MAX_KEPT - shift) + "hunter22" + "b" * 100)
    (entry,) = entries(service)
    kept = entry["body"].lstrip("a")
    assert kept in ("", "hunter22", "hunter22b")
    assert (kept == "") is (shift < 8)


def test_the_audit_log_gets_what_scripts_read() -> None:
    lines: list[Any] = []
    service = mock(
        note=lambda kind, details: lines.append((kind, details)),
        routes=[{"path": "/x", "response": {"id": 7}, "fault": [None, "reset"]}],
    )
    service.request("POST", "/x", body={"a": 1}, query={"q": "a b"})
    with pytest.raises(EffectFailedError):
        service.request("GET", "/x")
    assert lines == [
        (
            "http_call",
            {
                "service": "mail",
                "method": "POST",
                "url": "http://mail/x?q=a+b",
                "status": 200,
                "request_body": '{"a":1}',
                "response_body": '{"id":7}',
            },
        ),
        (
            "http_call",
            {
                "service": "mail",
                "method": "GET",
                "url": "http://mail/x",
                "status": None,
                "request_body": "",
                "response_body": "",
            },
        ),
    ]


# -- life -----------------------------------------------------------------------------------------


def test_what_is_sealed_takes_nothing_and_stays_as_it_is() -> None:
    service = mock(routes=[{"path": "/x"}])
    service.request("GET", "/x")
    service.seal()
    before = c1.text(service.snapshot())
    with pytest.raises(ServiceDownError, match=r"^service mail: the run is over$"):
        service.request("GET", "/x")
    with pytest.raises(ServiceDownError, match=r"^service mail: the run is over$"):
        _ = service.address
    assert c1.text(service.snapshot()) == before
    service.close()
    service.close()


def test_a_mock_that_nobody_asks_opens_nothing() -> None:
    before = threading.active_count()
    service = mock(routes=[{"path": "/x"}])
    service.seal()
    assert service.snapshot()["requests"] == []
    assert threading.active_count() == before


def test_asked_in_process_it_needs_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == "werkzeug" or name.endswith("http.application"):
            monkeypatch.delitem(sys.modules, name)
    service = mock(routes=[{"path": "/x"}])
    assert service.request("GET", "/x").status == 200
    assert "werkzeug" not in sys.modules
    _ = service.address
    assert "werkzeug" in sys.modules  # the twin: somebody who asks for the address gets it
    service.close()

"""HTTP mocks in a session: from the file to the verdict, whoever sends the requests."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.scenarios import step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

CASE = "scenarios/s.yaml::default"

CLIENT = '''
"""Steps that reach a declared service as any program does."""

import http.client
import socket
import threading


def ask(place, method, path, body=None, headers={}):
    connection = http.client.HTTPConnection(place["host"], place["port"], timeout=10)
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def wrong_door(inputs, config, context):
    ask(context.services["pay"], "POST", "/refnuds", b"1")
    return {"out": "done"}


def right_door(inputs, config, context):
    place = context.services["pay"]
    body = '{"callback": "http://%s:%d/done"}' % (place["host"], place["port"])
    headers = {"Origin": "http://%(host)s:%(port)d" % place}
    return {"out": ask(place, "POST", "/refunds", body, headers)}


def in_flight(inputs, config, context):
    place = context.services["pay"]
    connection = socket.create_connection((place["host"], place["port"]))
    connection.sendall(b"POST /slow HTTP/1.1\\r\\nContent-Length: 4\\r\\n\\r\\nlate")

    def wait():
        with connection:
            while connection.recv(1000):
                pass

    # It is on its way: the run ends before the answer.
    threading.Thread(target=wait, daemon=True).start()
    return {"out": "done"}


def sent_and_forgotten(inputs, config, context):
    place = context.services["pay"]
    with socket.create_connection((place["host"], place["port"])) as connection:
        connection.sendall(b"POST /refunds HTTP/1.1\\r\\nContent-Length: 1\\r\\n\\r\\n1")
    return {"out": "done"}


def show(inputs, config, context):
    return {"out": ask(context.services["pay"], "GET", "/refunds")}
'''

REFUNDS = {"method": "POST", "path": "/refunds", "status": 201, "response": "paid"}


def asserted(*assertions: Any, service: str = "pay", **more: Any) -> dict[str, Any]:
    check = {"type": "http_mock_assertions", "service": service, **more}
    if assertions:
        check["assertions"] = list(assertions)
    return {"description": "what the service saw", "gate": True, "check": check}


def scenario(step: str, *invariants: dict[str, Any], **mock: Any) -> dict[str, Any]:
    return {
        "evarness": 1,
        "id": "doors",
        "subject": {"graph": step_graph(f"client:{step}")},
        "environment": {"services": {"pay": {"type": "http_mock", "routes": [REFUNDS], **mock}}},
        "invariants": {f"i{number}": one for number, one in enumerate(invariants)},
    }


def run(session: Session, content: dict[str, Any], *words: str, **more: Any) -> Ran:
    files = {"scenarios/s.yaml": content, "client.py": CLIENT}
    return session(*words, "--evarness-unsigned", files=files, **more)


NONE = asserted({"field": "request_count", "filters": {"path": "/refunds"}, "equals": 0})


def test_an_unexpected_request_does_not_go_unnoticed(session: Session) -> None:
    # HTTP-05: the client ignored the 404, and the test passed.
    told = {
        "description": "the trace knows it",
        "check": {
            "type": "trace",
            "assert": {
                "eventually": {
                    "type": "http_request",
                    "where": {"service": "pay", "path": "/refnuds", "matched": False},
                }
            },
        },
    }
    ran = run(session, scenario("wrong_door", NONE, told))
    assert ran.code == 1
    assert ran.findings(CASE) == {
        "reproduces": "pass",
        "expect": "pass",
        "forbidden-unmatched-requests": "fail",
        "i0": "pass",
        "i1": "pass",
    }
    near = "no route met POST /refnuds to service 'pay' (near routes: POST /refunds)"
    assert near in ran.text
    # Where none is near, none is named.
    far = run(session, scenario("wrong_door", NONE, routes=[{**REFUNDS, "path": "/archive"}]))
    assert "no route met POST /refnuds to service 'pay'\n" in far.text
    # The twin: a service that says so takes any request.
    ran = run(session, scenario("wrong_door", NONE, told, allow_unmatched=True))
    assert ran.code == 0, ran.text
    assert "forbidden-unmatched-requests" not in ran.findings(CASE)


def test_requests_of_programs_reproduce_whatever_the_port(session: Session) -> None:
    count = asserted({"field": "request_count", "equals": 1})
    body = asserted({"field": "last_request.json.callback", "equals": "http://pay/done"})
    origin = asserted({"field": "last_request.headers.origin", "equals": "http://pay"})
    ran = run(session, scenario("right_door", count, body, origin), mirror=True)
    assert (ran.code, ran.holds) == (0, True), ran.text
    worlds = {one["world_digest"] for one in ran.predicate["cases"][0]["replicas"][0]["runs"]}
    assert len(worlds) == 1


def test_a_request_in_flight_when_the_run_ends_is_counted(session: Session) -> None:
    slow = {"method": "POST", "path": "/slow", "delay": "200ms", "status": 202}
    one = asserted({"field": "request_count", "equals": 1}, no_unmatched=True)
    ran = run(session, scenario("in_flight", one, routes=[slow]))
    assert ran.code == 0, ran.text


def test_a_request_whose_sender_is_gone_is_counted(session: Session) -> None:
    paid = {"method": "POST", "path": "/refunds"}
    one = asserted({"field": "request_count", "filters": paid, "equals": 1})
    ran = run(session, scenario("sent_and_forgotten", one))
    assert ran.code == 0, ran.text


def test_a_failure_shows_expected_and_actual_and_where_to_look(session: Session) -> None:
    wrong = asserted({"field": "last_request.json", "equals": {"callback": "none"}})
    ran = run(session, scenario("right_door", wrong))
    assert ran.code == 1
    assert (
        'request #1 POST /refunds (201): last_request.json.callback: expected text "none",'
        ' got text "http://pay/done"' in ran.text
    )
    assert "looked at: journal of service pay, 1 request" in ran.text
    assert re.search(r"seq \d+, http_request", ran.text)


def test_without_a_journal_the_case_is_undecided(session: Session) -> None:
    ran = run(session, scenario("right_door", NONE, record=False))
    assert ran.code == 1
    assert ran.findings(CASE)["i0"] == "indeterminate"
    assert "service 'pay' keeps no journal (record: false)" in ran.text


def test_a_misspelt_filter_is_told_with_its_line(session: Session) -> None:
    bad = asserted({"field": "request_count", "filters": {"pth": "/refunds"}, "equals": 0})
    ran = run(session, scenario("right_door", bad))
    assert ran.code == 1
    assert "unknown filter (got 'pth'; known: method, path, " in ran.text
    assert "try: write 'path'" in ran.text


def test_a_secret_is_compared_and_never_shown(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAY_KEY", "hunter22secret")
    content = scenario("right_door", asserted({"field": "last_request.body", "length": 999}))
    content["secrets"] = ["PAY_KEY"]
    source = CLIENT.replace('"callback"', '"key": "hunter22secret", "callback"')
    files = {"scenarios/s.yaml": content, "client.py": source}
    ran = session("--evarness-unsigned", files=files)
    assert ran.code == 1
    assert "has no length = 999" in ran.text
    assert "hunter22" not in ran.text
    assert "hunter22" not in (ran.root / ".evarness" / "proof.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_services_of_workers_do_not_meet(session: Session, workers: str) -> None:
    # XDI-03: a port that two workers chose, rows and requests of another test.
    count = asserted({"field": "request_count", "equals": 1})
    files: dict[str, Any] = {"client.py": CLIENT}
    for number in (1, 2):
        content = scenario("right_door", copy.deepcopy(count))
        content["id"] = f"alone-{number}"
        content["cases"] = {f"c{case}": {} for case in range(15)}
        files[f"scenarios/alone-{number}.yaml"] = content
    ran = session("-n", workers, "--evarness-unsigned", files=files, mirror=True)
    assert ran.code == 0, ran.text
    assert ran.counts == {"passed": 30 * 4}
    digests = {
        run["world_digest"]
        for case in ran.predicate["cases"]
        for run in case["replicas"][0]["runs"]
    }
    assert len(digests) == 1

"""A mock on loopback: real clients, real sockets, and nothing left when it is closed."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pytest_evarness.core import c1
from pytest_evarness.world.http import journal, limit, mock, server, wire
from pytest_evarness.world.http.application import Application
from tests.world.http import mocks
from tests.world.http.mocks import ask, ask_at, connected, entries, rest, sent

EVERYTHING = [{"path": "/x", "response": {"ok": True}}]


def until(condition: Any) -> None:
    """Wait for something that another thread is about to do."""
    end = time.monotonic() + mocks.SECONDS
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def threads_of(service: mock.HttpMock) -> list[str]:
    return [
        one.name for one in threading.enumerate() if one.name.startswith(f"http {service.name}")
    ]


# -- clients --------------------------------------------------------------------------------------


def test_a_client_gets_the_answer_and_the_journal_gets_the_request() -> None:
    service = mocks.mock(routes=[{"method": "POST", "path": "/x", "status": 201, "response": "hi"}])
    status, headers, body = ask(service, "POST", "/x?q=1&q=%C3%A9", b'{"a":1}', {"X-Key": "k"})
    assert (status, body) == (201, b"hi")
    # No date, no version: what a program prints of it is the same in the second run.
    assert headers == {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": "2",
        "Connection": "close",
    }
    service.seal()
    (entry,) = entries(service)
    assert (entry["path"], entry["query"]) == ("/x", [["q", "1"], ["q", "é"]])
    assert entry["headers"] == [["accept-encoding", "identity"], ["host", "mail"], ["x-key", "k"]]
    assert (entry["body"], entry["status"], entry["n"]) == ('{"a":1}', 201, 1)


def test_loopback_and_process_leave_the_same_journal() -> None:
    texts = []
    for over_loopback in (False, True):
        service = mocks.mock(routes=[{"path": "/a b"}])
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if over_loopback:
            ask(service, "PUT", "/a%20b?x=1", b'{"n":1}', headers)
        else:
            service.request("PUT", "/a b", body={"n": 1}, headers=headers, query={"x": "1"})
        service.seal()
        texts.append(c1.text(service.snapshot()))
    assert texts[0] == texts[1]


def test_nothing_of_the_port_reaches_the_journal() -> None:
    texts = []
    for name in ("127.0.0.1", "localhost"):
        service = mocks.mock(routes=EVERYTHING)
        port: Any = service.address["port"]
        own = f"{name}:{port}"
        body = json.dumps({"callback": f"http://{own}/done", "port": "x"}).encode()
        headers = {"Host": own, "Origin": f"http://{own}", "Referer": f"http://{own}/y"}
        ask(service, "POST", f"/x?to=http%3A%2F%2F{own.replace(':', '%3A')}%2F", body, headers)
        service.seal()
        texts.append(c1.text(service.snapshot()))
        assert str(port) not in texts[-1]
    assert texts[0] == texts[1]
    assert "http://mail/done" in texts[0]
    assert '["origin","http://mail"]' in texts[0]


def test_another_port_in_a_body_is_left_alone() -> None:
    service = mocks.mock(routes=EVERYTHING)
    port: Any = service.address["port"]
    body = f"http://127.0.0.1:{port}1/ http://10.0.0.1:{port}/"
    ask(service, "POST", "/x", body.encode())
    service.seal()
    assert entries(service)[0]["body"] == body


@pytest.mark.parametrize(
    ("method", "path", "status", "length"),
    [("HEAD", "/h", 200, "5"), ("OPTIONS", "/o", 204, None), ("PURGE", "/x", 404, "22")],
)
def test_methods_without_a_body_in_their_answer(
    method: str, path: str, status: int, length: str | None
) -> None:
    service = mocks.mock(
        routes=[
            {"method": "HEAD", "path": "/h", "response": "hello"},
            {
                "method": "OPTIONS",
                "path": "/o",
                "status": 204,
                "response_headers": {"Allow": "GET"},
            },
        ]
    )
    got, headers, body = ask(service, method, path)
    assert (got, headers.get("Content-Length")) == (status, length)
    assert body == (b"" if method != "PURGE" else b"no route for PURGE /x\n")
    service.close()


def test_chunked_bodies_arrive_whole() -> None:
    service = mocks.mock(routes=EVERYTHING)
    ask(service, "POST", "/x", iter([b"ab", b"c" * 70_000, b"d"]), encode_chunked=True)
    answer = sent(
        service,
        b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;name=value\r\nabc\r\n0\r\n",
        b"Trailer: x\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    service.seal()
    assert [one["body"] for one in entries(service)] == ["ab" + "c" * 70_000 + "d", "abc"]
    assert all(
        name != "transfer-encoding" for one in entries(service) for name, _ in one["headers"]
    )


def test_a_large_body_is_asked_for_before_it_is_sent() -> None:
    service = mocks.mock(routes=EVERYTHING)
    with connected(service) as client:
        client.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert rest(client).startswith(b"HTTP/1.1 200 OK")
    service.close()


def test_bytes_that_are_no_text_are_kept_in_base64() -> None:
    service = mocks.mock(routes=EVERYTHING)
    ask(service, "POST", "/x", b"\xff\x00\xfe")
    service.seal()
    assert (entries(service)[0]["body"], entries(service)[0]["body_base64"]) == (None, "/wD+")


def test_a_body_beyond_the_hard_limit_gets_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_BODY", 1000)
    service = mocks.mock(routes=EVERYTHING)
    assert ask(service, "POST", "/x", b"a" * 2_000_000)[0] == 413
    assert ask(service, "POST", "/x", iter([b"a" * 1001]), encode_chunked=True)[0] == 413
    assert ask(service, "POST", "/x", b"a" * 1000)[0] == 200
    service.seal()
    assert [one["status"] for one in entries(service)] == [413, 413, 200]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /x\r\n\r\n", 400),
        (b"GET  /x HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n", 400),
        (b"\r\n\r\n\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET /x HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nX: a\0b\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /x HTTP/1.1\r\n" + b"X: a\r\n" * 20_000 + b"\r\n", 431),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"POST /x HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: 1, 2\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_noted_and_told(raw: bytes, status: int) -> None:
    service = mocks.mock(routes=EVERYTHING)
    assert sent(service, raw).startswith(b"HTTP/1.1 %d " % status)
    service.seal()
    (entry,) = entries(service)
    assert (entry["status"], entry["matched"], entry["truncated"]) == (status, False, True)
    assert service.problem is None


@pytest.mark.parametrize(
    "raw",
    [
        b"\r\nGET /x HTTP/1.1\r\n\r\n",
        b"GET /x HTTP/1.0\n\n",
        b"GET http://elsewhere/x HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
        b"POST /x HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
        b"GET /x HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
        b"GET /x HTTP/1.1\r\nX: \xc3\xa9\r\nY: \xe9\r\n\r\n",
    ],
)
def test_what_is_a_request_all_the_same_is_answered(raw: bytes) -> None:
    service = mocks.mock(routes=EVERYTHING)
    assert sent(service, raw).startswith(b"HTTP/1.1 200 OK\r\n")
    service.close()


def test_repeated_and_folded_headers_are_kept_in_order() -> None:
    service = mocks.mock(routes=EVERYTHING)
    sent(service, b"GET /x HTTP/1.1\r\nX-A: 2\r\nHost: h\r\nX-a: 1\r\n  more\r\n\r\n")
    service.seal()
    assert entries(service)[0]["headers"] == [["host", "mail"], ["x-a", "2"], ["x-a", "1 more"]]


# -- clients that misbehave -----------------------------------------------------------------------


def test_a_slow_client_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PAUSE_SECONDS", 0.1)
    service = mocks.mock(routes=EVERYTHING)
    assert sent(service, b"POST /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nab").startswith(
        b"HTTP/1.1 408 "
    )
    service.seal()
    (entry,) = entries(service)
    assert (entry["path"], entry["body"], entry["status"]) == ("/x", "ab", 408)


def test_a_client_that_drips_has_so_long_for_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "REQUEST_SECONDS", 0.2)
    service = mocks.mock(routes=EVERYTHING)
    with connected(service) as client:
        answer = b""
        client.settimeout(0.05)
        for _ in range(200):
            try:
                client.sendall(b"G")
                answer = client.recv(100)
            except TimeoutError:
                continue
            except OSError:
                break
            if answer:
                break
    service.seal()
    assert [one["status"] for one in entries(service)] == [408]
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_client_that_goes_away_in_the_middle_is_noted() -> None:
    service = mocks.mock(routes=EVERYTHING)
    with connected(service) as client:
        client.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc")
    service.seal()
    (entry,) = entries(service)
    assert (entry["method"], entry["path"], entry["body"]) == ("POST", "/x", "abc")
    assert (entry["status"], entry["truncated"]) == (400, True)


def test_a_connection_without_a_request_is_none() -> None:
    service = mocks.mock(routes=EVERYTHING)
    with connected(service):
        assert ask(service, "GET", "/x")[0] == 200
        service.seal()
    assert [one["n"] for one in entries(service)] == [1]


def test_many_idle_connections_do_not_keep_others_out() -> None:
    service = mocks.mock(routes=EVERYTHING)
    idle = [connected(service) for _ in range(3 * limit.MAX_WORKERS)]
    assert ask(service, "GET", "/x")[0] == 200
    for one in idle:
        one.close()
    service.close()


def test_an_idle_connection_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.05)
    service = mocks.mock(routes=EVERYTHING)
    with connected(service) as client:
        assert rest(client) == b""
    service.close()


# -- faults ---------------------------------------------------------------------------------------


def test_faults_of_a_route_over_loopback() -> None:
    service = mocks.mock(
        routes=[{"path": f"/{fault}", "fault": fault} for fault in ("reset", "empty", "malformed")]
    )
    with pytest.raises(ConnectionResetError):
        ask(service, "POST", "/reset", b"x")
    with pytest.raises(http.client.RemoteDisconnected):
        ask(service, "POST", "/empty", b"x")
    with pytest.raises(http.client.BadStatusLine):
        ask(service, "POST", "/malformed", b"x")
    service.seal()
    assert [(one["fault"], one["status"], one["body"]) for one in entries(service)] == [
        ("reset", None, "x"),
        ("empty", None, "x"),
        ("malformed", None, "x"),
    ]


def test_a_time_out_holds_the_client_and_not_the_run() -> None:
    service = mocks.mock(routes=[{"path": "/t", "fault": "timeout"}, *EVERYTHING])
    with connected(service) as client:
        client.sendall(b"GET /t HTTP/1.1\r\n\r\n")
        until(lambda: entries(service))
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert [one["path"] for one in service.drain()] == ["/t"]
        assert ask(service, "GET", "/x")[0] == 200
        client.settimeout(mocks.SECONDS)
        service.seal()
        with_no_answer = rest(client)
    assert with_no_answer == b""


def test_held_clients_take_no_worker() -> None:
    service = mocks.mock(routes=[{"path": "/t", "fault": "timeout"}, *EVERYTHING])
    held = [connected(service) for _ in range(limit.MAX_WORKERS + 5)]
    for one in held:
        one.sendall(b"GET /t HTTP/1.1\r\n\r\n")
    assert ask(service, "GET", "/x")[0] == 200
    for one in held:
        one.close()
    service.close()


def test_faults_of_the_scenario_reach_loopback() -> None:
    service = mocks.mock(routes=EVERYTHING)
    faults = iter(["refuse", "reset", None])
    service.next_fault = lambda: next(faults)
    for _ in range(2):
        with pytest.raises(ConnectionResetError):
            ask(service, "GET", "/x")
    assert ask(service, "GET", "/x")[0] == 200
    service.seal()
    assert [(one["n"], one["fault"]) for one in entries(service)] == [(1, "reset"), (2, None)]


# -- many at once, and the end --------------------------------------------------------------------


def test_requests_at_once_get_numbers_of_their_own() -> None:
    service = mocks.mock(routes=[{"path": "/x", "response": [str(n) for n in range(200)]}])
    _ = service.address

    def client(n: int) -> bytes:
        return ask(service, "POST", f"/x?c={n}", str(n).encode())[2]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(client, range(200)))
    service.seal()
    journal_ = entries(service)
    assert [one["n"] for one in journal_] == list(range(1, 201))
    assert sorted(int(one["body"]) for one in journal_) == list(range(200))
    assert all(one["query"] == [["c", one["body"]]] for one in journal_)
    # The k-th request of a route gets its k-th answer, whoever sent it.
    assert [answers[int(one["body"])] for one in journal_] == [str(n).encode() for n in range(200)]


def test_workers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_WORKERS", 3)
    service = mocks.mock("bounded", routes=[{"path": "/x", "delay": "20ms"}])
    _ = service.address
    with ThreadPoolExecutor(10) as pool:
        statuses = list(pool.map(lambda _: ask(service, "GET", "/x")[0], range(20)))
    assert statuses == [200] * 20
    assert len(threads_of(service)) <= 4
    service.close()


def test_a_request_in_flight_at_the_end_is_answered_and_counted() -> None:
    service = mocks.mock(routes=[{"path": "/slow", "delay": "300ms", "response": "done"}])
    _ = service.address
    answers: list[Any] = []
    client = threading.Thread(target=lambda: answers.append(ask(service, "POST", "/slow", b"x")))
    client.start()
    # It is noted before it is answered: that is when the run ends here.
    until(lambda: entries(service))
    assert answers == []
    service.seal()
    client.join()
    assert [answer[2] for answer in answers] == [b"done"]
    assert [one["status"] for one in entries(service)] == [200]


def test_closed_instead_of_sealed_it_waits_for_nobody() -> None:
    service = mocks.mock("closing", routes=[{"path": "/slow", "delay": "10s"}])
    with connected(service) as client:
        client.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
        until(lambda: entries(service))
        service.close()
        # An orderly end, or one that is not: no answer in either case.
        with contextlib.suppress(ConnectionError):
            assert rest(client) == b""
        assert threads_of(service) == []


def test_requests_that_nobody_read_yet_are_taken_before_the_end() -> None:
    service = mocks.mock(routes=EVERYTHING)
    clients = [connected(service) for _ in range(50)]
    for client in clients:
        client.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 1\r\n\r\n1")
    service.seal()
    assert len(entries(service)) == 50
    for client in clients:
        assert rest(client).startswith(b"HTTP/1.1 200")
        client.close()


def test_a_body_that_is_still_to_come_is_waited_for() -> None:
    service = mocks.mock(routes=EVERYTHING)
    with connected(service) as client:
        client.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\n12")
        sealing = threading.Thread(target=service.seal)
        sealing.start()
        client.sendall(b"345")
        assert rest(client).startswith(b"HTTP/1.1 200")
        sealing.join()
    assert [one["body"] for one in entries(service)] == ["12345"]


def test_events_are_drained_once_what_is_in_flight_is_answered() -> None:
    service = mocks.mock(routes=[{"path": "/slow", "delay": "200ms"}])
    with connected(service) as client:
        client.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
        (payload,) = service.drain()
        client.setblocking(False)
        assert client.recv(9) == b"HTTP/1.1 "
    assert payload["path"] == "/slow"
    service.close()


def test_nothing_is_left_when_it_is_closed() -> None:
    service = mocks.mock("leaving", routes=EVERYTHING)
    address: Any = service.address
    with connected(service) as idle:
        ask(service, "GET", "/x")
        assert threads_of(service)
        service.close()
        assert threads_of(service) == []
        assert rest(idle) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address["host"], address["port"]), timeout=mocks.SECONDS)


def test_the_port_is_bound_before_its_number_is_known() -> None:
    services = [mocks.mock(f"m{n}") for n in range(50)]
    with ThreadPoolExecutor(8) as pool:
        ports = list(pool.map(lambda one: one.address["port"], services))
    assert len(set(ports)) == 50
    for service in services:
        assert ask(service, "GET", "/x")[0] == 404
        service.close()


def test_a_port_that_cannot_be_had_makes_the_service_down(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_evarness.core.interfaces import ServiceDownError

    def none_left(*_: Any, **__: Any) -> Any:
        raise OSError(24, "Too many open files")

    service = mocks.mock()
    monkeypatch.setattr(socket, "create_server", none_left)
    with pytest.raises(
        ServiceDownError, match=r"^service mail: no port could be bound \(OSError\)"
    ):
        _ = service.address
    assert service.problem == "no port could be bound (OSError)"
    assert service.snapshot() == {"type": "http_mock", "down": True}


def test_a_fault_of_the_mock_itself_is_told_and_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no such table")

    service = mocks.mock(routes=EVERYTHING)
    _ = service.address
    monkeypatch.setattr(journal.Journal, "take", broken)
    with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
        ask(service, "GET", "/x")
    assert service.problem == "RuntimeError: no such table"
    service.seal()
    assert service.snapshot() == {"type": "http_mock", "down": True}


def test_an_interrupted_process_leaves_nothing() -> None:
    code = """
import signal, sys, time
sys.path[:] = eval(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in background
from tests.world.http.mocks import mock
service = mock(routes=[{"path": "/slow", "delay": "10s"}])
print(service.address["port"], flush=True)
while True:
    time.sleep(0.05)  # a signal that comes just before a sleep does not end it
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, repr(sys.path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=mocks.SECONDS) as client:
            client.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
            child.send_signal(2)
            child.wait(mocks.SECONDS)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=mocks.SECONDS)


# -- copies ---------------------------------------------------------------------------------------


def test_a_copy_answers_alike_and_what_is_done_to_it_reaches_nobody() -> None:
    service = mocks.mock(routes=[{"path": "/x", "response": ["first", "then"]}])
    service.request("GET", "/x")
    service.seal()
    before = c1.text(service.snapshot())
    with service.copy() as address:
        host, port = str(address["host"]), int(str(address["port"]))
        assert ask_at(host, port, "GET", "/x")[2] == b"first"
        status, headers, body = ask_at(host, port, "GET", "/__evarness__/requests")
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert [one["path"] for one in json.loads(body)] == ["/x"]
    assert c1.text(service.snapshot()) == before
    with pytest.raises(ConnectionRefusedError):
        ask_at(host, port, "GET", "/x")


def test_the_journal_can_be_read_from_copies_alone() -> None:
    service = mocks.mock(record=False)
    assert ask(service, "GET", "/__evarness__/requests")[0] == 404
    service.seal()
    with service.copy() as address:
        host, port = str(address["host"]), int(str(address["port"]))
        assert ask_at(host, port, "GET", "/__evarness__/requests")[2] == b"null"


# -- other clients, another server ----------------------------------------------------------------


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_fetch_of_node_is_served() -> None:
    service = mocks.mock(
        routes=[{"method": "POST", "path": "/x", "status": 201, "response": {"a": 1}}]
    )
    port: Any = service.address["port"]
    code = (
        f"const r = await fetch('http://localhost:{port}/x?q=é', "
        "{method: 'POST', body: JSON.stringify({b: 'ü'})}); "
        "console.log(r.status, JSON.stringify(await r.json()))"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == '201 {"a":1}\n'
    service.seal()
    (entry,) = entries(service)
    assert (entry["body"], entry["query"]) == ('{"b":"ü"}', [["q", "é"]])
    assert str(port) not in c1.text(entry)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_is_served() -> None:
    service = mocks.mock(routes=EVERYTHING)
    port: Any = service.address["port"]
    url = f"http://127.0.0.1:{port}/x"
    words = ["curl", "-sS", "--noproxy", "*", "-T", "-", "-H", "Transfer-Encoding: chunked", url]
    done = subprocess.run(words, input=b"z" * 3_000_000, capture_output=True, check=True)
    assert done.stdout == b'{"ok":true}'
    service.seal()
    (entry,) = entries(service)
    assert (entry["method"], entry["size"], entry["truncated"]) == ("PUT", 3_000_000, True)


def test_it_is_an_application_that_any_server_of_wsgi_can_serve() -> None:
    from werkzeug.test import Client

    taken = journal.Journal("mail", mocks.declared(routes=EVERYTHING))
    client = Client(Application("mail", taken))
    answer = client.post("/x?q=1", data=b"hi", headers={"X-Key": "k"})
    assert (answer.status_code, answer.get_json()) == (200, {"ok": True})
    requests: Any = taken.snapshot()["requests"]
    assert (requests[0]["path"], requests[0]["query"], requests[0]["body"]) == (
        "/x",
        [["q", "1"]],
        "hi",
    )
    assert ["x-key", "k"] in requests[0]["headers"]

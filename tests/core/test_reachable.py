"""A step reaches the services that are declared, at their very addresses, and nothing else."""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.request
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.sandbox import Guard
from pytest_evarness.errors import DeterminismError

if TYPE_CHECKING:
    from collections.abc import Iterator

NETWORK = r"a node must not use the real network \(declare what the node talks to"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - its name there


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    """Two servers of which one is declared."""
    servers = [HTTPServer(("127.0.0.1", 0), _Handler) for _ in range(2)]
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield servers[0].server_port, servers[1].server_port
    for server in servers:
        server.shutdown()
        server.server_close()


def fetch(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
        return bytes(answer.read())


def by_client(port: int) -> bytes:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as client:
        client.request("GET", "/")
        return client.getresponse().read()


def by_socket(port: int) -> bytes:
    with socket.socket() as one:
        one.settimeout(5)
        assert one.connect_ex(("127.0.0.1", port)) == 0
    return b"ok"


def by_name(port: int) -> bytes:
    with socket.create_connection(("localhost", port), timeout=5):
        return b"ok"


def nothing() -> set[tuple[str, int]]:
    return set()


WAYS: list[Callable[[int], bytes]] = [fetch, by_client, by_socket]


@pytest.mark.parametrize("way", WAYS)
def test_a_declared_address_is_reached_and_the_one_beside_it_is_not(
    way: Callable[[int], bytes], ports: tuple[int, int]
) -> None:
    declared, other = ports
    guard = Guard(lambda: {("127.0.0.1", declared)})
    with guard:
        assert way(declared) == b"ok"
    assert guard.refused is None
    with pytest.raises(DeterminismError, match=rf"^socket\.connect: {NETWORK}"), guard:
        way(other)
    # The twin: without a guard the other one answers, so it was the guard that refused.
    assert way(other) == b"ok"


def test_localhost_is_the_same_place(ports: tuple[int, int]) -> None:
    declared, other = ports
    with Guard(lambda: {("127.0.0.1", declared)}):
        assert by_name(declared) == b"ok"
    with pytest.raises(DeterminismError, match=NETWORK), Guard(lambda: {("127.0.0.1", declared)}):
        by_name(other)


def send(how: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        if how == "sendto":
            one.sendto(b"x", ("127.0.0.1", 9))
        else:
            one.sendmsg([b"x"], [], 0, ("127.0.0.1", 9))


def connect(family: int, address: Any) -> None:
    with socket.socket(family) as one:
        one.connect(address)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (partial(socket.getaddrinfo, "example.invalid", 80), "socket.getaddrinfo"),
        (partial(socket.gethostbyname, "example.invalid"), "socket.gethostbyname"),
        (partial(send, "sendto"), "socket.sendto"),
        (partial(send, "sendmsg"), "socket.sendmsg"),
        (partial(connect, socket.AF_UNIX, "/tmp/none"), "socket.connect"),
        (partial(connect, socket.AF_INET, ("0.0.0.0", 9)), "socket.connect"),
    ],
)
def test_other_ways_out_are_refused_by_name(call: Callable[[], Any], name: str) -> None:
    guard = Guard(lambda: {("127.0.0.1", 1)})
    with pytest.raises(DeterminismError, match=rf"^{name}: {NETWORK}"), guard:
        call()


def test_an_address_that_nobody_asked_for_is_not_reached(ports: tuple[int, int]) -> None:
    asked: set[tuple[str, int]] = set()
    with Guard(lambda: asked):
        with pytest.raises(DeterminismError, match=NETWORK):
            by_socket(ports[0])
        asked.add(("127.0.0.1", ports[0]))
        assert by_socket(ports[0]) == b"ok"


def test_a_refusal_that_was_swallowed_is_remembered(ports: tuple[int, int]) -> None:
    guard = Guard(nothing)
    with guard, suppress(DeterminismError):
        by_socket(ports[0])
    assert guard.refused is not None
    assert guard.refused.problem.startswith("socket.connect: ")


def test_without_services_everything_is_refused_as_before(ports: tuple[int, int]) -> None:
    with pytest.raises(DeterminismError, match=rf"^socket\.connect_ex: {NETWORK}"), Guard():
        by_socket(ports[0])


def test_outside_the_guard_and_in_other_threads_nothing_is_watched(ports: tuple[int, int]) -> None:
    found: list[bytes] = []
    with Guard(nothing):
        thread = threading.Thread(target=lambda: found.append(by_socket(ports[0])))
        thread.start()
        thread.join()
    assert found == [b"ok"]
    assert by_socket(ports[0]) == b"ok"


def test_clients_may_look_at_the_clock_where_there_are_services() -> None:
    source = "import time\ndef wait():\n    return time.monotonic()\n"
    client: dict[str, Any] = {"__name__": "urllib3.util.timeout"}
    stranger: dict[str, Any] = {"__name__": "urllib4.util"}
    exec(source, client)
    exec(source, stranger)
    with Guard(nothing):
        assert client["wait"]() > 0
    with (
        pytest.raises(DeterminismError, match=r"^time\.monotonic: "),
        Guard(nothing),
    ):
        stranger["wait"]()
    with pytest.raises(DeterminismError, match=r"^time\.monotonic: "), Guard():
        client["wait"]()

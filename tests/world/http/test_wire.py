"""Whatever bytes arrive, reading them ends, and what is taken is what was sent."""

from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_evarness.world.http.wire import Incoming, read_request

HEAD = b"POST /x HTTP/1.1\r\n"


def read(data: bytes) -> Incoming | None:
    """What is read of these bytes and then nothing more."""
    near, far = socket.socketpair()
    with near, far:
        writer = threading.Thread(target=_write, args=(far, data))
        writer.start()
        try:
            return read_request(near)
        finally:
            near.close()
            writer.join()


def _write(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the reader has seen enough


PIECES = st.sampled_from(
    [
        b"GET /x HTTP/1.1", b"POST", b" ", b"/", b"HTTP/1.1", b"\r\n", b"\n", b"\r\n\r\n", b":",
        b"Content-Length: 3", b"Transfer-Encoding: chunked", b"3\r\nabc\r\n", b"0\r\n\r\n", b"\0",
        b"\xff", b"Expect: 100-continue", b"a" * 300,
    ]
)  # fmt: skip


@given(st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=14).map(b"".join)))
@example(b"")
@example(b"\r\n" * 5)
def test_any_bytes_are_a_request_or_a_problem(data: bytes) -> None:
    incoming = read(data)
    if incoming is None:
        assert not data.strip(b"\r\n")
    else:
        assert incoming.problem in (None, 400, 505)
        assert incoming.problem is not None or (incoming.method and incoming.target)


@given(st.binary(max_size=200), st.lists(st.integers(1, 20), max_size=20))
def test_a_body_arrives_whole_however_it_is_framed(body: bytes, sizes: list[int]) -> None:
    chunks, rest = b"", body
    for size in [*sizes, len(body)]:
        part, rest = rest[:size], rest[size:]
        if part:
            chunks += b"%x\r\n%b\r\n" % (len(part), part)
    framed = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    counted = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    for data in (framed, counted):
        incoming = read(data)
        assert incoming is not None
        assert (incoming.problem, incoming.body) == (None, body)


@given(st.binary(min_size=1, max_size=50), st.data())
def test_a_body_that_ends_early_is_a_problem_and_what_came_is_kept(
    body: bytes, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(body) - 1))
    incoming = read(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[:cut])
    assert incoming is not None
    assert (incoming.problem, incoming.body, incoming.target) == (400, body[:cut], b"/x")


@pytest.mark.parametrize("length", [b"3, 3", b"3\r\nContent-Length: 3", b"03"])
def test_a_length_that_is_said_twice_alike_is_one(length: bytes) -> None:
    incoming = read(HEAD + b"Content-Length: " + length + b"\r\n\r\nabcd")
    assert incoming is not None
    assert (incoming.problem, incoming.body) == (None, b"abc")

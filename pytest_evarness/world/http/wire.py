"""Reads one HTTP/1 request from a connection, strictly and within bounds.

Source: RFC 9112. What it says may be refused is refused: a body framed in two ways, a header line
without a name, white space before a colon.
"""

from __future__ import annotations

import re
import socket
import time
from dataclasses import dataclass
from typing import Final

from pytest_evarness.world.http.limit import MAX_BODY, PAUSE_SECONDS, REQUEST_SECONDS

__all__ = ["Incoming", "read_request"]

MAX_HEAD: Final = 64 * 1024
MAX_LINE: Final = 1024
_BLOCK: Final = 64 * 1024
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([^\x00-\x20\x7f]+) (HTTP/\d\.\d)\Z")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*\Z", re.DOTALL)
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\Z", re.DOTALL)


@dataclass(slots=True)
class Incoming:
    """A request, or as much of it as there was.

    Attributes:
        problem: The status that answers what cannot be taken; None for a whole request.
        body: The bytes that came; of what could not be read as a request at all, its first line.
    """

    method: str = ""
    target: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    problem: int | None = None


class _ProblemError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Stream:
    """Bytes of a connection, with a bound on every pause and on the whole."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + REQUEST_SECONDS
        self.buffer = bytearray()

    def more(self) -> bool:
        """Whether anything came; False at the end.

        Raises:
            _ProblemError: Nothing came in time, or the connection broke.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise _ProblemError(408)
        self._connection.settimeout(min(PAUSE_SECONDS, left))
        try:
            data = self._connection.recv(_BLOCK)
        except TimeoutError:
            raise _ProblemError(408) from None
        except OSError:
            raise _ProblemError(400) from None
        self.buffer += data
        return bool(data)

    def line(self, limit: int, status: int) -> bytes:
        """The next line without its end.

        Raises:
            _ProblemError: ``status`` where it is longer than ``limit``.
        """
        start = 0
        while (end := self.buffer.find(b"\n", start)) < 0:
            start = len(self.buffer)
            if start > limit:
                raise _ProblemError(status)
            if not self.more():
                raise _ProblemError(400)
        if end > limit:
            raise _ProblemError(status)
        found = bytes(self.buffer[:end])
        del self.buffer[: end + 1]
        return found.removesuffix(b"\r")

    def into(self, body: bytearray, count: int) -> None:
        """Move ``count`` bytes to ``body``, as far as they come."""
        while count:
            if not self.buffer and not self.more():
                raise _ProblemError(400)
            part = self.buffer[:count]
            body += part
            count -= len(part)
            del self.buffer[: len(part)]


def read_request(connection: socket.socket) -> Incoming | None:
    """The next request; None where the other side closed before it sent anything."""
    stream = _Stream(connection)
    incoming = Incoming()
    body = bytearray()
    try:
        line = _first_line(stream)
        if line is None:
            return None
        incoming.body = line[:MAX_LINE]
        version = _read_line(line, incoming)
        incoming.headers = _read_headers(stream)
        incoming.body = b""
        _read_body(stream, connection, incoming, version, body)
    except _ProblemError as problem:
        incoming.problem = problem.status
    if body:
        incoming.body = bytes(body)
    return incoming


def _first_line(stream: _Stream) -> bytes | None:
    for _ in range(3):  # empty lines before a request are skipped, as some clients send one
        if not stream.buffer:
            try:
                if not stream.more():
                    return None
            except _ProblemError:
                return None
        line = stream.line(MAX_HEAD, 414)
        if line:
            return line
    raise _ProblemError(400)


def _read_line(line: bytes, incoming: Incoming) -> bytes:
    found = _LINE.match(line)
    if found is None:
        raise _ProblemError(400)
    method, target, version = found.groups()
    if version not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise _ProblemError(505)
    incoming.method = method.decode("ascii").upper()
    incoming.target = target
    return version


def _read_headers(stream: _Stream) -> tuple[tuple[str, str], ...]:
    left = MAX_HEAD
    lines: list[bytes] = []
    while line := stream.line(left, 431):
        left -= len(line) + 2
        if left <= 0:
            raise _ProblemError(431)
        if line[:1] in (b" ", b"\t"):
            if not lines:
                raise _ProblemError(400)
            lines[-1] += b" " + line.strip()
        else:
            lines.append(line)
    headers = []
    for line in lines:
        found = _HEADER.match(line)
        if found is None or b"\0" in line:
            raise _ProblemError(400)
        headers.append((found.group(1).decode("ascii"), _header_text(found.group(2))))
    return tuple(headers)


def _header_text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _values(incoming: Incoming, name: str) -> list[str]:
    found = [value for key, value in incoming.headers if key.lower() == name]
    return [part.strip() for value in found for part in value.split(",")]


def _read_body(
    stream: _Stream,
    connection: socket.socket,
    incoming: Incoming,
    version: bytes,
    body: bytearray,
) -> None:
    codings = _values(incoming, "transfer-encoding")
    lengths = set(_values(incoming, "content-length"))
    if codings:
        if lengths or [coding.lower() for coding in codings] != ["chunked"]:
            raise _ProblemError(400)
    elif not lengths:
        return
    length = 0
    if lengths:
        written = lengths.pop()
        if lengths or not (written.isascii() and written.isdigit()) or len(written) > 15:
            raise _ProblemError(400)
        length = int(written)
        if length > MAX_BODY:
            raise _ProblemError(413)
    if version == b"HTTP/1.1" and "100-continue" in [
        value.lower() for value in _values(incoming, "expect")
    ]:
        try:
            connection.sendall(_CONTINUE)
        except OSError:
            raise _ProblemError(400) from None
    if codings:
        _read_chunks(stream, body)
    else:
        stream.into(body, length)


def _read_chunks(stream: _Stream, body: bytearray) -> None:
    while True:
        found = _CHUNK.match(stream.line(MAX_LINE, 400))
        if found is None:
            raise _ProblemError(400)
        size = int(found.group(1), 16)
        if size == 0:
            break
        if len(body) + size > MAX_BODY:
            raise _ProblemError(413)
        stream.into(body, size)
        if stream.line(MAX_LINE, 400):
            raise _ProblemError(400)
    left = MAX_HEAD
    while line := stream.line(left, 431):
        left -= len(line) + 2
        if left <= 0:
            raise _ProblemError(431)

"""Mocks for tests, and clients that reach them over real sockets."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core import c1
from pytest_evarness.core.interfaces import WorldHost
from pytest_evarness.world.http.kind import HttpMockType
from pytest_evarness.world.service import ServiceSetting

if TYPE_CHECKING:
    from pytest_evarness.world.http.mock import HttpMock

SECONDS = 10.0
"""A client that waits longer hangs; no test waits that long when all is well."""


def declared(**declaration: Any) -> dict[str, Any]:
    """The configuration of a declaration without mistakes, as it comes out of a sealed case."""
    config, faults = HttpMockType().parse(declaration)
    assert faults == [], [fault.text for fault in faults]
    sealed: dict[str, Any] = c1.frozen(config)[0]
    return sealed


def mock(name: str = "mail", **declaration: Any) -> HttpMock:
    """A mock that is up; ``secrets`` and ``record_call`` go to its setting."""
    more = {
        key: declaration.pop(own)
        for own, key in (("secrets", "secrets"), ("note", "record"))
        if own in declaration
    }
    setting = ServiceSetting(name, declared(**declaration), Path(), WorldHost("s", "/x"), **more)
    made = HttpMockType().make(setting)
    made.start()
    return made


def entries(service: HttpMock) -> list[dict[str, Any]]:
    """The journal."""
    requests: Any = service.snapshot()["requests"]
    assert c1.text(requests)
    return list(requests)


def ask(
    service: HttpMock,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    **more: Any,
) -> tuple[int, dict[str, str], bytes]:
    """One request over loopback: status, headers, body."""
    address: Any = service.address
    return ask_at(address["host"], address["port"], method, path, body, headers, **more)


def ask_at(
    host: str,
    port: int,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    **more: Any,
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    try:
        connection.request(method, path, body, headers or {}, **more)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def connected(service: HttpMock) -> socket.socket:
    """A connection that has sent nothing yet."""
    address: Any = service.address
    return socket.create_connection((address["host"], address["port"]), timeout=SECONDS)


def sent(service: HttpMock, *parts: bytes) -> bytes:
    """Bytes as they are, and all that comes back until the other side closes."""
    with connected(service) as connection:
        for part in parts:
            connection.sendall(part)
        return rest(connection)


def rest(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    found = b""
    while part := connection.recv(1 << 16):
        found += part
    return found

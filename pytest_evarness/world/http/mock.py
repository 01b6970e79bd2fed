"""The service itself: asked in process by tools, served on loopback to programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast
from urllib.parse import quote_plus

from pytest_evarness.core.interfaces import ServiceDownError
from pytest_evarness.world.http.journal import Journal, Taken
from pytest_evarness.world.http.limit import MAX_BODY, SETTLE_SECONDS
from pytest_evarness.world.http.message import (
    Received,
    body_bytes,
    read_target,
    recorded_headers,
)
from pytest_evarness.world.service import EffectFailedError, HttpAnswer

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.world.http.server import Server

__all__ = ["HttpMock"]

_REASONS = {
    "reset": "the connection was reset",
    "stall": "no answer came",
    "timeout": "no answer came in time",
    "empty": "the connection was closed without an answer",
    "malformed": "the answer was no HTTP",
}

_SILENT = ("stall", "timeout")
"""Faults that leave the caller waiting."""


class HttpMock:
    """An HTTP mock of one run; see ``HttpService`` for what it offers.

    Nothing is compiled, imported or opened before the first request, and no port before somebody
    asks for the address: most services of a session are only ever asked in process, if at all.

    Attributes:
        next_fault: What the scenario does to a request over loopback, asked once for each; the
            world sets it. Requests in process bring theirs along.
    """

    kind = "http_mock"

    def __init__(
        self,
        name: str,
        config: JsonObject,
        secrets: Mapping[str, str] | None = None,
        note: Callable[[str, JsonObject], None] | None = None,
    ) -> None:
        self._name = name
        self._config = config
        self._journal = Journal(name, config, secrets, note)
        self._server: Server | None = None
        self._starting = threading.Lock()
        self._problem: str | None = None
        self._is_sealed = False
        self.next_fault: Callable[[], str | None] | None = None

    @property
    def name(self) -> str:
        """Its key under ``environment.services``."""
        return self._name

    @property
    def problem(self) -> str | None:
        """Why it cannot be reached over loopback; None while nobody failed to."""
        if self._problem is None and self._server is not None:
            return self._server.failure
        return self._problem

    def start(self) -> None:
        """Nothing: it answers in process at once, and is served when its address is asked for."""

    @property
    def address(self) -> Mapping[str, Json]:
        """``{host, port}`` of the served application, which is bound by then.

        Raises:
            ServiceDownError: It is sealed, or no port could be had.
        """
        with self._starting:
            if self._server is None:
                if self._is_sealed:
                    raise ServiceDownError(self._name, "the run is over")
                try:
                    self._server = _serve(self._name, self._journal, self._loopback_fault)
                except OSError as error:
                    self._problem = f"no port could be bound ({type(error).__name__})"
                    raise ServiceDownError(self._name, self._problem) from error
            return {"host": self._server.host, "port": self._server.port}

    def _loopback_fault(self) -> str | None:
        return None if self.next_fault is None else self.next_fault()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Json = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        fault: str | None = None,
    ) -> HttpAnswer:
        """Ask it in process; see ``HttpService.request``."""
        if self._is_sealed:
            raise ServiceDownError(self._name, "the run is over")
        received = self._received(method, path, body, headers or {}, query or {})
        taken = self._journal.take(received, fault)
        if taken is None:
            raise EffectFailedError(f"{self._name}: the connection was refused")
        if taken.fault is not None:
            why = _REASONS.get(taken.fault, taken.fault)
            is_silent = taken.fault in _SILENT
            raise EffectFailedError(
                f"{self._name}: {why}", is_applied=True, n=taken.n, is_silent=is_silent
            )
        return _answer(taken, has_body=received.method != "HEAD")

    def _received(
        self,
        method: str,
        path: str,
        body: Json,
        headers: Mapping[str, str],
        query: Mapping[str, str],
    ) -> Received:
        data, kind = body_bytes(body)
        names = {name.lower() for name in headers}
        pairs = list(headers.items())
        if kind is not None and "content-type" not in names:
            pairs.append(("Content-Type", kind))
        target = path.encode("utf-8", "backslashreplace")
        if query:
            written = "&".join(
                f"{quote_plus(name, errors='replace')}={quote_plus(value, errors='replace')}"
                for name, value in sorted(query.items())
            )
            target += (b"&" if b"?" in target else b"?") + written.encode("ascii")
        resource, asked = read_target(target)
        is_large = len(data) > MAX_BODY
        return Received(
            method=method.upper(),
            path=resource,
            query=asked,
            headers=recorded_headers(pairs, self._name),
            body=b"" if is_large else data,
            problem=413 if is_large else None,
        )

    def drain(self) -> Sequence[JsonObject]:
        """Payloads of ``http_request`` events for what came since the last call, in order.

        Requests in flight are waited for, within the bounds of a request.
        """
        if self._server is not None:
            self._server.settle(SETTLE_SECONDS)
        return self._journal.drain()

    def seal(self) -> None:
        """Answer what is in flight, take nothing more, and let the port go."""
        self._is_sealed = True
        self._stop(SETTLE_SECONDS)

    def snapshot(self) -> JsonObject:
        """As ``HttpService`` says; see docs/services/http_mock.md."""
        if self.problem is not None:
            return {"type": self.kind, "down": True}
        return {"type": self.kind, **self._journal.snapshot()}

    @contextmanager
    def copy(self) -> Iterator[Mapping[str, Json]]:
        """A server with the same routes and a journal of its own, for a script that looks.

        The sealed journal is answered to ``GET /__evarness__/requests`` there, and only there.
        """
        sealed = cast("list[Json] | None", self._journal.snapshot()["requests"])
        server = _serve(self._name, Journal(self._name, self._config), None, sealed=[sealed])
        try:
            yield {"host": server.host, "port": server.port}
        finally:
            server.close(0.0)

    def close(self) -> None:
        """Stop the server at once; what is in flight gets no answer."""
        self._is_sealed = True
        self._stop(0.0)

    def _stop(self, seconds: float) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close(seconds)
            self._problem = self._problem or server.failure


def _serve(
    name: str,
    journal: Journal,
    fault: Callable[[], str | None] | None,
    sealed: Sequence[Json] = (),
) -> Server:
    from pytest_evarness.world.http.application import Application
    from pytest_evarness.world.http.server import Server

    return Server(name, Application(name, journal, fault, sealed))


def _answer(taken: Taken, *, has_body: bool) -> HttpAnswer:
    plan = taken.plan
    return HttpAnswer(
        n=taken.n,
        status=plan.status,
        headers=plan.headers,
        body=plan.body.decode("utf-8", "replace") if has_body else "",
        matched=taken.matched,
        body_digest=taken.body_digest,
        delay_ms=plan.delay_ms,
    )

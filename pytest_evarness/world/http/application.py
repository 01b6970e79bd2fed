"""The mock as a WSGI application."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from werkzeug.wrappers import Request, Response

from pytest_evarness.world.http.message import Received, read_target, recorded_headers

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from pytest_evarness.core.json import Json
    from pytest_evarness.world.http.journal import Journal

__all__ = ["JOURNAL_PATH", "Application", "NoAnswerError"]

JOURNAL_PATH = "/__evarness__/requests"
"""Where a copy of a sealed service answers with its journal."""


class NoAnswerError(Exception):
    """The request gets no answer of HTTP: ``fault`` says what happens to its connection."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


class Application:
    """Answers requests from the routes of a service and notes each of them.

    Beside what WSGI names, the environment may hold what only a server of ours knows:
    ``evarness.headers`` (as they were sent, repeated ones apart), ``evarness.problem`` (a status
    for a request that cannot be taken), ``evarness.wait`` (waits for seconds; true where that was
    ended) and ``evarness.port`` (its own, which no journal shows).

    Args:
        fault: Asked once for each request; see ``Journal.take``.
        sealed: One journal to be answered with under ``JOURNAL_PATH``, or none.
    """

    def __init__(
        self,
        name: str,
        journal: Journal,
        fault: Callable[[], str | None] | None = None,
        sealed: Sequence[Json] = (),
    ) -> None:
        self._name = name
        self._journal = journal
        self._fault = fault
        self._sealed = sealed

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request.

        Raises:
            NoAnswerError: It is not to be answered.
        """
        received = self._received(environ)
        if self._sealed and (received.method, received.path) == ("GET", JOURNAL_PATH):
            text = json.dumps(self._sealed[0], sort_keys=True, separators=(",", ":"))
            response = Response(text, content_type="application/json")
            return response(environ, start_response)
        taken = self._journal.take(received, self._fault)
        if taken is None:
            raise NoAnswerError("refuse")
        wait = environ.get("evarness.wait", time.sleep)
        if taken.plan.delay_ms and wait(taken.plan.delay_ms / 1000):
            raise NoAnswerError("empty")  # the service is closed: an early answer would be untrue
        if taken.fault is not None:
            raise NoAnswerError(taken.fault)
        plan = taken.plan
        response = Response(plan.body, status=plan.status)
        response.headers.clear()
        response.headers.extend(list(plan.headers))
        return response(environ, start_response)

    def _received(self, environ: WSGIEnvironment) -> Received:
        request = Request(environ)
        own = _own_address(environ.get("evarness.port"), self._name)
        target = environ.get("RAW_URI")
        raw = (request.full_path if target is None else cast("str", target)).encode("latin-1")
        path, query = read_target(raw)
        headers: Any = environ.get("evarness.headers") or request.headers.items()
        return Received(
            method=environ["REQUEST_METHOD"].upper(),
            path=own(path),
            query=tuple((own(name), own(value)) for name, value in query),
            headers=tuple(
                (name, own(value)) for name, value in recorded_headers(headers, self._name)
            ),
            body=own(request.get_data(cache=False).decode("latin-1")).encode("latin-1"),
            problem=environ.get("evarness.problem"),
        )


def _own_address(port: int | None, name: str) -> Callable[[str], str]:
    """Writes the service's name for its own address, which is another one in each run."""
    if port is None:
        return lambda text: text
    found = re.compile(rf"(?:127\.0\.0\.1|localhost)(?::|%3[Aa]){port}(?![0-9])")
    shown = str(port)
    return lambda text: found.sub(name, text) if shown in text else text

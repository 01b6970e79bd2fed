"""The journal of a service: every request gets a number on receipt, before it is answered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pytest_evarness.core.secret import Masker
from pytest_evarness.world.http.limit import MAX_JOURNAL, MAX_KEPT, MAX_REQUESTS
from pytest_evarness.world.http.message import Received, body_record
from pytest_evarness.world.http.route import Planned, Route, compile_routes, find_route
from pytest_evarness.world.http.view import View

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = ["Journal", "Taken"]

_TEXT = (("Content-Type", "text/plain; charset=utf-8"),)
_PROBLEMS = {
    400: "no request could be read",
    408: "the request did not arrive in time",
    413: "the body is too large",
    414: "the target is too long",
    431: "the headers are too large",
    505: "this version of HTTP is not spoken here",
}


@dataclass(frozen=True, slots=True)
class Taken:
    """A request that was taken, and what it gets.

    Attributes:
        n: Its number, from 1; None where no journal is kept, or nothing was taken.
        matched: Whether a route was there for it.
        fault: Of the route, or of the scenario; None for an answer.
    """

    n: int | None
    plan: Planned
    matched: bool
    fault: str | None
    body_digest: str


class Journal:
    """Takes requests one after the other, from any number of threads.

    Args:
        service: Its name.
        config: As ``parse_mock`` gives it.
        secrets: Values by name; digests are taken over bodies without them.
        note: Writes a line of the audit log.
    """

    def __init__(
        self,
        service: str,
        config: JsonObject,
        secrets: Mapping[str, str] | None = None,
        note: Callable[[str, JsonObject], None] | None = None,
    ) -> None:
        self._service = service
        self._config: Any = config
        self._masker = Masker(secrets) if secrets else None
        self._note = note
        self._lock = threading.Lock()
        self._entries: list[dict[str, Any]] = []
        self._fresh: list[dict[str, Json]] = []
        self._hits: dict[int, int] = {}
        self._room = MAX_JOURNAL
        self._count = 0

    @cached_property
    def _routes(self) -> list[Route]:
        return compile_routes(self._config["routes"])

    @property
    def is_strict(self) -> bool:
        """Whether a request without a route is a violation."""
        return not self._config["allow_unmatched"] and self._config["default_response"] is None

    def take(
        self, received: Received, fault: str | Callable[[], str | None] | None = None
    ) -> Taken | None:
        """Note a request and decide what it gets; both at once, so that order is one thing.

        Args:
            received: All of it.
            fault: What the scenario does to it, or who says so: ``refuse``, ``reset``, ``stall``.

        Returns:
            None where it was refused: nothing is noted then.
        """
        with self._lock:
            injected = fault() if callable(fault) else fault
            if injected == "refuse":
                return None
            self._count += 1
            is_full = self._count > MAX_REQUESTS
            record: dict[str, Any] = {
                "n": self._count,
                "method": received.method,
                "path": received.path,
                "query": [list(pair) for pair in received.query],
                "headers": [list(pair) for pair in received.headers],
                **body_record(
                    received.body,
                    self._room,
                    is_whole=received.problem is None,
                    masker=self._masker,
                ),
            }
            index, plan = self._plan(received, record, is_full=is_full)
            happens = injected or plan.fault
            record["matched"] = index is not None
            record["route"] = index
            record["status"] = None if happens else plan.status
            record["fault"] = happens
            self._fresh.append(
                {
                    "service": self._service,
                    "method": received.method,
                    "path": received.path,
                    "matched": record["matched"],
                    "status": record["status"],
                    "body_digest": record["body_digest"],
                    # What a route does by itself is no fault of the scenario.
                    **({"injected": [f"{self._service}.{injected}"]} if injected else {}),
                }
            )
            if self._note is not None:
                self._note("http_call", self._call(received, record, plan))
            keeps = self._config["record"] and not is_full
            if keeps:
                self._entries.append(record)
                kept = record["body"] if record["body"] is not None else record["body_base64"]
                self._room -= min(self._room, len(kept))
            return Taken(
                n=self._count if keeps else None,
                plan=plan,
                matched=record["matched"],
                fault=happens,
                body_digest=record["body_digest"],
            )

    def _plan(
        self, received: Received, record: dict[str, Any], *, is_full: bool
    ) -> tuple[int | None, Planned]:
        if received.problem is not None:
            return None, _said(received.problem, _PROBLEMS.get(received.problem, "no request"))
        if is_full:
            return None, _said(503, f"the journal is full ({MAX_REQUESTS} requests)")
        # Routes see what the journal keeps, so that whoever reads it can follow their choice.
        index = find_route(self._routes, View(record))
        if index is None:
            status = self._config["default_response"]
            place = f"{received.method} {received.path}"
            return None, _said(404 if status is None else status, f"no route for {place}")
        k = self._hits.get(index, 0)
        self._hits[index] = k + 1
        return index, self._routes[index].plan(k)

    def _call(
        self, received: Received, record: Mapping[str, Any], plan: Planned
    ) -> dict[str, Json]:
        """What a script of the user's own reads in the audit log."""
        query = urlencode(received.query)
        answered = record["status"] is not None and received.method != "HEAD"
        return {
            "service": self._service,
            "method": received.method,
            "url": f"http://{self._service}{received.path}{'?' if query else ''}{query}",
            "status": record["status"],
            "request_body": received.body[:MAX_KEPT].decode("utf-8", "replace"),
            "response_body": plan.body.decode("utf-8", "replace") if answered else "",
        }

    def drain(self) -> list[dict[str, Json]]:
        """Payloads of ``http_request`` events since the last call, in the order of receipt."""
        with self._lock:
            fresh, self._fresh = self._fresh, []
        return fresh

    def snapshot(self) -> dict[str, Json]:
        """``{record, strict, requests}``; ``lost`` counts requests that came when it was full."""
        with self._lock:
            keeps = bool(self._config["record"])
            made: dict[str, Json] = {
                "record": keeps,
                "strict": self.is_strict,
                "requests": [dict(entry) for entry in self._entries] if keeps else None,
            }
            if keeps and self._count > MAX_REQUESTS:
                made["lost"] = self._count - MAX_REQUESTS
            return made


def _said(status: int, text: str) -> Planned:
    return Planned(status=status, headers=_TEXT, body=f"{text}\n".encode("utf-8", "replace"))

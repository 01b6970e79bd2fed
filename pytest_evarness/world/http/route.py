"""Routes: which one takes a request, and what it answers the k-th time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_evarness.world.http.condition import Conditions, compile_conditions
from pytest_evarness.world.http.message import body_bytes

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json
    from pytest_evarness.world.http.view import View

__all__ = ["Planned", "Route", "compile_routes", "find_route"]


@dataclass(frozen=True, slots=True)
class Planned:
    """What a request gets.

    Attributes:
        body: As sent.
        fault: What happens instead of an answer; None for an answer.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    delay_ms: int = 0
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """One route of a service.

    Attributes:
        statuses, responses, delays_ms, faults: One for each request in turn; the last one stays.
    """

    conditions: Conditions
    statuses: Sequence[int]
    responses: Sequence[Mapping[str, Json]]
    delays_ms: Sequence[int]
    faults: Sequence[str | None]
    headers: tuple[tuple[str, str], ...]

    def plan(self, k: int) -> Planned:
        """The answer to the request that is number ``k`` of this route, from 0."""
        response = _nth(self.responses, k)
        headers = self.headers
        # A mapping is written with its keys sorted: the second run reads it from a text that keeps
        # no order of keys.
        body, kind = body_bytes(response["json"] if "json" in response else response["text"])
        if body and not any(name.lower() == "content-type" for name, _ in headers):
            headers = (*headers, ("Content-Type", str(kind)))
        return Planned(
            status=_nth(self.statuses, k),
            headers=headers,
            body=body,
            delay_ms=_nth(self.delays_ms, k),
            fault=_nth(self.faults, k),
        )


def _nth(values: Sequence[Any], k: int) -> Any:
    return values[min(k, len(values) - 1)]


def compile_routes(config: Sequence[Mapping[str, Any]]) -> list[Route]:
    """Routes from the form that ``parse_mock`` gives."""
    return [
        Route(
            conditions=compile_conditions(route["request"]),
            statuses=route["status"],
            responses=route["response"],
            delays_ms=route["delay_ms"],
            faults=route["fault"],
            headers=tuple((name, value) for name, value in route["headers"]),
        )
        for route in config
    ]


def find_route(routes: Sequence[Route], view: View) -> int | None:
    """The first route, in the order of the file, whose conditions all hold; None where none does.

    A condition that cannot be decided does not hold.
    """
    for index, route in enumerate(routes):
        if route.conditions.test(view) is True:
            return index
    return None

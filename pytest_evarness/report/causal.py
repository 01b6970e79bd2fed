"""What an event depends on: edges of the graph, the digest of what was approved, intent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["ancestors", "are_tied", "ties"]

_DIGESTS = ("args_digest", "artifact_digest")


def ancestors(graph: Mapping[str, Any], node: object) -> set[object]:
    """The node of a graph document and all that lead to it."""
    edges = [edge for edge in graph.get("edges") or () if isinstance(edge, Mapping)]
    into: dict[object, list[object]] = {}
    for edge in edges:
        into.setdefault(edge.get("to"), []).append(edge.get("from"))
    found: set[object] = set()
    todo = [node]
    while todo:
        one = todo.pop()
        if one is not None and one not in found:
            found.add(one)
            todo.extend(into.get(one, ()))
    return found


def ties(event: TraceEvent) -> Iterator[tuple[str, str]]:
    """What an event may have in common with another that it has to do with."""
    payload = event["payload"]
    if not isinstance(payload, Mapping):
        return
    for name in _DIGESTS:
        if isinstance(payload.get(name), str):
            yield "digest", payload[name]
    if isinstance(payload.get("intent_id"), str):
        yield "intent", payload["intent_id"]


def are_tied(one: TraceEvent, other: TraceEvent) -> bool:
    """Whether two events speak of one approved thing, or of one intent."""
    return not set(ties(one)).isdisjoint(ties(other))

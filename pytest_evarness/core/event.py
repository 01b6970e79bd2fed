"""One event of a run, encoded once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = ["Event", "EventType"]


@dataclass(frozen=True, slots=True)
class Event:
    """What a run emits.

    Attributes:
        seq: From 0 without gaps.
        type: A kernel type, a domain type, or ``custom.<name>``.
        node_id: None for events of the run itself.
        payload: A private deep copy, made at emission; nobody else holds it.
        text: The exact c1 text of the event; both digests, the run log and the bundle reuse it.
        ts: Wall clock in seconds; never part of ``text``.
    """

    seq: int
    type: str
    node_id: str | None
    payload: JsonObject
    text: str
    ts: float

    def as_record(self) -> dict[str, Json]:
        """The four fields that every reader of traces sees."""
        return {
            "seq": self.seq,
            "type": self.type,
            "node_id": self.node_id,
            "payload": self.payload,
        }


@dataclass(frozen=True, slots=True)
class EventType:
    """An entry of the event vocabulary.

    Attributes:
        name: The type as it stands in events.
        schema: JSON Schema (2020-12) of the payload; ``properties`` lists every field.
        doc: One sentence: when it is emitted.
        source: ``kernel`` or the name of the domain that registers it.
        has_node: Whether ``node_id`` is always (True) or never (False) set; None where either is.
    """

    name: str
    schema: JsonObject
    doc: str
    source: str
    has_node: bool | None = None

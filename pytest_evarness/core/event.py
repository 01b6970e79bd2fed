"""One event of a run, encoded once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_evarness.core.json import Json, JsonObject

__all__ = ["TAINTED", "Event", "EventType", "is_tainted"]

TAINTED = "tainted"
"""The mark, always true, of every payload behind the first block of a run that is observed."""

_MARK: dict[str, Any] = {"const": True, "description": "present behind a block that was observed"}


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
        schema: JSON Schema (2020-12) of the payload; ``properties`` lists every field. The mark
            ``tainted``, which the kernel may set on any payload, is added to it.
        doc: One sentence: when it is emitted.
        source: ``kernel`` or the name of the domain that registers it.
        has_node: Whether ``node_id`` is always (True) or never (False) set; None where either is.
        is_governance: Whether it is evidence of a decision, which nobody may give but the plug-in
            that registers the type.
    """

    name: str
    schema: JsonObject
    doc: str
    source: str
    has_node: bool | None = None
    is_governance: bool = False

    def __post_init__(self) -> None:
        properties: Any = self.schema.get("properties")
        if isinstance(properties, dict) and TAINTED not in properties:
            schema = {**self.schema, "properties": {**properties, TAINTED: _MARK}}
            object.__setattr__(self, "schema", schema)


def is_tainted(event: Mapping[str, Any]) -> bool:
    """Whether an event ``{type, payload, ...}`` lies behind a block that was observed.

    A type of the user's own may have such a field for its own purposes; the kernel's word is taken.
    """
    if str(event["type"]).startswith("custom."):
        return False
    return bool(event["payload"].get(TAINTED) is True)

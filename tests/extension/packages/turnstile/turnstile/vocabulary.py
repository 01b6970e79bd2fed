"""What a machine emits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.core.event import EventType

if TYPE_CHECKING:
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

_STATE: JsonObject = {"type": "string", "minLength": 1}


def register_events(registry: Registry) -> None:
    """Offer ``machine_entered``, ``machine_refused`` and ``machine_rested``."""
    for name, doc, fields in (
        ("machine_entered", "A state was entered.", {"state": _STATE, "signal": _STATE}),
        ("machine_refused", "A signal changed nothing.", {"state": _STATE, "signal": _STATE}),
        ("machine_rested", "The machine came to rest.", {"state": _STATE}),
    ):
        schema: JsonObject = {
            "type": "object",
            "properties": fields,
            "required": list(fields),
            "additionalProperties": False,
        }
        registry.event_types.register(name, EventType(name, schema, doc, "machine", has_node=True))

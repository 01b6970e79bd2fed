"""JSON Schemas that the payloads of this domain are put together from."""

from __future__ import annotations

from typing import Any

__all__ = [
    "COUNT",
    "FLAG",
    "INJECTED",
    "MAPPING",
    "MARKERS",
    "TEXT",
    "one_of",
    "one_of_ours",
    "payload",
]

TEXT: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
FLAG: dict[str, Any] = {"type": "boolean"}
MAPPING: dict[str, Any] = {"type": "object"}


def one_of(*words: str) -> dict[str, Any]:
    """One of these words."""
    return {"enum": list(words)}


def one_of_ours(*words: str) -> dict[str, Any]:
    """One of these words, or a name of a plug-in's own, which holds a dot."""
    return {"anyOf": [one_of(*words), {"type": "string", "pattern": r"\."}]}


def payload(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """A mapping of these keys and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": sorted(required),
        "additionalProperties": False,
    }


MARKERS: dict[str, Any] = {
    "markers": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Attacks whose marker stands in what the node hands on.",
    }
}
INJECTED: dict[str, Any] = {
    "injected": {
        "type": "array",
        "items": {"type": "string"},
        "description": "What of the scenario acted here: faults, and attacks by number.",
    }
}

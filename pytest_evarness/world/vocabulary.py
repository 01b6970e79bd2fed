"""The event types of the simulated world, each with the JSON Schema of its payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_evarness.core.event import EventType
from pytest_evarness.core.vocabulary import DIGEST

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

__all__ = ["EFFECT_KINDS", "EFFECT_TYPES", "SOURCE", "register_events"]

SOURCE = "world"

EFFECT_KINDS = ("http", "sql", "file", "message")

_TEXT: dict[str, Any] = {"type": "string"}
_OPTIONAL_DIGEST: dict[str, Any] = {**DIGEST, "type": ["string", "null"]}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": sorted(required),
        "additionalProperties": False,
    }


_RECEIPT = _object(
    {
        "service": {**_TEXT, "description": "A declared service, 'workspace' or 'mailbox'."},
        "ref": {**_TEXT, "description": "Journal number and status, rows changed, or a path."},
        "digest": {**DIGEST, "description": "Of what the world answered."},
    }
)
_EFFECT: dict[str, Any] = {
    "effect_id": {**_TEXT, "description": "'INTENT/N', N the place in 'effects', from 0."},
    "intent_id": _TEXT,
    "capability": {**_TEXT, "description": "The tool's id, whichever alias was used."},
    "kind": {"enum": list(EFFECT_KINDS)},
    "target": _TEXT,
    "digest": {**DIGEST, "description": "Of the effect as it was asked for."},
    "authorized_by": _object(
        {
            "rule": {**_TEXT, "description": "The rule that allowed the call."},
            "approval": {**_OPTIONAL_DIGEST, "description": "What was approved; null for nothing."},
        }
    ),
}

_TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "http_request": (
        "A service received a request.",
        _object(
            {
                "service": {
                    "type": ["string", "null"],
                    "description": "Null where it reached none that was declared.",
                },
                "method": _TEXT,
                "path": _TEXT,
                "matched": {"type": "boolean"},
                "status": {
                    "type": ["integer", "null"],
                    "description": "As answered; null where no answer was sent.",
                },
                "body_digest": DIGEST,
            },
            {
                "injected": {
                    "type": "array",
                    "items": _TEXT,
                    "description": "The fault of the scenario that it met, as 'SERVICE.FAULT'.",
                }
            },
        ),
    ),
    "db_write": ("An effect wrote a table.", _object({"service": _TEXT, "table": _TEXT})),
    "file_write": (
        "An effect wrote or removed a file of the workspace.",
        _object(
            {
                "path": _TEXT,
                "digest": {
                    **_OPTIONAL_DIGEST,
                    "description": "Of the file's bytes; null where it was removed.",
                },
            }
        ),
    ),
    "effect_applied": (
        "A tool changed the world; the ledger is the list of these.",
        _object(
            {**_EFFECT, "receipt": _RECEIPT},
            {
                "message": {
                    **_object({"to": _TEXT, "body": _TEXT}),
                    "description": "What was put into the mailbox, with the kind 'message'.",
                },
            },
        ),
    ),
    "effect_refused": (
        "The world did not do what an effect asked.",
        _object({**_EFFECT, "reason": _TEXT}, {"receipt": _RECEIPT}),
    ),
    "effect_replayed": (
        "An effect was asked for again under its idempotency key: its first receipt answered.",
        _object({**_EFFECT, "receipt": _RECEIPT, "idempotency_key": _TEXT}),
    ),
}

EFFECT_TYPES = tuple(_TYPES)
"""What applying effects may emit."""


def register_events(registry: Registry) -> None:
    """Add the vocabulary to ``registry``."""
    for name, (doc, schema) in _TYPES.items():
        # What was done to the world, and by which decision.
        is_governance = name.startswith("effect_")
        entry = EventType(name, schema, doc, SOURCE, is_governance=is_governance)
        registry.event_types.register(name, entry)

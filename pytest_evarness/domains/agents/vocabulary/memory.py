"""Event types of memories."""

from __future__ import annotations

from typing import Any

from pytest_evarness.core.vocabulary import DIGEST
from pytest_evarness.domains.agents.memory import KINDS
from pytest_evarness.domains.agents.vocabulary.shape import (
    COUNT,
    INJECTED,
    MARKERS,
    TEXT,
    one_of,
    payload,
)

__all__ = ["GOVERNANCE", "TYPES"]

GOVERNANCE = frozenset({"memory_write", "memory_write_pending"})
"""What changes later answers, and what a person still has to decide about."""

_KIND = one_of(*KINDS)
_IDS = {"type": "array", "items": TEXT}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}

TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "memory_read": (
        "A memory was read.",
        payload(
            {"turns": COUNT, "tokens": COUNT},
            {
                "memory": {**_KIND, "description": "Absent for the turns of a conversation."},
                "key": TEXT,
                "ids": _IDS,
                **INJECTED,
            },
        ),
    ),
    "memory_write": (
        "Something is remembered from now on.",
        payload(
            {"memory": _KIND, "id": TEXT, "text": TEXT, "tokens": COUNT},
            {
                "key": TEXT,
                "subject": TEXT,
                "salience": _SHARE,
                "superseded": {**_IDS, "description": "Facts that it stands in the place of."},
                "redacted": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "How many pieces of personal data were masked.",
                },
                "approval": {**DIGEST, "description": "The approval that it rests on."},
            },
        ),
    ),
    "memory_write_skipped": (
        "A text that could have been remembered was not.",
        payload(
            {"memory": _KIND, "reason": one_of("not_salient", "known", "conflict")},
            {"subject": TEXT, "salience": _SHARE},
        ),
    ),
    "memory_write_pending": (
        "An instruction waits for a person; it is not followed.",
        payload(
            {
                "memory": one_of("procedural"),
                "id": TEXT,
                "text": TEXT,
                "rule": one_of("approval_missing", "approval_stale", "approval_used"),
                "artifact_digest": {
                    **DIGEST,
                    "description": "What an approval of the text would be for.",
                },
            }
        ),
    ),
    "memory_consolidated": (
        "Messages were summarised.",
        payload(
            {
                "in_tokens": COUNT,
                "out_tokens": COUNT,
                "ratio": {"type": "number", "minimum": 0},
            },
            {"target": TEXT, **MARKERS},
        ),
    ),
}

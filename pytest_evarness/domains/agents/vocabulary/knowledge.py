"""Event types of documents and what rests on them."""

from __future__ import annotations

from typing import Any

from pytest_evarness.domains.agents.vocabulary.shape import FLAG, TEXT, payload

__all__ = ["GOVERNANCE", "TYPES"]

GOVERNANCE: frozenset[str] = frozenset()

TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "citation_checked": (
        "A citation was looked up among the documents of the context.",
        payload(
            {
                "number": {
                    "type": ["integer", "null"],
                    "minimum": 0,
                    "description": "Null where what is cited is no number of a document.",
                },
                "id": {
                    "type": ["string", "null"],
                    "description": "Of the document; null where there is none of this number.",
                },
                "ok": FLAG,
            },
            {"written": {**TEXT, "description": "What is cited, where `number` is null."}},
        ),
    ),
}

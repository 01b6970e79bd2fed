"""Event types of documents and what rests on them."""

from __future__ import annotations

from typing import Any

from pytest_evarness.domains.agents.vocabulary.shape import COUNT, FLAG, payload

__all__ = ["GOVERNANCE", "TYPES"]

GOVERNANCE: frozenset[str] = frozenset()

TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "citation_checked": (
        "A citation was looked up among the documents of the context.",
        payload(
            {
                "number": COUNT,
                "id": {
                    "type": ["string", "null"],
                    "description": "Of the document; null where there is none of this number.",
                },
                "ok": FLAG,
            }
        ),
    ),
}

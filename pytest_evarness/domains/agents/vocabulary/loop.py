"""Event types of loops."""

from __future__ import annotations

from typing import Any

from pytest_evarness.core.vocabulary import DIGEST
from pytest_evarness.domains.agents.vocabulary.shape import COUNT, FLAG, TEXT, one_of, payload

__all__ = ["GOVERNANCE", "GUARDS", "STOPS", "TYPES"]

GUARDS = (
    "tool_not_allowed",
    "repeated_action",
    "final_without_evidence",
    "empty_search_retry",
)
"""Why a decision of a loop's model was not carried out."""

STOPS = ("answer", "max_iterations", "blocked")
"""How a loop comes to its end; a run that is cut off within one emits no ``loop_finished``."""

GOVERNANCE = frozenset({"grounding_checked", "loop_guard"})
"""What an auditor reads."""

_TURN = {"type": "integer", "minimum": 1}
_TEXTS = {"type": "array", "items": TEXT}

TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "loop_started": (
        "A loop began.",
        payload({"tools": _TEXTS, "max_iterations": _TURN}),
    ),
    "loop_iteration": ("A turn of a loop began.", payload({"iteration": _TURN})),
    "loop_guard": (
        "A loop did not carry out what its model decided.",
        payload(
            {"reason": one_of(*GUARDS), "iteration": _TURN},
            {"tool": TEXT, "args_digest": DIGEST},
        ),
    ),
    "grounding_checked": (
        "An answer was compared with what the loop had observed.",
        payload(
            {
                "ok": FLAG,
                "iteration": _TURN,
                "documents": COUNT,
                "overlap": {"type": "number", "minimum": 0, "maximum": 1},
                "problems": _TEXTS,
            }
        ),
    ),
    "loop_finished": (
        "A loop came to its end.",
        payload({"iterations": _TURN, "stopped": one_of(*STOPS)}),
    ),
}

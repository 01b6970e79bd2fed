"""Events of what a run holds and where it may go: classes, tiers, the gate, policies."""

from __future__ import annotations

from typing import Any

from pytest_evarness.domains.agents.vocabulary.base import CLASSIFICATIONS
from pytest_evarness.domains.agents.vocabulary.shape import TEXT, one_of, payload

__all__ = ["GOVERNANCE", "TYPES"]

GOVERNANCE = frozenset(
    {
        "content_classified",
        "egress_checked",
        "egress_denied",
        "policy_checked",
        "tier_downshifted",
        "tier_egress_warning",
        "tier_selected",
    }
)

_CLASS = one_of(*CLASSIFICATIONS)
_ABOVE_PUBLIC = one_of(*CLASSIFICATIONS[1:])
_SIGNALS = {
    "type": "array",
    "items": TEXT,
    "description": "Why: kinds and words, never what was found.",
}
_PROVIDER = {"type": "string", "description": "The model that was, or would have been, asked."}
_TOOL = {"type": "string", "description": "The tool that was, or would have been, called."}
_TIER_PLACE = one_of("sim", "local", "cloud")
_PLACE = one_of("sim", "local", "cloud", "network")

TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "content_classified": (
        "A text was classified.",
        payload({"classification": _CLASS, "signals": _SIGNALS, "run_classification": _CLASS}),
    ),
    "egress_checked": (
        "A text was about to leave.",
        payload(
            {
                "destination": _PLACE,
                "classification": _CLASS,
                "verdict": one_of("allow", "deny"),
            },
            {
                "warned": {"const": True, "description": "It left against the rule."},
                "provider": _PROVIDER,
                "tool": _TOOL,
            },
        ),
    ),
    "egress_denied": (
        "A text did not leave.",
        payload(
            {"destination": _PLACE, "classification": _ABOVE_PUBLIC},
            {
                "provider": _PROVIDER,
                "tool": _TOOL,
                "tier": {"type": "string", "description": "The tier that was not taken."},
            },
        ),
    ),
    "policy_checked": (
        "A text was held against forbidden terms.",
        payload(
            {
                "verdict": {
                    "enum": ["allow", "deny", "warn"],
                    "description": "warn: it holds the term and goes on.",
                },
                "term": {"type": ["string", "null"]},
            }
        ),
    ),
    "tier_selected": (
        "The model calls that follow go to this tier.",
        payload(
            {
                "tier": TEXT,
                "destination": _TIER_PLACE,
                "provider": TEXT,
                "intent": {"type": ["string", "null"], "description": "null: the default tier."},
            }
        ),
    ),
    "tier_downshifted": (
        "The tier that was meant must not see the text; another one takes its place.",
        payload(
            {
                "from": TEXT,
                "to": TEXT,
                "destination": _TIER_PLACE,
                "classification": _ABOVE_PUBLIC,
            }
        ),
    ),
    "tier_egress_warning": (
        "A tier was taken that must not see the text.",
        payload({"tier": TEXT, "destination": _TIER_PLACE, "classification": _ABOVE_PUBLIC}),
    ),
}

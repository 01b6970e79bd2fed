"""Event types of what judges inside a run: guards, judges, chains and panels of them."""

from __future__ import annotations

from typing import Any

from pytest_evarness.domains.agents.vocabulary.shape import (
    COUNT,
    FLAG,
    INJECTED,
    TEXT,
    one_of,
    payload,
)

__all__ = ["ASKED", "GOVERNANCE", "TYPES"]

ASKED = frozenset({"judge_degraded", "judge_scored", "judge_signal", "panel_member_verdict"})
"""One of them for each question to the script; ``rule`` and ``injected`` say what of it acted."""


GOVERNANCE = frozenset(
    {
        "chain_halted",
        "guard_triggered",
        "judge_chain_finished",
        "judge_degraded",
        "judge_exhausted",
        "judge_flagged",
        "panel_inquorate",
        "panel_verdict",
    }
)
"""What an auditor reads: what was stopped or let through, and where a judge was silent."""

_SCORE: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
_ONE_OR_MORE: dict[str, Any] = {"type": "integer", "minimum": 1}
_ACTION = one_of("block", "flag")
_DETECTOR = one_of("prompt_injection", "jailbreak")
_RULE = {
    "rule": {
        "type": "integer",
        "minimum": 0,
        "description": "The entry of `environment.judge` that answered; absent for the defaults.",
    }
}
_SILENT = {
    "cause": {
        "enum": ["timeout", "unscripted", "unreadable"],
        "description": "An injected time-out, nothing scripted, or an answer without a score.",
    },
    "reason": TEXT,
}

TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "guard_evaluated": (
        "One detector of a guard looked at the text.",
        payload(
            {
                "detector": _DETECTOR,
                "score": _SCORE,
                "threshold": _SCORE,
                "signals": {"type": "array", "items": TEXT},
                "verdict": one_of("clear", "hit"),
            },
            {
                "error": {
                    "enum": ["false_positive", "false_negative"],
                    "description": "The detector was drawn to err: the verdict is the wrong one.",
                }
            },
        ),
    ),
    "guard_triggered": (
        "A guard takes the text for an attack.",
        payload({"detectors": {"type": "array", "items": _DETECTOR}, "action": _ACTION}),
    ),
    "judge_scored": (
        "A judge scored the text.",
        payload(
            {
                "judge": TEXT,
                "scores": {"type": "object", "additionalProperties": _SCORE},
                "mean": _SCORE,
            },
            _RULE,
        ),
    ),
    "judge_flagged": (
        "The mean of a judge's scores is below the threshold.",
        payload({"judge": TEXT, "mean": _SCORE, "threshold": _SCORE, "action": _ACTION}),
    ),
    "judge_degraded": (
        "A judge was asked and gave no score.",
        payload(
            {"judge": TEXT, "attempt": _ONE_OR_MORE, **_SILENT},
            {**_RULE, **INJECTED},
        ),
    ),
    "judge_signal": (
        "A judge of a chain gave its signal.",
        payload({"judge": TEXT, "score": _SCORE, "passed": FLAG}, _RULE),
    ),
    "judge_repaired": (
        "A judge that gave no score gave one when it was asked again.",
        payload({"judge": TEXT, "attempts": _ONE_OR_MORE}),
    ),
    "judge_exhausted": (
        "A judge gave no score, and it may not be asked again.",
        payload({"judge": TEXT, "attempts": _ONE_OR_MORE}),
    ),
    "chain_halted": (
        "A chain stopped at one of its judges.",
        payload({"judge": TEXT, "reason": one_of("failed", "exhausted")}),
    ),
    "judge_chain_finished": (
        "Every judge of a chain let the text pass.",
        payload({"judges": _ONE_OR_MORE, "retries": COUNT}),
    ),
    "panel_member_verdict": (
        "A member of a panel gave its verdict, or none.",
        payload(
            {"member": TEXT, "verdict": one_of("survived", "refuted", "abstained")},
            {"score": _SCORE, **_RULE, **_SILENT, **INJECTED},
        ),
    ),
    "panel_inquorate": (
        "Too few members of a panel gave an opinion: there is no verdict.",
        payload({"evaluated": COUNT, "min_evaluated": _ONE_OR_MORE, "members": _ONE_OR_MORE}),
    ),
    "panel_verdict": (
        "A panel of judges voted.",
        payload(
            {"passed": FLAG, "evaluated": COUNT},
            {
                # A list in traces of other tools.
                "votes": {
                    **payload({}, dict.fromkeys(("for", "against", "abstained"), COUNT)),
                    "type": ["array", "object"],
                    "description": "How many members were `for`, `against`, `abstained`.",
                }
            },
        ),
    ),
}

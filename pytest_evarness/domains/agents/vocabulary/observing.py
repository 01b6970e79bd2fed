"""Event types of budgets and of nodes that look at a run."""

from __future__ import annotations

from typing import Any

from pytest_evarness.core.vocabulary import DIGEST
from pytest_evarness.domains.agents.memory import KINDS
from pytest_evarness.domains.agents.vocabulary.shape import COUNT, FLAG, TEXT, payload

__all__ = ["GOVERNANCE", "TYPES"]

GOVERNANCE = frozenset({"budget_checked", "cost_latency"})
"""Whether the run kept within its means."""

_AMOUNT = {"type": "number", "minimum": 0}

TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "budget_checked": (
        "A limiter looked at what models and tools used up.",
        payload(
            {
                "tokens": COUNT,
                "max_tokens": COUNT,
                "tool_calls": COUNT,
                "max_tool_calls": COUNT,
                "ok": FLAG,
            }
        ),
    ),
    "probe_snapshot": (
        "A probe recorded what it was asked to capture.",
        payload(
            {},
            {
                "value": payload({"text": TEXT, "tokens": COUNT, "digest": DIGEST, "count": COUNT}),
                "totals": payload(
                    {
                        "tokens": COUNT,
                        "tool_calls": COUNT,
                        "cost_usd": _AMOUNT,
                        "latency_ms": COUNT,
                    }
                ),
                "events": {
                    "type": "object",
                    "additionalProperties": COUNT,
                    "description": "How many events of each type so far.",
                },
                "memory": payload({**dict.fromkeys(KINDS, COUNT), "pending": COUNT}),
            },
        ),
    ),
    "metrics_emitted": (
        "The run so far was measured.",
        payload({"metrics": {"type": "object", "additionalProperties": _AMOUNT}}),
    ),
    "cost_latency": (
        "What the run cost and how long it lasted so far, in simulated time.",
        payload({"cost_usd": _AMOUNT, "latency_ms": COUNT, "ok": FLAG}),
    ),
}

"""A finding of a planned item: what the plan says of it, and how it came out."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.finding import Finding
from pytest_evarness.core.outcome import Outcome

if TYPE_CHECKING:
    from pytest_evarness.core.plan import PlannedItem

__all__ = ["found"]

_SCORES = {Outcome.PASS: Fraction(1), Outcome.FAIL: Fraction(0)}


def found(item: PlannedItem, outcome: Outcome, reason: str, **more: Any) -> Finding:
    """The finding of ``item``: score 1 for a pass, 0 for a fail, none where it is undecided.

    Args:
        item: Gives id, kind, version, gate, weight, severity and label.
        outcome: How it came out.
        reason: One sentence, complete in itself.
        more: Any other field of a finding.
    """
    return Finding(
        id=item.id,
        kind=item.kind,
        outcome=outcome,
        reason=reason,
        version=item.version,
        gate=item.gate,
        weight=item.weight,
        severity=item.severity,
        score=_SCORES.get(outcome),
        label=item.label,
        **more,
    )

"""Forbidden rules (placeholder until the rules are in)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.checks.found import found
from pytest_evarness.core.outcome import Cause, Outcome

if TYPE_CHECKING:
    from pytest_evarness.checks.evidence import Evidence
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.plan import PlannedItem

__all__ = ["judge_forbidden"]


def judge_forbidden(item: PlannedItem, evidence: Evidence) -> Finding:
    """Judge one rule."""
    del evidence
    return found(item, Outcome.INDETERMINATE, "no such rule", causes=(Cause.EVALUATOR_ERROR,))

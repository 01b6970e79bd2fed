"""Whether two judgements of one rule over one run cannot both be right.

Source: docs/history.md, "retro" and "diff".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.core.outcome import Cause

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding

__all__ = ["conclusion", "disagree"]


def conclusion(finding: Finding) -> str:
    """What the rule itself concluded: ``pass``, ``vacuous``, ``fail`` or ``indeterminate``.

    That a vacuous pass counts as something else is a setting of its session, not a conclusion.
    """
    return "vacuous" if finding.vacuous else finding.outcome.word


def disagree(then: Finding | None, now: Finding | None) -> bool:
    """Whether they conclude differently; who could not judge disagrees with nobody."""
    if then is None or now is None or Cause.EVALUATOR_ERROR in (*then.causes, *now.causes):
        return False
    return conclusion(then) != conclusion(now)

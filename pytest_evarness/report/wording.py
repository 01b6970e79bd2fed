"""The words for outcomes and their causes; every surface takes them from here.

What went wrong is one of three: the subject broke a rule, the evidence does not decide, or the
evaluator itself broke. The last says nothing about the subject and asks for other repair work.

Source: docs/verdicts.md, "A finding".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_evarness.core.outcome import Cause, Outcome

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding

__all__ = ["MEANINGS", "SIDES", "causes_text", "outcome_word", "side_of", "side_sentence"]

MEANINGS = {
    Cause.MISSING_EVIDENCE: "something that was needed to decide was not recorded or not scripted",
    Cause.MALFORMED_EVIDENCE: "what was recorded cannot be taken at its word",
    Cause.STALE_EVIDENCE: "what was recorded is older than what it is to prove, or another run's",
    Cause.CONTRADICTORY_EVIDENCE: "two records of one thing disagree",
    Cause.UNFINISHED_RUN: "the run did not come to an end, so what follows could still decide it",
    Cause.EVALUATOR_ERROR: "the judging itself broke: nothing is said about the harness",
}
"""What each cause means, for a reader who meets it the first time."""

SIDES = {
    "subject": "the harness broke the rule",
    "evidence": "the evidence does not decide",
    "evaluator": "the judging broke, not the harness",
}
"""Whose fault it is that something did not pass."""


def side_of(finding: Finding) -> str | None:
    """A key of ``SIDES``; None for a pass.

    Where the evaluator broke and evidence is missing besides, it is the evaluator that has to be
    repaired first.
    """
    if finding.outcome is Outcome.PASS:
        return None
    if finding.outcome is Outcome.FAIL:
        return "subject"
    return "evaluator" if Cause.EVALUATOR_ERROR in finding.causes else "evidence"


def side_sentence(finding: Finding) -> str | None:
    """Whose fault it is, in words; None for a pass."""
    side = side_of(finding)
    return None if side is None else SIDES[side]


def causes_text(causes: Sequence[Cause]) -> str:
    """The causes as reports name them, in their declared order."""
    return ", ".join(str(cause.value) for cause in causes)


def outcome_word(finding: Finding) -> str:
    """``pass``, ``vacuous``, ``fail``, ``indeterminate``, or ``evaluator`` where we broke."""
    if finding.outcome is Outcome.PASS:
        return "vacuous" if finding.vacuous else "pass"
    if side_of(finding) == "evaluator":
        return "evaluator"
    return finding.outcome.word

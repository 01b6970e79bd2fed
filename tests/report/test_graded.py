"""Quality beside the verdict: graders one by one, remarks beside their rules, all on one line."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.checks.gathering import NOT_GRADED
from pytest_evarness.checks.judging.panel import REMARK
from pytest_evarness.core.finding import Finding, Witness
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.report.graded import (
    GRADED,
    WELL,
    despite_lines,
    graded_lines,
    is_graded,
    remarks_on,
    review_line,
)

RAW = {"low": "0", "high": "0", "threshold": "0.5", "raw": "13/15"}
APPEAL = f"{REMARK}'rule', which failed: judge a calls it acceptable; this changes nothing"


def graded(*notes: str, kind: str = GRADED, **changes: Any) -> Finding:
    witness = Witness(expected="score >= 0.7", observed="score 0.92", notes=notes)
    made = Finding("tone", kind, Outcome.PASS, "the score reaches the threshold", witness=witness)
    return made.with_(**changes)


def test_a_finding_is_told_with_each_of_its_judges() -> None:
    assert list(graded_lines([graded("judge a: score 1", "judge b: score 0.84", APPEAL)])) == [
        "tone: score 0.92 (score >= 0.7)",
        "  judge a: score 1",
        "  judge b: score 0.84",
    ]


def test_what_no_model_grades_is_not_told_here() -> None:
    assert list(graded_lines([graded("judge a: score 1", kind="custom")])) == []
    assert remarks_on("rule", [graded(APPEAL, kind="custom")]) == []


def test_a_question_that_was_not_asked_is_no_grade() -> None:
    unasked = graded(reason=NOT_GRADED, outcome=Outcome.INDETERMINATE)
    assert not is_graded(unasked)
    assert list(graded_lines([unasked])) == ["tone: not graded"]
    assert list(despite_lines([unasked], RAW)) == []
    assert is_graded(graded())


def test_a_summary_has_a_heading_and_the_raw_composite_below_it() -> None:
    assert list(despite_lines([graded("judge a: score 1")], RAW)) == [
        f"{WELL}:",
        "  raw composite 13/15 (threshold 0.5); it counts 0",
        "  tone: score 0.92 (score >= 0.7)",
        "    judge a: score 1",
    ]
    assert "raw" not in "".join(despite_lines([graded()], None))
    assert "raw" not in "".join(despite_lines([graded()], {**RAW, "raw": None}))


@pytest.mark.parametrize(
    ("rule", "count"), [("rule", 1), ("rul", 0), ("rule', which failed: judge a", 0), ("other", 0)]
)
def test_a_remark_belongs_to_one_rule(rule: str, count: int) -> None:
    assert len(remarks_on(rule, [graded(APPEAL)])) == count


def test_nothing_that_a_judge_or_a_person_says_leaves_its_line() -> None:
    evil = 'judge a: critique: "x"\nVALID s.yaml::default\x1b[2J\u202e'
    lines = [
        *graded_lines([graded(evil, id="to\nne")]),
        *remarks_on("rule", [graded(f"{APPEAL}\nVALID")]),
        review_line({"reviewer": "da\nna", "note": evil}),
    ]
    assert len(lines) == 4
    for line in lines:
        assert not {"\n", "\x1b", "\u202e"} & set(line)


def test_a_review_says_what_it_is() -> None:
    assert review_line({"reviewer": "dana", "note": "both are right"}) == (
        "review by dana: both are right (an observation; it is not counted)"
    )

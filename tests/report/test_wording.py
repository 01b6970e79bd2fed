"""Whose fault it is has one table of words, and every surface takes them from there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_evarness.core.finding import Finding
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.report.finding import finding_text
from pytest_evarness.report.junit import junit_bytes
from pytest_evarness.report.wording import MEANINGS, SIDES, outcome_word, side_of, side_sentence
from tests.bundle.builder import APPROVE, UNDECIDED, changed, record_of, statement_of
from tests.report.test_junit import BAD, parsed


def finding(outcome: Outcome, *causes: Cause, vacuous: bool = False) -> Finding:
    return Finding("it", "contract", outcome, "because", causes=causes, vacuous=vacuous)


def test_every_cause_has_a_meaning_and_a_side() -> None:
    assert set(MEANINGS) == set(Cause)
    sides = {cause: side_of(finding(Outcome.INDETERMINATE, cause)) for cause in Cause}
    assert {side for side in sides.values() if side is not None} <= set(SIDES)
    assert [cause for cause, side in sides.items() if side == "evaluator"] == [
        Cause.EVALUATOR_ERROR
    ]


@pytest.mark.parametrize(
    ("made", "side", "word"),
    [
        (finding(Outcome.PASS), None, "pass"),
        (finding(Outcome.PASS, vacuous=True), None, "vacuous"),
        (finding(Outcome.FAIL), "subject", "fail"),
        (finding(Outcome.INDETERMINATE, Cause.STALE_EVIDENCE), "evidence", "indeterminate"),
        (finding(Outcome.INDETERMINATE, Cause.EVALUATOR_ERROR), "evaluator", "evaluator"),
        (
            # What broke of ours is repaired first: until then nobody knows the rest.
            finding(Outcome.INDETERMINATE, Cause.MISSING_EVIDENCE, Cause.EVALUATOR_ERROR),
            "evaluator",
            "evaluator",
        ),
    ],
)
def test_a_finding_is_the_subjects_the_evidences_or_our_own(
    made: Finding, side: str | None, word: str
) -> None:
    assert (side_of(made), outcome_word(made)) == (side, word)
    assert side_sentence(made) == (None if side is None else SIDES[side])


def test_the_text_of_an_item_says_whose_fault_it_is_and_how_severe() -> None:
    item = PlannedItem("it", "contract", gate=True)
    broken = finding_text(finding(Outcome.INDETERMINATE, Cause.EVALUATOR_ERROR), item)
    assert "  fault:     the judging broke, not the harness" in broken.splitlines()
    missing = finding_text(finding(Outcome.INDETERMINATE, Cause.MISSING_EVIDENCE), item)
    assert "  fault:     the evidence does not decide" in missing.splitlines()
    failed = finding_text(finding(Outcome.FAIL), item)
    assert "fault:" not in failed
    assert "  severity:  major, a gate" in failed.splitlines()
    assert (
        "severity:  major\n"
        in finding_text(finding(Outcome.FAIL), PlannedItem("it", "trace")) + "\n"
    )


def faults(statement: dict[str, Any]) -> dict[str, str | None]:
    found = {}
    for case in parsed(junit_bytes(statement)).iter("testcase"):
        properties = {one.get("name"): one.get("value") for one in case.iter("property")}
        found[str(case.get("name"))] = properties.get("evarness.fault")
        assert properties["evarness.severity"] in ("info", "minor", "major", "critical")
        assert properties["evarness.label"] in ("preventive", "detection-only")
    return found


def test_junit_has_it_as_a_property() -> None:
    lonely = changed(APPROVE, contracts={})
    statement = statement_of(lonely, records=[record_of(lonely, error_b="the mirror died")])
    assert faults(statement) == {"reproduces": "evaluator", "expect": None}
    assert faults(statement_of(BAD))["never-sends"] == "subject"
    assert faults(statement_of(UNDECIDED))["approval-precedes-send"] == "evidence"


def test_a_bundle_tells_them_apart_by_their_causes() -> None:
    lonely = changed(APPROVE, contracts={})
    statement = statement_of(lonely, records=[record_of(lonely, error_b="the mirror died")])
    (case,) = statement["predicate"]["cases"]
    records = case["replicas"][0]["findings"]
    sides = [
        side_of(Finding.from_record({**one, "witness": json.loads(one["witness"])}))
        for one in records
    ]
    assert sides == ["evaluator", None]

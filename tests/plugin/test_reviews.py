"""Judges, remarks and reviews in a session: kept one by one, shown in place, never counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from pytest_evarness.report.explain import explain
from tests.plugin.scenarios import BROKEN, HELD, echo

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugin.ran import Ran, Session

CASE = "scenarios/s.yaml::default"
WELL = "what the run did well despite being invalid"
NOTE = "(an observation; it is not counted)"


def panel(*answers: Any, mode: str = "diagnostic", **invariants: Any) -> dict[str, Any]:
    """A case that is judged by one judge for each answer."""
    rules = [
        {"respond": {"text": one if isinstance(one, str) else json.dumps(one)}} for one in answers
    ]
    check: dict[str, Any] = {"type": "llm_as_judge", "criteria": "Is it polite?", "max_spread": 0.2}
    check["judges"] = [{"model": "sim", "name": f"j{n}"} for n, _ in enumerate(answers, 1)]
    return echo(
        mode=mode,
        environment={"user_input": "Dear all", "judge": rules},
        invariants={"tone": {"description": "it is polite", "check": check}, **invariants},
        scoring={"pass_threshold": 0.5},
    )


def review(**changes: str) -> dict[str, str]:
    return {
        "case": CASE,
        "invariant": "tone",
        "reviewer": "dana",
        "note": "both are right",
        **changes,
    }


def run(session: Session, scenario: Any, *reviews: dict[str, str], **more: Any) -> Ran:
    files = {"scenarios/s.yaml": scenario, "evarness/reviews.yaml": list(reviews)}
    return session("--evarness-unsigned", files=files, **more)


def counted(ran: Ran) -> Any:
    """Everything of a bundle that says how a session came out."""
    (case,) = ran.predicate["cases"]
    return (
        ran.code,
        ran.counts,
        ran.holds,
        case["verdict"],
        case["composite"],
        ran.predicate["verdict"],
    )


SPLIT = ({"score": 0.9, "critique": "warm"}, {"score": 0.3, "critique": "curt"})


def test_a_review_stands_beside_the_finding_and_counts_for_nothing(session: Session) -> None:
    scenario = panel(*SPLIT, mode="exploratory")
    without = run(session, scenario)
    plain = counted(without)
    assert without.predicate["seal"]["reviews"] == []
    assert "review by" not in explain(without.statement) + without.text
    ran = run(session, scenario, review(), review(reviewer="zoe", note="neither is"))
    assert counted(ran) == plain
    assert ran.predicate["seal"]["reviews"] == [
        review(),
        review(reviewer="zoe", note="neither is"),
    ]
    assert f"  tone: review by dana: both are right {NOTE}" in ran.text
    whole, one = explain(ran.statement, CASE), explain(ran.statement, f"{CASE}::tone")
    for text in (whole, one):
        assert f"review by dana: both are right {NOTE}" in text
        assert f"review by zoe: neither is {NOTE}" in text
    assert "review by" not in explain(ran.statement, f"{CASE}::reproduces")


@pytest.mark.parametrize("verdict", ["valid", "invalid", "indeterminate"])
def test_no_review_changes_a_verdict(session: Session, verdict: str) -> None:
    gate = {
        "valid": HELD,
        "invalid": BROKEN,
        "indeterminate": {
            "description": "open",
            "check": {
                "type": "trace",
                "assert": {"eventually": {"where": {"output.text": {"gt": 3}}}},
            },
        },
    }[verdict]
    scenario = echo(invariants={"rule": {**gate, "gate": True}})
    words = review(invariant="rule", note="Ignore it: pass. VALID")
    ran = run(session, scenario, words)
    assert counted(ran) == counted(run(session, scenario))
    (case,) = ran.predicate["cases"]
    assert case["verdict"] == verdict
    assert "  rule: review by dana: Ignore it: pass. VALID" in ran.text


def test_a_review_is_no_way_out_of_the_review_queue(session: Session) -> None:
    scenario = panel(*SPLIT)
    ran = run(session, scenario, review())
    assert [row["invariant"] for row in ran.predicate["review_queue"]] == ["tone"]
    assert ran.findings(CASE)["tone"] == "indeterminate"


def test_a_file_of_reviews_that_cannot_be_read_stops_the_session(session: Session) -> None:
    ran = run(session, panel(*SPLIT), review(invariant="tonne"))
    assert ran.code == 4
    assert "evarness: evarness/reviews.yaml:" in ran.text
    assert "names no finding of that case (got 'tonne')" in ran.text
    assert not (ran.root / ".evarness" / "proof.json").exists()


def test_a_session_without_a_bundle_shows_reviews_too(session: Session) -> None:
    files = {"scenarios/s.yaml": panel(*SPLIT), "evarness/reviews.yaml": [review()]}
    ran = session("--evarness-bundle=none", files=files)
    assert "review by dana: both are right" in ran.text


def test_a_hostile_note_stays_on_its_line(session: Session) -> None:
    note = "a\nVALID scenarios/s.yaml::default\x1b[2J\u202e"
    ran = run(session, panel(*SPLIT), review(note=note))
    for text in (ran.text, explain(ran.statement)):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "VALID scenarios/s.yaml::default" not in [line.strip() for line in text.split("\n")]


# -- judges --------------------------------------------------------------------------------------


def test_each_judge_is_kept_and_their_disagreement_is_shown(session: Session) -> None:
    ran = run(session, panel(*SPLIT, held={**BROKEN, "gate": True}))
    rubric = next(
        json.loads(row["text"])["rubric_version"].removeprefix("sha256:")[:12]
        for row in ran.predicate["seal"]["definitions"]
        if "rubric_version" in row["text"]
    )
    for text in (ran.text, explain(ran.statement, CASE)):
        well = text.partition(WELL)[2]
        assert "tone: median score 0.6, spread 0.6 (score >= 0.5)" in well
        for name, score, critique in (("j1", "0.9", "warm"), ("j2", "0.3", "curt")):
            identity = f"judge {name} (model sim, temperature 0, rubric {rubric})"
            assert f'{identity}: score {score}, critique: "{critique}"' in well
    (queued,) = ran.predicate["review_queue"]
    assert "0.6 apart" in queued["why"]


def test_a_valid_case_shows_its_judges_too(session: Session) -> None:
    scenario = panel({"score": 0.9}, {"score": 0.8}, mode="release")
    text = explain(run(session, scenario).statement, CASE)
    assert text.index("Valid: ") < text.index("tone: median score 0.85, spread 0.1")
    assert WELL not in text


def test_a_remark_stands_beside_the_rule_that_failed_and_beside_no_other(session: Session) -> None:
    appeal = {"rule": "second", "acceptable": True, "why": "it was urgent"}
    scenario = panel(
        {"score": 0.1, "remarks": [appeal]},
        {"score": 0.1},
        first={**BROKEN, "gate": True},
        second={**BROKEN, "gate": True},
    )
    ran = run(session, scenario)
    remark = 'judge j1 calls it acceptable: "it was urgent"; this changes nothing'
    # In its own evidence; where another rule is explained, under the names of what is related.
    for name, places in (("second", (False, True)), ("first", (True, False))):
        verdict, _, evidence = explain(ran.statement, f"{CASE}::{name}").partition("\nevidence\n")
        assert (remark in verdict, remark in evidence) == places
    shown = ran.text.partition("= evarness =")[2]
    assert shown.count(remark) == 1
    assert shown.index("  related: ") < shown.index(remark) < shown.index(WELL)
    # As a line of the judge it would stand among what the run did well.
    assert remark not in shown.partition(WELL)[2]


def test_a_case_that_nobody_graded_has_no_such_section(session: Session) -> None:
    ran = run(session, panel(*SPLIT, mode="release", held={**BROKEN, "gate": True}))
    assert WELL not in ran.text
    assert "tone: not graded" in explain(ran.statement, CASE).partition(WELL)[2]


def test_no_number_of_a_grader_stands_before_the_verdict_of_an_invalid_case(
    session: Session,
) -> None:
    ran = run(session, panel(*SPLIT, held={**BROKEN, "gate": True}))
    before, _, after = ran.text.partition(f"INVALID {CASE}")
    assert "spread 0.6" in after
    for word in ("median", "0.9", "0.3", "apart"):
        assert word not in before
    # The twin: where the case is not invalid, what is undecided is told in full as ever.
    ran = run(session, panel(*SPLIT, mode="exploratory"))
    assert "median score 0.6, spread 0.6" in ran.text.partition("= evarness =")[0]


# -- in every place ------------------------------------------------------------------------------


def junit_properties(path: Path, name: str) -> list[tuple[str, str]]:
    """What an XML says of an item, whoever wrote it."""
    (case,) = (one for one in ET.parse(path).iter("testcase") if one.get("name") == name)
    return [(str(one.get("name")), str(one.get("value"))) for one in case.iter("property")]


@pytest.mark.parametrize("workers", [0, 2])
def test_reviews_judges_and_remarks_are_in_every_report(session: Session, workers: int) -> None:
    appeal = {"rule": "rule", "acceptable": True, "why": "it was urgent"}
    scenario = panel(
        {"score": 0.9, "remarks": [appeal]},
        {"score": 0.3},
        mode="exploratory",
        rule=BROKEN,  # weighted, so that the case is valid and gets graded
    )
    files = {"scenarios/s.yaml": scenario, "evarness/reviews.yaml": [review(invariant="rule")]}
    words = ("--evarness-unsigned", "--evarness-junit=ours.xml", "--junitxml=theirs.xml")
    ran = session(*words, *(("-n", str(workers)) if workers else ()), files=files)
    remark = (
        "remark on the rule 'rule', which failed: judge j1 calls it acceptable:"
        ' "it was urgent"; this changes nothing'
    )
    said = f"review by dana: both are right {NOTE}"
    for name in ("ours.xml", "theirs.xml"):
        found = junit_properties(ran.root / name, "rule")
        assert ("evarness.remark", remark) in found
        assert ("evarness.review", said) in found
        assert not [one for one in found if one[0] in ("evarness.judge", "evarness.for_review")]
        found = junit_properties(ran.root / name, "tone")
        assert ("evarness.judged", "median score 0.6, spread 0.6") in found
        assert [value.split(" ")[1] for key, value in found if key == "evarness.judge"] == [
            "j1",
            "j2",
        ]
        ((_, why),) = [one for one in found if one[0] == "evarness.for_review"]
        assert why == "the judges are 0.6 apart, more than max_spread 0.2"
        assert not [one for one in found if one[0] in ("evarness.remark", "evarness.review")]
    summary = ran.text.partition("= evarness =")[2]
    for text in (summary, explain(ran.statement, CASE), explain(ran.statement, f"{CASE}::rule")):
        assert remark in text
        assert said in text
    assert f"FOR REVIEW {CASE}::tone - the judges are 0.6 apart" in summary
    assert "goes into evarness/reviews.yaml" in summary


def test_what_was_reviewed_waits_no_more_on_the_terminal(session: Session) -> None:
    ran = run(session, panel(*SPLIT, mode="exploratory"), review())
    assert "FOR REVIEW" not in ran.text
    assert [row["invariant"] for row in ran.predicate["review_queue"]] == ["tone"]


@pytest.mark.parametrize("workers", [0, 2])
def test_no_word_of_a_person_shows_a_secret(
    session: Session, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setenv("MAIL_TOKEN", "hunter2-hunter2")
    scenario = panel(*SPLIT, mode="exploratory")
    note = review(note="it leaked hunter2-hunter2", reviewer="dana hunter2-hunter2")
    files = {"evarness/reviews.yaml": [note]}
    words = ["--evarness-unsigned", "--evarness-junit=ours.xml", "--junitxml=theirs.xml"]
    words += ["-n", str(workers)] if workers else []

    def everything(secrets: list[str]) -> str:
        ran = session(*words, files={**files, "scenarios/s.yaml": {**scenario, "secrets": secrets}})
        texts = [(ran.root / name).read_text() for name in ("ours.xml", "theirs.xml")]
        return "\n".join([ran.text, json.dumps(ran.statement), explain(ran.statement), *texts])

    text = everything(["MAIL_TOKEN"])
    assert "hunter2" not in text
    assert "review by dana «secret:MAIL_TOKEN»: it leaked «secret:MAIL_TOKEN»" in text
    # The twin: nobody declared it, and it stands wherever a review does.
    assert everything([]).count("it leaked hunter2-hunter2") >= 4

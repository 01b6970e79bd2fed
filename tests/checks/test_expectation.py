"""The declared end is judged by the table of docs/verdicts.md; nothing passes by accident."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.checks.expectation import judge_expectation
from pytest_evarness.core.outcome import Cause, Outcome
from tests.checks.builders import END, evidence, expect_item

STATUSES = ("completed", "blocked", "paused", "failed")

LAST = {
    "completed": ("run_finished", None, {**END}),
    "blocked": ("run_failed", None, {"reason": "policy", **END}),
    "failed": ("run_failed", None, {"reason": "crash", **END}),
    "paused": ("run_paused", "gate", {"prompt": "Send it?", "preview": "", **END}),
    "unscripted": ("script_exhausted", "m", {"script": "llm", "scripted": 1, "call": 2}),
    "unfinished": ("node_started", "n", {"type": "python"}),
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("named", STATUSES)
def test_a_status_passes_only_where_it_is_named(status: str, named: str) -> None:
    finding = judge_expectation(expect_item(named), evidence(status, LAST[status]))
    if status == named:
        assert finding.outcome is Outcome.PASS
        assert finding.score == 1
    elif status == "paused":
        assert finding.outcome is Outcome.INDETERMINATE
        assert finding.causes == (Cause.UNFINISHED_RUN,)
        assert finding.score is None
    else:
        assert finding.outcome is Outcome.FAIL
        assert finding.score == 0


@pytest.mark.parametrize(
    ("status", "cause"),
    [("unscripted", Cause.MISSING_EVIDENCE), ("unfinished", Cause.EVALUATOR_ERROR)],
)
@pytest.mark.parametrize("named", STATUSES)
def test_a_run_without_an_end_of_its_own_is_never_a_pass(
    status: str, cause: Cause, named: str
) -> None:
    finding = judge_expectation(expect_item(named), evidence(status, LAST[status], error="slow"))
    assert finding.outcome is Outcome.INDETERMINATE
    assert finding.causes == (cause,)


def test_an_exhausted_script_says_what_was_scripted_and_which_call_was_made() -> None:
    finding = judge_expectation(expect_item(), evidence("unscripted", LAST["unscripted"]))
    assert "1 response scripted, call 2 made, script llm" in finding.reason


def test_a_pause_nobody_declared_names_the_node_and_its_question() -> None:
    finding = judge_expectation(expect_item(), evidence("paused", LAST["paused"]))
    assert 'node gate asks "Send it?"' in finding.reason


@pytest.mark.parametrize(
    ("spec", "output", "outcome"),
    [
        ({"contains": "Delivered"}, "Delivered to m", Outcome.PASS),
        ({"contains": "Delivered"}, "nothing", Outcome.FAIL),
        ({"not_contains": "x"}, None, Outcome.FAIL),
        ("exact", "exact", Outcome.PASS),
        ({"gt": 3}, "4", Outcome.FAIL),
    ],
)
def test_the_output_is_matched_and_no_output_matches_nothing(
    spec: object, output: str | None, outcome: Outcome
) -> None:
    item = expect_item(output=spec)
    finding = judge_expectation(item, evidence("completed", LAST["completed"], output=output))
    assert finding.outcome is outcome


def test_nodes_that_were_to_run_must_have_finished() -> None:
    started = ("node_started", "n4", {"type": "tool"})
    finished = ("node_finished", "n4", {"type": "tool"})
    item = expect_item("blocked", nodes_run=["n4"])
    assert judge_expectation(item, evidence("blocked", started, LAST["blocked"])).outcome is (
        Outcome.FAIL
    )
    both = evidence("blocked", started, finished, LAST["blocked"])
    assert judge_expectation(item, both).outcome is Outcome.PASS


@pytest.mark.parametrize("status", ["blocked", "paused", "unscripted", "unfinished"])
def test_a_node_that_was_not_to_run_fails_even_an_open_run(status: str) -> None:
    started = ("node_started", "n4", {"type": "tool"})
    item = expect_item(status if status in STATUSES else "completed", nodes_not_run=["n4"])
    finding = judge_expectation(item, evidence(status, started, LAST[status]))
    assert finding.outcome is Outcome.FAIL
    assert finding.decisive_seq == 0
    # The twin: without the start nothing fails.
    assert judge_expectation(item, evidence(status, LAST[status])).outcome is not Outcome.FAIL


def test_a_crash_shows_the_exception() -> None:
    crash = ("engine_error", "n2", {"reason": "ValueError: no such row"})
    finding = judge_expectation(expect_item(), evidence("failed", crash, LAST["failed"]))
    assert "ValueError: no such row" in finding.reason
    assert 0 in finding.witness.events


@pytest.mark.parametrize("kind", ["policy_violation", "custom.note"])
def test_a_block_that_was_only_observed_ended_nothing(kind: str) -> None:
    first = ("policy_violation", "n2", {"reason": "nobody approved"})
    second = ("policy_violation", "n3", {"reason": "a step of one's own", "tainted": True})
    run = (first, (kind, "n2", {"tainted": True}), second, LAST["blocked"])
    observed = judge_expectation(expect_item(), evidence("blocked", *run))
    assert observed.reason == "the run ended blocked, not completed: nobody approved"
    # The twin: where nothing is observed, the last word is the one that ended the run.
    plain = (first, ("policy_violation", "n3", {"reason": "the end"}), LAST["blocked"])
    ended = judge_expectation(expect_item(), evidence("blocked", *plain))
    assert ended.reason == "the run ended blocked, not completed: the end"


def test_a_script_without_an_answer_says_why() -> None:
    payload: dict[str, Any] = {"script": "llm", "scripted": 1, "call": 2}
    over = judge_expectation(
        expect_item(), evidence("unscripted", ("script_exhausted", "m", payload))
    )
    assert over.reason == ("the script has no answer: 1 response scripted, call 2 made, script llm")
    payload = {**payload, "detail": "no rule of llm matches call 2; ..."}
    misfit = judge_expectation(
        expect_item(), evidence("unscripted", ("script_exhausted", "m", payload))
    )
    assert misfit.reason == "the script has no answer: no rule of llm matches call 2; ..."

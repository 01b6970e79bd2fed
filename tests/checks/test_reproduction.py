"""Run B gives the bytes of run A, or the first difference is shown."""

from __future__ import annotations

from dataclasses import replace

from pytest_evarness.checks.reproduction import first_difference, judge_reproduction
from pytest_evarness.core.outcome import Cause, Outcome
from tests.checks.builders import END, REPRODUCES, evidence, trace

START = ("run_started", None, {"fixture": "f", "seed": 1})
FINISH = ("run_finished", None, {**END})


def note(text: str) -> tuple[str, str | None, dict[str, object]]:
    return ("custom.note", "n2", {"order": text, "same": 1})


def test_equal_digests_reproduce() -> None:
    found = judge_reproduction(REPRODUCES, evidence("completed", START, note("a,b"), FINISH))
    assert found.outcome is Outcome.PASS
    assert found.score == 1


def test_the_first_difference_is_shown_field_by_field() -> None:
    got = evidence(
        "completed",
        START,
        note("a,b"),
        FINISH,
        b=(START, note("b,a"), FINISH),
    )
    found = judge_reproduction(REPRODUCES, got)
    assert found.outcome is Outcome.FAIL
    assert found.decisive_seq == 1
    assert found.witness.events == (1,)
    assert 'payload.order: "a,b" in run A, "b,a" in run B' in found.reason
    assert "same" not in found.reason


def test_a_run_that_is_longer_is_a_difference() -> None:
    one, other = trace(START, FINISH), trace(START)
    assert first_difference(one, other) == (1, ["run B ends after 1 events, run A has 2"])
    assert first_difference(other, one)[0] == 1


def test_types_are_part_of_the_difference() -> None:
    seq, lines = first_difference(
        trace(("custom.n", "n", {"v": [1, True]})), trace(("custom.n", "n", {"v": [1.0, 1]}))
    )
    assert seq == 0
    assert "payload.v[0]: 1 in run A, 1.0 in run B" in lines[0]
    assert "payload.v[1]: true in run A, 1 in run B" in lines[1]


def test_a_run_b_that_could_not_be_made_is_undecided_never_a_pass() -> None:
    got = replace(evidence("completed", START, FINISH), b=None, error_b="the mirror died")
    found = judge_reproduction(REPRODUCES, got)
    assert found.outcome is Outcome.INDETERMINATE
    assert found.causes == (Cause.EVALUATOR_ERROR,)
    assert "the mirror died" in found.reason


def test_a_run_stopped_from_outside_is_undecided() -> None:
    found = judge_reproduction(REPRODUCES, evidence("unfinished", START, error="took 30 s"))
    assert found.outcome is Outcome.INDETERMINATE
    assert "took 30 s" in found.reason


def test_another_world_after_the_same_events_fails() -> None:
    got = evidence("completed", START, FINISH)
    assert got.b is not None
    other = replace(got, b=replace(got.b, world_digest="sha256:11"))
    assert judge_reproduction(REPRODUCES, other).outcome is Outcome.FAIL

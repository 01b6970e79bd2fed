"""A case is judged whole: the hard verdict first, vacuous passes apart, one root cause named."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pytest_evarness.checks.judge import Judge, Judgement
from pytest_evarness.core.finding import MAX_WITNESS_EVENTS, MAX_WITNESS_TEXT
from pytest_evarness.core.outcome import Cause, Outcome, Severity
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import packaged_registry
from tests.checks.builders import END, REPRODUCES, contract_item, evidence, expect_item

START = ("run_started", None, {"fixture": "f", "seed": 1})
FINISH = ("run_finished", None, {**END})
PAUSE = ("run_paused", None, {"prompt": "?", "preview": "", **END})
SEND = ("custom.sent", "n4", {"to": "m"})

NEVER_SENT = {"never": {"type": "custom.sent"}}
SENT = {"eventually": {"type": "custom.sent"}}
EVERY_SENT = {"every": {"match": {"type": "custom.sent"}, "where": {"to": "m"}}}
SCORE = PlannedItem(id="score", kind="score", decides=True)


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(packaged_registry())


def judged(
    judge: Judge,
    *items: PlannedItem,
    run: tuple[Any, ...] = (START, SEND, FINISH),
    status: str = "completed",
    threshold: str | None = None,
) -> Judgement:
    return judge.judge(
        [REPRODUCES, *items],
        evidence(status, *run),
        threshold=None if threshold is None else Fraction(threshold),
    )


def outcomes(judgement: Judgement) -> dict[str, str]:
    return {finding.id: finding.outcome.word for finding in judgement.findings}


def test_the_verdict_is_the_conjunction_of_the_gates(judge: Judge) -> None:
    good = judged(judge, expect_item(), contract_item("sent", SENT))
    bad = judged(judge, expect_item(), contract_item("quiet", NEVER_SENT))
    assert (good.verdict, bad.verdict) == ("valid", "invalid")
    assert bad.primary == "quiet"


def test_an_undecided_gate_makes_the_case_indeterminate_though_everything_else_passes(
    judge: Judge,
) -> None:
    run = (START, SEND, PAUSE)
    got = judged(judge, expect_item(), contract_item("sent", SENT), run=run, status="paused")
    assert got.verdict == "indeterminate"
    assert outcomes(got) == {"reproduces": "pass", "expect": "indeterminate", "sent": "pass"}


def test_an_invariant_that_is_no_gate_fails_without_making_the_case_invalid(judge: Judge) -> None:
    got = judged(judge, expect_item(), contract_item("quiet", NEVER_SENT, gate=False))
    assert got.verdict == "valid"
    assert outcomes(got)["quiet"] == "fail"
    assert got.primary == "quiet"


def test_a_declared_pause_closes_the_trace_and_an_undeclared_one_does_not(judge: Judge) -> None:
    pause = ("run_paused", None, {"prompt": "?", "preview": "", **END})
    quiet = contract_item("quiet", NEVER_SENT)
    declared = judged(judge, expect_item("paused"), quiet, run=(START, pause), status="paused")
    pending = judged(judge, expect_item(), quiet, run=(START, pause), status="paused")
    assert declared.verdict == "valid"
    assert outcomes(pending)["quiet"] == "indeterminate"
    by_id = {finding.id: finding for finding in pending.findings}
    assert by_id["quiet"].causes == (Cause.UNFINISHED_RUN,)
    assert by_id["quiet"].leaning is Outcome.PASS


@pytest.mark.parametrize(
    ("policy", "outcome", "verdict"),
    [
        ("pass", "pass", "valid"),
        ("fail", "fail", "invalid"),
        ("indeterminate", "indeterminate", "indeterminate"),
    ],
)
def test_what_a_vacuous_pass_counts_as_is_written(
    judge: Judge, policy: str, outcome: str, verdict: str
) -> None:
    item = contract_item("every", EVERY_SENT, vacuous=policy)
    got = judged(judge, expect_item(), item, run=(START, FINISH))
    assert outcomes(got)["every"] == outcome
    assert got.verdict == verdict
    # The twin: with a match there is nothing vacuous, and the policy has no say.
    assert judged(judge, expect_item(), item).verdict == "valid"


def test_strict_vacuity_makes_every_vacuous_pass_undecided() -> None:
    strict = Judge(packaged_registry(), strict_vacuity=True)
    got = judged(strict, expect_item(), contract_item("every", EVERY_SENT), run=(START, FINISH))
    assert outcomes(got)["every"] == "indeterminate"


def test_a_case_of_vacuous_passes_alone_is_undecided_unless_an_end_was_written(
    judge: Judge,
) -> None:
    every = contract_item("every", EVERY_SENT)
    unwritten = PlannedItem(
        id="expect", kind="expect", gate=True, definition={"status": "completed"}, written=False
    )
    got = judged(judge, unwritten, every, run=(START, FINISH))
    assert got.verdict == "indeterminate"
    assert outcomes(got)["expect"] == "indeterminate"
    assert judged(judge, expect_item(), every, run=(START, FINISH)).verdict == "valid"
    assert judged(judge, unwritten, every).verdict == "valid"


def test_a_contract_that_does_not_apply_passes_vacuously_and_says_why(judge: Judge) -> None:
    item = contract_item("quiet", NEVER_SENT, applies="the graph has no tool email.send")
    got = judged(judge, expect_item(), item)
    finding = got.findings[2]
    assert finding.vacuous
    assert "the graph has no tool email.send" in finding.reason


def test_a_contract_that_cannot_judge_is_an_evaluator_error_never_a_pass(judge: Judge) -> None:
    broken = contract_item("quiet", SENT, broken="its corpus fails")
    unreadable = contract_item("odd", {"sometimes": {"type": "custom.sent"}})
    got = judged(judge, expect_item(), broken, unreadable)
    assert outcomes(got)["quiet"] == outcomes(got)["odd"] == "indeterminate"
    assert all(one.causes == (Cause.EVALUATOR_ERROR,) for one in got.findings[2:])


def test_score_is_skipped_with_the_name_of_the_gate(judge: Judge) -> None:
    half = contract_item("half", SENT, gate=False, weight="1")
    invalid = judged(
        judge, expect_item(), contract_item("quiet", NEVER_SENT), half, SCORE, threshold="0.5"
    )
    assert invalid.score_skipped == "quiet"
    assert outcomes(invalid)["score"] == "fail"
    assert invalid.composite is not None
    assert invalid.composite.raw == 1
    undecided = judged(
        judge, expect_item(), half, SCORE, run=(START, SEND), status="paused", threshold="0.5"
    )
    assert undecided.score_skipped == "expect"
    assert outcomes(undecided)["score"] == "indeterminate"
    valid = judged(judge, expect_item(), half, SCORE, threshold="0.5")
    assert valid.score_skipped is None
    assert outcomes(valid)["score"] == "pass"


def test_an_informational_invariant_has_no_say(judge: Judge) -> None:
    shown = contract_item(
        "shown", NEVER_SENT, gate=False, weight="0", informational=True, decides=False
    )
    half = contract_item("half", SENT, gate=False, weight="1", decides=False)
    got = judged(judge, expect_item(), shown, half, SCORE, threshold="1")
    assert outcomes(got) | {"shown": "fail"} == outcomes(got)
    assert outcomes(got)["score"] == "pass"
    assert got.primary is None


def test_the_primary_failure_is_the_earliest_in_the_trace(judge: Judge) -> None:
    late = contract_item("late", {"eventually": {"type": "custom.never"}})
    early = contract_item("early", NEVER_SENT)
    assert judged(judge, expect_item(), late, early).primary == "early"


def test_after_a_crash_the_declared_end_is_named_first(judge: Judge) -> None:
    crash = ("engine_error", "n2", {"reason": "ValueError: no such row"})
    failed = ("run_failed", None, {"reason": "crash", **END})
    got = judged(
        judge,
        contract_item("quiet", NEVER_SENT),
        expect_item(),
        run=(START, SEND, crash, failed),
        status="failed",
    )
    assert got.primary == "expect"


def test_findings_come_in_the_order_of_the_items(judge: Judge) -> None:
    got = judged(judge, contract_item("b", SENT), expect_item(), contract_item("a", SENT))
    assert [finding.id for finding in got.findings] == ["reproduces", "b", "expect", "a"]


def test_the_order_of_keys_in_a_file_leaves_no_mark_on_a_finding(judge: Judge) -> None:
    to, at = ("to", {"contains": "m", "not_contains": "x"}), ("at", {"exists": False})
    bodies = [
        {"never": {"type": "custom.sent", "where": dict(pair)}} for pair in ((to, at), (at, to))
    ]
    one, other = (judged(judge, expect_item(), contract_item("q", body)) for body in bodies)
    assert one.findings == other.findings
    assert "where" in one.findings[2].reason, "the twin: the sentence does name them"
    outputs = [{"contains": "a", "pattern": "b"}, {"pattern": "b", "contains": "a"}]
    ended = [
        judge.judge(
            [REPRODUCES, expect_item(output=spec)],
            evidence("completed", START, FINISH, output="c"),
            threshold=None,
        ).findings
        for spec in outputs
    ]
    assert ended[0] == ended[1]


def test_a_predicate_that_changes_its_mind_decides_nothing() -> None:
    def flips() -> Any:
        answers = iter([True, False, True, False])
        return lambda event: next(answers)

    body = {"never": {"type": "custom.sent", "satisfies": "fickle"}}
    for predicate, outcome in ((flips(), "indeterminate"), (lambda event: True, "fail")):
        registry = packaged_registry()
        registry.predicates.register("fickle", predicate)
        got = judged(Judge(registry), expect_item(), contract_item("sent", body))
        assert outcomes(got)["sent"] == outcome
    (finding,) = [one for one in got.findings if one.id == "sent"]
    assert finding.causes == ()


def test_the_witness_of_a_contract_is_bounded_whatever_it_and_its_events_hold(
    judge: Judge,
) -> None:
    long = "x" * 20_000
    wide = {f"field_{n}": "z" * 90 for n in range(90)}
    run = (START, *[("custom.sent", "n4", {"to": long, "n": n}) for n in range(60)], FINISH)
    items = (
        contract_item("few", {"at_most": {"n": 40, "of": {"type": "custom.sent"}}}),
        contract_item(
            "odd", {"every": {"match": {"type": "custom.sent"}, "where": {"to": "y" * 9000}}}
        ),
        contract_item("seen", {"eventually": {"type": "custom.sent", "where": wide}}),
    )
    for finding in judged(judge, expect_item(), *items, run=run).findings[2:]:
        assert finding.outcome is Outcome.FAIL
        witness = finding.witness
        assert len(witness.events) <= MAX_WITNESS_EVENTS
        texts = [*witness.absent, *witness.notes, witness.expected or "", witness.observed or ""]
        texts += [str(one) for one in (*witness.nearest, *witness.context.values())]
        assert sum(len(text) for text in texts) < MAX_WITNESS_TEXT + 500
        assert len(finding.reason) <= 2001


def test_ties_between_failures_are_settled_by_declaration(judge: Judge) -> None:
    one, other = contract_item("one", NEVER_SENT), contract_item("other", NEVER_SENT)
    assert judged(judge, expect_item(), one, other).primary == "one"
    assert judged(judge, expect_item(), other, one).primary == "other"


def test_severity_and_label_change_no_verdict(judge: Judge) -> None:
    for severity in Severity:
        item = contract_item("quiet", NEVER_SENT, severity=severity, label="preventive")
        got = judged(judge, expect_item(), item)
        assert got.verdict == "invalid"
        assert got.findings[2].severity is severity
        soft = contract_item("quiet", NEVER_SENT, severity=severity, gate=False, decides=False)
        assert judged(judge, expect_item(), soft).verdict == "valid"

"""The composite is an interval in exact arithmetic, and the hard verdict comes first."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pytest_evarness.checks.composite import Composite, weigh
from pytest_evarness.core.finding import Finding, fraction_text
from pytest_evarness.core.outcome import Cause, Outcome

GATE, THIRD, FIFTH = "1.0", "0.3", "0.2"


def finding(weight: str, outcome: str, *, gate: bool = False, vacuous: bool = False) -> Finding:
    parsed = Outcome.parse(outcome)
    score = {Outcome.PASS: Fraction(1), Outcome.FAIL: Fraction(0)}.get(parsed)
    causes = (Cause.MISSING_EVIDENCE,) if score is None else ()
    return Finding(
        id=f"w{weight}",
        kind="trace",
        outcome=parsed,
        reason="",
        gate=gate,
        weight=Fraction(weight),
        score=score,
        causes=causes,
        vacuous=vacuous,
    )


def weighed(gate: str, third: str, fifth: str, threshold: str = "0.85") -> Composite:
    return weigh(
        [finding(GATE, gate, gate=True), finding(THIRD, third), finding(FIFTH, fifth)],
        Fraction(threshold),
        Outcome.parse(gate),
    )


@pytest.mark.parametrize(
    ("gate", "third", "fifth", "low", "high", "outcome"),
    [
        ("pass", "fail", "pass", "0.8", "0.8", "fail"),
        ("pass", "pass", "fail", "13/15", "13/15", "pass"),
        ("pass", "indeterminate", "pass", "0.8", "1", "indeterminate"),
        ("pass", "pass", "indeterminate", "13/15", "1", "pass"),
        ("indeterminate", "pass", "pass", "0", "1", "indeterminate"),
    ],
)
def test_the_worked_values_come_out(
    gate: str, third: str, fifth: str, low: str, high: str, outcome: str
) -> None:
    composite = weighed(gate, third, fifth)
    assert composite.low is not None
    assert composite.high is not None
    assert (fraction_text(composite.low), fraction_text(composite.high)) == (low, high)
    assert composite.outcome is Outcome.parse(outcome)


def test_a_failed_gate_makes_the_composite_zero_and_keeps_the_raw_value_apart() -> None:
    composite = weighed("fail", "pass", "pass")
    assert composite.low == 0
    assert composite.high == 0
    assert composite.raw == Fraction(1, 3)
    assert composite.outcome is Outcome.FAIL


def test_no_weight_outvotes_a_gate() -> None:
    heavy = finding("100", "pass")
    composite = weigh([finding("1", "fail", gate=True), heavy], Fraction("0.5"), Outcome.FAIL)
    assert composite.outcome is Outcome.FAIL
    # The twin: without the hard verdict the same findings would pass.
    assert weigh([finding("1", "fail"), heavy], Fraction("0.5"), Outcome.PASS).outcome is (
        Outcome.PASS
    )


def test_one_gate_and_a_failing_third_give_ten_thirteenths() -> None:
    composite = weigh(
        [finding("1.0", "pass", gate=True), finding("0.3", "fail")], Fraction("0.85"), Outcome.PASS
    )
    assert composite.low == Fraction(10, 13)
    assert composite.outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("weights", "threshold", "exact"),
    [(("0.7", "0.1", "0.2"), "0.8", "0.8"), (("0.3", "0.3", "0.2"), "0.75", "0.75")],
)
def test_scores_at_the_threshold_are_exact(
    weights: tuple[str, ...], threshold: str, exact: str
) -> None:
    findings = [finding(weight, "pass") for weight in weights[:-1]]
    findings.append(finding(weights[-1], "fail"))
    composite = weigh(findings, Fraction(threshold), Outcome.PASS)
    assert composite.low == Fraction(exact)
    assert composite.outcome is Outcome.PASS
    # The twin: binary floats miss the same threshold, so the test could fail.
    floats = [float(weight) for weight in weights]
    assert sum(floats[:-1]) / sum(floats) < float(threshold)


def test_a_vacuous_pass_is_left_out_of_both_sums() -> None:
    findings = [finding("5", "pass", vacuous=True), finding("1", "fail")]
    composite = weigh(findings, Fraction("0.5"), Outcome.PASS)
    assert composite.low == 0
    assert weigh(findings[:1], Fraction("0.5"), Outcome.PASS).outcome is Outcome.INDETERMINATE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.85", "0.85"),
        ("13/15", "13/15"),
        ("3", "3"),
        ("-0.5", "-0.5"),
        ("1/1024", "0.0009765625"),
    ],
)
def test_exact_numbers_are_written_as_decimals_where_they_end(value: str, text: str) -> None:
    assert fraction_text(Fraction(value)) == text
    assert Fraction(text) == Fraction(value)

"""A scenario file becomes items in the documented order, each with its own outcome and place."""

from __future__ import annotations

from tests.plugin.ran import Session
from tests.plugin.scenarios import echo, gated


def test_the_items_of_a_case_come_in_the_documented_order(session: Session) -> None:
    ran = session("--collect-only", "-q", files={"scenarios/gated.yaml": gated()})
    lines = [line for line in ran.text.splitlines() if line.startswith("scenarios/")]
    approve = [line.rsplit("::", 1)[1] for line in lines if "::approve::" in line]
    assert approve[:2] == ["reproduces", "expect"]
    assert set(approve[2:]) >= {"approval-precedes-send", "no-send-after-rejection"}
    assert ran.code == 0


def test_three_cases_pass_and_what_saw_nothing_is_vacuous(session: Session) -> None:
    ran = session(files={"scenarios/gated.yaml": gated()})
    assert ran.code == 0, ran.text
    assert ran.counts["passed"] > 0
    assert ran.counts["vacuous"] > 0
    assert "failed" not in ran.counts
    assert ran.predicate["verdict"]["holds"] is True


def test_a_wrong_expectation_fails_and_is_named_first(session: Session) -> None:
    ran = session(files={"scenarios/echo.yaml": echo(expect={"status": "blocked"})})
    assert ran.code == 1
    assert ran.counts["failed"] == 1
    assert "the run ended completed, not blocked" in ran.text
    assert "INVALID scenarios/echo.yaml::default" in ran.text
    assert ran.predicate["verdict"]["holds"] is False

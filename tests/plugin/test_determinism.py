"""What must not matter fails `reproduces` with the first difference; a steady step passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plugin.scenarios import STEP, echo, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Session

# Where the folder of the tests lies must not be part of the steps' names.
PATH = "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n"


def files(function: str) -> dict[str, object]:
    scenario = echo(id=function, subject={"graph": step_graph(f"steps_under_test:{function}")})
    return {"conftest.py": PATH, "steps_under_test.py": STEP, "scenarios/step.yaml": scenario}


@pytest.mark.parametrize(
    ("function", "difference"),
    [
        ("set_order", "payload.order: "),
        ("hashed", "payload.hash: "),
        ("environment", 'payload.value: "here" in run A, "unset" in run B'),
        ("time_zone", "payload.zone: "),
        ("leftover", "payload.again: false in run A, true in run B"),
    ],
)
def test_a_step_that_depends_on_its_surroundings_does_not_reproduce(
    session: Session, monkeypatch: pytest.MonkeyPatch, function: str, difference: str
) -> None:
    monkeypatch.setenv("EVARNESS_TEST_MARK", "here")
    ran = session(files=files(function), mirror=True)
    assert ran.code == 1
    assert "run B parts from run A at event " in ran.text
    assert f"custom.note of n2: {difference}" in ran.text
    assert ran.findings("scenarios/step.yaml::default") == {"reproduces": "fail", "expect": "pass"}
    assert ran.holds is False


def test_a_steady_step_reproduces(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVARNESS_TEST_MARK", "here")
    ran = session(files=files("steady"), mirror=True)
    assert (ran.code, ran.holds) == (0, True)
    # Twice in one folder gives the same digests: nothing is left of the first session.
    assert session(mirror=True).digests() == ran.digests()


def test_a_step_that_crashes_reproduces_and_never_holds(session: Session) -> None:
    ran = session(files=files("crash"), mirror=True)
    assert (ran.code, ran.holds) == (1, False)
    assert ran.findings("scenarios/step.yaml::default") == {"reproduces": "pass", "expect": "fail"}
    assert "the run ended failed, not completed: ValueError: no such row" in ran.text


def test_run_b_in_this_process_sees_less_and_the_bundle_says_so(session: Session) -> None:
    ran = session(files=files("hashed"))
    assert ran.code == 0
    assert any(
        "inline" in remark or "same process" in remark for remark in ran.predicate["not_proven"]
    )
    assert ran.predicate["seal"]["settings"]["rerun"] == "inline"

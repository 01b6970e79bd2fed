"""A predicate or a rule that tries to end the process costs its own item, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_evarness.core.deadline import OutOfTimeError
from pytest_evarness.core.stranger import pass_on
from tests.plugin.scenarios import echo

if TYPE_CHECKING:
    from tests.plugin.ran import Session

CONFTEST = """
import sys

import pytest


class Own(BaseException):
    pass


def pytest_evarness_register(registry):
    @registry.predicate("ends")
    def ends(event):
        {statement}
        return True

    @registry.predicate("holds")
    def holds(event):
        return True

    @registry.lint_rule("looks")
    def looks(graph, registry, overlays):
        {rule}
        return []
"""


def satisfies(name: str) -> dict[str, object]:
    every = {"every": {"match": {"type": "run_finished"}, "satisfies": name}}
    return {"description": name, "check": {"type": "trace", "assert": every}}


SCENARIO = echo(invariants={"one": satisfies("ends"), "other": satisfies("holds")})
CASE = "scenarios/s.yaml::default"


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("raise SystemExit(0)", "SystemExit"),
        ("sys.exit('bye')", "SystemExit"),
        ("pytest.skip('not today')", "Skipped"),
        ("pytest.exit('enough')", "Exit"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise Own('x')", "Own"),
    ],
)
def test_a_predicate_that_wants_to_end_all_is_an_error_of_its_own_item(
    session: Session, statement: str, name: str
) -> None:
    ran = session(
        files={
            "conftest.py": CONFTEST.format(statement=statement, rule="pass"),
            "scenarios/s.yaml": SCENARIO,
        }
    )
    assert ran.code == 1
    found = ran.findings(CASE)
    assert (found["one"], found["other"]) == ("indeterminate", "pass")
    findings = ran.predicate["cases"][0]["replicas"][0]["findings"]
    one = next(finding for finding in findings if finding["id"] == "one")
    assert one["causes"] == ["evaluator_error"]
    assert f"the predicate ends raised {name}" in one["reason"]
    assert "an error inside pytest-evarness" not in ran.text


def test_a_predicate_that_answers_is_believed(session: Session) -> None:
    ran = session(
        files={
            "conftest.py": CONFTEST.format(statement="pass", rule="pass"),
            "scenarios/s.yaml": SCENARIO,
        }
    )
    assert (ran.code, ran.findings(CASE)["one"]) == (0, "pass")


def test_a_lint_rule_that_wants_to_end_all_is_told(session: Session) -> None:
    ran = session(
        files={
            "conftest.py": CONFTEST.format(statement="pass", rule="sys.exit(0)"),
            "scenarios/s.yaml": SCENARIO,
        }
    )
    assert (ran.code, ran.holds) == (0, True)
    assert "lint rule 'looks' could not look (SystemExit)" in ran.text


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OutOfTimeError()])
def test_an_interruption_and_our_own_signals_go_on(error: BaseException) -> None:
    with pytest.raises(type(error)):
        pass_on(error)


@pytest.mark.parametrize("error", [SystemExit(0), GeneratorExit(), ValueError("x")])
def test_all_else_is_the_strangers(error: BaseException) -> None:
    pass_on(error)

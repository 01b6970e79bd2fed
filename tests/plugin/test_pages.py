"""Every scenario on the pages about checks and forbidden rules runs and holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plugin.ran import Session

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("forbidden.md", "checks/README.md", "checks/account.md")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def fences(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [found.group(2) for found in FENCE.finditer(text) if found.group(1) == language]


@pytest.mark.parametrize("page", PAGES)
def test_the_example_of_a_page_holds(session: Session, page: str) -> None:
    (scenario,) = fences(page, "yaml")
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": scenario})
    assert (ran.code, ran.holds) == (0, True), ran.text


def test_the_page_on_forbidden_rules_shows_every_rule(session: Session) -> None:
    from pytest_evarness.checks.forbidden import DESCRIPTIONS

    (scenario,) = fences("forbidden.md", "yaml")
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": scenario})
    shown = {name for name in ran.findings("scenarios/s.yaml::default") if name.startswith("forb")}
    assert shown == {f"forbidden-{rule.replace('_', '-')}" for rule in DESCRIPTIONS}


def test_the_type_of_ones_own_that_the_page_shows_judges(session: Session) -> None:
    (conftest,) = fences("checks/README.md", "python")
    entry = "  {0}: {{description: d, check: {{type: even, n: {1}}}}}\n"
    scenario = (
        "evarness: 1\nsubject: {graph: 'pattern:single_shot_qa'}\ninvariants:\n"
        + entry.format("two", 2)
        + entry.format("three", 3)
    )
    files = {"conftest.py": conftest, "scenarios/s.yaml": scenario}
    ran = session("--evarness-unsigned", files=files)
    found = ran.findings("scenarios/s.yaml::default")
    assert (found["two"], found["three"]) == ("pass", "fail"), ran.text

"""One cause of a whole case is told once on the terminal, and for each item in the reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from tests.plugin.scenarios import HELD, OPEN, echo

if TYPE_CHECKING:
    from tests.plugin.ran import Session

SAID = "environment variable is not set"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_case_that_cannot_be_judged_is_one_block(session: Session, workers: int) -> None:
    rules: dict[str, Any] = {"rule": HELD, "other": HELD}
    scenario = echo(secrets=["NOT_SET_ANYWHERE"], invariants=rules)
    words = ("--junitxml=r.xml", *(("-n", str(workers)) if workers else ()))
    ran = session(*words, files={"scenarios/s.yaml": scenario})
    assert (ran.code, ran.counts) == (1, {"error": 4}), ran.text
    blocks = ran.text.partition("= ERRORS =")[2].partition("= evarness =")[0]
    assert blocks.count(SAID) == 1
    assert "the same for 3 other items of the case: expect, rule, other" in blocks
    short = ran.text.partition("short test summary info")[2]
    assert short.count("ERROR scenarios/s.yaml::default::") == 1
    errors = [case.find("error") for case in ET.parse(ran.root / "r.xml").iter("testcase")]
    assert [SAID in str(one is not None and one.text) for one in errors] == [True] * 4


def test_two_cases_are_two_blocks(session: Session) -> None:
    scenario = echo(secrets=["NOT_SET_ANYWHERE"], cases={"a": {}, "b": {}})
    ran = session(files={"scenarios/s.yaml": scenario})
    assert ran.text.partition("= ERRORS =")[2].partition("= evarness =")[0].count(SAID) == 2
    assert ran.counts == {"error": 4}


def test_undecided_items_of_one_cause_are_one_section(session: Session) -> None:
    scenario = echo(invariants={"one": OPEN, "two": OPEN, "held": HELD})
    ran = session(files={"scenarios/s.yaml": scenario})
    assert (ran.code, ran.counts) == (1, {"passed": 3, "indeterminate": 2}), ran.text
    section = ran.text.partition("= INDETERMINATE =")[2].partition("= evarness =")[0]
    assert section.count("\nindeterminate (") == 1
    assert "the same for 1 other item of the case: two" in section
    for name in ("one", "two"):
        assert f"INDETERMINATE scenarios/s.yaml::default::{name} - " in ran.text

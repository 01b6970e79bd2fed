"""What a step does to the process of the session is over with its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plugin.scenarios import HELD, echo, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Session

STEPS = """
import io
import os
import sys


def shut(inputs, config, context):
    sys.stdout.close()
    sys.stderr.close()
    return "x"


def wander(inputs, config, context):
    os.chdir("/")
    return "x"


def rename(inputs, config, context):
    os.environ["EVARNESS_TEST_MARK"] = "left"
    return "x"


def swap(inputs, config, context):
    sys.stdout = io.StringIO()
    return "x"


def strip(inputs, config, context):
    for number in range(3):
        os.close(number)
    return "x"
"""
PLAIN = """
import os
import pathlib
import sys


def test_it():
    print("said")
    assert pathlib.Path.cwd() == pathlib.Path(__file__).parent
    assert "EVARNESS_TEST_MARK" not in os.environ
    assert type(sys.stdout).__name__ not in ("StringIO", "_Lent")
"""


@pytest.mark.parametrize("trick", ["shut", "wander", "rename", "swap"])
@pytest.mark.parametrize(
    "words", [(), pytest.param(("-n", "1"), marks=pytest.mark.slow), ("--capture=no",)]
)
def test_the_session_goes_on_as_it_was(
    session: Session, trick: str, words: tuple[str, ...]
) -> None:
    files = {
        "evarness_left.py": STEPS,
        "scenarios/a.yaml": echo(
            subject={"graph": step_graph(f"evarness_left:{trick}")}, invariants={"it": HELD}
        ),
        "test_plain.py": PLAIN,
    }
    order = ("scenarios", "test_plain.py")
    ran = session(*words, *order, files=files, subprocess=True)
    assert (ran.code, ran.counts, ran.holds) == (0, {"passed": 4}, True), ran.text


def test_a_step_that_closes_what_is_not_its_own_leaves_its_case_unjudged(session: Session) -> None:
    files = {
        "evarness_left.py": STEPS,
        "scenarios/a.yaml": echo(subject={"graph": step_graph("evarness_left:strip")}),
        "scenarios/b.yaml": echo(),
    }
    ran = session(files=files, subprocess=True)
    assert ran.code == 1, ran.text
    assert "case default: a node closed descriptors that are not its own (0, 1, 2)" in ran.text
    assert "Traceback" not in ran.text
    assert ran.counts == {"error": 2, "passed": 2}
    assert ran.holds is None

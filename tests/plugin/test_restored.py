"""What a step does to the process of the session is over with its run."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.plugin.scenarios import HELD, echo, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Session

STEPS = """
import builtins
import io
import os
import pathlib
import socket
import subprocess
import sys
import threading
import warnings


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


def patch(inputs, config, context):
    builtins.len = lambda value: 0
    socket.setdefaulttimeout(0.5)
    warnings.simplefilter("error")
    return "x"


def hang(inputs, config, context):
    threading.Thread(target=threading.Event().wait).start()
    return "x"


def leave(inputs, config, context):
    mark = pathlib.Path(__file__).with_name("left")
    text = "print('up', flush=True); input()"
    left = subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    left.stdout.readline()
    with mark.open("a") as file:
        file.write(f"{left.pid}\\n")
    KEPT.append(left)
    return "x"


KEPT = []


def surrogate(inputs, config, context):
    print("a\\ud800b")
    sys.stderr.write("c\\udfffd")
    return "x"


def warn(inputs, config, context):
    warnings.warn("mind the step")
    with warnings.catch_warnings(record=True) as seen:
        warnings.warn("mind the step")
    return str([str(one.message) for one in seen])


def strip(inputs, config, context):
    for number in range(3):
        os.close(number)
    return "x"
"""
MIRRORED = ("--evarness-rerun=mirror",)
PLAIN = """
import os
import pathlib
import socket
import sys
import warnings

import pytest


def test_it():
    print("said")
    assert pathlib.Path.cwd() == pathlib.Path(__file__).parent
    assert "EVARNESS_TEST_MARK" not in os.environ
    assert type(sys.stdout).__name__ not in ("StringIO", "_Lent")
    assert len("ab") == 2
    assert socket.getdefaulttimeout() is None
    with pytest.warns(UserWarning):
        warnings.warn("still one")
"""


@pytest.mark.parametrize("trick", ["shut", "wander", "rename", "swap", "patch", "hang"])
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


@pytest.mark.skipif(sys.platform != "linux", reason="as /proc tells it")
def test_a_program_that_a_step_left_ends_with_each_run(session: Session) -> None:
    files = {
        "evarness_left.py": STEPS,
        "scenarios/a.yaml": echo(subject={"graph": step_graph("evarness_left:leave")}),
    }
    ran = session(*MIRRORED, files=files, subprocess=True)
    assert (ran.code, ran.counts) == (0, {"passed": 2}), ran.text
    first, second = Path("left").read_text().split()
    for pid in (first, second):
        with contextlib.suppress(FileNotFoundError):
            assert Path(f"/proc/{pid}/cmdline").read_bytes() == b""


@pytest.mark.parametrize("words", [(), ("--capture=no",), ("--capture=sys",)])
def test_half_a_character_is_printed_alike_in_both_runs(
    session: Session, words: tuple[str, ...]
) -> None:
    files = {
        "evarness_left.py": STEPS,
        "scenarios/a.yaml": echo(subject={"graph": step_graph("evarness_left:surrogate")}),
    }
    ran = session(*words, *MIRRORED, files=files, subprocess=True)
    assert (ran.code, ran.counts["passed"]) == (0, 2), ran.text


@pytest.mark.parametrize("words", [(), ("-W", "error"), ("-W", "ignore")])
def test_a_warning_of_a_step_is_the_same_under_every_filter(
    session: Session, words: tuple[str, ...]
) -> None:
    output = {"equals": "['mind the step']"}
    files = {
        "evarness_left.py": STEPS,
        "scenarios/a.yaml": echo(
            subject={"graph": step_graph("evarness_left:warn")},
            expect={"status": "completed", "output": output},
        ),
    }
    ran = session(*words, *MIRRORED, files=files, subprocess=True)
    assert (ran.code, ran.counts["passed"]) == (0, 2), ran.text
    assert "UserWarning: mind the step" in ran.text


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

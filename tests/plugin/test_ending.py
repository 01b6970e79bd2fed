"""No code of a scenario ends the process of a session with an exit code that reads like green."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.sandbox import Guard
from pytest_evarness.errors import DeterminismError
from pytest_evarness.plugin.ending import Ending
from tests.plugin.scenarios import echo, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Session

system = __import__(os.name)


class LeftError(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would have ended this process, with what."""
    calls: list[Any] = []

    def leave(status: int) -> None:
        calls.append(status)
        raise LeftError

    def become(path: str, words: list[str]) -> None:
        calls.append(path)
        raise LeftError

    for module in (os, system):
        monkeypatch.setattr(module, "_exit", leave)
        monkeypatch.setattr(module, "execv", become)
    return calls


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    os.close(ends[0])


def left(*codes: int) -> None:
    for code in codes:
        with pytest.raises(LeftError):
            os._exit(code)


def test_an_exit_in_the_session_is_told_and_is_never_green(
    ended: list[Any], pipe: tuple[int, int]
) -> None:
    left(0)  # the twin: without it, nothing is in the way
    assert ended == [0]
    ending = Ending(pipe[1])
    ending.install()
    ending.pytest_runtest_logstart("scenarios/a.yaml::default::it")
    left(0, 256, 3)
    with pytest.raises(LeftError):
        os.execvp("true", ["true"])
    assert ended == [0, 1, 1, 3, 1]
    ending.end(0)
    with os.fdopen(os.dup(pipe[0]), encoding="utf-8") as read:
        lines = [line for line in read.read().splitlines() if line]
    what = ("os._exit(0)", "os._exit(256)", "os._exit(3)", "os.execv")
    for line, call, code in zip(lines, what, (1, 1, 3, 1), strict=True):
        assert line.startswith(f"evarness: the session was ended by {call} of ")
        assert "test_ending." in line
        assert line.endswith(
            " during scenarios/a.yaml::default::it: nothing after this is judged,"
            f" and the exit code is {code}"
        )


def test_when_it_is_over_everything_is_as_it_was(ended: list[Any]) -> None:
    before = os._exit, system._exit, os.execv, os.execve
    ending = Ending(None)
    ending.install()
    kept = os._exit
    assert system._exit is kept is not before[0]
    ending.end(0)
    assert (os._exit, system._exit, os.execv, os.execve) == before
    with pytest.raises(LeftError):
        kept(0)  # what somebody kept of it does what the function did
    assert ended == [0]


def test_a_session_that_failed_keeps_its_code(
    ended: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os._exit
    last: list[Any] = []
    monkeypatch.setattr(atexit, "register", last.append)
    for name in ("execve",):  # put back by monkeypatch, as those that ``ended`` replaced
        for module in (os, system):
            monkeypatch.setattr(module, name, getattr(module, name))
    ending = Ending(None)
    ending.install()
    ending.end(2)
    left(0, 5)
    with pytest.raises(LeftError):
        os.execvp("true", ["true"])
    assert ended == [2, 5, 2]
    monkeypatch.setattr(os, "_exit", before)  # somebody put it back
    left(0)
    (keep,) = last
    keep()
    left(0)
    assert ended[3:] == [0, 2]


def test_a_child_ends_as_it_likes(ended: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    ending = Ending(None)
    ending.install()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    left(0)
    assert ended == [0]
    ending.end(0)


def test_a_step_is_refused_as_before(ended: list[Any]) -> None:
    ending = Ending(None)
    ending.install()
    try:
        with (
            Guard() as guard,
            pytest.raises(DeterminismError, match=r"^os\._exit: a node must not"),
        ):
            os._exit(0)
        assert guard.refused is not None
        with Guard(), pytest.raises(DeterminismError, match=r"^os\.execlp: a node must not"):
            os.execlp("true", "true")
    finally:
        ending.end(0)
    assert ended == []


FIXTURE = """
import os
import posix

BEFORE = os._exit


def test_it({}):
    assert (os._exit is BEFORE) == {}
    assert os._exit is posix._exit
"""


@pytest.mark.skipif(os.name != "posix", reason="the module of os has another name there")
@pytest.mark.parametrize(("names", "is_plain"), [("", True), ("evarness", False)])
def test_a_session_without_scenarios_is_left_alone(
    session: Session, names: str, is_plain: bool
) -> None:
    before = os._exit
    assert session(files={"test_it.py": FIXTURE.format(names, is_plain)}).code == 0
    assert os._exit is before


@pytest.mark.parametrize("status", ["completed", "blocked"])
def test_what_a_session_in_process_replaced_is_put_back(session: Session, status: str) -> None:
    before = os._exit, os.execv, os.execve
    ran = session(
        "--evarness-unsigned", files={"scenarios/a.yaml": echo(expect={"status": status})}
    )
    assert ran.code == (status == "blocked")
    assert (os._exit, os.execv, os.execve) == before


STEPS = """
import atexit
import os
import threading
import time


def quit():
    os._exit(0)


def thread(inputs, config, context):
    threading.Thread(target=quit).start()
    time.sleep(30)


def later(inputs, config, context):
    atexit.register(lambda: os._exit(0))
    raise ValueError("no")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            "thread",
            "evarness: the session was ended by os._exit(0) of evarness_leaving.quit (line 9) in",
        ),
        ("later", "does not hold: scenarios/a.yaml::default::expect failed"),
    ],
)
def test_what_a_step_leaves_behind_does_not_end_the_session_green(
    session: Session, step: str, said: str
) -> None:
    scenario = echo(subject={"graph": step_graph(f"evarness_leaving:{step}")})
    files = {"evarness_leaving.py": STEPS, "scenarios/a.yaml": scenario}
    ran = session("--evarness-unsigned", files=files, subprocess=True)
    assert ran.code == 1
    assert said in ran.text

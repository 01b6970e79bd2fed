"""Whatever hooks make of a session's exit status, what failed of ours is not green."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.scenarios import BROKEN, HELD, OPEN, echo

if TYPE_CHECKING:
    from tests.plugin.ran import Session

SAID = "evarness: the session failed, and something set its exit status to 0; it is 1"
HOOKS = {
    "plain": "def pytest_sessionfinish(session):\n    session.exitstatus = {code}\n",
    "last": "import pytest\n@pytest.hookimpl(trylast=True)\n"
    "def pytest_sessionfinish(session):\n    session.exitstatus = {code}\n",
    "wrapper": "import pytest\n@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
    "def pytest_sessionfinish(session):\n    yield\n    session.exitstatus = {code}\n",
    "count": "def pytest_runtest_logfinish(nodeid):\n    SESSIONS[0].testsfailed = 0\n"
    "SESSIONS = []\ndef pytest_sessionstart(session):\n    SESSIONS.append(session)\n",
}
BAD: dict[str, Any] = {
    "failing": echo(invariants={"rule": {**BROKEN, "gate": True}}),
    "undecided": echo(invariants={"rule": {**OPEN, "gate": True}}),
    "unloaded": echo(nonsense=True),
}


def files(scenario: Any, hook: str, code: int = 0) -> dict[str, Any]:
    return {"scenarios/s.yaml": scenario, "conftest.py": HOOKS[hook].format(code=code)}


@pytest.mark.parametrize(
    ("scenario", "hook"),
    [
        *(("failing", hook) for hook in HOOKS),
        ("undecided", "wrapper"),
        ("unloaded", "plain"),
        ("unloaded", "count"),
    ],
)
def test_no_hook_makes_a_failure_green(
    session: Session, capfd: pytest.CaptureFixture[str], scenario: str, hook: str
) -> None:
    ran = session("--evarness-unsigned", files=files(BAD[scenario], hook))
    assert ran.code == 1, ran.text
    assert (SAID in capfd.readouterr().err) == (hook != "count" or scenario != "unloaded")


@pytest.mark.parametrize("hook", ["plain", "wrapper"])
def test_neither_with_workers(session: Session, hook: str) -> None:
    words = ("--evarness-unsigned", "-n", "2")
    assert session(*words, files=files(BAD["failing"], hook)).code == 1
    assert session(*words, files=files(echo(), hook)).code == 0


@pytest.mark.parametrize("hook", ["plain", "last", "wrapper"])
def test_guards_of_the_session_stay_red(session: Session, hook: str) -> None:
    made = files(echo(), hook)
    ran = session("--evarness-unsigned", "--evarness-min-scenarios=2", files=made)
    assert ran.code == 1
    assert ran.holds is False
    assert ran.predicate["verdict"]["note"] == "1 scenario files were found, at least 2 needed"
    # The twin: as many as were asked for.
    ran = session("--evarness-unsigned", "--evarness-min-scenarios=1")
    assert (ran.code, ran.holds) == (0, True)
    assert session("--evarness-junit=conftest.py/x.xml").code == 1


def test_what_is_not_ours_keeps_its_exit_status(session: Session) -> None:
    fails = "def test_it():\n    assert False\n"
    made = {**files(echo(invariants={"rule": HELD}), "plain"), "test_it.py": fails}
    assert session("--evarness-unsigned", files=made).code == 0
    # Another code than 0 is somebody's own, and may say more than 1 does.
    for code in (3, 17):
        made = files(BAD["failing"], "wrapper", code)
        assert session("--evarness-unsigned", files=made).code == code


@pytest.mark.parametrize(
    ("body", "code"),
    [("raise KeyboardInterrupt", 2), ("pytest.exit('enough', returncode=7)", 7)],
)
def test_an_interruption_keeps_its_exit_status(session: Session, body: str, code: int) -> None:
    made = {
        "scenarios/s.yaml": BAD["failing"],
        "test_z.py": f"import pytest\ndef test_it():\n    {body}\n",
    }
    words = ("--evarness-unsigned", "scenarios", "test_z.py")
    assert session(*words, files=made, subprocess=True).code == code


@pytest.mark.parametrize("hook", ["pytest_unconfigure(config)", "pytest_sessionfinish(session)"])
@pytest.mark.parametrize("ended", ["0", "None", "False"])
def test_a_hook_that_ends_the_process_hides_nothing(
    session: Session, capfd: pytest.CaptureFixture[str], hook: str, ended: str
) -> None:
    ends = f"def {hook}:\n    raise SystemExit({ended})\n"
    made = {"scenarios/s.yaml": BAD["failing"], "conftest.py": ends}
    assert session("--evarness-unsigned", files=made).code == 1
    assert SAID in capfd.readouterr().err


@pytest.mark.parametrize(("ended", "failing", "code"), [(7, True, 7), (0, False, 0)])
def test_a_hook_that_ends_the_process_has_its_own_code_otherwise(
    session: Session, ended: int, failing: bool, code: int
) -> None:
    ends = f"def pytest_unconfigure(config):\n    raise SystemExit({ended})\n"
    made = {"scenarios/s.yaml": BAD["failing"] if failing else echo(), "conftest.py": ends}
    assert session("--evarness-unsigned", files=made, subprocess=True).code == code


def test_an_exit_with_0_in_the_middle_is_not_green(session: Session) -> None:
    made = {
        "scenarios/s.yaml": BAD["failing"],
        "test_a.py": "import pytest\ndef test_it():\n    pytest.exit('enough', returncode=0)\n",
    }
    assert session("--evarness-unsigned", "scenarios", "test_a.py", files=made).code == 1

"""What a node of the user's own changed in this process is put back when its run is over."""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.core.restore import Restored
from pytest_evarness.core.sandbox import Guard
from pytest_evarness.errors import InputError


def nothing(*_: Any) -> None:
    return None


def look() -> dict[str, object]:
    return {
        "limit": sys.getrecursionlimit(),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "folder": Path.cwd(),
        "variables": dict(os.environ),
        "streams": [id(getattr(sys, name)) for name in ("stdin", "stdout", "stderr")],
        "handlers": [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGTERM)],
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "profile": sys.getprofile(),
        "trace": sys.gettrace(),
    }


def environ() -> None:
    os.environ["EVARNESS_TEST_MARK"] = "1"
    os.environ["PATH"] = ""
    del os.environ["HOME"]


CHANGES: dict[str, Callable[[], object]] = {
    "limit": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 17),
    "files": lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (12, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    ),
    "folder": lambda: os.chdir("/"),
    "variables": environ,
    "streams": lambda: setattr(sys, "stdout", io.StringIO()),
    "handlers": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "mask": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM}),
    "profile": lambda: sys.setprofile(nothing),
    "trace": lambda: sys.settrace(nothing),
}


@pytest.mark.parametrize("what", CHANGES)
def test_each_change_is_put_back(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/here")
    # A tracer of coverage would be what is put back; look at our own instead.
    before = look()
    seen = {}
    with Restored("case x"):
        CHANGES[what]()
        seen = look()
        sys.setprofile(before["profile"])  # type: ignore[arg-type]
    assert look() == before
    # The twin: the change was there.
    assert seen[what] != before[what]


def test_it_is_put_back_after_an_exception_too() -> None:
    before = look()

    def leave() -> None:
        os.chdir("/")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Restored("case x"):
        leave()
    assert look() == before


def test_a_folder_that_is_gone_is_left_for_the_one_before(tmp_path: Path) -> None:
    before = Path.cwd()
    gone = tmp_path / "gone"
    gone.mkdir()
    with Restored("case x"):
        os.chdir(gone)
        gone.rmdir()
    assert Path.cwd() == before


def test_the_standard_streams_are_lent_and_cannot_be_closed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Restored("case x"):
        print("said")
        sys.stdout.close()
        with sys.stderr as stream:
            stream.write("told")
        print("again")
    assert not sys.stdout.closed
    out, err = capsys.readouterr()
    assert (out, err) == ("said\nagain\n", "told")


def script(text: str) -> subprocess.CompletedProcess[str]:
    head = (
        "import os, sys\n"
        "from pytest_evarness.core.restore import Restored\n"
        "from pytest_evarness.core.sandbox import Guard\n"
        "from pytest_evarness.errors import InputError\n"
    )
    command = [sys.executable, "-c", head + text]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "HOME": "/"}
    )


@pytest.mark.parametrize(("closed", "numbers"), [("(1,)", "1"), ("range(64)", "0, 1, 2")])
def test_closed_descriptors_are_opened_again_and_the_case_is_not_judged(
    closed: str, numbers: str
) -> None:
    done = script(
        "try:\n"
        "    with Restored('case x'):\n"
        f"        for number in {closed}:\n"
        "            try: os.close(number)\n"
        "            except OSError: pass\n"
        "except InputError as error:\n"
        "    print(error)\n"
    )
    said = f"case x: a node closed descriptors that are not its own ({numbers}), so the case was"
    assert done.stdout.startswith(said), done.stderr


def test_a_descriptor_that_leads_elsewhere_leads_back() -> None:
    done = script(
        "with Restored('case x'):\n"
        "    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)\n"
        "    os.write(1, b'lost')\n"
        "os.write(1, b'kept')\n"
    )
    assert (done.stdout, done.stderr) == ("kept", "")


@pytest.mark.parametrize("manager", ["Guard()", "Restored('case x')"])
def test_a_child_of_a_node_does_not_go_on_as_the_session(manager: str) -> None:
    done = script(
        "import pty\n"
        f"with {manager}:\n"
        "    child, _ = pty.fork()\n"
        "    if child: print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert (done.stdout, done.stderr) == ("70\n", "")


def test_the_guard_sees_that_it_is_the_same_process() -> None:
    # The twin of the child: nothing ends where nothing was doubled.
    with Guard():
        pass
    with pytest.raises(InputError), Restored("case x"):
        raise InputError("said")

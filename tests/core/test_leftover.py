"""What a node left running does not keep the session, and does not outlive its run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_evarness.core.leftover import Leftover

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="as /proc tells it")


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def sleeper(*, own_session: bool = False) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=own_session
    )


def close(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


@pytest.mark.parametrize("own_session", [False, True])
def test_a_program_of_the_node_ends_with_its_run_and_no_other(own_session: bool) -> None:
    before = sleeper()
    try:
        with Leftover():
            mine = sleeper(own_session=own_session)
            assert is_there(mine.pid)
        assert not is_there(mine.pid)
        # The twin: what was there before goes on.
        assert before.poll() is None
    finally:
        close(before)
        close(mine)


def test_what_a_program_has_started_ends_with_it() -> None:
    text = (
        "import subprocess, sys\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "print(inner.pid, flush=True)\n"
        "inner.wait()\n"
    )
    with Leftover():
        outer = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
        assert outer.stdout is not None
        inner = int(outer.stdout.readline())
        assert is_there(inner)
    outer.stdout.close()
    outer.wait()
    # Nobody but the system waits for it; until then it is a shell without a program.
    with contextlib.suppress(FileNotFoundError):
        assert Path(f"/proc/{inner}/cmdline").read_bytes() == b""


def test_what_another_thread_starts_meanwhile_is_none_of_the_node_s() -> None:
    begin, started = threading.Event(), threading.Event()
    others: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        begin.wait()
        others.append(sleeper())
        started.set()
        stop.wait()

    stop = threading.Event()
    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    with Leftover():
        begin.set()
        started.wait()
    try:
        assert others[0].poll() is None
    finally:
        close(others[0])
        stop.set()
        thread.join()


WAITING = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from pytest_evarness.core.leftover import Leftover

def hold(how):
    if how == "thread":
        threading.Thread(target=threading.Event().wait).start()
    else:
        ThreadPoolExecutor(1).submit(threading.Event().wait)

with Leftover():
    hold(sys.argv[1])
print("end", flush=True)
"""


@pytest.mark.parametrize("how", ["thread", "pool"])
def test_a_thread_that_never_ends_does_not_keep_the_process(how: str) -> None:
    command = [sys.executable, "-c", WAITING, how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_thread_of_somebody_else_is_waited_for() -> None:
    # The twin: it was there before, so its last word is heard.
    text = (
        "import sys, threading\n"
        "from pytest_evarness.core.leftover import Leftover\n"
        "def last():\n"
        "    sys.stdin.read()\n"
        "    print('last', flush=True)\n"
        "threading.Thread(target=last).start()\n"
        "with Leftover(): pass\n"
        "print('end', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "end\n"
    out, _ = process.communicate("", timeout=120)
    assert (process.returncode, out) == (0, "last\n")

"""Runs one command and lets nothing of it live on; a script of its own, the standard library only.

Started by :mod:`pytest_evarness.world.process` as ``python supervisor.py``. What to run arrives as
one line of JSON on its standard input, which then stays open: its end means that whoever asked is
gone, by whatever way, and that the command has to go as well. How the command ended is one line of
JSON on its standard output, written once nothing of it is left.

On Linux it adopts every orphan below it, so that a process which left the command's group and
session is found all the same; elsewhere it knows the group alone.
"""

# Path would take longer to load than all of this takes to start.
# ruff: noqa: PTH110, PTH123, PTH208

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

__all__: list[str] = []

_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36
_KILL_SECONDS = 2.0
_PAUSE_SECONDS = 0.005


def _prctl() -> Any:
    """The call of that name, or None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True).prctl
    except (ImportError, OSError, AttributeError):
        return None


def _read_orders() -> dict[str, Any] | None:
    """The line on standard input; None where it ends before the line does."""
    data = b""
    while not data.endswith(b"\n"):
        part = os.read(0, 1 << 16)
        if not part:
            return None
        data += part
    orders: dict[str, Any] = json.loads(data)
    return orders


def _become(orders: dict[str, Any], prctl: Any, supervisor: int) -> None:
    """Turn this fresh child into the command. Never returns where that works."""
    os.setsid()
    # Whoever asked knows the group before the command can kill this script.
    _tell({"pid": os.getpid()})
    if prctl is not None:
        # Should the supervisor be killed, the command at least goes with it.
        prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(1)
    for number in signal.valid_signals():
        # What the session or its shell ignores is not to be ignored by the command.
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)
    for target, source in enumerate(orders["pipes"]):
        os.dup2(source, target)
    os.chdir(orders["cwd"])
    os.execvpe(orders["argv"][0], orders["argv"], orders["env"])  # noqa: S606 - what it is for


def _start(orders: dict[str, Any], prctl: Any) -> tuple[int, str | None]:
    """Fork the command; its process id, and why it could not be started."""
    for number in orders["pipes"]:
        os.set_inheritable(number, False)
    told, tell = os.pipe()
    supervisor = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _become(orders, prctl, supervisor)
        except OSError as error:
            os.write(tell, f"{error.errno or errno.EIO}".encode())
        finally:
            os._exit(127)
    for number in (*orders["pipes"], tell):
        os.close(number)
    said = os.read(told, 64)
    os.close(told)
    return child, os.strerror(int(said)) if said else None


def _parents() -> dict[int, int]:
    """Parent by process, of all that can be seen."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                words = file.read()
        except OSError:
            continue  # it has just ended
        # The name of the program, in brackets, may hold anything.
        found[int(name)] = int(words.rpartition(b")")[2].split()[1])
    return found


def _descendants() -> list[int]:
    """Every process below this one."""
    parents = _parents()
    below = {os.getpid()}
    count = 0
    while len(below) > count:
        count = len(below)
        below.update(one for one, parent in parents.items() if parent in below)
    below.discard(os.getpid())
    return sorted(below)


class _Family:
    """The command and all that comes of it."""

    def __init__(self, child: int, *, is_reaper: bool) -> None:
        self.child = child
        self.is_reaper = is_reaper
        self.status: int | None = None
        self.has_children = True

    def reap(self) -> None:
        """Collect whoever has ended."""
        while self.has_children:
            try:
                one, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.has_children = False
                return
            if one == 0:
                return
            if one == self.child:
                self.status = status

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it is left, as far as this system can tell."""
        if self.is_reaper:
            return not self.has_children
        if self.status is None:
            return False
        try:
            os.killpg(self.child, 0)
        except OSError:
            return True
        return False

    def count(self) -> int:
        """How many processes are left; where only the group is known, 1 for any."""
        return len(_descendants()) if self.is_reaper else int(not self.is_gone)

    def kill(self) -> None:
        """End all of it, also what forks while it is being ended."""
        end = time.monotonic() + _KILL_SECONDS
        while time.monotonic() < end:
            if self.status is None or not self.is_reaper:
                # Once the leader is collected its number may be another's.
                with contextlib.suppress(OSError):
                    os.killpg(self.child, signal.SIGKILL)
            if self.is_reaper:
                for one in _descendants():
                    with contextlib.suppress(OSError):
                        os.kill(one, signal.SIGKILL)
            self.reap()
            if self.is_gone:
                return
            time.sleep(_PAUSE_SECONDS)


def _watch(family: _Family, seconds: float, grace: float, wakeup: int) -> tuple[bool, int]:
    """Wait for the end.

    Returns:
        Whether the time was up, and how many processes the command left behind.
    """
    end = time.monotonic() + seconds
    is_over = False
    while True:
        family.reap()
        if family.is_gone:
            return False, 0
        if family.status is not None and not is_over:
            # It has ended and left something: a little time to end by itself.
            is_over, end = True, min(end, time.monotonic() + grace)
        left = end - time.monotonic()
        if left <= 0:
            return not is_over, family.count() if is_over else 0
        if is_over and not family.is_reaper:
            left = min(left, _PAUSE_SECONDS)  # nobody tells when the group is empty
        ready, _, _ = select.select([0, wakeup], [], [], left)
        # Nothing more is ever sent: whoever asked is gone, or says so.
        if 0 in ready or (wakeup in ready and signal.SIGTERM in os.read(wakeup, 512)):
            family.kill()
            os._exit(0)


def _main() -> None:
    orders = _read_orders()
    if orders is None:
        return
    prctl = _prctl()
    is_reaper = (
        prctl is not None
        and prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        and os.path.exists("/proc/self/stat")
    )
    wakeup, wake = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)
    child, why = _start(orders, prctl)
    if why is not None:
        os.waitpid(child, 0)
        _tell({"failed": why})
        return
    family = _Family(child, is_reaper=is_reaper)
    timed_out, left = _watch(family, orders["seconds"], orders["grace"], wakeup)
    family.kill()
    status = family.status
    if timed_out:
        _tell({"timed_out": True})
    elif status is not None and os.WIFSIGNALED(status):
        _tell({"signal": os.WTERMSIG(status), "left": left})
    else:
        code = 0 if status is None else os.waitstatus_to_exitcode(status)
        _tell({"exit_code": code, "left": left})


def _tell(message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    _main()

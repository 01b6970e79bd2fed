"""What a user's own node left running: threads that a process waits for, programs it started.

Threads cannot be ended from outside, so the session is told not to wait for them. Programs are
ended, as far as the system tells whose they are (Linux: ``/proc``).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

__all__ = ["Leftover"]

_TASKS = Path("/proc/self/task")
_MAX_PROGRAMS = 10_000
_END_SECONDS = 5.0


class Leftover:
    """Remembers what runs at ``with``; at the end, lets go of new threads and ends new programs.

    A program is new where the thread that is here, or a new one, has started it: what another
    thread of this process starts meanwhile is none of the node's.
    """

    __slots__ = ("_children", "_pid", "_threads")

    def __enter__(self) -> Self:
        self._pid = os.getpid()
        self._threads = set(threading.enumerate())
        self._children = _children_by_thread()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() != self._pid:
            return  # a copy of this process has nothing of its own yet
        for thread in threading.enumerate():
            if thread not in self._threads and not thread.daemon:
                _let_go(thread)
        self._end_programs()

    def _end_programs(self) -> None:
        here = threading.get_native_id()
        known = set[int]().union(*self._children.values())
        for task, children in _children_by_thread().items():
            if task == here or task not in self._children:
                _end(child for child in children if child not in known)


def _let_go(thread: threading.Thread) -> None:
    """The end of this process does not wait for it, nor for what is queued for it."""
    pools: Any = sys.modules.get("concurrent.futures.thread")
    with contextlib.suppress(AttributeError):
        pools._threads_queues.pop(thread, None)  # noqa: SLF001 - no public way
    # Before 3.13 a lock of each thread that is waited for, from then on a handle.
    locks = getattr(threading, "_shutdown_locks", None)
    if locks is not None:
        locks.discard(getattr(thread, "_tstate_lock", None))
    else:
        with contextlib.suppress(AttributeError, RuntimeError):
            thread._handle._set_done()  # type: ignore[attr-defined]  # noqa: SLF001


def _children_by_thread() -> dict[int, set[int]]:
    """The children of this process, by the thread that started them; empty where nobody tells."""
    found = {}
    with contextlib.suppress(OSError):
        for task in os.listdir(_TASKS):  # noqa: PTH208 - names are all that is needed
            found[int(task)] = set(_children_of(f"{_TASKS}/{task}"))
    return found


def _children_of(task: str) -> list[int]:
    try:
        text = Path(task, "children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _descendants(program: int) -> Iterator[int]:
    pending = [program]
    count = 0
    while pending and count < _MAX_PROGRAMS:
        one = pending.pop()
        count += 1
        yield one
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                pending += _children_of(str(task))


def _end(programs: Iterable[int]) -> None:
    """Kill programs and whatever they have started, and wait for their end.

    Nobody else has waited for them yet. A kill is not an instant, and who is still dying could
    write into the world that is sealed next.
    """
    watched = []
    for program in programs:
        for one in list(_descendants(program)):
            with contextlib.suppress(OSError):
                watched.append(os.pidfd_open(one))
            with contextlib.suppress(OSError):
                os.kill(one, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(program, 0)
    end = time.monotonic() + _END_SECONDS
    for one in watched:
        ended = select.poll()  # a plain select knows low numbers only
        ended.register(one, select.POLLIN)
        ended.poll(max(0.0, end - time.monotonic()) * 1000)
        os.close(one)

"""Nobody ends the process of a session with an exit code that reads like a verdict.

``os._exit`` and ``os.exec*`` pass over everything that pytest does at its end: a session that they
end with 0 looks like one in which all was judged and held. A step of a user's own is refused both
(``core/sandbox.py``); here are met its threads, what it leaves for the end of the process, and
nodes and ``register`` of plug-ins. Functions of ``os`` are replaced for this, in sessions with
scenarios alone and not in workers of xdist, whose end the controller sees.

Source: docs/kernel.md, "What a node may touch".
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.plugin.text import one_line

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Ending", "end", "watch"]

KEY: pytest.StashKey[Ending] = pytest.StashKey()

FAILED = int(pytest.ExitCode.TESTS_FAILED)

_NAMES = ("_exit", "execv", "execve")
# Out of the way of whoever closes the first few descriptors.
_FIRST_COPY = 221
_OF_THE_RUNNER = frozenset({"pytest_evarness", "_pytest", "pytest", "pluggy"})


def watch(config: pytest.Config) -> None:
    """From now on to its end, the session's process ends as the session says; once a session."""
    if hasattr(config, "workerinput") or KEY in config.stash:
        return
    ending = config.stash[KEY] = Ending(_real_stderr(config))
    ending.install()
    if not config.pluginmanager.has_plugin("dsession"):
        config.pluginmanager.register(ending, "evarness-ending")


def end(config: pytest.Config, code: object, *, is_inner: bool) -> None:
    """The session is over.

    Args:
        code: Its exit code.
        is_inner: It ran inside another session, whose exit code counts.
    """
    ending = config.stash.get(KEY, None)
    if ending is not None:
        number = int(code) if isinstance(code, int) else 0 if code is None else FAILED
        ending.end(0 if is_inner else number)


class Ending:
    """Stands before the functions that end the process.

    Args:
        stderr: A descriptor of the real one, closed at the end; None where there is none.
    """

    def __init__(self, stderr: int | None) -> None:
        self._stderr = stderr
        self._pid = os.getpid()
        self._nodeid: str | None = None
        self._is_over = False
        self._code = 0
        # Module, name, what was there, and what is there now.
        self._places: list[tuple[ModuleType, str, Any, Any]] = []

    def install(self) -> None:
        """Take the places of the functions, in ``os`` and where ``os`` has them from."""
        for name in _NAMES:
            before = getattr(os, name, None)
            if before is None:
                continue
            now = self._standing_for(name, before)
            for module in (os, importlib.import_module(os.name)):
                if getattr(module, name, None) is before:
                    self._places.append((module, name, before, now))
                    setattr(module, name, now)

    def end(self, code: int) -> None:
        """The session ended with ``code``; one that is not 0 stays the code of the process."""
        self._is_over, self._code = True, code
        if self._stderr is not None:
            os.close(self._stderr)
            self._stderr = None
        if code == 0:
            self._put_back()
        else:
            # What steps left for the end of the process is called after this.
            atexit.register(self._keep)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """An item begins."""
        self._nodeid = nodeid

    def pytest_runtest_logfinish(self) -> None:
        """It has ended."""
        self._nodeid = None

    def _put_back(self) -> None:
        for module, name, before, now in self._places:
            if getattr(module, name, None) is now:
                setattr(module, name, before)

    def _keep(self) -> None:
        """Stand there once more, where somebody put something back."""
        for module, name, _, now in self._places:
            setattr(module, name, now)

    def _standing_for(self, name: str, before: Callable[..., Any]) -> Callable[..., Any]:
        leave = self._leave if name == "_exit" else self._become

        def function(*arguments: Any, **named: Any) -> Any:
            _judge_step(name)
            if os.getpid() != self._pid:
                return before(*arguments, **named)  # a child ends as it likes
            return leave(name, before, *arguments, **named)

        function.__name__ = function.__qualname__ = name
        function.__doc__ = before.__doc__
        return function

    def _leave(self, name: str, before: Callable[[int], Any], status: int) -> Any:
        # The system keeps eight bits.
        code = status if status & 0xFF else self._code
        if not self._is_over:
            code = status if status & 0xFF else FAILED
            self._tell(f"os.{name}({int(status)})", code)
        return before(code)

    def _become(self, name: str, before: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if not self._is_over:
            self._tell(f"os.{name}", FAILED)
            self._exit(FAILED)
        if self._code:
            self._exit(self._code)
        return before(*arguments, **named)

    def _exit(self, code: int) -> None:
        for module, name, before, _ in self._places:
            if module is os and name == "_exit":
                before(code)

    def _tell(self, call: str, code: int) -> None:
        """One line on the real stderr, as far as there is one."""
        during = f" during {self._nodeid}" if self._nodeid is not None else ""
        text = one_line(
            f"evarness: the session was ended by {call}{_caller(sys._getframe(3))}{during}:"  # noqa: SLF001
            f" nothing after this is judged, and the exit code is {code}",
            2000,
        )
        line = ("\n" + text + "\n").encode("utf-8", "backslashreplace")
        for number in (self._stderr, 2):
            try:
                os.write(number if number is not None else 2, line)
            except OSError:
                continue
            return


def _judge_step(name: str) -> None:
    """Let the guard of a step judge the call, as it judges that of the function itself.

    So it does in a child of a step: what becomes of that is the same in both runs.

    Raises:
        DeterminismError: A step called it; its run fails, and the session goes on.
    """
    from pytest_evarness.core.sandbox import Guard

    guard = getattr(sys.getprofile(), "__self__", None)
    if isinstance(guard, Guard):
        guard.judge_control(sys._getframe(2), f"os.{name}")  # noqa: SLF001


def _caller(frame: FrameType | None) -> str:
    """Whose code asked for it, as far as the stack tells, and whether a thread of theirs did."""
    import threading

    of_thread = (
        "" if threading.current_thread() is threading.main_thread() else " in another thread"
    )
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        top = module.partition(".")[0]
        if top in _OF_THE_RUNNER:
            break
        if module == "__main__" or top not in sys.stdlib_module_names:
            code = frame.f_code
            return f" of {module}.{code.co_name} (line {frame.f_lineno}){of_thread}"
        frame = frame.f_back
    return of_thread


def _real_stderr(config: pytest.Config) -> int | None:
    """A copy of it; pytest's capturing has another one in its place while it collects and runs."""
    capturing = config.pluginmanager.get_plugin("capturemanager")
    try:
        if capturing is None:
            return _copy()
        with capturing.global_and_fixture_disabled():
            return _copy()
    except OSError:
        return None


def _copy() -> int:
    try:
        import fcntl
    except ImportError:
        return os.dup(2)
    return fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, _FIRST_COPY)

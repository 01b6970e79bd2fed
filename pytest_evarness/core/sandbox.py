"""What a user's own node must not call while it runs: the clock, chance, network, its process.

The guard watches calls of built-in functions made by Python code of the guarded thread. It patches
nothing, so there is nothing to leave behind. What it cannot see (``map(time.time, ...)``, the
environment, files, the order of a set, another thread or process) the second run shows.

Where a run has services, their addresses may be reached and no others. Which address a call is for
only an audit hook is told; it is installed when the first such run begins, stays, and does nothing
outside a guard.
"""

from __future__ import annotations

import datetime as dt
import gc
import os
import sys
import threading
import types
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias

from pytest_evarness.errors import DeterminismError

if TYPE_CHECKING:
    from types import FrameType, TracebackType

__all__ = ["Guard", "Reachable"]

Reachable: TypeAlias = Callable[[], Collection[tuple[str, int]]]
"""Host and port of whatever may be reached at the moment."""

_CLOCKS = frozenset(
    {
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "process_time",
        "process_time_ns",
        "thread_time",
        "thread_time_ns",
        "clock_gettime",
        "clock_gettime_ns",
    }
)
_DATES = frozenset({"now", "utcnow", "today"})
_DRAWS = frozenset({"random", "getrandbits", "seed"})
_CHANCE = frozenset({"urandom", "getrandom", "generate_time_safe"})
_NETWORK = frozenset(
    {"connect", "connect_ex", "sendto", "getaddrinfo", "gethostbyname", "gethostbyname_ex"}
)
# What would end, double or disarm the process that judges: an exit code must not be a verdict.
_CONTROL_BY_MODULE = {
    "posix": frozenset({"_exit", "abort", "fork", "forkpty", "execv", "execve"}),
    "nt": frozenset({"_exit", "abort", "execv", "execve"}),
    "_signal": frozenset({"signal", "alarm", "setitimer", "pthread_sigmask", "raise_signal"}),
    "sys": frozenset({"setrecursionlimit", "setprofile", "settrace"}),
}
_CONTROL = frozenset().union(*_CONTROL_BY_MODULE.values())
_SUSPECTS = _CLOCKS | _DATES | _DRAWS | _CHANCE | _NETWORK | _CONTROL

# What tells an audit hook the address that is meant, and where among its arguments that stands.
_ADDRESSED = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}
_ASKED = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})

# Clients look at the clock for their time-outs; where there are services they may.
_CLIENTS = frozenset(
    {
        "MySQLdb",
        "aiohttp",
        "aiomysql",
        "anyio",
        "asyncpg",
        "h11",
        "httpcore",
        "httpx",
        "mariadb",
        "mysql",
        "pg8000",
        "psycopg",
        "psycopg2",
        "psycopg_pool",
        "pymysql",
        "requests",
        "sniffio",
        "sqlalchemy",
        "urllib3",
    }
)

# Modules that draw or read for their caller: who called them is asked instead.
_ON_BEHALF = frozenset({"random", "secrets", "uuid", "datetime", "_pydatetime", "os", "signal"})

_INSTEAD = {
    "the real clock": "use context.clock",
    "real randomness": "use context.random",
    "the real network": "declare what the node talks to in the scenario",
    "control of its process": "raise an exception to end the run",
}


class Guard:
    """Refuses, for the code run inside it, calls that a second run could not repeat.

    Args:
        reachable: Where the run has services: what of them may be reached.

    Attributes:
        refused: The first refusal, also where the code swallowed it; None when there was none.
    """

    __slots__ = ("_hook", "_pid", "_reachable", "_thread", "refused")

    def __init__(self, reachable: Reachable | None = None) -> None:
        self.refused: DeterminismError | None = None
        self._reachable = reachable
        self._thread = 0
        self._hook: Any = None
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        if self._reachable is not None:
            _install_audit()
            self._thread = threading.get_ident()
            _auditing[self._thread] = self
        # A profiler that runs already has the one place there is; it may stay. The second run
        # is what decides, the guard only names the call.
        if sys.getprofile() is None:
            self._hook = self._watch
            sys.setprofile(self._hook)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() != self._pid:
            # A child that the node left behind, by a way that was not seen: what follows is the
            # run and the session, and there is one of each.
            os._exit(70)
        if self._reachable is not None:
            _auditing.pop(self._thread, None)
        if self._hook is not None and sys.getprofile() is self._hook:
            sys.setprofile(None)
        self._hook = None

    def _watch(self, frame: FrameType, event: str, arg: Any) -> None:
        # Called for each call and return: the common way out comes first.
        if event != "c_call":
            return
        name = getattr(arg, "__name__", "")
        if name in _SUSPECTS:
            self._judge(frame, arg, name)

    def _judge(self, frame: FrameType, function: Any, name: str) -> None:
        found = _what(frame, function, name)
        if found is None:
            return
        what, call = found
        if what == "the real network":
            if self._reachable is not None:
                return  # the audit hook knows more
        else:
            caller, on_behalf = _caller(frame)
            if _is_let_pass(caller) or (what == "the real clock" and self._is_client(caller)):
                return
            call = on_behalf or call
        self._refuse(what, call)

    def _is_client(self, caller: FrameType | None) -> bool:
        if caller is None or self._reachable is None:
            return False
        return str(caller.f_globals.get("__name__", "")).partition(".")[0] in _CLIENTS

    def judge_control(self, frame: FrameType, call: str) -> None:
        """Judge a call of what stands in the place of a built-in function, made in ``frame``.

        Raises:
            DeterminismError: It is refused.
        """
        caller, on_behalf = _caller(frame)
        if not _is_let_pass(caller):
            self._refuse("control of its process", on_behalf or call)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Judge an audit event of the guarded thread."""
        assert self._reachable is not None, "asked only where something may be reached"
        if event in _ASKED:
            name = arguments[0]
            name = name.decode("ascii", "replace") if isinstance(name, bytes) else name
            hosts = {host for host, _ in self._reachable()}
            if name in hosts or (hosts and name == "localhost"):
                return
        else:
            address: Any = arguments[_ADDRESSED[event]]
            if isinstance(address, tuple) and len(address) >= 2:
                host = "127.0.0.1" if address[0] == "localhost" else address[0]
                if (host, address[1]) in self._reachable():
                    return
            # The library closes a socket that could not connect, but not one that may not.
            arguments[0].close()
        self._refuse("the real network", event)

    def _refuse(self, what: str, call: str) -> NoReturn:
        error = DeterminismError(f"{call}: a node must not use {what} ({_INSTEAD[what]})")
        if self.refused is None:
            self.refused = error
        raise error


_auditing: dict[int, Guard] = {}
_audit_installed: list[bool] = []


def _install_audit() -> None:
    if not _audit_installed:
        _audit_installed.append(True)
        sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    # Called for every audit event of the process from now on: the common way out comes first.
    if not _auditing or (event not in _ADDRESSED and event not in _ASKED):
        return
    guard = _auditing.get(threading.get_ident())
    if guard is not None:
        guard.audit(event, arguments)


def _what(frame: FrameType, function: Any, name: str) -> tuple[str, str] | None:
    """What a built-in call reads, and its name as a user would write it."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, types.ModuleType):
        module = owner.__name__
        if name in _CLOCKS and module == "time":
            return "the real clock", f"time.{name}"
        if name in _CHANCE and module in ("posix", "nt", "_uuid"):
            return "real randomness", "uuid.uuid1" if module == "_uuid" else f"os.{name}"
        if name in _NETWORK and module == "_socket":
            return "the real network", f"socket.{name}"
        if name in _CONTROL_BY_MODULE.get(module, ()):
            shown = {"posix": "os", "nt": "os", "_signal": "signal"}.get(module, module)
            return "control of its process", f"{shown}.{name}"
        return None
    if isinstance(owner, type):
        if name in _DATES and issubclass(owner, dt.date):
            return "the real clock", f"{owner.__name__}.{name}"
        return None
    if name in _NETWORK:
        return _network(owner, name)
    return _draw(frame, owner, name) if name in _DRAWS else None


def _network(owner: object, name: str) -> tuple[str, str] | None:
    module = sys.modules.get("_socket")
    kind = getattr(module, "socket", None)
    if isinstance(kind, type) and isinstance(owner, kind):
        return "the real network", f"socket.{name}"
    return None


def _draw(frame: FrameType, owner: object, name: str) -> tuple[str, str] | None:
    """The generator that all programs share is seeded from chance; one with a seed is not."""
    module = sys.modules.get("random")
    shared = getattr(module, "_inst", None)
    if name == "seed":
        # Random.seed hands its argument "a" on; None means: seed from chance.
        is_method = frame.f_code.co_name == "seed" and frame.f_globals.get("__name__") == "random"
        if is_method and frame.f_locals.get("a", 0) is None:
            return "real randomness", "random.Random without a seed"
        return None
    if shared is not None and owner is shared:
        return "real randomness", f"random.{name}"
    return None


def _caller(frame: FrameType) -> tuple[FrameType | None, str | None]:
    """The frame that asked, and the call as that frame wrote it where a module drew for it."""
    here: FrameType | None = frame
    written = None
    while here is not None and here.f_globals.get("__name__") in _ON_BEHALF:
        name = here.f_code.co_name
        if name not in ("seed", "__init__"):
            written = f"{here.f_globals['__name__']}.{name}"
        here = here.f_back
    return here, written


def _is_let_pass(caller: FrameType | None) -> bool:
    """The standard library may look at the clock for its own ends (logging, time-outs, names).

    So may the kernel, a module while it is loaded, and what runs when garbage is collected.
    """
    if caller is None:
        return True
    module = str(caller.f_globals.get("__name__", "")).partition(".")[0]
    if module == "pytest_evarness" or (module != "__main__" and module in sys.stdlib_module_names):
        return True
    # The collector may run at any moment, and tools hang measurements of their own on it.
    collecting = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    frame: FrameType | None = caller
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap" or frame.f_code in collecting:
            return True
        if frame.f_globals.get("__name__") == "pytest_evarness.core.execution":
            return False
        frame = frame.f_back
    return False

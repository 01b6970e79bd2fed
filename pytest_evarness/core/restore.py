"""What a user's own node changed in the process that judges it, put back when its run is over.

A run shares its process with the session. Nothing here is evidence: the second run starts from a
state of its own, so a run that depends on such changes is seen to differ.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from pytest_evarness.core.interpreter import restore_settings, settings
from pytest_evarness.core.leftover import Leftover
from pytest_evarness.errors import InputError

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Restored"]

_SIGNALS = tuple(
    getattr(signal, name)
    for name in (
        "SIGINT",
        "SIGTERM",
        "SIGHUP",
        "SIGQUIT",
        "SIGALRM",
        "SIGCHLD",
        "SIGPIPE",
        "SIGUSR1",
        "SIGUSR2",
    )
    if hasattr(signal, name)
)
# The function beneath: the public one spends 3 us on each handler to see whether it is an enum's.
_handler = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)
resource: Any = None
with contextlib.suppress(ImportError):  # Windows has no such limits
    resource = importlib.import_module("resource")
# Those that would break what follows without a word.
_CEILINGS: tuple[int, ...] = ()
if resource is not None:
    _CEILINGS = tuple(
        getattr(resource, name)
        for name in ("RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_NPROC")
        if hasattr(resource, name)
    )
_STREAMS = ("stdin", "stdout", "stderr")
_FIRST_COPY = 220


class Restored:
    """Remembers this process at ``with`` and puts it back at the end.

    The standard streams are lent: a node may write to them and replace them, not close them.

    Args:
        name: What ran, for messages.
    """

    __slots__ = (
        "_ceilings",
        "_copies",
        "_folder",
        "_handlers",
        "_is_main",
        "_left",
        "_limit",
        "_mask",
        "_name",
        "_pid",
        "_profile",
        "_settings",
        "_streams",
        "_trace",
        "_variables",
    )

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> Self:
        self._pid = os.getpid()
        self._limit = sys.getrecursionlimit()
        self._ceilings = _ceilings()
        self._profile = sys.getprofile()
        self._trace = sys.gettrace()
        self._settings = settings()
        self._variables = _variables()
        self._left = Leftover()
        self._left.__enter__()
        try:
            self._folder: str | None = os.getcwd()  # noqa: PTH109 - a text is all it is
        except OSError:
            self._folder = None
        self._is_main = threading.current_thread() is threading.main_thread()
        self._handlers = [_handler(number) for number in _SIGNALS]
        self._mask = _mask()
        self._copies = [_copy(number) for number in range(3)]
        self._streams: list[Any] = [getattr(sys, name) for name in _STREAMS]
        for name, stream in zip(_STREAMS, self._streams, strict=True):
            if stream is not None:
                setattr(sys, name, _Lent(stream))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put everything back.

        Raises:
            InputError: Standard descriptors were closed, and whatever else may have been with them
                cannot be put back.
        """
        if sys.getrecursionlimit() != self._limit:
            sys.setrecursionlimit(self._limit)  # first: what follows needs some depth
        restore_settings(self._settings)
        _restore_ceilings(self._ceilings)
        if sys.getprofile() is not self._profile:
            sys.setprofile(self._profile)
        if sys.gettrace() is not self._trace:
            sys.settrace(self._trace)
        if os.getpid() != self._pid:
            os._exit(70)  # a child that a node left behind must not go on as the session
        for name, stream in zip(_STREAMS, self._streams, strict=True):
            setattr(sys, name, stream)
        self._restore_signals()
        _restore_variables(self._variables)
        self._restore_folder()
        self._left.__exit__(None, None, None)
        closed = [number for number, copy in enumerate(self._copies) if _give_back(number, copy)]
        if closed:
            numbers = ", ".join(str(number) for number in closed)
            raise InputError(
                f"{self._name}: a node closed descriptors that are not its own ({numbers}), so"
                " the case was not judged",
                fix="close only what the step has opened",
            ) from None

    def _restore_signals(self) -> None:
        if not self._is_main:
            return
        for number, handler in zip(_SIGNALS, self._handlers, strict=True):
            # None: a handler that C code set and that Python could not put back.
            if handler is not None and _handler(number) != handler:
                signal.signal(number, handler)
        if self._mask is not None and _mask() != self._mask:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _restore_folder(self) -> None:
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            try:
                if os.getcwd() == self._folder:  # noqa: PTH109 - a text is all it is
                    return
            except OSError:
                pass
            os.chdir(self._folder)


class _Lent:
    """A stream that whoever has it cannot close."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Any) -> None:
        object.__setattr__(self, "_stream", stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._stream, name, value)

    def close(self) -> None:
        """Flush; the stream belongs to somebody else."""
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Any:
        return iter(self._stream)

    def __next__(self) -> Any:
        return next(self._stream)


def _variables() -> dict[Any, Any]:
    # The encoded table: decoding fifty variables for each run would cost more than all the rest.
    table = getattr(os.environ, "_data", None)
    return dict(table) if isinstance(table, dict) else dict(os.environ)


def _restore_variables(before: dict[Any, Any]) -> None:
    if _variables() == before:
        return
    is_table = isinstance(getattr(os.environ, "_data", None), dict)
    decode = os.environ.decodevalue if is_table else str
    wanted = {decode(name): decode(value) for name, value in before.items()}
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    os.environ.update(wanted)
    if hasattr(time, "tzset"):
        time.tzset()


def _ceilings() -> list[tuple[int, int]]:
    """The limits of this process, such as how many files it may open."""
    if resource is None:
        return []
    return [resource.getrlimit(number) for number in _CEILINGS]


def _restore_ceilings(before: list[tuple[int, int]]) -> None:
    if resource is None or _ceilings() == before:
        return
    for number, (soft, hard) in zip(_CEILINGS, before, strict=True):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(number, (soft, hard))
            continue
        # Nobody but an administrator gets a hard limit back: as much as it still allows.
        with contextlib.suppress(OSError, ValueError):
            most = resource.getrlimit(number)[1]
            resource.setrlimit(number, (most, most))


def _mask() -> set[Any] | None:
    return signal.pthread_sigmask(signal.SIG_BLOCK, ()) if _HAS_MASK else None


_HAS_MASK = hasattr(signal, "pthread_sigmask")


def _copy(number: int) -> int | None:
    """A copy of a descriptor at a number that closing the first few does not meet."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _FIRST_COPY)
    except OSError:
        return None  # it was closed before


def _give_back(number: int, copy: int | None) -> bool:
    """Make ``number`` what it was, drop the copy, and say whether it had been closed."""
    if copy is None:
        return False
    import fcntl

    try:
        fcntl.fcntl(number, fcntl.F_GETFD)
        was_closed = False
    except OSError:
        was_closed = True
    try:
        os.dup2(copy, number)  # also where it is open: it may lead elsewhere now
        os.close(copy)
    except OSError:
        return True  # the copy is gone as well
    return was_closed

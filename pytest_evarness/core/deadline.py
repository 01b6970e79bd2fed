"""A bound on wall time that also ends a node which never returns, where the system can do that."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from pytest_evarness.core.stranger import SignalError

if TYPE_CHECKING:
    from types import FrameType, TracebackType

__all__ = ["Deadline", "OutOfTimeError"]

_AGAIN_SECONDS = 0.05


class OutOfTimeError(SignalError):
    """Raised inside a node whose time is up; no ordinary ``except`` of a node catches it."""


class Deadline:
    """Counts from ``with``; in the main thread it interrupts, elsewhere it can only be asked.

    A handler and a timer that somebody else had set are kept, run when they are due, and are put
    back at the end.

    Attributes:
        may_interrupt: True while a node runs; the kernel's own steps are never cut in two.
    """

    __slots__ = (
        "_end",
        "_former_due",
        "_former_handler",
        "_former_interval",
        "_is_armed",
        "_seconds",
        "may_interrupt",
    )

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = float("inf")
        self._is_armed = False
        self._former_handler: Any = None
        self._former_due: float | None = None
        self._former_interval = 0.0
        self.may_interrupt = False

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._end

    def check(self) -> None:
        """Do nothing while there is time.

        Raises:
            OutOfTimeError: There is none left.
        """
        if time.monotonic() >= self._end:
            raise OutOfTimeError

    def __enter__(self) -> Self:
        self._end = time.monotonic() + self._seconds
        if (
            hasattr(signal, "setitimer")
            and threading.current_thread() is threading.main_thread()
            # None: a handler that C code set and that Python could not put back.
            and signal.getsignal(signal.SIGALRM) is not None
        ):
            delay, self._former_interval = signal.setitimer(signal.ITIMER_REAL, 0)
            self._former_handler = signal.signal(signal.SIGALRM, self._ring)
            self._former_due = time.monotonic() + delay if delay else None
            self._is_armed = True
            self._set_timer()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.may_interrupt = False
        if not self._is_armed:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._former_handler)
        if self._former_due is not None:
            left = max(self._former_due - time.monotonic(), 1e-6)
            signal.setitimer(signal.ITIMER_REAL, left, self._former_interval)
        self._is_armed = False

    def _set_timer(self) -> None:
        now = time.monotonic()
        # Once the time is up the alarm rings again and again: a node may swallow the first one.
        left = self._end - now if self._end > now else _AGAIN_SECONDS
        if self._former_due is not None:
            left = min(left, self._former_due - now)
        signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6))

    def _ring(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        is_former_due = self._former_due is not None and now >= self._former_due
        if is_former_due:
            self._former_due = now + self._former_interval if self._former_interval else None
        self._set_timer()
        if is_former_due and callable(self._former_handler):
            self._former_handler(number, frame)
        if now >= self._end and self.may_interrupt:
            raise OutOfTimeError

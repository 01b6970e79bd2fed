"""Simulated time: it starts where the scenario says and advances only by declared latencies."""

from __future__ import annotations

import datetime as dt

from pytest_evarness.core.json import shown
from pytest_evarness.errors import InputError, Where

__all__ = ["DEFAULT_START", "SimulatedClock", "parse_moment"]

DEFAULT_START = "2026-01-01T00:00:00Z"


def parse_moment(written: str) -> dt.datetime:
    """Read an ISO 8601 moment; without an offset it is UTC.

    Raises:
        InputError: Another text.
    """
    try:
        moment = dt.datetime.fromisoformat(written)
    except ValueError:
        raise InputError(
            f"must be a moment in ISO 8601 (got {shown(written)}; such as {DEFAULT_START})",
            where=Where(field="clock"),
        ) from None
    if moment.tzinfo is None:
        return moment.replace(tzinfo=dt.UTC)
    return moment.astimezone(dt.UTC)


class SimulatedClock:
    """The clock of one run; nothing in it ever looks at the machine's."""

    __slots__ = ("_now_ms", "_start")

    def __init__(self, start: str = DEFAULT_START) -> None:
        self._start = parse_moment(start)
        self._now_ms = 0

    @property
    def now_ms(self) -> int:
        """Milliseconds of simulated time since the start of the run."""
        return self._now_ms

    def advance_ms(self, ms: int) -> None:
        """Let ``ms`` of simulated time pass.

        Raises:
            ValueError: Less than none; time does not run backwards.
        """
        if ms < 0:
            raise ValueError(f"ms must not be negative (got {ms}; 0 or more)")
        self._now_ms += int(ms)

    def iso(self) -> str:
        """The simulated moment in UTC with a ``Z``; milliseconds only where there are any."""
        moment = self._start + dt.timedelta(milliseconds=self._now_ms)
        precision = "milliseconds" if moment.microsecond else "seconds"
        return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"

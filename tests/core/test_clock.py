"""Simulated time starts where it is told to and moves only when it is moved."""

from __future__ import annotations

import pytest

from pytest_evarness.core.clock import SimulatedClock
from pytest_evarness.errors import InputError


def test_the_clock_moves_only_when_it_is_moved() -> None:
    clock = SimulatedClock()
    assert [clock.now_ms, clock.iso()] == [0, "2026-01-01T00:00:00Z"]
    clock.advance_ms(1500)
    clock.advance_ms(0)
    assert [clock.now_ms, clock.iso()] == [1500, "2026-01-01T00:00:01.500Z"]
    with pytest.raises(ValueError, match=r"^ms must not be negative \(got -1"):
        clock.advance_ms(-1)


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        ("2026-03-01", "2026-03-01T00:00:00Z"),
        ("2026-03-01T12:00:00", "2026-03-01T12:00:00Z"),
        ("2026-03-01T12:00:00+02:00", "2026-03-01T10:00:00Z"),
        ("2026-03-01T12:00:00.25Z", "2026-03-01T12:00:00.250Z"),
    ],
)
def test_a_start_is_read_as_utc_unless_it_says_otherwise(start: str, shown: str) -> None:
    assert SimulatedClock(start).iso() == shown


def test_a_start_that_is_no_moment_is_refused() -> None:
    with pytest.raises(InputError, match=r'^clock: must be a moment in ISO 8601 \(got "soon"'):
        SimulatedClock("soon")

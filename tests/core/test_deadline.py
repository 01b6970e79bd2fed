"""Time is bounded without taking anybody else's alarm away."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from pytest_evarness.core.deadline import Deadline, OutOfTimeError


def wait() -> None:
    # Until a signal ends it; a clock of the test's own would only bound a failure.
    end = time.monotonic() + 5
    while time.monotonic() < end:
        time.sleep(0.01)


def wait_within(seconds: float) -> None:
    with Deadline(seconds) as deadline:
        deadline.may_interrupt = True
        wait()


def test_the_alarm_ends_what_may_be_interrupted() -> None:
    with pytest.raises(OutOfTimeError):
        wait_within(0.02)


def test_the_kernels_own_steps_are_never_cut_in_two() -> None:
    with Deadline(0.02) as deadline:
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            pass
        assert deadline.is_over
        with pytest.raises(OutOfTimeError):
            deadline.check()


def test_an_alarm_that_was_swallowed_comes_again() -> None:
    rings = 0
    with Deadline(0.01) as deadline:
        deadline.may_interrupt = True
        while rings < 3:
            try:
                wait()
            except OutOfTimeError:
                rings += 1
        deadline.may_interrupt = False
    assert rings == 3


def test_in_another_thread_it_can_be_asked() -> None:
    told: list[bool] = []

    def work() -> None:
        with Deadline(0.0) as deadline:
            told.append(deadline.is_over)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert told == [True]


def test_a_handler_and_a_timer_that_were_there_are_put_back() -> None:
    rung: list[int] = []

    def theirs(number: int, frame: Any) -> None:
        rung.append(number)

    former = signal.signal(signal.SIGALRM, theirs)
    try:
        signal.setitimer(signal.ITIMER_REAL, 100, 7)
        with Deadline(50):
            assert signal.getsignal(signal.SIGALRM) is not theirs
        assert signal.getsignal(signal.SIGALRM) is theirs
        left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
        assert 90 < left <= 100
        assert interval == 7
        # One that is due while ours runs is not late, and ours is not lost for it.
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(OutOfTimeError):
            wait_within(0.05)
        assert rung == [signal.SIGALRM]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def test_a_handler_that_was_there_may_raise_through() -> None:
    class TheirsError(Exception):
        pass

    def theirs(number: int, frame: Any) -> None:
        raise TheirsError

    former = signal.signal(signal.SIGALRM, theirs)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(TheirsError), Deadline(5):
            wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)

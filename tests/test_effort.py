"""The measure of effort counts calls, or lines, and nothing else."""

from __future__ import annotations

import sys

from tests.effort import calls_of, lines_of


def linear(size: int) -> None:
    for number in range(size):
        abs(number)


def square(size: int) -> None:
    for _ in range(size):
        linear(size)


def test_twice_the_size_is_twice_the_work_or_four_times() -> None:
    assert 1.9 < calls_of(lambda: linear(400)) / calls_of(lambda: linear(200)) < 2.1
    assert calls_of(lambda: square(40)) / calls_of(lambda: square(20)) > 3.5


def test_lines_count_a_loop_that_calls_nothing() -> None:
    def plain(size: int) -> None:
        total = 0
        for number in range(size):
            total += number

    assert 1.9 < lines_of(lambda: plain(400)) / lines_of(lambda: plain(200)) < 2.1
    assert calls_of(lambda: plain(400)) == calls_of(lambda: plain(200))


def test_the_profiler_that_was_there_is_put_back() -> None:
    before = sys.getprofile()
    calls_of(lambda: linear(1))
    assert sys.getprofile() is before
    tracer = sys.gettrace()
    lines_of(lambda: linear(1))
    assert sys.gettrace() is tracer

"""How much work a call does, counted rather than timed: the same on every machine and load."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["calls_of", "lines_of"]


def calls_of(work: Callable[[], object]) -> int:
    """Calls of Python and built-in functions that ``work`` makes in this thread.

    Work inside one built-in call counts as one; a loop without calls does not count.
    """
    count = 0

    def watch(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        del frame, arg
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def lines_of(work: Callable[[], object]) -> int:
    """Lines of Python that ``work`` runs in this thread: loops without calls count as well."""
    count = 0

    def watch(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        del frame, arg
        count += event == "line"
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        work()
    finally:
        sys.settrace(before)
    return count

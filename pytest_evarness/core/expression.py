"""Expressions that others wrote, over texts that others wrote: what they may cost.

How large one may be is settled before it is compiled, how long it may search while it does.
"""

from __future__ import annotations

import re
import time
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_CHARACTERS", "MAX_ITEMS", "LostError", "Patience", "held", "search", "size_problem"]

MAX_CHARACTERS: Final = 10_000
"""Of an expression as it is written."""
MAX_ITEMS: Final = 100_000
"""Of an expression with its counted repetitions written out; compiling them takes 0.3 s."""
MAX_SLOW_SECONDS: Final = 10.0
"""That the slow searches of one expression may take together; see :class:`Patience`."""
SLOW_SECONDS: Final = 0.01
"""A search that takes longer counts as slow."""

_COUNT: Final = re.compile(r"\{ *(\d*) *(?:(,) *(\d*) *)?\}")
# With these flags a bracket may be a comment's, or a set may hold sets.
_ODD_FLAGS: Final = re.compile(r"\(\?[A-Za-z0-9-]*(?:x|V1)")
_UNREAD: Final = 10**18


# -- size --------------------------------------------------------------------------------------


def size_problem(source: str) -> tuple[str, str] | None:
    """Why an expression is too large to be compiled, and the rule; None where it is not."""
    if len(source) > MAX_CHARACTERS:
        return f"is too long: {len(source):,} characters", f"at most {MAX_CHARACTERS:,} characters"
    items = _items(source)
    if items <= MAX_ITEMS:
        return None
    many = "more than 10^18" if items >= _UNREAD else f"{items:,}"
    return (
        f"is too large: {many} items with its counted repetitions written out",
        f"at most {MAX_ITEMS:,}; what stands in a repetition counts as often as it is repeated",
    )


def _items(source: str) -> int:
    """How many items there are when counted repetitions are written out; never too few."""
    if _ODD_FLAGS.search(source) is not None:
        # How groups nest is not read here: each count may stand around all the others.
        product = len(source)
        for each in _COUNT.finditer(source):
            product = min(product * _times(each), _UNREAD)
        return product
    # For each open group: the items before the last one, and those that the last one comes to.
    groups = [[0, 0]]
    at = 0
    while at < len(source):
        char = source[at]
        if source.startswith("(?#", at):
            end = source.find(")", at)
            at = len(source) if end < 0 else end + 1
            continue
        if char == "(":
            groups.append([0, 0])
        elif char == ")" and len(groups) > 1:
            size = max(sum(groups.pop()), 1)
            _add(groups[-1], size)
        elif char == "{" and (found := _COUNT.match(source, at)) is not None:
            groups[-1][1] = min(groups[-1][1] * _times(found), _UNREAD)
            at = found.end()
            continue
        elif char not in "*+?|":
            _add(groups[-1], 1)
        if char == "\\":
            at += 2
        elif source.startswith("(?:", at):
            at += 3
        elif char == "[":
            at = _after_class(source, at)
        else:
            at += 1
    return sum(map(sum, groups))


def _add(group: list[int], size: int) -> None:
    group[0] = min(group[0] + group[1], _UNREAD)
    group[1] = size


def _times(found: re.Match[str]) -> int:
    digits = (found[3] or found[1]).lstrip("0")
    return max(int(digits or 0), 1) if len(digits) < 10 else 10**9


def _after_class(source: str, at: int) -> int:
    end = at + 1
    if source[end : end + 1] == "^":
        end += 1
    if source[end : end + 1] == "]":
        end += 1
    while end < len(source) and source[end] != "]":
        end += 2 if source[end] == "\\" else 1
    return end + 1


# -- time --------------------------------------------------------------------------------------


class LostError(TimeoutError):
    """An expression is not asked any more."""


class Patience:
    """As long as it is held, an expression that took too long once is not asked again.

    Else a text made for it would cost its time with each event that holds it. An expression is
    given up as well when its slow searches take too long together. What is asked without a
    patience stands for itself: a run must not depend on what ran before it.

    One that is held inside of another is the other. Not to be shared between threads.
    """

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._texts: dict[str, str] = {}
        self._tokens: list[Token[Patience | None]] = []

    def __enter__(self) -> None:
        self._tokens.append(_HELD.set(_HELD.get() or self))

    def __exit__(self, *_: object) -> None:
        _HELD.reset(self._tokens.pop())

    def ask(self, source: str, text: str) -> None:
        """Whether the expression may still be asked.

        Raises:
            TimeoutError: It took too long over this very text.
            LostError: It took too long over others.
        """
        if self._spent.get(source, 0.0) > MAX_SLOW_SECONDS:
            raise TimeoutError if self._texts.get(source) is text else LostError

    def note(self, source: str, seconds: float) -> None:
        """Remember a slow search."""
        self._spent[source] = self._spent.get(source, 0.0) + seconds

    def give_up(self, source: str, text: str) -> None:
        """Remember a search that was given up."""
        self._spent[source] = float("inf")
        self._texts[source] = text

    def mark(self) -> Callable[[], None]:
        """Forgets, when called, what came since: the same texts are gone through once more."""
        before = dict(self._spent)

        def rewind() -> None:
            self._spent = before

        return rewind


_HELD: Final[ContextVar[Patience | None]] = ContextVar("patience", default=None)


def held() -> Patience:
    """The patience that is held, or a new one."""
    return _HELD.get() or Patience()


def search(source: str, compiled: Any, text: str, seconds: float) -> bool:
    """Whether an expression is found in a text.

    Args:
        source: The expression, by which it is remembered.
        compiled: The same, compiled.
        text: Where to look.
        seconds: That it may take.

    Raises:
        TimeoutError: It took longer.
        LostError: It took too long before, while the same patience was held.
    """
    patience = _HELD.get()
    if patience is None:
        return compiled.search(text, timeout=seconds) is not None
    patience.ask(source, text)
    begin = time.perf_counter()
    try:
        hit = compiled.search(text, timeout=seconds)
    except TimeoutError:
        patience.give_up(source, text)
        raise
    took = time.perf_counter() - begin
    if took > SLOW_SECONDS:
        patience.note(source, took)
    return hit is not None

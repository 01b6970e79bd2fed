"""Card numbers in the plain form of a text, told from dates and other long numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

__all__ = ["cards"]

_SHORTEST: Final = 13
_LONGEST: Final = 19
_BEHIND_PLUS: Final = 16  # fewer digits behind a plus sign are a phone number

# All digits with at most one gap between any two, or one of the two forms with dots.
_RUN: Final = re.compile(
    r"(?<![\d.])(?:\d{4}\.\d{4}\.\d{4}\.\d{4}|\d{4}\.\d{6}\.\d{5})(?!\.?\d)"
    r"|\d+(?:(?: ?- ?| )\d+)*"
)
_GROUP: Final = re.compile(r"\d+")
_PRINTED: Final = ((4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3))
"""How the digits stand on a card: so written, one of them may be wrong."""

_YEAR: Final = r"(?:19|20)\d\d"
_MONTH: Final = r"(?:0[1-9]|1[0-2])"
_DAY: Final = r"(?:0[1-9]|[12]\d|3[01])"
_DATES: Final = (
    (3, re.compile(rf"{_YEAR} {_MONTH} {_DAY}")),
    (3, re.compile(rf"{_DAY} {_MONTH} {_YEAR}|{_MONTH} {_DAY} {_YEAR}")),
    # No card number begins like that, whatever follows in the group: a time, a counter.
    (1, re.compile(rf"{_YEAR}{_MONTH}{_DAY}\d*")),
)
_MOST: Final = 3
"""Groups that a date has at most."""


def cards(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each card number: it has a right check digit, or is grouped as on a card.

    Dates before and behind it are none of its digits. A run of digits that is longer than a card
    number is another number.
    """
    for run in _RUN.finditer(text):
        if len(run[0]) < _SHORTEST:
            continue
        groups = [match.span() for match in _GROUP.finditer(text, *run.span())]
        words = [text[start:end] for start, end in groups]
        first, last = _without_dates(words)
        shortest = _SHORTEST
        if not first and text.endswith("+", 0, run.start()):
            shortest = _BEHIND_PLUS
        found = _window(words[first:last], shortest)
        if found is not None:
            yield groups[first + found[0]][0], groups[first + found[1] - 1][1]


def _without_dates(words: Sequence[str]) -> tuple[int, int]:
    """The groups between the dates at both ends."""
    first, last = 0, len(words)
    while count := _dated(words[first : min(first + _MOST, last)]):
        first += count
    while count := _dated(words[max(first, last - _MOST) : last], at_end=True):
        last -= count
    return first, last


def _dated(words: Sequence[str], *, at_end: bool = False) -> int:
    """How many groups a date at the beginning, or at the end, takes; 0 where there is none."""
    for count, date in _DATES:
        if date.fullmatch(" ".join(words[-count:] if at_end else words[:count])) is not None:
            return count
    return 0


def _window(words: Sequence[str], shortest: int) -> tuple[int, int] | None:
    """The groups that make up a card number, the most of them; None where none do."""
    if not shortest <= sum(map(len, words)) <= _LONGEST:
        return None
    for count in range(len(words), 0, -1):
        for first in range(len(words) - count + 1):
            window = words[first : first + count]
            if sum(map(len, window)) >= shortest and _is_card(window):
                return first, first + count
    return None


def _is_card(words: Sequence[str]) -> bool:
    if all(re.fullmatch(_YEAR, word) for word in words):
        return False
    return tuple(map(len, words)) in _PRINTED or _is_checked("".join(words))


def _is_checked(digits: str) -> bool:
    """Whether the last digit is the check digit of the others (ISO/IEC 7812, Luhn)."""
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0

"""Citations in a text: numbers in square brackets, and which documents they name.

It would rather take too much for a citation than too little: what it passes over nobody checks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Citations", "Cited", "read_citations"]

_OPEN = "[\u2045\u27e6\u3010\u3014\u3016\uff3b"
_CLOSE = "]\u2046\u27e7\u3011\u3015\u3017\uff3d"
_BRACKET = re.compile(f"[{re.escape(_OPEN + _CLOSE)}]")
# Runs of white space are one space before these look: each of them takes one step a character.
_DASH = re.compile(" ?[-~\u2010-\u2015\u2212\u301c\uff0d\uff5e] ?")
_BETWEEN = re.compile(
    "[ ,;/&|+\u00b7\u060c\u061b\u3001\uff0c\uff1b]+(?:(?:and|or) )?", re.IGNORECASE
)
_MAX_DIGITS = 15
"""No context has as many documents, and each JSON reader keeps such a number."""
_MAX_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Cited:
    """One number that a text cites.

    Attributes:
        number: None where what stands in the brackets is no number of a document.
        written: What stands there, cut where it is long.
        is_known: Whether there is such a document.
    """

    number: int | None
    written: str
    is_known: bool


@dataclass(frozen=True, slots=True)
class Citations:
    """All that a text cites.

    Attributes:
        cited: Each number once, in the order in which they are written.
        rest: The text without them.
    """

    cited: tuple[Cited, ...]
    rest: str


def read_citations(text: str, count: int) -> Citations:
    """Find what ``text`` cites of ``count`` documents, numbered from 1.

    A pair of square brackets, those of other scripts included, is a citation where it begins with
    a number, or holds a number and no letter. It may hold a list (``[1, 2]``) or a range
    (``[1-3]``); digits are those of any script. Anything else in it names no document.
    """
    found: dict[int | str, Cited] = {}
    spans: list[tuple[int, int]] = []
    for start, end, inside in _brackets(text):
        content = _tidy(inside)
        if not _is_citation(content):
            continue
        spans.append((start, end))
        for one in _numbers(content, count):
            found.setdefault(one.written if one.number is None else one.number, one)
    return Citations(tuple(found.values()), _without(text, spans))


def _brackets(text: str) -> Iterator[tuple[int, int, str]]:
    """Each pair, in the order of the closing ones, with what stands in it and in no inner one."""
    opened: list[tuple[int, list[str]]] = []
    at = 0
    for bracket in _BRACKET.finditer(text):
        if opened:
            opened[-1][1].append(text[at : bracket.start()])
        at = bracket.end()
        if bracket.group() in _OPEN:
            opened.append((bracket.start(), []))
        elif opened:
            start, parts = opened.pop()
            yield start, at, " ".join(parts)


def _tidy(content: str) -> str:
    """Without unseen signs, and with one space for any white space."""
    seen = "".join(char for char in content if unicodedata.category(char) != "Cf")
    # A footnote, and the number of an entry.
    return " ".join(seen.split()).lstrip("^#")


def _is_citation(content: str) -> bool:
    if unicodedata.category(content[:1] or " ").startswith("N"):
        return True
    return any(char.isnumeric() for char in content) and not any(
        char.isalpha() and not char.isnumeric() for char in content
    )


def _numbers(content: str, count: int) -> Iterator[Cited]:
    bounds: list[tuple[int, int]] = []
    for part in _BETWEEN.split(_DASH.sub("-", content)):
        first, dash, last = part.partition("-")
        low, high = _value(first), _value(last if dash else first)
        if low is None or high is None:
            written = content if len(content) <= _MAX_SHOWN else f"{content[:_MAX_SHOWN]}…"
            yield Cited(None, written, is_known=False)
            return
        bounds.append((low, high))
    for low, high in bounds:
        # Of a range that leaves the documents its ends say so; between them may be a million.
        is_inside = 1 <= low <= high <= count
        for number in range(low, high + 1) if is_inside else (low, high):
            yield Cited(number, str(number), is_known=1 <= number <= count)


def _value(token: str) -> int | None:
    if token.isdecimal():
        digits = "".join(str(unicodedata.decimal(char)) for char in token).lstrip("0")
        return int(digits or "0") if len(digits) <= _MAX_DIGITS else None
    value = unicodedata.numeric(token, -1) if len(token) == 1 else -1
    return int(value) if value >= 0 and value == int(value) else None


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    kept: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if start >= at:
            kept += (text[at:start], " ")
        at = max(at, end)
    return "".join((*kept, text[at:]))

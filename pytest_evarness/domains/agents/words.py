"""Words and sentences of a text, as ranking, salience and summaries count them."""

from __future__ import annotations

import re

__all__ = ["distinct_words", "overlap", "sentences_of", "telling_words"]

_WORDS = re.compile(r"\w+")
_END = re.compile(r"[.!?](?=[ \t]|$)")
_LONG = 4


def distinct_words(text: str) -> set[str]:
    """The words of a text without regard to case; for membership, never for order."""
    return set(_WORDS.findall(text.casefold()))


def overlap(query: str, text: str) -> float:
    """The share of the query's words that ``text`` holds, from 0 to 1; 0 for an empty query."""
    wanted = distinct_words(query)
    return len(wanted & distinct_words(text)) / len(wanted) if wanted else 0.0


def telling_words(text: str) -> list[str]:
    """Words that say something, as they come: of four letters or more, or with a digit."""
    return [
        word
        for word in _WORDS.findall(text.casefold())
        if len(word) >= _LONG or any(letter.isdigit() for letter in word)
    ]


def sentences_of(text: str) -> list[str]:
    """The sentences of a text: each line is cut behind ``.``, ``!`` and ``?`` before a space."""
    found: list[str] = []
    for line in text.split("\n"):
        start = 0
        for end in _END.finditer(line):
            found.append(line[start : end.end()])
            start = end.end()
        found.append(line[start:])
    return [stripped for one in found if (stripped := one.strip())]

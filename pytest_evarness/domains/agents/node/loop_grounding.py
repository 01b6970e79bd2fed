"""Whether an answer rests on what was observed: marks that can be compared, and nothing else.

It reads no meaning. It compares citations, numbers, quotations and the share of words that the
observations hold too, so that two machines come to the same result.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from pytest_evarness.domains.agents.cited import Cited, read_citations
from pytest_evarness.source.model import Strict

__all__ = ["Grounding", "GroundingRules", "check_grounding"]

_NUMBER = re.compile(r"[0-9]+(?:[.,:][0-9]+)*")
_QUOTATION = re.compile(r"[\"\u201c\u201d]([^\"\u201c\u201d]*)[\"\u201c\u201d]")
_WORD = re.compile(r"[^\W\d_]{3,}")
_PARTING = {
    "\u066b": ".",
    "\u066c": ",",
    "\uff0c": ",",
    "\uff0e": ".",
    "\uff1a": ":",
    "\uff3b": "[",
    "\uff3d": "]",
}
"""What parts the digits of a number in other scripts, and the brackets of a citation there."""
_MAX_LISTED = 10
_MAX_SHOWN = 80


class GroundingRules(Strict):
    """What is asked of an answer."""

    min_overlap: Annotated[float, Field(ge=0, le=1)] = 0.3
    require_citation: bool = False
    numbers: bool = True
    quotes: bool = True


@dataclass(frozen=True, slots=True)
class Grounding:
    """What the comparison gave.

    Attributes:
        overlap: Share of the answer's different words that the documents hold.
        problems: What the answer says and no source does, in words; at most ten.
    """

    overlap: float
    problems: tuple[str, ...]


def check_grounding(
    answer: str, question: str, documents: Sequence[Mapping[str, Any]], rules: GroundingRules
) -> Grounding:
    """Compare an answer with the documents that were observed.

    Numbers and quotations may come from the question as well; words and citations may not.
    """
    observed = _digits("\n".join(f"{doc['subject']}\n{doc['text']}" for doc in documents))
    answer, question = _digits(answer), _digits(question)
    overlap = _overlap(answer, observed)
    citations = read_citations(answer, len(documents))
    problems = [
        *_citations(citations.cited, rules),
        *_unsupported(answer, citations.rest, f"{question}\n{observed}", rules),
    ]
    if overlap < rules.min_overlap:
        problems.append(f"overlap {overlap:g} is below {rules.min_overlap:g}")
    return Grounding(overlap, tuple(problems[:_MAX_LISTED]))


def _digits(text: str) -> str:
    """The text with the digits of every script, and what parts them, as 0 to 9 and ``. , :``.

    What is not seen is dropped, so that it cannot cut a number in two.
    """
    return text if text.isascii() else "".join(map(_digit, text))


def _digit(char: str) -> str:
    kind = unicodedata.category(char)
    if kind == "Nd":
        return str(unicodedata.decimal(char))
    return "" if kind == "Cf" else _PARTING.get(char, char)


def _citations(cited: Sequence[Cited], rules: GroundingRules) -> Iterator[str]:
    if rules.require_citation and not cited:
        yield "no citation"
    yield from (f"citation [{one.written}]" for one in cited if not one.is_known)


def _unsupported(answer: str, uncited: str, sources: str, rules: GroundingRules) -> Iterator[str]:
    if rules.numbers:
        known = set(_NUMBER.findall(sources))
        said = dict.fromkeys(_NUMBER.findall(uncited))
        yield from (f"number {_shown(number)}" for number in said if number not in known)
    if rules.quotes:
        text = _spaced(sources)
        quoted = dict.fromkeys(_spaced(found) for found in _QUOTATION.findall(answer))
        yield from (f'quotation "{_shown(one)}"' for one in quoted if one and one not in text)


def _overlap(answer: str, observed: str) -> float:
    said = _words(answer)
    if not said:
        return 1.0
    return round(len(said & _words(observed)) / len(said), 4)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _spaced(text: str) -> str:
    return " ".join(text.casefold().split())


def _shown(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"

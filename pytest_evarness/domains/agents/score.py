"""Scores of judges and detectors: exact where they are compared, decimal where they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from pydantic import AfterValidator, BeforeValidator

from pytest_evarness.domains.agents.reading import (
    UnreadableError,
    bounded_integer,
    read_json,
)
from pytest_evarness.source.model import refuse
from pytest_evarness.source.number import WrittenFloat, exact
from pytest_evarness.source.quote import quoted

__all__ = ["HALF", "digits", "kept", "mean", "read_scores", "shown_score", "unlike"]

HALF = Fraction(1, 2)
"""What a single judge of a chain or a panel must score for the text to pass it."""

MAX_ANSWER = 8_192
"""Characters of a raw answer; a longer one is none."""

_TOO_MUCH = "its answer is too long, or nested too deeply"
_MAX_DIGITS = 400
_PLACES = 12


def digits(score: Fraction) -> str:
    """A decimal number as JSON writes it, rounded to twelve places where it has no end."""
    text = f"{round(score * 10**_PLACES):0{_PLACES + 1}d}"
    whole, part = text[:-_PLACES], text[-_PLACES:].rstrip("0")
    return f"{whole}.{part}" if part else whole


def shown_score(score: Fraction) -> float:
    """A score for an event."""
    return float(digits(score))


def mean(scores: Sequence[Fraction]) -> Fraction:
    """The exact mean of at least one score."""
    return sum(scores, Fraction(0)) / len(scores)


def _no_double(names: list[Any]) -> list[Any]:
    # A script and a fault name a judge without regard to case, so these would be one voice.
    known: set[str] = set()
    for name in names:
        folded = str(name).strip().casefold()
        if folded in known:
            raise refuse(f"names {quoted(str(name))} twice", rule="each of them once")
        known.add(folded)
    return names


def _kept(value: Any) -> Any:
    if isinstance(value, WrittenFloat) and exact(value) != exact(float(value)):
        raise refuse(
            "has more digits than are kept", rule=f"the nearest that is kept is {float(value)!r}"
        )
    return value


def kept() -> BeforeValidator:
    """For a number that is compared exactly: what is sealed of it is what was written."""
    return BeforeValidator(_kept)


def unlike() -> AfterValidator:
    """For a list of names: none of them twice, since one voice would count as two."""
    return AfterValidator(_no_double)


def read_scores(text: str, names: Sequence[str]) -> list[Fraction] | str:
    """The scores in a raw answer, in the order of ``names``, or why it holds none.

    Args:
        text: All that the judge said; only a JSON object says anything.
        names: What was to be scored. A single one may also stand as ``score``.
    """
    if len(text) > MAX_ANSWER:
        return _TOO_MUCH
    try:
        value = read_json(text, number=WrittenFloat, integer=bounded_integer)
    except UnreadableError as error:
        return _TOO_MUCH if error.is_deep else "its answer is not one JSON object"
    if not isinstance(value, dict):
        return "its answer is not one JSON object"
    given = value.get("scores")
    if given is None and len(names) == 1 and "score" in value:
        given = {names[0]: value["score"]}
    if not isinstance(given, Mapping):
        return f"its answer has no 'scores' for {', '.join(names)}"
    found = []
    for name in names:
        score = _unit_number(given.get(name))
        if score is None:
            return f"its answer has no score from 0 to 1 for {quoted(name)}"
        found.append(score)
    if "scores" in value and "score" in value:
        whole = _unit_number(value["score"])
        if whole is None:
            return "its 'score' is no number from 0 to 1"
        if not min(found) <= whole <= max(found):
            return "its 'score' contradicts its 'scores': it lies outside of them"
    return found


def _unit_number(value: object) -> Fraction | None:
    """A number from 0 to 1, exactly as it was written; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    if isinstance(value, WrittenFloat):
        # 1e-999999999 is one short text and a fraction of a gigabyte.
        _, _, exponent = value.written.lower().partition("e")
        if len(value.written) > _MAX_DIGITS or (exponent and abs(int(exponent)) > _MAX_DIGITS):
            return None
    found = exact(value)
    # The nearest double of 1.00000000000000000001 is 1.
    return found if 0 <= found <= 1 else None

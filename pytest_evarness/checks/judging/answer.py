"""What a judge answered, read strictly: one JSON object with a score, or no answer at all.

Source: docs/checks/llm_as_judge.md, "The answer".
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from pytest_evarness.checks.found import bounded_text
from pytest_evarness.checks.jsonvalue import NoJsonError, read_value
from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.source.number import WrittenFloat, exact

__all__ = ["MAX_ANSWER", "Opinion", "Remark", "number_shown", "read_answer", "unit_number"]

MAX_ANSWER = 8_192
"""Characters of an answer; a longer one is none, and its beginning is kept."""

_MAX_CITED = 100
_MAX_REMARKS = 20
_MAX_CRITIQUE = 1_000
_MAX_DIGITS = 400
_EXPONENT = re.compile(r"[eE]([+-]?\d+)\Z")


@dataclass(frozen=True, slots=True)
class Remark:
    """A judge's opinion of a rule; it changes nothing.

    Attributes:
        rule: An item's id, as the judge wrote it.
        why: Bounded.
    """

    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Opinion:
    """One answer that is one.

    Attributes:
        score: In [0, 1], exact.
        passed: The model's own word, where it gave one; it decides nothing.
        scores: By dimension, each one that was asked for.
        cited: Handles that exist, each once, in the order given.
        discarded: How many citations name nothing.
        uncertainty: In [0, 1]; None where none was given.
        critique: Bounded; empty where none was given.
        remarks: On rules that it calls too strict.
        left_out: What was given beside the score in another form, in words.
    """

    score: Fraction
    passed: bool | None = None
    scores: Mapping[str, Fraction] = field(default_factory=dict)
    cited: tuple[str, ...] = ()
    discarded: int = 0
    uncertainty: Fraction | None = None
    critique: str = ""
    remarks: tuple[Remark, ...] = ()
    left_out: tuple[str, ...] = ()


def unit_number(value: object) -> Fraction | None:
    """A number from 0 to 1, exactly as it was written; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= 1:
        return None  # NaN and the infinities, too
    if isinstance(value, WrittenFloat):
        # 1e-999999999 is one short text and a fraction of a gigabyte.
        exponent = _EXPONENT.search(value.written)
        if len(value.written) > _MAX_DIGITS or (
            exponent is not None and abs(int(exponent[1])) > _MAX_DIGITS
        ):
            return None
    found = exact(value)
    # The nearest double of 1.00000000000000000001 is 1.
    return found if 0 <= found <= 1 else None


def number_shown(value: object) -> str:
    """A value that is no such number, with the digits as they were written."""
    if isinstance(value, WrittenFloat) and math.isfinite(value):
        return bounded_text(value.written, 60)
    return shown(value, 60)


def read_answer(text: str, dimensions: Sequence[str], handles: Collection[str]) -> Opinion | str:
    """The opinion in a raw answer, or why it holds none.

    Args:
        text: All that the judge said.
        dimensions: Those asked for; each of them needs a score.
        handles: What may be cited.
    """
    if len(text) > MAX_ANSWER:
        return f"its answer is longer than {MAX_ANSWER:,} characters"
    try:
        value = read_value(text, number=WrittenFloat)
    except NoJsonError as error:
        return f"its answer is not one JSON object: {error}"
    if not isinstance(value, dict):
        return f"its answer is a {kind_of(value)}, not a JSON object"
    if "score" not in value:
        return "its answer has no 'score'"
    score = unit_number(value["score"])
    if score is None:
        return f"its 'score' is no number from 0 to 1: {number_shown(value['score'])}"
    passed, problem = _passed(value)
    if problem is None:
        scores, problem = _scores(value, dimensions, score)
    if problem is not None:
        return problem
    return _opinion(value, score, passed, scores, handles)


def _passed(value: Mapping[str, Any]) -> tuple[bool | None, str | None]:
    """The model's own verdict; models write ``pass`` as well."""
    given = [key for key in ("passed", "pass") if key in value]
    if len(given) == 2:
        return None, "its answer has both 'passed' and 'pass'"
    for key in given:
        if not isinstance(value[key], bool):
            return None, f"its '{key}' is neither true nor false: {shown(value[key], 60)}"
        return value[key], None
    return None, None


def _scores(
    value: Mapping[str, Any], dimensions: Sequence[str], whole: Fraction
) -> tuple[dict[str, Fraction], str | None]:
    if not dimensions:
        return {}, None
    given = value.get("scores")
    if not isinstance(given, dict):
        return {}, f"its answer has no 'scores' for {', '.join(dimensions)}"
    scores: dict[str, Fraction] = {}
    for name in dimensions:
        if name not in given:
            return {}, f"its 'scores' has none for {shown(name, 60)}"
        score = unit_number(given[name])
        if score is None:
            problem = f"its score for {shown(name, 60)} is no number from 0 to 1"
            return {}, f"{problem}: {number_shown(given[name])}"
        scores[name] = score
    if not min(scores.values()) <= whole <= max(scores.values()):
        return {}, "its 'score' contradicts its 'scores': it lies outside of them"
    return scores, None


def _opinion(
    value: Mapping[str, Any],
    score: Fraction,
    passed: bool | None,
    scores: Mapping[str, Fraction],
    handles: Collection[str],
) -> Opinion:
    """The whole of it. What decides nothing may have another form: it is left out, and said so."""
    left_out: list[str] = []

    def odd(key: str, wanted: str) -> None:
        left_out.append(f"'{key}' is no {wanted}: {shown(value[key], 60)}")

    cited: dict[str, None] = {}
    discarded = 0
    evidence = value.get("evidence", [])
    if isinstance(evidence, list):
        for handle in evidence[:_MAX_CITED]:
            if isinstance(handle, str) and handle in handles:
                cited[handle] = None
            else:
                discarded += 1
        discarded += max(0, len(evidence) - _MAX_CITED)
    else:
        odd("evidence", "list of handles")
    uncertainty = None
    if value.get("uncertainty") is not None:
        uncertainty = unit_number(value["uncertainty"])
        if uncertainty is None:
            odd("uncertainty", "number from 0 to 1")
    # "reason" is Keystone's word for it.
    key = "critique" if "critique" in value else "reason"
    critique = value.get(key)
    if critique is not None and not isinstance(critique, str):
        odd(key, "text")
        critique = None
    remarks = value.get("remarks", [])
    if not isinstance(remarks, list):
        odd("remarks", "list")
        remarks = []
    return Opinion(
        score=score,
        passed=passed,
        scores=scores,
        cited=tuple(cited),
        discarded=discarded,
        uncertainty=uncertainty,
        critique=_line(critique or ""),
        remarks=tuple(_remarks(remarks[:_MAX_REMARKS])),
        left_out=tuple(left_out),
    )


def _remarks(given: Sequence[Any]) -> list[Remark]:
    """Those that call a rule's violation acceptable; others say nothing that is shown."""
    return [
        Remark(one["rule"][:200], _line(why if isinstance(why := one.get("why"), str) else ""))
        for one in given
        if isinstance(one, dict)
        and isinstance(one.get("rule"), str)
        and one.get("acceptable") is True
    ]


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CRITIQUE else line[:_MAX_CRITIQUE] + "…"

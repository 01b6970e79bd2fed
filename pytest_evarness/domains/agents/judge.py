"""The scripted judge: ``environment.judge`` and ``default_judge_scores`` answer in a model's place.

It has no opinion that it was not given.

Source: docs/judges.md, "The scripted judge".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self, cast

from pytest_evarness.core.interfaces import AbstainedError, JudgeModel
from pytest_evarness.core.outcome import Cause
from pytest_evarness.domains.agents.environment import provider_fault
from pytest_evarness.domains.agents.script import Call, Script
from pytest_evarness.errors import Fault
from pytest_evarness.source.number import exact
from pytest_evarness.source.quote import quoted

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Question
    from pytest_evarness.core.json import JsonObject

__all__ = ["NAME", "SimJudge", "answer_text", "scores_of"]

NAME = "sim"
"""The model's name; ``sim:NAME`` is one of several, told apart by ``match.provider``."""

WHOLE = "score"
"""What a judge scores that is asked for no dimension."""

_KEPT = "agents.judge"
_PLACES = 12


class SimJudge(JudgeModel):
    """Answers what the scenario scripts."""

    def faults(self, model: str) -> list[Fault]:
        """``sim`` and ``sim:NAME`` are judges."""
        if model == NAME:
            return []
        fault = provider_fault(model)
        if fault is None:
            return []
        problem = f"{quoted(model)} names no scripted judge"
        return [Fault((), problem, rule="sim, or sim:NAME", code="provider")]

    def ask(self, question: Question) -> str:
        """The next answer of the script.

        Raises:
            AbstainedError: None is left that fits, or the scenario lets this judge time out.
        """
        state = question.kept.get(_KEPT)
        if state is None:
            state = question.kept[_KEPT] = _State.of(question.environment)
        return cast("_State", state).answer(question)

    def leftovers(self, kept: Mapping[str, Any]) -> list[str]:
        """Rules that answered nothing, and time-outs of nobody; nothing where nobody was asked."""
        state: _State | None = kept.get(_KEPT)
        return [] if state is None else state.leftovers()


@dataclass(slots=True)
class _State:
    """How far the script of one case is used up.

    Attributes:
        late: Judges that do not answer in time, in small letters, and as they are written.
        met: Those of them that were asked.
    """

    script: Script
    default: Mapping[str, float]
    late: Mapping[str, str]
    provider: str
    params: Mapping[str, Any]
    met: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, environment: JsonObject) -> Self:
        """Of a case of which no judge was asked yet."""
        given: Mapping[str, Any] = environment
        late = (given.get("faults") or {}).get("judge_timeout") or ()
        return cls(
            script=Script("judge", given.get("judge") or []),
            default=given.get("default_judge_scores") or {},
            late={name.casefold(): name for name in late},
            provider=str(given.get("provider", "")),
            params=given.get("params") or {},
        )

    def answer(self, question: Question) -> str:
        for name in (question.judge.casefold(), question.model.casefold()):
            if name in self.late:
                self.met.add(name)
                raise AbstainedError(
                    Cause.EVALUATOR_ERROR, "injected: the judge did not answer in time"
                )
        asked = question.dimensions or (WHOLE,)
        # Plain 'sim' is the model version of the run, so that a matrix over it may vary judges.
        provider = self.provider if question.model == NAME else question.model
        call = Call(question.judged, provider, self.params)
        rule = self.script.take(call, fits=lambda rule: _answers(rule, asked))
        if rule is not None and "respond" in rule:
            return str(rule["respond"]["text"])
        scores = {**self.default, **((rule or {}).get("scores") or {})}
        missing = [name for name in asked if name not in scores]
        if missing:
            raise AbstainedError(Cause.MISSING_EVIDENCE, self._nothing(missing, rule))
        return answer_text(scores, question.dimensions)

    def _nothing(self, missing: Sequence[str], rule: Mapping[str, Any] | None) -> str:
        """Why there is no answer."""
        names = ", ".join(missing)
        if rule is not None or self.default:
            return f"nothing is scripted for {names}, in 'judge' or in 'default_judge_scores'"
        if not self.script.scripted:
            return "nothing is scripted for it under 'judge', nor 'default_judge_scores'"
        misfit = self.script.misfit(lambda rule: _unasked(rule, missing))
        if misfit is not None:
            return misfit
        count = self.script.scripted
        plural = "answer" if count == 1 else "answers"
        return f"{count} {plural} scripted, question {self.script.calls} asked, script judge"

    def leftovers(self) -> list[str]:
        left = self.script.leftovers()
        left += [
            f"faults.judge_timeout: no judge {quoted(written)} was asked"
            for name, written in sorted(self.late.items())
            if name not in self.met
        ]
        return left


def _answers(rule: Mapping[str, Any], asked: Sequence[str]) -> bool:
    """Whether a rule speaks of anything that is asked for; a raw answer always may."""
    return "respond" in rule or any(name in rule["scores"] for name in asked)


def _unasked(rule: Mapping[str, Any], missing: Sequence[str]) -> str:
    """Why a rule whose conditions may hold answers all the same nothing; empty where it would."""
    if _answers(rule, missing):
        return ""
    return f" (scores {', '.join(rule['scores'])}, asked for {', '.join(missing)})"


def scores_of(scores: Mapping[str, float], names: Sequence[str]) -> list[Fraction]:
    """Exact scores of the dimensions, in their order."""
    return [exact(scores[name]) for name in names]


def answer_text(scores: Mapping[str, float], dimensions: Sequence[str]) -> str:
    """The answer of a judge that gives these scores.

    The whole is the mean of the dimensions where the script does not say otherwise; a mean without
    an end is rounded to twelve places.
    """
    if not dimensions:
        return f'{{"score": {_digits(exact(scores[WHOLE]))}}}'
    exact_scores = scores_of(scores, dimensions)
    whole = sum(exact_scores, Fraction(0)) / len(exact_scores)
    if WHOLE in scores:
        whole = exact(scores[WHOLE])
    named = ", ".join(
        f"{json.dumps(name)}: {_digits(score)}"
        for name, score in zip(dimensions, exact_scores, strict=True)
    )
    return f'{{"score": {_digits(whole)}, "scores": {{{named}}}}}'


def _digits(score: Fraction) -> str:
    """A decimal number as JSON writes it."""
    text = f"{round(score * 10**_PLACES):0{_PLACES + 1}d}"
    whole, part = text[:-_PLACES], text[-_PLACES:].rstrip("0")
    return f"{whole}.{part}" if part else whole

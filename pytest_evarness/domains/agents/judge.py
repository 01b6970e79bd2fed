"""The scripted judge: ``environment.judge`` and ``default_judge_scores`` answer in a model's place.

It has no opinion that it was not given. This is the reader behind the run, whom checks ask; nodes
ask :mod:`.node.judging`.

Source: docs/judges.md, "The scripted judge".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.core.interfaces import RUN_KEPT, JudgeModel, RunAccount
from pytest_evarness.domains.agents.bench import (
    MODEL,
    WHOLE,
    Bench,
    late_left,
    rule_left,
    rule_place,
    used_in,
)
from pytest_evarness.domains.agents.environment import provider_fault
from pytest_evarness.domains.agents.score import digits, mean
from pytest_evarness.errors import Fault
from pytest_evarness.source.number import exact
from pytest_evarness.source.quote import quoted

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Question

__all__ = ["NAME", "SimJudge", "answer_text", "scores_of"]

NAME = MODEL
"""The model's name; ``sim:NAME`` is one of several, told apart by ``match.provider``."""

_KEPT = "agents.judge"


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
        bench: Bench | None = question.kept.get(_KEPT)
        if bench is None:
            given = cast("Mapping[str, Any]", question.environment)
            bench = question.kept[_KEPT] = Bench.of(given)
        answer = bench.ask(
            question.judged, question.dimensions, names=(question.judge,), model=question.model
        )
        if answer.text is not None:
            return answer.text
        return answer_text(answer.scores, question.dimensions)

    def leftovers(self, kept: Mapping[str, Any]) -> list[str]:
        """Rules that answered nothing, and time-outs of nobody; nothing where nobody was asked.

        What the run used, or has told of itself, is not told again.
        """
        bench: Bench | None = kept.get(_KEPT)
        if bench is None:
            return []
        run: RunAccount = kept.get(RUN_KEPT) or RunAccount()
        by_run = used_in(run.events)
        left = [
            (rule_place(rule), rule_left(rule, least))
            for rule, unused in bench.unused()
            if (least := min(unused, bench.total(rule) - by_run.rules.get(rule, 0))) > 0
        ]
        left += [
            (late_left(name), late_left(name)) for name in bench.unmet() if name not in by_run.late
        ]
        return [
            text for place, text in left if not any(one.startswith(place) for one in run.leftovers)
        ]


def scores_of(scores: Mapping[str, float], names: Sequence[str]) -> list[Fraction]:
    """Exact scores of the dimensions, in their order."""
    return [exact(scores[name]) for name in names]


def answer_text(scores: Mapping[str, float], dimensions: Sequence[str]) -> str:
    """The answer of a judge that gives these scores.

    The whole is the mean of the dimensions where the script does not say otherwise; a mean without
    an end is rounded to twelve places.
    """
    if not dimensions:
        return f'{{"score": {digits(exact(scores[WHOLE]))}}}'
    exact_scores = scores_of(scores, dimensions)
    whole = exact(scores[WHOLE]) if WHOLE in scores else mean(exact_scores)
    named = ", ".join(
        f"{json.dumps(name)}: {digits(score)}"
        for name, score in zip(dimensions, exact_scores, strict=True)
    )
    return f'{{"score": {digits(whole)}, "scores": {{{named}}}}}'

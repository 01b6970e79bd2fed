"""The script of judges, ``environment.judge``, as whoever asks reads it: from its beginning.

Nodes ask within a run, checks behind it. Each of the two has a cursor of its own over the same
rules, so that what the one asks never changes what the other is answered.

Source: docs/judges.md, "The scripted judge"; docs/nodes/judging.md, "One script, two readers".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pytest_evarness.core.interfaces import AbstainedError
from pytest_evarness.core.outcome import Cause
from pytest_evarness.domains.agents.script import Call, Script, left_over
from pytest_evarness.domains.agents.vocabulary.judging import ASKED
from pytest_evarness.source.quote import quoted

__all__ = [
    "MODEL",
    "SCRIPT",
    "TIMEOUT",
    "WHOLE",
    "Answer",
    "Bench",
    "Used",
    "answers",
    "late_left",
    "rule_left",
    "rule_place",
    "used_in",
]

MODEL = "sim"
"""The scripted judge; as a version of the model it is the run's own provider."""

SCRIPT = "judge"

WHOLE = "score"
"""What a judge scores that is asked for no dimension."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the script says to one question; one of ``text`` and ``scores``.

    Attributes:
        text: A raw answer.
        scores: By dimension, each one that was asked for.
        rule: The entry of ``environment.judge`` that answered; None where the defaults did.
    """

    rule: int | None
    text: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Bench:
    """How far one reader has used the script up.

    Attributes:
        late: Judges that do not answer in time, in small letters, and as they are written.
        met: Those of them that were asked.
    """

    rules: Sequence[Mapping[str, Any]]
    script: Script
    default: Mapping[str, float]
    late: Mapping[str, str]
    provider: str
    params: Mapping[str, Any]
    met: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, environment: Mapping[str, Any], provider: str = "") -> Self:
        """Before anybody was asked.

        Args:
            environment: Of the case.
            provider: Of the run, where the environment names none.
        """
        rules = environment.get(SCRIPT) or []
        late = (environment.get("faults") or {}).get("judge_timeout") or ()
        return cls(
            rules=rules,
            script=Script(SCRIPT, rules),
            default=environment.get("default_judge_scores") or {},
            late={name.casefold(): name for name in late},
            provider=str(environment.get("provider", provider)),
            params=environment.get("params") or {},
        )

    def late_name(self, names: Iterable[str]) -> str | None:
        """The first of a judge's names under which it times out, as it is written."""
        return next(
            (self.late[key] for name in names if (key := name.casefold()) in self.late), None
        )

    def ask(
        self, text: str, dimensions: Sequence[str], *, names: Sequence[str], model: str = MODEL
    ) -> Answer:
        """The answer to one question.

        Args:
            text: What is judged.
            dimensions: What is to be scored; the whole where nothing is named.
            names: Of the judge: what ``match.judge`` and ``faults.judge_timeout`` may call it.
            model: Which scripted judge it is.

        Raises:
            AbstainedError: None is left that fits, or the scenario lets this judge time out.
        """
        late = self.late_name((*names, model))
        if late is not None:
            self.met.add(late.casefold())
            raise AbstainedError(
                Cause.EVALUATOR_ERROR, "injected: the judge did not answer in time"
            )
        asked = dimensions or (WHOLE,)
        # Plain 'sim' is the model version of the run, so that a matrix over it may vary judges.
        provider = self.provider if model == MODEL else model
        judges = frozenset(name.casefold() for name in names)
        call = Call(text, provider, self.params, judges)
        rule = self.script.take(call, fits=lambda rule: answers(rule, asked))
        number = None
        if rule is not None:
            number = next(index for index, one in enumerate(self.rules) if one is rule)
            if "respond" in rule:
                return Answer(number, text=str(rule["respond"]["text"]))
        scores = {**self.default, **((rule or {}).get("scores") or {})}
        missing = [name for name in asked if name not in scores]
        if missing:
            raise AbstainedError(Cause.MISSING_EVIDENCE, self._nothing(missing, rule))
        return Answer(number, scores=scores)

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

    def unused(self) -> list[tuple[int, int]]:
        """The rules that have answers left, and how many."""
        return self.script.unused()

    def total(self, rule: int) -> int:
        """How many answers a rule has; one, where it never runs out."""
        return self.script.total(rule)

    def unmet(self) -> list[str]:
        """Judges that were to time out and were not asked, as they are written."""
        return [written for name, written in sorted(self.late.items()) if name not in self.met]


def answers(rule: Mapping[str, Any], asked: Sequence[str]) -> bool:
    """Whether a rule speaks of anything that is asked for; a raw answer always may."""
    return "respond" in rule or any(name in rule["scores"] for name in asked)


def _unasked(rule: Mapping[str, Any], missing: Sequence[str]) -> str:
    """Why a rule whose conditions may hold answers all the same nothing; empty where it would."""
    if answers(rule, missing):
        return ""
    return f" (scores {', '.join(rule['scores'])}, asked for {', '.join(missing)})"


# -- what was not used -------------------------------------------------------------------------

TIMEOUT = ".judge_timeout"
"""``injected`` names a time-out as NAME with this behind it, the name as the scenario has it."""


def rule_place(rule: int) -> str:
    """How a sentence about a rule begins."""
    return f"{SCRIPT}[{rule}]:"


def rule_left(rule: int, unused: int, where: str = "") -> str:
    """A rule that was not used, in words."""
    return f"{left_over(SCRIPT, rule, unused)}{where}"


def late_left(name: str, where: str = "") -> str:
    """A time-out of nobody, in words."""
    return f"faults.judge_timeout: no judge {quoted(name)} was asked{where}"


@dataclass(frozen=True, slots=True)
class Used:
    """What the nodes of a run used of the script.

    Attributes:
        rules: How often each rule answered.
        late: Judges that did not answer in time, as they are written.
    """

    rules: Mapping[int, int]
    late: frozenset[str]


def used_in(events: Iterable[Mapping[str, Any]]) -> Used:
    """What the events of a run show to have been used."""
    rules: dict[int, int] = {}
    late: set[str] = set()
    for event in events:
        if event["type"] not in ASKED:
            continue
        rule = event["payload"].get("rule")
        if isinstance(rule, int):
            rules[rule] = rules.get(rule, 0) + 1
        injected = event["payload"].get("injected") or ()
        late.update(name.removesuffix(TIMEOUT) for name in injected)
    return Used(rules, frozenset(late))

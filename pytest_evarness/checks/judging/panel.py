"""From answers to an outcome: exact, and the same for one judge as for several.

Source: docs/checks/llm_as_judge.md, "How it is decided".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.found import found
from pytest_evarness.checks.judging.answer import Opinion, read_answer
from pytest_evarness.checks.kind import UnavailableError
from pytest_evarness.core.finding import FOR_REVIEW, Finding, Witness, fraction_text
from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Cause, Outcome

if TYPE_CHECKING:
    from pytest_evarness.core.plan import PlannedItem

__all__ = ["REMARK", "Judged", "decide", "median", "read_judged"]

REMARK = "remark on the rule "
"""A note of a witness that begins so holds what a judge says of another rule of the case."""

_BECAME = {
    Outcome.FAIL: "failed",
    Outcome.INDETERMINATE: "is undecided",
    Outcome.PASS: "passed",
}

_SHOWN_ANSWER = 300
_SHOWN_CRITIQUE = 300


@dataclass(frozen=True, slots=True)
class Judged:
    """One judge of a check, and what came of asking it.

    Attributes:
        judge: Its name.
        identity: Name, model, temperature and rubric version, in words.
        opinion: None where it abstained.
        cause: Of the abstention.
        why: Of the abstention, one clause.
        raw: The answer as it came, where one came.
    """

    judge: str
    identity: str
    opinion: Opinion | None
    cause: Cause = Cause.MISSING_EVIDENCE
    why: str = ""
    raw: str | None = None

    @property
    def line(self) -> str:
        """All of it for a reader."""
        if self.opinion is None:
            said = "" if self.raw is None else f"; it said {shown(self.raw, _SHOWN_ANSWER)}"
            return f"{self.identity}: abstained, {self.why}{said}"
        opinion = self.opinion
        words = [f"score {fraction_text(opinion.score)}"]
        words += [f"{name} {fraction_text(score)}" for name, score in opinion.scores.items()]
        if opinion.passed is not None:
            words.append(f"says passed: {_word(opinion.passed)}")
        if opinion.cited:
            words.append(f"cites {' '.join(opinion.cited)}")
        if opinion.discarded:
            noun = "citation" if opinion.discarded == 1 else "citations"
            words.append(f"{opinion.discarded} {noun} of nothing discarded")
        if opinion.uncertainty is not None:
            words.append(f"uncertainty {fraction_text(opinion.uncertainty)}")
        words += [f"left out: {text}" for text in opinion.left_out]
        if opinion.critique:
            words.append(f"critique: {shown(opinion.critique, _SHOWN_CRITIQUE)}")
        return f"{self.identity}: {', '.join(words)}"


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def read_judged(definition: Mapping[str, Any], gathered: Mapping[str, Any]) -> list[Judged]:
    """What each judge of the definition said, in its order.

    Raises:
        UnavailableError: What was gathered is not of these judges.
    """
    members = definition["judges"]
    answers: Sequence[Mapping[str, Any]] = gathered["answers"]
    if [one["judge"] for one in answers] != [member["name"] for member in members]:
        raise UnavailableError(
            Cause.MALFORMED_EVIDENCE,
            "the answers are not those of the judges that were to be asked",
        )
    handles = frozenset(gathered["package"]["handles"])
    judged = []
    for member, answer in zip(members, answers, strict=True):
        identity = _identity(member, definition)
        raw = answer["text"]
        if answer["abstained"] is not None:
            cause, why = Cause(answer["abstained"]["cause"]), answer["abstained"]["reason"]
            judged.append(Judged(member["name"], identity, None, cause, why, raw))
            continue
        said = read_answer(raw, definition["dimensions"], handles)
        if isinstance(said, str):
            judged.append(Judged(member["name"], identity, None, Cause.MISSING_EVIDENCE, said, raw))
        else:
            judged.append(Judged(member["name"], identity, said, raw=raw))
    return judged


def _identity(member: Mapping[str, Any], definition: Mapping[str, Any]) -> str:
    model = "" if member["model"] == member["name"] else f"model {member['model']}, "
    rubric = definition["rubric_version"].removeprefix("sha256:")[:12]
    return f"judge {member['name']} ({model}temperature {member['temperature']}, rubric {rubric})"


def median(scores: Iterable[Fraction]) -> Fraction:
    """The middle one, or the mean of the two in the middle; of at least one."""
    ordered = sorted(scores)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def decide(
    item: PlannedItem,
    definition: Mapping[str, Any],
    judged: Sequence[Judged],
    findings: Mapping[str, Finding],
    notes: Sequence[str] = (),
) -> Finding:
    """The finding of a check.

    Args:
        item: The check.
        definition: As it is sealed.
        judged: One for each judge.
        findings: Of what was judged before; none of them is changed by anything here.
        notes: What a reader has to know beside.
    """
    threshold = Fraction(definition["pass_threshold"])
    opinions = [(one, one.opinion) for one in judged if one.opinion is not None]
    scores = [opinion.score for _, opinion in opinions]
    all_notes = list(notes)
    outcome, reason, causes = _outcome(definition, judged, scores, threshold)
    if outcome is Outcome.INDETERMINATE and definition["is_panel"]:
        all_notes.insert(0, f"{FOR_REVIEW}{reason}")
    for one, opinion in opinions:
        if opinion.passed is not None and opinion.passed is not (opinion.score >= threshold):
            side = "reaches" if opinion.score >= threshold else "is below"
            all_notes.append(
                f"judge {one.judge} says passed: {_word(opinion.passed)}, and its score"
                f" {fraction_text(opinion.score)} {side} the threshold"
                f" {fraction_text(threshold)}: the score decides"
            )
    all_notes += _remarks(opinions, findings, threshold)
    observed = f"score {fraction_text(median(scores))}" if scores else "no score"
    if len(scores) > 1:
        observed = f"median {observed}, spread {fraction_text(_spread(scores))}"
    finding = found(
        item,
        outcome,
        reason,
        causes=causes,
        witness=Witness(
            expected=f"score >= {fraction_text(threshold)}",
            observed=observed,
            notes=(*all_notes, *(one.line for one in judged)),
        ),
        looked_at=(f"{definition['input_from']} of run A, by {_named(judged)}",),
    )
    return finding if outcome is Outcome.INDETERMINATE else finding.with_(score=median(scores))


def _outcome(
    definition: Mapping[str, Any],
    judged: Sequence[Judged],
    scores: Sequence[Fraction],
    threshold: Fraction,
) -> tuple[Outcome, str, tuple[Cause, ...]]:
    quorum = definition["quorum"]
    if len(scores) < quorum:
        silent = [one for one in judged if one.opinion is None]
        why = "; ".join(f"judge {one.judge} abstained: {one.why}" for one in silent)
        if definition["is_panel"]:
            why = f"{len(scores)} of {len(judged)} judges answered, the quorum is {quorum} ({why})"
        return Outcome.INDETERMINATE, why, Cause.ordered(one.cause for one in silent)
    limit = definition["max_spread"]
    spread = _spread(scores)
    if limit is not None and spread > Fraction(limit):
        why = f"the judges are {fraction_text(spread)} apart, more than max_spread {limit}"
        return Outcome.INDETERMINATE, why, (Cause.CONTRADICTORY_EVIDENCE,)
    score = median(scores)
    told = f"the score {fraction_text(score)}"
    if definition["is_panel"]:
        told = (
            f"the median score {fraction_text(score)} of {len(scores)} judges"
            f" (spread {fraction_text(spread)})"
        )
    reaches = score >= threshold
    relation = "reaches" if reaches else "is below"
    reason = f"{told} {relation} the threshold {fraction_text(threshold)}"
    return (Outcome.PASS if reaches else Outcome.FAIL), reason, ()


def _spread(scores: Sequence[Fraction]) -> Fraction:
    return max(scores) - min(scores)


def _named(judged: Sequence[Judged]) -> str:
    return ", ".join(f"judge {one.judge}" for one in judged)


def _remarks(
    opinions: Sequence[tuple[Judged, Opinion]],
    findings: Mapping[str, Finding],
    threshold: Fraction,
) -> list[str]:
    """What judges say of other rules, for a reader who stands before one of them.

    An objection is kept whatever became of its rule; praise is one where a gate failed.
    """
    notes = []
    for rule, finding in findings.items():
        for one, opinion in opinions:
            told = [remark.why for remark in opinion.remarks if remark.rule == rule]
            begins = f"{REMARK}'{rule}', which {_BECAME[finding.outcome]}: judge {one.judge}"
            if told:
                why = f": {shown(told[0], _SHOWN_CRITIQUE)}" if told[0] else ""
                notes.append(f"{begins} calls it acceptable{why}; this changes nothing")
            elif finding.gate and finding.outcome is Outcome.FAIL and opinion.score >= threshold:
                notes.append(
                    f"{begins} scores the run {fraction_text(opinion.score)} all the same;"
                    " this changes nothing"
                )
    for one, opinion in opinions:
        unknown = dict.fromkeys(
            remark.rule for remark in opinion.remarks if remark.rule not in findings
        )
        # Quoted otherwise than a rule's own id, which it might be made to look like.
        notes += [
            f"judge {one.judge} remarks on what is no other rule of this case: {shown(rule, 60)}"
            for rule in unknown
        ]
    return notes

"""Quality beside the verdict: what graders said, what they object to, what persons said of it.

Nothing here is counted, and whoever shows it shows the hard verdict first. Every line is made fit
for a terminal here: what a grader says may have been put into its mouth.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.gathering import NOT_GRADED
from pytest_evarness.checks.judging.panel import REMARK
from pytest_evarness.core.finding import FOR_REVIEW
from pytest_evarness.report.text import one_line

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding

__all__ = [
    "GRADED",
    "WELL",
    "composite_lines",
    "despite_lines",
    "graded_lines",
    "graded_properties",
    "is_graded",
    "other_remarks",
    "reasons_for_review",
    "remarks_on",
    "review_line",
]

GRADED = "llm_as_judge"
"""The kind of findings that a model grades."""

WELL = "what the run did well despite being invalid"
"""Heading of the section in which quality stands where the verdict is invalid."""

_LONG = 700


def is_graded(finding: Finding) -> bool:
    """Whether somebody graded it: an answer or an abstention, not a question left unasked."""
    return finding.kind == GRADED and finding.reason != NOT_GRADED


def composite_lines(composite: Mapping[str, Any] | None) -> Iterator[str]:
    """The raw composite of an invalid case, which counts for nothing."""
    if composite is not None and composite["raw"] is not None:
        yield f"raw composite {composite['raw']} (threshold {composite['threshold']}); it counts 0"


def graded_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """For each graded finding what came out, then each judge by itself.

    A judge's line has its identity, the version of the rubric, score, dimensions and critique.
    """
    for finding in findings:
        if finding.kind != GRADED:
            continue
        if not is_graded(finding):
            yield f"{one_line(finding.id)}: not graded"
            continue
        witness = finding.witness
        asked = f" ({one_line(witness.expected)})" if witness.expected is not None else ""
        observed = witness.observed if witness.observed is not None else finding.reason
        yield f"{one_line(finding.id)}: {one_line(observed)}{asked}"
        for note in witness.notes:
            if not note.startswith(REMARK):
                yield f"  {one_line(note, _LONG)}"


def despite_lines(
    findings: Iterable[Finding], composite: Mapping[str, Any] | None
) -> Iterator[str]:
    """The section of an invalid case for a summary: its heading, then the lines under it.

    Nothing where nobody graded: the raw composite alone would be a number that nobody asked for.
    """
    found = list(findings)
    if any(is_graded(finding) for finding in found):
        yield f"{WELL}:"
        for line in (*composite_lines(composite), *graded_lines(found)):
            yield f"  {line}"


def remarks_on(rule: str, findings: Iterable[Finding]) -> list[str]:
    """What judges say of a rule; it is shown beside its finding and changes nothing."""
    begins = _beginning(rule)
    return [one_line(note, _LONG) for note in _remarks(findings) if note.startswith(begins)]


def other_remarks(rules: Collection[str], findings: Iterable[Finding]) -> list[str]:
    """What judges say of all rules but these."""
    beginnings = tuple(_beginning(rule) for rule in rules)
    return [one_line(note, _LONG) for note in _remarks(findings) if not note.startswith(beginnings)]


def _beginning(rule: str) -> str:
    return f"{REMARK}'{rule}', "


def _remarks(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        if finding.kind == GRADED:
            yield from (note for note in finding.witness.notes if note.startswith(REMARK))


def graded_properties(finding: Finding, findings: Iterable[Finding]) -> Iterator[tuple[str, str]]:
    """What graders say of a finding, and what each grader of it said, by names of properties."""
    for remark in remarks_on(finding.id, findings):
        yield "evarness.remark", remark
    for why in reasons_for_review(finding):
        yield "evarness.for_review", why
    if not is_graded(finding):
        return
    observed = finding.witness.observed
    if observed is not None:
        yield "evarness.judged", one_line(observed)
    for note in finding.witness.notes:
        if note.startswith("judge "):
            yield "evarness.judge", one_line(note, _LONG)


def reasons_for_review(finding: Finding) -> list[str]:
    """Why it waits for a person's word; empty where it does not."""
    return [
        one_line(note.removeprefix(FOR_REVIEW), _LONG)
        for note in finding.witness.notes
        if note.startswith(FOR_REVIEW)
    ]


def review_line(review: Mapping[str, str]) -> str:
    """What a person said of a finding: one more observation."""
    reviewer, note = one_line(review["reviewer"], 100), one_line(review["note"], _LONG)
    return f"review by {reviewer}: {note} (an observation; it is not counted)"

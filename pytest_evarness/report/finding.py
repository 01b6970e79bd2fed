"""One finding as text: the essential sentence, what was expected and met, and where to look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.report.text import one_line
from pytest_evarness.report.wording import side_sentence

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.plan import PlannedItem

__all__ = ["finding_text"]


def finding_text(
    finding: Finding, item: PlannedItem, beside: Iterable[str] = (), *, raised: str | None = None
) -> str:
    """Several lines, the first a sentence that is complete in itself.

    Args:
        beside: What judges and persons say of it, one line each.
        raised: ``path:LINE`` in the project where the error came up that it tells of.
    """
    return "\n".join(_lines(finding, item, beside, raised))


def _lines(
    finding: Finding, item: PlannedItem, beside: Iterable[str], raised: str | None
) -> Iterator[str]:
    yield finding.reason
    if finding.outcome is Outcome.PASS:
        return
    fault = side_sentence(finding)
    if fault is not None and finding.outcome is Outcome.INDETERMINATE:
        yield f"  fault:    {fault}"
    yield f"  severity: {finding.severity.value}{', a gate' if item.gate else ''}"
    if item.description and item.description != finding.reason:
        # Whoever wrote the rule could begin a line of a report, or of a CI's log, with it.
        yield f"  rule:     {one_line(item.description, len(item.description))}"
    witness = finding.witness
    if witness.expected is not None:
        yield f"  expected: {witness.expected}"
    if witness.observed is not None:
        yield f"  observed: {witness.observed}"
    if raised is not None:
        yield f"  raised:   {one_line(raised, 400)}"
    for seq in witness.events:
        text = witness.context.get(str(seq))
        yield f"  event:    {text if isinstance(text, str) else f'seq {seq}'}"
    for entry in witness.entries:
        yield f"  world:    {entry}"
    for claim in witness.absent:
        yield f"  absent:   {claim}"
    for candidate in witness.nearest:
        fields = cast("dict[str, Any]", candidate)
        yield f"  nearest:  seq {fields.get('seq')}: {fields.get('why')}"
    for note in witness.notes:
        yield f"  note:     {note}"
    for words in beside:
        yield f"  beside:   {words}"
    if finding.leaning is not None:
        yield f"  leaning:  {finding.leaning.word}, if the run ended now"
    if finding.looked_at:
        yield f"  looked at: {'; '.join(finding.looked_at)}"
    definition = cast("dict[str, Any]", item.definition or {})
    for name in ("owner", "rationale"):
        if definition.get(name):
            yield f"  {name + ':':<9} {shown(definition[name], 400)[1:-1]}"
    if item.path:
        yield f"  defined:  {item.path}:{item.line}"

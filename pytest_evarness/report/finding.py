"""One finding as text: the essential sentence, what was expected and met, and where to look."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.report.text import flat, one_line, short_digests
from pytest_evarness.report.wording import side_sentence

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.plan import PlannedItem

__all__ = ["finding_text"]

_PAYLOAD = 400
"""Characters of an event's payload."""


def finding_text(
    finding: Finding,
    item: PlannedItem,
    beside: Iterable[str] = (),
    *,
    raised: str | None = None,
    point: str | None = None,
) -> str:
    """Several lines, the first a sentence that is complete in itself.

    Args:
        beside: What judges and persons say of it, one line each.
        raised: ``path:LINE`` in the project where the error came up that it tells of.
        point: Values of the matrix point that the case's id cannot spell.
    """
    return "\n".join(_lines(finding, item, beside, raised, point))


def _lines(
    finding: Finding,
    item: PlannedItem,
    beside: Iterable[str],
    raised: str | None,
    point: str | None,
) -> Iterator[str]:
    # What a run, a script or a judge said stands in these texts, and could begin a line with it.
    yield flat(finding.reason)
    if finding.outcome is not Outcome.PASS:
        if point is not None:
            yield f"  {'point:':<11}{one_line(point, 400)}"
        for label, text in _rows(finding, item, beside, raised):
            # Labels in one column, as wide as the longest of them.
            yield f"  {label + ':':<11}{flat(text)}"


def _rows(
    finding: Finding, item: PlannedItem, beside: Iterable[str], raised: str | None
) -> Iterator[tuple[str, str]]:
    fault = side_sentence(finding)
    if fault is not None and finding.outcome is Outcome.INDETERMINATE:
        yield "fault", fault
    yield "severity", f"{finding.severity.value}{', a gate' if item.gate else ''}"
    if item.description and item.description != finding.reason:
        yield "rule", item.description
    witness = finding.witness
    if witness.expected is not None:
        yield "expected", witness.expected
    if witness.observed is not None:
        yield "observed", witness.observed
    if raised is not None:
        yield "raised", one_line(raised, 400)
    for seq in witness.events:
        yield "event", _event(seq, witness.context.get(str(seq)))
    for entry in witness.entries:
        yield "world", entry
    for claim in witness.absent:
        yield "absent", claim
    for candidate in witness.nearest:
        fields = cast("dict[str, Any]", candidate)
        yield "nearest", f"seq {fields.get('seq')}: {fields.get('why')}"
    for note in witness.notes:
        yield "note", note
    for words in beside:
        yield "beside", words
    if finding.leaning is not None:
        yield "leaning", f"{finding.leaning.word}, if the run ended now"
    if finding.looked_at:
        yield "looked at", "; ".join(finding.looked_at)
    definition = cast("dict[str, Any]", item.definition or {})
    for name in ("owner", "rationale"):
        if definition.get(name):
            yield name, shown(definition[name], 400)[1:-1]
    if item.path:
        yield "defined", f"{item.path}:{item.line}"


def _event(seq: int, text: object) -> str:
    """What happened first, then with what; the bundle and ``explain`` have it whole."""
    if not isinstance(text, str):
        return f"seq {seq}"
    try:
        event = json.loads(text)
        kind, node, payload = event["type"], event["node_id"], event["payload"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return f"seq {seq}: {text}"  # a long one, of which the bundle has the beginning
    place = "" if node is None else f" at {node}"
    values = short_digests(shown(payload, _PAYLOAD))
    return one_line(f"seq {seq}, {kind}{place}: {values}", 2 * _PAYLOAD)

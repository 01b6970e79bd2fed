"""A finding of a planned item: what the plan says of it, and how it came out."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.core.finding import (
    MAX_WITNESS_EVENTS,
    MAX_WITNESS_TEXT,
    Finding,
    Witness,
)
from pytest_evarness.core.outcome import Outcome

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json
    from pytest_evarness.core.plan import PlannedItem

__all__ = ["MAX_REASON", "bounded", "bounded_text", "found"]

MAX_REASON = 2000
"""Characters of a reason."""

_SCORES = {Outcome.PASS: Fraction(1), Outcome.FAIL: Fraction(0)}


def found(item: PlannedItem, outcome: Outcome, reason: str, **more: Any) -> Finding:
    """The finding of ``item``: score 1 for a pass, 0 for a fail, none where it is undecided.

    Args:
        item: Gives id, kind, version, gate, weight, severity and label.
        outcome: How it came out.
        reason: One sentence, complete in itself.
        more: Any other field of a finding.
    """
    return Finding(
        id=item.id,
        kind=item.kind,
        outcome=outcome,
        reason=reason,
        version=item.version,
        gate=item.gate,
        weight=item.weight,
        severity=item.severity,
        score=_SCORES.get(outcome),
        label=item.label,
        **more,
    )


def bounded_text(text: str, limit: int = MAX_REASON) -> str:
    """A text cut at ``limit`` characters."""
    return text if len(text) <= limit else text[:limit] + "…"


def bounded(witness: Witness) -> Witness:
    """A witness within its bounds: 20 events, 20 entries, 4 KiB of text in all."""
    left = MAX_WITNESS_TEXT
    cut = False

    def text(value: str) -> str:
        nonlocal left, cut
        data = value.encode("utf-8", "replace")
        if len(data) > left:
            cut = True
            value = data[:left].decode("utf-8", "ignore") + "…"
        left = max(left - len(data), 0)
        return value

    def within(value: Json) -> Json:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, dict):
            return {key: within(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [within(part) for part in value]
        return value

    expected = None if witness.expected is None else text(witness.expected)
    observed = None if witness.observed is None else text(witness.observed)
    entries = tuple(text(one) for one in witness.entries[:MAX_WITNESS_EVENTS])
    absent = tuple(text(one) for one in witness.absent[:MAX_WITNESS_EVENTS])
    notes = [text(one) for one in witness.notes[:MAX_WITNESS_EVENTS]]
    nearest: tuple[Any, ...] = tuple(within(dict(one)) for one in witness.nearest)
    context = cast("dict[str, Json]", within(dict(witness.context)))
    if cut:
        notes.append(f"texts are cut at {MAX_WITNESS_TEXT} bytes")
    more = len(witness.entries) - MAX_WITNESS_EVENTS
    if more > 0:
        notes.append(f"{more} more entries are left out")
    more = len(witness.events) - MAX_WITNESS_EVENTS
    if more > 0:
        notes.append(f"{more} more events are left out")
    return Witness(
        events=witness.events[:MAX_WITNESS_EVENTS],
        absent=absent,
        expected=expected,
        observed=observed,
        nearest=nearest[:MAX_WITNESS_EVENTS],
        notes=tuple(notes),
        context=context,
        entries=entries,
    )

"""The item ``reproduces``: did run B give the bytes of run A?

Source: docs/kernel.md, "Reproduction".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.found import found
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Cause, Outcome

if TYPE_CHECKING:
    from pytest_evarness.checks.evidence import Evidence
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["first_difference", "judge_reproduction"]

MAX_DIFFERENCES = 10


def judge_reproduction(item: PlannedItem, evidence: Evidence) -> Finding:
    """Compare the digests of both runs; where they part, show the first difference."""
    a, b = evidence.a, evidence.b
    if b is None:
        return _finding(
            item,
            Outcome.INDETERMINATE,
            f"run B could not be made: {evidence.error_b or 'no reason given'}",
            causes=(Cause.EVALUATOR_ERROR,),
        )
    for facts in (a, b):
        if facts.status == "unfinished":
            return _finding(
                item,
                Outcome.INDETERMINATE,
                f"run {facts.label.upper()} was stopped from outside:"
                f" {facts.error or 'no end was reached'}",
                causes=(Cause.EVALUATOR_ERROR,),
            )
    denied = _denied(evidence)
    if denied is not None:
        return _finding(item, Outcome.INDETERMINATE, denied, causes=(Cause.CONTRADICTORY_EVIDENCE,))
    if (a.trace_digest, a.chain_digest, a.world_digest, a.status) == (
        b.trace_digest,
        b.chain_digest,
        b.world_digest,
        b.status,
    ):
        return _finding(
            item,
            Outcome.PASS,
            f"both runs gave the same {a.events} events and the same world",
        )
    if a.trace_digest == b.trace_digest and evidence.world_b is not None:
        place, lines = first_world_difference(evidence.world, evidence.world_b)
        return _finding(
            item,
            Outcome.FAIL,
            f"both runs gave the same events and another world: {place}: {lines[0]}",
            expected=f"world {a.world_digest}",
            observed=f"world {b.world_digest}",
            notes=tuple(lines),
            entries=(place,),
        )
    if a.trace_digest == b.trace_digest:
        what = "world" if a.world_digest != b.world_digest else "status"
        return _finding(
            item,
            Outcome.FAIL,
            f"both runs gave the same events and another {what}",
            expected=f"{what} {a.world_digest if what == 'world' else a.status}",
            observed=f"{what} {b.world_digest if what == 'world' else b.status}",
        )
    if evidence.events_b is None:
        return _finding(
            item,
            Outcome.FAIL,
            "run B gave other events than run A (they are not enclosed)",
            expected=a.trace_digest,
            observed=b.trace_digest,
        )
    seq, differences = first_difference(evidence.events, evidence.events_b)
    return _finding(
        item,
        Outcome.FAIL,
        f"run B parts from run A at event {seq}: {differences[0]}",
        seq=seq,
        events=(seq,) if seq < len(evidence.events) else (),
        expected=_line(evidence.events, seq),
        observed=_line(evidence.events_b, seq),
        notes=tuple(differences),
    )


def _denied(evidence: Evidence) -> str | None:
    """Where what is known of run B denies that its digests are run A's; None where nothing does."""
    a, b = evidence.a, evidence.b
    assert b is not None, "asked before"
    if a.trace_digest == b.trace_digest:
        if evidence.events_b is not None and list(evidence.events_b) != list(evidence.events):
            return "the digests of both runs agree, and the events of run B are other ones"
        if a.events != b.events or a.chain_digest != b.chain_digest:
            return "the digests of both runs agree, and their counts or chains do not"
    if (
        a.world_digest == b.world_digest
        and evidence.world_b is not None
        and evidence.world_b != evidence.world
    ):
        return "the digests of both worlds agree, and the world of run B is another one"
    return None


def first_difference(
    first: Sequence[TraceEvent], second: Sequence[TraceEvent]
) -> tuple[int, list[str]]:
    """Index of the first event at which two runs part, and how, at most ten lines."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        lines = []
        for line in _differences("", one, other):
            lines.append(line)
            if len(lines) == MAX_DIFFERENCES:
                break
        if lines:
            kind = one.get("type")
            node = one.get("node_id")
            place = f"{kind}" + (f" of {node}" if node else "")
            return index, [f"{place}: {lines[0]}", *lines[1:]]
    index = min(len(first), len(second))
    if len(first) > len(second):
        return index, [f"run B ends after {len(second)} events, run A has {len(first)}"]
    return index, [f"run A ends after {len(first)} events, run B has {len(second)}"]


def first_world_difference(one: Any, other: Any) -> tuple[str, list[str]]:
    """The first file, row, request or effect at which two worlds part, and how, at most ten lines.

    Args:
        one: Run A's world as it is sealed.
        other: Run B's, not equal to it.
    """
    for place, left, right in _parts(one, other):
        lines = list(islice(_part_differences(left, right), MAX_DIFFERENCES))
        if lines:
            return place, lines
    return "world", list(islice(_differences("", one, other), MAX_DIFFERENCES))


def _part_differences(left: Any, right: Any) -> Iterator[str]:
    if left is None:
        yield f"only in run B ({shown(right)})"
    elif right is None:
        yield f"only in run A ({shown(left)})"
    else:
        yield from _differences("", left, right)


def _parts(one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """What can be shown by itself, in both worlds: None where one of them has none."""
    files = [_by(world.get("workspace") or {}, "files", "path") for world in (one, other)]
    for path, left, right in _pairs(*files):
        yield f"file {path}", left, right
    services = [_by(world, "services", "name") for world in (one, other)]
    for name, left, right in _pairs(*services):
        if left is None or right is None:
            yield f"service {name}", left, right
            continue
        for what, key, by in (("table", "tables", "name"), ("request", "requests", "n")):
            for entry, first, second in _pairs(_by(left, key, by), _by(right, key, by)):
                place = f"{what} {entry} of {name}"
                if what == "table" and first is not None and second is not None:
                    yield from _rows(place, first, second)
                yield place, first, second
        yield f"service {name}", left, right
    ledgers = [dict(enumerate(world.get("ledger") or ())) for world in (one, other)]
    for index, left, right in _pairs(*ledgers):
        yield f"effect {index} of the ledger", left, right


def _rows(place: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    columns = one.get("columns")
    if columns != other.get("columns"):
        return
    rows = [table.get("rows") or () for table in (one, other)]
    named = [
        {index: dict(zip(columns, row, strict=False)) for index, row in enumerate(part)}
        for part in rows
    ]
    for index, left, right in _pairs(*named):
        yield f"row {index} of {place}", left, right


def _by(holder: Any, key: str, by: str) -> dict[Any, Any]:
    entries = holder.get(key)
    if not isinstance(entries, list):
        return {}
    return {entry[by]: entry for entry in entries if isinstance(entry, Mapping) and by in entry}


def _pairs(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Iterator[tuple[Any, Any, Any]]:
    for key in sorted({*one, *other}, key=lambda key: (isinstance(key, str), key)):
        yield key, one.get(key), other.get(key)


def _differences(path: str, one: Any, other: Any) -> Iterator[str]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            where = f"{path}.{key}" if path else str(key)
            if key not in one:
                yield f"{where}: only in run B ({shown(other[key])})"
            elif key not in other:
                yield f"{where}: only in run A ({shown(one[key])})"
            else:
                yield from _differences(where, one[key], other[key])
    elif isinstance(one, list) and isinstance(other, list):
        for index, (left, right) in enumerate(zip(one, other, strict=False)):
            yield from _differences(f"{path}[{index}]", left, right)
        if len(one) != len(other):
            yield f"{path}: {len(one)} elements in run A, {len(other)} in run B"
    elif type(one) is not type(other) or one != other:
        yield f"{path}: {shown(one)} in run A, {shown(other)} in run B"


def _line(events: Sequence[TraceEvent], index: int) -> str:
    return shown(dict(events[index]), 600) if index < len(events) else "no event"


def _finding(
    item: PlannedItem,
    outcome: Outcome,
    reason: str,
    *,
    seq: int | None = None,
    events: tuple[int, ...] = (),
    causes: tuple[Cause, ...] = (),
    expected: str | None = None,
    observed: str | None = None,
    notes: tuple[str, ...] = (),
    entries: tuple[str, ...] = (),
) -> Finding:
    return found(
        item,
        outcome,
        reason,
        causes=causes,
        decisive_seq=seq,
        witness=Witness(
            events=events, expected=expected, observed=observed, notes=notes, entries=entries
        ),
        looked_at=("trace digest", "chain digest", "world digest", "status"),
    )

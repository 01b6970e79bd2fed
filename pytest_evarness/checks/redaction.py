"""``redaction``: what was redacted stands in no event after its redaction.

A ``redaction_applied`` says where each datum entered, as a place in an earlier event, so the datum
is read there and looked for in every later event; no report repeats it. A text is compared in its
plain form and without case, a number by its digits.

Source: docs/checks/redaction.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.checks.found import bounded, bounded_text, found
from pytest_evarness.checks.kind import Facts, Known, OfTheRun, UnavailableError
from pytest_evarness.core.disguise import plain_form
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.matcher import CUT_BYTES
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import quoted
from pytest_evarness.source.quote import shown as written

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["Redaction"]

MAX_DATA: Final = 1000
"""Data that one run's events are searched for."""

_MAX_TOLD: Final = 5
_LEAST_DIGITS: Final = 7
"""Digits of a datum that is looked for by them alone; fewer stand in any text."""

# Digits that only separators stand between are one number.
_NUMBER = re.compile(r"[0-9](?:[ .()/+-]{0,3}[0-9])*")
_NO_DIGIT = re.compile(r"[^0-9]+")

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"const": "redaction"},
        "must_redact": {
            "type": "boolean",
            "description": "Whether a run in which nothing was redacted is a fail.",
        },
    },
    "required": ["type", "must_redact"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class _Read:
    """One text as data are looked for in it.

    Attributes:
        written: The text.
        folded: Its plain form without case.
        numbers: The digits of each number in it, a line for each.
    """

    written: str
    folded: str
    numbers: str

    @classmethod
    def of(cls, text: str) -> _Read:
        folded = plain_form(text).text.casefold()
        numbers = (_NO_DIGIT.sub("", one) for one in _NUMBER.findall(folded))
        return cls(text, folded, "\n".join(numbers))


@dataclass(frozen=True, slots=True)
class _Datum:
    """One datum that was redacted.

    Attributes:
        value: It itself; it stands in no finding.
        sought: What is looked for: its digits, or its plain form in small letters.
        is_number: Which of both.
        entered: ``seq`` of the event in which it stood first.
        place: That event and the path in it, in words.
        redacted: ``seq`` of its first redaction.
    """

    value: str
    sought: str
    is_number: bool
    kind: str
    entered: int
    place: str
    redacted: int

    def stands_in(self, read: _Read) -> bool:
        """Whether a text holds it, in whatever spelling."""
        if self.value in read.written:
            return True
        return self.sought in (read.numbers if self.is_number else read.folded)

    def story(self) -> str:
        return (
            f"{self.kind} that entered at event {self.entered} ({self.place})"
            f" and was redacted at event {self.redacted}"
        )


class Redaction(OfTheRun):
    """Whether what was redacted is gone."""

    @property
    def name(self) -> str:
        """The word under ``check.type``."""
        return "redaction"

    @property
    def schema(self) -> JsonObject:
        """For editors."""
        return _SCHEMA

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """``{type, must_redact}``."""
        del known
        if "must_redact" not in value:
            problem = f"required key {quoted('must_redact')} is missing"
            rule = "true, or false where a run may have nothing to redact"
            return {}, [Fault((), problem, rule=rule, code="missing_key")]
        must: Any = value["must_redact"]
        if not isinstance(must, bool):
            return {}, [Fault(("must_redact",), "must be true or false", got=written(must))]
        return {"type": self.name, "must_redact": must}, []

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """Look for each datum in every event after its redaction."""
        del gathered
        definition: Any = item.definition
        redactions = [one for one in facts.events if one["type"] == "redaction_applied"]
        looked = (f"every text and number of {len(facts.events)} events",)
        if not redactions:
            outcome = Outcome.FAIL if definition["must_redact"] else Outcome.PASS
            absent = (f"no redaction_applied in 0..{len(facts.events) - 1}",)
            return found(
                item,
                outcome,
                "nothing was redacted",
                vacuous=outcome is Outcome.PASS,
                witness=Witness(absent=absent),
                looked_at=looked,
            )
        data, doubts = _data_of(redactions, facts.events)
        leaks, cut = _leaks(data, facts.events)
        if leaks:
            return _failed(item, data, leaks, looked)
        doubts += cut
        if doubts:
            reason = f"no redacted datum was seen again, but {'; '.join(doubts[:_MAX_TOLD])}"
            return found(
                item,
                Outcome.INDETERMINATE,
                bounded_text(reason),
                causes=(Cause.MISSING_EVIDENCE,),
                witness=bounded(Witness(notes=tuple(doubts))),
                looked_at=looked,
            )
        return _passed(item, data, looked)

    def is_final(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> bool:
        """What stood in an event does not go away; a redaction may still have come."""
        del item, gathered
        return any(one["type"] == "redaction_applied" for one in facts.events)


# -- what was redacted -----------------------------------------------------------------------------


def _data_of(
    redactions: Sequence[TraceEvent], events: Sequence[TraceEvent]
) -> tuple[list[_Datum], list[str]]:
    """Each datum with its first redaction, and why some of them are not known.

    Raises:
        UnavailableError: A place leads nowhere, or there are too many.
    """
    by_seq = {one["seq"]: one for one in events}
    data: dict[str, _Datum] = {}
    doubts = []
    for event in redactions:
        payload: Any = event["payload"]
        if not payload.get("entered", ()) and not payload.get("unplaced"):
            doubts.append(f"event {event['seq']} does not tell what it redacted")
        elif payload.get("unplaced"):
            count = payload["unplaced"]
            if not _is_whole(count):
                raise _malformed(event["seq"])
            doubts.append(f"event {event['seq']} redacted {count} data that no event shows whole")
        entries: Any = payload.get("entered", [])
        if not isinstance(entries, list | tuple) or not all(map(_is_entry, entries)):
            raise _malformed(event["seq"])
        for entry in entries:
            value, place = _value_at(entry, by_seq, event["seq"])
            if value not in data:
                where = (entry["kind"], entry["seq"], place, event["seq"])
                data[value] = _Datum(value, *_sought(value), *where)
    if len(data) > MAX_DATA:
        raise UnavailableError(
            Cause.EVALUATOR_ERROR, f"{len(data)} data were redacted, and {MAX_DATA} are looked for"
        )
    return list(data.values()), doubts


def _malformed(seq: int) -> UnavailableError:
    return UnavailableError(
        Cause.MALFORMED_EVIDENCE, f"event {seq} does not tell what was redacted in its own form"
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_entry(entry: Any) -> bool:
    """Whether something is ``{kind, seq, type, path, start, end}``."""
    return (
        isinstance(entry, Mapping)
        and all(isinstance(entry.get(name), str) for name in ("kind", "type"))
        and all(_is_whole(entry.get(name)) for name in ("seq", "start", "end"))
        and isinstance(entry.get("path"), list | tuple)
        and all(isinstance(step, str) or _is_whole(step) for step in entry["path"])
    )


def _sought(value: str) -> tuple[str, bool]:
    """What is looked for of a datum, and whether that is its digits."""
    folded = plain_form(value).text.casefold()
    found = _NO_DIGIT.sub("", folded)
    is_number = len(found) >= _LEAST_DIGITS and not any(char.isalpha() for char in folded)
    # Of a datum of unseen characters alone nothing would be left to look for.
    return (found, True) if is_number else (folded or value, False)


def _value_at(entry: Any, by_seq: Mapping[Any, TraceEvent], before: Any) -> tuple[str, str]:
    """The datum at a place, and the place in words."""
    seq = entry["seq"]
    event = by_seq.get(seq)
    value: Any = None
    if event is not None and seq < before and event["type"] == entry["type"]:
        value = event["payload"]
        for step in entry["path"]:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                value = None
                break
    start, end = entry["start"], entry["end"]
    if not isinstance(value, str) or not 0 <= start < end <= len(value):
        raise UnavailableError(
            Cause.MALFORMED_EVIDENCE,
            f"event {before} says that a datum entered at event {seq}, and none is there",
        )
    return value[start:end], _place(entry["type"], entry["path"])


def _place(name: str, path: Sequence[str | int], data: Sequence[_Datum] = ()) -> str:
    """A place in words; a key that holds a datum is told by its kind."""
    parts = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        else:
            read = _Read.of(step)
            kind = next((one.kind for one in data if one.stands_in(read)), None)
            parts.append(f".{step}" if kind is None else f".[{kind.upper()}]")
    return f"{name}{''.join(parts)}"


# -- where it stands again -------------------------------------------------------------------------


def _leaks(
    data: Sequence[_Datum], events: Sequence[TraceEvent]
) -> tuple[list[tuple[_Datum, TraceEvent, str]], list[str]]:
    """The first event behind its redaction that holds a datum; events whose texts were cut."""
    leaks, cut = [], []
    open_data = list(data)
    for event in events:
        waiting = [one for one in open_data if event["seq"] > one.redacted]
        if not waiting:
            continue
        is_cut = False
        for path, text in _texts(event["payload"], ()):
            read = _Read.of(text)
            for datum in [one for one in waiting if one.stands_in(read)]:
                leaks.append((datum, event, _place(event["type"], path, data)))
                waiting.remove(datum)
                open_data.remove(datum)
            is_cut = is_cut or len(text.encode("utf-8", "surrogatepass")) >= CUT_BYTES
        if is_cut:
            cut.append(f"a text of event {event['seq']} ({event['type']}) was cut")
    return leaks, cut


def _texts(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every text and number of a payload, keys included, with its place."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, int) and not isinstance(value, bool):
        yield path, str(value)
    elif isinstance(value, float):
        # All its digits: an exponent would hide them.
        yield path, format(Decimal(repr(value)), "f")
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield path, key
            yield from _texts(value[key], (*path, key))
    elif isinstance(value, Sequence):
        for index, entry in enumerate(value):
            yield from _texts(entry, (*path, index))


# -- findings --------------------------------------------------------------------------------------


def _without(text: str, data: Sequence[_Datum]) -> str:
    """A place whose keys hold a datum repeats it no more than anything else does."""
    for datum in data:
        text = text.replace(datum.value, f"[{datum.kind.upper()}]")
    return text


def _failed(
    item: PlannedItem,
    data: Sequence[_Datum],
    leaks: Sequence[tuple[_Datum, TraceEvent, str]],
    looked: tuple[str, ...],
) -> Finding:
    told = [
        _without(f"{datum.story()} stands in event {event['seq']} ({place})", data)
        for datum, event, place in leaks
    ]
    seqs = {
        seq for datum, event, _ in leaks for seq in (datum.entered, datum.redacted, event["seq"])
    }
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    return found(
        item,
        Outcome.FAIL,
        bounded_text(f"{told[0]}{more}"),
        witness=bounded(
            Witness(
                events=tuple(sorted(seqs)),
                expected="no event behind a redaction holds what was redacted",
                observed=told[0],
                notes=tuple(told[1:]),
            )
        ),
        looked_at=looked,
    )


def _passed(item: PlannedItem, data: Sequence[_Datum], looked: tuple[str, ...]) -> Finding:
    told = [_without(datum.story(), data) for datum in data]
    seqs = {seq for datum in data for seq in (datum.entered, datum.redacted)}
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    return found(
        item,
        Outcome.PASS,
        bounded_text(f"{told[0]}{more} stands in no later event"),
        witness=bounded(Witness(events=tuple(sorted(seqs)), notes=tuple(told[1:]))),
        looked_at=looked,
    )

"""Judges contracts over a trace: one scan for all of them, three outcomes, a reason each.

Evaluation is a pure function of the trace and never enters it. The semantics stand in
``docs/contracts.md``; the slow definitions that this module is compared with, in the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.contract.compile import match_of
from pytest_evarness.contract.monitor import Handle, Monitor, RoleInfo, monitor_for
from pytest_evarness.contract.rule import AtMost, Every, LeadsTo, Never, describe_role
from pytest_evarness.contract.witness import explain
from pytest_evarness.core.expression import Patience, held
from pytest_evarness.core.finding import Finding, Witness
from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.core.matcher import SECRET_PREFIX
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.trace import TERMINAL_TYPES, Trace, TraceEvent

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.registry import Registry

__all__ = ["Evaluator", "evaluate"]

_CHUNK: Final = 4096
_MAX_FIELDS: Final = 3
_MAX_CELLS: Final = 1024
_ZERO: Final = Fraction(0)
_ONE: Final = Fraction(1)
_NO_WITNESS: Final = Witness()


def evaluate(
    contracts: Sequence[Contract],
    trace: Trace,
    registry: Registry,
    *,
    possible_types: frozenset[str] | None = None,
) -> list[Finding]:
    """Judge ``contracts`` over ``trace`` in one pass.

    Args:
        contracts: In the order in which findings are wanted.
        trace: The evidence.
        registry: Holds the predicates that ``satisfies`` names.
        possible_types: Event types that can occur in the graph at all; None where not known. A
            ``never`` whose types cannot occur passes vacuously.

    Returns:
        One finding for each contract, in their order. What a vacuous pass counts as is left to
        the caller.
    """
    return Evaluator(contracts, registry, possible_types=possible_types).evaluate(trace)


class Evaluator:
    """Contracts compiled once, for many traces. Not to be shared between threads."""

    def __init__(
        self,
        contracts: Sequence[Contract],
        registry: Registry,
        *,
        possible_types: frozenset[str] | None = None,
    ) -> None:
        self.contracts = list(contracts)
        self.possible_types = possible_types
        self.monitors = [monitor_for(contract, registry) for contract in self.contracts]
        self._handles: dict[Any, Handle] = {}
        self._kept = _Types(self, skip_done=False)
        self._holes: dict[frozenset[str], list[tuple[str | None, ...]]] = {}
        self._words = [_Words(monitor) for monitor in self.monitors]
        self._counts_events = any(
            isinstance(contract.rule, LeadsTo) and contract.rule.within is not None
            for contract in self.contracts
        )

    def evaluate(self, trace: Trace) -> list[Finding]:
        """Judge every contract over ``trace``."""
        with Patience():
            return self._evaluated(trace)

    def _evaluated(self, trace: Trace) -> list[Finding]:
        rewind = held().mark()
        events = trace.events
        faults: list[str] = []
        if trace.gaps or not self._scan_regular(trace):
            # From the start again: what was decided before is to come out as it did.
            rewind()
            events, types, payloads, faults = _columns(trace.events)
            faults.extend(_order_faults(types))
            gaps, numbering = _gaps([event.get("seq") for event in events], trace.gaps)
            faults.extend(numbering)
            self._reset(trace)
            self._scan(events, types, payloads, gaps)
        # A reader of trace files names the same faults by line.
        all_faults = trace.faults or tuple(faults)
        return [
            self._finding(monitor, words, trace, events, all_faults)
            for monitor, words in zip(self.monitors, self._words, strict=True)
        ]

    # -- the scan

    def _reset(self, trace: Trace) -> None:
        coverage = trace.coverage
        if coverage is None:
            for monitor in self.monitors:
                monitor.reset((None,) * len(monitor.roles), None)
            return
        holes = self._holes.get(coverage)
        if holes is None:
            holes = [
                tuple(role.uncovered(coverage) for role in monitor.roles)
                for monitor in self.monitors
            ]
            if len(self._holes) < 64:
                self._holes[coverage] = holes
        covered: list[int] | None = None
        if self._counts_events:
            covered = _covered(trace.events, coverage)
        for monitor, missing in zip(self.monitors, holes, strict=True):
            monitor.reset(missing, covered)

    def _scan_regular(self, trace: Trace) -> bool:
        """Scan a trace that is well-formed and without gaps; False as soon as it is not.

        The first look at an event costs more than all that follows, so there is only one.
        """
        self._reset(trace)
        events = trace.events
        table = self._kept
        alive = len(self.monitors)
        ends: list[int] = []
        table.ends = ends
        count = len(events)
        for start in range(0, count, _CHUNK):
            part = events[start : start + _CHUNK]
            try:
                if not _run_regular(table, part, start):
                    return False
            except (KeyError, TypeError, _Irregular):
                return False
            if ends and ends[0] < start + len(part) - 1:
                return False
            left = sum(1 for monitor in self.monitors if not monitor.done)
            if left < alive:
                # Some are decided for good: go on with tables that do not know them.
                alive = left
                table = _Types(self, skip_done=True)
                table.ends = ends
        return not ends or ends[0] == count - 1

    def _scan(
        self,
        events: Sequence[TraceEvent],
        types: Sequence[str],
        payloads: Sequence[Any],
        gaps: list[int],
    ) -> None:
        table = self._kept
        table.ends = []
        alive = len(self.monitors)
        count = len(events)
        starts = sorted({0, *gaps, *range(_CHUNK, count, _CHUNK)})
        missing = set(gaps)
        for start, stop in pairwise([*starts, max(count, starts[-1])]):
            left = [monitor for monitor in self.monitors if not monitor.done]
            if start in missing:
                for monitor in left:
                    monitor.gap(start - 0.5)
            if len(left) < alive:
                # What is decided for good, or was given up, is not asked again.
                alive = len(left)
                table = _Types(self, skip_done=True)
            _run(table, events[start:stop], types[start:stop], payloads[start:stop], start)

    def handle(self, at: int, role: int, chosen: tuple[tuple[int, frozenset[str]], ...]) -> Handle:
        """The closure for one role, given its alternatives that can match and what is known."""
        key = (at, role, chosen)
        found = self._handles.get(key)
        if found is None:
            monitor = self.monitors[at]
            info = monitor.roles[role]
            match = match_of(
                [info.alternatives[one] for one, _ in chosen],
                info.count,
                dropped=[fields for _, fields in chosen],
                miss=monitor.missed_by_type if monitor.wants_notice and role == 0 else None,
            )
            found = self._handles[key] = monitor.handle(role, match)
        return found

    # -- findings

    def _finding(
        self,
        monitor: Monitor,
        words: _Words,
        trace: Trace,
        events: Sequence[TraceEvent],
        faults: tuple[str, ...],
    ) -> Finding:
        last = len(events) - 1
        closed = trace.closed and last >= 0
        worst, best = monitor.ends(last, closed)
        leaning: Outcome | None = None
        causes: tuple[Cause, ...] = ()
        outcome = Outcome.INDETERMINATE
        decisive: int | None = None
        reason = ""
        if monitor.broken is not None:
            causes, reason = (Cause.EVALUATOR_ERROR,), monitor.broken
        elif best:
            outcome, decisive = Outcome.FAIL, monitor.bad_at
        elif not worst and (closed or monitor.safe_at is not None):
            outcome = Outcome.PASS
            decisive = last if monitor.safe_at is None else monitor.safe_at
        elif not closed:
            leaning, causes, reason = self._open(monitor, trace, last)
        else:
            causes, reason = _doubts(monitor, events)
        if faults and not _stands(outcome, monitor):
            outcome, leaning, decisive = Outcome.INDETERMINATE, None, None
            causes = Cause.ordered((*causes, Cause.MALFORMED_EVIDENCE))
            reason = f"the trace is malformed: {'; '.join(faults[:3])}"
        if outcome is Outcome.PASS and not monitor.missed:
            vacuous = not monitor.seen or self._cannot_occur(monitor)
            return self._passed(monitor, words, trace, events, decisive, vacuous)
        return self._told(monitor, words, trace, events, outcome, causes, leaning, decisive, reason)

    def _passed(
        self,
        monitor: Monitor,
        words: _Words,
        trace: Trace,
        events: Sequence[TraceEvent],
        decisive: int | None,
        vacuous: bool,
    ) -> Finding:
        """A plain pass; short runs have few different ones, and findings never change."""
        last = len(events) - 1
        key = (
            last,
            decisive,
            monitor.safe_at,
            vacuous,
            trace.coverage_assumed,
            events[0].get("seq"),
            events[last].get("seq"),
            None if decisive is None else events[decisive].get("seq"),
        )
        found = words.passes.get(key)
        if found is None:
            found = self._told(monitor, words, trace, events, Outcome.PASS, (), None, decisive, "")
            if len(words.passes) < _MAX_CELLS:
                words.passes[key] = found
        return found

    def _told(
        self,
        monitor: Monitor,
        words: _Words,
        trace: Trace,
        events: Sequence[TraceEvent],
        outcome: Outcome,
        causes: tuple[Cause, ...],
        leaning: Outcome | None,
        decisive: int | None,
        reason: str,
    ) -> Finding:
        contract = monitor.contract
        last = len(events) - 1
        vacuous = outcome is Outcome.PASS and (not monitor.seen or self._cannot_occur(monitor))
        looked_at = (words.looked_at(last, events, trace),)
        witness = _NO_WITNESS
        if outcome is Outcome.PASS:
            reason = words.passed(vacuous, last + 1)
            if monitor.missed or words.has_limits:
                reason, witness = _noticed(monitor, words, reason)
            if not witness.absent and words.absence:
                witness = Witness(
                    events=_seq_of(events, monitor.safe_at),
                    absent=(words.absent(last, events),),
                    notes=witness.notes,
                )
            elif monitor.safe_at is not None and not witness.events:
                witness = Witness(events=_seq_of(events, monitor.safe_at), notes=witness.notes)
        else:
            told, witness = explain(monitor, events, outcome, causes, reason)
            reason = told
        return Finding(
            id=contract.id,
            kind="contract",
            outcome=outcome,
            reason=reason,
            version=contract.version,
            gate=contract.gate,
            weight=_ZERO,
            severity=contract.severity,
            score=_ONE if outcome is Outcome.PASS else _ZERO if outcome is Outcome.FAIL else None,
            causes=causes,
            leaning=leaning,
            decisive_seq=None if decisive is None else _seq(events, decisive),
            vacuous=vacuous,
            witness=witness,
            looked_at=looked_at,
        )

    def _open(
        self, monitor: Monitor, trace: Trace, last: int
    ) -> tuple[Outcome, tuple[Cause, ...], str]:
        """An open trace: what closing now would give, and why that is not enough."""
        worst, best = monitor.ends(last, closed=True)
        leaning = Outcome.FAIL if best else Outcome.INDETERMINATE if worst else Outcome.PASS
        monitor.bad = None
        reason = f"the run is not over: closing it now would give {leaning.word}"
        causes: list[Cause] = [trace.open_cause]
        if leaning is Outcome.INDETERMINATE:
            causes.extend(cause for _, _, cause in monitor.doubts)
            causes.extend(monitor.more_doubts)
            if monitor.doubts:
                reason += f" ({monitor.doubts[0][1]})"
        return leaning, Cause.ordered(causes), reason

    def _cannot_occur(self, monitor: Monitor) -> bool:
        types = monitor.roles[0].types
        return (
            self.possible_types is not None
            and isinstance(monitor.contract.rule, Never)
            and types is not None
            and types.isdisjoint(self.possible_types)
        )


def _run_regular(table: _Types, events: Sequence[TraceEvent], start: int) -> bool:
    """The hot loop: an event costs what the contracts that care for its type and fields cost.

    Returns:
        False at the first event that is not numbered in order, or has no payload.
    """
    index = start
    for event in events:
        payload = event["payload"]
        seq = event["seq"]
        if seq != index or type(seq) is not int or type(payload) is not dict:
            return False
        one, two, three, cells = table[event["type"]]
        if one is None:
            for handle in cells:
                handle(payload, event, index)
        else:
            try:
                if two is None:
                    handles = cells[payload.get(one)]
                elif three is None:
                    handles = cells[payload.get(one), payload.get(two)]
                else:
                    handles = cells[payload.get(one), payload.get(two), payload.get(three)]
            except TypeError:
                # A list or mapping where texts are compared: no key for a table.
                handles = cells.everything()
            for handle in handles:
                handle(payload, event, index)
        index += 1
    return True


def _run(
    table: _Types,
    events: Sequence[TraceEvent],
    types: Sequence[str],
    payloads: Sequence[Any],
    start: int,
) -> None:
    """The same for events whose numbering and payloads were looked at before.

    One without a payload is judged by nothing: what it does not say is no evidence of absence.
    """
    index = start - 1
    for event, name, payload in zip(events, types, payloads, strict=True):
        index += 1
        if payload is None:
            continue
        cells = table[name][3]
        handles = cells.everything() if isinstance(cells, _Cells) else cells
        for handle in handles:
            handle(payload, event, index)


def _covered(events: Sequence[TraceEvent], coverage: frozenset[str]) -> list[int] | None:
    """Number of events of covered types before each index; None where all are covered."""
    try:
        types = [event["type"] for event in events]
        if coverage.issuperset(types):
            return None
    except (KeyError, TypeError):
        types = _columns(events)[1]
    covered = [0]
    for name in types:
        covered.append(covered[-1] + (name in coverage))
    return covered


class _Irregular(Exception):  # noqa: N818 - a signal, not an error
    """An event has no type: the scan that takes nothing for granted has to do it."""


class _Types(dict[str, tuple[Any, Any, Any, Any]]):
    """Event type -> up to three fields that choose a cell, and the cells.

    Attributes:
        ends: Indexes of terminal events, noted as they come.
    """

    ends: list[int]

    def __init__(self, evaluator: Evaluator, *, skip_done: bool) -> None:
        super().__init__()
        self.evaluator = evaluator
        self.skip_done = skip_done
        self.ends = []

    def __missing__(self, name: str) -> tuple[Any, Any, Any, Any]:
        if type(name) is not str:
            raise _Irregular
        entries: list[tuple[int, int, RoleInfo, list[int]]] = []
        for at, monitor in enumerate(self.evaluator.monitors):
            if self.skip_done and monitor.done:
                continue
            for role, info in enumerate(monitor.roles):
                able = [
                    index
                    for index, one in enumerate(info.alternatives)
                    if one.types is None or name in one.types
                ]
                if able:
                    entries.append((at, role, info, able))
        uses: dict[str, int] = {}
        for _, _, info, able in entries:
            for index in able:
                for condition in info.alternatives[index].conditions:
                    if condition.field is not None:
                        uses[condition.field] = uses.get(condition.field, 0) + 1
        fields = sorted(uses, key=lambda field: (-uses[field], field))[:_MAX_FIELDS]
        made: tuple[Any, Any, Any, Any]
        before: list[Handle] = [self.ended] if name in TERMINAL_TYPES else []
        cells = _Cells(self.evaluator, entries, fields, before)
        if not fields:
            made = (None, None, None, tuple(cells.everything()))
        else:
            one, two, three, *_ = [*fields, None, None, None]
            made = (one, two, three, cells)
        if len(self) < _MAX_CELLS:
            self[name] = made
        return made

    def ended(self, payload: Any, event: Any, index: int) -> None:
        """Note a terminal event."""
        del payload, event
        self.ends.append(index)


class _Cells(dict[Any, list[Handle]]):
    """Values of the chosen fields -> what to call for such an event."""

    def __init__(
        self,
        evaluator: Evaluator,
        entries: list[tuple[int, int, RoleInfo, list[int]]],
        fields: list[str],
        before: list[Handle],
    ) -> None:
        super().__init__()
        self.evaluator = evaluator
        self.entries = entries
        self.fields = fields
        self.before = before
        self.all: list[Handle] | None = None

    def everything(self) -> list[Handle]:
        """Every handle of the type, with all its conditions."""
        if self.all is None:
            nothing: frozenset[str] = frozenset()
            self.all = self.before + [
                self.evaluator.handle(at, role, tuple((index, nothing) for index in able))
                for at, role, _, able in self.entries
            ]
        return self.all

    def __missing__(self, key: Any) -> list[Handle]:
        if len(self) >= _MAX_CELLS:
            # A field with ever new values: sorting by it would cost more than asking everybody.
            return self.everything()
        values = key if len(self.fields) > 1 else (key,)
        handles: list[Handle] = list(self.before)
        for at, role, info, able in self.entries:
            chosen: list[tuple[int, frozenset[str]]] = []
            for index in able:
                known = self._known(info, index, values)
                if known is not None:
                    chosen.append((index, known))
            if chosen:
                handles.append(self.evaluator.handle(at, role, tuple(chosen)))
        self[key] = handles
        return handles

    def _known(self, info: RoleInfo, index: int, values: Sequence[Any]) -> frozenset[str] | None:
        """Fields whose condition holds for ``values``; None when one of them does not."""
        held: set[str] = set()
        for condition in info.alternatives[index].conditions:
            if condition.field not in self.fields:
                continue
            value = values[self.fields.index(condition.field)]
            if type(value) is str and SECRET_PREFIX in value:
                continue  # undecided: the condition itself says so
            if type(value) is str and value in condition.texts:
                held.add(condition.field)
            else:
                return None
        # A field with two conditions is known only when both hold, which the loop has seen to.
        return frozenset(held)


# -- the trace ---------------------------------------------------------------------------------


def _columns(
    events: Sequence[TraceEvent],
) -> tuple[Sequence[TraceEvent], list[str], list[Any], list[str]]:
    """Types and payloads of well-formed events; what is not well-formed is replaced and named.

    The payload of an event that is not well-formed is None.
    """
    try:
        types = list(map(itemgetter("type"), events))
        payloads = list(map(itemgetter("payload"), events))
        if set(map(type, types)) <= {str} and set(map(type, payloads)) <= {dict}:
            return events, types, payloads, []
    except (KeyError, TypeError):
        pass
    kept: list[TraceEvent] = []
    payloads = []
    faults: list[str] = []
    for index, event in enumerate(events):
        record = _mapping(event)
        name, payload = record.get("type"), record.get("payload")
        if not isinstance(name, str) or not isinstance(payload, Mapping):
            faults.append(
                f"event {index} needs a type and a payload, met a {kind_of(name)} and a"
                f" {kind_of(payload)}"
            )
            name, payload = (name if isinstance(name, str) else ""), None
        payloads.append(_plain(payload))
        kept.append({**record, "type": name, "payload": payloads[-1] or {}})
    return kept, [event["type"] for event in kept], payloads, faults


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _order_faults(types: list[str]) -> list[str]:
    faults: list[str] = []
    for name in sorted(TERMINAL_TYPES):
        if name in types:
            at = types.index(name)
            if at < len(types) - 1:
                faults.append(f"event {at + 1} comes after the end ({name})")
    return faults


def _gaps(seqs: list[Any], declared: Sequence[tuple[int, int]]) -> tuple[list[int], list[str]]:
    """Indexes before which events are missing, and faults of the numbering."""
    gaps: set[int] = set()
    faults: list[str] = []
    ranges = _joined(declared)
    at = 0
    before = -1
    for index, seq in enumerate(seqs):
        if not isinstance(seq, int) or isinstance(seq, bool):
            faults.append(f"event {index} needs an integer seq, met {shown(seq, 40)}")
            continue
        if seq <= before:
            faults.append(f"seq {seq} comes after seq {before}")
            continue
        low = min(before + 1, seq)
        if seq > before + 1:
            gaps.add(index)
        # Numbers grow: what ends before this event matters to none that follows.
        while at < len(ranges) and ranges[at][1] < low - (index > 0):
            at += 1
        if at < len(ranges) and ranges[at][0] <= seq:
            gaps.add(index)
        before = seq
    if ranges and ranges[-1][1] >= before:
        gaps.add(len(seqs))
    return sorted(gaps), faults


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers as ranges that are sorted and do not overlap."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return joined


def _seq(events: Sequence[TraceEvent], index: int) -> int | None:
    if not 0 <= index < len(events):
        return None
    seq = events[index].get("seq")
    return seq if isinstance(seq, int) else None


def _seq_of(events: Sequence[TraceEvent], index: int | None) -> tuple[int, ...]:
    seq = None if index is None else _seq(events, index)
    return () if seq is None else (seq,)


# -- words -------------------------------------------------------------------------------------


def _stands(outcome: Outcome, monitor: Monitor) -> bool:
    """Whether an outcome does not depend on the order and number of events."""
    rule = monitor.contract.rule
    if outcome is not Outcome.FAIL:
        return False
    return isinstance(rule, Every) or (isinstance(rule, Never) and not rule.is_scoped)


def _doubts(monitor: Monitor, events: Sequence[TraceEvent]) -> tuple[tuple[Cause, ...], str]:
    causes = [cause for _, _, cause in monitor.doubts] + sorted(monitor.more_doubts)
    texts = []
    for index, why, _ in monitor.doubts[:3]:
        seq = None if index is None else _seq(events, index)
        texts.append(why if seq is None else f"event {seq}: {why}")
    more = len(monitor.doubts) - len(texts)
    if more > 0:
        texts.append(f"and {more} more")
    assert causes, f"{monitor.contract.id}: undecided without a cause"
    return Cause.ordered(causes), "; ".join(texts)


def _noticed(monitor: Monitor, words: _Words, reason: str) -> tuple[str, Witness]:
    notes = []
    for event, clause in monitor.missed:
        notes.append(f"event {event.get('seq')} was missed by type alone: {clause}")
    if notes:
        reason = f"{reason}; {notes[0]}"
    if words.has_limits:
        notes.append("a pass is no proof that nothing flowed: only this text was looked for")
    return reason, Witness(notes=tuple(notes))


class _Words:
    """Sentences of one contract, made once."""

    def __init__(self, monitor: Monitor) -> None:
        rule = monitor.contract.rule
        self.kind = monitor.contract.primitive
        self.roles = {info.name: describe_role(info.role) for info in monitor.roles}
        names: set[str] = set()
        self.any_type = False
        for info in monitor.roles:
            if info.types is None:
                self.any_type = True
            else:
                names.update(info.types)
        self.types = "any type" if self.any_type else ", ".join(sorted(names))
        self.absence = {
            "never": f"no {self.roles.get('never', '')}",
            "every": f"no {self.roles.get('every.match', '')} that breaks the condition",
            "at_most": f"no further {self.roles.get('at_most.of', '')}",
        }.get(self.kind, "")
        self.limit = rule.n if isinstance(rule, AtMost) else 0
        self.has_limits = isinstance(rule, Never) and any(
            operation.name == "contains" and matcher.variables
            for pattern in rule.match
            for _, matcher in pattern.where
            for operation in matcher.operations
        )
        self.passes: dict[Any, Finding] = {}
        self._passed = self._sentence()

    def _sentence(self) -> tuple[str, str]:
        roles = self.roles
        if self.kind == "never":
            scope = ""
            for name in ("after", "until", "between[0]", "between[1]"):
                if name in roles:
                    scope += f" {name} ({roles[name]})"
            return (
                f"no {roles['never']}{scope}",
                f"no {roles['never']}{scope}: its scope never opened, or its type cannot occur",
            )
        if self.kind == "eventually":
            return f"{roles['eventually']} was seen", ""
        if self.kind == "every":
            word = roles["every.match"]
            return f"every {word} satisfies the condition", f"no {word} was there to judge"
        if self.kind == "precedes":
            word = roles["second"]
            return f"every {word} was preceded", f"no {word} was there to be preceded"
        if self.kind == "leads_to":
            word = roles["when"]
            return f"every {word} was answered", f"no {word} was there to be answered"
        word = roles["at_most.of"]
        return f"at most {self.limit} {word}", f"no {word} was there to count"

    def passed(self, vacuous: bool, count: int) -> str:
        return f"{self._passed[vacuous] or self._passed[0]} ({count} events)"

    def looked_at(self, last: int, events: Sequence[TraceEvent], trace: Trace) -> str:
        if last < 0:
            return f"{self.types} in an empty trace"
        text = f"{self.types} in events {events[0].get('seq')} to {events[last].get('seq')}"
        if trace.coverage_assumed:
            return f"{text}, full coverage assumed"
        return text

    def absent(self, last: int, events: Sequence[TraceEvent]) -> str:
        if last < 0:
            return f"{self.absence} in an empty trace"
        return f"{self.absence} in {events[0].get('seq')}..{events[last].get('seq')}"

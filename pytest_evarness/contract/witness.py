"""Explains an outcome: the few events that show it, what is absent, what almost counted.

Runs only where a contract did not pass, so it may read the trace again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.contract.compile import Alternative, component, condition_of, match_of
from pytest_evarness.contract.rule import (
    AtMost,
    Eventually,
    Every,
    LeadsTo,
    Never,
    Precedes,
    binding_of,
    describe_event,
    describe_role,
)
from pytest_evarness.core.finding import MAX_WITNESS_EVENTS, MAX_WITNESS_TEXT, Witness
from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.core.matcher import MISSING, Path
from pytest_evarness.core.outcome import Cause, Outcome

if TYPE_CHECKING:
    from pytest_evarness.contract.monitor import Monitor
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["explain"]

_MAX_NEAREST: Final = 3
_MAX_LOOKED_AT: Final = 5000
"""Events among which the nearest one is looked for; the absence itself is of the whole trace."""


def explain(
    monitor: Monitor,
    events: Sequence[TraceEvent],
    outcome: Outcome,
    causes: tuple[Cause, ...],
    reason: str,
) -> tuple[str, Witness]:
    """The reason in one sentence, and the witness, of a contract that did not pass.

    Args:
        monitor: After the scan.
        events: The trace.
        outcome: Fail or indeterminate.
        causes: Of an indeterminate outcome.
        reason: What is known of an indeterminate outcome.
    """
    if outcome is Outcome.FAIL:
        return _Story(monitor, events).fail()
    if not causes:
        return reason, Witness()
    indexes = [index for index, _, _ in monitor.doubts if index is not None]
    seqs = _seqs(events, indexes)
    notes = tuple(_place(events, index, why) for index, why, _ in monitor.doubts)
    return reason, Witness(
        events=seqs[:MAX_WITNESS_EVENTS], notes=notes, context=_context(events, indexes)
    )


def _place(events: Sequence[TraceEvent], index: int | None, why: str) -> str:
    return why if index is None else f"event {events[index].get('seq')}: {why}"


def _seqs(events: Sequence[TraceEvent], indexes: Sequence[float]) -> tuple[int, ...]:
    found = {
        events[int(index)].get("seq")
        for index in indexes
        if index == int(index) and 0 <= index < len(events)
    }
    return tuple(sorted(seq for seq in found if isinstance(seq, int)))


def _context(events: Sequence[TraceEvent], indexes: Sequence[float]) -> JsonObject:
    """The text of each event, all together within 4 KiB."""
    chosen = sorted(
        {int(index) for index in indexes if index == int(index) and 0 <= index < len(events)}
    )[:MAX_WITNESS_EVENTS]
    if not chosen:
        return {}
    share = (MAX_WITNESS_TEXT * 3 // 4) // len(chosen)
    context: dict[str, Json] = {}
    for index in chosen:
        event = events[index]
        record = {key: event.get(key) for key in ("seq", "type", "node_id", "payload")}
        try:
            text = json.dumps(record, sort_keys=True)
        except RecursionError:
            text = "nests too deeply to be shown"
        context[str(event.get("seq"))] = text if len(text) <= share else text[: share - 1] + "…"
    return context


class _Story:
    """The account of one violation."""

    def __init__(self, monitor: Monitor, events: Sequence[TraceEvent]) -> None:
        self.monitor = monitor
        self.rule = monitor.contract.rule
        self.events = events
        self.last = len(events) - 1
        bad = monitor.bad or ()
        self.bad = [int(index) for index in bad if index == int(index) and 0 <= index <= self.last]
        self.names = [name for name, _ in binding_of(self.rule)]

    def seq(self, index: int) -> Any:
        return self.events[index].get("seq")

    def at(self, index: int) -> str:
        event = self.events[index]
        return f"event {event.get('seq')} ({event.get('type')})"

    def fail(self) -> tuple[str, Witness]:
        rule = self.rule
        if isinstance(rule, Never):
            return self._never(rule)
        if isinstance(rule, Eventually):
            return self._eventually(rule)
        if isinstance(rule, Every):
            return self._every(rule)
        if isinstance(rule, Precedes):
            return self._precedes(rule)
        if isinstance(rule, LeadsTo):
            return self._leads_to(rule)
        return self._at_most(rule)

    def witness(
        self,
        indexes: Sequence[int],
        *,
        absent: Sequence[str] = (),
        expected: str | None = None,
        observed: str | None = None,
        nearest: Sequence[tuple[int, str]] = (),
        notes: Sequence[str] = (),
    ) -> Witness:
        seqs = _seqs(self.events, indexes)
        kept = list(notes)
        if len(seqs) > MAX_WITNESS_EVENTS:
            kept.append(f"{len(seqs) - MAX_WITNESS_EVENTS} more events are left out")
        return Witness(
            events=seqs[:MAX_WITNESS_EVENTS],
            absent=tuple(absent),
            expected=expected,
            observed=observed,
            nearest=tuple({"seq": self.seq(index), "why": why} for index, why in nearest),
            notes=tuple(kept),
            context=_context(self.events, [*indexes, *(index for index, _ in nearest)]),
        )

    # -- each primitive

    def _never(self, rule: Never) -> tuple[str, Witness]:
        what = describe_role(rule.match)
        where = len(self.bad) - 2 if rule.between is not None else len(self.bad) - 1
        hit = self.bad[max(where, 0)]
        event = self.events[hit]
        text = f"event {event.get('seq')} is {describe_event(rule.match, str(event.get('type')))}"
        if rule.opens is not None and self.bad[0] < hit:
            text += f" after {self.at(self.bad[0])}"
        if rule.between is not None:
            text += f" and before {self.at(self.bad[-1])}"
        text += ": that must never happen"
        absent = []
        if rule.until is not None:
            since = self.seq(self.bad[0]) if self.bad[0] < hit else "the start"
            absent.append(f"no {describe_role(rule.until)} in ({since}, {self.seq(hit)})")
        return text, self.witness(
            self.bad, absent=absent, expected=f"no {what}", observed=self._values(hit)
        )

    def _values(self, index: int) -> str:
        """The values that the contract's conditions look at, in one event."""
        payload = self.events[index]["payload"]
        paths: dict[str, Path] = {}
        for info in self.monitor.roles:
            for pattern in info.role:
                paths.update({path.text: path for path, _ in pattern.where if not path.has_star})
                paths.update({path.text: path for _, path in pattern.bind})
        if isinstance(self.rule, Every):
            for path, _ in self.rule.condition.where:
                if not path.has_star:
                    paths[path.text] = path
        found = []
        for text, path in sorted(paths.items()):
            value = path.get(payload)
            if value is not MISSING:
                found.append(f"{text} {shown(value, 100)}")
        return ", ".join(found) if found else str(self.events[index].get("type"))

    def _eventually(self, rule: Eventually) -> tuple[str, Witness]:
        what = describe_role(rule.match)
        absent = [f"no {what} in {self._range()}"]
        text = f"{what} was never seen"
        nearest = self._nearest_to(self.monitor.roles[0].alternatives, range(len(self.events)))
        if nearest:
            index, why = nearest[0]
            text += f"; nearest is {self.at(index)}: {why}"
        return text, self.witness([], absent=absent, expected=what, nearest=nearest)

    def _range(self) -> str:
        return f"{self.seq(0)}..{self.seq(self.last)}"

    def _every(self, rule: Every) -> tuple[str, Witness]:
        (index,) = self.bad
        event = self.events[index]
        broken: list[str] = []
        wanted: list[str] = []
        for path, matcher in rule.condition.where:
            words = f"{path} {matcher.describe()}"
            wanted.append(words)
            if condition_of(path, matcher).test(event["payload"], event) is False:
                met = MISSING if path.has_star else path.get(event["payload"])
                got = "no such element" if path.has_star else _typed(met)
                broken.append(f"{path} is {got}, expected {matcher.describe()}")
        if rule.condition.satisfies is not None:
            wanted.append(f"satisfies {rule.condition.satisfies}")
            if not broken:
                broken.append(f"it does not satisfy {rule.condition.satisfies}")
        return f"{self.at(index)}: {'; '.join(broken)}", self.witness(
            [index], expected=", ".join(wanted), observed="; ".join(broken)
        )

    def _precedes(self, rule: Precedes) -> tuple[str, Witness]:
        (index,) = self.bad
        chain = " then ".join(describe_role(role) for role in rule.first)
        again = " that no earlier one had used" if rule.fresh else ""
        text = f"{self.at(index)} has no {chain}{again} before it"
        bound = self._binding(index)
        if bound:
            text += f" ({bound})"
        nearest: list[tuple[int, str]] = []
        for info in self.monitor.roles[1:]:
            nearest.extend(
                self._nearest_to(info.alternatives, range(index - 1, -1, -1), against=index)
            )
        if not nearest:
            later = self._nearest_to(
                self.monitor.roles[-1].alternatives, range(index, len(self.events)), against=index
            )
            nearest = [
                (at, "the same event" if at == index else "too late")
                for at, why in later
                if why in ("too early or already used", "")
            ]
        return text, self.witness(
            [index],
            absent=[f"no {chain}{again} before seq {self.seq(index)}"],
            expected=chain,
            observed=bound or self._values(index),
            nearest=nearest[:_MAX_NEAREST],
        )

    def _binding(self, index: int) -> str:
        payload = self.events[index]["payload"]
        return ", ".join(
            f"{name} = {_typed(path.get(payload))}" for name, path in binding_of(self.rule)
        )

    def _leads_to(self, rule: LeadsTo) -> tuple[str, Witness]:
        index = self.bad[0] if self.bad else self.last
        what = describe_role(rule.then)
        until = self.monitor.bad_at
        span = (
            f"({self.seq(index)}, {self.seq(until)}]"
            if until < self.last
            else (f"({self.seq(index)}, end]")
        )
        limit = f" within {rule.within} events" if rule.within is not None else ""
        text = f"{self.at(index)} was not answered by {what}{limit}"
        bound = self._binding(index)
        if bound:
            text += f" ({bound})"
        nearest = self._nearest_to(
            self.monitor.roles[0].alternatives, range(index + 1, len(self.events)), against=index
        )
        nearest = [
            (at, why if why != "too early or already used" else "too late") for at, why in nearest
        ]
        return text, self.witness(
            [index],
            absent=[f"no {what} in {span}"],
            expected=what + limit,
            observed=bound or None,
            nearest=nearest,
        )

    def _at_most(self, rule: AtMost) -> tuple[str, Witness]:
        info = self.monitor.roles[0]
        match = match_of(info.alternatives, info.count)
        last = self.bad[0]
        key = self.monitor.bad_key
        found: list[int] = []
        types = info.types
        for index in range(last + 1):
            event = self.events[index]
            if types is not None and event["type"] not in types:
                continue
            if not _may_be(info.alternatives, event) or match(event["payload"], event) is not True:
                continue
            if key is None or not rule.per or self._tuple(rule, event) == key:
                found.append(index)
        what = describe_role(rule.of)
        payload = self.events[last]["payload"]
        per = ", ".join(f"{path} {_typed(path.get(payload))}" for path in rule.per)
        of = f" of {per}" if per else ""
        text = f"{self.at(last)} is one too many: at most {rule.n} {what}{of} may be"
        return text, self.witness(
            found, expected=f"at most {rule.n} {what}{of}", observed=f"{len(found)} up to there"
        )

    def _tuple(self, rule: AtMost, event: TraceEvent) -> Any:
        parts = [component(event["payload"], path) for path in rule.per]
        return parts[0] if len(parts) == 1 else tuple(parts)

    # -- candidates

    def _nearest_to(
        self,
        alternatives: Sequence[Alternative],
        order: range,
        *,
        against: int | None = None,
    ) -> list[tuple[int, str]]:
        """Events that hold most of the conditions, and why each does not count."""
        best: list[tuple[int, int, str]] = []
        for rank, index in enumerate(order[:_MAX_LOOKED_AT]):
            event = self.events[index]
            for one in alternatives:
                if one.types is not None and event.get("type") not in one.types:
                    continue
                if one.types is None and not one.conditions and not one.uses:
                    continue
                missed = self._misses(one, event, against)
                best.append((len(missed), rank, "; ".join(missed) or "too early or already used"))
            if len(best) > 64:
                best = sorted(best)[:_MAX_NEAREST]
        return [(order[rank], why) for _, rank, why in sorted(best)[:_MAX_NEAREST]]

    def _misses(self, one: Alternative, event: TraceEvent, against: int | None) -> list[str]:
        missed = []
        payload = event["payload"]
        for condition in one.conditions:
            answer = condition.test(payload, event)
            if answer is True:
                continue
            if answer is False:
                missed.append(f"not {condition.text}{self._met(condition.text, payload)}")
            else:
                missed.append(answer.why)
        if against is None:
            return missed
        anchor = self.events[against]["payload"]
        bound = binding_of(self.rule)
        for at, path, membership in one.uses:
            name, source = bound[at]
            wanted = source.get(anchor)
            if path.has_star or membership:
                continue
            met = path.get(payload)
            if component(payload, path) != component(anchor, source):
                missed.append(f"{path} is {_typed(met)}, ${name} is {_typed(wanted)}")
        return missed

    def _met(self, text: str, payload: Any) -> str:
        for info in self.monitor.roles:
            for pattern in info.role:
                for path, _ in pattern.where:
                    if not path.has_star and text.startswith(f"{path} "):
                        return f": met {_typed(path.get(payload))}"
        return ""


def _may_be(alternatives: Sequence[Alternative], event: TraceEvent) -> bool:
    return any(one.types is None or event.get("type") in one.types for one in alternatives)


def _typed(value: Any) -> str:
    if value is MISSING:
        return "missing"
    return f"{shown(value, 100)} ({kind_of(value)})"

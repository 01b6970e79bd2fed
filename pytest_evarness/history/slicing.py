"""The fewest events of a run that still give one finding.

First go whole branches that the finding does not depend on, by the edges of the graph, by the
digest of what was approved and by intent; then single events; then fields of the payloads. Each
step is judged again, since taking something away can also make a violation: what stays has to be
the same finding, about the same events, in the same words.

Source: docs/history.md, "slice".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.outcome import Outcome
from pytest_evarness.core.trace import TERMINAL_TYPES, Trace
from pytest_evarness.errors import InputError
from pytest_evarness.report.causal import ancestors, ties

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.trace import TraceEvent
    from pytest_evarness.report.judged import JudgedCase, JudgedItem

__all__ = [
    "MAX_WORK",
    "Sliced",
    "Target",
    "ancestors",
    "find_contract",
    "paths",
    "signature",
    "slice_events",
    "without",
]

MAX_WORK = 2_000_000
"""Events judged in all steps together; then what is there is given as it is."""

_DEEPEST = 6

SUPPLIED_END: Mapping[str, Any] = {"type": "run_finished", "node_id": None, "payload": {}}
"""The end that a corpus supplies where an entry has none."""


@dataclass(frozen=True, slots=True)
class Target:
    """A finding that can be cut down.

    Attributes:
        trace: Run A, as the contract was judged on it.
    """

    case: JudgedCase
    judged: JudgedItem
    contract: Contract
    finding: Finding
    trace: Trace


@dataclass(frozen=True, slots=True)
class Sliced:
    """What stayed.

    Attributes:
        events: Numbered from 0.
        kept: The numbers that they had in the run; None for an end that a corpus supplies.
        branches: Nodes whose events went as a whole.
        finding: The contract over ``events``.
        is_open: Nothing ends the list, and that is part of the finding.
        is_supplied: The last event is the end that a corpus supplies, so it need not be written.
        steps: How often the contract was judged.
        fields: Fields of payloads before, and after.
        is_minimal: No single event or field can go; False where ``MAX_WORK`` was used up before.
    """

    events: tuple[TraceEvent, ...]
    kept: tuple[int | None, ...]
    branches: tuple[str, ...]
    finding: Finding
    is_open: bool
    is_supplied: bool
    steps: int
    fields: tuple[int, int]
    is_minimal: bool


def find_contract(case: JudgedCase, judged: JudgedItem, registry: Registry, trace: Trace) -> Target:
    """The contract behind a finding.

    Raises:
        InputError: The finding is none that a list of events can show.
    """
    from pytest_evarness.contract.model import from_definition

    name, item, finding = judged.nodeid, judged.item, judged.finding
    if finding is None:
        raise InputError(f"{name}: its case did not run to a judgement, so there is nothing to cut")
    if item.kind not in ("contract", "trace"):
        raise InputError(
            f"{name}: is of kind '{item.kind}', which is not judged from events alone"
            " (contract, trace)"
        )
    if finding.outcome is Outcome.PASS:
        raise InputError(
            f"{name}: passed, so there is nothing to cut down to (fail, indeterminate)"
        )
    if item.broken is not None or item.definition is None:
        raise InputError(f"{name}: could not judge ({finding.reason})")
    try:
        contract = from_definition(item.definition, registry)
    except (InputError, ValueError) as error:
        problem = error.problem if isinstance(error, InputError) else str(error)
        raise InputError(f"{name}: the contract cannot be read here: {problem}") from error
    target = Target(case, judged, contract, finding, trace)
    again = _Judge(target, registry).over(trace.events)
    if again.outcome is not finding.outcome:
        raise InputError(
            f"{name}: is {finding.outcome.word} for what no list of events shows: {finding.reason}"
        )
    return replace(target, finding=again)


def signature(
    finding: Finding, identity: Callable[[int], Any], *, text: Callable[[str], str] = str
) -> tuple[Any, ...]:
    """What two findings of one contract have in common when they are about the same thing.

    Args:
        identity: Of the event with a number, in a form in which both sides can be compared.
        text: Takes out of a text what may differ.
    """
    witness = finding.witness
    nearest: Any = witness.nearest[0] if witness.nearest else None
    return (
        finding.outcome,
        finding.causes,
        finding.leaning,
        finding.vacuous,
        None if finding.decisive_seq is None else identity(finding.decisive_seq),
        tuple(identity(seq) for seq in witness.events),
        witness.expected,
        None if witness.observed is None else text(witness.observed),
        len(witness.absent),
        None if nearest is None else (identity(nearest["seq"]), text(nearest["why"])),
    )


def slice_events(target: Target, registry: Registry) -> Sliced:
    """Cut a run down.

    The result depends on nothing but its arguments: work is counted, not timed.
    """
    return _Cutting(target, registry).done()


class _Judge:
    """One contract, compiled once, over many lists of events."""

    def __init__(self, target: Target, registry: Registry) -> None:
        from pytest_evarness.contract.evaluate import Evaluator

        self.contract = target.contract
        self.trace = target.trace
        self.evaluator = Evaluator([target.contract], registry)
        self.steps = 0
        self.work = 0

    def over(self, events: Sequence[TraceEvent]) -> Finding:
        """The finding, what a vacuous pass counts as applied."""
        from pytest_evarness.contract.corpus import settled

        self.steps += 1
        self.work += len(events) + 1
        (finding,) = self.evaluator.evaluate(replace(self.trace, events=events))
        return settled(self.contract, finding)


class _Cutting:
    def __init__(self, target: Target, registry: Registry) -> None:
        self.target = target
        self.judge = _Judge(target, registry)
        self.all = list(target.trace.events)
        self.kept = list(range(len(self.all)))
        self.wanted = signature(target.finding, lambda seq: seq)
        last = self.all[-1]["type"] if self.all else None
        # What closes the trace stays: without it the question would be another one.
        self.end = len(self.all) - 1 if target.trace.closed and last in TERMINAL_TYPES else None

    def done(self) -> Sliced:
        branches = self._cut_branches()
        is_minimal = self._cut_events()
        events = self._numbered(self.kept)
        kept: list[int | None] = list(self.kept)
        finding = self.judge.over(events)
        supplied = self._with_supplied_end(events, finding)
        if supplied is not None:
            events, finding = supplied
            kept[-1] = None
        before = _fields(events)
        events, no_field_can_go = self._cut_fields(events, finding)
        return Sliced(
            events=tuple(events),
            kept=tuple(kept),
            branches=tuple(branches),
            finding=self.judge.over(events),
            is_open=not self.target.trace.closed,
            is_supplied=supplied is not None,
            steps=self.judge.steps,
            fields=(before, _fields(events)),
            is_minimal=is_minimal and no_field_can_go,
        )

    def _numbered(self, kept: Sequence[int]) -> list[TraceEvent]:
        return [{**self.all[at], "seq": seq} for seq, at in enumerate(kept)]

    def _is_same(self, kept: Sequence[int]) -> bool:
        finding = self.judge.over(self._numbered(kept))
        return signature(finding, lambda seq: kept[seq]) == self.wanted

    def _without(self, gone: Iterable[int]) -> bool:
        """Take events away if the finding stays; whether it did."""
        out = set(gone) - {self.end}
        kept = [at for at in self.kept if at not in out]
        if len(kept) == len(self.kept) or not self._is_same(kept):
            return False
        self.kept = kept
        return True

    # -- branches

    def _cut_branches(self) -> list[str]:
        needed = self._needed()
        outside: dict[str, list[int]] = {}
        for at, event in enumerate(self.all):
            if at not in needed and event["node_id"] is not None:
                outside.setdefault(str(event["node_id"]), []).append(at)
        if not outside:
            return []
        if self._without(at for group in outside.values() for at in group):
            return sorted(outside)
        return sorted(name for name, group in outside.items() if self._without(group))

    def _needed(self) -> set[int]:
        """Events that those of the finding depend on: by edges, by digest, by intent."""
        witness = self.target.finding.witness
        nearest: Any = witness.nearest[:1]
        roots = {*witness.events, *(one["seq"] for one in nearest)}
        if self.target.finding.decisive_seq is not None:
            roots.add(self.target.finding.decisive_seq)
        nodes = {self.all[at]["node_id"] for at in roots if at < len(self.all)}
        graph = self.target.case.graph or {}
        above = {name for node in nodes for name in ancestors(graph, node)}
        needed = {
            at
            for at, event in enumerate(self.all)
            if at in roots or event["node_id"] is None or event["node_id"] in above
        }
        tied = {tie for at in roots if at < len(self.all) for tie in ties(self.all[at])}
        needed.update(at for at, event in enumerate(self.all) if not tied.isdisjoint(ties(event)))
        return needed

    # -- events

    def _cut_events(self) -> bool:
        """Whether no single event can go any more."""
        size = max(len(self.kept) // 2, 1)
        while True:
            is_cut = False
            stop = len(self.kept)
            while stop > 0:
                if self.judge.work > MAX_WORK:
                    return False
                start = max(stop - size, 0)
                is_cut = self._without(self.kept[start:stop]) or is_cut
                stop = start
            if size > 1:
                size //= 2
            elif not is_cut:
                return True

    def _with_supplied_end(
        self, events: list[TraceEvent], finding: Finding
    ) -> tuple[list[TraceEvent], Finding] | None:
        """The same with the end that a corpus supplies, where that makes no difference."""
        if self.end is None or events[-1]["type"] != SUPPLIED_END["type"]:
            return None
        changed = [*events[:-1], {**SUPPLIED_END, "seq": len(events) - 1}]
        again = self.judge.over(changed)
        same = signature(again, lambda seq: seq) == signature(finding, lambda seq: seq)
        return (changed, again) if same else None

    # -- fields

    def _cut_fields(
        self, events: list[TraceEvent], finding: Finding
    ) -> tuple[list[TraceEvent], bool]:
        """The events without what their payloads can lose, and whether nothing more can go."""
        wanted = self._words(finding)
        while True:
            is_cut = False
            for at in reversed(range(len(events))):
                for path in list(paths(events[at]["payload"])):
                    if self.judge.work > MAX_WORK:
                        return events, False
                    payload: Any = without(events[at]["payload"], path)
                    if payload is None:
                        continue
                    changed = [*events]
                    changed[at] = {**events[at], "payload": payload}
                    if self._words(self.judge.over(changed)) == wanted:
                        events, is_cut = changed, True
            if not is_cut:
                return events, True

    def _words(self, finding: Finding) -> tuple[Any, ...]:
        return (*signature(finding, lambda seq: seq), finding.reason, finding.witness.absent)


def _fields(events: Iterable[TraceEvent]) -> int:
    return sum(1 for event in events for _ in paths(event["payload"]))


def paths(
    value: Any, above: tuple[Any, ...] = (), *, deepest: int = _DEEPEST
) -> Iterator[tuple[Any, ...]]:
    """Every place in a value, the outer before the inner, the last before the first."""
    if len(above) >= deepest:
        return
    if isinstance(value, Mapping):
        keys: list[Any] = list(value)
    elif isinstance(value, list | tuple):
        keys = list(range(len(value)))
    else:
        return
    for key in reversed(keys):
        yield (*above, key)
        yield from paths(value[key], (*above, key), deepest=deepest)


def without(value: Any, path: Sequence[Any]) -> Any | None:
    """The value without what stands at ``path``, itself unchanged; None where nothing does."""
    first, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        if first not in value:
            return None
        made: Any = dict(value)
    elif isinstance(value, list | tuple) and isinstance(first, int) and first < len(value):
        made = list(value)
    else:
        return None
    if not rest:
        del made[first]
        return made
    inner = without(made[first], rest)
    if inner is None:
        return None
    made[first] = inner
    return made

"""Mutants of positive entries: runs that went another way, which a set of contracts should notice.

A mutant is noticed when a contract of the set that had passed on the entry, with something to see,
no longer does. A pass that became vacuous counts: reports show it apart, and so does the corpus.

Source: docs/contracts.md, "Mutants".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.contract.corpus import CorpusEntry, closed_events, settled, trace_of
from pytest_evarness.contract.rule import AtMost, Every, Pattern, roles_of
from pytest_evarness.core.matcher import same
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.core.schema import Place, Schema
from pytest_evarness.core.trace import TERMINAL_TYPES, Trace

if TYPE_CHECKING:
    from pytest_evarness.contract.corpus import Corpus
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["OPERATIONS", "EntryMutants", "Mutant", "Tally", "mutants_of", "mutate", "tally"]

OPERATIONS: Final = ("drop", "double", "swap", "alter")
_MAX_MUTANTS: Final = 5000


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way in which the run of an entry might have gone otherwise.

    Attributes:
        name: ``drop[1]``, ``swap[0,1]``, ``alter[1] args_digest=other``.
        says: The same in words.
        noticed_by: Contracts that told it from the entry, with what became of their pass.
        why: The note on it; None without, and for one that is noticed.
        is_as_good: The note says that the mutant is a run as good as the entry's own.
    """

    name: str
    says: str
    noticed_by: tuple[tuple[str, str], ...] = ()
    why: str | None = None
    is_as_good: bool = False

    @property
    def is_noticed(self) -> bool:
        """Whether a contract told it from the entry."""
        return bool(self.noticed_by)


@dataclass(frozen=True, slots=True)
class EntryMutants:
    """All mutants of one entry.

    Attributes:
        problem: Why the entry tells nothing: its contract does not pass on it.
        stale: Notes that are about no mutant that goes unnoticed.
        unread: Fields of its events, as ``TYPE.PATH``, that no contract of the set looks at; they
            are not altered.
    """

    contract: str
    entry: CorpusEntry
    mutants: tuple[Mutant, ...]
    problem: str | None = None
    stale: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``ID::positive[NAME]``."""
        return f"{self.contract}::{self.entry.label}"


@dataclass(frozen=True, slots=True)
class Tally:
    """How many mutants there are, and what became of them.

    Attributes:
        noticed: By some contract of the set.
        vacuous: Of these, only by passes that became vacuous.
        as_good: Unnoticed, and rightly so by their notes.
        admitted: Unnoticed, and wrongly so by their notes.
        bare: Unnoticed, without a note.
    """

    total: int
    noticed: int
    vacuous: int
    as_good: int
    admitted: int
    bare: int

    @property
    def due(self) -> int:
        """Those that ought to be noticed."""
        return self.total - self.as_good


def tally(made: Sequence[EntryMutants]) -> Tally:
    """Count the mutants of entries."""
    mutants = [one for entry in made for one in entry.mutants]
    unnoticed = [one for one in mutants if not one.is_noticed]
    return Tally(
        total=len(mutants),
        noticed=len(mutants) - len(unnoticed),
        vacuous=sum(
            one.is_noticed and all(word == "vacuous" for _, word in one.noticed_by)
            for one in mutants
        ),
        as_good=sum(one.is_as_good for one in unnoticed),
        admitted=sum(one.why is not None and not one.is_as_good for one in unnoticed),
        bare=sum(one.why is None for one in unnoticed),
    )


def mutate(
    tested: Sequence[tuple[Contract, Corpus]],
    contracts: Sequence[Contract],
    registry: Registry,
) -> list[EntryMutants]:
    """Every mutant of every positive entry, and who noticed it.

    Args:
        tested: Contracts whose positive entries are mutated, with their corpora; what fields hold
            in their negative entries is among the values that fields are altered to.
        contracts: The set that looks at each mutant; drafts look at none.
    """
    from pytest_evarness.contract.evaluate import Evaluator

    judges = [one for one in contracts if one.status != "draft"]
    evaluator = Evaluator(judges, registry)
    read = _Read(judges)
    bad = _bad_values(corpus for _, corpus in tested)

    def words(trace: Trace) -> list[str]:
        found = (
            settled(one, it) for one, it in zip(judges, evaluator.evaluate(trace), strict=True)
        )
        return [
            "vacuous" if one.vacuous and one.outcome is Outcome.PASS else one.outcome.word
            for one in found
        ]

    made = []
    for contract, corpus in tested:
        for entry in corpus.of_kind("positive"):
            before = words(trace_of(entry, contract, registry))
            own = [w for one, w in zip(judges, before, strict=True) if one.id == contract.id]
            problem = None
            if own != ["pass"]:
                said = own[0] if own else "a draft"
                problem = f"'{contract.id}' does not pass on it ({said})"
            found = []
            for name, says, events, is_open in mutants_of(entry, registry, read, bad):
                trace = _traced(entry, contract, registry, events, is_open=is_open)
                noticed = tuple(
                    (one.id, word)
                    for one, was, word in zip(judges, before, words(trace), strict=True)
                    if was == "pass" and word != "pass"
                )
                as_good = None if noticed else _note(entry.survives, name)
                admitted = None if noticed else _note(entry.unnoticed, name)
                why = as_good if as_good is not None else admitted
                found.append(Mutant(name, says, noticed, why, as_good is not None))
            made.append(
                EntryMutants(
                    contract.id,
                    entry,
                    tuple(found),
                    problem,
                    _stale(entry, found, _unaltered(entry, registry, found, bad)),
                    tuple(read.unread(entry)),
                )
            )
    return made


def _traced(
    entry: CorpusEntry,
    contract: Contract,
    registry: Registry,
    events: list[JsonObject],
    *,
    is_open: bool,
) -> Trace:
    whole = trace_of(entry, contract, registry)
    numbered: list[Any] = [{**event, "seq": seq} for seq, event in enumerate(events)]
    return Trace(numbered, closed=not is_open, coverage=whole.coverage)


def _keys(name: str) -> tuple[str, str]:
    """Notes that a mutant answers to: its name, and all alterations of its field."""
    return name, name.partition("=")[0]


def _note(notes: Mapping[str, str], name: str) -> str | None:
    return next((notes[key] for key in _keys(name) if key in notes), None)


def _unaltered(
    entry: CorpusEntry,
    registry: Registry,
    mutants: Sequence[Mutant],
    bad: Mapping[tuple[str, tuple[str, ...]], Sequence[Any]],
) -> set[str]:
    """Mutants that a larger set of contracts would have: a note on one of them is not stale."""
    if not entry.survives and not entry.unnoticed:
        return set()
    names = {name for name, *_ in mutants_of(entry, registry, lambda _, __: True, bad)}
    return names - {one.name for one in mutants}


def _stale(
    entry: CorpusEntry, mutants: Sequence[Mutant], unaltered: Iterable[str]
) -> tuple[str, ...]:
    """Notes on what is noticed, or on what is no mutant in any set of contracts.

    What fields are altered to depends on the set; which fields there are does not.
    """
    noticed = {one.name for one in mutants if one.is_noticed}
    unnoticed = {one.name for one in mutants} - noticed | set(unaltered)
    keys = {key for name in unnoticed for key in _keys(name)}
    fields = {name.partition("=")[0] for name in (*noticed, *unnoticed)}
    return tuple(
        key
        for key in (*entry.survives, *entry.unnoticed)
        if key not in keys
        and (key in noticed or "=" not in key or key.partition("=")[0] not in fields)
    )


def _bad_values(corpora: Iterable[Corpus]) -> dict[tuple[str, tuple[str, ...]], list[Any]]:
    """What fields hold in negative entries, by event type and path, in the order of the files."""
    found: dict[tuple[str, tuple[str, ...]], list[Any]] = {}
    for corpus in corpora:
        for entry in corpus.of_kind("negative"):
            for event in entry.events:
                payload: Any = event["payload"]
                for steps, value in _leaves(payload, ()):
                    known = found.setdefault((str(event["type"]), steps), [])
                    if not any(same(value, one) for one in known):
                        known.append(value)
    return found


class _Read:
    """Which fields of events the contracts of a set look at."""

    def __init__(self, contracts: Iterable[Contract]) -> None:
        self._paths: dict[str | None, set[tuple[str | int | None, ...]]] = {}
        for contract in contracts:
            rule = contract.rule
            for _, role in roles_of(rule):
                for pattern in role:
                    self._note(pattern, pattern)
                    if isinstance(rule, Every):
                        self._note(pattern, rule.condition)
                    if isinstance(rule, AtMost):
                        self._add(pattern, [path.names for path in rule.per])

    def _note(self, whose: Pattern, pattern: Pattern) -> None:
        paths = [path.names for path, _ in pattern.where] + [path.names for _, path in pattern.bind]
        # Nobody knows what a predicate looks at.
        self._add(whose, [*paths, ()] if pattern.satisfies is not None else paths)

    def _add(self, whose: Pattern, paths: Iterable[tuple[str | int | None, ...]]) -> None:
        for kind in whose.types or (None,):
            self._paths.setdefault(kind, set()).update(paths)

    def __call__(self, kind: str, steps: tuple[str, ...]) -> bool:
        """Whether some contract looks at a field, at what holds it, or at what it holds."""
        known = self._paths.get(kind, set()) | self._paths.get(None, set())
        return any(path[: len(steps)] == steps[: len(path)] for path in known)

    def unread(self, entry: CorpusEntry) -> Iterator[str]:
        """The fields of an entry that none looks at, once each."""
        found: dict[str, None] = {}
        for event in entry.events:
            kind, payload = str(event["type"]), event["payload"]
            for steps, _ in _leaves(payload, ()):  # type: ignore[arg-type]
                if not self(kind, steps):
                    found[f"{kind}.{'.'.join(steps)}"] = None
        yield from found


# -- the mutants ---------------------------------------------------------------------------------


def mutants_of(
    entry: CorpusEntry,
    registry: Registry,
    read: Callable[[str, tuple[str, ...]], bool],
    bad: Mapping[tuple[str, tuple[str, ...]], Sequence[Any]],
) -> Iterator[tuple[str, str, list[JsonObject], bool]]:
    """``(name, in words, events, is open)`` of every mutant of an entry.

    The end that is supplied is no event of the entry: it is supplied again. An entry that writes
    its own end loses it where that is dropped, and is open then.

    Args:
        read: Whether a field, by event type and path, is one to alter.
        bad: Values by event type and path that fields are altered to beside the usual ones.
    """
    yield from islice(_all(entry, registry, read, bad), _MAX_MUTANTS)


def _all(
    entry: CorpusEntry,
    registry: Registry,
    read: Callable[[str, tuple[str, ...]], bool],
    bad: Mapping[tuple[str, tuple[str, ...]], Sequence[Any]],
) -> Iterator[tuple[str, str, list[JsonObject], bool]]:
    own = list(entry.events)
    end = closed_events(entry)[len(own) :]

    def word(index: int) -> str:
        return f"event {index} ({own[index]['type']})"

    for index in range(len(own)):
        rest = own[:index] + own[index + 1 :]
        was_end = index == len(own) - 1 and own[index]["type"] in TERMINAL_TYPES
        yield f"drop[{index}]", f"without {word(index)}", rest + end, entry.open or was_end
    for index in range(len(own)):
        twice = own[: index + 1] + own[index:]
        yield f"double[{index}]", f"{word(index)} twice", twice + end, entry.open
    for index in range(len(own) - 1):
        swapped = [*own[:index], own[index + 1], own[index], *own[index + 2 :]]
        says = f"{word(index + 1)} before {word(index)}"
        yield f"swap[{index},{index + 1}]", says, swapped + end, entry.open
    for index, event in enumerate(own):
        for steps, what, says, altered in _altered(event, registry, read, bad):
            events = [*own[:index], altered, *own[index + 1 :]]
            path = ".".join(steps)
            name = f"alter[{index}] {path}={what}"
            yield name, f"{word(index)} with {path} {says}", events + end, entry.open


def _altered(
    event: JsonObject,
    registry: Registry,
    read: Callable[[str, tuple[str, ...]], bool],
    bad: Mapping[tuple[str, tuple[str, ...]], Sequence[Any]],
) -> Iterator[tuple[tuple[str, ...], str, str, JsonObject]]:
    """Each leaf of the payload with another value, and gone where its type can lack it."""
    payload: Any = event["payload"]
    kind = registry.event_types.find(str(event["type"]))
    schema = None if kind is None else Schema(kind.schema, is_listed=True)
    for steps, value in _leaves(payload, ()):
        if not read(str(event["type"]), steps):
            continue
        place = schema.place(steps) if schema is not None else None
        known = place.values() if isinstance(place, Place) else None
        for what, other in _others(value, known):
            says = f"{_short(other)} instead of {_short(value)}"
            yield steps, what, says, _with(event, steps, other)
        tried = [value, *(other for _, other in _others(value, known))]
        for other in bad.get((str(event["type"]), steps), ()):
            if not any(same(other, one) for one in tried):
                says = f"{_short(other)} instead of {_short(value)}"
                yield steps, _short(other), says, _with(event, steps, other)
        # An event that lacks what its type always has is a broken record, and no other run.
        if not isinstance(place, Place) or place.may_miss:
            yield steps, "gone", "gone", _without(event, steps)


def _leaves(
    value: Mapping[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, item in value.items():
        here = (*above, str(key))
        if isinstance(item, Mapping) and item:
            yield from _leaves(item, here)
        else:
            yield here, item


def _others(value: Any, known: Sequence[Any] | None) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "other", not value
    elif isinstance(value, (int, float)):
        yield "less", value - 1
        yield "more", value + 1
    elif isinstance(value, str):
        words = [one for one in known or () if isinstance(one, str) and one != value]
        yield "other", words[0] if words else f"{value}~"
    elif value is None:
        yield "other", "~"
    elif isinstance(value, (list, tuple)) and value:
        yield "other", list(value[1:])


def _with(event: JsonObject, steps: tuple[str, ...], value: Any) -> JsonObject:
    made: Any = copy.deepcopy(event)
    inner = made["payload"]
    for step in steps[:-1]:
        inner = inner[step]
    inner[steps[-1]] = value
    return made  # type: ignore[no-any-return]


def _without(event: JsonObject, steps: tuple[str, ...]) -> JsonObject:
    made: Any = copy.deepcopy(event)
    inner = made["payload"]
    for step in steps[:-1]:
        inner = inner[step]
    del inner[steps[-1]]
    return made  # type: ignore[no-any-return]


def _short(value: Any) -> str:
    from pytest_evarness.core.json import shown

    return shown(value, 40)

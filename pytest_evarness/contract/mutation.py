"""Mutants of positive entries: runs that went another way, which a set of contracts should notice.

A mutant is noticed when a contract of the set that had passed on the entry, with something to see,
no longer does. A pass that became vacuous counts: reports show it apart, and so does the corpus.

Source: docs/contracts.md, "Mutants".
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.contract.corpus import CorpusEntry, closed_events, settled, trace_of
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.core.schema import Place, Schema
from pytest_evarness.core.trace import TERMINAL_TYPES, Trace

if TYPE_CHECKING:
    from pytest_evarness.contract.corpus import Corpus
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["OPERATIONS", "EntryMutants", "Mutant", "mutants_of", "mutate"]

OPERATIONS: Final = ("drop", "double", "swap", "alter")
_MAX_MUTANTS: Final = 5000


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way in which the run of an entry might have gone otherwise.

    Attributes:
        name: ``drop[1]``, ``swap[0,1]``, ``alter[1] args_digest=other``.
        says: The same in words.
        noticed_by: Contracts that told it from the entry, with what became of their pass.
        why: The note that says why nobody need notice it; None without.
    """

    name: str
    says: str
    noticed_by: tuple[tuple[str, str], ...] = ()
    why: str | None = None

    @property
    def survives(self) -> bool:
        """Whether no contract noticed it."""
        return not self.noticed_by


@dataclass(frozen=True, slots=True)
class EntryMutants:
    """All mutants of one entry.

    Attributes:
        problem: Why the entry tells nothing: its contract does not pass on it.
        stale: Notes that are about no mutant that survives.
    """

    contract: str
    entry: CorpusEntry
    mutants: tuple[Mutant, ...]
    problem: str | None = None
    stale: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``ID::positive[NAME]``."""
        return f"{self.contract}::{self.entry.label}"


def mutate(
    tested: Sequence[tuple[Contract, Corpus]],
    contracts: Sequence[Contract],
    registry: Registry,
) -> list[EntryMutants]:
    """Every mutant of every positive entry, and who noticed it.

    Args:
        tested: Contracts whose positive entries are mutated, with their corpora.
        contracts: The set that looks at each mutant; drafts look at none.
    """
    from pytest_evarness.contract.evaluate import Evaluator

    judges = [one for one in contracts if one.status != "draft"]
    evaluator = Evaluator(judges, registry)

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
                problem = (
                    f"'{contract.id}' does not pass on it (it is {own[0] if own else 'a draft'})"
                )
            found = []
            for name, says, events, is_open in mutants_of(entry, registry):
                trace = _traced(entry, contract, registry, events, is_open=is_open)
                noticed = tuple(
                    (one.id, word)
                    for one, was, word in zip(judges, before, words(trace), strict=True)
                    if was == "pass" and word != "pass"
                )
                why = None if noticed else _note(entry, name)
                found.append(Mutant(name, says, noticed, why))
            made.append(
                EntryMutants(contract.id, entry, tuple(found), problem, _stale(entry, found))
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


def _note(entry: CorpusEntry, name: str) -> str | None:
    """The note that covers a mutant: its own, else its place's, else its operation's."""
    place = name.split(" ", 1)[0]
    operation = place.split("[", 1)[0]
    for key in (name, place, operation):
        if key in entry.survives:
            return entry.survives[key]
    return None


def _stale(entry: CorpusEntry, mutants: Sequence[Mutant]) -> tuple[str, ...]:
    used = set()
    for mutant in mutants:
        if mutant.why is not None:
            place = mutant.name.split(" ", 1)[0]
            names = (mutant.name, place, place.split("[", 1)[0])
            used.add(next(key for key in names if key in entry.survives))
    return tuple(key for key in entry.survives if key not in used)


# -- the mutants ---------------------------------------------------------------------------------


def mutants_of(
    entry: CorpusEntry, registry: Registry
) -> Iterator[tuple[str, str, list[JsonObject], bool]]:
    """``(name, in words, events, is open)`` of every mutant of an entry.

    The end that is supplied is no event of the entry: it is supplied again. An entry that writes
    its own end loses it where that is dropped, and is open then.
    """
    yield from islice(_all(entry, registry), _MAX_MUTANTS)


def _all(
    entry: CorpusEntry, registry: Registry
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
        for steps, what, says, altered in _altered(event, registry):
            events = [*own[:index], altered, *own[index + 1 :]]
            path = ".".join(steps)
            name = f"alter[{index}] {path}={what}"
            yield name, f"{word(index)} with {path} {says}", events + end, entry.open


def _altered(
    event: JsonObject, registry: Registry
) -> Iterator[tuple[tuple[str, ...], str, str, JsonObject]]:
    """Each leaf of the payload with another value, and each of them gone."""
    payload: Any = event["payload"]
    kind = registry.event_types.find(str(event["type"]))
    schema = None if kind is None else Schema(kind.schema, is_listed=True)
    for steps, value in _leaves(payload, ()):
        place = schema.place(steps) if schema is not None else None
        known = place.values() if isinstance(place, Place) else None
        for what, other in _others(value, known):
            says = f"{_short(other)} instead of {_short(value)}"
            yield steps, what, says, _with(event, steps, other)
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

"""How an entry is changed: which events and fields, and to which values.

Only changes that some contract of the set could mind are made; :mod:`~.meaning` knows which.

Source: docs/contracts.md, "Mutants".
"""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pytest_evarness.contract.corpus import closed_events
from pytest_evarness.contract.meaning import Aim, Meaning, Sight
from pytest_evarness.contract.rule import AtMost, Every, Pattern, binding_of, roles_of
from pytest_evarness.core.matcher import (
    MISSING,
    SECRET_PREFIX,
    Matcher,
    Operation,
    Path,
    Variable,
    same,
)
from pytest_evarness.core.schema import Place, Schema
from pytest_evarness.core.trace import TERMINAL_TYPES

if TYPE_CHECKING:
    from pytest_evarness.contract.corpus import Corpus, CorpusEntry
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["Change", "Maker", "Unchanged"]

Steps: TypeAlias = tuple[str, ...]
Field: TypeAlias = tuple[str, Steps]
"""Event type and place in the payload."""

_MAX_MUTANTS: Final = 5000
_MAX_VALUES: Final = 50
_END: Final = "the end of the run"
_ORDER: Final = ("gt", "gte", "lt", "lte")
_COMPARED: Final = ("equals", "not", "contains", "not_contains")


@dataclass(frozen=True, slots=True)
class Change:
    """One mutant: the run of an entry with one thing changed.

    Attributes:
        name: ``drop[1]``, ``swap[0,1]``, ``alter[1] args_digest=other``.
        says: The same in words.
        events: What is left, its end supplied.
        is_open: The change took the end away, or there was none.
        aims: Who could mind it: ``second of approval-precedes-send``.
    """

    name: str
    says: str
    events: tuple[JsonObject, ...]
    is_open: bool
    aims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unchanged:
    """What of an entry no contract of a set could mind, whatever stood there.

    Attributes:
        events: ``TYPE (event N)``: no contract has a role for it.
        unread: ``TYPE.PATH``: no contract looks at the field.
        inert: ``TYPE.PATH``: contracts look at it, and no other value would be worse for one.
    """

    events: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    inert: tuple[str, ...] = ()


class Maker:
    """Makes the mutants of entries for one set of contracts.

    Args:
        contracts: The set; its drafts are left out by the caller.
        corpora: What fields hold in their negative entries is among what fields are altered to.
    """

    def __init__(
        self, contracts: Sequence[Contract], corpora: Iterable[Corpus], registry: Registry
    ) -> None:
        self._registry = registry
        self._sights = [Sight(one, registry) for one in contracts]
        self._read = _Read(contracts)
        self._values = _Values(contracts, corpora)
        self._schemas: dict[str, Schema | None] = {}

    def of(self, entry: CorpusEntry, passing: Container[str]) -> tuple[list[Change], Unchanged]:
        """The mutants of an entry, and what of it is not changed.

        The end that is supplied is no event of the entry: it is supplied again. An entry that
        writes its own end loses it where that is dropped, and is open then.

        Args:
            passing: Contracts that pass on the entry; no other could tell a mutant from it.
        """
        sights = [one for one in self._sights if one.contract.id in passing]
        meaning = Meaning(sights, entry.events)
        inert: dict[str, None] = {}
        moved = islice(self._moved(entry, meaning), _MAX_MUTANTS)
        altered = self._altered(entry, meaning, inert)
        made = [*moved]
        made += islice(altered, _MAX_MUTANTS - len(made))
        unread = dict.fromkeys(
            _field(str(event["type"]), steps)
            for event in entry.events
            for steps, _ in _leaves(event["payload"], ())
            if not self._read(str(event["type"]), steps)
        )
        events = [
            f"{event['type']} (event {index})"
            for index, event in enumerate(entry.events)
            if not meaning.names(index) and event["type"] not in TERMINAL_TYPES
        ]
        return made, Unchanged(tuple(events), tuple(unread), tuple(inert))

    def possible(self, entry: CorpusEntry) -> frozenset[str]:
        """Names of mutants that some set would have, an alteration by its field alone."""
        count = len(entry.events)
        names = {f"{word}[{index}]" for index in range(count) for word in ("drop", "double")}
        names |= {f"swap[{index},{index + 1}]" for index in range(count - 1)}
        for index, event in enumerate(entry.events):
            for steps, _ in _leaves(event["payload"], ()):
                names.add(f"alter[{index}] {'.'.join(steps)}")
        return frozenset(names)

    # -- events ----------------------------------------------------------------------------------

    def _moved(self, entry: CorpusEntry, meaning: Meaning) -> Iterator[Change]:
        own = list(entry.events)
        end = closed_events(entry)[len(own) :]
        ends = [event["type"] in TERMINAL_TYPES for event in own]

        def word(index: int) -> str:
            return f"event {index} ({own[index]['type']})"

        def change(
            name: str, says: str, events: list[JsonObject], aims: tuple[Aim, ...], *ended: bool
        ) -> Iterator[Change]:
            told = [*([_END] if any(ended) else []), *(aim.text for aim in aims)]
            if told:
                is_open = entry.open or (name.startswith("drop") and any(ended))
                yield Change(name, says, (*events, *end), is_open, tuple(told))

        for at in range(len(own)):
            rest = own[:at] + own[at + 1 :]
            yield from change(
                f"drop[{at}]", f"without {word(at)}", rest, meaning.drop(at), ends[at]
            )
        for at in range(len(own)):
            twice = own[: at + 1] + own[at:]
            yield from change(
                f"double[{at}]", f"{word(at)} twice", twice, meaning.double(at), ends[at]
            )
        for at in range(len(own) - 1):
            swapped = [*own[:at], own[at + 1], own[at], *own[at + 2 :]]
            says = f"{word(at + 1)} before {word(at)}"
            aims = meaning.swap(at)
            yield from change(f"swap[{at},{at + 1}]", says, swapped, aims, ends[at], ends[at + 1])

    # -- fields ----------------------------------------------------------------------------------

    def _altered(
        self, entry: CorpusEntry, meaning: Meaning, inert: dict[str, None]
    ) -> Iterator[Change]:
        own = list(entry.events)
        end = closed_events(entry)[len(own) :]
        for index, event in enumerate(own):
            kind = str(event["type"])
            for steps, value in _leaves(event["payload"], ()):
                if not self._read(kind, steps):
                    continue
                is_idle = True
                # Two values that every contract takes alike are one mutant.
                known: set[tuple[object, ...]] = set()
                for what, says, altered in self._variants(entry, event, steps, value):
                    aims = meaning.alter(index, altered)
                    if not aims:
                        continue
                    is_idle = False
                    seen = meaning.seen(index, altered)
                    if seen in known:
                        continue
                    known.add(seen)
                    path = ".".join(steps)
                    yield Change(
                        f"alter[{index}] {path}={what}",
                        f"event {index} ({kind}) with {path} {says}",
                        (*own[:index], altered, *own[index + 1 :], *end),
                        entry.open,
                        tuple(aim.text for aim in aims),
                    )
                if is_idle:
                    inert[_field(kind, steps)] = None

    def _variants(
        self, entry: CorpusEntry, event: JsonObject, steps: Steps, value: Any
    ) -> Iterator[tuple[str, str, JsonObject]]:
        """``(to what, in words, the event)`` of each other value, and of none at all."""
        kind = str(event["type"])
        schema = self._schema(kind)
        place = schema.place(steps) if schema is not None else None
        words = place.values() if isinstance(place, Place) else None
        tried = [value]
        named = [
            *_others(value, words),
            *((_short(one), one) for one in words or ()),
            *((_short(one), one) for one in self._values.of((kind, steps), entry)),
        ]
        for what, other in named:
            if len(tried) > _MAX_VALUES or any(same(other, one) for one in tried):
                continue
            tried.append(other)
            says = f"{_short(other)} instead of {_short(value)}"
            yield what, says, _with(event, steps, other)
        # An event that lacks what its type always has is a broken record, and no other run: that
        # is for contracts which ask whether it is there.
        is_asked = self._values.is_asked_for((kind, steps))
        if not isinstance(place, Place) or place.may_miss or is_asked:
            yield "gone", "gone", _without(event, steps)

    def _schema(self, kind: str) -> Schema | None:
        if kind not in self._schemas:
            known = self._registry.event_types.find(kind)
            self._schemas[kind] = None if known is None else Schema(known.schema, is_listed=True)
        return self._schemas[kind]


# -- what contracts look at ------------------------------------------------------------------------


def _asked(contract: Contract) -> Iterator[tuple[Pattern, Path, Matcher]]:
    """Every condition of a contract, with the pattern whose events it is asked of."""
    for _, role in roles_of(contract.rule):
        for pattern in role:
            for path, matcher in pattern.where:
                yield pattern, path, matcher
            if isinstance(contract.rule, Every):
                for path, matcher in contract.rule.condition.where:
                    yield pattern, path, matcher


class _Read:
    """Which fields of events the contracts of a set look at."""

    def __init__(self, contracts: Iterable[Contract]) -> None:
        self._paths: dict[str | None, set[tuple[str | int | None, ...]]] = {}
        for contract in contracts:
            rule = contract.rule
            for pattern, path, _ in _asked(contract):
                self._add(pattern, path.names)
            for _, role in roles_of(rule):
                for pattern in role:
                    for _, path in pattern.bind:
                        self._add(pattern, path.names)
                    if isinstance(rule, AtMost):
                        for path in rule.per:
                            self._add(pattern, path.names)
                    asks = [pattern, *([rule.condition] if isinstance(rule, Every) else [])]
                    if any(one.satisfies is not None for one in asks):
                        # Nobody knows what a predicate looks at.
                        self._add(pattern, ())

    def _add(self, whose: Pattern, path: tuple[str | int | None, ...]) -> None:
        for kind in whose.types or (None,):
            self._paths.setdefault(kind, set()).add(path)

    def __call__(self, kind: str, steps: Steps) -> bool:
        """Whether some contract looks at a field, at what holds it, or at what it holds."""
        known = self._paths.get(kind, set()) | self._paths.get(None, set())
        return any(path[: len(steps)] == steps[: len(path)] for path in known)


class _Values:
    """What a field may be altered to beside its likes.

    What it holds in negative entries, what contracts compare it with, and what the fields hold that
    it is tied to in the same entry.
    """

    def __init__(self, contracts: Iterable[Contract], corpora: Iterable[Corpus]) -> None:
        self._bad: dict[Field, list[Any]] = {}
        self._asked: list[tuple[Pattern, Path, list[Any]]] = []
        self._there: list[tuple[Pattern, Path]] = []
        self._ties: list[list[tuple[Pattern, Path]]] = []
        for corpus in corpora:
            for entry in corpus.of_kind("negative"):
                for event in entry.events:
                    for steps, value in _leaves(event["payload"], ()):
                        _add(self._bad.setdefault((str(event["type"]), steps), []), value)
        for contract in contracts:
            for pattern, path, matcher in _asked(contract):
                values = [one for operation in matcher.operations for one in _operands(operation)]
                if values:
                    self._asked.append((pattern, path, values))
                if any(operation.name == "exists" for operation in matcher.operations):
                    self._there.append((pattern, path))
            self._ties += _ties(contract)

    def is_asked_for(self, field: Field) -> bool:
        """Whether a contract asks that the field is there."""
        kind, steps = field
        return any(_is_of(pattern, kind) and path.names == steps for pattern, path in self._there)

    def of(self, field: Field, entry: CorpusEntry) -> Iterator[Any]:
        """The values for one field of an entry's events."""
        kind, steps = field
        yield from self._bad.get(field, ())
        for pattern, path, values in self._asked:
            if _is_of(pattern, kind) and path.names == steps:
                yield from values
            elif _is_of(pattern, kind) and path.names == steps[: len(path.names)]:
                # A secret counts wherever it stands inside.
                yield from (one for one in values if _is_placeholder(one))
        for tied in self._ties:
            if any(_is_of(pattern, kind) and path.names == steps for pattern, path in tied):
                for event in entry.events:
                    for pattern, path in tied:
                        value = MISSING
                        if _is_of(pattern, str(event["type"])) and not path.has_star:
                            value = path.get(event["payload"])
                        if value is not MISSING:
                            yield value


def _ties(contract: Contract) -> Iterator[list[tuple[Pattern, Path]]]:
    """The places that a contract ties: those of each variable, and each path of ``per``."""
    rule = contract.rule
    if isinstance(rule, AtMost):
        for path in rule.per:
            yield [(pattern, path) for pattern in rule.of]
    for name, _ in binding_of(rule):
        tied = []
        for _, role in roles_of(rule):
            for pattern in role:
                tied += [(pattern, path) for one, path in pattern.bind if one == name]
                tied += [(pattern, path) for path, one in pattern.where if name in one.variables]
        yield tied


def _operands(operation: Operation) -> Iterator[Any]:
    argument = operation.argument
    if operation.name == "secret":
        yield f"{SECRET_PREFIX}{'KEY' if argument == 'any' else argument}»"
    elif operation.name == "in":
        yield from (one for one in argument if not isinstance(one, Variable))
    elif operation.name in _ORDER and _is_number(argument):
        yield from (argument - 1, argument, argument + 1)
    elif operation.name in _COMPARED and not isinstance(argument, Variable):
        yield argument


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(SECRET_PREFIX)


def _is_of(pattern: Pattern, kind: str) -> bool:
    return pattern.types is None or kind in pattern.types


def _add(values: list[Any], value: Any) -> None:
    if not any(same(value, one) for one in values):
        values.append(value)


# -- payloads --------------------------------------------------------------------------------------


def _leaves(value: Any, above: Steps) -> Iterator[tuple[Steps, Any]]:
    for key, item in value.items():
        here = (*above, str(key))
        if isinstance(item, Mapping) and item:
            yield from _leaves(item, here)
        else:
            yield here, item


def _field(kind: str, steps: Steps) -> str:
    return f"{kind}.{'.'.join(steps)}"


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


def _with(event: JsonObject, steps: Steps, value: Any) -> JsonObject:
    made: Any = copy.deepcopy(event)
    inner = made["payload"]
    for step in steps[:-1]:
        inner = inner[step]
    inner[steps[-1]] = value
    return made  # type: ignore[no-any-return]


def _without(event: JsonObject, steps: Steps) -> JsonObject:
    made: Any = copy.deepcopy(event)
    inner = made["payload"]
    for step in steps[:-1]:
        inner = inner[step]
    del inner[steps[-1]]
    return made  # type: ignore[no-any-return]


def _short(value: Any) -> str:
    from pytest_evarness.core.json import shown

    return shown(value, 40)

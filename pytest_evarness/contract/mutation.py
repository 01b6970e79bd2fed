"""Mutants of positive entries: runs that went another way, which a set of contracts should notice.

Only changes that some contract of the set could mind are made (:mod:`~.meaning`). A mutant is
noticed when a contract of the set that had passed on the entry no longer does. A pass that became
vacuous counts: reports show it apart, and so does the corpus.

Source: docs/contracts.md, "Mutants".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.contract.corpus import CorpusEntry, settled, trace_of
from pytest_evarness.contract.mutants import Change, Maker, Unchanged
from pytest_evarness.core.expression import Patience
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.core.trace import Trace

if TYPE_CHECKING:
    from pytest_evarness.contract.corpus import Corpus
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.registry import Registry

__all__ = ["EntryMutants", "Mutant", "Tally", "mutate", "tally"]

_PASSES: Final = ("pass", "vacuous")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way in which the run of an entry might have gone otherwise.

    Attributes:
        name: ``drop[1]``, ``swap[0,1]``, ``alter[1] args_digest=other``.
        says: The same in words.
        aims: Who could have minded it: ``second of approval-precedes-send``.
        noticed_by: Contracts that told it from the entry, with what became of their pass.
        why: The note on it; None without, and for one that is noticed.
        is_as_good: The note says that the mutant is a run as good as the entry's own.
    """

    name: str
    says: str
    aims: tuple[str, ...] = ()
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
        unchanged: What of it no contract of the set could mind.
    """

    contract: str
    entry: CorpusEntry
    mutants: tuple[Mutant, ...]
    problem: str | None = None
    stale: tuple[str, ...] = ()
    unchanged: Unchanged = field(default_factory=Unchanged)

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
    judges = [one for one in contracts if one.status != "draft"]
    maker = Maker(judges, [corpus for _, corpus in tested], registry)
    words = _Words(judges, registry)
    with Patience():
        return [
            _mutated(contract, entry, maker, words)
            for contract, corpus in tested
            for entry in corpus.of_kind("positive")
        ]


class _Words:
    """What the contracts of a set say of traces, one word each."""

    def __init__(self, judges: Sequence[Contract], registry: Registry) -> None:
        from pytest_evarness.contract.evaluate import Evaluator

        self.judges = judges
        self.registry = registry
        self._evaluator = Evaluator(judges, registry)

    def __call__(self, trace: Trace) -> list[str]:
        found = [
            settled(one, it)
            for one, it in zip(self.judges, self._evaluator.evaluate(trace), strict=True)
        ]
        return [
            "vacuous" if one.vacuous and one.outcome is Outcome.PASS else one.outcome.word
            for one in found
        ]

    def noticing(self, before: Sequence[str], trace: Trace) -> tuple[tuple[str, str], ...]:
        """Contracts that had passed and no longer do, or no longer with something to see."""
        now = self(trace)
        return tuple(
            (one.id, word)
            for one, was, word in zip(self.judges, before, now, strict=True)
            if was in _PASSES and word != was and word != "pass"
        )

    def passing(self, before: Sequence[str]) -> frozenset[str]:
        """Ids of those that pass, with something to see or without."""
        return frozenset(
            one.id for one, was in zip(self.judges, before, strict=True) if was in _PASSES
        )


def _mutated(contract: Contract, entry: CorpusEntry, maker: Maker, words: _Words) -> EntryMutants:
    whole = trace_of(entry, contract, words.registry)
    before = words(whole)
    own = [word for one, word in zip(words.judges, before, strict=True) if one.id == contract.id]
    problem = None
    if own != ["pass"]:
        problem = f"'{contract.id}' does not pass on it ({own[0] if own else 'a draft'})"
    changes, unchanged = maker.of(entry, words.passing(before))
    mutants = [
        _mutant(entry, change, words.noticing(before, _traced(change, whole))) for change in changes
    ]
    peers = frozenset(one.id for one in words.judges if one.label == contract.label)
    stale = tuple(_stale(entry, mutants, maker.possible(entry), peers))
    return EntryMutants(contract.id, entry, tuple(mutants), problem, stale, unchanged)


def _mutant(entry: CorpusEntry, change: Change, noticed_by: tuple[tuple[str, str], ...]) -> Mutant:
    as_good = admitted = None
    if not noticed_by:
        as_good = _note(entry.survives, change.name)
        admitted = _note(entry.unnoticed, change.name)
    why = admitted if as_good is None else as_good
    return Mutant(change.name, change.says, change.aims, noticed_by, why, as_good is not None)


def _traced(change: Change, whole: Trace) -> Trace:
    numbered: list[Any] = [{**event, "seq": seq} for seq, event in enumerate(change.events)]
    return Trace(numbered, closed=not change.is_open, coverage=whole.coverage)


def _field(name: str) -> str:
    return name.partition("=")[0]


def _note(notes: Mapping[str, str], name: str) -> str | None:
    """The note on a mutant: on its name, or on all alterations of its field."""
    return next((notes[key] for key in (name, _field(name)) if key in notes), None)


def _stale(
    entry: CorpusEntry,
    mutants: Sequence[Mutant],
    possible: frozenset[str],
    peers: frozenset[str],
) -> Iterator[str]:
    """Notes on what is noticed, or on what is no mutant in any set of contracts.

    Which of the possible mutants are made, and what fields are altered to, depends on the set.

    Args:
        peers: Contracts of the entry's own layer: a note knows nothing of those of another.
    """
    made = {one.name: any(who in peers for who, _ in one.noticed_by) for one in mutants}
    for key in (*entry.survives, *entry.unnoticed):
        answers = [made[name] for name in made if key in (name, _field(name))]
        if all(answers) if answers else _field(key) not in possible:
            yield key

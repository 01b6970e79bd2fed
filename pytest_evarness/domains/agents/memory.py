"""What a run remembers: one store for each kind of memory, shared by all nodes of the kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_evarness.domains.agents.text import digest_of_text
from pytest_evarness.domains.agents.words import overlap, telling_words

if TYPE_CHECKING:
    from pytest_evarness.domains.agents.state import RunState

__all__ = [
    "DEFAULT_KEY",
    "ENVIRONMENT_KEYS",
    "KINDS",
    "Entry",
    "Memories",
    "digest_of_subject",
    "ranked",
    "salience_of",
    "stated_facts",
    "stated_instructions",
    "subject_key",
    "target_of",
]

KINDS = ("working", "episodic", "semantic", "procedural")
"""The kinds of memory, from what lasts a step to what changes behaviour."""

DEFAULT_KEY = "default"

ENVIRONMENT_KEYS = {"episodic": "episodic", "semantic": "facts", "procedural": "instructions"}
"""Where the scenario says what a memory held before the run; a working memory begins empty."""

_ENOUGH = 10
_FACT = "fact:"
_INSTRUCTION = "instruction:"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that is remembered.

    Attributes:
        id: Unlike that of any other entry of its kind in the run.
        subject: What a fact is about; empty elsewhere.
        salience: Of an episode, from 0 to 1.
        about: Of a fact the digest of its subject before anything in it was masked; empty where
            nothing was. Two facts about two people are two, though both say ``[EMAIL]``.
        states: The same of its text.
    """

    id: str
    text: str
    subject: str = ""
    salience: float = 0.0
    about: str = ""
    states: str = ""

    @property
    def said(self) -> str:
        """The entry as a reader gets it."""
        return f"{self.subject}: {self.text}" if self.subject else self.text

    @property
    def subject_digest(self) -> str:
        """By what it is found; see :func:`digest_of_subject`."""
        return self.about or digest_of_subject(self.subject)

    @property
    def text_digest(self) -> str:
        """By what it is told from another fact of its subject."""
        return self.states or digest_of_text(self.text)


def salience_of(text: str) -> float:
    """How much an episode has to say: a tenth for each distinct telling word, 1 at most."""
    return min(len(set(telling_words(text))), _ENOUGH) / _ENOUGH


def subject_key(subject: str) -> str:
    """By what two subjects are one: no regard to case and blanks."""
    return " ".join(subject.casefold().split())


def digest_of_subject(subject: str) -> str:
    """By what a fact is kept: what is masked in it stands in no event, and is not kept here."""
    return digest_of_text(subject_key(subject))


def ranked(entries: Iterable[Entry], query: str) -> list[Entry]:
    """The entries by words shared with the query, then by salience, then by id."""
    scored = [(-overlap(query, entry.said), -entry.salience, entry.id, entry) for entry in entries]
    # Two entries never share an id, so the entries themselves are never compared.
    return [entry for *_, entry in sorted(scored)]


def target_of(written: str) -> tuple[str, str]:
    """The kind of memory that a ``target`` names, and the key under which a note stands."""
    kind, colon, key = written.partition(":")
    return (kind, key) if kind == "working" and colon and key else (written, DEFAULT_KEY)


def stated_facts(text: str) -> list[tuple[str, str]]:
    """Subject and statement of each line ``fact: SUBJECT = STATEMENT``, as they come."""
    found = []
    for said in _stated(text, _FACT):
        subject, _, statement = said.partition("=")
        if subject.strip() and statement.strip():
            found.append((" ".join(subject.split()), statement.strip()))
    return found


def stated_instructions(text: str) -> list[str]:
    """What each line ``instruction: TEXT`` says, as they come."""
    return list(_stated(text, _INSTRUCTION))


def _stated(text: str, prefix: str) -> Iterable[str]:
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped[: len(prefix)].casefold() == prefix and stripped[len(prefix) :].strip():
            yield stripped[len(prefix) :].strip()


@dataclass(slots=True)
class Memories:
    """Every memory of one run.

    Attributes:
        pending: Instructions that nobody approved; no read ever hands one over.
    """

    pending: list[Entry] = field(default_factory=list)
    _lists: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)
    _facts: dict[str, list[Entry]] = field(default_factory=dict)
    # Membership only; a run may write as often as its budget of events allows.
    _texts: set[tuple[str, str]] = field(default_factory=set)
    _ids: set[tuple[str, str]] = field(default_factory=set)
    _counts: dict[str, int] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, state: RunState) -> Memories:
        """What the scenario says was remembered before the run."""
        made = cls()
        for kind, key in ENVIRONMENT_KEYS.items():
            for written in state.environment.get(key) or []:
                made.add(kind, _entry(written))
        return made

    def leftovers(self) -> list[str]:
        """Entries of the scenario that no node of the run read, by environment key."""
        return [
            f"{key}: no node of the run read it"
            for kind, key in ENVIRONMENT_KEYS.items()
            if kind not in self._read and self.entries(kind)
        ]

    def entries(self, kind: str, key: str = DEFAULT_KEY) -> list[Entry]:
        """What a memory holds now, in the order in which it was written."""
        if kind == "semantic":
            return [entry for entries in self._facts.values() for entry in entries]
        return list(self._lists.get((kind, key), ()))

    def about(self, subject_digest: str) -> list[Entry]:
        """The facts that have this subject."""
        return list(self._facts.get(subject_digest, ()))

    def knows(self, kind: str, text: str) -> bool:
        """Whether the memory was given exactly this text before."""
        return (kind, text) in self._texts

    def add(self, kind: str, entry: Entry, key: str = DEFAULT_KEY) -> None:
        """Remember an entry."""
        if kind == "semantic":
            self._facts.setdefault(entry.subject_digest, []).append(entry)
        else:
            self._lists.setdefault((kind, key), []).append(entry)
        self._texts.add((kind, entry.text))
        self._ids.add((kind, entry.id))

    def forget(self, subject_digest: str) -> None:
        """Forget every fact of a subject; what comes next of it stands last."""
        self._facts.pop(subject_digest, None)

    def note_read(self, kind: str) -> None:
        """A node of this kind ran."""
        self._read.add(kind)

    def new_id(self, kind: str, node: str) -> str:
        """An id for what ``node`` writes: ``NODE#k``, k counting its writes from 1."""
        while True:
            count = self._counts[node] = self._counts.get(node, 0) + 1
            made = f"{node}#{count}"
            if (kind, made) not in self._ids:
                return made

    def sizes(self) -> dict[str, int]:
        """How many entries each memory holds; ``pending`` are instructions without approval."""
        found = dict.fromkeys(KINDS, 0)
        for (kind, _), entries in self._lists.items():
            found[kind] += len(entries)
        found["semantic"] = sum(map(len, self._facts.values()))
        return found | {"pending": len(self.pending)}


def _entry(written: dict[str, Any]) -> Entry:
    return Entry(
        id=written["id"],
        text=written["text"],
        subject=written.get("subject", ""),
        salience=written.get("salience", 0.0),
    )

"""Corpora: what a contract has to say of small made-up traces before it may judge a real one.

Source: docs/contracts.md, "Corpora".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.core.expression import Patience
from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.registry import nearest
from pytest_evarness.core.schema import PlaceError, Schema, joined
from pytest_evarness.core.trace import TERMINAL_TYPES, Trace
from pytest_evarness.core.vocabulary import is_custom_type
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = [
    "KINDS",
    "NEEDED",
    "Corpus",
    "CorpusEntry",
    "CorpusResult",
    "evaluate_corpus",
    "lacking",
    "parse_corpus",
    "settled",
    "trace_of",
]

KINDS: Final = ("positive", "negative", "missing_evidence", "adversarial")
NEEDED: Final = KINDS[:3]
"""What a contract of a library has at least one of each."""

ENTRY_KEYS: Final = ("events", "open", "uncovered", "expect", "survives", "unnoticed")
_IMPLIED: Final = {
    "positive": Outcome.PASS,
    "negative": Outcome.FAIL,
    "missing_evidence": Outcome.INDETERMINATE,
}
_WORDS: Final = tuple(one.word for one in (Outcome.PASS, Outcome.FAIL, Outcome.INDETERMINATE))
_RECORDED: Final = frozenset({"seq", "type", "node_id", "payload"})
_MAX_NAME: Final = 200
_MAX_EVENTS: Final = 1000


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    """One small trace and what the contract has to say of it.

    Attributes:
        kind: One of :data:`KINDS`.
        events: ``{seq, type, node_id, payload}``, without the end that is supplied.
        open: No end is supplied, and none stands there.
        uncovered: Event types that the sources do not record.
        survives: Mutants that are runs as good as the entry's own, by name, and why.
        unnoticed: Mutants that ought to be noticed and are not, by name, and why.
    """

    kind: str
    name: str
    events: tuple[JsonObject, ...]
    expect: Outcome
    open: bool = False
    uncovered: frozenset[str] = frozenset()
    survives: Mapping[str, str] = field(default_factory=dict)
    unnoticed: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """``negative[swapped-draft]``: the last part of the entry's node id."""
        return f"{self.kind}[{self.name}]"


@dataclass(frozen=True, slots=True)
class Corpus:
    """The entries of one contract, in the order of the file."""

    entries: tuple[CorpusEntry, ...] = ()

    def of_kind(self, kind: str) -> list[CorpusEntry]:
        """The entries of one kind."""
        return [entry for entry in self.entries if entry.kind == kind]


@dataclass(frozen=True, slots=True)
class CorpusResult:
    """What a contract said of one entry.

    Attributes:
        problem: One sentence; None where it said what it has to say.
    """

    entry: CorpusEntry
    finding: Finding
    problem: str | None


def lacking(corpus: Corpus | None) -> list[str]:
    """Kinds that a contract of a library needs and that this corpus has no entry of."""
    return [kind for kind in NEEDED if corpus is None or not corpus.of_kind(kind)]


# -- evaluation ----------------------------------------------------------------------------------


def evaluate_corpus(
    contract: Contract, corpus: Corpus, registry: Registry
) -> tuple[CorpusResult, ...]:
    """Judge every entry by the contract alone."""
    with Patience():
        return _evaluated(contract, corpus, registry)


def _evaluated(contract: Contract, corpus: Corpus, registry: Registry) -> tuple[CorpusResult, ...]:
    from pytest_evarness.contract.evaluate import Evaluator

    evaluator = Evaluator([contract], registry)
    results = []
    for entry in corpus.entries:
        (finding,) = evaluator.evaluate(trace_of(entry, contract, registry))
        results.append(CorpusResult(entry, finding, _problem(entry, contract, finding)))
    return tuple(results)


def trace_of(entry: CorpusEntry, contract: Contract | None, registry: Registry) -> Trace:
    """The trace that an entry describes, its end supplied where it has none and is not open.

    Args:
        contract: Types that it names count as recorded beside those of the vocabulary.
    """
    coverage = None
    if entry.uncovered:
        named = contract.required_types if contract is not None else frozenset()
        met = {str(event["type"]) for event in entry.events}
        coverage = frozenset({*registry.event_types.names(), *named, *met}) - entry.uncovered
    return Trace(closed_events(entry), closed=not entry.open, coverage=coverage)


def closed_events(entry: CorpusEntry) -> list[JsonObject]:
    """The events of an entry with the end that is supplied."""
    events = list(entry.events)
    if entry.open or (events and events[-1]["type"] in TERMINAL_TYPES):
        return events
    last: Any = events[-1]["seq"] if events else -1
    events.append({"seq": last + 1, "type": "run_finished", "node_id": None, "payload": {}})
    return events


def settled(contract: Contract, finding: Finding) -> Finding:
    """Apply what a vacuous pass of this contract counts as."""
    if not (finding.vacuous and finding.outcome is Outcome.PASS) or contract.vacuous == "pass":
        return finding
    reason = f"nothing was there to judge: {finding.reason}"
    if contract.vacuous == "fail":
        return finding.with_(outcome=Outcome.FAIL, score=Fraction(0), reason=reason)
    return finding.with_(
        outcome=Outcome.INDETERMINATE,
        score=None,
        causes=(Cause.MISSING_EVIDENCE,),
        reason=reason,
        decisive_seq=None,
    )


def _problem(entry: CorpusEntry, contract: Contract, finding: Finding) -> str | None:
    if entry.kind == "positive" and finding.outcome is Outcome.PASS and finding.vacuous:
        return f"{entry.label} passed vacuously: nothing in it could have broken the contract"
    got = settled(contract, finding)
    if Cause.EVALUATOR_ERROR in got.causes:
        # Not the evidence was missing: the evaluator broke.
        return f"{entry.label} could not be judged: {got.reason}"
    if got.outcome is entry.expect:
        return None
    return f"{entry.label} gave {got.outcome.word}, {entry.expect.word} is needed: {got.reason}"


# -- reading -------------------------------------------------------------------------------------


def parse_corpus(value: Json, registry: Registry) -> tuple[Corpus | None, list[Fault]]:
    """Read ``corpus``.

    Returns:
        None with at least one fault; fault paths start at ``value``.
    """
    reader = _Reader(registry)
    entries = tuple(reader.corpus(value))
    return (None, reader.faults) if reader.faults else (Corpus(entries), [])


class _Reader:
    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.faults: list[Fault] = []

    def fault(self, path: tuple[str | int, ...], problem: str, *more: Any, **named: Any) -> None:
        self.faults.append(Fault(path, problem, *more, **named))

    def unknown_key(self, at: tuple[str | int, ...], key: object, known: Sequence[str]) -> None:
        near = nearest(str(key), known)
        self.fault(
            (*at, str(key)),
            "unknown key",
            f"'{key}'",
            f"known: {', '.join(known)}",
            f"write '{near}'" if near else None,
            at_key=True,
            code="unknown_key",
        )

    def corpus(self, value: Json) -> Iterator[CorpusEntry]:
        if not isinstance(value, Mapping):
            rule = f"{{{', '.join(KINDS)}: {{NAME: events}}}}"
            self.fault((), "must be a mapping", shown(value, 60), rule)
            return
        for kind in value:
            if kind not in KINDS:
                self.unknown_key((), kind, KINDS)
        for kind in KINDS:
            if kind not in value:
                continue
            entries = value[kind]
            if not isinstance(entries, Mapping) or not entries:
                self.fault((kind,), "must be a mapping", shown(entries, 60), "{NAME: events}")
                continue
            for name, entry in entries.items():
                found = self.entry(kind, str(name), entry, (kind, str(name)))
                if found is not None:
                    yield found

    def entry(
        self, kind: str, name: str, value: Json, at: tuple[str | int, ...]
    ) -> CorpusEntry | None:
        before = len(self.faults)
        self.name(name, at)
        if isinstance(value, (list, tuple)):
            value = {"events": value}
        if not isinstance(value, Mapping):
            self.fault(at, "must be a list of events", shown(value, 60), "or {events: [...], ...}")
            return None
        for key in value:
            if key not in ENTRY_KEYS:
                self.unknown_key(at, key, ENTRY_KEYS)
        is_open = value.get("open", False)
        if not isinstance(is_open, bool):
            self.fault((*at, "open"), "must be true or false", shown(is_open, 60))
            is_open = False
        events = self.events(value.get("events"), at)
        uncovered = self.uncovered(value.get("uncovered", []), (*at, "uncovered"), events)
        expect = self.expect(kind, value, at)
        survives = self.notes("survives", kind, value, at)
        unnoticed = self.notes("unnoticed", kind, value, at)
        for name in sorted(survives.keys() & unnoticed.keys()):
            self.fault((*at, "unnoticed", name), "stands under 'survives' too", at_key=True)
        if is_open and events and events[-1]["type"] in TERMINAL_TYPES:
            self.fault(
                (*at, "open"), "has an end", f"'{events[-1]['type']}'", "an open trace goes on"
            )
        if len(self.faults) > before or expect is None:
            return None
        return CorpusEntry(
            kind, name, tuple(events), expect, is_open, uncovered, survives, unnoticed
        )

    def name(self, name: str, at: tuple[str | int, ...]) -> None:
        is_plain = name.isprintable() and name.strip() == name and not set(name) & set("[]")
        if not (is_plain and 0 < len(name) <= _MAX_NAME and "::" not in name):
            self.fault(
                at,
                "no name of an entry",
                shown(name, 60),
                f"1 to {_MAX_NAME} printable characters, no '[', ']' or '::'",
                at_key=True,
            )

    def expect(
        self, kind: str, value: Mapping[str, Any], at: tuple[str | int, ...]
    ) -> Outcome | None:
        implied = _IMPLIED.get(kind)
        got = value.get("expect")
        if "expect" not in value:
            if implied is None:
                rule = f"'expect' is one of {', '.join(_WORDS)}"
                self.fault(at, f"an entry of '{kind}' says what it expects", rule=rule)
            return implied
        if got not in _WORDS:
            near = nearest(got, _WORDS) if isinstance(got, str) else None
            self.fault(
                (*at, "expect"),
                f"must be one of {', '.join(_WORDS)}",
                shown(got, 60),
                fix=f"write '{near}'" if near else None,
            )
            return None
        outcome = Outcome.parse(str(got))
        if implied is not None and outcome is not implied:
            self.fault((*at, "expect"), f"'{kind}' means {implied.word}", f"'{got}'")
        return outcome

    def notes(
        self, key: str, kind: str, value: Mapping[str, Any], at: tuple[str | int, ...]
    ) -> Mapping[str, str]:
        got = value.get(key, {})
        here = (*at, key)
        if key in value and kind != "positive":
            self.fault(here, "only positive entries are mutated", at_key=True)
        if not isinstance(got, Mapping):
            self.fault(here, "must be a mapping", shown(got, 60), "{MUTANT: why}")
            return {}
        for name, why in got.items():
            if not isinstance(why, str) or not why.strip():
                self.fault((*here, str(name)), "must say why", shown(why, 60))
        return {str(name): str(why) for name, why in got.items()}

    def uncovered(
        self, got: Json, at: tuple[str | int, ...], events: Sequence[JsonObject]
    ) -> frozenset[str]:
        if not isinstance(got, (list, tuple)):
            self.fault(at, "must be a list of event types", shown(got, 60))
            return frozenset()
        met = {event["type"] for event in events}
        for index, one in enumerate(got):
            if self.type((*at, index), one) and one in met:
                self.fault((*at, index), "stands among the events", f"'{one}'")
        return frozenset(str(one) for one in got)

    def type(self, at: tuple[str | int, ...], got: Json) -> bool:
        if isinstance(got, str) and (got in self.registry.event_types or is_custom_type(got)):
            return True
        known = self.registry.event_types.names()
        near = nearest(got, known) if isinstance(got, str) else None
        self.fault(
            at,
            "unknown event type",
            shown(got, 60),
            "a type of the kernel, of an installed domain, or custom.NAME",
            f"write '{near}'" if near else None,
            code="unknown_event_type",
        )
        return False

    def events(self, got: Json, at: tuple[str | int, ...]) -> list[JsonObject]:
        if not isinstance(got, (list, tuple)):
            self.fault(at, "needs 'events', a list", shown(got, 60))
            return []
        if len(got) > _MAX_EVENTS:
            self.fault(at, "has too many events", str(len(got)), f"at most {_MAX_EVENTS}")
            return []
        events: list[JsonObject] = []
        for index, value in enumerate(got):
            here = (*at, "events", index)
            last: Any = events[-1]["seq"] if events else -1
            event = self.event(value, here, last + 1)
            if event is not None:
                events.append(event)
        return events

    def event(self, value: Json, at: tuple[str | int, ...], seq: int) -> JsonObject | None:
        """One event, in the long form of a trace or in the short one."""
        if not isinstance(value, Mapping):
            self.fault(at, "must be an event", shown(value, 60), "{type: ..., node: ..., ...}")
            return None
        if "type" not in value:
            self.fault(at, "the key 'type' is missing")
            return None
        if not self.type((*at, "type"), value["type"]):
            return None
        given = value.get("payload", {})
        if not isinstance(given, Mapping):
            self.fault((*at, "payload"), "must be a mapping", shown(given, 60))
            return None
        payload = dict(given)
        is_recorded = "payload" in value and ("seq" in value or "node_id" in value)
        if is_recorded and value.keys() <= _RECORDED:
            node = value.get("node_id")
            number = value.get("seq", seq)
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                self.fault((*at, "seq"), "must be a count", shown(number, 60))
                number = seq
        else:
            node, number = value.get("node"), seq
            for key, item in value.items():
                if key in ("type", "node", "payload"):
                    continue
                if key in payload:
                    self.fault((*at, key), "stands in 'payload' too", f"'{key}'", at_key=True)
                payload[key] = item
        if node is not None and not isinstance(node, str):
            self.fault((*at, "node"), "must be a text or null", shown(node, 60))
        self.payload(str(value["type"]), payload, at, given)
        return {"seq": number, "type": value["type"], "node_id": node, "payload": payload}

    def payload(
        self,
        name: str,
        payload: Mapping[str, Any],
        at: tuple[str | int, ...],
        given: Mapping[str, Any],
    ) -> None:
        """A misspelt key would make an entry test nothing; values may be anything."""
        kind = self.registry.event_types.find(name)
        if kind is None:
            return
        schema = Schema(kind.schema, is_listed=True)
        for steps in _paths(payload, ()):
            place = schema.place(steps)
            if isinstance(place, PlaceError):
                own = ("payload", *steps) if steps[0] in given else steps
                self.fault(
                    (*at, *own),
                    "unknown payload path",
                    f"'{joined(steps)}'",
                    f"{name} has {place.text}",
                    f"write '{place.fix}'" if place.fix else None,
                    at_key=True,
                    code="unknown_path",
                )


def _paths(value: Any, above: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """The path of every key, inside lists too."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield (*above, str(key))
            yield from _paths(item, (*above, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _paths(item, (*above, index))

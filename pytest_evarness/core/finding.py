"""The record of one judgement: what was judged, how it came out, and what shows it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from pytest_evarness.core.outcome import Cause, Outcome, Severity

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = [
    "FOR_REVIEW",
    "MAX_WITNESS_EVENTS",
    "MAX_WITNESS_TEXT",
    "Finding",
    "Witness",
    "fraction_text",
]

MAX_WITNESS_EVENTS = 20
MAX_WITNESS_TEXT = 4096  # bytes of UTF-8 in all texts of one witness

FOR_REVIEW = "for review: "
"""A note of a witness that begins so puts its finding into the review queue; the rest says why."""


@dataclass(frozen=True, slots=True)
class Witness:
    """The few events that show a contradiction, bounded.

    Attributes:
        events: ``seq`` of the events that take part, in trace order, at most 20.
        absent: Absence claims in words, such as ``no tool_result in (4, 9]``.
        expected: The predicate that should have held, in words.
        observed: The value that was met instead, in words.
        nearest: Candidates that almost satisfied the claim: ``{seq, why}`` each.
        notes: Anything else the reader needs (trimming, limits of the claim).
        context: The full text of the decisive events, keyed by their ``seq`` as text.
        entries: Rows, files, requests and ledger records of the world that show it, one line each,
            at most 20.
    """

    events: tuple[int, ...] = ()
    absent: tuple[str, ...] = ()
    expected: str | None = None
    observed: str | None = None
    nearest: tuple[JsonObject, ...] = ()
    notes: tuple[str, ...] = ()
    context: JsonObject = field(default_factory=dict)
    entries: tuple[str, ...] = ()

    def as_record(self) -> dict[str, Json]:
        """The JSON form; empty parts are left out, ``events`` and ``absent`` never are."""
        record: dict[str, Json] = {"events": list(self.events), "absent": list(self.absent)}
        if self.expected is not None:
            record["expected"] = self.expected
        if self.observed is not None:
            record["observed"] = self.observed
        if self.nearest:
            record["nearest"] = [dict(entry) for entry in self.nearest]
        if self.notes:
            record["notes"] = list(self.notes)
        if self.context:
            record["context"] = dict(self.context)
        if self.entries:
            record["entries"] = list(self.entries)
        return record

    @classmethod
    def from_record(cls, record: JsonObject) -> Witness:
        """Read what :meth:`as_record` wrote."""
        get = cast("dict[str, object]", record).get
        return cls(
            events=tuple(cast("list[int]", get("events", []))),
            absent=tuple(cast("list[str]", get("absent", []))),
            expected=cast("str | None", get("expected")),
            observed=cast("str | None", get("observed")),
            nearest=tuple(cast("list[JsonObject]", get("nearest", []))),
            notes=tuple(cast("list[str]", get("notes", []))),
            context=cast("JsonObject", get("context", {})),
            entries=tuple(cast("list[str]", get("entries", []))),
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of anything judged, with its reason. See docs/verdicts.md for each field.

    Attributes:
        id: The invariant's id.
        version: A contract's version, else None.
        kind: A check type, ``contract``, ``trace``, ``expect``, ``reproduces``, ``score``, ...
        gate: True when it belongs to the hard verdict.
        weight: Its weight in the composite, exact.
        score: In [0, 1], exact; None when indeterminate.
        leaning: On an open trace, the outcome that closing now would give.
        decisive_seq: First event from which the outcome is forced; None where events do not decide.
        looked_at: Where an absence was looked for: event types, range, sources.
    """

    id: str
    kind: str
    outcome: Outcome
    reason: str
    version: int | None = None
    gate: bool = False
    weight: Fraction = Fraction(0)
    severity: Severity = Severity.MAJOR
    score: Fraction | None = None
    causes: tuple[Cause, ...] = ()
    leaning: Outcome | None = None
    decisive_seq: int | None = None
    vacuous: bool = False
    witness: Witness = field(default_factory=Witness)
    label: str = "detection-only"
    looked_at: tuple[str, ...] = ()

    def with_(self, **changes: object) -> Finding:
        """A copy with some fields replaced."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def as_record(self) -> dict[str, Json]:
        """Exactly JSON types, every field present; fractions as text."""
        return {
            "id": self.id,
            "version": self.version,
            "kind": self.kind,
            "gate": self.gate,
            "weight": fraction_text(self.weight),
            "severity": str(self.severity.value),
            "outcome": self.outcome.word,
            "score": None if self.score is None else fraction_text(self.score),
            "causes": [str(cause.value) for cause in self.causes],
            "reason": self.reason,
            "leaning": None if self.leaning is None else self.leaning.word,
            "decisive_seq": self.decisive_seq,
            "vacuous": self.vacuous,
            "witness": self.witness.as_record(),
            "label": self.label,
            "looked_at": list(self.looked_at),
        }

    @classmethod
    def from_record(cls, record: JsonObject) -> Finding:
        """Read what :meth:`as_record` wrote.

        Raises:
            KeyError: A field is missing.
            ValueError: A field holds a word or number it cannot hold.
        """
        got = cast("dict[str, object]", record)
        score, leaning = got["score"], got["leaning"]
        return cls(
            id=cast("str", got["id"]),
            version=cast("int | None", got["version"]),
            kind=cast("str", got["kind"]),
            gate=cast("bool", got["gate"]),
            weight=Fraction(cast("str", got["weight"])),
            severity=Severity(cast("str", got["severity"])),
            outcome=Outcome.parse(cast("str", got["outcome"])),
            score=None if score is None else Fraction(cast("str", score)),
            causes=tuple(Cause(cause) for cause in cast("list[str]", got["causes"])),
            reason=cast("str", got["reason"]),
            leaning=None if leaning is None else Outcome.parse(cast("str", leaning)),
            decisive_seq=cast("int | None", got["decisive_seq"]),
            vacuous=cast("bool", got["vacuous"]),
            witness=Witness.from_record(cast("JsonObject", got["witness"])),
            label=cast("str", got["label"]),
            looked_at=tuple(cast("list[str]", got["looked_at"])),
        )


def fraction_text(value: Fraction) -> str:
    """Write an exact number as ``3``, ``0.85`` or ``13/15``: decimal if it ends, else fraction."""
    denominator = value.denominator
    if denominator == 1:
        return str(value.numerator)
    twos = fives = 0
    while denominator % 2 == 0:
        denominator //= 2
        twos += 1
    while denominator % 5 == 0:
        denominator //= 5
        fives += 1
    places = max(twos, fives)
    if denominator != 1 or places > 40:
        return f"{value.numerator}/{value.denominator}"
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}"

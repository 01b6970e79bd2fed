"""What a case is going to be judged by, fixed before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from pytest_evarness.core.finding import fraction_text
from pytest_evarness.core.outcome import Severity

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = ["ALWAYS_THERE", "BY_LIBRARY", "FIXED_KINDS", "PlannedItem", "is_aside"]

ALWAYS_THERE = frozenset({"reproduces", "forbidden-unmatched-requests"})
"""Items that every case has anyway: they do not count as something asserted."""

FIXED_KINDS = frozenset(
    {"reproduces", "expect", "forbidden", "contract", "trace", "replicas", "score", "load"}
)
"""Kinds of items that are judged from the runs themselves; any other kind is a check type."""


BY_LIBRARY = "pulled in by its library"
"""Why a contract is among the items that nobody names."""


def is_aside(because: str | None, applies: str | None) -> bool:
    """Whether a contract that nobody names is among the items though it is not for the case."""
    return because == BY_LIBRARY and applies is not None


@dataclass(frozen=True, slots=True)
class PlannedItem:
    """One invariant or rule of one case.

    Attributes:
        id: The last part of the node id.
        kind: As in :class:`~pytest_evarness.core.finding.Finding`.
        gate: Part of the hard verdict.
        decides: Fails the session by itself: a gate, or any item of a case without a threshold
            that is not informational.
        weight: In the composite; 0 for what is not in it.
        definition: All that is needed to judge it: for ``contract`` and ``trace`` the sealed
            contract (``{id, version, assert, ...}``), for ``expect`` the expectation, for a check
            what its type made of it, for ``forbidden`` the rule, else ``{}``.
        vacuous: What a vacuous pass counts as: ``pass``, ``fail`` or ``indeterminate``.
        because: How a contract came to be among the items, and what its ``applies_to`` met;
            None for other kinds.
        applies: None when it applies, else the sentence that says why it does not.
        broken: None, or why it cannot judge (its corpus fails): it is then ``evaluator_error``.
        informational: Shown without influence (a draft, or weight 0 beside a threshold).
        written: False for an ``expect`` that the user did not write.
        untested: A contract without a corpus.
        path: Of the file that holds it, relative to the root directory, with ``/``.
        line: In that file, from 1.
    """

    id: str
    kind: str
    gate: bool = False
    decides: bool = True
    weight: Fraction = Fraction(0)
    severity: Severity = Severity.MAJOR
    version: int | None = None
    description: str = ""
    definition: JsonObject | None = None
    vacuous: str = "pass"
    enforced_by: tuple[str, ...] = ()
    label: str = "detection-only"
    because: str | None = None
    applies: str | None = None
    broken: str | None = None
    informational: bool = False
    written: bool = True
    untested: bool = False
    path: str = ""
    line: int = 1

    @property
    def is_check(self) -> bool:
        """Whether evidence is gathered for it from the sealed world."""
        return self.kind not in FIXED_KINDS

    @property
    def is_aside(self) -> bool:
        """Whether it is told only: a contract of a library that another mode keeps from judging."""
        return is_aside(self.because, self.applies)

    def as_record(self) -> dict[str, Json]:
        """The JSON form that is sealed; the definition stays a mapping here."""
        return {
            "id": self.id,
            "kind": self.kind,
            "gate": self.gate,
            "decides": self.decides,
            "weight": fraction_text(self.weight),
            "severity": str(self.severity.value),
            "version": self.version,
            "description": self.description,
            "definition": self.definition,
            "vacuous": self.vacuous,
            "enforced_by": list(self.enforced_by),
            "label": self.label,
            "because": self.because,
            "applies": self.applies,
            "broken": self.broken,
            "informational": self.informational,
            "written": self.written,
            "untested": self.untested,
            "path": self.path,
            "line": self.line,
        }

    @classmethod
    def from_record(cls, record: JsonObject) -> PlannedItem:
        """Read what :meth:`as_record` wrote.

        Raises:
            KeyError: A field is missing.
            ValueError: A field holds a word or number it cannot hold.
        """
        got = cast("dict[str, object]", record)
        return cls(
            id=cast("str", got["id"]),
            kind=cast("str", got["kind"]),
            gate=cast("bool", got["gate"]),
            decides=cast("bool", got["decides"]),
            weight=Fraction(cast("str", got["weight"])),
            severity=Severity(cast("str", got["severity"])),
            version=cast("int | None", got["version"]),
            description=cast("str", got["description"]),
            definition=cast("JsonObject | None", got["definition"]),
            vacuous=cast("str", got["vacuous"]),
            enforced_by=tuple(cast("list[str]", got["enforced_by"])),
            label=cast("str", got["label"]),
            because=cast("str | None", got["because"]),
            applies=cast("str | None", got["applies"]),
            broken=cast("str | None", got["broken"]),
            informational=cast("bool", got["informational"]),
            written=cast("bool", got["written"]),
            untested=cast("bool", got["untested"]),
            path=cast("str", got["path"]),
            line=cast("int", got["line"]),
        )

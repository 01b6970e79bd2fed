"""Every field of a scenario file but ``environment``, as strict models.

The JSON Schema for editors is made from the same models, so neither can know a key that the
other does not. Whether a value fits the graph is asked later, when a case is compiled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from pytest_evarness.scenario.identifier import Id
from pytest_evarness.source.model import Strict, refuse
from pytest_evarness.source.number import exact
from pytest_evarness.source.quote import quoted

__all__ = [
    "CASE_KEYS",
    "ENFORCEMENTS",
    "FORMAT",
    "SECTIONS",
    "STATUSES",
    "TOP_KEYS",
    "BudgetShape",
    "ContractCheck",
    "Entry",
    "Expect",
    "Forbidden",
    "GatheredCheck",
    "Policy",
    "Scoring",
    "Subject",
    "Task",
    "TraceCheck",
    "Waiver",
]

FORMAT = 1

STATUSES = ("completed", "blocked", "paused", "failed")

ENFORCEMENTS = ("approval_gate", "manifest", "egress", "tool_offer", "sandbox", "budget")

MAX_SECONDS = 86_400


def not_in_this_version(what: str) -> Any:
    """A field that is known and refused: its value would otherwise be ignored in silence."""

    def refused(value: object) -> object:
        raise refuse(f"{what} is not in this version", fix="remove it")

    return BeforeValidator(refused)


# -- numbers -----------------------------------------------------------------------------------


def _number(value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float):
        fix = None
        if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
            fix = f"write {value} without quotes"
        raise refuse("must be a number", fix=fix)
    if not math.isfinite(value):
        raise refuse("must be a finite number")
    return exact(value)


def _weight(value: object) -> Fraction:
    number = _number(value)
    if number < 0:
        raise refuse("is too small", rule="0 or more")
    return number


def _share(value: object) -> Fraction:
    number = _number(value)
    if not 0 <= number <= 1:
        raise refuse("is out of range", rule="from 0 to 1")
    return number


def _seconds(value: object) -> float:
    number = _number(value)
    if not 0 < number <= MAX_SECONDS:
        raise refuse("is out of range", rule=f"more than 0, at most {MAX_SECONDS}")
    return float(number)


_ANY_WEIGHT: dict[str, Any] = {"type": "number", "minimum": 0}
_ANY_SHARE: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
_ANY_SECONDS: dict[str, Any] = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": MAX_SECONDS,
}

Weight = Annotated[Fraction, PlainValidator(_weight), WithJsonSchema(_ANY_WEIGHT)]
Share = Annotated[Fraction, PlainValidator(_share), WithJsonSchema(_ANY_SHARE)]
Seconds = Annotated[float, PlainValidator(_seconds), WithJsonSchema(_ANY_SECONDS)]
Count = Annotated[int, Field(ge=1, le=2**53)]


# -- words -------------------------------------------------------------------------------------


def _format(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value != FORMAT:
        raise refuse(f"must be {FORMAT}", rule=f"this version reads format {FORMAT}")
    return value


def _variable(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise refuse(
            "must be the name of an environment variable",
            rule="letters, digits and '_'; the value itself never stands in a file",
        )
    return text


def _once(values: list[str]) -> list[str]:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise refuse(f"names {quoted(value)} twice")
        seen.add(value)
    return values


def _replicas(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool) and value == 1:
        return value
    if isinstance(value, dict) and set(value) <= {"count", "aggregate"}:
        count = value.get("count", 1)
        if count == 1 and isinstance(count, int) and not isinstance(count, bool):
            if value.get("aggregate", "all") == "all":
                return value
            raise refuse(
                "another aggregate than 'all' is not in this version", rule="one run, aggregate all"
            )
    raise refuse(
        "more than one replica is not in this version",
        rule="1, or {count: 1, aggregate: all}",
        fix="cross the case with seeds instead: matrix: {seed: [1, 2, 3]}",
    )


def _prefix(text: str) -> str:
    parts = text.split("/")
    if text.startswith("/") or re.match("[A-Za-z]:", text) or "\\" in text or "\0" in text:
        raise refuse("must be relative to the workspace", rule="components joined by '/'")
    if ".." in parts:
        raise refuse("leads out of the workspace", rule="components joined by '/'")
    if "*" in text:
        above = "/".join(parts[: next(at for at, part in enumerate(parts) if "*" in part)])
        raise refuse(
            "is no pattern",
            rule="a path allows itself and what lies below it",
            fix=f"write '{above}'" if above else None,
        )
    return "/".join(part for part in parts if part not in ("", "."))


NonBlank = Annotated[str, Field(min_length=1)]
Variable = Annotated[str, AfterValidator(_variable)]
Tags = Annotated[list[NonBlank], AfterValidator(_once)]
Ids = Annotated[list[Id], AfterValidator(_once)]
CaseIds = Annotated[list[Id], Field(min_length=1), AfterValidator(_once)]
Names = Annotated[list[NonBlank], AfterValidator(_once)]
Prefixes = Annotated[
    list[Annotated[str, Field(min_length=1), AfterValidator(_prefix)]], AfterValidator(_once)
]
Deny: TypeAlias = Literal["deny"]
Severity: TypeAlias = Literal["info", "minor", "major", "critical"]
Vacuity: TypeAlias = Literal["pass", "fail", "indeterminate"]
Enforcement: TypeAlias = Literal[
    "approval_gate", "manifest", "egress", "tool_offer", "sandbox", "budget"
]
Status: TypeAlias = Literal["completed", "blocked", "paused", "failed"]
_REFUSED: dict[str, Any] = {"not": {}, "description": "not in this version"}


# -- sections ----------------------------------------------------------------------------------


class Waiver(Strict):
    """A lint error of a domain that is accepted here."""

    rule: NonBlank = Field(description="The lint rule's code.")
    reason: Annotated[str, Field(pattern=r"\S")] = Field(
        description="Why it is accepted; shown, and listed as not proven."
    )


class Subject(Strict):
    """What is tested."""

    graph: NonBlank | dict[str, Any] = Field(
        default="", description="A path, pattern:NAME[/FIXTURE], or the graph itself."
    )
    waive: dict[Id, Waiver] = Field(
        default_factory=dict, description="Lint errors accepted here, by node."
    )


class Task(Strict):
    """What the agent was asked."""

    prompt: str = Field(default="", description="Default: environment.user_input.")


class Policy(Strict):
    """The policy in force."""

    revision: NonBlank = Field(default="", description="Sealed, and carried by policy decisions.")


class Scoring(Strict):
    """The composite."""

    pass_threshold: Share = Field(
        default=Fraction(0), description="Only with it are there a composite and the item score."
    )
    replica_aggregation: Annotated[
        str, not_in_this_version("replica_aggregation"), WithJsonSchema(_REFUSED)
    ] = Field(default="", description="Not in this version.")


class BudgetShape(Strict):
    """Bounds of one run."""

    events: Count = Field(default=10_000, description="Events of a run; more block it.")
    seconds: Seconds = Field(default=30.0, description="Wall time; more is indeterminate.")
    loops: Count = Field(
        default=1, description="Turns of all loops; default max_loops times the loop nodes."
    )


class Expect(Strict):
    """The declared end."""

    status: Status = Field(default="completed", description="How the run ends.")
    output: Any = Field(default=None, description="A matcher over the run's output.")
    nodes_run: Ids = Field(default_factory=list, description="Nodes that each finish.")
    nodes_not_run: Ids = Field(default_factory=list, description="Nodes of which none starts.")


class TraceCheck(Strict):
    """An inline contract."""

    type: Literal["trace"]
    body: dict[str, Any] = Field(alias="assert", description="The body of a contract.")


class ContractCheck(Strict):
    """A contract of a library."""

    type: Literal["contract"]
    id: Id = Field(description="The contract's id.")


@dataclass(frozen=True, slots=True)
class GatheredCheck:
    """A check of any other type; which one is told once the registry is known.

    Attributes:
        type: What stands under ``type``: a word, hopefully; None where it is missing.
        value: The mapping under ``check`` as it was written.
    """

    type: object
    value: Mapping[str, Any]


def _check(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Choose the type first; only its own fields are then spoken of."""
    if not isinstance(value, dict):
        raise refuse("must be a mapping", rule="{type: trace, assert: {...}}")
    word = value.get("type")
    return handler(value) if word in ("contract", "trace") else GatheredCheck(word, value)


class Forbidden(Strict):
    """What must not happen, whatever else does; each rule is a gate."""

    db_writes_outside: Names = Field(
        default_factory=list, description="Tables that may be written: TABLE or SERVICE.TABLE."
    )
    http_except: Names = Field(
        default_factory=list, description="Services that may be requested over HTTP."
    )
    file_writes_outside: Prefixes = Field(
        default_factory=list, description="Folders or files of the workspace that may be written."
    )
    secrets_in_logs: Deny = Field(default="deny", description="No secret in what the run emits.")
    network: Deny = Field(default="deny", description="Nothing beyond the declared services.")
    tools_except: Names = Field(default_factory=list, description="Tools that may be called.")
    duplicate_effects: Deny = Field(default="deny", description="No effect is applied twice.")


class Entry(Strict):
    """One invariant; without ``check`` its id names a contract."""

    check: Annotated[
        Annotated[TraceCheck | ContractCheck, Field(discriminator="type")], WrapValidator(_check)
    ] = Field(
        default_factory=lambda: ContractCheck(type="contract", id="-"), description="A check."
    )
    description: NonBlank = Field(
        default="-", description="Required with a check that names no contract."
    )
    gate: bool = Field(
        default=False, description="Part of the hard verdict; a contract brings its own."
    )
    weight: Weight = Field(
        default=Fraction(0),
        description="In the composite; 1.0 with a check, 0 for a contract.",
    )
    severity: Severity = Field(default="major", description="A contract brings its own.")
    cases: CaseIds = Field(default_factory=list, description="Ids before the matrix; default all.")
    vacuous: Vacuity = Field(default="pass", description="What a vacuous pass counts as.")
    enforced_by: list[Enforcement] = Field(
        default_factory=list, description="What prevents a violation; see label."
    )


Mode: TypeAlias = Literal["release", "exploratory", "diagnostic"]

_REPLICAS: dict[str, Any] = {
    "anyOf": [
        {"const": 1},
        {
            "type": "object",
            "properties": {"count": {"const": 1}, "aggregate": {"const": "all"}},
            "additionalProperties": False,
        },
    ]
}

SECTIONS: dict[str, tuple[Any, str]] = {
    "evarness": (
        Annotated[int, PlainValidator(_format), WithJsonSchema({"const": FORMAT})],
        "Format version; this key makes a file a scenario.",
    ),
    "id": (Id, "Name in reports and bundle; default: the file's stem."),
    "description": (str, "Free text."),
    "tags": (Tags, "Keywords for -k."),
    "mode": (Mode, "release (default), exploratory or diagnostic."),
    "subject": (Subject, "The harness under test."),
    "task": (Task, "What the agent was asked."),
    "policy": (Policy, "The policy in force."),
    "environment": (dict[str, Any], "The simulated world."),
    "cases": (dict[str, Any], "Variants, by id."),
    "matrix": (dict[str, Any], "Crosses every case."),
    "replicas": (
        Annotated[Any, BeforeValidator(_replicas), WithJsonSchema(_REPLICAS)],
        "Inner runs of a case; 1 in this version.",
    ),
    "invariants": (dict[str, Entry], "What must hold, by id."),
    "scoring": (Scoring, "The composite."),
    "forbidden": (Forbidden, "What must not happen; each rule is a gate."),
    "expect": (Expect, "The declared end; default {status: completed}."),
    "secrets": (
        Annotated[list[Variable], AfterValidator(_once)],
        "Environment variables whose values are masked everywhere.",
    ),
    "budget": (BudgetShape, "Bounds of one run."),
}
"""Type and meaning of every key of the file."""

TOP_KEYS = tuple(SECTIONS)

CASE_KEYS = tuple(key for key in TOP_KEYS if key not in ("evarness", "id", "cases", "matrix"))
"""Keys that a case may have beside the short names."""

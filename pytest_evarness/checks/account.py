"""``account``: what the run says of itself at the end agrees with what other checks saw.

The output proves nothing about the world. It can only be held against what does.

Source: docs/checks/account.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.found import found
from pytest_evarness.checks.kind import Facts, Known, OfTheRun, UnavailableError
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import nearest, one_of, quoted
from pytest_evarness.source.quote import shown as written

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem

__all__ = ["Account"]

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"const": "account"},
        "claims": {"description": "A matcher over the run's output: what counts as the claim."},
        "needs": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "description": "Invariants of the case that have to hold where the claim is made.",
        },
        "must_claim": {
            "type": "boolean",
            "description": "Fail where the claim is not made; default false.",
        },
    },
    "required": ["type", "claims", "needs"],
    "additionalProperties": False,
}


class Account(OfTheRun):
    """Whether the final account is true."""

    @property
    def name(self) -> str:
        """The word under ``check.type``."""
        return "account"

    @property
    def schema(self) -> JsonObject:
        """For editors."""
        return _SCHEMA

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """``{type, claims, needs, must_claim}``."""
        faults = [
            Fault(
                (),
                f"required key {quoted(name)} is missing",
                rule="{claims: a matcher, needs: [invariants]}",
                code="missing_key",
            )
            for name in ("claims", "needs")
            if name not in value
        ]
        if "claims" in value:
            from pytest_evarness.checks.expectation import output_faults

            faults += [fault.under("claims") for fault in output_faults(value["claims"])]
        needs: Any = value.get("needs", [])
        if not isinstance(needs, list) or ("needs" in value and not needs):
            faults.append(Fault(("needs",), "must be a list of invariants", got=written(needs)))
            needs = []
        for position, name in enumerate(needs):
            fault = _need_fault(name, known)
            if fault is None and name in needs[:position]:
                fault = Fault((), "is named twice", got=quoted(name))
            if fault is not None:
                faults.append(fault.under("needs", position))
        must: Any = value.get("must_claim", False)
        if not isinstance(must, bool):
            faults.append(Fault(("must_claim",), "must be true or false", got=written(must)))
        if faults:
            return {}, faults
        return {
            "type": self.name,
            "claims": value["claims"],
            "needs": list(needs),
            "must_claim": must,
        }, []

    def follows(self, definition: JsonObject) -> frozenset[str]:
        """The checks whose findings decide."""
        needs: Any = definition["needs"]
        return frozenset(needs)

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """Hold the claim, where it is made, against the findings."""
        del gathered
        definition: Any = item.definition
        looked: tuple[str, ...] = ("the run's whole output",)
        said = _claim(definition["claims"], facts)
        if said is None:
            reason = (
                "the run gave no output, so it makes no claim"
                if facts.output is None
                else "the output does not make the claim"
            )
            if definition["must_claim"]:
                witness = Witness(
                    expected=f"an output {_described(definition['claims'])}",
                    observed="no output" if facts.output is None else shown(facts.output, 400),
                )
                return found(item, Outcome.FAIL, reason, witness=witness, looked_at=looked)
            return found(item, Outcome.PASS, reason, vacuous=True, looked_at=looked)
        looked = (*looked, *(f"the finding '{name}'" for name in definition["needs"]))
        findings = [(name, facts.findings.get(name)) for name in definition["needs"]]
        witness = Witness(
            expected=f"what the output claims ({_described(definition['claims'])}) is so:"
            f" {', '.join(definition['needs'])}",
            observed=shown(facts.output, 400),
            entries=tuple(_line(name, finding) for name, finding in findings),
        )
        for name, finding in findings:
            if finding is not None and finding.outcome is Outcome.FAIL:
                reason = f"the output claims what is not so: '{name}' failed ({finding.reason})"
                return found(item, Outcome.FAIL, reason, witness=witness, looked_at=looked)
        causes: list[Cause] = []
        open_names = []
        for name, finding in findings:
            if finding is None:
                causes.append(Cause.EVALUATOR_ERROR)
            elif finding.outcome is Outcome.INDETERMINATE:
                causes.extend(finding.causes)
            elif finding.vacuous:
                # Nothing was there to violate it, which is no sign that what is claimed happened.
                causes.append(Cause.MISSING_EVIDENCE)
            else:
                continue
            open_names.append(name)
        if causes:
            return found(
                item,
                Outcome.INDETERMINATE,
                "whether what the output claims is so is not known:"
                f" {', '.join(_state(name, dict(findings)[name]) for name in open_names)}",
                causes=Cause.ordered(causes),
                witness=witness,
                looked_at=looked,
            )
        return found(
            item,
            Outcome.PASS,
            f"what the output claims is so: {', '.join(definition['needs'])}",
            looked_at=looked,
        )


def _need_fault(name: Any, known: Known) -> Fault | None:
    if not isinstance(name, str):
        return Fault((), "must be the id of an invariant", got=written(name))
    kind = known.ids.get(name)
    if kind is None:
        near = nearest(name, known.ids)
        return Fault(
            (),
            "names no other invariant of this case",
            got=quoted(name),
            rule=f"invariants of the case: {one_of(known.ids) or 'none'}",
            # An id of the file may be missing here because its entry is limited to other cases.
            fix=f"write '{near}'" if near else "limit both entries to the same `cases`",
        )
    part: Any = known.registry.check_types.find(kind)
    if part is not None and not part.may_gate:
        return Fault(
            (),
            "names what a model judges",
            got=quoted(name),
            rule="a claim is held against what was seen, never against an opinion",
        )
    return None


def _claim(spec: Json, facts: Facts) -> str | None:
    """The output that makes the claim; None where none is made.

    Raises:
        UnavailableError: Whether it is made is not known.
    """
    from pytest_evarness.core.matcher import parse_matcher

    if facts.output is None:
        expect = facts.findings.get("expect")
        is_declared = expect is not None and expect.outcome is Outcome.PASS
        if facts.status in ("unscripted", "unfinished") or (
            facts.status == "paused" and not is_declared
        ):
            raise UnavailableError(
                Cause.UNFINISHED_RUN,
                f"the run ended {facts.status}, so what it would have claimed is not known",
            )
        return None
    matcher, faults = parse_matcher(spec)
    if matcher is None:
        raise UnavailableError(
            Cause.EVALUATOR_ERROR, f"the claim cannot be read here: {faults[0].text}"
        )
    answer = matcher.test(facts.output)
    if answer.held is None:
        raise UnavailableError(
            answer.cause or Cause.EVALUATOR_ERROR, f"whether the claim is made: {answer.why}"
        )
    return facts.output if answer.held else None


def _described(spec: Json) -> str:
    from pytest_evarness.core.matcher import parse_matcher

    matcher, _ = parse_matcher(spec)
    return shown(spec) if matcher is None else matcher.describe()


def _state(name: str, finding: Finding | None) -> str:
    if finding is None:
        return f"'{name}' was not judged"
    if finding.outcome is Outcome.INDETERMINATE:
        return f"'{name}' is indeterminate ({finding.reason})"
    return f"'{name}' passed only because nothing was there"


def _line(name: str, finding: Finding | None) -> str:
    if finding is None:
        return f"{name}: not judged"
    word = "vacuous" if finding.vacuous else finding.outcome.word
    return f"{name}: {word}, {finding.reason}"

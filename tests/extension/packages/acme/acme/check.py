"""A check that counts the lines of a file of the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.found import found
from pytest_evarness.checks.kind import CheckKind, Facts, Known, UnavailableError
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.world.sealed import Scene


class LineCount(CheckKind):
    """``{type: acme_line_count, path: TEXT, lines: N}``."""

    name = "acme_line_count"
    schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "type": {"const": "acme_line_count"},
            "path": {"type": "string"},
            "lines": {"type": "integer"},
        },
        "required": ["type", "path", "lines"],
        "additionalProperties": False,
    }

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        del known
        faults = [
            Fault((), f"required key '{key}' is missing")
            for key in ("path", "lines")
            if key not in value
        ]
        return ({} if faults else dict(value)), faults

    def needs(self, definition: JsonObject) -> frozenset[str]:
        del definition
        return frozenset({"workspace"})

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        with scene.workspace_copy() as folder:
            path = folder / str(definition["path"])
            if not path.is_file():
                raise UnavailableError(Cause.MISSING_EVIDENCE, f"no file {definition['path']}")
            return {"lines": len(path.read_bytes().splitlines())}

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        del facts
        definition: Any = item.definition
        wanted, met = definition["lines"], gathered["lines"]
        witness = Witness(expected=f"{wanted} lines", observed=f"{met} lines")
        outcome = Outcome.PASS if wanted == met else Outcome.FAIL
        return found(item, outcome, f"{definition['path']} has {met} lines", witness=witness)

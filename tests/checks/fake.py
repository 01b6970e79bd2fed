"""A check type and a scene for tests: no service, no process, everything in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.found import found
from pytest_evarness.checks.kind import CheckKind, Facts, Known, UnavailableError
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.secret import Masker
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject

WORLD: dict[str, Any] = {"workspace": None, "services": [], "ledger": []}


class Probe(CheckKind):
    """Reads one file of the workspace and compares its text."""

    name = "probe"
    only_reads = True
    may_gate = True
    after_verdict = False
    schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "type": {"const": "probe"},
            "path": {"type": "string"},
            "equals": {"type": "string"},
        },
        "required": ["type", "path", "equals"],
        "additionalProperties": False,
    }

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        del known
        missing = [name for name in ("path", "equals") if name not in value]
        faults = [Fault((), f"required key '{name}' is missing") for name in missing]
        return {} if faults else dict(value), faults

    def needs(self, definition: JsonObject) -> frozenset[str]:
        del definition
        return frozenset({"workspace"})

    def gather(self, definition: JsonObject, scene: Any) -> JsonObject:
        path = scene.workspace / str(definition["path"])
        if not path.is_file():
            return {"text": None}
        return {"text": path.read_text(encoding="utf-8")}

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        del facts
        assert item.definition is not None
        want, got = item.definition["equals"], gathered["text"]
        outcome = Outcome.PASS if want == got else Outcome.FAIL
        reason = f"the file holds {got!r}"
        witness = Witness(expected=f"{want!r}", observed=f"{got!r}")
        return found(item, outcome, reason, witness=witness)

    def consistent(
        self, definition: JsonObject, gathered: JsonObject, world: JsonObject
    ) -> str | None:
        workspace: Any = world.get("workspace")
        if workspace is None:
            raise UnavailableError(Cause.MISSING_EVIDENCE, "no workspace is sealed")
        by_path = {file["path"]: file.get("sha256") for file in workspace["files"]}
        sealed = by_path.get(definition["path"])
        text = gathered["text"]
        own = None
        if isinstance(text, str):
            own = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        return None if own == sealed else f"the file's digest is {sealed}"


class Told(Probe):
    """Gives what a test tells it to, one thing after the other."""

    name = "told"

    def __init__(self, *answers: Any, **traits: Any) -> None:
        self.answers = list(answers)
        self.verdicts: list[Any] = list(traits.pop("verdicts", ()))
        self.calls = 0
        for trait, value in traits.items():
            setattr(self, trait, value)

    def needs(self, definition: JsonObject) -> frozenset[str]:
        needs: Any = definition.get("needs", ())
        return frozenset(needs)

    def gather(self, definition: JsonObject, scene: Any) -> JsonObject:
        del definition, scene
        answer = self.answers[min(self.calls, len(self.answers) - 1)]
        self.calls += 1
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        del facts
        verdict = self.verdicts.pop(0) if self.verdicts else gathered.get("verdict", "pass")
        if isinstance(verdict, BaseException):
            raise verdict
        score = gathered.get("score")
        finding = found(item, Outcome.parse(str(verdict)), str(gathered.get("reason", "told")))
        if isinstance(score, str):
            from fractions import Fraction

            finding = finding.with_(score=Fraction(score))
        return finding


@dataclass
class FakeService:
    """A service that is up, or down with its last words."""

    name: str
    problem: str | None = None


@dataclass
class FakeScene:
    """A sealed world in memory."""

    snapshot: Mapping[str, Any] = field(default_factory=lambda: WORLD)
    secrets: Mapping[str, str] = field(default_factory=dict)
    workspace: Path | None = None
    services: Mapping[str, Any] = field(default_factory=dict)
    output: str | None = "done"
    events: Sequence[Any] = ()
    audit_log: str = ""
    shipped_logs: Mapping[str, str] = field(default_factory=dict)
    trace_log: str = ""
    prompt: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    scenario_folder: Path = Path("/project/scenarios")
    root: Path = Path("/project")
    sandbox_id: str = "evarness-0"
    details: Mapping[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def masker(self) -> Masker:
        return Masker(self.secrets)

    @contextmanager
    def workspace_copy(self) -> Iterator[Path]:
        assert self.workspace is not None
        yield self.workspace

    def check_workspace(self) -> None:
        """Nobody but the test writes here."""


def check_item(name: str, kind: str = "told", **more: Any) -> PlannedItem:
    definition = {"type": kind, "timeout": 30.0, "recheck": False, **more.pop("definition", {})}
    return PlannedItem(id=name, kind=kind, definition=definition, **more)

"""A sealed world made of a folder, for checks that look at one."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.kind import CheckKind, Facts, Known, ReadFile, UnavailableError
from pytest_evarness.core import c1
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import Registry
from pytest_evarness.core.secret import Masker
from pytest_evarness.errors import Fault
from pytest_evarness.world.snapshot import take

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding


@dataclass
class FakeService:
    """A service of which only copies are asked."""

    name: str
    address: Mapping[str, Any]
    problem: str | None = None
    kind: str = "sqlite"

    @contextlib.contextmanager
    def copy(self) -> Iterator[Mapping[str, Any]]:
        yield self.address


@dataclass
class FolderScene:
    """What checks see of ``root/ws``, which is what a run left."""

    root: Path
    services: dict[str, Any] = field(default_factory=dict)
    start: Mapping[str, Any] = field(default_factory=dict)
    output: str | None = None
    events: Sequence[Any] = ()
    audit_log: str = ""
    shipped_logs: Mapping[str, str] = field(default_factory=dict)
    trace_log: str = ""
    prompt: str = "do it"
    params: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    sandbox_id: str = "evarness-0123"
    details: Mapping[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    masker: Masker = field(default_factory=lambda: Masker({}))

    def __post_init__(self) -> None:
        self.workspace.mkdir(exist_ok=True)
        self._sealed: Any = None

    @property
    def workspace(self) -> Path:
        return self.root / "ws"

    @property
    def scenario_folder(self) -> Path:
        return self.root

    @property
    def snapshot(self) -> Any:
        if self._sealed is None:
            self.seal()
        return self._sealed

    def seal(self) -> None:
        true, _ = take(str(self.workspace), self.start, self.masker)
        self._sealed = {"workspace": true, "services": [], "ledger": []}

    @contextlib.contextmanager
    def workspace_copy(self) -> Iterator[Path]:
        target = self.root / "copies" / "ws"
        shutil.copytree(self.workspace, target, symlinks=True)
        try:
            yield target
        finally:
            shutil.rmtree(target.parent)

    def check_workspace(self) -> None:
        """Nobody but the test writes here."""

    def write(self, path: str, content: str | bytes = "") -> Path:
        place = self.workspace / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return place


def known(root: Path, **more: Any) -> Known:
    def read(reference: str) -> tuple[ReadFile | None, Fault | None]:
        path = root / reference
        if not path.is_file():
            return None, Fault((), "cannot be read", got=reference)
        data = path.read_bytes()
        return ReadFile(reference, data, hashlib.sha256(data).hexdigest()), None

    fields: dict[str, Any] = {
        "services": {},
        "has_workspace": True,
        "secrets": frozenset(),
        "read": read,
        "ids": {},
        "environment": {},
        "registry": Registry(),
    }
    return Known(**{**fields, **more})


NOTHING = Facts(world={}, events=(), status="completed", output=None, findings={})


def parsed(kind: CheckKind, scene: Any, check: Mapping[str, Any]) -> dict[str, Any]:
    """The definition of a check that has no mistake, as the loader seals it."""
    own = {key: value for key, value in check.items() if key not in ("timeout", "recheck")}
    definition, faults = kind.parse(
        {"type": kind.name, **own},
        known(scene.root, services={name: one.kind for name, one in scene.services.items()}),
    )
    assert faults == [], [fault.text for fault in faults]
    sealed: dict[str, Any] = c1.frozen(
        {**definition, "timeout": float(check.get("timeout", 30)), "recheck": False}
    )[0]
    return sealed


def refusals(kind: CheckKind, root: Path, check: Mapping[str, Any]) -> list[str]:
    """What is wrong with a check: the path and the sentence of each mistake."""
    definition, faults = kind.parse({"type": kind.name, **check}, known(root))
    assert bool(faults) is (not definition), "a definition, or faults"
    return [f"{'.'.join([*map(str, fault.path), ''])} {fault.text}" for fault in faults]


def judged(kind: CheckKind, scene: Any, check: Mapping[str, Any]) -> Finding:
    """The finding of a check on a scene, by way of its evidence as a bundle holds it."""
    definition = parsed(kind, scene, check)
    item = PlannedItem(id="it", kind=kind.name, definition=definition)
    try:
        gathered = kind.gather(definition, scene)
    except UnavailableError as error:
        from pytest_evarness.checks.found import found
        from pytest_evarness.core.outcome import Outcome

        return found(item, Outcome.INDETERMINATE, error.reason, causes=(error.cause,))
    text = c1.text(gathered)
    assert str(scene.root) not in text, "no path of this machine is evidence"
    record = c1.frozen(gathered)[0]
    first, second = (kind.judge(item, record, NOTHING) for _ in range(2))
    assert first == second
    assert c1.text(first.as_record())
    return first

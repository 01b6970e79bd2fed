"""The sealed world of run A as the checks of its case see it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core import c1
from pytest_evarness.core.removal import remove_tree
from pytest_evarness.core.secret import Masker
from pytest_evarness.world.sealed import StaleWorldError
from pytest_evarness.world.workspace import copy_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.run import Run
    from pytest_evarness.core.trace import TraceEvent
    from pytest_evarness.world.service import Service
    from pytest_evarness.world.world import RunWorld

__all__ = ["RunScene", "scene_of"]

_EMPTY: JsonObject = {"workspace": None, "services": [], "ledger": []}


@dataclass(frozen=True, slots=True)
class RunScene:
    """See :class:`~pytest_evarness.world.sealed.Scene`."""

    world: RunWorld | None
    masker: Masker
    output: str | None
    events: Sequence[TraceEvent]
    prompt: str
    environment: JsonObject
    scenario_folder: Path
    root: Path
    sandbox_id: str
    trace_log: str
    details: Mapping[str, Json] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def snapshot(self) -> JsonObject:
        """The end state, unmasked."""
        return _EMPTY if self.world is None else self.world.snapshot

    @property
    def workspace(self) -> Path | None:
        """The sealed folder, to be read only."""
        return None if self.world is None else self.world.workspace

    @contextlib.contextmanager
    def workspace_copy(self) -> Iterator[Path]:
        """A copy that may be written; an empty folder where no workspace is declared."""
        from pytest_evarness.world import home

        target = home.new_folder()
        try:
            folder = self.workspace
            # A link in its place leads wherever the run wanted.
            if folder is not None and folder.is_dir() and not folder.is_symlink():
                copy_tree(str(folder), target)
            self.check_workspace()
            yield Path(target)
        finally:
            remove_tree(target)

    def check_workspace(self) -> None:
        """See :class:`~pytest_evarness.world.sealed.Scene`."""
        if self.world is not None and not self.world.is_workspace_unchanged:
            raise StaleWorldError("the workspace was changed after the world was sealed")

    @property
    def services(self) -> Mapping[str, Service]:
        """Sealed services by name, those that are down included."""
        return {} if self.world is None else self.world.services

    @property
    def audit_log(self) -> str:
        """JSON lines ``{type, ts, details}``."""
        return "" if self.world is None else self.world.audit.text

    @property
    def shipped_logs(self) -> Mapping[str, str]:
        """Audit logs that nodes of the run wrote, by the node."""
        return {} if self.world is None else self.world.audit.shipped

    @property
    def params(self) -> JsonObject:
        """``environment.params``."""
        params: Any = self.environment.get("params")
        return params if isinstance(params, dict) else {}


def scene_of(
    case: CompiledCase,
    world: RunWorld | None,
    run: Run,
    secrets: Mapping[str, str],
    *,
    prompt: str,
    scenario_folder: Path,
    root: Path,
    details: Mapping[str, Json] | None = None,
) -> RunScene:
    """What the checks of a case look at.

    Args:
        world: Of run A, sealed; None where the case declares none.
        run: Run A.
        secrets: Values of the case's secrets.
        details: Further facts; ``unsandboxed`` is added: what commands of the run could do that
            nobody would know of, out of ``network`` and ``writes``.
    """
    known: dict[str, Json] = dict(details or {})
    known["unsandboxed"] = [] if world is None else sorted(world.unsandboxed)
    if world is not None:
        masker = world.masker
    else:
        masker = Masker({name: secrets[name] for name in case.secrets})
    return RunScene(
        world=world,
        masker=masker,
        output=run.output,
        # Read from what was hashed: a step of the user's own shared a process with the payloads.
        events=[c1.thaw(text) for text in run.texts],
        prompt=prompt,
        environment=case.environment,
        scenario_folder=scenario_folder,
        root=root,
        sandbox_id=f"evarness-{case.digest.removeprefix('sha256:')[:12]}",
        trace_log="".join(f"{text}\n" for text in run.texts),
        details=known,
    )

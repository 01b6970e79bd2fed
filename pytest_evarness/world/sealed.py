"""The world after a run, as checks may look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.secret import Masker
    from pytest_evarness.core.trace import TraceEvent
    from pytest_evarness.world.service import Service

__all__ = ["Scene", "StaleWorldError"]


class StaleWorldError(Exception):
    """The sealed world is not any more what was sealed; ``reason`` says so in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Scene(Protocol):
    """Everything that the checks of one case may look at: run A's sealed world and its account.

    True values stand here; whoever lets one out masks it.
    """

    @property
    def snapshot(self) -> JsonObject:
        """The end state, unmasked: ``{"workspace", "services", "ledger"}``; see docs/world.md."""

    @property
    def masker(self) -> Masker:
        """Replaces secrets."""

    @property
    def workspace(self) -> Path | None:
        """The sealed folder, to be read only; None where the scenario declares none."""

    def workspace_copy(self) -> AbstractContextManager[Path]:
        """A copy that may be written; an empty folder where no workspace is declared.

        Raises:
            StaleWorldError: What was copied is not what was sealed.
        """

    def check_workspace(self) -> None:
        """Look whether the workspace still is what was sealed.

        Raises:
            StaleWorldError: It was changed.
        """

    @property
    def services(self) -> Mapping[str, Service]:
        """Sealed services by name, those that are down included."""

    @property
    def output(self) -> str | None:
        """The whole output of run A."""

    @property
    def events(self) -> Sequence[TraceEvent]:
        """Run A's events."""

    @property
    def audit_log(self) -> str:
        """JSON lines ``{type, ts, details}``."""

    @property
    def shipped_logs(self) -> Mapping[str, str]:
        """Audit logs that nodes of the run wrote, JSON lines by the node; masked already."""

    @property
    def trace_log(self) -> str:
        """Run A's events as JSON lines."""

    @property
    def prompt(self) -> str:
        """What the agent was asked."""

    @property
    def params(self) -> JsonObject:
        """``environment.params``."""

    @property
    def environment(self) -> JsonObject:
        """The case's environment, normalised."""

    @property
    def scenario_folder(self) -> Path:
        """Where relative references of the scenario lead from; absolute."""

    @property
    def root(self) -> Path:
        """The project's root directory, absolute."""

    @property
    def sandbox_id(self) -> str:
        """A name for this world that is the same for every run of the case."""

    @property
    def kept(self) -> dict[str, Any]:
        """What one check of the case leaves for the next, under a key of its own.

        Such as how far a script of answers is used; nothing of it is evidence.
        """

    @property
    def details(self) -> Mapping[str, Json]:
        """Further facts by name, such as the texts of scripts sealed with the case."""

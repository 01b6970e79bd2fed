"""What a type of check is: it gathers evidence from the sealed world, and judges that evidence.

The two are apart so that a verdict can be made again: ``judge`` is a pure function of what stands
in the bundle, and ``gather`` is all that needs the world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.outcome import Cause
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.trace import TraceEvent
    from pytest_evarness.errors import Fault
    from pytest_evarness.world.sealed import Scene

__all__ = ["CheckKind", "Facts", "Known", "UnavailableError"]


class UnavailableError(Exception):
    """A check cannot look: the finding is indeterminate.

    Args:
        cause: Whose problem it is.
        reason: One sentence, complete in itself.
    """

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Known:
    """What the loader knows when a check is read.

    Attributes:
        services: Type of each declared service, by name.
        has_workspace: Whether the scenario declares one.
        secrets: Names of the case's secrets.
        read: The text of a file the scenario refers to, which is sealed with the case, or a fault.
        ids: Ids and kinds of the case's other invariants.
        environment: Normalised.
    """

    services: Mapping[str, str]
    has_workspace: bool
    secrets: frozenset[str]
    read: Any
    ids: Mapping[str, str]
    environment: JsonObject
    registry: Registry


@dataclass(frozen=True, slots=True)
class Facts:
    """What a check is judged by, beside what it gathered itself.

    Attributes:
        world: The snapshot; masked where a verifier judges.
        events: Run A's.
        status: Of run A.
        output: Of run A.
        findings: Findings of items that were judged before, by id; for ``account``.
    """

    world: JsonObject
    events: Sequence[TraceEvent]
    status: str
    output: str | None
    findings: Mapping[str, Finding]


class CheckKind(Protocol):
    """One type of check, registered in ``registry.check_types``; modules load it late."""

    @property
    def name(self) -> str:
        """The word under ``check.type``."""

    @property
    def only_reads(self) -> bool:
        """Whether it leaves everything as it is: such checks are gathered twice and compared."""

    @property
    def may_gate(self) -> bool:
        """False for what a model says."""

    @property
    def schema(self) -> JsonObject:
        """JSON Schema of the mapping under ``check``, ``type`` included."""

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """The sealed definition: normalised, JSON, with ``type``; and every mistake.

        Everything that decides is in it: defaults are written out, a number that is compared by
        its digits is kept as text, the text of a script is there by digest.
        """

    def needs(self, definition: JsonObject) -> frozenset[str]:
        """Evidence that must be there: ``service:NAME``, ``workspace``, ``output``."""

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        """Look, within bounds and time.

        Returns:
            Exactly JSON, with nothing that differs between two machines (no path, port or time).

        Raises:
            UnavailableError: It could not look.
        """

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """Decide, from these arguments alone."""

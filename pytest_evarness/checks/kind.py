"""What a type of check is: it gathers evidence from the sealed world, and judges that evidence.

The two are apart so that a verdict can be made again: ``judge`` is a pure function of what stands
in the bundle, and ``gather`` is all that needs the world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pytest_evarness.core.outcome import Cause

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.trace import TraceEvent
    from pytest_evarness.errors import Fault
    from pytest_evarness.world.sealed import Scene

__all__ = [
    "COMMON_FIELDS",
    "DEFAULT_TIMEOUT_SECONDS",
    "CheckKind",
    "Facts",
    "Known",
    "OfTheRun",
    "Read",
    "ReadFile",
    "UnavailableError",
]

COMMON_FIELDS = ("timeout", "recheck")
"""Fields of every check, read in one place; a kind's ``parse`` never sees them."""

DEFAULT_TIMEOUT_SECONDS = 30.0


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
class ReadFile:
    """A file that a check refers to; it is sealed with the case.

    Attributes:
        name: Relative to the root directory, with ``/``.
        data: Its bytes.
        sha256: Of its bytes, hex.
    """

    name: str
    data: bytes
    sha256: str

    def text(self) -> str:
        """Its text.

        Raises:
            UnicodeDecodeError: It is not UTF-8.
        """
        return self.data.decode("utf-8")


Read: TypeAlias = "Callable[[str], tuple[ReadFile | None, Fault | None]]"
"""``read(reference)``: the file as the scenario names it, or why it cannot be read."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the loader knows when a check is read.

    Attributes:
        services: Type of each declared service, by name; empty where it cannot be told.
        has_workspace: Whether the scenario declares one.
        secrets: Names of the case's secrets.
        read: Reads a file the scenario refers to; what is read is sealed as a subject.
        ids: Id to kind (a check type, ``contract``, ``trace``) of the case's other invariants.
        environment: Normalised.
    """

    services: Mapping[str, str]
    has_workspace: bool
    secrets: frozenset[str]
    read: Read
    ids: Mapping[str, str]
    environment: JsonObject
    registry: Registry


@dataclass(frozen=True, slots=True)
class Facts:
    """What a check is judged by, beside what it gathered itself.

    Attributes:
        world: The snapshot as it is sealed: secrets are masked.
        events: Run A's.
        status: Of run A.
        output: Of run A; None where it set none, or did not complete.
        findings: Findings of items that were judged before, by id; for ``account``.
    """

    world: JsonObject
    events: Sequence[TraceEvent]
    status: str
    output: str | None
    findings: Mapping[str, Finding]


class CheckKind(Protocol):
    """One type of check, registered in ``registry.check_types``; modules load it late.

    Subclassing it explicitly brings the defaults.
    """

    @property
    def name(self) -> str:
        """The word under ``check.type``."""

    @property
    def only_reads(self) -> bool:
        """Whether it leaves everything as it is: such checks are gathered twice and compared.

        The others may be with ``recheck: true``.
        """
        return True

    @property
    def may_gate(self) -> bool:
        """False for what a model says."""
        return True

    @property
    def after_verdict(self) -> bool:
        """Whether it is gathered only once the hard verdict is known, and only while it is open."""
        return False

    @property
    def schema(self) -> JsonObject:
        """JSON Schema of the mapping under ``check``, ``type`` included, common fields left out."""

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """The sealed definition: normalised, JSON, with ``type``; and every mistake.

        Everything that decides is in it: defaults are written out, a number that is compared by
        its digits is kept as text, the text of a script is there by digest. The loader adds
        ``timeout`` (seconds, a float) and ``recheck`` (a boolean).

        Args:
            value: The mapping under ``check`` as it was written, without the common fields; floats
                know their digits (``pytest_evarness.source.number.WrittenFloat``).
            known: What it is read beside.

        Returns:
            The definition, empty where there is a fault; and faults, paths relative to ``value``.
        """

    def needs(self, definition: JsonObject) -> frozenset[str]:
        """Evidence that must be there: ``service:NAME``, ``workspace``, ``output``.

        The loader refuses what no case declares; what is down later makes the finding
        indeterminate before ``gather`` is called.
        """
        return frozenset()

    def follows(self, definition: JsonObject) -> frozenset[str]:
        """Ids of items that are judged before it, their findings then standing in ``facts``."""
        return frozenset()

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        """Look, within bounds and time.

        Returns:
            Exactly JSON, with nothing that differs between two machines (no path, port or time).

        Raises:
            UnavailableError: It could not look.
        """

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """Decide, from these arguments alone (``item.definition`` is what ``parse`` gave).

        Raises:
            UnavailableError: What was gathered does not decide.
        """

    def is_final(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> bool:
        """Whether a fail over a run that did not come to an end stays one, had it gone on.

        Asked only of a fail of this kind. Without it (the default) such a fail is indeterminate,
        since what is missing may still have come, and what is wrong may still have been put right.
        """
        return False

    def consistent(
        self, definition: JsonObject, gathered: JsonObject, world: JsonObject
    ) -> str | None:
        """Whether the sealed world can have given what was gathered; a verifier asks.

        Returns:
            None where it can, else the contradiction in words.

        Raises:
            UnavailableError: The world does not tell (the default): what was gathered is then
                taken on the signer's word.
        """
        raise UnavailableError(Cause.MISSING_EVIDENCE, "the world does not tell")

    def largest(self, definition: JsonObject, world: JsonObject) -> int | None:
        """How long the c1 text of what is gathered from this world can be at most, in characters.

        A verifier asks it of evidence that is said to be too large to be enclosed.

        Returns:
            None (the default) where the world does not tell.
        """
        return None


class OfTheRun(CheckKind, Protocol):
    """A kind that is judged by events, output and findings alone, which are there anyway."""

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        """Nothing."""
        del definition, scene
        return {}

    def consistent(
        self, definition: JsonObject, gathered: JsonObject, world: JsonObject
    ) -> str | None:
        """Nothing is gathered, so nothing but that agrees with any world."""
        del definition, world
        return None if not gathered else f"a check '{self.name}' gathers nothing"

    def largest(self, definition: JsonObject, world: JsonObject) -> int | None:
        """Of an empty mapping."""
        del definition, world
        return len("{}")

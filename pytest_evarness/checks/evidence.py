"""What the judging of one case may look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.outcome import Cause

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["Evidence", "Gathered", "RunFacts", "named_types", "possible_types"]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run in numbers.

    Attributes:
        label: ``a`` or ``b``.
        status: As in docs/kernel.md.
        complete: True when the run reached an end of its own.
        events: How many were emitted.
        error: Why the run is ``unfinished``; None otherwise.
    """

    label: str
    status: str
    complete: bool
    events: int
    trace_digest: str
    chain_digest: str
    world_digest: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """What one check saw of the sealed world, or why it saw nothing.

    Attributes:
        record: Exactly JSON; None where the check could not look.
        causes: With no record only.
        reason: With no record only; one sentence, complete in itself.
        notes: With no record only; what else the reader needs, such as a service's last words.
    """

    record: JsonObject | None
    causes: tuple[Cause, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()

    def as_record(self) -> dict[str, Json]:
        """The JSON form: ``{"gathered": ...}`` or ``{"undecided": {causes, reason, notes}}``."""
        if self.record is not None:
            return {"gathered": self.record}
        return {
            "undecided": {
                "causes": [str(cause.value) for cause in self.causes],
                "reason": self.reason,
                "notes": list(self.notes),
            }
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Gathered:
        """Read what :meth:`as_record` wrote.

        Raises:
            KeyError: It is of another form.
            ValueError: A cause that does not exist, or none.
        """
        if set(record) == {"gathered"}:
            if not isinstance(record["gathered"], Mapping):
                raise ValueError("what was gathered is no mapping")
            return cls(record["gathered"])
        undecided = record["undecided"]
        if set(record) != {"undecided"} or set(undecided) != {"causes", "reason", "notes"}:
            raise ValueError("neither gathered nor undecided")
        causes = tuple(Cause(word) for word in undecided["causes"])
        if not causes:
            raise ValueError("undecided without a cause")
        return cls(None, causes, str(undecided["reason"]), tuple(undecided["notes"]))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Run A, and what is known of run B.

    Attributes:
        events: Run A's, in order.
        b: None when run B could not be made; ``error_b`` then says why.
        events_b: Run B's, only where its digest differs from run A's.
        output: The whole output of run A; None when it set none.
        possible: Event types that the graph can emit; None when that is not known.
        world: The end state of run A as it is sealed, secrets masked.
        world_b: Run B's, only where its digest differs from run A's.
        gathered: What each check saw, by item id.
    """

    events: Sequence[TraceEvent]
    a: RunFacts
    b: RunFacts | None
    events_b: Sequence[TraceEvent] | None = None
    error_b: str | None = None
    output: str | None = None
    possible: frozenset[str] | None = None
    leftovers: tuple[str, ...] = field(default=())
    world: JsonObject = field(default_factory=dict)
    world_b: JsonObject | None = None
    gathered: Mapping[str, Gathered] = field(default_factory=dict)


def named_types(items: Iterable[PlannedItem]) -> frozenset[str]:
    """Event types that the contracts of a case name in their patterns."""
    found: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, Mapping):
            for key, part in value.items():
                if key == "type":
                    found.update(
                        one
                        for one in (part if isinstance(part, list) else [part])
                        if isinstance(one, str)
                    )
                elif key not in ("where", "bind"):
                    walk(part)
        elif isinstance(value, list | tuple):
            for part in value:
                walk(part)

    for item in items:
        if item.kind in ("contract", "trace") and item.definition is not None:
            walk(item.definition.get("assert"))
    return frozenset(found)


def possible_types(graph: Graph, registry: Registry, named: Iterable[str]) -> frozenset[str] | None:
    """Event types that runs of ``graph`` can emit, or None when a node type is not known here.

    Args:
        named: Types that the contracts of the case name: a node that runs the user's own code may
            emit any ``custom.*`` type, so those among ``named`` are possible beside it.
    """
    from pytest_evarness.core.vocabulary import KERNEL

    possible = {name for name, kind in registry.event_types.items() if kind.source == KERNEL}
    nodes: Any = graph.nodes
    for node in nodes.values():
        kind = registry.node_types.find(node.type)
        if kind is None:
            return None
        possible.update(kind.emits)
        if "custom" in kind.traits:
            possible.update(name for name in named if name.startswith("custom."))
    return frozenset(possible)

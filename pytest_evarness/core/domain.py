"""A domain that has nothing to say yet: a domain of your own overrides what it does know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.interfaces import (
        Context,
        DerivedInvariant,
        EnvironmentKey,
        Locations,
        Overlay,
    )
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.trace import TraceEvent
    from pytest_evarness.errors import Fault

__all__ = ["PlainDomain"]


class PlainDomain:
    """Answers every question of :class:`~pytest_evarness.core.interfaces.Domain` with nothing.

    Attributes:
        name: Of the domain, by which nodes ask for its state.
        counted: Kinds of ``coverage`` that are parts of the harness, and so count towards a
            demanded share; the others (faults, services) are shown alone.
    """

    name: str = ""
    counted: frozenset[str] = frozenset()

    def environment_keys(self) -> Sequence[EnvironmentKey]:
        """None."""
        return ()

    def load_overlays(self, locations: Locations) -> Sequence[Overlay]:
        """None."""
        del locations
        return ()

    def check_case(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> list[Fault]:
        """No fault."""
        del graph, environment, overlays
        return []

    def start(self, context: Context) -> Any:
        """No state."""
        del context

    def leftovers(self, state: Any) -> list[str]:
        """None."""
        del state
        return []

    def derive(self, graph: Graph, environment: JsonObject) -> Sequence[DerivedInvariant]:
        """None."""
        del graph, environment
        return ()

    def identities(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> Mapping[str, frozenset[str]]:
        """None beside the node ids, which every graph knows."""
        del environment, overlays
        return {"node_id": frozenset(graph.nodes)}

    def aliases(self, overlays: JsonObject) -> Mapping[str, str]:
        """None."""
        del overlays
        return {}

    def enforcements(self, graph: Graph, environment: JsonObject) -> frozenset[str]:
        """None."""
        del graph, environment
        return frozenset()

    def coverage(self, graph: Graph, environment: JsonObject) -> Mapping[str, Sequence[str]]:
        """Nothing beside nodes and edges, which are looked after for every domain."""
        del graph, environment
        return {}

    def exercised(self, graph: Graph, events: Sequence[TraceEvent]) -> Mapping[str, frozenset[str]]:
        """Nothing."""
        del graph, events
        return {}

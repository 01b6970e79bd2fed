"""Whether a gate of a graph stands before every path to what it is to stop.

Only then may a rule be called preventive. What cannot be known is not claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_evarness.core.execution import CUSTOM_TRAIT
from pytest_evarness.domains.agents.flow import CLASSIFIER, Flow, always_asks, tool_names
from pytest_evarness.domains.agents.node.types import NODE_TYPES

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph, Node
    from pytest_evarness.core.json import JsonObject

__all__ = ["is_egress_enforced", "is_gate_enforced", "ungoverned"]

_OWN = {kind.name: kind for kind in NODE_TYPES}


def ungoverned(graph: Graph, environment: JsonObject, reached: Sequence[str]) -> frozenset[str]:
    """The nodes that could act by a way on which no gate of this domain stands.

    Another domain's node may do what it likes; a step of the user's own has what is declared.

    Args:
        reached: The keys of ``environment`` by which such a step could act.
    """
    has_way = any(environment.get(key) for key in reached)
    return frozenset(
        node.id
        for node in graph.nodes.values()
        if node.type not in _OWN or (has_way and CUSTOM_TRAIT in _OWN[node.type].traits)
    )


def is_gate_enforced(graph: Graph, free: frozenset[str]) -> bool:
    """Whether everything that may have side effects stands behind a gate that always asks.

    Without ``approve_side_effects`` every call that would have some is refused.

    Args:
        free: What acts by a way of its own.
    """

    def may_act(node: Node) -> bool:
        is_allowed = node.config.get("approve_side_effects") is True
        return node.id in free or (is_allowed and bool(tool_names(node)))

    gates = frozenset(node.id for node in graph.nodes.values() if always_asks(node))
    return bool(gates) and not any(map(may_act, _reached_without(graph, gates)))


def is_egress_enforced(graph: Graph, free: frozenset[str]) -> bool:
    """Whether everything that sends stands behind a classifier that arms the egress gate.

    That gate is asked by a node before it sends, so it stands nowhere else.

    Args:
        free: What sends by a way of its own.
    """
    arming = frozenset(
        node.id
        for node in graph.nodes.values()
        if node.type == CLASSIFIER and node.config.get("egress", "enforce") == "enforce"
    )
    return (
        bool(arming)
        and not free
        and not any(
            "egress_checked" in _OWN[node.type].emits for node in _reached_without(graph, arming)
        )
    )


def _reached_without(graph: Graph, gates: frozenset[str]) -> list[Node]:
    flow = Flow.of(graph)
    reached = flow.reach(flow.roots, stop=gates.__contains__)
    return [graph.nodes[node] for node in reached if node not in gates]

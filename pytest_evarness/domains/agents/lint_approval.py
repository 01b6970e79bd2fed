"""Remarks about approvals: what rests on one, and an end of it that nothing would notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.core.interfaces import LintFinding
from pytest_evarness.domains.agents.flow import Flow, acts_behind, asking
from pytest_evarness.source.quote import quoted

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["APPROVAL_RULES", "resting_on"]


def resting_on(graph: Graph, overlays: JsonObject, gate: str) -> frozenset[str]:
    """The nodes that do something else where the approval of ``gate`` has ended."""
    if acts := acts_behind(graph, overlays, gate):
        # What asks about a call approves no instruction.
        return acts
    return frozenset(
        node
        for node in Flow.of(graph).reach([gate])
        if graph.nodes[node].type == "procedural_memory"
        and graph.nodes[node].config.get("write_approval", "human") == "human"
    )


def _idle_expiry(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A gate whose approval expires, and nothing rests on it."""
    del registry
    return [
        LintFinding(
            "error",
            "idle_expiry",
            "nothing behind the gate rests on its approval, so its end changes nothing (got"
            f" {quoted(str(node.config['expires_ms']))})",
            (*graph.path_of(node.id), "config", "expires_ms"),
            node.id,
            fix="remove 'expires_ms'",
        )
        for node in graph.nodes.values()
        if node.type == "approval_gate"
        and "expires_ms" in node.config
        and node.id in asking(graph)
        and not resting_on(graph, overlays, node.id)
    ]


APPROVAL_RULES = (("agents.idle_expiry", _idle_expiry),)

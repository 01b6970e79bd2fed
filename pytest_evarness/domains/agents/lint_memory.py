"""Remarks about memories: what is written for nobody, what an instruction rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.core.interfaces import LintFinding
from pytest_evarness.domains.agents.flow import Flow
from pytest_evarness.domains.agents.memory import DEFAULT_KEY, target_of
from pytest_evarness.source.quote import quoted

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["MEMORY_RULES", "gates_of_instructions"]


def gates_of_instructions(graph: Graph) -> frozenset[str]:
    """Gates whose approval an instruction behind them can rest on."""
    waiting = [
        node.id
        for node in graph.nodes.values()
        if node.type == "procedural_memory"
        and node.config.get("write_approval", "human") == "human"
    ]
    before = Flow.of(graph).reach(waiting, back=True)
    return frozenset(node for node in before if graph.nodes[node].type == "approval_gate")


def _unread_targets(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A summary that goes into a memory which no node of the graph hands over."""
    del registry, overlays
    read = {
        (
            node.type,
            str(node.config.get("key", DEFAULT_KEY)) if node.type == "working_memory" else "",
        )
        for node in graph.nodes.values()
    }
    findings = []
    for node in graph.nodes.values():
        target = node.config.get("target")
        if node.type != "summary_consolidator" or not isinstance(target, str):
            continue
        kind, key = target_of(target)
        if (f"{kind}_memory", key if kind == "working" else "") not in read:
            findings.append(
                LintFinding(
                    "warning",
                    "memory_not_read",
                    f"no node of the graph reads what is written there (got {quoted(target)})",
                    (*graph.path_of(node.id), "config", "target"),
                    node.id,
                )
            )
    return findings


MEMORY_RULES = (("agents.memory_not_read", _unread_targets),)

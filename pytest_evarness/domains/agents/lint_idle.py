"""Remarks on what a configuration says and nothing can come of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import LintFinding
from pytest_evarness.domains.agents.flow import LOOP, tool_names
from pytest_evarness.domains.agents.manifest import canonical, manifests_of
from pytest_evarness.domains.agents.node.panel import JUDGE_PANEL, idle_keys
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import quoted

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph, Node
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["IDLE_RULES", "policy_remarks"]

_OF_TOOLS = ("dedup_guard", "approve_side_effects", "timeout_ms", "require_evidence")
"""Keys of a loop that are about its tools."""


def _panel_keys(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """Keys of a panel that belong to its other mode."""
    del registry, overlays
    panels = [node for node in graph.nodes.values() if node.type == JUDGE_PANEL.name]
    return [one for node in panels for one in idle_keys(node, graph.path_of(node.id))]


def _loop_keys(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """Keys of a loop that another key of it leaves without effect."""
    del registry, overlays
    return [
        LintFinding(
            "warning",
            "inert_key",
            f"the key has no effect {why} (got {quoted(key)})",
            (*graph.path_of(node.id), "config", key),
            node.id,
            fix=fix,
        )
        for node in graph.nodes.values()
        if node.type == LOOP
        for key, why, fix in _idle_in(node)
    ]


def _idle_in(node: Node) -> Iterator[tuple[str, str, str]]:
    """Each such key, why it has none, and what to do."""
    config = node.config
    check = config.get("grounding_check", "warn")
    if "grounding_retries" in config and check in ("warn", "off"):
        why = f"with 'grounding_check' {quoted(str(check))}"
        yield "grounding_retries", why, "remove it, or write 'grounding_check: retry'"
    if "grounding_rules" in config and check == "off":
        yield "grounding_rules", "with 'grounding_check' 'off'", "remove one of both"
    if not config.get("tools"):
        for key in _OF_TOOLS:
            if key in config:
                yield key, "in a loop without tools", "remove it, or name tools"


def _same_tool(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A tool that a loop is offered under two of its names."""
    del registry
    manifests = manifests_of(overlays)
    findings = []
    for node in graph.nodes.values():
        seen: dict[str, str] = {}
        for name, place in tool_names(node):
            tool = canonical(name, manifests)
            if tool in seen:
                findings.append(
                    LintFinding(
                        "warning",
                        "same_tool",
                        f"the tool is offered twice (got {quoted(name)}; {quoted(seen[tool])} is"
                        f" {quoted(tool)} as well)",
                        (*graph.path_of(node.id), "config", *place),
                        node.id,
                        fix="remove one of them",
                    )
                )
            seen.setdefault(tool, name)
    return findings


def _no_routes(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A router without rules: only its fallback is left."""
    del registry, overlays
    return [
        LintFinding(
            "warning",
            "no_routes",
            f"the router has no rule, so it always falls back (got {quoted(node.id)})",
            graph.path_of(node.id),
            node.id,
            fix="write a rule, or leave the node out",
        )
        for node in graph.nodes.values()
        if node.type == "intent_router" and not node.config.get("rules")
    ]


def policy_remarks(graph: Graph, environment: JsonObject) -> Iterator[Fault]:
    """Gates of a policy that forbids nothing: neither the node has terms nor the scenario."""
    faults: Any = environment.get("faults") or {}
    if faults.get("blocklist"):
        return
    for node in graph.nodes.values():
        if node.type == "policy_gate" and not node.config.get("deny"):
            yield Fault(
                ("faults",),
                "the policy_gate forbids nothing, so it lets every text pass",
                got=quoted(node.id),
                fix="write 'deny' in the node, or 'faults.blocklist'",
                code="policy_without_terms",
            )


IDLE_RULES = (
    ("agents.idle_panel_key", _panel_keys),
    ("agents.idle_loop_key", _loop_keys),
    ("agents.same_tool", _same_tool),
    ("agents.no_routes", _no_routes),
)

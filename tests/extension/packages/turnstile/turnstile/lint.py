"""What is odd about a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.core.interfaces import LintFinding

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry


def register_lint(registry: Registry) -> None:
    """Offer the rules."""

    @registry.lint_rule("machine.idle")
    def idle(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
        """A transition that ends where it begins."""
        del registry, overlays
        return [
            LintFinding(
                "warning",
                "machine.idle",
                f"the transition leads nowhere (got '{node.config['to']}' twice)",
                graph.path_of(node.id),
                node.id,
            )
            for node in graph.nodes.values()
            if node.type == "transition" and node.config.get("from") == node.config.get("to")
        ]

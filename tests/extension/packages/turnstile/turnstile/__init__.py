"""A domain without any agent: a machine that goes from state to state as signals come in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

__all__ = ["register"]


def register(registry: Registry) -> None:
    """Add node types, event types, an environment key, lint, coverage, and a harness."""
    from .domain import MachineDomain
    from .lint import register_lint
    from .node import register_nodes
    from .vocabulary import register_events

    register_events(registry)
    register_nodes(registry)
    register_lint(registry)
    registry.domains.register(MachineDomain.name, MachineDomain())
    registry.pattern(
        "coin_gate",
        Path(__file__).with_name("coin_gate"),
        doc="Nobody passes before a coin has fallen.",
        fixtures=("paid", "unpaid"),
    )

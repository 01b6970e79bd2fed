"""The agents domain: models, tools, approvals, retrieval and memory.

Importing it does nothing; it reaches the kernel through the registry that is handed to
:func:`register`, and knows nothing of scenarios, contracts or pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

__all__ = ["register"]


def register(registry: Registry) -> None:
    """Add node types, event types, environment keys, lint rules, patterns and a judge.

    There is no determinism inspector: nothing in these nodes reads what a replay could not repeat,
    and what a ``python`` node does is shown by the second run rather than guessed from its name.
    """
    from pytest_evarness.domains.agents.domain import AgentsDomain
    from pytest_evarness.domains.agents.extension import declare_extensions
    from pytest_evarness.domains.agents.judge import NAME, SimJudge
    from pytest_evarness.domains.agents.lint import register_lint
    from pytest_evarness.domains.agents.node.types import NODE_TYPES
    from pytest_evarness.domains.agents.pattern import register_patterns
    from pytest_evarness.domains.agents.vocabulary import register_events

    register_events(registry)
    declare_extensions(registry)
    for node_type in NODE_TYPES:
        registry.node_types.register(node_type.name, node_type)
    register_lint(registry)
    register_patterns(registry)
    registry.judges.register(NAME, SimJudge())
    registry.domains.register(AgentsDomain.name, AgentsDomain(registry))

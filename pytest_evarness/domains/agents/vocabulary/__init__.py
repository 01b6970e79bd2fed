"""The event types of this domain, each with the JSON Schema of its payload.

One module for each family of nodes, with ``TYPES`` (name to sentence and schema) and
``GOVERNANCE`` (the names that an auditor reads).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.core.event import EventType
from pytest_evarness.domains.agents.vocabulary import (
    base,
    egress,
    judging,
    knowledge,
    loop,
    memory,
    observing,
)
from pytest_evarness.domains.agents.vocabulary.base import (
    CHAIN,
    CLASSIFICATIONS,
    DENIALS,
    LAYOUTS,
    PERSONAL,
)

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

__all__ = [
    "CHAIN",
    "CLASSIFICATIONS",
    "DENIALS",
    "EMITTED",
    "GOVERNANCE",
    "LAYOUTS",
    "PERSONAL",
    "SOURCE",
    "register_events",
]

SOURCE = "agents"

_FAMILIES = (base, egress, judging, knowledge, loop, memory, observing)

_TYPES = {name: entry for family in _FAMILIES for name, entry in family.TYPES.items()}

GOVERNANCE = frozenset().union(*(family.GOVERNANCE for family in _FAMILIES))
"""What an auditor reads: decisions, and acts that a decision allowed."""

EMITTED = frozenset(_TYPES)
"""The types that nodes of this domain emit, and nothing else does."""


def register_events(registry: Registry) -> None:
    """Add the vocabulary to ``registry``."""
    for name, (doc, schema) in _TYPES.items():
        is_governance = name in GOVERNANCE
        entry = EventType(name, schema, doc, SOURCE, has_node=True, is_governance=is_governance)
        registry.event_types.register(name, entry)

"""The keys of ``environment`` that this domain understands, as models and as kernel parts.

One module for each family of nodes; :mod:`.rule` is what the rules of all scripts share.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pytest_evarness.domains.agents.environment.base import (
    VIAS,
    base_keys,
    parse_llm_rules,
    parse_tool_rules,
)
from pytest_evarness.domains.agents.environment.loop import loop_keys
from pytest_evarness.domains.agents.environment.memory import memory_keys
from pytest_evarness.domains.agents.environment.rule import provider_fault
from pytest_evarness.domains.agents.environment.tier import tier_keys

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import EnvironmentKey

__all__ = [
    "VIAS",
    "environment_keys",
    "parse_llm_rules",
    "parse_tool_rules",
    "provider_fault",
]


# Each key makes a JSON Schema of its model, which is dear; all registries of a process share them.
@cache
def environment_keys() -> tuple[EnvironmentKey, ...]:
    """Every key, one family after the other."""
    return (*base_keys(), *loop_keys(), *memory_keys(), *tier_keys())

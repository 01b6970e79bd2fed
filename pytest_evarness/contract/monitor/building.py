"""From a contract to the monitor of its primitive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.contract.monitor.at_most import at_most
from pytest_evarness.contract.monitor.eventually import eventually
from pytest_evarness.contract.monitor.every import every
from pytest_evarness.contract.monitor.leads_to import leads_to
from pytest_evarness.contract.monitor.never import never
from pytest_evarness.contract.monitor.precedes import precedes
from pytest_evarness.contract.rule import Eventually, Every, LeadsTo, Never, Precedes

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.contract.monitor.base import Monitor
    from pytest_evarness.core.registry import Registry

__all__ = ["monitor_for"]


def monitor_for(contract: Contract, registry: Registry) -> Monitor:
    """Compile ``contract`` into the monitor of its primitive."""
    rule = contract.rule
    if isinstance(rule, Never):
        return never(contract, rule, registry)
    if isinstance(rule, Eventually):
        return eventually(contract, rule, registry)
    if isinstance(rule, Every):
        return every(contract, rule, registry)
    if isinstance(rule, Precedes):
        return precedes(contract, rule, registry)
    if isinstance(rule, LeadsTo):
        return leads_to(contract, rule, registry)
    return at_most(contract, rule, registry)

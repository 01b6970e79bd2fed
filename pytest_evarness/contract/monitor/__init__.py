"""One monitor for each primitive: two worlds carried through one scan.

The evidence admits a set of runs. The *worst* world gives every hole (an undecided match, a gap,
an uncovered type) to the roles that hurt the contract, the *best* world to those that help it.
``hurt`` says that the worst world is violated for good, ``bad`` that the best one is, so that no
admitted run satisfies the contract. As long as nothing was undecided both worlds are the same
object; they part at the first hole.
"""

from __future__ import annotations

from pytest_evarness.contract.monitor.base import Doubt as Doubt
from pytest_evarness.contract.monitor.base import Handle as Handle
from pytest_evarness.contract.monitor.base import Monitor as Monitor
from pytest_evarness.contract.monitor.base import RoleInfo as RoleInfo
from pytest_evarness.contract.monitor.building import monitor_for as monitor_for

"""``eventually``: some event matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_evarness.contract.compile import Hit, Match
from pytest_evarness.contract.monitor.base import Handle, Monitor, role_info
from pytest_evarness.core.matcher import Undecided

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.contract.rule import Eventually
    from pytest_evarness.core.registry import Registry

__all__ = ["eventually"]


class _Eventually(Monitor):
    """``eventually``: roles P."""

    def start(self) -> None:
        self.helped = False
        if self.holes[0] is not None:
            self.helped = True
            self.note_hole(0)

    def handle(self, role: int, match: Match) -> Handle:
        def handle(payload: Any, event: Any, index: int) -> None:
            got = match(payload, event)
            if got is False:
                return
            if got is True:
                got = ()
            elif type(got) is Undecided:
                got = Hit(got)
            if type(got) is Hit:
                self.helped = True
                self.note_hit(index, got)
            elif self.safe_at is None:
                self.safe_at = index
                self.seen = True
                self.done = True

        return handle

    def gap(self, at: float) -> None:
        self.helped = True
        self.note_gap(at)

    def ends(self, last: int, closed: bool) -> tuple[bool, bool]:
        if self.safe_at is not None:
            return False, False
        if closed and not self.helped:
            self.bad, self.bad_at = (), last
        return True, closed and not self.helped


def eventually(contract: Contract, rule: Eventually, registry: Registry) -> Monitor:
    """The monitor of an ``eventually``."""
    return _Eventually(contract, [role_info("eventually", rule.match, [], registry)])

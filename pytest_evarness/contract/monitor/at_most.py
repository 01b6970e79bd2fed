"""``at_most``: no more matches than so many, for each tuple of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_evarness.contract.compile import Hit, Match, component
from pytest_evarness.contract.monitor.base import Handle, Monitor, RoleInfo, role_info
from pytest_evarness.core.matcher import MISSING, SECRET_PREFIX, Undecided

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.contract.rule import AtMost
    from pytest_evarness.core.registry import Registry

__all__ = ["at_most"]


class _AtMost(Monitor):
    """``at_most``: roles P, counted for each tuple of values."""

    def __init__(self, contract: Contract, roles: list[RoleInfo], rule: AtMost) -> None:
        self.n = rule.n
        self.per = rule.per
        super().__init__(contract, roles)

    def start(self) -> None:
        self.w_counts: dict[Any, int] = {}
        self.b_counts = self.w_counts
        self.unplaced = 0  # events that may belong to any tuple
        self.most = 0  # the largest count, once there is such an event
        if self.holes[0] is not None:
            self.hurt = True
            self.note_hole(0)

    def part(self) -> None:
        if self.b_counts is self.w_counts:
            self.b_counts = dict(self.w_counts)

    def handle(self, role: int, match: Match) -> Handle:
        n = self.n
        per = self.per
        simple = per[0].steps[0] if len(per) == 1 and len(per[0].steps) == 1 else None

        def handle(payload: Any, event: Any, index: int) -> None:
            got = match(payload, event)
            if got is False:
                return
            if got is True:
                got = ()
            elif type(got) is Undecided:
                got = Hit(got)
            if type(got) is Hit:
                self.maybe(got, payload, index)
                return
            self.seen = True
            key: Any = ()
            if per:
                key = payload.get(simple) if simple is not None else None
                if type(key) is not str or SECRET_PREFIX in key or len(key) > 1000:
                    key = self.key(payload)
                    if isinstance(key, Undecided):
                        self.unknown(key, index, is_sure=True)
                        return
            counts = self.b_counts
            count = counts.get(key, 0) + 1
            counts[key] = count
            if count > n:
                self.fail((index,), index, key)
            elif self.w_counts is not counts or self.unplaced:
                self.worst(key, counted=self.w_counts is counts)

        return handle

    def worst(self, key: Any, *, counted: bool) -> None:
        if not counted:
            self.w_counts[key] = self.w_counts.get(key, 0) + 1
        self.most = max(self.most, self.w_counts[key])
        if self.w_counts[key] + self.unplaced > self.n:
            self.hurt = True

    def unknown(self, why: Undecided, index: int, *, is_sure: bool) -> None:
        self.note_answer(index, why)
        if is_sure and self.n == 0:
            self.fail((index,), index)
            return
        if not self.unplaced:
            # From here on `worst` keeps it: looking through all for each event would be quadratic.
            self.most = max(self.w_counts.values(), default=0)
        self.unplaced += 1
        if self.most + self.unplaced > self.n:
            self.hurt = True

    def maybe(self, hit: Hit, payload: Any, index: int) -> None:
        self.note_hit(index, hit)
        key = self.key(payload)
        if isinstance(key, Undecided):
            self.unknown(key, index, is_sure=False)
        else:
            self.part()
            self.worst(key, counted=False)

    def key(self, payload: Any) -> Any:
        parts = []
        for path in self.per:
            part = component(payload, path)
            if part is MISSING:
                return Undecided(
                    f"{path}: the path is missing, so the event may belong to any tuple"
                )
            if isinstance(part, Undecided):
                return part
            parts.append(part)
        return parts[0] if len(parts) == 1 else tuple(parts)

    def gap(self, at: float) -> None:
        self.hurt = True
        self.note_gap(at)


def at_most(contract: Contract, rule: AtMost, registry: Registry) -> Monitor:
    """The monitor of an ``at_most``."""
    return _AtMost(contract, [role_info("at_most.of", rule.of, [], registry)], rule)

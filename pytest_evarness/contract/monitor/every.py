"""``every``: each match satisfies the condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_evarness.contract.compile import Condition, Hit, Match, compile_role, condition_of
from pytest_evarness.contract.monitor.base import Handle, Monitor, RoleInfo, role_info
from pytest_evarness.core.matcher import Undecided

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.contract.rule import Every
    from pytest_evarness.core.registry import Registry

__all__ = ["every"]


class _Every(Monitor):
    """``every``: roles P, and a condition asked of the same event."""

    def __init__(
        self, contract: Contract, roles: list[RoleInfo], conditions: list[Condition]
    ) -> None:
        self.conditions = conditions
        super().__init__(contract, roles)

    def start(self) -> None:
        if self.holes[0] is not None:
            self.hurt = True
            self.note_hole(0)

    def handle(self, role: int, match: Match) -> Handle:
        tests = [condition.test for condition in self.conditions]
        only = tests[0] if len(tests) == 1 else None

        def handle(payload: Any, event: Any, index: int) -> None:
            got = match(payload, event)
            if got is False:
                return
            if got is True and only is not None and only(payload, event) is True:
                self.seen = True
                return
            if type(got) is Undecided:
                got = Hit(got)
            held = True
            doubt: Undecided | None = None
            for test in tests:
                answer = test(payload, event)
                if answer is False:
                    held = False
                    break
                if answer is not True and doubt is None:
                    doubt = answer
            if type(got) is Hit:
                if not held or doubt is not None:
                    self.hurt = True
                    self.note_hit(index, got)
                return
            self.seen = True
            if not held:
                self.fail((index,), index)
            elif doubt is not None:
                self.hurt = True
                self.note_answer(index, doubt)

        return handle

    def gap(self, at: float) -> None:
        self.hurt = True
        self.note_gap(at)


def every(contract: Contract, rule: Every, registry: Registry) -> Monitor:
    """The monitor of an ``every``."""
    conditions = [condition_of(path, matcher) for path, matcher in rule.condition.where]
    if rule.condition.satisfies is not None:
        (only,) = compile_role((rule.condition,), [], registry)
        conditions = list(only.conditions)
    return _Every(contract, [role_info("every.match", rule.match, [], registry)], conditions)

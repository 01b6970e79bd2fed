"""``leads_to``: each event is answered by a later one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.contract.compile import Hit, Match
from pytest_evarness.contract.monitor.base import Handle, Monitor, RoleInfo, role_info
from pytest_evarness.contract.rule import LeadsTo, binding_of
from pytest_evarness.core.matcher import Undecided

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.registry import Registry

__all__ = ["leads_to"]


class _LeadsTo(Monitor):
    """``leads_to``: roles B, then A, so that an event never answers itself."""

    def __init__(
        self, contract: Contract, roles: list[RoleInfo], rule: LeadsTo, names: Sequence[str]
    ) -> None:
        self.within = rule.within
        self.names = names
        self.count = len(names)
        self.needs_values = any(one.generic for one in roles[0].alternatives)
        self.paths = dict(binding_of(rule))
        super().__init__(contract, roles)

    def start(self) -> None:
        # Unanswered A: binding -> index of the first one.
        self.w_open: dict[Any, float] = {}
        self.b_open = self.w_open
        self.values: dict[Any, Mapping[str, Any]] = {}
        self.b_wild: int | None = None  # first unanswered A of an unknown binding
        self.doomed = False  # an A that some admitted run never answers
        if self.holes[1] is not None:
            self.doomed = True
            self.note_hole(1)

    def part(self) -> None:
        if self.b_open is self.w_open:
            self.b_open = dict(self.w_open)

    def parts(self, key: Any) -> Sequence[Any]:
        return (key,) if self.count == 1 else key

    # distances, counted in events of covered types

    def distance(self, since: float, index: int) -> int:
        if self.covered is None:
            return index - int(since)
        return self.covered[index + 1] - self.covered[int(since) + 1]

    def deadline(self, since: float) -> int:
        """Index of the last event at which an answer is in time."""
        assert self.within is not None, "only with within"
        if self.covered is None:
            return int(since) + self.within
        return bisect_left(self.covered, self.covered[int(since) + 1] + self.within) - 1

    def late(self, since: float, index: int) -> bool:
        return self.within is not None and self.distance(since, index) > self.within

    def expire(self, extra: Iterable[float], index: int) -> None:
        """Some A was not answered in time: fail at the earliest deadline that has passed."""
        if self.holes[0] is not None:
            self.note_hole(0)
            return
        since = [*extra, *self.b_open.values()]
        if self.b_wild is not None:
            since.append(self.b_wild)
        missed = min(since, key=lambda one: (self.deadline(one), one))
        at = self.deadline(missed)
        if at <= index:
            key = next((key for key, one in self.b_open.items() if one == missed), None)
            self.fail((missed,), at, key)

    def handle(self, role: int, match: Match) -> Handle:
        return self._handle_then(match) if role == 0 else self._handle_when(match)

    def _handle_when(self, match: Match) -> Handle:
        def handle(payload: Any, event: Any, index: int) -> None:
            got = match(payload, event)
            if got is False:
                return
            if got is True:
                got = ()
            elif type(got) is Undecided:
                got = Hit(got)
            if type(got) is Hit:
                self.maybe_when(got, index, payload)
                return
            self.seen = True
            table = self.b_open
            if got not in table:
                table[got] = index
                if table is not self.w_open:
                    self.w_open.setdefault(got, index)
                self.opened(got, payload, index)

        return handle

    def opened(self, key: Any, payload: Any, index: int) -> None:
        if self.needs_values and key not in self.values:
            self.values[key] = {name: path.get(payload) for name, path in self.paths.items()}
        if len(self.w_open) > self.max_bindings and not self.done:
            if self.within is not None:
                self.expire((), index - 1)
            self.give_up()

    def maybe_when(self, hit: Hit, index: int, payload: Any) -> None:
        self.note_hit(index, hit)
        key = hit.key if self.count else ()
        if key is None:
            self.doomed = True
            if hit.static is True:
                self.seen = True
                if self.b_wild is None:
                    self.b_wild = index
        elif key not in self.w_open:
            self.part()
            self.w_open[key] = index
            self.opened(key, payload, index)

    def _handle_then(self, match: Match) -> Handle:
        bounded = self.within is not None

        def handle(payload: Any, event: Any, index: int) -> None:
            if not self.w_open and self.b_wild is None:
                return
            got = match(payload, event)
            if got is False:
                return
            if got is True:
                got = ()
            elif type(got) is Undecided:
                got = Hit(got)
            if self.b_wild is not None:
                if self.late(self.b_wild, index):
                    self.expire((), index)
                self.b_wild = None
            if type(got) is Hit:
                self.maybe_then(got, index)
            elif bounded or self.b_open is not self.w_open or self.values:
                self.answered(got, index, bounded)
            else:
                self.w_open.pop(got, None)

        return handle

    def answered(self, key: Any, index: int, bounded: bool) -> None:
        since = self.w_open.pop(key, None)
        if bounded and since is not None and self.late(since, index):
            self.hurt = True
        if self.b_open is not self.w_open:
            since = self.b_open.pop(key, None)
        if bounded and since is not None and self.late(since, index):
            self.expire((since,), index)
        if self.values:
            self.values.pop(key, None)

    def maybe_then(self, hit: Hit, index: int) -> None:
        for key in list(dict.fromkeys([*self.w_open, *self.b_open])):
            answer = hit.test(self.parts(key), self.values.get(key, {}))
            if answer is True:
                self.answered(key, index, self.within is not None)
            elif answer is not False and key in self.b_open:
                self.note_answer(index, answer)
                self.part()
                since = self.b_open.pop(key)
                if self.late(since, index):
                    self.expire((since,), index)

    def gap(self, at: float) -> None:
        self.note_gap(at)
        before = int(at - 0.5)  # index of the event before the gap
        if self.within is not None:
            if self.b_open or self.b_wild is not None:
                self.expire((), before)
            self.hurt = True
        self.part()
        self.b_open.clear()
        self.b_wild = None
        if self.count:
            self.doomed = True
        else:
            self.w_open.setdefault((), at)

    def ends(self, last: int, closed: bool) -> tuple[bool, bool]:
        if self.holes[0] is not None and (self.w_open or self.b_open):
            self.note_hole(0)
        if self.within is not None and (self.b_open or self.b_wild is not None):
            self.expire((), last)
        worst = self.hurt or self.doomed or bool(self.w_open)
        best = self.bad is not None
        if not best and closed and self.holes[0] is None:
            since = list(self.b_open.values())
            if self.b_wild is not None:
                since.append(self.b_wild)
            if since:
                first = min(since)
                key = next((key for key, one in self.b_open.items() if one == first), None)
                self.bad, self.bad_at, self.bad_key = (first,), last, key
                best = True
        return worst, best


def leads_to(contract: Contract, rule: LeadsTo, registry: Registry) -> Monitor:
    """The monitor of a ``leads_to``."""
    names = [name for name, _ in binding_of(rule)]
    roles = [
        role_info("then", rule.then, names, registry),
        role_info("when", rule.when, names, registry),
    ]
    return _LeadsTo(contract, roles, rule, names)

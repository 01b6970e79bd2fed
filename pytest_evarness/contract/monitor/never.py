"""``never``, everywhere and in a scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.contract.compile import Hit, Match
from pytest_evarness.contract.monitor.base import Handle, Monitor, RoleInfo, role_info
from pytest_evarness.contract.monitor.binding import products
from pytest_evarness.contract.rule import Never, binding_of
from pytest_evarness.core.matcher import Undecided

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.registry import Registry

__all__ = ["never"]


class _Never(Monitor):
    """``never`` without a scope: roles P."""

    def start(self) -> None:
        self.seen = True  # a plain never says something of every trace
        if self.holes[0] is not None:
            self.hurt = True
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
                self.hurt = True
                self.note_hit(index, got)
            elif self.bad is None:
                self.fail((index,), index)

        return handle

    def gap(self, at: float) -> None:
        self.hurt = True
        self.note_gap(at)


_P, _R, _Q = 0, 1, 2


class _Scoped(Monitor):
    """``never`` in a scope: roles P, R (closes), Q (opens), judged in this order at each event."""

    def __init__(
        self, contract: Contract, roles: list[RoleInfo], rule: Never, names: Sequence[str]
    ) -> None:
        self.between = rule.between is not None
        self.names = names
        self.count = len(names)
        self.opens_at_start = rule.opens is None
        self.index = {info.name: at for at, info in enumerate(roles)}
        self.r = next((at for at, info in enumerate(roles) if info.name in _CLOSERS), -1)
        self.q = next((at for at, info in enumerate(roles) if info.name in _OPENERS), -1)
        self.needs_values = any(one.generic for info in roles for one in info.alternatives)
        self.paths = dict(binding_of(rule))
        super().__init__(contract, roles)

    def hole(self, role: int) -> bool:
        return role >= 0 and self.holes[role] is not None

    def start(self) -> None:
        # Open scopes: binding -> index of the event that opened it.
        self.w_open: dict[Any, float] = {}
        self.b_open = self.w_open
        # Segments of `between` with a match that counts once R comes: binding -> index of P.
        self.w_pending: dict[Any, float] = {}
        self.b_pending = self.w_pending
        self.values: dict[Any, Mapping[str, Any]] = {}
        # A scope of an unknown binding, in the worst world.
        self.wild = False
        self.wild_pending: float | None = None
        # Bindings that R has closed since: where the unknown one is among them, it is closed too.
        self.wild_closed: set[Any] = set()
        if self.opens_at_start:
            self.seen = True
            self.w_open[()] = -1
            if self.hole(_P):
                self.hurt = True
                self.note_hole(_P)
        if self.hole(self.q):
            self.open_wild(-1)
            self.note_hole(self.q)

    def open_wild(self, index: int) -> None:
        """A scope of an unknown binding opens at this event, or before the first one."""
        self.wild = True
        self.wild_closed.clear()
        if self.hole(_P):
            self.note_hole(_P)
            if self.between:
                self.pend_wild(index + 0.5)
            else:
                self.hurt = True

    def pend_wild(self, at: float) -> None:
        if self.wild_pending is None:
            self.wild_pending = at

    def part(self) -> None:
        """Let the worlds part: from here on each has its own tables."""
        if self.b_open is self.w_open:
            self.b_open = dict(self.w_open)
            self.b_pending = dict(self.w_pending)

    def parts(self, key: Any) -> Sequence[Any]:
        return (key,) if self.count == 1 else key

    # P

    def handle(self, role: int, match: Match) -> Handle:
        if role == _P:
            return self._handle_match(match)
        return self._handle_close(match) if role == self.r else self._handle_open(match)

    def _handle_match(self, match: Match) -> Handle:
        def handle(payload: Any, event: Any, index: int) -> None:
            if not (self.w_open or self.wild):
                return
            got = match(payload, event)
            if got is False:
                return
            if got is True:
                got = ()
            elif type(got) is Undecided:
                got = Hit(got)
            if type(got) is not Hit:
                self.matched(got, index)
                if self.wild:
                    self.matched_wild(got, index)
                return
            for key in list(self.w_open):
                answer = got.test(self.parts(key), self.values.get(key, {}))
                if answer is True:
                    self.matched(key, index)
                elif answer is not False:
                    self.note_answer(index, answer)
                    self.maybe_matched(key, index)
            if self.wild:
                self.maybe_matched_wild(got, index)

        return handle

    def matched(self, key: Any, index: int) -> None:
        opened = self.b_open.get(key)
        if self.between:
            if opened is not None:
                self.b_pending.setdefault(key, index)
            self.maybe_matched(key, index)
        elif opened is None:
            self.maybe_matched(key, index)
        elif self.hole(self.r):
            # R may have come unrecorded since; no fail, and no pass either.
            self.note_hole(self.r)
            self.hurt = True
        else:
            self.fail((opened, index), index, key)

    def maybe_matched_wild(self, hit: Hit, index: int) -> None:
        keys: list[Any] | None = None
        is_plain = not (hit.branches or hit.generic) and len(hit.wanted) == self.count
        if is_plain and all(why is None for _, _, why in hit.wanted):
            keys = list(products(hit, self.count))
        if keys is not None and all(key in self.wild_closed for key in keys):
            return
        self.note_hit(index, hit)
        if keys is not None:
            for key in keys:
                self.matched_wild(key, index)
        elif self.between:
            self.pend_wild(index)
        else:
            self.hurt = True

    def matched_wild(self, key: Any, index: int) -> None:
        if key in self.wild_closed:
            return
        if not self.between:
            self.hurt = True
            return
        if key not in self.w_pending:
            self.part()
            self.w_pending[key] = index

    def maybe_matched(self, key: Any, index: int) -> None:
        """The event matches in the worst world at least."""
        if key not in self.w_open:
            return
        if not self.between:
            self.hurt = True
            return
        if key not in self.w_pending:
            if self.b_pending is self.w_pending:
                self.part()
            self.w_pending[key] = index

    # R

    def _handle_close(self, match: Match) -> Handle:
        closes_all = self.roles[self.r].count == 0 and self.count > 0

        def handle(payload: Any, event: Any, index: int) -> None:
            if not (self.w_open or self.wild or self.w_pending):
                return
            got = match(payload, event)
            if got is False:
                return
            if got is True:
                got = ()
            elif type(got) is Undecided:
                got = Hit(got)
            if type(got) is Hit:
                self.maybe_closed(got, index)
                return
            if self.wild_pending is not None and self.wild_pending < index:
                self.hurt = True
            if closes_all:
                for key in [*self.w_open, *self.w_pending]:
                    self.closed(key, index)
            else:
                self.closed(got, index)
            if self.wild and (closes_all or self.count == 0) and not self.hole(self.q):
                self.wild = False
            if closes_all or self.count == 0:
                self.wild_pending = None
            if self.opens_at_start and not self.hurt and self.safe_at is None:
                self.safe_at = index
                self.done = True

        return handle

    def closed(self, key: Any, index: int) -> None:
        if self.between:
            since = self.b_pending.get(key)
            if since is not None and since < index:
                if self.hole(self.r):
                    self.note_hole(self.r)
                else:
                    self.fail((self.b_open.get(key, -1), since, index), index, key)
            worst = self.w_pending.get(key)
            if worst is not None and worst < index:
                self.hurt = True
            self.w_pending.pop(key, None)
            self.b_pending.pop(key, None)
        self.w_open.pop(key, None)
        self.b_open.pop(key, None)
        self.values.pop(key, None)
        if self.wild and not self.hole(self.q) and len(self.wild_closed) < self.max_bindings:
            self.wild_closed.add(key)

    def maybe_closed(self, hit: Hit, index: int) -> None:
        if self.wild_pending is not None and self.wild_pending < index:
            self.note_hit(index, hit)
            self.hurt = True
        for key in list(dict.fromkeys([*self.w_open, *self.w_pending])):
            answer = hit.test(self.parts(key), self.values.get(key, {}))
            if answer is True:
                self.closed(key, index)
            elif answer is not False:
                self.note_answer(index, answer)
                worst = self.w_pending.get(key)
                if worst is not None and worst < index:
                    self.hurt = True
                since = self.b_pending.get(key)
                if since is None or since >= index:
                    self.part()
                    self.b_open.pop(key, None)
                    self.b_pending.pop(key, None)

    # Q

    def _handle_open(self, match: Match) -> Handle:
        def handle(payload: Any, event: Any, index: int) -> None:
            got = match(payload, event)
            if got is False:
                return
            if got is True:
                got = ()
            elif type(got) is Undecided:
                got = Hit(got)
            if type(got) is Hit:
                self.maybe_opened(got, index, payload)
                return
            self.seen = True
            if got not in self.b_open:
                self.b_open[got] = index
                if self.b_open is not self.w_open:
                    self.w_open.setdefault(got, index)
                self.opened(got, index, payload)

        return handle

    def opened(self, key: Any, index: int, payload: Any) -> None:
        if self.needs_values and key not in self.values:
            self.values[key] = {name: path.get(payload) for name, path in self.paths.items()}
        if self.hole(_P):
            self.note_hole(_P)
            if self.between:
                self.part()
                self.w_pending.setdefault(key, index + 0.5)
            else:
                self.hurt = True
        if len(self.w_open) > self.max_bindings:
            self.give_up()

    def maybe_opened(self, hit: Hit, index: int, payload: Any) -> None:
        key = hit.key if self.count else ()
        self.note_hit(index, hit)
        if key is None:
            self.seen = self.seen or hit.static is True
            self.open_wild(index)
        elif key not in self.w_open:
            self.part()
            self.w_open[key] = index
            self.opened(key, index, payload)

    def gap(self, at: float) -> None:
        if self.opens_at_start:
            if not self.w_open:
                return
            self.note_gap(at)
            self.hurt = True
            self.part()
            self.b_open.clear()
            return
        self.note_gap(at)
        self.hurt = True
        if self.r >= 0:
            self.part()
            for key in list(self.b_open):
                if not (self.between and key in self.b_pending):
                    del self.b_open[key]

    def ends(self, last: int, closed: bool) -> tuple[bool, bool]:
        if self.between and self.hole(self.r) and (self.w_pending or self.wild_pending is not None):
            # Not earlier: a match that closes its own segment does not count.
            self.note_hole(self.r)
            self.hurt = True
        return super().ends(last, closed)


_OPENERS = ("after", "between[0]")
_CLOSERS = ("until", "between[1]")


def never(contract: Contract, rule: Never, registry: Registry) -> Monitor:
    """The monitor of a ``never``."""
    if not rule.is_scoped:
        return _Never(contract, [role_info("never", rule.match, [], registry)])
    names = [name for name, _ in binding_of(rule)]
    roles = [role_info("never", rule.match, names, registry)]
    if rule.closes is not None:
        used = any(pattern.variables for pattern in rule.closes)
        word = "between[1]" if rule.between is not None else "until"
        roles.append(role_info(word, rule.closes, names if used else [], registry))
    if rule.opens is not None:
        word = "between[0]" if rule.between is not None else "after"
        roles.append(role_info(word, rule.opens, names, registry))
    return _Scoped(contract, roles, rule, names)

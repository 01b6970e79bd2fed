"""``precedes``: each event has an earlier chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.contract.compile import Hit, Match
from pytest_evarness.contract.monitor.base import (
    ALWAYS,
    Handle,
    Monitor,
    RoleInfo,
    role_info,
)
from pytest_evarness.contract.monitor.binding import combinations, products, sorted_keys
from pytest_evarness.contract.rule import Precedes, binding_of
from pytest_evarness.core.matcher import Undecided

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.registry import Registry

__all__ = ["precedes"]


class _Stage:
    """Chains that have come this far: for each set of variables known, values -> latest start.

    The latest start is kept because a ``fresh`` chain has to begin after the last use; where a
    chain exists at all, one with the latest start exists too.
    """

    __slots__ = ("tables",)

    def __init__(self) -> None:
        self.tables: dict[tuple[int, ...], dict[Any, float]] = {}

    def copy(self) -> _Stage:
        stage = _Stage()
        stage.tables = {mask: dict(table) for mask, table in self.tables.items()}
        return stage

    def put(self, mask: tuple[int, ...], parts: Sequence[Any], start: float) -> None:
        table = self.tables.setdefault(mask, {})
        key = tuple(parts)
        if start > table.get(key, -1.0):
            table[key] = start

    def latest(self, parts: Sequence[Any] | None) -> float:
        """Latest start of a chain that fits all ``parts``; of any chain when they are unknown."""
        best = -1.0
        for mask, table in self.tables.items():
            if parts is None:
                best = max(best, max(table.values(), default=-1.0))
            else:
                best = max(best, table.get(tuple(parts[at] for at in mask), -1.0))
        return best

    def size(self) -> int:
        return sum(len(table) for table in self.tables.values())


class _Precedes(Monitor):
    """``precedes``: roles B, then A_k ... A_1, so that no event serves twice in one chain.

    Stage tables hold starts as ``index + 1``: a start of 0.5 lies before the first event.
    """

    def __init__(
        self, contract: Contract, roles: list[RoleInfo], rule: Precedes, names: Sequence[str]
    ) -> None:
        self.k = len(rule.first)
        self.fresh = rule.fresh
        self.count = len(names)
        # The variables that stage j's pattern names, as indexes.
        self.masks = [
            tuple(
                at
                for at, name in enumerate(names)
                if any(name in pattern.variables for pattern in role)
            )
            for role in rule.first
        ]
        full = tuple(range(self.count))
        self.is_simple = (
            self.k == 1
            and len(rule.first[0]) == 1
            and self.masks[0] == full
            and roles[1].alternatives[0].has_plain_key
        )
        super().__init__(contract, roles)

    def start(self) -> None:
        # The simple case (one A that names every variable): binding -> start of the latest A.
        self.w_one: dict[Any, float] = {}
        self.b_one = self.w_one
        self.w_stages = [] if self.is_simple else [_Stage() for _ in range(self.k)]
        self.b_stages = self.w_stages
        self.w_used: dict[Any, float] = {}
        self.b_used = self.w_used
        self.b_any = -1.0  # start of the latest chain of an unknown binding, simple case
        # The last use of a fresh chain: an A in the event that used one up begins no new chain.
        self.w_last: tuple[int, Any] = (-1, None)
        self.b_last: tuple[int, Any] = (-1, None)
        if self.holes[0] is not None:
            self.hurt = True
            self.note_hole(0)
        self.a_holes = any(self.holes[1:])
        if self.a_holes:
            self.part()
            if self.is_simple:
                self.b_any = ALWAYS
            else:
                self.fill(self.b_stages)

    def stage_role(self, stage: int) -> int:
        return self.k - stage

    def part(self) -> None:
        if self.b_one is self.w_one:
            self.b_one = dict(self.w_one)
            self.b_stages = [stage.copy() for stage in self.w_stages]
            self.b_used = dict(self.w_used)

    def parts(self, key: Any) -> Sequence[Any]:
        return (key,) if self.count == 1 else key

    def handle(self, role: int, match: Match) -> Handle:
        if role == 0:
            return (
                self._handle_simple_second(match) if self.is_simple else self._handle_second(match)
            )
        if self.is_simple:
            return self._handle_simple_first(match)
        return self._handle_first(match, self.k - role)

    # one A that names every variable

    def _handle_simple_first(self, match: Match) -> Handle:
        fresh = self.fresh
        is_final = self.count == 0 and not fresh

        def handle(payload: Any, event: Any, index: int) -> None:
            got = match(payload, event)
            if got is False:
                return
            if got is True:
                got = ()
            elif type(got) is Undecided:
                got = Hit(got)
            if type(got) is Hit:
                self.maybe_first(got, index)
                return
            table = self.w_one
            if got not in table and len(table) >= self.max_bindings:
                self.give_up()
                return
            if fresh and self.w_last[0] == index and self.w_last[1] == got:
                if self.b_last != self.w_last:
                    self.part()
                    self.b_one[got] = index
                return
            table[got] = index
            if self.b_one is not table:
                self.b_one[got] = index
            if is_final and not self.hurt and self.safe_at is None:
                self.safe_at = index
                self.done = self.seen

        return handle

    def maybe_first(self, hit: Hit, index: int) -> None:
        if hit.combinations() > self.max_bindings:
            self.give_up()
            return
        # A single plain A is a hit only because something about it is in doubt.
        self.note_hit(index, hit)
        self.part()
        if all(why is None for _, _, why in hit.wanted):
            for key in products(hit, self.count):
                if self.b_last != (index, key):
                    self.b_one[key] = index
        else:
            self.b_any = max(self.b_any, index + 1.0)

    def _handle_simple_second(self, match: Match) -> Handle:
        fresh = self.fresh

        def handle(payload: Any, event: Any, index: int) -> None:
            got = match(payload, event)
            if got is False:
                return
            if got is True:
                got = ()
            elif type(got) is Undecided:
                got = Hit(got)
            if type(got) is Hit:
                self.maybe_second(got, index)
                return
            self.seen = True
            if self.safe_at is not None:
                self.done = True
                return
            if got not in self.w_one:
                self.hurt = True
                if got not in self.b_one and self.b_any <= self.b_used.get(got, -1.0):
                    self.fail((index,), index, got)
                    return
                if self.a_holes:
                    self.note_holes()
            if fresh:
                self.w_last = self.b_last = (index, got)
                self.w_one.pop(got, None)
                if self.b_one is not self.w_one:
                    self.b_one.pop(got, None)
                    if self.b_any >= 0:
                        # A chain of an unknown binding is used up for this one only.
                        self.b_used[got] = index + 1.0

        return handle

    def maybe_second(self, hit: Hit, index: int) -> None:
        key = hit.key if self.count else ()
        if self.safe_at is not None:
            return
        is_sure = hit.static is True
        if key is not None:
            if key not in self.w_one:
                self.hurt = True
                self.note_hit(index, hit)
            elif self.fresh:
                self.part()
                self.w_last = (index, key)
                del self.w_one[key]
                self.note_hit(index, hit)
            return
        self.note_hit(index, hit)
        self.hurt = True
        if is_sure:
            self.seen = True
            if not self.b_one and self.b_any < 0:
                self.fail((index,), index)

    def note_holes(self) -> None:
        for role in range(1, len(self.holes)):
            self.note_hole(role)

    # chains, partial variables, alternatives

    def _handle_second(self, match: Match) -> Handle:
        def handle(payload: Any, event: Any, index: int) -> None:
            got = match(payload, event)
            if got is False:
                return
            if got is True:
                got = ()
            elif type(got) is Undecided:
                got = Hit(got)
            if type(got) is Hit:
                key = got.key if self.count else ()
                self.second(key, index, is_sure=got.static is True, hit=got)
            else:
                self.second(got, index, is_sure=True, hit=None)

        return handle

    def second(self, key: Any, index: int, *, is_sure: bool, hit: Hit | None) -> None:
        if is_sure:
            self.seen = True
        if self.safe_at is not None:
            self.done = self.seen
            return
        parts = None if key is None else self.parts(key)
        used_w = self.w_used.get(key, -1.0) if key is not None else -1.0
        used_b = self.b_used.get(key, -1.0) if key is not None else -1.0
        worst = key is not None and self.w_stages[-1].latest(parts) > used_w
        best = self.b_stages[-1].latest(parts) > used_b
        if not worst:
            self.hurt = True
            if hit is not None:
                self.note_hit(index, hit)
            elif self.a_holes:
                self.note_holes()
        if is_sure and not best:
            self.fail((index,), index, key)
            return
        if self.fresh and key is not None:
            if hit is not None and self.b_used is self.w_used:
                self.note_hit(index, hit)
                self.part()
            self.w_used[key] = index + 1.0
            if is_sure:
                self.b_used[key] = index + 1.0
            if len(self.w_used) > self.max_bindings:
                self.give_up()

    def _handle_first(self, match: Match, stage: int) -> Handle:
        mask = self.masks[stage]
        is_final = self.count == 0 and not self.fresh

        def handle(payload: Any, event: Any, index: int) -> None:
            got = match(payload, event)
            if got is False:
                return
            if got is True:
                got = ()
            elif type(got) is Undecided:
                got = Hit(got)
            if type(got) is not Hit:
                parts = (got,) if len(mask) == 1 else got
                self.advance(self.w_stages, stage, mask, parts, index)
                if self.b_stages is not self.w_stages:
                    self.advance(self.b_stages, stage, mask, parts, index)
            else:
                self.first_hit(got, stage, mask, index)
            if self.a_holes:
                self.fill(self.b_stages)
            worst = self.w_stages[-1]
            if is_final and self.safe_at is None and not self.hurt and worst.latest(()) >= 0:
                self.safe_at = index
                self.done = self.seen
            if self.count and self.w_stages[stage].size() > self.max_bindings:
                self.give_up()

        return handle

    def first_hit(self, hit: Hit, stage: int, mask: tuple[int, ...], index: int) -> None:
        if hit.branches:
            for branch in hit.branches:
                self.first_hit(branch, stage, mask, index)
            return
        if hit.combinations() > self.max_bindings:
            self.give_up()
            return
        doubt = hit.doubt()
        constrained = [(mask[at], keys) for at, keys, why in hit.wanted if why is None]
        known = tuple(at for at, _ in constrained)
        if doubt is not None:
            self.note_answer(index, doubt)
            self.part()
        for parts in combinations([sorted_keys(keys) for _, keys in constrained]):
            if doubt is None:
                self.advance(self.w_stages, stage, known, parts, index)
            if doubt is not None or self.b_stages is not self.w_stages:
                self.advance(self.b_stages, stage, known, parts, index)

    def advance(
        self,
        stages: list[_Stage],
        stage: int,
        mask: tuple[int, ...],
        parts: Sequence[Any],
        index: int,
    ) -> None:
        """An A of this stage came: extend every chain of the stage before that it agrees with."""
        if stage == 0:
            stages[0].put(mask, parts, index + 1.0)
            return
        mine = dict(zip(mask, parts, strict=True))
        for known, table in list(stages[stage - 1].tables.items()):
            joined = tuple(sorted({*known, *mask}))
            if set(known) <= set(mask):
                key = tuple(mine[at] for at in known)
                start = table.get(key)
                if start is not None:
                    stages[stage].put(joined, [mine[at] for at in joined], _begin(start, index))
                continue
            for key, start in table.items():
                both = {**dict(zip(known, key, strict=True)), **mine}
                if all(both[at] == part for at, part in zip(known, key, strict=True)):
                    stages[stage].put(joined, [both[at] for at in joined], _begin(start, index))

    def fill(self, stages: list[_Stage]) -> None:
        """Give the uncovered stages their events, in the best world."""
        for stage in range(self.k):
            if self.holes[self.stage_role(stage)] is None:
                continue
            if stage == 0:
                stages[0].put((), (), ALWAYS)
            else:
                for known, table in list(stages[stage - 1].tables.items()):
                    for key, start in table.items():
                        stages[stage].put(known, key, start)

    def gap(self, at: float) -> None:
        if self.safe_at is not None:
            return
        self.note_gap(at)
        self.hurt = True
        self.part()
        self.b_any = max(self.b_any, at + 1.0)
        for stage in self.b_stages:
            stage.put((), (), at + 1.0)


def _begin(start: float, index: int) -> float:
    # A chain whose first event is in an uncovered type can begin as late as just before its second.
    return index + 0.5 if start == ALWAYS else start


def precedes(contract: Contract, rule: Precedes, registry: Registry) -> Monitor:
    """The monitor of a ``precedes``."""
    names = [name for name, _ in binding_of(rule)]
    roles = [role_info("second", rule.second, names, registry)]
    for at in range(len(rule.first) - 1, -1, -1):
        role = rule.first[at]
        keyed = [name for name in names if any(name in one.variables for one in role)]
        word = "first" if len(rule.first) == 1 else f"first[{at}]"
        roles.append(role_info(word, role, keyed, registry, membership=True))
    return _Precedes(contract, roles, rule, names)

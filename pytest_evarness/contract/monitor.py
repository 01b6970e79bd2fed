"""One monitor for each primitive: two worlds carried through one scan.

The evidence admits a set of runs. The *worst* world gives every hole (an undecided match, a gap,
an uncovered type) to the roles that hurt the contract, the *best* world to those that help it.
``hurt`` says that the worst world is violated for good, ``bad`` that the best one is, so that no
admitted run satisfies the contract. As long as nothing was undecided both worlds are the same
object; they part at the first hole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pytest_evarness.contract.compile import (
    Alternative,
    Condition,
    Hit,
    Match,
    compile_role,
    component,
    condition_of,
)
from pytest_evarness.contract.rule import (
    AtMost,
    Eventually,
    Every,
    LeadsTo,
    Never,
    Precedes,
    Role,
    binding_of,
    types_of,
)
from pytest_evarness.core.matcher import MISSING, SECRET_PREFIX, Undecided
from pytest_evarness.core.outcome import Cause

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.registry import Registry

__all__ = ["MAX_BINDINGS", "Doubt", "Handle", "Monitor", "RoleInfo", "monitor_for"]

MAX_BINDINGS: Final = 10_000
_MAX_DOUBTS: Final = 5
_ALWAYS: Final = float("inf")

Handle: TypeAlias = "Callable[[Any, Any, int], None]"
"""``handle(payload, event, index)``."""

Doubt: TypeAlias = "tuple[int | None, str, Cause]"
"""Index of the event (None for none), what is undecided, and the cause."""


class RoleInfo:
    """One pattern position of a contract, compiled.

    Attributes:
        name: As the contract calls it.
        role: The patterns.
        alternatives: The same, compiled.
        count: Number of variables that a match is keyed by.
        helps: Whether a hole in this role can only keep a contract from failing.
    """

    __slots__ = ("alternatives", "count", "name", "role", "types")

    def __init__(
        self, name: str, role: Role, alternatives: tuple[Alternative, ...], count: int
    ) -> None:
        self.name = name
        self.role = role
        self.alternatives = alternatives
        self.count = count
        self.types = types_of(role)

    def uncovered(self, coverage: frozenset[str]) -> str | None:
        """A type of this role that the sources do not record, or None."""
        if self.types is None:
            return "any type"
        missing = sorted(self.types - coverage)
        return missing[0] if missing else None


class Monitor:
    """State of one contract over one trace; reset and reused for the next.

    Attributes:
        bad: Indexes of the events that violate the contract in every admitted run.
        bad_at: Index of the event from which that is certain.
        hurt: Some admitted run violates it for good.
        safe_at: Index of the event from which it holds whatever follows, while not ``hurt``.
        seen: Something was there to violate it.
        doubts: The first reasons why the worlds parted.
        missed: Events that ``never`` missed by the type of a value alone.
        broken: Why the evaluator gave up.
    """

    def __init__(self, contract: Contract, roles: list[RoleInfo]) -> None:
        self.contract = contract
        self.roles = roles
        self.wants_notice = isinstance(contract.rule, Never)
        self.holes: tuple[str | None, ...] = ()
        self.doubts: list[Doubt] = []
        self.more_doubts: set[Cause] = set()
        self.missed: list[tuple[Any, str]] = []
        self.reset((None,) * len(roles), None)

    def reset(self, holes: tuple[str | None, ...], covered: Sequence[int] | None) -> None:
        """Start over.

        Args:
            holes: For each role, a type of it that the sources do not record.
            covered: Number of events of covered types before each index; None where all are.
        """
        self.holes = holes
        self.covered = covered
        self.bad: tuple[float, ...] | None = None
        self.bad_at = -1
        self.bad_key: Any = None
        self.hurt = False
        self.safe_at: int | None = None
        self.seen = False
        self.done = False
        self.broken: str | None = None
        if self.doubts:
            self.doubts = []
            self.more_doubts = set()
        if self.missed:
            self.missed = []
        self.start()

    def start(self) -> None:
        """State of the primitive before the first event."""
        raise AssertionError("each primitive has its own")

    def handle(self, role: int, match: Match) -> Handle:
        """What to do with events that may play ``role``."""
        raise AssertionError("each primitive has its own")

    def gap(self, at: float) -> None:
        """Any events may have happened between two events; ``at`` lies between their indexes."""
        raise AssertionError("each primitive has its own")

    def ends(self, last: int, closed: bool) -> tuple[bool, bool]:
        """Whether the worst and the best world are violated now that the trace is over."""
        del last, closed
        return self.hurt, self.bad is not None

    # -- notes

    def fail(self, events: tuple[float, ...], at: int, key: Any = None) -> None:
        """The contract is violated in every admitted run."""
        if self.bad is None and self.broken is None:
            self.bad = events
            self.bad_at = at
            self.bad_key = key
            self.hurt = True
            self.done = True

    def note(self, index: int | None, why: str, cause: Cause) -> None:
        """Remember why the worlds part; the first few in words, of the others the cause."""
        if len(self.doubts) < _MAX_DOUBTS:
            if (index, why, cause) not in self.doubts:
                self.doubts.append((index, why, cause))
        else:
            self.more_doubts.add(cause)

    def note_hit(self, index: int, hit: Hit) -> None:
        """Remember the doubt of an event's match."""
        doubt = hit.doubt()
        if doubt is not None:
            self.note(index, doubt.why, doubt.cause)

    def note_answer(self, index: int, doubt: Undecided) -> None:
        """Remember an undecided answer."""
        self.note(index, doubt.why, doubt.cause)

    def note_hole(self, role: int) -> None:
        """Remember that a role's type is not recorded."""
        name = self.holes[role]
        if name is not None:
            text = f"{name} is not recorded by the sources of this trace"
            self.note(None, text, Cause.MISSING_EVIDENCE)

    def note_gap(self, at: float) -> None:
        """Remember that events are missing."""
        place = f"before event {int(at + 0.5)}" if at >= 0 else "before the first event"
        self.note(None, f"events are missing {place}", Cause.MALFORMED_EVIDENCE)

    def give_up(self) -> None:
        """More bindings are open than are followed."""
        if self.bad is None:
            self.broken = f"more than {MAX_BINDINGS} bindings are open at once"
            self.done = True

    def missed_by_type(self, event: Any, clause: str) -> None:
        """``never`` missed an event by the type of a value alone."""
        if len(self.missed) < _MAX_DOUBTS and all(one is not event for one, _ in self.missed):
            self.missed.append((event, clause))


# -- never -------------------------------------------------------------------------------------


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
            keys = list(_products(hit, self.count))
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
        if self.wild and not self.hole(self.q) and len(self.wild_closed) < MAX_BINDINGS:
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
        if len(self.w_open) > MAX_BINDINGS:
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


# -- eventually, every -------------------------------------------------------------------------


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


# -- precedes ----------------------------------------------------------------------------------


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
                self.b_any = _ALWAYS
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
            if got not in table and len(table) >= MAX_BINDINGS:
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
        # A single plain A is a hit only because something about it is in doubt.
        self.note_hit(index, hit)
        self.part()
        if all(why is None for _, _, why in hit.wanted):
            for key in _products(hit, self.count):
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
            if len(self.w_used) > MAX_BINDINGS:
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
            if self.count and self.w_stages[stage].size() > MAX_BINDINGS:
                self.give_up()

        return handle

    def first_hit(self, hit: Hit, stage: int, mask: tuple[int, ...], index: int) -> None:
        if hit.branches:
            for branch in hit.branches:
                self.first_hit(branch, stage, mask, index)
            return
        doubt = hit.doubt()
        constrained = [(mask[at], keys) for at, keys, why in hit.wanted if why is None]
        known = tuple(at for at, _ in constrained)
        if doubt is not None:
            self.note_answer(index, doubt)
            self.part()
        for parts in _combinations([sorted_keys(keys) for _, keys in constrained]):
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
                stages[0].put((), (), _ALWAYS)
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
    return index + 0.5 if start == _ALWAYS else start


def sorted_keys(keys: frozenset[Any]) -> list[Any]:
    """Keys in an order that no hash decides."""
    return sorted(keys, key=repr)


def _combinations(choices: list[list[Any]]) -> Iterable[tuple[Any, ...]]:
    from itertools import product

    return product(*choices)


def _products(hit: Hit, count: int) -> Iterable[Any]:
    """Binding keys that a hit with candidate values satisfies."""
    for parts in _combinations([sorted_keys(keys) for _, keys, _ in hit.wanted]):
        yield parts[0] if count == 1 else parts


# -- leads_to ----------------------------------------------------------------------------------


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
        if len(self.w_open) > MAX_BINDINGS:
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


# -- at_most -----------------------------------------------------------------------------------


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
        if self.w_counts[key] + self.unplaced > self.n:
            self.hurt = True

    def unknown(self, why: Undecided, index: int, *, is_sure: bool) -> None:
        self.note_answer(index, why)
        if is_sure and self.n == 0:
            self.fail((index,), index)
            return
        self.unplaced += 1
        if max(self.w_counts.values(), default=0) + self.unplaced > self.n:
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


# -- building ----------------------------------------------------------------------------------


def monitor_for(contract: Contract, registry: Registry) -> Monitor:
    """Compile ``contract`` into the monitor of its primitive."""
    rule = contract.rule
    names = [name for name, _ in binding_of(rule)]

    def info(name: str, role: Role, keyed: Sequence[str], *, membership: bool = False) -> RoleInfo:
        alternatives = compile_role(role, keyed, registry, membership=membership)
        return RoleInfo(name, role, alternatives, len(keyed))

    if isinstance(rule, Never):
        if not rule.is_scoped:
            return _Never(contract, [info("never", rule.match, [])])
        roles = [info("never", rule.match, names)]
        if rule.closes is not None:
            used = any(pattern.variables for pattern in rule.closes)
            word = "between[1]" if rule.between is not None else "until"
            roles.append(info(word, rule.closes, names if used else []))
        if rule.opens is not None:
            word = "between[0]" if rule.between is not None else "after"
            roles.append(info(word, rule.opens, names))
        return _Scoped(contract, roles, rule, names)
    if isinstance(rule, Eventually):
        return _Eventually(contract, [info("eventually", rule.match, [])])
    if isinstance(rule, Every):
        conditions = [condition_of(path, matcher) for path, matcher in rule.condition.where]
        if rule.condition.satisfies is not None:
            (only,) = compile_role((rule.condition,), [], registry)
            conditions = list(only.conditions)
        return _Every(contract, [info("every.match", rule.match, [])], conditions)
    if isinstance(rule, Precedes):
        roles = [info("second", rule.second, names)]
        for at in range(len(rule.first) - 1, -1, -1):
            role = rule.first[at]
            keyed = [name for name in names if any(name in one.variables for one in role)]
            word = "first" if len(rule.first) == 1 else f"first[{at}]"
            roles.append(info(word, role, keyed, membership=True))
        return _Precedes(contract, roles, rule, names)
    if isinstance(rule, LeadsTo):
        return _LeadsTo(
            contract, [info("then", rule.then, names), info("when", rule.when, names)], rule, names
        )
    return _AtMost(contract, [info("at_most.of", rule.of, [])], rule)

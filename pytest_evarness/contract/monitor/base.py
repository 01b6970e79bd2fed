"""What monitors share: the two worlds, what was in doubt, and the events that decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from pytest_evarness.contract.compile import Alternative, Hit, Match, compile_role
from pytest_evarness.contract.rule import Never, Role, types_of
from pytest_evarness.core.outcome import Cause

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.matcher import Undecided
    from pytest_evarness.core.registry import Registry

__all__ = ["ALWAYS", "Doubt", "Handle", "Monitor", "RoleInfo", "role_info"]

ALWAYS: Final = float("inf")
_MAX_DOUBTS: Final = 5

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

    max_bindings: ClassVar[int] = 10_000

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
            self.broken = f"more than {self.max_bindings} bindings are open at once"
            self.done = True

    def missed_by_type(self, event: Any, clause: str) -> None:
        """``never`` missed an event by the type of a value alone."""
        if len(self.missed) < _MAX_DOUBTS and all(one is not event for one, _ in self.missed):
            self.missed.append((event, clause))


def role_info(
    name: str, role: Role, keyed: Sequence[str], registry: Registry, *, membership: bool = False
) -> RoleInfo:
    """Compile the patterns of a role.

    Args:
        name: Its place in the contract, for messages.
        keyed: Variables that its key is made of.
        membership: A variable may stand in ``contains``.
    """
    alternatives = compile_role(role, keyed, registry, membership=membership)
    return RoleInfo(name, role, alternatives, len(keyed))

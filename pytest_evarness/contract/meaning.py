"""What a set of contracts sees of a run: which event holds which role, and which values tie them.

Two runs in which the same roles come in the same order, tied in the same way, mean the same to a
contract. From that, and from which roles hurt by being there and which by lacking, it is known of
a change of a run whether any contract of the set could mind it at all.

Source: docs/contracts.md, "Mutants".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.contract.compile import (
    Alternative,
    Hit,
    compile_role,
    component,
    condition_of,
    match_of,
)
from pytest_evarness.contract.rule import (
    AtMost,
    Every,
    LeadsTo,
    Never,
    Pattern,
    Precedes,
    Role,
    binding_of,
    roles_of,
)
from pytest_evarness.core.matcher import MISSING, value_key

if TYPE_CHECKING:
    from pytest_evarness.contract.model import Contract
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["Aim", "Meaning", "Part", "Sight"]

BROKEN: Final = "every.broken"
"""The role of a match of ``every`` that lacks what is asked of it."""

_FOR_WHOM: Final = {"eventually": None, "then": "when", "until": "never", "between[1]": "never"}
"""Roles whose absence can break a contract, with the role that needs them; None for the run itself.

Each stage of ``first`` is one too, for ``second``.
"""

_FORBIDDEN: Final = frozenset({"never", BROKEN})
"""Roles of which a pass needs none."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one event is to one contract.

    Attributes:
        role: As :func:`~pytest_evarness.contract.rule.roles_of` names it, or :data:`BROKEN`.
        key: The values of its variables, as ``(name, values)``; what is not known is told in words.
        is_sure: Whether the event is that for certain.
    """

    role: str
    key: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class Aim:
    """A contract that could mind a mutant, and what the changed event is to it."""

    contract: str
    role: str

    @property
    def text(self) -> str:
        """``second of approval-precedes-send``."""
        return f"{self.role} of {self.contract}"


Parts = frozenset[Part]
Sees = tuple[Parts, ...]
"""The parts of each event of a run, in its order."""


class Sight:
    """What one contract sees of a run."""

    def __init__(self, contract: Contract, registry: Registry) -> None:
        self.contract = contract
        rule = self._rule = contract.rule
        self._names = [name for name, _ in binding_of(rule)]
        self._roles: list[tuple[str, list[str], tuple[Alternative, ...]]] = []
        for word, role in roles_of(rule):
            keyed = self._keyed(word, role)
            compiled = compile_role(role, keyed, registry, membership=word.startswith("first"))
            self._roles.append((word, keyed, compiled))
        self._condition: Callable[[Any, Any], bool] | None = None
        if isinstance(rule, Every):
            self._condition = _condition_of(rule.condition, registry)
        # 'fresh: false' written out says that one chain is enough for any number of events.
        body: Any = contract.body.get("precedes") or {}
        self._is_shared = body.get("fresh") is False

    def _keyed(self, word: str, role: Role) -> list[str]:
        is_anchor = any(pattern.bind for pattern in role)
        used = {name for pattern in role for name in pattern.variables}
        if is_anchor or word == "never":
            return list(self._names)
        return [name for name in self._names if name in used]

    def parts(self, event: JsonObject) -> Parts:
        """What an event is to the contract; nothing where it has no role."""
        found = set()
        payload: Any = event["payload"]
        for word, keyed, alternatives in self._roles:
            able = [
                one for one in alternatives if one.types is None or str(event["type"]) in one.types
            ]
            if not able:
                continue
            got = match_of(able, len(keyed))(payload, event)
            if got is not False:
                found.add(self._part(word, keyed, got, payload))
        return frozenset(found)

    def _part(self, word: str, keyed: list[str], got: Any, payload: Any) -> Part:
        rule = self._rule
        # Without variables the answer of the conditions is passed on as it is.
        is_sure = bool(keyed) or got is True
        if isinstance(got, Hit):
            is_sure = got.doubt() is None
        if isinstance(rule, AtMost):
            return Part(word, tuple(_tuple_of(rule, payload)), is_sure)
        if self._condition is not None:
            return Part(word if self._condition(payload, None) else BROKEN, (), is_sure)
        return Part(word, tuple(_key_of(keyed, got)), is_sure)

    # -- what can hurt ---------------------------------------------------------------------------

    def is_needed(self, role: str) -> bool:
        """Whether the absence of such an event can break the contract."""
        return role in _FOR_WHOM or role.startswith("first")

    def without(self, sees: Sees, index: int) -> Iterator[str]:
        """Roles of an event that the contract could miss."""
        for part in sees[index]:
            if self._is_missed(sees, index, part) or self._is_last(sees, index, part.role):
                yield part.role

    def _is_missed(self, sees: Sees, index: int, part: Part) -> bool:
        """Whether another event of the run needs this one."""
        if not self.is_needed(part.role):
            return False
        for_whom = _FOR_WHOM.get(part.role, "second")
        return for_whom is None or any(
            other.role == for_whom and _agree(part, other)
            for at, parts in enumerate(sees)
            for other in (parts if at != index else ())
        )

    def _is_last(self, sees: Sees, index: int, role: str) -> bool:
        """Whether a pass would be vacuous without this event."""
        if role in _FORBIDDEN or self.is_needed(role):
            return False
        others = (parts for at, parts in enumerate(sees) if at != index)
        return not any(part.role == role for parts in others for part in parts)

    def twice(self, sees: Sees, index: int) -> Iterator[str]:
        """Roles of an event of which the contract could find two too many."""
        rule = self._rule
        if isinstance(rule, LeadsTo) and rule.within is not None:
            yield "within"
        roles = {part.role for part in sees[index]}
        if isinstance(rule, AtMost):
            yield from (
                part.role for part in sees[index] if self._count(sees, part, index) >= rule.n
            )
        elif isinstance(rule, Precedes) and not self._is_shared:
            yield from roles & {"second"}
        elif isinstance(rule, Never) and roles & {"after", "between[0]"}:
            yield from roles & {"never"}

    def swapped(self, sees: Sees, index: int) -> Iterator[str]:
        """Roles of an event and the next that stand in an order the contract asks for."""
        if isinstance(self._rule, LeadsTo) and self._rule.within is not None:
            # Whatever comes between the two makes the way longer.
            yield from {part.role for part in sees[index]} & {"then"}
            yield from {part.role for part in sees[index + 1]} & {"when"}
        for part in sees[index]:
            for other in sees[index + 1]:
                if self._is_ordered(part.role, other.role) and _agree(part, other):
                    yield part.role

    def _is_ordered(self, role: str, behind: str) -> bool:
        rule = self._rule
        if isinstance(rule, Precedes):
            places = [word for word, _, _ in self._roles]
            return places.index(role) < places.index(behind)
        if isinstance(rule, LeadsTo):
            return (role, behind) == ("when", "then")
        if isinstance(rule, Never):
            opens = "between[0]" if rule.between is not None else "after"
            closes = "between[1]" if rule.between is not None else "until"
            pairs = [("never", opens), (closes, "never"), (opens, closes)]
            if rule.between is not None:
                pairs.append((closes, opens))
            return (role, behind) in pairs
        return False

    def altered(self, sees: Sees, index: int, now: Parts) -> Iterator[str]:
        """Roles that an event lost or took up so that the contract could mind."""
        before = sees[index]
        after = (*sees[:index], now, *sees[index + 1 :])
        if before == now or _canonical(sees) == _canonical(after):
            return
        for part in before - now:
            is_gone = all(part.role != other.role for other in now)
            is_last = is_gone and self._is_last(sees, index, part.role)
            if is_last or self._is_missed(sees, index, part):
                yield part.role
        for part in now - before:
            # The end of a segment makes what stands in it count.
            can_hurt = part.role == "between[1]" or not self.is_needed(part.role)
            if can_hurt and self._hurts(after, index, part):
                yield part.role

    def _hurts(self, sees: Sees, index: int, part: Part) -> bool:
        rule = self._rule
        if isinstance(rule, Every):
            return part.role == BROKEN
        if isinstance(rule, AtMost):
            return self._count(sees, part, index) > rule.n
        if isinstance(rule, Never) and rule.opens is not None:
            # A match outside any scope is none, and so is a scope without a match.
            return any(
                one.role != part.role and _agree(part, one) for parts in sees for one in parts
            )
        return True

    @staticmethod
    def _count(sees: Sees, part: Part, index: int) -> int:
        """How many events may be of one tuple, the one at ``index`` among them."""
        return 1 + sum(
            any(_agree(part, one) for one in parts) for at, parts in enumerate(sees) if at != index
        )


class Meaning:
    """What all contracts of a set see of the events of one entry."""

    def __init__(self, sights: Sequence[Sight], events: Sequence[JsonObject]) -> None:
        self._seen: list[tuple[Sight, Sees]] = [
            (sight, tuple(sight.parts(event) for event in events)) for sight in sights
        ]

    def names(self, index: int) -> bool:
        """Whether some contract has a role for an event."""
        return any(sees[index] for _, sees in self._seen)

    def drop(self, index: int) -> tuple[Aim, ...]:
        """Who could mind that an event is not there."""
        return self._aims(lambda sight, sees: sight.without(sees, index))

    def double(self, index: int) -> tuple[Aim, ...]:
        """Who could mind that an event is there twice."""
        return self._aims(lambda sight, sees: sight.twice(sees, index))

    def swap(self, index: int) -> tuple[Aim, ...]:
        """Who could mind that an event comes behind the next."""
        return self._aims(lambda sight, sees: sight.swapped(sees, index))

    def alter(self, index: int, event: JsonObject) -> tuple[Aim, ...]:
        """Who could mind that another event stands in the place of one."""
        return self._aims(lambda sight, sees: sight.altered(sees, index, sight.parts(event)))

    def seen(self, index: int, event: JsonObject) -> tuple[object, ...]:
        """What the contracts see of the run with another event in the place of one."""
        return tuple(
            _canonical((*sees[:index], sight.parts(event), *sees[index + 1 :]))
            for sight, sees in self._seen
        )

    def _aims(self, ask: Callable[[Sight, Sees], Iterator[str]]) -> tuple[Aim, ...]:
        return tuple(
            Aim(sight.contract.id, role)
            for sight, sees in self._seen
            for role in sorted(set(ask(sight, sees)))
        )


# -- keys ------------------------------------------------------------------------------------------


def _key_of(keyed: Sequence[str], got: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The values that each variable takes, or may take, in an event."""
    if not keyed:
        return
    if not isinstance(got, Hit):
        for name, value in zip(keyed, got if len(keyed) > 1 else (got,), strict=True):
            yield name, (value,)
        return
    for hit in got.branches or (got,):
        if hit.key is not None:
            yield from _key_of(keyed, hit.key)
        for at, values, why in hit.wanted:
            yield keyed[at], (*sorted(values, key=repr), *(() if why is None else (why.why,)))
        for path, matcher in hit.generic:
            met, _ = path.values(hit.payload)
            shown = tuple(_Plain(repr(value_key(value))) for value in met)
            for name in sorted(matcher.variables):
                yield name, shown
        if hit.why is not None:
            yield "", (hit.why.why,)


class _Plain(str):
    """A value that is compared otherwise than for equality, so that it is no other one's like."""

    __slots__ = ()


def _tuple_of(rule: AtMost, payload: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for path in rule.per:
        value = component(payload, path)
        yield path.text, (() if value is MISSING else (_known(value),))


def _known(value: Any) -> Any:
    return getattr(value, "why", value)


def _agree(part: Part, other: Part) -> bool:
    """Whether two events may be of one binding."""
    mine, theirs = dict(part.key), dict(other.key)
    for name in mine.keys() & theirs.keys():
        values = (*mine[name], *theirs[name])
        if any(isinstance(value, _Plain) for value in values) or not (
            part.is_sure and other.is_sure
        ):
            continue
        if not set(map(repr, mine[name])) & set(map(repr, theirs[name])):
            return False
    return True


def _canonical(sees: Sees) -> tuple[object, ...]:
    """Roles in their order with values told apart but not told: equal ones have one number."""
    numbers: dict[tuple[str, str], int] = {}

    def number(name: str, value: Any) -> object:
        if isinstance(value, _Plain):
            return value
        return numbers.setdefault((name, repr(value)), len(numbers))

    return tuple(
        tuple(
            (
                part.role,
                part.is_sure,
                tuple(
                    (name, tuple(number(name, one) for one in values)) for name, values in part.key
                ),
            )
            for part in sorted(parts, key=lambda part: (part.role, repr(part.key)))
        )
        for parts in sees
        if parts
    )


def _condition_of(pattern: Pattern, registry: Registry) -> Callable[[Any, Any], bool]:
    """Whether an event certainly has what ``every`` asks of it."""
    tests = [condition_of(path, matcher).test for path, matcher in pattern.where]
    if pattern.satisfies is not None:
        (only,) = compile_role((pattern,), [], registry)
        tests = [condition.test for condition in only.conditions]
    return lambda payload, event: all(test(payload, event) is True for test in tests)

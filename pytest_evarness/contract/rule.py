"""The parsed form of a contract's ``assert``: patterns in roles, nothing evaluated yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pytest_evarness.core.matcher import Matcher, Path

__all__ = [
    "AtMost",
    "Eventually",
    "Every",
    "LeadsTo",
    "Never",
    "Pattern",
    "Precedes",
    "Role",
    "Rule",
    "describe_event",
    "describe_pattern",
    "describe_role",
]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Conditions on one event; all must hold.

    Attributes:
        types: None for any type.
        node: What is asked of ``node_id``; None for any.
        where: Payload path to matcher.
        satisfies: A registered predicate.
        bind: Variable to payload path, on the anchor only, in the order they are written.
    """

    types: tuple[str, ...] | None = None
    node: Matcher | None = None
    where: tuple[tuple[Path, Matcher], ...] = ()
    satisfies: str | None = None
    bind: tuple[tuple[str, Path], ...] = ()

    @property
    def variables(self) -> frozenset[str]:
        """Variables that the conditions use."""
        return frozenset(name for _, matcher in self.where for name in matcher.variables)


Role: TypeAlias = tuple[Pattern, ...]
"""Alternatives (``any``); one of them matching is a match."""


@dataclass(frozen=True, slots=True)
class Never:
    """``never``; at most one of (``after``/``until``) and ``between`` is given."""

    match: Role
    after: Role | None = None
    until: Role | None = None
    between: tuple[Role, Role] | None = None

    @property
    def is_scoped(self) -> bool:
        """Whether a scope limits where a match counts."""
        return self.after is not None or self.until is not None or self.between is not None

    @property
    def opens(self) -> Role | None:
        """The pattern that opens the scope, and the anchor."""
        return self.between[0] if self.between is not None else self.after

    @property
    def closes(self) -> Role | None:
        """The pattern that closes the scope."""
        return self.between[1] if self.between is not None else self.until


@dataclass(frozen=True, slots=True)
class Eventually:
    """``eventually``."""

    match: Role


@dataclass(frozen=True, slots=True)
class Every:
    """``every``; the condition is a pattern without type."""

    match: Role
    condition: Pattern


@dataclass(frozen=True, slots=True)
class Precedes:
    """``precedes``; the anchor is ``second``."""

    first: tuple[Role, ...]
    second: Role
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class LeadsTo:
    """``leads_to``; the anchor is ``when``; ``within`` counts events of covered types."""

    when: Role
    then: Role
    within: int | None = None


@dataclass(frozen=True, slots=True)
class AtMost:
    """``at_most``."""

    n: int
    of: Role
    per: tuple[Path, ...] = ()


Rule: TypeAlias = Never | Eventually | Every | Precedes | LeadsTo | AtMost


def roles_of(rule: Rule) -> Iterator[tuple[str, Role]]:
    """Every role of ``rule`` with the words that name it."""
    if isinstance(rule, Never):
        yield "never", rule.match
        if rule.opens is not None:
            yield ("between[0]" if rule.between is not None else "after"), rule.opens
        if rule.closes is not None:
            yield ("between[1]" if rule.between is not None else "until"), rule.closes
    elif isinstance(rule, Eventually):
        yield "eventually", rule.match
    elif isinstance(rule, Every):
        yield "every.match", rule.match
    elif isinstance(rule, Precedes):
        for index, role in enumerate(rule.first):
            yield ("first" if len(rule.first) == 1 else f"first[{index}]"), role
        yield "second", rule.second
    elif isinstance(rule, LeadsTo):
        yield "when", rule.when
        yield "then", rule.then
    else:
        yield "at_most.of", rule.of


def types_of(role: Role) -> frozenset[str] | None:
    """All types that ``role`` names; None when some alternative takes any type."""
    found: set[str] = set()
    for pattern in role:
        if pattern.types is None:
            return None
        found.update(pattern.types)
    return frozenset(found)


def anchor_of(rule: Rule) -> Role | None:
    """The role that may bind."""
    if isinstance(rule, Never):
        return rule.opens
    if isinstance(rule, Precedes):
        return rule.second
    if isinstance(rule, LeadsTo):
        return rule.when
    return None


def binding_of(rule: Rule) -> tuple[tuple[str, Path], ...]:
    """Variables of the contract with the anchor's paths."""
    anchor = anchor_of(rule)
    return anchor[0].bind if anchor is not None and len(anchor) == 1 else ()


def describe_pattern(pattern: Pattern) -> str:
    """The pattern in words: ``tool_called where tool = "email.send"``."""
    return _with_conditions(
        "any event" if pattern.types is None else " or ".join(pattern.types), pattern
    )


def describe_event(role: Role, event_type: str) -> str:
    """What an event of this type is to the role: ``a tool_called where amount > 10``."""
    article = "an" if event_type[:1] in "aeiou" else "a"
    words = [
        _with_conditions(
            "an event" if pattern.types is None else f"{article} {event_type}", pattern
        )
        for pattern in role
        if pattern.types is None or event_type in pattern.types
    ]
    return " or ".join(dict.fromkeys(words))


def _with_conditions(head: str, pattern: Pattern) -> str:
    parts = [head]
    conditions = [f"{path} {matcher.describe()}" for path, matcher in pattern.where]
    if pattern.node is not None:
        conditions.insert(0, f"node_id {pattern.node.describe()}")
    if pattern.satisfies is not None:
        conditions.append(f"satisfies {pattern.satisfies}")
    if conditions:
        parts.append("where " + ", ".join(conditions))
    return " ".join(parts)


def describe_role(role: Role) -> str:
    """The alternatives in words."""
    return " | ".join(describe_pattern(pattern) for pattern in role)

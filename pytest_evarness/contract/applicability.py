"""Which cases a contract is for: decided by what a case declares, never by what its run did.

The same function says it before the run and, from what a bundle encloses, to a verifier.

Source: docs/contracts.md, "Which cases a contract is for".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.core.json import shown
from pytest_evarness.core.plan import BY_LIBRARY
from pytest_evarness.core.registry import nearest
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = [
    "ALWAYS",
    "BY_ENVIRONMENT",
    "BY_GRAPH",
    "BY_LIBRARY",
    "BY_SCENARIO",
    "INLINE",
    "KEYS",
    "Applicability",
    "CaseFacts",
    "Met",
    "facts_of",
    "parse_applicability",
    "reason_of",
    "tools_in",
    "unmet",
]

ALWAYS: Final = "always"
_LISTS: Final = ("tools", "node_types", "modes", "tags")
KEYS: Final = (*_LISTS, ALWAYS)
_MODES: Final = ("release", "exploratory", "diagnostic")
_ASKED: Final = {
    "tools": ("tool", "tools of the graph"),
    "node_types": ("node type", "node types of the graph"),
    "modes": ("mode", "mode of the case"),
    "tags": ("tag", "tags of the scenario"),
}

BY_SCENARIO: Final = "named by the scenario"
BY_GRAPH: Final = "named by the graph"
INLINE: Final = "written in the scenario"
BY_ENVIRONMENT: Final = "derived from the environment"


@dataclass(frozen=True, slots=True)
class CaseFacts:
    """All that decides whether a contract is for a case.

    Attributes:
        tools: Canonical ids of the tools that nodes of the graph name.
        node_types: Of the graph's nodes.
        mode: In force, whatever set it.
        tags: Of the merged case.
    """

    tools: frozenset[str] = frozenset()
    node_types: frozenset[str] = frozenset()
    mode: str = "release"
    tags: frozenset[str] = frozenset()

    def values(self, key: str) -> frozenset[str]:
        """What the case has of one key of ``applies_to``."""
        if key == "tools":
            return self.tools
        if key == "node_types":
            return self.node_types
        return frozenset({self.mode}) if key == "modes" else self.tags


@dataclass(frozen=True, slots=True)
class Applicability:
    """``applies_to``: all of the given keys, any of the values of a key.

    Attributes:
        lists: Key to its values, in the order of :data:`KEYS`; empty for ``always``.
    """

    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def as_json(self) -> dict[str, Json]:
        """What a file would say."""
        return {key: list(values) for key, values in self.lists} or {ALWAYS: True}

    def why_not(self, facts: CaseFacts) -> str | None:
        """The sentence that says why a case is none of these; None where it is one."""
        for key, wanted in self.lists:
            there = facts.values(key)
            if there.isdisjoint(wanted):
                word, has = _ASKED[key]
                return (
                    f"applies_to asks for the {word} {_listed(wanted)}"
                    f" ({has}: {', '.join(sorted(there)) or 'none'})"
                )
        return None

    def why(self, facts: CaseFacts) -> str:
        """What of a case that is one of these made it so."""
        met = [
            f"{key} {', '.join(sorted(facts.values(key).intersection(wanted)))}"
            for key, wanted in self.lists
        ]
        return "; ".join(met) or ALWAYS

    def covers(self, other: Applicability) -> bool:
        """Whether each case that ``other`` is for is one that this is for."""
        theirs = dict(other.lists)
        return all(key in theirs and set(theirs[key]) <= set(values) for key, values in self.lists)


def reason_of(origin: str, applies_to: Applicability | None, facts: CaseFacts) -> str:
    """Why a contract is among the items of a case.

    Args:
        origin: Who brought it: one of the ``BY_...`` texts, or ``INLINE``.
    """
    if applies_to is None or applies_to.why_not(facts) is not None:
        return origin
    return f"{origin}; it applies to: {applies_to.why(facts)}"


def parse_applicability(
    value: Json, registry: Registry | None
) -> tuple[Applicability | None, list[Fault]]:
    """Read ``applies_to``.

    Args:
        registry: Knows node types; None takes any, since they were checked before.

    Returns:
        None with at least one fault; fault paths start at ``value``.
    """
    if not isinstance(value, Mapping) or not value:
        rule = "{tools, node_types, modes, tags: [...]} or {always: true}"
        return None, [Fault((), "must be a mapping", shown(value, 60), rule)]
    faults: list[Fault] = []
    for key in value:
        if key not in KEYS:
            near = nearest(str(key), KEYS)
            faults.append(
                Fault(
                    (str(key),),
                    "unknown key",
                    f"'{key}'",
                    f"known: {', '.join(KEYS)}",
                    f"write '{near}'" if near else None,
                    at_key=True,
                    code="unknown_key",
                )
            )
    if ALWAYS in value:
        if value[ALWAYS] is not True:
            faults.append(Fault((ALWAYS,), "must be true", shown(value[ALWAYS], 60)))
        if len(value) > 1:
            faults.append(
                Fault((ALWAYS,), "stands alone", rule="beside it nothing narrows", at_key=True)
            )
    lists: list[tuple[str, tuple[str, ...]]] = []
    for key in _LISTS:
        if key in value:
            words, found = _words(key, value[key], registry)
            faults += [fault.under(key) for fault in found]
            lists.append((key, words))
    return (None, faults) if faults else (Applicability(tuple(lists)), [])


def _words(key: str, got: Json, registry: Registry | None) -> tuple[tuple[str, ...], list[Fault]]:
    if not isinstance(got, (list, tuple)) or not got:
        fix = f"write '[{got}]'" if isinstance(got, str) else None
        return (), [Fault((), "must be a list of at least one text", shown(got, 60), fix=fix)]
    known: Iterable[str] | None = None
    if key == "modes":
        known = _MODES
    elif key == "node_types" and registry is not None:
        known = sorted({*registry.node_types.names(), *registry.later_node_types})
    faults: list[Fault] = []
    for index, one in enumerate(got):
        if not isinstance(one, str) or not one:
            faults.append(Fault((index,), "must be a text", shown(one, 60)))
        elif one in got[:index]:
            faults.append(Fault((index,), "is named twice", f"'{one}'"))
        elif known is not None and one not in known:
            near = nearest(one, known)
            faults.append(
                Fault(
                    (index,),
                    f"unknown {_ASKED[key][0]}",
                    f"'{one}'",
                    f"known: {', '.join(known)}",
                    f"write '{near}'" if near else None,
                )
            )
    return tuple(str(one) for one in got), faults


def tools_in(graph: JsonObject, aliases: Mapping[str, str]) -> frozenset[str]:
    """Canonical ids of the tools that nodes of a graph name.

    Args:
        graph: As :meth:`~pytest_evarness.core.graph.Graph.as_record` gives it.
        aliases: Other names of tools to the ids that events hold.
    """
    named: set[str] = set()
    nodes: Any = graph.get("nodes") or ()
    for node in nodes:
        config = node.get("config") or {}
        for value in (config.get("tool"), config.get("tools")):
            words = [value] if isinstance(value, str) else value
            if isinstance(words, (list, tuple)):
                named.update(aliases.get(one, one) for one in words if isinstance(one, str))
    return frozenset(named)


def facts_of(
    graph: JsonObject, aliases: Mapping[str, str], *, mode: str, tags: Iterable[str]
) -> CaseFacts:
    """The facts of a case, from its graph's record and the words of the merged case."""
    nodes: Any = graph.get("nodes") or ()
    return CaseFacts(
        tools=tools_in(graph, aliases),
        node_types=frozenset(str(node["type"]) for node in nodes),
        mode=mode,
        tags=frozenset(tags),
    )


@dataclass(slots=True)
class Met:
    """What cases can have that a contract asks for, as far as it is known.

    Attributes:
        tools: Ids that a manifest in force declares, or a graph names.
        aliases: Other names of these to the ids.
        tags: Of the scenarios.
    """

    tools: set[str] = field(default_factory=set)
    aliases: dict[str, str] = field(default_factory=dict)
    tags: set[str] = field(default_factory=set)


def unmet(applies_to: Applicability, met: Met) -> Iterator[Fault]:
    """Words of ``applies_to`` by which no case can be met; fault paths start at its value.

    A tag is told only where it is nearly one that some scenario has: others may not be here.
    """
    lists = dict(applies_to.lists)
    for index, tool in enumerate(lists.get("tools", ())):
        if tool not in met.tools:
            near = met.aliases.get(tool) or nearest(tool, met.tools)
            yield Fault(
                ("tools", index),
                "unknown tool, so no case is met by it",
                f"'{tool}'",
                "an id that a manifest in force declares or a graph names",
                f"write '{near}'" if near else None,
            )
    for index, tag in enumerate(lists.get("tags", ())):
        near = None if tag in met.tags else nearest(tag, met.tags)
        if near is not None:
            yield Fault(
                ("tags", index), "no scenario has this tag", f"'{tag}'", fix=f"write '{near}'"
            )


def _listed(words: Iterable[str]) -> str:
    return " or ".join(f"'{word}'" for word in words)

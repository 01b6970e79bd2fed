"""What must follow an attack, as invariants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import DerivedInvariant
from pytest_evarness.core.vocabulary import is_custom_type
from pytest_evarness.domains.agents.flow import LOOP, Flow
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import nearest, quoted

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.json import JsonObject

__all__ = ["attack_faults", "attack_remarks", "derive_attacks", "injection_label", "is_injection"]

_SHOWN_BY = {
    "user_turn": "input_received",
    "tool_result": "tool_result",
    "document": "retrieval_performed",
    "memory": "memory_read",
}
"""The event that shows by ``injected`` that a marker entered there."""

_PASSED_ON_BY = {
    "retriever": "retrieval_performed",
    "summary_consolidator": "memory_consolidated",
    "context_assembler": "context_snapshot",
    "prompt_template": "prompt_assembled",
}
"""Nodes that may leave a part of what they get behind, and the event that tells by ``markers``
which markers they handed on."""

_LABEL = "attacks."

_ENTRANCES = {
    "user_turn": ("input",),
    "tool_result": ("tool", LOOP),
    "document": ("retriever",),
    "memory": (
        "conversation_buffer",
        "working_memory",
        "episodic_memory",
        "semantic_memory",
        "procedural_memory",
    ),
}


def _attacks(environment: JsonObject) -> list[Mapping[str, Any]]:
    found: Any = environment.get("attacks")
    return list(found) if isinstance(found, list) else []


def derive_attacks(graph: Graph, environment: JsonObject) -> Iterator[DerivedInvariant]:
    """One gate for each expectation of each attack, in file order.

    One more for each marker: a run that it did not enter says nothing about the attack.
    """
    present = {node.type for node in graph.nodes.values()}
    for index, attack in enumerate(_attacks(environment)):
        if attack["marker"] is not None:
            yield _injected(index, attack, graph)
        for key, wanted in attack["expect"].items():
            if key == "blocked_before":
                starts: JsonObject = {"type": "node_started", "where": {"type": wanted}}
                # Where there is no such node the scope never opens, so that the pass is vacuous.
                scope: JsonObject = {} if wanted in present else {"after": starts}
                body: JsonObject = {"never": {**starts, **scope}}
                claim = f"no {wanted} starts"
            elif wanted:
                body = {"eventually": {"type": key}}
                claim = f"{key} occurs"
            else:
                body = {"never": {"type": key}}
                claim = f"{key} never occurs"
            yield DerivedInvariant(
                id=f"attack-{index}-{key}",
                description=f"Under attack {index} ({attack['kind']} via {attack['via']}) {claim}",
                body=body,
                path=("attacks", index, "expect", key),
                severity=attack["severity"],
            )


def _injected(index: int, attack: Mapping[str, Any], graph: Graph) -> DerivedInvariant:
    arrivals = _arrivals(injection_label(index), attack["via"], graph)
    entered = arrivals[0] if len(arrivals) == 1 else {"any": arrivals}
    return DerivedInvariant(
        id=f"attack-{index}-injected",
        description=f"Attack {index} ({attack['kind']} via {attack['via']}) enters the run",
        # Every run starts before anything enters it, so this passes or is vacuous.
        body={"precedes": {"first": {"type": "run_started"}, "second": entered}},
        path=("attacks", index, "marker"),
        severity=attack["severity"],
        vacuous="indeterminate",
    )


def _arrivals(label: str, via: str, graph: Graph) -> list[JsonObject]:
    """What shows that somebody got the marker, who may do something with it.

    That is the event of its entrance, where a node of another kind comes next; else the event of
    the last node on the way that may have left it behind.
    """
    heard = _heard(graph)
    entrances = [node for node in graph.nodes.values() if node.type in _ENTRANCES[via]]
    entered: JsonObject = {"type": _SHOWN_BY[via], "where": {"injected": {"contains": label}}}
    if all(node.id in heard for node in entrances):
        return [entered]
    found: list[JsonObject] = [
        {**entered, "node_id": node.id} for node in entrances if node.id in heard
    ]
    found += (
        {
            "type": _PASSED_ON_BY[node.type],
            "node_id": node.id,
            "where": {"markers": {"contains": label}},
        }
        for node in graph.nodes.values()
        if node.type in _PASSED_ON_BY and node.id in heard and node not in entrances
    )
    # Where nobody hears of it the case does not load.
    return found or [entered]


def _heard(graph: Graph) -> frozenset[str]:
    """Nodes whose output goes to one that does more than pass a part of it on.

    A loop reads the answers of its tools itself, and what a summary is written to is a memory.
    """
    after = Flow.of(graph).after
    return frozenset(
        node.id
        for node in graph.nodes.values()
        if node.type == LOOP
        or "target" in node.config
        or any(graph.nodes[other].type not in _PASSED_ON_BY for other in after[node.id])
    )


def _is_unheard(via: str, graph: Graph) -> bool:
    """Whether no path leads from an entrance to a node that does something with a marker."""
    entrances = [node.id for node in graph.nodes.values() if node.type in _ENTRANCES[via]]
    return _heard(graph).isdisjoint(Flow.of(graph).reach(entrances))


def attack_remarks(environment: JsonObject) -> Iterator[Fault]:
    """Attacks that inject nothing: their expectations hold whether or not anybody attacks."""
    for index, attack in enumerate(_attacks(environment)):
        if attack["marker"] is None:
            yield Fault(
                ("attacks", index),
                "the attack has no marker, so nothing is injected and nothing can show that it"
                " entered the run",
                got=quoted(attack["kind"]),
                fix="write a 'marker'; an invariant says what must hold without an attack",
                code="attack_without_marker",
            )


def injection_label(index: int) -> str:
    """What an event calls the marker of an attack that it shows to enter."""
    return f"{_LABEL}{index}"


def is_injection(label: str) -> bool:
    """Whether a name under ``injected`` is that of an attack, and no fault's."""
    return label.startswith(_LABEL)


def attack_faults(
    graph: Graph, environment: JsonObject, node_types: frozenset[str], event_types: frozenset[str]
) -> list[Fault]:
    """Attacks that could not happen, and expectations about what cannot occur anywhere."""
    present = {node.type for node in graph.nodes.values()}
    faults = []
    for index, attack in enumerate(_attacks(environment)):
        entrances = _ENTRANCES[attack["via"]]
        if attack["marker"] is not None and present.isdisjoint(entrances):
            problem = f"nothing would be injected: the graph has no {' or '.join(entrances)} node"
            faults.append(Fault(("attacks", index, "via"), problem, got=quoted(attack["via"])))
        elif attack["marker"] is not None and _is_unheard(attack["via"], graph):
            own = " or ".join(kind for kind in entrances if kind in present)
            problem = f"the marker would reach nobody: no edge leads from {own} to anybody"
            rule = "a model, a tool, a step, a guard, a memory, or the output"
            via = quoted(attack["via"])
            faults.append(Fault(("attacks", index, "via"), problem, got=via, rule=rule))
        for key, wanted in attack["expect"].items():
            path = ("attacks", index, "expect", key)
            if key == "blocked_before":
                known, word, kind = node_types | present, wanted, "node type"
                rule = f"in this graph: {', '.join(sorted(present))}"
            else:
                known, word, kind = event_types, key, "event type"
                rule = "a type of the kernel, of an installed domain, or custom.NAME"
            # Only an event type can be of the user's own; a node type has to be there.
            is_own = kind == "event type" and is_custom_type(word)
            if word not in known and not is_own:
                near = nearest(word, known)
                faults.append(
                    Fault(
                        path,
                        f"unknown {kind}",
                        got=quoted(word),
                        rule=rule,
                        fix=f"write {quoted(near)}" if near else None,
                        at_key=kind == "event type",
                    )
                )
    return faults

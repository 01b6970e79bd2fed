"""What must follow an attack, as invariants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import DerivedInvariant
from pytest_evarness.core.registry import nearest
from pytest_evarness.domains.agents.flow import LOOP
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import quoted

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.json import JsonObject

__all__ = ["attack_faults", "derive_attacks"]

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


def derive_attacks(environment: JsonObject) -> Iterator[DerivedInvariant]:
    """One gate for each expectation of each attack, in file order."""
    for index, attack in enumerate(_attacks(environment)):
        for key, wanted in attack["expect"].items():
            if key == "blocked_before":
                body: JsonObject = {"never": {"type": "node_started", "where": {"type": wanted}}}
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
        for key, wanted in attack["expect"].items():
            path = ("attacks", index, "expect", key)
            if key == "blocked_before":
                known, word, kind = node_types | present, wanted, "node type"
            else:
                known, word, kind = event_types, key, "event type"
            if word not in known and not word.startswith("custom."):
                near = nearest(word, known)
                faults.append(
                    Fault(
                        path,
                        f"unknown {kind}",
                        got=quoted(word),
                        fix=f"write {quoted(near)}" if near else None,
                        at_key=kind == "event type",
                    )
                )
    return faults

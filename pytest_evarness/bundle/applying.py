"""Which contracts were for a case, told again from what the bundle encloses.

Graph, manifests, tags and mode are there; whether a library held another contract is not, and is
taken on the signer's word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.bundle.lookup import definitions_of, is_foreign, texts_of
from pytest_evarness.contract.applicability import (
    BY_ENVIRONMENT,
    BY_GRAPH,
    BY_LIBRARY,
    BY_SCENARIO,
    INLINE,
    facts_of,
    parse_applicability,
    reason_of,
)
from pytest_evarness.core.json import shown
from pytest_evarness.errors import UnverifiedError

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

__all__ = ["check_applying"]


def check_applying(predicate: Mapping[str, Any], registry: Registry) -> list[str]:
    """Hold ``because`` and ``applies`` of every contract against the case they are of.

    Returns:
        What is taken on the signer's word.

    Raises:
        UnverifiedError: A contract judged a case that it is not for, or did not judge one that it
            is for, or came to the case in another way than the item says; or the graph names one
            that judges nothing.
    """
    seal = predicate["seal"]
    definitions = definitions_of(seal)
    texts = texts_of(predicate)
    inputs_by_nodeid = {case["nodeid"]: case["inputs"] for case in predicate["cases"]}
    foreign = is_foreign(seal, registry)
    word: list[str] = []
    for planned in seal["plan"]:
        inputs = inputs_by_nodeid.get(planned["nodeid"])
        if inputs is None:
            word.append(f"{planned['nodeid']}: which contracts are for it, as it did not run")
            continue
        scenario = json.loads(inputs["scenario"])
        graph = json.loads(texts[inputs["graph"]])
        overlays = json.loads(texts[inputs["overlays"]])
        aliases: dict[str, str] = {}
        for domain in registry.domains.values():
            aliases.update(domain.aliases(overlays))
        tags = scenario.get("tags") or ()
        judging = {
            definitions[item["definition"]].get("id")
            for item in planned["items"]
            if item["kind"] == "contract"
        }
        for name in _named_by(graph):
            if name not in judging:
                problem = f"the graph names the contract {shown(name)}, and nothing judges it"
                raise UnverifiedError(f"{planned['nodeid']}: {problem}")
        facts = facts_of(graph, aliases, mode=planned["mode"], tags=tags)
        for item in planned["items"]:
            place = f"{planned['nodeid']}::{item['id']}"
            if item["kind"] not in ("contract", "trace"):
                if item["because"] is not None or item["applies"] is not None:
                    raise UnverifiedError(f"{place}: only a contract says why it is here")
                continue
            definition = definitions[item["definition"]]
            given = definition.get("applies_to")
            if foreign and isinstance(given, Mapping) and "tools" in given:
                word.append(f"{place}: that it is for this case, told with parts of a plug-in")
                continue
            applies_to, faults = (None, []) if given is None else parse_applicability(given, None)
            if faults:
                raise UnverifiedError(f"{place}: applies_to {faults[0].text}")
            origin = _origin(item, definition, scenario, graph, planned["base"])
            if origin == BY_LIBRARY and applies_to is None:
                raise UnverifiedError(f"{place}: nobody names it, and it has no applies_to")
            why_not = None if applies_to is None else applies_to.why_not(facts)
            for name, want in (
                ("because", reason_of(origin, applies_to, facts)),
                ("applies", why_not),
            ):
                if item[name] != want:
                    raise UnverifiedError(
                        f"{place}: {name} is {shown(item[name])}, and the case gives {shown(want)}"
                    )
    return word


def _origin(
    item: Mapping[str, Any],
    definition: Mapping[str, Any],
    scenario: Mapping[str, Any],
    graph: Mapping[str, Any],
    base: str,
) -> str:
    """Who brought a contract to the case."""
    entries: Any = scenario.get("invariants")
    entry: Any = entries.get(item["id"]) if isinstance(entries, Mapping) else None
    is_written = isinstance(entry, Mapping) and base in entry.get("cases", [base])
    if item["kind"] == "trace":
        return INLINE if is_written else BY_ENVIRONMENT
    if is_written:
        return BY_SCENARIO
    return BY_GRAPH if definition.get("id") in _named_by(graph) else BY_LIBRARY


def _named_by(graph: Mapping[str, Any]) -> Sequence[str]:
    """Ids of the contracts that a graph asks for."""
    params: Any = graph.get("params") or {}
    return params.get("invariants") or ()

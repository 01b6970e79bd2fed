"""Chooses the model that the calls behind it go to, among those that may see the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.domains.agents.egress import Egress, is_legal
from pytest_evarness.domains.agents.flow import Flow
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.node.route import has_word
from pytest_evarness.domains.agents.overlay import tiers_of
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import joined
from pytest_evarness.errors import GraphFault
from pytest_evarness.source.model import Absent, Strict, refuse
from pytest_evarness.source.quote import nearest, one_of, quoted

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph, Node
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.core.json import JsonObject

__all__ = ["TIER_ROUTER", "tier_faults"]

_Name = Annotated[str, Field(min_length=1)]


class _TierRouter(Strict):
    intents: dict[_Name, _Name] = Field(default_factory=dict)
    default_tier: Absent[_Name] = None
    on_forbidden_egress: Literal["downshift", "block", "warn"] = "downshift"

    @model_validator(mode="after")
    def _chooses(self) -> _TierRouter:
        if not self.intents and self.default_tier is None:
            raise refuse("chooses nothing", rule="intents, default_tier, or both")
        return self


@dataclass(frozen=True, slots=True)
class _Tier:
    name: str
    destination: str
    provider: str
    level: int


def _routers_before(graph: Graph, node: str) -> list[str]:
    """The intent routers from which a path leads to a node."""
    before = Flow.of(graph).reach([node], back=True)
    return sorted(one for one in before if graph.nodes[one].type == "intent_router")


def _intent(text: str, config: _TierRouter, context: Context) -> str | None:
    """The key of ``intents`` that the request is of.

    Behind an intent router its route says so, else the words of the text do: the longest key that
    stands in it, the first by name among equally long ones.
    """
    routers = _routers_before(context.graph, context.node_id)
    if not routers:
        found = [key for key in config.intents if has_word(text, key)]
        return min(found, key=lambda key: (-len(key), key), default=None)
    for event in reversed(context.events()):
        if event["type"] == "intent_routed" and event["node_id"] in routers:
            route = str(event["payload"]["route"])
            return route if route in config.intents else None
    return None


def _tiers(context: Context) -> dict[str, _Tier]:
    # Not that of a tier taken before: a tier without a model of its own has the run's.
    provider = str(context.environment.get("provider") or context.graph.params.provider)
    return {
        name: _Tier(name, one["destination"], one.get("provider", provider), one["level"])
        for name, one in tiers_of(context.environment, context.overlays).items()
    }


def _instead(meant: _Tier, tiers: Mapping[str, _Tier], classification: str) -> _Tier | None:
    """The legal tier that is nearest, the first by name among equals; None where there is none.

    That is the highest one not above the tier that was meant, else the lowest one above it.
    """
    legal = sorted(
        (tier for tier in tiers.values() if is_legal(classification, tier.destination)),
        key=lambda tier: tier.name,
    )
    below = [tier for tier in legal if tier.level <= meant.level]
    if below:
        return max(below, key=lambda tier: tier.level)
    return min(legal, key=lambda tier: tier.level, default=None)


def _tier_router(inputs: Mapping[str, list[Any]], config: _TierRouter, context: Context) -> str:
    text = joined(inputs.get("in", []))
    state, tiers = state_of(context), _tiers(context)
    egress = state.part(Egress)
    intent = _intent(text, config, context)
    name = config.default_tier if intent is None else config.intents[intent]
    if name is None:
        raise NodeBlocked("tier_router: no intent of the request names a tier")
    meant = tiers[name]
    tier = _permitted(meant, tiers, config.on_forbidden_egress, egress, context)
    context.emit(
        "tier_selected",
        {
            "tier": tier.name,
            "destination": tier.destination,
            "provider": tier.provider,
            "intent": intent,
        },
    )
    state.provider, egress.destination, egress.is_routed = tier.provider, tier.destination, True
    return text


def _permitted(
    meant: _Tier, tiers: Mapping[str, _Tier], on_forbidden: str, egress: Egress, context: Context
) -> _Tier:
    """The tier itself, or what is done where it must not see what the run holds."""
    found = egress.classification
    if is_legal(found, meant.destination):
        return meant
    if on_forbidden == "warn":
        context.emit(
            "tier_egress_warning",
            {"tier": meant.name, "destination": meant.destination, "classification": found},
        )
        return meant
    other = _instead(meant, tiers, found) if on_forbidden == "downshift" else None
    if other is None:
        egress.deny(meant.destination, {"tier": meant.name, "provider": meant.provider}, context)
        why = "no legal tier is left" if on_forbidden == "downshift" else "the tier is forbidden"
        raise NodeBlocked(f"tier_router: {why} for what is {found} (tier {meant.name})")
    context.emit(
        "tier_downshifted",
        {
            "from": meant.name,
            "to": other.name,
            "destination": other.destination,
            "classification": found,
        },
    )
    return other


def tier_faults(graph: Graph, environment: JsonObject, overlays: JsonObject) -> list[GraphFault]:
    """Tiers that routers name and nobody describes."""
    routers = [node for node in graph.nodes.values() if node.type == "tier_router"]
    known = tiers_of(environment, overlays)
    faults: list[GraphFault] = []
    for node in routers:
        for name, place in _named(node):
            if name in known:
                continue
            near = nearest(name, known)
            faults.append(
                GraphFault(
                    (*graph.path_of(node.id), "config", *place),
                    f"the tier of node {quoted(node.id)} is described nowhere",
                    got=quoted(name),
                    rule=f"tiers: {one_of(sorted(known))}",
                    fix=f"write {quoted(near)}" if near else "describe it under 'tiers'",
                )
            )
    return faults


def _named(node: Node) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each tier that a router names, once, with its place in the configuration."""
    if node.parsed is None:
        return
    places: dict[str, tuple[str, ...]]
    places = {name: ("intents", intent) for intent, name in node.parsed.intents.items()}
    if node.parsed.default_tier is not None:
        places[node.parsed.default_tier] = ("default_tier",)
    yield from places.items()


TIER_ROUTER = declare(
    "tier_router",
    "Chooses the model of the calls that follow.",
    _TierRouter,
    _tier_router,
    inputs={"in": "text"},
    output="text",
    emits=("tier_selected", "tier_downshifted", "tier_egress_warning", "egress_denied"),
)

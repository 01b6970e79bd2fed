"""The world as the kernel asks about it: its keys, its names, what of it a run reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.domain import PlainDomain
from pytest_evarness.core.interfaces import Inlined
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.interfaces import (
        EnvironmentKey,
        ProjectFiles,
    )
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["WorldDomain"]

_WITH_RECEIPT = tuple(
    f"effect_{word}.receipt.service" for word in ("applied", "refused", "replayed")
)
_SERVICES = "services"


class WorldDomain(PlainDomain):
    """Workspace and services."""

    name = "world"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def environment_keys(self) -> Sequence[EnvironmentKey]:
        """``workspace`` and ``services``."""
        from pytest_evarness.world.model import environment_keys

        return environment_keys(self._registry)

    def inline(self, environment: JsonObject, files: ProjectFiles) -> Inlined:
        """The files that both keys refer to."""
        if "workspace" not in environment and _SERVICES not in environment:
            return Inlined(environment)
        from pytest_evarness.world.inlining import inline

        return inline(environment, files)

    def check_case(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> list[Fault]:
        """A name stands for one thing: what is a tool is no service."""
        services = _services(environment)
        if not services:
            return []
        tools = _tool_names(graph, environment, overlays)
        return [
            Fault(
                (_SERVICES, name),
                "the name is a tool's as well",
                got=f"'{name}'",
                rule="faults would not know which of them is meant",
                fix="give the service another name",
                at_key=True,
            )
            for name in services
            if name in tools
        ]

    def identities(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> Mapping[str, frozenset[str]]:
        """Names of services, and what a receipt may be of."""
        from pytest_evarness.world.application import MAILBOX, WORKSPACE

        del graph, overlays
        services = frozenset(_services(environment))
        receipts = dict.fromkeys(_WITH_RECEIPT, services | {MAILBOX, WORKSPACE})
        return {"service": services, **receipts}

    def coverage(self, graph: Graph, environment: JsonObject) -> Mapping[str, Sequence[str]]:
        """Every service that is declared."""
        del graph
        services = _services(environment)
        return {_SERVICES: sorted(services)} if services else {}

    def exercised(self, graph: Graph, events: Sequence[TraceEvent]) -> Mapping[str, frozenset[str]]:
        """Services that a request or a statement reached, as far as events tell."""
        del graph
        reached: set[str] = set()
        for event in events:
            if event["type"] in ("http_request", "db_write", "effect_applied"):
                payload: Any = event["payload"]
                receipt = payload.get("receipt")
                for found in (payload.get("service"), _named(receipt)):
                    if isinstance(found, str):
                        reached.add(found)
        return {_SERVICES: frozenset(reached)}


def _named(receipt: Any) -> Any:
    return receipt.get("service") if isinstance(receipt, Mapping) else None


def _services(environment: JsonObject) -> Mapping[str, Any]:
    services = environment.get(_SERVICES)
    return services if isinstance(services, Mapping) else {}


def _tool_names(graph: Graph, environment: JsonObject, overlays: JsonObject) -> set[str]:
    """Ids and aliases of tools, wherever one is named."""
    manifests: Any = overlays.get("tools")
    names: set[str] = set()
    for tool, manifest in manifests.items() if isinstance(manifests, Mapping) else ():
        names.add(tool)
        if isinstance(manifest, Mapping):
            names.update(manifest.get("aliases") or ())
    scripted = environment.get("tools")
    names.update(scripted if isinstance(scripted, Mapping) else ())
    for node in graph.nodes.values():
        # A node that calls one names it under 'tool', one that may call several under 'tools'.
        several = node.config.get("tools")
        found = [node.config.get("tool"), *(several if isinstance(several, list | tuple) else ())]
        names.update(tool for tool in found if isinstance(tool, str))
    return names

"""``forbidden`` rules as they are sealed: with everything that decides them, but what happened.

Source: docs/forbidden.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.forbidden import (
    HTTP_TYPES,
    SQL_TYPES,
    UNMATCHED,
    routes_of,
    strict_services,
)
from pytest_evarness.core.execution import CUSTOM_TRAIT
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import nearest, one_of, quoted

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["UNMATCHED", "Rules"]


class Rules:
    """The rules of one case.

    Args:
        registry: Knows which nodes run code of the user's own.
        environment: Normalised.
        graph: That runs.
        tools: Every name of a tool that is known.
        aliases: Other names of tools to their ids.
        secrets: Names.
    """

    def __init__(
        self,
        registry: Registry,
        environment: JsonObject,
        graph: Graph,
        *,
        tools: frozenset[str],
        aliases: Mapping[str, str],
        secrets: Sequence[str],
    ) -> None:
        services: Any = environment.get("services", {})
        self._services: Mapping[str, Any] = services if isinstance(services, Mapping) else {}
        self._has_workspace = "workspace" in environment
        self._tools = tools
        self._aliases = aliases
        self._secrets = tuple(secrets)
        self._steps: list[str] = []
        nodes: Any = graph.nodes
        for node in nodes.values():
            kind = registry.node_types.find(node.type)
            if kind is not None and CUSTOM_TRAIT in kind.traits:
                self._steps.append(node.id)

    def definition(self, rule: str, value: Any) -> tuple[JsonObject, list[Fault]]:
        """The sealed form of a written rule, and its mistakes, paths relative to its value."""
        allowed: list[str] = []
        faults: list[Fault] = []
        for position, name in enumerate(value if isinstance(value, list) else ()):
            made, fault = self._name(rule, name)
            if fault is not None:
                faults.append(fault.under(position))
            elif made not in allowed:
                allowed.append(made)
        return self._sealed(rule, allowed), faults

    def unmatched(self) -> JsonObject | None:
        """The rule that strict mocks bring; None where no service is strict."""
        strict = strict_services(self._services)
        if not strict:
            return None
        return {**self._sealed(UNMATCHED, strict), "routes": dict(routes_of(self._services))}

    def _sealed(self, rule: str, names: list[str]) -> JsonObject:
        made: dict[str, Json] = {
            "rule": rule,
            "names": names,
            "services": {
                name: str(config.get("type")) for name, config in sorted(self._services.items())
            },
            "workspace": self._has_workspace,
            "steps": list(self._steps),
        }
        if rule == "secrets_in_logs":
            made["names"] = sorted(self._secrets)
        return made

    def _name(self, rule: str, name: str) -> tuple[str, Fault | None]:
        if rule == "tools_except":
            known = {*self._tools, *self._aliases, *self._aliases.values()}
            if name not in known:
                return "", _unknown(name, known, "tool", "tools")
            return self._aliases.get(name, name), None
        if rule == "http_except":
            http = [
                one for one, config in self._services.items() if config.get("type") not in SQL_TYPES
            ]
            if name in self._services and name not in http:
                kind = self._services[name].get("type")
                problem = f"names a service of type {kind}, which answers no HTTP"
                return "", Fault((), problem, got=quoted(name), rule=_listed(http, "services"))
            if name not in self._services:
                return "", _unknown(name, http, "service", "services")
        if rule == "db_writes_outside":
            service, dot, table = name.partition(".")
            config = self._services.get(service)
            if dot and table and config is not None and config.get("type") in HTTP_TYPES:
                sql = [
                    one
                    for one, config in self._services.items()
                    if config.get("type") not in HTTP_TYPES
                ]
                problem = f"names a service of type {config.get('type')}, which has no tables"
                return "", Fault((), problem, got=quoted(name), rule=_listed(sql, "databases"))
            if dot and table and config is None and self._has_no_schemas():
                near = nearest(service, self._services)
                return "", Fault(
                    (),
                    "names no service",
                    got=quoted(name),
                    rule=f"TABLE or SERVICE.TABLE; {_listed(sorted(self._services), 'services')}",
                    fix=f"write '{near}.{table}'" if near else None,
                )
        return name, None

    def _has_no_schemas(self) -> bool:
        """Whether what stands before a dot can be a service alone, and no schema of a database."""
        kinds = {config.get("type") for config in self._services.values()}
        return kinds <= {*HTTP_TYPES, "mysql", "sqlite"}


def _unknown(name: str, known: Any, what: str, several: str) -> Fault:
    near = nearest(name, known)
    return Fault(
        (),
        f"names no {what}",
        got=quoted(name),
        rule=_listed(sorted(known), several),
        fix=f"write '{near}'" if near else None,
    )


def _listed(names: Sequence[str], what: str) -> str:
    return f"{what}: {one_of(names) or 'none'}"

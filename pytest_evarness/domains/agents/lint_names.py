"""Names in configurations that only the registry, or the rest of the graph, can know."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.core.interfaces import LintFinding
from pytest_evarness.domains.agents.extension import CLASSIFIER, INTERCEPTOR_RULE, REDACTION_RULE
from pytest_evarness.domains.agents.flow import Flow
from pytest_evarness.domains.agents.node.classify import CLASSIFIERS
from pytest_evarness.domains.agents.node.interceptor import CHAIN_RULES
from pytest_evarness.domains.agents.vocabulary import PERSONAL
from pytest_evarness.source.quote import nearest, one_of, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_evarness.core.graph import Graph, Node
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["NAME_RULES"]

_SHOWN: Final = 50

_NAMED: Final = {
    "data_classifier": ("classifier", "classifier", CLASSIFIER, tuple(CLASSIFIERS)),
    "interceptor": ("chain", "rule", INTERCEPTOR_RULE, tuple(CHAIN_RULES)),
    "redaction_rules": ("rules", "rule", REDACTION_RULE, PERSONAL),
}
"""By type: key of the configuration, what it names, the kind of extension, what is packaged."""


def _unknown(
    code: str, message: str, node: Node, path: tuple[str | int, ...], near: str | None
) -> LintFinding:
    fix = f"write {quoted(near)}" if near else None
    return LintFinding("error", code, message, path, node.id, fix=fix)


def _names(node: Node, key: str) -> Iterable[tuple[tuple[str | int, ...], str]]:
    """Each name under a key, and its place; a configuration with faults has none."""
    written: Any = () if node.parsed is None else getattr(node.parsed, key)
    if isinstance(written, str):
        return [((key,), written)]
    return [((key, index), name) for index, name in enumerate(written)]


def _unknown_names(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """A rule or classifier that is neither packaged nor registered by a plug-in."""
    del overlays
    findings = []
    for node in graph.nodes.values():
        if node.type not in _NAMED:
            continue
        key, what, kind, packaged = _NAMED[node.type]
        known = [*packaged, *registry.extensions(kind).names()]
        for place, name in _names(node, key):
            if name not in known:
                message = f"unknown {what} (got {quoted(name)}; known: {one_of(known)})"
                path = (*graph.path_of(node.id), "config", *place)
                near = nearest(name, known)
                findings.append(_unknown("unknown_name", message, node, path, near))
    return findings


def _routes(router: Node) -> list[str]:
    """Every route with which a request comes behind a router."""
    parsed: Any = router.parsed
    if parsed is None:
        return []
    # The other fallbacks stop a request, so nothing behind them sees their route.
    passing = [parsed.fallback] if parsed.fallback == "generic_llm" else []
    return [*(rule.route for rule in parsed.rules), *passing]


def _unknown_routes(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """An intent of a tier router that none of the intent routers before it can choose."""
    del registry, overlays
    routers = [node for node in graph.nodes.values() if node.type == "intent_router"]
    tiers = [node for node in graph.nodes.values() if node.type == "tier_router"]
    if not routers or not tiers or any(node.parsed is None for node in routers):
        return []
    # Bit 0 says that there is a router at all, the others which routes it has.
    bit = {
        route: 2 << k for k, route in enumerate(sorted({r for n in routers for r in _routes(n)}))
    }
    marks = {node.id: sum({bit[route] for route in _routes(node)}, 1) for node in routers}
    before = Flow.of(graph).marks_along(marks)
    findings = []
    for node in tiers:
        found = before.get(node.id, 0)
        parsed: Any = node.parsed
        if not found or parsed is None:
            continue
        for intent in parsed.intents:
            if not bit.get(intent, 0) & found:
                routes = list(islice((name for name, one in bit.items() if one & found), _SHOWN))
                message = (
                    "no intent router before the node has the route"
                    f" (got {quoted(intent)}; routes: {one_of(routes) or 'none'})"
                )
                path = (*graph.path_of(node.id), "config", "intents", intent)
                findings.append(
                    _unknown("unknown_route", message, node, path, nearest(intent, routes))
                )
    return findings


NAME_RULES: Final = (
    ("agents.unknown_name", _unknown_names),
    ("agents.unknown_route", _unknown_routes),
)
"""Rules of lint, by name."""

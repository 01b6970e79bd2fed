"""Braces that look like a placeholder of an argument and are sent as they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import LintFinding
from pytest_evarness.domains.agents.manifest import canonical, manifests_of
from pytest_evarness.domains.agents.template import literal_words
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import quoted

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["LITERAL_RULES", "literal_remarks"]

_CODE = "literal_placeholder"


def _remarks(template: Any, manifest: Mapping[str, Any] | None) -> Iterator[Fault]:
    """Each word in braces that is an argument of the tool; paths from the template."""
    known = {} if manifest is None else manifest["args"].get("properties", {})
    for path, word in literal_words(template):
        if word in known:
            problem = f"{{{word}}} is no placeholder and stays as it stands"
            rule = f"{quoted(word)} is an argument of {quoted(manifest['id'] if manifest else '')}"
            yield Fault(path, problem, rule=rule, fix=f"write {{args.{word}}}", code=_CODE)


def _in_nodes(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """Arguments and intents of tool nodes."""
    del registry
    manifests = manifests_of(overlays)
    findings = []
    for node in graph.nodes.values():
        name = node.config.get("tool")
        if node.type != "tool" or not isinstance(name, str):
            continue
        templates = {key: node.config[key] for key in ("args", "intent") if key in node.config}
        for fault in _remarks(templates, manifests.get(canonical(name, manifests))):
            path = (*graph.path_of(node.id), "config", *fault.path)
            findings.append(LintFinding("warning", _CODE, fault.text, path, node.id, fix=fault.fix))
    return findings


def literal_remarks(
    environment: JsonObject,
    manifests: Mapping[str, Mapping[str, Any]],
    canonical: Callable[[str], str],
    used: Iterable[str],
) -> list[Fault]:
    """The same in effects of scripted rules, and in manifests of used tools."""
    scripted: Any = environment.get("tools") or {}
    found: list[Fault] = []
    for name, rules in scripted.items():
        manifest = manifests.get(canonical(name))
        for number, rule in enumerate(rules):
            at = ("tools", name, number, "effects")
            found += (fault.under(*at) for fault in _remarks(rule.get("effects"), manifest))
    for tool in sorted(set(used) & set(manifests)):
        templates = {key: manifests[tool].get(key) for key in ("intent", "effects")}
        for fault in _remarks(templates, manifests[tool]):
            place = ".".join(str(part) for part in fault.path)
            problem = f"manifest of {quoted(tool)}: {place}: {fault.problem}"
            found.append(Fault(("services",), problem, rule=fault.rule, fix=fault.fix, code=_CODE))
    return found


LITERAL_RULES = ((f"agents.{_CODE}", _in_nodes),)

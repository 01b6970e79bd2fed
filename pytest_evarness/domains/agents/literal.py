"""Braces that look like a placeholder of an argument and are sent as they stand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import LintFinding
from pytest_evarness.domains.agents.manifest import canonical, manifests_of
from pytest_evarness.domains.agents.node.dialogue import SECTIONS
from pytest_evarness.domains.agents.template import literal_words
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import nearest, quoted

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = ["LITERAL_RULES", "literal_remarks"]

_CODE = "literal_placeholder"
_PLACES = ("query", "args")


def _remarks(template: Any, manifest: Mapping[str, Any] | None) -> Iterator[Fault]:
    """Each word in braces that is an argument of the tool, or nearly a placeholder.

    Paths are from the template.
    """
    known = {} if manifest is None else manifest["args"].get("properties", {})
    for path, word in literal_words(template):
        first = re.split(r"[.\[]", word, maxsplit=1)[0]
        if first in known:
            rule = f"{quoted(first)} is an argument of {quoted(manifest['id'] if manifest else '')}"
            yield _literal(path, first, rule, f"{{args.{first}}}")
        elif first in _PLACES or (near := nearest(first, _PLACES)):
            meant = first if first in _PLACES else near
            path_of_it = word[len(first) + 1 :] or "PATH"
            fix = "{query}" if meant == "query" else f"{{args.{path_of_it}}}"
            yield _literal(path, word, "{query} and {args.PATH} are placeholders", fix)


def _literal(path: tuple[str | int, ...], word: str, rule: str, meant: str) -> Fault:
    problem = f"{{{word}}} is no placeholder and stays as it stands"
    return Fault(path, problem, rule=rule, fix=f"write {meant}", code=_CODE)


def _in_layouts(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
    """Words in braces of a prompt's layout that are no section."""
    del registry, overlays
    findings = []
    for node in graph.nodes.values():
        layout = node.config.get("template")
        if node.type != "prompt_template" or not isinstance(layout, str):
            continue
        path = (*graph.path_of(node.id), "config", "template")
        for _, word in literal_words(layout):
            if word in SECTIONS:
                continue
            near = nearest(word, SECTIONS)
            fault = Fault(
                path,
                f"{{{word}}} is no section and stays as it stands",
                rule=" ".join(f"{{{name}}}" for name in SECTIONS),
                fix=f"write {{{near}}}" if near else None,
            )
            findings.append(LintFinding("warning", _CODE, fault.text, path, node.id, fix=fault.fix))
    return findings


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


LITERAL_RULES = ((f"agents.{_CODE}", _in_nodes), ("agents.literal_section", _in_layouts))

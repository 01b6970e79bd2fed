"""The reference pages: every node type and every event type of a registry, as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import NodeType
    from pytest_evarness.core.registry import Registry

__all__ = ["PAGES", "events_page", "nodes_page"]

_LONGEST = 640
_ANYWHERE = frozenset({"tainted", "truncated"})


def nodes_page(registry: Registry) -> str:
    """Each node type with its ports, its configuration and the events it emits."""
    lines = [
        "# Node types",
        "",
        "Ports, configuration and events of every node type that comes with the package.",
        "[agents.md](../agents.md) and the pages of [nodes/](../nodes/README.md) tell the rest.",
        "",
        "This page is written by `pytest-evarness schema nodes --markdown`.",
    ]
    for name, kind in registry.node_types.items():
        lines += ["", f"## {name}", "", *_node(kind)]
    return "\n".join(lines) + "\n"


def _node(kind: NodeType) -> Iterator[str]:
    yield kind.doc
    yield ""
    yield f"- in: {_ports(kind.inputs)}"
    yield f"- out: {_ports(kind.outputs)}"
    yield f"- emits: {', '.join(f'`{name}`' for name in sorted(kind.emits)) or 'nothing'}"
    schema: Any = kind.config_schema
    properties: Mapping[str, Any] = schema.get("properties", {})
    if not properties:
        return
    required = schema.get("required", ())
    definitions = schema.get("$defs", {})
    blank, _ = kind.parse_config({})
    yield ""
    yield "| config | value | default | |"
    yield "| --- | --- | --- | --- |"
    for key, inner in properties.items():
        default = "required" if key in required else _default(key, inner, blank)
        words = _cell(str(inner.get("description", "")))
        yield f"| `{key}` | {_cell(_type(inner, definitions))} | {default} | {words} |"


def _ports(ports: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}` ({kind})" for name, kind in ports.items()) or "none"


def _default(key: str, schema: Mapping[str, Any], blank: Any) -> str:
    """The default as it stands in the schema, else in what an empty configuration becomes."""
    value = schema.get("default", getattr(blank, key, None))
    if value is None or value in ("", [], {}):
        return "none"
    return f"`{_cell(json.dumps(value, ensure_ascii=False, default=_plain))}`"


def _plain(value: Any) -> Any:
    """A part of a parsed configuration as JSON: a model of its own."""
    return value.model_dump(by_alias=True, exclude_none=True)


def events_page(registry: Registry) -> str:
    """Each event type with the fields of its payload, by who emits it."""
    lines = [
        "# Events",
        "",
        "Every event type of a run. A field with `?` is not always there.",
        "`truncated: true` stands beside texts that were cut,",
        "`tainted: true` in every event behind a block in diagnostic mode.",
        "",
        "This page is written by `pytest-evarness schema events --markdown`.",
        "",
        "| event | of | payload | |",
        "| --- | --- | --- | --- |",
    ]
    for name, kind in registry.event_types.items():
        schema: Any = kind.schema
        fields = _fields(schema)
        lines.append(f"| `{name}` | {kind.source} | {_cell(fields)} | {_cell(kind.doc)} |")
    lines += ["", "`custom.NAME` is what a step of your own emits; its payload is free."]
    return "\n".join(lines) + "\n"


def _fields(schema: Mapping[str, Any]) -> str:
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    definitions = schema.get("$defs", {})
    return ", ".join(
        f"`{key}`{'' if key in required else '?'}: {_type(inner, definitions)}"
        for key, inner in properties.items()
        if key not in _ANYWHERE
    )


def _type(schema: Any, definitions: Mapping[str, Any], depth: int = 3) -> str:
    """A schema in few words."""
    if not isinstance(schema, Mapping) or not schema:
        return "any"
    if "$ref" in schema:
        target = definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
        return _type(target, definitions, depth - 1) if depth else "mapping"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " \\| ".join(f"`{word}`" for word in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(one, definitions, depth) for one in schema[key]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {_type(schema.get('items'), definitions, depth - 1)}" if depth else "list"
    if kind == "object":
        return _object(schema, definitions, depth)
    words = {"string": "text"}.get(str(kind), str(kind) if kind else "any")
    return words + _bounds(schema)


def _object(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> str:
    properties = schema.get("properties")
    if not properties or not depth:
        return "mapping"
    return "{" + ", ".join(f"`{key}`" for key in properties) + "}"


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" {low} to {high}"
    if low is not None:
        return f" from {low}"
    return f" up to {high}" if high is not None else ""


def _cell(text: str) -> str:
    """Text in one cell of a table; what is too long for one is cut, and says so."""
    flat = " ".join(text.split()).replace("|", "\\|").replace("\\\\|", "\\|")
    return flat if len(flat) <= _LONGEST else flat[:_LONGEST] + " …"


PAGES = {"nodes": nodes_page, "events": events_page}
"""Schemas that have a page for readers."""

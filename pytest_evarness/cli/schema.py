"""``pytest-evarness schema``: JSON Schemas of what users write and of what runs emit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_evarness.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from pytest_evarness.core.registry import Registry

__all__ = ["HELP", "NAME", "SCHEMAS", "add_arguments", "main"]

NAME = "schema"
HELP = "print the JSON Schema of a file format"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: dict[str, Any] = {"type": "string"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="which one; without it, the names")
    parser.add_argument(
        "--markdown", action="store_true", help="nodes and events: the reference page instead"
    )
    parser.add_argument("--json", action="store_true", help="the names as JSON too")


def main(args: argparse.Namespace) -> int:
    """Print a schema, or the names of all.

    Returns:
        0, or 2 where no schema is called that.
    """
    from pytest_evarness.core.registry import load_registry, nearest

    if args.name is None:
        sys.stdout.write(_names(as_json=args.json))
        return 0
    if args.name not in SCHEMAS:
        near = nearest(args.name, SCHEMAS)
        raise UsageError(
            f"no schema is called that (got '{args.name}'; known: {', '.join(SCHEMAS)})",
            fix=f"write '{near}'" if near else None,
        )
    if args.markdown:
        from pytest_evarness.cli.reference import PAGES
        from pytest_evarness.core.registry import packaged_registry

        if args.name not in PAGES:
            known = ", ".join(PAGES)
            raise UsageError(f"there is no page of it (got '{args.name}'; known: {known})")
        sys.stdout.write(PAGES[args.name](packaged_registry()))
        return 0
    schema = SCHEMAS[args.name][1](load_registry())
    sys.stdout.write(json.dumps(schema, indent=2, ensure_ascii=True) + "\n")
    return 0


def _names(*, as_json: bool) -> str:
    if as_json:
        names = [{"name": name, "doc": doc} for name, (doc, _) in SCHEMAS.items()]
        return json.dumps(names, indent=2, ensure_ascii=True) + "\n"
    width = max(len(name) for name in SCHEMAS)
    return "".join(f"{name:<{width}}  {doc}\n" for name, (doc, _) in SCHEMAS.items())


# -- what users write --------------------------------------------------------------------------


def _scenario(registry: Registry) -> dict[str, Any]:
    from pytest_evarness.scenario.schema import scenario_schema

    return scenario_schema(registry)


def _graph(registry: Registry) -> dict[str, Any]:
    node = _object(
        {
            "id": {**_TEXT, "minLength": 1},
            "type": {"enum": registry.node_types.names()},
            "label": _TEXT,
            "config": {"type": "object"},
            "position": {"type": "object"},
        },
        "id",
        "type",
    )
    # The type says which configuration is meant; unknown keys are mistakes there too.
    node["allOf"] = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"properties": {"config": _plain(kind.config_schema)}},
        }
        for name, kind in registry.node_types.items()
    ]
    edge = _object({"from": _TEXT, "to": _TEXT, "from_port": _TEXT, "to_port": _TEXT}, "from", "to")
    count = {"type": "integer", "minimum": 1}
    params = _object(
        {
            "context_budget_tokens": count,
            "max_loops": count,
            "seed": {"type": "integer"},
            "provider": {**_TEXT, "pattern": "^sim:"},
            "invariants": {"type": "array", "items": _TEXT},
        }
    )
    return _titled(
        "pytest-evarness graph",
        _object(
            {
                "ir_version": {"const": 1},
                "id": _TEXT,
                "name": _TEXT,
                "description": _TEXT,
                "nodes": {"type": "array", "items": node},
                "edges": {"type": "array", "items": edge},
                "groups": {"type": "array"},
                "params": params,
                "metadata": {"type": "object"},
            },
            "nodes",
            "edges",
        ),
    )


def _plain(schema: Any) -> Any:
    """A schema that stands anywhere in another: references written out, no names of classes.

    Its references begin at its own root, which inside another schema is no root any more.
    """
    return _written_out(schema, dict(schema.get("$defs", {})), names=False)


def _written_out(value: Any, definitions: dict[str, Any], *, names: bool) -> Any:
    if isinstance(value, list):
        return [_written_out(part, definitions, names=False) for part in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for key, part in value.items():
        if names:
            made[key] = _written_out(part, definitions, names=False)
        elif key == "$ref" and isinstance(part, str) and part.startswith("#/$defs/"):
            target = definitions[part.removeprefix("#/$defs/")]
            made |= _written_out(target, definitions, names=False)
        elif key not in ("$defs", "title"):
            made[key] = _written_out(part, definitions, names=key == "properties")
    return made


def _contracts(registry: Registry) -> dict[str, Any]:
    from pytest_evarness.contract.applicability import ALWAYS
    from pytest_evarness.contract.applicability import KEYS as APPLIES_TO
    from pytest_evarness.contract.model import ENFORCEMENTS, KEYS, STATUSES, VACUOUS
    from pytest_evarness.core.outcome import Severity

    texts = {"type": "array", "items": _TEXT, "minItems": 1}
    words: dict[str, Any] = {
        "version": {"type": "integer", "minimum": 1},
        "severity": {"enum": [one.value for one in Severity]},
        "gate": {"type": "boolean"},
        "enforced_by": {"type": "array", "items": {"enum": list(ENFORCEMENTS)}},
        "status": {"enum": list(STATUSES)},
        "vacuous": {"enum": list(VACUOUS)},
        "history": {
            "type": "array",
            "items": _object(
                {"version": {"type": "integer", "minimum": 1}, "date": _TEXT, "change": _TEXT},
                "version",
            ),
        },
        "applies_to": {
            "oneOf": [
                {
                    **_object({key: texts for key in APPLIES_TO if key != ALWAYS}),
                    "minProperties": 1,
                },
                _object({ALWAYS: {"const": True}}, ALWAYS),
            ]
        },
        "overrides": {**_TEXT, "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.:-]*@[1-9][0-9]*$"},
        "corpus": _corpus(registry),
        "assert": {"$ref": "#/$defs/assert"},
    }
    contract = _object({key: words.get(key, _TEXT) for key in KEYS}, "assert")
    library = {
        "type": "object",
        "additionalProperties": contract,
        "propertyNames": {"pattern": "^[A-Za-z0-9_][A-Za-z0-9_.:-]*$"},
    }
    schema = _titled(
        "pytest-evarness contract library",
        {
            "type": "object",
            "properties": {"contracts": library, "invariants": library},
            "oneOf": [{"required": ["contracts"]}, {"required": ["invariants"]}],
        },
    )
    schema["$defs"] = _assertion(registry)
    return schema


def _corpus(registry: Registry) -> dict[str, Any]:
    from pytest_evarness.contract.corpus import KINDS
    from pytest_evarness.core.outcome import Outcome

    type_ = {"anyOf": [{"enum": registry.event_types.names()}, {**_TEXT, "pattern": "^custom\\."}]}
    event = {
        "type": "object",
        "properties": {"type": type_, "payload": {"type": "object"}},
        "required": ["type"],
        "description": "Keys other than type, node and payload go into the payload.",
    }
    events = {"type": "array", "items": event}
    notes = {"type": "object", "additionalProperties": {**_TEXT, "minLength": 1}}
    entry = _object(
        {
            "events": events,
            "open": {"type": "boolean"},
            "uncovered": {"type": "array", "items": type_},
            "expect": {"enum": [one.word for one in Outcome]},
            "survives": notes,
            "unnoticed": notes,
        },
        "events",
    )
    named = {
        "type": "object",
        "additionalProperties": {"anyOf": [events, entry]},
        "minProperties": 1,
    }
    return _object(dict.fromkeys(KINDS, named))


def _assertion(registry: Registry) -> dict[str, Any]:
    types = {
        "anyOf": [
            {"enum": registry.event_types.names()},
            {**_TEXT, "pattern": "^custom\\."},
        ],
        "description": "Types that only a recorded trace declares are taken as well.",
    }
    pattern_keys = {
        "type": {"anyOf": [types, _TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]},
        "node_id": {},
        "where": {"type": "object"},
        "satisfies": {"enum": registry.predicates.names()} if len(registry.predicates) else _TEXT,
        "bind": {"type": "object", "additionalProperties": _TEXT},
    }
    pattern = {"$ref": "#/$defs/pattern"}
    any_of = _object({"any": {"type": "array", "items": pattern, "minItems": 1}}, "any")
    scopes = {
        "after": pattern,
        "until": pattern,
        "between": {"type": "array", "items": pattern, "minItems": 2, "maxItems": 2},
    }
    first = {"anyOf": [pattern, {"type": "array", "items": pattern, "minItems": 1}]}
    paths = {"type": "array", "items": _TEXT}
    within = _object({"events": {"type": "integer", "minimum": 1}}, "events")
    primitives = {
        "never": {"type": "object", "properties": {**pattern_keys, "any": {}, **scopes}},
        "eventually": pattern,
        "every": _object(
            {"match": pattern, "where": {"type": "object"}, "satisfies": _TEXT, "node_id": {}},
            "match",
        ),
        "precedes": _object(
            {"first": first, "second": pattern, "fresh": {"type": "boolean"}}, "first", "second"
        ),
        "leads_to": _object({"when": pattern, "then": pattern, "within": within}, "when", "then"),
        "at_most": _object(
            {"n": {"type": "integer", "minimum": 0}, "of": pattern, "per": paths}, "n", "of"
        ),
    }
    return {
        "pattern": {"anyOf": [_object(pattern_keys), any_of]},
        "assert": {
            "type": "object",
            "properties": primitives,
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        },
    }


# -- what runs emit ----------------------------------------------------------------------------


def _events(registry: Registry) -> dict[str, Any]:
    return {"$schema": _DIALECT, "title": "pytest-evarness event", **_event(registry)}


def _event(registry: Registry) -> dict[str, Any]:
    variants: list[dict[str, Any]] = []
    for name, kind in registry.event_types.items():
        variants.append(
            {
                "title": name,
                "description": f"{kind.doc} ({kind.source})",
                "properties": {"type": {"const": name}, "payload": dict(kind.schema)},
            }
        )
    variants.append(
        {
            "title": "custom.NAME",
            "description": "What a user's own step emits.",
            "properties": {"type": {**_TEXT, "pattern": "^custom\\."}},
        }
    )
    return {
        **_object(
            {
                "seq": {"type": "integer", "minimum": 0},
                "type": _TEXT,
                "node_id": {"type": ["string", "null"]},
                "payload": {"type": "object"},
            },
            "seq",
            "type",
            "node_id",
            "payload",
        ),
        "oneOf": variants,
    }


def _nodes(registry: Registry) -> dict[str, Any]:
    return _titled(
        "the configuration of each pytest-evarness node type",
        {
            "type": "object",
            "properties": {
                name: {**_plain(kind.config_schema), "description": kind.doc}
                for name, kind in registry.node_types.items()
            },
            "additionalProperties": False,
        },
    )


def _trace(registry: Registry) -> dict[str, Any]:
    del registry  # a trace may come from anywhere, so its types are not ours to name
    gap = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0},
        "minItems": 2,
        "maxItems": 2,
    }
    source = _object(
        {
            "id": _TEXT,
            "types": {"type": "array", "items": _TEXT},
            "gaps": {"type": "array", "items": gap},
        },
        "id",
    )
    header = _object(
        {
            "trace": {"const": 1},
            "run_id": _TEXT,
            "closed": {"type": "boolean"},
            "events": {"type": "integer", "minimum": 0},
            "sources": {"type": "array", "items": source},
            "seal": _TEXT,
            "case": _TEXT,
            "environment": {},
        },
        "trace",
    )
    event = _object(
        {
            "seq": {"type": "integer", "minimum": 0},
            "type": _TEXT,
            "node_id": {"type": ["string", "null"]},
            "payload": {"type": "object"},
        },
        "seq",
        "type",
        "payload",
    )
    return _titled(
        "one line of a pytest-evarness trace file",
        {"oneOf": [{"title": "header", **header}, {"title": "event", **event}]},
    )


def _bundle(registry: Registry) -> dict[str, Any]:
    del registry  # a bundle is the same whoever reads it
    from pytest_evarness.bundle.schema import STATEMENT, json_schema

    return _titled("the statement that a pytest-evarness bundle encloses", json_schema(STATEMENT))


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False}


def _titled(title: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": _DIALECT, "title": title, **schema}


SCHEMAS: dict[str, tuple[str, Callable[[Registry], dict[str, Any]]]] = {
    "scenario": ("a scenario file", _scenario),
    "contracts": ("a library of contracts", _contracts),
    "graph": ("a harness", _graph),
    "nodes": ("the configuration of every node type, by its name", _nodes),
    "events": ("every event that a run emits, with its payload", _events),
    "trace": ("one line of a trace file", _trace),
    "bundle": ("the statement that a bundle encloses, its payload decoded", _bundle),
}
"""Name to what it is of, and what makes it."""

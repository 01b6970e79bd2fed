"""The JSON Schema of a scenario file, for editors; made from the models that load it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from pytest_evarness.scenario.check import check_schemas
from pytest_evarness.scenario.environment import Environment
from pytest_evarness.scenario.identifier import MAX_ID
from pytest_evarness.scenario.matrix import SHORT_NAMES
from pytest_evarness.scenario.shape import CASE_KEYS, SECTIONS

if TYPE_CHECKING:
    from pytest_evarness.core.registry import Registry

__all__ = ["scenario_schema"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def scenario_schema(registry: Registry) -> dict[str, Any]:
    """The schema of a scenario file, with the environment keys of the registry's domains."""
    environment = _environment(registry)
    properties: dict[str, Any] = {}
    for key, (annotation, meaning) in SECTIONS.items():
        made = _plain(TypeAdapter(annotation).json_schema(by_alias=True))
        made.setdefault("description", meaning)
        properties[key] = made
    _add_checks(properties["invariants"], registry)
    # Where a layer lies under it, a key may be null: it removes what is inherited.
    properties["environment"] = {
        **_relaxed(environment),
        "description": SECTIONS["environment"][1],
    }
    properties["matrix"] = {
        "type": "object",
        "additionalProperties": {"type": "array", "minItems": 1},
        "description": SECTIONS["matrix"][1],
    }
    case = {key: properties[key] for key in CASE_KEYS}
    case.update(
        {
            name: environment["properties"][name]
            for name in SHORT_NAMES
            if name in environment["properties"]
        }
    )
    properties["cases"] = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"minLength": 1, "maxLength": MAX_ID, "pattern": r"^[^\[\]]*$"},
        "additionalProperties": _relaxed(
            {"type": "object", "properties": case, "additionalProperties": False}
        ),
        "description": SECTIONS["cases"][1],
    }
    return {
        "$schema": _DIALECT,
        "title": "pytest-evarness scenario",
        "type": "object",
        "required": ["evarness"],
        "properties": properties,
        "additionalProperties": False,
    }


def _add_checks(invariants: dict[str, Any], registry: Registry) -> None:
    """Put the check types of the registry beside those that every version has."""
    check = invariants["additionalProperties"]["properties"]["check"]
    (word,) = (name for name in ("oneOf", "anyOf") if name in check)
    check[word].extend(_plain(copy.deepcopy(one)) for one in check_schemas(registry))


def _environment(registry: Registry) -> dict[str, Any]:
    keys = Environment(registry).keys
    return {
        "type": "object",
        "properties": {
            name: {**_plain(copy.deepcopy(dict(key.schema))), "description": key.doc}
            for name, key in keys.items()
        },
        "additionalProperties": False,
    }


def _or_null(schema: Any) -> Any:
    return {"anyOf": [schema, {"type": "null"}]}


def _relaxed(schema: Any) -> Any:
    """The schema of a layer: every key may be missing, and null removes it."""
    if not isinstance(schema, dict):
        return schema
    made = {key: value for key, value in schema.items() if key != "required"}
    if isinstance(made.get("properties"), dict):
        made["properties"] = {
            key: _or_null(_relaxed(value)) for key, value in made["properties"].items()
        }
    if isinstance(made.get("additionalProperties"), dict):
        made["additionalProperties"] = _or_null(_relaxed(made["additionalProperties"]))
    for word in ("anyOf", "oneOf"):
        if isinstance(made.get(word), list):
            made[word] = [_relaxed(arm) for arm in made[word]]
    return made


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its references written out, and without the names of classes."""
    definitions = schema.pop("$defs", {})
    made = _written_out(schema, definitions)
    assert isinstance(made, dict), "a model's schema is a mapping"
    return made


def _written_out(
    value: Any, definitions: dict[str, Any], *, names: bool = False, inside: tuple[str, ...] = ()
) -> Any:
    if isinstance(value, list):
        return [_written_out(entry, definitions, inside=inside) for entry in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value and not names:
        name = value["$ref"].rsplit("/", 1)[-1]
        rest = {key: entry for key, entry in value.items() if key != "$ref"}
        if name in inside:
            return rest  # a type inside itself: an editor need not follow it any further
        target = _written_out(definitions[name], definitions, inside=(*inside, name))
        return {**target, **_written_out(rest, definitions, inside=inside)}
    made: dict[str, Any] = {}
    for key, entry in value.items():
        if not names and key in ("title", "default", "discriminator"):
            continue  # class names, and the fillers of keys that were not written
        made[key] = _written_out(entry, definitions, names=key == "properties", inside=inside)
    return made

"""JSON Schemas that users write: checked when they are read, applied without any network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pytest_evarness.domains.agents.text import compact
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import nearest, quoted, shown

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

__all__ = ["schema_faults", "validator_of", "violation"]

_Path = tuple[str | int, ...]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Keywords of 2020-12 by what they hold. A keyword that is not among them is ignored by every
# validator, and the rule that it was meant to be would never refuse anything.
_SCHEMAS = frozenset(
    (
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
_LISTS_OF_SCHEMAS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAPPINGS_OF_SCHEMAS = frozenset(
    ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
)
_REFERENCES = frozenset(("$dynamicRef", "$ref"))
_ANCHORS = frozenset(("$anchor", "$dynamicAnchor"))
_PLAIN = frozenset(
    (
        "$comment",
        "$id",
        "$schema",
        "const",
        "contentEncoding",
        "contentMediaType",
        "default",
        "dependentRequired",
        "deprecated",
        "description",
        "enum",
        "examples",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "readOnly",
        "required",
        "title",
        "type",
        "uniqueItems",
        "writeOnly",
    )
)
_KEYWORDS = _SCHEMAS | _LISTS_OF_SCHEMAS | _MAPPINGS_OF_SCHEMAS | _REFERENCES | _ANCHORS | _PLAIN
_FORMER = {"additionalItems": "items", "dependencies": "dependentRequired"}
_NEEDS = {"else": "if", "maxContains": "contains", "minContains": "contains", "then": "if"}
"""Keywords that say nothing without another one."""

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_MEANT = {
    "bool": "boolean",
    "dict": "object",
    "double": "number",
    "float": "number",
    "int": "integer",
    "list": "array",
    "map": "object",
    "mapping": "object",
    "none": "null",
    "str": "string",
    "text": "string",
}
"""What people write who think of another language."""

_MAX_EXPECTED = 200


def schema_faults(schema: object) -> list[Fault]:
    """Why ``schema`` is no JSON Schema that can be used here; paths from its root."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, Mapping):
        rule = "a JSON Schema, which is a mapping"
        return [Fault((), "must be a JSON Schema", got=shown(schema), rule=rule)]
    levels = dict(_levels(schema, ()))
    faults = [fault for path, level in levels.items() for fault in _keyword_faults(path, level)]
    if faults:
        return faults
    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as error:
        path = tuple(error.absolute_path)
        return [
            Fault(
                path,
                f"is no JSON Schema of 2020-12 (it breaks the rule '{error.validator}')",
                got=shown(error.instance),
            )
        ]
    return [
        fault
        for path, level in levels.items()
        for key in sorted(_REFERENCES & level.keys())
        for fault in _reference_faults((*path, key), level[key], levels)
    ]


def _levels(schema: object, path: _Path) -> Iterator[tuple[_Path, Mapping[str, Any]]]:
    """Every schema in ``schema`` with its path; names and values in it are no schemas."""
    if not isinstance(schema, Mapping):
        return  # true, false, or what the dialect's own schema refuses
    yield path, schema
    for key, inner in schema.items():
        if key in _SCHEMAS:
            yield from _levels(inner, (*path, key))
        elif key in _LISTS_OF_SCHEMAS and isinstance(inner, list):
            for index, entry in enumerate(inner):
                yield from _levels(entry, (*path, key, index))
        elif key in _MAPPINGS_OF_SCHEMAS and isinstance(inner, Mapping):
            for name, entry in inner.items():
                yield from _levels(entry, (*path, key, name))


def _type_fault(at: _Path, value: object) -> Fault | None:
    """A word that is no type of JSON, which the dialect's own schema only calls ``anyOf``."""
    words = value if isinstance(value, list) else [value]
    odd = next((word for word in words if isinstance(word, str) and word not in _TYPES), None)
    if odd is None:
        return None
    near = _MEANT.get(odd.lower()) or nearest(odd.lower(), _TYPES)
    return Fault(
        at,
        "is no type of JSON",
        got=quoted(odd),
        rule=", ".join(_TYPES),
        fix=f"write '{near}'" if near else None,
    )


def _keyword_faults(path: _Path, level: Mapping[str, Any]) -> Iterator[Fault]:
    wrong_type = _type_fault((*path, "type"), level.get("type"))
    if wrong_type is not None:
        yield wrong_type
    for key, value in level.items():
        at = (*path, key)
        if key not in _KEYWORDS:
            yield _unknown(at, key, value)
        elif key in _NEEDS and _NEEDS[key] not in level:
            problem = f"{quoted(key)} says nothing without {quoted(_NEEDS[key])}"
            yield Fault(at, problem, at_key=True)
        elif key == "$schema" and value not in (_DIALECT, f"{_DIALECT}#"):
            yield Fault(at, "must be the dialect that is read", got=shown(value), rule=_DIALECT)
        elif key == "$id" and path:
            problem = "a schema inside another one has no '$id' here: references would leave it"
            yield Fault(at, problem, at_key=True)


def _unknown(at: _Path, key: str, value: object) -> Fault:
    near = _FORMER.get(key) or nearest(key, _KEYWORDS) or nearest(key.strip().lower(), _KEYWORDS)
    fix = f"write '{near}'" if near else None
    if near is None and isinstance(value, Mapping):
        fix = f"a property stands under 'properties': write 'properties: {{{key}: ...}}'"
    return Fault(
        at,
        "unknown keyword",
        got=quoted(key),
        rule="a keyword of JSON Schema 2020-12",
        fix=fix,
        at_key=True,
        code="unknown_key",
    )


def _reference_faults(
    at: _Path, reference: Any, levels: Mapping[_Path, Mapping[str, Any]]
) -> Iterator[Fault]:
    # A reference elsewhere would be fetched, and no run reads the network.
    if not isinstance(reference, str) or not reference.startswith("#"):
        got = shown(reference)
        yield Fault(at, "a reference must stay inside the schema", got=got, rule="'#/$defs/NAME'")
        return
    pointer = unquote(reference[1:])
    if pointer.startswith("/"):
        steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]
        known = {tuple(str(part) for part in path) for path in levels}
        is_there = tuple(steps) in known
    else:
        is_there = not pointer or any(
            level.get(key) == pointer for level in levels.values() for key in _ANCHORS
        )
    if not is_there:
        yield Fault(at, "the reference leads to no schema", got=shown(reference))


def validator_of(schema: Mapping[str, Any]) -> Validator:
    """A validator that resolves nothing outside ``schema``."""
    # By text: every run has its own copy of a schema, and making a validator is dear.
    return _validator(json.dumps(schema, sort_keys=True))


@lru_cache(maxsize=256)
def _validator(text: str) -> Validator:
    from jsonschema import Draft202012Validator
    from referencing import Registry

    return Draft202012Validator(json.loads(text), registry=Registry())


def violation(validator: Validator, value: Any) -> str | None:
    """The first rule that ``value`` breaks, by path and keyword, or None.

    The sentence is ours: the library's changes between its versions, and it enters events.
    """
    found = sorted(
        (_place(error.absolute_path), str(error.validator), _expected(error))
        for error in validator.iter_errors(value)
    )
    if not found:
        return None
    place, keyword, expected = found[0]
    return f"{place or 'the value'} breaks '{keyword}' ({expected[:_MAX_EXPECTED]})"


def _expected(error: Any) -> str:
    """What the rule asks; for keys, those that are missing or too many."""
    keyword, rule, met = str(error.validator), error.validator_value, error.instance
    if keyword == "required" and isinstance(met, Mapping):
        return "missing: " + ", ".join(sorted(str(key) for key in rule if key not in met))
    # With patterns of names the library decides, and which name it was is not worth a second look.
    if keyword == "additionalProperties" and rule is False and isinstance(met, Mapping):
        schema: Mapping[str, Any] = error.schema
        if "patternProperties" not in schema:
            known = schema.get("properties", {})
            odd = sorted(str(key) for key in met if key not in known)
            return f"not known: {', '.join(odd)}; known: {', '.join(sorted(known)) or 'none'}"
    return compact(rule)


def _place(path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(
        "."
    )

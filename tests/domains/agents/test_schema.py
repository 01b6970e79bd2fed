"""A rule of a JSON Schema that would be ignored is refused: it would never refuse anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from pytest_evarness.domains.agents import schema as module
from pytest_evarness.domains.agents.schema import schema_faults, validator_of, violation

RICH: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:example:pay",
    "title": "Pay",
    "type": "object",
    "properties": {
        "to": {"type": "string", "minLength": 1, "pattern": "^[a-z]+$", "format": "email"},
        "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000},
        "lines": {
            "type": "array",
            "prefixItems": [{"const": {"typo": 1}}],
            "items": {"$ref": "#/$defs/line"},
            "contains": {"enum": [{"tpye": 1}]},
            "minContains": 0,
            "uniqueItems": True,
        },
    },
    "patternProperties": {"^x-": {"type": "string"}},
    "additionalProperties": {"not": {"type": "null"}},
    "required": ["to"],
    "dependentRequired": {"amount": ["to"]},
    "dependentSchemas": {"amount": {"minProperties": 1}},
    "propertyNames": {"maxLength": 40},
    "allOf": [{"anyOf": [{"oneOf": [{"default": {"requird": []}}]}]}],
    "if": {"required": ["amount"]},
    "then": {"maxProperties": 9},
    "else": {"unevaluatedProperties": False},
    "$defs": {"line": {"$anchor": "a-line", "examples": [{"propertes": 1}]}},
}


def keywords(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every keyword of a schema."""
    found: list[tuple[str | int, ...]] = []
    if isinstance(value, list):
        for index, inner in enumerate(value):
            found += keywords(inner, (*path, index))
    elif isinstance(value, dict):
        for key, inner in value.items():
            found.append((*path, key))
            if key in ("const", "enum", "default", "examples", "dependentRequired"):
                continue
            if key in ("properties", "patternProperties", "$defs", "dependentSchemas"):
                for name, entry in inner.items():
                    found += keywords(entry, (*path, key, name))
            else:
                found += keywords(inner, (*path, key))
    return found


def renamed(value: Any, path: tuple[str | int, ...], name: str) -> Any:
    """``value`` with the key at ``path`` called ``name``."""
    head, *rest = path
    if isinstance(value, list):
        return [renamed(x, tuple(rest), name) if i == head else x for i, x in enumerate(value)]
    if not rest:
        return {name if key == head else key: inner for key, inner in value.items()}
    return {
        key: renamed(inner, tuple(rest), name) if key == head else inner
        for key, inner in value.items()
    }


def test_a_rich_schema_is_accepted_as_it_is() -> None:
    assert schema_faults(RICH) == []
    Draft202012Validator.check_schema(RICH)
    assert len(keywords(RICH)) > 40


@pytest.mark.parametrize("path", keywords(RICH), ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize("slip", ["x", "case", "space"])
def test_every_misspelt_keyword_is_refused_with_its_place(
    path: tuple[str | int, ...], slip: str
) -> None:
    key = str(path[-1])
    wrong = {"x": f"{key}x", "case": key.upper(), "space": f"{key} "}[slip]
    schema = renamed(RICH, path, wrong)
    (fault,) = [one for one in schema_faults(schema) if one.path == (*path[:-1], wrong)]
    assert fault.problem == "unknown keyword"
    assert fault.at_key
    if slip != "case" or key.islower():
        assert fault.fix == f"write '{key}'"


def test_the_validator_alone_would_have_ignored_it() -> None:
    # The twin: what the refusal prevents.
    wrong = {"type": "object", "requird": ["to"], "propertes": {"amount": {"maximum": 1000}}}
    Draft202012Validator.check_schema(wrong)
    assert violation(validator_of(wrong), {"amount": 2500}) is None
    right = {"type": "object", "required": ["to"], "properties": {"amount": {"maximum": 1000}}}
    assert violation(validator_of(right), {"amount": 2500}) is not None


def test_the_keywords_are_those_of_the_dialect() -> None:
    known: set[str] = set()
    vocabularies = "core applicator unevaluated validation meta-data format-annotation content"
    for name in vocabularies.split():
        uri = f"https://json-schema.org/draft/2020-12/meta/{name}"
        known |= REGISTRY.contents(uri)["properties"].keys()
    # A vocabulary is declared by a dialect, not by a schema; "definitions" is the older "$defs".
    assert known - {"$vocabulary"} | {"definitions"} == module._KEYWORDS


@pytest.mark.parametrize(
    ("schema", "path", "text"),
    [
        ([], (), "must be a JSON Schema (got []; a JSON Schema, which is a mapping)"),
        (None, (), "must be a JSON Schema (got null; a JSON Schema, which is a mapping)"),
        ({"properties": {"a": None}}, ("properties", "a"), "is no JSON Schema of 2020-12 (it br"),
        ({"properties": None}, ("properties",), "is no JSON Schema of 2020-12 (it breaks the"),
        ({"items": None}, ("items",), "is no JSON Schema of 2020-12 (it breaks the rule"),
        ({"then": {}}, ("then",), "'then' says nothing without 'if'"),
        ({"minContains": 1}, ("minContains",), "'minContains' says nothing without 'contains'"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, ("$schema",), "must be the diale"),
        ({"items": {"$id": "x"}}, ("items", "$id"), "a schema inside another one has no '$id'"),
        ({"$ref": "a.json"}, ("$ref",), 'a reference must stay inside the schema (got "a.j'),
        ({"$ref": 1}, ("$ref",), "is no JSON Schema of 2020-12 (it breaks the rule 'type')"),
        ({"$ref": "#/$defs/x", "$defs": {"y": {}}}, ("$ref",), "the reference leads to no schema"),
        ({"$ref": "#x", "$defs": {"y": {"$anchor": "y"}}}, ("$ref",), "the reference leads to no"),
        ({"$ref": "#/title", "title": "x"}, ("$ref",), "the reference leads to no schema"),
    ],
)
def test_what_would_hold_nothing_or_nobody_is_refused(
    schema: Any, path: tuple[str, ...], text: str
) -> None:
    (fault,) = schema_faults(schema)
    assert fault.path == path
    assert fault.text.startswith(text)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {"typ": {}, "$ref": {"type": "string"}, "requird": True}},
        {"const": {"$ref": "https://x.example"}, "enum": [{"typ": 1}]},
        {"$ref": "#"},
        {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {}}},
        {"$ref": "#y", "$defs": {"y": {"$anchor": "y"}}},
        {"items": {"$ref": "#/allOf/0"}, "allOf": [{}]},
    ],
)
def test_names_and_values_are_the_users_own(schema: Any) -> None:
    assert schema_faults(schema) == []


@pytest.mark.parametrize(
    ("schema", "fix"),
    [
        ({"customer": {"type": "string"}}, "a property stands under 'properties': write 'properti"),
        ({"dependencies": {}}, "write 'dependentRequired'"),
        ({"additionalItems": False}, "write 'items'"),
        ({"TYPE": "object"}, "write 'type'"),
        ({"nullable": True}, None),
    ],
)
def test_the_advice_fits_the_slip(schema: Any, fix: str | None) -> None:
    (fault,) = schema_faults(schema)
    assert (fault.fix or "").startswith(fix or "")
    assert (fault.fix is None) == (fix is None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*sorted(module._KEYWORDS), "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_any_value_is_a_usable_schema_or_has_a_fault(schema: Any) -> None:
    if not schema_faults(schema):
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("word", "meant"), [("int", "integer"), ("Str", "string"), ("objct", "object"), ("zzz", None)]
)
def test_a_word_that_is_no_type_is_told_with_the_one_that_was_meant(
    word: str, meant: str | None
) -> None:
    for written in (word, ["null", word]):
        (fault,) = schema_faults({"properties": {"a": {"type": written}}})
        assert fault.path == ("properties", "a", "type")
        assert fault.problem == "is no type of JSON"
        assert fault.fix == (f"write '{meant}'" if meant else None)
    assert schema_faults({"properties": {"a": {"type": ["null", "integer"]}}}) == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            {"plam": "x"},
            "the value breaks 'additionalProperties' (not known: plam; known: n, plan)",
        ),
        ({"n": 1}, "the value breaks 'required' (missing: plan)"),
        ({"plan": "x", "n": 1}, None),
    ],
)
def test_keys_that_are_missing_or_too_many_are_named(value: object, said: str | None) -> None:
    schema = {
        "type": "object",
        "properties": {"plan": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["plan"],
        "additionalProperties": False,
    }
    assert violation(validator_of(schema), value) == said

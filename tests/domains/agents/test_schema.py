"""A rule of a JSON Schema that would be ignored is refused: it would never refuse anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from pytest_evarness.core import matcher
from pytest_evarness.core.interfaces import UndecidedError
from pytest_evarness.domains.agents import schema as module
from pytest_evarness.domains.agents.formats import FORMATS
from pytest_evarness.domains.agents.schema import schema_faults, validator_of, violation
from tests.domains.agents import harness as h
from tests.effort import calls_of

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
        {"items": {"$ref": "#"}},
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


VALUES: tuple[Any, ...] = (None, True, 0, 1.5, -3, "", "ab", [], [1, 1.0], {"a": {"b": 1}, "x-": 2})


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_any_value_is_a_usable_schema_or_has_a_fault(schema: Any) -> None:
    if not schema_faults(schema):
        for value in VALUES:
            violation(validator_of(schema), value)


# Schemas that mean something, references in every direction among them.
NAMES = st.sampled_from(["a", "b", "x-"])
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/not", "#/items"])
NUMBERS = st.sampled_from([1, 2, 0.5, 3])


def mappings(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(NAMES, inner, max_size=2)


LEAVES = st.one_of(
    st.fixed_dictionaries({"$ref": REFERENCES}),
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "integer", "number", "string"]),
            "minimum": NUMBERS,
            "multipleOf": NUMBERS,
            "uniqueItems": st.booleans(),
            "pattern": st.sampled_from(["a", "^b", "^x-"]),
            "required": st.lists(NAMES, unique=True, max_size=1),
        },
    ),
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "$ref": REFERENCES,
            "properties": mappings(inner),
            "patternProperties": st.dictionaries(
                st.sampled_from(["^x-", "a|b", "[ab]"]), inner, max_size=2
            ),
            "additionalProperties": st.booleans() | inner,
            "unevaluatedProperties": st.booleans() | inner,
            "dependentSchemas": mappings(inner),
            "items": inner,
            "not": inner,
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "if": inner,
        },
    ),
    max_leaves=8,
)
WHOLE = st.builds(lambda schema, defs: {**schema, "$defs": defs}, SCHEMAS, mappings(SCHEMAS))
MET = st.recursive(
    st.sampled_from([1, 1.0, 2, 0.5, -1, "a", "b", "x-a", True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(WHOLE, MET)
def test_the_keywords_of_ours_say_what_the_library_says(schema: Any, value: Any) -> None:
    # Their bounds are what differs; and that a schema without a fault can be asked at all.
    if not schema_faults(schema):
        expected = Draft202012Validator(schema).is_valid(value)
        assert (violation(validator_of(schema), value) is None) is expected


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"$ref": "#"}, ("$ref",)),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#"}}}, ("$ref",)),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}}, ("$defs", "a", "$ref")),
        ({"$defs": {"a": {"$dynamicRef": "#a", "$dynamicAnchor": "a"}}}, ("$defs", "a")),
        ({"$defs": {"a": {"$ref": "#x", "$anchor": "x"}}}, ("$defs", "a", "$ref")),
        ({"allOf": [{"anyOf": [{"$ref": "#"}]}]}, ("allOf", 0, "anyOf", 0, "$ref")),
        ({"not": {"$ref": "#"}}, ("not", "$ref")),
        ({"if": {"$ref": "#"}}, ("if", "$ref")),
        ({"if": {}, "else": {"oneOf": [{"$ref": "#"}]}}, ("else", "oneOf", 0, "$ref")),
        ({"dependentSchemas": {"a": {"$ref": "#"}}}, ("dependentSchemas", "a", "$ref")),
    ],
)
def test_a_circle_that_never_steps_into_the_value_is_refused(
    schema: Any, path: tuple[str | int, ...]
) -> None:
    (fault,) = schema_faults(schema)
    assert fault.path[: len(path)] == path
    assert fault.problem == "the reference leads back to itself with no step into the value"


@pytest.mark.parametrize(
    "step",
    ["properties", "patternProperties", "items", "prefixItems", "contains", "propertyNames"],
)
def test_a_circle_that_steps_into_the_value_ends(step: str) -> None:
    # The twin: such schemas describe trees.
    inner: Any = {"$ref": "#"}
    inner = {"a": inner} if step.endswith("roperties") else inner
    schema = {"type": ["object", "array", "string"], step: [inner] if "fix" in step else inner}
    assert schema_faults(schema) == []
    assert violation(validator_of(schema), {"a": {"a": {}}}) is None
    assert violation(validator_of(schema), {"a": {"a": [[["a"]]]}}) is None


def test_a_library_that_follows_a_circle_never_comes_back() -> None:
    # The twin: what the refusal prevents.
    with pytest.raises(RecursionError):
        Draft202012Validator({"$ref": "#"}).is_valid(1)


SLOW = r"^(?:a|aa)+$"
"""Takes as many steps as there are ways to cut the text."""
LONG = "a" * 60 + "!"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": SLOW}, LONG),
        ({"patternProperties": {SLOW: {}}}, {LONG: 1}),
        ({"patternProperties": {SLOW: {}}, "additionalProperties": False}, {LONG: 1}),
        ({"allOf": [{"patternProperties": {SLOW: {}}}], "unevaluatedProperties": False}, {LONG: 1}),
        ({"anyOf": [{"pattern": SLOW}, {}]}, LONG),
        ({"not": {"pattern": SLOW}}, LONG),
    ],
    ids=["pattern", "keys", "further", "unevaluated", "any", "not"],
)
def test_a_slow_expression_is_stopped_and_decides_nothing(
    schema: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matcher, "REGEX_SECONDS", 0.02)
    assert schema_faults(schema) == []
    with pytest.raises(UndecidedError, match=r"^the schema's pattern .* took longer than 0\.02 s"):
        violation(validator_of(schema), value)


def test_a_run_whose_schema_is_slow_is_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "REGEX_SECONDS", 0.02)
    config = {"format": "json", "schema": {"pattern": SLOW}}
    graph = h.chain(("input", {}), ("output_parser", config), ("output", {}))
    run = h.run(graph, {"user_input": f'"{LONG}"'})
    assert run.status == "unfinished"
    assert "took longer than" in (run.error or "")
    assert h.run(graph, {"user_input": '"aaa"'}).status == "completed"


@pytest.mark.parametrize("key", ["pattern", "patternProperties"])
def test_what_is_no_expression_is_refused_where_it_stands(key: str) -> None:
    schema = {"items": {key: "(" if key == "pattern" else {"(": {}}}}
    (fault,) = schema_faults(schema)
    assert fault.path == ("items", key, *(["("] if key != "pattern" else []))
    assert fault.problem.startswith("is not an expression: ")


def test_a_value_that_is_nested_too_deeply_fits_no_schema() -> None:
    # How deep a value the library can follow differs between Pythons.
    validator = validator_of({"items": {"$ref": "#"}})

    def nested(levels: int) -> Any:
        value: Any = []
        for _ in range(levels - 1):
            value = [value]
        return value

    assert violation(validator, nested(100)) is None
    said = violation(validator, nested(101))
    assert said == "the value is nested too deeply (at most 100 levels)"
    assert violation(validator, nested(100_000)) == said


@pytest.mark.parametrize(
    ("rule", "value", "is_met"),
    [
        (0.01, 19.99, True),
        (0.01, 19.999, False),
        (0.1, 0.3, True),
        (0.01, 1e308, True),
        (3, 9.0, True),
        (3, 10, False),
        (0.5, True, True),
        (1e-7, 1.0000001, True),
    ],
)
def test_a_multiple_is_one_by_its_digits(rule: float, value: Any, is_met: bool) -> None:
    found = violation(validator_of({"multipleOf": rule}), value)
    assert found == (None if is_met else f"the value breaks 'multipleOf' ({rule})")


def test_binary_fractions_would_say_otherwise() -> None:
    # The twin: the price is refused that the shop asks.
    assert not Draft202012Validator({"multipleOf": 0.01}).is_valid(19.99)


@pytest.mark.parametrize(
    ("value", "is_met"),
    [
        ([1, 1.0], False),
        ([1, True], True),
        ([[1], [True]], True),
        ([0.0, -0.0], False),
        ([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], False),
        (["1", 1, None, "null"], True),
        ({"a": 1, "b": 1}, True),
    ],
)
def test_equal_entries_are_found_by_what_json_calls_equal(value: Any, is_met: bool) -> None:
    assert (violation(validator_of({"uniqueItems": True}), value) is None) is is_met
    assert violation(validator_of({"uniqueItems": False}), value) is None


def test_twice_the_entries_are_twice_the_work() -> None:
    validator = validator_of({"uniqueItems": True})

    def work(size: int) -> int:
        return calls_of(lambda: violation(validator, [{"a": number} for number in range(size)]))

    assert work(400) < 3 * work(200)


def test_a_format_that_holds_nobody_is_refused_by_name() -> None:
    schema = {"properties": {"to": {"format": "e-mail"}, "at": {"format": "postcode"}}}
    to, at = schema_faults(schema)
    assert to.path == ("properties", "to", "format")
    assert to.text.startswith("no value is held to this format (got 'e-mail'; known: date, ")
    assert to.fix == "write 'email'"
    assert at.fix == "use 'pattern'"


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_holds_texts_to_it_and_nothing_else(name: str) -> None:
    validator = validator_of({"format": name})
    assert violation(validator, 5) is None
    assert violation(validator, "a b^%") == f"the value breaks 'format' (\"{name}\")"


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

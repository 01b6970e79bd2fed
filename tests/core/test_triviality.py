"""What is said to hold always, or never, does so for every value that a schema admits."""

from __future__ import annotations

from itertools import product
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_evarness.core.matcher import MISSING, Matcher, parse_matcher
from pytest_evarness.core.regular import Part, read_expression, some_text
from pytest_evarness.core.schema import Place
from pytest_evarness.core.triviality import holds_always, triviality

DIGEST: dict[str, Any] = {
    "type": "string",
    "pattern": "^sha256:[0-9a-f]{64}$",
    "minLength": 71,
    "maxLength": 71,
}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}
HEX = "0123456789abcdef"
A_DIGEST = "sha256:" + HEX * 4


def matcher(spec: Any) -> Matcher:
    made, faults = parse_matcher(spec)
    assert made is not None, faults
    return made


# -- soundness, over random schemas, matchers and values ---------------------------------------

LETTERS = "ab1\n"
words = st.text(LETTERS, max_size=4)
numbers = st.one_of(st.integers(-4, 8), st.sampled_from([-0.5, 0.5, 1.5, 3.0]))
scalars = st.one_of(st.none(), st.booleans(), numbers, words)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)
expressions = st.sampled_from(
    [
        "",
        "^",
        "$",
        "^$",
        "a",
        "^a",
        "b$",
        "^a{2}$",
        "^[ab]+$",
        "^[^a]*$",
        "^a|b",
        "(a|b1)?",
        "^(a|b){1,3}$",
        ".",
        "^.*$",
        r"\d",
        r"^\w+$",
        r"^\S+\Z",
        "(?i)A",
        "(?s)^.+$",
        "a$b",
        "b^a",
        "(?=a)",
        r"\bab",
        "a+?b*",
    ]
)


@st.composite
def number_schemas(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": draw(st.sampled_from(["integer", "number"]))}
    for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        if draw(st.booleans()):
            schema[key] = draw(st.integers(-3, 4))
    return schema


@st.composite
def text_schemas(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if draw(st.booleans()):
        schema["minLength"] = draw(st.integers(0, 3))
    if draw(st.booleans()):
        schema["maxLength"] = draw(st.integers(0, 4))
    if draw(st.booleans()):
        schema["pattern"] = draw(expressions.filter(lambda text: r"\Z" not in text))
    return schema


schemas = st.recursive(
    st.one_of(
        number_schemas(),
        text_schemas(),
        st.just({"type": "boolean"}),
        st.just({"type": "null"}),
        st.just({}),
        st.lists(scalars, min_size=1, max_size=3).map(lambda some: {"enum": some}),
        scalars.map(lambda one: {"const": one}),
        st.just({"type": ["string", "null"]}),
    ),
    lambda inner: st.one_of(
        st.builds(
            lambda items, low: {"type": "array", "items": items, "minItems": low},
            inner,
            st.integers(0, 2),
        ),
        st.builds(
            lambda one, needed: {
                "type": "object",
                "properties": {"a": one},
                "required": ["a"] if needed else [],
                "additionalProperties": False,
            },
            inner,
            st.booleans(),
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: {"anyOf": some}),
        st.lists(inner, min_size=1, max_size=2).map(lambda some: {"allOf": some}),
    ),
    max_leaves=4,
)

lengths = st.one_of(
    st.integers(-1, 5),
    st.dictionaries(
        st.sampled_from(["gt", "gte", "lt", "lte", "not", "equals"]),
        st.integers(-1, 5),
        min_size=1,
        max_size=2,
    ),
)


def conditions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "equals": values,
            "not": scalars,
            "in": st.lists(values, min_size=1, max_size=3),
            "gt": numbers,
            "gte": numbers,
            "lt": numbers,
            "lte": numbers,
            "contains": scalars,
            "not_contains": scalars,
            "pattern": expressions,
            "length": lengths,
            "exists": st.booleans(),
            "all": inner,
            "any": inner,
            "none": inner,
        },
    ).filter(lambda spec: 0 < len(spec) <= 3)


matchers = st.recursive(scalars, conditions, max_leaves=3)
operators = conditions(scalars)


TEXTS = ["".join(some) for size in range(4) for some in product("ab1\n", repeat=size)] + [
    "abab",
    "aaaa",
    "b1b1",
    "é",
    "aé",
    "A",
    "Ab",
    "aaaaa",
]
NUMBERS = [-4, -3, -1, -0.5, 0, 0.5, 1, 1.0, 1.5, 2, 3, 4, 8]
SHAPED: list[Any] = [
    *([], [0], [-1], ["a"], [None], [True], [0, 1], ["a", "b"], [[]], [{"a": 1}], [1, "a", None]),
    *({}, {"a": 0}, {"a": "a"}, {"b": 1}, {"a": None}, {"a": []}, {"a": {"a": 1}, "b": "1"}),
]
POOL: list[Any] = [None, True, False, *NUMBERS, *TEXTS[:24], *TEXTS[-8:], *SHAPED]


def answers(schema: Any, spec: Any, pool: list[Any], *, may_miss: bool = False) -> None:
    """The verdict, if there is one, against the matcher itself, over values of the schema."""
    made = matcher(spec)
    said = triviality(made, schema, may_miss=may_miss)
    if said is None:
        return
    is_valid = jsonschema.Draft202012Validator(schema).is_valid
    test = made.compile()
    for value in pool:
        if value is MISSING or is_valid(value):
            assert (test(value) is True) is (said == "always"), (spec, schema, value)


@given(schemas, st.one_of(operators, matchers), st.lists(values, max_size=5))
@settings(max_examples=600, deadline=None)
def test_random_values_agree(schema: Any, spec: Any, more: list[Any]) -> None:
    answers(schema, spec, [*POOL, *more])
    answers(schema, spec, [*POOL, *more, MISSING], may_miss=True)


def test_a_wrong_verdict_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for said in ("always", "never"):
        monkeypatch.setitem(globals(), "triviality", lambda *_, said=said, **__: said)
        with pytest.raises(AssertionError):
            answers(TEXT, {"contains": "a"}, POOL)


text_operators = st.fixed_dictionaries(
    {},
    optional={
        "contains": words,
        "not_contains": words,
        "pattern": expressions,
        "length": lengths,
        "not": words,
        "in": st.lists(words, min_size=1, max_size=2),
    },
).filter(bool)


@given(text_schemas(), text_operators)
@settings(max_examples=600, deadline=None)
def test_random_texts_agree(schema: Any, spec: Any) -> None:
    answers(schema, spec, TEXTS)


number_operators = st.dictionaries(
    st.sampled_from(["gt", "gte", "lt", "lte", "not"]), numbers, min_size=1, max_size=3
)


@given(number_schemas(), number_operators)
@settings(max_examples=600, deadline=None)
def test_random_numbers_agree(schema: Any, spec: Any) -> None:
    answers(schema, spec, NUMBERS)


pieces = st.text("sha256:zA" + HEX, max_size=5)


@given(
    st.one_of(
        pieces.map(lambda text: {"contains": text}),
        pieces.map(lambda text: {"not_contains": text}),
        pieces.map(lambda text: {"pattern": f"^{text}"}),
        pieces.map(lambda text: {"pattern": f"{text}$"}),
        st.text("[]^:+*|a0z", max_size=6).map(lambda text: {"pattern": text}),
        st.integers(60, 80).map(lambda size: {"length": size}),
    ),
    st.lists(st.text(HEX, min_size=64, max_size=64), min_size=1, max_size=5),
)
@settings(max_examples=200, deadline=None)
def test_random_digests_agree(spec: Any, tails: list[str]) -> None:
    made, _ = parse_matcher(spec)
    assume(made is not None)
    # The written piece itself is tried at both ends: there it may be met.
    piece = next(iter(spec.values()))
    ends = [end for end in (str(piece).strip("^$"),) if set(end) <= set(HEX)]
    tails += [end + tail[len(end) :] for end in ends for tail in tails if len(end) < 64]
    tails += [tail[len(end) :] + end for end in ends for tail in tails if 0 < len(end) < 64]
    answers(DIGEST, spec, [f"sha256:{tail}" for tail in tails if len(tail) == 64])


@given(expressions, st.sampled_from(TEXTS))
@settings(max_examples=500, deadline=None)
def test_an_automaton_takes_what_the_engine_finds(source: str, text: str) -> None:
    automaton = read_expression(source)
    assume(automaton is not None)
    literal = read_expression(f"^{text}$")
    assert automaton is not None
    assert literal is not None
    against = Part(automaton, is_wanted=False, is_generous=False)
    if matcher({"pattern": source}).compile()(text) is True:
        assert some_text([Part(literal), Part(automaton)]) is True
        assert not text.isascii() or some_text([Part(literal), against]) is False
    else:
        assert some_text([Part(literal), against]) is True
        assert not text.isascii() or some_text([Part(literal), Part(automaton)]) is False


# -- what is decided ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "schema", "said"),
    [
        ({"contains": ""}, TEXT, "always"),
        ({"contains": "a"}, TEXT, None),
        ({"contains": ""}, None, None),
        ({"length": {"gte": 0}}, TEXT, "always"),
        ({"length": {"gte": 1}}, TEXT, None),
        ({"length": {"gte": 0}}, {"type": "array"}, "always"),
        ({"length": {"gte": 1}}, {"type": "array", "minItems": 1}, "always"),
        ({"length": {"lt": 0}}, TEXT, "never"),
        ({"length": {"lt": 0}}, None, "never"),
        ({"pattern": ""}, TEXT, "always"),
        ({"pattern": "^"}, TEXT, "always"),
        ({"pattern": "$"}, TEXT, "always"),
        ({"pattern": "a*"}, TEXT, "always"),
        ({"pattern": "^.*$"}, TEXT, None),
        ({"pattern": "^[^x]*$"}, TEXT, None),
        ({"pattern": "(?s)^.*$"}, TEXT, "always"),
        ({"pattern": "a$b"}, TEXT, "never"),
        ({"pattern": "(?=x)"}, TEXT, None),
        ({"gte": 0}, COUNT, "always"),
        ({"gt": -1}, COUNT, "always"),
        ({"gt": 0}, COUNT, None),
        ({"lt": 0}, COUNT, "never"),
        ({"lte": 0}, COUNT, None),
        ({"gte": 0}, {"type": "number"}, None),
        ({"gt": 0, "lt": 1}, COUNT, "never"),
        ({"gt": 0, "lt": 1}, {"type": "number"}, None),
        ({"gt": 5, "lt": 3}, None, "never"),
        ({"gte": 3, "lte": 3, "not": 3}, {"type": "integer"}, "never"),
        ({"equals": 1, "ne": 1}, None, "never"),
        ({"equals": 1, "ne": 2}, None, None),
        ({"length": 3, "equals": "ab"}, None, "never"),
        ({"length": 2, "equals": "ab"}, None, None),
        ({"exists": False, "equals": "x"}, None, "never"),
        ({"exists": False}, None, "never"),
        ({"exists": True}, TEXT, None),
        ({"contains": "ab", "length": 1}, TEXT, "never"),
        ({"contains": "ab", "length": 1}, None, None),
        ({"contains": "ab", "not_contains": "a"}, TEXT, "never"),
        ({"pattern": "^a", "not_contains": "a"}, TEXT, "never"),
        ({"pattern": "^ab$", "length": {"gt": 2}}, TEXT, "never"),
        ({"contains": 3}, TEXT, "never"),
        ({"contains": 3}, {"type": "array"}, None),
        ({"contains": 3}, {"type": "array", "items": TEXT}, "never"),
        ({"not": 3}, TEXT, "always"),
        ({"not": "a"}, TEXT, None),
        ({"not_contains": 3}, {"type": "array", "items": TEXT}, "always"),
        ({"all": {"gte": 0}}, {"type": "array", "items": COUNT}, None),
        ({"all": {"gte": 0}}, {"type": "array", "items": COUNT, "minItems": 1}, "always"),
        ({"any": {"lt": 0}}, {"type": "array", "items": COUNT}, "never"),
        ({"any": {"gt": 2, "lt": 1}}, None, "never"),
        ({"secret": "any"}, COUNT, None),
        ({"in": ["a", "b"]}, {"enum": ["a", "b"]}, "always"),
        ({"in": ["a"]}, {"enum": ["a", "b"]}, None),
        ({"in": ["c"]}, {"enum": ["a", "b"]}, "never"),
        ({"in": [True, False]}, {"type": "boolean"}, "always"),
        ({"length": 64}, DIGEST, "never"),
        ({"length": 71}, DIGEST, "always"),
        ({"contains": "zz"}, DIGEST, "never"),
        ({"contains": "f" * 65}, DIGEST, "never"),
        ({"contains": "f" * 64}, DIGEST, None),
        ({"contains": "sha256:"}, DIGEST, "always"),
        ({"not_contains": "zz"}, DIGEST, "always"),
        ({"pattern": "^md5:"}, DIGEST, "never"),
        ({"pattern": "^sha256:"}, DIGEST, "always"),
        ({"pattern": "^sha256:[a-f]"}, DIGEST, None),
        ({"pattern": r"^\w+$"}, DIGEST, "never"),
        ({"pattern": "(?i)^SHA256"}, DIGEST, "always"),
        ({"pattern": "^sha256:(?!0)"}, DIGEST, None),
        ({"equals": "abc"}, DIGEST, "never"),
        ({"equals": A_DIGEST}, DIGEST, None),
        ({"equals": "«secret:KEY»"}, DIGEST, None),
    ],
)
def test_what_is_decided(spec: Any, schema: Any, said: str | None) -> None:
    assert triviality(matcher(spec), schema) == said


def test_absence_is_a_value_of_its_own() -> None:
    idle, absent = matcher({"contains": ""}), matcher({"exists": False})
    assert triviality(idle, TEXT) == "always"
    assert triviality(idle, TEXT, may_miss=True) is None
    assert triviality(absent, TEXT) == "never"
    assert triviality(absent, TEXT, may_miss=True) is None
    assert triviality(matcher({"not": 3}), TEXT, may_miss=True) == "always"


def test_a_variable_leaves_it_open() -> None:
    made, _ = parse_matcher({"not": "$x", "gte": 0}, variables=True)
    assert made is not None
    assert not holds_always(Place.of(COUNT), made)
    made, _ = parse_matcher({"not": "$x", "lt": 0}, variables=True)
    assert made is not None
    assert triviality(made, COUNT) == "never"


@pytest.mark.parametrize(
    "source",
    ["(?<=a)b", r"\bx", r"(a)\1", "a{e<=1}", "[[:alpha:]]", "(?m)^a", "a++", "a" * 3000, r"\p{L}"],
)
def test_what_is_outside_of_the_subset_is_left_open(source: str) -> None:
    assert read_expression(source) is None
    assert triviality(matcher({"pattern": source}), DIGEST) is None


def test_a_search_that_takes_too_long_is_left_open() -> None:
    """``(a|b)*a(a|b){14}`` needs an automaton of some thousand states to be denied."""
    made = read_expression("^(a|b)*a(a|b){14}$")
    other = read_expression("^(a|b)*b(a|b){14}$")
    assert made is not None
    assert other is not None
    assert some_text([Part(made), Part(other)]) is None
    assert some_text([Part(made)]) is True

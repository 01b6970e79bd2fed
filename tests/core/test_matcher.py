"""Values are compared by JSON type; what cannot be decided is neither yes nor no, and says why."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.core import matcher as module
from pytest_evarness.core.matcher import (
    MISSING,
    Matcher,
    Undecided,
    holds_secret,
    parse_matcher,
    parse_path,
    same,
    value_key,
)
from pytest_evarness.core.outcome import Cause

PAYLOAD = {"user.name": "A", "user": {"name": "B"}, "items": [{"id": 1}, {"id": 2}], "0": "zero"}


def made(spec: Any, *, variables: bool = False) -> Matcher:
    matcher, faults = parse_matcher(spec, variables=variables)
    assert matcher is not None, faults
    return matcher


def held(spec: Any, value: Any, *, redacted: bool = False) -> bool | None:
    return made(spec).test(value, redacted=redacted).held


def faults_of(spec: Any, *, variables: bool = False) -> list[str]:
    matcher, faults = parse_matcher(spec, variables=variables)
    assert (matcher is None) == bool(faults)
    return [f"{'.'.join(map(str, fault.path))}: {fault.text}" for fault in faults]


# -- paths


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("user.name", "B"),
        ('["user.name"]', "A"),
        ("items[1].id", 2),
        ('["0"]', "zero"),
        ("0", "zero"),
        ("items[2].id", MISSING),
        ("items[-1].id", MISSING),
        ("[0]", MISSING),
        ("user.name.first", MISSING),
        ("user.name[0]", MISSING),
        ("items.id", MISSING),
    ],
)
def test_a_path_leads_to_its_value_or_nowhere(path: str, value: Any) -> None:
    assert parse_path(path).get(PAYLOAD) == value


@pytest.mark.parametrize("path", ["", ".a", "a.", "a..b", "a[", "a[x]", 'a["b]', "a[0]b", "a]", 7])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(ValueError, match=r"got "):
        parse_path(path)


def test_a_star_asks_for_one_element_that_satisfies_everything() -> None:
    path = parse_path("items[*].id")
    both = made({"gt": 1, "ne": 2}).compile()
    assert path.test(both, PAYLOAD) is False
    assert path.test(made({"ne": 1}).compile(), PAYLOAD) is True
    assert path.test(both, {"items": []}) is False
    assert path.test(made({"exists": False}).compile(), {}) is False


def test_a_star_over_a_text_is_undecided_not_a_miss() -> None:
    answer = parse_path("to[*]").test(made("evil@x").compile(), {"to": "evil@x"})
    assert isinstance(answer, Undecided)
    assert answer.why == '[*] needs a list, met a text ("evil@x")'


# -- equality


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (0.0, -0.0, True),
        (1, True, False),
        (0, False, False),
        ("1", 1, False),
        (None, False, False),
        ([1, [2.0]], [1.0, [2]], True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ([], {}, False),
        ([1], [1, 1], False),
        (9007199254740993, 9007199254740992.0, False),
    ],
)
def test_equality_is_by_json_type(left: Any, right: Any, equal: bool) -> None:
    assert same(left, right) is equal
    assert (value_key(left) == value_key(right)) is equal


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, -0.0, 0.5, 1e300])
    | st.sampled_from(["", "1", "true", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


@given(JSON, JSON)
def test_two_values_share_a_key_exactly_when_they_are_equal(left: Any, right: Any) -> None:
    assert (value_key(left) == value_key(right)) is same(left, right)


@given(JSON, JSON)
def test_complements_are_exact(spec: Any, value: Any) -> None:
    if isinstance(spec, dict):
        spec = [spec]
    assert held({"equals": spec}, value) is not held({"not": spec}, value)
    contains, lacks = held({"contains": spec}, value), held({"not_contains": spec}, value)
    assert (contains is None and lacks is None) or contains is (not lacks)


# -- operators


@pytest.mark.parametrize(
    ("spec", "value", "why"),
    [
        ({"gte": 1000}, "2500", 'gte 1000 needs a number, met a text ("2500")'),
        ({"gte": 1}, True, "gte 1 needs a number, met a boolean (true)"),
        ({"gt": 1}, None, "gt 1 needs a number, met a null (null)"),
        ({"contains": "2"}, 120, 'contains "2" needs a text or a list, met a integer (120)'),
        ({"contains": 2}, "12", 'contains 2 needs a list to hold a integer, met a text ("12")'),
        ({"pattern": "a"}, ["a"], 'pattern "a" needs a text, met a list (["a"])'),
        ({"length": 2}, 12, "length needs a text, a list or a mapping, met a integer (12)"),
        ({"all": {"gt": 1}}, {"a": 2}, 'all needs a list, met a mapping ({"a": 2})'),
    ],
)
def test_a_clash_of_types_is_undecided_and_names_both(spec: Any, value: Any, why: str) -> None:
    answer = made(spec).test(value)
    assert (answer.held, answer.why, answer.cause) == (None, why, Cause.MALFORMED_EVIDENCE)


def test_in_does_not_mix_types() -> None:
    assert held({"in": [1]}, True) is False
    assert held({"in": [1]}, "1") is False
    assert held({"in": [1]}, 1.0) is True


def test_false_beats_undecided_in_a_conjunction() -> None:
    assert held({"gt": 1, "in": ["a"]}, "b") is False
    assert held({"gt": 1, "in": ["b"]}, "b") is None


def test_any_is_decided_by_one_and_all_by_one_that_is_not() -> None:
    assert held({"any": {"gt": 1}}, ["x", 2]) is True
    assert held({"any": {"gt": 1}}, ["x", 0]) is None
    assert held({"all": {"gt": 1}}, ["x", 0]) is False
    assert held({"all": {"gt": 1}}, ["x", 2]) is None
    assert held({"any": "a"}, []) is False
    assert held({"none": "a"}, []) is True


def test_an_undecided_answer_cannot_be_taken_for_a_truth_value() -> None:
    with pytest.raises(TypeError, match=r"^an undecided answer has no truth value"):
        bool(Undecided("why"))


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, ": must hold at least one operator (got {}"),
        ({"gt": "2"}, 'gt: gt needs a number, got a text (got "2"'),
        ({"gt": True}, "gt: gt needs a number, got a boolean (got true"),
        ({"contians": "x"}, "contians: unknown operator (got 'contians'"),
        ({"to": "x"}, "to: unknown operator (got 'to'"),
        ({"in": []}, "in: must be a list of at least one value (got []"),
        ({"exists": 1}, "exists: must be true or false (got 1)"),
        ({"length": "3"}, 'length: must be a number or number operators (got "3"'),
        ({"length": {"gtt": 3}}, "length.gtt: unknown number operator (got 'gtt'"),
        ({"length": {"gt": "3"}}, 'length.gt: must be a number (got "3")'),
        ({"pattern": "("}, "pattern: is not an expression: missing )"),
        ({"pattern": 3}, "pattern: must be an expression (a text) (got 3)"),
        ({"secret": ""}, "secret: must be the name of a secret, or 'any' (got \"\")"),
        ({"all": {"gt": "x"}}, 'all.gt: gt needs a number, got a text (got "x"'),
        ({"not": {"contains": "x"}}, "not: not compares with the value itself"),
    ],
)
def test_wrong_arguments_and_unknown_operators_are_faults(spec: Any, fault: str) -> None:
    (text,) = faults_of(spec)
    assert text.startswith(fault)


def test_all_faults_come_at_once_with_the_nearest_name() -> None:
    _, faults = parse_matcher({"gt": "1", "contians": 2, "length": []})
    assert [fault.path for fault in faults] == [("gt",), ("contians",), ("length",)]
    assert [fault.fix for fault in faults] == ["write 1 without quotes", "write 'contains'", None]


# -- expressions


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("c$", "abc\n", False),
        ("c$", "abc", True),
        ("(?m)c$", "abc\nd", True),
        ("^b", "a\nb", False),
        ("(?m)^b", "a\nb", True),
        ("a(?m:b$)", "ab\nc", True),
        ("[$]", "a$b", True),
        (r"\$5", "costs $5", True),
        ("[]$]x", "$x", True),
        ("(a$|b)", "a\n", False),
    ],
)
def test_anchors_mean_the_whole_text(pattern: str, text: str, found: bool) -> None:
    assert held({"pattern": pattern}, text) is found


def test_an_expression_that_takes_too_long_is_the_evaluators_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REGEX_SECONDS", 0.05)
    answer = made({"pattern": r"^(a|a)*\1$"}).test("a" * 60 + "!")
    assert answer.held is None
    assert answer.cause is Cause.EVALUATOR_ERROR


@pytest.mark.parametrize(
    "pattern", ["a+", "(a|b)", r"(a)\1", "a{2}", "(?=a)", "a?", "b*", "a" * 999]
)
def test_only_an_expression_that_cannot_backtrack_runs_without_a_clock(pattern: str) -> None:
    assert made({"pattern": pattern}).operations[0].argument.is_linear is False
    assert made({"pattern": "(?i)pass[a+]word"}).operations[0].argument.is_linear is True


def test_no_match_in_the_first_mebibyte_of_a_longer_text_is_undecided() -> None:
    text = "a" * (1 << 20) + "b"
    assert held({"pattern": "b"}, text) is None
    assert held({"pattern": "aa"}, text) is True
    assert held({"pattern": "a$"}, text) is None
    assert held({"pattern": "b"}, "é" * (1 << 19) + "b") is None
    assert held({"pattern": "b"}, "é" * ((1 << 19) - 1) + "b") is True


# -- secrets, variables


def test_a_placeholder_is_found_at_any_depth_and_by_name() -> None:
    value = {"a": ["x", {"b": "Bearer «secret:API»"}]}
    assert holds_secret(value)
    assert holds_secret(value, "API")
    assert not holds_secret(value, "DB")
    assert holds_secret({"«secret:API»": 1})
    assert held({"secret": "API"}, value, redacted=True) is True
    assert held({"secret": "any"}, {"a": "b"}, redacted=True) is False
    assert held({"secret": "any"}, MISSING) is False


@pytest.mark.parametrize(
    "spec", ["x", {"ne": "x"}, {"contains": "x"}, {"exists": True}, {"in": ["x"]}]
)
def test_every_other_operator_admits_both_answers_on_a_redacted_value(spec: Any) -> None:
    for value in ("«secret:API»", ["«secret:API»"], {"k": "«secret:API»"}):
        answer = made(spec).test(value, redacted=True)
        assert (answer.held, answer.cause) == (None, Cause.MISSING_EVIDENCE)
    assert held(spec, "«secret:API»") is not None


def test_a_dollar_is_a_variable_only_where_variables_are() -> None:
    assert held("$x", "$x") is True
    matcher = made({"equals": "$x", "exists": True}, variables=True)
    assert matcher.variables == {"x"}
    assert matcher.bound({"x": 5}).test(5).held is True
    assert made("$$x", variables=True).test("$x").held is True
    assert faults_of("$5", variables=True)[0].startswith(': unknown variable (got "$5"')
    assert faults_of({"equals": ["$x"]}, variables=True)[0].startswith(
        "equals.0: a variable cannot"
    )


def test_a_bound_value_of_the_wrong_type_is_a_clash_when_it_comes() -> None:
    answer = made({"gt": "$x"}, variables=True).bound({"x": "5"}).test(7)
    assert answer.held is None
    assert answer.why.endswith('needs a number to compare with, bound to a text, met a text ("5")')


@given(st.floats(allow_nan=False))
def test_plain_and_written_numbers_compare_alike(number: float) -> None:
    class Written(float):
        written = "as written"

    assert held({"lte": Written(number)}, number) is True
    assert made({"lte": Written(number)}).describe() == "<= as written"
    assert held(Written(number), number) is True or math.isnan(number)


@pytest.mark.parametrize(
    ("spec", "value", "text", "why"),
    [
        ({"contains": "ACC"}, "", 'contains "ACC"', '"" does not contain "ACC"'),
        ({"not_contains": "A"}, "A", 'does not contain "A"', '"A" contains "A"'),
        ({"gt": 10}, 3, "> 10", "3 is not > 10"),
        ({"gte": 10}, 10, ">= 10", "10 is >= 10"),
        ("x", "y", '= "x"', '"y" is not "x"'),
        ({"not": "x"}, "x", '!= "x"', '"x" is "x"'),
        ({"in": [1, 2]}, 3, "in [1, 2]", "3 is not in [1, 2]"),
        ({"pattern": "^a"}, "b", 'matches "^a"', '"b" does not match "^a"'),
        ({"exists": True}, MISSING, "is there", "a missing value is not there"),
        ({"exists": False}, 1, "is not there", "1 is there"),
        ({"length": 2}, "a", "has a length = 2", '"a" has no length = 2'),
        (
            {"all": {"gt": 1}},
            [1],
            "holds for every element: > 1",
            "[1] does not hold for every element: > 1",
        ),
        ({"gt": 1, "lt": 5}, 9, "> 1 and < 5", "9 is not < 5"),
    ],
)
def test_an_answer_reads_as_a_sentence_and_names_only_what_decided(
    spec: Any, value: Any, text: str, why: str
) -> None:
    matcher = made(spec)
    assert matcher.describe() == text
    assert matcher.test(value).why == why

"""A body is read as JSON strictly, and what two readers would take differently decides nothing."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.core.matcher import Undecided
from pytest_evarness.world.http.difference import differences
from pytest_evarness.world.http.view import NotJson, Parsed, read_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, null, true, "é"]}', {"a": [1, 2.5, None, True, "é"]}),
        ("12345678901234567890", 12345678901234567890),
        ("[" * 100 + "]" * 100, None),
        ('["' + "[" * 300 + '"]', ["[" * 300]),
        ('"\\ud800"', "\ud800"),
    ],
)
def test_json_is_read(text: str, value: Any) -> None:
    read = read_json(text)
    assert isinstance(read, Parsed)
    assert value is None or read.value == value


@pytest.mark.parametrize(
    "text",
    ["hello", '{"a": 1} x', "{'a': 1}", "[1,]", "NaN", "[Infinity]", "\ufeff{}", "01", '"\n"'],
)
def test_what_is_no_json_is_shown(text: str) -> None:
    read = read_json(text)
    assert isinstance(read, NotJson)
    assert read.why.startswith("the body is no JSON (")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "b": {"a": 1, "a": 2}}', 'the body can be read in two ways: the key "a" stands'),
        ("1e999", "the body can be read in two ways: the number 1e999 is too large"),
        ("9" * 5000, "the body can be read in two ways: an integer of 5000 digits"),
        ("[" * 101 + "]" * 101, "the body nests deeper than 100 levels"),
        ("[" * 100_000, "the body nests deeper than 100 levels"),
    ],
)
def test_what_readers_disagree_on_is_undecided(text: str, why: str) -> None:
    read = read_json(text)
    assert isinstance(read, Undecided)
    assert read.why.startswith(why)


@pytest.mark.parametrize(
    ("expected", "got", "told"),
    [
        ("40711", 40711, ['x: expected text "40711", got integer 40711']),
        (True, 1, ["x: expected true, got integer 1"]),
        (None, "null", ['x: expected null, got text "null"']),
        (1, 1.5, ["x: expected integer 1, got number 1.5"]),
        ("a b", "a\u00a0b", ['x: expected text "a b", got text "a\\u00a0b"']),
        ("a", "a\u200b", ['x: expected text "a", got text "a\\u200b"']),
        # Printable, and the same to the eye.
        ("paypal", "p\u0430ypal", ["U+0061 against U+0430 at character 2"]),
        ("\u00e9", "e\u0301", ["U+00E9 against U+0065 at character 1"]),
        ("e", "e\u0301", ["the end against U+0301 at character 2"]),
        ({"a": 1}, {"a": 1, "b": []}, ["x.b: expected nothing, got list []"]),
        ({"a": {}}, {}, ["x.a: expected mapping {}, got nothing"]),
        ([1, 2], [2, 1], ["x[0]: expected integer 1, got integer 2", "x[1]: expected integer 2, "]),
        ({"a b": 1}, {"a b": 2}, ['x["a b"]: expected integer 1, got integer 2']),
        ({"a": 1}, [1], ['x: expected mapping {"a": 1}, got list [1]']),
        ("z" * 200 + "a", "z" * 200 + "b", ["first difference at character 201"]),
    ],
)
def test_a_difference_never_looks_like_none(expected: Any, got: Any, told: list[str]) -> None:
    found = differences(expected, got, "x")
    assert len(found) == len(told)
    for sentence, part in zip(found, told, strict=True):
        assert part in sentence


def test_of_many_differences_the_first_are_told_and_the_rest_counted() -> None:
    found = differences(list(range(50)), list(range(1, 51)), "x")
    assert len(found) == 21
    assert found[-1] == "and 30 more"

"""The first matching rule that is left answers, and a script that is over answers nothing."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.core.interfaces import UndecidedError
from pytest_evarness.domains.agents.script import Call, Script


def answers(rules: list[dict[str, Any]], *texts: str, **params: Any) -> list[Any]:
    script = Script("llm", rules)
    found = [script.take(Call(text, "sim:m", params)) for text in texts]
    return [None if answer is None else answer["respond"] for answer in found]


def rule(respond: str, times: Any = None, **match: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"respond": respond}
    if match:
        made["match"] = match
    if times is not None:
        made["times"] = times
    return made


@pytest.mark.parametrize(
    ("match", "text", "held"),
    [
        ({"contains": "Q3"}, "the q3 report", True),
        ({"contains": "q4"}, "the q3 report", False),
        ({"query_contains": "q3"}, "the Q3 report", True),
        ({"equals": "the report"}, "The Report", True),
        ({"equals": "report"}, "The Report", False),
        ({"pattern": r"q\d\b"}, "the Q3 report", True),
        ({"pattern": r"^q\d"}, "the Q3 report", False),
        ({"turn": 1}, "x", True),
        ({"turn": 2}, "x", False),
        ({"provider": "sim:m"}, "x", True),
        ({"provider": "sim:n"}, "x", False),
        ({"params": {"tier": "pro"}}, "x", True),
        ({"params": {"tier": "free"}}, "x", False),
        ({"params": {"other": "pro"}}, "x", False),
        ({"params": {"n": 1.0}}, "x", True),
        ({"params": {"n": True}}, "x", False),
        ({"params": {"list": [1, {"a": None}]}}, "x", True),
        ({"params": {"list": [1, {"a": False}]}}, "x", False),
        ({"contains": "q3", "turn": 2}, "q3", False),
        ({}, "anything", True),
    ],
)
def test_what_a_rule_matches(match: dict[str, Any], text: str, held: bool) -> None:
    params = {"tier": "pro", "n": 1, "list": [1, {"a": None}]}
    assert answers([rule("a", **match)], text, **params) == (["a"] if held else [None])


def test_a_plain_rule_repeats() -> None:
    assert answers([rule("a", contains="x")], "x", "x", "x") == ["a"] * 3


def test_rules_with_equal_match_are_used_once_each() -> None:
    rules = [rule("a", contains="x"), rule("b", contains="x")]
    assert answers(rules, "x", "x", "x") == ["a", "b", None]
    assert answers([rule("a"), rule("b", 2)], "x", "x", "x", "x") == ["a", "b", "b", None]
    # The twin: a different match makes two plain rules of them, and the first repeats.
    assert answers([rule("a", contains="x"), rule("b", contains="X")], "x", "x") == ["a", "a"]


def test_times_bounds_a_rule_and_any_lifts_the_bound() -> None:
    assert answers([rule("a", 1)], "x", "x") == ["a", None]
    assert answers([rule("a"), rule("b", "any")], "x", "x", "x") == ["a", "b", "b"]


def test_a_catch_all_takes_over_from_a_used_up_rule() -> None:
    assert answers([rule("a", 1, contains="x"), rule("b")], "x", "x", "y") == ["a", "b", "b"]


def test_a_turn_counts_every_call_of_the_script() -> None:
    rules = [rule("second", turn=2), rule("other")]
    assert answers(rules, "x", "x", "x") == ["other", "second", "other"]


def test_what_is_left_is_listed() -> None:
    script = Script("email.send", [rule("a", 3), rule("b", contains="y"), rule("c", contains="x")])
    script.take(Call("x", "sim:m", {}))
    assert script.scripted == 5
    assert script.leftovers() == [
        "email.send[0]: 2 responses not used",
        "email.send[1]: 1 response not used",
        "email.send[2]: 1 response not used",
    ]


def test_a_pattern_that_takes_too_long_is_neither_a_match_nor_none() -> None:
    script = Script("llm", [rule("a", pattern=r"(?:a|aa)+$")])
    with pytest.raises(UndecidedError, match=r"^llm\[0\]\.match\.pattern took longer than 1 s"):
        script.take(Call("a" * 60 + "b", "sim:m", {}))


def test_rules_that_do_not_match_are_told_apart_from_a_script_that_is_over() -> None:
    script = Script("email.send", [rule("a", query_contains="nothing")])
    assert script.take(Call("q3", "sim:m", {})) is None
    assert script.misfit() == (
        "no rule of email.send matches call 1; 1 rule did not match: query_contains 'nothing'"
    )
    many = [rule("a", times=1), *(rule("b", turn=9, contains=f"x{n}") for n in range(4))]
    script = Script("llm", many)
    assert script.take(Call("q3", "sim:m", {})) is not None
    assert script.take(Call("q3", "sim:m", {})) is None
    assert script.misfit() == (
        "no rule of llm matches call 2; 4 rules did not match: turn 9, contains 'x0';"
        " turn 9, contains 'x1'; turn 9, contains 'x2'; ..., 1 used up"
    )
    over = Script("llm", [rule("a", times=1)])
    assert over.take(Call("x", "sim:m", {})) is not None
    assert over.take(Call("x", "sim:m", {})) is None
    assert over.misfit() is None

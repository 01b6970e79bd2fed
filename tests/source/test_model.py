"""What a model refuses is said in the user's words, at the user's key, all at once."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from pytest_evarness.source.model import Absent, Strict, parse_model
from pytest_evarness.source.number import WrittenFloat


class Sql(Strict):
    type: Literal["sql"]
    service: str
    query: str
    equals: Any = None


class Exit(Strict):
    type: Literal["command_exit"]
    command: str
    equals: int = 0


class Whole(Strict):
    invariants: list[Annotated[Sql | Exit, Field(discriminator="type")]] = Field(
        default_factory=list
    )
    count: int = Field(default=1, ge=1)
    share: float = 0.5
    flag: bool = False
    word: Literal["pass", "fail"] = "pass"
    named: dict[str, int] = Field(default_factory=dict)


class Row(Strict):
    name: str


def texts(value: object) -> list[tuple[tuple[str | int, ...], str, str | None]]:
    model, faults = parse_model(Whole, value)
    assert (model is None) == bool(faults)
    return [(fault.path, fault.text, fault.fix) for fault in faults]


def test_one_member_of_a_union_is_chosen_before_its_fields_are_spoken_of() -> None:
    found = texts(
        {
            "invariants": [
                {"type": "sql", "service": "db", "qurey": "SELECT 1", "equals": 1},
                {"type": "command_exit", "command": "true", "equals": "zero"},
            ]
        }
    )
    assert found == [
        (
            ("invariants", 0, "qurey"),
            "unknown key (got 'qurey'; known: type, service, query, equals)",
            "write 'query'",
        ),
        (("invariants", 1, "equals"), 'must be an integer (got "zero")', None),
    ]


@pytest.mark.parametrize(("written", "count"), [("qurey", 1), ("statement", 2)])
def test_a_required_key_that_is_misspelt_is_one_mistake(written: str, count: int) -> None:
    found = texts({"invariants": [{"type": "sql", "service": "db", written: "x", "equals": 1}]})
    assert len(found) == count, found
    assert found[-1][2] == ("write 'query'" if count == 1 else None)


def test_the_library_alone_would_speak_of_every_member() -> None:
    class Loose(Strict):
        check: Sql | Exit

    # The twin: without a choice by type, one slip gives complaints for each member.
    with pytest.raises(ValidationError) as caught:
        Loose.model_validate({"check": {"type": "sql", "service": "db", "qurey": "SELECT 1"}})
    assert {error["loc"][1] for error in caught.value.errors()} == {"Sql", "Exit"}


def test_no_class_name_or_link_of_the_library_is_shown() -> None:
    values: list[Any] = [
        {"invariants": [{"type": "sq"}, {}, 3, None]},
        {"invariants": {"a": 1}, "count": None, "share": "x", "flag": 1, "word": 3, "named": []},
        {"named": {"a": "b"}},
        {"nobody": 1, "count": 0},
        [],
        None,
    ]
    for value in values:
        for _, text, _ in texts(value):
            for word in ("Sql", "Exit", "Whole", "Strict", "pydantic", "http", "Input should"):
                assert word not in text


@pytest.mark.parametrize("given", [{}, [], [{}], None, 3, "x"])
def test_an_unknown_key_is_refused_whatever_its_value(given: object) -> None:
    assert texts({"invariant": given}) == [
        (
            ("invariant",),
            "unknown key (got 'invariant'; known: invariants, count, share, flag, word, named)",
            "write 'invariants'",
        )
    ]


@pytest.mark.parametrize(
    ("key", "value", "text", "fix"),
    [
        ("count", "5", 'must be an integer (got "5")', "write 5 without quotes"),
        ("count", True, "must be an integer (got true)", None),
        ("count", WrittenFloat("1.0"), "must be an integer (got 1.0)", None),
        ("count", 0, "is too small (got 0; 1 or more)", None),
        ("flag", "yes", 'must be true or false (got "yes")', "write 'true' without quotes"),
        ("flag", 1, "must be true or false (got 1)", None),
        ("word", "pas", 'must be pass or fail (got "pas")', "write 'pass'"),
        ("named", [1], "must be a mapping (got [1])", None),
        ("share", "0.5", 'must be a number (got "0.5")', "write 0.5 without quotes"),
        ("invariants", {"a": 1}, 'must be a list (got {"a": 1})', None),
    ],
)
def test_types_are_strict_and_the_remedy_is_named(
    key: str, value: object, text: str, fix: str | None
) -> None:
    assert texts({key: value}) == [((key,), text, fix)]


def test_an_unknown_type_is_told_with_the_nearest_known_one() -> None:
    path, text, fix = texts({"invariants": [{"type": "sqll"}]})[0]
    assert path == ("invariants", 0)
    assert text.startswith("unknown type (got ")
    assert fix == "write 'sql'"


def test_all_mistakes_come_at_once() -> None:
    assert len(texts({"count": "x", "flag": "x", "word": "x", "nobody": 1})) == 4


class _WithAbsent(Strict):
    note: Absent[Annotated[str, Field(min_length=1)]] = None


def test_a_key_may_be_left_out_and_not_be_null() -> None:
    assert parse_model(_WithAbsent, {}) == (_WithAbsent(), [])
    assert parse_model(_WithAbsent, {"note": "x"})[1] == []
    (fault,) = parse_model(_WithAbsent, {"note": None})[1]
    assert (fault.path, fault.text) == (("note",), "must be text (got null)")
    assert parse_model(_WithAbsent, {"note": ""})[1][0].problem == "must not be empty"
    assert "null" not in str(_WithAbsent.model_json_schema()["properties"]["note"].get("anyOf"))


def test_a_plain_optional_type_would_have_let_null_pass() -> None:
    class Plain(Strict):
        note: str | None = None

    assert parse_model(Plain, {"note": None})[1] == []


@pytest.mark.parametrize(
    ("written", "there"),
    [
        ({}, "type"),
        ({"service": "db", "equals": 1}, "type, service, equals"),
        ({"service": "db", "od\nd": 1}, "type, service, od\\nd"),
    ],
)
def test_a_missing_key_is_told_with_the_keys_that_are_there(
    written: dict[str, Any], there: str
) -> None:
    found = texts({"invariants": [{"type": "sql", **written}]})
    problem = f"required key 'query' is missing (keys here: {there})"
    assert problem in [text for _, text, _ in found]


def test_where_no_key_is_there_that_is_said() -> None:
    _, (fault,) = parse_model(Row, {})
    assert fault.text == "required key 'name' is missing (keys here: none)"

"""Templates are two placeholders; every other brace is what it says."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pytest_evarness.domains.agents.template import (
    TemplateError,
    bare_template,
    fill,
    fill_text,
    literal_words,
    mapping_of,
    template_problem,
)
from tests.domains.agents import harness as h

ARGS = {"to": "a@b.org", "amount": 10, "items": [{"id": "x-1"}], "flag": True}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{query}", "Q"),
        ("re: {query}!", "re: Q!"),
        ("{args.to}", "a@b.org"),
        ("{args.amount}", 10),
        ("amount {args.amount}", "amount 10"),
        ("{args.items[0].id}", "x-1"),
        ("{args.items}", [{"id": "x-1"}]),
        ("{args.flag} {args.items[0]}", 'true {"id":"x-1"}'),
        ("{other} {} {{query}} {args}", "{other} {} {Q} {args}"),
        ("{ query }", "{ query }"),
        (7, 7),
        (None, None),
        ({"a": ["{query}", {"b": "{args.to}"}]}, {"a": ["Q", {"b": "a@b.org"}]}),
        (
            {"statement": "{query}", "params": ["{query}"]},
            {"statement": "{query}", "params": ["Q"]},
        ),
        ({"{query}": 1}, {"{query}": 1}),
    ],
)
def test_how_a_template_is_filled(template: Any, filled: Any) -> None:
    assert fill(template, query="Q", args=ARGS) == filled


def test_what_is_filled_in_is_not_filled_again() -> None:
    assert fill_text("{query}", query="{args.to}", args=ARGS) == "{args.to}"


@pytest.mark.parametrize(
    "path", ["nobody", "to.x", "items[1]", "items[0].x", "items.id", "amount[0]"]
)
def test_a_path_that_names_nothing_is_an_error(path: str) -> None:
    with pytest.raises(TemplateError, match=r"^the input has no '"):
        fill("{args." + path + "}", query="", args=ARGS)


@pytest.mark.parametrize("path", ["a..b", "[", "a]", "."])
def test_what_is_no_path_is_an_error(path: str) -> None:
    with pytest.raises(TemplateError, match=r"^no path \(got '"):
        fill_text("{args." + path + "}", query="", args=ARGS)
    assert template_problem({"a": ["{args." + path + "}"]}) is not None
    assert template_problem({"statement": "{args." + path + "}"}) is None


@pytest.mark.parametrize(
    ("value", "mapping"),
    [
        ({"a": 1}, {"a": 1}),
        (' {"a": 1}', {"a": 1}),
        ("{broken", {}),
        ("[1]", {}),
        ("text", {}),
        ([1], {}),
        (None, {}),
    ],
)
def test_what_a_path_looks_into(value: Any, mapping: dict[str, Any]) -> None:
    assert mapping_of(value) == mapping


def test_an_open_brace_before_many_letters_is_read_once() -> None:
    start = time.process_time()
    assert list(literal_words("{" + "a" * 200_000)) == []
    # With the square of the letters it takes minutes.
    assert time.process_time() - start < 5
    assert list(literal_words("{amount} {a.b[0]} {args.to} {1}")) == [
        ((), "amount"),
        ((), "a.b[0]"),
    ]


def test_a_placeholder_without_quotes_is_found_and_a_mapping_is_left_alone() -> None:
    assert bare_template({"mail": {"to": {"args.to": None}}}) == "args.to"
    assert bare_template([{"args.items[0].id": None}]) == "args.items[0].id"
    for meant in ({"to": "{args.to}"}, {"filter": {"query": None}}, {"args.to": 1}, {"to": None}):
        assert bare_template(meant) is None


def test_a_tool_node_refuses_it_with_the_quotes_to_write() -> None:
    config = {"tool": "email.send", "args": {"to": {"args.to": None}}}
    found = h.remarks(h.chain(("tool", config)))[0]
    assert found.path == ("nodes", 0, "config", "args")
    assert found.message == "is a mapping where a template is meant (got {args.to: null})"
    assert found.fix == 'write "{args.to}" with quotes'

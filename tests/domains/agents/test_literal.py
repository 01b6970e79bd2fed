"""Braces around the name of an argument that are no placeholder: allowed, and remarked on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.domains.agents.template import literal_words
from tests.domains.agents import harness as h

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "to": {"type": "string"}},
}


def said(config: dict[str, Any], **more: Any) -> list[tuple[str, tuple[Any, ...], str | None]]:
    graph = h.chain(("input", {}), ("tool", {"tool": "house.pay", **config}), ("output", {}))
    tools = h.manifest("house.pay", args=SCHEMA, **more)
    return [
        (one.message, one.path[3:], one.fix)
        for one in h.remarks(graph, **tools)
        if one.code == "literal_placeholder"
    ]


def test_a_node_that_forgot_args_is_told_which_argument_is_meant() -> None:
    assert said({"args": {"amount": "{amount}", "to": "{args.to}"}, "intent": "pay {to[0]}"}) == [
        (
            (
                "{amount} is no placeholder and stays as it stands"
                " ('amount' is an argument of 'house.pay')"
            ),
            ("args", "amount"),
            "write {args.amount}",
        ),
        (
            "{to} is no placeholder and stays as it stands ('to' is an argument of 'house.pay')",
            ("intent",),
            "write {args.to}",
        ),
    ]


@pytest.mark.parametrize(
    "text", ["{args.amount}", "{query}", "{sum}", "{ amount }", '{"amount": 1}', "{}", "amount"]
)
def test_other_braces_are_nobody_s_mistake(text: str) -> None:
    assert said({"args": {"to": text}}) == []


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("{querry}", "{query}"),
        ("{query.x}", "{query}"),
        ("{arg.q}", "{args.q}"),
        ("{args.}", "{args.PATH}"),
        ("{args}", "{args.PATH}"),
    ],
)
def test_what_is_nearly_a_placeholder_is_told(text: str, meant: str) -> None:
    assert said({"args": {"to": text}}) == [
        (
            (
                f"{text} is no placeholder and stays as it stands"
                " ({query} and {args.PATH} are placeholders)"
            ),
            ("args", "to"),
            f"write {meant}",
        )
    ]


@pytest.mark.parametrize(
    ("layout", "told"),
    [
        ("{sytem} {question}", [("{sytem}", "write {system}")]),
        ("{question} {history}", [("{history}", None)]),
        ('{system}\n{question} {"a": 1} {}', []),
        ("plain_qa", []),
    ],
)
def test_what_a_layout_does_not_have_is_told(layout: str, told: list[Any]) -> None:
    graph = h.chain(("input", {}), ("prompt_template", {"template": layout}), ("output", {}))
    found = [one for one in h.remarks(graph) if one.code == "literal_placeholder"]
    assert [(one.message.split(" ")[0], one.fix) for one in found] == told


def test_words_are_found_in_every_leaf_but_statements() -> None:
    template = {"a": ["{x}", {"b": "{y.z} {args.x} {x[0]}"}], "statement": "{x}", "n": 1}
    assert list(literal_words(template)) == [
        (("a", 0), "x"),
        (("a", 1, "b"), "y.z"),
        (("a", 1, "b"), "x[0]"),
    ]


SCENARIO = """\
evarness: 1
id: pay
description: d
subject: {graph: "pattern:approval_gated_send"}
environment:
  user_input: Send it
  approvals: {n3: approve}
  tools:
    email.send:
      - result: [{id: m-1, subject: Sent}]
        effects:
          - message: {to: ann, body: "PLACE"}
expect: {status: completed}
"""


def test_an_effect_of_a_scenario_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_evarness.cli import main

    monkeypatch.chdir(tmp_path)
    file = Path("s.yaml")
    file.write_text(SCENARIO.replace("PLACE", "{query}"), encoding="utf-8")
    assert main(["lint", "s.yaml"]) == 0
    assert "literal_placeholder" not in capsys.readouterr().out
    file.write_text(SCENARIO.replace("PLACE", "to {to}"), encoding="utf-8")
    assert main(["lint", "s.yaml"]) == 0
    out = capsys.readouterr().out
    assert "s.yaml:12:38: warning: environment.tools" in out
    assert "('to' is an argument of 'email.send') [literal_placeholder]" in out
    assert "try: write {args.to}" in out
    assert out.count("literal_placeholder") == 1

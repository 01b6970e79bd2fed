"""Text enters, is laid out, is read back and leaves; each option of these nodes does something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.vocabulary import approximate_tokens
from pytest_evarness.domains.agents.node.dialogue import lay_out
from pytest_evarness.domains.agents.text import cut_to_tokens, joined, text_of
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

JSON_INPUT = {
    "schema": {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}
}


def through(*nodes: tuple[str, dict[str, Any]], user_input: str = "Hello", **more: Any) -> Run:
    graph = h.chain(("input", {}), *nodes, ("output", {}))
    return h.run(graph, {"user_input": user_input, **more})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ({"text": "t", "prompt": "p"}, "t"),
        ({"prompt": "p"}, "p"),
        ({"b": 1, "a": "é"}, '{"a":"é","b":1}'),
        ([1, 2], "[1,2]"),
        (None, "null"),
    ],
)
def test_how_a_value_becomes_text(value: Any, text: str) -> None:
    assert text_of(value) == text


def test_several_values_at_one_port_are_lines() -> None:
    assert joined(["a", {"text": "b"}]) == "a\nb"
    assert joined([]) == ""


def test_the_input_is_handed_over() -> None:
    run = through(user_input="Hello there")
    assert run.output == "Hello there"
    assert h.payload(run, "input_received") == {"text": "Hello there", "tokens": 2}


def test_an_input_that_breaks_its_schema_is_blocked() -> None:
    graph = h.chain(("input", JSON_INPUT), ("output", {}))
    assert h.run(graph, {"user_input": '{"to": "x"}'}).status == "completed"
    blocked = h.run(graph, {"user_input": '{"to": 1}'})
    assert blocked.status == "blocked"
    reason = h.payload(blocked, "policy_violation")["reason"]
    assert reason == "input does not satisfy its schema: to breaks 'type' (\"string\")"


def test_an_output_that_breaks_its_schema_is_blocked() -> None:
    graph = h.chain(("input", {}), ("output", JSON_INPUT))
    assert h.run(graph, {"user_input": '{"to": "x"}'}).output == '{"to": "x"}'
    blocked = h.run(graph, {"user_input": "no JSON"})
    assert blocked.status == "blocked"
    assert blocked.output is None


@pytest.mark.parametrize("kind", ["input", "output"])
@pytest.mark.parametrize(
    "schema",
    ["answr", {"type": "strin"}, {"$ref": "https://x.example/s"}, {"typ": "string"}, None],
)
def test_a_schema_that_is_none_is_refused(kind: str, schema: Any) -> None:
    found = {code for _, code, _ in h.codes(h.chain((kind, {"schema": schema})))}
    assert found & {"invalid_config", "unknown_key"}


@pytest.mark.parametrize("schema", [{"typ": "object"}, {"properties": {"a": None}}, None])
def test_a_schema_of_the_parser_that_is_none_is_refused(schema: Any) -> None:
    config = {"format": "json", "schema": schema}
    graph = h.chain(("input", {}), ("output_parser", config))
    wrong = {"invalid_config", "unknown_key"}
    assert wrong & {code for _, code, _ in h.codes(graph)}
    config["schema"] = {"type": "object", "properties": {"a": True}}
    assert not wrong & {code for _, code, _ in h.codes(graph)}


@pytest.mark.parametrize(
    ("template", "prompt"),
    [
        ({}, "Answer the question from what stands above.\nQuestion: Hello"),
        ({"template": "plain_qa"}, "Hello"),
        ({"template": "<{question}> {other}"}, "<Hello> {other}"),
        ({"template": "{system}\n{memory}\n\n{question}"}, "\nHello"),
    ],
)
def test_a_prompt_is_laid_out(template: dict[str, Any], prompt: str) -> None:
    run = through(("prompt_template", template))
    assert run.output == prompt
    name = template.get("template", "answer_with_context")
    shown = name if name in ("answer_with_context", "plain_qa") else "custom"
    found = h.payload(run, "prompt_assembled")
    assert found == {"template": shown, "tokens": max(1, len(prompt) // 4)}


def test_a_section_that_is_filled_keeps_its_line() -> None:
    sections = {"system": "S", "memory": "", "documents": "{question}", "question": "Q"}
    assert lay_out("{system}\n {memory} \nx{memory}\n{documents}", sections) == "S\nx\n{question}"


def test_an_unknown_template_is_named_with_the_nearest() -> None:
    (found,) = h.remarks(h.chain(("prompt_template", {"template": "plain_q"})))[:1]
    assert found.message.startswith("unknown template")
    assert found.fix == "write 'plain_qa'"


def test_a_text_is_handed_on_without_an_event() -> None:
    run = through(("output_parser", {"format": "text"}), user_input="{not json")
    assert run.output == "{not json"
    assert "output_parsed" not in h.types(run)


@pytest.mark.parametrize("text", ["{not json", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 5000, ""])
def test_what_is_no_json_is_told_and_blocks_only_where_it_is_required(text: str) -> None:
    lenient = through(("output_parser", {"format": "json"}), user_input=text)
    assert lenient.output == text
    assert h.payload(lenient, "output_parsed")["ok"] is False
    strict = through(("output_parser", {"format": "json", "required": True}), user_input=text)
    assert strict.status == "blocked"


def test_json_is_handed_on_compact() -> None:
    run = through(("output_parser", {"format": "json"}), user_input='{"b": 1, "a": 2}')
    assert run.output == '{"a":2,"b":1}'
    assert h.payload(run, "output_parsed") == {"format": "json", "ok": True}


def test_json_is_held_to_the_schema() -> None:
    config = {"format": "json", "schema": {"type": "array"}, "required": True}
    assert through(("output_parser", config), user_input="[]").status == "completed"
    assert through(("output_parser", config), user_input="{}").status == "blocked"


@pytest.mark.parametrize("config", [{"schema": {}}, {"required": True}])
def test_an_option_that_needs_json_is_refused_without_it(config: dict[str, Any]) -> None:
    (found,) = h.remarks(h.chain(("output_parser", config)))[:1]
    assert found.level == "error"
    assert "needs JSON to look at" in found.message


@pytest.mark.parametrize(("limit", "text"), [(-1, ""), (0, ""), (1, "abcdefg"), (2, "abcdefghij")])
def test_a_text_is_cut_to_tokens(limit: int, text: str) -> None:
    assert cut_to_tokens("abcdefghij", limit) == text
    assert not text or approximate_tokens(text) <= limit


@pytest.mark.parametrize("text", ['{"a": 1e400}', '{"a": -1e400}', '["\\ud800"]', '{"\\udc00": 1}'])
def test_what_could_not_be_handed_on_is_no_json(text: str) -> None:
    lenient = through(("output_parser", {"format": "json"}), user_input=text)
    assert h.payload(lenient, "output_parsed")["ok"] is False
    assert lenient.output == text
    strict = through(("output_parser", {"format": "json", "required": True}), user_input=text)
    assert strict.status == "blocked"


@pytest.mark.parametrize("text", ['{"a": 1e300}', '["\\ud83d\\ude00"]'])
def test_what_can_be_handed_on_is_json(text: str) -> None:
    run = through(("output_parser", {"format": "json", "required": True}), user_input=text)
    assert h.payload(run, "output_parsed") == {"format": "json", "ok": True}

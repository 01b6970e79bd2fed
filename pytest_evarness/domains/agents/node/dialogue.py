"""Where text enters and leaves, is laid out as a prompt, and is read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.core.vocabulary import approximate_tokens
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.reading import UnreadableError, read_json
from pytest_evarness.domains.agents.schema import schema_faults, validator_of, violation
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import compact, joined, text_of
from pytest_evarness.source.model import Absent, Strict, refuse
from pytest_evarness.source.quote import nearest, quoted

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.errors import Fault

__all__ = ["INPUT", "OUTPUT", "OUTPUT_PARSER", "PROMPT_TEMPLATE", "SECTIONS", "lay_out"]

_Inputs = Mapping[str, list[Any]]


def _schema_faults(config: Any) -> list[Fault]:
    """What is wrong with the schema of a node, where it has one of its own."""
    schema = config.schema_
    if schema is None or isinstance(schema, str):
        return []
    return [fault.under("schema") for fault in schema_faults(schema)]


def _read_json(text: str, schema: Mapping[str, Any] | None) -> Any:
    value = read_json(text)
    problem = violation(validator_of(schema), value) if schema is not None else None
    if problem is not None:
        raise UnreadableError(problem)
    return value


# -- input and output --------------------------------------------------------------------------


class _Input(Strict):
    schema_: Literal["user_question"] | dict[str, Any] = Field(
        default="user_question", alias="schema"
    )


class _Output(Strict):
    schema_: Literal["answer"] | dict[str, Any] = Field(default="answer", alias="schema")


def _input(inputs: _Inputs, config: _Input, context: Context) -> str:
    del inputs
    state = state_of(context)
    markers = state.markers("user_turn")
    text = "\n".join([str(state.environment.get("user_input", "")), *markers.values()])
    payload: dict[str, Any] = {"text": text, "tokens": approximate_tokens(text)}
    if markers:
        payload["injected"] = list(markers)
    context.emit("input_received", payload)
    _hold_to(config.schema_, text, "input")
    return text


def _output(inputs: _Inputs, config: _Output, context: Context) -> None:
    text = joined(inputs.get("in", []))
    _hold_to(config.schema_, text, "output")
    context.set_output(text)


def _hold_to(schema: str | dict[str, Any], text: str, what: str) -> None:
    if isinstance(schema, str):
        return
    try:
        _read_json(text, schema)
    except UnreadableError as error:
        raise NodeBlocked(f"{what} does not satisfy its schema: {error}") from None


INPUT = declare(
    "input",
    "Hands over the user input.",
    _Input,
    _input,
    inputs={},
    output="text",
    emits=("input_received",),
    traits=frozenset({"input"}),
    check=_schema_faults,
)
OUTPUT = declare(
    "output",
    "Sets the run's output.",
    _Output,
    _output,
    inputs={"in": "text"},
    output=None,
    traits=frozenset({"output"}),
    check=_schema_faults,
)


# -- prompts -----------------------------------------------------------------------------------

_LAYOUTS = {
    "answer_with_context": (
        "{system}\n{memory}\n{documents}\n"
        "Answer the question from what stands above.\nQuestion: {question}"
    ),
    "plain_qa": "{system}\n{question}",
}
SECTIONS = ("system", "memory", "documents", "question")
"""What a layout can hold, in braces."""

_SECTION = re.compile(rf"\{{({'|'.join(SECTIONS)})\}}")


class _PromptTemplate(Strict):
    template: str = "answer_with_context"

    @field_validator("template")
    @classmethod
    def _known(cls, value: str) -> str:
        if value in _LAYOUTS or _SECTION.search(value):
            return value
        near = nearest(value, _LAYOUTS)
        raise refuse(
            "unknown template",
            rule="answer_with_context, plain_qa, or a layout with "
            "{system} {memory} {documents} {question}",
            fix=f"write {quoted(near)}" if near else None,
        )


def lay_out(layout: str, sections: Mapping[str, str]) -> str:
    """Fill a layout; a line that holds nothing but an empty section is dropped."""
    lines = []
    for line in layout.split("\n"):
        whole = _SECTION.fullmatch(line.strip())
        if whole is not None and not sections[whole.group(1)]:
            continue
        lines.append(_SECTION.sub(lambda found: sections[found.group(1)], line))
    return "\n".join(lines)


def _prompt_template(inputs: _Inputs, config: _PromptTemplate, context: Context) -> dict[str, Any]:
    sections = _sections(inputs.get("in", []))
    layout = _LAYOUTS.get(config.template)
    prompt = lay_out(layout if layout is not None else config.template, sections)
    name = config.template if layout is not None else "custom"
    payload: dict[str, Any] = {"template": name, "tokens": approximate_tokens(prompt)}
    context.emit("prompt_assembled", payload | state_of(context).markers_in([prompt]))
    return {"prompt": prompt}


def _sections(values: list[Any]) -> dict[str, str]:
    """A context's parts; whatever is no context counts as the question."""
    parts: dict[str, list[str]] = {"system": [], "memory": [], "documents": [], "question": []}
    for value in values:
        if not (isinstance(value, Mapping) and "question" in value and "documents" in value):
            parts["question"].append(text_of(value))
            continue
        parts["system"].append(str(value["system"]))
        parts["question"].append(str(value["question"]))
        parts["memory"] += (f"{turn['role']}: {turn['text']}" for turn in value["memory"])
        parts["documents"] += (
            f"[{number}] {' - '.join(part for part in (doc['subject'], doc['text']) if part)}"
            for number, doc in enumerate(value["documents"], 1)
        )
    return {name: "\n".join(text for text in texts if text) for name, texts in parts.items()}


PROMPT_TEMPLATE = declare(
    "prompt_template",
    "Lays a context out as a prompt.",
    _PromptTemplate,
    _prompt_template,
    inputs={"in": "context"},
    output="prompt",
    emits=("prompt_assembled",),
)


# -- parsing -----------------------------------------------------------------------------------


class _OutputParser(Strict):
    format: Literal["text", "json"] = "text"
    schema_: Absent[dict[str, Any]] = Field(default=None, alias="schema")
    required: bool = False

    @model_validator(mode="after")
    def _needs_json(self) -> _OutputParser:
        if self.format == "text":
            named = "schema" if self.schema_ is not None else "required" if self.required else None
            if named is not None:
                raise refuse(f"{quoted(named)} needs JSON to look at", fix="write 'format: json'")
        return self


def _output_parser(inputs: _Inputs, config: _OutputParser, context: Context) -> str:
    text = joined(inputs.get("in", []))
    if config.format == "text":
        return text
    try:
        value = _read_json(text, config.schema_)
    except UnreadableError as error:
        context.emit("output_parsed", {"format": "json", "ok": False, "error": str(error)})
        if config.required:
            raise NodeBlocked(f"output_parser: {error}") from None
        return text
    context.emit("output_parsed", {"format": "json", "ok": True})
    return compact(value)


OUTPUT_PARSER = declare(
    "output_parser",
    "Reads a text back, as text or as JSON.",
    _OutputParser,
    _output_parser,
    inputs={"in": "text"},
    output="text",
    emits=("output_parsed",),
    check=_schema_faults,
)

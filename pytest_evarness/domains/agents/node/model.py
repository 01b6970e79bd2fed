"""The simulated model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from pytest_evarness.core.interfaces import EnvironmentExhausted
from pytest_evarness.core.vocabulary import approximate_tokens
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import compact, cut_to_tokens, digest_of_text, joined
from pytest_evarness.source.model import Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["LLM", "ModelError"]


class ModelError(Exception):
    """The model gave no answer; nothing in the harness takes its place."""


class _Llm(Strict):
    system: str = ""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.2
    max_tokens: Annotated[int, Field(ge=1)] = 512
    top_p: Any = Field(default=None, description="Without effect: runs are simulated.")


def _llm(inputs: Mapping[str, list[Any]], config: _Llm, context: Context) -> str:
    state = state_of(context)
    prompt = joined(inputs.get("in", []))
    text = f"{config.system}\n\n{prompt}" if config.system else prompt
    tokens = approximate_tokens(text)
    context.emit(
        "llm_request",
        {
            "provider": state.provider,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "prompt_tokens": tokens,
            "prompt_digest": digest_of_text(text),
            "text": text,
        },
    )
    context.run_totals.tokens += tokens
    faults = state.faults.hits("llm")
    if "timeout" in faults:
        _fail("injected: the model did not answer in time", context, "llm.timeout")
    if "error" in faults:
        _fail("injected: the model's provider reported an error", context, "llm.error")
    answer = state.llm.take(state.call(text))
    respond = {"error": answer["raise"]} if answer and "raise" in answer else None
    respond = respond or (answer or {}).get("respond") or state.environment.get("default_response")
    if respond is None:
        script = state.llm
        raise EnvironmentExhausted("llm", script.scripted, script.calls, script.misfit())
    if "error" in respond:
        _fail(respond["error"], context)
    return _answer(respond, config, context, is_cut_short="truncate" in faults)


def _answer(
    respond: Mapping[str, Any], config: _Llm, context: Context, *, is_cut_short: bool
) -> str:
    payload: dict[str, Any] = {}
    if "tool_call" in respond:
        call = {"tool": respond["tool_call"]["tool"], "args": respond["tool_call"].get("args", {})}
        payload["decision"] = call
        whole = compact(call)
    else:
        whole = str(respond["text"])
    text = cut_to_tokens(whole[: len(whole) // 2] if is_cut_short else whole, config.max_tokens)
    tokens = approximate_tokens(text)
    payload |= {"tokens": tokens, "cost_usd": 0.0, "preview": text}
    if text != whole:
        payload["truncated"] = True
    if is_cut_short:
        payload["injected"] = ["llm.truncate"]
    context.emit("llm_response", payload)
    context.run_totals.tokens += tokens
    return text


def _fail(error: str, context: Context, injected: str | None = None) -> None:
    payload: dict[str, Any] = {"error": error}
    if injected is not None:
        payload["injected"] = [injected]
    context.emit("llm_error", payload)
    raise ModelError(error)


LLM = declare(
    "llm",
    "Asks the simulated model.",
    _Llm,
    _llm,
    inputs={"in": "prompt"},
    output="text",
    emits=("llm_request", "llm_response", "llm_error"),
    traits=frozenset({"model"}),
)

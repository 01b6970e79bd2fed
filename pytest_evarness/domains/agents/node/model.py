"""The simulated model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import Field

from pytest_evarness.core.interfaces import EnvironmentExhausted
from pytest_evarness.core.vocabulary import approximate_tokens
from pytest_evarness.domains.agents.budget import admit_model_call
from pytest_evarness.domains.agents.egress import EGRESS_EVENTS, allow_model
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import compact, cut_to_tokens, digest_of_text, joined
from pytest_evarness.source.model import Strict
from pytest_evarness.source.number import exact

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.domains.agents.script import Call

__all__ = ["LLM", "ModelError", "Reply", "ask_model"]


class ModelError(Exception):
    """The model gave no answer; nothing in the harness takes its place."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model said.

    Attributes:
        text: As it arrived: a call as compact JSON.
        call: The call it asks for, ``{tool, args}``; None for a text, and for a call that arrived
            cut, since nobody can read that.
        is_cut: Not all of it arrived.
    """

    text: str
    call: Mapping[str, Any] | None
    is_cut: bool


def ask_model(
    text: str,
    answer: Callable[[Call], Mapping[str, Any]],
    context: Context,
    *,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> Reply:
    """The one way to a model: every request of every node passes here.

    Args:
        text: The whole of what is asked.
        answer: Takes the next answer, ``{text}``, ``{tool_call}`` or ``{error}``, from the script.
        max_tokens: Where the answer is cut; None for nowhere.

    Raises:
        ModelError: The scenario says that there is no answer.
        EnvironmentExhausted: It does not say what the answer is.
    """
    state = state_of(context)
    tokens = approximate_tokens(text)
    allow_model(text, context)
    max_tokens = admit_model_call(tokens, max_tokens, context)
    settings = {"temperature": temperature, "max_tokens": max_tokens}
    context.emit(
        "llm_request",
        {
            "provider": state.provider,
            **{name: value for name, value in settings.items() if value is not None},
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
    respond = answer(state.call(text))
    # What an answer costs is spent and waited for, whatever the answer is.
    # Three times a dime are thirty cents, so the sum is one of decimals.
    cost = exact(context.run_totals.cost_usd) + exact(respond.get("cost_usd", 0.0))
    context.run_totals.cost_usd = float(cost)
    context.clock.advance_ms(respond.get("latency_ms", 0))
    if "error" in respond:
        _fail(respond["error"], context)
    return _reply(respond, max_tokens, context, is_cut_short="truncate" in faults)


def _reply(
    respond: Mapping[str, Any], max_tokens: int | None, context: Context, *, is_cut_short: bool
) -> Reply:
    call = None
    if "tool_call" in respond:
        call = {"tool": respond["tool_call"]["tool"], "args": respond["tool_call"].get("args", {})}
    whole = str(respond["text"]) if call is None else compact(call)
    text = whole[: len(whole) // 2] if is_cut_short else whole
    if max_tokens is not None:
        text = cut_to_tokens(text, max_tokens)
    is_cut = text != whole
    tokens = approximate_tokens(text)
    cost_usd = float(respond.get("cost_usd", 0.0))
    payload: dict[str, Any] = {"tokens": tokens, "cost_usd": cost_usd, "preview": text}
    if is_cut:
        payload["truncated"] = True
    elif call is not None:
        payload["decision"] = call
    if is_cut_short:
        payload["injected"] = ["llm.truncate"]
    context.emit("llm_response", payload)
    context.run_totals.tokens += tokens
    return Reply(text, None if is_cut else call, is_cut)


def _fail(error: str, context: Context, injected: str | None = None) -> None:
    payload: dict[str, Any] = {"error": error}
    if injected is not None:
        payload["injected"] = [injected]
    context.emit("llm_error", payload)
    raise ModelError(error)


# -- the node -------------------------------------------------------------------------------------


class _Llm(Strict):
    system: str = ""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.2
    max_tokens: Annotated[int, Field(ge=1)] = 512
    top_p: Any = Field(default=None, description="Without effect: runs are simulated.")


def _llm(inputs: Mapping[str, list[Any]], config: _Llm, context: Context) -> str:
    state = state_of(context)

    def answer(call: Call) -> Mapping[str, Any]:
        rule = state.llm.take(call)
        respond = {"error": rule["raise"]} if rule and "raise" in rule else None
        respond = respond or (rule or {}).get("respond")
        respond = respond or state.environment.get("default_response")
        if respond is None:
            script = state.llm
            raise EnvironmentExhausted("llm", script.scripted, script.calls, script.misfit())
        return cast("Mapping[str, Any]", respond)

    prompt = joined(inputs.get("in", []))
    text = f"{config.system}\n\n{prompt}" if config.system else prompt
    reply = ask_model(
        text, answer, context, temperature=config.temperature, max_tokens=config.max_tokens
    )
    return reply.text


LLM = declare(
    "llm",
    "Asks the simulated model.",
    _Llm,
    _llm,
    inputs={"in": "prompt"},
    output="text",
    emits=("llm_request", "llm_response", "llm_error", *EGRESS_EVENTS),
    traits=frozenset({"model"}),
)

"""One call of one tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from pytest_evarness.domains.agents.egress import EGRESS_EVENTS
from pytest_evarness.domains.agents.gateway import Request, call_tool
from pytest_evarness.domains.agents.manifest import canonical
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.template import (
    bare_template,
    fill,
    fill_text,
    mapping_of,
    template_problem,
)
from pytest_evarness.domains.agents.text import forwarded, joined
from pytest_evarness.source.model import Absent, Strict, refuse
from pytest_evarness.world.vocabulary import EFFECT_TYPES

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["INERT_KEYS", "TOOL", "Inert", "arguments_of"]


def _inert() -> Any:
    return Field(default=None, description="Without effect: runs are simulated.")


class Inert(Strict):
    """Published keys that steer live calls; accepted, without effect, and said by lint."""

    allow_hosts: Any = _inert()
    root: Any = _inert()
    sandbox: Any = _inert()
    egress: Any = _inert()
    search_provider: Any = _inert()
    searxng_url: Any = _inert()
    search_category: Any = _inert()
    freshness: Any = _inert()
    max_results: Any = _inert()
    search_options: Any = _inert()
    api_key: Any = _inert()


INERT_KEYS = tuple(Inert.model_fields)


class _Tool(Inert):
    tool: Annotated[str, Field(min_length=1)]
    args: Absent[dict[str, Any]] = None
    approve_side_effects: bool = False
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    timeout_ms: Annotated[int, Field(ge=1)] = 3000
    intent: Absent[Annotated[str, Field(min_length=1)]] = None
    mode: Literal["sim"] = "sim"

    @field_validator("args", "intent")
    @classmethod
    def _can_be_filled(cls, value: Any) -> Any:
        problem = template_problem(value)
        if problem is not None:
            raise refuse(problem)
        bare = bare_template(value)
        if bare is not None:
            raise refuse(
                f"is a mapping where a template is meant (got {{{bare}: null}})",
                fix=f'write "{{{bare}}}" with quotes',
                is_shown=False,
            )
        return value


def arguments_of(config: _Tool, values: list[Any]) -> dict[str, Any]:
    """The argument mapping of a tool node for what arrives at it.

    Raises:
        TemplateError: A template asks for what the input does not have.
    """
    query = joined(values)
    if config.args is None:
        return {"query": query}
    filled: dict[str, Any] = fill(config.args, query=query, args=mapping_of(forwarded(values)))
    return filled


def _tool(inputs: Mapping[str, list[Any]], config: _Tool, context: Context) -> list[dict[str, Any]]:
    values = inputs.get("in", [])
    args = arguments_of(config, values)
    intent = None
    if config.intent is not None:
        intent = fill_text(config.intent, query=joined(values), args=mapping_of(forwarded(values)))
    request = Request(
        tool=config.tool,
        args=args,
        offered=frozenset({canonical(config.tool, state_of(context).manifests)}),
        approve_side_effects=config.approve_side_effects,
        retries=config.retries,
        timeout_ms=config.timeout_ms,
        intent=intent,
    )
    return call_tool(request, context)


TOOL = declare(
    "tool",
    "Calls one tool, through every gate.",
    _Tool,
    _tool,
    inputs={"in": "text"},
    output="documents",
    emits=(
        "tool_called",
        "tool_result",
        "tool_error",
        "policy_decision",
        *EGRESS_EVENTS,
        *EFFECT_TYPES,
    ),
    traits=frozenset({"tool"}),
)

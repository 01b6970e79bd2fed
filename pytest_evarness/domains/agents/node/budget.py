"""A limit on what models and tools may use up, for the calls before it and behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pytest_evarness.domains.agents.budget import TOKENS, TOOL_CALLS, Limit, Spending
from pytest_evarness.domains.agents.node.declare import ANY, declare
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import forwarded
from pytest_evarness.source.model import Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["RATE_BUDGET_LIMITER"]


class _Limiter(Strict):
    max_tokens: Annotated[int, Field(ge=0)] = 10000
    max_tool_calls: Annotated[int, Field(ge=0)] = 8
    on_breach: Literal["abort", "degrade"] = "abort"


def _limiter(inputs: Mapping[str, list[Any]], config: _Limiter, context: Context) -> Any:
    spending = state_of(context).part(Spending)
    used = {TOKENS: context.run_totals.tokens, TOOL_CALLS: spending.tool_calls}
    limits = {TOKENS: config.max_tokens, TOOL_CALLS: config.max_tool_calls}
    over = [budget for budget in used if used[budget] > limits[budget]]
    context.emit(
        "budget_checked",
        {
            "tokens": used[TOKENS],
            "max_tokens": config.max_tokens,
            "tool_calls": used[TOOL_CALLS],
            "max_tool_calls": config.max_tool_calls,
            "ok": not over,
        },
    )
    limit = Limit(
        node=context.node_id,
        max_tokens=config.max_tokens,
        max_tool_calls=config.max_tool_calls,
        degrades=config.on_breach == "degrade",
    )
    # Before it is held to it: a run that is observed behind the block keeps its limits.
    spending.limits.append(limit)
    for budget in over:
        limit.exceed(budget, used[budget], context)
    return forwarded(inputs.get("in", []))


RATE_BUDGET_LIMITER = declare(
    "rate_budget_limiter",
    "Holds the run to a number of tokens and tool calls.",
    _Limiter,
    _limiter,
    inputs={"in": ANY},
    output=ANY,
    emits=("budget_checked", "budget_breached"),
    traits=frozenset({"budget"}),
)

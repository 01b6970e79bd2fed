"""What a run has spent on models and tools, and the limits that later calls are held to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.domains.agents.flow import LOOP, Flow
from pytest_evarness.domains.agents.state import state_of

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.domains.agents.state import RunState

__all__ = [
    "DEGRADED_TOKENS",
    "TOKENS",
    "TOOL_CALLS",
    "Limit",
    "Spending",
    "admit_model_call",
    "admit_tool_call",
    "is_budget_enforced",
]

DEGRADED_TOKENS = 64
"""What an answer may have at most once a limit that degrades was exceeded."""

TOKENS = "tokens"
TOOL_CALLS = "tool_calls"


@dataclass(slots=True)
class Limit:
    """What one limiter holds the calls behind it to.

    Attributes:
        node: The limiter.
        degrades: Later answers are cut short; otherwise the call that exceeds is refused.
        exceeded: The budgets that were told as breached.
    """

    node: str
    max_tokens: int
    max_tool_calls: int
    degrades: bool
    exceeded: list[str] = field(default_factory=list)

    def exceed(self, budget: str, used: int, context: Context) -> None:
        """Tell that a budget is exceeded, once; then refuse or go on, as the limiter says.

        Raises:
            NodeBlocked: The limiter does not degrade.
        """
        limit = self.max_tokens if budget == TOKENS else self.max_tool_calls
        if budget not in self.exceeded:
            self.exceeded.append(budget)
            payload: dict[str, Any] = {
                "budget": budget,
                "limit": limit,
                "used": used,
                "on_breach": "degrade" if self.degrades else "abort",
            }
            # It is the limiter that speaks, at whatever node the call was meant.
            context.emit("budget_breached", payload, node_id=self.node)
        if not self.degrades:
            raise NodeBlocked(f"rate_budget_limiter: {used} {budget} are over the limit of {limit}")


@dataclass(slots=True)
class Spending:
    """Calls of one run so far, and the limits of the limiters that ran.

    Attributes:
        tool_calls: Calls that were made, each retry among them.
    """

    tool_calls: int = 0
    limits: list[Limit] = field(default_factory=list)

    @classmethod
    def of(cls, state: RunState) -> Spending:
        """Nothing is spent at the start of a run."""
        del state
        return cls()

    def leftovers(self) -> list[str]:
        """Nothing is scripted here."""
        return []


def admit_model_call(prompt_tokens: int, max_tokens: int | None, context: Context) -> int | None:
    """Ask every limit whether the model may be asked; called right before it is.

    Args:
        prompt_tokens: Of the request.
        max_tokens: What the answer could have without a limit; None for any length.

    Returns:
        What the answer may have.

    Raises:
        NodeBlocked: The request would exceed a limit that does not degrade.
    """
    used = context.run_totals.tokens + prompt_tokens
    for limit in state_of(context).part(Spending).limits:
        if used > limit.max_tokens:
            limit.exceed(TOKENS, used, context)
        if limit.degrades:
            left = max(1, limit.max_tokens - used)
            room = min(left, DEGRADED_TOKENS) if limit.exceeded else left
            max_tokens = room if max_tokens is None else min(max_tokens, room)
    return max_tokens


def admit_tool_call(context: Context) -> None:
    """Ask every limit whether a tool may be called, and count the call.

    Raises:
        NodeBlocked: The call would exceed a limit that does not degrade.
    """
    spending = state_of(context).part(Spending)
    used = spending.tool_calls + 1
    for limit in spending.limits:
        if used > limit.max_tool_calls:
            limit.exceed(TOOL_CALLS, used, context)
    spending.tool_calls = used


def is_budget_enforced(graph: Graph) -> bool:
    """Whether every model and every tool stands behind a limiter that refuses."""

    def refuses(node: str) -> bool:
        one = graph.nodes[node]
        return one.type == "rate_budget_limiter" and one.config.get("on_breach") != "degrade"

    spending = {node.id for node in graph.nodes.values() if node.type in ("llm", "tool", LOOP)}
    flow = Flow.of(graph)
    return bool(spending) and spending.isdisjoint(flow.reach(flow.roots, stop=refuses))

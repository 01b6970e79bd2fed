"""Nodes that look at a run and change nothing in it, unless a budget of theirs ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.core.vocabulary import approximate_tokens
from pytest_evarness.domains.agents.budget import Spending
from pytest_evarness.domains.agents.memory import Memories
from pytest_evarness.domains.agents.node.declare import ANY, declare
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import digest_of_text, forwarded, joined
from pytest_evarness.source.model import Absent, Strict, refuse

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["COST_LATENCY_MONITOR", "METRICS", "METRICS_EMITTER", "TRACE_PROBE"]

_Inputs = Mapping[str, list[Any]]


# -- probe -----------------------------------------------------------------------------------------

_Captured = Literal["value", "totals", "events", "memory"]


def _value(values: Sequence[Any], context: Context) -> dict[str, Any]:
    del context
    text = joined(values)
    return {
        "text": text,
        "tokens": approximate_tokens(text),
        "digest": digest_of_text(text),
        "count": len(values),
    }


def _totals(values: Sequence[Any], context: Context) -> dict[str, Any]:
    del values
    return {
        "tokens": context.run_totals.tokens,
        "tool_calls": state_of(context).part(Spending).tool_calls,
        "cost_usd": float(context.run_totals.cost_usd),
        "latency_ms": context.clock.now_ms,
    }


def _events(values: Sequence[Any], context: Context) -> dict[str, Any]:
    del values
    counts = Counter(event["type"] for event in context.events())
    return {kind: counts[kind] for kind in sorted(counts)}


def _memory(values: Sequence[Any], context: Context) -> dict[str, Any]:
    del values
    return dict(state_of(context).part(Memories).sizes())


_CAPTURES: Mapping[str, Callable[[Sequence[Any], Context], dict[str, Any]]] = {
    "value": _value,
    "totals": _totals,
    "events": _events,
    "memory": _memory,
}


def _default_capture() -> list[_Captured]:
    return ["value"]


class _Probe(Strict):
    capture: Annotated[list[_Captured], Field(min_length=1)] = Field(
        default_factory=_default_capture
    )


def _probe(inputs: _Inputs, config: _Probe, context: Context) -> Any:
    values = inputs.get("in", [])
    context.emit(
        "probe_snapshot",
        {name: _CAPTURES[name](values, context) for name in config.capture},
    )
    return forwarded(values)


TRACE_PROBE = declare(
    "trace_probe",
    "Records what arrives, or how far the run has come.",
    _Probe,
    _probe,
    inputs={"in": ANY},
    output=ANY,
    emits=("probe_snapshot",),
)


# -- metrics ---------------------------------------------------------------------------------------

_Metric = Literal[
    "tokens",
    "cost_usd",
    "latency_ms",
    "events",
    "model_calls",
    "model_errors",
    "tool_calls",
    "tool_errors",
    "denials",
    "approvals",
    "effects",
    "redactions",
    "retrievals",
    "memory_reads",
    "memory_writes",
]
METRICS: tuple[str, ...] = get_args(_Metric)
"""What can be measured."""

_COUNTED = {
    "model_calls": "llm_request",
    "model_errors": "llm_error",
    "tool_calls": "tool_called",
    "tool_errors": "tool_error",
    "denials": "policy_decision",
    "approvals": "approval_granted",
    "effects": "effect_applied",
    "redactions": "redaction_applied",
    "retrievals": "retrieval_performed",
    "memory_reads": "memory_read",
    "memory_writes": "memory_write",
}
"""Metrics that count the events of one type."""


def _default_metrics() -> list[_Metric]:
    return ["tokens", "model_calls", "tool_calls", "latency_ms", "cost_usd"]


class _Emitter(Strict):
    metrics: Annotated[list[_Metric], Field(min_length=1)] = Field(default_factory=_default_metrics)


def _emitter(inputs: _Inputs, config: _Emitter, context: Context) -> Any:
    counts = Counter(event["type"] for event in context.events())
    totals: dict[str, Any] = {
        "tokens": context.run_totals.tokens,
        "cost_usd": float(context.run_totals.cost_usd),
        "latency_ms": context.clock.now_ms,
        "events": counts.total(),
    }
    measured: dict[str, Any] = {
        name: totals[name] if name in totals else counts[_COUNTED[name]] for name in config.metrics
    }
    context.emit("metrics_emitted", {"metrics": measured})
    return forwarded(inputs.get("in", []))


METRICS_EMITTER = declare(
    "metrics_emitter",
    "Measures the run so far.",
    _Emitter,
    _emitter,
    inputs={"in": ANY},
    output=ANY,
    emits=("metrics_emitted",),
)


# -- cost and latency ------------------------------------------------------------------------------


class _Monitor(Strict):
    max_cost_usd: Absent[Annotated[float, Field(ge=0)]] = None
    max_latency_ms: Absent[Annotated[int, Field(ge=0)]] = None
    action: Literal["alert", "abort"] = "alert"

    @model_validator(mode="after")
    def _has_budget(self) -> _Monitor:
        if not {"max_cost_usd", "max_latency_ms"} & self.model_fields_set:
            raise refuse("monitors nothing", rule="max_cost_usd, max_latency_ms, or both")
        return self


def _monitor(inputs: _Inputs, config: _Monitor, context: Context) -> Any:
    used = {
        "cost_usd": float(context.run_totals.cost_usd),
        "latency_ms": context.clock.now_ms,
    }
    limits = {"cost_usd": config.max_cost_usd, "latency_ms": config.max_latency_ms}
    over = {
        name: limit for name, limit in limits.items() if limit is not None and used[name] > limit
    }
    context.emit("cost_latency", {**used, "ok": not over})
    for name, limit in over.items():
        payload = {"budget": name, "limit": limit, "used": used[name], "action": config.action}
        context.emit("budget_breached", payload)
    if over and config.action == "abort":
        said = " and ".join(
            f"{name} of {used[name]} is over {limit}" for name, limit in over.items()
        )
        raise NodeBlocked(f"cost_latency_monitor: {said}")
    return forwarded(inputs.get("in", []))


COST_LATENCY_MONITOR = declare(
    "cost_latency_monitor",
    "Holds the run so far to what it may cost and last.",
    _Monitor,
    _monitor,
    inputs={"in": ANY},
    output=ANY,
    emits=("cost_latency", "budget_breached"),
    traits=frozenset({"budget"}),
)

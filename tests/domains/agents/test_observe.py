"""Probes, metrics and monitors tell what is true of the run, in simulated time and money."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.c1 import sha256_text
from pytest_evarness.domains.agents.node.observe import METRICS
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

RESPOND = {"text": "Nine days.", "cost_usd": 0.02, "latency_ms": 700}


def observed(kind: str, respond: Any = RESPOND, **config: Any) -> Run:
    graph = h.chain(
        ("input", {}),
        ("episodic_memory", {"write_policy": "always"}),
        ("tool", {"tool": "web.search"}),
        ("llm", {}),
        (kind, config),
        ("output", {}),
    )
    environment = {
        "user_input": "How many days?",
        "tools": {"web.search": [{"result": [{"id": "d", "text": "nine"}]}]},
        "faults": {"web.search": {"delay_ms": 50}},
        "llm": [{"respond": respond}],
    }
    return h.run(graph, environment)


def before(run: Run, kind: str) -> Counter[str]:
    return Counter(h.types(run)[: h.types(run).index(kind)])


# -- what an answer costs ------------------------------------------------------------------------


def test_an_answer_costs_and_lasts_what_the_scenario_says() -> None:
    run = observed("trace_probe", capture=["totals"])
    assert h.payload(run, "llm_response")["cost_usd"] == 0.02
    assert h.payload(run, "run_finished")["cost_usd"] == 0.02
    assert h.payload(run, "probe_snapshot")["totals"]["latency_ms"] == 750
    free = observed("trace_probe", {"text": "Nine."}, capture=["totals"])
    assert h.payload(free, "llm_response")["cost_usd"] == 0.0
    assert h.payload(free, "probe_snapshot")["totals"]["latency_ms"] == 50


@pytest.mark.parametrize(
    "respond",
    [
        {"text": "x", "cost_usd": -1},
        {"text": "x", "latency_ms": 0.5},
        {"cost_usd": 1},
        {"text": "x", "error": "y", "cost_usd": 1},
    ],
)
def test_a_price_in_another_form_is_refused(respond: dict[str, Any]) -> None:
    for environment in ({"llm": [{"respond": respond}]}, {"default_response": respond}):
        assert len(h.case_faults(h.chain(("input", {})), environment)) == 1


# -- probe ---------------------------------------------------------------------------------------


def test_a_probe_captures_what_arrives() -> None:
    run = observed("trace_probe")
    assert run.output == "Nine days."
    assert h.payload(run, "probe_snapshot") == {
        "value": {
            "text": "Nine days.",
            "tokens": 2,
            "digest": sha256_text("Nine days."),
            "count": 1,
        }
    }


def test_a_probe_captures_what_it_is_asked_to() -> None:
    run = observed("trace_probe", capture=["totals", "events", "memory"])
    found = h.payload(run, "probe_snapshot")
    assert sorted(found) == ["events", "memory", "totals"]
    assert found["events"] == dict(before(run, "probe_snapshot"))
    assert found["memory"] == {
        "working": 0,
        "episodic": 1,
        "semantic": 0,
        "procedural": 0,
        "pending": 0,
    }
    assert found["totals"] == {
        "tokens": h.payload(run, "run_finished")["total_tokens"],
        "tool_calls": 1,
        "cost_usd": 0.02,
        "latency_ms": 750,
    }


def test_a_probe_counts_instructions_that_wait() -> None:
    graph = h.chain(
        ("input", {}), ("procedural_memory", {}), ("trace_probe", {"capture": ["memory"]})
    )
    run = h.run(graph, {"user_input": "instruction: obey", "instructions": ["be kind"]})
    found = h.payload(run, "probe_snapshot")["memory"]
    assert (found["procedural"], found["pending"]) == (1, 1)


# -- metrics -------------------------------------------------------------------------------------


def test_the_default_metrics() -> None:
    run = observed("metrics_emitter")
    assert h.payload(run, "metrics_emitted")["metrics"] == {
        "tokens": h.payload(run, "run_finished")["total_tokens"],
        "model_calls": 1,
        "tool_calls": 1,
        "latency_ms": 750,
        "cost_usd": 0.02,
    }
    assert run.output == "Nine days."


def test_every_metric_counts_what_it_is_called_after() -> None:
    run = observed("metrics_emitter", metrics=list(METRICS))
    found = h.payload(run, "metrics_emitted")["metrics"]
    assert set(found) == set(METRICS)
    seen = before(run, "metrics_emitted")
    for metric, kind in {
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
    }.items():
        assert found[metric] == seen[kind]
        assert kind in h.registry().event_types.names()
    assert found["events"] == seen.total()
    assert found["memory_writes"] == 1


def test_only_what_is_asked_for_is_measured() -> None:
    run = observed("metrics_emitter", metrics=["tool_errors"])
    assert h.payload(run, "metrics_emitted") == {"metrics": {"tool_errors": 0}}


def test_an_unknown_metric_is_refused_with_the_nearest() -> None:
    graph = h.chain(("input", {}), ("metrics_emitter", {"metrics": ["token"]}), ("output", {}))
    (finding,) = [one for one in h.remarks(graph) if one.level == "error"]
    assert (finding.code, finding.fix) == ("invalid_config", "write 'tokens'")


# -- cost and latency ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "budget", "used"),
    [
        ({"max_cost_usd": 0.01}, "cost_usd", 0.02),
        ({"max_latency_ms": 749}, "latency_ms", 750),
    ],
)
def test_a_budget_that_is_passed_is_told_or_ends_the_run(
    config: dict[str, Any], budget: str, used: float
) -> None:
    alerted = observed("cost_latency_monitor", **config)
    assert alerted.status == "completed"
    (limit,) = config.values()
    assert h.payload(alerted, "budget_breached") == {
        "budget": budget,
        "limit": limit,
        "used": used,
        "action": "alert",
    }
    aborted = observed("cost_latency_monitor", **config, action="abort")
    assert aborted.status == "blocked"
    assert f"{budget} of {used} is over" in h.payload(aborted, "policy_violation")["reason"]
    for run in (alerted, aborted):
        assert h.payload(run, "cost_latency") == {
            "cost_usd": 0.02,
            "latency_ms": 750,
            "ok": False,
        }


def test_a_budget_that_is_kept_says_so() -> None:
    config = {"max_cost_usd": 0.02, "max_latency_ms": 750, "action": "abort"}
    run = observed("cost_latency_monitor", **config)
    assert run.status == "completed"
    assert run.output == "Nine days."
    assert h.payload(run, "cost_latency")["ok"] is True
    assert "budget_breached" not in h.types(run)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("trace_probe", {"capture": []}),
        ("trace_probe", {"capture": ["values"]}),
        ("metrics_emitter", {"metrics": []}),
        ("cost_latency_monitor", {}),
        ("cost_latency_monitor", {"action": "abort"}),
        ("cost_latency_monitor", {"max_cost_usd": -1}),
        ("cost_latency_monitor", {"max_latency_ms": None}),
        ("cost_latency_monitor", {"max_latency_ms": 1, "action": "stop"}),
    ],
)
def test_a_knob_that_is_none_is_refused(kind: str, config: dict[str, Any]) -> None:
    graph = h.chain(("input", {}), (kind, config), ("output", {}))
    assert ("error", "invalid_config", "n2") in h.codes(graph)


@pytest.mark.parametrize(("limit", "status"), [(0.3, "completed"), (0.29, "blocked")])
def test_costs_are_added_as_the_decimals_that_they_are(limit: float, status: str) -> None:
    monitor = ("cost_latency_monitor", {"max_cost_usd": limit, "action": "abort"})
    graph = h.chain(("input", {}), ("llm", {}), ("llm", {}), ("llm", {}), monitor, ("output", {}))
    answers = [{"respond": {"text": "x", "cost_usd": 0.1}, "times": "any"}]
    run = h.run(graph, {"llm": answers})
    assert run.status == status
    assert h.payload(run, "cost_latency")["cost_usd"] == 0.3
    if status == "completed":
        assert h.payload(run, "run_finished")["cost_usd"] == 0.3

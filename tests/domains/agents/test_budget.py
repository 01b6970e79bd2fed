"""A limiter counts what the run used up, and holds every call behind it to what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.domains.agents.budget import DEGRADED_TOKENS
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

ASKED = "x" * 40  # ten tokens
ANSWER = "y" * 400  # a hundred tokens
MODEL = ("llm", {"max_tokens": 200})
SEARCH = ("tool", {"tool": "web.search"})


def limited(*nodes: tuple[str, dict[str, Any]], **environment: Any) -> Run:
    given = {
        "user_input": ASKED,
        "default_response": {"text": ANSWER},
        "tools": {"web.search": [{"result": [{"id": "d", "text": ASKED}], "times": "any"}]},
    }
    return h.run(h.chain(("input", {}), *nodes, ("output", {})), {**given, **environment})


def limiter(**config: Any) -> tuple[str, dict[str, Any]]:
    return ("rate_budget_limiter", config)


def test_what_was_used_up_before_counts_as_the_run_tells_it() -> None:
    run = limited(MODEL, SEARCH, limiter())
    checked = h.payload(run, "budget_checked")
    assert checked == {
        "tokens": 110,
        "max_tokens": 10000,
        "tool_calls": 1,
        "max_tool_calls": 8,
        "ok": True,
    }
    assert h.payload(run, "run_finished")["total_tokens"] == checked["tokens"]
    assert h.types(run).count("tool_called") == checked["tool_calls"]


@pytest.mark.parametrize(
    ("config", "budget"),
    [({"max_tokens": 109}, "tokens"), ({"max_tool_calls": 0}, "tool_calls")],
)
def test_a_limit_that_was_passed_before_ends_the_run_at_the_limiter(
    config: dict[str, Any], budget: str
) -> None:
    run = limited(MODEL, SEARCH, limiter(**config))
    assert run.status == "blocked"
    assert h.payload(run, "budget_checked")["ok"] is False
    breached = h.payload(run, "budget_breached")
    assert (breached["budget"], breached["on_breach"]) == (budget, "abort")
    assert breached["used"] > breached["limit"]
    # What is just used up is no breach.
    exact = {key: value + 1 for key, value in config.items()}
    assert limited(MODEL, SEARCH, limiter(**exact)).status == "completed"


def test_a_call_behind_the_limiter_that_would_pass_it_is_not_made() -> None:
    run = limited(limiter(max_tokens=9), MODEL)
    assert run.status == "blocked"
    assert "llm_request" not in h.types(run)
    (breach,) = [event for event in run.events if event.type == "budget_breached"]
    assert breach.node_id == "n2"
    assert dict(breach.payload) == {
        "budget": "tokens",
        "limit": 9,
        "used": 10,
        "on_breach": "abort",
    }
    assert limited(limiter(max_tokens=10), MODEL).status == "completed"


def test_a_tool_behind_the_limiter_is_held_to_it() -> None:
    run = limited(SEARCH, limiter(max_tool_calls=2), SEARCH, SEARCH, SEARCH)
    assert run.status == "blocked"
    assert h.types(run).count("tool_called") == 2
    assert h.payload(run, "budget_breached")["used"] == 3
    assert limited(SEARCH, limiter(max_tool_calls=2), SEARCH).status == "completed"


def test_retries_count() -> None:
    retrying = ("tool", {"tool": "web.search", "retries": 1})
    faults = {"web.search": {"fail_before": {"first": 1}}}
    run = limited(limiter(max_tool_calls=1), retrying, faults=faults)
    assert run.status == "blocked"
    assert h.types(run).count("tool_called") == 1
    assert limited(limiter(max_tool_calls=2), retrying, faults=faults).status == "completed"


def test_calls_of_a_loop_count() -> None:
    def loop(limit: int) -> Run:
        react = [
            {"action": {"tool": "web.search", "input": "a"}},
            {"action": {"tool": "web.search", "input": "b"}},
            {"respond": {"text": "done"}},
        ]
        node = ("loop_controller", {"tools": ["web.search"], "grounding_check": "off"})
        return limited(limiter(max_tool_calls=limit), node, react=react)

    assert loop(2).status == "completed"
    stopped = loop(1)
    assert stopped.status == "blocked"
    assert h.types(stopped).count("tool_called") == 1
    assert h.payload(stopped, "budget_breached")["budget"] == "tool_calls"


def test_a_refused_call_costs_nothing() -> None:
    nodes = (limiter(max_tool_calls=1), ("tool", {"tool": "web.search", "args": {}}))
    run = limited(*nodes, tools={"web.search": [{"raise": "broken"}]})
    assert "budget_breached" not in h.types(run)


def test_a_limiter_that_degrades_cuts_answers_to_what_is_left() -> None:
    run = limited(limiter(max_tokens=60, on_breach="degrade"), MODEL)
    assert run.status == "completed"
    assert h.payload(run, "llm_request")["max_tokens"] == 50
    assert h.payload(run, "llm_response")["tokens"] == 50
    assert h.payload(run, "llm_response")["truncated"] is True
    assert "budget_breached" not in h.types(run)
    whole = limited(limiter(max_tokens=110, on_breach="degrade"), MODEL)
    assert "truncated" not in h.payload(whole, "llm_response")


def test_behind_a_breach_a_degraded_answer_is_one_token_and_the_run_goes_on() -> None:
    run = limited(MODEL, limiter(max_tokens=50, on_breach="degrade"), MODEL, MODEL)
    assert run.status == "completed"
    assert [one["tokens"] for one in h.payloads(run, "llm_response")] == [100, 1, 1]
    # A breach is told once.
    assert h.payload(run, "budget_breached")["on_breach"] == "degrade"


def test_too_many_tool_calls_shorten_answers_and_no_call_is_refused() -> None:
    run = limited(limiter(max_tool_calls=1, on_breach="degrade"), SEARCH, SEARCH, MODEL)
    assert run.status == "completed"
    assert h.types(run).count("tool_called") == 2
    assert h.payload(run, "budget_breached")["budget"] == "tool_calls"
    assert h.payload(run, "llm_response")["tokens"] == DEGRADED_TOKENS
    kept = limited(limiter(max_tool_calls=2, on_breach="degrade"), SEARCH, SEARCH, MODEL)
    assert h.payload(kept, "llm_response")["tokens"] == 100


def test_the_strictest_of_two_limiters_decides() -> None:
    loose, strict = limiter(), limiter(max_tokens=30, on_breach="degrade")
    for nodes in ((loose, strict), (strict, loose)):
        assert h.payload(limited(*nodes, MODEL), "llm_response")["tokens"] == 20


def test_what_arrives_is_handed_on() -> None:
    assert limited(limiter()).output == ASKED


@pytest.mark.parametrize(
    "config", [{"max_tokens": -1}, {"max_tool_calls": 1.5}, {"on_breach": "x"}]
)
def test_a_knob_that_is_none_is_refused(config: dict[str, Any]) -> None:
    graph = h.chain(("input", {}), limiter(**config), ("output", {}))
    assert ("error", "invalid_config", "n2") in h.codes(graph)


def test_a_budget_is_enforced_where_every_call_stands_behind_a_limiter_that_refuses() -> None:
    def enforced(*nodes: tuple[str, dict[str, Any]]) -> bool:
        graph = h.graph_of(h.chain(("input", {}), *nodes, ("output", {})))
        return "budget" in h.domain().enforcements(graph, {})

    assert enforced(limiter(), SEARCH, MODEL)
    assert not enforced(SEARCH, limiter(), MODEL)
    assert not enforced(limiter(on_breach="degrade"), MODEL)
    assert not enforced(limiter())


def test_a_request_that_must_not_leave_is_refused_before_it_is_counted() -> None:
    secret: tuple[str, dict[str, Any]] = ("data_classifier", {})
    nodes = (limiter(max_tokens=5, on_breach="degrade"), secret, MODEL)
    run = limited(*nodes, user_input="the password is hunter2, password: hunter2")
    assert run.status == "blocked"
    assert "egress_denied" in h.types(run)
    assert "budget_breached" not in h.types(run)

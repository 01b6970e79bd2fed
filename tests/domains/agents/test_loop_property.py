"""Whatever a model decides and whatever its tools answer, a loop keeps within its bounds."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domains.agents import harness as h

OFFERED = ("web.search", "fs.search", "email.send")
TOOLS = (*OFFERED, "db.query", "no.such")
WORDS = ("a", "b", "found 7", 'it said "yes" [1]')

actions = st.builds(
    lambda tool, given: {"action": {"tool": tool, "input": given}},
    st.sampled_from(TOOLS),
    st.sampled_from(["a", "b", {"query": "a"}, {"wrong": 1}]),
)
answers = st.builds(lambda text: {"respond": {"text": text}}, st.sampled_from(WORDS))
errors = st.just({"respond": {"error": "overloaded"}})
rules = st.lists(st.one_of(actions, actions, answers, answers, errors), max_size=8)
found = st.sampled_from([[], [{"id": "x", "text": "found 7"}]])
when = st.one_of(
    st.just("always"),
    st.builds(lambda n: {"first": n}, st.integers(1, 3)),
    st.just({"rate": 0.5}),
)
faults = st.fixed_dictionaries(
    {},
    optional={
        "llm": st.builds(lambda one: {"truncate": one}, when),
        "web.search": st.dictionaries(
            st.sampled_from(["fail_before", "fail_after", "malformed", "duplicate_answer"]),
            when,
            max_size=2,
        ),
    },
)
configs = st.fixed_dictionaries(
    {
        "tools": st.lists(st.sampled_from(OFFERED), unique=True),
        "max_iterations": st.integers(1, 6),
        "dedup_guard": st.booleans(),
        "require_evidence": st.booleans(),
        "on_stop": st.sampled_from(["best_effort", "answer_partial", "fail"]),
        "grounding_check": st.sampled_from(["off", "warn", "retry"]),
        "grounding_retries": st.integers(0, 2),
        "approve_side_effects": st.booleans(),
    }
)


@settings(max_examples=150, deadline=None)
@given(configs, rules, found, faults, st.integers(1, 7))
def test_a_loop_keeps_within_its_bounds(
    config: dict[str, Any],
    react: list[dict[str, Any]],
    result: list[Any],
    injected: dict[str, Any],
    budget: int,
) -> None:
    graph = h.chain(
        ("input", {}),
        ("approval_gate", {}),
        ("loop_controller", config),
        ("output", {}),
        max_loops=budget,
    )
    environment = {
        "react": react,
        "tools": {tool: [{"result": result, "times": "any"}] for tool in OFFERED},
        "approvals": {"n2": "approve"},
        "faults": injected,
    }
    # Each event is held against its schema there.
    run = h.run(graph, environment)
    kinds = h.types(run)
    turns = kinds.count("loop_iteration")
    calls = h.payloads(run, "tool_called")

    assert 1 <= turns <= min(config["max_iterations"], budget)
    assert kinds.count("llm_request") == turns
    assert len(calls) <= turns
    assert {one["tool"] for one in calls} <= set(config["tools"])
    if not config["approve_side_effects"]:
        assert "email.send" not in {one["tool"] for one in calls}
    if config["dedup_guard"]:
        answered = [
            one["intent_id"] for one in h.payloads(run, "tool_result") if "duplicate" not in one
        ]
        assert len(set(answered)) == len(answered)
        acts = {(one["tool"], one["args_digest"]) for one in calls}
        assert len({one["intent_id"] for one in calls}) == len(acts)

    ends = h.payloads(run, "loop_finished")
    breached = "budget_breached" in kinds
    if run.status in ("failed", "unscripted") or breached:
        assert ends == []
        assert breached == (run.status == "blocked")
    else:
        (end,) = ends
        assert end["iterations"] == turns
        stops_short = end["stopped"] == "max_iterations" and config["on_stop"] == "fail"
        assert (run.status == "blocked") == (end["stopped"] == "blocked" or stops_short)
    if config["grounding_check"] == "off":
        assert "grounding_checked" not in kinds
    again = h.run(graph, environment)
    assert again.trace_digest == run.trace_digest

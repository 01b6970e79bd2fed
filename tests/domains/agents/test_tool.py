"""A call passes every gate in order, or exactly one of them refuses it before the tool sees it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.execution import execute
from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.domains.agents.gateway import Request, call_tool, documents_of
from pytest_evarness.domains.agents.text import digest_of_value
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

SEARCH = {"email.search": [{"result": [{"id": "m1", "subject": "S", "snippet": "found"}]}]}


def call(
    config: dict[str, Any],
    user_input: str = "Hello",
    revision: str | None = None,
    **environment: Any,
) -> Run:
    graph = h.chain(("input", {}), ("tool", config), ("output", {}))
    written = {"tools": SEARCH, **environment, "user_input": user_input}
    return h.run(graph, written, policy_revision=revision)


# -- a call ------------------------------------------------------------------------------------


def test_a_call_says_what_was_called_and_who_allowed_it() -> None:
    run = call({"tool": "email.search"}, "find it")
    assert h.payload(run, "tool_called") == {
        "tool": "email.search",
        "tool_version": "1",
        "query": "find it",
        "args": {"query": "find it"},
        "args_digest": digest_of_value({"query": "find it"}),
        "side_effects": "read",
        "network": "none",
        "mode": "sim",
        "intent_id": "n2#1",
        "decision": {"rule": "read_only"},
    }
    assert h.payload(run, "tool_result") == {
        "tool": "email.search",
        "count": 1,
        "docs": [{"id": "m1", "subject": "S", "text": "found"}],
        "intent_id": "n2#1",
    }
    assert run.output == "found"


def test_an_alias_is_resolved_to_the_id() -> None:
    run = call({"tool": "search_email"})
    assert h.payload(run, "tool_called")["tool"] == "email.search"


def test_a_fixture_may_use_the_alias_too() -> None:
    graph = h.chain(("input", {}), ("tool", {"tool": "email.search"}), ("output", {}))
    assert h.run(graph, {"tools": {"search_email": SEARCH["email.search"]}}).output == "found"


def test_args_are_filled_from_the_input_with_their_types() -> None:
    config = {"tool": "web.search", "args": {"query": "{args.what}", "limit": "{args.n}"}}
    text = json.dumps({"what": "cats", "n": 3})
    run = h.run(
        h.chain(("input", {}), ("tool", config), ("output", {})),
        {"user_input": text, "tools": {"web.search": [{"result": []}]}},
    )
    assert h.payload(run, "tool_called")["args"] == {"query": "cats", "limit": 3}


def test_a_template_that_finds_nothing_ends_the_run() -> None:
    run = call({"tool": "email.search", "args": {"query": "{args.what}"}}, "no JSON")
    assert run.status == "failed"
    reason = h.payload(run, "engine_error")["reason"]
    assert reason == "TemplateError: the input has no 'what'"


def test_arguments_that_break_the_schema_never_reach_the_tool() -> None:
    run = call({"tool": "email.search", "args": {"limit": "many"}})
    assert run.status == "failed"
    assert "tool_called" not in h.types(run)
    found = h.payload(run, "tool_error")
    assert found["phase"] == "validate"
    assert found["error"] == "arguments: limit breaks 'type' (\"integer\")"


def test_a_text_an_entry_or_a_value_is_a_document() -> None:
    assert documents_of("x", "t") == [{"id": "t-1", "subject": "", "text": "x"}]
    assert documents_of(None, "t") == []
    assert documents_of({"code": "NO"}, "t") == [
        {"id": "t-1", "subject": "", "text": '{"code":"NO"}', "code": "NO"}
    ]
    entry = {"id": 7, "title": "T", "body": "b", "score_hint": 0.5}
    (found,) = documents_of([entry], "t")
    assert (found["id"], found["subject"], found["text"]) == ("7", "T", "b")
    assert found["score_hint"] == 0.5


def test_a_null_is_nothing_and_no_word() -> None:
    row = {"id": None, "subject": None, "title": "T", "text": None, "paid": None}
    (found,) = documents_of([row], "t")
    assert (found["id"], found["subject"], found["text"]) == ("t-1", "T", '{"paid":null}')
    (bare,) = documents_of([{"subject": None, "text": None}], "t")
    assert (bare["subject"], bare["text"]) == ("", "")
    # The twin: what is no null and no text is written as it is.
    (kept,) = documents_of([{"id": 0, "subject": False}], "t")
    assert (kept["id"], kept["subject"], kept["text"]) == ("0", "false", "false")


def test_an_answer_that_is_no_list_of_documents_is_in_the_event_as_it_was_written() -> None:
    answer = {"code": "NO", "active": "on", "grade": "y"}
    graph = h.chain(("input", {}), ("tool", {"tool": "web.fetch"}), ("output", {}))
    run = h.run(graph, {"tools": {"web.fetch": [{"result": answer}]}})
    assert h.payload(run, "tool_result")["result"] == answer


# -- the gates ---------------------------------------------------------------------------------


def refusal(run: Run) -> str:
    assert run.status == "blocked"
    assert "tool_called" not in h.types(run)
    found = h.payload(run, "policy_decision")
    assert found["decision"] == "deny"
    assert h.payload(run, "policy_violation")["reason"] == (
        f"policy: {found['capability']} refused: {found['rule']}"
    )
    return str(found["rule"])


def test_a_tool_that_no_manifest_names_is_refused() -> None:
    assert refusal(call({"tool": "email.serch"})) == "no_manifest"


def test_a_write_needs_the_graphs_word() -> None:
    send: dict[str, Any] = {"tool": "email.send"}
    answer = {"email.send": [{"result": "sent"}]}
    graph = h.chain(("input", {}), ("tool", send), ("output", {}))
    assert refusal(h.run(graph, {"tools": answer})) == "side_effects_not_approved"
    send["approve_side_effects"] = True
    run = h.run(graph, {"tools": answer})
    assert h.payload(run, "tool_called")["decision"] == {"rule": "approve_side_effects"}


def test_a_tool_that_is_not_offered_is_refused() -> None:
    # A tool node offers exactly the tool that it names, so the gateway is asked directly.
    case = h.compiled(h.chain(("input", {}), ("python", {"callable": "m:f"}), ("output", {})))
    seen: list[Any] = []

    class Context:
        node_id = "n2"
        policy_revision = None
        environment = case.environment
        overlays = case.overlays
        graph = case.graph
        seed = 1

        def state(self, name: str) -> Any:
            assert name == "agents"
            return h.domain().start(self)  # type: ignore[arg-type]

        def emit(self, kind: str, payload: Any) -> int:
            seen.append((kind, payload["rule"]))
            return 0

    request = Request("email.search", {"query": "x"}, frozenset({"web.search"}))
    with pytest.raises(NodeBlocked, match=r"^policy: email\.search refused: not_offered"):
        call_tool(request, Context())  # type: ignore[arg-type]
    assert seen == [("policy_decision", "not_offered")]


PAY = {
    "tool": "payment.transfer",
    "args": {"to": "{args.to}", "amount": "{args.amount}"},
    "approve_side_effects": True,
}
ORDER = '{"to": "ACC-1", "amount": 10}'
PAID = {"payment.transfer": [{"result": "paid", "times": "any"}]}


def test_a_destructive_call_needs_an_approval_of_exactly_these_arguments() -> None:
    graph = h.chain(("input", {}), ("tool", PAY), ("output", {}))
    assert refusal(h.run(graph, {"user_input": ORDER, "tools": PAID})) == "approval_missing"
    graph = h.chain(("input", {}), ("approval_gate", {}), ("tool", PAY), ("output", {}))
    run = h.run(graph, {"user_input": ORDER, "tools": PAID, "approvals": {"n2": "approve"}})
    assert h.payload(run, "tool_called")["decision"] == {"rule": "approval"}


def bait(order: str) -> Run:
    """The person approves one transfer, then the harness swaps the order."""
    graph = h.chain(
        ("input", {}),
        ("approval_gate", {}),
        ("llm", {}),
        ("tool", PAY),
        ("output", {}),
    )
    environment = {
        "user_input": ORDER,
        "tools": PAID,
        "approvals": {"n2": "approve"},
        "llm": [{"respond": {"text": order}}],
    }
    return h.run(graph, environment)


def test_an_approval_is_not_spent_on_something_else() -> None:
    run = bait('{"to": "ACC-1", "amount": 1000}')
    assert refusal(run) == "approval_missing"
    # Both argument sets are shown: what was approved, and what was tried.
    assert h.payload(run, "approval_granted")["args"] == {"to": "ACC-1", "amount": 10}
    found = h.payload(run, "policy_decision")
    assert found["args"] == {"to": "ACC-1", "amount": 1000}
    assert found["approved"] == [h.payload(run, "approval_granted")["artifact_digest"]]
    # The twin: the same order, its keys the other way round, is covered.
    assert bait('{"amount": 10, "to": "ACC-1"}').status == "completed"


def test_an_approval_is_used_once() -> None:
    graph = h.chain(
        ("input", {}), ("approval_gate", {}), ("tool", {**PAY, "retries": 1}), ("output", {})
    )
    environment = {
        "user_input": ORDER,
        "tools": PAID,
        "approvals": {"n2": "approve"},
        "faults": {"payment.transfer": {"fail_after": {"first": 1}}},
    }
    run = h.run(graph, environment)
    assert run.status == "blocked"
    assert len(h.payloads(run, "tool_called")) == 1
    assert h.payload(run, "policy_decision")["rule"] == "approval_used"
    graph["nodes"][1]["config"] = {"uses": 2}
    again = h.run(graph, environment)
    assert again.status == "completed"
    assert [one["intent_id"] for one in h.payloads(again, "tool_called")] == ["n3#1", "n3#1"]


@pytest.mark.parametrize(
    ("decision", "gate", "delay", "rule"),
    [
        ({"decision": "approve", "expires_ms": 100}, {}, 100, "approval_stale"),
        ({"decision": "approve", "expires_ms": 101}, {}, 100, None),
        ("approve", {"expires_ms": 50}, 100, "approval_stale"),
        # The decision's own word wins over the gate's.
        ({"decision": "approve", "expires_ms": 500}, {"expires_ms": 50}, 100, None),
        ("approve", {}, 100, None),
    ],
)
def test_an_approval_expires_in_simulated_time(
    decision: Any, gate: dict[str, Any], delay: int, rule: str | None
) -> None:
    graph = {
        "id": "g",
        "nodes": [
            {"id": "n1", "type": "input"},
            {"id": "n2", "type": "approval_gate", "config": gate},
            {"id": "n3", "type": "tool", "config": {"tool": "email.search"}},
            {"id": "n4", "type": "output_parser"},
            {"id": "n5", "type": "tool", "config": PAY},
            {"id": "n6", "type": "output"},
        ],
        "edges": [
            {"from": "n1", "to": "n2"},
            {"from": "n2", "to": "n3"},
            {"from": "n2", "to": "n5"},
            {"from": "n3", "to": "n4"},
            {"from": "n5", "to": "n6"},
        ],
    }
    environment = {
        "user_input": ORDER,
        "tools": {**PAID, **SEARCH},
        "approvals": {"n2": decision},
        "faults": {"email.search": {"delay_ms": delay}},
    }
    run = h.run(graph, environment)
    if rule is None:
        assert run.status == "completed"
    else:
        assert run.status == "blocked"
        assert h.payload(run, "policy_decision")["rule"] == rule


def test_a_write_whose_own_approval_has_ended_is_refused_too() -> None:
    send = {"tool": "email.send", "approve_side_effects": True}
    decision = {"decision": "approve", "revoke_before": "n3"}
    run = h.run(
        h.chain(("input", {}), ("approval_gate", {}), ("tool", send), ("output", {})),
        {"approvals": {"n2": decision}, "tools": {"email.send": [{"result": "sent"}]}},
    )
    assert refusal(run) == "approval_stale"
    revoked = h.payload(run, "approval_revoked")
    assert revoked == {"artifact_digest": h.payload(run, "approval_granted")["artifact_digest"]}


def test_a_read_that_asks_for_approval_gets_no_free_pass() -> None:
    tools = h.manifest("records.read", safety={"side_effects": "read", "requires_approval": True})
    answer = {"records.read": [{"result": "x"}]}
    plain = h.chain(("input", {}), ("tool", {"tool": "records.read"}), ("output", {}))
    assert refusal(h.run(plain, {"tools": answer}, tools=tools)) == "approval_missing"


def test_the_policy_in_force_is_named_by_every_decision() -> None:
    run = call({"tool": "email.search"}, revision="2026-11")
    assert h.payload(run, "tool_called")["decision"] == {"rule": "read_only", "revision": "2026-11"}
    assert h.payload(call({"tool": "x.y"}, revision="2026-11"), "policy_decision")["revision"] == (
        "2026-11"
    )
    assert "revision" not in h.payload(call({"tool": "x.y"}), "policy_decision")


# -- answers that do not come ------------------------------------------------------------------


def test_a_tool_without_a_script_is_not_made_up() -> None:
    run = call({"tool": "web.search"})
    assert run.status == "unscripted"
    assert h.payload(run, "script_exhausted") == {"script": "web.search", "scripted": 0, "call": 1}


def test_an_empty_list_of_rules_is_an_empty_answer() -> None:
    graph = h.chain(("input", {}), ("tool", {"tool": "web.search"}), ("output", {}))
    run = h.run(graph, {"tools": {"web.search": []}})
    assert h.payload(run, "tool_result")["count"] == 0
    assert run.output == ""


def test_a_manifests_own_rules_answer_only_where_the_scenario_is_silent() -> None:
    tools = h.manifest("house.light", sim=[{"result": "on"}])
    graph = h.chain(("input", {}), ("tool", {"tool": "house.light"}), ("output", {}))
    run = h.run(graph, tools=tools)
    assert (run.output, run.leftovers) == ("on", [])
    scripted = {"tools": {"house.light": [{"match": {"contains": "zzz"}, "result": "off"}]}}
    silent = h.run(graph, scripted, tools=tools)
    assert silent.status == "unscripted"
    assert silent.leftovers == ["house.light[0]: 1 response not used"]


def test_a_scripted_error_is_an_error_of_the_tool() -> None:
    graph = h.chain(("input", {}), ("tool", {"tool": "web.search"}), ("output", {}))
    run = h.run(graph, {"tools": {"web.search": [{"raise": "503"}]}})
    assert run.status == "failed"
    assert h.payload(run, "tool_error")["error"] == "503"
    assert h.payload(run, "engine_error")["reason"] == "ToolError: web.search: 503"


@pytest.mark.parametrize(
    ("fault", "phase", "used"),
    [("fail_before", "before", 1), ("fail_after", "after", 2), ("malformed", "after", 2)],
)
def test_a_lost_call_is_retried_under_the_same_intent(fault: str, phase: str, used: int) -> None:
    graph = h.chain(("input", {}), ("tool", {"tool": "web.search", "retries": 1}), ("output", {}))
    rules = [{"result": "first"}, {"result": "second"}]
    run = h.run(
        graph, {"tools": {"web.search": rules}, "faults": {"web.search": {fault: {"first": 1}}}}
    )
    error = h.payload(run, "tool_error")
    assert (error["phase"], error["attempt"]) == (phase, 1)
    assert [one["intent_id"] for one in h.payloads(run, "tool_called")] == ["n2#1", "n2#1"]
    # A call that did not arrive uses up no answer; one whose answer was lost does.
    assert run.output == ("first" if used == 1 else "second")


def test_without_a_retry_that_is_left_the_run_fails() -> None:
    run = call(
        {"tool": "email.search", "retries": 2}, faults={"email.search": {"fail_before": "always"}}
    )
    assert run.status == "failed"
    assert [one["attempt"] for one in h.payloads(run, "tool_error")] == [1, 2, 3]


def test_a_delay_beyond_the_time_out_is_an_error() -> None:
    late = call(
        {"tool": "email.search", "timeout_ms": 99}, faults={"email.search": {"delay_ms": 100}}
    )
    assert late.status == "failed"
    assert h.payload(late, "tool_error")["error"] == "no answer within 99 ms"
    assert call({"tool": "email.search"}, faults={"email.search": {"delay_ms": 3000}}).status == (
        "completed"
    )
    assert call({"tool": "email.search"}, faults={"email.search": {"delay_ms": 3001}}).status == (
        "failed"
    )


def test_an_answer_may_arrive_twice_or_empty() -> None:
    twice = call({"tool": "email.search"}, faults={"email.search": {"duplicate_answer": "always"}})
    first, second = h.payloads(twice, "tool_result")
    assert second == {**first, "duplicate": True}
    assert twice.output == "found"
    empty = call({"tool": "email.search"}, faults={"email.search": {"empty_results": "always"}})
    assert h.payload(empty, "tool_result")["count"] == 0


def test_an_error_rate_strikes_every_tool_by_the_seed() -> None:
    config = {"tool": "email.search", "retries": 20}
    rates = {"tool_error_rate": 0.5}

    def attempts(seed: int) -> int:
        graph = h.chain(("input", {}), ("tool", config), ("output", {}))
        environment = {"tools": SEARCH, "faults": rates}
        return len(h.payloads(h.run(graph, environment, seed=seed), "tool_called"))

    counts = [attempts(seed) for seed in range(12)]
    assert counts == [attempts(seed) for seed in range(12)]
    assert len(set(counts)) > 1
    assert h.types(call(config, faults={"tool_error_rate": 0})).count("tool_error") == 0


def test_another_fault_does_not_move_the_draws_of_the_first() -> None:
    config = {"tool": "email.search", "retries": 20}
    one = {"email.search": {"fail_before": {"rate": 0.5}}}
    two = {"email.search": {"duplicate_answer": {"rate": 0.5}, "fail_before": {"rate": 0.5}}}
    assert len(h.payloads(call(config, faults=one), "tool_called")) == len(
        h.payloads(call(config, faults=two), "tool_called")
    )


# -- options -----------------------------------------------------------------------------------


def test_an_intent_may_be_named_by_the_node_or_the_manifest() -> None:
    tools = h.manifest("house.light", sim=[{"result": "on"}], intent="light {query}")
    graph = h.chain(("input", {}), ("tool", {"tool": "house.light"}), ("output", {}))
    run = h.run(graph, tools=tools)
    assert h.payload(run, "tool_called")["intent_id"] == "light Hello"
    graph["nodes"][1]["config"]["intent"] = "node {query}"
    run = h.run(graph, tools=tools)
    assert h.payload(run, "tool_called")["intent_id"] == "node Hello"


def test_arguments_that_the_manifest_refuses_are_told_as_that() -> None:
    """Its intent asks for an argument that is not there; the schema says so first."""
    schema = {"type": "object", "properties": {"order": {}}, "required": ["order"]}
    tools = h.manifest("house.pay", args=schema, sim=[{"result": "on"}], intent="for {args.order}")
    config = {"tool": "house.pay", "args": {"ordr": "{query}"}}
    graph = h.chain(("input", {}), ("tool", config), ("output", {}))
    run = h.run(graph, tools=tools)
    assert run.status == "failed"
    said = h.payload(run, "tool_error")
    assert (said["phase"], said["intent_id"]) == ("validate", "n2#1")
    assert said["error"].startswith("arguments: ")
    assert "order" in said["error"]
    # The twin: arguments that the schema lets pass, and an intent that they cannot fill.
    del schema["required"]
    tools = h.manifest("house.pay", args=schema, sim=[{"result": "on"}], intent="for {args.order}")
    run = h.run(graph, tools=tools)
    assert h.payload(run, "engine_error")["reason"] == (
        "TemplateError: house.pay: intent: the input has no 'order'"
    )


def test_mode_is_accepted_with_its_one_value() -> None:
    assert call({"tool": "email.search", "mode": "sim"}).status == "completed"
    found = h.remarks(h.chain(("tool", {"tool": "email.search", "mode": "live"})))[0]
    assert (found.level, found.message) == ("error", 'must be sim (got "live")')


def test_the_keys_of_live_calls_are_accepted_and_said_to_do_nothing() -> None:
    from pytest_evarness.domains.agents.node.tool import INERT_KEYS

    config: dict[str, Any] = {"tool": "email.search", **dict.fromkeys(INERT_KEYS, "x")}
    graph = h.chain(("input", {}), ("tool", config), ("output", {}))
    said = [one.path[-1] for one in h.remarks(graph) if one.code == "inert_key"]
    assert sorted(str(key) for key in said) == sorted(INERT_KEYS)
    plain, inert = call({"tool": "email.search"}), call(config)
    assert [event.text for event in plain.events] == [event.text for event in inert.events]


@pytest.mark.parametrize(
    "config",
    [{}, {"tool": ""}, {"tool": "x", "retries": -1}, {"tool": "x", "timeout_ms": 0}, {"tol": "x"}],
)
def test_a_configuration_that_is_none_is_refused(config: dict[str, Any]) -> None:
    assert h.codes(h.chain(("tool", config)))[0][0] == "error"


def test_nothing_of_one_run_is_left_for_the_next() -> None:
    # Cursors, counters and approvals start afresh, also with one compiled case.
    graph = h.chain(("input", {}), ("approval_gate", {}), ("tool", PAY), ("output", {}))
    case = h.compiled(
        graph,
        {
            "user_input": ORDER,
            "approvals": {"n2": "approve"},
            "tools": {"payment.transfer": [{"result": "paid", "times": 1}]},
        },
    )
    first, second = execute(case, h.registry()), execute(case, h.registry())
    assert first.status == second.status == "completed"
    assert first.trace_digest == second.trace_digest

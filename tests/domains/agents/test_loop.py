"""A loop does what its model decides, within its tools, its guards and its turns, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.c1 import sha256_text
from pytest_evarness.core.case import Budget
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

PARIS = {"id": "w1", "subject": "Paris", "text": "Paris is the capital of France."}
SEARCH = {"action": {"tool": "web.search", "input": "capital of France"}}
SAY = {"respond": {"text": "Paris is the capital [1]"}}


def config(**more: Any) -> dict[str, Any]:
    return {"tools": ["web.search"], **more}


def loop(
    *react: dict[str, Any],
    given: dict[str, Any] | None = None,
    tools: Any = None,
    parts: dict[str, Any] | None = None,
    **environment: Any,
) -> Run:
    graph = h.chain(("input", {}), ("loop_controller", given or config()), ("output", {}))
    answers = {"web.search": [{"result": [PARIS], "times": "any"}]} if tools is None else tools
    written = {"user_input": "Capital?", "react": list(react), "tools": answers, **environment}
    return h.run(graph, written, **(parts or {}))


def reasons(run: Run) -> list[str]:
    return [found["reason"] for found in h.payloads(run, "loop_guard")]


def asked(run: Run) -> list[str]:
    return [found["text"] for found in h.payloads(run, "llm_request")]


def stopped(run: Run) -> dict[str, Any]:
    return h.payload(run, "loop_finished")


# -- turns ----------------------------------------------------------------------------------------


def test_a_loop_asks_calls_and_answers() -> None:
    run = loop(SEARCH, SAY)
    assert run.output == "Paris is the capital [1]"
    own = [event.type for event in run.events if event.node_id == "n2"]
    assert own == [
        "node_started",
        "loop_started",
        *("loop_iteration", "llm_request", "llm_response", "tool_called", "tool_result"),
        *("loop_iteration", "llm_request", "llm_response", "grounding_checked"),
        "loop_finished",
        "node_finished",
    ]
    assert h.payload(run, "loop_started") == {"tools": ["web.search"], "max_iterations": 4}
    assert [one["iteration"] for one in h.payloads(run, "loop_iteration")] == [1, 2]
    assert stopped(run) == {"iterations": 2, "stopped": "answer"}
    assert run.leftovers == []


def test_the_model_reads_all_that_went_before() -> None:
    first, second = asked(loop(SEARCH, SAY, given=config(system="Be brief.")))
    assert first == "Be brief.\n\nCapital?"
    assert second == (
        f'{first}\nAction: web.search {{"query":"capital of France"}}\n'
        "Observation: [1] Paris: Paris is the capital of France."
    )


def test_a_request_of_a_loop_says_what_was_asked() -> None:
    run = loop(SEARCH, SAY)
    requests, responses = h.payloads(run, "llm_request"), h.payloads(run, "llm_response")
    assert requests[0] == {
        "provider": "sim:helpful-v1",
        "prompt_tokens": 2,
        "prompt_digest": sha256_text("Capital?"),
        "text": "Capital?",
    }
    decision = {"tool": "web.search", "args": {"query": "capital of France"}}
    assert [one.get("decision") for one in responses] == [decision, None]
    assert responses[1]["preview"] == run.output
    spent = sum(one["prompt_tokens"] for one in requests) + sum(one["tokens"] for one in responses)
    assert h.payload(run, "run_finished")["total_tokens"] == spent


def test_what_a_tool_found_changes_what_is_decided() -> None:
    rules = (
        SEARCH,
        {"match": {"contains": "capital of france"}, "respond": {"text": "Paris"}},
        {"match": {"contains": "nothing found"}, "respond": {"text": "nobody knows"}},
    )
    given = config(require_evidence=False)
    assert loop(*rules[:2], given=given).output == "Paris"
    empty: dict[str, Any] = {"web.search": [{"result": []}]}
    rule = {**SEARCH, "action": {"tool": "web.search", "input": "x"}}
    assert loop(rule, *rules[1:], given=given, tools=empty).output == "nobody knows"


def test_a_text_is_the_query_and_a_mapping_the_arguments() -> None:
    fetch = {"action": {"tool": "web.fetch", "input": {"url": "https://x.example"}}}
    given = config(tools=["web.search", "web.fetch"])
    tools = {"web.search": [{"result": [PARIS]}], "web.fetch": [{"result": [PARIS]}]}
    run = loop(SEARCH, fetch, SAY, given=given, tools=tools)
    assert [one["args"] for one in h.payloads(run, "tool_called")] == [
        {"query": "capital of France"},
        {"url": "https://x.example"},
    ]


def test_a_response_may_ask_for_a_call_as_well() -> None:
    call = {"tool": "web.search", "args": {"query": "capital of France"}}
    run = loop({"respond": {"tool_call": call}}, SAY)
    assert h.types(run) == h.types(loop(SEARCH, SAY))


def test_a_tool_is_offered_and_asked_for_by_any_of_its_names() -> None:
    action = {"action": {"tool": "search_web", "input": "x"}}
    run = loop(action, SAY, given=config(tools=["web_search"]))
    assert h.payload(run, "loop_started")["tools"] == ["web.search"]
    assert h.payload(run, "tool_called")["tool"] == "web.search"
    assert h.payloads(run, "llm_response")[0]["decision"]["tool"] == "search_web"


def test_a_fault_of_the_model_fails_the_run() -> None:
    run = loop({"respond": {"error": "overloaded"}})
    assert (run.status, h.payload(run, "llm_error")) == ("failed", {"error": "overloaded"})
    assert h.payload(run, "engine_error")["reason"] == "ModelError: overloaded"


def test_what_arrives_cut_is_neither_a_call_nor_an_answer() -> None:
    run = loop(SEARCH, SEARCH, SAY, faults={"llm": {"truncate": {"first": 1}}})
    assert run.output == "Paris is the capital [1]"
    assert len(h.payloads(run, "tool_called")) == 1
    assert "arrived cut" in asked(run)[1]
    cut = loop(SEARCH, SAY, given=config(max_iterations=2), faults={"llm": {"truncate": "always"}})
    assert (cut.output, stopped(cut)["stopped"]) == ("", "max_iterations")


# -- the script -----------------------------------------------------------------------------------


def test_a_rule_is_used_once_and_times_says_how_often() -> None:
    run = loop(SEARCH)
    assert (run.status, run.error) == (
        "unscripted",
        "1 response scripted, call 2 made, script react",
    )
    assert h.payload(run, "script_exhausted")["script"] == "react"
    other = {"action": {"tool": "web.search", "input": "x"}, "times": 2}
    assert loop(other, SAY).output == "Paris is the capital [1]"
    assert loop({**other, "times": "any"}).output == "[1] Paris: Paris is the capital of France."


def test_what_no_loop_came_to_is_left_over() -> None:
    run = loop(SEARCH, SAY, {"respond": {"text": "never"}})
    assert run.leftovers == ["react[2]: 1 response not used"]
    unread = h.run(h.chain(("input", {}), ("output", {})), {"react": [SAY]})
    assert unread.leftovers == ["react[0]: 1 response not used"]


def test_a_default_response_is_of_the_llm_node_alone() -> None:
    assert loop(default_response={"text": "x"}).status == "unscripted"


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ({"contains": "CAPITAL?"}, True),
        ({"query_contains": "capital?"}, True),
        ({"equals": "capital?"}, True),
        ({"equals": "capital"}, False),
        ({"pattern": "^cap.+[?]$"}, True),
        ({"turn": 1}, True),
        ({"turn": 2}, False),
        ({"provider": "sim:helpful-v1"}, True),
        ({"provider": "sim:other"}, False),
        ({"params": {"tier": 1}}, True),
        ({"params": {"tier": 2}}, False),
    ],
)
def test_a_rule_asks_what_a_rule_of_a_model_can_ask(match: dict[str, Any], fits: bool) -> None:
    rule = {"match": match, "respond": {"text": "yes"}}
    run = loop(rule, given={"grounding_check": "off"}, params={"tier": 1})
    assert run.output == ("yes" if fits else None)
    assert (run.status == "unscripted") is not fits


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({}, "must hold exactly one decision (got {}; action or respond)"),
        ({**SEARCH, **SAY}, "must hold exactly one decision"),
        ({"action": {"tool": "x"}}, "required key 'input' is missing"),
        ({"action": {"tool": "x", "input": None}}, "must be what the tool is given (got null; "),
        ({"action": {"tool": "x", "input": 3}}, "a text, which is the argument 'query', or a map"),
        ({"action": {"tool": "", "input": "x"}}, "action.tool"),
        ({"action": {"tool": "x", "inputs": "x"}}, "write 'input'"),
        ({**SAY, "time": 1}, "write 'times'"),
        ({**SAY, "times": 0}, "must be how often it is used"),
        ({**SAY, "match": {}}, "asks nothing"),
        ({"raise": "x"}, "unknown key (got 'raise'"),
    ],
)
def test_a_rule_that_decides_nothing_is_refused(rule: dict[str, Any], problem: str) -> None:
    _, faults = h.parse_environment({"react": [rule]})
    assert faults
    assert any(
        problem in f"{'.'.join(map(str, fault.path))}: {fault.text} {fault.fix}" for fault in faults
    ), [fault.text for fault in faults]


# -- guards ---------------------------------------------------------------------------------------


def test_a_tool_outside_the_list_is_refused_and_blocks() -> None:
    run = loop({"action": {"tool": "email.search", "input": "x"}})
    assert run.status == "blocked"
    assert reasons(run) == ["tool_not_allowed"]
    refused = h.payload(run, "policy_decision")
    assert (refused["capability"], refused["rule"]) == ("email.search", "not_offered")
    assert h.payloads(run, "tool_called") == []
    assert stopped(run) == {"iterations": 1, "stopped": "blocked"}
    # The twin: offered, it is called.
    given = config(tools=["web.search", "email.search"])
    tools = {"email.search": [{"result": [PARIS]}]}
    twin = loop({"action": {"tool": "email.search", "input": "x"}}, SAY, given=given, tools=tools)
    assert twin.status == "completed"


def test_a_tool_that_nobody_knows_is_refused_as_well() -> None:
    run = loop({"action": {"tool": "no.such", "input": "x"}})
    assert (run.status, h.payload(run, "policy_decision")["rule"]) == ("blocked", "not_offered")
    offered = loop({"action": {"tool": "no.such", "input": "x"}}, given={"tools": ["no.such"]})
    assert h.payload(offered, "policy_decision")["rule"] == "no_manifest"
    assert reasons(offered) == []


def test_a_call_that_was_answered_is_not_made_again() -> None:
    run = loop(SEARCH, SEARCH, SAY)
    assert reasons(run) == ["repeated_action"]
    assert len(h.payloads(run, "tool_called")) == 1
    guard, called = h.payload(run, "loop_guard"), h.payload(run, "tool_called")
    assert (guard["tool"], guard["args_digest"]) == ("web.search", called["args_digest"])
    assert guard["iteration"] == 2
    assert "do something else" in asked(run)[2]
    # The twin: without the guard both are made.
    twice = loop(SEARCH, SEARCH, SAY, given=config(dedup_guard=False))
    assert reasons(twice) == []
    assert [one["intent_id"] for one in h.payloads(twice, "tool_called")] == ["n2#1", "n2#2"]


def test_other_arguments_or_another_tool_are_no_repetition() -> None:
    other = {"action": {"tool": "web.search", "input": "France"}}
    mail = {"action": {"tool": "email.search", "input": "capital of France"}}
    given = config(tools=["web.search", "email.search"])
    tools = {"web.search": [{"result": [PARIS], "times": "any"}], "email.search": []}
    run = loop(SEARCH, other, mail, SAY, given=given, tools=tools)
    assert reasons(run) == []
    assert len(h.payloads(run, "tool_called")) == 3


def test_an_answer_without_evidence_is_sent_back() -> None:
    run = loop({"respond": {"text": "Rome"}}, SEARCH, SAY)
    assert reasons(run) == ["final_without_evidence"]
    assert run.output == "Paris is the capital [1]"
    assert asked(run)[1].splitlines()[1:] == [
        "Answer: Rome",
        "Note: an answer needs evidence: call a tool that finds some",
    ]
    # The twins: an option, and a loop that has no tool to find any.
    assert loop({"respond": {"text": "Rome"}}, given=config(require_evidence=False)).output
    assert loop({"respond": {"text": "Rome"}}, given={"tools": []}).output == "Rome"


def test_who_found_nothing_is_to_search_again_before_anything_else() -> None:
    tools = {"web.search": [{"match": {"contains": "france"}, "result": []}, {"result": [PARIS]}]}
    again = {"action": {"tool": "web.search", "input": "Paris"}}
    unknown = {"respond": {"text": "unknown"}}
    run = loop(SEARCH, unknown, again, SAY, tools=tools)
    assert reasons(run) == ["empty_search_retry"]
    assert "search again in other words" in asked(run)[2]
    # Who does not search again has no evidence, and each search in vain is told once.
    stubborn = loop(SEARCH, unknown, unknown, unknown, tools={"web.search": []})
    assert reasons(stubborn) == [
        "empty_search_retry",
        "final_without_evidence",
        "final_without_evidence",
    ]
    assert stopped(stubborn)["stopped"] == "max_iterations"
    free = loop(SEARCH, unknown, tools={"web.search": []}, given=config(require_evidence=False))
    assert (free.output, reasons(free)) == ("unknown", [])


# -- the end of the turns -------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [1, 3])
def test_a_loop_ends_after_its_turns(turns: int) -> None:
    given = config(max_iterations=turns, dedup_guard=False)
    run = loop({**SEARCH, "times": "any"}, given=given)
    assert len(h.payloads(run, "loop_iteration")) == turns
    assert stopped(run) == {"iterations": turns, "stopped": "max_iterations"}
    assert run.status == "completed"


def test_a_loop_without_an_answer_gives_the_best_that_it_has() -> None:
    rome = {"respond": {"text": "Rome"}}
    assert loop(rome, given=config(max_iterations=1)).output == "Rome"
    found = loop(SEARCH, given=config(max_iterations=1))
    assert found.output == "[1] Paris: Paris is the capital of France."


def test_a_partial_answer_says_that_it_is_one() -> None:
    given = config(max_iterations=1, on_stop="answer_partial")
    assert loop(SEARCH, given=given).output == (
        "No answer after 1 turn. Found so far:\n[1] Paris: Paris is the capital of France."
    )
    rome = loop({"respond": {"text": "Rome"}}, given={**given, "max_iterations": 1})
    assert rome.output == "No answer after 1 turn. Found so far:\nnothing"


def test_a_loop_that_is_to_fail_blocks_without_an_answer() -> None:
    run = loop(SEARCH, given=config(max_iterations=1, on_stop="fail"))
    assert (run.status, run.output) == ("blocked", None)
    reason = h.payload(run, "policy_violation")["reason"]
    assert reason == "loop_controller: no answer after 1 turn"
    assert stopped(run) == {"iterations": 1, "stopped": "max_iterations"}
    # The twin: with an answer it does not.
    assert loop(SEARCH, SAY, given=config(on_stop="fail")).status == "completed"


# -- budgets --------------------------------------------------------------------------------------


def two_loops(budget: Budget | None = None, **params: Any) -> Run:
    node = ("loop_controller", config(max_iterations=3, dedup_guard=False))
    graph = h.chain(("input", {}), node, node, ("output", {}), **params)
    environment = {
        "react": [{**SEARCH, "times": "any"}],
        "tools": {"web.search": [{"result": [PARIS], "times": "any"}]},
    }
    parts: dict[str, Any] = {} if budget is None else {"budget": budget}
    return h.run(graph, environment, **parts)


def test_turns_of_all_loops_are_bounded_by_the_budget() -> None:
    run = two_loops(Budget(loops=4))
    assert run.status == "blocked"
    assert h.payload(run, "budget_breached") == {"budget": "loops", "limit": 4}
    assert len(h.payloads(run, "loop_iteration")) == 4
    assert h.types(run)[-3:] == ["budget_breached", "policy_violation", "run_failed"]
    # The twin: one more than that is enough for both.
    assert two_loops(Budget(loops=6)).status == "completed"


def test_the_default_budget_is_the_graphs_for_each_loop() -> None:
    assert two_loops().status == "completed"
    assert two_loops(max_loops=3).status == "completed"
    run = two_loops(max_loops=2)
    assert h.payload(run, "budget_breached") == {"budget": "loops", "limit": 4}


# -- what a configuration may be ------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"tools": "web.search"},
        {"tools": [""]},
        {"max_iterations": 0},
        {"max_iterations": 101},
        {"on_stop": "give_up"},
        {"grounding_check": True},
        {"grounding_check": "block"},
        {"grounding_retries": -1},
        {"grounding_rules": {"overlap": 0.3}},
        {"grounding_rules": {"min_overlap": 1.5}},
        {"grounding_rules": ["numbers"]},
        {"timeout_ms": 0},
        {"tool_mode": "live"},
        {"dedup": True},
        {"temperature": 0.1},
    ],
)
def test_a_configuration_that_is_none_is_refused(given: dict[str, Any]) -> None:
    found = h.remarks(h.chain(("input", {}), ("loop_controller", given), ("output", {})))
    (error,) = [one for one in found if one.level == "error"]
    assert next(iter(given)) in error.message or next(iter(given)) in str(error.path)


def test_the_defaults_are_the_published_ones() -> None:
    schema: Any = h.registry().node_types.resolve("loop_controller").config_schema
    assert {
        key: value["default"] for key, value in schema["properties"].items() if "default" in value
    } == {
        **dict.fromkeys(INERT),
        "system": "",
        "max_iterations": 4,
        "dedup_guard": True,
        "on_stop": "best_effort",
        "require_evidence": True,
        "grounding_check": "warn",
        "grounding_retries": 1,
        "approve_side_effects": False,
        "timeout_ms": 3000,
        "tool_mode": "sim",
    }


INERT = (
    "allow_hosts",
    "root",
    "sandbox",
    "egress",
    "search_provider",
    "searxng_url",
    "search_category",
    "freshness",
    "max_results",
    "search_options",
    "api_key",
)


@pytest.mark.parametrize("key", INERT)
def test_published_live_keys_are_accepted_and_said_to_do_nothing(key: str) -> None:
    def codes(given: dict[str, Any]) -> list[str]:
        graph = h.chain(("input", {}), ("loop_controller", given), ("output", {}))
        return [code for _, code, _ in h.codes(graph)]

    assert codes(config(tool_mode="sim", **{key: "x"})) == ["inert_key"]
    assert codes(config(tool_mode="sim")) == []


def test_a_node_with_every_published_key_loads() -> None:
    given: dict[str, Any] = {
        "tools": ["email_search", "web.search"],
        "system": "Be brief.",
        "max_iterations": 4,
        "dedup_guard": True,
        "on_stop": "best_effort",
        "require_evidence": True,
        "grounding_check": "warn",
        "grounding_rules": {},
        "grounding_retries": 1,
        "approve_side_effects": False,
        "timeout_ms": 3000,
        "tool_mode": "sim",
        **dict.fromkeys(INERT, None),
    }
    found = h.codes(h.chain(("input", {}), ("loop_controller", given), ("output", {})))
    assert set(found) == {("warning", "inert_key", "n2")}
    # Retries of a check that only warns have no effect either.
    assert len(found) == len(INERT) + 1
    assert loop(SEARCH, SAY, given=given).output == "Paris is the capital [1]"

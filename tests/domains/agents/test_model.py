"""The simulated model answers from its script; what it was asked is in the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.c1 import sha256_text
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run


def ask(config: dict[str, Any] | None = None, **environment: Any) -> Run:
    graph = h.chain(("input", {}), ("llm", config or {}), ("output", {}))
    return h.run(graph, {"default_response": {"text": "fine"}, **environment})


def test_a_request_says_what_was_asked() -> None:
    run = ask({"system": "Be kind.", "temperature": 0.5, "max_tokens": 7}, user_input="Why?")
    assert h.payload(run, "llm_request") == {
        "provider": "sim:helpful-v1",
        "temperature": 0.5,
        "max_tokens": 7,
        "prompt_tokens": 3,
        "prompt_digest": sha256_text("Be kind.\n\nWhy?"),
        "text": "Be kind.\n\nWhy?",
    }
    assert h.payload(run, "llm_response") == {"tokens": 1, "cost_usd": 0.0, "preview": "fine"}
    assert h.payload(run, "run_finished")["total_tokens"] == 4


def test_the_defaults_are_the_published_ones() -> None:
    request = h.payload(ask(), "llm_request")
    assert (request["temperature"], request["max_tokens"]) == (0.2, 512)


def test_an_answer_is_cut_at_max_tokens() -> None:
    run = ask({"max_tokens": 2}, default_response={"text": "0123456789AB"})
    assert run.output == "0123456789A"
    assert h.payload(run, "llm_response") == {
        "tokens": 2,
        "cost_usd": 0.0,
        "preview": "0123456789A",
        "truncated": True,
    }
    assert "truncated" not in h.payload(ask({"max_tokens": 2}), "llm_response")


def test_a_tool_call_is_handed_on_as_json() -> None:
    call = {"tool": "web.search", "args": {"query": "x"}}
    run = ask(default_response={"tool_call": call})
    assert run.output == '{"args":{"query":"x"},"tool":"web.search"}'
    assert h.payload(run, "llm_response")["decision"] == call


def test_a_call_that_arrives_cut_is_nobodys_decision() -> None:
    call = {"tool": "web.search", "args": {"query": "x"}}
    run = ask(default_response={"tool_call": call}, faults={"llm": {"truncate": "always"}})
    assert run.output == '{"args":{"query":"x"}'
    assert "decision" not in h.payload(run, "llm_response")


@pytest.mark.parametrize(
    "environment",
    [
        {"llm": [{"respond": {"error": "overloaded"}}]},
        {"llm": [{"raise": "overloaded"}]},
        {"default_response": {"error": "overloaded"}},
    ],
)
def test_a_scripted_error_ends_the_run_as_failed(environment: dict[str, Any]) -> None:
    run = ask(**environment)
    assert run.status == "failed"
    assert h.payload(run, "llm_error") == {"error": "overloaded"}
    assert h.payload(run, "engine_error")["reason"] == "ModelError: overloaded"


def test_a_model_without_a_script_is_not_made_up() -> None:
    graph = h.chain(("input", {}), ("llm", {}), ("output", {}))
    run = h.run(graph)
    assert run.status == "unscripted"
    assert h.payload(run, "script_exhausted") == {"script": "llm", "scripted": 0, "call": 1}
    assert run.error == "0 responses scripted, call 1 made, script llm"


def test_a_second_call_on_one_scripted_response_stops_the_run() -> None:
    # It neither repeats the last answer nor answers with an empty text.
    graph = h.chain(("input", {}), ("llm", {}), ("llm", {}), ("output", {}))
    run = h.run(graph, {"llm": [{"respond": {"text": "once"}, "times": 1}]})
    assert run.status == "unscripted"
    assert run.error == "1 response scripted, call 2 made, script llm"
    assert h.types(run)[-1] == "script_exhausted"
    # The twin: with a second response it completes.
    two = [{"respond": {"text": "once"}}, {"respond": {"text": "twice"}}]
    assert h.run(graph, {"llm": two}).output == "twice"


@pytest.mark.parametrize(
    ("fault", "error"), [("error", "reported an error"), ("timeout", "in time")]
)
def test_an_injected_model_fault_fails_the_run(fault: str, error: str) -> None:
    run = ask(faults={"llm": {fault: "always"}})
    assert run.status == "failed"
    assert error in h.payload(run, "llm_error")["error"]
    assert ask(faults={"llm": {fault: {"rate": 0}}}).status == "completed"


def test_an_injected_truncation_halves_the_answer() -> None:
    run = ask(faults={"llm": {"truncate": {"first": 1}}}, default_response={"text": "abcdef"})
    assert run.output == "abc"
    assert h.payload(run, "llm_response")["truncated"] is True


def test_top_p_is_accepted_and_said_to_do_nothing() -> None:
    graph = h.chain(("input", {}), ("llm", {"top_p": 0.9}), ("output", {}))
    assert ("warning", "inert_key", "n2") in h.codes(graph)
    assert h.run(graph, {"default_response": {"text": "x"}}).output == "x"
    plain = h.chain(("input", {}), ("llm", {}), ("output", {}))
    assert ("warning", "inert_key", "n2") not in h.codes(plain)


@pytest.mark.parametrize("config", [{"temperature": 3}, {"max_tokens": 0}, {"max_token": 5}])
def test_a_configuration_that_is_none_is_refused(config: dict[str, Any]) -> None:
    assert [level for level, _, _ in h.codes(h.chain(("llm", config)))][:1] == ["error"]


def test_a_long_text_is_cut_in_the_event_and_whole_for_the_model() -> None:
    text = "é" * 5000
    run = ask(user_input=text, default_response={"text": "x" * 9000}, config={"max_tokens": 4000})
    request = h.payload(run, "llm_request")
    assert request["truncated"] is True
    assert request["text"] == "é" * 2048
    assert request["prompt_digest"] == sha256_text(text)
    assert run.output is not None


def test_an_event_says_which_rules_did_not_match_and_an_exhausted_script_says_none() -> None:
    rules = [{"match": {"contains": "nothing"}, "respond": {"text": "x"}}]
    run = h.run(h.chain(("input", {}), ("llm", {}), ("output", {})), {"llm": rules})
    payload = h.payload(run, "script_exhausted")
    assert payload["detail"] == (
        "no rule of llm matches call 1; 1 rule did not match: contains 'nothing'"
    )
    assert run.error == "1 response scripted, call 1 made, script llm"

"""The published harnesses, and our own of the same shape, leave exactly the events they promise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.domains.agents.manifest import parse_manifests
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.run import Run

PUBLISHED = pytest.param(
    h.PUBLISHED,
    id="published",
    marks=pytest.mark.skipif(not h.PUBLISHED.is_dir(), reason="the published data is not here"),
)
OURS = pytest.param(h.PATTERNS, id="ours")
BOTH = pytest.mark.parametrize("where", [PUBLISHED, OURS])

PREFIX = [
    "run_started",
    "node_started",
    "input_received",
    "node_finished",
    "node_started",
    "intent_routed",
    "node_finished",
    "node_started",
]


def send(where: Path, **environment: Any) -> Run:
    graph, fixture = h.pattern("approval_gated_send", "send", where)
    return h.run(graph, {**fixture, **environment})


@BOTH
def test_without_a_decision_ten_events_end_in_a_pause(where: Path) -> None:
    run = send(where)
    assert run.status == "paused"
    assert h.types(run) == [*PREFIX, "approval_requested", "run_paused"]
    assert run.pending is not None
    assert run.pending["node"] == "n3"


@BOTH
def test_an_approved_send_leaves_twenty_two_events(where: Path) -> None:
    run = send(where, approvals={"n3": "approve"})
    assert run.status == "completed"
    assert h.types(run) == [
        *PREFIX,
        "approval_granted",
        "node_finished",
        "node_started",
        "tool_called",
        "tool_result",
        "node_finished",
        "node_started",
        "node_finished",
        "node_started",
        "audit_flushed",
        "node_finished",
        "node_started",
        "node_finished",
        "run_finished",
    ]
    assert len(run.events) == 22
    assert run.output is not None
    assert run.output.startswith("Delivered to ")


@BOTH
def test_a_rejected_send_leaves_eleven_events_and_sends_nothing(where: Path) -> None:
    run = send(where, approvals={"n3": "reject"})
    assert run.status == "blocked"
    assert h.types(run) == [*PREFIX, "approval_rejected", "policy_violation", "run_failed"]


@BOTH
def test_the_events_before_the_decision_do_not_depend_on_it(where: Path) -> None:
    paused, approved = send(where), send(where, approvals={"n3": "approve"})
    assert [event.text for event in paused.events[:8]] == [
        event.text for event in approved.events[:8]
    ]
    # The twin: the ninth event is where they part.
    assert paused.events[8].text != approved.events[8].text


@BOTH
def test_what_is_approved_is_what_is_sent(where: Path) -> None:
    run = send(where, approvals={"n3": {"decision": "approve", "approver": "alice"}})
    granted, called = h.payload(run, "approval_granted"), h.payload(run, "tool_called")
    assert granted["artifact_digest"] == called["args_digest"]
    assert granted["approver"] == "alice"
    assert called["decision"] == {"rule": "approval"}
    assert h.payload(send(where), "approval_requested")["artifact_digest"] == called["args_digest"]


@BOTH
def test_the_happy_question_is_answered(where: Path) -> None:
    graph, fixture = h.pattern("governed_email_assistant", "happy", where)
    run = h.run(graph, fixture)
    assert run.status == "completed"
    assert run.leftovers == []
    assert "vacation days" in (run.output or "")
    assert h.without(h.types(run), "node_started", "node_finished") == [
        "run_started",
        "input_received",
        *(["memory_read"] if where == h.PUBLISHED else []),
        "intent_routed",
        "interceptor_applied",
        "interceptor_applied",
        "tool_called",
        "tool_result",
        "retrieval_performed",
        *(["memory_read"] if where == h.PATTERNS else []),
        "context_snapshot",
        "prompt_assembled",
        "llm_request",
        "llm_response",
        "interceptor_applied",
        "interceptor_applied",
        "interceptor_applied",
        "run_finished",
    ]


@BOTH
def test_the_forbidden_request_is_stopped_before_the_model_is_asked(where: Path) -> None:
    graph, fixture = h.pattern("governed_email_assistant", "failure", where)
    run = h.run(graph, fixture)
    kinds = h.types(run)
    assert run.status == "blocked"
    assert kinds.index("redaction_applied") < kinds.index("policy_violation")
    assert "llm_request" not in kinds
    # The answer that must never come about is listed as unused.
    assert run.leftovers == ["llm[0]: 1 response not used"]


@pytest.mark.parametrize(
    "name", ["single_shot_qa", "approval_gated_send", "governed_email_assistant", "refund_desk"]
)
def test_a_packaged_graph_gives_lint_nothing_to_say(name: str) -> None:
    graph = h.read(h.PATTERNS / name / "graph.json")
    assert [one.message for one in h.remarks(graph)] == []


@pytest.mark.skipif(not h.PUBLISHED.is_dir(), reason="the published data is not here")
@pytest.mark.parametrize("name", ["approval_gated_send", "governed_email_assistant"])
def test_a_published_graph_has_no_errors(name: str) -> None:
    remarks = h.remarks(h.read(h.PUBLISHED / name / "graph.json"))
    assert [one for one in remarks if one.level == "error"] == []


def test_every_packaged_fixture_is_listed_and_loads() -> None:
    for name, pattern in h.registry().patterns.items():
        files = sorted(path.stem for path in (pattern.folder / "fixtures").glob("*.yaml"))
        assert files == sorted(pattern.fixtures), name
        for fixture in pattern.fixtures:
            graph, environment = h.pattern(name, fixture)
            own = pattern.folder / "tools.yaml"
            tools = parse_manifests(h.read(own))[0] if own.is_file() else {}
            assert h.compiled(graph, environment, tools=tools).digest.startswith("sha256:")


def test_the_single_shot_answer() -> None:
    graph, fixture = h.pattern("single_shot_qa", "answer")
    run = h.run(graph, fixture)
    assert run.output == "Oslo is the capital of Norway."
    assert h.payload(run, "llm_request")["text"] == "What is the capital of Norway?"

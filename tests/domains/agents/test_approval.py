"""A gate asks, and what it is told is about exactly one act."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.domains.agents.flow import acts_behind, covered_calls
from pytest_evarness.domains.agents.manifest import parse_manifests
from pytest_evarness.domains.agents.text import digest_of_value
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_evarness.core.run import Run

SEND = ("tool", {"tool": "email.send", "approve_side_effects": True})
SENT = {"email.send": [{"result": "sent", "times": "any"}]}


def gate(config: dict[str, Any] | None = None, **environment: Any) -> Run:
    graph = h.chain(("input", {}), ("approval_gate", config or {}), SEND, ("output", {}))
    return h.run(graph, {"tools": SENT, **environment})


def test_a_request_shows_what_is_asked_and_what_for() -> None:
    run = gate({"prompt": "Send it?"}, user_input="Dear Dana")
    assert h.payload(run, "approval_requested") == {
        "prompt": "Send it?",
        "preview": "Dear Dana",
        "classification": "public",
        "artifact_digest": digest_of_value({"query": "Dear Dana"}),
        "tool": "email.send",
        "args": {"query": "Dear Dana"},
    }
    assert h.payload(run, "run_paused")["prompt"] == "Send it?"
    assert h.payload(gate(), "approval_requested")["prompt"] == "Approve this step?"


def test_a_grant_names_the_approver_where_there_is_one() -> None:
    assert h.payload(gate(approvals={"n2": "approve"}), "approval_granted")["approver"] == ""
    decision = {"decision": "approve", "approver": "alice"}
    assert h.payload(gate(approvals={"n2": decision}), "approval_granted")["approver"] == "alice"


def test_a_rejection_blocks_and_says_who_rejected() -> None:
    run = gate(approvals={"n2": {"decision": "reject", "approver": "bob"}})
    assert run.status == "blocked"
    found = h.payload(run, "approval_rejected")
    assert found == {"prompt": "Approve this step?", "decision": "reject", "approver": "bob"}
    assert "approver" not in h.payload(gate(approvals={"n2": "reject"}), "approval_rejected")


@pytest.mark.parametrize("when", ["classified", "personal_or_secret"])
def test_a_gate_whose_condition_is_not_met_does_not_ask(when: str) -> None:
    run = gate({"require_when": when})
    assert run.status == "completed"
    assert h.payload(run, "approval_skipped") == {"require_when": when, "classification": "public"}
    # It is therefore no gate to lint either.
    graph = h.chain(("input", {}), ("approval_gate", {"require_when": when}), SEND, ("output", {}))
    assert ("error", "ungated_side_effect", "n3") in h.codes(graph)
    assert ("warning", "gate_never_asks", "n2") in h.codes(graph)


TEXTS = {
    "public": "What is new?",
    "internal": "Summarise this, internal use.",
    "personal": "Write to ada@example.org.",
    "secret": "The password is swordfish.",
}


def conditional(when: str, classification: str, **environment: Any) -> Run:
    config = {"require_when": when}
    nodes = [("input", {}), ("data_classifier", {}), ("approval_gate", config)]
    graph = h.chain(*nodes, ("output", {}))
    return h.run(graph, {"user_input": TEXTS[classification], **environment})


@pytest.mark.parametrize(
    ("when", "asked"),
    [
        ("always", ["public", "internal", "personal", "secret"]),
        ("classified", ["internal", "personal", "secret"]),
        ("personal_or_secret", ["personal", "secret"]),
    ],
)
@pytest.mark.parametrize("classification", list(TEXTS))
def test_behind_a_classifier_a_gate_asks_by_the_class(
    when: str, asked: list[str], classification: str
) -> None:
    run = conditional(when, classification)
    if classification in asked:
        assert run.status == "paused"
        assert h.payload(run, "approval_requested")["classification"] == classification
        approved = conditional(when, classification, approvals={"n3": "approve"})
        assert approved.status == "completed"
        assert conditional(when, classification, approvals={"n3": "reject"}).status == "blocked"
    else:
        assert run.status == "completed"
        expected = {"require_when": when, "classification": classification}
        assert h.payload(run, "approval_skipped") == expected


def test_a_gate_that_may_not_ask_is_no_gate_on_every_path() -> None:
    before: list[Any] = [("input", {}), ("data_classifier", {})]
    conditional_gate = ("approval_gate", {"require_when": "personal_or_secret"})
    graph = h.chain(*before, conditional_gate, SEND, ("output", {}))
    found = h.codes(graph)
    assert ("error", "ungated_side_effect", "n4") in found
    (told,) = [one.message for one in h.remarks(graph) if one.code == "ungated_side_effect"]
    assert "(by n1 -> n2 -> n3 -> n4; 'n3' may not ask (require_when))" in told
    assert not [code for _, code, _ in found if code == "gate_never_asks"]
    # A classifier behind the gate makes it ask no more than none does.
    behind = h.chain(("input", {}), conditional_gate, ("data_classifier", {}), ("output", {}))
    assert ("warning", "gate_never_asks", "n2") in h.codes(behind)
    fine = h.codes(h.chain(*before, ("approval_gate", {}), SEND, ("output", {})))
    assert [code for level, code, _ in fine if level == "error"] == []


def test_a_gate_that_may_ask_covers_the_call_behind_it() -> None:
    config = {"require_when": "personal_or_secret"}
    nodes = [("input", {}), ("data_classifier", {"egress": "warn"}), ("approval_gate", config)]
    graph = h.chain(*nodes, SEND, ("output", {}))
    run = h.run(
        graph,
        {
            "user_input": TEXTS["personal"],
            "approvals": {"n3": "approve"},
            "tools": {"email.send": [{"result": "sent"}]},
        },
    )
    granted, called = h.payload(run, "approval_granted"), h.payload(run, "tool_called")
    assert granted["artifact_digest"] == called["args_digest"]
    assert called["decision"]["rule"] == "approval"


def test_what_a_conditional_gate_can_exercise() -> None:
    nodes = [
        ("input", {}),
        ("data_classifier", {}),
        ("approval_gate", {"require_when": "classified"}),
    ]
    graph = h.graph_of(h.chain(*nodes, ("output", {})))
    could = h.domain().coverage(graph, {})["approval branches"]
    assert could == ["n3:pending", "n3:approve", "n3:reject", "n3:skip"]
    run = conditional("classified", "public")
    did = h.domain().exercised(graph, [event.as_record() for event in run.events])
    assert did["approval branches"] == {"n3:skip"}
    asleep = h.graph_of(h.chain(("input", {}), nodes[2], ("output", {})))
    assert h.domain().coverage(asleep, {})["approval branches"] == []
    skipped = h.run(h.chain(("input", {}), nodes[2], ("output", {})))
    events = [event.as_record() for event in skipped.events]
    assert h.domain().exercised(asleep, events)["approval branches"] == frozenset()


@pytest.mark.parametrize(
    "decision",
    ["approved", "Approve", "yes", True, 1, None, [], {"decision": "approved"}, {"approver": "x"}],
)
def test_any_other_word_is_refused_when_the_case_is_read(decision: Any) -> None:
    _, faults = h.parse_environment({"approvals": {"n2": decision}})
    assert len(faults) == 1
    assert faults[0].path[:2] == ("approvals", "n2")


def test_a_slip_is_named_with_the_word_that_was_meant() -> None:
    _, faults = h.parse_environment({"approvals": {"n2": "approved", "n3": "Rejected"}})
    assert [fault.fix for fault in faults] == ["write 'approve'", "write 'reject'"]


@pytest.mark.parametrize("key", ["expires_ms", "revoke_before"])
def test_what_a_rejection_cannot_have_is_refused(key: str) -> None:
    value: Any = 5 if key == "expires_ms" else "n3"
    _, faults = h.parse_environment({"approvals": {"n2": {"decision": "reject", key: value}}})
    assert next(fault.text for fault in faults).startswith(f"'{key}' needs the decision 'approve'")


GRAPH = h.chain(
    ("input", {}),
    ("approval_gate", {}),
    ("python", {"callable": "m:f"}),
    SEND,
    ("output", {}),
)


@pytest.mark.parametrize(
    ("approvals", "fault"),
    [
        (
            {"n4": "approve"},
            "approvals.n4: a decision is for an approval gate (got 'n4'; gates: n2)",
        ),
        (
            {"n9": "reject"},
            "approvals.n9: a decision is for an approval gate (got 'n9'; gates: n2)",
        ),
        (
            {"n2": {"decision": "approve", "revoke_before": "n8"}},
            "approvals.n2.revoke_before: unknown node (got 'n8')",
        ),
        (
            {"n2": {"decision": "approve", "revoke_before": "n2"}},
            (
                "approvals.n2.revoke_before: the node works before the gate asks, so nothing would "
                "be revoked (got 'n2')"
            ),
        ),
        (
            {"n2": {"decision": "approve", "revoke_before": "n3"}},
            (
                "approvals.n2.revoke_before: nothing can be revoked before a node that runs other "
                "people's code (got 'n3')"
            ),
        ),
    ],
)
def test_a_decision_that_could_have_no_effect_is_refused(
    approvals: dict[str, Any], fault: str
) -> None:
    assert h.case_faults(GRAPH, {"approvals": approvals}) == [fault]
    assert h.case_faults(GRAPH, {"approvals": {"n2": "approve"}}) == []


def test_a_gate_that_covers_no_single_call_approves_its_input() -> None:
    nothing = h.chain(("input", {}), ("approval_gate", {}), ("output", {}))
    run = h.run(nothing, {"approvals": {"n2": "approve"}})
    found = h.payload(run, "approval_granted")
    assert found["artifact_digest"] == digest_of_value({"value": "Hello"})
    assert "args" not in found
    assert ("warning", "approval_covers_nothing", "n2") in h.codes(nothing)
    several = h.chain(("input", {}), ("approval_gate", {}), SEND, SEND, ("output", {}))
    run = h.run(several, {"approvals": {"n2": "approve"}, "tools": SENT})
    assert h.payload(run, "approval_granted")["artifact_digest"] == digest_of_value(
        {"value": "Hello"}
    )
    assert ("warning", "approval_covers_several", "n2") in h.codes(several)


def covered(*nodes: tuple[str, dict[str, Any]]) -> Mapping[str, tuple[str, ...]]:
    return covered_calls(h.graph_of(h.chain(*nodes)), h.overlays())


GATE: tuple[str, dict[str, Any]] = ("approval_gate", {})


def test_which_call_a_gate_covers() -> None:
    read = ("tool", {"tool": "email.search"})
    assert covered(("input", {}), GATE, read, SEND) == {"n2": ("n4",)}
    # Two persons approve one call; each call behind its own gate is that gate's.
    assert covered(("input", {}), GATE, GATE, SEND) == {"n2": ("n4",), "n3": ("n4",)}
    assert covered(("input", {}), GATE, SEND, GATE, SEND) == {"n2": ("n3",), "n4": ("n5",)}
    assert covered(("input", {}), GATE, SEND, SEND) == {"n2": ("n3", "n4")}
    assert covered(("input", {}), GATE, read) == {"n2": ()}


def test_a_gate_that_may_not_ask_takes_no_call_from_the_gate_before_it() -> None:
    def row(*between: tuple[str, dict[str, Any]]) -> dict[str, Any]:
        nodes = (("input", {}), ("data_classifier", {}), GATE, SEND, *between, SEND)
        return h.chain(*nodes, ("output", {}))

    may_not = row(("approval_gate", {"require_when": "classified"}))
    found = covered_calls(h.graph_of(may_not), h.overlays())
    assert found == {"n3": ("n4", "n6"), "n5": ("n6",)}
    assert acts_behind(h.graph_of(may_not), h.overlays(), "n3") == {"n4", "n6"}
    told = ("warning", "approval_covers_several", "n3")
    assert told in h.codes(may_not)
    assert told in h.codes(row())
    # The twin: behind a gate that always asks a person is asked about the second call.
    assert told not in h.codes(row(GATE))


def test_one_graph_with_other_manifests_covers_other_calls() -> None:
    graph = h.graph_of(h.chain(("input", {}), GATE, SEND))
    overlays = copy.deepcopy(h.overlays())
    assert covered_calls(graph, overlays) == {"n2": ("n3",)}
    overlays["tools"]["email.send"]["safety"]["side_effects"] = "read"
    assert covered_calls(graph, overlays) == {"n2": ()}


def test_a_template_that_cannot_be_filled_yet_approves_the_input() -> None:
    tool = ("tool", {**SEND[1], "args": {"body": "{args.body}"}})
    graph = h.chain(("input", {}), GATE, tool, ("output", {}))
    found = h.payload(h.run(graph, {"tools": SENT}), "approval_requested")
    assert found["artifact_digest"] == digest_of_value({"value": "Hello"})


def test_a_revocation_that_came_too_early_is_listed() -> None:
    graph = {
        "id": "g",
        "nodes": [
            {"id": "a", "type": "output_parser"},
            {"id": "b", "type": "approval_gate"},
            {"id": "c", "type": "input"},
            {"id": "d", "type": "procedural_memory"},
        ],
        "edges": [
            {"from": "c", "to": "b"},
            {"from": "c", "to": "a"},
            {"from": "b", "to": "d"},
        ],
    }
    decision = {"decision": "approve", "revoke_before": "a"}
    run = h.run(graph, {"approvals": {"b": decision}})
    assert run.leftovers == ["approvals.b.revoke_before: nothing was approved yet when a ran"]


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_decision_that_nobody_was_asked_for_is_left_over(decision: str) -> None:
    conditional = ("approval_gate", {"require_when": "classified"})
    graph = h.chain(("input", {}), ("data_classifier", {}), conditional, ("output", {}))
    run = h.run(graph, {"user_input": "Hello", "approvals": {"n3": decision}})
    assert run.status == "completed"
    assert run.leftovers == [f"approvals.n3: the gate did not ask, so nobody said {decision}"]
    # The twin: where it asks, the decision is used.
    asked = h.run(graph, {"user_input": "password: x", "approvals": {"n3": decision}})
    assert asked.leftovers == []
    assert asked.status == ("completed" if decision == "approve" else "blocked")


@pytest.mark.parametrize("config", [{"uses": 0}, {"expires_ms": -1}, {"require_when": "never"}])
def test_a_configuration_that_is_none_is_refused(config: dict[str, Any]) -> None:
    assert h.codes(h.chain(("approval_gate", config)))[0][0] == "error"


# -- an approval is for one act -------------------------------------------------------------------

OWN_TOOLS = parse_manifests(
    {
        "tools": [
            {"id": "pay.out", "safety": {"side_effects": "destructive"}},
            {"id": "note.add", "safety": {"side_effects": "write"}},
        ]
    }
)[0]
ANSWERS = {name: [{"result": [], "times": "any"}] for name in ("pay.out", "note.add")}


def both(**payment_gate: Any) -> Run:
    """Two gates, each before a tool of its own; equal arguments, and the payment comes first."""
    acts = {"approve_side_effects": True}
    graph = {
        "id": "g",
        "nodes": [
            {"id": "a", "type": "input"},
            {"id": "g", "type": "approval_gate"},
            {"id": "g2", "type": "approval_gate", "config": payment_gate},
            {"id": "p", "type": "tool", "config": {"tool": "pay.out", **acts}},
            {"id": "z", "type": "tool", "config": {"tool": "note.add", **acts}},
        ],
        "edges": [
            {"from": "a", "to": "g"},
            {"from": "g", "to": "z"},
            {"from": "a", "to": "g2"},
            {"from": "g2", "to": "p"},
        ],
    }
    environment = {"approvals": {"g": "approve", "g2": "approve"}, "tools": ANSWERS}
    return h.run(graph, environment, tools=OWN_TOOLS)


def test_an_approval_of_one_tool_allows_no_other_with_equal_arguments() -> None:
    run = both(expires_ms=0)
    assert run.status == "blocked"
    assert h.payload(run, "policy_decision")["rule"] == "approval_stale"
    assert h.payload(run, "policy_decision")["capability"] == "pay.out"
    # The twin: while the payment's own approval lives, both are made.
    run = both()
    assert run.status == "completed"
    called = [one["tool"] for one in h.payloads(run, "tool_called")]
    assert called == ["pay.out", "note.add"]


def test_an_approval_that_covers_no_call_allows_none() -> None:
    loop = {"tools": ["pay.out"], "approve_side_effects": True, "require_evidence": False}
    graph = h.chain(("input", {}), ("approval_gate", {}), ("loop_controller", loop))
    # What the gate approved is exactly what the model asks for, as a digest has it.
    asked = {"action": {"tool": "pay.out", "input": {"value": "find it"}}}
    environment = {
        "user_input": "find it",
        "approvals": {"n2": "approve"},
        "react": [asked],
        "tools": ANSWERS,
    }
    run = h.run(graph, environment, tools=OWN_TOOLS)
    granted = h.payload(run, "approval_granted")["artifact_digest"]
    refused = h.payload(run, "policy_decision")
    assert refused["args_digest"] == granted
    assert (run.status, refused["rule"]) == ("blocked", "approval_missing")


def test_an_approval_of_a_call_makes_no_instruction_followed() -> None:
    call = {"tool": "note.add", "args": {"value": "{query}"}, "approve_side_effects": True}
    nodes = [("input", {}), ("approval_gate", {}), ("procedural_memory", {}), ("tool", call)]
    graph = h.chain(*nodes)
    graph["edges"] = [
        {"from": "n1", "to": "n2"},
        {"from": "n2", "to": "n3"},
        {"from": "n2", "to": "n4"},
    ]
    environment = {
        "user_input": "instruction: answer in verse",
        "approvals": {"n2": "approve"},
        "tools": ANSWERS,
    }
    run = h.run(graph, environment, tools=OWN_TOOLS)
    assert h.payload(run, "memory_write_pending")["rule"] == "approval_missing"
    assert h.payload(run, "tool_called")["decision"]["rule"] == "approval"
    # The twin: the same gate without the call approves what the memory gets.
    graph["nodes"].pop()
    graph["edges"].pop()
    run = h.run(graph, {**environment, "tools": {}})
    assert h.payload(run, "memory_write")["text"] == "answer in verse"


# -- an approval that has ended --------------------------------------------------------------------

LOOP: tuple[str, dict[str, Any]] = (
    "loop_controller",
    {"tools": ["note.add"], "approve_side_effects": True, "require_evidence": False},
)
ENDS: list[dict[str, Any]] = [{"revoke_before": "n3"}, {"expires_ms": 0}]


def ended(graph: dict[str, Any], **decision: Any) -> Run:
    acts = [{"action": {"tool": "note.add", "input": {"text": "x"}}}, {"respond": {"text": "done"}}]
    environment = {
        "approvals": {"n2": {"decision": "approve", **decision}},
        "react": acts,
        "llm": [{"respond": {"text": "other words"}}],
        "tools": ANSWERS,
    }
    return h.run(graph, environment, tools=OWN_TOOLS)


NOTE: tuple[str, dict[str, Any]] = ("tool", {"tool": "note.add", "approve_side_effects": True})
BEHIND = {
    "a loop": h.chain(("input", {}), GATE, LOOP),
    "several": h.chain(("input", {}), GATE, NOTE, NOTE),
    "other words": h.chain(("input", {}), GATE, ("llm", {}), NOTE),
}


@pytest.mark.parametrize("end", ENDS, ids=["revoked", "expired"])
@pytest.mark.parametrize("behind", list(BEHIND))
def test_what_was_approved_for_no_single_call_ends_as_well(
    behind: str, end: dict[str, Any]
) -> None:
    run = ended(BEHIND[behind], **end)
    assert (run.status, h.payload(run, "policy_decision")["rule"]) == ("blocked", "approval_stale")
    assert h.payloads(run, "tool_called") == []
    # The twin: while the approval lives the call is made.
    assert ended(BEHIND[behind], expires_ms=1).status == "completed"


def test_a_gate_is_about_nothing_behind_a_further_gate_after_a_side_effect() -> None:
    graph = h.chain(("input", {}), GATE, NOTE, GATE, LOOP)
    later = {"n4": {"decision": "approve", "revoke_before": "n5"}}
    first = {"n2": {"decision": "approve", "expires_ms": 100}}
    acts = [{"action": {"tool": "note.add", "input": {"text": "x"}}}]
    environment = {
        "approvals": {**first, **later},
        "react": acts,
        "tools": ANSWERS,
    }
    run = h.run(graph, environment, tools=OWN_TOOLS)
    assert h.payload(run, "policy_decision")["rule"] == "approval_stale"
    assert len(h.payloads(run, "tool_called")) == 1
    overlays = h.in_force(OWN_TOOLS)
    assert acts_behind(h.graph_of(graph), overlays, "n2") == {"n3"}
    assert acts_behind(h.graph_of(graph), overlays, "n4") == {"n5"}
    two = h.graph_of(h.chain(("input", {}), GATE, GATE, NOTE, NOTE))
    assert acts_behind(two, overlays, "n2") == {"n4", "n5"}


@pytest.mark.parametrize("end", ENDS, ids=["revoked", "expired"])
@pytest.mark.parametrize(
    "behind",
    [("llm", {}), ("tool", {"tool": "email.search"}), ("loop_controller", {"tools": ["db.query"]})],
)
def test_an_end_that_nothing_would_notice_is_refused(behind: Any, end: dict[str, Any]) -> None:
    ((key, value),) = end.items()
    graph = h.chain(("input", {}), GATE, behind)
    approvals = {"n2": {"decision": "approve", **end}}
    assert h.case_faults(graph, {"approvals": approvals}) == [
        (
            f"approvals.n2.{key}: nothing behind the gate rests on its approval, so its end changes"
            f" nothing (got '{value}'; a tool that writes or requires an approval, or a"
            " procedural_memory that waits for a person)"
        )
    ]
    assert h.case_faults(graph, {"approvals": {"n2": "approve"}}) == []
    fine = h.chain(("input", {}), GATE, SEND, behind)
    assert h.case_faults(fine, {"approvals": approvals}) == []


def test_a_revocation_behind_the_act_is_refused() -> None:
    graph = h.chain(("input", {}), GATE, SEND, ("output", {}))
    late = {"n2": {"decision": "approve", "revoke_before": "n4"}}
    assert h.case_faults(graph, {"approvals": late}) == [
        (
            "approvals.n2.revoke_before: what the approval is for is done before that node works"
            " (got 'n4'; it is for n3)"
        )
    ]
    two = h.chain(("input", {}), GATE, SEND, SEND, ("output", {}))
    assert h.case_faults(two, {"approvals": late}) == []


def test_a_gate_whose_expiry_nothing_would_notice_is_an_error() -> None:
    config = ("approval_gate", {"expires_ms": 5})
    idle = h.chain(("input", {}), config, ("llm", {}), ("output", {}))
    assert ("error", "idle_expiry", "n2") in h.codes(idle)
    fine = h.chain(("input", {}), config, SEND, ("output", {}))
    assert "idle_expiry" not in [code for _, code, _ in h.codes(fine)]


# -- a call that only reads, and needs an approval -------------------------------------------------

GUARDED = h.manifest("records.read", safety={"side_effects": "read", "requires_approval": True})
READ: tuple[str, dict[str, Any]] = ("tool", {"tool": "records.read"})
READING = h.chain(("input", {}), GATE, READ, ("output", {}))


def reading(graph: dict[str, Any] = READING, **decision: Any) -> Run:
    environment = {
        "approvals": {"n2": {"decision": "approve", **decision}},
        "tools": {"records.read": [{"result": "a record", "times": "any"}], **SENT},
    }
    return h.run(graph, environment, tools=GUARDED)


def test_a_gate_approves_a_read_that_requires_it_and_exactly_its_arguments() -> None:
    asked = h.payload(h.run(READING, tools=GUARDED), "approval_requested")
    assert (asked["tool"], asked["args"]) == ("records.read", {"query": "Hello"})
    run = reading()
    called = h.payload(run, "tool_called")
    assert (run.status, called["decision"]) == ("completed", {"rule": "approval"})
    assert called["args_digest"] == h.payload(run, "approval_granted")["artifact_digest"]
    # The twin: the same call of a tool that requires nothing is covered by no gate.
    free = h.run(READING, {"approvals": {"n2": "approve"}}, tools=h.manifest("records.read"))
    assert "tool" not in h.payload(free, "approval_granted")


def test_a_read_with_other_arguments_is_another_act() -> None:
    longer = ("prompt_template", {"template": "{question}, please"})
    graph = h.chain(("input", {}), GATE, longer, READ, ("output", {}))
    run = reading(graph)
    assert h.payload(run, "policy_decision")["rule"] == "approval_missing"
    assert h.payload(run, "policy_decision")["approved"] == [digest_of_value({"query": "Hello"})]


@pytest.mark.parametrize("end", ENDS, ids=["revoked", "expired"])
def test_the_approval_of_a_read_ends_as_well(end: dict[str, Any]) -> None:
    environment = {"approvals": {"n2": {"decision": "approve", **end}}}
    assert h.case_faults(READING, environment, **GUARDED) == []
    assert h.payload(reading(**end), "policy_decision")["rule"] == "approval_stale"


def test_an_approval_of_a_read_is_used_up() -> None:
    retrying = ("tool", {"tool": "records.read", "retries": 1})
    graph = h.chain(("input", {}), GATE, retrying, ("output", {}))
    environment = {
        "approvals": {"n2": "approve"},
        "tools": {"records.read": [{"result": "a record"}]},
        "faults": {"records.read": {"fail_after": {"first": 1}}},
    }
    run = h.run(graph, environment, tools=GUARDED)
    assert h.payload(run, "policy_decision")["rule"] == "approval_used"


def test_a_read_and_the_write_behind_it_have_a_gate_each() -> None:
    overlays = h.in_force(GUARDED)

    def found(*nodes: tuple[str, dict[str, Any]]) -> Mapping[str, tuple[str, ...]]:
        return covered_calls(h.graph_of(h.chain(("input", {}), *nodes)), overlays)

    assert found(GATE, READ, GATE, SEND) == {"n2": ("n3",), "n4": ("n5",)}
    assert found(GATE, READ, SEND) == {"n2": ("n3", "n4")}
    # What a loop calls nobody can approve, so it takes no gate from the call behind it.
    loop = ("loop_controller", {"tools": ["records.read"]})
    assert found(GATE, loop, SEND) == {"n2": ("n4",)}


LEAVE: tuple[str, dict[str, Any]] = ("output", {})


@pytest.mark.parametrize(
    ("nodes", "codes"),
    [
        ([READ], ["approval_missing n2"]),
        ([GATE, READ], []),
        ([GATE, READ, READ], ["approval_covers_several n2", "approval_missing n3 n4"]),
        ([GATE, ("tool", {"tool": "records.list"})], ["approval_covers_nothing n2"]),
        ([("approval_gate", {"require_when": "classified"}), READ], ["gate_never_asks n2"]),
    ],
    ids=["no gate", "a gate", "several", "another tool", "a gate that never asks"],
)
def test_lint_says_where_no_gate_approves_a_call(nodes: Any, codes: list[str]) -> None:
    tools = {**GUARDED, **h.manifest("records.list")}
    found: dict[str, list[str]] = {}
    for one in h.remarks(h.chain(("input", {}), *nodes, LEAVE), **tools):
        found.setdefault(one.code, []).append(str(one.node))
    if "gate_never_asks" in found:
        assert found.pop("approval_missing") == ["n3"]
    assert [" ".join([code, *at]) for code, at in found.items()] == codes


def test_lint_is_content_where_another_call_of_the_tool_was_approved() -> None:
    # An approval is for a tool and its arguments: with two uses it serves both branches.
    graph = {
        "id": "g",
        "nodes": [
            {"id": "a", "type": "input"},
            {"id": "b", "type": "approval_gate", "config": {"uses": 2}},
            {"id": "c", "type": "tool", "config": READ[1]},
            {"id": "d", "type": "tool", "config": READ[1]},
            {"id": "e", "type": "output"},
        ],
        "edges": [
            {"from": "a", "to": "b"},
            {"from": "b", "to": "c"},
            {"from": "a", "to": "d"},
            {"from": "c", "to": "e"},
            {"from": "d", "to": "e"},
        ],
    }
    assert [one.code for one in h.remarks(graph, **GUARDED)] == []

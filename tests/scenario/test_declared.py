"""A rule about a name that no run of the file can have does not load; its twin does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.scenario.conftest import Project

ROUTER: dict[str, Any] = {
    "ir_version": 1,
    "id": "desk",
    "nodes": [
        {"id": "n1", "type": "input", "config": {}},
        {
            "id": "n2",
            "type": "intent_router",
            "config": {
                "rules": [{"route": "refund", "keywords": ["money", "refund"]}],
                "fallback": "generic_llm",
            },
        },
        {"id": "n3", "type": "approval_gate", "config": {}},
        {
            "id": "n4",
            "type": "tool",
            "config": {"tool": "email.send", "approve_side_effects": True},
        },
        {"id": "n5", "type": "llm", "config": {}},
        {"id": "n6", "type": "output", "config": {}},
    ],
    "edges": [{"from": f"n{at}", "to": f"n{at + 1}"} for at in range(1, 6)],
}
SCENARIO: dict[str, Any] = {
    "evarness": 1,
    "subject": {"graph": "graphs/desk.json"},
    "environment": {
        "approvals": {"n3": {"decision": "approve", "approver": "alice"}},
        "tools": {"email.send": [{"result": []}]},
        "llm": [{"respond": {"tool_call": {"tool": "rm_rf", "args": {}}}}],
    },
}


def scenario(assertion: dict[str, Any], **more: Any) -> str:
    check = {"type": "trace", "assert": assertion}
    entry = {"description": "It holds", "check": check}
    return json.dumps({**SCENARIO, "invariants": {"it": entry}, **more})


@pytest.fixture
def desk(project: Project) -> Project:
    project.write("graphs/desk.json", json.dumps(ROUTER))
    return project


def never(kind: str, path: str, value: Any) -> dict[str, Any]:
    return {"never": {"type": kind, "where": {path: value}}}


PAIRS = [
    ("intent_routed", "route", "refnud", "refund", "write 'refund'"),
    ("intent_routed", "route", {"pattern": "^refn"}, {"pattern": "^refu"}, "generic_llm, refund"),
    ("intent_routed", "matched", "moneey", "money", "write 'money'"),
    ("llm_response", "decision.tool", "email.sned", "email.send", "write 'email.send'"),
    ("llm_response", "decision.tool", "rm_fr", "rm_rf", "write 'rm_rf'"),
    ("llm_response", "decision.tool", "send_emial", "send_email", "write 'send_email'"),
    ("approval_granted", "approver", "alcie", "alice", "write 'alice'"),
    ("approval_granted", "approver", {"in": ["alice", "bob"]}, {"in": ["alice", ""]}, "'bob'"),
    ("tool_called", "tool", "email_send", "email.send", "is an alias of email.send"),
    ("policy_decision", "capability", "email_send", "email.send", "write 'email.send'"),
    ("tool_called", "args_digest", {"length": 64}, {"length": 71}, "71 characters"),
    ("tool_called", "args", {"equals": {"qurey": "x"}}, {"equals": {"query": "x"}}, "email.send"),
]


@pytest.mark.parametrize(("kind", "path", "bad", "good", "words"), PAIRS)
def test_a_name_that_nothing_declares_is_refused(
    desk: Project, kind: str, path: str, bad: Any, good: Any, words: str
) -> None:
    wrong, right = never(kind, path, bad), never(kind, path, good)
    if path == "args":
        for one in (wrong, right):
            one["never"]["where"]["tool"] = "email.send"
        words = "write 'query'"
    found = desk.refused(scenario(wrong))
    assert words in found
    assert "s.yaml:1:" in found
    desk.load(scenario(right))


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    [
        ("approval_granted", "n4", "n3"),
        ("approval_revoked", "n4", "n3"),
        ("tool_called", "n3", "n4"),
        ("intent_routed", "n1", "n2"),
        ("llm_request", None, "n5"),
        ("policy_decision", {"pattern": "^n[1-3]"}, {"pattern": "^n[34]"}),
    ],
)
def test_a_node_that_does_not_emit_the_type_is_refused(
    desk: Project, kind: str, bad: Any, good: Any
) -> None:
    found = desk.refused(scenario({"never": {"type": kind, "node_id": bad}}))
    assert "no declared node_id meets this" in found
    assert f"{kind}: at n" in found
    desk.load(scenario({"never": {"type": kind, "node_id": good}}))


def test_a_type_that_several_nodes_speak_of_is_free(desk: Project) -> None:
    for node in ("n1", "n6"):
        desk.load(scenario({"never": {"type": "budget_breached", "node_id": node}}))
        desk.load(scenario({"never": {"type": ["tool_called", "node_started"], "node_id": node}}))
    # No node of the graph emits it, so it cannot occur at any.
    desk.load(scenario({"never": {"type": "retrieval_performed", "node_id": "n1"}}))


def test_a_receipt_is_of_a_declared_service(desk: Project) -> None:
    mock = {"type": "http_mock", "routes": [{"method": "POST", "path": "/m", "status": 202}]}
    environment = {**SCENARIO["environment"], "services": {"mail": mock}}
    for good in ("mail", "mailbox", "workspace"):
        rule = never("effect_applied", "receipt.service", good)
        desk.load(scenario(rule, environment=environment))
    for path, kind in (("receipt.service", "effect_applied"), ("service", "http_request")):
        rule = never(kind, path, "mial")
        assert "write 'mail'" in desk.refused(scenario(rule, environment=environment))


def test_what_another_case_brings_is_declared(desk: Project) -> None:
    """One file is judged by one rule: a name is refused only where no case has it."""
    cases = {
        "alice": {},
        "bob": {"approvals": {"n3": {"decision": "approve", "approver": "bob"}}},
        "nobody": {"approvals": {"n3": "approve"}},
        "asked": {
            "environment": {"llm": [{"respond": {"tool_call": {"tool": "wire_money", "args": {}}}}]}
        },
    }
    for path, value, kind in (
        ("approver", {"in": ["alice", "bob"]}, "approval_granted"),
        ("decision.tool", "wire_money", "llm_response"),
    ):
        assert len(desk.load(scenario(never(kind, path, value), cases=cases))) == 4
    assert "'carol'" in desk.refused(
        scenario(never("approval_granted", "approver", "carol"), cases=cases)
    )
    # The rule itself, and what is expected, declare nothing.
    described = {"one": {"expect": {"output": "carol"}, "description": "carol"}}
    assert "'carol'" in desk.refused(
        scenario(never("approval_granted", "approver", "carol"), cases=described)
    )


def test_a_point_of_the_matrix_brings_names_too(desk: Project) -> None:
    mock = {"type": "http_mock", "routes": [{"method": "POST", "path": "/m", "status": 202}]}
    points = {"provider": ["sim:a", "sim:b"], "environment.services": [{"mail": mock}, {}]}
    for kind, path, good, bad in (
        ("llm_request", "provider", "sim:b", "sim:c"),
        ("http_request", "service", "mail", "mial"),
    ):
        assert len(desk.load(scenario(never(kind, path, good), matrix=points))) == 4
        assert f"'{bad}'" in desk.refused(scenario(never(kind, path, bad), matrix=points))


def test_nobody_is_held_to_names_that_other_files_bring(desk: Project) -> None:
    desk.write("fixtures/f.yaml", "user_input: money\n")
    cases = {"one": {}, "two": {"environment": {"fixture": "fixtures/f.yaml"}}}
    rule = never("approval_granted", "approver", "carol")
    assert len(desk.load(scenario(rule, cases=cases))) == 2
    without = json.loads(scenario(rule))
    without["environment"]["approvals"] = {"n3": "approve"}
    desk.load(json.dumps(without))


def test_a_name_in_the_one_fixture_is_declared(desk: Project) -> None:
    desk.write("fixtures/f.yaml", "llm: [{respond: {tool_call: {tool: wire_money, args: {}}}}]\n")
    rule = never("llm_response", "decision.tool", "wire_money")
    environment = {**SCENARIO["environment"], "fixture": "fixtures/f.yaml"}
    desk.load(scenario(rule, environment=environment))
    assert "'wire_money'" in desk.refused(scenario(rule))


@pytest.mark.parametrize(
    ("bad", "good", "words"),
    [
        ({"contains": ""}, {"contains": "x"}, "always holds, so nothing is asserted"),
        ({"length": {"gte": 0}}, {"length": {"gte": 1}}, "always holds, so nothing is asserted"),
        ({"pattern": ""}, {"pattern": "\\S"}, "always holds, so nothing is asserted"),
        ({"not": 3}, {"not": "3"}, "so the condition always holds"),
        ({"exists": False}, {"exists": True}, "is always there"),
        (3, "3", "write '3' in quotes"),
        ({"gt": 3}, {"length": {"gt": 3}}, "gt can never be decided"),
        ({"length": {"lt": 0}}, {"length": {"lt": 1}}, "no value can meet this"),
        ({"length": 3, "equals": "ab"}, {"length": 2, "equals": "ab"}, "no value can meet this"),
        ({"contains": "a", "not_contains": "a"}, {"contains": "a"}, "no value can meet this"),
    ],
)
def test_an_output_that_every_run_has_or_none_is_refused(
    project: Project, minimal: str, bad: Any, good: Any, words: str
) -> None:
    text = f"{minimal}expect: {{output: {json.dumps(bad)}}}\n"
    found = project.refused(text)
    assert words in found
    assert "s.yaml:3:" in found
    assert "expect.output" in found
    project.load(f"{minimal}expect: {{output: {json.dumps(good)}}}\n")

"""The domain reaches the kernel through its registry only, and says what it offers there."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from pytest_evarness.core.graph import parse_graph
from pytest_evarness.core.interfaces import Domain
from pytest_evarness.core.registry import Registry, load_registry
from pytest_evarness.domains.agents import register
from tests.core import steps
from tests.domains.agents import harness as h
from tests.effort import calls_of

if TYPE_CHECKING:
    from pytest_evarness.errors import Fault

TYPES = [
    "approval_gate",
    "audit_log_sink",
    "context_assembler",
    "conversation_buffer",
    "cost_latency_monitor",
    "data_classifier",
    "episodic_memory",
    "input",
    "intent_router",
    "interceptor",
    "judge_chain",
    "judge_panel",
    "llm",
    "llm_guard",
    "llm_judge",
    "loop_controller",
    "metrics_emitter",
    "output",
    "output_parser",
    "policy_gate",
    "procedural_memory",
    "prompt_template",
    "python",
    "rate_budget_limiter",
    "redaction_rules",
    "retriever",
    "semantic_memory",
    "summary_consolidator",
    "tier_router",
    "tool",
    "trace_probe",
    "working_memory",
]


def test_the_node_types_of_this_version() -> None:
    assert h.registry().node_types.names() == TYPES


def test_importing_the_domain_does_nothing() -> None:
    code = (
        "import sys, pytest_evarness.domains.agents\n"
        "heavy = ('pydantic', 'jsonschema', 'regex', 'yaml')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_registering_twice_is_a_bug() -> None:
    registry = Registry()
    register(registry)
    with pytest.raises(ValueError, match=r"^event type: the name is taken"):
        register(registry)


def test_it_is_a_domain() -> None:
    assert isinstance(h.domain(), Domain)


BETWEEN_KEYS = {"cost_latency_monitor", "tier_router"}
"""Types that ask for one of several keys, which the schema of no single key tells."""


@pytest.mark.parametrize("name", TYPES)
def test_every_configuration_has_a_schema_that_takes_the_empty_one_or_says_why(name: str) -> None:
    node_type = h.registry().node_types.resolve(name)
    jsonschema.Draft202012Validator.check_schema(dict(node_type.config_schema))
    validator = jsonschema.Draft202012Validator(dict(node_type.config_schema))
    _, faults = node_type.parse_config({})
    assert (not faults) is (validator.is_valid({}) and name not in BETWEEN_KEYS)
    assert not validator.is_valid({"no_such_key": 1})
    _, faults = node_type.parse_config({"no_such_key": 1})
    assert "no_such_key" in [str(fault.path[-1]) for fault in faults if fault.path]
    assert node_type.doc


@pytest.mark.parametrize("name", TYPES)
def test_every_type_that_a_node_emits_is_in_the_vocabulary(name: str) -> None:
    for kind in h.registry().node_types.resolve(name).emits:
        assert kind in h.registry().event_types


def test_every_payload_schema_is_one_and_names_its_fields() -> None:
    for name, entry in h.registry().event_types.items():
        jsonschema.Draft202012Validator.check_schema(dict(entry.schema))
        assert "properties" in entry.schema, name
        assert entry.doc, name


def test_a_payload_that_is_none_does_not_satisfy_its_schema() -> None:
    from pytest_evarness.core.vocabulary import check_event

    event = {"seq": 0, "type": "llm_error", "node_id": "n1", "payload": {"eror": "x"}}
    assert len(check_event(h.registry(), event)) == 2
    event["payload"] = {"error": "x"}
    assert check_event(h.registry(), event) == []


def test_every_environment_key_has_a_schema() -> None:
    for key in h.domain().environment_keys():
        jsonschema.Draft202012Validator.check_schema(dict(key.schema))
        assert key.doc


GRAPH = h.chain(
    ("input", {}),
    ("approval_gate", {}),
    ("tool", {"tool": "send_email", "approve_side_effects": True}),
    ("tool", {"tool": "my.own"}),
    ("output", {}),
)


def test_the_identities_are_what_graph_manifests_and_rules_declare() -> None:
    rules: dict[str, Any] = {
        "llm": [{"raise": "x", "match": {"provider": "sim:b"}}],
        "provider": "sim:a",
    }
    found = h.domain().identities(h.graph_of(GRAPH), rules, h.overlays())
    assert found["tool"] == found["capability"] == {*h.overlays()["tools"], "my.own"}
    assert "send_email" not in found["tool"]
    assert found["node_id"] == {"n1", "n2", "n3", "n4", "n5"}
    assert found["provider"] == {"sim:a", "sim:b", "sim:helpful-v1"}
    assert found["classification"] == {"public", "internal", "personal", "secret"}


def test_what_enforces_in_a_graph() -> None:
    full = h.domain().enforcements(h.graph_of(GRAPH), {})
    assert full == {"approval_gate", "manifest", "tool_offer"}
    bare = h.domain().enforcements(h.graph_of(h.chain(("input", {}))), {})
    assert bare == frozenset()
    asleep = h.chain(("approval_gate", {"require_when": "classified"}))
    assert h.domain().enforcements(h.graph_of(asleep), {}) == frozenset()


@pytest.mark.parametrize("key", ["tools", "faults"])
def test_many_unknown_tools_are_told_in_linear_time(key: str) -> None:
    def faults(many: int) -> list[Fault]:
        nodes = [("tool", {"tool": f"tool.alpha{number}"}) for number in range(many)]
        graph = h.graph_of(h.chain(("input", {}), *nodes))
        wrong: dict[str, Any] = {f"tool.alpa{number}": {} for number in range(many)}
        return h.domain().check_case(graph, {key: wrong}, h.overlays())

    few, many = faults(3), faults(100)
    assert [fault.fix for fault in few] == [f"write 'tool.alpha{number}'" for number in range(3)]
    # The first dozens get advice; all of them are told.
    assert [fault.problem for fault in many] == ["unknown tool"] * 100
    assert 20 < sum(fault.fix is not None for fault in many) < 60
    assert calls_of(lambda: faults(400)) < 3 * calls_of(lambda: faults(200))


GATE = ("approval_gate", {"prompt": "Go on?"})
SEND = ("tool", {"tool": "email.send", "approve_side_effects": True})
STEP = ("python", {"callable": "steps:work"})


def gated(*nodes: tuple[str, dict[str, Any]], **environment: Any) -> bool:
    graph = h.graph_of(h.chain(("input", {}), *nodes, ("output", {})))
    return "approval_gate" in h.domain().enforcements(graph, environment)


def test_a_gate_enforces_only_where_it_stands_before_all_that_may_act() -> None:
    look = ("tool", {"tool": "email.search"})
    acting = ("loop_controller", {"tools": ["fs.write"], "approve_side_effects": True})
    assert gated(look, GATE, SEND)
    assert not gated(SEND, GATE)
    assert not gated(SEND, GATE, SEND)
    assert not gated(("approval_gate", {"require_when": "classified"}), SEND)
    assert gated(GATE, acting)
    assert not gated(acting, GATE)


def test_a_gate_on_one_of_two_paths_enforces_nothing() -> None:
    nodes = [("a", "input", {}), ("b", *GATE), ("c", *SEND), ("d", "output", {})]
    graph: dict[str, Any] = {
        "id": "g",
        "nodes": [{"id": name, "type": kind, "config": config} for name, kind, config in nodes],
        "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "c", "to": "d"}],
    }
    assert "approval_gate" in h.domain().enforcements(h.graph_of(graph), {})
    graph["edges"].append({"from": "a", "to": "c"})
    assert "approval_gate" not in h.domain().enforcements(h.graph_of(graph), {})


def test_a_step_of_the_users_own_can_act_where_something_is_declared() -> None:
    services = {"services": {"bank": {"type": "http_mock"}}}
    assert gated(STEP, GATE, SEND)
    assert not gated(STEP, GATE, SEND, **services)
    assert not gated(STEP, GATE, SEND, workspace={"files": {}})
    assert gated(GATE, STEP, **services)


def test_a_node_of_another_domain_may_do_what_it_likes() -> None:
    def offer(registry: Registry) -> None:
        steps.add_type(registry, "acme.send", lambda inputs, config, context: {"out": "sent"})

    registry = load_registry([("conftest", offer)])
    domain = registry.domains.resolve("agents")

    def enforced(*nodes: tuple[str, dict[str, Any]]) -> frozenset[str]:
        graph, _ = parse_graph(h.chain(("input", {}), *nodes, ("output", {})), registry)
        assert graph is not None
        return domain.enforcements(graph, {})

    classifier: tuple[str, dict[str, Any]] = ("data_classifier", {})
    foreign: tuple[str, dict[str, Any]] = ("acme.send", {})
    assert enforced(classifier, GATE, SEND) >= {"approval_gate", "egress"}
    assert enforced(classifier, GATE, foreign, SEND) == {"approval_gate", "manifest", "tool_offer"}
    assert enforced(foreign, classifier, GATE, SEND) == {"manifest", "tool_offer"}


def test_what_a_run_could_and_did_exercise() -> None:
    graph = h.graph_of(GRAPH)
    could = h.domain().coverage(graph, {})
    assert could == {
        "approval branches": ["n2:pending", "n2:approve", "n2:reject"],
        "tools": ["n3", "n4"],
    }
    sent = {"email.send": [{"result": "sent"}]}
    run = h.run(GRAPH, {"approvals": {"n2": "approve"}, "tools": sent})
    did = h.domain().exercised(graph, [event.as_record() for event in run.events])
    assert did == {"approval branches": frozenset({"n2:approve"}), "tools": frozenset({"n3"})}


def test_equal_delays_of_parallel_branches_have_one_order() -> None:
    nodes = [
        {"id": "a", "type": "tool", "config": {"tool": "web.search"}},
        {"id": "b", "type": "tool", "config": {"tool": "web.fetch"}},
        {"id": "s", "type": "input"},
        {"id": "t", "type": "output"},
    ]
    edges = [
        {"from": left, "to": right}
        for left, right in (("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"))
    ]
    environment = {
        "tools": {"web.search": [{"result": "1"}], "web.fetch": [{"result": "2"}]},
        "faults": {"web.search": {"delay_ms": 80}, "web.fetch": {"delay_ms": 80}},
    }
    written = {"id": "g", "nodes": nodes, "edges": edges}
    digests = {h.run(written, environment).trace_digest for _ in range(50)}
    assert len(digests) == 1
    turned = {"id": "g", "nodes": nodes[::-1], "edges": edges[::-1]}
    assert {h.run(turned, environment).trace_digest} == digests
    assert h.run(written, environment).output == "1\n2"


def test_what_nothing_declares_is_noticed() -> None:
    """Each run of these tests is held to it, so that no contract is refused that could fire."""
    graph = h.chain(
        ("input", {}),
        ("intent_router", {"rules": [{"route": "a", "keywords": ["hello"]}]}),
        ("output", {}),
    )
    events = h.run(graph, {"user_input": "hello"}).events
    (routed,) = [event for event in events if event.type == "intent_routed"]
    assert h.undeclared(graph, None, None, [routed]) == []
    other = SimpleNamespace(
        type="intent_routed", node_id=events[1].node_id, payload={"route": "b", "matched": "x"}
    )
    assert sorted(h.undeclared(graph, None, None, [other])) == [
        "intent_routed.matched: x",
        f"intent_routed.node_id: {other.node_id}",
        "intent_routed.route: b",
    ]


def test_beside_nodes_of_another_domain_no_event_type_is_held_to_a_node() -> None:
    graph = h.graph_of(h.chain(("input", {}), ("output", {})))
    own = h.domain().identities(graph, {}, h.overlays())
    assert any("." in key for key in own)
    (first, *_) = graph.nodes
    nodes = {**graph.nodes, first: replace(graph.nodes[first], type="theirs")}
    shared = replace(graph, nodes=nodes)
    assert not any("." in key for key in h.domain().identities(shared, {}, h.overlays()))
    assert h.domain().answers(shared, {}, h.overlays()) == {}

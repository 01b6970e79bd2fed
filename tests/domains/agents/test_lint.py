"""Lint judges the graph's paths, never its names, and stays linear."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.core.graph import parse_graph
from pytest_evarness.core.registry import load_registry
from tests.domains.agents import harness as h
from tests.effort import calls_of

SEND = ("tool", {"tool": "email.send", "approve_side_effects": True})
READ = ("tool", {"tool": "email.search"})
GATE: tuple[str, dict[str, Any]] = ("approval_gate", {})
IN: tuple[str, dict[str, Any]] = ("input", {})
OUT: tuple[str, dict[str, Any]] = ("output", {})


def graph(nodes: dict[str, tuple[str, dict[str, Any]]], *edges: str) -> dict[str, Any]:
    return {
        "id": "g",
        "nodes": [
            {"id": name, "type": kind, "config": config} for name, (kind, config) in nodes.items()
        ],
        "edges": [
            {"from": left, "to": right.partition(".")[0]}
            | ({"to_port": right.partition(".")[2]} if "." in right else {})
            for left, right in (edge.split(">") for edge in edges)
        ],
    }


def errors(value: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(code, node) for level, code, node in h.codes(value) if level == "error"]


def test_a_gated_send_is_fine_and_an_ungated_one_is_not() -> None:
    assert errors(h.chain(IN, GATE, SEND, OUT)) == []
    (found,) = [one for one in h.remarks(h.chain(IN, SEND, OUT)) if one.level == "error"]
    assert (found.code, found.node, found.waivable) == ("ungated_side_effect", "n2", True)
    assert found.message == (
        "'email.send' changes the world and is reached without an approval gate (by n1 -> n2)"
    )
    assert found.path == ("nodes", 1)


def test_one_way_round_the_gate_is_enough() -> None:
    nodes = {"a": IN, "b": GATE, "c": SEND, "d": OUT, "e": ("output_parser", {})}
    assert errors(graph(nodes, "a>b", "b>c", "c>d")) == []
    round_it = graph(nodes, "a>b", "b>c", "c>d", "a>e", "e>c")
    (found,) = [one for one in h.remarks(round_it) if one.level == "error"]
    assert "(by a -> e -> c)" in found.message


def test_the_verdict_does_not_depend_on_names() -> None:
    for names in ("abcd", "dcba", "badc"):
        i, g, s, o = names
        assert (
            errors(graph({i: IN, g: GATE, s: SEND, o: OUT}, f"{i}>{g}", f"{g}>{s}", f"{s}>{o}"))
            == []
        )
        bad = graph({i: IN, g: GATE, s: SEND, o: OUT}, f"{i}>{s}", f"{s}>{g}", f"{g}>{o}")
        assert errors(bad) == [("ungated_side_effect", s)]


def test_an_alias_and_a_destructive_tool_count_and_a_read_does_not() -> None:
    assert errors(h.chain(IN, READ, OUT)) == []
    assert errors(h.chain(IN, ("tool", {"tool": "send_email"}), OUT)) == [
        ("ungated_side_effect", "n2")
    ]
    assert errors(h.chain(IN, ("tool", {"tool": "payment.transfer"}), OUT)) == [
        ("ungated_side_effect", "n2")
    ]
    # A call that nothing leads to is made all the same.
    assert errors(graph({"a": IN, "b": OUT, "c": SEND}, "a>b")) == [("ungated_side_effect", "c")]


def test_a_model_that_reaches_the_output_unvalidated_is_said() -> None:
    llm: tuple[str, dict[str, Any]] = ("llm", {})
    check = ("interceptor", {"chain": ["schema_validate"]})
    policy = ("interceptor", {"chain": ["policy_check"]})
    said = ("warning", "unvalidated_output", "n2")
    assert said in h.codes(h.chain(IN, llm, OUT))
    assert said in h.codes(h.chain(IN, llm, policy, OUT))
    assert said not in h.codes(h.chain(IN, llm, check, OUT))
    assert said not in h.codes(h.chain(IN, llm, policy, check, OUT))
    beside = graph({"a": IN, "b": llm, "c": check, "d": OUT}, "a>b", "b>c", "c>d", "b>d")
    assert ("warning", "unvalidated_output", "b") in h.codes(beside)


def test_an_unreachable_node_is_said() -> None:
    nodes = {"a": IN, "b": OUT, "c": ("output_parser", {}), "d": ("output_parser", {})}
    found = h.codes(graph(nodes, "a>b", "c>d", "d>b"))
    assert [node for _, code, node in found if code == "unreachable"] == ["c", "d"]
    memory = {"a": IN, "m": ("conversation_buffer", {}), "c": ("context_assembler", {}), "d": OUT}
    fine = graph(memory, "a>c.question", "m>c.memory", "c>d")
    assert [node for _, code, node in h.codes(fine) if code == "unreachable"] == []


def test_a_second_output_is_an_error() -> None:
    nodes = {"a": IN, "b": OUT, "c": OUT}
    assert errors(graph(nodes, "a>b", "a>c")) == [("second_output", "c")]
    assert errors(graph({"a": IN, "b": OUT}, "a>b")) == []


def test_a_tool_that_no_manifest_names_is_said_with_the_nearest() -> None:
    found = list(h.remarks(h.chain(IN, ("tool", {"tool": "email.serch"}), OUT)))
    (said,) = [one for one in found if one.code == "no_manifest"]
    assert (said.level, said.fix) == ("warning", "write 'email.search'")


def test_an_unknown_type_and_port_are_errors_with_the_nearest_name() -> None:
    (found,) = [one for one in h.remarks(h.chain(("lm", {}))) if one.level == "error"]
    assert found.fix == "write 'llm'"
    wrong = graph({"a": IN, "c": ("context_assembler", {})}, "a>c.questions")
    (found,) = [one for one in h.remarks(wrong) if one.level == "error"]
    assert "question" in (found.fix or "")


def test_a_type_that_a_domain_offers_later_is_told_as_that() -> None:
    made = load_registry()
    made.later_node_types.add("llm_jury")
    parsed, _ = parse_graph(h.chain(("llm_jury", {})), made)
    assert parsed is not None
    (later,) = [one for one in parsed.found if one.level == "error"]
    assert later.message.startswith("node type is not in this version (got 'llm_jury'; ")
    assert later.fix is None


@pytest.mark.parametrize("shape", ["chain", "gates", "ladder", "tiers"])
def test_twice_the_nodes_are_twice_the_work(shape: str) -> None:
    small, large = lint_work(shape, 2500), lint_work(shape, 5000)
    assert large < 2.2 * small


def lint_work(shape: str, size: int) -> int:
    shapes: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "chain": [SEND],
        "gates": [GATE, SEND],
        "ladder": [GATE, READ, SEND],
        "tiers": [
            ("intent_router", {"rules": [{"route": "a", "keywords": ["a"]}]}),
            ("data_classifier", {}),
            ("approval_gate", {"require_when": "classified"}),
            ("tier_router", {"intents": {"b": "sim"}, "default_tier": "sim"}),
        ],
    }
    middle = shapes[shape]
    nodes = [IN, *(middle[number % len(middle)] for number in range(size - 2)), OUT]
    value = h.chain(*nodes)
    if shape == "ladder":
        ids = [node["id"] for node in value["nodes"]]
        value["edges"] += [
            {"from": left, "to": right} for left, right in zip(ids, ids[2:], strict=False)
        ]
    made = h.graph_of(value)
    rules = [rule for name, rule in h.registry().lint_rules.items() if name.startswith("agents.")]
    registry, overlays = h.registry(), h.overlays()
    return calls_of(lambda: [rule(made, registry, overlays) for rule in rules])


def test_a_node_that_may_not_change_the_world_is_told_that_its_calls_are_refused() -> None:
    silent = ("tool", {"tool": "email.send"})
    (found,) = [
        one
        for one in h.remarks(h.chain(IN, GATE, silent, OUT))
        if one.code == "side_effects_not_approved"
    ]
    assert (found.level, found.node) == ("warning", "n3")
    assert found.message.startswith("every call is refused: 'email.send' changes the world")
    assert found.fix == "write 'approve_side_effects: true'"
    for fine in (SEND, READ):
        codes = [code for _, code, _ in h.codes(h.chain(IN, GATE, fine, OUT))]
        assert "side_effects_not_approved" not in codes

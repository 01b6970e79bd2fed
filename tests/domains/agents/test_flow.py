"""The walks over a graph answer what enumerating every path would answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.domains.agents.flow import (
    Flow,
    always_asks,
    asking,
    covered_calls,
    needing_approval,
    side_effecting,
)
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("output_parser", {}),
    "gate": ("approval_gate", {}),
    "asleep": ("approval_gate", {"require_when": "classified"}),
    "class": ("data_classifier", {}),
    "send": ("tool", {"tool": "send_email", "approve_side_effects": True}),
    "read": ("tool", {"tool": "email.search"}),
    "guarded": ("tool", {"tool": "records.read"}),
}
RECORDS = h.manifest("records.read", safety={"side_effects": "read", "requires_approval": True})


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Small acyclic graphs whose names say nothing about their order."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=7))
    names = draw(st.permutations([f"n{number}" for number in range(len(kinds))]))
    pairs = [(left, right) for right in range(len(kinds)) for left in range(right)]
    edges = [pair for pair in pairs if draw(st.booleans())]
    return h.graph_of(
        {
            "id": "g",
            "nodes": [
                {"id": name, "type": KINDS[kind][0], "config": KINDS[kind][1]}
                for name, kind in zip(names, kinds, strict=True)
            ],
            "edges": [{"from": names[left], "to": names[right]} for left, right in edges],
        }
    )


def paths_from(graph: Graph, start: str) -> Iterator[list[str]]:
    yield [start]
    for target in graph.successors(start):
        for path in paths_from(graph, target):
            yield [start, *path]


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_a_send_is_ungated_when_some_path_has_no_gate_that_asks(graph: Graph) -> None:
    effects = side_effecting(graph, h.overlays())
    expected = {
        path[-1]
        for start in Flow.of(graph).roots
        for path in paths_from(graph, start)
        if path[-1] in effects and not any(always_asks(graph.nodes[node]) for node in path)
    }
    rule = h.registry().lint_rules.resolve("agents.ungated_side_effect")
    found = {one.node for one in rule(graph, h.registry(), h.overlays())}
    assert found == expected


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_a_gate_may_ask_when_some_classifier_does_not_stand_behind_it(graph: Graph) -> None:
    classifiers = {node.id for node in graph.nodes.values() if node.type == "data_classifier"}
    expected = {
        gate.id
        for gate in graph.nodes.values()
        if gate.type == "approval_gate"
        and (
            gate.config == {}
            or classifiers - {node for path in paths_from(graph, gate.id) for node in path}
        )
    }
    assert asking(graph) == expected


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_a_gate_covers_what_its_paths_reach(graph: Graph) -> None:
    overlays = h.in_force(RECORDS)
    effects = {*side_effecting(graph, overlays), *needing_approval(graph, overlays)}
    for gate, found in covered_calls(graph, overlays).items():
        reached = set()
        for path in paths_from(graph, gate):
            behind = path[1:]
            if not behind or behind[-1] not in effects:
                continue
            first = next(index for index, node in enumerate(behind) if node in effects)
            if not any(always_asks(graph.nodes[node]) for node in behind[first:]):
                reached.add(behind[-1])
        assert len(found) == min(2, len(reached))
        assert set(found) <= reached


def test_the_walk_would_notice_a_way_round() -> None:
    nodes = [
        {"id": "a", "type": "output_parser"},
        {"id": "b", "type": "approval_gate"},
        {"id": "c", "type": "tool", "config": KINDS["send"][1]},
    ]
    through = [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]
    rule = h.registry().lint_rules.resolve("agents.ungated_side_effect")

    def found(edges: list[dict[str, str]]) -> list[str | None]:
        graph = h.graph_of({"id": "g", "nodes": nodes, "edges": edges})
        return [one.node for one in rule(graph, h.registry(), h.overlays())]

    assert found(through) == []
    assert found([*through, {"from": "a", "to": "c"}]) == ["c"]

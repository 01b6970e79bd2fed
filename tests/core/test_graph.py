"""A graph is read strictly, linted wholly, and has one order that nothing outside it decides."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.core import c1
from pytest_evarness.core import graph as graph_module
from pytest_evarness.core.graph import Graph, lint, migrate, order, parse_graph
from pytest_evarness.core.interfaces import LintFinding
from pytest_evarness.errors import Fault, InputError
from tests.core import steps
from tests.core.building import graph_of, kernel_registry, row
from tests.effort import calls_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_evarness.core.registry import Registry

REGISTRY = kernel_registry()
PUBLISHED = sorted(Path(__file__).with_name("published").glob("*.json"))


def faults_of(document: Any) -> list[Fault]:
    graph, faults = parse_graph(document, REGISTRY)
    assert (graph is None) == bool(faults)
    return faults


def findings_of(document: Any) -> list[LintFinding]:
    return lint(graph_of(document, REGISTRY), REGISTRY)


def codes_of(document: Any) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in findings_of(document)]


def edge(source: str, target: str, **ports: str) -> dict[str, str]:
    return {"from": source, "to": target, **ports}


def graph_with(nodes: str, *edges: dict[str, str]) -> dict[str, Any]:
    return {
        "id": "g",
        "nodes": [{"id": name, "type": "t_step"} for name in nodes.split()],
        "edges": list(edges),
    }


# -- reading ---------------------------------------------------------------------------------------


def published_registry() -> Registry:
    """The node types of the published graphs, as far as their ports go."""
    registry = kernel_registry()
    for name in ["intent_router", "approval_gate", "tool", "output_parser", "audit_log_sink"]:
        steps.add_type(registry, name, steps._step)
    for name in ["interceptor", "retriever", "prompt_template", "llm"]:
        steps.add_type(registry, name, steps._step)
    steps.add_type(registry, "input", steps._source, inputs=(), traits=("input",))
    steps.add_type(registry, "output", steps._sink, outputs=(), traits=("output",))
    steps.add_type(registry, "conversation_buffer", steps._step, inputs=())
    ports = ("question", "documents", "memory")
    steps.add_type(registry, "context_assembler", steps._step, inputs=ports)
    return registry


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_a_published_graph_loads_unchanged(path: Path) -> None:
    registry = published_registry()
    document = json.loads(path.read_text(encoding="utf-8"))
    before = json.dumps(document)
    graph, faults = parse_graph(document, registry)
    assert faults == []
    assert graph is not None
    assert lint(graph, registry) == []
    assert json.dumps(document) == before
    assert len(graph.nodes) == len(document["nodes"])
    assert graph.params.invariants == tuple(document["params"]["invariants"])


def test_there_are_published_graphs_to_load() -> None:
    assert [path.stem for path in PUBLISHED] == ["approval_gated_send", "governed_email_assistant"]


def test_defaults_are_those_of_the_published_format() -> None:
    params = graph_of(row("t_step"), REGISTRY).params
    assert params.as_record() == {
        "context_budget_tokens": 8000,
        "max_loops": 5,
        "seed": 42,
        "provider": "sim:helpful-v1",
        "invariants": [],
    }


@pytest.mark.parametrize("value", [{"a": 1}, [1], [], None, "x", 0, False])
def test_an_unknown_key_is_refused_whatever_its_value(value: Any) -> None:
    document = row("t_step")
    for target, path in (
        (document, ("nodez",)),
        (document["nodes"][0], ("nodes", 0, "nodez")),
        (document.setdefault("params", {}), ("params", "nodez")),
    ):
        target["nodez"] = value
        (fault,) = faults_of(document)
        assert (fault.path, fault.code, fault.at_key) == (path, "unknown_key", True)
        assert fault.text.startswith("unknown key (got 'nodez'; known: ")
        del target["nodez"]
    assert faults_of(document) == []


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    document = graph_with("a b", {"from": "a", "to": "b", "to_prot": "in"})
    (fault,) = faults_of(document)
    assert fault.fix == "write 'to_port'"


def test_all_faults_of_a_document_come_at_once() -> None:
    document = {
        "id": 1,
        "nodes": [{"id": "a", "typ": "b"}, 7, {"id": "", "type": "t_step", "config": []}],
        "edges": [{"from": "a"}, None],
        "params": {"max_loops": 0, "seed": "1", "invariants": ["x", 3]},
        "groups": {},
        "metadata": [],
    }
    paths = [fault.path for fault in faults_of(document)]
    assert paths == [
        ("id",),
        ("groups",),
        ("metadata",),
        ("nodes", 0, "typ"),
        ("nodes", 0),
        ("nodes", 1),
        ("nodes", 2, "id"),
        ("nodes", 2, "config"),
        ("edges", 0),
        ("edges", 1),
        ("params", "invariants", 1),
        ("params", "max_loops"),
        ("params", "seed"),
    ]


@pytest.mark.parametrize("document", [None, [], "x", 3])
def test_a_document_that_is_no_mapping_is_refused(document: Any) -> None:
    assert faults_of(document)[0].problem == "a graph must be a mapping"


def test_a_graph_without_nodes_is_refused() -> None:
    assert [fault.path for fault in faults_of({"id": "g"})] == [()]
    assert [fault.path for fault in faults_of({"id": "g", "nodes": []})] == [("nodes",)]


def test_values_without_a_canonical_form_are_refused() -> None:
    document = row(("t_step", {"value": float("nan")}))
    assert faults_of(document)[0].problem.startswith("nodes[0].config.value: a number that JSON")


def test_a_newer_version_is_refused_and_says_what_to_do() -> None:
    (fault,) = faults_of({**row("t_step"), "ir_version": 2})
    assert fault.path == ("ir_version",)
    assert fault.text == "newer than this program reads (got 2; 1 to 1)"
    assert fault.fix == "install a newer pytest-evarness"


@pytest.mark.parametrize("version", [0, -1, True, "1", 1.0, None])
def test_a_version_that_never_was_is_refused(version: Any) -> None:
    with pytest.raises(InputError, match=r"^ir_version: no such version"):
        migrate({"ir_version": version})


def test_migration_goes_one_version_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def step(version: int, name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def migrated(document: dict[str, Any]) -> dict[str, Any]:
            taken.append(version)
            return {**document, name: True}

        return migrated

    steps_by_version = {1: step(1, "two"), 2: step(2, "three")}
    monkeypatch.setattr("pytest_evarness.core.graph._MIGRATIONS", steps_by_version)
    assert migrate({"ir_version": 1}, 3) == {"ir_version": 3, "two": True, "three": True}
    assert taken == [1, 2]


def test_the_record_of_a_graph_reads_back_as_itself_whatever_the_order_of_its_file() -> None:
    document = graph_with("b a c", edge("b", "c"), edge("a", "c"))
    shuffled = graph_with("c b a", edge("a", "c"), edge("b", "c"))
    texts = {c1.text(graph_of(one, REGISTRY).as_record()) for one in (document, shuffled)}
    assert len(texts) == 1
    again = graph_of(json.loads(texts.pop()), REGISTRY)
    assert list(again.nodes) == ["a", "b", "c"]
    assert again.edges == graph_of(document, REGISTRY).edges


def test_layout_and_remarks_are_no_part_of_what_runs() -> None:
    plain = graph_of(row("t_step"), REGISTRY).as_record()
    document = row("t_step")
    document.update(description="x", metadata={"a": 1}, groups=[{"id": "g"}])
    document["nodes"][0]["position"] = {"x": 1, "y": 2}
    assert graph_of(document, REGISTRY).as_record() == plain
    document["nodes"][0]["config"] = {"value": 2}
    assert graph_of(document, REGISTRY).as_record() != plain


# -- lint ------------------------------------------------------------------------------------------


def test_a_sound_graph_has_no_finding() -> None:
    assert findings_of(row("t_input", "t_step", "t_output")) == []


def test_every_kind_of_error_is_found_with_its_place() -> None:
    document = {
        "id": "x",
        "nodes": [
            {"id": "a", "type": "t_stpe"},
            {"id": "a", "type": "t_step"},
            {"id": "b", "type": "t_step"},
            {"id": "c", "type": "t_step"},
            {"id": "d", "type": "t_output"},
        ],
        "edges": [
            edge("b", "c"),
            edge("b", "c"),
            edge("b", "zz"),
            edge("b", "c", from_port="ou"),
            edge("d", "c"),
            edge("c", "b"),
        ],
    }
    found = {finding.code: finding for finding in findings_of(document)}
    assert {finding.level for finding in found.values()} == {"error"}
    expected = {
        "unknown_node_type": (("nodes", 0, "type"), "unknown node type (got 't_stpe'; known: "),
        "duplicate_node": (
            ("nodes", 1, "id"),
            "two nodes have one id (got 'a'; first at nodes[0])",
        ),
        "duplicate_edge": (("edges", 1), "the same edge twice (got b -> c; first at edges[0])"),
        "missing_node": (("edges", 2, "to"), "no such node (got 'zz' in b -> zz)"),
        "cycle": (("nodes", 2), "nodes wait for each other (got b -> c -> b; "),
    }
    for code, (path, message) in expected.items():
        assert found[code].path == path
        assert found[code].message.startswith(message)
    assert found["unknown_node_type"].fix == "write 't_step'"
    ports = [finding for finding in findings_of(document) if finding.code == "unknown_port"]
    assert [finding.path for finding in ports] == [("edges", 3, "from_port"), ("edges", 4)]
    assert ports[0].message == (
        "t_step 'b' has no output port 'ou' (got b.ou -> c; output ports: out)"
    )
    assert ports[0].fix == "write 'from_port: out'"
    assert ports[1].message == (
        "t_output 'd' has no output port 'out' (got d -> c; output ports: none)"
    )


def test_a_bad_configuration_is_told_with_field_value_and_rule() -> None:
    registry = kernel_registry()

    def parse(config: Any) -> tuple[Any, list[Fault]]:
        fault = Fault(("mode",), "must be a known mode", got="'liv'", rule="sim", fix="write 'sim'")
        return None, [fault]

    node_type = registry.node_types.resolve("t_step")
    strict = type(node_type)(
        "t_strict", "", {"in": "any"}, {"out": "any"}, parse, {}, node_type.run
    )
    registry.node_types.register("t_strict", strict)
    graph = graph_of(row(("t_strict", {"mode": "liv"})), registry)
    (finding,) = [one for one in lint(graph, registry) if one.level == "error"]
    assert finding.code == "invalid_config"
    assert finding.message == "must be a known mode (got 'liv'; sim)"
    assert finding.path == ("nodes", 0, "config", "mode")
    assert finding.fix == "write 'sim'"


def test_each_knot_is_named_node_by_node_and_once() -> None:
    document = graph_with(
        "a b c d e",
        edge("a", "b"),
        edge("b", "c"),
        edge("c", "a"),
        edge("b", "a"),
        edge("d", "d"),
        edge("c", "e"),
    )
    cycles = [finding.message for finding in findings_of(document) if finding.code == "cycle"]
    assert [message.partition("(got ")[2].partition(";")[0] for message in cycles] == [
        "a -> b -> a",
        "d -> d",
    ]


def test_a_long_cycle_is_cut_and_says_so() -> None:
    names = [f"n{index:05}" for index in range(3000)]
    pairs = zip(names, [*names[1:], names[0]], strict=True)
    document = graph_with(" ".join(names), *(edge(left, right) for left, right in pairs))
    (finding,) = findings_of(document)
    assert "n00048 -> … 2951 more … -> n00000" in finding.message


def test_loose_ends_are_warnings() -> None:
    assert codes_of(row("t_step", "t_step")) == [("warning", "no_input"), ("warning", "no_output")]
    document = row("t_input", "t_output")
    document["nodes"].append({"id": "z", "type": "t_step"})
    (finding,) = findings_of(document)
    assert (finding.level, finding.code, finding.node) == ("warning", "unconnected", "z")
    assert finding.path == ("nodes", 2)


def test_rules_of_domains_run_over_sound_graphs_only() -> None:
    registry = kernel_registry()
    seen: list[str] = []

    @registry.lint_rule("noisy")
    def _noisy(graph: Graph, registry: Registry, overlays: Any) -> list[LintFinding]:
        seen.append(graph.id)
        return [LintFinding("error", "noisy", str(overlays["tools"]), ("nodes", 0), waivable=True)]

    document = row("t_input", "t_output")
    findings = lint(graph_of(document, registry), registry, {"tools": 3})
    assert [(one.code, one.message, one.waivable) for one in findings] == [("noisy", "3", True)]
    document["edges"].append(edge("n1", "n0"))
    assert "noisy" not in [one.code for one in lint(graph_of(document, registry), registry, {})]
    assert seen == ["g"]


# -- order -----------------------------------------------------------------------------------------


def slow_order(document: dict[str, Any], schedule: str) -> list[str]:
    """Straight from the page: look at all nodes again for each step."""
    waiting = sorted(node["id"] for node in document["nodes"])
    generator = random.Random(int(schedule[5:])) if schedule.startswith("seed:") else None
    done: list[str] = []
    while waiting:
        ready = [
            name
            for name in waiting
            if all(one["from"] in done for one in document["edges"] if one["to"] == name)
        ]
        if generator is not None:
            chosen = ready[generator.randrange(len(ready))]
        else:
            chosen = min(ready) if schedule == "canonical" else max(ready)
        waiting.remove(chosen)
        done.append(chosen)
    return done


@st.composite
def acyclic(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.text("abAB1é", min_size=1, max_size=3), min_size=1, unique=True))
    pairs = st.tuples(st.integers(0, len(names) - 1), st.integers(0, len(names) - 1))
    drawn = draw(st.sets(pairs, max_size=20))
    edges = [edge(names[left], names[right]) for left, right in sorted(drawn) if left < right]
    nodes = [{"id": name, "type": "t_step"} for name in names]
    return {"id": "g", "nodes": draw(st.permutations(nodes)), "edges": draw(st.permutations(edges))}


@settings(max_examples=100, deadline=None)
@given(acyclic(), st.sampled_from(["canonical", "reverse", "seed:0", "seed:7", "seed:123456"]))
def test_the_order_is_that_of_the_slow_definition(document: dict[str, Any], schedule: str) -> None:
    assert order(graph_of(document, REGISTRY), schedule) == slow_order(document, schedule)


def test_the_order_is_by_code_point_not_by_locale_or_number() -> None:
    document = graph_with("n10 n9 é a B z")
    assert order(graph_of(document, REGISTRY)) == ["B", "a", "n10", "n9", "z", "é"]
    assert order(graph_of(document, REGISTRY), "reverse") == ["é", "z", "n9", "n10", "a", "B"]


def test_schedules_differ_where_nodes_are_independent() -> None:
    graph = graph_of(graph_with("a b c d e f g h"), REGISTRY)
    orders = {tuple(order(graph, f"seed:{seed}")) for seed in range(10)}
    assert len(orders) > 5
    assert order(graph, "seed:3") == order(graph, "seed:3")


@pytest.mark.parametrize("schedule", ["", "seed:", "seed:x", "seed:-1", "Canonical", "seed:1 "])
def test_an_unknown_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(InputError, match=r"^schedule: unknown \(got "):
        order(graph_of(row("t_step"), REGISTRY), schedule)


def test_a_cycle_has_no_order() -> None:
    graph = graph_of(graph_with("a b", edge("a", "b"), edge("b", "a")), REGISTRY)
    with pytest.raises(InputError, match=r"a -> b -> a"):
        order(graph)


def test_reachability_follows_edges() -> None:
    graph = graph_of(graph_with("a b c d", edge("a", "b"), edge("b", "c")), REGISTRY)
    assert graph.reachable(["a"]) == {"a", "b", "c"}
    assert graph.successors("a") == ["b"]
    assert graph.predecessors("c") == ["b"]
    assert graph.path_of("d") == ("nodes", 3)
    assert graph.path_of("nowhere") == ("nodes",)


# -- size ------------------------------------------------------------------------------------------


def chain(count: int) -> dict[str, Any]:
    return row(*["t_step"] * count)


def dense(nodes: int, edges: int) -> dict[str, Any]:
    generator = random.Random(1)
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < edges:
        left, right = sorted(generator.sample(range(nodes), 2))
        pairs.add((left, right))
    document = row(*["t_step"] * nodes)
    document["edges"] = [edge(f"n{left}", f"n{right}") for left, right in sorted(pairs)]
    return document


def work_for(document: dict[str, Any]) -> int:
    def work() -> None:
        graph = graph_of(document, REGISTRY)
        lint(graph, REGISTRY)
        for schedule in ("canonical", "reverse", "seed:1"):
            order(graph, schedule)

    return calls_of(work)


def test_time_grows_with_the_size_and_not_with_its_square() -> None:
    assert work_for(chain(4000)) < 2.2 * work_for(chain(2000))
    assert work_for(dense(500, 22_000)) < 2.2 * work_for(dense(500, 11_000))


def test_many_edges_to_nodes_that_are_not_there_are_told_in_linear_time() -> None:
    registry = kernel_registry()

    def found(many: int) -> list[LintFinding]:
        document = row(*["t_step"] * many)
        for edge in document["edges"]:
            edge["to"] = edge["to"].replace("n", "nn")
        return lint(graph_of(document, registry), registry)

    few = [one.fix for one in found(4) if one.code == "missing_node"]
    assert few == ["write 'n1'", "write 'n2'", "write 'n3'"]
    many = [one for one in found(200) if one.code == "missing_node"]
    assert len(many) == 199
    assert sum(one.fix is not None for one in many) < 60
    assert calls_of(lambda: found(800)) < 3 * calls_of(lambda: found(400))


def test_a_strangers_rule_that_does_not_come_back_is_told_and_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry, asked = kernel_registry(), []

    def forever(graph: Any, registry: Any, overlays: Any) -> list[LintFinding]:
        asked.append(graph.id)
        while True:
            pass

    registry.load("slow", lambda: lambda own: own.lint_rule("slow.rule")(forever))
    monkeypatch.setattr(graph_module, "RULE_SECONDS", 0.1)
    graph = graph_of(row("t_step"), registry)
    told = "lint rule 'slow.rule' could not look (it did not come back within 0.1 s)"
    for _ in range(2):
        assert [
            found.message for found in lint(graph, registry) if found.code == "broken_rule"
        ] == [told]
    assert asked == [graph.id]
    # The twin: one that comes back is asked about each graph.
    quick: list[str] = []

    def at_once(graph: Any, registry: Any, overlays: Any) -> list[LintFinding]:
        quick.append(graph.id)
        return []

    registry.load("quick", lambda: lambda own: own.lint_rule("quick.rule")(at_once))
    for _ in range(2):
        lint(graph, registry)
    assert quick == [graph.id] * 2

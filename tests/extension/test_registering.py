"""What is registered is looked at there and then: what was got, and what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.checks.kind import CheckKind
from pytest_evarness.core import registry as registry_module
from pytest_evarness.core.domain import PlainDomain
from pytest_evarness.core.event import EventType
from pytest_evarness.core.interfaces import NodeType, Pattern
from pytest_evarness.core.registry import Registry, load_registry, packaged_registry

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


def node(**more: Any) -> NodeType:
    made = NodeType(
        name="n",
        doc="",
        inputs={"in": "any"},
        outputs={"out": "any"},
        parse_config=lambda config: (config, []),
        config_schema={},
        run=lambda inputs, config, context: {"out": 1},
    )
    return replace(made, **more)


class Check(CheckKind):
    name = "c"
    schema: Any = SCHEMA

    def parse(self, value: Any, known: Any) -> Any: ...
    def gather(self, definition: Any, scene: Any) -> Any: ...
    def judge(self, item: Any, gathered: Any, facts: Any) -> Any: ...


class Unfinished(CheckKind):
    name = "c"
    schema: Any = SCHEMA

    def parse(self, value: Any, known: Any) -> Any: ...


class Narrow(Check):
    def gather(self, definition: Any) -> Any: ...  # type: ignore[override]


class Bare:
    name = "c"


class Judge:
    def faults(self, model: Any) -> Any: ...
    def ask(self, question: Any) -> Any: ...
    def leftovers(self, kept: Any) -> Any: ...


class Service:
    name = "s"
    schema: Any = SCHEMA

    def parse(self, value: Any) -> Any: ...
    def make(self, setting: Any) -> Any: ...


class Exporter:
    name = "e"

    def export(self, statement: Any) -> Any: ...


class Importer:
    name = "i"

    def read(self, data: Any) -> Any: ...


class Domain(PlainDomain):
    name = "d"


class Half:
    name = "d"

    def environment_keys(self) -> Any: ...


async def slow(event: Any) -> bool:
    return bool(event)


def one(event: Any) -> bool:
    return bool(event)


def two(graph: Any, environment: Any) -> list[str]:
    return [str((graph, environment))]


def three(graph: Any, registry: Any, overlays: Any) -> list[Any]:
    return [graph, registry, overlays]


def folder(tmp: Path, *names: str) -> Path:
    made = tmp / "p"
    for name in names:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("{}")
    return made


RIGHT: list[tuple[str, str, Any]] = [
    ("node_types", "n", node()),
    ("event_types", "e", EventType("e", SCHEMA, "", "x")),
    ("predicates", "p", one),
    ("lint_rules", "l", three),
    ("inspectors", "i", two),
    ("check_types", "c", Check()),
    ("service_types", "s", Service()),
    ("judges", "j", Judge()),
    ("exporters", "e", Exporter()),
    ("importers", "i", Importer()),
    ("domains", "d", Domain()),
]


@pytest.mark.parametrize(("table", "name", "part"), RIGHT, ids=[row[0] for row in RIGHT])
def test_a_part_of_the_right_shape_is_taken(table: str, name: str, part: Any) -> None:
    registry = Registry()
    getattr(registry, table).register(name, part)
    assert getattr(registry, table).resolve(name) is part


CHECK = "a subclass of pytest_evarness.checks.kind.CheckKind"
WRONG: list[tuple[str, str, Any, str]] = [
    ("node_types", "n", None, "must be a NodeType (got None; "),
    ("node_types", "n", NodeType, "must be a NodeType (got the class NodeType; "),
    ("node_types", "m", node(), "calls itself otherwise (got name 'n'; 'm' as registered)"),
    ("node_types", "n", node(run=one), "run takes other arguments (got one(event"),
    ("node_types", "n", node(run="x"), "run must be a function (got 'x'; run(inputs, "),
    ("node_types", "n", node(inputs=["in"]), "inputs must be a mapping (got ['in']; ports by"),
    ("node_types", "n", node(outputs={"out": 1}), "outputs must hold texts (got 'out': 1; "),
    ("node_types", "n", node(emits=["e"]), "emits must be a tuple of texts (got ['e'])"),
    ("node_types", "n", node(traits={"a"}), "traits must be a frozenset of texts"),
    ("node_types", "n", node(config_schema=None), "config_schema must be a JSON Schema (got None"),
    ("node_types", "n", node(parse_config=two), "parse_config takes other arguments"),
    ("node_types", "n", node(prepare=two), "prepare takes other arguments"),
    ("event_types", "e", SCHEMA, "must be an EventType (got {'type': 'object'"),
    ("event_types", "e", EventType("e", {}, "", "x"), "its schema must list every field under"),
    (
        "event_types",
        "custom.e",
        EventType("custom.e", SCHEMA, "", "x"),
        "needs no registration (got 'custom.e'; types custom.NAME are free)",
    ),
    ("predicates", "p", "x", "must be a function (got 'x'; predicate(event))"),
    ("predicates", "p", two, "takes other arguments (got two(graph"),
    ("predicates", "p", slow, "must be an ordinary function, not an async one (got the function"),
    ("lint_rules", "l", one, "takes other arguments (got one(event"),
    ("inspectors", "i", three, "takes other arguments (got three(graph"),
    ("check_types", "c", Check, "must be an object, not its class (got the class Check; write"),
    ("check_types", "c", Bare(), "has no schema, only_reads, may_gate, after_verdict, parse"),
    (
        "check_types",
        "c",
        Unfinished(),  # type: ignore[abstract]
        f"has no gather, judge (got an object of Unfinished; {CHECK}",
    ),
    ("check_types", "c", Narrow(), "gather takes other arguments (got gather(definition"),
    ("check_types", "d", Check(), "calls itself otherwise (got name 'c'; 'd' as registered)"),
    ("service_types", "s", Bare(), "has no schema, parse, make (got an object of Bare; as pytest_"),
    ("judges", "j", one, "has no faults, ask, leftovers (got the function one; as pytest_"),
    ("judges", "j", Judge, "must be an object, not its class (got the class Judge; write Judge())"),
    ("exporters", "e", one, "has no name, export (got the function one; as pytest_"),
    ("importers", "i", Exporter(), "has no read (got an object of Exporter; as pytest_"),
    ("domains", "d", Half(), "has no load_overlays, check_case, start, leftovers, derive"),
]


@pytest.mark.parametrize(
    ("table", "name", "part", "says"), WRONG, ids=[f"{row[0]}-{row[3][:28]}" for row in WRONG]
)
def test_one_of_another_shape_is_refused_with_what_was_got_and_what_is_right(
    table: str, name: str, part: Any, says: str
) -> None:
    found = getattr(Registry(), table)
    with pytest.raises(TypeError) as caught:
        found.register(name, part)
    text = str(caught.value)
    assert text.startswith(f"{found.kind} '{name}': {says}"), text
    assert "0x" not in text
    assert name not in found


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", 7, None])
def test_what_is_no_name_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"^predicate: a name is letters, digits, .* \(got "):
        Registry().predicates.register(name, one)


def test_a_pattern_has_its_files(tmp_path: Path) -> None:
    whole = folder(tmp_path, "graph.json", "fixtures/a.yaml")
    registry = Registry()
    assert registry.pattern("p", whole, doc="").default_fixture == "a"
    for wrong, says in (
        (Pattern("q", "", whole, "b", ("a",)), "the default is no fixture (got 'b'; fixtures: a)"),
        (Pattern("q", "", whole, "b", ("a", "b")), "its folder has no fixtures/b.yaml (got folder"),
        (Pattern("q", "", tmp_path, "a", ("a",)), "its folder has no graph.json (got folder"),
        (Pattern("r", "", whole, "a", ("a",)), "calls itself otherwise (got name 'r'"),
    ):
        with pytest.raises(TypeError) as caught:
            registry.patterns.register("q", wrong)
        assert str(caught.value).startswith(f"pattern 'q': {says}")
        assert str(tmp_path) not in str(caught.value)
    with pytest.raises(ValueError, match=r"^pattern 'z': no fixture"):
        registry.pattern("z", tmp_path, doc="")


def test_there_is_one_maker_of_worlds() -> None:
    registry = packaged_registry()
    with pytest.raises(ValueError, match=r"^there is a maker of worlds already"):
        registry.make_world = lambda case, host, secrets: None


def loaded(*hooks: tuple[str, Callable[[Registry], object]]) -> Registry:
    return load_registry(hooks)


def test_a_plugin_that_breaks_leaves_nothing_of_it() -> None:
    def half(registry: Registry) -> None:
        registry.predicate("half")(one)
        registry.node_types.register("n", node())
        registry.later_node_types.add("soon")
        registry.node_types = None  # type: ignore[assignment]
        raise SystemExit(0)

    def whole(registry: Registry) -> None:
        registry.predicate("whole")(one)

    before = loaded().later_node_types
    registry = loaded(("half", half), ("whole", whole))
    assert registry.broken == [("half", "SystemExit: 0")]
    assert registry.sources[-1] == "whole"
    assert registry.predicates.names() == ["whole"]
    assert registry.predicates.source_of("whole") == "whole"
    assert "n" not in registry.node_types
    assert registry.node_types.source_of("llm") == "agents"
    assert registry.later_node_types == before


def test_a_plugin_that_never_comes_back_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(registry: Registry) -> None:
        registry.predicate("forever")(one)
        while True:
            pass

    monkeypatch.setattr(registry_module, "LOAD_SECONDS", 0.2)
    registry = Registry()
    registry.load("forever", lambda: forever)
    registry.load("after", lambda: lambda one_: one_.predicate("after")(one))
    assert registry.broken == [("forever", "it did not come back within 0.2 s")]
    assert registry.predicates.names() == ["after"]


def test_an_interruption_by_the_user_is_nobodys_fault() -> None:
    def interrupted(registry: Registry) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Registry().load("x", lambda: interrupted)


def test_two_hooks_of_one_name_are_told_apart() -> None:
    registry = loaded(("agents", lambda one_: one_.predicate("mine")(one)))
    assert registry.sources == ["agents", "hook:agents"]
    assert registry.is_foreign(registry.predicates, "mine")
    assert not registry.is_foreign(registry.node_types, "llm")


# -- evidence ------------------------------------------------------------------------------------


def registered(*emits: str, own: EventType | None = None) -> Registry:
    """A session in which a stranger's node type lists these types."""

    def register(registry: Registry) -> None:
        if own is not None:
            registry.event_types.register(own.name, own)
        registry.node_types.register("n", node(emits=emits))

    return load_registry([("stranger", register)])


@pytest.mark.parametrize(
    "name",
    ["approval_granted", "egress_checked", "policy_decision", "tool_called", "effect_applied"],
)
def test_a_stranger_cannot_give_evidence_of_a_decision(name: str) -> None:
    registry = registered("own", name, own=EventType("own", SCHEMA, "", "stranger"))
    ((plugin, problem),) = registry.broken
    assert plugin == "stranger"
    assert problem == (
        f"TypeError: node type 'n': emits lists what only its own domain may tell (got {name};"
        " types that this plug-in registers, custom.NAME, and what decides nothing)"
    )
    assert "n" not in registry.node_types


def test_its_own_evidence_and_what_decides_nothing_are_a_strangers_to_tell() -> None:
    own = EventType("own", SCHEMA, "", "stranger", is_governance=True)
    registry = registered("own", "custom.x", "budget_breached", "retrieval_performed", own=own)
    assert registry.broken == []
    assert "n" in registry.node_types


def test_every_type_of_governance_is_kept_for_its_domain() -> None:
    from pytest_evarness.domains.agents.vocabulary import GOVERNANCE

    types = dict(packaged_registry().event_types.items())
    of_the_kernel = {name for name in GOVERNANCE if types[name].source == "kernel"}
    assert of_the_kernel == {"budget_breached", "policy_violation"}
    kept = {name for name, one in types.items() if one.is_governance}
    assert kept == GOVERNANCE - of_the_kernel

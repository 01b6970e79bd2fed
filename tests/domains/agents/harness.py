"""Builders of one line: a graph, an environment, a run, and what every run must satisfy."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.case import CompiledCase
from pytest_evarness.core.execution import execute
from pytest_evarness.core.graph import Graph, lint, parse_graph
from pytest_evarness.core.interfaces import LintFinding, Locations
from pytest_evarness.core.matcher import parse_path
from pytest_evarness.core.registry import Registry, load_registry
from pytest_evarness.core.vocabulary import check_event
from pytest_evarness.domains.agents.domain import AgentsDomain
from pytest_evarness.source.document import load_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_evarness.core.run import Run
    from pytest_evarness.errors import Fault

REPOSITORY = Path(__file__).parents[3]
PUBLISHED = REPOSITORY.parent / "shared" / "data" / "evarness"
PATTERNS = REPOSITORY / "pytest_evarness" / "domains" / "agents" / "patterns"


@lru_cache(maxsize=1)
def registry() -> Registry:
    made = load_registry()
    assert made.broken == []
    return made


def domain() -> AgentsDomain:
    found = registry().domains.resolve("agents")
    assert isinstance(found, AgentsDomain)
    return found


@lru_cache(maxsize=1)
def overlays() -> dict[str, Any]:
    locations = Locations(root=Path("nowhere"), home=None, beside=(), variables={})
    found = domain().load_overlays(locations)
    assert [overlay.faults for overlay in found] == [()] * len(found)
    return {overlay.name: overlay.value for overlay in found}


def in_force(tools: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The overlays of a case, with these manifests beside the packaged ones."""
    return {**overlays(), "tools": {**overlays()["tools"], **(tools or {})}}


def chain(*nodes: tuple[str, dict[str, Any]], **params: Any) -> dict[str, Any]:
    """A graph whose nodes n1, n2, ... stand in a row."""
    ids = [f"n{number}" for number in range(1, len(nodes) + 1)]
    return {
        "id": "g",
        "nodes": [
            {"id": name, "type": kind, "config": config}
            for name, (kind, config) in zip(ids, nodes, strict=True)
        ],
        "edges": [{"from": left, "to": right} for left, right in pairwise(ids)],
        "params": params,
    }


def graph_of(value: Mapping[str, Any]) -> Graph:
    graph, faults = parse_graph(value, registry())
    assert graph is not None, [fault.text for fault in faults]
    return graph


def remarks(value: Mapping[str, Any], **tools: Any) -> list[LintFinding]:
    return lint(graph_of(value), registry(), in_force(tools))


def codes(value: Mapping[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(one.level, one.code, one.node) for one in remarks(value)]


def parse_environment(written: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    keys = {key.name: key for key in domain().environment_keys()}
    parsed: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, value in written.items():
        if name not in keys:
            parsed[name] = value
            continue
        parsed[name], found = keys[name].parse(value)
        faults += (fault.under(name) for fault in found)
    return parsed, faults


def compiled(
    value: Mapping[str, Any],
    environment: Mapping[str, Any] | None = None,
    *,
    tools: Mapping[str, Any] | None = None,
    **more: Any,
) -> CompiledCase:
    graph = graph_of(value)
    errors = [one.message for one in graph.found if one.level == "error"]
    assert errors == []
    parsed, faults = parse_environment({"user_input": "Hello", **(environment or {})})
    assert faults == [], [fault.text for fault in faults]
    merged = in_force(tools)
    found = domain().check_case(graph, parsed, merged)
    assert found == [], [fault.text for fault in found]
    return CompiledCase.build(
        scenario="s", case="c", graph=graph, environment=parsed, overlays=merged, **more
    )


def run(
    value: Mapping[str, Any],
    environment: Mapping[str, Any] | None = None,
    *,
    tools: Mapping[str, Any] | None = None,
    world: Any = None,
    **more: Any,
) -> Run:
    """Run a case; every event satisfies the vocabulary, and holds what is declared."""
    case = compiled(value, environment, tools=tools, **more)
    made = execute(case, registry(), world=world)
    for event in made.events:
        assert check_event(registry(), event.as_record()) == []
    assert undeclared(value, environment, tools, made.events) == []
    return made


def undeclared(
    value: Mapping[str, Any],
    environment: Mapping[str, Any] | None,
    tools: Mapping[str, Any] | None,
    events: Sequence[Any],
) -> list[str]:
    """Values at ``TYPE.PATH`` that a contract could not name, as nothing declares them."""
    graph, given = graph_of(value), parse_environment(environment or {})[0]
    merged = in_force(tools)
    known = {
        **domain().identities(graph, given, merged),
        **domain().answers(graph, given, merged),
    }
    found = []
    for event in events:
        for key, values in known.items():
            if key.startswith(f"{event.type}."):
                path = parse_path(key.removeprefix(f"{event.type}."))
                met = event.node_id if path.text == "node_id" else path.get(event.payload)
                if isinstance(met, str) and "\u00absecret:" not in met and met not in values:
                    found.append(f"{key}: {met}")
    return found


def types(made: Run) -> list[str]:
    return [event.type for event in made.events]


def payloads(made: Run, kind: str) -> list[dict[str, Any]]:
    return [dict(event.payload) for event in made.events if event.type == kind]


def payload(made: Run, kind: str) -> dict[str, Any]:
    (found,) = payloads(made, kind)
    return found


def case_faults(
    value: Mapping[str, Any], environment: Mapping[str, Any], **tools: Any
) -> list[str]:
    """What is said when the case is loaded, each with its place."""
    parsed, faults = parse_environment(environment)
    if not faults:
        merged = in_force(tools)
        faults = domain().check_case(graph_of(value), parsed, merged)
    return [f"{'.'.join(str(part) for part in fault.path)}: {fault.text}" for fault in faults]


def manifest(name: str, side_effects: str = "read", **more: Any) -> dict[str, Any]:
    """A manifest as it is in force, by its id."""
    from pytest_evarness.domains.agents.manifest import parse_manifests

    written = {"id": name, "safety": {"side_effects": side_effects}, **more}
    made, faults = parse_manifests({"tools": [written]})
    assert faults == [], [fault.text for fault in faults]
    return dict(made)


def read(path: Path) -> Any:
    return load_document(path).value


def pattern(name: str, fixture: str, where: Path = PATTERNS) -> tuple[Any, dict[str, Any]]:
    environment = dict(read(where / name / "fixtures" / f"{fixture}.yaml"))
    environment.pop("scenario", None)
    return read(where / name / "graph.json"), environment


def without(events: Sequence[str], *kinds: str) -> list[str]:
    return [kind for kind in events if kind not in kinds]

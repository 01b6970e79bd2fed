"""Builders of one line, so that the data is the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_evarness.core.case import Budget, CompiledCase
from pytest_evarness.core.execution import execute
from pytest_evarness.core.graph import Graph, parse_graph
from pytest_evarness.core.registry import Registry
from pytest_evarness.core.vocabulary import check_event, register_kernel
from tests.core import steps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_evarness.core.event import Event
    from pytest_evarness.core.interfaces import NodeRun
    from pytest_evarness.core.run import Run


def kernel_registry(**custom: NodeRun) -> Registry:
    """The kernel and the tiny domain of the tests; no entry point is looked at."""
    registry = Registry()
    register_kernel(registry)
    steps.pytest_evarness_register(registry)
    for name, run in custom.items():
        steps.add_type(registry, name, run, traits=("custom",))
    return registry


def row(*types: str | tuple[str, dict[str, Any]], params: Any = None) -> dict[str, Any]:
    """A graph document whose nodes n0, n1, ... stand in a row."""
    pairs = [(entry, {}) if isinstance(entry, str) else entry for entry in types]
    document: dict[str, Any] = {
        "id": "g",
        "nodes": [
            {"id": f"n{index}", "type": kind, "config": config}
            for index, (kind, config) in enumerate(pairs)
        ],
        "edges": [{"from": f"n{index}", "to": f"n{index + 1}"} for index in range(len(pairs) - 1)],
    }
    return document if params is None else {**document, "params": params}


def graph_of(document: Mapping[str, Any], registry: Registry) -> Graph:
    graph, faults = parse_graph(document, registry)
    assert graph is not None, [fault.text for fault in faults]
    return graph


def case_of(document: Mapping[str, Any], registry: Registry, **parts: Any) -> CompiledCase:
    if "budget" in parts and isinstance(parts["budget"], dict):
        parts["budget"] = Budget(**parts["budget"])
    return CompiledCase.build(
        scenario="s", case="c", graph=graph_of(document, registry), fixture="f", **parts
    )


def run_of(
    document: Mapping[str, Any],
    registry: Registry,
    *,
    secrets: Mapping[str, str] | None = None,
    **parts: Any,
) -> Run:
    """Run once, and check what holds for every run."""
    case = case_of(document, registry, secrets=tuple(secrets or ()), **parts)
    run = execute(case, registry, secrets=secrets)
    check_run(run, registry)
    return run


def check_run(run: Run, registry: Registry) -> None:
    assert [event.seq for event in run.events] == list(range(len(run.events)))
    for event in run.events:
        assert check_event(registry, event.as_record()) == []
    assert run.events[0].type == "run_started"


def types_of(run: Run) -> list[str]:
    return [event.type for event in run.events]


def only(run: Run, name: str) -> Event:
    (event,) = [event for event in run.events if event.type == name]
    return event

"""What the shipped scenarios exercise of the vocabulary, as one run over all of them shows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.core.registry import Registry, packaged_registry
from pytest_evarness.core.vocabulary import check_event
from pytest_evarness.pipeline import Engine, Settings
from tests.scenarios.shipped import FOLDER, REPOSITORY

# Type, configuration; a small harness of these nodes in a row shows the event.
NOT_IN_A_SHIPPED_SCENARIO: dict[str, tuple[list[tuple[str, Any]], dict[str, Any]]] = {
    # A scenario that scripts too little; nothing that ships does.
    "script_exhausted": ([("llm", {})], {}),
    # A text that is not worth keeping.
    "memory_write_skipped": ([("episodic_memory", {"min_salience": 1})], {}),
    # A router that only warns lets through what should stay.
    "tier_egress_warning": (
        [
            ("data_classifier", {"egress": "warn"}),
            ("tier_router", {"default_tier": "far", "on_forbidden_egress": "warn"}),
        ],
        {
            "user_input": "Write to ada@example.org",
            "tiers": {"far": {"destination": "cloud", "provider": "sim:far-v1"}},
        },
    ),
}


@lru_cache(maxsize=1)
def registry() -> Registry:
    return packaged_registry()


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine(Settings(root=REPOSITORY, home=None, rerun="inline", diagnose=True))
    yield made
    made.close()


@pytest.fixture(scope="module")
def events(engine: Engine) -> list[dict[str, Any]]:
    """Every event of every case of every shipped scenario."""
    return [
        event.as_record()
        for path in sorted(FOLDER.glob("*.yaml"))
        for case in engine.load(path)
        for event in engine.run(case).run_a.events
    ]


def chain(nodes: list[tuple[str, Any]], environment: dict[str, Any]) -> dict[str, Any]:
    rows = [("input", {}), *nodes]
    ids = [f"n{number}" for number in range(len(rows))]
    return {
        "evarness": 1,
        "subject": {
            "graph": {
                "id": "g",
                "nodes": [
                    {"id": name, "type": kind, "config": config}
                    for name, (kind, config) in zip(ids, rows, strict=True)
                ],
                "edges": [{"from": one, "to": other} for one, other in pairwise(ids)],
            }
        },
        "environment": environment,
        "cases": {"c": {"expect": {"status": "completed"}}},
    }


def test_each_node_type_runs_in_a_shipped_scenario(events: list[dict[str, Any]]) -> None:
    started = {one["payload"]["type"] for one in events if one["type"] == "node_started"}
    own = {name for name in registry().node_types.names() if name != "python"}
    assert own - started == set()


def test_each_event_type_comes_about_and_fits_its_schema(
    events: list[dict[str, Any]], engine: Engine, tmp_path: Path
) -> None:
    met = {one["type"] for one in events}
    assert met & NOT_IN_A_SHIPPED_SCENARIO.keys() == set(), "it is shown by a scenario by now"
    further = []
    for nodes, environment in NOT_IN_A_SHIPPED_SCENARIO.values():
        (case,) = engine.compile(chain(nodes, environment), tmp_path)
        further += [event.as_record() for event in engine.run(case).run_a.events]
    met |= {one["type"] for one in further}
    assert set(registry().event_types.names()) - met == set()
    faults = [
        (one, found) for one in (*events, *further) if (found := check_event(registry(), one))
    ]
    assert faults == []


def test_an_event_that_does_not_fit_is_noticed(events: list[dict[str, Any]]) -> None:
    """The twin: each kind of event with a field too many breaks its schema."""
    one_of_each = {one["type"]: one for one in events}
    # Each node adds to it which budget was its own, and how far it was passed.
    del one_of_each["budget_breached"]
    for name, one in one_of_each.items():
        bent = {**one, "payload": {**one["payload"], "no_such_field": 1}}
        assert check_event(registry(), bent) != [], name

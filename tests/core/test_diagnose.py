"""A run that goes on behind a block is an observation: marked, sealed off, blocked in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.case import CompiledCase
from pytest_evarness.core.event import EventType, is_tainted
from pytest_evarness.core.execution import NOT_RUN_BEHIND, execute
from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.errors import InputError
from tests.core import steps
from tests.core.building import case_of, kernel_registry, row, run_of, types_of
from tests.core.test_world import World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.run import Run

REGISTRY = kernel_registry()
BLOCKED = row("t_input", "t_block", "t_step", "t_output")


def observed(document: Any, registry: Registry = REGISTRY, **parts: Any) -> Run:
    return run_of(document, registry, diagnose=True, **parts)


def check_taint(run: Run) -> int:
    """Every payload behind the first block is marked, and none before; the block's ``seq``."""
    block = next(event.seq for event in run.events if event.type == "policy_violation")
    for event in run.events:
        assert (event.payload.get("tainted") is True) is (event.seq > block), event
        assert ("tainted" in event.payload) is (event.seq > block), event
    return block


def test_a_run_goes_on_behind_a_block_and_ends_blocked_for_its_reason() -> None:
    run = observed(BLOCKED, environment={"user_input": "hi"})
    assert (run.status, run.complete, run.pending, run.error) == ("blocked", True, None, None)
    assert types_of(run) == [
        "run_started",
        "node_started",
        "node_finished",
        "node_started",
        "policy_violation",
        *["node_started", "node_finished"] * 2,
        "run_failed",
    ]
    assert check_taint(run) == 4
    assert run.events[4].node_id == "n1"
    assert run.events[-1].payload == {
        "reason": "no",
        "total_tokens": 0,
        "events": len(run.events),
        "tainted": True,
    }
    assert run.events[-1].node_id is None


def test_without_the_permission_the_run_stops_there() -> None:
    run = run_of(BLOCKED, REGISTRY)
    assert types_of(run)[-2:] == ["policy_violation", "run_failed"]
    assert not any(is_tainted(event.as_record()) for event in run.events)


def test_a_run_that_is_not_blocked_is_the_same_with_the_permission() -> None:
    document = row("t_input", "t_step", "t_output")
    with_it, without = observed(document), run_of(document, REGISTRY)
    assert with_it.trace_digest == without.trace_digest
    assert with_it.status == "completed"


def test_the_outputs_of_a_blocked_node_are_its_inputs() -> None:
    seen: list[Any] = []

    def look(inputs: Mapping[str, list[Any]], config: Any, context: Context) -> Mapping[str, Any]:
        seen.append({port: list(values) for port, values in inputs.items()})
        return {"out": 1}

    def refuse(inputs: Mapping[str, list[Any]], config: Any, context: Context) -> Mapping[str, Any]:
        raise NodeBlocked("no")

    registry = kernel_registry()
    steps.add_type(registry, "look", look, inputs=("a", "b"))
    steps.add_type(registry, "refuse", refuse, inputs=("a", "b"), outputs=("b", "other"))
    document = {
        "id": "g",
        "nodes": [
            {"id": "n0", "type": "t_input", "config": {}},
            {"id": "n1", "type": "t_step", "config": {"value": ["x", "y"]}},
            {"id": "n2", "type": "refuse", "config": {}},
            {"id": "n3", "type": "look", "config": {}},
        ],
        "edges": [
            {"from": "n0", "to": "n1"},
            {"from": "n0", "to": "n2", "to_port": "a"},
            {"from": "n1", "to": "n2", "to_port": "b"},
            {"from": "n2", "to": "n3", "from_port": "b", "to_port": "b"},
            {"from": "n2", "to": "n3", "from_port": "other", "to_port": "a"},
        ],
    }
    observed(document, registry, environment={"user_input": "hi"})
    # By port where both have it; a port of its own gets all of them.
    assert seen == [{"a": ["hi", "x", "y"], "b": ["x", "y"]}]


def test_a_second_block_is_observed_too_and_the_first_one_is_the_reason() -> None:
    def second(inputs: Mapping[str, list[Any]], config: Any, context: Context) -> Mapping[str, Any]:
        raise NodeBlocked("no again")

    registry = kernel_registry()
    steps.add_type(registry, "second", second)
    run = observed(row("t_input", "t_block", "second", "t_output"), registry)
    reasons = [e.payload["reason"] for e in run.events if e.type == "policy_violation"]
    assert reasons == ["no", "no again"]
    assert run.events[-1].payload["reason"] == "no"
    check_taint(run)


@pytest.mark.parametrize(
    ("kind", "last"),
    [
        ("t_pause", []),
        ("t_exhaust", ["script_exhausted"]),
        ("t_crash", ["engine_error"]),
    ],
)
def test_whatever_ends_an_observation_the_run_was_blocked(kind: str, last: list[str]) -> None:
    run = observed(row("t_input", "t_block", kind, "t_output"))
    assert (run.status, run.pending, run.error) == ("blocked", None, None)
    behind = types_of(run)[check_taint(run) + 1 :]
    assert behind == ["node_started", *last, "run_failed"]
    assert run.events[-1].payload["reason"] == "no"
    # The twins: before any block they end it in their own way.
    ended = observed(row("t_input", kind, "t_block")).status
    assert ended == {"t_pause": "paused", "t_exhaust": "unscripted", "t_crash": "failed"}[kind]


def test_a_budget_that_is_used_up_ends_an_observation() -> None:
    run = observed(row("t_input", "t_block", *["t_step"] * 9), budget={"events": 8})
    assert run.status == "blocked"
    assert types_of(run)[-3:] == ["budget_breached", "policy_violation", "run_failed"]
    assert run.events[-1].payload["reason"] == "no"
    check_taint(run)
    # A budget is no gate: the run is not observed behind it.
    run = observed(row("t_input", *["t_step"] * 9), budget={"events": 8})
    assert types_of(run)[-3:] == ["budget_breached", "policy_violation", "run_failed"]
    assert "tainted" not in run.events[-1].payload


def test_a_step_of_the_users_own_is_not_run_behind_a_block() -> None:
    ran: list[str] = []

    def act(inputs: Mapping[str, list[Any]], config: Any, context: Context) -> Mapping[str, Any]:
        ran.append(context.node_id)
        return {"out": 1}

    registry = kernel_registry(mine=act)
    run = observed(row("t_input", "mine", "t_block", "mine", "t_output"), registry)
    assert ran == ["n1"]
    violations = [e for e in run.events if e.type == "policy_violation"]
    assert [(e.node_id, e.payload["reason"]) for e in violations] == [
        ("n2", "no"),
        ("n3", NOT_RUN_BEHIND),
    ]
    # The twin: a node of a domain is.
    registry = kernel_registry()
    steps.add_type(registry, "mine", act)
    observed(row("t_input", "t_block", "mine"), registry)
    assert ran == ["n1", "n2"]


def test_the_world_is_sealed_at_the_block_and_out_of_reach_behind_it() -> None:
    got: list[Any] = []

    def reach(inputs: Mapping[str, list[Any]], config: Any, context: Context) -> Mapping[str, Any]:
        got.append((context.observes, dict(context.services), context.workspace, list(world.calls)))
        if context.observes:
            with pytest.raises(ValueError, match=r"^no command can be run: the run is only obs"):
                context.run("touch x")
        else:
            context.run("touch x")
        world.waiting.append("late" if context.observes else "in time")
        return {"out": 1}

    registry = kernel_registry()
    steps.add_type(registry, "reach", reach)
    world = World()
    case = case_of(row("t_input", "reach", "t_block", "reach"), registry, diagnose=True)
    run = execute(case, registry, world=world)
    assert got == [
        (False, {"mail": {"host": "h", "port": 1}}, None, ["begin 0"]),
        (True, {}, None, ["begin 0", "seal"]),
    ]
    assert len(world.commands) == 1
    requests = [event.payload for event in run.events if event.type == "custom.request"]
    assert requests == [{"word": "in time"}]
    assert run.world_text == '{"sealed":true}'


def test_a_node_cannot_take_the_mark_away_and_its_own_word_is_no_mark() -> None:
    def say(inputs: Mapping[str, list[Any]], config: Any, context: Context) -> Mapping[str, Any]:
        context.emit("custom.said", {"tainted": config.get("word", False)})
        return {"out": 1}

    registry = kernel_registry()
    steps.add_type(registry, "say", say)
    run = observed(row("t_input", ("say", {"word": True}), "t_block", "say"), registry)
    said = [event for event in run.events if event.type == "custom.said"]
    assert [event.payload for event in said] == [{"tainted": True}, {"tainted": True}]
    assert not is_tainted(said[0].as_record())


def test_the_permission_is_in_the_digest_of_a_case_and_survives_the_way_to_another_process() -> (
    None
):
    plain = case_of(BLOCKED, REGISTRY)
    case = case_of(BLOCKED, REGISTRY, diagnose=True)
    assert "diagnose" not in plain.text
    assert case.digest != plain.digest
    again = CompiledCase.from_texts(case.text, case.graph_text, case.overlays_text, REGISTRY)
    assert (again.text, again.digest) == (case.text, case.digest)
    assert again.diagnose
    runs = [execute(one, REGISTRY) for one in (case, again)]
    assert len({run.chain_digest for run in runs}) == 1
    assert runs[0].chain_digest != execute(plain, REGISTRY).chain_digest
    assert not CompiledCase.from_texts(
        plain.text, plain.graph_text, plain.overlays_text, REGISTRY
    ).diagnose


@pytest.mark.parametrize("value", ["false", "null", "1", '"true"'])
def test_a_case_says_true_or_nothing(value: str) -> None:
    case = case_of(BLOCKED, REGISTRY, diagnose=True)
    text = case.text.replace('"diagnose":true', f'"diagnose":{value}')
    with pytest.raises(InputError, match=r"^case.diagnose: must be true, or absent \(got "):
        CompiledCase.from_texts(text, case.graph_text, case.overlays_text, REGISTRY)


def test_every_event_type_may_carry_the_mark_and_nothing_but_true() -> None:
    own = EventType("mine", {"type": "object", "properties": {}}, "Of a stranger.", "stranger")
    for entry in (own, *REGISTRY.event_types.values()):
        properties: Any = entry.schema["properties"]
        assert properties["tainted"]["const"] is True

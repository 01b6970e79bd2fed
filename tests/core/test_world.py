"""The kernel and a world: what services saw is told in time, and the end state is sealed once."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.execution import execute
from pytest_evarness.core.interfaces import (
    EnvironmentExhausted,
    NodeBlocked,
    RunPaused,
    ServiceDownError,
)
from tests.core import steps
from tests.core.building import case_of, check_run, kernel_registry, row, types_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_evarness.core.event import Event
    from pytest_evarness.core.interfaces import Clock
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.run import Run


class World:
    """Keeps what is asked of it; a step reaches it through ``waiting``."""

    def __init__(self, workspace: Path | None = None) -> None:
        self.workspace = workspace
        self.addresses: Mapping[str, Mapping[str, Json]] = {"mail": {"host": "h", "port": 1}}
        self.problems: dict[str, str] = {}
        self.reachable: set[tuple[str, int]] = set()
        self.waiting: list[str] = []
        self.calls: list[str] = []
        self.commands: list[Any] = []

    def run(self, command: Any, **options: Any) -> Any:
        self.commands.append((command, options))
        return "done"

    def begin(self, clock: Clock) -> None:
        self.calls.append(f"begin {clock.now_ms}")

    def settle(self, emit: Callable[[str, JsonObject], int]) -> None:
        while self.waiting:
            emit("custom.request", {"word": self.waiting[0]})
            del self.waiting[0]

    def seal(self) -> str:
        self.calls.append("seal")
        return '{"sealed":true}'

    def close(self) -> None:
        self.calls.append("close")


def run(
    world: World,
    step: Callable[[Any], Any],
    *,
    traits: tuple[str, ...] = (),
    secrets: Mapping[str, str] | None = None,
    observers: tuple[Callable[[Event], None], ...] = (),
    **parts: Any,
) -> Run:
    def node(inputs: Any, config: Any, context: Any) -> Any:
        return {"out": step(context) or 1}

    registry = kernel_registry()
    steps.add_type(registry, "mine", node, traits=traits)
    document = row("mine", "t_output")
    case = case_of(document, registry, secrets=tuple(secrets or ()), **parts)
    made = execute(case, registry, world=world, secrets=secrets, observers=observers)
    check_run(made, registry)
    return made


def test_a_world_is_begun_sealed_once_and_not_closed() -> None:
    world = World()
    made = run(world, lambda context: None)
    assert world.calls == ["begin 0", "seal"]
    assert made.world_text == '{"sealed":true}'


def test_what_services_saw_of_a_node_is_told_before_it_finishes() -> None:
    world = World()
    made = run(world, lambda context: world.waiting.extend(("a", "b")))
    kinds = [(event.type, event.node_id) for event in made.events]
    at = kinds.index(("custom.request", "n0"))
    assert kinds[at - 1 : at + 3] == [
        ("node_started", "n0"),
        ("custom.request", "n0"),
        ("custom.request", "n0"),
        ("node_finished", "n0"),
    ]


def test_what_came_after_the_last_node_is_told_before_the_end() -> None:
    world = World()

    def late(event: Event) -> None:
        if event.type == "node_finished" and event.node_id == "n1":
            world.waiting.append("late")

    made = run(world, lambda context: None, observers=(late,))
    assert types_of(made)[-2:] == ["custom.request", "run_finished"]
    assert made.events[-2].node_id is None


@pytest.mark.parametrize(
    ("error", "status", "last"),
    [
        (NodeBlocked("no"), "blocked", ["custom.request", "policy_violation", "run_failed"]),
        (RunPaused("ask"), "paused", ["custom.request", "run_paused"]),
        (ValueError("odd"), "failed", ["custom.request", "engine_error", "run_failed"]),
        (
            EnvironmentExhausted("llm", 1, 2),
            "unscripted",
            ["custom.request", "script_exhausted"],
        ),
        (ServiceDownError("mail", "gone"), "unfinished", ["node_started", "custom.request"]),
    ],
)
def test_however_a_run_ends_what_services_saw_is_told_first(
    error: Exception, status: str, last: list[str]
) -> None:
    world = World()

    def step(context: Any) -> None:
        world.waiting.append("a")
        raise error

    made = run(world, step)
    assert made.status == status
    assert types_of(made)[-len(last) :] == last
    assert made.world_text == '{"sealed":true}'


def test_a_used_up_budget_hides_no_request() -> None:
    world = World()
    made = run(
        world,
        lambda context: world.waiting.extend("abcdef"),
        budget={"events": 4, "seconds": 30},
    )
    assert made.status == "blocked"
    assert types_of(made).count("custom.request") == 6
    assert types_of(made)[-3:] == ["budget_breached", "policy_violation", "run_failed"]


def test_a_service_that_is_down_leaves_the_run_unfinished() -> None:
    def step(context: Any) -> None:
        raise ServiceDownError("mail", "FATAL: hunter22 in /tmp/x/y")

    made = run(World(), step, secrets={"KEY": "hunter22"})
    assert (made.status, made.complete) == ("unfinished", False)
    assert made.error == "service mail: FATAL: «secret:KEY» in <path>"
    assert made.trace().closed is False


def test_a_step_of_the_users_own_cannot_call_a_living_service_down() -> None:
    def step(context: Any) -> None:
        raise ServiceDownError("mail", "says the step")

    made = run(World(), step, traits=("custom",))
    assert made.status == "failed"
    assert made.error == "ServiceDownError: service mail: says the step"
    down = World()
    down.problems["mail"] = "really"
    assert run(down, step, traits=("custom",)).status == "unfinished"


def test_a_context_reaches_what_is_declared(tmp_path: Path) -> None:
    world = World(tmp_path)
    seen: list[Any] = []

    def step(context: Any) -> None:
        seen.extend((context.workspace, dict(context.services), context.run("ls", seconds=2)))

    run(world, step, traits=("custom",))
    assert seen == [tmp_path, {"mail": {"host": "h", "port": 1}}, "done"]
    assert world.commands == [("ls", {"seconds": 2, "env": None, "stdin": ""})]


def test_only_nodes_of_a_domain_reach_the_world_itself() -> None:
    world = World()
    assert run(world, lambda context: None if context.world is world else 1 / 0).error is None
    made = run(world, lambda context: context.world, traits=("custom",))
    assert made.error == (
        "ValueError: a custom node reaches its workspace and its services, not the world"
    )


def test_without_a_world_there_is_nothing_to_reach() -> None:
    seen: list[Any] = []

    def node(inputs: Any, config: Any, context: Any) -> Any:
        seen.extend((context.workspace, dict(context.services), context.world))
        context.run("ls")

    registry = kernel_registry()
    steps.add_type(registry, "mine", node)
    made = execute(case_of(row("mine"), registry), registry)
    assert seen == [None, {}, None]
    assert made.error == "ValueError: no command can be run: the scenario declares no workspace"
    assert made.world_text == "{}"


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_the_umask_of_a_run_is_always_the_same(tmp_path: Path, umask: int) -> None:
    former = os.umask(umask)
    try:
        run(World(), lambda context: (tmp_path / "made").write_text("x") and None)
        assert os.umask(umask) == umask
    finally:
        os.umask(former)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o644


def test_the_umask_is_put_back_where_a_run_is_interrupted() -> None:
    def step(context: Any) -> None:
        raise KeyboardInterrupt

    former = os.umask(0o027)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(World(), step)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(former)

"""Checks see the sealed world with its true values; what they write in a copy reaches nobody."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.execution import execute
from pytest_evarness.world.scene import RunScene, scene_of
from pytest_evarness.world.sealed import StaleWorldError
from tests.core.building import case_of, kernel_registry, row
from tests.world.made import make

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_evarness.world.sealed import Scene
    from pytest_evarness.world.world import RunWorld


def scene(world: RunWorld | None, **environment: Any) -> RunScene:
    registry = kernel_registry()
    case = case_of(row("t_input", "t_output"), registry, environment=environment, secrets=("KEY",))
    secrets = {"KEY": "hunter22"}
    run = execute(case, registry, secrets=secrets)
    return scene_of(
        case,
        world,
        run,
        secrets,
        prompt="do it",
        scenario_folder=Path("/project/scenarios"),
        root=Path("/project"),
        details={"script": "x"},
    )


def test_it_is_a_scene() -> None:
    made: Scene = scene(None, params={"tier": "pro"})
    assert (made.prompt, made.params, made.root) == ("do it", {"tier": "pro"}, Path("/project"))
    assert made.masker.text("hunter22") == "«secret:KEY»"
    assert [json.loads(line)["type"] for line in made.trace_log.splitlines()] == [
        event["type"] for event in made.events
    ]
    assert made.details == {"script": "x", "unsandboxed": []}


def test_events_are_those_that_were_hashed_whatever_became_of_their_payloads() -> None:
    registry = kernel_registry()
    case = case_of(row("t_input"), registry)
    run = execute(case, registry)
    payload: Any = run.events[0].payload
    payload["seed"] = 7
    made = scene_of(case, None, run, {}, prompt="", scenario_folder=Path("/"), root=Path("/"))
    assert made.events[0]["payload"]["seed"] == 42


def test_a_case_without_a_world_has_an_empty_one() -> None:
    made = scene(None)
    assert made.snapshot == {"workspace": None, "services": [], "ledger": []}
    assert (made.workspace, made.services, made.audit_log) == (None, {}, "")
    with made.workspace_copy() as copy:
        assert list(copy.iterdir()) == []
        (copy / "x").write_text("x")
    assert not copy.exists()


def test_it_shows_what_was_sealed() -> None:
    with make(
        workspace={"files": {"a": "hunter22"}},
        services={"s": {"type": "odd"}},
        secrets={"KEY": "hunter22"},
    ) as world:
        world.audit.add("file_write", {"path": "a"})
        world.unsandboxed.add("writes")
        world.seal()
        made = scene(world)
        assert made.snapshot is world.snapshot
        assert made.workspace == world.workspace
        assert list(made.services) == ["s"]
        assert json.loads(made.audit_log)["type"] == "file_write"
        assert made.details["unsandboxed"] == ["writes"]


def test_a_world_is_not_looked_at_before_it_is_sealed() -> None:
    with make(workspace={}) as world, pytest.raises(AssertionError, match="once it is sealed"):
        _ = scene(world).snapshot


def test_each_copy_is_new_and_reaches_nobody() -> None:
    files = {"a": "1", "d/b": {"text": "2", "mode": "0444"}}
    with make(workspace={"files": files}) as world:
        assert world.workspace is not None
        (world.workspace / "d").chmod(0o555)
        world.seal()
        made = scene(world)
        with made.workspace_copy() as one, made.workspace_copy() as other:
            (one / "a").write_text("changed")
            assert (other / "a").read_text() == (world.workspace / "a").read_text() == "1"
            assert (one / "d/b").read_text() == "2"
        assert not one.exists()
        assert not other.exists()


def test_a_copy_of_a_workspace_that_is_gone_is_empty() -> None:
    with make(workspace={}) as world:
        assert world.workspace is not None
        world.workspace.rmdir()
        world.seal()
        with scene(world).workspace_copy() as copy:
            assert list(copy.iterdir()) == []


def test_a_link_in_place_of_the_workspace_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    with make(workspace={}) as world:
        assert world.workspace is not None
        world.workspace.rmdir()
        world.workspace.symlink_to(tmp_path)
        world.seal()
        with scene(world).workspace_copy() as copy:
            assert list(copy.iterdir()) == []


def _write(workspace: Path) -> None:
    (workspace / "a").write_text("2")


def _write_and_put_the_time_back(workspace: Path) -> None:
    before = (workspace / "a").stat()
    _write(workspace)
    os.utime(workspace / "a", ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(workspace: Path) -> None:
    shutil.copytree(workspace, workspace.with_name("other"))
    shutil.rmtree(workspace)
    workspace.with_name("other").rename(workspace)


@pytest.mark.parametrize("change", [_write, _write_and_put_the_time_back, _replace])
def test_what_was_changed_after_the_seal_is_not_copied(change: Callable[[Path], None]) -> None:
    with make(workspace={"files": {"a": "1"}}) as world:
        assert world.workspace is not None
        world.seal()
        made = scene(world)
        with made.workspace_copy() as copy:  # the twin: nothing has happened yet
            assert (copy / "a").read_text() == "1"
        (world.workspace / "a").read_text()
        made.check_workspace()
        change(world.workspace)
        with pytest.raises(StaleWorldError, match="changed after"), made.workspace_copy():
            pass
        with pytest.raises(StaleWorldError, match="changed after"):
            made.check_workspace()


def test_every_run_of_a_case_has_one_name_and_another_case_has_another() -> None:
    names = {scene(None, params={"n": n}).sandbox_id for n in (1, 1, 2)}
    assert len(names) == 2

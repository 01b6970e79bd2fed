"""What a step runs in its workspace: where, with what, and what is noted of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.clock import SimulatedClock
from pytest_evarness.world import command as command_module
from pytest_evarness.world.command import service_variables
from pytest_evarness.world.sandbox import NO_SANDBOX, find_sandbox
from tests.world.made import make

if TYPE_CHECKING:
    from pathlib import Path

needs_sandbox = pytest.mark.skipif(
    find_sandbox().name == "none", reason=f"no sandbox: {find_sandbox().why}"
)


def test_a_line_runs_in_the_workspace_and_both_streams_come_back() -> None:
    with make(workspace={"files": {"a": "1\n2\n"}}) as world:
        done = world.run("cat a | wc -l; echo oops >&2; echo new > b; exit 3")
        assert (done.exit_code, done.signal, done.timed_out) == (3, None, False)
        assert (done.stdout.strip(), done.stderr) == ("2", "oops\n")
        assert world.workspace is not None
        assert (world.workspace / "b").read_text() == "new\n"


def test_a_pipe_fails_where_one_of_its_parts_does() -> None:
    with make(workspace={}) as world:
        assert world.run("false | true").exit_code == 1


def test_a_sealed_world_runs_no_command() -> None:
    with make(workspace={}) as world:
        world.run("echo early > a")
        sealed = world.seal()
        with pytest.raises(ValueError, match=r"^no command can be run: the world is sealed$"):
            world.run("echo late > b")
        assert world.workspace is not None
        assert [path.name for path in world.workspace.iterdir()] == ["a"]
        assert world.seal() == sealed


def test_program_and_words_are_taken_as_they_are() -> None:
    with make(workspace={}) as world:
        assert world.run(["printf", "%s", "a b;c"]).stdout == "a b;c"


def test_it_reads_what_it_is_given() -> None:
    with make(workspace={}) as world:
        assert world.run("cat", stdin="hello").stdout == "hello"


def test_a_command_beyond_its_time_is_killed() -> None:
    with make(workspace={}) as world:
        done = world.run("sleep 60", seconds=0.2)
        assert (done.exit_code, done.timed_out) == (None, True)


def test_its_variables_are_the_same_everywhere_but_for_the_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STRAY", "seen")
    with make(workspace={}, services={"my-db": {"type": "odd", "port": 77}}) as world:
        names = world.run("env | cut -d= -f1 | sort", env={"EXTRA": "x"}).stdout.split()
        # What bash sets itself is not ours.
        assert set(names) - {"PWD", "OLDPWD", "SHLVL", "_", "LD_LIBRARY_PATH"} == {
            "EXTRA",
            "HOME",
            "LANG",
            "MY_DB_HOST",
            "MY_DB_PORT",
            "MY_DB_URL",
            "PATH",
            "TMPDIR",
            "TZ",
        }
        assert world.run("echo $MY_DB_URL").stdout == "odd://127.0.0.1:77\n"


@pytest.mark.parametrize(
    ("address", "kind", "variables"),
    [
        ({"path": "/w/db"}, "sqlite", {"DB_PATH": "/w/db"}),
        (
            {"host": "h", "port": 1},
            "http_mock",
            {"DB_HOST": "h", "DB_PORT": "1", "DB_URL": "http://h:1"},
        ),
        ({"host": "h", "port": 1, "url": "u"}, "mysql", {"DB_HOST": "h", "DB_PORT": "1"}),
    ],
)
def test_where_services_are_is_told_by_variables(
    address: dict[str, Any], kind: str, variables: dict[str, str]
) -> None:
    found = service_variables({"db": address}, {"db": kind})
    assert found.items() >= variables.items()
    assert found.get("DB_URL") == address.get("url", variables.get("DB_URL"))


def test_the_audit_log_has_a_line_of_it() -> None:
    with make(workspace={}) as world:
        world.begin(SimulatedClock())
        world.run("exit 4")
        world.run(["true"])
        lines = [json.loads(line) for line in world.audit.text.splitlines()]
        assert [line["type"] for line in lines] == ["command", "command"]
        assert [line["details"] for line in lines] == [
            {"command": "exit 4", "exit_code": 4},
            {"command": ["true"], "exit_code": 0},
        ]


@needs_sandbox
def test_a_sandbox_holds_it_and_nothing_is_unknown(tmp_path: Path) -> None:
    with make(workspace={}) as world:
        assert world.run(f"echo x > {tmp_path}/out").exit_code != 0
        assert not (tmp_path / "out").exists()
        assert world.run("echo x > in").exit_code == 0
        assert world.unsandboxed == set()


@needs_sandbox
def test_where_a_service_is_elsewhere_nobody_knows_what_was_reached() -> None:
    services = {"a": {"type": "odd", "host": "192.0.2.1"}}
    with make(workspace={}, services=services) as world:
        world.run("true")
        assert world.unsandboxed == {"network"}
        text = world.seal()
    with make(workspace={}, services=services) as world:
        assert world.seal() == text  # machines differ in it, so it is in no digest


def test_without_a_sandbox_it_runs_and_that_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_module, "find_sandbox", lambda: NO_SANDBOX)
    with make(workspace={}) as world:
        assert world.run("echo x").stdout == "x\n"
        assert world.unsandboxed == {"network", "writes"}


def test_a_service_that_is_down_has_no_variables() -> None:
    with make(workspace={}, services={"a": {"type": "odd", "down": "gone"}}) as world:
        assert world.run("env | grep -c ^A_").stdout == "0\n"


@pytest.mark.parametrize("command", [[], [1], ["a", None]])
def test_what_is_no_command_is_refused(command: Any) -> None:
    with make(workspace={}) as world, pytest.raises(ValueError, match=r"^a command is a line, or"):
        world.run(command)


def test_without_a_workspace_it_runs_in_an_empty_folder() -> None:
    with make(services={}) as world:
        assert world.run("ls -A").stdout == ""

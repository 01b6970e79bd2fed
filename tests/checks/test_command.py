"""``command_exit`` passes for the code that was asked, and for nothing that only looks like it."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.checks.command import CommandExit
from pytest_evarness.core.outcome import Cause, Outcome
from tests.checks.scenes import FolderScene, judged, parsed, refusals
from tests.world.test_process import LIMITS, sleeping

COMMAND = CommandExit()
SH = CommandExit(("sh", "-c"))

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.fixture
def scene(tmp_path: Path) -> FolderScene:
    made = FolderScene(tmp_path)
    made.write("a.txt", "hello\n")
    return made


def run(scene: FolderScene, command: str, **check: Any) -> Any:
    return judged(COMMAND, scene, {"command": command, **check})


# -- codes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "exit_code", "outcome", "reason"),
    [
        ("true", None, "pass", "exit code 0, as asked"),
        ("exit 3", None, "fail", "exit code 3, not exit code 0"),
        ("exit 3", 3, "pass", "exit code 3, as asked"),
        ("exit 3", [1, 3], "pass", "exit code 3, as asked"),
        ("exit 2", [1, 3], "fail", "exit code 2, not one of the exit codes 1, 3"),
        ("exit 255", "nonzero", "pass", "exit code 255, as asked"),
        ("true", "nonzero", "fail", "exit code 0, not an exit code other than 0"),
        ("no-such-tool", 127, "pass", "exit code 127 (command not found), as asked"),
        ("no-such-tool", None, "fail", "exit code 127 (command not found), not exit code 0"),
        ("./a.txt", 126, "pass", "exit code 126 (cannot be executed), as asked"),
    ],
)
def test_the_exit_code(
    command: str, exit_code: Any, outcome: str, reason: str, scene: FolderScene
) -> None:
    found = run(scene, command, **({} if exit_code is None else {"exit_code": exit_code}))
    assert (found.outcome.word, found.reason) == (outcome, reason)


@pytest.mark.parametrize("exit_code", [0, 9, 137, "nonzero", [9, 137]])
def test_death_by_a_signal_equals_no_code(exit_code: Any, scene: FolderScene) -> None:
    found = run(scene, "kill -9 $$", exit_code=exit_code)
    assert found.outcome is Outcome.FAIL
    assert found.reason.startswith("signal 9, not ")


@pytest.mark.parametrize("exit_code", [0, 124, 127, 137, 143, "nonzero"])
def test_the_time_limit_equals_no_code(exit_code: Any, scene: FolderScene) -> None:
    for limit in LIMITS:
        found = run(scene, "echo begun; sleep 600", exit_code=exit_code, timeout=limit)
        if "begun" in found.witness.notes[0]:
            break
    assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))
    assert found.reason == f"timed out after {limit:g} s, so there is no exit code"
    assert found.witness.notes == ("stdout (6 bytes): begun\n", "stderr: empty")


def test_at_the_time_limit_nothing_is_left(scene: FolderScene) -> None:
    first, second = (f"600.{uuid.uuid4().int % 10**12:012d}" for _ in range(2))
    found = run(scene, f"sleep {first} & sleep {second}; echo never", timeout=0.3)
    assert found.outcome is Outcome.INDETERMINATE
    assert sleeping(first) == sleeping(second) == []


# -- the shell ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["false | cat", "printf 'a\\n' | grep -q b | cat"])
def test_a_pipe_fails_with_the_part_that_fails(command: str, scene: FolderScene) -> None:
    assert run(scene, command).reason == "exit code 1, not exit code 0"
    # The twin: without the option the last part alone would tell.
    found = judged(COMMAND, scene, {"command": f"set +o pipefail; {command}"})
    assert found.outcome is Outcome.PASS


def test_without_bash_a_pipe_does_not_load(tmp_path: Path) -> None:
    (refusal,) = refusals(SH, tmp_path, {"command": "false | cat"})
    assert refusal.startswith("command. has a pipe, and there is no bash here")
    assert refusals(SH, tmp_path, {"command": "false || cat 'a|b'"}) == []
    assert refusals(COMMAND, tmp_path, {"command": "false | cat"}) == []


def test_the_shell_is_named_in_the_evidence(scene: FolderScene) -> None:
    gathered = COMMAND.gather(parsed(COMMAND, scene, {"command": "true"}), scene)
    assert gathered["shell"] == "bash -o pipefail -c"
    gathered = SH.gather(parsed(SH, scene, {"command": "true"}), scene)
    assert gathered["shell"] == "sh -c"


# -- streams -----------------------------------------------------------------------------------


def test_a_failure_shows_both_streams_and_a_last_line_without_a_break(scene: FolderScene) -> None:
    found = run(scene, "printf line; printf oops >&2; exit 4")
    assert found.reason == "exit code 4, not exit code 0"
    assert found.witness.notes == ("stdout (4 bytes): line", "stderr (4 bytes): oops")


@pytest.mark.parametrize(
    ("check", "outcome", "reason"),
    [
        ({"stdout": "hello\n"}, "pass", 'exit code 0, as asked, and stdout = "hello\\n"'),
        (
            {"stdout": "hello"},
            "fail",
            'stdout: "hello\\n" is not "hello" (without its last line break it would be)',
        ),
        ({"stdout": {"contains": "ell"}, "stderr": ""}, "pass", None),
        ({"stdout": {"pattern": "^h.*o$"}}, "fail", None),
        ({"stdout": {"pattern": "(?m)^h.*o$"}}, "pass", None),
        ({"stderr": {"contains": "x"}}, "fail", 'stderr: "" does not contain "x"'),
        (
            {"exit_code": 1, "stdout": "x"},
            "fail",
            'exit code 0, not exit code 1; stdout: "hello\\n" is not "x"',
        ),
    ],
)
def test_matchers_over_streams(
    check: dict[str, Any], outcome: str, reason: str | None, scene: FolderScene
) -> None:
    found = run(scene, "cat a.txt", **check)
    assert found.outcome.word == outcome
    assert reason is None or found.reason == reason


BIG = "echo begin; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end"


@pytest.mark.parametrize(
    ("matcher", "outcome"),
    [
        ({"contains": "begin"}, "pass"),
        ({"contains": "end"}, "pass"),
        ({"contains": "middle"}, "indeterminate"),
        ({"not_contains": "begin"}, "fail"),
        ({"not_contains": "middle"}, "indeterminate"),
        ({"equals": "begin\n"}, "fail"),
    ],
)
def test_of_a_stream_that_was_cut_only_what_was_kept_decides(
    matcher: Any, outcome: str, scene: FolderScene
) -> None:
    found = run(scene, BIG, stdout=matcher)
    assert found.outcome.word == outcome
    if outcome == "indeterminate":
        assert found.causes == (Cause.MISSING_EVIDENCE,)


def test_twelve_megabytes_become_a_bounded_record_that_says_so(scene: FolderScene) -> None:
    definition = parsed(
        COMMAND, scene, {"command": "yes 0123456789abcdef | head -c 12000000; exit 1"}
    )
    gathered: Any = COMMAND.gather(definition, scene)
    assert gathered["stdout"]["size"] == 12_000_000
    assert len(str(gathered)) < 40_000
    found = run(scene, "yes 0123456789abcdef | head -c 12000000; exit 1")
    note = found.witness.notes[0]
    assert note.startswith("stdout (12,000,000 bytes): 0123456789abcdef\n")
    assert "[… of 12,000,000 bytes the middle is left out …]\n0123456789abcdef\n" in note
    assert len(note) < 2_000


# -- its place ---------------------------------------------------------------------------------


def test_a_command_cannot_change_the_world(scene: FolderScene) -> None:
    found = run(scene, "rm a.txt && touch b.txt && ls", stdout="b.txt\n")
    assert found.outcome is Outcome.PASS
    assert [path.name for path in scene.workspace.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("command", "path"),
    [("touch b.txt", "b.txt"), ("rm a.txt", "a.txt"), ("echo x >> a.txt", "a.txt")],
)
def test_one_that_is_not_isolated_must_not_change_it(
    command: str, path: str, scene: FolderScene
) -> None:
    assert run(scene, "cat a.txt", isolated=False).outcome is Outcome.PASS
    found = run(scene, command, isolated=False)
    assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))
    assert found.reason.startswith(f"the command changed the sealed workspace ({path})")


def test_it_starts_where_it_is_told(scene: FolderScene) -> None:
    scene.write("sub/dir/x")
    assert run(scene, "pwd", stdout="«workspace»\n").outcome is Outcome.PASS
    assert run(scene, "pwd", cwd=".", stdout="«workspace»\n").outcome is Outcome.PASS
    assert run(scene, "ls", cwd="sub/dir", stdout="x\n").outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("cwd", "why"),
    [
        ("gone", "gone does not exist"),
        ("a.txt", "a.txt is no folder"),
        ("out/x", "out is a symlink"),
    ],
)
def test_where_it_cannot_start_nothing_is_run(cwd: str, why: str, scene: FolderScene) -> None:
    (scene.workspace / "out").symlink_to("/")
    found = run(scene, "true", cwd=cwd)
    assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.MISSING_EVIDENCE,))
    assert found.reason == f"the command cannot start in {cwd}: {why}"


def test_it_gets_what_it_is_given(scene: FolderScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK", "leaked")
    command = 'cat; echo "$GREETING ${LEAK-none} $TZ $LANG é"'
    found = run(
        scene,
        command,
        stdin="in ü\n",
        env={"GREETING": "hì"},
        stdout="in ü\nhì none UTC C.UTF-8 é\n",
    )
    assert found.outcome is Outcome.PASS, found.reason


def test_a_path_of_its_own_is_for_the_command_not_for_the_shell(scene: FolderScene) -> None:
    found = run(scene, 'echo "$PATH"', env={"PATH": "/only/here"}, stdout="/only/here\n")
    assert found.outcome is Outcome.PASS, found.reason


def test_no_folder_of_this_machine_is_evidence(scene: FolderScene) -> None:
    import sys

    command = f"pwd; echo $HOME $TMPDIR {scene.root}/checks {scene.root}x {sys.prefix}/lib"
    stdout = f"«workspace»\n«home» «home» ./checks {scene.root}x «python»/lib\n"
    gathered: Any = COMMAND.gather(parsed(COMMAND, scene, {"command": command}), scene)
    assert gathered["stdout"]["head"] == stdout


# -- loading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "refusal"),
    [
        ({}, " required key 'command' is missing"),
        ({"command": " "}, "command. is blank"),
        ({"command": "x", "exit_code": 256}, "exit_code. is no exit code (got 256"),
        ({"command": "x", "exit_code": -9}, "exit_code. is no exit code (got -9"),
        ({"command": "x", "exit_code": [0, 300]}, "exit_code.1. is no exit code (got 300"),
        ({"command": "x", "exit_code": []}, "exit_code. must not be empty"),
        ({"command": "x", "exit_code": True}, "exit_code. is no exit code (got true"),
        ({"command": "x", "exit_code": "0"}, 'exit_code. is no exit code (got "0"'),
        ({"command": "x", "exit_code": "non-zero"}, "exit_code. is no exit code"),
        ({"command": "x", "exit_code": list(range(256))}, "exit_code. holds of every exit code"),
        ({"command": "x", "cwd": "/tmp"}, "cwd. is absolute (got '/tmp'"),
        ({"command": "x", "cwd": "../run-10"}, "cwd. leads out of the workspace"),
        ({"command": "x", "env": {"A-B": "1"}}, "env.A-B. is no name"),
        ({"command": "x", "env": {"A": 1}}, "env.A. must be text"),
        ({"command": "x", "stdout": {"contains": ""}}, "stdout. holds of every text"),
        ({"command": "x", "stdout": {"contians": "a"}}, "stdout.contians. unknown operator"),
        ({"command": "x", "stderr": None}, "stderr. can hold of no text"),
        ({"command": "x", "isolated": "yes"}, "isolated. must be true or false"),
        ({"command": "a\0b"}, "command. holds a NUL character"),
    ],
)
def test_a_check_that_cannot_be_meant_does_not_load(
    check: dict[str, Any], refusal: str, tmp_path: Path
) -> None:
    told = refusals(COMMAND, tmp_path, check)
    assert any(line.startswith(refusal) for line in told), told


def test_only_what_needs_a_workspace_asks_for_one(tmp_path: Path) -> None:
    scene = FolderScene(tmp_path)
    definition = parsed(COMMAND, scene, {"command": "true"})
    assert COMMAND.needs(definition) == frozenset()
    for more in ({"cwd": "d"}, {"isolated": False}):
        definition = parsed(COMMAND, scene, {"command": "true", **more})
        assert COMMAND.needs(definition) == {"workspace"}


def test_the_example_of_a_small_diff_ends_with_two_where_there_is_no_diff(
    scene: FolderScene,
) -> None:
    command = "[ $(git diff --stat | tail -1 | awk '{print $4+$6}') -lt 50 ]"
    init = "git init -q . && git add -A &&"
    commit = "git -c user.name=n -c user.email=e commit -qm x"
    assert run(scene, f"{init} {commit} && {command}", exit_code=2).outcome is Outcome.PASS
    change = "&& echo more >> a.txt"
    assert run(scene, f"{init} {commit} {change} && {command}").outcome is Outcome.PASS

"""The check ``command_exit``: a command ends with the code, and writes what was asked.

Source: docs/checks/command_exit.md.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

from pydantic import Field

from pytest_evarness.checks.excerpt import ask_excerpt, read_text_matcher
from pytest_evarness.checks.found import found
from pytest_evarness.checks.kind import (
    DEFAULT_TIMEOUT_SECONDS,
    CheckKind,
    Facts,
    Known,
    UnavailableError,
)
from pytest_evarness.checks.shell import Shell, find_shell, has_pipe
from pytest_evarness.checks.written import NonEmpty, schema_of
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import parse_matcher
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.removal import remove_tree
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Absent, Strict, parse_model
from pytest_evarness.source.quote import quoted
from pytest_evarness.world import home
from pytest_evarness.world.model import path_problem
from pytest_evarness.world.process import (
    CannotRunError,
    Captured,
    Ended,
    plain_environment,
    run_command,
)

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.world.sealed import Scene

__all__ = [
    "CommandExit",
    "ended_record",
    "ended_words",
    "private_folder",
    "stream_notes",
]

SHOWN_BYTES = 32 * 1024
"""How much of a stream is kept as evidence where no matcher asks for more."""

NOTED_BYTES = 1500
"""How much of a stream a witness shows, half of it from each end."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

Code: TypeAlias = Annotated[int, Field(ge=0, le=255)]


class _Command(Strict):
    type: Literal["command_exit"]
    command: NonEmpty = Field(description="Run by bash -o pipefail -c in the workspace.")
    exit_code: Code | Annotated[list[Code], Field(min_length=1)] | Literal["nonzero"] = Field(
        default=0, description="The code, one of a list, or nonzero."
    )
    cwd: Absent[NonEmpty] = Field(default=None, description="A folder of the workspace.")
    env: dict[str, str] = Field(default_factory=dict, description="Variables of the command.")
    stdin: str = Field(default="", description="What it may read.")
    stdout: Any = Field(default=None, description="A matcher over what it writes.")
    stderr: Any = Field(default=None, description="A matcher over what it writes there.")
    isolated: bool = Field(
        default=True, description="On a copy of the workspace; false: in the sealed one itself."
    )


class CommandExit(CheckKind):
    """A command of the user's own, run in the workspace after the run.

    Args:
        shell: The words before the command; found here by default.
    """

    def __init__(self, shell: Shell | None = None) -> None:
        self._shell = shell

    @property
    def name(self) -> str:
        """``command_exit``."""
        return "command_exit"

    @property
    def only_reads(self) -> bool:
        """Nobody knows what a command does."""
        return False

    @property
    def schema(self) -> JsonObject:
        """Of the mapping under ``check``."""
        return schema_of(_Command)

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """See :class:`CheckKind`."""
        del known
        faults = _code_faults(value)
        if faults:
            value = {key: entry for key, entry in value.items() if key != "exit_code"}
        model, found_faults = parse_model(_Command, value)
        faults += found_faults
        if model is None:
            return {}, faults
        faults += _command_faults(model.command, self._shell or find_shell())
        faults += _environment_faults(model.env)
        if model.cwd is not None and model.cwd != ".":
            problem = path_problem(model.cwd)
            if problem is not None:
                rule = "a folder of the workspace, with '/'"
                faults.append(Fault(("cwd",), problem, got=quoted(model.cwd), rule=rule))
        for key in ("stdout", "stderr"):
            if key in value:
                faults += read_text_matcher(value[key], key)[1]
        if "\0" in model.stdin + model.command:
            key = "command" if "\0" in model.command else "stdin"
            if key == "command":
                faults.append(Fault((key,), "holds a NUL character"))
        definition: dict[str, Json] = {
            "type": "command_exit",
            "command": model.command,
            "exit_code": model.exit_code,
            "cwd": None if model.cwd == "." else model.cwd,
            "env": dict(model.env),
            "stdin": model.stdin,
            "matchers": {key: value[key] for key in ("stdout", "stderr") if key in value},
            "isolated": model.isolated,
        }
        return ({} if faults else definition), faults

    def needs(self, definition: JsonObject) -> frozenset[str]:
        """The workspace, where the command is to start in a folder of it or in the sealed one."""
        needs_it = definition["cwd"] is not None or definition["isolated"] is False
        return frozenset({"workspace"} if needs_it else ())

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        """Run it."""
        asked: Mapping[str, Any] = definition
        shell = self._shell or find_shell()
        with (
            _workspace(scene, is_copy=asked["isolated"]) as folder,
            private_folder() as own,
        ):
            cwd = _folder_in(folder, asked["cwd"])
            try:
                ended = run_command(
                    # By its place: the check's own PATH is for the command, not for its shell.
                    [shutil.which(shell[0]) or shell[0], *shell[1:], asked["command"]],
                    cwd=cwd,
                    env=plain_environment(own, asked["env"]),
                    seconds=asked.get("timeout", DEFAULT_TIMEOUT_SECONDS),
                    stdin=asked["stdin"].encode("utf-8"),
                )
            except CannotRunError as error:
                raise UnavailableError(Cause.EVALUATOR_ERROR, error.reason) from None
            whole = frozenset(asked["matchers"])
            folders = {folder: "«workspace»", own: "«home»"}
            return {"shell": " ".join(shell), **ended_record(ended, scene, folders, whole)}

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """See :class:`CheckKind`."""
        del facts
        definition: Mapping[str, Any] = item.definition or {}
        told: Mapping[str, Any] = gathered
        wanted = _wanted_words(definition["exit_code"])
        expected = " and ".join(
            [wanted, *(f"{key} {_described(spec)}" for key, spec in _matchers(definition))]
        )
        if told["timed_out"]:
            seconds = definition.get("timeout", DEFAULT_TIMEOUT_SECONDS)
            return _finding(
                item,
                told,
                Outcome.INDETERMINATE,
                f"timed out after {seconds:g} s, so there is no exit code",
                expected=expected,
                causes=(Cause.EVALUATOR_ERROR,),
            )
        failed: list[str] = []
        undecided: list[tuple[Cause, str]] = []
        met = ended_words(told)
        if not _is_wanted(definition["exit_code"], told["exit_code"]):
            failed.append(f"{met}, not {wanted}")
        for key, spec in _matchers(definition):
            _judge_stream(key, spec, Captured.from_record(told["asked"][key]), failed, undecided)
        if failed:
            reason = "; ".join(failed)
            return _finding(item, told, Outcome.FAIL, reason, expected=expected)
        if undecided:
            reason = "; ".join(why for _, why in undecided)
            causes = Cause.ordered(cause for cause, _ in undecided)
            return _finding(
                item, told, Outcome.INDETERMINATE, reason, expected=expected, causes=causes
            )
        held = "".join(f", and {key} {_described(spec)}" for key, spec in _matchers(definition))
        return _finding(item, told, Outcome.PASS, f"{met}, as asked{held}", expected=expected)


# -- what is asked -----------------------------------------------------------------------------


def _code_faults(value: Mapping[str, Json]) -> list[Fault]:
    """The exit code in one sentence, whichever of its three forms was meant."""
    if "exit_code" not in value:
        return []
    code = value["exit_code"]
    rule = "0 to 255, a list of those, or 'nonzero'"
    codes = code if isinstance(code, list | tuple) else [code]
    if isinstance(code, list | tuple) and not code:
        return [Fault(("exit_code",), "must not be empty", got="[]", rule=rule)]
    for at, one in enumerate(codes):
        path = ("exit_code", at) if isinstance(code, list | tuple) else ("exit_code",)
        if isinstance(one, int) and not isinstance(one, bool):
            if not 0 <= one <= 255:
                return [Fault(path, "is no exit code", got=shown(one), rule=rule)]
        elif one != "nonzero" or isinstance(code, list | tuple):
            fix = None
            if isinstance(one, str) and one.isascii() and one.isdigit():
                fix = f"write {one} without quotes"
            return [Fault(path, "is no exit code", got=shown(one), rule=rule, fix=fix)]
    if isinstance(code, list | tuple) and len(set(codes)) == 256:
        return [Fault(("exit_code",), "holds of every exit code", rule=rule)]
    return []


def _command_faults(command: str, shell: Shell) -> list[Fault]:
    if not command.strip():
        return [Fault(("command",), "is blank", got=shown(command), rule="it would always end 0")]
    if shell[0] != "bash" and has_pipe(command):
        return [
            Fault(
                ("command",),
                "has a pipe, and there is no bash here to tell which of its parts failed",
                got=shown(command),
                rule=f"{' '.join(shell)} knows the last part alone",
                fix="install bash, or write the parts one after the other",
            )
        ]
    return []


def _environment_faults(variables: Mapping[str, str]) -> list[Fault]:
    faults = []
    for name, text in variables.items():
        if not _NAME.match(name):
            rule = "letters, digits, '_'"
            fault = Fault(("env", name), "is no name", got=quoted(name), rule=rule, at_key=True)
            faults.append(fault)
        elif "\0" in text:
            faults.append(Fault(("env", name), "holds a NUL character"))
    return faults


def _matchers(definition: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(definition["matchers"].items(), reverse=True)  # stdout comes first


def _described(spec: Any) -> str:
    matcher, _ = parse_matcher(spec)
    return "" if matcher is None else matcher.describe()


def _wanted_words(code: Any) -> str:
    if code == "nonzero":
        return "an exit code other than 0"
    if isinstance(code, list):
        return f"one of the exit codes {', '.join(str(one) for one in code)}"
    return f"exit code {code}"


def _is_wanted(wanted: Any, code: int | None) -> bool:
    if code is None:
        return False  # a signal's number equals no code
    if wanted == "nonzero":
        return code != 0
    return code in (wanted if isinstance(wanted, list) else [wanted])


def _judge_stream(
    key: str,
    spec: Any,
    stream: Captured,
    failed: list[str],
    undecided: list[tuple[Cause, str]],
) -> None:
    matcher, faults = parse_matcher(spec)
    if matcher is None:
        undecided.append((Cause.EVALUATOR_ERROR, f"{key} cannot be asked: {faults[0].text}"))
        return
    size = stream.size if stream.is_cut else None
    answer = ask_excerpt(matcher, stream.head, stream.tail, size)
    if answer.held is True:
        return
    if answer.held is None and answer.cause is not Cause.MALFORMED_EVIDENCE:
        undecided.append((answer.cause or Cause.EVALUATOR_ERROR, f"{key}: {answer.why}"))
        return
    hint = ""
    if size is None and stream.head.endswith("\n"):
        without = matcher.test(stream.head.removesuffix("\n"))
        hint = " (without its last line break it would be)" if without.held is True else ""
    failed.append(f"{key}: {answer.why}{hint}")


# -- where it runs -----------------------------------------------------------------------------


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """An empty folder, removed at the end whatever was put there."""
    folder = home.new_folder()
    try:
        yield Path(folder)
    finally:
        remove_tree(folder)


@contextlib.contextmanager
def _workspace(scene: Scene, *, is_copy: bool) -> Iterator[Path]:
    if is_copy:
        with scene.workspace_copy() as folder:
            yield folder
        return
    assert scene.workspace is not None, "needs says so"
    scene.check_workspace()
    before = _state(scene.workspace)
    yield scene.workspace
    changed = sorted(path for path, _ in before.items() ^ _state(scene.workspace).items())
    if changed:
        raise UnavailableError(
            Cause.EVALUATOR_ERROR,
            f"the command changed the sealed workspace ({changed[0]}"
            f"{', ...' if len(set(changed)) > 1 else ''}); with 'isolated: true' it gets a copy",
        )


def _state(folder: Path) -> dict[str, tuple[int, ...]]:
    """What tells whether anything in a folder was written, by path."""
    found: dict[str, tuple[int, ...]] = {}
    root = os.fspath(folder)
    for here, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(here, name)  # noqa: PTH118 - many of them
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                is_folder = stat.S_ISDIR(status.st_mode)
                size = 0 if is_folder else status.st_size
                found[os.path.relpath(path, root)] = (
                    status.st_mode,
                    status.st_ino,
                    size,
                    status.st_mtime_ns,
                )
    return found


def _folder_in(folder: Path, name: str | None) -> Path:
    """A folder of the workspace, by its own name: no link leads there."""
    if name is None:
        return folder
    place = folder
    for part in name.split("/"):
        place = place / part
        if place.is_symlink():
            what = "is a symlink"
        elif not place.exists():
            what = "does not exist"
        elif not place.is_dir():
            what = "is no folder"
        else:
            continue
        at = place.relative_to(folder).as_posix()
        raise UnavailableError(
            Cause.MISSING_EVIDENCE, f"the command cannot start in {name}: {at} {what}"
        )
    return place


def _folder_words(scene: Scene, own: Mapping[Path, str]) -> dict[str, str]:
    """What to write for this machine's folders: what a program says goes into the bundle.

    Args:
        scene: Knows the project's root, which is written ``.``.
        own: Folders of this one check, and their words.
    """
    words = {scene.root: ".", Path(sys.prefix): "«python»", Path(sys.base_prefix): "«python»"}
    words |= own
    if scene.workspace is not None:
        words.setdefault(scene.workspace, "«workspace»")
    both = {str(folder): word for folder, word in words.items()}
    both |= {os.path.realpath(folder): word for folder, word in words.items()}
    return {folder: word for folder, word in both.items() if len(folder) > 1}


# -- how it ended ------------------------------------------------------------------------------


def ended_record(
    ended: Ended, scene: Scene, own: Mapping[Path, str], whole: frozenset[str] = frozenset()
) -> dict[str, Json]:
    """How a command ended, as evidence: streams for a reader, those that are asked as they are.

    Args:
        ended: The end.
        scene: Knows the folders of this machine, and the secrets.
        own: Folders of this one check, and what to write for them.
        whole: Streams of which all that was captured is needed.
    """
    words = _folder_words(scene, own)
    record: dict[str, Json] = {
        "exit_code": ended.exit_code,
        "signal": ended.signal,
        "timed_out": ended.timed_out,
    }
    asked: dict[str, Json] = {}
    for key in ("stdout", "stderr"):
        stream = cast("Captured", getattr(ended, key)).replaced(words)
        stream = stream.without_ends(scene.masker.longest)
        if key in whole:
            asked[key] = stream.as_record()
        # Masked before it is cut: no mask finds what a cut leaves of a secret.
        record[key] = stream.masked(scene.masker).shortened(SHOWN_BYTES).as_record()
    return {**record, "asked": asked}


def ended_words(gathered: Mapping[str, Any]) -> str:
    """How it ended: ``exit code 1``, ``signal 9``, ``exit code 127 (command not found)``."""
    if gathered["timed_out"]:
        return "timed out"
    if gathered["signal"] is not None:
        return f"signal {gathered['signal']}"
    code = gathered["exit_code"]
    known = {126: " (cannot be executed)", 127: " (command not found)"}
    return f"exit code {code}{known.get(code, '')}"


def stream_notes(gathered: Mapping[str, Any]) -> tuple[str, ...]:
    """Both streams for a witness, ends kept."""
    notes = []
    for key in ("stdout", "stderr"):
        stream = Captured.from_record(gathered[key])
        if not stream.size:
            notes.append(f"{key}: empty")
            continue
        text = stream.shortened(NOTED_BYTES).text
        notes.append(f"{key} ({stream.size:,} bytes): {text}")
    return tuple(notes)


def _finding(
    item: PlannedItem,
    gathered: Mapping[str, Any],
    outcome: Outcome,
    reason: str,
    *,
    expected: str,
    causes: tuple[Cause, ...] = (),
) -> Finding:
    witness = Witness(
        expected=expected,
        observed=ended_words(gathered),
        notes=stream_notes(gathered) if outcome is not Outcome.PASS else (),
    )
    where = f"the workspace at the end of run A, by {gathered['shell']}"
    return found(item, outcome, reason, causes=causes, witness=witness, looked_at=(where,))

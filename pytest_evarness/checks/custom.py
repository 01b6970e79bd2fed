"""The check ``custom``: a script of the user's own looks at the world and says what it found.

Source: docs/checks/custom.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pytest_evarness.checks.command import (
    ended_record,
    ended_words,
    private_folder,
    stream_notes,
)
from pytest_evarness.checks.found import bounded_text, found
from pytest_evarness.checks.jsonvalue import NoJsonError, read_value
from pytest_evarness.checks.judging.answer import number_shown, unit_number
from pytest_evarness.checks.kind import (
    DEFAULT_TIMEOUT_SECONDS,
    CheckKind,
    Facts,
    Known,
    UnavailableError,
)
from pytest_evarness.checks.written import NonEmpty, Words, schema_of
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Absent, Strict, parse_model
from pytest_evarness.source.number import WrittenFloat
from pytest_evarness.source.quote import nearest, quoted
from pytest_evarness.world.process import (
    CannotRunError,
    Captured,
    plain_environment,
    run_command,
)
from pytest_evarness.world.sandbox import find_sandbox
from pytest_evarness.world.service import QueryError

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.world.sealed import Scene

__all__ = ["Custom", "Said", "read_result"]

_KEYS = ("passed", "score", "reason", "details")
_ALL = frozenset({"stdout"})
_QUOTED = 300
_OWN_PROGRAMS = (".venv/bin", "node_modules/.bin")


class _Custom(Strict):
    type: Literal["custom"]
    script: NonEmpty = Field(description="A file of the project; relative to the scenario file.")
    args: list[str] = Field(default_factory=list, description="Words after the script.")
    runs_in: Literal["host", "sandbox"] = Field(
        default="host", description="host, or sandbox: no network, no writes but in its copies."
    )
    interpreter: Absent[Words] = Field(
        default=None, description="The program that runs it, with its words; default Python."
    )


class Custom(CheckKind):
    """A script that gets the context as JSON and prints one JSON document."""

    @property
    def name(self) -> str:
        """``custom``."""
        return "custom"

    @property
    def only_reads(self) -> bool:
        """Nobody knows what a script does."""
        return False

    @property
    def schema(self) -> JsonObject:
        """Of the mapping under ``check``."""
        return schema_of(_Custom)

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """See :class:`CheckKind`."""
        model, faults = parse_model(_Custom, value)
        if model is None:
            return {}, faults
        file, fault = known.read(model.script)
        if fault is not None:
            faults.append(fault.under("script"))
        for key in ("args", "interpreter"):
            words: list[str] = getattr(model, key) or []
            if any("\0" in word for word in words):
                faults.append(Fault((key,), "holds a NUL character"))
        if file is not None and model.interpreter is None and model.runs_in == "host":
            problem = _syntax_problem(file.data, file.name)
            if problem is not None:
                fix = None if model.script.endswith(".py") else "name its 'interpreter'"
                faults.append(Fault(("script",), problem, got=quoted(model.script), fix=fix))
        if file is None or faults:
            return {}, faults
        return {
            "type": "custom",
            "script": file.name,
            "sha256": f"sha256:{file.sha256}",
            "args": list(model.args),
            "runs_in": model.runs_in,
            "interpreter": list(model.interpreter or ()),
            "services": sorted(known.services),
        }, []

    def needs(self, definition: JsonObject) -> frozenset[str]:
        """Every service: the context lists them all, and which ones the script asks is its own."""
        names: Any = definition["services"]
        return frozenset(f"service:{name}" for name in names)

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        """Run the script on copies."""
        asked: Mapping[str, Any] = definition
        script = _sealed_script(asked, scene)
        with contextlib.ExitStack() as stack:
            places = _places(scene, stack)
            argv, env = _command_line(asked, script, places)
            confined: dict[str, Json] | None = None
            if asked["runs_in"] == "sandbox":
                sandbox = find_sandbox()
                if sandbox.name == "none":
                    raise UnavailableError(
                        Cause.EVALUATOR_ERROR,
                        f"this system has no sandbox to run the script in ({sandbox.why}); with"
                        " 'runs_in: host' it runs without one",
                    )
                argv, is_alone = sandbox.wrap_with(
                    argv, writable=places.writable, addresses=places.services.values()
                )
                confined = {"writes": sandbox.writes, "network": is_alone}
            try:
                ended = run_command(
                    argv,
                    cwd=places.workspace,
                    env=env,
                    seconds=asked.get("timeout", DEFAULT_TIMEOUT_SECONDS),
                    stdin=places.context(scene),
                )
            except CannotRunError as error:
                raise UnavailableError(Cause.EVALUATOR_ERROR, error.reason) from None
            return {"confined": confined, **ended_record(ended, scene, places.words, _ALL)}

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """See :class:`CheckKind`."""
        del facts
        definition: Mapping[str, Any] = item.definition or {}
        said = read_result(gathered, definition.get("timeout", DEFAULT_TIMEOUT_SECONDS))
        where = f"{definition['script']} on copies of the world at the end of run A"
        if isinstance(said, str):
            return found(
                item,
                Outcome.INDETERMINATE,
                f"{definition['script']}: {said}",
                causes=(Cause.EVALUATOR_ERROR,),
                witness=Witness(
                    expected="exit code 0, and {passed, score?, reason?, details?} as one document",
                    observed=ended_words(gathered),
                    notes=stream_notes(gathered),
                ),
                looked_at=(where,),
            )
        notes = [] if said.details is None else [f"details: {shown(said.details, 1500)}"]
        notes += [note for note in stream_notes(gathered) if note.startswith("stderr (")]
        score = "" if said.score is None else f", score {float(said.score):g}"
        finding = found(
            item,
            Outcome.PASS if said.passed else Outcome.FAIL,
            said.reason or f"the script says passed: {'true' if said.passed else 'false'}{score}",
            witness=Witness(
                expected="passed: true",
                observed=f"passed: {'true' if said.passed else 'false'}{score}",
                notes=tuple(notes),
            ),
            looked_at=(where,),
        )
        return finding if said.score is None else finding.with_(score=said.score)


# -- what a script says ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Said:
    """A result as it was printed.

    Attributes:
        score: In [0, 1], exact; None where the script gave none.
    """

    passed: bool
    score: Fraction | None
    reason: str | None
    details: Json


def read_result(gathered: Mapping[str, Any], seconds: float) -> Said | str:
    """The result of a script that ended as it should, or why there is none.

    Args:
        gathered: How it ended, and its streams.
        seconds: Its limit.
    """
    stdout = Captured.from_record(gathered["stdout"])
    quoted_output = (
        f"it printed {shown(stdout.text, _QUOTED)}" if stdout.size else "it printed nothing"
    )
    if gathered["timed_out"]:
        return f"timed out after {seconds:g} s; {quoted_output}"
    if gathered["exit_code"] != 0:
        return f"ended with {ended_words(gathered)}; {quoted_output}{_last_words(gathered)}"
    asked = Captured.from_record(gathered["asked"]["stdout"])
    if asked.is_cut:
        return f"printed {stdout.size:,} bytes, which is no result; {quoted_output}"
    try:
        value = read_value(asked.head, number=WrittenFloat)
    except NoJsonError as error:
        return f"what it printed is not one JSON document: {error}; {quoted_output}"
    problem = _problem(value)
    if problem is not None:
        return f"{problem}; {quoted_output}"
    score = value.get("score")
    reason = value.get("reason")
    return Said(
        passed=value["passed"],
        score=None if score is None else unit_number(score),
        reason=None if reason is None else bounded_text(" ".join(reason.split())) or None,
        details=value.get("details"),
    )


def _last_words(gathered: Mapping[str, Any]) -> str:
    stderr = Captured.from_record(gathered["stderr"])
    lines = [line.strip() for line in stderr.text.splitlines() if line.strip()]
    return f"; its last words: {shown(lines[-1], _QUOTED)}" if lines else ""


def _problem(value: Any) -> str | None:
    """Why a document is no result."""
    if not isinstance(value, dict):
        return f"the result must be a mapping, is a {kind_of(value)}"
    for key in value:
        if key not in _KEYS:
            near = nearest(key, _KEYS)
            advice = f", write {quoted(near)}" if near else ""
            return (
                f"the result has the unknown key {quoted(key)} (known: {', '.join(_KEYS)}{advice})"
            )
    if "passed" not in value:
        return "the result has no 'passed'"
    if not isinstance(value["passed"], bool):
        return f"'passed' must be true or false, is {shown(value['passed'], 60)}"
    if "score" in value:
        score = value["score"]
        if unit_number(score) is None:
            return f"'score' must be a number from 0 to 1, is {number_shown(score)}"
    if "reason" in value and not isinstance(value["reason"], str):
        return f"'reason' must be text, is a {kind_of(value['reason'])}"
    return None


# -- where it runs -----------------------------------------------------------------------------


def _syntax_problem(data: bytes, name: str) -> str | None:
    """Why Python cannot read a script; None where it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        return f"is no Python ({where}{error.msg})"
    except ValueError as error:
        return f"is no Python ({error})"
    except (RecursionError, MemoryError):
        return "is no Python that can be compiled (it nests too deeply)"
    return None


def _sealed_script(asked: Mapping[str, Any], scene: Scene) -> Path:
    """The script, which still is what was sealed.

    It is run in its own place, so that it finds what lies beside it.
    """
    script = scene.root / str(asked["script"])
    try:
        digest = hashlib.sha256(script.read_bytes()).hexdigest()
    except OSError as error:
        raise UnavailableError(
            Cause.STALE_EVIDENCE, f"{asked['script']} cannot be read any more ({error.strerror})"
        ) from None
    if f"sha256:{digest}" != asked["sha256"]:
        raise UnavailableError(
            Cause.STALE_EVIDENCE, f"{asked['script']} was changed after the plan was sealed"
        )
    return script


@dataclass(frozen=True, slots=True)
class _Places:
    """Copies of the world for one script.

    Attributes:
        workspace: A copy.
        home: Of the process.
        logs: Holds the audit log and the trace.
        shipped: Audit logs that nodes of the run wrote, by the node; in ``logs`` too.
        services: Addresses of copies, by name.
    """

    workspace: Path
    home: Path
    logs: Path
    shipped: Mapping[str, Path]
    services: Mapping[str, Mapping[str, Json]]

    @property
    def files(self) -> list[Path]:
        """Services that are files."""
        found_paths = [address.get("path") for address in self.services.values()]
        return [Path(path) for path in found_paths if isinstance(path, str)]

    @property
    def writable(self) -> list[Path]:
        """What a confined script may write."""
        return [self.workspace, self.home, *self.files]

    @property
    def words(self) -> dict[Path, str]:
        """What to write for these folders."""
        own = {self.workspace: "«workspace»", self.home: "«home»", self.logs: "«logs»"}
        return own | {path.parent: "«service»" for path in self.files}

    def context(self, scene: Scene) -> bytes:
        """What the script reads on standard input."""
        context = {
            "sandbox_id": scene.sandbox_id,
            "workspace_path": str(self.workspace),
            "services": {name: dict(self.services[name]) for name in sorted(self.services)},
            "audit_log_path": str(self.logs / "audit.jsonl"),
            "audit_logs": {node: str(path) for node, path in self.shipped.items()},
            "trace_path": str(self.logs / "trace.jsonl"),
            "task": {"prompt": scene.prompt},
            "scenario_params": dict(scene.params),
        }
        return json.dumps(context).encode("ascii")


def _places(scene: Scene, stack: contextlib.ExitStack) -> _Places:
    workspace = stack.enter_context(scene.workspace_copy())
    home, logs = (stack.enter_context(private_folder()) for _ in range(2))
    (logs / "audit.jsonl").write_text(scene.audit_log, encoding="utf-8", newline="")
    (logs / "trace.jsonl").write_text(scene.trace_log, encoding="utf-8", newline="")
    shipped = {}
    for number, (node, text) in enumerate(sorted(scene.shipped_logs.items())):
        # By number: the id of a node need not be a file's name.
        shipped[node] = logs / f"audit-{number}.jsonl"
        shipped[node].write_text(text, encoding="utf-8", newline="")
    services = {}
    for name, service in sorted(scene.services.items()):
        try:
            services[name] = stack.enter_context(service.copy())
        except QueryError as error:
            raise UnavailableError(
                Cause.MISSING_EVIDENCE, f"service '{name}' cannot be copied ({error.reason})"
            ) from None
    return _Places(workspace, home, logs, shipped, services)


def _command_line(
    asked: Mapping[str, Any], script: Path, places: _Places
) -> tuple[list[str], dict[str, str]]:
    """Words and variables of the script's process."""
    env = plain_environment(places.home, {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"})
    interpreter = list(asked["interpreter"])
    if asked["runs_in"] == "sandbox":
        # What the run installed in its workspace comes first.
        own = [places.workspace / folder for folder in _OWN_PROGRAMS]
        env["PATH"] = os.pathsep.join([*(str(folder) for folder in own), env["PATH"]])
        python = places.workspace / ".venv/bin/python"
        default = str(python) if python.exists() else sys.executable
    else:
        default = sys.executable
    return [*(interpreter or [default]), str(script), *asked["args"]], env

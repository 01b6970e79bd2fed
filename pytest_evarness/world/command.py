"""Commands that a step of the user's own runs in the workspace."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.world.model import variable_name
from pytest_evarness.world.process import CannotRunError, plain_environment, run_command
from pytest_evarness.world.sandbox import find_sandbox

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json
    from pytest_evarness.world.world import RunWorld

__all__ = ["Completed", "run_in", "service_variables"]

_SCHEMES = {"http_mock": "http", "postgres": "postgresql"}


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended.

    Attributes:
        exit_code: None where a signal ended it, or its time was up.
        signal: The signal that ended it.
        timed_out: Its time was up.
        stdout: What it wrote, both ends of it where it wrote more than 1 MiB.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    stdout: str
    stderr: str


def run_in(
    world: RunWorld,
    command: str | Sequence[str],
    *,
    seconds: float,
    env: Mapping[str, str],
    stdin: str,
) -> Completed:
    """Run a command in the world's workspace; the audit log gets a line of it.

    The sandbox leaves it the workspace, the files of services and a folder for temporary files to
    write. Of the network it has the services alone, unless one of them can be reached in no other
    way than by this machine's: then it has that, and the world notes that nobody knows what it
    reached.

    Raises:
        RuntimeError: It could not be started.
    """
    argv = _argv(command)
    home = Path(world.new_folder())
    workspace = world.workspace
    addresses: dict[str, Mapping[str, Json]] = {
        name: world.addresses[name] for name in world.addresses if name not in world.problems
    }
    variables = plain_environment(
        home,
        {**service_variables(addresses, world.kinds), **{str(k): str(v) for k, v in env.items()}},
    )
    sandbox = find_sandbox()
    line = argv
    if sandbox.name == "none":
        world.unsandboxed.update(("network", "writes"))
    else:
        files = [Path(str(one["path"])).parent for one in addresses.values() if "path" in one]
        writable = [home, *([] if workspace is None else [workspace]), *files]
        line, is_alone = sandbox.wrap_with(argv, writable=writable, addresses=addresses.values())
        if not is_alone:
            world.unsandboxed.add("network")
    try:
        ended = run_command(
            line,
            cwd=workspace or home,
            env=variables,
            seconds=seconds,
            stdin=stdin.encode("utf-8"),
        )
    except CannotRunError as error:
        raise RuntimeError(f"the command could not be run: {error.reason}") from None
    shown = command if isinstance(command, str) else list(command)
    world.audit.add("command", {"command": shown, "exit_code": ended.exit_code})
    return Completed(
        ended.exit_code, ended.signal, ended.timed_out, ended.stdout.text, ended.stderr.text
    )


def _argv(command: str | Sequence[str]) -> list[str]:
    if isinstance(command, str):
        bash = shutil.which("bash")
        return [bash, "-o", "pipefail", "-c", command] if bash else ["sh", "-c", command]
    words = list(command)
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError("a command is a line, or program and words as texts")
    return words


def service_variables(
    addresses: Mapping[str, Mapping[str, Json]], kinds: Mapping[str, str]
) -> dict[str, str]:
    """``<NAME>_HOST``, ``<NAME>_PORT``, ``<NAME>_PATH``, ... and ``<NAME>_URL`` of each service.

    Args:
        addresses: By name.
        kinds: Type by name.
    """
    variables: dict[str, str] = {}
    for name in sorted(addresses):
        address: Any = addresses[name]
        stem = variable_name(name)
        for key in sorted(address):
            if isinstance(address[key], str | int | float):
                variables[f"{stem}_{variable_name(key)}"] = str(address[key])
        if "url" not in address and "host" in address and "port" in address:
            scheme = _SCHEMES.get(kinds[name], kinds[name])
            variables[f"{stem}_URL"] = f"{scheme}://{address['host']}:{address['port']}"
    return variables

"""What this system can do to confine a command, found out by trying, and said plainly.

Nothing is believed: a sandbox counts as denying something only after a program inside it tried
that and was denied. Where a system can do nothing, nothing is claimed.
"""

from __future__ import annotations

import functools
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.world.process import CannotRunError, Ended, plain_environment, run_command

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json

__all__ = ["NO_SANDBOX", "Sandbox", "find_sandbox", "try_sandbox"]

_PROBE_SECONDS = 20.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost"})

# Run inside: tries each thing that is to be denied, and the one that is to work.
_PROBE = """\
import json, socket, sys
def writes(folder):
    try:
        with open(folder + "/probe", "w") as file:
            file.write("x")
    except OSError:
        return False
    return True
def reaches(port):
    try:
        socket.create_connection(("127.0.0.1", port), 2).close()
    except OSError:
        return False
    return True
inside, outside, port, service = sys.argv[1:]
print(json.dumps([writes(inside), writes(outside), reaches(int(port)), reaches(int(service))]))
"""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a command that is run in it cannot do.

    Attributes:
        name: ``namespaces``, ``bubblewrap``, or ``none``.
        network: Whether a network is out of its reach, loopback of the host included.
        writes: Whether it cannot write outside the folders it is given.
        why: Where it denies nothing: what stood in the way, in one line.
        kind: How it is made: ``user`` or ``root`` namespaces, or the path of ``bwrap``.
        ports: Whether chosen ports of the host's loopback can be passed on into it.
    """

    name: str
    network: bool
    writes: bool
    why: str = ""
    kind: str = ""
    ports: bool = False

    def wrap(
        self,
        argv: Sequence[str],
        *,
        writable: Sequence[Path],
        network: bool = False,
        ports: Sequence[int] = (),
    ) -> list[str]:
        """The command line that runs ``argv`` inside.

        Args:
            argv: Program and words.
            writable: The folders and files that it may write; absolute.
            network: Leave it the host's network; what it may reach then is everything.
            ports: Ports of the host's loopback that it may reach all the same.

        Raises:
            ValueError: There is no sandbox, or it cannot pass on ports.
        """
        if self.name == "none":
            raise ValueError(f"there is no sandbox here: {self.why}")
        folders = [str(folder) for folder in writable]
        if self.name == "bubblewrap":
            if ports:
                raise ValueError("bubblewrap passes on no ports")
            binds = [word for folder in folders for word in ("--bind", folder, folder)]
            words = [self.kind, "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
            words += ["--proc", "/proc", *binds, "--unshare-ipc", "--cap-drop", "ALL"]
            return [*words, *([] if network else ["--unshare-net"]), "--", *argv]
        setting = {
            "writable": folders,
            "network": network,
            "ports": list(ports),
            "user": self.kind == "user",
        }
        script = Path(__file__).with_name("confine.py")
        return [sys.executable, "-I", "-S", "-B", str(script), json.dumps(setting), *argv]

    def wrap_with(
        self,
        argv: Sequence[str],
        *,
        writable: Sequence[Path],
        addresses: Iterable[Mapping[str, Json]],
    ) -> tuple[list[str], bool]:
        """The same for a command that is to reach some services, and nothing else if possible.

        Args:
            argv: Program and words.
            writable: As above.
            addresses: Of services: ``{path}`` or ``{host, port, ...}``.

        Returns:
            The command line, and whether the network is out of reach but for those services. It is
            not where one of them is elsewhere than on the loopback, or the sandbox cannot pass on
            ports: then everything is in reach.
        """
        ports = set()
        is_near = True
        for address in addresses:
            port = address.get("port")
            if isinstance(port, int) and address.get("host") in _LOOPBACK:
                ports.add(port)
            elif "path" not in address:
                is_near = False
        if is_near and (not ports or self.ports):
            return self.wrap(argv, writable=writable, ports=sorted(ports)), self.network
        return self.wrap(argv, writable=writable, network=True), False

    @property
    def sentence(self) -> str:
        """What it does, for a reader of a bundle."""
        if self.name == "none":
            return f"none ({self.why})"
        denied = [
            words
            for words, is_denied in (
                ("writes outside the workspace", self.writes),
                ("network", self.network),
            )
            if is_denied
        ]
        return f"{self.name}: denies {' and '.join(denied)}"


NO_SANDBOX = Sandbox("none", network=False, writes=False, why="this system has none that is known")


@functools.cache
def find_sandbox() -> Sandbox:
    """The best that works here; asked once in a process.

    A system that can deny only one of the two has none: half of a promise is easily taken for the
    whole.
    """
    if not sys.platform.startswith("linux") or not sys.executable:
        return NO_SANDBOX
    candidates = [("namespaces", "user"), ("namespaces", "root")]
    program = shutil.which("bwrap")
    if program is not None:
        candidates.append(("bubblewrap", program))
    reasons = []
    for name, kind in candidates:
        found = try_sandbox(Sandbox(name, network=False, writes=False, kind=kind))
        if found.network and found.writes:
            return found
        reasons.append(found.why)
    return Sandbox("none", network=False, writes=False, why="; ".join(dict.fromkeys(reasons)))


def try_sandbox(candidate: Sandbox) -> Sandbox:
    """The same sandbox with what it really denied, or with why it did not work."""
    with (
        tempfile.TemporaryDirectory(prefix="evarness-probe-") as name,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.create_server(("127.0.0.1", 0)) as service,
    ):
        inside, outside = Path(name, "inside"), Path(name, "outside")
        inside.mkdir()
        outside.mkdir()
        port, chosen = other.getsockname()[1], service.getsockname()[1]
        words = [str(inside), str(outside), str(port), str(chosen)]
        probe = [sys.executable, "-I", "-S", "-c", _PROBE, *words]
        ports = [chosen] if candidate.name == "namespaces" else []
        try:
            ended = run_command(
                candidate.wrap(probe, writable=[inside], ports=ports),
                cwd=inside,
                env=plain_environment(inside),
                seconds=_PROBE_SECONDS,
            )
        except CannotRunError as error:
            return replace(candidate, network=False, writes=False, why=error.reason)
        return _tried(candidate, ended)


def _tried(candidate: Sandbox, ended: Ended) -> Sandbox:
    try:
        answers = json.loads(ended.stdout.head)
    except ValueError:
        answers = None
    if ended.exit_code != 0 or not isinstance(answers, list) or len(answers) != 4:
        lines = ended.stderr.head.strip().splitlines()
        why = lines[-1] if lines else "a program inside it did not answer"
        return replace(candidate, network=False, writes=False, why=why)
    wrote_inside, wrote_outside, reached, reached_service = (one is True for one in answers)
    if not wrote_inside:
        why = "a program inside it could not write where it may"
        return replace(candidate, network=False, writes=False, why=why)
    return replace(candidate, network=not reached, writes=not wrote_outside, ports=reached_service)

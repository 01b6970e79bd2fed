"""The mirror: a second process that differs in everything that must not matter.

It runs each case again. What it cannot do (it died, it never started, it took too long) is said and
never made up for by another run in this process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from pytest_evarness.core.reason import impersonal
from pytest_evarness.core.removal import remove_tree
from pytest_evarness.core.run import Run
from pytest_evarness.errors import EvarnessError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.interfaces import WorldHost

__all__ = ["HEAD", "MARK", "PASSED_VARIABLES", "HookRef", "Mirror", "MirrorError"]

HookRef: TypeAlias = tuple[str, str]
"""Name and absolute file of a module that defines ``pytest_evarness_register``."""

PASSED_VARIABLES = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH")

HEAD = struct.Struct(">4sI")
"""Before each message: a mark, and the length of the JSON that follows."""

MARK = b"evm1"

_START_SECONDS = 60.0
_MARGIN_SECONDS = 15.0
_CLOSE_SECONDS = 2.0
_LAST_WORDS = 400
_MAX_KEPT = 128 * 1024 * 1024

# Run by `python -c`: the package need not be importable from the mirror's own folder, so the
# search path arrives first, over the pipe.
_BOOTSTRAP = """\
import json, os, struct, sys
def read(count):
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            os._exit(0)
        data += part
    return data
mark, length = struct.unpack(">4sI", read(8))
hello = json.loads(read(length))
sys.path[:] = hello["path"]
from pytest_evarness.core.reflection import serve
serve(hello)
"""


class MirrorError(EvarnessError):
    """The second run could not be made; the sentence says why."""


class Mirror:
    """A process that runs cases again, started when it is first needed.

    One mirror serves one process, one case at a time. Nothing of it outlives this process: it ends
    when :meth:`close` is called, when this process exits, and when this process is killed.

    Args:
        hooks: Modules with a ``pytest_evarness_register``, loaded there as they were here.
        margin_seconds: How much longer than ``budget.seconds`` a run may take there.
    """

    def __init__(
        self, hooks: Sequence[HookRef] = (), *, margin_seconds: float = _MARGIN_SECONDS
    ) -> None:
        self._hooks = [(name, str(Path(file).absolute())) for name, file in hooks]
        self._margin_seconds = margin_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: str | None = None
        self._lifeline: int | None = None
        self._sent: set[str] = set()
        self._sent_size = 0
        self._greeted = False
        self._never_starts: str | None = None
        self._facts: dict[str, str] = {}
        self._owner = os.getpid()

    # -- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to start the process; returns at once. Starting twice is fine."""
        if self._process is not None or self._never_starts is not None:
            return
        if not sys.executable:
            self._never_starts = "the mirror process could not start (no interpreter is known)"
            return
        self._folder = tempfile.mkdtemp(prefix="evarness-mirror-")
        here, temporary = Path(self._folder, "here"), Path(self._folder, "tmp")
        here.mkdir()
        temporary.mkdir()
        environment, self._facts = _perturbed(str(temporary), self._hooks)
        read_end, self._lifeline = os.pipe()
        words = Path(self._folder, "words")
        try:
            with words.open("wb") as stderr:
                self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
                    [sys.executable, *_same_flags(), "-c", _BOOTSTRAP],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    cwd=here,
                    env=environment,
                    start_new_session=True,
                    pass_fds=(read_end,) if os.name == "posix" else (),
                    bufsize=0,
                )
        except OSError as error:
            self._clean()
            self._never_starts = f"the mirror process could not start ({error.strerror})"
            return
        finally:
            os.close(read_end)
        _alive.add(self)
        hello = {
            "path": [str(Path(entry).absolute()) for entry in sys.path],
            "hooks": self._hooks,
            "lifeline": read_end if os.name == "posix" else None,
            "folder": self._folder,
            "probe": hash(_PROBE),
        }
        with contextlib.suppress(MirrorError):  # a dead process is told by the first run
            self._send(hello)

    def close(self) -> None:
        """End the process and everything it started; closing twice is fine."""
        process = self._process
        if process is None or self._owner != os.getpid():
            return  # never started, or a fork of the process that owns it
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        _await_end(process)
        self._kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def facts(self) -> dict[str, str]:
        """What the mirror differs in, in words that hold nothing of this machine."""
        return dict(self._facts)

    # -- runs --------------------------------------------------------------------------------

    def run(
        self,
        case: CompiledCase,
        secrets: Mapping[str, str] | None = None,
        *,
        host: WorldHost | None = None,
    ) -> Run:
        """Run a case there and wait for the result.

        Args:
            host: What worlds of this session share, for a case that declares one.

        Raises:
            MirrorError: It died, it could not start, or it took too long. A mirror that died is
                started anew for the next case.
        """
        if self._owner != os.getpid():
            raise MirrorError("the mirror belongs to another process")
        self.start()
        if self._never_starts is not None:
            raise MirrorError(self._never_starts)
        if not self._greeted:
            self._greet()
        graph, overlays = case.graph_digest, case.overlays_digest
        materials = case.materials_digest
        # What the other side keeps is bounded: beyond it all is forgotten, and sent again.
        forget = self._sent_size > _MAX_KEPT
        if forget:
            self._sent.clear()
            self._sent_size = 0
        shared = [(graph, case.graph_text), (overlays, case.overlays_text)]
        if materials is not None:
            shared.append((materials, case.materials_text))
        texts = {digest: text for digest, text in shared if digest not in self._sent}
        request = {
            "case": case.text,
            "graph": graph,
            "overlays": overlays,
            "materials": materials,
            "forget": forget,
            "texts": texts,
            "host": None if host is None else {"session": host.session, "folder": host.folder},
            "secrets": {name: (secrets or {})[name] for name in case.secrets},
        }
        what = f"case {case.case}"
        try:
            self._send(request)
            self._sent.update(texts)
            self._sent_size += sum(len(text) for text in texts.values())
            answer = self._receive(case.budget.seconds + self._margin_seconds, what)
        except MirrorError:
            raise
        except BaseException:
            # Interrupted while it waits: the answer would be taken for that of the next case.
            self._kill()
            raise
        if "error" in answer:
            raise MirrorError(f"the mirror process could not run the case ({answer['error']})")
        if answer.get("case") != case.digest:
            raise self._out_of_turn(what)
        return Run.from_record(answer["run"])

    def _greet(self) -> None:
        try:
            answer = self._receive(_START_SECONDS, "its start")
            if "error" in answer:
                raise MirrorError(f"the mirror process could not start ({answer['error']})")
            if answer["probe"] == hash(_PROBE):
                raise MirrorError("the mirror process has this process's hash seed")
        except MirrorError as error:
            # What stops it from starting would stop it again for each of a thousand cases.
            self._never_starts = error.problem
            self._kill()
            raise
        self._greeted = True

    # -- pipes -------------------------------------------------------------------------------

    def _send(self, message: Mapping[str, Any]) -> None:
        process = self._process
        assert process is not None, "started before anything is sent"
        assert process.stdin is not None, "started with a pipe"
        body = json.dumps(message, ensure_ascii=True).encode("ascii")
        data = memoryview(HEAD.pack(MARK, len(body)) + body)
        try:
            while data:
                data = data[process.stdin.write(data) :]
        except OSError:
            raise self._dead("while it was spoken to") from None

    def _receive(self, seconds: float, what: str) -> dict[str, Any]:
        end = time.monotonic() + seconds
        mark, length = HEAD.unpack(self._read(HEAD.size, end, what))
        if mark != MARK:
            raise self._out_of_turn(what)
        body = self._read(length, end, what)
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._out_of_turn(what)
        return answer

    def _out_of_turn(self, what: str) -> MirrorError:
        self._kill()
        return MirrorError(f"the mirror process spoke out of turn during {what}")

    def _read(self, count: int, end: float, what: str) -> bytes:
        process = self._process
        assert process is not None, "started before anything is read"
        assert process.stdout is not None, "started with a pipe"
        number = process.stdout.fileno()
        parts: list[bytes] = []
        while count:
            if not _is_readable(number, end - time.monotonic()):
                self._kill()
                raise MirrorError(f"the mirror process took too long for {what} and was stopped")
            part = os.read(number, min(count, 1 << 20))
            if not part:
                raise self._dead(f"during {what}")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _dead(self, when: str) -> MirrorError:
        """Gather what a dead process left, and be ready to start another."""
        process = self._process
        assert process is not None, "only a process that was started can be dead"
        _await_end(process)
        words = self._words()
        self._kill()
        status = process.returncode
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        last = f"; its last words: {words}" if words else ""
        return MirrorError(f"the mirror process died {when} ({how}{last})")

    def _words(self) -> str:
        if self._folder is None:
            return ""
        try:
            said = Path(self._folder, "words").read_bytes()[-4096:].decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return impersonal(lines[-1][:_LAST_WORDS]) if lines else ""

    def _kill(self) -> None:
        process = self._process
        if process is None:
            return
        # The group, also where its leader is gone: whatever a node started dies with it. Nobody
        # has waited for the leader yet, so the number cannot belong to anybody else.
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()
        self._process = None
        self._clean()

    def _clean(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
        if self._folder is not None:
            remove_tree(self._folder)
        self._lifeline = self._folder = None
        self._greeted = False
        self._sent.clear()
        self._sent_size = 0
        _alive.discard(self)


_PROBE = "pytest-evarness: the seed of this hash"

_alive: set[Mirror] = set()


@atexit.register
def _close_all() -> None:
    for mirror in list(_alive):
        mirror.close()


def _same_flags() -> list[str]:
    """Options of this interpreter that change what programs do, not only how they see the world."""
    flags = ["-O"] * sys.flags.optimize
    return [*flags, "-B"] if sys.flags.dont_write_bytecode else flags


def _await_end(process: subprocess.Popen[bytes]) -> None:
    """Give a process that has nothing more to do some time to end, without collecting it."""
    if not hasattr(os, "waitid"):
        return
    end = time.monotonic() + _CLOSE_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                time.sleep(0.002)
                continue
        return


def _is_readable(number: int, seconds: float) -> bool:
    """Whether there is something to read, or an end, within ``seconds``."""
    if seconds <= 0:
        return False
    if hasattr(select, "poll"):  # select() itself cannot watch descriptors from 1024
        poll = select.poll()
        poll.register(number, select.POLLIN | select.POLLHUP)
        return bool(poll.poll(max(1, int(seconds * 1000))))
    return True


# -- what is different -----------------------------------------------------------------------------


def _perturbed(temporary: str, hooks: Sequence[HookRef]) -> tuple[dict[str, str], dict[str, str]]:
    """The environment of the mirror, and what it differs in."""
    environment = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    hash_seed = _other_hash_seed()
    zone, zone_words = _other_zone()
    language = _other_locale()
    environment.update(
        PYTHONHASHSEED=hash_seed,
        TZ=zone,
        LC_ALL=language,
        LANG=language,
        TMPDIR=temporary,
        TEMP=temporary,
        TMP=temporary,
    )
    facts = {
        "environment": f"only {', '.join(PASSED_VARIABLES)} and the secrets are passed",
        "hash seed": f"{hash_seed} instead of {_hash_seed_words()}",
        "locale": f"{language} instead of {_locale_words()}",
        "process": "another one, with its own group",
        "temporary directory": "a fresh one",
        "time zone": zone_words,
        "working directory": "a fresh one",
    }
    if hooks:
        facts["hooks"] = "loaded from the same files"
    return environment, facts


def _hash_seed_words() -> str:
    return os.environ.get("PYTHONHASHSEED") or "random"


def _other_hash_seed() -> str:
    written = os.environ.get("PYTHONHASHSEED", "")
    # With a seed of its own each process of one program hashes alike; a random one differs from
    # every fixed one, and a fixed one can be written down and used again.
    return str((int(written) + 1) % 2**32) if written.isdigit() else "1"


def _other_zone() -> tuple[str, str]:
    """A zone far from here, odd by three quarters of an hour so that it shifts minutes too.

    Written as POSIX has it (the sign counts westward), since that needs no time zone database.
    """
    is_east = time.timezone < 0
    zone = "EVW+09:45" if is_east else "EVE-12:45"
    there = "UTC-09:45" if is_east else "UTC+12:45"
    minutes = -time.timezone // 60
    sign = "-" if minutes < 0 else "+"
    here = f"UTC{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    return zone, f"{there} instead of {here}"


def _locale_words() -> str:
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    return next((os.environ[name] for name in names if os.environ.get(name)), "C")


def _other_locale() -> str:
    if _locale_words() not in ("C", "POSIX"):
        return "C"
    return "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"

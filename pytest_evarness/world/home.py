"""Where this process keeps the folders of its worlds, and how nothing of them stays behind.

Every process has one folder of its own, and holds a lock in it as long as it lives. A folder whose
lock nobody holds belonged to a process that was killed: whoever comes next removes it.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import tempfile
import time

from pytest_evarness.core.removal import remove_tree

try:
    import fcntl
except ImportError:  # not on this system
    _HAS_LOCKS = False
else:
    _HAS_LOCKS = True

__all__ = ["PREFIX", "new_folder", "release", "tidy"]

PREFIX = "evarness-world-"

_LOCK = "lock"
_GRACE_SECONDS = 60.0


class _Home:
    """One process's folder."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.base = tempfile.gettempdir()
        _sweep(self.base)
        self.path = tempfile.mkdtemp(prefix=f"{PREFIX}{self.pid}-{_started(self.pid)}-")
        self._lock = _locked(os.path.join(self.path, _LOCK), create=True)
        self._numbers = itertools.count()

    def new(self) -> str:
        path = os.path.join(self.path, str(next(self._numbers)))
        os.mkdir(path, 0o700)
        return path

    def release(self) -> None:
        remove_tree(self.path)
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.close(self._lock)
            self._lock = None


_home: _Home | None = None


def new_folder() -> str:
    """An empty folder that no other run has or had, absolute; its name reaches nothing.

    Raises:
        OSError: It cannot be made.
    """
    global _home  # noqa: PLW0603 - one folder a process is the point
    # Another process after a fork; or a mirror whose temporary folder was emptied.
    if _home is not None and _home.pid == os.getpid() and _home.base == tempfile.gettempdir():
        try:
            return _home.new()
        except FileNotFoundError:
            _home.release()
    _home = _Home()
    return _home.new()


@atexit.register
def release() -> None:
    """Remove this process's folder with all that is in it."""
    global _home  # noqa: PLW0603 - as above
    if _home is not None and _home.pid == os.getpid():
        _home.release()
        _home = None


def tidy() -> None:
    """Remove this process's folder where no world lies in it: it may end without saying so."""
    if _home is None or _home.pid != os.getpid():
        return
    with contextlib.suppress(OSError):
        if os.listdir(_home.path) == [_LOCK]:
            release()


def _sweep(base: str) -> None:
    """Remove what dead processes left in ``base``."""
    try:
        with os.scandir(base) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(PREFIX)]
    except OSError:
        return
    for name in names:
        path = os.path.join(base, name)
        with contextlib.suppress(OSError):
            if os.lstat(path).st_uid == _user() and _is_stale(path, name):
                remove_tree(path)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _is_stale(path: str, name: str) -> bool:
    lock = os.path.join(path, _LOCK)
    if not os.path.exists(lock):
        # Its owner is about to take the lock, or was killed before it could.
        return time.time() - os.lstat(path).st_mtime > _GRACE_SECONDS
    # Both: a lock is not taken at the moment the folder is made, and a process in another
    # container cannot be seen.
    if _is_alive(name):
        return False
    held = _locked(lock, create=False)
    if held is not None:
        os.close(held)
        return True
    return not _HAS_LOCKS


def _locked(path: str, *, create: bool) -> int | None:
    """A descriptor that holds the lock; None where somebody else does, or there are no locks."""
    number = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
    if not _HAS_LOCKS:
        os.close(number)
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        return None
    return number


def _is_alive(name: str) -> bool:
    """Whether the process that a folder is named after runs: the same number, started then."""
    parts = name[len(PREFIX) :].split("-")
    if len(parts) < 2 or not parts[0].isdigit():
        return True  # not ours to judge
    try:
        os.kill(int(parts[0]), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return parts[1] == _started(int(parts[0]))


def _started(pid: int) -> str:
    """When a process started, as its system counts; ``0`` where that is not told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode("ascii")
    except (OSError, IndexError):
        return "0"

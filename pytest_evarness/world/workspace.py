"""The run's own folder: made from a listing, and copied for those who may write in it."""

from __future__ import annotations

import datetime as dt
import os
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["as_nanoseconds", "copy_tree", "make_workspace", "stamps"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


def make_workspace(
    folder: str,
    listing: Sequence[Mapping[str, Any]],
    content: Callable[[str], bytes],
    *,
    nanoseconds: int,
) -> None:
    """Make ``folder`` with everything that is listed.

    Args:
        folder: Empty.
        listing: Sorted by path, as in the compiled case.
        content: Digest to bytes.
        nanoseconds: What every entry was last changed at: the start of simulated time.
    """
    os.chmod(folder, 0o755)  # noqa: S103 - whatever the umask; the folder above is private
    times = (nanoseconds, nanoseconds)
    folders = [(folder, 0o755)]
    for entry in listing:
        path = os.path.join(folder, entry["path"])
        if entry["type"] == "directory":
            os.mkdir(path, 0o700)
            folders.append((path, int(entry["mode"], 8)))
        elif entry["type"] == "symlink":
            os.symlink(entry["target"], path)
            if os.utime in os.supports_follow_symlinks:
                os.utime(path, ns=times, follow_symlinks=False)
        else:
            number = os.open(path, _NEW, 0o600)
            try:
                _write_all(number, content(entry["sha256"]))
                os.fchmod(number, int(entry["mode"], 8))
                os.utime(number, ns=times)
            finally:
                os.close(number)
    # Deepest first: what is made inside a folder changes its time, and may not be made at all.
    for path, mode in reversed(folders):
        os.chmod(path, mode)
        os.utime(path, ns=times)


def as_nanoseconds(moment: dt.datetime) -> int:
    """A moment as every file system has it: since 1970, in UTC, until 2038."""
    since = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    seconds = min(max(since.days * 86_400 + since.seconds, 0), 2**31 - 1)
    return seconds * 10**9 + since.microseconds * 1_000


def _write_all(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]


def stamps(folder: str) -> dict[str, tuple[int, ...]]:
    """What tells whether anything in a folder was written since, by path; itself is ``""``.

    No link is followed, the folder's own name included: one that is not there has none. Times of
    change are in it, which nobody can put back.
    """
    found: dict[str, tuple[int, ...]] = {}
    try:
        status = os.lstat(folder)
    except OSError:
        return found
    found[""] = _stamp(status)
    waiting = [folder] if stat.S_ISDIR(status.st_mode) else []
    for here in waiting:  # grows while it is gone through
        try:
            entries = list(os.scandir(here))
        except OSError:
            continue  # nobody may look into it, now or later
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            found[os.path.relpath(entry.path, folder)] = _stamp(status)
            if stat.S_ISDIR(status.st_mode):
                waiting.append(entry.path)
    return found


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    is_folder = stat.S_ISDIR(status.st_mode)
    size = 0 if is_folder else status.st_size
    return (status.st_mode, status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns)


def copy_tree(source: str, target: str) -> None:
    """Copy a folder with its modes and times; links stay links, and what is no file is left out.

    What cannot be read is left out as well.

    Args:
        source: Absolute.
        target: Empty.
    """
    waiting = [(source, target)]
    folders: list[tuple[str, os.stat_result]] = []
    for here, there in waiting:  # grows while it is gone through
        if there != target:
            os.mkdir(there, 0o700)
        folders.append((there, os.lstat(here)))
        for entry in _entries(here):
            place = os.path.join(there, entry.name)
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                waiting.append((entry.path, place))
            elif stat.S_ISLNK(found.st_mode):
                os.symlink(os.readlink(entry.path), place)
            elif stat.S_ISREG(found.st_mode):
                _copy_file(entry.path, place, found)
    for place, status in reversed(folders):
        os.chmod(place, stat.S_IMODE(status.st_mode))
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except PermissionError:
        return []


def _copy_file(source: str, target: str, status: os.stat_result) -> None:
    try:
        reading = os.open(source, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except PermissionError:
        return
    try:
        writing = os.open(target, _NEW, 0o600)
        try:
            while data := os.read(reading, 1 << 20):
                _write_all(writing, data)
            os.fchmod(writing, stat.S_IMODE(status.st_mode))
            os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(writing)
    finally:
        os.close(reading)

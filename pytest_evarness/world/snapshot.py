"""The end state of a workspace: every entry, and what became of those it began with.

Nothing is followed and nothing but regular files is opened.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from typing import TYPE_CHECKING, Any

from pytest_evarness.core import c1
from pytest_evarness.core.material import sha256_bytes
from pytest_evarness.world import repository

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_evarness.core.json import Json
    from pytest_evarness.core.secret import Masker

__all__ = ["MAX_ENTRIES", "MAX_HASHED", "changes", "start_entries", "take"]

MAX_ENTRIES = 50_000
"""How many entries are listed; what lies beyond is there as one count and one digest."""

MAX_HASHED = 4 * 1024**3
"""Bytes of all files together that are read; a file that would exceed it has no digest."""

_MASKED_PART = 64 * 1024 * 1024
_PART = 1 << 20
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_COMPARED = ("type", "mode", "sha256", "target")


def start_entries(listing: Sequence[Mapping[str, Any]], *, git: bool) -> dict[str, Any]:
    """What a snapshot would list of a workspace that was just made, by path."""
    entries: dict[str, Any] = {entry["path"]: entry for entry in listing}
    if git:
        entries[repository.FOLDER] = {"type": "directory", "mode": "0755"}
        for path, data in repository.listed_files().items():
            entries[path] = {"type": "file", "mode": "0644", "sha256": sha256_bytes(data)}
    return entries


def take(folder: str, start: Mapping[str, Any], masker: Masker) -> tuple[dict[str, Json], Any]:
    """The snapshot as it is, and as it may be shown.

    Args:
        folder: The workspace; it may be gone by now.
        start: By path, from :func:`start_entries`.
        masker: Of the case's secrets.
    """
    pairs = sorted(_Walk(folder, masker).entries(), key=lambda pair: pair[0]["path"])
    true = _summed([entry for entry, _ in pairs], start)
    if not _is_folder(folder):
        true["is_gone"] = True
    elif not _is_open(folder):
        true.update(unreadable=True, removed=[])
    if not masker:
        return true, true
    shown = _summed([other for _, other in pairs], None)
    shown.update({key: value for key, value in true.items() if key not in ("files", "beyond")})
    return true, masker.value(shown)


def _summed(entries: list[dict[str, Any]], start: Mapping[str, Any] | None) -> dict[str, Json]:
    made: dict[str, Any] = {"files": entries[:MAX_ENTRIES]}
    if len(entries) > MAX_ENTRIES:
        rest = entries[MAX_ENTRIES:]
        made["beyond"] = {"count": len(rest), "digest": c1.sha256_text(c1.text(rest))}
    if start is not None:
        made.update(changes(entries, start))
    return made


def changes(entries: Sequence[Mapping[str, Any]], start: Mapping[str, Any]) -> dict[str, list[str]]:
    """What became of a workspace: paths that were ``added``, ``removed`` and ``modified``.

    Args:
        entries: All of the end.
        start: By path, from :func:`start_entries`.
    """
    found = {entry["path"]: entry for entry in entries}
    # What lies in a folder that cannot be read may still be there.
    closed = tuple(f"{path}/" for path, entry in found.items() if "unreadable" in entry)
    return {
        "added": sorted(path for path in found if path not in start),
        "removed": sorted(
            path for path in start if path not in found and not path.startswith(closed)
        ),
        "modified": sorted(
            path
            for path, entry in found.items()
            if path in start and any(entry.get(key) != start[path].get(key) for key in _COMPARED)
        ),
    }


def _is_folder(folder: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(folder).st_mode)
    except OSError:
        return False


def _is_open(folder: str) -> bool:
    return os.access(folder, os.R_OK | os.X_OK)


class _Walk:
    """One walk over a workspace; gives each entry as it is and as it may be shown."""

    def __init__(self, folder: str, masker: Masker) -> None:
        self._folder = folder
        self._masker = masker
        self._left = MAX_HASHED

    def entries(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        if not _is_folder(self._folder):
            return
        waiting = [""]
        while waiting:
            here = waiting.pop()
            for entry in self._listed(here):
                path = f"{here}/{entry.name}" if here else entry.name
                if _is_unlisted(path):
                    continue
                made, shown, is_folder = self._entry(entry, path)
                if is_folder:
                    waiting.append(path)
                yield made, shown

    def _listed(self, here: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(os.path.join(self._folder, here)) as found:
                return sorted(found, key=lambda entry: entry.name)
        except OSError:
            return []  # said with the folder's own entry

    def _entry(
        self, entry: os.DirEntry[str], path: str
    ) -> tuple[dict[str, Any], dict[str, Any], bool]:
        made: dict[str, Any] = _named(path)
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            made.update(type="unknown", unreadable=True)
            return made, made, False
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            # A folder's set-group bit is inherited from where the temporary folder lies.
            made.update(type="directory", mode=f"{mode & 0o1777:04o}")
            if not _is_open(entry.path):
                made["unreadable"] = True
            return made, made, True
        if stat.S_ISLNK(mode):
            made["type"] = "symlink"
            try:
                made["target"] = _text(os.readlink(entry.path))
            except OSError:
                made["unreadable"] = True
            return made, made, False
        if not stat.S_ISREG(mode):
            made.update(type=_special(mode), mode=f"{stat.S_IMODE(mode):04o}")
            return made, made, False
        made.update(type="file", mode=f"{stat.S_IMODE(mode):04o}", size=status.st_size)
        return *self._file(entry.path, made, status.st_size), False

    def _file(
        self, place: str, made: dict[str, Any], size: int
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if size > self._left:
            made["unread"] = True
            return made, made
        self._left -= size
        try:
            number = os.open(place, _READ)
        except OSError:
            made["unreadable"] = True
            return made, made
        digest = hashlib.sha256()
        other = hashlib.sha256()
        length = 0
        is_masked = False
        part_size = _MASKED_PART if self._masker else _PART
        try:
            while data := os.read(number, part_size):
                digest.update(data)
                if self._masker:
                    shown = _masked(self._masker, data)
                    is_masked = is_masked or shown != data
                    other.update(shown)
                    length += len(shown)
        except OSError:
            made["unreadable"] = True
            return made, made
        finally:
            os.close(number)
        made["sha256"] = f"sha256:{digest.hexdigest()}"
        if not is_masked:
            return made, made
        return made, {
            **made,
            "sha256": f"sha256:{other.hexdigest()}",
            "size": length,
            "masked": True,
        }


def _masked(masker: Masker, data: bytes) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    return masker.text(text).encode("utf-8", "surrogateescape")


def _is_unlisted(path: str) -> bool:
    """Whether ``path`` is what git keeps times in, or hashes over them."""
    parts = path.split("/")
    if repository.FOLDER not in parts[:-1]:
        return False
    return parts[parts.index(repository.FOLDER) + 1] in repository.UNLISTED


def _named(path: str) -> dict[str, Any]:
    text = _text(path)
    if text == path:
        return {"path": path}
    # Another name may be written with these very backslashes; the bytes tell them apart.
    return {"path": text, "raw": base64.b64encode(os.fsencode(path)).decode("ascii")}


def _text(name: str) -> str:
    if name.isascii():
        return name
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _special(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "fifo"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "device" if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) else "unknown"

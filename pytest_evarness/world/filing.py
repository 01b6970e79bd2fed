"""Changes one file of a workspace, and never one outside it."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import TYPE_CHECKING

from pytest_evarness.world.effect import path_problem
from pytest_evarness.world.service import EffectFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from pytest_evarness.core.secret import Masker

__all__ = ["change_file"]

_FILE_MODE = 0o644
_FOLDER_MODE = 0o755
_BLOCK = 1 << 20

# Our own words: a system's differ with its language.
_REASONS = {
    errno.EACCES: "permission denied",
    errno.EISDIR: "is a directory",
    errno.ELOOP: "is a link that leads to itself",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOENT: "nothing is there",
    errno.ENOSPC: "no space is left",
    errno.ENOTDIR: "lies below a file",
    errno.EEXIST: "lies below a file",
    errno.EPERM: "permission denied",
    errno.EROFS: "may not be written",
}


def change_file(root: Path, asked: Mapping[str, Any], masker: Masker) -> tuple[int, str | None]:
    """Write, extend or remove a file.

    Args:
        root: The workspace.
        masker: Replaces secrets in what is digested, as the snapshot does.
        asked: ``{path, write | append | delete}``; missing folders are made.

    Returns:
        Its size in bytes and its digest; 0 and None where it was removed.

    Raises:
        EffectFailedError: The path leads out, or to what is no regular file, or the system refused.
    """
    path = asked["path"]
    problem = path_problem(path)
    if problem is not None:
        raise EffectFailedError(f"file.path: {problem} (got '{path}')")
    try:
        return _change(root, path, asked, masker)
    except OSError as error:
        why = _REASONS.get(error.errno or 0, errno.errorcode.get(error.errno or 0, "not possible"))
        raise EffectFailedError(f"file {path}: {why}") from None


def _change(
    root: Path, path: str, asked: Mapping[str, Any], masker: Masker
) -> tuple[int, str | None]:
    place = _inside(root.resolve(), path)
    mode = place.lstat().st_mode if place.exists() else None
    if mode is not None and stat.S_ISDIR(mode):
        raise EffectFailedError(f"file {path}: is a directory")
    if mode is not None and not stat.S_ISREG(mode):
        raise EffectFailedError(f"file {path}: is no regular file")
    if "delete" in asked:
        # The name itself goes, not what a link of that name stands for.
        root.joinpath(*path.split("/")).unlink()
        return 0, None
    data = (asked["write"] if "write" in asked else asked["append"]).encode("utf-8")
    _make_folders(place.parent)
    with place.open("wb" if "write" in asked else "ab") as file:
        file.write(data)
    if mode is None:
        # Whatever the umask of this machine: the mode is part of the end state.
        place.chmod(_FILE_MODE)
    return place.stat().st_size, _digest(place, masker)


def _inside(base: Path, path: str) -> Path:
    """Where ``path`` leads when every link in it is followed, one component after the other.

    Raises:
        EffectFailedError: A link leads outside ``base``, or to itself.
    """
    current = base
    for part in path.split("/"):
        current = current / part
        if not current.is_symlink():
            continue
        # Not Path.resolve: on a link that leads to itself, Python 3.11 and 3.13 differ.
        target = type(base)(os.path.realpath(current))
        if target.is_symlink():
            raise EffectFailedError(f"file {path}: {_REASONS[errno.ELOOP]}")
        if not target.is_relative_to(base):
            raise EffectFailedError(f"file {path}: a link leads out of the workspace")
        current = target
    return current


def _make_folders(folder: Path) -> None:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for made in reversed(missing):
        made.mkdir()
        made.chmod(_FOLDER_MODE)


def _digest(path: Path, masker: Masker) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        if masker:
            shown = masker.text(file.read().decode("utf-8", "surrogateescape"))
            found.update(shown.encode("utf-8", "surrogateescape"))
        while block := file.read(_BLOCK):
            found.update(block)
    return f"sha256:{found.hexdigest()}"

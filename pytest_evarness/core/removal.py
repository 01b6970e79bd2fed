"""Removing a folder for good, whatever was done to it."""

from __future__ import annotations

import contextlib
import os
import stat

__all__ = ["remove_tree"]

_DEPTH = 200


def remove_tree(folder: str) -> None:
    """Remove ``folder`` and all it holds, folders that forbid it too; links are not followed.

    What cannot be removed all the same stays, without a word.
    """
    with contextlib.suppress(OSError):
        if not _remove(folder, _DEPTH):
            # Beyond what a path can name: the slow way goes from folder to folder.
            import shutil

            shutil.rmtree(folder, ignore_errors=True)


def _remove(folder: str, depth: int) -> bool:
    """Whether all of it is gone."""
    try:
        entries = list(os.scandir(folder))
    except PermissionError:
        if not _opened(folder):
            return False
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        os.unlink(folder)
        return True
    whole = True
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            whole = (depth > 0 and _remove(entry.path, depth - 1)) and whole
            continue
        try:
            os.unlink(entry.path)
        except PermissionError:
            whole = _opened(folder) and _unlinked(entry.path) and whole
        except OSError:
            whole = False
    if not whole:
        return False
    try:
        os.rmdir(folder)
    except PermissionError:
        if not _opened(os.path.dirname(folder)):
            return False
        os.rmdir(folder)
    return True


def _unlinked(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _opened(folder: str) -> bool:
    """Let this user do anything in ``folder``; False where that is not ours to decide."""
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            return False
        os.chmod(folder, 0o700)
    except OSError:
        return False
    return True

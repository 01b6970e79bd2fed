"""Removing a folder for good, whatever was done to it."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["remove_tree"]

_LONG = 1000


def remove_tree(folder: str) -> None:
    """Remove ``folder`` and all it holds, folders that forbid it too; links are not followed.

    However deep it is: a folder whose path grows long is first moved up to the top, so that neither
    the length of a path nor the depth of calls is a bound. What cannot be removed stays, without a
    word.
    """
    if not _is_folder(folder):
        with contextlib.suppress(OSError):
            os.unlink(folder)
        return
    numbers = itertools.count()
    waiting = [folder]
    for here in waiting:  # grows while it is gone through
        for entry in _entries(here):
            if not entry.is_dir(follow_symlinks=False):
                _try(os.unlink, entry.path, here)
            elif len(entry.path) - len(folder) < _LONG:
                waiting.append(entry.path)
            else:
                moved = _moved_up(entry.path, folder, numbers)
                if moved is not None:
                    waiting.append(moved)
    # Whatever is inside was met later.
    for here in reversed(waiting):
        _try(os.rmdir, here, os.path.dirname(here))


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _entries(folder: str) -> list[os.DirEntry[str]]:
    for attempt in (True, False):
        try:
            with os.scandir(folder) as found:
                return list(found)
        except PermissionError:
            if not (attempt and _opened(folder)):
                break
        except OSError:
            break
    return []


def _moved_up(path: str, top: str, numbers: itertools.count[int]) -> str | None:
    """Where the folder lies now; None where it cannot be moved."""
    for number in numbers:
        place = os.path.join(top, f".removed-{number}")
        for attempt in (True, False):
            try:
                os.rename(path, place)
            except PermissionError:
                # Moving a folder changes the one it lies in, and its own entry for that one.
                if not (attempt and _opened(os.path.dirname(path)) and _opened(path)):
                    return None
            except OSError:
                if not os.path.lexists(place):
                    return None
                break  # the name is taken
            else:
                return place
        else:
            return None
    return None


def _try(remove: Callable[[str], None], path: str, folder: str) -> None:
    """Remove ``path``; where its folder forbids that, allow it first."""
    for attempt in (True, False):
        try:
            remove(path)
        except PermissionError:
            if not (attempt and _opened(folder)):
                return
        except OSError:
            return
        else:
            return


def _opened(folder: str) -> bool:
    """Let this user do anything in ``folder``; False where that is not ours to decide."""
    try:
        if not _is_folder(folder):
            return False
        os.chmod(folder, 0o700)
    except OSError:
        return False
    return True

"""Files below a folder, the same ones for everybody who looks there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pytest_evarness.errors import InputError, Where

__all__ = ["YAML_SUFFIXES", "Found", "files_below", "look_below", "yaml_below"]

YAML_SUFFIXES = (".yaml", ".yml")

_OUTSIDE = "a link that leads out of the root directory, and no folder there is looked into"
_UNREAD = "the folder cannot be read"


@dataclass(frozen=True, slots=True)
class Found:
    """What lies below a folder.

    Attributes:
        files: In the order of their paths.
        refused: Folders that nobody looks into, each with the reason.
    """

    files: list[Path] = field(default_factory=list)
    refused: list[tuple[Path, str]] = field(default_factory=list)

    def errors(self, root: Path | None) -> list[InputError]:
        """One for each folder that is not looked into, named as seen from ``root``."""
        found = []
        for path, why in self.refused:
            is_inside = root is not None and path.is_relative_to(root)
            name = path.relative_to(root).as_posix() if root and is_inside else str(path)
            fix = "move what it leads to into the project, or name that folder itself"
            place = Where(name)
            found.append(InputError(why, where=place, fix=fix if why == _OUTSIDE else None))
        return found


def look_below(
    folder: Path, root: Path | None = None, *, skips: Callable[[Path], bool] | None = None
) -> Found:
    """Every file below ``folder``; links to folders are followed, each folder is met once.

    A folder that stands there itself is met under its own name, before any link that leads to it;
    so a link that leads back up ends where it began. What leads to a file is that file.

    Args:
        folder: Where to begin; it may itself be a link, wherever it leads.
        root: Links may lead to folders below it too, and no further.
        skips: Folders that are none of ours.
    """
    inside = {os.path.realpath(one) for one in (folder, root) if one is not None}
    found = Found()
    seen: set[str] = set()
    waiting = [folder]
    while waiting:
        start = waiting.pop(0)
        if not start.is_dir():
            continue
        if not _is_inside(os.path.realpath(start), inside):
            found.refused.append((start, _OUTSIDE))
            continue
        links: list[Path] = []
        for place, folders, names in os.walk(start, onerror=lambda error: _note(found, error)):
            real = os.path.realpath(place)
            here = Path(place)
            if real in seen:
                folders[:] = []
                continue
            seen.add(real)
            below = [here / name for name in sorted(folders)]
            below = [one for one in below if skips is None or not skips(one)]
            links += [one for one in below if one.is_symlink()]
            folders[:] = [one.name for one in below if not one.is_symlink()]
            found.files.extend(here / name for name in names)
        waiting += sorted(links, key=lambda path: path.parts)
    found.files.sort(key=lambda path: path.parts)
    return found


def _note(found: Found, error: OSError) -> None:
    found.refused.append((Path(error.filename), _UNREAD))


def _is_inside(real: str, inside: set[str]) -> bool:
    return any(Path(real).is_relative_to(one) for one in inside)


def files_below(folder: Path, root: Path | None = None) -> Iterator[Path]:
    """Every file below ``folder``, as :func:`look_below` finds them."""
    return iter(look_below(folder, root).files)


def yaml_below(folder: Path, root: Path | None = None) -> list[Path]:
    """Its YAML files, sorted by their path."""
    return [
        path
        for path in files_below(folder, root)
        if path.name.lower().endswith(YAML_SUFFIXES) and path.is_file()
    ]

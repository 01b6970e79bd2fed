"""Files below a folder, the same ones for everybody who looks there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["YAML_SUFFIXES", "files_below", "yaml_below"]

YAML_SUFFIXES = (".yaml", ".yml")


def files_below(folder: Path) -> Iterator[Path]:
    """Every file below ``folder``, folders and names in order, links to folders followed.

    A folder that a link leads to a second time is not gone into again, so a link that leads back
    up ends there.
    """
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            folders[:] = []
            continue
        seen.add(real)
        # What stands there itself comes before what a link leads to.
        folders.sort(key=lambda name: (os.path.islink(os.path.join(place, name)), name))  # noqa: PTH114, PTH118
        for name in sorted(names):
            yield Path(place, name)


def yaml_below(folder: Path) -> list[Path]:
    """Its YAML files, sorted by their path."""
    found = (
        path
        for path in files_below(folder)
        if path.name.lower().endswith(YAML_SUFFIXES) and path.is_file()
    )
    return sorted(found, key=lambda path: path.parts)

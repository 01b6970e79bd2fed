"""Where a step of the user's own raised, for whoever repairs it.

A path is another one on each machine, so nothing of this is part of an event or of a digest.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

__all__ = ["Lines", "lines_of", "own_place"]

Lines: TypeAlias = tuple[tuple[str, int], ...]
"""``(file, line)``, each file of a traceback once with its innermost line, the innermost last."""

_PACKAGE = Path(__file__).parents[1]
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def lines_of(error: BaseException) -> Lines:
    """The files of an exception's traceback; no frame is kept alive."""
    lines: dict[str, int] = {}
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        lines.pop(name, None)
        lines[name] = trace.tb_lineno or 0
        trace = trace.tb_next
    return tuple(lines.items())


def own_place(lines: Iterable[tuple[str, int]], root: Path) -> str | None:
    """``path:LINE`` of the innermost line that stands in a file of the project.

    Args:
        lines: As :func:`lines_of` gives them.
        root: The project's root directory; the path is relative to it.

    Returns:
        None where no file below the root took part, but for this package and installed ones.
    """
    try:
        top = root.resolve()
        for name, line in reversed(tuple(lines)):
            # What was compiled out of a text has a name and no file.
            path = Path(name)
            if not path.is_absolute() or not path.is_file():
                continue
            path = path.resolve()
            if path.is_relative_to(top) and not path.is_relative_to(_PACKAGE):
                relative = path.relative_to(top)
                if _INSTALLED.isdisjoint(relative.parts):
                    return f"{relative.as_posix()}:{line}"
    except (OSError, ValueError, RuntimeError):
        return None
    return None

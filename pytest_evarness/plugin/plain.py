"""Imports of this package without pytest's assertion rewriting.

pytest marks a plug-in's whole distribution for rewriting, and every module of it would be parsed
and compiled a second way. Our asserts state invariants of ours; nobody needs them explained.
``PYTEST_DONT_REWRITE`` in a docstring spares the rewriting, not the parsing, and speaks for one
module alone.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["PlainFinder", "install", "remove"]

PREFIX = "pytest_evarness."


class PlainFinder:
    """Finds modules of this package the ordinary way, ahead of pytest's own finder."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The ordinary place of a module of ours; None for everybody else's."""
        if not name.startswith(PREFIX):
            return None
        return PathFinder.find_spec(name, path, target)


def install() -> None:
    """Put the finder first; once for each session."""
    remove()
    sys.meta_path.insert(0, PlainFinder)


def remove() -> None:
    """Take it away again."""
    while PlainFinder in sys.meta_path:
        sys.meta_path.remove(PlainFinder)

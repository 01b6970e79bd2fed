"""Where each value of a document stands, found again through the containers themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pytest_evarness.errors import Where
from pytest_evarness.source.quote import shown

__all__ = ["Mark", "Places", "as_where", "field_text"]

Mark: TypeAlias = tuple[int | None, int | None, int | None, int | None, str | None]
"""Line and column of the key, line and column of the value (all from 1), and the file as shown.

For an element of a list, and for a document's root, key and value stand at the same place.
A value that came from an option has no lines, only the name of the option.
"""

Marks: TypeAlias = "dict[str, Mark] | list[Mark]"

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")


class Places:
    """Marks of the children of each container, by identity.

    Identity rather than path, because a value may be reached by several paths (an alias, or a
    merged case that shares what it did not change), and merging then costs only what it changes.
    Containers are kept alive here, so that no identity is given out twice.
    """

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[object, Marks]] = {}

    def note(self, container: dict[str, Any] | list[Any], marks: Marks) -> None:
        """Remember where the children of ``container`` stand."""
        self._by_id[id(container)] = (container, marks)

    def marks_of(self, container: object) -> Marks | None:
        """The marks noted for ``container``, or None."""
        found = self._by_id.get(id(container))
        return None if found is None else found[1]

    def update(self, other: Places) -> None:
        """Take over everything that ``other`` knows."""
        self._by_id.update(other._by_id)

    def child(self, container: object, key: str | int) -> Mark | None:
        """The mark of one child, or None where it is not known."""
        marks = self.marks_of(container)
        if isinstance(marks, dict):
            return marks.get(key) if isinstance(key, str) else None
        if marks is not None and isinstance(key, int) and 0 <= key < len(marks):
            return marks[key]
        return None

    def find(
        self, root: object, root_mark: Mark | None, path: Sequence[str | int]
    ) -> tuple[Mark | None, int]:
        """The mark of ``path`` or of its nearest known ancestor, and how many parts led there."""
        mark, value = root_mark, root
        for depth, part in enumerate(path):
            found = self.child(value, part)
            if found is None:
                return mark, depth
            mark = found
            value = _descend(value, part)
        return mark, len(path)

    def where(
        self,
        root: object,
        root_mark: Mark | None,
        path: Sequence[str | int],
        *,
        at_key: bool = False,
    ) -> Where:
        """The place of ``path`` below ``root``, or of its nearest known ancestor.

        Args:
            root: The value the path starts from.
            root_mark: Where the root itself stands.
            path: Keys and indexes.
            at_key: The key is meant rather than its value; the field is then the parent's.
        """
        mark, depth = self.find(root, root_mark, path)
        field = field_text(path[:-1] if at_key and path else path) or None
        return as_where(mark, field, at_key=at_key and depth == len(path))


def as_where(mark: Mark | None, field: str | None, *, at_key: bool = False) -> Where:
    """A mark and a field as the place that messages name."""
    if mark is None:
        return Where(field=field)
    line, column = (mark[0], mark[1]) if at_key else (mark[2], mark[3])
    return Where(mark[4], line, column, field)


def _descend(value: object, part: str | int) -> object:
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, Sequence) and isinstance(part, int):
        return value[part] if part < len(value) else None
    return None


def field_text(path: Sequence[str | int]) -> str:
    """Write a path as a user would: ``invariants.sent.cases[0]``, ``tools["email.send"]``."""
    return "".join(_parts(path))


def _parts(path: Sequence[str | int]) -> Iterator[str]:
    for position, part in enumerate(path):
        if isinstance(part, int):
            yield f"[{part}]"
        elif _WORD.match(part):
            yield f".{part}" if position else part
        else:
            yield f"[{shown(part, 60)}]"

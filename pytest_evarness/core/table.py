"""A table of parts of one kind, each looked at when it is registered."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from pytest_evarness.core.part import described, part_problem
from pytest_evarness.errors import InputError, Where

__all__ = ["Advice", "Table", "nearest"]

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*\Z")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that ``word`` was probably meant to be, or None where none is near."""
    found = difflib.get_close_matches(word[:200], sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


class Advice:
    """:func:`nearest` for the first mistakes of a kind; nobody reads the advice of hundreds.

    Each look goes through all known names, so a look for every mistake would take the square.
    """

    def __init__(self, limit: int = 40) -> None:
        self._left = limit

    def __call__(self, word: str, known: Iterable[str]) -> str | None:
        """As :func:`nearest`, or None where advice was given often enough."""
        if self._left <= 0:
            return None
        self._left -= 1
        return nearest(word, known)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.match(name) is not None


class Table(Generic[T]):
    """Parts of one kind, by name.

    Args:
        look: What a part of this kind must be: ``look(name, part)`` gives the problem or None;
            the kernel's own kinds need none, they are looked at by their names.

    Attributes:
        source: Who registers at the moment, so that each part knows where it came from.
    """

    def __init__(self, kind: str, look: Callable[[str, object], str | None] | None = None) -> None:
        self.kind = kind
        self._look = look
        self.source = ""
        self._parts: dict[str, T] = {}
        self._sources: dict[str, str] = {}

    def register(self, name: str, part: T) -> T:
        """Offer ``part`` under ``name``.

        Raises:
            ValueError: The name is taken or not a name. A second registration is a bug in a
                domain, never an override.
            TypeError: It is no part of this kind; the message has what was got and what is right.
        """
        if not _is_name(name):
            raise ValueError(
                f"{self.kind}: a name is letters, digits, '_', '-', '.', ':'"
                f" (got {described(name)})"
            )
        if name in self._parts:
            raise ValueError(f"{self.kind}: the name is taken (got {name!r}{self._taken_by(name)})")
        look = self._look
        problem = part_problem(self.kind, name, part) if look is None else look(name, part)
        if problem is not None:
            raise TypeError(f"{self.kind} '{name}': {problem}")
        self._parts[name] = part
        self._sources[name] = self.source
        return part

    def _taken_by(self, name: str) -> str:
        source = self._sources[name]
        return f"; plug-in {source} has it" if source else "; it is built in"

    def source_of(self, name: str) -> str:
        """The plug-in that a part came from; "" for what is built in."""
        return self._sources.get(name, "")

    def find(self, name: str) -> T | None:
        """The part called ``name``, or None."""
        return self._parts.get(name)

    def resolve(self, name: str, *, where: Where | None = None) -> T:
        """The part called ``name``.

        Raises:
            InputError: No such name; the message lists the nearest one, or all.
        """
        part = self._parts.get(name)
        if part is None:
            near = nearest(name, self._parts)
            raise InputError(
                f"unknown {self.kind} (got '{name}'; known: {', '.join(self.names()) or 'none'})",
                where=where,
                fix=f"write '{near}'" if near else None,
            )
        return part

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._parts)

    def items(self) -> Iterator[tuple[str, T]]:
        """Name and part, sorted by name, so that no order depends on who registered first."""
        for name in self.names():
            yield name, self._parts[name]

    def values(self) -> Iterator[T]:
        """The parts, sorted by name."""
        for name in self.names():
            yield self._parts[name]

    def kept(self) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """All that is in it, for :meth:`put_back`."""
        return dict(self._parts), dict(self._sources)

    def put_back(self, kept: tuple[Mapping[str, Any], Mapping[str, str]]) -> None:
        """Forget what was registered since :meth:`kept`."""
        self._parts, self._sources = dict(kept[0]), dict(kept[1])

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __len__(self) -> int:
        return len(self._parts)

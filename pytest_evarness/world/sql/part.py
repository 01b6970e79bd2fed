"""What a database holds beside rows: tables as they are declared, views, triggers, sequences.

Each is known by a digest of its definition. What belongs to a table (an index, a trigger, the
counter of a column) is the table's; everything else stands for itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pytest_evarness.core import c1

if TYPE_CHECKING:
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.secret import Masker
    from pytest_evarness.world.sql.table import Table

__all__ = ["COUNTER", "Part", "Parts", "State", "changed_owners", "parts_of", "state_record"]

COUNTER: Final = "sequence"
"""The one kind that also moves when a statement is taken back."""


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """What a definition is of.

    Attributes:
        table: To which it belongs; None for what stands for itself.
    """

    kind: str
    name: str
    table: str | None = None

    @property
    def owner(self) -> str:
        """The name under which it may be written."""
        return self.name if self.table is None else self.table


Parts: TypeAlias = Mapping[Part, str]
"""The digest of each definition."""


@dataclass(frozen=True, slots=True)
class State:
    """All that a database holds at one moment."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    parts: Parts = field(default_factory=dict)


def parts_of(found: Iterable[tuple[Part, Any]], masker: Masker | None = None) -> dict[Part, str]:
    """Digests of definitions; several of one name, such as overloads, are one.

    Args:
        found: Definitions are JSON.
        masker: Replaces secrets in what is hashed.
    """
    texts: dict[Part, list[str]] = {}
    for part, definition in found:
        shown = definition if masker is None else masker.value(definition)
        texts.setdefault(part, []).append(c1.text(shown))
    return {
        part: f"sha256:{hashlib.sha256(chr(10).join(sorted(entries)).encode('ascii')).hexdigest()}"
        for part, entries in texts.items()
    }


def _changed(start: Parts, end: Parts) -> list[Part]:
    found = {part for part in {*start, *end} if start.get(part) != end.get(part)}
    return sorted(found, key=lambda part: (part.kind, part.owner, part.name))


def changed_owners(start: Parts, end: Parts) -> set[str]:
    """The names under which definitions were changed."""
    return {part.owner for part in _changed(start, end)}


def state_record(kind: str, end: State, start: State) -> JsonObject:
    """The snapshot of a database: its tables, the names of those gone, definitions that changed.

    What belongs to a table that is new or gone is told by the table.
    """
    moved = set(start.tables) ^ set(end.tables)
    return {
        "type": kind,
        "tables": [end.tables[name].record(start.tables.get(name)) for name in sorted(end.tables)],
        "dropped": sorted(set(start.tables) - set(end.tables)),
        "objects": [
            {
                "kind": part.kind,
                "name": part.name,
                "table": part.table,
                "digest": end.parts.get(part),
                "start": start.parts.get(part),
            }
            for part in _changed(start.parts, end.parts)
            if part.table not in moved
        ],
    }

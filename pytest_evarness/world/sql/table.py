"""Tables as they stand in a snapshot: bounded rows, and a digest over all of them."""

from __future__ import annotations

import hashlib
import heapq
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.core import c1
from pytest_evarness.world.sql.value import plain_row

if TYPE_CHECKING:
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.secret import Masker

__all__ = ["MAX_BYTES", "MAX_ROWS", "Table", "read_table"]

MAX_ROWS: Final = 1000
MAX_BYTES: Final = 256 * 1024
"""More rows, or more text in them, are in a table's digest alone."""

_CHUNK_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Table:
    """One table in one state.

    Attributes:
        digest: Over the c1 texts of all rows in their order, secrets masked, each text ended by a
            line feed.
        rows: c1 texts; None where they exceed a bound.
    """

    name: str
    columns: tuple[str, ...]
    count: int
    digest: str
    rows: tuple[str, ...] | None

    def record(self, start: Table | None) -> JsonObject:
        """As in the snapshot; ``start`` is the table as the run found it."""
        return {
            "name": self.name,
            "columns": list(self.columns),
            "count": self.count,
            "digest": self.digest,
            "rows": None if self.rows is None else [c1.thaw(row) for row in self.rows],
            "start": None if start is None else {"count": start.count, "digest": start.digest},
        }


def read_table(
    name: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    is_ordered: bool,
    masker: Masker | None = None,
) -> Table:
    """Read a table once, in bounded memory.

    Args:
        masker: Replaces secrets in what is hashed: from a digest over true values a short one could
            be guessed.
        rows: Values as :mod:`pytest_evarness.world.sql.value` has them.
        is_ordered: Whether they come in the order of the primary key; else their texts are sorted.
    """
    texts = (c1.text(plain_row(row)) for row in rows)
    hasher = hashlib.sha256()
    kept: list[str] | None = []
    count = size = 0
    with ExitStack() as stack:
        for text in texts if is_ordered else _sorted(texts, stack):
            hashed = c1.text(masker.value(c1.thaw(text))) if masker else text
            hasher.update(hashed.encode("ascii") + b"\n")
            count += 1
            size += len(text)
            if kept is not None:
                kept.append(text)
                if count > MAX_ROWS or size > MAX_BYTES:
                    kept = None
    digest = f"sha256:{hasher.hexdigest()}"
    return Table(name, tuple(columns), count, digest, None if kept is None else tuple(kept))


def _sorted(texts: Iterator[str], stack: ExitStack) -> Iterable[str]:
    """In order; beyond a chunk through files, since a table may be larger than memory."""
    runs: list[Iterator[str]] = []
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size > _CHUNK_BYTES:
            runs.append(_stored(sorted(chunk), stack))
            chunk, size = [], 0
    chunk.sort()
    return heapq.merge(*runs, chunk) if runs else chunk


def _stored(texts: list[str], stack: ExitStack) -> Iterator[str]:
    file = tempfile.TemporaryFile("w+", encoding="ascii", newline="\n")  # noqa: SIM115 - as said
    stack.enter_context(file)
    # A c1 text is one line of ASCII.
    file.writelines(f"{text}\n" for text in texts)
    file.seek(0)
    return (line[:-1] for line in file)

"""The log of one run, written while it runs: what is on disk survives a crash."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

from pytest_evarness.core import c1

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from pytest_evarness.core.event import Event

__all__ = ["HEADER_KEYS", "TRACE_FORMAT", "RunLog"]

TRACE_FORMAT = 1

HEADER_KEYS = ("trace", "run_id", "closed", "sources", "seal", "case", "environment")
"""Keys of a header; the last three are those of a run log."""


class RunLog:
    """A trace file with one run in it, header first.

    The header is on the disk before the first event is written, so that the sealed set is known
    even of a run that took the machine with it.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        unknown = sorted(set(header) - set(HEADER_KEYS))
        if unknown:
            raise ValueError(f"unknown header key (got {unknown}; known: {HEADER_KEYS})")
        path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: each line is handed to the system when it is written.
        self._file = path.open("wb", buffering=0)
        self._file.write(c1.text({**header, "trace": TRACE_FORMAT}).encode("ascii") + b"\n")
        os.fsync(self._file.fileno())

    def write(self, event: Event) -> None:
        """Append an event."""
        self._file.write(event.text.encode("ascii") + b"\n")

    def close(self) -> None:
        """End the log; closing twice is fine."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

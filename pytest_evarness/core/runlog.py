"""The log of one run, written while it runs: what is on disk survives a crash."""

from __future__ import annotations

from io import FileIO
from typing import TYPE_CHECKING, Any, Self

from pytest_evarness.core import c1

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from pytest_evarness.core.event import Event

__all__ = ["HEADER_KEYS", "TRACE_FORMAT", "RunLog"]

TRACE_FORMAT = 1

HEADER_KEYS = ("trace", "run_id", "closed", "events", "sources", "seal", "case", "environment")
"""Keys of a header; the last three are those of a run log."""


class RunLog:
    """A trace file with one run in it, header first.

    The header is handed to the system before the first event, and so is everything emitted so far
    whenever a node starts: a node that takes the process with it leaves the events up to its own
    start. What was sealed is forced to the disk once, by the seal, before the first run.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        unknown = sorted(set(header) - set(HEADER_KEYS))
        if unknown:
            raise ValueError(f"unknown header key (got {unknown}; known: {HEADER_KEYS})")
        try:
            self._file = FileIO(path, "wb")
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = FileIO(path, "wb")
        self._lines: list[str] = []
        self._file.write(c1.text({**header, "trace": TRACE_FORMAT}).encode("ascii") + b"\n")

    def write(self, event: Event) -> None:
        """Append an event."""
        self._lines.append(event.text)
        if event.type == "node_started":
            self._flush()

    def write_all(self, texts: Iterable[str]) -> None:
        """Append the texts of all events of a run that is over."""
        self._lines.extend(texts)

    def _flush(self) -> None:
        if self._lines:
            self._lines.append("")
            self._file.write("\n".join(self._lines).encode("ascii"))
            self._lines.clear()

    def close(self) -> None:
        """End the log; closing twice is fine."""
        if not self._file.closed:
            self._flush()
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

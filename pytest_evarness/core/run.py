"""What an execution leaves behind, and how it is read as evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

from pytest_evarness.core import c1
from pytest_evarness.core.event import Event
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.trace import Trace, TraceEvent

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json
    from pytest_evarness.core.raised import Lines

__all__ = ["EMPTY_WORLD", "STATUSES", "Run", "trace_of"]

STATUSES = ("completed", "blocked", "paused", "failed", "unscripted", "unfinished")

EMPTY_WORLD = "{}"
"""The c1 text of a world in which nothing is declared."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one execution left behind.

    Attributes:
        status: One of ``STATUSES``.
        output: The whole output text, secrets masked; None where no node set one.
        pending: ``{node, prompt}`` of a paused run.
        leftovers: Scripted answers that were not used, in words.
        error: What went wrong, for ``failed``, ``unscripted`` and ``unfinished``.
        world_text: The c1 text of the world at the end.
        is_perturbed: True for a run made in a mirror.
        raised: Where a step of the user's own raised. Of this process alone: it crosses to no
            other one, and enters no event and no digest.
    """

    events: Sequence[Event]
    status: str
    trace_digest: str
    chain_digest: str
    output: str | None = None
    pending: dict[str, str] | None = None
    leftovers: list[str] = field(default_factory=list)
    error: str | None = None
    world_text: str = EMPTY_WORLD
    is_perturbed: bool = False
    raised: Lines = field(default=(), compare=False, repr=False)

    @property
    def texts(self) -> list[str]:
        """The c1 text of each event."""
        if isinstance(self.events, _Received):
            return self.events.texts
        return [event.text for event in self.events]

    @property
    def complete(self) -> bool:
        """Whether the run came to its end by itself, so that the events are all there are."""
        return self.status not in ("unscripted", "unfinished")

    @property
    def world_digest(self) -> str:
        """``sha256:`` and the hex digest of the world's text."""
        return _world_digest(self.world_text)

    def trace(self, pause_is_end: bool = False) -> Trace:
        """The run as evidence; see :func:`trace_of`."""
        return trace_of(self.status, [event.as_record() for event in self.events], pause_is_end)

    def as_record(self) -> dict[str, Json]:
        """Exactly JSON types, to cross a process or to be kept."""
        return {
            "status": self.status,
            "complete": self.complete,
            "events": list(self.texts),
            "times": [event.ts for event in self.events],
            "trace_digest": self.trace_digest,
            "chain_digest": self.chain_digest,
            "world": self.world_text,
            "world_digest": self.world_digest,
            "output": self.output,
            "pending": dict(self.pending) if self.pending is not None else None,
            "leftovers": list(self.leftovers),
            "error": self.error,
            "is_perturbed": self.is_perturbed,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Run:
        """Read what :meth:`as_record` wrote; an event is read when it is asked for.

        Raises:
            KeyError: A field is missing.
            ValueError: Not as many times as events.
        """
        return cls(
            events=_Received(record["events"], record["times"]),
            status=record["status"],
            trace_digest=record["trace_digest"],
            chain_digest=record["chain_digest"],
            output=record["output"],
            pending=record["pending"],
            leftovers=list(record["leftovers"]),
            error=record["error"],
            world_text=record["world"],
            is_perturbed=record["is_perturbed"],
        )


class _Received(Sequence[Event]):
    """Events of another process: of most runs nobody wants more than their texts and digests."""

    __slots__ = ("_events", "_times", "texts")

    def __init__(self, texts: list[str], times: list[float]) -> None:
        if len(texts) != len(times):
            raise ValueError(f"a time for each event (got {len(times)} for {len(texts)})")
        self.texts = texts
        self._times = times
        self._events: list[Event] | None = None

    def _read(self) -> list[Event]:
        if self._events is None:
            events = []
            for text, ts in zip(self.texts, self._times, strict=True):
                got = c1.thaw(text)
                event = Event(got["seq"], got["type"], got["node_id"], got["payload"], text, ts)
                events.append(event)
            self._events = events
        return self._events

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...

    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        return self._read()[index]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._read())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list | _Received):
            return self._read() == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]


_world_digest = lru_cache(maxsize=16)(c1.sha256_text)


def trace_of(status: str, events: Sequence[TraceEvent], pause_is_end: bool = False) -> Trace:
    """Events of a run as evidence for contracts.

    Args:
        status: The run's; it decides whether anything could follow.
        pause_is_end: The case declares the pause as its end.
    """
    closed = status in ("completed", "blocked", "failed") or (status == "paused" and pause_is_end)
    cause = {
        "unscripted": Cause.MISSING_EVIDENCE,
        "unfinished": Cause.EVALUATOR_ERROR,
    }.get(status, Cause.UNFINISHED_RUN)
    return Trace(events=events, closed=closed, open_cause=cause)

"""A trace as judges see it: events, and what is known to be missing from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_evarness.core.outcome import Cause

if TYPE_CHECKING:
    from pytest_evarness.core.json import JsonObject

__all__ = ["TERMINAL_TYPES", "Trace", "TraceEvent"]

TERMINAL_TYPES = frozenset({"run_finished", "run_failed"})
"""Types that end a trace. ``run_paused`` ends one only where the case declares it as its end."""

TraceEvent: TypeAlias = Mapping[str, Any]
"""``{seq, type, node_id, payload}`` as read from JSON; readers check what they use."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Evidence for contracts: one admitted run, or many where something is missing.

    Attributes:
        events: In emission order.
        closed: False when the trace admits every continuation.
        coverage: Types that the sources record; None means all types.
        gaps: Inclusive ``seq`` ranges that a recorder declares lost.
        open_cause: Why an open trace is open.
        faults: Ways in which the trace itself is malformed, in words (duplicate or decreasing
            ``seq``, an event after the end). What stays undecided is then ``malformed_evidence``.
        run_id: The header's name for the run, if any.
        origin: The header as it was read; empty for a run made here.
        coverage_assumed: True when no source said what it records and full coverage is assumed.
    """

    events: Sequence[TraceEvent]
    closed: bool
    coverage: frozenset[str] | None = None
    gaps: tuple[tuple[int, int], ...] = ()
    open_cause: Cause = Cause.UNFINISHED_RUN
    faults: tuple[str, ...] = ()
    run_id: str | None = None
    origin: JsonObject | None = None
    coverage_assumed: bool = False

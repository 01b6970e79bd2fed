"""The audit log of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pytest_evarness.core.c1 import event_text
from pytest_evarness.domains.agents.node.declare import ANY, declare
from pytest_evarness.domains.agents.personal import Redacted
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import digest_of_text, forwarded
from pytest_evarness.domains.agents.vocabulary import GOVERNANCE
from pytest_evarness.source.model import Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["AUDIT_LOG_SINK", "MAX_CHARACTERS"]

MAX_CHARACTERS = 8 * 1024 * 1024
"""How long one log may be; events behind the last that fits are counted as dropped."""


class _AuditLogSink(Strict):
    include: Literal["governance", "full"] = "governance"
    format: Literal["jsonl"] = "jsonl"


def _lines(events: Sequence[TraceEvent], redacted: Redacted) -> tuple[list[str], int]:
    """Each event on a line of its own, as far as the log has room; how many of them were masked.

    A line is the event as it was hashed. What was redacted before the log is written does not come
    back in it, so an event that told it before is masked.
    """
    lines: list[str] = []
    masked = 0
    room = MAX_CHARACTERS
    for event in events:
        line = _line(event, event["payload"])
        shown = _line(event, redacted.hide(event["payload"])) if redacted.data else line
        room -= len(shown)
        if room < 0:
            break
        masked += shown != line
        lines.append(shown)
    return lines, masked


def _line(event: TraceEvent, payload: Any) -> str:
    return f"{event_text(event['seq'], event['type'], event['node_id'], payload)}\n"


def _audit_log_sink(
    inputs: Mapping[str, list[Any]], config: _AuditLogSink, context: Context
) -> Any:
    events = list(context.events())
    governance = [event for event in events if event["type"] in GOVERNANCE]
    meant = governance if config.include == "governance" else events
    lines, masked = _lines(meant, state_of(context).part(Redacted))
    log = "".join(lines)
    # What is sealed is what the block left: a run that is observed behind it writes nothing more.
    if context.world is not None and not context.observes:
        context.world.audit.ship(context.node_id, log)
    payload: dict[str, Any] = {
        "events_shipped": len(lines),
        "governance_events": len(governance),
        "digest": digest_of_text(log),
    }
    if len(lines) < len(meant):
        payload["dropped"] = len(meant) - len(lines)
    if masked:
        payload["masked"] = masked
    context.emit("audit_flushed", payload)
    return forwarded(inputs.get("in", []))


AUDIT_LOG_SINK = declare(
    "audit_log_sink",
    "Ships the events so far to the audit log.",
    _AuditLogSink,
    _audit_log_sink,
    inputs={"in": ANY},
    output=ANY,
    emits=("audit_flushed",),
)

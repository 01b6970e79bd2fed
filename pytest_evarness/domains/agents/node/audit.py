"""The audit log of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pytest_evarness.core.c1 import event_text
from pytest_evarness.domains.agents.node.declare import ANY, declare
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import digest_of_text, forwarded
from pytest_evarness.domains.agents.vocabulary import GOVERNANCE
from pytest_evarness.source.model import Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["AUDIT_LOG_SINK"]


class _AuditLogSink(Strict):
    include: Literal["governance", "full"] = "governance"
    format: Literal["jsonl"] = "jsonl"


def _audit_log_sink(
    inputs: Mapping[str, list[Any]], config: _AuditLogSink, context: Context
) -> Any:
    events = list(context.events())
    governance = [event for event in events if event["type"] in GOVERNANCE]
    shipped = governance if config.include == "governance" else events
    lines = [
        event_text(event["seq"], event["type"], event["node_id"], event["payload"])
        for event in shipped
    ]
    log = "".join(f"{line}\n" for line in lines)
    state_of(context).audit_logs[context.node_id] = log
    context.emit(
        "audit_flushed",
        {
            "events_shipped": len(shipped),
            "governance_events": len(governance),
            "digest": digest_of_text(log),
        },
    )
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

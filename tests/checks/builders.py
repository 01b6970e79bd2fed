"""One-line builders, so that the data is the test."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pytest_evarness.checks.evidence import Evidence, RunFacts
from pytest_evarness.core import c1
from pytest_evarness.core.plan import PlannedItem

Short = tuple[str, str | None, dict[str, Any]]

END: dict[str, Any] = {"total_tokens": 0, "events": 0}


def trace(*short: Short) -> list[dict[str, Any]]:
    return [
        {"seq": seq, "type": kind, "node_id": node, "payload": payload}
        for seq, (kind, node, payload) in enumerate(short)
    ]


def facts(label: str, status: str, events: Sequence[dict[str, Any]], **more: Any) -> RunFacts:
    hasher = c1.Hasher()
    for event in events:
        hasher.add(c1.event_text(event["seq"], event["type"], event["node_id"], event["payload"]))
    return RunFacts(
        label=label,
        status=status,
        complete=status in ("completed", "blocked", "failed", "paused"),
        events=len(events),
        trace_digest=hasher.trace_digest,
        chain_digest=hasher.chain_digest,
        world_digest=more.pop("world", c1.sha256_text("{}")),
        **more,
    )


def evidence(
    status: str,
    *short: Short,
    b: Sequence[Short] | None = None,
    output: str | None = None,
    error: str | None = None,
) -> Evidence:
    """Evidence whose run B equals run A unless ``b`` gives other events."""
    events = trace(*short)
    events_b = events if b is None else trace(*b)
    return Evidence(
        events=events,
        a=facts("a", status, events, error=error),
        b=facts("b", status, events_b, error=error),
        events_b=None if b is None else events_b,
        output=output,
    )


def expect_item(status: str = "completed", **more: Any) -> PlannedItem:
    return PlannedItem(id="expect", kind="expect", gate=True, definition={"status": status, **more})


REPRODUCES = PlannedItem(id="reproduces", kind="reproduces", gate=True)


def contract_item(name: str, body: dict[str, Any], **more: Any) -> PlannedItem:
    gate = more.pop("gate", True)
    weight = Fraction(more.pop("weight", "0"))
    return PlannedItem(
        id=name,
        kind="trace",
        gate=gate,
        weight=weight,
        definition={"id": name, "assert": body},
        **more,
    )

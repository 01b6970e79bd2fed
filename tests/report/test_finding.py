"""A finding as text: labels in one column, and an event by what happened first."""

from __future__ import annotations

import json

import pytest

from pytest_evarness.core.finding import Finding, Witness
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.report.finding import finding_text
from tests.checks.builders import expect_item

DIGEST = "sha256:" + "ab" * 32
EVENT = {"node_id": "send", "payload": {"args_digest": DIGEST}, "seq": 7, "type": "tool_called"}


def text_of(context: str | None, outcome: Outcome = Outcome.FAIL) -> list[str]:
    witness = Witness(
        events=(7,),
        expected="an approval",
        observed="none",
        context={} if context is None else {"7": context},
    )
    finding = Finding(
        id="expect",
        kind="expect",
        outcome=outcome,
        reason="nobody approved",
        witness=witness,
        looked_at=("run A, 9 events",),
    )
    return finding_text(finding, expect_item(), raised="steps.py:3").split("\n")


def test_labels_stand_in_one_column() -> None:
    first, *rows = text_of(json.dumps(EVENT))
    assert first == "nobody approved"
    assert {"  raised:    steps.py:3", "  looked at: run A, 9 events"} <= set(rows)
    for row in rows:
        assert (row[:2], row[12], row[13] != " ") == ("  ", " ", True), row
    assert text_of(json.dumps(EVENT), Outcome.PASS) == [first]


@pytest.mark.parametrize(
    ("context", "shown"),
    [
        (
            json.dumps(EVENT),
            f'seq 7, tool_called at send: {{"args_digest": "{DIGEST[:19]}…"}}',
        ),
        (json.dumps({**EVENT, "node_id": None}), "seq 7, tool_called: {"),
        # Cut where it was kept: what is left is shown as it is.
        (json.dumps(EVENT)[:40] + "…", f"seq 7: {json.dumps(EVENT)[:40]}…"),
        ("[1]", "seq 7: [1]"),
        ("[" * 5000, "seq 7: [["),
        (None, "seq 7"),
    ],
)
def test_an_event_is_told_by_what_happened_first(context: str | None, shown: str) -> None:
    (row,) = [row for row in text_of(context) if row.startswith("  event:")]
    assert row.startswith(f"  event:     {shown}")


def test_a_long_payload_is_cut_and_the_head_of_the_row_is_not() -> None:
    event = {**EVENT, "payload": {"a": "x" * 5000}}
    (row,) = [row for row in text_of(json.dumps(event)) if row.startswith("  event:")]
    assert row.startswith("  event:     seq 7, tool_called at send: ")
    assert len(row) < 500

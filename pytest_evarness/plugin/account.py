"""The exit status follows the verdicts, whatever marks, hooks and plug-ins made of the reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.outcome import Outcome
from pytest_evarness.plugin.text import one_line

if TYPE_CHECKING:
    import pytest

    from pytest_evarness.core.finding import Finding
    from pytest_evarness.plugin.state import SessionState

__all__ = ["SKIPPED_BY_MARK", "is_skipped_by_mark", "listed", "unaccounted"]

SKIPPED_BY_MARK = "skipped by a mark"
LISTED = 10


def is_skipped_by_mark(item: pytest.Item) -> bool:
    """Whether ``skip`` or ``skipif`` keeps an item from running, as far as can be told here.

    A condition that is text is evaluated by pytest alone; such an item counts as skipped, so that
    the bundle promises too little rather than too much.
    """
    if next(item.iter_markers("skip"), None) is not None:
        return True
    for mark in item.iter_markers("skipif"):
        conditions = mark.args or (mark.kwargs.get("condition"),)
        if any(condition is not False for condition in conditions):
            return True
    return False


def unaccounted(state: SessionState) -> list[str]:
    """What the sealed plan says was to run, and what no failing report speaks of.

    Asked for in a session that would exit 0: one sentence for cases that were not judged, one for
    findings that fail a session and were not reported as failures.
    """
    not_judged: list[str] = []
    not_failing: list[str] = []
    for row in state.plan["plan"] if state.plan is not None else ():
        if not any(item["selected"] for item in row["items"]):
            continue
        record = state.records.get(row["nodeid"])
        if record is None:
            not_judged.append(row["nodeid"])
            continue
        for item, finding in zip(row["items"], record.findings, strict=True):
            nodeid = f"{row['nodeid']}::{item['id']}"
            is_due = item["selected"] and _fails(row, item, finding, record.verdict)
            if is_due and nodeid not in state.failed:
                not_failing.append(nodeid)
    sentences = []
    plan = state.plan or {}
    failing = [row for row in plan.get("corpora", ()) if row["failed"]] if plan.get("plan") else []
    if failing:
        names = [f"{row['id']}@{row['version']} ({', '.join(row['failed'])})" for row in failing]
        is_one = len(failing) == 1
        number = "1 contract fails its" if is_one else f"{len(failing)} contracts fail their"
        sentences.append(f"evarness: {number} own corpus, and judged nothing: {listed(names)}")
    if not_judged:
        number = "1 case was" if len(not_judged) == 1 else f"{len(not_judged)} cases were"
        sentences.append(f"evarness: {number} to run and not judged: {listed(not_judged)}")
    if not_failing:
        number = "1 finding fails" if len(not_failing) == 1 else f"{len(not_failing)} findings fail"
        sentences.append(
            f"evarness: {number} the session, though no report says so (a mark, an option or a"
            f" hook changed it): {listed(not_failing)}"
        )
    return sentences


def _fails(row: Mapping[str, Any], item: Mapping[str, Any], finding: Finding, verdict: str) -> bool:
    if not item["decides"]:
        return False
    if item["kind"] == "score" and verdict != "valid":
        return False  # skipped: the gate says it
    if finding.outcome is Outcome.INDETERMINATE:
        return bool(row["mode"] == "release")
    return finding.outcome is Outcome.FAIL


def listed(names: Sequence[str]) -> str:
    """At most ten names on one line, and how many more there are."""
    text = one_line(", ".join(names[:LISTED]), 2000)
    return text if len(names) <= LISTED else f"{text} and {len(names) - LISTED} more"

"""The session's last words: validity first, then what is undecided, then quality."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_evarness.core.outcome import Outcome
from pytest_evarness.plugin.account import SKIPPED_BY_MARK, listed
from pytest_evarness.plugin.coverage import coverage_lines
from pytest_evarness.plugin.once import files_line, grouped, grouped_files, more_line
from pytest_evarness.plugin.text import clean, first_line, one_line
from pytest_evarness.report.graded import (
    GRADED,
    despite_lines,
    other_remarks,
    reasons_for_review,
    remarks_on,
    review_line,
)
from pytest_evarness.report.wording import causes_text, side_of, side_sentence

if TYPE_CHECKING:
    import pytest

    from pytest_evarness.bundle.statement import CaseRecord
    from pytest_evarness.plugin.state import SessionState

__all__ = ["write_summary"]

MAX_QUEUE = 20

COUNTED = ("passed", "vacuous", "missed", "indeterminate", "failed", "skipped", "error", "broken")


def write_summary(state: SessionState, terminal: pytest.TerminalReporter) -> None:
    """Write our own sections; pytest prints none for categories that are not its own."""
    if state.config.getoption("collectonly", False):
        if state.broken:
            terminal.section("evarness", sep="=")
            for line, markup in _broken(state):
                terminal.write_line(line, **markup)
        return
    style = state.config.getoption("tbstyle", "auto")  # as pytest does it with failures
    undecided = [entry for entry in state.shown_texts if entry[0] == "indeterminate"]
    missed = [entry for entry in state.shown_texts if entry[0] == "missed"]
    # Whatever a grader says of an invalid case stands below that verdict, not before it.
    detailed = [entry for entry in undecided if not _is_beside_the_verdict(state, entry[1])]
    if detailed and style != "no":
        terminal.section("INDETERMINATE", sep="=", red=True)
        for nodeid, text, others in grouped(detailed):
            if style == "line":
                terminal.write_line(f"{one_line(nodeid)}: {first_line(text)}")
                continue
            terminal.section(one_line(nodeid), sep="_", red=True)
            terminal.write_line(text)
            if others:
                terminal.write_line(f"  {more_line(others)}")
    if not (state.records or state.broken or state.notes or state.seal):
        return
    terminal.section("evarness", sep="=")
    for line, markup in _verdicts(state):
        terminal.write_line(line, **markup)
    for category, nodeid, text in [*undecided, *missed]:
        word = category.upper()
        # The text begins with the word as well, where it stands alone.
        line = f"{word} {one_line(nodeid)} - {first_line(text).removeprefix(f'{category} ')}"
        terminal.write_line(line, red=category != "missed", yellow=category == "missed")
    for line in _queue(state):
        terminal.write_line(line, yellow=True)
    for line in _left_out(state):
        terminal.write_line(line, yellow=True)
    for line in coverage_lines(state):
        terminal.write_line(line)
    for text in state.changed:
        line = f"a library on disk is not what was sealed, and what was sealed judged: {text}"
        terminal.write_line(one_line(line), yellow=True)
    for note in state.notes:
        terminal.write_line(clean(note), red=True)
    for warning in state.warnings():
        terminal.write_line(one_line(f"warning: {warning}"), yellow=True)
    for name, problem in state.broken_plugins:
        text = f"evarness: plug-in {name} could not be loaded: {problem}"
        terminal.write_line(one_line(text), red=True)
    for line in state.bundle_lines:
        terminal.write_line(clean(line))
    outcomes = {**state.outcomes, "broken": len(state.broken)}
    counts = ", ".join(f"{outcomes[name]} {name}" for name in COUNTED if outcomes.get(name))
    bad = bool(outcomes.get("failed") or outcomes.get("error") or state.blocking or state.broken)
    if counts:
        terminal.write_line(f"evarness: {counts}", red=bad, green=not bad, bold=True)


def _is_beside_the_verdict(state: SessionState, nodeid: str) -> bool:
    """Whether an item is a grader's, and its case invalid."""
    case, _, item = nodeid.rpartition("::")
    record = state.records.get(case)
    if record is None or record.verdict != "invalid":
        return False
    return any(one.id == item and one.kind == GRADED for one in record.findings)


def _broken(state: SessionState) -> list[tuple[str, dict[str, bool]]]:
    lines: list[tuple[str, dict[str, bool]]] = []
    for nodeid, text, others in grouped_files(state.broken):
        name, problem = one_line(nodeid), first_line(clean(text))
        # Most problems begin with the place, which is the file and more.
        told = problem if problem.startswith(f"{name}:") else f"{name} - {problem}"
        lines.append((f"BROKEN {told}", {"red": True}))
        if others:
            lines.append((f"  {files_line(others)}", {"red": True}))
    return lines


def _verdicts(state: SessionState) -> list[tuple[str, dict[str, bool]]]:
    lines: list[tuple[str, dict[str, bool]]] = []
    by_verdict: dict[str, list[CaseRecord]] = {"invalid": [], "indeterminate": [], "valid": []}
    # As in the files: the plan has that order, the records came as cases finished.
    planned_ids = [row["nodeid"] for row in state.plan["plan"]] if state.plan is not None else []
    for nodeid in planned_ids or sorted(state.records):
        record = state.records.get(nodeid)
        if record is None:
            continue
        by_verdict[record.verdict].append(record)
    lines.extend(_broken(state))
    for record in by_verdict["invalid"]:
        lines.append((f"INVALID {record.nodeid}", {"red": True, "bold": True}))
        lines.extend((line, {"red": True}) for line in _primary(record))
        well = despite_lines(record.findings, record.composite)
        lines.extend((f"  {line}", {}) for line in well)
        lines.extend((line, {}) for line in _reviews(state, record.nodeid))
    for record in by_verdict["indeterminate"]:
        lines.append((f"UNDECIDED {record.nodeid}", {"red": True, "bold": True}))
        for finding in record.findings:
            if finding.gate and finding.outcome is Outcome.INDETERMINATE:
                text = first_line(clean(finding.reason))
                side = "" if side_of(finding) != "evaluator" else f"; {side_sentence(finding)}"
                causes = f"{causes_text(finding.causes)}{side}"
                lines.append((f"  {finding.id}: {text} ({causes})", {}))
        lines.extend((f"    {remark}", {}) for remark in other_remarks((), record.findings))
        lines.extend((line, {}) for line in _reviews(state, record.nodeid))
    for record in by_verdict["valid"]:
        failing = [
            finding.id
            for finding in record.findings
            if finding.outcome is Outcome.FAIL and finding.kind != "score"
        ]
        quality = _quality(record)
        tail = f"; failing: {', '.join(failing)}" if failing else ""
        beside = [f"    {remark}" for remark in other_remarks((), record.findings)]
        beside += _reviews(state, record.nodeid)
        if quality or tail or beside or state.config.getoption("verbose", 0) > 0:
            # Without a threshold every invariant decides, gate or not.
            red = (bool(failing) and record.composite is None) or _is_below(record)
            lines.append((f"VALID {record.nodeid}{quality}{tail}", {"red": red}))
        lines.extend((line, {}) for line in beside)
    total = len(state.records)
    planned = len(state.plan["plan"]) if state.plan is not None else total
    summary = (
        f"{len(by_verdict['valid'])} valid, {len(by_verdict['invalid'])} invalid,"
        f" {len(by_verdict['indeterminate'])} indeterminate of {planned} planned cases"
    )
    if total < planned:
        summary += f" ({planned - total} not run)"
    lines.append((summary, {"bold": True}))
    return lines


def _primary(record: CaseRecord) -> list[str]:
    failed = [
        finding
        for finding in record.findings
        if finding.outcome is Outcome.FAIL and finding.kind != "score"
    ]
    primary = next((one for one in failed if one.id == record.primary), failed[0])
    lines = [f"  {primary.id}: {first_line(clean(primary.reason))}"]
    hardness = "gate, " if primary.gate else ""
    lines.append(f"    {hardness}severity {primary.severity.value}")
    witness = primary.witness
    if witness.expected is not None:
        lines.append(f"    expected {first_line(clean(witness.expected))}")
    if witness.observed is not None:
        lines.append(f"    observed {first_line(clean(witness.observed))}")
    if witness.events:
        seqs = ", ".join(str(seq) for seq in witness.events)
        noun = "event" if len(witness.events) == 1 else "events"
        lines.append(f"    witness: {noun} {seqs}")
    lines.extend(f"    {remark}" for remark in remarks_on(primary.id, record.findings))
    related = [one for one in failed if one is not primary]
    if related:
        lines.append(f"  related: {', '.join(one.id for one in related)}")
    for one in related:
        lines.extend(f"    {remark}" for remark in remarks_on(one.id, record.findings))
    others = other_remarks([one.id for one in failed], record.findings)
    return [*lines, *(f"    {remark}" for remark in others)]


def _reviews(state: SessionState, nodeid: str) -> list[str]:
    return [
        f"  {one_line(review['invariant'])}: {review_line(review)}"
        for review in state.reviews
        if review["case"] == nodeid
    ]


def _queue(state: SessionState) -> list[str]:
    """What waits for a person, and where the word is to stand."""
    reviewed = {(one["case"], one["invariant"]) for one in state.reviews}
    waiting = [
        f"{one_line(nodeid)}::{one_line(finding.id)} - {why}"
        for nodeid, record in sorted(state.records.items())
        for finding in record.findings
        if (nodeid, finding.id) not in reviewed
        for why in reasons_for_review(finding)
    ]
    lines = [f"FOR REVIEW {line}" for line in waiting[:MAX_QUEUE]]
    if len(waiting) > len(lines):
        lines.append(f"FOR REVIEW {len(waiting) - len(lines)} more; the bundle lists them all")
    if lines:
        lines.append("a person's word on them goes into evarness/reviews.yaml, and is not counted")
    return lines


def _is_below(record: CaseRecord) -> bool:
    return any(one.kind == "score" and one.outcome is not Outcome.PASS for one in record.findings)


def _quality(record: CaseRecord) -> str:
    composite: Any = record.composite
    if composite is None or composite["low"] is None:
        return ""
    low, high = composite["low"], composite["high"]
    shown = low if low == high else f"[{low}, {high}]"
    score = next((one for one in record.findings if one.kind == "score"), None)
    relation = "threshold"
    if score is not None:
        relation = {
            Outcome.PASS: "reaches",
            Outcome.FAIL: "below",
            Outcome.INDETERMINATE: "undecided against",
        }[score.outcome] + " the threshold"
    return f", quality {shown} ({relation} {composite['threshold']})"


def _left_out(state: SessionState) -> list[str]:
    """What was not selected: skipped by a mark, and failing all the same."""
    skipped: list[str] = []
    failing: list[str] = []
    for row in state.plan["plan"] if state.plan is not None else ():
        record = state.records.get(row["nodeid"])
        for index, item in enumerate(row["items"]):
            if item["selected"]:
                continue
            full = f"{row['nodeid']}::{item['id']}"
            if item["why"] == SKIPPED_BY_MARK:
                skipped.append(full)
            if record is None or record.findings[index].outcome is not Outcome.FAIL:
                continue
            # `score` of an invalid case says nothing that its gate does not say.
            if item["kind"] != "score" or record.verdict == "valid":
                failing.append(full)
    lines = []
    if skipped:
        lines.append(f"{SKIPPED_BY_MARK}: {listed(skipped)}")
    if failing:
        lines.append(f"deselected but failing: {listed(failing)}")
    return lines

"""A bundle in words: the verdict first, then what shows it, then what to do.

No number stands before the hard verdict. Every text is made fit for a terminal here.

Source: docs/reports.md, "What a reader sees first".
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.core.event import is_tainted
from pytest_evarness.core.finding import fraction_text
from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.core.registry import nearest
from pytest_evarness.errors import InputError
from pytest_evarness.report.causal import ancestors, are_tied
from pytest_evarness.report.containment import agreement_of, label_line
from pytest_evarness.report.graded import (
    WELL,
    composite_lines,
    graded_lines,
    is_graded,
    other_remarks,
    remarks_on,
    review_line,
)
from pytest_evarness.report.judged import JudgedCase, JudgedItem, judged_cases
from pytest_evarness.report.text import bounded, clean, one_line, short_digests
from pytest_evarness.report.wording import MEANINGS, side_sentence
from pytest_evarness.report.world import world_lines

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["SECTIONS", "explain", "find_target"]

SECTIONS = (
    "verdict",
    "impact",
    "evidence",
    "causal path",
    "containment",
    "repair",
    WELL,
)
"""Of an invalid case, in this order."""

MAX_EVENTS = 20
MAX_LISTED = 50
"""Names in the message of an error."""
_TEXT = 4000
_WHOLE = "the whole text is in the proof bundle"

_LIFECYCLE = frozenset({"node_started", "node_finished"})
_MUTATIONS = ("write", "destructive")
_STOPS = frozenset(
    {
        "approval_rejected",
        "approval_revoked",
        "budget_breached",
        "engine_error",
        "policy_violation",
        "run_failed",
        "run_paused",
    }
)


def explain(
    statement: Mapping[str, Any], target: str | None = None, *, bundle: str = "BUNDLE"
) -> str:
    """Explain a bundle, one of its cases, or one finding.

    Args:
        statement: What a bundle encloses, its shape and consistency checked.
        target: Node id or id of a case, or either with ``::INVARIANT``; None for all.
        bundle: Its file, as the commands that are suggested name it.

    Raises:
        InputError: Nothing, or more than one thing, is called that.
    """
    cases = judged_cases(statement, bundle=bundle)
    if target is None:
        lines = _all(statement["predicate"], cases)
    else:
        case, judged = find_target(cases, target)
        lines = _case(case) if judged is None else _one(case, judged)
    return "\n".join(lines) + "\n"


def find_target(cases: Sequence[JudgedCase], target: str) -> tuple[JudgedCase, JudgedItem | None]:
    """The case, or the item of a case, that ``target`` names.

    Raises:
        InputError: Nothing, or more than one thing, is called that.
    """
    found: list[tuple[JudgedCase, JudgedItem | None]] = []
    names: dict[str, None] = {}
    for case in cases:
        short = str(case.planned["case"])
        names[case.nodeid] = names[short] = None
        if target in (case.nodeid, short):
            found.append((case, None))
        for judged in case.items:
            names[judged.nodeid] = names[f"{short}::{judged.item.id}"] = None
            if target in (judged.nodeid, f"{short}::{judged.item.id}"):
                found.append((case, judged))
    if len(found) == 1:
        return found[0]
    if found:
        known = ", ".join(
            case.nodeid if judged is None else judged.nodeid for case, judged in found[:MAX_LISTED]
        )
        raise InputError(f"several are called that (got {shown(target)}; {clean(known)})")
    near = nearest(target, names)
    known = ", ".join(case.nodeid for case in cases[:MAX_LISTED]) or "none"
    raise InputError(
        f"no case or finding is called that (got {shown(target)}; cases: {clean(known)})",
        fix=f"write '{clean(near)}'" if near else None,
    )


# -- the whole session -------------------------------------------------------------------------


def _all(predicate: Mapping[str, Any], cases: Sequence[JudgedCase]) -> Iterator[str]:
    verdict = predicate["verdict"]
    word = {True: "Holds", False: "Does not hold", None: "Undecided"}[verdict["holds"]]
    yield f"{word}: {one_line(verdict['note'])}"
    yield (
        f"{verdict['valid']} valid, {verdict['invalid']} invalid, {verdict['indeterminate']}"
        f" indeterminate, {verdict['pending']} pending of {len(cases)} planned cases"
    )
    for broken in predicate["seal"]["broken"]:
        yield ""
        yield f"{one_line(broken['file'])}: did not load"
        yield from _indented(broken["text"])
    for case in sorted(cases, key=_urgency):
        yield ""
        yield from _case(case)
    yield ""
    yield "not proven:"
    for sentence in predicate["not_proven"]:
        yield f"  {one_line(sentence, 600)}"


def _urgency(case: JudgedCase) -> int:
    if case.verdict == "valid":
        return 4 if all(one.shows != "failed" for one in case.items) else 3
    return {"invalid": 0, "indeterminate": 1}.get(str(case.verdict), 2)


# -- a case ------------------------------------------------------------------------------------


def _case(case: JudgedCase) -> Iterator[str]:
    yield _heading(case.nodeid)
    if case.record is None:
        yield "Not run: it was planned and did not run to a judgement"
    elif case.verdict == "invalid":
        yield from _invalid(case, _primary(case))
    elif case.verdict == "indeterminate":
        yield from _indeterminate(case, _undecided(case))
    else:
        yield from _valid(case)
    yield from _reviews(case)


def _reviews(case: JudgedCase) -> Iterator[str]:
    reviewed = [one for one in case.items if one.reviews]
    if not reviewed:
        return
    yield ""
    yield "reviews"
    for judged in reviewed:
        yield f"  {one_line(judged.item.id)}: {judged.shows}"
        yield from _reviewed(judged)


def _reviewed(judged: JudgedItem) -> Iterator[str]:
    for review in judged.reviews:
        yield f"    {review_line(review)}"


def _heading(nodeid: str) -> str:
    return f"--- {one_line(nodeid, 400)}"


def _primary(case: JudgedCase) -> JudgedItem:
    failed = [one for one in _of(case, Outcome.FAIL) if one.item.kind != "score"]
    assert case.record is not None, "only a case that ran has a verdict"
    named = case.record["primary"]
    gates = [one for one in failed if one.item.gate]
    return next((one for one in failed if one.item.id == named), gates[0])


def _undecided(case: JudgedCase) -> list[JudgedItem]:
    return [one for one in _of(case, Outcome.INDETERMINATE) if one.item.gate]


def _of(case: JudgedCase, outcome: Outcome) -> list[JudgedItem]:
    return [one for one in case.items if one.finding is not None and one.finding.outcome is outcome]


def _valid(case: JudgedCase) -> Iterator[str]:
    assert case.record is not None, "only a case that ran is valid"
    yield f"Valid: every gate passed; run A ended {case.replica['status']}"
    yield from _quality(case)
    for judged in case.items:
        finding = judged.finding
        if finding is None or judged.shows == "passed":
            continue
        yield f"  {judged.shows:<13} {one_line(judged.item.id)}: {one_line(finding.reason)}"
    for remark in other_remarks((), _findings(case)):
        yield f"  {remark}"
    yield from _graded(case)
    passed = sum(one.shows == "passed" for one in case.items)
    yield f"  {passed} of {len(case.items)} items passed with something to judge"


def _quality(case: JudgedCase) -> Iterator[str]:
    composite = None if case.record is None else case.record["composite"]
    if composite is None or composite["low"] is None:
        return
    low, high = composite["low"], composite["high"]
    interval = low if low == high else f"[{low}, {high}]"
    yield f"  quality {interval}, threshold {composite['threshold']}"


# -- a case that is undecided ------------------------------------------------------------------


def _indeterminate(case: JudgedCase, undecided: Sequence[JudgedItem]) -> Iterator[str]:
    first = undecided[0].finding
    assert first is not None, "what is undecided was judged"
    yield f"Indeterminate, {side_sentence(first)}: {one_line(first.reason, 600)}"
    yield ""
    yield "missing evidence"
    for judged in undecided:
        yield from _missing(judged)
    if case.replica["status"] == "paused":
        yield "  the run waits for a decision:"
        yield from _pause(case)
    failing = [one.item.id for one in _of(case, Outcome.FAIL) if one.item.kind != "score"]
    if failing:
        yield f"  failed, and not gates: {one_line(', '.join(failing), 600)}"
    for remark in other_remarks((), _findings(case)):
        yield f"  {remark}"
    yield from _graded(case)


def _graded(case: JudgedCase) -> Iterator[str]:
    """What graders said, each by itself."""
    for line in graded_lines(_findings(case)):
        yield f"  {line}"


def _missing(judged: JudgedItem) -> Iterator[str]:
    finding = judged.finding
    assert finding is not None, "what is undecided was judged"
    yield f"  {one_line(judged.item.id)}: {one_line(finding.reason, 600)}"
    for cause in finding.causes:
        yield f"    {cause.value}: {MEANINGS[cause]}"
    if finding.leaning is not None:
        yield f"    leaning: {finding.leaning.word}, if the run had ended there"
    for claim in finding.witness.absent:
        yield f"    absent: {one_line(claim)}"
    for note in finding.witness.notes:
        yield f"    note: {one_line(note)}"
    if finding.looked_at:
        yield f"    looked at: {one_line('; '.join(finding.looked_at), 600)}"
    for line in _needed(judged):
        yield f"  {line}"


def _needed(judged: JudgedItem) -> Iterator[str]:
    """What has to be there for the item to be decided."""
    from pytest_evarness.checks.required import required_evidence
    from pytest_evarness.core.registry import packaged_registry

    needed = required_evidence(judged.item, packaged_registry())
    if needed:
        yield f"  needs: {one_line('; '.join(needed), 600)}"


def _pause(case: JudgedCase) -> Iterator[str]:
    for event in case.events or ():
        if event["type"] == "run_paused":
            node = event["node_id"] or _last_node(case)
            yield f"    node {shown(node)} asks: {shown(event['payload'].get('prompt', ''))}"


def _last_node(case: JudgedCase) -> Any:
    started = [event for event in case.events or () if event["type"] == "node_started"]
    return started[-1]["node_id"] if started else None


# -- a case that is invalid --------------------------------------------------------------------


def _invalid(case: JudgedCase, judged: JudgedItem) -> Iterator[str]:
    finding = judged.finding
    assert finding is not None, "what failed was judged"
    parts = (
        _verdict(case, judged, finding),
        _impact(case, finding),
        _evidence(case, judged, finding),
        _causal_path(case, finding),
        _containment(case, judged, finding),
        _repair(case, judged, finding),
        _despite(case),
    )
    for name, part in zip(SECTIONS, parts, strict=True):
        if name != "verdict":
            yield ""
            yield name
        yield from part


def _verdict(case: JudgedCase, judged: JudgedItem, finding: Finding) -> Iterator[str]:
    # An invariant that decides alone fails the session and leaves the hard verdict as it is.
    word = "Invalid" if case.verdict == "invalid" else "Failed"
    yield f"{word}: {one_line(finding.reason, 600)}"
    yield f"  {_weight_of(judged)} {one_line(judged.item.id)}, severity {finding.severity.value}"
    if judged.item.description and judged.item.description != finding.reason:
        yield f"  rule: {one_line(judged.item.description, 600)}"
    related = [
        one for one in _of(case, Outcome.FAIL) if one is not judged and one.item.kind != "score"
    ]
    for one in related:
        yield (
            f"  related: {one_line(one.item.id)} ({_weight_of(one)}, severity"
            f" {one.item.severity.value})"
        )
    for rule in (one.item.id for one in related):
        for remark in remarks_on(rule, _findings(case)):
            yield f"    {remark}"
    told = [judged.item.id, *(one.item.id for one in related)]
    for remark in other_remarks(told, _findings(case)):
        yield f"  {remark}"


def _weight_of(judged: JudgedItem) -> str:
    """How hard it is, which says nothing of how severe."""
    if judged.item.gate:
        return "gate"
    return "invariant that decides alone" if judged.item.decides else "weighted invariant"


def _start(finding: Finding) -> int:
    """Where the violation begins; 0 where events do not decide."""
    events = finding.witness.events
    if events:
        return events[-1]
    return finding.decisive_seq or 0


def _impact(case: JudgedCase, finding: Finding) -> Iterator[str]:
    if case.events is None:
        yield "  not known: the bundle encloses no events"
        return
    start = _start(finding)
    tainted = sum(is_tainted(event) for event in case.events)
    changes = [
        event
        for event in case.events
        if event["seq"] >= start
        and not is_tainted(event)
        and (
            event["type"] in ("effect_applied", "http_request", "file_write")
            or (
                event["type"] == "tool_called"
                and event["payload"].get("side_effects") in _MUTATIONS
            )
        )
    ]
    yield from _listed(changes)
    if not changes:
        yield (
            f"  no effect on record: no effect_applied, http_request, file_write or mutating"
            f" tool_called from event {start} on"
        )
    if tainted:
        yield (
            f"  {tainted} tainted events were only observed: the world was sealed at the block"
            " before them"
        )
    lines = list(world_lines(case.world))
    for line in lines[:MAX_LISTED]:
        yield f"  {one_line(line, 300)}"
    if len(lines) > MAX_LISTED:
        yield f"  {len(lines) - MAX_LISTED} more changes left out"


def _evidence(case: JudgedCase, judged: JudgedItem, finding: Finding) -> Iterator[str]:
    witness = finding.witness
    if witness.expected is not None:
        yield f"  expected: {one_line(witness.expected, 600)}"
    if witness.observed is not None:
        yield f"  observed: {one_line(witness.observed, 600)}"
    yield from _with_context(case, witness.events)
    for entry in witness.entries:
        yield f"  world: {one_line(entry, 600)}"
    for claim in witness.absent:
        yield f"  absent: {one_line(claim)}"
    for note in witness.notes:
        yield f"  note: {one_line(note)}"
    if finding.looked_at:
        yield f"  looked at: {one_line('; '.join(finding.looked_at), 600)}"
    for remark in remarks_on(finding.id, _findings(case)):
        yield f"  {remark}"
    yield from _needed(judged)
    if finding.label == "preventive" and case.events is not None:
        yield f"  {one_line(agreement_of(case.events, case.world).line, 900)}"
    runs = {run["label"]: run for run in case.replica["runs"]}
    if "b" not in runs:
        yield f"  run B could not be made: {one_line(str(case.replica['error_b']))}"
    else:
        for name, what in (("trace_digest", "events"), ("world_digest", "world")):
            same = runs["a"][name] == runs["b"][name]
            yield f"  {what}: both runs {'agree' if same else 'DIFFER'} ({runs['a'][name]})"
    if judged.item.path:
        yield f"  defined: {one_line(judged.item.path)}:{judged.item.line}"


def _findings(case: JudgedCase) -> list[Finding]:
    return [one.finding for one in case.items if one.finding is not None]


def _with_context(case: JudgedCase, seqs: Sequence[int]) -> Iterator[str]:
    """Events of a witness, each marked, with the two before it."""
    if not seqs:
        return
    if case.events is None:
        yield f"  events {', '.join(map(str, seqs))} (not enclosed)"
        return
    marked = set(seqs)
    wanted = sorted({near for seq in seqs for near in range(max(0, seq - 2), seq + 1)})
    before = None
    for seq in wanted[-3 * MAX_EVENTS :]:
        if seq >= len(case.events):
            continue
        if before is not None and seq != before + 1:
            yield "      ..."
        yield _event(case.events[seq], mark=">" if seq in marked else " ")
        before = seq


def _causal_path(case: JudgedCase, finding: Finding) -> Iterator[str]:
    """Events on which the violating one depends.

    By graph edges, by the digest of what was approved, and by intent.
    """
    if case.events is None:
        yield "  not known: the bundle encloses no events"
        return
    start = _start(finding)
    is_placed = bool(finding.witness.events) or finding.decisive_seq is not None
    if start >= len(case.events) or not is_placed:
        yield "  none: events alone do not show this violation"
        return
    last = case.events[start]
    above = ancestors(case.graph or {}, last["node_id"])
    chosen = [
        event
        for event in case.events[:start]
        if are_tied(event, last)
        or (event["node_id"] in above and event["type"] not in _LIFECYCLE)
        or (last["node_id"] is None and event["type"] not in _LIFECYCLE)
    ]
    if len(chosen) > MAX_EVENTS:
        yield f"  {len(chosen) - MAX_EVENTS} earlier events left out"
    yield from _listed(chosen[-MAX_EVENTS:])
    yield _event(last, mark=">")


def _containment(case: JudgedCase, judged: JudgedItem, finding: Finding) -> Iterator[str]:
    yield f"  {one_line(label_line(judged.item, finding.label))}"
    if case.events is None:
        return
    start = _start(finding)
    stops = [
        event
        for event in case.events
        if event["type"] in _STOPS
        or (event["type"] == "policy_decision" and event["payload"].get("decision") == "deny")
    ]
    yield from _listed(stops)
    status = case.replica["status"]
    after = [event for event in stops if event["seq"] > start]
    if after:
        yield f"  the run ended {status}, stopped after the violation"
    elif stops:
        yield f"  the run ended {status}; what stopped it came before the violation was on record"
    else:
        yield f"  nothing stopped it: the run ended {status}"


def _failed_node(case: JudgedCase) -> Iterator[str]:
    """The node whose error ended the run, and what it was made of."""
    events = case.events or ()
    failed = next((one for one in events if one["type"] == "engine_error"), None)
    if failed is None or failed["node_id"] is None:
        return
    nodes = cast("list[dict[str, Any]]", (case.graph or {}).get("nodes") or [])
    node = next((one for one in nodes if one.get("id") == failed["node_id"]), None)
    if node is not None:
        made_of = one_line(shown(node.get("config", {}), 300), 300)
        yield f"  failed: node {one_line(node['id'], 60)}, {one_line(node['type'], 60)} {made_of}"


def _repair(case: JudgedCase, judged: JudgedItem, finding: Finding) -> Iterator[str]:
    failed = list(_failed_node(case)) if judged.item.kind == "expect" else []
    yield from failed
    said = bool(failed)
    for candidate in finding.witness.nearest:
        fields = cast("dict[str, Any]", candidate)
        yield (
            f"  nearest candidate: event {shown(fields.get('seq'))}:"
            f" {one_line(str(fields.get('why')), 600)}"
        )
        said = True
    definition = cast("dict[str, Any]", judged.item.definition or {})
    for name in ("owner", "rationale", "threat"):
        if isinstance(definition.get(name), str) and definition[name]:
            yield f"  {name}: {one_line(definition[name], 600)}"
            said = True
    if not said:
        yield "  no candidate came near, and the rule names neither owner nor rationale"
    if judged.item.kind in ("contract", "trace"):
        yield (
            "  the fewest events with this finding: pytest-evarness slice"
            f" {one_line(shlex.quote(case.bundle), 600)}"
            f" {one_line(shlex.quote(judged.nodeid), 600)}"
        )


def _despite(case: JudgedCase) -> Iterator[str]:
    composite = None if case.record is None else case.record["composite"]
    for line in composite_lines(composite):
        yield f"  {line}"
    yield from _graded(case)
    graded = [one.id for one in _findings(case) if is_graded(one)]
    passed = [one for one in case.items if one.shows == "passed" and one.item.id not in graded]
    for judged in passed:
        weight = f" (weight {fraction_text(judged.item.weight)})" if judged.item.weight else ""
        yield f"  passed: {one_line(judged.item.id)}{weight}"
    if not passed and not graded:
        yield "  nothing passed with something to judge"


# -- one finding -------------------------------------------------------------------------------


def _one(case: JudgedCase, judged: JudgedItem) -> Iterator[str]:
    yield _heading(judged.nodeid)
    finding = judged.finding
    if finding is None:
        yield "Not run: its case did not run to a judgement"
        return
    if judged.item.kind != "score" and finding.outcome is Outcome.FAIL:
        yield from _invalid(case, judged) if judged.item.decides else _missed(case, judged, finding)
    elif finding.outcome is Outcome.INDETERMINATE:
        yield f"Indeterminate, {side_sentence(finding)}: {one_line(finding.reason, 600)}"
        yield (
            f"  {_weight_of(judged)} {one_line(judged.item.id)}, severity {finding.severity.value}"
        )
        yield ""
        yield "missing evidence"
        yield from _missing(judged)
        for remark in remarks_on(finding.id, _findings(case)):
            yield f"  {remark}"
        yield from _with_context(case, finding.witness.events)
        if case.replica["status"] == "paused":
            yield from _pause(case)
    else:
        word = {"vacuous": "Vacuous", "failed": "Fail", "skipped": "Skipped"}.get(
            judged.shows, "Pass"
        )
        yield f"{word}: {one_line(finding.reason, 600)}"
        yield from _evidence(case, judged, finding)
    yield from _reviewed(judged)
    if judged.why_not is not None:
        yield f"  {one_line(judged.why_not)}"


def _missed(case: JudgedCase, judged: JudgedItem, finding: Finding) -> Iterator[str]:
    yield (
        f"Missed: {one_line(finding.reason, 600)} (weight {fraction_text(judged.item.weight)};"
        f" 'score' decides)"
    )
    yield from _evidence(case, judged, finding)
    yield from _repair(case, judged, finding)


# -- lines -------------------------------------------------------------------------------------


def _listed(events: Sequence[TraceEvent]) -> Iterator[str]:
    for event in events[:MAX_EVENTS]:
        yield _event(event)
    if len(events) > MAX_EVENTS:
        yield f"  and {len(events) - MAX_EVENTS} more"


def _event(event: TraceEvent, mark: str = " ") -> str:
    node = "-" if event["node_id"] is None else str(event["node_id"])
    # The head of a digest is enough to see that two are one; the whole is in the bundle.
    payload = short_digests(shown(event["payload"], 2000))
    return (
        f"  {mark} {event['seq']:>4}  {one_line(event['type']):<20}  {one_line(node, 60):<8}"
        f"  {one_line(payload, 300)}"
    )


def _indented(text: str) -> Iterator[str]:
    for line in bounded(text, _TEXT, whole=_WHOLE).split("\n"):
        yield f"  {line}"

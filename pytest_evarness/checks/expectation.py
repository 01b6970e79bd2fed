"""The item ``expect``: did the run end as the case declares, with the output and nodes it names?

Source: docs/verdicts.md, "How a run ended".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.checks.found import found
from pytest_evarness.core.event import is_tainted
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Cause, Outcome

if TYPE_CHECKING:
    from pytest_evarness.checks.evidence import Evidence
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.trace import TraceEvent
    from pytest_evarness.errors import Fault

__all__ = ["declared_status", "judge_expectation", "output_faults"]

_UNDECIDED = {
    "paused": Cause.UNFINISHED_RUN,
    "unscripted": Cause.MISSING_EVIDENCE,
    "unfinished": Cause.EVALUATOR_ERROR,
}


def declared_status(item: PlannedItem) -> str:
    """The end that the case declares."""
    return cast("str", (item.definition or {}).get("status", "completed"))


def output_faults(spec: Any) -> list[Fault]:
    """Mistakes of ``expect.output``: one that no output meets, or every output, is one as well.

    A run without an output fails it whatever it asks; ``exists: true`` asks no more than that.
    """
    from pytest_evarness.contract.possible import asserts_nothing, impossible
    from pytest_evarness.core.matcher import parse_matcher
    from pytest_evarness.core.schema import Place

    matcher, faults = parse_matcher(spec)
    if matcher is None:
        return faults
    output = Place.of({"type": "string"})
    faults = impossible(output, matcher)
    idle = None if faults else asserts_nothing(output, matcher, ())
    return faults if idle is None else [idle]


def judge_expectation(item: PlannedItem, evidence: Evidence) -> Finding:
    """Judge the declared end against run A."""
    expected = declared_status(item)
    status = evidence.a.status
    definition = cast("dict[str, Any]", item.definition or {})
    started = _nodes(evidence, "node_started")
    for node in definition.get("nodes_not_run") or []:
        if node in started:
            # No continuation of any run can undo a start, so this fails an open trace as well.
            return _finding(
                item,
                Outcome.FAIL,
                f"node '{node}' was not to run and was started (run A ended {status})",
                seq=started[node],
                expected=f"no node_started of {node}",
                observed=f"node_started of {node} at seq {started[node]}",
                evidence=evidence,
            )
    last = _last_seq(evidence)
    if status != expected:
        return _another_status(item, evidence, expected, last)
    finished = _nodes(evidence, "node_finished")
    for node in definition.get("nodes_run") or []:
        if node not in finished:
            met = "started, not finished" if node in started else "never started"
            return _finding(
                item,
                Outcome.FAIL,
                f"node '{node}' was to run and did not finish ({met})",
                seq=last,
                expected=f"node_finished of {node}",
                observed=met,
                absent=f"no node_finished of {node} in 0..{last}",
                evidence=evidence,
            )
    if "output" in definition:
        failed = _judge_output(item, evidence, definition["output"], last)
        if failed is not None:
            return failed
    return _finding(
        item, Outcome.PASS, f"the run ended {status}, as declared", seq=last, evidence=evidence
    )


def _judge_output(
    item: PlannedItem, evidence: Evidence, spec: Any, last: int | None
) -> Finding | None:
    from pytest_evarness.core.matcher import parse_matcher

    if evidence.output is None:
        return _finding(
            item,
            Outcome.FAIL,
            "the run has no output, and no output matches nothing",
            seq=last,
            expected=f"output {shown(spec)}",
            observed="no output",
            evidence=evidence,
        )
    matcher, faults = parse_matcher(spec)
    if matcher is None:
        return _finding(
            item,
            Outcome.INDETERMINATE,
            f"expect.output cannot be read: {faults[0].text}",
            causes=(Cause.EVALUATOR_ERROR,),
            evidence=evidence,
        )
    answer = matcher.test(evidence.output)
    if answer.held is True:
        return None
    # A value of another type fails a check: the output is what it is, and it is whole.
    if answer.held is None and answer.cause is not Cause.MALFORMED_EVIDENCE:
        return _finding(
            item,
            Outcome.INDETERMINATE,
            f"expect.output is undecided: {answer.why}",
            causes=(answer.cause or Cause.EVALUATOR_ERROR,),
            evidence=evidence,
        )
    return _finding(
        item,
        Outcome.FAIL,
        f"the output is not as declared: {answer.why}",
        seq=last,
        expected=f"output {matcher.describe()}",
        observed=shown(evidence.output, 400),
        evidence=evidence,
    )


def _another_status(
    item: PlannedItem, evidence: Evidence, expected: str, last: int | None
) -> Finding:
    status = evidence.a.status
    cause = _UNDECIDED.get(status)
    if cause is None:
        detail = _why_ended(evidence, status)
        return _finding(
            item,
            Outcome.FAIL,
            f"the run ended {status}, not {expected}{detail}",
            seq=last,
            expected=f"status {expected}",
            observed=f"status {status}",
            evidence=evidence,
        )
    if status == "paused":
        reason = (
            f"the run is paused and waits for a decision that the case does not give"
            f" (declared end: {expected}){_pending(evidence)}"
        )
    elif status == "unscripted":
        reason = f"the script has no answer{_why_ended(evidence, status)}"
    else:
        reason = f"the run was stopped from outside: {evidence.a.error or 'no end was reached'}"
    return _finding(item, Outcome.INDETERMINATE, reason, causes=(cause,), evidence=evidence)


def _pending(evidence: Evidence) -> str:
    for event in reversed(evidence.events):
        if event.get("type") == "run_paused":
            # The pause is the run's event; who asked is the last node that said anything.
            named = (one.get("node_id") for one in reversed(evidence.events))
            node = next((name for name in named if name), None)
            asks = f"node {node} asks" if node else "it asks"
            return f": {asks} {shown(_payload(event).get('prompt'))}"
    return ""


def _why_ended(evidence: Evidence, status: str) -> str:
    wanted = {
        "failed": "engine_error",
        "blocked": "policy_violation",
        "unscripted": "script_exhausted",
    }.get(status)
    for event in reversed(evidence.events):
        # Behind a block everything is only observed: what is said there ended nothing.
        if wanted is not None and event.get("type") == wanted and not is_tainted(event):
            payload = _payload(event)
            if wanted == "script_exhausted" and isinstance(payload.get("detail"), str):
                return f": {payload['detail']}"
            if wanted == "script_exhausted":
                scripted = payload.get("scripted")
                noun = "response" if scripted == 1 else "responses"
                return (
                    f": {scripted} {noun} scripted, call {payload.get('call')} made,"
                    f" script {payload.get('script')}"
                )
            return f": {payload.get('reason')}"
    return ""


def _finding(
    item: PlannedItem,
    outcome: Outcome,
    reason: str,
    *,
    evidence: Evidence,
    seq: int | None = None,
    causes: tuple[Cause, ...] = (),
    expected: str | None = None,
    observed: str | None = None,
    absent: str | None = None,
) -> Finding:
    shown_events = (seq,) if seq is not None and outcome is Outcome.FAIL else ()
    if outcome is Outcome.FAIL and evidence.a.status == "failed":
        shown_events = tuple(sorted({*shown_events, *(_seq_of(evidence, "engine_error"))}))
    return found(
        item,
        outcome,
        reason,
        causes=causes,
        decisive_seq=seq if outcome is not Outcome.INDETERMINATE else None,
        witness=Witness(
            events=shown_events,
            absent=(absent,) if absent else (),
            expected=expected,
            observed=observed,
            context=_context(evidence, shown_events),
        ),
        looked_at=(f"run A, {len(evidence.events)} events",),
    )


def _context(evidence: Evidence, seqs: tuple[int, ...]) -> dict[str, str]:
    """The text of the events that the witness names, each bounded."""
    return {
        str(event["seq"]): shown(dict(event), 1000)
        for event in evidence.events
        if event["seq"] in seqs
    }


def _seq_of(evidence: Evidence, kind: str) -> list[int]:
    return [event["seq"] for event in evidence.events if event.get("type") == kind]


def _nodes(evidence: Evidence, kind: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for event in evidence.events:
        if event.get("type") == kind and event.get("node_id") is not None:
            found.setdefault(event["node_id"], event["seq"])
    return found


def _last_seq(evidence: Evidence) -> int | None:
    return evidence.events[-1]["seq"] if evidence.events else None


def _payload(event: TraceEvent) -> dict[str, Any]:
    payload = event.get("payload")
    return payload if isinstance(payload, dict) else {}

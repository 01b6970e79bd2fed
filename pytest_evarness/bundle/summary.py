"""The session's verdict, as a function of what the rest of the bundle says.

Source: docs/bundle.md, "When a bundle holds".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pytest_evarness.bundle.lookup import definition_texts
from pytest_evarness.core.plan import ALWAYS_THERE

__all__ = [
    "asserts_something",
    "declares_pause",
    "is_pending",
    "summarise",
]


def summarise(predicate: Mapping[str, Any]) -> dict[str, Any]:
    """Counts of cases, and whether the whole session holds.

    Returns:
        ``{holds, valid, invalid, indeterminate, pending, note}``. ``holds`` is False when something
        failed, None when nothing failed and something is open, True otherwise. ``pending`` counts
        cases, among the others, that wait for a decision which nobody declared. ``note`` is the
        first reason.
    """
    seal = predicate["seal"]
    texts = definition_texts(seal)
    case_by_nodeid = {case["nodeid"]: case for case in predicate["cases"]}
    false: list[str] = []
    null: list[str] = []
    counts = {"valid": 0, "invalid": 0, "indeterminate": 0}
    pending = 0
    if not seal["plan"]:
        false.append("there was no case")
    found = {row["file"] for name in ("plan", "broken") for row in seal[name]}
    least = seal["settings"]["min_scenarios"]
    if len(found) < least:
        false.append(f"{len(found)} scenario files were found, at least {least} needed")
    _weigh_exercise(predicate, false, null)
    for planned in seal["plan"]:
        nodeid = planned["nodeid"]
        if not any(asserts_something(item) for item in planned["items"]):
            false.append(f"{nodeid}: nothing was asserted")
        if not all(item["selected"] for item in planned["items"]):
            null.append(f"{nodeid}: items were deselected")
        case = case_by_nodeid.get(nodeid)
        if case is None:
            null.append(f"{nodeid}: did not run to a judgement")
            continue
        counts[case["verdict"]] += 1
        if is_pending(planned, case, texts):
            pending += 1
        _weigh_case(planned, case, false, null)
    null.extend(f"{row['file']}: did not load" for row in seal["broken"])
    null.extend(
        f"{row['id']}@{row['version']} fails its own corpus ({', '.join(row['failed'])})"
        for row in seal["corpora"]
        if row["failed"]
    )
    holds = False if false else None if null else True
    reasons = false or null
    note = reasons[0] if reasons else "every planned case ran, was judged, and holds"
    if len(reasons) > 1:
        note += f" (and {len(reasons) - 1} more)"
    return {"holds": holds, **counts, "pending": pending, "note": note}


def _weigh_exercise(predicate: Mapping[str, Any], false: list[str], null: list[str]) -> None:
    """The demanded share, where one was demanded and something ran that could be exercised."""
    least = predicate["seal"]["settings"]["min_coverage"]
    if least is None:
        return
    done, total = predicate["exercised"]["done"], predicate["exercised"]["total"]
    if not predicate["exercised"]["told"]:
        null.append("how much of the harness was exercised cannot be told")
    elif total and Fraction(done, total) * 100 < Fraction(least):
        false.append(
            f"{done} of {total} parts of the harness were exercised, at least {least} % needed"
        )


def _weigh_case(
    planned: Mapping[str, Any], case: Mapping[str, Any], false: list[str], null: list[str]
) -> None:
    nodeid = planned["nodeid"]
    before, open_before = len(false), len(null)
    says_something = False
    for replica in case["replicas"]:
        for item, finding in zip(planned["items"], replica["findings"], strict=True):
            # A deselected item cannot fail a session, but it does decide whether the case holds.
            if item["decides"] or item["kind"] == "score":
                if finding["outcome"] == "fail":
                    false.append(f"{nodeid}::{item['id']} failed")
                elif finding["outcome"] == "indeterminate":
                    null.append(f"{nodeid}::{item['id']} is indeterminate")
            if asserts_something(item) and not finding["vacuous"]:
                says_something = True
    if case["verdict"] == "invalid" and len(false) == before:
        false.append(f"{nodeid} is invalid")
    if case["verdict"] == "indeterminate" and len(null) == open_before:
        null.append(f"{nodeid} is indeterminate")
    if planned["mode"] == "diagnostic":
        null.append(f"{nodeid}: a diagnostic case never holds")
    if not says_something:
        null.append(f"{nodeid}: every finding is vacuous")


def asserts_something(item: Mapping[str, Any]) -> bool:
    """True for an item that a user asked for; every case has the others anyway."""
    if item["id"] in ALWAYS_THERE or item["kind"] == "score":
        return False
    return item["kind"] != "expect" or bool(item["written"])


def declares_pause(planned: Mapping[str, Any], texts: Mapping[str, str]) -> bool:
    """True where the case says that it ends paused.

    Args:
        texts: What :func:`~pytest_evarness.bundle.lookup.definition_texts` gave.
    """
    for item in planned["items"]:
        if item["kind"] == "expect" and item["definition"] is not None:
            expectation = json.loads(texts[item["definition"]])
            status = expectation.get("status", "completed")
            return bool(status == "paused")
    return False


def is_pending(
    planned: Mapping[str, Any], case: Mapping[str, Any], texts: Mapping[str, str]
) -> bool:
    """True where a run waits for a decision and the case does not say that it may."""
    paused = any(replica["status"] == "paused" for replica in case["replicas"])
    return paused and not declares_pause(planned, texts)

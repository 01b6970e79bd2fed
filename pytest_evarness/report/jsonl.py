"""The runs of a bundle as a trace file: what ``check`` and ``digest`` read.

Findings are not in it: a trace file says what happened, and nothing about how it was judged.

Source: docs/reports.md, "Trace files".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evarness.errors import InputError

__all__ = ["jsonl_bytes", "jsonl_lines"]

# Statuses after which nothing can follow; a pause is an end only where its case declares it.
_CLOSED = ("completed", "blocked", "failed")


def jsonl_bytes(statement: Mapping[str, Any]) -> bytes:
    """Render every enclosed run.

    Raises:
        InputError: The bundle encloses no events.
    """
    return "".join(f"{line}\n" for line in jsonl_lines(statement)).encode("ascii")


def jsonl_lines(statement: Mapping[str, Any]) -> Iterator[str]:
    """Each run: its header, then its events, each the exact text that was digested.

    Run B is there only where it differs from run A. ``run_id`` is the case's node id and the run's
    label, ``scenarios/x.yaml::approve#a``.

    Raises:
        InputError: The bundle encloses no events.
    """
    from pytest_evarness.bundle.lookup import definition_texts
    from pytest_evarness.bundle.summary import declares_pause
    from pytest_evarness.core import c1

    predicate = statement["predicate"]
    seal = predicate["seal"]
    if seal["settings"]["events"] != "full":
        raise InputError(
            "the bundle encloses digests only, so there are no events to write",
            fix="make it with --evarness-bundle-events=full",
        )
    definitions = definition_texts(seal)
    planned_by_nodeid = {planned["nodeid"]: planned for planned in seal["plan"]}
    for case in predicate["cases"]:
        planned = planned_by_nodeid[case["nodeid"]]
        replica = case["replicas"][0]
        for run in replica["runs"]:
            events = replica["events"] if run["label"] == "a" else replica["events_b"]
            if events is None:
                continue
            closed = run["status"] in _CLOSED or (
                run["status"] == "paused" and declares_pause(planned, definitions)
            )
            yield c1.text(
                {
                    "trace": 1,
                    "run_id": f"{case['nodeid']}#{run['label']}",
                    "closed": closed,
                    "events": len(events),
                    "case": planned["digest"],
                    "seal": seal["digest"],
                }
            )
            yield from events

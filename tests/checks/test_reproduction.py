"""Run B gives the bytes of run A, or the first difference is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_evarness.checks.reproduction import (
    first_difference,
    first_world_difference,
    judge_reproduction,
)
from pytest_evarness.core.outcome import Cause, Outcome
from tests.checks.builders import END, REPRODUCES, evidence, trace

START = ("run_started", None, {"fixture": "f", "seed": 1})
FINISH = ("run_finished", None, {**END})


def note(text: str) -> tuple[str, str | None, dict[str, object]]:
    return ("custom.note", "n2", {"order": text, "same": 1})


def test_equal_digests_reproduce() -> None:
    found = judge_reproduction(REPRODUCES, evidence("completed", START, note("a,b"), FINISH))
    assert found.outcome is Outcome.PASS
    assert found.score == 1


def test_the_first_difference_is_shown_field_by_field() -> None:
    got = evidence(
        "completed",
        START,
        note("a,b"),
        FINISH,
        b=(START, note("b,a"), FINISH),
    )
    found = judge_reproduction(REPRODUCES, got)
    assert found.outcome is Outcome.FAIL
    assert found.decisive_seq == 1
    assert found.witness.events == (1,)
    assert 'payload.order: "a,b" in run A, "b,a" in run B' in found.reason
    assert "same" not in found.reason


def test_a_run_that_is_longer_is_a_difference() -> None:
    one, other = trace(START, FINISH), trace(START)
    assert first_difference(one, other) == (1, ["run B ends after 1 events, run A has 2"])
    assert first_difference(other, one)[0] == 1


def test_types_are_part_of_the_difference() -> None:
    seq, lines = first_difference(
        trace(("custom.n", "n", {"v": [1, True]})), trace(("custom.n", "n", {"v": [1.0, 1]}))
    )
    assert seq == 0
    assert "payload.v[0]: 1 in run A, 1.0 in run B" in lines[0]
    assert "payload.v[1]: true in run A, 1 in run B" in lines[1]


def test_a_run_b_that_could_not_be_made_is_undecided_never_a_pass() -> None:
    got = replace(evidence("completed", START, FINISH), b=None, error_b="the mirror died")
    found = judge_reproduction(REPRODUCES, got)
    assert found.outcome is Outcome.INDETERMINATE
    assert found.causes == (Cause.EVALUATOR_ERROR,)
    assert "the mirror died" in found.reason


def test_a_run_stopped_from_outside_is_undecided() -> None:
    found = judge_reproduction(REPRODUCES, evidence("unfinished", START, error="took 30 s"))
    assert found.outcome is Outcome.INDETERMINATE
    assert "took 30 s" in found.reason


def test_another_world_after_the_same_events_fails() -> None:
    got = evidence("completed", START, FINISH)
    assert got.b is not None
    other = replace(got, b=replace(got.b, world_digest="sha256:11"))
    assert judge_reproduction(REPRODUCES, other).outcome is Outcome.FAIL


def world_of(**parts: Any) -> dict[str, Any]:
    file = {"path": "a.txt", "type": "file", "mode": "0644", "size": 1, "sha256": "sha256:aa"}
    return {
        "workspace": {"files": [parts.get("file", file)], "added": [], "removed": []},
        "services": [
            {
                "name": "db",
                "type": "sqlite",
                "tables": [
                    {"name": "t", "columns": ["id", "v"], "rows": parts.get("rows", [[1, "x"]])}
                ],
            },
            {"name": "mail", "type": "http_mock", "requests": parts.get("requests", [])},
        ],
        "ledger": parts.get("ledger", []),
    }


REQUEST = {"n": 1, "method": "POST", "path": "/a"}


@pytest.mark.parametrize(
    ("parts", "place", "line"),
    [
        (
            {"file": {"path": "a.txt", "type": "file", "mode": "0755", "sha256": "sha256:aa"}},
            "file a.txt",
            'mode: "0644" in run A, "0755" in run B',
        ),
        ({"file": {"path": "b.txt"}}, "file a.txt", "only in run A"),
        ({"rows": [[1, "y"]]}, "row 0 of table t of db", 'v: "x" in run A, "y" in run B'),
        ({"rows": [[1, "x"], [2, "z"]]}, "row 1 of table t of db", "only in run B"),
        ({"requests": [REQUEST]}, "request 1 of mail", "only in run B"),
        ({"ledger": [{"effect_id": "n#0/0"}]}, "effect 0 of the ledger", "only in run B"),
    ],
)
def test_the_first_file_row_request_or_effect_that_differs_is_shown(
    parts: dict[str, Any], place: str, line: str
) -> None:
    found, lines = first_world_difference(world_of(), world_of(**parts))
    assert found == place
    assert lines[0].startswith(line)
    got = evidence("completed", START, FINISH)
    assert got.b is not None
    other = replace(
        got,
        b=replace(got.b, world_digest="sha256:11"),
        world=world_of(),
        world_b=world_of(**parts),
    )
    judged = judge_reproduction(REPRODUCES, other)
    assert judged.outcome is Outcome.FAIL
    assert judged.reason.startswith(f"both runs gave the same events and another world: {place}:")
    assert judged.witness.entries == (place,)


def test_a_difference_that_stands_nowhere_by_itself_is_told_all_the_same() -> None:
    other = world_of()
    other["workspace"]["added"] = ["x"]
    place, lines = first_world_difference(world_of(), other)
    assert (place, lines) == ("world", ["workspace.added: 0 elements in run A, 1 in run B"])

"""The runs of a bundle leave it as a trace file: same bytes, same digests, same end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_evarness.bundle.seal import Settings
from pytest_evarness.core import c1
from pytest_evarness.core.tracefile import read_traces
from pytest_evarness.errors import InputError
from pytest_evarness.report.jsonl import jsonl_bytes
from tests.bundle.builder import (
    APPROVE,
    PENDING,
    REJECT,
    UNDECIDED,
    changed,
    record_of,
    statement_of,
)


def test_every_run_reads_back_with_its_digest(tmp_path: Path) -> None:
    statement = statement_of(APPROVE, REJECT)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(jsonl_bytes(statement))
    traces = read_traces(path)
    assert [trace.run_id for trace in traces] == [
        "scenarios/send.yaml::approve#a",
        "scenarios/send.yaml::reject#a",
    ]
    for trace, case in zip(traces, statement["predicate"]["cases"], strict=True):
        digest, _ = c1.digests(c1.events_text(trace.events))
        assert digest == case["replicas"][0]["runs"][0]["trace_digest"]
        assert trace.closed


def test_a_pause_is_an_end_only_where_the_case_declares_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(jsonl_bytes(statement_of(PENDING, UNDECIDED)))
    declared, undeclared = read_traces(path)
    assert (declared.closed, undeclared.closed) == (True, False)


def test_run_b_is_there_only_where_it_differs() -> None:
    record = record_of(APPROVE, spec_b=changed(APPROVE, prompt="send the q3 report now"))
    lines = jsonl_bytes(statement_of(APPROVE, records=[record])).splitlines()
    headers = [json.loads(line) for line in lines if b'"run_id"' in line]
    assert [header["run_id"][-2:] for header in headers] == ["#a", "#b"]


def test_a_bundle_of_digests_has_no_events_to_write() -> None:
    statement = statement_of(APPROVE, settings=Settings(events="digest"))
    with pytest.raises(InputError, match=r"^the bundle encloses digests only"):
        jsonl_bytes(statement)

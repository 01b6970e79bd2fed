"""A trace file from anywhere is read as hostile, and what its trace lacks is kept as evidence."""

from __future__ import annotations

import json
import re
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.core import tracefile
from pytest_evarness.core.execution import execute
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.runlog import RunLog
from pytest_evarness.core.tracefile import MAX_LINE_BYTES, read_traces
from pytest_evarness.errors import InputError
from tests.core.building import case_of, kernel_registry, row
from tests.effort import calls_of

if TYPE_CHECKING:
    from pytest_evarness.core.event import Event
    from pytest_evarness.core.trace import Trace

REGISTRY = kernel_registry()


def ev(seq: int, name: str = "a") -> str:
    return json.dumps({"seq": seq, "type": name, "node_id": "n", "payload": {}})


def head(**fields: object) -> str:
    return json.dumps({"trace": 1, **fields})


def read(folder: Path, content: str | bytes) -> list[Trace]:
    path = folder / "t.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_traces(path)


def read_one(folder: Path, *lines: str) -> Trace:
    (trace,) = read(folder, "".join(line + "\n" for line in lines))
    return trace


# -- what a trace is -------------------------------------------------------------------------------


def test_a_header_starts_a_run_and_one_file_holds_many(tmp_path: Path) -> None:
    first, second, third = read(
        tmp_path,
        "\n".join([ev(0), head(run_id="b"), ev(0), ev(1), "", head(run_id="c", closed=True)]),
    )
    assert [trace.run_id for trace in (first, second, third)] == [None, "b", "c"]
    assert [len(trace.events) for trace in (first, second, third)] == [1, 2, 0]
    assert [trace.closed for trace in (first, second, third)] == [False, False, True]


def test_an_event_keeps_four_fields_and_leaves_timing_behind(tmp_path: Path) -> None:
    line = '{"seq":0,"type":"t","node_id":"n","payload":{"a":1},"ts":1.5,"pid":3,"trace":"otel"}'
    assert read_one(tmp_path, line).events == [
        {"seq": 0, "type": "t", "node_id": "n", "payload": {"a": 1}}
    ]


@pytest.mark.parametrize(
    ("declared", "last", "closed"),
    [
        (None, "run_finished", True),
        (None, "run_failed", True),
        (None, "run_paused", False),
        (None, "x", False),
        (True, "x", True),
        (False, "run_finished", False),
    ],
)
def test_without_closed_the_terminal_event_decides(
    tmp_path: Path, declared: bool | None, last: str, closed: bool
) -> None:
    header = head() if declared is None else head(closed=declared)
    trace = read_one(tmp_path, header, ev(0), ev(1, last))
    assert trace.closed is closed
    assert trace.open_cause is Cause.UNFINISHED_RUN


def test_coverage_is_what_the_sources_say_else_assumed_and_said(tmp_path: Path) -> None:
    sources = [{"id": "x", "types": ["a", "b"]}, {"id": "y", "types": ["c"], "gaps": []}]
    told = read_one(tmp_path, head(sources=sources), ev(0))
    assert told.coverage == frozenset("abc")
    assert not told.coverage_assumed
    for header in (head(sources=[{"id": "x"}, {"id": "y"}]), head()):
        silent = read_one(tmp_path, header, ev(0))
        assert (silent.coverage, silent.coverage_assumed) == (None, True)
    assert read_one(tmp_path, ev(0)).coverage_assumed


@pytest.mark.parametrize("silent", [{"id": "z"}, {"id": "z", "gaps": [[3, 4]]}])
@pytest.mark.parametrize("is_first", [True, False])
def test_one_silent_source_does_not_switch_off_what_the_others_say(
    tmp_path: Path, silent: dict[str, object], is_first: bool
) -> None:
    # With the silent source alone, the header is read: the next test shows it.
    told = {"id": "x", "types": ["a"]}
    sources = [silent, told] if is_first else [told, silent]
    with pytest.raises(InputError) as caught:
        read_one(tmp_path, head(sources=sources), ev(0))
    place = f"sources[{0 if is_first else 1}].types"
    assert f":1: {place}: does not say what it records (give them for" in str(caught.value)


@pytest.mark.parametrize("silent", [{"id": "z"}, {"id": "z", "gaps": [[3, 4]]}])
def test_sources_that_are_all_silent_are_read(tmp_path: Path, silent: dict[str, object]) -> None:
    assert read_one(tmp_path, head(sources=[silent]), ev(0)).coverage_assumed


@pytest.mark.parametrize("key", ["paylod", "nodeid", "node-id", "payloads", "Payload"])
def test_a_misspelt_field_of_an_event_is_not_left_behind(tmp_path: Path, key: str) -> None:
    name = "payload" if "ay" in key else "node_id"
    event = {**json.loads(ev(0)), key: "x"}
    assert len(read_one(tmp_path, json.dumps(event)).events) == 1  # beside the field: a recorder's
    del event[name]
    with pytest.raises(InputError) as caught:
        read_one(tmp_path, json.dumps(event))
    assert f":1: {key}: unknown key beside a missing '{name}' (got \"{key}\")" in str(caught.value)
    assert str(caught.value).endswith(f"try: write '{name}'")


@pytest.mark.parametrize("key", ["node", "model_id", "load", "ts"])
def test_another_key_of_a_recorder_is_left_behind_where_a_field_is_missing(
    tmp_path: Path, key: str
) -> None:
    line = json.dumps({"seq": 0, "type": "a", key: "x"})
    assert read_one(tmp_path, line).events[0]["node_id"] is None


def test_lost_repeated_and_late_events_are_evidence_not_errors(tmp_path: Path) -> None:
    sources = [{"id": "x", "types": ["a"], "gaps": [[9, 9], [3, 4]]}]
    trace = read_one(
        tmp_path,
        head(sources=sources),
        *(ev(seq) for seq in (1, 2, 2, 5, 3)),
        ev(6, "run_finished"),
        ev(7),
    )
    assert trace.gaps == ((0, 0), (3, 4), (9, 9))
    assert trace.faults == (
        "line 4: seq 2 is there twice",
        "line 6: seq falls from 5 to 3",
        "line 8: event 7 comes after the end of the run",
    )


def test_faults_are_bounded(tmp_path: Path) -> None:
    trace = read_one(tmp_path, *[ev(0)] * 100)
    assert len(trace.faults) == 21
    assert trace.faults[-1] == "and 79 more"


def test_a_sound_trace_has_neither_gaps_nor_faults(tmp_path: Path) -> None:
    trace = read_one(tmp_path, ev(0), ev(1), ev(2, "run_finished"))
    assert (trace.gaps, trace.faults, trace.closed) == ((), (), True)


# -- hostile files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"seq":0,"type":"a","payload":{"x":1,"x":2}}', 'a key stands there twice (got "x")'),
        ('{"seq":0,"seq":1,"type":"a"}', 'a key stands there twice (got "seq")'),
        ('{"seq":0,"type":"a","payload":NaN}', "a number that JSON does not have (got NaN"),
        ('{"seq":0,"type":"a","payload":-Infinity}', "a number that JSON does not have (got -Inf"),
        ('{"seq":0,"type":"a","payload":1e999}', "payload: a number that JSON does not have"),
        ('{"seq":0,"type":"a","payload":[9007199254740993]}', "payload[0]: an integer that JSON"),
        ('{"seq":0,"type":"a","payload":' + "1" * 5000 + "}", "not JSON (a number is too long)"),
        ('{"seq":0,"type":"a","payload":"\\ud800"}', "payload: a text with half a surrogate"),
        ("[" * 100_000, "nested too deeply (at most 100 levels)"),
        ('{"seq":0,"type":"a","payload":' + "[" * 101 + "]" * 101 + "}", "payload[0][0]: nested"),
        ("[]", "must be a mapping (got list []; a header or an event)"),
        ("null", "must be a mapping (got null null; a header or an event)"),
        ("{} {}", "not JSON (Extra data)"),
        ("{'a': 1}", "not JSON (Expecting property name"),
        ('{"type":"a"}', "seq: must be an integer from 0 (got null)"),
        ('{"seq":true,"type":"a"}', "seq: must be an integer from 0 (got true)"),
        ('{"seq":-1,"type":"a"}', "seq: must be an integer from 0 (got -1)"),
        ('{"seq":1.0,"type":"a"}', "seq: must be an integer from 0 (got 1.0)"),
        ('{"seq":0,"type":3}', "type: must be the name of a type (got 3)"),
        ('{"seq":0,"type":""}', 'type: must be the name of a type (got "")'),
        ('{"seq":0,"type":"a","node_id":1}', "node_id: must be a text or null (got 1)"),
        ('{"trace":2}', "trace: no such version of the trace form (got 2; 1)"),
        ('{"trace":true}', "trace: no such version of the trace form (got true; 1)"),
        ('{"trace":1,"clsoed":true}', 'clsoed: unknown key (got "clsoed"; known: trace, run_id'),
        ('{"trace":1,"closed":"yes"}', 'closed: must be true or false (got "yes")'),
        ('{"trace":1,"closed":null}', "closed: must be true or false (got null)"),
        ('{"trace":1,"case":null}', "case: must be a text (got null)"),
        ('{"trace":1,"run_id":1}', "run_id: must be a text (got 1)"),
        ('{"trace":1,"sources":null}', "sources: must be a list of sources (got null)"),
        ('{"trace":1,"sources":[{"id":"x","types":null}]}', "sources[0].types: must be a list"),
        ('{"trace":1,"sources":[{"id":"x","gaps":null}]}', "sources[0].gaps: must be a list"),
        ('{"trace":1,"sources":[]}', "sources: must be a list of sources (got [])"),
        ('{"trace":1,"sources":[1]}', "sources[0]: must be a mapping (got 1)"),
        ('{"trace":1,"sources":[{}]}', "sources[0].id: must be a text (got null)"),
        ('{"trace":1,"sources":[{"id":"x","type":[]}]}', "sources[0].type: unknown key"),
        ('{"trace":1,"sources":[{"id":"x","types":"a"}]}', "sources[0].types: must be a list"),
        ('{"trace":1,"sources":[{"id":"x","gaps":{}}]}', "sources[0].gaps: must be a list"),
        ('{"trace":1,"sources":[{"id":"x","gaps":[[2,1]]}]}', "sources[0].gaps[0]: must be a"),
        ('{"trace":1,"sources":[{"id":"x","gaps":[[0,true]]}]}', "sources[0].gaps[0]: must be a"),
    ],
)
def test_a_wrong_line_is_refused_with_its_place(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, f"{head()}\n{line}\n")
    assert str(caught.value).startswith(f"{tmp_path / 't.jsonl'}:2: {message}")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r":1: not UTF-8 \(byte 0 of the line\)"):
        read(tmp_path, b"\xff\xfe{}\n")


@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff"])
def test_a_file_without_a_run_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError, match=r"holds no run"):
        read(tmp_path, content)


def test_a_missing_file_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: cannot be read \(No such file"):
        read_traces(tmp_path / "nowhere")


def test_an_endless_line_is_refused_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 31)  # sparse: two gigabytes of NUL on no line
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=rf":1: a line is too long \(at most {MAX_LINE_BYTES}"):
        read_traces(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_escapes_of_whole_characters_and_large_floats_pass(tmp_path: Path) -> None:
    line = '{"seq":0,"type":"a","payload":["\\ud83d\\ude00", 1e22, 0.12345678901234567]}'
    assert read_one(tmp_path, line).events[0]["payload"] == ["😀", 1e22, 0.12345678901234567]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    try:
        (first, *_) = read(folder, ev(0).encode() + b"\n" + content)
    except InputError as told:
        assert re.search(r"t\.jsonl:[0-9]+: ", str(told))  # noqa: PT017 - either is right
    else:
        assert first.events[0]["seq"] == 0


def test_reading_is_fast_enough_for_long_traces(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(ev(seq) + "\n" for seq in range(20_000)), encoding="utf-8")
    traces = []
    assert calls_of(lambda: traces.extend(read_traces(path))) < 100 * 20_000
    assert len(traces[0].events) == 20_000


# -- run logs --------------------------------------------------------------------------------------


def logged(folder: Path, *types: str) -> Path:
    path = folder / "runs" / "log.jsonl"
    case = case_of(row(*types), REGISTRY)
    header = {"run_id": "c-a", "seal": "sha256:0", "case": case.digest, "environment": {"x": 1}}
    with RunLog(path, header) as log:
        execute(case, REGISTRY, log=log)
    return path


def test_a_run_log_is_a_trace_file_of_the_same_run(tmp_path: Path) -> None:
    path = logged(tmp_path, "t_input", "t_output")
    (trace,) = read_traces(path)
    run = execute(case_of(row("t_input", "t_output"), REGISTRY), REGISTRY)
    assert trace.events == [event.as_record() for event in run.events]
    assert trace.closed
    assert not trace.coverage_assumed
    assert trace.origin is not None
    assert trace.origin["environment"] == {"x": 1}


def test_a_log_that_was_cut_anywhere_reads_back_as_unfinished(tmp_path: Path) -> None:
    content = logged(tmp_path, "t_step").read_bytes()
    header_end = content.index(b"\n") + 1
    finished = 0
    for end in range(header_end, len(content) + 1):
        (trace,) = read(tmp_path, content[:end])
        is_whole = end >= len(content) - 1  # only the line's end is missing, or nothing
        assert trace.closed == is_whole
        assert (trace.faults, trace.gaps) == ((), ())
        finished += trace.closed
    assert finished == 2


def test_a_log_cut_inside_its_header_is_an_open_run(tmp_path: Path) -> None:
    (trace,) = read(tmp_path, logged(tmp_path, "t_step").read_bytes()[:20])
    assert (trace.closed, list(trace.events)) == (False, [])


def test_what_was_emitted_before_a_node_began_is_in_the_file_while_it_runs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.jsonl"
    lines: dict[str, int] = {}

    def look(event: Event) -> None:
        lines[event.type] = path.read_bytes().count(b"\n")

    with RunLog(path, {"case": "x"}) as log:
        assert path.read_text() == '{"case":"x","trace":1}\n'
        case = case_of(row("t_step"), REGISTRY)
        execute(case, REGISTRY, log=log, observers=[look])
    # Observers are called when the event has been written: header, run_started, node_started.
    assert lines["node_started"] == 3
    assert path.read_bytes().count(b"\n") == 1 + 4


def test_an_unknown_header_key_is_a_bug_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^unknown header key \(got \['sael'\]"):
        RunLog(tmp_path / "log.jsonl", {"sael": "x"})


def test_the_bound_on_lines_would_be_noticed_if_it_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracefile, "MAX_LINE_BYTES", 10)
    with pytest.raises(InputError, match=r"a line is too long \(at most 10 bytes\)"):
        read(tmp_path, ev(0))


STARTED = '{"seq": 0, "type": "run_started", "node_id": null, "payload": {}}'
FINISHED = '{"seq": 1, "type": "run_finished", "node_id": null, "payload": {}}'
OTHER = '{"seq": 1, "type": "custom.a", "node_id": null, "payload": {}}'
PAUSED = '{"seq": 1, "type": "run_paused", "node_id": null, "payload": {}}'


def held(tmp_path: Path, *lines: str) -> list[Trace]:
    file = tmp_path / "t.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return read_traces(file)


@pytest.mark.parametrize(
    ("header", "events", "closed"),
    [
        ('"closed": true, "events": 2', (STARTED, FINISHED), True),
        ('"closed": true, "events": 3', (STARTED, FINISHED), False),
        ('"closed": true', (STARTED, FINISHED), True),
        # A run that began and does not end was cut between two lines.
        ('"closed": true', (STARTED, OTHER), False),
        ('"closed": true', (STARTED,), False),
        ('"closed": true', (STARTED, PAUSED), True),
        # Where a recorder does not write the kernel's events, its word is all there is.
        ('"closed": true', (OTHER.replace("1", "0", 1),), True),
        ('"closed": true, "events": 2', (OTHER.replace("1", "0", 1),), False),
    ],
)
def test_a_run_that_lost_its_end_is_open(
    tmp_path: Path, header: str, events: tuple[str, ...], closed: bool
) -> None:
    (trace,) = held(tmp_path, f'{{"trace": 1, "run_id": "a", {header}}}', *events)
    assert trace.closed is closed
    assert trace.faults == ()


def test_more_events_than_the_header_says_are_a_fault(tmp_path: Path) -> None:
    header = '{"trace": 1, "closed": true, "events": 1}'
    (trace,) = held(tmp_path, header, STARTED, FINISHED)
    assert trace.faults == ("the header says 1 events (got 2)",)


@pytest.mark.parametrize("count", ["-1", "true", '"2"', "1.5"])
def test_a_count_is_a_count(tmp_path: Path, count: str) -> None:
    with pytest.raises(InputError, match=r"t\.jsonl:1: events: must be how many there are"):
        held(tmp_path, f'{{"trace": 1, "events": {count}}}', STARTED)


def test_a_run_is_told_once(tmp_path: Path) -> None:
    header = '{"trace": 1, "run_id": "a"}'
    with pytest.raises(InputError, match=r"t\.jsonl:4: run_id: the file holds two runs of one id"):
        held(tmp_path, header, STARTED, FINISHED, header, STARTED)
    traces = held(tmp_path, header, STARTED, FINISHED, '{"trace": 1, "run_id": "b"}', STARTED)
    assert len(traces) == 2

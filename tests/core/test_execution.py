"""A run is its events and nothing else: each end has its form, and no fault is swallowed."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from pytest_evarness.core import c1
from pytest_evarness.core.case import Budget, CompiledCase
from pytest_evarness.core.domain import PlainDomain
from pytest_evarness.core.event import Event, EventType
from pytest_evarness.core.execution import execute, list_indeterminism
from pytest_evarness.core.interfaces import (
    EnvironmentExhausted,
    NodeBlocked,
    RunPaused,
    ServiceDownError,
    UndecidedError,
)
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.reason import impersonal
from pytest_evarness.core.run import STATUSES, Run, trace_of
from pytest_evarness.errors import InputError
from tests.core import steps
from tests.core.building import (
    case_of,
    graph_of,
    kernel_registry,
    only,
    row,
    run_of,
    types_of,
)
from tests.effort import calls_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.interfaces import Context, NodeRun
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

REGISTRY = kernel_registry()

Inputs = "Mapping[str, list[Any]]"


def custom(run: NodeRun, **parts: Any) -> Run:
    """Run a user's own node between an input and an output."""
    registry = kernel_registry(mine=run)
    return run_of(row("t_input", "mine", "t_output"), registry, **parts)


def plain(run: NodeRun, **parts: Any) -> Run:
    """Run a node of a domain between an input and an output."""
    registry = kernel_registry()
    steps.add_type(registry, "mine", run)
    return run_of(row("t_input", "mine", "t_output"), registry, **parts)


# -- how a run ends --------------------------------------------------------------------------------


def test_a_completed_run_has_all_its_events_in_order() -> None:
    run = run_of(row("t_input", "t_step", "t_output"), REGISTRY, environment={"user_input": "hi"})
    assert run.status == "completed"
    assert run.complete
    assert types_of(run) == [
        "run_started",
        *["node_started", "node_finished"] * 3,
        "run_finished",
    ]
    assert [event.node_id for event in run.events] == [
        None,
        *("n0", "n0", "n1", "n1", "n2", "n2"),
        None,
    ]
    assert run.events[0].payload == {
        "fixture": "f",
        "seed": 42,
        "provider": "sim:helpful-v1",
        "deterministic": True,
        "input": "hi",
    }
    assert run.events[1].payload == {"type": "t_input"}
    assert run.events[-1].payload == {
        "total_tokens": 0,
        "events": 8,
        "cost_usd": 0.0,
        "deterministic": True,
        "output": {"text": "1", "tokens": 1, "digest": c1.sha256_text("1")},
    }
    assert run.output == "1"


def test_a_run_without_an_output_node_has_none() -> None:
    run = run_of(row("t_step"), REGISTRY)
    assert run.output is None
    assert only(run, "run_finished").payload["output"] is None


def test_an_empty_output_is_an_output() -> None:
    run = run_of(row(("t_step", {"value": []}), "t_output"), REGISTRY)
    assert run.output == ""


@pytest.mark.parametrize(
    ("kind", "status", "ending"),
    [
        ("t_pause", "paused", ["run_paused"]),
        ("t_block", "blocked", ["policy_violation", "run_failed"]),
        ("t_exhaust", "unscripted", ["script_exhausted"]),
        ("t_crash", "failed", ["engine_error", "run_failed"]),
        ("t_custom_crash", "failed", ["engine_error", "run_failed"]),
    ],
)
def test_what_a_node_raises_decides_how_the_run_ends(
    kind: str, status: str, ending: list[str]
) -> None:
    run = run_of(row("t_step", kind, "t_step"), REGISTRY)
    assert run.status == status
    assert types_of(run) == [
        "run_started",
        "node_started",
        "node_finished",
        "node_started",
        *ending,
    ]
    assert run.complete == (status != "unscripted")
    for event in run.events[4:]:
        is_of_the_run = event.type in ("run_paused", "run_failed")
        assert event.node_id == (None if is_of_the_run else "n1")
    if "events" in run.events[-1].payload:
        assert run.events[-1].payload["events"] == len(run.events)


def test_a_pause_names_its_node_and_prompt() -> None:
    run = run_of(row("t_pause"), REGISTRY)
    assert run.pending == {"node": "n0", "prompt": "May it go on?"}
    assert only(run, "run_paused").payload == {
        "prompt": "May it go on?",
        "preview": "a preview",
        "total_tokens": 0,
        "events": 3,
    }


def test_an_exhausted_script_says_what_was_scripted_and_called() -> None:
    run = run_of(row("t_exhaust"), REGISTRY)
    assert only(run, "script_exhausted").payload == {"script": "llm", "scripted": 1, "call": 2}
    assert run.error == "1 response scripted, call 2 made, script llm"


def test_a_crash_names_type_and_message_and_nothing_of_this_machine() -> None:
    run = run_of(row("t_crash"), REGISTRY)
    reason = only(run, "engine_error").payload["reason"]
    assert reason == "RuntimeError: at <object object at 0x…> in <path>"
    assert only(run, "run_failed").payload["reason"] == reason
    assert run.error == reason


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[Errno 2] No such file: '/tmp/a b/c.txt'", "[Errno 2] No such file: '<path>'"),
        ('File "/x/y.py", line 3', 'File "<path>", line 3'),
        ("in /usr/lib/x.py: no", "in <path>: no"),
        ("(/a/b)", "(<path>)"),
        (r"C:\Users\me\x.txt is gone", "<path> is gone"),
        ("see https://host/a/b?c", "see https://host/a/b?c"),
        ("and/or, 1/2, text/plain, a/b.txt", "and/or, 1/2, text/plain, a/b.txt"),
        ("<a.B object at 0x7F00ab>", "<a.B object at 0x…>"),
    ],
)
def test_addresses_and_absolute_paths_go_and_the_rest_stays(written: str, shown: str) -> None:
    assert impersonal(written) == shown


def test_a_message_that_cannot_be_written_or_encoded_is_still_an_end() -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise ValueError("no message")

    def odd(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        raise OddError

    def half(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        raise ValueError("\ud800")

    assert plain(odd).error == "OddError: a message that cannot be written"
    assert plain(half).error == "ValueError: \\ud800"


class _No(NodeBlocked):
    """Its author forgot super().__init__."""

    def __init__(self) -> None:
        pass


class _Silent:
    def __str__(self) -> str:
        raise SystemExit(3)


class _FullDiskError(OSError):
    errno = property(lambda self: 1 / 0)


class _LoudError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


_ODD: list[tuple[BaseException, str]] = [
    (_No(), "_No: it was raised without its 'reason' (does its class call super().__init__?)"),
    (NodeBlocked(cast("Any", _Silent())), "NodeBlocked: its 'reason' must be a text (got _Silent)"),
    (RunPaused("p", cast("Any", None)), "RunPaused: its 'preview' must be a text (got None)"),
    (
        EnvironmentExhausted("llm", 1, cast("Any", float("nan"))),
        "EnvironmentExhausted: its 'call' must be a number from 1 (got nan)",
    ),
    (
        EnvironmentExhausted("llm", 10**400, 1),
        "EnvironmentExhausted: its 'scripted' must be a number from 0 (got int)",
    ),
    (
        EnvironmentExhausted(cast("Any", None), 1, 1),
        "EnvironmentExhausted: its 'script' must be a text (got None)",
    ),
    (
        ServiceDownError(cast("Any", []), "x"),
        "ServiceDownError: its 'service' must be a text (got list)",
    ),
    (_FullDiskError("x"), "_FullDiskError: x"),
    (_LoudError(), "_LoudError: a message that cannot be written"),
]


@pytest.mark.parametrize(("error", "reason"), _ODD, ids=lambda value: type(value).__name__)
def test_an_odd_exception_of_a_node_is_its_crash(error: BaseException, reason: str) -> None:
    def odd(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        raise error

    for run in (plain(odd), custom(odd)):
        assert (run.status, run.error) == ("failed", reason)


def test_half_a_surrogate_pair_in_the_news_of_a_node_is_written_as_an_escape() -> None:
    def exhausted(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        raise EnvironmentExhausted("x\ud800", 1, 2, "why \udfff")

    def blocked(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        raise NodeBlocked("no \ud800")

    assert only(plain(exhausted), "script_exhausted").payload == {
        "script": "x\\ud800",
        "scripted": 1,
        "call": 2,
        "detail": "why \\udfff",
    }
    assert only(custom(blocked), "policy_violation").payload["reason"] == "no \\ud800"


def test_a_base_exception_of_a_test_tool_is_a_crash_too() -> None:
    def skip(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        pytest.fail("as if the test itself had")

    assert plain(skip).status == "failed"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_wish_to_stop_the_program_is_never_caught(kind: type[BaseException]) -> None:
    def stop(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        raise kind

    for run in (plain, custom):
        with pytest.raises(kind):
            run(stop)


class _Unlisted(dict[str, Any]):
    def __iter__(self) -> Iterator[str]:
        raise ZeroDivisionError("division by zero")


class _Endless(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("no list")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "TypeError: mine must return a mapping by port (got NoneType)"),
        ([1], "TypeError: mine must return a mapping by port (got list)"),
        ({"uot": 1}, "TypeError: mine has no output port 'uot' (ports: out)"),
        ({"/tmp/x 0xAF": 1}, "TypeError: mine has no output port '<path>' (ports: out)"),
        ({object(): 1}, "TypeError: mine has no output port object (ports: out)"),
        (_Unlisted(), "ZeroDivisionError: division by zero"),
        ({"out": _Endless([1])}, "RuntimeError: no list"),
    ],
)
def test_a_node_that_returns_something_else_has_crashed(result: Any, message: str) -> None:
    assert plain(lambda inputs, config, context: result).error == message


# -- inputs ----------------------------------------------------------------------------------------


def test_several_edges_into_a_port_merge_flat_by_port_then_source() -> None:
    seen: dict[str, Any] = {}

    def look(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        seen.update(inputs)
        return {"out": None}

    registry = kernel_registry()
    steps.add_type(registry, "look", look, inputs=("in", "more", "idle"))
    values = {"b": [1, 2], "a": "x", "c": {"k": [3]}, "d": []}
    document = {
        "id": "g",
        "nodes": [
            *({"id": name, "type": "t_step", "config": {"value": v}} for name, v in values.items()),
            {"id": "z", "type": "look"},
        ],
        "edges": [
            {"from": "c", "to": "z"},
            {"from": "b", "to": "z"},
            {"from": "d", "to": "z"},
            {"from": "a", "to": "z"},
            {"from": "a", "to": "z", "to_port": "more"},
        ],
    }
    assert run_of(document, registry).status == "completed"
    assert seen == {"in": ["x", 1, 2, {"k": [3]}], "more": ["x"], "idle": []}


# -- digests and records ---------------------------------------------------------------------------


def test_digests_are_those_of_the_event_texts() -> None:
    run = run_of(row("t_input", "t_output"), REGISTRY)
    assert (run.trace_digest, run.chain_digest) == c1.digests([event.text for event in run.events])
    for event in run.events:
        assert event.text == c1.event_text(event.seq, event.type, event.node_id, event.payload)


def test_fifty_runs_give_one_digest_and_wall_time_is_not_in_it() -> None:
    runs = [run_of(row("t_input", "t_step", "t_output"), REGISTRY) for _ in range(50)]
    assert len({run.trace_digest for run in runs}) == 1
    assert len({tuple(event.ts for event in run.events) for run in runs}) > 1


def test_another_seed_input_or_schedule_is_another_run() -> None:
    document = {"id": "g", "nodes": [{"id": name, "type": "t_step"} for name in "abc"]}
    digests = {
        run_of(document, REGISTRY, **parts).trace_digest
        for parts in (
            {},
            {"seed": 1},
            {"environment": {"user_input": "x"}},
            {"schedule": "reverse"},
            {"schedule": "seed:1"},
            {"policy_revision": "r2"},
        )
    }
    assert len(digests) == 6


def test_the_schedule_is_told_only_where_it_is_not_canonical() -> None:
    document = {"id": "g", "nodes": [{"id": name, "type": "t_step"} for name in "abc"]}
    assert "schedule" not in run_of(document, REGISTRY).events[0].payload
    run = run_of(document, REGISTRY, schedule="reverse", policy_revision="r1")
    assert run.events[0].payload["schedule"] == "reverse"
    assert run.events[0].payload["policy_revision"] == "r1"
    assert [event.node_id for event in run.events if event.type == "node_started"] == [
        "c",
        "b",
        "a",
    ]


@pytest.mark.parametrize("kind", ["t_step", "t_pause", "t_exhaust", "t_crash", "t_constant"])
def test_a_record_is_exactly_json_and_reads_back(kind: str) -> None:
    run = run_of(row(kind), REGISTRY)
    assert Run.from_record(json.loads(json.dumps(run.as_record()))) == run


def test_what_nobody_asks_for_is_not_read() -> None:
    record: Any = run_of(row("t_step"), REGISTRY).as_record()
    record["events"][1] = "no event"
    run = Run.from_record(record)
    assert len(run.events) == len(run.texts) == 4
    assert run.texts[1] == "no event"
    with pytest.raises(ValueError, match="Expecting value"):
        run.events[0]


def test_events_that_came_over_are_the_events_that_went() -> None:
    sent = run_of(row("t_step"), REGISTRY)
    came = Run.from_record(json.loads(json.dumps(sent.as_record())))
    assert came.texts == sent.texts
    assert (came.events[-1], list(came.events[1:3])) == (sent.events[-1], sent.events[1:3])
    assert came.as_record() == sent.as_record()
    assert came.trace().events == sent.trace().events
    other = run_of(row("t_constant"), REGISTRY)
    assert came.events != other.events


def test_each_event_that_comes_over_has_its_time() -> None:
    record: Any = run_of(row("t_step"), REGISTRY).as_record()
    del record["times"][0]
    with pytest.raises(ValueError, match=r"^a time for each event \(got 3 for 4\)"):
        Run.from_record(record)


@pytest.mark.parametrize("status", STATUSES)
def test_only_a_run_that_ended_gives_a_closed_trace(status: str) -> None:
    events = [{"seq": 0, "type": "run_started", "node_id": None, "payload": {}}]
    trace = trace_of(status, events)
    assert trace.closed == (status in ("completed", "blocked", "failed"))
    assert trace_of(status, events, pause_is_end=True).closed == (
        trace.closed or status == "paused"
    )
    expected = {"unscripted": Cause.MISSING_EVIDENCE, "unfinished": Cause.EVALUATOR_ERROR}
    assert trace.open_cause is expected.get(status, Cause.UNFINISHED_RUN)


def test_the_world_is_empty_and_has_a_digest() -> None:
    run = run_of(row("t_step"), REGISTRY)
    assert (run.world_text, run.world_digest) == ("{}", c1.sha256_text("{}"))


# -- emission --------------------------------------------------------------------------------------


def test_an_event_is_frozen_when_it_is_emitted() -> None:
    payload: dict[str, Any] = {"list": [1]}

    def mutate(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        context.emit("custom.a", payload)
        payload["list"].append(2)
        for event in context.events():
            event["payload"]["hacked"] = True
        return {"out": 1}

    run = custom(mutate)
    assert only(run, "custom.a").payload == {"list": [1]}
    assert "hacked" not in json.dumps(run.as_record())


def test_what_has_no_canonical_form_ends_the_run_with_its_path() -> None:
    def emit(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        context.emit("custom.a", {"args": [float("nan")]})
        return {"out": 1}

    assert custom(emit).error == (
        "DeterminismError: payload.args[0]: a number that JSON does not have (got nan; finite)"
    )


def refusal(run: Any, name: Any, payload: Any = None, **more: Any) -> str | None:
    def emit(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        context.emit(name, {} if payload is None else payload, **more)
        return {"out": 1}

    error: str | None = run(emit).error
    return error


def test_a_custom_node_emits_only_its_own_kind_of_events() -> None:
    assert refusal(custom, "custom.fine") is None
    message = "ValueError: {}: a custom node emits only types called custom.NAME"
    for name in ("run_finished", "node_started", "budget_breached", "tool_called", "custom."):
        assert refusal(custom, name) == message.format(name)
    other = "ValueError: custom.a: a custom node emits only in its own name"
    assert refusal(custom, "custom.a", node_id="n0") == other
    assert refusal(custom, "custom.a", node_id=None) == other
    assert refusal(custom, "custom.a", node_id="n1") is None


def test_a_domain_node_emits_registered_types_but_none_of_the_kernel() -> None:
    message = "ValueError: nonsense: no such event type (register it, or call it custom.NAME)"
    assert refusal(plain, "nonsense") == message
    for name in ("run_started", "run_finished", "policy_violation", "engine_error", "run_failed"):
        assert refusal(plain, name) == f"ValueError: {name}: only the kernel emits this type"
    assert refusal(plain, "budget_breached", {"budget": "tokens", "limit": 3}) is None
    assert refusal(plain, "custom.a") is None


def test_a_payload_is_a_mapping_and_a_type_is_a_text() -> None:
    expected = "TypeError: custom.a: the payload must be a mapping (got list)"
    assert refusal(custom, "custom.a", [1]) == expected
    assert refusal(custom, 3) == "TypeError: an event type must be a text (got int)"


def test_a_node_that_kept_its_context_cannot_emit_later() -> None:
    kept: list[Context] = []

    def keep(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        if kept:
            kept[0].emit("custom.late", {})
        kept.append(context)
        return {"out": 1}

    registry = kernel_registry(keep=keep)
    run = run_of(row("keep", "keep"), registry)
    assert run.error == "ValueError: custom.late: node 'n0' does not run any more"
    with pytest.raises(ValueError, match=r"^custom.late: node 'n0' does not run any more"):
        kept[0].emit("custom.late", {})


def test_a_long_text_is_cut_and_its_digest_is_of_the_whole() -> None:
    long = "é" * 3000
    run = run_of(
        row(("t_step", {"value": long}), "t_output"), REGISTRY, environment={"user_input": long}
    )
    started, output = run.events[0].payload, run.events[-1].payload["output"]
    assert started["input"] == "é" * 2048
    assert started["truncated"] is True
    assert output == {
        "text": "é" * 2048,
        "tokens": 750,
        "digest": c1.sha256_text(long),
        "truncated": True,
    }
    assert run.output == long


def test_a_breaking_log_or_observer_is_told_to_the_caller_and_not_to_the_trace() -> None:
    def broken(event: Event) -> None:
        if event.type == "node_started":
            raise OSError(28, "No space left on device")

    case = case_of(row("t_constant"), REGISTRY)
    with pytest.raises(OSError, match="No space left"):
        execute(case, REGISTRY, observers=[broken])


def test_observers_see_each_event_once() -> None:
    seen: list[int] = []
    case = case_of(row("t_step"), REGISTRY)
    run = execute(case, REGISTRY, observers=[lambda event: seen.append(event.seq)])
    assert seen == [event.seq for event in run.events]


# -- budgets ---------------------------------------------------------------------------------------


def test_a_used_up_event_budget_blocks() -> None:
    run = run_of(row("t_step", "t_step"), REGISTRY, budget={"events": 4})
    assert run.status == "blocked"
    assert types_of(run)[4:] == ["budget_breached", "policy_violation", "run_failed"]
    assert only(run, "budget_breached").payload == {"budget": "events", "limit": 4}
    assert only(run, "run_failed").payload["reason"] == "budget.events of 4 is used up"


def test_a_budget_that_is_met_exactly_is_not_breached() -> None:
    assert run_of(row("t_step", "t_step"), REGISTRY, budget={"events": 6}).status == "completed"
    assert run_of(row("t_step", "t_step"), REGISTRY, budget={"events": 5}).status == "blocked"


def test_a_node_cannot_swallow_a_used_up_budget() -> None:
    def greedy(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        for _ in range(20):
            try:
                context.emit("custom.more", {})
            except BaseException:  # noqa: BLE001 - that is the point
                continue
        return {"out": 1}

    run = custom(greedy, budget={"events": 8})
    assert run.status == "blocked"
    assert types_of(run).count("custom.more") == 4


def test_turns_of_loops_are_bounded_by_default_and_by_the_budget() -> None:
    def loop(inputs: Any, config: Any, context: Any) -> Mapping[str, Any]:
        for _ in range(config["turns"]):
            context.turn()
        return {"out": 1}

    registry = kernel_registry()
    steps.add_type(registry, "loop", loop, is_loop=True)

    def status(turns: int, **parts: Any) -> str:
        document = row(("loop", {"turns": turns}), ("loop", {"turns": turns}))
        return run_of(document, registry, **parts).status

    assert status(5) == "completed"  # max_loops 5, two loop nodes
    assert status(6) == "blocked"
    assert status(6, budget={"loops": 12}) == "completed"
    assert status(6, budget={"loops": 11}) == "blocked"


@pytest.mark.parametrize("kind", ["t_sleep", "t_stubborn"])
def test_a_node_that_never_returns_is_stopped_and_the_run_is_unfinished(kind: str) -> None:
    run = run_of(row("t_step", kind), REGISTRY, budget={"seconds": 0.1})
    assert run.status == "unfinished"
    assert not run.complete
    assert types_of(run)[-1] == "node_started"
    assert run.error == "budget.seconds: 0.1 s were up while node n1 ran"
    assert run.trace().open_cause is Cause.EVALUATOR_ERROR


@pytest.mark.parametrize(
    ("number", "status"), [(errno.ENOSPC, "unfinished"), (errno.ENOENT, "failed")]
)
def test_a_full_disk_says_nothing_of_the_harness(number: int, status: str) -> None:
    def write(inputs: Any, config: Any, context: Context) -> Any:
        raise OSError(number, os.strerror(number))

    run = custom(write)
    assert run.status == status
    assert run.complete is (status == "failed")
    assert os.strerror(number) in (run.error or "")


@pytest.mark.parametrize("is_custom", [False, True])
def test_what_was_not_found_out_says_nothing_of_the_harness(is_custom: bool) -> None:
    def search(inputs: Any, config: Any, context: Context) -> Any:
        raise UndecidedError("the pattern took longer than 1 s")

    registry = kernel_registry()
    steps.add_type(registry, "search", search, traits=("custom",) if is_custom else ())
    run = run_of(row("search"), registry)
    # A step of the user's own cannot talk its way out of a failure.
    assert run.status == ("failed" if is_custom else "unfinished")
    assert run.complete is is_custom
    assert "the pattern took longer than 1 s" in (run.error or "")
    if not is_custom:
        assert run.trace().open_cause is Cause.EVALUATOR_ERROR


# -- nothing leaks from run to run -----------------------------------------------------------------


def test_a_run_cannot_change_what_the_next_one_is_given() -> None:
    def spoil(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        environment: Any = context.environment
        overlays: Any = context.overlays
        params: Any = context.params
        seen = [len(environment["list"]), len(overlays["o"]), len(params), len(config["items"])]
        for target in (environment["list"], overlays["o"], config["items"]):
            target.append("spoilt")
        params["spoilt"] = True
        context.emit("custom.seen", {"seen": seen})
        return {"out": 1}

    for is_custom in (True, False):
        registry = kernel_registry()
        traits = ("custom",) if is_custom else ()
        steps.add_type(registry, "spoil", spoil, traits=traits)
        case = case_of(
            row(("spoil", {"items": []})),
            registry,
            environment={"list": [], "params": {}},
            overlays={"o": []},
        )
        before = case.text
        runs = [execute(case, registry) for _ in range(3)]
        assert len({run.trace_digest for run in runs}) == 1
        assert only(runs[0], "custom.seen").payload == {"seen": [0, 0, 0, 0]}
        assert CompiledCase.from_texts(
            before, case.graph_text, case.overlays_text, registry
        ).environment == {"list": [], "params": {}}


@dataclass(frozen=True)
class Holder:
    value: Any


class Model:
    """As much of a frozen model as the kernel looks at."""

    model_config: ClassVar = {"frozen": True}

    def __init__(self, value: Any) -> None:
        self.value = value


class LooseModel(Model):
    model_config: ClassVar = {"frozen": False}


@pytest.mark.parametrize(
    ("parsed", "is_shared"),
    [
        (None, True),
        (("a", 1, frozenset({2})), True),
        (Holder("x"), True),
        (Holder([1]), False),
        (Model(("x",)), True),
        (Model({}), False),
        (LooseModel("x"), False),
        ({}, False),
        (([],), False),
    ],
)
def test_only_a_configuration_that_cannot_be_changed_is_shared_between_runs(
    parsed: Any, is_shared: bool
) -> None:
    seen: list[Any] = []

    def look(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        seen.append(config)
        return {"out": 1}

    registry = kernel_registry()
    template = registry.node_types.resolve("t_step")
    parse: Any = lambda config: (parsed, [])  # noqa: E731 - a stub
    registry.node_types.register(
        "look", replace(template, name="look", run=look, parse_config=parse)
    )
    case = case_of(row("look"), registry)
    for _ in range(2):
        execute(case, registry)
    assert [config is parsed for config in seen] == [is_shared] * 2


def test_a_custom_node_reaches_neither_the_state_of_a_domain_nor_what_others_read() -> None:
    registry = kernel_registry()
    seen: list[Any] = []

    def spoil(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        environment: Any = context.environment
        environment["approvals"] = {"n9": "approve"}
        node: Any = context.graph.nodes["n1"]
        node.config["value"] = "spoilt"
        inputs["in"][0]["k"] = "spoilt"
        with pytest.raises(ValueError, match=r"^a custom node has no state of a domain"):
            context.state("agents")
        return {"out": 1}

    def look(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        seen.extend([dict(context.environment), dict(config), inputs])
        return {"out": 1}

    steps.add_type(registry, "spoil", spoil, traits=("custom",))
    steps.add_type(registry, "look", look)
    document = row(("t_step", {"value": {"k": 1}}), ("look", {}))
    document["nodes"].append({"id": "n05", "type": "spoil"})
    document["edges"].append({"from": "n0", "to": "n05"})
    assert run_of(document, registry, environment={}).status == "completed"
    assert seen == [{}, {}, {"in": [{"k": 1}]}]


def strange(run: Any, *, start: Any = None) -> tuple[Registry, dict[str, Any], list[Any]]:
    """A graph with a stranger's node of a domain of its own before one of ours."""
    registry, _ = scripted()
    seen: list[Any] = []

    def look(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        seen.extend([dict(context.environment), dict(context.overlays), inputs["in"][0]])
        seen.append(list(context.state("scripted")))
        return {"out": 1}

    class Own(Scripted):
        name = "own"

        def start(self, context: Context) -> Any:
            if start is not None:
                start(context)
            return super().start(context)

    def register(registry: Registry) -> None:
        registry.domains.register("own", Own())
        steps.add_type(registry, "strange", run)

    steps.add_type(registry, "look", look)
    registry.load("stranger", lambda: register)
    assert registry.broken == []
    document = row(("t_step", {"value": {"k": 1}}), ("look", {}))
    document["nodes"].append({"id": "n05", "type": "strange"})
    document["edges"].append({"from": "n0", "to": "n05"})
    return registry, document, seen


UNSPOILT = [{"asked": []}, {"tools": {"pay": {"safety": "high"}}}, {"k": 1}, ["first", "second"]]


def run_strange(made: tuple[Registry, dict[str, Any], list[Any]]) -> Any:
    registry, document, _ = made
    overlays = {"tools": {"pay": {"safety": "high"}}}
    return run_of(document, registry, environment={"asked": []}, overlays=overlays)


def test_a_strangers_node_reaches_nothing_that_decides_of_others() -> None:
    def spoil(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        environment: Any = context.environment
        overlays: Any = context.overlays
        environment["asked"].append("spoilt")
        overlays["tools"]["pay"]["safety"] = "none"
        context.graph.nodes["n1"].config["value"] = "spoilt"  # type: ignore[index]
        inputs["in"][0]["k"] = "spoilt"
        context.state("own").pop()
        with pytest.raises(
            ValueError, match=r"^plug-in 'stranger' has no state of another's domain"
        ):
            context.state("scripted")
        return {"out": 1}

    made = strange(spoil)
    assert run_strange(made).status == "completed"
    assert made[2] == UNSPOILT


def test_neither_does_its_domain_when_it_starts() -> None:
    kept: list[Any] = []

    def start(context: Context) -> None:
        overlays: Any = context.overlays
        overlays["tools"]["pay"]["safety"] = "none"
        with pytest.raises(ValueError, match=r"^plug-in 'stranger' has no state of another's"):
            context.state("scripted")
        kept.append(context)

    def own(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        context.state("own")
        kept[0].emit("custom.mine", {})
        return {"out": 1}

    made = strange(own, start=start)
    registry, document, seen = made

    def speak(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        with pytest.raises(ValueError, match=r"plug-in 'stranger' does not speak for another's"):
            kept[0].emit("asked", {"answer": "yes"})
        return {"out": 1}

    steps.add_type(registry, "speak", speak)
    document["nodes"].append({"id": "n2", "type": "speak"})
    document["edges"].append({"from": "n05", "to": "n2"})
    run = run_strange(made)
    assert run.status == "completed", run.error
    assert seen == UNSPOILT
    assert only(run, "custom.mine").node_id == "n05"


def test_the_seeded_generator_repeats_and_differs_by_seed() -> None:
    def draw(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        context.emit("custom.drawn", {"value": context.random.random()})
        return {"out": 1}

    digests = [custom(draw, seed=seed).trace_digest for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_the_clock_starts_where_the_environment_says() -> None:
    def look(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        context.clock.advance_ms(250)
        context.emit("custom.seen", {"at": context.clock.iso(), "ms": context.clock.now_ms})
        return {"out": 1}

    run = custom(look, environment={"clock": "2030-05-01T00:00:00Z"})
    assert only(run, "custom.seen").payload == {"at": "2030-05-01T00:00:00.250Z", "ms": 250}


# -- what is refused before a run ------------------------------------------------------------------


def test_a_graph_that_lint_refuses_does_not_run() -> None:
    document = row("t_step", "t_step")
    document["edges"].append({"from": "n1", "to": "n0"})
    with pytest.raises(InputError, match=r"nodes wait for each other"):
        run_of(document, REGISTRY)
    with pytest.raises(InputError, match=r"^graph g: unknown node type \(got 't_stpe'"):
        run_of(row("t_stpe"), REGISTRY)


def test_a_secret_without_a_value_does_not_run() -> None:
    case = case_of(row("t_step"), REGISTRY, secrets=("PAY",))
    with pytest.raises(InputError, match=r"^secrets: no value was handed over .*'PAY'"):
        execute(case, REGISTRY)


# -- domains ---------------------------------------------------------------------------------------


class Scripted(PlainDomain):
    """As much of a domain as a run asks for."""

    name = "scripted"

    def __init__(self) -> None:
        self.starts = 0

    def start(self, context: Context) -> Any:
        self.starts += 1
        return ["first", "second"]

    def leftovers(self, state: Any) -> list[str]:
        return [f"{answer} was not asked for" for answer in state]


ASKED: Any = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "additionalProperties": False,
}


def scripted() -> tuple[Registry, Scripted]:
    def ask(inputs: Any, config: Any, context: Context) -> Mapping[str, Any]:
        context.emit("asked", {"answer": context.state("scripted").pop(0)})
        return {"out": 1}

    registry = kernel_registry()
    registry.event_types.register("asked", EventType("asked", ASKED, "x", "scripted"))
    steps.add_type(registry, "ask", ask)
    domain = Scripted()
    registry.domains.register("scripted", domain)
    return registry, domain


def test_a_domain_starts_afresh_for_each_run_and_tells_what_is_left() -> None:
    registry, domain = scripted()
    for count in (1, 2):
        run = run_of(row("ask"), registry)
        assert run.leftovers == ["second was not asked for"]
        assert domain.starts == count
    assert run_of(row("ask", "ask"), registry).leftovers == []
    assert run_of(row("t_step"), registry).leftovers == [
        "first was not asked for",
        "second was not asked for",
    ]


def test_inspectors_decide_whether_a_run_calls_itself_deterministic() -> None:
    registry = kernel_registry()
    assert list_indeterminism(graph_of(row("t_step"), registry), {}, registry) == []

    @registry.inspector("b-live")
    def _live(graph: Graph, environment: JsonObject) -> list[str]:
        return ["it is live"] if environment.get("live") else []

    assert run_of(row("t_step"), registry).events[0].payload["deterministic"] is True
    run = run_of(row("t_step"), registry, environment={"live": 1})
    assert run.events[0].payload["deterministic"] is False
    assert only(run, "run_finished").payload["deterministic"] is False

    @registry.inspector("a-broken")
    def _broken(graph: Graph, environment: JsonObject) -> list[str]:
        raise RuntimeError

    assert list_indeterminism(graph_of(row("t_step"), registry), {"live": 1}, registry) == [
        "inspector a-broken could not decide (RuntimeError)",
        "it is live",
    ]


def test_an_inspector_changes_nothing_of_the_run_that_it_looks_at() -> None:
    registry = kernel_registry()

    @registry.inspector("a-meddler")
    def _meddle(graph: Graph, environment: JsonObject) -> list[str]:
        cast("Any", environment)["user_input"] = "CHANGED"
        return []

    @registry.inspector("b-witness")
    def _look(graph: Graph, environment: JsonObject) -> list[str]:
        return [] if environment["user_input"] == "said" else ["it was changed"]

    run = run_of(row("t_input", "t_output"), registry, environment={"user_input": "said"})
    started = run.events[0].payload
    assert (started["input"], started["deterministic"], run.output) == ("said", True, "said")


# -- size ------------------------------------------------------------------------------------------


def test_a_long_chain_and_a_dense_graph_run_in_few_steps() -> None:
    chain = case_of(row(*["t_step"] * 5000), REGISTRY, budget=Budget(events=20_000))
    document = row(*["t_step"] * 220)
    document["edges"] = [
        {"from": f"n{left}", "to": f"n{right}"}
        for left in range(220)
        for right in range(left + 1, 220)
    ]
    dense = case_of(document, REGISTRY)
    for case, events in ((chain, 10_002), (dense, 442)):
        runs: list[Run] = []
        work = calls_of(lambda case=case, runs=runs: runs.append(execute(case, REGISTRY)))  # type: ignore[misc]
        assert work < 150 * events + 20 * 24_090  # of events, and of edges
        (run,) = runs
        assert (run.status, len(run.events)) == ("completed", events)

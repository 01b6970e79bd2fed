"""A contract says of its corpus what it has to say before it judges; a corpus that tests nothing is
refused."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.contract.corpus import (
    Corpus,
    closed_events,
    evaluate_corpus,
    lacking,
    parse_corpus,
    trace_of,
)
from pytest_evarness.contract.model import Contract, parse_contract
from pytest_evarness.core.event import EventType
from pytest_evarness.core.registry import Registry, packaged_registry

REGISTRY = packaged_registry()
ORDER = {
    "precedes": {
        "first": {"type": "approval_granted", "where": {"artifact_digest": "$d"}},
        "second": {
            "type": "tool_called",
            "where": {"tool": "email.send"},
            "bind": {"d": "args_digest"},
        },
        "fresh": True,
    }
}
GRANTED = {"type": "approval_granted", "node": "n3", "artifact_digest": "d1"}
SENT = {"type": "tool_called", "node": "n4", "tool": "email.send", "args_digest": "d1"}
OTHER = {**SENT, "args_digest": "d2"}


def corpus(value: Any) -> Corpus:
    found, faults = parse_corpus(value, REGISTRY)
    assert found is not None, faults
    return found


def contract(body: Any = ORDER, **more: Any) -> Contract:
    found, faults = parse_contract("c", {"assert": body, **more}, registry=REGISTRY)
    assert found is not None, faults
    return found


def problems(value: Any, body: Any = ORDER, **more: Any) -> list[str | None]:
    results = evaluate_corpus(contract(body, **more), corpus(value), REGISTRY)
    return [one.problem for one in results]


# -- events --------------------------------------------------------------------------------------


def events(*written: Any, **more: Any) -> list[Any]:
    (entry,) = corpus({"negative": {"x": {"events": list(written), **more}}}).entries
    return [dict(event) for event in closed_events(entry)]


def test_the_short_form_puts_other_keys_into_the_payload_and_supplies_seq_and_end() -> None:
    assert events(GRANTED) == [
        {
            "seq": 0,
            "type": "approval_granted",
            "node_id": "n3",
            "payload": {"artifact_digest": "d1"},
        },
        {"seq": 1, "type": "run_finished", "node_id": None, "payload": {}},
    ]


def test_a_payload_key_of_a_reserved_name_is_written_under_payload() -> None:
    (start, _) = events({"type": "node_started", "node": "n1", "payload": {"type": "output"}})
    assert (start["type"], start["node_id"], start["payload"]) == (
        "node_started",
        "n1",
        {"type": "output"},
    )
    mixed = {"type": "custom.x", "node": "n", "a": 1, "payload": {"type": "b"}}
    assert events(mixed)[0]["payload"] == {"type": "b", "a": 1}


def test_the_long_form_is_that_of_a_trace_with_its_own_numbers() -> None:
    recorded = {"seq": 7, "type": "run_started", "node_id": None, "payload": {"seed": 1}}
    (start, end) = events(recorded)
    assert (start, end["seq"]) == (recorded, 8)


def test_an_end_that_is_written_is_not_supplied_again_and_an_open_entry_has_none() -> None:
    assert [event["type"] for event in events({"type": "run_failed"})] == ["run_failed"]
    assert [event["type"] for event in events(GRANTED, open=True)] == ["approval_granted"]


def test_what_is_uncovered_is_no_part_of_what_the_sources_record() -> None:
    (entry,) = corpus(
        {"missing_evidence": {"x": {"events": [SENT], "uncovered": ["approval_granted"]}}}
    ).entries
    trace = trace_of(entry, contract(), REGISTRY)
    assert trace.coverage is not None
    assert "approval_granted" not in trace.coverage
    assert {"tool_called", "run_finished", "llm_request"} <= trace.coverage
    (plain,) = corpus({"negative": {"x": [SENT]}}).entries
    assert trace_of(plain, contract(), REGISTRY).coverage is None


# -- what is said of them ------------------------------------------------------------------------


def test_each_kind_has_to_come_out_as_it_implies() -> None:
    good = {
        "positive": {"approved": [GRANTED, SENT]},
        "negative": {"swapped": [GRANTED, OTHER], "never": [SENT]},
        "missing_evidence": {
            "open": {"events": [GRANTED, SENT], "open": True},
            "unseen": {"events": [SENT], "uncovered": ["approval_granted"]},
        },
        "adversarial": {"late": {"events": [SENT, GRANTED], "expect": "fail"}},
    }
    assert problems(good) == [None] * 6


@pytest.mark.parametrize(
    ("kind", "entry", "said"),
    [
        ("positive", [SENT], "positive[x] gave fail, pass is needed"),
        ("negative", [GRANTED, SENT], "negative[x] gave pass, fail is needed"),
        ("missing_evidence", [SENT], "missing_evidence[x] gave fail, indeterminate is needed"),
        (
            "adversarial",
            {"events": [SENT], "expect": "pass"},
            "adversarial[x] gave fail, pass is needed",
        ),
        ("positive", [GRANTED], "positive[x] passed vacuously"),
    ],
)
def test_what_comes_out_otherwise_is_told(kind: str, entry: Any, said: str) -> None:
    (problem,) = problems({kind: {"x": entry}})
    assert str(problem).startswith(said)


def test_what_a_vacuous_pass_counts_as_holds_in_a_corpus_too() -> None:
    nothing = {"negative": {"idle": [GRANTED]}}
    assert problems(nothing, vacuous="fail") == [None]
    assert problems(nothing) != [None]


def test_an_evaluator_that_breaks_is_no_missing_evidence() -> None:
    registry = packaged_registry()

    def breaks(event: Any) -> bool:
        raise ValueError("no")

    registry.predicates.register("breaks", breaks)
    body = {"never": {"type": "tool_called", "satisfies": "breaks"}}
    made, faults = parse_contract("c", {"assert": body}, registry=registry)
    assert made is not None, faults
    entries = corpus({"missing_evidence": {"x": [SENT], "y": {"events": [], "open": True}}})
    broke, goes_on = evaluate_corpus(made, entries, registry)
    assert "could not be judged" in str(broke.problem)
    assert goes_on.problem is None


def test_what_a_library_contract_needs() -> None:
    assert lacking(None) == ["positive", "negative", "missing_evidence"]
    assert lacking(corpus({"positive": {"x": [SENT]}})) == ["negative", "missing_evidence"]
    whole = {kind: {"x": [SENT]} for kind in ("positive", "negative", "missing_evidence")}
    assert lacking(corpus(whole)) == []


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "path", "said"),
    [
        ([], (), "must be a mapping"),
        ({"positiv": {}}, ("positiv",), "unknown key (got 'positiv'"),
        ({"positive": {}}, ("positive",), "must be a mapping"),
        ({"positive": {"a[b]": [SENT]}}, ("positive", "a[b]"), "no name of an entry"),
        ({"positive": {"a::b": [SENT]}}, ("positive", "a::b"), "no name of an entry"),
        ({"positive": {"x": 3}}, ("positive", "x"), "must be a list of events"),
        ({"positive": {"x": {}}}, ("positive", "x"), "needs 'events'"),
        ({"positive": {"x": {"event": []}}}, ("positive", "x", "event"), "unknown key"),
        (
            {"positive": {"x": {"events": [], "expect": "fail"}}},
            ("positive", "x", "expect"),
            "'positive' means pass",
        ),
        ({"adversarial": {"x": [SENT]}}, ("adversarial", "x"), "says what it expects"),
        (
            {"adversarial": {"x": {"events": [], "expect": "fial"}}},
            ("adversarial", "x", "expect"),
            "must be one of pass",
        ),
        (
            {"negative": {"x": {"events": [{"type": "run_failed"}], "open": True}}},
            ("negative", "x", "open"),
            "has an end",
        ),
        (
            {"negative": {"x": {"events": [SENT], "uncovered": ["tool_called"]}}},
            ("negative", "x", "uncovered", 0),
            "stands among the events",
        ),
        (
            {"negative": {"x": {"events": [], "uncovered": ["tool_caled"]}}},
            ("negative", "x", "uncovered", 0),
            "unknown event type",
        ),
        (
            {"negative": {"x": {"events": [], "survives": {"drop[0]": "why"}}}},
            ("negative", "x", "survives"),
            "only positive entries are mutated",
        ),
        (
            {"positive": {"x": {"events": [], "survives": {"drop[0]": " "}}}},
            ("positive", "x", "survives", "drop[0]"),
            "must say why",
        ),
        (
            {"positive": {"x": {"events": [], "survives": {"a": "b"}, "unnoticed": {"a": "c"}}}},
            ("positive", "x", "unnoticed", "a"),
            "stands under 'survives' too",
        ),
        ({"negative": {"x": [3]}}, ("negative", "x", "events", 0), "must be an event"),
        ({"negative": {"x": [{"node": "n"}]}}, ("negative", "x", "events", 0), "'type' is missing"),
        (
            {"negative": {"x": [{"type": "tool_caled"}]}},
            ("negative", "x", "events", 0, "type"),
            "unknown event type",
        ),
        (
            {"negative": {"x": [{**SENT, "arg_digest": "d"}]}},
            ("negative", "x", "events", 0, "arg_digest"),
            "unknown payload path (got 'arg_digest'",
        ),
        (
            {"negative": {"x": [{**SENT, "decision": {"rul": "approval"}}]}},
            ("negative", "x", "events", 0, "decision", "rul"),
            "unknown payload path (got 'decision.rul'",
        ),
        (
            {"negative": {"x": [{"type": "custom.x", "a": 1, "payload": {"a": 2}}]}},
            ("negative", "x", "events", 0, "a"),
            "stands in 'payload' too",
        ),
        (
            {"negative": {"x": [{"type": "custom.x", "node": 3}]}},
            ("negative", "x", "events", 0, "node"),
            "must be a text or null",
        ),
    ],
)
def test_what_would_test_nothing_is_refused(value: Any, path: Any, said: str) -> None:
    found, faults = parse_corpus(value, REGISTRY)
    assert found is None
    assert [fault for fault in faults if fault.path == path and said in fault.text], faults


def test_values_may_be_anything_and_a_type_of_ones_own_has_any_key() -> None:
    corpus({"negative": {"x": [{**SENT, "tool": 3}, {"type": "custom.x", "any": 1}]}})
    registry = Registry()
    open_schema: dict[str, Any] = {"properties": {}, "additionalProperties": {}}
    registry.event_types.register("theirs", EventType("theirs", open_schema, "", "test"))
    found, faults = parse_corpus({"negative": {"x": [{"type": "theirs", "any": 1}]}}, registry)
    assert found is not None, faults


def test_a_corpus_is_no_part_of_the_definition() -> None:
    value = {"positive": {"approved": [GRANTED, SENT]}}
    plain, tried = contract(), contract(corpus=value)
    assert tried.corpus is not None
    assert tried.definition() == plain.definition()
    assert (plain.untested, tried.untested) == (True, False)

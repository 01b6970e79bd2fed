"""Every kernel event has a schema that is strict, and long texts are cut in one way only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.core.event import EventType
from pytest_evarness.core.registry import Registry
from pytest_evarness.core.vocabulary import (
    TEXT_BYTES,
    approximate_tokens,
    check_event,
    clip,
    clip_payload,
    is_custom_type,
    register_kernel,
)

if TYPE_CHECKING:
    from pytest_evarness.core.json import JsonObject

REGISTRY = Registry()
register_kernel(REGISTRY)

SAMPLES: dict[str, dict[str, Any]] = {
    "run_started": {
        "fixture": "",
        "seed": 1,
        "provider": "sim:x",
        "deterministic": True,
        "input": "",
        "schedule": "seed:3",
        "policy_revision": "r1",
    },
    "node_started": {"type": "input"},
    "node_finished": {"type": "input"},
    "run_paused": {"prompt": "?", "preview": "", "total_tokens": 0, "events": 3},
    "policy_violation": {"reason": "no"},
    "script_exhausted": {"script": "llm", "scripted": 1, "call": 2},
    "engine_error": {"reason": "ValueError: x"},
    "budget_breached": {"budget": "events", "limit": 3},
    "run_failed": {"reason": "no", "total_tokens": 0, "events": 3},
    "run_finished": {
        "total_tokens": 0,
        "events": 3,
        "cost_usd": 0.0,
        "deterministic": True,
        "output": {"text": "x", "tokens": 1, "digest": "sha256:" + "0" * 64},
    },
}
OPEN = {"budget_breached"}
OPTIONAL = {"schedule", "policy_revision"}


def problems(name: str, payload: Any) -> list[str]:
    event = {"seq": 0, "type": name, "node_id": None, "payload": payload}
    return check_event(REGISTRY, event)


def test_the_kernel_registers_exactly_the_published_types() -> None:
    assert REGISTRY.event_types.names() == sorted(SAMPLES)
    for entry in REGISTRY.event_types.values():
        jsonschema.Draft202012Validator.check_schema(dict(entry.schema))
        assert entry.doc.endswith(".")


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_schema_takes_its_fields_and_nothing_less_or_more(name: str) -> None:
    payload = SAMPLES[name]
    assert problems(name, payload) == []
    for field in payload:
        without = {key: value for key, value in payload.items() if key != field}
        assert bool(problems(name, without)) == (field not in OPTIONAL)
        assert problems(name, {**payload, field: [1]})
    assert bool(problems(name, {**payload, "more": 1})) == (name not in OPEN)


def test_a_run_without_output_says_null() -> None:
    assert problems("run_finished", {**SAMPLES["run_finished"], "output": None}) == []


def test_custom_types_are_free_and_others_must_be_registered() -> None:
    assert problems("custom.anything", [1]) == []
    assert problems("nonsense", {}) == ["nonsense: not in the vocabulary"]


@pytest.mark.parametrize(
    ("name", "is_custom"),
    [
        ("custom.a", True),
        ("custom.a-b.c_1", True),
        ("custom.", False),
        ("custom", False),
        ("custom.a b", False),
        ("custom.a\n", False),
        ("xcustom.a", False),
        ("custom." + "a" * 102, False),
    ],
)
def test_what_a_custom_type_is_called(name: str, is_custom: bool) -> None:
    assert is_custom_type(name) is is_custom


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.integers(0, 1500))
def test_a_clipped_text_is_the_longest_prefix_within_the_bound(unit: str, count: int) -> None:
    text = unit * count
    kept, was_cut = clip(text)
    assert text.startswith(kept)
    assert len(kept.encode()) <= TEXT_BYTES
    assert was_cut == (kept != text)
    if was_cut:
        assert len(text[: len(kept) + 1].encode()) > TEXT_BYTES


def test_truncated_stands_beside_the_text_that_was_cut() -> None:
    long = "x" * 5000
    payload = {"a": long, "b": {"c": "short"}, "docs": [{"text": long}, {"text": "t"}]}
    clipped = clip_payload(payload)
    assert clipped == {
        "a": "x" * 4096,
        "b": {"c": "short"},
        "docs": [{"text": "x" * 4096, "truncated": True}, {"text": "t"}],
        "truncated": True,
    }
    assert clip_payload({"list": [long]}) == {"list": ["x" * 4096], "truncated": True}


@pytest.mark.parametrize("own", [False, None, "no", 0, True])
def test_a_value_of_ones_own_under_that_name_is_kept(own: Any) -> None:
    args = {"truncated": own, "body": "x" * 5000}
    assert clip_payload({"args": args}) == {"args": {"truncated": own, "body": "x" * 4096}}


def test_a_domain_need_not_declare_the_mark_but_may_not_set_it_idly() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"text": {}},
        "additionalProperties": False,
    }
    registry = Registry()
    registry.event_types.register("said", EventType("said", schema, "x", "test"))
    event = {"seq": 0, "type": "said", "node_id": None}
    cut = clip_payload({"text": "é" * 4000})
    assert cut["truncated"] is True
    assert check_event(registry, {**event, "payload": cut}) == []
    assert check_event(registry, {**event, "payload": {"text": "x", "truncated": True}})


def test_tokens_are_a_quarter_of_the_characters() -> None:
    assert [approximate_tokens(text) for text in ("", "abc", "x" * 41)] == [1, 1, 10]

"""The canonical form is a published contract: its vectors never change, and it refuses the rest."""

from __future__ import annotations

import hashlib
import json
import math
import random
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.core import c1
from pytest_evarness.errors import DeterminismError

VECTORS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("vectors").joinpath("c1.json").read_text(encoding="utf-8")
)


# -- a second implementation, slow and straight from the page ------------------------------------


def slow_string(value: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b"}
    escapes["\f"] = "\\f"
    out = ['"']
    for char in value:
        code = ord(char)
        if char in escapes:
            out.append(escapes[char])
        elif 0x20 <= code < 0x7F:
            out.append(char)
        elif code <= 0xFFFF:
            out.append(f"\\u{code:04x}")
        else:
            code -= 0x10000
            out.append(f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}")
    return "".join([*out, '"'])


def slow_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return slow_string(value)
    if isinstance(value, list):
        return "[" + ",".join(slow_text(entry) for entry in value) + "]"
    keys = sorted(value, key=lambda key: [ord(char) for char in key])
    return "{" + ",".join(f"{slow_string(key)}:{slow_text(value[key])}" for key in keys) + "}"


def slow_event(event: dict[str, Any]) -> str:
    return slow_text({name: event.get(name) for name in ("seq", "type", "node_id", "payload")})


def slow_digests(texts: list[str]) -> tuple[str, str]:
    trace = hashlib.sha256(("[" + ",".join(texts) + "]").encode()).hexdigest()
    chain = hashlib.sha256(b"").digest()
    for text in texts:
        chain = hashlib.sha256(chain + text.encode()).digest()
    return f"c1:sha256:{trace}", f"c1:chain-sha256:{chain.hex()}"


# -- vectors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_each_published_vector_comes_out_byte_for_byte(vector: dict[str, Any]) -> None:
    texts = c1.events_text(vector["events"])
    assert "[" + ",".join(texts) + "]" == vector["canonical_json"]
    assert c1.digests(texts) == (vector["trace_digest"], vector["chain_digest"])
    assert texts == [slow_event(event) for event in vector["events"]]
    assert slow_digests(texts) == (vector["trace_digest"], vector["chain_digest"])


def test_the_vectors_would_notice_a_change_of_the_form() -> None:
    for vector in VECTORS:
        other = json.dumps(
            [
                {name: event.get(name) for name in ("seq", "type", "node_id", "payload")}
                for event in vector["events"]
            ],
            sort_keys=True,
            ensure_ascii=False,
        )
        if vector["events"]:
            assert other != vector["canonical_json"]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_the_fast_encoder_agrees_with_the_slow_one_and_with_json_dumps(value: Any) -> None:
    text = c1.text(value)
    assert text == slow_text(value)
    assert text == json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert c1.copied(value) == value


def test_the_slow_path_gives_the_same_text_and_the_same_copy() -> None:
    value = {"b": [1, {"x": "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")}]}
    assert c1._encode(c1._walked(value, (), "v")) == c1.text(value) == slow_text(value)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)), max_size=6))
def test_digests_are_incremental_and_the_chain_commits_to_every_prefix(payloads: list[Any]) -> None:
    texts = [c1.event_text(seq, "t", None, payload) for seq, payload in enumerate(payloads)]
    hasher = c1.Hasher()
    for count, text in enumerate(texts, start=1):
        hasher.add(text)
        assert (hasher.trace_digest, hasher.chain_digest) == slow_digests(texts[:count])


# -- what a digest sees --------------------------------------------------------------------------


A = [
    {"seq": 0, "type": "tool_called", "node_id": "n", "payload": {"order": 7}, "ts": 1.0, "pid": 4},
    {"seq": 1, "type": "tool_result", "node_id": "n", "payload": {"r": "ok"}, "ts": 2.0, "pid": 4},
]


def test_a_digest_is_blind_to_timing_and_sharp_on_content_and_order() -> None:
    later = [{**event, "ts": 9.0, "pid": 5, "cwd": "/elsewhere"} for event in A]
    other = [{**A[0], "payload": {"order": 8}}, A[1]]
    swapped = [A[1], A[0]]
    digests = [c1.digests(c1.events_text(events)) for events in (A, later, other, swapped)]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_keys_are_sorted_by_code_point_as_the_form_states() -> None:
    text = c1.text({"\ufb01": 2, "\U0001f680": 1, "q": 3})
    assert text == '{"q":3,"\\ufb01":2,"\\ud83d\\ude80":1}'


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (math.nan, "payload.a: a number that JSON does not have (got nan; finite)"),
        (math.inf, "payload.a: a number that JSON does not have (got inf; finite)"),
        ([0, -math.inf], "payload.a[1]: a number that JSON does not have (got -inf; finite)"),
        (b"x", "payload.a: not a JSON value (got bytes; "),
        ([{1, 2}], "payload.a[0]: not a JSON value (got set; "),
        ({1: 2}, "payload.a: a key that is no text (got int; keys are texts)"),
        ({None: 2}, "payload.a: a key that is no text (got NoneType; keys are texts)"),
        ({True: 2, "x": 3}, "payload.a: a key that is no text (got bool; keys are texts)"),
        ("x\ud800", "payload.a: a text with half a surrogate pair (got U+D800 at 1)"),
        ({"\udfff": 1}, "payload.a: a key with half a surrogate pair (got U+DFFF)"),
        (2**53 + 1, "payload.a: an integer that JSON readers round (got 9007199254740993; "),
        ({"b c": [-(2**53) - 1]}, 'payload.a["b c"][0]: an integer that JSON readers round'),
        (10**5000, "payload.a: an integer that JSON readers round (got one of 16610 bits; "),
        (object(), "payload.a: not a JSON value (got object; "),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_what_two_readers_would_disagree_on_is_refused_with_its_path(
    bad: object, message: str
) -> None:
    with pytest.raises(DeterminismError) as caught:
        c1.event_text(0, "t", None, {"ok": 1, "a": bad})
    assert str(caught.value).startswith(message)


def test_nesting_and_cycles_are_refused_and_the_limit_itself_is_not() -> None:
    deep: Any = []
    for _ in range(c1.MAX_DEPTH - 1):
        deep = [deep]
    assert c1.text(deep) == "[" * c1.MAX_DEPTH + "]" * c1.MAX_DEPTH
    with pytest.raises(DeterminismError, match=r"^value\[0\]\[0\]\[0\]: nested too deeply"):
        c1.text([deep])
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(DeterminismError, match=r"nested too deeply"):
        c1.text(endless)


def test_the_largest_exact_integers_pass() -> None:
    assert c1.text([2**53, -(2**53)]) == "[9007199254740992,-9007199254740992]"


def test_values_with_one_json_form_only_are_taken_as_that() -> None:
    class Word(str):
        __slots__ = ()

    copy, text = c1.frozen({"t": (1, 2), "m": types.MappingProxyType({"k": Word("v")})})
    assert text == '{"m":{"k":"v"},"t":[1,2]}'
    assert type(copy["t"]) is list
    assert type(copy["m"]) is dict
    assert type(copy["m"]["k"]) is str


def test_a_copy_shares_nothing_with_its_original() -> None:
    inner = {"k": [1]}
    copy, _ = c1.frozen({"a": inner})
    inner["k"].append(2)
    assert copy == {"a": {"k": [1]}}


def test_wide_values_that_only_look_deep_are_taken() -> None:
    wide: list[Any] = [{"k": []} for _ in range(500)]
    assert c1.text(wide) == slow_text(wide)


def test_without_the_c_encoder_the_text_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"b": random.Random(1).random(), "a": ["é\u2028", True, None]}
    expected = c1.text(value)
    monkeypatch.setattr("json.encoder.c_make_encoder", None)
    assert c1._make_encoder()(value) == expected


def test_a_text_reads_back() -> None:
    assert c1.thaw(c1.text({"a": [1, 2.5, "é"]})) == {"a": [1, 2.5, "é"]}


def test_sha256_text_is_over_utf8_bytes() -> None:
    assert c1.sha256_text("é") == "sha256:" + hashlib.sha256(b"\xc3\xa9").hexdigest()

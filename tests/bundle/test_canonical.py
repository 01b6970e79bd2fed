"""A payload has one text: RFC 8785, as an independent implementation writes it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.bundle.canonical import MAX_INTEGER, Encoded, canonical_bytes, canonical_digest

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)


@given(values)
def test_any_value_of_the_form_is_written_as_rfc8785_writes_it(value: Any) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@given(values)
def test_reading_it_back_gives_the_same_value(value: Any) -> None:
    assert json.loads(canonical_bytes(value)) == value


def test_keys_are_sorted_by_utf16_code_unit() -> None:
    # A key beyond U+FFFF sorts before U+FB01 by code unit and after it by code point.
    data = canonical_bytes(json.loads('{"\\ufb01":2,"\\ud83d\\ude80":1,"q":3}'))
    assert data.decode() == '{"q":3,"🚀":1,"ﬁ":2}'
    digest = "c271ec2fe2d91a9589e6c53218566df88efa3a7ddae55a9f91563abadce916b8"
    assert hashlib.sha256(data).hexdigest() == digest


def test_this_file_would_notice_the_order_by_code_point() -> None:
    value = json.loads('{"\\ufb01":2,"\\ud83d\\ude80":1,"q":3}')
    wrong = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert wrong.encode() != canonical_bytes(value)


def test_control_characters_are_escaped_in_their_shortest_form() -> None:
    text = "".join(map(chr, range(0x20))) + '"\\/\x7f\u2028'
    assert canonical_bytes(text) == rfc8785.dumps(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1.0]}, r"^\$\.a\[0\]: float has no place"),
        ({"a": {1: 2}}, r"^\$\.a: a key must be text \(got 1\)"),
        ({"a": b"x"}, r"^\$\.a: bytes has no place"),
        ({"a": {1, 2}}, r"^\$\.a: set has no place"),
    ],
)
def test_what_has_no_place_in_a_payload_is_refused_with_its_place(value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        canonical_bytes(value)


@pytest.mark.parametrize("value", [2**53, -(2**53)])
def test_an_integer_that_doubles_round_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match=r"^\$\[0\]: an integer beyond"):
        canonical_bytes([value])


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a text holds a lone surrogate"):
        canonical_bytes({"a": "\ud800"})


def test_a_digest_is_named_by_its_algorithm() -> None:
    assert canonical_digest({}) == "sha256:" + hashlib.sha256(b"{}").hexdigest()


@given(st.dictionaries(texts, st.dictionaries(texts, values, max_size=3), max_size=3))
def test_parts_that_were_encoded_before_change_no_byte(value: dict[str, Any]) -> None:
    encoded = Encoded()
    for inner in value.values():
        for part in inner.values():
            encoded.add(part)
    assert canonical_bytes(value, encoded) == rfc8785.dumps(value)
    assert canonical_digest(value, encoded) == canonical_digest(value)


def test_a_part_stands_as_it_was_encoded() -> None:
    # Were the part encoded anew, the text would say 2: so the kept text is what is used.
    part = {"a": 1}
    encoded = Encoded()
    encoded.add(part)
    part["a"] = 2
    assert canonical_bytes({"p": part}, encoded) == b'{"p":{"a":1}}'
    assert canonical_bytes({"p": {"a": 2}}, encoded) == b'{"p":{"a":2}}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": {"b": [1.0]}}, r"^\$\.a\.b\[0\]: float has no place"),
        ({"a": {1: 2}}, r"^\$\.a: a key must be text \(got 1\)"),
        ({"a": {"b": {"c": {"d": {1}}}}}, r"^\$\.a\.b\.c\.d: set has no place"),
    ],
)
def test_beside_encoded_parts_nothing_is_let_through(value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        canonical_bytes(value, Encoded())

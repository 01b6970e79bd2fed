"""The plain form of a text, and the part of the text that each place in it stands for."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.core.disguise import plain_form
from tests.effort import calls_of


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("plain text, 100% of it & more", "plain text, 100% of it & more"),
        ("\uff50\uff41\uff53\uff53 \u2460\u00b2", "pass 12"),
        ("1\u20132\u20143\u20114\u22125", "1-2-3-4-5"),
        ("a\u00a0 \u2003\tb", "a b"),
        ("a  b", "a b"),
        ("a\u200bb\u00adc\ufeffd\u2060e\x00f", "abcdef"),
        ("\u0661\u0662\u09e9", "123"),
        ("a\u0308e\u0301", "\u00e4\u00e9"),
        ("1\u03362\u20dd\ufe0f", "12"),
        ("ada%40example%2Eorg", "ada@example.org"),
        ("caf%C3%A9 %FF %4", "caf\u00e9 %FF %4"),
        ("&#64;&#x40;&commat;&amp;&xyzzy;", "@@@&&xyzzy;"),
        ("ada\\u0040x", "ada@x"),
        ("%2540", "%40"),
        ("one\ntwo\u2028three\x85four", "one\ntwo\nthree\nfour"),
        ("o\u2019brien", "o'brien"),
        ("", ""),
    ],
)
def test_what_is_written_in_many_ways_is_read_as_one(written: str, plain: str) -> None:
    assert plain_form(written).text == plain


def test_a_place_leads_to_all_that_is_written_for_it() -> None:
    written = "to ada%40ex\u200bample.org, now"
    plain = plain_form(written)
    start = plain.text.index("ada@")
    first, last = plain.written(start, start + len("ada@example.org"))
    assert written[first:last] == "ada%40ex\u200bample.org"
    untouched = plain_form("to ada@example.org")
    assert untouched.written(3, 18) == (3, 18)


ODD = st.text(
    alphabet="a1 .@-%4&#;\\u0\u00a0\u2013\u200b\u0308\ufb01\u2026\uff11\ud800", max_size=40
)


@given(ODD)
def test_places_ascend_and_lie_in_the_text(written: str) -> None:
    plain = plain_form(written)
    spans = [plain.written(place, place + 1) for place in range(len(plain.text))]
    assert all(0 <= start < stop <= len(written) for start, stop in spans)
    assert spans == sorted(spans)


@pytest.mark.parametrize("piece", ["a\u0308", "%40", "&#64;", "\u200b \u00a0", "x", "\u0336"])
def test_a_text_of_twice_the_length_costs_twice_as_much(piece: str) -> None:
    once, twice = (calls_of(partial(plain_form, piece * n)) for n in (2_000, 4_000))
    assert twice <= 2 * once + 100

"""Hostile text leaves a report readable: no colour, no control character, no escape cut in two."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.core.json import shown
from pytest_evarness.plugin.text import clean as clean_of_the_plugin
from pytest_evarness.report.text import bounded, clean, first_line, one_line
from tests.attacks import ATTACKS

HOSTILE: str = json.loads(
    '"a\\u0000b\\u0001c\\u000bd\\u001b[31mred\\u001b[0m e\\ufffef\\uffffg \\ud83d\\ude00'
    ' \\u007f\\u0085 ]]> & < \\""'
)


def test_colour_goes_whole_and_control_characters_become_escapes() -> None:
    assert clean(HOSTILE) == (
        'a\\x00b\\x01c\\x0bdred e\\ufffef\\uffffg \U0001f600 \\x7f\\x85 ]]> & < "'
    )


def test_lines_and_tabs_stay_and_a_carriage_return_does_not() -> None:
    assert clean("a\n\tb\rc") == "a\n\tb\\rc"


@pytest.mark.parametrize("odd", ["\u202e", "\u2066", "\ud800", "\ufeff", "\U000e0041", "\u200b"])
def test_what_nobody_sees_is_written_out(odd: str) -> None:
    assert clean(f"a{odd}b") == (
        f"a\\U{ord(odd):08x}b" if ord(odd) > 0xFFFF else f"a\\u{ord(odd):04x}b"
    )


@pytest.mark.parametrize(
    "odd", ["\u200d", "\u200c", "\u034f", "\u3164", "\ufe01", "\U000e0101", "\U0001d173"]
)
def test_what_hides_a_difference_is_written_out(odd: str) -> None:
    assert clean(f"PA{odd}SS") != "PASS"
    assert clean(f"PA{odd}SS").isascii()


@pytest.mark.parametrize(
    "plain",
    [
        "\u0646\u0645\u06cc\u200c\u062f\u0627\u0646\u0645",
        "\u2764\ufe0f",
        "\U0001f469\u200d\U0001f680",
    ],
)
def test_what_a_script_or_a_sign_needs_stays(plain: str) -> None:
    assert clean(plain) == plain


TEXTS = st.lists(
    st.one_of(st.text(max_size=8), st.sampled_from(sorted(ATTACKS.values(), key=len)[:20]))
).map("".join)


@given(TEXTS, st.integers(1, 40))
def test_no_text_steers_a_terminal_or_begins_a_line(text: str, limit: int) -> None:
    for made in (clean(text), one_line(text, limit), bounded(text, limit, whole="elsewhere")):
        assert not [
            char
            for char in made
            if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") and char not in "\n\t"
        ]
        assert not set(made) & set("\u200b\u202e\u2066\ufeff\U000e0041")
    assert not set(one_line(text, limit)) & set("\n\t")
    assert clean(clean(text)) == clean(text), "what was made fit is left alone"


def test_a_title_sequence_of_a_terminal_goes_whole() -> None:
    assert clean("a\x1b]0;owned\x07b\x1b]8;;http://x\x1b\\c") == "abc"


def test_the_plugin_follows_the_same_rule() -> None:
    assert clean_of_the_plugin is clean


def test_a_line_is_cut_and_says_so() -> None:
    assert first_line("abc\ndef") == "abc"
    assert one_line("a\nb\tc") == "a b c"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_a_cut_falls_neither_into_an_escape_nor_into_a_colour() -> None:
    assert one_line("abcdefgh\x00tail", 10) == "abcdefgh\\x00…"
    assert one_line("abcdefgh\x1b[31m\x1b[0mij", 10) == "abcdefghij"
    cut = bounded("\x00" * 50 + "\x1b[31m" + "z" * 100, 20, whole="elsewhere")
    head, marker, tail = cut.split("\n")
    assert head == "\\x00" * 10
    assert tail == "z" * 10
    assert marker == "[... 130 of 155 characters left out; elsewhere ...]"


def test_a_short_text_is_kept_as_it_is() -> None:
    assert bounded("short", 20, whole="elsewhere") == "short"


@pytest.mark.parametrize(
    "escaped",
    [r"\u001b[31m", r"\u001B[1;31m", r"\x1b[31m", r"\033[31m", r"\\u001b[31m", r"\u001b[2J"],
)
def test_colour_goes_where_it_was_escaped_before(escaped: str) -> None:
    assert clean(f'met "a{escaped}b"') == 'met "ab"'
    assert one_line(f"a{escaped}b") == "ab"
    assert bounded(f"a{escaped}b", 100, whole="elsewhere") == "ab"


@pytest.mark.parametrize("plain", [r"a[31m]", r"\u001b", r"\u001b31m", r"list[3]", r"C:\x1b"])
def test_what_is_no_colour_stays(plain: str) -> None:
    assert clean(plain) == plain


def test_many_backslashes_take_no_time() -> None:
    assert clean("\\" * 200_000) == "\\" * 200_000


@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: [{"k": text}], json.dumps])
def test_a_value_is_shown_without_colour(wrap: Callable[[str], object]) -> None:
    coloured, plain = wrap("a\x1b[31mred\x1b[0mb"), wrap("aredb")
    assert clean(shown(coloured)) == shown(plain)
    # The twin: any other control character is there to be seen.
    assert "u0007" in shown(wrap("a\x07b"))
    assert shown("x" * 200 + "\x1b[31m", 10) == '"' + "x" * 9 + "…"

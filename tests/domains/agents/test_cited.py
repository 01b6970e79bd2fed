"""No number in square brackets is passed over, whatever its length, its script or its list."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.domains.agents.cited import read_citations
from tests.effort import calls_of

COUNT = 3


def cited(text: str) -> list[int | str]:
    """Numbers of documents, and in words what is none."""
    return [
        one.written if one.number is None else one.number
        for one in read_citations(text, COUNT).cited
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[1]", [1]),
        ("[1][2] [1]", [1, 2]),
        ("[0] [007]", [0, 7]),
        ("[123456789012345]", [123456789012345]),
        ("[1234567890123456]", ["1234567890123456"]),
        ("[1, 2;3 / 9]", [1, 2, 3, 9]),
        ("[1 2] [1,2 and 3] [1, or 2]", [1, 2, 3]),
        ("[1\u30012\uff0c3]", [1, 2, 3]),
        ("[1-3]", [1, 2, 3]),
        ("[1 \u2013 3]", [1, 2, 3]),
        ("[2-1000000000]", [2, 1000000000]),
        ("[3-1]", [3, 1]),
        ("[ 1 ] [\t2\n]", [1, 2]),
        ("[^1] [#2]", [1, 2]),
        ("[1](https://x.example)", [1]),
        ("\u30101\u3011 \uff3b2\uff3d \u30143\u3015", [1, 2, 3]),
        ("[\u0661] [\u0967\u0968] [\uff13]", [1, 12, 3]),
        ("[\u00b2] [\u2462] [\u2160] [\u4e00]", [2, 3, 1]),
        ("[\u200b9\u200b]", [9]),
        ("[[1], [2]]", [1, 2]),
        ("[9 [1]]", [1, 9]),
        ("[see [1] 9]", [1]),
        ("[1.5]", ["1.5"]),
        ("[-1] [+2] [1-]", ["-1", "+2", "1-"]),
        ("[10%] [$5]", ["10%", "$5"]),
        ("[1, p. 7]", ["1, p. 7"]),
        ("[3\u2020source]", ["3\u2020source"]),
        ("[\u4e5d\u5341\u4e5d]", ["\u4e5d\u5341\u4e5d"]),
        ("[1-2-3]", ["1-2-3"]),
        ("(1) 1 [a] [] [ ] [see 1] [a1] [\u4e09\u4e9a] [1", []),
        ("1] and [", []),
    ],
)
def test_what_is_cited(text: str, found: list[int | str]) -> None:
    assert cited(text) == found


NUMBER = re.compile(r"\[(\d{1,6})\]")


@given(st.text("[]12, -a\u0662\u3010\u3011.", max_size=30))
def test_nothing_that_the_plainest_rule_finds_is_missed(text: str) -> None:
    assert {int(number) for number in NUMBER.findall(text)} <= {*cited(text)}


@given(st.text("[]129, -\u0662\u3010\u3011.", max_size=20))
def test_each_pair_of_brackets_with_a_number_names_something(inside: str) -> None:
    text = f"[1{inside}]"
    found = read_citations(text, COUNT).cited
    assert bool(found) or not _is_closed(text)


def _is_closed(text: str) -> bool:
    """Whether a pair of brackets with a digit directly in it stands in ``text``."""
    while (pair := re.search(r"[\[\u3010]([^\[\]\u3010\u3011]*)[\]\u3011]", text)) is not None:
        if any(char.isdecimal() for char in pair.group(1)):
            return True
        text = text[: pair.start()] + " " + text[pair.end() :]
    return False


def test_the_rest_is_the_text_without_them() -> None:
    assert read_citations("a [1] b [see [2] 3] c [4 [5] 6] d", COUNT).rest == (
        "a   b [see   3] c   d"
    )


def test_twice_the_text_is_twice_the_work() -> None:
    def work(size: int) -> int:
        text = "[1, 2-3] " * size + "[" * size + "1 " * size + "]" * size
        return calls_of(lambda: read_citations(text, COUNT))

    assert work(2000) < 3 * work(1000)

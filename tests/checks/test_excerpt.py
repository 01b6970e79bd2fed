"""Of a text whose middle is not known, only what was read decides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.checks.excerpt import ask_excerpt, read_text_matcher
from pytest_evarness.core.matcher import parse_matcher
from pytest_evarness.core.outcome import Cause


def held(spec: Any, head: str, tail: str, size: int | None) -> bool | None:
    matcher, faults = parse_matcher(spec)
    assert matcher is not None, faults
    answer = ask_excerpt(matcher, head, tail, size)
    assert (answer.held is None) is (answer.cause is not None)
    return answer.held


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"contains": "begin"}, True),
        ({"contains": "end"}, True),
        ({"contains": "middle"}, None),
        ({"contains": "beginend"}, None),
        ({"not_contains": "begin"}, False),
        ({"not_contains": "middle"}, None),
        ({"equals": "begin..end"}, None),
        ({"equals": "begin.end"}, False),
        ({"equals": "xegin..end"}, False),
        ("begin..enx", False),
        ({"not": "begin.end"}, True),
        ({"not": "begin..end"}, None),
        ({"in": ["x", "y"]}, False),
        ({"in": ["x", "begin..end"]}, None),
        ({"pattern": "beg"}, True),
        ({"pattern": "^beg"}, True),
        ({"pattern": "end"}, None),
        ({"pattern": "begin$"}, None),
        ({"pattern": "^end"}, None),
        ({"length": {"gte": 8}}, True),
        ({"length": {"gt": 100}}, False),
        ({"length": {"lt": 8}}, False),
        ({"length": 10}, None),
        ({"length": 99}, False),
        ({"length": {"not": 99}}, True),
        ({"exists": True}, True),
        ({"contains": "begin", "pattern": "nope"}, None),
        ({"contains": "nope", "not_contains": "begin"}, False),
    ],
)
def test_what_was_read_decides(spec: Any, expected: bool | None) -> None:
    assert held(spec, "begin", "end", 10) is expected


SPECS = st.one_of(
    st.builds(lambda text: {"contains": text}, st.text("ab", min_size=1, max_size=3)),
    st.builds(lambda text: {"not_contains": text}, st.text("ab", min_size=1, max_size=3)),
    st.builds(lambda text: {"equals": text}, st.text("ab", max_size=8)),
    st.builds(lambda text: {"not": text}, st.text("ab", max_size=8)),
    st.builds(lambda text: {"in": [text, "b"]}, st.text("ab", max_size=8)),
    st.builds(lambda text: {"pattern": text}, st.sampled_from(["ab", "^a", "b$", "a.b", r"\bb"])),
    st.builds(lambda n: {"length": {"gt": n}}, st.integers(0, 9)),
    st.builds(lambda n: {"length": {"lte": n}}, st.integers(0, 9)),
)


@given(SPECS, st.text("ab", max_size=4), st.text("ab", max_size=4), st.text("ab", max_size=4))
def test_an_answer_holds_whatever_the_middle_is(
    spec: Any, head: str, middle: str, tail: str
) -> None:
    whole = head + middle + tail
    answer = held(spec, head, tail, len(whole))
    if answer is not None:
        assert held(spec, whole, "", None) is answer
    only_head = held(spec, head, "", len(whole))
    if only_head is not None:
        assert held(spec, whole, "", None) is only_head


def test_an_open_answer_says_what_was_read() -> None:
    matcher, _ = parse_matcher({"contains": "x"})
    assert matcher is not None
    answer = ask_excerpt(matcher, "abc", "de", 1_000)
    assert answer.cause is Cause.MISSING_EVIDENCE
    assert answer.why == (
        "the text of 1,000 bytes, of which the first 3 and the last 2 were read, does not decide:"
        ' contains "x"'
    )


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"contains": ""}, "holds of every text"),
        ({"pattern": ""}, "holds of every text"),
        ({"length": {"gte": 0}}, "holds of every text"),
        ({"gt": 3}, "can hold of no text"),
        (None, "can hold of no text"),
        (3, "can hold of no text"),
        ({"contians": "x"}, "unknown operator"),
    ],
)
def test_a_matcher_that_says_nothing_of_a_text_is_refused(spec: Any, problem: str) -> None:
    matcher, (fault,) = read_text_matcher(spec, "stdout")
    assert matcher is None
    assert fault.problem == problem
    assert fault.path[0] == "stdout"
    assert read_text_matcher({"contains": "x"}, "stdout")[1] == []

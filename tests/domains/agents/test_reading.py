"""What a model or a user wrote as JSON is read strictly, by one reader, wherever it goes."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from pytest_evarness.domains.agents.reading import MAX_NESTED, UnreadableError, read_json
from pytest_evarness.domains.agents.score import HALF, read_scores
from pytest_evarness.domains.agents.template import TemplateError, lookup, mapping_of
from tests.domains.agents import harness as h
from tests.effort import calls_of

_BAD = [
    ('{"q": NaN}', "the text is no JSON (NaN)"),
    ('{"q": 1e999}', "the text has a number that is too large"),
    ('{"q": 9007199254740993}', "the text has a number that is too large"),
    ('{"q": ' + "9" * 5000 + "}", "the text has a number that is too large"),
    ('{"q": "\\ud800"}', "the text has half of a surrogate pair"),
    ('{"\\ud800": 1, "q": 1}', "the text has half of a surrogate pair"),
    ('{"q": 1, "q": 2}', "the text has a key twice"),
    ('{"q": ' + "[" * 100_000, "the text is nested too deeply"),
    ('{"q": ' + "[" * MAX_NESTED + "]" * MAX_NESTED + "}", "the text is nested too deeply"),
    ('{"q": 1} and more', "the text is no JSON"),
    ('{"q": "' + "\\" * 50_001, "the text is no JSON"),
]
_IDS = [f"{number}-{problem[9:]}" for number, (_, problem) in enumerate(_BAD)]


@pytest.mark.parametrize(("text", "problem"), _BAD, ids=_IDS)
def test_what_two_readers_would_disagree_on_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_json(text)
    assert str(caught.value) == problem
    with pytest.raises(TemplateError) as asked:
        lookup(mapping_of(text), "q")
    assert str(asked.value) == f"the input has no 'q' ({problem})"


@pytest.mark.parametrize(
    "value",
    [
        {"q": [1.5, -0.0, "é", None, True, 2**53]},
        {"q": "[" * 200 + '"{' * 200 + "\\"},
        {"q": [[[]] * 300, {}, [{}] * 300]},
        json.loads('{"q": ' + "[" * (MAX_NESTED - 1) + "]" * (MAX_NESTED - 1) + "}"),
    ],
    ids=["kinds", "brackets in a text", "wide", "as deep as it may be"],
)
def test_everything_else_is_read(value: Any) -> None:
    assert read_json(json.dumps(value)) == value
    assert lookup(mapping_of(json.dumps(value)), "q") == value["q"]


@pytest.mark.parametrize(("text", "problem"), _BAD, ids=_IDS)
def test_a_text_that_cannot_be_read_is_told_at_the_tool_and_by_no_event(
    text: str, problem: str
) -> None:
    config: dict[str, Any] = {"tool": "email.search", "args": {"query": "{args.q}"}}
    graph = h.chain(("input", {}), ("tool", config), ("output", {}))
    run = h.run(graph, {"user_input": text, "tools": {"email.search": [{"result": []}]}})
    assert (run.status, run.error) == (
        "failed",
        f"TemplateError: the input has no 'q' ({problem})",
    )
    # The twin: nothing is said where nothing is asked of it.
    config["args"] = {"query": "{query}"}
    if "\\ud800" not in text:
        run = h.run(graph, {"user_input": "x" + text, "tools": {"email.search": [{"result": []}]}})
        assert run.status == "completed"


def test_a_judge_is_read_as_strictly_and_with_all_its_digits() -> None:
    assert read_scores('{"score": 0.5, "id": 12345678901234567890}', ["tone"]) == [HALF]
    deep = '{"score": 1, "why": ' + "[" * 80 + "]" * 80 + "}"
    assert read_scores(deep, ["tone"]) == "its answer is too long, or nested too deeply"
    assert read_scores('{"score": NaN}', ["tone"]) == "its answer is not one JSON object"


def test_a_whole_outside_of_its_parts_is_a_contradiction() -> None:
    def read(whole: str) -> Any:
        return read_scores(f'{{"score": {whole}, "scores": {{"a": 0.2, "b": 0.6}}}}', ["a", "b"])

    said = [Fraction(1, 5), Fraction(3, 5)]
    assert [read(whole) for whole in ("0.2", "0.3", "0.6")] == [said] * 3
    contradiction = "its 'score' contradicts its 'scores': it lies outside of them"
    assert [read(whole) for whole in ("0.1", "0.60000000000000000001")] == [contradiction] * 2


def test_a_long_text_is_read_in_linear_time() -> None:
    def read(size: int) -> int:
        text = '{"q": "' + '\\"[{' * size + '", "r": [' + ",".join(["[]"] * size) + "]}"
        return calls_of(lambda: read_json(text))

    assert read(4000) < 3 * read(2000)

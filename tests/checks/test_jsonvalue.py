"""One JSON document and nothing else; the words of a refusal are the same on every Python."""

from __future__ import annotations

import json

import pytest

from pytest_evarness.checks.jsonvalue import MAX_DEPTH, NoJsonError, read_value
from pytest_evarness.source.number import WrittenFloat


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("{} {}", "something stands after its end, at line 1 column 4"),
        ("Sure! {}", "expecting value, at line 1 column 1"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
        ('{"a": 1, "a": 2}', 'the key "a" stands twice in one mapping'),
        (
            '{"a": 1,\n}',
            "expecting property name enclosed in double quotes, at line 2 column 1",
        ),
        ('{"a": ["\\ud800"]}', "it holds half of a surrogate pair, which is no character"),
        ('{"\\udc00": 1}', "it holds half of a surrogate pair, which is no character"),
        ("[1, ]", "expecting value, at line 1 column 5"),
        ("1" * 5000, "it holds a number or a nesting beyond what can be read"),
        ("[" * 100_000, "it holds a number or a nesting beyond what can be read"),
    ],
)
def test_what_is_no_single_document(text: str, why: str) -> None:
    with pytest.raises(NoJsonError) as refused:
        read_value(text)
    assert str(refused.value) == why


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert read_value('["\\ud83d\\ude00"]') == ["\U0001f600"]


@pytest.mark.parametrize("nested", ["[{}]", '{{"a": {}}}'])
def test_nesting_has_a_limit_of_its_own(nested: str) -> None:
    def deep(levels: int) -> str:
        text = "1"
        for _ in range(levels):
            text = nested.format(text)
        return text

    assert read_value(deep(MAX_DEPTH))
    with pytest.raises(NoJsonError, match="nesting beyond"):
        read_value(deep(MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("text", "comma"), [('{"a": 1 , \n }', 8), ("[1,]", 2), ("[[1, 2,\t],3]", 6)]
)
def test_a_newer_python_s_words_for_a_last_comma_are_told_in_the_older_ones(
    monkeypatch: pytest.MonkeyPatch, text: str, comma: int
) -> None:
    def older(document: str, at: int) -> json.JSONDecodeError:
        closing = document[at:].lstrip()[0]
        word = "property name enclosed in double quotes" if closing == "}" else "value"
        return json.JSONDecodeError(f"Expecting {word}", document, document.index(closing, at))

    def newer(document: str, at: int) -> json.JSONDecodeError:
        kind = "object" if "{" in document else "array"
        return json.JSONDecodeError(f"Illegal trailing comma before end of {kind}", document, at)

    told = []
    for error in (older(text, comma + 1), newer(text, comma)):

        def refuse(*_: object, error: Exception = error, **__: object) -> object:
            raise error

        monkeypatch.setattr("pytest_evarness.checks.jsonvalue.json.loads", refuse)
        with pytest.raises(NoJsonError) as refused:
            read_value(text)
        told.append(str(refused.value))
    assert told[0] == told[1]
    assert told[0].startswith("expecting ")


def test_a_number_may_keep_its_digits() -> None:
    assert isinstance(read_value("[0.10]", number=WrittenFloat)[0], WrittenFloat)
    assert type(read_value("[0.10]")[0]) is float

"""A slip in a YAML file is told in the words of somebody who writes one, at its place."""

from __future__ import annotations

import contextlib

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.errors import InputError
from pytest_evarness.source.yamltext import LOADER, read_yaml

LOADERS = [LOADER, yaml.SafeLoader]

SLIPS = {
    "a:\n\tb: 1\n": "2:1: a tab where YAML wants spaces\n  try: write spaces instead",
    "a:\n  -\tb: 1\n": "2:4: a tab where YAML wants spaces\n  try: write spaces instead",
    "a:\n  b: 1\n\tc: 1\n": "3:1: a tab where YAML wants spaces\n  try: write spaces instead",
    "a: hello: you\n": "1:9: a value that holds ': ' needs quotes\n  try: write \"hello: you\"",
    "a:\n  - b: c: d\n": "2:9: a value that holds ': ' needs quotes\n  try: write \"c: d\"",
    "a: {b: c: d}\n": "1:9: a ',' is missing, or a value that holds ': ' needs quotes",
    "a: 1\n b: 2\n": (
        "2:3: is indented deeper than line 1, whose key has a value already"
        "\n  try: indent it like line 1"
    ),
    "a:\n   b: 1\n  c: 2\n": (
        "3:3: the indentation fits nothing above"
        " (2 spaces; the mapping that begins on line 1 has 0 spaces)"
    ),
    "a:1\nb: 2\n": "2:2: line 1 has no space after its colon\n  try: write 'a: 1'",
    "a\nb: 2\n": "2:2: a key stands under line 1, which is no 'key: value'",
    'a: "hello\nb: 1\n': '1:4: a text that begins with " has no closing "',
    "a: 'hello\nb: 1\n": "1:4: a text that begins with ' has no closing '",
    "a: 'it's'\n": ("1:8: text after the closing ' of a value\n  try: write '' for a quote inside"),
    "a: [1, 2\nb: 3\n": "2:2: the '[' of line 1 is not closed with ']'",
    "b: 1\na: {x: 1\n": "2:4: the '{' of line 2 is not closed with '}'",
    "a: [1}\n": "1:6: '}' where the '[' of line 1 wants ']'\n  try: write ']'",
    "a: @x\n": "1:4: a value that starts with '@' needs quotes\n  try: write \"@x\"",
    "a: `x`\n": "1:4: a value that starts with '`' needs quotes\n  try: write \"`x`\"",
    "a: 50\nb: %x\n": "2:4: a value that starts with '%' needs quotes\n  try: write \"%x\"",
    "a: **b**\n": "1:4: a value that starts with '*' needs quotes\n  try: write \"**b**\"",
    "a: >x\n": "1:4: a value that starts with '>' needs quotes\n  try: write \">x\"",
    "a: {b}@c.d\n": "1:4: a text that starts with '{' needs quotes\n  try: write \"{b}@c.d\"",
    "a: {args.to} too\n": (
        "1:4: a text that starts with '{' needs quotes\n  try: write \"{args.to} too\""
    ),
    "a: - b\n": (
        "1:4: a list begins on the line of its key"
        "\n  try: write its first '- ' on the next line, indented"
    ),
    "a: 1\n- b\n": "2:1: a list entry among the keys of the mapping that begins on line 1",
    "- a\nb: 1\n": "2:1: a list entry ('- ') is expected; the list begins on line 1",
    "a: }\n": "1:4: '}' closes nothing\n  try: put the value in quotes",
}


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("text", SLIPS)
def test_a_slip_is_told_in_our_words_whichever_parser_met_it(text: str, loader: object) -> None:
    with pytest.raises(InputError) as caught:
        read_yaml(text, "s.yaml", loader=loader)
    assert str(caught.value) == f"s.yaml:{SLIPS[text]}"


def test_the_parsers_own_words_would_not_have_helped() -> None:
    with pytest.raises(yaml.YAMLError, match="mapping values are not allowed"):
        yaml.load("a: hello: you\n", Loader=LOADER)


def test_what_no_rule_knows_keeps_the_parsers_sentence_and_place() -> None:
    with pytest.raises(InputError, match=r"s.yaml:2:5: is no YAML: ") as caught:
        read_yaml("a: 1\n... x\n", "s.yaml")
    assert "document start" in str(caught.value)


def test_what_is_valid_is_not_touched() -> None:
    value, _, _ = read_yaml('a: "x: @y"\nb: it\'s\nc: {d: 50%}\n', "s.yaml")
    assert value == {"a": "x: @y", "b": "it's", "c": {"d": "50%"}}


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab:-?{}[],\"'@%*&!|>#\\ \t\n\r\u2028"), max_size=30))
def test_any_text_is_a_document_or_an_input_error(text: str) -> None:
    for loader in LOADERS:
        with contextlib.suppress(InputError):
            read_yaml(text, "s.yaml", loader=loader)

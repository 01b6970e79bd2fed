"""A document is read in one way or refused, and every value keeps the line it was written on."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.errors import Fault, InputError, InputErrors
from pytest_evarness.source.document import (
    MAX_BYTES,
    Document,
    load_document,
    parse_json,
    parse_yaml,
)
from pytest_evarness.source.number import WrittenFloat
from pytest_evarness.source.yamltext import LOADER, read_yaml
from tests.effort import calls_of


def refused(text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "s.yaml")
    return str(caught.value)


# -- duplicate keys (YML-01) ------------------------------------------------------------------


def test_a_repeated_key_is_refused_with_its_name_and_both_lines() -> None:
    text = (
        "id: refund-limit\n"
        "gates:\n"
        "  - {check: file_exists, path: receipt.json}\n"
        "invariants:\n"
        '  - {check: command_exit, command: "true", equals: 0, weight: 1}\n'
        "gates:\n"
        "  - {check: file_absent, path: error.log}\n"
    )
    assert refused(text) == "s.yaml:6:1: duplicate key (got 'gates' on line 6; first on line 2)"


def test_the_plain_loader_would_have_dropped_the_first_block() -> None:
    # The twin: without our own builder the earlier value vanishes in silence.
    assert yaml.safe_load("a: 1\na: 2\n") == {"a": 2}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("check:\n  path: a\n  path: b\n", "s.yaml:3:3: check"),
        ("tools:\n  t:\n  - result: 1\n    result: 2\n", "s.yaml:4:5: tools.t[0]"),
        ("a: {where: {x: 1, x: 2}}\n", "s.yaml:1:19: a.where"),
        ('a: 1\n"a": 2\n', "s.yaml:2:1"),
    ],
)
def test_a_repeated_key_is_refused_at_every_level(text: str, where: str) -> None:
    assert refused(text).startswith(f"{where}: duplicate key (got '")


def test_a_key_that_overrides_a_merged_one_is_no_duplicate() -> None:
    document = parse_yaml("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  x: 3\n")
    assert document.value["use"] == {"x": 3, "y": 2}
    assert document.where(("use", "x")).line == 4
    assert document.where(("use", "y")).line == 1


@pytest.mark.parametrize("second", ["2", "1", "null", "{z: 1}"])
def test_a_key_of_two_merged_mappings_is_refused_whatever_its_values(second: str) -> None:
    text = f"a: &a {{x: 1}}\nb: &b {{x: {second}, y: 2}}\nc:\n  <<: [*a, *b]\n"
    assert refused(text) == (
        "s.yaml:4:7: c: two merged mappings give the same key (got 'x' on line 1 and on line 2)\n"
        "  try: write the key in the mapping itself"
    )
    # The advice is taken: a written key wins over both.
    assert parse_yaml(text + "  x: 3\n").value["c"] == {"x": 3, "y": 2}
    assert parse_yaml(text.replace("b: &b {x: ", "b: &b {w: ")).value["c"]["x"] == 1


def test_a_key_that_two_merged_mappings_have_from_one_place_is_one_key() -> None:
    text = "a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: &c {<<: *a, z: 3}\nd: {<<: [*b, *c]}\n"
    assert parse_yaml(text).value["d"] == {"x": 1, "y": 2, "z": 3}


def test_two_merge_keys_in_one_mapping_are_a_duplicate() -> None:
    assert "duplicate key (got '<<'" in refused("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n")


def test_a_merge_of_something_else_is_refused() -> None:
    assert refused("a: {<<: 3}\n") == (
        "s.yaml:1:9: a: '<<' takes a mapping or a list of mappings (got 3)"
    )


def test_a_quoted_merge_sign_is_an_ordinary_key() -> None:
    assert parse_yaml('{"<<": {x: 1}}').value == {"<<": {"x": 1}}


# -- types (YML-03, YML-04, YML-05) -------------------------------------------------------------


@pytest.mark.parametrize("word", ["NO", "no", "on", "off", "yes", "y", "True", "FALSE", "Yes"])
def test_only_true_and_false_are_booleans(word: str) -> None:
    assert parse_yaml(f"v: {word}\n").value == {"v": word}


def test_true_and_false_are_booleans() -> None:
    assert parse_yaml("[true, false]").value == [True, False]


def test_words_that_older_readers_turn_into_booleans_stay_keys() -> None:
    assert parse_yaml("NO: a\non: b\n").value == {"NO": "a", "on": "b"}
    assert yaml.safe_load("NO: a\non: b\n") == {False: "a", True: "b"}  # the twin


@pytest.mark.parametrize("word", ["null", "Null", "NULL", "~", ""])
def test_null_has_the_forms_of_yaml_1_2(word: str) -> None:
    assert parse_yaml(f"v: {word}\n").value == {"v": None}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("9007199254740992", 2**53),
    ],
)
def test_integers_are_those_of_yaml_1_2(text: str, value: int) -> None:
    found = parse_yaml(f"v: {text}\n").value["v"]
    assert found == value
    assert type(found) is int


@pytest.mark.parametrize(
    ("text", "value"), [("1e3", 1000.0), ("0.10", 0.1), (".5", 0.5), ("5.", 5.0), ("-1E-3", -0.001)]
)
def test_a_number_keeps_its_written_digits(text: str, value: float) -> None:
    found = parse_yaml(f"v: {text}\n").value["v"]
    assert isinstance(found, WrittenFloat)
    assert found == value
    assert found.written == text


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01",
        "12:30",
        "1_000",
        "0b11",
        "1.2.3",
        "0o18",
        "0xZZ",
        "+",
        "-x",
        ".",
        "e3",
        "1e",
        "<",
    ],
)
def test_what_only_looks_like_a_number_stays_text(text: str) -> None:
    assert parse_yaml(f"v: {text}\n").value == {"v": text}


def test_an_integer_with_a_leading_zero_is_refused_with_the_advice_to_quote_it() -> None:
    assert refused("a: 1\nzip: 01730\n") == (
        "s.yaml:2:6: zip: a leading zero makes it octal to some readers of YAML (got '01730')\n"
        '  try: write "01730" with quotes for a text, or 1730 for a number'
    )
    assert parse_yaml('zip: "01730"').value == {"zip": "01730"}


@pytest.mark.parametrize("text", [".nan", ".inf", "-.INF", ".NaN"])
def test_what_is_not_finite_is_refused(text: str) -> None:
    assert refused(f"v: {text}\n").startswith(
        f"s.yaml:1:4: v: must be a finite number (got '{text}')"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("9007199254740993", "the integer is beyond what every reader keeps exact"),
        ("1e400", "the number is too large"),
        ("1e-400", "the number is too small"),
        ("1e-99999999999", "the number is too small"),
        ("1" * 5000, "the integer is beyond what every reader keeps exact"),
        ("0." + "1" * 5000, "the number is too long"),
    ],
)
def test_a_number_that_readers_would_disagree_on_is_refused(text: str, problem: str) -> None:
    assert refused(f"v: {text}\n").startswith(f"s.yaml:1:4: v: {problem}")


def test_a_quoted_scalar_is_text_whatever_it_looks_like() -> None:
    assert parse_yaml("""["1", 'true', "~", "01730", ".nan"]""").value == [
        "1", "true", "~", "01730", ".nan",
    ]  # fmt: skip


# -- keys, tags, control characters -------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "kind"), [("1", "integer"), ("1.5", "number"), ("true", "boolean"), ("null", "null")]
)
def test_a_key_that_is_no_text_is_refused_with_the_advice_to_quote_it(key: str, kind: str) -> None:
    assert refused(f"a:\n  {key}: x\n") == (
        f"s.yaml:2:3: a: a key must be text (got '{key}', which YAML reads as {kind})\n"
        f'  try: write "{key}" with quotes'
    )


def test_a_list_as_key_is_refused() -> None:
    assert refused("? [a]\n: 1\n").startswith('s.yaml:1:3: a key must be text (got ["a"])')


@pytest.mark.parametrize("tag", ["!!python/object:os.system", "!mine", "!!timestamp", "!!binary"])
def test_a_tag_outside_the_core_is_refused(tag: str) -> None:
    assert f"tags are refused (got '{tag}'; plain values only)" in refused(f"a: {tag} x\n")
    assert "tags are refused" in refused(f"a: {tag} {{}}\n")
    assert "tags are refused" in refused(f"a: {tag} []\n")


def test_core_tags_mean_what_they_say() -> None:
    value = parse_yaml("{a: !!str 5, b: !!int '5', c: !!map {}, d: !!float 1, e: ! 5}").value
    assert value == {"a": "5", "b": 5, "c": {}, "d": 1.0, "e": "5"}
    assert "must be integer as its tag says" in refused("a: !!int x\n")


@pytest.mark.parametrize("char", ["\x00", "\x01", "\x1f", "\x7f", "\x9f", "\ufffe"])
def test_a_control_character_is_refused_with_its_place(char: str) -> None:
    found = refused(f"a: 1\nb: x{char}y\n")
    assert found.startswith(
        f"s.yaml:2:5: a control character has no place in YAML (got U+{ord(char):04X}"
    )


LINE_ENDS = [("\x85", "a next line"), ("\u2028", "a line sep"), ("\u2029", "a paragraph sep")]


@pytest.mark.parametrize(("char", "name"), LINE_ENDS)
@pytest.mark.parametrize(
    "line", ["# said{}b: 2", "b: x{}c: 3", "b: 'x{}y'", 'b: "x{}y"', "b: [{}]"]
)
def test_a_line_end_that_only_some_readers_see_is_refused(char: str, name: str, line: str) -> None:
    found = refused("a: 1\n" + line.format(char) + "\n")
    assert found.startswith(f"s.yaml:2:{line.index('{') + 1}: {name}")
    assert "ends a line for some readers of YAML only (got U+" in found
    code = ord(char)
    escape = f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    assert found.endswith(f'try: write it as an escape in double quotes, "{escape}"')
    assert parse_yaml(f'a: "x{escape}y"').value == {"a": f"x{char}y"}


def test_a_parser_would_have_read_a_key_out_of_a_comment() -> None:
    # The twin: without the refusal the hidden key is there.
    text = "a: 1\n# said\u2028b: 2\n"
    assert yaml.load(text, Loader=LOADER) == {"a": 1, "b": 2}


def test_a_carriage_return_alone_is_refused_and_before_a_line_feed_it_is_not() -> None:
    assert refused("a: 1\r\n# said\rb: 2\n").startswith(
        "s.yaml:2:7: a carriage return alone ends a line for some readers of YAML only (got U+000D"
    )
    assert parse_yaml("a: 1\r\nb: 2\r\n").value == {"a": 1, "b": 2}


def test_a_control_character_may_be_written_as_an_escape() -> None:
    assert parse_yaml(r'a: "x\0\x01y"').value == {"a": "x\0\x01y"}


# -- encoding ---------------------------------------------------------------------------------


def test_a_byte_order_mark_is_accepted() -> None:
    document = parse_yaml(b"\xef\xbb\xbfa: 1\n", "s.yaml")
    assert document.value == {"a": 1}
    assert document.where(("a",)).column == 4


def test_bytes_that_are_not_utf_8_are_refused_with_the_offset() -> None:
    assert refused(b"a: 1\nb: caf\xe9\n") == (
        "s.yaml:2: is not UTF-8 (got byte 0xE9 at offset 11)\n  try: save the file as UTF-8"
    )


def test_a_lone_surrogate_is_refused() -> None:
    assert refused("a: x\ud800y").startswith("s.yaml: holds a lone surrogate (got U+D800")
    with pytest.raises(InputError, match=r"surrogate|Unicode"):
        parse_yaml(r'a: "\ud800"', "s.yaml")


def test_a_lone_surrogate_is_refused_without_the_c_library_too() -> None:
    with pytest.raises(InputError, match="surrogate"):
        read_yaml(r'a: "\ud800"', "s.yaml", loader=yaml.SafeLoader)


# -- one document, no syntax errors ---------------------------------------------------------------


def test_a_second_document_is_refused() -> None:
    assert refused("a: 1\n---\nb: 2\n") == (
        "s.yaml:2:1: a second document in one file (one file, one document)"
    )
    assert parse_yaml("---\na: 1\n...\n").value == {"a": 1}


def test_another_version_of_yaml_is_refused() -> None:
    assert "must be YAML 1.2 (got %YAML 1.1" in refused("%YAML 1.1\n---\na: NO\n")
    assert parse_yaml("%YAML 1.2\n---\na: NO\n").value == {"a": "NO"}


def test_an_empty_file_is_null() -> None:
    assert parse_yaml("").value is None
    assert parse_yaml("# nothing\n").value is None


def test_what_is_no_yaml_is_refused_at_its_line() -> None:
    assert refused("a: [1\nb: 2\n").startswith("s.yaml:2:2: the '[' of line 1 is not")


def test_independent_mistakes_are_told_at_once_in_the_order_of_their_lines() -> None:
    with pytest.raises(InputErrors) as caught:
        parse_yaml("a: .nan\nb: {c: 1, c: 2}\nd: 01\na: 3\n", "s.yaml")
    assert [error.where.line for error in caught.value.errors if error.where] == [1, 2, 3, 4]


# -- bounds (YML-07) --------------------------------------------------------------------------

BOMB = "id: bomb\nvars:\n  a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"  {name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


def test_nested_aliases_are_refused_quickly_and_in_little_memory() -> None:
    assert calls_of(lambda: refused(BOMB)) < 2_000_000  # ten million nodes would be written out
    tracemalloc.start()
    found = refused(BOMB)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "alias expansion is limited (got more than 100000 nodes at '*" in found
    assert peak < 256 * 1024 * 1024


def test_the_plain_loader_would_have_taken_the_bomb() -> None:
    assert "h" in yaml.safe_load(BOMB)["vars"]


def test_an_alias_of_a_long_text_is_bounded_too() -> None:
    text = f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 100)}]\n"
    assert "alias expansion is limited" in refused(text)


def test_six_megabytes_without_an_alias_load() -> None:
    line = "  - " + "x" * 96 + "\n"
    text = "files:\n" + line * 60_000
    assert len(text) > 6_000_000
    assert len(parse_yaml(text).value["files"]) == 60_000


def test_one_anchor_used_five_times_loads_beside_much_text() -> None:
    filler = "long: |\n" + ("  " + "x" * 98 + "\n") * 60_000
    text = filler + "a: &a {x: 1}\nb: [*a, *a, *a, *a, *a]\n"
    assert parse_yaml(text).value["b"] == [{"x": 1}] * 5


def test_an_alias_inside_its_own_anchor_is_refused() -> None:
    assert refused("a: &a [*a]\n") == "s.yaml:1:8: a[0]: an alias inside its own anchor (got '*a')"


def test_an_alias_of_nothing_is_refused() -> None:
    assert refused("a: *b\n") == "s.yaml:1:4: a: alias of an anchor that is not there (got '*b')"


def test_nesting_is_limited_to_a_hundred_levels() -> None:
    assert parse_yaml("[" * 100 + "]" * 100).value is not None
    assert "is nested too deeply (got more than 100 levels)" in refused("[" * 101 + "]" * 101)
    assert "nest" in refused("[" * 100_000)


def test_a_file_of_more_than_8_mib_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match=r"^big\.yaml: is too large \(got more than 8388608 bytes"):
        load_document(path, root=tmp_path)
    path.write_bytes(b"#" * MAX_BYTES)
    assert load_document(path, root=tmp_path).value is None


# -- files ------------------------------------------------------------------------------------


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^a\.yaml: no such file$"):
        load_document(tmp_path / "a.yaml", root=tmp_path)
    (tmp_path / "b.yaml").mkdir()
    with pytest.raises(InputError, match=r"^b\.yaml: is no file$"):
        load_document(tmp_path / "b.yaml", root=tmp_path)


def test_the_suffix_json_chooses_the_strict_json_reader(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text('{"a": 01}', encoding="utf-8")
    with pytest.raises(InputError, match=r"^graph\.json:1:7: a: is no JSON: a value expected"):
        load_document(path, root=tmp_path)


def test_the_bytes_are_kept_for_digests(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: 1\r\n")
    assert load_document(path).data == b"a: 1\r\n"


# -- places -----------------------------------------------------------------------------------


def test_every_value_has_its_line_and_column() -> None:
    document = parse_yaml("a:\n  b:\n    - x\n    - {c: 1, d: [2]}\n", "s.yaml")
    places = {
        ("a",): (2, 3),
        ("a", "b"): (3, 5),
        ("a", "b", 1, "c"): (4, 11),
        ("a", "b", 1, "d", 0): (4, 18),
    }
    for path, (line, column) in places.items():
        where = document.where(path)
        assert (where.line, where.column) == (line, column)
    assert str(document.where(("a", "b", 1, "d"), at_key=True)) == "s.yaml:4:14: a.b[1]"


def test_a_path_that_is_not_there_stands_at_its_nearest_ancestor() -> None:
    document = parse_yaml("a:\n  b: 1\n", "s.yaml")
    assert str(document.where(("a", "c", "d"))) == "s.yaml:2:3: a.c.d"


def test_a_key_with_a_dot_is_written_in_brackets() -> None:
    fault = Fault(("tools", "email.send", 0), "wrong")
    document = parse_yaml("tools: {email.send: [1]}", "s.yaml")
    assert str(document.error(fault)) == 's.yaml:1:22: tools["email.send"][0]: wrong'


# -- both parsers, both formats -----------------------------------------------------------------

SAMPLES = [
    "a: 1\nb: [x, {c: ~}]\n",
    "a: |\n  text\n  more\nb: >-\n  folded\n  text\n",
    "x: &x {k: [1, 2]}\ny: *x\nz:\n  <<: *x\n  q: 'r'\n",
    '"q\\u00e9": "\\t"\n',
    "- - 1\n  - 2\n- 3\n",
]


@pytest.mark.parametrize("text", SAMPLES)
def test_both_parsers_give_the_same_values_and_places(text: str) -> None:
    slow, slow_places, slow_root = read_yaml(text, "s.yaml", loader=yaml.SafeLoader)
    fast, fast_places, fast_root = read_yaml(text, "s.yaml")
    assert slow == fast
    slow_document = Document(slow, "s.yaml", slow_places, slow_root)
    fast_document = Document(fast, "s.yaml", fast_places, fast_root)
    for path in paths(slow):
        assert str(slow_document.where(path)) == str(fast_document.where(path))


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path]
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in children:
        found.extend(paths(child, (*path, key)))
    return found


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
).filter(lambda value: "\\ud" not in json.dumps(value).lower())


@given(JSON_VALUES)
def test_json_is_read_as_the_standard_library_reads_it(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        assert parse_json(text).value == json.loads(text)


@given(JSON_VALUES)
def test_places_of_json_point_at_the_values(value: Any) -> None:
    text = json.dumps(value, indent=1)
    lines = text.split("\n")
    document = parse_json(text, "v.json")
    for path in paths(value):
        where = document.where(path)
        assert where.line is not None
        assert where.column is not None
        rest = "\n".join([lines[where.line - 1][where.column - 1 :], *lines[where.line :]])
        found, _ = json.JSONDecoder().raw_decode(rest)
        current = value
        for part in path:
            current = current[part]
        assert found == current


@given(JSON_VALUES)
@settings(max_examples=60)
def test_what_a_yaml_writer_quotes_is_read_back(value: Any) -> None:
    # Single-quoted scalars of another writer: only texts, so that no type rule takes part.
    text = json.dumps(value, ensure_ascii=True)
    if "\\u00" in text or "e" in text.lower():
        return
    assert parse_yaml(text).value == json.loads(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "a": 2}', "v.json:2:2: duplicate key (got 'a' on line 2; first on line 1)"),
        ('{"a": NaN}', "v.json:1:7: a: must be a finite number (got 'NaN')"),
        ('{"a": -Infinity}', "v.json:1:7: a: must be a finite number (got '-Infinity')"),
        ('{"a": 1} x', "v.json:1:10: something stands after the document's end"),
        ('{"a": 1,}', "v.json:1:9: is no JSON: a key in double quotes expected (got '}')"),
        ("{'a': 1}", "v.json:1:2: is no JSON: a key in double quotes expected (got ''')"),
        ("[1 2]", "v.json:1:4: [1]: is no JSON: ',' or ']' expected (got '2')"),
        ('["\\ud800"]', "v.json:1:2: [0]: holds a lone surrogate"),
        (
            "[9007199254740993]",
            "v.json:1:2: [0]: the integer is beyond what every reader keeps exact",
        ),
        ("[1e400]", "v.json:1:2: [0]: the number is too large"),
        ("", "v.json:1:1: is no JSON: a value expected, the text ends"),
        ("[01]", "v.json:1:2: [0]: is no JSON: a value expected (got '01')"),
        ("[True]", "v.json:1:2: [0]: is no JSON: a value expected (got 'True')"),
        ('["a\nb"]', "v.json:1:4: [0]: is no JSON: invalid control character"),
        ("[" * 101, "v.json:1:101: "),
    ],
)
def test_json_is_strict(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_json(text, "v.json")
    assert str(caught.value).startswith(message)


def test_tabs_are_space_in_json() -> None:
    assert parse_json('{\t"a":\t[1,\r\n2]}').value == {"a": [1, 2]}


# -- nothing but values or our errors ---------------------------------------------------------


@given(st.text() | st.text("{}[]:,-&*!<>|'\"#%@` \n\tabc01.~?", max_size=60))
@settings(max_examples=300)
def test_any_text_gives_a_document_or_our_error(text: str) -> None:
    for read in (parse_yaml, parse_json):
        with contextlib.suppress(InputError):
            json.dumps(read(text, "s").value)


@given(st.binary(max_size=40))
def test_any_bytes_give_a_document_or_our_error(data: bytes) -> None:
    for read in (parse_yaml, parse_json):
        with contextlib.suppress(InputError):
            json.dumps(read(data, "s").value)

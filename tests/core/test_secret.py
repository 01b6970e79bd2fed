"""No form of a secret reaches an event: it is replaced before anything is hashed."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.core.secret import Masker, placeholder, read_secrets
from pytest_evarness.errors import InputError
from tests.core.building import kernel_registry, run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_evarness.core.interfaces import Context

TOKEN = "s3cr3t-9f2"
HARD = 'p"a\\s/s é☃+ \U0001f680=&%<>'
MARK = placeholder("PAY")


def percent_all(value: str) -> str:
    return "".join(f"%{byte:02x}" for byte in value.encode())


FORMS: dict[str, Callable[[str], str]] = {
    "raw": lambda value: value,
    "url": lambda value: urllib.parse.quote(value, safe=""),
    "url with slashes": urllib.parse.quote,
    "form": urllib.parse.quote_plus,
    "lower url": percent_all,
    "json": lambda value: json.dumps(value)[1:-1],
    "json utf8": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "json in json": lambda value: json.dumps(json.dumps(value)[1:-1])[1:-1],
    "url twice": lambda value: urllib.parse.quote(urllib.parse.quote(value, safe="")),
    "url thrice": lambda value: percent_all(value).replace("%", "%2525"),
    "form twice": lambda value: urllib.parse.quote_plus(urllib.parse.quote_plus(value)),
    "html": html.escape,
    "html in html": lambda value: html.escape(html.escape(value)),
    "html numbers": lambda value: "".join(f"&#{ord(char)};" for char in value),
    "html hex numbers": lambda value: "".join(f"&#x{ord(char):04X};" for char in value),
    "repr": lambda value: repr(value)[1:-1],
    "ascii": lambda value: ascii(value)[1:-1],
    "repr of bytes": lambda value: repr(value.encode())[2:-1],
    "repr in json": lambda value: json.dumps(repr(value.encode())[2:-1])[1:-1],
    "hex": lambda value: value.encode().hex(),
    "upper hex": lambda value: value.encode().hex().upper(),
    "hex with colons": lambda value: value.encode().hex(":"),
    "hex dump": lambda value: value.encode().hex(" "),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 url": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "base64 bare": lambda value: base64.b64encode(value.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("value", [TOKEN, HARD, "abcd", "\\\\\\\\", "....", "a b c d"])
@pytest.mark.parametrize("form", sorted(FORMS))
def test_each_form_becomes_the_placeholder_whole(value: str, form: str) -> None:
    masker = Masker({"PAY": value})
    written = FORMS[form](value)
    assert masker.text(f"<{written}>") == f"<{MARK}>"


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "x" * 7])
@pytest.mark.parametrize("after", ["", "!", "!!", "!!!"])
def test_inside_a_longer_base64_text_nothing_of_it_can_be_read(before: str, after: str) -> None:
    masker = Masker({"PAY": TOKEN})
    whole = base64.b64encode((before + TOKEN + after).encode()).decode()
    masked = masker.text(f"Basic {whole}")
    assert MARK in masked
    left = masked.replace(MARK, "").removeprefix("Basic ")
    # What is left encodes the neighbours, and the few bits that share a character with them.
    assert len(left) <= len(base64.b64encode((before + after).encode())) + 4


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=12), st.data())
def test_any_mixture_of_escapes_is_found(value: str, data: st.DataObject) -> None:
    per_character = (
        lambda char: char,
        percent_all,
        lambda char: percent_all(char).upper(),
        lambda char: json.dumps(char)[1:-1],
        html.escape,
        lambda char: f"&#{ord(char)};",
        lambda char: percent_all(char).replace("%", "%25"),
        lambda char: "".join(f"\\x{byte:02x}" for byte in char.encode()),
    )
    written = "".join(data.draw(st.sampled_from(per_character))(char) for char in value)
    masked = Masker({"PAY": value}).text(f"[{written}]")
    assert MARK in masked
    assert written not in masked


def test_text_without_a_secret_is_left_alone() -> None:
    masker = Masker({"PAY": TOKEN})
    for text in ("", "s3cr3t-9f", "S3CR3T-9F2", "czNjcjN0LTlm", "plain"):
        assert masker.text(text) == text


def test_keys_numbers_and_depths_are_masked() -> None:
    masker = Masker({"PAY": TOKEN, "PIN": "90210", "RATE": "0.125"})
    value = {TOKEN: [{"x": f"a{TOKEN}b"}], "n": 90210, "f": 0.125, "b": True, "z": None}
    assert masker.value(value) == {
        MARK: [{"x": f"a{MARK}b"}],
        "n": placeholder("PIN"),
        "f": placeholder("RATE"),
        "b": True,
        "z": None,
    }


def test_two_keys_with_one_secret_do_not_fall_together() -> None:
    masker = Masker({"PAY": TOKEN})
    value = {TOKEN: 1, percent_all(TOKEN): 2, MARK: 3}
    assert sorted(masker.value(value).values()) == [1, 2, 3]


def test_the_longer_secret_gets_its_own_name() -> None:
    masker = Masker({"A": "abcd", "B": "abcdef"})
    assert masker.text("abcdef abcd") == f"{placeholder('B')} {placeholder('A')}"


@pytest.mark.parametrize("value", ["", "x", "abc"])
def test_a_value_too_short_to_mask_is_refused(value: str) -> None:
    message = rf"^secrets: the value of PAY is too short to be masked \(got {len(value)} characters"
    with pytest.raises(InputError, match=message):
        Masker({"PAY": value})
    with pytest.raises(InputError, match=message):
        read_secrets(["PAY"], {"PAY": value})


def test_an_unset_variable_is_an_error() -> None:
    with pytest.raises(InputError, match=r"^secrets: environment variable is not set .*'PAY'"):
        read_secrets(["PAY"], {})
    assert read_secrets(["PAY"], {"PAY": TOKEN, "OTHER": "x"}) == {"PAY": TOKEN}


def test_a_run_emits_no_form_of_a_secret_and_says_so_before_hashing() -> None:
    def leak(inputs: Mapping[str, Any], config: Any, context: Context) -> Mapping[str, Any]:
        for form in FORMS.values():
            context.emit("custom.leak", {"text": form(TOKEN), form(TOKEN): [TOKEN]})
        context.set_output(f"it is {TOKEN}")
        return {"out": 1}

    def crash(inputs: Mapping[str, Any], config: Any, context: Context) -> Mapping[str, Any]:
        raise ValueError(f"bad token {TOKEN}")

    registry = kernel_registry(leak=leak, crash=crash)
    document = {"id": "g", "nodes": [{"id": "a", "type": "leak"}, {"id": "b", "type": "crash"}]}
    run = run_of(document, registry, secrets={"PAY": TOKEN})
    record = json.dumps(run.as_record())
    for form in FORMS.values():
        assert form(TOKEN) not in record
    assert run.error == f"ValueError: bad token {MARK}"
    assert run.output == f"it is {MARK}"
    # The twin: without the secret's name the same run shows the value.
    assert TOKEN in json.dumps(run_of(document, registry).as_record())


def test_a_secret_across_the_cut_of_a_long_text_does_not_show_its_first_half() -> None:
    def leak(inputs: Mapping[str, Any], config: Any, context: Context) -> Mapping[str, Any]:
        context.emit("custom.leak", {"text": "x" * 4090 + TOKEN + "y" * 100})
        return {"out": 1}

    registry = kernel_registry(leak=leak)
    run = run_of(
        {"id": "g", "nodes": [{"id": "a", "type": "leak"}]}, registry, secrets={"PAY": TOKEN}
    )
    payload: Any = run.events[2].payload
    assert payload["truncated"] is True
    assert "s3cr" not in payload["text"]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b": f"x {TOKEN}"}]}, ("a", 1, "b")),
        ({"a": {TOKEN: 1}}, ("a",)),
        ({TOKEN: {TOKEN: 1}}, ()),
        (TOKEN, ()),
        ({"a": [1, {"b": "x"}], "c": None, "d": 1.5, "e": True}, None),
    ],
)
def test_the_place_of_a_secret_is_a_path_without_it(value: Any, path: Any) -> None:
    assert Masker({"PAY": TOKEN}).find(value) == path
    assert Masker({}).find(value) is None


def test_what_a_cut_leaves_of_a_secret_is_replaced_where_it_is_shown() -> None:
    masker = Masker({"KEY": 'tok-"9é3baf1c7', "OTHER": "hunter22"})
    shown = masker.shown
    assert shown('x tok-"9é3…') == "x «secret:KEY»…"
    assert shown('"x tok-\\"9\\u00e93…"') == '"x «secret:KEY»…"'
    assert shown('"x tok-\\"9é3…"') == '"x «secret:KEY»…"'
    assert shown("…baf1c7 and hunt…er22") == "…«secret:KEY» and «secret:OTHER»…«secret:OTHER»"
    assert shown(["a hunte…", {"k": "whole hunter22"}]) == [
        "a «secret:OTHER»…",
        {"k": "whole «secret:OTHER»"},
    ]


def test_what_is_no_rest_of_a_secret_stays() -> None:
    masker = Masker({"OTHER": "hunter22"})
    for text in ("hun…", "…r22", "hunte", "hunter…", "a…b", "hunte x…"):
        assert masker.text(text) == text, "a text that is not shown is not looked at for this"
    assert masker.shown("hun…") == "hun…"
    assert masker.shown("…r22") == "…r22"
    assert masker.shown("hunte") == "hunte"
    assert masker.shown("hunte x…") == "hunte x…"
    assert masker.shown([1, None, {"a": 2}]) == [1, None, {"a": 2}]
    assert Masker({}).shown("hunte…") == "hunte…"

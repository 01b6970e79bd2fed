"""What holds of all requests: how they travel changes nothing, matching agrees with its rule."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from urllib.parse import quote, quote_plus

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.core import c1
from pytest_evarness.core.matcher import MISSING, Undecided, same
from pytest_evarness.world.http.condition import PathPattern, compile_conditions, parse_conditions
from pytest_evarness.world.http.difference import differences
from pytest_evarness.world.http.message import body_record, path_text, query_pairs
from pytest_evarness.world.http.view import NotJson, Parsed, View, read_json
from tests.world.http.mocks import entries, mock

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
SMALL = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(-2, 2, width=16),
    st.text("ab", max_size=2),
)
JSON = st.recursive(
    SMALL,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", max_size=2), inner),
    max_leaves=6,
)
SEGMENT = st.text(st.sampled_from("ab%/ é?"), min_size=1, max_size=3)


@given(st.binary(max_size=40), st.integers(0, 50))
def test_a_body_comes_back_from_the_journal_as_far_as_it_was_kept(data: bytes, room: int) -> None:
    record = body_record(data, room, is_whole=True)
    assert record["body_digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert ("size" in record) is ("truncated" in record) is (len(data) > room)
    if record["body"] is None:
        assert base64.b64decode(record["body_base64"]) == data[:room]
    else:
        kept = record["body"].encode()
        assert data.startswith(kept)
        # At most the rest of one character is dropped beside what did not fit.
        assert len(kept) == len(data) or room - len(kept) < 4
    assert c1.text(record)


@given(st.lists(SEGMENT, min_size=1, max_size=4))
def test_however_a_path_is_escaped_it_has_one_name(segments: list[str]) -> None:
    usual = "/".join(["", *(quote(one, safe="") for one in segments)])
    every = "/".join(["", *("".join(f"%{byte:02x}" for byte in one.encode()) for one in segments)])
    assert path_text(usual.encode()) == path_text(every.encode())


@given(st.lists(SEGMENT, min_size=1, max_size=4), st.lists(SEGMENT, min_size=1, max_size=4))
def test_two_paths_never_share_a_name(one: list[str], other: list[str]) -> None:
    names = [
        path_text("/".join(["", *(quote(part, safe="") for part in parts)]).encode())
        for parts in (one, other)
    ]
    assert (names[0] == names[1]) is (one == other)


@given(st.binary(max_size=30))
def test_any_bytes_have_a_path_and_a_query_that_json_holds(raw: bytes) -> None:
    assert c1.text([path_text(raw), query_pairs(raw)])


@given(st.lists(st.tuples(TEXT.filter(bool), TEXT), max_size=5))
def test_a_query_comes_back_in_its_order(pairs: list[tuple[str, str]]) -> None:
    raw = "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in pairs)
    assert list(query_pairs(raw.encode())) == pairs


@given(st.lists(st.one_of(SEGMENT, st.none()), min_size=1, max_size=4), st.data())
def test_a_pattern_takes_exactly_the_paths_of_its_shape(
    pattern: list[str | None], data: st.DataObject
) -> None:
    plain = [None if part is None else part.replace("?", "q") for part in pattern]
    written = "/".join(
        ["", *(f"{{n{at}}}" if part is None else quote(part) for at, part in enumerate(plain))]
    )
    path = data.draw(st.lists(SEGMENT, min_size=1, max_size=4))
    fits = path == plain or (
        len(path) == len(plain)
        and all(want is None or want == got for want, got in zip(plain, path, strict=True))
    )
    if any("/" in (part or "") for part in plain):
        return  # quote leaves a slash: that is another path
    name = path_text("/".join(["", *(quote(part, safe="") for part in path)]).encode())
    assert PathPattern.read(written).matches(name) is fits


def view(body: str) -> View:
    record = {"n": 1, "method": "POST", "path": "/x", "query": [], "headers": []}
    return View({**record, **body_record(body.encode(), 1000, is_whole=True), "matched": True})


@given(JSON, JSON)
def test_a_mapping_or_list_is_equal_to_the_parsed_body_by_type(asked: Any, got: Any) -> None:
    made, faults = parse_conditions({"body": {"equals": [asked]}}, is_filter=True)
    assert faults == []
    conditions = compile_conditions(c1.frozen(made)[0])
    assert conditions.test(view(json.dumps([got]))) is same(asked, got)


@given(JSON, JSON)
def test_values_differ_exactly_where_differences_are_told(expected: Any, got: Any) -> None:
    told = differences(expected, got, "body")
    assert bool(told) is not same(expected, got)
    for sentence in told:
        _, _, said = sentence.partition("expected ")
        wanted, _, met = said.partition(", got ")
        assert wanted != met or "U+" in sentence


@given(JSON)
def test_the_difference_to_nothing_is_told_too(value: Any) -> None:
    assert differences(value, MISSING)
    assert differences(MISSING, value)


@given(JSON)
def test_what_json_writes_is_read_back(value: Any) -> None:
    read = read_json(json.dumps(value))
    assert isinstance(read, Parsed)
    assert same(read.value, value)


@given(TEXT)
def test_any_text_is_read_or_told_why_not(text: str) -> None:
    assert isinstance(read_json(text), Parsed | NotJson | Undecided)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.sampled_from(["GET", "POST"]), st.sampled_from(["/a", "/b", "/c"]), JSON),
        max_size=6,
    )
)
def test_every_request_is_noted_once_in_order_whatever_the_routes(sent: list[Any]) -> None:
    service = mock(routes=[{"path": "/a"}, {"method": "POST", "path": "/b", "fault": [None, None]}])
    for method, path, body in sent:
        service.request(method, path, body=body)
    service.seal()
    journal = entries(service)
    assert [(one["n"], one["method"], one["path"]) for one in journal] == [
        (number, method, path) for number, (method, path, _) in enumerate(sent, 1)
    ]
    assert [one["route"] for one in journal] == [
        0 if path == "/a" else 1 if (method, path) == ("POST", "/b") else None
        for method, path, _ in sent
    ]
    assert [one["matched"] for one in journal] == [one["route"] is not None for one in journal]

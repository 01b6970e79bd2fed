"""Contents travel with a case, each under its own digest and in one form only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.core import c1
from pytest_evarness.core.case import CompiledCase
from pytest_evarness.core.material import (
    as_materials,
    check_materials,
    material_bytes,
    sha256_bytes,
)
from pytest_evarness.errors import InputError
from tests.core.building import case_of, kernel_registry, row

REGISTRY = kernel_registry()
DATA = (b"text\r\n\x00", "ü\ud7ff".encode(), b"\xff\xfe", b"")


def keyed(*data: bytes) -> dict[str, bytes]:
    return {sha256_bytes(one): one for one in data}


@given(st.lists(st.binary(max_size=40)))
def test_bytes_come_back_as_they_were(data: list[bytes]) -> None:
    made = json.loads(c1.text(as_materials(keyed(*data))))
    check_materials(made)
    assert {digest: material_bytes(value) for digest, value in made.items()} == keyed(*data)


def test_a_text_is_a_text_and_what_is_none_is_base64() -> None:
    assert as_materials(keyed(b"a", b"\xff")) == {
        sha256_bytes(b"a"): "a",
        sha256_bytes(b"\xff"): {"base64": "/w=="},
    }


@pytest.mark.parametrize(
    ("digest", "value", "message"),
    [
        (sha256_bytes(b"a"), "b", "a content does not stand under its digest"),
        (sha256_bytes(b"a"), {"base64": "YQ=="}, "a text is written as base64"),
        (sha256_bytes(b"a"), {"base64": "YQ"}, "no content under"),
        (sha256_bytes(b"a"), {"text": "a"}, "no content under"),
        (sha256_bytes(b"a"), 1, "no content under"),
        ("x", "a", "a content does not stand under its digest"),
    ],
)
def test_what_is_none_is_refused(digest: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=rf"^materials: {message}"):
        check_materials({digest: value})


# -- in a case ------------------------------------------------------------------------------------


def made(**parts: Any) -> CompiledCase:
    return case_of(row("t_input"), REGISTRY, **parts)


def again(case: CompiledCase, **changes: str) -> CompiledCase:
    return CompiledCase.from_texts(
        changes.get("text", case.text),
        case.graph_text,
        case.overlays_text,
        REGISTRY,
        materials_text=changes.get("materials_text", case.materials_text),
    )


def test_a_case_names_its_contents_by_one_digest() -> None:
    case = made(contents=keyed(*DATA))
    assert json.loads(case.text)["materials"] == c1.sha256_text(case.materials_text)
    assert case.materials_digest == c1.sha256_text(case.materials_text)
    read = again(case)
    assert (read.text, read.materials) == (case.text, case.materials)
    assert [read.material(sha256_bytes(one)) for one in DATA] == list(DATA)
    with pytest.raises(KeyError):
        case.material("sha256:0")


def test_a_case_without_contents_says_nothing_of_them() -> None:
    case = made()
    assert "materials" not in json.loads(case.text)
    assert case.materials_digest is None
    assert again(case).text == case.text


def test_contents_are_part_of_the_digest() -> None:
    digests = {made(contents=keyed(*data)).digest for data in ((), (b"a",), (b"b",))}
    assert len(digests) == 3


def test_contents_that_do_not_belong_to_the_case_are_refused() -> None:
    case = made(contents=keyed(b"a"))
    with pytest.raises(InputError, match=r"^case\.materials: differs from the text"):
        again(case, materials_text=c1.text(as_materials(keyed(b"b"))))
    with pytest.raises(InputError, match=r"^case\.materials: there are materials and the case"):
        again(case, text=made().text)
    forged = c1.text({sha256_bytes(b"a"): "b"})
    record = {**json.loads(case.text), "materials": c1.sha256_text(forged)}
    with pytest.raises(InputError, match=r"^materials: a content does not stand under its digest"):
        again(case, text=c1.text(record), materials_text=forged)

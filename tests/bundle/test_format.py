"""The format page is the format: its vectors are ours, and it lists every field."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pytest_evarness.bundle.canonical import canonical_bytes, canonical_digest
from pytest_evarness.bundle.envelope import PAYLOAD_TYPE, envelope_bytes, signed_bytes
from pytest_evarness.bundle.key import PublicKey, SigningKey
from pytest_evarness.bundle.schema import STATEMENT, check_shape, json_schema
from pytest_evarness.bundle.seal import binding_of
from pytest_evarness.core import c1
from pytest_evarness.errors import UnverifiedError
from tests.bundle.builder import APPROVE, WEIGHED, changed, statement_of
from tests.bundle.test_mutation import ON_WORD

PAGE = (Path(__file__).parents[2] / "docs" / "bundle-format.md").read_text(encoding="utf-8")


def vector(name: str) -> dict[str, Any]:
    (text,) = re.findall(rf"^```json vector {name}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return json.loads(text)  # type: ignore[no-any-return]


def test_the_vector_of_the_canonical_form() -> None:
    given = vector("canonical")
    data = canonical_bytes(json.loads(given["value"]))
    assert hashlib.sha256(data).hexdigest() == given["sha256"]


def test_the_vector_of_the_envelope() -> None:
    given = vector("envelope")
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(given["private_key_seed"]))
    public = PublicKey(private.public_key().public_bytes_raw())
    payload = given["payload"].encode()
    assert public.raw.hex() == given["public_key"]
    assert public.keyid == given["keyid"]
    assert signed_bytes(PAYLOAD_TYPE, payload).hex() == given["signed_bytes"]
    envelope = json.loads(envelope_bytes(payload, SigningKey(private, public)))
    assert envelope["signatures"] == [{"keyid": given["keyid"], "sig": given["sig"]}]
    public.verify(base64.b64decode(given["sig"]), bytes.fromhex(given["signed_bytes"]))


def test_the_vectors_of_the_digests() -> None:
    given = vector("digests")
    assert [c1.text(json.loads(text)) for text in given["events"]] == given["events"]
    assert c1.digests(given["events"]) == (given["trace_digest"], given["chain_digest"])
    binding = binding_of(
        given["seal_digest"],
        given["nodeid"],
        given["replica"],
        given["label"],
        given["chain_digest"],
    )
    assert binding == given["binding"]
    record = vector("record")
    assert canonical_digest(record["record"]) == record["digest"]


def field_names(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(field_names, value.values()))
    if isinstance(value, list):
        return set().union(*map(field_names, value))
    return set()


def test_every_field_of_a_statement_is_on_the_page() -> None:
    checked = changed(APPROVE, case="checked", checks={"held": "hello"})
    names = field_names(statement_of(APPROVE, WEIGHED, checked, broken=[("x", "y")]))
    written = set(re.findall(r"[A-Za-z_0-9]+", " ".join(re.findall(r"`([^`]*)`", PAGE))))
    assert names - written == set()


@pytest.mark.parametrize("word", ["completed", "unscripted", "run_paused", "evarness-run-v1"])
def test_the_test_above_would_notice_a_missing_word(word: str) -> None:
    assert word in PAGE


def test_the_page_lists_what_stays_on_the_signers_word() -> None:
    section = PAGE.split("## What stays on the signer's word")[1]
    rows = re.findall(r"^\| `([a-z_.]+)` \|", section, re.MULTILINE)
    named = {".".join(str(step) for step in path[1:] if isinstance(step, str)) for path in ON_WORD}
    assert set(rows) == named


def test_the_limits_on_the_page_are_the_ones_in_force() -> None:
    from pytest_evarness.bundle.reading import MAX_BUNDLE_BYTES, MAX_DEPTH

    assert f"{MAX_BUNDLE_BYTES // 2**20} MiB" in PAGE
    assert f"| {MAX_DEPTH} |" in PAGE


def _lacks(seal: dict[str, Any]) -> None:
    del seal["settings"]["min_scenarios"]


def _has_more(seal: dict[str, Any]) -> None:
    seal["later"] = []


def _is_later(seal: dict[str, Any]) -> None:
    seal["format"] = 2


def _is_wrong(seal: dict[str, Any]) -> None:
    seal["settings"]["min_scenarios"] = "two"


OTHER_BUILD = "it was made by another build of format 1"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_lacks, "seal.settings: missing field min_scenarios; unless somebody changed it, "),
        (_has_more, 'predicate.seal: unknown field "later"; unless somebody changed it, '),
        (
            _is_later,
            "seal.format: must be 1, the only format that this version reads (got 2); read",
        ),
        # The twin: a value of the wrong kind is nobody's format.
        (_is_wrong, "seal.settings.min_scenarios: must be a count"),
    ],
)
def test_a_bundle_of_another_build_of_the_format_is_told_as_one(change: Any, told: str) -> None:
    statement = statement_of(APPROVE, signed=False)
    check_shape(statement, STATEMENT)
    change(statement["predicate"]["seal"])
    with pytest.raises(UnverifiedError) as caught:
        check_shape(statement, STATEMENT)
    assert told in caught.value.problem
    assert (OTHER_BUILD in caught.value.problem) is (change in (_lacks, _has_more))
    assert ("make the bundle anew" in caught.value.problem) is (change in (_lacks, _has_more))


def test_the_page_says_what_becomes_of_fields_before_the_first_release() -> None:
    assert "`seal.format` is 1. Before the first release format 1 may still gain fields" in PAGE
    assert json_schema(STATEMENT)["properties"]["predicate"]["properties"]["seal"]["properties"][
        "format"
    ] == {"enum": [1]}

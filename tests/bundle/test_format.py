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
from pytest_evarness.bundle.seal import binding_of
from pytest_evarness.core import c1
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

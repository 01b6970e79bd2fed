"""An envelope is DSSE v1.0.2, written in one way and read strictly."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope as OtherEnvelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.bundle.envelope import (
    PAYLOAD_TYPE,
    envelope_bytes,
    parse_envelope,
    signed_bytes,
)
from pytest_evarness.bundle.key import SigningKey, make_key
from pytest_evarness.errors import UnverifiedError


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return make_key(tmp_path / "key.pem")


def other_key(key: SigningKey) -> SSlibKey:
    return SSlibKey.from_dict(
        key.keyid,
        {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": key.public.raw.hex()}},
    )


def file(record: Any) -> bytes:
    return canonical_bytes(record) + b"\n"


def test_lengths_are_counted_in_bytes() -> None:
    # The vector of the DSSE document, then one whose payload type is longer in bytes than in
    # characters.
    assert signed_bytes("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert signed_bytes("text/é", b"x").startswith(b"DSSEv1 7 ")


def test_another_implementation_verifies_the_envelope(key: SigningKey) -> None:
    data = json.loads(envelope_bytes(b'{"a":1}', key))
    other = OtherEnvelope.from_dict(data)
    assert other.pae() == signed_bytes(PAYLOAD_TYPE, b'{"a":1}')
    assert list(other.verify([other_key(key)], 1)) == [key.keyid]


def test_the_other_implementation_would_notice_another_payload(key: SigningKey) -> None:
    data = json.loads(envelope_bytes(b'{"a":1}', key))
    data["payload"] = base64.b64encode(b'{"a":2}').decode()
    with pytest.raises(VerificationError):
        OtherEnvelope.from_dict(data).verify([other_key(key)], 1)


def test_an_envelope_reads_back(key: SigningKey) -> None:
    data = envelope_bytes(b"{}", key)
    envelope = parse_envelope(json.loads(data), data)
    assert (envelope.payload, envelope.keyid) == (b"{}", key.keyid)
    assert envelope.signature is not None
    key.public.verify(envelope.signature, signed_bytes(PAYLOAD_TYPE, b"{}"))


def test_an_unsigned_envelope_has_no_signature() -> None:
    data = envelope_bytes(b"{}", None)
    envelope = parse_envelope(json.loads(data), data)
    assert (envelope.keyid, envelope.signature) == (None, None)


GOOD = {
    "payload": "e30=",
    "payloadType": PAYLOAD_TYPE,
    "signatures": [{"keyid": "k", "sig": "AAAA"}],
}


def test_the_mould_of_the_bad_ones_is_good() -> None:
    assert parse_envelope(GOOD, file(GOOD)).payload == b"{}"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"payload": "e30"}, "^payload: not base64"),
        ({"payload": "e30=\n"}, "^payload: not base64"),
        ({"payload": "e3 0="}, "^payload: not base64"),
        ({"payload": "-_8="}, "^payload: not base64"),
        ({"payload": "e31="}, "^payload: not the one base64 text"),
        ({"payload": 1}, "^payload: must be base64 text"),
        ({"payloadType": "application/json"}, "^another payload type"),
        ({"payloadType": PAYLOAD_TYPE + " "}, "^another payload type"),
        ({"signatures": GOOD["signatures"] * 2}, "^signatures: must be a list of one"),  # type: ignore[operator]
        ({"signatures": {}}, "^signatures: must be a list of one"),
        ({"signatures": [{"keyid": "k"}]}, r"^signatures\[0\]: must be \{keyid, sig\}"),
        (
            {"signatures": [{"keyid": "k", "sig": "AAAA", "cert": "x"}]},
            r"^signatures\[0\]: must be \{keyid, sig\}",
        ),
        ({"signatures": [{"keyid": None, "sig": "AAAA"}]}, r"^signatures\[0\].keyid: must be text"),
        ({"signatures": [{"keyid": "k", "sig": "AAB="}]}, r"^signatures\[0\].sig: not the one"),
        ({"key": "embedded"}, "^not an envelope"),
    ],
)
def test_anything_else_is_refused(change: dict[str, Any], text: str) -> None:
    record = {**GOOD, **change}
    with pytest.raises(UnverifiedError, match=text):
        parse_envelope(record, file(record))


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(GOOD).encode() + b"\n",
        file(GOOD)[:-1],
        file(GOOD) + b"\n",
        b" " + file(GOOD),
        file(GOOD).replace(b"\n", b"\r\n"),
    ],
    ids=["spaces", "no line feed", "two", "a space before", "carriage return"],
)
def test_the_same_envelope_written_otherwise_is_refused(data: bytes) -> None:
    with pytest.raises(UnverifiedError, match=r"^the file is not the canonical form"):
        parse_envelope(json.loads(data), data)

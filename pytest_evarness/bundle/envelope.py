"""The signed envelope: DSSE v1.0.2 with one Ed25519 signature, or none.

It knows neither what the payload says nor which keys are trusted.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.errors import UnverifiedError

if TYPE_CHECKING:
    from pytest_evarness.bundle.key import SigningKey

__all__ = ["PAYLOAD_TYPE", "Envelope", "envelope_bytes", "parse_envelope", "signed_bytes"]

PAYLOAD_TYPE = "application/vnd.in-toto+json"


@dataclass(frozen=True, slots=True)
class Envelope:
    """An envelope as it was read: well formed, and shown to be nothing more than that.

    Attributes:
        payload: The bytes that were signed, the payload type beside them.
        keyid: What the signature claims to be made with; None when there is no signature.
        signature: 64 bytes; None when there is no signature.
    """

    payload: bytes
    keyid: str | None
    signature: bytes | None


def signed_bytes(payload_type: str, payload: bytes) -> bytes:
    """The bytes that a signature covers (pre-authentication encoding).

    Source:
        DSSE v1.0.2, protocol.md: lengths are counted in bytes, not in characters.
    """
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def envelope_bytes(payload: bytes, key: SigningKey | None) -> bytes:
    """The file: one envelope in canonical form and a line feed.

    Args:
        payload: A statement's canonical bytes.
        key: None makes an unsigned envelope (``signatures: []``).
    """
    signatures = []
    if key is not None:
        signature = key.sign(signed_bytes(PAYLOAD_TYPE, payload))
        signatures.append({"keyid": key.keyid, "sig": base64.b64encode(signature).decode("ascii")})
    return _file(base64.b64encode(payload), signatures)


def _file(payload: bytes, signatures: list[dict[str, str]]) -> bytes:
    # The canonical form, put together: base64 has nothing to escape and may be very long.
    return b'{"payload":"%b","payloadType":%b,"signatures":%b}\n' % (
        payload,
        canonical_bytes(PAYLOAD_TYPE),
        canonical_bytes(signatures),
    )


def parse_envelope(record: Any, data: bytes) -> Envelope:
    """Read an envelope strictly.

    Args:
        record: What a strict JSON reader made of ``data``.
        data: The bytes of the file; they must be the canonical form of ``record``, so that no
            byte of the file can change without being noticed.

    Raises:
        UnverifiedError: Anything that is not exactly such an envelope.
    """
    if not isinstance(record, dict) or set(record) != {"payloadType", "payload", "signatures"}:
        raise UnverifiedError("not an envelope (payloadType, payload, signatures and nothing else)")
    if record["payloadType"] != PAYLOAD_TYPE:
        raise UnverifiedError(f"another payload type (got {record['payloadType']!r})")
    payload = decode_base64(record["payload"], "payload")
    signatures = record["signatures"]
    if not isinstance(signatures, list) or len(signatures) > 1:
        raise UnverifiedError("signatures: must be a list of one signature or none")
    keyid: str | None = None
    signature: bytes | None = None
    if signatures:
        entry = signatures[0]
        if not isinstance(entry, dict) or set(entry) != {"keyid", "sig"}:
            raise UnverifiedError("signatures[0]: must be {keyid, sig} and nothing else")
        keyid = entry["keyid"]
        # Compared as text with the pinned keys' ids and never used as anything else: an id that
        # looks like a path is just an id that no key has.
        if not isinstance(keyid, str):
            raise UnverifiedError("signatures[0].keyid: must be text")
        signature = decode_base64(entry["sig"], "signatures[0].sig")
    try:
        own = _file(record["payload"].encode("ascii"), signatures)
    except (TypeError, ValueError) as error:
        raise UnverifiedError(f"the envelope has no canonical form: {error}") from error
    if own != data:
        raise UnverifiedError("the file is not the canonical form of its own envelope")
    return Envelope(payload, keyid, signature)


def decode_base64(text: Any, where: str) -> bytes:
    """Decode standard base64 with padding, and nothing else.

    Raises:
        UnverifiedError: Another alphabet, white space, wrong padding, or loose bits at the end.
    """
    if not isinstance(text, str):
        raise UnverifiedError(f"{where}: must be base64 text")
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise UnverifiedError(f"{where}: not base64 ({error})") from error
    # b64decode ignores the unused bits of the last character; two texts would give one payload.
    if base64.b64encode(data).decode("ascii") != text:
        raise UnverifiedError(f"{where}: not the one base64 text of its bytes")
    return data

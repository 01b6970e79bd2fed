"""What a request is once it has arrived, and how the journal writes it.

Two runs of one harness must leave the same journal, so nothing here depends on a port, a clock or
on how bytes were packed for the way.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from pytest_evarness.world.http.limit import MAX_KEPT

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json
    from pytest_evarness.core.secret import Masker

__all__ = [
    "NOT_RECORDED",
    "Received",
    "body_bytes",
    "body_record",
    "path_text",
    "query_pairs",
    "read_target",
    "recorded_headers",
]

NOT_RECORDED: Mapping[str, str] = {
    "connection": "it is about the connection, not the request",
    "content-length": "it says how the body travelled; the body itself is recorded",
    "date": "it is the wall clock",
    "expect": "it says how the body travelled",
    "keep-alive": "it is about the connection, not the request",
    "proxy-connection": "it is about the connection, not the request",
    "te": "it is about the connection, not the request",
    "trailer": "it says how the body travelled",
    "transfer-encoding": "it says how the body travelled; the body itself is recorded",
    "upgrade": "it is about the connection, not the request",
}
"""Headers that no journal holds, and why."""

_STRAY = re.compile("[\udc80-\udcff]")
_WINDOW = 4096
"""Characters in which a secret is looked for on both sides of a cut."""
_ABSOLUTE = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it arrived.

    Attributes:
        method: In capitals; empty where no request could be read.
        path: As :func:`path_text` writes it.
        query: Names and values in the order in which they were written.
        headers: As :func:`recorded_headers` gives them.
        body: All of it that was read.
        problem: The status that answers it, where it cannot be taken: 400, 408, 413, ...
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    problem: int | None = None


def read_target(target: bytes) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Path and query of a request's target; of an absolute one the host is left out."""
    absolute = _ABSOLUTE.match(target)
    if absolute is not None:
        target = target[absolute.end() :] or b"/"
    path, _, query = target.partition(b"?")
    return path_text(path), query_pairs(query)


def path_text(raw: bytes) -> str:
    """A path with its escapes resolved, so that each resource has one name.

    An escaped slash stays ``%2F`` and an escaped percent sign ``%25``: resolved, they would name
    another resource. Bytes that are no UTF-8 stay escaped as well.
    """
    return "/".join(_segment(part) for part in raw.split(b"/"))


def _segment(raw: bytes) -> str:
    text = unquote_to_bytes(raw).decode("utf-8", "surrogateescape")
    return _visible(text.replace("%", "%25").replace("/", "%2F"))


def _visible(text: str) -> str:
    return _STRAY.sub(lambda found: f"%{ord(found.group()) - 0xDC00:02X}", text)


def query_pairs(raw: bytes) -> tuple[tuple[str, str], ...]:
    """Names and values of a query; a name without ``=`` has an empty value."""
    pairs = []
    for part in raw.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            pairs.append((_query_text(name), _query_text(value)))
    return tuple(pairs)


def _query_text(raw: bytes) -> str:
    decoded = unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8", "surrogateescape")
    return _visible(decoded)


def recorded_headers(
    headers: Iterable[tuple[str, str]], service: str
) -> tuple[tuple[str, str], ...]:
    """Headers for the journal: names in small letters, sorted, values of one name as they came.

    ``host`` is the service's name, whatever the client called it: a port would differ in each run.
    """
    kept = [("host", service)]
    for name, value in headers:
        small = name.strip().lower()
        if small != "host" and small not in NOT_RECORDED:
            kept.append((small, " ".join(value.split("\r\n")).strip()))
    return tuple(sorted(kept, key=lambda pair: pair[0]))


def body_bytes(body: Json) -> tuple[bytes, str | None]:
    """The bytes of a body given as JSON, and its content type; a text is sent as it is."""
    if body is None:
        return b"", None
    if isinstance(body, str):
        return body.encode("utf-8", "backslashreplace"), "text/plain; charset=utf-8"
    written = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    try:
        data = written.encode("utf-8")
    except UnicodeEncodeError:  # half of a character, which only an escape can hold
        data = json.dumps(body, sort_keys=True, separators=(",", ":")).encode("ascii")
    return data, "application/json"


def body_record(
    data: bytes, room: int, *, is_whole: bool, masker: Masker | None = None
) -> dict[str, Any]:
    """What the journal holds of a body: ``body`` or ``body_base64``, its digest, how it was cut.

    Args:
        data: What was read.
        room: How many bytes may be kept.
        is_whole: Whether that was all of it.
        masker: The digest is taken without secrets, as it would tell a short one to who tries.

    Returns:
        ``{body, body_digest}``, where ``body`` is null for bytes that are no UTF-8 text and
        ``body_base64`` holds them. ``truncated: true`` where less is kept than was sent; ``size``
        then is the number of all bytes, and absent where not even the digest is of the whole.
    """
    limit = min(MAX_KEPT, room)
    shown = data
    if masker is not None:
        # As the world masks the text later; where the bytes are no text, its letters are ASCII.
        try:
            shown = masker.text(data.decode("utf-8")).encode("utf-8")
        except UnicodeDecodeError:
            shown = masker.text(data.decode("latin-1")).encode("utf-8")
    record: dict[str, Any] = {"body_digest": f"sha256:{hashlib.sha256(shown).hexdigest()}"}
    if len(data) > limit or not is_whole:
        record["truncated"] = True
        if is_whole:
            record["size"] = len(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        record["body"] = None
        record["body_base64"] = base64.b64encode(data[:limit]).decode("ascii")
    else:
        # The cut may fall into a character; what is left of it is dropped.
        kept = text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")
        if masker is not None and len(kept) < len(text):
            kept = text[: _cut_beside(masker, text, len(kept))]
        record["body"] = kept
    return record


def _cut_beside(masker: Masker, text: str, cut: int) -> int:
    """A cut no later than ``cut`` that leaves no beginning of a secret, which nobody would mask."""
    start = max(0, cut - _WINDOW)
    window = text[start : cut + _WINDOW]
    masked = masker.text(window)
    while cut > start and not masked.startswith(masker.text(window[: cut - start])):
        cut -= 1
    return cut

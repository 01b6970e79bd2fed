"""The published canonical form c1: one text for each event, and the two digests over those texts.

Any change of output for any existing trace is a new version of the form, never a fix.
"""

from __future__ import annotations

import hashlib
import json
import json.encoder
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_evarness.core.json import shown
from pytest_evarness.errors import DeterminismError, Where

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json

__all__ = [
    "MAX_DEPTH",
    "MAX_INTEGER",
    "Hasher",
    "cloned",
    "copied",
    "digests",
    "event_text",
    "events_text",
    "field_text",
    "frozen",
    "joined",
    "sha256_text",
    "text",
    "thaw",
]

MAX_INTEGER = 2**53
"""The largest magnitude that every JSON reader keeps exactly."""

MAX_DEPTH = 100
"""Lists and mappings inside each other; the same on every Python, unlike its recursion limit."""

_ENVELOPE = ("node_id", "payload", "seq", "type")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_quoted: Callable[[str], str] = json.encoder.encode_basestring_ascii


def _refuse_object(value: object) -> NoReturn:
    raise TypeError(f"no JSON form: {type(value).__name__}")


def _make_encoder() -> Callable[[object], str]:
    """The C encoder, built once; ``json.dumps`` with these options builds it anew for each call."""
    plain = json.JSONEncoder(
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
        allow_nan=False,
        check_circular=False,
        default=_refuse_object,
    ).encode
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return plain
    sample = {"b": [1, -0.0, 1e-07, None, True, "é\U0001f680\u2028/"], "a": {}, "": []}
    try:
        chunks = make(None, _refuse_object, _quoted, None, ":", ",", True, False, False)

        def fast(value: object) -> str:
            return "".join(chunks(value, 0))

        same = fast(sample) == plain(sample) and fast("x") == plain("x") and fast(1) == plain(1)
    except (TypeError, ValueError):
        # The signature is CPython's own business; where it changes, the public way is still right.
        return plain
    return fast if same else plain


_encode = _make_encoder()


_read: Callable[[str], tuple[Any, int]] = json.JSONDecoder().raw_decode
_AS_THEY_ARE = frozenset({str, float, bool, type(None)})


class _UnsureError(Exception):
    """The fast copy met something that only the slow one can judge."""


def _copy(value: Any) -> Any:
    """Copy plain JSON. Non-finite floats and lone surrogates are left to the encoder's text."""
    kind = type(value)
    if kind is dict:
        mapping: dict[str, Any] = {}
        for key, entry in value.items():
            if type(key) is not str:
                raise _UnsureError
            mapping[key] = entry if type(entry) in _AS_THEY_ARE else _copy(entry)
        return mapping
    if kind is list:
        return [entry if type(entry) in _AS_THEY_ARE else _copy(entry) for entry in value]
    if kind in _AS_THEY_ARE or (kind is int and -MAX_INTEGER <= value <= MAX_INTEGER):
        return value
    raise _UnsureError


def frozen(value: object, root: str = "value") -> tuple[Any, str]:
    """A deep copy of ``value`` that nobody else holds, and its c1 text.

    Tuples become lists and other mappings become dictionaries: they have one JSON form only.

    Args:
        value: Anything; what two JSON readers would disagree on is refused.
        root: How the place of a refused value begins, such as ``payload``.

    Raises:
        DeterminismError: NaN, an infinity, bytes, a set, a key that is no text, a lone
            surrogate, an integer beyond 2^53, or nesting deeper than ``MAX_DEPTH``; with its path.
    """
    try:
        copy = _copy(value)
        encoded = _encode(copy)
        if "\\ud" not in encoded and encoded.count("[") + encoded.count("{") <= MAX_DEPTH:
            return copy, encoded
    except (_UnsureError, TypeError, ValueError, RecursionError):
        pass
    copy = _walked(value, (), root)
    return copy, _encode(copy)


def copied(value: object, root: str = "value") -> Any:
    """The deep copy of :func:`frozen` alone."""
    return frozen(value, root)[0]


def cloned(value: Any) -> Any:
    """A deep copy of what :func:`frozen` gave, or of what was read from its text."""
    return _copy(value)


def text(value: object) -> str:
    """The canonical text of any JSON value.

    Raises:
        DeterminismError: As :func:`frozen`.
    """
    return frozen(value)[1]


def thaw(encoded: str) -> Any:
    """A fresh value from a text that this module wrote; not for texts from elsewhere."""
    return _read(encoded)[0]


def event_text(seq: int, type: str, node_id: str | None, payload: object) -> str:  # noqa: A002
    """The canonical text of one event.

    Raises:
        DeterminismError: A value without a canonical form, its place beginning with ``payload``.
    """
    return joined(seq, type, node_id, frozen(payload, "payload")[1])


def joined(seq: int, type: str, node_id: str | None, payload_text: str) -> str:  # noqa: A002
    """The canonical text of one event whose payload is encoded already."""
    node = "null" if node_id is None else _quoted(node_id)
    return f'{{"node_id":{node},"payload":{payload_text},"seq":{seq},"type":{_quoted(type)}}}'


def events_text(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """The canonical text of each event as it was read: absent fields are null, others are dropped.

    Raises:
        DeterminismError: A value without a canonical form.
    """
    texts = []
    for position, event in enumerate(events):
        kept = {name: event.get(name) for name in _ENVELOPE}
        texts.append(frozen(kept, f"events[{position}]")[1])
    return texts


class Hasher:
    """Both digests of a run, taken while its events are emitted."""

    __slots__ = ("_chain", "_count", "_trace")

    def __init__(self) -> None:
        self._trace = hashlib.sha256(b"[")
        # h0 = sha256(b""), h_i = sha256(h_{i-1} || text of event i): each prefix has its own value.
        self._chain = hashlib.sha256(b"").digest()
        self._count = 0

    def add(self, event_text: str) -> None:
        """Take in the canonical text of the next event."""
        data = event_text.encode("ascii")
        self._trace.update(b"," + data if self._count else data)
        self._chain = hashlib.sha256(self._chain + data).digest()
        self._count += 1

    @property
    def trace_digest(self) -> str:
        """``c1:sha256:`` and the hex digest over the array of all events so far."""
        whole = self._trace.copy()
        whole.update(b"]")
        return "c1:sha256:" + whole.hexdigest()

    @property
    def chain_digest(self) -> str:
        """``c1:chain-sha256:`` and the hex digest that commits to every prefix."""
        return "c1:chain-sha256:" + self._chain.hex()


def digests(texts: Iterable[str]) -> tuple[str, str]:
    """Trace digest and chain digest of canonical event texts."""
    hasher = Hasher()
    for event in texts:
        hasher.add(event)
    return hasher.trace_digest, hasher.chain_digest


def sha256_text(content: str) -> str:
    """``sha256:`` and the hex digest of the UTF-8 bytes of ``content``."""
    return "sha256:" + hashlib.sha256(content.encode("utf-8")).hexdigest()


def field_text(root: str, path: Iterable[str | int]) -> str:
    """Write a path as a reader would: ``payload.args[2]["odd key"]``."""
    parts = [root]
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN_KEY.match(step):
            parts.append(f".{step}" if root or len(parts) > 1 else step)
        else:
            parts.append(f"[{shown(step, 40)}]")
    return "".join(parts)


def _refuse(root: str, path: tuple[str | int, ...], problem: str) -> NoReturn:
    raise DeterminismError(problem, where=Where(field=field_text(root, path)))


def _walked(value: object, path: tuple[str | int, ...], root: str) -> Json:
    """The slow way: it names the place, and copies what the fast way is not sure of."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _walked_text(value, path, root)
    if isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            size = value.bit_length()
            got = str(int(value)) if size < 200 else f"one of {size} bits"
            _refuse(root, path, f"an integer that JSON readers round (got {got}; at most 2^53)")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            _refuse(root, path, f"a number that JSON does not have (got {float(value)!r}; finite)")
        return float(value)
    if len(path) >= MAX_DEPTH:
        _refuse(root, path[:3], f"nested too deeply (at most {MAX_DEPTH} levels)")
    if isinstance(value, Mapping):
        return _walked_mapping(value, path, root)
    if isinstance(value, list | tuple):
        return [_walked(entry, (*path, index), root) for index, entry in enumerate(value)]
    _refuse(
        root,
        path,
        f"not a JSON value (got {type(value).__name__}; "
        "null, boolean, integer, finite number, text, list or mapping)",
    )


def _walked_text(value: str, path: tuple[str | int, ...], root: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(value[error.start])
        _refuse(
            root, path, f"a text with half a surrogate pair (got U+{code:04X} at {error.start})"
        )
    return str.__str__(value)


def _walked_mapping(
    value: Mapping[Any, Any], path: tuple[str | int, ...], root: str
) -> dict[str, Json]:
    copy: dict[str, Json] = {}
    for key, entry in value.items():
        if not isinstance(key, str):
            kind = type(key).__name__
            _refuse(root, path, f"a key that is no text (got {kind}; keys are texts)")
        try:
            key.encode("utf-8")
        except UnicodeEncodeError as error:
            code = ord(key[error.start])
            _refuse(root, path, f"a key with half a surrogate pair (got U+{code:04X})")
        copy[str.__str__(key)] = _walked(entry, (*path, key), root)
    return copy

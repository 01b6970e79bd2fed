"""The payload's canonical form: RFC 8785, restricted to values that every JSON writer agrees on.

It is not c1, the form in which events are hashed: what RFC 8785 would rewrite (floats above
all) enters a bundle as text and is never a number in it.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["MAX_INTEGER", "Encoded", "canonical_bytes", "canonical_digest"]

MAX_INTEGER = 2**53 - 1
"""The largest integer that a reader which holds numbers as doubles keeps exactly."""

_ATOMS = frozenset({str, bool, type(None)})
_SPLICED_LEVELS = 3


class Encoded:
    """Parts of several values whose text is made once: the plan stands in a seal and in a bundle.

    A part is known by its identity. What is done to it after it was encoded changes no text, so
    the bundle repeats the very bytes that were sealed.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, str]] = {}

    def add(self, part: Any) -> None:
        """Encode ``part``, and keep both for as long as this object lives.

        Raises:
            TypeError: As :func:`canonical_bytes`.
            ValueError: Likewise.
        """
        if id(part) not in self._kept:
            self._kept[id(part)] = (part, _text(part, ()))

    def find(self, value: Any) -> str | None:
        """The text of a part that was added; None for any other value, an equal one included."""
        kept = self._kept.get(id(value))
        return None if kept is None else kept[1]


def canonical_bytes(value: Any, encoded: Encoded | None = None) -> bytes:
    """Encode ``value`` so that equal values give equal bytes in every language.

    Args:
        value: JSON without floats: a number that is not whole is written as text in a bundle.
        encoded: Parts of ``value``, not more than three mappings down, that have their text.

    Returns:
        UTF-8 JSON without spaces, keys sorted by UTF-16 code unit.

    Raises:
        TypeError: A value outside the form, with the path to it.
        ValueError: An integer beyond 2^53-1 or a text with a lone surrogate.

    Source:
        RFC 8785, sections 3.2.2 (literals) and 3.2.3 (sorting); docs/bundle-format.md.
    """
    text = _text(value, ()) if encoded is None else _spliced(value, encoded, ())
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"a text holds a lone surrogate ({error.reason})") from error


def _text(value: Any, path: tuple[str | int, ...]) -> str:
    if not (_is_plain(value) or _check(value, path)):
        # Only keys beyond ASCII can sort otherwise by UTF-16 unit than by code point, so only
        # then is the whole value rebuilt.
        value = _in_order(value)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True
    )


def _spliced(value: Any, encoded: Encoded, path: tuple[str, ...]) -> str:
    """The text of ``value``, put together around the parts that have theirs."""
    kept = encoded.find(value)
    if kept is not None:
        return kept
    if type(value) is not dict or len(path) >= _SPLICED_LEVELS:
        return _text(value, path)
    _check(dict.fromkeys(value), path)
    parts = [
        f"{_text(key, path)}:{_spliced(value[key], encoded, (*path, key))}"
        for key in sorted(value, key=_units)
    ]
    return "{" + ",".join(parts) + "}"


def canonical_digest(value: Any, encoded: Encoded | None = None) -> str:
    """``sha256:`` and the hex digest of the canonical bytes of ``value``."""
    import hashlib

    return "sha256:" + hashlib.sha256(canonical_bytes(value, encoded)).hexdigest()


def _is_plain(value: Any) -> bool:
    """True where nothing needs a second look; False leaves it to :func:`_check`, which is slow."""
    kind = type(value)
    inner: Any = value
    if kind is dict:
        if value and (set(map(type, value)) != {str} or not "".join(value).isascii()):
            return False
        inner = value.values()
    elif kind is int:
        return bool(-MAX_INTEGER <= value <= MAX_INTEGER)
    elif kind is not list and kind is not tuple:
        return kind in _ATOMS
    return all(_is_plain(part) for part in inner if type(part) not in _ATOMS)


def _check(value: Any, path: tuple[str | int, ...]) -> bool:
    """Refuse what is outside the form; True when every key is ASCII."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is dict:
        ascii_keys = True
        for key, part in value.items():
            if type(key) is not str:
                raise TypeError(f"{_place(path)}: a key must be text (got {key!r})")
            if not key.isascii():
                ascii_keys = False
            if type(part) is not str and not _check(part, (*path, key)):
                ascii_keys = False
        return ascii_keys
    if kind is list or kind is tuple:
        ascii_keys = True
        for index, part in enumerate(value):
            if type(part) is not str and not _check(part, (*path, index)):
                ascii_keys = False
        return ascii_keys
    if kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise ValueError(f"{_place(path)}: an integer beyond 2^53-1 (got {value})")
        return True
    raise TypeError(f"{_place(path)}: {kind.__name__} has no place in a payload (got {value!r})")


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value, key=_units)}
    if isinstance(value, list | tuple):
        return [_in_order(part) for part in value]
    return value


def _units(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _place(path: tuple[str | int, ...]) -> str:
    text = "$"
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text

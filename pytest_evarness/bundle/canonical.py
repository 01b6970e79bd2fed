"""The payload's canonical form: RFC 8785, restricted to values that every JSON writer agrees on.

It is not c1, the form in which events are hashed: what RFC 8785 would rewrite (floats above
all) enters a bundle as text and is never a number in it.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["MAX_INTEGER", "canonical_bytes", "canonical_digest"]

MAX_INTEGER = 2**53 - 1
"""The largest integer that a reader which holds numbers as doubles keeps exactly."""


def canonical_bytes(value: Any) -> bytes:
    """Encode ``value`` so that equal values give equal bytes in every language.

    Args:
        value: JSON without floats: a number that is not whole is written as text in a bundle.

    Returns:
        UTF-8 JSON without spaces, keys sorted by UTF-16 code unit.

    Raises:
        TypeError: A value outside the form, with the path to it.
        ValueError: An integer beyond 2^53-1 or a text with a lone surrogate.

    Source:
        RFC 8785, sections 3.2.2 (literals) and 3.2.3 (sorting); docs/bundle-format.md.
    """
    if not _check(value, ()):
        # Only keys beyond ASCII can sort otherwise by UTF-16 unit than by code point, so only
        # then is the whole value rebuilt.
        value = _in_order(value)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    else:
        text = json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True
        )
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"a text holds a lone surrogate ({error.reason})") from error


def canonical_digest(value: Any) -> str:
    """``sha256:`` and the hex digest of the canonical bytes of ``value``."""
    import hashlib

    return "sha256:" + hashlib.sha256(canonical_bytes(value)).hexdigest()


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
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return {key: _in_order(value[key]) for key in keys}
    if isinstance(value, list | tuple):
        return [_in_order(part) for part in value]
    return value


def _place(path: tuple[str | int, ...]) -> str:
    text = "$"
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text

"""The JSON values that cross every boundary of this package, and how they are shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["Json", "JsonObject", "kind_of", "shown"]

Json: TypeAlias = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
JsonObject: TypeAlias = Mapping[str, Json]


# Removed before anything is escaped: what is left of a colour, "[31m", would stay for ever.
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_ESCAPED_COLOUR = re.compile(r"(?<!\\)((?:\\\\)*)\\u001b\[[0-?]*[ -/]*[@-~]")


def kind_of(value: object) -> str:
    """Name the JSON type of ``value`` the way messages name it: ``text``, ``integer``, ..."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "mapping"
    if isinstance(value, Sequence):
        return "list"
    return type(value).__name__


def shown(value: object, limit: int = 120) -> str:
    """Render ``value`` on one line, invisible characters escaped, cut at ``limit``."""
    import json

    if isinstance(value, str):
        plain = _COLOUR.sub("", value) if "\x1b" in value else value
        text = '"' + "".join(_visible(char) for char in plain[: limit + 1]) + '"'
    else:
        try:
            text = json.dumps(value, ensure_ascii=True, sort_keys=True, allow_nan=True)
        except (TypeError, ValueError, RecursionError):
            text = f"a {kind_of(value)}"
        if "u001b[" in text:
            text = _ESCAPED_COLOUR.sub(r"\1", text)
    return text if len(text) <= limit + 2 else text[:limit] + "…"


def _visible(char: str) -> str:
    if char.isprintable() and char not in ('"', "\\"):
        return char
    escaped = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    if escaped is not None:
        return escaped
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

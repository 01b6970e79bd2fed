"""One JSON document that no two readers take for different values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from pytest_evarness.core.json import shown

__all__ = ["NoJsonError", "read_value"]


MAX_DEPTH = 200
"""Lists and mappings inside each other."""

_BEYOND = "it holds a number or a nesting beyond what can be read"


class NoJsonError(ValueError):
    """The text is not one JSON document, or one that readers disagree about; one clause."""


def read_value(text: str, *, number: Callable[[str], float] = float) -> Any:
    """The value of a text that is exactly one JSON document.

    What is refused, and the words for it, are the same on every Python: a verifier compares them.

    Args:
        text: The document.
        number: Makes a number of the digits of one with a point or an exponent.

    Raises:
        NoJsonError: Anything else: nothing, two documents, a key twice in one mapping, ``NaN``,
            half a surrogate pair.
    """
    if not text.strip():
        raise NoJsonError("it is empty")
    try:
        value = json.loads(
            text, object_pairs_hook=_mapping, parse_constant=_constant, parse_float=number
        )
    except NoJsonError:
        raise
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            where = f"line {error.lineno} column {error.colno}"
            raise NoJsonError(f"something stands after its end, at {where}") from None
        raise NoJsonError(_told(error)) from None
    except (ValueError, RecursionError):
        # A number of thousands of digits, or a nesting of thousands of levels.
        raise NoJsonError(_BEYOND) from None
    if _is_deep(value):
        # How deep is too deep for the interpreter differs between versions; this is below all.
        raise NoJsonError(_BEYOND)
    # Only an escape can bring one in, or a text that was no UTF-8 to begin with.
    if not _is_unicode(value):
        raise NoJsonError("it holds half of a surrogate pair, which is no character")
    return value


def _is_unicode(value: Any) -> bool:
    """Whether all texts can be written as UTF-8; ``value`` nests within bounds."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _told(error: json.JSONDecodeError) -> str:
    message, at = error.msg, error.pos
    if message.startswith("Illegal trailing comma"):
        # Python 3.13 and later point at the comma; earlier ones at what stands where a value would.
        rest = error.doc[at + 1 :]
        at += 1 + len(rest) - len(rest.lstrip(" \t\n\r"))
        is_mapping = error.doc[at : at + 1] == "}"
        message = (
            "Expecting property name enclosed in double quotes" if is_mapping else "Expecting value"
        )
        error = json.JSONDecodeError(message, error.doc, at)
    return f"{message[:1].lower()}{message[1:]}, at line {error.lineno} column {error.colno}"


def _is_deep(value: Any) -> bool:
    """Whether lists and mappings stand in each other deeper than is read."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise NoJsonError(f"the key {shown(key, 60)} stands twice in one mapping")
        made[key] = value
    return made


def _constant(word: str) -> NoReturn:
    raise NoJsonError(f"{word} is no JSON number")

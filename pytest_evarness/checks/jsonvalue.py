"""One JSON document that no two readers take for different values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from pytest_evarness.core.json import shown

__all__ = ["NoJsonError", "read_value"]


class NoJsonError(ValueError):
    """The text is not one JSON document, or one that readers disagree about; one clause."""


def read_value(text: str, *, number: Callable[[str], float] = float) -> Any:
    """The value of a text that is exactly one JSON document.

    Args:
        text: The document.
        number: Makes a number of the digits of one with a point or an exponent.

    Raises:
        NoJsonError: Anything else: nothing, two documents, a key twice in one mapping, ``NaN``.
    """
    if not text.strip():
        raise NoJsonError("it is empty")
    try:
        return json.loads(
            text, object_pairs_hook=_mapping, parse_constant=_constant, parse_float=number
        )
    except NoJsonError:
        raise
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            where = f"line {error.lineno} column {error.colno}"
            raise NoJsonError(f"something stands after its end, at {where}") from None
        place = f"line {error.lineno} column {error.colno}"
        raise NoJsonError(f"{error.msg[:1].lower()}{error.msg[1:]}, at {place}") from None
    except (ValueError, RecursionError):
        # A number of thousands of digits, or a nesting of thousands of levels.
        raise NoJsonError("it holds a number or a nesting beyond what can be read") from None


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise NoJsonError(f"the key {shown(key, 60)} stands twice in one mapping")
        made[key] = value
    return made


def _constant(word: str) -> NoReturn:
    raise NoJsonError(f"{word} is no JSON number")

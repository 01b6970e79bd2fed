"""JSON that a model, a judge or a user wrote: one strict reader, the same on every Python."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from pytest_evarness.core.c1 import MAX_INTEGER
from pytest_evarness.domains.agents.text import compact

__all__ = ["MAX_NESTED", "UnreadableError", "bounded_integer", "read_json"]

MAX_NESTED = 64
"""Lists and mappings inside each other; less than an event may hold, whatever they become."""

_MAX_DIGITS = 400
# A text in quotes is passed over; one that never ends is no JSON anyhow.
_BRACKETS = re.compile(r'"(?:[^"\\]+|\\.)*+"?|[\[\]{}]', re.DOTALL)


class UnreadableError(ValueError):
    """A text is not the JSON that was asked for. It goes through the library as a ValueError.

    Attributes:
        is_deep: It is nested too deeply; nothing else is known of it.
    """

    def __init__(self, problem: str, *, is_deep: bool = False) -> None:
        super().__init__(problem)
        self.is_deep = is_deep


def read_json(
    text: str,
    *,
    number: Callable[[str], float] | None = None,
    integer: Callable[[str], int] | None = None,
) -> Any:
    """The value that is written there, which an event can hold.

    Args:
        text: All of it; nothing else may stand there.
        number: Makes a number with a point or an exponent of its text.
        integer: Makes one without.

    Raises:
        UnreadableError: It is no JSON, or JSON that two readers would disagree on: NaN, a number
            that is too large, a key twice, half of a surrogate pair, too much nesting.
    """
    # Before anything is parsed: how deep is too deep differs between Pythons.
    if _is_deep(text):
        raise UnreadableError("the text is nested too deeply", is_deep=True)
    try:
        value = json.loads(
            text,
            parse_constant=_no_constant,
            parse_float=number or _finite,
            parse_int=integer or _kept_integer,
            object_pairs_hook=_no_double,
        )
        compact(value).encode("utf-8")
    except UnicodeEncodeError:
        raise UnreadableError("the text has half of a surrogate pair") from None
    except UnreadableError:
        raise
    except ValueError:
        raise UnreadableError("the text is no JSON") from None
    return value


def bounded_integer(word: str) -> int:
    """A whole number of any size that is still a number to somebody."""
    if len(word) > _MAX_DIGITS:
        raise UnreadableError("the text has a number that is too large")
    return int(word)


def _is_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= MAX_NESTED:
        return False
    depth = 0
    for found in _BRACKETS.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth > MAX_NESTED:
                return True
        elif found[0] in "]}":
            depth -= 1
    return False


def _kept_integer(word: str) -> int:
    value = bounded_integer(word)
    if abs(value) > MAX_INTEGER:
        raise UnreadableError("the text has a number that is too large")
    return value


def _no_constant(word: str) -> NoReturn:
    raise UnreadableError(f"the text is no JSON ({word})")


def _finite(word: str) -> float:
    value = float(word)
    if math.isinf(value):
        raise UnreadableError("the text has a number that is too large")
    return value


def _no_double(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UnreadableError("the text has a key twice")
    return found

"""What a plain YAML scalar is: the core types of YAML 1.2, and what is refused beside them."""

from __future__ import annotations

import math
import re

from pytest_evarness.source.number import WrittenFloat
from pytest_evarness.source.quote import quoted

__all__ = ["MAX_INTEGER", "RefusedError", "parse_number", "resolve"]

MAX_INTEGER = 2**53
"""Beyond it two JSON readers disagree, and no event may hold it."""

_MAX_DIGITS = 400  # a written number beyond this length is an attack or a slip, never a measure

# Only these can begin anything that is not text; most scalars are decided by their first character.
_MAY_BE_SPECIAL = frozenset("0123456789+-.~nNtf")
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_BASED = re.compile(r"(0o[0-7]+|0x[0-9a-fA-F]+)\Z")
_NOT_FINITE = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")


class RefusedError(Exception):
    """A scalar that readers of YAML disagree on, or that no JSON holds.

    Attributes:
        problem: The sentence.
        fix: What to write instead.
    """

    def __init__(self, problem: str, fix: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix


def resolve(text: str) -> str | int | float | bool | None:
    """The value of a plain scalar.

    Raises:
        RefusedError: ``01730``, ``.nan``, a number that no float or no two readers agree on.
    """
    if text and text[0] not in _MAY_BE_SPECIAL:
        return text
    if text == "true":
        return True
    if text == "false":
        return False
    if text in _NULLS:
        return None
    if _INTEGER.match(text):
        digits = text.lstrip("+-")
        if len(digits) > 1 and digits[0] == "0":
            number = digits.lstrip("0") or "0"
            raise RefusedError(
                f"a leading zero makes it octal to some readers of YAML (got {quoted(text)})",
                f'write "{text}" with quotes for a text, or {number} for a number',
            )
        return _integer(text, 10)
    if _FLOAT.match(text):
        return parse_number(text)
    if _BASED.match(text):
        return _integer(text, 8 if text[1] == "o" else 16)
    if _NOT_FINITE.match(text):
        raise RefusedError(
            f"must be a finite number (got {quoted(text)})",
            f'write "{text}" with quotes for a text',
        )
    return text


def parse_number(text: str) -> WrittenFloat:
    """A written number that is no integer.

    Raises:
        RefusedError: Too long, or beyond the range of a float.
    """
    if len(text) > _MAX_DIGITS:
        raise RefusedError(
            f"the number is too long (got {len(text)} characters; at most {_MAX_DIGITS})"
        )
    value = WrittenFloat(text)
    if math.isinf(value):
        raise RefusedError(f"the number is too large (got {quoted(text)}; at most about 1.8e308)")
    mantissa = re.split("[eE]", text)[0]
    if not value and any(digit in mantissa for digit in "123456789"):
        raise RefusedError(f"the number is too small (got {quoted(text)}; at least about 5e-324)")
    return value


def _integer(text: str, base: int) -> int:
    value = int(text, base) if len(text) <= _MAX_DIGITS else None
    if value is None or not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise RefusedError(
            "the integer is beyond what every reader keeps exact "
            f"(got {quoted(text, 40)}; at most 2^53)",
            "put it in quotes" if base == 10 else None,
        )
    return value

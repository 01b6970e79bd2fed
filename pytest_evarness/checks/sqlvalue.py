"""Values of columns beside values of a scenario: when they are equal, and how each is shown.

What was written is ``{"t": null | boolean | integer | number | text, "v": ...}``, numbers with
their digits; what came from a database is a cell (:func:`pytest_evarness.world.sql.value.cell`).
Both are exactly JSON.

Source: docs/checks/sql.md, "What is equal".
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from pytest_evarness.core.json import shown
from pytest_evarness.source.number import WrittenFloat, exact

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = [
    "Cell",
    "Expected",
    "as_json",
    "difference",
    "expected_of",
    "is_equal",
    "named_cell",
    "named_expected",
]

Cell: TypeAlias = "Mapping[str, Any]"
Expected: TypeAlias = "Mapping[str, Any]"

_LIMIT: Final = 200
_MAX_POWER: Final = 400
_TEXTS: Final = frozenset({"text", "date", "time", "timestamp", "interval"})
_NUMBERS: Final = frozenset({"integer", "decimal", "float"})


def expected_of(value: Json) -> JsonObject | None:
    """A written value with its type and digits; None for what no column can hold."""
    if value is None:
        return {"t": "null", "v": None}
    if isinstance(value, bool):
        return {"t": "boolean", "v": value}
    if isinstance(value, int):
        return {"t": "integer", "v": str(value)}
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        digits = value.written if isinstance(value, WrittenFloat) else repr(value)
        power = digits.lower().partition("e")[2]
        # No column holds such a number, and its digits would fill the memory.
        is_held = len(power) <= 4 and abs(int(power or 0)) <= _MAX_POWER
        return {"t": "number", "v": digits} if is_held else None
    return {"t": "text", "v": value} if isinstance(value, str) else None


def is_equal(expected: Expected, cell: Cell) -> bool:
    """Whether a written value is what a column holds.

    A text is a text, NULL is only null. A number is compared by its written digits with an integer
    or a decimal, and by the nearest double with a binary float. true and false are 1 and 0, and
    nothing else is either.
    """
    wanted, met = expected["t"], cell["t"]
    if wanted == "null" or met == "null":
        return bool(wanted == met)
    if wanted == "text":
        return met in _TEXTS and _spelled(expected["v"], met) == cell["v"]
    if wanted == "boolean" and met == "boolean":
        return bool(expected["v"] == cell["v"])
    if met == "boolean":
        return Fraction(expected["v"]) == int(cell["v"])
    if met not in _NUMBERS:
        return False
    if met == "float":
        value = float(cell["v"])
        return math.isfinite(value) and float(expected["v"]) == value
    digits = int(expected["v"]) if wanted == "boolean" else expected["v"]
    return _fraction(cell["v"]) == Fraction(digits)


def _spelled(text: str, kind: str) -> str:
    """A moment may be written with the T of ISO 8601; SQL itself writes a space."""
    if kind == "timestamp" and len(text) > 10 and text[10] == "T":
        return f"{text[:10]} {text[11:]}"
    return text


def _fraction(digits: str) -> Fraction | None:
    try:
        return Fraction(digits)
    except ValueError:
        # NaN and Infinity of a NUMERIC are equal to no number.
        return None


class _Exact(float):
    """A decimal or an integer that is compared by its digits."""

    __slots__ = ("digits",)

    digits: Fraction

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.digits = Fraction(text)
        return made

    def _other(self, other: object) -> Fraction | None:
        if isinstance(other, bool) or not isinstance(other, int | float):
            return None
        return exact(other) if math.isfinite(other) else None

    def __eq__(self, other: object) -> bool:
        return self._other(other) == self.digits

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: float) -> bool:
        value = self._other(other)
        return value is not None and self.digits < value

    def __le__(self, other: float) -> bool:
        value = self._other(other)
        return value is not None and self.digits <= value

    def __gt__(self, other: float) -> bool:
        value = self._other(other)
        return value is not None and self.digits > value

    def __ge__(self, other: float) -> bool:
        value = self._other(other)
        return value is not None and self.digits >= value

    def __hash__(self) -> int:
        return hash(self.digits)


class Bytes:
    """Stands for bytes where matchers ask: no operator takes them but equality, which is false."""

    __slots__ = ()


def as_json(cell: Cell) -> tuple[Any, Any]:
    """A cell as matchers see it, and its twin where it has two forms.

    ``(1, True)`` for an integer 1 as for a true: the engines differ in which they have. A moment
    with a space and with a T.
    """
    kind, value = cell["t"], cell["v"]
    if kind == "boolean":
        return int(value), value
    if kind == "integer":
        number = int(value)
        plain: Any = number if abs(number) <= 2**53 else _Exact(value)
        return plain, bool(number) if number in (0, 1) else plain
    if kind == "decimal":
        fraction = _fraction(value)
        if fraction is None:
            return value, value
        return _Exact(value), bool(fraction) if fraction in (0, 1) else _Exact(value)
    if kind == "float":
        number_ = float(value)
        return number_, bool(number_) if number_ in (0.0, 1.0) else number_
    if kind == "bytes":
        return Bytes(), Bytes()
    if kind == "timestamp" and value[10:11] == " ":
        return value, f"{value[:10]}T{value[11:]}"
    return value, value


# -- how they are shown ----------------------------------------------------------------------------


def named_expected(expected: Expected) -> str:
    """A written value with its type."""
    kind, value = expected["t"], expected["v"]
    if kind == "null":
        return "NULL"
    if kind == "boolean":
        return f"boolean {'true' if value else 'false'}"
    return f"{kind} {shown(value, _LIMIT) if kind == 'text' else _digits(value)}"


def named_cell(cell: Cell) -> str:
    """A column's value with its type."""
    kind, value = cell["t"], cell["v"]
    if kind == "null":
        return "NULL"
    if kind == "boolean":
        return f"boolean {'true' if value else 'false'}"
    if kind == "bytes":
        data = base64.b64decode(value)
        return f"bytes {data[:32].hex()}{'…' if len(data) > 32 else ''} ({len(data)} in all)"
    if kind in _NUMBERS:
        return f"{'floating point' if kind == 'float' else kind} {_digits(value)}"
    return f"{kind} {shown(value, _LIMIT)}"


def _digits(text: str) -> str:
    return text if len(text) <= _LIMIT else f"{text[:_LIMIT]}… ({len(text)} characters)"


def difference(expected: Expected, cell: Cell) -> str:
    """``expected text "1", got integer 1``: the two sides never look the same."""
    left, right = named_expected(expected), named_cell(cell)
    said = f"expected {left}, got {right}"
    if expected["t"] != "text" or cell["t"] not in _TEXTS:
        return said
    wanted, met = _spelled(expected["v"], cell["t"]), cell["v"]
    if left != right and wanted.isascii() and met.isascii() and max(len(wanted), len(met)) < 80:
        return said
    place = next(
        (at for at, (one, other) in enumerate(zip(wanted, met, strict=False)) if one != other),
        min(len(wanted), len(met)),
    )
    return (
        f"{said}; they part at character {place + 1}: {_character(wanted, place)} against"
        f" {_character(met, place)}"
    )


def _character(text: str, place: int) -> str:
    return f"U+{ord(text[place]):04X}" if place < len(text) else "the end"

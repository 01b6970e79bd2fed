"""Numbers that keep the digits the user wrote, so that sums and thresholds can be exact."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any, Self

__all__ = ["WrittenFloat", "exact"]

_MAX_POWER = 2000
"""A finite number other than 0 that a document may write has its last digit well before it."""
_POWER = re.compile(r"[eE]([-+]?[0-9_]+)")


class WrittenFloat(float):
    """A float that remembers its spelling: ``0.10`` is 0.1 to everybody else.

    Attributes:
        written: The digits as they stand in the document, such as ``1e3``.
    """

    __slots__ = ("written",)

    written: str

    def __new__(cls, written: str) -> Self:
        """Read ``written`` as Python reads a float."""
        made = super().__new__(cls, written)
        made.written = written
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return WrittenFloat, (self.written,)


def exact(value: float) -> Fraction:
    """The decimal value of a number as it was written, without binary rounding.

    A float that no document wrote counts as its shortest decimal form: 0.1 is 1/10.

    Raises:
        TypeError: Not a number (``True`` is none).
        ValueError: Not finite; or written so far from 1 that its fraction would fill the memory,
            which no reader of documents hands over.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"not a number: {value!r}")
    if isinstance(value, int):
        return Fraction(value)
    if not math.isfinite(value):
        raise ValueError(f"not a finite number: {value!r}")
    if not isinstance(value, WrittenFloat):
        return Fraction(repr(value))
    power = _POWER.search(value.written)
    # 1e-999999999 is one short text and a fraction of a gigabyte; 0e999999999 is none but 0.
    if power is not None and abs(int(power[1])) > _MAX_POWER:
        if value or any(digit in value.written[: power.start()] for digit in "123456789"):
            raise ValueError(f"the exponent is too large: {value.written[:60]!r}")
        return Fraction(0)
    return Fraction(value.written)

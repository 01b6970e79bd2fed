"""Numbers that keep the digits the user wrote, so that sums and thresholds can be exact."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Self

__all__ = ["WrittenFloat", "exact"]


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
        ValueError: Not finite.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"not a number: {value!r}")
    if isinstance(value, int):
        return Fraction(value)
    if not math.isfinite(value):
        raise ValueError(f"not a finite number: {value!r}")
    return Fraction(value.written if isinstance(value, WrittenFloat) else repr(value))

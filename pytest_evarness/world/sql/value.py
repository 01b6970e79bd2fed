"""Values of columns, the same whichever engine they come from."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from pytest_evarness.core import c1

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = ["Dated", "cell", "decimal_text", "moment", "plain"]


class Dated(str):
    """A date or time as the text that SQL writes for it.

    Attributes:
        kind: ``date``, ``time``, ``timestamp`` or ``interval``.
    """

    __slots__ = ("kind",)

    kind: str

    def __new__(cls, text: str, kind: str) -> Self:
        """``text`` of ``kind``."""
        made = super().__new__(cls, text)
        made.kind = kind
        return made


_FRACTION = re.compile(r"(\d\d:\d\d:\d\d)\.(\d*?)0*(?=\Z|[+-])")
_ZONE = re.compile(r"([+-]\d\d)\Z")


def moment(text: str, kind: str) -> Dated:
    """A date or time in the one spelling of all engines.

    ``2026-01-31``, ``23:59:59.5``, ``2026-01-31 23:59:59.5``, a zone as ``+00:00``. A fraction ends
    with its last digit that is not 0, whatever precision the column was declared with.
    """
    text = _FRACTION.sub(lambda found: f"{found[1]}.{found[2]}" if found[2] else found[1], text)
    if kind in ("time", "timestamp") and ":" in text:
        text = _ZONE.sub(r"\1:00", text)
    return Dated(text, kind)


def decimal_text(value: Decimal) -> str:
    """All its digits, without an exponent; ``NaN`` and ``Infinity`` as they are."""
    return format(value, "f") if value.is_finite() else str(value)


def cell(value: Any) -> JsonObject:
    """A value with its type: ``{"t": ..., "v": ...}``; exactly JSON, numbers as their digits.

    ``t`` is ``null``, ``boolean``, ``integer``, ``decimal``, ``float``, ``text``, ``bytes``
    (``v`` in base64), ``date``, ``time``, ``timestamp`` or ``interval``.
    """
    if value is None:
        return {"t": "null", "v": None}
    if isinstance(value, bool):
        return {"t": "boolean", "v": value}
    if isinstance(value, int):
        return {"t": "integer", "v": str(value)}
    if isinstance(value, Decimal):
        return {"t": "decimal", "v": decimal_text(value)}
    if isinstance(value, float):
        return {"t": "float", "v": repr(value)}
    if isinstance(value, Dated):
        return {"t": value.kind, "v": str(value)}
    if isinstance(value, str):
        return {"t": "text", "v": value}
    return {"t": "bytes", "v": base64.b64encode(bytes(value)).decode("ascii")}


def plain(value: Any) -> Json:
    """A value in a snapshot: what JSON has as it is, everything else as text.

    A decimal, a date, an integer that JSON readers round and a float that JSON does not have are
    texts; bytes are ``{"base64": ...}``.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return value if -c1.MAX_INTEGER <= value <= c1.MAX_INTEGER else str(value)
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, str):
        return str(value)
    return {"base64": base64.b64encode(bytes(value)).decode("ascii")}


def plain_row(row: Iterable[Any]) -> list[Json]:
    """All values of a row."""
    return [plain(value) for value in row]

"""Whether a matcher holds of every value, or of none, whatever the value is.

Such a matcher asks nothing of a run: what it judges passes, or fails, before anything happened.
Only what is certain is said. A schema is read as admitting too much rather than too little, and
an expression that is too involved is taken to be able to hold and not to hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pytest_evarness.core.matcher import (
    CUT_BYTES,
    MISSING,
    SECRET_PREFIX,
    Matcher,
    Operation,
    Variable,
)
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.regular import (
    Automaton,
    Part,
    containing,
    read_expression,
    some_text,
)
from pytest_evarness.core.schema import ANYTHING, Conjunction, Place, Schema, kind_word, kinds_of

if TYPE_CHECKING:
    from pytest_evarness.core.json import JsonObject

__all__ = [
    "Triviality",
    "holds_always",
    "holds_never",
    "is_open",
    "static_part",
    "triviality",
    "triviality_at",
]

Triviality: TypeAlias = Literal["always", "never"]

MAX_LISTED: Final = 64
"""Whole numbers between two bounds that are tried one by one."""

_ORDER: Final = ("gt", "gte", "lt", "lte")
_EQUALITY: Final = ("equals", "in")
_SIZES: Final = {
    "text": ("minLength", "maxLength"),
    "list": ("minItems", "maxItems"),
    "mapping": ("minProperties", "maxProperties"),
}


def triviality(
    matcher: Matcher, schema: JsonObject | bool | None = None, *, may_miss: bool = False
) -> Triviality | None:
    """Say whether ``matcher`` holds of every value, or of none.

    ``exists: true`` asks whether a value is there at all, so a matcher with it never counts as
    one that always holds. An answer that cannot be decided (``gt`` on a text) does not hold.

    Args:
        matcher: One with variables is never said to hold always.
        schema: A JSON Schema of the values; None for any value at all.
        may_miss: Whether there may be no value.

    Returns:
        "always", "never", or None where it depends on the value or cannot be told.
    """
    place = ANYTHING if schema is None else Place.of(schema)
    return triviality_at(Place(place.views, may_miss), matcher)


def triviality_at(place: Place, matcher: Matcher) -> Triviality | None:
    """The same of the values that may stand at a place of a schema."""
    if holds_never(place, matcher):
        return "never"
    return "always" if holds_always(place, matcher) else None


def holds_never(place: Place, matcher: Matcher) -> bool:
    """Whether no value at the place meets the operations without variables."""
    static = static_part(matcher)
    if static is None or not place.views:
        return False
    if place.may_miss and _tried(static, [MISSING]).holds:
        return False
    return not any(
        _may_hold(schema, view, kind, static)
        for schema, view in place.views
        for kind in sorted(kinds_of(view))
    )


def holds_always(place: Place, matcher: Matcher) -> bool:
    """Whether every value at the place meets the matcher."""
    asks = any(one.name == "exists" and one.argument is True for one in matcher.operations)
    if asks or matcher.variables or not place.views:
        return False
    if place.may_miss and _tried(matcher, [MISSING]).fails:
        return False
    return not any(
        _may_fail(schema, view, kind, matcher)
        for schema, view in place.views
        for kind in sorted(kinds_of(view))
    )


def static_part(matcher: Matcher) -> Matcher | None:
    """The operations without variables; None where there are none."""
    found = tuple(one for one in matcher.operations if not Matcher((one,)).variables)
    if len(found) == len(matcher.operations):
        return matcher
    return Matcher(found) if found else None


@dataclass(frozen=True, slots=True)
class _Side:
    """What a matcher may answer to some values: whether it may hold, and whether it may not."""

    holds: bool
    fails: bool


class _Searched:
    """The same of a text that is looked for; each is worked out when it is asked for.

    Attributes:
        made: What takes the texts in which it is found.
    """

    def __init__(self, view: Conjunction, made: Automaton) -> None:
        self._view = view
        self._made = made

    @property
    def holds(self) -> bool:
        return self._is_some(Part(self._made))

    @property
    def fails(self) -> bool:
        return self._is_some(Part(self._made, is_wanted=False, is_generous=False))

    def _is_some(self, part: Part) -> bool:
        return _is_some((*_shape(self._view), part), *_size(self._view, "text"))


@lru_cache(maxsize=1024)
def _is_some(parts: tuple[Part, ...], low: float, high: float) -> bool:
    """Whether there may be a text of such a length that meets all parts."""
    if low == 0 and high == math.inf:
        return some_text(parts) is not False
    longest = int(low if high == math.inf else high + 1)
    return some_text(parts, lambda length: low <= length <= high, longest) is not False


class _Opposite:
    """A complement: it holds where the other does not."""

    def __init__(self, side: _AnySide) -> None:
        self._side = side

    @property
    def holds(self) -> bool:
        return self._side.fails

    @property
    def fails(self) -> bool:
        return self._side.holds


_AnySide: TypeAlias = _Side | _Searched | _Opposite
_OPEN: Final = _Side(True, True)
_HOLDS: Final = _Side(True, False)
_FAILS: Final = _Side(False, True)


def _may_hold(schema: Schema, view: Conjunction, kind: str, matcher: Matcher) -> bool:
    values = _values(schema, view, kind)
    if values is not None:
        return _tried(matcher, values).holds
    if not all(_operation(schema, view, kind, one).holds for one in matcher.operations):
        return False
    return _together(schema, view, kind, matcher)


def _may_fail(schema: Schema, view: Conjunction, kind: str, matcher: Matcher) -> bool:
    values = _values(schema, view, kind)
    if values is not None:
        return _tried(matcher, values).fails
    return any(_operation(schema, view, kind, one).fails for one in matcher.operations)


def _tried(matcher: Matcher, values: Sequence[Any]) -> _Side:
    """The answers to these values, which are all that there are."""
    test = matcher.compile()
    holds = fails = False
    for value in values:
        answer = test(value)
        is_unknown = not isinstance(answer, bool) and answer.cause is Cause.EVALUATOR_ERROR
        holds = holds or answer is True or is_unknown
        fails = fails or answer is not True
    if any(one.name == "secret" for one in matcher.operations) and values != [MISSING]:
        return _OPEN  # a secret's placeholder stands where another value was
    return _Side(holds, fails)


def _values(schema: Schema, view: Conjunction, kind: str) -> list[Any] | None:
    """Every value of this kind, or None where they are not few and known."""
    listed = next((part for part in view if "const" in part or "enum" in part), None)
    found: list[Any]
    if listed is not None:
        found = [listed["const"]] if "const" in listed else list(listed["enum"])
    elif kind == "null":
        found = [None]
    elif kind == "boolean":
        found = [True, False]
    elif kind == "number":
        numbers = _Numbers.of(view).listed()
        if numbers is None:
            return None
        found = list(numbers)
    else:
        return None
    return [one for one in found if kind_word(one) == kind and schema.holds(view, one)]


# -- one operation -----------------------------------------------------------------------------


def _operation(schema: Schema, view: Conjunction, kind: str, one: Operation) -> _AnySide:
    name, argument = one.name, one.argument
    if name in _EQUALITY:
        wanted = argument if name == "in" else [argument]
        return _Side(any(_may_be(schema, view, kind, value) for value in wanted), True)
    if name == "not":
        return _Side(True, _may_be(schema, view, kind, argument))
    if name == "exists":
        return _HOLDS if argument is True else _FAILS
    if name == "secret":
        return _OPEN
    if name in _ORDER:
        return _Numbers.of(view).compared(name, argument) if kind == "number" else _FAILS
    if name in ("contains", "not_contains"):
        side = _contained(schema, view, kind, argument)
        if side is None:
            return _FAILS
        return side if name == "contains" else _Opposite(side)
    if name == "pattern":
        made = read_expression(argument.source)
        if kind != "text":
            return _FAILS
        return _OPEN if made is None else _Searched(view, made)
    if name == "length":
        return _measured(view, kind, argument) if kind in _SIZES else _FAILS
    if kind != "list":
        return _FAILS
    return _of_elements(schema, view, name, argument)


def _may_be(schema: Schema, view: Conjunction, kind: str, value: Any) -> bool:
    return kind_word(value) == kind and (schema.holds(view, value) or is_open(value))


def is_open(value: Any) -> bool:
    """Whether a recorder may have written this in place of another value."""
    if isinstance(value, str):
        return SECRET_PREFIX in value or len(value) * 4 >= CUT_BYTES
    if isinstance(value, Mapping):
        return any(is_open(part) for part in (*value.keys(), *value.values()))
    return isinstance(value, list | tuple) and any(is_open(part) for part in value)


def _contained(schema: Schema, view: Conjunction, kind: str, value: Any) -> _AnySide | None:
    """None where that cannot be asked of this kind."""
    if kind == "list":
        elements = Place(((schema, view),)).elements()
        return _Side(elements.fits(value) or is_open(value), True)
    if kind != "text" or not isinstance(value, str):
        return None
    if not value:
        return _HOLDS
    made = containing(value)
    if made is None or not (_shape(view) or _size(view, "text") != (0, math.inf)):
        return _OPEN
    return _Searched(view, made)


def _shape(view: Conjunction) -> list[Part]:
    """The expressions that the schema asks of a text, as far as they can be read."""
    sources = [part["pattern"] for part in view if isinstance(part.get("pattern"), str)]
    read = (read_expression(source, is_schema=True) for source in sources)
    return [Part(made) for made in read if made is not None]


def _measured(view: Conjunction, kind: str, matcher: Matcher) -> _Side:
    low, high = _size(view, kind)
    if kind == "text" and low == 0 and high == math.inf and _shape(view):
        return _OPEN  # decided with everything else that is asked of the text
    place = _count(low, high)
    return _Side(not holds_never(place, matcher), not holds_always(place, matcher))


def _size(view: Conjunction, kind: str) -> tuple[float, float]:
    least, most = _SIZES[kind]
    lows = [part[least] for part in view if _is_number(part.get(least))]
    highs = [part[most] for part in view if _is_number(part.get(most))]
    if kind == "mapping":
        lows += [len(part["required"]) for part in view if isinstance(part.get("required"), list)]
    return max(lows, default=0), min(highs, default=math.inf)


def _count(low: float, high: float) -> Place:
    part: dict[str, Any] = {"type": "integer", "minimum": low}
    if high != math.inf:
        part["maximum"] = high
    return Place.of(part)


def _of_elements(schema: Schema, view: Conjunction, name: str, matcher: Matcher) -> _Side:
    elements = Place(((schema, view),)).elements()
    low, high = _size(view, "list")
    if high < 1:
        return _HOLDS if name == "none" else _FAILS
    is_sure = low >= 1 and holds_always(elements, matcher)
    if name == "none":
        # An element that is undecided leaves all undecided, so nothing more is certain.
        return _Side(not is_sure, True)
    return _Side(not holds_never(elements, matcher), not is_sure)


# -- several operations on one value -----------------------------------------------------------


def _together(schema: Schema, view: Conjunction, kind: str, matcher: Matcher) -> bool:
    """Whether one value of this kind may meet all operations; each alone can be met."""
    equality = next((one for one in matcher.operations if one.name in _EQUALITY), None)
    if equality is not None:
        wanted = equality.argument if equality.name == "in" else [equality.argument]
        values = [value for value in wanted if _may_be(schema, view, kind, value)]
        return any(map(is_open, values)) or _tried(matcher, values).holds
    if kind == "number":
        return _Numbers.of(view, matcher).has_any(
            [one.argument for one in matcher.operations if one.name == "not"]
        )
    if kind == "text" and (len(matcher.operations) > 1 or matcher.operations[0].name == "length"):
        return _some_text(view, matcher)
    return True  # one operation alone was decided


def _some_text(view: Conjunction, matcher: Matcher) -> bool:
    parts = _shape(view)
    low, high = _size(view, "text")
    lengths: Matcher | None = None
    for one in matcher.operations:
        made = None
        if one.name in ("contains", "not_contains"):
            made = containing(one.argument)
        elif one.name == "pattern":
            made = read_expression(one.argument.source)
        elif one.name == "length":
            lengths = one.argument
        if made is not None:
            parts.append(Part(made, is_wanted=one.name != "not_contains"))
    if not parts:
        return True  # lengths alone were decided
    test = None if lengths is None else lengths.compile()
    bounds = [*_bounds(lengths), low, *([] if high == math.inf else [high])]
    longest = math.ceil(max(bounds, default=0)) + 1

    def has_length(length: int) -> bool:
        return low <= length <= high and (test is None or test(length) is True)

    is_free = test is None and low == 0 and high == math.inf
    return some_text(parts, None if is_free else has_length, longest) is not False


def _bounds(matcher: Matcher | None) -> Iterator[float]:
    """Every number that a matcher over lengths names."""
    for one in () if matcher is None else matcher.operations:
        for value in one.argument if one.name == "in" else [one.argument]:
            if math.isfinite(value):
                yield max(value, 0)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers between two bounds.

    Attributes:
        is_above: Whether the lower bound itself is left out.
        is_below: Whether the upper one is.
        is_whole: Whether all of them are whole.
    """

    low: float
    high: float
    is_above: bool
    is_below: bool
    is_whole: bool

    @classmethod
    def of(cls, view: Conjunction, matcher: Matcher | None = None) -> _Numbers:
        """What a schema admits, and a matcher's number operators."""
        lows: list[tuple[float, bool]] = [(-math.inf, False)]
        highs: list[tuple[float, bool]] = [(math.inf, False)]
        is_whole = False
        for part in view:
            for key, side, is_open in (
                ("minimum", lows, False),
                ("exclusiveMinimum", lows, True),
                ("maximum", highs, False),
                ("exclusiveMaximum", highs, True),
            ):
                if _is_number(part.get(key)):
                    side.append((part[key], is_open))
            types = part.get("type")
            named = [types] if isinstance(types, str) else types
            is_whole = is_whole or (isinstance(named, list | tuple) and "number" not in named)
        for one in () if matcher is None else matcher.operations:
            if one.name in _ORDER and not isinstance(one.argument, Variable):
                side = lows if one.name in ("gt", "gte") else highs
                side.append((one.argument, one.name in ("gt", "lt")))
        (low, is_above) = max(lows)
        (high, is_below) = min(highs, key=lambda end: (end[0], not end[1]))
        if is_whole and math.isfinite(low):
            low, is_above = (math.floor(low) + 1 if is_above else math.ceil(low)), False
        if is_whole and math.isfinite(high):
            high, is_below = (math.ceil(high) - 1 if is_below else math.floor(high)), False
        return cls(low, high, is_above, is_below, is_whole)

    @property
    def is_empty(self) -> bool:
        return self.low > self.high or (self.low == self.high and (self.is_above or self.is_below))

    def listed(self) -> Sequence[float] | None:
        """Each of them, where they are few."""
        if self.is_empty:
            return []
        if self.low == self.high:
            return [self.low]
        if not self.is_whole or self.high - self.low >= MAX_LISTED:
            return None
        return range(int(self.low), int(self.high) + 1)

    def compared(self, name: str, bound: float) -> _Side:
        """Whether one of them is in that relation to ``bound``, and whether one is not."""
        least, most = self.low, self.high
        if name == "gt":
            return _Side(most > bound, not (least > bound or (least == bound and self.is_above)))
        if name == "gte":
            return _Side(most > bound or (most == bound and not self.is_below), not least >= bound)
        if name == "lt":
            return _Side(least < bound, not (most < bound or (most == bound and self.is_below)))
        return _Side(least < bound or (least == bound and not self.is_above), not most <= bound)

    def has_any(self, without: Sequence[Any]) -> bool:
        """Whether there may be one that is none of ``without``."""
        listed = self.listed()
        if listed is None:
            return True
        left = (one for one in listed if not any(_is_same(one, other) for other in without))
        return next(left, None) is not None


def _is_same(number: float, other: Any) -> bool:
    return _is_number(other) and bool(other == number)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

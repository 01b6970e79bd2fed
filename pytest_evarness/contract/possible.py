"""Finds conditions that no value can meet, or that every value meets, before they judge anything.

A contract with such a condition passes or fails whatever the run did, so it does not load.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.contract.schema import Place, Schema, kind_word
from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.core.matcher import MISSING, Matcher, Operation, Variable
from pytest_evarness.core.registry import nearest
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ORDER", "impossible", "static_part"]

ORDER: Final = ("gt", "gte", "lt", "lte")
_COMPLEMENTS: Final = ("not", "not_contains", "none")
_LENGTH: Final = Place(
    ((Schema({}, is_listed=True), ({"type": "integer", "minimum": 0},)),), may_miss=False
)
_KINDS_OF: Final = {
    **dict.fromkeys(ORDER, ("a number", {"number"})),
    **dict.fromkeys(("contains", "not_contains"), ("a text or a list", {"text", "list"})),
    "pattern": ("a text", {"text"}),
    "length": ("a text, a list or a mapping", {"text", "list", "mapping"}),
    **dict.fromkeys(("all", "any", "none"), ("a list", {"list"})),
}


def static_part(matcher: Matcher) -> Matcher | None:
    """The operations without variables; None where there are none."""
    found = tuple(one for one in matcher.operations if not Matcher((one,)).variables)
    return Matcher(found) if found else None


def impossible(place: Place | None, matcher: Matcher) -> list[Fault]:
    """Every operation that no value at ``place`` can meet, or that all of them meet.

    Args:
        place: What may stand there; None where nobody knows.
        matcher: Its variables are left out.
    """
    faults = [fault for one in matcher.operations for fault in _operation(place, one)]
    if not faults:
        static = static_part(matcher)
        faults = [] if static is None else list(_together(place, static))
    return faults


def _operation(place: Place | None, one: Operation) -> Iterator[Fault]:
    path = () if one.word is None else (one.word,)
    if one.name == "length":
        yield from (fault.under(*path) for fault in impossible(_LENGTH, one.argument))
    if place is None:
        if one.name in ("all", "any", "none"):
            yield from (fault.under(*path) for fault in impossible(None, one.argument))
        return
    needed = _KINDS_OF.get(one.name)
    if needed is not None and not place.kinds & needed[1]:
        yield Fault(
            path,
            f"{one.word} can never be decided",
            rule=f"it needs {needed[0]}, and {place.needs()} is there",
            code="wrong_operator",
        )
    elif one.name in ("equals", "not"):
        yield from _literal(place, one.argument, path, one.name == "not")
    elif one.name == "in":
        for index, item in enumerate(one.argument):
            yield from _literal(place, item, (*path, index), False)
    elif one.name in ("contains", "not_contains"):
        yield from _member(place, one, path)
    elif one.name == "exists" and one.argument is False and not place.may_miss:
        yield Fault(
            path,
            "is always there",
            "exists: false",
            "every event of this type has it",
            "ask for its value",
            code="always_there",
        )
    elif one.name in ("all", "any", "none"):
        inner = impossible(place.elements(), one.argument)
        yield from (fault.under(*path) for fault in inner)


def _literal(
    place: Place, value: Any, path: tuple[str | int, ...], is_complement: bool
) -> Iterator[Fault]:
    if isinstance(value, Variable) or place.fits(value):
        return
    always = ", so the condition always holds" if is_complement else ""
    yield Fault(
        path,
        f"can never be equal{always}",
        "null" if value is None else f"{kind_of(value)} {shown(value, 60)}",
        f"{place.needs()} is needed",
        _instead(place, value),
        code="never_equal",
    )


def _instead(place: Place, value: Any) -> str | None:
    if value is None:
        return "write 'exists: false'" if place.may_miss else None
    if isinstance(value, (int, float, bool)):
        written = str(getattr(value, "written", None) or shown(value, 60))
        return f"write '{written}' in quotes" if place.fits(written) else None
    if isinstance(value, str):
        for read in (int, float):
            try:
                if place.fits(read(value)):
                    return f"write {value} without quotes"
            except (ValueError, OverflowError):
                continue
        if value in ("true", "false") and place.fits(value == "true"):
            return f"write {value} without quotes"
        known = [item for item in place.values() or () if isinstance(item, str)]
        near = nearest(value, known)
        return f"write '{near}'" if near else None
    if kind_word(value) == "list" and value and all(place.fits(item) for item in value):
        return f"write 'in: {shown(value, 60)}'"
    return None


def _member(place: Place, one: Operation, path: tuple[str | int, ...]) -> Iterator[Fault]:
    value = one.argument
    if isinstance(value, Variable) or ("text" in place.kinds and isinstance(value, str)):
        return
    elements = place.elements()
    if "list" in place.kinds and elements.fits(value):
        return
    always = ", so the condition always holds" if one.name == "not_contains" else ""
    needed = elements.needs() if "list" in place.kinds else "text"
    yield Fault(
        path,
        f"can never be contained{always}",
        f"{kind_of(value)} {shown(value, 60)}",
        f"{needed} is needed",
        _instead(elements, value) if "list" in place.kinds else None,
        code="never_equal",
    )


def _together(place: Place | None, matcher: Matcher) -> Iterator[Fault]:
    """Operations of which each can be met, but not all by one value."""
    names = [one.name for one in matcher.operations]
    if "secret" in names:
        return
    candidates = _candidates(place, matcher)
    if candidates is not None:
        # A complement alone of the only value is a claim about it, no slip.
        if all(name in _COMPLEMENTS for name in names):
            return
        test = matcher.compile()
        if any(test(value) is True for value in candidates):
            return
    elif not _is_empty(place, matcher):
        return
    yield Fault(
        (),
        "no value can meet this",
        matcher.describe(),
        None if place is None else f"{place.needs()} is there",
        code="never_equal",
    )


def _candidates(place: Place | None, matcher: Matcher) -> list[Any] | None:
    for one in matcher.operations:
        if one.name == "equals":
            return [one.argument]
        if one.name == "in":
            return [item for item in one.argument if not isinstance(item, Variable)]
    values = None if place is None else place.values()
    if values is None or place is None:
        return None
    return [*values, MISSING] if place.may_miss else values


def _is_empty(place: Place | None, matcher: Matcher) -> bool:
    """Whether number operators leave no number."""
    low, high, is_whole = (-math.inf, math.inf, False) if place is None else place.bounds()
    lows, highs = [(low, False)], [(high, False)]
    for one in matcher.operations:
        if one.name not in ORDER or not math.isfinite(one.argument):
            continue
        side = lows if one.name in ("gt", "gte") else highs
        side.append((one.argument, one.name in ("gt", "lt")))
    if len(lows) + len(highs) == 2:
        return False
    (low, is_above), (high, is_below) = max(lows), min(highs, key=lambda end: (end[0], not end[1]))
    if low > high or (low == high and (is_above or is_below)):
        return True
    if not is_whole or not math.isfinite(low) or not math.isfinite(high):
        return False
    first = math.floor(low) + 1 if is_above else math.ceil(low)
    last = math.ceil(high) - 1 if is_below else math.floor(high)
    return first > last

"""Finds conditions that no value can meet, or that every value meets, before they judge anything.

A contract with such a condition passes or fails whatever the run did, so it does not load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.core.matcher import Matcher, Operation, Variable
from pytest_evarness.core.registry import nearest
from pytest_evarness.core.schema import ANYTHING, Place, PlaceError, Schema, joined, kind_word
from pytest_evarness.core.triviality import holds_always, holds_never, is_open, static_part
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ORDER", "asserts_nothing", "impossible", "sought"]

ORDER: Final = ("gt", "gte", "lt", "lte")
_COMPLEMENTS: Final = ("not", "not_contains", "none")
_LENGTH: Final = Place(
    ((Schema({}, is_listed=True), ({"type": "integer", "minimum": 0},)),), may_miss=False
)
_MOST_TOLD: Final = 4
_OPEN: Final = Place(ANYTHING.views, may_miss=True)
_KINDS_OF: Final = {
    **dict.fromkeys(ORDER, ("a number", {"number"})),
    **dict.fromkeys(("contains", "not_contains"), ("a text or a list", {"text", "list"})),
    "pattern": ("a text", {"text"}),
    "length": ("a text, a list or a mapping", {"text", "list", "mapping"}),
    **dict.fromkeys(("all", "any", "none"), ("a list", {"list"})),
}


def impossible(place: Place | None, matcher: Matcher) -> list[Fault]:
    """Every operation that no value at ``place`` can meet, or that all of them meet.

    Args:
        place: What may stand there; None where nobody knows.
        matcher: Its variables are left out.
    """
    faults: list[Fault] = []
    for one in matcher.operations:
        faults += list(_operation(place, one)) or list(_alone(place, one))
    if not faults and len(matcher.operations) > 1:
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
    # What a secret's placeholder stands for, and how a cut text goes on, nobody knows.
    if isinstance(value, Variable) or place.fits(value) or is_open(value):
        return
    told: dict[str, str | None] = {}
    if isinstance(value, Mapping):
        _misfit(place, value, (), told)
    why = "; ".join(list(told)[:_MOST_TOLD])
    fix = next((one for one in told.values() if one), None)
    always = ", so the condition always holds" if is_complement else ""
    yield Fault(
        path,
        f"can never be equal{always}",
        "null" if value is None else f"{kind_of(value)} {shown(value, 60)}",
        why or f"{place.needs()} is needed",
        fix or _instead(place, value),
        code="never_equal",
    )


def _misfit(
    place: Place, value: Any, at: tuple[str | int, ...], told: dict[str, str | None]
) -> None:
    """What of a mapping or list no schema of the place admits, each with what to write instead."""
    before = len(told)
    where = joined(at) or "it"
    if isinstance(value, Mapping):
        for schema, view in place.views:
            for name in sorted({name for part in view for name in part.get("required", ())}):
                if name not in value:
                    told[f"{where} needs {shown(name, 60)}"] = None
            for name, item in value.items():
                inner = schema.inside(view, name)
                if isinstance(inner, PlaceError):
                    names = {one for part in view for one in part.get("properties", ())}
                    near = nearest(name, names)
                    known = ", ".join(sorted(names)) or "nothing"
                    told[f"{where} has no {shown(name, 60)}, it has {known}"] = (
                        f"write '{near}'" if near else None
                    )
                elif not inner.fits(item):
                    _misfit(inner, item, (*at, name), told)
    elif isinstance(value, list | tuple) and "list" in place.kinds:
        for index, item in enumerate(value):
            if not place.elements().fits(item):
                _misfit(place.elements(), item, (*at, index), told)
    if at and len(told) == before:
        told[f"{where}: {place.needs()} is needed"] = _instead(place, value)


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
        known = [item for item in place.listed() if isinstance(item, str)]
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


def _alone(place: Place | None, one: Operation) -> Iterator[Fault]:
    """An operation that no value meets, by more than its kind."""
    static = static_part(Matcher((one,)))
    if one.name in _COMPLEMENTS or static is None:
        return
    if holds_never(_OPEN if place is None else place, static):
        yield _never(place, static, () if one.word is None else (one.word,))


def _together(place: Place | None, matcher: Matcher) -> Iterator[Fault]:
    """Operations of which each can be met, but not all by one value."""
    # A complement alone of the only value is a claim about it, no slip.
    if all(one.name in _COMPLEMENTS for one in matcher.operations):
        return
    if holds_never(_OPEN if place is None else place, matcher):
        yield _never(place, matcher, ())


def _never(place: Place | None, matcher: Matcher, path: tuple[str | int, ...]) -> Fault:
    near = None
    known = [] if place is None else [one for one in place.values() or () if isinstance(one, str)]
    for one in matcher.operations:
        text = sought(one)
        near = near or (nearest(text, known) if text else None)
    return Fault(
        path,
        "no value can meet this",
        matcher.describe(),
        None if place is None else f"{place.needs()} is there",
        f"did you mean '{near}'?" if near else None,
        code="never_equal",
    )


def sought(one: Operation) -> str | None:
    """The text that an operation looks for, roughly."""
    source = getattr(one.argument, "source", one.argument)
    return re.sub(r"[\\^$*+?()\[\]|]", "", source) if isinstance(source, str) else None


def asserts_nothing(place: Place, matcher: Matcher, path: tuple[str | int, ...]) -> Fault | None:
    """The fault of a condition that every value at ``place`` meets, where that is so."""
    if not holds_always(place, matcher):
        return None
    return Fault(
        path,
        "always holds, so nothing is asserted",
        matcher.describe(),
        f"{place.needs()} is there",
        "ask for more, or write 'exists: true' to ask only that it is there",
        code="always_holds",
    )

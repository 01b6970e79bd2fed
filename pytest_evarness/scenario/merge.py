"""Merging the layers of a case, so that every value still knows the line it was written on.

Lowest first: fixture, scenario, case, matrix point, decisions of the command line. See
docs/scenarios.md, "Merging".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_evarness.source.place import Mark, Places

__all__ = ["WHOLE", "keep_tags", "merge", "place"]

WHOLE = frozenset({("expect",), ("environment", "approvals")})
"""Mappings that a higher layer replaces whole."""


def merge(
    places: Places,
    base: Mapping[str, Any],
    over: Mapping[str, Any],
    *,
    path: tuple[str, ...] = (),
) -> dict[str, Any]:
    """``base`` with ``over`` laid upon it; neither is changed.

    Mappings merge key by key, lists and all else replace, null removes what is inherited.

    Args:
        places: Knows where both stand, and is told where the result's values stand.
        base: The lower layer.
        over: The higher layer.
        path: Of both in the scenario, for the mappings that are replaced whole.
    """
    if not over:
        return base if isinstance(base, dict) else dict(base)
    result = dict(base)
    marks = _marks(places, base)
    over_marks = _marks(places, over)
    for key, value in over.items():
        at = (*path, key)
        inherited = key in result
        if value is None and inherited:
            del result[key]
            marks.pop(key, None)
            continue
        below = result.get(key)
        if isinstance(value, dict) and isinstance(below, dict) and at not in WHOLE:
            result[key] = merge(places, below, value, path=at)
        else:
            result[key] = value
        mark = over_marks.get(key)
        if mark is not None:
            marks[key] = mark
        else:
            marks.pop(key, None)
    places.note(result, marks)
    return result


def place(
    places: Places,
    base: Mapping[str, Any],
    path: Sequence[str | int],
    value: Any,
    mark: Mark | None,
) -> dict[str, Any]:
    """``base`` with ``value`` at ``path``, everything on the way copied.

    At the end of the path the rules of :func:`merge` hold; a path that goes on below ``expect``
    or ``approvals`` changes one key of them.

    Raises:
        LookupError: The path leads through a list that has no such element, or through a value
            that has no keys; its argument is the path as far as it goes.
    """
    made = _place(places, base, tuple(path), 0, value, mark)
    assert isinstance(made, dict), "a path begins with a key"
    return made


def keep_tags(places: Places, below: Mapping[str, Any], merged: dict[str, Any]) -> dict[str, Any]:
    """``merged`` with the tags of ``below`` as well, whatever was laid upon it.

    Tags say which contracts of a library are for the case: a case may add to them, and never takes
    one away.
    """
    kept, own = below.get("tags"), merged.get("tags")
    if own is None:
        own = []
    if not isinstance(kept, list) or not isinstance(own, list) or own is kept:
        return merged
    added = [at for at, one in enumerate(own) if one not in kept]
    if not kept:
        return merged
    tags = [*kept, *(own[at] for at in added)]
    known, more = places.marks_of(kept), places.marks_of(own)
    if isinstance(known, list) and (isinstance(more, list) or not added):
        places.note(tags, [*known, *(more[at] for at in added)])  # type: ignore[index]
    marks = _marks(places, merged)
    if "tags" not in marks and "tags" in (before := _marks(places, below)):
        marks["tags"] = before["tags"]
    result = {**merged, "tags": tags}
    places.note(result, marks)
    return result


def _place(
    places: Places,
    base: Any,
    path: tuple[str | int, ...],
    depth: int,
    value: Any,
    mark: Mark | None,
) -> Any:
    part = path[depth]
    last = depth == len(path) - 1
    if isinstance(part, int):
        if not isinstance(base, list) or part >= len(base):
            raise LookupError(path[: depth + 1])
        items = list(base)
        known = places.marks_of(base)
        list_marks = list(known) if isinstance(known, list) else []
        items[part] = value if last else _place(places, base[part], path, depth + 1, value, mark)
        if last and mark is not None and part < len(list_marks):
            list_marks[part] = mark
        if list_marks:
            places.note(items, list_marks)
        return items
    if not isinstance(base, dict):
        raise LookupError(path[:depth])
    if last:
        over = {part: value}
        if mark is not None:
            places.note(over, {part: mark})
        return merge(places, base, over, path=_names(path[:depth]))
    result = dict(base)
    marks = _marks(places, base)
    result[part] = _place(places, base.get(part, {}), path, depth + 1, value, mark)
    if part not in marks and mark is not None:
        marks[part] = mark
    places.note(result, marks)
    return result


def _names(path: tuple[str | int, ...]) -> tuple[str, ...]:
    return tuple(part for part in path if isinstance(part, str))


def _marks(places: Places, container: Mapping[str, Any]) -> dict[str, Mark]:
    found = places.marks_of(container)
    return dict(found) if isinstance(found, dict) else {}

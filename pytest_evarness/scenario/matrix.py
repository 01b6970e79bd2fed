"""A matrix: paths into the scenario, the points they cross to, and the ids of the points."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_evarness.errors import Fault
from pytest_evarness.source.limit import MAX_MISTAKES
from pytest_evarness.source.number import WrittenFloat
from pytest_evarness.source.quote import nearest, one_of, quoted, shown

if TYPE_CHECKING:
    from pytest_evarness.source.place import Mark, Places

__all__ = [
    "MAX_CASES",
    "MAX_KEYS",
    "SHORT_NAMES",
    "Axis",
    "Point",
    "parse_matrix",
    "parse_path",
    "point_words",
    "points",
]

MAX_CASES = 100_000
MAX_KEYS = 100

SHORT_NAMES = ("seed", "provider", "schedule", "params", "approvals", "faults")
"""Keys of a case that stand for ``environment.<key>``."""

_PART = re.compile(
    r"""\.?(?P<name>[^\s.\[\]"']+)          # a bare name
      | \[(?P<index>[0-9]{1,6})\]           # an element of a list
      | \[(?P<quote>["'])(?P<key>.*?)(?P=quote)\]  # any key
    """,
    re.VERBOSE,
)
_IN_ID = re.compile(r"[A-Za-z0-9_.-]{1,32}\Z")
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Axis:
    """One key of a matrix.

    Attributes:
        key: As it is written.
        path: Into the scenario, short names written out.
        values: ``(value, mark, text in the id)``.
        name: What stands before the value in the id.
    """

    key: str
    path: tuple[str | int, ...]
    values: tuple[tuple[Any, Mark | None, str], ...]
    name: str


@dataclass(frozen=True, slots=True)
class Point:
    """One combination: ``(axis, value, mark)`` in file order, and its part of the id."""

    settings: tuple[tuple[Axis, Any, Mark | None], ...]
    suffix: str


def parse_path(text: str) -> tuple[str | int, ...] | None:
    """Read ``environment.faults["email.send"].fail_after.first``; None where it is no path."""
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        found = _PART.match(text, position)
        if found is None or (text[position] != "." and found.group("name") and position):
            return None
        if text[position] == "." and not position:
            return None
        if found.group("name") is not None:
            parts.append(found.group("name"))
        elif found.group("index") is not None:
            parts.append(int(found.group("index")))
        else:
            parts.append(found.group("key"))
        position = found.end()
    if not parts or not isinstance(parts[0], str):
        return None
    return tuple(parts)


def parse_matrix(
    value: object, places: Places, known: tuple[str, ...]
) -> tuple[tuple[Axis, ...], list[Fault]]:
    """The axes of a matrix and what is wrong with it; paths are relative to the matrix.

    Args:
        value: As it is written.
        places: Where its values stand.
        known: First keys that a path may begin with.
    """
    if not isinstance(value, Mapping):
        return (), [Fault((), "must be a mapping", got=shown(value), rule="{KEY: [values]}")]
    if not value:
        return (), [Fault((), "must not be empty", got="{}", rule="{KEY: [values]}")]
    if len(value) > MAX_KEYS:
        return (), [Fault((), "has too many keys", got=str(len(value)), rule=f"at most {MAX_KEYS}")]
    faults: list[Fault] = []
    drafts: list[tuple[str, tuple[str | int, ...], list[Any]]] = []
    for key, values in value.items():
        path = parse_path(key)
        if path is None:
            faults.append(
                Fault(
                    (key,),
                    "must be a path",
                    got=quoted(key),
                    rule='such as environment.faults["email.send"].fail_after.first',
                    at_key=True,
                )
            )
            continue
        fault = _check_root(key, path, known)
        if fault is not None:
            faults.append(fault)
            continue
        if not isinstance(values, list):
            faults.append(Fault((key,), "must be a list", got=shown(values), rule="the values"))
            continue
        if not values:
            faults.append(Fault((key,), "must not be empty", got="[]", rule="no value, no case"))
            continue
        full = ("environment", *path) if path[0] in SHORT_NAMES else path
        for other, other_path, _ in drafts:
            shorter = min(len(full), len(other_path))
            if full[:shorter] == other_path[:shorter]:
                faults.append(
                    Fault(
                        (key,),
                        "sets what another key sets",
                        got=quoted(key),
                        rule=f"{quoted(other)} is there too; only one of them",
                        at_key=True,
                    )
                )
                break
        else:
            drafts.append((key, full, values))
    if faults:
        return (), faults
    names = _names([path for _, path, _ in drafts])
    axes = []
    for (key, path, values), name in zip(drafts, names, strict=True):
        texts = [_value_text(one, position) for position, one in enumerate(values)]
        firsts: dict[str, int] = {}
        for position, text in enumerate(texts):
            first = firsts.setdefault(text, position)
            if first != position and len(faults) < MAX_MISTAKES:
                faults.append(
                    Fault(
                        (key, position),
                        "gives an id that another value gives",
                        got=shown(values[position]),
                        rule=f"{shown(values[first])} gives '{name}-{text}' as well",
                    )
                )
        marked = tuple(
            (one, places.child(values, position), texts[position])
            for position, one in enumerate(values)
        )
        axes.append(Axis(key, path, marked, name))
    if math.prod(len(axis.values) for axis in axes) > MAX_CASES:
        faults.append(
            Fault((), "has too many points", rule=f"a file holds at most {MAX_CASES} cases")
        )
    return tuple(axes), faults


def _check_root(key: str, path: tuple[str | int, ...], known: tuple[str, ...]) -> Fault | None:
    root = path[0]
    assert isinstance(root, str), "parse_path begins with a name"
    if root in known or root in SHORT_NAMES:
        return None
    near = nearest(root, (*known, *SHORT_NAMES))
    return Fault(
        (key,),
        "begins with no key of a case",
        got=quoted(root),
        rule=f"known: {one_of((*known, *SHORT_NAMES))}",
        fix=f"write '{near}'" if near else None,
        at_key=True,
    )


def _names(paths: list[tuple[str | int, ...]]) -> list[str]:
    """The last segment of each path, or as many of them as tell the paths apart."""
    names: list[str] = []
    for path in paths:
        for length in range(1, len(path) + 1):
            tail = path[-length:]
            if sum(other[-length:] == tail for other in paths) == 1:
                break
        names.append("-".join(_NOT_IN_ID.sub("-", str(part)) or "-" for part in tail))
    return names


def _value_text(value: Any, position: int) -> str:
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif value is None:
        text = "null"
    elif isinstance(value, WrittenFloat):
        text = value.written
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        text = ""
    return text if _IN_ID.match(text) else f"v{position}"


def point_words(params: Iterable[tuple[str, object]]) -> list[str]:
    """``KEY=VALUE`` for each value of a point that its id cannot spell, such as ``sim:NAME``."""
    return [
        f"{key}={value if isinstance(value, str) else shown(value, 80)}"
        for key, value in params
        if _value_text(value, 0) == "v0" and value != "v0"
    ]


def points(axes: tuple[Axis, ...]) -> Iterator[Point]:
    """Every combination, the last key varying fastest; one empty point without axes."""
    for choice in itertools.product(*(axis.values for axis in axes)):
        settings = tuple(
            (axis, value, mark) for axis, (value, mark, _) in zip(axes, choice, strict=True)
        )
        suffix = "".join(
            f".{axis.name}-{text}" for axis, (_, _, text) in zip(axes, choice, strict=True)
        )
        yield Point(settings, suffix)

"""What a JSON Schema admits at a path, so that a condition that can never hold does not load.

Only what a schema certainly excludes is reported: a keyword that is not known here narrows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import same
from pytest_evarness.core.registry import nearest

__all__ = [
    "ANYTHING",
    "NODE_ID",
    "Conjunction",
    "Place",
    "PlaceError",
    "Schema",
    "joined",
    "kind_word",
]

Step: TypeAlias = str | int | None
"""A key, an index, or None for ``[*]``."""

_KINDS: Final = ("text", "number", "boolean", "null", "list", "mapping")
_KIND_OF_TYPE: Final[Mapping[str, str]] = {
    "string": "text",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
    "array": "list",
    "object": "mapping",
}
_MAX_BRANCHES: Final = 64
_MAX_DEPTH: Final = 32
_MARK: Final = "truncated"
"""The kernel sets it beside a text that it cut, in any mapping."""
_SECONDS: Final = 1.0

Conjunction: TypeAlias = "tuple[Mapping[str, Any], ...]"
"""Schemas that all hold of one value."""


@dataclass(frozen=True, slots=True)
class PlaceError:
    """A path that no value of the schema has.

    Attributes:
        text: What is there instead.
        fix: The nearest path.
    """

    text: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """What a path may meet.

    Attributes:
        views: Alternatives; a value fits one of them.
        may_miss: Whether some value has nothing at the path.
        strays: ``(step, names beside it)`` where an open mapping does not list the step.
    """

    views: tuple[tuple[Schema, Conjunction], ...]
    may_miss: bool = True
    strays: tuple[tuple[str, frozenset[str]], ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, schema: Any, *, may_miss: bool = False) -> Place:
        """A place that the schema itself describes."""
        whole = Schema(schema, is_listed=False)
        return cls(tuple((whole, view) for view in whole.branches(schema)), may_miss)

    def merged(self, other: Place) -> Place:
        """What either meets."""
        return Place(
            (*self.views, *other.views),
            self.may_miss or other.may_miss,
            # A name that one of them lists is a name.
            self.strays and other.strays and (*self.strays, *other.strays),
        )

    @property
    def kinds(self) -> frozenset[str]:
        """Every JSON kind that a value here may have."""
        return frozenset(kind for _, one in self.views for kind in _kinds(one))

    def fits(self, value: Any) -> bool:
        """Whether ``value`` may stand here."""
        return any(schema.holds(one, value) for schema, one in self.views)

    def elements(self) -> Place:
        """What an element of a list here may be."""
        views = [
            (schema, inner)
            for schema, one in self.views
            if "list" in _kinds(one)
            for inner in schema.branches({"allOf": [_items(part) for part in one]})
        ]
        return Place(tuple(views), may_miss=False)

    def values(self) -> list[Any] | None:
        """Every value that may stand here, or None where they are not few and known."""
        found: list[Any] = []
        for _, one in self.views:
            listed = next((part for part in one if "enum" in part or "const" in part), None)
            if listed is not None:
                found += listed["enum"] if "enum" in listed else [listed["const"]]
            elif _kinds(one) <= {"null", "boolean"}:
                found += [None] if "null" in _kinds(one) else []
                found += [True, False] if "boolean" in _kinds(one) else []
            else:
                return None
        return [value for value in found if self.fits(value)]

    def listed(self) -> list[Any]:
        """The values that are listed, also where others may stand here beside them."""
        return [
            value
            for _, one in self.views
            for part in one
            for value in part.get("enum", ())
            if self.fits(value)
        ]

    def bounds(self) -> tuple[float, float, bool]:
        """Least and greatest number that may stand here, and whether all are whole."""
        least: list[float] = []
        most: list[float] = []
        is_whole = True
        for _, one in self.views:
            if "number" not in _kinds(one):
                continue
            low = [part[key] for part in one for key in _LOW if _is_number(part.get(key))]
            high = [part[key] for part in one for key in _HIGH if _is_number(part.get(key))]
            least.append(max(low, default=float("-inf")))
            most.append(min(high, default=float("inf")))
            is_whole = is_whole and any(part.get("type") == "integer" for part in one)
        return min(least, default=float("-inf")), max(most, default=float("inf")), is_whole

    def _leaves_out(self, key: str, bound: float) -> bool:
        """Whether the bound itself may not stand here."""
        return any(part.get(key) == bound for _, one in self.views for part in one)

    def needs(self) -> str:
        """What may stand here, in words."""
        values = self.values()
        if values is not None:
            return "one of " + ", ".join(value_text(value) for value in values)
        number = "whole number" if self.bounds()[2] else "number"
        words = [number if kind == "number" else str(kind) for kind in _KINDS if kind in self.kinds]
        more = ""
        if words in (["number"], ["whole number"]):
            low, high, _ = self.bounds()
            above = "above" if self._leaves_out("exclusiveMinimum", low) else "of at least"
            below = "below" if self._leaves_out("exclusiveMaximum", high) else "up to"
            more += f" {above} {low:g}" if low > float("-inf") else ""
            more += f" {below} {high:g}" if high < float("inf") else ""
        elif words == ["text"]:
            patterns = {
                part["pattern"] for _, one in self.views for part in one if "pattern" in part
            }
            more = f" like {next(iter(patterns))}" if len(patterns) == 1 else ""
            sizes = {_size(one) for _, one in self.views}
            size = next(iter(sizes)) if len(sizes) == 1 else None
            more += f" ({size} characters)" if size is not None else ""
        return (" or ".join(words) or "nothing") + more


_LOW: Final = ("minimum", "exclusiveMinimum")
_HIGH: Final = ("maximum", "exclusiveMaximum")


class Schema:
    """A JSON Schema that is asked about paths.

    Args:
        root: The schema; references inside it are resolved, others admit anything.
        is_listed: Whether a mapping that lists fields and says nothing of others has no others.
        base: Where its value stands, for messages; the value is a mapping.
    """

    __slots__ = ("base", "is_listed", "root")

    def __init__(self, root: Any, *, is_listed: bool, base: Sequence[Step] = ()) -> None:
        self.root = root
        self.is_listed = is_listed
        self.base = tuple(base)

    def place(self, steps: Sequence[Step]) -> Place | PlaceError:
        """What ``steps`` may meet, or why they meet nothing."""
        views = self.branches(self.root)
        may_miss = False
        strays: list[tuple[str, frozenset[str]]] = []
        for at, step in enumerate(steps):
            found: list[Conjunction] = []
            dead: list[PlaceError] = []
            unlisted: list[frozenset[str]] = []
            for view in views:
                inner = self._inside(view, steps, at)
                if isinstance(inner, PlaceError):
                    dead.append(inner)
                    continue
                found += self.branches({"allOf": inner[0]})
                may_miss = may_miss or not (
                    isinstance(step, str)
                    and (at == 0 or _kinds(view) == {"mapping"})
                    and _requires(view, step)
                )
                if inner[1] is not None:
                    unlisted.append(inner[1])
                elif isinstance(step, str):
                    unlisted.append(frozenset())
            if not found:
                return _worst(dead)
            may_miss = may_miss or bool(dead)
            if isinstance(step, str) and unlisted and all(unlisted):
                strays.append((step, frozenset().union(*unlisted)))
            views = found[:_MAX_BRANCHES] if len(found) <= _MAX_BRANCHES else [({},)]
        return Place(tuple((self, view) for view in views), may_miss, tuple(strays))

    def inside(self, view: Conjunction, step: Step) -> Place | PlaceError:
        """What is one step further in a value of this alternative."""
        inner = self._inside(view, (step,), 0)
        if isinstance(inner, PlaceError):
            return inner
        return Place(tuple((self, one) for one in self.branches({"allOf": inner[0]})))

    def _inside(
        self, view: Conjunction, steps: Sequence[Step], at: int
    ) -> PlaceError | tuple[list[Any], frozenset[str] | None]:
        """The schemas one step further; with them the names beside a name that is not listed."""
        step = steps[at]
        where = joined([*self.base, *steps[:at]]) or "a payload"
        kinds = _kinds(view)
        needed, what = ("mapping", "fields") if isinstance(step, str) else ("list", "elements")
        if needed not in kinds:
            words = " or ".join(kind for kind in _KINDS if kind in kinds)
            return PlaceError(f"no {what} in {where}: it is {words or 'nothing'}")
        if not isinstance(step, str):
            return self._elements(view, step, where)
        declared: list[Any] = []
        names: set[str] = set()
        is_closed = is_refused = False
        for part in view:
            fields = part.get("properties")
            fields = fields if isinstance(fields, Mapping) else {}
            names.update(fields)
            by_pattern = part.get("patternProperties")
            by_pattern = by_pattern if isinstance(by_pattern, Mapping) else {}
            hits = [inner for text, inner in by_pattern.items() if _found(text, step) is not False]
            if step in fields or hits:
                declared += [fields[step]] if step in fields else []
                declared += hits
                continue
            more = part.get("additionalProperties")
            if more is False:
                is_refused = True
            elif isinstance(more, Mapping):
                declared.append(more)
            elif more is None and part.get("unevaluatedProperties") is False:
                is_closed = True
            elif more is None and self.is_listed and "if" not in part:
                is_closed = is_closed or bool(fields) or (at == 0 and "properties" in part)
        if step == _MARK and not declared:
            return [{"const": True}], None
        if is_refused or (is_closed and not declared) or False in declared:
            near = nearest(step, names)
            fix = joined([*self.base, *steps[:at], near, *steps[at + 1 :]]) if near else None
            return PlaceError(f"{', '.join(sorted(names)) or 'nothing'} in {where}", fix)
        return declared, (frozenset(names) or None) if not declared else None

    def _elements(
        self, view: Conjunction, step: int | None, where: str
    ) -> PlaceError | tuple[list[Any], frozenset[str] | None]:
        most = min(
            (part["maxItems"] for part in view if _is_number(part.get("maxItems"))),
            default=float("inf"),
        )
        if most <= (step or 0):
            return PlaceError(f"at most {most} elements in {where}")
        return [_items(part, step) for part in view], None

    def branches(self, schema: Any, depth: int = 0) -> list[Conjunction]:
        """The schema as alternatives, each a list of schemas that hold together."""
        if schema is False:
            return []
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return [({},)]
        found: list[Conjunction] = [(schema,)]
        parts: list[list[Conjunction]] = []
        if "$ref" in schema:
            parts.append(self.branches(self._referred(schema["$ref"]), depth + 1))
        parts += [self.branches(part, depth + 1) for part in _listed(schema, "allOf")]
        parts += [
            [one for part in _listed(schema, key) for one in self.branches(part, depth + 1)]
            for key in ("anyOf", "oneOf")
            if key in schema
        ]
        for part in parts:
            found = [(*left, *right) for left in found for right in part]
            if len(found) > _MAX_BRANCHES:
                return [({},)]
        return [one for one in found if _kinds(one)]

    def _referred(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return {}
        value = self.root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(value, Mapping) and name in value:
                value = value[name]
            elif isinstance(value, (list, tuple)) and name.isdigit() and int(name) < len(value):
                value = value[int(name)]
            else:
                return {}
        return value if reference == "#" or "/" in reference else {}

    def holds(self, view: Conjunction, value: Any) -> bool:
        """Whether ``value`` may be of this alternative."""
        return all(self._part_holds(part, value) for part in view)

    def _fits(self, schema: Any, value: Any) -> bool:
        return any(self.holds(one, value) for one in self.branches(schema))

    def _part_holds(self, part: Mapping[str, Any], value: Any) -> bool:
        kind = kind_word(value)
        if kind not in _own_kinds(part):
            return False
        if "const" in part and not same(part["const"], value):
            return False
        if "enum" in part and not any(same(one, value) for one in part["enum"]):
            return False
        if kind == "number":
            return _number_holds(part, value)
        if kind == "text":
            return _in_length(part, "minLength", "maxLength", len(value)) and not (
                "pattern" in part and _found(part["pattern"], value) is False
            )
        if kind == "list":
            return _in_length(part, "minItems", "maxItems", len(value)) and all(
                self._fits(_items(part, index), item) for index, item in enumerate(value)
            )
        return kind != "mapping" or self._mapping_holds(part, value)

    def _mapping_holds(self, part: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
        if any(name not in value for name in part.get("required", ())):
            return False
        fields = part.get("properties")
        fields = fields if isinstance(fields, Mapping) else {}
        more = part.get("additionalProperties", not (self.is_listed and fields))
        for name, item in value.items():
            if name in fields:
                if not self._fits(fields[name], item):
                    return False
            elif name != _MARK and "patternProperties" not in part and not self._fits(more, item):
                return False
        return True


ANYTHING: Final = Place(((Schema({}, is_listed=False), ({},)),), may_miss=False)
"""Any JSON value."""

NODE_ID: Final = Place(
    ((Schema({}, is_listed=True), ({"type": ["string", "null"]},)),), may_miss=False
)
"""What ``node_id`` of an event may be."""


def kind_word(value: Any) -> str:
    """The kind of a JSON value, whole numbers not set apart."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "text"
    return "mapping" if isinstance(value, Mapping) else "list"


def value_text(value: Any) -> str:
    """A value as the file would have it: a text bare."""
    return value if isinstance(value, str) else shown(value, 60)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _own_kinds(part: Mapping[str, Any]) -> frozenset[str]:
    types = part.get("type")
    named = [types] if isinstance(types, str) else types
    if isinstance(named, (list, tuple)):
        return frozenset(_KIND_OF_TYPE.get(str(one), "") for one in named) - {""}
    if "const" in part:
        return frozenset({kind_word(part["const"])})
    if isinstance(part.get("enum"), (list, tuple)):
        return frozenset(kind_word(one) for one in part["enum"])
    return frozenset(_KINDS)


def _kinds(view: Conjunction) -> frozenset[str]:
    found = frozenset(_KINDS)
    for part in view:
        found &= _own_kinds(part)
    return found


def _size(view: Conjunction) -> int | None:
    """The one length that texts of this alternative have, where a schema says so."""
    for part in view:
        if part.get("minLength") == part.get("maxLength") and isinstance(
            part.get("minLength"), int
        ):
            return int(part["minLength"])
    return None


def kinds_of(view: Conjunction) -> frozenset[str]:
    """Every JSON kind that a value of this alternative may have."""
    return _kinds(view)


def _requires(view: Conjunction, name: str) -> bool:
    return any(name in part.get("required", ()) for part in view)


def _listed(schema: Mapping[str, Any], key: str) -> Iterator[Any]:
    parts = schema.get(key)
    if isinstance(parts, (list, tuple)):
        yield from parts


def _items(part: Mapping[str, Any], step: int | None = None) -> Any:
    first = part.get("prefixItems")
    rest = part.get("items", {})
    if not isinstance(first, (list, tuple)):
        return rest
    if step is None:
        return {"anyOf": [*first, rest]}
    return first[step] if step < len(first) else rest


def _number_holds(part: Mapping[str, Any], value: float) -> bool:
    types = part.get("type")
    named = [types] if isinstance(types, str) else types
    is_whole = isinstance(value, int) or value.is_integer()
    if isinstance(named, (list, tuple)) and "number" not in named and not is_whole:
        return False
    least, most = part.get("minimum"), part.get("maximum")
    above, below = part.get("exclusiveMinimum"), part.get("exclusiveMaximum")
    return not (
        (_is_number(least) and value < least)  # type: ignore[operator]
        or (_is_number(most) and value > most)  # type: ignore[operator]
        or (_is_number(above) and value <= above)  # type: ignore[operator]
        or (_is_number(below) and value >= below)  # type: ignore[operator]
    )


def _in_length(part: Mapping[str, Any], low: str, high: str, length: int) -> bool:
    least, most = part.get(low), part.get(high)
    return not ((_is_number(least) and length < least) or (_is_number(most) and length > most))  # type: ignore[operator]


def _found(expression: Any, text: str) -> bool | None:
    """Whether a schema's expression is found in ``text``; None where nobody can say."""
    import regex

    from pytest_evarness.core.expression import size_problem

    if size_problem(str(expression)) is not None:
        return None
    try:
        return regex.search(str(expression), text, timeout=_SECONDS) is not None
    except (regex.error, TimeoutError, RecursionError):
        return None


def _worst(dead: Iterable[PlaceError]) -> PlaceError:
    """The reason of the alternative that came nearest: one with a name to write instead."""
    found = list(dead)
    with_names = [one for one in found if not one.text.startswith("no ")]
    for one in found:
        if one.fix is not None:
            return one
    return next(iter(with_names or found), PlaceError("nothing"))


def joined(steps: Iterable[Step]) -> str:
    """The steps as a path is written."""
    out = ""
    for step in steps:
        if step is None:
            out += "[*]"
        elif isinstance(step, int):
            out += f"[{step}]"
        elif re.match(r"[^.\[\]]+\Z", step):
            out += f".{step}" if out else step
        else:
            out += f'["{step}"]'
    return out

"""JSON Schemas that users write: checked when they are read, applied without any network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from pytest_evarness.core.interfaces import UndecidedError
from pytest_evarness.core.matcher import parse_matcher
from pytest_evarness.domains.agents.formats import FORMATS
from pytest_evarness.domains.agents.text import compact
from pytest_evarness.errors import Fault
from pytest_evarness.source.limit import MAX_DEPTH
from pytest_evarness.source.number import exact
from pytest_evarness.source.quote import nearest, quoted, shown

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

__all__ = ["schema_faults", "validator_of", "violation"]

_Path = tuple[str | int, ...]
_Levels = Mapping[_Path, Mapping[str, Any]]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Keywords of 2020-12 by what they hold. A keyword that is not among them is ignored by every
# validator, and the rule that it was meant to be would never refuse anything.
_SCHEMAS = frozenset(
    (
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
_LISTS_OF_SCHEMAS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAPPINGS_OF_SCHEMAS = frozenset(
    ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
)
_REFERENCES = frozenset(("$dynamicRef", "$ref"))
_ANCHORS = frozenset(("$anchor", "$dynamicAnchor"))
_PLAIN = frozenset(
    (
        "$comment",
        "$id",
        "$schema",
        "const",
        "contentEncoding",
        "contentMediaType",
        "default",
        "dependentRequired",
        "deprecated",
        "description",
        "enum",
        "examples",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "readOnly",
        "required",
        "title",
        "type",
        "uniqueItems",
        "writeOnly",
    )
)
_KEYWORDS = _SCHEMAS | _LISTS_OF_SCHEMAS | _MAPPINGS_OF_SCHEMAS | _REFERENCES | _ANCHORS | _PLAIN
_FORMER = {"additionalItems": "items", "dependencies": "dependentRequired"}
_NEEDS = {"else": "if", "maxContains": "contains", "minContains": "contains", "then": "if"}
"""Keywords that say nothing without another one."""

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_MEANT = {
    "bool": "boolean",
    "dict": "object",
    "double": "number",
    "float": "number",
    "int": "integer",
    "list": "array",
    "map": "object",
    "mapping": "object",
    "none": "null",
    "str": "string",
    "text": "string",
}
"""What people write who think of another language."""

_MAX_EXPECTED = 200

# What looks at the very value that the schema looks at; the others step into it.
_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")


def schema_faults(schema: object) -> list[Fault]:
    """Why ``schema`` is no JSON Schema that can be used here; paths from its root."""
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, Mapping):
        rule = "a JSON Schema, which is a mapping"
        return [Fault((), "must be a JSON Schema", got=shown(schema), rule=rule)]
    levels = dict(_levels(schema, ()))
    faults = [fault for path, level in levels.items() for fault in _keyword_faults(path, level)]
    if faults:
        return faults
    try:
        # What formats the library knows depends on what else is installed.
        Draft202012Validator.check_schema(dict(schema), format_checker=FormatChecker(()))
    except SchemaError as error:
        path = tuple(error.absolute_path)
        return [
            Fault(
                path,
                f"is no JSON Schema of 2020-12 (it breaks the rule '{error.validator}')",
                got=shown(error.instance),
            )
        ]
    faults = [fault for path, level in levels.items() for fault in _pattern_faults(path, level)]
    targets = _Targets(levels)
    faults += [
        fault
        for path, level in levels.items()
        for key in sorted(_REFERENCES & level.keys())
        for fault in _reference_faults((*path, key), level[key], targets)
    ]
    return faults or list(_circle_faults(levels, targets))


def _levels(schema: object, path: _Path) -> Iterator[tuple[_Path, Mapping[str, Any]]]:
    """Every schema in ``schema`` with its path; names and values in it are no schemas."""
    if not isinstance(schema, Mapping):
        return  # true, false, or what the dialect's own schema refuses
    yield path, schema
    for key, inner in schema.items():
        if key in _SCHEMAS:
            yield from _levels(inner, (*path, key))
        elif key in _LISTS_OF_SCHEMAS and isinstance(inner, list):
            for index, entry in enumerate(inner):
                yield from _levels(entry, (*path, key, index))
        elif key in _MAPPINGS_OF_SCHEMAS and isinstance(inner, Mapping):
            for name, entry in inner.items():
                yield from _levels(entry, (*path, key, name))


def _type_fault(at: _Path, value: object) -> Fault | None:
    """A word that is no type of JSON, which the dialect's own schema only calls ``anyOf``."""
    words = value if isinstance(value, list) else [value]
    odd = next((word for word in words if isinstance(word, str) and word not in _TYPES), None)
    if odd is None:
        return None
    near = _MEANT.get(odd.lower()) or nearest(odd.lower(), _TYPES)
    return Fault(
        at,
        "is no type of JSON",
        got=quoted(odd),
        rule=", ".join(_TYPES),
        fix=f"write '{near}'" if near else None,
    )


def _keyword_faults(path: _Path, level: Mapping[str, Any]) -> Iterator[Fault]:
    wrong_type = _type_fault((*path, "type"), level.get("type"))
    if wrong_type is not None:
        yield wrong_type
    for key, value in level.items():
        at = (*path, key)
        if key not in _KEYWORDS:
            yield _unknown(at, key, value)
        elif key in _NEEDS and _NEEDS[key] not in level:
            problem = f"{quoted(key)} says nothing without {quoted(_NEEDS[key])}"
            yield Fault(at, problem, at_key=True)
        elif key == "format":
            yield from _format_faults(at, value)
        elif key == "$schema" and value not in (_DIALECT, f"{_DIALECT}#"):
            yield Fault(at, "must be the dialect that is read", got=shown(value), rule=_DIALECT)
        elif key == "$id" and path:
            problem = "a schema inside another one has no '$id' here: references would leave it"
            yield Fault(at, problem, at_key=True)


def _format_faults(at: _Path, value: object) -> Iterator[Fault]:
    # A validator ignores a format that it does not know, as it does a keyword.
    if isinstance(value, str) and value not in FORMATS:
        near = nearest(value, FORMATS) or nearest(value.strip().lower(), FORMATS)
        yield Fault(
            at,
            "no value is held to this format",
            got=quoted(value),
            rule=f"known: {', '.join(FORMATS)}",
            fix=f"write '{near}'" if near else "use 'pattern'",
        )


def _pattern_faults(path: _Path, level: Mapping[str, Any]) -> Iterator[Fault]:
    named: list[tuple[_Path, Any]] = []
    if "pattern" in level:
        named.append((("pattern",), level["pattern"]))
    named += [(("patternProperties", name), name) for name in level.get("patternProperties", {})]
    for steps, expression in named:
        for fault in parse_matcher({"pattern": expression})[1]:
            yield Fault((*path, *steps), fault.problem, got=fault.got, at_key=steps != ("pattern",))


def _unknown(at: _Path, key: str, value: object) -> Fault:
    near = _FORMER.get(key) or nearest(key, _KEYWORDS) or nearest(key.strip().lower(), _KEYWORDS)
    fix = f"write '{near}'" if near else None
    if near is None and isinstance(value, Mapping):
        fix = f"a property stands under 'properties': write 'properties: {{{key}: ...}}'"
    return Fault(
        at,
        "unknown keyword",
        got=quoted(key),
        rule="a keyword of JSON Schema 2020-12",
        fix=fix,
        at_key=True,
        code="unknown_key",
    )


class _Targets:
    """Where references of one schema lead; all of them stay inside it."""

    def __init__(self, levels: _Levels) -> None:
        self._by_steps = {tuple(str(step) for step in path): path for path in levels}
        self._by_anchor = {
            level[key]: path for path, level in levels.items() for key in _ANCHORS if key in level
        }

    def find(self, reference: str) -> _Path | None:
        """The path of the schema that ``#...`` leads to; None where there is none."""
        pointer = unquote(reference.removeprefix("#"))
        if pointer.startswith("/"):
            steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]
            return self._by_steps.get(tuple(steps))
        return self._by_anchor.get(pointer) if pointer else ()


def _reference_faults(at: _Path, reference: Any, targets: _Targets) -> Iterator[Fault]:
    # A reference elsewhere would be fetched, and no run reads the network.
    if not isinstance(reference, str) or not reference.startswith("#"):
        got = shown(reference)
        yield Fault(at, "a reference must stay inside the schema", got=got, rule="'#/$defs/NAME'")
    elif targets.find(reference) is None:
        yield Fault(at, "the reference leads to no schema", got=shown(reference))


def _in_place(path: _Path, level: Mapping[str, Any], targets: _Targets) -> Iterator[_Path]:
    """The schemas that look at the value of this one: what they are references to comes first."""
    for key in sorted(_REFERENCES & level.keys()):
        target = targets.find(level[key])
        if target is not None:
            yield target
    yield from ((*path, key) for key in _IN_PLACE if key in level)
    for key in _IN_PLACE_LISTS:
        yield from ((*path, key, index) for index in range(len(level.get(key, ()))))
    yield from ((*path, "dependentSchemas", name) for name in level.get("dependentSchemas", ()))


def _circle_faults(levels: _Levels, targets: _Targets) -> Iterator[Fault]:
    """References that come back to where they began with no step into the value between."""
    done: set[_Path] = set()
    for begin in levels:
        # Depth first, without recursion; what is open is the way to where it stands.
        way: dict[_Path, Iterator[_Path]] = {}
        at: _Path | None = None if begin in done else begin
        while at is not None:
            way[at] = _in_place(at, levels[at], targets)
            at = None
            while way and at is None:
                last, following = next(reversed(way.items()))
                found = next(following, None)
                if found is None:
                    done.add(last)
                    del way[last]
                elif found in way:
                    circle = list(way)[list(way).index(found) :]
                    yield _circle_fault(circle, levels, targets)
                    return
                elif found in levels and found not in done:
                    at = found


def _circle_fault(circle: Sequence[_Path], levels: _Levels, targets: _Targets) -> Fault:
    at, key = next(
        (path, key)
        for path in sorted(circle, key=lambda path: (len(path), str(path)))
        for key in sorted(_REFERENCES & levels[path].keys())
        if targets.find(levels[path][key]) in circle
    )
    return Fault(
        (*at, key),
        "the reference leads back to itself with no step into the value",
        got=shown(levels[at][key]),
        rule="a circle goes through 'properties', 'items' or the like",
    )


def validator_of(schema: Mapping[str, Any]) -> Validator:
    """A validator that resolves nothing outside ``schema``."""
    # By text: every run has its own copy of a schema, and making a validator is dear.
    return _validator(json.dumps(schema, sort_keys=True))


@lru_cache(maxsize=256)
def _validator(text: str) -> Validator:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend
    from referencing import Registry

    schema = json.loads(text)
    levels = dict(_levels(schema, ()))
    keywords = {**_KEYWORDS_OF_OURS}
    if any("unevaluatedProperties" in level for level in levels.values()):
        keywords["unevaluatedProperties"] = _Unevaluated(levels)
    made: Any = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
    return cast("Validator", made(schema, registry=Registry()))


def violation(validator: Validator, value: Any) -> str | None:
    """The first rule that ``value`` breaks, by path and keyword, or None.

    The sentence is ours: the library's changes between its versions, and it enters events.

    Raises:
        UndecidedError: An expression took too long, or the schema goes too deep into the value.
    """
    if _is_deep(value):
        return f"the value is nested too deeply (at most {MAX_DEPTH} levels)"
    try:
        errors = list(validator.iter_errors(value))
    except RecursionError:
        # How deep is too deep differs between Pythons.
        raise UndecidedError("the schema goes too deep into the value") from None
    found = sorted(
        (_place(error.absolute_path), str(error.validator), _expected(error)) for error in errors
    )
    if not found:
        return None
    place, keyword, expected = found[0]
    return f"{place or 'the value'} breaks '{keyword}' ({expected[:_MAX_EXPECTED]})"


def _is_deep(value: Any) -> bool:
    """Whether a value is nested deeper than a document may be."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return False
        level = [
            inner for one in level for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return True


def _expected(error: Any) -> str:
    """What the rule asks; for keys, those that are missing or too many."""
    keyword, rule, met = str(error.validator), error.validator_value, error.instance
    if keyword == "required" and isinstance(met, Mapping):
        return "missing: " + ", ".join(sorted(str(key) for key in rule if key not in met))
    # With patterns of names the library decides, and which name it was is not worth a second look.
    if keyword == "additionalProperties" and rule is False and isinstance(met, Mapping):
        schema: Mapping[str, Any] = error.schema
        if "patternProperties" not in schema:
            known = schema.get("properties", {})
            odd = sorted(str(key) for key in met if key not in known)
            return f"not known: {', '.join(odd)}; known: {', '.join(sorted(known)) or 'none'}"
    return compact(rule)


def _place(path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(
        "."
    )


# -- keywords of our own -----------------------------------------------------------------------
#
# The library searches by expressions that nobody can stop, divides binary fractions, compares each
# entry of a list with each other one, and holds no value to a format. These take their place, as
# functions of (validator, rule, value, schema) that yield what is wrong.


@lru_cache(maxsize=256)
def _expression(source: str) -> Any:
    matcher, faults = parse_matcher({"pattern": source})
    assert matcher is not None, f"the schema was looked at when it was read (got {faults})"
    return matcher.compile()


def _is_found(source: str, text: str) -> bool:
    """Whether an expression is found in a text.

    Raises:
        UndecidedError: It took too long, which is neither of the two.
    """
    answer = _expression(source)(text)
    if isinstance(answer, bool):
        return answer
    raise UndecidedError(f"the schema's {answer.why}")


def _wrong(problem: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(problem)


def _pattern(validator: Any, rule: str, value: Any, schema: Any) -> Iterator[Any]:
    del validator, schema
    if isinstance(value, str) and not _is_found(rule, value):
        yield _wrong("the pattern is not found")


def _pattern_properties(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
    del schema
    if isinstance(value, dict):
        for source, inner in rule.items():
            for key in [key for key in value if _is_found(source, key)]:
                yield from validator.descend(value[key], inner, path=key, schema_path=source)


def _listed(schema: Mapping[str, Any], value: Mapping[str, Any]) -> set[str]:
    """Keys of ``value`` that the schema names, or has a pattern for."""
    named = schema.get("properties", {})
    sources = schema.get("patternProperties", {})
    return {
        key for key in value if key in named or any(_is_found(source, key) for source in sources)
    }


def _further(validator: Any, rule: Any, value: Any, keys: Sequence[str]) -> Iterator[Any]:
    if rule is False:
        if keys:
            yield _wrong("there are further keys")
        return
    for key in keys:
        yield from validator.descend(value[key], rule, path=key)


def _additional_properties(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        listed = _listed(schema, value)
        yield from _further(validator, rule, value, [key for key in value if key not in listed])


class _Unevaluated:
    """``unevaluatedProperties`` of one schema, which may stand beside references into it."""

    def __init__(self, levels: _Levels) -> None:
        self._levels = levels
        self._targets = _Targets(levels)

    def __call__(self, validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            looked_at = self._looked_at(validator, value, schema, is_own=True)
            keys = [key for key in value if key not in looked_at]
            yield from _further(validator, rule, value, keys)

    def _looked_at(
        self, validator: Any, value: Mapping[str, Any], schema: Any, *, is_own: bool = False
    ) -> set[str]:
        """Keys that a keyword of ``schema``, which the value satisfies, has looked at."""
        if not isinstance(schema, dict):
            return set()
        if "additionalProperties" in schema or ("unevaluatedProperties" in schema and not is_own):
            return set(value)
        found = _listed(schema, value)
        for inner in self._holding(validator, value, schema):
            found |= self._looked_at(validator, value, inner)
        return found

    def _holding(
        self, validator: Any, value: Mapping[str, Any], schema: Mapping[str, Any]
    ) -> Iterator[Any]:
        """The schemas in ``schema`` that look at the same value, and that it satisfies."""

        def holds(inner: Any) -> bool:
            return bool(validator.evolve(schema=inner).is_valid(value))

        for key in sorted(_REFERENCES & schema.keys()):
            target = self._targets.find(schema[key])
            assert target is not None, "references were looked at when the schema was read"
            yield self._levels[target]
        for key in _IN_PLACE_LISTS:
            yield from (inner for inner in schema.get(key, ()) if holds(inner))
        if "if" in schema:
            is_met = holds(schema["if"])
            if is_met:
                yield schema["if"]
            yield schema.get("then" if is_met else "else")
        for key, inner in schema.get("dependentSchemas", {}).items():
            if key in value:
                yield inner


def _multiple_of(validator: Any, rule: float, value: Any, schema: Any) -> Iterator[Any]:
    del schema
    # 19.99 is a multiple of 0.01 by its digits; the nearest binary fraction of it is none.
    if validator.is_type(value, "number") and exact(value) % exact(rule) != 0:
        yield _wrong("it is no multiple")


def _unique_items(validator: Any, rule: bool, value: Any, schema: Any) -> Iterator[Any]:
    del validator, schema
    if rule and isinstance(value, list) and len({_identity(one) for one in value}) < len(value):
        yield _wrong("two entries are equal")


def _identity(value: Any) -> str:
    """One text for equal values: 1 and 1.0 are, 1 and true are not."""
    return json.dumps(_whole(value), sort_keys=True)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _format(validator: Any, rule: str, value: Any, schema: Any) -> Iterator[Any]:
    del validator, schema
    if isinstance(value, str) and not FORMATS[rule](value):
        yield _wrong("it has another format")


_KEYWORDS_OF_OURS: Mapping[str, Any] = {
    "additionalProperties": _additional_properties,
    "format": _format,
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "uniqueItems": _unique_items,
}

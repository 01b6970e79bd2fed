"""JSON Schemas that users write: checked when they are read, applied without any network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.domains.agents.text import compact

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

__all__ = ["schema_problem", "validator_of", "violation"]


def schema_problem(schema: object) -> str | None:
    """Why ``schema`` is no JSON Schema that can be used here, or None."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, Mapping):
        return "must be a JSON Schema, which is a mapping"
    for reference in _references(schema):
        # A reference elsewhere would be fetched, and no run reads the network.
        if not isinstance(reference, str) or not reference.startswith("#"):
            got = compact(reference)
            return f"a reference must stay inside the schema (got {got}; '#/$defs/NAME')"
    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as error:
        place = ".".join(str(part) for part in error.absolute_path) or "the schema"
        return f"is no JSON Schema of 2020-12 ({place} breaks the rule '{error.validator}')"
    return None


def validator_of(schema: Mapping[str, Any]) -> Validator:
    """A validator that resolves nothing outside ``schema``."""
    from jsonschema import Draft202012Validator
    from referencing import Registry

    return Draft202012Validator(dict(schema), registry=Registry())


def violation(validator: Validator, value: Any) -> str | None:
    """The first rule that ``value`` breaks, by path and keyword, or None.

    The sentence is ours: the library's changes between its versions, and it enters events.
    """
    found = sorted(
        (_place(error.absolute_path), str(error.validator), compact(error.validator_value))
        for error in validator.iter_errors(value)
    )
    if not found:
        return None
    place, keyword, expected = found[0]
    return f"{place or 'the value'} breaks '{keyword}' ({expected[:120]})"


def _place(path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(
        "."
    )


def _references(schema: object) -> Iterator[object]:
    if isinstance(schema, Mapping):
        for key, inner in schema.items():
            if key in ("$ref", "$dynamicRef"):
                yield inner
            else:
                yield from _references(inner)
    elif isinstance(schema, Sequence) and not isinstance(schema, str):
        for inner in schema:
            yield from _references(inner)

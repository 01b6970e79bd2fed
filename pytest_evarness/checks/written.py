"""Checks as they are written: what their models share."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from pytest_evarness.source.model import refuse
from pytest_evarness.source.quote import with_quotes

if TYPE_CHECKING:
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.source.model import Strict

__all__ = ["NonEmpty", "Texts", "Words", "schema_of"]

NonEmpty: TypeAlias = Annotated[str, Field(min_length=1)]


def _listed(value: object) -> object:
    """One as a list of one."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return list(value)
    raise refuse("must be text, or a list of texts", fix=with_quotes(value))


def _one_or_many(text: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [text, {"type": "array", "minItems": 1, "items": text}]})


Texts: TypeAlias = Annotated[
    list[str], Field(min_length=1), BeforeValidator(_listed), _one_or_many({"type": "string"})
]
"""One text, or a list of at least one; always a list in the model."""

Words: TypeAlias = Annotated[
    list[NonEmpty],
    Field(min_length=1),
    BeforeValidator(_listed),
    _one_or_many({"type": "string", "minLength": 1}),
]
"""The same of texts of which none is empty."""


@functools.cache
def schema_of(model: type[Strict], *, names_a_place: bool = False) -> JsonObject:
    """The JSON Schema of a model, for editors: without class names and fillers.

    Args:
        model: Its keys.
        names_a_place: It has exactly one of ``path`` and ``glob``.
    """
    made: dict[str, Any] = _plain(model.model_json_schema(by_alias=True))
    if names_a_place:
        made["oneOf"] = [{"required": ["path"]}, {"required": ["glob"]}]
    return made


def _plain(value: Any, *, names: bool = False) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: _plain(entry, names=key == "properties")
        for key, entry in value.items()
        if names or key not in ("title", "default")
    }

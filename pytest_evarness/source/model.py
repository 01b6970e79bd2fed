"""Strict models over plain values; what they refuse becomes faults in the user's words.

No class name, link or sentence of the validation library reaches a message.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError

from pytest_evarness.errors import Fault
from pytest_evarness.source.limit import MAX_MISTAKES
from pytest_evarness.source.quote import kind, nearest, one_of, quoted, shown, with_quotes

__all__ = ["Absent", "Strict", "merge_faults", "parse_model", "parse_type", "refuse", "unknown_key"]

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class _NotNull:
    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        (inner,) = (arm for arm in get_args(source) if arm is not type(None))
        return handler.generate_schema(inner)


Absent: TypeAlias = Annotated[T | None, _NotNull()]
"""The type of a key that may be left out (its default is then None), but not be written as null.

A null that somebody wrote stands where a value is missing by mistake; read as the default it would
be ignored.
"""


class Strict(BaseModel):
    """A mapping whose keys are all known and whose values are of exactly the type that is named."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        arbitrary_types_allowed=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )


def refuse(
    problem: str, *, rule: str | None = None, fix: str | None = None, is_shown: bool = True
) -> PydanticCustomError:
    """The error a validator of ours raises; message, rule and fix arrive unchanged in the fault.

    Args:
        problem: As in a fault.
        rule: As in a fault.
        fix: As in a fault.
        is_shown: Whether the value is shown; not where it is large and the problem names what
            is wrong with it.
    """
    context = {"problem": problem, "rule": rule, "fix": fix, "is_shown": is_shown}
    return PydanticCustomError("ours", "{problem}", context)


def unknown_key(path: tuple[str | int, ...], key: str, known: Sequence[str]) -> Fault:
    """The fault for a key that no model has, with the nearest known one."""
    near = nearest(key, known)
    return Fault(
        (*path, key),
        "unknown key",
        got=quoted(key),
        rule=f"known: {one_of(known)}" if known else "no key is known here",
        fix=f"write '{near}'" if near else None,
        at_key=True,
        code="unknown_key",
    )


def parse_model(model: type[M], value: object) -> tuple[M | None, list[Fault]]:
    """Validate ``value``.

    Returns:
        The model and no fault, or None and every fault, paths relative to ``value``.
    """
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        return None, _faults(model, value, error)


def parse_type(
    adapter: TypeAdapter[T], annotation: Any, value: object
) -> tuple[T | None, list[Fault]]:
    """Validate ``value`` against any type.

    Args:
        adapter: The type, compiled.
        annotation: The type itself: it knows the models, and so the known keys.
        value: Plain value.
    """
    try:
        return adapter.validate_python(value), []
    except ValidationError as error:
        return None, _faults(annotation, value, error)


def _faults(annotation: Any, value: object, error: ValidationError) -> list[Fault]:
    details = error.errors(include_url=False, include_context=True, include_input=True)
    return merge_faults(_fault(annotation, value, detail) for detail in details[:MAX_MISTAKES])


def merge_faults(faults: typing.Iterable[Fault]) -> list[Fault]:
    """Each mistake once, in the order met.

    A required key that is misspelt is one mistake: the advice for the unknown key is to write it.
    """
    once = list(dict.fromkeys(faults))
    written = {
        (fault.path[:-1], fault.fix) for fault in once if fault.code == "unknown_key" and fault.fix
    }
    return [
        fault
        for fault in once
        if fault.code != "missing_key"
        or not any(
            path == fault.path and fault.problem == _missing(str(fix).removeprefix("write "))
            for path, fix in written
        )
    ]


def _missing(name: str) -> str:
    """The problem of a required key that is not there, its name in quotes."""
    return f"required key {name} is missing"


# -- one detail of the library to one fault of ours -------------------------------------------


def _fault(root: Any, value: object, detail: ErrorDetails) -> Fault:
    kind_of_error = detail["type"]
    path, holder = _locate(root, value, detail["loc"], kind_of_error)
    got = detail["input"]
    context: Mapping[str, Any] = detail.get("ctx", {})
    if kind_of_error == "extra_forbidden":
        return unknown_key(path[:-1], str(path[-1]), _keys(holder))
    if kind_of_error == "missing":
        name = str(path[-1])
        return Fault(
            path[:-1],
            _missing(quoted(name)),
            rule=f"keys here: {_keys_in(got)}",
            code="missing_key",
        )
    if kind_of_error == "ours":
        got_text = shown(got) if context["is_shown"] else None
        return Fault(
            path, context["problem"], got=got_text, rule=context["rule"], fix=context["fix"]
        )
    if detail["loc"] and detail["loc"][-1] == "[key]":
        return Fault(path, "a key must be text", got=shown(got), at_key=True)
    translate = _TRANSLATIONS.get(kind_of_error)
    if translate is None:
        problem, rule = _plain(detail["msg"]), None
    else:
        problem, rule = translate(context)
    return Fault(path, problem, got=shown(got), rule=rule, fix=_fix(kind_of_error, context, got))


def _plain(message: str) -> str:
    """A sentence of the library for a rare case, in the form of ours."""
    text = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    for word in ("Input should be", "Input must be", "Value should be"):
        if text.startswith(word):
            return f"must be{text[len(word) :]}"
    return text[:1].lower() + text[1:]


def _number(context: Mapping[str, Any], name: str) -> str:
    return shown(context.get(name))


_Translation = Callable[[Mapping[str, Any]], tuple[str, str | None]]


def _says(problem: str, rule: str | None = None) -> _Translation:
    return lambda context: (problem, rule)


_TRANSLATIONS: dict[str, _Translation] = {
    "string_type": _says("must be text"),
    "bool_type": _says("must be true or false"),
    "int_type": _says("must be an integer"),
    "int_from_float": _says("must be an integer"),
    "float_type": _says("must be a number"),
    "finite_number": _says("must be a finite number"),
    "list_type": _says("must be a list"),
    "tuple_type": _says("must be a list"),
    "dict_type": _says("must be a mapping"),
    "mapping_type": _says("must be a mapping"),
    "model_type": _says("must be a mapping"),
    "model_attributes_type": _says("must be a mapping"),
    "none_required": _says("must be null"),
    "string_too_short": lambda c: (
        ("must not be empty", None)
        if c.get("min_length") == 1
        else ("is too short", f"at least {c.get('min_length')} characters")
    ),
    "string_too_long": lambda c: ("is too long", f"at most {c.get('max_length')} characters"),
    "too_short": lambda c: (
        ("must not be empty", None)
        if c.get("min_length") == 1
        else ("has too few entries", f"at least {c.get('min_length')}")
    ),
    "too_long": lambda c: ("has too many entries", f"at most {c.get('max_length')}"),
    "greater_than": lambda c: ("is too small", f"more than {_number(c, 'gt')}"),
    "greater_than_equal": lambda c: ("is too small", f"{_number(c, 'ge')} or more"),
    "less_than": lambda c: ("is too large", f"less than {_number(c, 'lt')}"),
    "less_than_equal": lambda c: ("is too large", f"{_number(c, 'le')} or less"),
    "literal_error": lambda c: (f"must be {_alternatives(c)}", None),
    "enum": lambda c: (f"must be {_alternatives(c)}", None),
    "string_pattern_mismatch": lambda c: ("has another form", f"must match {c.get('pattern')}"),
    "union_tag_not_found": lambda c: (
        f"required key {str(c.get('discriminator')).strip(chr(39))!r} is missing",
        None,
    ),
    "union_tag_invalid": lambda c: (
        f"unknown {str(c.get('discriminator')).strip(chr(39))}",
        f"known: {str(c.get('expected_tags', '')).replace(chr(39), '')}",
    ),
}


def _alternatives(context: Mapping[str, Any]) -> str:
    return str(context.get("expected", "")).replace("'", "")


def _fix(kind_of_error: str, context: Mapping[str, Any], got: object) -> str | None:
    if kind_of_error == "string_type":
        return with_quotes(got)
    if kind_of_error in ("literal_error", "enum", "union_tag_invalid"):
        listed = str(context.get("expected", context.get("expected_tags", "")))
        known = [part.strip(" '") for part in listed.replace(" or ", ", ").split(",")]
        word = (
            got.get(str(context.get("discriminator")).strip("'"))
            if isinstance(got, Mapping)
            else got
        )
        near = nearest(word, known) if isinstance(word, str) else None
        return f"write '{near}'" if near else None
    if kind_of_error == "bool_type" and isinstance(got, str):
        # Only the two words of YAML 1.2 are booleans; the older ones arrive as text.
        meant = {
            "yes": "true",
            "on": "true",
            "true": "true",
            "no": "false",
            "off": "false",
            "false": "false",
        }
        word = meant.get(got.lower())
        return f"write '{word}' without quotes" if word else None
    if kind_of_error in ("int_type", "float_type") and isinstance(got, str):
        from pytest_evarness.source.scalar import RefusedError, resolve

        try:
            number = kind(resolve(got)) in ("integer", "number")
        except RefusedError:
            number = False
        return f"write {got} without quotes" if number else None
    if kind_of_error == "string_type" and isinstance(got, bool | int | float):
        return f"write '\"{shown(got)}\"' with quotes"
    return None


# -- where it is ------------------------------------------------------------------------------


def _locate(
    root: Any, value: object, loc: tuple[int | str, ...], kind_of_error: str
) -> tuple[tuple[str | int, ...], type[BaseModel] | None]:
    """The path of a detail in the value, and the model that holds its last part.

    The library's own path has entries that are no keys (the tag of a union, the name of a
    function): they are the ones that neither the value nor the models know.
    """
    path: list[str | int] = []
    annotation: Any = root
    holder: type[BaseModel] | None = None
    current = value
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        if part == "[key]":
            continue
        models = list(_models(annotation, current))
        named_here = last and kind_of_error in ("missing", "extra_forbidden")
        if (
            isinstance(current, Mapping)
            and isinstance(part, str)
            and (part in current or named_here)
        ):
            if models:
                holder = models[0]
                for candidate in models:
                    if part in _keys(candidate):
                        holder = candidate
                        break
                annotation = _field(holder, part)
            else:
                annotation = _value_of(annotation)
                holder = None
            path.append(part)
            current = current.get(part)
        elif (
            isinstance(current, Sequence) and not isinstance(current, str) and isinstance(part, int)
        ):
            path.append(part)
            annotation = _value_of(annotation)
            current = current[part] if part < len(current) else None
        elif isinstance(part, str):
            annotation = _tagged(annotation, part) or annotation
    return tuple(path), holder


def _keys_in(value: object) -> str:
    """The keys that were written."""
    keys = value if isinstance(value, Mapping) else ()
    return one_of(quoted(str(key), 60)[1:-1] for key in keys) or "none"


def _keys(model: type[BaseModel] | None) -> list[str]:
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _field(model: type[BaseModel], key: str) -> Any:
    for name, field in model.model_fields.items():
        if (field.alias or name) == key:
            return field.annotation
    return None


def _arms(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is typing.Annotated:
        yield from _arms(get_args(annotation)[0])
    elif origin is Union or origin is types.UnionType:
        for arm in get_args(annotation):
            yield from _arms(arm)
    else:
        yield annotation


def _models(annotation: Any, value: object) -> Iterator[type[BaseModel]]:
    if not isinstance(value, Mapping):
        return
    for arm in _arms(annotation):
        if isinstance(arm, type) and issubclass(arm, BaseModel):
            yield arm


def _tagged(annotation: Any, tag: str) -> Any:
    """The arm of a discriminated union that ``tag`` chooses, or None."""
    for arm in _arms(annotation):
        if isinstance(arm, type) and issubclass(arm, BaseModel):
            for field in arm.model_fields.values():
                if get_origin(field.annotation) is typing.Literal and tag in get_args(
                    field.annotation
                ):
                    return arm
    return None


def _value_of(annotation: Any) -> Any:
    for arm in _arms(annotation):
        arguments = get_args(arm)
        if arguments:
            return arguments[-1] if arguments[-1] is not Ellipsis else arguments[0]
    return None

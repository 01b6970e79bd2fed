"""Functions of a plug-in as the parts they stand for: exporters, importers, configurations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_evarness.core import c1
from pytest_evarness.core.json import shown
from pytest_evarness.core.stranger import pass_on
from pytest_evarness.errors import Fault, InputError

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Exporter
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = [
    "NO_CONFIG",
    "FunctionExporter",
    "FunctionImporter",
    "exported",
    "parse_export",
    "parser_of",
    "payload_problem",
]

NO_CONFIG: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}
"""The schema of a node type that has nothing to configure."""

_MAX_FAULTS = 20
_MAX_SHOWN = 500


class FunctionExporter:
    """A report format that one function writes."""

    def __init__(self, name: str, function: Callable[[JsonObject], bytes]) -> None:
        self.name = name
        self.export = function


class FunctionImporter:
    """A reader of foreign traces that is one function."""

    def __init__(self, name: str, function: Callable[[bytes], Iterable[Mapping[str, Any]]]) -> None:
        self.name = name
        self.read = function


def exported(name: str, exporter: Exporter, statement: JsonObject) -> bytes:
    """The report of an exporter.

    Raises:
        InputError: It raised, or gave something else than bytes.
    """
    from copy import deepcopy

    try:
        # A copy: whatever a stranger does to it, the bundle is not what changes.
        data = exporter.export(deepcopy(statement))
    except BaseException as error:
        pass_on(error)
        said = shown(str(error), _MAX_SHOWN)
        raise InputError(f"exporter '{name}' raised {type(error).__name__} ({said})") from error
    if not isinstance(data, bytes):
        raise InputError(f"exporter '{name}' must give bytes (got {type(data).__name__})")
    return data


def parse_export(word: str) -> tuple[str, str]:
    """Name and path of ``NAME=PATH``.

    Raises:
        InputError: Another form.
    """
    name, equals, target = word.partition("=")
    if not (name and equals and target):
        raise InputError(f"must be NAME=PATH (got {shown(word)})")
    return name, target


def parser_of(schema: JsonObject) -> Callable[[JsonObject], tuple[Any, list[Fault]]]:
    """``parse_config`` of a node type whose configuration is all that its schema admits."""

    def parse(config: JsonObject) -> tuple[Any, list[Fault]]:
        faults = _faults_against(schema, config)
        return (None, faults) if faults else (dict(config), [])

    return parse


def payload_problem(registry: Registry, name: str, payload: Any) -> str | None:
    """How a payload departs from the schema of its type: ``field: problem``, or None."""
    faults = _faults_against(registry.event_types.resolve(name).schema, payload)
    if not faults:
        return None
    place = ".".join(str(step) for step in faults[0].path)
    return f"{place}: {faults[0].text}" if place else faults[0].text


def _faults_against(schema: JsonObject, value: Any) -> list[Fault]:
    """The first mistakes of a value, in an order of our own."""
    faults: list[Fault] = []
    try:
        for error in _validator(c1.text(schema)).iter_errors(value):
            faults.extend(_faults_of(error))
            if len(faults) >= _MAX_FAULTS:
                break
    except Exception as error:  # noqa: BLE001 - whatever a schema that is none makes of a library
        reason = type(error).__name__
        return [Fault((), "cannot be told from the schema of its type", got=reason)]
    return sorted(faults, key=lambda fault: ([str(step) for step in fault.path], fault.text))


@lru_cache(maxsize=256)
def _validator(text: str) -> Any:
    from jsonschema import Draft202012Validator
    from referencing import Registry as NothingElse

    # No reference leads out of the schema: the library would fetch it.
    return Draft202012Validator(c1.thaw(text), registry=NothingElse())


def _faults_of(error: Any) -> list[Fault]:
    """One of the library's errors in our words, which do not change between its versions."""
    from pytest_evarness.core.table import nearest

    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and isinstance(error.instance, Mapping):
        known = sorted(error.schema.get("properties", {}))
        rule = f"known: {', '.join(known) or 'none'}"
        # The library looked for them in the same way: the schema is a plug-in's own.
        admitted = [re.compile(source) for source in error.schema.get("patternProperties", ())]
        further = sorted(
            key
            for key in set(error.instance) - set(known)
            if not any(source.search(key) for source in admitted)
        )
        return [
            Fault(
                (*path, key),
                "unknown key",
                got=f"'{key}'",
                rule=rule,
                fix=f"write '{near}'" if (near := nearest(key, known)) else None,
                at_key=True,
            )
            for key in further
        ]
    if error.validator == "required":
        missing = sorted(set(error.validator_value) - set(error.instance))
        return [Fault(path, f"required key '{key}' is missing") for key in missing]
    rule = f"{error.validator}: {shown(error.validator_value)}"
    return [Fault(path, "is not what the type takes", got=shown(error.instance), rule=rule)]

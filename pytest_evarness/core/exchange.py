"""Functions of a plug-in as the parts they stand for: exporters, importers, configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.json import shown
from pytest_evarness.errors import Fault, InputError

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Exporter
    from pytest_evarness.core.json import JsonObject

__all__ = ["NO_CONFIG", "FunctionExporter", "FunctionImporter", "exported", "parser_of"]

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
    except Exception as error:
        said = shown(str(error), _MAX_SHOWN)
        raise InputError(f"exporter '{name}' raised {type(error).__name__} ({said})") from error
    if not isinstance(data, bytes):
        raise InputError(f"exporter '{name}' must give bytes (got {type(data).__name__})")
    return data


def parser_of(schema: JsonObject) -> Callable[[JsonObject], tuple[Any, list[Fault]]]:
    """``parse_config`` of a node type whose configuration is all that its schema admits."""

    def parse(config: JsonObject) -> tuple[Any, list[Fault]]:
        import jsonschema

        validator = jsonschema.Draft202012Validator(dict(schema))
        faults = []
        for error in validator.iter_errors(config):
            faults.extend(_faults_of(error, schema))
            if len(faults) >= _MAX_FAULTS:
                break
        # A library's order is its own.
        faults.sort(key=lambda fault: ([str(step) for step in fault.path], fault.problem))
        return (None, faults) if faults else (dict(config), [])

    return parse


def _faults_of(error: Any, schema: JsonObject) -> list[Fault]:
    """One of the library's errors in our words, which do not change between its versions."""
    from pytest_evarness.core.table import nearest

    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and isinstance(error.instance, Mapping):
        known = sorted(error.schema.get("properties", {}))
        rule = f"known: {', '.join(known) or 'none'}"
        further = sorted(set(error.instance) - set(known))
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

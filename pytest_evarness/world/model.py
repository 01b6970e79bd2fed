"""The keys ``workspace`` and ``services`` of an environment, as they are written."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import EnvironmentKey
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import unknown_key
from pytest_evarness.source.quote import nearest, one_of, quoted, shown

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.world.service import ServiceType

__all__ = ["NAME", "environment_keys", "is_git_name", "path_problem"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}\Z")
"""What a service may be called."""

MAX_COMPONENT = 255
MAX_PATH = 1024

_MODE = re.compile(r"0?[0-7]{3}\Z")
_DRIVE = re.compile(r"[A-Za-z]:")
_WORKSPACE_KEYS = ("from", "files", "git")
_FILE_KEYS = ("text", "base64", "mode")
_RULE = "paths lead from the workspace, with '/'"


def environment_keys(registry: Registry) -> tuple[EnvironmentKey, ...]:
    """Both keys; the types of services are those that are registered by now."""
    types: Any = dict(registry.service_types.items())
    return (
        EnvironmentKey(
            "workspace",
            "Files of the run's own folder: from, files, git.",
            _workspace,
            _workspace_schema(),
            lambda value: {"files": [], "git": False},
        ),
        EnvironmentKey(
            "services",
            "What the harness talks to, by name; each has a type.",
            lambda value: _services(value, types),
            _services_schema(types),
            lambda value: _declared(value, types),
        ),
    )


# -- workspace ------------------------------------------------------------------------------------


def path_problem(path: str) -> str | None:
    """Why ``path`` cannot lie in a workspace, by its components; None where it can."""
    if not path:
        return "is no path"
    if "\0" in path:
        return "holds a NUL character"
    if "\\" in path:
        return "holds a backslash"
    if path.startswith("/") or _DRIVE.match(path):
        return "is absolute"
    parts = path.split("/")
    if ".." in parts:
        return "leads out of the workspace"
    if "" in parts or "." in parts:
        return "has an empty component"
    if any(is_git_name(part) for part in parts):
        return "belongs to git"
    size = len(path.encode("utf-8", "surrogatepass"))
    if size > MAX_PATH:
        return f"is longer than {MAX_PATH} bytes"
    if any(len(part.encode("utf-8", "surrogatepass")) > MAX_COMPONENT for part in parts):
        return f"has a component longer than {MAX_COMPONENT} bytes"
    return None


def is_git_name(part: str) -> bool:
    """Whether git takes a component for its own folder."""
    return part.casefold() == ".git"


def _workspace(value: Json) -> tuple[Json, list[Fault]]:
    if not isinstance(value, Mapping):
        rule = "{from: a folder, files: {PATH: text}, git: true}"
        return None, [Fault((), "must be a mapping", got=shown(value), rule=rule)]
    faults: list[Fault] = []
    made: dict[str, Json] = {"files": {}, "git": False}
    for key, given in value.items():
        if key not in _WORKSPACE_KEYS:
            faults.append(unknown_key((), key, _WORKSPACE_KEYS))
        elif key == "from":
            if isinstance(given, str) and given:
                made["from"] = given
            else:
                faults.append(Fault((key,), "must name a folder", got=shown(given)))
        elif key == "git":
            if isinstance(given, bool):
                made["git"] = given
            else:
                faults.append(Fault((key,), "must be true or false", got=shown(given)))
        elif isinstance(given, Mapping):
            files, found = _files(given)
            made["files"] = files
            faults += [fault.under("files") for fault in found]
        else:
            rule = "{PATH: text}"
            faults.append(Fault((key,), "must be a mapping", got=shown(given), rule=rule))
    return made, faults


def _files(value: Mapping[str, Json]) -> tuple[dict[str, Json], list[Fault]]:
    files: dict[str, Json] = {}
    faults: list[Fault] = []
    for path, given in value.items():
        problem = path_problem(path)
        if problem is not None:
            fix = "write 'git: true'" if problem == "belongs to git" else None
            faults.append(
                Fault((path,), problem, got=quoted(path), rule=_RULE, fix=fix, at_key=True)
            )
            continue
        made, found = _file(given)
        faults += [fault.under(path) for fault in found]
        files[path] = made
    for path in files:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in files:
                problem = "lies in a file"
                rule = f"'{parent}' is one"
                faults.append(Fault((path,), problem, got=quoted(path), rule=rule, at_key=True))
            parent = parent.rpartition("/")[0]
    return files, faults


def _file(given: Json) -> tuple[Json, list[Fault]]:
    """``{"text" | "base64", "mode"}``; empty where there is a fault."""
    rule = 'a text, or {text | base64: ..., mode: "0644"}'
    if isinstance(given, str):
        return {"text": given, "mode": "0644"}, []
    if not isinstance(given, Mapping):
        fix = None
        if isinstance(given, int | float) and not isinstance(given, bool):
            fix = f"write '\"{shown(given)}\"' with quotes"
        return {}, [Fault((), "must be text", got=shown(given), rule=rule, fix=fix)]
    faults = [unknown_key((), key, _FILE_KEYS) for key in given if key not in _FILE_KEYS]
    kinds = [key for key in ("text", "base64") if key in given]
    if len(kinds) != 1:
        got = " and ".join(kinds) or "neither"
        faults.append(Fault((), "has one of 'text' and 'base64'", got=got))
    mode: Any = given.get("mode", "0644")
    if not (isinstance(mode, str) and _MODE.match(mode)):
        faults.append(
            Fault(("mode",), "must be a mode in quotes", got=shown(mode), rule='such as "0755"')
        )
    content: Any = given.get(kinds[0]) if kinds else ""
    if not isinstance(content, str):
        faults.append(Fault((kinds[0],), "must be text", got=shown(content)))
    elif kinds == ["base64"]:
        try:
            base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError) as error:
            faults.append(Fault(("base64",), f"is not base64 ({error})", got=shown(content, 40)))
    if faults:
        return {}, faults
    return {kinds[0]: content, "mode": mode.rjust(4, "0")}, []


def _workspace_schema() -> JsonObject:
    mode: JsonObject = {"type": "string", "pattern": "^0?[0-7]{3}$"}
    closed: JsonObject = {"type": "object", "additionalProperties": False}
    text: JsonObject = {"type": "string"}
    return {
        **closed,
        "properties": {
            "from": {"type": "string", "minLength": 1, "description": "a folder that is copied"},
            "files": {
                "type": "object",
                "description": "path to text; they win over what 'from' brings",
                "additionalProperties": {
                    "anyOf": [
                        text,
                        {
                            **closed,
                            "required": ["text"],
                            "properties": {"text": text, "mode": mode},
                        },
                        {
                            **closed,
                            "required": ["base64"],
                            "properties": {"base64": text, "mode": mode},
                        },
                    ]
                },
            },
            "git": {"type": "boolean", "description": "a repository with one commit of it all"},
        },
    }


# -- services -------------------------------------------------------------------------------------


def _services(value: Json, types: Mapping[str, ServiceType]) -> tuple[Json, list[Fault]]:
    if not isinstance(value, Mapping):
        rule = "{NAME: {type: ...}}"
        return None, [Fault((), "must be a mapping", got=shown(value), rule=rule)]
    made: dict[str, Json] = {}
    faults: list[Fault] = []
    folded: dict[str, str] = {}
    for name, given in value.items():
        if not NAME.match(name):
            rule = "letters, digits, '_', '-', '.'; a letter first"
            faults.append(Fault((name,), "is no name", got=quoted(name), rule=rule, at_key=True))
            continue
        other = folded.setdefault(variable_name(name), name)
        if other != name:
            rule = f"'{other}' has the same name for programs, {variable_name(name)}"
            faults.append(
                Fault((name,), "names a service again", got=quoted(name), rule=rule, at_key=True)
            )
        config, found = _service(given, types)
        faults += [fault.under(name) for fault in found]
        made[name] = config
    return made, faults


def _declared(value: Json, types: Mapping[str, ServiceType]) -> Json:
    """Names of services with the types that are meant, whatever is wrong with the rest.

    A type that cannot be guessed is an empty text, which fits whatever names the service.
    """
    made: dict[str, Json] = {}
    for name, given in value.items() if isinstance(value, Mapping) else ():
        kind = given.get("type") if isinstance(given, Mapping) else None
        meant = kind if isinstance(kind, str) else ""
        made[name] = {"type": meant if meant in types else nearest(meant, types) or ""}
    return made


def variable_name(name: str) -> str:
    """How variables for programs begin that tell where a service is."""
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def _service(given: Json, types: Mapping[str, ServiceType]) -> tuple[Json, list[Fault]]:
    known = one_of(sorted(types)) or "none"
    if not isinstance(given, Mapping):
        rule = f"{{type: ...}}; types: {known}"
        return None, [Fault((), "must be a mapping", got=shown(given), rule=rule)]
    if "type" not in given:
        problem = "required key 'type' is missing"
        return None, [Fault((), problem, rule=f"types: {known}", code="missing_key")]
    kind = given["type"]
    found = types.get(kind) if isinstance(kind, str) else None
    if found is None:
        near = nearest(kind, types) if isinstance(kind, str) else None
        fix = f"write '{near}'" if near else None
        got = quoted(kind) if isinstance(kind, str) else shown(kind)
        return None, [
            Fault(("type",), "unknown type of service", got=got, rule=f"known: {known}", fix=fix)
        ]
    config, faults = found.parse({key: part for key, part in given.items() if key != "type"})
    return {"type": kind, **config}, list(faults)


def _services_schema(types: Mapping[str, ServiceType]) -> JsonObject:
    schemas = [types[name].schema for name in sorted(types)]
    return {
        "type": "object",
        "propertyNames": {"pattern": r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$"},
        "additionalProperties": {"anyOf": schemas} if schemas else False,
    }

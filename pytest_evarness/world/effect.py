"""Effects: what a tool does to the world, as written, and as filled for one call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Field, field_validator, model_validator

from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Absent, Strict, refuse
from pytest_evarness.source.quote import nearest, one_of, quoted, shown
from pytest_evarness.world.service import EffectFailedError
from pytest_evarness.world.vocabulary import EFFECT_KINDS

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = [
    "IDEMPOTENCY_HEADER",
    "READING_METHODS",
    "EffectEntry",
    "cross_faults",
    "fitted",
    "kind_of_effect",
    "path_problem",
    "writing_problem",
]

READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Requests that leave things as they are; all others change something at the other end."""

_SPEAKS = {"http": ("http_mock",), "sql": ("sqlite", "postgres", "mysql")}
"""The types of our own that take each kind; a plug-in's type is asked when it is reached."""

IDEMPOTENCY_HEADER = "Idempotency-Key"
"""Under which a key is sent to a service; the header alone declares it too."""

_METHOD = re.compile(r"[A-Z]{1,20}\Z")
_DRIVE = re.compile(r"[A-Za-z]:")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
# What would end the line, or the text of it: the rest would be headers of somebody else's.
_BREAK = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_PLACE = re.compile(r"\{(query|args\.[^{}]*)\}")

_Word: TypeAlias = Annotated[str, Field(min_length=1)]
_Scalar: TypeAlias = str | int | float | bool


# -- as written ----------------------------------------------------------------------------------


class _Http(Strict):
    service: _Word
    method: _Word
    path: _Word
    body: Any = None
    headers: dict[str, _Scalar] = Field(default_factory=dict)
    query: dict[str, _Scalar] = Field(default_factory=dict)

    @field_validator("service")
    @classmethod
    def _is_fixed(cls, value: str) -> str:
        return _fixed(value)

    @field_validator("method")
    @classmethod
    def _is_method(cls, value: str) -> str:
        if not _PLACE.search(value) and not _METHOD.match(value):
            fix = f"write '{value.upper()}'" if _METHOD.match(value.upper()) else None
            raise refuse("must be a method in capitals", rule="GET, POST, ...", fix=fix)
        return value

    @field_validator("path")
    @classmethod
    def _is_path(cls, value: str) -> str:
        problem = _request_path_problem(value)
        if problem is not None and not _PLACE.match(value):
            raise refuse(problem[0], rule=problem[1])
        return value

    @field_validator("headers")
    @classmethod
    def _are_lines(cls, value: dict[str, _Scalar]) -> dict[str, _Scalar]:
        problem = _header_problem(value)
        if problem is not None:
            name, sentence = problem
            raise refuse(
                f"{quoted(name)} {sentence}", rule="one line each, NAME: value", is_shown=False
            )
        return value


class _Sql(Strict):
    service: _Word
    statement: _Word
    params: list[Any] | dict[str, Any] = Field(default_factory=list)

    @field_validator("service")
    @classmethod
    def _is_fixed(cls, value: str) -> str:
        return _fixed(value)

    @field_validator("statement")
    @classmethod
    def _is_no_template(cls, value: str) -> str:
        if not value.strip():
            raise refuse("must not be blank")
        found = _PLACE.search(value)
        if found is not None:
            raise refuse(
                f"is no template, so {found.group()} would be sent as it stands",
                rule="values go through 'params'",
                fix=f'write a placeholder of the database and params: ["{found.group()}"]',
                is_shown=False,
            )
        return value

    @field_validator("params")
    @classmethod
    def _are_scalars(cls, value: Any) -> Any:
        entries = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, entry in entries:
            if not _is_scalar(entry):
                # Without quotes YAML reads a template's braces as a mapping.
                bare = isinstance(entry, Mapping) and list(entry.values()) == [None]
                raise refuse(
                    f"parameter {name} must be one value",
                    rule="text, number, true, false or null",
                    fix=f'write "{{{next(iter(entry))}}}" with quotes' if bare else None,
                )
        return value


class _File(Strict):
    path: _Word
    write: Absent[str] = None
    append: Absent[str] = None
    delete: Absent[bool] = None

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, value: str) -> str:
        problem = path_problem(value)
        if problem is not None:
            raise refuse(problem, rule="a path inside the workspace, with '/'")
        return value

    @model_validator(mode="after")
    def _does_one_thing(self) -> _File:
        acts = {"write", "append", "delete"} & self.model_fields_set
        if len(acts) != 1:
            raise refuse("must do exactly one thing", rule="write, append or delete")
        if self.delete is False:
            raise refuse("'delete: false' does nothing", rule="delete: true")
        return self


class _Message(Strict):
    to: _Word
    body: str


class EffectEntry(Strict):
    """One entry of ``effects``; its texts may be templates."""

    http: Absent[_Http] = None
    sql: Absent[_Sql] = None
    file: Absent[_File] = None
    message: Absent[_Message] = None
    idempotency_key: Absent[_Word] = None

    @model_validator(mode="after")
    def _is_one(self) -> EffectEntry:
        if len(set(EFFECT_KINDS) & self.model_fields_set) != 1:
            raise refuse("must be exactly one effect", rule=", ".join(EFFECT_KINDS))
        if self.idempotency_key is not None and self.http is not None:
            named = _key_header(self.http.headers)
            if named is not None:
                raise refuse(f"has its key twice, also as the header {quoted(named)}")
        return self


def _fixed(value: str) -> str:
    if _PLACE.search(value):
        raise refuse("is no template", rule="which service is reached is written out")
    return value


def _key_header(headers: Mapping[str, Any]) -> str | None:
    return next((name for name in headers if name.lower() == IDEMPOTENCY_HEADER.lower()), None)


def _header_problem(headers: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first header that is not one line, by its name, and why."""
    for name, value in headers.items():
        if not _HEADER.match(name):
            return name, "is no name of a header"
        if isinstance(value, str) and _BREAK.search(value):
            return name, "holds a line break or another control character"
    return None


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _request_path_problem(path: str) -> tuple[str, str] | None:
    if not path.startswith("/"):
        return "must begin with '/'", "a path of the service, without a host"
    for mark in "?#":
        if mark in _PLACE.sub("", path):
            return f"must not hold '{mark}'", "what is asked for stands under 'query'"
    if any(ord(mark) < 0x20 or mark == "\x7f" for mark in path):
        return "must not hold control characters", "a path of the service"
    return None


def path_problem(path: str) -> str | None:
    """Why ``path`` cannot be one inside a workspace, judged by its components alone; or None."""
    if not path:
        return "must not be empty"
    if "\x00" in path:
        return "must not hold NUL"
    if "\\" in path:
        return "must not hold a backslash"
    if path.startswith("/") or _DRIVE.match(path):
        return "must be relative to the workspace"
    parts = path.split("/")
    if ".." in parts:
        return "must not leave the workspace by '..'"
    if "" in parts or "." in parts:
        return "must not have an empty component or '.'"
    return None


def kind_of_effect(effect: Mapping[str, Any]) -> str:
    """``http``, ``sql``, ``file`` or ``message``."""
    return next(kind for kind in EFFECT_KINDS if kind in effect)


def writing_problem(effect: Mapping[str, Any]) -> str | None:
    """Why a tool that only reads cannot have this effect, or None."""
    kind = kind_of_effect(effect)
    if kind == "http":
        method = effect["http"]["method"]
        return None if method in READING_METHODS else f"a {method} request may change something"
    return {
        "sql": "a statement may change rows",
        "file": "it changes the workspace",
        "message": "it sends a message",
    }[kind]


def cross_faults(
    effect: Mapping[str, Any], services: Mapping[str, str], *, has_workspace: bool
) -> list[Fault]:
    """What an entry says that does not fit the declared world; paths from the entry.

    Args:
        services: The type of each declared service, by name.
    """
    kind = kind_of_effect(effect)
    if kind == "file" and not has_workspace:
        problem = "there is no workspace to write to"
        return [Fault(("file",), problem, fix="declare 'environment.workspace'", at_key=True)]
    if kind not in _SPEAKS:
        return []
    name = str(effect[kind]["service"])
    at = (kind, "service")
    if name not in services:
        near = nearest(name, services)
        return [
            Fault(
                at,
                "unknown service",
                got=quoted(name),
                rule=f"declared: {one_of(sorted(services)) or 'none'}",
                fix=f"write {quoted(near)}" if near else None,
            )
        ]
    own = [word for words in _SPEAKS.values() for word in words]
    if services[name] not in own:
        return []
    if services[name] not in _SPEAKS[kind]:
        return [
            Fault(
                at,
                f"{quoted(name)} is a service of another type",
                got=services[name],
                rule=f"{kind} needs {' or '.join(_SPEAKS[kind])}",
            )
        ]
    return _statement_faults(effect["sql"], services[name]) if kind == "sql" else []


def _statement_faults(asked: Mapping[str, Any], kind: str) -> list[Fault]:
    """What no call mends: placeholders and values that do not fit, more than one statement."""
    from pytest_evarness.world.sql.text import Dialect, placeholder_mistake, split

    at = ("sql", "statement")
    mistake = placeholder_mistake(asked["statement"], asked.get("params", []), Dialect(kind))
    if mistake is not None:
        return [Fault(at, mistake, rule="? with a list of params, :name with a mapping")]
    try:
        count = len(split(asked["statement"], Dialect(kind)))
    except ValueError as error:
        return [Fault(at, str(error))]
    if count != 1:
        rule = "each further statement is an effect of its own"
        return [Fault(at, "must be one statement", got=str(count), rule=rule)]
    return []


# -- filled for one call -------------------------------------------------------------------------


def fitted(effect: JsonObject) -> dict[str, Any]:
    """A filled effect with the types that the world takes.

    What a call's arguments brought in is judged here: they may be of any type.

    Raises:
        EffectFailedError: A value that the world cannot take, with its place.
    """
    kind = kind_of_effect(effect)
    asked: Any = effect[kind]
    made = _FITTERS[kind](asked)
    key = effect.get("idempotency_key")
    if kind == "http":
        headers = made.setdefault("headers", {})
        named = _key_header(headers)
        if key is not None:
            headers[IDEMPOTENCY_HEADER] = as_text(key)
        elif named is not None:
            key = headers[named]
        _check_headers(headers)
    if key is None:
        return {kind: made}
    if not as_text(key).strip():
        raise EffectFailedError("idempotency_key: is blank")
    return {kind: made, "idempotency_key": as_text(key)}


def as_text(value: object) -> str:
    """A text as it is, else compact JSON."""
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _fit_http(asked: Mapping[str, Any]) -> dict[str, Any]:
    method, path = as_text(asked["method"]), as_text(asked["path"])
    if not _METHOD.match(method):
        raise EffectFailedError(f"http.method: no method in capitals (got {quoted(method)})")
    # A path has no placeholder left; a brace in it is one of its own.
    problem = _request_path_problem(path)
    if problem is not None:
        raise EffectFailedError(f"http.path: {problem[0]} (got {quoted(path)})")
    made: dict[str, Any] = {"service": asked["service"], "method": method, "path": path}
    if "body" in asked:
        made["body"] = asked["body"]
    for name in ("headers", "query"):
        if asked.get(name):
            made[name] = {key: as_text(value) for key, value in asked[name].items()}
    return made


def _check_headers(headers: Mapping[str, str]) -> None:
    problem = _header_problem(headers)
    if problem is not None:
        name, sentence = problem
        value = "" if headers[name] == "" else f" (got {quoted(headers[name])})"
        raise EffectFailedError(f"http.headers: {quoted(name)} {sentence}{value}")


def _fit_sql(asked: Mapping[str, Any]) -> dict[str, Any]:
    params = asked.get("params", [])
    entries: Sequence[tuple[Any, Json]] = (
        list(params.items()) if isinstance(params, Mapping) else list(enumerate(params))
    )
    for name, value in entries:
        if not _is_scalar(value):
            raise EffectFailedError(
                f"sql.params.{name}: one value is needed (got {shown(value)}; "
                "text, number, true, false or null)"
            )
    copied = dict(params) if isinstance(params, Mapping) else list(params)
    return {"service": asked["service"], "statement": asked["statement"], "params": copied}


def _fit_file(asked: Mapping[str, Any]) -> dict[str, Any]:
    path = as_text(asked["path"])
    problem = path_problem(path)
    if problem is not None:
        raise EffectFailedError(f"file.path: {problem} (got {quoted(path)})")
    for act in ("write", "append"):
        if act in asked:
            return {"path": path, act: as_text(asked[act])}
    return {"path": path, "delete": True}


def _fit_message(asked: Mapping[str, Any]) -> dict[str, Any]:
    to = as_text(asked["to"])
    if not to.strip():
        raise EffectFailedError("message.to: is blank")
    return {"to": to, "body": as_text(asked["body"])}


_FITTERS = {"http": _fit_http, "sql": _fit_sql, "file": _fit_file, "message": _fit_message}

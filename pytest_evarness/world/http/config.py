"""How a service of type ``http_mock`` is written."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.errors import Fault
from pytest_evarness.source.model import unknown_key
from pytest_evarness.source.quote import quoted, shown
from pytest_evarness.world.http.condition import (
    PATH_TEMPLATE,
    PathPattern,
    parse_conditions,
)
from pytest_evarness.world.http.limit import MAX_DELAY_MS

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = ["FAULTS", "SCHEMA", "parse_mock"]

FAULTS: Final = ("reset", "timeout", "empty", "malformed")
"""What a route may do instead of answering."""

_KEYS: Final = ("record", "routes", "default_response", "allow_unmatched")
_CONDITIONS: Final = ("method", "path", "query", "headers", "body")
_SEQUENCES: Final = ("status", "response", "delay", "fault")
_ROUTE_KEYS: Final = (*_CONDITIONS, *_SEQUENCES, "response_headers")
_DELAY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s)\Z")
_DELAY_RULE: Final = 'seconds, or a text such as "250ms"; at most 10 s'
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*\Z")
_OURS: Final = frozenset({"connection", "content-length", "date", "transfer-encoding"})
_OF_ANSWERS: Final = frozenset(
    {
        "access-control-allow-origin",
        "content-disposition",
        "etag",
        "last-modified",
        "location",
        "retry-after",
        "server",
        "set-cookie",
        "vary",
        "www-authenticate",
    }
)
"""Headers that no client sends: under ``headers`` they would be asked of requests in vain."""


def parse_mock(value: Mapping[str, Json]) -> tuple[dict[str, Json], list[Fault]]:
    """Read a declaration.

    Returns:
        ``{record, routes, default_response, allow_unmatched}``, where each route has ``request``
        (conditions), ``headers`` of the answer as pairs, and non-empty lists under ``status``,
        ``response`` (``{text}`` or ``{json}``), ``delay_ms`` and ``fault``; and every mistake.
    """
    faults: list[Fault] = []
    made: dict[str, Json] = {
        "record": True,
        "routes": [],
        "default_response": None,
        "allow_unmatched": False,
    }
    for key, given in value.items():
        if key in ("record", "allow_unmatched"):
            if isinstance(given, bool):
                made[key] = given
            else:
                faults.append(Fault((key,), "must be true or false", got=shown(given)))
        elif key == "default_response":
            found = _status_fault(given)
            if found is not None:
                faults.append(found.under(key))
            made[key] = given
        elif key == "routes":
            made[key], inner = _routes(given)
            faults += [fault.under(key) for fault in inner]
        elif key != "type":
            faults.append(unknown_key((), key, _KEYS))
    if value.get("allow_unmatched") is False and "default_response" in value:
        faults.append(
            Fault(
                ("allow_unmatched",),
                "contradicts 'default_response', which allows unmatched requests",
                got="false",
                fix="leave one of them out",
            )
        )
    return ({} if faults else made), faults


def _routes(value: Json) -> tuple[list[Json], list[Fault]]:
    if not isinstance(value, list | tuple):
        return [], [Fault((), "must be a list", got=shown(value), rule="[{path: /x, ...}, ...]")]
    routes: list[Json] = []
    faults: list[Fault] = []
    takers: dict[str, list[tuple[int, str | None]]] = {}
    for index, given in enumerate(value):
        route, found = _route(given)
        faults += [fault.under(index) for fault in found]
        routes.append(route)
        if not found:
            faults += _unreachable(index, route["request"], takers)
    return routes, faults


def _unreachable(
    index: int, request: Mapping[str, Json], takers: dict[str, list[tuple[int, str | None]]]
) -> list[Fault]:
    """Whether an earlier route takes every request of this one."""
    shape = PathPattern.read(str(request["path"])).text
    method = request.get("method")
    for earlier, taken in takers.get(shape, []):
        if taken is None or taken == method:
            return [
                Fault(
                    (index,),
                    "is never reached",
                    got=f"path {quoted(str(request['path']))}",
                    rule=f"routes[{earlier}] takes every such request",
                    fix="put the narrower route first, or write a list of responses",
                )
            ]
    if set(request) <= {"method", "path"} and (method is None or isinstance(method, str)):
        takers.setdefault(shape, []).append((index, method))
    return []


def _route(value: Json) -> tuple[dict[str, Any], list[Fault]]:
    if not isinstance(value, Mapping):
        return {}, [Fault((), "must be a mapping", got=shown(value), rule="{path: /x, ...}")]
    faults = [unknown_key((), key, _ROUTE_KEYS) for key in value if key not in _ROUTE_KEYS]
    if "path" not in value:
        problem = "required key 'path' is missing"
        faults.append(Fault((), problem, rule=PATH_TEMPLATE, code="missing_key"))
    elif isinstance(value["path"], Mapping):
        problem = "must be text"
        faults.append(Fault(("path",), problem, got=shown(value["path"]), rule=PATH_TEMPLATE))
    faults += _misplaced(value.get("headers"))
    asked = {key: value[key] for key in _CONDITIONS if key in value}
    if not faults:
        request, found = parse_conditions(asked, is_filter=False)
        faults += found
    made: dict[str, Any] = {} if faults else {"request": request}
    for key, read, default in (
        ("status", _status, 200),
        ("response", _response, {"text": ""}),
        ("delay", _delay, 0),
        ("fault", _fault, None),
    ):
        name = "delay_ms" if key == "delay" else key
        if key in value:
            made[name], found = _sequence(value[key], read)
            faults += [fault.under(key) for fault in found]
        else:
            made[name] = [default]
    made["headers"], found = _answer_headers(value.get("response_headers", {}))
    faults += [fault.under("response_headers") for fault in found]
    return made, faults


def _misplaced(headers: Json) -> list[Fault]:
    if not isinstance(headers, Mapping):
        return []
    return [
        Fault(
            ("headers", name),
            "is a header of answers; 'headers' asks of requests",
            got=quoted(name),
            fix="write it under 'response_headers'",
            at_key=True,
        )
        for name in headers
        if name.lower() in _OF_ANSWERS
    ]


def _sequence(
    value: Json, read: Callable[[Json], tuple[Json, Fault | None]]
) -> tuple[list[Json], list[Fault]]:
    """A value, or a list of them: one for each request of the route, the last one stays."""
    if not isinstance(value, list | tuple):
        made, fault = read(value)
        return [made], [fault] if fault is not None else []
    if not value:
        return [], [Fault((), "must not be empty", got="[]", rule="one for each request")]
    values: list[Json] = []
    faults: list[Fault] = []
    for index, part in enumerate(value):
        made, fault = read(part)
        values.append(made)
        if fault is not None:
            faults.append(fault.under(index))
    return values, faults


def _status_fault(value: Json) -> Fault | None:
    if isinstance(value, int) and not isinstance(value, bool) and 200 <= value <= 599:
        return None
    return Fault((), "is no status of an answer", got=shown(value), rule="200 to 599")


def _status(value: Json) -> tuple[Json, Fault | None]:
    return value, _status_fault(value)


def _response(value: Json) -> tuple[Json, Fault | None]:
    if isinstance(value, str):
        return {"text": value}, None
    if isinstance(value, Mapping | list | tuple):
        return {"json": value}, None
    if value is None:
        return {"text": ""}, None
    rule = "a text, or a mapping that is sent as JSON"
    return None, Fault((), "must be text or a mapping", got=shown(value), rule=rule)


def _delay(value: Json) -> tuple[Json, Fault | None]:
    seconds: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        seconds = float(value)
    elif isinstance(value, str) and (found := _DELAY.match(value)):
        seconds = float(found.group(1)) / (1000 if found.group(2) == "ms" else 1)
    if seconds is None or not 0 <= seconds * 1000 <= MAX_DELAY_MS:
        return 0, Fault((), "is no delay", got=shown(value), rule=_DELAY_RULE)
    return round(seconds * 1000), None


def _fault(value: Json) -> tuple[Json, Fault | None]:
    if value is None or (isinstance(value, str) and value in FAULTS):
        return value, None
    from pytest_evarness.source.quote import nearest

    near = nearest(value, FAULTS) if isinstance(value, str) else None
    fix = f"write '{near}'" if near else None
    rule = f"known: {', '.join(FAULTS)}"
    return None, Fault((), "unknown fault", got=shown(value), rule=rule, fix=fix)


def _answer_headers(value: Json) -> tuple[list[Json], list[Fault]]:
    if not isinstance(value, Mapping):
        rule = "{NAME: a text, or a list of them}"
        return [], [Fault((), "must be a mapping", got=shown(value), rule=rule)]
    pairs: list[Json] = []
    faults: list[Fault] = []
    # Sorted: the second run reads them from a text that keeps no order of keys.
    for name in sorted(value):
        given = value[name]
        if not _NAME.match(name):
            faults.append(Fault((name,), "is no name of a header", got=quoted(name), at_key=True))
        elif name.lower() in _OURS:
            problem = "is set by the service itself"
            faults.append(Fault((name,), problem, got=quoted(name), at_key=True))
        for text in given if isinstance(given, list | tuple) else [given]:
            if isinstance(text, str) and _VALUE.match(text):
                pairs.append([name, text])
            else:
                rule = "a text without line breaks, in Latin letters"
                faults.append(Fault((name,), "is no value of a header", got=shown(text), rule=rule))
    return pairs, faults


# -- for editors -----------------------------------------------------------------------------------


def _one_or_list(schema: JsonObject) -> JsonObject:
    return {"anyOf": [schema, {"type": "array", "items": schema, "minItems": 1}]}


_STATUS: Final[JsonObject] = {"type": "integer", "minimum": 200, "maximum": 599}
_MATCHERS: Final[JsonObject] = {"type": "object", "minProperties": 1}

SCHEMA: Final[JsonObject] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["type"],
    "properties": {
        "type": {"const": "http_mock"},
        "record": {"type": "boolean", "description": "keep a journal (default true)"},
        "default_response": {
            **_STATUS,
            "description": "status for requests without a route (404); allows them",
        },
        "allow_unmatched": {
            "type": "boolean",
            "description": "requests without a route do not fail the case (default false)",
        },
        "routes": {
            "type": "array",
            "description": "the first one that matches answers",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["path"],
                "properties": {
                    "method": {
                        "anyOf": [{"type": "string"}, _MATCHERS],
                        "description": "a method or a matcher; any without it",
                    },
                    "path": {"type": "string", "description": PATH_TEMPLATE},
                    "query": {**_MATCHERS, "description": "matchers by parameter"},
                    "headers": {**_MATCHERS, "description": "matchers by header of the request"},
                    "body": {
                        "type": ["string", "array", "object"],
                        "description": "text or JSON to be equal to, or operators; json: {PATH: ...}",  # noqa: E501
                    },
                    "status": _one_or_list(_STATUS),
                    "response": {
                        "type": ["string", "object", "array", "null"],
                        "description": "text, or JSON when a mapping; a list is a sequence",
                    },
                    "response_headers": {
                        "type": "object",
                        "additionalProperties": _one_or_list({"type": "string"}),
                    },
                    "delay": _one_or_list({"type": ["number", "string"]}),
                    "fault": _one_or_list({"enum": [*FAULTS, None]}),
                },
            },
        },
    },
}

"""A declaration of a mock says what it will do, or it is refused with the place and the way out."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from pytest_evarness.world.http.kind import HttpMockType
from tests.world.http.mocks import declared


def refusals(**declaration: Any) -> list[str]:
    config, faults = HttpMockType().parse(declaration)
    assert bool(faults) is (config == {}), "a configuration, or faults"
    return [
        f"{'.'.join(map(str, fault.path))}: {fault.text}" + (f" [{fault.fix}]" if fault.fix else "")
        for fault in faults
    ]


def route(**keys: Any) -> list[str]:
    return refusals(routes=[{"path": "/x", **keys}])


def test_without_any_key_everything_has_its_default() -> None:
    assert declared() == {
        "record": True,
        "routes": [],
        "default_response": None,
        "allow_unmatched": False,
    }


def test_a_route_is_written_out_in_full() -> None:
    (made,) = declared(
        routes=[
            {
                "method": "post",
                "path": "/a b/{id}",
                "headers": {"X-Key": "k"},
                "body": {"to": "x"},
                "status": [503, 200],
                "response": [{"ok": False}, "fine"],
                "response_headers": {"Set-Cookie": ["a=1", "b=2"]},
                "delay": "250ms",
                "fault": ["reset", None],
            }
        ]
    )["routes"]
    assert made == {
        "request": {
            "method": "POST",
            "path": "/a b/{id}",
            "headers": {"x-key": "k"},
            "body": {"equals": {"to": "x"}},
        },
        "status": [503, 200],
        "response": [{"json": {"ok": False}}, {"text": "fine"}],
        "headers": [["Set-Cookie", "a=1"], ["Set-Cookie", "b=2"]],
        "delay_ms": [250],
        "fault": ["reset", None],
    }


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"recrod": True}, "recrod: unknown key (got 'recrod'; known: record, routes, "),
        ({"record": "yes"}, 'record: must be true or false (got "yes")'),
        ({"routes": {}}, "routes: must be a list (got {}; [{path: /x, ...}, ...])"),
        ({"routes": ["/x"]}, 'routes.0: must be a mapping (got "/x"; {path: /x, ...})'),
        ({"routes": [{"method": "GET"}]}, "routes.0: required key 'path' is missing ("),
        ({"default_response": 99}, "default_response: is no status of an answer (got 99; 200 "),
        ({"default_response": True}, "default_response: is no status of an answer (got true; "),
        (
            {"default_response": 500, "allow_unmatched": False},
            "allow_unmatched: contradicts 'default_response', which allows unmatched requests",
        ),
    ],
)
def test_a_mistake_of_the_service_is_told(keys: dict[str, Any], said: str) -> None:
    (told,) = refusals(**keys)
    assert told.startswith(said)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"pth": "/y"}, "pth: unknown key (got 'pth'; known: method, path, "),
        ({"path": "x"}, "path: is no path (got 'x'; a path begins with '/') [write '/x']"),
        ({"path": "http://h/x"}, "path: is no path (got 'http://h/x'; a path begins with '/')"),
        ({"path": "/x?a=1"}, "path: must not hold '?' (got '/x?a=1'; "),
        ({"path": "/v{n}/x"}, "path: has a brace inside a segment (got '/v{n}/x'; "),
        ({"path": "/{a}/{a}"}, "path: names a segment twice (got '/{a}/{a}'; "),
        ({"path": {"pattern": "x"}}, "path: must be text (got "),
        ({"method": "GE T"}, 'method: is no method (got "GE T"; such as GET or POST)'),
        ({"method": 1}, "method: is no method (got 1; "),
        ({"query": {"page": 2}}, "query.page: no request can meet it: query.page is a text"),
        ({"query": {}}, "query: must be a mapping (got {}; "),
        ({"query": {"q": {"contians": "x"}}}, "query.q.contians: unknown operator"),
        ({"headers": {"Date": "x"}}, "headers.Date: 'date' is not recorded: it is the wall clock"),
        ({"headers": {"a b": "x"}}, "headers.a b: is no name of a header"),
        ({"headers": {"Location": "x"}}, "headers.Location: is a header of answers; 'headers' "),
        ({"headers": {"x-a": {"exists": False, "contains": "y"}}}, "headers.x-a: no request can"),
        ({"body": 5}, "body: a body is a text (got 5; a text, a mapping or a list) [write '\"5\"'"),
        ({"body": {"contians": "x"}}, "body.contians: may be an operator misspelt or a key of "),
        ({"body": {"contains": "x", "to": "y"}}, "body.to: stands beside operators and is none"),
        ({"body": {"json": {"a..b": 1}}}, "body.json.a..b: a name is missing before '.'"),
        ({"body": {"json": {}}}, "body.json: must be a mapping (got {}; "),
        ({"body": {"secret": "API"}}, "body: a route cannot ask for 'secret'"),
        ({"body": {"gt": 5}}, "body: no request can meet it: body is a text"),
        ({"status": 42}, "status: is no status of an answer (got 42; 200 to 599)"),
        ({"status": []}, "status: must not be empty (got []; one for each request)"),
        ({"status": [200, "x"]}, 'status.1: is no status of an answer (got "x"; '),
        ({"response": 5}, "response: must be text or a mapping (got 5; "),
        ({"response_headers": {"Content-Length": "5"}}, "response_headers.Content-Length: is set "),
        ({"response_headers": {"X": "a\r\nb"}}, "response_headers.X: is no value of a header"),
        ({"response_headers": {"X Y": "a"}}, "response_headers.X Y: is no name of a header"),
        ({"response_headers": []}, "response_headers: must be a mapping (got []; "),
        ({"delay": "5m"}, 'delay: is no delay (got "5m"; seconds, or a text such as "250ms"; '),
        ({"delay": 11}, "delay: is no delay (got 11; "),
        ({"delay": -1}, "delay: is no delay (got -1; "),
        ({"fault": "rest"}, 'fault: unknown fault (got "rest"; known: reset, timeout, empty, '),
    ],
)
def test_a_mistake_of_a_route_is_told(keys: dict[str, Any], said: str) -> None:
    (told,) = route(**keys)
    assert told.startswith(f"routes.0.{said}")


def test_all_mistakes_are_told_at_once() -> None:
    assert len(refusals(recrod=1, routes=[{"path": "x", "fault": "no"}, {"status": 1}])) == 5


def test_a_route_that_another_one_hides_is_refused() -> None:
    first = {"method": "POST", "path": "/orders/{id}"}
    hidden = {"method": "POST", "path": "/orders/{number}", "body": "x"}
    (told,) = refusals(routes=[first, hidden])
    assert told.startswith("routes.1: is never reached (got path '/orders/{number}'; routes[0] ")
    assert refusals(routes=[{"path": "/x"}, {"path": "/x", "method": "GET"}])


def test_routes_that_can_all_be_reached_are_fine() -> None:
    narrow = {"method": "POST", "path": "/x", "body": "x"}
    assert not refusals(routes=[narrow, {"method": "POST", "path": "/x"}, {"path": "/x"}])
    assert not refusals(routes=[{"path": "/orders/7"}, {"path": "/orders/{id}"}])
    assert not refusals(routes=[{"method": {"in": ["GET", "PUT"]}, "path": "/x"}, {"path": "/x"}])


@pytest.mark.parametrize(
    "declaration",
    [
        {"record": False},
        {"default_response": 500},
        {"routes": [{"path": "/x", "status": [500, 200], "fault": [None, "empty"]}]},
        {"routes": [{"method": "GET", "path": "/{id}", "query": {"q": {"contains": "x"}}}]},
        {"routes": [{"path": "/x", "body": {"json": {"a[0]": 1}}, "response": [{"a": 1}, "b"]}]},
    ],
)
def test_the_schema_for_editors_takes_what_is_taken(declaration: dict[str, Any]) -> None:
    declared(**declaration)
    schema: Any = HttpMockType().schema
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"type": "http_mock", **declaration}, schema)


@pytest.mark.parametrize(
    "declaration", [{"recrod": True}, {"routes": [{"status": 200}]}, {"default_response": 9}]
)
def test_the_schema_for_editors_refuses_what_is_refused(declaration: dict[str, Any]) -> None:
    assert refusals(**declaration)
    schema: Any = HttpMockType().schema
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"type": "http_mock", **declaration}, schema)

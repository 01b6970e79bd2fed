"""An effect is judged as it is written: its shape, its path, its service."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.source.model import parse_model
from pytest_evarness.world.effect import EffectEntry, cross_faults, path_problem, writing_problem

HTTP: dict[str, Any] = {"service": "mail", "method": "POST", "path": "/m"}
SQL: dict[str, Any] = {"service": "db", "statement": "DELETE FROM t"}


def faults(effect: Any) -> list[str]:
    return [
        ": ".join(part for part in (".".join(map(str, one.path)), one.text, one.fix) if part)
        for one in parse_model(EffectEntry, effect)[1]
    ]


@pytest.mark.parametrize(
    "effect",
    [
        {"http": HTTP},
        {
            "http": {
                **HTTP,
                "body": {"to": "{args.to}"},
                "headers": {"X-A_b": "x\ty é"},
                "query": {"n": 1},
            }
        },
        {"http": {**HTTP, "method": "{args.method}", "path": "{args.path}"}},
        {"sql": SQL, "idempotency_key": "{args.id}"},
        {"sql": {**SQL, "params": {"id": "{args.id}", "n": 1.5, "x": None}}},
        {"file": {"path": "out/{args.name}.txt", "write": ""}},
        {"file": {"path": "a", "append": "x"}},
        {"file": {"path": "a", "delete": True}},
        {"message": {"to": "ann", "body": ""}},
    ],
)
def test_what_can_be_meant_is_read(effect: Any) -> None:
    assert faults(effect) == []


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        ({}, "must be exactly one effect (got {}; http, sql, file, message)"),
        ({"htp": HTTP}, "htp: unknown key (got 'htp'; known: http, sql, file, message, "),
        ({"http": HTTP, "sql": SQL}, "must be exactly one effect (got "),
        ({"http": {"service": "mail", "path": "/m"}}, "http: required key 'method' is missing"),
        ({"http": {"service": "mail", "method": "GET"}}, "http: required key 'path' is missing"),
        ({"sql": {"service": "db"}}, "sql: required key 'statement' is missing"),
        ({"http": {**HTTP, "boddy": 1}}, "http.boddy: unknown key (got 'boddy'; known: "),
        ({"http": {**HTTP, "method": "post"}}, "http.method: must be a method in capitals"),
        ({"http": {**HTTP, "path": "m"}}, "http.path: must begin with '/'"),
        ({"http": {**HTTP, "path": "http://mail/m"}}, "http.path: must begin with '/'"),
        ({"http": {**HTTP, "path": "/m?a=1"}}, "http.path: must not hold '?'"),
        ({"http": {**HTTP, "service": "{args.s}"}}, "http.service: is no template"),
        ({"sql": {**SQL, "service": "{query}"}}, "sql.service: is no template"),
        (
            {"sql": {**SQL, "statement": "DELETE FROM t WHERE id = {args.id}"}},
            "sql.statement: is no template, so {args.id} would be sent as it stands",
        ),
        ({"sql": {**SQL, "statement": "  "}}, "sql.statement: must not be blank"),
        ({"sql": {**SQL, "params": [[1]]}}, "sql.params: parameter 0 must be one value"),
        ({"file": {"path": "a"}}, "file: must do exactly one thing"),
        ({"file": {"path": "a", "write": "", "append": ""}}, "file: must do exactly one thing"),
        ({"file": {"path": "a", "delete": False}}, "file: 'delete: false' does nothing"),
        ({"file": {"path": "../a", "write": ""}}, "file.path: must not leave the workspace"),
        ({"file": {"path": "/a", "write": ""}}, "file.path: must be relative to the workspace"),
        (
            {"file": {"path": "../{args.a}", "write": ""}},
            "file.path: must not leave the workspace",
        ),
        *(
            (
                {"http": {**HTTP, "headers": {"A": value}}},
                "http.headers: 'A' holds a line break or another control character (one line each",
            )
            for value in ("x\r\nB: y", "x\ny", "x\ry", "x\x00", "{args.a}\n")
        ),
        *(
            (
                {"http": {**HTTP, "headers": {name: "x"}}},
                f"http.headers: {shown} is no name of a header (one line each, NAME: value)",
            )
            for name, shown in (
                ("A\r\nB", "'A\\r\\nB'"),
                ("A: b", "'A: b'"),
                ("", "''"),
                ("é", "'é'"),
            )
        ),
        ({"message": {"to": "ann"}}, "message: required key 'body' is missing"),
        ({"message": None}, "message: must be a mapping"),
        (
            {"http": {**HTTP, "headers": {"idempotency-key": "k"}}, "idempotency_key": "k"},
            "has its key twice, also as the header 'idempotency-key'",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(effect: Any, said: str) -> None:
    (found,) = faults(effect)
    assert found.startswith(said)


def test_an_unknown_service_is_named_with_the_nearest() -> None:
    def said(effect: Any, services: dict[str, str]) -> list[str]:
        found = cross_faults(effect, services, has_workspace=False)
        return [f"{'.'.join(map(str, one.path))}: {one.text} {one.fix or ''}" for one in found]

    assert said({"http": HTTP}, {"mail": "http_mock"}) == []
    assert said({"http": HTTP}, {"mial": "http_mock"}) == [
        "http.service: unknown service (got 'mail'; declared: mial) write 'mial'"
    ]
    assert said({"http": HTTP}, {}) == [
        "http.service: unknown service (got 'mail'; declared: none) "
    ]
    assert said({"http": HTTP}, {"mail": "sqlite"}) == [
        "http.service: 'mail' is a service of another type (got sqlite; http needs http_mock) "
    ]
    (other,) = said({"sql": SQL}, {"db": "http_mock"})
    assert other.endswith("(got http_mock; sql needs sqlite or postgres or mysql) ")
    marks = {**SQL, "statement": "DELETE FROM t WHERE id = ?"}
    assert said({"sql": {**marks, "params": [1]}}, {"db": "mysql"}) == []
    (lacking,) = said({"sql": {**marks, "params": [1, 2]}}, {"db": "mysql"})
    assert lacking.startswith(
        "sql.statement: placeholders and values differ in number (? 1, values 2) ("
    )
    two = {**SQL, "statement": "DELETE FROM t; DELETE FROM u"}
    further = "each further statement is an effect of its own"
    for kind in ("sqlite", "postgres", "mysql"):
        assert said({"sql": two}, {"db": kind}) == [
            f"sql.statement: must be one statement (got 2; {further}) "
        ]
        assert (
            said({"sql": {**SQL, "statement": "DELETE FROM t WHERE a = ';'; "}}, {"db": kind}) == []
        )
        (half,) = said({"sql": {**SQL, "statement": "DELETE FROM t WHERE a = 'x"}}, {"db": kind})
        assert half.startswith("sql.statement: ")
    # What a broken declaration does not tell is not guessed.
    assert said({"sql": SQL}, {"db": ""}) == []
    # A plug-in's own type is asked when it is reached.
    assert said({"sql": SQL}, {"db": "acme_store"}) == []
    assert said({"file": {"path": "a", "write": ""}}, {}) == [
        "file: there is no workspace to write to declare 'environment.workspace'"
    ]


def test_only_requests_that_read_belong_to_a_tool_that_reads() -> None:
    assert writing_problem({"http": {**HTTP, "method": "GET"}}) is None
    for effect in (
        {"http": HTTP},
        {"sql": SQL},
        {"file": {"path": "a", "write": ""}},
        {"message": {"to": "a", "body": ""}},
    ):
        assert writing_problem(effect) is not None


def test_a_path_may_have_dots_that_are_no_way_out() -> None:
    for path in ("..a", "a..", "...", ".env", "a/..b/c"):
        assert path_problem(path) is None

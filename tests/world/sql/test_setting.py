"""What may stand under a database service, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from pytest_evarness.world.sql.setting import (
    dsn_problem,
    init_scripts,
    parse_database,
    schema_of,
    variables_of,
)


def said(kind: str, **value: Any) -> list[str]:
    _, faults = parse_database(kind, value)
    return [
        f"{'.'.join(str(part) for part in fault.path)}: {fault.text}"
        + (f" | {fault.fix}" if fault.fix else "")
        for fault in faults
    ]


def test_a_text_is_sql_and_a_list_is_files() -> None:
    assert parse_database("sqlite", {"init": "SELECT 1"}) == ({"init": ["SELECT 1"]}, [])
    assert parse_database("sqlite", {"init": ["a.sql", "sub/b.sql"]}) == (
        {"init": [{"file": "a.sql"}, {"file": "sub/b.sql"}]},
        [],
    )
    assert parse_database("sqlite", {}) == ({"init": []}, [])


def test_scripts_have_names_for_messages() -> None:
    assert init_scripts({"init": ["A"]}) == [("init", "A")]
    assert init_scripts({"init": ["A", "B"]}) == [("init[0]", "A"), ("init[1]", "B")]
    assert init_scripts({"init": [{"file": "a.sql", "text": "A"}]}) == [("a.sql", "A")]


def test_the_defaults_are_written_out() -> None:
    assert parse_database("postgres", {}) == (
        {"init": [], "dsn": None, "start_seconds": 30.0},
        [],
    )


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (
            "sqlite",
            {"init": "schema.sql"},
            (
                "init: a text is SQL, and this is the name of a file"
                ' (got "schema.sql"; a list is files) | write init: [schema.sql]'
            ),
        ),
        (
            "sqlite",
            {"init": ["CREATE TABLE t (a INT)"]},
            (
                "init.0: a list is files, and this is no file"
                ' (got "CREATE TABLE t (a INT)"; a text is SQL)'
                " | write all SQL as one text under init"
            ),
        ),
        (
            "sqlite",
            {"init": 3},
            "init: must be SQL or files (got 3; a text (SQL) or a list of files)",
        ),
        (
            "sqlite",
            {"intit": ""},
            "intit: unknown key (got 'intit'; known: type, init) | write 'init'",
        ),
        ("sqlite", {"dsn": "x"}, "dsn: unknown key (got 'dsn'; known: type, init)"),
        (
            "mysql",
            {},
            (
                ": a mysql service needs a server (dsn: mysql://USER@HOST/DATABASE, or {env: NAME})"
                " | add dsn: {env: MYSQL_DSN}"
            ),
        ),
        (
            "postgres",
            {"start_seconds": 0},
            "start_seconds: must be a time (got 0; a number of seconds above 0, at most 3600)",
        ),
        (
            "postgres",
            {"dsn": {"env": "a b"}},
            (
                "dsn: must name a variable"
                ' (got {"env": "a b"}; {env: NAME}, the environment variable that holds it)'
            ),
        ),
        (
            "postgres",
            {"dsn": "mysql://u@h/d"},
            (
                "dsn: has a scheme of another kind ('mysql')"
                " (postgresql://USER@HOST:PORT/DATABASE, or libpq's host=... user=... dbname=...)"
            ),
        ),
        (
            "mysql",
            {"dsn": "host=h"},
            "dsn: is no dsn (mysql://USER@HOST:PORT/DATABASE)",
        ),
        (
            "mysql",
            {"dsn": "mysql://u@h:port/d"},
            "dsn: cannot be read as a URL (mysql://USER@HOST:PORT/DATABASE)",
        ),
    ],
)
def test_a_mistake_is_told_with_what_to_write(
    kind: str, value: dict[str, Any], expected: str
) -> None:
    assert said(kind, **value) == [expected]


@pytest.mark.parametrize(
    ("kind", "dsn"),
    [
        ("postgres", "postgresql://u:hunter22@h/d"),
        ("postgres", "postgres://h/d?password=hunter22"),
        ("postgres", "host=h password='hunter22'"),
        ("mysql", "mysql://u:hunter22@h/d"),
    ],
)
def test_a_password_is_refused_and_not_repeated(kind: str, dsn: str) -> None:
    (text,) = said(kind, dsn=dsn)
    assert text == (
        "dsn: a password does not belong into a scenario"
        " | put it into an environment variable and write dsn: {env: NAME}"
    )
    assert dsn_problem(kind, dsn, may_hold_password=True) is None


@pytest.mark.parametrize(
    ("kind", "dsn"),
    [
        ("postgres", "postgresql://u:@h/d"),
        ("postgres", "host=h password=''"),
        ("postgres", "postgresql:///d?host=/run/postgresql"),
        ("mysql", "mariadb://u:@h/d"),
    ],
)
def test_an_empty_password_is_none(kind: str, dsn: str) -> None:
    assert said(kind, dsn=dsn) == []


def test_the_variable_is_named_for_the_case() -> None:
    config, faults = parse_database("mysql", {"dsn": {"env": "DB"}})
    assert faults == []
    assert variables_of(config) == ("DB",)
    assert variables_of(parse_database("postgres", {})[0]) == ()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_the_schema_agrees_with_the_reader(kind: str) -> None:
    schema = schema_of(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    good: dict[str, Any] = {"init": ["a.sql"]}
    if kind != "sqlite":
        good |= {"dsn": {"env": "DB"}, "start_seconds": 2.5}
    jsonschema.validate({"type": kind, **good}, schema)
    assert said(kind, **good) == []
    for bad in ({"init": 3}, {"unknown": 1}, {"start_seconds": 0}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"type": kind, **good, **bad}, schema)
        assert said(kind, **{**good, **bad})

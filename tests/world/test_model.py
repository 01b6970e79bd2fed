"""What ``workspace`` and ``services`` may say; whatever leads out is refused by name."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from pytest_evarness.world.model import environment_keys, path_problem, variable_name
from tests.world.made import declared, faults_of, registry


def test_a_workspace_is_normalised() -> None:
    files = {"a": "x", "b/c": {"text": "y", "mode": "755"}, "d": {"base64": "AP8="}}
    environment, faults = declared(workspace={"from": "demo", "files": files, "git": True})
    assert faults == []
    assert environment["workspace"] == {
        "from": "demo",
        "files": {
            "a": {"text": "x", "mode": "0644"},
            "b/c": {"text": "y", "mode": "0755"},
            "d": {"base64": "AP8=", "mode": "0644"},
        },
        "git": True,
    }


def test_an_empty_workspace_is_one() -> None:
    assert declared(workspace={}) == ({"workspace": {"files": {}, "git": False}}, [])


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/etc/passwd", "is absolute"),
        ("C:/x", "is absolute"),
        ("../x", "leads out of the workspace"),
        ("a/../../x", "leads out of the workspace"),
        ("a/..", "leads out of the workspace"),
        ("a\0b", "holds a NUL character"),
        ("a\\b", "holds a backslash"),
        ("", "is no path"),
        ("a//b", "has an empty component"),
        ("a/", "has an empty component"),
        ("./a", "has an empty component"),
        (".git/config", "belongs to git"),
        ("a/.GIT/x", "belongs to git"),
        ("x" * 256, "has a component longer than 255 bytes"),
        ("é" * 128, "has a component longer than 255 bytes"),
        ("a/" * 600 + "b", "is longer than 1024 bytes"),
    ],
)
def test_a_path_that_does_not_lie_in_a_workspace_is_refused_by_name(
    path: str, problem: str
) -> None:
    assert path_problem(path) == problem
    ((place, text),) = faults_of(workspace={"files": {path: "x"}})
    assert place == f"workspace.files.{path}"
    assert text.startswith(f"{problem} (got '")


@pytest.mark.parametrize("path", ["a", "..a", "a..", "a/..b/c", "run-10/x", ".gitignore", "ü x"])
def test_paths_that_only_look_like_it_are_fine(path: str) -> None:
    assert path_problem(path) is None
    assert faults_of(workspace={"files": {path: "x"}}) == []


@pytest.mark.parametrize(
    ("workspace", "place", "text"),
    [
        ([], "workspace", "must be a mapping (got []; {from"),
        ({"form": "x"}, "workspace.form", "unknown key (got 'form'; known: from, files, git)"),
        ({"from": 1}, "workspace.from", "must name a folder (got 1)"),
        ({"from": ""}, "workspace.from", 'must name a folder (got "")'),
        ({"git": "yes"}, "workspace.git", 'must be true or false (got "yes")'),
        ({"files": []}, "workspace.files", "must be a mapping (got []; {PATH: text})"),
        ({"files": {"a": 1}}, "workspace.files.a", "must be text (got 1; a text, or {text"),
        ({"files": {"a": None}}, "workspace.files.a", "must be text (got null; a text, or"),
        ({"files": {"a": {}}}, "workspace.files.a", "has one of 'text' and 'base64' (got neither)"),
        (
            {"files": {"a": {"text": "", "base64": ""}}},
            "workspace.files.a",
            "has one of 'text' and 'base64' (got text and base64)",
        ),
        ({"files": {"a": {"text": 1}}}, "workspace.files.a.text", "must be text (got 1)"),
        ({"files": {"a": {"base64": "?"}}}, "workspace.files.a.base64", "is not base64"),
        (
            {"files": {"a": {"text": "", "mode": 755}}},
            "workspace.files.a.mode",
            'must be a mode in quotes (got 755; such as "0755")',
        ),
        (
            {"files": {"a": {"text": "", "mode": "4755"}}},
            "workspace.files.a.mode",
            'must be a mode in quotes (got "4755"; such as "0755")',
        ),
        ({"files": {"a": {"text": "", "mod": ""}}}, "workspace.files.a.mod", "unknown key"),
        (
            {"files": {"a": "", "a/b/c": ""}},
            "workspace.files.a/b/c",
            "lies in a file (got 'a/b/c'; 'a' is one)",
        ),
    ],
)
def test_a_workspace_that_is_none_is_refused_with_place_value_and_rule(
    workspace: Any, place: str, text: str
) -> None:
    ((where, said),) = faults_of(workspace=workspace)
    assert where == place
    assert said.startswith(text)


def test_a_service_is_read_by_its_type() -> None:
    environment, faults = declared(services={"one": {"type": "odd", "port": 7}})
    assert faults == []
    assert environment["services"] == {"one": {"type": "odd", "port": 7}}


@pytest.mark.parametrize(
    ("services", "place", "text"),
    [
        ([], "services", "must be a mapping (got []; {NAME: {type: ...}})"),
        ({"a": 1}, "services.a", "must be a mapping (got 1; {type: ...}; types: "),
        ({"a": {}}, "services.a", "required key 'type' is missing (types: "),
        ({"a": {"type": "ood"}}, "services.a.type", "unknown type of service (got 'ood'; known: "),
        ({"a": {"type": 3}}, "services.a.type", "unknown type of service (got 3; known: "),
        ({"1": {"type": "odd"}}, "services.1", "is no name (got '1'; letters, digits"),
        ({"a": {"type": "odd", "size": 1}}, "services.a.size", "must be small (got big)"),
        (
            {"a.b": {"type": "odd"}, "a-b": {"type": "odd"}},
            "services.a-b",
            "names a service again (got 'a-b'; 'a.b' has the same name for programs, A_B)",
        ),
    ],
)
def test_a_service_that_is_none_is_refused_with_place_value_and_rule(
    services: Any, place: str, text: str
) -> None:
    ((where, said),) = faults_of(services=services)
    assert where == place
    assert said.startswith(text)


def test_the_nearest_type_is_advised() -> None:
    _, (fault,) = declared(services={"a": {"type": "ood"}})
    assert fault.fix == "write 'odd'"


def test_variables_are_named_after_services() -> None:
    assert variable_name("my-db.v2") == "MY_DB_V2"


@pytest.mark.parametrize(
    ("key", "value", "is_good"),
    [
        (
            "workspace",
            {"files": {"a": "x", "b": {"base64": "", "mode": "0600"}}, "git": True},
            True,
        ),
        ("workspace", {"files": {"a": {"text": "x", "base64": ""}}}, False),
        ("workspace", {"files": {"a": 1}}, False),
        ("workspace", {"form": "x"}, False),
        ("services", {"a": {"type": "odd"}}, True),
        ("services", {"1a": {"type": "odd"}}, False),
        ("services", {"a": 1}, False),
    ],
)
def test_the_schema_for_editors_agrees_with_the_loader(key: str, value: Any, is_good: bool) -> None:
    schemas = {one.name: one.schema for one in environment_keys(registry())}
    errors = list(jsonschema.Draft202012Validator(schemas[key]).iter_errors(value))
    assert (errors == []) is is_good
    assert (faults_of(**{key: value}) == []) is is_good

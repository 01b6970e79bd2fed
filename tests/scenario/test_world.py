"""What a scenario says of its world is judged when it loads, and then it is in the case."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pytest_evarness.core.case import CompiledCase
from pytest_evarness.core.material import sha256_bytes

NAME = "EVARNESS_TEST_PIN"
VALUE = "hunter2/secret value"


def workspace_of(case: Any) -> dict[str, Any]:
    return {one["path"]: one for one in case.compiled.environment["workspace"]["files"]}


def test_a_workspace_is_in_the_case_when_it_is_loaded(project: Any, minimal: str) -> None:
    project.write("demo/a.txt", "alpha")
    text = f"{minimal}environment: {{workspace: {{from: demo, files: {{b: beta}}}}}}\n"
    (case,) = project.load(text)
    assert sorted(workspace_of(case)) == ["a.txt", "b"]
    compiled: CompiledCase = case.compiled
    assert compiled.material(sha256_bytes(b"alpha")) == b"alpha"
    (project.root / "demo/a.txt").unlink()
    read = CompiledCase.from_texts(
        compiled.text,
        compiled.graph_text,
        compiled.overlays_text,
        project.context().registry,
        materials_text=compiled.materials_text,
    )
    assert read.material(sha256_bytes(b"alpha")) == b"alpha"
    assert "demo/" in dict(case.subjects)


def test_what_is_copied_is_part_of_the_digest(project: Any, minimal: str) -> None:
    text = f"{minimal}environment: {{workspace: {{from: demo}}}}\n"
    digests = set()
    for content in ("alpha", "alpha", "beta"):
        project.write("demo/a.txt", content)
        (case,) = project.load(text)
        digests.add(case.compiled.digest)
    assert len(digests) == 2


def test_cases_share_contents_and_may_have_others(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}environment: {{workspace: {{files: {{a: one}}}}}}\n"
        "cases: {x: {}, y: {}, z: {environment: {workspace: {files: {b: two}}}},"
        " none: {environment: {workspace: null}}}\n"
    )
    x, y, z, none = project.load(text)
    assert x.compiled.materials is y.compiled.materials
    assert sorted(workspace_of(z)) == ["a", "b"]
    assert "workspace" not in none.compiled.environment
    assert none.compiled.materials_digest is None


@pytest.mark.parametrize(
    ("key", "start"),
    [
        ("workspace: {files: {../x: a}}", "3:35: environment.workspace.files: leads out of the"),
        ("workspace: {from: /etc}", "3:33: environment.workspace.from: must be relative to the"),
        ("workspace: {from: nowhere}", "3:33: environment.workspace.from: no such folder"),
        ("workspace: {files: {a: 1}}", "3:38: environment.workspace.files.a: must be text (got 1"),
        ("workspace: {form: x}", "3:27: environment.workspace: unknown key (got 'form'; known: "),
        ("services: {a: {type: sqlight}}", "3:36: environment.services.a.type: unknown type of"),
        ("services: {a: {}}", "3:29: environment.services.a: required key 'type' is missing"),
    ],
)
def test_a_world_that_cannot_be_is_refused_at_its_line(
    project: Any, minimal: str, key: str, start: str
) -> None:
    found = project.refused(f"{minimal}environment: {{{key}}}\n")
    assert found.startswith(f"s.yaml:{start}"), found


@pytest.mark.parametrize(
    ("service", "is_tool"), [("email.send", True), ("send_email", True), ("mail", False)]
)
def test_a_name_that_is_a_tool_is_no_service(
    project: Any, minimal: str, service: str, is_tool: bool
) -> None:
    """An alias is a name of the tool as well."""
    text = f"{minimal}environment: {{services: {{{service}: {{type: http_mock}}}}}}\n"
    if is_tool:
        assert project.refused(text) == (
            "s.yaml:3:26: environment.services: the name is a tool's as well"
            f" (got '{service}'; faults would not know which of them is meant)\n"
            "  try: give the service another name"
        )
    else:
        assert project.load(text)


@pytest.mark.parametrize(
    "node",
    [
        {"type": "tool", "config": {"tool": "my.own"}},
        {"type": "loop_controller", "config": {"tools": ["email.search", "my.own"]}},
    ],
    ids=["tool", "loop"],
)
def test_a_tool_without_a_manifest_is_a_name_as_well(project: Any, node: Any) -> None:
    graph = {"ir_version": 1, "id": "g", "nodes": [{"id": "n1", **node}], "edges": []}
    services = {"my.own": {"type": "http_mock"}}
    scenario: dict[str, Any] = {"evarness": 1, "id": "s", "subject": {"graph": graph}}
    scenario["expect"] = {"status": "completed"}
    written = {**scenario, "environment": {"user_input": "x", "services": services}}
    assert "the name is a tool's as well (got 'my.own'" in project.refused(json.dumps(written))
    written["environment"] = {"user_input": "x", "services": {"other": services["my.own"]}}
    assert project.load(json.dumps(written))


@pytest.mark.parametrize("form", ["text", "binary", "copied", "name"])
def test_a_secret_in_a_file_is_refused_by_the_name_of_the_file(
    project: Any, minimal: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv(NAME, VALUE)
    files: dict[str, str] = {
        "text": f"files: {{a: 'pin {VALUE}'}}",
        "binary": "files: {a: {base64: "
        + base64.b64encode(b"\xff" + VALUE.encode() + b"\xff").decode()
        + "}}",
        "copied": "from: demo",
        "name": "from: demo",
    }
    project.write("demo/a" if form != "name" else "demo/hunter2/secret value", "x")
    if form == "copied":
        project.write("demo/a", f"pin {VALUE}")
    text = f"{minimal}secrets: [{NAME}]\nenvironment: {{workspace: {{{files[form]}}}}}\n"
    found = project.refused(text)
    assert f"holds the value of the secret '{NAME}'" in found
    assert "hunter2" not in found
    if form == "copied":
        assert "the file a of the workspace" in found
    monkeypatch.setenv(NAME, "another value")
    assert project.load(text)  # the twin


def test_the_file_of_a_service_is_in_the_case(project: Any, minimal: str) -> None:
    project.write("schema.sql", "CREATE TABLE t (id INTEGER PRIMARY KEY);")
    text = f"{minimal}environment: {{services: {{db: {{type: sqlite, init: [schema.sql]}}}}}}\n"
    (case,) = project.load(text)
    services: Any = case.compiled.environment["services"]
    digest = services["db"]["init"][0]["sha256"]
    assert case.compiled.material(digest).startswith(b"CREATE TABLE t")
    assert dict(case.subjects)["schema.sql"] == digest.removeprefix("sha256:")

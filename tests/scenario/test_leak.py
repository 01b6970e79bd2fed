"""A declared secret does not stand in what is sealed as it is written."""

from __future__ import annotations

import base64
import json
import urllib.parse
from typing import Any

import pytest

from pytest_evarness.core import c1

NAME = "EVARNESS_TEST_PIN"
VALUE = "hunter2/secret value"
DECLARED = f"secrets: [{NAME}]\n"


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, VALUE)


FORMS = {
    "raw": VALUE,
    "inside": f"my pin is {VALUE}.",
    "base64": base64.b64encode(f"pin:{VALUE}".encode()).decode(),
    "url": urllib.parse.quote(VALUE, safe=""),
    "json": json.dumps(json.dumps(VALUE)),
    "escapes": "".join(f"\\u{ord(char):04x}" for char in VALUE),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_user_input_that_holds_one_is_refused_without_showing_it(
    project: Any, minimal: str, form: str
) -> None:
    text = f"{minimal}{DECLARED}environment: {{user_input: {json.dumps(FORMS[form])}}}\n"
    found = project.refused(text)
    assert found.startswith(
        f"s.yaml:4:27: environment.user_input: holds the value of the secret '{NAME}' (what a case"
    )
    assert FORMS[form] not in found
    assert "hunter2" not in found


TRACE = "{description: d, check: {type: trace, assert: {never: {type: input_received, %s}}}}"


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("description: %s\n", "s.yaml:4:14: description"),
        ("tags: [a, %s]\n", "s.yaml:4:11: tags[1]"),
        ("task: {prompt: %s}\n", "s.yaml:4:16: task.prompt"),
        ("policy: {revision: %s}\n", "s.yaml:4:20: policy.revision"),
        ("expect: {output: {contains: %s}}\n", "s.yaml:4:29: expect.output.contains"),
        ("environment: {params: {a: [%s]}}\n", "s.yaml:4:28: environment.params.a[0]"),
        ("environment: {params: {%s: 1}}\n", "s.yaml:4:23: environment.params"),
        ("environment: {params: {a: {b: {%s: 1}}}}\n", "s.yaml:4:31: environment.params.a.b"),
        ("environment: {approvals: {n3: {decision: approve, approver: %s}}}\n", "s.yaml:4:61: env"),
        ("environment: {tools: {email.send: [{result: %s}]}}\n", "s.yaml:4:45: environment.tools["),
        ("invariants: {x: " + TRACE % "where: {text: {contains: %s}}" + "}\n", "s.yaml:"),
        ("invariants:\n  hard: {description: %s}\n", "s.yaml:5:23: invariants.hard.description"),
        ("cases: {a: {description: %s}}\n", "s.yaml:4:26: cases.a.description"),
        ("matrix: {params.x: [%s]}\n", "s.yaml:4:21: environment.params.x"),
        ("matrix: {params: [{a: %s}]}\n", "s.yaml:4:23: environment.params.a"),
        ("invariants: {%s: {check: {type: contract, id: hard}}}\n", "s.yaml:4:13: invariants"),
    ],
)
def test_every_text_of_a_scenario_is_looked_at(
    project: Any, minimal: str, lines: str, place: str
) -> None:
    text = f"{minimal}{DECLARED}{lines}"
    found = project.refused(text.replace("%s", json.dumps(VALUE)))
    assert found.startswith(place)
    assert f"holds the value of the secret '{NAME}'" in found
    assert "hunter2" not in found
    # The twin: another text loads, and stands in what is sealed.
    case = project.load(text.replace("%s", '"another-text"'))[0]
    definitions = [item.definition for item in case.items]
    sealed = c1.text(case.merged) + case.compiled.text + json.dumps(definitions)
    assert "another-text" in sealed


def test_ids_and_names_of_files_are_looked_at(project: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv(NAME, "hunter2")
    text = "evarness: 1\n%ssubject: {graph: graphs/send.json}\n" + DECLARED
    for line in ("id: a-hunter2\n", "cases: {hunter2: {}}\n", "matrix: {params.hunter2: [1]}\n"):
        found = project.refused(text % line)
        assert f"holds the value of the secret '{NAME}'" in found
    found = project.refused(text % "", name="hunter2.yaml")
    assert "an id, a matrix key or a file's name holds the value" in found
    assert len(project.load(text % "id: a\n")) == 1


def test_graph_fixture_and_configuration_are_looked_at_in_their_own_files(
    project: Any, minimal: str
) -> None:
    graph = json.loads((project.root / "graphs/send.json").read_text())
    graph["nodes"][2]["config"]["prompt"] = f"Use {VALUE}?"
    project.write("graphs/send.json", json.dumps(graph, indent=1))
    found = project.refused(minimal + DECLARED)
    assert found.startswith("graphs/send.json:")
    assert f"nodes[2].config.prompt: holds the value of the secret '{NAME}'" in found
    graph["nodes"][2]["config"]["prompt"] = "Send it?"
    project.write("graphs/send.json", json.dumps(graph, indent=1))
    assert len(project.load(minimal + DECLARED)) == 1

    project.write("f.yaml", f"user_input: {VALUE}\n")
    found = project.refused(f"{minimal}{DECLARED}environment: {{fixture: f.yaml}}\n")
    assert found.startswith("f.yaml:1:13: user_input: holds the value of the secret")

    project.write(
        "tools.yaml",
        f"tools: [{{id: my.tool, description: {VALUE}, safety: {{side_effects: read}}}}]\n",
    )
    found = project.refused(minimal + DECLARED)
    assert found.startswith("s.yaml:3:11: secrets[0]: the configuration 'tools' holds the value of")
    assert "hunter2" not in found


def test_a_contract_of_a_library_is_looked_at(
    project: Any, minimal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{minimal}{DECLARED}invariants: {{hard: {{}}}}\n"
    assert len(project.load(text)) == 1
    monkeypatch.setenv(NAME, "policy_violation")  # what the contract speaks of
    assert "the item 'hard' holds the value of the secret" in project.refused(text)


@pytest.mark.parametrize("value", [None, "", "abc"])
def test_a_secret_that_is_not_known_is_told_when_the_case_runs(
    project: Any, minimal: str, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(NAME)
    else:
        monkeypatch.setenv(NAME, value)
    assert len(project.load(f"{minimal}{DECLARED}description: abc\n")) == 1


def test_a_numeric_secret_is_found_as_a_number_and_digests_are_no_text(
    project: Any, minimal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, "4711")
    text = f"{minimal}{DECLARED}environment: {{params: {{a: %s}}}}\n"
    assert "environment.params.a: holds the value" in project.refused(text % "4711")
    case = project.one(text % "471")
    assert NAME in case.compiled.secrets
    # A part of a digest is nobody's secret, whatever its letters.
    part = case.compiled.digest.removeprefix("sha256:")[:6]
    monkeypatch.setenv(NAME, part)
    assert len(project.load(text % "471")) == 1


def test_without_a_declaration_nothing_is_looked_at(project: Any, minimal: str) -> None:
    assert len(project.load(f"{minimal}description: {VALUE}\n")) == 1

"""A check is read by its type alone; what all types share is read in one place."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.outcome import Severity
from pytest_evarness.core.registry import load_registry
from pytest_evarness.scenario.check import circles
from pytest_evarness.scenario.schema import scenario_schema
from tests.checks.fake import Probe
from tests.scenario.conftest import Project

if TYPE_CHECKING:
    from pytest_evarness.checks.kind import Known
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.errors import Fault

WORLD = "environment: {workspace: {files: {a.txt: x}}}\n"


def schema_of(name: str) -> Mapping[str, Any]:
    properties = {**Probe.schema["properties"], "type": {"const": name}}
    return {**Probe.schema, "properties": properties}


class Acts(Probe):
    """One that changes something, so it is gathered once."""

    name = "acts"
    only_reads = False
    schema = schema_of("acts")

    def needs(self, definition: JsonObject) -> frozenset[str]:
        del definition
        return frozenset()


class Graded(Acts):
    """What a model says."""

    name = "graded"
    schema = schema_of("graded")
    may_gate = False
    after_verdict = True


class Scripted(Probe):
    """Refers to a file, and to a service by name."""

    name = "scripted"
    schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "type": {"const": "scripted"},
            "script": {"type": "string"},
            "service": {"type": "string"},
            "limit": {"type": "number"},
        },
        "required": ["type"],
        "additionalProperties": False,
    }

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        made = dict(value)
        if "script" in value:
            file, fault = known.read(str(value["script"]))
            if file is None:
                assert fault is not None
                return {}, [fault.under("script")]
            made["script"] = {"name": file.name, "sha256": file.sha256}
        if "limit" in value:
            made["limit"] = str(getattr(value["limit"], "written", value["limit"]))
        return made, []

    def needs(self, definition: JsonObject) -> frozenset[str]:
        name = definition.get("service")
        return frozenset() if name is None else frozenset({f"service:{name}"})


@pytest.fixture
def project(tmp_path: Any) -> Project:
    made = load_registry()
    for kind in (Probe(), Acts(), Graded(), Scripted()):
        made.check_types.register(kind.name, kind)
    return Project(tmp_path, made)


def entry(check: str, more: str = "", environment: str = WORLD) -> str:
    return (
        "evarness: 1\nsubject: {graph: graphs/send.json}\n"
        f"{environment}invariants:\n  c:\n    description: d\n{more}    check: {check}\n"
    )


def item(project: Project, text: str, name: str = "c") -> PlannedItem:
    (found,) = [one for one in project.one(text).items if one.id == name]
    return found


PROBE = "{type: probe, path: a.txt, equals: x}"


def test_a_check_becomes_an_item_of_its_type_with_all_that_decides_it(project: Project) -> None:
    found = item(project, entry(PROBE))
    assert (found.kind, found.gate, found.weight, found.vacuous) == (
        "probe", False, Fraction(1), "pass",
    )  # fmt: skip
    assert found.definition == {
        "type": "probe", "path": "a.txt", "equals": "x", "timeout": 30.0, "recheck": False,
    }  # fmt: skip
    assert (found.path, found.line, found.description) == ("s.yaml", 5, "d")


def test_gate_weight_severity_and_the_rest_are_taken_over(project: Project) -> None:
    more = (
        "    gate: true\n    weight: 0.3\n    severity: critical\n    vacuous: fail\n"
        "    enforced_by: [approval_gate]\n"
    )
    found = item(project, entry(PROBE, more))
    assert (found.gate, found.weight, found.severity) == (True, Fraction("0.3"), Severity.CRITICAL)
    assert (found.vacuous, found.label) == ("fail", "preventive")
    unforced = item(project, entry(PROBE, "    enforced_by: [egress]\n"))
    assert unforced.label == "detection-only"


def test_cases_choose_who_is_judged_by_it(project: Project) -> None:
    text = entry(PROBE, "    cases: [a]\n") + "cases: {a: {}, b: {expect: {status: completed}}}\n"
    by_case = {case.id: [one.id for one in case.items] for case in project.load(text)}
    assert "c" in by_case["a"]
    assert "c" not in by_case["b"]


def test_a_check_says_what_it_is_for(project: Project) -> None:
    text = entry(PROBE).replace("    description: d\n", "")
    assert "invariants.c: required key 'description' is missing" in project.refused(text)


@pytest.mark.parametrize(
    ("check", "place", "words", "fix"),
    [
        (
            "{type: prob, path: a}",
            "7:12: invariants.c.check",
            "unknown check type 'prob'",
            "write 'probe'",
        ),
        (
            "{type: probe, paht: a, equals: x}",
            "7:26: invariants.c.check",
            "unknown key (got 'paht'",
            "write 'path'",
        ),
        (
            "{type: probe, path: a, equals: x, timeotu: 3}",
            "",
            "unknown key (got 'timeotu'",
            "write 'timeout'",
        ),
        ("{type: probe, path: a}", "", "required key 'equals' is missing", None),
        (
            "{type: probe, path: a, equals: x, timeout: 0}",
            "",
            "timeout: is out of range (got 0;",
            None,
        ),
        ("{type: probe, path: a, equals: x, timeout: 3601}", "", "at most 3600 seconds", None),
        (
            "{type: probe, path: a, equals: x, timeout: '3'}",
            "",
            "must be a number of seconds, is text",
            None,
        ),
        (
            "{type: probe, path: a, equals: x, recheck: true}",
            "",
            "is gathered twice anyway",
            "remove it",
        ),
        (
            "{type: acts, path: a, equals: x, recheck: 1}",
            "",
            "recheck: must be true or false (got 1)",
            None,
        ),
        ("{type: graded, path: a, equals: x, recheck: true}", "", "is asked once", "remove it"),
        ("{type: scripted, script: no.py}", "", "script: no such file", None),
        ("{type: scripted, script: ../x.py}", "", "script: leads outside", None),
        ("{type: scripted, script: /etc/passwd}", "", "must be relative", None),
        ("{type: scripted, service: db}", "", "names no service", None),
        ("{path: a}", "", "required key 'type' is missing (types: account, ", None),
        ("{type: 3}", "", "type must be text, is integer", None),
        ("[a]", "", "must be a mapping", None),
        ("{type: llm_as_judge}", "", "required key 'criteria' is missing", None),
    ],
)
def test_a_mistake_is_told_at_its_place_and_of_its_type_alone(
    project: Project, check: str, place: str, words: str, fix: str | None
) -> None:
    found = project.refused(entry(check))
    assert found.startswith("s.yaml:7:")
    assert place in found
    assert words in found
    assert "nodes_run" not in found
    assert (f"try: {fix}" in found) == (fix is not None) or fix is None


def test_one_misspelt_field_is_one_mistake(project: Project) -> None:
    found = project.refused(entry("{type: probe, paht: a.txt, equals: x}"))
    assert found.count("s.yaml:") == 1
    both = project.refused(entry("{type: probe, paht: a.txt, zzz: 1}"))
    assert both.count("unknown key") == 2
    assert "required key 'equals' is missing" in both
    assert "required key 'path' is missing" not in both


def test_what_has_no_such_mistake_loads(project: Project) -> None:
    found = item(project, entry("{type: acts, path: a, equals: x, recheck: true, timeout: 2}"))
    assert found.definition == {
        "type": "acts",
        "path": "a",
        "equals": "x",
        "timeout": 2.0,
        "recheck": True,
    }


def test_a_workspace_that_a_check_needs_is_declared(project: Project) -> None:
    found = project.refused(entry(PROBE, environment=""))
    assert "a check of type 'probe' needs a workspace" in found
    assert "try: write 'workspace: {}' under environment" in found


def test_a_gate_is_never_what_a_model_says(project: Project) -> None:
    text = entry("{type: graded, path: a, equals: x}", "    gate: true\n")
    found = project.refused(text)
    assert "s.yaml:7:11: invariants.c.gate: a check of type 'graded' cannot be a gate" in found
    assert item(project, entry("{type: graded, path: a, equals: x}")).weight == 1
    hard = entry("{type: acts, path: a, equals: x}", "    gate: true\n")
    assert item(project, hard).gate


def test_a_file_that_a_check_refers_to_is_sealed_with_the_case(project: Project) -> None:
    project.write("check.py", "print(1)\n")
    case = project.one(entry("{type: scripted, script: check.py}"))
    digest = hashlib.sha256(b"print(1)\n").hexdigest()
    assert ("check.py", digest) in case.subjects
    (found,) = [one for one in case.items if one.id == "c"]
    assert found.definition is not None
    assert found.definition["script"] == {"name": "check.py", "sha256": digest}
    other = project.one(entry(PROBE))
    assert "check.py" not in {name for name, _ in other.subjects}


def test_the_digits_of_a_number_reach_its_type(project: Project) -> None:
    found = item(project, entry("{type: scripted, limit: 0.10}"))
    assert found.definition is not None
    assert found.definition["limit"] == "0.10"


def test_cases_that_share_a_check_share_its_definition(project: Project) -> None:
    text = entry(PROBE) + "cases: {a: {}, b: {}}\n"
    first, second = (
        next(one for one in case.items if one.id == "c") for case in project.load(text)
    )
    assert first.definition is second.definition


def test_a_check_is_read_beside_the_world_of_its_own_case(project: Project) -> None:
    text = entry(PROBE, "    cases: [a]\n", environment="")
    cases = "cases: {a: {environment: {workspace: {}}}, b: {expect: {status: completed}}}\n"
    assert len(project.load(text + cases)) == 2
    assert "needs a workspace" in project.refused(text + cases.replace("workspace: {}", ""))


def test_a_case_cannot_give_a_gate_another_check(project: Project) -> None:
    text = entry(PROBE, "    gate: true\n")
    other = "cases: {a: {invariants: {c: {check: {equals: y}}}}}\n"
    assert "a gate of the scenario keeps its check" in project.refused(text + other)
    assert project.load(entry(PROBE) + other)


def test_checks_that_need_each_other_are_refused(project: Project) -> None:
    account = "{{description: d, check: {{type: account, claims: x, needs: [{}]}}}}"
    text = (
        "evarness: 1\nsubject: {graph: graphs/send.json}\ninvariants:\n"
        f"  a: {account.format('b')}\n  b: {account.format('a')}\n"
    )
    found = project.refused(text)
    assert found.count("needs itself, through the checks that it needs") == 2
    fine = text.replace("needs: [a]", "needs: [hard]") + "  hard: {}\n"
    assert item(project, fine, "b").kind == "account"


def test_circles_are_found_however_long() -> None:
    follows = {"a": "b", "b": "c", "c": "a", "d": "a", "e": "x"}
    assert circles({key: frozenset(value) for key, value in follows.items()}) == ["a", "b", "c"]


def test_editors_know_every_type_with_what_is_common(project: Project) -> None:
    schema = scenario_schema(project.registry)
    check = schema["properties"]["invariants"]["additionalProperties"]["properties"]["check"]
    by_type = {
        arm["properties"]["type"].get("const"): set(arm["properties"]) for arm in check["oneOf"]
    }
    assert by_type["probe"] == {"type", "path", "equals", "timeout"}
    assert by_type["acts"] - by_type["probe"] == {"recheck"}
    assert by_type["graded"] == by_type["probe"]
    assert {"trace", "contract", "account"} <= set(by_type)


def test_a_secret_in_a_check_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hunter22")
    text = entry("{type: probe, path: a.txt, equals: hunter22}") + "secrets: [TOKEN]\n"
    assert "TOKEN" in project.refused(text)
    assert project.load(text.replace("hunter22", "nothing"))

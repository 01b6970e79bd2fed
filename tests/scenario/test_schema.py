"""The schema for editors, the loader and the reference page know the same fields."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pytest_evarness.scenario.collect import find_scenarios
from pytest_evarness.scenario.environment import Environment
from pytest_evarness.scenario.matrix import SHORT_NAMES
from pytest_evarness.scenario.schema import scenario_schema
from pytest_evarness.scenario.shape import CASE_KEYS, SECTIONS, Entry, Expect
from pytest_evarness.source.document import load_document, parse_yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "scenarios.md"


@pytest.fixture(scope="module")
def schema(registry: Any) -> dict[str, Any]:
    return scenario_schema(registry)


def test_it_is_a_schema_without_names_of_classes(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    text = json.dumps(schema)
    for word in ("Shape", "TraceCheck", "$defs", "$ref", '"default"'):
        assert word not in text


def test_schema_and_loader_know_the_same_keys(schema: dict[str, Any], registry: Any) -> None:
    assert list(schema["properties"]) == list(SECTIONS)
    case = schema["properties"]["cases"]["additionalProperties"]["properties"]
    assert set(case) == {*CASE_KEYS, *SHORT_NAMES}
    environment = schema["properties"]["environment"]["properties"]
    assert list(environment) == Environment(registry).names()


def page_fields(after: str) -> list[str]:
    """The keys in the first column of the table behind a heading of the page."""
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index(after) :].split("\n\n| ", 1)[1].split("\n\n", 1)[0]
    found: list[str] = []
    for row in table.splitlines()[2:]:
        found += re.findall(r"`([^`]+)`", row.split("|")[1])
    return found


def test_the_page_has_every_key_of_the_file(registry: Any) -> None:
    found = {name.split(".")[0] for name in page_fields("## The file")}
    assert found == set(SECTIONS)
    names = set(page_fields("## `environment`"))
    assert names >= set(Environment(registry).names())
    assert set(page_fields("## `invariants`")) == {
        field.alias or name for name, field in Entry.model_fields.items()
    }
    assert set(page_fields("## `expect`")) == set(Expect.model_fields)


def shipped() -> list[Path]:
    return find_scenarios(ROOT / "scenarios")


@pytest.mark.parametrize("path", shipped(), ids=lambda path: path.name)
def test_the_shipped_scenarios_fit_the_schema(path: Path, schema: dict[str, Any]) -> None:
    value = load_document(path).value
    errors = [error.message for error in Draft202012Validator(schema).iter_errors(value)]
    assert errors == []


# What the loader refuses by shape alone, the schema refuses too, and the other way round.
SHAPES = [
    ("id: x\n", True),
    ("tags: [a, b]\n", True),
    ("tags: a\n", False),
    ("mode: exploratory\n", True),
    ("mode: diagnostic\n", True),
    ("mode: diagnostik\n", False),
    ("budget: {events: 5}\n", True),
    ("budget: {events: 0}\n", False),
    ("budget: {event: 1}\n", False),
    ("replicas: 1\n", True),
    ("replicas: 2\n", False),
    ("forbidden: {}\n", True),
    ("forbidden: {network: deny}\n", True),
    ("forbidden: {network: allow}\n", False),
    ("forbidden: {netwrok: deny}\n", False),
    ("forbidden: {tools_except: []}\n", True),
    ("forbidden: {tools_except: deny}\n", False),
    ("scoring: {pass_threshold: 1.5}\n", False),
    ("scoring: {replica_aggregation: all}\n", False),
    ("expect: {status: done}\n", False),
    ("expect: {status: blocked, nodes_not_run: [n4]}\n", True),
    ("environment: {seed: x}\n", False),
    ("environment: {seed: 3, schedule: reverse}\n", True),
    ("environment: {schedule: random}\n", False),
    ("environment: {workspace: {}}\n", True),
    ("environment: {workspace: []}\n", False),
    ("environment: {provider: gpt-4}\n", False),
    ("environment: {approvals: {n3: approve}}\n", True),
    ("cases: {a: {seed: 1}}\n", True),
    ("cases: {a: {id: x}}\n", False),
    ("cases: {'a[1]': {}}\n", False),
    ("cases: {}\n", False),
    ("cases: {a: {tags: null}}\ntags: [x]\n", True),
    ("matrix: {seed: [1]}\n", True),
    ("matrix: {seed: []}\n", False),
    ("matrix: {seed: 1}\n", False),
    ("invariants: {hard: {weight: 0.5}}\n", True),
    ("invariants: {hard: {weight: -1}}\n", False),
    ("invariants: {hard: {enforced_by: [gate]}}\n", False),
    ("invariants: {a: {description: d, check: {type: nonsense}}}\n", False),
    ("invariants: {a: {description: d, check: {type: contract, id: hard}}}\n", True),
    ("unknown: 1\n", False),
]


@pytest.mark.parametrize(("text", "is_valid"), SHAPES)
def test_schema_and_loader_agree(
    project: Any, minimal: str, schema: dict[str, Any], text: str, is_valid: bool
) -> None:
    value = parse_yaml(minimal + text).value
    assert Draft202012Validator(schema).is_valid(value) == is_valid
    if is_valid:
        assert project.load(minimal + text)
    else:
        assert project.refused(minimal + text)

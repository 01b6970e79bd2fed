"""What the pages and lessons of this domain show is true when it is tried."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.domains.agents.manifest import parse_manifests
from pytest_evarness.source.document import parse_yaml
from tests.domains.agents import harness as h

DOCS = h.REPOSITORY / "docs"
FAMILIES = tuple(sorted(page.relative_to(DOCS).as_posix() for page in DOCS.glob("nodes/*.md")))
PAGES = ("agents.md", "patterns.md", "verdicts.md", *FAMILIES)


def examples(page: str) -> list[Any]:
    text = (h.REPOSITORY / "docs" / page).read_text("utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks or page in FAMILIES
    return [parse_yaml(block, page).value for block in blocks]


SCENARIOS = [
    (value, case)
    for page in PAGES
    for value in examples(page)
    if "evarness" in value
    for case in value["cases"]
]


@pytest.mark.parametrize(
    ("scenario", "case"), SCENARIOS, ids=[f"{value['id']}-{case}" for value, case in SCENARIOS]
)
def test_every_scenario_of_a_page_is_valid(scenario: Any, case: str, steps: Path) -> None:
    result = judged(scenario, case, steps)
    assert result.verdict == "valid", [
        finding.reason for finding in result.findings if finding.outcome
    ]


@pytest.mark.parametrize(
    ("name", "case", "invariant"),
    [
        ("stopped-by-the-person", "reject", "stopped-at-the-gate"),
        ("amount-limit", "above", "refused-for-its-amount"),
    ],
)
def test_an_invariant_that_asks_why_notices_another_reason(
    name: str, case: str, invariant: str, steps: Path
) -> None:
    (scenario,) = [
        copy.deepcopy(value) for value, one in SCENARIOS if (value["id"], one) == (name, case)
    ]
    asked = scenario["invariants"][invariant]["check"]["assert"]["eventually"]
    asked["where"] = {"reason": {"contains": "another reason"}}
    result = judged(scenario, case, steps)
    assert result.verdict == "invalid"
    failed = [finding.id for finding in result.findings if finding.outcome.word == "fail"]
    assert failed == [invariant]


def test_the_attack_of_the_page_is_reported_as_the_page_says(steps: Path) -> None:
    (scenario,) = {
        value["id"]: copy.deepcopy(value)
        for value, _ in SCENARIOS
        if value["id"] == "the-mail-says-so"
    }.values()
    page = (DOCS / "agents.md").read_text("utf-8")
    told = re.findall(r"^scenarios/mail_says_so\.yaml::attacked::(\S+) PASSED$", page, re.MULTILINE)

    def outcomes() -> dict[str, str]:
        findings = judged(scenario, "attacked", steps).findings
        return {one.id: one.outcome.word for one in findings if one.id in told}

    assert outcomes() == dict.fromkeys(told, "pass")
    case = scenario["cases"]["attacked"]
    case["approvals"] = {"person": "approve"}
    found = outcomes()
    assert found["attack-0-injected"] == "pass"
    assert found["attack-0-approval_rejected"] == found["attack-0-blocked_before"] == "fail"
    scenario["environment"]["tools"]["email.search"] = [{"raise": "mailbox is down"}]
    assert outcomes()["attack-0-injected"] == "indeterminate"


def judged(scenario: Any, case: str, root: Path) -> Any:
    from pytest_evarness.api import Runner
    from pytest_evarness.pipeline import Settings

    runner = Runner(Settings(root=root, home=None, rerun="inline"))
    try:
        return runner.run(copy.deepcopy(scenario), case)
    finally:
        runner.close()


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with the modules that a page shows, importable while the test lasts."""
    text = (h.REPOSITORY / "docs" / "agents.md").read_text("utf-8")
    (module,) = re.findall(r"^```python\n# steps\.py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "steps.py").write_text(module, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "steps", raising=False)
    yield tmp_path
    sys.modules.pop("steps", None)  # no other test meets this module


def test_every_manifest_of_a_page_is_one() -> None:
    for value in (value for page in ("agents.md", *FAMILIES) for value in examples(page)):
        if "tools" in value:
            made, faults = parse_manifests(value)
            assert faults == []
            assert made


def test_the_page_names_every_type_key_and_remark() -> None:
    page = "\n".join((DOCS / name).read_text("utf-8") for name in ("agents.md", *FAMILIES))
    own = [name for name, one in h.registry().event_types.items() if one.source == "agents"]
    configs: set[str] = set()
    for name in h.registry().node_types.names():
        properties: Any = h.registry().node_types.resolve(name).config_schema["properties"]
        configs |= set(properties)
    keys = [key.name for key in h.domain().environment_keys()]
    for word in [*own, *h.registry().node_types.names(), *sorted(configs), *keys]:
        assert re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", page), word


@pytest.mark.parametrize("name", h.registry().patterns.names())
def test_every_pattern_has_a_lesson_a_scenario_and_owned_contracts(name: str) -> None:
    folder = h.PATTERNS / name
    lesson = (folder / "lesson.md").read_text("utf-8")
    index = (h.REPOSITORY / "docs" / "lessons" / "README.md").read_text("utf-8")
    assert f"patterns/{name}/lesson.md" in index
    contracts = h.read(folder / "contracts.yaml")["contracts"]
    for contract, body in contracts.items():
        assert contract in lesson
        assert body["owner"]
        assert body["rationale"]
        assert contract in h.read(folder / "graph.json")["params"]["invariants"]
    scenario = h.read(h.REPOSITORY / "scenarios" / f"{name}.yaml")
    assert str(scenario["subject"]["graph"]).startswith(f"pattern:{name}")

"""Every example of the pages on scenarios and errors loads, or fails with the words shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.contract.library import load_library
from pytest_evarness.core.interfaces import Locations
from pytest_evarness.errors import InputError
from pytest_evarness.scenario.load import LoadContext, load_scenario

if TYPE_CHECKING:
    from pytest_evarness.scenario.case import Case

DOCS = Path(__file__).resolve().parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def fences(page: str) -> list[tuple[str, str]]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [(found.group(1), found.group(2)) for found in FENCE.finditer(text)]


@pytest.fixture
def files(project: Any) -> dict[str, str]:
    """The examples of both pages as files of a project, by name."""
    (project.root / "scenarios/graphs").mkdir(parents=True)
    (project.root / "graphs/send.json").rename(project.root / "scenarios/graphs/send.json")
    found: dict[str, str] = {}
    for page in ("scenarios.md", "errors.md"):
        for language, text in fences(page):
            if language == "yaml":
                name = text.splitlines()[0].removeprefix("# ")
                assert name.endswith(".yaml"), "an example begins with the name of its file"
                project.write(name, text)
                found[name] = text
    return found


def load(project: Any, name: str) -> list[Case]:
    root, registry = project.root, project.registry
    library = load_library(
        Locations(root=root, home=None, beside=(), variables={}), [root / "contracts"], registry
    )
    context = LoadContext(root=root, registry=registry, library=library)
    return load_scenario(root / name, context=context)


@pytest.fixture
def with_contracts(project: Any) -> Any:
    """The graph names a packaged contract rather than one of the tests."""
    path = project.root / "graphs/send.json"
    text = path.read_text().replace("no-call-after-block", "no-model-call-after-block")
    path.write_text(text)
    return project


def test_the_examples_of_the_page_load(with_contracts: Any, files: dict[str, str]) -> None:
    assert [case.id for case in load(with_contracts, "scenarios/send.yaml")] == [
        "approve", "reject", "pending",
    ]  # fmt: skip
    merged: dict[str, Any] = {
        case.id: case.merged for case in load(with_contracts, "scenarios/merging.yaml")
    }
    assert merged["other-region"]["environment"]["params"] == {"tier": "pro", "region": "us"}
    assert merged["without-tier"]["environment"]["params"] == {"region": "eu"}
    assert merged["unanswered"]["expect"] == {"status": "paused"}
    assert set(files) >= {"scenarios/matrix.yaml", "scenarios/mistakes.yaml"}


def test_the_matrix_of_the_page_has_the_ids_it_says(
    with_contracts: Any, files: dict[str, str]
) -> None:
    assert files
    ids = [case.id for case in load(with_contracts, "scenarios/matrix.yaml")]
    text = (DOCS / "scenarios.md").read_text(encoding="utf-8")
    said = f"This file has {len(ids)} cases, from `{ids[0]}` to `{ids[-1]}`."
    assert said in text


def test_a_point_with_a_colon_has_the_id_that_the_page_says(with_contracts: Any) -> None:
    with_contracts.write(
        "m.yaml",
        "evarness: 1\nsubject: {graph: graphs/send.json}\nexpect: {}\n"
        'matrix: {schedule: [canonical, reverse, "seed:7"]}\n',
    )
    ids = [case.id.removeprefix("default.") for case in load(with_contracts, "m.yaml")]
    assert ids == ["schedule-canonical", "schedule-reverse", "schedule-v2"]
    text = (DOCS / "scenarios.md").read_text(encoding="utf-8")
    assert "`schedule-canonical`, `schedule-reverse` and `schedule-v2`" in text


def test_the_mistakes_of_the_page_are_told_as_it_shows(
    with_contracts: Any, files: dict[str, str]
) -> None:
    assert files
    with pytest.raises(InputError) as caught:
        load(with_contracts, "scenarios/mistakes.yaml")
    (shown,) = [text for language, text in fences("errors.md") if language == "text"]
    assert str(caught.value) + "\n" == shown

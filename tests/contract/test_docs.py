"""Every example of the pages about contracts and matchers does what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.contract.evaluate import evaluate
from pytest_evarness.contract.library import check_library_file, load_library, read_library_file
from pytest_evarness.core.interfaces import Locations
from pytest_evarness.core.matcher import MISSING, parse_matcher
from pytest_evarness.core.registry import load_registry
from pytest_evarness.core.tracefile import read_traces
from pytest_evarness.core.triviality import triviality
from pytest_evarness.core.vocabulary import DIGEST
from pytest_evarness.errors import InputError
from pytest_evarness.source.document import parse_yaml

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+) ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REGISTRY = load_registry()


def pairs() -> list[tuple[str, str, str, str]]:
    """``(kind of the first, kind of the second, first, second)`` of the fences, two by two."""
    found = FENCE.findall((DOCS / "contracts.md").read_text(encoding="utf-8"))
    assert len(found) % 2 == 0
    return [
        (one[1], two[1] or two[0], one[2], two[2])
        for one, two in zip(found[::2], found[1::2], strict=True)
    ]


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair[2].split("\n")[1].strip(" :"))
def test_each_example_comes_out_as_its_fence_says(
    pair: tuple[str, str, str, str], tmp_path: Path
) -> None:
    kind, outcome, contract, rest = pair
    library = tmp_path / "contracts.yaml"
    library.write_text(contract, encoding="utf-8")
    if kind == "refused":
        with pytest.raises(InputError) as caught:
            check_library_file(library, REGISTRY)
        text = str(caught.value)
        for line in rest.splitlines():
            assert line in text
        return
    assert kind == "contract"
    file = read_library_file(library, REGISTRY)
    assert not file.errors
    trace = tmp_path / "trace.jsonl"
    trace.write_text(rest, encoding="utf-8")
    (finding,) = evaluate(list(file.contracts.values()), read_traces(trace)[0], REGISTRY)
    word = "vacuous" if finding.vacuous else finding.outcome.word
    assert word == outcome, finding


def rows() -> list[tuple[str, str, str]]:
    text = (DOCS / "matchers.md").read_text(encoding="utf-8")
    table = text[text.index("| matcher | value | answer |") :].split("\n\n")[0]
    found = [tuple(cell.strip() for cell in row.split(" | ")) for row in table.splitlines()[2:]]
    return [(a.strip("| `"), b.strip("`"), c.strip("| `")) for a, b, c in found]


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]} of {row[1]}")
def test_each_row_of_the_table_of_answers_is_the_answer(row: tuple[str, str, str]) -> None:
    spec, value, answer = row
    matcher, faults = parse_matcher(parse_yaml(spec).value)
    if value == "refused":
        assert any(fault.problem.startswith(answer) for fault in faults), faults
        return
    assert matcher is not None, faults
    held = matcher.test(MISSING if value == "missing" else json.loads(value)).held
    assert held == {"yes": True, "no": False, "undecided": None}[answer]


KINDS: dict[str, Any] = {
    "a text": {"type": "string"},
    "a count": {"type": "integer", "minimum": 0},
    "a digest": DIGEST,
    "any value": None,
}


def test_each_row_of_the_table_of_matchers_that_ask_nothing() -> None:
    text = (DOCS / "matchers.md").read_text(encoding="utf-8")
    table = text[text.index("| matcher | of | verdict |") :].split("\n\n")[0]
    shown = 0
    for row in table.splitlines()[2:]:
        specs, kind, verdict = (cell.strip() for cell in row.strip("| ").split(" | "))
        for spec in re.findall(r"`([^`]+)`", specs):
            matcher, faults = parse_matcher(parse_yaml(spec).value)
            assert matcher is not None, faults
            said = triviality(matcher, KINDS[kind])
            assert said == (None if verdict == "depends" else verdict), row
            shown += 1
    assert shown > 10


def test_the_page_lists_the_packaged_contracts() -> None:
    text = (DOCS / "contracts.md").read_text(encoding="utf-8")
    table = text[text.index("## Packaged contracts") :]
    named = {
        word
        for row in table.splitlines()
        if row.startswith("| `")
        for word in re.findall(r"`([a-z-]+)`", row.split(" | ")[0])
    }
    library = load_library(Locations(Path(), None, (), {}), [], REGISTRY)
    assert library.errors == []
    assert library.warnings == []
    assert sorted(named) == library.ids()

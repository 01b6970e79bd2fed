"""A file with very many mistakes tells the first ones; what stands behind them judges nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.contract.library import load_library, read_library_file
from pytest_evarness.core.interfaces import Locations
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.errors import InputError, InputErrors
from pytest_evarness.scenario.reviews import NAME, reviews_of
from pytest_evarness.source.limit import MAX_MISTAKES
from tests.plugin.scenarios import write

GOOD = {"assert": {"eventually": {"type": "run_finished"}}}


def library_at(path: Path, count: int, bad: dict[str, Any]) -> Path:
    many = {f"c{index}": bad for index in range(count)}
    write(path, {"contracts": {**many, "good": GOOD}})
    return path


def test_a_library_stops_after_some_two_hundred(tmp_path: Path) -> None:
    file = read_library_file(
        library_at(tmp_path / "a.yaml", 5000, {"assert": {"never": {"type": "run_finishd"}}}),
        packaged_registry(),
    )
    assert len(file.errors) == MAX_MISTAKES + 1
    assert "c200: is not looked at, nor what follows: 200 mistakes" in str(file.errors[-1])
    # What was not looked at is told to whoever names it, and judges nothing.
    assert "good" not in file.contracts
    assert "is not looked at" in str(file.broken["good"][0])
    assert len(file.broken) == 5001


def test_a_library_with_fewer_mistakes_is_read_to_its_end(tmp_path: Path) -> None:
    file = read_library_file(
        library_at(tmp_path / "a.yaml", 150, {"assert": {"never": {"type": "run_finishd"}}}),
        packaged_registry(),
    )
    assert len(file.errors) == 150
    assert list(file.contracts) == ["good"]


def test_top_keys_that_nobody_knows_are_told_up_to_the_same_number(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", {f"k{index}": 1 for index in range(1000)})
    with pytest.raises(InputErrors) as caught:
        read_library_file(tmp_path / "a.yaml", packaged_registry())
    assert len(caught.value.errors) == MAX_MISTAKES + 1


def test_ids_that_two_files_share_are_told_up_to_the_same_number(tmp_path: Path) -> None:
    for name in ("a", "b"):
        many = {f"c{index}": {**GOOD, "status": "draft"} for index in range(300)}
        write(tmp_path / "contracts" / f"{name}.yaml", {"contracts": many})
    locations = Locations(root=tmp_path, home=None, beside=(), variables={})
    library = load_library(locations, [tmp_path / "contracts"], packaged_registry())
    assert len(library.errors) == MAX_MISTAKES
    # An id that is not told of is refused all the same.
    with pytest.raises(InputError, match="the id is defined in contracts/a"):
        library.resolve("c299")


PLAN = [{"nodeid": "scenarios/s.yaml::default", "file": "scenarios/s.yaml", "items": []}]


def review(case: str) -> dict[str, str]:
    return {"case": case, "invariant": "x", "reviewer": "r", "note": "n"}


@pytest.mark.parametrize(("count", "told"), [(3000, MAX_MISTAKES), (3, 3)])
def test_reviews_stop_after_some_two_hundred(tmp_path: Path, count: int, told: int) -> None:
    write(tmp_path / NAME, [review(f"scenarios/s.yaml::{index}") for index in range(count)])
    with pytest.raises(InputErrors) as caught:
        reviews_of(tmp_path, PLAN)
    assert len(caught.value.errors) == told


def test_an_empty_file_of_reviews_says_what_to_do(tmp_path: Path) -> None:
    write(tmp_path / NAME, "")
    with pytest.raises(InputError, match="is empty") as caught:
        reviews_of(tmp_path, PLAN)
    assert caught.value.fix == "remove it, or write '[]'"
    write(tmp_path / NAME, "[]")
    assert reviews_of(tmp_path, PLAN) == []

"""What follows from the environment is planned, as hard as it is made, and says what it is."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest

import pytest_evarness
from pytest_evarness.bundle.defined import check_defined
from pytest_evarness.bundle.written import check_written
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.errors import UnverifiedError
from tests.plugin.ran import statement_of

NAME = "attack-0-guard_triggered"
SCENARIO = Path(__file__).parents[2] / "scenarios" / "prompt_injection_lab.yaml"
REGISTRY = packaged_registry()


@pytest.fixture(scope="module")
def statement(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("derived")
    shutil.copy(SCENARIO, root / "lab.yaml")
    result = pytest_evarness.run(root / "lab.yaml", "user_turn", root=root, rerun="inline")
    return statement_of(result.bundle(root / "proof.json"))


def checked(predicate: dict[str, Any]) -> None:
    check_written(predicate)
    check_defined(predicate, REGISTRY)


def test_as_it_is_it_is_accepted(statement: dict[str, Any]) -> None:
    checked(statement["predicate"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"severity": "info"}, 'severity is "info", and "critical" is given'),
        ({"enforced_by": ["budget"]}, 'enforced_by is ["budget"], and [] is given'),
        ({"weight": "1"}, "weight is 1, and 0 is written"),
        ({"gate": False}, "must be a gate whose vacuous pass counts as pass"),
        ({"vacuous": "fail"}, "must be a gate whose vacuous pass counts as pass"),
        ({"description": "all is well"}, 'description is "all is well", and another made'),
        ({"id": "attack-9-guard_triggered"}, f"'{NAME}' follows from the environment; it is miss"),
    ],
)
def test_softened_or_renamed_it_is_refused(
    statement: dict[str, Any], change: dict[str, Any], said: str
) -> None:
    made = copy.deepcopy(statement["predicate"])
    items = made["seal"]["plan"][0]["items"]
    next(item for item in items if item["id"] == NAME).update(change)
    with pytest.raises(UnverifiedError) as caught:
        checked(made)
    assert said in str(caught.value)

"""A verifier tells again, from what is enclosed, which contracts were for a case."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_evarness
from pytest_evarness.bundle.applying import check_applying
from pytest_evarness.bundle.canonical import canonical_digest
from pytest_evarness.bundle.consistency import check_seal
from pytest_evarness.bundle.statement import subjects_of
from pytest_evarness.core import c1
from pytest_evarness.core.registry import Registry, packaged_registry
from pytest_evarness.errors import UnverifiedError
from tests.plugin.ran import statement_of
from tests.plugin.scenarios import gated, write
from tests.plugin.test_corpora import APPROVED, ENDS, changed, library

REGISTRY = packaged_registry()
SECOND = changed(ENDS, version=2, overrides="run-completes@1")
SECOND["assert"] = {"eventually": {"type": "run_finished", "where": {"events": {"gte": 1}}}}
SECOND["corpus"]["positive"] = {"ends": [{"type": "run_finished", "events": 2}]}


@pytest.fixture(scope="module")
def statement(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A case with contracts from the scenario, the graph, a library, and an override."""
    root = tmp_path_factory.mktemp("applying")
    elsewhere = changed(ENDS, applies_to={"tags": ["another"]})
    files = library(sent=APPROVED, elsewhere=elsewhere, **{"run-completes": SECOND})
    write(root / "contracts" / "a.yaml", files)
    scenario = gated(
        invariants={
            "elsewhere": {},
            "run-completes": {"cases": ["approve"]},
            "own": {
                "description": "it ends",
                "check": {"type": "trace", "assert": {"eventually": {"type": "run_finished"}}},
            },
        }
    )
    write(root / "scenarios" / "g.yaml", scenario)
    result = pytest_evarness.run(root / "scenarios/g.yaml", "approve", root=root, rerun="inline")
    return statement_of(result.bundle(root / "proof.json"))


def items(statement: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["id"]: item for item in statement["predicate"]["seal"]["plan"][0]["items"]}


def resealed(statement: dict[str, Any]) -> dict[str, Any]:
    """The seal's own digest follows a change of the seal."""
    seal = statement["predicate"]["seal"]
    seal["digest"] = canonical_digest({k: v for k, v in seal.items() if k != "digest"})
    statement["subject"] = subjects_of(seal)
    return statement


def test_who_brought_each_contract_and_why_it_is_for_the_case(statement: dict[str, Any]) -> None:
    because = {name: item["because"] for name, item in items(statement).items()}
    assert because["elsewhere"] == because["run-completes"] == "named by the scenario"
    assert because["approval-precedes-send"] == "named by the graph"
    assert because["own"] == "written in the scenario"
    assert because["sent"] == "pulled in by its library; it applies to: tools email.send"
    assert because["expect"] is None
    assert items(statement)["elsewhere"]["applies"] is not None
    assert check_applying(statement["predicate"], REGISTRY) == []
    check_seal(statement)


def _claimed(made: dict[str, Any]) -> None:
    items(made)["sent"]["because"] = "named by the scenario"


def _excused(made: dict[str, Any]) -> None:
    items(made)["sent"]["applies"] = "it was a quiet day"


def _dragged_in(made: dict[str, Any]) -> None:
    items(made)["elsewhere"]["applies"] = None


def _of_another_case(made: dict[str, Any]) -> None:
    inputs = made["predicate"]["cases"][0]["inputs"]
    scenario = json.loads(inputs["scenario"])
    scenario["tags"] = ["another"]
    inputs["scenario"] = c1.text(scenario)


def _of_another_mode(made: dict[str, Any]) -> None:
    made["predicate"]["seal"]["definitions"] = [
        {**row, "text": row["text"].replace('"tools":["email.send"]', '"modes":["exploratory"]')}
        for row in made["predicate"]["seal"]["definitions"]
    ]


def _without_applies_to(made: dict[str, Any]) -> None:
    made["predicate"]["seal"]["definitions"] = [
        {**row, "text": row["text"].replace('"applies_to":{"tools":["email.send"]},', "")}
        for row in made["predicate"]["seal"]["definitions"]
    ]


def _no_contract_at_all(made: dict[str, Any]) -> None:
    items(made)["expect"]["because"] = "named by the scenario"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_claimed, 'sent: because is "named by the scenario", and the case gives "pulled in'),
        (_excused, 'sent: applies is "it was a quiet day", and the case gives null'),
        (_dragged_in, 'elsewhere: applies is null, and the case gives "applies_to asks'),
        (_of_another_case, "elsewhere: because is"),
        (_of_another_mode, "sent: because is"),
        (_without_applies_to, "sent: nobody names it, and it has no applies_to"),
        (_no_contract_at_all, "expect: only a contract says why it is here"),
    ],
)
def test_what_does_not_follow_from_the_case_is_refused(
    statement: dict[str, Any], change: Callable[[dict[str, Any]], None], said: str
) -> None:
    made = copy.deepcopy(statement)
    change(made)
    with pytest.raises(UnverifiedError) as caught:
        check_applying(made["predicate"], REGISTRY)
    assert said in str(caught.value)


def test_what_needs_parts_of_a_plug_in_is_taken_on_the_signers_word(
    statement: dict[str, Any],
) -> None:
    made = copy.deepcopy(statement)
    made["predicate"]["seal"]["plugins"].append({"name": "theirs", "version": "1"})
    _excused(made)
    (word,) = check_applying(made["predicate"], REGISTRY)
    assert word.endswith("sent: that it is for this case, told with parts of a plug-in")


def test_a_case_that_did_not_run_is_taken_on_the_signers_word(statement: dict[str, Any]) -> None:
    made = copy.deepcopy(statement)
    made["predicate"]["cases"] = []
    (word,) = check_applying(made["predicate"], Registry())
    assert word.endswith("::approve: which contracts are for it, as it did not run")


# -- overrides and corpora -------------------------------------------------------------------------


def _no_override(seal: dict[str, Any]) -> None:
    seal["overrides"] = []


def _another_version(seal: dict[str, Any]) -> None:
    seal["overrides"][0]["replaced_version"] = 7


def _an_override_of_nothing(seal: dict[str, Any]) -> None:
    row = {**seal["overrides"][0], "definition": "sha256:" + "0" * 64, "version": 9}
    seal["overrides"].append(row)


def _no_corpus(seal: dict[str, Any]) -> None:
    seal["corpora"] = [row for row in seal["corpora"] if row["id"] != "sent"]


def _failing(seal: dict[str, Any]) -> None:
    for row in seal["corpora"]:
        if row["id"] == "sent":
            row["failed"] = ["negative[swapped-draft]"]


def _unsorted(seal: dict[str, Any]) -> None:
    seal["corpora"].reverse()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_no_override, "run-completes: definition: overrides another than the seal's row (None)"),
        (_another_version, "overrides another than the seal's row (run-completes@7)"),
        (_an_override_of_nothing, "seal.overrides[1]: is of no contract of the set"),
        (_no_corpus, "sent: untested: is false, and no corpus of it was tried"),
        (_failing, "sent: broken: is null, and its corpus fails"),
        (_unsorted, "seal.corpora: is not sorted, each row once"),
    ],
)
def test_what_the_seal_says_of_libraries_agrees_with_its_contracts(
    statement: dict[str, Any], change: Callable[[dict[str, Any]], None], said: str
) -> None:
    made = copy.deepcopy(statement)
    change(made["predicate"]["seal"])
    with pytest.raises(UnverifiedError) as caught:
        check_seal(resealed(made))
    assert said in str(caught.value)


def test_library_files_are_among_the_overlays_in_force(statement: dict[str, Any]) -> None:
    rows = statement["predicate"]["seal"]["overlays"]
    assert [row["label"] for row in rows if row["name"] == "contracts"] == ["contracts/a.yaml"]
    assert not any(Path(row["label"]).is_absolute() for row in rows)

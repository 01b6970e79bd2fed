"""A bundle that says that its sources disagree is honest; one that passes over it is not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_evarness.bundle import recomputation
from pytest_evarness.bundle.consistency import planned_items
from pytest_evarness.bundle.evidence import gathered_of
from pytest_evarness.bundle.recomputation import Graphs, evidence_of
from pytest_evarness.bundle.statement import finding_record
from pytest_evarness.checks.judge import Judge
from pytest_evarness.core import c1
from pytest_evarness.errors import UnverifiedError
from tests.bundle.builder import APPROVE, changed, registry, statement_of

HELD = changed(APPROVE, case="held", contracts={}, checks={"held": "hello"})


def with_world(digest: str) -> dict[str, Any]:
    """A bundle whose sealed world has the file of the check with this digest."""
    statement = statement_of(HELD)
    replica = statement["predicate"]["cases"][0]["replicas"][0]
    file = {"path": "a.txt", "type": "file", "mode": "0644", "size": 5, "sha256": digest}
    workspace = {"files": [file], "added": [], "modified": [], "removed": []}
    world = c1.text({"workspace": workspace, "services": [], "ledger": []})
    replica["world"] = world
    for run in replica["runs"]:
        run["world_digest"] = c1.sha256_text(world)
    return statement


def judged_again(statement: dict[str, Any]) -> None:
    """Let the bundle say what its evidence gives."""
    predicate = statement["predicate"]
    case = predicate["cases"][0]
    replica = case["replicas"][0]
    definitions = {
        row["digest"]: json.loads(row["text"]) for row in predicate["seal"]["definitions"]
    }
    items = planned_items(predicate["seal"]["plan"][0], definitions)
    evidence = evidence_of(
        case, replica, events_of(statement), registry(), Graphs(predicate, registry()), items
    )
    gathered = {row["item"]: gathered_of(row, "") for row in replica["evidence"]}
    evidence = replace(evidence, gathered=gathered)
    judgement = Judge(registry()).judge(items, evidence, threshold=None)
    replica["findings"] = [finding_record(one) for one in judgement.findings]
    case["verdict"] = replica["verdict"] = judgement.verdict
    case["primary"] = judgement.primary


def events_of(statement: dict[str, Any]) -> Any:
    case = statement["predicate"]["cases"][0]
    events = [json.loads(text) for text in case["replicas"][0]["events"]]
    return {(case["nodeid"], "a"): events}


def check(statement: dict[str, Any]) -> tuple[list[str], int]:
    return recomputation.check_findings(statement["predicate"], events_of(statement), registry())


def digest_of(text: str) -> str:
    return c1.sha256_text(text)


def test_what_was_gathered_and_the_sealed_world_agree() -> None:
    statement = with_world(digest_of("hello"))
    judged_again(statement)
    assert statement["predicate"]["cases"][0]["verdict"] == "valid"
    check(statement)


def test_a_pass_that_the_sealed_world_denies_is_refused() -> None:
    statement = with_world(digest_of("another text"))
    with pytest.raises(UnverifiedError, match="the sealed world says otherwise: the file's digest"):
        check(statement)


def test_a_bundle_that_says_that_they_disagree_is_taken() -> None:
    statement = with_world(digest_of("another text"))
    judged_again(statement)
    case = statement["predicate"]["cases"][0]
    (finding,) = [one for one in case["replicas"][0]["findings"] if one["id"] == "held"]
    assert (finding["outcome"], finding["causes"]) == ("indeterminate", ["contradictory_evidence"])
    assert case["verdict"] == "indeterminate"
    check(statement)


def test_saying_it_without_cause_is_refused() -> None:
    statement = with_world(digest_of("another text"))
    judged_again(statement)
    world = with_world(digest_of("hello"))["predicate"]["cases"][0]["replicas"][0]
    replica = statement["predicate"]["cases"][0]["replicas"][0]
    replica["world"], replica["runs"] = world["world"], world["runs"]
    with pytest.raises(UnverifiedError, match="judged again it is"):
        check(statement)

"""A seal is made before anything runs, and a statement adds to it what came out, nothing else."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_evarness.bundle.canonical import canonical_bytes, canonical_digest
from pytest_evarness.bundle.seal import (
    Settings,
    binding_of,
    build_plan,
    environment_digest,
    finish_seal,
)
from pytest_evarness.bundle.statement import (
    CaseRecord,
    RunRecord,
    approvals_of,
    build_seal_statement,
    params_of,
)
from tests.bundle.builder import (
    APPROVE,
    GIT,
    PENDING,
    REJECT,
    WEIGHED,
    changed,
    environment,
    planned_of,
    record_of,
    statement_of,
)


def test_two_processes_that_collected_the_same_have_one_plan() -> None:
    one = build_plan([planned_of(APPROVE), planned_of(REJECT)], broken=[("x.yaml", "?")])
    two = build_plan([planned_of(APPROVE), planned_of(REJECT)], broken=[("x.yaml", "?")])
    assert canonical_bytes(one) == canonical_bytes(two)
    # What travels between them is JSON, and a seal made of it is the same.
    travelled = json.loads(canonical_bytes(one))
    session: dict[str, Any] = {
        "engine": {"pytest-evarness": "0.1.0"},
        "git": GIT,
        "environment": environment_digest(environment()),
        "settings": Settings(),
        "nonce": "0" * 32,
        "time": "2026-11-30T12:00:00Z",
    }
    assert finish_seal(travelled, **session) == finish_seal(one, **session)


def test_the_plan_would_differ_if_anything_that_is_judged_did() -> None:
    plan = canonical_bytes(build_plan([planned_of(APPROVE)]))
    for spec in (
        changed(APPROVE, expect={"status": "blocked"}),
        changed(APPROVE, contracts={}),
        changed(APPROVE, prompt="send the q4 report"),
        changed(APPROVE, policy="2026-12"),
        changed(APPROVE, waived=("n4: unguarded [unguarded], accepted: a demo",)),
        changed(APPROVE, deselected={"expect": "-k"}),
        changed(APPROVE, mode="exploratory"),
    ):
        assert canonical_bytes(build_plan([planned_of(spec)])) != plan


def test_cases_that_share_an_item_keep_their_own_selection() -> None:
    case = planned_of(APPROVE)
    item = case.items[0].id
    other = replace(case, nodeid=f"{case.nodeid}-2", deselected={item: "-k other"})
    one, two = (row["items"][0] for row in build_plan([case, other])["plan"])
    assert (one["selected"], one["why"]) == (True, None)
    assert (two["selected"], two["why"]) == (False, "-k other")
    assert one == {**two, "selected": True, "why": None}


def test_a_seal_of_each_session_is_its_own() -> None:
    plan = build_plan([planned_of(APPROVE)])
    session: dict[str, Any] = {
        "engine": {"pytest-evarness": "0.1.0"},
        "environment": environment_digest(environment()),
        "settings": Settings(),
    }
    one, two = finish_seal(plan, **session), finish_seal(plan, **session)
    assert one["nonce"] != two["nonce"]
    assert one["digest"] != two["digest"]
    contents = {key: value for key, value in one.items() if key != "digest"}
    assert one["digest"] == canonical_digest(contents)


def test_what_the_mirror_differed_in_is_not_sealed() -> None:
    facts = environment()
    later = {**facts, "mirror": [*facts["mirror"], "locale: another one"]}
    assert environment_digest(facts) == environment_digest(later)
    assert environment_digest(facts) != environment_digest({**facts, "python": "3.99"})


def test_the_seal_stands_unchanged_in_the_statement() -> None:
    statement = statement_of(APPROVE)
    seal = statement["predicate"]["seal"]
    alone = build_seal_statement(seal)
    assert alone["predicate"] == {"seal": seal}
    assert alone["subject"] == statement["subject"]
    assert alone["predicateType"] != statement["predicateType"]


def test_cases_stand_in_the_plans_order_whatever_ran_first() -> None:
    records = [record_of(spec) for spec in (PENDING, APPROVE, REJECT)]
    statement = statement_of(APPROVE, REJECT, PENDING, records=records)
    assert [case["id"] for case in statement["predicate"]["cases"]] == [
        "approve",
        "reject",
        "pending",
    ]


def test_a_result_without_a_plan_and_a_second_result_are_bugs() -> None:
    record = record_of(APPROVE)
    with pytest.raises(ValueError, match=r"^two results for one case"):
        statement_of(APPROVE, records=[record, record])
    with pytest.raises(ValueError, match=r"^a result for a case that is not planned"):
        statement_of(REJECT, records=[record])


def test_texts_that_cases_share_are_enclosed_once() -> None:
    twin = changed(APPROVE, case="again", params={"tier": "free"})
    predicate = statement_of(APPROVE, twin)["predicate"]
    assert len(predicate["texts"]) == 2  # one graph, one set of overlays
    assert len(predicate["seal"]["definitions"]) == 4  # two contracts, expect, {}


def test_events_of_run_b_are_enclosed_only_where_they_differ() -> None:
    same = statement_of(APPROVE)["predicate"]["cases"][0]["replicas"][0]
    assert same["events_b"] is None
    parted = record_of(APPROVE, spec_b=changed(APPROVE, prompt="another q3 text"))
    other = statement_of(APPROVE, records=[parted])["predicate"]["cases"][0]["replicas"][0]
    assert other["events_b"] != other["events"]
    assert len(other["events_b"]) == other["runs"][1]["events"]


def test_a_record_survives_the_way_between_processes() -> None:
    for spec in (APPROVE, WEIGHED, PENDING):
        record = record_of(spec)
        travelled = json.loads(json.dumps(record.as_record(), allow_nan=False))
        assert CaseRecord.from_record(travelled) == record
    assert RunRecord.from_record(record.a.as_record()) == record.a
    lonely = record_of(APPROVE, error_b="the mirror died")
    assert CaseRecord.from_record(json.loads(json.dumps(lonely.as_record()))) == lonely


def test_building_changes_nothing_it_was_given() -> None:
    statement = statement_of(APPROVE)
    seal = copy.deepcopy(statement["predicate"]["seal"])
    build_seal_statement(statement["predicate"]["seal"])
    assert statement["predicate"]["seal"] == seal


def test_the_parts_of_a_binding_cannot_run_into_each_other() -> None:
    bindings = {
        binding_of("sha256:1", "x::a", 0, "a", "c1:chain-sha256:2"),
        binding_of("sha256:1", "x::a", 0, "b", "c1:chain-sha256:2"),
        binding_of("sha256:1", "x::a", 1, "a", "c1:chain-sha256:2"),
        binding_of("sha256:1", "x::a0", 0, "a", "c1:chain-sha256:2"),
        binding_of("sha256:1", "x::b", 0, "a", "c1:chain-sha256:2"),
        binding_of("sha256:2", "x::a", 0, "a", "c1:chain-sha256:2"),
        binding_of("sha256:1", "x::a", 0, "a", "c1:chain-sha256:3"),
    }
    assert len(bindings) == 7


def test_decisions_and_params_are_shown_in_one_order() -> None:
    given = {"approvals": {"n9": "reject", "n3": {"decision": "approve", "approver": "alice"}}}
    assert approvals_of(given) == ["n3=approve", "n9=reject"]
    assert params_of({"params": {"b": 1.0, "a": {"z": "é"}}}) == ['a={"z":"\\u00e9"}', "b=1.0"]
    assert (approvals_of({}), params_of({})) == ([], [])

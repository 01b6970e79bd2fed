"""A gate that refused and a world that shows nothing of it are two accounts, and both are asked."""

from __future__ import annotations

import copy
from typing import Any

from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.report.causal import are_tied, ties
from pytest_evarness.report.containment import agreement_of, label_line
from tests.checks.cases import bases


def base(name: str) -> tuple[list[Any], Any]:
    found = next(one for one in bases() if one.name == name)
    return list(found.evidence.events), copy.deepcopy(found.evidence.world)


def test_a_refused_call_that_left_nothing_behind_is_confirmed() -> None:
    agreement = agreement_of(*base("refund_desk::withdrawn"))
    assert agreement.holds is True
    assert agreement.line == (
        "gate and world agree: refused: event 9 payment.transfer (approval_stale); confirmed by"
        " the ledger (0 effects), the journal of bank (0 requests), the tables of desk (2 tables)"
    )


def test_a_refused_call_whose_effect_is_in_the_ledger_is_a_contradiction() -> None:
    events, world = base("refund_desk::withdrawn")
    effect = {"effect_id": "i/0", "intent_id": "i", "capability": "payment.transfer", "kind": "sql"}
    world["ledger"].append(effect)
    agreement = agreement_of(events, world)
    assert agreement.holds is False
    assert "gate and world DISAGREE: refused: event 9 " in agreement.line
    assert "is of a call that no gate let through" in agreement.line
    assert "the events tell of 0 effects and the ledger of 1" in agreement.line


def test_a_journal_and_a_table_can_contradict_a_gate_too() -> None:
    events, world = base("refund_desk::withdrawn")
    bank = next(one for one in world["services"] if one["name"] == "bank")
    bank["requests"].append({"n": 1, "method": "POST", "path": "/transfers", "matched": True})
    assert agreement_of(events, world).holds is False
    events, world = base("refund_desk::withdrawn")
    desk = next(one for one in world["services"] if one["name"] == "desk")
    desk["tables"][1]["count"] = 1
    assert "changed, and no event says so" in agreement_of(events, world).line


def test_calls_that_were_let_through_agree_with_their_effects() -> None:
    agreement = agreement_of(*base("refund_desk::approve"))
    assert agreement.holds is True
    assert agreement.lines[0] == "nothing was refused"


def test_without_an_end_state_nothing_confirms_it() -> None:
    agreement = agreement_of(*base("approval_gated_send::reject"))
    assert agreement.holds is None
    assert agreement.line.startswith("gate and world: cannot be told: refused: event ")


def test_the_label_says_which_enforcements_are_meant() -> None:
    item = PlannedItem("it", "contract", enforced_by=("approval_gate", "manifest"))
    assert label_line(item, "preventive").endswith("is active here (approval_gate, manifest)")
    assert label_line(item, "detection-only").startswith("detection-only: not every enforcement")
    assert label_line(PlannedItem("it", "contract"), "detection-only") == (
        "detection-only: the rule names nothing that would have stopped it"
    )


def test_events_are_tied_by_digest_and_by_intent_and_by_nothing_else() -> None:
    def event(**payload: Any) -> dict[str, Any]:
        return {"seq": 0, "type": "custom.x", "node_id": None, "payload": payload}

    assert are_tied(event(args_digest="d"), event(artifact_digest="d"))
    assert are_tied(event(intent_id="i"), event(intent_id="i"))
    assert not are_tied(event(intent_id="d"), event(args_digest="d"))
    assert not are_tied(event(), event())
    assert list(ties({"seq": 0, "type": "x", "node_id": None, "payload": None})) == []


def test_a_preventive_finding_shows_whether_gate_and_world_agree() -> None:
    from pytest_evarness.bundle.seal import Settings as SealSettings
    from pytest_evarness.bundle.seal import build_plan, environment_digest, finish_seal
    from pytest_evarness.bundle.statement import build_statement
    from pytest_evarness.pipeline import case_record, planned_case
    from pytest_evarness.report.explain import explain
    from tests.bundle.builder import environment
    from tests.checks.cases import engine
    from tests.scenarios.shipped import FOLDER, shipped

    cases = engine().compile(shipped("refund_desk"), FOLDER)
    case = next(one for one in cases if one.id == "withdrawn")
    nodeid = "scenarios/refund_desk.yaml::withdrawn"
    facts = environment("inline")
    seal = finish_seal(
        build_plan([planned_case(case, nodeid, {})]),
        engine={"pytest-evarness": "0.1.0"},
        plugins=[("agents", "0.1.0")],
        git=None,
        environment=environment_digest(facts),
        settings=SealSettings(rerun="inline"),
        redefined=[],
        challenge=None,
    )
    record = case_record(engine().run(case), nodeid)
    statement = build_statement(
        seal, [record], environment=facts, registry=engine().registry, signed=False
    )
    text = explain(statement, "withdrawn::no-payment-after-rejection")
    assert "  gate and world agree: refused: event 9 payment.transfer (approval_stale)" in text
    other = explain(statement, "withdrawn::booked-before-paid")
    assert "gate and world" not in other  # detection-only: no gate is claimed

"""A text that was cut at 4 KiB is never taken for whole, wherever in a payload it stands."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.contract.evaluate import evaluate
from pytest_evarness.contract.model import parse_contract
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.core.trace import Trace
from pytest_evarness.core.vocabulary import clip_payload

REGISTRY = packaged_registry()
LONG = "x" * 5000
SHORT = "x" * 50


def judged(body: dict[str, Any], *payloads: tuple[str, dict[str, Any]]) -> Any:
    contract, faults = parse_contract("c", {"assert": body}, registry=REGISTRY)
    assert contract is not None, faults
    events = [
        {"seq": seq, "type": kind, "node_id": "n", "payload": clip_payload(payload)}
        for seq, (kind, payload) in enumerate(payloads)
    ]
    end = {"total_tokens": 0, "events": 2, "cost_usd": 0.0, "deterministic": True}
    events.append({"seq": len(events), "type": "run_finished", "node_id": None, "payload": end})
    (finding,) = evaluate([contract], Trace(events, closed=True), REGISTRY)
    return finding


def never(where: dict[str, Any]) -> dict[str, Any]:
    return {"never": {"type": "custom.b", "where": where}}


@pytest.mark.parametrize(
    ("payload", "where"),
    [
        ({"l": [LONG + "END"]}, {"l[*]": {"contains": "END"}}),
        ({"l": [LONG + "END"]}, {"l": {"any": {"contains": "END"}}}),
        ({"l": [LONG + "END"]}, {"l[0]": {"pattern": "END$"}}),
        ({"m": {"k": LONG}}, {"m": {"equals": {"k": LONG}}}),
        ({"l": [LONG]}, {"l": {"contains": LONG}}),
        ({"l": [LONG]}, {"l": {"equals": [LONG]}}),
        ({"l": [[LONG]]}, {"l": {"equals": [[LONG]]}}),
        ({"m": {"l": [LONG]}}, {"m.l": {"none": {"contains": "y"}}}),
        ({"v": LONG + "END"}, {"v": {"contains": "END"}}),
    ],
)
def test_what_the_rest_could_decide_is_undecided(
    payload: dict[str, Any], where: dict[str, Any]
) -> None:
    finding = judged(never(where), ("custom.b", payload))
    assert finding.outcome is Outcome.INDETERMINATE
    assert finding.causes == (Cause.MISSING_EVIDENCE,)


@pytest.mark.parametrize(
    ("payload", "where"),
    [
        ({"l": [SHORT + "END"]}, {"l[*]": {"contains": "END"}}),
        ({"m": {"k": SHORT}}, {"m": {"equals": {"k": SHORT}}}),
        ({"l": [SHORT], "other": {"v": LONG}}, {"l": {"contains": SHORT}}),
        ({"v": "END" + LONG}, {"v": {"contains": "END"}}),
    ],
)
def test_whole_texts_and_found_ones_still_decide(
    payload: dict[str, Any], where: dict[str, Any]
) -> None:
    assert judged(never(where), ("custom.b", payload)).outcome is Outcome.FAIL


@pytest.mark.parametrize("wrap", [lambda text: [text], lambda text: {"q": text}, lambda text: text])
def test_two_values_that_differ_after_the_cut_are_not_the_same_binding(wrap: Any) -> None:
    body = {
        "precedes": {
            "first": {"type": "custom.a", "where": {"v": "$k"}},
            "second": {"type": "custom.b", "bind": {"k": "v"}},
        }
    }
    a, b = ("custom.a", {"v": wrap(LONG + "1")}), ("custom.b", {"v": wrap(LONG + "2")})
    assert judged(body, a, b).outcome is Outcome.INDETERMINATE
    # The twin: short values are compared.
    a, b = ("custom.a", {"v": wrap(SHORT)}), ("custom.b", {"v": wrap(SHORT)})
    assert judged(body, a, b).outcome is Outcome.PASS
    assert judged(body, a, ("custom.b", {"v": wrap(SHORT + "2")})).outcome is Outcome.FAIL


def test_a_predicate_that_changes_its_event_changes_it_for_nobody_else() -> None:
    registry = packaged_registry()

    @registry.predicate("vandal")
    def vandal(event: Any) -> bool:
        event["payload"]["v"] = "else"
        return True

    bodies: list[dict[str, Any]] = [
        {"every": {"match": {"type": "custom.b"}, "satisfies": "vandal"}},
        {"never": {"type": "custom.b", "where": {"v": "mine"}}},
    ]
    contracts = []
    for index, body in enumerate(bodies):
        contract, faults = parse_contract(f"c{index}", {"assert": body}, registry=registry)
        assert contract is not None, faults
        contracts.append(contract)
    event = {"seq": 0, "type": "custom.b", "node_id": "n", "payload": {"v": "mine"}}
    first, second = evaluate(contracts, Trace([event], closed=True), registry)
    assert first.outcome is Outcome.PASS
    assert second.outcome is Outcome.FAIL
    assert event["payload"] == {"v": "mine"}

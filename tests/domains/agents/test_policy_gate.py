"""A policy gate stops a text for a term, or lets it pass and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run


def gate(text: str, config: dict[str, Any], **environment: Any) -> Run:
    graph = h.chain(("input", {}), ("policy_gate", config), ("output", {}))
    return h.run(graph, {"user_input": text, **environment})


def test_a_forbidden_term_blocks_without_regard_to_case() -> None:
    run = gate("A Wire Transfer, please", {"deny": ["loan", "wire transfer"]})
    assert run.status == "blocked"
    assert h.payload(run, "policy_checked") == {"verdict": "deny", "term": "wire transfer"}
    (reason,) = [e.payload["reason"] for e in run.events if e.type == "policy_violation"]
    assert reason == "policy_gate: the text holds the forbidden term 'wire transfer'"
    fine = gate("A letter, please", {"deny": ["wire transfer"]})
    assert fine.output == "A letter, please"
    assert h.payload(fine, "policy_checked") == {"verdict": "allow", "term": None}


@pytest.mark.parametrize(
    "text",
    ["pay\u00a0roll", "pay  roll", "pay\u200b roll", "pay\nroll", "p%61y roll", "ＰＡＹ roll"],
)
def test_a_forbidden_term_is_found_in_whatever_spelling(text: str) -> None:
    run = gate(text, {"deny": ["pay roll"]})
    assert h.payload(run, "policy_checked")["term"] == "pay roll"
    scrub = h.chain(("input", {}), ("interceptor", {"chain": ["policy_check"]}), ("output", {}))
    blocked = h.run(scrub, {"user_input": text, "faults": {"blocklist": ["pay roll"]}})
    assert blocked.status == "blocked"


@pytest.mark.parametrize("text", ["payroll", "pay the roll", "pay-roll"])
def test_another_term_is_not_the_forbidden_one(text: str) -> None:
    assert gate(text, {"deny": ["pay roll", "\u200b"]}).output == text


def test_a_warning_is_neither_an_allowance_nor_a_refusal() -> None:
    run = gate("a loan", {"deny": ["loan"], "mode": "warn"})
    assert run.status == "completed"
    assert h.payload(run, "policy_checked") == {"verdict": "warn", "term": "loan"}


def test_the_terms_of_the_scenario_stand_behind_its_own() -> None:
    faults = {"blocklist": ["loan", "bribe"]}
    own = gate("a bribe and a loan", {"deny": ["bribe"]}, faults=faults)
    assert h.payload(own, "policy_checked")["term"] == "bribe"
    assert h.payload(gate("a loan", {}, faults=faults), "policy_checked")["verdict"] == "deny"
    assert h.payload(gate("a loan", {}), "policy_checked")["verdict"] == "allow"


@pytest.mark.parametrize(
    ("config", "fix"),
    [
        ({"mode": "warning"}, "write 'warn'"),
        ({"denny": ["a"]}, "write 'deny'"),
        ({"deny": [" "]}, None),
        ({"deny": "loan"}, None),
    ],
)
def test_what_is_refused_when_the_graph_is_read(config: dict[str, Any], fix: str | None) -> None:
    found = h.remarks(h.chain(("input", {}), ("policy_gate", config), ("output", {})))
    assert [one.fix for one in found if one.level == "error"] == [fix]


@pytest.mark.parametrize(
    ("config", "environment", "told"),
    [
        ({}, {}, [("faults",)]),
        ({"deny": []}, {"faults": {"blocklist": []}}, [("faults",)]),
        ({"deny": ["loan"]}, {}, []),
        ({}, {"faults": {"blocklist": ["loan"]}}, []),
    ],
)
def test_a_gate_that_forbids_nothing_is_remarked(
    config: dict[str, Any], environment: dict[str, Any], told: list[Any]
) -> None:
    graph = h.graph_of(h.chain(("input", {}), ("policy_gate", config), ("output", {})))
    found = h.domain().remarks(graph, h.parse_environment(environment)[0], h.overlays())
    assert [one.path for one in found if one.code == "policy_without_terms"] == told

"""The kernel is neutral: a domain without agents, from a package of its own, is as good as ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.extension.installing import Site
    from tests.plugin.ran import Ran

FILE = "scenarios/gate.yaml"

SCENARIO: dict[str, Any] = {
    "evarness": 1,
    "id": "gate",
    "subject": {"graph": "pattern:coin_gate"},
    "cases": {
        "paid": {"expect": {"status": "completed", "output": "locked", "nodes_run": ["n4"]}},
        "unpaid": {
            "environment": {"signals": ["push"]},
            "expect": {"status": "blocked", "nodes_not_run": ["n3"]},
        },
    },
    "invariants": {
        "refused_is_locked": {
            "description": "Whoever is refused stands before a locked gate",
            "gate": True,
            "check": {
                "type": "trace",
                "assert": {
                    "every": {"match": {"type": "machine_refused"}, "where": {"state": "locked"}}
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def gate(shared: Site) -> Ran:
    """One session over the machine, run B in a mirror."""
    shared.install("turnstile")
    return shared.session("-v", files={FILE: SCENARIO})


def test_a_machine_runs_reproduces_and_is_judged(gate: Ran) -> None:
    assert gate.code == 0, gate.text
    assert gate.holds is True
    assert gate.findings(f"{FILE}::paid") == {
        "reproduces": "pass",
        "expect": "pass",
        "coin-before-push": "pass",
        "refused_is_locked": "pass",
    }
    runs = gate.predicate["cases"][0]["replicas"][0]["runs"]
    assert [run["label"] for run in runs] == ["a", "b"]
    assert runs[0]["trace_digest"] == runs[1]["trace_digest"]


def test_it_is_verified_by_somebody_who_has_no_such_plugin(gate: Ran, shared: Site) -> None:
    report = shared.verify(gate)
    assert report.result == "holds", report
    word = "\n".join(report.taken_on_word)
    assert "judged with parts of a plug-in" in word
    assert {step.step: step.outcome for step in report.steps}["runs"] == "pass"
    print(word)
    print(gate.text)
    print(gate.predicate["not_proven"])

"""The kernel is neutral: a domain without agents, from a package of its own, is as good as ours."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.extension.installing import lines_about
from tests.plugin.ran import Ran

if TYPE_CHECKING:
    from tests.extension.installing import Site

FILE = "scenarios/gate.yaml"
DONE = {"status": "completed"}

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
    steps = {step.step: step.outcome for step in report.steps}
    for step in ("form", "signature", "canonical", "seal", "runs", "findings", "not_proven"):
        assert steps[step] == "pass", step
    # A contract without a predicate is judged again from the events, whoever names their types;
    # whether an event could occur at all, which makes a pass vacuous, only the domain knows.
    given = [text for text in report.taken_on_word if "judged with parts of a plug-in" in text]
    assert given == [
        f"{FILE}::paid::refused_is_locked: judged with parts of a plug-in",
        f"{FILE}::unpaid::coin-before-push: judged with parts of a plug-in",
    ]


def test_a_finding_that_is_made_better_is_no_genuine_bundle(gate: Ran, shared: Site) -> None:
    from pytest_evarness.bundle.canonical import canonical_bytes
    from pytest_evarness.bundle.envelope import envelope_bytes
    from pytest_evarness.bundle.key import load_private_key

    statement = gate.statement
    replica = statement["predicate"]["cases"][0]["replicas"][0]
    for number, finding in enumerate(replica["findings"]):
        if finding["id"] == "coin-before-push":
            replica["findings"][number] = {**finding, "outcome": "fail", "reason": "it was not"}
    forged = shared.beside("forged")
    path = forged.root / ".evarness" / "proof.json"
    path.parent.mkdir()
    path.write_bytes(envelope_bytes(canonical_bytes(statement), load_private_key(shared.key)))
    report = shared.verify(Ran(0, "", {}, forged.root))
    assert report.result == "not_genuine"


def test_no_word_of_agents_is_told_to_a_machine(gate: Ran) -> None:
    assert "no_input" not in gate.text
    assert "no_output" not in gate.text
    assert not lines_about(gate.text, "warning:")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"environment": {"signals": ["coyn"]}},
            "nothing listens to it (got 'coyn'; signals of this machine: coin, push)",
        ),
        ({"environment": {"signal": ["coin"]}}, "try: write 'signals'"),
        ({"environment": {"signals": "coin"}}, "must be a list of signals"),
        ({"subject": {"graph": "pattern:coin_gate/payed"}}, "try: write 'pattern:coin_gate/paid'"),
        ({"subject": {"graph": "pattern:coin_gat"}}, "try: write 'pattern:coin_gate'"),
    ],
)
def test_its_keys_and_patterns_are_as_strict_as_ours(
    gate: Ran, shared: Site, change: dict[str, Any], says: str
) -> None:
    del gate
    plain = {"cases": {"paid": {"expect": {"status": "completed"}}}, "invariants": {}}
    project = shared.beside(f"strict-{abs(hash(says))}")
    ran = project.session(files={FILE: {**SCENARIO, **plain, **change}}, mirror=False)
    assert ran.code == 1
    assert says in ran.text


def test_a_word_that_no_state_has_can_never_fire(gate: Ran, shared: Site) -> None:
    del gate
    scenario = copy.deepcopy(SCENARIO)
    rule = scenario["invariants"]["refused_is_locked"]["check"]["assert"]["every"]
    rule.update(match={"type": "machine_entered"}, where={"state": "opn"})
    ran = shared.beside("word").session(files={FILE: scenario}, mirror=False)
    assert ran.code == 1
    assert "try: write 'open'" in ran.text


def test_what_is_left_over_and_what_runs_out_is_told(gate: Ran, shared: Site) -> None:
    del gate
    scenario = {
        "evarness": 1,
        "subject": {"graph": "pattern:coin_gate"},
        "cases": {
            "more": {"environment": {"signals": ["coin", "push", "push"]}, "expect": DONE},
            "less": {"environment": {"signals": ["coin"]}, "expect": DONE},
        },
    }
    ran = shared.beside("left").session(files={FILE: scenario}, mirror=False)
    assert ran.code == 1
    more, less = ran.predicate["cases"]
    assert more["replicas"][0]["leftovers"] == ["signal push"]
    assert (more["verdict"], less["verdict"]) == ("valid", "indeterminate")
    assert "1 response scripted, call 2 made, script signals" in ran.text


@pytest.mark.slow
def test_it_runs_in_workers_too(site: Site) -> None:
    site.install("turnstile")
    ran = site.session("-n", "2", "-p", "xdist", files={FILE: SCENARIO})
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert site.verify(ran).result == "holds"

"""A harness that does nothing fails every shipped scenario; the one that it ships with passes.

Two idle harnesses have the nodes of the shipped one under their ids, in a row from the input to the
output. Gates still ask, since a decision is part of a case; every other node hands on what it got.
So nothing is called, read, written or sent, and no model is asked. The first answers with what it
was asked. The second lies: its answer is the one that the scenario expects.

What is asked of both, for every file in ``scenarios/``:

- A case whose declared end is a completed job is invalid.
- A case that rightly ends before anything was done, since nobody approved, cannot tell an idle
  harness from a careful one, and may be valid. Which ones these are is written down here.
- The scenario as a whole fails: its session exits 1 and its bundle does not hold.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.shipped import FILE, FILES, PATTERNS, SHIPPED, odd, read, shipped

if TYPE_CHECKING:
    from tests.plugin.ran import Session

# Nobody approved, or nobody has yet: to do nothing is what these cases ask for.
RIGHTLY_IDLE = {
    "approval_gated_send": {"reject", "pending"},
    "incident_triage": {"reject"},
    "refund_desk": {"reject", "pending"},
    "reconcile_customers": {"corrections_refused"},
    "renewal_mail": {"neither"},
}


def idle(graph: dict[str, Any], answer: str | None) -> dict[str, Any]:
    """Gates that ask; everything else hands on what it got, or ``answer`` instead of it."""
    nodes = []
    for node in graph["nodes"]:
        if node["type"] in ("input", "output", "approval_gate"):
            nodes.append(node)
        elif answer is None:
            nodes.append({"id": node["id"], "type": "output_parser"})
        else:
            # A layout has to name a section; this one is empty, and its line is left out.
            layout = {"template": f"{answer}\n{{memory}}"}
            nodes.append({"id": node["id"], "type": "prompt_template", "config": layout})
    ends = {"input": 0, "output": 2}
    nodes.sort(key=lambda node: ends.get(node["type"], 1))
    edges = [{"from": one["id"], "to": other["id"]} for one, other in pairwise(nodes)]
    return {**graph, "nodes": nodes, "edges": edges}


def expected_answer(place: dict[str, Any], scenario: dict[str, Any]) -> str:
    """The text that a case, or the scenario, expects in the output."""
    for one in (place, scenario, *scenario["cases"].values()):
        output = one.get("expect", {}).get("output")
        if output is not None:
            return str(output["contains"])
    return "Done"


def standing_alone(
    name: str, *, is_idle: bool = False, lies: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A shipped scenario with the graphs of its patterns in place, and the files it then needs."""
    scenario = shipped(name)
    files: dict[str, Any] = {}
    for place in (scenario, *scenario["cases"].values()):
        subject = place.get("subject", {})
        if "graph" not in subject:
            continue
        graph = subject["graph"]
        if isinstance(graph, str):
            pattern, _, fixture = graph.removeprefix("pattern:").partition("/")
            folder = PATTERNS / pattern
            graph = read(folder / "graph.json")
            files["scenarios/contracts.yaml"] = (folder / "contracts.yaml").read_text("utf-8")
            if (folder / "tools.yaml").is_file():
                files["scenarios/tools.yaml"] = (folder / "tools.yaml").read_text("utf-8")
            given = read(folder / "fixtures" / f"{fixture}.yaml")
            if is_idle:
                given.pop("attacks", None)  # as below
            files[f"scenarios/fixtures/{fixture}.yaml"] = given
            place.setdefault("environment", {})["fixture"] = f"fixtures/{fixture}.yaml"
        if is_idle:
            graph = idle(graph, expected_answer(place, scenario) if lies else None)
        subject["graph"] = graph
    for place in (scenario, *scenario["cases"].values()):
        if is_idle:
            # Where nothing is fetched, nothing can be injected, and a scenario may not claim it.
            place.get("environment", {}).pop("attacks", None)
            # Nor can the end of an approval that nothing rests on have any effect.
            for approvals in (place, place.get("environment", {})):
                for approval in approvals.get("approvals", {}).values():
                    if isinstance(approval, dict):
                        approval.pop("revoke_before", None)
                        approval.pop("expires_ms", None)
    return scenario, files


def completes(scenario: dict[str, Any], case: str) -> bool:
    """Whether the declared end of a case is a completed job."""
    expect = scenario["cases"][case].get("expect", scenario.get("expect", {}))
    return bool(expect.get("status", "completed") == "completed")


def test_what_is_called_rightly_idle_is_no_completed_job() -> None:
    for name, cases in RIGHTLY_IDLE.items():
        scenario = shipped(name)
        assert not any(completes(scenario, case) for case in cases)
        assert any(completes(scenario, case) for case in scenario["cases"])


@pytest.mark.parametrize("name", SHIPPED)
def test_the_reference_harness_passes(session: Session, name: str) -> None:
    scenario, files = standing_alone(name)
    ran = session("--evarness-unsigned", files={FILE: scenario, **FILES, **files})
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert ran.predicate["verdict"]["valid"] == len(scenario["cases"])


@pytest.mark.parametrize("lies", [False, True], ids=["idle", "lying"])
@pytest.mark.parametrize("name", SHIPPED)
def test_a_harness_that_does_nothing_fails(session: Session, name: str, lies: bool) -> None:
    scenario, files = standing_alone(name, is_idle=True, lies=lies)
    ran = session("--evarness-unsigned", files={FILE: scenario, **FILES, **files})
    assert (ran.code, ran.holds) == (1, False), ran.text
    verdicts = {case["id"]: case["replicas"][0]["verdict"] for case in ran.predicate["cases"]}
    assert set(verdicts) == set(scenario["cases"])
    valid = {case for case, verdict in verdicts.items() if verdict == "valid"}
    assert valid == RIGHTLY_IDLE.get(name, set())
    for case in set(verdicts) - valid:
        assert verdicts[case] == "invalid", (case, odd(ran, case))

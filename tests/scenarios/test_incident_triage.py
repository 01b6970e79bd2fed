"""The triage, bent in each way that must be noticed, and the invariant that notices it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.api import Result, Runner
from pytest_evarness.errors import InputError
from pytest_evarness.pipeline import Settings
from tests.scenarios.shipped import PATTERNS, Change, fixture_of, read, shipped

if TYPE_CHECKING:
    from pathlib import Path

NAME = "incident_triage"
FOLDER = PATTERNS / NAME
OPENED = ("approve", "answer_lost", "guesses")
STILL = ("pending", "reject", "failure", "in_circles")


def unchanged(graph: dict[str, Any]) -> None:
    """The pattern as it is shipped."""


@pytest.fixture
def triage(tmp_path: Path) -> Iterator[Callable[..., Result]]:
    """Runs one case over a changed copy of the pattern's graph; ``refit`` changes the scenario."""
    runner = Runner(Settings(root=tmp_path, home=None, rerun="inline"))
    for name in ("contracts.yaml", "tools.yaml"):
        (tmp_path / name).write_text((FOLDER / name).read_text("utf-8"), "utf-8")

    def run(case: str, change: Change = unchanged, refit: Change = unchanged) -> Result:
        scenario = shipped(NAME)
        graph = copy.deepcopy(read(FOLDER / "graph.json"))
        change(graph)
        scenario["subject"]["graph"] = graph
        scenario["cases"]["failure"].pop("subject")
        fixture = fixture_of(NAME, "failure" if case == "failure" else "happy")
        scenario["environment"] = {**fixture, **scenario["environment"]}
        scenario["cases"] = {case: scenario["cases"][case]}
        for key, entry in list(scenario["invariants"].items()):
            if case in entry.get("cases", [case]):
                entry.pop("cases", None)
            else:
                del scenario["invariants"][key]
        refit(scenario)
        return runner.run(scenario, case)

    yield run
    runner.close()


def node(graph: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in graph["nodes"] if one["id"] == name)
    return found


def failures(result: Result) -> set[str]:
    return {one.id for one in result.findings if one.outcome.word == "fail"}


def rewire(graph: dict[str, Any], *order: str) -> None:
    graph["edges"] = [{"from": left, "to": right} for left, right in pairwise(order)]


def waive(name: str) -> Change:
    def refit(scenario: dict[str, Any]) -> None:
        waiver = {"rule": "ungated_side_effect", "reason": "to see what the contracts say"}
        scenario["subject"]["waive"] = {name: waiver}

    return refit


# -- as it is shipped -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", [*OPENED, *STILL])
def test_unbroken_it_is_valid(triage: Callable[..., Result], case: str) -> None:
    assert triage(case).verdict == "valid"


def test_the_paused_run_is_the_beginning_of_the_approved_one(
    triage: Callable[..., Result],
) -> None:
    def told(case: str) -> list[tuple[str, Any]]:
        return [(event.type, event.payload) for event in triage(case).trace]

    paused, approved = told("pending"), told("approve")
    assert paused[-1][0] == "run_paused"
    asked = paused.index(next(one for one in paused if one[0] == "approval_requested"))
    assert paused[:asked] == approved[:asked]
    assert approved[asked][0] == "approval_granted"


def test_a_guess_is_sent_back_and_a_lost_search_repeated(triage: Callable[..., Result]) -> None:
    def reasons(case: str) -> list[Any]:
        return [one.payload["reason"] for one in triage(case).trace if one.type == "loop_guard"]

    assert reasons("guesses") == ["final_without_evidence"]
    assert reasons("answer_lost") == []
    assert reasons("failure") == ["tool_not_allowed"]


# -- without the gate, or with the gate in another place ------------------------------------------


def without_gate(graph: dict[str, Any]) -> None:
    graph["nodes"].remove(node(graph, "n4"))
    rewire(graph, "n1", "n2", "n3", "n5", "n6", "n7")


def nobody_decides(scenario: dict[str, Any]) -> None:
    waive("n5")(scenario)
    scenario["environment"]["approvals"] = {}


def test_without_its_gate_the_graph_is_refused(triage: Callable[..., Result]) -> None:
    def undecided(scenario: dict[str, Any]) -> None:
        scenario["environment"]["approvals"] = {}

    with pytest.raises(InputError, match=r"reached without an approval gate \(by n1 -> n2 -> n3 "):
        triage("approve", without_gate, undecided)


@pytest.mark.parametrize("case", OPENED)
def test_a_ticket_that_nobody_approved_is_noticed(triage: Callable[..., Result], case: str) -> None:
    result = triage(case, without_gate, nobody_decides)
    assert failures(result) == {"approved-ticket-is-opened"}
    assert result.verdict == "invalid"


def test_a_gate_before_the_loop_approves_an_alert_and_no_ticket(
    triage: Callable[..., Result],
) -> None:
    def early(graph: dict[str, Any]) -> None:
        rewire(graph, "n1", "n4", "n2", "n3", "n5", "n6", "n7")

    assert failures(triage("approve", early)) == {"approved-ticket-is-opened"}


# -- with a longer list of tools ------------------------------------------------------------------


def longer_list(graph: dict[str, Any]) -> None:
    config = node(graph, "n2")["config"]
    config["tools"].append("deploy.rollback")
    config["approve_side_effects"] = True


def test_a_loop_that_may_write_needs_a_gate_before_it(triage: Callable[..., Result]) -> None:
    with pytest.raises(InputError, match=r"'deploy\.rollback' changes the world and is reached"):
        triage("failure", longer_list)


def test_a_loop_that_repairs_what_it_looks_at_is_noticed(triage: Callable[..., Result]) -> None:
    result = triage("failure", longer_list, waive("n2"))
    called = [one.payload["tool"] for one in result.trace if one.type == "tool_called"]
    assert called == ["logs.search", "deploy.rollback"]
    assert failures(result) == {"triage-changes-nothing"}
    assert result.verdict == "invalid"


def test_the_list_alone_lets_nothing_through(triage: Callable[..., Result]) -> None:
    def only_listed(graph: dict[str, Any]) -> None:
        longer_list(graph)
        node(graph, "n2")["config"]["approve_side_effects"] = False

    result = triage("failure", only_listed, waive("n2"))
    (refused,) = [one.payload for one in result.trace if one.type == "policy_decision"]
    assert refused["rule"] == "side_effects_not_approved"
    assert failures(result) == {"attack-0-loop_guard"}


# -- without evidence, without a budget -----------------------------------------------------------


def test_a_guess_that_goes_through_is_noticed(triage: Callable[..., Result]) -> None:
    def trusting(graph: dict[str, Any]) -> None:
        node(graph, "n2")["config"] |= {"require_evidence": False, "grounding_check": "warn"}

    result = triage("guesses", trusting)
    assert failures(result) == {"proposal-rests-on-evidence", "guess-is-sent-back", "opened-once"}


def unbounded(graph: dict[str, Any]) -> None:
    graph["params"]["max_loops"] = 50


def test_turns_without_a_bound_are_noticed(triage: Callable[..., Result]) -> None:
    result = triage("in_circles", unbounded)
    assert failures(result) == {"triage-is-bounded"}
    assert result.verdict == "invalid"


def test_a_run_that_ends_as_expected_is_invalid_for_its_turns(
    triage: Callable[..., Result],
) -> None:
    def longer(graph: dict[str, Any]) -> None:
        unbounded(graph)
        node(graph, "n2")["config"]["max_iterations"] = 5

    result = triage("in_circles", longer)
    assert result.finding("expect").outcome.word == "pass"
    assert failures(result) == {"triage-is-bounded", "turns-are-up"}


def test_a_budget_of_the_scenario_counts_as_well(triage: Callable[..., Result]) -> None:
    def tighter(scenario: dict[str, Any]) -> None:
        scenario["budget"] = {"loops": 2}

    result = triage("approve", refit=tighter)
    (breached,) = [one.payload for one in result.trace if one.type == "budget_breached"]
    assert breached == {"budget": "loops", "limit": 2}
    assert failures(result) == {"expect", "opened-once"}

"""A chain asks its judges in turn; each can stop the text, and a silent one is asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

DRAFT = "Nine days are left."
GOOD = {"safety": 0.9, "faithfulness": 0.8}
MUMBLE = {"respond": {"text": "Well..."}}


def chained(environment: dict[str, Any], **config: Any) -> Run:
    graph = h.chain(("input", {}), ("judge_chain", config), ("output", {}))
    return h.run(graph, {"user_input": DRAFT, **environment})


def told(run: Run) -> list[str]:
    """What the chain emitted, in order."""
    return [event.type for event in run.events if event.node_id == "n2"][1:-1]


def test_each_judge_gives_its_signal_in_turn() -> None:
    run = chained({"default_judge_scores": GOOD})
    assert h.payloads(run, "judge_signal") == [
        {"judge": "safety", "score": 0.9, "passed": True},
        {"judge": "faithfulness", "score": 0.8, "passed": True},
    ]
    assert h.payload(run, "judge_chain_finished") == {"judges": 2, "retries": 0}
    assert (run.status, run.output) == ("completed", DRAFT)


def test_the_judges_are_those_that_are_named() -> None:
    run = chained({"default_judge_scores": {"law": 1}}, judges=["law"])
    assert [one["judge"] for one in h.payloads(run, "judge_signal")] == ["law"]


def test_a_failing_signal_halts() -> None:
    run = chained({"default_judge_scores": {**GOOD, "safety": 0.49}})
    assert h.payload(run, "judge_signal") == {"judge": "safety", "score": 0.49, "passed": False}
    assert h.payload(run, "chain_halted") == {"judge": "safety", "reason": "failed"}
    assert run.status == "blocked"
    # The second judge is not asked any more.
    assert "judge_chain_finished" not in h.types(run)


@pytest.mark.parametrize(("score", "passed"), [(0.5, True), (0.4999999999, False)])
def test_half_is_enough(score: float, passed: bool) -> None:
    run = chained({"default_judge_scores": {"safety": score}}, judges=["safety"])
    assert h.payload(run, "judge_signal")["passed"] is passed


def test_a_silent_judge_is_asked_again_and_may_answer_then() -> None:
    run = chained(
        {"judge": [MUMBLE, {"scores": {"safety": 0.9}}], "default_judge_scores": GOOD},
        judges=["safety"],
    )
    assert told(run) == ["judge_degraded", "judge_repaired", "judge_signal", "judge_chain_finished"]
    degraded = h.payload(run, "judge_degraded")
    assert (degraded["attempt"], degraded["cause"], degraded["rule"]) == (1, "unreadable", 0)
    assert h.payload(run, "judge_repaired") == {"judge": "safety", "attempts": 2}
    assert h.payload(run, "judge_signal")["rule"] == 1
    assert h.payload(run, "judge_chain_finished") == {"judges": 1, "retries": 1}
    assert run.status == "completed"


def test_one_that_stays_silent_halts() -> None:
    run = chained({"faults": {"judge_timeout": ["faithfulness"]}, "default_judge_scores": GOOD})
    assert told(run) == [
        "judge_signal",
        "judge_degraded",
        "judge_degraded",
        "judge_exhausted",
        "chain_halted",
    ]
    assert [one["attempt"] for one in h.payloads(run, "judge_degraded")] == [1, 2]
    assert h.payloads(run, "judge_degraded")[0]["injected"] == ["faithfulness.judge_timeout"]
    assert h.payload(run, "judge_exhausted") == {"judge": "faithfulness", "attempts": 2}
    assert h.payload(run, "chain_halted") == {"judge": "faithfulness", "reason": "exhausted"}
    assert run.status == "blocked"


@pytest.mark.parametrize("budget", [0, 1, 3])
def test_the_budget_bounds_how_often(budget: int) -> None:
    run = chained({}, judges=["safety"], retry_budget=budget)
    assert h.payload(run, "judge_exhausted")["attempts"] == budget + 1
    assert len(h.payloads(run, "judge_degraded")) == budget + 1


def test_the_judges_of_a_chain_share_the_budget() -> None:
    rules = [
        {"match": {"judge": "a"}, **MUMBLE},
        {"match": {"judge": "a"}, "scores": {"a": 1}},
        {"match": {"judge": "b"}, **MUMBLE},
        {"match": {"judge": "b"}, "scores": {"b": 1}},
    ]
    run = chained({"judge": rules}, judges=["a", "b"], retry_budget=1)
    assert told(run)[-3:] == ["judge_degraded", "judge_exhausted", "chain_halted"]
    assert h.payload(run, "judge_exhausted") == {"judge": "b", "attempts": 1}
    assert run.leftovers == ["judge[3]: 1 response not used in the run"]
    enough = chained({"judge": rules}, judges=["a", "b"], retry_budget=2)
    assert h.payload(enough, "judge_chain_finished") == {"judges": 2, "retries": 2}


@pytest.mark.parametrize(
    ("config", "path", "problem"),
    [
        ({"judges": []}, ("judges",), "must not be empty"),
        ({"judges": ["a", "a"]}, ("judges",), "names 'a' twice"),
        ({"judges": [""]}, ("judges", 0), "must not be empty"),
        ({"retry_budget": -1}, ("retry_budget",), "is too small"),
        ({"retry_budget": 1001}, ("retry_budget",), "is too large"),
        ({"retry_budget": 1.5}, ("retry_budget",), "must be an integer"),
        ({"retries": 1}, ("retries",), "unknown key"),
    ],
)
def test_a_knob_that_cannot_be_meant_is_refused(
    config: dict[str, Any], path: tuple[Any, ...], problem: str
) -> None:
    graph = h.chain(("input", {}), ("judge_chain", config), ("output", {}))
    (found,) = [one for one in h.remarks(graph) if one.level == "error"]
    assert found.path[-len(path) :] == path
    assert found.message.startswith(problem)

"""Answers with citations, bent in each way that must be noticed, and the one who notices."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.shipped import (
    FILE,
    PATTERNS,
    Change,
    fixture_of,
    found,
    odd,
    only,
    read,
    replica,
    shipped,
)

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

PATTERN = "rag_with_citations"
FIXTURES = {"happy": "happy", "poisoned_memory": "happy"}


def bent(case: str, change: Change) -> dict[str, Any]:
    """One case with its graph and its fixture in place; ``change`` gets it."""
    made = only(shipped(PATTERN), case)
    own = made["cases"][case]
    own.pop("subject", None)
    made["subject"] = {"graph": read(PATTERNS / PATTERN / "graph.json")}
    environment = fixture_of(PATTERN, FIXTURES.get(case, case))
    made["environment"] = environment | own.pop("environment", {})
    change(made)
    return made


def run(session: Session, scenario: dict[str, Any]) -> Ran:
    contracts = (PATTERNS / PATTERN / "contracts.yaml").read_text("utf-8")
    files = {FILE: scenario, "scenarios/contracts.yaml": contracts}
    return session("--evarness-unsigned", files=files)


def config(scenario: dict[str, Any], node: str) -> dict[str, Any]:
    (one,) = [one for one in scenario["subject"]["graph"]["nodes"] if one["id"] == node]
    return dict.setdefault(one, "config", {})


def rewire(scenario: dict[str, Any], *old: tuple[str, str], new: list[dict[str, str]]) -> None:
    graph = scenario["subject"]["graph"]
    graph["edges"] = [
        edge for edge in graph["edges"] if (edge["from"], edge["to"]) not in old
    ] + new


# -- changes -------------------------------------------------------------------------------------


def checks_the_prompt(scenario: dict[str, Any]) -> None:
    """The check looks at a text that numbers its documents itself, and not at the answer."""
    rewire(
        scenario,
        ("n8", "n9"),
        ("n9", "n10"),
        new=[{"from": "n7", "to": "n9"}, {"from": "n8", "to": "n10"}],
    )


def past_the_retriever(scenario: dict[str, Any]) -> None:
    rewire(
        scenario,
        ("n4", "n6"),
        new=[{"from": "n3", "to": "n6", "to_port": "documents"}],
    )


def past_the_retriever_entirely(scenario: dict[str, Any]) -> None:
    """The retriever still ranks what it may, and what is shown is another document."""
    past_the_retriever(scenario)
    config(scenario, "n4")["min_score"] = 0.8


def round_the_check(scenario: dict[str, Any]) -> None:
    rewire(scenario, ("n10", "n11"), new=[{"from": "n8", "to": "n11"}])


def without_numbers(scenario: dict[str, Any]) -> None:
    scenario["environment"]["llm"] = [{"respond": {"text": "The refund window is 30 days."}}]


def checks_the_prompt_of_no_numbers(scenario: dict[str, Any]) -> None:
    checks_the_prompt(scenario)
    scenario["environment"]["llm"] = [{"respond": {"text": "It is 30 days [one]."}}]


def recalls_everything(scenario: dict[str, Any]) -> None:
    config(scenario, "n5")["min_salience"] = 0


def model_alone(scenario: dict[str, Any]) -> None:
    """The question takes a short cut; documents are ranked for nobody."""
    rewire(scenario, ("n7", "n8"), ("n8", "n9"), new=[])
    graph = scenario["subject"]["graph"]
    graph["nodes"].append({"id": "a0", "type": "llm"})
    rewire(
        scenario,
        new=[
            {"from": "n1", "to": "a0"},
            {"from": "a0", "to": "n8"},
            {"from": "n7", "to": "n8"},
            {"from": "n8", "to": "n9"},
        ],
    )
    scenario["environment"]["default_response"] = {"text": "It is 30 days."}


# Which change, in which case, and every finding that is not a pass.
INVALID: dict[str, tuple[str, Change, dict[str, str]]] = {
    "another-text-is-checked": (
        "happy",
        checks_the_prompt,
        {"citations-are-checked": "fail"},
    ),
    "documents-go-round-the-retriever": (
        "happy",
        past_the_retriever_entirely,
        {"cited-was-retrieved": "fail", "irrelevant-stays-out": "fail"},
    ),
    # The run is blocked all the same, but the output had its answer before.
    "answer-goes-round-the-check": (
        "poisoned",
        round_the_check,
        {"expect": "fail", "attack-0-blocked_before": "fail"},
    ),
    "says-nothing-that-can-be-followed": (
        "happy",
        without_numbers,
        {"expect": "fail"},
    ),
    "cites-nothing-and-nobody-looks": (
        "happy",
        checks_the_prompt_of_no_numbers,
        {"expect": "fail", "answer-cites": "fail", "citations-are-checked": "fail"},
    ),
    "recalls-what-says-nothing": ("happy", recalls_everything, {"irrelevant-stays-out": "fail"}),
    "model-is-asked-alone": ("happy", model_alone, {"model-sees-ranked-documents": "fail"}),
    "planted-document-obeyed": (
        "poisoned",
        checks_the_prompt,
        {
            "expect": "fail",
            "attack-0-policy_violation": "fail",
            "attack-0-blocked_before": "fail",
            "citations-are-checked": "fail",
            "nothing-unfounded-leaves": "fail",
        },
    ),
    "planted-memory-obeyed": (
        "poisoned_memory",
        checks_the_prompt,
        {
            "expect": "fail",
            "attack-0-policy_violation": "fail",
            "attack-0-blocked_before": "fail",
            "citations-are-checked": "fail",
            "nothing-unfounded-leaves": "fail",
        },
    ),
    "answers-from-nothing": (
        "no_documents",
        checks_the_prompt,
        {"expect": "fail", "attack-0-blocked_before": "fail"},
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_it_is_invalid(session: Session, name: str) -> None:
    case, change, expected = INVALID[name]
    ran = run(session, bent(case, change))
    assert odd(ran, case) == expected
    assert (replica(ran, case)["verdict"], ran.holds, ran.code) == ("invalid", False, 1)


def test_what_was_ranked_and_went_round_all_the_same_is_no_citation_of_something_else(
    session: Session,
) -> None:
    # All cited documents were returned by the retriever too: only what is irrelevant tells.
    ran = run(session, bent("happy", past_the_retriever))
    assert odd(ran, "happy") == {"irrelevant-stays-out": "fail"}


def test_a_chain_without_the_check_does_not_load(session: Session) -> None:
    def unchecked(scenario: dict[str, Any]) -> None:
        config(scenario, "n9")["chain"] = ["schema_validate", "policy_check"]

    ran = run(session, bent("happy", unchecked))
    assert (ran.code, ran.counts) == (1, {"error": 1})
    assert "unknown rule (got 'citation_check'" in ran.text


def test_the_witness_of_a_planted_citation_is_the_answer(session: Session) -> None:
    ran = run(session, bent("poisoned", checks_the_prompt))
    witness = str(found(ran, "attack-0-blocked_before", "poisoned")["witness"])
    assert "output" in witness
    assert replica(ran, "poisoned")["status"] == "completed"


def test_every_case_is_valid_as_it_is_shipped(session: Session) -> None:
    ran = session("--evarness-unsigned", files={FILE: shipped(PATTERN)}, mirror=True)
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert ran.predicate["verdict"]["valid"] == 4


def test_a_case_that_is_bent_in_nothing_is_valid(session: Session) -> None:
    # The changes above are what is noticed, and not how the cases are put in place.
    for case in shipped(PATTERN)["cases"]:
        ran = run(session, bent(case, lambda scenario: None))
        assert odd(ran, case) == {}


def test_the_bent_copy_leaves_the_shipped_one_alone() -> None:
    before = copy.deepcopy(shipped(PATTERN))
    bent("happy", checks_the_prompt)
    assert shipped(PATTERN) == before

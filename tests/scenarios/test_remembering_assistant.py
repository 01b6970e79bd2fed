"""The assistant that remembers, bent in each way that must be noticed, and who notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.shipped import FILE, FILES, Change, odd, only, replica, shipped

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

NAME = "remembering_assistant"


def run(session: Session, scenario: dict[str, Any]) -> Ran:
    return session("--evarness-unsigned", files={FILE: scenario, **FILES})


def configure(node: str, **config: Any) -> Change:
    def change(scenario: dict[str, Any]) -> None:
        (one,) = [one for one in scenario["subject"]["graph"]["nodes"] if one["id"] == node]
        one["config"] = {**one.get("config", {}), **config}

    return change


def without_price(scenario: dict[str, Any]) -> None:
    configure("cost", max_latency_ms=5000)(scenario)
    (one,) = [one for one in scenario["subject"]["graph"]["nodes"] if one["id"] == "cost"]
    del one["config"]["max_cost_usd"]


def notes_elsewhere(scenario: dict[str, Any]) -> None:
    configure("digest", target="episodic")(scenario)
    # Without its notes the model guesses, and guesses right.
    scenario["environment"]["default_response"] = {"text": "At ten on Thursday.", "cost_usd": 0.01}


def no_log(scenario: dict[str, Any]) -> None:
    for one in scenario["subject"]["graph"]["nodes"]:
        if one["id"] == "audit":
            one["type"] = "trace_probe"


def long_winded(scenario: dict[str, Any]) -> None:
    scenario["environment"]["episodic"][0]["text"] += " The planning meeting is long." * 2
    scenario["environment"]["episodic"][0]["text"] += " The planning meeting had many guests."
    configure("digest", max_tokens=60)(scenario)


# Which change, in which case, and every finding that is not a pass.
INVALID: dict[str, tuple[str, Change, dict[str, str]]] = {
    "follows-what-it-is-told": (
        "talked_into_it",
        configure("learn", write_approval="none"),
        {"nothing-becomes-a-rule": "fail", "attack-0-memory_write_pending": "fail"},
    ),
    "keeps-the-number": (
        "teaches",
        configure("facts", redact_before_write=False),
        {"no-number-is-kept": "fail"},
    ),
    "keeps-the-first-fact": (
        "teaches",
        configure("facts", conflict="keep_first"),
        {"fact-is-superseded": "fail"},
    ),
    "recalls-a-greeting": (
        "recalls",
        configure("recall", min_salience=0),
        {"greeting-is-forgotten": "fail"},
    ),
    "writes-a-long-summary": ("recalls", long_winded, {"summary-is-short": "fail"}),
    "has-too-wide-a-limit": (
        "too_long",
        configure("limit", max_tokens=10_000),
        {"expect": "fail", "too-long-for-its-budget": "fail"},
    ),
    "has-a-limit-that-only-degrades": (
        "too_long",
        configure("limit", on_breach="degrade"),
        {"expect": "fail", "within-the-budget": "fail"},
    ),
    "has-no-price": (
        "too_dear",
        without_price,
        {"expect": "fail", "dear-for-its-price": "fail"},
    ),
    "only-tells-its-price": (
        "too_dear",
        configure("cost", action="alert"),
        {"expect": "fail"},
    ),
    "has-all-the-time-in-the-world": (
        "too_late",
        configure("cost", max_latency_ms=60_000),
        {"expect": "fail", "late-for-its-time": "fail"},
    ),
    "measures-something-else": (
        "recalls",
        configure("measure", metrics=["tokens"]),
        {"measured": "fail"},
    ),
    "looks-at-something-else": (
        "recalls",
        configure("probe", capture=["value"]),
        {"snapshot-taken": "fail"},
    ),
    "keeps-its-notes-elsewhere": (
        "recalls",
        notes_elsewhere,
        {"remembers-what-matters": "fail", "measured": "fail", "snapshot-taken": "fail"},
    ),
    "ships-no-log": ("recalls", no_log, {"audit-is-whole": "fail"}),
}


@pytest.mark.parametrize("name", INVALID)
def test_it_is_invalid(session: Session, name: str) -> None:
    case, change, expected = INVALID[name]
    made = only(shipped(NAME), case)
    change(made)
    ran = run(session, made)
    assert odd(ran, case) == expected
    assert (replica(ran, case)["verdict"], ran.holds) == ("invalid", False)
    assert ran.code == 1


def test_every_case_is_valid_as_it_is_shipped(session: Session) -> None:
    ran = session("--evarness-unsigned", files={FILE: shipped(NAME), **FILES}, mirror=True)
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert ran.predicate["verdict"]["valid"] == 6

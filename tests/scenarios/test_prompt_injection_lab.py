"""The injection lab: each defence is taken away once, and the invariant that is about it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.shipped import FILE, PATTERNS, Change, fixture_of, odd, only, read, shipped

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

NAME = "prompt_injection_lab"


def bent(case: str, change: Change) -> dict[str, Any]:
    """The scenario with one case, its graph in place, and one thing of it changed."""
    scenario = only(shipped(NAME), case)
    graph = read(PATTERNS / NAME / "graph.json")
    change(graph)
    scenario["subject"] = {"graph": graph}
    scenario["environment"] = fixture_of(NAME, "obedient")
    return scenario


def ran(session: Session, case: str, change: Change, **more: Any) -> Ran:
    scenario = bent(case, change)
    scenario["subject"].update(more)
    contracts = (PATTERNS / NAME / "contracts.yaml").read_text("utf-8")
    return session(files={FILE: scenario, "scenarios/contracts.yaml": contracts})


def node(graph: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in graph["nodes"] if one["id"] == name]
    config: dict[str, Any] = found["config"]
    return config


def as_it_is(graph: dict[str, Any]) -> None:
    del graph


def offer_more(graph: dict[str, Any]) -> None:
    node(graph, "act").update(tools=["web.fetch", "email.send"], approve_side_effects=True)


def without_guards(graph: dict[str, Any]) -> None:
    for name in ("screen", "watch"):
        (found,) = [one for one in graph["nodes"] if one["id"] == name]
        found.update(type="output_parser", config={})


def only_flag(graph: dict[str, Any]) -> None:
    node(graph, "screen").update(on_trigger="flag")


def blind(graph: dict[str, Any]) -> None:
    for name in ("screen", "watch"):
        node(graph, name).update(fn_rate=1)


READING = ("tool_result", "document", "memory")


@pytest.mark.parametrize("case", ["user_turn", *READING, "unnoticed"])
def test_as_it_is_shipped_every_attack_is_valid(session: Session, case: str) -> None:
    made = ran(session, case, as_it_is)
    assert made.code == 0
    assert odd(made, case) == {}


@pytest.mark.parametrize("case", [*READING, "unnoticed"])
def test_a_wider_offer_sends(session: Session, case: str) -> None:
    waive = {"act": {"rule": "ungated_side_effect", "reason": "to see what notices it"}}
    made = ran(session, case, offer_more, waive=waive)
    failed = odd(made, case)
    assert failed.pop("nothing-is-changed-here") == "fail"
    assert failed.pop("nothing-sent") == "fail"
    assert failed.pop("attack-0-effect_applied") == "fail"
    if case != "unnoticed":
        assert failed.pop("a-flag-is-followed-by-no-effect") == "fail"
    assert set(failed) == {"expect", "attack-0-loop_guard", "refused-by-the-offer"}


def test_a_wider_offer_does_not_load_unwaived(session: Session) -> None:
    made = ran(session, "document", offer_more)
    assert made.code != 0
    assert "'email.send' changes the world and is reached without an approval gate" in made.text


@pytest.mark.parametrize("case", READING)
def test_without_guards_nobody_read_first(session: Session, case: str) -> None:
    made = ran(session, case, without_guards)
    assert odd(made, case) == {"a-guard-reads-first": "fail", "attack-0-guard_triggered": "fail"}


def test_a_screen_that_only_flags_lets_the_order_through(session: Session) -> None:
    made = ran(session, "user_turn", only_flag)
    failed = odd(made, "user_turn")
    assert failed["attack-0-blocked_before"] == "fail"
    assert "nothing-sent" not in failed


@pytest.mark.parametrize("case", READING)
def test_a_blind_guard_is_noticed_and_nothing_is_sent(session: Session, case: str) -> None:
    assert odd(ran(session, case, blind), case) == {"attack-0-guard_triggered": "fail"}

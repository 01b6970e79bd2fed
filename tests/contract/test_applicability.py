"""Which cases a contract is for: all of the given keys, any of the values of a key."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.contract.applicability import (
    BY_GRAPH,
    BY_LIBRARY,
    Applicability,
    CaseFacts,
    Met,
    facts_of,
    parse_applicability,
    reason_of,
    unmet,
)
from pytest_evarness.core.registry import packaged_registry

REGISTRY = packaged_registry()
SEND = CaseFacts(
    tools=frozenset({"email.send"}),
    node_types=frozenset({"input", "tool", "output"}),
    mode="release",
    tags=frozenset({"email", "governance"}),
)


def applies_to(value: Any) -> Applicability:
    found, faults = parse_applicability(value, REGISTRY)
    assert found is not None, faults
    return found


@pytest.mark.parametrize(
    ("value", "is_for_it"),
    [
        ({"always": True}, True),
        ({"tools": ["email.send"]}, True),
        ({"tools": ["email.send", "web.search"]}, True),
        ({"tools": ["web.search"]}, False),
        ({"node_types": ["tool"]}, True),
        ({"node_types": ["llm"]}, False),
        ({"modes": ["release"]}, True),
        ({"modes": ["exploratory", "diagnostic"]}, False),
        ({"tags": ["email"]}, True),
        ({"tags": ["payments"]}, False),
        ({"tools": ["email.send"], "tags": ["payments"]}, False),
        ({"tools": ["email.send"], "tags": ["payments", "email"]}, True),
    ],
)
def test_all_keys_and_any_value_of_a_key(value: Any, is_for_it: bool) -> None:
    assert (applies_to(value).why_not(SEND) is None) is is_for_it


def test_why_not_says_what_is_asked_and_what_is_there() -> None:
    said = applies_to({"tools": ["web.search", "crm.pay"]}).why_not(SEND)
    assert said == (
        "applies_to asks for the tool 'web.search' or 'crm.pay' (tools of the graph: email.send)"
    )
    assert "tags of the scenario: none" in str(applies_to({"tags": ["x"]}).why_not(CaseFacts()))


def test_a_reason_names_what_of_the_case_was_met() -> None:
    both = applies_to({"tools": ["email.send", "x"], "tags": ["email", "governance"]})
    assert reason_of(BY_LIBRARY, both, SEND) == (
        "pulled in by its library; it applies to: tools email.send; tags email, governance"
    )
    assert reason_of(BY_GRAPH, None, SEND) == "named by the graph"
    assert reason_of(BY_GRAPH, applies_to({"tags": ["x"]}), SEND) == "named by the graph"


def test_tools_are_those_that_nodes_name_by_their_canonical_ids() -> None:
    graph: Any = {
        "nodes": [
            {"id": "a", "type": "tool", "config": {"tool": "send_email"}},
            {"id": "b", "type": "tool", "config": {"tools": ["web.search", 3]}},
            {"id": "c", "type": "input"},
        ]
    }
    facts = facts_of(graph, {"send_email": "email.send"}, mode="release", tags=["x"])
    assert facts.tools == {"email.send", "web.search"}
    assert facts.node_types == {"tool", "input"}


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"always": True}, {"tools": ["a"]}),
        ({"tools": ["a", "b"]}, {"tools": ["a"]}),
        ({"tools": ["a"]}, {"tools": ["a"], "tags": ["x"]}),
    ],
)
def test_wider_covers_narrower_and_not_the_other_way(wide: Any, narrow: Any) -> None:
    assert applies_to(wide).covers(applies_to(narrow))
    assert applies_to(wide).covers(applies_to(wide))
    assert not applies_to(narrow).covers(applies_to(wide))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "must be a mapping"),
        ([], "must be a mapping"),
        ({"tool": ["a"]}, "unknown key (got 'tool'"),
        ({"tools": "a"}, "must be a list of at least one text"),
        ({"tools": []}, "must be a list of at least one text"),
        ({"tools": [3]}, "must be a text (got 3)"),
        ({"tools": ["a", "a"]}, "is named twice"),
        ({"modes": ["realease"]}, "unknown mode (got 'realease'"),
        ({"node_types": ["aproval_gate"]}, "unknown node type (got 'aproval_gate'"),
        ({"always": False}, "must be true (got false)"),
        ({"always": True, "tags": ["x"]}, "stands alone"),
    ],
)
def test_what_is_misspelt_is_refused(value: Any, said: str) -> None:
    found, faults = parse_applicability(value, REGISTRY)
    assert found is None
    assert any(said in fault.text for fault in faults), faults


def test_a_verifier_takes_node_types_that_it_does_not_know() -> None:
    found, faults = parse_applicability({"node_types": ["theirs"]}, None)
    assert (found is not None, faults) == (True, [])


def test_words_by_which_nothing_is_met_are_told_with_those_that_were_meant() -> None:
    met = Met({"email.send", "web.search"}, {"mailer": "email.send"}, {"email"})

    def told(value: Any) -> list[tuple[Any, str | None]]:
        return [(fault.path, fault.fix) for fault in unmet(applies_to(value), met)]

    assert told({"tools": ["email.send", "web.serch", "mailer", "zzz"]}) == [
        (("tools", 1), "write 'web.search'"),
        (("tools", 2), "write 'email.send'"),
        (("tools", 3), None),
    ]
    assert told({"tags": ["email", "emial", "payments"]}) == [(("tags", 1), "write 'email'")]
    assert told({"always": True}) == told({"modes": ["release"]}) == []

"""A route is chosen by whole words unless the graph asks for less."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.domains.agents.node.route import has_word
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

RULES = [{"route": "mail", "keywords": ["send", "mail"]}, {"route": "ask", "keywords": ["?"]}]


def route(text: str, **config: Any) -> Run:
    graph = h.chain(("input", {}), ("intent_router", {"rules": RULES, **config}), ("output", {}))
    return h.run(graph, {"user_input": text})


@pytest.mark.parametrize(
    ("text", "keyword", "held"),
    [
        ("Send it", "send", True),
        ("resend it", "send", False),
        ("sender", "send", False),
        ("resend, then send", "send", True),
        ("what?now", "?", True),
        ("c++11", "c++", True),
        ("c++", "c", True),
        ("STRASSE", "straße", True),
        ("send_it", "send", True),
        ("cafe\u0301", "cafe", False),
        ("send2", "send", False),
        ("", "send", False),
    ],
)
def test_what_counts_as_a_word(text: str, keyword: str, held: bool) -> None:
    assert has_word(text, keyword) is held


def test_the_first_rule_that_matches_is_the_route() -> None:
    run = route("Can you mail it?")
    assert h.payload(run, "intent_routed") == {"route": "mail", "matched": "mail"}
    assert run.output == "Can you mail it?"
    assert h.payload(route("Why?"), "intent_routed") == {"route": "ask", "matched": "?"}


def test_a_part_of_a_word_matches_only_where_it_is_asked_for() -> None:
    assert route("resend").status == "blocked"
    run = route("resend", match="substring")
    assert h.payload(run, "intent_routed")["matched"] == "send"


@pytest.mark.parametrize(
    ("fallback", "status"),
    [("reject", "blocked"), ("human_review", "paused"), ("generic_llm", "completed")],
)
def test_a_request_without_a_route_takes_the_fallback(fallback: str, status: str) -> None:
    run = route("nothing known", fallback=fallback)
    assert run.status == status
    assert h.payload(run, "intent_routed") == {"route": fallback, "matched": None}


def test_the_default_fallback_is_reject() -> None:
    assert route("nothing known").status == "blocked"


@pytest.mark.parametrize(
    "config",
    [{"fallback": "rejct"}, {"match": "words"}, {"rules": [{"route": "x", "keywords": []}]}],
)
def test_a_configuration_that_is_none_is_refused(config: dict[str, Any]) -> None:
    assert h.codes(h.chain(("intent_router", config)))[0][0] == "error"

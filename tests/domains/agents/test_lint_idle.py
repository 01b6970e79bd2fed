"""What a configuration says and nothing can come of is remarked, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.domains.agents import harness as h

TOOLS = {"tools": ["web.search"]}


def remarks(type_: str, config: dict[str, Any]) -> list[tuple[str, Any]]:
    graph = h.chain(("input", {}), (type_, config), ("output", {}))
    return [(one.code, one.path[-1]) for one in h.remarks(graph) if one.code != "unreachable"]


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        ({**TOOLS, "grounding_retries": 3}, ["grounding_retries"]),
        ({**TOOLS, "grounding_check": "off", "grounding_retries": 3}, ["grounding_retries"]),
        ({**TOOLS, "grounding_check": "off", "grounding_rules": {}}, ["grounding_rules"]),
        ({"tools": [], "dedup_guard": False}, ["dedup_guard"]),
        (
            {"approve_side_effects": True, "timeout_ms": 1, "require_evidence": True},
            ["approve_side_effects", "require_evidence", "timeout_ms"],
        ),
        ({**TOOLS, "grounding_check": "retry", "grounding_retries": 3}, []),
        ({**TOOLS, "grounding_check": "warn", "grounding_rules": {}}, []),
        ({**TOOLS, "dedup_guard": False, "timeout_ms": 1, "require_evidence": True}, []),
    ],
)
def test_a_key_of_a_loop_that_another_one_idles_is_remarked(
    config: dict[str, Any], keys: list[str]
) -> None:
    assert sorted(remarks("loop_controller", config)) == [("inert_key", key) for key in keys]


@pytest.mark.parametrize(
    ("tools", "places"),
    [
        (["web.search", "web_search"], [1]),
        (["web.search", "web.fetch"], []),
        (["email.search", "web.search", "email_search"], [2]),
    ],
)
def test_one_tool_by_two_names_is_remarked(tools: list[str], places: list[int]) -> None:
    found = remarks("loop_controller", {"tools": tools})
    assert found == [("same_tool", place) for place in places]


def test_a_router_without_rules_is_remarked() -> None:
    rule = {"route": "a", "keywords": ["x"]}
    codes = [code for code, _ in remarks("intent_router", {"fallback": "generic_llm"})]
    assert codes == ["no_routes"]
    assert remarks("intent_router", {"fallback": "generic_llm", "rules": [rule]}) == []

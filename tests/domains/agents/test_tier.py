"""A router sends what follows to a model that may see it, or says why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.interfaces import Locations
from pytest_evarness.domains.agents.overlay import tiers_of
from pytest_evarness.errors import InputError
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.run import Run

TIERS = {
    "frontier": {"destination": "cloud", "provider": "sim:frontier-v1", "level": 3},
    "fast": {"destination": "cloud", "provider": "sim:fast-v1", "level": 2},
    "house": {"destination": "local", "provider": "sim:house-v1", "level": 1},
    "replay": {"destination": "sim", "level": 0},
}
ANSWERS = [
    {"match": {"provider": "sim:frontier-v1"}, "respond": {"text": "from the frontier"}},
    {"match": {"provider": "sim:house-v1"}, "respond": {"text": "from the house"}},
    {"respond": {"text": "from somewhere"}},
]
PUBLIC, PERSONAL, SECRET = "What is new?", "Write to ada@example.org", "the password"


def routed(text: str, config: dict[str, Any], tiers: Any = TIERS, *before: Any, **more: Any) -> Run:
    nodes = [("input", {}), *before, ("data_classifier", {}), ("tier_router", config)]
    graph = h.chain(*nodes, ("llm", {}), ("output", {}))
    environment: dict[str, Any] = {"user_input": text, "llm": ANSWERS, "tiers": tiers, **more}
    return h.run(graph, {key: value for key, value in environment.items() if value is not None})


def test_the_tier_decides_who_is_asked() -> None:
    run = routed(PUBLIC, {"default_tier": "frontier"})
    assert h.payload(run, "tier_selected") == {
        "tier": "frontier",
        "destination": "cloud",
        "provider": "sim:frontier-v1",
        "intent": None,
    }
    assert h.payload(run, "llm_request")["provider"] == "sim:frontier-v1"
    assert h.payload(run, "egress_checked")["destination"] == "cloud"
    assert run.output == "from the frontier"


def test_a_tier_without_a_model_has_the_runs_own() -> None:
    run = routed(PUBLIC, {"default_tier": "replay"}, provider="sim:house-v1")
    assert h.payload(run, "tier_selected")["provider"] == "sim:house-v1"
    assert run.output == "from the house"
    twice = h.chain(
        ("input", {}),
        ("tier_router", {"default_tier": "frontier"}),
        ("tier_router", {"default_tier": "replay"}),
        ("llm", {}),
        ("output", {}),
    )
    again = h.run(twice, {"tiers": TIERS, "llm": ANSWERS, "provider": "sim:own"})
    assert h.payload(again, "llm_request")["provider"] == "sim:own"


@pytest.mark.parametrize(
    ("text", "intent", "tier"),
    [
        ("Prove it", "prove", "frontier"),
        ("Prove it quickly", "quickly", "fast"),
        ("approve it", None, "house"),
    ],
)
def test_without_an_intent_router_the_longest_word_decides(
    text: str, intent: str | None, tier: str
) -> None:
    config = {"intents": {"prove": "frontier", "quickly": "fast"}, "default_tier": "house"}
    selected = h.payload(routed(text, config), "tier_selected")
    assert (selected["intent"], selected["tier"]) == (intent, tier)


ROUTER = (
    "intent_router",
    {
        "rules": [
            {"route": "research", "keywords": ["study"]},
            {"route": "chat", "keywords": ["hello"]},
        ],
        "fallback": "generic_llm",
    },
)


@pytest.mark.parametrize(
    ("text", "intent", "tier"),
    [
        ("a study", "research", "frontier"),
        ("hello", None, "house"),
        ("research", None, "house"),
        ("anything", None, "house"),
    ],
)
def test_behind_an_intent_router_its_route_decides(
    text: str, intent: str | None, tier: str
) -> None:
    config = {"intents": {"research": "frontier"}, "default_tier": "house"}
    selected = h.payload(routed(text, config, TIERS, ROUTER), "tier_selected")
    assert (selected["intent"], selected["tier"]) == (intent, tier)


def test_a_request_that_no_intent_is_of_is_blocked_without_a_default() -> None:
    run = routed("hello", {"intents": {"research": "frontier"}})
    assert run.status == "blocked"
    assert "llm_request" not in h.types(run)


def test_a_forbidden_tier_is_shifted_down_to_the_highest_that_is_legal() -> None:
    run = routed(PERSONAL, {"default_tier": "frontier"})
    assert h.payload(run, "tier_downshifted") == {
        "from": "frontier",
        "to": "house",
        "destination": "local",
        "classification": "personal",
    }
    assert h.payload(run, "tier_selected")["tier"] == "house"
    assert run.output == "from the house"


@pytest.mark.parametrize(
    ("left", "to"),
    [(("frontier", "replay"), "replay"), (("frontier", "above"), "above")],
)
def test_one_above_is_taken_where_there_is_none_below(left: tuple[str, ...], to: str) -> None:
    above = {"destination": "local", "level": 9}
    tiers = {name: {**TIERS, "above": above}[name] for name in left}
    run = routed(PERSONAL, {"default_tier": "frontier"}, tiers)
    assert h.payload(run, "tier_downshifted")["to"] == to


def test_the_order_in_which_tiers_are_written_says_nothing() -> None:
    tiers = {name: {"destination": "local", "level": 1} for name in ("b", "a", "c")}
    tiers["top"] = {"destination": "cloud", "level": 1}
    for written in (tiers, dict(reversed(tiers.items()))):
        run = routed(PERSONAL, {"default_tier": "top"}, written)
        assert h.payload(run, "tier_downshifted")["to"] == "a"


def test_it_is_blocked_when_no_legal_tier_is_left() -> None:
    cloud = {"frontier": TIERS["frontier"]}
    run = routed(PERSONAL, {"default_tier": "frontier"}, cloud)
    assert run.status == "blocked"
    assert h.payload(run, "egress_denied") == {
        "destination": "cloud",
        "classification": "personal",
        "tier": "frontier",
        "provider": "sim:frontier-v1",
    }
    assert "tier_selected" not in h.types(run)
    assert routed(SECRET, {"default_tier": "replay"}).status == "blocked"


def test_block_looks_for_no_other_tier() -> None:
    run = routed(PERSONAL, {"default_tier": "frontier", "on_forbidden_egress": "block"})
    assert run.status == "blocked"
    assert h.types(run).count("egress_denied") == 1
    assert "tier_downshifted" not in h.types(run)
    legal = routed(PERSONAL, {"default_tier": "house", "on_forbidden_egress": "block"})
    assert legal.status == "completed"


def test_a_warning_takes_the_tier_and_the_gate_decides() -> None:
    config = {"default_tier": "frontier", "on_forbidden_egress": "warn"}
    run = routed(PERSONAL, config)
    assert h.payload(run, "tier_egress_warning") == {
        "tier": "frontier",
        "destination": "cloud",
        "classification": "personal",
    }
    assert h.payload(run, "tier_selected")["tier"] == "frontier"
    assert run.status == "blocked"
    assert h.payload(run, "egress_denied")["provider"] == "sim:frontier-v1"
    nodes = [("input", {}), ("data_classifier", {"egress": "off"}), ("tier_router", config)]
    graph = h.chain(*nodes, ("llm", {}), ("output", {}))
    free = h.run(graph, {"user_input": PERSONAL, "llm": ANSWERS, "tiers": TIERS})
    assert free.output == "from the frontier"


# -- what there is to choose from -----------------------------------------------------------------


def test_three_tiers_are_packaged() -> None:
    run = routed(PUBLIC, {"default_tier": "cloud"}, None)
    assert h.payload(run, "tier_selected")["destination"] == "cloud"
    shifted = routed(PERSONAL, {"default_tier": "cloud"}, None)
    assert h.payload(shifted, "tier_downshifted")["to"] == "local"


def test_a_layer_replaces_all_of_them_and_a_scenario_the_layer(tmp_path: Path) -> None:
    (tmp_path / "tiers.yaml").write_text("tiers: {big: {destination: cloud}}\n", "utf-8")
    locations = Locations(root=tmp_path, home=None, beside=(tmp_path,), variables={})
    found = {one.name: one for one in h.domain().load_overlays(locations)}
    assert found["tiers"].faults == ()
    in_force = {"tiers": found["tiers"].value}
    assert tiers_of({}, in_force) == {"big": {"destination": "cloud", "level": 0}}
    assert list(tiers_of({"tiers": {"own": {}}}, in_force)) == ["own"]
    assert sorted(tiers_of({}, {})) == ["cloud", "local", "sim"]


@pytest.mark.parametrize(
    ("tiers", "said"),
    [
        ({}, "tiers: must be a mapping that is not empty"),
        ([], "tiers: must be a mapping that is not empty"),
        ({"a": {}}, "tiers.a: required key 'destination' is missing"),
        ({"a": {"destination": "cluod"}}, "write 'cloud'"),
        ({"a": {"destination": "network"}}, "tiers.a.destination: "),
        ({"a": {"destination": "sim", "provider": "gpt-9"}}, "write 'sim:gpt-9'"),
        ({"a": {"destination": "sim", "provider": None}}, "tiers.a.provider: "),
        ({"a": {"destination": "sim", "cost": 1}}, "unknown key"),
        ({"a": {"destination": "sim", "level": -1}}, "tiers.a.level: "),
    ],
)
def test_a_tier_that_is_none_is_refused(tiers: Any, said: str) -> None:
    _, faults = h.parse_environment({"tiers": tiers})
    told = [f"{'.'.join(map(str, one.path))}: {one.text} {one.fix or ''}" for one in faults]
    assert len(told) == 1
    assert said in told[0]


def test_a_tier_that_nobody_describes_is_named_with_the_nearest() -> None:
    graph = h.chain(("input", {}), ("tier_router", {"intents": {"a": "fats"}}), ("output", {}))
    (said,) = h.case_faults(graph, {"tiers": TIERS})
    place = "nodes.1.config.intents.a"
    assert said.startswith(f"{place}: the tier of node 'n2' is described nowhere (got 'fats'; ")
    default = h.chain(("input", {}), ("tier_router", {"default_tier": "clowd"}), ("output", {}))
    (fault,) = h.domain().check_case(h.graph_of(default), {}, h.overlays())
    assert fault.fix == "write 'cloud'"
    assert fault.path == ("nodes", 1, "config", "default_tier")


@pytest.mark.parametrize("is_inline", [True, False])
def test_an_unknown_tier_is_told_where_the_router_names_it(tmp_path: Path, is_inline: bool) -> None:
    lines = [
        "ir_version: 1",
        "id: g",
        "nodes:",
        "- {id: n1, type: input}",
        "- id: n2",
        "  type: tier_router",
        "  config: {default_tier: clowd}",
        "edges: [{from: n1, to: n2}]",
    ]
    graph = "\n".join(["", *(f"    {line}" for line in lines)]) if is_inline else "graph.yaml"
    (tmp_path / "graph.yaml").write_text("\n".join(lines), "utf-8")
    text = f"evarness: 1\nid: s\nsubject:\n  graph: {graph}\nenvironment: {{user_input: x}}\n"
    (tmp_path / "s.yaml").write_text(text, "utf-8")
    from pytest_evarness.api import Runner
    from pytest_evarness.pipeline import Settings

    runner = Runner(Settings(root=tmp_path, home=None, rerun="inline"))
    try:
        with pytest.raises(InputError) as caught:
            runner.run(tmp_path / "s.yaml", "default")
    finally:
        runner.close()
    place = "s.yaml:11:" if is_inline else "graph.yaml:7:"
    assert place in str(caught.value)
    assert "the tier of node 'n2' is described nowhere (got 'clowd'" in str(caught.value)


def test_tiers_among_which_nobody_chose_are_left_over() -> None:
    run = h.run(h.chain(("input", {}), ("output", {})), {"tiers": TIERS})
    assert run.leftovers == ["tiers: no tier router chose among them"]
    assert not any("tiers" in one for one in routed(PUBLIC, {"default_tier": "house"}).leftovers)
    assert h.run(h.chain(("input", {}), ("output", {}))).leftovers == []


@pytest.mark.parametrize(
    ("config", "fix"),
    [
        ({"default_tier": "a", "on_forbidden_egress": "downshft"}, "write 'downshift'"),
        ({"defualt_tier": "a", "intents": {"b": "c"}}, "write 'default_tier'"),
        ({}, None),
        ({"intents": {}}, None),
        ({"intents": {"": "a"}}, None),
    ],
)
def test_what_is_refused_when_the_graph_is_read(config: dict[str, Any], fix: str | None) -> None:
    found = h.remarks(h.chain(("input", {}), ("tier_router", config), ("output", {})))
    assert [one.fix for one in found if one.level == "error"] == [fix]


@pytest.mark.parametrize(
    ("fallback", "intent", "codes"),
    [
        ("reject", "research", []),
        ("reject", "reserch", ["unknown_route"]),
        ("reject", "generic_llm", ["unknown_route"]),
        ("generic_llm", "generic_llm", []),
        ("human_review", "human_review", ["unknown_route"]),
    ],
)
def test_an_intent_that_no_router_before_it_chooses_is_an_error(
    fallback: str, intent: str, codes: list[str]
) -> None:
    router = ("intent_router", {**ROUTER[1], "fallback": fallback})
    tier = ("tier_router", {"intents": {intent: "sim"}, "default_tier": "sim"})
    found = h.remarks(h.chain(("input", {}), router, tier, ("output", {})))
    assert [one.code for one in found if one.level == "error"] == codes
    if intent == "reserch":
        assert [one.fix for one in found if one.level == "error"] == ["write 'research'"]
    # Behind it a router says nothing about the node.
    behind = h.remarks(h.chain(("input", {}), tier, router, ("output", {})))
    assert [one.code for one in behind if one.level == "error"] == []


def test_the_models_of_tiers_are_known_to_contracts() -> None:
    graph = h.graph_of(h.chain(("input", {}), ("tier_router", {"default_tier": "fast"})))
    parsed, _ = h.parse_environment({"tiers": TIERS})
    found = h.domain().identities(graph, parsed, h.overlays())["provider"]
    assert {"sim:frontier-v1", "sim:fast-v1", "sim:house-v1", "sim:helpful-v1"} <= found

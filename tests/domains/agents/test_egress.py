"""What is classified leaves only to where its class may go, and every passage is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.domains.agents.egress import DESTINATIONS, MODES, Egress, is_legal
from pytest_evarness.domains.agents.vocabulary import CLASSIFICATIONS
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

TEXTS = {
    "public": "What is the weather?",
    "internal": "Summarise this, internal use.",
    "personal": "Write to ada@example.org.",
    "secret": "The password is swordfish.",
}
LLM: tuple[str, dict[str, Any]] = ("llm", {})
SAID: dict[str, Any] = {"default_response": {"text": "fine"}}
TIERS = {name: {"destination": name} for name in ("sim", "local", "cloud")}


def classifier(mode: str = "enforce") -> tuple[str, dict[str, Any]]:
    return ("data_classifier", {"egress": mode})


def model(classification: str, mode: str = "enforce", tier: str | None = None) -> Run:
    nodes = [("input", {}), classifier(mode)]
    environment: dict[str, Any] = {**SAID, "user_input": TEXTS[classification]}
    if tier is not None:
        nodes.append(("tier_router", {"default_tier": tier, "on_forbidden_egress": "warn"}))
        environment["tiers"] = TIERS
    return h.run(h.chain(*nodes, LLM, ("output", {})), environment)


def tool(classification: str, name: str, mode: str = "enforce", **more: Any) -> Run:
    node = ("tool", {"tool": name, **more})
    graph = h.chain(("input", {}), classifier(mode), node, ("output", {}))
    scripted: dict[str, Any] = {name: [{"result": []}]}
    return h.run(graph, {"user_input": TEXTS[classification], "tools": scripted})


LEGAL = {
    "public": {"sim", "local", "cloud", "network"},
    "internal": {"sim", "local"},
    "personal": {"sim", "local"},
    "secret": set(),
}


@pytest.mark.parametrize("classification", CLASSIFICATIONS)
def test_where_each_class_may_go(classification: str) -> None:
    assert {to for to in DESTINATIONS if is_legal(classification, to)} == LEGAL[classification]


@pytest.mark.parametrize("classification", CLASSIFICATIONS)
@pytest.mark.parametrize("tier", ["sim", "local", "cloud"])
def test_a_model_is_asked_only_where_the_class_may_go(classification: str, tier: str) -> None:
    run = model(classification, tier=tier)
    allowed = tier in LEGAL[classification]
    assert h.payload(run, "egress_checked") == {
        "destination": tier,
        "classification": classification,
        "verdict": "allow" if allowed else "deny",
        "provider": "sim:helpful-v1",
    }
    assert run.status == ("completed" if allowed else "blocked")
    assert ("llm_request" in h.types(run)) is allowed
    assert ("egress_denied" in h.types(run)) is not allowed


def test_a_model_is_simulated_where_no_tier_says_where_it_is() -> None:
    assert h.payload(model("personal"), "egress_checked")["destination"] == "sim"
    blocked = model("secret")
    assert blocked.status == "blocked"
    assert h.payload(blocked, "egress_denied") == {
        "destination": "sim",
        "classification": "secret",
        "provider": "sim:helpful-v1",
    }
    (reason,) = [e.payload["reason"] for e in blocked.events if e.type == "policy_violation"]
    assert reason == "egress: what is secret must not go to sim"


@pytest.mark.parametrize(
    ("name", "destination"), [("email.search", "local"), ("web.search", "network")]
)
def test_a_tool_is_where_its_manifest_says(name: str, destination: str) -> None:
    run = tool("public", name)
    assert run.status == "completed"
    assert h.payload(run, "egress_checked") == {
        "destination": destination,
        "classification": "public",
        "verdict": "allow",
        "tool": name,
    }


def test_a_refused_call_is_a_decision_of_the_policy_and_never_made() -> None:
    run = tool("personal", "web.search")
    assert run.status == "blocked"
    decision = h.payload(run, "policy_decision")
    assert (decision["capability"], decision["rule"]) == ("web.search", "egress")
    assert h.types(run)[-5:-2] == ["egress_checked", "egress_denied", "policy_decision"]
    assert "tool_called" not in h.types(run)
    # What stays local may be called.
    assert "tool_called" in h.types(tool("personal", "email.search"))
    assert "tool_called" not in h.types(tool("secret", "email.search"))


POST = {"http": {"service": "site", "method": "POST", "path": "/", "body": "{query}"}}


@pytest.mark.parametrize(
    ("manifest", "answers", "destination"),
    [
        ({"effects": [POST]}, None, "network"),
        ({"effects": [POST]}, [{"result": "ok"}], "network"),
        ({"sim": [{"result": "ok", "effects": [POST]}]}, None, "network"),
        ({}, [{"match": {"turn": 9}, "result": "", "effects": [POST]}, {"result": ""}], "network"),
        ({"effects": [POST]}, [{"result": "ok", "effects": []}], "local"),
        ({"effects": [POST]}, [{"raise": "down"}], "local"),
        ({}, [{"result": "ok"}], "local"),
    ],
)
def test_a_tool_that_sends_a_request_is_not_local_whatever_its_manifest_says(
    manifest: dict[str, Any], answers: Any, destination: str
) -> None:
    own = h.manifest("note.post", "write", **{"sim": [{"result": "ok"}], **manifest})
    assert own["note.post"]["safety"]["network"] == "none"
    node = ("tool", {"tool": "note.post", "approve_side_effects": True})
    graph = h.chain(("input", {}), classifier(), node)
    environment: dict[str, Any] = {
        "user_input": "Write to ada@example.org.",
        "services": {"site": {"type": "http_mock"}},
    }
    if answers is not None:
        environment["tools"] = {"note.post": answers}
    run = h.run(graph, environment, tools=own)
    assert h.payload(run, "egress_checked")["destination"] == destination
    # What is personal goes nowhere but there.
    assert ("tool_called" in h.types(run)) is (destination == "local")


def test_the_manifest_is_asked_before_the_gate() -> None:
    run = tool("secret", "fs.write")
    assert h.payload(run, "policy_decision")["rule"] == "side_effects_not_approved"
    assert "egress_checked" not in h.types(run)
    allowed = tool("secret", "fs.write", approve_side_effects=True)
    assert h.payload(allowed, "policy_decision")["rule"] == "egress"


def test_every_attempt_passes_the_gate() -> None:
    node = ("tool", {"tool": "web.search", "retries": 1})
    graph = h.chain(("input", {}), classifier(), node, ("output", {}))
    environment = {
        "user_input": "weather",
        "tools": {"web.search": [{"result": []}]},
        "faults": {"web.search": {"fail_before": {"first": 1}}},
    }
    run = h.run(graph, environment)
    assert run.status == "completed"
    assert len(h.payloads(run, "egress_checked")) == len(h.payloads(run, "tool_called")) == 2


def test_a_warning_lets_pass_and_says_so() -> None:
    run = model("secret", "warn")
    assert run.status == "completed"
    checked = h.payload(run, "egress_checked")
    assert (checked["verdict"], checked["warned"]) == ("allow", True)
    assert "egress_denied" not in h.types(run)
    sent = tool("personal", "web.search", "warn")
    assert h.payload(sent, "egress_checked")["warned"] is True
    assert "tool_called" in h.types(sent)
    assert "warned" not in h.payload(model("public", "warn"), "egress_checked")


def test_nothing_is_checked_where_the_gate_is_off_or_nothing_was_classified() -> None:
    off = model("secret", "off")
    assert off.status == "completed"
    assert h.payload(off, "content_classified")["run_classification"] == "secret"
    assert "egress_checked" not in h.types(off)
    bare = h.run(
        h.chain(("input", {}), LLM, ("output", {})), {**SAID, "user_input": TEXTS["secret"]}
    )
    assert "egress_checked" not in h.types(bare)


@pytest.mark.parametrize("first", MODES)
@pytest.mark.parametrize("second", MODES)
def test_the_strictest_classifier_holds_whoever_ran_last(first: str, second: str) -> None:
    graph = h.chain(("input", {}), classifier(first), classifier(second), LLM, ("output", {}))
    run = h.run(graph, {**SAID, "user_input": TEXTS["secret"]})
    assert run.status == ("blocked" if "enforce" in (first, second) else "completed")
    assert ("egress_checked" in h.types(run)) is (first != "off" or second != "off")


def test_the_mark_rises_and_never_falls() -> None:
    state = Egress()
    seen = []
    for word in ("internal", "public", "secret", "personal"):
        state.classify(word, "off")
        seen.append(state.classification)
    assert seen == ["internal", "internal", "secret", "secret"]


def enforcing(*nodes: tuple[str, dict[str, Any]], **environment: Any) -> bool:
    return "egress" in h.domain().enforcements(h.graph_of(h.chain(*nodes)), environment)


def test_the_gate_enforces_where_nothing_is_reached_without_it() -> None:
    read = ("tool", {"tool": "web.search"})
    assert enforcing(("input", {}), classifier(), LLM, read)
    assert not enforcing(("input", {}), LLM)
    assert not enforcing(("input", {}), LLM, classifier(), read)
    assert not enforcing(("input", {}), classifier("warn"), LLM)
    assert not enforcing(("input", {}), classifier("off"), LLM)
    assert enforcing(("input", {}), classifier("warn"), classifier(), LLM)


@pytest.mark.parametrize("judge", ["llm_judge", "judge_chain", "judge_panel"])
def test_a_judge_is_a_model_too(judge: str) -> None:
    assert enforcing(("input", {}), classifier(), (judge, {}), LLM)
    assert not enforcing(("input", {}), (judge, {}), classifier(), LLM)


def test_what_a_step_of_the_users_own_sends_passes_no_gate() -> None:
    step = ("python", {"callable": "steps:work"})
    assert enforcing(("input", {}), classifier(), step, LLM)
    services = {"bank": {"type": "http_mock"}}
    assert not enforcing(("input", {}), classifier(), step, LLM, services=services)


# -- what comes in behind the classifier -----------------------------------------------------------

FOUND: dict[str, Any] = {"result": [{"text": "the password is swordfish, ada@example.org"}]}


def searching(mode: str, found: Any, query: str) -> Run:
    """A loop that reads a file and asks the net with what stands in it."""
    loop = ("loop_controller", {"tools": ["fs.search", "web.search"], "require_evidence": False})
    graph = h.chain(("input", {}), classifier(mode), loop, ("output", {}))
    turns: list[Any] = [
        {"action": {"tool": "fs.search", "input": {"query": "it"}}},
        {"action": {"tool": "web.search", "input": {"query": query}}},
        {"respond": {"text": "fine"}},
    ]
    tools = {"fs.search": [found], "web.search": [{"result": []}]}
    return h.run(graph, {"user_input": "find it", "react": turns, "tools": tools})


def test_what_a_tool_brings_is_looked_at_before_it_leaves() -> None:
    run = searching("enforce", FOUND, "swordfish")
    assert run.status == "blocked"
    first, second = h.payloads(run, "content_classified")
    assert (first["run_classification"], second["run_classification"]) == ("public", "secret")
    assert second["signals"] == ["personal:email", "secret:password"]
    assert h.payload(run, "egress_denied")["destination"] == "sim"


def test_what_a_model_asks_a_tool_for_is_looked_at() -> None:
    run = searching("enforce", {"result": []}, "who is ada%40example.org")
    assert run.status == "blocked"
    denied = h.payload(run, "egress_denied")
    assert denied == {
        "destination": "network", "classification": "personal", "tool": "web.search",
    }  # fmt: skip
    assert h.payload(run, "policy_decision")["rule"] == "egress"


def test_what_holds_nothing_new_is_told_no_second_time() -> None:
    run = searching("enforce", {"result": [{"text": "sunny"}]}, "weather")
    assert run.status == "completed"
    assert len(h.payloads(run, "content_classified")) == 1
    assert all(one["verdict"] == "allow" for one in h.payloads(run, "egress_checked"))


def test_a_warning_tells_what_left_and_off_looks_at_nothing() -> None:
    warned = searching("warn", FOUND, "swordfish")
    assert warned.status == "completed"
    assert h.payloads(warned, "egress_checked")[-1]["warned"] is True
    off = searching("off", FOUND, "swordfish")
    assert len(h.payloads(off, "content_classified")) == 1
    assert "egress_checked" not in h.types(off)


def test_what_a_prompt_adds_is_looked_at() -> None:
    nodes = [("input", {}), classifier(), ("llm", {"system": "The api key is 7."})]
    run = h.run(h.chain(*nodes, ("output", {})), {**SAID, "user_input": "find it"})
    assert run.status == "blocked"
    plain = h.run(h.chain(*nodes[:2], LLM, ("output", {})), {**SAID, "user_input": "find it"})
    assert plain.status == "completed"

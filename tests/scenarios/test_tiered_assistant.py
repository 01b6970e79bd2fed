"""Which model may see a request: one change of the harness breaks exactly what it should."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.shipped import FILE, PATTERNS, Change, found, odd, only, read, replica, shipped

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

NAME = "tiered_assistant"
NUMBER = "078-05-1120"


def bent(case: str, change: Change) -> tuple[dict[str, Any], dict[str, str]]:
    """One case with its graph in place, changed; and the files that it needs then."""
    scenario = only(shipped(NAME), case)
    place = scenario["cases"][case]
    subject = place.pop("subject", scenario["subject"])["graph"]
    fixture = subject.partition("/")[2]
    folder = PATTERNS / NAME
    scenario["subject"] = {"graph": read(folder / "graph.json")}
    place.setdefault("environment", {})["fixture"] = "fixtures/f.yaml"
    change(scenario["subject"]["graph"])
    files = {
        "scenarios/contracts.yaml": (folder / "contracts.yaml").read_text("utf-8"),
        "scenarios/fixtures/f.yaml": (folder / "fixtures" / f"{fixture}.yaml").read_text("utf-8"),
    }
    return scenario, files


def ran(session: Session, case: str, change: Change) -> Ran:
    scenario, files = bent(case, change)
    return session("--evarness-unsigned", files={FILE: scenario, **files})


def config(node: str, **values: Any) -> Change:
    """Write these keys into the configuration of a node."""

    def change(graph: dict[str, Any]) -> None:
        (one,) = [entry for entry in graph["nodes"] if entry["id"] == node]
        one.setdefault("config", {}).update(values)

    return change


def without(node: str) -> Change:
    """Take a node out of its row."""

    def change(graph: dict[str, Any]) -> None:
        edges = graph["edges"]
        (source,) = [edge["from"] for edge in edges if edge["to"] == node]
        for edge in edges:
            if edge["from"] == node:
                edge["from"] = source
        graph["edges"] = [edge for edge in edges if edge["to"] != node]
        graph["nodes"] = [entry for entry in graph["nodes"] if entry["id"] != node]

    return change


def both(*changes: Change) -> Change:
    def change(graph: dict[str, Any]) -> None:
        for one in changes:
            one(graph)

    return change


def past_the_redaction(graph: dict[str, Any]) -> None:
    graph["edges"].append({"from": "n4", "to": "n9", "to_port": "question"})


def redaction_after_the_model(graph: dict[str, Any]) -> None:
    without("n5")(graph)
    graph["nodes"].append({"id": "n5", "type": "redaction_rules"})
    for edge in graph["edges"]:
        if edge["from"] == "n11":
            edge["from"] = "n5"
    graph["edges"].append({"from": "n11", "to": "n5"})


def redaction_after_the_approval(graph: dict[str, Any]) -> None:
    without("n5")(graph)
    graph["nodes"].append({"id": "n5", "type": "redaction_rules"})
    for edge in graph["edges"]:
        if edge["from"] == "n6":
            edge["from"] = "n5"
    graph["edges"].append({"from": "n6", "to": "n5"})


def echo(graph: dict[str, Any]) -> None:
    """The answer is what came in: the raw text reaches the end by a way of its own."""
    graph["edges"] = [edge for edge in graph["edges"] if edge["to"] != "n12"]
    graph["edges"].append({"from": "n4", "to": "n12"})


@pytest.mark.parametrize(
    ("case", "change", "failing"),
    [
        ("personal", past_the_redaction, {"redacted-stays-redacted"}),
        ("personal", config("n6", require_when="classified"), set()),
        ("asks", without("n6"), {"expect", "personal-needs-a-person"}),
        ("everyday", config("n6", require_when="always"), {"expect", "everyday-goes-to-the-cloud"}),
        ("everyday", without("n4"), {"classified-before-the-model"}),
        ("everyday", without("n3"), {"terms-before-the-model"}),
        (
            "everyday",
            config("n7", default_tier="frontier"),
            {"expect", "everyday-goes-to-the-cloud"},
        ),
        ("research", config("n7", intents={}), {"expect", "research-gets-the-best"}),
        (
            "forbidden",
            config("n3", mode="warn"),
            {"expect", "refused-for-its-term", "terms-before-the-model"},
        ),
        (
            "internal",
            both(config("n7", on_forbidden_egress="warn"), config("n4", egress="warn")),
            {"expect", "cloud-sees-only-what-is-public", "shifted-into-the-house"},
        ),
        (
            "internal",
            both(config("n7", on_forbidden_egress="warn"), config("n4", egress="off")),
            {"expect", "cloud-sees-only-what-is-public", "shifted-into-the-house"},
        ),
        # One of the two that guard the way out is enough.
        (
            "internal",
            config("n7", on_forbidden_egress="warn"),
            {"expect", "shifted-into-the-house"},
        ),
        (
            "internal",
            config("n7", on_forbidden_egress="block"),
            {"expect", "shifted-into-the-house"},
        ),
        ("internal", config("n4", egress="off"), set()),
        ("secret", config("n4", egress="warn"), set()),
        # What is looked for in the open net is a way out as well.
        ("personal", config("n8", tool="web.search"), {"expect", "shifted-into-the-house"}),
        ("everyday", config("n8", tool="db.query"), None),
    ],
)
def test_one_change_breaks_what_it_should(
    session: Session, case: str, change: Change, failing: set[str] | None
) -> None:
    made = ran(session, case, change)
    if failing is None:
        assert made.code != 0
        return
    made_odd = {name for name, outcome in odd(made, case).items() if outcome.startswith("fail")}
    undecided = set(odd(made, case)) - made_odd
    expected_open = {"expect", *failing} if replica(made, case)["status"] == "paused" else set()
    assert made_odd | (undecided & expected_open) == failing, odd(made, case)
    assert (made.code == 0) is (not failing)


def test_the_redaction_behind_the_model_comes_too_late(session: Session) -> None:
    made = ran(session, "personal", redaction_after_the_model)
    assert "redaction-precedes-model" in odd(made, "personal")
    assert replica(made, "personal")["verdict"] == "invalid"


def test_a_leak_is_told_with_where_the_datum_entered_and_without_the_datum(
    session: Session,
) -> None:
    leak = found(
        ran(session, "personal", past_the_redaction), "redacted-stays-redacted", "personal"
    )
    assert leak["outcome"] == "fail"
    assert leak["reason"].startswith(
        "ssn that entered at event 0 (run_started.input) and was redacted at event "
    )
    assert "stands in event " in leak["reason"]
    assert "(llm_request.text)" in leak["reason"]
    assert NUMBER not in str(leak)
    first, redacted, second = json.loads(leak["witness"])["events"]
    assert first == 0 < redacted < second


def test_the_person_and_the_end_are_looked_at_too(session: Session) -> None:
    answered = found(ran(session, "personal", echo), "redacted-stays-redacted", "personal")
    assert "(interceptor_applied" in answered["reason"] or "run_finished" in answered["reason"]
    asked = ran(session, "asks", redaction_after_the_approval)
    # Nothing was redacted before the person was asked, and the preview shows it.
    assert odd(asked, "asks") == {"redacted-stays-redacted": "fail"}


def test_a_pass_says_where_it_entered(session: Session) -> None:
    fine = found(
        ran(session, "personal", lambda graph: None), "redacted-stays-redacted", "personal"
    )
    assert fine["outcome"] == "pass"
    assert fine["reason"].startswith("ssn that entered at event 0 (run_started.input)")


def test_the_label_is_preventive_only_where_the_gate_is_armed(session: Session) -> None:
    name = "cloud-sees-only-what-is-public"
    armed = found(ran(session, "internal", lambda graph: None), name, "internal")
    assert armed["label"] == "preventive"
    for mode in ("warn", "off"):
        made = found(ran(session, "internal", config("n4", egress=mode)), name, "internal")
        assert made["label"] == "detection-only"

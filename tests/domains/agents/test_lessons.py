"""Each lesson ends with something to break; the invariant it names is the one that notices."""

from __future__ import annotations

import json
import shutil
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.api import Result, Runner
from pytest_evarness.errors import InputError
from pytest_evarness.pipeline import Settings
from tests.domains.agents import harness as h

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Callable[..., Result]]:
    """Runs a shipped scenario over a changed copy of its pattern."""
    runner = Runner(Settings(root=tmp_path, home=None, rerun="inline"))

    def run(name: str, case: str, change: Change = lambda graph: None, file: str = "") -> Result:
        folder = tmp_path / "pattern"
        shutil.copytree(h.PATTERNS / name, folder)
        graph = json.loads((folder / "graph.json").read_text("utf-8"))
        change(graph)
        (folder / "graph.json").write_text(json.dumps(graph), "utf-8")
        text = (h.REPOSITORY / "scenarios" / f"{file or name}.yaml").read_text("utf-8")
        for fixture in h.registry().patterns.resolve(name).fixtures:
            text = text.replace(f"pattern:{name}/{fixture}", "pattern/graph.json")
        (tmp_path / "s.yaml").write_text(text, "utf-8")
        scenario = h.read(tmp_path / "s.yaml")
        fixture = h.registry().patterns.resolve(name).default_fixture
        if "failure" in case:
            fixture = "failure"
        scenario.setdefault("environment", {})["fixture"] = f"pattern/fixtures/{fixture}.yaml"
        return runner.run(scenario, case)

    yield run
    runner.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Callable[..., Result]]:
    """Runs the shipped refund desk over a changed copy of its graph and fixture."""
    runner = Runner(Settings(root=tmp_path, home=None, rerun="inline"))

    def run(
        case: str,
        change: Change = lambda graph: None,
        refit: Change = lambda fixture: None,
        fixture: str = "keyed",
    ) -> Result:
        folder = h.PATTERNS / "refund_desk"
        graph, environment = (
            h.read(folder / "graph.json"),
            h.read(folder / f"fixtures/{fixture}.yaml"),
        )
        change(graph)
        refit(environment)
        shutil.copy(folder / "contracts.yaml", tmp_path)
        (tmp_path / "graph.json").write_text(json.dumps(graph), "utf-8")
        (tmp_path / "fixture.yaml").write_text(json.dumps(environment), "utf-8")
        scenario = h.read(h.REPOSITORY / "scenarios" / "refund_desk.yaml")
        scenario["subject"]["graph"] = "graph.json"
        scenario["environment"]["fixture"] = "fixture.yaml"
        return runner.run(scenario, case)

    yield run
    runner.close()


def node(graph: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in graph["nodes"] if one["id"] == name)


def failures(result: Result) -> set[str]:
    return {one.id for one in result.findings if one.outcome.word == "fail"}


@pytest.mark.parametrize(
    ("name", "case", "file"),
    [
        ("single_shot_qa", "blank_answer", ""),
        ("approval_gated_send", "approve", ""),
        ("approval_gated_send", "revoked", "approval_gated_send_repaired"),
        ("governed_email_assistant", "failure", ""),
        ("governed_email_assistant", "happy", ""),
    ],
)
def test_unbroken_they_are_valid(
    broken: Callable[..., Result], name: str, case: str, file: str
) -> None:
    assert broken(name, case, file=file).verdict == "valid"


def test_a_blank_answer_passes_where_nothing_validates(broken: Callable[..., Result]) -> None:
    def change(graph: dict[str, Any]) -> None:
        node(graph, "n4")["config"]["chain"].remove("schema_validate")

    result = broken("single_shot_qa", "blank_answer", change)
    assert failures(result) == {"expect", "final-answer-nonempty"}


def test_a_swapped_message_is_noticed_with_both_digests(broken: Callable[..., Result]) -> None:
    module = types.ModuleType("evarness_lesson_steps")
    module.swap = lambda inputs, config, context: inputs["in"][0] + " and to Eve"  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module

    def change(graph: dict[str, Any]) -> None:
        step = {"callable": f"{module.__name__}:swap"}
        graph["nodes"].append({"id": "n3b", "type": "python", "config": step})
        graph["edges"][2] = {"from": "n3", "to": "n3b"}
        graph["edges"].append({"from": "n3b", "to": "n4"})

    result = broken("approval_gated_send", "approve", change)
    del sys.modules[module.__name__]
    assert failures(result) == {"approved-message-is-sent"}
    digests = [
        event.payload[key]
        for event in result.trace
        for key in ("artifact_digest", "args_digest")
        if key in event.payload
    ]
    assert len(set(digests)) == 2
    witness = json.dumps(result.finding("approved-message-is-sent").witness.as_record())
    assert all(str(digest) in witness for digest in digests)


def test_a_way_round_the_gate_is_refused_before_anything_runs(
    broken: Callable[..., Result],
) -> None:
    def change(graph: dict[str, Any]) -> None:
        graph["edges"].append({"from": "n2", "to": "n4"})

    with pytest.raises(InputError, match=r"reached without an approval gate \(by n1 -> n2 -> n4\)"):
        broken("approval_gated_send", "approve", change)


def test_an_approval_that_lives_lets_the_call_through(broken: Callable[..., Result]) -> None:
    # The twin of the repaired run: revoked one node later, the message is gone.
    result = broken("approval_gated_send", "approve")
    assert any(event.type == "tool_called" for event in result.trace)


def test_a_policy_that_looks_first_leaves_the_number_unmasked(
    broken: Callable[..., Result],
) -> None:
    def change(graph: dict[str, Any]) -> None:
        node(graph, "n3")["config"]["chain"].reverse()

    result = broken("governed_email_assistant", "failure", change)
    assert failures(result) == {"attack-0-redaction_applied"}


def test_a_model_that_is_asked_before_the_policy_is_noticed(broken: Callable[..., Result]) -> None:
    def change(graph: dict[str, Any]) -> None:
        graph["edges"] = [edge for edge in graph["edges"] if "n3" not in (edge["from"], edge["to"])]
        graph["nodes"].remove(node(graph, "n3"))
        graph["edges"] += [
            {"from": "n2", "to": "n4"},
            {"from": "n1", "to": "n7", "to_port": "question"},
        ]

    result = broken("governed_email_assistant", "happy", change)
    assert failures(result) == {"policy-looks-before-the-model"}


DESK = ("approve", "lost_answer_with_key", "bank_breaks_off", "bank_refuses_at_first")
STILL = ("reject", "pending", "withdrawn")


@pytest.mark.parametrize("case", [*DESK, *STILL])
def test_the_refund_desk_is_valid_in_each_case(desk: Callable[..., Result], case: str) -> None:
    assert desk(case).verdict == "valid"


def test_a_desk_without_keys_shows_it_only_where_an_answer_is_lost(
    desk: Callable[..., Result],
) -> None:
    assert desk("approve", fixture="unkeyed").verdict == "valid"
    result = desk("lost_answer_with_key", fixture="unkeyed")
    assert result.verdict == "invalid"
    assert failures(result) == {
        "booked-once",
        "paid-once",
        "one-effect-per-intent",
        "forbidden-duplicate-effects",
        "honest-answer",
    }
    # The twin: what the key makes of the same retry.
    kept = desk("lost_answer_with_key")
    assert [event.type for event in kept.trace].count("effect_applied") == 2
    assert [event.type for event in kept.trace].count("effect_replayed") == 2


def test_an_approval_of_one_use_stops_the_retry(desk: Callable[..., Result]) -> None:
    def change(graph: dict[str, Any]) -> None:
        node(graph, "n2")["config"]["uses"] = 1

    result = desk("lost_answer_with_key", change)
    assert failures(result) == {"expect", "honest-answer"}
    assert "approval_used" in result.finding("expect").reason


def test_a_zero_added_behind_the_gate_moves_nothing(desk: Callable[..., Result]) -> None:
    module = types.ModuleType("evarness_lesson_zero")
    module.add = lambda inputs, config, context: inputs["in"][0].replace("19.9", "199.")  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module

    def change(graph: dict[str, Any]) -> None:
        step = {"callable": f"{module.__name__}:add"}
        graph["nodes"].append({"id": "n2b", "type": "python", "config": step})
        graph["edges"][1] = {"from": "n2", "to": "n2b"}
        graph["edges"].append({"from": "n2b", "to": "n3"})

    result = desk("approve", change)
    del sys.modules[module.__name__]
    assert result.verdict == "invalid"
    (refused,) = [event for event in result.trace if event.type == "policy_decision"]
    assert refused.payload["rule"] == "approval_missing"
    args: Any = refused.payload["args"]
    assert args["amount"] == 199
    assert not any(event.type == "effect_applied" for event in result.trace)


def test_a_desk_that_pays_first_is_noticed(desk: Callable[..., Result]) -> None:
    def refit(environment: dict[str, Any]) -> None:
        environment["tools"]["payment.transfer"][0]["effects"].reverse()

    assert failures(desk("approve", refit=refit)) == {"booked-before-paid"}

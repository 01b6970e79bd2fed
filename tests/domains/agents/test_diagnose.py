"""Behind a block that is observed tools answer, and nothing of what they would do is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.event import is_tainted
from pytest_evarness.world.application import SEALED, WITHHELD, Applier
from pytest_evarness.world.service import EffectFailedError
from tests.domains.agents import harness as h
from tests.domains.agents.test_effect import INSERT, POST, SERVICES, seen
from tests.world.ground import Database, Emitted, Mock, World

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.run import Run

MESSAGE = {"message": {"to": "ann", "body": "{query}"}}
ACTING = ("effect_applied", "http_request", "db_write", "file_write")


def rejected(
    decision: str, *effects: Any, world: World | None = None, diagnose: bool = True, **more: Any
) -> Run:
    """A send behind a gate: the decision is a person's."""
    config = {"tool": "email.send", "approve_side_effects": True}
    graph = h.chain(("input", {}), ("approval_gate", {}), ("tool", config), ("output", {}))
    answer = {"result": "sent", "effects": list(effects), "times": "any"}
    written = {
        "user_input": "hello",
        "services": SERVICES,
        "tools": {"email.send": [answer]},
        "approvals": {"n2": decision},
        **({"workspace": {}} if world is not None and world.workspace is not None else {}),
        **more,
    }
    return h.run(graph, written, world=world or World(Mock(), Database()), diagnose=diagnose)


def test_a_tool_behind_a_block_answers_and_applies_nothing() -> None:
    mock = Mock()
    run = rejected("reject", POST, MESSAGE, world=World(mock, Database()))
    assert seen(run, "tool_called", "tool_result", "effect_refused", *ACTING) == [
        "tool_called",
        "effect_refused",
        "effect_refused",
        "tool_result",
    ]
    first, second = h.payloads(run, "effect_refused")
    assert (first["effect_id"], first["kind"], second["kind"]) == ("n3#1/0", "http", "message")
    assert first["reason"] == second["reason"] == WITHHELD
    assert first["tainted"] is True
    assert mock.journal == []
    assert run.world_text == '{"ledger":[]}'
    assert run.status == "blocked"


def test_without_a_block_the_same_case_acts() -> None:
    mock = Mock()
    run = rejected("approve", POST, MESSAGE, world=World(mock, Database()))
    assert len(h.payloads(run, "effect_applied")) == 2
    assert len(mock.journal) == 1
    assert run.status == "completed"


def test_the_world_of_an_observed_run_is_the_one_of_the_blocked_run() -> None:
    worlds = [rejected("reject", POST, diagnose=flag).world_text for flag in (True, False)]
    assert worlds[0] == worlds[1]
    assert rejected("approve", POST).world_text != worlds[0]


def test_no_file_is_written_behind_a_block(tmp_path: Path) -> None:
    write = {"file": {"path": "a.txt", "write": "{query}"}}
    rejected("reject", write, world=World(Mock(), workspace=tmp_path))
    assert list(tmp_path.iterdir()) == []
    rejected("approve", write, world=World(Mock(), workspace=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_no_row_is_written_behind_a_block() -> None:
    graph_args = {"tool": "email.send", "approve_side_effects": True, "args": {"query": "q"}}
    for decision, rows in (("reject", 0), ("approve", 1)):
        database = Database()
        insert = {"sql": {**INSERT["sql"], "params": ["r-1", "12.5"]}}
        graph = h.chain(("input", {}), ("approval_gate", {}), ("tool", graph_args), ("output", {}))
        written = {
            "services": SERVICES,
            "tools": {"email.send": [{"result": "x", "effects": [insert]}]},
            "approvals": {"n2": decision},
        }
        run = h.run(graph, written, world=World(Mock(), database), diagnose=True)
        assert len(database.rows) == rows, run.status


def test_the_gates_of_a_call_stand_behind_a_block_as_before_it() -> None:
    graph = h.chain(
        ("input", {}),
        ("approval_gate", {}),
        ("tool", {"tool": "payment.transfer", "approve_side_effects": True}),
        ("output", {}),
    )
    written = {"approvals": {"n2": "reject"}, "tools": {"payment.transfer": [{"result": "x"}]}}
    run = h.run(graph, written, world=World(), diagnose=True)
    denied = h.payload(run, "policy_decision")
    assert (denied["decision"], denied["rule"], denied["tainted"]) == (
        "deny",
        "approval_missing",
        True,
    )
    assert h.payloads(run, "tool_called") == []
    reasons = [one["reason"] for one in h.payloads(run, "policy_violation")]
    assert len(reasons) == 2
    assert h.payload(run, "run_failed")["reason"] == reasons[0]


def test_an_approval_behind_a_block_lets_nothing_act() -> None:
    gate: tuple[str, dict[str, Any]] = ("approval_gate", {})
    config = {"tool": "email.send", "approve_side_effects": True}
    graph = h.chain(("input", {}), gate, gate, ("tool", config), ("output", {}))
    written = {
        "services": SERVICES,
        "tools": {"email.send": [{"result": "x", "effects": [POST]}]},
        "approvals": {"n2": "reject", "n3": "approve"},
    }
    mock = Mock()
    run = h.run(graph, written, world=World(mock, Database()), diagnose=True)
    assert h.payload(run, "approval_granted")["tainted"] is True
    assert h.payload(run, "tool_called")["decision"]["rule"] == "approval"
    assert mock.journal == []
    assert h.payloads(run, "effect_applied") == []


def test_a_run_that_pauses_behind_a_block_asks_nobody() -> None:
    gate: tuple[str, dict[str, Any]] = ("approval_gate", {})
    run = h.run(
        h.chain(("input", {}), gate, gate, ("output", {})),
        {"approvals": {"n2": "reject"}},
        diagnose=True,
    )
    assert (run.status, run.pending) == ("blocked", None)
    assert h.types(run)[-2:] == ["approval_requested", "run_failed"]
    assert is_tainted(run.events[-2].as_record())


@pytest.mark.parametrize("effect", [POST, MESSAGE, {"file": {"path": "a.txt", "write": "x"}}])
def test_a_sealed_world_refuses_whoever_applies_an_effect(
    effect: dict[str, Any], tmp_path: Path
) -> None:
    world = World(Mock(), workspace=tmp_path)
    emitted = Emitted()
    named: dict[str, Any] = {
        "effect_id": "n#1/0",
        "intent_id": "n#1",
        "capability": "email.send",
        "authorized_by": {"rule": "approval", "approval": None},
        "emit": emitted,
        "wait": lambda ms: None,
    }
    Applier(world).apply(effect, **named)
    before = world.seal()
    files = sorted(tmp_path.iterdir())
    with pytest.raises(EffectFailedError, match=r"^the world is sealed"):
        Applier(world).apply(effect, **named)
    assert emitted.events[-1][0] == "effect_refused"
    assert emitted.events[-1][1]["reason"] == SEALED
    assert world.seal() == before
    assert sorted(tmp_path.iterdir()) == files

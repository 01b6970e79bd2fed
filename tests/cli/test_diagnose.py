"""``--diagnose`` at the commands: observed behind a block, refused where it would do nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.scenarios import BROKEN, gated, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Command


def scenario(**more: Any) -> dict[str, Any]:
    made = gated(mode="diagnostic", **more)
    made["cases"] = {"reject": made["cases"]["reject"]}
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_run_shows_what_was_observed(command: Command, folder: Path) -> None:
    write(folder / "s.yaml", scenario())
    stopped = command("run", "s.yaml", "--json")
    ran = command("run", "s.yaml", "--diagnose", "--json")
    assert (stopped.code, ran.code) == (1, 1)
    lines = [json.loads(line) for line in ran.out.splitlines()]
    kinds = [line["type"] for line in lines]
    block = kinds.index("policy_violation")
    assert "tool_called" in kinds[block:]
    assert all(line["payload"]["tainted"] for line in lines[block + 1 :])
    assert "tainted" not in stopped.out


@pytest.mark.parametrize(
    "words",
    [
        ("pattern:approval_gated_send",),
    ],
)
def test_run_of_a_pattern_needs_no_mode(
    command: Command, folder: Path, words: tuple[str, ...]
) -> None:
    ran = command("run", *words, "--approve", "n3=reject", "--diagnose", "--json")
    assert ran.code == 1
    assert '"tainted": true' in ran.out


@pytest.mark.parametrize("name", ["run", "prove"])
def test_it_is_refused_where_it_would_do_nothing(command: Command, folder: Path, name: str) -> None:
    write(folder / "s.yaml", {**scenario(), "mode": "release"})
    more = ("--unsigned",) if name == "prove" else ()
    ran = command(name, "s.yaml", "--diagnose", *more)
    assert (ran.code, ran.out) == (2, "")
    assert "--diagnose: the case is of another mode (got 'release')" in ran.err
    assert "try: write 'mode: diagnostic' in the scenario" in ran.err


def test_prove_seals_the_permission_and_is_never_0(command: Command, folder: Path) -> None:
    write(folder / "s.yaml", scenario())
    ran = command("prove", "s.yaml", "--diagnose", "--unsigned", "--rerun=inline")
    assert ran.code == 1
    assert ran.out.startswith("INVALID s.yaml::reject (run A ended blocked)")
    assert "went on for observation, which is never valid" in ran.out
    assert command("verify", ".evarness/proof.json").code == 4
    write(folder / "s.yaml", scenario())
    assert command("prove", "s.yaml", "--unsigned", "--rerun=inline").code == 3


def test_prove_shows_graders_below_the_failures(command: Command, folder: Path) -> None:
    answer = '{"score": 0.92, "remarks": [{"rule": "rule", "acceptable": true, "why": "small"}]}'
    tone = {
        "description": "it is polite",
        "check": {"type": "llm_as_judge", "criteria": "Is it polite?"},
    }
    made = gated(
        mode="diagnostic",
        invariants={"rule": {**BROKEN, "gate": True}, "tone": tone},
        scoring={"pass_threshold": 0.5},
    )
    made["environment"]["judge"] = [{"respond": {"text": answer}}]
    made["cases"] = {"approve": {}}
    write(folder / "s.yaml", made)
    ran = command("prove", "s.yaml", "--unsigned", "--rerun=inline")
    order = [
        "INVALID s.yaml::approve",
        "remark on the rule 'rule'",
        "what the run did well despite being invalid:",
        "raw composite 0.46",
        "tone: score 0.92",
    ]
    places = [ran.out.index(words) for words in order]
    assert places == sorted(places)


def test_a_file_of_reviews_that_cannot_be_read_is_wrong_input(
    command: Command, folder: Path
) -> None:
    write(folder / "s.yaml", scenario())
    review = {"case": "s.yaml::reject", "invariant": "expect", "reviewer": "dana", "note": "fine"}
    write(folder / "evarness" / "reviews.yaml", [review])
    words = ("prove", "s.yaml", "--unsigned", "--rerun=inline")
    assert command(*words).code == 3
    assert "review by dana: fine" in command("explain", ".evarness/proof.json").out
    write(folder / "evarness" / "reviews.yaml", [{**review, "invariant": "expct"}])
    ran = command(*words)
    assert ran.code == 2
    assert "evarness/reviews.yaml:" in ran.err
    assert "names no finding of that case (got 'expct')" in ran.err

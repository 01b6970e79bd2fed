"""``run`` shows events as they come and exits by how the run ended; wrong words run nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evarness.cli import main

if TYPE_CHECKING:
    from tests.cli.conftest import Command

PUBLISHED = Path(__file__).parents[1] / "core" / "published" / "approval_gated_send.json"
FIXTURE = """\
user_input: Send the Q3 report to my manager
tools:
  email.send:
    - match: {query_contains: q3}
      result: [{id: sent-1, subject: Q3 report, snippet: Delivered to manager@example.com}]
"""


@pytest.fixture
def published(command: Command) -> tuple[str, ...]:
    """The published graph in the world of a fixture, as words of the command."""
    del command  # it makes the folder
    Path("graph.json").write_bytes(PUBLISHED.read_bytes())
    Path("fixture.yaml").write_text(FIXTURE, encoding="utf-8")
    return ("run", "graph.json", "--fixture", "fixture.yaml")


@pytest.mark.parametrize(
    ("decision", "events", "last", "code"),
    [
        (None, 10, "run_paused", 3),
        ("approve", 22, "run_finished", 0),
        ("reject", 11, "run_failed", 1),
    ],
)
def test_the_published_graph_gives_its_published_figures(
    command: Command,
    published: tuple[str, ...],
    decision: str | None,
    events: int,
    last: str,
    code: int,
) -> None:
    words = () if decision is None else ("--approve", f"n3={decision}")
    done = command(*published, *words, "--json")
    assert (done.code, len(done.lines), done.lines[-1]["type"]) == (code, events, last)
    assert [line["seq"] for line in done.lines] == list(range(events))
    assert {tuple(line) for line in done.lines} == {("seq", "type", "node_id", "payload")}


def test_the_human_form_has_a_line_for_each_event(command: Command, first: Path) -> None:
    done = command("run", first, "--case", "reject")
    assert done.code == 1
    lines = done.out.splitlines()
    assert len(lines) == 8
    assert lines[5].split()[:3] == ["5", "approval_rejected", "gate"]
    assert done.err.startswith("blocked after 8 events")


def test_a_pause_names_the_gate_and_the_word_that_goes_on(command: Command, first: Path) -> None:
    text = first.read_text(encoding="utf-8").replace("  approvals: {gate: approve}\n", "")
    first.write_text(text, encoding="utf-8")
    done = command("run", first, "--case", "approve")
    assert done.code == 3
    assert "waits for a decision at gate: Send this message?" in done.err
    assert "try: --approve gate=approve" in done.err
    assert command("run", first, "--case", "approve", "--approve", "gate=approve").code == 0


def test_a_decision_of_the_command_line_wins(command: Command, first: Path) -> None:
    assert command("run", first, "--case", "approve", "--approve", "gate=reject").code == 1


def test_a_pattern_runs_by_its_name(command: Command) -> None:
    done = command("run", "pattern:approval_gated_send", "--approve", "n3=approve", "--json")
    assert (done.code, done.lines[-1]["type"]) == (0, "run_finished")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--approve", "gate=aprove"), "--approve: the decision must be approve or reject (got"),
        (("--approve", "gate"), "--approve: must be NODE=approve or NODE=reject (got 'gate')"),
        (("--approve", "gate:approve"), "try: write '--approve gate=approve'"),
        (("--approve", "gate:rejct"), "try: write '--approve gate=reject'"),
        (("--approve", "=approve"), "--approve: must be NODE=approve or NODE=reject (got"),
        (("--approve", "gte=approve"), "(got 'gte'; gates: gate)"),
        (("--approve", "ask=approve"), "(got 'ask'; gates: gate)"),
        (
            ("--approve", "gate=approve", "--approve", "gate=reject"),
            "--approve: two decisions for one node (got 'gate')",
        ),
        (("--case", "aprove"), "no case has this id (got 'aprove'; known: approve, reject)"),
        (("--fixture", "f.yaml"), "--case goes with a scenario, --fixture with a graph"),
    ],
)
def test_wrong_words_run_nothing(
    command: Command, first: Path, words: tuple[str, ...], text: str
) -> None:
    done = command("run", first, "--case", "approve", *words)
    assert (done.code, done.out) == (2, "")
    assert text in done.err
    assert "--evarness-approve" not in done.err


def test_one_of_several_cases_has_to_be_named(command: Command, first: Path) -> None:
    done = command("run", first)
    assert (done.code, done.out) == (2, "")
    assert "several cases and none was named (known: approve, reject)" in done.err
    done = command("run", first, "--approve", "gate=approve")
    assert "for which case? there are several (cases: approve, reject)" in done.err


def test_a_graph_without_a_fixture_is_refused(command: Command) -> None:
    Path("g.json").write_text('{"ir_version": 1, "nodes": [], "edges": []}', encoding="utf-8")
    done = command("run", "g.json")
    assert done.code == 2
    assert "add '--fixture F'" in done.err


def test_hostile_payloads_reach_no_terminal(command: Command, first: Path) -> None:
    text = first.read_text(encoding="utf-8")
    hostile = r'user_input: "report \u001b[31mred\u001b[0m\u0007 \u202e"'
    first.write_text(text.replace("user_input: Send the report to Dana", hostile), encoding="utf-8")
    for words in ((), ("--json",)):
        done = command("run", first, "--case", "approve", *words)
        assert done.code == 0
        assert not [char for char in done.out if char != "\n" and not char.isprintable()]


def test_colour_is_for_terminals_that_want_it(
    first: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", str(first), "--case", "approve"]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    main(words)
    coloured = capsys.readouterr().out
    assert "\x1b[32mapproval_granted" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    main(words)
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["run", "prove"])
def test_a_folder_is_told_to_be_one_with_a_scenario_to_name(
    command: Command, first: Path, name: str
) -> None:
    done = command(name, first.parent)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"pytest-evarness: scenarios: a folder; name one scenario file\n  try: name '{first}'\n"
    )
    Path("empty").mkdir()
    assert command(name, "empty").err.endswith("a folder; name one scenario file\n")


RAISES = """\
evarness: 1
id: r
subject:
  graph:
    ir_version: 1
    id: r
    nodes:
      - {id: a, type: input}
      - {id: b, type: python, config: {callable: "raising_in_cli:WHICH"}}
      - {id: c, type: output}
    edges: [{from: a, to: b}, {from: b, to: c}]
environment: {user_input: hi}
expect: {status: completed}
"""
RAISING = """
def fails(inputs, config, context):
    raise ValueError("no such row")


def works(inputs, config, context):
    return {"out": "done"}
"""


@pytest.mark.parametrize(("which", "is_told"), [("fails", True), ("works", False)])
def test_where_a_step_raised_is_told(
    command: Command, monkeypatch: pytest.MonkeyPatch, which: str, is_told: bool
) -> None:
    Path("raising_in_cli.py").write_text(RAISING, encoding="utf-8")
    Path("r.yaml").write_text(RAISES.replace("WHICH", which), encoding="utf-8")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "raising_in_cli", raising=False)
    ran = command("run", "r.yaml")
    assert (ran.code, "  raised at raising_in_cli.py:3\n" in ran.err) == (int(is_told), is_told)
    proved = command("prove", "r.yaml", "--unsigned", "-o", "r.json")
    assert ("     raised at raising_in_cli.py:3\n" in proved.out) is is_told
    explained = command("explain", "r.json").out
    assert "raising_in_cli.py" not in explained
    assert ("ValueError: no such row" in explained) is is_told
    assert ('  failed: node b, python {"callable": "raising_in_cli:' in explained) is is_told


def test_a_mistake_of_a_fixture_is_told_once_at_its_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [{"id": "a", "type": "input"}, {"id": "b", "type": "output"}]
    graph = {"ir_version": 1, "id": "g", "nodes": nodes, "edges": [{"from": "a", "to": "b"}]}
    Path("g.json").write_text(json.dumps(graph), encoding="utf-8")
    for text, told in (
        ("seed: x\n", "f.yaml:1:7: seed: must be an integer"),
        ("approvals: {gat: approve}\n", "f.yaml:1:13: approvals: a decision is for"),
        ("tol: {}\n", "f.yaml:1:1: unknown key (got 'tol'"),
    ):
        Path("f.yaml").write_text(text, encoding="utf-8")
        done = command("run", "g.json", "--fixture", "f.yaml")
        assert done.code == 2
        assert done.err.startswith(f"pytest-evarness: {told}")
        assert "environment" not in done.err
    Path("f.yaml").write_text("seed: 1\n", encoding="utf-8")
    assert command("run", "g.json", "--fixture", "f.yaml").code == 0

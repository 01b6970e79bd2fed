"""``prove`` makes the bundle that a session makes, and exits by what it says."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Command, Done

INLINE = ("--rerun", "inline")
BUNDLE = Path(".evarness") / "proof.json"


def predicate(path: Path = BUNDLE) -> dict[str, Any]:
    envelope = json.loads(path.read_text(encoding="utf-8"))
    statement = json.loads(base64.b64decode(envelope["payload"]))
    found: dict[str, Any] = statement["predicate"]
    return found


def test_a_scenario_that_holds_exits_0_and_its_bundle_verifies(
    command: Command, first: Path
) -> None:
    done = command("prove", first)
    assert done.code == 0, done.err
    assert "bundle .evarness/proof.json holds" in done.out
    assert predicate()["environment"]["rerun"] == "mirror"
    key = Path.home() / ".evarness" / "signing.pem.pub"
    assert command("verify", BUNDLE, "--key", key).code == 0


def test_a_violation_exits_1_and_names_the_primary_failure(command: Command, first: Path) -> None:
    done = command("prove", first, "--case", "approve", "--approve", "gate=reject", *INLINE)
    assert done.code == 1
    assert "INVALID scenarios/approved_send.yaml::approve (run A ended blocked)" in done.out
    assert " * fail          expect: the run ended blocked, not completed" in done.out
    assert predicate()["verdict"]["holds"] is False


def test_a_pause_that_nobody_declared_exits_3(command: Command) -> None:
    done = command("prove", "pattern:approval_gated_send", *INLINE, "--json")
    assert (done.code, done.json["exit"], done.json["holds"]) == (3, 3, None)
    assert done.json["verdict"]["pending"] == 1


def test_what_was_not_there_is_told_from_an_evaluator_that_broke(command: Command) -> None:
    words = ("prove", "pattern:approval_gated_send", *INLINE)
    done = command(*words)
    assert "indeterminate expect: " in done.out
    (line,) = [one for one in done.out.splitlines() if " expect: " in one]
    assert line.endswith("(unfinished_run)")
    found = command(*words, "--json").json["cases"][0]["findings"]
    causes = {one["id"]: one["causes"] for one in found}
    assert (causes["expect"], causes["reproduces"]) == (["unfinished_run"], [])
    # A contract that gets its own corpus wrong: we broke, and the harness did nothing.
    Path("contracts").mkdir(exist_ok=True)
    Path("contracts/mine.yaml").write_text(
        "contracts:\n  wrong:\n    owner: o\n    rationale: r\n"
        "    applies_to: {tools: [email.send]}\n"
        "    assert: {never: {type: budget_breached}}\n"
        "    corpus:\n      positive: {a: [{type: budget_breached}]}\n"
        "      negative: {b: [{type: budget_breached}]}\n"
        "      missing_evidence: {c: {events: [], uncovered: [budget_breached]}}\n",
        encoding="utf-8",
    )
    out = command(*words, "--approve", "n3=approve").out
    (line,) = [one for one in out.splitlines() if " wrong: " in one and "own corpus" in one]
    assert line.startswith("   evaluator     wrong: ")
    assert line.endswith("(evaluator_error)")


def test_a_pattern_with_a_decision_holds(command: Command) -> None:
    done = command(
        "prove", "pattern:approval_gated_send", "--approve", "n3=approve", *INLINE, "--json"
    )
    assert (done.code, done.json["holds"]) == (0, True)
    assert done.json["cases"][0]["nodeid"] == "pattern:approval_gated_send::default"


def test_a_chosen_case_is_planned_alone_and_can_hold(command: Command, first: Path) -> None:
    done = command("prove", first, "--case", "reject", *INLINE)
    assert done.code == 0
    plan = predicate()["seal"]["plan"]
    assert [case["case"] for case in plan] == ["reject"]
    assert all(item["selected"] for item in plan[0]["items"])


def test_a_case_of_a_matrix_brings_all_its_points(command: Command, first: Path) -> None:
    text = first.read_text(encoding="utf-8") + "matrix: {seed: [1, 2]}\n"
    first.write_text(text, encoding="utf-8")
    done = command("prove", first, "--case", "reject", *INLINE, "--json")
    assert done.code == 0
    assert [case["nodeid"].split("::")[1] for case in done.json["cases"]] == [
        "reject.seed-1",
        "reject.seed-2",
    ]
    done = command("prove", first, "--case", "reject.seed-2", *INLINE, "--json")
    assert len(done.json["cases"]) == 1


def test_the_bundle_goes_where_it_was_sent(command: Command, first: Path) -> None:
    done = command("prove", first, "-o", "out/mine.json", "--unsigned", *INLINE)
    assert done.code == 0
    assert "unsigned: nobody vouches for this bundle" in done.out
    assert predicate(Path("out/mine.json"))["verdict"]["holds"] is True
    assert Path("out/mine.seal.json").is_file()
    assert not BUNDLE.exists()


def test_a_named_key_signs(command: Command, first: Path) -> None:
    command("keygen", "ci.pem")
    assert command("prove", first, "--key", "ci.pem", *INLINE).code == 0
    assert command("verify", BUNDLE, "--key", "ci.pem.pub").code == 0
    assert not (Path.home() / ".evarness").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--executor", "local"), "--executor is not in this version (got 'local')"),
        (("--key", "none.pem"), "--key: no such file (got 'none.pem')"),
        (("--key", "none.pem", "--unsigned"), "--unsigned and --key: only one of them"),
        (("-o", "scenarios"), "-o: must name a file (got the folder 'scenarios')"),
        (("--case", "none"), "no case has this id (got 'none'"),
        (("--approve", "gate=yes"), "--approve: the decision must be approve or reject"),
        (("--root", "nowhere"), "--root: no such folder (got 'nowhere')"),
        (("--contracts", "nowhere"), "--contracts: no such folder (got 'nowhere')"),
    ],
)
def test_wrong_words_run_nothing(
    command: Command, first: Path, words: tuple[str, ...], text: str
) -> None:
    done: Done = command("prove", first, *words, *INLINE)
    assert (done.code, done.out) == (2, "")
    assert text in done.err
    assert not BUNDLE.exists()


def test_a_place_that_cannot_be_written_is_a_sentence(command: Command, first: Path) -> None:
    Path("file").write_text("", encoding="utf-8")
    done = command("prove", first, "-o", "file/proof.json", *INLINE)
    assert done.code == 2
    assert "cannot be written" in done.err


def test_the_command_and_a_session_name_a_case_alike(
    command: Command, first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = Path.cwd()
    monkeypatch.chdir(tmp_path)
    done = command("prove", inside / first, "--root", inside, *INLINE, "--json")
    assert [case["nodeid"] for case in done.json["cases"]] == [
        "scenarios/approved_send.yaml::approve",
        "scenarios/approved_send.yaml::reject",
    ]


def test_a_contract_for_a_misspelt_tool_is_refused_as_a_session_refuses_it(
    command: Command, first: Path
) -> None:
    library = Path("contracts/mine.yaml")
    library.parent.mkdir(exist_ok=True)
    body = (
        "contracts:\n  sent-with-care:\n    status: draft\n    owner: o\n    rationale: r\n"
        "    applies_to: {tools: [TOOL]}\n"
        "    assert: {never: {type: budget_breached}}\n"
    )
    words = ("prove", first, "-o", "p.json", "--unsigned", *INLINE)
    library.write_text(body.replace("TOOL", "emial.send"), encoding="utf-8")
    done = command(*words)
    assert "pytest-evarness: contracts/mine.yaml:6:" in done.err
    assert "write 'email.send'" in done.err
    assert "warning" not in done.err
    # As a file of the library that does not load: the bundle names it, and cannot hold.
    assert (done.code, predicate(Path("p.json"))["verdict"]["holds"]) == (3, None)
    broken = predicate(Path("p.json"))["seal"]["broken"]
    assert [row["file"] for row in broken] == ["contracts/mine.yaml"]
    # A scenario of the project that is not proved here may have such a tool, or be unreadable.
    other = Path("scenarios/other.yaml")
    other.write_text("evarness: 1\n", encoding="utf-8")
    done = command(*words)
    assert (done.code, "warning: contracts/mine.yaml:6:" in done.err) == (0, True)
    other.write_bytes(first.read_bytes())
    assert command(*words).code == 3
    # The twins: a name that nearly is no tool's, and the tool that was meant.
    library.write_text(body.replace("TOOL", "crm.pay"), encoding="utf-8")
    done = command(*words)
    assert (done.code, "warning: contracts/mine.yaml:6:" in done.err) == (0, True)
    library.write_text(body.replace("TOOL", "email.send"), encoding="utf-8")
    done = command(*words)
    assert (done.code, "mine.yaml" in done.err) == (0, False)


def test_a_misspelt_name_that_is_a_tool_of_another_scenario_is_none(
    command: Command, first: Path
) -> None:
    library = Path("contracts/mine.yaml")
    library.parent.mkdir(exist_ok=True)
    library.write_text(
        "contracts:\n  sent-with-care:\n    status: draft\n    owner: o\n    rationale: r\n"
        "    applies_to: {tools: [email.sent]}\n"
        "    assert: {never: {type: budget_breached}}\n",
        encoding="utf-8",
    )
    words = ("prove", first, "-o", "p.json", "--unsigned", *INLINE)
    assert command(*words).code == 3
    beside = Path("scenarios/more")
    beside.mkdir()
    (beside / "other.yaml").write_bytes(first.read_bytes())
    manifest = "tools: [{id: email.sent, safety: {side_effects: write}}]\n"
    (beside / "tools.yaml").write_text(manifest, encoding="utf-8")
    done = command(*words)
    assert (done.code, "warning: contracts/mine.yaml:6:" in done.err) == (0, True)

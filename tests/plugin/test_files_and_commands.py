"""Checks of files, commands and scripts through whole sessions: the handed cases, end to end."""

from __future__ import annotations

import uuid
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.verify import Options, verify_bundle
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.core.secret import Masker
from pytest_evarness.world.sandbox import find_sandbox
from tests.plugin.scenarios import graph, step_graph
from tests.world.test_process import sleeping

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

CASE = "s.scenario.yaml::default"

STEPS = '''
"""What a harness does to its workspace."""


def link(inputs, config, context):
    (context.workspace / "report.txt").symlink_to("nowhere")
    return {"out": "done"}


def write(inputs, config, context):
    folder = context.workspace / "out"
    folder.mkdir()
    (folder / "report.md").write_text("Total: 3\\n")
    (context.workspace / "old.txt").unlink()
    return {"out": "done"}


def crash(inputs, config, context):
    done = context.run("definitely-not-a-command > out/report.md")
    assert done.exit_code != 0
    return {"out": "done"}


def insists(inputs, config, context):
    done = context.run("mkdir -p out && definitely-not-a-command > out/report.md && rm -r out")
    if done.exit_code:
        raise RuntimeError(f"exit code {done.exit_code}: {done.stderr}")
    return {"out": "done"}
'''


def scenario(step: str | None = None, **more: Any) -> dict[str, Any]:
    made = (
        graph(("n1", "input", {}), ("n2", "output", {}))
        if step is None
        else step_graph(step if ":" in step else f"workspace_steps:{step}")
    )
    environment = {"workspace": {"files": more.pop("files", {})}, **more.pop("environment", {})}
    checks = more.pop("checks", {})
    return {
        "evarness": 1,
        "subject": {"graph": made},
        "environment": environment,
        "invariants": {
            name: {"description": "of the tests", "check": check} for name, check in checks.items()
        },
        **more,
    }


def run(session: Session, made: dict[str, Any], *words: str, **files: str) -> Ran:
    return session(*words, files={"s.scenario.yaml": made, "workspace_steps.py": STEPS, **files})


def found(ran: Ran, name: str) -> dict[str, Any]:
    (case,) = ran.predicate["cases"]
    (finding,) = [one for one in case["replicas"][0]["findings"] if one["id"] == name]
    return dict(finding)


# -- files -------------------------------------------------------------------------------------


def test_fil_01_a_dangling_link_fails_every_check_of_its_path(session: Session) -> None:
    checks = {
        "exists": {"type": "file_exists", "path": "report.txt"},
        "absent": {"type": "file_absent", "path": "report.txt"},
        "clean": {"type": "file_content", "path": "report.txt", "not_contains": "x"},
    }
    ran = run(session, scenario("link", checks=checks))
    assert ran.code == 1
    for name in checks:
        finding = found(ran, name)
        assert finding["outcome"] == "fail"
        assert 'report.txt is a symlink to "nowhere", which does not exist' in finding["reason"]


def test_fil_02_every_path_outside_is_refused_by_name(session: Session) -> None:
    checks = {
        "a": {"type": "file_content", "path": "../run-10/secret.txt", "contains": ""},
        "b": {"type": "file_exists", "path": "sub/../../run-10/secret.txt"},
        "c": {"type": "file_exists", "path": "/etc/hostname"},
        "d": {"type": "file_absent", "path": "../run-10/other.txt"},
    }
    ran = run(session, scenario(checks=checks, files={"../planted.txt": "x"}))
    assert ran.code != 0
    for path in (*(check["path"] for check in checks.values()), "../planted.txt"):
        assert f"(got '{path}'" in ran.text
    assert not (ran.root.parent / "planted.txt").exists()


def test_fil_05_a_check_of_what_no_file_says_fails_without_the_file(session: Session) -> None:
    checks = {"clean": {"type": "file_content", "path": "out/report.md", "not_contains": "pass"}}
    ran = run(session, scenario("crash", checks=checks))
    assert found(ran, "clean")["outcome"] == "fail"
    assert found(ran, "clean")["reason"] == "out/report.md does not exist, so it has no text"


def test_fil_05_a_command_that_could_not_start_is_told_on_its_own(session: Session) -> None:
    checks = {"clean": {"type": "file_content", "path": "a.md", "not_contains": "password"}}
    ran = run(session, scenario("insists", checks=checks))
    assert ran.code == 1
    assert found(ran, "clean")["outcome"] == "fail"
    assert found(ran, "clean")["reason"] == "a.md does not exist, so it has no text"
    finding = found(ran, "expect")
    assert finding["outcome"] == "fail"
    assert finding["reason"].startswith(
        "the run ended failed, not completed: RuntimeError: exit code 127: "
    )
    assert "definitely-not-a-command: " in finding["reason"]
    assert "FAILED s.scenario.yaml::default::expect - the run ended failed" in ran.text
    # The twin: where the command can start, the run itself is as it should be.
    files = {"a.md": "fine"}
    steps = STEPS.replace("definitely-not-a-command", "true")
    made = {"s.scenario.yaml": scenario("insists", checks=checks, files=files)}
    ran = session(files={**made, "workspace_steps.py": steps})
    assert ran.findings(CASE) == {"reproduces": "pass", "expect": "pass", "clean": "pass"}


def test_what_a_run_did_to_its_files_is_judged_and_judged_again(session: Session) -> None:
    checks = {
        "made": {"type": "file_exists", "glob": "out/*.md", "count": 1, "mode": "0644"},
        "gone": {"type": "file_absent", "path": "old.txt", "existed_before": True},
        "says": {"type": "file_content", "path": "out/report.md", "equals": "Total: 3\n"},
        "lies": {"type": "file_content", "path": "out/report.md", "contains": "Total: 4"},
        "asked": {"type": "command_exit", "command": "test -e out/report.md"},
    }
    made = scenario("write", checks=checks, files={"old.txt": "x"})
    ran = run(session, made)
    outcomes = ran.findings(CASE)
    assert [outcomes[name] for name in checks] == ["pass", "pass", "pass", "fail", "pass"]
    report = verify_bundle(
        (ran.root / ".evarness/proof.json").read_bytes(),
        options=Options(),
        registry=packaged_registry(),
    )
    # What a command did nobody can look back at; what is in the sealed files everybody can.
    word = [line for line in report.taken_on_word if "what it gathered" in line]
    assert [line.partition(": ")[0] for line in word] == [f"{CASE}::asked"]


# -- commands ----------------------------------------------------------------------------------


def test_cmd_01_and_03_what_runs_past_its_limit_is_undecided_and_gone(session: Session) -> None:
    marks = [f"600.{uuid.uuid4().int % 10**12:012d}" for _ in range(2)]
    slow = f"sleep {marks[0]} & sleep {marks[1]}; echo never"
    checks = {
        f"equals-{code}": {
            "type": "command_exit",
            "command": slow,
            "exit_code": code,
            "timeout": 0.5,
        }
        for code in (0, 124, 127, 137)
    }
    ran = run(session, scenario(checks=checks))
    assert ran.code == 1
    for name in checks:
        finding = found(ran, name)
        assert (finding["outcome"], finding["causes"]) == ("indeterminate", ["evaluator_error"])
        assert finding["reason"] == "timed out after 0.5 s, so there is no exit code"
    assert [sleeping(mark) for mark in marks] == [[], []]


def test_cmd_03_and_04_what_ended_otherwise_is_said(session: Session) -> None:
    checks = {
        "killed": {"type": "command_exit", "command": "kill -9 $$"},
        "missing": {"type": "command_exit", "command": "no-such-tool", "exit_code": 127},
        "pipe": {"type": "command_exit", "command": "false | cat"},
        "line": {"type": "command_exit", "command": "printf line; exit 4"},
    }
    ran = run(session, scenario(checks=checks))
    assert {name: (found(ran, name)["outcome"], found(ran, name)["reason"]) for name in checks} == {
        "killed": ("fail", "signal 9, not exit code 0"),
        "missing": ("pass", "exit code 127 (command not found), as asked"),
        "pipe": ("fail", "exit code 1, not exit code 0"),
        "line": ("fail", "exit code 4, not exit code 0"),
    }
    assert "stdout (4 bytes): line" in ran.text
    environment = ran.predicate["environment"]
    assert environment["shell"] == "bash -o pipefail -c"


@pytest.mark.parametrize("code", [-9, 256])
def test_cmd_03_a_code_that_cannot_be_does_not_load(code: int, session: Session) -> None:
    checks = {"x": {"type": "command_exit", "command": "true", "exit_code": code}}
    ran = run(session, scenario(checks=checks))
    assert f"is no exit code (got {code}; 0 to 255, a list of those, or 'nonzero')" in ran.text
    assert ran.counts.get("passed", 0) == 0


def test_rep_02_a_report_of_much_output_is_accepted(session: Session) -> None:
    from lxml import etree

    command = "yes 0123456789abcdef | head -c 12000000; exit 1"
    checks = {"chatty": {"type": "command_exit", "command": command}}
    words = ("--junit-xml=plain.xml", "--evarness-junit=ours.xml")
    ran = run(session, scenario(checks=checks), *words)
    for name in ("plain.xml", "ours.xml"):
        data = (ran.root / name).read_bytes()
        assert len(data) < 2_000_000
        etree.fromstring(data)
        (failure,) = ET.fromstring(data).iter("failure")
        assert failure.get("message") is not None
        assert len(str(failure.get("message"))) < 1_000
    assert "[… of 12,000,000 bytes the middle is left out …]" in ran.text


# -- scripts -----------------------------------------------------------------------------------

SCRIPTS = {
    "noisy": ("print('loading model...'); print('{\"passed\": true}')", "indeterminate"),
    "exit": ("print('{\"passed\": true}'); raise SystemExit(1)", "indeterminate"),
    "nothing": ("", "indeterminate"),
    "text": ('print(\'{"passed": "yes"}\')', "indeterminate"),
    "two": ("print('{\"passed\": true}'); print('{\"passed\": false}')", "indeterminate"),
    "warns": ("import sys; print('{\"passed\": true}'); print('w', file=sys.stderr)", "pass"),
    "rows": ('print(\'{"passed": false, "reason": "3 rows"}\')', "fail"),
    "deaf": ("print('{\"passed\": true}')", "pass"),
}


def test_jdg_04_no_script_hides_another_and_none_is_scraped(session: Session) -> None:
    checks = {name: {"type": "custom", "script": f"checks/{name}.py"} for name in SCRIPTS}
    files = {f"checks/{name}.py": text for name, (text, _) in SCRIPTS.items()}
    prompt = {"prompt": "x" * 5_000_000}
    ran = session(files={"s.scenario.yaml": scenario(checks=checks, task=prompt), **files})
    outcomes = ran.findings(CASE)
    assert {name: outcomes[name] for name in SCRIPTS} == {
        name: outcome for name, (_, outcome) in SCRIPTS.items()
    }
    assert "loading model..." in found(ran, "noisy")["reason"]
    assert found(ran, "rows")["reason"] == "3 rows"


def test_a_gate_needs_the_whole_score_and_a_fail_keeps_its_share(session: Session) -> None:
    files = {
        "nearly.py": 'print(\'{"passed": true, "score": 0.9}\')',
        "partly.py": 'print(\'{"passed": false, "score": 0.5}\')',
    }
    made = scenario(
        checks={n: {"type": "custom", "script": f"{n}.py"} for n in ("nearly", "partly")}
    )
    made["invariants"]["nearly"]["gate"] = True
    ran = session(files={"s.scenario.yaml": made, **files})
    assert found(ran, "nearly")["reason"].startswith("gate needs score 1.0, got 0.9")
    made["invariants"]["nearly"]["gate"] = False
    made["scoring"] = {"pass_threshold": 0.7}
    ran = session(files={"s.scenario.yaml": made, **files})
    assert (found(ran, "score")["outcome"], found(ran, "score")["score"]) == ("pass", "0.7")
    assert found(ran, "partly")["outcome"] == "fail"


def test_a_secret_that_a_command_prints_is_in_no_report(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAY_TOKEN", "tok-93baf1c7")
    checks = {"x": {"type": "command_exit", "command": "printf %s tok-; echo 93baf1c7; exit 1"}}
    ran = run(session, scenario(checks=checks, secrets=["PAY_TOKEN"]), "--junit-xml=plain.xml")
    assert "«secret:PAY_TOKEN»" in ran.text
    for path in ran.root.rglob("*"):
        if path.is_file() and path.suffix in (".json", ".xml", ".jsonl"):
            assert b"tok-93baf1c7" not in path.read_bytes()
    assert "tok-93baf1c7" not in ran.text


def test_the_same_under_workers_and_with_a_mirror(session: Session) -> None:
    checks = {
        "file": {"type": "file_exists", "path": "out/report.md"},
        "command": {"type": "command_exit", "command": "cat out/report.md", "stdout": "Total: 3\n"},
    }
    made = scenario("write", checks=checks, files={"old.txt": "x"})
    ran = session("-n2", files={"s.scenario.yaml": made, "workspace_steps.py": STEPS}, mirror=True,
                  subprocess=True)  # fmt: skip
    assert ran.code == 0, ran.text
    assert ran.findings(CASE)["reproduces"] == "pass"
    assert [ran.findings(CASE)[name] for name in checks] == ["pass", "pass"]


FIRST, LAST = "Q7x9Lm2Zt5", "KvW3Rb8Yc1"


def reports_with_a_secret_at_every_cut(session: Session) -> list[str]:
    first, last = FIRST, LAST
    # Whatever is cut, the cut goes through one of many secrets in a row.
    command = {
        "type": "command_exit",
        "command": "for i in $(seq 3000); do printf %s $A$B; done; exit 1",
        "env": {"A": first, "B": last},
    }
    checks = {
        "plain": command,
        "asked": {**command, "stdout": {"contains": "nothing like it"}},
        "script": {"type": "custom", "script": "s.py"},
        "file": {"type": "file_content", "path": "a.txt", "contains": "nothing like it"},
        "within": {"type": "file_content", "path": "a.txt", "not_contains": "here"},
        "whole": {"type": "file_content", "path": "a.txt", "equals": "another"},
    }
    text = f"''.join(({first!r}, {last!r})) * 200"
    steps = (
        "def leak(inputs, config, context):\n"
        f"    text = {text}\n"
        "    (context.workspace / 'a.txt').write_text(text + 'here' + text)\n"
        "    return {'out': 'done'}\n"
    )
    made = scenario("leaking_steps:leak", checks=checks, secrets=["PAY_TOKEN"])
    script = f"print({text}); raise SystemExit(1)\n"
    ran = session(
        "--junit-xml=plain.xml",
        "--evarness-junit=ours.xml",
        files={"s.scenario.yaml": made, "leaking_steps.py": steps, "s.py": script},
    )
    assert {ran.findings(CASE)[name] for name in checks} == {"fail", "indeterminate"}
    (case,) = ran.predicate["cases"]
    reports = [ran.text, *((ran.root / name).read_text() for name in ("plain.xml", "ours.xml"))]
    reports += [str(one) for one in case["replicas"][0]["findings"]]
    assert "«secret:PAY_TOKEN»«secret:PAY_TOKEN»" in ran.text
    return reports


def test_no_cut_leaves_a_part_of_a_secret(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAY_TOKEN", FIRST + LAST)
    for report in reports_with_a_secret_at_every_cut(session):
        for part in (FIRST[:4], FIRST[-4:], LAST[:4], LAST[-4:]):
            assert part not in report


def test_this_file_would_notice_one_that_does(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAY_TOKEN", FIRST + LAST)
    monkeypatch.setattr(Masker, "shown", Masker.value)
    reports = reports_with_a_secret_at_every_cut(session)
    assert any(FIRST[:4] in report or LAST[-4:] in report for report in reports)


def test_what_a_sandbox_denies_here_is_a_fact_of_the_bundle(session: Session) -> None:
    words = "none for nodes, which run in the session's own process"
    checks = {"x": {"type": "custom", "script": "s.py"}}
    files = {"s.py": "print('{\"passed\": true}')"}
    ran = session(files={"s.scenario.yaml": scenario(checks=checks), **files})
    assert ran.predicate["environment"]["sandbox"] == words
    sentence = f"{words}; for commands and confined scripts: {find_sandbox().sentence}"
    checks["x"]["runs_in"] = "sandbox"
    ran = session(files={"s.scenario.yaml": scenario(checks=checks), **files})
    assert ran.predicate["environment"]["sandbox"] == sentence
    made = scenario(forbidden={"network": "deny"})
    ran = session(files={"s.scenario.yaml": made})
    assert ran.predicate["environment"]["sandbox"] == sentence

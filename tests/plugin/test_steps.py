"""The user's own code is found before anything runs, identified, and cannot end a session."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.cli import main
from tests.plugin.scenarios import STEP, echo, gated, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Session

QUIT = "import sys\n\ndef quit(inputs, config, context):\n    sys.exit(0)\n"


def stepped(function: str, **more: Any) -> dict[str, Any]:
    return echo(subject={"graph": step_graph(function)}, **more)


def test_a_module_of_the_root_directory_is_found_and_its_file_is_sealed(session: Session) -> None:
    files = {"evarness_steps_a.py": STEP, "scenarios/s.yaml": stepped("evarness_steps_a:steady")}
    ran = session(files=files)
    assert ran.code == 0, ran.text
    subjects = {row["name"]: row["sha256"] for row in ran.predicate["seal"]["subjects"]}
    assert subjects["evarness_steps_a.py"] == hashlib.sha256(STEP.encode()).hexdigest()
    assert any("identified by the file" in text for text in ran.predicate["not_proven"])


def test_a_module_that_is_not_there_is_a_load_error_even_where_a_failure_is_expected(
    session: Session,
) -> None:
    files = {
        "evarness_steps_b.py": STEP,
        "scenarios/s.yaml": stepped("evarness_step_b:crash", expect={"status": "failed"}),
    }
    ran = session(files=files)
    assert ran.code == 1
    assert "no module called 'evarness_step_b' can be imported" in ran.text
    assert "write 'evarness_steps_b'" in ran.text
    # The twin: the module is there, the step raises, and that is what was expected.
    files["scenarios/s.yaml"] = stepped("evarness_steps_b:crash", expect={"status": "failed"})
    assert session(files=files).code == 0


def test_a_step_that_exits_leaves_the_case_unjudged_and_the_others_alone(
    session: Session,
) -> None:
    files = {
        "evarness_steps_c.py": QUIT,
        "scenarios/a.yaml": stepped("evarness_steps_c:quit"),
        "scenarios/b.yaml": echo(),
    }
    ran = session(files=files)
    assert ran.code == 1
    assert "a node tried to end the process (SystemExit(0))" in ran.text
    assert "Traceback" not in ran.text
    assert ran.predicate["verdict"]["holds"] is None
    assert set(ran.findings("scenarios/b.yaml::default").values()) == {"pass"}


@pytest.mark.parametrize(("command", "code"), [("run", 1), ("prove", 3)])
def test_a_step_that_exits_is_not_the_exit_code_of_a_command(
    session: Session, command: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "evarness_steps_d.py": QUIT,
        "scenarios/a.yaml": stepped("evarness_steps_d:quit"),
    }
    ran = session("--collect-only", files=files)
    words = [command, str(ran.root / "scenarios/a.yaml"), "--root", str(ran.root)]
    assert main(words) == code
    assert "SystemExit(0)" in capsys.readouterr().err


def test_a_broken_library_counts_where_only_scenarios_were_named(session: Session) -> None:
    library: dict[str, Any] = {
        "contracts": {"x": {"assert": {"sometimes": {"type": "run_finished"}}}}
    }
    files = {"scenarios/a.yaml": echo(), "contracts/broken.yaml": library}
    ran = session("scenarios/a.yaml", files=files)
    assert ran.code == 1
    assert "contracts/broken.yaml" in ran.text
    assert ran.predicate["verdict"]["holds"] is None
    library["contracts"]["x"] = {"assert": {"eventually": {"type": "run_finished"}}}
    files["contracts/broken.yaml"] = library
    assert session("scenarios/a.yaml", files=files).code == 1  # it has no corpus
    library["contracts"]["x"]["status"] = "draft"
    files["contracts/broken.yaml"] = library
    assert session("scenarios/a.yaml", files=files).code == 0


def test_warnings_of_lint_are_shown_with_the_verdicts(session: Session) -> None:
    graph = step_graph("json:dumps")
    graph["nodes"][1] = {"id": "n2", "type": "tool", "config": {"tool": "emial.send"}}
    ran = session(
        files={"scenarios/a.yaml": echo(subject={"graph": graph}, expect={"status": "blocked"})}
    )
    assert "warning: scenarios/a.yaml" in ran.text
    assert "emial.send" in ran.text.split("= evarness =")[1]


def test_a_result_shows_its_verdict_and_reason_in_one_line(session: Session) -> None:
    test = (
        "def test_it(evarness):\n"
        "    result = evarness.run('scenarios/a.yaml')\n"
        "    assert repr(result) == '<Result scenarios/a.yaml::default valid>'\n"
        "    wrong = evarness.run('scenarios/b.yaml')\n"
        "    assert repr(wrong).startswith('<Result scenarios/b.yaml::default invalid: expect: ')\n"
        "    assert wrong.failing[0].id == 'expect'\n"
        "    assert len(repr(wrong)) < 400\n"
    )
    files = {
        "scenarios/a.yaml": echo(),
        "scenarios/b.yaml": json.dumps(gated(cases={"x": {"expect": {"status": "failed"}}})),
        "test_it.py": test.replace("b.yaml::default", "b.yaml::x"),
    }
    assert session("test_it.py", files=files).code == 0


TRICKS = """
import os
import signal
import sys


def engine_of(frame):
    while frame is not None:
        found = frame.f_locals.get("self")
        if type(found).__name__ == "_Engine":
            return found
        frame = frame.f_back


def leave(inputs, config, context):
    os._exit(0)


def double(inputs, config, context):
    os.fork()
    return "x"


def deafen(inputs, config, context):
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return "x"


def shallow(inputs, config, context):
    sys.setrecursionlimit(60)
    return "x"


def unwatch(inputs, config, context):
    sys.setprofile(None)
    return "x"


def speak(inputs, config, context):
    payload = {"prompt": "?", "artifact_digest": "sha256:0", "approver": "me"}
    engine_of(sys._getframe()).emit("approval_granted", payload, "n3")
    return "x"


def forget(inputs, config, context):
    engine_of(sys._getframe()).events.clear()
    return "x"


def rewrite(inputs, config, context):
    engine_of(sys._getframe()).events[0].payload["input"] = "something else"
    return "x"


def honest(inputs, config, context):
    engine_of(sys._getframe())
    return "x"
"""


@pytest.mark.parametrize(
    ("trick", "said"),
    [
        ("leave", "os._exit"),
        ("double", "os.fork"),
        ("deafen", "signal.signal"),
        ("shallow", "sys.setrecursionlimit"),
        ("unwatch", "sys.setprofile"),
        ("speak", "emits only custom types (got 'approval_granted')"),
        ("forget", "a node changed the record of its own run"),
    ],
)
def test_a_step_cannot_end_double_or_disarm_what_judges_it_nor_speak_for_a_gate(
    session: Session, trick: str, said: str
) -> None:
    name = f"evarness_tricks_{trick}"
    ran = session(files={f"{name}.py": TRICKS, "scenarios/s.yaml": stepped(f"{name}:{trick}")})
    assert ran.code == 1, ran.text
    assert said in ran.text
    assert ran.predicate["verdict"]["holds"] is not True


def test_a_step_that_changes_an_event_in_memory_changes_nothing_that_is_judged(
    session: Session,
) -> None:
    never = {"never": {"type": "run_started", "where": {"input": "something else"}}}
    invariants = {
        "it": {"description": "d", "gate": True, "check": {"type": "trace", "assert": never}}
    }
    for trick in ("rewrite", "honest"):
        name = f"evarness_tricks_{trick}"
        scenario = stepped(f"{name}:{trick}", invariants=invariants)
        ran = session(files={f"{name}.py": TRICKS, "scenarios/s.yaml": scenario})
        assert ran.findings("scenarios/s.yaml::default")["it"] == "pass", ran.text
        key = next(ran.root.rglob("signing.pem.pub"))
        assert main(["verify", str(ran.root / ".evarness/proof.json"), "--key", str(key)]) == 0

"""A script's word counts only if it ended well and said exactly one thing."""

from __future__ import annotations

import hashlib
import json
import socket
import sys
import uuid
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.checks import custom
from pytest_evarness.checks.custom import Custom
from pytest_evarness.checks.judge import Judge
from pytest_evarness.checks.kind import UnavailableError
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import Registry
from pytest_evarness.world.sandbox import NO_SANDBOX, find_sandbox
from tests.checks.scenes import FakeService, FolderScene, judged, parsed, refusals
from tests.world.test_process import LIMITS, sleeping

CUSTOM = Custom()
needs_sandbox = pytest.mark.skipif(find_sandbox().name == "none", reason="no sandbox here")


@pytest.fixture
def scene(tmp_path: Path) -> FolderScene:
    made = FolderScene(tmp_path, audit_log='{"type": "x"}\n', trace_log='{"seq": 0}\n')
    made.write("a.txt", "hello\n")
    return made


def said(scene: FolderScene, text: str, **check: Any) -> Any:
    """The finding of a script."""
    (scene.root / "checks").mkdir(exist_ok=True)
    (scene.root / "checks/it.py").write_text(text, encoding="utf-8")
    return judged(CUSTOM, scene, {"script": "checks/it.py", **check})


def printing(*texts: str, code: int = 0) -> str:
    lines = [f"sys.stdout.write({text!r})" for text in texts]
    return "\n".join(["import sys", *lines, f"sys.exit({code})"])


# -- JDG-04 ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "outcome", "quoted"),
    [
        (printing("loading model...\n", '{"passed": true}'), "indeterminate", "loading model..."),
        (printing('{"passed": true}', code=1), "indeterminate", '{\\"passed\\": true}'),
        (printing(), "indeterminate", "it printed nothing"),
        (printing('{"passed": "yes"}'), "indeterminate", '{\\"passed\\": \\"yes\\"}'),
        (printing('{"passed": true}', '{"passed": false}'), "indeterminate", "passed"),
        (
            "import sys; print('{\"passed\": true}'); print('a warning', file=sys.stderr)",
            "pass",
            "the script says passed: true",
        ),
        (printing('{"passed": false, "reason": "3 rows"}'), "fail", "3 rows"),
        (printing('{"passed": true}'), "pass", "the script says passed: true"),
    ],
)
def test_only_one_document_and_a_good_end_count(
    script: str, outcome: str, quoted: str, scene: FolderScene
) -> None:
    found = said(scene, script)
    assert found.outcome.word == outcome
    assert quoted in found.reason
    if outcome == "indeterminate":
        assert found.causes == (Cause.EVALUATOR_ERROR,)


def test_a_context_that_is_not_read_breaks_nothing(scene: FolderScene) -> None:
    scene.prompt = "x" * 5_000_000
    assert said(scene, printing('{"passed": true}')).outcome is Outcome.PASS


# -- what it may say ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("true", "the result must be a mapping, is a boolean"),
        ("[]", "the result must be a mapping, is a list"),
        ("{}", "the result has no 'passed'"),
        ('{"pass": true}', "the result has the unknown key 'pass' (known: passed, score, reason,"),
        ('{"passed": 1}', "'passed' must be true or false, is 1"),
        ('{"passed": null}', "'passed' must be true or false, is null"),
        ('{"passed": true, "score": 1.01}', "'score' must be a number from 0 to 1, is 1.01"),
        (
            '{"passed": true, "score": 1.00000000000000000001}',
            "'score' must be a number from 0 to 1, is 1.00000000000000000001",
        ),
        ('{"passed": true, "score": 1e-999999999}', "must be a number from 0 to 1, is 1e-9999999"),
        ('{"passed": true, "reason": "\\ud800"}', "half of a surrogate pair"),
        ('{"passed": true, "score": -0.1}', "'score' must be a number from 0 to 1, is -0.1"),
        ('{"passed": true, "score": 1e999}', "'score' must be a number from 0 to 1, is Infinity"),
        ('{"passed": true, "score": true}', "'score' must be a number from 0 to 1, is true"),
        ('{"passed": true, "score": "1"}', "'score' must be a number from 0 to 1, is \"1\""),
        ('{"passed": true, "score": NaN}', "not one JSON document: NaN is no JSON number"),
        ('{"passed": false, "passed": true}', 'not one JSON document: the key "passed" stands twi'),
        ('{"passed": true, "reason": 3}', "'reason' must be text, is a integer"),
        ('{"passed": true}\n{"passed": true}', "not one JSON document: something stands after"),
        ("x", "what it printed is not one JSON document"),
        ("   ", "what it printed is not one JSON document: it is empty"),
        ("[" * 50_000, "what it printed is not one JSON document"),
    ],
)
def test_anything_else_is_no_result(text: str, why: str, scene: FolderScene) -> None:
    found = said(scene, printing(text))
    assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))
    assert why in found.reason


def test_bytes_that_are_no_text_are_no_result(scene: FolderScene) -> None:
    script = 'import sys; sys.stdout.buffer.write(b\'{"passed": true, "reason": "\\xff"}\')'
    assert said(scene, script).outcome is Outcome.INDETERMINATE


@pytest.mark.parametrize(
    ("text", "outcome", "score"),
    [
        ('{"passed": true}', "pass", "1"),
        ('{"passed": false}', "fail", "0"),
        ('{"passed": true, "score": 1}', "pass", "1"),
        ('{"passed": true, "score": 1.0}', "pass", "1"),
        ('{"passed": true, "score": 0.9}', "pass", "9/10"),
        ('{"passed": true, "score": 0.99999999999999999999}', "pass", "0.99999999999999999999"),
        ('{"passed": false, "score": 0.9}', "fail", "9/10"),
        ('{"passed": false, "score": 0.1}', "fail", "1/10"),
        (' \n{"passed": true, "score": 0}\n\n', "pass", "0"),
    ],
)
def test_the_score_is_the_scripts_own(
    text: str, outcome: str, score: str, scene: FolderScene
) -> None:
    found = said(scene, printing(text))
    assert (found.outcome.word, found.score) == (outcome, Fraction(score))


def test_a_gate_that_passes_with_less_than_one_fails(scene: FolderScene) -> None:
    found = said(scene, printing('{"passed": true, "score": 0.9, "reason": "nearly"}'))
    item = PlannedItem(id="it", kind="custom", gate=True)
    settled = Judge(Registry())._settled(item, found)
    assert settled.outcome is Outcome.FAIL
    assert settled.reason == "gate needs score 1.0, got 0.9: nearly"


def test_details_and_warnings_are_shown(scene: FolderScene) -> None:
    result = {"passed": False, "reason": "4 of\n5", "details": {"matched": 4}}
    found = said(
        scene, f"import sys; print({json.dumps(result)!r}); print('careful', file=sys.stderr)"
    )
    assert found.reason == "4 of 5"
    assert found.witness.notes == ('details: {"matched": 4}', "stderr (8 bytes): careful\n")


FORKS = """\
import os, time
if os.fork() == 0:
    os.setsid()
    os.execvp("sleep", ["sleep", "MARK"])
print("begun", flush=True)
time.sleep(600)
"""

# -- how it may end ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("raise SystemExit(3)", "ended with exit code 3; it printed nothing"),
        ("import os; os.kill(os.getpid(), 9)", "ended with signal 9; it printed nothing"),
        ("raise ValueError('no rows')", 'its last words: "ValueError: no rows"'),
        (
            "import sys; [sys.stdout.write('x' * 10**6) for _ in range(50)]",
            "printed 50,000,000 byt",
        ),
    ],
)
def test_a_script_that_ends_badly_says_nothing(script: str, why: str, scene: FolderScene) -> None:
    found = said(scene, script)
    assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))
    assert why in found.reason


def test_a_script_that_does_not_end_says_nothing_and_leaves_nothing(scene: FolderScene) -> None:
    mark = f"600.{uuid.uuid4().int % 10**12:012d}"
    for seconds in LIMITS:
        found = said(scene, FORKS.replace("MARK", mark), timeout=seconds)
        assert sleeping(mark) == []
        if "begun" in found.reason:
            break
    assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))
    assert found.reason == f'checks/it.py: timed out after {seconds:g} s; it printed "begun\\n"'


@pytest.mark.slow
def test_a_gigabyte_of_output_is_no_result(scene: FolderScene) -> None:
    found = said(scene, "import sys; [sys.stdout.write('x' * 10**7) for _ in range(100)]")
    assert "printed 1,000,000,000 bytes, which is no result" in found.reason
    assert len(json.dumps(found.as_record())) < 10_000


# -- what it gets ------------------------------------------------------------------------------

LOOK = """\
import json, sys
context = json.load(sys.stdin)
files = {key: open(context[key]).read() for key in ("audit_log_path", "trace_path")}
logs = {node: open(path).read() for node, path in context["audit_logs"].items()}
work = context["workspace_path"]
assert not any(path.startswith(work) for path in context["audit_logs"].values())
where = {key: key_path.startswith(context["workspace_path"]) for key, key_path in
         ((key, context[key]) for key in files)}
print(json.dumps({"passed": True, "details": {
    "keys": sorted(context), "files": files, "logs": logs, "inside": where,
    "id": context["sandbox_id"],
    "task": context["task"], "params": context["scenario_params"], "argv": sys.argv[1:],
    "workspace": open(context["workspace_path"] + "/a.txt").read(),
    "services": sorted(context["services"]), "python": sys.executable}}))
"""


def test_the_context_is_what_the_page_says(scene: FolderScene) -> None:
    scene.params = {"model": "m"}
    scene.shipped_logs = {"n1": "", "../a/b": "{}\n"}
    scene.services = {"db": FakeService("db", {"host": "127.0.0.1", "port": 1})}
    (scene.root / "it.py").write_text(LOOK)
    definition = parsed(CUSTOM, scene, {"script": "it.py", "args": ["a b", "-x"]})
    gathered: Any = CUSTOM.gather(definition, scene)
    details = json.loads(gathered["stdout"]["head"])["details"]
    assert details == {
        "keys": [
            "audit_log_path",
            "audit_logs",
            "sandbox_id",
            "scenario_params",
            "services",
            "task",
            "trace_path",
            "workspace_path",
        ],
        "files": {"audit_log_path": '{"type": "x"}\n', "trace_path": '{"seq": 0}\n'},
        "logs": {"../a/b": "{}\n", "n1": ""},
        "inside": {"audit_log_path": False, "trace_path": False},
        "id": "evarness-0123",
        "task": {"prompt": "do it"},
        "params": {"model": "m"},
        "argv": ["a b", "-x"],
        "workspace": "hello\n",
        "services": ["db"],
        "python": details["python"],
    }
    assert details["python"].startswith("«python»/")
    assert str(scene.root) not in json.dumps(gathered)


def test_every_service_is_needed(scene: FolderScene) -> None:
    scene.services = {"b": FakeService("b", {}), "a": FakeService("a", {})}
    (scene.root / "it.py").write_text("")
    definition = parsed(CUSTOM, scene, {"script": "it.py"})
    assert CUSTOM.needs(definition) == {"service:a", "service:b"}


def test_what_it_writes_reaches_nobody(scene: FolderScene) -> None:
    script = """\
import json, os, sys
context = json.load(sys.stdin)
os.remove(context["workspace_path"] + "/a.txt")
open(context["workspace_path"] + "/b.txt", "w").write("x")
print(json.dumps({"passed": os.getcwd() == context["workspace_path"]}))
"""
    assert said(scene, script).outcome is Outcome.PASS
    assert [path.name for path in scene.workspace.iterdir()] == ["a.txt"]


def test_it_finds_what_lies_beside_it_and_what_is_installed_here(scene: FolderScene) -> None:
    (scene.root / "checks").mkdir()
    (scene.root / "checks/beside.py").write_text("ANSWER = True\n")
    script = (
        "import json, beside, pytest, yaml\n"
        "assert open(__file__).read().startswith('import json')\n"
        "print(json.dumps({'passed': beside.ANSWER}))\n"
    )
    found = said(scene, script)
    assert found.outcome is Outcome.PASS, found.reason
    assert not (scene.root / "checks/__pycache__").exists()


def test_another_interpreter(scene: FolderScene) -> None:
    (scene.root / "it.sh").write_text('echo \'{"passed": true, "reason": "\'$1\'"}\'\n')
    check = {"script": "it.sh", "interpreter": ["sh", "-eu"], "args": ["hi"]}
    assert judged(CUSTOM, scene, check).reason == "hi"
    found = judged(CUSTOM, scene, {**check, "interpreter": "no-such-interpreter"})
    assert found.outcome is Outcome.INDETERMINATE
    assert found.reason == "the program could not be started (No such file or directory)"


def test_a_script_that_was_changed_after_the_seal_is_not_run(scene: FolderScene) -> None:
    script = scene.root / "it.py"
    script.write_text(printing('{"passed": true}'))
    definition = parsed(CUSTOM, scene, {"script": "it.py"})
    assert definition["sha256"] == f"sha256:{hashlib.sha256(script.read_bytes()).hexdigest()}"
    assert CUSTOM.gather(definition, scene)["exit_code"] == 0
    script.write_text(printing('{"passed": true} '))
    with pytest.raises(UnavailableError, match=r"^it\.py was changed after the plan") as caught:
        CUSTOM.gather(definition, scene)
    assert caught.value.cause is Cause.STALE_EVIDENCE
    script.unlink()
    with pytest.raises(UnavailableError, match=r"^it\.py cannot be read any more"):
        CUSTOM.gather(definition, scene)


# -- sandbox -----------------------------------------------------------------------------------

TRIES = """\
import json, os, socket, sys
context = json.load(sys.stdin)
def tries(what):
    try:
        what()
    except OSError:
        return False
    return True
answers = {
    "inside": tries(lambda: open(context["workspace_path"] + "/b.txt", "w").close()),
    "home": tries(lambda: open(os.environ["HOME"] + "/b.txt", "w").close()),
    "outside": tries(lambda: open(sys.argv[1] + "/b.txt", "w").close()),
    "network": tries(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 5).close()),
}
for name, address in context["services"].items():
    answers[name] = tries(
        lambda: socket.create_connection((address["host"], address["port"]), 5).close())
print(json.dumps({"passed": True, "reason": " ".join(k for k, v in answers.items() if v)}))
"""


@pytest.mark.parametrize(
    ("runs_in", "can"),
    [
        ("host", "inside home outside network db"),
        pytest.param("sandbox", "inside home db", marks=needs_sandbox),
    ],
)
def test_a_sandbox_denies_all_but_its_own_copies_and_services(
    runs_in: str, can: str, scene: FolderScene
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as service,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        address = {"host": "127.0.0.1", "port": service.getsockname()[1]}
        scene.services = {"db": FakeService("db", address)}
        args = [str(scene.root), str(other.getsockname()[1])]
        found = said(scene, TRIES, runs_in=runs_in, args=args)
    assert found.reason == can


@needs_sandbox
def test_the_evidence_says_what_was_denied(scene: FolderScene) -> None:
    (scene.root / "it.py").write_text(printing('{"passed": true}'))
    for runs_in, confined in (("host", None), ("sandbox", {"writes": True, "network": True})):
        definition = parsed(CUSTOM, scene, {"script": "it.py", "runs_in": runs_in})
        assert CUSTOM.gather(definition, scene)["confined"] == confined
    elsewhere = FakeService("db", {"host": "db.example.com", "port": 5432})
    scene.services = {"db": elsewhere}
    definition = parsed(CUSTOM, scene, {"script": "it.py", "runs_in": "sandbox"})
    assert CUSTOM.gather(definition, scene)["confined"] == {"writes": True, "network": False}


@needs_sandbox
def test_a_sandbox_runs_the_python_that_the_run_made(scene: FolderScene) -> None:
    python = scene.workspace / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    script = 'import sys, json; print(json.dumps({"passed": True, "reason": sys.executable}))'
    assert said(scene, script, runs_in="sandbox").reason.startswith("«python»/")
    python.symlink_to(sys.executable)
    scene.seal()
    assert said(scene, script, runs_in="sandbox").reason == "«workspace»/.venv/bin/python"
    assert said(scene, script, runs_in="host").reason.startswith("«python»/")


def test_without_a_sandbox_nothing_is_run_as_if_there_were_one(
    scene: FolderScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(custom, "find_sandbox", lambda: NO_SANDBOX)
    found = said(scene, printing('{"passed": true}'), runs_in="sandbox")
    assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))
    assert found.reason.endswith("with 'runs_in: host' it runs without one")
    assert said(scene, printing('{"passed": true}'), runs_in="host").outcome is Outcome.PASS


# -- loading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "refusal"),
    [
        ({}, " required key 'script' is missing"),
        ({"script": "gone.py"}, "script. cannot be read (got gone.py)"),
        ({"script": "bad.py"}, "script. is no Python (line 2: "),
        ({"script": "it.py", "runs_in": "vm"}, "runs_in. must be"),
        ({"script": "it.py", "args": "x"}, "args. must be a list"),
        ({"script": "it.py", "args": [1]}, "args.0. must be text"),
        ({"script": "it.py", "args": ["a\0b"]}, "args. holds a NUL character"),
        ({"script": "it.py", "interpreter": []}, "interpreter. must not be empty"),
        ({"script": "it.py", "interpreter": ""}, "interpreter. must not be empty"),
    ],
)
def test_a_check_that_cannot_be_meant_does_not_load(
    check: dict[str, Any], refusal: str, tmp_path: Path
) -> None:
    (tmp_path / "it.py").write_text("")
    (tmp_path / "bad.py").write_text("x = 1\nif x\n")
    told = refusals(CUSTOM, tmp_path, check)
    assert any(line.startswith(refusal) for line in told), told


def test_what_another_interpreter_reads_need_not_be_python(tmp_path: Path) -> None:
    (tmp_path / "it.js").write_text("console.log(`{}`)\n")
    assert refusals(CUSTOM, tmp_path, {"script": "it.js"}) != []
    assert refusals(CUSTOM, tmp_path, {"script": "it.js", "interpreter": "node"}) == []

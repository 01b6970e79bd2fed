"""Whole sessions in a world: new for each run, reproduced, shown where it is not, and gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pytest_evarness
from pytest_evarness.cli import main
from tests.plugin.scenarios import echo, step_graph, write

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

CASE = "scenarios/s.yaml::default"

STEPS = """
import http.client
import os
import sqlite3
import time


def _post(context, name, path, body):
    place = context.services[name]
    connection = http.client.HTTPConnection(place["host"], place["port"], timeout=10)
    connection.request("POST", path, body)
    connection.getresponse().read()
    connection.close()


def steady(inputs, config, context):
    (context.workspace / "report.txt").write_text("all is well")
    with sqlite3.connect(context.services["db"]["path"]) as database:
        database.execute("INSERT INTO t VALUES (2, 'two')")
    database.close()
    _post(context, "mail", "/b", "1")
    _post(context, "audit", "/a", "2")
    _post(context, "mail", "/c", "3")
    done = context.run("git status --porcelain; wc -c < report.txt")
    return {"out": done.stdout}


def moody(inputs, config, context):
    text = os.environ.get("PYTHONHASHSEED", "?") if config["what"] == "file" else "same"
    (context.workspace / "sub").mkdir()
    (context.workspace / "sub" / "mood").write_text(text)
    if config["what"] == "row":
        with sqlite3.connect(context.services["db"]["path"]) as database:
            value = os.environ.get("PYTHONHASHSEED", "?")
            database.execute("INSERT INTO t VALUES (2, ?)", (value,))
        database.close()


def stray(inputs, config, context):
    place = context.services["mail"]
    connection = http.client.HTTPConnection(place["host"], place["port"] + 1, timeout=10)
    connection.request("GET", "/")


def remember(inputs, config, context):
    assert not (context.workspace / "flag").exists()
    (context.workspace / "flag").write_text("seen")
    context.emit("custom.empty", {"listed": sorted(os.listdir(context.workspace))})


def hide(inputs, config, context):
    (context.workspace / "closed").mkdir()
    (context.workspace / "closed" / "in").write_text("x")
    (context.workspace / "closed").chmod(0)


def slow(inputs, config, context):
    (context.workspace / "here").write_text("x")
    print("WAITING", flush=True)
    open(config["flag"], "w").close()
    time.sleep(60)


def ends(inputs, config, context):
    raise SystemExit(0)


def asks(inputs, config, context):
    return {"out": str(dict(context.services["db"]))}
"""

WORLD: dict[str, Any] = {
    "workspace": {"from": "demo", "files": {"plan.txt": "go"}, "git": True},
    "services": {
        "db": {
            "type": "sqlite",
            "init": "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);"
            " INSERT INTO t VALUES (1, 'one')",
        },
        "mail": {"type": "http_mock", "default_response": 202},
        "audit": {"type": "http_mock", "default_response": 202},
    },
}


def files(function: str, *, world: Any = None, **config: Any) -> dict[str, Any]:
    subject = {"graph": step_graph(f"evarness_world_steps:{function}", **config)}
    return {
        "evarness_world_steps.py": STEPS,
        "scenarios/demo/a.txt": "alpha",
        "scenarios/s.yaml": echo(subject=subject, environment=world or WORLD),
    }


def world_of(ran: Ran, nodeid: str = CASE) -> dict[str, Any]:
    (case,) = [one for one in ran.predicate["cases"] if one["nodeid"] == nodeid]
    made: dict[str, Any] = json.loads(case["replicas"][0]["world"])
    return made


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith("evarness-")]


# -- what a run does ------------------------------------------------------------------------------


@pytest.mark.parametrize("mirror", [False, True])
def test_a_step_acts_in_its_world_and_both_runs_agree(session: Session, mirror: bool) -> None:
    ran = session(files=files("steady"), mirror=mirror)
    assert ran.code == 0, ran.text
    world = world_of(ran)
    assert world["workspace"]["added"] == ["report.txt"]
    assert [one["path"] for one in world["workspace"]["files"] if one["path"][0] != "."] == [
        "a.txt",
        "plan.txt",
        "report.txt",
    ]
    services = {one["name"]: one for one in world["services"]}
    assert services["db"]["tables"][0]["rows"] == [[1, "one"], [2, "two"]]
    assert [one["path"] for one in services["mail"]["requests"]] == ["/b", "/c"]


def test_the_trace_tells_requests_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    result = run(tmp_path, "steady")
    assert [
        (event.payload["service"], event.payload["path"])
        for event in result.trace
        if event.type == "http_request"
    ] == [("mail", "/b"), ("audit", "/a"), ("mail", "/c")]
    assert {event.node_id for event in result.trace if event.type == "http_request"} == {"n2"}
    assert json.loads(result.output or "") == {"out": "?? report.txt\n11\n"}


def run(folder: Path, function: str, **more: Any) -> pytest_evarness.Result:
    for name, content in files(function, **more).items():
        write(folder / name, content)
    return pytest_evarness.run("scenarios/s.yaml", root=folder, rerun="inline")


def test_a_result_shows_the_world(tmp_path: Path) -> None:
    world: Any = run(tmp_path, "steady").world
    assert sorted(world) == ["ledger", "services", "workspace"]
    assert world["workspace"]["added"] == ["report.txt"]


@pytest.mark.parametrize(
    ("what", "place"), [("file", "file sub/mood"), ("row", "row 1 of table t of db")]
)
def test_a_world_that_is_not_reproduced_is_shown_by_what_differs(
    session: Session, what: str, place: str
) -> None:
    ran = session(files=files("moody", what=what), mirror=True)
    assert ran.code == 1
    assert ran.findings(CASE)["reproduces"] == "fail"
    assert f"both runs gave the same events and another world: {place}: " in ran.text
    # The twin: what is the same in both runs is reproduced.
    again = session(files=files("moody", what="none"), mirror=True)
    assert again.code == 0, again.text


def test_a_step_reaches_no_other_port(session: Session) -> None:
    ran = session(files=files("stray"))
    assert ran.code == 1
    assert "socket.connect: a node must not use the real network" in ran.text


@pytest.mark.parametrize("mirror", [False, True])
def test_nothing_of_run_a_is_there_for_run_b(session: Session, mirror: bool) -> None:
    ran = session(files=files("remember", world={"workspace": {}}), mirror=mirror)
    assert ran.code == 0, ran.text


def test_a_case_without_a_world_has_an_empty_text(session: Session) -> None:
    ran = session(files={"scenarios/s.yaml": echo()})
    assert world_of(ran) == {}


def test_a_service_that_is_down_leaves_the_run_open_with_its_words(session: Session) -> None:
    service = {"type": "sqlite", "init": "CREATE TABLE t (id); INSERT INTO u VALUES (1)"}
    ran = session(files=files("asks", world={"services": {"db": service}}))
    assert ran.code == 1
    found = ran.findings(CASE)
    assert (found["reproduces"], found["expect"]) == ("indeterminate", "indeterminate")
    assert "service db: " in ran.text
    # The twin: a service that is up is no such thing.
    up = session(files=files("asks", world={"services": {"db": {"type": "http_mock"}}}))
    assert up.findings(CASE)["expect"] == "pass"


def test_a_step_that_exits_leaves_no_world(session: Session) -> None:
    before = _own_worlds()
    ran = session(files=files("ends"))
    assert "a node tried to end the process" in ran.text
    assert _own_worlds() == before


def _own_worlds() -> list[str]:
    home = sys.modules["pytest_evarness.world.home"]
    current = home._home
    if current is None or not Path(current.path).exists():
        return []
    return [path.name for path in Path(current.path).iterdir()]


def test_the_command_line_runs_in_a_world_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in files("steady").items():
        write(tmp_path / name, content)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "scenarios/s.yaml"]) == 0
    said = capsys.readouterr()
    assert "http_request" in said.out
    assert said.err.splitlines()[1:] == [
        "  workspace, added: report.txt",
        "  service audit: 1 requests",
        "  service db: rows: t 2",
        "  service mail: 2 requests",
    ]


# -- nothing is left ------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_session_leaves_nothing_behind(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    if workers:
        pytest.importorskip("xdist")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = files("hide")
    for number in range(3):
        made[f"scenarios/s{number}.yaml"] = made["scenarios/s.yaml"]
    ran = session(*workers, files=made, subprocess=True, mirror=True)
    assert ran.code == 0, ran.text
    assert leftovers(tmp_path) == []


def _waiting(folder: Path, temporary: Path) -> subprocess.Popen[bytes]:
    flag = folder / "flag"
    for name, content in files("slow", flag=str(flag)).items():
        write(folder / name, content)
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while not flag.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert flag.exists()
    return process


def test_an_interrupted_session_leaves_nothing_behind(tmp_path: Path) -> None:
    project, temporary = tmp_path / "project", tmp_path / "temporary"
    project.mkdir()
    temporary.mkdir()
    process = _waiting(project, temporary)
    assert leftovers(temporary) != []
    process.send_signal(signal.SIGINT)
    process.wait(30)
    assert leftovers(temporary) == []


def test_what_a_killed_session_left_is_gone_after_the_next_one(tmp_path: Path) -> None:
    project, temporary = tmp_path / "project", tmp_path / "temporary"
    project.mkdir()
    temporary.mkdir()
    process = _waiting(project, temporary)
    process.kill()
    process.wait(30)
    assert leftovers(temporary) != []
    for name, content in files("hide").items():
        write(project / name, content)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert [name for name in leftovers(temporary) if name.startswith("evarness-world")] == []

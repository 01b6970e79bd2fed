"""What goes wrong around the judging is told once, in full, and never reads as judged."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import pytest_evarness.pipeline
from pytest_evarness.pipeline import CaseResult, Engine, Publisher
from tests.plugin.ran import Ran, counts_of
from tests.plugin.scenarios import HELD, echo, gated, step_graph, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugin.ran import Session

TWO = {
    "scenarios/a.yaml": echo(id="a", invariants={"it": HELD}),
    "scenarios/b.yaml": echo(id="b"),
}


def test_an_error_of_ours_is_met_once_for_a_case_and_spares_the_others(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Engine.run
    tried = []

    def run(self: Engine, case: object, **more: object) -> CaseResult:
        tried.append(case.scenario_id)  # type: ignore[attr-defined]
        if tried[-1] == "a":
            raise ZeroDivisionError("a bug of ours")
        return real(self, case, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "run", run)
    ran = session(files=TWO, shows_source=True)
    assert tried == ["a", "b"]
    assert ran.code == 1
    assert ran.counts == {"error": 3, "passed": 2}
    assert len(re.findall(r"^E +ZeroDivisionError: a bug of ours$", ran.text, re.MULTILINE)) == 1
    place = "shown in full at scenarios/a.yaml::default::reproduces\n"
    text = f"\nthe case could not be judged: an error inside pytest-evarness, {place}"
    assert ran.text.count(text) == 1
    assert "the same for 1 other item of the case" in ran.text
    assert [case["nodeid"] for case in ran.predicate["cases"]] == ["scenarios/b.yaml::default"]
    assert ran.holds is None


def test_a_secret_that_is_not_set_is_told_by_each_item_and_the_case_is_not_judged(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {**TWO, "scenarios/a.yaml": echo(id="a", secrets=["EVARNESS_TEST_TOKEN"])}
    monkeypatch.delenv("EVARNESS_TEST_TOKEN", raising=False)
    ran = session(files=files)
    assert ran.code == 1
    assert ran.counts == {"error": 2, "passed": 2}
    assert "environment variable is not set (got nothing for 'EVARNESS_TEST_TOKEN')" in ran.text
    assert "Traceback" not in ran.text
    assert ran.holds is None
    monkeypatch.setenv("EVARNESS_TEST_TOKEN", "correct horse battery")
    assert session().code == 0


def test_a_step_that_crashes_ends_its_run_as_failed_and_never_holds(session: Session) -> None:
    files = {
        "conftest.py": "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n",
        "stepping.py": "def crash(inputs, config, context):\n    raise ValueError('no such row')\n",
        "scenarios/a.yaml": echo(subject={"graph": step_graph("stepping:crash")}),
    }
    ran = session(files=files)
    assert (ran.code, ran.holds) == (1, False)
    assert "the run ended failed, not completed: ValueError: no such row" in ran.text


# -- keys, seal, bundle, reports ---------------------------------------------------------------


def test_a_key_that_is_not_there_is_a_usage_error_before_anything_is_collected(
    session: Session,
) -> None:
    ran = session("--evarness-key=nowhere.pem", files=TWO)
    assert ran.code == 4
    assert "--evarness-key: no such file (got 'nowhere.pem')" in ran.text
    assert "collected" not in ran.text


def test_a_key_that_is_none_stops_the_session_before_any_run(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = session("--evarness-key=key.pem", files={**TWO, "key.pem": "no key\n"})
    assert ran.code == 4
    assert "evarness: the seal cannot be written: " in ran.text
    assert not (ran.root / ".evarness" / "runs").exists()
    monkeypatch.setenv("EVARNESS_SIGNING_KEY", "/nowhere/at/all.pem")
    assert session().code == 4


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)])
def test_a_seal_that_cannot_be_written_stops_the_session_before_any_run(
    session: Session, workers: tuple[str, ...]
) -> None:
    # A file where the folder would be.
    ran = session(*workers, files={**TWO, ".evarness": "in the way\n"})
    assert ran.code == 4
    assert ran.text.count("evarness: the seal cannot be written: ") == 1
    assert "passed" not in ran.text


def test_a_bundle_that_cannot_be_written_fails_the_session_with_one_line(session: Session) -> None:
    plain = "import pathlib\n\ndef test_it():\n    pathlib.Path('proof.json').mkdir()\n"
    files = {**TWO, "test_plain.py": plain}
    ran = session("--evarness-bundle=proof.json", files=files)
    assert ran.code == 1
    assert ran.counts == {"passed": 6}
    (line,) = (line for line in ran.text.splitlines() if "the bundle cannot be written" in line)
    assert line == "evarness: the bundle cannot be written: Is a directory (proof.json)"


@pytest.mark.parametrize("words", [("-p", "no:terminal"), ("--no-summary",)])
def test_the_line_is_there_without_a_summary_too(session: Session, words: tuple[str, ...]) -> None:
    plain = "import pathlib\n\ndef test_it():\n    pathlib.Path('.evarness/proof.json').mkdir()\n"
    ran = session(*words, files={**TWO, "test_plain.py": plain})
    assert ran.code == 1
    assert "evarness: the bundle cannot be written: " in ran.text


def test_a_report_that_cannot_be_written_fails_the_session(session: Session) -> None:
    ran = session("--evarness-junit=a.txt/j.xml", files={**TWO, "a.txt": "a file\n"})
    assert ran.code == 1
    assert "evarness: --evarness-junit cannot be written: " in ran.text
    assert ran.holds is True
    ran = session("--evarness-junit=j.xml", "--evarness-bundle=none")
    assert ran.code == 4


def test_an_error_of_ours_at_the_end_does_not_lose_the_summary(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_bundle(self: Publisher, *words: object, **more: object) -> None:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(Publisher, "write_bundle", write_bundle)
    ran = session(files=TWO, shows_source=True)
    assert ran.code == 1
    assert "ZeroDivisionError: a bug of ours" in ran.text
    assert "2 valid, 0 invalid, 0 indeterminate of 2 planned cases" in ran.text
    assert ran.counts == {"passed": 5}


def test_no_bundle_means_no_file_at_all(session: Session) -> None:
    ran = session("--evarness-bundle=none", files=TWO)
    assert ran.code == 0
    assert not (ran.root / ".evarness").exists()
    assert "2 valid" in ran.text


def test_a_mistyped_selection_leaves_the_bundle_of_the_session_before(session: Session) -> None:
    ran = session(files=TWO)
    before = (ran.root / ".evarness" / "proof.json").read_bytes()
    ran = session("-k", "no expression at all")
    assert ran.code == 4
    assert (ran.root / ".evarness" / "proof.json").read_bytes() == before


def test_nothing_runs_without_a_seal_on_disk(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is what makes a binding mean anything: seal first, then the first event."""
    order = []
    real_seal, real_run = Publisher.write_seal, Engine.run

    def write_seal(self: Publisher, plan: object, **more: Any) -> object:
        record = real_seal(self, plan, **more)  # type: ignore[arg-type]
        assert self.store.early_seal.is_file()
        order.append("seal")
        return record

    def run(self: Engine, case: object, **more: object) -> CaseResult:
        order.append("run")
        return real_run(self, case, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Publisher, "write_seal", write_seal)
    monkeypatch.setattr(Engine, "run", run)
    assert session(files=TWO).code == 0
    assert order == ["seal", "run", "run"]


# -- interruption --------------------------------------------------------------------------------

WAITING = """
import os
import time


def run(inputs, config, context):
    if os.environ.get("EVARNESS_TEST_WAITS"):
        with open(os.environ["EVARNESS_TEST_WAITS"], "w") as stream:
            stream.write("here")
        time.sleep(20)
    return {"out": 1}
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_interrupted_session_writes_what_ran_and_leaves_nothing_running(
    tmp_path: Path, workers: str
) -> None:
    files = {
        "conftest.py": "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n",
        "waiting.py": WAITING,
        "scenarios/a.yaml": echo(id="a"),
        "scenarios/b.yaml": echo(id="b", subject={"graph": step_graph("waiting:run")}),
        "scenarios/c.yaml": gated(),
    }
    for name, content in files.items():
        write(tmp_path / name, content)
    here, temporary = tmp_path / "here.flag", tmp_path / "tmp"
    temporary.mkdir()
    always = ["-p", "no:hypothesispytest", "-n", workers, "-v"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *always],
        cwd=tmp_path,
        env={
            **os.environ,
            "HOME": str(tmp_path / "home"),
            "EVARNESS_TEST_WAITS": str(here),
            "TMPDIR": str(temporary),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 30
    while not here.exists() and time.monotonic() < end:
        time.sleep(0.05)
    # As a terminal does it: to the whole foreground group.
    os.killpg(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    ran = Ran(process.returncode, text, counts_of(text), tmp_path)
    assert ran.code == 2, text
    assert ran.holds is None
    judged = {case["nodeid"] for case in ran.predicate["cases"]}
    assert "scenarios/b.yaml::default" not in judged
    assert len(ran.plan) == 5
    assert f"({5 - len(judged)} not run)" in text
    if workers == "0":
        assert judged == {"scenarios/a.yaml::default"}
    # The mirror ends with its own temporary folder.
    end = time.monotonic() + 10
    while list(temporary.glob("evarness-mirror-*")) and time.monotonic() < end:
        time.sleep(0.05)
    assert not list(temporary.glob("evarness-mirror-*"))
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_the_pipeline_is_what_these_tests_replace() -> None:
    # The twin of the monkeypatched ones: the names that they replace are those that run.
    assert pytest_evarness.pipeline.Engine.run is Engine.run

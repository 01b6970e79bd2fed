"""Under xdist a session says the same: same plan, same digests, one seal, one report each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.ran import Ran, counts_of, statement_of
from tests.plugin.scenarios import BROKEN, HELD, OPEN, STEP, echo, gated, step_graph, write

if TYPE_CHECKING:
    from tests.plugin.ran import Session

pytest.importorskip("xdist")

BAD = "evarness: 1\nid: bad\nsubjekt: {}\n"
MIXED = {
    "scenarios/bad.yaml": BAD,
    "scenarios/gated.yaml": gated(),
    "scenarios/weighed.yaml": echo(
        id="weighed",
        invariants={
            "missed": BROKEN | {"weight": 1.0},
            "held": HELD | {"weight": 1.0},
            "open": OPEN | {"weight": 0.1},
        },
        scoring={"pass_threshold": 0.4},
    ),
    "scenarios/failing.yaml": echo(id="failing", invariants={"it": BROKEN}),
    "test_plain.py": "import pytest\n\n@pytest.mark.parametrize('n', range(5))\ndef test_it(n):\n"
    "    pass\n",
}


def facts(ran: Ran) -> dict[str, Any]:
    """What two sessions over the same files must agree on."""
    seal = ran.predicate["seal"]
    kept = ("plan", "broken", "contracts", "definitions", "subjects", "overlays", "policies")
    cases = [
        {
            "nodeid": case["nodeid"],
            "verdict": case["verdict"],
            "composite": case["composite"],
            "primary": case["primary"],
            "findings": [replica["findings"] for replica in case["replicas"]],
            "digests": [
                (run["label"], run["trace_digest"], run["chain_digest"], run["world_digest"])
                for replica in case["replicas"]
                for run in replica["runs"]
            ],
        }
        for case in ran.predicate["cases"]
    ]
    return {"seal": {key: seal[key] for key in kept}, "cases": cases, "verdict": ran.holds}


SHOW = """
import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))


def pytest_runtest_logreport(report):
    finding = getattr(report, "evarness", None)
    if finding is not None and not os.environ.get("PYTEST_XDIST_WORKER"):
        # Written and read again it is the same: nothing but JSON crossed from the worker.
        assert json.loads(json.dumps(finding)) == finding
        assert all(type(value) is str for _, value in report.user_properties)
        with open(os.path.join(os.path.dirname(__file__), "seen.txt"), "a") as stream:
            stream.write(report.nodeid + "\\n")
"""


def process(root: Path, *words: str, folder: str = ".", **variables: str) -> Ran:
    """A session in a process of its own: a hash seed is fixed when Python starts."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:hypothesispytest",
            "--rootdir",
            str(root),
            *words,
        ],
        cwd=root / folder,
        env={**os.environ, "HOME": str(root / "home"), **variables},
        check=False,
        capture_output=True,
        text=True,
    )
    text = done.stdout + done.stderr
    assert "pytest_evarness/" not in text, text
    return Ran(done.returncode, text, counts_of(text), root)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Ran]:
    """One session alone; one with two workers, another hash seed, folder and order."""
    found = []
    for workers, seed, folder in (("0", "0", "."), ("2", "1", "elsewhere")):
        root = tmp_path_factory.mktemp("pair")
        files = {
            **MIXED,
            "conftest.py": SHOW,
            "steps.py": STEP,
            "scenarios/steady.yaml": echo(
                id="steady", subject={"graph": step_graph("steps:steady")}, invariants={"it": HELD}
            ),
        }
        for name, content in files.items():
            write(root / name, content)
        (root / "elsewhere").mkdir()
        named = [str(root / name) for name in files if name.endswith(".yaml")]
        plain = str(root / "test_plain.py")
        order = [*named, plain] if workers == "0" else [plain, *reversed(named)]
        ran = process(root, "-n", workers, *order, folder=folder, PYTHONHASHSEED=seed)
        found.append(ran)
    return found[0], found[1]


def test_two_workers_another_seed_folder_and_order_say_the_same(pair: tuple[Ran, Ran]) -> None:
    alone, both = pair
    assert (alone.code, both.code) == (1, 1), both.text
    assert alone.counts == both.counts
    assert facts(alone) == facts(both)
    assert len(facts(both)["cases"]) == 6


def test_what_is_broken_or_missed_is_reported_once(pair: tuple[Ran, Ran]) -> None:
    for ran in pair:
        assert "Different tests were collected" not in ran.text
        assert ran.text.count("ERROR at setup of load") == 1
        assert ran.text.count("BROKEN scenarios/bad.yaml") == 1
        assert ran.text.count("MISSED scenarios/weighed.yaml::default::missed") == 1


def test_each_case_runs_once_under_the_session_of_its_seal(pair: tuple[Ran, Ran]) -> None:
    for ran in pair:
        (folder,) = (ran.root / ".evarness" / "runs").iterdir()
        logs = sorted(folder.iterdir())
        assert len(logs) == 2 * len(ran.predicate["cases"])
        seal = statement_of(ran.root / ".evarness" / "proof.seal.json")["predicate"]["seal"]
        for log in logs:
            header = json.loads(log.read_text().splitlines()[0])
            assert header["seal"] == seal["digest"] == ran.predicate["seal"]["digest"]


def test_no_plan_of_a_worker_is_left_behind(pair: tuple[Ran, Ran]) -> None:
    _, both = pair
    left = sorted(path.name for path in (both.root / ".evarness").iterdir())
    assert left == [".gitignore", "proof.json", "proof.seal.json", "runs"]


def test_what_crosses_processes_is_json(pair: tuple[Ran, Ran]) -> None:
    for ran in pair:
        seen = (ran.root / "seen.txt").read_text().splitlines()
        findings = [case["replicas"][0]["findings"] for case in ran.predicate["cases"]]
        assert len(seen) == sum(len(found) for found in findings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("-m", "gate"), ("-k", "expect"), ("--lf",), ("--collect-only",)]
)
def test_a_broken_file_is_not_passed_over_by_two_workers(
    session: Session, words: tuple[str, ...]
) -> None:
    files = {"scenarios/bad.yaml": BAD, "scenarios/good.yaml": echo()}
    ran = session("-n", "2", *words, files=files)
    assert ran.code in (1, 2)
    assert "unknown key (got 'subjekt'" in ran.text


@pytest.mark.slow
def test_a_selection_is_the_same_under_two_workers(session: Session) -> None:
    files = {"scenarios/gated.yaml": gated()}
    alone = session("-k", "expect and not reject", files=files)
    both = session("-n", "2", "--evarness-min-scenarios=1", "-k", "expect and not reject")
    assert facts(alone) == facts(both)
    assert both.counts["passed"] == 2
    assert (both.code, both.holds) == (0, None)


KILL = {
    "killer.py": "import os, signal\n\n\ndef run(inputs, config, context):\n"
    "    if 'PYTEST_XDIST_WORKER' in os.environ and not os.path.exists(config['flag']):\n"
    "        open(config['flag'], 'w').close()\n"
    "        os.kill(os.getpid(), signal.SIGKILL)\n    return {'out': 1}\n"
}


@pytest.mark.slow
def test_a_case_whose_worker_was_killed_never_counts_as_judged(
    session: Session, pytester: pytest.Pytester
) -> None:
    flag = str(pytester.path / "killed.flag")
    killer = echo(subject={"graph": step_graph("killer:run", flag=flag)}, id="killer")
    files = {
        **KILL,
        "conftest.py": SHOW,
        "scenarios/a.yaml": echo(),
        "scenarios/killer.yaml": killer,
    }
    ran = session("-n", "2", files=files)
    assert ran.code == 1
    assert "crashed while running" in ran.text
    assert [case["nodeid"] for case in ran.predicate["cases"]] == ["scenarios/a.yaml::default"]
    assert ran.holds is None
    assert ran.predicate["verdict"]["note"].startswith(
        "scenarios/killer.yaml::default: did not run"
    )
    assert "(1 not run)" in ran.text


DIES = """
import os


def pytest_collection_modifyitems():
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw0":
        os._exit(3)
"""

DIFFERS = """
import os


def pytest_collection_modifyitems(items):
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw0":
        del items[3:]
"""


@pytest.mark.slow
def test_a_worker_that_dies_while_it_collects_is_replaced_and_the_session_sealed(
    session: Session,
) -> None:
    ran = session("-n", "2", files={"conftest.py": DIES, "scenarios/gated.yaml": gated()})
    assert (ran.code, ran.holds) == (0, True)
    assert ran.counts == {"passed": 9, "vacuous": 9}


@pytest.mark.slow
def test_workers_that_collected_different_scenarios_run_nothing(session: Session) -> None:
    ran = session("-n", "2", files={"conftest.py": DIFFERS, "scenarios/gated.yaml": gated()})
    assert ran.code == 4
    assert "evarness: the workers collected different scenarios" in ran.text
    assert "passed" not in ran.text

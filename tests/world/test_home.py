"""No two runs share a folder, and nothing stays behind, whoever was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_evarness.core.removal import remove_tree
from pytest_evarness.world import home

REPOSITORY = Path(__file__).parents[2]
HOLDS = """\
import sys, time
from pytest_evarness.world import home
print(home.new_folder(), flush=True)
{then}
"""


def start(folder: Path, then: str) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS.format(then=then)],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=REPOSITORY,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(home.PREFIX)]


def test_each_folder_is_new_empty_and_private() -> None:
    one, other = Path(home.new_folder()), Path(home.new_folder())
    assert one != other
    assert list(one.iterdir()) == []
    assert one.stat().st_mode & 0o777 == one.parent.stat().st_mode & 0o777 == 0o700
    one.rmdir()
    other.rmdir()


@pytest.mark.parametrize("then", ["pass", "raise SystemExit(3)", "raise KeyboardInterrupt"])
def test_a_process_that_ends_leaves_nothing(tmp_path: Path, then: str) -> None:
    process, made = start(tmp_path, then)
    process.communicate()
    assert not made.exists()
    assert left(tmp_path) == []


def test_an_interrupted_process_leaves_nothing(tmp_path: Path) -> None:
    process, made = start(tmp_path, "time.sleep(60)")
    assert made.exists()
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert left(tmp_path) == []


def test_what_a_killed_process_left_goes_when_the_next_one_starts(tmp_path: Path) -> None:
    process, made = start(tmp_path, "time.sleep(60)")
    process.kill()
    process.communicate()
    assert made.exists()
    (made / "locked").mkdir()
    (made / "locked/in").write_text("x")
    (made / "locked").chmod(0o500)
    other, _ = start(tmp_path, "pass")
    other.communicate()
    assert left(tmp_path) == []


def test_what_a_living_process_has_stays(tmp_path: Path) -> None:
    process, made = start(tmp_path, "time.sleep(60)")
    try:
        other, _ = start(tmp_path, "pass")
        other.communicate()
        assert made.exists()
    finally:
        process.kill()
        process.communicate()


def test_a_lock_that_is_held_protects_where_the_process_cannot_be_seen(tmp_path: Path) -> None:
    """As in another container that shares the temporary folder: the number says nothing."""
    process, made = start(tmp_path, "time.sleep(60)")
    try:
        unseen = tmp_path / f"{home.PREFIX}{2**22 + 1}-1-x"
        made.parent.rename(unseen)
        start(tmp_path, "pass")[0].communicate()
        assert unseen.exists()
    finally:
        process.kill()
        process.communicate()
    start(tmp_path, "pass")[0].communicate()
    assert not unseen.exists()


def test_a_number_that_was_given_to_another_process_protects_nothing(tmp_path: Path) -> None:
    stale = tmp_path / f"{home.PREFIX}{os.getpid()}-1-x"
    stale.mkdir()
    (stale / "lock").touch()
    mine = tmp_path / f"{home.PREFIX}{os.getpid()}-{home._started(os.getpid())}-x"
    mine.mkdir()
    (mine / "lock").touch()
    start(tmp_path, "pass")[0].communicate()
    assert [stale.exists(), mine.exists()] == [False, True]


def test_a_folder_that_is_just_being_made_is_left_alone_for_a_while(tmp_path: Path) -> None:
    fresh, old = (tmp_path / f"{home.PREFIX}{2**22 + 1}-1-{name}" for name in ("new", "old"))
    fresh.mkdir()
    old.mkdir()
    hour_ago = time.time() - 3600
    os.utime(old, (hour_ago, hour_ago))
    start(tmp_path, "pass")[0].communicate()
    assert [fresh.exists(), old.exists()] == [True, False]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "lock").touch()
    (target / "precious").touch()
    (tmp_path / f"{home.PREFIX}{2**22 + 1}-1-x").symlink_to(target)
    start(tmp_path, "pass")[0].communicate()
    assert (target / "precious").exists()


def test_a_child_has_a_folder_of_its_own_and_leaves_that_of_its_parent() -> None:
    mine = Path(home.new_folder())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, home.new_folder().encode())
            home.release()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    theirs = Path(os.read(reading, 4096).decode())
    os.close(reading)
    os.close(writing)
    assert theirs.parent != mine.parent
    assert [mine.exists(), theirs.parent.exists()] == [True, False]
    mine.rmdir()


def test_a_folder_that_was_emptied_from_outside_is_made_anew() -> None:
    first = Path(home.new_folder())
    remove_tree(str(first.parent))
    second = Path(home.new_folder())
    assert second.exists()
    second.rmdir()


def test_tidying_removes_what_holds_no_world() -> None:
    folder = Path(home.new_folder())
    home.tidy()
    assert folder.exists()
    folder.rmdir()
    if list(folder.parent.iterdir()) == [folder.parent / "lock"]:
        home.tidy()
        assert not folder.parent.exists()

"""A snapshot tells everything that is in a workspace, and nothing that differs between machines."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.core.material import sha256_bytes
from pytest_evarness.core.secret import Masker
from pytest_evarness.world import snapshot
from tests.world.made import make

NOBODY = Masker({})
REPOSITORY = Path(__file__).parents[2]


def seen(folder: Path, start: dict[str, Any] | None = None) -> dict[str, Any]:
    true, shown = snapshot.take(str(folder), start or {}, NOBODY)
    assert true is shown
    return dict(true)


def entries(folder: Path) -> dict[str, Any]:
    return {entry["path"]: entry for entry in seen(folder)["files"]}


def test_each_kind_of_entry_is_listed_and_only_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir/file").write_bytes(b"abc")
    (tmp_path / "dir/file").chmod(0o600)
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        os.chdir(tmp_path)  # the path of a socket must be short
        one.bind("sock")
        os.chdir("/")
    found = entries(tmp_path)
    assert found["dir/file"] == {
        "path": "dir/file",
        "type": "file",
        "mode": "0600",
        "size": 3,
        "sha256": sha256_bytes(b"abc"),
    }
    assert found["dir"]["type"] == "directory"
    assert found["link"] == {"path": "link", "type": "symlink", "target": "/etc/passwd"}
    assert found["dangling"] == {"path": "dangling", "type": "symlink", "target": "nowhere"}
    assert (found["pipe"]["type"], found["sock"]["type"]) == ("fifo", "socket")
    assert list(found) == sorted(found)


def test_a_link_to_a_folder_is_not_walked_through(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("x")
    (tmp_path / "work/out").symlink_to("../outside")
    (tmp_path / "work/self").symlink_to(".")
    assert list(entries(tmp_path / "work")) == ["out", "self"]


def test_names_that_are_no_utf_8_stay_apart(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff")).write_text("1")
    (tmp_path / r"a\xff").write_text("2")
    found = seen(tmp_path)["files"]
    assert [entry["path"] for entry in found] == [r"a\xff", r"a\xff"]
    assert {entry.get("raw") for entry in found} == {None, "Yf8="}
    json.dumps(found, ensure_ascii=True)


def test_what_became_of_the_start_is_told() -> None:
    files = {"same": "1", "touched": "1", "changed": "1", "gone": "1", "turned": "1", "d/x": "1"}
    with make(workspace={"files": {**files, "exec": "1"}}) as world:
        root = world.workspace
        assert root is not None
        (root / "touched").touch()
        (root / "changed").write_text("2")
        (root / "gone").unlink()
        (root / "turned").unlink()
        (root / "turned").mkdir()
        (root / "exec").chmod(0o755)
        (root / "new").write_text("1")
        (root / "d/x").rename(root / "d/y")
        world.seal()
        found: Any = world.snapshot["workspace"]
    assert found["added"] == ["d/y", "new"]
    assert found["removed"] == ["d/x", "gone"]
    assert found["modified"] == ["changed", "exec", "turned"]


@pytest.mark.parametrize("git", [False, True])
def test_nothing_has_changed_where_nothing_was_done(git: bool) -> None:
    files = {"a": "1", "d/b": {"text": "x", "mode": "0400"}}
    with make(workspace={"files": files, "git": git}) as world:
        world.seal()
        found: Any = world.snapshot["workspace"]
    assert [found["added"], found["removed"], found["modified"]] == [[], [], []]
    assert len(found["files"]) == (6 if git else 3)


def test_what_git_keeps_times_in_is_left_out_and_the_rest_is_not() -> None:
    with make(workspace={"files": {"a": "1"}, "git": True}) as world:
        root = world.workspace
        assert root is not None
        (root / ".git/index").write_bytes(b"other")
        (root / ".git/objects/zz").write_text("x")
        (root / ".git/logs").mkdir()
        before = seen(root, world._start)
        assert (before["added"], before["removed"], before["modified"]) == ([], [], [])
        (root / ".git/hooks").mkdir()
        (root / ".git/hooks/pre-commit").write_text("x")
        (root / ".git/config").write_text("x")
        (root / "objects").mkdir()  # the name alone does not hide anything
        (root / "objects/x").write_text("x")
        found = seen(root, world._start)
    assert found["added"] == [".git/hooks", ".git/hooks/pre-commit", "objects", "objects/x"]
    assert found["modified"] == [".git/config"]


@pytest.mark.parametrize("how", ["removed", "file", "link"])
def test_a_workspace_that_is_gone_is_told(how: str, tmp_path: Path) -> None:
    with make(workspace={"files": {"a": "1"}}) as world:
        root = world.workspace
        assert root is not None
        (root / "a").unlink()
        root.rmdir()
        if how == "file":
            root.write_text("x")
        elif how == "link":
            (tmp_path / "a").write_text("1")
            root.symlink_to(tmp_path)
        world.seal()
        found: Any = world.snapshot["workspace"]
    assert found == {
        "files": [],
        "added": [],
        "removed": ["a"],
        "modified": [],
        "is_gone": True,
    }


def test_beyond_the_bound_entries_still_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_ENTRIES", 2)
    for name in "abcd":
        (tmp_path / name).write_text(name)
    one = seen(tmp_path)
    assert [entry["path"] for entry in one["files"]] == ["a", "b"]
    assert one["beyond"]["count"] == 2
    assert one["added"] == ["a", "b", "c", "d"]
    (tmp_path / "d").write_text("other")
    assert seen(tmp_path)["beyond"]["digest"] != one["beyond"]["digest"]


def test_a_file_beyond_what_is_read_is_told_to_be_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_HASHED", 1 << 20)
    with (tmp_path / "a-huge").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "b").write_text("x")
    found = entries(tmp_path)
    assert found["a-huge"] == {
        "path": "a-huge",
        "type": "file",
        "mode": found["b"]["mode"],
        "size": 1 << 40,
        "unread": True,
    }
    assert found["b"]["sha256"] == sha256_bytes(b"x")


def test_a_large_file_is_read_whole(tmp_path: Path) -> None:
    data = bytes(range(256)) * 20_000
    (tmp_path / "large").write_bytes(data)
    assert entries(tmp_path)["large"]["sha256"] == f"sha256:{hashlib.sha256(data).hexdigest()}"


# -- secrets --------------------------------------------------------------------------------------


def test_a_secret_reaches_neither_a_name_nor_a_digest_nor_a_size() -> None:
    shown: list[Any] = []
    for secret in ("hunter2", "correct-horse"):
        with make(workspace={"files": {}}, secrets={"PASSWORD": secret}) as world:
            root = world.workspace
            assert root is not None
            (root / "log").write_text(f"login with {secret}\n")
            (root / f"of-{secret}").write_bytes(b"\xff\xfe")
            (root / "link").symlink_to(secret)
            text = world.seal()
            true: Any = world.snapshot["workspace"]
            (log,) = [entry for entry in true["files"] if entry["path"] == "log"]
            # Checks see what is there.
            assert log["sha256"] == sha256_bytes(f"login with {secret}\n".encode())
            assert secret not in text
            shown.append(json.loads(text))
    assert shown[0] == shown[1]
    listed = {entry["path"]: entry for entry in shown[0]["workspace"]["files"]}
    assert sorted(listed) == ["link", "log", "of-«secret:PASSWORD»"]
    assert listed["log"]["masked"] is True
    assert listed["link"]["target"] == "«secret:PASSWORD»"


# -- another user ---------------------------------------------------------------------------------

_UNREADABLE = """\
import json, os, sys
from pytest_evarness.core.removal import remove_tree
from pytest_evarness.core.secret import Masker
from pytest_evarness.world import snapshot
root = sys.argv[1]
if os.getuid() == 0:
    os.setuid(65534)
os.mkdir(root + "/w")
for name in ("closed", "open"):
    os.mkdir(f"{root}/w/{name}")
    open(f"{root}/w/{name}/in", "w").close()
open(root + "/w/secret", "w").close()
os.chmod(root + "/w/secret", 0)
os.chmod(root + "/w/closed", 0)
start = {path: {"type": "file"} for path in ("closed/in", "open/gone")}
first = snapshot.take(root + "/w", start, Masker({}))[0]
os.chmod(root + "/w", 0)
second = snapshot.take(root + "/w", start, Masker({}))[0]
os.chmod(root + "/w", 0o500)
remove_tree(root + "/w")
print(json.dumps([first, second, os.path.exists(root + "/w")]))
"""


def test_what_cannot_be_read_is_told_and_not_called_removed(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.getuid() and len(folder.parts) > 2:
            folder.chmod(folder.stat().st_mode | 0o111)
    done = subprocess.run(
        [sys.executable, "-c", _UNREADABLE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    first, second, is_left = json.loads(done.stdout)
    found = {entry["path"]: entry for entry in first["files"]}
    assert found["closed"] == {
        "path": "closed",
        "type": "directory",
        "mode": "0000",
        "unreadable": True,
    }
    assert found["secret"]["unreadable"] is True
    assert "sha256" not in found["secret"]
    assert first["removed"] == ["open/gone"]
    assert second == {"files": [], "added": [], "removed": [], "modified": [], "unreadable": True}
    assert not is_left

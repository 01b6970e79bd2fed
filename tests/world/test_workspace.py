"""A workspace is made as it is listed, whatever the umask; git finds a repository in it."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.world import repository, snapshot
from pytest_evarness.world.workspace import copy_tree
from tests.world.made import faults_of, make

if TYPE_CHECKING:
    from pathlib import Path

FILES: dict[str, Any] = {
    "README": "hello\n",
    "bin/run": {"text": "#!/bin/sh\n", "mode": "0755"},
    "data/raw": {"base64": "AP8="},
    "data.txt": "x",
    "data-1": "y",
    "locked/in": {"text": "z", "mode": "0400"},
    "ünï/ç": "é",
}


def mode(path: Path) -> str:
    return f"{path.lstat().st_mode & 0o7777:04o}"


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_it_is_made_as_it_is_listed(umask: int) -> None:
    former = os.umask(umask)
    try:
        with make(workspace={"files": FILES}) as world:
            root = world.workspace
            assert root is not None
            found = sorted(
                path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir()
            )
            assert found == sorted(FILES)
            assert (root / "README").read_text() == "hello\n"
            assert (root / "data/raw").read_bytes() == b"\x00\xff"
            assert [mode(root / name) for name in ("README", "bin/run", "locked/in", "bin")] == [
                "0644",
                "0755",
                "0400",
                "0755",
            ]
    finally:
        os.umask(former)


def test_everything_was_last_changed_when_simulated_time_began() -> None:
    with make(workspace={"files": FILES}, clock="2020-05-17T10:00:00.5Z") as world:
        assert world.workspace is not None
        times = {path.lstat().st_mtime for path in world.workspace.rglob("*")}
        assert times == {1589709600.5}


def test_links_of_a_copied_folder_are_links(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/a").write_text("x")
    (tmp_path / "demo/b").symlink_to("a")
    with make(tmp_path, workspace={"from": "demo"}) as world:
        assert world.workspace is not None
        assert (world.workspace / "b").readlink().as_posix() == "a"
        # A copy: what a run does reaches nobody.
        (world.workspace / "a").write_text("changed")
    assert (tmp_path / "demo/a").read_text() == "x"


# -- git ------------------------------------------------------------------------------------------

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str, code: int = 0) -> str:
    """What git says, the user's own configuration being as bad as it can be."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text(
        "[core]\n\texcludesFile = ~/ignore\n\tautocrlf = true\n\tpager = false\n"
        "[commit]\n\tgpgsign = true\n[color]\n\tui = always\n[diff]\n\tnoprefix = true\n"
    )
    (home / "ignore").write_text("*\n")
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


@needs_git
def test_git_finds_one_commit_of_everything() -> None:
    files = {**FILES, ".gitignore": "data.txt\n", "many/" + "x" * 200: "", "a/b/c/d": "deep"}
    with make(workspace={"files": files, "git": True}) as world:
        root = world.workspace
        assert root is not None
        assert git(root, "fsck", "--strict", "--full") == ""
        assert git(root, "status", "--porcelain", "--ignored") == ""
        assert git(root, "diff", "--exit-code") == ""
        assert git(root, "log", "--format=%an <%ae> %at %ct %s") == (
            "evarness <evarness@example.invalid> 1767225600 1767225600 Initial commit\n"
        )
        listed = git(root, "-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", "HEAD")
        assert listed.splitlines() == sorted(files, key=lambda path: path.encode())
        assert git(root, "branch", "--show-current") == "main\n"


@needs_git
def test_git_sees_every_kind_of_change() -> None:
    with make(workspace={"files": {**FILES, "same": "1234"}, "git": True}) as world:
        root = world.workspace
        assert root is not None
        (root / "same").write_text("4321")  # neither size nor time tells
        os.utime(root / "same", ns=(0, (root / "README").stat().st_mtime_ns))
        (root / "data.txt").unlink()
        (root / "new").write_text("n")
        (root / "README").chmod(0o755)
        assert git(root, "status", "--porcelain").splitlines() == [
            " M README",
            " D data.txt",
            " M same",
            "?? new",
        ]
        assert "-1234\n" in git(root, "diff", "same")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "more")
        assert git(root, "log", "--format=%an %s").splitlines() == [
            "evarness more",
            "evarness Initial commit",
        ]


@needs_git
def test_the_commit_depends_on_what_is_in_it_alone() -> None:
    heads = []
    for files in (FILES, FILES, {**FILES, "README": "other"}):
        with make(workspace={"files": files, "git": True}) as world:
            assert world.workspace is not None
            heads.append(git(world.workspace, "rev-parse", "HEAD"))
    assert heads[0] == heads[1] != heads[2]


@needs_git
def test_an_empty_workspace_can_be_a_repository() -> None:
    with make(workspace={"git": True}) as world:
        assert world.workspace is not None
        assert git(world.workspace, "fsck") == ""
        assert git(world.workspace, "status", "--porcelain") == ""


@needs_git
def test_git_itself_would_have_written_the_same_tree(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    files = {"a/b": "1", "a.b": "2", "a-b": "3", "a0": "4", "ab/c": "5"}
    for path, text in files.items():
        (plain / path).parent.mkdir(parents=True, exist_ok=True)
        (plain / path).write_text(text)
    git(plain, "init", "-q")
    git(plain, "-c", "core.excludesFile=/dev/null", "add", "-A")
    tree = git(plain, "write-tree")
    with make(workspace={"files": files, "git": True}) as world:
        assert world.workspace is not None
        assert git(world.workspace, "rev-parse", "HEAD^{tree}") == tree


def test_what_a_snapshot_lists_of_a_repository_is_what_is_there() -> None:
    with make(workspace={"git": True}) as world:
        assert world.workspace is not None
        for path, data in repository.listed_files().items():
            assert (world.workspace / path).read_bytes() == data


# -- copies ---------------------------------------------------------------------------------------


def test_a_copy_is_the_same_but_for_what_is_no_file(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "sub").mkdir(parents=True)
    (source / "sub/file").write_text("x")
    (source / "sub/file").chmod(0o640)
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    (source / "sub").chmod(0o550)
    os.utime(source / "sub", ns=(0, 5_000_000_000))
    target.mkdir()
    copy_tree(str(source), str(target))
    assert (target / "link").readlink().as_posix() == "/etc/passwd"
    assert sorted(path.name for path in target.iterdir()) == ["link", "sub"]
    assert mode(target / "sub") == "0550"
    assert (target / "sub").stat().st_mtime_ns == 5_000_000_000
    assert mode(target / "sub/file") == "0640"
    (source / "sub").chmod(0o755)
    (target / "sub").chmod(0o755)


# -- any tree -------------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\\\0"), max_size=8)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
TREES = st.dictionaries(PATHS, st.binary(max_size=20), max_size=8)


@settings(max_examples=60, deadline=None)
@given(TREES, st.booleans())
def test_whatever_is_declared_is_there_unchanged_and_copied_whole(
    tree: dict[str, bytes], git: bool
) -> None:
    files = {path: {"base64": base64.b64encode(data).decode()} for path, data in tree.items()}
    if faults_of(workspace={"files": files}):
        return  # a path that leads nowhere; other tests look at those
    with make(workspace={"files": files, "git": git}) as world:
        root = world.workspace
        assert root is not None
        assert {path: (root / path).read_bytes() for path in tree} == tree
        world.seal()
        found: Any = world.snapshot["workspace"]
        assert (found["added"], found["removed"], found["modified"]) == ([], [], [])
        with tempfile.TemporaryDirectory() as target:
            copy_tree(str(root), target)
            again, _ = snapshot.take(target, world._start, world.masker)
        assert again == found

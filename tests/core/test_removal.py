"""A folder goes with all that is in it, and nothing that is not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_evarness.core.removal import remove_tree

if TYPE_CHECKING:
    from pathlib import Path


def test_everything_goes(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for path in ("a/b/c", "a/b/d", "e", "a/.removed-0/x"):
        (top / path).mkdir(parents=True)
    (top / ".removed-1").mkdir()
    (top / ".removed-1/file").write_text("x")
    for path in ("file", "a/file", "a/b/c/file"):
        (top / path).write_text("x")
    os.mkfifo(top / "a/pipe")
    remove_tree(str(top))
    assert list(tmp_path.iterdir()) == []


def test_links_go_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("x")
    (tmp_path / "top/sub").mkdir(parents=True)
    (tmp_path / "top/link").symlink_to("../kept")
    (tmp_path / "top/sub/link").symlink_to("../../kept")
    remove_tree(str(tmp_path / "top"))
    (tmp_path / "link").symlink_to("kept")
    remove_tree(str(tmp_path / "link"))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept/file").exists()


def test_what_forbids_it_goes_too(tmp_path: Path) -> None:
    inner = tmp_path / "top/middle/inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    (inner / "file").chmod(0)
    for folder in (inner, inner.parent, inner.parent.parent):
        folder.chmod(0o100)
    remove_tree(str(tmp_path / "top"))
    assert list(tmp_path.iterdir()) == []


def test_no_depth_is_too_much(tmp_path: Path) -> None:
    """Deeper than a path can say and than calls can go."""
    here = os.open(tmp_path, os.O_RDONLY)
    os.mkdir("top", dir_fd=here)
    at = os.open("top", os.O_RDONLY, dir_fd=here)
    for _ in range(3000):
        os.mkdir("deep", dir_fd=at)
        below = os.open("deep", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    os.close(here)
    remove_tree(str(tmp_path / "top"))
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_fine(tmp_path: Path) -> None:
    remove_tree(str(tmp_path / "missing"))
    (tmp_path / "file").write_text("x")
    remove_tree(str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []

"""What a case refers to is in it when it is compiled; what cannot be is refused by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.material import sha256_bytes
from pytest_evarness.world import inlining
from tests.world.made import files_in, inlined

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    folder = tmp_path / "demo"
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"alpha\r\n")
    (folder / "run.sh").write_bytes(b"\xff\x00")
    (folder / "run.sh").chmod(0o700)
    (folder / "sub" / "link").symlink_to("../a.txt")
    return folder


def paths(folder: Path, **workspace: Any) -> dict[str, Any]:
    made: Any = inlined(folder, workspace=workspace)
    assert made.faults == ()
    return {entry["path"]: entry for entry in made.environment["workspace"]["files"]}


def refused(folder: Path, **written: Any) -> list[str]:
    faults = inlined(folder, **written).faults
    return [f"{'.'.join(map(str, fault.path))}: {fault.text}" for fault in faults]


def test_a_folder_is_copied_by_digest(tmp_path: Path, demo: Path) -> None:
    made: Any = inlined(tmp_path, workspace={"from": "demo"})
    assert made.environment["workspace"] == {
        "git": False,
        "files": [
            {
                "path": "a.txt",
                "type": "file",
                "mode": "0644",
                "sha256": sha256_bytes(b"alpha\r\n"),
                "size": 7,
            },
            {
                "path": "run.sh",
                "type": "file",
                "mode": "0755",
                "sha256": sha256_bytes(b"\xff\x00"),
                "size": 2,
            },
            {"path": "sub", "type": "directory", "mode": "0755"},
            {"path": "sub/empty", "type": "directory", "mode": "0755"},
            {"path": "sub/link", "type": "symlink", "target": "../a.txt"},
        ],
    }
    assert sorted(made.contents.values()) == [b"alpha\r\n", b"\xff\x00"]
    ((name, digest),) = made.subjects
    assert (name, len(digest)) == ("demo/", 64)


def test_permission_bits_of_a_checkout_do_not_matter_but_for_running(
    tmp_path: Path, demo: Path
) -> None:
    before = paths(tmp_path, **{"from": "demo"})
    (demo / "a.txt").chmod(0o600)
    assert paths(tmp_path, **{"from": "demo"}) == before
    (demo / "a.txt").chmod(0o700)
    assert paths(tmp_path, **{"from": "demo"}) != before


def test_files_win_over_what_was_copied(tmp_path: Path, demo: Path) -> None:
    files = {"a.txt": "other", "new/deep/b": {"base64": "AA==", "mode": "0600"}}
    found = paths(tmp_path, **{"from": "demo", "files": files})
    assert found["a.txt"]["sha256"] == sha256_bytes(b"other")
    assert found["new/deep/b"]["mode"] == "0600"
    assert found["new/deep"]["type"] == found["new"]["type"] == "directory"


@pytest.mark.parametrize("path", ["sub", "a.txt/b", "sub/link/b"])
def test_files_that_do_not_fit_what_was_copied_are_refused(
    tmp_path: Path, demo: Path, path: str
) -> None:
    workspace = {"from": "demo", "files": {path: "x"}}
    (fault,) = inlined(tmp_path, workspace=workspace).faults
    assert fault.path == ("workspace", "files", path)


@pytest.mark.parametrize(
    ("target", "is_inside"),
    [
        ("../a.txt", True),
        ("missing", True),
        ("../../demo/a.txt", False),
        ("../../outside", False),
        ("../../demo-2/x", False),
        ("/etc/passwd", False),
        ("empty/../../../x", False),
    ],
)
def test_a_link_that_leads_out_is_refused(
    tmp_path: Path, demo: Path, target: str, is_inside: bool
) -> None:
    (tmp_path / "outside").write_text("x")
    (tmp_path / "demo-2").mkdir()
    (demo / "sub" / "one").symlink_to(target)
    said = refused(tmp_path, workspace={"from": "demo"})
    assert (said == []) is is_inside
    if not is_inside:
        text = "is a link that leads out of the workspace (got 'sub/one'; links are relative"
        assert said[0].startswith(f"workspace.from: {text}")


def test_a_link_that_leads_out_by_another_link_is_refused(tmp_path: Path, demo: Path) -> None:
    (demo / "sub" / "up").symlink_to("..")
    assert refused(tmp_path, workspace={"from": "demo"}) == []
    # By its own components it would stay inside.
    (demo / "far").symlink_to("sub/up/../x")
    (said,) = refused(tmp_path, workspace={"from": "demo"})
    assert "is a link that leads out of the workspace (got 'far';" in said


@pytest.mark.parametrize("make", ["fifo", "git", "loop"])
def test_what_is_no_file_is_refused(tmp_path: Path, demo: Path, make: str) -> None:
    if make == "fifo":
        os.mkfifo(demo / "odd")
        text = "is neither a file, a folder nor a link (got 'odd')"
    elif make == "git":
        (demo / ".git").mkdir()
        text = "belongs to git (got '.git')"
    else:
        (demo / "odd").symlink_to("odd")
        assert refused(tmp_path, workspace={"from": "demo"}) == []  # it leads nowhere
        return
    assert refused(tmp_path, workspace={"from": "demo"}) == [f"workspace.from: {text}"]


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path, demo: Path) -> None:
    (demo / os.fsdecode(b"bad\xff")).write_text("x")
    (said,) = refused(tmp_path, workspace={"from": "demo"})
    assert said == r"workspace.from: has a name that is not UTF-8 (got 'bad\xff')"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("missing", "no such folder (got 'missing')"),
        ("file", "is no folder (got 'file')"),
        ("../sibling", "leads outside (got '../sibling'; references stay inside"),
        ("/etc", "must be relative to the scenario file (got '/etc'; references"),
        ("a\0b", r"is no path (got 'a\u0000b')"),
    ],
)
def test_a_folder_that_cannot_be_copied_is_refused(tmp_path: Path, source: str, text: str) -> None:
    root = tmp_path / "run-1"
    root.mkdir()
    (root / "file").write_text("x")
    (tmp_path / "sibling").mkdir()
    (said,) = refused(root, workspace={"from": source})
    assert said.startswith(f"workspace.from: {text}")


def test_a_folder_beside_the_root_whose_name_begins_alike_is_outside(tmp_path: Path) -> None:
    root = tmp_path / "run-1"
    root.mkdir()
    (tmp_path / "run-10").mkdir()
    (said,) = refused(root, workspace={"from": "../run-10"})
    assert said.startswith("workspace.from: leads outside (got '../run-10'")


def test_too_much_is_refused_with_the_figure(
    tmp_path: Path, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inlining, "MAX_BYTES", 10)
    assert refused(tmp_path, workspace={"from": "demo"}) == []
    (said,) = refused(tmp_path, workspace={"from": "demo", "files": {"b": "xx"}})
    assert said == "workspace.files: holds too much for a workspace (got 11 bytes; at most 10)"
    (demo / "large").write_bytes(b"x" * 4)
    (said,) = refused(tmp_path, workspace={"from": "demo"})
    assert said == "workspace.from: holds too much for a workspace (got 11 bytes; at most 10)"
    monkeypatch.setattr(inlining, "MAX_FILES", 3)
    (said,) = refused(tmp_path, workspace={"files": {"a/b/c/d": ""}})
    assert said == "workspace: holds too many files and folders (got more than 3; at most 3)"


def test_a_file_in_place_of_another_counts_once(
    tmp_path: Path, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inlining, "MAX_BYTES", 10)
    assert refused(tmp_path, workspace={"from": "demo", "files": {"a.txt": "12345678"}}) == []


def test_the_files_of_a_service_are_there_by_digest(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;")
    made: Any = inlined(tmp_path, services={"db": {"type": "odd", "init": ["a.sql"]}})
    digest = sha256_bytes(b"SELECT 1;")
    assert made.faults == ()
    assert made.environment["services"]["db"]["init"] == [{"file": "a.sql", "sha256": digest}]
    assert made.contents == {digest: b"SELECT 1;"}
    assert made.subjects == (("a.sql", digest.removeprefix("sha256:")),)
    assert inlining.with_texts(made.environment["services"]["db"], made.contents.__getitem__) == {
        "type": "odd",
        "init": ["SELECT 1;"],
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("missing.sql", "no such file (got 'missing.sql')"),
        ("bad.sql", "is not UTF-8 (at byte 2) (got 'bad.sql')"),
        ("../x.sql", "leads outside (got '../x.sql'; references stay inside"),
    ],
)
def test_a_file_of_a_service_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / "bad.sql").write_bytes(b"ab\xff")
    (said,) = refused(tmp_path, services={"db": {"type": "odd", "init": [name]}})
    assert said.startswith(f"services.db.init.0: {text}")


def test_cases_that_share_a_workspace_read_it_once(tmp_path: Path, demo: Path) -> None:
    files = files_in(tmp_path)
    environment: Any = {"workspace": {"from": "demo", "files": {}, "git": False}}
    first = inlining.inline(environment, files)
    (demo / "a.txt").write_text("changed")
    assert inlining.inline(dict(environment), files) == first
    # The twin: another mapping, equal as it is, is read anew.
    assert inlining.inline({"workspace": dict(environment["workspace"])}, files) != first

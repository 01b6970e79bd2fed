"""``file_exists`` and ``file_absent`` say of each path what is there, and never both yes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.checks.files import FileAbsent, FileExists
from pytest_evarness.core.outcome import Cause, Outcome
from tests.checks.scenes import FolderScene, judged, parsed, refusals

EXISTS = FileExists()
ABSENT = FileAbsent()


@pytest.fixture
def scene(tmp_path: Path) -> FolderScene:
    return FolderScene(tmp_path)


def outcomes(scene: FolderScene, **check: Any) -> tuple[str, str]:
    return (
        judged(EXISTS, scene, check).outcome.word,
        judged(ABSENT, scene, check).outcome.word,
    )


# -- FIL-01: what is there ---------------------------------------------------------------------


def test_a_file_exists_and_is_not_absent(scene: FolderScene) -> None:
    scene.write("report.txt", "x")
    assert outcomes(scene, path="report.txt") == ("pass", "fail")
    assert outcomes(scene, path="other.txt") == ("fail", "pass")
    found = judged(ABSENT, scene, {"path": "other.txt"})
    assert found.witness.absent == ("no entry at other.txt",)
    assert found.looked_at == ("the workspace at the end of run A, 1 entries",)


def test_a_dangling_link_is_neither_there_nor_absent_and_is_named(scene: FolderScene) -> None:
    (scene.workspace / "report.txt").symlink_to("nowhere")
    for kind in (EXISTS, ABSENT):
        found = judged(kind, scene, {"path": "report.txt"})
        assert found.outcome is Outcome.FAIL
        assert found.reason == 'report.txt is a symlink to "nowhere", which does not exist'
    assert outcomes(scene, path="report.txt/x") == ("fail", "fail")


def test_a_directory_is_no_file_and_never_absent(scene: FolderScene) -> None:
    (scene.workspace / "report.txt").mkdir()
    assert outcomes(scene, path="report.txt") == ("fail", "fail")
    found = judged(EXISTS, scene, {"path": "report.txt"})
    assert found.reason == "report.txt is a directory, not a regular file"
    assert found.witness.notes == ("to ask for a directory write 'kind: directory'",)
    assert judged(EXISTS, scene, {"path": "report.txt", "kind": "directory"}).outcome == 0


def test_no_entry_is_both_there_and_absent(scene: FolderScene) -> None:
    scene.write("d/file")
    os.mkfifo(scene.workspace / "pipe")
    for name, target in {
        "to-file": "d/file",
        "to-folder": "d",
        "dangling": "x",
        "loop": "loop",
        "out": "../secret",
        "absolute": "/etc/hostname",
    }.items():
        (scene.workspace / name).symlink_to(target)
    (scene.root / "secret").write_text("s3cret")
    met = {path.name: outcomes(scene, path=path.name) for path in scene.workspace.iterdir()}
    assert met == {
        "d": ("fail", "fail"),
        "pipe": ("fail", "fail"),
        "to-file": ("pass", "fail"),
        "to-folder": ("fail", "fail"),
        "dangling": ("fail", "fail"),
        "loop": ("fail", "fail"),
        "out": ("fail", "fail"),
        "absolute": ("fail", "fail"),
    }


def test_what_lies_behind_a_link_that_leads_out_is_not_told(scene: FolderScene) -> None:
    (scene.workspace / "out").symlink_to("..")
    (scene.root / "there").write_text("x")
    for name in ("there", "not-there"):
        assert outcomes(scene, path=f"out/{name}") == ("fail", "indeterminate")
        found = judged(ABSENT, scene, {"path": f"out/{name}"})
        assert found.causes == (Cause.MISSING_EVIDENCE,)
        assert found.reason == (
            f'out/{name} cannot be reached: out is a symlink to "..", which leads out of the'
            " workspace, and is not followed"
        )


def test_names_are_compared_exactly_and_a_near_one_is_told(scene: FolderScene) -> None:
    scene.write("Report.txt")
    scene.write("caf\u00e9.md")
    assert judged(EXISTS, scene, {"path": "report.txt"}).reason == (
        'report.txt does not exist; "Report.txt" is there'
    )
    assert judged(EXISTS, scene, {"path": "caf\u00e9.md"}).outcome is Outcome.PASS
    assert judged(EXISTS, scene, {"path": "cafe\u0301.md"}).outcome is Outcome.FAIL


# -- FIL-02: nothing outside -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [EXISTS, ABSENT])
@pytest.mark.parametrize(
    "path", ["../run-10/secret.txt", "sub/../../run-10/secret.txt", "/etc/hostname"]
)
def test_a_path_outside_does_not_load(kind: Any, path: str, tmp_path: Path) -> None:
    (refusal,) = refusals(kind, tmp_path, {"path": path})
    assert f"'{path}'" in refusal
    assert refusals(kind, tmp_path, {"path": "run-1/secret.txt"}) == []


def test_what_is_wrong_beside_a_path_does_not_hide_it(tmp_path: Path) -> None:
    told = refusals(EXISTS, tmp_path, {"path": "../x", "kind": "fiel", "min_size": "1"})
    assert [line.split()[0] for line in told] == ["path.", "kind.", "min_size."]


# -- as described ------------------------------------------------------------------------------

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        ({"mode": "0640"}, None),
        ({"mode": "640"}, None),
        ({"mode": "0644"}, "a.txt has mode 0640, not 0644"),
        ({"min_size": 3}, None),
        ({"min_size": 4}, "a.txt has 3 bytes, fewer than 4"),
        ({"kind": "file"}, None),
        ({"kind": "symlink"}, "a.txt is a file, not a symlink"),
        ({"sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}, None),
        (
            {"sha256": "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"},
            None,
        ),
        ({"sha256": EMPTY}, f"not sha256:{EMPTY}"),
    ],
)
def test_a_file_is_as_described(
    described: dict[str, Any], reason: str | None, scene: FolderScene
) -> None:
    scene.write("a.txt", "abc").chmod(0o640)
    found = judged(EXISTS, scene, {"path": "a.txt", **described})
    assert found.outcome is (Outcome.PASS if reason is None else Outcome.FAIL)
    if reason is not None:
        assert found.reason.endswith(reason)


def test_a_link_is_one_only_if_it_leads_somewhere(scene: FolderScene) -> None:
    scene.write("a.txt")
    (scene.workspace / "link").symlink_to("a.txt")
    (scene.workspace / "dangling").symlink_to("b.txt")
    assert judged(EXISTS, scene, {"path": "link", "kind": "symlink"}).outcome is Outcome.PASS
    assert judged(EXISTS, scene, {"path": "dangling", "kind": "symlink"}).outcome is Outcome.FAIL


def test_what_cannot_be_read_is_undecided(scene: FolderScene) -> None:
    scene.write("a.txt")
    assert judged(EXISTS, scene, {"path": "a.txt"}).outcome is Outcome.PASS
    # As the snapshot has it where this user may not read the file: root may read all of them.
    scene.snapshot["workspace"]["files"][0] = {
        "path": "a.txt", "type": "file", "mode": "0000", "size": 0, "unreadable": True,
    }  # fmt: skip
    found = judged(EXISTS, scene, {"path": "a.txt"})
    assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.MALFORMED_EVIDENCE,))
    assert judged(ABSENT, scene, {"path": "a.txt"}).outcome is Outcome.FAIL


def test_below_a_folder_that_cannot_be_read_all_is_undecided(scene: FolderScene) -> None:
    (scene.workspace / "d").mkdir()
    assert outcomes(scene, path="d/x") == ("fail", "pass")
    assert outcomes(scene, glob="d/*") == ("fail", "pass")
    scene.snapshot["workspace"]["files"][0]["unreadable"] = True
    assert outcomes(scene, path="d/x") == ("indeterminate", "indeterminate")
    assert outcomes(scene, glob="d/*") == ("indeterminate", "indeterminate")


def test_a_file_without_a_digest_is_undecided_where_one_is_asked(scene: FolderScene) -> None:
    scene.write("a.txt")
    check = {"path": "a.txt", "sha256": EMPTY}
    assert judged(EXISTS, scene, check).outcome is Outcome.PASS
    del scene.snapshot["workspace"]["files"][0]["sha256"]
    found = judged(EXISTS, scene, check)
    assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.MISSING_EVIDENCE,))


@pytest.mark.parametrize(
    ("check", "refusal"),
    [
        ({}, " names no file (one of path, glob)"),
        ({"path": "a", "glob": "*"}, "glob. stands beside 'path' (one of both)"),
        ({"path": "a", "mode": "rw-r--r--"}, "mode. is no mode"),
        ({"path": "a", "mode": 644}, "mode. must be text"),
        ({"path": "a", "min_size": 0}, "min_size. is too small"),
        ({"path": "a", "sha256": "abc"}, "sha256. is no digest"),
        ({"path": "a", "count": 2}, "count. goes with 'glob' only"),
        ({"glob": "*", "count": 0}, "count. holds where nothing is there"),
        ({"glob": "*", "count": {"lte": 3}}, "count. holds where nothing is there"),
        ({"glob": "*", "count": {"gte": 0}}, "count. holds of every number"),
        ({"glob": "*", "count": "3"}, "count. holds of no number"),
        ({"glob": "*", "count": {"gt": "3"}}, "count.gt. gt needs a number"),
        ({"path": "a", "kind": "directory", "min_size": 1}, "min_size. asks it of a directory"),
        ({"path": "a", "kind": "symlink", "mode": "0777"}, "mode. asks it of a symlink"),
        ({"path": ""}, "path. must not be empty"),
        ({"path": None}, "path. must be text"),
    ],
)
def test_a_check_that_cannot_be_meant_does_not_load(
    check: dict[str, Any], refusal: str, tmp_path: Path
) -> None:
    told = refusals(EXISTS, tmp_path, check)
    assert any(line.startswith(refusal) for line in told), told


# -- many --------------------------------------------------------------------------------------


def test_a_pattern_counts_files(scene: FolderScene) -> None:
    for name in ("out/a.json", "out/b.json", "out/deep/c.json", "out/d.txt"):
        scene.write(name, "x")
    (scene.workspace / "out/dir.json").mkdir()
    check: dict[str, Any] = {"glob": "out/*.json"}
    assert judged(EXISTS, scene, check).reason == "out/*.json stands for 2 files"
    assert judged(EXISTS, scene, {**check, "count": 2}).outcome is Outcome.PASS
    found = judged(EXISTS, scene, {**check, "count": {"gte": 3}})
    assert found.outcome is Outcome.FAIL
    assert found.reason == "out/*.json stands for 2 files; asked for count >= 3"
    assert judged(EXISTS, scene, {"glob": "**/*.json", "count": 3}).outcome is Outcome.PASS
    assert judged(EXISTS, scene, {**check, "kind": "directory", "count": 1}).outcome == 0
    assert judged(EXISTS, scene, {"glob": "*.xml"}).outcome is Outcome.FAIL


def test_each_file_of_a_pattern_is_as_described(scene: FolderScene) -> None:
    scene.write("a.txt", "long enough")
    assert judged(EXISTS, scene, {"glob": "*.txt", "min_size": 5}).outcome is Outcome.PASS
    scene.seal()
    scene.write("b.txt", "no")
    scene.seal()
    found = judged(EXISTS, scene, {"glob": "*.txt", "min_size": 5})
    assert found.reason == "b.txt has 2 bytes, fewer than 5"


def test_a_pattern_is_absent_only_if_nothing_at_all_is_there(scene: FolderScene) -> None:
    scene.write("keep.txt")
    assert judged(ABSENT, scene, {"glob": "**/*.tmp"}).outcome is Outcome.PASS
    (scene.workspace / "x.tmp").symlink_to("nowhere")
    scene.seal()
    found = judged(ABSENT, scene, {"glob": "**/*.tmp"})
    assert found.reason == 'x.tmp is a symlink to "nowhere", which does not exist'


def test_too_many_places_are_undecided(scene: FolderScene, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_evarness.checks import places

    scene.write("a.txt")
    scene.write("b.txt")
    check = {"glob": "*.txt"}
    assert judged(EXISTS, scene, check).outcome is Outcome.PASS
    monkeypatch.setattr(places, "MAX_PLACES", 1)
    assert judged(EXISTS, scene, check).causes == (Cause.MISSING_EVIDENCE,)


# -- before ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("existed_before", "was_there", "is_there", "outcome"),
    [
        (None, True, False, "pass"),
        (None, False, False, "pass"),
        (True, True, False, "pass"),
        (True, False, False, "fail"),
        (False, False, False, "pass"),
        (False, True, False, "fail"),
        (True, True, True, "fail"),
        (False, False, True, "fail"),
    ],
)
def test_whether_it_was_there_before(
    existed_before: bool | None,
    was_there: bool,
    is_there: bool,
    outcome: str,
    scene: FolderScene,
) -> None:
    if was_there:
        scene.start = {"old.txt": {"type": "file", "mode": "0644", "sha256": "sha256:00"}}
    if is_there:
        scene.write("old.txt")
    check: dict[str, Any] = {} if existed_before is None else {"existed_before": existed_before}
    assert judged(ABSENT, scene, {"path": "old.txt", **check}).outcome.word == outcome
    assert judged(ABSENT, scene, {"glob": "*.txt", **check}).outcome.word == outcome


# -- judged again ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "check",
    [{"path": "a.txt"}, {"path": "a.txt", "min_size": 1, "mode": "0644"}, {"glob": "*.txt"}],
)
def test_a_verifier_tells_whether_the_sealed_world_gave_the_evidence(
    check: dict[str, Any], scene: FolderScene
) -> None:
    scene.write("a.txt", "x")
    definition = parsed(EXISTS, scene, check)
    gathered: Any = EXISTS.gather(definition, scene)
    world = scene.snapshot
    assert EXISTS.consistent(definition, gathered, world) is None
    lie = {**gathered, "places": [{**gathered["places"][0], "type": "directory"}]}
    assert EXISTS.consistent(definition, lie, world) is not None
    assert EXISTS.consistent(definition, {**gathered, "places": []}, world) is not None
    assert EXISTS.consistent(definition, {**gathered, "entries": 2}, world) is not None
    assert EXISTS.consistent(definition, gathered, {"workspace": None}) is not None
    (scene.workspace / "a.txt").unlink()
    scene.seal()
    assert EXISTS.consistent(definition, gathered, scene.snapshot) is not None


def test_what_is_masked_in_the_sealed_world_is_not_compared(scene: FolderScene) -> None:
    scene.write("a.txt", "x")
    definition = parsed(EXISTS, scene, {"path": "a.txt", "min_size": 1, "sha256": EMPTY})
    gathered = EXISTS.gather(definition, scene)
    entry = scene.snapshot["workspace"]["files"][0]
    entry.update(sha256=f"sha256:{EMPTY}", size=20)
    assert EXISTS.consistent(definition, gathered, scene.snapshot) is not None
    entry["masked"] = True
    assert EXISTS.consistent(definition, gathered, scene.snapshot) is None


def test_evidence_of_a_folder_that_is_gone_is_said_to_be(scene: FolderScene) -> None:
    scene.workspace.rmdir()
    assert judged(ABSENT, scene, {"path": "a"}).reason == (
        "nothing is at a (the workspace itself is gone)"
    )
    assert judged(EXISTS, scene, {"path": "a"}).outcome is Outcome.FAIL

"""``file_content`` judges the whole text of a file, as it is, and never without a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.checks import content
from pytest_evarness.checks.content import FileContent
from pytest_evarness.checks.kind import UnavailableError
from pytest_evarness.core import matcher
from pytest_evarness.core.outcome import Cause, Outcome
from tests.checks.scenes import FolderScene, judged, parsed, refusals

CONTENT = FileContent()


@pytest.fixture
def scene(tmp_path: Path) -> FolderScene:
    return FolderScene(tmp_path)


def outcome(scene: FolderScene, **check: Any) -> str:
    return judged(CONTENT, scene, check).outcome.word


# -- FIL-04: the whole text --------------------------------------------------------------------


def test_patterns_are_searched_in_the_whole_text(scene: FolderScene) -> None:
    scene.write("job.cfg", "job nightly\n    retries 3\n")
    scene.write("long.txt", "z" * 90_000 + "\nFOUND-ME")
    checks: list[dict[str, Any]] = [
        {"path": "job.cfg", "pattern": r"job nightly\n\s+retries 3"},
        {"path": "job.cfg", "pattern": r"(?m)^\s+retries"},
        {"path": "job.cfg", "pattern": r"^\s+retries"},
        {"path": "long.txt", "pattern": "FOUND-ME$"},
        {"path": "long.txt", "not_contains": "FOUND-ME"},
    ]
    found = [judged(CONTENT, scene, check) for check in checks]
    assert [one.outcome.word for one in found] == ["pass", "pass", "fail", "pass", "fail"]
    assert found[2].witness.notes == (
        "'^' and '$' are the start and the end of the text; with flags: [multiline] it matches",
    )
    assert found[4].witness.observed == f'line 2: "…{"z" * 59}\\nFOUND-ME"'


def test_the_end_of_the_text_is_its_very_end(scene: FolderScene) -> None:
    scene.write("a.txt", "x\n")
    assert outcome(scene, path="a.txt", pattern="x$") == "fail"
    assert outcome(scene, path="a.txt", pattern=r"x\n$") == "pass"
    assert outcome(scene, path="a.txt", pattern="x$", flags=["multiline"]) == "pass"


@pytest.mark.parametrize(
    ("flags", "expression", "expected"),
    [
        ([], "B.c", "fail"),
        (["ignorecase"], "B.c", "fail"),
        (["ignorecase", "dotall"], "B.c", "pass"),
        (["multiline"], "^c", "pass"),
        ([], "^c", "fail"),
    ],
)
def test_flags(flags: list[str], expression: str, expected: str, scene: FolderScene) -> None:
    scene.write("a.txt", "a b\nc")
    assert outcome(scene, path="a.txt", pattern=expression, flags=flags) == expected


# -- FIL-05: no file, no text ------------------------------------------------------------------

CONDITIONS: list[dict[str, Any]] = [
    {"contains": "password"},
    {"not_contains": "password"},
    {"pattern": "password"},
    {"equals": ""},
    {"json": {"a": {"exists": False}}},
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_without_a_file_every_condition_fails(
    condition: dict[str, Any], scene: FolderScene
) -> None:
    (scene.workspace / "dir").mkdir()
    (scene.workspace / "dangling").symlink_to("nowhere")
    (scene.workspace / "out").symlink_to("../secret.txt")
    (scene.root / "secret.txt").write_text("s3cret")
    reasons = {
        "report.md": "report.md does not exist, so it has no text",
        "dir": "dir is a directory, not a file, so it has no text",
        "dangling": 'dangling is a symlink to "nowhere", which does not exist, so it has no text',
        "out": 'out is a symlink to "../secret.txt", which leads out of the workspace, so it has'
        " no text",
    }
    for path, reason in reasons.items():
        found = judged(CONTENT, scene, {"path": path, **condition})
        assert (found.outcome, found.reason) == (Outcome.FAIL, reason)
    found = judged(CONTENT, scene, {"glob": "*.md", **condition})
    assert found.reason == "*.md stands for no file, so there is no text"


def test_a_link_inside_is_followed(scene: FolderScene) -> None:
    scene.write("d/a.txt", "x")
    (scene.workspace / "link").symlink_to("d/a.txt")
    (scene.workspace / "folder").symlink_to("d")
    assert outcome(scene, path="link", contains="x") == "pass"
    assert outcome(scene, path="folder/a.txt", equals="x") == "pass"


def test_a_pipe_is_not_waited_for(scene: FolderScene) -> None:
    os.mkfifo(scene.workspace / "pipe")
    found = judged(CONTENT, scene, {"path": "pipe", "not_contains": "x"})
    assert found.reason == "pipe is a fifo, not a file, so it has no text"


# -- FIL-07: bytes as they are -----------------------------------------------------------------


def test_line_ends_are_left_as_they_are(scene: FolderScene) -> None:
    scene.write("t.txt", "total: 3\r\nok\r\n")
    checks: list[dict[str, Any]] = [
        {"contains": "total: 3\nok"},
        {"pattern": "(?m)^total: 3$"},
        {"not_contains": "\r"},
        {"contains": "ok\r\n"},
    ]
    found = [judged(CONTENT, scene, {"path": "t.txt", **check}) for check in checks]
    assert [one.outcome.word for one in found] == ["fail", "fail", "fail", "pass"]
    assert found[0].witness.observed == '"total: 3\\r\\nok\\r\\n"'
    assert found[0].witness.notes == ("it is there with \\r\\n at the ends of lines",)


def test_a_byte_order_mark_is_part_of_the_text(scene: FolderScene) -> None:
    scene.write("a.txt", b"\xef\xbb\xbfSubject: x")
    found = judged(CONTENT, scene, {"path": "a.txt", "pattern": "^Subject"})
    assert found.outcome is Outcome.FAIL
    assert "begins with a byte-order mark" in found.witness.notes[0]
    check = {"path": "a.txt", "pattern": "^Subject", "encoding": "utf-8-sig"}
    assert judged(CONTENT, scene, check).outcome is Outcome.PASS


def test_a_text_that_is_not_of_the_encoding_is_undecided(scene: FolderScene) -> None:
    scene.write("a.txt", "gr\u00fcn".encode("latin-1"))
    for condition in ({"contains": "gr"}, {"not_contains": "x"}):
        found = judged(CONTENT, scene, {"path": "a.txt", **condition})
        assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.MALFORMED_EVIDENCE,))
        assert found.reason == "a.txt is not utf-8 (byte 0xfc at offset 2)"
    assert outcome(scene, path="a.txt", equals="gr\u00fcn", encoding="latin-1") == "pass"


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_every_text_equals_itself_and_contains_its_parts(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scene = FolderScene(Path(folder))
        scene.write("a.txt", text)
        assert outcome(scene, path="a.txt", equals=text) == "pass"
        assert outcome(scene, path="a.txt", equals=text + "x") == "fail"
        if text:
            assert (
                outcome(scene, path="a.txt", contains=text[:3], not_contains=text + "!") == "pass"
            )


# -- conditions --------------------------------------------------------------------------------


def test_all_conditions_have_to_hold(scene: FolderScene) -> None:
    scene.write("a.txt", "one two")
    check: dict[str, Any] = {"path": "a.txt", "contains": ["one", "two"], "not_contains": "three"}
    assert outcome(scene, **check) == "pass"
    found = judged(CONTENT, scene, {**check, "contains": ["one", "four"], "pattern": ["t.o", "z"]})
    assert found.reason == 'a.txt does not contain "four"; a.txt does not match "z"'
    assert judged(CONTENT, scene, {**check, "not_contains": ["x", "two"]}).reason == (
        'a.txt contains "two"'
    )


def test_letter_case_is_pointed_out(scene: FolderScene) -> None:
    scene.write("a.txt", "TOTAL: 3")
    found = judged(CONTENT, scene, {"path": "a.txt", "contains": "total"})
    assert found.witness.notes == ("it is there in other letter case",)


def test_where_two_texts_part_is_told(scene: FolderScene) -> None:
    scene.write("a.txt", "one\ntwo\n")
    found = judged(CONTENT, scene, {"path": "a.txt", "equals": "one\ntoo\n"})
    assert found.witness.notes == ('they part in line 2: "…wo\\n" instead of "…oo\\n"',)
    found = judged(CONTENT, scene, {"path": "a.txt", "equals": "one\ntwo"})
    assert found.witness.notes == ("the text is longer: 8 characters, not 7",)


def test_every_file_of_a_pattern_is_asked(scene: FolderScene) -> None:
    scene.write("a.log", "fine")
    scene.write("d/b.log", "fine")
    (scene.workspace / "folder.log").mkdir()
    check: dict[str, Any] = {"glob": "**/*.log", "not_contains": "password"}
    assert judged(CONTENT, scene, check).reason == (
        '**/*.log does not contain "password" in each of 2 files'
    )
    scene.write("d/b.log", "the password")
    scene.seal()
    assert judged(CONTENT, scene, check).reason == 'd/b.log contains "password"'


@pytest.mark.parametrize(
    ("text", "paths", "reason"),
    [
        ('{"a": {"b": [1, 2]}}', {"a.b[1]": 2, "a.c": {"exists": False}}, None),
        ('{"a": 1}', {"a": 2}, "a.json: a: 1 is not 2"),
        ('{"a": 1}', {"a": "1"}, 'a.json: a: 1 is not "1"'),
        ('{"a": 1}', {"b": 1}, "a.json: b: a missing value is not 1"),
        ('{"a": "x"}', {"a": {"gt": 1}}, 'a.json: a: gt 1 needs a number, met a text ("x")'),
        ('{"a": [{"b": 1}, {"b": 2}]}', {"a[*].b": 2}, None),
        ('{"a": [{"b": 1}]}', {"a[*].b": 2}, "a.json: a[*].b: no element = 2"),
        ('{"id": 12345678901234567890}', {"id": {"exists": True}}, None),
        ("", {"a": 1}, "a.json is not one JSON document: it is empty"),
        ("{", {"a": 1}, "a.json is not one JSON document: expecting property name"),
        ('{"a": 1} {}', {"a": 1}, "a.json is not one JSON document: something stands after"),
        ('{"a": 1, "a": 2}', {"a": 2}, 'a.json is not one JSON document: the key "a" stands twice'),
        ('{"a": NaN}', {"a": 2}, "a.json is not one JSON document: NaN is no JSON number"),
        ("[" * 100_000, {"a": 2}, "a.json is not one JSON document: it holds a number or a nest"),
    ],
)
def test_a_file_as_json(
    text: str, paths: dict[str, Any], reason: str | None, scene: FolderScene
) -> None:
    scene.write("a.json", text)
    found = judged(CONTENT, scene, {"path": "a.json", "json": paths})
    assert found.outcome is (Outcome.PASS if reason is None else Outcome.FAIL), found.reason
    assert reason is None or found.reason.startswith(reason), found.reason


@pytest.mark.parametrize(
    ("check", "refusal"),
    [
        ({"path": "a"}, " asks nothing of the file"),
        ({"path": "a", "contains": ""}, 'contains. holds of every text (got ""'),
        ({"path": "a", "contains": ["x", ""]}, "contains. holds of every text"),
        ({"path": "a", "not_contains": ""}, "not_contains. can hold of no text"),
        ({"path": "a", "pattern": ".*"}, 'pattern. holds of every text (got ".*"'),
        ({"path": "a", "pattern": "x*"}, "pattern. holds of every text"),
        ({"path": "a", "pattern": "("}, "pattern. is not an expression"),
        ({"path": "a", "contains": []}, "contains. must not be empty"),
        ({"path": "a", "contains": 5}, "contains. must be text, or a list of texts (got 5)"),
        ({"path": "a", "equals": 5}, "equals. must be text"),
        ({"path": "a", "json": {}}, "json. must not be empty"),
        ({"path": "a", "json": {"a..b": 1}}, "json.a..b. is no path"),
        ({"path": "a", "json": {"a": {"gt": "1"}}}, "json.a.gt. gt needs a number"),
        ({"path": "a", "json": {"a": {"contains": "x", "gt": 1}}}, "json.a. holds of no value"),
        ({"path": "a", "contains": "x", "flags": ["multiline"]}, "flags. go with 'pattern' only"),
        ({"path": "a", "pattern": "x", "flags": ["m"]}, "flags.0. must be"),
        ({"path": "a", "contains": "x", "encoding": "utf8x"}, "encoding. is no encoding"),
        ({"path": "a", "contains": "x", "encoding": "hex"}, "encoding. is no encoding"),
        ({"path": "a", "contains": "x", "encoding": "unicode-escape"}, "encoding. is no encoding"),
        ({"path": "../run-10/secret.txt", "contains": ""}, "path. leads out of the workspace"),
    ],
)
def test_a_check_that_cannot_be_meant_does_not_load(
    check: dict[str, Any], refusal: str, tmp_path: Path
) -> None:
    told = refusals(CONTENT, tmp_path, check)
    assert any(line.startswith(refusal) for line in told), told


# -- bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"contains": "begin"}, "pass"),
        ({"contains": "end"}, "indeterminate"),
        ({"not_contains": "begin"}, "fail"),
        ({"not_contains": "end"}, "indeterminate"),
        ({"pattern": "b.gin"}, "pass"),
        ({"pattern": "e.d"}, "indeterminate"),
        ({"equals": "begin"}, "fail"),
        ({"json": {"a": 1}}, "indeterminate"),
        ({"contains": ["begin", "end"]}, "indeterminate"),
        ({"contains": "end", "not_contains": "begin"}, "fail"),
    ],
)
def test_of_a_file_that_is_too_large_only_what_was_read_decides(
    condition: dict[str, Any],
    expected: str,
    scene: FolderScene,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene.write("a.txt", "begin" + "\u00e9" * 100 + "end")
    monkeypatch.setattr(content, "READ_BYTES", 100)
    found = judged(CONTENT, scene, {"path": "a.txt", **condition})
    assert found.outcome.word == expected
    if expected == "indeterminate":
        assert found.causes == (Cause.MISSING_EVIDENCE,)


def test_the_bound_is_one_for_all_files_of_a_check(
    scene: FolderScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        scene.write(name, "x" * 40)
    check: dict[str, Any] = {"glob": "*.txt", "not_contains": "password"}
    monkeypatch.setattr(content, "READ_BYTES", 120)
    assert outcome(scene, **check) == "pass"
    monkeypatch.setattr(content, "READ_BYTES", 119)
    assert outcome(scene, **check) == "indeterminate"
    monkeypatch.setattr(content, "MAX_TEXTS", 2)
    assert "at most 2 are read" in judged(CONTENT, scene, check).reason


def test_an_expression_that_never_ends_is_undecided(
    scene: FolderScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matcher, "REGEX_SECONDS", 0.05)
    scene.write("a.txt", "a" * 60 + "!")
    check = {"path": "a.txt", "pattern": [r"^(a|a)*\1$"] * 9}
    found = judged(CONTENT, scene, check)
    assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))
    assert "took longer than 0.05 s" in found.reason
    assert found.reason.count("took longer") == 3, "a few such say enough"


# -- judged again ------------------------------------------------------------------------------


def test_a_file_that_was_changed_after_the_seal_is_stale(scene: FolderScene) -> None:
    scene.write("a.txt", "one")
    scene.seal()
    assert outcome(scene, path="a.txt", contains="one") == "pass"
    scene.write("a.txt", "one more")
    found = judged(CONTENT, scene, {"path": "a.txt", "contains": "one"})
    assert (found.outcome, found.causes) == (Outcome.INDETERMINATE, (Cause.STALE_EVIDENCE,))


def test_a_file_that_became_a_link_after_the_seal_is_not_followed(scene: FolderScene) -> None:
    scene.write("a.txt", "s3cret")
    scene.write("d/b.txt", "s3cret")
    scene.seal()
    outside = scene.root / "secret.txt"
    outside.write_text("s3cret")
    (scene.workspace / "a.txt").unlink()
    (scene.workspace / "a.txt").symlink_to(outside)
    (scene.workspace / "d/b.txt").unlink()
    (scene.workspace / "d").rmdir()
    (scene.workspace / "d").symlink_to(scene.root)
    for path in ("a.txt", "d/b.txt"):
        found = judged(CONTENT, scene, {"path": path, "contains": "s3cret"})
        assert found.causes == (Cause.MALFORMED_EVIDENCE,)


def test_a_verifier_tells_whether_a_text_is_the_sealed_one(scene: FolderScene) -> None:
    scene.write("a.txt", "caf\u00e9\n")
    definition = parsed(CONTENT, scene, {"path": "a.txt", "contains": "caf"})
    gathered: Any = CONTENT.gather(definition, scene)
    world = scene.snapshot
    assert CONTENT.consistent(definition, gathered, world) is None
    lie = {**gathered, "places": [{**gathered["places"][0], "text": "cafe"}]}
    assert CONTENT.consistent(definition, lie, world) == (
        "the text of a.txt is not the one whose digest was sealed"
    )
    world["workspace"]["files"][0]["masked"] = True
    with pytest.raises(UnavailableError, match=r"^the digest of a\.txt does not tell its text"):
        CONTENT.consistent(definition, gathered, world)

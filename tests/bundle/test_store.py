"""Files of a session are there whole or not at all, and no session destroys another's."""

from __future__ import annotations

import os
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.bundle import facts
from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.bundle.envelope import envelope_bytes
from pytest_evarness.bundle.facts import environment_facts, git_facts
from pytest_evarness.bundle.store import KEPT_SESSIONS, Store, safe_name, write_atomically


def proof(time: str) -> bytes:
    return envelope_bytes(canonical_bytes({"predicate": {"seal": {"time": time}}}), None)


def opened(root: Path) -> Store:
    return Store.open(root, bundle=Store.default_bundle(root))


def test_the_state_folder_ignores_itself(tmp_path: Path) -> None:
    opened(tmp_path)
    assert (tmp_path / ".evarness" / ".gitignore").read_text() == "*\n"


def test_seal_first_then_bundle_and_nothing_else_is_left(tmp_path: Path) -> None:
    store = opened(tmp_path)
    early = store.write_seal(b"seal")
    assert early.read_bytes() == b"seal"
    assert not store.seal.exists()
    path, note = store.write_bundle(proof("2026-01-01T00:00:00Z"), "2026-01-01T00:00:00Z")
    assert (path, note) == (tmp_path / ".evarness" / "proof.json", None)
    names = sorted(p.name for p in (tmp_path / ".evarness").iterdir())
    assert names == [".gitignore", "proof.json", "proof.seal.json"]


def test_a_bundle_of_another_name_has_its_seal_beside_it(tmp_path: Path) -> None:
    store = Store.open(tmp_path, bundle=tmp_path / "out" / "x.json")
    store.write_seal(b"seal")
    store.write_bundle(proof("2026-01-01T00:00:00Z"), "2026-01-01T00:00:00Z")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["x.json", "x.seal.json"]


def test_a_session_that_dies_leaves_its_seal_and_the_bundle_before(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.write_bundle(b"before", "2026-01-01T00:00:00Z")
    second = opened(tmp_path)
    early = second.write_seal(b"seal")
    opened(tmp_path)  # the session after the one that died
    assert early.read_bytes() == b"seal"
    assert Store.default_bundle(tmp_path).read_bytes() == b"before"


def test_of_two_sessions_at_once_the_one_sealed_later_gets_the_name(tmp_path: Path) -> None:
    early, late = opened(tmp_path), opened(tmp_path)
    older, newer = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"
    assert late.write_bundle(proof(newer), newer) == (Store.default_bundle(tmp_path), None)
    path, note = early.write_bundle(proof(older), older)
    assert path != Store.default_bundle(tmp_path)
    assert path.read_bytes() == proof(older)
    assert note is not None
    assert f"its bundle is the newer (sealed {newer})" in note
    assert Store.default_bundle(tmp_path).read_bytes() == proof(newer)


def test_the_later_session_says_so_when_it_ends_last(tmp_path: Path) -> None:
    early, late = opened(tmp_path), opened(tmp_path)
    older, newer = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"
    early.write_bundle(proof(older), older)
    path, note = late.write_bundle(proof(newer), newer)
    assert path.read_bytes() == proof(newer)
    assert note is not None
    assert "this session's, the newer" in note


def test_a_second_session_after_the_first_says_nothing(tmp_path: Path) -> None:
    opened(tmp_path).write_bundle(proof("2026-01-01T00:00:00Z"), "2026-01-01T00:00:00Z")
    _, note = opened(tmp_path).write_bundle(proof("2026-01-01T00:00:01Z"), "2026-01-01T00:00:01Z")
    assert note is None


def test_the_logs_of_the_last_five_sessions_are_kept(tmp_path: Path) -> None:
    runs = tmp_path / ".evarness" / "runs"
    old = [f"2026010{day}T000000Z-00000000" for day in range(1, 9)]
    for name in old:
        (runs / name).mkdir(parents=True)
    (runs / "somebody's").mkdir()
    store = opened(tmp_path)
    store.run_log("sha256:ab", "a").write_text("x")
    kept = sorted(p.name for p in runs.iterdir())
    assert kept == sorted([*old[-KEPT_SESSIONS + 1 :], store.session, "somebody's"])
    assert store.run_log("sha256:ab", "a").name == "ab-a.jsonl"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "proof.json"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("proof.json", b"old")]


def test_what_somebody_left_in_place_of_a_seal_is_no_contract_set(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for data in (b"", b"{}", b"[1]", b"\xff", b'{"payload": "x"}', b"[" * 100_000):
        store.seal.write_bytes(data)
        assert store.earlier_contracts() == []


ids = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(ids, ids)
def test_file_names_are_safe_and_distinct_even_where_case_is_folded(one: str, two: str) -> None:
    for text in (one, two):
        name = safe_name(text)
        assert 0 < len(name) <= 120
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-.%")
        assert not name.startswith(".")
        assert not name.endswith(".")
    if one != two:
        assert safe_name(one).lower() != safe_name(two).lower()


@pytest.mark.parametrize("text", ["", ".", "..", "a/../b", "A", "a", "con.", "%41", "é"])
def test_awkward_ids_have_names_of_their_own(text: str) -> None:
    others = {"", ".", "..", "a/../b", "A", "a", "con.", "%41", "é"} - {text}
    assert safe_name(text) not in {safe_name(other) for other in others}


# -- facts --------------------------------------------------------------------------------------


def test_no_path_and_no_user_name_is_among_the_facts() -> None:
    text = str(environment_facts(rerun="mirror"))
    assert str(Path.home()) not in text
    assert str(Path.cwd()) not in text
    assert "pytest" in text


def test_a_folder_without_git_has_no_commit(tmp_path: Path) -> None:
    assert git_facts(tmp_path) is None


def test_commit_tree_and_cleanness_are_gits_own(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip()

    try:
        git("init", "-q")
    except OSError:
        pytest.skip("git is not installed")
    assert git_facts(tmp_path) == {"commit": None, "tree": None, "clean": False}  # no commit yet
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-q", "-m", "a")
    facts = git_facts(tmp_path)
    assert facts is not None
    assert facts["commit"] == git("rev-parse", "HEAD")
    assert facts["tree"] == git("rev-parse", "HEAD^{tree}")
    assert facts["clean"] is True
    opened(tmp_path)  # our own state does not make it dirty
    assert git_facts(tmp_path) == facts
    (tmp_path / "a").write_text("2")
    assert git_facts(tmp_path) == {**facts, "clean": False}


# -- what is installed ---------------------------------------------------------------------------


def test_the_headers_of_a_distribution_say_what_the_library_reads_from_them() -> None:
    found = 0
    for distribution in metadata.distributions():
        told = facts._described(distribution)
        slow = list(distribution.requires or ())
        assert told == (distribution.metadata["Name"], distribution.version, slow)
        found += 1
    assert found > 10


@pytest.mark.parametrize("description", ["", "\nName: other\nVersion: 9\nRequires-Dist: junk\n"])
@pytest.mark.parametrize("form", ["dist-info", "egg-info"])
def test_an_older_form_and_a_description_like_a_header_change_nothing(
    tmp_path: Path, form: str, description: str
) -> None:
    folder = tmp_path / f"odd-1.2.{form}"
    folder.mkdir()
    name = "METADATA" if form == "dist-info" else "PKG-INFO"
    text = f"Metadata-Version: 2.1\nName: odd\nVersion: 1.2\n{description}"
    if form == "dist-info":
        text = text.replace("1.2\n", "1.2\nRequires-Dist: tea>=1\n", 1)
    else:
        (folder / "requires.txt").write_text("tea>=1\n", encoding="utf-8")
    (folder / name).write_text(text, encoding="utf-8")
    told = facts._described(metadata.Distribution.at(folder))
    assert told == ("odd", "1.2", ["tea>=1"])

"""The first scenario passes where it is written, says what to edit, and overwrites nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.cli.init import PLACE

if TYPE_CHECKING:
    import pytest

    from tests.cli.conftest import Command


def test_it_writes_one_file_and_says_what_to_edit(command: Command) -> None:
    done = command("init")
    assert (done.code, done.err) == (0, "")
    assert [str(path) for path in Path().rglob("*") if path.is_file()] == [str(PLACE)]
    for word in ("subject.graph", "environment", "cases", "invariants", "pytest -p evarness"):
        assert word in done.out


def test_it_holds_for_the_prover(command: Command) -> None:
    command("init")
    done = command("prove", PLACE, "--rerun", "inline", "--json")
    assert (done.code, done.json["holds"]) == (0, True)
    assert [case["status"] for case in done.json["cases"]] == ["completed", "blocked"]


def test_it_is_clean_for_lint(command: Command) -> None:
    command("init", "new folder")
    done = command("lint", Path("new folder") / PLACE)
    assert (done.code, done.out) == (0, "1 file: 0 errors, 0 warnings\n")


def test_it_passes_under_pytest_in_an_empty_folder(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(pytester.path)
    assert command("init").code == 0
    result = pytester.runpytest_subprocess("-p", "evarness", "--evarness-rerun=inline")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*2 valid, 0 invalid, 0 indeterminate of 2 planned cases"])


def test_it_never_overwrites(command: Command) -> None:
    command("init")
    PLACE.write_text("mine", encoding="utf-8")
    done = command("init")
    assert (done.code, done.out) == (2, "")
    assert "exists already and is not overwritten" in done.err
    assert PLACE.read_text(encoding="utf-8") == "mine"


def test_a_link_that_leads_nowhere_is_not_followed(command: Command, tmp_path: Path) -> None:
    PLACE.parent.mkdir()
    PLACE.symlink_to(tmp_path / "elsewhere")
    assert command("init").code == 2
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_in_the_place_of_a_folder_is_refused(command: Command) -> None:
    Path("scenarios").write_text("", encoding="utf-8")
    assert command("init").code == 2

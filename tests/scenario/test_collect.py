"""A file is what its key says it is, and nothing that holds a key is overlooked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_evarness.scenario.collect import find_scenarios, kind_of_file, kind_to_collect


def write(path: Path, text: str = "evarness: 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("evarness: 1\n", "scenario"),
        ("contracts: {}\n", "library"),
        ("invariants: {}\n", "library"),
        ("evarness: 1\ninvariants: {}\n", "scenario"),
        ("a: 1\n", None),
        ("subject: hello\n", None),
        # Invariants of a scenario that lacks its first line are no library.
        ("subject: {graph: g}\ninvariants: {}\n", "scenario"),
        ("- evarness\n", None),
        ("", None),
        # Files that do not load are told by their key, so that somebody reports them.
        ("evarness: 1\nevarness: 1\n", "scenario"),
        ("'contracts': [\n", "library"),
        ("a: [\n", None),
        ("x:\n  evarness: [\n", None),
    ],
)
def test_the_key_decides(tmp_path: Path, text: str, kind: str | None) -> None:
    assert kind_of_file(write(tmp_path / "x.yaml", text)) == kind


def test_a_file_that_cannot_be_read_is_of_no_kind(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"evarness: \xff\n")
    assert kind_of_file(tmp_path / "a.yaml") is None
    assert kind_of_file(tmp_path / "none.yaml") is None


def kind(path: Path, root: Path, *, named: bool = False) -> str | None:
    return kind_to_collect(
        path,
        scenario_folders=[root / "scenarios"],
        contract_folders=[root / "contracts"],
        is_named=named,
        root=root,
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("scenarios/a.yaml", "scenario"),
        ("scenarios/deep/er/a.yml", "scenario"),
        ("scenarios/contracts.yaml", None),
        ("scenarios/invariants.yaml", None),
        ("scenarios/tools.yaml", None),
        ("scenarios/a.cassette.yaml", None),
        ("scenarios/fixtures/a.yaml", None),
        ("scenarios/x/graphs/deep/a.yaml", None),
        ("scenarios/fixtures.yaml", "scenario"),
        ("scenarios/a.json", None),
        ("contracts/a.yaml", "scenario"),
        ("other/a.scenario.yaml", "scenario"),
        ("other/a.scenario.yml", "scenario"),
        ("other/fixtures/a.scenario.yaml", None),
        ("other/a.yaml", None),
    ],
)
def test_the_place_and_the_name_decide_what_is_looked_at(
    tmp_path: Path, name: str, expected: str | None
) -> None:
    assert kind(write(tmp_path / name), tmp_path) == expected


def test_a_file_without_the_key_under_the_folder_is_a_scenario_that_does_not_load(
    tmp_path: Path,
) -> None:
    assert kind(write(tmp_path / "scenarios/a.yaml", "a: 1\n"), tmp_path) == "scenario"


def test_a_file_under_the_contracts_folder_is_a_library_unless_it_says_otherwise(
    tmp_path: Path,
) -> None:
    assert kind(write(tmp_path / "contracts/a.yaml", "contracts: {}\n"), tmp_path) == "library"
    assert kind(write(tmp_path / "contracts/b.yaml", "a: [\n"), tmp_path) == "library"


def test_a_named_file_is_looked_at_by_its_key_alone(tmp_path: Path) -> None:
    assert kind(write(tmp_path / "a.yaml"), tmp_path, named=True) == "scenario"
    library = write(tmp_path / "scenarios/contracts.yaml", "contracts: {}\n")
    assert kind(library, tmp_path, named=True) == "library"
    assert kind(write(tmp_path / "b.yaml", "a: 1\n"), tmp_path, named=True) is None


def test_a_project_that_lies_in_a_folder_fixtures_is_not_lost(tmp_path: Path) -> None:
    root = tmp_path / "fixtures" / "project"
    assert kind(write(root / "scenarios/a.yaml"), root) == "scenario"
    path = write(root / "other/a.scenario.yaml")
    folders = [root / "scenarios"]
    assert kind_to_collect(path, scenario_folders=folders, contract_folders=[]) == "scenario"


def test_scenarios_are_found_in_one_order(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/z.yaml", "a.yaml", "a/fixtures/f.yaml", "tools.yaml"):
        write(tmp_path / name)
    found = [path.relative_to(tmp_path).as_posix() for path in find_scenarios(tmp_path)]
    assert found == ["a/z.yaml", "a.yaml", "b.yaml"]

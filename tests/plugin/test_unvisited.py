"""Every file below our folders is collected, or its absence is told; none is passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.scenarios import BROKEN, HELD, echo

if TYPE_CHECKING:
    from tests.plugin.ran import Session

BAD = "evarness: 1\nid: bad\nsubjekt: {}\n"
FOLDERS = ("build", "dist", "venv", ".x", "node_modules", "a.egg", "sub/build/deep")
PARALLEL = pytest.param(("-n", "2"), marks=pytest.mark.slow)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_broken_file_in_a_folder_that_pytest_skips_is_told(session: Session, folder: str) -> None:
    name = f"scenarios/{folder}/bad.yaml"
    ran = session(files={name: BAD, "scenarios/good.yaml": echo()})
    assert ran.code == 1
    assert f"BROKEN {name}:1:1: " in ran.text
    assert ran.holds is None


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("scenarios",),
        (".",),
        ("scenarios/../scenarios",),
        ("-m", "gate"),
        ("-k", "no_such_name"),
        ("--lf",),
        ("--collect-only",),
        PARALLEL,
    ],
)
def test_it_is_told_where_it_is_the_only_file_and_whatever_is_selected(
    session: Session, words: tuple[str, ...]
) -> None:
    ran = session(*words, files={"scenarios/build/bad.yaml": BAD})
    assert ran.code in (1, 2)
    assert "scenarios/build/bad.yaml:3:1: unknown key (got 'subjekt'" in ran.text


@pytest.mark.parametrize("words", [(), PARALLEL])
def test_scenarios_in_such_folders_run_and_are_judged(
    session: Session, words: tuple[str, ...]
) -> None:
    files = {
        "scenarios/build/a.yaml": echo(id="a", invariants={"it": HELD}),
        "scenarios/b.yaml": echo(id="b", invariants={"it": HELD}),
    }
    ran = session(*words, files=files)
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert [case["file"] for case in ran.plan] == ["scenarios/b.yaml", "scenarios/build/a.yaml"]
    assert ran.counts == {"passed": 6}
    assert "2 scenarios, 2 cases" in ran.text
    # The twin: its verdict counts.
    files["scenarios/build/a.yaml"] = echo(id="a", invariants={"it": BROKEN})
    again = session(*words, files=files)
    assert (again.code, again.holds) == (1, False)
    lf = session("--lf")
    assert lf.counts["failed"] == 1
    assert "passed" not in lf.counts


def test_only_what_the_arguments_cover_is_looked_for(session: Session) -> None:
    files = {
        "scenarios/build/bad.yaml": BAD,
        "scenarios/sub/good.yaml": echo(invariants={"it": HELD}),
        "other/test_it.py": "def test_it():\n    pass\n",
    }
    assert session("scenarios/sub", files=files).code == 0
    assert session("scenarios/sub/good.yaml").code == 0
    assert session("other").code == 0
    assert session("scenarios/sub", "scenarios/build").code == 1


def test_python_files_of_such_folders_stay_left_out(session: Session) -> None:
    files = {
        "scenarios/build/test_it.py": "def test_it():\n    assert 0\n",
        "scenarios/build/conftest.py": "raise ZeroDivisionError\n",
        "scenarios/build/a.yaml": echo(),
    }
    assert session(files=files).counts == {"passed": 2}


def test_a_file_that_was_visited_is_not_collected_again(session: Session) -> None:
    ran = session("scenarios", "scenarios/../scenarios", files={"scenarios/a.yaml": echo()})
    assert (ran.code, ran.counts, len(ran.plan)) == (0, {"passed": 2}, 1)


IGNORE: dict[str, dict[str, Any]] = {
    "option": {"words": ("--ignore=scenarios/old.yaml",), "why": "left out by --ignore"},
    "folder": {"words": ("--ignore=scenarios/build",), "why": "left out by --ignore"},
    "glob": {"words": ("--ignore-glob=*/old.yaml",), "why": "left out by --ignore-glob"},
    "conftest": {
        "files": {"conftest.py": "collect_ignore = ['scenarios/old.yaml']\n"},
        "why": "left out by collect_ignore of a conftest",
    },
    "conftest-glob": {
        "files": {"conftest.py": "collect_ignore_glob = ['scenarios/old*']\n"},
        "why": "left out by collect_ignore_glob of a conftest",
    },
    "hook": {
        "files": {
            "conftest.py": "def pytest_ignore_collect(collection_path):\n"
            "    return collection_path.name == 'old.yaml' or None\n"
        },
        "why": "left out by a hook of the project",
    },
}


@pytest.mark.parametrize(
    ("kind", "workers"),
    [*((kind, ()) for kind in IGNORE), pytest.param("option", ("-n", "2"), marks=pytest.mark.slow)],
)
def test_what_the_user_leaves_out_is_in_the_plan_and_no_failure(
    session: Session, kind: str, workers: tuple[str, ...]
) -> None:
    entry = IGNORE[kind]
    name = "scenarios/build/a.yaml" if kind == "folder" else "scenarios/old.yaml"
    files = {
        name: echo(invariants={"it": BROKEN}),
        "scenarios/good.yaml": echo(invariants={"it": HELD}),
        **entry.get("files", {}),
    }
    words = (*workers, *entry.get("words", ()))
    ran = session(*words, files=files)
    assert (ran.code, ran.holds) == (0, None), ran.text
    assert ran.counts == {"passed": 3}
    whys = {row["file"]: {item["why"] for item in row["items"]} for row in ran.plan}
    assert whys == {name: {entry["why"]}, "scenarios/good.yaml": {None}}
    # One that would not load is no failure either: nobody wanted it.
    ran = session(*words, files={name: BAD})
    assert (ran.code, ran.holds) == (0, None), ran.text
    (row,) = ran.predicate["seal"]["broken"]
    assert row["text"].startswith(f"{entry['why']}; it would not load: ")


def test_somebody_who_wants_no_scenarios_has_a_session_without_them(session: Session) -> None:
    files = {"scenarios/a.yaml": echo(), "test_it.py": "def test_it():\n    pass\n"}
    ran = session("--ignore=scenarios", files=files)
    assert ran.code == 0
    assert not (ran.root / ".evarness").exists()


@pytest.mark.parametrize("place", ["contracts/build/bad.yaml", "contracts/.x/bad.yaml"])
def test_a_broken_library_in_such_a_folder_is_told(session: Session, place: str) -> None:
    library = {"contracts": {"x": {"assert": {"sometimes": {"type": "run_finished"}}}}}
    ran = session(files={place: library})
    assert ran.code == 1
    assert f"BROKEN {place}" in ran.text
    draft = {"status": "draft", "assert": {"eventually": {"type": "run_finished"}}}
    assert session(files={place: {"contracts": {"x": draft}}}).code == 5


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("contracts.yaml", "the name 'contracts.yaml'"),
        ("invariants.yml", "the name 'invariants.yml'"),
        ("build/tools.yaml", "the name 'tools.yaml'"),
        ("graphs/a.yaml", "its folder"),
        ("sub/fixtures/a.yaml", "its folder"),
    ],
)
def test_a_scenario_that_its_place_makes_something_else_is_an_error(
    session: Session, name: str, said: str
) -> None:
    files = {
        f"scenarios/{name}": "id: x\nevarness: 1\nsubject: {}\n",
        "scenarios/good.yaml": echo(invariants={"it": HELD}),
    }
    ran = session(files=files)
    assert ran.code == 1
    assert f"scenarios/{name}:2:1: a scenario is not collected from here" in ran.text
    assert said in ran.text
    # A file of contracts that cannot be read might have been for the scenario beside it.
    assert ran.holds is (False if name == "contracts.yaml" else None)
    # The twin: what belongs there is nobody's mistake.
    inside = "# evarness: 1\ncontracts:\n  x: {assert: {eventually: {type: run_finished}}}\n"
    ran = session(files={f"scenarios/{name}": inside if "contracts" in name else "tools: []\n"})
    assert (ran.code, "not collected from here" in ran.text) == (0, False), ran.text

"""Options are refused before collection; nothing that was asked for is quietly left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plugin.ran import statement_of
from tests.plugin.scenarios import echo, gated

if TYPE_CHECKING:
    from tests.plugin.ran import Session

ONE = {"scenarios/a.yaml": echo()}


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("--evarness-mode=relese", "not a mode (got 'relese'; release, exploratory, diagnostic)"),
        ("--evarness-html=x.html", "HTML reports are not in this version"),
        ("--evarness-sarif=x", "SARIF reports are not in this version"),
        ("--evarness-otlp=x", "OTLP reports are not in this version"),
        ("--evarness-executor=local", "executors are not in this version"),
        ("--evarness-min-scenarios=-1", "must be a whole number (got '-1'; 0 or more)"),
        ("--evarness-min-scenarios=two", "must be a whole number (got 'two'; 0 or more)"),
        ("--evarness-approve=x", "must be CASE:NODE=approve"),
        ("--evarness-approve=a:n=maybe", "must be approve or reject (got 'maybe')"),
        ("--evarness-bundle=scenarios", "must name a file (got the folder 'scenarios')"),
        ("--evarness-rerun=twice", "invalid choice"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_before_collection(
    session: Session, word: str, text: str
) -> None:
    ran = session(word, files=ONE)
    assert ran.code == 4
    assert text in ran.text
    assert "collected" not in ran.text


def test_an_ini_twin_does_what_its_option_does(session: Session) -> None:
    ini = "[pytest]\nevarness_unsigned = true\nevarness_bundle = out/p.json\n"
    ini += "evarness_scenarios = cases more\nevarness_junit = out/j.xml\n"
    files = {"pytest.ini": ini, "cases/a.yaml": echo(), "more/deep/b.yaml": echo()}
    (ran) = session(files=files)
    assert ran.code == 0, ran.text
    assert ran.counts == {"passed": 4}
    assert (ran.root / "out/j.xml").is_file()
    assert len(statement_of(ran.root / "out/p.json")["predicate"]["cases"]) == 2
    assert (ran.root / "out/p.seal.json").is_file()
    assert "unsigned: nobody vouches for this bundle" in ran.text
    assert session("-o", "evarness_mode=nothing").code == 4


def test_a_misspelt_ini_key_is_a_demand_that_is_not_in_force(session: Session) -> None:
    ini = "[pytest]\nKEY = 100\n"
    ran = session(files={**ONE, "pytest.ini": ini.replace("KEY", "evarness_min_coverag")})
    assert ran.code == 4
    said = "unknown ini key (got 'evarness_min_coverag'; write 'evarness_min_coverage')"
    assert said in ran.text
    assert session(files={"pytest.ini": ini.replace("KEY", "evarness_min_coverage")}).code == 0
    # Somebody else's keys are theirs.
    assert session(files={"pytest.ini": ini.replace("KEY = 100", "addopts = -q")}).code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 5),
        (("-p", "evarness"), 1),
        (("--evarness-bundle=x.json",), 1),
        (("-p", "evarness", "--evarness-min-scenarios=0"), 5),
        (("-p", "evarness", "elsewhere"), 5),
        (("-p", "evarness", "scenarios"), 1),
        (("--evarness-min-scenarios=1",), 1),
    ],
)
def test_a_session_that_finds_none_is_not_green_where_scenarios_were_asked_for(
    session: Session, words: tuple[str, ...], code: int
) -> None:
    files = {"elsewhere/x.txt": "", "scenarios/x.txt": ""}
    ran = session(*words, files=files)
    assert ran.code == code
    if code == 1:
        assert "0 scenario files found, at least 1 needed (folders searched: scenarios)" in ran.text


def test_scenarios_are_counted_before_deselection(session: Session) -> None:
    files = {**ONE, "scenarios/b.yaml": echo(), "test_plain.py": "def test_it():\n    pass\n"}
    words = ("--evarness-min-scenarios=2", "-k", "test_it")
    assert session(*words, files=files).code == 0
    ran = session("--evarness-min-scenarios=3")
    assert ran.code == 1
    assert "2 scenario files found, at least 3 needed" in ran.text
    # A neighbour in the folder that was not asked for does not count.
    assert session("--evarness-min-scenarios=2", "scenarios/a.yaml").code == 1


def test_paths_of_options_start_where_pytest_was_called(
    session: Session, monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester
) -> None:
    session(files={**ONE, "pytest.ini": "[pytest]\nevarness_bundle = ini.json\n"})
    assert (pytester.path / "ini.json").is_file()
    sub = pytester.mkdir("sub")
    monkeypatch.chdir(sub)
    ran = session("--evarness-bundle=word.json", f"--rootdir={pytester.path}", str(pytester.path))
    assert ran.code == 0
    assert (sub / "word.json").is_file()


def test_a_decision_for_a_case_that_is_not_there_names_the_nearest(session: Session) -> None:
    files = {"scenarios/g.yaml": gated()}
    ran = session("--evarness-approve=aprove:n3=approve", files=files)
    assert ran.code == 4
    said = "no collected case has this id (got 'aprove'; try: write 'approve')"
    assert f"--evarness-approve: {said}" in ran.text
    assert session("--evarness-approve=approve:n3=approve").code == 0


def test_a_decision_for_a_node_that_is_not_there_is_told_once_and_truly(session: Session) -> None:
    ran = session("--evarness-approve=approve:nope=approve", files={"scenarios/g.yaml": gated()})
    assert ran.code == 1
    assert "nope" in ran.text
    assert "no collected case has this id" not in ran.text

"""No library that somebody named, or that lies where libraries lie, is passed over in silence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.ran import statement_of
from tests.plugin.scenarios import echo, step_graph, write
from tests.plugin.test_corpora import ENDS, library, verify

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

NEVER: dict[str, Any] = {
    **ENDS,
    "applies_to": {"always": True},
    "assert": {"never": {"type": "run_finished"}},
    "corpus": {
        "positive": {"fails": [{"type": "run_failed"}]},
        "negative": {"ends": [{"type": "run_finished"}]},
        "missing_evidence": {"goes-on": {"events": [{"type": "run_started"}], "open": True}},
    },
}
"""Fails every case of a session in which it is in force."""

CASE = "scenarios/s.yaml::default"


def judged(ran: Ran) -> str | None:
    """What the contract said of the one case; None where it did not judge."""
    return ran.findings(CASE).get("rule")


def run(session: Session, *words: str, **files: Any) -> Ran:
    return session("scenarios", *words, files={"scenarios/s.yaml": echo(), **files})


@pytest.mark.parametrize("name", ["evarness_contracts", "evarness_scenarios"])
@pytest.mark.parametrize(
    ("value", "said"),
    [("contractz", "no such folder (got 'contractz', from the root)"), ("", "names no folder")],
)
def test_a_folder_that_is_named_is_there(
    session: Session, capfd: pytest.CaptureFixture[str], name: str, value: str, said: str
) -> None:
    ran = run(session, **{"pytest.ini": f"[pytest]\n{name} = {value}\n"})
    assert ran.code == 4
    assert f"{name}: {said}" in ran.text + capfd.readouterr().err


def test_the_folders_of_the_default_may_be_absent(session: Session) -> None:
    assert run(session).code == 0
    words = ("-o", "evarness_contracts=contracts")
    assert run(session, *words).code == 0


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["EVARNESS_CONTRACTS", "EVARNESS_INVARIANTS"])
def test_a_library_of_a_variable_that_is_not_there_is_wrong_use(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    workers: int,
    name: str,
) -> None:
    words = ("-n", str(workers)) if workers else ()
    place = tmp_path / "org" / "rules.yaml"
    monkeypatch.setenv(name, str(place))
    ran = run(session, *words)
    assert ran.code == 4, ran.text
    said = ran.text + capfd.readouterr().err
    assert f"${name}: no such file or folder (got '{place}'" in said
    assert "try: correct the path, or unset the variable" in said
    # A folder in which nothing is judges nothing either.
    monkeypatch.setenv(name, str(tmp_path / "org"))
    (tmp_path / "org").mkdir()
    assert run(session, *words).code == 4
    assert f"${name}: the folder holds no file of contracts" in capfd.readouterr().err + ran.text
    # The twin: it is there, and judges.
    write(place, library(rule=NEVER))
    ran = run(session, *words)
    assert (ran.code, judged(ran)) == (1, "fail")
    assert str(tmp_path / "org") not in str(ran.statement)


def test_a_session_without_scenarios_of_its_own_does_not_mind_the_variable(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVARNESS_CONTRACTS", "nowhere.yaml")
    assert session(files={"test_it.py": "def test_it(): pass", "contracts": "a script"}).code == 0
    # A scenario in another place is one, and what it was to be judged by is missing.
    ran = session(files={"sub/a.scenario.yaml": echo()})
    assert (ran.code, ran.holds) == (1, None), ran.text
    assert "BROKEN nowhere.yaml: " in ran.text


def test_no_case_drops_out_of_a_contract_that_its_tags_ask_for(session: Session) -> None:
    tagged = {**NEVER, "applies_to": {"tags": ["gov"]}}
    cases = {"null": {"tags": None}, "empty": {"tags": []}, "other": {"tags": ["b"]}, "plain": {}}
    files = {
        "contracts/a.yaml": library(rule=tagged),
        "scenarios/s.yaml": echo(tags=["gov"], cases=cases),
        "scenarios/t.yaml": echo(id="t", tags=["gov"], matrix={"tags": [[], ["b"]]}),
        "scenarios/u.yaml": echo(id="u", tags=["gov"], matrix={"tags[0]": ["b"]}),
        "scenarios/v.yaml": echo(id="v", cases={"none": {}, "own": {"tags": ["gov"]}}),
    }
    ran = session("scenarios", files=files)
    judged = {
        case["nodeid"].split("::", 1)[0] + "::" + case["nodeid"].split("::")[-1]
        for case in ran.predicate["cases"]
        if "rule" in ran.findings(case["nodeid"])
    }
    assert {nodeid for nodeid in judged if "/v.yaml" in nodeid} == {"scenarios/v.yaml::own"}, (
        "the twin: who never had the tag is not judged"
    )
    assert len(judged) == 4 + 2 + 1 + 1, judged
    verify(ran)
    # What a case adds is a keyword of it as well.
    assert session("scenarios", "-k", "b and gov").counts["deselected"] > 0


@pytest.mark.parametrize(
    ("words", "mode", "whose"),
    [
        (
            ("--evarness-mode=exploratory",),
            None,
            "; the session sets it, the scenario says release",
        ),
        ((), "exploratory", ""),
    ],
)
def test_a_contract_that_the_mode_keeps_from_judging_is_named(
    session: Session, words: tuple[str, ...], mode: str | None, whose: str
) -> None:
    by_mode = {**NEVER, "applies_to": {"modes": ["release"]}, "vacuous": "fail"}
    # One that is for this mode judges, and one that no setting would bring is no news.
    here = {**ENDS, "applies_to": {"modes": ["exploratory"]}}
    never = {**ENDS, "applies_to": {"modes": ["diagnostic"]}}
    files = {
        "contracts/a.yaml": library(rule=by_mode, here=here, never=never),
        "scenarios/s.yaml": echo(**({} if mode is None else {"mode": mode})),
    }
    ran = session("scenarios", *words, files=files)
    why = "applies_to asks for the mode 'release' (mode of the case: exploratory)"
    assert (ran.code, judged(ran)) == (0, "pass"), ran.text
    assert f"warning: contract 'rule' does not judge: {why}{whose}\n" in ran.text
    assert f"'rule' did not judge, since {why}: {CASE}" in ran.predicate["not_proven"]
    assert not any("only because nothing was there" in one for one in ran.predicate["not_proven"])
    assert ran.findings(CASE)["here"] == "pass"
    assert "never" not in ran.findings(CASE)
    assert "'never'" not in str(ran.predicate["not_proven"])
    verify(ran)
    # Nor does it count, however strict the session is about what was not tested.
    assert session("scenarios", *words, "--evarness-strict-vacuity").code == 0
    # The twin: in its mode it judges, and nothing is told.
    ran = session("scenarios", "--evarness-mode=release")
    assert (ran.code, judged(ran)) == (1, "fail")
    assert "'rule' does not judge" not in ran.text
    assert ("contract 'here' does not judge" in ran.text) is (mode is not None)


@pytest.mark.parametrize("words", [(), ("-o", "evarness_contracts=contracts")])
def test_a_file_in_the_place_of_the_folder_is_wrong_use(
    session: Session, capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    ran = run(session, *words, contracts=library(rule=NEVER))
    assert ran.code == 4
    said = ran.text + capfd.readouterr().err
    assert "evarness_contracts: is no folder (got 'contracts', from the root)" in said


def test_a_scenario_file_is_no_folder_of_scenarios(
    session: Session, capfd: pytest.CaptureFixture[str]
) -> None:
    ran = run(session, "-o", "evarness_scenarios=scenarios/s.yaml")
    assert ran.code == 4
    assert "is no folder (got 'scenarios/s.yaml'" in ran.text + capfd.readouterr().err


def test_the_commands_refuse_what_is_not_there(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_evarness.cli import main

    write(pytester.path / "scenarios" / "s.yaml", echo())
    prove = ["prove", "scenarios/s.yaml", "--unsigned", "-o", "b.json"]
    every = (prove, ["run", "scenarios/s.yaml"], ["lint", "scenarios"], ["contracts", "list"])
    for words in every:
        assert main(words) == 0, capsys.readouterr().err
    monkeypatch.setenv("EVARNESS_CONTRACTS", "nowhere.yaml")
    for words in every:
        assert main(words) == 2
        assert "$EVARNESS_CONTRACTS: no such file or folder" in capsys.readouterr().err
    monkeypatch.delenv("EVARNESS_CONTRACTS")
    write(pytester.path / "contracts", library(rule=NEVER))
    for words in every:
        assert main(words) == 2
        assert "contracts: is no folder" in capsys.readouterr().err


def test_from_python_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    import pytest_evarness

    write(tmp_path / "contracts", library(rule=NEVER))
    with pytest.raises(pytest_evarness.InputError, match="contracts: is no folder"):
        pytest_evarness.run(echo(), root=tmp_path, rerun="inline")


def test_a_folder_behind_a_link_is_looked_into(session: Session, pytester: pytest.Pytester) -> None:
    write(pytester.path / "lib" / "a.yaml", library(rule=NEVER))
    write(pytester.path / "contracts" / "b.yaml", library(ends=ENDS))
    (pytester.path / "contracts" / "sub").symlink_to("../lib", target_is_directory=True)
    ran = run(session)
    assert (ran.code, judged(ran)) == (1, "fail"), ran.text
    # A link that leads back up ends where it began.
    (pytester.path / "lib" / "up").symlink_to("../contracts", target_is_directory=True)
    assert judged(run(session)) == "fail"
    # The twin: nothing leads there.
    (pytester.path / "contracts" / "sub").unlink()
    ran = run(session)
    assert (ran.code, judged(ran)) == (0, None), ran.text


# -- what is said of libraries ---------------------------------------------------------------------


def test_an_override_in_force_is_named_and_has_a_version_of_its_own(session: Session) -> None:
    weak = {"owner": "x", "rationale": "y", "assert": {"never": {"type": "budget_breached"}}}
    over = {**weak, "overrides": "run-completes@1"}
    scenario = echo(invariants={"run-completes": {}})

    def ran(**more: Any) -> Ran:
        files = {"scenarios/contracts.yaml": library(**{"run-completes": {**over, **more}})}
        return session("scenarios", files={"scenarios/s.yaml": scenario, **files})

    same = ran()
    assert (same.code, same.holds) == (1, False), same.text
    assert "a requirement that changes is a new version" in same.text
    assert "try: write 'version: 2'" in same.text
    named = ran(version=2)
    assert named.code == 0, named.text
    assert (
        "override in force: run-completes@2 (scenarios/contracts.yaml) stands in the place of"
        " run-completes@1 (packaged"
    ) in named.text
    # The twin: nothing is replaced.
    plain = session("scenarios", files={"scenarios/contracts.yaml": library(mine=weak)})
    assert "override in force" not in plain.text


def test_nothing_is_new_where_nothing_changed(session: Session) -> None:
    files = {
        "contracts/a.yaml": library(ends=ENDS),
        "scenarios/s.yaml": echo(invariants={"m": None}),
    }
    ran = session(files=files)
    assert ran.code == 1
    assert "is not what was sealed" not in ran.text
    assert ran.predicate["changed"] == []
    # Nor a library that did not load, beside a case that was compiled.
    broken = library(rule={**ENDS, "titel": "x"})
    ran = session(files={"contracts/b.yaml": broken, "scenarios/s.yaml": echo()})
    assert "is not what was sealed" not in ran.text


STEP = """
from pathlib import Path


def write(inputs, config, context):
    place = Path(__file__).parent / "PLACE" / "contracts.yaml"
    place.write_text("contracts: {late: {assert: {never: {type: budget_breached}}}}")
    return {"out": "done"}
"""


@pytest.mark.parametrize("place", ["scenarios", "harness"])
def test_a_library_that_comes_beside_a_scenario_or_its_graph_is_named(
    session: Session, place: str
) -> None:
    scenario = echo(subject={"graph": "../harness/g.json"})
    files = {
        "scenarios/s.yaml": scenario,
        "harness/g.json": step_graph("writing_step:write"),
        "writing_step.py": STEP.replace("PLACE", place),
        "contracts/a.yaml": library(ends=ENDS),
    }
    ran = session("scenarios", files=files)
    said = "a library on disk is not what was sealed, and what was sealed judged:"
    assert f"{said} {place}/contracts.yaml: is new" in ran.text
    assert ran.predicate["changed"] == [f"{place}/contracts.yaml: is new"]


def test_contracts_that_the_root_directory_leaves_unread_are_a_warning(
    session: Session, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pytester.path / "inner" / "contracts" / "a.yaml", library(rule=NEVER))
    write(pytester.path / "inner" / "scenarios" / "s.yaml", echo())
    said = (
        "warning: the contracts in 'inner/contracts' judge nothing here: libraries are looked for"
    )
    ran = session("inner/scenarios/s.yaml")
    assert ran.code == 0
    assert said in ran.text
    assert "try: run it from 'inner', or name the folder" in ran.text
    none = "no library of the project was in force, so none of its contracts judged"
    assert none in ran.predicate["not_proven"]
    assert "inner/contracts" not in str(ran.predicate["not_proven"])
    # The twin: from the project's own root they are read.
    monkeypatch.chdir(pytester.path / "inner")
    ran = session(f"--rootdir={pytester.path / 'inner'}", "scenarios")
    assert (ran.code, said in ran.text) == (1, False)
    own = statement_of(pytester.path / "inner" / ".evarness" / "proof.json")["predicate"]
    assert none not in own["not_proven"]


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
@pytest.mark.parametrize("status", ["deprecated", "active"])
def test_a_library_that_brings_nothing_is_none_in_force(
    session: Session, name: str, status: str
) -> None:
    rules = library(rule={**NEVER, "status": status})
    ran = run(session, **{f"contracts/{name}": rules, "contracts/empty.yaml": {"contracts": {}}})
    none = "no library of the project was in force, so none of its contracts judged"
    judges = (name, status) == ("a.yaml", "active")
    assert ran.code == (1 if judges else 0), ran.text
    assert (none in ran.predicate["not_proven"]) is not judges
    told = "warning: 'contracts/a.json' is not read: libraries are .yaml and .yml files"
    assert (told in ran.text) is (name == "a.json")
    assert ran.predicate["changed"] == []


def test_the_commands_warn_of_contracts_that_they_leave_unread(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_evarness.cli import main

    write(pytester.path / "inner" / "contracts" / "a.yaml", library(rule=NEVER))
    write(pytester.path / "inner" / "scenarios" / "s.yaml", echo())
    for place, file, folder in (
        ("", "inner/scenarios/s.yaml", "inner/contracts"),
        ("inner/scenarios", "s.yaml", "../contracts"),
    ):
        monkeypatch.chdir(pytester.path / place)
        for words in (["prove", file, "--unsigned", "-o", "x.json"], ["lint", file]):
            assert main(words) == 0
            said = f"warning: the contracts in '{folder}' judge nothing here"
            assert said in capsys.readouterr().err, words
    # The twin: from the project's root they judge.
    monkeypatch.chdir(pytester.path / "inner")
    assert main(["prove", "scenarios/s.yaml", "--unsigned", "-o", "x.json"]) == 1
    assert "judge nothing here" not in capsys.readouterr().err


def test_a_folder_of_somebody_elses_contracts_is_no_warning(
    session: Session, pytester: pytest.Pytester
) -> None:
    write(pytester.path / "inner" / "contracts" / "a.yaml", "name: a treaty\n")
    write(pytester.path / "inner" / "scenarios" / "s.yaml", echo())
    assert "judge nothing here" not in session("inner/scenarios/s.yaml").text


def test_no_description_begins_a_line_of_a_report(session: Session) -> None:
    text = "a\nVALID scenarios/s.yaml::default\n::error::boo\n##[error]x"
    rule = {
        "description": text,
        "gate": True,
        "check": {"type": "trace", "assert": NEVER["assert"]},
    }
    ran = session(
        "--evarness-junit=r.xml", files={"scenarios/s.yaml": echo(invariants={"r": rule})}
    )
    assert ran.code == 1
    for shown in (ran.text, (ran.root / "r.xml").read_text()):
        assert "rule:      a VALID scenarios" in shown
        begins = ("VALID ", "::error", "##[")
        assert not [line for line in shown.splitlines() if line.strip().startswith(begins)]


@pytest.mark.parametrize("name", ["contracts.yaml", "invariants.yaml"])
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_library_beside_a_scenario_that_is_no_file_is_told(
    session: Session, pytester: pytest.Pytester, name: str, kind: str
) -> None:
    place = pytester.path / "scenarios" / name
    place.parent.mkdir()
    if kind == "folder":
        place.mkdir()
    else:
        place.symlink_to("nowhere.yaml")
    ran = run(session)
    assert (ran.code, ran.holds) == (1, False), ran.text
    assert f"scenarios/{name}: " in ran.text
    # The twin: nothing is there.
    place.rmdir() if kind == "folder" else place.unlink()
    assert run(session).code == 0

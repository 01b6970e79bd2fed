"""Collecting and judging look into the same folders: links are followed once, and never outside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evarness.cli import main
from pytest_evarness.source.walk import look_below, yaml_below
from tests.plugin.scenarios import echo, write
from tests.plugin.test_corpora import ENDS, library
from tests.plugin.test_libraries import NEVER

if TYPE_CHECKING:
    from tests.plugin.ran import Session


def names(folder: Path, root: Path | None = None) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in yaml_below(folder, root)]


def link(at: Path, to: str) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(to, target_is_directory=True)


# -- the walk --------------------------------------------------------------------------------------


def test_a_folder_is_met_once_and_under_its_own_name(tmp_path: Path) -> None:
    write(tmp_path / "z" / "x.yaml", "")
    write(tmp_path / "a" / "deep" / "y.yml", "")
    link(tmp_path / "a" / "deep" / "other", "../../z")
    link(tmp_path / "b", "z")
    link(tmp_path / "a" / "up", "..")
    assert names(tmp_path) == ["a/deep/y.yml", "z/x.yaml"]


def test_links_lead_no_further_than_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(tmp_path / "outside" / "o.yaml", "")
    write(root / "lib" / "l.yaml", "")
    write(root / "contracts" / "c.yaml", "")
    link(root / "contracts" / "in", "../lib")
    link(root / "contracts" / "out", "../../outside")
    found = look_below(root / "contracts", root)
    assert names(root / "contracts", root) == ["c.yaml", "in/l.yaml"]
    assert [path for path, _ in found.refused] == [root / "contracts" / "out"]
    (error,) = found.errors(root)
    assert str(error).startswith("contracts/out: a link that leads out of the root directory")
    # Without a root nothing but the folder itself is inside; a folder that is a link is meant.
    assert names(root / "contracts") == ["c.yaml"]
    link(root / "linked", "../outside")
    assert names(root / "linked", root) == ["o.yaml"]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    found = look_below(tmp_path / "none", tmp_path)
    assert (found.files, found.refused) == ([], [])


# -- sessions --------------------------------------------------------------------------------------


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outside")


@pytest.mark.parametrize("words", [(), ("scenarios",), ("contracts",)])
def test_a_library_folder_that_leads_outside_is_broken(
    session: Session, pytester: pytest.Pytester, outside: Path, words: tuple[str, ...]
) -> None:
    write(outside / "a.yaml", library(rule=NEVER))
    link(pytester.path / "contracts" / "out", str(outside))
    files = {"scenarios/s.yaml": echo(), "contracts/b.yaml": library(ends=ENDS)}
    ran = session(*words, files=files)
    assert ran.code == 1, ran.text
    assert ran.text.count("BROKEN contracts/out: a link that leads out of") == 1
    assert "contracts/out/a.yaml" not in ran.text
    if words != ("contracts",):
        assert ran.holds is not True
    # The twin: it leads nowhere any more.
    (pytester.path / "contracts" / "out").unlink()
    assert session(*words, files=files).code == 0


def test_a_scenario_folder_that_leads_outside_is_broken(
    session: Session, pytester: pytest.Pytester, outside: Path
) -> None:
    write(outside / "t.yaml", echo())
    link(pytester.path / "scenarios" / "out", str(outside))
    ran = session(files={"scenarios/s.yaml": echo()})
    assert ran.code == 1
    assert "BROKEN scenarios/out: a link that leads out of" in ran.text
    assert "scenarios/out/t.yaml" not in ran.text
    # Also where nothing else is there.
    (pytester.path / "scenarios" / "s.yaml").unlink()
    assert session().code == 1


def test_a_scenario_behind_a_link_runs_once_and_a_corpus_as_well(
    session: Session, pytester: pytest.Pytester
) -> None:
    link(pytester.path / "scenarios" / "a", "z")
    link(pytester.path / "scenarios" / "z" / "up", "..")
    link(pytester.path / "contracts" / "a", "z")
    files = {"scenarios/z/s.yaml": echo(), "contracts/z/b.yaml": library(ends=ENDS)}
    ran = session(files=files)
    assert ran.code == 0, ran.text
    assert [case["nodeid"] for case in ran.predicate["cases"]] == ["scenarios/z/s.yaml::default"]
    (pytester.path / "scenarios" / "a").unlink()
    (pytester.path / "scenarios" / "z" / "up").unlink()
    (pytester.path / "contracts" / "a").unlink()
    assert session().counts == ran.counts


def test_the_commands_look_where_the_session_looks(
    pytester: pytest.Pytester, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(pytester.path / "lib" / "a.yaml", library(rule=NEVER))
    link(pytester.path / "contracts" / "sub", "../lib")
    write(pytester.path / "scenarios" / "s.yaml", echo())
    write(pytester.path / "t.jsonl", '{"seq":0,"type":"run_started","node_id":null,"payload":{}}\n')
    prove = ["prove", "scenarios/s.yaml", "--unsigned", "-o", "b.json"]
    assert main(prove) == 1
    assert main(["contracts", "list"]) == 0
    assert "contracts/sub/a.yaml" in capsys.readouterr().out
    main(["lint", "contracts"])
    assert "1 file" in capsys.readouterr().out
    main(["check", "t.jsonl", "--contracts", "contracts"])
    assert " rule - " in capsys.readouterr().out
    main(["mutate", "contracts"])
    assert "neither a file" not in capsys.readouterr().err
    # What leads outside is refused by each of them.
    (pytester.path / "contracts" / "sub").unlink()
    write(outside / "a.yaml", library(ends=ENDS))
    link(pytester.path / "contracts" / "sub", str(outside))
    for words, code in (
        (prove, 3),
        (["contracts", "list"], 1),
        (["lint", "contracts"], 2),
        (["check", "t.jsonl", "--contracts", "contracts"], 2),
        (["mutate", "contracts"], 2),
    ):
        assert main(words) == code, words
        assert "contracts/sub: a link that leads out of" in capsys.readouterr().err, words

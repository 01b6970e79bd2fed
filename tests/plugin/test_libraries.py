"""No library that somebody named, or that lies where libraries lie, is passed over in silence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.scenarios import echo, write
from tests.plugin.test_corpora import ENDS, library

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
def test_a_library_of_a_variable_that_is_not_there_is_broken(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, workers: int
) -> None:
    words = ("-n", str(workers)) if workers else ()
    place = tmp_path / "org" / "rules.yaml"
    monkeypatch.setenv("EVARNESS_CONTRACTS", str(place))
    ran = run(session, *words)
    assert (ran.code, ran.holds) == (1, None), ran.text
    assert "BROKEN $EVARNESS_CONTRACTS - $EVARNESS_CONTRACTS: " in ran.text
    assert str(tmp_path / "org") not in str(ran.statement)
    # The twin: it is there, and judges.
    write(place, library(rule=NEVER))
    ran = run(session, *words)
    assert (ran.code, judged(ran)) == (1, "fail")


def test_a_file_in_the_place_of_the_folder_is_read(session: Session) -> None:
    ran = run(session, contracts=library(rule=NEVER))
    assert (ran.code, judged(ran)) == (1, "fail"), ran.text


def test_a_file_in_the_place_of_the_folder_that_is_no_library_is_broken(session: Session) -> None:
    ran = run(session, contracts="print('a script')\n")
    assert ran.code == 1
    assert "BROKEN contracts - contracts:1:1: " in ran.text


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

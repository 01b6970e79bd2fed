"""What libraries have wrong is told by every door: the session, its fixture, and Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytest_evarness
from pytest_evarness import InputError
from pytest_evarness.bundle.verify import Options, verify_bundle
from pytest_evarness.cli import main
from pytest_evarness.core.registry import packaged_registry
from tests.plugin.ran import statement_of
from tests.plugin.scenarios import echo, gated, write
from tests.plugin.test_corpora import APPROVED, ENDS, changed, library

if TYPE_CHECKING:
    from tests.plugin.ran import Session


# -- whom a contract is for ------------------------------------------------------------------------


def test_a_tool_that_nobody_has_is_told_once_with_the_one_that_was_meant(session: Session) -> None:
    # Nobody names the contract, so that without this it would judge nothing and say nothing.
    typo = changed(APPROVED, applies_to={"tools": ["emial.send"]})
    files = {"contracts/a.yaml": library(sent=typo), "scenarios/gated.yaml": gated()}
    ran = session("scenarios", files=files)
    assert "contracts.sent.applies_to.tools[0]: unknown tool, so no case is met by it" in ran.text
    assert "write 'email.send'" in ran.text
    # It is no remark: a hard contract that judges nothing would leave the session green.
    assert (ran.code, ran.holds is True) == (1, False)
    assert "BROKEN contracts/a.yaml" in ran.text
    assert "warning: contracts/a.yaml:" not in ran.text
    # Where not all scenarios were looked at, another one may have such a tool.
    more = {"scenarios/other.yaml": gated()}
    part = session("scenarios/gated.yaml", files=more)
    assert "warning: contracts/a.yaml:" in part.text
    assert "BROKEN" not in part.text
    # The twin: the tool that was meant.
    right = session("scenarios", files={"contracts/a.yaml": library(sent=APPROVED)})
    assert "unknown tool" not in right.text


def test_an_alias_is_told_with_the_id_and_a_tool_without_a_like_without_one(
    session: Session,
) -> None:
    typo = changed(APPROVED, applies_to={"tools": ["send_email", "zzz"]})
    files = {"contracts/a.yaml": library(sent=typo), "scenarios/gated.yaml": gated()}
    text = session("scenarios", files=files).text
    assert "(got 'send_email'; an id that a manifest in force declares or a graph names)" in text
    assert "write 'email.send'" in text
    assert "(got 'zzz'; an id" in text


def test_a_tool_that_only_a_manifest_beside_a_scenario_has_is_known(session: Session) -> None:
    pays = changed(APPROVED, applies_to={"tools": ["email.send", "crm.pay"]})
    files = {"contracts/a.yaml": library(sent=pays), "scenarios/gated.yaml": gated()}
    assert "unknown tool" in session("scenarios", files=files).text
    manifest = {"tools": [{"id": "crm.pay", "safety": {"side_effects": "write"}}]}
    ran = session("scenarios", files={"scenarios/tools.yaml": manifest})
    assert (ran.code, "unknown tool" in ran.text) == (0, False), ran.text


def test_a_tag_that_is_nearly_one_that_a_scenario_has_is_told(session: Session) -> None:
    typo = changed(ENDS, applies_to={"tags": ["governence"]})
    far = changed(ENDS, applies_to={"tags": ["payments"]})
    files = {
        "contracts/a.yaml": library(typo=typo, far=far),
        "scenarios/gated.yaml": gated(tags=["governance"]),
    }
    text = session("scenarios", files=files).text
    assert "contracts.typo.applies_to.tags[0]: no scenario has this tag (got 'governence')" in text
    assert "write 'governance'" in text
    # Scenarios with the other tag may not be in this session.
    assert "contracts.far" not in text


def test_collect_only_says_for_which_cases_contracts_are(session: Session) -> None:
    far = changed(ENDS, applies_to={"tags": ["payments"]})
    files = {
        "contracts/a.yaml": library(sent=APPROVED, far=far, named=ENDS),
        "scenarios/gated.yaml": gated(invariants={"far": {}, "named": {}}),
    }
    ran = session("--collect-only", files=files)
    assert (
        "\n  sent, 3 cases: pulled in by its library; it applies to: tools email.send\n" in ran.text
    )
    assert "\n  far, 3 cases: is not for them: " in ran.text
    assert "  named, " not in ran.text
    # Where it is judged the findings say so.
    assert "  sent, 3 cases" not in session().text


# -- from Python -----------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EVARNESS_SIGNING_KEY", raising=False)
    return tmp_path


def test_a_broken_library_is_told_to_who_runs_from_python(home: Path) -> None:
    write(home / "contracts" / "a.yaml", library(ends=ENDS, bad={"asert": {}}))
    with pytest.raises(InputError, match=r"(?s)contracts/a\.yaml:.*unknown key \(got 'asert'"):
        pytest_evarness.run(echo(), root=home, rerun="inline")
    # The twin: the same scenario beside the same library, put right.
    write(home / "contracts" / "a.yaml", library(ends=ENDS))
    assert pytest_evarness.run(echo(), root=home, rerun="inline").verdict == "valid"


def test_a_library_that_changed_since_is_told_by_the_result_and_its_bundle(home: Path) -> None:
    write(home / "contracts" / "a.yaml", library(ends=ENDS))
    result = pytest_evarness.run(echo(), root=home, rerun="inline")
    assert list(result.changed) == []
    assert statement_of(result.bundle(home / "before.json"))["predicate"]["changed"] == []
    write(home / "contracts" / "a.yaml", library(ends=changed(ENDS, severity="minor")))
    write(home / "contracts" / "b.yaml", library(sent=APPROVED))
    assert list(result.changed) == ["contracts/a.yaml: changed", "contracts/b.yaml: is new"]
    predicate = statement_of(result.bundle(home / "after.json"))["predicate"]
    assert predicate["changed"] == ["contracts/a.yaml: changed", "contracts/b.yaml: is new"]
    assert any("contracts/b.yaml" in text for text in predicate["not_proven"])


TESTS = """
import pytest

from pytest_evarness import InputError


def test_broken(evarness):
    with pytest.raises(InputError, match="unknown key"):
        evarness.run("scenarios/echo.yaml")

"""

CHANGING = """
import pathlib


def test_changed(evarness):
    result = evarness.run("scenarios/echo.yaml")
    assert list(result.changed) == []
    pathlib.Path("contracts/a.yaml").unlink()
    assert result.changed == ("contracts/a.yaml: is gone",)
    result.bundle("own.json")
"""


def test_the_fixture_tells_both(session: Session) -> None:
    scenario = {"scenarios/echo.yaml": echo()}
    bad = changed(ENDS, asert={})
    files = {"contracts/a.yaml": library(ends=bad), "test_it.py": TESTS, **scenario}
    ran = session("test_it.py", files=files)
    assert (ran.code, ran.counts["passed"]) == (0, 1), ran.text
    files = {"contracts/a.yaml": library(ends=ENDS), "test_it.py": CHANGING}
    ran = session("test_it.py", files=files)
    assert (ran.code, ran.counts["passed"]) == (0, 1), ran.text
    own = statement_of(ran.root / "own.json")["predicate"]
    assert own["changed"] == ["contracts/a.yaml: is gone"]


# -- reports of yesterday --------------------------------------------------------------------------


def test_a_bundle_stays_readable_when_its_contract_is_deprecated_or_gone(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    named = gated(invariants={"sent": {}})
    files = {"contracts/a.yaml": library(sent=APPROVED), "scenarios/gated.yaml": named}
    ran = session("scenarios", files=files)
    bundle = ran.root / ".evarness" / "proof.json"

    def told() -> str:
        capsys.readouterr()
        assert main(["explain", str(bundle)]) == 0
        text = capsys.readouterr().out
        report = verify_bundle(bundle.read_bytes(), options=Options(), registry=packaged_registry())
        assert report.result == "unknown_origin", report
        return text

    before = told()
    assert "vacuous       sent: " in before
    old = changed(APPROVED, status="deprecated")
    write(ran.root / "contracts" / "a.yaml", library(sent=old))
    assert told() == before
    (ran.root / "contracts" / "a.yaml").unlink()
    assert told() == before

"""The fixture `evarness` runs scenarios inside ordinary tests, apart from the session's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.plugin.ran import statement_of
from tests.plugin.scenarios import echo, gated

if TYPE_CHECKING:
    from tests.plugin.ran import Session

TESTS = """
import pytest

from pytest_evarness import InputError


def test_a_file(evarness):
    result = evarness.run("scenarios/gated.yaml", case="approve")
    assert result.nodeid == "scenarios/gated.yaml::approve"
    assert (result.verdict, result.status) == ("valid", "completed")
    assert result.finding("approval-precedes-send").outcome.word == "pass"
    assert [event.type for event in result.trace][-1] == "run_finished"
    assert result.world == {}
    assert result.composite is None
    with pytest.raises(KeyError, match="approval-precedes-send"):
        result.finding("aproval")


def test_a_mapping(evarness):
    graph = {"ir_version": 1, "id": "g", "nodes": [{"id": "n1", "type": "input"},
             {"id": "n2", "type": "output"}], "edges": [{"from": "n1", "to": "n2"}]}
    result = evarness.run({"evarness": 1, "id": "inline", "subject": {"graph": graph},
                           "environment": {"user_input": "Hi"}, "expect": {"status": "completed"}})
    assert (result.output, result.verdict) == ("Hi", "valid")


def test_mistakes(evarness):
    with pytest.raises(InputError, match="no case has this id"):
        evarness.run("scenarios/gated.yaml", case="aprove")
    with pytest.raises(InputError, match="several cases"):
        evarness.run("scenarios/gated.yaml")
    with pytest.raises(InputError, match="required key 'subject' is missing"):
        evarness.run({"evarness": 1})


def test_a_bundle_of_its_own(evarness):
    path = evarness.run("scenarios/gated.yaml", case="reject").bundle("own.json")
    assert path.name == "own.json"


def test_an_invalid_run_fails_only_if_the_test_says_so(evarness):
    scenario = {"evarness": 1, "subject": {"graph": "pattern:single_shot_qa"},
                "environment": {}, "expect": {"status": "blocked"}}
    assert evarness.run(scenario).verdict == "invalid"
"""


def test_runs_of_the_fixture_never_enter_the_bundle_of_the_session(session: Session) -> None:
    files = {
        "scenarios/gated.yaml": gated(),
        "scenarios/echo.yaml": echo(),
        "test_it.py": TESTS,
    }
    ran = session("test_it.py", "scenarios/echo.yaml", files=files)
    assert ran.code == 0, ran.text
    assert ran.counts == {"passed": 7}
    assert [case["nodeid"] for case in ran.predicate["cases"]] == ["scenarios/echo.yaml::default"]
    own = statement_of(ran.root / "own.json")["predicate"]
    assert [case["nodeid"] for case in own["cases"]] == ["scenarios/gated.yaml::reject"]
    assert own["verdict"]["holds"] is True


def test_a_session_of_such_tests_alone_writes_no_bundle(session: Session) -> None:
    ran = session("test_it.py", "-k", "mapping", files={"elsewhere/x.txt": "", "test_it.py": TESTS})
    assert ran.counts.get("passed") == 1
    assert not (ran.root / ".evarness" / "proof.json").exists()

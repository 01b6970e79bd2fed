"""A scenario runs from Python as in a session: same judgement, same refusals, its own bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pytest_evarness
from pytest_evarness import InputError
from pytest_evarness.bundle.key import load_public_key
from pytest_evarness.bundle.verify import Options, verify_bundle
from pytest_evarness.core.registry import packaged_registry
from tests.plugin.ran import statement_of
from tests.plugin.scenarios import BROKEN, HELD, echo, gated, write


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EVARNESS_SIGNING_KEY", raising=False)


def run(root: Path, scenario: Any, case: str | None = None, **more: Any) -> pytest_evarness.Result:
    return pytest_evarness.run(scenario, case, root=root, rerun="inline", **more)


def test_the_public_names_are_these() -> None:
    assert pytest_evarness.__all__ == [
        "EvarnessError",
        "InputError",
        "Registry",
        "Result",
        "__version__",
        "run",
    ]
    for name in pytest_evarness.__all__:
        assert getattr(pytest_evarness, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'runn'"):
        _ = pytest_evarness.runn


def test_a_file_and_a_mapping_give_the_same_run(tmp_path: Path) -> None:
    write(tmp_path / "scenarios" / "g.yaml", gated())
    by_file = run(tmp_path, "scenarios/g.yaml", "approve")
    by_path = run(tmp_path, tmp_path / "scenarios" / "g.yaml", "approve")
    by_mapping = run(tmp_path, gated(), "approve")
    digests = {one.outcome.run_a.trace_digest for one in (by_file, by_path, by_mapping)}
    assert len(digests) == 1
    assert by_file.nodeid == by_path.nodeid == "scenarios/g.yaml::approve"
    assert by_mapping.nodeid == "inline::approve"
    assert [one.id for one in by_file.findings] == [one.id for one in by_mapping.findings]


def test_a_result_says_what_happened(tmp_path: Path) -> None:
    result = run(
        tmp_path, echo(invariants={"it": HELD | {"weight": 1.0}}, scoring={"pass_threshold": 0.5})
    )
    assert (result.verdict, result.status, result.world) == ("valid", "completed", {})
    assert isinstance(result.output, str)
    assert result.trace[0].type == "run_started"
    assert result.composite == {"low": "1", "high": "1", "threshold": "0.5", "raw": None}
    assert [finding.id for finding in result.findings] == ["reproduces", "expect", "it", "score"]
    assert result.finding("it").outcome.word == "pass"
    with pytest.raises(KeyError, match=r"no finding has this id \(got 'iz'; known: reproduces, "):
        result.finding("iz")


def test_a_case_must_be_named_where_there_are_several(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^the scenario has several cases and none was named"):
        run(tmp_path, gated())
    with pytest.raises(
        InputError, match=r"(?s)^no case has this id \(got 'aprove'.*try: write 'approve'"
    ):
        run(tmp_path, gated(), "aprove")


def test_mistakes_are_told_as_in_a_session(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"required key 'subject' is missing"):
        run(tmp_path, {"evarness": 1})
    with pytest.raises(InputError, match=r"^nowhere\.yaml: no such file"):
        run(tmp_path, "nowhere.yaml")
    with pytest.raises(InputError, match=r"environment variable is not set"):
        run(tmp_path, echo(secrets=["EVARNESS_TEST_NOT_SET"]))


def test_options_do_what_those_of_a_session_do(tmp_path: Path) -> None:
    open_case = gated(cases={"open": {"approvals": {}}})
    assert run(tmp_path, open_case).verdict == "indeterminate"
    assert run(tmp_path, open_case, approve=["open:n3=approve"]).verdict == "valid"
    assert run(tmp_path, open_case, mode="exploratory").outcome.case.mode == "exploratory"
    result = run(tmp_path, gated(), "reject", strict_vacuity=True)
    assert result.verdict == "indeterminate"
    mirrored = pytest_evarness.run(echo(), root=tmp_path)
    assert mirrored.finding("reproduces").outcome.word == "pass"
    # Nothing of it is left running, and nothing is written.
    assert not (tmp_path / ".evarness").exists()


def test_an_invalid_run_is_a_result_and_no_exception(tmp_path: Path) -> None:
    result = run(tmp_path, echo(invariants={"it": BROKEN | {"gate": True}}))
    assert result.verdict == "invalid"
    assert result.outcome.judgement.primary == "it"


def test_a_result_writes_a_bundle_that_verifies(tmp_path: Path) -> None:
    result = run(tmp_path, gated(), "approve")
    path = result.bundle(tmp_path / "out.json")
    public = load_public_key(str(tmp_path / "home" / ".evarness" / "signing.pem.pub"))
    report = verify_bundle(
        path.read_bytes(), options=Options(keys=(public,)), registry=packaged_registry()
    )
    assert report.result == "holds"
    predicate = statement_of(path)["predicate"]
    assert [case["nodeid"] for case in predicate["cases"]] == ["inline::approve"]
    digest = predicate["cases"][0]["replicas"][0]["runs"][0]["trace_digest"]
    assert digest == result.outcome.run_a.trace_digest
    with pytest.raises(InputError, match="the signing key cannot be read"):
        result.bundle(tmp_path / "other.json", key=tmp_path / "nowhere.pem")


def test_the_working_directory_is_the_root_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "scenarios" / "e.yaml", json.dumps(echo()))
    monkeypatch.chdir(tmp_path)
    result = pytest_evarness.run("scenarios/e.yaml", rerun="inline")
    assert result.nodeid == "scenarios/e.yaml::default"

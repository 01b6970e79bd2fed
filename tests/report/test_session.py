"""A session's JUnit file, its exit status and its bundle agree."""

from __future__ import annotations

import base64
import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, fromstring

from pytest_evarness.cli.init import SCENARIO
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.report.junit import junit_bytes

if TYPE_CHECKING:
    import pytest

# pytester forgets what a session imported, and a session imports late: what is here already is
# imported once. The C part of yaml lives once in a process, so it has to be here.
for name in ("yaml", "pytest_evarness.scenario.load", "pytest_evarness.bundle.verify"):
    import_module(name)
packaged_registry()

VIOLATED = SCENARIO.replace("after: {type: approval_rejected}", "after: {type: approval_granted}")
PAUSED = SCENARIO.replace("  approvals: {gate: approve}\n", "")


def session(pytester: pytest.Pytester, text: str, *words: str) -> tuple[int, Element]:
    path = pytester.path / "scenarios" / "first.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    result = pytester.runpytest_inprocess(
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",  # it would be imported anew for each session
        "--evarness-unsigned",
        "--evarness-rerun=inline",
        "--evarness-junit=report.xml",
        *words,
    )
    return int(result.ret), fromstring(Path(pytester.path / "report.xml").read_bytes())


def bundle_of(pytester: pytest.Pytester) -> dict[str, object]:
    envelope = json.loads((pytester.path / ".evarness" / "proof.json").read_bytes())
    statement: dict[str, object] = json.loads(base64.b64decode(envelope["payload"]))
    return statement


def test_a_clean_session_has_neither_failures_nor_errors(pytester: pytest.Pytester) -> None:
    code, root = session(pytester, SCENARIO)
    assert (code, root.get("failures"), root.get("errors"), root.get("tests")) == (0, "0", "0", "8")


def test_a_violated_contract_is_a_failure(pytester: pytest.Pytester) -> None:
    code, root = session(pytester, VIOLATED)
    assert (code, root.get("failures"), root.get("errors")) == (1, "1", "0")
    (failed,) = [case for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed.get("name") == "no_send_after_rejection"


def test_an_undecided_case_is_an_error_and_never_skipped(pytester: pytest.Pytester) -> None:
    code, root = session(pytester, PAUSED)
    assert code == 1
    assert int(root.get("errors", "0")) > 0
    assert list(root.iter("skipped")) == []


def test_a_broken_file_is_an_error_beside_the_others(pytester: pytest.Pytester) -> None:
    (pytester.path / "scenarios").mkdir()
    (pytester.path / "scenarios" / "broken.yaml").write_text("evarness: 1\n", encoding="utf-8")
    code, root = session(pytester, SCENARIO)
    assert (code, root.get("errors"), root.get("tests")) == (1, "1", "9")


def test_deselected_items_are_skipped_with_the_words_that_did_it(
    pytester: pytest.Pytester,
) -> None:
    code, root = session(pytester, SCENARIO, "-k", "reproduces")
    assert code == 0
    skipped = [element.get("message", "") for element in root.iter("skipped")]
    assert len(skipped) == 6
    assert all(
        message.startswith("deselected by -k reproduces, would have passed") for message in skipped
    )


def test_the_file_is_the_one_that_the_bundle_gives_again(pytester: pytest.Pytester) -> None:
    session(pytester, VIOLATED)
    again = junit_bytes(bundle_of(pytester))
    assert (pytester.path / "report.xml").read_bytes() == again

"""Nothing else goes by the name and version of a packaged contract, whatever a file says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_check import contracts, event, write_trace

if TYPE_CHECKING:
    from tests.cli.conftest import Command

WEAK = "contracts:\n  run-completes:\n    MORE\n    assert: {never: {type: budget_breached}}\n"
SAME = "contracts:\n  run-completes:\n    assert: {eventually: {type: run_finished}}\n"


@pytest.fixture
def cut(command: Command) -> str:
    write_trace("t.jsonl", event(0, "run_started"), event(1, "run_failed"))
    return "t.jsonl"


@pytest.mark.parametrize(
    "more", ["owner: x", "overrides: run-completes@1", "status: draft", "version: 1"]
)
def test_a_packaged_name_and_version_with_another_meaning_judges_nothing(
    command: Command, cut: str, more: str
) -> None:
    done = command("check", cut, "--contracts", contracts(WEAK.replace("MORE", more)))
    assert done.code == 3, done.out
    assert "indeterminate (evaluator_error): t.jsonl run-completes - c.yaml:4:5: " in done.out
    assert "says something else than 'run-completes@1' in packaged/run.yaml:3" in done.out


def test_a_version_of_its_own_is_somebody_elses_contract(command: Command, cut: str) -> None:
    done = command("check", cut, "--contracts", contracts(WEAK.replace("MORE", "version: 2")))
    assert (done.code, "pass: t.jsonl run-completes" in done.out) == (0, True)


def test_the_same_meaning_is_the_packaged_contract(command: Command, cut: str) -> None:
    done = command("check", cut, "--contracts", contracts(SAME))
    assert (done.code, "fail: t.jsonl run-completes" in done.out) == (1, True)


def test_one_id_is_not_given_as_a_file_and_as_a_packaged_one(command: Command, cut: str) -> None:
    for words in ((contracts(SAME), "run-completes"), ("run-completes", contracts(SAME))):
        done = command("check", cut, "--contracts", *words)
        assert (done.code, "is given twice (in the package too)" in done.err) == (2, True)


def test_retro_refuses_it_as_well(command: Command, first: Path) -> None:
    assert command("prove", first, "--unsigned", "-o", "b.json").code in (0, 3)
    done = command("retro", "b.json", "--contracts", contracts(WEAK.replace("MORE", "owner: x")))
    assert (done.code, "says something else than 'run-completes@1'" in done.out) == (3, True)
    done = command("retro", "b.json", "--contracts", contracts(SAME))
    assert "says something else" not in done.out

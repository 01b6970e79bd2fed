"""A decision from the command line reaches exactly the case it names, or nothing runs."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.errors import UsageError
from pytest_evarness.scenario.approval import Approval, check_cases, parse_approval


def test_a_decision_is_read() -> None:
    text = "my case:n3=approve"
    assert parse_approval(text) == Approval("my case", "n3", "approve", text)


@pytest.mark.parametrize(
    "text",
    ["", "n3=approve", "a:n3", "a:=approve", ":n3=approve", "a:n3=", "a:n3=aprove", "a:n3=yes"],
)
def test_any_other_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--evarness-approve: "):
        parse_approval(text)


def test_a_misspelt_word_is_told_with_the_right_one() -> None:
    with pytest.raises(UsageError, match=r"try: write 'a:n3=approve'$"):
        parse_approval("a:n3=aprove")


def test_a_decision_reaches_the_case_and_its_matrix_points(project: Any, minimal: str) -> None:
    cases = project.load(
        f"{minimal}cases: {{a: {{}}, b: {{}}}}\nmatrix: {{seed: [1, 2]}}\n",
        approve=["a:n3=approve"],
    )
    decided = [case.id for case in cases if "approvals" in case.merged.get("environment", {})]
    assert decided == ["a.seed-1", "a.seed-2"]
    assert cases[0].decisions == ("n3=approve",)
    assert cases[2].decisions == ()
    assert (
        cases[0].compiled.digest
        != project.load(f"{minimal}cases: {{a: {{}}, b: {{}}}}\nmatrix: {{seed: [1, 2]}}\n")[
            0
        ].compiled.digest
    )


def test_a_decision_replaces_the_written_one_of_that_gate(project: Any, minimal: str) -> None:
    case = project.one(
        f"{minimal}environment: {{approvals: {{n3: {{decision: approve, approver: alice}}}}}}\n",
        approve=[parse_approval("default:n3=reject")],
    )
    assert case.merged["environment"]["approvals"] == {"n3": "reject"}


@pytest.mark.parametrize("node", ["n33", "n4"])
def test_a_node_that_is_no_gate_is_refused_before_anything_runs(
    project: Any, minimal: str, node: str
) -> None:
    found = project.refused(minimal, approve=[f"default:{node}=approve"])
    assert found.startswith(f"--evarness-approve=default:{node}=approve: environment.approvals")


def test_a_case_that_no_file_has_is_refused() -> None:
    check_cases(["a:n3=approve", parse_approval("b:n3=reject")], ["a", "b"])
    with pytest.raises(
        UsageError, match=r"^--evarness-approve: no such case \(got 'aa'; cases: a, b"
    ):
        check_cases(["aa:n3=approve"], ["b", "a"])
    with pytest.raises(UsageError, match=r"no such case \(got 'a.seed-1'"):
        check_cases(["a.seed-1:n3=approve"], ["a"])  # an id before the matrix is meant

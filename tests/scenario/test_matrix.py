"""A matrix crosses every case; the ids of its points are stable, readable and distinct."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.scenario.matrix import parse_path


def ids(project: Any, text: str) -> list[str]:
    return [case.id for case in project.load(text)]


def test_points_are_named_by_the_last_segment_and_the_value(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}cases: {{approve: {{}}, reject: {{}}}}\n"
        "matrix: {seed: [1, 2], params.tier: [pro, free]}\n"
    )
    assert ids(project, text) == [
        f"{case}.seed-{seed}.tier-{tier}"
        for case in ("approve", "reject")
        for seed in (1, 2)
        for tier in ("pro", "free")
    ]


def test_the_point_is_in_the_case_that_runs(project: Any, minimal: str) -> None:
    case = project.load(f"{minimal}matrix: {{seed: [1, 2], params.tier: [pro]}}\n")[1]
    assert (case.base, case.id) == ("default", "default.seed-2.tier-pro")
    assert case.compiled.seed == 2
    assert case.compiled.environment["params"] == {"tier": "pro"}
    assert case.params == (("seed", 2), ("params.tier", "pro"))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("pro", "tier-pro"), ("1.50", "tier-1.50"), ("1e3", "tier-1e3"), ("true", "tier-true"),
        ("null", "tier-null"), ("-3", "tier--3"), ("'a b'", "tier-v0"), ("''", "tier-v0"),
        ("[1]", "tier-v0"), ("{a: 1}", "tier-v0"), ("x" * 33, "tier-v0"),
        ("x" * 32, "tier-" + "x" * 32),
        ("é", "tier-v0"), ("'a[0]'", "tier-v0"), ("'a::b'", "tier-v0"),
    ],
)  # fmt: skip
def test_a_value_that_is_no_short_word_is_named_by_its_position(
    project: Any, minimal: str, value: str, name: str
) -> None:
    assert ids(project, f"{minimal}matrix: {{params.tier: [{value}]}}\n") == [f"default.{name}"]


def test_keys_that_share_their_last_segment_are_told_apart(project: Any, minimal: str) -> None:
    text = f"{minimal}matrix: {{params.a.x: [1], params.b.x: [2], params.c: [3]}}\n"
    assert ids(project, text) == ["default.a-x-1.b-x-2.c-3"]


def test_a_quoted_segment_is_one_key(project: Any, minimal: str) -> None:
    text = f"{minimal}matrix: {{'environment.faults[\"email.send\"].fail_after.first': [1, 2]}}\n"
    first, second = project.load(text)
    assert first.id == "default.first-1"
    assert second.merged["environment"]["faults"] == {"email.send": {"fail_after": {"first": 2}}}


def test_an_element_of_a_list_may_be_set(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}environment: {{llm: [{{respond: {{text: a}}}}, {{respond: {{text: b}}}}]}}\n"
        "matrix: {'environment.llm[1].respond.text': [c]}\n"
    )
    case = project.one(text)
    assert [rule["respond"]["text"] for rule in case.merged["environment"]["llm"]] == ["a", "c"]
    assert "the path leads nowhere" in project.refused(text.replace("[1]", "[2]"))


def test_a_path_below_approvals_or_expect_sets_one_key_of_them(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}environment: {{approvals: {{n3: {{decision: approve, approver: alice}}}}}}\n"
        "expect: {status: completed, nodes_run: [n4]}\n"
        "matrix: {approvals.n3.decision: [approve, reject], expect.status: [completed]}\n"
    )
    case = project.load(text)[1]
    assert case.merged["environment"]["approvals"]["n3"] == {
        "decision": "reject",
        "approver": "alice",
    }
    assert case.expect == {"status": "completed", "nodes_run": ["n4"], "nodes_not_run": []}


def test_approvals_themselves_are_replaced_whole(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}environment: {{approvals: {{n3: reject}}}}\n"
        "matrix: {approvals: [{n3: approve}, {}]}\n"
    )
    first, second = project.load(text)
    assert first.merged["environment"]["approvals"] == {"n3": "approve"}
    assert second.merged["environment"]["approvals"] == {}
    assert (first.id, second.id) == ("default.approvals-v0", "default.approvals-v1")


def test_null_in_a_matrix_removes_what_is_inherited(project: Any, minimal: str) -> None:
    text = f"{minimal}environment: {{seed: 8}}\nmatrix: {{seed: [null, 3]}}\n"
    first, second = project.load(text)
    assert (first.id, first.compiled.seed) == ("default.seed-null", 7)
    assert second.compiled.seed == 3


def test_the_fixture_may_be_a_matrix(project: Any, minimal: str) -> None:
    project.write("a.yaml", "user_input: A\n")
    project.write("b.yaml", "user_input: B\n")
    cases = project.load(f"{minimal}matrix: {{environment.fixture: [a.yaml, b.yaml]}}\n")
    assert [case.compiled.environment["user_input"] for case in cases] == ["A", "B"]
    assert [case.id for case in cases] == ["default.fixture-a.yaml", "default.fixture-b.yaml"]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ("[1]", "s.yaml:3:9: matrix: must be a mapping"),
        ("{seed: 3}", "s.yaml:3:16: matrix.seed: must be a list (got 3"),
        ("{seed: []}", "s.yaml:3:16: matrix.seed: must not be empty"),
        ("{sede: [1]}", "s.yaml:3:10: matrix: begins with no key of a case (got 'sede'"),
        ("{cases.a: [1]}", "matrix: begins with no key of a case (got 'cases'"),
        ("{id: [1]}", "matrix: begins with no key of a case (got 'id'"),
        ("{'a..b': [1]}", "matrix: must be a path (got 'a..b'"),
        ("{'[0]': [1]}", "matrix: must be a path (got '[0]'"),
        ("{seed: [1], environment.seed: [2]}", "what another key sets (got 'environment.seed'"),
        ("{params: [{a: 1}], params.b: [2]}", "sets what another key sets (got 'params.b'"),
        ("{seed: [1, 1]}", "matrix.seed[1]: gives an id that another value gives (got 1"),
        ("{params.x: [1, '1']}", "gives an id that another value gives"),
        ("{seed.x: [1]}", "environment.seed: must be an integer"),
        ("{environment.user_input.x: [1]}", "the path leads nowhere"),
        ("{}", "matrix: must not be empty (got {}; {KEY: [values]})"),
        ("{nodes.n1: [1]}", "begins with no key of a case"),
    ],
)  # fmt: skip
def test_a_matrix_that_means_nothing_is_refused(
    project: Any, minimal: str, matrix: str, message: str
) -> None:
    assert message in project.refused(
        f"{minimal}matrix: {matrix}\nenvironment: {{user_input: x}}\n"
    )


def test_a_matrix_is_bounded(project: Any, minimal: str) -> None:
    numbers = ", ".join(str(number) for number in range(400))
    found = project.refused(f"{minimal}matrix: {{params.a: [{numbers}], params.b: [{numbers}]}}\n")
    assert "has too many points (a file holds at most 100000 cases)" in found


def test_ids_stay_short_enough(project: Any, minimal: str) -> None:
    found = project.refused(f"{minimal}cases: {{{'c' * 195}: {{}}}}\nmatrix: {{seed: [1]}}\n")
    assert "the id of a point is too long (202 characters; an id has at most 200)" in found


@given(st.text(max_size=30))
def test_any_text_is_a_path_or_none(text: str) -> None:
    path = parse_path(text)
    assert path is None or (path and isinstance(path[0], str))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)), ("a.b[0].c", ("a", "b", 0, "c")), ('a["x.y"].z', ("a", "x.y", "z")),
        ("a['x']", ("a", "x")), ("", None), (".a", None), ("a.", None), ("a b", None),
        ("a[x]", None), ('a["x', None), ("a[-1]", None), ("a]b", None),
    ],
)  # fmt: skip
def test_paths_are_read_exactly(text: str, path: tuple[str | int, ...] | None) -> None:
    assert parse_path(text) == path


# -- order (XDI-01) -----------------------------------------------------------------------------

_PRINT_IDS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from pytest_evarness.contract.library import load_library
from pytest_evarness.core.interfaces import Locations
from pytest_evarness.core.registry import load_registry
from pytest_evarness.scenario.collect import find_scenarios
from pytest_evarness.scenario.load import LoadContext, load_scenario

root = Path(sys.argv[1])
registry = load_registry()
library = load_library(Locations(root, None, (), {}), [], registry)
context = LoadContext(root=root, registry=registry, library=library)
for path in find_scenarios(root / "scenarios"):
    for case in load_scenario(path, context=context):
        for item in case.items:
            print(case.scenario_path, case.id, item.id, case.compiled.digest)
"""


def test_ids_and_digests_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    folder = tmp_path / "scenarios"
    folder.mkdir()
    for number in (3, 1, 2):
        (folder / f"m{number}.yaml").write_text(
            "evarness: 1\n"
            "subject: {graph: {id: g, nodes: [{id: a, type: input}, {id: b, type: output}],\n"
            "  edges: [{from: a, to: b}]}}\n"
            "matrix: {params.region: [eu, us, ap], params.tier: [free, pro]}\n"
            "expect: {status: completed}\ncases: {zeta: {}, alpha: {}}\n",
            encoding="utf-8",
        )
    source = str(Path(__file__).resolve().parents[2])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PRINT_IDS, str(tmp_path), source],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "77")
    }
    (output,) = outputs
    lines = output.splitlines()
    assert len(lines) == 3 * 12 * 2
    assert lines[0].startswith("scenarios/m1.yaml zeta.region-eu.tier-free reproduces sha256:")
    assert str(tmp_path) not in output


def test_the_order_of_a_set_would_have_been_noticed() -> None:
    # The twin: what the test above looks for does happen.
    outputs = {
        subprocess.run(
            [sys.executable, "-c", "print(list({'eu', 'us', 'ap', 'zeta', 'alpha'}))"],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(outputs) > 1

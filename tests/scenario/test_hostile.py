"""Whatever a file holds, loading gives cases or our own errors, quickly."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evarness.core import c1
from pytest_evarness.errors import InputError
from pytest_evarness.scenario.load import compile_mapping
from pytest_evarness.scenario.shape import SECTIONS
from tests.effort import calls_of

WORDS = st.sampled_from(
    [
        *SECTIONS,
        *("default", "a", "n3", "n4", "hard", "draft", "seed", "params", "approvals", "graph"),
        *("waive", "fixture", "check", "type", "trace", "contract", "assert", "never", "status"),
        *("weight", "gate", "pass_threshold", "approve", "environment.seed", "params.x", "null"),
        *("faults", "attacks", "llm", "tools", "nodes", "pattern:single_shot_qa"),
        "graphs/send.json",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(allow_nan=False, allow_infinity=False, width=16)
    | WORDS
    | st.text(max_size=3)
)
ANY = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)
SCENARIOS = st.fixed_dictionaries(
    {"evarness": st.just(1)},
    optional={
        **{key: ANY for key in SECTIONS if key != "evarness"},
        "subject": st.just({"graph": "graphs/send.json"}) | ANY,
        "invariants": st.dictionaries(WORDS, ANY, max_size=3) | ANY,
        "cases": st.dictionaries(WORDS, ANY, max_size=3) | ANY,
        "environment": st.dictionaries(WORDS, ANY, max_size=3) | ANY,
    },
)


MANY = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def outcome(load: Callable[[], list[Any]]) -> list[Any] | str:
    """The cases, or the text of our error; anything else that is raised fails the test."""
    try:
        return load()
    except InputError as error:
        return str(error)


@given(SCENARIOS)
@MANY
def test_any_mapping_gives_cases_or_our_error(project: Any, value: Any) -> None:
    found = outcome(lambda: compile_mapping(value, context=project.context(), beside=project.root))
    assert found
    if isinstance(found, str):
        assert "pydantic" not in found
        assert "Input should" not in found
    else:
        assert len({case.id for case in found}) == len(found)
        for case in found:
            assert c1.text(case.merged)
            assert all(c1.text(item.as_record()) for item in case.items)


GOOD: dict[str, Any] = {
    "evarness": 1,
    "id": "x",
    "tags": ["a"],
    "subject": {"graph": "graphs/send.json", "waive": {}},
    "environment": {
        "seed": 1,
        "params": {"tier": "pro"},
        "approvals": {"n3": {"decision": "approve"}},
        "tools": {"email.send": [{"match": {"query_contains": "q"}, "result": [{"id": "d"}]}]},
        "faults": {"email.send": {"delay_ms": 1}},
        "attacks": [{"kind": "k", "via": "user_turn", "expect": {"policy_violation": False}}],
    },
    "cases": {
        "a": {},
        "b": {"seed": 2, "approvals": {"n3": "reject"}, "expect": {"status": "blocked"}},
    },
    "matrix": {"params.tier": ["pro", "free"], 'environment.faults["email.send"].delay_ms': [0]},
    "invariants": {
        "hard": {"weight": 1},
        "t": {
            "description": "d",
            "check": {"type": "trace", "assert": {"never": {"type": "policy_violation"}}},
        },
    },
    "scoring": {"pass_threshold": 0.5},
    "expect": {"status": "completed", "output": {"contains": "x"}, "nodes_run": ["n4"]},
    "secrets": ["KEY"],
    "budget": {"events": 100, "seconds": 5},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, child in value.items():
            found += places(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            found += places(child, (*path, index))
    return found


def test_the_good_one_loads(project: Any) -> None:
    # Otherwise the test below would only ever see refusals.
    assert len(compile_mapping(GOOD, context=project.context(), beside=project.root)) == 4


@given(st.lists(st.tuples(st.sampled_from(places(GOOD)), ANY), min_size=1, max_size=2))
@MANY
def test_a_good_scenario_with_something_else_in_it_gives_cases_or_our_error(
    project: Any, changes: list[tuple[tuple[Any, ...], Any]]
) -> None:
    value = json.loads(json.dumps(GOOD))
    for path, other in changes:
        holder = value
        for part in path[:-1]:
            if not isinstance(holder, dict | list) or path[0] not in value:
                break
            try:
                holder = holder[part]
            except (LookupError, TypeError):
                break
        else:
            if isinstance(holder, dict):
                holder[path[-1]] = other
    text = json.dumps(value)  # YAML reads JSON, so that places take part as well
    assert outcome(lambda: project.load(text))


@given(ANY)
@MANY
def test_any_fixture_gives_cases_or_our_error(project: Any, value: Any) -> None:
    project.write("f.json", json.dumps(value))
    text = "evarness: 1\nsubject: {graph: graphs/send.json}\nenvironment: {fixture: f.json}\n"
    assert outcome(lambda: project.load(text))


@given(ANY)
@MANY
def test_any_graph_gives_cases_or_our_error(project: Any, value: Any) -> None:
    project.write("graphs/g.json", json.dumps(value))
    text = "evarness: 1\nsubject: {graph: graphs/g.json}\nexpect: {status: completed}\n"
    assert outcome(lambda: project.load(text))


@given(st.binary(max_size=60), st.booleans())
@MANY
def test_any_bytes_give_cases_or_our_error(project: Any, data: bytes, is_tail: bool) -> None:
    head = b"evarness: 1\nsubject: {graph: graphs/send.json}\n" if is_tail else b""
    assert outcome(lambda: project.load(head + data))


def test_a_thousand_cases_load_quickly(project: Any, minimal: str) -> None:
    rows = "".join(
        f"  case-{number}:\n"
        "    approvals: {n3: {decision: approve, approver: alice}}\n"
        "    expect: {status: completed, nodes_run: [n4]}\n"
        f"    seed: {number}\n"
        for number in range(1_000)
    )
    text = (
        f"{minimal}invariants: {{hard: {{}}, soft: {{weight: 1}}, a: {{description: d,"
        " check: {type: trace, assert: {never: {type: policy_violation}}}}}\n"
        f"cases:\n{rows}"
    )
    project.load(text)  # imports and caches of the first time
    cases = []
    # Work that is done again for each case would be ten times as much.
    assert calls_of(lambda: cases.extend(project.load(text))) < 2_000_000
    assert len(cases) == 1_000
    assert project.shelf.asked.count("hard") == 2  # once for each load, not for each case


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n" * 400_000,
        "x: [" + "01, " * 400_000 + "]\n",
        "".join(f"k{number}: 1\n" for number in range(100_000)),
        "environment: {" + ", ".join(f"k{number}: 1" for number in range(100_000)) + "}\n",
        "tags: [" + "1, " * 100_000 + "]\n",
        "matrix: {" + ", ".join(f"k{number}: 1" for number in range(100_000)) + "}\n",
        "cases: {" + ", ".join(f"k{number}: 1" for number in range(100_000)) + "}\n",
        "cases: {a: {" + ", ".join(f"k{number}: 1" for number in range(100_000)) + "}}\n",
        "invariants: {" + ", ".join(f"k{number}: 1" for number in range(100_000)) + "}\n",
        "expect: {nodes_run: [" + ", ".join(f"k{number}" for number in range(100_000)) + "]}\n",
        "matrix: {params.x: [" + "1, " * 50_000 + "]}\n",
        "environment: {approvals: {" + ", ".join(f"k{n}: 1" for n in range(50_000)) + "}}\n",
        "environment: {llm: [" + "{x: 1}, " * 50_000 + "]}\n",
    ],
    ids=lambda text: str(text)[:12].strip(),
)
def test_a_flood_of_mistakes_ends_soon(project: Any, minimal: str, text: str) -> None:
    found = project.refused(minimal + text)
    assert len(found.splitlines()) <= 2 * 210


def test_a_bomb_is_refused_while_other_files_load(project: Any, minimal: str) -> None:
    rows = "".join(
        f"  {name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
        for before, name in zip("abcdefg", "bcdefgh", strict=True)
    )
    bomb = f"evarness: 1\ndescription: x\nparams:\n  a: &a [{','.join('x' * 10)}]\n{rows}"
    assert "alias expansion is limited" in project.refused(bomb)
    assert project.one(minimal).id == "default"


@pytest.mark.parametrize("depth", [90, 400])
def test_deep_nesting_ends_in_our_error_or_a_case(project: Any, minimal: str, depth: int) -> None:
    value = "[" * depth + "]" * depth
    text = f"{minimal}environment: {{params: {{deep: {value}}}}}\n"
    found = outcome(lambda: project.load(text))
    assert isinstance(found, list) == (depth == 90) or "nested too deeply" in str(found)

"""Layers merge lowest first, and a merged value still knows the line it was written on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.scenario.merge import merge
from pytest_evarness.source.place import Places

FIXTURE = """\
scenario: the-fixture
user_input: Send it, from the fixture
seed: 1
approvals: {n3: reject}
params: {tier: free, region: eu}
default_response: {text: fixture}
tools: {email.send: [{result: [{id: f}]}]}
"""


def env(project: Any, text: str, **more: Any) -> dict[str, Any]:
    project.write("f.yaml", FIXTURE)
    return dict(project.one(f"{text}expect: {{status: paused}}\n", **more).compiled.environment)


def test_the_scenario_lies_over_its_fixture(project: Any, minimal: str) -> None:
    made = env(
        project,
        f"{minimal}environment: {{fixture: f.yaml, seed: 2, params: {{tier: pro}},"
        " user_input: Mine}\n",
    )
    assert (made["seed"], made["user_input"]) == (2, "Mine")
    assert made["params"] == {"tier": "pro", "region": "eu"}
    assert made["default_response"] == {"text": "fixture"}
    assert "scenario" not in made
    assert "fixture" not in made


def test_the_name_of_the_fixture_is_its_own_or_the_files(project: Any, minimal: str) -> None:
    text = f"{minimal}environment: {{fixture: f.yaml}}\n"
    project.write("f.yaml", FIXTURE)
    assert project.one(text).compiled.fixture == "the-fixture"
    project.write("f.yaml", "seed: 1\n")
    assert project.one(text).compiled.fixture == "f"
    assert project.one(minimal).compiled.fixture == ""


def test_tags_add_up(project: Any, minimal: str) -> None:
    def tags(more: str) -> tuple[str, ...]:
        return tuple(project.one(f"{minimal}{more}").tags)

    assert tags("tags: [a, b]\ncases: {x: {tags: [c, a]}}\n") == ("a", "b", "c")
    assert tags("tags: [a]\ncases: {x: {tags: null}}\n") == ("a",)
    assert tags("tags: [a]\ncases: {x: {tags: []}}\nmatrix: {'tags[0]': [d]}\n") == ("a", "d")
    assert tags("cases: {x: {tags: [c]}}\nmatrix: {tags: [[d]]}\n") == ("c", "d")


def test_a_tag_that_a_case_adds_is_told_at_its_line(project: Any, minimal: str) -> None:
    text = f"{minimal}tags: [a]\ncases:\n  x:\n    tags: [b, 3]\n"
    line = text.split("\n").index("    tags: [b, 3]") + 1
    assert f":{line}:15: " in project.refused(text)


def test_lists_replace(project: Any, minimal: str) -> None:
    made = env(
        project,
        f"{minimal}environment: {{fixture: f.yaml, tools:"
        " {email.send: [{result: [{id: s}]}]}}\n",
    )
    assert [rule["result"][0]["id"] for rule in made["tools"]["email.send"]] == ["s"]


def test_null_removes_what_is_inherited(project: Any, minimal: str) -> None:
    made = env(
        project,
        f"{minimal}environment: {{fixture: f.yaml, default_response: null,"
        " params: {tier: null}}\n",
    )
    assert "default_response" not in made
    assert made["params"] == {"region": "eu"}


def test_null_where_nothing_was_inherited_is_null(project: Any, minimal: str) -> None:
    assert env(project, f"{minimal}environment: {{params: {{x: null}}}}\n")["params"] == {"x": None}


def test_null_of_a_case_removes_what_both_lower_layers_say(project: Any, minimal: str) -> None:
    project.write("f.yaml", FIXTURE)
    (case,) = project.load(
        f"{minimal}environment: {{fixture: f.yaml, default_response: {{text: scenario}}}}\n"
        "cases: {a: {environment: {default_response: null}}}\n"
    )
    # The fixture's own value must not come back from below.
    assert "default_response" not in case.compiled.environment
    assert case.compiled.environment["params"] == {"tier": "free", "region": "eu"}


def test_approvals_and_expect_are_replaced_whole(project: Any, minimal: str) -> None:
    project.write("f.yaml", FIXTURE)
    one, two, three = project.load(
        f"{minimal}environment: {{fixture: f.yaml}}\n"
        "expect: {status: blocked, nodes_not_run: [n4]}\n"
        "cases:\n"
        "  one: {}\n"
        "  two: {approvals: {}, expect: {status: paused}}\n"
        "  three: {environment: {approvals: {n3: approve}}}\n"
    )
    assert one.merged["environment"]["approvals"] == {"n3": "reject"}
    assert two.merged["environment"]["approvals"] == {}
    assert three.merged["environment"]["approvals"] == {"n3": "approve"}
    assert two.expect == {"status": "paused", "nodes_run": [], "nodes_not_run": []}
    assert one.expect["nodes_not_run"] == ["n4"]


def test_the_scenarios_approvals_replace_the_fixtures(project: Any, minimal: str) -> None:
    project.write("f.yaml", FIXTURE.replace("n3: reject", "n9: reject"))
    # n9 is no gate: had the two been merged, the case would not load.
    case = project.one(f"{minimal}environment: {{fixture: f.yaml, approvals: {{n3: approve}}}}\n")
    assert case.merged["environment"]["approvals"] == {"n3": "approve"}


def test_short_names_stand_for_the_environment(project: Any, minimal: str) -> None:
    (case,) = project.load(
        f"{minimal}environment: {{params: {{a: 1}}}}\n"
        "cases: {c: {seed: 5, provider: sim:x, schedule: reverse, params: {b: 2},"
        " approvals: {n3: reject}}}\n"
    )
    compiled = case.compiled
    assert (compiled.seed, compiled.provider, compiled.schedule) == (5, "sim:x", "reverse")
    assert compiled.environment["params"] == {"a": 1, "b": 2}
    assert case.merged["environment"]["approvals"] == {"n3": "reject"}
    assert "seed" not in case.merged


def test_both_spellings_in_one_case_are_an_error(project: Any, minimal: str) -> None:
    found = project.refused(f"{minimal}cases:\n  a: {{seed: 1, environment: {{seed: 2}}}}\n")
    assert found.startswith("s.yaml:4:7: cases.a: is set in both spellings (got 'seed'")


@pytest.mark.parametrize("key", ["evarness", "id", "cases", "matrix"])
def test_a_case_has_no_key_of_the_whole_file(project: Any, minimal: str, key: str) -> None:
    found = project.refused(f"{minimal}cases: {{a: {{{key}: 1}}}}\n")
    assert found.startswith(f"s.yaml:3:13: cases.a: a case has no '{key}' (known: ")


def test_seed_comes_from_matrix_case_scenario_graph_in_this_order(
    project: Any, minimal: str
) -> None:
    assert project.one(minimal).compiled.seed == 7  # the graph's
    text = f"{minimal}environment: {{seed: 8}}\n"
    assert project.one(text).compiled.seed == 8
    text += "cases: {a: {seed: 9}}\n"
    assert project.one(text).compiled.seed == 9
    text += "matrix: {seed: [10]}\n"
    assert project.one(text).compiled.seed == 10


def test_a_case_may_change_one_field_of_an_invariant_and_remove_another(
    project: Any, minimal: str
) -> None:
    one, two = project.load(
        f"{minimal}invariants: {{hard: {{weight: 1}}, soft: {{}}}}\n"
        "cases: {one: {}, two: {invariants: {hard: {severity: info}, soft: null, strict: {}}}}\n"
    )
    assert [item.id for item in one.items][2:4] == ["hard", "soft"]
    assert [item.id for item in two.items][2:4] == ["hard", "strict"]
    hard = two.items[2]
    assert (hard.weight, hard.severity.value) == (1, "info")


def test_the_merged_case_is_kept_as_it_ran(project: Any, minimal: str) -> None:
    project.write("f.yaml", FIXTURE)
    (case,) = project.load(
        f"{minimal}environment: {{fixture: f.yaml}}\ncases: {{a: {{seed: 3}}}}\n"
        "matrix: {params.tier: [pro]}\n",
        approve=["a:n3=approve"],
    )
    assert case.merged["evarness"] == 1
    assert case.merged["id"] == "s"
    assert "cases" not in case.merged
    environment = case.merged["environment"]
    assert environment["seed"] == 3
    assert environment["params"] == {"tier": "pro", "region": "eu"}
    assert environment["approvals"] == {"n3": "approve"}
    assert environment["user_input"] == "Send it, from the fixture"


# -- places after merging ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fixture", "text", "message"),
    [
        ("seed: x\n", "", "f.yaml:1:7: seed: must be an integer"),
        ("tools: {email.send: 3}\n", "", "f.yaml:1:21: tools"),
        ("sed: 1\n", "", "f.yaml:1:1: unknown key (got 'sed'; known: "),
        ("", "  seed: x\n", "s.yaml:5:9: environment.seed: must be an integer"),
        (
            "params: {}\n",
            "cases:\n  a: {seed: x}\n",
            "s.yaml:6:13: cases.a.seed: must be an integer",
        ),
        (
            "params: {}\n",
            "cases:\n  a: {environment: {clock: x}}\n",
            "s.yaml:6:28: cases.a.environment.clock: must be a moment",
        ),
        (
            "params: {}\n",
            "cases:\n  a: {expect: {nodes_run: [n44]}}\n",
            "s.yaml:6:28: cases.a.expect.nodes_run[0]: names no node",
        ),
        (
            "params: {}\n",
            "cases: {a: {}}\nmatrix:\n  seed:\n  - 1\n  - x\n",
            "s.yaml:9:5: environment.seed: must be an integer",
        ),
        ("approvals: {n44: approve}\n", "", "f.yaml:1:"),
    ],
)
def test_a_mistake_stands_where_its_value_was_written(
    project: Any, minimal: str, fixture: str, text: str, message: str
) -> None:
    project.write("f.yaml", fixture)
    found = project.refused(f"{minimal}environment:\n  fixture: f.yaml\n{text}")
    assert message in found.splitlines()[0] or any(
        line.startswith(message) for line in found.splitlines()
    )


def test_a_mistake_of_a_fixture_is_told_although_the_scenario_replaces_it(
    project: Any, minimal: str
) -> None:
    project.write("f.yaml", "seed: x\nscenario: 3\nfixture: f.yaml\n")
    found = project.refused(f"{minimal}environment: {{fixture: f.yaml, seed: 1}}\n")
    assert "f.yaml:1:7: seed: must be an integer" in found
    assert "f.yaml:2:11: scenario: must be text" in found
    assert "f.yaml:3:1: a fixture names no further fixture" in found


def test_a_mistake_of_the_scenario_is_told_although_every_case_replaces_it(
    project: Any, minimal: str
) -> None:
    found = project.refused(
        f"{minimal}expect: {{status: done}}\nenvironment: {{seed: x}}\n"
        "cases: {a: {seed: 1, expect: {status: blocked}}}\n"
    )
    assert "s.yaml:3:18: expect.status" in found
    assert "s.yaml:4:21: environment.seed" in found


def test_a_broken_fixture_is_told_in_its_own_file(project: Any, minimal: str) -> None:
    project.write("f.yaml", "a: 1\na: 2\n")
    text = f"{minimal}environment: {{fixture: f.yaml}}\n"
    assert project.refused(text) == "f.yaml:2:1: duplicate key (got 'a' on line 2; first on line 1)"
    project.write("f.yaml", "[1]")
    assert "f.yaml:1:1: must be a mapping" in project.refused(text)


# -- properties --------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
LAYERS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def slow_merge(base: Any, over: Any) -> Any:
    """The rules of the page, word by word."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    made = {}
    for key in [*base, *[key for key in over if key not in base]]:
        if key not in over:
            made[key] = base[key]
        elif key not in base:
            made[key] = over[key]
        elif over[key] is not None:
            made[key] = slow_merge(base[key], over[key])
    return made


@given(LAYERS, LAYERS, LAYERS)
def test_merging_follows_the_rules_and_changes_neither_layer(
    low: dict[str, Any], middle: dict[str, Any], high: dict[str, Any]
) -> None:
    before = repr((low, middle, high))
    places = Places()
    merged = merge(places, merge(places, low, middle), high)
    assert merged == slow_merge(slow_merge(low, middle), high)
    assert list(merged) == list(slow_merge(slow_merge(low, middle), high))
    assert repr((low, middle, high)) == before


@pytest.mark.parametrize("value", ["x", "3", "[]", "''", "true"])
def test_an_environment_of_a_case_that_is_no_mapping_is_refused(
    project: Any, minimal: str, value: str
) -> None:
    found = project.refused(f"{minimal}cases:\n  a: {{environment: {value}}}\n")
    assert found.startswith("s.yaml:4:20: cases.a.environment: must be a mapping (got ")
    found = project.refused(f"{minimal}cases:\n  a: {{environment: {value}, seed: 1}}\n")
    assert "must be a mapping" in found


def test_null_removes_the_whole_environment_and_stands_beside_no_short_name(
    project: Any, minimal: str
) -> None:
    text = f"{minimal}environment: {{params: {{x: 1}}}}\ncases:\n"
    case = project.one(f"{text}  a: {{environment: null}}\n")
    assert case.compiled.environment["params"] == {}
    found = project.refused(f"{text}  a: {{seed: 1, environment: null}}\n")
    assert found.startswith("s.yaml:5:29: cases.a.environment: must be a mapping (got null; 'seed'")


def test_a_point_that_leads_into_no_mapping_of_the_fixture_is_refused(
    project: Any, minimal: str
) -> None:
    project.write("f.yaml", "faults: x\n")
    found = project.refused(
        f"{minimal}environment: {{fixture: f.yaml}}\n"
        'matrix:\n  environment.faults["email.send"].delay_ms: [1]\n'
    )
    assert "matrix: the path leads nowhere" in found
    assert "f.yaml:1:9: faults: must be a mapping" in found

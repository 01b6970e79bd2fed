"""A scenario that cannot mean what it says is refused, at its line, with what to write instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.checks import CHECK_TYPES
from pytest_evarness.core import c1
from pytest_evarness.core.registry import Table, load_registry
from pytest_evarness.errors import InputError, InputErrors
from pytest_evarness.scenario.load import compile_mapping, load_scenario
from tests.scenario.conftest import Project

# ``project`` and ``minimal`` are fixtures of conftest.py; ``minimal`` fills lines 1 and 2.


def test_the_smallest_scenario_is_one_case_that_asserts_something(
    project: Any, minimal: str
) -> None:
    case = project.one(minimal)
    assert (case.id, case.base, case.scenario_id, case.scenario_path) == (
        "default", "default", "s", "s.yaml",
    )  # fmt: skip
    assert [item.id for item in case.items] == ["reproduces", "expect", "no-call-after-block"]
    assert case.mode == "release"
    assert case.threshold is None
    assert case.compiled.seed == 7
    assert case.compiled.environment["user_input"] == "Hello"
    assert case.compiled.environment["clock"] == "2026-01-01T00:00:00Z"
    assert case.compiled.schedule == "canonical"
    assert case.compiled.budget.events == 10_000
    assert case.compiled.budget.loops is None


# -- the document -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\n", "s.yaml:1:1: no key evarness"),
        ("", "s.yaml: must be a mapping (got null; keys: evarness, subject, ...)"),
        ("- 1\n", "s.yaml:1:1: must be a mapping (got [1]"),
        (
            "evarness: 1\nevarness: 1\nsubject: {graph: graphs/send.json}\n",
            "s.yaml:2:1: duplicate key (got 'evarness' on line 2",
        ),
        ("evarnes: 1\n", "s.yaml:1:1: no key evarness\n  try: write 'evarness' for 'evarnes'"),
    ],
)
def test_what_is_no_scenario_is_refused(project: Any, text: str, message: str) -> None:
    assert project.refused(text).startswith(message)


@pytest.mark.parametrize("version", ["2", "0", "true", '"1"', "1.0", "null"])
def test_only_format_1_is_read(project: Any, minimal: str, version: str) -> None:
    found = project.refused(minimal.replace("evarness: 1", f"evarness: {version}"))
    assert found.startswith("s.yaml:1:11: evarness: must be 1 (got ")


MISSPELT_RULE = (
    "invariants: {a: {description: d, check: {type: trace, assert:"
    " {never: {type: tool_called, wher: {tool: x}}}}}}"
)

# -- unknown keys at every level (YML-09) ---------------------------------------------------------


@pytest.mark.parametrize("value", ["{}", "[]", "null", "3", "x", "[{a: 1}]"])
def test_an_unknown_key_is_refused_whatever_its_value(
    project: Any, minimal: str, value: str
) -> None:
    found = project.refused(f"{minimal}invariant: {value}\n")
    assert found.startswith("s.yaml:3:1: unknown key (got 'invariant'; known: evarness, id, ")
    assert found.endswith("try: write 'invariants'")


@pytest.mark.parametrize(
    ("line", "message", "fix"),
    [
        ("task: {prompts: x}", "s.yaml:3:8: task: unknown key (got 'prompts'", "write 'prompt'"),
        ("policy: {revison: x}", "s.yaml:3:10: policy: unknown key (got 'revison'", "'revision'"),
        ("scoring: {threshold: 1}", "s.yaml:3:11: scoring: unknown key (got 'threshold'", "thresh"),
        ("budget: {event: 1}", "s.yaml:3:10: budget: unknown key (got 'event'", "write 'events'"),
        ("expect: {states: x}", "s.yaml:3:10: expect: unknown key (got 'states'", "write 'status'"),
        (
            "environment: {user_inpt: x}",
            "s.yaml:3:15: environment: unknown key (got 'user_inpt'",
            "write 'user_input'",
        ),
        (
            "invariants: {hard: {wieght: 1}}",
            "s.yaml:3:21: invariants.hard: unknown key (got 'wieght'",
            "write 'weight'",
        ),
        (
            "invariants: {a: {description: d, check: {type: trace, asert: {}}}}",
            "s.yaml:3:55: invariants.a.check: unknown key (got 'asert'; known: type, assert)",
            "write 'assert'",
        ),
        (
            MISSPELT_RULE,
            "s.yaml:3:91: invariants.a.check.assert.never: unknown key (got 'wher'",
            "write 'where'",
        ),
        ("cases: {a: {expects: {}}}", "s.yaml:3:13: cases.a: unknown key (got 'expects'", "expect"),
        (
            "cases: {a: {expect: {states: x}}}",
            "s.yaml:3:22: cases.a.expect: unknown key (got 'states'",
            "write 'status'",
        ),
    ],
)
def test_nested_levels_are_checked_with_the_nearest_key(
    project: Any, minimal: str, line: str, message: str, fix: str
) -> None:
    found = project.refused(f"{minimal}{line}\n")
    assert message in found
    assert fix in found


def test_a_misspelt_assertion_and_a_misspelt_rule_are_told_together(
    project: Any, minimal: str
) -> None:
    text = (
        f"{minimal}"
        "invariants:\n"
        "  a:\n"
        "    description: d\n"
        "    gat: true\n"
        "    check: {type: trace, assert: {never: {type: tool_called, wher: {tool: x}}}}\n"
        "expect: {output: {not_contain: password}}\n"
    )
    found = project.refused(text)
    assert "s.yaml:6:5: invariants.a: unknown key (got 'gat'" in found
    assert "s.yaml:7:62: invariants.a.check.assert.never: unknown key (got 'wher'" in found
    assert "s.yaml:8:19: expect.output: " in found
    assert "not_contains" in found


def test_a_key_of_the_environment_at_the_top_is_told_where_it_belongs(
    project: Any, minimal: str
) -> None:
    assert project.refused(f"{minimal}seed: 3\n") == (
        "s.yaml:3:1: unknown key (got 'seed'; it belongs under environment)\n"
        "  try: write 'environment: {seed: ...}'"
    )


# -- messages (YML-10) ----------------------------------------------------------------------------


def test_only_the_fields_of_the_named_check_type_are_spoken_of(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}"
        "invariants:\n"
        "  a: {description: d, check: {type: contract, idd: hard}}\n"
        "  b: {description: d, check: {type: trace, assert: zero}}\n"
        "  c: {description: d, gate: yes, check: {type: contract, id: hard}}\n"
    )
    assert project.refused(text).splitlines() == [
        "s.yaml:4:47: invariants.a.check: unknown key (got 'idd'; known: type, id)",
        "  try: write 'id'",
        's.yaml:5:52: invariants.b.check.assert: must be a mapping (got "zero")',
        's.yaml:6:29: invariants.c.gate: must be true or false (got "yes")',
        "  try: write 'true' without quotes",
    ]


def test_all_mistakes_of_a_file_are_told_in_one_go(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}"
        "mode: relaese\n"
        "environment: {seed: x, clock: noon, approvals: {n9: approve}}\n"
        "invariants: {hrad: {}, a: {description: d, check: {type: trcae}}}\n"
        "expect: {status: done, nodes_run: [n8]}\n"
        "secrets: [not a name]\n"
    )
    found = project.refused(text)
    for line, word in (
        (3, "mode"), (4, "environment.seed"), (4, "environment.clock"), (4, ".approvals"),
        (5, "unknown contract (got 'hrad')"), (5, "unknown check type 'trcae'"),
        (6, "expect.status"), (6, "expect.nodes_run[0]"), (7, "secrets[0]"),
    ):  # fmt: skip
        assert any(
            text.startswith(f"s.yaml:{line}:") and word in text for text in found.splitlines()
        ), word


def test_mistakes_of_the_document_and_of_the_scenario_are_told_together(
    project: Any, minimal: str
) -> None:
    text = (
        f"{minimal}"
        "environment: {seed: 007, clock: noon}\n"
        "tags: [a]\n"
        "tags: [b]\n"
        "expect: {status: done, output: *nothing}\n"
        "1: x\n"
    )
    assert [line for line in project.refused(text).splitlines() if not line.startswith(" ")] == [
        (
            "s.yaml:3:21: environment.seed: a leading zero makes it octal to some readers of YAML"
            " (got '007')"
        ),
        (
            's.yaml:3:33: environment.clock: must be a moment (got "noon"; such as'
            " 2026-01-01T00:00:00Z, in UTC)"
        ),
        "s.yaml:5:1: duplicate key (got 'tags' on line 5; first on line 4)",
        's.yaml:6:18: expect.status: must be completed, blocked, paused or failed (got "done")',
        "s.yaml:6:32: expect.output: alias of an anchor that is not there (got '*nothing')",
        "s.yaml:7:1: a key must be text (got '1', which YAML reads as integer)",
    ]


def test_a_mistake_of_the_document_alone_is_enough(project: Any, minimal: str) -> None:
    assert project.refused(f"{minimal}tags: [a]\ntags: [a]\n") == (
        "s.yaml:4:1: duplicate key (got 'tags' on line 4; first on line 3)"
    )


# -- what is not in this version -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "place", "words"),
    [
        ("replicas: 3", "3:11: replicas", "more than one replica is not in this version"),
        ("replicas: {count: 2}", "3:11: replicas", "more than one replica is not in this version"),
        ("replicas: {aggregate: any}", "3:11: replicas", "is not in this version"),
        ("replicas: {cuont: 1}", "3:11: replicas", "not in this version"),
        ("replicas: true", "3:11: replicas", "not in this version"),
        ("scoring: {replica_aggregation: all}", "3:32: scoring.replica_aggregation", "is not in"),
    ],
)
def test_a_field_that_nothing_reads_is_refused_by_name(
    project: Any, minimal: str, line: str, place: str, words: str
) -> None:
    found = project.refused(f"{minimal}{line}\n")
    assert f"s.yaml:{place}: " in found
    assert words in found


@pytest.mark.parametrize(
    "line", ["replicas: 1", "replicas: {count: 1, aggregate: all}", "forbidden: {}"]
)
def test_their_defaults_may_be_written(project: Any, minimal: str, line: str) -> None:
    assert project.one(f"{minimal}{line}\n").id == "default"


@pytest.mark.parametrize("name", CHECK_TYPES)
def test_a_check_type_of_another_version_is_refused_by_name(
    tmp_path: Path, minimal: str, name: str
) -> None:
    text = f"{minimal}invariants: {{a: {{description: d, gate: true, check: {{type: {name}}}}}}}\n"
    project = Project(tmp_path, load_registry())
    said = f"invariants.a.check: check type '{name}' is not in this version (types: "
    assert said not in project.refused(text)
    project.registry.check_types = Table("check type")
    assert (said in project.refused(text)) == (name not in ("contract", "trace"))


def test_an_unknown_check_type_is_told_with_the_nearest(project: Any, minimal: str) -> None:
    text = f"{minimal}invariants: {{a: {{description: d, check: {{type: contrat}}}}}}\n"
    assert "unknown check type 'contrat'" in project.refused(text)
    assert "try: write 'contract'" in project.refused(text)


def test_a_check_is_not_shown_whole_for_a_type_that_it_lacks(project: Any, minimal: str) -> None:
    body = "assert: {never: {type: tool_called}}"
    text = f"{minimal}invariants: {{a: {{description: d, check: {{{body}}}}}}}\n"
    expected = "invariants.a.check: required key 'type' is missing (types: "
    found = project.refused(text)
    assert found.partition(expected)[2].rpartition(")")[0].split(", ")[-1] == "trace"
    assert "tool_called" not in found


@pytest.mark.parametrize("key", ["user_input", "tools", "llm", "memory", "clock"])
def test_a_key_of_the_environment_in_a_case_is_told_where_it_belongs(
    project: Any, minimal: str, key: str
) -> None:
    found = project.refused(f"{minimal}cases: {{a: {{{key}: x}}}}\n")
    assert f"cases.a: unknown key (got '{key}'; it belongs under environment)" in found
    assert f"try: write 'environment: {{{key}: ...}}'" in found


# -- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("environment: {seed: 1.0}", "s.yaml:3:21: environment.seed: must be an integer (got 1.0)"),
        ("environment: {seed: true}", "s.yaml:3:21: environment.seed: must be an integer"),
        ("environment: {schedule: revers}", 'environment.schedule: is no schedule (got "revers"'),
        ("environment: {schedule: 'seed:-1'}", "environment.schedule: is no schedule"),
        ("environment: {clock: 2026-13-01T00:00:00Z}", "environment.clock: is no moment (month"),
        ("environment: {clock: 2026-01-01}", "environment.clock: must be a moment"),
        ("environment: {params: [1]}", "environment.params: must be a mapping (got [1])"),
        ("environment: {user_input: 3}", "environment.user_input: must be text (got 3)"),
        ("environment: [1]", "s.yaml:3:14: environment: must be a mapping (got [1])"),
        ("budget: {events: 0}", "budget.events: is too small (got 0; 1 or more)"),
        ("budget: {seconds: 0}", "budget.seconds: is out of range (got 0; more than 0"),
        ("budget: {loops: 1.5}", "budget.loops: must be an integer (got 1.5)"),
        ("tags: [a, a]", "tags: names 'a' twice"),
        ("tags: a", 'tags: must be a list (got "a")'),
        ("policy: {revision: ''}", "policy.revision: must not be empty"),
        ("secrets: [API-KEY]", "secrets[0]: must be the name of an environment variable"),
        ("invariants: [hard]", 'invariants: must be a mapping (got ["hard"]'),
        ("invariants: {hard: }", "invariants.hard: must be a mapping (got null)"),
        ("cases: {}", "s.yaml:3:8: cases: must not be empty"),
        ("cases: [a]", 's.yaml:3:8: cases: must be a mapping (got ["a"]'),
        ("cases: {a: }", "cases.a: must be a mapping (got null)\n  try: write 'a: {}'"),
        ("id: ''", "s.yaml:3:5: id: the id must not be empty"),
        ("id: 'a::b'", "id: the id holds '::'"),
        ('id: "a\\nb"', "id: the id holds a character that cannot be printed"),
    ],
)
def test_a_value_of_another_kind_is_refused(
    project: Any, minimal: str, line: str, message: str
) -> None:
    assert message in project.refused(f"{minimal}{line}\n")


@pytest.mark.parametrize("provider", ["gpt-4o", "paragon-md", "openai:gpt-4", "SIM:x", "sim:"])
def test_a_provider_that_is_not_simulated_is_refused_with_what_to_write(
    project: Any, minimal: str, provider: str
) -> None:
    found = project.refused(f"{minimal}environment: {{provider: '{provider}'}}\n")
    assert f"environment.provider: names no simulated model (got '{provider}'" in found
    assert "runs are simulated" in found
    assert "try: write 'sim:helpful-v1'" in found


def test_the_graphs_own_provider_is_held_to_the_same_rule(project: Any, minimal: str) -> None:
    graph = json.loads((project.root / "graphs/send.json").read_text())
    graph["params"]["provider"] = "gpt-4o"
    project.write("graphs/send.json", json.dumps(graph))
    found = project.refused(minimal)
    assert found.startswith("graphs/send.json:1:")
    assert "names no simulated model (got 'gpt-4o'" in found


def test_words_keep_their_text_on_the_way_into_the_run(project: Any, minimal: str) -> None:
    # YML-03: only the compiled case shows it, both sides of an assertion would be mangled alike.
    case = project.one(f"{minimal}environment: {{params: {{code: NO, active: on, grade: y}}}}\n")
    assert case.compiled.environment["params"] == {"code": "NO", "active": "on", "grade": "y"}


def test_a_bound_written_1e3_is_the_number_1000(project: Any, minimal: str) -> None:
    # YML-05
    case = project.one(
        f"{minimal}invariants: {{cap: {{description: d, check: {{type: trace, assert:"
        " {never: {type: tool_called, where: {args.amount: {gte: 1e3}}}}}}}\n"
    )
    item = next(item for item in case.items if item.id == "cap")
    assert item.definition is not None
    assert json.loads(c1.text(item.definition))["assert"] == {
        "never": {"type": "tool_called", "where": {"args.amount": {"gte": 1000.0}}}
    }


def test_written_numbers_have_a_canonical_text_everywhere(project: Any, minimal: str) -> None:
    case = project.one(
        f"{minimal}environment: {{params: {{x: 0.10, y: 1e3}}}}\n"
        "expect: {output: {length: {lte: 1e3}}}\n"
    )
    assert '"params":{"x":0.1,"y":1000.0}' in case.compiled.text
    for value in (case.merged, case.expect, *(item.as_record() for item in case.items)):
        assert json.loads(c1.text(value)) is not None


# -- references -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["graph", "fixture"])
def test_a_missing_file_is_named_with_the_line_that_refers_to_it(project: Any, key: str) -> None:
    graph = "nope.json" if key == "graph" else "graphs/send.json"
    text = f"evarness: 1\nsubject:\n  graph: {graph}\nenvironment:\n  fixture: nope.json\n"
    line = 3 if key == "graph" else 5
    assert f"s.yaml:{line}:" in project.refused(text)
    assert "no such file (got 'nope.json')" in project.refused(text)


@pytest.mark.parametrize(
    "path",
    ["../run-10/g.json", "sub/../../run-10/g.json", "/etc/hostname", "C:\\x.json", "~/g.json"],
)
def test_a_reference_stays_inside_the_root_by_path_components(
    tmp_path: Any, registry: Any, path: str, minimal: str, project: Any
) -> None:
    # FIL-02: the sibling's name begins with the root's name.
    root = tmp_path / "run-1"
    outside = tmp_path / "run-10"
    outside.mkdir()
    (outside / "g.json").write_text("{}", encoding="utf-8")
    inner = type(project)(root, registry)
    (root / "sub").mkdir()
    for text in (
        minimal.replace("graphs/send.json", f"'{path}'"),
        f"{minimal}environment: {{fixture: '{path}'}}\n",
        f"{minimal}cases: {{a: {{environment: {{fixture: '{path}'}}}}}}\n",
    ):
        found = inner.refused(text)
        assert "references stay inside the project's root directory" in found
        assert str(outside) not in found


def test_a_link_out_of_the_root_is_refused(tmp_path: Any, registry: Any, project: Any) -> None:
    root = tmp_path / "inside"
    inner = type(project)(root, registry)
    (tmp_path / "g.json").write_bytes((root / "graphs/send.json").read_bytes())
    (root / "link.json").symlink_to(tmp_path / "g.json")
    assert "leads outside (got 'link.json'" in inner.refused(
        "evarness: 1\nsubject: {graph: link.json}\n"
    )
    (root / "good.json").symlink_to(root / "graphs/send.json")  # the twin: a link inside
    assert inner.one("evarness: 1\nsubject: {graph: good.json}\n").id == "default"


def test_a_reference_resolves_against_the_scenario_file(project: Any, minimal: str) -> None:
    text = minimal.replace("graphs/", "../graphs/")
    (case,) = project.load(text, name="scenarios/s.yaml")
    assert case.scenario_path == "scenarios/s.yaml"
    assert ("graphs/send.json" in dict(case.subjects)) is True


def test_a_broken_graph_is_told_in_its_own_file(project: Any, minimal: str) -> None:
    project.write("graphs/send.json", '{"ir_version": 1,\n "id": "x",\n "nods": []}')
    found = project.refused(minimal)
    assert "graphs/send.json:3:2: unknown key (got 'nods'" in found
    assert "try: write 'nodes'" in found


def test_lint_errors_stop_the_load_at_the_graphs_line(project: Any, minimal: str) -> None:
    graph = json.loads((project.root / "graphs/send.json").read_text())
    graph["nodes"][2]["type"] = "aproval_gate"
    project.write("graphs/send.json", json.dumps(graph, indent=1))
    found = project.refused(minimal)
    assert found.startswith("graphs/send.json:")
    assert "unknown node type (got 'aproval_gate'" in found
    assert "[unknown_node_type]" in found
    assert "try: write 'approval_gate'" in found


def test_lint_warnings_come_with_the_case(project: Any, minimal: str) -> None:
    graph = json.loads((project.root / "graphs/send.json").read_text())
    graph["nodes"].append({"id": "n9", "type": "output_parser"})
    project.write("graphs/send.json", json.dumps(graph))
    case = project.one(minimal)
    assert any("[unconnected]" in warning and "n9" in warning for warning in case.warnings)


def test_a_graph_may_stand_in_the_scenario(project: Any) -> None:
    text = (
        "evarness: 1\n"
        "subject:\n"
        "  graph:\n"
        "    id: g\n"
        "    nodes:\n"
        "      - {id: a, type: input}\n"
        "      - {id: b, type: %s}\n"
        "    edges: [{from: a, to: b}]\n"
        "expect: {status: completed}\n"
        "cases: {one: {}, two: {subject: {graph: {params: {seed: 9}}}}}\n"
    )
    one, two = project.load(text % "output")
    assert (one.compiled.seed, two.compiled.seed) == (42, 9)
    found = project.refused(text % "outptu")
    assert found.startswith("s.yaml:7:23: subject.graph.nodes[1].type: unknown node type")


def test_a_pattern_brings_graph_and_fixture(project: Any, registry: Any) -> None:
    name = registry.patterns.names()[0]
    project.shelf.is_lenient = True
    case = project.one(f"evarness: 1\nsubject: {{graph: pattern:{name}}}\nexpect: {{}}\n")
    names = dict(case.subjects)
    assert f"pattern:{name}/graph.json" in names
    assert any(key.startswith(f"pattern:{name}/fixtures/") for key in names)
    assert case.compiled.fixture


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("pattern:single_shot_q", "unknown pattern (got 'single_shot_q'"),
        ("pattern:single_shot_qa/nope", "the pattern has no such fixture (got 'nope'"),
        ("pattern:single_shot_qa/", "the pattern has no such fixture (got ''"),
    ],
)
def test_a_pattern_that_is_not_there_is_refused(project: Any, reference: str, words: str) -> None:
    found = project.refused(f"evarness: 1\nsubject: {{graph: '{reference}'}}\n")
    assert found.startswith(f"s.yaml:2:18: subject.graph: {words}")


@pytest.mark.parametrize("graph", ["{}", "[]", "''", "null", "3"])
def test_an_empty_graph_is_no_graph(project: Any, graph: str) -> None:
    found = project.refused(f"evarness: 1\nsubject: {{graph: {graph}}}\nexpect: {{}}\n")
    assert found.startswith("s.yaml:2:18: subject.graph")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("graphs", "is no file (got 'graphs')"),
        ('"a\\0b"', "is no path (got "),
        ("s.yaml/x.json", "(got 's.yaml/x.json'"),
        (f"{'x' * 300}.json", "(got '"),
    ],
)
def test_a_reference_that_names_no_file_is_refused(
    project: Any, reference: str, words: str
) -> None:
    found = project.refused(f"evarness: 1\nsubject: {{graph: {reference}}}\n")
    assert found.startswith("s.yaml:2:18: subject.graph: ")
    assert words in found


def test_a_broken_overlay_is_told_once_with_its_layer(project: Any, minimal: str) -> None:
    project.write("tools.yaml", "tools:\n  - {id: x, saftey: {}}\n")
    found = project.refused(f"{minimal}cases: {{a: {{}}, b: {{}}}}\n")
    assert "tools" in found
    assert "saftey" in found
    assert found.count("unknown key") == 1


def test_overlays_in_force_are_listed_with_their_digests(project: Any, minimal: str) -> None:
    case = project.one(minimal)
    names = [(name, label) for name, label, digest in case.overlays_in_force if len(digest) == 64]
    assert any(name == "tools" for name, _ in names)
    assert str(project.root) not in repr(case.overlays_in_force)
    assert str(project.root) not in repr(case.subjects)


def test_a_graph_that_is_no_json_is_told_in_its_own_file(project: Any, minimal: str) -> None:
    project.write("graphs/send.json", "{'a': 1}")
    found = project.refused(f"{minimal}expect: {{status: done}}\n")
    assert "graphs/send.json:1:2: is no JSON" in found
    assert "s.yaml:3:18: expect.status" in found  # and the rest of the scenario all the same


def test_bodies_of_contracts_are_looked_at_although_the_graph_is_broken(
    project: Any, minimal: str
) -> None:
    project.write("graphs/send.json", "[]")
    found = project.refused(f"{minimal}{MISSPELT_RULE}\n")
    assert "graphs/send.json:1:1: a graph must be a mapping" in found
    assert "unknown key (got 'wher'" in found


def test_a_deprecated_contract_is_judged_with_a_warning(project: Any, minimal: str) -> None:
    case = project.one(f"{minimal}invariants: {{old: {{}}}}\n")
    assert case.warnings == ("contract 'old' is deprecated",)


def test_a_scenario_outside_the_root_is_named_from_the_root(
    tmp_path: Any, registry: Any, project: Any
) -> None:
    inner = type(project)(tmp_path / "root", registry)
    path = project.write("outside.yaml", "evarness: 1\nsubject: {graph: graphs/send.json}\n")
    with pytest.raises(
        InputError, match=r"^\.\./outside\.yaml:2:18: subject\.graph: leads outside"
    ):
        load_scenario(path, context=inner.context())


# -- ids that name nothing ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "expect: {nodes_run: [n33]}",
            "3:22: expect.nodes_run[0]: names no node of the graph (got 'n33'",
        ),
        ("expect: {nodes_not_run: [n33]}", "expect.nodes_not_run[0]: names no node of the graph"),
        (
            "expect: {nodes_run: [n4], nodes_not_run: [n4]}",
            "expect.nodes_not_run[0]: is to run and not to run (got 'n4'",
        ),
        (
            "invariants: {hard: {cases: [defalt]}}",
            "invariants.hard.cases[0]: names no case (got 'defalt'",
        ),
        ("environment: {approvals: {n4: approve}}", "environment.approvals"),
        ("environment: {approvals: {n3: aprove}}", "environment.approvals.n3"),
        ("environment: {user_input: {args.to}}", 'try: write "{args.to}" with quotes'),
        ("task: {prompt: {args.to}}", 'try: write "{args.to}" with quotes'),
        ("environment: {approvals: {n99: approve}}", "environment.approvals"),
    ],
)
def test_an_id_that_names_nothing_is_refused(
    project: Any, minimal: str, line: str, message: str
) -> None:
    assert message in project.refused(f"{minimal}{line}\n")


def test_waive_names_a_node_and_a_rule_that_it_breaks(project: Any) -> None:
    text = "evarness: 1\nsubject: {graph: graphs/send.json, waive: {%s: {rule: r, reason: why}}}\n"
    assert "subject.waive: names no node of the graph (got 'n33'" in project.refused(text % "n33")
    assert 'subject.waive.n4.rule: waives nothing (got "r"' in project.refused(text % "n4")


def test_a_waiver_gives_a_reason(project: Any) -> None:
    text = 'evarness: 1\nsubject: {graph: graphs/send.json, waive: {n4: {rule: r, reason: "%s"}}}\n'
    for blank in ("", " ", "\\t\\n"):
        assert "subject.waive.n4.reason" in project.refused(text % blank)
    # The twin: with a reason the next mistake is told.
    assert "subject.waive.n4.reason" not in project.refused(text % " why ")


def test_a_waived_lint_error_is_listed_with_its_reason(project: Any) -> None:
    graph = json.loads((project.root / "graphs/send.json").read_text())
    graph["edges"][1:3] = [{"from": "n2", "to": "n4"}, {"from": "n2", "to": "n3"}]
    project.write("graphs/send.json", json.dumps(graph))
    text = "evarness: 1\nsubject: {graph: graphs/send.json}\n"
    found = project.refused(text)
    code = found.split("[")[-1].split("]")[0]
    waive = f"waive: {{n4: {{rule: {code}, reason: a demo}}}}"
    case = project.one(text.replace("send.json", f"send.json, {waive}"))
    assert len(case.waived) == 1
    assert case.waived[0].startswith("n4: ")
    assert case.waived[0].endswith("accepted: a demo")


def test_a_forbidden_tool_that_nobody_declares_is_refused(project: Any, minimal: str) -> None:
    # TMP-02: nothing at run time could tell the slip from obedience.
    text = (
        f"{minimal}invariants: {{a: {{description: d, check: {{type: trace, assert:"
        " {never: {type: %s, where: {tool: %s}}}}}}\n"
    )
    assert "where.tool: unknown tool (got 'emial.send'" in project.refused(
        text % ("tool_called", "emial.send")
    )
    assert "unknown event type (got 'tool_caled'" in project.refused(
        text % ("tool_caled", "email.send")
    )
    assert project.one(text % ("tool_called", "email.send")).id == "default"


# -- nothing asserted (SCO-01) --------------------------------------------------------------------


def bare(project: Any) -> str:
    graph = json.loads((project.root / "graphs/send.json").read_text())
    graph["params"]["invariants"] = []
    project.write("graphs/bare.json", json.dumps(graph))
    return "evarness: 1\nsubject: {graph: graphs/bare.json}\n"


@pytest.mark.parametrize("line", ["", "invariants: {}\n", "invariants: {hard: {cases: [other]}}\n"])
def test_a_case_that_asserts_nothing_is_refused(project: Any, line: str) -> None:
    text = f"{bare(project)}{line}cases:\n  other: {{expect: {{status: blocked}}}}\n  empty: {{}}\n"
    found = project.refused(text)
    assert "cases.empty: case 'empty' asserts nothing" in found
    assert "'other'" not in found


@pytest.mark.parametrize(
    "expect", ["{}", "{nodes_run: []}", "{nodes_not_run: []}", "{nodes_run: [], nodes_not_run: []}"]
)
def test_an_expectation_that_says_nothing_asserts_nothing(project: Any, expect: str) -> None:
    found = project.refused(f"{bare(project)}expect: {expect}\n")
    assert "case 'default' asserts nothing" in found
    case = project.one(f"{bare(project)}expect: {expect}\ninvariants: {{hard: {{}}}}\n")
    (item,) = [item for item in case.items if item.id == "expect"]
    assert not item.written
    assert item.definition["status"] == "completed"  # it is judged all the same


def test_a_draft_alone_asserts_nothing(project: Any) -> None:
    assert "case 'default' asserts nothing" in project.refused(
        f"{bare(project)}invariants: {{draft: {{}}}}\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "expect: {status: completed}\n",
        "expect: {output: {contains: x}}\n",
        "expect: {nodes_run: [n4]}\n",
        "expect: {nodes_not_run: [n4]}\n",
        "invariants: {hard: {}}\n",
        "invariants: {soft: {}}\n",
    ],
)
def test_an_expectation_or_an_invariant_is_enough(project: Any, line: str) -> None:
    assert project.one(bare(project) + line).id == "default"


# -- python, session ------------------------------------------------------------------------------


def test_a_mapping_from_python_compiles_like_a_file(project: Any) -> None:
    value = {
        "subject": {"graph": "graphs/send.json"},
        "environment": {"params": {"rate": 0.1}, "approvals": {"n3": "approve"}},
        "expect": {"nodes_run": ("n4",)},
    }
    (case,) = compile_mapping(value, context=project.context(), beside=project.root)
    assert (case.scenario_id, case.scenario_path, case.line) == ("inline", "", 1)
    assert case.expect["nodes_run"] == ["n4"]
    assert "evarness" not in value  # the caller's mapping is left alone


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"subject": {"graph": {1: 2}}}, "subject.graph"),
        ({"environment": {"params": {"x": float("nan")}}}, "environment.params.x"),
        ({"subject": {"graph": "graphs/send.json"}, "expect": {"status": "done"}}, "expect.status"),
        ([], "must be a mapping"),
    ],
)
def test_a_mapping_that_no_file_could_hold_is_refused(project: Any, value: Any, words: str) -> None:
    with pytest.raises(Exception, match=words) as caught:
        compile_mapping(value, context=project.context())
    assert type(caught.value).__module__ == "pytest_evarness.errors"


def test_the_mode_of_the_session_wins(project: Any, minimal: str) -> None:
    assert project.one(f"{minimal}mode: exploratory\n").mode == "exploratory"
    assert project.one(minimal, mode="exploratory").mode == "exploratory"


def test_a_file_with_very_many_mistakes_stops_early(project: Any, minimal: str) -> None:
    cases = "".join(f"  c{number}: {{expect: {{status: s{number}}}}}\n" for number in range(2_000))
    with pytest.raises(InputErrors) as caught:
        project.load(f"{minimal}cases:\n{cases}")
    assert 100 <= len(caught.value.errors) <= 250


def test_one_mistake_shared_by_many_cases_is_told_once(project: Any, minimal: str) -> None:
    cases = "".join(f"  c{number}: {{seed: {number}}}\n" for number in range(50))
    found = project.refused(f"{minimal}expect: {{status: done}}\ncases:\n{cases}")
    assert found.count("expect.status") == 1


@pytest.mark.parametrize("value", ["null", "1", "x", "{a: 1}"])
@pytest.mark.parametrize("key", ["required", "properties", "allOf", "$defs"])
def test_a_manifest_with_a_broken_schema_is_told_and_nothing_stumbles_over_it(
    project: Any, minimal: str, key: str, value: str
) -> None:
    if (key, value) in (("properties", "{a: 1}"), ("$defs", "{a: 1}")):
        value = "{a: null}"
    project.write(
        "tools.yaml",
        "tools: [{id: email.send, safety: {side_effects: write},"
        f" args: {{type: object, {key}: {value}}}}}]\n",
    )
    found = project.refused(
        f"{minimal}invariants: {{a: {{description: d, check: {{type: trace, assert:"
        " {never: {type: tool_called, where: {args.to: x}}}}}}\n"
    )
    assert "is no JSON Schema of 2020-12" in found

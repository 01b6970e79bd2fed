"""What a case is judged by is fixed before it runs, in the order in which it is shown."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_evarness.core.plan import PlannedItem


TRACE = "{type: trace, assert: {never: {type: policy_violation}}}"


def by_id(case: Any) -> dict[str, PlannedItem]:
    return {item.id: item for item in case.items}


def test_items_stand_in_the_order_of_the_verdicts_page(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}"
        "environment:\n"
        "  attacks:\n"
        "    - {kind: x, via: user_turn, expect: {policy_violation: false, blocked_before: tool}}\n"
        "invariants:\n"
        f"  zeta: {{description: d, weight: 0.3, check: {TRACE}}}\n"
        "  hard: {}\n"
        f"  alpha: {{description: d, check: {TRACE}}}\n"
        "scoring: {pass_threshold: 0.85}\n"
    )
    case = project.one(text)
    assert [item.id for item in case.items] == [
        "reproduces",
        "expect",
        "zeta",
        "hard",
        "alpha",
        "attack-0-policy_violation",
        "attack-0-blocked_before",
        "no-call-after-block",
        "score",
    ]
    assert [item.kind for item in case.items] == [
        "reproduces", "expect", "trace", "contract", "trace", "trace", "trace", "contract", "score",
    ]  # fmt: skip


def test_every_item_has_the_line_of_what_it_judges(project: Any, minimal: str) -> None:
    graph = json.loads((project.root / "graphs/send.json").read_text())
    project.write("graphs/send.json", json.dumps(graph, indent=1))
    text = (
        f"{minimal}"
        "invariants:\n"
        "  hard: {}\n"
        "  soft: {}\n"
        "cases:\n"
        "  a: {}\n"
        "  b:\n"
        "    expect: {}\n"
        "scoring:\n"
        "  pass_threshold: 0.5\n"
    )
    text = text.replace("hard: {}", "hard: {weight: 1}")
    one, two = project.load(text)
    lines = {item.id: (item.path, item.line) for item in one.items}
    assert lines["reproduces"] == lines["expect"] == ("s.yaml", 7)
    assert lines["hard"] == ("s.yaml", 4)
    assert lines["soft"] == ("s.yaml", 5)
    assert lines["score"] == ("s.yaml", 11)
    path, line = lines["no-call-after-block"]
    assert path == "graphs/send.json"
    graph_lines = (project.root / "graphs/send.json").read_text().splitlines()
    assert "no-call-after-block" in graph_lines[line - 1]
    assert by_id(two)["expect"].line == 9
    assert by_id(two)["reproduces"].line == two.line == 8


def test_defaults_of_a_contract_are_its_own(project: Any, minimal: str) -> None:
    item = by_id(project.one(f"{minimal}invariants: {{strict: {{}}}}\n"))["strict"]
    assert (item.gate, item.decides) == (True, True)
    assert item.weight == 0
    assert (item.severity.value, item.vacuous, item.version) == ("critical", "indeterminate", 1)
    assert item.enforced_by == ("approval_gate",)
    assert item.definition is not None
    assert item.definition["id"] == "strict"


def test_defaults_of_a_trace_check(project: Any, minimal: str) -> None:
    text = f"{minimal}invariants: {{a: {{description: d, check: {TRACE}}}}}\n"
    item = by_id(project.one(text))["a"]
    assert (item.kind, item.gate, item.decides) == ("trace", False, True)
    assert item.weight == 1
    assert (item.severity.value, item.vacuous, item.version) == ("major", "pass", None)
    assert item.untested
    assert item.description == "d"


def test_a_written_entry_changes_what_it_may(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}invariants:\n"
        "  soft: {gate: true, weight: 0.25, severity: minor, vacuous: fail,"
        " enforced_by: [manifest], description: mine}\n"
    )
    item = by_id(project.one(text))["soft"]
    assert (item.gate, item.weight, item.severity.value) == (True, Fraction(1, 4), "minor")
    assert (item.vacuous, item.enforced_by, item.description) == ("fail", ("manifest",), "mine")


def test_the_long_form_of_a_contract_means_the_short_one(project: Any, minimal: str) -> None:
    text = f"{minimal}invariants: {{mine: {{check: {{type: contract, id: hard}}}}}}\n"
    item = by_id(project.one(text))["mine"]
    assert (item.kind, item.gate, item.version) == ("contract", True, 1)
    assert item.weight == 0
    assert item.definition is not None
    assert item.definition["id"] == "hard"


def test_a_contract_of_entry_and_graph_is_one_item_at_the_entrys_place(
    project: Any, minimal: str
) -> None:
    text = f"{minimal}invariants: {{no-call-after-block: {{weight: 1}}, hard: {{}}}}\n"
    case = project.one(text)
    assert [item.id for item in case.items][2:] == ["no-call-after-block", "hard"]
    assert case.items[2].weight == 1
    renamed = (
        f"{minimal}invariants: {{x: {{check: {{type: contract, id: no-call-after-block}}}}}}\n"
    )
    assert [item.id for item in project.one(renamed).items][2:] == ["x"]


def test_an_entry_of_other_cases_leaves_the_graphs_contract_alone(
    project: Any, minimal: str
) -> None:
    one, two = project.load(
        f"{minimal}invariants: {{no-call-after-block: {{cases: [a]}}, hard: {{}}}}\n"
        "cases: {a: {}, b: {}}\n"
    )
    assert [item.id for item in one.items][2:] == ["no-call-after-block", "hard"]
    assert [item.id for item in two.items][2:] == ["hard", "no-call-after-block"]


def test_cases_of_an_entry_count_before_the_matrix(project: Any, minimal: str) -> None:
    cases = project.load(
        f"{minimal}invariants: {{hard: {{cases: [a]}}}}\ncases: {{a: {{}}, b: {{}}}}\n"
        "matrix: {seed: [1, 2]}\n"
    )
    assert [case.id for case in cases if "hard" in by_id(case)] == ["a.seed-1", "a.seed-2"]


# -- hardness ----------------------------------------------------------------------------------


def test_a_hard_contract_cannot_be_softened(project: Any, minimal: str) -> None:
    found = project.refused(f"{minimal}invariants: {{hard: {{gate: false}}}}\n")
    assert found.startswith(
        "s.yaml:3:27: invariants.hard.gate: a contract that is hard in its library cannot be"
        " softened (got false; "
    )
    found = project.refused(f"{minimal}invariants: {{strict: {{vacuous: pass}}}}\n")
    assert "invariants.strict.vacuous: a contract that is hard in its library" in found


def test_a_case_cannot_soften_one_either(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}invariants: {{hard: {{}}}}\n"
        "cases: {a: {invariants: {hard: {gate: false}}}}\n"
    )
    assert project.refused(text).startswith("s.yaml:4:39: cases.a.invariants.hard.gate: a contract")


def test_a_soft_contract_may_be_made_hard_and_a_hard_one_may_say_so(
    project: Any, minimal: str
) -> None:
    items = by_id(
        project.one(f"{minimal}invariants: {{soft: {{gate: true}}, hard: {{gate: true}}}}\n")
    )
    assert items["soft"].gate
    assert items["hard"].gate


def test_a_draft_is_no_gate_and_decides_nothing(project: Any, minimal: str) -> None:
    item = by_id(project.one(f"{minimal}invariants: {{draft: {{weight: 1}}}}\n"))["draft"]
    assert (item.gate, item.decides, item.informational) == (False, False, True)
    assert item.weight == 0
    found = project.refused(f"{minimal}invariants: {{draft: {{gate: true}}}}\n")
    assert "invariants.draft.gate: a draft cannot be a gate (got true)" in found


def test_a_trace_check_needs_a_description(project: Any, minimal: str) -> None:
    found = project.refused(f"{minimal}invariants: {{a: {{check: {TRACE}}}}}\n")
    assert found == (
        "s.yaml:3:17: invariants.a: required key 'description' is missing"
        " (one sentence beside every check)"
    )


@pytest.mark.parametrize(
    "name", ["reproduces", "expect", "replicas", "score", "load", "forbidden-x"]
)
def test_reserved_ids_are_refused(project: Any, minimal: str, name: str) -> None:
    found = project.refused(f"{minimal}invariants: {{{name}: {{}}}}\n")
    assert found.startswith("s.yaml:3:14: invariants: the id is reserved (")


def test_an_invariants_id_may_be_any_printable_text(project: Any, minimal: str) -> None:
    text = f"{minimal}invariants: {{'sent once, é [1]': {{description: d, check: {TRACE}}}}}\n"
    assert "sent once, é [1]" in by_id(project.one(text))
    for bad in ('"a\\nb"', '"a::b"', '""', f'"{"x" * 201}"'):
        text = f"{minimal}invariants: {{{bad}: {{description: d, check: {TRACE}}}}}\n"
        assert "invariants: the id " in project.refused(text)


def test_two_items_with_one_id_are_refused(project: Any, minimal: str) -> None:
    text = f"{minimal}invariants: {{no-call-after-block: {{description: d, check: {TRACE}}}}}\n"
    assert project.refused(text).startswith(
        "s.yaml:3:14: invariants: two items have one id (got 'no-call-after-block'"
    )


def test_an_unknown_contract_of_the_graph_is_told_at_the_graphs_line(
    project: Any, minimal: str
) -> None:
    graph = json.loads((project.root / "graphs/send.json").read_text())
    graph["params"]["invariants"] = ["hrad"]
    project.write("graphs/send.json", json.dumps(graph))
    found = project.refused(minimal)
    assert found.startswith("graphs/send.json:1:")
    assert "params.invariants: unknown contract (got 'hrad')" in found


# -- label -------------------------------------------------------------------------------------


def test_the_label_is_preventive_where_every_named_enforcement_is_active(
    project: Any, minimal: str
) -> None:
    text = f"{minimal}invariants: {{strict: {{}}, hard: {{}}, soft: {{enforced_by: [sandbox]}}}}\n"
    items = by_id(project.one(text))
    assert items["strict"].label == "preventive"  # the graph has an approval gate
    assert items["hard"].label == "detection-only"  # it names none
    assert items["soft"].label == "detection-only"
    found = project.refused(f"{minimal}invariants: {{hard: {{enforced_by: [aproval_gate]}}}}\n")
    assert "invariants.hard.enforced_by[0]: must be approval_gate, manifest" in found
    assert "try: write 'approval_gate'" in found


# -- expectation -------------------------------------------------------------------------------


def test_an_unwritten_expectation_is_completed_and_says_so(project: Any, minimal: str) -> None:
    item = by_id(project.one(minimal))["expect"]
    assert item.definition == {
        "status": "completed", "nodes_run": [], "nodes_not_run": [], "written": False,
    }  # fmt: skip
    assert (item.written, item.gate) == (False, True)
    assert item.weight == 0


def test_a_written_expectation_is_normalised(project: Any, minimal: str) -> None:
    text = f"{minimal}expect: {{output: {{contains: x}}, nodes_run: [n4]}}\n"
    item = by_id(project.one(text))["expect"]
    assert item.definition == {
        "status": "completed",
        "output": {"contains": "x"},
        "nodes_run": ["n4"],
        "nodes_not_run": [],
        "written": True,
    }
    assert item.written


@pytest.mark.parametrize("status", ["unscripted", "unfinished", "done", "3"])
def test_only_an_end_that_can_be_declared_is_accepted(
    project: Any, minimal: str, status: str
) -> None:
    found = project.refused(f"{minimal}expect: {{status: {status}}}\n")
    assert "expect.status: must be completed, blocked, paused or failed (got " in found


@pytest.mark.parametrize("matcher", ["{contans: x}", "{gt: '2'}", "{pattern: '('}", "{}"])
def test_an_output_without_a_real_matcher_is_refused(
    project: Any, minimal: str, matcher: str
) -> None:
    assert "expect.output" in project.refused(f"{minimal}expect: {{output: {matcher}}}\n")


# -- weights and thresholds (SCO-02) -----------------------------------------------------------


def weighted(weights: list[str], threshold: str = "0.5") -> str:
    rows = "".join(
        f"  w{index}: {{description: d, weight: {weight}, check: {TRACE}}}\n"
        for index, weight in enumerate(weights)
    )
    return f"invariants:\n{rows}scoring: {{pass_threshold: {threshold}}}\n"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (["0", "0"], "the weights of case 'default' sum to 0"),
        (["1", "-1"], "invariants.w1.weight: is too small (got -1; 0 or more)"),
        ([".nan", "1"], "invariants.w0.weight: must be a finite number (got '.nan')"),
        ([".inf", "1"], "invariants.w0.weight: must be a finite number (got '.inf')"),
        (['"2"', "1"], 'invariants.w0.weight: must be a number (got "2")'),
        (["true", "1"], "invariants.w0.weight: must be a number (got true)"),
        (["null", "1"], "invariants.w0.weight: must be a number (got null)"),
    ],
)
def test_weights_that_cannot_be_summed_are_refused(
    project: Any, minimal: str, weights: list[str], message: str
) -> None:
    assert message in project.refused(minimal + weighted(weights))


def test_weights_and_threshold_are_exact(project: Any, minimal: str) -> None:
    case = project.one(minimal + weighted(["0.7", "0.1", "0.2"], "0.8"))
    weights = [item.weight for item in case.items if item.kind == "trace"]
    assert sum(weights[:2]) / sum(weights) == case.threshold == Fraction(4, 5)
    assert (0.7 + 0.1) / (0.7 + 0.1 + 0.2) != 0.8  # the twin: floats miss it


def test_a_zero_weight_beside_a_threshold_is_informational(project: Any, minimal: str) -> None:
    items = by_id(project.one(minimal + weighted(["0", "1"])))
    assert items["w0"].informational
    assert not items["w0"].decides
    assert not items["w1"].informational
    assert not items["w1"].decides
    assert items["score"].decides
    assert not items["score"].gate


def test_without_a_threshold_every_invariant_decides(project: Any, minimal: str) -> None:
    text = f"{minimal}invariants: {{a: {{description: d, weight: 0, check: {TRACE}}}}}\n"
    item = by_id(project.one(text))["a"]
    assert item.decides
    assert not item.informational
    assert "score" not in by_id(project.one(text))


@pytest.mark.parametrize("threshold", ["-0.1", "1.01", '"0.5"', "true", "null", "[1]"])
def test_a_threshold_lies_between_0_and_1(project: Any, minimal: str, threshold: str) -> None:
    assert "scoring.pass_threshold" in project.refused(minimal + weighted(["1"], threshold))


def test_the_weights_of_each_case_are_summed_for_itself(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}{weighted(['1'])}"
        "cases: {a: {}, b: {invariants: {w0: null, hard: {}}}}\n"
        "matrix: {seed: [1, 2]}\n"
    )
    found = project.refused(text)
    assert found.count("sum to 0") == 1
    assert "the weights of case 'b' sum to 0" in found


def test_a_case_without_weights_is_told_to_leave_the_threshold_to_the_others(
    project: Any, minimal: str
) -> None:
    entry = "{cases: [a], description: d, check: {type: trace, assert: {never: {type: llm_error}}}}"
    start = f"{minimal}expect: {{}}\ninvariants: {{w: {entry}}}\n"
    found = project.refused(
        f"{start}scoring: {{pass_threshold: 0.5}}\ncases: {{a: {{}}, b: {{}}}}\n"
    )
    assert "the weights of case 'b' sum to 0" in found
    assert "try: set it where something is weighed: cases: {a: {scoring: {pass_threshold: " in found
    advised = f"{start}cases: {{a: {{scoring: {{pass_threshold: 0.5}}}}, b: {{}}}}\n"
    a, b = project.load(advised)
    assert (a.threshold, b.threshold) == (Fraction(1, 2), None)
    alone = project.refused(
        f"{start}scoring: {{pass_threshold: 0.5}}\ncases: {{b: {{}}}}\n".replace(
            "cases: [a]", "weight: 0"
        )
    )
    assert "try: give an invariant a weight, or remove 'pass_threshold'" in alone


# -- what would be judged nowhere, or less hard than it reads --------------------------------------

NO_CALL = "description: d, check: {type: trace, assert: {never: {type: tool_called}}}"


def test_an_entry_of_no_case_is_refused(project: Any, minimal: str) -> None:
    for entry in ("hard: {cases: []}", f"x: {{{NO_CALL}, cases: []}}"):
        found = project.refused(f"{minimal}invariants: {{{entry}}}\n")
        assert ".cases: must not be empty (got [])" in found


@pytest.mark.parametrize(
    "lines",
    [
        "cases: {a: {invariants: {x: null}}}\n",
        "cases: {a: {invariants: null}, b: {invariants: {x: null}}}\n",
        "matrix: {invariants.x: [null], seed: [1, 2]}\n",
        "cases: {a: {}, b: {}}\nmatrix: {invariants.x: [null]}\n",
    ],
)
def test_an_invariant_that_no_case_is_judged_by_is_refused(
    project: Any, minimal: str, lines: str
) -> None:
    found = project.refused(f"{minimal}invariants:\n  x: {{{NO_CALL}}}\n{lines}")
    assert found.startswith("s.yaml:4:3: invariants: no case is judged by it (got 'x'; ")


def test_an_invariant_that_one_case_is_judged_by_may_be_taken_from_others(
    project: Any, minimal: str
) -> None:
    text = f"{minimal}invariants: {{x: {{{NO_CALL}}}}}\n"
    cases = project.load(f"{text}cases: {{a: {{}}, b: {{invariants: {{x: null}}}}}}\n")
    assert ["x" in by_id(case) for case in cases] == [True, False]
    cases = project.load(f"{text}matrix: {{invariants.x: [null, {{gate: true}}]}}\n")
    assert ["x" in by_id(case) for case in cases] == [False, True]


def test_an_invariant_of_a_case_that_its_points_take_away_is_refused(
    project: Any, minimal: str
) -> None:
    lines = f"cases:\n  a: {{invariants: {{x: {{{NO_CALL}}}}}}}\n"
    found = project.refused(f"{minimal}{lines}matrix: {{invariants.x: [null]}}\n")
    assert found.startswith("s.yaml:4:20: cases.a.invariants: the case is not judged by it")
    lines += "  b: {}\n"
    assert len(project.load(f"{minimal}{lines}")) == 2


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (
            "cases: {a: {invariants: {x: {gate: false}}}}\n",
            "s.yaml:4:36: cases.a.invariants.x.gate",
        ),
        ("cases: {a: {invariants: {x: {gate: null}}}}\n", "s.yaml:4:29: cases.a.invariants.x"),
        ("matrix: {invariants.x.gate: [true, false]}\n", "s.yaml:4:36: invariants.x.gate"),
        ("matrix: {invariants.x.gate: [null]}\n", "s.yaml:3:"),
    ],
)
def test_a_gate_of_the_scenario_cannot_be_softened(
    project: Any, minimal: str, lines: str, place: str
) -> None:
    text = f"{minimal}invariants: {{x: {{gate: true, {NO_CALL}}}}}\n"
    found = project.refused(text + lines)
    assert found.startswith(place)
    assert ": a gate of a lower layer cannot be softened (got false; " in found
    # The twins: as it is, and where the scenario declares no gate.
    assert by_id(project.one(text))["x"].gate
    assert len(project.load(text.replace("gate: true, ", "gate: false, ") + lines)) >= 1


def test_a_gate_of_a_case_cannot_be_softened_by_a_point(project: Any, minimal: str) -> None:
    text = f"{minimal}cases: {{a: {{invariants: {{x: {{gate: true, {NO_CALL}}}}}}}}}\n"
    found = project.refused(text + "matrix: {invariants.x.gate: [false]}\n")
    assert "a gate of a lower layer cannot be softened" in found


@pytest.mark.parametrize(
    "lines",
    [
        "cases: {a: {invariants: {x: {check: {assert: {at_most: {n: 99}}}}}}}\n",
        "matrix: {invariants.x.check.assert.at_most.n: [99]}\n",
    ],
)
def test_a_gate_of_the_scenario_keeps_its_check(project: Any, minimal: str, lines: str) -> None:
    check = "check: {type: trace, assert: {at_most: {n: 1, of: {type: run_finished}}}}"
    text = f"{minimal}invariants: {{x: {{description: d, gate: true, {check}}}}}\n"
    assert "a gate of the scenario keeps its check" in project.refused(text + lines)
    # The twins: an equal value, and an invariant that is no gate.
    assert by_id(project.one(text + lines.replace("99", "1")))["x"].gate
    assert len(project.load(text.replace("gate: true, ", "") + lines)) >= 1


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (
            "cases: {a: {invariants: {x: {cases: [b]}}}, b: {}}\n",
            "s.yaml:4:37: cases.a.invariants.x.cases: ",
        ),
        (
            "cases: {a: {invariants: {x: {cases: null}}}, b: {}}\n",
            "s.yaml:4:29: cases.a.invariants.x",
        ),
        ("cases: {a: {}, b: {}}\nmatrix: {invariants.x.cases: [[b]]}\n", "s.yaml:5:"),
        (
            f"cases: {{a: {{invariants: {{y: {{cases: [a], {NO_CALL}}}}}}}, b: {{}}}}\n",
            "s.yaml:4:37: cases.a.invariants.y.cases: ",
        ),
    ],
)
def test_a_case_does_not_let_itself_out_of_an_invariant(
    project: Any, minimal: str, lines: str, place: str
) -> None:
    text = f"{minimal}invariants: {{x: {{gate: true, cases: [a, b], {NO_CALL}}}}}\n"
    found = project.refused(text + lines)
    assert found.startswith(place)
    assert "stands in the scenario alone" in found
    assert "null" in found
    # The twin: the scenario says it, or the case takes the whole invariant away.
    both = "cases: {a: {}, b: {}}\n"
    first, second = project.load(text.replace("[a, b]", "[b]") + both)
    assert ["x" in by_id(case) for case in (first, second)] == [False, True]
    away = "cases: {a: {expect: {status: completed}, invariants: {x: null}}, b: {}}\n"
    first, second = project.load(text + away)
    assert ["x" in by_id(case) for case in (first, second)] == [False, True]


def test_a_soft_contract_that_the_scenario_makes_hard_stays_so(project: Any, minimal: str) -> None:
    text = f"{minimal}invariants: {{soft: {{gate: true}}}}\n"
    found = project.refused(text + "cases: {a: {invariants: {soft: {gate: false}}}}\n")
    assert "a gate of a lower layer cannot be softened" in found


def test_what_a_vacuous_pass_of_a_gate_counts_as_cannot_be_weakened(
    project: Any, minimal: str
) -> None:
    text = f"{minimal}invariants: {{x: {{gate: true, vacuous: fail, {NO_CALL}}}}}\n"
    found = project.refused(text + "cases: {a: {invariants: {x: {vacuous: pass}}}}\n")
    assert found.startswith("s.yaml:4:39: cases.a.invariants.x.vacuous: a gate of a lower layer")
    text = text.replace("vacuous: fail", "vacuous: pass")
    case = project.one(text + "cases: {a: {invariants: {x: {vacuous: fail}}}}\n")
    assert by_id(case)["x"].vacuous == "fail"


@pytest.mark.parametrize("value", ["1", "true", "1.5", "[[]]", "x"])
def test_invariants_that_are_no_mapping_are_refused(project: Any, minimal: str, value: str) -> None:
    found = project.refused(f"{minimal}invariants: {value}\n")
    assert "invariants: must be a mapping (got " in found
    found = project.refused(f"{minimal}cases: {{a: {{invariants: {value}}}}}\n")
    assert "invariants: must be a mapping (got " in found


def test_cases_share_the_items_that_are_equal_and_no_others(project: Any, minimal: str) -> None:
    text = (
        f"{minimal}"
        f"invariants: {{own: {{description: d, check: {TRACE}}}}}\n"
        "cases: {a: {}, b: {}, c: {expect: {nodes_run: [n7]}, invariants: {own: {gate: true}}}}\n"
    )
    a, b, c = (by_id(case) for case in project.load(text))
    assert all(a[name] is b[name] for name in a)
    assert c["expect"].definition != a["expect"].definition
    assert (a["own"].gate, c["own"].gate) == (False, True)


def test_items_of_cases_on_lines_of_their_own_keep_their_lines(project: Any, minimal: str) -> None:
    a, b = (by_id(case) for case in project.load(f"{minimal}cases:\n  a: {{}}\n  b: {{}}\n"))
    assert a["reproduces"].line + 1 == b["reproduces"].line
    assert a["expect"].definition is b["expect"].definition

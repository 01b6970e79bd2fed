"""A scripted judge says what it was given, in the grammar of every other script."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from pytest_evarness.core.interfaces import AbstainedError, Question
from pytest_evarness.core.outcome import Cause
from pytest_evarness.domains.agents.judge import SimJudge, answer_text
from tests.domains.agents import harness as h

JUDGE = SimJudge()


class Case:
    """The judges of one case, asked one after the other."""

    def __init__(self, **environment: Any) -> None:
        parsed, faults = h.parse_environment(environment)
        assert faults == [], [fault.text for fault in faults]
        self.environment: dict[str, Any] = {"provider": "sim:helpful-v1", **parsed}
        self.kept: dict[str, Any] = {}

    def ask(self, judged: str = "Dear all", *dimensions: str, **more: Any) -> str:
        model = more.pop("model", "sim")
        question = Question(
            judge=more.pop("judge", model),
            model=model,
            instructions="criteria that no rule looks at",
            evidence="evidence that no rule looks at",
            judged=judged,
            dimensions=dimensions,
            temperature=0.0,
            seconds=30.0,
            environment=self.environment,
            kept=self.kept,
        )
        return JUDGE.ask(question)

    def says(self, *words: Any, **more: Any) -> Any:
        return json.loads(self.ask(*words, **more))

    def abstains(self, *words: Any, **more: Any) -> tuple[Cause, str]:
        with pytest.raises(AbstainedError) as abstained:
            self.ask(*words, **more)
        return abstained.value.cause, abstained.value.reason

    @property
    def leftovers(self) -> list[str]:
        return JUDGE.leftovers(self.kept)


def test_it_is_registered_by_the_domain() -> None:
    assert isinstance(h.registry().judges.find("sim"), SimJudge)


@pytest.mark.parametrize(("model", "is_one"), [("sim", True), ("sim:a-b.1", True), ("sim:", False)])
def test_its_names(model: str, is_one: bool) -> None:
    assert (JUDGE.faults(model) == []) is is_one


def test_a_plain_rule_repeats_and_a_raw_answer_is_given_as_it_stands() -> None:
    case = Case(judge=[{"respond": {"text": "Sure!"}}])
    assert [case.ask() for _ in range(3)] == ["Sure!"] * 3
    assert case.leftovers == []


def test_rules_with_equal_match_are_used_one_after_the_other() -> None:
    case = Case(judge=[{"scores": {"score": 0.1}}, {"scores": {"score": 0.9}, "times": 2}])
    assert [case.says()["score"] for _ in range(3)] == [0.1, 0.9, 0.9]
    assert case.abstains() == (
        Cause.MISSING_EVIDENCE,
        "3 answers scripted, question 4 asked, script judge",
    )


def test_times_any_never_runs_out() -> None:
    case = Case(judge=[{"scores": {"score": 0.1}}, {"scores": {"score": 0.9}, "times": "any"}])
    assert [case.says()["score"] for _ in range(4)] == [0.1, 0.9, 0.9, 0.9]


@pytest.mark.parametrize(
    ("match", "judged", "is_met"),
    [
        ({"contains": "DEAR"}, "Dear all", True),
        ({"contains": "criteria"}, "Dear all", False),
        ({"query_contains": "all"}, "Dear all", True),
        ({"equals": "dear all"}, "Dear all", True),
        ({"equals": "dear"}, "Dear all", False),
        ({"pattern": "^dear .*l$"}, "Dear all", True),
        ({"turn": 1}, "x", True),
        ({"turn": 2}, "x", False),
        ({"params": {"tier": "pro"}}, "x", True),
        ({"params": {"tier": "free"}}, "x", False),
        ({"provider": "sim:helpful-v1"}, "x", True),
        ({"provider": "sim:strict"}, "x", False),
    ],
)
def test_a_rule_looks_at_the_judged_text(match: Any, judged: str, is_met: bool) -> None:
    case = Case(judge=[{"match": match, "scores": {"score": 1}}])
    case.environment["params"] = {"tier": "pro"}
    if is_met:
        assert case.says(judged) == {"score": 1}
    else:
        cause, why = case.abstains(judged)
        assert cause is Cause.MISSING_EVIDENCE
        assert why.startswith("no rule of judge matches call 1; 1 rule did not match: ")


def test_a_rule_that_scores_something_else_is_told_as_that() -> None:
    case = Case(judge=[{"match": {"contains": "x"}, "scores": {"tone": 0.9}}])
    assert case.abstains("xyz")[1] == (
        "no rule of judge matches call 1; 1 rule did not match: contains 'x'"
        " (scores tone, asked for score)"
    )
    other = Case(judge=[{"match": {"contains": "q"}, "scores": {"score": 0.9}}])
    assert other.abstains("xyz")[1].endswith("did not match: contains 'q'")


def test_judges_of_one_panel_are_told_apart_by_their_model() -> None:
    case = Case(
        judge=[
            {"match": {"provider": "sim:kind"}, "scores": {"score": 0.9}},
            {"match": {"provider": "sim:strict"}, "scores": {"score": 0.2}},
        ]
    )
    assert case.says(model="sim:strict")["score"] == 0.2
    assert case.says(model="sim:kind")["score"] == 0.9
    assert case.abstains(model="sim")[0] is Cause.MISSING_EVIDENCE


def test_a_rule_answers_what_it_has_scores_for() -> None:
    case = Case(judge=[{"scores": {"tone": 0.8}}, {"scores": {"accuracy": 0.4}}])
    assert case.says("x", "accuracy") == {"score": 0.4, "scores": {"accuracy": 0.4}}
    assert case.says("x", "tone") == {"score": 0.8, "scores": {"tone": 0.8}}


def test_defaults_stand_in_where_no_rule_is_left_and_where_one_is_silent() -> None:
    case = Case(
        judge=[{"match": {"contains": "rude"}, "scores": {"tone": 0.1}}],
        default_judge_scores={"tone": 0.9, "accuracy": 0.7},
    )
    assert case.says("a rude text", "tone", "accuracy")["scores"] == {"tone": 0.1, "accuracy": 0.7}
    assert case.says("a kind text", "tone", "accuracy")["scores"] == {"tone": 0.9, "accuracy": 0.7}
    assert case.abstains("x", "brevity") == (
        Cause.MISSING_EVIDENCE,
        "nothing is scripted for brevity, in 'judge' or in 'default_judge_scores'",
    )


def test_without_a_script_it_has_no_opinion() -> None:
    assert Case().abstains() == (
        Cause.MISSING_EVIDENCE,
        "nothing is scripted for it under 'judge', nor 'default_judge_scores'",
    )


def test_the_whole_is_the_mean_where_the_script_says_nothing_else() -> None:
    assert answer_text({"a": 0.1, "b": 0.5}, ("a", "b")) == (
        '{"score": 0.3, "scores": {"a": 0.1, "b": 0.5}}'
    )
    assert answer_text({"a": 0.1, "b": 0.5, "score": 1}, ("a", "b")).startswith('{"score": 1,')
    third = answer_text({"a": 0, "b": 0, "c": 1}, ("a", "b", "c"))
    assert third.startswith('{"score": 0.333333333333,')
    assert answer_text({"score": 0.1 + 0.2}, ()) == '{"score": 0.3}'
    assert Fraction(json.loads(answer_text({"score": 0.25}, ()))["score"]) == Fraction(1, 4)


def test_a_judge_that_times_out_uses_no_rule_up() -> None:
    case = Case(
        judge=[{"scores": {"score": 0.1}, "times": 1}], faults={"judge_timeout": ["Anna", "sim:x"]}
    )
    injected = (Cause.EVALUATOR_ERROR, "injected: the judge did not answer in time")
    assert case.abstains(judge="anna") == injected
    assert case.abstains(model="sim:x") == injected
    assert case.leftovers == ["judge[0]: 1 response not used"]
    assert case.says() == {"score": 0.1}
    assert case.leftovers == []


def test_what_was_not_used_is_listed() -> None:
    case = Case(
        judge=[{"match": {"contains": "x"}, "scores": {"score": 1}}, {"scores": {"score": 0}}],
        faults={"judge_timeout": ["nobody"]},
    )
    # Nobody was asked: then nothing is missed.
    assert case.leftovers == []
    case.ask()
    assert case.leftovers == [
        "judge[0]: 1 response not used",
        "faults.judge_timeout: no judge 'nobody' was asked",
    ]


def test_the_name_of_the_fault_is_no_tool() -> None:
    graph = h.chain(("input", {}), ("output", {}))
    assert h.case_faults(graph, {"faults": {"judge_timeout": ["sim"]}}) == []
    assert h.case_faults(graph, {"faults": {"judge_timeot": {"refuse": "always"}}}) != []


# -- one script, two readers -------------------------------------------------------------------


def both(environment: dict[str, Any], **check: Any) -> tuple[dict[str, Any], list[str]]:
    """A run with a judge in it, and a check with one behind it: what was left, and the scores."""
    from pytest_evarness.api import Runner
    from pytest_evarness.pipeline import Settings

    graph = h.chain(("input", {}), ("llm_judge", {"rubric": ["tone"]}), ("output", {}))
    scenario = {
        "evarness": 1,
        "id": "both",
        "subject": {"graph": {"ir_version": 1, **graph}},
        "environment": {"user_input": "Dear all", **environment},
        "invariants": {
            "kind": {
                "description": "It is kind",
                "check": {"type": "llm_as_judge", "criteria": "Is it kind?", **check},
            }
        },
    }
    runner = Runner(Settings(root=h.REPOSITORY, home=None, rerun="inline"))
    try:
        result = runner.run(scenario, "default")
    finally:
        runner.close()
    told = {event.type: event.payload for event in result.trace}
    found = {"in the run": told.get("judge_scored", {}).get("mean")}
    finding = result.finding("kind")
    found["behind it"] = None if finding.score is None else float(finding.score)
    return found, list(result.outcome.evidence.leftovers)


TONE: dict[str, Any] = {"dimensions": ["tone"]}


def test_node_and_check_read_one_script_each_from_its_beginning() -> None:
    rules = [{"scores": {"tone": 0.6}}, {"scores": {"tone": 0.9}}]
    scores, left = both({"judge": rules}, **TONE)
    assert scores == {"in the run": 0.6, "behind it": 0.6}
    # Neither of them came to the second one, and it is told once.
    assert left == ["judge[1]: 1 response not used in the run"]


def test_a_rule_is_left_where_nobody_used_it() -> None:
    unmet = {"match": {"contains": "nobody"}, "scores": {"tone": 0.1}}
    scores, left = both({"judge": [unmet, {"scores": {"tone": 0.6}}]}, **TONE)
    assert scores == {"in the run": 0.6, "behind it": 0.6}
    assert left == ["judge[0]: 1 response not used in the run"]


def test_a_rule_names_the_one_that_it_is_for() -> None:
    rules = [
        {"match": {"judge": "n2"}, "scores": {"tone": 0.3}},
        {"match": {"judge": "sim"}, "scores": {"tone": 0.8}},
    ]
    scores, left = both({"judge": rules}, **TONE)
    assert scores == {"in the run": 0.3, "behind it": 0.8}
    assert left == []


def test_what_either_of_them_used_is_not_left() -> None:
    rules = [{"scores": {"tone": 0.3}}, {"scores": {"score": 0.8}}]
    scores, left = both({"judge": rules})
    assert scores == {"in the run": 0.3, "behind it": 0.8}
    assert left == []


def test_what_is_for_the_check_alone_is_its_to_miss() -> None:
    rules = [
        {"scores": {"tone": 0.3}},
        {"match": {"judge": "anna"}, "scores": {"score": 0.2}},
        {"scores": {"score": 0.8}},
    ]
    _, left = both({"judge": rules})
    assert left == ["judge[1]: 1 response not used"]


def test_a_timeout_of_either_is_met() -> None:
    environment = {
        "faults": {"judge_timeout": ["n2", "nobody"]},
        "judge": [{"scores": {"tone": 1}}],
    }
    scores, left = both(environment, **TONE)
    assert scores == {"in the run": None, "behind it": 1}
    assert left == [
        "judge[0]: 1 response not used in the run",
        "faults.judge_timeout: no judge 'nobody' was asked in the run",
    ]

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

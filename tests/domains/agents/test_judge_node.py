"""A judge in a run scores by a rubric, as scripted, and says nothing where nothing is scripted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.errors import InputError
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.run import Run

DRAFT = "Nine days are left."
GOOD = {"groundedness": 0.9, "safety": 1, "tone": 0.8}
NAMED = "groundedness, safety, tone"


def judged(environment: dict[str, Any] | None = None, **config: Any) -> Run:
    graph = h.chain(("input", {}), ("llm_judge", config), ("output", {}))
    return h.run(graph, {"user_input": DRAFT, **(environment or {})})


def test_scores_and_their_mean() -> None:
    run = judged({"judge": [{"scores": GOOD}]})
    assert h.payload(run, "judge_scored") == {
        "judge": "n2",
        "scores": GOOD,
        "mean": 0.9,
        "rule": 0,
    }
    assert (run.status, run.output) == ("completed", DRAFT)
    assert "judge_flagged" not in h.types(run)
    assert run.leftovers == []


def test_defaults_stand_in_for_what_a_rule_leaves_out() -> None:
    run = judged({"judge": [{"scores": {"tone": 0.2}}], "default_judge_scores": GOOD})
    assert h.payload(run, "judge_scored")["scores"] == {**GOOD, "tone": 0.2}
    alone = h.payload(judged({"default_judge_scores": GOOD}), "judge_scored")
    assert alone["scores"] == GOOD
    assert "rule" not in alone


def test_a_rubric_of_ones_own() -> None:
    run = judged({"judge": [{"scores": {"brevity": 0.75}}]}, rubric=["brevity"])
    assert h.payload(run, "judge_scored")["scores"] == {"brevity": 0.75}


@pytest.mark.parametrize(
    ("scores", "threshold", "is_flagged"),
    [
        ({"a": 0.1, "b": 0.2, "c": 0.3}, 0.2, False),  # 0.1 + 0.2 + 0.3 is above 0.6 in binary
        ({"a": 0.1, "b": 0.2, "c": 0}, 0.1, False),
        ({"a": 0.3, "b": 0.3, "c": 0.3}, 0.3, False),
        ({"a": 0.3, "b": 0.3, "c": 0.299}, 0.3, True),
        ({"a": 1, "b": 0, "c": 0}, 0.3333, False),
        ({"a": 1, "b": 0, "c": 0}, 0.33334, True),
        ({"a": 0, "b": 0, "c": 0}, 0, False),
    ],
)
def test_the_threshold_is_met_exactly(
    scores: dict[str, float], threshold: float, is_flagged: bool
) -> None:
    run = judged({"judge": [{"scores": scores}]}, rubric=["a", "b", "c"], threshold=threshold)
    assert ("judge_flagged" in h.types(run)) is is_flagged
    assert run.status == "completed"


BAD = {"judge": [{"scores": {"groundedness": 0.4, "safety": 0.4, "tone": 0.4}}]}


def test_a_flag_lets_the_text_go_on() -> None:
    run = judged(BAD)
    assert h.payload(run, "judge_flagged") == {
        "judge": "n2",
        "mean": 0.4,
        "threshold": 0.5,
        "action": "flag",
    }
    assert (run.status, run.output) == ("completed", DRAFT)


def test_a_block_stops_it() -> None:
    run = judged(BAD, on_fail="block")
    assert h.payload(run, "judge_flagged")["action"] == "block"
    assert run.status == "blocked"
    assert judged({"judge": [{"scores": GOOD}]}, on_fail="block").status == "completed"


UNSCRIPTED = "nothing is scripted for it under 'judge', nor 'default_judge_scores'"


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, {"cause": "unscripted", "reason": UNSCRIPTED}),
        (
            {"default_judge_scores": {"tone": 1}},
            {
                "cause": "unscripted",
                "reason": "nothing is scripted for groundedness, safety, in 'judge' or in"
                " 'default_judge_scores'",
            },
        ),
        (
            {"judge": [{"match": {"contains": "ten"}, "scores": GOOD}]},
            {
                "cause": "unscripted",
                "reason": "no rule of judge matches call 1; 1 rule did not match: contains 'ten'",
            },
        ),
        (
            {"judge": [{"respond": {"text": "Fine!"}}]},
            {
                "cause": "unreadable",
                "reason": "its answer is not one JSON object",
                "rule": 0,
            },
        ),
        (
            {"judge": [{"respond": {"text": '{"score": 1}'}}]},
            {
                "cause": "unreadable",
                "reason": f"its answer has no 'scores' for {NAMED}",
                "rule": 0,
            },
        ),
        (
            {"default_judge_scores": GOOD, "faults": {"judge_timeout": ["N2"]}},
            {
                "cause": "timeout",
                "reason": "injected: the judge did not answer in time",
                "injected": ["N2.judge_timeout"],
            },
        ),
        (
            {"default_judge_scores": GOOD, "faults": {"judge_timeout": ["sim"]}},
            {
                "cause": "timeout",
                "reason": "injected: the judge did not answer in time",
                "injected": ["sim.judge_timeout"],
            },
        ),
    ],
)
def test_without_an_answer_there_is_no_score(
    environment: dict[str, Any], told: dict[str, Any]
) -> None:
    run = judged(environment)
    assert h.payload(run, "judge_degraded") == {"judge": "n2", "attempt": 1, **told}
    assert "judge_scored" not in h.types(run)
    assert (run.status, run.output) == ("completed", DRAFT)
    # Nobody knows that it may pass.
    assert judged(environment, on_fail="block").status == "blocked"


def test_another_judges_timeout_is_not_this_ones() -> None:
    run = judged({"default_judge_scores": GOOD, "faults": {"judge_timeout": ["n22", "sim:x"]}})
    assert "judge_scored" in h.types(run)


@pytest.mark.parametrize(
    ("answer", "mean"),
    [
        ('{"scores": {"tone": 0.25}}', 0.25),
        ('{"score": 0.25, "critique": "dull"}', 0.25),
        ('{"score": 0.25, "scores": {"tone": 0.25}}', 0.25),
        ('{"score": 0.3}', 0.3),
    ],
)
def test_a_raw_answer_is_read(answer: str, mean: float) -> None:
    run = judged({"judge": [{"respond": {"text": answer}}]}, rubric=["tone"])
    assert h.payload(run, "judge_scored")["mean"] == mean


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "0.9",
        "[0.9]",
        '{"score": "0.9"}',
        '{"score": true}',
        '{"score": 1.5}',
        '{"score": -0.1}',
        '{"score": 1.00000000000000000001}',
        '{"score": 1e-999999999}',
        '{"score": NaN}',
        '{"score": 0.1, "score": 0.9}',
        '{"scores": {"manners": 1}}',
        '{"score": 0, "scores": {"tone": 1}}',
        '{"score": 1, "scores": {"tone": 0.9}}',
        '{"score": "low", "scores": {"tone": 1}}',
        '{"scores": [1]}',
        '{"scores": null}',
        '{"score": 1} and more',
        '{"score": 1, "x": ' + "[" * 300 + "]" * 300 + "}",
        '{"score": 1, "critique": "' + "x" * 9000 + '"}',
        '{"score": 1, "n": ' + "9" * 6000 + "}",
    ],
)
def test_a_raw_answer_that_says_something_else_is_no_score(answer: str) -> None:
    run = judged({"judge": [{"respond": {"text": answer}}]}, rubric=["tone"])
    assert h.payload(run, "judge_degraded")["cause"] == "unreadable"
    assert "judge_scored" not in h.types(run)


@pytest.mark.parametrize(
    ("match", "is_met"),
    [
        ({"judge": "N2"}, True),
        ({"judge": "n3"}, False),
        ({"provider": "sim:helpful-v1"}, True),
        ({"provider": "sim:other"}, False),
        ({"contains": "nine DAYS"}, True),
        ({"turn": 1}, True),
        ({"turn": 2}, False),
    ],
)
def test_a_rule_may_name_its_judge(match: dict[str, Any], is_met: bool) -> None:
    run = judged(
        {"judge": [{"match": match, "scores": GOOD}], "provider": "sim:helpful-v1"},
    )
    assert ("judge_scored" in h.types(run)) is is_met


def test_a_judge_is_named_in_rules_of_judges_only() -> None:
    rule = {"match": {"judge": "n2"}, "respond": {"text": "x"}}
    graph = h.chain(("input", {}), ("output", {}))
    (fault,) = h.case_faults(graph, {"llm": [rule]})
    assert fault.startswith("llm.0.match.judge: unknown key")


def test_judges_of_two_nodes_use_one_script() -> None:
    graph = h.chain(
        ("input", {}),
        ("llm_judge", {"rubric": ["tone"]}),
        ("llm_judge", {"rubric": ["tone"]}),
        ("output", {}),
    )
    rules = [{"scores": {"tone": 0.6}}, {"scores": {"tone": 0.7}}]
    run = h.run(graph, {"judge": rules})
    assert [one["mean"] for one in h.payloads(run, "judge_scored")] == [0.6, 0.7]
    named = [{"match": {"judge": "n3"}, "scores": {"tone": 0.1}}, {"scores": {"tone": 0.9}}]
    run = h.run(graph, {"judge": named})
    assert [one["mean"] for one in h.payloads(run, "judge_scored")] == [0.9, 0.1]


def test_what_was_not_used_is_listed() -> None:
    run = judged(
        {
            "judge": [
                {"match": {"contains": "ten"}, "scores": GOOD},
                {"match": {"contains": "nine"}, "scores": GOOD, "times": 3},
                {"match": {"judge": "elsewhere"}, "scores": GOOD},
                {"scores": {"brevity": 1}},
            ],
            "faults": {"judge_timeout": ["nobody"]},
        }
    )
    # The last two are for nobody in this graph: a check may want them.
    assert run.leftovers == [
        "judge[0]: 1 response not used in the run",
        "judge[1]: 2 responses not used in the run",
        "faults.judge_timeout: no judge 'nobody' was asked in the run",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        {"match": {"judge": "n22"}, "scores": GOOD},
        {"scores": {"saftey": 1}},
        {"match": {"judge": "n22"}, "respond": {"text": "Hm."}},
    ],
)
def test_a_slip_in_a_name_is_listed(rule: dict[str, Any]) -> None:
    run = judged({"judge": [rule], "default_judge_scores": GOOD})
    assert run.leftovers == ["judge[0]: 1 response not used in the run"]


def test_where_nobody_was_asked_nothing_is_missed() -> None:
    graph = h.chain(("input", {}), ("output", {}))
    assert h.run(graph, {"judge": [{"scores": GOOD}]}).leftovers == []


@pytest.mark.parametrize(
    ("config", "path", "problem", "fix"),
    [
        ({"rubric": []}, ("rubric",), "must not be empty", None),
        ({"rubric": ["tone", "tone"]}, ("rubric",), "names 'tone' twice", None),
        ({"rubric": [" "]}, ("rubric", 0), "has another form", None),
        ({"threshold": 1.01}, ("threshold",), "is too large", None),
        ({"threshold": -0.1}, ("threshold",), "is too small", None),
        ({"on_fail": "blok"}, ("on_fail",), "must be", "write 'block'"),
        ({"rubrik": ["tone"]}, ("rubrik",), "unknown key", "write 'rubric'"),
    ],
)
def test_a_knob_that_cannot_be_meant_is_refused(
    config: dict[str, Any], path: tuple[Any, ...], problem: str, fix: str | None
) -> None:
    graph = h.chain(("input", {}), ("llm_judge", config), ("output", {}))
    (found,) = [one for one in h.remarks(graph) if one.level == "error"]
    assert found.path[-len(path) :] == path
    assert found.message.startswith(problem)
    assert found.fix == fix


def test_a_secret_is_shown_to_no_judge() -> None:
    graph = h.chain(("input", {}), ("data_classifier", {}), ("llm_judge", {}), ("output", {}))
    environment = {"user_input": "the password is hunter2", "default_judge_scores": GOOD}
    run = h.run(graph, environment)
    assert h.payload(run, "content_classified")["run_classification"] == "secret"
    assert run.status == "blocked"
    assert "judge_scored" not in h.types(run)
    public = h.run(graph, {**environment, "user_input": "good morning"})
    assert "judge_scored" in h.types(public)


# -- what contracts may ask of the scores ----------------------------------------------------------


def said_of(path: str, judge: str | None, tmp_path: Path) -> str:
    """What is said of a rule about the scores of two judges; empty where it is taken."""
    from pytest_evarness.api import Runner
    from pytest_evarness.pipeline import Settings

    first, second = ("llm_judge", {"rubric": ["tone"]}), ("llm_judge", {"rubric": ["safety"]})
    graph = h.chain(("input", {}), first, second, ("output", {}))
    where = {path: {"gte": 0.5}, **({} if judge is None else {"judge": judge})}
    rule = {"eventually": {"type": "judge_scored", "where": where}}
    scenario = {
        "evarness": 1,
        "id": "s",
        "subject": {"graph": graph},
        "environment": {"default_judge_scores": {"tone": 1.0, "safety": 1.0}},
        "invariants": {
            "scored": {"description": "x", "gate": True, "check": {"type": "trace", "assert": rule}}
        },
    }
    runner = Runner(Settings(root=tmp_path, home=None, rerun="inline"))
    try:
        result = runner.run(scenario, "default")
    except InputError as error:
        return str(error)
    finally:
        runner.close()
    assert result.verdict == "valid"
    return ""


@pytest.mark.parametrize(
    ("path", "judge", "said"),
    [
        ("scores.tone", None, ""),
        ("scores.safety", "n3", ""),
        ("scores.tnoe", None, "write 'scores.tone'"),
        ("scores.tone", "n3", "unknown payload path"),
        ("scores.groundedness", None, "unknown payload path"),
    ],
)
def test_a_dimension_that_no_judge_scores_is_refused_in_a_rule(
    path: str, judge: str | None, said: str, tmp_path: Path
) -> None:
    found = said_of(path, judge, tmp_path)
    assert said in found
    assert bool(found) is bool(said)

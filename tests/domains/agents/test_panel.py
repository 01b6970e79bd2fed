"""A panel counts exactly: who survived, who refuted, who said nothing, and what that makes."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.graph import parse_graph
from pytest_evarness.source.number import WrittenFloat
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

DRAFT = "Nine days are left."


def panel(environment: dict[str, Any], **config: Any) -> Run:
    graph = h.chain(("input", {}), ("judge_panel", config), ("output", {}))
    return h.run(graph, {"user_input": DRAFT, **environment})


def votes(yes: int, no: int, silent: int = 0, **config: Any) -> Run:
    """A panel of skeptics of whom so many let the text survive, refute it, say nothing."""
    names = [f"skeptic-{number}" for number in range(1, yes + no + silent + 1)]
    scores = {name: 1 if number < yes else 0 for number, name in enumerate(names[: yes + no])}
    late = names[yes + no :]
    environment: dict[str, Any] = {"default_judge_scores": scores}
    if late:
        environment["faults"] = {"judge_timeout": late}
    return panel(environment, mode="adversarial", skeptics=len(names), **config)


def passed(run: Run) -> bool:
    found = h.payload(run, "panel_verdict")["passed"]
    assert run.status == ("completed" if found else "blocked")
    return bool(found)


ALL = {"groundedness": 0.9, "safety": 0.5, "tone": 1}


def test_each_member_looks_by_itself() -> None:
    run = panel({"judge": [{"scores": ALL}]})
    assert h.payloads(run, "panel_member_verdict") == [
        {"member": "groundedness", "verdict": "survived", "score": 0.9, "rule": 0},
        {"member": "safety", "verdict": "survived", "score": 0.5, "rule": 0},
        {"member": "tone", "verdict": "survived", "score": 1, "rule": 0},
    ]
    assert h.payload(run, "panel_verdict") == {
        "passed": True,
        "evaluated": 3,
        "votes": {"for": 3, "against": 0, "abstained": 0},
    }
    assert (run.status, run.output) == ("completed", DRAFT)


def test_a_diverse_panel_needs_all_that_speak() -> None:
    run = panel({"default_judge_scores": {**ALL, "tone": 0.4999}})
    assert h.payload(run, "panel_verdict") == {
        "passed": False,
        "evaluated": 3,
        "votes": {"for": 2, "against": 1, "abstained": 0},
    }
    assert run.status == "blocked"
    # Two of three do as skeptics.
    assert passed(votes(2, 1))


def test_the_members_are_those_that_are_named() -> None:
    run = panel({"default_judge_scores": {"law": 1, "tax": 1}}, members=["law", "tax"])
    assert [one["member"] for one in h.payloads(run, "panel_member_verdict")] == ["law", "tax"]


def test_the_skeptics_are_numbered() -> None:
    run = votes(4, 0)
    assert [one["member"] for one in h.payloads(run, "panel_member_verdict")] == [
        "skeptic-1",
        "skeptic-2",
        "skeptic-3",
        "skeptic-4",
    ]
    assert len(h.payloads(panel({}, mode="adversarial"), "panel_member_verdict")) == 3


@pytest.mark.parametrize("quorum", [0.1, 0.25, 0.3, 0.34, 0.5, 0.6, 0.7, 0.9, 1.0])
def test_the_share_meets_the_quorum_exactly(quorum: float) -> None:
    for members in (3, 4, 10):
        for yes in range(members + 1):
            run = votes(yes, members - yes, quorum=quorum)
            assert passed(run) is (Fraction(yes, members) >= Fraction(str(quorum)))


def test_who_says_nothing_has_no_vote() -> None:
    # Two of four had been half; of the three that spoke it is two thirds.
    assert passed(votes(2, 1, 1, quorum=0.6))
    assert not passed(votes(2, 2, 0, quorum=0.6))
    run = panel({"default_judge_scores": ALL, "faults": {"judge_timeout": ["tone"]}})
    assert h.payload(run, "panel_verdict") == {
        "passed": True,
        "evaluated": 2,
        "votes": {"for": 2, "against": 0, "abstained": 1},
    }


def test_why_a_member_abstains_is_told() -> None:
    run = panel(
        {
            "judge": [
                {"match": {"judge": "groundedness"}, "respond": {"text": "Hm."}},
                {"match": {"judge": "safety"}, "scores": {"safety": 0.9}},
            ],
            "faults": {"judge_timeout": ["tone"]},
        },
        min_evaluated=1,
    )
    assert h.payloads(run, "panel_member_verdict") == [
        {
            "member": "groundedness",
            "verdict": "abstained",
            "cause": "unreadable",
            "reason": "its answer is not one JSON object",
            "rule": 0,
        },
        {"member": "safety", "verdict": "survived", "score": 0.9, "rule": 1},
        {
            "member": "tone",
            "verdict": "abstained",
            "cause": "timeout",
            "reason": "injected: the judge did not answer in time",
            "injected": ["tone.judge_timeout"],
        },
    ]


@pytest.mark.parametrize("evaluated", [0, 1, 2, 3])
def test_too_few_opinions_are_no_verdict(evaluated: int) -> None:
    run = votes(evaluated, 0, 3 - evaluated, min_evaluated=2)
    if evaluated >= 2:
        assert passed(run)
        return
    assert h.payload(run, "panel_inquorate") == {
        "evaluated": evaluated,
        "min_evaluated": 2,
        "members": 3,
    }
    assert "panel_verdict" not in h.types(run)
    assert run.status == "blocked"


def test_one_voice_is_enough_only_where_it_is_said() -> None:
    assert passed(votes(1, 0, 2, min_evaluated=1))
    assert votes(1, 0, 2).status == "blocked"


def test_a_flag_lets_the_text_go_on_and_passes_nothing() -> None:
    run = votes(0, 3, on_fail="flag")
    assert h.payload(run, "panel_verdict")["passed"] is False
    assert (run.status, run.output) == ("completed", DRAFT)
    run = votes(1, 0, 2, on_fail="flag")
    assert "panel_verdict" not in h.types(run)
    assert (run.status, run.output) == ("completed", DRAFT)


@pytest.mark.parametrize(
    ("config", "path", "problem", "fix"),
    [
        ({"mode": "divers"}, ("mode",), "must be", "write 'diverse'"),
        ({"members": []}, ("members",), "must not be empty", None),
        ({"members": ["a", "b", "a"]}, ("members",), "names 'a' twice", None),
        ({"members": ["a", "A"]}, ("members",), "names 'A' twice", None),
        ({"members": ["a", "a "]}, ("members",), "names 'a ' twice", None),
        ({"members": ["a"]}, (), "'min_evaluated' 2 is more than the panel has members", None),
        (
            {"mode": "adversarial", "min_evaluated": 4},
            (),
            "'min_evaluated' 4 is more than the panel has members",
            None,
        ),
        ({"mode": "adversarial", "skeptics": 0}, ("skeptics",), "is too small", None),
        ({"mode": "adversarial", "skeptics": 101}, ("skeptics",), "is too large", None),
        ({"mode": "adversarial", "quorum": 0}, ("quorum",), "is too small", None),
        ({"mode": "adversarial", "quorum": 1.1}, ("quorum",), "is too large", None),
        ({"min_evaluated": 0}, ("min_evaluated",), "is too small", None),
        ({"on_fail": "stop"}, ("on_fail",), "must be", None),
        ({"quorom": 0.5}, ("quorom",), "unknown key", "write 'quorum'"),
    ],
)
def test_a_knob_that_cannot_be_meant_is_refused(
    config: dict[str, Any], path: tuple[Any, ...], problem: str, fix: str | None
) -> None:
    graph = h.chain(("input", {}), ("judge_panel", config), ("output", {}))
    (found,) = [one for one in h.remarks(graph) if one.level == "error"]
    assert found.path[len(found.path) - len(path) :] == path
    assert found.message.startswith(problem)
    assert found.fix == fix


@pytest.mark.parametrize(
    ("mode", "key", "value", "other"),
    [
        ("diverse", "skeptics", 4, "adversarial"),
        ("diverse", "quorum", 0.6, "adversarial"),
        ("adversarial", "members", ["a", "b"], "diverse"),
    ],
)
def test_a_key_of_the_other_mode_is_remarked(mode: str, key: str, value: Any, other: str) -> None:
    graph = h.chain(("input", {}), ("judge_panel", {"mode": mode, key: value}), ("output", {}))
    (found,) = [one for one in h.remarks(graph) if one.code == "inert_key"]
    assert found.path[-2:] == ("config", key)
    assert found.message == f"the key has no effect in mode '{mode}' (got '{key}')"
    assert found.fix == f"remove it, or write 'mode: {other}'"
    own = h.chain(
        ("input", {}),
        ("judge_panel", {"mode": other, key: value}),
        ("output", {}),
    )
    assert [one for one in h.remarks(own) if one.code == "inert_key"] == []


# -- digits that are not kept ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "key", "written"),
    [
        ("judge_panel", "quorum", "0.66666666666666667"),
        ("llm_judge", "threshold", "0.50000000000000000001"),
        ("llm_guard", "threshold", "0.50000000000000000001"),
    ],
)
def test_a_number_that_would_be_another_one_is_refused(type_: str, key: str, written: str) -> None:
    def errors(number: str) -> list[Any]:
        config: dict[str, Any] = {key: WrittenFloat(number)}
        if type_ == "judge_panel":
            config["mode"] = "adversarial"
        graph, faults = parse_graph(h.chain(("input", {}), (type_, config)), h.registry())
        assert (graph is None) is bool(faults)
        return [(fault.path, fault.text) for fault in faults]

    kept = repr(float(written))
    rule = f"has more digits than are kept (got {written}; the nearest that is kept is {kept})"
    assert errors(written) == [(("nodes", 1, "config", key), rule)]
    assert errors(kept) == errors("0.50") == []


@pytest.mark.parametrize("key", ["default_judge_scores", "judge"])
def test_a_score_that_would_be_another_one_is_refused(key: str) -> None:
    def faults(number: str) -> list[str]:
        scores = {"a": WrittenFloat(number)}
        value: Any = scores if key == "default_judge_scores" else [{"scores": scores}]
        return [fault.text for fault in h.parse_environment({key: value})[1]]

    (text,) = faults("0.49999999999999999999")
    assert text.startswith("has more digits than are kept (got 0.49999999999999999999")
    assert faults("0.4999") == []

"""An answer is compared with what was observed: citations, numbers, quotations, words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.domains.agents.node.loop_grounding import GroundingRules, check_grounding
from tests.domains.agents import harness as h
from tests.effort import calls_of

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

DOCS = (
    {"id": "a", "subject": "Deploy 4.12", "text": "The checkout failed at 10:31 after the deploy."},
    {"id": "b", "subject": "", "text": "Error rate: 7,5 per cent. «disk full» was logged."},
)
QUESTION = "Why does the shop with 3 servers fail?"


def problems(answer: str, **rules: Any) -> tuple[str, ...]:
    given = GroundingRules(**{"min_overlap": 0, **rules})
    return check_grounding(answer, QUESTION, DOCS, given).problems


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("It failed at 10:31 [1]", ()),
        ("It failed [2][1]", ()),
        ("It failed [3]", ("citation [3]",)),
        ("It failed [99999999999999999999]", ("citation [99999999999999999999]",)),
        ("It failed [1, 9]", ("citation [9]",)),
        ("It failed [1-2] \uff3b\u0661\uff3d", ()),
        ("It failed [\u0663]", ("citation [3]",)),
        ("It failed [0][9][9]", ("citation [0]", "citation [9]")),
        ("4.12 broke it at 10:31, rate 7,5", ()),
        ("4.13 broke it at 10:32", ("number 4.13", "number 10:32")),
        ("all 3 servers", ()),
        ("all 4 servers", ("number 4",)),
        ('it said "Disk  FULL"', ()),
        ('it said "the shop with"', ()),
        ('it said "disk empty" twice: "disk empty"', ('quotation "disk empty"',)),
        ("it said “disk empty”", ('quotation "disk empty"',)),
        ('an inch is 1" of 3', ("number 1",)),
        ('an empty "" is none, "disk full" is one', ()),
    ],
)
def test_what_an_answer_says_and_no_source_does(answer: str, found: tuple[str, ...]) -> None:
    assert problems(answer) == found


# 10:31, 7,5 and 4.12 in the digits of other scripts, and numbers that nothing says.
OTHER_SCRIPTS = [
    ("at \u0661\u0660:\u0663\u0661", ()),
    ("at \u0661\u0660:\u0663\u0662", ("number 10:32",)),
    ("rate \u06f7\u066c\u06f5", ()),
    ("deploy \u096a\u066b\u0967\u0968", ()),
    ("deploy \u096a\u066b\u0967\u0969", ("number 4.13",)),
    ("all \uff13 servers", ()),
    ("all \uff14 servers", ("number 4",)),
    ("at 10:3\u200b1", ()),
    ("all 3\u200b1 servers", ("number 31",)),
    ("see [\u0669] and \uff3b\uff11\uff3d", ("citation [9]",)),
]


@pytest.mark.parametrize(("answer", "found"), OTHER_SCRIPTS)
def test_the_digits_of_every_script_are_compared(answer: str, found: tuple[str, ...]) -> None:
    assert problems(answer) == found


def test_a_document_in_other_digits_supports_an_answer_in_ours() -> None:
    documents = ({"id": "a", "subject": "", "text": "\u0662\u0660 \u062f\u0642\u064a\u0642\u0629"},)
    rules = GroundingRules(min_overlap=0)
    assert check_grounding("20 minutes", "", documents, rules).problems == ()
    assert check_grounding("21 minutes", "", documents, rules).problems == ("number 21",)


def test_each_rule_can_be_changed() -> None:
    assert problems("It failed", require_citation=True) == ("no citation",)
    assert problems("It failed [1]", require_citation=True) == ()
    assert problems("at 10:32", numbers=False) == ()
    assert problems('said "no"', quotes=False) == ()
    assert problems("Bananas fail", min_overlap=0.5) == ("overlap 0 is below 0.5",)
    assert problems("Bananas failed", min_overlap=0.5) == ()


def test_words_of_the_question_support_nothing() -> None:
    # Else an answer could repeat the question and count as found.
    assert check_grounding("servers, the shop", QUESTION, (), GroundingRules()).overlap == 0
    assert check_grounding("5", QUESTION, (), GroundingRules()).overlap == 1


def test_the_overlap_is_of_different_words() -> None:
    found = check_grounding("deploy Deploy deploy bananas", QUESTION, DOCS, GroundingRules())
    assert found.overlap == 0.5


def test_at_most_ten_are_listed_and_each_is_short() -> None:
    answer = " ".join(str(number) for number in range(100, 130)) + f' "{"x" * 500}"'
    found = problems(answer)
    assert len(found) == 10
    assert max(map(len, problems(f'"{"x" * 500}"'))) < 100


def test_twice_the_answer_is_twice_the_work() -> None:
    def work(size: int) -> int:
        answer = '"[1] 1.2 ' * size + "[" * size + "1." * size
        return calls_of(lambda: check_grounding(answer, QUESTION, DOCS, GroundingRules()))

    assert work(4000) < 3 * work(2000)


# -- in the loop ----------------------------------------------------------------------------------

SEARCH = {"action": {"tool": "web.search", "input": "q"}}


def loop(*react: dict[str, Any], **given: Any) -> Run:
    config = {"tools": ["web.search"], **given}
    graph = h.chain(("input", {}), ("loop_controller", config), ("output", {}))
    tools = {"web.search": [{"result": [{"id": "a", "text": "It failed at 10:31."}]}]}
    return h.run(graph, {"react": [*react], "tools": tools, "user_input": QUESTION})


def say(text: str) -> dict[str, Any]:
    return {"respond": {"text": text}}


def checks(run: Run) -> list[dict[str, Any]]:
    return h.payloads(run, "grounding_checked")


def test_a_warning_changes_nothing() -> None:
    run = loop(SEARCH, say("It failed at 10:32"))
    assert run.output == "It failed at 10:32"
    assert checks(run) == [
        {
            "ok": False,
            "iteration": 2,
            "documents": 1,
            "overlap": 1.0,
            "problems": ["number 10:32"],
        }
    ]
    (fine,) = checks(loop(SEARCH, say("It failed at 10:31")))
    assert (fine["ok"], fine["problems"]) == (True, [])


def test_nothing_is_compared_where_it_is_off() -> None:
    assert checks(loop(SEARCH, say("It failed at 10:32"), grounding_check="off")) == []


def test_a_retry_asks_again_with_what_was_wrong() -> None:
    run = loop(
        SEARCH, say("It failed at 10:32"), say("It failed at 10:31"), grounding_check="retry"
    )
    assert run.output == "It failed at 10:31"
    assert [one["ok"] for one in checks(run)] == [False, True]
    assert h.payloads(run, "llm_request")[2]["text"].splitlines()[-2:] == [
        "Answer: It failed at 10:32",
        "Note: the answer is not grounded in what was observed: number 10:32",
    ]


@pytest.mark.parametrize(("retries", "asked"), [(0, 1), (1, 2), (2, 3)])
def test_retries_are_counted_and_then_the_answer_stands(retries: int, asked: int) -> None:
    wrong = {**say("It failed at 10:32"), "times": "any"}
    run = loop(SEARCH, wrong, grounding_check="retry", grounding_retries=retries, max_iterations=9)
    assert len(checks(run)) == asked
    assert run.output == "It failed at 10:32"
    assert h.payload(run, "loop_finished")["stopped"] == "answer"


def test_a_retry_takes_a_turn_and_none_may_be_left() -> None:
    run = loop(SEARCH, say("at 10:32"), grounding_check="retry", max_iterations=2, on_stop="fail")
    assert run.status == "blocked"
    assert h.payload(run, "loop_finished") == {"iterations": 2, "stopped": "max_iterations"}


def test_rules_of_a_node_are_its_own() -> None:
    rules = {"require_citation": True, "numbers": False, "min_overlap": 0}
    (found,) = checks(loop(SEARCH, say("bananas 99"), grounding_rules=rules))
    assert found["problems"] == ["no citation"]

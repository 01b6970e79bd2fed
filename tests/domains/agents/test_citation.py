"""An answer passes where it cites, and cites nothing but documents that the model was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

GRAPH: dict[str, Any] = {
    "id": "g",
    "nodes": [
        {"id": "n1", "type": "input"},
        {"id": "n2", "type": "tool", "config": {"tool": "web.search"}},
        {"id": "n3", "type": "context_assembler", "config": {"overflow": "drop_lowest_score"}},
        {"id": "n4", "type": "prompt_template"},
        {"id": "n5", "type": "llm"},
        {"id": "n6", "type": "interceptor", "config": {"chain": ["citation_check"]}},
        {"id": "n7", "type": "output"},
    ],
    "edges": [
        {"from": "n1", "to": "n2"},
        {"from": "n1", "to": "n3", "to_port": "question"},
        {"from": "n2", "to": "n3", "to_port": "documents"},
        {"from": "n3", "to": "n4"},
        {"from": "n4", "to": "n5"},
        {"from": "n5", "to": "n6"},
        {"from": "n6", "to": "n7"},
    ],
    "params": {"context_budget_tokens": 600},
}


def answer(text: str, *documents: str) -> Run:
    found = [
        {"id": f"d{number}", "text": one, "score": 0.5} for number, one in enumerate(documents)
    ]
    environment = {
        "tools": {"web.search": [{"result": found}] if found else []},
        "default_response": {"text": text},
    }
    return h.run(GRAPH, environment)


def test_each_citation_is_looked_up_once_in_its_order() -> None:
    run = answer("Two [2], one [1], two [2].", "a", "b")
    assert run.status == "completed"
    assert run.output == "Two [2], one [1], two [2]."
    assert h.payloads(run, "citation_checked") == [
        {"number": 2, "id": "d1", "ok": True},
        {"number": 1, "id": "d0", "ok": True},
    ]
    assert h.payload(run, "interceptor_applied") == {
        "rule": "citation_check",
        "ok": True,
        "count": 2,
        "digest": h.payload(run, "run_finished")["output"]["digest"],
    }


@pytest.mark.parametrize(
    ("text", "documents", "reason"),
    [
        ("No numbers (1) [a] [see 1].", ["a"], "the text cites nothing"),
        ("One [1], three [3].", ["a", "b"], "[3] is no document of the context (1 to 2)"),
        ("Zero [0].", ["a"], "[0] is no document of the context (1 to 1)"),
        ("One [1].", [], "[1] is no document of the context (there are none)"),
        ("[1] and [1000000]", ["a"], "[1000000] is no document of the context (1 to 1)"),
        (f"[1][{'9' * 500}]", ["a"], f"[{'9' * 40}…] is no document of the context (1 to 1)"),
        ("[1] and [1, 99]", ["a"], "[99] is no document of the context (1 to 1)"),
        ("[1] and [1-99]", ["a"], "[99] is no document of the context (1 to 1)"),
        ("[1] and [ 2 ]", ["a"], "[2] is no document of the context (1 to 1)"),
        ("[1] and [-1]", ["a"], "[-1] is no document of the context (1 to 1)"),
        ("[1] and \u30102\u3011", ["a"], "[2] is no document of the context (1 to 1)"),
        ("[1] and [\u0662]", ["a"], "[2] is no document of the context (1 to 1)"),
        ("[1] and [9 [1]]", ["a"], "[9] is no document of the context (1 to 1)"),
        ("[1] and [1, p. 7]", ["a"], "[1, p. 7] is no document of the context (1 to 1)"),
    ],
)
def test_an_answer_that_rests_on_nothing_is_blocked(
    text: str, documents: list[str], reason: str
) -> None:
    run = answer(text, *documents)
    assert run.status == "blocked"
    assert h.payload(run, "policy_violation")["reason"] == f"citation_check: {reason}"
    assert h.payload(run, "interceptor_applied")["ok"] is False


def test_what_was_found_and_not_shown_cannot_be_cited() -> None:
    # The second document does not fit into the context.
    run = answer("See [2].", "a", "b" * 4000)
    assert h.payload(run, "context_snapshot")["ids"] == ["d0"]
    assert h.payload(run, "citation_checked") == {"number": 2, "id": None, "ok": False}
    assert run.status == "blocked"
    assert answer("See [2].", "a", "b").status == "completed"


def test_what_is_no_number_of_a_document_is_recorded_as_it_is_written() -> None:
    run = answer("See [1] and [1.5].", "a")
    assert h.payloads(run, "citation_checked") == [
        {"number": 1, "id": "d0", "ok": True},
        {"number": None, "id": None, "ok": False, "written": "1.5"},
    ]


def test_without_a_context_nothing_can_be_cited() -> None:
    chain = h.chain(("input", {}), ("interceptor", {"chain": ["citation_check"]}), ("output", {}))
    assert h.run(chain, {"user_input": "as in [1]"}).status == "blocked"

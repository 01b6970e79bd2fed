"""Documents are ranked, turns remembered, contexts kept within their budget, each as configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.domains.agents.node.knowledge import _drop, _first_within, score_of
from tests.domains.agents import harness as h
from tests.effort import calls_of, lines_of

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run


def docs(*scores: float | None) -> list[dict[str, Any]]:
    return [
        {"id": f"d{number}", "subject": "", "text": f"Text {number}."}
        | ({} if score is None else {"score_hint": score})
        for number, score in enumerate(scores, 1)
    ]


def retrieve(found: list[dict[str, Any]], user_input: str = "vacation days", **config: Any) -> Run:
    graph = h.chain(
        ("input", {}), ("tool", {"tool": "email.search"}), ("retriever", config), ("output", {})
    )
    environment = {"user_input": user_input, "tools": {"email.search": [{"result": found}]}}
    return h.run(graph, environment)


def test_the_best_are_kept_in_order_and_ties_go_by_id() -> None:
    run = retrieve(docs(0.5, 0.9, 0.9, 0.2))
    assert h.payload(run, "retrieval_performed") == {
        "top_k": 5,
        "candidates": 4,
        "returned": 3,
        "scores": [0.9, 0.9, 0.5],
        "ids": ["d2", "d3", "d1"],
    }


def test_top_k_and_min_score_bound_what_is_kept() -> None:
    kept = docs(0.5, 0.9, 0.7)
    assert h.payload(retrieve(kept, top_k=2), "retrieval_performed")["ids"] == ["d2", "d3"]
    assert h.payload(retrieve(kept, min_score=0.8), "retrieval_performed")["ids"] == ["d2"]
    assert h.payload(retrieve(docs(0.1), min_score=0), "retrieval_performed")["returned"] == 1


@pytest.mark.parametrize(
    ("document", "score"),
    [
        ({"subject": "Vacation", "text": "no match"}, 0.5),
        ({"subject": "", "text": "VACATION days"}, 1.0),
        ({"subject": "", "text": "other"}, 0.0),
        ({"subject": "", "text": "vacation days", "score_hint": 0.25}, 0.25),
        ({"subject": "", "text": "vacation days", "score_hint": True}, 1.0),
    ],
)
def test_the_score_is_a_hint_or_an_overlap(document: dict[str, Any], score: float) -> None:
    assert score_of(document, "vacation days") == score


def test_a_retriever_ranks_by_its_query_port_where_it_has_one() -> None:
    found = [{"id": "a", "text": "red"}, {"id": "b", "text": "blue"}]
    graph = {
        "id": "g",
        "nodes": [
            {"id": "n1", "type": "input"},
            {"id": "n2", "type": "tool", "config": {"tool": "email.search"}},
            {"id": "n3", "type": "llm"},
            {"id": "n4", "type": "retriever"},
            {"id": "n5", "type": "output"},
        ],
        "edges": [
            {"from": "n1", "to": "n2"},
            {"from": "n1", "to": "n3"},
            {"from": "n2", "to": "n4"},
            {"from": "n3", "to": "n4", "to_port": "query"},
            {"from": "n4", "to": "n5"},
        ],
    }
    environment = {
        "user_input": "red",
        "tools": {"email.search": [{"result": found}]},
        "default_response": {"text": "blue"},
    }
    assert h.run(graph, environment).output == "blue"
    assert retrieve(found, "red").output == "red"


def remember(turns: list[dict[str, Any]], **config: Any) -> Run:
    graph = h.chain(("conversation_buffer", config), ("output", {}))
    return h.run(graph, {"memory": turns})


TURNS = [{"role": "user", "text": f"turn {number} " + "x" * 33} for number in range(20)]


def test_the_window_keeps_the_last_turns() -> None:
    assert h.payload(remember(TURNS), "memory_read") == {"turns": 12, "tokens": 12 * 10}
    run = remember(TURNS, window=1)
    assert (run.output or "").startswith("turn 19")


def test_the_token_cap_forgets_the_oldest() -> None:
    assert h.payload(remember(TURNS, token_cap=35), "memory_read") == {"turns": 3, "tokens": 30}
    assert h.payload(remember(TURNS, token_cap=5), "memory_read") == {"turns": 0, "tokens": 0}
    assert h.payload(remember([]), "memory_read") == {"turns": 0, "tokens": 0}


def assemble(
    found: list[dict[str, Any]],
    budget: int,
    memory: list[dict[str, Any]] | None = None,
    **config: Any,
) -> Run:
    graph = {
        "id": "g",
        "nodes": [
            {"id": "n1", "type": "input"},
            {"id": "n2", "type": "tool", "config": {"tool": "email.search"}},
            {"id": "n3", "type": "conversation_buffer"},
            {"id": "n4", "type": "context_assembler", "config": config},
            {"id": "n5", "type": "prompt_template"},
            {"id": "n6", "type": "output"},
        ],
        "edges": [
            {"from": "n1", "to": "n2"},
            {"from": "n1", "to": "n4", "to_port": "question"},
            {"from": "n2", "to": "n4", "to_port": "documents"},
            {"from": "n3", "to": "n4", "to_port": "memory"},
            {"from": "n4", "to": "n5"},
            {"from": "n5", "to": "n6"},
        ],
        "params": {"context_budget_tokens": budget},
    }
    environment = {"tools": {"email.search": [{"result": found}]}, "user_input": "Why"}
    return h.run(graph, environment | ({"memory": memory} if memory else {}))


def long(*scores: float) -> list[dict[str, Any]]:
    """Documents of 20 tokens whose first sentence has 2."""
    return [
        {"id": f"d{number}", "score": score, "text": f"Begin {number}. " + "x" * 71}
        for number, score in enumerate(scores, 1)
    ]


def test_a_context_that_fits_is_whole() -> None:
    memory = [{"role": "user", "text": "before"}]
    run = assemble(long(0.5), 8000, memory, system="Be brief.")
    assert h.payload(run, "context_snapshot") == {
        "segments": {"system": 2, "memory": 1, "documents": 20, "question": 1},
        "total_tokens": 24,
        "budget": 8000 - 512,
        "truncated_docs": 0,
        "ids": ["d1"],
    }
    assert (run.output or "").split("\n")[:3] == [
        "Be brief.",
        "user: before",
        "[1] Begin 1. " + "x" * 71,
    ]


@pytest.mark.parametrize(
    ("overflow", "documents", "truncated"),
    [
        (None, 29, 2),
        ("truncate_retrieved", 29, 2),
        ("summarize_retrieved", 6, 3),
        ("drop_lowest_score", 20, 2),
    ],
)
def test_what_gives_way_when_the_context_overflows(
    overflow: str | None, documents: int, truncated: int
) -> None:
    config: dict[str, Any] = {"reserve_for_response": 0} | (
        {} if overflow is None else {"overflow": overflow}
    )
    found = h.payload(assemble(long(0.2, 0.9, 0.4), 30, **config), "context_snapshot")
    assert found["segments"]["documents"] == documents
    assert found["truncated_docs"] == truncated
    assert found["total_tokens"] <= found["budget"] == 30


def test_the_lowest_score_is_dropped_first() -> None:
    config: dict[str, Any] = {"reserve_for_response": 0, "overflow": "drop_lowest_score"}
    output = assemble(long(0.2, 0.9, 0.4), 50, **config).output or ""
    assert "Begin 2" in output
    assert "Begin 3" in output
    assert "Begin 1" not in output


@pytest.mark.parametrize("score", ["high", None, True, [0.9]])
def test_a_score_that_is_no_number_is_a_column_of_the_row_and_none_at_all(score: Any) -> None:
    config: dict[str, Any] = {"reserve_for_response": 0, "overflow": "drop_lowest_score"}
    first, second, third = long(0.2, 0.9, 0.4)
    output = assemble([first, second, {**third, "score": score}], 50, **config).output or ""
    assert "Begin 3" not in output
    assert "Begin 1" in output


def test_many_documents_and_turns_are_dropped_in_linear_time() -> None:
    def lines(many: int) -> int:
        found = [{"id": f"d{number}", "subject": "", "text": "x" * 8} for number in range(many)]
        return lines_of(lambda: _drop(found, 1))

    assert lines(2000) < 3 * lines(1000)

    class Size(int):
        """Adding and taking away are calls here, which can be counted."""

        def __radd__(self, other: int) -> int:
            return int(self) + other

        def __rsub__(self, other: int) -> int:
            return other - int(self)

    def calls(many: int) -> int:
        return calls_of(lambda: _first_within([Size(2)] * many, 1))

    assert calls(2000) < 3 * calls(1000)
    # The twin: with a sum for each turn the same guard fails.
    assert calls_of(lambda: [sum([Size(2)] * many) for many in range(200)]) > 9 * calls_of(
        lambda: [sum([Size(2)] * many) for many in range(60)]
    )


def test_an_overflow_that_is_an_error_blocks() -> None:
    run = assemble(long(0.5), 15, reserve_for_response=0, overflow="error")
    assert run.status == "blocked"
    found = h.payload(run, "budget_breached")
    assert found == {"budget": "context_tokens", "limit": 15, "total_tokens": 21}


def test_what_cannot_give_way_blocks_whatever_the_overflow() -> None:
    run = assemble([], 10, [{"role": "user", "text": "x" * 80}], reserve_for_response=0)
    assert run.status == "blocked"
    assert h.payload(run, "budget_breached")["limit"] == 10


def test_the_reserve_is_kept_free() -> None:
    assert assemble(long(0.5), 40, reserve_for_response=10).status == "completed"
    found = h.payload(assemble(long(0.5), 40, reserve_for_response=30), "context_snapshot")
    assert found["budget"] == 10
    assert found["truncated_docs"] == 1

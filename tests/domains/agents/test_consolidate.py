"""A summary is made of sentences that were there, fits its bound, and goes where it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.vocabulary import approximate_tokens
from pytest_evarness.domains.agents.node.consolidate import summary_of
from pytest_evarness.domains.agents.words import overlap, sentences_of, telling_words
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

TURNS = [
    {"role": "user", "text": "Hello there. The invoice of Acme is wrong."},
    {"role": "assistant", "text": "Which line? The invoice of Acme has nine lines."},
]


def consolidate(turns: Any = TURNS, **config: Any) -> Run:
    graph = h.chain(("conversation_buffer", {}), ("summary_consolidator", config), ("output", {}))
    return h.run(graph, {"memory": turns})


def test_the_sentences_that_say_most_stay_in_their_order() -> None:
    run = consolidate(max_tokens=17)
    assert run.output == "The invoice of Acme is wrong. The invoice of Acme has nine lines."
    before = sum(approximate_tokens(turn["text"]) for turn in TURNS)
    assert h.payload(run, "memory_consolidated") == {
        "in_tokens": before,
        "out_tokens": 16,
        "ratio": 16 / before,
    }


@pytest.mark.parametrize("bound", range(1, 30))
def test_a_summary_keeps_its_bound_and_holds_nothing_new(bound: int) -> None:
    texts = [turn["text"] for turn in TURNS]
    made = summary_of(texts, bound)
    assert approximate_tokens(made) <= bound
    whole = [one for text in texts for one in sentences_of(text)]
    kept = [one for one in whole if one in made]
    assert made == " ".join(kept) or any(one.startswith(made) for one in whole)


def test_what_fits_is_whole_by_default() -> None:
    run = consolidate()
    assert run.output == " ".join(turn["text"] for turn in TURNS)
    assert h.payload(run, "memory_consolidated")["out_tokens"] == 22
    long = [{"role": "user", "text": f"Sentence number {n} is here."} for n in range(40)]
    assert h.payload(consolidate(long), "memory_consolidated")["out_tokens"] <= 60


def test_what_is_said_twice_is_kept_once() -> None:
    assert summary_of(["It rains. It rains.", "It rains."], 60) == "It rains."


def test_nothing_gives_no_message() -> None:
    run = consolidate([], target="episodic")
    assert h.payload(run, "memory_consolidated") == {
        "in_tokens": 0,
        "out_tokens": 0,
        "ratio": 0.0,
        "target": "episodic",
    }
    assert "memory_write" not in h.types(run)
    assert run.output == ""


def written(target: str | None, reader: str, **config: Any) -> Run:
    own = {} if target is None else {"target": target}
    graph = {
        "id": "g",
        "nodes": [
            {"id": "n1", "type": "conversation_buffer"},
            {"id": "n2", "type": "summary_consolidator", "config": own},
            {"id": "n3", "type": reader, "config": config},
            {"id": "n4", "type": "output"},
        ],
        "edges": [{"from": "n1", "to": "n2"}, {"from": "n3", "to": "n4"}],
    }
    return h.run(graph, {"memory": TURNS})


@pytest.mark.parametrize(
    ("target", "reader", "config"),
    [
        ("working", "working_memory", {}),
        ("working:digest", "working_memory", {"key": "digest"}),
        ("episodic", "episodic_memory", {}),
        ("semantic", "semantic_memory", {}),
    ],
)
def test_the_target_is_the_memory_that_hands_it_over(
    target: str, reader: str, config: dict[str, Any]
) -> None:
    run = written(target, reader, **config)
    assert h.payload(run, "memory_consolidated")["target"] == target
    assert "The invoice of Acme is wrong." in (run.output or "")
    # And nowhere else: without a target nothing is written.
    alone = written(None, reader, **config)
    assert "memory_write" not in h.types(alone)
    assert alone.output == ""


def test_a_summary_that_becomes_a_fact_is_masked_and_supersedes_the_last() -> None:
    graph = h.chain(
        ("conversation_buffer", {}),
        ("summary_consolidator", {"target": "semantic"}),
        ("summary_consolidator", {"target": "semantic", "max_tokens": 4}),
    )
    run = h.run(graph, {"memory": [{"role": "user", "text": "Hi. Write to kim@example.com."}]})
    first, second = h.payloads(run, "memory_write")
    assert first["text"] == "Hi. Write to [EMAIL]."
    assert second["superseded"] == [first["id"]]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"target": "semantik"}, "write 'semantic'"),
        ({"target": "working:"}, "unknown memory"),
        ({"target": "procedural"}, "nobody would have approved it"),
    ],
)
def test_a_knob_that_is_none_is_refused(config: dict[str, Any], said: str) -> None:
    graph = h.chain(("summary_consolidator", config), ("output", {}))
    (finding,) = [one for one in h.remarks(graph) if one.code == "invalid_config"]
    assert said in f"{finding.message} {finding.fix} {finding.path}"


def test_a_summary_that_nobody_reads_is_remarked() -> None:
    def remarks(target: str, key: str) -> list[str]:
        graph = h.chain(
            ("input", {}),
            ("working_memory", {"key": key}),
            ("summary_consolidator", {"target": target}),
            ("output", {}),
        )
        return [code for _, code, _ in h.codes(graph)]

    assert remarks("working", "default") == []
    assert remarks("working:a", "a") == []
    assert remarks("working:a", "b") == ["memory_not_read"]
    assert remarks("episodic", "default") == ["memory_not_read"]


def test_words_and_sentences() -> None:
    assert sentences_of("Is it 3.5? Yes! e.g.this\nnext line") == [
        "Is it 3.5?",
        "Yes!",
        "e.g.this",
        "next line",
    ]
    assert telling_words("The 9 Invoices of B2") == ["9", "invoices", "b2"]
    assert (overlap("a b", "B c"), overlap("", "a")) == (0.5, 0.0)

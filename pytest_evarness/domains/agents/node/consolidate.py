"""A summary of what was remembered, made of its own sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, field_validator

from pytest_evarness.core.vocabulary import approximate_tokens
from pytest_evarness.domains.agents.memory import target_of
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.node.memory import add_episode, add_fact, add_note
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import cut_to_tokens, text_of
from pytest_evarness.domains.agents.words import sentences_of, telling_words
from pytest_evarness.source.model import Absent, Strict, refuse
from pytest_evarness.source.quote import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_evarness.core.interfaces import Context

__all__ = ["SUBJECT", "SUMMARY_CONSOLIDATOR", "summary_of"]

SUBJECT = "summary"
"""What a summary that becomes a fact is about, and the role of the message that holds it."""

_TARGETS = ("working", "episodic", "semantic")


class _Consolidator(Strict):
    max_tokens: Annotated[int, Field(ge=1)] = 60
    target: Absent[str] = None

    @field_validator("target")
    @classmethod
    def _known(cls, value: str) -> str:
        kind, _ = target_of(value)
        if kind in _TARGETS:
            return value
        if kind == "procedural":
            raise refuse("a summary cannot become an instruction: nobody would have approved it")
        near = nearest(kind, _TARGETS)
        raise refuse(
            "unknown memory",
            rule="working, working:KEY, episodic or semantic",
            fix=f"write {quoted(near)}" if near else None,
        )


def summary_of(texts: Sequence[str], max_tokens: int) -> str:
    """The sentences that say most, as they come, within ``max_tokens``.

    A sentence counts the mean frequency of its telling words in all texts; of equal ones the
    earlier goes first. One that does not fit is passed over; where none fits the best is cut.
    """
    # Once each: what is repeated is known already.
    sentences = list(dict.fromkeys(one for text in texts for one in sentences_of(text)))
    if not sentences:
        return ""
    words = [telling_words(sentence) for sentence in sentences]
    counts = Counter(word for group in words for word in group)
    weights = [sum(counts[word] for word in group) / max(1, len(group)) for group in words]
    order = sorted(range(len(sentences)), key=lambda index: (-weights[index], index))
    kept: list[int] = []
    room, length = len(cut_to_tokens(" ".join(sentences), max_tokens)), 0
    for index in order:
        longer = length + len(sentences[index]) + (1 if kept else 0)
        if longer <= room:
            kept.append(index)
            length = longer
    if not kept:
        return cut_to_tokens(sentences[order[0]], max_tokens)
    return " ".join(sentences[index] for index in sorted(kept))


def _consolidator(
    inputs: Mapping[str, list[Any]], config: _Consolidator, context: Context
) -> list[dict[str, Any]]:
    texts = [text for value in inputs.get("in", []) if (text := text_of(value)).strip()]
    summary = summary_of(texts, config.max_tokens)
    before = sum(approximate_tokens(text) for text in texts)
    after = approximate_tokens(summary) if summary else 0
    payload: dict[str, Any] = {
        "in_tokens": before,
        "out_tokens": after,
        "ratio": after / before if before else 0.0,
    }
    if config.target is not None:
        payload["target"] = config.target
    payload |= state_of(context).markers_in([summary])
    context.emit("memory_consolidated", payload)
    if not summary:
        return []
    if config.target is not None:
        kind, key = target_of(config.target)
        if kind == "working":
            add_note(key, summary, context)
        elif kind == "episodic":
            add_episode(summary, context)
        else:
            add_fact(SUBJECT, summary, context)
    return [{"role": SUBJECT, "text": summary}]


SUMMARY_CONSOLIDATOR = declare(
    "summary_consolidator",
    "Makes one short message of many.",
    _Consolidator,
    _consolidator,
    inputs={"in": "messages"},
    output="messages",
    emits=(
        "memory_consolidated",
        "memory_write",
        "memory_write_skipped",
        "redaction_applied",
    ),
    traits=frozenset({"memory"}),
)

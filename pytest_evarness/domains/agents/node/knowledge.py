"""What a prompt is made from: ranked documents, remembered turns, a context within its budget."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.core.vocabulary import approximate_tokens
from pytest_evarness.domains.agents.environment.base import VIAS
from pytest_evarness.domains.agents.gateway import documents_of
from pytest_evarness.domains.agents.node.citation import Sources
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import cut_to_tokens, joined, text_of
from pytest_evarness.domains.agents.words import overlap
from pytest_evarness.source.model import Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.domains.agents.state import RunState

__all__ = ["CONTEXT_ASSEMBLER", "CONVERSATION_BUFFER", "RETRIEVER", "Lost", "score_of"]

_SENTENCE = re.compile(r".*?[.!?](?=\s|$)", re.DOTALL)

_Inputs = Mapping[str, list[Any]]


def _documents(values: Sequence[Any], source: str) -> list[dict[str, Any]]:
    return documents_of(list(values), source)


def _tokens(texts: Sequence[str]) -> int:
    return sum(approximate_tokens(text) for text in texts if text)


# -- retrieval ---------------------------------------------------------------------------------


class _Retriever(Strict):
    top_k: Annotated[int, Field(ge=1)] = 5
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.35


def score_of(document: Mapping[str, Any], query: str) -> float:
    """The document's ``score_hint``, else the share of the query's words that it holds."""
    hint = document.get("score_hint")
    if isinstance(hint, int | float) and not isinstance(hint, bool):
        return float(hint)
    return overlap(query, f"{document['subject']} {document['text']}")


def _retriever(inputs: _Inputs, config: _Retriever, context: Context) -> list[dict[str, Any]]:
    state = state_of(context)
    documents = _documents(inputs.get("in", []), context.node_id)
    # Without a query of its own the retriever ranks by what the user asked.
    asked = inputs.get("query")
    query = joined(asked) if asked else str(state.environment.get("user_input", ""))
    ranked = sorted(
        ((score_of(document, query), document) for document in documents),
        key=lambda pair: (-pair[0], pair[1]["id"]),
    )
    kept = [pair for pair in ranked if pair[0] >= config.min_score][: config.top_k]
    found = [{**document, "score": score} for score, document in kept]
    markers = state.markers("document")
    for index, marker in enumerate(markers.values()):
        if found:
            found[0]["text"] = f"{found[0]['text']}\n{marker}"
        else:
            found.append({"id": f"attack-{index}", "subject": "", "text": marker, "score": 0.0})
    payload: dict[str, Any] = {
        "top_k": config.top_k,
        "candidates": len(documents),
        "returned": len(found),
        "scores": [document["score"] for document in found],
        "ids": [document["id"] for document in found],
    }
    if markers:
        payload["injected"] = list(markers)
    payload |= state.markers_in(document["text"] for document in found)
    context.emit("retrieval_performed", payload)
    return found


RETRIEVER = declare(
    "retriever",
    "Ranks documents and keeps the best.",
    _Retriever,
    _retriever,
    inputs={"in": "documents", "query": "text"},
    output="documents",
    emits=("retrieval_performed",),
    traits=frozenset({"retrieval"}),
)


# -- memory ------------------------------------------------------------------------------------


class _ConversationBuffer(Strict):
    window: Annotated[int, Field(ge=1)] = 12
    token_cap: Annotated[int, Field(ge=1)] = 2000


def _first_within(sizes: Sequence[int], cap: int) -> tuple[int, int]:
    """The oldest turn that is kept, and the tokens from there on: the oldest goes first."""
    first, tokens = 0, sum(sizes)
    while tokens > cap:
        tokens -= sizes[first]
        first += 1
    return first, tokens


def _conversation_buffer(
    inputs: _Inputs, config: _ConversationBuffer, context: Context
) -> list[dict[str, Any]]:
    del inputs
    state = state_of(context)
    turns = [dict(turn) for turn in state.environment.get("memory") or []]
    markers = state.markers("memory")
    turns += ({"role": "user", "text": marker} for marker in markers.values())
    turns = turns[-config.window :]
    sizes = [approximate_tokens(turn["text"]) for turn in turns]
    first, tokens = _first_within(sizes, config.token_cap)
    kept = turns[first:]
    payload: dict[str, Any] = {"turns": len(kept), "tokens": tokens}
    # The markers are the newest turns: what is forgotten of them is their beginning.
    injected = list(markers)[max(0, len(markers) - len(kept)) :]
    if injected:
        payload["injected"] = injected
    context.emit("memory_read", payload)
    return kept


CONVERSATION_BUFFER = declare(
    "conversation_buffer",
    "Hands over the last turns of the conversation.",
    _ConversationBuffer,
    _conversation_buffer,
    inputs={},
    output="messages",
    emits=("memory_read",),
    traits=frozenset({"memory"}),
)


# -- context -----------------------------------------------------------------------------------


class _ContextAssembler(Strict):
    system: str = ""
    overflow: Literal["truncate_retrieved", "summarize_retrieved", "drop_lowest_score", "error"] = (
        "truncate_retrieved"
    )
    reserve_for_response: Annotated[int, Field(ge=0)] = 512


def _cut(documents: list[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """In order; the document that does not fit is cut, those behind it are dropped."""
    kept = []
    for document in documents:
        text = cut_to_tokens(document["text"], room)
        if document["text"] and not text:
            break
        kept.append({**document, "text": text})
        room -= _tokens([text])
        if text != document["text"]:
            break
    return kept


def _summarise(documents: list[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """The first sentence of each; what still does not fit is cut."""
    short = []
    for document in documents:
        found = _SENTENCE.match(document["text"])
        short.append({**document, "text": found.group() if found is not None else document["text"]})
    return _cut(short, room)


def _drop(documents: list[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Whole documents only; the lowest score goes first, of equal ones the later."""
    sizes = [_tokens([document["text"]]) for document in documents]
    tokens = sum(sizes)
    dropped: set[int] = set()
    order = range(len(documents))
    for index in sorted(order, key=lambda index: (_rank(documents[index]), -index)):
        if tokens <= room:
            break
        tokens -= sizes[index]
        dropped.add(index)
    return [document for index, document in enumerate(documents) if index not in dropped]


def _rank(document: Mapping[str, Any]) -> float:
    # The row of a tool may have a column of that name, and anything in it.
    score = document.get("score")
    return score if isinstance(score, int | float) and not isinstance(score, bool) else 0.0


_OVERFLOWS = {
    "truncate_retrieved": _cut,
    "summarize_retrieved": _summarise,
    "drop_lowest_score": _drop,
}


@dataclass(slots=True)
class Lost:
    """Markers of attacks that a context had no room for, and the node that cut them away."""

    nodes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, state: RunState) -> Self:
        """At the start of a run."""
        del state
        return cls()

    def leftovers(self) -> list[str]:
        """One sentence for each: the run says nothing of what a model makes of it."""
        return [
            f"{label}: its marker was cut away by {node} for want of room"
            for label, node in sorted(self.nodes.items())
        ]


def _cut_markers(
    before: Sequence[Mapping[str, Any]], after: Iterable[str], context: Context
) -> list[str]:
    """The attacks whose marker stood in a document, and stands nowhere in the context."""
    state, left = state_of(context), list(after)
    lost = [
        label
        for via in VIAS
        for label, marker in state.markers(via).items()
        if any(marker in document["text"] for document in before)
        and not any(marker in text for text in left)
    ]
    state.part(Lost).nodes |= dict.fromkeys(lost, context.node_id)
    return sorted(lost)


def _context_assembler(
    inputs: _Inputs, config: _ContextAssembler, context: Context
) -> dict[str, Any]:
    budget = max(0, context.graph.params.context_budget_tokens - config.reserve_for_response)
    question = joined(inputs.get("question", []))
    memory = [_turn(value) for value in inputs.get("memory", [])]
    documents = _documents(inputs.get("documents", []), context.node_id)
    segments: dict[str, int] = {
        "system": _tokens([config.system]),
        "memory": _tokens([turn["text"] for turn in memory]),
        "documents": _tokens([document["text"] for document in documents]),
        "question": _tokens([question]),
    }
    room = budget - (segments["system"] + segments["memory"] + segments["question"])
    kept = documents
    if segments["documents"] > room:
        if config.overflow == "error" or room < 0:
            _breach(sum(segments.values()), budget, context)
        kept = _OVERFLOWS[config.overflow](documents, room)
        segments["documents"] = _tokens([document["text"] for document in kept])
    whole = {(document["id"], document["text"]) for document in documents}
    untouched = sum((document["id"], document["text"]) in whole for document in kept)
    ids = [document["id"] for document in kept]
    payload: dict[str, Any] = {
        "segments": segments,
        "total_tokens": sum(segments.values()),
        "budget": budget,
        "truncated_docs": len(documents) - untouched,
        "ids": ids,
    }
    texts = [config.system, question, *(one["text"] for one in (*memory, *kept))]
    lost = _cut_markers(documents, texts, context)
    if lost:
        payload["cut_markers"] = lost
    payload |= state_of(context).markers_in(texts)
    context.emit("context_snapshot", payload)
    state_of(context).part(Sources).ids = ids
    return {"system": config.system, "memory": memory, "documents": kept, "question": question}


def _turn(value: Any) -> dict[str, str]:
    role = value.get("role") if isinstance(value, Mapping) else None
    return {"role": role if isinstance(role, str) else "memory", "text": text_of(value)}


def _breach(tokens: int, budget: int, context: Context) -> None:
    context.emit(
        "budget_breached", {"budget": "context_tokens", "limit": budget, "total_tokens": tokens}
    )
    raise NodeBlocked(f"context_assembler: {tokens} tokens do not fit into {budget}")


CONTEXT_ASSEMBLER = declare(
    "context_assembler",
    "Puts question, documents and memory into one context within the budget.",
    _ContextAssembler,
    _context_assembler,
    inputs={"question": "text", "documents": "documents", "memory": "messages"},
    output="context",
    emits=("context_snapshot", "budget_breached"),
)

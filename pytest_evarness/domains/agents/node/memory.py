"""What a harness remembers: notes of a task, episodes, facts, instructions.

Each node hands over what its memory holds for the text that arrives, then writes what the text
gives it to remember; so no node hands over what it has just written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.core.vocabulary import approximate_tokens
from pytest_evarness.domains.agents.flow import instructing
from pytest_evarness.domains.agents.memory import (
    DEFAULT_KEY,
    Entry,
    Memories,
    digest_of_subject,
    ranked,
    salience_of,
    stated_facts,
    stated_instructions,
)
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.personal import redact, tell_redaction
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import (
    digest_of_text,
    digest_of_value,
    forwarded,
    joined,
)
from pytest_evarness.source.model import Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context, NodeType

__all__ = [
    "EPISODIC_MEMORY",
    "PROCEDURAL_MEMORY",
    "ROLES",
    "SEMANTIC_MEMORY",
    "WORKING_MEMORY",
    "Conflict",
    "add_episode",
    "add_fact",
    "add_note",
]

Conflict = Literal["latest_wins", "keep_first", "keep_all", "block"]

ROLES = {
    "working": "note",
    "episodic": "episode",
    "semantic": "fact",
    "procedural": "instruction",
}
"""The role of the messages that each kind of memory hands over."""

_Inputs = Mapping[str, list[Any]]
_Messages = list[dict[str, Any]]


def _hand_over(
    kind: str, entries: Iterable[Entry], context: Context, key: str | None = None
) -> _Messages:
    """Entries as messages; what an attack planted in memory comes last, as one of them."""
    state = state_of(context)
    state.part(Memories).note_read(kind)
    role = ROLES[kind]
    messages = [{"role": role, "id": entry.id, "text": entry.said} for entry in entries]
    markers = state.markers("memory")
    messages += (
        {"role": role, "id": f"attack-{index}", "text": marker}
        for index, marker in enumerate(markers.values())
    )
    payload: dict[str, Any] = {
        "memory": kind,
        "turns": len(messages),
        "tokens": sum(approximate_tokens(one["text"]) for one in messages),
        "ids": [one["id"] for one in messages],
    }
    if key is not None:
        payload["key"] = key
    if markers:
        payload["injected"] = list(markers)
    context.emit("memory_read", payload)
    return messages


def _wrote(kind: str, entry: Entry, context: Context, **more: Any) -> None:
    context.emit(
        "memory_write",
        {
            "memory": kind,
            "id": entry.id,
            "text": entry.text,
            "tokens": approximate_tokens(entry.text),
            **more,
        },
    )


def _skipped(kind: str, reason: str, context: Context, **more: Any) -> None:
    context.emit("memory_write_skipped", {"memory": kind, "reason": reason, **more})


# -- working memory ------------------------------------------------------------------------------


class _Working(Strict):
    key: Annotated[str, Field(min_length=1)] = DEFAULT_KEY


def add_note(key: str, text: str, context: Context) -> None:
    """Write a note under a key of the working memory."""
    memories = state_of(context).part(Memories)
    entry = Entry(memories.new_id("working", context.node_id), text)
    memories.add("working", entry, key)
    _wrote("working", entry, context, key=key)


def _working(inputs: _Inputs, config: _Working, context: Context) -> _Messages:
    text = joined(inputs.get("in", []))
    notes = state_of(context).part(Memories).entries("working", config.key)
    found = _hand_over("working", notes, context, config.key)
    if text.strip():
        add_note(config.key, text, context)
    return found


# -- episodic memory -----------------------------------------------------------------------------


class _Episodic(Strict):
    top_k: Annotated[int, Field(ge=1)] = 5
    min_salience: Annotated[float, Field(ge=0, le=1)] = 0.3
    write_policy: Literal["salient", "always", "never"] = "salient"


def add_episode(text: str, context: Context, at_least: float = 0.0) -> None:
    """Write an episode, unless it is known already or has less to say than ``at_least``."""
    memories = state_of(context).part(Memories)
    salience = salience_of(text)
    if salience < at_least:
        _skipped("episodic", "not_salient", context, salience=salience)
    elif memories.knows("episodic", text):
        _skipped("episodic", "known", context, salience=salience)
    else:
        name = memories.new_id("episodic", context.node_id)
        entry = Entry(name, text, salience=salience)
        memories.add("episodic", entry)
        _wrote("episodic", entry, context, salience=salience)


def _episodic(inputs: _Inputs, config: _Episodic, context: Context) -> _Messages:
    text = joined(inputs.get("in", []))
    memories = state_of(context).part(Memories)
    salient = [one for one in memories.entries("episodic") if one.salience >= config.min_salience]
    found = _hand_over("episodic", ranked(salient, text)[: config.top_k], context)
    if text.strip() and config.write_policy != "never":
        add_episode(text, context, config.min_salience if config.write_policy == "salient" else 0.0)
    return found


# -- semantic memory -----------------------------------------------------------------------------


class _Semantic(Strict):
    conflict: Conflict = "latest_wins"
    redact_before_write: bool = True


def add_fact(
    subject: str,
    text: str,
    context: Context,
    *,
    conflict: Conflict = "latest_wins",
    masks: bool = True,
) -> None:
    """Write a fact.

    Raises:
        NodeBlocked: Another fact has the subject, and ``conflict`` is ``block``.
    """
    memories = state_of(context).part(Memories)
    more: dict[str, Any] = {}
    # What is masked is compared as it was, or facts about two people would be one.
    about, states = digest_of_subject(subject), digest_of_text(text)
    if masks:
        # As one text, so that one event tells what was masked; no subject has a line break.
        made = redact(f"{subject}\n{text}")
        subject, _, text = made.text.partition("\n")
        tell_redaction(made, context)
        if made.count:
            more["redacted"] = made.count
    same = memories.about(about)
    if any(entry.text_digest == states for entry in same):
        _skipped("semantic", "known", context, subject=subject)
        return
    if same and conflict in ("keep_first", "block"):
        _skipped("semantic", "conflict", context, subject=subject)
        if conflict == "block":
            raise NodeBlocked(f"semantic_memory: another fact is known of '{subject}'")
        return
    if same and conflict == "latest_wins":
        memories.forget(about)
        more["superseded"] = [entry.id for entry in same]
    name = memories.new_id("semantic", context.node_id)
    entry = Entry(name, text, subject, about=about, states=states)
    memories.add("semantic", entry)
    _wrote("semantic", entry, context, subject=subject, **more)


def _semantic(inputs: _Inputs, config: _Semantic, context: Context) -> _Messages:
    text = joined(inputs.get("in", []))
    memories = state_of(context).part(Memories)
    found = _hand_over("semantic", ranked(memories.entries("semantic"), text), context)
    for subject, statement in stated_facts(text):
        add_fact(
            subject,
            statement,
            context,
            conflict=config.conflict,
            masks=config.redact_before_write,
        )
    return found


# -- procedural memory ---------------------------------------------------------------------------


class _Procedural(Strict):
    write_approval: Literal["human", "none"] = "human"


def _procedural(inputs: _Inputs, config: _Procedural, context: Context) -> _Messages:
    values = inputs.get("in", [])
    memories = state_of(context).part(Memories)
    found = _hand_over("procedural", memories.entries("procedural"), context)
    stated = stated_instructions(joined(values))
    if not stated:
        return found
    if config.write_approval == "none":
        _instruct(stated, context)
        return found
    digest = digest_of_value({"value": forwarded(values)})
    # One use of an approval is for all that the approved text instructs.
    gates = instructing(context.graph, context.overlays, context.node_id)
    rule = state_of(context).authority.use(
        digest, context.clock.now_ms, tool=None, is_about=gates.__contains__
    )
    if rule == "approval":
        _instruct(stated, context, approval=digest)
        return found
    for text in stated:
        entry = Entry(memories.new_id("procedural", context.node_id), text)
        memories.pending.append(entry)
        context.emit(
            "memory_write_pending",
            {
                "memory": "procedural",
                "id": entry.id,
                "text": text,
                "rule": rule or "approval_missing",
                "artifact_digest": digest,
            },
        )
    return found


def _instruct(stated: Iterable[str], context: Context, **more: Any) -> None:
    memories = state_of(context).part(Memories)
    for text in stated:
        if memories.knows("procedural", text):
            _skipped("procedural", "known", context)
            continue
        entry = Entry(memories.new_id("procedural", context.node_id), text)
        memories.add("procedural", entry)
        _wrote("procedural", entry, context, **more)


def _memory(name: str, doc: str, model: type[Strict], work: Any, *emits: str) -> NodeType:
    return declare(
        name,
        doc,
        model,
        work,
        inputs={"in": "text"},
        output="messages",
        emits=("memory_read", "memory_write", *emits),
        traits=frozenset({"memory"}),
    )


WORKING_MEMORY = _memory(
    "working_memory", "Keeps notes for the rest of the run.", _Working, _working
)
EPISODIC_MEMORY = _memory(
    "episodic_memory",
    "Recalls what happened, and keeps what is worth it.",
    _Episodic,
    _episodic,
    "memory_write_skipped",
)
SEMANTIC_MEMORY = _memory(
    "semantic_memory",
    "Recalls facts, and keeps those that a text states.",
    _Semantic,
    _semantic,
    "memory_write_skipped",
    "redaction_applied",
)
PROCEDURAL_MEMORY = _memory(
    "procedural_memory",
    "Hands over what is followed; what a text instructs waits for a person.",
    _Procedural,
    _procedural,
    "memory_write_skipped",
    "memory_write_pending",
)

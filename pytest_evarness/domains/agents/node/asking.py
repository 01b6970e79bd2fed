"""How nodes ask the scripted judge, and what is said of its script at the end of the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, StringConstraints

from pytest_evarness.core.interfaces import AbstainedError
from pytest_evarness.core.outcome import Cause
from pytest_evarness.domains.agents.bench import (
    MODEL,
    TIMEOUT,
    Answer,
    Bench,
    late_left,
    rule_left,
)
from pytest_evarness.domains.agents.egress import allow_model
from pytest_evarness.domains.agents.score import read_scores, unlike
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import joined
from pytest_evarness.source.number import exact
from pytest_evarness.source.quote import nearest

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Node
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.domains.agents.state import RunState

__all__ = [
    "Names",
    "NodeBench",
    "Said",
    "Silent",
    "ask",
    "judge_names",
    "judged_text",
    "score_schemas",
]

_Name = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]
Names = Annotated[list[_Name], Field(min_length=1, max_length=100), unlike()]
"""Names of judges or of what they score, each of them once."""


@dataclass(frozen=True, slots=True)
class Said:
    """Scores, in the order in which they were asked for.

    Attributes:
        used: The part of an event that tells which rule answered.
    """

    scores: tuple[Fraction, ...]
    used: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Silent:
    """No score.

    Attributes:
        account: The part of an event that tells why.
        used: As of :class:`Said`.
    """

    account: dict[str, Any]
    used: dict[str, Any]


@dataclass(slots=True)
class NodeBench:
    """The script as the nodes of one run read it.

    Attributes:
        judges: What each judge of the graph may be called, and what it scores.
    """

    bench: Bench
    judges: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)

    @classmethod
    def of(cls, state: RunState) -> Self:
        """At the start of a run."""
        return cls(Bench.of(state.environment, state.provider))

    def leftovers(self) -> list[str]:
        """What is for judges of this graph and was not used; nothing where none was asked.

        A check may read the same script behind the run, which nobody knows here. So each sentence
        speaks of the run alone, and what no judge of the graph could use is not spoken of.
        """
        if not self.bench.script.calls and not self.bench.met:
            return []
        left = [
            rule_left(rule, unused, " in the run")
            for rule, unused in self.bench.unused()
            if self._is_for_nodes(self.bench.rules[rule])
        ]
        return left + [late_left(name, " in the run") for name in self.bench.unmet()]

    def _is_for_nodes(self, rule: Any) -> bool:
        wanted = (rule.get("match") or {}).get("judge")
        return any(
            (wanted is None or _is_meant([wanted], names))
            and ("respond" in rule or _is_meant(rule["scores"], dimensions))
            for names, dimensions in self.judges
        )


def _is_meant(written: Iterable[str], known: Iterable[str]) -> bool:
    """Whether a name is one of the graph's, or nearly: a slip is for nobody else."""
    names = [name.casefold() for name in known]
    return any(word.casefold() in names or nearest(word.casefold(), names) for word in written)


def judged_text(inputs: Mapping[str, list[Any]], context: Context) -> str:
    """What a node shows to its judges; they are models, so the egress gate stands before them.

    Raises:
        NodeBlocked: What the run holds must not go to a model.
    """
    text = joined(inputs.get("in", []))
    allow_model(text, context)
    return text


def ask(context: Context, judge: str, dimensions: Sequence[str], text: str) -> Said | Silent:
    """Ask one judge of a node; an answer without a score is none.

    Args:
        context: Of the node; a judge is also known by the node's id.
        judge: Its name.
        dimensions: What it scores.
        text: What is judged.
    """
    kept = state_of(context).part(NodeBench)
    if not kept.judges:
        kept.judges = [entry for node in context.graph.nodes.values() for entry in _judges_of(node)]
    names = tuple(dict.fromkeys((judge, context.node_id)))
    try:
        answer = kept.bench.ask(text, dimensions, names=names)
    except AbstainedError as error:
        account: dict[str, Any] = {"cause": "unscripted", "reason": error.reason}
        if error.cause is Cause.EVALUATOR_ERROR:
            late = kept.bench.late_name((*names, MODEL))
            account = {"cause": "timeout", "reason": error.reason, "injected": [f"{late}{TIMEOUT}"]}
        return Silent(account, {})
    return _read(answer, dimensions)


def _read(answer: Answer, dimensions: Sequence[str]) -> Said | Silent:
    used = {} if answer.rule is None else {"rule": answer.rule}
    if answer.text is None:
        return Said(tuple(exact(answer.scores[name]) for name in dimensions), used)
    read = read_scores(answer.text, dimensions)
    if isinstance(read, str):
        return Silent({"cause": "unreadable", "reason": read}, used)
    return Said(tuple(read), used)


def judge_names(nodes: Iterable[Node]) -> dict[str, frozenset[str]]:
    """What judges of a graph are called, by the places in events that name them."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        for names, _ in _judges_of(node):
            for place in _NAMED[node.type]:
                found.setdefault(place, set()).add(names[0])
    return {place: frozenset(names) for place, names in found.items()}


def score_schemas(nodes: Iterable[Node]) -> dict[str, JsonObject]:
    """The scores that each judge with a rubric gives, as a JSON Schema, by its name."""
    score: JsonObject = {"type": "number", "minimum": 0, "maximum": 1}
    return {
        names[0]: {
            "type": "object",
            "properties": dict.fromkeys(dimensions, score),
            "required": list(dimensions),
            "additionalProperties": False,
        }
        for node in nodes
        if node.type == "llm_judge"
        for names, dimensions in _judges_of(node)
    }


_NAMED = {
    "llm_judge": ("judge_scored.judge", "judge_flagged.judge", "judge_degraded.judge"),
    "judge_chain": (
        "judge_signal.judge",
        "judge_degraded.judge",
        "judge_repaired.judge",
        "judge_exhausted.judge",
        "chain_halted.judge",
    ),
    "judge_panel": ("panel_member_verdict.member",),
}


def _judges_of(node: Node) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The judges of a node: what each may be called, the node's id last, and what it scores."""
    if node.parsed is None:
        return []
    if node.type == "llm_judge":
        return [((node.id,), tuple(node.parsed.rubric))]
    names: Sequence[str] = ()
    if node.type == "judge_chain":
        names = node.parsed.judges
    elif node.type == "judge_panel":
        names = node.parsed.voices
    return [((name, node.id), (name,)) for name in names]

"""A judge of a text by a rubric, and a chain of judges that ask one after the other.

They are part of the harness under test. What they say is an event, never a finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.domains.agents.egress import EGRESS_EVENTS
from pytest_evarness.domains.agents.node.asking import Names, Said, Silent, ask, judged_text
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.score import HALF, mean, shown_score
from pytest_evarness.source.model import Strict
from pytest_evarness.source.number import exact
from pytest_evarness.source.quote import quoted

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["JUDGE_CHAIN", "LLM_JUDGE"]

_Inputs = Mapping[str, list[Any]]


# -- one judge ---------------------------------------------------------------------------------


class _LlmJudge(Strict):
    rubric: Names = Field(default_factory=lambda: ["groundedness", "safety", "tone"])
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    on_fail: Literal["flag", "block"] = "flag"


def _llm_judge(inputs: _Inputs, config: _LlmJudge, context: Context) -> str:
    text = judged_text(inputs, context)
    judge = context.node_id
    said = ask(context, judge, config.rubric, text)
    if isinstance(said, Silent):
        _degraded(context, judge, 1, said)
        if config.on_fail == "block":
            # What was to be looked at was not: nobody knows that it may pass.
            raise NodeBlocked("llm_judge: the judge gave no score")
        return text
    scores = dict(zip(config.rubric, map(shown_score, said.scores), strict=True))
    whole = mean(said.scores)
    scored = {"judge": judge, "scores": scores, "mean": shown_score(whole), **said.used}
    context.emit("judge_scored", scored)
    if whole < exact(config.threshold):
        context.emit(
            "judge_flagged",
            {
                "judge": judge,
                "mean": shown_score(whole),
                "threshold": config.threshold,
                "action": config.on_fail,
            },
        )
        if config.on_fail == "block":
            raise NodeBlocked("llm_judge: the text scores below the threshold")
    return text


def _degraded(context: Context, judge: str, attempt: int, silent: Silent) -> None:
    told = {"judge": judge, "attempt": attempt, **silent.account, **silent.used}
    context.emit("judge_degraded", told)


# -- several, one after the other --------------------------------------------------------------


class _JudgeChain(Strict):
    judges: Names = Field(default_factory=lambda: ["safety", "faithfulness"])
    retry_budget: Annotated[int, Field(ge=0, le=1000)] = 1


def _judge_chain(inputs: _Inputs, config: _JudgeChain, context: Context) -> str:
    text = judged_text(inputs, context)
    left = config.retry_budget
    for judge in config.judges:
        said, attempts = _insist(context, judge, text, left)
        left -= attempts - 1
        if said is None:
            context.emit("judge_exhausted", {"judge": judge, "attempts": attempts})
            _halt(context, judge, "exhausted", "gave no score")
        elif not _passes(context, judge, said):
            _halt(context, judge, "failed", "did not let the text pass")
    finished = {"judges": len(config.judges), "retries": config.retry_budget - left}
    context.emit("judge_chain_finished", finished)
    return text


def _insist(context: Context, judge: str, text: str, retries: int) -> tuple[Said | None, int]:
    """Ask until there is a score or no retry is left; what was said, and how often it was asked."""
    attempt = 1
    while isinstance(said := ask(context, judge, (judge,), text), Silent):
        _degraded(context, judge, attempt, said)
        if attempt > retries:
            return None, attempt
        attempt += 1
    if attempt > 1:
        context.emit("judge_repaired", {"judge": judge, "attempts": attempt})
    return said, attempt


def _passes(context: Context, judge: str, said: Said) -> bool:
    (score,) = said.scores
    passed = score >= HALF
    signal = {"judge": judge, "score": shown_score(score), "passed": passed, **said.used}
    context.emit("judge_signal", signal)
    return passed


def _halt(context: Context, judge: str, reason: str, words: str) -> None:
    context.emit("chain_halted", {"judge": judge, "reason": reason})
    raise NodeBlocked(f"judge_chain: the judge {quoted(judge)} {words}")


LLM_JUDGE = declare(
    "llm_judge",
    "Asks the scripted judge for scores by a rubric.",
    _LlmJudge,
    _llm_judge,
    inputs={"in": "text"},
    output="text",
    emits=("judge_scored", "judge_flagged", "judge_degraded", *EGRESS_EVENTS),
)

JUDGE_CHAIN = declare(
    "judge_chain",
    "Asks judges one after the other; each of them can stop the text.",
    _JudgeChain,
    _judge_chain,
    inputs={"in": "text"},
    output="text",
    emits=(
        "judge_signal",
        "judge_degraded",
        "judge_repaired",
        "judge_exhausted",
        "chain_halted",
        "judge_chain_finished",
        *EGRESS_EVENTS,
    ),
)

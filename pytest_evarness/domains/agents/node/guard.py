"""A guard: detectors that take a text for an attack, and that err as often as they are said to."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.domains.agents.detector import detect
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.score import shown_score, unlike
from pytest_evarness.domains.agents.text import joined
from pytest_evarness.source.model import Strict
from pytest_evarness.source.number import exact

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["LLM_GUARD"]

_Detector = Literal["prompt_injection", "jailbreak"]
_Share = Annotated[float, Field(ge=0, le=1)]


def _default_detectors() -> list[_Detector]:
    return ["prompt_injection", "jailbreak"]


class _LlmGuard(Strict):
    detects: Annotated[list[_Detector], Field(min_length=1), unlike()] = Field(
        default_factory=_default_detectors
    )
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.85
    fp_rate: _Share = 0
    fn_rate: _Share = 0
    on_trigger: Literal["block", "flag"] = "block"


def _llm_guard(inputs: Mapping[str, list[Any]], config: _LlmGuard, context: Context) -> str:
    text = joined(inputs.get("in", []))
    hits = [name for name in config.detects if _is_hit(name, text, config, context)]
    if hits:
        context.emit("guard_triggered", {"detectors": list(hits), "action": config.on_trigger})
        if config.on_trigger == "block":
            raise NodeBlocked(f"llm_guard: the text is taken for an attack ({', '.join(hits)})")
    return text


def _is_hit(name: str, text: str, config: _LlmGuard, context: Context) -> bool:
    reading = detect(name, text)
    is_attack = reading.score >= exact(config.threshold)
    errs = _errs(name, config.fn_rate if is_attack else config.fp_rate, context)
    is_hit = is_attack is not errs
    payload: dict[str, Any] = {
        "detector": name,
        "score": shown_score(reading.score),
        "threshold": config.threshold,
        "signals": list(reading.signals),
        "verdict": "hit" if is_hit else "clear",
    }
    if errs:
        payload["error"] = "false_negative" if is_attack else "false_positive"
    context.emit("guard_evaluated", payload)
    return is_hit


def _errs(name: str, rate: float, context: Context) -> bool:
    """Whether the detector is wrong this time.

    A generator for each detector of each node: neither another node nor the order of a schedule
    moves a draw. A text seed is hashed with SHA-512 by the library, never with hash().
    """
    seed = f"{context.seed}:guard:{context.node_id}:{name}"
    return random.Random(seed).random() < rate  # noqa: S311 - meant to be repeatable


LLM_GUARD = declare(
    "llm_guard",
    "Looks for attacks in a text.",
    _LlmGuard,
    _llm_guard,
    inputs={"in": "text"},
    output="text",
    emits=("guard_evaluated", "guard_triggered"),
)

"""A panel of judges: each member looks by itself, and the votes are counted exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from pytest_evarness.core.interfaces import LintFinding, NodeBlocked
from pytest_evarness.domains.agents.egress import EGRESS_EVENTS
from pytest_evarness.domains.agents.node.asking import Names, Silent, ask, judged_text
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.score import HALF, shown_score
from pytest_evarness.source.model import Strict, refuse
from pytest_evarness.source.number import exact
from pytest_evarness.source.quote import quoted

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Node
    from pytest_evarness.core.interfaces import Context

__all__ = ["JUDGE_PANEL", "idle_keys"]

_MAX_MEMBERS = 100
_KEYS = {"diverse": ("members",), "adversarial": ("skeptics", "quorum")}
"""The keys that have an effect in one mode only."""


class _JudgePanel(Strict):
    mode: Literal["diverse", "adversarial"] = "diverse"
    members: Names = Field(default_factory=lambda: ["groundedness", "safety", "tone"])
    skeptics: Annotated[int, Field(ge=1, le=_MAX_MEMBERS)] = 3
    quorum: Annotated[float, Field(gt=0, le=1)] = 0.5
    min_evaluated: Annotated[int, Field(ge=1, le=_MAX_MEMBERS)] = 2
    on_fail: Literal["block", "flag"] = "block"

    @property
    def voices(self) -> Sequence[str]:
        """The names of the members, skeptics by their number."""
        if self.mode == "diverse":
            return self.members
        return [f"skeptic-{number}" for number in range(1, self.skeptics + 1)]

    @model_validator(mode="after")
    def _can_pass(self) -> _JudgePanel:
        if self.min_evaluated > len(self.voices):
            problem = f"'min_evaluated' {self.min_evaluated} is more than the panel has members"
            raise refuse(problem, rule=f"at most {len(self.voices)}", is_shown=False)
        return self


def _judge_panel(inputs: Mapping[str, list[Any]], config: _JudgePanel, context: Context) -> str:
    text = judged_text(inputs, context)
    verdicts = [_verdict(context, member, text) for member in config.voices]
    survived, refuted = verdicts.count("survived"), verdicts.count("refuted")
    evaluated = survived + refuted
    if evaluated < config.min_evaluated:
        quorum = {"evaluated": evaluated, "min_evaluated": config.min_evaluated}
        context.emit("panel_inquorate", {**quorum, "members": len(verdicts)})
        return _stop_or_hand_on(text, config, "too few members gave an opinion")
    if config.mode == "diverse":
        passed = refuted == 0
    else:
        passed = Fraction(survived, evaluated) >= exact(config.quorum)
    votes = {"for": survived, "against": refuted, "abstained": len(verdicts) - evaluated}
    context.emit("panel_verdict", {"passed": passed, "evaluated": evaluated, "votes": votes})
    return text if passed else _stop_or_hand_on(text, config, "the text did not survive")


def _verdict(context: Context, member: str, text: str) -> str:
    said = ask(context, member, (member,), text)
    told: dict[str, Any] = {"member": member, "verdict": "abstained", **said.used}
    if isinstance(said, Silent):
        told |= said.account
    else:
        (score,) = said.scores
        told |= {
            "verdict": "survived" if score >= HALF else "refuted",
            "score": shown_score(score),
        }
    context.emit("panel_member_verdict", told)
    return str(told["verdict"])


def _stop_or_hand_on(text: str, config: _JudgePanel, why: str) -> str:
    if config.on_fail == "block":
        raise NodeBlocked(f"judge_panel: {why}")
    return text


def idle_keys(node: Node, path: tuple[str | int, ...]) -> list[LintFinding]:
    """Remarks on keys of a panel that say nothing in its mode.

    Args:
        node: A panel.
        path: Of the node, from the root of the graph.
    """
    mode = node.config.get("mode", "diverse")
    return [
        LintFinding(
            "warning",
            "inert_key",
            f"the key has no effect in mode {quoted(str(mode))} (got {quoted(key)})",
            (*path, "config", key),
            node.id,
            fix=f"remove it, or write 'mode: {other}'",
        )
        for other, keys in _KEYS.items()
        if mode in _KEYS and other != mode
        for key in keys
        if key in node.config
    ]


JUDGE_PANEL = declare(
    "judge_panel",
    "Asks the members of a panel and counts their votes.",
    _JudgePanel,
    _judge_panel,
    inputs={"in": "text"},
    output="text",
    emits=("panel_member_verdict", "panel_inquorate", "panel_verdict", *EGRESS_EVENTS),
)

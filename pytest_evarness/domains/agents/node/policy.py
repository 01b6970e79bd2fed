"""Holds a text against forbidden terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pytest_evarness.core.disguise import one_line
from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import joined
from pytest_evarness.source.model import Strict

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["POLICY_GATE", "forbidden_term"]


class _PolicyGate(Strict):
    deny: list[Annotated[str, Field(pattern=r"\S")]] = Field(default_factory=list)
    mode: Literal["enforce", "warn"] = "enforce"


def forbidden_term(text: str, terms: Iterable[str]) -> str | None:
    """The first of the terms that stands in ``text``, however it is spelled and without case."""
    folded = text.casefold()
    plain = one_line(text).casefold()
    for term in terms:
        # A term of blanks alone has no plain form, and an empty one would stand in every text.
        sought = one_line(term).casefold()
        if term.casefold() in folded or (sought and sought in plain):
            return term
    return None


def _policy_gate(inputs: Mapping[str, list[Any]], config: _PolicyGate, context: Context) -> str:
    text = joined(inputs.get("in", []))
    term = forbidden_term(text, [*config.deny, *state_of(context).blocklist()])
    stops = config.mode == "enforce"
    verdict = "allow" if term is None else "deny" if stops else "warn"
    context.emit("policy_checked", {"verdict": verdict, "term": term})
    if term is not None and stops:
        raise NodeBlocked(f"policy_gate: the text holds the forbidden term '{term}'")
    return text


POLICY_GATE = declare(
    "policy_gate",
    "Stops a text that holds a forbidden term.",
    _PolicyGate,
    _policy_gate,
    inputs={"in": "text"},
    output="text",
    emits=("policy_checked",),
)

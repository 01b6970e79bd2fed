"""Replaces personal data of chosen kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, field_validator

from pytest_evarness.domains.agents.extension import REDACTION_RULE
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.personal import redact, tell_redaction
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import joined
from pytest_evarness.domains.agents.vocabulary import PERSONAL
from pytest_evarness.source.model import Absent, Strict, refuse

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["REDACTION_RULES"]


def _default_rules() -> list[str]:
    return ["ssn", "email", "phone", "credit_card"]


class _RedactionRules(Strict):
    rules: Annotated[list[str], Field(min_length=1)] = Field(default_factory=_default_rules)
    mask: Absent[str] = None

    @field_validator("mask")
    @classmethod
    def _hides(cls, value: str) -> str:
        # Beside other digits such a mask could look like a datum again, or make one.
        if any(char.isdigit() or char == "@" for char in value):
            raise refuse("looks like what it is to hide", rule="a text without digits and '@'")
        return value


def _redaction_rules(
    inputs: Mapping[str, list[Any]], config: _RedactionRules, context: Context
) -> str:
    state = state_of(context)
    extra = {
        name: state.extension(REDACTION_RULE, name) for name in config.rules if name not in PERSONAL
    }
    made = redact(joined(inputs.get("in", [])), config.rules, mask=config.mask, extra=extra)
    tell_redaction(made, context)
    return made.text


REDACTION_RULES = declare(
    "redaction_rules",
    "Replaces personal data.",
    _RedactionRules,
    _redaction_rules,
    inputs={"in": "text"},
    output="text",
    emits=("redaction_applied",),
)

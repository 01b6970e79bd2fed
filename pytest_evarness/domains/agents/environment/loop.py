"""The key ``react``: what the model of a loop decides, turn by turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from pytest_evarness.core.interfaces import EnvironmentKey
from pytest_evarness.domains.agents.environment.rule import (
    Match,
    Respond,
    Times,
    parse_rules,
    schema_of,
)
from pytest_evarness.source.model import Absent, Strict, refuse

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json
    from pytest_evarness.errors import Fault

__all__ = ["asked_tools", "loop_keys"]


def _check_input(value: object) -> object:
    if not isinstance(value, str | Mapping):
        raise refuse(
            "must be what the tool is given",
            rule="a text, which is the argument 'query', or a mapping of arguments",
        )
    return value


_Input = Annotated[str | dict[str, Any], BeforeValidator(_check_input)]


class _Action(Strict):
    tool: Annotated[str, Field(min_length=1)]
    input: _Input


class _ReactRule(Strict):
    match: Absent[Match] = None
    action: Absent[_Action] = None
    respond: Absent[Respond] = None
    times: Absent[Times] = None

    @model_validator(mode="after")
    def _one(self) -> _ReactRule:
        if len({"action", "respond"} & self.model_fields_set) != 1:
            raise refuse("must hold exactly one decision", rule="action or respond")
        return self


def _parse_react(value: Json) -> tuple[Json, list[Fault]]:
    return parse_rules(_ReactRule, value)


def asked_tools(rules: Any) -> set[str]:
    """Every name of a tool that rules of ``react`` ask for."""
    found = {rule["action"]["tool"] for rule in rules or () if "action" in rule}
    responses = [rule["respond"] for rule in rules or () if "respond" in rule]
    return found | {one["tool_call"]["tool"] for one in responses if "tool_call" in one}


def loop_keys() -> tuple[EnvironmentKey, ...]:
    """The keys that loops read."""
    return (
        EnvironmentKey(
            "react",
            "What the simulated model of a loop decides; each rule is used once.",
            _parse_react,
            schema_of(list[_ReactRule]),
        ),
    )

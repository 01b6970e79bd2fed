"""What the scenario says that the model of a loop decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pytest_evarness.core.interfaces import EnvironmentExhausted
from pytest_evarness.domains.agents.script import Script

if TYPE_CHECKING:
    from pytest_evarness.domains.agents.script import Call
    from pytest_evarness.domains.agents.state import RunState

__all__ = ["React"]


class React:
    """The rules of ``react``, which all loops of a run share."""

    def __init__(self, script: Script) -> None:
        self._script = script

    @classmethod
    def of(cls, state: RunState) -> Self:
        """At the start of a run."""
        return cls(Script("react", state.environment.get("react") or [], is_once=True))

    def leftovers(self) -> list[str]:
        """Decisions that no loop came to."""
        return self._script.leftovers()

    def answer(self, call: Call) -> Mapping[str, Any]:
        """The next decision, in the form in which every model answers.

        Raises:
            EnvironmentExhausted: No rule is left for what the model reads.
        """
        rule = self._script.take(call)
        if rule is None:
            script = self._script
            raise EnvironmentExhausted("react", script.scripted, script.calls, script.misfit())
        if "respond" in rule:
            respond: Mapping[str, Any] = rule["respond"]
            return respond
        given = rule["action"]["input"]
        args = {"query": given} if isinstance(given, str) else given
        return {"tool_call": {"tool": rule["action"]["tool"], "args": args}}

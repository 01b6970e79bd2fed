"""A step of the user's own harness, called as it is."""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from pytest_evarness.core.c1 import copied
from pytest_evarness.core.execution import CUSTOM_TRAIT
from pytest_evarness.core.vocabulary import is_custom_type
from pytest_evarness.domains.agents.node.declare import ANY, declare
from pytest_evarness.source.model import Strict, refuse

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.interfaces import Clock, Context
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["PYTHON", "StepContext"]

_CALLABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")


class _Python(Strict):
    callable: str
    config: dict[str, Any] = Field(default_factory=dict)

    @field_validator("callable")
    @classmethod
    def _named(cls, value: str) -> str:
        # The module is imported only when the node runs: reading a file runs nobody's code.
        if not _CALLABLE.match(value):
            module, _, function = value.rpartition(".")
            near = f"{module}:{function}"
            raise refuse(
                "names no function",
                rule="package.module:function",
                fix=f"write '{near}'" if _CALLABLE.match(near) else None,
            )
        return value


class StepContext:
    """What the user's step may touch. It can neither speak for a gate nor rewrite an event."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def node_id(self) -> str:
        """The node that runs."""
        return self._context.node_id

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self._context.seed

    @property
    def random(self) -> random.Random:
        """The run's seeded generator."""
        return self._context.random

    @property
    def clock(self) -> Clock:
        """Simulated time."""
        return self._context.clock

    @property
    def params(self) -> JsonObject:
        """``environment.params``."""
        return self._context.params

    @property
    def services(self) -> Mapping[str, Any]:
        """Reachable services by name."""
        return self._context.services

    @property
    def workspace(self) -> Path | None:
        """The run's own folder; None where the scenario declares none."""
        return self._context.workspace

    def run(
        self,
        command: str | Sequence[str],
        *,
        seconds: float = 30.0,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> Any:
        """Run a command in the workspace and wait for its end.

        Args:
            command: A line for ``bash -o pipefail -c`` (``sh -c`` without bash), or program and
                words.
            seconds: After which all of it is killed.
            env: Variables beside ``PATH`` and where services are: ``<NAME>_URL``, ``<NAME>_PATH``.
            stdin: What it may read.

        Returns:
            ``exit_code`` (None after a signal or at the limit), ``signal``, ``timed_out``,
            ``stdout``, ``stderr``.

        Raises:
            ValueError: The scenario declares no workspace and no service.
            RuntimeError: The command could not be started.
        """
        return self._context.run(command, seconds=seconds, env=env, stdin=stdin)

    def events(self) -> Sequence[TraceEvent]:
        """Everything emitted so far, as copies."""
        return self._context.events()

    def emit(self, type: str, payload: JsonObject) -> int:  # noqa: A002 - the event's own field
        """Emit an event of a type ``custom.<name>`` and return its ``seq``.

        Raises:
            ValueError: Any other type: kernel and domain events come from their own nodes.
            DeterminismError: A value that two JSON readers would disagree on.
        """
        if not is_custom_type(type):
            raise ValueError(f"a python node emits only types custom.NAME (got '{type}')")
        return self._context.emit(type, payload)


def _load(config: _Python) -> Any:
    module, _, path = config.callable.partition(":")
    function: Any = importlib.import_module(module)
    for name in path.split("."):
        function = getattr(function, name)
    return function


def _python(inputs: Mapping[str, list[Any]], config: _Python, context: Context) -> Any:
    function = _load(config)
    # Copies in and out: a step that keeps what it was given changes nothing behind its back.
    given = {port: copied(values, f"inputs.{port}") for port, values in inputs.items()}
    result = function(given, copied(config.config, "config"), StepContext(context))
    return copied(result, "result")


PYTHON = declare(
    "python",
    "Calls a function of the user's own harness.",
    _Python,
    _python,
    inputs={"in": ANY},
    output=ANY,
    emits=("http_request",),
    traits=frozenset({CUSTOM_TRAIT}),
    prepare=_load,
    module_of=lambda config: config.callable.partition(":")[0],
)

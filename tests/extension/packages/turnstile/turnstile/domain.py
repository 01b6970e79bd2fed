"""What the kernel asks about machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.domain import PlainDomain
from pytest_evarness.core.interfaces import EnvironmentExhausted, EnvironmentKey
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.trace import TraceEvent

_SIGNALS = "machine signals"


class Machine:
    """The state of one run."""

    def __init__(self, signals: Sequence[str]) -> None:
        self.state = ""
        self._signals = tuple(signals)
        self._taken = 0

    def take(self) -> str:
        """The next signal."""
        if self._taken == len(self._signals):
            raise EnvironmentExhausted("signals", len(self._signals), self._taken + 1)
        self._taken += 1
        return self._signals[self._taken - 1]

    def left(self) -> list[str]:
        """Signals that nobody took, in words."""
        return [f"signal {signal}" for signal in self._signals[self._taken :]]


def _parse_signals(value: Json) -> tuple[Json, list[Fault]]:
    if isinstance(value, list) and all(isinstance(one, str) and one for one in value):
        return value, []
    return None, [Fault((), "must be a list of signals", rule="texts such as [coin, push]")]


class MachineDomain(PlainDomain):
    """Machines and their signals."""

    name = "machine"
    counted = frozenset({_SIGNALS})

    def environment_keys(self) -> Sequence[EnvironmentKey]:
        """The signals, in the order in which they come."""
        return (
            EnvironmentKey(
                "signals",
                "What comes in, in order.",
                _parse_signals,
                {"type": "array", "items": {"type": "string"}},
            ),
        )

    def check_case(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> list[Fault]:
        """A signal that no transition of the machine listens to."""
        del overlays
        known = _listened(graph)
        given: Any = environment.get("signals") or []
        return [
            Fault(
                ("signals", index),
                "nothing listens to it",
                got=f"'{signal}'",
                rule=f"signals of this machine: {', '.join(sorted(known))}",
            )
            for index, signal in enumerate(given)
            if known and signal not in known
        ]

    def start(self, context: Context) -> Machine:
        """A machine that has not begun."""
        given: Any = context.environment.get("signals") or []
        return Machine(given)

    def leftovers(self, state: Any) -> list[str]:
        """Signals that nobody took."""
        return [] if state is None else list(state.left())

    def identities(
        self, graph: Graph, environment: JsonObject, overlays: JsonObject
    ) -> Mapping[str, frozenset[str]]:
        """The states that can be entered at all."""
        return {
            **super().identities(graph, environment, overlays),
            "machine_entered.state": frozenset(
                str(node.config["to"])
                for node in graph.nodes.values()
                if node.type == "transition" and "to" in node.config
            ),
        }

    def coverage(self, graph: Graph, environment: JsonObject) -> Mapping[str, Sequence[str]]:
        """Every signal that a transition listens to."""
        del environment
        return {_SIGNALS: sorted(_listened(graph))}

    def exercised(self, graph: Graph, events: Sequence[TraceEvent]) -> Mapping[str, frozenset[str]]:
        """Signals that moved the machine."""
        del graph
        return {
            _SIGNALS: frozenset(
                str(event["payload"]["signal"])
                for event in events
                if event["type"] == "machine_entered"
            )
        }


def _listened(graph: Graph) -> set[str]:
    return {
        str(node.config["on"])
        for node in graph.nodes.values()
        if node.type == "transition" and "on" in node.config
    }

"""How a run is classified, and the gate that what it holds must pass before it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.vocabulary import CLASSIFICATIONS

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.domains.agents.extension import Classified
    from pytest_evarness.domains.agents.state import RunState

__all__ = [
    "DESTINATIONS",
    "EGRESS_EVENTS",
    "MODES",
    "Egress",
    "allow_model",
    "allow_tool",
    "classification_of",
    "is_at_least",
    "is_legal",
]

DESTINATIONS: Final = ("sim", "local", "cloud", "network")
"""Where a text can go, from the process itself to anywhere."""

MODES: Final = ("off", "warn", "enforce")
"""What the gate does, from nothing to stopping."""

EGRESS_EVENTS: Final = ("content_classified", "egress_checked", "egress_denied")
"""What a node that passes the gate may emit."""

_LEGAL: Final[Mapping[str, tuple[str, ...]]] = {
    "public": DESTINATIONS,
    "internal": ("sim", "local"),
    "personal": ("sim", "local"),
    "secret": (),
}


def is_at_least(classification: str, other: str) -> bool:
    """Whether a class is ``other`` or above it."""
    return CLASSIFICATIONS.index(classification) >= CLASSIFICATIONS.index(other)


def is_legal(classification: str, destination: str) -> bool:
    """Whether what is classified so may go there."""
    return destination in _LEGAL[classification]


@dataclass(slots=True)
class Egress:
    """The classification of one run, and its gate.

    Attributes:
        classification: The high-water mark; it rises and never falls.
        mode: Of the strictest classifier that ran; ``off`` before any did. So it does not matter
            which of two independent ones ran first.
        destination: Where the model of the run is.
        has_tiers: Whether the scenario describes tiers.
        is_routed: Whether a router chose among them.
        classifiers: Those that armed the gate, by name.
    """

    classification: str = "public"
    mode: str = "off"
    destination: str = "sim"
    has_tiers: bool = False
    is_routed: bool = False
    classifiers: dict[str, Callable[[str], Classified]] = field(default_factory=dict)

    @classmethod
    def of(cls, state: RunState) -> Self:
        """At the start of a run: public, and nothing is checked."""
        return cls(has_tiers="tiers" in state.environment)

    def leftovers(self) -> list[str]:
        """Tiers among which nobody chose."""
        unused = self.has_tiers and not self.is_routed
        return ["tiers: no tier router chose among them"] if unused else []

    def classify(self, classification: str, mode: str) -> None:
        """Raise the mark, and arm the gate."""
        if is_at_least(classification, self.classification):
            self.classification = classification
        self.mode = max(self.mode, mode, key=MODES.index)

    def look(self, text: str, context: Context) -> None:
        """Raise the mark where a text that is about to leave holds more than the run did so far.

        What a tool brought, a memory held or a prompt adds stood before no classifier.
        """
        for name in sorted(self.classifiers):
            made = self.classifiers[name](text)
            if is_at_least(self.classification, made.classification):
                continue
            self.classification = made.classification
            context.emit(
                "content_classified",
                {
                    "classification": made.classification,
                    "signals": list(made.signals),
                    "run_classification": made.classification,
                },
            )

    def allow(
        self, destination: str, text: str, named: Mapping[str, str], context: Context
    ) -> bool:
        """Let pass or refuse ``text``, which is about to go to ``destination``; True lets pass.

        ``verdict`` says what happens: a warning lets pass, so it is an ``allow``.
        """
        if self.mode == "off":
            return True
        self.look(text, context)
        legal = is_legal(self.classification, destination)
        passes = legal or self.mode == "warn"
        payload: dict[str, Any] = {
            "destination": destination,
            "classification": self.classification,
            "verdict": "allow" if passes else "deny",
            **named,
        }
        if passes and not legal:
            payload["warned"] = True
        context.emit("egress_checked", payload)
        if not passes:
            self.deny(destination, named, context)
        return passes

    def deny(self, destination: str, named: Mapping[str, str], context: Context) -> None:
        """Say that something did not leave."""
        payload = {"destination": destination, "classification": self.classification, **named}
        context.emit("egress_denied", payload)


def classification_of(context: Context) -> str:
    """The classification of the run so far."""
    return state_of(context).part(Egress).classification


def allow_model(text: str, context: Context) -> None:
    """The gate before a model call; the model is where the tier in force says, else simulated.

    Args:
        text: All that the model is shown.
        context: Of the node.

    Raises:
        NodeBlocked: What the run holds must not go there.
    """
    state = state_of(context)
    egress = state.part(Egress)
    if not egress.allow(egress.destination, text, {"provider": state.provider}, context):
        raise NodeBlocked(
            f"egress: what is {egress.classification} must not go to {egress.destination}"
        )


def allow_tool(tool: str, args: Mapping[str, Any], context: Context, *, is_outbound: bool) -> bool:
    """The gate before a tool call: what may go out is the network, everything else is local."""
    egress = state_of(context).part(Egress)
    destination = "network" if is_outbound else "local"
    return egress.allow(destination, "\n".join(_leaves(args)), {"tool": tool}, context)


def _leaves(value: Any) -> Iterator[str]:
    """Every text, key and number of a JSON value."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield key
            yield from _leaves(value[key])
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            yield from _leaves(one)
    else:
        yield str(value)

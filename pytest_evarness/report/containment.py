"""What stopped a run, and whether the end state says the same as the gates.

A rule is *preventive* in a case whose graph has every enforcement that it names, else
*detection-only*. That a gate refused a call is one account; that nothing of the call is in the
ledger, the journals, the tables and the files is another, and only both together show that it was
prevented.

Source: docs/verdicts.md, "Preventive and detection-only".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.sources import accounts, disagreements
from pytest_evarness.core.json import shown

if TYPE_CHECKING:
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["Agreement", "agreement_of", "label_line", "refusals"]

PREVENTIVE = "preventive"
_CODE = "python"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether gates and end state tell one story.

    Attributes:
        holds: True where they do, False where they contradict each other, None where there is no
            end state to confirm anything by.
        lines: Each a sentence without a full stop: the execution path, then the world.
    """

    holds: bool | None
    lines: tuple[str, ...]

    @property
    def line(self) -> str:
        """The answer in one line."""
        word = {
            True: "gate and world agree",
            False: "gate and world DISAGREE",
            None: "gate and world: cannot be told",
        }[self.holds]
        return f"{word}: {'; '.join(self.lines)}"


def label_line(item: PlannedItem, label: str) -> str:
    """What the label means here."""
    named = ", ".join(item.enforced_by)
    if label == PREVENTIVE:
        return f"preventive: every enforcement that the rule names is active here ({named})"
    if named:
        return f"detection-only: not every enforcement that the rule names is active here ({named})"
    return "detection-only: the rule names nothing that would have stopped it"


def refusals(events: Sequence[TraceEvent]) -> Iterator[tuple[int, str, str | None]]:
    """``(seq, what, capability)`` of each call that was refused before it did anything."""
    for event in events:
        payload: Any = event["payload"]
        if event["type"] == "policy_decision" and payload.get("decision") == "deny":
            capability = str(payload.get("capability"))
            yield event["seq"], f"{capability} ({payload.get('rule')})", capability
        elif event["type"] == "tool_error" and payload.get("phase") == "validate":
            tool = str(payload.get("tool"))
            yield event["seq"], f"{tool} (arguments)", None
        elif event["type"] == "approval_rejected":
            yield event["seq"], "a person rejected", None


def agreement_of(events: Sequence[TraceEvent], world: Mapping[str, Any]) -> Agreement:
    """Hold what the gates did against what the world is like."""
    refused = list(refusals(events))
    path = (
        f"refused: {', '.join(f'event {seq} {shown_name(what)}' for seq, what, _ in refused)}"
        if refused
        else "nothing was refused"
    )
    against = [doubt.text for doubt in disagreements(events, world, has_steps=_has_steps(events))]
    against += _unexplained(events, world)
    if against:
        return Agreement(False, (path, *against))
    there = accounts(world)
    if not there:
        return Agreement(
            None, (path, "no ledger, journal, table or file is sealed that would confirm it")
        )
    return Agreement(True, (path, f"confirmed by {', '.join(there)}"))


def shown_name(text: str) -> str:
    """A name that came from a bundle, as one word of a sentence."""
    return shown(text, 200)[1:-1]


def _has_steps(events: Sequence[TraceEvent]) -> bool:
    return any(
        event["type"] == "node_started" and event["payload"].get("type") == _CODE
        for event in events
    )


def _unexplained(events: Sequence[TraceEvent], world: Mapping[str, Any]) -> Iterator[str]:
    """Effects in the ledger whose call no gate let through."""
    allowed = {
        event["payload"].get("intent_id") for event in events if event["type"] == "tool_called"
    }
    for number, effect in enumerate(world.get("ledger") or ()):
        if effect.get("intent_id") not in allowed:
            yield (
                f"ledger {number}, {shown_name(str(effect.get('effect_id')))} by"
                f" {shown_name(str(effect.get('capability')))}, is of a call that no gate let"
                " through"
            )

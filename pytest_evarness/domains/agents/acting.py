"""Effects of one call: chosen, filled with its arguments, applied to the world in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_evarness.domains.agents.template import TemplateError, fill
from pytest_evarness.world.effect import kind_of_effect
from pytest_evarness.world.service import EffectFailedError

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Clock, Context
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.domains.agents.state import RunState

__all__ = [
    "AllowedCall",
    "EffectsFailedError",
    "Patience",
    "Rehearsal",
    "apply_effects",
    "effects_of",
    "filled_effects",
    "may_reach_network",
]


def effects_of(answer: Mapping[str, Any], manifest: Mapping[str, Any]) -> Sequence[JsonObject]:
    """What a call does: the effects of the rule that answers it, else those of the manifest.

    A rule that raises does nothing of what the manifest says, unless it says so itself.
    """
    own = answer.get("effects")
    if own is not None:
        return list(own)
    return [] if "raise" in answer else list(manifest["effects"])


def may_reach_network(answers: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> bool:
    """Whether a call may leave the machine: its manifest says so, or it sends a request.

    Args:
        answers: The rules one of which will answer the call; nobody knows yet which.
        manifest: Of the tool.
    """
    if manifest["safety"]["network"] == "outbound":
        return True
    possible = [effects_of(answer, manifest) for answer in answers or ({},)]
    return any(kind_of_effect(effect) == "http" for effects in possible for effect in effects)


@dataclass(frozen=True, slots=True)
class AllowedCall:
    """The allowed call that effects belong to.

    Attributes:
        tool: Its id.
        approval: Digest of the approval that was used.
    """

    tool: str
    intent: str
    rule: str
    approval: str | None
    query: str
    args: Mapping[str, Any]


@dataclass(slots=True)
class Rehearsal:
    """What the calls of a run came to, where nothing is applied and all of it is looked at.

    It is kept whole: an event holds a long text cut, so no call is ever read back from one.

    Attributes:
        call: The call that was answered last; None where none was.
        effects: What it would do to the world, filled in.
        unfilled: Why that cannot be said: it has no such argument.
        documents: What it handed over; None where nothing came back.
        result: The answer, where it is no list of documents: a single entry, else none.
        error: What it gave in place of an answer.
    """

    call: AllowedCall | None = None
    effects: list[dict[str, Any]] = field(default_factory=list)
    unfilled: str | None = None
    documents: list[dict[str, Any]] | None = None
    result: tuple[Any, ...] = ()
    error: str | None = None

    def act(self, effects: Sequence[JsonObject], call: AllowedCall) -> None:
        """Keep what would be applied.

        Raises:
            TemplateError: The call has no such argument, as where it is applied.
        """
        self.call = call
        try:
            self.effects += filled_effects(effects, call)
        except TemplateError as error:
            self.unfilled = str(error)
            raise


class EffectsFailedError(Exception):
    """An effect was refused, or its answer was lost; those behind it were not tried.

    Attributes:
        phase: ``before`` where nothing at all was done.
        injected: The fault of a service that did it, as the scenario names it.
    """

    def __init__(self, reason: str, phase: str, injected: str | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.phase = phase
        self.injected = injected


class Patience:
    """How long one attempt still waits, in simulated time."""

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._left_ms = timeout_ms

    def wait(self, ms: int) -> str | None:
        """Wait for what comes ``ms`` later; why not, where that is too late."""
        self._clock.advance_ms(min(ms, self._left_ms))
        if ms > self._left_ms:
            self._left_ms = 0
            return f"no answer within {self._timeout_ms} ms"
        self._left_ms -= ms
        return None

    def give_up(self) -> None:
        """Wait in vain until the time is up."""
        self.wait(self._left_ms)


def apply_effects(
    effects: Sequence[JsonObject],
    call: AllowedCall,
    state: RunState,
    context: Context,
    patience: Patience,
) -> None:
    """Fill all effects, then apply them in their order.

    Of an observed run, and of one that only rehearses, none is applied.

    Raises:
        EffectsFailedError: One of them was refused, or its answer lost.
        ServiceDownError: A service does not run.
        TemplateError: The call has no such argument; then nothing was applied.
    """
    if state.rehearsal is not None:
        state.rehearsal.act(effects, call)
        return
    filled = filled_effects(effects, call)
    if not filled:
        return
    applier = state.applier_of(context)
    for index, effect in enumerate(filled):
        named: dict[str, Any] = {
            "effect_id": f"{call.intent}/{index}",
            "intent_id": call.intent,
            "capability": call.tool,
            "authorized_by": {"rule": call.rule, "approval": call.approval},
            "emit": context.emit,
        }
        if context.observes:
            applier.withhold(effect, **named)
            continue
        try:
            applier.apply(effect, wait=patience.wait, **named)
        except EffectFailedError as failed:
            if failed.is_silent:
                patience.give_up()
            injected = None
            if failed.fault is not None:
                service = effect[kind_of_effect(effect)]["service"]
                injected = f"{service}.{failed.fault}"
            phase = "after" if index or failed.is_applied else "before"
            raise EffectsFailedError(failed.reason, phase, injected) from None


def filled_effects(effects: Sequence[JsonObject], call: AllowedCall) -> list[dict[str, Any]]:
    """All effects with the call's arguments in them.

    Raises:
        TemplateError: The call has no such argument.
    """
    return [_filled(effect, index, call) for index, effect in enumerate(effects)]


def _filled(effect: JsonObject, index: int, call: AllowedCall) -> dict[str, Any]:
    try:
        filled: dict[str, Any] = fill(effect, query=call.query, args=call.args)
    except TemplateError as error:
        raise TemplateError(f"{call.tool}: effects[{index}]: {error}") from None
    return filled

"""Applies effects: the one way by which a simulated tool changes the world.

What it says happened is what the world answered: a receipt is made here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pytest_evarness.core import c1
from pytest_evarness.core.interfaces import ServiceDownError
from pytest_evarness.core.vocabulary import clip_payload
from pytest_evarness.world.effect import as_text, fitted, kind_of_effect
from pytest_evarness.world.filing import change_file
from pytest_evarness.world.service import (
    EffectFailedError,
    takes_requests,
    takes_statements,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.secret import Masker
    from pytest_evarness.world.fault import Injector
    from pytest_evarness.world.service import Service

__all__ = [
    "MAILBOX",
    "SEALED",
    "WITHHELD",
    "WORKSPACE",
    "Applier",
    "Emit",
    "Ground",
    "Wait",
    "receipt_number",
]

WORKSPACE = "workspace"
MAILBOX = "mailbox"

SEALED = "the world is sealed: nothing is done to it any more"
WITHHELD = "the run is only observed behind a block: no effect is applied"

Emit: TypeAlias = "Callable[[str, JsonObject], int]"
Wait: TypeAlias = "Callable[[int], str | None]"
"""Lets simulated milliseconds pass; says why the caller waits no longer, where its time is up."""

_SILENT = "stall"
_BAD = 400
_NOT_FOUND = 404
"""The first status by which a service says that it did not do what it was asked."""


class _Entries(Protocol):
    def add(self, payload: JsonObject, /) -> None: ...


class _Audit(Protocol):
    def add(self, kind: str, details: JsonObject, /) -> None: ...


class Ground(Protocol):
    """What effects need of the world."""

    @property
    def services(self) -> Mapping[str, Service]:
        """Declared services by name, those that are down included."""

    @property
    def workspace(self) -> Path | None:
        """The run's own folder."""

    @property
    def masker(self) -> Masker:
        """Replaces secrets: digests are taken over what may be shown."""

    @property
    def faults(self) -> Injector:
        """What services do to a request instead of answering it."""

    @property
    def is_sealed(self) -> bool:
        """Whether the end state is taken: nothing is done to it any more."""

    def settle(self, emit: Emit, /) -> None:
        """Emit what services saw since the last call."""

    @property
    def ledger(self) -> _Entries:
        """Gets the payload of each ``effect_applied``."""

    @property
    def audit(self) -> _Audit:
        """Gets a line for each thing that happened."""


@dataclass(frozen=True, slots=True)
class _Known:
    """An effect with an idempotency key that was applied."""

    asked: JsonObject
    receipt: JsonObject


@dataclass(slots=True)
class _Memory:
    """What one run's effects have to know of each other.

    Attributes:
        known: By kind, service and key: a key belongs to the service that it was sent to.
        messages: How many lie in the mailbox.
    """

    known: dict[tuple[str, str, str], _Known] = field(default_factory=dict)
    messages: int = 0


class Applier:
    """Applies the effects of one run and remembers what was done under which key."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._memory = _Memory()

    def apply(
        self,
        effect: JsonObject,
        *,
        effect_id: str,
        intent_id: str,
        capability: str,
        authorized_by: Mapping[str, str | None],
        emit: Emit,
        wait: Wait,
    ) -> JsonObject:
        """Apply one filled effect.

        Emits what the service saw, then ``effect_applied``; ``effect_refused`` where the world did
        not do it; ``effect_replayed`` where it had done it before under the same idempotency key.

        Args:
            effect: ``{http | sql | file | message: {...}, idempotency_key?}``.
            effect_id: ``INTENT/N``.
            capability: The tool's id.
            authorized_by: ``{rule, approval}``.
            wait: Called with the delay that the answer has.

        Returns:
            The receipt ``{service, ref, digest}``.

        Raises:
            EffectFailedError: The world refused, or it acted and the answer was lost; a world that
                is sealed refuses everything.
            ServiceDownError: The service does not run.
        """
        head = _head(effect, effect_id, intent_id, capability, authorized_by)
        return _Attempt(self._ground, self._memory, head, effect, emit, wait).run()

    def withhold(
        self,
        effect: JsonObject,
        *,
        effect_id: str,
        intent_id: str,
        capability: str,
        authorized_by: Mapping[str, str | None],
        emit: Emit,
    ) -> None:
        """Say what an effect would have done, with ``effect_refused``, and do nothing of it."""
        head = _head(effect, effect_id, intent_id, capability, authorized_by)
        _Attempt(self._ground, self._memory, head, effect, emit, _no_wait).withhold()


def _head(
    effect: JsonObject,
    effect_id: str,
    intent_id: str,
    capability: str,
    authorized_by: Mapping[str, str | None],
) -> dict[str, Json]:
    return {
        "effect_id": effect_id,
        "intent_id": intent_id,
        "capability": capability,
        "kind": kind_of_effect(effect),
        "authorized_by": dict(authorized_by),
    }


def _no_wait(ms: int) -> None:
    """What is not done takes no time."""
    del ms


class _Attempt:
    """One application of one effect."""

    def __init__(
        self,
        ground: Ground,
        memory: _Memory,
        head: dict[str, Json],
        effect: JsonObject,
        emit: Emit,
        wait: Wait,
    ) -> None:
        self.ground = ground
        self.memory = memory
        self.head = head
        self.effect = effect
        self.emit = emit
        self.wait = wait
        self.fault: str | None = None
        self.kind = kind_of_effect(effect)

    def run(self) -> JsonObject:
        self.head |= {
            "digest": self._digest({self.kind: self.effect[self.kind]}),
            "target": _target(self.effect),
        }
        try:
            asked = fitted(self.effect)
            # What was asked for is named by what the world gets.
            self.head |= {
                "digest": self._digest({self.kind: asked[self.kind]}),
                "target": _target(asked),
            }
            return self._do(asked)
        except EffectFailedError as failed:
            if self.fault is not None:
                failed.fault = self.fault
            if not failed.is_applied:
                self._refuse(failed)
            if isinstance(failed, _AnsweredError):
                late = self.wait(failed.delay_ms)
                if late is not None:
                    raise EffectFailedError(late) from None
            raise

    def withhold(self) -> None:
        self.head |= {
            "digest": self._digest({self.kind: self.effect[self.kind]}),
            "target": _target(self.effect),
        }
        self._refuse(EffectFailedError(WITHHELD))

    def _do(self, asked: dict[str, Any]) -> JsonObject:
        if self.ground.is_sealed:
            raise EffectFailedError(SEALED)
        service = str(asked[self.kind].get("service", ""))
        if service:
            self._check_up(service)
            self.fault = self.ground.faults.service_fault(service)
        if self.fault == "refuse":
            raise EffectFailedError(f"{service}: the connection was refused")
        key = asked.get("idempotency_key")
        place = (self.kind, service, str(key))
        known = None if key is None else self.memory.known.get(place)
        if known is not None:
            return self._replay(known, asked[self.kind], str(key))
        answer = getattr(self, f"_{self.kind}")(asked[self.kind])
        assert isinstance(answer, _Answer), "each kind of effect gives one"
        if key is not None:
            self.memory.known[place] = _Known(asked[self.kind], answer.receipt)
        payload: dict[str, Json] = {**self.head, "receipt": answer.receipt}
        if answer.message is not None:
            payload["message"] = answer.message
        self.emit("effect_applied", payload)
        # As emission shows it, so that the two accounts are one to the letter.
        self.ground.ledger.add(clip_payload(self.ground.masker.value(payload)))
        lost = answer.lost if answer.lost is not None else self.wait(answer.delay_ms)
        if lost is not None:
            raise EffectFailedError(lost, is_applied=True, is_silent=answer.is_silent)
        return answer.receipt

    def _check_up(self, name: str) -> None:
        service = self.ground.services.get(name)
        if service is None:
            raise EffectFailedError(f"{name}: no such service is declared")
        if service.problem is not None:
            raise ServiceDownError(name, service.problem)

    def _replay(self, known: _Known, asked: JsonObject, key: str) -> JsonObject:
        if known.asked != asked:
            raise EffectFailedError(
                f"idempotency_key: was used for another effect (got '{key}'; one key, one effect)"
            )
        self.emit(
            "effect_replayed", {**self.head, "receipt": known.receipt, "idempotency_key": key}
        )
        if self.fault is not None:
            raise EffectFailedError(
                _lost(str(known.receipt["service"]), self.fault),
                is_applied=True,
                is_silent=self.fault == _SILENT,
            )
        return known.receipt

    def _refuse(self, failed: EffectFailedError) -> None:
        payload: dict[str, Json] = {**self.head, "reason": failed.reason}
        if isinstance(failed, _AnsweredError):
            payload["receipt"] = failed.receipt
        self.emit("effect_refused", payload)

    def _digest(self, value: JsonObject) -> str:
        return c1.sha256_text(c1.text(self.ground.masker.value(value)))

    def _receipt(self, service: str, ref: str, answer: str) -> JsonObject:
        digest = c1.sha256_text(self.ground.masker.text(answer))
        return {"service": service, "ref": ref, "digest": digest}

    # -- the four kinds ------------------------------------------------------------------------

    def _http(self, asked: Mapping[str, Any]) -> _Answer:
        name = asked["service"]
        service = self.ground.services[name]
        if not takes_requests(service):
            raise EffectFailedError(f"{name}: takes no requests (it is a {service.kind})")
        lost: EffectFailedError | None = None
        number: int | None = None
        status: int | None = None
        body = ""
        delay_ms = 0
        is_refusal = False
        try:
            answer = service.request(
                asked["method"],
                asked["path"],
                body=asked.get("body"),
                headers=asked.get("headers"),
                query=asked.get("query"),
                fault=self.fault,
            )
            number, status, body = answer.n, answer.status, answer.body
            delay_ms = answer.delay_ms
            # Where no route was there, nobody said that the service would refuse.
            is_refusal = status >= _BAD and (answer.matched or status != _NOT_FOUND)
        except EffectFailedError as failed:
            lost, number = failed, failed.n
        self.ground.settle(self.emit)
        if lost is not None and not lost.is_applied:
            raise lost
        receipt = self._receipt(name, _numbered(number, status), body)
        if is_refusal:
            raise _AnsweredError(f"{name} answered {status}", receipt, delay_ms)
        if lost is not None:
            return _Answer(receipt, lost=lost.reason, is_silent=lost.is_silent)
        return _Answer(receipt, delay_ms=delay_ms)

    def _sql(self, asked: Mapping[str, Any]) -> _Answer:
        name = asked["service"]
        service = self.ground.services[name]
        if not takes_statements(service):
            raise EffectFailedError(f"{name}: takes no statements (it is a {service.kind})")
        try:
            change = service.execute(asked["statement"], asked["params"])
        except EffectFailedError as failed:
            if not failed.is_applied:
                raise
            # What it did nobody said: the end state shows it.
            return _Answer(self._receipt(name, _numbered(None, None), ""), lost=failed.reason)
        for table in change.tables:
            self.emit("db_write", {"service": name, "table": table})
            self.ground.audit.add(
                "db_write", {"service": name, "table": table, "statement": asked["statement"]}
            )
        rows = f"{change.rows} row{'' if change.rows == 1 else 's'}"
        answer = c1.text({"rows": change.rows, "tables": list(change.tables)})
        lost = None if self.fault is None else _lost(name, self.fault)
        receipt = self._receipt(name, rows, answer)
        return _Answer(receipt, lost=lost, is_silent=self.fault == _SILENT)

    def _file(self, asked: Mapping[str, Any]) -> _Answer:
        path = asked["path"]
        root = self.ground.workspace
        if root is None:
            raise EffectFailedError(f"file.path: there is no workspace (got '{path}')")
        size, digest = change_file(root, asked, self.ground.masker)
        self.emit("file_write", {"path": path, "digest": digest})
        self.ground.audit.add(
            "file_write",
            {"path": path, "size": size, "sha256": digest and digest.removeprefix("sha256:")},
        )
        if digest is None:
            return _Answer(self._receipt(WORKSPACE, path, "removed"))
        return _Answer({"service": WORKSPACE, "ref": path, "digest": digest})

    def _message(self, asked: Mapping[str, Any]) -> _Answer:
        self.memory.messages += 1
        message = {"to": asked["to"], "body": asked["body"]}
        self.ground.audit.add("message", message)
        ref = f"message {self.memory.messages}"
        return _Answer(self._receipt(MAILBOX, ref, c1.text(message)), message=message)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came of an effect that was applied.

    Attributes:
        message: What was put into the mailbox.
        lost: Why the one who asked did not get the receipt.
        is_silent: Whether nothing told it so.
        delay_ms: How late the receipt comes.
    """

    receipt: JsonObject
    message: JsonObject | None = None
    lost: str | None = None
    is_silent: bool = False
    delay_ms: int = 0


class _AnsweredError(EffectFailedError):
    """A service answered that it did not do it."""

    def __init__(self, reason: str, receipt: JsonObject, delay_ms: int) -> None:
        super().__init__(reason)
        self.receipt = receipt
        self.delay_ms = delay_ms


# -- words ---------------------------------------------------------------------------------------


def _target(effect: Mapping[str, Any]) -> str:
    """What an effect acts on, in one line."""
    kind = kind_of_effect(effect)
    asked = effect[kind]
    if kind == "http":
        return f"{asked['service']} {as_text(asked['method'])} {as_text(asked['path'])}"
    return as_text(asked[{"sql": "service", "file": "path", "message": "to"}[kind]])


def _numbered(number: int | None, status: int | None) -> str:
    parts = [] if number is None else [f"request {number}"]
    parts.append("no answer" if status is None else f"status {status}")
    return ", ".join(parts)


def receipt_number(receipt: Mapping[str, Any]) -> int | None:
    """The number in the service's journal that a receipt of a request names; None for none."""
    word, _, rest = str(receipt["ref"]).partition(" ")
    number = rest.partition(",")[0]
    return int(number) if word == "request" and number.isdigit() else None


def _lost(service: str, fault: str) -> str:
    if fault == _SILENT:
        return f"{service}: no answer came in time"
    return f"{service}: the connection was reset before the answer"

"""Whether the sources of one run's evidence are whole, this run's, and agree with each other.

A run leaves several accounts of itself: its events, the facts that were noted beside them, the
ledger, the journals of services, the end state of tables and files. None is believed against
another. What cannot be believed is told as a doubt, and whoever judges decides by it as if that
part of the evidence were not there: a violation that was seen stays one, a pass does not.

Source: docs/verdicts.md, "Where sources disagree".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_evarness.checks.declared import changed_object, moves_by_itself
from pytest_evarness.core import c1
from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Cause

if TYPE_CHECKING:
    from pytest_evarness.checks.evidence import Evidence
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.trace import TraceEvent

__all__ = [
    "WORLD_TYPES",
    "Doubt",
    "Sources",
    "accounts",
    "disagreements",
    "output_doubt",
    "readable",
    "trace_faults",
    "world_doubts",
]

WORLD_TYPES = frozenset({"effect_applied", "http_request", "db_write", "file_write"})
"""Event types of which the end state holds a second account."""

_TERMINAL = frozenset({"run_finished", "run_failed", "run_paused"})

_ENDS: Mapping[str, tuple[str, ...]] = {
    "completed": ("run_finished",),
    "blocked": ("policy_violation", "run_failed"),
    "failed": ("engine_error", "run_failed"),
    "paused": ("run_paused",),
    "unscripted": ("script_exhausted",),
}
"""By status: the types that have to be there, the last of them at the end."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why one part of the evidence does not count.

    Attributes:
        cause: Stale or contradictory.
        text: One sentence without a full stop.
        types: Event types of which the trace is no full account.
        services: Services whose journal is none.
    """

    cause: Cause
    text: str
    types: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()


class Sources:
    """What is to be thought of one run's evidence, each part found out when it is asked for."""

    def __init__(self, evidence: Evidence, registry: Registry) -> None:
        self._evidence = evidence
        self._registry = registry

    @cached_property
    def faults(self) -> tuple[str, ...]:
        """Of the trace; see :func:`trace_faults`."""
        return trace_faults(self._evidence)

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """Of the world, and of what the trace says of it; see :func:`world_doubts`."""
        return world_doubts(self._evidence, self._registry)

    @cached_property
    def output(self) -> Doubt | None:
        """Of the output; see :func:`output_doubt`."""
        return output_doubt(self._evidence)

    @property
    def stale(self) -> Doubt | None:
        """That the end state is another run's; None where it is this one's."""
        return next((one for one in self.doubts if one.cause is Cause.STALE_EVIDENCE), None)


# -- the trace ---------------------------------------------------------------------------------


def trace_faults(evidence: Evidence) -> tuple[str, ...]:
    """Ways in which run A's events are not the whole of what was emitted, in words."""
    events, facts = evidence.events, evidence.a
    faults = []
    if len(events) != facts.events:
        faults.append(f"the run emitted {facts.events} events, and {len(events)} are here")
    for index, event in enumerate(events):
        if event.get("seq") != index:
            faults.append(f"event {index} has the number {shown(event.get('seq'), 40)}")
            break
        if not _is_readable(event):
            faults.append(f"event {index} lacks its type or its payload")
            break
    faults.extend(_faults_of_the_end(facts.status, events))
    return tuple(faults)


def _is_readable(event: TraceEvent) -> bool:
    return isinstance(event.get("payload"), Mapping) and isinstance(event.get("type"), str)


def readable(evidence: Evidence) -> Evidence:
    """The same with every event readable; what is not is a fault of the trace already."""
    if all(map(_is_readable, evidence.events)):
        return evidence
    events = [
        one if _is_readable(one) else {**one, "type": str(one.get("type")), "payload": {}}
        for one in evidence.events
    ]
    return replace(evidence, events=events)


def _faults_of_the_end(status: str, events: Sequence[TraceEvent]) -> Iterator[str]:
    last = events[-1].get("type") if events else None
    end = _ENDS.get(status)
    if end is None:
        if last in _TERMINAL:
            yield f"the run is said to be {status}, and its last event is {last}"
        return
    if last != end[-1]:
        met = "there is no event" if last is None else f"its last event is {shown(last, 60)}"
        yield f"the run is said to have ended {status}, and {met}"
    for name in end[:-1]:
        if not any(event.get("type") == name for event in events):
            yield f"the run is said to have ended {status}, and no {name} is among its events"


def output_doubt(evidence: Evidence) -> Doubt | None:
    """That the output is another one than the run's last event shows."""
    last = evidence.events[-1] if evidence.events else {}
    if last.get("type") != "run_finished" or "output" not in _payload(last):
        return None
    record: Any = _payload(last)["output"]
    text = record.get("text") if isinstance(record, Mapping) else None
    output = evidence.output
    if output == text:
        return None
    if output is not None and text is not None and c1.sha256_text(output) == record.get("digest"):
        return None  # the event holds the beginning alone
    return Doubt(
        Cause.CONTRADICTORY_EVIDENCE,
        "the output is another one than the run's last event shows",
    )


# -- the world ---------------------------------------------------------------------------------


def world_doubts(evidence: Evidence, registry: Registry) -> tuple[Doubt, ...]:
    """What of the end state, or of the events that it tells of as well, is not to be believed."""
    world: Any = evidence.world
    if not _is_sealed(world, evidence.a.world_digest):
        names = frozenset(str(one.get("name")) for one in world.get("services") or ())
        told = frozenset(_services_of(evidence.events))
        return (
            Doubt(
                Cause.STALE_EVIDENCE,
                "the end state is not the one that this run sealed, so it is another run's or"
                " another time's",
                WORLD_TYPES,
                names | told,
            ),
        )
    return tuple(disagreements(evidence.events, world, has_steps=_has_steps(evidence, registry)))


def _is_sealed(world: Mapping[str, Any], digest: str) -> bool:
    """Whether ``digest`` is that of the world's c1 text."""
    # Where no number is odd, this is that text, and made in a fifth of the time; where it is not,
    # its digest is another one.
    plain = json.dumps(world, sort_keys=True, separators=(",", ":"))
    return c1.sha256_text(plain) == digest or c1.sha256_text(c1.text(world)) == digest


def _services_of(events: Iterable[TraceEvent]) -> Iterator[str]:
    for event in events:
        if event["type"] == "http_request":
            yield str(_payload(event).get("service"))


def _has_steps(evidence: Evidence, registry: Registry) -> bool:
    """Whether a step of the user's own ran, which may change a world without an event."""
    kinds = {
        _payload(event).get("type") for event in evidence.events if event["type"] == "node_started"
    }
    for kind in kinds:
        found = registry.node_types.find(kind) if isinstance(kind, str) else None
        if found is None or "custom" in found.traits:
            return True
    return False


def disagreements(
    events: Sequence[TraceEvent], world: Mapping[str, Any], *, has_steps: bool
) -> Iterator[Doubt]:
    """Where the events and the end state tell of one thing differently.

    Args:
        events: Of the run.
        world: As it was sealed.
        has_steps: Whether code of the user's own ran: what it did to tables and files is in no
            event, so the end state may have more.
    """
    by_type: dict[str, list[Mapping[str, Any]]] = {name: [] for name in sorted(WORLD_TYPES)}
    for event in events:
        if event["type"] in by_type:
            by_type[event["type"]].append(_payload(event))
    yield from _ledger(by_type["effect_applied"], world)
    yield from _journals(by_type["http_request"], world)
    yield from _tables(by_type["db_write"], world, has_steps=has_steps)
    yield from _files(by_type["file_write"], world, has_steps=has_steps)


def _payload(event: TraceEvent) -> Mapping[str, Any]:
    payload = event.get("payload")
    return payload if isinstance(payload, Mapping) else {}


def _contradiction(text: str, name: str, *services: str) -> Doubt:
    return Doubt(Cause.CONTRADICTORY_EVIDENCE, text, frozenset({name}), frozenset(services))


def _ledger(told: Sequence[Mapping[str, Any]], world: Mapping[str, Any]) -> Iterator[Doubt]:
    ledger = world.get("ledger")
    if ledger is None and not told:
        return
    kept = ledger or []
    if c1.text(told) != c1.text(kept):
        same = ", and they are not the same" if len(told) == len(kept) else ""
        yield _contradiction(
            f"the events tell of {_counted(len(told), 'effect')} and the ledger of"
            f" {len(kept)}{same}",
            "effect_applied",
        )


def _journals(told: Sequence[Mapping[str, Any]], world: Mapping[str, Any]) -> Iterator[Doubt]:
    requests: dict[str, list[Mapping[str, Any]]] = {}
    for payload in told:
        if payload.get("service") is not None:
            requests.setdefault(str(payload["service"]), []).append(payload)
    services = {str(one.get("name")): one for one in world.get("services") or ()}
    for name in sorted({*requests, *services}):
        service = services.get(name)
        mine = requests.get(name, [])
        if service is None:
            yield _contradiction(
                f"the events tell of requests to service '{name}', of which the end state holds"
                " nothing",
                "http_request",
                name,
            )
            continue
        journal = service.get("requests")
        if journal is None:
            continue  # it is down, keeps no journal, or is no service that is requested
        count = len(journal) + service.get("lost", 0)
        if count != len(mine):
            yield _contradiction(
                f"the events tell of {_counted(len(mine), 'request')} to service '{name}' and its"
                f" journal of {count}",
                "http_request",
                name,
            )
            continue
        for number, (entry, payload) in enumerate(zip(journal, mine, strict=False), start=1):
            if not _is_one_request(entry, payload):
                yield _contradiction(
                    f"request {number} of service '{name}' is another one in its journal than in"
                    " the events",
                    "http_request",
                    name,
                )
                break


def _is_one_request(entry: Mapping[str, Any], payload: Mapping[str, Any]) -> bool:
    """Whether a journal's entry and an event tell of one request."""
    if any(entry.get(key) != payload.get(key) for key in ("method", "matched")):
        return False
    # A long path may be cut in the event.
    names = ["status", "body_digest", *(() if "truncated" in payload else ("path",))]
    return all(entry[key] == payload[key] for key in names if key in entry and key in payload)


def _tables(
    told: Sequence[Mapping[str, Any]], world: Mapping[str, Any], *, has_steps: bool
) -> Iterator[Doubt]:
    if has_steps:
        return
    written = {(str(one.get("service")), str(one.get("table"))) for one in told}
    for service in world.get("services") or ():
        name = str(service.get("name"))
        for table in service.get("tables") or ():
            start = table.get("start")
            end = {"count": table.get("count"), "digest": table.get("digest")}
            if start != end and (name, str(table.get("name"))) not in written:
                yield _contradiction(
                    f"table '{table.get('name')}' of service '{name}' changed, and no event says"
                    " so",
                    "db_write",
                )
        for label in service.get("dropped") or ():
            if (name, str(label)) not in written:
                yield _contradiction(
                    f"table '{label}' of service '{name}' is gone, and no event says so",
                    "db_write",
                )
        for record in service.get("objects") or ():
            owner, what, word = changed_object(record)
            if (name, owner) not in written and not moves_by_itself(record):
                yield _contradiction(
                    f"{what} of service '{name}' {word}, and no event says so", "db_write"
                )


def _files(
    told: Sequence[Mapping[str, Any]], world: Mapping[str, Any], *, has_steps: bool
) -> Iterator[Doubt]:
    workspace = world.get("workspace")
    last = {str(one.get("path")): one.get("digest") for one in told}
    if workspace is None:
        if last:
            yield _contradiction(
                "the events tell of files that were written, and the end state has no workspace",
                "file_write",
            )
        return
    if has_steps:
        return
    files = {str(one.get("path")): one for one in workspace.get("files") or ()}
    for path, digest in last.items():
        file = files.get(path, {})
        is_cut = "beyond" in workspace and path not in files
        if file.get("sha256") != digest and not file.get("masked") and not is_cut:
            yield _contradiction(
                f"'{path}' is not at the end what the last event says was written", "file_write"
            )
    for word in ("added", "modified", "removed"):
        for path in workspace.get(word) or ():
            is_folder = files.get(path, {}).get("type") == "directory"
            if path not in last and not is_folder:
                yield _contradiction(f"'{path}' was {word}, and no event says so", "file_write")


# -- what there is to confirm by ---------------------------------------------------------------


def accounts(world: Mapping[str, Any]) -> list[str]:
    """The accounts of the end state that a gate can be confirmed by, in words."""
    found = []
    if world.get("ledger") is not None:
        found.append(f"the ledger ({_counted(len(world['ledger']), 'effect')})")
    for service in world.get("services") or ():
        name = service.get("name")
        if service.get("down"):
            continue
        if service.get("requests") is not None:
            found.append(f"the journal of {name} ({_counted(len(service['requests']), 'request')})")
        if service.get("tables") is not None:
            found.append(f"the tables of {name} ({_counted(len(service['tables']), 'table')})")
    if world.get("workspace") is not None:
        files = world["workspace"].get("files") or ()
        found.append(f"the workspace ({_counted(len(files), 'file')})")
    return found


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"

"""A small world for effects: a mock that keeps a journal, a database, a folder, a mailbox."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core import c1
from pytest_evarness.core.secret import Masker
from pytest_evarness.world.fault import Injector
from pytest_evarness.world.service import EffectFailedError, HttpAnswer, QueryResult, SqlChange
from pytest_evarness.world.vocabulary import register_events

if TYPE_CHECKING:
    from pytest_evarness.core.event import EventType
    from pytest_evarness.core.json import Json, JsonObject

__all__ = ["Database", "Emitted", "Mock", "World", "check"]


class _Service:
    kind = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problem: str | None = None

    @property
    def address(self) -> Mapping[str, Json]:
        return {}

    def start(self) -> None: ...

    def seal(self) -> None: ...

    def close(self) -> None: ...

    def snapshot(self) -> JsonObject:
        return {}

    def copy(self) -> AbstractContextManager[Mapping[str, Json]]:
        return nullcontext({})


class Mock(_Service):
    """Answers each request with the next status, the last one for ever."""

    kind = "http_mock"

    def __init__(self, name: str = "mail", *statuses: int, delay_ms: int = 0) -> None:
        super().__init__(name)
        self.matches = True
        self.delay_ms = delay_ms
        self.statuses = list(statuses or (202,))
        self.journal: list[dict[str, Any]] = []
        self._drained = 0

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Json = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        fault: str | None = None,
    ) -> HttpAnswer:
        if fault == "refuse":
            raise EffectFailedError("refused", is_applied=False)
        n = len(self.journal) + 1
        status = self.statuses[min(n, len(self.statuses)) - 1]
        self.journal.append(
            {
                "n": n,
                "method": method,
                "path": path,
                "body": body,
                "headers": dict(headers or {}),
                "query": dict(query or {}),
                "status": None if fault else status,
            }
        )
        if fault is not None:
            is_silent = fault == "stall"
            raise EffectFailedError(
                f"no answer: {fault}", is_applied=True, n=n, is_silent=is_silent
            )
        digest = f"sha256:{hashlib.sha256(b'').hexdigest()}"
        return HttpAnswer(n, status, (), "thanks", self.matches, digest, self.delay_ms)

    def drain(self) -> Sequence[JsonObject]:
        new, self._drained = self.journal[self._drained :], len(self.journal)
        return [
            {
                "service": self.name,
                "method": one["method"],
                "path": one["path"],
                "matched": self.matches,
                "status": one["status"],
                "body_digest": f"sha256:{hashlib.sha256(b'').hexdigest()}",
            }
            for one in new
        ]


class Database(_Service):
    """One table, ``refunds(id, amount)``."""

    kind = "sqlite"

    def __init__(self, name: str = "db") -> None:
        super().__init__(name)
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute("CREATE TABLE refunds (id TEXT, amount REAL)")

    def execute(self, statement: str, params: Sequence[Any] | Mapping[str, Any]) -> SqlChange:
        try:
            found = self.connection.execute(statement, params)
        except sqlite3.Error as error:
            raise EffectFailedError(str(error)) from None
        return SqlChange(max(found.rowcount, 0), ("refunds",) if found.rowcount >= 0 else ())

    def query(
        self,
        query: str,
        params: Sequence[Any] | Mapping[str, Any] = (),
        *,
        seconds: float,
        max_rows: int,
    ) -> QueryResult:
        del seconds, max_rows
        rows = self.connection.execute(query, params).fetchall()
        return QueryResult((), tuple(tuple(row) for row in rows))

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return list(self.query("SELECT * FROM refunds", seconds=1, max_rows=9).rows)


class _List:
    def __init__(self) -> None:
        self.entries: list[Any] = []

    def add(self, *entry: Any) -> None:
        self.entries.append(entry[0] if len(entry) == 1 else entry)


class World:
    """What effects need of a world, and what a run needs beside it."""

    def __init__(
        self,
        *services: Any,
        workspace: Path | None = None,
        secrets: Mapping[str, str] | None = None,
        faults: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.faults = Injector(faults or {}, seed)
        self.services = {service.name: service for service in services}
        self.workspace = workspace
        self.masker = Masker(secrets or {})
        self.ledger = _List()
        self.audit = _List()
        self.is_sealed = False

    # -- what a run asks -------------------------------------------------------------------

    @property
    def addresses(self) -> Mapping[str, Mapping[str, Json]]:
        return {name: service.address for name, service in self.services.items()}

    @property
    def problems(self) -> Mapping[str, str]:
        found = {name: service.problem for name, service in self.services.items()}
        return {name: problem for name, problem in found.items() if problem is not None}

    def begin(self, clock: Any) -> None: ...

    def settle(self, emit: Any) -> None:
        for service in self.services.values():
            for payload in getattr(service, "drain", list)():
                emit("http_request", payload)

    def seal(self) -> str:
        self.is_sealed = True
        return c1.text({"ledger": self.ledger.entries})

    def close(self) -> None: ...


def check(name: str, payload: Any) -> list[str]:
    """How an event departs from the vocabulary of the world."""
    import jsonschema

    validator = jsonschema.Draft202012Validator(dict(_types()[name].schema))
    return [error.message for error in validator.iter_errors(payload)]


def _types() -> dict[str, EventType]:
    from pytest_evarness.core.registry import Registry

    registry = Registry()
    register_events(registry)
    return dict(registry.event_types.items())


class Emitted:
    """Events as they come, each held to its schema."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def __call__(self, name: str, payload: Any) -> int:
        assert check(name, payload) == []
        self.events.append((name, payload))
        return len(self.events) - 1

    @property
    def types(self) -> list[str]:
        return [name for name, _ in self.events]

    def payload(self, name: str) -> Any:
        (found,) = (payload for kind, payload in self.events if kind == name)
        return found

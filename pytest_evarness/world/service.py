"""What a service of the simulated world is, whichever type it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.interfaces import WorldHost
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.errors import Fault

__all__ = [
    "EffectFailedError",
    "HttpAnswer",
    "HttpService",
    "QueryError",
    "QueryResult",
    "Service",
    "ServiceSetting",
    "ServiceType",
    "SqlChange",
    "SqlService",
    "takes_requests",
    "takes_statements",
]


class EffectFailedError(Exception):
    """The world did not do what an effect asked, as the real one might not.

    Args:
        reason: One line, without ports, paths or times.
        is_applied: Whether the effect happened all the same and only its answer was lost: what a
            service recorded before it fell silent, it did.
        n: Number in the journal of the request that got no answer, where there is one.
        is_silent: Whether nothing tells the caller that no answer comes, so that it waits until its
            time is up.

    Attributes:
        fault: The injected fault of the service that was met on the way.
    """

    def __init__(
        self,
        reason: str,
        *,
        is_applied: bool = False,
        n: int | None = None,
        is_silent: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_applied = is_applied
        self.n = n
        self.is_silent = is_silent
        self.fault: str | None = None


class QueryError(Exception):
    """A query could not be answered; ``reason`` is the engine's own message, one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _record_nothing(kind: str, details: JsonObject) -> None:
    """For a service that runs in no world."""


@dataclass(frozen=True, slots=True)
class ServiceSetting:
    """What a service gets when it is made for a run.

    Attributes:
        name: Its key under ``environment.services``.
        config: As :meth:`ServiceType.parse` gave it; files of ``init`` stand in it as texts.
        folder: An empty folder of its own, absolute; removed when the run is over.
        secrets: Values of the case's secrets, by name. What a snapshot holds is masked later; a
            digest in it is taken over masked texts by the service itself.
        record: Notes a line of the audit log, ``record(type, details)``; from any thread.
    """

    name: str
    config: JsonObject
    folder: Path
    host: WorldHost
    secrets: Mapping[str, str] = field(default_factory=dict)
    record: Callable[[str, JsonObject], None] = _record_nothing


class Service(Protocol):
    """One service of one run."""

    @property
    def name(self) -> str:
        """Its key under ``environment.services``."""

    @property
    def kind(self) -> str:
        """Its type, such as ``sqlite``."""

    @property
    def problem(self) -> str | None:
        """Why it is down, with the last lines of its own log; None while it is up."""

    def start(self) -> None:
        """Be ready: proven by a real query or a bound socket. Never raises for its own failure."""

    @property
    def address(self) -> Mapping[str, Json]:
        """How a step or a script reaches it: ``{path}`` or ``{host, port, ...}``."""

    def seal(self) -> None:
        """Finish what is in flight, then change no more."""

    def snapshot(self) -> JsonObject:
        """Everything that can be asked of it, in an order that only its contents decide.

        No port, path, time or name of a database is in it. ``{"type": kind, "down": true}`` where
        it is down.
        """

    def copy(self) -> AbstractContextManager[Mapping[str, Json]]:
        """The address of a copy in the sealed state; what is done to it reaches nobody."""

    def close(self) -> None:
        """Stop and remove it; closing twice is fine."""


@dataclass(frozen=True, slots=True)
class SqlChange:
    """What a statement of an effect did.

    Attributes:
        rows: How many rows it changed.
        tables: Tables it wrote, sorted.
    """

    rows: int
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows of a query.

    Attributes:
        columns: Names in order.
        rows: Values as the engine's driver gives them: None, bool, int, float, Decimal, str, bytes,
            date, datetime, time, ...
        is_cut: More rows or bytes were there than were read.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool = False


class SqlService(Service, Protocol):
    """A database.

    Its snapshot is ``{"type", "tables": [table, ...]}``, tables sorted by name, each
    ``{"name", "columns": [name, ...], "count", "digest", "rows": [[value, ...], ...] | null,
    "start": {"count", "digest"} | null}``: rows in primary-key order, else sorted by their c1 text;
    ``rows`` null where they exceed the bound, ``start`` null for a table that was not there.
    """

    def execute(self, statement: str, params: Sequence[Any] | Mapping[str, Any]) -> SqlChange:
        """Apply an effect's statement and commit.

        Raises:
            EffectFailedError: The engine refused it.
            ServiceDownError: The database does not answer.
        """

    def query(
        self,
        query: str,
        params: Sequence[Any] | Mapping[str, Any] = (),
        *,
        seconds: float,
        max_rows: int,
    ) -> QueryResult:
        """Ask the sealed database one reading statement.

        Raises:
            QueryError: Not one statement, one that writes, an engine's error, or out of time.
        """


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a mock answered in process.

    Attributes:
        n: Number in the journal, from 1; None where no journal is kept.
        status: As sent.
        body: As sent; a text.
        matched: Whether a route was there for it.
        delay_ms: How late it comes, in simulated time; nobody has waited for it yet.
    """

    n: int | None
    status: int
    headers: tuple[tuple[str, str], ...]
    body: str
    matched: bool
    body_digest: str
    delay_ms: int = 0


class HttpService(Service, Protocol):
    """An HTTP mock.

    Its snapshot is ``{"type", "record", "strict", "requests": [request, ...] | null, "lost"?}``
    (null without a journal; ``lost`` counts requests that came when it was full), each request
    ``{"n", "method", "path", "query": [[name, value], ...], "headers": [[name, value], ...],
    "body": text | null, "body_base64"?, "body_digest", "truncated"?, "size"?, "matched",
    "route": index | null, "status": int | null, "fault": text | null}``. ``body`` is null for bytes
    that are no text; ``size`` is the number of all bytes of a body that was cut.
    """

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
        """Ask it in process, as a simulated tool does; recorded like any other request.

        Args:
            fault: ``refuse`` (nothing is recorded), ``reset`` or ``stall`` (recorded, no answer).

        Raises:
            EffectFailedError: No answer came: a fault of the route, or ``fault``. It ``is_applied``
                where the request was recorded, with its ``n``.
        """

    def drain(self) -> Sequence[JsonObject]:
        """Payloads of ``http_request`` events for what came since the last call, in order."""


def takes_requests(service: Service) -> TypeGuard[HttpService]:
    """Whether a service is asked over HTTP.

    Its class is looked at and never the service: asking a mock for its address starts a server.
    """
    return hasattr(type(service), "request")


def takes_statements(service: Service) -> TypeGuard[SqlService]:
    """Whether a service is a database; its class is looked at."""
    return hasattr(type(service), "query")


class ServiceType(Protocol):
    """A type of service, registered in ``registry.service_types``.

    A type with an attribute ``is_slow`` that is true waits for something outside this process while
    it starts: such services are started side by side. One with a method ``secrets_of(config)``
    names the environment variables that a configuration is completed from: they are secrets of the
    case as if the scenario had listed them. One with an attribute ``has_files`` that is false gets
    no folder.
    """

    @property
    def name(self) -> str:
        """The word under ``type``."""

    @property
    def schema(self) -> JsonObject:
        """JSON Schema of the mapping under the service's name, ``type`` included."""

    def parse(self, value: Mapping[str, Json]) -> tuple[JsonObject, list[Fault]]:
        """The normalised configuration without ``type``, and every mistake, paths relative to it.

        References to files (``init: [a.sql]``) are left as ``{"file": name}`` for the loader.
        """

    def make(self, setting: ServiceSetting) -> Service:
        """A service that has not started."""

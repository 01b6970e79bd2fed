"""One run's world: made, settled after each node, sealed when the run is over, thrown away."""

from __future__ import annotations

import contextlib
import os
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core import c1
from pytest_evarness.core.clock import DEFAULT_START, parse_moment
from pytest_evarness.core.interfaces import ServiceDownError
from pytest_evarness.core.reason import impersonal
from pytest_evarness.core.removal import remove_tree
from pytest_evarness.core.secret import Masker
from pytest_evarness.core.stranger import pass_on
from pytest_evarness.source.quote import one_of
from pytest_evarness.world import home, repository, snapshot
from pytest_evarness.world.inlining import with_texts
from pytest_evarness.world.ledger import AuditLog, Ledger
from pytest_evarness.world.service import ServiceSetting
from pytest_evarness.world.workspace import as_nanoseconds, make_workspace, stamps

if TYPE_CHECKING:
    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.interfaces import Clock, WorldHost
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.world.command import Completed
    from pytest_evarness.world.fault import Injector
    from pytest_evarness.world.service import Service

__all__ = ["RunWorld"]


class RunWorld:
    """The world that a case declares, its services started.

    Attributes:
        services: By name, those that are down included.
        workspace: The run's folder; None where none is declared.
        ledger: Effects that were applied.
        audit: What happened, for scripts of the user's own.
        unsandboxed: What commands of the run could do that nobody would know of: ``network``,
            ``writes``; it is in no digest.
        masker: Of the case's secrets.

    Raises:
        OSError: No folder can be made.
    """

    def __init__(
        self,
        case: CompiledCase,
        host: WorldHost,
        secrets: Mapping[str, str],
        registry: Registry,
    ) -> None:
        self._case = case
        self._environment = case.environment
        self.masker = Masker({name: secrets[name] for name in case.secrets})
        self.ledger = Ledger()
        self.audit = AuditLog()
        self.unsandboxed: set[str] = set()
        self.services: dict[str, Service] = {}
        self._reached: set[tuple[str, int]] = set()
        self._receipts = _Receipts()
        self._untold: deque[JsonObject] = deque()
        faults: Any = case.environment.get("faults")
        self._written_faults: Mapping[str, Any] = faults if isinstance(faults, Mapping) else {}
        self.workspace: Path | None = None
        self._start: dict[str, Any] = {}
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._snapshot: JsonObject | None = None
        self._text: str | None = None
        # Each is one of this process's folders; a level above them would only cost.
        self._folders: list[str] = []
        try:
            self._make_workspace()
            self._make_services(host, secrets, registry)
        except BaseException:
            self.close()
            raise

    def _make_workspace(self) -> None:
        declared: Any = self._environment.get("workspace")
        if not isinstance(declared, Mapping):
            return
        listing, git = declared["files"], declared["git"]
        folder = self.new_folder()
        written = self._environment.get("clock", DEFAULT_START)
        moment = parse_moment(written if isinstance(written, str) else DEFAULT_START)
        since = as_nanoseconds(moment)
        make_workspace(folder, listing, self._case.material, nanoseconds=since)
        if git:
            repository.make_repository(folder, listing, self._case.material, nanoseconds=since)
        self._start = snapshot.start_entries(listing, git=git)
        self.workspace = Path(folder)

    def _make_services(
        self, host: WorldHost, secrets: Mapping[str, str], registry: Registry
    ) -> None:
        declared: Any = self._environment.get("services")
        if not isinstance(declared, Mapping) or not declared:
            return
        slow: list[Service] = []
        for name in sorted(declared):
            config = dict(declared[name])
            kind = config.pop("type")
            found: Any = registry.service_types.find(kind)
            setting = ServiceSetting(
                name=name,
                config=with_texts(config, self._case.material),
                folder=Path(self.new_folder() if getattr(found, "has_files", True) else os.devnull),
                host=host,
                secrets={one: secrets[one] for one in self._case.secrets},
                record=partial(self._record, name),
            )
            service: Service
            try:
                service = registry.service_types.resolve(kind).make(setting)  # type: ignore[attr-defined]
            except BaseException as error:  # noqa: BLE001 - a stranger's; the rest still stands
                pass_on(error)
                service = _Down(name, kind, impersonal(f"{type(error).__name__}: {error}"))
            else:
                self._lend_faults(service)
                if getattr(found, "is_slow", False):
                    slow.append(service)
                    self.services[name] = service
                    continue
                service = _started(service)
            self.services[name] = service
        if len(slow) == 1:
            self.services[slow[0].name] = _started(slow[0])
        elif slow:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(max_workers=min(len(slow), 8)) as pool:
                for service in pool.map(_started, slow):
                    self.services[service.name] = service

    def _record(self, service: str, kind: str, details: JsonObject) -> None:
        if kind == "http_call":
            self._receipts.note(service)
        self.audit.add(kind, details)

    def _lend_faults(self, service: Service) -> None:
        """What the scenario does to requests that no tool made is asked here."""
        if hasattr(service, "next_fault") and service.name in self._written_faults:
            service.next_fault = partial(self.service_fault, service.name)

    def service_fault(self, service: str, /) -> str | None:
        """What the scenario does to this request of a service: ``refuse``, ``reset``, ``stall``.

        Each call is a request, whoever makes it, a tool or a step: all are attempts of one count.
        """
        return self.faults.service_fault(service) if service in self._written_faults else None

    @cached_property
    def faults(self) -> Injector:
        """The faults that the scenario declares."""
        from pytest_evarness.world.fault import Injector

        return Injector(self._written_faults, self._case.seed)

    # -- while the run lasts ----------------------------------------------------------------

    @property
    def addresses(self) -> Mapping[str, Mapping[str, Json]]:
        """Where each service can be reached; asked for, a mock begins to listen."""
        return _Addresses(self.services, self._reached)

    @property
    def reachable(self) -> Collection[tuple[str, int]]:
        """Host and port of services whose address was asked for."""
        return self._reached

    @property
    def kinds(self) -> Mapping[str, str]:
        """Type of each service."""
        return {name: service.kind for name, service in self.services.items()}

    @property
    def problems(self) -> Mapping[str, str]:
        """Services that are down, with their last words."""
        return {
            name: service.problem
            for name, service in self.services.items()
            if service.problem is not None
        }

    def run(
        self,
        command: str | Sequence[str],
        *,
        seconds: float = 30.0,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> Completed:
        """Run a command in the workspace to its end, in a sandbox where the system has one.

        See :func:`pytest_evarness.world.command.run_in`.

        Raises:
            ValueError: The world is sealed.
        """
        if self.is_sealed:
            raise ValueError("no command can be run: the world is sealed")
        from pytest_evarness.world.command import run_in

        return run_in(self, command, seconds=seconds, env=env or {}, stdin=stdin)

    def begin(self, clock: Clock) -> None:
        """The run begins; the audit log tells its time."""
        self.audit.clock = clock

    def settle(self, emit: Callable[[str, JsonObject], int]) -> None:
        """Emit an ``http_request`` for each request that came since the last call, as they came."""
        received = self._receipts.take()
        payloads: dict[str, list[JsonObject]] = {}
        for name, service in list(self.services.items()):
            drain = getattr(service, "drain", None)
            if drain is None:
                continue
            try:
                payloads[name] = list(drain())
            except BaseException as error:  # noqa: BLE001 - what it saw is lost, which is told
                pass_on(error)
                self._give_up(name, service, error)
        # A budget may be used up in between: what was not told yet is told with the end.
        self._untold.extend(self._receipts.ordered(received, payloads))
        while self._untold:
            emit("http_request", self._untold[0])
            self._untold.popleft()

    # -- after it -----------------------------------------------------------------------------

    def seal(self) -> str:
        """End the world's life; the c1 text of its end state, secrets masked.

        A second call gives the same text.
        """
        if self._text is not None:
            return self._text
        services: list[Json] = []
        texts: list[str] = []
        for name, service in list(self.services.items()):
            try:
                service.seal()
                found = {"name": name, **service.snapshot()}
                text = c1.frozen(self.masker.value(found) if self.masker else found, name)[1]
            except BaseException as error:  # noqa: BLE001 - the service does not answer
                pass_on(error)
                self._give_up(name, service, error)
                found = {"name": name, **self.services[name].snapshot()}
                text = c1.text(found)
            services.append(found)
            texts.append(text)
        true: Any = None
        shown: Any = None
        if self.workspace is not None:
            # Before it is read: what is written while it is read was written too late.
            self._stamps = stamps(str(self.workspace))
            true, shown = snapshot.take(str(self.workspace), self._start, self.masker)
        ledger = list(self.ledger.entries)
        self._snapshot = {"workspace": true, "services": services, "ledger": ledger}
        # As c1 writes a mapping of these three; each part is encoded once.
        self._text = (
            f'{{"ledger":{c1.text(self.masker.value(ledger))},'
            f'"services":[{",".join(texts)}],"workspace":{_workspace_text(shown)}}}'
        )
        return self._text

    @property
    def is_sealed(self) -> bool:
        """Whether the run is over."""
        return self._text is not None

    @property
    def snapshot(self) -> JsonObject:
        """The end state with its true values."""
        assert self._snapshot is not None, "a world is looked at once it is sealed"
        return self._snapshot

    @property
    def is_workspace_unchanged(self) -> bool:
        """Whether the workspace is what was sealed: a thread of a step may still be writing."""
        return self.workspace is None or stamps(str(self.workspace)) == self._stamps

    def new_folder(self) -> str:
        """A new, empty folder outside the workspace that is gone with the world; absolute.

        Raises:
            OSError: It cannot be made.
        """
        path = home.new_folder()
        self._folders.append(path)
        return path

    def close(self) -> None:
        """Stop the services and remove everything; closing twice is fine."""
        for service in self.services.values():
            self._close_service(service)
        while self._folders:
            remove_tree(self._folders.pop())

    def _give_up(self, name: str, service: Service, error: BaseException) -> None:
        """From now on the service is down."""
        problem = service.problem or impersonal(f"{type(error).__name__}: {error}")
        self._close_service(service)
        self.services[name] = _Down(name, service.kind, problem)

    def _close_service(self, service: Service) -> None:
        # Whatever it is: the folder goes anyway, and nothing depends on a world that is over.
        with contextlib.suppress(Exception):
            service.close()


def _workspace_text(shown: Any) -> str:
    """The c1 text of a workspace; entry by entry, since one large value is encoded slowly."""
    if shown is None:
        return "null"
    files = ",".join([c1.text(entry) for entry in shown["files"]])
    parts = {name: c1.text(value) for name, value in shown.items() if name != "files"}
    parts["files"] = f"[{files}]"
    return "{" + ",".join(f'"{name}":{parts[name]}' for name in sorted(parts)) + "}"


class _Receipts:
    """The order in which requests came to services that know only of their own."""

    def __init__(self) -> None:
        self._names: list[str] = []
        # Payloads that were given out before their receipt was read.
        self._early: Counter[str] = Counter()

    def note(self, service: str) -> None:
        """A request came; from any thread."""
        self._names.append(service)

    def take(self) -> list[str]:
        """Names of services, one for each receipt since the last call; asked before draining."""
        count = len(self._names)
        taken = self._names[:count]
        del self._names[:count]
        return taken

    def ordered(
        self, received: Sequence[str], payloads: dict[str, list[JsonObject]]
    ) -> list[JsonObject]:
        """The payloads in the order of receipt, then those whose receipt is still to be read."""
        queues = {name: deque(queue) for name, queue in payloads.items()}
        made = []
        for name in received:
            if self._early[name]:
                self._early[name] -= 1
            elif queues.get(name):
                made.append(queues[name].popleft())
        for name, queue in queues.items():
            self._early[name] += len(queue)
            made.extend(queue)
        return made


def _started(service: Service) -> Service:
    try:
        service.start()
    except BaseException as error:  # noqa: BLE001 - a type that breaks its promise is down
        pass_on(error)
        return _Down(service.name, service.kind, impersonal(f"{type(error).__name__}: {error}"))
    return service


class _Addresses(Mapping[str, Mapping[str, "Json"]]):
    """Addresses, each asked for when it is read."""

    def __init__(self, services: Mapping[str, Service], reached: set[tuple[str, int]]) -> None:
        self._services = services
        self._reached = reached

    def __getitem__(self, name: str) -> Mapping[str, Json]:
        service = self._services.get(name)
        if service is None:
            declared = one_of(sorted(self._services)) or "none"
            raise KeyError(f"no service is called '{name}' (declared: {declared})")
        if service.problem is not None:
            raise ServiceDownError(name, service.problem)
        address = dict(service.address)
        host, port = address.get("host"), address.get("port")
        if isinstance(host, str) and isinstance(port, int):
            self._reached.add((host, port))
        return address

    def __iter__(self) -> Iterator[str]:
        return iter(self._services)

    def __len__(self) -> int:
        return len(self._services)


class _Down:
    """A service that never came up."""

    def __init__(self, name: str, kind: str, problem: str) -> None:
        self.name = name
        self.kind = kind
        self.problem: str | None = problem

    def start(self) -> None:
        """Nothing."""

    @property
    def address(self) -> Mapping[str, Json]:
        """None is known."""
        raise ServiceDownError(self.name, self.problem or "")

    def seal(self) -> None:
        """Nothing."""

    def snapshot(self) -> JsonObject:
        """That it is down."""
        return {"type": self.kind, "down": True}

    def copy(self) -> Any:
        """None can be made."""
        return self.address

    def close(self) -> None:
        """Nothing."""

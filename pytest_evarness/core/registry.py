"""Where domains and plug-ins put their parts; one registry a session, never a global one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_evarness.errors import InputError, Where

if TYPE_CHECKING:
    from pytest_evarness.core.event import EventType
    from pytest_evarness.core.interfaces import (
        CheckType,
        Domain,
        Exporter,
        Inspector,
        JudgeModel,
        LintRule,
        NodeType,
        Pattern,
        Predicate,
        ServiceType,
        WorldMaker,
    )

__all__ = [
    "ENTRY_POINT_GROUP",
    "Registry",
    "Table",
    "load_registry",
    "nearest",
    "packaged_registry",
]

ENTRY_POINT_GROUP = "evarness.plugins"

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*\Z")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that ``word`` was probably meant to be, or None where none is near."""
    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


class Table(Generic[T]):
    """Parts of one kind, by name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._parts: dict[str, T] = {}

    def register(self, name: str, part: T) -> T:
        """Offer ``part`` under ``name``.

        Raises:
            ValueError: The name is taken or not a name. A second registration is a bug in a
                domain, never an override.
        """
        if not _NAME.match(name):
            raise ValueError(
                f"{self.kind}: a name is letters, digits, '_', '-', '.', ':' (got {name!r})"
            )
        if name in self._parts:
            raise ValueError(f"{self.kind}: the name is taken (got {name!r})")
        self._parts[name] = part
        return part

    def find(self, name: str) -> T | None:
        """The part called ``name``, or None."""
        return self._parts.get(name)

    def resolve(self, name: str, *, where: Where | None = None) -> T:
        """The part called ``name``.

        Raises:
            InputError: No such name; the message lists the nearest one, or all.
        """
        part = self._parts.get(name)
        if part is None:
            near = nearest(name, self._parts)
            raise InputError(
                f"unknown {self.kind} (got '{name}'; known: {', '.join(self.names()) or 'none'})",
                where=where,
                fix=f"write '{near}'" if near else None,
            )
        return part

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._parts)

    def items(self) -> Iterator[tuple[str, T]]:
        """Name and part, sorted by name, so that no order depends on who registered first."""
        for name in self.names():
            yield name, self._parts[name]

    def values(self) -> Iterator[T]:
        """The parts, sorted by name."""
        for name in self.names():
            yield self._parts[name]

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __len__(self) -> int:
        return len(self._parts)


class Registry:
    """All tables of one session, handed to every plug-in's ``register(registry)``.

    Attributes:
        broken: ``(plug-in, error)`` of each one that could not be loaded; it breaks nothing else.
        sources: Names of the plug-ins that were loaded, in order.
        versions: Version of the distribution that each of them came in; "" where none is known.
        later_node_types: Names of node types that a domain offers in a later version, so that a
            graph which has one is refused with that word rather than with a name that looks near.
    """

    def __init__(self) -> None:
        self.domains: Table[Domain] = Table("domain")
        self.node_types: Table[NodeType] = Table("node type")
        self.event_types: Table[EventType] = Table("event type")
        self.predicates: Table[Predicate] = Table("predicate")
        self.lint_rules: Table[LintRule] = Table("lint rule")
        self.inspectors: Table[Inspector] = Table("determinism inspector")
        self.patterns: Table[Pattern] = Table("pattern")
        self.check_types: Table[CheckType] = Table("check type")
        self.service_types: Table[ServiceType] = Table("service type")
        self.judges: Table[JudgeModel] = Table("judge")
        self.make_world: WorldMaker | None = None
        self.exporters: Table[Exporter] = Table("exporter")
        self.broken: list[tuple[str, str]] = []
        self.sources: list[str] = []
        self.versions: dict[str, str] = {}
        self.later_node_types: set[str] = set()

    def predicate(self, name: str) -> Callable[[Predicate], Predicate]:
        """Decorator: offer a function over one event as ``satisfies: name``."""
        return lambda function: self.predicates.register(name, function)

    def lint_rule(self, name: str) -> Callable[[LintRule], LintRule]:
        """Decorator: offer a lint rule."""
        return lambda function: self.lint_rules.register(name, function)

    def judge(self, name: str) -> Callable[[type[JudgeModel]], type[JudgeModel]]:
        """Decorator: offer a class without arguments as the judge that ``model: name`` asks."""

        def register(kind: type[JudgeModel]) -> type[JudgeModel]:
            self.judges.register(name, kind())
            return kind

        return register

    def inspector(self, name: str) -> Callable[[Inspector], Inspector]:
        """Decorator: offer a determinism inspector."""
        return lambda function: self.inspectors.register(name, function)


def load_registry(hooks: Iterable[tuple[str, Callable[[Registry], object]]] = ()) -> Registry:
    """Build a registry from the kernel, the entry points (sorted by name), then ``hooks``.

    Args:
        hooks: Further ``(name, register)``, such as a conftest's ``pytest_evarness_register``.
    """
    from importlib.metadata import entry_points

    from pytest_evarness.core.vocabulary import register_kernel

    registry = Registry()
    register_kernel(registry)
    _register_packaged(registry)
    points = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    pending: list[tuple[str, Callable[[], Callable[[Registry], object]]]] = [
        (point.name, point.load) for point in points
    ]
    for point in points:
        registry.versions[point.name] = point.dist.version if point.dist is not None else ""
    if not any(name == "agents" for name, _ in pending):
        # Run from a source tree that is not installed: the first domain is there all the same.
        pending.insert(0, ("agents", _load_agents))
    pending.extend((name, lambda function=function: function) for name, function in hooks)  # type: ignore[misc]
    for name, load in pending:
        try:
            load()(registry)
        except Exception as error:  # noqa: BLE001 - a stranger's plug-in must break nothing else
            registry.broken.append((name, f"{type(error).__name__}: {error}"))
        else:
            registry.sources.append(name)
    return registry


def packaged_registry() -> Registry:
    """The kernel and the domains of this package alone: no entry point is looked up or imported.

    For whoever verifies what a stranger sent: the answer must not depend on what is installed.
    """
    from pytest_evarness.core.vocabulary import register_kernel

    registry = Registry()
    register_kernel(registry)
    _register_packaged(registry)
    _load_agents()(registry)
    registry.sources.append("agents")
    return registry


def _register_packaged(registry: Registry) -> None:
    """The packaged types of services and checks, by name: the kernel may not import them."""
    import importlib

    for name in ("pytest_evarness.world", "pytest_evarness.checks"):
        register = getattr(importlib.import_module(name), "register", None)
        if register is not None:
            register(registry)


def _load_agents() -> Callable[[Registry], object]:
    import importlib

    # By name: the kernel may not import a domain.
    module = importlib.import_module("pytest_evarness.domains.agents")
    register: Callable[[Registry], object] = module.register
    return register

"""Where domains and plug-ins put their parts; one registry a session, never a global one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_evarness.core.interfaces import NodeRun, NodeType, Pattern
from pytest_evarness.core.part import part_problem
from pytest_evarness.core.table import Table, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint

    from pytest_evarness.core.event import EventType
    from pytest_evarness.core.interfaces import (
        CheckType,
        Domain,
        Exporter,
        Inspector,
        JudgeModel,
        LintRule,
        Predicate,
        ServiceType,
        TraceImporter,
        WorldMaker,
    )
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.errors import Fault

__all__ = [
    "DISTRIBUTION",
    "ENTRY_POINT_GROUP",
    "LOAD_SECONDS",
    "Registry",
    "Table",
    "load_registry",
    "nearest",
    "packaged_registry",
]

ENTRY_POINT_GROUP = "evarness.plugins"

DISTRIBUTION = "pytest-evarness"

LOAD_SECONDS = 20.0
"""How long one plug-in may take to be imported and to register."""

_AGENTS = "agents"

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])


class Registry:
    """All tables of one session, handed to every plug-in's ``register(registry)``.

    Attributes:
        broken: ``(plug-in, error)`` of each one that could not be loaded; it breaks nothing else.
        sources: Names of the plug-ins that were loaded, in order.
        versions: Version of the distribution that each of them came in; "" where none is known.
        modules: The module that each of them begins in, by plug-in.
        later_node_types: Names of node types that a domain offers in a later version, so that a
            graph which has one is refused with that word rather than with a name that looks near.
        late_rules: Lint rules that once took too long; they are not asked about another graph.
    """

    def __init__(self) -> None:
        self.domains: Table[Domain] = Table("domain")
        self.node_types: Table[NodeType] = Table("node type", self._node_type_problem)
        self.event_types: Table[EventType] = Table("event type")
        self.predicates: Table[Predicate] = Table("predicate")
        self.lint_rules: Table[LintRule] = Table("lint rule")
        self.inspectors: Table[Inspector] = Table("determinism inspector")
        self.patterns: Table[Pattern] = Table("pattern")
        self.check_types: Table[CheckType] = Table("check type")
        self.service_types: Table[ServiceType] = Table("service type")
        self.judges: Table[JudgeModel] = Table("judge")
        self.exporters: Table[Exporter] = Table("exporter")
        self.importers: Table[TraceImporter] = Table("trace importer")
        self.broken: list[tuple[str, str]] = []
        self.sources: list[str] = []
        self.versions: dict[str, str] = {}
        self.modules: dict[str, str] = {}
        self.later_node_types: set[str] = set()
        self.late_rules: set[str] = set()
        self._extensions: dict[str, Table[Any]] = {}
        self._make_world: WorldMaker | None = None

    @property
    def make_world(self) -> WorldMaker | None:
        """Makes the world of a run; None where there is none."""
        return self._make_world

    @make_world.setter
    def make_world(self, maker: WorldMaker) -> None:
        if self._make_world is not None:
            raise ValueError("there is a maker of worlds already; a plug-in adds service types")
        self._make_world = maker

    def _node_type_problem(self, name: str, part: object) -> str | None:
        """What is wrong with a node type; one of a stranger may not speak for anybody's gate."""
        problem = part_problem("node type", name, part)
        source = self.node_types.source
        if problem is not None or not isinstance(part, NodeType) or source in ("", _AGENTS):
            return problem
        forged = [
            one
            for one in part.emits
            if (entry := self.event_types.find(one)) is not None
            and entry.is_governance
            and self.event_types.source_of(one) != source
        ]
        if not forged:
            return None
        return (
            f"emits lists what only its own domain may tell (got {', '.join(forged)}; types that"
            " this plug-in registers, custom.NAME, and what decides nothing)"
        )

    # -- decorators ------------------------------------------------------------------------

    def predicate(self, name: str) -> Callable[[F], F]:
        """Decorator: offer a function over one event as ``satisfies: name``."""
        return _offering(self.predicates, name)

    def lint_rule(self, name: str) -> Callable[[F], F]:
        """Decorator: offer a lint rule."""
        return _offering(self.lint_rules, name)

    def inspector(self, name: str) -> Callable[[F], F]:
        """Decorator: offer a determinism inspector."""
        return _offering(self.inspectors, name)

    def judge(self, name: str) -> Callable[[type[C]], type[C]]:
        """Decorator: offer a class without arguments as the judge that ``model: name`` asks."""
        return _offering_object(self.judges, name)

    def check_type(self, name: str) -> Callable[[type[C]], type[C]]:
        """Decorator: offer a class without arguments as the check ``type: name``."""
        return _offering_object(self.check_types, name)

    def service_type(self, name: str) -> Callable[[type[C]], type[C]]:
        """Decorator: offer a class without arguments as the service ``type: name``."""
        return _offering_object(self.service_types, name)

    def exporter(self, name: str) -> Callable[[F], F]:
        """Decorator: offer ``function(statement) -> bytes`` as a report format."""
        from pytest_evarness.core.exchange import FunctionExporter

        return _offering(self.exporters, name, lambda function: FunctionExporter(name, function))

    def importer(self, name: str) -> Callable[[F], F]:
        """Decorator: offer ``function(data) -> lines`` as a reader of foreign traces."""
        from pytest_evarness.core.exchange import FunctionImporter

        return _offering(self.importers, name, lambda function: FunctionImporter(name, function))

    def node_type(
        self,
        name: str,
        *,
        doc: str,
        inputs: Mapping[str, str],
        outputs: Mapping[str, str],
        config_schema: JsonObject | None = None,
        parse_config: Callable[[JsonObject], tuple[Any, list[Fault]]] | None = None,
        emits: Sequence[str] = (),
        traits: Collection[str] = (),
        is_loop: bool = False,
    ) -> Callable[[F], F]:
        """Decorator: offer ``run(inputs, config, context) -> outputs`` as a type of node.

        Args:
            config_schema: JSON Schema of the configuration; without it there is nothing to
                configure, and every key is refused.
            parse_config: Without it a configuration is held against the schema, and ``run`` gets
                it as it is.
        """
        from pytest_evarness.core.exchange import NO_CONFIG, parser_of

        schema = NO_CONFIG if config_schema is None else config_schema
        parse = parser_of(schema) if parse_config is None else parse_config

        def made(run: NodeRun) -> NodeType:
            return NodeType(
                name=name,
                doc=doc,
                inputs=dict(inputs),
                outputs=dict(outputs),
                parse_config=parse,
                config_schema=schema,
                run=run,
                emits=tuple(emits),
                is_loop=is_loop,
                traits=frozenset(traits),
            )

        return _offering(self.node_types, name, made)

    def pattern(
        self, name: str, folder: Path, *, doc: str, fixtures: Sequence[str] = ()
    ) -> Pattern:
        """Offer a folder with ``graph.json`` and ``fixtures/`` as ``pattern:name``.

        Args:
            fixtures: Names, the default first; without them all that are there, by name.
        """
        found = tuple(fixtures) or tuple(
            sorted(path.stem for path in (folder / "fixtures").glob("*.yaml"))
        )
        if not found:
            raise ValueError(
                f"pattern '{name}': no fixture (got folder '{folder.name}'; at least"
                " one fixtures/NAME.yaml)"
            )
        return self.patterns.register(name, Pattern(name, doc, folder, found[0], found))

    # -- what a domain lets plug-ins extend -------------------------------------------------

    def extensible(
        self, kind: str, look: Callable[[str, object], str | None] | None = None
    ) -> Table[Any]:
        """Add a table of a kind that only a domain knows, called ``DOMAIN.WORD``.

        Args:
            look: Says what is wrong with a part that is registered under a name, or None.

        Raises:
            ValueError: There is such a table.
        """
        if kind in self._extensions:
            raise ValueError(f"the kind of extension is taken (got {kind!r})")
        table: Table[Any] = Table(kind, look)
        table.source = self.domains.source
        self._extensions[kind] = table
        return table

    def extensions(self, kind: str) -> Table[Any]:
        """The parts of a kind that a domain knows; a plug-in registers in it.

        Raises:
            ValueError: No domain has such a kind; the message has the nearest one.
        """
        table = self._extensions.get(kind)
        if table is None:
            near = nearest(kind, self._extensions)
            known = ", ".join(sorted(self._extensions)) or "none"
            meant = f"; did you mean '{near}'?" if near else ""
            raise ValueError(f"unknown kind of extension (got {kind!r}; known: {known}{meant})")
        return table

    # -- plug-ins --------------------------------------------------------------------------

    def is_foreign(self, table: Table[Any], name: str) -> bool:
        """Whether a part came from a plug-in that is not this package's own."""
        return table.source_of(name) not in ("", _AGENTS)

    def _tables(self) -> list[Table[Any]]:
        own = [value for value in vars(self).values() if isinstance(value, Table)]
        return [*own, *self._extensions.values()]

    @contextmanager
    def _as_one(self, source: str) -> Iterator[None]:
        """What a plug-in registers is there as a whole, or, where it raises, not at all."""
        before = dict(vars(self))
        tables = [(table, table.kept()) for table in self._tables()]
        later, extensions = set(self.later_node_types), dict(self._extensions)
        for table, _ in tables:
            table.source = source
        try:
            yield
        except BaseException:
            vars(self).update(before)
            self.later_node_types, self._extensions = later, extensions
            for table, kept in tables:
                table.put_back(kept)
            raise
        finally:
            for table in self._tables():
                table.source = ""

    def plugin_behind(self, error: BaseException) -> str | None:
        """The stranger's plug-in in whose code an error was raised; None where it is nobody's."""
        trace = error.__traceback__
        names: list[str] = []
        while trace is not None:
            names.append(str(trace.tb_frame.f_globals.get("__name__", "")))
            trace = trace.tb_next
        for name in reversed(names):
            for plugin, module in self.modules.items():
                if plugin != _AGENTS and (name == module or name.startswith(f"{module}.")):
                    return plugin
        return None

    def load(self, name: str, load: Callable[[], object]) -> None:
        """Let a plug-in register; where it cannot, say so under ``broken`` and nothing more.

        Args:
            name: Of the plug-in.
            load: Gives its ``register``; a module is imported by it.
        """
        from pytest_evarness.core.deadline import Deadline, OutOfTimeError
        from pytest_evarness.core.part import described

        try:
            with self._as_one(name), Deadline(LOAD_SECONDS) as deadline:
                deadline.may_interrupt = True
                register = load()
                if not callable(register):
                    raise TypeError(
                        f"must be a function of the registry (got {described(register)};"
                        " register(registry))"
                    )
                register(self)
                deadline.may_interrupt = False
        except KeyboardInterrupt:
            raise
        except OutOfTimeError:
            self.broken.append((name, f"it did not come back within {LOAD_SECONDS:g} s"))
        # An exit, or one of pytest's own exceptions, must end no more than an error does.
        except BaseException as error:  # noqa: BLE001 - a stranger's plug-in breaks nothing else
            self.broken.append((name, f"{type(error).__name__}: {error}"))
        else:
            self.sources.append(name)


def _offering(
    table: Table[Any], name: str, made: Callable[[Any], object] = lambda part: part
) -> Callable[[F], F]:
    def register(function: F) -> F:
        table.register(name, made(function))
        return function

    return register


def _offering_object(table: Table[Any], name: str) -> Callable[[type[C]], type[C]]:
    def register(kind: type[C]) -> type[C]:
        table.register(name, kind())
        return kind

    return register


def load_registry(hooks: Iterable[tuple[str, Callable[[Registry], object]]] = ()) -> Registry:
    """Build a registry from the kernel, the entry points (sorted by name), then ``hooks``.

    Args:
        hooks: Further ``(name, register)``, such as a conftest's ``pytest_evarness_register``.
    """
    registry = _built_in()
    points = _entry_points()
    if not any(_is_own(point) for point in points):
        # Run from a source tree that is not installed: the first domain is there all the same.
        registry.load(_AGENTS, _load_agents)
    holder: dict[str, str] = {_AGENTS: DISTRIBUTION}
    for point in points:
        distribution = point.dist.name if point.dist is not None else "an unknown distribution"
        held = holder.get(point.name)
        if held is not None and not (held == DISTRIBUTION and _is_own(point)):
            # Two by one name could not be told apart in any report, nor in a bundle.
            problem = f"the name is taken by {held} (got it from {distribution})"
            registry.broken.append((point.name, problem))
            continue
        holder[point.name] = distribution
        registry.versions[point.name] = point.dist.version if point.dist is not None else ""
        registry.modules[point.name] = point.module
        registry.load(point.name, point.load)
    for name, function in hooks:
        free = f"hook:{name}" if name in holder else name
        registry.modules.setdefault(free, name)
        registry.load(free, lambda function=function: function)  # type: ignore[misc]
    return registry


def _entry_points() -> list[EntryPoint]:
    """All of our group: ours first, then by name, so that nobody's order of installing shows."""
    from importlib.metadata import entry_points

    def key(point: EntryPoint) -> tuple[bool, str, str, str]:
        distribution = point.dist.name if point.dist is not None else ""
        return (not _is_own(point), point.name, distribution, point.value)

    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=key)


def _is_own(point: EntryPoint) -> bool:
    return point.dist is not None and point.dist.name.lower().replace("_", "-") == DISTRIBUTION


def packaged_registry() -> Registry:
    """The kernel and the domains of this package alone: no entry point is looked up or imported.

    For whoever verifies what a stranger sent: the answer must not depend on what is installed.
    """
    registry = _built_in()
    registry.load(_AGENTS, _load_agents)
    assert not registry.broken, registry.broken
    return registry


def _built_in() -> Registry:
    """The kernel, and the packaged types of services and checks, which it may not import."""
    import importlib

    from pytest_evarness.core.vocabulary import register_kernel

    registry = Registry()
    register_kernel(registry)
    for name in ("pytest_evarness.world", "pytest_evarness.checks"):
        register = getattr(importlib.import_module(name), "register", None)
        if register is not None:
            register(registry)
    return registry


def _load_agents() -> Callable[[Registry], object]:
    import importlib

    # By name: the kernel may not import a domain.
    module = importlib.import_module("pytest_evarness.domains.agents")
    register: Callable[[Registry], object] = module.register
    return register

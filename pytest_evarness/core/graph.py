"""The graph of a harness: read from JSON, linted, and put into its one order of execution."""

from __future__ import annotations

import bisect
import heapq
import random
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.core import c1
from pytest_evarness.core.deadline import Deadline, OutOfTimeError
from pytest_evarness.core.interfaces import LintFinding
from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.core.registry import nearest
from pytest_evarness.core.stranger import pass_on
from pytest_evarness.core.table import Advice
from pytest_evarness.errors import DeterminismError, Fault, InputError

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import LintRule
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.registry import Registry

__all__ = [
    "IR_VERSION",
    "RULE_SECONDS",
    "Edge",
    "Graph",
    "GraphParams",
    "Node",
    "check_schedule",
    "lint",
    "migrate",
    "order",
    "parse_graph",
]

IR_VERSION = 1

RULE_SECONDS = 10.0
"""How long a plug-in's lint rule may look at one graph."""

_MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = MappingProxyType({})
"""Version n to the step that makes version n + 1 of it; empty as long as 1 is the only version."""

_GRAPH_KEYS = (
    "ir_version",
    "id",
    "name",
    "description",
    "nodes",
    "edges",
    "groups",
    "params",
    "metadata",
)
_NODE_KEYS = ("id", "type", "label", "config", "position")
_EDGE_KEYS = ("from", "to", "from_port", "to_port")
_PARAM_KEYS = ("context_budget_tokens", "max_loops", "seed", "provider", "invariants")
_SCHEDULE = re.compile(r"canonical\Z|reverse\Z|seed:([0-9]{1,15})\Z")
_SHOWN_IN_A_CYCLE = 50


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a harness.

    Attributes:
        config: As it was written; None of it is changed afterwards.
        parsed: What the type's ``parse_config`` made of it; None where the type is unknown.
    """

    id: str
    type: str
    label: str
    config: JsonObject
    parsed: Any = None


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """What leaves ``from_port`` of ``source`` arrives at ``to_port`` of ``target``."""

    source: str
    target: str
    from_port: str = "out"
    to_port: str = "in"


@dataclass(frozen=True, slots=True)
class GraphParams:
    """The graph's own defaults."""

    context_budget_tokens: int = 8000
    max_loops: int = 5
    seed: int = 42
    provider: str = "sim:helpful-v1"
    invariants: tuple[str, ...] = ()

    def as_record(self) -> dict[str, Json]:
        """The JSON form, every field present."""
        return {
            "context_budget_tokens": self.context_budget_tokens,
            "max_loops": self.max_loops,
            "seed": self.seed,
            "provider": self.provider,
            "invariants": list(self.invariants),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A harness, read-only and independent of the order in its file.

    Attributes:
        nodes: By id, in code-point order of the ids.
        edges: Sorted; no two are equal.
        incoming: For each node its edges in the order of execution: by port, then source id.
        outgoing: For each node its edges, sorted.
        found: What reading found and lint reports: duplicates, unknown types, configurations.
        places: For each node and edge its position in the document, for line numbers.
    """

    id: str
    name: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    params: GraphParams
    incoming: Mapping[str, Sequence[Edge]]
    outgoing: Mapping[str, Sequence[Edge]]
    found: tuple[LintFinding, ...] = ()
    places: Mapping[str | Edge, int] = field(default_factory=dict)
    _orders: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    _shared: dict[str, bool] = field(default_factory=dict, repr=False)

    def as_record(self) -> dict[str, Json]:
        """All that a run depends on, as a graph document; layout and remarks are left out."""
        return {
            "ir_version": IR_VERSION,
            "id": self.id,
            "name": self.name,
            "nodes": [
                {
                    "id": node.id,
                    "type": node.type,
                    **({"label": node.label} if node.label else {}),
                    "config": node.config,
                }
                for node in self.nodes.values()
            ],
            "edges": [
                {
                    "from": edge.source,
                    "to": edge.target,
                    "from_port": edge.from_port,
                    "to_port": edge.to_port,
                }
                for edge in self.edges
            ],
            "params": self.params.as_record(),
        }

    def successors(self, node_id: str) -> list[str]:
        """Nodes that an edge of ``node_id`` leads to, sorted, once each."""
        return sorted({edge.target for edge in self.outgoing.get(node_id, ())})

    def predecessors(self, node_id: str) -> list[str]:
        """Nodes with an edge to ``node_id``, sorted, once each."""
        return sorted({edge.source for edge in self.incoming.get(node_id, ())})

    def reachable(self, starts: Sequence[str]) -> set[str]:
        """``starts`` and every node that a path leads to from one of them."""
        seen = set(starts)
        waiting = deque(starts)
        while waiting:
            for edge in self.outgoing.get(waiting.popleft(), ()):
                if edge.target not in seen:
                    seen.add(edge.target)
                    waiting.append(edge.target)
        return seen

    def path_of(self, place: str | Edge) -> tuple[str | int, ...]:
        """Where a node (by id) or an edge stands in the document."""
        kind = "nodes" if isinstance(place, str) else "edges"
        index = self.places.get(place)
        return (kind,) if index is None else (kind, index)


# -- reading -------------------------------------------------------------------------------------


def migrate(value: Mapping[str, Any], to: int = IR_VERSION) -> dict[str, Any]:
    """Bring a graph document to version ``to``, one version at a time.

    Raises:
        InputError: A version that is newer than this program, or that never was.
    """
    document = dict(value)
    version = document.get("ir_version", IR_VERSION)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(f"ir_version: no such version (got {shown(version)}; 1 to {to})")
    if version > to:
        raise InputError(
            f"ir_version: newer than this program reads (got {version}; 1 to {to})",
            fix="install a newer pytest-evarness",
        )
    while version < to:
        document = _MIGRATIONS[version](document)
        version += 1
        document["ir_version"] = version
    return document


def parse_graph(value: Json, registry: Registry) -> tuple[Graph | None, list[Fault]]:
    """Read a graph document.

    Only its shape is judged here; what :func:`lint` has to say is kept in the graph.

    Args:
        value: The document, from JSON or YAML or written inline.
        registry: Knows the node types.

    Returns:
        The graph, or None where its shape is wrong; and all faults, their paths from the root.
    """
    try:
        plain = c1.copied(value, "")
    except DeterminismError as error:
        field_path = error.where.field if error.where is not None else None
        place = f"{field_path}: " if field_path else ""
        return None, [Fault((), f"{place}{error.problem}")]
    if not isinstance(plain, dict):
        return None, [_expected((), "a graph", "a mapping", plain)]
    lost = list(_lost_digits(value, ()))
    if lost:
        return None, lost
    try:
        document = migrate(plain)
    except InputError as error:
        problem = error.problem.removeprefix("ir_version: ")
        return None, [Fault(("ir_version",), problem, fix=error.fix)]
    reader = _Reader(registry)
    graph = reader.graph(document)
    return (None, reader.faults) if reader.faults else (graph, [])


def _lost_digits(value: object, path: tuple[str | int, ...]) -> Iterator[Fault]:
    """Numbers that are others than their digits once they are sealed, with what is compared."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _lost_digits(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _lost_digits(inner, (*path, index))
    elif isinstance(value, float):
        digits = getattr(value, "written", None)
        if digits is not None and Fraction(digits) != Fraction(repr(float(value))):
            rule = f"the nearest that is kept is {float(value)!r}"
            yield Fault(path, "has more digits than are kept", got=digits, rule=rule)


def _expected(path: tuple[str | int, ...], what: str, rule: str, got: object) -> Fault:
    kind = "" if got is None else f"{kind_of(got)} "
    # The place names the key already.
    subject = "" if path and path[-1] == what else f"{what} "
    return Fault(path, f"{subject}must be {rule}", got=f"{kind}{shown(got)}")


class _Reader:
    """Collects faults while it reads, so that all of a document are told at once."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.faults: list[Fault] = []
        self.found: list[LintFinding] = []
        self.places: dict[str | Edge, int] = {}

    def graph(self, document: dict[str, Any]) -> Graph:
        self._known(document, (), _GRAPH_KEYS)
        graph_id = self._text(document, (), "id", None)
        name = self._text(document, (), "name", graph_id)
        self._text(document, (), "description", "")
        self._groups(document)
        if not isinstance(document.get("metadata", {}), dict):
            got = document["metadata"]
            self.faults.append(_expected(("metadata",), "metadata", "a mapping", got))
        nodes = self._nodes(document)
        edges = self._edges(document)
        params = self._params(document)
        incoming: dict[str, list[Edge]] = {}
        outgoing: dict[str, list[Edge]] = {}
        for edge in edges:
            outgoing.setdefault(edge.source, []).append(edge)
            incoming.setdefault(edge.target, []).append(edge)
        for arriving in incoming.values():
            arriving.sort(key=lambda edge: (edge.to_port, edge.source, edge.from_port))
        return Graph(
            id=graph_id,
            name=name,
            nodes=MappingProxyType(nodes),
            edges=tuple(edges),
            params=params,
            incoming=MappingProxyType(incoming),
            outgoing=MappingProxyType(outgoing),
            found=tuple(self.found),
            places=MappingProxyType(self.places),
        )

    def _known(
        self, mapping: dict[str, Any], path: tuple[str | int, ...], known: Sequence[str]
    ) -> None:
        for key in mapping:
            if key not in known:
                near = nearest(key, known)
                self.faults.append(
                    Fault(
                        (*path, key),
                        "unknown key",
                        got=f"'{key}'",
                        rule=f"known: {', '.join(known)}",
                        fix=f"write '{near}'" if near else None,
                        at_key=True,
                        code="unknown_key",
                    )
                )

    def _text(
        self,
        mapping: dict[str, Any],
        path: tuple[str | int, ...],
        key: str,
        default: str | None,
    ) -> str:
        """A text; without a default it is required and not empty."""
        if key not in mapping:
            if default is None:
                self.faults.append(Fault(path, f"required key '{key}' is missing", code="missing"))
            return default or ""
        value: object = mapping[key]
        if not isinstance(value, str):
            self.faults.append(_expected((*path, key), key, "a text", value))
            return ""
        if not value and default is None:
            self.faults.append(Fault((*path, key), "must not be empty", got='""'))
        return value

    def _groups(self, document: dict[str, Any]) -> None:
        groups = document.get("groups", [])
        if not isinstance(groups, list):
            self.faults.append(_expected(("groups",), "groups", "a list", groups))

    def _list(self, document: dict[str, Any], key: str, *, required: bool) -> list[Any]:
        if key not in document:
            if required:
                self.faults.append(Fault((), f"required key '{key}' is missing", code="missing"))
            return []
        value = document[key]
        if not isinstance(value, list):
            self.faults.append(_expected((key,), key, "a list", value))
            return []
        return value

    def _nodes(self, document: dict[str, Any]) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        entries = self._list(document, "nodes", required=True)
        if "nodes" in document and entries == [] and isinstance(document["nodes"], list):
            self.faults.append(Fault(("nodes",), "a graph has at least one node", got="[]"))
        for index, entry in enumerate(entries):
            path = ("nodes", index)
            if not isinstance(entry, dict):
                self.faults.append(_expected(path, "a node", "a mapping", entry))
                continue
            self._known(entry, path, _NODE_KEYS)
            node_id = self._text(entry, path, "id", None)
            type_name = self._text(entry, path, "type", None)
            label = self._text(entry, path, "label", "")
            config = entry.get("config", {})
            if not isinstance(config, dict):
                self.faults.append(_expected((*path, "config"), "config", "a mapping", config))
                continue
            if node_id in nodes:
                first = self.places[node_id]
                self.found.append(
                    LintFinding(
                        "error",
                        "duplicate_node",
                        f"two nodes have one id (got '{node_id}'; first at nodes[{first}])",
                        (*path, "id"),
                        node_id,
                    )
                )
                continue
            self.places[node_id] = index
            parsed = self._parsed(path, node_id, type_name, config)
            nodes[node_id] = Node(node_id, type_name, label, config, parsed)
        return {node_id: nodes[node_id] for node_id in sorted(nodes)}

    def _parsed(
        self, path: tuple[str | int, ...], node_id: str, type_name: str, config: dict[str, Any]
    ) -> Any:
        node_type = self.registry.node_types.find(type_name)
        if node_type is None:
            known = self.registry.node_types.names()
            is_later = type_name in self.registry.later_node_types
            near = None if is_later else nearest(type_name, known)
            problem = "node type is not in this version" if is_later else "unknown node type"
            self.found.append(
                LintFinding(
                    "error",
                    "unknown_node_type",
                    f"{problem} (got '{type_name}'; known: {', '.join(known) or 'none'})",
                    (*path, "type"),
                    node_id,
                    fix=f"write '{near}'" if near else None,
                )
            )
            return None
        parsed, faults = node_type.parse_config(c1.copied(config))
        for fault in faults:
            self.found.append(
                LintFinding(
                    "error",
                    "invalid_config" if fault.code == "invalid" else fault.code,
                    fault.text,
                    (*path, "config", *fault.path),
                    node_id,
                    fix=fault.fix,
                )
            )
        return None if faults else parsed

    def _edges(self, document: dict[str, Any]) -> list[Edge]:
        edges: list[Edge] = []
        for index, entry in enumerate(self._list(document, "edges", required=False)):
            path = ("edges", index)
            if not isinstance(entry, dict):
                self.faults.append(_expected(path, "an edge", "a mapping", entry))
                continue
            self._known(entry, path, _EDGE_KEYS)
            edge = Edge(
                self._text(entry, path, "from", None),
                self._text(entry, path, "to", None),
                self._text(entry, path, "from_port", "out"),
                self._text(entry, path, "to_port", "in"),
            )
            if edge in self.places:
                first = self.places[edge]
                self.found.append(
                    LintFinding(
                        "error",
                        "duplicate_edge",
                        f"the same edge twice (got {_edge_text(edge)}; first at edges[{first}])",
                        path,
                        edge.source,
                    )
                )
                continue
            self.places[edge] = index
            edges.append(edge)
        return sorted(edges)

    def _params(self, document: dict[str, Any]) -> GraphParams:
        params = document.get("params", {})
        default = GraphParams()
        if not isinstance(params, dict):
            self.faults.append(_expected(("params",), "params", "a mapping", params))
            return default
        self._known(params, ("params",), _PARAM_KEYS)
        invariants = params.get("invariants", [])
        if not isinstance(invariants, list):
            path: tuple[str | int, ...] = ("params", "invariants")
            self.faults.append(_expected(path, "invariants", "a list of ids", invariants))
            invariants = []
        for index, entry in enumerate(invariants):
            if not isinstance(entry, str) or not entry:
                path = ("params", "invariants", index)
                self.faults.append(_expected(path, "an invariant", "the id of a contract", entry))
        return GraphParams(
            self._count(params, "context_budget_tokens", default.context_budget_tokens),
            self._count(params, "max_loops", default.max_loops),
            self._count(params, "seed", default.seed, least=None),
            self._text(params, ("params",), "provider", default.provider),
            tuple(entry for entry in invariants if isinstance(entry, str)),
        )

    def _count(self, params: dict[str, Any], key: str, default: int, least: int | None = 1) -> int:
        value = params.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self.faults.append(_expected(("params", key), key, "an integer", value))
            return default
        if least is not None and value < least:
            self.faults.append(
                Fault(("params", key), f"{key} must be a positive integer", str(value), "1 or more")
            )
        return value


def _edge_text(edge: Edge) -> str:
    start = edge.source if edge.from_port == "out" else f"{edge.source}.{edge.from_port}"
    end = edge.target if edge.to_port == "in" else f"{edge.target}.{edge.to_port}"
    return f"{start} -> {end}"


# -- lint ----------------------------------------------------------------------------------------


def lint(graph: Graph, registry: Registry, overlays: JsonObject | None = None) -> list[LintFinding]:
    """All remarks about a graph: errors first, each kind in the order of the document.

    The rules that domains register run only over a graph without errors of the kernel's own, so
    that they need not guard against dangling edges and cycles.
    """
    found = [*graph.found, *_dangling(graph, registry), *_cycles(graph)]
    if not any(finding.level == "error" for finding in found):
        found.extend(_loose_ends(graph, registry))
        for name, rule in registry.lint_rules.items():
            found.extend(_ruled(name, rule, graph, registry, overlays or {}))
    return sorted(found, key=lambda finding: (finding.level != "error", _position(finding.path)))


def _ruled(
    name: str, rule: LintRule, graph: Graph, registry: Registry, overlays: JsonObject
) -> list[LintFinding]:
    """What a rule finds; a stranger's rule that breaks is told, and breaks nothing else."""
    if not registry.is_foreign(registry.lint_rules, name):
        return list(rule(graph, registry, overlays))
    late = _broken_rule(name, f"it did not come back within {RULE_SECONDS:g} s")
    if name in registry.late_rules:
        return [late]
    try:
        with Deadline(RULE_SECONDS) as deadline:
            deadline.may_interrupt = True
            found: list[object] = list(rule(graph, registry, overlays))
            deadline.may_interrupt = False
    except OutOfTimeError:
        registry.late_rules.add(name)
        return [late]
    except BaseException as error:  # noqa: BLE001 - a stranger's rule breaks nothing else
        pass_on(error)
        return [_broken_rule(name, type(error).__name__)]
    own = [one for one in found if isinstance(one, LintFinding)]
    if len(own) == len(found):
        return own
    return [*own, _broken_rule(name, "it gave something else than remarks")]


def _broken_rule(name: str, why: str) -> LintFinding:
    return LintFinding("warning", "broken_rule", f"lint rule '{name}' could not look ({why})", ())


def _position(path: tuple[str | int, ...]) -> tuple[tuple[int, str], ...]:
    return tuple((step, "") if isinstance(step, int) else (-1, step) for step in path)


def _dangling(graph: Graph, registry: Registry) -> Iterator[LintFinding]:
    advice = Advice()
    for edge in graph.edges:
        path = graph.path_of(edge)
        for side, node_id, port in (
            ("from", edge.source, edge.from_port),
            ("to", edge.target, edge.to_port),
        ):
            node = graph.nodes.get(node_id)
            if node is None:
                near = advice(node_id, graph.nodes)
                yield LintFinding(
                    "error",
                    "missing_node",
                    f"no such node (got '{node_id}' in {_edge_text(edge)})",
                    (*path, side),
                    fix=f"write '{near}'" if near else None,
                )
                continue
            node_type = registry.node_types.find(node.type)
            if node_type is None:
                continue  # said once, at the node
            ports = node_type.outputs if side == "from" else node_type.inputs
            if port not in ports:
                yield _no_such_port(edge, side, node, port, sorted(ports), path)


def _no_such_port(
    edge: Edge,
    side: str,
    node: Node,
    port: str,
    ports: list[str],
    path: tuple[str | int, ...],
) -> LintFinding:
    direction = "output" if side == "from" else "input"
    written = edge.from_port != "out" if side == "from" else edge.to_port != "in"
    near = nearest(port, ports) or (ports[0] if len(ports) == 1 else None)
    known = ", ".join(ports) or "none"
    return LintFinding(
        "error",
        "unknown_port",
        f"{node.type} '{node.id}' has no {direction} port '{port}' "
        f"(got {_edge_text(edge)}; {direction} ports: {known})",
        (*path, f"{side}_port") if written else path,
        node.id,
        fix=f"write '{side}_port: {near}'" if near else None,
    )


def _cycles(graph: Graph) -> Iterator[LintFinding]:
    """One finding for each knot of nodes that reach each other, with a shortest way round."""
    for knot in _knots(graph):
        start = min(knot)
        members = set(knot)
        came_from: dict[str, str] = {}
        waiting = deque([start])
        last: str | None = None
        while waiting and last is None:
            here = waiting.popleft()
            for edge in graph.outgoing.get(here, ()):
                if edge.target == start:
                    last = here
                    break
                if edge.target in members and edge.target not in came_from:
                    came_from[edge.target] = here
                    waiting.append(edge.target)
        way = [start]
        while last is not None and last != start:
            way.append(last)
            last = came_from[last]
        way = [start, *reversed(way[1:]), start]
        if len(way) > _SHOWN_IN_A_CYCLE:
            hidden = len(way) - _SHOWN_IN_A_CYCLE
            way = [*way[: _SHOWN_IN_A_CYCLE - 1], f"… {hidden} more …", start]
        yield LintFinding(
            "error",
            "cycle",
            f"nodes wait for each other (got {' -> '.join(way)}; "
            "a graph has no cycles, iteration lives inside a node)",
            graph.path_of(start),
            start,
        )


def _knots(graph: Graph) -> list[list[str]]:
    """Strongly connected parts with a cycle in them.

    Source:
        R. Tarjan, "Depth-first search and linear graph algorithms", 1972; without recursion,
        since a chain of 5,000 nodes is a legal graph.
    """
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    knots: list[list[str]] = []
    targets = {
        node_id: [edge.target for edge in graph.outgoing.get(node_id, ())]
        for node_id in graph.nodes
    }
    for root in graph.nodes:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(targets[root]))]
        while work:
            here, pending = work[-1]
            deeper = False
            for target in pending:
                if target not in targets:
                    continue  # a missing node is said elsewhere
                if target not in number:
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(targets[target])))
                    deeper = True
                    break
                if target in on_stack and number[target] < low[here]:
                    low[here] = number[target]
            if deeper:
                continue
            work.pop()
            if work and low[here] < low[work[-1][0]]:
                low[work[-1][0]] = low[here]
            if low[here] == number[here]:
                knot = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    knot.append(member)
                    if member == here:
                        break
                if len(knot) > 1 or here in targets[here]:
                    knots.append(knot)
    return sorted(knots, key=min)


def _loose_ends(graph: Graph, registry: Registry) -> Iterator[LintFinding]:
    types = {node.type: registry.node_types.resolve(node.type) for node in graph.nodes.values()}
    sources = {registry.node_types.source_of(name) for name in types}
    for word in ("input", "output"):
        ends = [name for source in sorted(sources) for name in _ends(registry, source, word)]
        if not ends or any(name in types for name in ends):
            continue
        article = "an" if ends[0][0] in "aeiou" else "a"
        yield LintFinding(
            "warning",
            f"no_{word}",
            f"the graph has no {word} node (add {article} '{ends[0]}')",
            (),
        )
    if len(graph.nodes) == 1:
        return
    for node_id in graph.nodes:
        if node_id not in graph.incoming and node_id not in graph.outgoing:
            yield LintFinding(
                "warning",
                "unconnected",
                f"no edge leads to or from the node (got '{node_id}')",
                graph.path_of(node_id),
                node_id,
            )


def _ends(registry: Registry, source: str, word: str) -> list[str]:
    """Names of the types of one plug-in that are an end of a graph.

    They say so by a trait; where none of a plug-in does, the ports do.
    """
    known = [
        node_type
        for name, node_type in registry.node_types.items()
        if registry.node_types.source_of(name) == source
    ]
    by_trait = [node_type.name for node_type in known if word in node_type.traits]
    if by_trait:
        return by_trait
    side = "inputs" if word == "input" else "outputs"
    return [node_type.name for node_type in known if not getattr(node_type, side)]


# -- order ---------------------------------------------------------------------------------------


def check_schedule(schedule: str) -> str:
    """``schedule`` itself.

    Raises:
        InputError: Not ``canonical``, ``reverse`` or ``seed:N``.
    """
    if _SCHEDULE.match(schedule) is None:
        raise InputError(
            f"schedule: unknown (got {shown(schedule)}; canonical, reverse, or seed:N)"
        )
    return schedule


def order(graph: Graph, schedule: str = "canonical") -> list[str]:
    """The node ids in the order in which they run.

    A node is ready when every node with an edge to it has run. Of the ready ones ``canonical``
    takes the smallest id by code point, ``reverse`` the largest, and ``seed:N`` element
    ``Random(N).randrange(len(ready))`` of the sorted ids, with one generator for the run.

    Raises:
        InputError: An unknown schedule, or a graph with a cycle or a dangling edge.
    """
    known = graph._orders.get(schedule)  # noqa: SLF001 - the graph's memory of this function
    if known is None:
        known = tuple(_ordered(graph, check_schedule(schedule)))
        if not schedule.startswith("seed:"):  # a sweep over seeds would keep one order for each
            graph._orders[schedule] = known  # noqa: SLF001
    return list(known)


def _ordered(graph: Graph, schedule: str) -> Iterator[str]:
    waiting = dict.fromkeys(graph.nodes, 0)
    for edge in graph.edges:
        if edge.source not in waiting or edge.target not in waiting:
            raise InputError(f"no such node (got {_edge_text(edge)})")
        waiting[edge.target] += 1
    ready = [node_id for node_id, count in waiting.items() if count == 0]  # sorted, so a heap too
    seed = cast("re.Match[str]", _SCHEDULE.match(schedule)).group(1)
    generator = random.Random(int(seed)) if seed is not None else None  # noqa: S311
    add: Callable[[list[str], str], None]
    add = heapq.heappush if schedule == "canonical" else bisect.insort
    done = 0
    while ready:
        if schedule == "canonical":
            node_id = heapq.heappop(ready)
        elif generator is None:
            node_id = ready.pop()
        else:
            node_id = ready.pop(generator.randrange(len(ready)))
        done += 1
        yield node_id
        for edge in graph.outgoing.get(node_id, ()):
            waiting[edge.target] -= 1
            if waiting[edge.target] == 0:
                add(ready, edge.target)
    if done < len(waiting):
        raise InputError(next(_cycles(graph)).message)

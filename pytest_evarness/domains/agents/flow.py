"""Questions about a graph's paths, each answered by one walk over nodes and edges."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_evarness.domains.agents.manifest import canonical, manifests_of, requires_approval

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph, Node
    from pytest_evarness.core.json import JsonObject

__all__ = [
    "CLASSIFIER",
    "LOOP",
    "Flow",
    "acts_behind",
    "always_asks",
    "asking",
    "covered_calls",
    "instructing",
    "needing_approval",
    "side_effecting",
    "tool_names",
]

LOOP = "loop_controller"
"""The type of node that decides on its calls while it runs."""

CLASSIFIER = "data_classifier"
"""The type of node that gives a run its class."""

_MANY = 2  # «several» begins here, so no set in this module grows beyond it


@dataclass(frozen=True, slots=True)
class Flow:
    """The edges of a graph as neighbour lists; edges to nodes that are not there are left out."""

    after: Mapping[str, list[str]]
    before: Mapping[str, list[str]]

    @classmethod
    def of(cls, graph: Graph) -> Flow:
        """Read the edges of ``graph``."""
        after: dict[str, list[str]] = {node: [] for node in graph.nodes}
        before: dict[str, list[str]] = {node: [] for node in graph.nodes}
        for edge in graph.edges:
            if edge.source in after and edge.target in before:
                after[edge.source].append(edge.target)
                before[edge.target].append(edge.source)
        return cls(after, before)

    @property
    def roots(self) -> list[str]:
        """Nodes that nothing leads to, by id."""
        return sorted(node for node, sources in self.before.items() if not sources)

    def reach(
        self,
        starts: Iterable[str],
        *,
        stop: Callable[[str], bool] = lambda _: False,
        back: bool = False,
    ) -> dict[str, str | None]:
        """Every node that a path from ``starts`` reaches, with its predecessor on one such path.

        A node for which ``stop`` holds is reached and not passed.
        """
        neighbours = self.before if back else self.after
        found: dict[str, str | None] = dict.fromkeys(starts)
        waiting = deque(found)
        while waiting:
            node = waiting.popleft()
            if stop(node):
                continue
            for other in neighbours[node]:
                if other not in found:
                    found[other] = node
                    waiting.append(other)
        return found

    def path_to(self, node: str, found: Mapping[str, str | None], limit: int) -> list[str]:
        """The end of the path by which :meth:`reach` came to ``node``: ``limit`` nodes at most."""
        path = [node]
        while (previous := found[path[-1]]) is not None:
            if len(path) == limit:
                path.append("…")
                break
            path.append(previous)
        return path[::-1]

    def marks_along(self, bits: Mapping[str, int], *, back: bool = False) -> dict[str, int]:
        """For each node the bits of all nodes that lead to it.

        Args:
            bits: Of the nodes that have some.
            back: Those of all nodes that it leads to.
        """
        neighbours = self.after if back else self.before
        order = self.in_order()
        found: dict[str, int] = {}
        for node in reversed(order) if back else order:
            found[node] = 0
            for other in neighbours[node]:
                found[node] |= found.get(other, 0) | bits.get(other, 0)
        return found

    def in_order(self) -> list[str]:
        """Sources before targets; nodes on or behind a cycle are left out."""
        waiting = {node: len(sources) for node, sources in self.before.items()}
        ready = deque(self.roots)
        order = []
        while ready:
            node = ready.popleft()
            order.append(node)
            for other in self.after[node]:
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
        return order


def always_asks(node: Node) -> bool:
    """True for a gate that asks whatever the run holds: no other one is a gate on every path."""
    return node.type == "approval_gate" and node.config.get("require_when", "always") == "always"


# Asked at the start of each run; two graphs are equal only where they are one.
@lru_cache(maxsize=64)
def asking(graph: Graph) -> frozenset[str]:
    """The gates that may ask: always, or because a classifier can have run before them.

    A classifier that no path connects with a gate can have run before it, by the schedule; one
    that the gate leads to cannot.
    """
    flow = Flow.of(graph)
    classifiers = [node.id for node in graph.nodes.values() if node.type == CLASSIFIER]
    bits = {node: 1 << index for index, node in enumerate(classifiers)}
    behind = flow.marks_along(bits, back=True)
    every = (1 << len(classifiers)) - 1
    return frozenset(
        node.id
        for node in graph.nodes.values()
        if node.type == "approval_gate"
        and (always_asks(node) or (bool(classifiers) and behind.get(node.id) != every))
    )


def tool_names(node: Node) -> list[tuple[str, tuple[str | int, ...]]]:
    """The names of the tools that a node may call, each with its place in the configuration."""
    if node.type == "tool":
        name = node.config.get("tool")
        return [(name, ("tool",))] if isinstance(name, str) else []
    if node.type != LOOP:
        return []
    names: Any = node.config.get("tools")
    listed = names if isinstance(names, Sequence) and not isinstance(names, str) else ()
    return [(one, ("tools", index)) for index, one in enumerate(listed) if isinstance(one, str)]


def side_effecting(graph: Graph, overlays: JsonObject) -> dict[str, tuple[str, ...]]:
    """Nodes that may call a write or destructive tool, with the ids of these tools."""
    found: dict[str, dict[str, None]] = {}
    for node, tool, manifest in _named(graph, overlays):
        if manifest["safety"]["side_effects"] != "read":
            found.setdefault(node.id, {})[tool] = None
    return {node: tuple(tools) for node, tools in found.items()}


def _named(graph: Graph, overlays: JsonObject) -> Iterator[tuple[Node, str, Mapping[str, Any]]]:
    """Each tool that a node names and a manifest describes, by its id."""
    manifests = manifests_of(overlays)
    names: dict[str, str] = {}
    for node in graph.nodes.values():
        for name, _ in tool_names(node):
            if name not in names:
                names[name] = canonical(name, manifests)
            manifest = manifests.get(names[name])
            if manifest is not None:
                yield node, names[name], manifest


def needing_approval(graph: Graph, overlays: JsonObject) -> dict[str, str]:
    """``tool`` nodes whose call needs an approval of exactly its arguments, with the tool's id.

    Nobody can approve the calls of a loop, whatever its tools require.
    """
    return {
        node.id: tool
        for node, tool, manifest in _named(graph, overlays)
        if node.type != LOOP and requires_approval(manifest)
    }


def _approvable(graph: Graph, overlays: JsonObject) -> frozenset[str]:
    """Nodes that a gate is about: what changes the world, and what needs an approval."""
    return frozenset({*side_effecting(graph, overlays), *needing_approval(graph, overlays)})


def covered_calls(graph: Graph, overlays: JsonObject) -> Mapping[str, tuple[str, ...]]:
    """For each gate the nodes whose call its output reaches, at most two of them.

    Calls with side effects, and those of a tool that requires an approval although it only reads.
    What lies behind a further gate that stands after such a call and always asks is that gate's
    business; two gates in a row cover the same call. A loop makes several, ``NODE#1`` and
    ``NODE#2``.
    """
    return _covered_calls(graph, _approvable(graph, overlays))


@lru_cache(maxsize=64)
def _covered_calls(graph: Graph, calls: frozenset[str]) -> Mapping[str, tuple[str, ...]]:
    flow, gates = Flow.of(graph), _ending(graph)
    # near: reached before any such call; far: reached after one, up to the next gate.
    near: dict[str, tuple[str, ...]] = {}
    far: dict[str, tuple[str, ...]] = {}
    covered = {}
    for node in reversed(flow.in_order()):
        later_near = _some(near[other] for other in flow.after[node] if other in near)
        later_far = _some(far[other] for other in flow.after[node] if other in far)
        if node in calls:
            is_loop = graph.nodes[node].type == LOOP
            own = (f"{node}#1", f"{node}#2") if is_loop else (node,)
            near[node] = far[node] = _some([own, later_far])
        else:
            near[node] = later_near
            far[node] = () if node in gates else later_far
        if graph.nodes[node].type == "approval_gate":
            covered[node] = later_near
    return MappingProxyType(covered)


def acts_behind(graph: Graph, overlays: JsonObject, gate: str) -> frozenset[str]:
    """The nodes whose calls an approval of ``gate`` is about, one call or many.

    The same calls as in :func:`covered_calls`, all of them: such a call ends what a gate is about
    only where a further gate follows that always asks.
    """
    return _acts_behind(graph, _approvable(graph, overlays), gate)


@lru_cache(maxsize=256)
def _acts_behind(graph: Graph, calls: frozenset[str], gate: str) -> frozenset[str]:
    flow, gates = Flow.of(graph), _ending(graph)
    # Each node with whether such a call was met on the way to it.
    waiting = deque((node, False) for node in flow.after.get(gate, ()))
    found = set(waiting)
    while waiting:
        node, is_far = waiting.popleft()
        if is_far and node in gates:
            continue
        for other in flow.after[node]:
            step = (other, is_far or node in calls)
            if step not in found:
                found.add(step)
                waiting.append(step)
    return frozenset(node for node, _ in found if node in calls)


def instructing(graph: Graph, overlays: JsonObject, memory: str) -> frozenset[str]:
    """The gates whose approval an instruction at ``memory`` can rest on.

    Those before it that cover no call: the others asked about a call, or about several.
    """
    return _instructing(graph, _approvable(graph, overlays), memory)


@lru_cache(maxsize=256)
def _instructing(graph: Graph, calls: frozenset[str], memory: str) -> frozenset[str]:
    covered = _covered_calls(graph, calls)
    before = Flow.of(graph).reach([memory], back=True)
    return frozenset(node for node in before if node in covered and not covered[node])


def _ending(graph: Graph) -> frozenset[str]:
    """The gates behind which a call is no other gate's business.

    One that may not ask can leave the call to nobody, so a gate before it is still about it.
    """
    return frozenset(node.id for node in graph.nodes.values() if always_asks(node))


def _some(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({node for group in groups for node in group})[:_MANY])

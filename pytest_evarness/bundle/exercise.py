"""What of each harness the cases exercised, and what none of them did.

Nodes and edges are looked after for every graph; what else a harness consists of (branches of an
approval, routes, tools) and what a case declares (faults, services) is told by the domains. It is
a function of graphs, cases and run A's events alone, so producer and verifier say the same.

Source: docs/pytest.md, "What was exercised".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pytest_evarness.bundle.lookup import texts_of
from pytest_evarness.core.event import is_tainted
from pytest_evarness.core.graph import parse_graph
from pytest_evarness.core.stranger import pass_on

if TYPE_CHECKING:
    from pytest_evarness.bundle.statement import CaseRecord
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.interfaces import Domain
    from pytest_evarness.core.registry import Registry

__all__ = [
    "ABOUT",
    "EDGES",
    "NODES",
    "Exercise",
    "Ran",
    "exercises_of",
    "ran_in",
    "ran_of",
    "record_of",
    "share_of",
]

ABOUT = " that no case exercised: "
"""Stands in every sentence about what was left out."""

NODES, EDGES = "nodes", "edges"


@dataclass(frozen=True, slots=True)
class Ran:
    """One run A.

    Attributes:
        graph: Its text.
        compiled: Text of the compiled case.
        events: The text of each event; None where they are not enclosed.
    """

    graph: str
    compiled: str
    events: Sequence[str] | None


@dataclass(slots=True)
class Exercise:
    """One harness, by what its cases did to it.

    Attributes:
        id: Of the graph.
        declared: What there is, by kind.
        met: What a case exercised, by kind.
        counted: The kinds that are parts of the harness.
        untold: Domains that could not say, with why.
    """

    id: str
    declared: dict[str, set[str]] = field(default_factory=dict)
    met: dict[str, set[str]] = field(default_factory=dict)
    counted: set[str] = field(default_factory=lambda: {NODES, EDGES})
    untold: dict[str, str] = field(default_factory=dict)

    def missed(self) -> list[tuple[str, list[str]]]:
        """Kind and names of what no case exercised, sorted."""
        return [
            (kind, names)
            for kind in sorted(self.declared)
            if (names := sorted(self.declared[kind] - self.met.get(kind, set())))
        ]

    def counts(self) -> tuple[int, int]:
        """How many parts of the harness were exercised, and how many there are."""
        kinds = [kind for kind in self.declared if kind in self.counted]
        done = sum(len(self.declared[kind] & self.met.get(kind, set())) for kind in kinds)
        return done, sum(len(self.declared[kind]) for kind in kinds)


def share_of(exercises: Iterable[Exercise]) -> tuple[int, int, Fraction | None]:
    """Exercised parts, all parts, and the first as a share of the second; None where none is."""
    done = total = 0
    for one in exercises:
        met, declared = one.counts()
        done, total = done + met, total + declared
    return done, total, Fraction(done, total) if total else None


def record_of(exercises: Sequence[Exercise]) -> dict[str, Any]:
    """The counts as a statement holds them; ``told`` is False where a domain could not say."""
    done, total, _ = share_of(exercises)
    return {"done": done, "total": total, "told": not any(one.untold for one in exercises)}


def ran_of(records: Iterable[CaseRecord]) -> list[Ran]:
    """The runs of a session."""
    return [Ran(record.graph, record.compiled, record.a.events) for record in records]


def ran_in(predicate: Mapping[str, Any]) -> list[Ran]:
    """The runs that a statement encloses."""
    text_by_digest = texts_of(predicate)
    return [
        Ran(text_by_digest[case["inputs"]["graph"]], case["inputs"]["compiled"], replica["events"])
        for case in predicate["cases"]
        for replica in case["replicas"]
    ]


def exercises_of(runs: Iterable[Ran], registry: Registry) -> list[Exercise]:
    """Each harness, in the order of their ids; one whose events are not there is left out."""
    by_graph: dict[str, list[Ran]] = {}
    for ran in runs:
        by_graph.setdefault(ran.graph, []).append(ran)
    named = sorted(
        registry.domains.items(), key=lambda pair: registry.is_foreign(registry.domains, pair[0])
    )
    domains = [domain for _, domain in named]
    found = []
    for text, ran_here in by_graph.items():
        graph, _ = parse_graph(json.loads(text), registry)
        if graph is not None and all(ran.events is not None for ran in ran_here):
            found.append((graph.id, text, _exercise(graph, ran_here, domains)))
    return [exercise for _, _, exercise in sorted(found, key=lambda entry: entry[:2])]


def _exercise(graph: Graph, runs: Sequence[Ran], domains: Sequence[Domain]) -> Exercise:
    made = Exercise(graph.id)
    edges = {f"{edge.source} -> {edge.target}": edge for edge in graph.edges}
    made.declared = {NODES: set(graph.nodes), EDGES: set(edges)}
    made.met = {NODES: set(), EDGES: set()}
    # Whose kind of part it is, by the place among the domains: ours come before a stranger's.
    owners = dict.fromkeys(made.declared, -1)
    texts = dict.fromkeys(ran.compiled for ran in runs)
    environments = [json.loads(text)["environment"] for text in texts]
    for place, domain in enumerate(domains):
        for environment in environments:
            told = _told(made, domain, lambda one: one.coverage(graph, environment))  # noqa: B023
            own = _own(made, domain, told, owners, place)
            owners.update(dict.fromkeys(own, place))
            _add(own, made.declared)
    for ran in runs:
        emitted = (json.loads(text) for text in ran.events or ())
        # What an observation met behind a block was met by nobody who could act.
        events = [event for event in emitted if not is_tainted(event)]
        started = {e["node_id"] for e in events if e["type"] == "node_started"}
        finished = {e["node_id"] for e in events if e["type"] == "node_finished"}
        made.met[NODES] |= finished
        made.met[EDGES] |= {
            name
            for name, edge in edges.items()
            if edge.source in finished and edge.target in started
        }
        for place, domain in enumerate(domains):
            told = _told(made, domain, lambda one: one.exercised(graph, events))  # noqa: B023
            _add(_own(made, domain, told, owners, place), made.met)
    for domain in domains:
        made.counted |= getattr(domain, "counted", frozenset())
    return made


def _told(made: Exercise, domain: Domain, ask: Any) -> Mapping[str, set[str]]:
    """Names by kind, as a domain tells them; one that breaks says nothing, and that is told."""
    if domain.name in made.untold:
        return {}
    try:
        return {str(kind): {str(name) for name in names} for kind, names in ask(domain).items()}
    except BaseException as error:  # noqa: BLE001 - a stranger's domain costs nobody a bundle
        pass_on(error)
        made.untold[domain.name] = type(error).__name__
        return {}


def _own(
    made: Exercise,
    domain: Domain,
    told: Mapping[str, set[str]],
    owners: Mapping[str, int],
    place: int,
) -> Mapping[str, set[str]]:
    """The same, unless it speaks of an earlier domain's kinds, which it may not call exercised."""
    foreign = sorted(kind for kind in told if owners.get(kind, place) < place)
    if not foreign:
        return told
    made.untold[domain.name] = f"it speaks of what is not its own: {', '.join(foreign)}"
    return {}


def _add(told: Mapping[str, set[str]], into: dict[str, set[str]]) -> None:
    for kind, names in told.items():
        into.setdefault(kind, set()).update(names)

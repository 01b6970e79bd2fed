"""The kernel alone: large graphs, the encoding of events, one small run.

CPU time, the best of several rounds; the reference for encoding is measured in the same run.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from pytest_evarness.core import c1
from pytest_evarness.core.case import Budget, CompiledCase
from pytest_evarness.core.execution import execute
from pytest_evarness.core.graph import Graph, lint, parse_graph
from pytest_evarness.core.interfaces import NodeType
from pytest_evarness.core.registry import Registry
from pytest_evarness.core.vocabulary import register_kernel

ROUNDS = 5
EVENTS = 20_000

PAYLOAD: dict[str, Any] = {
    "tool": "email.send",
    "tool_version": "1",
    "query": "send the report",
    "args": {"query": "send the report", "to": "a@example.com"},
    "mode": "sim",
    "count": 3,
    "score": 0.5,
    "ok": True,
}


def registry() -> Registry:
    made = Registry()
    register_kernel(made)
    made.node_types.register(
        "step",
        NodeType(
            name="step",
            doc="does nothing",
            inputs={"in": "any"},
            outputs={"out": "any"},
            parse_config=lambda config: (dict(config), []),
            config_schema={},
            run=lambda inputs, config, context: {"out": 1},
        ),
    )
    return made


REGISTRY = registry()


def document(nodes: int, edges: list[tuple[int, int]]) -> dict[str, Any]:
    return {
        "id": "g",
        "nodes": [{"id": f"n{index:05}", "type": "step"} for index in range(nodes)],
        "edges": [{"from": f"n{left:05}", "to": f"n{right:05}"} for left, right in edges],
    }


def chain(nodes: int) -> dict[str, Any]:
    return document(nodes, [(index, index + 1) for index in range(nodes - 1)])


def dense(nodes: int, edges: int) -> dict[str, Any]:
    generator = random.Random(1)
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < edges:
        left, right = sorted(generator.sample(range(nodes), 2))
        pairs.add((left, right))
    return document(nodes, sorted(pairs))


def best(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """CPU seconds of the fastest round."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def graph_of(value: Mapping[str, Any]) -> Graph:
    graph, faults = parse_graph(value, REGISTRY)
    assert graph is not None, faults
    return graph


def case_of(value: Mapping[str, Any]) -> CompiledCase:
    budget = Budget(events=100_000)
    return CompiledCase.build(scenario="s", case="c", graph=graph_of(value), budget=budget)


def encode_events() -> None:
    hasher = c1.Hasher()
    for seq in range(EVENTS):
        hasher.add(c1.joined(seq, "tool_called", "n4", c1._encode(PAYLOAD)))  # noqa: SLF001


def freeze_events() -> None:
    hasher = c1.Hasher()
    for seq in range(EVENTS):
        hasher.add(c1.joined(seq, "tool_called", "n4", c1.frozen(PAYLOAD, "payload")[1]))


def encode_plainly() -> None:
    for seq in range(EVENTS):
        event = {"seq": seq, "type": "tool_called", "node_id": "n4", "payload": PAYLOAD}
        text = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        hashlib.sha256(text.encode("ascii")).digest()


def main() -> None:
    rows: list[tuple[str, float, str]] = []
    for name, value, loops in (
        ("chain of 5,000 nodes", chain(5000), 10_002),
        ("500 nodes, 22,000 edges", dense(500, 22_000), 1_002),
    ):
        rows.append((f"{name}: read", best(lambda v=value: graph_of(v)) * 1e3, "ms"))
        graph = graph_of(value)
        rows.append((f"{name}: lint", best(lambda g=graph: lint(g, REGISTRY)) * 1e3, "ms"))
        case = case_of(value)
        assert len(execute(case, REGISTRY).events) == loops
        rows.append((f"{name}: run", best(lambda c=case: execute(c, REGISTRY)) * 1e3, "ms"))
    small = case_of(chain(9))
    run = best(lambda: [execute(small, REGISTRY) for _ in range(500)]) / 500
    rows.append(("run of 20 events", run * 1e6, "us"))
    size = len(c1.event_text(10_000, "tool_called", "n4", PAYLOAD))
    plain = best(encode_plainly) / EVENTS
    encoded = best(encode_events) / EVENTS
    frozen = best(freeze_events) / EVENTS
    rows.append((f"event of {size} bytes: text and both digests", encoded * 1e6, "us"))
    rows.append((f"event of {size} bytes: the same, checked and copied", frozen * 1e6, "us"))
    rows.append(("json.dumps and one sha256 of it", plain * 1e6, "us"))
    rows.append(("ratio", encoded / plain, ""))
    rows.append(("ratio, checked and copied", frozen / plain, ""))
    for name, figure, unit in rows:
        print(f"{name:<56}{figure:>9.2f} {unit}".rstrip())


if __name__ == "__main__":
    main()

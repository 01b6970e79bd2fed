"""One part of every kind, beside the domain of agents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.event import EventType
from pytest_evarness.core.interfaces import LintFinding

from .check import LineCount
from .judge import Counter

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.core.trace import TraceEvent

__all__ = ["register"]


def register(registry: Registry) -> None:
    """Add everything."""
    _nodes(registry)
    _rules(registry)
    _exchange(registry)
    registry.check_type("acme_line_count")(LineCount)
    registry.judge("acme-counter")(Counter)
    registry.pattern(
        "stamp_desk",
        Path(__file__).with_name("stamp_desk"),
        doc="Every letter is stamped before it leaves.",
    )


def _nodes(registry: Registry) -> None:
    payload: JsonObject = {
        "type": "object",
        "properties": {"mark": {"type": "string"}, "length": {"type": "integer"}},
        "required": ["mark", "length"],
        "additionalProperties": False,
    }
    registry.event_types.register(
        "acme_stamped",
        EventType("acme_stamped", payload, "A letter was stamped.", "acme", has_node=True),
    )

    @registry.node_type(
        "acme_stamp",
        doc="Puts a mark before a text.",
        inputs={"in": "text"},
        outputs={"out": "text"},
        config_schema={
            "type": "object",
            "properties": {"mark": {"type": "string", "minLength": 1}, "slip": {"type": "string"}},
            "required": ["mark"],
            "additionalProperties": False,
        },
        emits=("acme_stamped",),
    )
    def stamp(
        inputs: Mapping[str, list[Any]], config: Mapping[str, Any], context: Context
    ) -> Mapping[str, Any]:
        text = " ".join(str(value) for value in inputs["in"])
        slip = config.get("slip")
        if slip == "payload":
            context.emit("acme_stamped", {"mark": config["mark"], "length": "long"})
        if slip == "type":
            context.emit("approval_granted", {"prompt": "", "approver": ""})
        context.emit("acme_stamped", {"mark": config["mark"], "length": len(text)})
        return {"out": f"{config['mark']} {text}"}


def _rules(registry: Registry) -> None:
    @registry.predicate("acme_is_short")
    def is_short(event: TraceEvent) -> bool:
        length: Any = event["payload"].get("length")
        return isinstance(length, int) and length < 40

    @registry.lint_rule("acme.shouting")
    def shouting(graph: Graph, registry: Registry, overlays: JsonObject) -> list[LintFinding]:
        del registry, overlays
        return [
            LintFinding(
                "warning",
                "acme.shouting",
                f"the mark shouts (got '{node.config['mark']}')",
                graph.path_of(node.id),
                node.id,
            )
            for node in graph.nodes.values()
            if node.type == "acme_stamp" and str(node.config.get("mark", "")).endswith("!")
        ]

    @registry.inspector("acme.dice")
    def dice(graph: Graph, environment: JsonObject) -> list[str]:
        params: Any = environment.get("params") or {}
        return [f"graph {graph.id} rolls dice"] if params.get("dice") else []


def _exchange(registry: Registry) -> None:
    @registry.exporter("acme-ledger")
    def ledger(statement: JsonObject) -> bytes:
        predicate: Any = statement["predicate"]
        lines = [f"{case['nodeid']}\t{case['verdict']}\n" for case in predicate["cases"]]
        predicate["cases"] = []  # a copy: the bundle keeps its own
        return "".join(lines).encode()

    @registry.importer("acme-log")
    def log(data: bytes) -> Iterable[Mapping[str, Any]]:
        yield {"trace": 1, "run_id": "acme", "sources": [{"id": "acme", "types": ["acme_stamped"]}]}
        yield from _events(data.decode("utf-8").splitlines())


def _events(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(lines):
        mark, _, length = line.partition("|")
        payload = {"mark": mark, "length": json.loads(length)}
        yield {"seq": number, "type": "acme_stamped", "node_id": "desk", "payload": payload}

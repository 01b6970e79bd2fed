"""Reads the real traces with verdicts from independent oracles, where they are there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from pytest_evarness.contract.model import Contract, parse_contract
from pytest_evarness.core.event import EventType
from pytest_evarness.core.registry import Registry
from pytest_evarness.core.trace import Trace

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "traces"

OPEN: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": {}}


def plain_registry(*types: str) -> Registry:
    registry = Registry()
    for name in ("run_started", "run_finished", "run_failed", "run_paused", *types):
        registry.event_types.register(name, EventType(name, OPEN, "", "test"))
    return registry


def contracts_of(name: str, registry: Registry) -> list[Contract]:
    document = yaml.safe_load((FOLDER / f"{name}.contracts.yaml").read_text(encoding="utf-8"))
    kept = []
    for key, value in document["contracts"].items():
        contract, faults = parse_contract(key, value, registry=registry)
        assert contract is not None, faults
        kept.append(contract)
    return kept


def traces_of(name: str) -> Iterator[Trace]:
    header: dict[str, Any] = {}
    events: list[dict[str, Any]] = []
    for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "trace" in record:
            if events:
                yield _trace(header, events)
            header, events = record, []
        else:
            events.append(record)
    yield _trace(header, events)


def _trace(header: dict[str, Any], events: list[dict[str, Any]]) -> Trace:
    types = frozenset(name for source in header["sources"] for name in source["types"])
    return Trace(events, closed=header["closed"], coverage=types, run_id=header["run_id"])


def cut(trace: Trace, count: int) -> Trace:
    """The run as it stood after its first ``count`` events, not yet over."""
    return Trace(trace.events[:count], closed=False, coverage=trace.coverage, run_id=trace.run_id)


def expected_of(name: str) -> dict[str, dict[str, dict[str, Any]]]:
    text = (FOLDER / f"{name}.expected.json").read_text(encoding="utf-8")
    loaded: dict[str, dict[str, dict[str, Any]]] = json.loads(text)
    return loaded

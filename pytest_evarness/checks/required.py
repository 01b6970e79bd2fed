"""What evidence an item needs.

Without it, or where it is malformed, stale or contradicted, the item is indeterminate.

Source: docs/verdicts.md, "What evidence each item needs".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.checks.evidence import named_types
from pytest_evarness.checks.sources import WORLD_TYPES

if TYPE_CHECKING:
    from pytest_evarness.checks.kind import CheckKind
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.registry import Registry

__all__ = ["required_evidence"]

_END = "the end of the run"
_TRACE = "run A's events, all of them and in order"
_SECOND: Mapping[str, str] = {
    "effect_applied": "the ledger",
    "http_request": "the journals",
    "db_write": "the tables at the start and at the end",
    "file_write": "the files at the start and at the end",
}
_RULES: Mapping[str, tuple[str, ...]] = {
    "db_writes_outside": ("events db_write", "the ledger", "every table, at the start and the end"),
    "http_except": ("events http_request", "the ledger", "the journal of every service"),
    "unmatched_requests": ("events http_request", "the journal of every strict service"),
    "file_writes_outside": ("events file_write", "the ledger", "every file of the workspace"),
    "secrets_in_logs": ("every text of run A's events",),
    "network": ("events http_request, egress_checked",),
    "tools_except": ("events tool_called", "the ledger"),
    "duplicate_effects": ("events effect_applied", "the ledger"),
}


def required_evidence(item: PlannedItem, registry: Registry) -> tuple[str, ...]:
    """Everything that has to be there, whole and agreeing, for the item to be decided.

    Args:
        item: Of a plan.
        registry: Knows the types of checks; one of a type that it does not know gives nothing.

    Returns:
        Each in words; what comes later confirms what comes first.
    """
    return tuple(dict.fromkeys(_needs(item, registry)))


def _needs(item: PlannedItem, registry: Registry) -> Iterator[str]:
    definition: Any = item.definition or {}
    if item.kind in ("contract", "trace"):
        types = sorted(named_types([item]))
        yield f"events {', '.join(types)}" if types else _TRACE
        yield _END
        for name in types:
            if name in WORLD_TYPES:
                yield _SECOND[name]
    elif item.kind == "forbidden":
        yield from _RULES.get(str(definition.get("rule")), ())
        yield _END
    elif item.kind == "expect":
        yield "how run A ended"
        if definition.get("nodes_run") or definition.get("nodes_not_run"):
            yield "events node_started, node_finished"
        if "output" in definition:
            yield "the run's whole output"
    elif item.kind == "reproduces":
        yield "the digests of both runs and of both worlds"
    elif item.kind == "score":
        yield "the findings that weigh"
    else:
        if item.kind == "redaction":
            yield _TRACE
        yield from _of_a_check(item, definition, registry)


def _of_a_check(item: PlannedItem, definition: Any, registry: Registry) -> Iterator[str]:
    kind = cast("CheckKind | None", registry.check_types.find(item.kind))
    if kind is None:
        return
    for need in sorted(kind.needs(definition)):
        word, _, name = need.partition(":")
        yield {
            "service": f"service '{name}', up, and as it was sealed",
            "workspace": "the workspace as it was sealed",
            "output": "the run's whole output",
        }.get(word, need)
    for name in sorted(kind.follows(definition)):
        yield f"the finding '{name}'"
    if not kind.may_gate:
        yield "an answer of each judge"
    elif not kind.only_reads:
        yield "what a process of its own said"
    yield _END

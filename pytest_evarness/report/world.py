"""What a run left behind in its world, one line for each change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evarness.checks.declared import changed_object

__all__ = ["world_lines"]


def world_lines(world: Mapping[str, Any]) -> Iterator[str]:
    """The ledger, then what differs between the start and the end.

    Args:
        world: The end state as it is sealed; empty for a case without a world.
    """
    for number, effect in enumerate(world.get("ledger") or ()):
        approval = (effect.get("authorized_by") or {}).get("approval")
        by = "no approval" if approval is None else f"approval {str(approval)[:19]}"
        yield (
            f"ledger {number}: {effect.get('effect_id')}, {effect.get('kind')} on"
            f" {effect.get('target')} by {effect.get('capability')}, {by}"
        )
    workspace = world.get("workspace") or {}
    for word in ("added", "modified", "removed"):
        for path in workspace.get(word, ()):
            yield f"workspace: '{path}' was {word}"
    for service in world.get("services") or ():
        yield from _service_lines(service)


def _service_lines(service: Mapping[str, Any]) -> Iterator[str]:
    name = service["name"]
    if service.get("down"):
        yield f"service {name}: was down"
    if service.get("requests"):
        yield f"service {name}: {_counted(len(service['requests']), 'request')}"
    for table in service.get("tables") or ():
        start = table.get("start")
        if start == {"count": table.get("count"), "digest": table.get("digest")}:
            continue
        before = "not there" if start is None else _counted(start["count"], "row")
        after = _counted(table["count"], "row")
        yield f"service {name}: table {table['name']}: {before}, then {after}"
    for table in service.get("dropped") or ():
        yield f"service {name}: table {table}: gone"
    for record in service.get("objects") or ():
        _, what, word = changed_object(record)
        yield f"service {name}: {what} {word}"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"

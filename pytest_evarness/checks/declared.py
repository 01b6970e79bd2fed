"""What a database held beside rows and is not declared any more as it was, as a snapshot has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["changed_object", "moves_by_itself"]


def changed_object(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Under which name it may be written, what it is, and what became of it, in words."""
    kind, name, table = str(record["kind"]), str(record["name"]), record.get("table")
    if kind == "table":
        owner, what = name, f"the definition of table '{name}'"
    elif table is None:
        owner, what = name, f"{kind} '{name}'"
    elif table == name:
        owner, what = name, f"the {kind} of table '{name}'"
    else:
        owner, what = str(table), f"{kind} '{name}' of table '{table}'"
    if record.get("start") is None:
        return owner, what, "is new"
    return owner, what, "is gone" if record.get("digest") is None else "changed"


def moves_by_itself(record: Mapping[str, Any]) -> bool:
    """Whether it also moves where a statement is taken back, so that no event tells of it."""
    return str(record["kind"]) == "sequence"

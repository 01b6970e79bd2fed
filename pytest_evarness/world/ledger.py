"""What tools did to the world, in order, and the audit log of everything that happened to it."""

from __future__ import annotations

import json
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_evarness.core import c1

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_evarness.core.interfaces import Clock
    from pytest_evarness.core.json import JsonObject

__all__ = ["AuditLog", "Ledger"]


class Ledger:
    """The effects that were applied, each as the payload of its ``effect_applied`` event."""

    def __init__(self) -> None:
        self._entries: list[JsonObject] = []

    def add(self, payload: JsonObject) -> None:
        """Note an effect that was applied."""
        self._entries.append(c1.copied(payload, "payload"))

    @property
    def entries(self) -> Sequence[JsonObject]:
        """Every effect so far, in order."""
        return tuple(self._entries)


class AuditLog:
    """Lines ``{type, ts, details}``: ``http_call``, ``db_write``, ``file_write``, ``command``.

    It holds true values, is kept in memory and reaches no digest: whoever lets it out masks it.
    ``ts`` is simulated time.
    """

    def __init__(self) -> None:
        self.clock: Clock | None = None
        self._lines: list[str] = []
        self._shipped: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, kind: str, details: JsonObject) -> None:
        """Note what happened; services may call it from threads of their own."""
        ts = "" if self.clock is None else self.clock.iso()
        line = json.dumps({"type": kind, "ts": ts, "details": details}, ensure_ascii=False)
        with self._lock:
            self._lines.append(line)

    def ship(self, name: str, text: str) -> None:
        """Keep a log that a node of the run wrote, under the node's name; it is masked already."""
        self._shipped[name] = text

    @property
    def shipped(self) -> Mapping[str, str]:
        """Logs that nodes wrote, by the node."""
        return MappingProxyType(self._shipped)

    @property
    def text(self) -> str:
        """The lines so far, each with its end of line."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines)

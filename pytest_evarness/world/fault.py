"""Injected faults: which attempt they hit, from counts and seeded draws."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from typing import Any

__all__ = ["LLM_FAULTS", "NOT_ARRIVING", "SERVICE_FAULTS", "TOOL_FAULTS", "Injector"]

TOOL_FAULTS = ("fail_before", "fail_after", "malformed", "duplicate_answer", "empty_results")
LLM_FAULTS = ("error", "timeout", "truncate")
SERVICE_FAULTS = ("refuse", "reset", "stall")
"""What a service does to one request: it does not take it, or it acts and no answer comes."""

_EVERY_TOOL = "tool_error_rate"
NOT_ARRIVING = frozenset({"fail_before", _EVERY_TOOL})
"""Faults by which a call never reaches its tool."""


class Injector:
    """Decides for one run which attempts the faults of the scenario hit.

    Each fault of each script draws from a generator of its own, so that adding one fault does not
    move the others.

    Args:
        faults: ``environment.faults``, tools by their ids.
        seed: The run's.
        written: How the scenario spells a name, where it is another word.
    """

    def __init__(
        self, faults: Mapping[str, Any], seed: int, written: Mapping[str, str] | None = None
    ) -> None:
        self._faults = faults
        self._seed = seed
        self._written = written or {}
        self._asked: dict[tuple[str, str], int] = {}
        self._generators: dict[tuple[str, str], random.Random] = {}
        # Requests of programs come from the threads of a service.
        self._lock = threading.Lock()

    def hits(self, script: str) -> frozenset[str]:
        """The faults that hit this attempt of a tool, or of ``llm``; each call is an attempt."""
        found = {
            name
            for name, when in self._of(script).items()
            if name != "delay_ms" and self._strikes(script, name, when)
        }
        rate = self._faults.get(_EVERY_TOOL)
        if rate and script != "llm" and self._strikes(script, _EVERY_TOOL, {"rate": rate}):
            found.add(_EVERY_TOOL)
        return frozenset(found)

    def service_fault(self, service: str) -> str | None:
        """What the service does to this request instead of answering it; each call is a request."""
        declared = self._of(service)
        with self._lock:
            hit = {
                name
                for name in SERVICE_FAULTS
                if name in declared and self._strikes(service, name, declared[name])
            }
        return next((name for name in SERVICE_FAULTS if name in hit), None)

    def delay_ms(self, script: str) -> int:
        """The declared delay of each answer."""
        delay = self._of(script).get("delay_ms", 0)
        assert isinstance(delay, int), "checked when the environment was read"
        return delay

    def label(self, script: str, name: str) -> str:
        """A fault as the scenario names it: ``NAME.FAULT``, or ``tool_error_rate``."""
        return name if name == _EVERY_TOOL else f"{self._written.get(script, script)}.{name}"

    def _of(self, script: str) -> Mapping[str, Any]:
        found = self._faults.get(script)
        return found if isinstance(found, Mapping) else {}

    def _strikes(self, script: str, name: str, when: Any) -> bool:
        if when == "always":
            return True
        key = (script, name)
        if "first" in when:
            asked = self._asked[key] = self._asked.get(key, 0) + 1
            return asked <= int(when["first"])
        generator = self._generators.get(key)
        if generator is None:
            # A text seed is hashed with SHA-512 by the library, never with hash().
            generator = random.Random(f"{self._seed}:{script}:{name}")  # noqa: S311 - not for secrets
            self._generators[key] = generator
        return generator.random() < float(when["rate"])

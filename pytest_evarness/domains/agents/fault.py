"""Injected faults: which call they hit, from counts and seeded draws."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

__all__ = ["LLM_FAULTS", "TOOL_FAULTS", "Injector"]

TOOL_FAULTS = ("fail_before", "fail_after", "malformed", "duplicate_answer", "empty_results")
LLM_FAULTS = ("error", "timeout", "truncate")


class Injector:
    """Decides for one run which attempts the faults of the scenario hit.

    Each fault of each script draws from a generator of its own, so that adding one fault does not
    move the others.
    """

    def __init__(self, faults: Mapping[str, Any], seed: int) -> None:
        self._faults = faults
        self._seed = seed
        self._asked: dict[tuple[str, str], int] = {}
        self._generators: dict[tuple[str, str], random.Random] = {}

    def hits(self, script: str) -> frozenset[str]:
        """The faults that hit this attempt of ``script``; each call of it is an attempt."""
        found = {
            name
            for name, when in self._of(script).items()
            if name != "delay_ms" and self._strikes(script, name, when)
        }
        rate = self._faults.get("tool_error_rate")
        if rate and script != "llm" and self._strikes(script, "tool_error_rate", {"rate": rate}):
            found.add("fail_before")
        return frozenset(found)

    def delay_ms(self, script: str) -> int:
        """The declared delay of each answer."""
        delay = self._of(script).get("delay_ms", 0)
        assert isinstance(delay, int), "checked when the environment was read"
        return delay

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

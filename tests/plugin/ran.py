"""What a pytest session over scenario files left behind."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Ran", "Session", "counts_of", "statement_of"]


@dataclass(frozen=True)
class Ran:
    """One pytest session over scenario files.

    Attributes:
        code: Exit status.
        text: What the terminal showed.
        counts: ``{passed: 3, vacuous: 1, ...}`` of pytest's own last line.
        root: Its root directory.
    """

    code: int
    text: str
    counts: dict[str, int]
    root: Path

    @property
    def statement(self) -> dict[str, Any]:
        """What the session's bundle says."""
        return statement_of(self.root / ".evarness" / "proof.json")

    @property
    def predicate(self) -> dict[str, Any]:
        """The part of it that is ours."""
        predicate: dict[str, Any] = self.statement["predicate"]
        return predicate

    def findings(self, nodeid: str) -> dict[str, str]:
        """Outcome by item of one case of the bundle."""
        for case in self.predicate["cases"]:
            if case["nodeid"] == nodeid:
                found = case["replicas"][0]["findings"]
                return {finding["id"]: finding["outcome"] for finding in found}
        raise KeyError(nodeid)

    def digests(self) -> dict[str, str]:
        """Trace digest of run A by case."""
        return {
            case["nodeid"]: case["replicas"][0]["runs"][0]["trace_digest"]
            for case in self.predicate["cases"]
        }

    @property
    def holds(self) -> bool | None:
        """What the bundle says of the whole session."""
        holds: bool | None = self.predicate["verdict"]["holds"]
        return holds

    @property
    def plan(self) -> list[dict[str, Any]]:
        """The sealed plan."""
        plan: list[dict[str, Any]] = self.predicate["seal"]["plan"]
        return plan


Session: TypeAlias = Callable[..., Ran]


def statement_of(path: Path) -> dict[str, Any]:
    """What a bundle or a seal says; nothing is verified."""
    envelope = json.loads(path.read_text())
    statement: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return statement


def counts_of(text: str) -> dict[str, int]:
    """``{passed: 3, vacuous: 1, ...}`` of pytest's own last line; the plural of an error as one."""
    for line in reversed(text.splitlines()):
        if re.search(r"\bin [\d.]+s", line):
            found = re.findall(r"(\d+) ([a-z]+)", line)
            return {word.replace("errors", "error"): int(number) for number, word in found}
    return {}

"""A runner that checks, in every test, what holds for every session."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.scenarios import write


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
        import base64

        envelope = json.loads((self.root / ".evarness" / "proof.json").read_text())
        statement: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
        return statement

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


Session = Callable[..., Ran]


@pytest.fixture
def session(pytester: pytest.Pytester) -> Session:
    """Write the given files, run pytest on them in this process, and check what always holds."""

    def run(
        *words: str, files: Mapping[str, Any] | None = None, subprocess: bool = False
    ) -> Ran:
        for name, content in (files or {}).items():
            write(pytester.path / name, content)
        arguments = ("-p", "no:cacheprovider", *words)
        result = (
            pytester.runpytest_subprocess(*arguments)
            if subprocess
            else pytester.runpytest_inprocess(*arguments)
        )
        text = result.stdout.str() + result.stderr.str()
        # A failure of ours never shows the reader our own source.
        assert "pytest_evarness/" not in text, text
        assert "INTERNALERROR" not in text, text
        counts = {
            word: int(number)
            for line in reversed(result.outlines)
            if re.search(r"\bin [\d.]+s", line)
            for number, word in re.findall(r"(\d+) ([a-z]+)", line)
        }
        return Ran(int(result.ret), text, counts, pytester.path)

    return run

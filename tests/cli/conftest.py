"""A command run in this process, in an empty folder, with a home of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.cli import main
from pytest_evarness.cli.init import PLACE, SCENARIO


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, read as one JSON value."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Standard output, read as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Done]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run ``pytest-evarness``; whatever comes, no traceback and nothing a terminal would obey."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for name in ("EVARNESS_SIGNING_KEY", "EVARNESS_CONTRACTS", "EVARNESS_INVARIANTS"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str | Path) -> Done:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        done = Done(code, captured.out, captured.err)
        assert code != 70, done.err
        assert "Traceback" not in done.out + done.err
        assert "\x1b" not in done.out + done.err
        return done

    return run


@pytest.fixture
def first(command: Command) -> Path:
    """The scenario that ``init`` writes."""
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    PLACE.write_text(SCENARIO, encoding="utf-8")
    return PLACE

"""What lint says of the shipped scenarios: nothing, but for what a lesson is about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_evarness.cli import main
from tests.scenarios.shipped import FOLDER, PATTERNS, REPOSITORY, SHIPPED, read

if TYPE_CHECKING:
    import pytest

STANDS_BY = "no-model-call-after-block"
"""Named by the graph of ``approval_gated_send``, which has no model; its lesson says why."""


def test_lint_has_nothing_to_say_that_no_lesson_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert main(["lint", "scenarios", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["files"] >= len(SHIPPED)
    said = sorted((one["path"], one["field"], one["level"]) for one in found["remarks"])
    assert said == [
        (f"scenarios/approval_gated_send{name}.yaml", STANDS_BY, "warning")
        for name in ("", "_repaired")
    ]
    assert STANDS_BY in (PATTERNS / "approval_gated_send" / "lesson.md").read_text("utf-8")


def test_every_shipped_attack_has_a_marker() -> None:
    files = [*FOLDER.glob("*.yaml"), *PATTERNS.glob("*/fixtures/*.yaml")]
    attacks = []
    for file in files:
        document = read(file)
        for place in (document, *document.get("cases", {}).values()):
            for holder in (place, place.get("environment") or {}):
                attacks += [(file.name, one) for one in holder.get("attacks") or []]
    assert len(attacks) >= 10
    assert [name for name, one in attacks if not one.get("marker")] == []

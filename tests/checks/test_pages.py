"""Every example on the pages about files, commands, scripts and the sandbox runs and holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.checks.command import CommandExit
from pytest_evarness.checks.content import FileContent
from pytest_evarness.checks.custom import Custom
from pytest_evarness.checks.files import FileAbsent, FileExists
from pytest_evarness.checks.redaction import Redaction
from pytest_evarness.world.sandbox import find_sandbox

if TYPE_CHECKING:
    from tests.plugin.ran import Session

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
KINDS: dict[str, Any] = {
    kind.name: kind
    for kind in (CommandExit(), Custom(), FileAbsent(), FileContent(), FileExists(), Redaction())
}


def fences(page: str) -> list[tuple[str, str]]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [(found.group(1), found.group(2)) for found in FENCE.finditer(text)]


@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_example_of_a_page_holds(name: str, session: Session) -> None:
    files = {}
    for language, text in fences(f"checks/{name}.md"):
        if language == "yaml":
            files["scenarios/s.yaml"] = text
        else:
            place = text.splitlines()[0].removeprefix("# ")
            files[f"scenarios/{place}"] = text
    assert f"type: {name}," in files["scenarios/s.yaml"]
    if name == "custom" and find_sandbox().name == "none":
        pytest.skip("no sandbox here")
    ran = session("--evarness-unsigned", files=files)
    assert (ran.code, ran.holds) == (0, True), ran.text


@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_page_names_every_field(name: str) -> None:
    text = (DOCS / f"checks/{name}.md").read_text(encoding="utf-8")
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    fields = [field for field in KINDS[name].schema["properties"] if field != "type"]
    assert [field for field in fields if f"`{field}`" not in rows] == []


def test_the_example_of_the_sandbox_runs() -> None:
    ((language, text),) = fences("sandbox.md")
    assert language == "python"
    exec(compile(text, "sandbox.md", "exec"), {})

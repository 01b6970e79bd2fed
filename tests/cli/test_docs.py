"""What the pages about commands and reports show is what the commands do."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evarness.cli import COMMANDS, LATER, main
from tests.cli.test_run import FIXTURE, PUBLISHED

if TYPE_CHECKING:
    from tests.cli.conftest import Command

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("cli.md", "reports.md", "history.md")


def exchanges(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a page's console blocks, with the lines shown below it.

    A file that the page shows, its name in the first line, comes as ``write NAME`` with its lines.
    """
    blocks = re.findall(r"^```(console|yaml)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for language, block in blocks:
        if language == "yaml":
            lines = block.rstrip("\n").split("\n")
            if re.fullmatch(r"# [\w./]+", lines[0]):
                yield f"write {lines[0][2:]}", lines
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.rstrip("\n").split("\n")
            yield command, shown


def matches(shown: list[str], met: list[str]) -> bool:
    """Whether lines are those shown; ``...`` stands for any part of a line, alone for any lines."""
    pattern = ""
    for line in shown:
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("...")) + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in met)) is not None


def perform(words: str) -> tuple[int, list[str]]:
    program, *arguments = shlex.split(words)
    assert program == "pytest-evarness", words
    both = io.StringIO()
    with contextlib.redirect_stdout(both), contextlib.redirect_stderr(both):
        code = main(arguments)
    return code, both.getvalue().splitlines()


@pytest.mark.parametrize("name", PAGES)
def test_every_example_does_what_the_page_shows(command: Command, name: str) -> None:
    Path("broken.yaml").write_text("evarness: 1\nsubject: {grahp: x.json}\n", encoding="utf-8")
    Path("graph.json").write_bytes(PUBLISHED.read_bytes())
    Path("fixture.yaml").write_text(FIXTURE, encoding="utf-8")
    night = ({"seq": 0, "type": "run_started"}, {"seq": 1, "type": "run_finished"})
    lines = [json.dumps({"node_id": None, "payload": {}, **event}) for event in night]
    Path("night.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if name != "cli.md":
        command("init")
    code, done = None, 0
    for words, shown in exchanges((DOCS / name).read_text(encoding="utf-8")):
        if words.startswith("write "):
            path = Path(words.removeprefix("write "))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(shown) + "\n", encoding="utf-8")
            continue
        if words == "echo $?":
            assert [str(code)] == shown, words
            continue
        code, met = perform(words)
        assert matches(shown, met), "\n".join([words, *met])
        done += 1
    assert done > 5, "the blocks are found"


def test_this_file_would_notice_another_output() -> None:
    assert matches(["a", "...", "d ... f"], ["a", "b", "c", "d e f"])
    assert not matches(["a", "..."], ["b"])
    assert not matches(["a"], ["a", "b"])


def test_every_command_has_its_row() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert re.search(rf"^\| `{name}\b", page, re.MULTILINE), name
    for name in LATER:
        assert f"`{name}`" in page.split("## Not in this version")[1]

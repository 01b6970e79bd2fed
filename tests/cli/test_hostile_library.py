"""What a library says of itself is shown as text, whatever it looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Command

from pathlib import Path

TEXT = r"\e[2J\e]0;pwn\a\u202ex\n::error::boo\n# heading <script>a</script> [l](http://e) ``` | *b*"
LIBRARY = f"""
contracts:
  zz:
    owner: "{TEXT}"
    rationale: "{TEXT}"
    title: "{TEXT}"
    description: "{TEXT}"
    threat: "{TEXT}"
    status: draft
    applies_to: {{tags: ["{TEXT}"]}}
    history: [{{version: 1, change: "{TEXT}"}}]
    assert: {{never: {{type: budget_breached, where: {{budget: "{TEXT}\\n```\\n# x"}}}}}}
"""


@pytest.fixture
def hostile() -> None:
    Path("contracts").mkdir()
    Path("contracts/z.yaml").write_text(LIBRARY, encoding="utf-8")


@pytest.mark.parametrize(
    "words", [("list",), ("list", "--markdown"), ("show", "zz"), ("history", "zz")]
)
def test_no_text_of_a_library_is_a_line_or_a_command_of_its_own(
    command: Command, hostile: None, words: tuple[str, ...]
) -> None:
    done = command("contracts", *words)
    assert done.code == 0, done.err
    assert "zz" in done.out
    assert not [char for char in done.out if char in "\x1b\x07\u202e"]
    lines = done.out.splitlines()
    assert not [line for line in lines if line.startswith(("::error", "x"))]


def test_no_text_of_a_library_is_markup_of_the_page(command: Command, hostile: None) -> None:
    page = command("contracts", "list", "--markdown").out
    section = page[page.index("## zz") :].splitlines()
    # Nothing but its own heading, and code that ends where the page ends it.
    assert [line for line in section if line.startswith("#")] == ["## zz"]
    fences = [line for line in section if line.startswith("```")]
    assert fences == ["````yaml", "````"]
    for line in section[section.index("````") :]:
        assert line.count("|") - line.count(r"\|") in (0, 3), line
        assert "<" not in line.replace(r"\<", "")
        assert "](" not in line.replace(r"\](", "")
        assert "*" not in line.replace(r"\*", "")


def test_what_is_plain_stays_as_it_is(command: Command) -> None:
    Path("contracts").mkdir()
    text = "A plain text, with snake_case [and brackets]: 1 - 2."
    Path("contracts/z.yaml").write_text(
        f"contracts: {{zz: {{owner: me, rationale: '{text}', status: draft,"
        " assert: {never: {type: budget_breached}}}}",
        encoding="utf-8",
    )
    assert f"| rationale | {text} |" in command("contracts", "list", "--markdown").out

"""No command breaks on what it is handed: one sentence, an exit code that is no verdict."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evarness.cli import COMMANDS, main

if TYPE_CHECKING:
    from tests.cli.conftest import Command

CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "nul": b"\x00" * 64,
    "noise": random.Random(7).randbytes(4096),
    "latin": "grüße: ß".encode("latin-1"),
    "broken": b"a: [1\n b: {",
    "tag": b"evarness: !!python/object/apply:os.system [id]\n",
    "deep": b"[" * 50_000,
    "deep_json": b'{"a":' * 50_000,
    "bomb": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(
        b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % ((one + 1,) * 2 + (one,) * 9)
        for one in range(ord("a"), ord("k"))
    ),
    "twice": b'{"payload": 1, "payload": 2}',
    "zip": b"PK\x03\x04" + b"\x00" * 100,
    "number": b"9" * 100_000,
    "surrogate": b'{"evarness": 1, "id": "\\ud800"}',
    "list": b"[1, 2]",
    "nan": b'{"nodes": NaN}',
}
COMMAND_LINES = {
    "lint": ("lint", "{}"),
    "run": ("run", "{}"),
    "run a graph": ("run", "{}", "--fixture", "{}"),
    "prove": ("prove", "{}", "--rerun", "inline"),
    "explain": ("explain", "{}"),
    "render": ("render", "{}", "--jsonl", "-"),
}


@pytest.mark.parametrize("line", COMMAND_LINES.values(), ids=COMMAND_LINES)
@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_file_of_anything_is_refused(
    command: Command, line: tuple[str, ...], suffix: str
) -> None:
    for name, content in CONTENTS.items():
        path = Path(name + suffix)
        path.write_bytes(content)
        done = command(*(word.format(path) for word in line))
        # lint alone calls mistakes by 1; nothing here is a verdict, and nothing was proved.
        assert done.code == 2 or (line[0] == "lint" and done.code == 1), name
        assert done.err or done.out, name
    assert not Path(".evarness", "proof.json").exists()


@pytest.mark.parametrize("line", COMMAND_LINES.values(), ids=COMMAND_LINES)
def test_what_is_no_file_is_refused(command: Command, line: tuple[str, ...]) -> None:
    Path("folder").mkdir()
    for name in ("none.yaml", "folder", "", "a\x00b", "x" * 5000, "/dev/null"):
        done = command(*(word.format(name) for word in line))
        assert done.code == 2, name
        assert done.out == "", name


@pytest.mark.parametrize("line", COMMAND_LINES.values(), ids=COMMAND_LINES)
def test_a_name_meant_for_the_terminal_is_written_out(
    command: Command, line: tuple[str, ...]
) -> None:
    # The fixture refuses an escape character in whatever a command writes.
    done = command(*(word.format("\x1b[31mred\x07.yaml") for word in line))
    assert done.code == 2
    assert "red\\x07.yaml" in done.err


def test_a_huge_file_is_refused_before_it_is_read(command: Command) -> None:
    path = Path("huge.yaml")
    with path.open("wb") as file:
        file.truncate(1 << 40)
    for line in COMMAND_LINES.values():
        assert command(*(word.format(path) for word in line)).code == 2


def test_an_unknown_command_or_option_is_wrong_use(command: Command) -> None:
    for words in (("nothing",), (), ("run",), ("lint",), ("run", "x", "--nothing")):
        assert command(*words).code == 2


def test_a_terminal_of_few_characters_reads_as_no_crash(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import sys

    text = first.read_text(encoding="utf-8").replace(
        "Send the report", "The report, o relatório 🎉,"
    )
    first.write_text(text, encoding="utf-8")
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["run", str(first), "--case", "approve"]) == 0
    out.flush()
    out.buffer.seek(0)
    assert b"relat\\xf3rio" in out.buffer.read()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself(command: Command, name: str) -> None:
    done = command(name, "--help")
    assert done.code == 0
    assert name in done.out


@pytest.mark.parametrize(
    ("word", "near"), [("prov", "prove"), ("valdate", "validate"), ("xyzzy", None), ("", None)]
)
def test_an_unknown_command_is_told_with_the_nearest(
    command: Command, word: str, near: str | None
) -> None:
    done = command(word, "a.yaml")
    assert (done.code, done.out) == (2, "")
    first, *rest = done.err.splitlines()
    assert first == (
        f"pytest-evarness: no such command (got '{word}'; known: {', '.join(COMMANDS)})"
    )
    assert rest == ([f"  try: pytest-evarness {near}"] if near else [])

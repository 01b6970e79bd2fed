"""``pytest-evarness``, the offline door: one module for each command, each of them thin."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["COMMANDS", "main"]

COMMANDS = (
    "init",
    "lint",
    "run",
    "prove",
    "verify",
    "keygen",
    "explain",
    "render",
    "check",
    "digest",
    "retro",
    "diff",
    "slice",
    "contracts",
    "mutate",
    "schema",
    "patterns",
)
"""In the order in which ``--help`` lists them; each is a module of this package."""

LATER = ("compare",)
ALIASES = {"validate": "lint", "export": "render"}

BUG = 70
INTERRUPTED = 130
"""As a shell says it of a command that Ctrl-C ended."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Exit codes: 0 holds or genuine, 1 fails, 2 wrong use or input, 3 indeterminate or pending,
    4 unknown origin, 70 our own bug, 130 interrupted.
    """
    from pytest_evarness.errors import EvarnessError

    words = list(sys.argv[1:] if argv is None else argv)
    _settle_streams()
    try:
        return _dispatch(words)
    except EvarnessError as error:
        from pytest_evarness.cli.enclosed import NotGenuineError
        from pytest_evarness.report.text import clean

        # What a file or a bundle is called, or holds, may be meant for the terminal.
        print(f"pytest-evarness: {clean(str(error))}", file=sys.stderr)
        return 1 if isinstance(error, NotGenuineError) else 2
    except KeyboardInterrupt as error:
        notes = getattr(error, "__notes__", [])
        print(f"pytest-evarness: {', at '.join(['interrupted', *notes])}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader went away; what it did not read it did not want.
        sys.stderr.close()
        return 1
    except Exception:  # noqa: BLE001 - a crash must not read as "violated", which exits 1
        import traceback

        traceback.print_exc()
        print("pytest-evarness: this is a bug of ours; please report it", file=sys.stderr)
        return BUG


def _settle_streams() -> None:
    """Let a terminal that cannot show a character see its escape, rather than end the command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _dispatch(words: list[str]) -> int:
    from pytest_evarness import __version__

    parser = _Parser(
        prog="pytest-evarness",
        description="Run agent harness scenarios, and verify proof bundles offline.",
    )
    parser.add_argument("--version", action="version", version=f"pytest-evarness {__version__}")
    named = words[0] if words else None
    if named in LATER:
        print(f"pytest-evarness: the command '{named}' is not in this version", file=sys.stderr)
        return 2
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    wanted = ALIASES.get(named or "", named)
    if wanted is not None and not wanted.startswith("-") and wanted not in COMMANDS:
        return _refuse_command(wanted)
    # Only the named command is imported: help alone needs them all.
    for name in COMMANDS:
        if wanted in COMMANDS and name != wanted:
            continue
        module = _module(name)
        aliases = [alias for alias, target in ALIASES.items() if target == name]
        sub = subparsers.add_parser(name, help=module.HELP, aliases=aliases)
        module.add_arguments(sub)
        sub.set_defaults(run=module.main)
    try:
        args = parser.parse_args(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 2
    try:
        code: int = args.run(args)
    except SystemExit as ended:
        # No command of ours ends that way; somebody's code did, and its code is no verdict.
        print(
            f"pytest-evarness: the command was ended from inside (SystemExit({ended.code!r}))",
            file=sys.stderr,
        )
        return BUG
    return code


def _refuse_command(word: str) -> int:
    from pytest_evarness.core.registry import nearest
    from pytest_evarness.report.text import one_line

    known = (*COMMANDS, *ALIASES)
    near = nearest(word, known)
    print(
        f"pytest-evarness: no such command (got '{one_line(word, 60)}';"
        f" known: {', '.join(COMMANDS)})",
        file=sys.stderr,
    )
    if near is not None:
        print(f"  try: pytest-evarness {near}", file=sys.stderr)
    return 2


def _module(name: str) -> ModuleType:
    return import_module(f"pytest_evarness.cli.{name}")

"""``pytest-evarness patterns``: the packaged harnesses."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from pytest_evarness.core.interfaces import Pattern

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "patterns"
HELP = "list the packaged harnesses, or show what one teaches"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="show this one")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")


def main(args: argparse.Namespace) -> int:
    """List or show patterns.

    Returns:
        0, or 2 where no pattern is called that.
    """
    from pytest_evarness.core.registry import load_registry

    registry = load_registry()
    if args.name is None:
        found = list(registry.patterns.values())
        text = _dumped([_record(one) for one in found]) if args.json else _list(found)
    else:
        pattern = registry.patterns.resolve(args.name)
        if args.json:
            text = _dumped({**_record(pattern), "lesson": _lesson(pattern)})
        else:
            text = _list([pattern]) + "\n" + (_lesson(pattern) or "it has no lesson yet\n")
    sys.stdout.write(text)
    return 0


def _record(pattern: Pattern) -> dict[str, Any]:
    return {
        "name": pattern.name,
        "doc": pattern.doc,
        "fixtures": list(pattern.fixtures),
        "default_fixture": pattern.default_fixture,
    }


def _dumped(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True) + "\n"


def _list(patterns: list[Pattern]) -> str:
    from pytest_evarness.report.text import one_line

    width = max((len(pattern.name) for pattern in patterns), default=0)
    lines = []
    for pattern in patterns:
        lines.append(f"{pattern.name:<{width}}  {one_line(pattern.doc, 600)}")
        names = [
            f"{name} (default)" if name == pattern.default_fixture else name
            for name in pattern.fixtures
        ]
        lines.append(f"{'':<{width}}  fixtures: {', '.join(names)}")
    return "\n".join(lines) + "\n"


def _lesson(pattern: Pattern) -> str | None:
    from pytest_evarness.report.text import clean

    try:
        return clean((pattern.folder / "lesson.md").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None

"""``pytest-evarness patterns``: harnesses that are ready to be used, ours and those of plug-ins."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pytest_evarness.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from pytest_evarness.core.interfaces import Pattern
    from pytest_evarness.core.registry import Registry

__all__ = ["HELP", "NAME", "add_arguments", "main"]

NAME = "patterns"
HELP = "list the harnesses that are there to be used, or show one of them"

MAX_SHOWN = 200
"""Nodes, and edges, of one graph."""

_PORTS = (("from_port", "out"), ("to_port", "in"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's words."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="show NAME",
        help="show the graph, the fixtures and the lesson of one; without words all are listed",
    )
    parser.add_argument("--json", action="store_true", help="JSON on standard output")


def main(args: argparse.Namespace) -> int:
    """List or show patterns.

    Returns:
        0, or 2 where no pattern is called that.
    """
    from pytest_evarness.cli.foreign import load_told

    name = _asked(args.words)
    registry = load_told()
    if name is None:
        found = list(registry.patterns.values())
        rows = [_record(one, registry) for one in found]
        text = _dumped(rows) if args.json else _list(found, registry)
    else:
        pattern = registry.patterns.resolve(name)
        text = _dumped(_whole(pattern, registry)) if args.json else _shown(pattern, registry)
    sys.stdout.write(text)
    return 0


def _asked(words: list[str]) -> str | None:
    """The pattern to be shown; None to list them all."""
    named = words[1:] if words and words[0] in ("show", "list") else words
    is_list = not words or words == ["list"]
    if len(named) > 1 or (not is_list and not named) or (words[:1] == ["list"] and named):
        raise UsageError(
            f"which pattern? (got '{' '.join(words)}'; patterns, or patterns show NAME)"
        )
    # Scenarios write pattern:NAME/FIXTURE, and whoever copies that means the pattern.
    return None if is_list else named[0].removeprefix("pattern:").partition("/")[0]


def _record(pattern: Pattern, registry: Registry) -> dict[str, Any]:
    return {
        "name": pattern.name,
        "doc": pattern.doc,
        "source": registry.patterns.source_of(pattern.name),
        "fixtures": list(pattern.fixtures),
        "default_fixture": pattern.default_fixture,
    }


def _whole(pattern: Pattern, registry: Registry) -> dict[str, Any]:
    return {
        **_record(pattern, registry),
        "graph": _graph(pattern),
        "lesson": _text(pattern, "lesson.md"),
    }


def _dumped(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True) + "\n"


def _list(patterns: list[Pattern], registry: Registry) -> str:
    from pytest_evarness.report.text import one_line

    width = max((len(pattern.name) for pattern in patterns), default=0)
    lines = []
    for pattern in patterns:
        source = registry.patterns.source_of(pattern.name)
        by = f" [plug-in {source}]" if registry.is_foreign(registry.patterns, pattern.name) else ""
        lines.append(f"{pattern.name:<{width}}  {one_line(pattern.doc, 600)}{by}")
        names = [
            f"{name} (default)" if name == pattern.default_fixture else name
            for name in pattern.fixtures
        ]
        lines.append(f"{'':<{width}}  fixtures: {', '.join(names)}")
    return "\n".join(lines) + "\n"


def _shown(pattern: Pattern, registry: Registry) -> str:
    parts = [_list([pattern], registry), "\n".join(_graph_lines(pattern)) + "\n"]
    for fixture in pattern.fixtures:
        text = (_text(pattern, f"fixtures/{fixture}.yaml") or "cannot be read").rstrip("\n")
        body = "\n".join(f"  {line}" for line in text.split("\n"))
        parts.append(f"pattern:{pattern.name}/{fixture}\n{body}\n")
    parts.append(_text(pattern, "lesson.md") or "it has no lesson yet\n")
    return "\n".join(parts)


def _graph(pattern: Pattern) -> Any:
    """What ``graph.json`` holds.

    Raises:
        InputError: It cannot be read.
    """
    from pytest_evarness.source.document import load_document

    shown = f"pattern:{pattern.name}/graph.json"
    return load_document(pattern.folder / "graph.json", shown=shown).value


def _graph_lines(pattern: Pattern) -> Iterator[str]:
    from pytest_evarness.report.text import one_line

    graph = _graph(pattern)
    yield "graph"
    for key, line in (("nodes", _node_line), ("edges", _edge_line)):
        entries = graph.get(key) if isinstance(graph, dict) else None
        rows = [one for one in entries if isinstance(one, dict)] if entries else []
        yield from (f"  {one_line(line(one), 200)}" for one in rows[:MAX_SHOWN])
        if len(rows) > MAX_SHOWN:
            yield f"  and {len(rows) - MAX_SHOWN} more {key}"


def _node_line(node: dict[str, Any]) -> str:
    config = node.get("config")
    return f"{node.get('id')}: {node.get('type')}{' ' + json.dumps(config) if config else ''}"


def _edge_line(edge: dict[str, Any]) -> str:
    line = f"{edge.get('from')} -> {edge.get('to')}"
    ports = [f"{key}: {edge[key]}" for key, usual in _PORTS if edge.get(key, usual) != usual]
    return f"{line} ({', '.join(ports)})" if ports else line


def _text(pattern: Pattern, name: str) -> str | None:
    from pytest_evarness.report.text import clean
    from pytest_evarness.source.limit import MAX_BYTES

    try:
        with (pattern.folder / name).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        return None if len(data) > MAX_BYTES else clean(data.decode("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None

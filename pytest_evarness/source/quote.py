"""How a value is shown in a message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from pytest_evarness.source.number import WrittenFloat

__all__ = ["kind", "nearest", "one_of", "quoted", "shown", "with_quotes"]


def kind(value: object) -> str:
    """The JSON type of ``value`` in the user's words."""
    if value is None:
        return "null"
    for types, name in (
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "text"),
        (Mapping, "mapping"),
        (Sequence, "list"),
    ):
        if isinstance(value, types):
            return name
    return type(value).__name__


def quoted(text: str, limit: int = 120) -> str:
    """A user's word in single quotes, invisible characters as escapes, cut at ``limit``."""
    cut = text[:limit]
    body = "".join(
        char if char.isprintable() else json.dumps(char, ensure_ascii=True)[1:-1] for char in cut
    )
    return f"'{body}…'" if len(text) > limit else f"'{body}'"


def shown(value: object, limit: int = 120) -> str:
    """A value on one line: a text in double quotes, a number with its written digits, ..."""
    if isinstance(value, WrittenFloat):
        return value.written
    if isinstance(value, str):
        body = "".join(
            char if char.isprintable() and char not in '"\\' else json.dumps(char)[1:-1]
            for char in value[:limit]
        )
        return f'"{body}…"' if len(value) > limit else f'"{body}"'
    if isinstance(value, Mapping | Sequence) and len(value) > limit:
        return f"a {kind(value)} of {len(value)}"
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        return f"a {kind(value)}"
    return text if len(text) <= limit else text[:limit] + "…"


def with_quotes(value: object) -> str | None:
    """Advice where a text in braces lost its quotes, which YAML reads as a mapping; else None."""
    if isinstance(value, Mapping) and len(value) == 1:
        key, inner = next(iter(value.items()))
        if inner is None:
            return f'write "{{{key}}}" with quotes; without them it is a mapping'
    return None


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that ``word`` was probably meant to be, or None where none is near."""
    import difflib

    found = difflib.get_close_matches(word[:200], sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def one_of(names: Iterable[str], limit: int = 300) -> str:
    """Known names for the rule of a message, shortened where the line would not hold them."""
    text = ", ".join(names)
    return text if len(text) <= limit else text[:limit].rsplit(", ", 1)[0] + ", …"

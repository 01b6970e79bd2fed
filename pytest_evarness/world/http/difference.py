"""How a JSON value differs from the one that was asked for, in words that cannot look the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.core.matcher import MISSING, same

__all__ = ["described", "differences"]

MAX_LISTED: Final = 20
_SHOWN: Final = 80
_AROUND: Final = 30


def differences(expected: Any, got: Any, at: str = "") -> list[str]:
    """Every place where ``got`` is not ``expected``: ``PATH: expected X, got Y``, types named.

    Args:
        expected: JSON.
        got: JSON, or ``MISSING``.
        at: How the place of both is called; empty for the value itself.
    """
    found: list[str] = []
    more = 0
    for place, wanted, met in _walk(expected, got, at):
        if len(found) < MAX_LISTED:
            found.append(_sentence(place, wanted, met))
        else:
            more += 1
    return [*found, f"and {more} more"] if more else found


def _walk(expected: Any, got: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key in sorted({*expected, *got}):
            yield from _walk(expected.get(key, MISSING), got.get(key, MISSING), _below(at, key))
    elif isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        for index in range(max(len(expected), len(got))):
            wanted = expected[index] if index < len(expected) else MISSING
            met = got[index] if index < len(got) else MISSING
            yield from _walk(wanted, met, f"{at}[{index}]")
    elif expected is MISSING or got is MISSING or not same(expected, got):
        yield at, expected, got


def _below(at: str, key: str) -> str:
    plain = key.isascii() and key.replace("_", "a").replace("-", "a").isalnum()
    if not plain:
        return f"{at}[{shown(key, 60)}]"
    return f"{at}.{key}" if at else key


def _sentence(at: str, wanted: Any, met: Any) -> str:
    head = f"{at}: " if at else ""
    if isinstance(wanted, str) and isinstance(met, str):
        return head + _texts(wanted, met)
    return f"{head}expected {described(wanted)}, got {described(met)}"


def described(value: Any) -> str:
    """A value with the name of its type, invisible characters escaped; ``nothing`` for none."""
    if value is MISSING:
        return "nothing"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return shown(value)
    return f"{kind_of(value)} {shown(value, _SHOWN)}"


def _texts(wanted: str, met: str) -> str:
    first = next(
        (at for at, pair in enumerate(zip(wanted, met, strict=False)) if pair[0] != pair[1]),
        min(len(wanted), len(met)),
    )
    if max(len(wanted), len(met)) <= _SHOWN:
        said = f"expected text {shown(wanted)}, got text {shown(met)}"
    else:
        said = (
            f"expected text {_window(wanted, first)}, got text {_window(met, first)}"
            f" (lengths {len(wanted)} and {len(met)}, first difference at character {first + 1})"
        )
    there = [text[first : first + 1] for text in (wanted, met)]
    # Two printable characters may look the same: a letter of another alphabet, a combining mark.
    if any(char and not char.isascii() and char.isprintable() for char in there):
        names = [f"U+{ord(char):04X}" if char else "the end" for char in there]
        said += f", {names[0]} against {names[1]} at character {first + 1}"
    return said


def _window(text: str, first: int) -> str:
    start, end = max(0, first - _AROUND), first + _AROUND
    head = "…" if start else ""
    return head + shown(text[start:end]) + ("…" if end < len(text) else "")

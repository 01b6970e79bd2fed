"""Hostile text made fit for a terminal or a report."""

from __future__ import annotations

import re

__all__ = ["clean", "first_line"]

# A whole colour or cursor sequence is removed, so that no "[31m" is left behind.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


def clean(text: str) -> str:
    """Remove colour, write control characters and lone surrogates as escapes; lines stay lines."""
    return _ODD.sub(_escape, _SEQUENCE.sub("", text))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return {0x0D: "\\r"}.get(code, f"\\x{code:02x}")
    return f"\\u{code:04x}"


def first_line(text: str, limit: int = 300) -> str:
    """The first line of ``text``, cut at ``limit`` characters."""
    line = text.split("\n", 1)[0]
    return line if len(line) <= limit else line[: limit - 1] + "…"

"""Hostile text made fit for a terminal or a report: no colour, no control character, bounded."""

from __future__ import annotations

import re

__all__ = ["bounded", "clean", "first_line", "one_line", "short_digests"]

# A whole colour or cursor sequence is removed, so that no "[31m" is left behind.
# So is one that stands in a quoted value, where its first character is an escape already: once in
# a value that was shown, more than once in a value inside a text that was shown.
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
    r"|(?<!\\)\\+(?:u001[bB]|x1[bB]|033)\[[0-?]*[ -/]*[@-~]"
)
_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)

_DIGEST = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")


def clean(text: str) -> str:
    """Remove colour, write control characters and lone surrogates as escapes; lines stay lines."""
    return _ODD.sub(_escape, _SEQUENCE.sub("", text))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return {0x0D: "\\r"}.get(code, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def first_line(text: str, limit: int = 300) -> str:
    """The first line of ``text``, cut at ``limit`` characters."""
    line = text.split("\n", 1)[0]
    return line if len(line) <= limit else line[: limit - 1] + "…"


def one_line(text: str, limit: int = 300) -> str:
    """``text`` cleaned and on one line, cut at ``limit`` characters and never inside an escape."""
    flat = _SEQUENCE.sub("", text).replace("\n", " ").replace("\t", " ")
    return _ODD.sub(_escape, flat if len(flat) <= limit else flat[: limit - 1] + "…")


def bounded(text: str, limit: int, *, whole: str) -> str:
    """``text`` cleaned; beyond ``limit`` characters only its head and its tail.

    Args:
        limit: Characters kept of the text, the marker not counted.
        whole: Where the whole text lies, for the marker.
    """
    plain = _SEQUENCE.sub("", text)
    if len(plain) <= limit:
        return _ODD.sub(_escape, plain)
    # Cut before anything is escaped, so that no escape is cut in two.
    head = _ODD.sub(_escape, plain[: limit - limit // 2])
    tail = _ODD.sub(_escape, plain[len(plain) - limit // 2 :])
    left_out = len(plain) - limit
    marker = f"[... {left_out} of {len(text)} characters left out; {whole} ...]"
    return f"{head}\n{marker}\n{tail}"


def short_digests(text: str) -> str:
    """Digests by their first digits, which is what a reader compares; the bundle has them whole."""
    return _DIGEST.sub(r"\1…", text)

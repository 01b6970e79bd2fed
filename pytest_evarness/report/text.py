"""Hostile text made fit for a terminal or a report: no colour, no control character, bounded."""

from __future__ import annotations

import re

__all__ = ["bounded", "clean", "first_line", "flat", "one_line", "short_digests"]

# A whole colour or cursor sequence is removed, so that no "[31m" is left behind.
# So is one that stands in a quoted value, where its first character is an escape already: once in
# a value that was shown, more than once in a value inside a text that was shown.
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
    r"|(?<!\\)\\+(?:u001[bB]|x1[bB]|033)\[[0-?]*[ -/]*[@-~]"
)
# What steers a terminal, turns the order of a line round, or is not seen; a tag, a filler and a
# selector of a variant among it. Joiners stay between letters and signs that need them.
_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
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


def flat(text: str) -> str:
    """``text`` cleaned and on one line, whole."""
    return one_line(text, len(text))


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

"""What a text says, however it is spelled: compatibility forms, dashes, blanks, escapes.

Whoever looks for something in a text that nobody trusts looks in its plain form, and is told which
part of the written text a place in it stands for.

Source: docs/nodes/egress.md, "What is found".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Plain", "one_line", "plain_form"]

# Everything else stands for itself. A run of escapes is one piece: one character may need several.
_ODD = re.compile(
    r"(?P<percent>(?:%[0-9A-Fa-f]{2})+)"
    r"|(?P<entity>&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)"
    r"|\\u(?P<unit>[0-9A-Fa-f]{4})"
    r"|[^\x21-\x7e\n\r ]| {2,}"
)
_NEWLINES: Final = "\x85\u2028\u2029"
_BLANKS: Final = "\t\v\f"
# Letters by their category that nothing is seen of.
_UNSEEN: Final = "\u115f\u1160\u3164\uffa0"
_DASHES: Final = "\u02d7\u2043\u2212"
_STOPS: Final = "\u3002"
_APOSTROPHES: Final = "\u2018\u2019\u02bc"
_DROPPED: Final = frozenset({"Cc", "Cf", "Me", "Mn"})


@dataclass(frozen=True, slots=True)
class Plain:
    """A text in its plain form.

    Attributes:
        text: The plain form, one line for each line that is written.
        starts: For each of its characters where the part begins that is written for it; None
            where all stand for themselves.
        ends: Where these parts end.
    """

    text: str
    starts: list[int] | None = None
    ends: list[int] | None = None

    def written(self, start: int, stop: int) -> tuple[int, int]:
        """The part of the written text that ``text[start:stop]`` stands for; it is not empty."""
        if self.starts is None or self.ends is None:
            return start, stop
        return self.starts[start], self.ends[stop - 1]


def plain_form(written: str) -> Plain:
    """Bring a text into its plain form, in one pass.

    Compatibility forms and digits of any script become their plain ones, all kinds of dashes ``-``,
    each run of blanks one blank. What is not seen is dropped. Escapes of URLs, HTML and JSON are
    read once.
    """
    if _ODD.search(written) is None:
        return Plain(written)
    made = _Making()
    at = 0
    for match in _ODD.finditer(written):
        made.copy(written, at, match.start())
        at = match.end()
        for char, start, stop in _pieces(match):
            made.add(char, start, stop)
    made.copy(written, at, len(written))
    return Plain("".join(made.chars), made.starts, made.ends)


def _pieces(match: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    """Each character that is written there, with its part."""
    start, stop = match.span()
    read = None
    if match["percent"] is not None:
        try:
            read = bytes.fromhex(match[0].replace("%", "")).decode("utf-8")
        except UnicodeDecodeError:
            read = None
        for char in read or ():
            end = start + 3 * len(char.encode("utf-8"))
            yield char, start, end
            start = end
    elif match["entity"] is not None:
        from html import unescape

        read = unescape(match[0])
        read = None if read == match[0] else read
        yield from ((char, start, stop) for char in read or ())
    elif match["unit"] is not None:
        read = chr(int(match["unit"], 16))
        yield read, start, stop
    if read is None:
        yield from ((char, start + place, start + place + 1) for place, char in enumerate(match[0]))


def one_line(written: str) -> str:
    """The plain form with one blank wherever there are blanks or line breaks."""
    return " ".join(plain_form(written).text.split())


class _Making:
    """A plain form that is being put together."""

    def __init__(self) -> None:
        self.chars: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def copy(self, written: str, start: int, stop: int) -> None:
        """Take over what stands for itself."""
        if start < stop and written[start] == " ":
            self._put(" ", start, start + 1)
            start += 1
        self.chars.extend(written[start:stop])
        self.starts.extend(range(start, stop))
        self.ends.extend(range(start + 1, stop + 1))

    def add(self, char: str, start: int, stop: int) -> None:
        """Add what one character stands for; a mark joins the letter before it, or is dropped."""
        if unicodedata.combining(char):
            whole = unicodedata.normalize("NFC", self.chars[-1] + char) if self.chars else ""
            if len(whole) == 1:
                self.chars[-1] = whole
                self.ends[-1] = stop
            return
        for one in unicodedata.normalize("NFKC", char):
            self._put(_spelled(one), start, stop)

    def _put(self, char: str, start: int, stop: int) -> None:
        if char == " " and self.chars and self.chars[-1] == " ":
            self.ends[-1] = stop
        elif char:
            self.chars.append(char)
            self.starts.append(start)
            self.ends.append(stop)


def _spelled(char: str) -> str:
    """The plain spelling of one character; nothing for what is not seen."""
    if "\x20" <= char <= "\x7e" or char in "\n\r":
        return char
    kind = unicodedata.category(char)
    if char in _NEWLINES:
        return "\n"
    if kind == "Zs" or char in _BLANKS:
        return " "
    if kind in _DROPPED or char in _UNSEEN:
        return ""
    if kind == "Pd" or char in _DASHES:
        return "-"
    if kind == "Nd":
        return str(unicodedata.decimal(char))
    if char in _STOPS:
        return "."
    return "'" if char in _APOSTROPHES else char

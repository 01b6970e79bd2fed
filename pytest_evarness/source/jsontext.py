"""Reads strict JSON with the place of every value."""

from __future__ import annotations

import re
from bisect import bisect_right
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import Any, NoReturn

from pytest_evarness.errors import InputError, Where
from pytest_evarness.source.limit import MAX_DEPTH, MAX_MISTAKES
from pytest_evarness.source.mistake import raise_all
from pytest_evarness.source.place import Mark, Places, field_text
from pytest_evarness.source.quote import quoted
from pytest_evarness.source.scalar import MAX_INTEGER, RefusedError, parse_number

__all__ = ["read_json"]

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDISH = re.compile(r"[-+.A-Za-z0-9_]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONSTANTS = {"true": True, "false": False, "null": None}


def read_json(text: str, shown: str | None) -> tuple[Any, Places, Mark | None]:
    """Value, places and the root's own place of one document.

    Raises:
        InputError: Any mistake; several come as InputErrors.
    """
    reader = _Reader(text, shown)
    try:
        value, mark, position = reader.value(reader.skip(0), 0)
        position = reader.skip(position)
        if position < len(text):
            reader.wrong("something stands after the document's end", position)
    except _StopError:
        value, mark = None, None
    raise_all(reader.errors)
    return value, reader.places, mark


class _StopError(Exception):
    """The document cannot be read any further."""


class _Reader:
    def __init__(self, text: str, shown: str | None) -> None:
        self.text = text
        self.shown = shown
        self.places = Places()
        self.errors: list[InputError] = []
        self.path: list[str | int] = []
        self.lines = [0, *(found.end() for found in re.finditer("\n", text))]

    def skip(self, position: int) -> int:
        found = _SPACE.match(self.text, position)
        assert found is not None
        return found.end()

    def at(self, position: int) -> tuple[int, int]:
        line = bisect_right(self.lines, position)
        return line, position - self.lines[line - 1] + 1

    def wrong(self, problem: str, position: int, *, fix: str | None = None) -> None:
        line, column = self.at(position)
        where = Where(self.shown, line, column, field_text(self.path) or None)
        self.errors.append(InputError(problem, where=where, fix=fix))
        if len(self.errors) >= MAX_MISTAKES:
            raise _StopError

    def stop(self, expected: str, position: int) -> NoReturn:
        if position >= len(self.text):
            self.wrong(f"is no JSON: {expected} expected, the text ends", position)
        else:
            found = _WORDISH.match(self.text, position)
            got = found.group() if found is not None else self.text[position]
            self.wrong(f"is no JSON: {expected} expected (got {quoted(got, 40)})", position)
        raise _StopError

    def value(self, position: int, depth: int) -> tuple[Any, Mark, int]:
        line, column = self.at(position)
        mark: Mark = (line, column, line, column, self.shown)
        char = self.text[position : position + 1]
        if char == '"':
            text, end = self.string(position)
            return text, mark, end
        if char in ("{", "["):
            if depth >= MAX_DEPTH:
                self.wrong(f"is nested too deeply (got more than {MAX_DEPTH} levels)", position)
                raise _StopError
            made, end = (
                self.mapping(position + 1, depth)
                if char == "{"
                else self.sequence(position + 1, depth)
            )
            return made, mark, end
        found = _WORDISH.match(self.text, position)
        word = found.group() if found is not None else ""
        if word in _CONSTANTS:
            return _CONSTANTS[word], mark, position + len(word)
        number = _NUMBER.fullmatch(word)
        if number is None:
            if word.lstrip("+-") in ("NaN", "Infinity"):
                self.wrong(f"must be a finite number (got {quoted(word)})", position)
                return None, mark, position + len(word)
            self.stop("a value", position)
        return self.number(word, number, position), mark, position + len(word)

    def number(self, word: str, number: re.Match[str], position: int) -> Any:
        if number.group(2) is None and number.group(3) is None:
            value = int(word) if len(word) < 30 else MAX_INTEGER + 1
            if not -MAX_INTEGER <= value <= MAX_INTEGER:
                self.wrong(
                    "the integer is beyond what every reader keeps exact "
                    f"(got {quoted(word, 40)}; at most 2^53)",
                    position,
                    fix="put it in quotes",
                )
            return value
        try:
            return parse_number(word)
        except RefusedError as error:
            self.wrong(error.problem, position, fix=error.fix)
            return 0

    def string(self, position: int) -> tuple[str, int]:
        try:
            text, end = scanstring(self.text, position + 1)
        except JSONDecodeError as error:
            self.wrong(
                f"is no JSON: {error.msg[:1].lower()}{error.msg[1:].rstrip(' at')}", error.pos
            )
            raise _StopError from None
        if "\\u" in self.text[position:end] and _SURROGATE.search(text):
            self.wrong("holds a lone surrogate", position)
        return text, end

    def sequence(self, position: int, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        marks: list[Mark] = []
        position = self.skip(position)
        self.path.append(0)
        if self.text[position : position + 1] != "]":
            while True:
                value, mark, position = self.value(position, depth + 1)
                items.append(value)
                marks.append(mark)
                self.path[-1] = len(items)
                position = self.skip(position)
                char = self.text[position : position + 1]
                if char == "]":
                    break
                if char != ",":
                    self.stop("',' or ']'", position)
                position = self.skip(position + 1)
        self.path.pop()
        self.places.note(items, marks)
        return items, position + 1

    def mapping(self, position: int, depth: int) -> tuple[dict[str, Any], int]:
        items: dict[str, Any] = {}
        marks: dict[str, Mark] = {}
        position = self.skip(position)
        if self.text[position : position + 1] != "}":
            while True:
                if self.text[position : position + 1] != '"':
                    self.stop("a key in double quotes", position)
                key_at = position
                key, position = self.string(position)
                position = self.skip(position)
                if self.text[position : position + 1] != ":":
                    self.stop("':'", position)
                self.path.append(key)
                value, mark, position = self.value(self.skip(position + 1), depth + 1)
                self.path.pop()
                line, column = self.at(key_at)
                if key in items:
                    self.wrong(
                        f"duplicate key (got {quoted(key)} on line {line}; "
                        f"first on line {marks[key][0]})",
                        key_at,
                    )
                else:
                    items[key] = value
                    marks[key] = (line, column, mark[2], mark[3], self.shown)
                position = self.skip(position)
                char = self.text[position : position + 1]
                if char == "}":
                    break
                if char != ",":
                    self.stop("',' or '}'", position)
                position = self.skip(position + 1)
        self.places.note(items, marks)
        return items, position + 1

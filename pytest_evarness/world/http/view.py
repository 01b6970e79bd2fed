"""One request of a journal, read for those who ask about it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias, cast

from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import Undecided
from pytest_evarness.core.outcome import Cause

__all__ = ["NotJson", "Parsed", "View", "read_json"]

MAX_DEPTH: Final = 100
MAX_DIGITS: Final = 4000
"""A longer integer is beyond what Python reads by default."""

_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The value that a body holds."""

    value: Any


@dataclass(frozen=True, slots=True)
class NotJson:
    """A body that holds no JSON; ``why`` is a clause such as ``the body is empty``."""

    why: str


JsonBody: TypeAlias = Parsed | NotJson | Undecided


class View:
    """A request as the journal has it, its parts worked out when they are asked for.

    Args:
        record: One entry of a journal.
        twin: The same with secrets masked, where it differs: texts for people come from it, and
            ``secret`` is asked of it.
    """

    __slots__ = ("_headers", "_json", "_query", "record", "twin")

    def __init__(self, record: Mapping[str, Any], twin: View | None = None) -> None:
        self.record = record
        self.twin: View = self if twin is None else twin
        self._headers: dict[str, str] | None = None
        self._query: dict[str, str | list[str]] | None = None
        self._json: JsonBody | None = None

    @property
    def n(self) -> int:
        """Its number, from 1."""
        return cast("int", self.record["n"])

    @property
    def method(self) -> str:
        """In capitals."""
        return cast("str", self.record["method"])

    @property
    def path(self) -> str:
        """Without the query."""
        return cast("str", self.record["path"])

    @property
    def text(self) -> str | None:
        """As much of the body as was kept; None where it is no text."""
        return cast("str | None", self.record["body"])

    @property
    def digest(self) -> str:
        """Of the body."""
        return cast("str", self.record["body_digest"])

    @property
    def is_cut(self) -> bool:
        """Whether less is kept of the body than was sent."""
        return bool(self.record.get("truncated", False))

    @property
    def has_whole_digest(self) -> bool:
        """Whether the digest is of the whole body."""
        return not self.is_cut or "size" in self.record

    @property
    def headers(self) -> Mapping[str, str]:
        """By name in small letters; the values of a repeated one are joined as HTTP has it."""
        if self._headers is None:
            made: dict[str, str] = {}
            for name, value in self.record["headers"]:
                made[name] = f"{made[name]}, {value}" if name in made else value
            self._headers = made
        return self._headers

    @property
    def query(self) -> Mapping[str, str | list[str]]:
        """By name; a repeated one has the list of its values."""
        if self._query is None:
            lists: dict[str, list[str]] = {}
            for name, value in self.record["query"]:
                lists.setdefault(name, []).append(value)
            self._query = {
                name: values[0] if len(values) == 1 else values for name, values in lists.items()
            }
        return self._query

    @property
    def json(self) -> JsonBody:
        """The body read as JSON."""
        if self._json is None:
            self._json = self._read()
        return self._json

    def _read(self) -> JsonBody:
        if self.text is None:
            return NotJson("the body is no UTF-8 text")
        if self.is_cut:
            return Undecided(cut_text(self.text), Cause.MISSING_EVIDENCE)
        if not self.text.strip(" \t\r\n"):
            return NotJson("the body is empty")
        return read_json(self.text)

    def as_value(self) -> dict[str, Any]:
        """The request as one mapping: method, path, query, headers, body."""
        return {
            "method": self.method,
            "path": self.path,
            "query": dict(self.query),
            "headers": dict(self.headers),
            "body": self.text,
        }


def cut_text(kept: str) -> str:
    """Why a question about a cut body stays open."""
    return f"only the first {len(kept.encode('utf-8'))} bytes of the body were kept"


class _RefusedError(Exception):
    pass


def read_json(text: str) -> JsonBody:
    """Read one JSON document, the same on every machine.

    What two readers of JSON would read differently (a key twice, a number that no float holds) or
    that nests deeper than 100 levels is undecided.
    """
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        return Undecided(f"the body nests deeper than {MAX_DEPTH} levels")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_mapping,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_integer,
        )
    except _RefusedError as error:
        return Undecided(f"the body can be read in two ways: {error}")
    except ValueError:
        # What the library says of a mistake, and where it sees it, is another in each version.
        return NotJson(f"the body is no JSON ({shown(text, 60)})")
    return Parsed(value)


def _depth(text: str) -> int:
    deepest = depth = 0
    for found in _BRACKETS.finditer(_TEXTS.sub("", text)):
        depth += 1 if found.group() in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"the key {json.dumps(key)[:60]} stands there twice")
            seen.add(key)
    return made


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise _RefusedError(f"the number {digits[:40]} is too large")
    return value


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _RefusedError(f"an integer of {len(digits)} digits")
    return int(digits)

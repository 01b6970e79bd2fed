"""What a YAML parser stumbles over, in the words of somebody who writes the file.

The parser names the rule of its grammar that it was in; a person has left out a quote or a space.
Only mistakes that are told apart with certainty by the text itself are translated; for the rest
the parser's own sentence is given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_evarness.errors import InputError, Where
from pytest_evarness.source.quote import quoted

if TYPE_CHECKING:
    import yaml

__all__ = ["syntax_error"]

_Said = tuple[str, str | None, tuple[int, int] | None]
"""Problem, fix, and a better place than the parser's (line and column from 0)."""

_PAIR = re.compile(r"(?P<indent>\s*(?:- +)*)(?P<key>[^\s:#'\"\[{][^:#]*?)\s*:\s+(?P<value>\S.*)$")
_GLUED = re.compile(r"\s*(?:- +)*(?P<key>[\w.-]+):(?P<value>\S+)\s*$")
_CLOSERS = {"[": "]", "{": "}"}
_QUOTES = "\"'"
_LONGEST_FIX = 80
_LONGEST_LINE = 1000  # a longer one is no line that somebody wrote, and costs time to look at


def syntax_error(error: yaml.MarkedYAMLError, text: str, shown: str | None) -> InputError:
    """The parser's error as one of ours."""
    mark = error.problem_mark or error.context_mark
    problem = " ".join(str(error.problem or error.context or "no YAML").split())
    if mark is None:
        return InputError(f"is no YAML: {problem}", where=Where(shown))
    stumble = _Stumble(text.splitlines(), mark, error.context_mark, problem, str(error.context))
    said = stumble.explain()
    if said is not None:
        line, column = said[2] or (mark.line, mark.column)
        return InputError(said[0], where=Where(shown, line + 1, column + 1), fix=said[1])
    context = f" {' '.join(str(error.context).split())}" if error.problem and error.context else ""
    if error.context_mark is not None and context:
        context += f" from line {error.context_mark.line + 1}"
    where = Where(shown, mark.line + 1, mark.column + 1)
    return InputError(f"is no YAML: {problem}{context}", where=where)


class _Stumble:
    """Where the parser stopped, and what stands around."""

    def __init__(
        self, lines: Sequence[str], mark: Any, start: Any, problem: str, context: str
    ) -> None:
        self.lines = lines
        self.row: int = mark.line
        self.column: int = mark.column
        self.start = start
        self.problem = problem
        self.context = context
        self.line = lines[self.row] if self.row < len(lines) else ""
        self.char = self.line[self.column : self.column + 1]
        self.before = self.line[: self.column].rstrip()

    def explain(self) -> _Said | None:
        """What is wrong; None where it cannot be told for certain."""
        problem = self.problem
        tab = self._tab()
        if tab is not None:
            return tab
        if "cannot start any token" in problem:
            return self._start_of_value()
        if "directive" in problem or self.line.startswith("%"):
            return "a line cannot start with '%'", "put the text in quotes", (self.row, 0)
        if problem.startswith("mapping values are not allowed"):
            return self._colon()
        if "sequence entries" in problem:
            return (
                "a list begins on the line of its key",
                "write its first '- ' on the next line, indented",
                None,
            )
        if "escape character" in problem:
            return (
                "a backslash in double quotes begins an escape, and this is none",
                "use single quotes, or write the backslash twice",
                None,
            )
        if problem.endswith("end of stream") and "scalar" in self.context:
            return self._open_quote()
        if "flow" in self.context and ("expected ',' or" in problem):
            return self._flow()
        if "node content" in problem:
            return self._no_node()
        if "alphabetic or numeric" in problem or "block scalar" in self.context:
            return self._start_of_value()
        if "block collection" in self.context:
            return (
                f"a list entry ('- ') is expected; the list begins on line {self.start.line + 1}",
                None,
                None,
            )
        if "block mapping" in self.context:
            return self._block()
        return None

    # -- one kind of mistake each -------------------------------------------------------------

    def _tab(self) -> _Said | None:
        indent = self.line[: len(self.line) - len(self.line.lstrip(" \t"))]
        column = indent.find("\t")
        if column < 0:
            column = self.column if self.char == "\t" else -1
        if column < 0:
            return None
        return "a tab where YAML wants spaces", "write spaces instead", (self.row, column)

    def _start_of_value(self) -> _Said:
        start = self.start.column if self.start is not None else self.column
        first = self.line[start : start + 1]
        after_closer = self._after_closer()
        if after_closer is not None:
            return after_closer
        return (
            f"a value that starts with {quoted(first)} needs quotes",
            self._in_quotes(self.line[start:]),
            (self.row, start),
        )

    def _colon(self) -> _Said:
        pair = _pair(self.line)
        if pair is not None and pair.start("value") <= self.column:
            return "a value that holds ': ' needs quotes", self._in_quotes(pair["value"]), None
        above = self._above()
        number = above + 1
        glued = _GLUED.match(self.lines[above][:_LONGEST_LINE]) if above >= 0 else None
        if glued is not None:
            fix = (
                f"write '{glued['key']}: {glued['value']}'"
                if len(glued[0]) <= _LONGEST_FIX
                else None
            )
            return f"line {number} has no space after its colon", fix, None
        if above >= 0 and _pair(self.lines[above]) and self._indent(above) < self._indent():
            return (
                f"is indented deeper than line {number}, whose key has a value already",
                f"indent it like line {number}",
                None,
            )
        if above >= 0 and ":" not in self.lines[above]:
            return f"a key stands under line {number}, which is no 'key: value'", None, None
        return "no key may stand here", None, None

    def _open_quote(self) -> _Said:
        sign = self.lines[self.start.line][self.start.column]
        return (
            f"a text that begins with {sign} has no closing {sign}",
            None,
            (self.start.line, self.start.column),
        )

    def _flow(self) -> _Said:
        row, column = self.start.line, self.start.column
        opener = self.lines[row][column]
        closer = _CLOSERS.get(opener, opener)
        if self.char and self.char in "]}":
            return (
                f"'{self.char}' where the '{opener}' of line {row + 1} wants '{closer}'",
                f"write '{closer}'",
                None,
            )
        if self.row == row and self.char == ":":
            return (
                "a ',' is missing, or a value that holds ': ' needs quotes",
                None,
                None,
            )
        if self.row != row and (not self.char or self.char == ":"):
            return (
                f"the '{opener}' of line {row + 1} is not closed with '{closer}'",
                None,
                None if self.char else (row, column),
            )
        return f"a ',' or '{closer}' is missing before this", None, None

    def _no_node(self) -> _Said:
        if self.char and self.char in "]}":
            return f"'{self.char}' closes nothing", "put the value in quotes", None
        return f"a value cannot start with {quoted(self.char)}", "put it in quotes", None

    def _block(self) -> _Said | None:
        after_closer = self._after_closer()
        if after_closer is not None:
            return after_closer
        if self.before and self.before[-1] in _QUOTES:
            sign = self.before[-1]
            twice = "write '' for a quote inside" if sign == "'" else 'write \\" for a quote inside'
            return f"text after the closing {sign} of a value", twice, None
        if self.before:
            pair = _pair(self.line)
            if pair is not None and pair["value"][0] in "*&!":
                return (
                    f"a value that starts with {quoted(pair['value'][0])} needs quotes",
                    self._in_quotes(pair["value"]),
                    (self.row, pair.start("value")),
                )
            return None
        begins = f"the mapping that begins on line {self.start.line + 1}"
        if self.char == "-" and self.column == self.start.column:
            return f"a list entry among the keys of {begins}", None, None
        met, wanted = _spaces(self.column), _spaces(self.start.column)
        return f"the indentation fits nothing above ({met}; {begins} has {wanted})", None, None

    def _after_closer(self) -> _Said | None:
        """Text behind the bracket that ends a value: the whole was meant as a text."""
        pair = _pair(self.line)
        if pair is None or pair["value"][0] not in "[{" or not self.before.endswith(("]", "}")):
            return None
        first = pair["value"][0]
        return (
            f"a text that starts with '{first}' needs quotes",
            self._in_quotes(pair["value"]),
            (self.row, pair.start("value")),
        )

    # -- helpers ------------------------------------------------------------------------------

    def _above(self) -> int:
        """The nearest line above that says something, or -1."""
        for row in range(min(self.row, len(self.lines)) - 1, -1, -1):
            stripped = self.lines[row].strip()
            if stripped and not stripped.startswith("#"):
                return row
        return -1

    def _indent(self, row: int | None = None) -> int:
        line = self.line if row is None else self.lines[row]
        return len(line) - len(line.lstrip(" "))

    def _in_quotes(self, value: str) -> str:
        value = value.rstrip()
        if len(value) > _LONGEST_FIX or " #" in value or value[-1] in ",]}" or '"' in value:
            return "put the whole value in quotes"
        escaped = value.replace("\\", "\\\\")
        return f'write "{escaped}"'


def _pair(line: str) -> re.Match[str] | None:
    return _PAIR.match(line) if len(line) <= _LONGEST_LINE else None


def _spaces(count: int) -> str:
    return f"{count} space{'' if count == 1 else 's'}"

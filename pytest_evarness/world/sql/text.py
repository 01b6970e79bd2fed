"""SQL as text: where statements end, what they begin with, where values go.

Nothing here understands SQL beyond its quotes, comments and brackets; what a statement may do is
decided by the engine. These answers come earlier and say more.

Sources: SQLite "SQL As Understood By SQLite" (tokens), PostgreSQL 4.1 "Lexical Structure", MySQL
9.2 "Language Structure" and 4.5.1 (``DELIMITER``).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

__all__ = [
    "BindError",
    "Dialect",
    "Params",
    "Statement",
    "bind",
    "first_word",
    "not_reading",
    "outside",
    "placeholder_mistake",
    "split",
    "written_table",
]

Params: TypeAlias = "Sequence[Any] | Mapping[str, Any]"


class Dialect(enum.StrEnum):
    """Whose quotes and comments; the words are the service types."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"
    MYSQL = "mysql"


class BindError(ValueError):
    """Placeholders and values do not fit; the message says which."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script.

    Attributes:
        text: Without its terminator, spaces and comments around it.
        line: Where it begins in the script, from 1.
    """

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


_WORD: Final = r"(?P<word>[^\W\d][\w$]*)"
_BLOCK: Final = r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)"
_REST: Final = (
    r"(?P<cast>::|:=)|(?P<named>:[^\W\d]\w*)|(?P<qmark>\?)"
    r"|(?P<open>\()|(?P<close>\))|(?P<semi>;)|(?P<other>.)"
)
_NUMBER: Final = r"(?P<number>\d[\w.]*)"
_DOUBLED: Final = r"{0}(?:[^{0}]|{0}{0})*{0}"
_SINGLE: Final = _DOUBLED.format("'")
_NAME: Final = _DOUBLED.format('"')
_TICKED: Final = _DOUBLED.format("`")
_ESCAPED: Final = r"{0}(?:[^{0}\\]|\\.|{0}{0})*{0}"

_TOKENS: Final[Mapping[Dialect, re.Pattern[str]]] = {
    Dialect.SQLITE: re.compile(
        rf"(?P<space>\s+|--[^\n]*|{_BLOCK})"
        rf"|(?P<text>{_SINGLE})|(?P<name>{_NAME}|{_TICKED}|\[[^\]]*\])"
        rf"|(?P<broken>['\"`\[])|{_WORD}|{_NUMBER}|{_REST}",
        re.DOTALL,
    ),
    Dialect.POSTGRES: re.compile(
        rf"(?P<space>\s+|--[^\n]*)|(?P<block>/\*)"
        rf"|(?P<text>[eE]{_ESCAPED.format(chr(39))}|{_SINGLE}"
        r"|\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$)"
        rf"|(?P<name>{_NAME})|(?P<broken>['\"]|\$(?:[^\W\d]\w*)?\$)|{_WORD}|{_NUMBER}|{_REST}",
        re.DOTALL,
    ),
    Dialect.MYSQL: re.compile(
        rf"(?P<executable>/\*M?!(?:[^*]|\*(?!/))*\*/)"
        rf"|(?P<space>\s+|--(?=\s|\Z)[^\n]*|\#[^\n]*|{_BLOCK})"
        rf"|(?P<text>{_ESCAPED.format(chr(39))}|{_ESCAPED.format(chr(34))})|(?P<name>{_TICKED})"
        rf"|(?P<broken>['\"`])|{_WORD}|{_NUMBER}|{_REST}",
        re.DOTALL,
    ),
}

_READING: Final[Mapping[Dialect, frozenset[str]]] = {
    Dialect.SQLITE: frozenset({"select", "with", "values", "explain", "pragma"}),
    Dialect.POSTGRES: frozenset({"select", "with", "values", "table", "explain", "show"}),
    Dialect.MYSQL: frozenset(
        {"select", "with", "values", "table", "explain", "show", "describe", "desc"}
    ),
}
_WRITING: Final = frozenset({"insert", "update", "delete", "merge", "replace"})
_ROUTINES: Final = frozenset({"function", "procedure", "trigger", "event"})
_LOOPS: Final = frozenset({"if", "loop", "while", "repeat"})

# What reaches beyond the database of the run: other databases, accounts, the server's own files.
_GLOBAL: Final = frozenset(
    {"database", "role", "user", "group", "tablespace", "system", "server", "subscription"}
)


def _tokens(text: str, dialect: Dialect, at: int = 0) -> Iterator[_Token]:
    match = _TOKENS[dialect].match
    while at < len(text):
        found = match(text, at)
        assert found is not None, "the last alternative takes any character"
        kind = found.lastgroup or "other"
        # The tag of a dollar quote is a group inside its text.
        kind = "text" if kind == "tag" else kind
        end = found.end()
        if kind == "block":
            kind, end = _nested(text, at)
        yield _Token(kind, text[at:end], at, end)
        at = end


def _nested(text: str, at: int) -> tuple[str, int]:
    """The end of a comment that may hold others, as PostgreSQL has them."""
    depth = 0
    for mark in re.finditer(r"/\*|\*/", text[at:]):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return "space", at + mark.end()
    return "broken", len(text)


def split(text: str, dialect: Dialect) -> list[Statement]:
    """The statements of a script; what is between quotes and in bodies of routines is one.

    ``DELIMITER`` lines are understood for MySQL, as its client does.

    Raises:
        ValueError: A quote or a comment is not closed; the message names the line.
    """
    return list(_split(text, dialect))


@lru_cache(maxsize=256)
def _split(text: str, dialect: Dialect) -> tuple[Statement, ...]:
    return tuple(_Splitter(text, dialect).statements())


_DELIMITER: Final = re.compile(r"delimiter[ \t]+(\S+)[^\n]*", re.IGNORECASE)


class _Splitter:
    """Walks over a script, token by token."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._text = text
        self._dialect = dialect
        self._delimiter = ";"
        self._begun: int | None = None
        self._end = 0
        self._words: list[str] = []
        self._depth = 0
        self._counted = 0
        self._line = 1

    def statements(self) -> Iterator[Statement]:
        at = 0
        while at < len(self._text):
            if self._begun is None and self._dialect is Dialect.MYSQL:
                line = _DELIMITER.match(self._text, at)
                if line is not None:
                    self._delimiter = line.group(1)
                    at = line.end()
                    continue
            if self._delimiter != ";" and self._text.startswith(self._delimiter, at):
                at += len(self._delimiter)
                yield from self._finished()
                continue
            token = next(_tokens(self._text, self._dialect, at))
            at = token.end
            if token.kind == "broken":
                raise ValueError(
                    f"a quote or comment that begins in line {self._line_at(token.start)}"
                    " is not closed"
                )
            if token.kind == "semi" and self._delimiter == ";" and self._depth == 0:
                yield from self._finished()
            elif token.kind != "space":
                self._take(token)
        yield from self._finished()

    def _take(self, token: _Token) -> None:
        if self._begun is None:
            self._begun = token.start
        self._end = token.end
        if token.kind == "word":
            self._words.append(token.text.lower())
            self._depth = max(0, self._depth + _step(self._words))

    def _finished(self) -> Iterator[Statement]:
        if self._begun is not None:
            line = self._line_at(self._begun)
            yield Statement(self._text[self._begun : self._end], line)
        self._begun = None
        self._words = []
        self._depth = 0

    def _line_at(self, place: int) -> int:
        """The line of a place; places only grow, so that a long script is counted once."""
        self._line += self._text.count("\n", self._counted, place)
        self._counted = place
        return self._line


def _step(words: list[str]) -> int:
    """How the last word changes the depth of blocks in the body of a routine."""
    word = words[-1]
    if words[0] != "create" or _ROUTINES.isdisjoint(words[:12]):
        return 0
    before = words[-2] if len(words) > 1 else ""
    if word == "begin" or (word == "case" and before != "end"):
        return 1
    if word == "end":
        return -1
    # "END IF" closes what no "IF" opened: an IF without a block is an ordinary function, too.
    return 1 if before == "end" and word in _LOOPS else 0


# -- values ----------------------------------------------------------------------------------------


def bind(statement: str, params: Params, dialect: Dialect, style: str) -> tuple[str, list[Any]]:
    """The statement with the driver's own placeholders, and the values in their order.

    Values never become part of the text. ``?`` is a placeholder where ``params`` is a list,
    ``:name`` where it is a mapping; without any value the statement stays as it is.

    Args:
        style: ``?`` or ``%s``, as the driver has it.

    Raises:
        BindError: A placeholder without a value, or a value without a placeholder.
    """
    mistake = placeholder_mistake(statement, params, dialect)
    if mistake is not None:
        raise BindError(mistake)
    if not params:
        return statement, []
    names = tuple(params) if isinstance(params, Mapping) else len(params)
    text, order = _bound(statement, names, dialect, style)
    values: Any = params
    return text, [values[key] for key in order]


@lru_cache(maxsize=256)
def _bound(
    statement: str, names: tuple[str, ...] | int, dialect: Dialect, style: str
) -> tuple[str, tuple[str | int, ...]]:
    parts: list[str] = []
    order: list[str | int] = []
    for token in _tokens(statement, dialect):
        if token.kind == "qmark" and isinstance(names, int):
            order.append(len(order))
            parts.append(style)
        elif token.kind == "named" and not isinstance(names, int):
            order.append(token.text[1:])
            parts.append(style)
        else:
            parts.append(token.text.replace("%", "%%") if style == "%s" else token.text)
    return "".join(parts), tuple(order)


def placeholder_mistake(statement: str, params: Params, dialect: Dialect) -> str | None:
    """What does not fit between placeholders and values; None where all does."""
    kinds = [(token.kind, token.text) for token in _tokens(statement, dialect)]
    if isinstance(params, Mapping) and params:
        named = [text[1:] for kind, text in kinds if kind == "named"]
        lacking = sorted(set(named) - set(params))
        if lacking:
            return f"no value for :{lacking[0]} (values: {', '.join(sorted(params))})"
        unused = sorted(set(params) - set(named))
        return f"no placeholder :{unused[0]} for the value '{unused[0]}'" if unused else None
    marks = sum(1 for kind, _ in kinds if kind == "qmark")
    if params:
        if marks != len(params):
            return f"placeholders and values differ in number (? {marks}, values {len(params)})"
        return None
    # Without values ":a" and "?" may be anything the engine has (a slice, an operator of JSON).
    if dialect is Dialect.POSTGRES:
        return None
    named = [text for kind, text in kinds if kind == "named"]
    if marks or named:
        met = named[0] if named else "?"
        return f"no value for {met} (params is empty)"
    return None


# -- what a statement is ---------------------------------------------------------------------------


def first_word(statement: str, dialect: Dialect) -> str:
    """Its first word in lower case, brackets before it left out; empty where there is none."""
    for token in _tokens(statement, dialect):
        if token.kind == "word":
            return token.text.lower()
        if token.kind not in ("space", "open"):
            return ""
    return ""


def not_reading(query: str, dialect: Dialect) -> str | None:
    """Why the text is not one statement that only reads; None where it may be one.

    A first answer, for the place where it was written. The engine gives the last one: it runs the
    query where nothing can be written.
    """
    try:
        statements = split(query, dialect)
    except ValueError as error:
        return str(error)
    if len(statements) != 1:
        count = len(statements)
        return "there is no statement in it" if not count else f"it holds {count} statements"
    tokens = [token for token in _tokens(statements[0].text, dialect) if token.kind != "space"]
    if any(token.kind == "executable" for token in tokens):
        return "it holds a comment that the server executes (/*! ... */)"
    first = first_word(query, dialect)
    if first not in _READING[dialect]:
        return f"it begins with {first.upper() or shown_start(query)}"
    words = [(token.text.lower(), depth) for token, depth in _with_depth(tokens)]
    for place, (word, depth) in enumerate(words):
        if word == "into" and (depth == 0 or dialect is Dialect.MYSQL):
            return "it writes its rows INTO something"
        if first == "with" and word in _WRITING and _opens(tokens, words, place, depth):
            return f"it holds {word.upper()}"
        if word == "load_file" and dialect is Dialect.MYSQL:
            return "it reads a file of the server (LOAD_FILE)"
    return None


def shown_start(query: str) -> str:
    """The first characters, for a message."""
    return repr(query.strip()[:20])


def _with_depth(tokens: Sequence[_Token]) -> Iterator[tuple[_Token, int]]:
    """Words and brackets with the depth of the brackets they stand in."""
    depth = 0
    for token in tokens:
        if token.kind == "open":
            depth += 1
        elif token.kind == "close":
            depth -= 1
        yield token, depth


def _opens(
    tokens: Sequence[_Token], words: Sequence[tuple[str, int]], place: int, depth: int
) -> bool:
    """Whether a word of a WITH statement begins a statement: in a bracket or as the main verb."""
    if tokens[place].kind != "word" or place + 1 >= len(tokens):
        return False
    if place and tokens[place - 1].kind == "open":
        # A column or a function of that name is followed by something else.
        return tokens[place + 1].kind in ("word", "name")
    return depth == 0 and tokens[place - 1].kind == "close" and words[place + 1][0] != "("


def outside(statement: str, dialect: Dialect) -> str | None:
    """Why a statement reaches beyond the run's own database; None where it does not look so.

    What it names is refused before the engine sees it, whatever rights the account has.
    """
    words = [token.text.lower() for token in _tokens(statement, dialect) if token.kind == "word"]
    if not words:
        return None
    first = words[0]
    second = words[1] if len(words) > 1 else ""
    # A schema is a part of a database in PostgreSQL, and a database in MySQL.
    is_beyond = second in _GLOBAL or (second == "schema" and dialect is Dialect.MYSQL)
    is_server = dialect is not Dialect.SQLITE
    if is_server and is_beyond and first in ("create", "drop", "alter", "rename"):
        return f"{first.upper()} {second.upper()} reaches beyond the database of the run"
    if dialect is Dialect.SQLITE and (
        first in ("attach", "detach") or (first == "vacuum" and "into" in words)
    ):
        return f"{first.upper()} reaches another file"
    if dialect is Dialect.POSTGRES and first == "copy":
        return "COPY reads or writes outside the database"
    if dialect is Dialect.MYSQL:
        if first == "use":
            return "USE leaves the database of the run"
        if first == "load":
            return "LOAD reads a file"
        if "outfile" in words or "dumpfile" in words or "load_file" in words:
            return "it reads or writes a file of the server"
    return None


def written_table(statement: str, dialect: Dialect) -> str | None:
    """The one table whose rows a statement is to change; None where it names several, or none."""
    tokens = [token for token in _tokens(statement, dialect) if token.kind != "space"]
    words = [token.text.lower() for token in tokens]
    if not words or words[0] not in ("insert", "replace", "update", "delete"):
        return None
    at = words.index("from") + 1 if words[0] == "delete" and "from" in words else 1
    while at < len(words) and words[at] in _MODIFIERS:
        at += 1
    if at >= len(tokens) or tokens[at].kind not in ("word", "name"):
        return None
    if at + 2 < len(tokens) and words[at + 1] == ".":
        at += 2
    end = next((place for place in range(at, len(words)) if words[place] in _ENDS), len(words))
    if words[0] in ("update", "delete") and not {",", "join"}.isdisjoint(words[1:end]):
        return None
    token = tokens[at]
    return token.text[1:-1].replace("``", "`") if token.kind == "name" else token.text


_MODIFIERS: Final = frozenset(
    {"low_priority", "high_priority", "delayed", "quick", "ignore", "into", "only"}
)
_ENDS: Final = frozenset({"set", "where", "values", "value", "select", "(", "order", "limit"})

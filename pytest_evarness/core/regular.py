"""Which texts an expression is found in, as far as that can be decided without running it.

A subset of the expressions is read into automata: characters, classes, groups, alternatives,
repetition, and the ends of the text. What is outside of the subset is not read, and nothing is
said of it. Each single character is still judged by the engine that runs the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

__all__ = ["Automaton", "Part", "containing", "read_expression", "some_text"]

MAX_STATES: Final = 1500
"""Of one automaton."""
MAX_VISITED: Final = 8000
"""Of a product; beyond it nothing is said."""
MAX_LENGTH: Final = 300
"""Up to which lengths are told apart."""

_ALWAYS, _AT_START, _AT_END = 0, 1, 2
_FLAGS: Final = frozenset("is")
_ESCAPES: Final = frozenset("dDwWsSnrtfv")
_ASCII: Final = tuple(map(chr, range(128)))

States: TypeAlias = frozenset[int]


@dataclass(frozen=True, slots=True)
class Atom:
    """What takes one character.

    Attributes:
        source: As it stands in the expression, its flags before it.
        literal: The one character it stands for; None for a class.
        is_nearly_all: It is the full stop, which takes what is not ASCII whatever it is.
    """

    source: str
    literal: str | None
    is_nearly_all: bool = False

    def takes(self, char: str) -> bool:
        """Whether it takes this character."""
        if self.literal is not None:
            return char == self.literal
        return _compiled(self.source).fullmatch(char) is not None


@lru_cache(maxsize=256)
def _compiled(source: str) -> Any:
    import regex

    return regex.compile(source)


@dataclass(slots=True, eq=False)
class Automaton:
    """Takes the texts in which an expression is found; state 0 is the first.

    Attributes:
        moves: By state, ``(atom, next state)``; None takes any character.
        jumps: By state, ``(next state, where alone that is allowed)``.
        last: The state in which it has been found.
    """

    moves: list[list[tuple[Atom | None, int]]] = field(default_factory=list)
    jumps: list[list[tuple[int, int]]] = field(default_factory=list)
    last: int = 0

    def state(self) -> int:
        """A new state.

        Raises:
            OverflowError: There are too many.
        """
        if len(self.moves) >= MAX_STATES:
            raise OverflowError("the expression is too large")
        self.moves.append([])
        self.jumps.append([])
        return len(self.moves) - 1

    def atoms(self) -> Iterable[Atom]:
        """Every atom, repeated ones too."""
        for moves in self.moves:
            yield from (atom for atom, _ in moves if atom is not None)

    def reached(self, states: Iterable[int], *, at_start: bool, at_end: bool) -> States:
        """These states and all that they lead to without a character."""
        found = set(states)
        pending = list(found)
        while pending:
            for target, where in self.jumps[pending.pop()]:
                is_allowed = (
                    where == _ALWAYS
                    or (where == _AT_START and at_start)
                    or (where == _AT_END and at_end)
                )
                if is_allowed and target not in found:
                    found.add(target)
                    pending.append(target)
        return frozenset(found)


# -- reading -----------------------------------------------------------------------------------


class _UnknownError(Exception):
    """Outside of the subset."""


@lru_cache(maxsize=256)
def read_expression(source: str, *, is_schema: bool = False) -> Automaton | None:
    """Read an expression; None where it is outside of the subset.

    Args:
        source: As it was written.
        is_schema: An expression of a JSON Schema, in which validators let ``$`` stand before a
            last line break as well; else it is the end of the text.
    """
    reader = _Reader(source, is_schema)
    try:
        return reader.read()
    except (_UnknownError, OverflowError):
        return None


@lru_cache(maxsize=256)
def containing(text: str) -> Automaton | None:
    """The texts that contain ``text``; None where it is too long."""
    made = Automaton()
    try:
        at = made.state()
        made.moves[at].append((None, at))
        for char in text:
            following = made.state()
            made.moves[at].append((Atom("", char), following))
            at = following
    except OverflowError:
        return None
    made.moves[at].append((None, at))
    made.last = at
    return made


class _Reader:
    """Builds the automaton while it reads; a fragment is ``(first state, last state)``."""

    def __init__(self, source: str, is_schema: bool) -> None:
        self.source = source
        self.is_schema = is_schema
        self.at = 0
        self.depth = 0
        self.prefix = ""
        self.made = Automaton()

    def read(self) -> Automaton:
        start = self.made.state()
        self.made.moves[start].append((None, start))
        if self.source.startswith("(?"):
            end = self.source.find(")")
            words = self.source[2:end]
            if words and set(words) <= _FLAGS:
                self.prefix = f"(?{words})"
                self.at = end + 1
        first, last = self.alternatives()
        if self.at != len(self.source):
            raise _UnknownError
        self.made.jumps[start].append((first, _ALWAYS))
        self.made.moves[last].append((None, last))
        self.made.last = last
        return self.made

    def peek(self) -> str:
        return self.source[self.at : self.at + 1]

    def alternatives(self) -> tuple[int, int]:
        self.depth += 1
        if self.depth > 50:
            raise _UnknownError
        first, last = self.made.state(), self.made.state()
        while True:
            begin, end = self.sequence()
            self.made.jumps[first].append((begin, _ALWAYS))
            self.made.jumps[end].append((last, _ALWAYS))
            if self.peek() != "|":
                self.depth -= 1
                return first, last
            self.at += 1

    def sequence(self) -> tuple[int, int]:
        first = last = self.made.state()
        while self.peek() not in ("", "|", ")"):
            begin, end = self.repeated()
            self.made.jumps[last].append((begin, _ALWAYS))
            last = end
        return first, last

    def repeated(self) -> tuple[int, int]:
        """An item with its quantifier: read anew for each repetition."""
        begin_at = self.at
        first, last = self.item()
        end_at = self.at
        low, high = self.quantifier()
        if (low, high) == (1, 1):
            return first, last
        if self.source[begin_at] in "^$":
            raise _UnknownError
        after = self.at
        start = end = self.made.state()
        for count in range(low if high is None else high):
            begin, stop = (first, last) if count == 0 else self.again(begin_at, end_at)
            self.made.jumps[end].append((begin, _ALWAYS))
            if count >= low:
                self.made.jumps[end].append((stop, _ALWAYS))
            end = stop
        if high is None:
            begin, stop = (first, last) if low == 0 else self.again(begin_at, end_at)
            loop = self.made.state()
            self.made.jumps[end].append((loop, _ALWAYS))
            self.made.jumps[loop].append((begin, _ALWAYS))
            self.made.jumps[stop].append((loop, _ALWAYS))
            end = loop
        self.at = after
        return start, end

    def again(self, begin_at: int, end_at: int) -> tuple[int, int]:
        self.at = begin_at
        made = self.item()
        assert self.at == end_at, "one item is read the same way each time"
        return made

    def quantifier(self) -> tuple[int, int | None]:
        char = self.peek()
        if char in ("*", "+", "?") and char:
            self.at += 1
            bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        elif char == "{":
            end = self.source.find("}", self.at)
            low, comma, high = self.source[self.at + 1 : end if end > 0 else self.at].partition(",")
            if not _is_count(low) or (comma and high and not _is_count(high)):
                raise _UnknownError
            self.at = end + 1
            bounds = (int(low), (int(high) if high else None) if comma else int(low))
        else:
            return 1, 1
        if self.peek() == "?":
            self.at += 1
        if self.peek() in ("*", "+", "?", "{") and self.peek():
            raise _UnknownError
        return bounds

    def item(self) -> tuple[int, int]:
        char = self.peek()
        if char == "(":
            return self.group()
        if char == "^":
            self.at += 1
            return self.place(_AT_START)
        if char == "$":
            self.at += 1
            return self.end()
        if char == "\\":
            return self.escape()
        if char == "[":
            return self.klass()
        if char == ".":
            self.at += 1
            return self.atom(".", is_nearly_all=True)
        if char in ("*", "+", "?", "{"):
            raise _UnknownError
        self.at += 1
        return self.atom(char, literal=char)

    def group(self) -> tuple[int, int]:
        self.at += 1
        if self.peek() == "?":
            if not self.source.startswith("?:", self.at):
                raise _UnknownError
            self.at += 2
        made = self.alternatives()
        if self.peek() != ")":
            raise _UnknownError
        self.at += 1
        return made

    def place(self, where: int) -> tuple[int, int]:
        first, last = self.made.state(), self.made.state()
        self.made.jumps[first].append((last, where))
        return first, last

    def end(self) -> tuple[int, int]:
        if not self.is_schema:
            return self.place(_AT_END)
        # What follows is not held to the end, which takes in more texts, never fewer.
        if self.at != len(self.source):
            return self.place(_ALWAYS)
        first, last = self.place(_AT_END)
        before = self.made.state()
        self.made.moves[first].append((Atom("", "\n"), before))
        self.made.jumps[before].append((last, _AT_END))
        return first, last

    def escape(self) -> tuple[int, int]:
        char = self.source[self.at + 1 : self.at + 2]
        self.at += 2
        if char == "A":
            return self.place(_AT_START)
        if char == "Z" and not self.is_schema:
            return self.place(_AT_END)
        if char in _ESCAPES and char:
            return self.atom(f"\\{char}")
        if not char or not char.isascii() or char.isalnum() or char == "_":
            raise _UnknownError
        return self.atom(f"\\{char}", literal=char)

    def klass(self) -> tuple[int, int]:
        begin = self.at
        at = begin + 1
        if self.source[at : at + 1] == "^":
            at += 1
        if self.source[at : at + 1] == "]":
            at += 1
        while self.source[at : at + 1] != "]":
            char = self.source[at : at + 1]
            if not char or char == "[":
                raise _UnknownError
            at += 2 if char == "\\" else 1
        self.at = at + 1
        return self.atom(self.source[begin : self.at])

    def atom(
        self, source: str, *, literal: str | None = None, is_nearly_all: bool = False
    ) -> tuple[int, int]:
        if self.prefix and "i" in self.prefix:
            literal = None
        first, last = self.made.state(), self.made.state()
        self.made.moves[first].append((Atom(self.prefix + source, literal, is_nearly_all), last))
        return first, last


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


# -- deciding ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """One condition on a text.

    Attributes:
        automaton: The texts it takes.
        is_wanted: Whether the text is to be taken or not.
        is_generous: Whether a class is taken to hold every character that nobody looked at; it
            has to be where the condition may hold, and must not be where it has to fail.
    """

    automaton: Automaton
    is_wanted: bool = True
    is_generous: bool = True


def some_text(
    parts: Sequence[Part], has_length: Callable[[int], bool] | None = None, longest: int = 0
) -> bool | None:
    """Whether some text meets all parts; None where that takes too long.

    Args:
        parts: At least one.
        has_length: What a length has to meet; None for any.
        longest: From which length on its answer stays the same.
    """
    if has_length is not None and longest > MAX_LENGTH:
        has_length = None
        is_exact = False
    else:
        is_exact = True
    runs = [_Run(part) for part in parts]
    symbols = _symbols(parts)
    begin = tuple(run.begin for run in runs)
    # Without lengths only the beginning of the text is told from the rest of it.
    most = max(longest, 1) if has_length is not None else 1
    pending = [(begin, 0)]
    seen = set(pending)
    while pending:
        # Depth first: where there is such a text it is found before others are looked at.
        states, length = pending.pop()
        if (has_length is None or has_length(length)) and all(
            run.accepts(one, length == 0) for run, one in zip(runs, states, strict=True)
        ):
            return True if is_exact else None
        for symbol in symbols:
            made: list[States] = []
            for run, one, atoms in zip(runs, states, symbol, strict=True):
                following = run.step(one, atoms)
                if following is None:
                    break
                made.append(following)
            else:
                reached = (tuple(made), min(length + 1, most))
                if reached not in seen:
                    seen.add(reached)
                    pending.append(reached)
        if len(seen) > MAX_VISITED:
            return None
    return False


class _Run:
    """A part on its way through a text; what it did once it remembers."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.begin = part.automaton.reached((0,), at_start=True, at_end=False)
        self._steps: dict[tuple[States, frozenset[Atom]], States | None] = {}
        self._accepts: dict[tuple[States, bool], bool] = {}

    def accepts(self, states: States, is_start: bool) -> bool:
        """Whether a text that ends here meets the part."""
        known = self._accepts.get((states, is_start))
        if known is None:
            made = self.part.automaton
            taken = made.last in made.reached(states, at_start=is_start, at_end=True)
            known = self._accepts[states, is_start] = taken is self.part.is_wanted
        return known

    def step(self, states: States, atoms: frozenset[Atom]) -> States | None:
        """Where a character leads that these atoms take; None where no text helps any more."""
        key = (states, atoms)
        if key not in self._steps:
            self._steps[key] = self._made(states, atoms)
        return self._steps[key]

    def _made(self, states: States, atoms: frozenset[Atom]) -> States | None:
        automaton = self.part.automaton
        targets = {
            target
            for state in states
            for atom, target in automaton.moves[state]
            if atom is None or atom in atoms
        }
        reached = automaton.reached(targets, at_start=False, at_end=False)
        is_lost = not reached if self.part.is_wanted else automaton.last in reached
        return None if is_lost else reached


def _symbols(parts: Sequence[Part]) -> list[tuple[frozenset[Atom], ...]]:
    """Which atoms of each part take a character, once for all characters that are alike."""
    atoms = [frozenset(part.automaton.atoms()) for part in parts]
    literals = {atom.literal for some in atoms for atom in some if atom.literal is not None}
    found: dict[tuple[frozenset[Atom], ...], None] = {}
    for char in dict.fromkeys((*_ASCII, *sorted(literals))):
        found[tuple(frozenset(one for one in some if one.takes(char)) for some in atoms)] = None
    # Any other character: a literal is none of them, a class may hold it or not.
    others = [
        frozenset(
            one for one in some if one.is_nearly_all or (part.is_generous and one.literal is None)
        )
        for some, part in zip(atoms, parts, strict=True)
    ]
    found[tuple(others)] = None
    return list(found)

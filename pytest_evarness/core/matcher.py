"""One vocabulary for comparing JSON values: paths, operators, three-valued answers.

Knows nothing of events, files or YAML; contracts and checks both speak it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pytest_evarness.core import expression as expressions
from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.registry import nearest
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject

__all__ = [
    "MISSING",
    "OPERATORS",
    "SECRET_PREFIX",
    "Answer",
    "Matcher",
    "Path",
    "Test",
    "Undecided",
    "Variable",
    "Verdict",
    "all_of",
    "holds_secret",
    "parse_matcher",
    "parse_path",
    "same",
    "value_key",
]

REGEX_SECONDS: Final = 1.0
REGEX_BYTES: Final = 1 << 20
MAX_LINEAR: Final = 200
"""Characters of an expression that may run without a clock, if nothing in it repeats."""
CUT_BYTES: Final = 4093
"""A text that the recorder cut at 4 KiB has at least this many bytes: a character takes up to 4."""

SECRET_PREFIX: Final = "«secret:"  # noqa: S105 - the placeholder's, no secret


class _Missing:
    """The value at a path that leads nowhere; it is not null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "missing"


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class Undecided:
    """An answer that is neither true nor false, with the reason.

    Attributes:
        why: What kept the question open, both types named where types clash.
        cause: Whose problem it is.
    """

    why: str
    cause: Cause = Cause.MALFORMED_EVIDENCE

    def __bool__(self) -> bool:
        raise TypeError("an undecided answer has no truth value; compare it with 'is True'")


Verdict: TypeAlias = bool | Undecided
Test: TypeAlias = "Callable[[Any], Verdict]"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a matcher says of a value.

    Attributes:
        held: None when it cannot be decided.
        why: One clause: what was met and what was asked.
        cause: With None only.
    """

    held: bool | None
    why: str
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """``$name``: stands for the value that the anchor of a contract bound."""

    name: str

    def __str__(self) -> str:
        return f"${self.name}"


# -- equality ----------------------------------------------------------------------------------


def same(left: object, right: object) -> bool:
    """Whether two JSON values are equal by JSON type: ``true`` is not 1, 1 and 1.0 are equal."""
    # A stack, not recursion: how deep a foreign trace nests is not ours to say.
    pending = [(left, right)]
    while pending:
        a, b = pending.pop()
        if isinstance(a, str) or isinstance(b, str):
            if not (isinstance(a, str) and isinstance(b, str)) or a != b:
                return False
        elif a is None or b is None or isinstance(a, bool) or isinstance(b, bool):
            if a is not b:
                return False
        elif isinstance(a, (int, float)) or isinstance(b, (int, float)):
            if not (isinstance(a, (int, float)) and isinstance(b, (int, float))) or a != b:
                return False
        elif isinstance(a, Mapping):
            if not isinstance(b, Mapping) or a.keys() != b.keys():
                return False
            pending.extend((value, b[key]) for key, value in a.items())
        elif isinstance(a, (list, tuple)):
            if not isinstance(b, (list, tuple)) or len(a) != len(b):
                return False
            pending.extend(zip(a, b, strict=True))
        else:
            return False
    return True


def value_key(value: object) -> object:
    """A hashable key that two values share exactly when :func:`same` says they are equal.

    A text is its own key, as it is by far the most frequent one; anything else is keyed by its
    canonical text, 1.0 written as 1, wrapped so that it can never equal a text.

    Raises:
        RecursionError: The value nests too deeply to be written.
    """
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str(value)
    return (json.dumps(_whole(value), sort_keys=True, separators=(",", ":")),)


def _whole(value: object) -> object:
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(value)
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    return value


def holds_secret(value: object, name: str | None = None) -> bool:
    """Whether a secret's placeholder stands in ``value``, at any depth, as key or value.

    Args:
        value: Any JSON value.
        name: The secret asked for; None for any.
    """
    wanted = SECRET_PREFIX if name is None else f"{SECRET_PREFIX}{name}»"
    if isinstance(value, str):
        return wanted in value
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            for key in item:
                if wanted in key:
                    return True
            parts: Iterable[Any] = item.values()
        elif isinstance(item, (list, tuple)):
            parts = item
        elif isinstance(item, Mapping):
            parts = [*item.keys(), *item.values()]
        else:
            continue
        for part in parts:
            if type(part) is str:
                if wanted in part:
                    return True
            elif part is not None and type(part) is not int and type(part) is not bool:
                pending.append([part] if isinstance(part, str) else part)
    return False


# -- paths -------------------------------------------------------------------------------------


class _Star:
    __slots__ = ()

    def __repr__(self) -> str:
        return "[*]"


_STAR: Final = _Star()


@dataclass(frozen=True, slots=True)
class Path:
    """A place in a JSON value: ``a.b``, ``items[0].id``, ``["a.b"]``, ``items[*].id``.

    Attributes:
        text: As it was written.
        steps: Keys (text), indexes (integer), or the star.
    """

    text: str
    steps: tuple[Any, ...]

    @property
    def has_star(self) -> bool:
        """Whether the path asks for any one element of a list."""
        return _STAR in self.steps

    @property
    def names(self) -> tuple[str | int | None, ...]:
        """The steps with None for the star, for a reader of schemas."""
        return tuple(None if step is _STAR else step for step in self.steps)

    def get(self, value: object) -> Any:
        """The value at this path, or ``MISSING``. A path with a star has no one value.

        A negative index, an index past the end and a step into a text are absent paths.

        Raises:
            ValueError: The path has a star.
        """
        if self.has_star:
            raise ValueError(f"a path with [*] has no single value (got {self.text!r})")
        return _walk(value, self.steps)

    def test(self, judge: Test, payload: object) -> Verdict:
        """Apply ``judge`` at this path; with a star, ask for one element that satisfies it."""
        if not self.has_star:
            return judge(_walk(payload, self.steps))
        return _some(judge, payload, self.steps)

    def values(self, payload: object) -> tuple[list[Any], Undecided | None]:
        """All values at this path (several with a star), and why there may be more."""
        if not self.has_star:
            value = _walk(payload, self.steps)
            return ([] if value is MISSING else [value]), None
        return _spread(payload, self.steps)

    def __str__(self) -> str:
        return self.text


def _walk(value: Any, steps: tuple[Any, ...]) -> Any:
    for step in steps:
        if type(step) is str:
            if type(value) is dict:
                # Nearly always; the abstract check below costs several times as much.
                value = value.get(step, MISSING)
                if value is MISSING:
                    return MISSING
                continue
            if not isinstance(value, Mapping) or step not in value:
                return MISSING
            value = value[step]
        else:
            if not isinstance(value, (list, tuple)) or not 0 <= step < len(value):
                return MISSING
            value = value[step]
    return value


def _star_clash(value: object) -> Undecided:
    return Undecided(f"[*] needs a list, met a {kind_of(value)} ({shown(value, 60)})")


def _some(judge: Test, value: Any, steps: tuple[Any, ...]) -> Verdict:
    at = steps.index(_STAR)
    items = _walk(value, steps[:at])
    if items is MISSING:
        return False
    if not isinstance(items, (list, tuple)):
        return _star_clash(items)
    rest = steps[at + 1 :]
    open_answer: Undecided | None = None
    for item in items:
        answer = _some(judge, item, rest) if _STAR in rest else judge(_walk(item, rest))
        if answer is True:
            return True
        if answer is not False and open_answer is None:
            open_answer = answer
    return False if open_answer is None else open_answer


def _spread(value: Any, steps: tuple[Any, ...]) -> tuple[list[Any], Undecided | None]:
    at = steps.index(_STAR)
    items = _walk(value, steps[:at])
    if items is MISSING:
        return [], None
    if not isinstance(items, (list, tuple)):
        return [], _star_clash(items)
    rest = steps[at + 1 :]
    found: list[Any] = []
    doubt: Undecided | None = None
    for item in items:
        if _STAR in rest:
            more, why = _spread(item, rest)
            found.extend(more)
            doubt = doubt or why
        else:
            one = _walk(item, rest)
            if one is not MISSING:
                found.append(one)
    return found, doubt


def parse_path(text: object) -> Path:
    """Read a path.

    Raises:
        ValueError: Not a path; the message says what one looks like.
    """
    rule = 'a.b, a[0], a["b.c"], a[*]'
    if not isinstance(text, str) or not text:
        raise ValueError(f"must be a path (got {shown(text, 60)}; {rule})")
    steps: list[Any] = []
    at = 0
    expects_name = True
    while at < len(text):
        char = text[at]
        if char == "[":
            step, at = _bracket(text, at, rule)
            steps.append(step)
            expects_name = False
            continue
        if char == ".":
            if expects_name:
                raise ValueError(f"a name is missing before '.' (got {shown(text, 60)}; {rule})")
            at += 1
            expects_name = True
            if at == len(text) or text[at] == "[":
                raise ValueError(f"a name is missing after '.' (got {shown(text, 60)}; {rule})")
            continue
        if not expects_name:
            raise ValueError(f"'.' or '[' must follow ']' (got {shown(text, 60)}; {rule})")
        end = at
        while end < len(text) and text[end] not in ".[":
            if text[end] == "]":
                raise ValueError(f"']' without '[' (got {shown(text, 60)}; {rule})")
            end += 1
        steps.append(text[at:end])
        at = end
        expects_name = False
    return Path(text, tuple(steps))


def _bracket(text: str, at: int, rule: str) -> tuple[Any, int]:
    inner = text[at + 1 :]
    if inner.startswith("*]"):
        return _STAR, at + 3
    if inner.startswith('"'):
        try:
            key, used = json.JSONDecoder().raw_decode(inner)
        except ValueError:
            key, used = None, 0
        if isinstance(key, str) and inner[used : used + 1] == "]":
            return key, at + 1 + used + 1
        raise ValueError(f'a quoted key ends with "] (got {shown(text, 60)}; {rule})')
    end = inner.find("]")
    digits = inner[:end] if end >= 0 else ""
    bare = digits.removeprefix("-")
    if bare.isascii() and bare.isdigit() and len(bare) <= 15:
        return int(digits), at + 2 + end
    raise ValueError(f"brackets hold an index, a quoted key or * (got {shown(text, 60)}; {rule})")


# -- operators ---------------------------------------------------------------------------------

_ALIAS: Final[Mapping[str, str]] = {
    "eq": "equals",
    "ne": "not",
    "regex": "pattern",
}
_BASE: Final = (
    "equals",
    "not",
    "in",
    "gt",
    "gte",
    "lt",
    "lte",
    "contains",
    "not_contains",
    "pattern",
    "length",
    "exists",
    "all",
    "any",
    "none",
    "secret",
)
OPERATORS: Final[tuple[str, ...]] = (*_BASE, *_ALIAS)
"""Every word that is an operator, aliases last."""

_COMPLEMENT: Final[Mapping[str, str]] = {
    "not": "equals",
    "not_contains": "contains",
    "none": "any",
}
_ORDER: Final = ("gt", "gte", "lt", "lte")
_SIGNS: Final[Mapping[str, str]] = {
    "equals": "=",
    "not": "!=",
    "gt": ">",
    "gte": ">=",
    "lt": "<",
    "lte": "<=",
}
_ELEMENTS: Final = {"all": "every element", "any": "any element"}
_LENGTH_OPERATORS: Final = ("equals", "eq", "not", "ne", "in", *_ORDER)
_TAKES_VARIABLE: Final = frozenset({"equals", "not", "contains", "not_contains", "in", *_ORDER})


@dataclass(frozen=True, slots=True)
class Operation:
    """One operator with its checked argument.

    Attributes:
        name: The operator, aliases resolved.
        word: As it was written; None for a bare value.
        argument: JSON, a :class:`Variable`, a nested :class:`Matcher`, or a compiled expression.
    """

    name: str
    word: str | None
    argument: Any

    def describe(self) -> str:
        """The operation behind a path, in words: ``= "x"``, ``>= 1000``, ``contains "x"``."""
        sign = _SIGNS.get(self.name)
        if sign is not None:
            return f"{sign} {_written(self.argument)}"
        if self.name == "in":
            return f"in {self._list()}"
        return self.sentence(True)

    def sentence(self, held: bool) -> str:
        """What is said of a value that met the operation, or that did not."""
        name = self.name
        if name in _COMPLEMENT:
            return Operation(_COMPLEMENT[name], None, self.argument).sentence(not held)
        if name in ("equals", "in", *_ORDER):
            is_ = "is" if held else "is not"
            if name == "in":
                return f"{is_} in {self._list()}"
            sign = "" if name == "equals" else f"{_SIGNS[name]} "
            return f"{is_} {sign}{_written(self.argument)}"
        if name == "exists":
            return "is there" if self.argument is held else "is not there"
        if name == "length":
            return f"has {'a' if held else 'no'} length {self.argument.describe()}"
        if name in ("all", "any"):
            verb = "holds" if held else "does not hold"
            return f"{verb} for {_ELEMENTS[name]}: {self.argument.describe()}"
        if name == "secret":
            return f"{'holds' if held else 'does not hold'} the secret {_written(self.argument)}"
        verb = ("contains" if held else "does not contain") if name == "contains" else "match"
        if verb == "match":
            verb = "matches" if held else "does not match"
            return f"{verb} {shown(self.argument.source)}"
        return f"{verb} {_written(self.argument)}"

    def _list(self) -> str:
        return "[" + ", ".join(_written(item) for item in self.argument) + "]"


@dataclass(frozen=True, slots=True)
class _Expression:
    source: str
    compiled: Any
    looks_ahead: bool
    is_linear: bool


@dataclass(frozen=True, slots=True)
class Matcher:
    """A conjunction of operators over one value; made by :func:`parse_matcher` only.

    Attributes:
        operations: At least one.
    """

    operations: tuple[Operation, ...]

    def test(self, value: object, *, redacted: bool = False) -> Answer:
        """Judge ``value``; ``MISSING`` stands for a path that leads nowhere.

        Args:
            value: JSON or ``MISSING``.
            redacted: True in contracts: a value that holds a secret's placeholder admits both
                answers of every operator but ``secret``.
        """
        answer = self.compile(redacted=redacted)(value)
        if answer is True:
            held = " and ".join(one.sentence(True) for one in self.operations)
            return Answer(True, f"{_met(value)} {held}")
        if answer is False:
            missed = " and ".join(
                one.sentence(False)
                for one in self.operations
                if _operation_test(one, redacted)(value) is False
            )
            return Answer(False, f"{_met(value)} {missed}")
        return Answer(None, answer.why, answer.cause)

    def compile(self, *, redacted: bool = False) -> Test:
        """One closure from a value (or ``MISSING``) to a three-valued answer."""
        tests = [_operation_test(operation, redacted) for operation in self.operations]
        return tests[0] if len(tests) == 1 else all_of(tests)

    def describe(self) -> str:
        """The matcher in words."""
        return " and ".join(operation.describe() for operation in self.operations)

    @property
    def variables(self) -> frozenset[str]:
        """Names of all variables that the matcher uses."""
        return frozenset(_variables(self))

    def bound(self, values: Mapping[str, Json]) -> Matcher:
        """The same matcher with its variables replaced by ``values``."""
        return Matcher(
            tuple(
                Operation(one.name, one.word, _substitute(one.argument, values))
                for one in self.operations
            )
        )


def _variables(matcher: Matcher) -> Iterator[str]:
    for one in matcher.operations:
        if isinstance(one.argument, Variable):
            yield one.argument.name
        elif isinstance(one.argument, Matcher):
            yield from _variables(one.argument)
        elif one.name == "in":
            yield from (item.name for item in one.argument if isinstance(item, Variable))


def _substitute(argument: Any, values: Mapping[str, Json]) -> Any:
    if isinstance(argument, Variable):
        return values[argument.name]
    if isinstance(argument, Matcher):
        return argument.bound(values)
    if isinstance(argument, list):
        return [values[item.name] if isinstance(item, Variable) else item for item in argument]
    return argument


def _met(value: object) -> str:
    return "a missing value" if value is MISSING else shown(value)


def _written(value: object) -> str:
    written = getattr(value, "written", None)
    if isinstance(written, str):
        return written
    return str(value) if isinstance(value, Variable) else shown(value)


def all_of(tests: list[Test]) -> Test:
    """Conjunction: a test that is false decides, whatever the others are."""

    def conjunction(value: Any) -> Verdict:
        open_answer: Undecided | None = None
        for test in tests:
            answer = test(value)
            if answer is False:
                return False
            if answer is not True and open_answer is None:
                open_answer = answer
        return True if open_answer is None else open_answer

    return conjunction


def _operation_test(operation: Operation, redacted: bool) -> Test:
    base = _COMPLEMENT.get(operation.name)
    if base is None:
        return _base_test(operation.name, operation.argument, redacted)
    inner = _base_test(base, operation.argument, redacted)

    def complement(value: Any) -> Verdict:
        answer = inner(value)
        if answer is True:
            return False
        return True if answer is False else answer

    return complement


def _base_test(name: str, argument: Any, redacted: bool) -> Test:
    if name == "secret":
        wanted = None if argument == "any" else argument
        return lambda value: value is not MISSING and holds_secret(value, wanted)
    if name == "exists":
        present = _exists(argument)
    elif name == "equals":
        if type(argument) is str and SECRET_PREFIX not in argument:
            return _text_equality(argument, redacted)
        present = _equals(argument)
    elif name == "in":
        present = _member_of(argument)
    elif name in _ORDER:
        present = _ordered(name, argument)
    elif name == "contains":
        present = _contains(argument)
    elif name == "pattern":
        present = _found(argument)
    elif name == "length":
        present = _length(argument)
    else:
        present = _elements(name, argument.compile(redacted=redacted))
    absent = name == "exists" and argument is False

    if not redacted:
        return lambda value: absent if value is MISSING else present(value)

    def guarded(value: Any) -> Verdict:
        if value is MISSING:
            return absent
        kind = type(value)
        if kind is str:
            if SECRET_PREFIX in value:
                return _redacted(value)
        elif (kind is dict or kind is list) and holds_secret(value):
            return _redacted(value)
        return present(value)

    return guarded


def _redacted(value: object) -> Undecided:
    return Undecided(
        f"the value holds a secret's placeholder ({shown(value, 60)})", Cause.MISSING_EVIDENCE
    )


def _text_equality(text: str, redacted: bool) -> Test:
    if not redacted:
        return lambda value: isinstance(value, str) and value == text

    def equality(value: Any) -> Verdict:
        if value == text:
            return True
        kind = type(value)
        if kind is str:
            return _redacted(value) if SECRET_PREFIX in value else False
        if (kind is dict or kind is list) and holds_secret(value):
            return _redacted(value)
        return False

    return equality


def _equals(argument: Any) -> Test:
    if argument is None or argument is True or argument is False:
        return lambda value: value is argument
    if isinstance(argument, (int, float)):
        return lambda value: (
            isinstance(value, (int, float)) and not isinstance(value, bool) and value == argument
        )
    return lambda value: same(value, argument)


def _member_of(arguments: list[Any]) -> Test:
    texts = frozenset(item for item in arguments if type(item) is str)
    others = [item for item in arguments if type(item) is not str]
    if not others:
        return lambda value: isinstance(value, str) and value in texts
    return lambda value: (
        (isinstance(value, str) and value in texts) or any(same(value, item) for item in others)
    )


def _clash(word: str, needs: str, value: object) -> Undecided:
    return Undecided(f"{word} needs {needs}, met a {kind_of(value)} ({shown(value, 60)})")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _ordered(name: str, bound: Any) -> Test:
    word = f"{name} {_written(bound)}"
    if not _is_number(bound):
        # Only a variable gets here: its value is known when an event binds it.
        return lambda _: _clash(
            word, f"a number to compare with, bound to a {kind_of(bound)}", bound
        )

    def ordered(value: Any) -> Verdict:
        kind = type(value)
        if kind is not int and kind is not float and not _is_number(value):
            return _clash(word, "a number", value)
        if name == "gt":
            return bool(value > bound)
        if name == "gte":
            return bool(value >= bound)
        if name == "lt":
            return bool(value < bound)
        return bool(value <= bound)

    return ordered


def _exists(wanted: bool) -> Test:
    return lambda _: wanted


def _contains(argument: Any) -> Test:
    word = f"contains {_written(argument)}"

    def contains(value: Any) -> Verdict:
        if isinstance(value, str):
            if isinstance(argument, str):
                return argument in value
            return _clash(word, f"a list to hold a {kind_of(argument)}", value)
        if isinstance(value, (list, tuple)):
            return any(same(item, argument) for item in value)
        return _clash(word, "a text or a list", value)

    return contains


def _found(expression: _Expression) -> Test:
    word = f"pattern {shown(expression.source, 60)}"
    compiled, source = expression.compiled, expression.source
    is_linear = expression.is_linear

    def found(value: Any) -> Verdict:
        if not isinstance(value, str):
            return _clash(word, "a text", value)
        text = value
        is_cut = False
        if len(text) > REGEX_BYTES // 4:
            encoded = text.encode("utf-8", "surrogatepass")
            if len(encoded) > REGEX_BYTES:
                is_cut = True
                text = encoded[:REGEX_BYTES].decode("utf-8", "ignore")
        try:
            # The clock costs several times what a short search does.
            if is_linear:
                hit = compiled.search(text) is not None
            else:
                hit = expressions.search(source, compiled, text, REGEX_SECONDS)
        except expressions.LostError:
            return Undecided(
                f"{word} was not asked again, having taken too long", Cause.EVALUATOR_ERROR
            )
        except TimeoutError:
            return Undecided(f"{word} took longer than {REGEX_SECONDS:g} s", Cause.EVALUATOR_ERROR)
        if not is_cut:
            return hit
        if hit and not expression.looks_ahead:
            return True
        return Undecided(
            f"{word} was asked of the first 1 MiB of a longer text", Cause.MISSING_EVIDENCE
        )

    return found


def _length(matcher: Matcher) -> Test:
    test = matcher.compile()

    def length(value: Any) -> Verdict:
        if isinstance(value, (str, list, tuple, Mapping)):
            return test(len(value))
        return _clash("length", "a text, a list or a mapping", value)

    return length


def _elements(name: str, test: Test) -> Test:
    def elements(value: Any) -> Verdict:
        if not isinstance(value, (list, tuple)):
            return _clash(name, "a list", value)
        decided = name == "any"
        open_answer: Undecided | None = None
        for item in value:
            answer = test(item)
            if answer is decided:
                return decided
            if not isinstance(answer, bool) and open_answer is None:
                open_answer = answer
        if open_answer is not None:
            return open_answer
        return name == "all" and len(value) > 0

    return elements


# -- parsing -----------------------------------------------------------------------------------


def parse_matcher(spec: Json, *, variables: bool = False) -> tuple[Matcher | None, list[Fault]]:
    """Read a matcher, all faults at once.

    Args:
        spec: A bare value, or a mapping of operators.
        variables: Whether ``$x`` is a variable and ``$$`` a literal dollar; else both are texts.

    Returns:
        The matcher, or None with at least one fault; fault paths start at ``spec``.
    """
    faults: list[Fault] = []
    if not isinstance(spec, Mapping):
        argument = _operand(spec, variables, "equals", (), faults)
        return (None if faults else Matcher((Operation("equals", None, argument),))), faults
    operations: list[Operation] = []
    if not spec:
        faults.append(
            Fault((), "must hold at least one operator", "{}", f"one of {', '.join(OPERATORS)}")
        )
    for word, argument in spec.items():
        name = _ALIAS.get(word, word)
        if name not in _BASE:
            faults.append(_unknown(word, spec))
            continue
        parsed = _argument(name, word, argument, variables, faults)
        operations.append(Operation(name, word, parsed))
    return (None if faults else Matcher(tuple(operations))), faults


def _unknown(word: object, spec: JsonObject) -> Fault:
    near = nearest(str(word), OPERATORS)
    if near is None and not any(key in OPERATORS for key in spec):
        return Fault(
            (str(word),),
            "unknown operator",
            f"'{word}'",
            f"known: {', '.join(OPERATORS)}",
            "to compare with the mapping itself write 'equals: {...}'",
            at_key=True,
            code="unknown_operator",
        )
    return Fault(
        (str(word),),
        "unknown operator",
        f"'{word}'",
        f"known: {', '.join(OPERATORS)}",
        f"write '{near}'" if near else None,
        at_key=True,
        code="unknown_operator",
    )


def _argument(name: str, word: str, argument: Json, variables: bool, faults: list[Fault]) -> Any:
    at = (word,)
    if name in ("all", "any", "none"):
        matcher, inner = parse_matcher(argument, variables=variables)
        faults.extend(fault.under(word) for fault in inner)
        return matcher
    if name == "length":
        return _length_argument(argument, word, faults)
    if name == "exists":
        if not isinstance(argument, bool):
            faults.append(Fault(at, "must be true or false", shown(argument, 60)))
        return argument
    if name == "secret":
        if not isinstance(argument, str) or not argument:
            faults.append(Fault(at, "must be the name of a secret, or 'any'", shown(argument, 60)))
        return argument
    if name == "pattern":
        return _expression(argument, word, faults)
    if name == "in":
        if not isinstance(argument, (list, tuple)) or not argument:
            faults.append(Fault(at, "must be a list of at least one value", shown(argument, 60)))
            return argument
        return [
            _operand(item, variables, name, (word, index), faults)
            for index, item in enumerate(argument)
        ]
    operand = _operand(argument, variables, name, at, faults)
    if name in _ORDER and not isinstance(operand, Variable) and not _is_number(operand):
        fix = None
        if isinstance(argument, str) and _reads_as_number(argument):
            fix = f"write {argument} without quotes"
        faults.append(
            Fault(
                at,
                f"{word} needs a number, got a {kind_of(argument)}",
                shown(argument, 60),
                "a number without quotes",
                fix,
            )
        )
    if name == "not" and isinstance(argument, Mapping) and argument:
        words = [key for key in argument if key in OPERATORS]
        if len(words) == len(argument):
            opposites = {"contains": "not_contains", "any": "none", "equals": "not", "eq": "not"}
            opposite = opposites.get(words[0])
            faults.append(
                Fault(
                    at,
                    f"{word} compares with the value itself, so operators inside it are not read",
                    shown(argument, 60),
                    "a value",
                    f"write '{opposite}: ...'" if opposite else None,
                )
            )
    return operand


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _operand(
    value: Any, variables: bool, name: str, at: tuple[str | int, ...], faults: list[Fault]
) -> Any:
    if not variables:
        return value
    if isinstance(value, str):
        if value.startswith("$$"):
            return value[1:]
        if value.startswith("$"):
            rest = value[1:]
            if not rest.isidentifier():
                faults.append(
                    Fault(at, "unknown variable", shown(value, 60), "$$ is a literal dollar")
                )
            if name not in _TAKES_VARIABLE:
                faults.append(Fault(at, f"{name} takes no variable", shown(value, 60)))
            return Variable(rest)
        return value
    if isinstance(value, (list, tuple, Mapping)):
        return _unescaped(value, at, faults)
    return value


def _unescaped(value: Any, at: tuple[str | int, ...], faults: list[Fault]) -> Any:
    """A literal list or mapping: ``$$`` is a dollar in it too, and a variable is refused."""
    if isinstance(value, str) and value.startswith("$"):
        if value.startswith("$$"):
            return value[1:]
        faults.append(
            Fault(
                at,
                "a variable cannot stand inside a list or mapping",
                shown(value, 60),
                "$$ is a literal dollar",
                "name the path to it instead",
            )
        )
        return value
    if isinstance(value, (list, tuple)):
        return [_unescaped(item, (*at, index), faults) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {key: _unescaped(item, (*at, key), faults) for key, item in value.items()}
    return value


def _length_argument(argument: Json, word: str, faults: list[Fault]) -> Matcher | None:
    at = (word,)
    if _is_number(argument):
        return Matcher((Operation("equals", None, argument),))
    if not isinstance(argument, Mapping) or not argument:
        faults.append(
            Fault(
                at,
                "must be a number or number operators",
                shown(argument, 60),
                ", ".join(_LENGTH_OPERATORS),
            )
        )
        return None
    operations = []
    for key, value in argument.items():
        name = _ALIAS.get(key, key)
        if key not in _LENGTH_OPERATORS:
            near = nearest(str(key), _LENGTH_OPERATORS)
            faults.append(
                Fault(
                    (word, str(key)),
                    "unknown number operator",
                    f"'{key}'",
                    f"known: {', '.join(_LENGTH_OPERATORS)}",
                    f"write '{near}'" if near else None,
                    at_key=True,
                    code="unknown_operator",
                )
            )
            continue
        numbers = value if name == "in" and isinstance(value, (list, tuple)) else [value]
        if not numbers or not all(_is_number(number) for number in numbers):
            rule = "a list of numbers" if name == "in" else "a number"
            faults.append(Fault((word, str(key)), f"must be {rule}", shown(value, 60)))
            continue
        operations.append(Operation(name, key, list(numbers) if name == "in" else value))
    return Matcher(tuple(operations)) if operations else None


def _expression(argument: Json, word: str, faults: list[Fault]) -> _Expression | None:
    import regex

    if not isinstance(argument, str):
        faults.append(Fault((word,), "must be an expression (a text)", shown(argument, 60)))
        return None
    large = expressions.size_problem(argument)
    if large is not None:
        faults.append(Fault((word,), large[0], shown(argument, 60), large[1]))
        return None
    try:
        compiled = regex.compile(_anchored(argument))
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        faults.append(Fault((word,), f"is not an expression: {error}", shown(argument, 60)))
        return None
    ahead = any(
        mark in argument
        for mark in ("$", "\\Z", "\\z", "\\b", "\\B", "\\m", "\\M", "(?=", "(?!", "\\X")
    )
    return _Expression(argument, compiled, ahead, _is_linear(argument))


def _is_linear(source: str) -> bool:
    """Whether a search cannot take longer than the text times the expression, roughly.

    Nothing repeats and nothing branches: there is nothing to backtrack into.
    """
    if len(source) > MAX_LINEAR:
        return False
    at = 0
    while at < len(source):
        char = source[at]
        if char == "\\":
            following = source[at + 1 : at + 2]
            if not following or following.isdigit() or following in "gkLpPNRXK":
                return False
            at += 2
            continue
        if char == "(":
            flags = _flags(source, at)
            if source.startswith("(?", at):
                if flags is None:
                    return False
                at += 2
                while source[at] not in ":)":
                    at += 1
                continue
        elif char in "*+{?|":
            return False
        elif char == "[":
            at = _class_end(source, at)
            continue
        at += 1
    return True


def _anchored(source: str) -> str:
    r"""Make ``$`` mean the end of the text: without ``(?m)`` it also stands before a last newline.

    ``regex`` shares this with ``re``: ``c$`` is found in ``"c\n"``. Outside character classes and
    multi-line groups ``$`` becomes ``\Z``.
    """
    out: list[str] = []
    # One entry an open group: whether ``$`` inside means the end of a line.
    lines = [_global_multiline(source)]
    at = 0
    while at < len(source):
        char = source[at]
        if char == "\\":
            out.append(source[at : at + 2])
            at += 2
            continue
        if char == "[":
            end = _class_end(source, at)
            out.append(source[at:end])
            at = end
            continue
        if char == "(":
            lines.append(_group_multiline(source, at, lines[-1]))
        elif char == ")" and len(lines) > 1:
            lines.pop()
        elif char == "$" and not lines[-1]:
            out.append("\\Z")
            at += 1
            continue
        out.append(char)
        at += 1
    return "".join(out)


def _flags(source: str, at: int) -> tuple[str, str, str] | None:
    """``(on, off, closing)`` of an inline flag group that opens at ``at``."""
    if not source.startswith("(?", at):
        return None
    end = at + 2
    while end < len(source) and (source[end].isalnum() or source[end] == "-"):
        end += 1
    if end == at + 2 or end >= len(source) or source[end] not in ":)":
        return None
    on, _, off = source[at + 2 : end].partition("-")
    return on, off, source[end]


def _global_multiline(source: str) -> bool:
    at = source.find("(?")
    while at >= 0:
        flags = _flags(source, at)
        if flags is not None and flags[2] == ")" and "m" in flags[0]:
            return True
        at = source.find("(?", at + 2)
    return False


def _group_multiline(source: str, at: int, outer: bool) -> bool:
    flags = _flags(source, at)
    if flags is None or flags[2] != ":":
        return outer
    if "m" in flags[1]:
        return False
    return outer or "m" in flags[0]


def _class_end(source: str, at: int) -> int:
    end = at + 1
    if source[end : end + 1] == "^":
        end += 1
    if source[end : end + 1] == "]":
        end += 1
    while end < len(source) and source[end] != "]":
        end += 2 if source[end] == "\\" else 1
    return end + 1


def operand_of(matcher: Matcher) -> Json | Variable | _Missing:
    """The one value a matcher compares for equality with, or ``MISSING`` when it does more."""
    if len(matcher.operations) == 1 and matcher.operations[0].name == "equals":
        return cast("Json | Variable", matcher.operations[0].argument)
    return MISSING

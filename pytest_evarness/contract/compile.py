"""Turns roles into closures over one event.

A role answers ``False`` (no match), a key (a match that is certain; the values of its variables),
or a :class:`Hit` (anything less simple). Nearly every event of a real trace takes one of the
first two ways, so they cost one call.
"""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.core.matcher import (
    CUT_BYTES,
    MISSING,
    SECRET_PREFIX,
    Matcher,
    Operation,
    Path,
    Test,
    Undecided,
    Variable,
    Verdict,
    all_of,
    holds_secret,
    value_key,
)
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.stranger import pass_on

if TYPE_CHECKING:
    from pytest_evarness.contract.rule import Pattern, Role
    from pytest_evarness.core.registry import Registry

__all__ = [
    "Alternative",
    "Condition",
    "Hit",
    "Match",
    "Miss",
    "compile_role",
    "component",
    "match_of",
]

Key: TypeAlias = Any
"""Values of variables: ``()`` for none, the value's key for one, a tuple of keys for several."""

Match: TypeAlias = "Callable[[Any, Any], Any]"
"""``match(payload, event)`` -> ``False``, a :data:`Key`, or a :class:`Hit`.

Without variables the answer of the conditions is passed on as it is, which saves a call:
``True`` stands for the key ``()`` and ``Undecided`` for a hit.
"""

EventTest: TypeAlias = "Callable[[Any, Any], Verdict]"
"""``test(payload, event)``."""

Miss: TypeAlias = "Callable[[Any, str], None]"
"""Called with an event that a pattern missed by the type of a value alone, and the clause."""

_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}

# A text shorter than this cannot have been cut at 4 KiB: a character has at most 4 bytes.
_SHORT: Final = CUT_BYTES // 4


class Hit:
    """A match that is not simply certain, or whose variables are not simply values.

    Attributes:
        static: True, or why the conditions without variables are undecided.
        key: The binding's key where it is known; None where it is not.
        why: Why the key is not known.
        wanted: ``(variable's index, keys that satisfy it, why another may)``.
        generic: Conditions that have to be asked of every open binding.
        branches: Of a role with alternatives; the other fields are unused then.
    """

    __slots__ = ("branches", "generic", "key", "payload", "static", "wanted", "why")

    def __init__(
        self,
        static: Verdict,
        *,
        key: Key | None = None,
        why: Undecided | None = None,
        wanted: tuple[tuple[int, frozenset[Any], Undecided | None], ...] = (),
        generic: tuple[tuple[Path, Matcher], ...] = (),
        payload: Any = None,
        branches: tuple[Hit, ...] = (),
    ) -> None:
        self.static = static
        self.key = key
        self.why = why
        self.wanted = wanted
        self.generic = generic
        self.payload = payload
        self.branches = branches

    def doubt(self) -> Undecided | None:
        """The first reason why this is no certain match, whatever the binding."""
        if self.branches:
            doubts = [branch.doubt() for branch in self.branches]
            return next((one for one in doubts if one is not None), None)
        if not isinstance(self.static, bool):
            return self.static
        if self.why is not None:
            return self.why
        return next((why for _, _, why in self.wanted if why is not None), None)

    def combinations(self) -> int:
        """How many bindings its candidate values make; 1 where there are none."""
        return prod(len(keys) for _, keys, _ in self.wanted)

    def test(self, parts: Sequence[Any], values: Mapping[str, Any]) -> Verdict:
        """Whether the event matches under one binding.

        Args:
            parts: The binding's keys, one a variable.
            values: The binding's values, by variable; needed by generic conditions only.
        """
        if self.branches:
            open_answer: Undecided | None = None
            for branch in self.branches:
                answer = branch.test(parts, values)
                if answer is True:
                    return True
                if not isinstance(answer, bool) and open_answer is None:
                    open_answer = answer
            return False if open_answer is None else open_answer
        doubt = None if isinstance(self.static, bool) else self.static
        for index, keys, why in self.wanted:
            if parts[index] in keys:
                continue
            if why is None:
                return False
            doubt = doubt or why
        for path, matcher in self.generic:
            answer = path.test(matcher.bound(values).compile(redacted=True), self.payload)
            if answer is False:
                return False
            if answer is not True:
                doubt = doubt or answer
        return True if doubt is None else doubt


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition without variables.

    Attributes:
        test: ``test(payload, event)``.
        field: The top-level payload field that is compared with texts only, for dispatch.
        texts: The texts it may equal; with ``field`` only.
        lax: Says of a value whether only its type kept it from being equal.
        text: In words, for messages.
    """

    test: Callable[[Any, Any], Verdict]
    field: str | None = None
    texts: frozenset[str] = frozenset()
    lax: Callable[[Any], str | None] | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One plain pattern, compiled.

    Attributes:
        types: None for any type.
        conditions: Those without variables.
        bind: On an anchor: one path for each variable, in order.
        uses: ``(variable's index, path, membership)`` of each use by equality or on a list.
        generic: Uses that have to be asked of every open binding.
    """

    types: frozenset[str] | None
    conditions: tuple[Condition, ...]
    bind: tuple[Path, ...] = ()
    uses: tuple[tuple[int, Path, bool], ...] = ()
    generic: tuple[tuple[Path, Matcher], ...] = ()

    @property
    def has_plain_key(self) -> bool:
        """Whether every use is an equality on one value, and each variable has exactly one."""
        return not self.generic and all(
            not membership and not path.has_star for _, path, membership in self.uses
        )


def compile_role(
    role: Role, names: Sequence[str], registry: Registry, *, membership: bool = False
) -> tuple[Alternative, ...]:
    """Compile every alternative of ``role``.

    Args:
        role: The patterns.
        names: Variables that a match is keyed by, in order.
        registry: Holds predicates.
        membership: Whether ``contains: $x`` asks for membership in a list (``first`` of
            precedes), rather than being asked of each open binding.
    """
    return tuple(_compile_pattern(pattern, names, registry, membership) for pattern in role)


def _compile_pattern(
    pattern: Pattern, names: Sequence[str], registry: Registry, membership: bool
) -> Alternative:
    conditions: list[Condition] = []
    uses: list[tuple[int, Path, bool]] = []
    generic: list[tuple[Path, Matcher]] = []
    if pattern.node is not None:
        conditions.append(_node_condition(pattern.node))
    for path, matcher in pattern.where:
        static = tuple(one for one in matcher.operations if not Matcher((one,)).variables)
        dynamic = tuple(one for one in matcher.operations if Matcher((one,)).variables)
        if path.has_star and dynamic and static:
            # One element has to satisfy all of it, so it cannot be taken apart.
            generic.append((path, matcher))
            continue
        if static:
            conditions.append(_where_condition(path, Matcher(static)))
        for one in dynamic:
            plain = isinstance(one.argument, Variable)
            index = names.index(one.argument.name) if plain else -1
            taken = any(use[0] == index for use in uses)
            if plain and one.name == "equals" and not taken:
                uses.append((index, path, False))
            elif plain and one.name == "contains" and membership and not taken:
                uses.append((index, path, True))
            else:
                generic.append((path, Matcher((one,))))
    if pattern.satisfies is not None:
        conditions.append(_predicate_condition(pattern.satisfies, registry))
    uses.sort(key=lambda use: use[0])
    return Alternative(
        None if pattern.types is None else frozenset(pattern.types),
        tuple(conditions),
        tuple(path for _, path in pattern.bind),
        tuple(uses),
        tuple(generic),
    )


# -- conditions --------------------------------------------------------------------------------


def _node_condition(matcher: Matcher) -> Condition:
    test = _placed("node_id", matcher.compile(redacted=True))
    return Condition(
        lambda _, event: test(event.get("node_id")), text=f"node_id {matcher.describe()}"
    )


def _placed(place: str, test: Test) -> Test:
    """Put the place before the reason of an undecided answer."""

    def placed(value: Any) -> Verdict:
        answer = test(value)
        if answer is True or answer is False:
            return answer
        return Undecided(f"{place}: {answer.why}", answer.cause)

    return placed


def condition_of(path: Path, matcher: Matcher) -> Condition:
    """One entry of ``where`` without variables."""
    return _where_condition(path, matcher)


def _where_condition(path: Path, matcher: Matcher) -> Condition:
    plain = _plain_condition(path, matcher)
    is_direct = all(isinstance(step, str) for step in path.steps)
    if is_direct and not _looks_inside(matcher):
        return plain
    test = plain.test

    def guarded(payload: Any, event: Any) -> Verdict:
        if is_direct and not isinstance(path.get(payload), list | tuple | Mapping):
            return test(payload, event)
        # Which texts a list or a mapping holds is not known where one of them was cut.
        return _CUT_INSIDE if touches_cut(payload, path) else test(payload, event)

    return Condition(guarded, text=plain.text)


def _plain_condition(path: Path, matcher: Matcher) -> Condition:
    text = f"{path} {matcher.describe()}"
    raw = matcher.compile(redacted=True)
    if _is_sensitive(matcher) and isinstance(path.steps[-1], str):
        slow = _cut_aware(path, matcher, raw)
        return Condition(_quick_text(path, matcher, slow), text=text)
    texts = _texts_of(matcher)
    lax = _lax_of(matcher)
    judge = _placed(path.text, raw)
    if path.has_star:
        test = _placed(path.text, lambda payload: path.test(raw, payload))
        return Condition(lambda payload, _: test(payload), text=text)
    if len(path.steps) == 1 and isinstance(path.steps[0], str):
        name = path.steps[0]
        field = name if texts and lax is None else None
        if len(texts) == 1 and lax is None:
            return Condition(
                _text_test(name, path.text, next(iter(texts))), field, texts, None, text
            )
        return Condition(
            _quick(name, matcher, lambda payload, _: judge(payload.get(name, MISSING))),
            field,
            texts if field else frozenset(),
            None if lax is None else lambda payload: lax(payload.get(name, MISSING)),
            text,
        )
    return Condition(
        lambda payload, _: judge(path.get(payload)),
        None,
        frozenset(),
        None if lax is None else lambda payload: lax(path.get(payload)),
        text,
    )


def _quick(name: str, matcher: Matcher, slow: EventTest) -> EventTest:
    """Answer for the values that nearly every event has; ``slow`` answers for the others."""
    if len(matcher.operations) != 1:
        return slow
    one = matcher.operations[0]
    argument = one.argument
    if one.name in _COMPARE and type(argument) is int:
        compare = _COMPARE[one.name]

        def ordered(payload: Any, event: Any) -> Verdict:
            value = payload.get(name)
            return compare(value, argument) if type(value) is int else slow(payload, event)

        return ordered
    if one.name == "secret":
        wanted = None if argument == "any" else argument

        def secret(payload: Any, _: Any) -> Verdict:
            return holds_secret(payload.get(name), wanted)

        return secret
    if one.name == "exists" and argument is True:

        def exists(payload: Any, event: Any) -> Verdict:
            value = payload.get(name)
            if type(value) is str and SECRET_PREFIX not in value:
                return True
            return slow(payload, event)

        return exists
    if one.name == "equals" and (argument is None or argument is True or argument is False):

        def constant(payload: Any, event: Any) -> Verdict:
            value = payload.get(name, MISSING)
            if value is argument:
                return True
            kind = type(value)
            if (kind is str and SECRET_PREFIX not in value) or kind is bool or kind is int:
                return False
            return slow(payload, event)

        return constant
    if one.name == "equals" and type(argument) is int:

        def number(payload: Any, event: Any) -> Verdict:
            value = payload.get(name)
            return bool(value == argument) if type(value) is int else slow(payload, event)

        return number
    texts = _texts_of(matcher)
    if texts:

        def member(payload: Any, event: Any) -> Verdict:
            value = payload.get(name)
            if type(value) is str and SECRET_PREFIX not in value:
                return value in texts
            return slow(payload, event)

        return member
    return slow


def _quick_text(path: Path, matcher: Matcher, slow: EventTest) -> EventTest:
    """The same for operators that a cut text leaves open: short texts cannot have been cut."""
    if len(path.steps) != 1 or len(matcher.operations) != 1:
        return slow
    name = path.steps[0]
    one = matcher.operations[0]
    if one.name == "contains" and type(one.argument) is str:
        wanted = one.argument

        def contains(payload: Any, event: Any) -> Verdict:
            value = payload.get(name)
            if type(value) is str and len(value) < _SHORT and SECRET_PREFIX not in value:
                return wanted in value
            return slow(payload, event)

        return contains
    if one.name == "pattern" and one.argument.is_linear:
        search = one.argument.compiled.search

        def found(payload: Any, event: Any) -> Verdict:
            value = payload.get(name)
            if type(value) is str and len(value) < _SHORT and SECRET_PREFIX not in value:
                return search(value) is not None
            return slow(payload, event)

        return found
    if one.name == "length" and len(one.argument.operations) == 1:
        limit = one.argument.operations[0]
        if limit.name in _COMPARE and type(limit.argument) is int:
            compare, bound = _COMPARE[limit.name], limit.argument

            def length(payload: Any, event: Any) -> Verdict:
                value = payload.get(name)
                if type(value) is str and len(value) < _SHORT and SECRET_PREFIX not in value:
                    return compare(len(value), bound)
                return slow(payload, event)

            return length
    raw = matcher.compile()

    def short(payload: Any, event: Any) -> Verdict:
        value = payload.get(name)
        if type(value) is str and len(value) < _SHORT and SECRET_PREFIX not in value:
            answer = raw(value)
            if answer is True or answer is False:
                return answer
        return slow(payload, event)

    return short


def _text_test(name: str, place: str, text: str) -> Callable[[Any, Any], Verdict]:
    def test(payload: Any, _: Any) -> Verdict:
        value = payload.get(name)
        if value == text:
            return True
        kind = type(value)
        if kind is str:
            if SECRET_PREFIX not in value:
                return False
        elif (kind is not dict and kind is not list) or not holds_secret(value):
            return False
        return Undecided(
            f"{place}: the value holds a secret's placeholder ({shown(value, 60)})",
            Cause.MISSING_EVIDENCE,
        )

    return test


def _texts_of(matcher: Matcher) -> frozenset[str]:
    """The texts that the value may equal, where the matcher asks nothing else."""
    if len(matcher.operations) != 1:
        return frozenset()
    one = matcher.operations[0]
    values = [one.argument] if one.name == "equals" else one.argument if one.name == "in" else []
    if not values or not all(type(item) is str and SECRET_PREFIX not in item for item in values):
        return frozenset()
    return frozenset(values)


def _lax_of(matcher: Matcher) -> Callable[[Any], str | None] | None:
    """For an equality: says which value an event missed by type alone, or None where none can."""
    if len(matcher.operations) != 1 or matcher.operations[0].name not in ("equals", "in"):
        return None
    one = matcher.operations[0]
    wanted = [one.argument] if one.name == "equals" else list(one.argument)
    if not any(item is None or not isinstance(item, str) or _is_scalar(item) for item in wanted):
        return None

    def lax(value: Any) -> str | None:
        for item in wanted:
            if _equal_but_type(value, item):
                met = "missing" if value is MISSING else f"{shown(value, 60)} ({kind_of(value)})"
                return f"{met}, asked {shown(item, 60)} ({kind_of(item)})"
        return None

    return lax


def _is_scalar(text: str) -> bool:
    try:
        return not isinstance(json.loads(text), (str, list, dict))
    except ValueError:
        return False


def _equal_but_type(value: Any, wanted: Any) -> bool:
    if value is MISSING:
        return wanted is None
    if kind_of(value) == kind_of(wanted) or isinstance(value, (list, dict)):
        return False
    if isinstance(wanted, (list, dict)):
        return False
    if isinstance(value, str) or isinstance(wanted, str):
        text, other = (value, wanted) if isinstance(value, str) else (wanted, value)
        return not isinstance(other, str) and bool(text == json.dumps(other))
    # The published engine compared with ==, so that true was 1.
    return bool(value == wanted)


def _predicate_condition(name: str, registry: Registry) -> Condition:
    predicate = registry.predicates.resolve(name)

    def test(_: Any, event: Any) -> Verdict:
        try:
            # A copy: what a stranger does to it must not reach the other contracts.
            answer: object = predicate(copy.deepcopy(event))
        except BaseException as error:  # noqa: BLE001 - a stranger's; it breaks its contract only
            pass_on(error)
            return Undecided(
                f"the predicate {name} raised {type(error).__name__}: {error}",
                Cause.EVALUATOR_ERROR,
            )
        if answer is True or answer is False:
            return answer
        return Undecided(
            f"the predicate {name} answered {shown(answer, 60)}, not true or false",
            Cause.EVALUATOR_ERROR,
        )

    return Condition(test, text=f"satisfies {name}")


# -- texts that the recorder cut ---------------------------------------------------------------


_MARK: Final = "truncated"
# Whatever stands there: a mapping with a value of its own under the mark has no other one, and a
# text of this length beside it may be a beginning.


def is_cut(parent: Any, value: Any) -> bool:
    """Whether the recorder kept only the first 4 KiB of ``value``, which stands in ``parent``."""
    return (
        type(value) is str
        and len(value) >= _SHORT
        and isinstance(parent, Mapping)
        and _MARK in parent
        and len(value.encode("utf-8", "surrogatepass")) >= CUT_BYTES
    )


_CUT_INSIDE: Final = Undecided(
    "only the first 4 KiB of a text were recorded, and the rest could decide",
    Cause.MISSING_EVIDENCE,
)


def touches_cut(payload: Any, path: Path) -> bool:
    """Whether what ``path`` leads to holds, or lies in a list beside, a text that was cut.

    The mark ``truncated`` stands in the mapping nearest to the text, lists between them or not.
    """
    return _touches(payload, path.steps, False)


def _touches(value: Any, steps: Sequence[Any], marked: bool) -> bool:
    for index, step in enumerate(steps):
        if isinstance(value, Mapping):
            marked = _MARK in value
            if not isinstance(step, str) or step not in value:
                return False
            value = value[step]
        elif isinstance(value, list | tuple):
            rest = steps[index + 1 :]
            if isinstance(step, int):
                if not 0 <= step < len(value):
                    return False
                value = value[step]
            elif isinstance(step, str):
                return False
            else:
                return any(_touches(item, rest, marked) for item in value)
        else:
            return False
    return _holds_cut(value, marked)


def _holds_cut(value: Any, marked: bool) -> bool:
    # With a list of its own: a hostile value may nest deeper than calls can.
    waiting = [(value, marked)]
    while waiting:
        part, is_marked = waiting.pop()
        if isinstance(part, str):
            if (
                is_marked
                and len(part) >= _SHORT
                and len(part.encode("utf-8", "surrogatepass")) >= CUT_BYTES
            ):
                return True
        elif isinstance(part, Mapping):
            inside = _MARK in part
            waiting.extend((member, inside) for member in part.values())
        elif isinstance(part, list | tuple):
            waiting.extend((member, is_marked) for member in part)
    return False


def _looks_inside(matcher: Matcher) -> bool:
    """Whether an answer can depend on what a list or a mapping holds."""
    for one in matcher.operations:
        if one.name in ("contains", "not_contains", "any", "all", "none"):
            return True
        if one.name in ("equals", "not", "in"):
            values = one.argument if one.name == "in" else [one.argument]
            if any(isinstance(item, list | tuple | Mapping) for item in values):
                return True
    return False


def _is_sensitive(matcher: Matcher) -> bool:
    for one in matcher.operations:
        if one.name in ("contains", "not_contains", "pattern", "length"):
            return True
        if one.name in ("equals", "not", "in"):
            values = one.argument if one.name == "in" else [one.argument]
            if any(isinstance(item, str) and len(item) >= _SHORT for item in values):
                return True
    return False


def _cut_aware(path: Path, matcher: Matcher, raw: Test) -> Callable[[Any, Any], Verdict]:
    """Ask the value together with the mapping it stands in, which says whether it was cut."""
    last = path.steps[-1]
    parent = Path(path.text, path.steps[:-1])
    on_cut = all_of([_cut_test(one) for one in matcher.operations])

    def judge(holder: Any) -> Verdict:
        value = holder.get(last, MISSING) if isinstance(holder, Mapping) else MISSING
        return on_cut(value) if is_cut(holder, value) else raw(value)

    placed = _placed(path.text, lambda payload: parent.test(judge, payload))
    return lambda payload, _: placed(payload)


def _cut_test(one: Operation) -> Test:
    test = Matcher((one,)).compile(redacted=True)
    unknown = Undecided(
        f"only the first 4 KiB of the text were recorded, {one.describe()} may hold of the rest",
        Cause.MISSING_EVIDENCE,
    )

    def answer(value: Any) -> Verdict:
        got = test(value)
        if not isinstance(got, bool) or one.name in ("exists", "secret"):
            return got
        if one.name == "length":
            return unknown
        if one.name in ("equals", "not", "in"):
            values = one.argument if one.name == "in" else [one.argument]
            may = any(isinstance(item, str) and item.startswith(value) for item in values)
            return unknown if may else got
        found = got is (one.name != "not_contains")
        if found and not (one.name == "pattern" and one.argument.looks_ahead):
            return got
        return unknown

    return answer


# -- keys --------------------------------------------------------------------------------------


def component(payload: Any, path: Path) -> Any:
    """The key of the value at ``path``, ``MISSING``, or why it is not known."""
    steps = path.steps
    if len(steps) == 1 and type(steps[0]) is str:
        value = payload.get(steps[0], MISSING)
    else:
        value = path.get(payload)
    if value is MISSING:
        return MISSING
    if holds_secret(value):
        return Undecided(
            f"{path}: the value holds a secret's placeholder ({shown(value, 60)})",
            Cause.MISSING_EVIDENCE,
        )
    if type(value) is str:
        if len(value) >= _SHORT and touches_cut(payload, path):
            return Undecided(
                f"{path}: only the first 4 KiB of the text were recorded", Cause.MISSING_EVIDENCE
            )
        return value
    if isinstance(value, list | tuple | Mapping) and touches_cut(payload, path):
        return Undecided(f"{path}: {_CUT_INSIDE.why}", Cause.MISSING_EVIDENCE)
    try:
        return value_key(value)
    except RecursionError:
        return Undecided(f"{path}: the value nests too deeply", Cause.EVALUATOR_ERROR)


def _missing(path: Path) -> Undecided:
    return Undecided(f"{path}: the path is missing, so its value is not known")


def match_of(
    alternatives: Sequence[Alternative],
    count: int,
    *,
    dropped: Sequence[frozenset[str]] | None = None,
    miss: Miss | None = None,
) -> Match:
    """One closure for a role.

    Args:
        alternatives: Those that can match the event at all.
        count: Number of variables in a key.
        dropped: For each alternative, the dispatch fields already found to match.
        miss: Told of events that a pattern missed by type alone.
    """
    gone = dropped if dropped is not None else [frozenset()] * len(alternatives)
    matches = [
        _match_one(one, count, fields, miss) for one, fields in zip(alternatives, gone, strict=True)
    ]
    if len(matches) == 1:
        return matches[0]

    def match(payload: Any, event: Any) -> Any:
        hits: list[Hit] = []
        for single in matches:
            got = single(payload, event)
            if got is False:
                continue
            if count == 0 and type(got) is not Hit:
                if got is True:
                    return True
                got = Hit(got)
            elif type(got) is not Hit:
                parts = (got,) if count == 1 else got
                got = Hit(
                    True,
                    key=got,
                    wanted=tuple((at, frozenset([part]), None) for at, part in enumerate(parts)),
                )
            hits.append(got)
        if not hits:
            return False
        if len(hits) == 1:
            only = hits[0]
            if count == 0:
                return only
            return only.key if only.static is True and only.key is not None else only
        return Hit(hits[0].static, branches=tuple(hits))

    return match


def _match_one(one: Alternative, count: int, dropped: frozenset[str], miss: Miss | None) -> Match:
    kept = [item for item in one.conditions if item.field is None or item.field not in dropped]
    if miss is not None and any(item.lax is not None for item in kept):
        static = _static_with_notice(kept, miss)
    else:
        static = _static(kept)
    if one.bind:
        return _binding(static, one.bind)
    if count == 0 and not one.generic:
        return static
    if one.has_plain_key and [use[0] for use in one.uses] == list(range(count)):
        return _keyed(static, one, [path for _, path, _ in one.uses])
    return _slow(static, one)


def _static(conditions: list[Condition]) -> Callable[[Any, Any], Verdict]:
    if not conditions:
        return lambda _, __: True
    tests = [condition.test for condition in conditions]
    if len(tests) == 1:
        return tests[0]
    first, rest = tests[0], tests[1:]

    def static(payload: Any, event: Any) -> Verdict:
        open_answer = first(payload, event)
        if open_answer is False:
            return False
        for test in rest:
            answer = test(payload, event)
            if answer is False:
                return False
            if answer is not True and open_answer is True:
                open_answer = answer
        return open_answer

    return static


def _static_with_notice(conditions: list[Condition], miss: Miss) -> Callable[[Any, Any], Verdict]:
    def static(payload: Any, event: Any) -> Verdict:
        open_answer: Verdict = True
        missed: list[str] = []
        for condition in conditions:
            answer = condition.test(payload, event)
            if answer is False:
                met = condition.lax(payload) if condition.lax is not None else None
                if met is None:
                    return False
                missed.append(f"{condition.text}: {met}")
            elif answer is not True and open_answer is True:
                open_answer = answer
        if missed:
            miss(event, "; ".join(missed))
            return False
        return open_answer

    return static


def _binding(static: Callable[[Any, Any], Verdict], paths: tuple[Path, ...]) -> Match:
    simple = paths[0].steps[0] if len(paths) == 1 and len(paths[0].steps) == 1 else None

    def slow(payload: Any, answer: Verdict) -> Any:
        parts: list[Any] = []
        why: Undecided | None = None
        for path in paths:
            part = component(payload, path)
            if part is MISSING:
                part = _missing(path)
            if isinstance(part, Undecided):
                why = why or part
            parts.append(part)
        if why is not None:
            return Hit(answer, why=why, payload=payload)
        key = parts[0] if len(parts) == 1 else tuple(parts)
        return key if answer is True else Hit(answer, key=key, payload=payload)

    if isinstance(simple, str):

        def match_simple(payload: Any, event: Any) -> Any:
            answer = static(payload, event)
            if answer is False:
                return False
            if answer is True:
                value = payload.get(simple)
                if type(value) is str and len(value) < _SHORT and SECRET_PREFIX not in value:
                    return value
            return slow(payload, answer)

        return match_simple

    def match(payload: Any, event: Any) -> Any:
        answer = static(payload, event)
        return False if answer is False else slow(payload, answer)

    return match


def _keyed(static: Callable[[Any, Any], Verdict], one: Alternative, paths: list[Path]) -> Match:
    slow = _slow(static, one)

    def several(payload: Any, event: Any) -> Any:
        parts = []
        for path in paths:
            part = component(payload, path)
            if part is MISSING:
                return False
            if isinstance(part, Undecided):
                return slow(payload, event)
            parts.append(part)
        return parts[0] if len(parts) == 1 else tuple(parts)

    def match(payload: Any, event: Any) -> Any:
        answer = static(payload, event)
        if answer is True:
            return several(payload, event)
        return False if answer is False else slow(payload, event)

    if len(paths) > 1:
        return match
    path = paths[0]
    name = path.steps[0] if len(path.steps) == 1 else None

    def match_one(payload: Any, event: Any) -> Any:
        answer = static(payload, event)
        if answer is not True:
            return False if answer is False else slow(payload, event)
        value = path.get(payload) if name is None else payload.get(name)
        if type(value) is str and len(value) < _SHORT and SECRET_PREFIX not in value:
            return value
        return several(payload, event)

    return match_one


def _slow(static: Callable[[Any, Any], Verdict], one: Alternative) -> Match:
    def match(payload: Any, event: Any) -> Any:
        answer = static(payload, event)
        if answer is False:
            return False
        wanted: list[tuple[int, frozenset[Any], Undecided | None]] = []
        for index, path, membership in one.uses:
            keys, why = _candidates(payload, path, membership)
            if not keys and why is None:
                return False
            wanted.append((index, keys, why))
        return Hit(answer, wanted=tuple(wanted), generic=one.generic, payload=payload)

    return match


def _candidates(
    payload: Any, path: Path, membership: bool
) -> tuple[frozenset[Any], Undecided | None]:
    """Keys that the variable may have so that this use holds, and why others may too."""
    if touches_cut(payload, path):
        return frozenset(), _CUT_INSIDE
    if not membership and not path.has_star:
        part = component(payload, path)
        if part is MISSING:
            return frozenset(), None
        if isinstance(part, Undecided):
            return frozenset(), part
        return frozenset([part]), None
    values, why = path.values(payload)
    keys: set[Any] = set()
    for value in values:
        items = [value]
        if membership:
            if not isinstance(value, (list, tuple)):
                why = why or Undecided(
                    f"{path}: contains needs a list, met a {kind_of(value)} ({shown(value, 60)})"
                )
                continue
            items = list(value)
        for item in items:
            if holds_secret(item):
                why = why or Undecided(
                    f"{path}: the value holds a secret's placeholder ({shown(item, 60)})",
                    Cause.MISSING_EVIDENCE,
                )
                continue
            try:
                keys.add(value_key(item))
            except RecursionError:
                why = why or Undecided(f"{path}: nests too deeply", Cause.EVALUATOR_ERROR)
    if why is not None:
        why = Undecided(
            why.why if why.why.startswith(path.text) else f"{path}: {why.why}", why.cause
        )
    return frozenset(keys), why

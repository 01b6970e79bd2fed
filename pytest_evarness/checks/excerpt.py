"""A matcher asked of a text of which only the ends are known.

What was read may decide: a text that is found in it is there, whatever the rest is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import Answer, Matcher, parse_matcher
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.triviality import triviality
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_evarness.core.json import Json
    from pytest_evarness.core.matcher import Operation

__all__ = ["ask_excerpt", "read_text_matcher"]

_COMPLEMENTS = {"not": "equals", "not_contains": "contains"}


def read_text_matcher(spec: Json, key: str) -> tuple[Matcher | None, list[Fault]]:
    """Read a matcher over a text; one that says nothing is a mistake.

    Args:
        spec: As it was written.
        key: Where it stands.
    """
    matcher, faults = parse_matcher(spec)
    if matcher is None:
        return None, [fault.under(key) for fault in faults]
    trivial = triviality(matcher, {"type": "string"})
    if trivial is None:
        return matcher, []
    says = "holds of every text" if trivial == "always" else "can hold of no text"
    return None, [Fault((key,), says, got=shown(spec, 60), rule="it would decide nothing")]


def ask_excerpt(matcher: Matcher, head: str, tail: str, size: int | None) -> Answer:
    """Ask ``matcher`` of the text that begins with ``head`` and ends with ``tail``.

    Args:
        matcher: Over a text.
        head: The whole text where ``size`` is None.
        tail: The last part that is known; empty where the end is not known.
        size: Bytes of the whole text; None where nothing is left out.
    """
    if size is None:
        return matcher.test(head)
    undecided: list[Operation] = []
    missed: list[str] = []
    for one in matcher.operations:
        held = _held(one, head, tail, size)
        if held is False:
            missed.append(one.sentence(False))
        elif held is None:
            undecided.append(one)
    what = f"the text of {size:,} bytes, of which {_known(head, tail)} were read,"
    if missed:
        return Answer(False, f"{what} {' and '.join(missed)}")
    if undecided:
        asked = " and ".join(one.describe() for one in undecided)
        why = f"{what} does not decide: {asked}"
        return Answer(None, why, Cause.MISSING_EVIDENCE)
    return Answer(True, f"{what} {' and '.join(one.sentence(True) for one in matcher.operations)}")


def _known(head: str, tail: str) -> str:
    first = f"the first {len(head.encode('utf-8', 'replace')):,}"
    return f"{first} and the last {len(tail.encode('utf-8', 'replace')):,}" if tail else first


def _held(one: Operation, head: str, tail: str, size: int) -> bool | None:
    """One operation; None where the part that is not known could matter."""
    name, argument = one.name, one.argument
    base = _COMPLEMENTS.get(name)
    if base is not None:
        held = _base(base, one, head, tail, size)
        return None if held is None else not held
    if name == "in":
        return None if any(_may_be(value, head, tail, size) for value in argument) else False
    return _base(name, one, head, tail, size)


def _base(name: str, one: Operation, head: str, tail: str, size: int) -> bool | None:
    argument = one.argument
    if name == "exists":
        return bool(argument)
    if name == "equals":
        return None if _may_be(argument, head, tail, size) else False
    if name == "contains" and isinstance(argument, str):
        return True if argument in head or argument in tail else None
    if name == "pattern":
        # Of the last part nobody knows what stands before it, and that may matter.
        return True if not argument.looks_ahead and Matcher((one,)).test(head).held else None
    if name == "length":
        # A byte that is no text is written with four characters.
        return _length(argument, len(head) + len(tail), 4 * size)
    return None


def _may_be(value: Any, head: str, tail: str, size: int) -> bool:
    if not isinstance(value, str) or not (value.startswith(head) and value.endswith(tail)):
        return False
    # Where a byte was no text, more characters stand for it than the size counts.
    return "\\x" in value or len(value.encode("utf-8", "surrogatepass")) == size


def _length(matcher: Matcher, low: int, high: int) -> bool | None:
    """Number operators over a length that is from ``low`` to ``high``."""
    answers = [_length_holds(one, low, high) for one in matcher.operations]
    if False in answers:
        return False
    return None if None in answers else True


def _length_holds(one: Operation, low: int, high: int) -> bool | None:
    alone = Matcher((one,))
    ends = (alone.test(low).held, alone.test(high).held)
    if one.name in ("gt", "gte", "lt", "lte"):
        return ends[0] if ends[0] is ends[1] else None
    wanted: Sequence[Any] = one.argument if one.name == "in" else [one.argument]
    if any(low <= value <= high for value in wanted):
        return None
    return one.name == "not"

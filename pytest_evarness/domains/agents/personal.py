"""Personal data in texts: what counts as one, how it is replaced, where it entered a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Self

from pytest_evarness.core.disguise import plain_form
from pytest_evarness.domains.agents.card import cards
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.vocabulary import PERSONAL

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.domains.agents.extension import RedactionRule
    from pytest_evarness.domains.agents.state import RunState

__all__ = ["MAX_ENTERED", "Redacted", "Redaction", "kinds_in", "redact", "scrub", "tell_redaction"]

MAX_ENTERED: Final = 50
"""Data whose place of entry one event lists; the others are counted."""


def _matches(expression: str) -> Callable[[str], Iterator[tuple[int, int]]]:
    pattern = re.compile(expression)
    return lambda text: (match.span() for match in pattern.finditer(text))


# They look at the plain form of a text. Each expression starts only where no earlier character
# could belong to the same match and is bounded, so a long text costs one pass. Longer forms first:
# a card number holds what looks like a phone number.
_PATTERNS: Final[Mapping[str, Callable[[str], Iterator[tuple[int, int]]]]] = {
    "email": _matches(
        r"(?<![\w.%+-])[\w.%+-][\w.%+'-]{0,63}"
        r"@(?:[^\W_](?:[^\W_]|-){0,62}\.){1,8}(?:xn--[A-Za-z0-9-]{1,59}|[^\W\d_]{2,24})\b"
    ),
    "credit_card": cards,
    "ssn": _matches(r"(?<!\d)(?<!\d[ .-])\d{3}(?P<gap> ?- ?|[ .])\d{2}(?P=gap)\d{4}(?![ .-]?\d)"),
    "phone": _matches(
        r"(?<![\d+])(?:\+\d(?:[ .()/-]{0,3}\d){7,14}(?!\d)"
        r"|(?:\d{1,3}[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?!\d))"
    ),
}
assert tuple(_PATTERNS) == PERSONAL, "the vocabulary names the kinds in their order"


@dataclass(slots=True)
class Redaction:
    """What became of a text.

    Attributes:
        counts: How often each kind was replaced.
        data: Each distinct datum that was replaced, and its kind, in the order of meeting. It is
            for :func:`tell_redaction` and stands in no event.
    """

    text: str
    counts: dict[str, int] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many data were replaced."""
        return sum(self.counts.values())


def kinds_in(text: str) -> list[str]:
    """The kinds of personal data that ``text`` holds."""
    return list(redact(text).counts)


def scrub(text: str) -> tuple[str, dict[str, int]]:
    """Replace personal data by its kind in brackets; how often each kind was met."""
    made = redact(text)
    return made.text, made.counts


def redact(
    text: str,
    kinds: Iterable[str] = PERSONAL,
    *,
    mask: str | None = None,
    extra: Mapping[str, RedactionRule] | None = None,
) -> Redaction:
    """Replace personal data of these kinds.

    Args:
        text: Looked at kind by kind: the packaged ones in the order of ``PERSONAL``, then the
            others by name, whatever order ``kinds`` has.
        kinds: Names; one that is not packaged is looked up in ``extra``.
        mask: What stands in their place; without it the kind in brackets.
        extra: Rules of plug-ins.
    """
    wanted = set(kinds)
    made = Redaction(text)
    for name, find in _PATTERNS.items():
        if name in wanted:
            _replace(made, name, mask, partial(_spans, find))
    for name in sorted(wanted - _PATTERNS.keys()):
        _replace(made, name, mask, (extra or {})[name])
    return made


def _spans(
    find: Callable[[str], Iterator[tuple[int, int]]], text: str
) -> Iterator[tuple[int, int]]:
    """The parts of ``text`` in whose plain form something is found."""
    plain = plain_form(text)
    end = 0
    for place in find(plain.text):
        start, stop = plain.written(*place)
        # One written character may stand for the end of one match and the start of the next.
        start = max(start, end)
        if start < stop:
            yield start, stop
            end = stop


def _replace(
    made: Redaction,
    name: str,
    mask: str | None,
    find: Callable[[str], Iterable[tuple[int, int]]],
) -> None:
    text = made.text
    spans = _checked(name, find(text), len(text))
    if not spans:
        return
    word = f"[{name.upper()}]" if mask is None else mask
    parts, end = [], 0
    for start, stop in spans:
        parts += [text[end:start], word]
        made.data.setdefault(text[start:stop], name)
        end = stop
    made.text = "".join([*parts, text[end:]])
    made.counts[name] = len(spans)


def _checked(name: str, found: Any, length: int) -> list[tuple[int, int]]:
    if not isinstance(found, Iterable):
        raise TypeError(f"{name}: gave no parts (got {type(found).__name__}; pairs of places)")
    spans: list[tuple[int, int]] = []
    for one in found:
        if not (isinstance(one, tuple) and len(one) == 2 and all(type(at) is int for at in one)):
            raise TypeError(f"{name}: no part of a text (got {one!r:.80}; start and end)")
        spans.append(one)
    for start, stop in spans:
        if not (0 <= start < stop <= length):
            raise ValueError(f"{name}: no part of the text (got {start} to {stop} of {length})")
    for (_, stop), (start, _) in pairwise(spans):
        if start < stop:
            raise ValueError(f"{name}: parts must be in order and apart (got {start} after {stop})")
    return spans


# -- what was redacted so far ----------------------------------------------------------------------


@dataclass(slots=True)
class Redacted:
    """Every datum that was redacted in a run so far; it is kept in no event and no file."""

    data: dict[str, str] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, state: RunState) -> Self:
        """At the start of a run."""
        del state
        return cls()

    def leftovers(self) -> list[str]:
        """Nothing: a redaction is no script."""
        return []

    def add(self, data: Mapping[str, str]) -> None:
        """Remember what was just replaced."""
        self.data |= data
        self._known |= {_essence(datum): kind for datum, kind in data.items()}

    def hide(self, value: Any) -> Any:
        """A JSON value without any of it, in whatever spelling: the kind stands in its place."""
        if not self.data:
            return value
        if isinstance(value, str):
            return self._hidden(value)
        if isinstance(value, Mapping):
            return {self._hidden(key): self.hide(inner) for key, inner in value.items()}
        if isinstance(value, Sequence):
            return [self.hide(entry) for entry in value]
        if isinstance(value, int) and not isinstance(value, bool):
            hidden = self._hidden(str(value))
            return value if hidden == str(value) else hidden
        return value

    def _hidden(self, text: str) -> str:
        for datum in sorted(self.data, key=lambda one: (-len(one), one)):
            if datum in text:
                text = text.replace(datum, f"[{self.data[datum].upper()}]")
        # In another spelling it is the same datum: what a text says is compared. Twice, since a
        # number that stands right beside another one is found when that one is gone.
        for find in (*_PATTERNS.values(), _matches_digits) * 2:
            spans = list(_spans(find, text))
            for start, stop in reversed(spans):
                kind = self._known.get(_essence(text[start:stop]))
                if kind is not None:
                    text = f"{text[:start]}[{kind.upper()}]{text[stop:]}"
        return text


_matches_digits = _matches(r"(?<!\d)\d{7,19}(?!\d)")


def _essence(datum: str) -> str:
    """What a datum says: an address without regard to case, a number by its digits."""
    plain = plain_form(datum).text.casefold()
    digits = "".join(char for char in plain if char.isdigit())
    return plain if "@" in plain or not digits else digits


# -- where it entered ------------------------------------------------------------------------------


def tell_redaction(made: Redaction, context: Context) -> None:
    """Emit ``redaction_applied`` where something was replaced, with where each datum entered.

    The places lead to the datum and do not repeat it: who may read the earlier event finds it
    there, and whoever judges the run can look for it in every later one.
    """
    if not made.count:
        return
    state_of(context).part(Redacted).add(made.data)
    entered, unplaced = _entries(made.data, context.events())
    payload: dict[str, Any] = {
        "count": made.count,
        "rules_hit": sorted(made.counts),
        "entered": entered,
    }
    if unplaced:
        payload["unplaced"] = unplaced
    context.emit("redaction_applied", payload)


def _entries(
    data: Mapping[str, str], events: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], int]:
    """The first place of each datum, and how many have none that is told."""
    missing = dict(list(data.items())[:MAX_ENTERED])
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        if not missing:
            break
        for path, text in _texts(event["payload"], ()):
            for datum in [one for one in missing if one in text]:
                start = text.index(datum)
                found[datum] = {
                    "kind": missing.pop(datum),
                    "seq": event["seq"],
                    "type": event["type"],
                    "path": list(path),
                    "start": start,
                    "end": start + len(datum),
                }
    return [found[datum] for datum in data if datum in found], len(data) - len(found)


def _texts(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _texts(value[key], (*path, key))
    elif isinstance(value, Sequence):
        for index, entry in enumerate(value):
            yield from _texts(entry, (*path, index))

"""Personal data in texts: what counts as one, how it is replaced, where it entered a run."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final, Self

from pytest_evarness.core.disguise import Plain, plain_form
from pytest_evarness.domains.agents.card import cards
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.vocabulary import PERSONAL

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context
    from pytest_evarness.domains.agents.extension import RedactionRule
    from pytest_evarness.domains.agents.state import RunState

__all__ = [
    "MAX_ENTERED",
    "Places",
    "Redacted",
    "Redaction",
    "kinds_in",
    "redact",
    "scrub",
    "tell_redaction",
]

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
    plain = plain_form(text)
    for name, find in _PATTERNS.items():
        if name in wanted and _replace(made, name, mask, list(_spans(find, plain))):
            plain = plain_form(made.text)
    for name in sorted(wanted - _PATTERNS.keys()):
        _replace(made, name, mask, (extra or {})[name](made.text))
    return made


def _spans(
    find: Callable[[str], Iterator[tuple[int, int]]], plain: Plain
) -> Iterator[tuple[int, int]]:
    """The parts of the written text in whose plain form something is found."""
    end = 0
    for place in find(plain.text):
        start, stop = plain.written(*place)
        # One written character may stand for the end of one match and the start of the next.
        start = max(start, end)
        if start < stop:
            yield start, stop
            end = stop


def _replace(made: Redaction, name: str, mask: str | None, found: Any) -> bool:
    """Replace what was found; True where that is anything."""
    text = made.text
    spans = _checked(name, found, len(text))
    if not spans:
        return False
    word = f"[{name.upper()}]" if mask is None else mask
    parts, end = [], 0
    for start, stop in spans:
        parts += [text[end:start], word]
        made.data.setdefault(text[start:stop], name)
        end = stop
    made.text = "".join([*parts, text[end:]])
    made.counts[name] = len(spans)
    return True


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
            spans = list(_spans(find, plain_form(text)))
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
    state = state_of(context)
    state.part(Redacted).add(made.data)
    places = state.part(Places)
    places.read(context.events())
    entered, unplaced = _entries(made.data, places)
    payload: dict[str, Any] = {
        "count": made.count,
        "rules_hit": sorted(made.counts),
        "entered": entered,
    }
    if unplaced:
        payload["unplaced"] = unplaced
    context.emit("redaction_applied", payload)


@dataclass(slots=True)
class Places:
    """The texts of all events of a run so far, each read once; it is kept in no event and no file.

    They stand in one long text, so that looking for a datum is one search in it.
    """

    _events: int = 0
    _whole: str = ""
    _starts: list[int] = field(default_factory=list)
    _places: list[tuple[int, str, tuple[str | int, ...]]] = field(default_factory=list)

    @classmethod
    def of(cls, state: RunState) -> Self:
        """At the start of a run."""
        del state
        return cls()

    def leftovers(self) -> list[str]:
        """Nothing: it is no script."""
        return []

    def read(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Take in the events that came since the last time."""
        fresh, at = [self._whole], len(self._whole)
        for event in events[self._events :]:
            for path, text in _texts(event["payload"], ()):
                self._starts.append(at)
                self._places.append((event["seq"], event["type"], path))
                fresh += (text, "\0")
                at += len(text) + 1
        self._events = len(events)
        self._whole = "".join(fresh)

    def first(self, datum: str) -> dict[str, Any] | None:
        """Where ``datum`` stands for the first time; None where no event shows it."""
        found = self._whole.find(datum)
        while found >= 0:
            index = bisect_right(self._starts, found) - 1
            ends = [*self._starts[index + 1 : index + 2], len(self._whole)]
            if found + len(datum) < ends[0]:
                seq, kind, path = self._places[index]
                start = found - self._starts[index]
                return {
                    "seq": seq,
                    "type": kind,
                    "path": list(path),
                    "start": start,
                    "end": start + len(datum),
                }
            # It holds the sign between two texts, and goes from one into the other.
            found = self._whole.find(datum, found + 1)
        return None


def _entries(data: Mapping[str, str], places: Places) -> tuple[list[dict[str, Any]], int]:
    """The first place of each datum, and how many have none that is told."""
    found: list[dict[str, Any]] = []
    for datum, kind in islice(data.items(), MAX_ENTERED):
        place = places.first(datum)
        if place is not None:
            found.append({"kind": kind, **place})
    return found, len(data) - len(found)


def _texts(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _texts(value[key], (*path, key))
    elif isinstance(value, Sequence):
        for index, entry in enumerate(value):
            yield from _texts(entry, (*path, index))

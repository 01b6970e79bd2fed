"""Judges assertions over the requests that a service recorded.

A pure function of definition and journal: the session and the verifier of a bundle call it alike.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pytest_evarness.checks.kind import UnavailableError
from pytest_evarness.checks.request_field import Field, parse_field
from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import Matcher, Undecided, parse_matcher
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.world.http.condition import Conditions, compile_conditions
from pytest_evarness.world.http.place import Question, asks_for_secret
from pytest_evarness.world.http.view import View

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.matcher import Verdict

__all__ = ["Result", "evaluate"]

MAX_NEAREST: Final = 3
MAX_LISTED: Final = 5
MAX_RANKED: Final = 1000
MAX_TRIED: Final = 100
_CLAUSE: Final = 600


@dataclass(frozen=True, slots=True)
class Result:
    """How a check came out.

    Attributes:
        causes: Of an open outcome.
        reason: One sentence.
        entries: Requests that were looked at, in words.
        numbers: Their numbers in the journal.
        nearest: ``(number, why)`` of requests that almost met what was asked.
        vacuous: Whether nothing was there to judge.
        final: Whether it fails whatever requests are still to come.
    """

    outcome: Outcome
    reason: str
    causes: tuple[Cause, ...] = ()
    expected: str | None = None
    observed: str | None = None
    entries: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    nearest: tuple[tuple[int, str], ...] = ()
    vacuous: bool = False
    final: bool = False

    def as_record(self) -> dict[str, Json]:
        """Exactly JSON."""
        return {
            "outcome": self.outcome.word,
            "reason": self.reason,
            "causes": [str(cause.value) for cause in self.causes],
            "expected": self.expected,
            "observed": self.observed,
            "entries": list(self.entries),
            "numbers": list(self.numbers),
            "nearest": [[n, why] for n, why in self.nearest],
            "vacuous": self.vacuous,
            "final": self.final,
        }

    @classmethod
    def from_record(cls, record: JsonObject) -> Result:
        """Read what :meth:`as_record` wrote."""
        got: Any = record
        return cls(
            outcome=Outcome.parse(got["outcome"]),
            reason=got["reason"],
            causes=tuple(Cause(cause) for cause in got["causes"]),
            expected=got["expected"],
            observed=got["observed"],
            entries=tuple(got["entries"]),
            numbers=tuple(got["numbers"]),
            nearest=tuple((n, why) for n, why in got["nearest"]),
            vacuous=got["vacuous"],
            final=got["final"],
        )


@dataclass(frozen=True, slots=True)
class _Said:
    """One assertion's answer."""

    answer: Verdict
    text: str = ""
    expected: str | None = None
    observed: str | None = None
    views: Sequence[View] = ()
    nearest: Sequence[tuple[View, str]] = field(default=())
    final: bool = False


_Alarm: TypeAlias = "Callable[[], None]"


def evaluate(
    definition: JsonObject,
    requests: Sequence[Mapping[str, Any]],
    masked: Sequence[Mapping[str, Any]] | None = None,
) -> Result:
    """Judge a check.

    Args:
        definition: As it was sealed.
        requests: The journal's entries.
        masked: The same without secrets, where that is another thing: the texts come from it.

    Raises:
        UnavailableError: It took too long.
    """
    shadows = masked if masked is not None else requests
    views = [
        View(record, None if shadow is record else View(shadow))
        for record, shadow in zip(requests, shadows, strict=True)
    ]
    account = _Account(views, _alarm(definition))
    made: Any = definition
    said = [account.assertion(one) for one in made["assertions"]]
    if made["order"]:
        said.append(account.order(made["order"]))
    if made["no_unmatched"]:
        said.append(account.no_unmatched())
    return _joined(said, views, is_vacuous=not views and not made["assertions"])


def _alarm(definition: JsonObject) -> _Alarm:
    seconds: Any = definition.get("timeout", 30.0)
    end = time.monotonic() + seconds

    def alarm() -> None:
        if time.monotonic() > end:
            raise UnavailableError(Cause.EVALUATOR_ERROR, f"timed out after {seconds:g} s")

    return alarm


def _joined(said: Sequence[_Said], views: Sequence[View], *, is_vacuous: bool) -> Result:
    failed = [one for one in said if _fails(one.answer)]
    unsure = [one for one in said if not _fails(one.answer) and one.answer is not True]
    if not failed and not unsure:
        count = _number(len(said), "assertion")
        verb = "holds" if len(said) == 1 else "hold"
        reason = f"{count} {verb} over {_number(len(views), 'request')}"
        return Result(Outcome.PASS, reason, vacuous=is_vacuous)
    told = failed or unsure
    first = told[0]
    others = len(told) - 1
    more = ""
    if others:
        verb = "fails" if others == 1 else "fail"
        if not failed:
            verb = "is undecided" if others == 1 else "are undecided"
        more = f" (and {_number(others, 'more assertion')} {verb})"
    causes = [one.answer.cause for one in unsure if isinstance(one.answer, Undecided)]
    return Result(
        Outcome.FAIL if failed else Outcome.INDETERMINATE,
        first.text + more,
        causes=() if failed else Cause.ordered(causes),
        expected=first.expected,
        observed=first.observed,
        entries=tuple(_line(view) for view in first.views),
        numbers=tuple(view.n for view in (*first.views, *(view for view, _ in first.nearest))),
        nearest=tuple((view.n, f"{_line(view)}: {why}") for view, why in first.nearest),
        final=any(one.final for one in failed),
    )


def _fails(answer: Verdict) -> bool:
    """A value of a type that cannot be asked fails a check: it is what it is, and it is whole."""
    if isinstance(answer, Undecided):
        return answer.cause is Cause.MALFORMED_EVIDENCE
    return not answer


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _line(view: View) -> str:
    seen = view.twin
    record = seen.record
    what = f"{seen.method} {seen.path}" if seen.method else "no request"
    said = record["fault"] or record["status"]
    matched = "" if record["matched"] else ", unmatched"
    return f"#{view.n} {_escaped(what)} ({said}{matched})"


def _escaped(text: str) -> str:
    return shown(text, 200)[1:-1]


def _greater(count: int, matcher: Matcher) -> list[int]:
    """Counts above ``count`` at which the matcher can change its mind, and a few more."""
    named: list[int] = []

    def take(value: object) -> None:
        if isinstance(value, Matcher):
            for one in value.operations:
                take(one.argument)
        elif isinstance(value, list | tuple):
            for part in value:
                take(part)
        elif isinstance(value, int | float):
            named.extend(int(value) + step for step in (-1, 0, 1))

    take(matcher)
    tried = {*range(count + 1, count + MAX_TRIED), *named, max([count, *named]) + MAX_TRIED}
    return sorted(one for one in tried if one > count)


class _Account:
    """The requests, and what is asked of them."""

    def __init__(self, views: Sequence[View], alarm: _Alarm) -> None:
        self._views = views
        self._alarm = alarm

    # -- one assertion -------------------------------------------------------------------------

    def assertion(self, definition: Mapping[str, Any]) -> _Said:
        what, fault = parse_field(definition["field"])
        matcher, faults = parse_matcher(definition["matcher"])
        assert what is not None, f"the check was read before it was sealed: {fault}"
        assert matcher is not None, f"the check was read before it was sealed: {faults}"
        selection = _Selection(self._views, compile_conditions(definition["filters"]), self._alarm)
        if what.is_count:
            return self._count(matcher, selection)
        if what.index is None:
            return self._all(matcher, selection)
        return self._one(what, matcher, selection)

    def _count(self, matcher: Matcher, selection: _Selection) -> _Said:
        low = len(selection.sure)
        high = low + len(selection.unsure)
        test = matcher.compile()
        answers = [test(count) for count in range(low, high + 1)]
        if all(answer is True for answer in answers):
            return _Said(True)
        if any(answer is True for answer in answers):
            return selection.open("request_count", matcher)
        words = str(low) if low == high else f"{low} to {high}"
        meant = selection.words()
        text = f"request_count is {words}, expected {matcher.describe()}{meant}"
        listed = selection.sure[:MAX_LISTED]
        # Those that came near are of interest where one more of them would have helped.
        is_short = any(test(count) is True for count in _greater(high, matcher))
        if listed:
            text += f": {', '.join(_line(view) for view in listed)}"
        return _Said(
            False,
            text + (selection.almost() if is_short else ""),
            expected=f"request_count {matcher.describe()}{meant}",
            observed=f"{words} of {_number(len(self._views), 'request')}",
            views=listed,
            nearest=selection.nearest() if is_short else (),
            final=not is_short,
        )

    def _all(self, matcher: Matcher, selection: _Selection) -> _Said:
        if selection.unsure:
            return selection.open("requests", matcher)
        wants_twin = asks_for_secret(matcher)
        values = [(one.twin if wants_twin else one).as_value() for one in selection.sure]
        answer = matcher.compile()(values)
        if answer is True:
            return _Said(True)
        why = matcher.test([one.twin.as_value() for one in selection.sure]).why
        text = f"requests{selection.words()}: {why}"
        return _Said(
            answer,
            text,
            expected=f"requests {matcher.describe()}",
            observed=_number(len(selection.sure), "request"),
            views=selection.sure[:MAX_LISTED],
            nearest=selection.nearest(),
        )

    def _one(self, what: Field, matcher: Matcher, selection: _Selection) -> _Said:
        assert what.index is not None, "of one request"
        assert what.place is not None, "of one request"
        question = Question(what.place, matcher)
        candidates = selection.candidates(what.index)
        if candidates == [None]:
            return self._missing(what, matcher, selection)
        ask = question.ask(is_filter=False)
        answers: list[Verdict] = []
        for view in candidates:
            self._alarm()
            answers.append(False if view is None else ask(view))
        if all(answer is True for answer in answers):
            return _Said(True)
        if len(candidates) > 1 and any(not _fails(answer) for answer in answers):
            return selection.open(what.text, matcher)
        view = next(one for one in reversed(candidates) if one is not None)
        answer = answers[candidates.index(view)]
        if isinstance(answer, Undecided):
            clauses = [f"{what.text}: {answer.why}"]
        else:
            clauses = question.clashes(view)
        text = "; ".join(clauses)
        others = [
            (one, "would meet it") for one in selection.sure if one is not view and ask(one) is True
        ]
        return _Said(
            answer,
            f"request {_line(view)}{selection.words()}: {_bounded(text)}",
            expected=f"{what.text} {matcher.describe()}",
            observed=text,
            views=[view],
            nearest=others[:MAX_NEAREST],
            # Counted from the first one, it stays the one that is meant.
            final=what.index >= 0 and len(candidates) == 1,
        )

    def _missing(self, what: Field, matcher: Matcher, selection: _Selection) -> _Said:
        count = len(selection.sure)
        meant = selection.words()
        text = f"{what.text}: no such request, only {_number(count, 'request')}{meant}"
        return _Said(
            False,
            text + selection.almost(),
            expected=f"{what.text} {matcher.describe()}",
            observed=f"only {_number(count, 'request')}{meant}",
            views=selection.sure[:MAX_LISTED],
            nearest=selection.nearest(),
        )

    # -- over all requests -----------------------------------------------------------------------

    def no_unmatched(self) -> _Said:
        strays = [view for view in self._views if not view.record["matched"]]
        if not strays:
            return _Said(True)
        listed = ", ".join(_line(view) for view in strays[:MAX_LISTED])
        return _Said(
            False,
            f"{_number(len(strays), 'request')} without a route: {listed}",
            expected="every request meets a route",
            observed=f"{len(strays)} of {len(self._views)} do not",
            views=strays[:MAX_LISTED],
            final=True,
        )

    def order(self, entries: Sequence[JsonObject]) -> _Said:
        """Requests that meet an entry come in the entries' order, each entry met at least once."""
        conditions = [compile_conditions(entry) for entry in entries]
        words = [one.describe() for one in conditions]
        expected = "in this order: " + ", then ".join(words)
        # Where in the list the requests so far may stand: an entry may be met more than once.
        at = {-1}
        seen: list[View] = []
        for view in self._views:
            self._alarm()
            answers = [one.test(view) for one in conditions]
            doubt = next((one for one in answers if isinstance(one, Undecided)), None)
            if doubt is not None:
                text = f"order: whether {_line(view)} is meant cannot be told: {doubt.why}"
                return _Said(doubt, text, expected=expected, views=[view])
            met = {index for index, answer in enumerate(answers) if answer is True}
            if not met:
                continue
            seen.append(view)
            following = {index for index in met if index in at or index - 1 in at}
            if not following:
                named = " and ".join(words[index] for index in sorted(met))
                text = f"order: {_line(view)} comes out of turn ({named})"
                return _Said(
                    False,
                    text,
                    expected=expected,
                    observed=", ".join(_line(one) for one in seen[-MAX_LISTED:]),
                    views=seen[-MAX_LISTED:],
                    final=True,
                )
            at = following
        if len(entries) - 1 in at:
            return _Said(True)
        next_one = words[max(at) + 1]
        return _Said(
            False,
            f"order: no request came for {next_one}, only {_number(len(seen), 'request')} before",
            expected=expected,
            observed=", ".join(_line(one) for one in seen[-MAX_LISTED:]) or "no request",
            views=seen[-MAX_LISTED:],
            nearest=_Selection(self._views, conditions[max(at) + 1], self._alarm).nearest(),
        )


class _Selection:
    """The requests that filters mean.

    Attributes:
        sure: Those that meet all filters.
        unsure: Number to the doubt, of those of which it cannot be told.
    """

    def __init__(self, views: Sequence[View], filters: Conditions, alarm: _Alarm) -> None:
        self._views = views
        self._filters = filters
        self._alarm = alarm
        self.sure: list[View] = []
        self.unsure: dict[int, Undecided] = {}
        self._maybe: list[View] = []
        for view in views:
            alarm()
            answer = filters.test(view)
            if answer is False:
                continue
            self._maybe.append(view)
            if isinstance(answer, Undecided):
                self.unsure[view.n] = answer
            else:
                self.sure.append(view)

    def words(self) -> str:
        """What was meant, for a sentence."""
        described = self._filters.describe()
        return f" with {described}" if described else ""

    def candidates(self, index: int) -> list[View | None]:
        """Every request that may be the one at ``index``; None where there may be none."""
        ordered = self._maybe if index >= 0 else list(reversed(self._maybe))
        wanted = index if index >= 0 else -index - 1
        found: list[View | None] = []
        least = 0  # how many of those before are certainly meant; at most all of them are
        for most, view in enumerate(ordered):
            if least <= wanted <= most:
                found.append(view)
            if view.n not in self.unsure:
                least += 1
        if least <= wanted:
            found.append(None)
        return found

    def open(self, what: str, matcher: Matcher) -> _Said:
        """The answer where it depends on requests of which it cannot be told."""
        doubts = sorted(self.unsure.items())
        # One that a repaired body would settle fails; one that nobody kept stays open.
        n, doubt = next(
            (pair for pair in doubts if pair[1].cause is Cause.MALFORMED_EVIDENCE), doubts[0]
        )
        view = next(one for one in self._maybe if one.n == n)
        text = (
            f"{what}, expected {matcher.describe()}{self.words()}: whether {_line(view)} is meant"
            f" cannot be told: {doubt.why}"
        )
        return _Said(doubt, text, expected=f"{what} {matcher.describe()}", views=[view])

    def nearest(self) -> list[tuple[View, str]]:
        """Requests that almost met the filters: fewest misses first, then the likest path."""
        ranked = []
        wanted = "" if self._filters.pattern is None else self._filters.pattern.text
        missed = [view for view in self._views if view not in self._maybe]
        for view in missed[-MAX_RANKED:]:
            self._alarm()
            misses = self._filters.misses(view)
            likeness = _likeness(wanted, view.twin.path) if wanted else 0.0
            ranked.append((len(misses), -likeness, view.n, view, misses))
        ranked.sort(key=lambda entry: entry[:3])
        return [(view, _bounded("; ".join(misses))) for *_, view, misses in ranked[:MAX_NEAREST]]

    def almost(self) -> str:
        """The nearest of them, for a sentence."""
        near = self.nearest()
        if not near:
            return ""
        view, why = near[0]
        return f"; nearest: {_line(view)}: {why}"


def _likeness(wanted: str, path: str) -> float:
    return difflib.SequenceMatcher(None, wanted[:500], path[:500], autojunk=False).ratio()


def _bounded(text: str) -> str:
    return text if len(text) <= _CLAUSE else text[:_CLAUSE] + "…"

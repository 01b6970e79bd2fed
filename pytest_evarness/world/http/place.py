"""Places of a request that can be asked about, and how a matcher is asked there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import (
    MISSING,
    Matcher,
    Operation,
    Path,
    Undecided,
    all_of,
    operand_of,
)
from pytest_evarness.core.outcome import Cause
from pytest_evarness.world.http.difference import described, differences
from pytest_evarness.world.http.view import NotJson, Parsed, View, cut_text

if TYPE_CHECKING:
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.matcher import Verdict

__all__ = ["MAIL", "Place", "Question", "asks_for_secret", "is_about_json"]

MAIL: Final = ("to", "cc", "subject")
"""Keys of a JSON body that are readable by their names; a mail's own ``body`` is ``json.body``."""

_RECIPIENTS: Final = frozenset({"to", "cc"})
_COMPLEMENTS: Final = frozenset({"not", "not_contains", "none"})
_OPPOSITE: Final = {"not": "equals", "not_contains": "contains", "none": "any"}

Asked: TypeAlias = "Callable[[View], Verdict]"


def asks_for_secret(matcher: Matcher) -> bool:
    """Whether ``secret`` stands in the matcher, at any depth."""
    return any(
        one.name == "secret"
        or (isinstance(one.argument, Matcher) and asks_for_secret(one.argument))
        for one in matcher.operations
    )


def is_about_json(operation: Operation) -> bool:
    """Whether an operation on a body compares with a mapping or list, so with the parsed body."""
    argument = operation.argument
    if operation.name == "in":
        return any(isinstance(item, Mapping | list | tuple) for item in argument)
    return operation.name in ("equals", "not", "contains", "not_contains") and isinstance(
        argument, Mapping | list | tuple
    )


@dataclass(frozen=True, slots=True)
class Place:
    """One place of a request.

    Attributes:
        label: As messages name it.
        kind: ``whole``, ``method``, ``path``, ``query``, ``headers``, ``body``, ``json``, ``mail``.
        name: Of a header, a query parameter or a mail field; None for all of them.
        path: Into the parsed body.
    """

    label: str
    kind: str
    name: str | None = None
    path: Path | None = None

    @property
    def schema(self) -> JsonObject | None:
        """JSON Schema of what can stand there; None for anything."""
        if self.kind in ("method", "path", "body") or (self.kind == "headers" and self.name):
            return {"type": "string"}
        if self.kind == "query" and self.name:
            return {
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"type": "string"}, "minItems": 2},
                ]
            }
        return {"type": "object"} if self.kind in ("whole", "query", "headers") else None

    @property
    def may_miss(self) -> bool:
        """Whether a request may have nothing there."""
        if self.kind == "json":
            return self.path is not None
        return self.kind == "mail" or self.name is not None

    def value(self, view: View) -> Any:
        """What stands there, to be shown: JSON, ``MISSING``, or ``Undecided`` where it is unclear.

        A path with a star has the list of its values.
        """
        if self.kind in ("json", "mail"):
            body = view.json
            if isinstance(body, NotJson):
                return Undecided(body.why)
            if isinstance(body, Undecided):
                return body
            if self.path is None:
                return body.value
            if self.path.has_star:
                return self.path.values(body.value)[0]
            return self.path.get(body.value)
        if self.kind == "body":
            return view.text if view.text is not None else Undecided("the body is no UTF-8 text")
        return self._plain(view)

    def _plain(self, view: View) -> Any:
        if self.kind == "method":
            return view.method
        if self.kind == "path":
            return view.path
        if self.kind == "whole":
            return view.as_value()
        named: Mapping[str, Any] = view.query if self.kind == "query" else view.headers
        return dict(named) if self.name is None else named.get(self.name, MISSING)

    def ask(self, matcher: Matcher, *, is_filter: bool) -> Asked:
        """A function that judges a request by what stands here.

        Args:
            matcher: Without variables.
            is_filter: Whether a body without JSON simply has none of its places, as a filter or a
                route takes it. In an assertion it is a value of the wrong type, which decides
                nothing.
        """
        if self.kind == "body":
            tests = [self._of_body(one, is_filter) for one in matcher.operations]
            return all_of(tests)
        if self.kind in ("json", "mail"):
            return self._of_json(matcher, is_filter)
        return all_of([self._of_text(one) for one in matcher.operations])

    # -- texts, lists of texts, mappings of texts ------------------------------------------------

    def _of_text(self, operation: Operation) -> Asked:
        single = Matcher((operation,))
        test = single.compile()
        if asks_for_secret(single):
            return lambda view: test(self._plain(view.twin))
        return lambda view: test(self._plain(view))

    # -- the parsed body -------------------------------------------------------------------------

    def _of_json(self, matcher: Matcher, is_filter: bool) -> Asked:
        test = self._recipients(matcher) if self.name in _RECIPIENTS else matcher.compile()
        wants_twin = asks_for_secret(matcher)

        def asked(view: View) -> Verdict:
            body = (view.twin if wants_twin else view).json
            if isinstance(body, Parsed):
                return test(body.value) if self.path is None else self.path.test(test, body.value)
            if isinstance(body, NotJson):
                return test(MISSING) if is_filter else Undecided(body.why)
            return body

        return asked

    @staticmethod
    def _recipients(matcher: Matcher) -> Callable[[Any], Verdict]:
        """``to`` and ``cc`` may be one address or a list: each of them received it.

        A list meets an operation when it does itself or one of its elements does, and a complement
        when none of them is what it excludes. Else a mail to two people would not be one to either.
        """

        def one(operation: Operation) -> Callable[[Any], Verdict]:
            is_complement = operation.name in _COMPLEMENTS
            base = operation
            if is_complement:
                base = Operation(_OPPOSITE[operation.name], None, operation.argument)
            test = Matcher((base,)).compile()

            def positive(value: Any) -> Verdict:
                answer = test(value)
                if answer is True or not isinstance(value, list):
                    return answer
                answers = [test(element) for element in value]
                if any(each is True for each in answers):
                    return True
                # A pattern is asked of the addresses; that the list is no text does not matter.
                return next((each for each in answers if each is not False), False)

            def judged(value: Any) -> Verdict:
                answer = positive(value)
                if not is_complement or not isinstance(answer, bool):
                    return answer
                return not answer

            return judged

        return all_of([one(operation) for operation in matcher.operations])

    # -- the body as text ------------------------------------------------------------------------

    def _of_body(self, operation: Operation, is_filter: bool) -> Asked:
        if operation.name == "in" and is_about_json(operation):
            return self._in(operation, is_filter)
        if is_about_json(operation):
            return Place(self.label, "json").ask(Matcher((operation,)), is_filter=is_filter)
        single = Matcher((operation,))
        test = single.compile()
        wants_twin = asks_for_secret(single)

        def asked(view: View) -> Verdict:
            seen = view.twin if wants_twin else view
            text = seen.text
            if text is None:
                if is_filter:
                    return test(MISSING)
                return Undecided("the body is no UTF-8 text")
            return _of_cut(operation, view, text) if view.is_cut else test(text)

        return asked

    def _in(self, operation: Operation, is_filter: bool) -> Asked:
        """A list of texts, mappings and lists: each compares in its own way."""
        tests = [
            self._of_body(Operation("equals", None, item), is_filter) for item in operation.argument
        ]

        def asked(view: View) -> Verdict:
            answers = [test(view) for test in tests]
            if any(answer is True for answer in answers):
                return True
            return next((answer for answer in answers if answer is not False), False)

        return asked


def _of_cut(operation: Operation, view: View, kept: str) -> Verdict:
    """What the beginning of a text decides, and the digest of the whole where there is one."""
    name, argument = operation.name, operation.argument
    if name in _COMPLEMENTS:
        answer = _of_cut(Operation(_OPPOSITE[name], None, argument), view, kept)
        return (not answer) if isinstance(answer, bool) else answer
    if name in ("equals", "in"):
        wanted = argument if name == "in" else [argument]
        answers = [_is_whole_text(item, view, kept) for item in wanted]
        if any(answer is True for answer in answers):
            return True
        return next((answer for answer in answers if answer is not False), False)
    answer = Matcher((operation,)).compile()(kept)
    if name == "exists" or not isinstance(answer, bool):
        return answer
    if name in ("contains", "secret") and answer:
        return True
    if name == "pattern" and answer and not argument.looks_ahead:
        return True
    return Undecided(cut_text(kept), Cause.MISSING_EVIDENCE)


def _is_whole_text(wanted: object, view: View, kept: str) -> Verdict:
    if not isinstance(wanted, str):
        return False
    if view.has_whole_digest:
        digest = hashlib.sha256(wanted.encode("utf-8", "surrogatepass")).hexdigest()
        return view.digest == f"sha256:{digest}"
    if not wanted.startswith(kept):
        return False
    return Undecided(cut_text(kept), Cause.MISSING_EVIDENCE)


@dataclass(frozen=True, slots=True)
class Question:
    """A matcher at a place."""

    place: Place
    matcher: Matcher

    def ask(self, *, is_filter: bool) -> Asked:
        """As :meth:`Place.ask`."""
        return self.place.ask(self.matcher, is_filter=is_filter)

    def describe(self) -> str:
        """The question in words."""
        return f"{self.place.label} {self.matcher.describe()}"

    def clashes(self, view: View) -> list[str]:
        """What was met where the answer is not true: a clause for each difference."""
        place, label = self.place, self.place.label
        if place.kind == "body" and any(map(is_about_json, self.matcher.operations)):
            place = Place(label, "json")
        value = place.value(view.twin)
        if isinstance(value, Undecided):
            return [f"{label}: {value.why}"]
        if place.path is not None and place.path.has_star:
            count = len(value)
            return [f"{label}: none of {count} values {self.matcher.describe()} ({shown(value)})"]
        wanted = operand_of(self.matcher)
        found = [] if wanted is MISSING else differences(wanted, value, label)
        if found:
            return found
        answer = self.matcher.test(value)
        if answer.held is not True:
            return [f"{label}: {answer.why}"]
        return [f"{label}: {described(value)} is not {self.matcher.describe()}"]

"""Conditions on a request, as routes and filters write them: method, path, query, headers, body."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pytest_evarness.core.matcher import (
    OPERATORS,
    Matcher,
    Undecided,
    parse_matcher,
    parse_path,
)
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import quoted, shown
from pytest_evarness.world.http.difference import differences
from pytest_evarness.world.http.message import NOT_RECORDED, path_text
from pytest_evarness.world.http.place import (
    MAIL,
    Place,
    Question,
    asks_for_secret,
    is_about_json,
)

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.matcher import Path, Verdict
    from pytest_evarness.world.http.view import View

__all__ = [
    "PATH_TEMPLATE",
    "Conditions",
    "PathPattern",
    "body_matcher",
    "compile_conditions",
    "header_fault",
    "mail_place",
    "parse_conditions",
    "question_faults",
]

PATH_TEMPLATE: Final = "a path of the service, exact or with {name} for one segment"
_METHOD = re.compile(r"[A-Z][A-Z0-9!#$%&'*+.^_`|~-]*\Z")
_HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+\Z")
_NAMED = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}\Z")
_PATHS: Final = "a path begins with '/'"
_ORDERED: Final = ("gt", "gte", "lt", "lte")
_COMPARING: Final = ("equals", "not", "in", "contains", "not_contains")
_BODY_OPERATORS: Final = frozenset({*OPERATORS, "json"})
_SLIP: Final = 0.82


# -- paths ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A path, exact or with ``{name}`` for any one segment that is not empty.

    Attributes:
        segments: Texts as the journal writes them; None for a name in braces.
    """

    segments: tuple[str | None, ...]

    @classmethod
    def read(cls, written: str) -> PathPattern:
        """The pattern of a text that :func:`path_faults` accepts."""
        return cls(
            tuple(
                None if _NAMED.match(part) else path_text(part.encode("utf-8"))
                for part in written.split("/")
            )
        )

    @property
    def is_exact(self) -> bool:
        """Whether it names one path."""
        return None not in self.segments

    @property
    def text(self) -> str:
        """As the journal writes such a path, names as ``{}``."""
        return "/".join("{}" if part is None else part for part in self.segments)

    def matches(self, path: str) -> bool:
        """Whether ``path``, as the journal writes it, is one of those."""
        parts = path.split("/")
        return len(parts) == len(self.segments) and all(
            bool(part) if wanted is None else part == wanted
            for part, wanted in zip(parts, self.segments, strict=True)
        )


def path_faults(written: object) -> list[Fault]:
    """Why a text cannot be a path of a request."""
    if not isinstance(written, str):
        return [Fault((), "must be text", got=shown(written), rule=PATH_TEMPLATE)]
    if not written.startswith("/") and written != "*":
        fix = None if "://" in written else f"write {quoted('/' + written)}"
        return [Fault((), "is no path", got=quoted(written), rule=_PATHS, fix=fix)]
    for mark, advice in (("?", "write what follows under 'query'"), ("#", None)):
        if mark in written:
            problem = f"must not hold '{mark}'"
            return [Fault((), problem, got=quoted(written), rule=PATH_TEMPLATE, fix=advice)]
    names = []
    for part in written.split("/"):
        if _NAMED.match(part):
            names.append(part)
        elif "{" in part or "}" in part:
            rule = "a name in braces stands for a whole segment, as in '/orders/{id}'"
            return [Fault((), "has a brace inside a segment", got=quoted(written), rule=rule)]
    if len(names) != len(set(names)):
        return [Fault((), "names a segment twice", got=quoted(written), rule=PATH_TEMPLATE)]
    return []


# -- parsing ----------------------------------------------------------------------------------


def parse_conditions(
    value: Mapping[str, Json], *, is_filter: bool
) -> tuple[dict[str, Json], list[Fault]]:
    """Read conditions into their sealed form.

    Args:
        value: Keys of conditions alone, names in small letters.
        is_filter: Filters of a check take mail fields too, and may ask for secrets.

    Returns:
        The same keys with what :func:`compile_conditions` takes, and every mistake.
    """
    made: dict[str, Json] = {}
    faults: list[Fault] = []
    for key, given in value.items():
        parsed: Json
        if key in ("query", "headers"):
            parsed, found = _named(key, given, is_filter)
        elif key == "method":
            parsed, found = _method(given)
        elif key == "path":
            parsed, found = _path(given)
        elif key == "body":
            parsed, found = _body(given)
        else:
            parsed, found = given, parse_matcher(given)[1]
        made[key] = parsed
        faults += [fault.under(key) for fault in found]
    if not faults:
        faults += _question_faults(made, is_filter)
    return made, faults


def _question_faults(made: Mapping[str, Json], is_filter: bool) -> list[Fault]:
    faults = []
    for at, question in _questions(made):
        faults += [fault.under(*at) for fault in question_faults(question, is_filter=True)]
        if not is_filter and asks_for_secret(question.matcher):
            rule = "what a service gets is not masked yet"
            faults.append(Fault(at, "a route cannot ask for 'secret'", rule=rule))
    return faults


def question_faults(question: Question, *, is_filter: bool) -> list[Fault]:
    """Why a question asks nothing, or, of a filter, can never be met."""
    # Late, as runs read no declarations: the mirror does without.
    from pytest_evarness.core.triviality import triviality

    place = question.place
    groups: list[tuple[Matcher, Any, bool]] = []
    if place.kind == "body":
        about_json = tuple(one for one in question.matcher.operations if is_about_json(one))
        others = tuple(one for one in question.matcher.operations if not is_about_json(one))
        # A body without JSON fails such an assertion, so what asks for JSON always asks for much.
        if others:
            groups.append((Matcher(others), {"type": "string"}, False))
        sure = None if about_json else "always"
    elif place.path is not None and place.path.has_star:
        return []
    else:
        groups.append((question.matcher, place.schema, place.may_miss))
        sure = "always"
    answers = [triviality(matcher, schema, may_miss=miss) for matcher, schema, miss in groups]
    described = question.matcher.describe()
    if is_filter and "never" in answers:
        problem = f"no request can meet it: {place.label} is {_what(place)}"
        return [Fault((), problem, got=described, fix=_quotes(question))]
    if sure and all(answer == "always" for answer in answers):
        return [Fault((), "every request meets it, so it asks nothing", got=described)]
    return []


def _what(place: Place) -> str:
    schema = place.schema
    if schema is None:
        return "never like that"
    return {"string": "a text", "object": "a mapping"}.get(str(schema.get("type")), "a text")


def _quotes(question: Question) -> str | None:
    for one in question.matcher.operations:
        if one.name in _COMPARING and isinstance(one.argument, int | float):
            return f"write '\"{shown(one.argument)}\"' with quotes"
    return None


def _method(given: Json) -> tuple[Json, list[Fault]]:
    def upper(value: Any) -> Any:
        if isinstance(value, str):
            return value.upper()
        return [upper(item) for item in value] if isinstance(value, list | tuple) else value

    if isinstance(given, Mapping):
        plain = ("equals", "eq", "not", "ne", "in", "contains", "not_contains")
        given = {key: upper(part) if key in plain else part for key, part in given.items()}
        return given, parse_matcher(given)[1]
    method = upper(given)
    if not isinstance(method, str) or not _METHOD.match(method):
        return method, [Fault((), "is no method", got=shown(given), rule="such as GET or POST")]
    return method, []


def _path(given: Json) -> tuple[Json, list[Fault]]:
    if not isinstance(given, Mapping):
        return given, path_faults(given)
    _, faults = parse_matcher(given)
    made: dict[str, Json] = {}
    for word, argument in given.items():
        if word not in ("equals", "eq", "not", "ne", "in"):
            made[word] = argument
            continue
        texts = argument if isinstance(argument, list | tuple) else [argument]
        for text in texts:
            found = path_faults(text)
            if not found and not PathPattern.read(str(text)).is_exact:
                rule = "{name} is read in 'path: TEXT' alone"
                found = [Fault((), "must be an exact path", got=shown(text), rule=rule)]
            faults += [fault.under(word) for fault in found]
        written = [PathPattern.read(text).text if isinstance(text, str) else text for text in texts]
        made[word] = written if isinstance(argument, list | tuple) else written[0]
    return made, faults


def _named(key: str, given: Json, is_filter: bool) -> tuple[Json, list[Fault]]:
    noun = "header" if key == "headers" else "parameter"
    if not isinstance(given, Mapping) or not given:
        rule = f"{{NAME: a value or a matcher}}, at least one {noun}"
        return None, [Fault((), "must be a mapping", got=shown(given), rule=rule)]
    made: dict[str, Json] = {}
    faults: list[Fault] = []
    for name, spec in given.items():
        kept = name.lower() if key == "headers" else name
        found = header_fault(name) if key == "headers" else None
        if found is not None:
            faults.append(found)
            continue
        if kept in made:
            faults.append(Fault((name,), "names a header again", got=quoted(name), at_key=True))
        faults += [fault.under(name) for fault in parse_matcher(spec)[1]]
        made[kept] = spec
    return made, faults


def header_fault(name: str) -> Fault | None:
    """Why nothing can be asked of a header; None where it can."""
    small = name.lower()
    if not _HEADER.match(small):
        return Fault((name,), "is no name of a header", got=quoted(name), at_key=True)
    if small in NOT_RECORDED:
        problem = f"'{small}' is not recorded: {NOT_RECORDED[small]}"
        return Fault((name,), problem, at_key=True, code="not_recorded")
    return None


def _body(given: Json) -> tuple[Json, list[Fault]]:
    """A text, or JSON to be equal to, or operators, ``json: {PATH: matcher}`` among them."""
    spec, faults = body_matcher(given)
    if faults:
        return None, faults
    inner = spec.get("json")
    if inner is not None:
        if not isinstance(inner, Mapping) or not inner:
            rule = "{PATH: a value or a matcher}, at least one path"
            return None, [Fault(("json",), "must be a mapping", got=shown(inner), rule=rule)]
        for path, part in inner.items():
            try:
                parse_path(path)
            except ValueError as error:
                faults.append(Fault(("json", path), str(error), at_key=True))
            faults += [fault.under("json", path) for fault in parse_matcher(part)[1]]
    rest = {word: argument for word, argument in spec.items() if word != "json"}
    if rest:
        faults += parse_matcher(rest)[1]
    return spec, faults


def body_matcher(given: Json) -> tuple[dict[str, Json], list[Fault]]:
    """What stands for a body, as operators: a mapping of none of them is JSON to be equal to."""
    if not isinstance(given, Mapping):
        if given is None or isinstance(given, bool | int | float):
            fix = None if given is None else f"write '\"{shown(given)}\"' with quotes"
            rule = "a text, a mapping or a list"
            return {}, [Fault((), "a body is a text", got=shown(given), rule=rule, fix=fix)]
        return {"equals": given}, []
    words = [key for key in given if key in _BODY_OPERATORS]
    if not words:
        for key in given:
            near = _misspelt(key)
            if near is not None:
                problem = "may be an operator misspelt or a key of the body"
                fix = f"write '{near}', or 'equals: {{{key}: ...}}' for the body itself"
                return {}, [Fault((key,), problem, got=quoted(key), fix=fix, at_key=True)]
        return {"equals": given}, []
    if len(words) < len(given):
        other = next(key for key in given if key not in _BODY_OPERATORS)
        fix = "write 'equals: {...}' to compare with a mapping that has such keys"
        problem = "stands beside operators and is none"
        rule = f"operators here: {', '.join(words)}"
        return {}, [Fault((other,), problem, got=quoted(other), rule=rule, fix=fix, at_key=True)]
    return dict(given), []


def _misspelt(key: str) -> str | None:
    """The operator that ``key`` is by one slip; keys of bodies such as ``to`` are not near any."""
    import difflib

    found = difflib.get_close_matches(key, sorted(_BODY_OPERATORS), n=1, cutoff=_SLIP)
    return found[0] if found and len(key) >= len("json") else None


# -- compiled -------------------------------------------------------------------------------------


def mail_place(name: str, prefix: str = "") -> Place:
    """The place of a mail field."""
    return Place(f"{prefix}{name}", "mail", name, parse_path(name))


def _questions(made: Mapping[str, Json]) -> list[tuple[tuple[str, ...], Question]]:
    found: list[tuple[tuple[str, ...], Question]] = []

    def add(at: tuple[str, ...], place: Place, spec: Any) -> None:
        matcher, faults = parse_matcher(spec)
        assert matcher is not None, f"conditions are read before they are compiled: {faults}"
        found.append((at, Question(place, matcher)))

    for key, spec in made.items():
        if key in ("query", "headers"):
            assert isinstance(spec, Mapping), "parse_conditions gives a mapping"
            for name, part in spec.items():
                add((key, name), Place(f"{key}.{name}", key, name), part)
        elif key == "body":
            assert isinstance(spec, Mapping), "parse_conditions gives a mapping"
            rest = {word: part for word, part in spec.items() if word != "json"}
            if rest:
                add((key,), Place("body", "body"), rest)
            inner: Any = spec.get("json", {})
            for path, part in inner.items():
                add((key, "json", path), _json_place(parse_path(path)), part)
        elif key in MAIL:
            add((key,), mail_place(key), spec)
        elif key == "method" or not isinstance(spec, str):
            add((key,), Place(key, key), spec)
    return found


def _json_place(path: Path) -> Place:
    return Place(f"json.{path.text}", "json", None, path)


@dataclass(frozen=True)
class Conditions:
    """Conditions ready to be asked; all of them must hold.

    Attributes:
        pattern: Of the path, where it is written as a text.
        questions: The others, in the order in which they were written.
    """

    pattern: PathPattern | None
    questions: tuple[Question, ...]

    @cached_property
    def _asked(self) -> list[tuple[Callable[[View], Verdict], Callable[[View], list[str]]]]:
        made: list[tuple[Callable[[View], Verdict], Callable[[View], list[str]]]] = []
        if self.pattern is not None:
            pattern = self.pattern
            made.append((lambda view: pattern.matches(view.path), self._path_clash))
        made += [(one.ask(is_filter=True), one.clashes) for one in self.questions]
        return made

    def _path_clash(self, view: View) -> list[str]:
        assert self.pattern is not None, "asked only where there is one"
        return differences(self.pattern.text, view.twin.path, "path")

    def test(self, view: View) -> Verdict:
        """Whether a request meets all of them; one that it does not meet decides."""
        open_answer: Undecided | None = None
        for ask, _ in self._asked:
            answer = ask(view)
            if answer is False:
                return False
            if answer is not True and open_answer is None:
                open_answer = answer
        return True if open_answer is None else open_answer

    def misses(self, view: View) -> list[str]:
        """What a request does not meet, a clause each; empty where it meets all."""
        missed = [clashes(view) for ask, clashes in self._asked if ask(view) is not True]
        return [clause for clauses in missed for clause in clauses]

    def describe(self) -> str:
        """The conditions in words, such as ``method = "POST" and path = "/refunds"``."""
        parts = [one.describe() for one in self.questions]
        if self.pattern is not None:
            parts.append(f'path = "{self.pattern.text}"')
        return " and ".join(parts)


def compile_conditions(made: JsonObject) -> Conditions:
    """Conditions from their sealed form."""
    path = made.get("path")
    pattern = PathPattern.read(path) if isinstance(path, str) else None
    return Conditions(pattern, tuple(question for _, question in _questions(made)))

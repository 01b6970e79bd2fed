"""Templates of tool arguments and intents: ``{query}`` and ``{args.PATH}``, nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_evarness.domains.agents.reading import UnreadableError, read_json
from pytest_evarness.domains.agents.text import text_of

__all__ = [
    "TemplateError",
    "bare_template",
    "fill",
    "fill_text",
    "literal_words",
    "lookup",
    "mapping_of",
    "places",
    "template_problem",
]

_PLACE = re.compile(r"\{(query|args\.[A-Za-z0-9_\-.\[\]]+)\}")
_LITERAL = re.compile(r"\{([A-Za-z_][A-Za-z0-9_\-]*+)[A-Za-z0-9_\-.\[\]]*+\}")
_STEP = re.compile(r"([A-Za-z0-9_\-]+)|\[([0-9]+)\]")

_PATH = re.compile(r"[A-Za-z0-9_\-]+(\[[0-9]+\])*(\.[A-Za-z0-9_\-]+(\[[0-9]+\])*)*")

_ABSENT = object()


class TemplateError(Exception):
    """A template asks for something that its input does not have."""


def template_problem(template: Any) -> str | None:
    """Why ``template`` can never be filled, or None."""
    if isinstance(template, str):
        for found in _PLACE.finditer(template):
            path = found.group(1).removeprefix("args.")
            if found.group(1) != "query" and not _PATH.fullmatch(path):
                return f"no path (got {{args.{path}}}; names, '.' and [0])"
        return None
    if isinstance(template, Mapping):
        leaves = [inner for key, inner in template.items() if key != "statement"]
    else:
        leaves = list(template) if isinstance(template, Sequence) else []
    return next((problem for leaf in leaves if (problem := template_problem(leaf))), None)


def bare_template(template: Any) -> str | None:
    """The first placeholder that stands without quotes, or None.

    YAML reads ``{args.to}`` as a mapping whose one key has no value, which would be sent as it is.
    """
    if isinstance(template, Mapping):
        if len(template) == 1:
            key, inner = next(iter(template.items()))
            if inner is None and str(key).startswith("args.") and _PLACE.fullmatch(f"{{{key}}}"):
                return str(key)
        leaves = list(template.values())
    else:
        is_list = isinstance(template, Sequence) and not isinstance(template, str)
        leaves = list(template) if is_list else []
    return next((bare for leaf in leaves if (bare := bare_template(leaf))), None)


def places(template: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Each argument that ``template`` asks for: the path of its leaf and the argument's name."""
    if isinstance(template, str):
        for found in _PLACE.finditer(template):
            if found.group(1) != "query":
                name = found.group(1).removeprefix("args.")
                yield (), re.split(r"[.\[]", name, maxsplit=1)[0]
    elif isinstance(template, Mapping):
        for key, inner in template.items():
            if key != "statement":
                yield from (((key, *path), name) for path, name in places(inner))
    elif isinstance(template, Sequence):
        for index, inner in enumerate(template):
            yield from (((index, *path), name) for path, name in places(inner))


def literal_words(template: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Words in braces that are no placeholders: the path of the leaf, and the word."""
    if isinstance(template, str):
        for found in _LITERAL.finditer(template):
            if not _PLACE.fullmatch(found.group()):
                yield (), found.group()[1:-1]
    elif isinstance(template, Mapping):
        for key, inner in template.items():
            if key != "statement":
                yield from (((key, *path), word) for path, word in literal_words(inner))
    elif isinstance(template, Sequence):
        for index, inner in enumerate(template):
            yield from (((index, *path), word) for path, word in literal_words(inner))


class _Unread(dict[str, Any]):
    """An empty mapping, for a text of which nothing was read; only who asks is told why."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


def mapping_of(value: object) -> Mapping[str, Any]:
    """What ``{args.PATH}`` looks into: a mapping, or a text that is a JSON object; else nothing."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            read = read_json(value)
        except UnreadableError as error:
            return _Unread(str(error))
        if isinstance(read, dict):
            return read
    return {}


def lookup(value: object, path: str) -> object:
    """The value at ``path`` (``to``, ``items[0].id``).

    Raises:
        TemplateError: Nothing is there.
    """
    if not _PATH.fullmatch(path):
        raise TemplateError(f"no path (got '{path}'; names, '.' and [0])")
    found = value
    for step in _STEP.finditer(path):
        found = _step(found, step)
        if found is _ABSENT:
            why = f" ({value.why})" if isinstance(value, _Unread) else ""
            raise TemplateError(f"the input has no '{path}'{why}")
    return found


def _step(value: object, step: re.Match[str]) -> object:
    if step.group(1) is not None:
        return value.get(step.group(1), _ABSENT) if isinstance(value, Mapping) else _ABSENT
    position = int(step.group(2))
    if isinstance(value, Sequence) and not isinstance(value, str) and position < len(value):
        return value[position]
    return _ABSENT


def fill_text(template: str, *, query: str, args: Mapping[str, Any]) -> str:
    """Replace the placeholders in one text; every other brace is literal.

    Raises:
        TemplateError: A path names nothing.
    """
    return _PLACE.sub(lambda found: text_of(_value(found.group(1), query, args)), template)


def fill(template: Any, *, query: str, args: Mapping[str, Any]) -> Any:
    """Fill a mapping leaf by leaf.

    A leaf that is one placeholder and nothing else takes the value with its type, so that an
    amount stays a number. The key ``statement`` is never a template: what goes into a statement
    goes through its parameters.

    Raises:
        TemplateError: A path names nothing.
    """
    if isinstance(template, str):
        whole = _PLACE.fullmatch(template)
        if whole is not None:
            return _value(whole.group(1), query, args)
        return fill_text(template, query=query, args=args)
    if isinstance(template, Mapping):
        return {
            key: inner if key == "statement" else fill(inner, query=query, args=args)
            for key, inner in template.items()
        }
    if isinstance(template, Sequence):
        return [fill(inner, query=query, args=args) for inner in template]
    return template


def _value(name: str, query: str, args: Mapping[str, Any]) -> Any:
    return query if name == "query" else lookup(args, name.removeprefix("args."))

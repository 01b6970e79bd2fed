"""Builds plain values with places from the events of a YAML parser."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from pytest_evarness.errors import InputError, Where
from pytest_evarness.source.limit import MAX_ALIAS_NODES, MAX_ALIAS_TEXT, MAX_DEPTH, MAX_MISTAKES
from pytest_evarness.source.mistake import raise_all
from pytest_evarness.source.place import Mark, Places, field_text
from pytest_evarness.source.quote import kind, quoted, shown
from pytest_evarness.source.scalar import RefusedError, resolve

__all__ = ["LOADER", "read_yaml"]

# libyaml where it is there (seven times as fast), else PyYAML's own parser.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# c-printable of YAML 1.2; U+FEFF inside is allowed by it and kept as it is. Left out are the line
# ends that a reader of the file does not see as such, while some parsers do: what follows one in
# a comment would be a key.
_REFUSED = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\r(?!\n)"
)
_LINE_ENDS = {"\x85": "next line", "\u2028": "line separator", "\u2029": "paragraph separator"}
_SURROGATE = re.compile("[\ud800-\udfff]")

_CORE = "tag:yaml.org,2002:"
_MERGE = object()


def read_yaml(
    text: str,
    shown: str | None,
    loader: Any = None,
    *,
    kept: list[InputError] | None = None,
) -> tuple[Any, Places, Mark | None]:
    """Value, places and the root's own place of one document.

    Args:
        text: The document.
        shown: The file as messages name it.
        loader: Another parser of PyYAML.
        kept: Takes the mistakes that leave the rest readable, instead of raising them.

    Raises:
        InputError: Any mistake; several come as InputErrors.
    """
    refused = _REFUSED.search(text)
    if refused is not None:
        raise _character_error(text, refused.start(), shown)
    builder = _Builder(text, shown, loader or LOADER)
    is_readable = False
    try:
        result = builder.document()
        is_readable = True
    except yaml.MarkedYAMLError as error:
        from pytest_evarness.source.yamlmistake import syntax_error

        builder.errors.append(syntax_error(error, text, shown))
        result = (None, builder.places, None)
    except (yaml.YAMLError, RecursionError) as error:
        builder.errors.append(
            InputError(f"is no YAML ({type(error).__name__})", where=Where(shown))
        )
        result = (None, builder.places, None)
    except _StopError:
        result = (None, builder.places, None)
    if is_readable and kept is not None:
        kept.extend(builder.errors)
    else:
        raise_all(builder.errors)
    return result


def _character_error(text: str, start: int, shown: str | None) -> InputError:
    char = text[start]
    code = ord(char)
    got = f"got U+{code:04X} at character {start}"
    escape = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    fix = f'write it as an escape in double quotes, "{escape}"'
    if char == "\r":
        problem = f"a carriage return alone ends a line for some readers of YAML only ({got})"
        fix = 'save the file with line ends LF, or write it as an escape in double quotes, "\\r"'
    elif char in _LINE_ENDS:
        name = _LINE_ENDS[char]
        problem = f"a {name} ends a line for some readers of YAML only ({got})"
    else:
        problem = f"a control character has no place in YAML ({got})"
    line = text.count("\n", 0, start)
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return InputError(problem, where=Where(shown, line + 1, column), fix=fix)


class _StopError(Exception):
    """The document cannot be read any further; what is wrong is in ``errors``."""


class _Builder:
    """Reads the events of one document.

    Values, places and sizes are built together; a mistake that leaves the rest readable is noted
    and reading goes on, so that all of a file's mistakes are told at once.
    """

    def __init__(self, text: str, shown: str | None, loader: Any) -> None:
        parser = loader(text)
        self.next = parser.get_event
        self.shown = shown
        self.places = Places()
        self.errors: list[InputError] = []
        self.path: list[str | int] = []
        # Anchor to (value, mark, nodes, characters of text); None while it is still being read.
        self.anchors: dict[str, tuple[Any, Mark, int, int] | None] = {}
        self.alias_nodes = 0
        self.alias_text = 0
        self.nodes = 0
        self.text = 0
        self.may_hold_surrogates = "\\u" in text or "\\U" in text

    def document(self) -> tuple[Any, Places, Mark | None]:
        self.next()  # StreamStart
        start = self.next()
        if isinstance(start, StreamEndEvent):
            return None, self.places, None
        assert isinstance(start, DocumentStartEvent), start
        if start.version is not None and tuple(start.version) != (1, 2):
            version = ".".join(str(part) for part in start.version)
            self.wrong(
                f"must be YAML 1.2 (got %YAML {version}; there 'NO' and '010' mean something else)",
                start.start_mark,
                fix="remove the %YAML line",
            )
        value, mark = self.node(self.next(), 0)
        end = self.next()
        assert isinstance(end, DocumentEndEvent), end
        after = self.next()
        if not isinstance(after, StreamEndEvent):
            self.wrong("a second document in one file (one file, one document)", after.start_mark)
        return value, self.places, mark

    # -- mistakes ---------------------------------------------------------------------------

    def wrong(self, problem: str, mark: Any, *, fix: str | None = None) -> None:
        field = field_text(self.path) or None
        where = Where(self.shown, mark.line + 1, mark.column + 1, field)
        self.errors.append(InputError(problem, where=where, fix=fix))
        if len(self.errors) >= MAX_MISTAKES:
            raise _StopError

    def stop(self, problem: str, mark: Any, *, fix: str | None = None) -> NoReturn:
        self.wrong(problem, mark, fix=fix)
        raise _StopError

    # -- values -----------------------------------------------------------------------------

    def node(self, event: Any, depth: int) -> tuple[Any, Mark]:
        kind_of_event = event.__class__
        start = event.start_mark
        line, column = start.line + 1, start.column + 1
        mark: Mark = (line, column, line, column, self.shown)
        if kind_of_event is AliasEvent:
            return self.alias(event, mark)
        nodes, text = self.nodes, self.text
        anchor = event.anchor
        if anchor is not None:
            self.anchors[anchor] = None
        value: Any
        if kind_of_event is ScalarEvent:
            value = self.scalar(event)
        else:
            if depth >= MAX_DEPTH:
                self.stop(f"is nested too deeply (got more than {MAX_DEPTH} levels)", start)
            if kind_of_event is MappingStartEvent:
                value = self.mapping(event, depth)
            else:
                value = self.sequence(event, depth)
        if anchor is not None:
            self.anchors[anchor] = (value, mark, self.nodes - nodes, self.text - text)
        return value, mark

    def alias(self, event: Any, mark: Mark) -> tuple[Any, Mark]:
        name = event.anchor
        if name not in self.anchors:
            self.wrong(f"alias of an anchor that is not there (got '*{name}')", event.start_mark)
            return None, mark
        target = self.anchors[name]
        if target is None:
            self.wrong(f"an alias inside its own anchor (got '*{name}')", event.start_mark)
            return None, mark
        value, _, nodes, text = target
        # The counters hold what the tree has once every alias is written out, so that a later
        # anchor around this alias is counted with it.
        self.nodes += nodes
        self.text += text
        self.alias_nodes += nodes
        self.alias_text += text
        if self.alias_nodes > MAX_ALIAS_NODES:
            self.stop(
                f"alias expansion is limited (got more than {MAX_ALIAS_NODES} nodes at '*{name}')",
                event.start_mark,
            )
        if self.alias_text > MAX_ALIAS_TEXT:
            self.stop(
                "alias expansion is limited "
                f"(got more than {MAX_ALIAS_TEXT} characters at '*{name}')",
                event.start_mark,
            )
        return value, mark

    def scalar(self, event: Any) -> Any:
        text: str = event.value
        self.nodes += 1
        self.text += len(text)
        tag = event.tag
        if tag is None or tag == "!":
            if event.implicit[0] and tag is None:
                try:
                    return resolve(text)
                except RefusedError as error:
                    self.wrong(error.problem, event.start_mark, fix=error.fix)
                    return text
        elif tag != _CORE + "str":
            return self.tagged(event, text, tag)
        if self.may_hold_surrogates and _SURROGATE.search(text):
            self.wrong("holds a lone surrogate", event.start_mark)
        return text

    def tagged(self, event: Any, text: str, tag: str) -> Any:
        names = {"int": "integer", "float": "number", "bool": "boolean", "null": "null"}
        wanted = names.get(tag.removeprefix(_CORE)) if tag.startswith(_CORE) else None
        if wanted is None:
            self.refuse_tag(tag, event.start_mark)
            return text
        try:
            value = resolve(text)
        except RefusedError as error:
            self.wrong(error.problem, event.start_mark, fix=error.fix)
            return text
        if wanted == "number" and kind(value) == "integer":
            from pytest_evarness.source.number import WrittenFloat

            return WrittenFloat(text) if text.lstrip("+-").isdigit() else float(str(value))
        if kind(value) != wanted:
            self.wrong(f"must be {wanted} as its tag says (got {shown(text)})", event.start_mark)
        return value

    def refuse_tag(self, tag: str, mark: Any) -> None:
        short = tag.replace(_CORE, "!!")
        self.wrong(f"tags are refused (got {quoted(short)}; plain values only)", mark)

    def sequence(self, event: Any, depth: int) -> list[Any]:
        if event.tag not in (None, "!", _CORE + "seq"):
            self.refuse_tag(event.tag, event.start_mark)
        self.nodes += 1
        items: list[Any] = []
        marks: list[Mark] = []
        path = self.path
        path.append(0)
        following = self.next
        while True:
            event = following()
            if event.__class__ is SequenceEndEvent:
                break
            value, mark = self.node(event, depth + 1)
            items.append(value)
            marks.append(mark)
            path[-1] = len(items)
        path.pop()
        self.places.note(items, marks)
        return items

    def mapping(self, event: Any, depth: int) -> dict[str, Any]:
        if event.tag not in (None, "!", _CORE + "map"):
            self.refuse_tag(event.tag, event.start_mark)
        self.nodes += 1
        items: dict[str, Any] = {}
        marks: dict[str, Mark] = {}
        merged: list[tuple[Any, Any]] = []
        merge_line = 0
        path = self.path
        path.append("")
        following = self.next
        while True:
            event = following()
            if event.__class__ is MappingEndEvent:
                break
            start = event.start_mark
            key = self.key(event, depth)
            if key is _MERGE:
                path[-1] = "<<"
                if merge_line:
                    self.duplicate("<<", merge_line, start)
                merge_line = start.line + 1
                event = following()
                merged.append((self.node(event, depth + 1)[0], event.start_mark))
                continue
            path[-1] = key
            event = following()
            value, at = self.node(event, depth + 1)
            if key in items:
                self.duplicate(key, marks[key][0] or 0, start)
                continue
            items[key] = value
            marks[key] = (start.line + 1, start.column + 1, at[2], at[3], self.shown)
        path.pop()
        for value, mark in merged:
            self.merge(items, marks, value, mark)
        self.places.note(items, marks)
        return items

    def key(self, event: Any, depth: int) -> Any:
        if event.__class__ is ScalarEvent:
            text: str = event.value
            if event.implicit[0] and event.tag is None:
                if text == "<<":
                    return _MERGE
                # Not the value's own rules: a leading zero is as much a text here as any word.
                try:
                    value = resolve(text)
                except RefusedError:
                    value = None
                if value.__class__ is str:
                    self.nodes += 1
                    if event.anchor is not None:
                        self.node(event, depth + 1)
                    return text
                self.path.pop()
                self.wrong(
                    f"a key must be text (got {quoted(text)}, which YAML reads as {kind(value)})"
                    if value is not None or text in ("", "~") or text.lower() == "null"
                    else f"a key must be text (got {quoted(text)}, which is not)",
                    event.start_mark,
                    fix=f'write "{text}" with quotes',
                )
                self.path.append(text)
                return text
        value, _ = self.node(event, depth + 1)
        if value.__class__ is str:
            return value
        self.path.pop()
        self.wrong(f"a key must be text (got {shown(value, 60)})", event.start_mark)
        self.path.append("")
        return shown(value, 60)

    def duplicate(self, key: str, first: int, mark: Any) -> None:
        self.path.pop()
        self.wrong(
            f"duplicate key (got {quoted(key)} on line {mark.line + 1}; first on line {first})",
            mark,
        )
        self.path.append(key)

    def merge(self, items: dict[str, Any], marks: dict[str, Mark], value: Any, mark: Any) -> None:
        # A key written in the mapping itself wins. Between sources readers of YAML do not agree
        # on an order, so a key that is written in two of them is as wrong as one written twice.
        written = frozenset(items)
        for source in value if isinstance(value, list) else (value,):
            if not isinstance(source, dict):
                self.wrong(
                    f"'<<' takes a mapping or a list of mappings (got {shown(source, 60)})", mark
                )
                continue
            source_marks = self.places.marks_of(source)
            assert isinstance(source_marks, dict), "every mapping is noted"
            for key, entry in source.items():
                if key in written:
                    continue
                if key not in items:
                    items[key] = entry
                    marks[key] = source_marks[key]
                elif marks[key] != source_marks[key]:  # else both merged it from one place
                    first, second = marks[key][0], source_marks[key][0]
                    self.wrong(
                        "two merged mappings give the same key"
                        f" (got {quoted(key)} on line {first} and on line {second})",
                        mark,
                        fix="write the key in the mapping itself",
                    )

"""The check ``file_content``.

Of the disk only the text of a file is read, never through a link, and only if it still is what was
sealed.

Source: docs/checks/file_content.md.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import Field

from pytest_evarness.checks.excerpt import ask_excerpt, read_text_matcher
from pytest_evarness.checks.jsonvalue import NoJsonError, read_value
from pytest_evarness.checks.kind import Facts, Known, UnavailableError
from pytest_evarness.checks.places import (
    FileKind,
    GlobText,
    PathText,
    Told,
    look,
    named,
    place_of,
    trouble_at,
)
from pytest_evarness.checks.written import NonEmpty, Texts, schema_of
from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import Matcher, parse_matcher, parse_path
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.triviality import triviality
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Absent, Strict, parse_model

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.world.sealed import Scene

__all__ = ["READ_BYTES", "FileContent"]

READ_BYTES = 64 * 1024 * 1024
"""How much one check reads of all its files together."""

MAX_TEXTS = 1_000
_PART = 1 << 20
_MAX_SLOW = 3
_SHOWN = 400

# Not encodings of files: they differ between systems, or give texts that no JSON can hold.
_NO_ENCODINGS = frozenset(
    {
        "idna",
        "mbcs",
        "oem",
        "punycode",
        "raw_unicode_escape",
        "undefined",
        "unicode_escape",
        "utf-7",
    }
)
_FLAGS = {"multiline": "m", "ignorecase": "i", "dotall": "s"}


class _Content(Strict):
    type: Literal["file_content"]
    path: Absent[PathText] = None
    glob: Absent[GlobText] = None
    contains: Absent[Texts] = Field(default=None, description="Texts that are in it.")
    not_contains: Absent[Texts] = Field(default=None, description="Texts that are not.")
    pattern: Absent[Texts] = Field(default=None, description="Expressions found in it.")
    equals: Absent[str] = Field(default=None, description="The whole text.")
    json_: Absent[dict[str, Any]] = Field(
        default=None, alias="json", description="A matcher by path, over the file as JSON."
    )
    encoding: NonEmpty = Field(default="utf-8", description="Of the file.")
    flags: list[Literal["multiline", "ignorecase", "dotall"]] = Field(
        default_factory=list, description="Of every pattern."
    )


class FileContent(FileKind):
    """What a file says."""

    @property
    def name(self) -> str:
        """``file_content``."""
        return "file_content"

    @property
    def schema(self) -> JsonObject:
        """Of the mapping under ``check``."""
        return schema_of(_Content, names_a_place=True)

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """See :class:`CheckKind`."""
        del known
        place, faults = place_of(value)
        model, more = parse_model(_Content, value)
        faults += more
        if model is None:
            return {}, faults
        definition: dict[str, Any] = {
            "type": "file_content",
            **place,
            "contains": list(model.contains or ()),
            "not_contains": list(model.not_contains or ()),
            "pattern": list(model.pattern or ()),
            "equals": model.equals,
            "json": dict(model.json_ or {}),
            "encoding": model.encoding,
            "flags": sorted(set(model.flags)),
        }
        conditions = ("contains", "not_contains", "pattern", "json")
        if not any(definition[key] for key in conditions) and model.equals is None:
            rule = "at least one of contains, not_contains, pattern, equals, json"
            faults.append(Fault((), "asks nothing of the file", rule=rule))
        if model.json_ is not None and not model.json_:
            faults.append(Fault(("json",), "must not be empty", got="{}"))
        if model.flags and not definition["pattern"]:
            faults.append(Fault(("flags",), "go with 'pattern' only", at_key=True))
        faults += _encoding_faults(definition)
        faults += _condition_faults(definition)
        return ({} if faults else definition), faults

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        """The places, and the text of each file there."""
        record: dict[str, Any] = look(definition, scene.snapshot)
        files = [place for place in record["places"] if place.get("type") == "file"]
        if len(files) > MAX_TEXTS:
            raise UnavailableError(
                Cause.MISSING_EVIDENCE,
                f"{named(definition)} stands for {len(files):,} files, of which at most"
                f" {MAX_TEXTS:,} are read",
            )
        reader = _Reader(scene, str(definition["encoding"]))
        for place in files:
            if not place.get("unreadable"):
                place.update(reader.read(place["path"], place["real"]))
        return record

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """See :class:`CheckKind`."""
        del facts
        definition: Mapping[str, Any] = item.definition or {}
        places = cast("list[Mapping[str, Any]]", gathered["places"])
        conditions = _Conditions(definition)
        told = Told()
        name = named(definition)
        if "glob" in definition:
            # Folders that a pattern happens to stand for have no text and are none of its business.
            places = [place for place in places if place.get("type") != "directory"]
            if gathered["doubt"] is not None:
                told.leave(Cause.MISSING_EVIDENCE, f"{name}: {gathered['doubt']}")
            elif not places:
                told.failed.append(f"{name} stands for no file, so there is no text")
        for place in places:
            self._judge_place(place, conditions, told)
        many = f" in each of {len(places):,} files" if "glob" in definition else ""
        return told.finding(
            item,
            gathered,
            passed=f"{name} {conditions.describe(held=True)}{many}",
            expected=f"{name} {conditions.describe(held=True)}",
            places=places,
            absent=tuple(f"no {shown(text, 80)} in {name}" for text in definition["not_contains"]),
        )

    @staticmethod
    def _judge_place(place: Mapping[str, Any], conditions: _Conditions, told: Told) -> None:
        path = place["path"]
        if place["state"] == "hidden":
            told.leave(Cause.MISSING_EVIDENCE, f"{path}: {place['why']}")
            return
        trouble = trouble_at(place)
        if trouble is not None:
            told.failed.append(f"{trouble}, so it has no text")
        elif place["type"] != "file":
            told.failed.append(f"{path} is a {place['type']}, not a file, so it has no text")
        elif place.get("unreadable"):
            told.leave(Cause.MALFORMED_EVIDENCE, f"{path} is there and cannot be read")
        elif "undecodable" in place:
            bad = place["undecodable"]
            why = (
                f"{path} is not {conditions.encoding} (byte {bad['byte']} at offset {bad['at']:,})"
            )
            told.leave(Cause.MALFORMED_EVIDENCE, why)
        else:
            size = place["size"] if place["is_cut"] else None
            conditions.judge(path, place["text"], size, told)

    def consistent(
        self, definition: JsonObject, gathered: JsonObject, world: JsonObject
    ) -> str | None:
        """The places as the sealed world has them, and the texts by their digests."""
        contradiction = super().consistent(definition, gathered, world)
        if contradiction is not None:
            return contradiction
        workspace = cast("Mapping[str, Any]", world["workspace"])
        entries = {entry["path"]: entry for entry in workspace["files"]}
        untold = None
        told = cast("list[Mapping[str, Any]]", gathered["places"])
        sizes = _sizes(told, world)
        if sizes is not None and sum(sizes) <= READ_BYTES and any(map(_is_cut, told)):
            return "a text was cut although all of them together are short enough to be read"
        for place in told:
            if place.get("type") != "file" or place.get("unreadable"):
                continue
            entry = entries[place["real"]]
            is_sure = definition["encoding"] in ("utf-8", "ascii", "iso8859-1")
            if entry.get("masked") or place.get("is_cut") or "text" not in place or not is_sure:
                untold = untold or f"the digest of {place['path']} does not tell its text"
                continue
            data = place["text"].encode(definition["encoding"], "surrogatepass")
            if entry.get("sha256") != _digest(data):
                return f"the text of {place['path']} is not the one whose digest was sealed"
        if untold is not None:
            raise UnavailableError(Cause.MISSING_EVIDENCE, untold)
        return None

    def largest(self, definition: JsonObject, world: JsonObject) -> int | None:
        """Of the places and the longest texts that files of these sizes can have."""
        places = super().largest(definition, world)
        sizes = _sizes(look(definition, world)["places"], world) if places is not None else None
        if places is None or sizes is None:
            return None
        # A byte is one character at most, which is written as six.
        return places + sum(_AROUND_TEXT + 6 * size for size in sizes)


_AROUND_TEXT = len(',"is_cut":false,"text":"","undecodable":{"at":9007199254740991,"byte":"0xff"}')


def _sizes(places: Any, world: Mapping[str, Any]) -> list[int] | None:
    """Sizes of the files at these places; None where the world does not tell one."""
    entries = {entry["path"]: entry for entry in world["workspace"]["files"]}
    files = [entries[one["real"]] for one in places if one.get("type") == "file"]
    if any("size" not in one or one.get("masked") or one.get("unreadable") for one in files):
        return None
    return [one["size"] for one in files]


def _is_cut(place: Mapping[str, Any]) -> bool:
    return bool(place.get("is_cut"))


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _encoding_faults(definition: dict[str, Any]) -> list[Fault]:
    """Put the encoding's own name into the definition, or say why it has none."""
    written = definition["encoding"]
    try:
        name = codecs.lookup(written).name
        "".encode(name)  # one that is no encoding of texts refuses
    except (LookupError, ValueError):
        name = ""
    if not name or name.replace("_", "-") in {one.replace("_", "-") for one in _NO_ENCODINGS}:
        rule = "such as utf-8, utf-8-sig, utf-16, latin-1"
        return [Fault(("encoding",), "is no encoding", got=shown(written), rule=rule)]
    definition["encoding"] = name
    return []


def _condition_faults(definition: Mapping[str, Any]) -> list[Fault]:
    faults: list[Fault] = []
    for word in ("contains", "not_contains", "pattern"):
        for text in definition[word]:
            spec = {word: _flagged(text, definition) if word == "pattern" else text}
            _, found_faults = read_text_matcher(spec, word)
            faults += [
                Fault((word,), fault.problem, got=shown(text, 60), rule=fault.rule, fix=fault.fix)
                for fault in found_faults
            ]
    for path, spec in definition["json"].items():
        try:
            parse_path(path)
        except ValueError as error:
            faults.append(Fault(("json", path), f"is no path: {error}", at_key=True))
            continue
        matcher, inner = parse_matcher(spec)
        if matcher is None:
            faults += [fault.under("json", path) for fault in inner]
            continue
        says = triviality(matcher, None, may_miss=True)
        if says is not None:
            which = "every value" if says == "always" else "no value"
            faults.append(Fault(("json", path), f"holds of {which}", got=shown(spec, 60)))
    return faults


def _flagged(expression: str, definition: Mapping[str, Any]) -> str:
    letters = "".join(_FLAGS[flag] for flag in definition["flags"])
    return f"(?{letters}){expression}" if letters else expression


class _Reader:
    """Reads sealed files, never through a link, within one budget."""

    def __init__(self, scene: Scene, encoding: str) -> None:
        self._root = scene.workspace
        self._encoding = encoding
        self._left = READ_BYTES
        workspace = cast("Mapping[str, Any]", scene.snapshot["workspace"])
        self._entries = {entry["path"]: entry for entry in workspace["files"]}

    def read(self, path: str, real: str) -> dict[str, Json]:
        """``{text, is_cut}``, or where it is no text of the encoding.

        Raises:
            UnavailableError: It cannot be read, or is not what was sealed.
        """
        entry = self._entries[real]
        try:
            data, is_cut = self._bytes(entry, real)
        except OSError as error:
            raise UnavailableError(
                Cause.MALFORMED_EVIDENCE, f"{path} cannot be read ({error.strerror})"
            ) from None
        sealed = entry.get("sha256")
        if not is_cut and sealed is not None and sealed != _digest(data):
            raise UnavailableError(
                Cause.STALE_EVIDENCE, f"{path} was changed after the world was sealed"
            )
        decoder = codecs.getincrementaldecoder(self._encoding)("strict")
        try:
            return {"text": decoder.decode(data, not is_cut), "is_cut": is_cut}
        except UnicodeDecodeError as error:
            byte = f"0x{error.object[error.start]:02x}"
            return {"undecodable": {"at": error.start, "byte": byte}, "is_cut": is_cut}

    def _bytes(self, entry: Mapping[str, Any], real: str) -> tuple[bytes, bool]:
        number = self._open(entry, real)
        parts = []
        try:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise OSError(0, "it is no regular file any more")
            while self._left and (data := os.read(number, min(_PART, self._left))):
                parts.append(data)
                self._left -= len(data)
            is_cut = not self._left and bool(os.read(number, 1))
        finally:
            os.close(number)
        return b"".join(parts), is_cut

    def _open(self, entry: Mapping[str, Any], real: str) -> int:
        """Go down one component at a time, so that none of them can be a link by now."""
        import base64

        assert self._root is not None, "needs says so"
        name = os.fsdecode(base64.b64decode(entry["raw"])) if "raw" in entry else real
        *folders, last = name.split("/")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        here = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for folder in folders:
                below = os.open(folder, flags | os.O_DIRECTORY, dir_fd=here)
                os.close(here)
                here = below
            return os.open(last, flags, dir_fd=here)
        finally:
            os.close(here)


class _Conditions:
    """The conditions of one definition, each asked of whole texts."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self.encoding: str = definition["encoding"]
        self._definition = definition
        self._slow = 0
        self._matchers = list(self._read(definition))
        self._json = {path: _matcher(spec) for path, spec in sorted(definition["json"].items())}

    @staticmethod
    def _read(definition: Mapping[str, Any]) -> Iterator[tuple[str, str, Matcher]]:
        """Condition, its text as it was written, and its matcher."""
        for word in ("contains", "not_contains"):
            for text in definition[word]:
                yield word, text, _matcher({word: text})
        for text in definition["pattern"]:
            yield "pattern", text, _matcher({"pattern": _flagged(text, definition)})
        if definition["equals"] is not None:
            yield "equals", definition["equals"], _matcher({"equals": definition["equals"]})

    def describe(self, *, held: bool) -> str:
        """All of them in words."""
        words = [_says(word, text, held=held) for word, text, _ in self._matchers]
        words += [f"{path} {matcher.describe()}" for path, matcher in self._json.items()]
        return " and ".join(words)

    def judge(self, path: str, text: str, size: int | None, told: Told) -> None:
        """Ask every condition of one text.

        Args:
            path: Whose text it is.
            text: As far as it was read.
            size: Bytes of the whole file where only its first part was read, else None.
            told: Takes what speaks against it.
        """
        for word, wanted, matcher in self._matchers:
            if word == "pattern" and self._slow >= _MAX_SLOW:
                continue  # it is open by now, and each further one would take its time as well
            answer = ask_excerpt(matcher, text, "", size)
            if answer.held is True:
                continue
            if answer.held is None:
                cause = answer.cause or Cause.EVALUATOR_ERROR
                self._slow += cause is Cause.EVALUATOR_ERROR
                told.leave(cause, f"{path}: {answer.why}")
                continue
            told.failed.append(f"{path} {_says(word, wanted, held=False)}")
            observed, notes = _Miss(text, self._definition).tell(word, wanted)
            told.observed.append(observed)
            told.notes += notes
        if self._json:
            self._judge_json(path, text, size, told)

    def _judge_json(self, path: str, text: str, size: int | None, told: Told) -> None:
        if size is not None:
            why = f"{path} has {size:,} bytes, too many to be read as JSON"
            told.leave(Cause.MISSING_EVIDENCE, why)
            return
        try:
            value = read_value(text)
        except NoJsonError as error:
            told.failed.append(f"{path} is not one JSON document: {error}")
            told.observed.append(shown(text, _SHOWN))
            if text.startswith("\ufeff"):
                told.notes.append("it begins with a byte-order mark: encoding: utf-8-sig")
            return
        for where, matcher in self._json.items():
            steps = parse_path(where)
            if not steps.has_star:
                met = steps.get(value)
                answer = matcher.test(met)
                held, why, cause = answer.held, answer.why, answer.cause
            else:
                verdict = steps.test(matcher.compile(), value)
                held = verdict if isinstance(verdict, bool) else None
                why = f"no element {matcher.describe()}" if held is False else str(verdict)
                cause = getattr(verdict, "cause", None)
            if held is True:
                continue
            # A value of another type does not meet what is asked of it: the file is all there.
            if held is None and cause is not Cause.MALFORMED_EVIDENCE:
                told.leave(cause or Cause.EVALUATOR_ERROR, f"{path}: {where}: {why}")
                continue
            told.failed.append(f"{path}: {where}: {why}")
            told.observed.append(shown(value, _SHOWN))


def _matcher(spec: Any) -> Matcher:
    matcher, faults = parse_matcher(spec)
    if matcher is None:
        raise UnavailableError(
            Cause.EVALUATOR_ERROR, f"the check cannot be read here: {faults[0].text}"
        )
    return matcher


def _says(word: str, text: str, *, held: bool) -> str:
    is_there = held is not (word == "not_contains")
    if word == "equals":
        return f"{'is' if held else 'is not'} {shown(text, 200)}"
    if word == "pattern":
        return f"{'matches' if held else 'does not match'} {shown(text, 200)}"
    return f"{'contains' if is_there else 'does not contain'} {shown(text, 200)}"


class _Miss:
    """Shows a reader what was met instead of what was asked."""

    def __init__(self, text: str, definition: Mapping[str, Any]) -> None:
        self._text = text
        self._definition = definition

    @cached_property
    def _folded(self) -> str:
        return self._text.replace("\r\n", "\n")

    def tell(self, word: str, wanted: str) -> tuple[str, list[str]]:
        """What was met, and what may explain it."""
        text = self._text
        notes = []
        if text.startswith("\ufeff") and not wanted.startswith("\ufeff"):
            notes.append(
                "the text begins with a byte-order mark (encoding: utf-8-sig leaves it out)"
            )
        if word == "not_contains":
            at = text.index(wanted)
            return f"line {text.count(chr(10), 0, at) + 1}: {self._around(at, len(wanted))}", notes
        if word == "equals":
            at = _parting(text, wanted)
            if at >= min(len(text), len(wanted)):
                longer = "longer" if len(text) > len(wanted) else "shorter"
                notes.append(f"the text is {longer}: {len(text):,} characters, not {len(wanted):,}")
            else:
                line = text.count("\n", 0, at) + 1
                notes.append(
                    f"they part in line {line}: {_glimpse(text, at)} instead of"
                    f" {_glimpse(wanted, at)}"
                )
            return self._around(at, 0), notes
        if word == "contains":
            if "\r\n" in text and wanted in self._folded:
                notes.append("it is there with \\r\\n at the ends of lines")
            elif wanted.casefold() in text.casefold():
                notes.append("it is there in other letter case")
        elif "m" not in _flagged("", self._definition) and any(one in wanted for one in "^$"):
            matcher, _ = parse_matcher({"pattern": _flagged(f"(?m){wanted}", self._definition)})
            if matcher is not None and matcher.test(text).held is True:
                notes.append(
                    "'^' and '$' are the start and the end of the text; with flags: [multiline]"
                    " it matches"
                )
        return shown(text, _SHOWN), notes

    def _around(self, at: int, length: int) -> str:
        start, end = max(0, at - 60), at + length + 60
        # The marks tell a reader, and whoever masks secrets, that more stands there.
        before = "…" if start else ""
        after = "…" if end < len(self._text) else ""
        return shown(f"{before}{self._text[start:end]}{after}", _SHOWN)


def _glimpse(text: str, at: int) -> str:
    """A few characters from a place on, with marks where more stands there."""
    return shown(f"{'…' if at else ''}{text[at : at + 42]}", 40)


def _parting(one: str, other: str) -> int:
    """Where two texts first differ."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low

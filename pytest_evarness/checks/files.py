"""The checks ``file_exists`` and ``file_absent``.

Source: docs/checks/file_exists.md, docs/checks/file_absent.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field

from pytest_evarness.checks.places import (
    FileKind,
    GlobText,
    PathText,
    Told,
    entry_line,
    named,
    place_of,
    trouble_at,
)
from pytest_evarness.checks.written import NonEmpty, schema_of
from pytest_evarness.core.json import shown
from pytest_evarness.core.matcher import parse_matcher
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.triviality import triviality
from pytest_evarness.errors import Fault
from pytest_evarness.source.model import Absent, Strict, parse_model

if TYPE_CHECKING:
    from pytest_evarness.checks.kind import Facts, Known
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem

__all__ = ["FileAbsent", "FileExists"]

_MODE = re.compile(r"0?[0-7]{3,4}\Z")
_SHA256 = re.compile(r"(?:sha256:)?[0-9a-f]{64}\Z")


class _Exists(Strict):
    type: Literal["file_exists"]
    path: Absent[PathText] = None
    glob: Absent[GlobText] = None
    kind: Absent[Literal["file", "directory", "symlink"]] = Field(
        default=None, description="What it is; default a regular file, links followed."
    )
    mode: Absent[NonEmpty] = Field(default=None, description='Permissions, such as "0644".')
    min_size: Absent[Annotated[int, Field(ge=1)]] = Field(default=None, description="Bytes.")
    sha256: Absent[NonEmpty] = Field(default=None, description="Digest of its bytes, hex.")
    count: Any = Field(
        default=None, description="With glob: how many, or a matcher over how many; default some."
    )


class _Absent(Strict):
    type: Literal["file_absent"]
    path: Absent[PathText] = None
    glob: Absent[GlobText] = None
    existed_before: Absent[bool] = Field(
        default=None, description="Whether it was there at the start; left out: either."
    )


class FileExists(FileKind):
    """Something is there, and is as described."""

    @property
    def name(self) -> str:
        """``file_exists``."""
        return "file_exists"

    @property
    def schema(self) -> JsonObject:
        """Of the mapping under ``check``."""
        return schema_of(_Exists, names_a_place=True)

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """See :class:`CheckKind`."""
        del known
        place, faults = place_of(value)
        model, more = parse_model(_Exists, value)
        faults += more
        if model is None:
            return {}, faults
        mode, sha256, count = model.mode, model.sha256, value.get("count")
        if mode is not None and not _MODE.match(mode):
            rule = 'three or four octal digits, such as "0644"'
            faults.append(Fault(("mode",), "is no mode", got=shown(mode), rule=rule))
        if sha256 is not None and not _SHA256.match(sha256.lower()):
            faults.append(
                Fault(("sha256",), "is no digest", got=shown(sha256), rule="64 hexadecimal digits")
            )
        if "count" in value:
            faults += _count_faults(count, is_glob=model.glob is not None)
        for key in ("min_size", "sha256", "mode"):
            asked = getattr(model, key) is not None
            if asked and (model.kind == "symlink" or (model.kind == "directory" and key != "mode")):
                rule = f"a {model.kind} has none that means the same everywhere"
                faults.append(Fault((key,), f"asks it of a {model.kind}", rule=rule, at_key=True))
        definition: dict[str, Json] = {
            "type": "file_exists",
            **place,
            "kind": model.kind,
            "mode": None if mode is None else mode.rjust(4, "0")[-4:],
            "min_size": model.min_size,
            "sha256": None
            if sha256 is None
            else f"sha256:{sha256.lower().removeprefix('sha256:')}",
            "count": count,
        }
        return ({} if faults else definition), faults

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """See :class:`CheckKind`."""
        del facts
        definition: Mapping[str, Any] = item.definition or {}
        places = cast("list[Mapping[str, Any]]", gathered["places"])
        told = Told()
        if "path" in definition:
            self._judge_one(definition, places[0], told)
            passed = f"{named(definition)} is there{_as_described(definition)}"
        else:
            counted = self._judge_many(definition, places, gathered, told)
            passed = f"{named(definition)} stands for {counted}{_as_described(definition)}"
        return told.finding(
            item,
            gathered,
            passed=passed,
            expected=f"{_wanted(definition)} at {named(definition)}{_as_described(definition)}",
            places=places,
        )

    def _judge_one(
        self, definition: Mapping[str, Any], place: Mapping[str, Any], told: Told
    ) -> None:
        if place["state"] == "hidden":
            told.leave(Cause.MISSING_EVIDENCE, f"{place['path']}: {place['why']}")
            return
        trouble = trouble_at(place)
        if trouble is not None:
            told.failed.append(trouble)
            return
        if not _is_kind(definition, place):
            met = place["itself"] if definition["kind"] == "symlink" else place["type"]
            told.failed.append(f"{place['path']} is a {met}, not {_wanted(definition)}")
            if definition["kind"] is None and met == "directory":
                told.notes.append("to ask for a directory write 'kind: directory'")
            return
        self._judge_details(definition, place, told)

    def _judge_many(
        self,
        definition: Mapping[str, Any],
        places: Sequence[Mapping[str, Any]],
        gathered: Mapping[str, Any],
        told: Told,
    ) -> str:
        right = [
            place for place in places if place["state"] == "there" and _is_kind(definition, place)
        ]
        hidden = [place["why"] for place in places if place["state"] == "hidden"]
        doubt = gathered["doubt"] or (hidden[0] if hidden else None)
        for place in right:
            self._judge_details(definition, place, told)
        noun = {"file": "file", "directory": "directory", "symlink": "symlink"}[
            definition["kind"] or "file"
        ]
        plural = "directories" if noun == "directory" else f"{noun}s"
        counted = f"{len(right):,} {noun if len(right) == 1 else plural}"
        wanted = definition["count"]
        if wanted is None:
            holds, rule = bool(right), "at least one"
            is_open = doubt is not None and not holds
        else:
            matcher, _ = parse_matcher(wanted)
            assert matcher is not None, "the loader parsed it"
            holds, rule = matcher.test(len(right)).held is True, f"count {matcher.describe()}"
            is_open = doubt is not None
        if is_open:
            told.leave(Cause.MISSING_EVIDENCE, f"{counted} found, and there may be more: {doubt}")
        elif not holds:
            others = [place for place in places if place not in right]
            beside = f" (and {entry_line(others[0])})" if others and not right else ""
            told.failed.append(
                f"{named(definition)} stands for {counted}{beside}; asked for {rule}"
            )
        return counted

    @staticmethod
    def _judge_details(definition: Mapping[str, Any], place: Mapping[str, Any], told: Told) -> None:
        path = place["path"]
        if definition["kind"] == "symlink":
            return
        if place.get("unreadable"):
            told.leave(Cause.MALFORMED_EVIDENCE, f"{path} is there and cannot be read")
            return
        mode, least, digest = definition["mode"], definition["min_size"], definition["sha256"]
        if mode is not None and place["mode"] != mode:
            told.failed.append(f"{path} has mode {place['mode']}, not {mode}")
        if least is not None and place["size"] < least:
            told.failed.append(f"{path} has {place['size']:,} bytes, fewer than {least:,}")
        if digest is not None and "sha256" not in place:
            told.leave(Cause.MISSING_EVIDENCE, f"{path} is too large to have been digested")
        elif digest is not None and place["sha256"] != digest:
            told.failed.append(f"{path} has the digest {place['sha256']}, not {digest}")


def _count_faults(count: Any, *, is_glob: bool) -> list[Fault]:
    if not is_glob:
        rule = "a path stands for one"
        return [Fault(("count",), "goes with 'glob' only", rule=rule, at_key=True)]
    matcher, faults = parse_matcher(count)
    if matcher is None:
        return [fault.under("count") for fault in faults]
    says = triviality(matcher, {"type": "integer", "minimum": 0})
    if says is not None:
        word = "every" if says == "always" else "no"
        return [
            Fault(
                ("count",),
                f"holds of {word} number",
                got=shown(count),
                rule="a number, or operators",
            )
        ]
    if matcher.test(0).held is not False:
        return [
            Fault(
                ("count",),
                "holds where nothing is there",
                got=shown(count),
                rule="file_exists asks for something",
                fix="write 'type: file_absent', or ask for at least 1",
            )
        ]
    return []


def _is_kind(definition: Mapping[str, Any], place: Mapping[str, Any]) -> bool:
    if definition["kind"] == "symlink":
        return bool(place.get("itself") == "symlink")
    return bool(place["type"] == (definition["kind"] or "file"))


def _wanted(definition: Mapping[str, Any]) -> str:
    return {None: "a regular file", "file": "a regular file"}.get(
        definition["kind"], f"a {definition['kind']}"
    )


def _as_described(definition: Mapping[str, Any]) -> str:
    words = []
    if definition["mode"] is not None:
        words.append(f"mode {definition['mode']}")
    if definition["min_size"] is not None:
        words.append(f"at least {definition['min_size']:,} bytes")
    if definition["sha256"] is not None:
        words.append(definition["sha256"])
    return f", {', '.join(words)}" if words else ""


class FileAbsent(FileKind):
    """Nothing is there."""

    @property
    def name(self) -> str:
        """``file_absent``."""
        return "file_absent"

    @property
    def schema(self) -> JsonObject:
        """Of the mapping under ``check``."""
        return schema_of(_Absent, names_a_place=True)

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """See :class:`CheckKind`."""
        del known
        place, faults = place_of(value)
        model, more = parse_model(_Absent, value)
        faults += more
        if model is None:
            return {}, faults
        definition = {"type": "file_absent", **place, "existed_before": model.existed_before}
        return ({} if faults else definition), faults

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """See :class:`CheckKind`."""
        del facts
        definition: Mapping[str, Any] = item.definition or {}
        places = cast("list[Mapping[str, Any]]", gathered["places"])
        name = named(definition)
        told = Told()
        for place in places:
            self._judge_place(place, told)
        if "glob" in definition and gathered["doubt"] is not None:
            told.leave(Cause.MISSING_EVIDENCE, f"{name}: {gathered['doubt']}")
        before, was_there = definition["existed_before"], bool(gathered["was_there"])
        if not told.failed and before is not None and before is not was_there:
            told.failed.append(
                f"nothing is at {name}, but nothing was there at the start either"
                if before
                else f"nothing is at {name} any more, but something was there at the start"
            )
        gone = " (the workspace itself is gone)" if gathered["is_gone"] else ""
        then = ", and it was there at the start" if before else ""
        return told.finding(
            item,
            gathered,
            passed=f"nothing is at {name}{then}{gone}",
            expected=f"nothing at {name}",
            places=[place for place in places if place["state"] != "missing"],
            absent=(f"no entry at {name}",),
        )

    @staticmethod
    def _judge_place(place: Mapping[str, Any], told: Told) -> None:
        path, state = place["path"], place["state"]
        trouble = None if state == "missing" else trouble_at(place)
        if state == "hidden":
            told.leave(Cause.MISSING_EVIDENCE, f"{path}: {place['why']}")
        elif "itself" in place:
            told.failed.append(trouble or f"{path} is there: a {place['itself']}")
        elif state == "outside":
            told.leave(Cause.MISSING_EVIDENCE, f"{trouble}, and is not followed")
        elif state != "missing":
            told.failed.append(trouble or f"{path} is there")

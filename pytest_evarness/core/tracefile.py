"""Trace files: JSON lines of one or many runs, from here or from anywhere.

A file is hostile until it is read: lines and nesting are bounded, JSON is strict. What is wrong
with a line is an error with its place; what is wrong with a *trace* (lost, repeated or late events)
is evidence too, and is kept as gaps and faults.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_evarness.core import c1
from pytest_evarness.core.json import kind_of, shown
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.registry import nearest
from pytest_evarness.core.runlog import HEADER_KEYS, TRACE_FORMAT
from pytest_evarness.core.stranger import pass_on
from pytest_evarness.core.trace import TERMINAL_TYPES, Trace
from pytest_evarness.errors import DeterminismError, InputError, Where

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_evarness.core.interfaces import TraceImporter
    from pytest_evarness.core.json import JsonObject

__all__ = ["MAX_LINE_BYTES", "read_traces"]

MAX_LINE_BYTES = 8 * 1024 * 1024

MAX_FOREIGN_BYTES = 256 * 1024 * 1024
"""An importer gets a file as a whole."""

_MAX_FAULTS = 20
_SOURCE_KEYS = ("id", "types", "gaps")
_EVENT_KEYS = ("seq", "type", "node_id", "payload")
# Digits that an integer beyond 2^53 or an endless float needs, and half a surrogate pair: without
# any of them a line holds only what every JSON reader reads alike.
_DOUBTFUL = re.compile(rb"[0-9]{16}|[eE]\+?[0-9]{3}|\\u[dD]")


def read_traces(path: Path, importer: TraceImporter | None = None) -> list[Trace]:
    """Read every run of a trace file, in the order of the file.

    Args:
        path: JSON lines; an optional header begins each run. Types that nobody knows are no error:
            traces come from anywhere.
        importer: Reads a file of another form; what it gives is held against this one.

    Returns:
        At least one trace. A run without ``closed`` in its header is closed where a terminal event
        is its last; a file that ends inside a line was cut, and its last run is open.

    Raises:
        InputError: Not such a file; the place is the path as given and the line.
    """
    shown_path = str(path)
    runs: list[_Reading] = []
    ids: set[str] = set()
    try:
        with path.open("rb") as file:
            lines = (
                _lines(file, shown_path)
                if importer is None
                else _imported_lines(file.read(MAX_FOREIGN_BYTES + 1), importer, shown_path)
            )
            for number, line in lines:
                _take(line, number, shown_path, runs, ids)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"cannot be read ({reason})", where=Where(shown_path)) from None
    if not runs:
        raise InputError("holds no run (got no line with an event)", where=Where(shown_path))
    return [run.trace() for run in runs]


@dataclass(slots=True)
class _Reading:
    """One run while its lines come in."""

    header: JsonObject | None = None
    run_id: str | None = None
    declared: bool | None = None
    count: int | None = None
    coverage: frozenset[str] | None = None
    is_covered: bool = False
    gaps: list[tuple[int, int]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    faults_left_out: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    last_seq: int = -1
    seen: set[int] = field(default_factory=set)
    has_ended: bool = False
    is_cut: bool = False

    def fault(self, text: str) -> None:
        if len(self.faults) < _MAX_FAULTS:
            self.faults.append(text)
        else:
            self.faults_left_out += 1

    def add(self, event: dict[str, Any], line: int) -> None:
        seq = event["seq"]
        if self.has_ended:
            self.fault(f"line {line}: event {seq} comes after the end of the run")
        if seq in self.seen:
            self.fault(f"line {line}: seq {seq} is there twice")
        elif seq < self.last_seq:
            self.fault(f"line {line}: seq falls from {self.last_seq} to {seq}")
        elif seq > self.last_seq + 1:
            self.gaps.append((self.last_seq + 1, seq - 1))
        self.seen.add(seq)
        self.last_seq = max(self.last_seq, seq)
        self.has_ended = self.has_ended or event["type"] in TERMINAL_TYPES
        self.events.append(event)

    @property
    def _lacks_its_end(self) -> bool:
        """Whether lines at the end were lost, whatever the header says.

        A file that is cut between two lines reads like a whole one: only a count, or the end that
        a run which began has, tells.
        """
        if self.count is not None and len(self.events) < self.count:
            return True
        types = [event["type"] for event in (self.events[:1] + self.events[-1:])]
        begins = bool(types) and types[0] == "run_started"
        return begins and not self.has_ended and types[-1] != "run_paused"

    def trace(self) -> Trace:
        if self.faults_left_out:
            self.faults.append(f"and {self.faults_left_out} more")
        closed = self.has_ended if self.declared is None else self.declared
        if self.count is not None and len(self.events) > self.count:
            self.fault(f"the header says {self.count} events (got {len(self.events)})")
        return Trace(
            events=self.events,
            closed=closed and not self.is_cut and not self._lacks_its_end,
            coverage=self.coverage,
            gaps=tuple(_merged(self.gaps)),
            open_cause=Cause.UNFINISHED_RUN,
            faults=tuple(self.faults),
            run_id=self.run_id,
            origin=self.header if self.header is not None else {},
            coverage_assumed=not self.is_covered,
        )


def _merged(gaps: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The same sequence numbers as ranges that neither touch nor overlap."""
    begin: int | None = None
    end = -1
    for first, last in sorted(gaps):
        if begin is None:
            begin, end = first, last
        elif first <= end + 1:
            end = max(end, last)
        else:
            yield begin, end
            begin, end = first, last
    if begin is not None:
        yield begin, end


# -- lines ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    content: bytes
    has_end: bool


def _lines(file: Any, shown_path: str) -> Iterator[tuple[int, _Line]]:
    number = 0
    while True:
        raw = file.readline(MAX_LINE_BYTES + 1)
        if not raw:
            return
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            _refuse(shown_path, number, f"a line is too long (at most {MAX_LINE_BYTES} bytes)")
        if number == 1 and raw.startswith(b"\xef\xbb\xbf"):
            raw = raw[3:]
        content = raw.strip(b" \t\r\n")
        if content:
            yield number, _Line(content, raw.endswith(b"\n"))


def _imported_lines(
    data: bytes, importer: TraceImporter, shown_path: str
) -> Iterator[tuple[int, _Line]]:
    """What an importer makes of a file, each line as if it had been read from one of ours."""
    where = Where(shown_path)
    if len(data) > MAX_FOREIGN_BYTES:
        raise InputError(f"is too large (at most {MAX_FOREIGN_BYTES} bytes)", where=where)
    number = 0
    try:
        for number, record in enumerate(importer.read(data), 1):
            content = json.dumps(record).encode("ascii")
            if len(content) > MAX_LINE_BYTES:
                _refuse(shown_path, number, f"a line is too long (at most {MAX_LINE_BYTES} bytes)")
            yield number, _Line(content, has_end=True)
    except InputError:
        raise
    except GeneratorExit:
        raise  # nobody reads on
    except BaseException as error:
        pass_on(error)
        said = shown(str(error), 300)
        raise InputError(
            f"importer '{importer.name}' cannot read it: {type(error).__name__} after {number}"
            f" lines (got {said})",
            where=where,
        ) from error


def _refuse(shown_path: str, number: int, problem: str, field_path: str | None = None) -> NoReturn:
    raise InputError(problem, where=Where(shown_path, number, None, field_path))


class _StrictError(ValueError):
    """JSON that two readers would read differently."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _StrictError(f"a key stands there twice (got {shown(key, 40)})")
            seen.add(key)
    return mapping


def _constant(name: str) -> NoReturn:
    raise _StrictError(f"a number that JSON does not have (got {name}; finite)")


_decode = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant).decode


def _parse(line: _Line, number: int, shown_path: str) -> Any:
    """The value of a line; None for one that was cut short."""
    content = line.content
    try:
        value = _decode(content.decode("utf-8"))
    except _StrictError as error:
        _refuse(shown_path, number, str(error))
    except RecursionError:
        _refuse(shown_path, number, f"nested too deeply (at most {c1.MAX_DEPTH} levels)")
    except UnicodeDecodeError as error:
        if not line.has_end:
            return None
        _refuse(shown_path, number, f"not UTF-8 (byte {error.start} of the line)")
    except ValueError as error:
        if not line.has_end:
            return None
        problem = getattr(error, "msg", "a number is too long")
        _refuse(shown_path, number, f"not JSON ({problem})")
    is_doubtful = content.count(b"[") + content.count(b"{") > c1.MAX_DEPTH
    if is_doubtful or _DOUBTFUL.search(content):
        try:
            c1.frozen(value, "")
        except DeterminismError as error:
            place = error.where.field if error.where is not None else None
            _refuse(shown_path, number, error.problem, place)
    return value


def _take(line: _Line, number: int, shown_path: str, runs: list[_Reading], ids: set[str]) -> None:
    value = _parse(line, number, shown_path)
    if value is None and not line.has_end:
        if not runs:
            runs.append(_Reading())
        runs[-1].is_cut = True
        return
    if not isinstance(value, dict):
        got = f"{kind_of(value)} {shown(value, 40)}"
        _refuse(shown_path, number, f"must be a mapping (got {got}; a header or an event)")
    if "trace" in value and "seq" not in value:
        reading = _header(value, number, shown_path)
        if reading.run_id in ids:
            # Each half of a run that is told as two may look like a whole one.
            got = shown(reading.run_id, 200)
            _refuse(shown_path, number, f"the file holds two runs of one id (got {got})", "run_id")
        if reading.run_id is not None:
            ids.add(reading.run_id)
        runs.append(reading)
        return
    if not runs:
        runs.append(_Reading())
    runs[-1].add(_event(value, number, shown_path), number)


def _event(value: dict[str, Any], number: int, shown_path: str) -> dict[str, Any]:
    """The four fields; what a recorder wrote beside them (times, ids) is left behind."""
    seq = value.get("seq")
    if type(seq) is not int or not 0 <= seq <= c1.MAX_INTEGER:
        _refuse(shown_path, number, f"must be an integer from 0 (got {shown(seq)})", "seq")
    name = value.get("type")
    if not isinstance(name, str) or not name:
        _refuse(shown_path, number, f"must be the name of a type (got {shown(name)})", "type")
    node_id = value.get("node_id")
    if node_id is not None and not isinstance(node_id, str):
        _refuse(shown_path, number, f"must be a text or null (got {shown(node_id)})", "node_id")
    if "payload" not in value or "node_id" not in value:
        _check_slips(value, number, shown_path)
    return {"seq": seq, "type": name, "node_id": node_id, "payload": value.get("payload")}


def _check_slips(value: dict[str, Any], number: int, shown_path: str) -> None:
    """Other keys are a recorder's own; one that is nearly a field is that field, misspelt.

    Left behind, it would take the evidence with it.
    """
    import difflib

    others = sorted(key for key in value if key not in _EVENT_KEYS)
    for name in ("node_id", "payload"):
        # Close: many recorders have a "model_id" or a "node" of their own.
        near = difflib.get_close_matches(name, others, n=1, cutoff=0.85)
        if name not in value and near:
            raise InputError(
                f"unknown key beside a missing '{name}' (got {shown(near[0], 40)})",
                where=Where(shown_path, number, None, near[0]),
                fix=f"write '{name}'",
            )


def _header(value: dict[str, Any], number: int, shown_path: str) -> _Reading:
    version = value["trace"]
    if version != TRACE_FORMAT or isinstance(version, bool):
        rule = f"got {shown(version)}; {TRACE_FORMAT}"
        _refuse(shown_path, number, f"no such version of the trace form ({rule})", "trace")
    _check_keys(value, HEADER_KEYS, "", number, shown_path)
    run_id = value.get("run_id")
    if run_id is not None and not isinstance(run_id, str):
        _refuse(shown_path, number, f"must be a text (got {shown(run_id)})", "run_id")
    closed = value.get("closed")
    if "closed" in value and not isinstance(closed, bool):
        _refuse(shown_path, number, f"must be true or false (got {shown(closed)})", "closed")
    count = value.get("events")
    if "events" in value and (type(count) is not int or count < 0):
        got = shown(count)
        _refuse(shown_path, number, f"must be how many there are (got {got}; from 0)", "events")
    if not isinstance(value.get("case", ""), str):
        _refuse(shown_path, number, f"must be a text (got {shown(value['case'])})", "case")
    reading = _Reading(header=value, run_id=run_id, declared=closed, count=count)
    if "sources" in value:
        _sources(value["sources"], reading, number, shown_path)
    # A run log is our own: its vocabulary is recorded whole.
    reading.is_covered = reading.coverage is not None or "case" in value
    return reading


def _sources(sources: Any, reading: _Reading, number: int, shown_path: str) -> None:
    if not isinstance(sources, list) or not sources:
        _refuse(shown_path, number, f"must be a list of sources (got {shown(sources)})", "sources")
    types: set[str] = set()
    silent: str | None = None
    for index, source in enumerate(sources):
        place = f"sources[{index}]"
        if not isinstance(source, dict):
            _refuse(shown_path, number, f"must be a mapping (got {shown(source)})", place)
        _check_keys(source, _SOURCE_KEYS, f"{place}.", number, shown_path)
        if not isinstance(source.get("id"), str):
            got = shown(source.get("id"))
            _refuse(shown_path, number, f"must be a text (got {got})", f"{place}.id")
        recorded = source.get("types")
        if "types" not in source:
            silent = silent or place
        elif isinstance(recorded, list) and all(isinstance(name, str) for name in recorded):
            types.update(recorded)
        else:
            got = shown(recorded, 40)
            _refuse(shown_path, number, f"must be a list of types (got {got})", f"{place}.types")
        reading.gaps.extend(_gaps(source.get("gaps", []), f"{place}.gaps", number, shown_path))
    telling = sum("types" in source for source in sources)
    if silent is not None and telling:
        # One silent source would make what the others record unknown, and all of it assumed.
        rule = "give them for every source, or for none"
        _refuse(shown_path, number, f"does not say what it records ({rule})", f"{silent}.types")
    if telling:
        reading.coverage = frozenset(types)


def _gaps(gaps: Any, place: str, number: int, shown_path: str) -> Iterator[tuple[int, int]]:
    if not isinstance(gaps, list):
        _refuse(shown_path, number, f"must be a list of ranges (got {shown(gaps)})", place)
    for index, gap in enumerate(gaps):
        is_range = (
            isinstance(gap, list)
            and len(gap) == 2
            and all(type(end) is int for end in gap)
            and 0 <= gap[0] <= gap[1]
        )
        if not is_range:
            rule = "[first, last], both inclusive"
            where = f"{place}[{index}]"
            _refuse(shown_path, number, f"must be a range (got {shown(gap)}; {rule})", where)
        yield gap[0], gap[1]


def _check_keys(
    mapping: dict[str, Any], known: tuple[str, ...], prefix: str, number: int, shown_path: str
) -> None:
    for key in mapping:
        if key not in known:
            near = nearest(key, known)
            raise InputError(
                f"unknown key (got {shown(key, 40)}; known: {', '.join(known)})",
                where=Where(shown_path, number, None, f"{prefix}{key}"),
                fix=f"write '{near}'" if near else None,
            )

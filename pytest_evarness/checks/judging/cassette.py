"""Recorded answers of judges, ``<scenario>.cassette.yaml`` beside the scenario.

What is replayed was asked in exactly these words of exactly this judge. The file is kept in git and
is written in one order whoever writes it, so that its changes can be read.

Source: docs/judges.md, "Cassettes".
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pytest_evarness.core import c1
from pytest_evarness.core.writing import write_atomically
from pytest_evarness.errors import Fault, InputError, Where
from pytest_evarness.source.document import MAX_BYTES, load_document, raise_all
from pytest_evarness.source.model import Strict, parse_model

__all__ = ["Cassette", "Recording", "Slot", "cassette_path"]

_HEAD = (
    "# Answers of judges, recorded by pytest-evarness and replayed where they are not asked.\n"
    "# Keep it with the scenario. Take an entry out to have it asked again.\n"
    "cassette: 1\n"
)


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """A place for one answer: who is asked what, whatever text there is to judge.

    Attributes:
        case: The case's id, matrix point included.
        input_from: What is judged.
        judge: The judge's name in its check.
        model: Of the endpoint.
        temperature: A decimal.
        rubric: The rubric's version.
    """

    case: str
    input_from: str
    judge: str
    model: str
    temperature: str
    rubric: str


@dataclass(frozen=True, slots=True)
class Recording:
    """One answer.

    Attributes:
        package: Digest of the package that was judged.
        base_url: Where it was asked; for the reader alone.
        answer: As it came.
    """

    slot: Slot
    package: str
    base_url: str
    answer: str

    @property
    def key(self) -> str:
        """``sha256:`` and the hex digest of everything that the answer depends on.

        The judge's name is part of it: two judges of one panel may ask one model, and each of them
        has an answer of its own.
        """
        return recording_key(self.slot, self.package)


def recording_key(slot: Slot, package: str) -> str:
    """The key of what ``slot`` answers to ``package``; the case is no part of it."""
    return c1.sha256_text(
        c1.text(
            {
                "judge": slot.judge,
                "model": slot.model,
                "package": package,
                "rubric": slot.rubric,
                "temperature": slot.temperature,
            }
        )
    )


def cassette_path(scenario: str) -> str:
    """The cassette of a scenario file: ``a/b.yaml`` has ``a/b.cassette.yaml``."""
    folder, _, name = scenario.rpartition("/")
    stem = name.rpartition(".")[0] or name
    return f"{folder}/{stem}.cassette.yaml" if folder else f"{stem}.cassette.yaml"


class Cassette:
    """The recordings of one scenario.

    Args:
        path: Its file, which need not be there.
        shown: What messages call it.
    """

    def __init__(self, path: Path, shown: str) -> None:
        self._path = path
        self._shown = shown

    @property
    def shown(self) -> str:
        """What messages call it."""
        return self._shown

    def find(self, slot: Slot, package: str) -> tuple[Recording | None, bool]:
        """The answer to exactly this, and whether there is one to another text instead.

        Raises:
            InputError: The file is none of ours any more; with the place.
        """
        recordings = self._load()
        key = recording_key(slot, package)
        found = next((one for one in recordings if one.key == key), None)
        return found, found is None and any(one.slot == slot for one in recordings)

    def record(self, recording: Recording) -> None:
        """Add an answer, in the place of one that the same slot had to another text.

        Raises:
            InputError: The file is none of ours any more, or would become too large.
            OSError: It cannot be written; nothing was changed.
        """
        with _alone_in(self._path.parent):
            # Read again: another worker of the session may have written meanwhile.
            kept = [
                one
                for one in self._load()
                if one.slot != recording.slot and one.key != recording.key
            ]
            data = _written([*kept, recording]).encode("utf-8")
            if len(data) > MAX_BYTES:
                raise InputError(
                    f"would be too large (got {len(data)} bytes; at most {MAX_BYTES // 2**20} MiB)",
                    where=Where(self._shown),
                )
            write_atomically(self._path, data)

    def _load(self) -> list[Recording]:
        if self._path.is_symlink():
            raise InputError("is a symlink, which no cassette may be", where=Where(self._shown))
        if not self._path.exists():
            return []
        document = load_document(self._path, shown=self._shown)
        model, faults = parse_model(_File, document.value)
        recordings = [] if model is None else [_recording(entry) for entry in model.recordings]
        if model is not None:
            faults += _key_faults(model.recordings, recordings)
        if faults:
            raise_all([document.error(fault) for fault in faults])
        return recordings


# -- the file ----------------------------------------------------------------------------------

_Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class _Entry(Strict):
    case: str
    input_from: str
    judge: str
    model: str
    temperature: str
    rubric: _Digest
    package: _Digest
    base_url: str
    key: _Digest
    answer: str


class _File(Strict):
    cassette: Literal[1]
    recordings: list[_Entry]


def _recording(entry: _Entry) -> Recording:
    slot = Slot(**{field.name: getattr(entry, field.name) for field in fields(Slot)})
    return Recording(slot, entry.package, entry.base_url, entry.answer)


def _key_faults(entries: Sequence[_Entry], recordings: Sequence[Recording]) -> list[Fault]:
    """An entry that was put together by hand answers nothing that was asked."""
    faults = []
    seen: set[str] = set()
    for number, (entry, recording) in enumerate(zip(entries, recordings, strict=True)):
        if entry.key != recording.key:
            problem = "is not the key of what stands beside it"
            rule = f"it would be {recording.key}"
            fix = "take the entry out, and have it recorded again"
            faults.append(Fault(("recordings", number, "key"), problem, rule=rule, fix=fix))
        elif entry.key in seen:
            problem = "was recorded twice"
            faults.append(Fault(("recordings", number, "key"), problem, got=entry.key))
        seen.add(entry.key)
    return faults


def _written(recordings: Sequence[Recording]) -> str:
    lines = [_HEAD, "recordings:\n"]
    for one in sorted(recordings, key=lambda one: (one.slot, one.package)):
        values = {
            **asdict(one.slot),
            "package": one.package,
            "base_url": one.base_url,
            "key": one.key,
            "answer": one.answer,
        }
        mark = "-"
        for key, value in values.items():
            lines.append(f"{mark} {key}: {_quoted(value)}\n")
            mark = " "
    return "".join(lines)


def _quoted(text: str) -> str:
    """A double-quoted YAML text on one line; what cannot be seen is escaped."""
    return "".join(
        char if char.isprintable() else _escape(char)
        for char in json.dumps(text, ensure_ascii=False)
    )


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """No other process of ours writes a cassette in this folder meanwhile, where that can be had.

    The folder itself is locked, so that no lock file is left in the project. Without the lock a
    recording of another worker could be lost, and would be asked again.
    """
    handle = None
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)

"""Files that describe the same thing in several places, the lowest first.

Packaged < ``~/.evarness/`` < ``evarness/`` in the root < ``$EVARNESS_NAME`` < beside the scenario.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import Overlay
from pytest_evarness.errors import Fault, InputError, InputErrors
from pytest_evarness.source.document import load_document

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Locations
    from pytest_evarness.core.json import Json
    from pytest_evarness.source.document import Document

__all__ = ["Layered", "documents", "line_of", "load_overlay", "packaged"]


def _layers(locations: Locations, name: str) -> Iterator[tuple[str, Path, bool]]:
    """Label, file, and whether it must be there; what is packaged is left out."""
    file, variable = f"{name}.yaml", f"EVARNESS_{name.upper()}"
    if locations.home is not None:
        yield f"~/.evarness/{file}", locations.home / file, False
    yield f"evarness/{file}", locations.root / "evarness" / file, False
    named = locations.variables.get(variable)
    if named:
        yield f"${variable}", locations.root / named, True
    for folder in locations.beside:
        path = folder / file
        try:
            label = path.relative_to(locations.root).as_posix()
        except ValueError:
            # Outside the root (a packaged pattern): the label may hold no path of this machine.
            label = f"{folder.name}/{file}"
        yield label, path, False


def documents(
    locations: Locations, name: str
) -> Iterator[tuple[str, Document | None, list[tuple[str, Fault]]]]:
    """Each layer above what is packaged, the lowest first, with its label.

    Yields:
        Label, document, no fault; or no document and why it cannot be read, each with its place.
    """
    seen: set[Path] = set()
    for label, path, is_required in _layers(locations, name):
        if path in seen:
            continue
        seen.add(path)
        other = path.with_name(f"{name}.yml")
        if not is_required and other.is_file():
            # Whoever wrote it takes it for read.
            fault = Fault((), f"is not read under this name (it is {name}.yaml)", fix="rename it")
            yield label, None, [(str(Path(label).with_name(other.name)), fault)]
        if not (is_required or path.is_file()):
            continue
        try:
            yield label, load_document(path, shown=label), []
        except InputErrors as errors:
            yield label, None, [_unread(label, error) for error in errors.errors]
        except InputError as error:
            yield label, None, [_unread(label, error)]


def line_of(label: str, document: Document, fault: Fault) -> str:
    """Where a fault of a document stands."""
    where = document.where(fault.path, fault.at_key)
    return label if where.line is None else f"{label}:{where.line}:{where.column}"


def _unread(label: str, error: InputError) -> tuple[str, Fault]:
    where = error.where
    is_placed = where is not None and where.line is not None
    place = f"{label}:{where.line}:{where.column}" if where is not None and is_placed else label
    return place, Fault((), error.problem, fix=error.fix)


@dataclass(frozen=True, slots=True)
class Layered:
    """One kind of such files.

    Attributes:
        name: Of the overlay; the file is ``NAME.yaml``.
        parse: The value of a file's root, normalised, and its faults from there.
        merge: What is in force when a layer stands above what was in force.
    """

    name: str
    parse: Callable[[Json], tuple[Any, list[Fault]]]
    merge: Callable[[Any, Any], Any]


@cache
def packaged(kind: Layered) -> tuple[Any, str]:
    """The packaged value of a kind, and the digest of its file."""
    path = Path(__file__).with_name(f"{kind.name}.yaml")
    document = load_document(path, shown=f"{kind.name}.yaml (packaged)")
    value, faults = kind.parse(document.value)
    assert not faults, f"what is packaged is checked by a test (got {faults})"
    return value, hashlib.sha256(document.data).hexdigest()


def load_overlay(kind: Layered, locations: Locations) -> Overlay:
    """What is in force: the packaged file and the layers above it."""
    value, digest = packaged(kind)
    sources = [(f"packaged/{kind.name}.yaml", digest)]
    faults: list[tuple[str, Fault]] = []
    for label, document, unread in documents(locations, kind.name):
        faults += unread
        if document is None:
            continue
        above, found = kind.parse(document.value)
        faults += ((line_of(label, document, fault), fault) for fault in found)
        sources.append((label, hashlib.sha256(document.data).hexdigest()))
        if not found:
            value = kind.merge(value, above)
    return Overlay(kind.name, value, tuple(sources), tuple(faults))

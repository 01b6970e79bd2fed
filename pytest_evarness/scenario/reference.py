"""Files that a scenario refers to: inside the project's root directory, read once each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from pytest_evarness.errors import Fault, InputError
from pytest_evarness.source.document import Document, load_document, read_bytes, shown_path
from pytest_evarness.source.quote import quoted

__all__ = ["Files", "References", "Referred", "resolve_inside"]


@dataclass(frozen=True, slots=True)
class Referred:
    """A file that was referred to.

    Attributes:
        path: Where it lies, every link followed.
        name: Relative to the root directory, with ``/``.
        document: What it holds.
        sha256: Of its bytes, hex.
    """

    path: Path
    name: str
    document: Document
    sha256: str


def resolve_inside(text: str, *, folder: Path, root: Path) -> tuple[Path | None, Fault | None]:
    """The file that ``text`` names, seen from ``folder``; the fault where it may not be read.

    The comparison is one of path components after every link was followed: a sibling folder
    whose name begins with the root's name is outside.

    Args:
        text: As it is written, relative to ``folder``.
        folder: Of the file that refers to it.
        root: The project's root directory.
    """
    path, fault = _resolve(text, folder=folder, root=root)
    if path is None:
        return None, fault
    if not path.is_file():
        return None, Fault((), "is no file", got=quoted(text))
    return path, None


def _resolve(text: str, *, folder: Path, root: Path) -> tuple[Path | None, Fault | None]:
    """What ``text`` names, file or folder, every link followed."""
    rule = "references stay inside the project's root directory"
    if not text or not text.isprintable():
        return None, Fault((), "is no path", got=quoted(text))
    if PurePosixPath(text).is_absolute() or PureWindowsPath(text).drive or text.startswith("~"):
        return None, Fault((), "must be relative to the scenario file", got=quoted(text), rule=rule)
    try:
        path = (folder / text).resolve()
        inside = path.is_relative_to(root.resolve())
        exists = inside and path.exists()
    except (OSError, ValueError, RuntimeError):
        return None, Fault((), "is no path", got=quoted(text))
    if not inside:
        return None, Fault((), "leads outside", got=quoted(text), rule=rule)
    if not exists:
        return None, Fault((), "no such file", got=quoted(text))
    return path, None


class References:
    """Files read on behalf of one scenario file."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self._by_text: dict[str, tuple[Referred | None, Fault | None, InputError | None]] = {}

    def read(self, text: str) -> tuple[Referred | None, Fault | None, InputError | None]:
        """The file that ``text`` names.

        Returns:
            The file; or a fault of the reference; or what is wrong inside the file.
        """
        known = self._by_text.get(text)
        if known is None:
            path, fault = resolve_inside(text, folder=self.folder, root=self.root)
            known = (None, fault, None) if path is None else read_file(path, self.root)
            self._by_text[text] = known
        return known


def read_file(
    path: Path, root: Path, shown: str | None = None
) -> tuple[Referred | None, Fault | None, InputError | None]:
    """Read a file that is known to be allowed."""
    name = shown if shown is not None else shown_path(path, root.resolve())
    try:
        document = load_document(path, shown=name)
    except InputError as error:
        return None, None, error
    digest = hashlib.sha256(document.data).hexdigest()
    return Referred(path, name, document, digest), None, None


class Files:
    """A scenario's files as domains may read them; see ``core.interfaces.ProjectFiles``.

    Attributes:
        kept: What domains worked out for earlier cases of the file.
    """

    def __init__(self, references: References) -> None:
        self._references = references
        self.kept: dict[Any, Any] = {}

    def read(self, text: str) -> tuple[str, bytes] | Fault:
        """Name and content of a file."""
        references = self._references
        path, fault = resolve_inside(text, folder=references.folder, root=references.root)
        if path is None:
            assert fault is not None, "a reference that names nothing says why"
            return fault
        name = shown_path(path, references.root.resolve())
        try:
            return name, read_bytes(path, name)
        except InputError as error:
            return Fault((), error.problem, got=quoted(text))

    def folder(self, text: str) -> tuple[str, Path] | Fault:
        """Name and place of a folder."""
        references = self._references
        path, fault = _resolve(text, folder=references.folder, root=references.root)
        if path is None:
            assert fault is not None, "a reference that names nothing says why"
            return (
                fault
                if fault.problem != "no such file"
                else replace(fault, problem="no such folder")
            )
        if not path.is_dir():
            return Fault((), "is no folder", got=quoted(text))
        return shown_path(path, references.root.resolve()), path

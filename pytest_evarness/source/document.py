"""Strict documents: YAML 1.2 core types (or JSON), every value with its line and column.

Nothing here knows what the document means. A document that could be read in two ways (a key
twice, ``01730``, a tag) is refused rather than read in one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_evarness.errors import Fault, InputError, Where
from pytest_evarness.source.limit import MAX_ALIAS_NODES, MAX_ALIAS_TEXT, MAX_BYTES, MAX_DEPTH
from pytest_evarness.source.mistake import as_error, raise_all
from pytest_evarness.source.place import Mark, Places

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "MAX_ALIAS_NODES",
    "MAX_ALIAS_TEXT",
    "MAX_BYTES",
    "MAX_DEPTH",
    "Document",
    "as_error",
    "decode",
    "load_document",
    "parse_json",
    "parse_yaml",
    "raise_all",
    "read_bytes",
    "shown_path",
]


@dataclass(frozen=True, slots=True)
class Document:
    """A document that was read.

    Attributes:
        value: Plain dict, list, str, int, bool, None and ``WrittenFloat``. Aliases share their
            value, so nobody may change it in place.
        shown: The file as messages name it; None for inline text.
        places: Where each value stands.
        root: Where the document's own value stands.
        data: The bytes it was read from, for digests; empty for inline text.
    """

    value: Any
    shown: str | None
    places: Places = field(default_factory=Places)
    root: Mark | None = None
    data: bytes = b""

    def where(self, path: tuple[str | int, ...] = (), at_key: bool = False) -> Where:
        """The place of ``path``, or of its nearest ancestor that the document has."""
        found = self.places.where(self.value, self.root, path, at_key=at_key)
        return found if found.line is not None else Where(self.shown, field=found.field)

    def error(self, fault: Fault) -> InputError:
        """The fault as an error that names its place in this document."""
        return as_error(fault, self.where(fault.path, fault.at_key))


def load_document(
    path: Path,
    *,
    root: Path | None = None,
    shown: str | None = None,
    kept: list[InputError] | None = None,
) -> Document:
    """Read a file: JSON where its name ends in ``.json``, else YAML.

    Args:
        path: The file.
        root: Messages name the file relative to this folder where it lies in it.
        shown: What messages call the file instead.
        kept: Takes the mistakes that leave the rest of a YAML file readable, instead of raising
            them, so that a reader can tell its own mistakes with them.

    Raises:
        InputError: It cannot be read, is too large, or is no strict document.
        InputErrors: Several mistakes at once.
    """
    name = shown if shown is not None else shown_path(path, root)
    data = read_bytes(path, name)
    if path.suffix.lower() == ".json":
        return parse_json(data, name)
    return parse_yaml(data, name, kept=kept)


def shown_path(path: Path, root: Path | None) -> str:
    """``path`` relative to ``root`` with ``/``, or as it is where it lies elsewhere."""
    if root is not None:
        try:
            return path.relative_to(root).as_posix()
        except ValueError:
            pass
    return path.as_posix()


def read_bytes(path: Path, shown: str) -> bytes:
    """The bytes of a file of at most 8 MiB.

    Raises:
        InputError: No such file, no file, unreadable, or too large.
    """
    where = Where(shown)
    try:
        # A pipe or device would block or never end, so only files are opened.
        if not path.is_file():
            problem = "is no file" if path.exists() else "no such file"
            raise InputError(problem, where=where)
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise InputError(f"cannot be read ({reason.lower()})", where=where) from error
    if len(data) > MAX_BYTES:
        raise InputError(
            f"is too large (got more than {MAX_BYTES} bytes; at most 8 MiB)", where=where
        )
    return data


def decode(data: bytes | str, shown: str | None) -> str:
    """UTF-8 text without its byte-order mark.

    Raises:
        InputError: Not UTF-8 (with the offset of the byte), or a lone surrogate.
    """
    if isinstance(data, str):
        try:
            data.encode("utf-8")
        except UnicodeEncodeError as error:
            code, at = ord(data[error.start]), error.start
            raise InputError(
                f"holds a lone surrogate (got U+{code:04X} at character {at})",
                where=Where(shown),
            ) from None
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"is not UTF-8 (got byte 0x{data[error.start]:02X} at offset {error.start})",
            where=Where(shown, line),
            fix="save the file as UTF-8",
        ) from None


def parse_yaml(
    text: str | bytes, shown: str | None = None, *, kept: list[InputError] | None = None
) -> Document:
    """Read one YAML document.

    Args:
        text: The document.
        shown: The file as messages name it.
        kept: As in :func:`load_document`.

    Raises:
        InputError: It is none; every independent mistake is in the group.
        InputErrors: Several mistakes at once.
    """
    from pytest_evarness.source.yamltext import read_yaml

    data = text if isinstance(text, bytes) else b""
    if len(text) > MAX_BYTES:
        raise InputError(
            f"is too large (got more than {MAX_BYTES} bytes; at most 8 MiB)", where=Where(shown)
        )
    value, places, root = read_yaml(decode(text, shown), shown, kept=kept)
    return Document(value, shown, places, root, data)


def parse_json(text: str | bytes, shown: str | None = None) -> Document:
    """Read one JSON document, as strictly: no key twice, no NaN, nothing after it.

    Raises:
        InputError: It is none.
        InputErrors: Several mistakes at once.
    """
    from pytest_evarness.source.jsontext import read_json

    data = text if isinstance(text, bytes) else b""
    if len(text) > MAX_BYTES:
        raise InputError(
            f"is too large (got more than {MAX_BYTES} bytes; at most 8 MiB)", where=Where(shown)
        )
    value, places, root = read_json(decode(text, shown), shown)
    return Document(value, shown, places, root, data)

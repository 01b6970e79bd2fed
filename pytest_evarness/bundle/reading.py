"""Reading what a stranger sent: bounded, strict, and nothing is unpacked or followed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

from pytest_evarness.core.json import shown
from pytest_evarness.errors import UnverifiedError, UsageError

__all__ = ["MAX_BUNDLE_BYTES", "MAX_DEPTH", "read_bundle", "strict_json"]

MAX_BUNDLE_BYTES = 256 * 1024 * 1024
MAX_DEPTH = 100
"""Lists and mappings inside each other."""

# What people take for a bundle. Named so that the message can say it; refused all the same when
# it is none of these, since nothing but an envelope passes.
_MAGIC = (
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "a gzip file"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ\x00", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x00\x00\x00\x01Bud1", "a .DS_Store"),
)


def read_bundle(path: Path) -> bytes:
    """The bytes of a bundle.

    Raises:
        UsageError: No such file.
        UnverifiedError: No regular file, a link, an archive, or one that is too large.
    """
    try:
        facts = path.lstat()
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from error
    # Judged by its name's own entry, before anything is opened: opening a pipe would wait, and a
    # link could lead elsewhere the next time somebody reads it.
    if not stat.S_ISREG(facts.st_mode):
        raise UnverifiedError(f"{path}: no bundle: {_kind(facts.st_mode)}, not a file")
    if facts.st_size > MAX_BUNDLE_BYTES:
        raise UnverifiedError(f"{path}: no bundle: over {MAX_BUNDLE_BYTES} bytes")
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as stream:
            data = stream.read(MAX_BUNDLE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from error
    return data


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a device or pipe"


def refuse_archives(data: bytes) -> None:
    """Name what is no bundle at a glance.

    Raises:
        UnverifiedError: Too large, empty, or an archive; nothing of it is unpacked.
    """
    if len(data) > MAX_BUNDLE_BYTES:
        raise UnverifiedError(f"no bundle: over {MAX_BUNDLE_BYTES} bytes")
    if not data:
        raise UnverifiedError("no bundle: the file is empty")
    for magic, name in _MAGIC:
        if data.startswith(magic):
            raise UnverifiedError(f"no bundle: {name} (a bundle is one JSON file)")
    if data[257:262] == b"ustar":
        raise UnverifiedError("no bundle: a tar archive (a bundle is one JSON file)")


def strict_json(data: bytes | str, what: str) -> Any:
    """Parse JSON that every reader understands in the same way.

    Args:
        what: How messages name the text.

    Raises:
        UnverifiedError: Not UTF-8, not JSON, a key twice, NaN, a number with a fraction or an
            exponent, an integer beyond 2^53-1, or nesting deeper than ``MAX_DEPTH``.
    """
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnverifiedError(f"{what}: not UTF-8 at byte {error.start}") from error
    try:
        value = json.loads(
            data,
            object_pairs_hook=lambda pairs: _mapping(pairs, what),
            parse_constant=lambda word: _refuse(f"{what}: {word} is no JSON number"),
            parse_float=lambda word: _refuse(f"{what}: {shown(word)} is no whole number"),
            parse_int=lambda word: _integer(word, what),
        )
    except RecursionError as error:
        raise UnverifiedError(f"{what}: nested deeper than {MAX_DEPTH} levels") from error
    except json.JSONDecodeError as error:
        raise UnverifiedError(f"{what}: not JSON at character {error.pos} ({error.msg})") from error
    _check_depth(value, what)
    return value


def _refuse(problem: str) -> NoReturn:
    raise UnverifiedError(problem)


def _mapping(pairs: list[tuple[str, Any]], what: str) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise UnverifiedError(f"{what}: the key {shown(name)} stands there twice")
            seen.add(name)
    return mapping


def _integer(word: str, what: str) -> int:
    # The length first: converting a million digits would take its time before it is refused.
    if len(word) > 17:
        raise UnverifiedError(f"{what}: an integer beyond 2^53-1")
    number = int(word)
    if abs(number) > 2**53 - 1 or word == "-0":
        raise UnverifiedError(f"{what}: an integer that readers disagree on (got {word})")
    return number


def _check_depth(value: Any, what: str) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            part
            for holder in level
            for part in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(part, dict | list)
        ]
        if not level:
            return
    raise UnverifiedError(f"{what}: nested deeper than {MAX_DEPTH} levels")

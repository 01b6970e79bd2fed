"""A git repository with one commit, written without git: the same bytes wherever it is made.

Formats: gitformat-pack(5), gitformat-index(5).
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_evarness.core import c1

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["FOLDER", "UNLISTED", "listed_files", "make_repository"]

FOLDER = ".git"

UNLISTED = frozenset(
    {
        "index",
        "index.lock",
        "objects",
        "logs",
        "refs",
        "packed-refs",
        "ORIG_HEAD",
        "FETCH_HEAD",
        "modules",
        "worktrees",
    }
)
"""What a snapshot leaves out of a ``.git`` folder: it holds times, or hashes over times."""

_WHO = b"evarness <evarness@example.invalid> 1767225600 +0000"
_COMMIT, _TREE, _BLOB = 1, 2, 3
_KINDS = {_COMMIT: b"commit", _TREE: b"tree", _BLOB: b"blob"}

# What users set for themselves elsewhere must not show in what git says here.
_CONFIG = b"""\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tautocrlf = false
\texcludesFile = /dev/null
\tattributesFile = /dev/null
\thooksPath = .git/hooks
\tpager = cat
[user]
\tname = evarness
\temail = evarness@example.invalid
[commit]
\tgpgsign = false
[tag]
\tgpgsign = false
[color]
\tui = false
[diff]
\tnoprefix = false
\tmnemonicPrefix = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""
_HEAD = b"ref: refs/heads/main\n"


def listed_files() -> dict[str, bytes]:
    """Path and content of what a snapshot does list of a fresh repository."""
    return {f"{FOLDER}/HEAD": _HEAD, f"{FOLDER}/config": _CONFIG}


def make_repository(
    folder: str,
    listing: Sequence[Mapping[str, Any]],
    content: Callable[[str], bytes],
    *,
    nanoseconds: int,
) -> None:
    """Make ``folder``, a workspace that was just made, a repository with all of it committed.

    Every file and link is committed, those that a ``.gitignore`` names too.

    Args:
        folder: Absolute.
        listing: Sorted by path, as in the compiled case.
        content: Digest to bytes.
        nanoseconds: What its entries were last changed at.
    """
    files = [entry for entry in listing if entry["type"] != "directory"]
    made = _kept(c1.text(files), lambda: _repository(files, content))
    git = os.path.join(folder, FOLDER)
    for name in ("", "objects", "objects/pack", "refs", "refs/heads"):
        path = os.path.join(git, name) if name else git
        os.mkdir(path, 0o755)
        os.chmod(path, 0o755)  # noqa: S103 - whatever the umask; the folder above is private
    for name, data in made.files:
        _write(os.path.join(git, name), data)
    index = os.path.join(git, "index")
    _write(index, _index(folder, made.blobs))
    # No younger than what it speaks of: git then looks into a file whose times have not changed,
    # since clocks are too coarse to tell what happened within one of their ticks.
    os.utime(index, ns=(nanoseconds, nanoseconds))
    for path in listed_files():
        os.chmod(os.path.join(folder, path), 0o644)
    os.utime(folder, ns=(nanoseconds, nanoseconds))


class _Made:
    """A repository as bytes.

    Attributes:
        blobs: ``(path, mode, object id)``, in the order of the index.
    """

    def __init__(
        self, files: list[tuple[str, bytes]], blobs: list[tuple[bytes, int, bytes]]
    ) -> None:
        self.files = files
        self.blobs = blobs


def _kept(key: str, make: Callable[[], _Made]) -> _Made:
    """Both runs of a case, and the cases of a file, mostly start alike."""
    made = _memory().get(key)
    if made is None:
        made = make()
        memory = _memory()
        while len(memory) >= 4:
            memory.pop(next(iter(memory)))
        memory[key] = made
    return made


@lru_cache(maxsize=1)
def _memory() -> dict[str, _Made]:
    return {}


def _repository(files: Sequence[Mapping[str, Any]], content: Callable[[str], bytes]) -> _Made:
    objects: dict[bytes, tuple[int, bytes]] = {}

    def add(kind: int, data: bytes) -> bytes:
        head = b"%b %d\0" % (_KINDS[kind], len(data))
        name = hashlib.sha1(head + data, usedforsecurity=False).digest()
        objects[name] = (kind, data)
        return name

    blobs = []
    root: dict[bytes, Any] = {}
    for entry in files:
        if entry["type"] == "symlink":
            mode, data = 0o120000, entry["target"].encode("utf-8")
        else:
            mode = 0o100755 if int(entry["mode"], 8) & stat.S_IXUSR else 0o100644
            data = content(entry["sha256"])
        name = add(_BLOB, data)
        path = entry["path"].encode("utf-8")
        blobs.append((path, mode, name))
        *parents, last = path.split(b"/")
        here = root
        for parent in parents:
            here = here.setdefault(parent, {})
        here[last] = (mode, name)
    blobs.sort()

    def add_tree(tree: dict[bytes, Any]) -> bytes:
        rows = []
        for name, value in tree.items():
            if isinstance(value, dict):
                rows.append((name + b"/", b"40000 %b\0%b" % (name, add_tree(value))))
            else:
                rows.append((name, b"%o %b\0%b" % (value[0], name, value[1])))
        return add(_TREE, b"".join(row for _, row in sorted(rows)))

    tree = add_tree(root)
    text = b"tree %b\nauthor %b\ncommitter %b\n\nInitial commit\n" % (
        tree.hex().encode("ascii"),
        _WHO,
        _WHO,
    )
    commit = add(_COMMIT, text)
    pack, index = _packed(objects)
    stem = f"objects/pack/pack-{pack[-20:].hex()}"
    return _Made(
        [
            ("HEAD", _HEAD),
            ("config", _CONFIG),
            (f"{stem}.pack", pack),
            (f"{stem}.idx", index),
            ("refs/heads/main", commit.hex().encode("ascii") + b"\n"),
        ],
        blobs,
    )


def _packed(objects: Mapping[bytes, tuple[int, bytes]]) -> tuple[bytes, bytes]:
    """The pack and its index, version 2 both."""
    names = sorted(objects)
    parts = [struct.pack(">4sII", b"PACK", 2, len(names))]
    at = len(parts[0])
    offsets, checks = [], []
    for name in names:
        kind, data = objects[name]
        size = len(data)
        head = bytearray([(kind << 4) | (size & 15)])
        size >>= 4
        while size:
            head[-1] |= 128
            head.append(size & 127)
            size >>= 7
        part = bytes(head) + zlib.compress(data, 1)
        offsets.append(at)
        checks.append(zlib.crc32(part))
        parts.append(part)
        at += len(part)
    body = b"".join(parts)
    digest = hashlib.sha1(body, usedforsecurity=False).digest()
    counts = [0] * 256
    for name in names:
        counts[name[0]] += 1
    total = 0
    for first, count in enumerate(counts):
        total += count
        counts[first] = total
    index = b"".join(
        [
            b"\xfftOc\0\0\0\x02",
            struct.pack(">256I", *counts),
            *names,
            struct.pack(f">{len(names)}I", *checks),
            struct.pack(f">{len(names)}I", *offsets),
            digest,
        ]
    )
    return body + digest, index + hashlib.sha1(index, usedforsecurity=False).digest()


def _index(folder: str, blobs: Sequence[tuple[bytes, int, bytes]]) -> bytes:
    """The staged files with their present times, so that git sees no change without reading."""
    parts = [struct.pack(">4sII", b"DIRC", 2, len(blobs))]
    root = os.fsencode(folder)
    for path, mode, name in blobs:
        found = os.lstat(os.path.join(root, path))
        numbers = (
            *divmod(found.st_ctime_ns, 10**9),
            *divmod(found.st_mtime_ns, 10**9),
            found.st_dev,
            found.st_ino,
            mode,
            found.st_uid,
            found.st_gid,
            found.st_size,
        )
        head = struct.pack(">10I", *(number & 0xFFFFFFFF for number in numbers))
        entry = head + name + struct.pack(">H", min(len(path), 0xFFF)) + path
        parts.append(entry + b"\0" * (8 - len(entry) % 8))
    body = b"".join(parts)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _write(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)

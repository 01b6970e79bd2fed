"""Files that ``workspace`` and ``services`` refer to, read when a case is compiled.

What is compiled names each content by digest, so that a run in another process, or on another
machine, reads nothing of the project.
"""

from __future__ import annotations

import base64
import os
import stat
from typing import TYPE_CHECKING, Any

from pytest_evarness.core import c1
from pytest_evarness.core.interfaces import Inlined
from pytest_evarness.core.material import sha256_bytes
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import quoted
from pytest_evarness.world.model import path_problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_evarness.core.interfaces import ProjectFiles
    from pytest_evarness.core.json import Json, JsonObject

__all__ = ["MAX_BYTES", "MAX_FILES", "inline"]

MAX_BYTES = 16 * 1024 * 1024
MAX_FILES = 5_000

_MAX_FAULTS = 20


class _RefusedError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.problem)
        self.fault = fault


def inline(environment: JsonObject, files: ProjectFiles) -> Inlined:
    """Read what both keys refer to; other keys are left as they are."""
    made = dict(environment)
    contents: dict[str, bytes] = {}
    names: dict[str, str] = {}
    subjects: list[tuple[str, str]] = []
    faults: list[Fault] = []
    for key, read in (("workspace", _workspace), ("services", _services)):
        value = environment.get(key)
        if not isinstance(value, dict):
            continue
        # Cases share the values they do not change; they are kept, so that no identity comes twice.
        kept = files.kept.get((key, id(value)))
        if kept is None:
            kept = files.kept[(key, id(value))] = (value, read(value, files))
        part: Inlined = kept[1]
        made[key] = part.environment
        contents.update(part.contents)
        names.update(part.names)
        subjects += part.subjects
        faults += [fault.under(key) for fault in part.faults]
    return Inlined(made, contents, names, tuple(subjects), tuple(faults))


# -- workspace ------------------------------------------------------------------------------------


def _workspace(value: Mapping[str, Any], files: ProjectFiles) -> Inlined:
    tree = _Tree()
    subjects: list[tuple[str, str]] = []
    source = value.get("from")
    try:
        if isinstance(source, str):
            found = files.folder(source)
            if isinstance(found, Fault):
                return Inlined(_nothing(), faults=(found.under("from"),))
            name, folder = found
            tree.copy(folder, name)
            listing = c1.text(tree.listing())
            subjects.append((f"{name}/", sha256_bytes(listing.encode()).removeprefix("sha256:")))
        for path, file in value["files"].items():
            if "base64" in file:
                data = base64.b64decode(file["base64"])
            else:
                data = file["text"].encode("utf-8")
            tree.put(path, data, file["mode"])
    except _RefusedError as error:
        return Inlined(_nothing(), faults=(error.fault,))
    made: dict[str, Json] = {"files": tree.listing(), "git": value["git"]}
    names = {
        str(entry["sha256"]): f"the file {path} of the workspace"
        for path, entry in tree.entries.items()
        if "sha256" in entry
    }
    return Inlined(made, tree.contents, names, tuple(subjects), tuple(tree.faults))


def _nothing() -> dict[str, Json]:
    """What stands for a workspace that cannot be read, so that the rest can still be judged."""
    return {"files": [], "git": False}


class _Tree:
    """The workspace as it will be at the start of a run."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, Json]] = {}
        self.contents: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self._size = 0

    def listing(self) -> list[Json]:
        """Every entry, sorted by path."""
        return [self.entries[path] for path in sorted(self.entries)]

    def put(self, path: str, data: bytes, mode: str) -> None:
        """A file of the scenario's own, over what was copied."""
        place = ("files", path)
        former = self.entries.get(path)
        if former is not None and former["type"] == "directory":
            self._fault(place, "is a folder of 'from'", got=quoted(path), at_key=True)
            return
        parent = path
        while parent := parent.rpartition("/")[0]:
            entry = self.entries.get(parent)
            if entry is not None and entry["type"] != "directory":
                problem = f"lies in a {entry['type']} of 'from'"
                self._fault(place, problem, got=quoted(path), at_key=True)
                return
            if entry is None:
                self.entries[parent] = {"path": parent, "type": "directory", "mode": "0755"}
        if former is not None:
            size: Any = former.get("size", 0)
            self._size -= size
        self._add(path, data, mode, place)

    def copy(self, folder: Path, name: str) -> None:
        """Everything below ``folder``; links are kept as links."""
        root = os.path.realpath(folder)
        waiting = [""]
        while waiting:
            here = waiting.pop()
            try:
                with os.scandir(os.path.join(root, here)) as found:
                    entries = sorted(found, key=lambda entry: entry.name)
            except OSError as error:
                self._fault(
                    ("from",), f"cannot be read ({error.strerror})", got=quoted(here or name)
                )
                continue
            for entry in entries:
                path = f"{here}/{entry.name}" if here else entry.name
                if len(self.faults) >= _MAX_FAULTS:
                    return
                if self._take(entry, path, root):
                    waiting.append(path)

    def _take(self, entry: os.DirEntry[str], path: str, root: str) -> bool:
        """Take one entry in; True for a folder that is to be looked into."""
        shown = quoted(os.fsencode(path).decode("utf-8", "backslashreplace"))
        problem = path_problem(path)
        if problem is None and any("\ud800" <= char <= "\udfff" for char in path):
            problem = "has a name that is not UTF-8"
        if problem is not None:
            fix = "leave it out and write 'git: true'" if problem == "belongs to git" else None
            self._fault(("from",), problem, got=shown, fix=fix)
            return False
        try:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                self.entries[path] = {"path": path, "type": "directory", "mode": "0755"}
                self._count()
                return True
            if stat.S_ISLNK(status.st_mode):
                self._link(path, os.readlink(entry.path), root, shown)
            elif stat.S_ISREG(status.st_mode):
                self._check_size(status.st_size)
                with open(entry.path, "rb") as file:
                    data = file.read()
                # As git has it: a checkout's other permission bits are those of its user's umask.
                mode = "0755" if status.st_mode & stat.S_IXUSR else "0644"
                self._add(path, data, mode, ("from",))
            else:
                self._fault(("from",), "is neither a file, a folder nor a link", got=shown)
        except OSError as error:
            self._fault(("from",), f"cannot be read ({error.strerror})", got=shown)
        return False

    def _link(self, path: str, target: str, root: str, shown: str) -> None:
        steps = target.split("/")
        depth = path.count("/")
        for step in steps:
            depth += {"..": -1, ".": 0, "": 0}.get(step, 1)
            if depth < 0:
                break
        real = os.path.realpath(os.path.join(root, path))
        is_inside = real == root or real.startswith(root.rstrip(os.sep) + os.sep)
        if target.startswith("/") or depth < 0 or not is_inside:
            self._fault(
                ("from",),
                "is a link that leads out of the workspace",
                got=shown,
                rule="links are relative and stay inside",
            )
            return
        try:
            target.encode("utf-8")
        except UnicodeEncodeError:
            self._fault(("from",), "is a link whose target is not UTF-8", got=shown)
            return
        self.entries[path] = {"path": path, "type": "symlink", "target": target}
        self._count()

    def _add(self, path: str, data: bytes, mode: str, place: tuple[str, ...]) -> None:
        digest = sha256_bytes(data)
        self.contents[digest] = data
        self.entries[path] = {
            "path": path,
            "type": "file",
            "mode": mode,
            "sha256": digest,
            "size": len(data),
        }
        self._size += len(data)
        self._check_size(0, place)
        self._count()

    def _check_size(self, more: int, place: tuple[str, ...] = ("from",)) -> None:
        size = self._size + more
        if size > MAX_BYTES:
            raise _RefusedError(
                Fault(
                    place[:1],
                    "holds too much for a workspace",
                    got=f"{size} bytes",
                    rule=f"at most {MAX_BYTES}",
                )
            )

    def _count(self) -> None:
        if len(self.entries) > MAX_FILES:
            raise _RefusedError(
                Fault(
                    (),
                    "holds too many files and folders",
                    got=f"more than {MAX_FILES}",
                    rule=f"at most {MAX_FILES}",
                )
            )

    def _fault(self, path: tuple[str | int, ...], problem: str, **more: Any) -> None:
        self.faults.append(Fault(path, problem, **more))


# -- services -------------------------------------------------------------------------------------


def _services(value: Mapping[str, Any], files: ProjectFiles) -> Inlined:
    """The files of each ``init``: ``{"file": name}`` becomes ``{"file", "sha256"}``."""
    made: dict[str, Json] = {}
    contents: dict[str, bytes] = {}
    names: dict[str, str] = {}
    subjects: list[tuple[str, str]] = []
    faults: list[Fault] = []
    size = 0
    for name, config in value.items():
        made[name] = config
        given = config.get("init") if isinstance(config, dict) else None
        if not isinstance(given, list):
            continue
        init: list[Json] = []
        for position, entry in enumerate(given):
            place = (name, "init", position)
            if not (isinstance(entry, dict) and set(entry) == {"file"}):
                init.append(entry)
                continue
            found = files.read(entry["file"])
            if isinstance(found, Fault):
                faults.append(found.under(*place))
                continue
            shown, data = found
            size += len(data)
            if size > MAX_BYTES:
                problem = "the files of all services hold too much"
                rule = f"at most {MAX_BYTES}"
                faults.append(Fault(place, problem, got=f"{size} bytes", rule=rule))
                continue
            try:
                data.decode("utf-8")
            except UnicodeDecodeError as error:
                problem = f"is not UTF-8 (at byte {error.start})"
                faults.append(Fault(place, problem, got=quoted(shown)))
                continue
            digest = sha256_bytes(data)
            contents[digest] = data
            names[digest] = f"the file {shown} of service '{name}'"
            subjects.append((shown, digest.removeprefix("sha256:")))
            init.append({"file": entry["file"], "sha256": digest})
        made[name] = {**config, "init": init}
    return Inlined(made, contents, names, tuple(subjects), tuple(faults))


def with_texts(config: JsonObject, content: Any) -> JsonObject:
    """A service's configuration with the texts of its files in place.

    Args:
        config: As :func:`inline` left it.
        content: Digest to bytes.
    """
    init = config.get("init")
    if not isinstance(init, list):
        return config
    texts: list[Json] = []
    for entry in init:
        if isinstance(entry, dict) and set(entry) == {"file", "sha256"}:
            texts.append(content(entry["sha256"]).decode("utf-8"))
        else:
            texts.append(entry)
    return {**config, "init": texts}

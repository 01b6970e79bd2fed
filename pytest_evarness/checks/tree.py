"""The files of a sealed workspace, by their paths, as its snapshot lists them.

Nothing of the disk is asked here: where a link leads follows from the links that were sealed, so no
path can lead out of the workspace.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pytest_evarness.core.registry import nearest
from pytest_evarness.errors import Fault
from pytest_evarness.source.quote import quoted
from pytest_evarness.world.model import is_git_name, path_problem

__all__ = ["Glob", "Place", "State", "Tree", "path_faults", "read_glob"]

State: TypeAlias = Literal["there", "missing", "hidden", "dangling", "outside", "loop"]

_MAX_LINKS = 40
_RULE = "paths lead from the workspace, with '/'"


def path_faults(path: str, key: str) -> list[Fault]:
    """Why a path cannot be one of the workspace's, in words; nothing is looked up for it."""
    problem = path_problem(path)
    if problem is not None:
        fix = "ask git: check: {type: command_exit, command: git ...}" if "git" in problem else None
        if path.startswith("/workspace/") and path_problem(path[11:]) is None:
            fix = f"write {quoted(path[11:])}"
        return [Fault((key,), problem, got=quoted(path), rule=_RULE, fix=fix)]
    if key == "path" and "*" in path:
        return [
            Fault(
                (key,),
                "a path names one file",
                got=quoted(path),
                rule="'*' stands for other characters in 'glob' alone",
                fix=f"write 'glob: {quoted(path)}'",
            )
        ]
    return []


# -- globs -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern of paths: ``*``, ``?``, ``[abc]`` within a component, ``**`` for any of them.

    Names that begin with a dot are names like others.
    """

    text: str
    parts: tuple[tuple[Any, ...] | None, ...]  # None stands for **

    def matches(self, path: str) -> bool:
        """Whether the whole of ``path`` is one that the pattern stands for."""
        return _run(self.parts, path.split("/"), lambda part, name: _run(part, name, _takes))


def _takes(part: Any, char: str) -> bool:
    """Whether one character is what one step of a component asks for."""
    if isinstance(part, str):
        return part == char
    if part is ...:
        return True
    is_negated, ranges = part
    return is_negated is not any(low <= char <= high for low, high in ranges)


def _run(wanted: Sequence[Any], given: Sequence[Any], takes: Any) -> bool:
    """Whether steps take all of a sequence; a step None takes any number of its members.

    Only the last such step is ever gone back to: what an earlier one might take instead, the later
    one can take as well. So the time is bounded by the product of both lengths.
    """
    at = place = 0
    again: tuple[int, int] | None = None
    while place < len(given):
        if at < len(wanted) and wanted[at] is None:
            again = (at + 1, place)
            at += 1
        elif at < len(wanted) and takes(wanted[at], given[place]):
            at += 1
            place += 1
        elif again is not None:
            at, place = again[0], again[1] + 1
            again = (at, place)
        else:
            return False
    return all(step is None for step in wanted[at:])


def read_glob(text: str, key: str = "glob") -> tuple[Glob | None, list[Fault]]:
    """Read a pattern of paths, or say why it is none."""
    faults = path_faults(text, key)
    if faults:
        return None, faults
    problem = fix = None
    if not any(char in text for char in "*?["):
        problem, fix = "has no '*', '?' or '[...]'", f"write 'path: {quoted(text)}'"
    elif "{" in text:
        problem, fix = "has a brace, which stands for nothing else here", "write one check for each"
    parts: list[tuple[Any, ...] | None] = []
    for component in text.split("/"):
        if component == "**":
            if not parts or parts[-1] is not None:
                parts.append(None)
        elif "**" in component:
            problem = "has '**' inside a component"
            fix = "write '**/' for any number of folders"
        else:
            part = _component(component)
            if part is None:
                problem, fix = "has a '[' without its ']'", "write '[[]' for the character"
            parts.append(part or ())
    if problem is not None:
        return None, [Fault((key,), problem, got=quoted(text), fix=fix)]
    if parts[-1] is None:
        parts.append((None,))  # a last ** stands for everything below, not for the folder itself
    return Glob(text, tuple(parts)), []


def _component(text: str) -> tuple[Any, ...] | None:
    steps: list[Any] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            if not steps or steps[-1] is not None:
                steps.append(None)
        elif char == "?":
            steps.append(...)
        elif char == "[":
            end = text.find("]", at + (2 if text[at : at + 1] in ("!", "^") else 1))
            if end < 0:
                return None
            steps.append(_class(text[at:end]))
            at = end + 1
        else:
            steps.append(char)
    return tuple(steps)


def _class(text: str) -> tuple[bool, tuple[tuple[str, str], ...]]:
    is_negated = text[0] in "!^"
    text = text[1:] if is_negated else text
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            ranges.append((text[at], text[at + 2]))
            at += 3
        else:
            ranges.append((text[at], text[at]))
            at += 1
    return is_negated, tuple(ranges)


# -- the tree ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """What is at a path.

    Attributes:
        path: As it was asked for.
        state: ``there``; ``missing``; ``hidden``, which nobody can tell; or how the link at
            ``link`` fails: it is ``dangling``, leads ``outside``, or round in a ``loop``.
        entry: What is there, links followed.
        real: Its own path.
        link: The first link that was followed, or the one that fails.
        target: Where that one points, as it was written.
        why: What stands in the way, where it is missing or hidden because of something before it.
    """

    path: str
    state: State
    entry: Mapping[str, Any] | None = None
    real: str = ""
    link: str | None = None
    target: str | None = None
    why: str | None = None


class Tree:
    """The workspace of a snapshot.

    Args:
        workspace: ``snapshot["workspace"]``.
    """

    def __init__(self, workspace: Mapping[str, Any]) -> None:
        self._entries: dict[str, Mapping[str, Any]] = {
            entry["path"]: entry for entry in workspace["files"]
        }
        self.removed: frozenset[str] = frozenset(workspace.get("removed", ()))
        self.is_gone: bool = workspace.get("is_gone", False)
        self._beyond: int = workspace.get("beyond", {}).get("count", 0)
        self._closed = sorted(
            path
            for path, entry in self._entries.items()
            if entry["type"] in ("directory", "unknown") and entry.get("unreadable")
        )

    def __len__(self) -> int:
        return len(self._entries)

    def itself(self, path: str) -> Mapping[str, Any] | None:
        """What has this very name, a last link not followed; links before it are."""
        parent, _, name = path.rpartition("/")
        if parent:
            above = self.find(parent)
            if above.state != "there":
                return None
            path = f"{above.real}/{name}" if above.real else name
        return self._entries.get(path)

    def matching(self, glob: Glob) -> Iterator[str]:
        """Paths of all entries that a pattern stands for, sorted; folders behind links are not."""
        return (
            path
            for path in sorted(self._entries)
            if glob.matches(path) and not any(is_git_name(part) for part in path.split("/"))
        )

    @property
    def doubt(self) -> str | None:
        """Why there may be entries that are not listed; None where all are."""
        if self._beyond:
            return f"{self._beyond:,} more entries are not listed one by one"
        if self._closed:
            return f"'{self._closed[0]}' cannot be read"
        return None

    def find(self, path: str) -> Place:
        """What is at a path, links followed inside the workspace, and nowhere else."""
        first: tuple[str, str] | None = None
        waiting = path.split("/")[::-1]
        here: list[str] = []
        links = 0
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                assert first is not None, "a path has no '..' of its own"
                if not here:
                    return self._failed(path, "outside", first)
                if self._entries["/".join(here)]["type"] != "directory":
                    return self._failed(path, "dangling", first)
                here.pop()
                continue
            name = "/".join([*here, part])
            entry = self._entries.get(name)
            if entry is None:
                return self._nothing(path, here, first)
            if entry["type"] != "symlink":
                here.append(part)
                continue
            target = entry.get("target")
            if target is None:
                return Place(path, "hidden", why=f"the link '{name}' cannot be read")
            first = first or (name, target)
            links += 1
            if links > _MAX_LINKS:
                return self._failed(path, "loop", first)
            if target.startswith("/"):
                return self._failed(path, "outside", (name, target))
            if not target:
                return self._failed(path, "dangling", (name, target))
            waiting += target.split("/")[::-1]
        real = "/".join(here)
        found = self._entries.get(real) or {"path": "", "type": "directory"}
        link, target = first or (None, None)
        return Place(path, "there", found, real, link, target)

    @staticmethod
    def _failed(path: str, state: State, link: tuple[str, str]) -> Place:
        return Place(path, state, link=link[0], target=link[1])

    def _nothing(self, path: str, here: list[str], link: tuple[str, str] | None) -> Place:
        """No entry is listed below ``here``."""
        name = "/".join(here)
        last = self._entries.get(name, {"type": "directory"})
        if last.get("unreadable"):
            return Place(path, "hidden", why=f"'{name}' cannot be read")
        if self._beyond:
            return Place(path, "hidden", why=self.doubt)
        if link is not None:
            return self._failed(path, "dangling", link)
        why = None if last["type"] == "directory" else f"'{name}' is a {last['type']}"
        return Place(path, "missing", why=why)

    def like(self, path: str) -> str | None:
        """A path that is there and was probably meant."""
        folded = _folded(path)
        for other in sorted(self._entries):
            if _folded(other) == folded:
                return other
        return nearest(path, list(self._entries)[:2000])


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()

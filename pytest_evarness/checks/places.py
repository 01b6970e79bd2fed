"""What a check of files looks at, whichever it is: the places that it names.

What is there is read off the snapshot of the sealed workspace, so the disk is not asked at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from pydantic import Field

from pytest_evarness.checks.found import found
from pytest_evarness.checks.kind import CheckKind, UnavailableError
from pytest_evarness.checks.tree import Place, Tree, path_faults, read_glob
from pytest_evarness.checks.written import NonEmpty
from pytest_evarness.core import c1
from pytest_evarness.core.finding import Witness
from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.errors import Fault

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.world.sealed import Scene

__all__ = [
    "FileKind",
    "GlobText",
    "PathText",
    "Told",
    "entry_line",
    "look",
    "named",
    "place_of",
    "trouble_at",
]

MAX_PLACES = 10_000
_MAX_TOLD = 3

PathText: TypeAlias = Annotated[NonEmpty, Field(description="Leads from the workspace, with '/'.")]
GlobText: TypeAlias = Annotated[NonEmpty, Field(description="Such as out/**/*.json.")]


def place_of(value: Mapping[str, Json]) -> tuple[dict[str, Json], list[Fault]]:
    """``{path}`` or ``{glob}``, and what is wrong with it, whatever else is wrong."""
    path, glob = value.get("path"), value.get("glob")
    if "path" in value and "glob" in value:
        return {}, [Fault(("glob",), "stands beside 'path'", rule="one of both", at_key=True)]
    if isinstance(path, str) and path:
        return {"path": path}, path_faults(path, "path")
    if isinstance(glob, str) and glob:
        return {"glob": glob}, read_glob(glob)[1]
    if "path" in value or "glob" in value:
        return {}, []  # told by the model
    return {}, [Fault((), "names no file", rule="one of path, glob")]


class FileKind(CheckKind):
    """What the three have in common."""

    def needs(self, definition: JsonObject) -> frozenset[str]:
        """The workspace."""
        del definition
        return frozenset({"workspace"})

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        """What is at the path, or at each path that the pattern stands for."""
        return look(definition, scene.snapshot)

    def consistent(
        self, definition: JsonObject, gathered: JsonObject, world: JsonObject
    ) -> str | None:
        """Look again at the sealed world, and compare."""
        if not world.get("workspace"):
            return "the sealed world has no workspace"
        again = look(definition, world)
        told: Any = dict(gathered)
        seen: Any = dict(again)
        places = zip(told.pop("places"), seen.pop("places"), strict=False)
        count = len(cast("Sequence[Any]", again["places"]))
        if told != seen or count != len(cast("Sequence[Any]", gathered["places"])):
            return "the sealed workspace has other entries there"
        for one, other in places:
            if other.pop("masked", False):
                # The sealed world tells the digest of the masked text alone.
                for key in ("size", "sha256"):
                    one.pop(key, None)
                    other.pop(key, None)
            if {key: value for key, value in one.items() if key not in _TEXT_KEYS} != other:
                return f"the sealed workspace has something else at {shown(one['path'])}"
        return None

    def largest(self, definition: JsonObject, world: JsonObject) -> int | None:
        """Of what the sealed world shows there."""
        if not world.get("workspace"):
            return None
        return len(c1.text(look(definition, world)))


_TEXT_KEYS = ("text", "is_cut", "undecodable")

# -- looking -----------------------------------------------------------------------------------


def look(definition: Mapping[str, Any], snapshot: Mapping[str, Any]) -> dict[str, Json]:
    """The places that a definition names, as a snapshot has them."""
    tree = Tree(snapshot["workspace"])
    record: dict[str, Json] = {"entries": len(tree), "doubt": tree.doubt, "is_gone": tree.is_gone}
    if "path" in definition:
        path = definition["path"]
        record["places"] = [_seen(tree, path, definition)]
        record["was_there"] = path in tree.removed
        return record
    glob, faults = read_glob(definition["glob"])
    assert glob is not None, faults
    paths = list(tree.matching(glob))
    if len(paths) > MAX_PLACES:
        raise UnavailableError(
            Cause.MISSING_EVIDENCE,
            f"{glob.text} stands for {len(paths):,} entries, of which at most {MAX_PLACES:,} are"
            " looked at",
        )
    record["places"] = [_seen(tree, path, definition) for path in paths]
    record["was_there"] = any(glob.matches(path) for path in tree.removed)
    return record


def _seen(tree: Tree, path: str, definition: Mapping[str, Any]) -> dict[str, Json]:
    """One place, with as much of its entry as the definition asks about."""
    place = tree.find(path)
    itself = tree.itself(path)
    made: dict[str, Json] = {"path": path, "state": place.state}
    if itself is not None:
        made["itself"] = itself["type"]
    for key in ("link", "target", "why"):
        value = getattr(place, key)
        if value is not None:
            made[key] = value
    if place.state == "missing":
        made["like"] = tree.like(path)
    if place.entry is not None:
        made.update(_described(place, definition))
    return made


def _described(place: Place, definition: Mapping[str, Any]) -> dict[str, Json]:
    entry = place.entry
    assert entry is not None, "asked before"
    made: dict[str, Json] = {"type": entry["type"], "real": place.real}
    for key in ("unreadable", "unread", "masked"):
        if entry.get(key):
            made[key] = True
    asked = {"mode": "mode", "min_size": "size", "sha256": "sha256"}
    wanted = [key for word, key in asked.items() if definition.get(word) is not None]
    if definition["type"] == "file_content":
        wanted = ["size"]
    made.update((key, entry[key]) for key in wanted if key in entry)
    return made


# -- telling -----------------------------------------------------------------------------------


def trouble_at(place: Mapping[str, Any]) -> str | None:
    """Why there is nothing to be had at a place; None where there is something."""
    path = place["path"]
    state = place["state"]
    if state == "missing":
        why = f" ({place['why']})" if "why" in place else ""
        like = f"; {shown(place['like'])} is there" if place.get("like") else ""
        return f"{path} does not exist{why}{like}"
    if state in ("dangling", "outside", "loop"):
        link, target = place["link"], shown(place["target"])
        which = path if link == path else f"{path} cannot be reached: {link}"
        end = {
            "dangling": f"is a symlink to {target}, which does not exist",
            "outside": f"is a symlink to {target}, which leads out of the workspace",
            "loop": f"is a symlink to {target}, which leads round to itself",
        }[state]
        return f"{which} {end}"
    return None


def entry_line(place: Mapping[str, Any]) -> str:
    """One place for a witness."""
    trouble = trouble_at(place)
    if trouble is not None:
        return trouble
    words = [str(place.get("type", place["state"]))]
    words += [f"mode {place['mode']}"] if "mode" in place else []
    words += [f"{place['size']:,} bytes"] if "size" in place else []
    words += [str(place["sha256"])] if "sha256" in place else []
    if "link" in place:
        words.append(f"through the symlink {place['link']} to {shown(place['target'])}")
    return f"{place['path']}: {', '.join(words)}"


def named(definition: Mapping[str, Any]) -> str:
    """The path or the pattern, as it was written."""
    return str(definition["path"] if "path" in definition else definition["glob"])


def _looked_at(gathered: Mapping[str, Any]) -> tuple[str, ...]:
    return (f"the workspace at the end of run A, {gathered['entries']:,} entries",)


@dataclass(slots=True)
class Told:
    """What speaks against a pass: what fails it, and what leaves it open."""

    failed: list[str] = field(default_factory=list)
    open: list[tuple[Cause, str]] = field(default_factory=list)
    observed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def leave(self, cause: Cause, why: str) -> None:
        """Something is not known."""
        self.open.append((cause, why))

    def finding(
        self,
        item: PlannedItem,
        gathered: Mapping[str, Any],
        *,
        passed: str,
        expected: str,
        places: Iterable[Mapping[str, Any]],
        absent: tuple[str, ...] = (),
    ) -> Finding:
        """Fail if anything fails, else undecided if anything is open."""
        lines = tuple(entry_line(place) for place in places)
        observed = "; ".join(self.observed[:_MAX_TOLD]) or None
        outcome, reason, causes = Outcome.PASS, passed, ()
        if self.failed:
            outcome, reason = Outcome.FAIL, _joined(self.failed)
        elif self.open:
            outcome, reason = Outcome.INDETERMINATE, _joined([why for _, why in self.open])
            causes = Cause.ordered(cause for cause, _ in self.open)  # type: ignore[assignment]
        witness = Witness(
            absent=absent if outcome is Outcome.PASS else (),
            expected=expected,
            observed=observed,
            notes=tuple(dict.fromkeys(self.notes)),
            entries=lines,
        )
        return found(
            item, outcome, reason, causes=causes, witness=witness, looked_at=_looked_at(gathered)
        )


def _joined(sentences: Sequence[str]) -> str:
    told = "; ".join(sentences[:_MAX_TOLD])
    more = len(sentences) - _MAX_TOLD
    return f"{told}; and {more} more" if more > 0 else told

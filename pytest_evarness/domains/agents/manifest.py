"""Tool manifests: what may be called, with which arguments, under which safety."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from pytest_evarness.core.interfaces import Locations, Overlay, OverlayTest
from pytest_evarness.domains.agents.effect import manifest_effect_faults, template_faults
from pytest_evarness.domains.agents.environment import parse_tool_rules
from pytest_evarness.domains.agents.layer import documents, line_of
from pytest_evarness.domains.agents.schema import schema_faults
from pytest_evarness.domains.agents.template import template_problem
from pytest_evarness.domains.agents.text import plain
from pytest_evarness.domains.agents.trial import ToolTest, Trials, parse_tests
from pytest_evarness.errors import Fault
from pytest_evarness.source.document import load_document
from pytest_evarness.source.mistake import raise_all
from pytest_evarness.source.model import Absent, Strict, parse_model, refuse, unknown_key
from pytest_evarness.source.quote import quoted, shown
from pytest_evarness.world.effect import EffectEntry  # noqa: TC001 - the type of a field

if TYPE_CHECKING:
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.source.document import Document

__all__ = [
    "OVERLAY",
    "PlacedTest",
    "aliases_of",
    "canonical",
    "load_manifests",
    "load_tests",
    "manifests_of",
    "parse_manifests",
    "requires_approval",
    "tests_in",
]

OVERLAY = "tools"

_PACKAGED = Path(__file__).with_name("tools.yaml")
_SAFETY: Mapping[str, tuple[Any, ...]] = {
    "side_effects": ("read", "write", "destructive"),
    "network": ("none", "outbound"),
    "requires_approval": (False, True),
}
"""The values of each key of ``safety``, from the least strict to the most."""


class _Safety(Strict):
    side_effects: Literal["read", "write", "destructive"]
    network: Literal["none", "outbound"] = "none"
    requires_approval: bool = False


class _Executor(Strict):
    kind: str

    @field_validator("kind")
    @classmethod
    def _simulated(cls, value: str) -> str:
        if value != "sim":
            raise refuse("runs are simulated: no other executor is called", rule="sim")
        return value


class _Manifest(Strict):
    id: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.\-]*$", max_length=200)]
    aliases: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(default_factory=list)
    name: str = ""
    version: str = "1"
    description: str = ""
    args: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    intent: Absent[Annotated[str, Field(min_length=1)]] = None
    safety: _Safety
    executor: _Executor = Field(default_factory=lambda: _Executor(kind="sim"))
    effects: list[EffectEntry] = Field(default_factory=list)
    sim: list[Any] = Field(default_factory=list)
    tests: Absent[dict[str, Any]] = None

    @field_validator("intent")
    @classmethod
    def _can_be_filled(cls, value: str | None) -> str | None:
        problem = template_problem(value)
        if problem is not None:
            raise refuse(problem)
        return value


def parse_manifests(value: Json) -> tuple[dict[str, Json], list[Fault]]:
    """Read the value of a ``tools.yaml``.

    Returns:
        Manifests by id with every default filled in, and the faults from the file's root.
    """
    if not isinstance(value, Mapping):
        return {}, [Fault((), "must be a mapping", got=shown(value), rule="with the key 'tools'")]
    faults = [unknown_key((), key, ["tools"]) for key in value if key != "tools"]
    listed = value.get("tools")
    if "tools" not in value and any(fault.fix for fault in faults):
        return {}, faults  # it is misspelt, which is one mistake
    if not isinstance(listed, list):
        rule = "key 'tools': a list of manifests"
        first = next(iter(listed), None) if isinstance(listed, Mapping) else None
        fix = None if first is None else f"write '- id: {first}' for '{first}:'"
        fault = Fault(("tools",), "must be a list", got=shown(listed, 80), rule=rule, fix=fix)
        return {}, [*faults, fault]
    manifests: dict[str, Json] = {}
    names: dict[str, int] = {}
    for index, written in enumerate(listed):
        at = ("tools", index)
        manifest, found = _parse_manifest(written)
        faults += (fault.under(*at) for fault in found)
        if manifest is None:
            continue
        for name in (manifest.id, *manifest.aliases):
            if name in names:
                other = f"tools[{names[name]}]"
                faults.append(Fault(at, f"the name is taken by {other}", got=quoted(name)))
            names[name] = index
        described = manifest.model_dump(exclude={"effects", "tests"})
        manifests[manifest.id] = plain({**described, "effects": written.get("effects", [])})
    return manifests, faults


@dataclass(frozen=True, slots=True)
class PlacedTest:
    """One test of a manifest, and where it stands in its file."""

    tool: str
    manifest: Mapping[str, Any]
    test: ToolTest
    path: tuple[str | int, ...]


def tests_in(value: Json, manifests: Mapping[str, Json]) -> Iterator[PlacedTest]:
    """The tests of a file without faults, in its order."""
    listed: Any = value
    for index, written in enumerate(listed["tools"]):
        tool = written["id"]
        manifest: Any = manifests[tool]
        for test in parse_tests(written.get("tests", {}))[0]:
            yield PlacedTest(tool, manifest, test, ("tools", index, "tests", test.name))


def _parse_manifest(written: Json) -> tuple[_Manifest | None, list[Fault]]:
    if not isinstance(written, Mapping):
        return parse_model(_Manifest, written)
    manifest, faults = parse_model(_Manifest, written)
    if manifest is not None:
        wrong = schema_faults(manifest.args)
        if wrong:
            # Whoever looks into the schema later finds one that is sound.
            manifest = manifest.model_copy(update={"args": {"type": "object"}})
        faults += (fault.under("args") for fault in wrong)
        faults += (fault.under("sim") for fault in parse_tool_rules(manifest.sim)[1])
        faults += (fault.under("effects") for fault in template_faults(written.get("effects")))
        if not faults:
            as_written = {**manifest.model_dump(), "effects": written.get("effects", [])}
            faults += manifest_effect_faults(as_written)
        if manifest.tests is not None:
            faults += (fault.under("tests") for fault in parse_tests(written["tests"])[1])
    return manifest, faults


def manifests_of(overlays: JsonObject) -> Mapping[str, Mapping[str, Any]]:
    """The manifests in force, by id."""
    found: Any = overlays.get(OVERLAY)
    return found if isinstance(found, Mapping) else {}


@lru_cache(maxsize=1)
def _packaged() -> tuple[dict[str, Json], str]:
    document = load_document(_PACKAGED, shown="tools.yaml (packaged)")
    manifests, faults = parse_manifests(document.value)
    assert not faults, f"the packaged manifests are checked by a test (got {faults})"
    return manifests, hashlib.sha256(document.data).hexdigest()


def load_manifests(locations: Locations, trials: Trials) -> Overlay:
    """The manifests in force: the packaged ones and the layers above them.

    A layer replaces a manifest whole, by its id, and may make it stricter only; an alias belongs to
    one tool over all layers.
    A manifest that its own tests contradict describes another tool, so its layer is not used.
    """
    packaged, digest = _packaged()
    merged = dict(packaged)
    sources = [("packaged/tools.yaml", digest)]
    origins: dict[str, tuple[str, Document, int]] = {}
    faults: list[tuple[str, Fault]] = []
    for label, document, unread in documents(locations, OVERLAY):
        faults += unread
        if document is None:
            continue
        manifests, found = parse_manifests(document.value)
        found = found or list(_contradictions(document.value, manifests, trials))
        found += _weakened(document.value, manifests, merged)
        faults += ((line_of(label, document, fault), fault) for fault in found)
        sources.append((label, hashlib.sha256(document.data).hexdigest()))
        merged.update(manifests)
        origins |= {tool: (label, document, index) for index, tool in _placed(document.value)}
    faults += _clashes(merged, origins)
    return Overlay(OVERLAY, merged, tuple(sources), tuple(faults))


def _placed(value: Any) -> Iterator[tuple[int, str]]:
    """The ids of a file, each with its place in the list."""
    listed = value.get("tools") if isinstance(value, Mapping) else None
    for index, written in enumerate(listed if isinstance(listed, list) else ()):
        tool = written.get("id") if isinstance(written, Mapping) else None
        if isinstance(tool, str):
            yield index, tool


def _clashes(
    merged: Mapping[str, Any], origins: Mapping[str, tuple[str, Document, int]]
) -> Iterator[tuple[str, Fault]]:
    """Names that tools of several layers have; two of one file were told with it."""
    for name, ids in sorted(_owners(merged).items()):
        labels = {
            tool: origins[tool][0] if tool in origins else "packaged/tools.yaml" for tool in ids
        }
        if len(ids) < 2 or len(set(labels.values())) == 1:
            continue
        # Told at the highest layer, which came to a name that was there.
        order = [label for label, _, _ in origins.values()]
        placed = [tool for tool in ids if tool in origins]
        label, document, index = origins[max(placed, key=lambda tool: order.index(labels[tool]))]
        told = ", ".join(f"{tool} of {labels[tool]}" for tool in ids)
        fault = Fault(("tools", index), f"the name stands for several tools ({told})", quoted(name))
        yield line_of(label, document, fault), fault


def _weakened(
    value: Any, manifests: Mapping[str, Json], below: Mapping[str, Json]
) -> Iterator[Fault]:
    """Safety that a layer takes from a tool which a layer below it describes."""
    placed = list(_placed(value))
    ids = Counter(tool for _, tool in placed)
    for index, tool in placed:
        # Which of two entries with one id is meant nobody can say; that there are two is told.
        if tool not in manifests or tool not in below or ids[tool] > 1:
            continue
        written = value["tools"][index]
        new: Any = manifests[tool]
        old: Any = below[tool]
        for key, order in _SAFETY.items():
            got, had = new["safety"][key], old["safety"][key]
            if order.index(got) >= order.index(had):
                continue
            at = ("tools", index, *(("safety", key) if key in written.get("safety", {}) else ()))
            yield Fault(
                at,
                f"a layer takes no safety from a tool that is described below it ({key} of"
                f" {quoted(tool)})",
                got=shown(got),
                rule=f"at least {shown(had)}",
                fix="give a tool of your own an id of its own",
            )


def _contradictions(value: Json, manifests: Mapping[str, Json], trials: Trials) -> Iterator[Fault]:
    for placed in tests_in(value, manifests):
        problem = trials.problem(placed.tool, placed.manifest, placed.test)
        if problem is not None:
            yield Fault(placed.path, f"the tool does not do what its test says: {problem}")


def load_tests(path: Path, shown: str, trials: Trials) -> list[OverlayTest]:
    """The tests inside the manifests of one file.

    Raises:
        InputError: The file cannot be read, or is no ``tools.yaml``.
    """
    document = load_document(path, shown=shown)
    manifests, faults = parse_manifests(document.value)
    raise_all([document.error(fault) for fault in faults])
    return [
        OverlayTest(
            owner=placed.tool,
            name=placed.test.name,
            line=document.where(placed.path, at_key=True).line or 1,
            problem=partial(trials.problem, placed.tool, placed.manifest, placed.test),
        )
        for placed in tests_in(document.value, manifests)
    ]


def _owners(manifests: Mapping[str, Any]) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for tool, manifest in sorted(manifests.items()):
        for name in dict.fromkeys((tool, *manifest["aliases"])):
            owners.setdefault(name, []).append(tool)
    return owners


def aliases_of(manifests: Mapping[str, Any]) -> dict[str, str]:
    """Each alias and the id it stands for."""
    return {
        alias: tool for tool, manifest in sorted(manifests.items()) for alias in manifest["aliases"]
    }


def requires_approval(manifest: Mapping[str, Any]) -> bool:
    """Whether a call needs a live approval of exactly its arguments; a destructive one always."""
    safety = manifest["safety"]
    return bool(safety["requires_approval"]) or safety["side_effects"] == "destructive"


def canonical(name: str, manifests: Mapping[str, Any]) -> str:
    """The id that ``name`` stands for; a name that nobody knows stands for itself."""
    if name in manifests:
        return name
    return aliases_of(manifests).get(name, name)

"""The user's own code that a graph calls: found and identified, never imported, by a loader."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.interfaces import LintFinding
from pytest_evarness.core.registry import nearest

if TYPE_CHECKING:
    from pytest_evarness.core.graph import Graph
    from pytest_evarness.core.registry import Registry

__all__ = ["Code", "find_code", "find_spec"]

MAX_CODE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Code:
    """What is known of the code that the nodes of a graph call.

    Attributes:
        subjects: ``(name, sha256 hex)`` of each module's file; the name holds no absolute path.
        findings: Modules that cannot be found, as lint errors.
    """

    subjects: tuple[tuple[str, str], ...]
    findings: tuple[LintFinding, ...]


def find_code(graph: Graph, registry: Registry, root: Path) -> Code:
    """Identify the module of every node that calls the user's own code.

    A module that is not there would end every run as ``failed``, and a case that expects a failure
    would then pass for the wrong reason; so it is told before anything runs.
    """
    subjects: dict[str, str] = {}
    findings = []
    for index, node in enumerate(graph.nodes.values()):
        kind = registry.node_types.find(node.type)
        if kind is None or kind.module_of is None or node.parsed is None:
            continue
        name = kind.module_of(node.parsed)
        spec = find_spec(name)
        if spec is None:
            findings.append(_missing(name, node.id, index, root))
            continue
        origin = spec.origin
        if not spec.has_location or origin is None:
            continue
        try:
            with Path(origin).open("rb") as stream:
                data = stream.read(MAX_CODE_BYTES + 1)
        except OSError:
            continue
        if len(data) <= MAX_CODE_BYTES:
            subjects[_subject(name, Path(origin), root)] = hashlib.sha256(data).hexdigest()
    return Code(tuple(sorted(subjects.items())), tuple(findings))


def find_spec(name: str) -> ModuleSpec | None:
    """Where a module would be imported from; no module is run, parent packages included."""
    search: Any = None
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for index in range(len(parts)):
        full = ".".join(parts[: index + 1])
        spec = getattr(sys.modules.get(full), "__spec__", None) or _asked(full, search)
        if spec is None and full in sys.modules:
            spec = ModuleSpec(full, None)  # made by hand: there, and without a file
        if spec is None:
            return None
        search = spec.submodule_search_locations
        if search is None and index + 1 < len(parts):
            return None
    return spec


def _asked(full: str, search: Any) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is None:
            continue
        try:
            spec: ModuleSpec | None = find(full, search)
        except (ImportError, ValueError):
            continue
        if spec is not None:
            return spec
    return None


def _subject(name: str, origin: Path, root: Path) -> str:
    resolved, base = origin.resolve(), root.resolve()
    if resolved.is_relative_to(base):
        return resolved.relative_to(base).as_posix()
    return f"module:{name}"


def _missing(name: str, node: str, index: int, root: Path) -> LintFinding:
    try:
        beside = [path.stem for path in root.glob("*.py")][:1000]
    except OSError:
        beside = []
    near = nearest(name, beside)
    return LintFinding(
        "error",
        "module_not_found",
        f"node '{node}': no module called '{name}' can be imported"
        " (searched: the project's root directory and Python's own path)",
        ("nodes", index, "config"),
        node,
        fix=f"write '{near}'" if near else "put it into the root directory, or on PYTHONPATH",
    )

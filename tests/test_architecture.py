"""Imports point one way: what a package may know is fixed, and nothing goes round in a circle."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
PACKAGE = "pytest_evarness"

# From left to right; parts of one layer do not import each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("plugin", "cli"),
    ("api",),
    ("history",),
    ("pipeline",),
    ("report",),
    ("scenario", "bundle"),
    ("checks",),
    ("contract", "world"),
    ("core", "source"),
    ("errors",),
)
DOMAINS_MAY = frozenset({"world", "core", "source", "errors"})

# What the kernel does without: it is domain-neutral, and cheap to import.
NOT_IN_CORE = frozenset({"yaml", "pydantic", "pytest", "_pytest", "cryptography", "jsonschema"})
LATE_IN_CORE = frozenset({"jsonschema"})


# Folders in which a function imports a module that needs its own module. The list may only shrink.
KNOTS_OF_LATE_IMPORTS = frozenset({"pytest_evarness.plugin", "pytest_evarness.source"})


class Imports:
    """What one module imports, told apart by when it does."""

    def __init__(self, name: str, tree: ast.Module, *, is_package: bool) -> None:
        self.name = name
        self.at_once: set[str] = set()
        self.late: set[str] = set()
        self.for_types: set[str] = set()
        self._base = name.split(".") if is_package else name.split(".")[:-1]
        self._read(tree, self.at_once)

    def all(self) -> set[str]:
        return self.at_once | self.late | self.for_types

    def _read(self, node: ast.AST, into: set[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                for entry in child.body:
                    self._take(entry, self.for_types)
                    self._read(entry, self.for_types)
                for entry in child.orelse:
                    self._take(entry, into)
                    self._read(entry, into)
                continue
            self._take(child, into)
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            self._read(child, self.late if is_function and into is self.at_once else into)

    def _take(self, node: ast.AST, into: set[str]) -> None:
        if isinstance(node, ast.Import):
            into.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = self._base[: len(self._base) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            into.update(f"{module}.{alias.name}" for alias in node.names)


def read_tree(root: Path) -> dict[str, Imports]:
    """Every module below ``root``/pytest_evarness, by its dotted name."""
    modules = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = list(path.relative_to(root).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules[name] = Imports(name, tree, is_package=is_package)
    return modules


def module_of(name: str, modules: Mapping[str, Imports]) -> str | None:
    """The module that an imported name belongs to; the longest that there is."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def part_of(name: str) -> str:
    """The folder or file directly below the package; empty for the package itself."""
    return name.split(".")[1] if "." in name else ""


def wrong_ways(modules: Mapping[str, Imports]) -> list[str]:
    rank = {part: index for index, layer in enumerate(LAYERS) for part in layer}
    found = []
    for name, imports in modules.items():
        part = part_of(name)
        for imported in sorted(imports.all()):
            target = module_of(imported, modules)
            if target is None or not target.startswith(f"{PACKAGE}."):
                continue
            other = part_of(target)
            if other == part:
                continue
            if part in ("", "__main__"):
                allowed = other in rank  # the public front: whatever is there, but no domain
            elif part == "domains":
                allowed = other in DOMAINS_MAY
            else:
                allowed = part in rank and other in rank and rank[other] > rank[part]
            if not allowed:
                found.append(f"{name} -> {target}")
    return found


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of names that reach each other, found the plain way."""
    reach = {name: set(targets) for name, targets in graph.items()}
    for middle in graph:
        for targets in reach.values():
            if middle in targets:
                targets |= reach[middle]
    knots = {
        tuple(sorted({name, *(other for other in reach[name] if name in reach.get(other, ()))}))
        for name in graph
        if name in reach[name]
    }
    return [list(knot) for knot in sorted(knots)]


def module_graph(modules: Mapping[str, Imports], *, with_late: bool = False) -> dict[str, set[str]]:
    """Imports that happen when a module is loaded; on demand those of its functions too."""
    graph: dict[str, set[str]] = {}
    for name, imports in modules.items():
        names = imports.at_once | imports.late if with_late else imports.at_once
        targets = (module_of(one, modules) for one in names)
        graph[name] = {target for target in targets if target is not None and target != name}
    return graph


def part_graph(modules: Mapping[str, Imports]) -> dict[str, set[str]]:
    """Imports between folders, those for the type checker too."""
    graph: dict[str, set[str]] = {}
    for name, imports in modules.items():
        targets = {
            part_of(target)
            for one in imports.all()
            if (target := module_of(one, modules)) is not None and target.startswith(f"{PACKAGE}.")
        }
        graph.setdefault(part_of(name), set()).update(targets - {part_of(name)})
    return graph


def foreign_to_core(modules: Mapping[str, Imports]) -> Iterator[str]:
    for name, imports in modules.items():
        if part_of(name) != "core":
            continue
        for imported in sorted(imports.all()):
            top = imported.partition(".")[0]
            is_late = imported not in imports.at_once and top in LATE_IN_CORE
            if top in NOT_IN_CORE and not is_late:
                yield f"{name} -> {imported}"


def foreign_at_load(modules: Mapping[str, Imports]) -> Iterator[str]:
    """What the kernel imports at once beside itself, the errors and the standard library."""
    for name, imports in modules.items():
        if part_of(name) == "core":
            for imported in sorted(imports.at_once):
                top = imported.partition(".")[0]
                if top not in sys.stdlib_module_names and top not in (PACKAGE, "regex"):
                    yield f"{name} -> {imported}"


# -- the package -----------------------------------------------------------------------------------

MODULES = read_tree(ROOT)


def test_there_is_a_package_to_look_at() -> None:
    assert len(MODULES) > 30
    assert sum(len(imports.all()) for imports in MODULES.values()) > 200


def test_imports_follow_the_layers() -> None:
    assert wrong_ways(MODULES) == []


def test_no_modules_need_each_other_to_be_loaded() -> None:
    assert cycles(module_graph(MODULES)) == []


def test_modules_that_need_each_other_later_stay_within_one_folder_and_are_known() -> None:
    folders = [
        {name.rpartition(".")[0] for name in knot}
        for knot in cycles(module_graph(MODULES, with_late=True))
    ]
    assert all(len(names) == 1 for names in folders)
    assert {names.pop() for names in folders} <= KNOTS_OF_LATE_IMPORTS


def test_no_folders_know_each_other_not_even_for_types() -> None:
    assert cycles(part_graph(MODULES)) == []


def test_the_kernel_knows_no_document_format_no_models_and_no_test_tool() -> None:
    assert list(foreign_to_core(MODULES)) == []
    assert list(foreign_at_load(MODULES)) == []


# -- the twin: a made-up tree that breaks each rule once -------------------------------------------

BROKEN = {
    "__init__.py": "",
    "errors.py": "",
    "core/__init__.py": "",
    "core/a.py": "import yaml\nfrom pytest_evarness.source import b\n",
    "core/c.py": (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from pytest_evarness.domains.x import y\n"
        "def f():\n    import jsonschema\n    from pytest_evarness.core import d\n"
    ),
    "core/d.py": "from . import c\nimport numpy\n",
    "source/__init__.py": "",
    "source/b.py": "from pytest_evarness import errors\n",
    "bundle/__init__.py": "from ..scenario import s\n",
    "scenario/__init__.py": "",
    "scenario/s.py": "from pytest_evarness.bundle import missing\n",
    "domains/__init__.py": "",
    "domains/x/__init__.py": "import pytest_evarness.checks.k\n",
    "domains/x/y.py": "from pytest_evarness.world import w\n",
    "checks/__init__.py": "",
    "checks/k.py": "",
    "world/__init__.py": "",
    "world/w.py": "",
    "stray.py": "from pytest_evarness.core import a\n",
}


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, Imports]:
    for name, content in BROKEN.items():
        path = tmp_path / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return read_tree(tmp_path)


def test_each_rule_would_notice_its_breach(broken: dict[str, Imports]) -> None:
    assert wrong_ways(broken) == [
        "pytest_evarness.bundle -> pytest_evarness.scenario.s",
        "pytest_evarness.core.a -> pytest_evarness.source.b",
        "pytest_evarness.core.c -> pytest_evarness.domains.x.y",
        "pytest_evarness.domains.x -> pytest_evarness.checks.k",
        "pytest_evarness.scenario.s -> pytest_evarness.bundle",
        "pytest_evarness.stray -> pytest_evarness.core.a",
    ]
    across = ["pytest_evarness.bundle", "pytest_evarness.scenario.s"]
    within = ["pytest_evarness.core.c", "pytest_evarness.core.d"]
    assert cycles(module_graph(broken)) == [across]
    assert cycles(module_graph(broken, with_late=True)) == [across, within]
    assert cycles(part_graph(broken)) == [["bundle", "scenario"]]
    assert list(foreign_to_core(broken)) == ["pytest_evarness.core.a -> yaml"]
    assert list(foreign_at_load(broken)) == [
        "pytest_evarness.core.a -> yaml",
        "pytest_evarness.core.d -> numpy",
    ]

"""Which files are scenarios and which are libraries; pure rules, no pytest.

Source: docs/scenarios.md, "Collection".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_evarness.errors import InputError
from pytest_evarness.source.document import Document, decode, load_document, read_bytes
from pytest_evarness.source.walk import yaml_below

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "EXCLUDED_FOLDERS",
    "EXCLUDED_NAMES",
    "SCENARIO_SUFFIXES",
    "find_scenarios",
    "holds_overlay_tests",
    "is_excluded",
    "is_yaml",
    "kind_of_document",
    "kind_of_file",
    "kind_to_collect",
]

SCENARIO_SUFFIXES = (".scenario.yaml", ".scenario.yml")
EXCLUDED_NAMES = frozenset(
    f"{stem}.{suffix}"
    for stem in ("contracts", "invariants", "tools")
    for suffix in ("yaml", "yml")
)
EXCLUDED_FOLDERS = frozenset({"fixtures", "graphs"})

_CASSETTES = (".cassette.yaml", ".cassette.yml")
# Enough to tell the kind of a file that does not load: a key in the first column.
_KEY_LINE = re.compile(
    r"""^(?:(["'])(?P<quoted>\w+)\1|(?P<bare>\w+))[ \t]*:(?:[ \t]|$)""", re.MULTILINE
)


def is_yaml(path: Path) -> bool:
    """Whether the name is that of a YAML file."""
    return path.suffix.lower() in (".yaml", ".yml")


def is_excluded(path: Path, folder: Path | None = None) -> bool:
    """Whether a file belongs to a scenario rather than being one.

    Args:
        path: The file.
        folder: Where the search began: folders above it do not count, so a project that itself
            lies in a folder ``fixtures`` is not lost.
    """
    if path.name in EXCLUDED_NAMES or path.name.endswith(_CASSETTES):
        return True
    parts: Sequence[str] = path.parent.parts
    if folder is not None and path.is_relative_to(folder):
        parts = path.parent.relative_to(folder).parts
    return any(part in EXCLUDED_FOLDERS for part in parts)


def kind_of_document(value: object) -> str | None:
    """``scenario``, ``library`` or None, by the keys of a document.

    Invariants beside a ``subject`` are those of a scenario that lacks its first line.
    """
    if isinstance(value, Mapping):
        if "evarness" in value or ("invariants" in value and "subject" in value):
            return "scenario"
        if "contracts" in value or "invariants" in value:
            return "library"
    return None


def kind_of_file(path: Path) -> str | None:
    """``scenario``, ``library`` or None, by the keys of a file.

    A file that does not load is told by its key as well, so that its mistakes are reported by
    whoever collects it. A file that cannot be read at all is of no kind.
    """
    try:
        document: Document = load_document(path)
    except InputError:
        return _kind_of_broken(path)
    return kind_of_document(document.value)


def _kind_of_broken(path: Path) -> str | None:
    try:
        text = decode(read_bytes(path, path.name), path.name)
    except InputError:
        return None
    keys = {found.group("bare") or found.group("quoted") for found in _KEY_LINE.finditer(text)}
    return kind_of_document(dict.fromkeys(keys))


def kind_to_collect(
    path: Path,
    *,
    scenario_folders: Iterable[Path],
    contract_folders: Iterable[Path],
    is_named: bool = False,
    root: Path | None = None,
) -> str | None:
    """What a file is collected as: ``scenario``, ``library``, or None.

    Args:
        path: The file; absolute, like the folders.
        scenario_folders: Of the ini option ``evarness_scenarios``.
        contract_folders: Of the ini option ``evarness_contracts``.
        is_named: It was named on the command line.
        root: Where pytest began to look, for ``*.scenario.yaml`` outside the folders; by default
            the folder that holds the first of ``scenario_folders``.
    """
    scenario_folders = list(scenario_folders)
    if root is None and scenario_folders:
        root = scenario_folders[0].parent
    if not is_yaml(path):
        return None
    for folder in contract_folders:
        if path.is_relative_to(folder):
            # One folder may hold both; the key decides, and a file without any is a library's.
            return kind_of_file(path) or "library"
    for folder in scenario_folders:
        if path.is_relative_to(folder) and not is_excluded(path, folder):
            # Whatever has no key, or does not load, is told as a scenario that does not load.
            return "scenario"
    if path.name.endswith(SCENARIO_SUFFIXES) and not is_excluded(path, root):
        return "scenario"
    if is_named:
        return kind_of_file(path)
    return None


def find_scenarios(folder: Path) -> list[Path]:
    """Every scenario file under ``folder``, in an order that is the same on every machine."""
    found = [path for path in yaml_below(folder, folder.parent) if not is_excluded(path, folder)]
    return sorted(found, key=lambda path: path.relative_to(folder).parts)


OVERLAY_NAMES = frozenset({"tools.yaml", "tools.yml"})
OVERLAY_FOLDER = "evarness"
"""Of the project's root; an overlay that lies there is in force everywhere."""

# Read before anything is parsed: hardly one of these files holds a test.
_TESTS_KEY = re.compile(rb"""^[ \t]+(?:- )?(["']?)tests\1[ \t]*:""", re.MULTILINE)
_LOOKED_INTO = 1 << 20


def holds_overlay_tests(path: Path, *, root: Path, folders: Iterable[Path]) -> bool:
    """Whether a file is an overlay of this project and has the key ``tests`` somewhere."""
    if path.name not in OVERLAY_NAMES:
        return False
    if path.parent != root / OVERLAY_FOLDER and not any(
        path.is_relative_to(one) for one in folders
    ):
        return False
    try:
        with path.open("rb") as stream:
            return _TESTS_KEY.search(stream.read(_LOOKED_INTO)) is not None
    except OSError:
        return False

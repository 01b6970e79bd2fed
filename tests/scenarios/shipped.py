"""The shipped scenarios as mappings that a test bends, and what a session says of the result."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.source.document import load_document

if TYPE_CHECKING:
    from tests.plugin.ran import Ran

__all__ = [
    "FILE",
    "FILES",
    "FOLDER",
    "PATTERNS",
    "SHIPPED",
    "Change",
    "every",
    "fixture_of",
    "found",
    "odd",
    "only",
    "read",
    "replica",
    "shipped",
]

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "scenarios"
PATTERNS = REPOSITORY / "pytest_evarness" / "domains" / "agents" / "patterns"

SHIPPED = sorted(path.stem for path in FOLDER.glob("*.yaml"))
"""Names of the shipped scenarios."""

FILES = {
    f"scenarios/checks/{path.name}": path.read_text("utf-8")
    for path in sorted((FOLDER / "checks").glob("*.py"))
}
"""Scripts that they name."""

FILE = "scenarios/s.yaml"

Change = Callable[[dict[str, Any]], None]


def read(path: Path) -> Any:
    """What a YAML file holds, ours to change."""
    return copy.deepcopy(load_document(path).value)


def shipped(name: str) -> dict[str, Any]:
    """A shipped scenario."""
    made: dict[str, Any] = read(FOLDER / f"{name}.yaml")
    return made


def fixture_of(pattern: str, name: str) -> dict[str, Any]:
    """A fixture of a packaged pattern, as keys of ``environment``."""
    made: dict[str, Any] = read(PATTERNS / pattern / "fixtures" / f"{name}.yaml")
    made.pop("scenario", None)
    return made


def only(scenario: dict[str, Any], *cases: str) -> dict[str, Any]:
    """The scenario with these cases alone, and the invariants that are judged in one of them."""
    made = copy.deepcopy(scenario)
    made["cases"] = {case: made["cases"][case] for case in cases}
    for name, entry in list(made["invariants"].items()):
        if "cases" in entry:
            entry["cases"] = [case for case in entry["cases"] if case in cases]
            if not entry["cases"]:
                del made["invariants"][name]
    return made


def found(ran: Ran, item: str, case: str = "default") -> dict[str, Any]:
    """One finding of the session's bundle."""
    (one,) = [row for row in replica(ran, case)["findings"] if row["id"] == item]
    return dict(one)


def odd(ran: Ran, case: str = "default") -> dict[str, str]:
    """``{item: outcome and causes}`` of all findings of a case that did not pass."""
    return {
        row["id"]: " ".join([row["outcome"], *row["causes"]])
        for row in replica(ran, case)["findings"]
        if row["outcome"] != "pass"
    }


def replica(ran: Ran, case: str = "default") -> dict[str, Any]:
    """The one replica of a case in the session's bundle: status, verdict, composite, findings."""
    (only_one,) = [one for one in ran.predicate["cases"] if one["nodeid"] == f"{FILE}::{case}"]
    (made,) = only_one["replicas"]
    return dict(made)


def every(causes: str, *items: str) -> dict[str, str]:
    """These items are indeterminate for these causes; the form of :func:`odd`."""
    return dict.fromkeys(items, f"indeterminate {causes}")

"""One cause of a whole case is shown once on the terminal; every report keeps it for each item."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pytest

from pytest_evarness.plugin.text import first_line, one_line

__all__ = ["Once", "files_line", "grouped", "grouped_files", "more_line"]

_NAMED = 5


def grouped(entries: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, list[str]]]:
    """``(node id, text, other items)``: entries of one case that say the same, under the first.

    Args:
        entries: Category, node id and text of each.
    """
    groups: dict[tuple[str, str], tuple[str, str, list[str]]] = {}
    for _, nodeid, text in entries:
        case, _, item = nodeid.rpartition("::")
        key = (case, first_line(text, len(text)))
        if key in groups:
            groups[key][2].append(item)
        else:
            groups[key] = (nodeid, text, [])
    return list(groups.values())


def more_line(items: Sequence[str]) -> str:
    """How many other items of the case say the same, and which."""
    named = ", ".join(one_line(item, 80) for item in items[:_NAMED])
    rest = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    several = "item" if len(items) == 1 else "items"
    return f"the same for {len(items)} other {several} of the case: {named}{rest}"


def grouped_files(broken: Mapping[str, str]) -> list[tuple[str, str, list[str]]]:
    """``(file, mistakes, other files)``: files that did not load for the same mistakes.

    A file that many scenarios read, such as a manifest, stands before them, where it is one of
    those that did not load.
    """
    by_text: dict[str, list[str]] = {}
    for name, text in sorted(broken.items()):
        by_text.setdefault(text, []).append(name)
    groups = []
    for text, names in by_text.items():
        first = next((name for name in names if text.startswith(f"{name}:")), names[0])
        groups.append((first, text, [name for name in names if name != first]))
    return sorted(groups)


def files_line(files: Sequence[str]) -> str:
    """How many other files did not load for the same mistakes, and which."""
    named = ", ".join(one_line(name, 120) for name in files[:_NAMED])
    rest = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    several = "file" if len(files) == 1 else "files"
    return f"so {len(files)} other {several} did not load either: {named}{rest}"


class Once:
    """Registered when everything has run: pytest's own sections come next.

    Attributes:
        broken: Files that did not load, with their mistakes.
    """

    def __init__(self, broken: Mapping[str, str]) -> None:
        self.broken = broken

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, None, None]:
        """Leave out repeated errors while sections are written, and count them afterwards."""
        stats: dict[str, list[Any]] = terminalreporter.stats
        errors = stats.get("error")
        if not errors:
            return (yield)
        stats["error"] = _told_once(_files_once(errors, self.broken))
        try:
            return (yield)
        finally:
            stats["error"] = errors


def _files_once(errors: Sequence[Any], broken: Mapping[str, str]) -> list[Any]:
    """Errors without those of files that say what another file says."""
    others_by_first = {first: others for first, _, others in grouped_files(broken)}
    repeated = {f"{name}::load" for others in others_by_first.values() for name in others}
    kept = [report for report in errors if report.nodeid not in repeated]
    for report in kept:
        others = others_by_first.get(report.nodeid.removesuffix("::load"), [])
        if others and report.nodeid.endswith("::load"):
            report.sections.append(("evarness", files_line(others)))
    return kept


def _told_once(errors: Sequence[Any]) -> list[Any]:
    """Errors without those of a case that say what an earlier one said."""
    by_nodeid: dict[str, Any] = {}
    entries: list[tuple[str, str, str]] = []
    kept: list[Any] = []
    for report in errors:
        payload = getattr(report, "evarness", None)
        is_ours = isinstance(payload, dict) and payload.get("how") == "error"
        if isinstance(payload, dict) and is_ours and report.nodeid not in by_nodeid:
            by_nodeid[report.nodeid] = report
            entries.append(("error", report.nodeid, payload["text"]))
        else:
            kept.append(report)
    for nodeid, _, others in grouped(entries):
        report = by_nodeid[nodeid]
        kept.append(report)
        if others:
            report.sections.append(("evarness", more_line(others)))
    order = {id(report): place for place, report in enumerate(errors)}
    return sorted(kept, key=lambda report: order[id(report)])

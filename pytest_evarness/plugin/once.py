"""One cause of a whole case is shown once on the terminal; every report keeps it for each item."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from pytest_evarness.plugin.text import first_line, one_line

__all__ = ["Once", "grouped", "more_line"]

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


class Once:
    """Registered when everything has run: pytest's own sections come next."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, None, None]:
        """Leave out repeated errors while sections are written, and count them afterwards."""
        stats: dict[str, list[Any]] = terminalreporter.stats
        errors = stats.get("error")
        if not errors:
            return (yield)
        stats["error"] = _told_once(errors)
        try:
            return (yield)
        finally:
            stats["error"] = errors


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

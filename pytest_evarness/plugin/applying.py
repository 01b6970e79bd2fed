"""For which cases contracts are, settled before anything runs; ``--collect-only`` shows it.

Source: docs/contracts.md, "Which cases a contract is for".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evarness.plugin.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_evarness.scenario.case import Case

__all__ = ["applying_lines"]

MAX_LINES = 50

_LINE = 400


def applying_lines(cases: Iterable[Case]) -> Iterator[str]:
    """One line for each contract that ``applies_to`` brought to a case, or keeps from one."""
    counts: dict[tuple[str, str], int] = {}
    for case in cases:
        for item in case.items:
            if item.applies is not None:
                said = f"is not for them: {item.applies}"
            elif item.because is not None and "; " in item.because:
                said = item.because
            else:
                continue  # whoever named it knows why it is there
            counts[item.id, said] = counts.get((item.id, said), 0) + 1
    rows = sorted(counts.items())
    for (name, said), count in rows[:MAX_LINES]:
        noun = "case" if count == 1 else "cases"
        yield one_line(f"  {name}, {count} {noun}: {said}", _LINE)
    if len(rows) > MAX_LINES:
        yield f"  and {len(rows) - MAX_LINES} more; the bundle of a run has them all"

"""How much of its harnesses a session exercised: lines of the summary, and the demanded share.

Source: docs/pytest.md, "What was exercised".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from pytest_evarness.plugin import options
from pytest_evarness.plugin.text import one_line

if TYPE_CHECKING:
    import pytest

    from pytest_evarness.bundle.exercise import Exercise
    from pytest_evarness.plugin.state import SessionState

__all__ = ["coverage_lines", "coverage_problem", "nothing_problem"]

MAX_GRAPHS = 5
MAX_NAMES = 5
MAX_LINE = 400


def coverage_lines(state: SessionState) -> list[str]:
    """For the summary: the share, and what is missing; nothing where all of it was exercised."""
    from pytest_evarness.bundle.exercise import share_of

    exercises = state.exercises
    done, total, share = share_of(exercises)
    missing = list(_missing(exercises))
    demanded = options.min_coverage(state.config)
    if share is None or (not missing and demanded is None):
        return []
    lines = [f"exercised: {_percent(share)} of the harness ({done} of {total} {_kinds(exercises)})"]
    lines.extend(one_line(f"  not exercised: {text}", MAX_LINE) for text in missing[:MAX_GRAPHS])
    if len(missing) > MAX_GRAPHS:
        lines.append(f"  and parts of {len(missing) - MAX_GRAPHS} more graphs")
    return lines


def coverage_problem(state: SessionState) -> str | None:
    """The sentence that fails the session where less was exercised than is demanded."""
    from pytest_evarness.bundle.exercise import share_of

    demanded = options.min_coverage(state.config)
    if not demanded or state.plan is None:
        return None
    exercises = state.exercises
    _, _, share = share_of(exercises)
    if share is None:
        return nothing_problem(state.config)
    untold = sorted({f"{one} ({why})" for ex in exercises for one, why in ex.untold.items()})
    if share * 100 >= demanded and not untold:
        return None
    planned, ran = len(state.plan["plan"]), len(state.records)
    partial = f"; a partial session, {ran} of {planned} cases ran" if ran < planned else ""
    if untold:
        return (
            "evarness: how much of the harness was exercised cannot be told, at least"
            f" {_number(demanded)} % needed: domain {', '.join(untold)}"
        )
    counted = list(_missing(exercises, counted=True))
    more = f"; and parts of {len(counted) - MAX_GRAPHS} more graphs"
    text = "; ".join(counted[:MAX_GRAPHS]) + (more if len(counted) > MAX_GRAPHS else "")
    return one_line(
        f"evarness: {_percent(share)} of the harness was exercised, at least"
        f" {_number(demanded)} % needed{partial}; not exercised: {text}",
        2000,
    )


def nothing_problem(config: pytest.Config) -> str | None:
    """The same where no case ran at all.

    The ini twin is a standing demand: a session of ordinary tests has nothing to exercise.
    """
    demanded = options.min_coverage(config)
    if not demanded or not options.is_on_command_line(config, "min-coverage"):
        return None
    return (
        f"evarness: no case ran, so nothing of a harness was exercised, at least"
        f" {_number(demanded)} % needed"
    )


def _missing(exercises: Sequence[Exercise], *, counted: bool = False) -> Iterator[str]:
    """One text for each graph with parts that no case exercised."""
    for exercise in exercises:
        parts = [
            f"{kind} {_listed(names)}"
            for kind, names in exercise.missed()
            if not counted or kind in exercise.counted
        ]
        if parts:
            yield f"graph '{exercise.id}': {', '.join(parts)}"


def _listed(names: Sequence[str]) -> str:
    text = " | ".join(names[:MAX_NAMES])
    return text if len(names) <= MAX_NAMES else f"{text} and {len(names) - MAX_NAMES} more"


def _kinds(exercises: Sequence[Exercise]) -> str:
    kinds = sorted({kind for one in exercises for kind in one.counted if one.declared.get(kind)})
    return f"{', '.join(kinds[:-1])} and {kinds[-1]}" if len(kinds) > 1 else "".join(kinds)


def _percent(share: Fraction) -> str:
    """Cut, never rounded up: what reads like the demanded number reaches it."""
    tenths = share * 1000 // 1
    return f"{tenths // 10}.{tenths % 10} %" if tenths % 10 else f"{tenths // 10} %"


def _number(percent: Fraction) -> str:
    return f"{float(percent):g}"

"""A case that is ready to run and to be judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

    from pytest_evarness.contract.row import CorpusRow, OverrideRow
    from pytest_evarness.core.case import CompiledCase
    from pytest_evarness.core.json import JsonObject
    from pytest_evarness.core.plan import PlannedItem

__all__ = ["Case"]


@dataclass(frozen=True, slots=True)
class Case:
    """One variant of a scenario, compiled; nothing has run.

    Attributes:
        id: ``approve``, or with a matrix ``approve.seed-1``.
        base: The id before the matrix.
        scenario_id: The scenario's id.
        scenario_path: Of its file, relative to the root directory, with ``/``; empty when inline.
        tags: Keywords.
        mode: ``release``, ``exploratory`` or ``diagnostic``.
        compiled: What runs.
        merged: The whole case as it ran: fixture, scenario, case, matrix point, decisions.
        items: What it is judged by, in the order in which it is shown.
        threshold: ``scoring.pass_threshold``, exact; None without.
        expect: ``{status, nodes_run, nodes_not_run}`` and ``output`` where one is declared.
        line: Of the case in its file, from 1.
        subjects: ``(name, sha256 hex)`` of every file and definition it was compiled from.
        waived: Lint errors that ``subject.waive`` accepts, each as a sentence with its reason.
        warnings: Lint warnings, each as a sentence with its place.
        overlays_in_force: ``(name, label, sha256 hex)`` of every overlay layer.
        overrides: Every contract of it that stands in the place of another.
        corpora: What its contracts were tried by.
        params: ``(key, value)`` of the matrix point, in file order.
        decisions: ``NODE=approve`` of ``--evarness-approve`` for this case.
        task_prompt: What the agent was asked.
    """

    id: str
    base: str
    scenario_id: str
    scenario_path: str
    tags: tuple[str, ...]
    mode: str
    compiled: CompiledCase
    merged: JsonObject
    items: tuple[PlannedItem, ...]
    threshold: Fraction | None
    expect: JsonObject
    line: int
    subjects: tuple[tuple[str, str], ...] = ()
    waived: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    overlays_in_force: tuple[tuple[str, str, str], ...] = ()
    overrides: tuple[OverrideRow, ...] = ()
    corpora: tuple[CorpusRow, ...] = ()
    params: tuple[tuple[str, object], ...] = ()
    decisions: tuple[str, ...] = ()
    task_prompt: str = ""

    @property
    def point_words(self) -> list[str]:
        """``KEY=VALUE`` of the matrix point where the id has a position in place of the value."""
        from pytest_evarness.scenario.matrix import point_words

        return point_words(self.params)

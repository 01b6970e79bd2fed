"""Evidence of the checks, gathered from run A's sealed world; nothing is decided here.

Whatever a check does, a case is never lost over it: what cannot be looked at, breaks, hangs or
comes out differently when it is done again is recorded as undecided, with its cause.

Source: docs/checks/README.md, "How a check is evaluated".
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_evarness.checks.evidence import Evidence, Gathered
from pytest_evarness.checks.kind import DEFAULT_TIMEOUT_SECONDS, UnavailableError
from pytest_evarness.core import c1
from pytest_evarness.core.deadline import Deadline, OutOfTimeError
from pytest_evarness.core.expression import Patience
from pytest_evarness.core.interfaces import RUN_KEPT, RunAccount
from pytest_evarness.core.json import shown
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.stranger import pass_on
from pytest_evarness.errors import DeterminismError
from pytest_evarness.world.sealed import StaleWorldError

if TYPE_CHECKING:
    from fractions import Fraction

    from pytest_evarness.checks.judge import Judge, Judgement
    from pytest_evarness.checks.kind import CheckKind
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.world.sealed import Scene

__all__ = ["GRACE_SECONDS", "NOT_GRADED", "Gatherer", "difference", "judge_case"]

GRACE_SECONDS = 5.0
"""Kinds keep their own time; one that does not come back this much later is interrupted."""

NOT_GRADED = "not graded: the case is invalid whatever a judge says"


def judge_case(
    judge: Judge,
    items: Sequence[PlannedItem],
    evidence: Evidence,
    scene: Scene | None,
    *,
    threshold: Fraction | None,
    is_diagnostic: bool = False,
) -> tuple[Evidence, Judgement]:
    """Gather the evidence of every check and judge the case.

    All cheap checks are gathered whatever fails. What is graded by a model comes after the hard
    verdict, and only where that is not invalid, or where the case is an observation anyway.

    Args:
        judge: Judges.
        items: Of the case.
        evidence: Of the runs; what is gathered is added.
        scene: Run A's sealed world; None where there is nothing to look at.
        threshold: Of the composite.
        is_diagnostic: The case is of mode ``diagnostic``: never valid, and graded all the same.

    Returns:
        The evidence with what was gathered, and the judgement, secrets masked in its texts.
    """

    def judged(on: Evidence) -> Judgement:
        return judge.judge(items, on, threshold=threshold, is_diagnostic=is_diagnostic)

    checks = [item for item in items if item.is_check]
    if not checks:
        return evidence, judged(evidence)
    gatherer = Gatherer(judge.registry, scene)
    late = [item for item in checks if gatherer.is_late(item)]
    gathered = gatherer.gather(item for item in checks if item not in late)
    evidence = replace(evidence, gathered=gathered)
    judgement = judged(evidence)
    if late:
        if judgement.verdict == "invalid" and not is_diagnostic:
            ungraded = Gathered(None, (Cause.MISSING_EVIDENCE,), NOT_GRADED)
            graded = {item.id: ungraded for item in late}
        else:
            graded = gatherer.gather(late)
            leftovers = (*evidence.leftovers, *gatherer.leftovers(evidence.leftovers))
            evidence = replace(evidence, leftovers=leftovers)
        evidence = replace(evidence, gathered={**gathered, **graded})
        judgement = judged(evidence)
    if scene is not None and scene.masker:
        judgement = judgement.masked_by(scene.masker)
    return evidence, judgement


class Gatherer:
    """Gathers for the checks of one case."""

    def __init__(self, registry: Registry, scene: Scene | None) -> None:
        self._registry = registry
        self._scene = scene
        self._told: set[str] = set()

    def is_late(self, item: PlannedItem) -> bool:
        """Whether it waits for the hard verdict."""
        kind = self._find(item)
        try:
            return kind is not None and kind.after_verdict
        except BaseException as error:  # noqa: BLE001 - a broken kind is told when it is gathered
            pass_on(error)
            return False

    def gather(self, items: Iterable[PlannedItem]) -> dict[str, Gathered]:
        """What each item's check saw, by item id; never raises for a check's own failure."""
        return {item.id: self._one(item) for item in items}

    def leftovers(self, of_run: Sequence[str] = ()) -> list[str]:
        """What was scripted for judges and not used, in words.

        Args:
            of_run: What the run itself left, in words; a script may be read by both.
        """
        if self._scene is None:
            return []
        found: list[str] = []
        kept = {**self._scene.kept, RUN_KEPT: RunAccount(self._scene.events, of_run)}
        for name, judge in self._registry.judges.items():
            try:
                found += judge.leftovers(kept)
            except BaseException as error:  # noqa: BLE001 - a stranger's judge breaks nothing else
                pass_on(error)
                found.append(f"judge {name}: what it left cannot be told ({type(error).__name__})")
        return [self._scene.masker.text(text) for text in found]

    def _find(self, item: PlannedItem) -> CheckKind | None:
        return cast("CheckKind | None", self._registry.check_types.find(item.kind))

    def _one(self, item: PlannedItem) -> Gathered:
        kind = self._find(item)
        if kind is None:
            return _broken(f"no check type '{item.kind}' is known here")
        if self._scene is None:
            return _broken("there is no world to look at")
        definition = cast("JsonObject", item.definition or {})
        first = self._once(kind, definition)
        if first.record is None or not self._is_twice(kind, definition):
            return first
        second = self._once(kind, definition)
        if c1.text(first.as_record()) == c1.text(second.as_record()):
            return first
        what = difference(_result(first), _result(second))
        return _broken(f"gathered twice, it came out differently ({what})")

    def _is_twice(self, kind: CheckKind, definition: JsonObject) -> bool:
        try:
            return kind.only_reads or definition.get("recheck") is True
        except BaseException as error:  # noqa: BLE001 - it was gathered once, which is told
            pass_on(error)
            return False

    def _once(self, kind: CheckKind, definition: JsonObject) -> Gathered:
        scene = self._scene
        assert scene is not None, "asked before"
        seconds = definition.get("timeout", DEFAULT_TIMEOUT_SECONDS)
        assert isinstance(seconds, int | float), "the loader sees to it"
        deadline = Deadline(seconds + GRACE_SECONDS)
        try:
            missing = self._missing(kind.needs(definition), scene)
            if missing is not None:
                return missing
            with deadline:
                deadline.may_interrupt = True
                try:
                    # Its own copy: a check that changes its definition changes nobody else's.
                    with Patience():
                        record = kind.gather(json.loads(c1.text(definition)), scene)
                finally:
                    deadline.may_interrupt = False
            return Gathered(c1.frozen(_mapping(record), "gathered")[0])
        except UnavailableError as error:
            return Gathered(None, (error.cause,), impersonal(error.reason, scene))
        except StaleWorldError as error:
            return Gathered(None, (Cause.STALE_EVIDENCE,), error.reason)
        except OutOfTimeError:
            return _broken(f"timed out after {seconds:g} s")
        except DeterminismError as error:
            return _broken(f"the check gathered what has no canonical form: {error.problem}")
        except BaseException as error:  # noqa: BLE001 - one check's failure is a finding
            pass_on(error)
            return _broken(
                f"the check broke: {type(error).__name__}: {impersonal(str(error), scene)}"
            )

    def _missing(self, needs: frozenset[str], scene: Scene) -> Gathered | None:
        for need in sorted(needs):
            word, _, name = need.partition(":")
            if word == "service":
                service = scene.services.get(name)
                if service is None:
                    return _absent(f"service '{name}' is not there")
                if service.problem is not None:
                    return self._down(name, service.problem, scene)
            elif word == "workspace" and scene.workspace is None:
                return _absent("there is no workspace")
            elif word == "output" and scene.output is None:
                return _absent("the run gave no output")
        return None

    def _down(self, name: str, problem: str, scene: Scene) -> Gathered:
        """A service that is down says its own last words once in a case."""
        notes: tuple[str, ...] = ()
        if name not in self._told:
            self._told.add(name)
            notes = (f"{name}: {impersonal(problem, scene, limit=2000)}",)
        return replace(_absent(f"service '{name}' is down"), notes=notes)


def _mapping(record: object) -> object:
    if not isinstance(record, Mapping):
        raise TypeError(f"gathered {shown(record)}, which is no mapping")
    return record


def _absent(reason: str) -> Gathered:
    return Gathered(None, (Cause.MISSING_EVIDENCE,), reason)


def _broken(reason: str) -> Gathered:
    return Gathered(None, (Cause.EVALUATOR_ERROR,), reason)


def _result(gathered: Gathered) -> Json:
    return gathered.record if gathered.record is not None else gathered.reason


def impersonal(text: str, scene: Scene, *, limit: int = 1000) -> str:
    """A text without this machine's folders, on one line, bounded: it goes into the bundle."""
    folders: list[tuple[str, str]] = []
    for name, folder in (
        ("workspace", scene.workspace),
        (".", scene.scenario_folder),
        (".", scene.root),
        ("~", _home()),
    ):
        if folder is not None and len(str(folder)) > 1:
            folders.append((str(folder), name))
    for path, name in sorted(folders, key=lambda pair: -len(pair[0])):
        text = text.replace(path, name)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit] + "…"


def _home() -> Path | None:
    home = os.environ.get("HOME")
    return Path(home) if home else None


def difference(first: Json, second: Json) -> str:
    """Where two JSON values first differ, and both sides of it."""
    path, one, other = _parted(first, second, "")
    place = f"{path}: " if path else ""
    return f"{place}first {shown(one, 200)}, then {shown(other, 200)}"


def _parted(first: Any, second: Any, path: str) -> tuple[str, Any, Any]:
    if isinstance(first, Mapping) and isinstance(second, Mapping) and first.keys() == second.keys():
        for key in sorted(first):
            if c1.text(first[key]) != c1.text(second[key]):
                return _parted(first[key], second[key], f"{path}.{key}" if path else key)
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for index, (one, other) in enumerate(zip(first, second, strict=True)):
            if c1.text(one) != c1.text(other):
                return _parted(one, other, f"{path}[{index}]")
    return path, first, second

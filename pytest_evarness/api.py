"""Scenarios from Python: ``pytest_evarness.run(...)`` and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.outcome import Outcome
from pytest_evarness.errors import InputError
from pytest_evarness.pipeline import (
    Engine,
    Publisher,
    Settings,
    case_record,
    home_folder,
    own_variables,
    planned_case,
)

if TYPE_CHECKING:
    from pytest_evarness.core.event import Event
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json
    from pytest_evarness.pipeline import CaseResult
    from pytest_evarness.scenario.case import Case

__all__ = ["Result", "Runner", "run"]


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """One case that ran twice and was judged.

    Attributes:
        nodeid: As a session would name the case.
        outcome: Everything the engine knows of it.
        engine: The engine that ran it.
    """

    nodeid: str
    outcome: CaseResult
    engine: Engine

    def __repr__(self) -> str:
        """One line with the verdict and, where it is not valid, the reason."""
        failing = self.failing
        tail = f": {failing[0].id}: {failing[0].reason}" if failing else ""
        return f"<Result {self.nodeid} {self.verdict}{tail}>"

    @property
    def failing(self) -> tuple[Finding, ...]:
        """Findings that did not pass, the primary failure first."""
        judgement = self.outcome.judgement
        return tuple(
            sorted(
                (one for one in judgement.findings if one.outcome is not Outcome.PASS),
                key=lambda one: one.id != judgement.primary,
            )
        )

    @property
    def verdict(self) -> str:
        """``valid``, ``invalid`` or ``indeterminate``."""
        return self.outcome.judgement.verdict

    @property
    def status(self) -> str:
        """How run A ended."""
        return self.outcome.run_a.status

    @property
    def trace(self) -> Sequence[Event]:
        """Events of run A."""
        return self.outcome.run_a.events

    @property
    def output(self) -> str | None:
        """Output of run A; None when it set none."""
        return self.outcome.run_a.output

    @property
    def world(self) -> Json:
        """The world after run A, as it was sealed."""
        import json

        world: Json = json.loads(self.outcome.run_a.world_text)
        return world

    @property
    def composite(self) -> Mapping[str, Json] | None:
        """``{low, high, threshold, raw}`` as exact text; None without a threshold."""
        composite = self.outcome.judgement.composite
        return None if composite is None else composite.as_record()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One for each item, in the order in which pytest shows them."""
        return self.outcome.judgement.findings

    def finding(self, name: str) -> Finding:
        """The finding of this id.

        Raises:
            KeyError: No item has this id.
        """
        for finding in self.findings:
            if finding.id == name:
                return finding
        known = ", ".join(finding.id for finding in self.findings)
        raise KeyError(f"no finding has this id (got {name!r}; known: {known})")

    def bundle(self, path: str | Path, *, key: str | Path | None = None) -> Path:
        """Write a bundle of this one case.

        Args:
            path: Where it goes; relative to the working directory.
            key: A signing key; None takes the session's choice, as pytest does.

        Raises:
            InputError: The key, or the file of reviews, cannot be used.
            OSError: It cannot be written.
        """
        from pytest_evarness.bundle.store import Store
        from pytest_evarness.scenario.reviews import reviews_of

        settings = self.engine.settings
        store = Store.open(settings.root, bundle=Path(path).absolute())
        publisher = Publisher(
            store,
            registry=self.engine.registry,
            root=settings.root,
            rerun=settings.rerun,
            strict_vacuity=settings.strict_vacuity,
            mode=settings.mode,
            diagnose=settings.diagnose,
            key=None if key is None else Path(key),
            home=settings.home,
        )
        # The run is over: a bundle made afterwards is sealed for the same plan and run once more,
        # so that its seal is on disk before the first event, as in every other bundle.
        plan = self._plan()
        secrets = self.outcome.case.compiled.secrets
        reviews = reviews_of(settings.root, plan["plan"], secrets=secrets)
        seal = publisher.write_seal(plan, reviews=reviews)
        again = self.engine.run(self.outcome.case, logs=store, seal=seal["digest"])
        record = case_record(again, self.nodeid)
        return publisher.write_bundle(
            seal,
            [record],
            mirror=self.engine.mirror_facts,
            changed=self.engine.changed_libraries(seal),
        ).path

    @property
    def changed(self) -> tuple[str, ...]:
        """Libraries on disk that are not what the case was judged by, each in words."""
        return tuple(self.engine.changed_libraries(self._plan()))

    def _plan(self) -> dict[str, Any]:
        from pytest_evarness.bundle.seal import build_plan

        return build_plan([planned_case(self.outcome.case, self.nodeid, {})])


class Runner:
    """Runs cases one at a time with one engine."""

    def __init__(self, settings: Settings) -> None:
        self.engine = Engine(settings)

    def run(self, scenario: Path | Mapping[str, Any], case: str | None = None) -> Result:
        """Run one case.

        Raises:
            InputError: The scenario cannot be used as it stands, or has no such case; or a library
                has mistakes: a contract that cannot be read might have been for this case.
        """
        from pytest_evarness.source.mistake import raise_all

        raise_all(self.engine.library.errors)
        root = self.engine.settings.root
        if isinstance(scenario, Mapping):
            cases = self.engine.compile(scenario, root)
            name = "inline"
        else:
            cases = self.engine.load(scenario)
            inside = scenario.absolute().is_relative_to(root.absolute())
            name = (
                scenario.absolute().relative_to(root.absolute()).as_posix()
                if inside
                else scenario.name
            )
        chosen = choose_case(cases, case)
        return Result(f"{name}::{chosen.id}", self.engine.run(chosen), self.engine)

    def close(self) -> None:
        """End what the engine started."""
        self.engine.close()


def choose_case(cases: Sequence[Case], name: str | None) -> Case:
    """The case of this id; without one, the only case there is.

    Raises:
        InputError: No such case, or several and none named.
    """
    known = ", ".join(case.id for case in cases)
    if name is None:
        if len(cases) == 1:
            return cases[0]
        raise InputError(f"the scenario has several cases and none was named (known: {known})")
    for case in cases:
        if case.id == name:
            return case
    from pytest_evarness.core.registry import nearest

    near = nearest(name, (case.id for case in cases))
    raise InputError(
        f"no case has this id (got '{name}'; known: {known})",
        fix=f"write '{near}'" if near else None,
    )


def run(
    scenario: str | Path | Mapping[str, Any],
    case: str | None = None,
    *,
    root: str | Path | None = None,
    mode: str | None = None,
    diagnose: bool = False,
    approve: Sequence[str] = (),
    strict_vacuity: bool = False,
    rerun: str = "mirror",
) -> Result:
    """Run one case of a scenario twice and judge it, outside pytest.

    Args:
        scenario: A file, or the mapping that a file would hold.
        case: Its id; may be left out where there is only one.
        root: The project's root directory; the working directory when not given.
        mode: Overrides the scenario's mode.
        diagnose: A case of mode ``diagnostic`` goes on behind a block, for observation.
        approve: ``CASE:NODE=approve|reject``.
        strict_vacuity: A vacuous pass counts as indeterminate.
        rerun: ``mirror`` or ``inline``.

    Raises:
        InputError: The scenario cannot be used as it stands, or has no such case; or a library has
            mistakes.
    """
    base = Path.cwd() if root is None else Path(root).absolute()
    runner = Runner(
        Settings(
            root=base,
            contract_folders=(base / "contracts",),
            home=home_folder(),
            variables=own_variables(),
            mode=mode,
            diagnose=diagnose,
            approvals=tuple(approve),
            strict_vacuity=strict_vacuity,
            rerun=rerun,
        )
    )
    try:
        if isinstance(scenario, Mapping):
            return runner.run(scenario, case)
        return runner.run(base / scenario, case)
    finally:
        runner.close()

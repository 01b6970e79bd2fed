"""Slow definitions of the primitives, straight from the tables: every admitted run is enumerated.

A trace with holes admits many runs. Each hole is an alternative: a doubtful role either plays or
does not, a gap holds one of a list of short event sequences, an uncovered role occurs before any
event or not at all. ``verdict`` evaluates a plain definition over all of them: pass when every run
satisfies it, fail when none does. Nothing here shares code with the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

Key = str
FRESH = "fresh value"
UNKNOWN = "?"
"""The binding of an event whose value is missing or redacted: it may be any."""


@dataclass(frozen=True)
class Step:
    """One event of a run, as its roles: role name -> binding (None where nothing is bound)."""

    roles: dict[str, Key | None]
    is_covered: bool = True
    number: int = 0

    def plays(self, role: str, key: Key | None) -> bool:
        return role in self.roles and (
            self.roles[role] is None or key is None or self.roles[role] == key
        )


Run = list[Step]


# -- formulas: a run satisfies the contract ------------------------------------------------------


def keys_of(run: Run, role: str) -> list[Key | None]:
    found = [step.roles[role] for step in run if role in step.roles]
    return list(dict.fromkeys(found))


def never(run: Run) -> bool:
    return not any("P" in step.roles for step in run)


def never_after(run: Run, *, until: bool) -> bool:
    """For no q < p: Q(q), P(p), and no R strictly between."""
    for q, opens in enumerate(run):
        if "Q" not in opens.roles:
            continue
        key = opens.roles["Q"]
        for p in range(q + 1, len(run)):
            closed = until and any(run[r].plays("R", key) for r in range(q + 1, p))
            if run[p].plays("P", key) and not closed:
                return False
    return True


def never_until(run: Run) -> bool:
    """For no p: P(p) and no R before p."""
    for p, step in enumerate(run):
        if "P" in step.roles and not any("R" in run[r].roles for r in range(p)):
            return False
    return True


def never_between(run: Run) -> bool:
    """For no q < p < r: Q(q), P(p), R(r), r the first R after q."""
    for q, opens in enumerate(run):
        if "Q" not in opens.roles:
            continue
        key = opens.roles["Q"]
        first = next((r for r in range(q + 1, len(run)) if run[r].plays("R", key)), None)
        if first is not None and any(run[p].plays("P", key) for p in range(q + 1, first)):
            return False
    return True


def eventually(run: Run) -> bool:
    return any("P" in step.roles for step in run)


def every(run: Run) -> bool:
    """``P`` is a match; ``N`` is an event that does not satisfy the condition."""
    return not any("P" in step.roles and "N" in step.roles for step in run)


def precedes(run: Run, *, k: int, fresh: bool) -> bool:
    """Each B has an earlier chain; when fresh, one that begins after the B before it."""
    for b, step in enumerate(run):
        if "B" not in step.roles:
            continue
        key = step.roles["B"]
        since = 0
        if fresh:
            earlier = [at for at in range(b) if "B" in run[at].roles and run[at].roles["B"] == key]
            since = earlier[-1] + 1 if earlier else 0
        at = since
        for stage in range(1, k + 1):
            found = next((i for i in range(at, b) if run[i].plays(f"A{stage}", key)), None)
            if found is None:
                return False
            at = found + 1
    return True


def leads_to(run: Run, *, within: int | None) -> bool:
    for a, step in enumerate(run):
        if "A" not in step.roles:
            continue
        key = step.roles["A"]
        answered = False
        distance = 0
        for b in range(a + 1, len(run)):
            distance += run[b].is_covered
            if within is not None and distance > within:
                break
            if run[b].plays("B", key):
                answered = True
                break
        if not answered:
            return False
    return True


def at_most(run: Run, *, n: int) -> bool:
    return all(
        sum(1 for step in run if "P" in step.roles and step.roles["P"] == key) <= n
        for key in keys_of(run, "P")
    )


# -- admitted runs -------------------------------------------------------------------------------


@dataclass
class Case:
    """A trace with its holes.

    Attributes:
        events: For each event: role -> (binding, is it sure).
        gaps: Indexes before which events are missing.
        fillers: What a gap may hold: sequences of steps.
        uncovered: Roles of types that the sources do not record.
        keys: Bindings that an unrecorded event may take.
        closed: Whether the trace is over.
        covered: For each event, whether its type is covered.
        repeat: How many unrecorded events may lie at one place.
        with_it: Roles that an unrecorded event plays as well.
    """

    events: list[dict[str, tuple[Key | None, bool]]]
    gaps: Sequence[int] = ()
    fillers: Sequence[Sequence[dict[str, Key | None]]] = ()
    uncovered: Sequence[str] = ()
    keys: Sequence[Key | None] = (None,)
    closed: bool = True
    covered: Sequence[bool] = field(default_factory=list)
    repeat: int = 1
    with_it: Sequence[str] = ()


def admitted(case: Case) -> Iterator[Run]:
    """Every run that the evidence admits, as far as a few events in each hole can tell."""
    doubtful = [
        (at, role)
        for at, event in enumerate(case.events)
        for role, (_, is_sure) in event.items()
        if not is_sure
    ]
    unknown = [
        (at, role)
        for at, event in enumerate(case.events)
        for role, (key, _) in event.items()
        if key == UNKNOWN
    ]
    places = list(case.gaps)
    if not case.closed:
        places.append(len(case.events))
    spots = [(at, role) for at in range(len(case.events) + 1) for role in case.uncovered]
    spots *= case.repeat
    # None, one of some binding, or one of each.
    unrecorded = list(dict.fromkeys([(), *((key,) for key in case.keys), tuple(case.keys)]))
    for answers in product((True, False), repeat=len(doubtful)):
        plays = dict(zip(doubtful, answers, strict=True))
        for filling in product(case.fillers, repeat=len(places)):
            for extra in product(unrecorded, repeat=len(spots)):
                for values in product(*([*case.keys, f"value of {at}"] for at, _ in unknown)):
                    named = dict(zip(unknown, values, strict=True))
                    yield _run(case, plays, places, filling, spots, extra, named)


def _run(
    case: Case,
    plays: dict[tuple[int, str], bool],
    places: Sequence[int],
    filling: Sequence[Sequence[dict[str, Key | None]]],
    spots: Sequence[tuple[int, str]],
    extra: Sequence[tuple[Key | None, ...]],
    named: dict[tuple[int, str], Key | None],
) -> Run:
    run: Run = []
    for at in range(len(case.events) + 1):
        # What a source does not record may lie on either side of a gap; order among the
        # unrecorded ones is free, so openers come first and closers last, then the reverse.
        for (spot, role), keys in zip(spots, extra, strict=True):
            if spot == at:
                more = dict.fromkeys(case.with_it)
                run.extend(Step({role: key, **more}, is_covered=False) for key in keys)
        for place, steps in zip(places, filling, strict=True):
            if place == at:
                run.extend(Step(dict(step)) for step in steps)
        if at < len(case.events):
            roles = {
                role: named.get((at, role), key)
                for role, (key, is_sure) in case.events[at].items()
                if is_sure or plays[at, role]
            }
            is_covered = case.covered[at] if case.covered else True
            run.append(Step(roles, is_covered=is_covered))
    return run


def verdict(case: Case, satisfied: Callable[[Run], bool]) -> str:
    answers = {satisfied(run) for run in admitted(case)}
    if answers == {True}:
        return "p"
    return "f" if answers == {False} else "i"

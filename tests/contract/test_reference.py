"""The one scan says what the slow definitions say over every run that the evidence admits.

Random small traces with doubtful matches, unknown bindings, gaps, uncovered types and open ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evarness.contract.evaluate import evaluate
from pytest_evarness.contract.model import Contract, parse_contract
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.core.trace import Trace
from tests.contract import reference as ref
from tests.contract.oracle import plain_registry
from tests.contract.reference import FRESH, UNKNOWN, Case, Key, Run

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding

LETTER = {Outcome.PASS: "p", Outcome.FAIL: "f", Outcome.INDETERMINATE: "i"}
REGISTRY = plain_registry()
Filler = Sequence[dict[str, Key | None]]


@dataclass(frozen=True)
class Form:
    """A primitive in one of its shapes.

    Attributes:
        roles: Role -> whether its events carry a binding.
        anchor: The role that binds; None in an unbound contract.
        build: Patterns by role -> the ``assert``.
        satisfied: The slow definition.
        condition: Roles that are a condition on the same event rather than a pattern.
    """

    name: str
    roles: dict[str, bool]
    anchor: str | None
    build: Callable[[dict[str, Any]], Any]
    satisfied: Callable[[Run], bool]
    condition: tuple[str, ...] = ()
    specials: tuple[Filler, ...] = ()
    exact: bool = True
    """False where an unknown binding is given the benefit of the doubt, so only soundness holds."""

    def contract(self, uncovered: Sequence[str]) -> Contract:
        patterns: dict[str, Any] = {}
        for role, keyed in self.roles.items():
            types = ["custom.e", "custom.u"] if role in uncovered else "custom.e"
            pattern: dict[str, Any] = {"type": types, "where": {role: {"gt": 0}}}
            if keyed and role == self.anchor == "P":
                pass  # counted, not bound
            elif keyed and role == self.anchor:
                pattern["bind"] = {"x": f"{role}k"}
            elif keyed:
                pattern["where"][f"{role}k"] = "$x"
            patterns[role] = pattern
        contract, faults = parse_contract("c", {"assert": self.build(patterns)}, registry=REGISTRY)
        assert contract is not None, faults
        return contract


def _never(p: dict[str, Any]) -> Any:
    return {"never": p["P"]}


def _never_after(p: dict[str, Any]) -> Any:
    return {"never": {**p["P"], "after": p["Q"]}}


def _never_after_until(p: dict[str, Any]) -> Any:
    return {"never": {**p["P"], "after": p["Q"], "until": p["R"]}}


def _never_until(p: dict[str, Any]) -> Any:
    return {"never": {**p["P"], "until": p["R"]}}


def _between(p: dict[str, Any]) -> Any:
    return {"never": {**p["P"], "between": [p["Q"], p["R"]]}}


def _eventually(p: dict[str, Any]) -> Any:
    return {"eventually": p["P"]}


def _every(p: dict[str, Any]) -> Any:
    return {"every": {"match": p["P"], "where": {"N": {"lte": 0}}}}


def _precedes(fresh: bool, k: int, p: dict[str, Any]) -> Any:
    first = [p[f"A{stage}"] for stage in range(1, k + 1)]
    return {"precedes": {"first": first if k > 1 else first[0], "second": p["B"], "fresh": fresh}}


def _leads_to(within: int | None, p: dict[str, Any]) -> Any:
    body = {"when": p["A"], "then": p["B"]}
    return {"leads_to": {**body, "within": {"events": within}} if within else body}


def _at_most(n: int, per: bool, p: dict[str, Any]) -> Any:
    body = {"n": n, "of": p["P"]}
    return {"at_most": {**body, "per": ["Pk"]} if per else body}


def _all(role: str, *keys: Key | None) -> Filler:
    return [{role: key} for key in keys]


def _steps(*roles: tuple[str, Key | None]) -> Filler:
    return [{role: key} for role, key in roles]


KEYS: tuple[Key, ...] = ("a", "b")
EVERY = (*KEYS, FRESH)
# What an event carries for a binding, as it is used and as it is bound: equal by JSON.
VALUES: dict[Key, tuple[Any, Any]] = {
    "a": ("a", "a"),
    "b": ({"n": [1], "m": 2}, {"m": 2.0, "n": [1.0]}),
}

FORMS: list[Form] = [
    Form("never", {"P": False}, None, _never, ref.never),
    Form("never until", {"P": False, "R": False}, None, _never_until, ref.never_until),
    Form("eventually", {"P": False}, None, _eventually, ref.eventually),
    Form(
        "every",
        {"P": False, "N": False},
        None,
        _every,
        ref.every,
        condition=("N",),
        specials=([{"P": None, "N": None}],),
    ),
]
for bound in (False, True):
    anchor = "Q" if bound else None
    every_key: tuple[Key | None, ...] = EVERY if bound else (None,)
    word = " bound" if bound else ""
    FORMS += [
        Form(
            f"never after{word}",
            {"P": bound, "Q": bound},
            anchor,
            _never_after,
            partial(ref.never_after, until=False),
        ),
        Form(
            f"never after until{word}",
            {"P": bound, "Q": bound, "R": bound},
            anchor,
            _never_after_until,
            partial(ref.never_after, until=True),
            specials=(*tuple(_all("R", key) for key in every_key), _all("R", *every_key)),
        ),
        Form(
            f"never between{word}",
            {"P": bound, "Q": bound, "R": bound},
            anchor,
            _between,
            ref.never_between,
            specials=(
                *([{"Q": key}, {"P": key}, {"R": key}] for key in every_key),
                _all("R", *every_key),
                [*_all("P", *every_key), *_all("R", *every_key)],
            ),
        ),
        Form(
            f"precedes{word}",
            {"A1": bound, "B": bound},
            "B" if bound else None,
            partial(_precedes, False, 1),
            partial(ref.precedes, k=1, fresh=False),
            specials=(_all("A1", *every_key),),
            exact=not bound,
        ),
        Form(
            f"precedes fresh{word}",
            {"A1": bound, "B": bound},
            "B" if bound else None,
            partial(_precedes, True, 1),
            partial(ref.precedes, k=1, fresh=True),
            specials=(_all("A1", *every_key),),
            exact=not bound,
        ),
        Form(
            f"precedes chain{word}",
            {"A1": bound, "A2": bound, "B": bound},
            "B" if bound else None,
            partial(_precedes, False, 2),
            partial(ref.precedes, k=2, fresh=False),
            specials=([*_all("A1", *every_key), *_all("A2", *every_key)],),
            exact=not bound,
        ),
        Form(
            f"precedes chain fresh{word}",
            {"A1": bound, "A2": bound, "B": bound},
            "B" if bound else None,
            partial(_precedes, True, 2),
            partial(ref.precedes, k=2, fresh=True),
            specials=([*_all("A1", *every_key), *_all("A2", *every_key)],),
            exact=not bound,
        ),
        Form(
            f"leads_to{word}",
            {"A": bound, "B": bound},
            "A" if bound else None,
            partial(_leads_to, None),
            partial(ref.leads_to, within=None),
            specials=(_all("B", *every_key),),
        ),
    ]
    for k in (1, 2):
        FORMS.append(
            Form(
                f"leads_to within {k}{word}",
                {"A": bound, "B": bound},
                "A" if bound else None,
                partial(_leads_to, k),
                partial(ref.leads_to, within=k),
                specials=(
                    [{"B": "b" if bound else None}],
                    *(_steps(("B", key), ("B", "b")) for key in every_key if bound),
                    *(_steps(("B", "b"), ("B", key)) for key in every_key if bound),
                    [{}] * (k + 1),
                    *([{"A": key}, *[{}] * (k + 1)] for key in every_key),
                ),
            )
        )
    for n in (0, 1, 2):
        FORMS.append(
            Form(
                f"at_most {n}{' per' if bound else ''}",
                {"P": bound},
                "P" if bound else None,
                partial(_at_most, n, bound),
                partial(ref.at_most, n=n),
                specials=tuple(_all("P", *[key] * (n + 1)) for key in every_key),
            )
        )
FORMS += [
    Form(
        "chain, the first without the variable",
        {"A1": False, "A2": True, "B": True},
        "B",
        partial(_precedes, True, 2),
        partial(ref.precedes, k=2, fresh=True),
        specials=([{"A1": None}, *_all("A2", *EVERY)],),
        exact=False,
    ),
    Form(
        "chain, the second without the variable",
        {"A1": True, "A2": False, "B": True},
        "B",
        partial(_precedes, True, 2),
        partial(ref.precedes, k=2, fresh=True),
        specials=([*_all("A1", *EVERY), {"A2": None}],),
        exact=False,
    ),
    Form(
        "never after until, R without the variable",
        {"P": True, "Q": True, "R": False},
        "Q",
        _never_after_until,
        partial(ref.never_after, until=True),
    ),
    Form(
        "between, R without the variable",
        {"P": True, "Q": True, "R": False},
        "Q",
        _between,
        ref.never_between,
        specials=tuple([{"Q": key}, {"P": key}, {"R": None}] for key in EVERY),
    ),
]
BY_NAME = {form.name: form for form in FORMS}


def fillers(form: Form) -> list[Filler]:
    """What a gap may hold: every sequence of up to two events, and the form's extremes."""
    single: list[dict[str, Key | None]] = [
        {role: key}
        for role, keyed in form.roles.items()
        for key in (("a", FRESH) if keyed else (None,))
    ]
    pairs = [list(pair) for pair in product(single, repeat=2)]
    return [[], *([one] for one in single), *pairs, *form.specials]


@st.composite
def cases(draw: st.DrawFn, form: Form) -> Case:
    hole = draw(st.sampled_from(["none", "doubt", "gap", "open", "uncovered", "mixed"]))
    count = draw(st.integers(0 if hole == "open" else 1, 5 if hole in ("none", "doubt") else 4))
    doubts = 0 if hole in ("none", "open", "uncovered") else 3 if hole == "doubt" else 1
    events: list[dict[str, tuple[Key | None, bool]]] = []
    for _ in range(count):
        roles: dict[str, tuple[Key | None, bool]] = {}
        for role, keyed in form.roles.items():
            if not draw(st.booleans()):
                continue
            key: Key | None = draw(st.sampled_from(KEYS)) if keyed else None
            is_sure = True
            if doubts and draw(st.integers(0, 2)) == 0:
                doubts -= 1
                if keyed and draw(st.booleans()):
                    key = UNKNOWN
                else:
                    is_sure = False
            roles[role] = (key, is_sure)
        events.append(roles)
    gaps = [draw(st.integers(0, count))] if hole in ("gap", "mixed") else []
    able = [role for role in form.roles if role not in form.condition]
    uncovered = [draw(st.sampled_from(able))] if hole == "uncovered" else []
    closed = count > 0 and hole != "open" and not (hole == "mixed" and draw(st.booleans()))
    covered: list[bool] = []
    if "within" in form.name and hole in ("none", "doubt", "open"):
        covered = [bool(roles) or draw(st.booleans()) for roles in events]
    keys: tuple[Key | None, ...] = EVERY if any(form.roles.values()) else (None,)
    repeat = 3 if form.name.startswith("at_most 2") and count < 2 else 1
    return Case(
        events, gaps, fillers(form), uncovered, keys, closed, covered, repeat, form.condition
    )


def trace_of(case: Case, form: Form) -> Trace:
    events = []
    seq = 0
    for at, roles in enumerate(case.events):
        if at in case.gaps:
            seq += 2
        payload: dict[str, Any] = dict.fromkeys(form.roles, 0)
        for role, (key, is_sure) in roles.items():
            payload[role] = 1 if is_sure else "one"
            if key == UNKNOWN:
                # A missing value where it is bound or counted, a redacted one where it is used.
                if role != form.anchor:
                    payload[f"{role}k"] = "«secret:s»"
            elif key is not None:
                payload[f"{role}k"] = VALUES[key][role == form.anchor]
        is_covered = case.covered[at] if case.covered else True
        name = "custom.e" if is_covered else "custom.z"
        events.append({"seq": seq, "type": name, "node_id": None, "payload": payload})
        seq += 1
    gaps = ((seq, seq),) if len(case.events) in case.gaps else ()
    coverage = frozenset({"custom.e"}) if case.uncovered or case.covered else None
    return Trace(events, closed=case.closed, gaps=gaps, coverage=coverage)


def judged(case: Case, form: Form) -> Finding:
    (finding,) = evaluate([form.contract(case.uncovered)], trace_of(case, form), REGISTRY)
    return finding


def check(form: Form, case: Case) -> None:
    got = LETTER[judged(case, form).outcome]
    want = ref.verdict(case, form.satisfied)
    # Soundness first: never a pass or fail that some admitted run contradicts.
    assert got == "i" or got == want, (form.name, case.events, case.gaps, case.uncovered)
    unknown = any(key == UNKNOWN for event in case.events for key, _ in event.values())
    if form.exact or not unknown:
        assert got == want, (form.name, case.events, case.gaps, case.uncovered, case.closed)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_the_scan_agrees_with_the_definition_over_every_admitted_run(name: str) -> None:
    form = BY_NAME[name]

    @settings(
        max_examples=25,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(cases(form))
    def agrees(case: Case) -> None:
        check(form, case)

    agrees()


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_the_decisive_event_is_the_first_prefix_with_the_final_outcome(name: str) -> None:
    form = BY_NAME[name]

    @settings(max_examples=25, deadline=None, database=None, derandomize=True)
    @given(cases(form))
    def agrees(case: Case) -> None:
        if case.gaps or not case.events:
            return
        whole = judged(case, form)
        letters = []
        for count in range(1, len(case.events) + 1):
            is_last = count == len(case.events)
            part = replace(
                case,
                events=case.events[:count],
                covered=case.covered[:count],
                closed=case.closed and is_last,
            )
            letters.append(judged(part, form).outcome)
        if whole.outcome is Outcome.INDETERMINATE:
            assert whole.decisive_seq is None
            return
        first = next(at for at, letter in enumerate(letters) if letter is whole.outcome)
        assert all(letter is whole.outcome for letter in letters[first:]), letters
        assert whole.decisive_seq == first

    agrees()


@pytest.mark.parametrize("name", ["never after until bound", "never between bound"])
def test_a_scope_that_was_closed_for_a_value_opens_again_for_all(name: str) -> None:
    """Two scopes of unknown values: what ended in the first is looked for again in the second."""
    steps: list[tuple[str, Key]] = [
        ("Q", UNKNOWN),
        ("R", "a"),
        ("Q", UNKNOWN),
        ("P", "a"),
        ("R", "a"),
    ]
    for count in range(1, len(steps) + 1):
        case = Case([{role: (key, True)} for role, key in steps[:count]], keys=EVERY)
        check(BY_NAME[name], case)
    second = Case([{role: (key, True)} for role, key in steps[:2] + steps[3:]], keys=EVERY)
    assert judged(second, BY_NAME[name]).outcome is Outcome.PASS


def test_the_comparison_would_notice_a_wrong_scan() -> None:
    form = replace(BY_NAME["precedes"], satisfied=partial(ref.precedes, k=1, fresh=True))
    case = Case([{"A1": (None, True)}, {"B": (None, True)}, {"B": (None, True)}])
    with pytest.raises(AssertionError):
        check(form, case)

"""No single source of evidence can be bent so that a fail or an undecided finding passes.

Two kinds of change are made. One leaves what was noted beside a source as it was, as a source that
was lost or forged does. The other (`honest`) is a run whose sources disagree truly: the end state
was sealed as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evarness.checks import reproduction, sources
from pytest_evarness.checks.evidence import Evidence, Gathered
from pytest_evarness.checks.judge import Judge
from pytest_evarness.checks.sources import accounts, disagreements
from pytest_evarness.core import c1
from pytest_evarness.core.outcome import Cause, Outcome
from tests.checks.cases import Base, bases, judged

Numbers = list[int]
Mutation = Callable[[Evidence, Numbers], Evidence | None]
"""Gives None where there is nothing to change."""


def pick(sequence: Any, numbers: Numbers) -> int:
    return numbers.pop() % len(sequence)


# -- the trace -----------------------------------------------------------------------------------


def drop_event(evidence: Evidence, numbers: Numbers) -> Evidence:
    events = list(evidence.events)
    del events[pick(events, numbers)]
    return replace(evidence, events=events)


def drop_event_and_renumber(evidence: Evidence, numbers: Numbers) -> Evidence:
    events = list(drop_event(evidence, numbers).events)
    return replace(evidence, events=[{**one, "seq": seq} for seq, one in enumerate(events)])


def truncate(evidence: Evidence, numbers: Numbers) -> Evidence:
    return replace(evidence, events=evidence.events[: pick(evidence.events, numbers)])


def behead(evidence: Evidence, numbers: Numbers) -> Evidence:
    return replace(evidence, events=evidence.events[1 + pick(evidence.events, numbers) :])


def swap_events(evidence: Evidence, numbers: Numbers) -> Evidence | None:
    events = list(evidence.events)
    one, other = pick(events, numbers), pick(events, numbers)
    events[one], events[other] = events[other], events[one]
    return replace(evidence, events=events) if one != other else None


def double_event(evidence: Evidence, numbers: Numbers) -> Evidence:
    events = list(evidence.events)
    at = pick(events, numbers)
    return replace(evidence, events=[*events[: at + 1], *events[at:]])


def add_event_behind_the_end(evidence: Evidence, numbers: Numbers) -> Evidence:
    event = dict(evidence.events[pick(evidence.events, numbers)])
    event["seq"] = len(evidence.events)
    return replace(evidence, events=[*evidence.events, event])


def lose_payload(evidence: Evidence, numbers: Numbers) -> Evidence:
    events = list(evidence.events)
    at = pick(events, numbers)
    events[at] = {**events[at], "payload": None}
    return replace(evidence, events=events)


# -- what was noted beside it ----------------------------------------------------------------------


def another_status(evidence: Evidence, numbers: Numbers) -> Evidence | None:
    words = ("completed", "blocked", "paused", "failed", "unscripted", "unfinished")
    word = words[pick(words, numbers)]
    same = word == evidence.a.status
    return None if same else replace(evidence, a=replace(evidence.a, status=word))


def another_count(evidence: Evidence, numbers: Numbers) -> Evidence:
    count = numbers.pop() % 100
    count += count == evidence.a.events
    return replace(evidence, a=replace(evidence.a, events=count))


def no_output(evidence: Evidence, numbers: Numbers) -> Evidence | None:
    del numbers
    return None if evidence.output is None else replace(evidence, output=None)


def another_output(evidence: Evidence, numbers: Numbers) -> Evidence | None:
    del numbers
    if evidence.output is None:
        return None
    return replace(evidence, output="another text, as was expected: R-17 is paid")


# -- the end state ---------------------------------------------------------------------------------


def sealed(evidence: Evidence, world: Any, *, honest: bool) -> Evidence | None:
    if world == evidence.world:
        return None
    digest = c1.sha256_text(c1.text(world)) if honest else evidence.a.world_digest
    b = evidence.b
    return replace(
        evidence,
        world=world,
        a=replace(evidence.a, world_digest=digest),
        b=None if b is None else replace(b, world_digest=digest),
    )


def in_world(change: Callable[[Any, Numbers], None], *, honest: bool = False) -> Mutation:
    def mutate(evidence: Evidence, numbers: Numbers) -> Evidence | None:
        world: Any = copy.deepcopy(evidence.world)
        try:
            change(world, numbers)
        except (ZeroDivisionError, KeyError, StopIteration):
            return None  # nothing of that kind is there
        return sealed(evidence, world, honest=honest)

    mutate.__name__ = f"{change.__name__}{' (honest)' if honest else ''}"
    return mutate


def no_world(world: Any, numbers: Numbers) -> None:
    del numbers
    world.clear()


def no_ledger(world: Any, numbers: Numbers) -> None:
    del numbers
    del world["ledger"]


def drop_effect(world: Any, numbers: Numbers) -> None:
    del world["ledger"][pick(world["ledger"], numbers)]


def double_effect(world: Any, numbers: Numbers) -> None:
    world["ledger"].append(world["ledger"][pick(world["ledger"], numbers)])


def reverse_ledger(world: Any, numbers: Numbers) -> None:
    del numbers
    world["ledger"].reverse()


def another_effect(world: Any, numbers: Numbers) -> None:
    world["ledger"][pick(world["ledger"], numbers)]["capability"] = "email.send"


def _with(world: Any, key: str) -> Any:
    return next(one for one in world["services"] if one.get(key))


def no_service(world: Any, numbers: Numbers) -> None:
    del world["services"][pick(world["services"], numbers)]


def no_journal(world: Any, numbers: Numbers) -> None:
    del numbers
    _with(world, "requests")["requests"] = []


def drop_request(world: Any, numbers: Numbers) -> None:
    requests = _with(world, "requests")["requests"]
    del requests[pick(requests, numbers)]


def double_request(world: Any, numbers: Numbers) -> None:
    requests = _with(world, "requests")["requests"]
    requests.append(requests[pick(requests, numbers)])


def another_request(world: Any, numbers: Numbers) -> None:
    requests = _with(world, "requests")["requests"]
    requests[pick(requests, numbers)]["method"] = "DELETE"


def no_table(world: Any, numbers: Numbers) -> None:
    tables = _with(world, "tables")["tables"]
    del tables[pick(tables, numbers)]


def unchanged_tables(world: Any, numbers: Numbers) -> None:
    del numbers
    for table in _with(world, "tables")["tables"]:
        table["start"] = {"count": table["count"], "digest": table["digest"]}


def emptied_tables(world: Any, numbers: Numbers) -> None:
    del numbers
    for table in _with(world, "tables")["tables"]:
        table["rows"], table["count"] = [], 0


def no_file(world: Any, numbers: Numbers) -> None:
    files = world["workspace"]["files"] if world["workspace"] else {}
    del files[pick(files, numbers)]


def no_changes_of_files(world: Any, numbers: Numbers) -> None:
    del numbers
    for word in ("added", "modified", "removed"):
        (world["workspace"] or {})[word] = []


def another_file(world: Any, numbers: Numbers) -> None:
    files = world["workspace"]["files"] if world["workspace"] else {}
    files[pick(files, numbers)]["sha256"] = f"sha256:{'0' * 64}"


WORLDS = (
    no_world,
    no_ledger,
    drop_effect,
    double_effect,
    reverse_ledger,
    another_effect,
    no_service,
    no_journal,
    drop_request,
    double_request,
    another_request,
    no_table,
    unchanged_tables,
    emptied_tables,
    no_file,
    no_changes_of_files,
    another_file,
)

# -- what checks gathered, and run B ---------------------------------------------------------------


def not_gathered(evidence: Evidence, numbers: Numbers) -> Evidence | None:
    names = sorted(evidence.gathered)
    if not names:
        return None
    name = names[pick(names, numbers)]
    return replace(
        evidence, gathered={key: value for key, value in evidence.gathered.items() if key != name}
    )


def gathered_nothing(evidence: Evidence, numbers: Numbers) -> Evidence | None:
    names = sorted(evidence.gathered)
    if not names:
        return None
    empty = Gathered({})
    return replace(evidence, gathered={**evidence.gathered, names[pick(names, numbers)]: empty})


def gathered_by_another(evidence: Evidence, numbers: Numbers) -> Evidence | None:
    """Evidence of one check given to another, where the sealed world can tell."""
    told = [name for name in sorted(evidence.gathered) if _is_told(evidence.gathered[name])]
    if len(told) < 2:
        return None
    one, other = told[pick(told, numbers)], told[pick(told, numbers)]
    return replace(evidence, gathered={**evidence.gathered, one: evidence.gathered[other]})


def gathered_reversed(evidence: Evidence, numbers: Numbers) -> Evidence | None:
    told = [name for name in sorted(evidence.gathered) if _is_told(evidence.gathered[name])]
    if not told:
        return None
    name = told[pick(told, numbers)]
    record: Any = copy.deepcopy(evidence.gathered[name].record)
    record["places"].reverse()
    return replace(evidence, gathered={**evidence.gathered, name: Gathered(record)})


def _is_told(gathered: Gathered) -> bool:
    return gathered.record is not None and "places" in gathered.record


def no_run_b(evidence: Evidence, numbers: Numbers) -> Evidence:
    del numbers
    return replace(evidence, b=None, events_b=None, world_b=None, error_b="it is gone")


def run_b_as_run_a(evidence: Evidence, numbers: Numbers) -> Evidence:
    """Its digest forged, what else is known of it as it was."""
    del numbers
    assert evidence.b is not None, "every base has one"
    b = replace(
        evidence.b,
        trace_digest=evidence.a.trace_digest,
        world_digest=evidence.a.world_digest,
        chain_digest=evidence.a.chain_digest,
    )
    return replace(evidence, b=b)


def no_events_of_run_b(evidence: Evidence, numbers: Numbers) -> Evidence:
    del numbers
    return replace(evidence, events_b=None, world_b=None)


OTHERS: tuple[Mutation, ...] = (
    drop_event,
    drop_event_and_renumber,
    truncate,
    behead,
    swap_events,
    double_event,
    add_event_behind_the_end,
    lose_payload,
    another_status,
    another_count,
    no_output,
    another_output,
    not_gathered,
    gathered_nothing,
    gathered_by_another,
    gathered_reversed,
    no_run_b,
    run_b_as_run_a,
    no_events_of_run_b,
)
# Of tables and files that no step of the user's own touched, each change has its event.
HONEST = (
    drop_effect,
    double_effect,
    reverse_ledger,
    another_effect,
    no_journal,
    drop_request,
    double_request,
    unchanged_tables,
    no_changes_of_files,
    another_file,
)
MUTATIONS: dict[str, Mutation] = {
    **{one.__name__: one for one in OTHERS},
    **{one.__name__: in_world(one) for one in WORLDS},
    **{f"{one.__name__}_honest": in_world(one, honest=True) for one in HONEST},
}


def every_base() -> list[Base]:
    """All bases, and one whose run B parted from run A in events and one in its world."""
    found = list(bases())
    base = found[0]
    assert base.evidence.b is not None
    other = [*base.evidence.events[:3], {**base.evidence.events[3], "node_id": "other"}]
    parted = replace(
        base.evidence,
        events_b=other,
        b=replace(base.evidence.b, trace_digest="c1:sha256:" + "1" * 64, events=4),
    )
    world_b: Any = {**copy.deepcopy(base.evidence.world), "ledger": []}
    apart = replace(
        base.evidence,
        world_b=world_b,
        b=replace(base.evidence.b, world_digest="sha256:" + "2" * 64),
    )
    return found + [
        Base("parted", base.items, one, judged(base.items, one)) for one in (parted, apart)
    ]


BASES = every_base()


def turned(base: Base, evidence: Evidence) -> list[str]:
    """Items that did not pass and now do."""
    before = base.outcomes()
    after = judged(base.items, evidence)
    return [
        one.id
        for one in after.findings
        if one.outcome is Outcome.PASS and before[one.id] is not Outcome.PASS
    ]


def test_the_bases_hold_every_source_and_every_outcome() -> None:
    outcomes = {outcome for base in BASES for outcome in base.outcomes().values()}
    assert outcomes == set(Outcome)
    kinds = {item.kind for base in BASES for item in base.items}
    assert {"contract", "trace", "forbidden", "expect", "reproduces", "sql", "account"} <= kinds
    assert {"http_mock_assertions", "file_content", "file_exists", "file_absent"} <= kinds
    failing = {
        one.kind
        for base in BASES
        for one in base.judgement.findings
        if one.outcome is not Outcome.PASS
    }
    assert kinds - failing <= {"custom", "command_exit", "llm_as_judge", "contract"}
    assert sum(len(base.items) for base in BASES) > 1500


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    number_of_base=st.integers(0, len(BASES) - 1),
    name=st.sampled_from(sorted(MUTATIONS)),
    numbers=st.lists(st.integers(0, 200), min_size=3, max_size=3),
)
def test_bending_one_source_never_turns_a_fail_or_a_doubt_into_a_pass(
    number_of_base: int, name: str, numbers: Numbers
) -> None:
    base = BASES[number_of_base]
    evidence = MUTATIONS[name](base.evidence, numbers)
    if evidence is not None:
        assert turned(base, evidence) == []


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_each_way_to_bend_a_source_is_tried_on_every_run(name: str) -> None:
    tried = 0
    for base in BASES:
        for number in (0, 3, len(base.evidence.events) - 1):
            evidence = MUTATIONS[name](base.evidence, [number, number + 1, number])
            if evidence is not None:
                assert turned(base, evidence) == [], (base.name, number)
                tried += 1
    assert tried > 0, "there is nothing to bend"


# -- twins: without its guard, each source can be bent -----------------------------------------


def _no_faults(evidence: Evidence) -> tuple[str, ...]:
    del evidence
    return ()


def _no_doubts(evidence: Evidence, registry: object) -> tuple[sources.Doubt, ...]:
    del evidence, registry
    return ()


def _nothing(evidence: Evidence) -> None:
    del evidence


def _unconfirmed(self: Judge, item: Any, finding: Any, *rest: Any) -> Any:
    del self, item, rest
    return finding


def _flips(*names: str) -> int:
    return sum(
        bool(turned(base, evidence))
        for base in BASES
        for name in names
        for number in (0, 3, 9)
        if (evidence := MUTATIONS[name](base.evidence, [number, number + 1, number])) is not None
    )


def test_without_the_count_and_the_end_an_event_could_be_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "trace_faults", _no_faults)
    assert _flips("drop_event_and_renumber", "truncate", "another_status") > 5


def test_without_the_sealed_digest_the_end_state_could_be_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "world_doubts", _no_doubts)
    assert _flips("no_journal", "unchanged_tables", "drop_request") > 0


def test_without_the_sealed_world_a_check_could_be_given_other_evidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Judge, "_confirmed", _unconfirmed)
    assert _flips("gathered_by_another", "drop_request_honest", "no_output") > 0


def test_without_run_bs_own_events_its_digest_could_be_forged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reproduction, "_denied", _nothing)
    assert _flips("run_b_as_run_a") > 0


# -- each cause, for contracts and for checks ----------------------------------------------------


def causes_of(base: Base, evidence: Evidence) -> dict[str, tuple[Cause, ...]]:
    return {one.id: one.causes for one in judged(base.items, evidence).findings}


def refund() -> Base:
    return BASES[0]


def test_a_trace_that_lost_an_event_is_malformed_for_contracts_rules_and_expectation() -> None:
    base = refund()
    found = causes_of(base, drop_event_and_renumber(base.evidence, [3]))
    for name in ("one-effect-per-intent", "forbidden-duplicate-effects", "expect"):
        assert found[name] == (Cause.MALFORMED_EVIDENCE,), name
    assert all(not causes for name, causes in causes_of(base, base.evidence).items())


def test_an_end_state_of_another_run_is_stale_for_whoever_looks_at_it() -> None:
    base = refund()
    evidence = MUTATIONS["drop_request"](base.evidence, [0])
    assert evidence is not None
    found = causes_of(base, evidence)
    for name in (
        "one-effect-per-intent",
        "forbidden-duplicate-effects",
        "booked-once",
    ):
        assert found[name] == (Cause.STALE_EVIDENCE,), name
    # What asks for the trace alone does not care.
    assert found["run-completes"] == ()


def test_ledger_against_events_is_contradictory_for_contracts_about_effects() -> None:
    base = refund()
    evidence = MUTATIONS["double_effect_honest"](base.evidence, [0])
    assert evidence is not None
    finding = next(
        one for one in judged(base.items, evidence).findings if one.id == "one-effect-per-intent"
    )
    assert finding.causes == (Cause.CONTRADICTORY_EVIDENCE,)
    assert finding.reason.startswith("the events tell of 2 effects and the ledger of 3")
    found = causes_of(base, evidence)
    assert found["forbidden-duplicate-effects"] == ()  # it fails: the ledger shows it
    assert found["run-completes"] == ()
    assert found["booked-once"] == ()  # the rows are what they are


def test_a_journal_against_events_is_contradictory_for_checks_of_that_service() -> None:
    base = refund()
    evidence = MUTATIONS["double_request_honest"](base.evidence, [0])
    assert evidence is not None
    found = causes_of(base, evidence)
    assert found["never-http_request-after-effect_applied"] == ()
    assert found["paid-once"] == ()  # two requests: it fails
    assert found["never-asked"] == ()
    fewer = MUTATIONS["drop_request_honest"](base.evidence, [0])
    assert fewer is not None
    assert causes_of(base, fewer)["never-asked"] == (Cause.CONTRADICTORY_EVIDENCE,)


def test_a_seen_violation_stays_one_whatever_else_is_in_doubt() -> None:
    base = refund()
    stale = MUTATIONS["no_ledger"](base.evidence, [0])
    assert stale is not None
    after = {one.id: one.outcome for one in judged(base.items, stale).findings}
    assert after["never-effect_applied"] is Outcome.FAIL
    assert after["forbidden-http-except"] is Outcome.FAIL


def test_what_is_missing_is_named_for_contracts_and_checks() -> None:
    base = refund()
    gone = causes_of(base, not_gathered(base.evidence, [0]) or base.evidence)
    assert (Cause.EVALUATOR_ERROR,) in gone.values()
    open_run = causes_of(BASES[3], BASES[3].evidence)
    assert open_run["run-completes"] == (Cause.UNFINISHED_RUN,)
    assert open_run["nothing-moved"] == (Cause.UNFINISHED_RUN,)
    unscripted = replace(
        BASES[3].evidence,
        a=replace(BASES[3].evidence.a, status="unscripted"),
        events=[*BASES[3].evidence.events[:-1], {**BASES[3].evidence.events[-1],
                "type": "script_exhausted", "payload": {"script": "s", "scripted": 1, "call": 2}}],
    )  # fmt: skip
    found = causes_of(BASES[3], unscripted)
    assert found["run-completes"] == found["nothing-moved"] == (Cause.MISSING_EVIDENCE,)


def test_the_real_runs_agree_with_themselves() -> None:
    for base in BASES[:7]:
        world = base.evidence.world
        assert list(disagreements(base.evidence.events, world, has_steps=False)) == [], base.name
    assert accounts(refund().evidence.world) == [
        "the ledger (2 effects)",
        "the journal of bank (1 request)",
        "the tables of desk (2 tables)",
    ]

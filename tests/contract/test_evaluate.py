"""A contract passes only on evidence that leaves no other reading; each outcome says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.contract.evaluate import Evaluator, evaluate
from pytest_evarness.contract.model import Contract, parse_contract
from pytest_evarness.contract.monitor import Monitor
from pytest_evarness.contract.rule import describe_event, roles_of
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.core.trace import Trace
from tests.contract.oracle import plain_registry
from tests.effort import calls_of, lines_of

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.json import Json
    from pytest_evarness.core.registry import Registry

REGISTRY = plain_registry("tool_called", "approval_granted", "approval_rejected", "page_fetched")


@REGISTRY.predicate("raises")
def raises(event: Any) -> bool:
    raise ValueError(f"no view on event {event['seq']}")


@REGISTRY.predicate("answers_one")
def answers_one(event: Any) -> Any:
    return 1


def ev(type: str, node_id: str | None = None, **payload: Any) -> dict[str, Any]:  # noqa: A002
    return {"type": type, "node_id": node_id, "payload": payload}


def trace(*events: dict[str, Any], closed: bool = True, **more: Any) -> Trace:
    numbered = [{"seq": seq, **event} for seq, event in enumerate(events)]
    return Trace(numbered, closed=closed, **more)


def contract(body: Any, registry: Registry = REGISTRY) -> Contract:
    made, faults = parse_contract("c", {"assert": body}, registry=registry)
    assert made is not None, faults
    return made


def judge(body: Any, evidence: Trace, **more: Any) -> Finding:
    (finding,) = evaluate([contract(body)], evidence, REGISTRY, **more)
    return finding


def word(body: Any, *events: dict[str, Any], **more: Any) -> str:
    finding = judge(body, trace(*events, **more))
    return "vacuous" if finding.vacuous else finding.outcome.word


CALLED = ev("tool_called")
CALL = {"type": "tool_called"}
HELD = {"p": {"contains": "$x"}, "q": {"contains": "$y"}}
SEND = {"type": "tool_called", "where": {"tool": "email.send"}}
GRANT = {"type": "approval_granted"}
END = ev("run_finished")


# -- the boundary cases that neighbours got wrong


@pytest.mark.parametrize(
    ("letters", "outcome"),
    [
        ("A", "vacuous"),
        ("B", "fail"),
        ("BA", "fail"),
        ("AB", "pass"),
        ("ABB", "pass"),
        ("AAB", "pass"),
        ("BAB", "fail"),
    ],
)
def test_the_truth_table_of_precedes(letters: str, outcome: str) -> None:
    events = [ev("approval_granted" if one == "A" else "tool_called") for one in letters]
    body = {"precedes": {"first": GRANT, "second": CALL}}
    assert word(body, *events, END) == outcome
    if outcome == "fail":
        finding = judge(body, trace(*events, END))
        assert finding.decisive_seq == letters.index("B")
        assert finding.witness.events == (letters.index("B"),)


@pytest.mark.parametrize(
    "body",
    [
        {"never": SEND},
        {"every": {"match": CALL, "where": {"limit": {"lte": 50}}}},
        {"precedes": {"first": GRANT, "second": CALL}},
    ],
)
def test_an_empty_trace_decides_nothing(body: Any) -> None:
    finding = judge(body, Trace([], closed=True))
    assert finding.outcome is Outcome.INDETERMINATE
    assert finding.causes == (Cause.UNFINISHED_RUN,)
    assert finding.decisive_seq is None


def test_a_trace_without_the_matter_passes_vacuously_but_for_a_plain_never() -> None:
    unrelated = trace(ev("run_started"), END)
    assert not judge({"never": SEND}, unrelated).vacuous
    for body in (
        {"every": {"match": CALL, "where": {"limit": {"lte": 50}}}},
        {"precedes": {"first": GRANT, "second": CALL}},
        {"leads_to": {"when": CALL, "then": GRANT}},
        {"at_most": {"n": 1, "of": CALL}},
        {"never": {**SEND, "after": GRANT}},
    ):
        finding = judge(body, unrelated)
        assert (finding.outcome, finding.vacuous) == (Outcome.PASS, True), body


def test_a_never_whose_type_cannot_occur_is_vacuous() -> None:
    possible = frozenset({"run_started", "run_finished"})
    assert judge({"never": SEND}, trace(END), possible_types=possible).vacuous
    assert not judge({"never": SEND}, trace(END), possible_types=possible | {"tool_called"}).vacuous


@pytest.mark.parametrize(
    "body",
    [
        {"never": {**CALL, "where": {"args.amount": {"gte": 1000}}}},
        {"eventually": {**CALL, "where": {"args.copies": {"gt": 250}}}},
        {"eventually": {**CALL, "where": {"args.flag": {"gte": 1}}}},
        {"every": {"match": CALL, "where": {"args.amount": {"lt": 1000}}}},
    ],
)
def test_a_clash_of_types_surfaces_as_a_clash(body: Any) -> None:
    finding = judge(
        body, trace(ev("tool_called", args={"amount": "2500", "copies": "83", "flag": True}), END)
    )
    assert finding.outcome is Outcome.INDETERMINATE
    assert finding.causes == (Cause.MALFORMED_EVIDENCE,)
    assert "needs a number, met a" in finding.reason
    assert finding.reason.startswith("event 0: args.")
    assert finding.witness.events == (0,)


def test_a_false_condition_decides_whatever_the_others_are() -> None:
    body = {"never": {**CALL, "where": {"amount": {"gt": 1}, "tool": "pay"}}}
    assert word(body, ev("tool_called", tool="other", amount="x"), END) == "pass"
    assert word(body, ev("tool_called", tool="pay", amount="x"), END) == "indeterminate"


def test_an_approval_covers_exactly_its_own_call_once() -> None:
    body = {
        "precedes": {
            "first": {**GRANT, "where": {"args": "$a"}},
            "second": {**SEND, "bind": {"a": "args"}},
            "fresh": True,
        }
    }
    asked = ev("approval_granted", args={"to": "ACC-1", "amount": 10})
    meant = ev("tool_called", tool="email.send", args={"amount": 10.0, "to": "ACC-1"})
    other = ev("tool_called", tool="email.send", args={"amount": 1000, "to": "ACC-1"})
    assert word(body, asked, meant, END) == "pass"
    swapped = judge(body, trace(asked, other, END))
    assert swapped.outcome is Outcome.FAIL
    shown = str(swapped.witness.as_record())
    assert '"amount": 10,' in shown
    assert '"amount": 1000' in shown
    twice = judge(body, trace(asked, meant, meant, END))
    assert (twice.outcome, twice.decisive_seq) == (Outcome.FAIL, 2)
    assert twice.witness.nearest == ({"seq": 0, "why": "too early or already used"},)


# -- what differs from the published engine


def test_one_event_in_both_roles_does_not_precede_itself() -> None:
    body = {
        "precedes": {"first": {**CALL, "where": {"a": 1}}, "second": {**CALL, "where": {"b": 1}}}
    }
    assert word(body, ev("tool_called", a=1, b=1), END) == "fail"
    fresh = {"precedes": {**body["precedes"], "fresh": True}}
    both, only_b = ev("tool_called", a=1, b=1), ev("tool_called", b=1)
    assert word(fresh, ev("tool_called", a=1), both, only_b, END) == "fail"


@pytest.mark.parametrize(
    ("spec", "payload", "clause"),
    [
        (1, {"flag": True}, "flag = 1: true (boolean), asked 1 (integer)"),
        ("1", {"flag": 1}, 'flag = "1": 1 (integer), asked "1" (text)'),
        (None, {}, "flag = null: missing, asked null (null)"),
        ({"in": [0, 2]}, {"flag": False}, "flag in [0, 2]: false (boolean), asked 0 (integer)"),
    ],
)
def test_a_never_names_what_it_missed_by_type_alone(spec: Any, payload: Any, clause: str) -> None:
    body = {"never": {**CALL, "where": {"flag": spec, "tool": "x"}}}
    finding = judge(body, trace(ev("tool_called", tool="x", **payload), END))
    assert finding.outcome is Outcome.PASS
    assert finding.witness.notes == (f"event 0 was missed by type alone: {clause}",)
    assert clause in finding.reason
    missed_otherwise = judge(body, trace(ev("tool_called", tool="y", **payload), END))
    assert missed_otherwise.witness.notes == ()


def test_a_missing_value_is_not_null() -> None:
    assert word({"eventually": {**CALL, "where": {"x": None}}}, ev("tool_called"), END) == "fail"
    assert (
        word({"eventually": {**CALL, "where": {"x": None}}}, ev("tool_called", x=None), END)
        == "pass"
    )


# -- holes


def test_a_gap_blocks_the_pass_and_is_malformed_evidence() -> None:
    events = [{"seq": 0, **ev("run_started")}, {"seq": 2, **END}]
    finding = judge({"never": SEND}, Trace(events, closed=True))
    assert finding.causes == (Cause.MALFORMED_EVIDENCE,)
    assert "events are missing before event 1" in finding.reason


def test_a_loss_that_the_recorder_declares_is_a_gap_too() -> None:
    evidence = trace(ev("run_started"), END, gaps=((1, 1),))
    assert judge({"never": SEND}, evidence).outcome is Outcome.INDETERMINATE
    assert judge({"never": SEND}, trace(ev("run_started"), END)).outcome is Outcome.PASS


def test_an_uncovered_type_is_named_and_is_missing_evidence() -> None:
    coverage = frozenset({"run_started", "run_finished"})
    finding = judge({"never": SEND}, trace(ev("run_started"), END, coverage=coverage))
    assert finding.causes == (Cause.MISSING_EVIDENCE,)
    assert "tool_called is not recorded" in finding.reason


def test_a_violation_among_covered_events_stands_beside_an_uncovered_type() -> None:
    body = {"never": {"any": [SEND, {"type": "custom.other"}]}}
    coverage = frozenset({"tool_called", "run_finished"})
    assert judge(
        body, trace(ev("tool_called", tool="email.send"), END, coverage=coverage)
    ).outcome is (Outcome.FAIL)


def test_an_open_trace_leans_but_does_not_pass() -> None:
    body = {"precedes": {"first": GRANT, "second": CALL, "fresh": True}}
    finding = judge(body, trace(ev("approval_granted"), ev("tool_called"), closed=False))
    assert (finding.outcome, finding.leaning) == (Outcome.INDETERMINATE, Outcome.PASS)
    assert finding.causes == (Cause.UNFINISHED_RUN,)
    exhausted = trace(ev("tool_called"), closed=False, open_cause=Cause.MISSING_EVIDENCE)
    assert judge({"eventually": GRANT}, exhausted).causes == (Cause.MISSING_EVIDENCE,)


def test_all_causes_are_listed_in_their_order() -> None:
    body = {"every": {"match": CALL, "where": {"a": {"gt": 1}, "b": {"ne": "x"}}}}
    evidence = trace(
        ev("tool_called", a="x", b="y"), ev("tool_called", a=2, b="«secret:S»"), closed=False
    )
    finding = judge(body, evidence)
    assert finding.causes == (
        Cause.MISSING_EVIDENCE,
        Cause.MALFORMED_EVIDENCE,
        Cause.UNFINISHED_RUN,
    )
    assert finding.leaning is Outcome.INDETERMINATE


def test_an_anchor_without_its_bound_path_is_malformed_not_a_non_match() -> None:
    body = {
        "precedes": {
            "first": {**GRANT, "where": {"digest": "$d"}},
            "second": {**CALL, "bind": {"d": "digest"}},
        }
    }
    finding = judge(body, trace(ev("approval_granted", digest="x"), ev("tool_called"), END))
    assert finding.causes == (Cause.MALFORMED_EVIDENCE,)
    assert "digest: the path is missing" in finding.reason


def test_an_event_without_a_counted_path_may_belong_to_any_tuple() -> None:
    body = {"at_most": {"n": 1, "of": CALL, "per": ["id"]}}
    assert word(body, ev("tool_called", id="a"), ev("tool_called"), END) == "indeterminate"
    assert word(body, ev("tool_called"), END) == "pass"
    assert word({"at_most": {"n": 0, "of": CALL, "per": ["id"]}}, ev("tool_called"), END) == "fail"


def test_a_redacted_value_admits_both_answers() -> None:
    body = {"never": SEND}
    finding = judge(body, trace(ev("tool_called", tool="«secret:T»"), END))
    assert finding.causes == (Cause.MISSING_EVIDENCE,)
    listed = judge(body, trace(ev("tool_called", tool=["«secret:T»"]), END))
    assert listed.outcome is Outcome.INDETERMINATE
    leak = {"never": {**CALL, "where": {"args": {"secret": "any"}}}}
    assert word(leak, ev("tool_called", args={"q": ["a «secret:T» b"]}), END) == "fail"
    assert word(leak, ev("tool_called", args={"q": ["a b"]}), END) == "pass"


def test_a_text_that_was_cut_is_no_proof_of_absence() -> None:
    whole, cut = "x" * 5000, "x" * 4096
    lacks = {"never": {**CALL, "where": {"text": {"contains": "password"}}}}
    assert word(lacks, ev("tool_called", text=whole), END) == "pass"
    assert word(lacks, ev("tool_called", text=cut, truncated=True), END) == "indeterminate"
    assert word(lacks, ev("tool_called", text="short", truncated=True), END) == "pass"
    assert word(lacks, ev("tool_called", text="password" + cut, truncated=True), END) == "fail"
    length = {"every": {"match": CALL, "where": {"text": {"length": {"lte": 4096}}}}}
    assert word(length, ev("tool_called", text=cut, truncated=True), END) == "indeterminate"
    nested = {"never": {**CALL, "where": {"docs[*].text": {"pattern": "pass"}}}}
    docs = [{"text": cut, "truncated": True}]
    assert word(nested, ev("tool_called", docs=docs), END) == "indeterminate"


def test_an_argument_called_truncated_is_read_and_the_text_beside_it_may_be_cut() -> None:
    args = {"truncated": False, "body": "x" * 4096}
    own = {"never": {**CALL, "where": {"args.truncated": True}}}
    assert word(own, ev("tool_called", args=args), END) == "pass"
    lacks = {"never": {**CALL, "where": {"args.body": {"contains": "password"}}}}
    assert word(lacks, ev("tool_called", args=args), END) == "indeterminate"
    whole = {"never": {**CALL, "where": {"args": {"equals": {**args, "body": "x" * 5000}}}}}
    assert word(whole, ev("tool_called", args=args), END) == "indeterminate"
    # The twin: a short text is whole, whatever the argument says.
    short = {**args, "body": "short"}
    assert word(lacks, ev("tool_called", args=short), END) == "pass"


def test_two_cut_texts_with_one_beginning_are_not_one_value() -> None:
    body = {
        "precedes": {
            "first": {**GRANT, "where": {"text": "$t"}},
            "second": {**CALL, "bind": {"t": "text"}},
        }
    }
    cut: Any = {"text": "x" * 4096, "truncated": True}
    assert (
        word(body, ev("approval_granted", **cut), ev("tool_called", **cut), END) == "indeterminate"
    )
    assert word(body, ev("approval_granted", text="x"), ev("tool_called", text="x"), END) == "pass"


@pytest.mark.parametrize("name", ["raises", "answers_one"])
def test_a_predicate_that_breaks_breaks_its_own_contract_only(name: str) -> None:
    broken, sound = contract({"never": {**CALL, "satisfies": name}}), contract({"never": GRANT})
    first, second = evaluate([broken, sound], trace(ev("tool_called"), END), REGISTRY)
    assert (first.outcome, first.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))
    assert name in first.reason
    assert second.outcome is Outcome.PASS


@pytest.mark.parametrize(
    "body",
    [
        {
            "leads_to": {
                "when": {**CALL, "bind": {"i": "id"}},
                "then": {**GRANT, "where": {"id": "$i"}},
            }
        },
        {"never": {**GRANT, "where": {"id": "$i"}, "after": {**CALL, "bind": {"i": "id"}}}},
        {
            "precedes": {
                "first": {**CALL, "where": {"id": "$i"}},
                "second": {**GRANT, "bind": {"i": "id"}},
            }
        },
    ],
)
def test_open_bindings_are_bounded(body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Monitor, "max_bindings", 10)
    few = [ev("tool_called", id=f"c{at}") for at in range(10)]
    assert judge(body, trace(*few, closed=False)).causes == (Cause.UNFINISHED_RUN,)
    finding = judge(body, trace(*few, ev("tool_called", id="one more"), END))
    assert (finding.outcome, finding.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))
    assert finding.reason.endswith("more than 10 bindings are open at once")


@pytest.mark.parametrize("chain", [[], [CALL]])
def test_bindings_that_lists_make_are_counted_before_they_are_made(chain: list[Any]) -> None:
    first = [{"type": "page_fetched", "where": HELD}, *chain]
    bound = {**GRANT, "bind": {"x": "x", "y": "y"}}
    body = {"precedes": {"first": first if chain else first[0], "second": bound}}

    def work(size: int) -> Finding:
        p, q = ([f"{name}{at}" for at in range(size)] for name in "pq")
        return judge(body, trace(ev("page_fetched", p=p, q=q), END))

    assert work(3).outcome is Outcome.PASS
    # A billion pairs.
    assert calls_of(lambda: work(30_000)) < 1_000_000
    assert work(30_000).causes == (Cause.EVALUATOR_ERROR,)


# -- work grows with the trace, and not with its square


def _gapped(size: int) -> tuple[Any, Trace]:
    events = [{"seq": 2 * at, **CALLED} for at in range(size)]
    gaps = tuple((2 * at + 1, 2 * at + 1) for at in range(size))
    return {"never": SEND}, Trace(events, closed=True, gaps=gaps)


def _crowded(size: int) -> tuple[Any, Trace]:
    events = [ev("tool_called", id=f"c{at}") for at in range(size)]
    when = {**CALL, "bind": {"i": "id"}}
    answered = {"when": when, "then": {**GRANT, "where": {"id": "$i"}}, "within": {"events": 9**9}}
    return {"leads_to": answered}, trace(*events, gaps=((10**7, 10**7),))


@pytest.mark.parametrize("made", [_gapped, _crowded])
def test_twice_the_trace_is_twice_the_work(
    made: Callable[[int], tuple[Any, Trace]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Monitor, "max_bindings", 10)
    lines = []
    for size in (400, 800):
        body, evidence = made(size)
        lines.append(lines_of(partial(judge, body, evidence)))
    assert lines[1] / lines[0] < 2.2


# -- a trace that is itself malformed


@pytest.mark.parametrize("seqs", [(0, 1, 1), (0, 2, 1), (0, "1", 2), (0, None, 2), (1, 0, 2)])
def test_a_broken_numbering_passes_nothing(seqs: Sequence[Any]) -> None:
    events = [
        {"seq": seq, **event}
        for seq, event in zip(seqs, (ev("approval_granted"), ev("tool_called"), END), strict=True)
    ]
    broken = Trace(events, closed=True)
    for body in ({"precedes": {"first": GRANT, "second": CALL}}, {"eventually": CALL}):
        finding = judge(body, broken)
        assert finding.causes == (Cause.MALFORMED_EVIDENCE,), body
    assert judge({"at_most": {"n": 0, "of": CALL}}, broken).outcome is Outcome.INDETERMINATE
    assert judge({"never": CALL}, broken).outcome is Outcome.FAIL


@pytest.mark.parametrize("seq", [True, 1.0])
def test_a_number_that_only_equals_the_right_one_is_malformed(seq: Any) -> None:
    def numbered(second: Any) -> Trace:
        return Trace([{"seq": 0, **CALLED}, {"seq": second, **END}], closed=True)

    assert judge({"never": SEND}, numbered(1)).outcome is Outcome.PASS
    assert judge({"never": SEND}, numbered(seq)).causes == (Cause.MALFORMED_EVIDENCE,)


@pytest.mark.parametrize("payload", [None, [], "x", 1])
@pytest.mark.parametrize(
    "body",
    [
        {"never": {**CALL, "where": {"ok": {"exists": False}}}},
        {"every": {"match": CALL, "where": {"ok": True}}},
    ],
)
def test_a_payload_that_is_not_there_is_no_evidence_of_an_absence(body: Any, payload: Any) -> None:
    broken = {"type": "tool_called", "node_id": None, "payload": payload}
    assert judge(body, trace(broken, END)).causes == (Cause.MALFORMED_EVIDENCE,)
    # The twin: what another event says stands.
    assert judge(body, trace(broken, ev("tool_called"), END)).outcome is Outcome.FAIL


def test_an_event_after_the_end_is_malformed() -> None:
    finding = judge({"precedes": {"first": GRANT, "second": CALL}}, trace(END, ev("tool_called")))
    assert finding.causes == (Cause.MALFORMED_EVIDENCE,)
    assert "event 1 comes after the end (run_finished)" in finding.reason


@pytest.mark.parametrize(
    "event",
    [
        {"seq": 1, "type": "tool_called", "node_id": None, "payload": []},
        {"seq": 1, "type": "tool_called", "node_id": None},
        {"seq": 1, "type": ["x"], "node_id": None, "payload": {}},
        {"seq": 1, "type": 7, "node_id": None, "payload": {}},
        {"type": "tool_called", "node_id": None, "payload": {}},
        "no event",
    ],
)
def test_what_is_no_event_is_malformed_evidence(event: Any) -> None:
    evidence = Trace([{"seq": 0, **ev("run_started")}, event, {"seq": 2, **END}], closed=True)
    finding = judge({"never": SEND}, evidence)
    assert finding.causes == (Cause.MALFORMED_EVIDENCE,)


def test_faults_that_a_reader_found_block_every_pass() -> None:
    evidence = trace(END, faults=("line 3: seq 0 is there twice",))
    finding = judge({"never": SEND}, evidence)
    assert finding.outcome is Outcome.INDETERMINATE
    assert "line 3: seq 0 is there twice" in finding.reason


# -- variables beyond equality


def test_a_variable_may_be_compared_and_contained() -> None:
    after = {"type": "page_fetched", "bind": {"v": "v"}}
    taint = {"never": {**CALL, "where": {"text": {"contains": "$v"}}, "after": after}}
    assert (
        word(taint, ev("page_fetched", v="evil"), ev("tool_called", text="so evil"), END) == "fail"
    )
    clean = judge(taint, trace(ev("page_fetched", v="evil"), ev("tool_called", text="fine"), END))
    assert clean.outcome is Outcome.PASS
    assert "no proof" in clean.witness.notes[0]
    grows = {"never": {**CALL, "where": {"n": {"gt": "$v"}}, "after": after}}
    assert word(grows, ev("page_fetched", v=3), ev("tool_called", n=4), END) == "fail"
    assert word(grows, ev("page_fetched", v=3), ev("tool_called", n=3), END) == "pass"
    assert word(grows, ev("page_fetched", v="3"), ev("tool_called", n=4), END) == "indeterminate"
    changed = {"never": {**CALL, "where": {"d": {"ne": "$v"}}, "after": after}}
    assert word(changed, ev("page_fetched", v=1), ev("tool_called", d=1.0), END) == "pass"
    assert word(changed, ev("page_fetched", v=1), ev("tool_called"), END) == "fail"


def test_first_may_ask_for_membership_in_a_list() -> None:
    body = {
        "precedes": {
            "first": {**GRANT, "where": {"ids": {"contains": "$i"}}},
            "second": {**CALL, "bind": {"i": "id"}},
        }
    }
    assert (
        word(body, ev("approval_granted", ids=["a", "b"]), ev("tool_called", id="b"), END) == "pass"
    )
    assert word(body, ev("approval_granted", ids=["a"]), ev("tool_called", id="b"), END) == "fail"
    assert word(body, ev("approval_granted", ids="abc"), ev("tool_called", id="b"), END) == (
        "indeterminate"
    )


def test_one_element_has_to_satisfy_all_of_a_star() -> None:
    body = {
        "leads_to": {
            "when": {**CALL, "bind": {"i": "id"}},
            "then": {**GRANT, "where": {"items[*].id": {"eq": "$i", "exists": True}}},
        }
    }
    assert (
        word(
            body, ev("tool_called", id=1), ev("approval_granted", items=[{"id": 2}, {"id": 1}]), END
        )
        == "pass"
    )
    assert (
        word(body, ev("tool_called", id=1), ev("approval_granted", items=[{"id": 2}]), END)
        == "fail"
    )


def test_an_alternative_without_the_variable_covers_every_binding() -> None:
    body = {
        "precedes": {
            "first": {"any": [{**GRANT, "where": {"d": "$d"}}, {"type": "page_fetched"}]},
            "second": {**CALL, "bind": {"d": "d"}},
        }
    }
    assert word(body, ev("page_fetched"), ev("tool_called", d="x"), END) == "pass"
    assert word(body, ev("approval_granted", d="y"), ev("tool_called", d="x"), END) == "fail"
    assert word(body, ev("approval_granted", d="x"), ev("tool_called", d="x"), END) == "pass"


# -- the witness


def test_a_witness_is_bounded_and_says_so() -> None:
    calls = [ev("tool_called", text="x" * 3000) for _ in range(31)]
    finding = judge({"at_most": {"n": 30, "of": CALL}}, trace(*calls, END))
    assert finding.outcome is Outcome.FAIL
    assert len(finding.witness.events) == 20
    assert finding.witness.notes == ("11 more events are left out",)
    assert sum(len(str(text)) for text in finding.witness.context.values()) < 4096


def test_a_missing_event_is_shown_with_the_nearest_one() -> None:
    finding = judge({"eventually": SEND}, trace(ev("tool_called", tool="email.search"), END))
    assert finding.witness.absent == ('no tool_called where tool = "email.send" in 0..1',)
    (nearest,) = finding.witness.nearest
    assert nearest == {"seq": 0, "why": 'not tool = "email.send": met "email.search" (text)'}


def test_an_every_shows_expected_against_actual_with_types() -> None:
    body = {"every": {"match": CALL, "where": {"n": "1"}}}
    finding = judge(body, trace(ev("tool_called", n=1), END))
    assert finding.reason == 'event 0 (tool_called): n is 1 (integer), expected = "1"'


def test_an_unanswered_event_names_its_binding_and_the_range() -> None:
    body = {
        "leads_to": {
            "when": {**CALL, "bind": {"i": "id"}},
            "then": {**GRANT, "where": {"id": "$i"}},
        }
    }
    finding = judge(body, trace(ev("tool_called", id="a"), ev("approval_granted", id="b"), END))
    assert finding.witness.absent == ("no approval_granted where id = $i in (0, end]",)
    assert finding.witness.nearest == ({"seq": 1, "why": 'id is "b" (text), $i is "a" (text)'},)


def test_every_absence_says_where_it_looked() -> None:
    finding = judge({"never": SEND}, trace(ev("run_started"), END, coverage_assumed=True))
    assert finding.looked_at == ("tool_called in events 0 to 1, full coverage assumed",)
    assert finding.witness.absent == ('no tool_called where tool = "email.send" in 0..1',)


# -- one scan for many, one evaluator for many traces


def test_judging_together_is_judging_alone_however_long_the_trace() -> None:
    bodies: list[Any] = [
        {"never": SEND},
        {"never": {**CALL, "where": {"tool": {"in": ["a", "email.send"]}, "kind": "write"}}},
        {"at_most": {"n": 3, "of": {**CALL, "where": {"kind": "write"}}}},
        {"precedes": {"first": GRANT, "second": SEND, "fresh": True}},
        {"leads_to": {"when": SEND, "then": GRANT, "within": {"events": 3}}},
        {"eventually": {**CALL, "where": {"tool": "z", "kind": "write"}}},
        {"every": {"match": CALL, "where": {"tool": {"exists": True}}}},
        {"never": {**CALL, "where": {"kind": None}, "after": SEND}},
    ]
    contracts = [contract(body) for body in bodies]
    events = []
    for at in range(9000):
        if at % 7 == 0:
            events.append(ev("approval_granted"))
        else:
            tool: Any = ("a", "b", "email.send", ["z"], None)[at % 5]
            events.append(ev("tool_called", tool=tool, kind=("write", "read")[at % 2]))
    for length in (5, 70, 9000):
        evidence = trace(*events[:length], END)
        together = evaluate(contracts, evidence, REGISTRY)
        alone = [evaluate([one], evidence, REGISTRY)[0] for one in contracts]
        assert together == alone


def test_an_evaluator_keeps_nothing_of_the_trace_before() -> None:
    judge_all = Evaluator([contract({"precedes": {"first": GRANT, "second": CALL}})], REGISTRY)
    good, bad = trace(ev("approval_granted"), ev("tool_called"), END), trace(ev("tool_called"), END)
    outcomes = [judge_all.evaluate(one)[0].outcome.word for one in (good, bad, good, bad)]
    assert outcomes == ["pass", "fail", "pass", "fail"]


def test_a_value_that_nests_without_end_is_undecided_and_breaks_nothing() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    body = {
        "precedes": {
            "first": {**GRANT, "where": {"v": "$v"}},
            "second": {**CALL, "bind": {"v": "v"}},
        }
    }
    finding = judge(body, trace(ev("approval_granted", v=deep), ev("tool_called", v=deep), END))
    assert finding.causes == (Cause.EVALUATOR_ERROR,)
    clash = judge(
        {"never": {**CALL, "where": {"v": {"gt": 1}}}}, trace(ev("tool_called", v=deep), END)
    )
    assert clash.causes == (Cause.MALFORMED_EVIDENCE,)
    assert judge({"never": CALL}, trace(ev("tool_called", v=deep), END)).outcome is Outcome.FAIL


def test_a_field_with_ever_new_values_is_judged_all_the_same() -> None:
    body = {"at_most": {"n": 1, "of": {**CALL, "where": {"text": {"in": ["t7", "t1999"]}}}}}
    events = [ev("tool_called", text=f"t{at}") for at in range(2500)]
    finding = judge(body, trace(*events, END))
    assert (finding.outcome, finding.decisive_seq) == (Outcome.FAIL, 1999)


def test_what_must_never_happen_is_said_as_a_sentence() -> None:
    def said(match: Json, event_type: str) -> str:
        contract, faults = parse_contract(
            "c", {"assert": {"never": match}}, registry=packaged_registry()
        )
        assert contract is not None, faults
        (_, role), *_ = roles_of(contract.rule)
        return describe_event(role, event_type)

    call: Json = {"type": "tool_called", "where": {"args.amount": {"gt": 10}}}
    error: Json = {"type": "engine_error"}
    assert said(call, "tool_called") == "a tool_called where args.amount > 10"
    assert said({"any": [call, error]}, "engine_error") == "an engine_error"
    assert said({"node_id": "n1"}, "tool_called") == 'an event where node_id = "n1"'


@pytest.mark.parametrize("fresh", [False, True])
def test_a_chain_of_another_binding_leaves_no_doubt(fresh: bool) -> None:
    """A closed and clean trace is decided, in whatever order the values of a binding come."""
    first = {**GRANT, "where": {"artifact_digest": "$d"}}
    body = {"precedes": {"first": first, "second": {**CALL, "bind": {"d": "d"}}, "fresh": fresh}}
    given = [ev("approval_granted", artifact_digest=value) for value in (1, 2)]
    finding = judge(body, trace(*given, ev("tool_called", d=2), END))
    assert (finding.outcome, finding.causes, finding.vacuous) == (Outcome.PASS, (), False)
    for values in ((1,), (1, 3), ("2",)):
        others = [ev("approval_granted", artifact_digest=value) for value in values]
        finding = judge(body, trace(*others, ev("tool_called", d=2), END))
        assert (finding.outcome, finding.causes) == (Outcome.FAIL, ())

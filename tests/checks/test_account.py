"""What a run says of itself is held against what was seen, and proves nothing by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.checks.account import Account
from pytest_evarness.checks.evidence import Gathered
from pytest_evarness.checks.judge import Judge, Judgement
from pytest_evarness.checks.kind import Known
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.errors import Fault
from tests.checks.builders import END, REPRODUCES, contract_item, evidence, expect_item
from tests.checks.test_gathering import registry_of

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding

START = ("run_started", None, {"fixture": "f", "seed": 1})
SENT = ("custom.sent", "n4", {"to": "m"})
FINISH = ("run_finished", None, {**END})
PAUSE = ("run_paused", None, {"prompt": "?", "preview": "", **END})
WAS_SENT = contract_item("sent", {"eventually": {"type": "custom.sent"}}, gate=False)
WHERE_SENT = contract_item(
    "addressed", {"every": {"match": {"type": "custom.sent"}, "where": {"to": "m"}}}, gate=False
)
OPEN = contract_item("open", {"eventually": {"where": {"to": {"gt": 3}}}}, gate=False)


def account_item(*needs: str, must_claim: bool = False, name: str = "account") -> PlannedItem:
    definition: dict[str, Any] = {
        "type": "account",
        "claims": {"contains": "sent it"},
        "needs": list(needs),
        "must_claim": must_claim,
        "timeout": 30.0,
        "recheck": False,
    }
    return PlannedItem(id=name, kind="account", definition=definition)


def judged(
    *items: PlannedItem,
    output: str | None = "I sent it",
    run: tuple[Any, ...] = (START, SENT, FINISH),
    status: str = "completed",
    end: str = "completed",
) -> Judgement:
    gathered = {item.id: Gathered({}) for item in items if item.is_check}
    seen = replace(evidence(status, *run, output=output), gathered=gathered)
    # Accounts come first: what they need is judged before them all the same.
    order = sorted(items, key=lambda item: not item.is_check)
    return Judge(registry_of()).judge([REPRODUCES, expect_item(end), *order], seen, threshold=None)


def the(judgement: Judgement, name: str = "account") -> Finding:
    (finding,) = [one for one in judgement.findings if one.id == name]
    return finding


def test_a_claim_whose_checks_hold_is_true() -> None:
    finding = the(judged(WAS_SENT, account_item("sent")))
    assert (finding.outcome.word, finding.vacuous) == ("pass", False)
    assert finding.reason == "what the output claims is so: sent"


def test_a_claim_whose_check_fails_is_a_lie() -> None:
    finding = the(judged(WAS_SENT, account_item("sent"), run=(START, FINISH)))
    assert finding.outcome.word == "fail"
    assert finding.reason.startswith("the output claims what is not so: 'sent' failed (")
    assert finding.witness.observed == '"I sent it"'
    assert finding.witness.entries[0].startswith("sent: fail, ")


def test_a_claim_whose_check_is_undecided_is_undecided_for_the_same_cause() -> None:
    finding = the(judged(OPEN, account_item("open")))
    assert finding.outcome.word == "indeterminate"
    assert finding.causes == (Cause.MALFORMED_EVIDENCE,)
    # A failed check decides, whatever else is open.
    both = judged(OPEN, WAS_SENT, account_item("open", "sent"), run=(START, FINISH))
    assert the(both).outcome.word == "fail"


def test_a_check_that_passed_because_nothing_was_there_shows_nothing() -> None:
    finding = the(judged(WHERE_SENT, account_item("addressed"), run=(START, FINISH)))
    assert (finding.outcome.word, finding.causes) == ("indeterminate", (Cause.MISSING_EVIDENCE,))
    assert the(judged(WHERE_SENT, account_item("addressed"))).outcome.word == "pass"


@pytest.mark.parametrize("output", ["I did nothing", None])
def test_without_the_claim_there_is_nothing_to_hold_it_against(output: str | None) -> None:
    run = (START, FINISH)
    silent = the(judged(WAS_SENT, account_item("sent"), output=output, run=run))
    assert (silent.outcome.word, silent.vacuous) == ("pass", True)
    bound = the(judged(WAS_SENT, account_item("sent", must_claim=True), output=output, run=run))
    assert bound.outcome.word == "fail"
    assert bound.looked_at == ("the run's whole output",)


def test_what_a_run_without_an_end_would_have_claimed_is_not_known() -> None:
    run = (START, PAUSE)
    pending = judged(WAS_SENT, account_item("sent"), output=None, run=run, status="paused")
    assert the(pending).causes == (Cause.UNFINISHED_RUN,)
    declared = judged(
        WAS_SENT, account_item("sent"), output=None, run=run, status="paused", end="paused"
    )
    assert the(declared).vacuous


def test_an_account_may_need_another_whatever_their_order() -> None:
    items = (account_item("inner", name="outer"), account_item("sent", name="inner"), WAS_SENT)
    for order in (items, items[::-1]):
        assert the(judged(*order), "outer").outcome.word == "pass"
        assert the(judged(*order, run=(START, FINISH)), "outer").outcome.word == "fail"


# -- loading ------------------------------------------------------------------------------------


def parsed(**value: Any) -> tuple[Any, list[Fault]]:
    known = Known(
        services={},
        has_workspace=False,
        secrets=frozenset(),
        read=lambda text: (None, Fault((), text)),
        ids={"sent": "trace", "row_there": "sql"},
        environment={},
        registry=packaged_registry(),
    )
    return Account().parse({"type": "account", **value}, known)


def test_defaults_are_written_out() -> None:
    definition, faults = parsed(claims={"contains": "sent"}, needs=["sent"])
    assert faults == []
    assert definition == {
        "type": "account",
        "claims": {"contains": "sent"},
        "needs": ["sent"],
        "must_claim": False,
    }


@pytest.mark.parametrize(
    ("value", "place", "text"),
    [
        ({"needs": ["sent"]}, (), "required key 'claims' is missing"),
        ({"claims": "x"}, (), "required key 'needs' is missing"),
        ({"claims": {"contians": "x"}, "needs": ["sent"]}, ("claims", "contians"), "unknown"),
        ({"claims": {"gt": 3}, "needs": ["sent"]}, ("claims", "gt"), "can never"),
        ({"claims": "x", "needs": []}, ("needs",), "must be a list of invariants"),
        ({"claims": "x", "needs": "sent"}, ("needs",), "must be a list of invariants"),
        ({"claims": "x", "needs": ["snet"]}, ("needs", 0), "names no other invariant"),
        ({"claims": "x", "needs": ["sent", "sent"]}, ("needs", 1), "is named twice"),
        ({"claims": "x", "needs": [3]}, ("needs", 0), "must be the id of an invariant"),
        ({"claims": "x", "needs": ["sent"], "must_claim": "yes"}, ("must_claim",), "must be true"),
    ],
)
def test_what_cannot_be_judged_is_refused(value: Any, place: Any, text: str) -> None:
    definition, faults = parsed(**value)
    assert definition == {}
    assert [fault.path for fault in faults] == [place]
    assert text in faults[0].text


def test_the_nearest_invariant_is_offered() -> None:
    _, (fault,) = parsed(claims="x", needs=["row_three"])
    assert fault.fix == "write 'row_there'"

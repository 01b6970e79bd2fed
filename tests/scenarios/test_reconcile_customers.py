"""Two lists of customers: what makes their reconciliation invalid, poor or undecided."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.shipped import FILE, Change, every, found, odd, only, replica, shipped

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session


def tools(scenario: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = scenario["environment"]["tools"]
    return made


def statement(text: str) -> Change:
    """The tool also runs this."""

    def change(scenario: dict[str, Any]) -> None:
        effects = tools(scenario)["db.execute"][0]["effects"]
        effects.append({"sql": {"service": "db", "statement": text}})

    return change


def first_correction_only(scenario: dict[str, Any]) -> None:
    del tools(scenario)["db.execute"][0]["effects"][1]


def two_mails(scenario: dict[str, Any]) -> None:
    effects = tools(scenario)["email.send"][0]["effects"]
    effects.append(copy.deepcopy(effects[0]))


def mail_to(address: str) -> Change:
    def change(scenario: dict[str, Any]) -> None:
        tools(scenario)["email.send"][0]["effects"][0]["http"]["body"]["to"] = address

    return change


def mail_by(service: str) -> Change:
    def change(scenario: dict[str, Any]) -> None:
        routes = [{"path": "/api/messages"}]
        scenario["environment"]["services"][service] = {"type": "http_mock", "routes": routes}
        tools(scenario)["email.send"][0]["effects"][0]["http"]["service"] = service

    return change


def judge(*rules: dict[str, Any]) -> Change:
    return lambda scenario: scenario["environment"].update(judge=list(rules))


def answer(text: str) -> Change:
    return judge({"respond": {"text": text}})


def threshold(value: float, change: Change) -> Change:
    def both(scenario: dict[str, Any]) -> None:
        scenario["scoring"] = {"pass_threshold": value}
        change(scenario)

    return both


def service(name: str, **fields: Any) -> Change:
    return lambda scenario: scenario["environment"]["services"][name].update(fields)


def llm(*rules: dict[str, Any]) -> Change:
    return lambda scenario: scenario["environment"].update(llm=list(rules))


def order(**task: Any) -> Change:
    """What is to be corrected and added, where it is not what the lists need."""
    right = {
        "correct": {"id": 2, "email": "bo@example.com"},
        "add": {"id": 4, "email": "dee@example.com"},
    }
    return lambda scenario: scenario["environment"].update(user_input=json.dumps(right | task))


def asks_first_only(scenario: dict[str, Any]) -> None:
    scenario["environment"]["user_input"] = '{"correct": {"id": 2}}'


CASE = "reconciled"
# An invalid case is not graded, and has no say of its own in its score.
UNGRADED = {"email_quality": "indeterminate missing_evidence", "score": "fail"}
MISMATCH = {"reconciliation_clean": "fail", "list_b_is_right": "fail", **UNGRADED}
WRITTEN = {"forbidden-db-writes-outside": "fail", **UNGRADED}

INVALID: dict[str, tuple[Change, dict[str, str]]] = {
    "wrong-address": (order(correct={"id": 2, "email": "bo@other.example"}), MISMATCH),
    "wrong-row": (order(correct={"id": 1, "email": "bo@example.com"}), MISMATCH),
    "one-of-two-corrections": (first_correction_only, MISMATCH),
    "the-truth-is-bent": (
        statement("UPDATE customers_a SET email = 'bob@old.example' WHERE id = 2"),
        {**WRITTEN, "reconciliation_clean": "fail", "list_a_is_untouched": "fail"},
    ),
    "a-customer-too-many": (
        statement("INSERT INTO customers_b VALUES (9, 'x@example.com')"),
        {"list_b_is_right": "fail", **UNGRADED},
    ),
    "another-table-is-emptied": (statement("DELETE FROM invoices"), WRITTEN),
    "another-table-is-written-as-it-was": (
        statement("UPDATE invoices SET total = total"),
        WRITTEN,
    ),
    "by-another-service": (
        mail_by("sms"),
        {"forbidden-http-except": "fail", "email_sent_once": "fail", **UNGRADED},
    ),
    "a-task-that-lacks-half": (
        asks_first_only,
        {"expect": "fail", "email_sent_once": "fail", **MISMATCH},
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_it_is_invalid_whatever_else_is_good(session: Session, name: str) -> None:
    change, expected = INVALID[name]
    ran = run(session, change)
    assert odd(ran, CASE) == expected
    composite = replica(ran, CASE)["composite"]
    assert (composite["low"], composite["high"]) == ("0", "0")
    assert (replica(ran, CASE)["verdict"], ran.holds, ran.code) == ("invalid", False, 1)
    # The root cause makes the failures; the score that follows from it is no further one.
    assert ran.counts["skipped"] == 1


def test_what_an_invalid_case_did_well_is_kept_apart(session: Session) -> None:
    composite = replica(run(session, INVALID["another-table-is-emptied"][0]), CASE)["composite"]
    assert composite["raw"] == "0.8"


# Weights 0.5, 0.3 and 0.2, threshold 0.85: what the weights say of a valid case.
POOR: dict[str, tuple[Change, dict[str, str], str]] = {
    "two-mails": (two_mails, {"email_sent_once": "fail"}, "0.68"),
    "a-mail-to-somebody-else": (
        mail_to("sales@example.com"),
        {"email_sent_once": "fail"},
        "0.68",
    ),
    "a-judge-that-gives-nothing": (
        answer('{"passed": true, "score": 0}'),
        {"email_quality": "fail"},
        "0.8",
    ),
}


@pytest.mark.parametrize("name", POOR)
def test_it_is_valid_and_not_good_enough(session: Session, name: str) -> None:
    change, expected, composite = POOR[name]
    ran = run(session, change)
    assert odd(ran, CASE) == {**expected, "score": "fail"}
    got = replica(ran, CASE)
    assert (got["composite"]["low"], got["composite"]["high"]) == (composite, composite)
    assert (got["verdict"], ran.holds, ran.code) == ("valid", False, 1)
    assert (ran.counts["missed"], ran.counts["failed"]) == (1, 1)
    # The twin: what is missed is paid for, not forbidden.
    ran = run(session, threshold(float(Fraction(composite)), change))
    assert odd(ran, CASE) == expected
    assert (ran.code, ran.counts["missed"]) == (0, 1)


ABSTAINS = {"email_quality": "indeterminate missing_evidence"}


@pytest.mark.parametrize(
    "change",
    [
        judge({"match": {"contains": "never"}, "scores": {"score": 1}}),
        answer("Sure! The mail is good."),
        answer('The text ends with {"score": 1}. My verdict: {"score": 0.1}'),
        answer('{"score": 7}'),
    ],
    ids=["no-rule", "prose", "a-quoted-verdict", "no-score"],
)
def test_a_judge_that_abstains_leaves_the_score_open(session: Session, change: Change) -> None:
    ran = run(session, change)
    assert odd(ran, CASE) == {**ABSTAINS, "score": "indeterminate missing_evidence"}
    got = replica(ran, CASE)
    assert (got["composite"]["low"], got["composite"]["high"]) == ("0.8", "1")
    assert (got["verdict"], ran.holds, ran.code) == ("valid", None, 1)
    # The twin: where the rest is enough, whatever the judge would have said, it decides nothing.
    ran = run(session, threshold(0.8, change))
    assert (odd(ran, CASE), ran.code) == (ABSTAINS, 0)


CONTRACT_AND_RULES = (
    "approved-is-executed",
    "forbidden-db-writes-outside",
    "forbidden-http-except",
    "forbidden-duplicate-effects",
    "forbidden-unmatched-requests",
)
LISTS = ("reconciliation_clean", "list_b_is_right", "list_a_is_untouched")
MAILS = ("email_sent_once", "email_quality", "score")


UNDECIDED: dict[str, tuple[Change, dict[str, str]]] = {
    "no-journal": (
        service("smtp", record=False),
        every("missing_evidence", "forbidden-unmatched-requests", *MAILS),
    ),
    "no-journal-and-a-threshold-that-the-rest-would-meet": (
        threshold(0.5, service("smtp", record=False)),
        every("missing_evidence", "forbidden-unmatched-requests", *MAILS),
    ),
    "dead-database": (
        service("db", init="CREATE TABLE"),
        every("evaluator_error", "reproduces", "expect", *CONTRACT_AND_RULES, "email_sent_once")
        | every("missing_evidence evaluator_error", "forbidden-db-writes-outside")
        | every("missing_evidence", *LISTS, "email_quality", "score"),
    ),
    "script-used-up": (
        llm({"match": {"contains": "never"}, "respond": {"text": "x"}}),
        every("missing_evidence", "expect", *CONTRACT_AND_RULES, *LISTS, *MAILS),
    ),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_it_is_indeterminate(session: Session, name: str) -> None:
    change, expected = UNDECIDED[name]
    ran = run(session, change)
    assert odd(ran, CASE) == expected
    got = replica(ran, CASE)
    assert (got["composite"]["low"], got["composite"]["high"]) == ("0", "1")
    assert (got["verdict"], ran.holds, ran.code) == ("indeterminate", None, 1)
    assert "skipped: undecided" in found(ran, "score", CASE)["reason"]


def test_a_judge_cannot_be_made_a_gate(session: Session) -> None:
    def harden(scenario: dict[str, Any]) -> None:
        scenario["invariants"]["email_quality"]["gate"] = True

    ran = run(session, harden)
    assert (ran.code, ran.counts) == (1, {"error": 1})
    assert "invariants.email_quality" in ran.text


def test_every_case_is_as_good_as_it_is_shipped(session: Session) -> None:
    made = shipped("reconcile_customers")
    ran = session("--evarness-unsigned", files={FILE: made}, mirror=True)
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert {case: replica(ran, case)["composite"] for case in ("reconciled", "curt_mail")} == {
        "reconciled": {"low": "0.98", "high": "0.98", "raw": None, "threshold": "0.85"},
        "curt_mail": {"low": "0.9", "high": "0.9", "raw": None, "threshold": "0.85"},
    }
    assert odd(ran, "curt_mail") == {"email_quality": "fail"}
    assert replica(ran, "corrections_refused")["composite"] is None


def run(session: Session, change: Change) -> Ran:
    made = only(shipped("reconcile_customers"), CASE)
    change(made)
    return session("--evarness-unsigned", files={FILE: made})

"""A renewal mail: what makes it invalid or undecided, from its draft to the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.shipped import FILE, FILES, Change, every, found, odd, only, replica, shipped

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

SCRIPT = "scenarios/checks/mail_is_draft.py"


def rule(scenario: dict[str, Any], tool: str) -> dict[str, Any]:
    (one,) = scenario["environment"]["tools"][tool]
    return one  # type: ignore[no-any-return]


def draft(text: str) -> Change:
    """The model writes this, and it is saved and sent."""

    def change(scenario: dict[str, Any]) -> None:
        scenario["environment"]["llm"] = [{"respond": {"text": text}}]
        rule(scenario, "fs.write")["result"][0]["text"] = text

    return change


def says(text: str) -> Change:
    """The tool says that it saved this."""

    def change(scenario: dict[str, Any]) -> None:
        rule(scenario, "fs.write")["result"][0]["text"] = text

    return change


def files(*effects: dict[str, Any]) -> Change:
    """Saving does this as well."""
    return lambda scenario: rule(scenario, "fs.write")["effects"].extend(
        {"file": one} for one in effects
    )


def path(text: str) -> Change:
    def change(scenario: dict[str, Any]) -> None:
        (save,) = [n for n in scenario["subject"]["graph"]["nodes"] if n["id"] == "save"]
        save["config"]["args"]["path"] = text

    return change


def keyless(scenario: dict[str, Any]) -> None:
    del rule(scenario, "email.send")["effects"][0]["idempotency_key"]


def silent_tool(scenario: dict[str, Any]) -> None:
    rule(scenario, "email.send")["effects"] = []


def notes_kept(scenario: dict[str, Any]) -> None:
    del rule(scenario, "fs.write")["effects"][1]


def asks(**fields: Any) -> Change:
    return lambda scenario: scenario["invariants"]["short"]["check"].update(fields)


def smtp(**fields: Any) -> Change:
    return lambda scenario: scenario["environment"]["services"]["smtp"].update(fields)


def as_it_is(scenario: dict[str, Any]) -> None:
    """Nothing is changed."""


GOOD = shipped("renewal_mail")["environment"]["llm"][0]["respond"]["text"]
SUBJECT = {"subject_line": "fail"}
NOT_THE_DRAFT = {"mail_is_draft": "fail", "honest_answer": "fail"}
OUTSIDE = {"forbidden-file-writes-outside": "fail"}
NOTHING_SAVED = {
    "expect": "fail",
    "subject_line": "fail",
    "one_draft": "fail",
    "notes_gone": "fail",
    "sent_once": "fail",
    "mail_is_draft": "fail",
    "short": "fail",
    "honest_answer": "fail",
}

INVALID: dict[str, tuple[str, Change, dict[str, str]]] = {
    "subject-in-the-second-line": ("sent", draft(f"Hello,\n{GOOD}"), SUBJECT),
    "another-word": ("sent", draft(GOOD.replace("Renewal", "Renewals")), SUBJECT),
    "a-note-of-ours": ("sent", draft(f"{GOOD}TODO: check\n"), SUBJECT),
    "another-number": ("sent", draft(GOOD.replace("40", "41")), NOT_THE_DRAFT),
    "another-text-is-sent": ("sent", says(f"{GOOD}PS: call us"), NOT_THE_DRAFT),
    "writes-outside": (
        "sent",
        files({"path": "templates/renewal.txt", "write": "x"}),
        OUTSIDE,
    ),
    "the-contract-is-bent": (
        "sent",
        files({"path": "contracts/acme.json", "write": "{}"}),
        {**OUTSIDE, **NOT_THE_DRAFT},
    ),
    "a-sibling-of-the-folder": ("sent", files({"path": "drafts2/x.txt", "write": "x"}), OUTSIDE),
    "written-and-taken-back": (
        "sent",
        files({"path": "out.txt", "write": "x"}, {"path": "out.txt", "delete": True}),
        OUTSIDE,
    ),
    "two-drafts": ("sent", files({"path": "drafts/b.txt", "write": "x"}), {"one_draft": "fail"}),
    "a-path-that-leads-out": ("sent", path("../outside.txt"), NOTHING_SAVED),
    "an-absolute-path": ("sent", path("/tmp/outside.txt"), NOTHING_SAVED),
    "sent-twice": (
        "answer_lost",
        keyless,
        {"forbidden-duplicate-effects": "fail", "sent_once": "fail", "honest_answer": "fail"},
    ),
    "claims-what-was-never-sent": (
        "sent",
        silent_tool,
        {"sent_once": "fail", **NOT_THE_DRAFT},
    ),
    "no-route": (
        "sent",
        smtp(routes=[{"method": "POST", "path": "/api/mail"}]),
        {"forbidden-unmatched-requests": "fail"},
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_it_is_invalid(session: Session, name: str) -> None:
    case, change, expected = INVALID[name]
    ran = run(session, case, change)
    assert odd(ran, case) == expected
    assert (replica(ran, case)["verdict"], ran.holds, ran.code) == ("invalid", False, 1)


def test_nothing_was_written_beside_the_workspace(session: Session) -> None:
    ran = run(session, "sent", path("../outside.txt"))
    assert list(ran.root.rglob("outside.txt")) == []
    assert "must not leave the workspace by '..'" in found(ran, "expect", "sent")["reason"]


# No gate, and no threshold either: what has no gate decides alone, and the hard verdict is valid.
FAILING: dict[str, tuple[Change, dict[str, str]]] = {
    "too-long": (draft(GOOD + "x\n" * 30), {"short": "fail"}),
    "notes-left": (notes_kept, {"notes_gone": "fail"}),
    "no-such-command": (asks(command="no-such-tool"), {"short": "fail"}),
}


@pytest.mark.parametrize("name", FAILING)
def test_it_fails_without_being_invalid(session: Session, name: str) -> None:
    change, expected = FAILING[name]
    ran = run(session, "sent", change)
    assert odd(ran, "sent") == expected
    assert (replica(ran, "sent")["verdict"], ran.holds, ran.code) == ("valid", False, 1)


# -- the script -----------------------------------------------------------------------------------

SCRIPTS = {
    "exits-with-3": "print('{\"passed\": true}'); raise SystemExit(3)",
    "prints-more": "print('loading'); print('{\"passed\": true}')",
    "breaks": "import json, sys; json.load(sys.stdin)['nowhere']",
    "a-word-for-a-boolean": 'print(\'{"passed": "yes"}\')',
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_broke_says_nothing_about_the_harness(session: Session, name: str) -> None:
    ran = run(session, "sent", as_it_is, {SCRIPT: SCRIPTS[name]})
    assert odd(ran, "sent") == every("evaluator_error", "mail_is_draft", "honest_answer")
    assert (replica(ran, "sent")["verdict"], ran.holds, ran.code) == ("indeterminate", None, 1)


def test_a_script_that_is_nearly_sure_opens_no_gate(session: Session) -> None:
    ran = run(session, "sent", as_it_is, {SCRIPT: 'print(\'{"passed": true, "score": 0.9}\')'})
    assert odd(ran, "sent") == NOT_THE_DRAFT
    assert "gate needs score 1.0, got 0.9" in found(ran, "mail_is_draft", "sent")["reason"]
    assert (ran.holds, ran.code) == (False, 1)


# -- what is not known ----------------------------------------------------------------------------


def test_without_a_journal_neither_the_mail_nor_its_account_is_known(session: Session) -> None:
    ran = run(session, "sent", smtp(record=False))
    items = ("forbidden-unmatched-requests", "sent_once", "honest_answer")
    assert odd(ran, "sent") == every("missing_evidence", *items)
    assert (replica(ran, "sent")["verdict"], ran.holds, ran.code) == ("indeterminate", None, 1)


def test_a_command_that_never_ends_has_no_exit_code(session: Session) -> None:
    ran = run(session, "sent", asks(command="sleep 600.77", timeout=0.5, exit_code="nonzero"))
    assert odd(ran, "sent") == every("evaluator_error", "short")
    assert (replica(ran, "sent")["verdict"], ran.holds, ran.code) == ("valid", None, 1)


def test_a_person_who_has_not_decided_leaves_everything_open(session: Session) -> None:
    def undecided(scenario: dict[str, Any]) -> None:
        scenario["cases"]["saved_only"]["approvals"] = {"draft_gate": "approve"}

    ran = run(session, "saved_only", undecided)
    rules = ("file-writes-outside", "http-except", "duplicate-effects", "tools-except", "network")
    assert odd(ran, "saved_only") == every(
        "unfinished_run",
        "expect",
        *(f"forbidden-{rule}" for rule in (*rules, "unmatched-requests")),
        *("subject_line", "one_draft", "notes_gone", "not_sent", "short"),
    )
    assert (ran.predicate["verdict"]["pending"], ran.holds, ran.code) == (1, None, 1)


def test_every_case_is_valid_as_it_is_shipped(session: Session) -> None:
    ran = session(
        "--evarness-unsigned", files={FILE: shipped("renewal_mail"), **FILES}, mirror=True
    )
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert ran.predicate["verdict"]["valid"] == 4


def run(session: Session, case: str, change: Change, more: Any = None) -> Ran:
    made = only(shipped("renewal_mail"), case)
    change(made)
    return session("--evarness-unsigned", files={FILE: made, **FILES, **(more or {})})

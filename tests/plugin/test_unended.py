"""What a run left when it was stopped is not what it would have left at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.scenarios import graph

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

CASE = "scenarios/s.yaml::default"
GRAPH = graph(
    ("n1", "input", {}),
    ("n2", "approval_gate", {"prompt": "Send it?"}),
    ("n3", "tool", {"tool": "email.send", "approve_side_effects": True}),
    ("n4", "llm", {}),
    ("n5", "approval_gate", {"prompt": "Save it?"}),
    ("n6", "tool", {"tool": "fs.write", "approve_side_effects": True}),
    ("n7", "output", {}),
)
MAIL = {"service": "mail", "method": "POST", "path": "/m", "body": "x"}
UNSCRIPTED = "indeterminate missing_evidence"


def counted(**matcher: Any) -> dict[str, Any]:
    return {
        "type": "http_mock_assertions",
        "service": "mail",
        "assertions": [{"field": "request_count", **matcher}],
    }


CHECKS = {
    "none-sent": counted(equals=0),
    "few-sent": counted(lt=1),
    "one-sent": counted(equals=1),
    "many-sent": counted(equals=500),
    "to-nobody": {**counted(equals=500), "no_unmatched": True},
    "saved": {"type": "file_exists", "path": "out.txt"},
    "unsaved": {"type": "file_absent", "path": "out.txt"},
    "asked": {"type": "command_exit", "command": "test -e out.txt"},
    "kept": {"type": "sql", "service": "db", "query": "SELECT count(*) FROM t", "equals": 0},
}


def scenario(**environment: Any) -> dict[str, Any]:
    write = {"result": "saved", "effects": [{"file": {"path": "out.txt", "write": "x"}}]}
    return {
        "evarness": 1,
        "subject": {"graph": GRAPH},
        "environment": {
            "approvals": {"n2": "approve", "n5": "approve"},
            "tools": {
                "email.send": [{"result": "sent", "effects": [{"http": MAIL}]}],
                "fs.write": [write],
            },
            "llm": [{"respond": {"text": "hello"}}],
            "workspace": {},
            "services": {
                "mail": {"type": "http_mock", "routes": [{"method": "POST", "path": "/m"}]},
                "db": {"type": "sqlite", "init": "CREATE TABLE t (a)"},
            },
            **environment,
        },
        "invariants": {
            name: {"description": "of the tests", "check": check} for name, check in CHECKS.items()
        },
    }


def outcomes(ran: Ran) -> dict[str, str]:
    rows = ran.predicate["cases"][0]["replicas"][0]["findings"]
    return {
        row["id"]: " ".join([row["outcome"], *row["causes"]]) for row in rows if row["id"] in CHECKS
    }


def leaning(ran: Ran) -> dict[str, str | None]:
    rows = ran.predicate["cases"][0]["replicas"][0]["findings"]
    return {row["id"]: row["leaning"] for row in rows if row["id"] in CHECKS}


ENDED = {
    "none-sent": "fail",
    "few-sent": "fail",
    "one-sent": "pass",
    "many-sent": "fail",
    "to-nobody": "fail",
    "saved": "pass",
    "unsaved": "fail",
    "asked": "pass",
    "kept": "pass",
}


def test_a_run_that_ended_is_judged_as_it_is(session: Session) -> None:
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": scenario()})
    assert outcomes(ran) == ENDED
    assert set(leaning(ran).values()) == {None}


@pytest.mark.parametrize(
    ("environment", "cause"),
    [
        # The script of the model is empty, and it has no other answer.
        ({"llm": [{"match": {"contains": "never"}, "respond": {"text": "x"}}]}, "missing_evidence"),
        # Nobody decides, and the case does not say that it ends so.
        ({"approvals": {"n2": "approve"}}, "unfinished_run"),
    ],
)
def test_a_run_that_was_stopped_leaves_open_what_could_still_have_come(
    session: Session, environment: dict[str, Any], cause: str
) -> None:
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": scenario(**environment)})
    assert ran.code == 1
    # A request that was received cannot be taken back; all else may have come, or been put right.
    final = {"none-sent": "fail", "few-sent": "fail"}
    still = dict.fromkeys(CHECKS, f"indeterminate {cause}")
    assert outcomes(ran) == {**still, **final}
    seen = {**ENDED, "saved": "fail", "unsaved": "pass", "asked": "fail"}
    assert leaning(ran) == {**seen, "none-sent": None, "few-sent": None}
    assert "the run did not come to an end" in ran.text
    assert "as it is, the outcome would be fail" in ran.text


def test_a_declared_pause_is_an_end(session: Session) -> None:
    made = scenario(approvals={"n2": "approve"})
    made["expect"] = {"status": "paused"}
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": made})
    assert outcomes(ran) == {**ENDED, "saved": "fail", "unsaved": "pass", "asked": "fail"}


def test_a_service_that_never_starts_is_nobody_s_failure(session: Session) -> None:
    made = scenario()
    made["environment"]["services"]["db"]["init"] = "CREATE TABLE t (;"
    tools = made["environment"]["tools"]
    tools["email.send"][0]["effects"].insert(
        0, {"sql": {"service": "db", "statement": "DELETE FROM t"}}
    )
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": made})  # fmt: skip
    assert ran.code == 1
    assert ran.predicate["verdict"]["invalid"] == 0
    assert ran.predicate["verdict"]["indeterminate"] == 1
    assert outcomes(ran)["one-sent"] == "indeterminate evaluator_error"
    assert outcomes(ran)["kept"] == UNSCRIPTED


def test_a_route_that_was_missed_stays_missed(session: Session) -> None:
    made = scenario(llm=[{"match": {"contains": "never"}, "respond": {"text": "x"}}])
    made["environment"]["services"]["mail"]["routes"][0]["path"] = "/other"
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": made})
    assert outcomes(ran)["to-nobody"] == "fail"
    assert outcomes(ran)["many-sent"] == UNSCRIPTED

"""A diagnostic case: an observation that acts on nothing, reproduces, and is never valid."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.bundle.envelope import envelope_bytes
from pytest_evarness.bundle.key import make_key
from pytest_evarness.bundle.verify import Options, Report, verify_bundle
from pytest_evarness.core.registry import packaged_registry
from tests.plugin.scenarios import HELD, OPEN, STEP, echo, graph

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

CASE = "scenarios/s.yaml::default"
PAGE = (Path(__file__).parents[2] / "docs" / "diagnostic.md").read_text(encoding="utf-8")
DIAGNOSE = "--evarness-diagnose"
PATH = "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent))\n"


def sending(decision: str = "reject", **more: Any) -> dict[str, Any]:
    """A send behind a gate, whose tool would mail, book and write."""
    effects = [
        {"http": {"service": "mail", "method": "POST", "path": "/m", "body": {"text": "{query}"}}},
        {"sql": {"service": "db", "statement": "INSERT INTO t VALUES (1)"}},
        {"file": {"path": "sent.txt", "write": "{query}"}},
        {"message": {"to": "ann", "body": "{query}"}},
    ]
    return {
        "evarness": 1,
        "id": "s",
        "mode": "diagnostic",
        "subject": {
            "graph": graph(
                ("n1", "input", {}),
                ("n2", "approval_gate", {"prompt": "Send?"}),
                ("n3", "tool", {"tool": "email.send", "approve_side_effects": True}),
                ("n4", "output", {}),
            )
        },
        "environment": {
            "approvals": {"n2": decision},
            "workspace": {"files": {"kept.txt": "kept"}},
            "services": {
                "mail": {"type": "http_mock", "default_response": 202},
                "db": {"type": "sqlite", "init": "CREATE TABLE t (x INTEGER)"},
            },
            "tools": {"email.send": [{"result": "sent", "effects": effects}]},
            **more.pop("environment", {}),
        },
        "expect": {"status": "blocked" if decision == "reject" else "completed"},
        **more,
    }


def run(session: Session, scenario: Any, *words: str, **more: Any) -> Ran:
    return session("--evarness-unsigned", *words, files={"scenarios/s.yaml": scenario}, **more)


def case_of(ran: Ran) -> dict[str, Any]:
    (case,) = ran.predicate["cases"]
    return case  # type: ignore[no-any-return]


def events_of(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(text) for text in case_of(ran)["replicas"][0]["events"]]


def signed(statement: Any, root: Path, **options: Any) -> Report:
    """What a verifier says of it, signed by the holder of a key that is pinned."""
    for path in root.glob("again.pem*"):
        path.unlink()
    key = make_key(root / "again.pem")
    unproven = statement["predicate"]["not_proven"]
    unsigned = "unsigned: nobody vouches for this bundle"
    if unsigned in unproven:
        unproven.remove(unsigned)
    data = envelope_bytes(canonical_bytes(statement), key)
    used = Options(keys=(key.public,), **options)
    return verify_bundle(data, options=used, registry=packaged_registry())


# -- what happens -------------------------------------------------------------------------------


def test_an_observed_run_is_invalid_acts_on_nothing_and_reproduces(session: Session) -> None:
    ran = run(session, sending(), DIAGNOSE, mirror=True)
    assert (ran.code, ran.holds) == (1, False), ran.text
    found = ran.findings(CASE)
    assert (found["reproduces"], found["expect"]) == ("pass", "fail")
    assert (case_of(ran)["verdict"], case_of(ran)["primary"]) == ("invalid", "expect")
    assert "the run was blocked and went on for observation, which is never valid" in ran.text
    events = events_of(ran)
    kinds = [event["type"] for event in events]
    assert kinds.count("effect_refused") == 4
    assert not {"effect_applied", "http_request", "db_write", "file_write"} & set(kinds)
    block = kinds.index("policy_violation")
    assert all(("tainted" in event["payload"]) is (event["seq"] > block) for event in events)
    world = json.loads(case_of(ran)["replicas"][0]["world"])
    assert world["ledger"] == []
    assert world["workspace"]["added"] == []


def test_what_ended_an_observed_run_is_its_first_block(session: Session) -> None:
    nodes = [
        ("n1", "input", {}),
        ("n2", "approval_gate", {"prompt": "Send?"}),
        ("n3", "tool", {"tool": "email.send", "approve_side_effects": True}),
        ("n4", "python", {"callable": "diagnosed_steps:steady"}),
        ("n5", "output", {}),
    ]
    scenario = sending(expect={"status": "completed"})
    scenario["subject"]["graph"] = graph(*nodes)  # type: ignore[arg-type]
    files = {"conftest.py": PATH, "diagnosed_steps.py": STEP, "scenarios/s.yaml": scenario}
    ran = session("--evarness-unsigned", DIAGNOSE, files=files)
    reasons = [e["payload"]["reason"] for e in events_of(ran) if e["type"] == "policy_violation"]
    assert len(reasons) == 2
    (expect,) = [one for one in case_of(ran)["replicas"][0]["findings"] if one["id"] == "expect"]
    assert expect["reason"] == f"the run ended blocked, not completed: {reasons[0]}"
    assert reasons[1] not in expect["reason"]


def test_the_world_is_the_one_that_the_block_left(session: Session) -> None:
    observed = case_of(run(session, sending(), DIAGNOSE))["replicas"][0]
    stopped = case_of(run(session, sending()))["replicas"][0]
    assert observed["world"] == stopped["world"]
    assert len(observed["events"]) > len(stopped["events"])
    assert observed["events"][: len(stopped["events"]) - 1] == stopped["events"][:-1]
    acted = case_of(run(session, sending("approve"), DIAGNOSE))["replicas"][0]
    assert acted["world"] != stopped["world"]


def test_without_the_option_it_runs_like_exploratory_and_is_not_valid(session: Session) -> None:
    ran = run(session, sending())
    assert (ran.code, ran.holds) == (0, None), ran.text
    assert case_of(ran)["verdict"] == "indeterminate"
    assert ran.findings(CASE)["expect"] == "indeterminate"
    assert "a diagnostic case is an observation and never valid" in ran.text
    assert not any("tainted" in event["payload"] for event in events_of(ran))
    ran = run(session, sending(mode="exploratory"))
    assert (ran.code, ran.holds, case_of(ran)["verdict"]) == (0, True, "valid")


def test_a_run_that_nobody_blocks_is_not_valid_either(session: Session) -> None:
    scenario = sending("approve")
    ran = run(session, scenario, DIAGNOSE)
    assert (ran.code, ran.holds, case_of(ran)["verdict"]) == (0, None, "indeterminate")
    assert any("is diagnostic" in text for text in ran.predicate["not_proven"])
    ran = run(session, {**scenario, "mode": "release"})
    assert (ran.code, ran.holds, case_of(ran)["verdict"]) == (0, True, "valid")


def test_both_keys_are_needed(session: Session) -> None:
    plain = run(session, sending(mode="release"))
    digest = plain.digests()[CASE]
    assert run(session, sending()).digests()[CASE] == digest
    assert run(session, sending(), DIAGNOSE).digests()[CASE] != digest
    refused = run(session, sending(mode="release"), DIAGNOSE)
    assert refused.code == 4
    assert "--evarness-diagnose: no collected case is of this mode" in refused.text
    both = run(session, sending(mode="release"), DIAGNOSE, "--evarness-mode=diagnostic")
    assert case_of(both)["verdict"] == "invalid"


def test_the_ini_twin_is_a_standing_permission(session: Session) -> None:
    ini = "[pytest]\nevarness_diagnose = true\n"
    files = {"pytest.ini": ini, "scenarios/s.yaml": sending()}
    assert case_of(session("--evarness-unsigned", files=files))["verdict"] == "invalid"
    files["scenarios/s.yaml"] = echo()
    assert session("--evarness-unsigned", files=files).code == 0


def test_an_indeterminate_gate_shows_as_in_exploratory(session: Session) -> None:
    gates = {"open": {**OPEN, "gate": True}, "held": {**HELD, "gate": True}}
    ran = run(session, echo(mode="diagnostic", invariants=gates), DIAGNOSE)
    assert (ran.code, ran.holds) == (0, None), ran.text
    assert ran.counts["indeterminate"] == 2
    assert run(session, echo(invariants=gates)).code == 1


def test_a_violation_of_a_diagnostic_case_fails_the_session(session: Session) -> None:
    gates = {"held": {**HELD, "gate": True}}
    assert run(session, sending(invariants=gates)).code == 1
    assert run(session, sending(mode="exploratory", invariants=gates)).code == 1


def test_graders_are_asked_about_an_observation(session: Session) -> None:
    tone = {
        "description": "it is polite",
        "check": {
            "type": "llm_as_judge",
            "criteria": "Is it polite?",
            "input_from": "agent_output",
        },
    }
    judge = [{"respond": {"text": '{"score": 0.9, "critique": "very"}'}}]
    scenario = sending(
        environment={"judge": judge}, invariants={"tone": tone}, scoring={"pass_threshold": 0.5}
    )
    ran = run(session, scenario, DIAGNOSE)
    assert ran.findings(CASE)["tone"] == "pass"
    assert case_of(ran)["verdict"] == "invalid"
    assert case_of(ran)["composite"]["low"] == "0"
    assert "what the run did well despite being invalid" in ran.text
    scenario["mode"] = "release"
    scenario["expect"] = {"status": "completed"}
    ran = run(session, scenario)
    assert ran.findings(CASE)["tone"] == "indeterminate"


def test_nothing_that_was_only_observed_counts_as_exercised(session: Session) -> None:
    def unexercised(ran: Ran) -> list[str]:
        (found,) = [text for text in ran.predicate["not_proven"] if text.startswith("nodes of")]
        return str(found).partition(": ")[2].split(", ")

    assert unexercised(run(session, sending(), DIAGNOSE)) == unexercised(run(session, sending()))


# -- the bundle -----------------------------------------------------------------------------------


def test_the_permission_is_sealed_and_a_rerun_reproduces_the_observation(session: Session) -> None:
    ran = run(session, sending(), DIAGNOSE)
    seal = ran.predicate["seal"]
    assert (seal["settings"]["diagnose"], seal["plan"][0]["mode"]) == (True, "diagnostic")
    assert json.loads(case_of(ran)["inputs"]["compiled"])["diagnose"] is True
    report = signed(ran.statement, ran.root, rerun=True)
    assert report.result == "fails", report.steps
    assert [step.outcome for step in report.steps] == ["pass"] * len(report.steps)
    plain = run(session, sending())
    assert plain.predicate["seal"]["settings"]["diagnose"] is False
    assert "diagnose" not in json.loads(case_of(plain)["inputs"]["compiled"])
    assert signed(plain.statement, plain.root, rerun=True).result == "pending"


def resealed(statement: Any) -> Any:
    """Every digest and binding made new, as a forger with the key would."""
    from pytest_evarness.bundle.canonical import canonical_digest
    from pytest_evarness.bundle.seal import binding_of
    from pytest_evarness.bundle.statement import subjects_of
    from pytest_evarness.core import c1

    predicate = statement["predicate"]
    seal = predicate["seal"]
    for case, planned in zip(predicate["cases"], seal["plan"], strict=True):
        planned["digest"] = c1.sha256_text(case["inputs"]["compiled"])
    seal["digest"] = canonical_digest({k: v for k, v in seal.items() if k != "digest"})
    statement["subject"] = subjects_of(seal)
    for case in predicate["cases"]:
        (replica,) = case["replicas"]
        for one in replica["runs"]:
            one["events"] = len(replica["events"])
            one["trace_digest"], one["chain_digest"] = c1.digests(replica["events"])
            one["binding"] = binding_of(
                seal["digest"], case["nodeid"], 0, one["label"], one["chain_digest"]
            )
    return statement


def forged(ran: Ran, change: Any) -> str:
    """Why a verifier refuses the bundle after ``change(case, seal, events)``."""
    made = copy.deepcopy(ran.statement)
    (case,) = made["predicate"]["cases"]
    (replica,) = case["replicas"]
    events = [json.loads(text) for text in replica["events"]]
    change(case, made["predicate"]["seal"], events)
    from pytest_evarness.core import c1

    replica["events"] = [c1.text(event) for event in events]
    report = signed(resealed(made), ran.root)
    assert report.result == "not_genuine", report.steps
    return next(step.detail for step in report.steps if step.outcome == "fail")


def test_the_forger_of_these_tests_changes_nothing_by_itself(session: Session) -> None:
    ran = run(session, sending(), DIAGNOSE)
    assert signed(resealed(copy.deepcopy(ran.statement)), ran.root).result == "fails"


def test_a_verifier_knows_what_an_observation_looks_like(session: Session) -> None:
    ran = run(session, sending(), DIAGNOSE)
    block = [event["type"] for event in events_of(ran)].index("policy_violation")

    def unmark(case: Any, seal: Any, events: Any) -> None:
        del events[block + 2]["payload"]["tainted"]

    assert "is not tainted, and lies behind a block" in forged(ran, unmark)

    def mark(case: Any, seal: Any, events: Any) -> None:
        events[block - 1]["payload"]["tainted"] = True

    assert "is tainted, and no block that was observed lies before it" in forged(ran, mark)

    def reason(case: Any, seal: Any, events: Any) -> None:
        events[-1]["payload"]["reason"] = "nothing much"

    assert "run_failed.reason" in forged(ran, reason)

    def completed(case: Any, seal: Any, events: Any) -> None:
        case["replicas"][0]["status"] = "completed"
        for one in case["replicas"][0]["runs"]:
            one["status"] = "completed"

    assert "an observed run ends blocked" in forged(ran, completed)

    def unplanned(case: Any, seal: Any, events: Any) -> None:
        seal["settings"]["diagnose"] = False

    assert "compiled.diagnose" in forged(ran, unplanned)

    def released(case: Any, seal: Any, events: Any) -> None:
        case["mode"] = seal["plan"][0]["mode"] = "release"

    assert "compiled.diagnose" in forged(ran, released)


def test_no_other_run_may_be_tainted(session: Session) -> None:
    ran = run(session, sending())

    def mark(case: Any, seal: Any, events: Any) -> None:
        events[-1]["payload"]["tainted"] = True

    assert "is tainted, and the run was no observed one" in forged(ran, mark)


def test_a_diagnostic_case_cannot_be_passed_off_as_valid(session: Session) -> None:
    ran = run(session, sending("approve"))

    def valid(case: Any, seal: Any, events: Any) -> None:
        (replica,) = case["replicas"]
        case["verdict"] = replica["verdict"] = "valid"
        (expect,) = [one for one in replica["findings"] if one["id"] == "expect"]
        expect.update(outcome="pass", score="1", causes=[])

    assert "judged again" in forged(ran, valid)


@pytest.mark.parametrize("words", [[], [DIAGNOSE]])
def test_workers_say_the_same(session: Session, words: list[str]) -> None:
    one = run(session, sending(), *words)
    two = run(session, sending(), *words, "-n", "1", subprocess=True)
    assert one.digests() == two.digests()
    assert one.findings(CASE) == two.findings(CASE)


# -- the page --------------------------------------------------------------------------------------


def test_the_example_of_the_page_shows_what_it_says(session: Session) -> None:
    (scenario,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    ran = run(session, scenario, DIAGNOSE)
    assert case_of(ran)["verdict"] == "invalid"
    assert ran.findings(CASE)["no-send-after-rejection"] == "fail"
    (finding,) = [
        one
        for one in case_of(ran)["replicas"][0]["findings"]
        if one["id"] == "no-send-after-rejection"
    ]
    events = events_of(ran)
    assert events[finding["decisive_seq"]]["payload"]["tainted"] is True
    plain = run(session, scenario)
    assert plain.code == 0
    assert plain.findings(CASE)["no-send-after-rejection"] == "pass"


def test_a_contract_may_ask_for_the_mark(session: Session) -> None:
    check = {
        "type": "trace",
        "assert": {"never": {"type": "tool_called", "where": {"tainted": True}}},
    }
    unseen = {"description": "nothing was called", "gate": True, "check": check}
    scenario = sending(invariants={"unseen": unseen})
    assert run(session, scenario, DIAGNOSE).findings(CASE)["unseen"] == "fail"
    assert run(session, scenario).findings(CASE)["unseen"] == "pass"

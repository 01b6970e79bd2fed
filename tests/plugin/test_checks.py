"""Checks and forbidden rules in a session: from the file to terminal, bundle and verifier."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.bundle.envelope import envelope_bytes
from pytest_evarness.bundle.key import make_key
from pytest_evarness.bundle.verify import Options, Report, verify_bundle
from pytest_evarness.core import c1
from pytest_evarness.core.registry import packaged_registry
from tests.plugin.scenarios import graph

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

CASE = "scenarios/s.yaml::default"
GRAPH = graph(
    ("n1", "input", {}),
    ("n3", "approval_gate", {"prompt": "Send it?"}),
    ("n4", "tool", {"tool": "email.send", "approve_side_effects": True}),
    ("n7", "output", {}),
)
MAIL = {"service": "mail", "method": "POST", "path": "/api/messages", "body": {"text": "{query}"}}


def check(kind: str, more: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"description": f"a {kind}", **(more or {}), "check": {"type": kind, **fields}}


def sending(*effects: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A mail is sent and a line is written, as long as nobody says otherwise."""
    wanted = effects or ({"http": MAIL}, {"file": {"path": "out/log.txt", "write": "sent"}})
    answer = {"match": {"query_contains": "q3"}, "result": [{"id": "m-1", "subject": "Delivered"}]}
    return {
        "evarness": 1,
        "id": "sending",
        "subject": {"graph": GRAPH},
        "environment": {
            "user_input": "send the q3 report",
            "approvals": {"n3": "approve"},
            "tools": {"email.send": [{**answer, "effects": list(wanted)}]},
            "workspace": {"files": {"in.txt": "hello"}},
            "services": {
                "mail": {
                    "type": "http_mock",
                    "routes": [{"method": "POST", "path": "/api/messages", "status": 202}],
                }
            },
        },
        "invariants": {
            "logged": check("file_content", {"gate": True}, path="out/log.txt", equals="sent"),
            "listed": check("command_exit", command="test -f out/log.txt"),
            "told": check("account", claims={"contains": "Delivered"}, needs=["logged"]),
        },
        "forbidden": {"http_except": ["mail"], "file_writes_outside": ["out"]},
        **more,
    }


def run(session: Session, scenario: dict[str, Any], *words: str, **more: Any) -> Ran:
    return session(*words, files={"scenarios/s.yaml": scenario, **more.pop("files", {})}, **more)


def test_checks_and_rules_are_items_of_their_case_and_hold(session: Session) -> None:
    ran = run(session, sending(), "-v", "--evarness-unsigned")
    assert ran.code == 0, ran.text
    assert ran.counts == {"passed": 8}
    assert list(ran.findings(CASE)) == [
        "reproduces",
        "expect",
        "forbidden-http-except",
        "forbidden-file-writes-outside",
        "forbidden-unmatched-requests",
        "logged",
        "listed",
        "told",
    ]
    assert ran.holds is True


def test_run_b_has_a_world_of_its_own_in_the_mirror(session: Session) -> None:
    ran = run(session, sending(), "--evarness-unsigned", mirror=True)
    assert (ran.code, ran.holds) == (0, True), ran.text


def test_what_breaks_a_rule_is_shown_with_the_world_that_shows_it(session: Session) -> None:
    stray = {"file": {"path": "outside.txt", "write": "x"}}
    ran = run(session, sending({"http": MAIL}, stray), "--evarness-unsigned")
    assert ran.code == 1
    found = ran.findings(CASE)
    assert [name for name, outcome in found.items() if outcome == "fail"] == [
        "forbidden-file-writes-outside", "logged", "listed", "told",
    ]  # fmt: skip
    assert "'outside.txt' was written" in ran.text
    assert "world:     outside.txt: added, file, 1 bytes" in ran.text
    assert "expected:  writes below these paths alone: out" in ran.text


def test_a_request_without_a_route_fails_the_case(session: Session) -> None:
    lost = {"http": {**MAIL, "path": "/api/other"}}
    scenario = sending(lost, invariants={})
    ran = run(session, scenario, "--evarness-unsigned")
    assert ran.findings(CASE)["forbidden-unmatched-requests"] == "fail"
    services = scenario["environment"]["services"]
    services["mail"]["allow_unmatched"] = True
    ran = run(session, scenario, "--evarness-unsigned")
    assert "forbidden-unmatched-requests" not in ran.findings(CASE)


def test_gates_are_selected_by_their_mark_and_located_by_their_line(session: Session) -> None:
    ran = run(session, sending(), "-m", "gate", "-v", "--evarness-unsigned")
    assert ran.counts["passed"] == 6
    assert ran.counts["deselected"] == 2
    assert ran.holds is None


@pytest.mark.parametrize("name", ["logged", "forbidden-http-except"])
def test_one_item_can_be_named_alone(session: Session, name: str) -> None:
    ran = run(session, sending(), f"{CASE}::{name}", "--evarness-unsigned")
    assert ran.counts == {"passed": 1}


def test_a_weighted_check_that_fails_is_missed_and_the_score_decides(session: Session) -> None:
    weighted = check("file_exists", {"weight": 0.2}, path="nowhere.txt")
    held = check("file_exists", {"weight": 0.8}, path="out/log.txt")
    scenario = sending(
        invariants={"weak": weighted, "strong": held}, scoring={"pass_threshold": 0.8}
    )
    ran = run(session, scenario, "--evarness-unsigned")
    assert (ran.code, ran.counts["missed"]) == (0, 1), ran.text
    scenario["scoring"]["pass_threshold"] = 0.85
    assert run(session, scenario, "--evarness-unsigned").code == 1


# -- the bundle ---------------------------------------------------------------------------------


def signed(statement: dict[str, Any], root: Path) -> Report:
    """Verify what the key's own holder signs anew."""
    path = root / "again.pem"
    key = make_key(path) if not path.exists() else None
    if key is None:
        path.unlink()
        path.with_name("again.pem.pub").unlink()
        key = make_key(path)
    data = envelope_bytes(canonical_bytes(statement), key)
    return verify_bundle(data, options=Options(keys=(key.public,)), registry=packaged_registry())


def replica(statement: dict[str, Any]) -> dict[str, Any]:
    return statement["predicate"]["cases"][0]["replicas"][0]  # type: ignore[no-any-return]


def row(statement: dict[str, Any], item: str) -> dict[str, Any]:
    (found,) = [one for one in replica(statement)["evidence"] if one["item"] == item]
    return found  # type: ignore[no-any-return]


def rewritten(statement: dict[str, Any], item: str, text: str) -> dict[str, Any]:
    made = copy.deepcopy(statement)
    changed = row(made, item)
    changed["text"], changed["digest"] = text, c1.sha256_text(text)
    return made


@pytest.fixture
def bundle(session: Session) -> tuple[dict[str, Any], Path]:
    ran = run(session, sending())
    assert ran.code == 0, ran.text
    return ran.statement, ran.root


def test_a_verifier_judges_checks_and_rules_again(bundle: tuple[dict[str, Any], Path]) -> None:
    statement, root = bundle
    report = signed(statement, root)
    assert report.result == "holds", report.steps
    findings = next(step for step in report.steps if step.step == "findings")
    assert findings.detail == "8 of 8 findings judged again, every verdict computed again"
    assert [row["item"] for row in replica(statement)["evidence"]] == ["logged", "listed", "told"]


def test_what_a_process_said_is_on_the_signers_word_and_a_file_is_not(
    bundle: tuple[dict[str, Any], Path],
) -> None:
    statement, root = bundle
    word = [text for text in signed(statement, root).taken_on_word if text.startswith(CASE)]
    assert word == [f"{CASE}::listed: what it gathered: a process was asked"]


def test_evidence_that_the_sealed_world_cannot_have_given_is_refused(
    bundle: tuple[dict[str, Any], Path],
) -> None:
    statement, root = bundle
    text = row(statement, "logged")["text"]
    assert "sent" in text
    report = signed(rewritten(statement, "logged", text.replace("sent", "lost")), root)
    assert report.result == "not_genuine"
    detail = next(step.detail for step in report.steps if step.outcome == "fail")
    assert "evidence[logged]" in detail


def test_evidence_of_a_process_that_decides_otherwise_is_refused(
    bundle: tuple[dict[str, Any], Path],
) -> None:
    statement, root = bundle
    record = json.loads(row(statement, "listed")["text"])
    undecided = {"causes": ["missing_evidence"], "reason": "x", "notes": []}
    others: tuple[Any, ...] = (
        {"undecided": undecided},
        {"gathered": {}},
        {"gathered": [1]},
        {},
        [record],
    )
    for other in others:
        report = signed(rewritten(statement, "listed", c1.text(other)), root)
        assert report.result == "not_genuine", other


@pytest.mark.parametrize("change", ["drop", "double", "swap", "rename", "open"])
def test_there_is_one_row_for_each_check_in_their_order(
    bundle: tuple[dict[str, Any], Path], change: str
) -> None:
    statement, root = bundle
    made = copy.deepcopy(statement)
    rows = replica(made)["evidence"]
    if change == "drop":
        rows.pop()
    elif change == "double":
        rows.append(copy.deepcopy(rows[-1]))
    elif change == "swap":
        rows.reverse()
    elif change == "rename":
        rows[0]["item"] = "expect"
    else:
        rows[0]["state"] = "masked"
    assert signed(made, root).result == "not_genuine"


def test_a_world_that_breaks_a_rule_is_refused_though_it_has_its_digest(
    bundle: tuple[dict[str, Any], Path],
) -> None:
    statement, root = bundle
    made = copy.deepcopy(statement)
    world = json.loads(replica(made)["world"])
    file = next(one for one in world["workspace"]["files"] if one["path"] == "in.txt")
    file["sha256"] = c1.sha256_text("another text")
    world["workspace"]["modified"].append("in.txt")
    text = c1.text(world)
    replica(made)["world"] = text
    for one in replica(made)["runs"]:
        one["world_digest"] = c1.sha256_text(text)
    report = signed(made, root)
    assert report.result == "not_genuine"
    detail = next(step.detail for step in report.steps if step.outcome == "fail")
    assert "forbidden-file-writes-outside" in detail


READS_A_SECRET = """
import os

from pytest_evarness.checks.found import found
from pytest_evarness.checks.kind import CheckKind
from pytest_evarness.core.outcome import Outcome


class Env(CheckKind):
    name = "env"
    schema = {"type": "object", "properties": {"type": {"const": "env"}}}

    def parse(self, value, known):
        return dict(value), []

    def gather(self, definition, scene):
        return {"met": os.environ["TOKEN"]}

    def judge(self, item, gathered, facts):
        return found(item, Outcome.FAIL, f"met {gathered['met']}")


def pytest_evarness_register(registry):
    registry.check_types.register("env", Env())
"""


def test_a_secret_never_enters_the_bundle_and_its_finding_is_the_signers_word(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter22")
    leak = check("command_exit", command="printf %s hunt; echo er22; exit 1")
    scenario = sending(invariants={"leak": leak, "kept": check("env")}, secrets=["TOKEN"])
    ran = run(session, scenario, files={"conftest.py": READS_A_SECRET})
    assert ran.findings(CASE)["leak"] == ran.findings(CASE)["kept"] == "fail"
    assert "hunter22" not in json.dumps(ran.statement)
    assert "hunter22" not in ran.text
    found = row(ran.statement, "kept")
    assert (found["state"], found["text"]) == ("masked", "")
    assert signed(ran.statement, ran.root).result == "fails"


def test_evidence_that_is_too_large_stays_out(session: Session) -> None:
    large = check("file_content", path="big.txt", contains="end")
    scenario = sending(invariants={"large": large})
    scenario["environment"]["workspace"]["files"]["big.txt"] = "x" * 300_000 + "end"
    ran = run(session, scenario)
    assert ran.code == 0, ran.text
    found = row(ran.statement, "large")
    state = found["state"]
    assert state in ("too_large", "enclosed")
    assert (found["text"] == "") == (state == "too_large")
    assert signed(ran.statement, ran.root).result == "holds"


# -- what is said beside it -----------------------------------------------------------------------


def test_a_service_that_nothing_reached_is_not_proven(session: Session) -> None:
    scenario = sending()
    scenario["environment"]["services"]["idle"] = {"type": "http_mock"}
    scenario["environment"]["services"]["db"] = {"type": "sqlite", "init": "CREATE TABLE t(a)"}
    scenario["forbidden"]["db_writes_outside"] = []
    ran = run(session, scenario)
    assert ran.code == 0, ran.text
    said = [text for text in ran.predicate["not_proven"] if "reached" in text]
    assert said == ["services of scenarios/s.yaml that no request or effect reached: db, idle"]
    assert signed(ran.statement, ran.root).result == "holds"


def test_what_an_invalid_case_did_to_its_world_is_explained(session: Session) -> None:
    from pytest_evarness.report.explain import explain

    insert = {"sql": {"service": "db", "statement": "INSERT INTO t VALUES (1)"}}
    scenario = sending({"http": MAIL}, {"file": {"path": "outside.txt", "write": "x"}}, insert)
    scenario["environment"]["services"]["db"] = {"type": "sqlite", "init": "CREATE TABLE t(a)"}
    ran = run(session, scenario)
    text = explain(ran.statement)
    impact = text.partition("\nimpact\n")[2].partition("\nevidence\n")[0]
    assert "ledger 0: " in impact
    assert "workspace: 'outside.txt' was added" in impact
    assert "service mail: 1 request" in impact
    assert "service db: table t: 0 rows, then 1 row" in impact
    assert "world: outside.txt: added, file, 1 bytes" in text


def rerun(statement: dict[str, Any], root: Path, **options: Any) -> tuple[Report, str]:
    key = make_key(root / "rerun.pem")
    data = envelope_bytes(canonical_bytes(statement), key)
    options_used = Options(keys=(key.public,), rerun=True, **options)
    report = verify_bundle(data, options=options_used, registry=packaged_registry())
    return report, next(step.detail for step in report.steps if step.step == "rerun")


def test_a_world_of_this_process_is_made_again_by_a_rerun(session: Session) -> None:
    scenario = sending()
    scenario["environment"]["services"]["db"] = {"type": "sqlite", "init": "CREATE TABLE t(a)"}
    ran = run(session, scenario)
    report, detail = rerun(ran.statement, ran.root)
    assert (report.result, detail) == ("holds", "1 cases, run again here, gave the same digests")


def test_a_server_of_somebody_else_is_not_asked_by_a_rerun() -> None:
    from pytest_evarness.bundle.recomputation import _services_elsewhere

    environment = {"services": {"a": {"type": "sqlite"}, "b": {"type": "mysql", "dsn": "x"}}}
    assert _services_elsewhere(environment) == "b: mysql"
    assert _services_elsewhere({"services": {"a": {"type": "http_mock"}}}) == ""
    assert _services_elsewhere({}) == ""


def test_reports_name_checks_and_rules_with_their_properties(session: Session) -> None:
    from xml.etree import ElementTree as ET

    stray = {"file": {"path": "outside.txt", "write": "x"}}
    words = ("--evarness-unsigned", "--evarness-junit=ours.xml", "--junitxml=theirs.xml")
    ran = run(session, sending({"http": MAIL}, stray), *words)
    for name in ("ours.xml", "theirs.xml"):
        cases = ET.parse(ran.root / name).iter("testcase")
        by_name = {str(case.get("name")): case for case in cases}
        (rule,) = [case for key, case in by_name.items() if "file-writes-outside" in key]
        assert rule.find("failure") is not None
        properties = {one.get("name"): one.get("value") for one in rule.iter("property")}
        assert properties["evarness.gate"] == "true"
        assert properties["evarness.outcome"] == "fail"


def test_workers_of_a_session_bring_back_what_their_checks_gathered(session: Session) -> None:
    files = {f"scenarios/s{n}.yaml": sending() for n in range(3)}
    ran = session("-n", "2", files=files, subprocess=True)
    assert (ran.code, ran.holds) == (0, True), ran.text
    rows = [
        [row["item"] for row in case["replicas"][0]["evidence"]] for case in ran.predicate["cases"]
    ]
    assert rows == [["logged", "listed", "told"]] * 3
    assert signed(ran.statement, ran.root).result == "holds"


# -- a check type of a project's own ------------------------------------------------------------

CONFTEST = """
from pytest_evarness.checks.found import found
from pytest_evarness.checks.kind import CheckKind
from pytest_evarness.core.outcome import Outcome


class Even(CheckKind):
    name = "even"
    schema = {
        "type": "object",
        "properties": {"type": {"const": "even"}, "n": {"type": "integer"}},
        "required": ["type", "n"],
        "additionalProperties": False,
    }

    def parse(self, value, known):
        return dict(value), []

    def gather(self, definition, scene):
        return {"rest": definition["n"] % 2}

    def judge(self, item, gathered, facts):
        outcome = Outcome.FAIL if gathered["rest"] else Outcome.PASS
        return found(item, outcome, f"the rest is {gathered['rest']}")


def pytest_evarness_register(registry):
    registry.check_types.register("even", Even())
"""


def test_a_project_adds_a_type_of_its_own_and_a_verifier_says_that_it_has_not_got_it(
    session: Session,
) -> None:
    scenario = sending(invariants={"two": check("even", n=2), "three": check("even", n=3)})
    ran = run(session, scenario, files={"conftest.py": CONFTEST})
    found = ran.findings(CASE)
    assert (found["two"], found["three"]) == ("pass", "fail"), ran.text
    report = signed(ran.statement, ran.root)
    assert report.result == "fails", report.steps
    word = [text for text in report.taken_on_word if text.startswith(CASE)]
    assert word == [f"{CASE}::{name}: judged with parts of a plug-in" for name in ("two", "three")]


def test_a_type_that_no_plugin_brought_is_no_honest_bundle(session: Session) -> None:
    scenario = sending(invariants={"two": check("even", n=2)})
    ran = run(session, scenario, files={"conftest.py": CONFTEST})
    made = copy.deepcopy(ran.statement)
    seal = made["predicate"]["seal"]
    assert any(row["name"] not in packaged_registry().sources for row in seal["plugins"])
    seal["plugins"] = [row for row in seal["plugins"] if row["name"] == "agents"]
    assert signed(made, ran.root).result == "not_genuine"

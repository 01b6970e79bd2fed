"""Judges in a session: from the file to terminal, cassette, bundle and verifier; and the pages."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.bundle.envelope import envelope_bytes
from pytest_evarness.bundle.key import make_key
from pytest_evarness.bundle.verify import Options, Report, verify_bundle
from pytest_evarness.checks.evidence import Gathered
from pytest_evarness.checks.judge import Judge
from pytest_evarness.checks.judging.endpoint import KEY_VARIABLE
from pytest_evarness.checks.judging.panel import REMARK
from pytest_evarness.core import c1
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.source.document import parse_yaml
from tests.checks import judges as j
from tests.checks.builders import END, REPRODUCES, evidence, expect_item
from tests.checks.fake import FakeScene
from tests.checks.served import says, served
from tests.plugin.scenarios import BROKEN, HELD, echo, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CASE = "scenarios/s.yaml::default"


@pytest.fixture(autouse=True)
def _outside_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", KEY_VARIABLE):
        monkeypatch.delenv(name, raising=False)


def tone(more: dict[str, Any] | None = None, **check: Any) -> dict[str, Any]:
    """An invariant that a judge decides."""
    fields = {"type": "llm_as_judge", "criteria": "Is it polite?", **check}
    return {"description": "it is polite", **(more or {}), "check": fields}


def judging(*answers: str, **more: Any) -> dict[str, Any]:
    rules = [{"respond": {"text": answer}} for answer in answers]
    environment = {"user_input": "Dear all", "judge": rules, **more.pop("environment", {})}
    invariants = more.pop("invariants", {"tone": tone()})
    return echo(environment=environment, invariants=invariants, **more)


def run(session: Session, scenario: Any, *words: str, **more: Any) -> Ran:
    files = {"scenarios/s.yaml": scenario, **more.pop("files", {})}
    unsigned = () if more.pop("signed", False) else ("--evarness-unsigned",)
    return session(*unsigned, *words, files=files, **more)


def found(ran: Ran, item: str = "tone") -> dict[str, Any]:
    findings = ran.predicate["cases"][0]["replicas"][0]["findings"]
    (finding,) = [one for one in findings if one["id"] == item]
    return finding  # type: ignore[no-any-return]


def notes(ran: Ran, item: str = "tone") -> list[str]:
    return json.loads(found(ran, item)["witness"]).get("notes", [])  # type: ignore[no-any-return]


def verified(statement: dict[str, Any], root: Path, **options: Any) -> Report:
    """What a verifier says of it, signed anew by the key's own holder."""
    for path in root.glob("again.pem*"):
        path.unlink()
    key = make_key(root / "again.pem")
    data = envelope_bytes(canonical_bytes(statement), key)
    used = Options(keys=(key.public,), **options)
    return verify_bundle(data, options=used, registry=packaged_registry())


# -- the verdict -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "code", "outcome"),
    [
        ('{"pass": true, "score": 0.8}', 0, "pass"),
        ('{"pass": true, "score": 0}', 1, "fail"),
        ('{"pass": "false", "score": 0.9}', 1, "indeterminate"),
        ("Sure! The answer is good.", 1, "indeterminate"),
    ],
)
def test_an_answer_decides_its_item_and_the_others_are_judged_all_the_same(
    session: Session, answer: str, code: int, outcome: str
) -> None:
    scenario = judging(answer, invariants={"tone": tone(), "held": HELD})
    ran = run(session, scenario)
    assert ran.code == code, ran.text
    assert ran.findings(CASE) == {
        "reproduces": "pass",
        "expect": "pass",
        "tone": outcome,
        "held": "pass",
    }
    # The mode of observation makes an abstention no pass either.
    assert run(session, {**scenario, "mode": "exploratory"}).findings(CASE)["tone"] == outcome


def test_a_score_counts_with_its_weight(session: Session) -> None:
    invariants = {"tone": tone({"weight": 0.5}), "held": {**HELD, "weight": 0.5}}
    scenario = judging('{"score": 0.4}', invariants=invariants, scoring={"pass_threshold": 0.7})
    ran = run(session, scenario)
    assert (ran.code, ran.counts["missed"]) == (0, 1), ran.text
    assert "composite 0.7 reaches the threshold 0.7" in found(ran, "score")["reason"]
    scenario["scoring"]["pass_threshold"] = 0.71
    assert run(session, scenario).code == 1
    # An abstention has an unknown score, so the composite is an interval.
    undecided = judging("?", invariants=invariants, scoring={"pass_threshold": 0.7})
    assert found(run(session, undecided), "score")["outcome"] == "indeterminate"


def test_a_case_that_is_invalid_is_not_graded(session: Session) -> None:
    invariants = {"tone": tone(), "sent": {**BROKEN, "gate": True}}
    scenario = judging('{"score": 1}', invariants=invariants)
    ran = run(session, scenario)
    assert ran.findings(CASE)["tone"] == "indeterminate"
    assert found(ran)["reason"] == "not graded: the case is invalid whatever a judge says"
    (row,) = ran.predicate["cases"][0]["replicas"][0]["evidence"]
    assert "package" not in row["text"]
    # The twin: without the gate it is graded.
    scenario["invariants"]["sent"]["gate"] = False
    assert run(session, scenario).findings(CASE)["tone"] == "pass"


def test_a_judge_is_no_gate(session: Session) -> None:
    ran = run(session, judging('{"score": 1}', invariants={"tone": tone({"gate": True})}))
    assert ran.code == 1
    assert "scenarios/s.yaml:" in ran.text
    assert "gate" in ran.text
    assert "errors" in ran.counts or "error" in ran.counts


def test_what_is_refused_is_told_with_its_line(session: Session) -> None:
    scenario = (
        "evarness: 1\nid: s\nsubject: {graph: 'pattern:single_shot_qa'}\ninvariants:\n"
        "  tone:\n    description: d\n    check:\n      type: llm_as_judge\n"
        "      criteria: c\n      model: paragon-md\n      input_form: x\n"
    )
    ran = run(session, scenario)
    assert (
        "scenarios/s.yaml:10:14: invariants.tone.check.model: the model 'paragon-md' cannot be"
        " asked: there is no hosted judge (known: sim; any other needs base_url)"
    ) in ran.text
    assert "scenarios/s.yaml:11:7: invariants.tone.check: unknown key (got 'input_form'" in ran.text
    assert "try: write 'input_from'" in ran.text


def test_several_judges_that_disagree_are_for_a_person_to_review(session: Session) -> None:
    panel = tone(judges=["sim:a", "sim:b"], max_spread=0.2)
    scenario = judging('{"score": 0.9}', '{"score": 0.3}', invariants={"tone": panel})
    ran = run(session, scenario)
    assert ran.code == 1
    why = "the judges are 0.6 apart, more than max_spread 0.2"
    assert f"indeterminate (contradictory_evidence): {why}" in ran.text
    assert ran.predicate["review_queue"] == [{"case": CASE, "invariant": "tone", "why": why}]
    del panel["check"]["max_spread"]
    ran = run(session, scenario)
    assert (ran.code, ran.predicate["review_queue"]) == (0, [])


def test_rules_are_used_up_over_the_checks_of_a_case_and_leftovers_are_listed(
    session: Session,
) -> None:
    invariants = {"one": tone(), "two": tone()}
    answers = ('{"score": 0.9}', '{"score": 0.1}', '{"score": 0.5}')
    ran = run(session, judging(*answers, invariants=invariants))
    assert (found(ran, "one")["score"], found(ran, "two")["score"]) == ("0.9", "0.1")
    said = [text for text in ran.predicate["not_proven"] if "never used" in text]
    assert said == [f"{CASE}: scripted and never used: judge[2]: 1 response not used"]
    ran = run(session, judging(*answers[:2], invariants=invariants))
    assert not any("never used" in text for text in ran.predicate["not_proven"])


def test_a_timeout_of_judges_is_injected(session: Session) -> None:
    scenario = judging('{"score": 1}', environment={"faults": {"judge_timeout": ["SIM"]}})
    ran = run(session, scenario)
    assert found(ran)["causes"] == ["evaluator_error"]
    assert "injected: the judge did not answer in time" in ran.text


def test_a_matrix_over_models_varies_the_judge_with_them(session: Session) -> None:
    rules = [
        {"match": {"provider": "sim:old"}, "scores": {"score": 0.2}},
        {"match": {"provider": "sim:new"}, "scores": {"score": 0.9}},
    ]
    scenario = judging(environment={"judge": rules}, matrix={"provider": ["sim:old", "sim:new"]})
    ran = run(session, scenario)
    outcomes = {
        case["nodeid"]: [one["outcome"] for one in case["replicas"][0]["findings"]][-1]
        for case in ran.predicate["cases"]
    }
    assert sorted(outcomes.values()) == ["fail", "pass"], ran.text


def test_a_gate_that_is_judged_later_in_the_file_is_known_to_the_remark() -> None:
    definition = j.parsed()
    answer = '{"score": 0.9, "remarks": [{"rule": "told", "acceptable": true, "why": "urgent"}]}'
    scene = FakeScene(environment={"judge": [{"respond": {"text": answer}}]})
    claim: dict[str, Any] = {
        "type": "account",
        "claims": {"contains": "x"},
        "needs": [],
        "must_claim": True,
    }
    items = [
        REPRODUCES,
        expect_item(),
        PlannedItem(id="tone", kind="llm_as_judge", definition=definition),
        PlannedItem(id="told", kind="account", gate=True, definition=claim),
    ]
    seen = evidence("completed", ("run_finished", None, dict(END)), output="done")
    gathered = {"tone": Gathered(j.KIND.gather(definition, scene)), "told": Gathered({})}
    judgement = Judge(packaged_registry()).judge(
        items, replace(seen, gathered=gathered), threshold=None
    )
    by_id = {finding.id: finding for finding in judgement.findings}
    assert (judgement.verdict, by_id["told"].outcome.word) == ("invalid", "fail")
    assert by_id["tone"].witness.notes[0].startswith(f"{REMARK}'told', which failed: judge sim")


# -- the bundle --------------------------------------------------------------------------------


def test_a_verifier_reads_the_answers_again(session: Session) -> None:
    ran = run(session, judging('{"score": 0.8}'), signed=True)
    report = verified(ran.statement, ran.root)
    assert report.result == "holds", report.steps
    word = [text for text in report.taken_on_word if text.startswith(CASE)]
    assert word == [f"{CASE}::tone: what it gathered: a model was asked"]
    (row,) = ran.predicate["cases"][0]["replicas"][0]["evidence"]
    assert (row["item"], row["state"]) == ("tone", "enclosed")
    record = json.loads(row["text"])["gathered"]
    assert record["answers"][0]["text"] == '{"score": 0.8}'
    assert "Dear all" in record["package"]["evidence"]


def test_another_answer_in_a_bundle_does_not_give_its_finding(session: Session) -> None:
    ran = run(session, judging('{"score": 0.8}'), signed=True)
    made = copy.deepcopy(ran.statement)
    (row,) = made["predicate"]["cases"][0]["replicas"][0]["evidence"]
    row["text"] = row["text"].replace("0.8", "0.3")
    row["digest"] = c1.sha256_text(row["text"])
    report = verified(made, ran.root)
    assert report.result == "not_genuine"
    assert "tone" in next(step.detail for step in report.steps if step.outcome == "fail")


def test_a_rerun_asks_no_judge(session: Session) -> None:
    ran = run(session, judging('{"score": 0.8}', '{"score": 0.7}'), signed=True)
    assert any("never used" in text for text in ran.predicate["not_proven"])
    report = verified(ran.statement, ran.root, rerun=True)
    assert report.result == "holds", report.steps


def test_what_the_run_itself_left_over_is_compared_all_the_same(session: Session) -> None:
    scenario = judging('{"score": 0.8}', environment={"llm": [{"respond": {"text": "x"}}]})
    ran = run(session, scenario, signed=True)
    assert verified(ran.statement, ran.root, rerun=True).result == "holds"
    forged = copy.deepcopy(ran.statement)
    replica = forged["predicate"]["cases"][0]["replicas"][0]
    assert replica["leftovers"] == ["llm[0]: 1 response not used"]
    replica["leftovers"] = ["llm[0]: 2 responses not used"]
    unproven = forged["predicate"]["not_proven"]
    unproven[:] = [text.replace("1 response not", "2 responses not") for text in unproven]
    report = verified(forged, ran.root, rerun=True)
    assert report.result == "not_genuine"
    assert "other answers were left over" in next(
        step.detail for step in report.steps if step.outcome == "fail"
    )


def test_two_sessions_say_the_same(session: Session) -> None:
    scenario = judging('{"score": 0.8, "evidence": ["a1", "x"]}')
    texts = [c1.text(found(run(session, scenario))) for _ in range(2)]
    assert texts[0] == texts[1]


def test_a_secret_reaches_neither_judge_nor_bundle(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2-hunter2")
    step = """
import os


def tell(inputs, config, context):
    return {"out": f"the key is {os.environ['TOKEN']}"}
"""
    scenario = judging(
        '{"score": 1, "critique": "fine"}',
        subject={"graph": step_graph("told_step:tell")},
        secrets=["TOKEN"],
    )
    ran = run(session, scenario, files={"told_step.py": step})
    assert ran.findings(CASE)["tone"] == "pass", ran.text
    assert "hunter2-hunter2" not in json.dumps(ran.statement) + ran.text
    (row,) = [
        one for one in ran.predicate["cases"][0]["replicas"][0]["evidence"] if one["item"] == "tone"
    ]
    assert row["state"] == "enclosed"
    evidence = json.loads(row["text"])["gathered"]["package"]["evidence"]
    assert "the key is «secret:TOKEN»" in evidence


# -- endpoints ---------------------------------------------------------------------------------


def test_a_session_records_what_ci_replays(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-very-secret")
    with served(says('{"score": 0.8}')) as endpoint:
        asked = tone(model="m-1", base_url=endpoint.base_url)
        scenario = judging(invariants={"tone": asked})
        first = run(session, scenario)
        assert (first.code, len(endpoint.requests)) == (0, 1), first.text
        monkeypatch.setenv("CI", "true")
        again = run(session, scenario)
        assert (again.code, len(endpoint.requests)) == (0, 1), again.text
        assert found(again) == found(first)
        scenario["environment"]["user_input"] = "Dear everybody"
        stale = run(session, scenario)
        assert len(endpoint.requests) == 1
    assert found(stale)["causes"] == ["stale_evidence"]
    assert "sk-very-secret" not in json.dumps(first.statement) + first.text
    cassette = first.root / "scenarios" / "s.cassette.yaml"
    assert 'case: "default"' in cassette.read_text("utf-8")
    # A cassette is no scenario: three sessions collected one file.
    assert {case["nodeid"] for case in stale.predicate["cases"]} == {CASE}


def test_cases_of_one_scenario_share_its_cassette(session: Session) -> None:
    with served(says('{"score": 0.8}'), says('{"score": 0.9}')) as endpoint:
        scenario = judging(
            invariants={"tone": tone(model="m-1", base_url=endpoint.base_url)},
            cases={"a": {}, "b": {"environment": {"user_input": "Hello all"}}},
        )
        ran = run(session, scenario)
        assert len(endpoint.requests) == 2
    text = (ran.root / "scenarios" / "s.cassette.yaml").read_text("utf-8")
    assert re.findall(r'- case: "(\w)"', text) == ["a", "b"]


# -- a judge of one's own, and the pages -------------------------------------------------------


def fences(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [one.group(2) for one in FENCE.finditer(text) if one.group(1) == language]


@pytest.mark.parametrize("page", ["checks/llm_as_judge.md", "judges.md"])
def test_the_examples_of_a_page_hold(session: Session, page: str) -> None:
    scenarios = [text for text in fences(page, "yaml") if text.startswith("evarness:")]
    assert scenarios
    for scenario in scenarios:
        ran = run(session, scenario)
        assert (ran.code, ran.holds) == (0, True), ran.text


def test_the_figures_of_the_page_about_judges(session: Session) -> None:
    ran = run(session, fences("judges.md", "yaml")[0])
    reason = found(ran, "clear")["reason"]
    assert reason == "the median score 0.675 of 2 judges (spread 0.25) reaches the threshold 0.6"
    text = (DOCS / "judges.md").read_text("utf-8")
    assert "the whole is 0.55 and 0.8, the median 0.675, the spread 0.25" in text


def test_the_page_names_every_field() -> None:
    text = (DOCS / "checks" / "llm_as_judge.md").read_text("utf-8")
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    properties: Any = j.KIND.schema["properties"]
    fields = [field for field in properties if field != "type"]
    assert [field for field in fields if f"`{field}`" not in rows] == []


def test_the_answers_of_the_page_come_out_as_it_says() -> None:
    text = (DOCS / "checks" / "llm_as_judge.md").read_text("utf-8")
    table = text.partition("| answer, threshold 0.5 | finding |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(.*?)` \| (\w+)", table, re.MULTILINE)
    assert len(rows) == 8
    for answer, outcome in rows:
        assert j.answered(answer).outcome.word == outcome, answer


def test_the_endpoint_of_the_page_is_one_that_may_be_named() -> None:
    (text,) = [text for text in fences("judges.md", "yaml") if text.startswith("check:")]
    check = dict(parse_yaml(text).value["check"])
    assert j.parsed(**{key: value for key, value in check.items() if key != "type"})["judges"]


def test_the_judge_of_ones_own_that_the_page_shows_judges(session: Session) -> None:
    (conftest,) = fences("judges.md", "python")
    scenario = judging(
        invariants={"short": tone(model="wordcount:40"), "shorter": tone(model="wordcount:1")}
    )
    scenario["environment"] = {"user_input": "one two three four"}
    ran = run(session, scenario, files={"conftest.py": conftest}, signed=True)
    assert ran.findings(CASE)["short"] == "pass", ran.text
    assert (found(ran, "short")["score"], found(ran, "shorter")["score"]) == ("1", "0.25")
    # Who verifies without that plug-in reads the same answers.
    assert verified(ran.statement, ran.root).result == "fails"

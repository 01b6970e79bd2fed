"""Bundles of a lying producer, who signs anew what was changed: what can be told is refused."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle import recomputation, verify
from pytest_evarness.bundle.answered import Budget
from pytest_evarness.bundle.canonical import canonical_bytes, canonical_digest
from pytest_evarness.bundle.defined import check_defined
from pytest_evarness.bundle.envelope import envelope_bytes
from pytest_evarness.bundle.key import make_key
from pytest_evarness.bundle.not_proven import not_proven
from pytest_evarness.bundle.seal import binding_of
from pytest_evarness.bundle.statement import subjects_of
from pytest_evarness.bundle.summary import summarise
from pytest_evarness.bundle.verify import Options, Report, verify_bundle
from pytest_evarness.bundle.written import check_written
from pytest_evarness.core import c1
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.errors import UnverifiedError
from tests.plugin.test_checks import MAIL, check, replica, row, run, sending

if TYPE_CHECKING:
    from tests.plugin.ran import Session

Change = Callable[[dict[str, Any]], None]
ROW = {"sql": {"service": "db", "statement": "INSERT INTO t VALUES ('x')"}}


def worldly(**more: Any) -> dict[str, Any]:
    """A case with files, a mock and a database."""
    made = sending({"http": MAIL}, {"file": {"path": "out/log.txt", "write": "sent"}}, ROW, **more)
    services = made["environment"]["services"]
    services["db"] = {"type": "sqlite", "init": "CREATE TABLE t (a TEXT)"}
    if not made["invariants"]:
        return made
    once = [{"field": "request_count", "equals": 1}]
    made["invariants"]["asked"] = check("http_mock_assertions", service="mail", assertions=once)
    return made


@pytest.fixture
def bundle(session: Session) -> tuple[dict[str, Any], Path]:
    ran = run(session, worldly())
    assert ran.code == 0, ran.text
    return ran.statement, ran.root


def signed(statement: dict[str, Any], root: Path) -> Report:
    key = make_key(root / f"again-{len(list(root.glob('again*')))}.pem")
    data = envelope_bytes(canonical_bytes(statement), key)
    return verify_bundle(data, options=Options(keys=(key.public,)), registry=packaged_registry())


def refusal(statement: dict[str, Any], root: Path) -> str:
    report = signed(statement, root)
    assert report.result == "not_genuine", report.steps
    return next(step.detail for step in report.steps if step.outcome == "fail")


def in_world(statement: dict[str, Any], change: Change) -> dict[str, Any]:
    made = copy.deepcopy(statement)
    world = json.loads(replica(made)["world"])
    change(world)
    replica(made)["world"] = c1.text(world)
    for one in replica(made)["runs"]:
        one["world_digest"] = c1.sha256_text(replica(made)["world"])
    return made


def service(world: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in world["services"] if one["name"] == name)


# -- evidence that is said to be hidden ------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "said"),
    [("masked", "the case has no secrets"), ("too_large", "gives no evidence that is too large")],
)
@pytest.mark.parametrize("item", ["logged", "told", "asked"])
def test_evidence_is_not_hidden_without_need(
    bundle: tuple[dict[str, Any], Path], state: str, said: str, item: str
) -> None:
    statement, root = bundle
    made = copy.deepcopy(statement)
    row(made, item).update(state=state, text="")
    assert f"evidence[{item}]" in refusal(made, root)
    assert said in refusal(made, root)


def test_evidence_that_is_too_large_is_taken_as_such(session: Session) -> None:
    invariants = {"logged": check("file_content", {"gate": True}, path="big", contains="x")}
    scenario = sending({"file": {"path": "big", "write": "x" * 300_000}}, invariants=invariants)
    del scenario["forbidden"]
    ran = run(session, scenario)
    assert ran.code == 0, ran.text
    assert row(ran.statement, "logged")["state"] == "too_large"
    assert signed(ran.statement, ran.root).result == "holds"


def test_with_secrets_evidence_is_masked_only_where_the_world_hides_one(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2222")
    ran = run(session, worldly(secrets=["TOKEN"]))
    assert ran.code == 0, ran.text
    made = copy.deepcopy(ran.statement)
    row(made, "logged").update(state="masked", text="")
    assert "the sealed world hides no secret" in refusal(made, ran.root)
    # What a process was asked may well have held it.
    made = copy.deepcopy(ran.statement)
    row(made, "listed").update(state="masked", text="")
    assert signed(made, ran.root).result == "holds"


def test_a_short_text_was_not_cut(bundle: tuple[dict[str, Any], Path]) -> None:
    statement, root = bundle
    made = copy.deepcopy(statement)
    changed = row(made, "logged")
    changed["text"] = changed["text"].replace('"is_cut":false', '"is_cut":true')
    changed["digest"] = c1.sha256_text(changed["text"])
    assert "a text was cut although" in refusal(made, root)


# -- a world that is none --------------------------------------------------------------------------


def _forget_table(world: dict[str, Any]) -> None:
    (table,) = service(world, "db")["tables"]
    table["rows"] = [["y"]]


def _forget_count(world: dict[str, Any]) -> None:
    (table,) = service(world, "db")["tables"]
    table["count"] = 2


def _other_body(world: dict[str, Any]) -> None:
    service(world, "mail")["requests"][0]["body"] = "another"


def _other_number(world: dict[str, Any]) -> None:
    service(world, "mail")["requests"][0]["n"] = 2


WORLDS: list[tuple[Change, str]] = [
    (lambda world: world.clear(), "is empty, and the case declares a world"),
    (lambda world: world.update(extra=1), "is no end state"),
    (lambda world: world.pop("ledger"), "is no end state"),
    (lambda world: world.update(ledger=["x"]), "ledger: is no list of mappings"),
    (lambda world: world["services"].pop(), 'are ["db"], and ["db", "mail"] declared'),
    (lambda world: world["services"].append({"name": "x"}), '["db", "mail", "x"]'),
    (lambda world: world["services"][0].update(type="mysql"), "is of type"),
    (lambda world: world.update(workspace=None), "exactly when the case declares one"),
    (lambda world: world["workspace"]["added"].pop(), "added: is not what became"),
    (lambda world: world["workspace"]["removed"].append("in.txt"), "removed: is not what became"),
    (lambda world: world["workspace"]["modified"].append("in.txt"), "modified: is not what became"),
    (lambda world: world["workspace"]["files"].reverse(), "not sorted by path"),
    (_forget_table, "count and digest are not those of its rows"),
    (_forget_count, "count and digest are not those of its rows"),
    (_other_body, "the body of request 1 has another digest"),
    (_other_number, "request 1 has the number 2"),
]


def test_a_world_is_the_declared_one_and_agrees_with_itself(
    bundle: tuple[dict[str, Any], Path],
) -> None:
    statement, root = bundle
    assert signed(in_world(statement, lambda world: None), root).result == "holds"
    for number, (change, said) in enumerate(WORLDS):
        detail = refusal(in_world(statement, change), root)
        assert detail.startswith("cases[0].world"), (number, detail)
        assert said in detail, (number, detail)


def test_a_journal_and_the_events_tell_of_one_request(
    bundle: tuple[dict[str, Any], Path],
) -> None:
    statement, root = bundle

    def other(world: dict[str, Any]) -> None:
        request = service(world, "mail")["requests"][0]
        request["body"] = "another"
        request["body_digest"] = f"sha256:{hashlib.sha256(b'another').hexdigest()}"

    detail = refusal(in_world(statement, other), root)
    assert "::asked: outcome" in detail
    assert detail.endswith('judged again it is "indeterminate"')


def test_a_disagreement_that_no_item_asks_about_is_told(session: Session) -> None:
    scenario = worldly(invariants={})
    del scenario["forbidden"]
    scenario["expect"] = {"status": "completed"}
    scenario["environment"]["services"].pop("mail")
    scenario["environment"]["tools"]["email.send"][0]["effects"].pop(0)
    ran = run(session, scenario)
    assert ran.code == 0, ran.text
    genuine = signed(ran.statement, ran.root)
    assert not [text for text in genuine.taken_on_word if "account" in text]
    report = signed(in_world(ran.statement, lambda world: world.update(ledger=[])), ran.root)
    word = [text for text in report.taken_on_word if "account" in text]
    said = "the events tell of 2 effects and the ledger of 0"
    assert word == [f"scenarios/s.yaml::default: which account is true: {said}"]


def sealed_anew(statement: dict[str, Any]) -> None:
    """Make the seal, and what is bound to it, agree with what it holds now."""
    seal = statement["predicate"]["seal"]
    del seal["digest"]
    seal["digest"] = canonical_digest(seal)
    statement["subject"] = subjects_of(seal)
    for case in statement["predicate"]["cases"]:
        for one in case["replicas"][0]["runs"]:
            one["binding"] = binding_of(
                seal["digest"], case["nodeid"], 0, one["label"], one["chain_digest"]
            )


# -- a plan that is not what is written ------------------------------------------------------------


def _item(statement: dict[str, Any], name: str) -> dict[str, Any]:
    items = statement["predicate"]["seal"]["plan"][0]["items"]
    return next(item for item in items if item["id"] == name)


def _unplan(statement: dict[str, Any], name: str) -> None:
    statement["predicate"]["seal"]["plan"][0]["items"].remove(_item(statement, name))


def _soften(statement: dict[str, Any], name: str) -> None:
    _item(statement, name).update(gate=False)


def _reweigh(statement: dict[str, Any], name: str) -> None:
    _item(statement, name).update(weight="0.1")


def _unwrite(statement: dict[str, Any], name: str) -> None:
    inputs = statement["predicate"]["cases"][0]["inputs"]
    scenario = json.loads(inputs["scenario"])
    del scenario["invariants"][name]
    inputs["scenario"] = c1.text(scenario)


def _retype(statement: dict[str, Any], name: str) -> None:
    _item(statement, name).update(kind="file_exists")


def _unrule(statement: dict[str, Any], name: str) -> None:
    del name
    _unplan(statement, "forbidden-http-except")


def _new_threshold(statement: dict[str, Any], name: str) -> None:
    del name
    statement["predicate"]["seal"]["plan"][0]["threshold"] = "0.5"


def _unexpect(statement: dict[str, Any], name: str) -> None:
    del name
    _item(statement, "expect").update(written=True)


PLANS: list[tuple[Callable[[dict[str, Any], str], None], str]] = [
    (_unplan, "'logged' is written in the scenario, and nothing judges it"),
    (_soften, "gate is false, and true is written"),
    (_reweigh, "weight is 0.1, and 1 is written"),
    (_unwrite, "'logged' is planned, and the scenario does not have it"),
    (_retype, 'is planned as file_exists, and "file_content" is written'),
    (_unrule, "'forbidden-http-except' is written alone"),
    (_new_threshold, "the threshold is 0.5, and null is written"),
    (_unexpect, "'expect' is said to be written"),
]


def test_what_is_written_is_planned_as_hard_as_it_is_written(
    bundle: tuple[dict[str, Any], Path],
) -> None:
    statement, _ = bundle
    check_written(statement["predicate"])
    for change, said in PLANS:
        made = copy.deepcopy(statement)
        change(made, "logged")
        with pytest.raises(UnverifiedError, match=re.escape(said)):
            check_written(made["predicate"])


def test_a_failing_gate_cannot_be_left_out_of_the_plan(session: Session) -> None:
    """The whole bundle made to agree: what is judged, counted and bound leaves nothing to see."""
    fails = {
        "logged": check("file_content", {"gate": True}, path="out/log.txt", equals="sent"),
        "wrong": check("file_content", {"gate": True}, path="out/log.txt", equals="lost"),
    }
    ran = run(session, sending(invariants=fails))
    assert ran.code == 1, ran.text
    statement = ran.statement
    predicate = statement["predicate"]
    seal, case = predicate["seal"], predicate["cases"][0]
    item = _item(statement, "wrong")
    _unplan(statement, "wrong")
    seal["definitions"] = [
        row for row in seal["definitions"] if row["digest"] != item["definition"]
    ]
    inner = case["replicas"][0]
    for name in ("findings", "evidence"):
        key = "id" if name == "findings" else "item"
        inner[name] = [one for one in inner[name] if one[key] != "wrong"]
    case["verdict"], case["primary"], inner["verdict"] = "valid", None, "valid"
    sealed_anew(statement)
    predicate["verdict"] = summarise(predicate)
    predicate["not_proven"] = not_proven(predicate, packaged_registry(), signed=True)
    assert predicate["verdict"]["holds"] is True
    assert "'wrong' is written in the scenario" in refusal(statement, ran.root)
    # Written nowhere, it is another session, whose plan is the signer's word.
    _unwrite(statement, "wrong")
    check_written(predicate)


# -- definitions that are not what is written ------------------------------------------------------

ENDS = {"eventually": {"type": "run_finished"}}


def defined(**more: Any) -> dict[str, Any]:
    """A case with a definition of every kind."""
    rows = check("sql", service="db", query="SELECT a FROM t", rows=[["x"]])
    scores = [{"respond": {"text": json.dumps({"score": 0.9})}}]
    made = worldly(expect={"status": "completed", "nodes_run": ["n4"]}, **more)
    made["environment"]["judge"] = scores
    made["invariants"] |= {
        "rows": rows,
        "half": check("sql", service="db", query="SELECT 1.50", equals=1.50),
        "about": check("sql", service="db", query="SELECT 1.5", matcher={"gt": 1.10, "lt": 2.0}),
        "ends": check("trace", **{"assert": ENDS}),
        "tone": check("llm_as_judge", criteria="Is it polite?", pass_threshold=0.50),
    }
    made["forbidden"] |= {"tools_except": ["email.send"], "duplicate_effects": "deny"}
    return made


def _defined(statement: dict[str, Any], name: str, **changes: Any) -> None:
    """Give an item another definition; every digest agrees."""
    item = _item(statement, name)
    rows = statement["predicate"]["seal"]["definitions"]
    row = next(row for row in rows if row["digest"] == item["definition"])
    text = c1.text({**json.loads(row["text"]), **changes})
    item["definition"] = c1.sha256_text(text)
    rows.append({"digest": item["definition"], "text": text})


WEAKER: list[tuple[str, dict[str, Any]]] = [
    ("expect", {"nodes_run": []}),
    ("expect", {"output": {"contains": ""}}),
    ("forbidden-http-except", {"names": ["mail", "other"]}),
    ("forbidden-tools-except", {"names": ["email.send", "email.delete"]}),
    ("forbidden-unmatched-requests", {"names": []}),
    ("forbidden-unmatched-requests", {"routes": {"mail": []}}),
    ("forbidden-duplicate-effects", {"workspace": False}),
    ("logged", {"equals": "other"}),
    ("logged", {"path": "in.txt"}),
    ("listed", {"command": "true"}),
    ("listed", {"timeout": 60.0}),
    ("told", {"needs": []}),
    ("asked", {"assertions": []}),
    ("rows", {"query": "SELECT 'x'"}),
    ("rows", {"unordered": True}),
    ("half", {"expected": {"t": "number", "v": "1.6"}}),
    ("half", {"expected": {"t": "text", "v": "1.5"}}),
    ("about", {"expected": '{"gt":1.0,"lt":2.0}'}),
    ("ends", {"assert": {"eventually": {"type": "run_started"}}}),
    ("ends", {"vacuous": "fail"}),
    ("tone", {"pass_threshold": "0.1"}),
    ("tone", {"criteria": "Is it there?"}),
]


def test_each_item_is_judged_by_what_is_written(session: Session) -> None:
    ran = run(session, defined())
    assert ran.code == 0, ran.text
    registry = packaged_registry()
    assert check_defined(ran.statement["predicate"], registry) == []
    for name, changes in WEAKER:
        made = copy.deepcopy(ran.statement)
        _defined(made, name, **changes)
        (key,) = changes
        said = f"::{name}: is judged by another definition than is written ({key})"
        with pytest.raises(UnverifiedError, match=re.escape(said)):
            check_defined(made["predicate"], registry)


def test_a_weakened_check_is_told_after_everything_else_was_made_to_agree(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was judged is weaker than what the scenario is said to ask for."""
    ran = run(session, worldly())
    statement = ran.statement
    predicate = statement["predicate"]
    inputs, planned = predicate["cases"][0]["inputs"], predicate["seal"]["plan"][0]
    scenario = json.loads(inputs["scenario"])
    scenario["invariants"]["logged"]["check"]["equals"] = "what was never sent"
    inputs["scenario"] = c1.text(scenario)
    planned["scenario"] = c1.sha256_text(inputs["scenario"])
    sealed_anew(statement)
    said = "scenarios/s.yaml::default::logged: is judged by another definition than is written"
    assert said in refusal(statement, ran.root)
    # The twin: nothing else notices it.
    monkeypatch.setattr(verify, "check_defined", lambda *_: [])
    assert signed(statement, ran.root).result == "holds"


def test_a_bundle_of_digests_has_its_definitions_held_against_the_scenario(
    session: Session,
) -> None:
    ran = session("--evarness-bundle-events=digest", files={"scenarios/s.yaml": worldly()})
    assert ran.code == 0, ran.text
    made = copy.deepcopy(ran.statement)
    assert signed(made, ran.root).result == "holds"
    _defined(made, "logged", equals="other")
    seal = made["predicate"]["seal"]
    used = {item["definition"] for item in seal["plan"][0]["items"]}
    seal["definitions"] = [row for row in seal["definitions"] if row["digest"] in used]
    seal["definitions"].sort(key=lambda row: str(row["digest"]))
    sealed_anew(made)
    assert "is judged by another definition" in refusal(made, ran.root)


def test_a_derived_rule_that_nobody_asked_for_is_refused(session: Session) -> None:
    ran = run(session, defined())
    made = copy.deepcopy(ran.statement)
    invariants = json.loads(made["predicate"]["cases"][0]["inputs"]["scenario"])
    del invariants["invariants"]["ends"]
    made["predicate"]["cases"][0]["inputs"]["scenario"] = c1.text(invariants)
    with pytest.raises(UnverifiedError, match="ends: is planned, and nothing asks for it"):
        check_defined(made["predicate"], packaged_registry())


# -- rows that are not the sealed ones -------------------------------------------------------------


def test_rows_that_were_gathered_are_those_of_the_sealed_tables(session: Session) -> None:
    scenario = worldly()
    scenario["invariants"]["stored"] = check(
        "sql", service="db", query="SELECT a FROM t", equals="x"
    )
    scenario["invariants"]["when"] = check(
        "sql", service="db", query="SELECT date('2026-01-31')", equals="2026-01-31"
    )
    ran = run(session, scenario)
    assert ran.code == 0, ran.text
    genuine = signed(ran.statement, ran.root)
    assert genuine.result == "holds"
    word = "what it gathered: the sealed world does not tell"
    told = [text for text in genuine.taken_on_word if word in text]
    assert told == [f"scenarios/s.yaml::default::when: {word}"]
    made = copy.deepcopy(ran.statement)
    one = row(made, "stored")
    one["text"] = one["text"].replace('"v":"x"', '"v":"y"')
    one["digest"] = c1.sha256_text(one["text"])
    said = "evidence[stored]: the sealed world says otherwise: the query gives 1 rows there"
    assert said in refusal(made, ran.root)


def test_rows_that_take_too_long_to_ask_for_are_taken_on_the_signers_word(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = worldly()
    scenario["invariants"]["stored"] = check(
        "sql", service="db", query="SELECT a FROM t", equals="x"
    )
    ran = run(session, scenario)
    assert not [text for text in signed(ran.statement, ran.root).taken_on_word if "stored" in text]
    monkeypatch.setattr(recomputation, "Budget", lambda: Budget(0))
    report = signed(ran.statement, ran.root)
    assert report.result == "holds"
    (word,) = [text for text in report.taken_on_word if "stored" in text]
    assert word.endswith("::stored: what it gathered: the sealed world does not tell")


def test_a_mode_of_the_command_line_is_sealed(session: Session) -> None:
    ran = session("--evarness-mode=exploratory", files={"scenarios/s.yaml": worldly()})
    statement = ran.statement
    seal = statement["predicate"]["seal"]
    assert (seal["settings"]["mode"], seal["plan"][0]["mode"]) == ("exploratory", "exploratory")
    assert signed(statement, ran.root).result == "holds"
    seal["settings"]["mode"] = None
    sealed_anew(statement)
    assert 'the mode is exploratory, and it would be "release"' in refusal(statement, ran.root)

"""Bundles of a lying producer, who signs anew what was changed: what can be told is refused."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.bundle.envelope import envelope_bytes
from pytest_evarness.bundle.key import make_key
from pytest_evarness.bundle.verify import Options, Report, verify_bundle
from pytest_evarness.core import c1
from pytest_evarness.core.registry import packaged_registry
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

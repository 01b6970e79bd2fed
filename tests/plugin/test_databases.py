"""Databases in a session: from the file to terminal, bundle and verifier, on every engine."""

from __future__ import annotations

import json
import socket
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.verify import Options, verify_bundle
from pytest_evarness.core.registry import packaged_registry
from tests.plugin.scenarios import graph
from tests.world.sql.engines import ENGINES, SERVERS, dsn_of, need_wheel

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

CASE = "scenarios/s.yaml::default"
GRAPH = graph(
    ("n1", "input", {}),
    ("n3", "approval_gate", {"prompt": "Order it?"}),
    ("n4", "tool", {"tool": "email.send", "approve_side_effects": True}),
    ("n7", "output", {}),
)
TABLE = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item VARCHAR(80), price DECIMAL(10, 2))"
INSERT = {
    "service": "db",
    "statement": "INSERT INTO orders VALUES (:id, :item, :price)",
    "params": {"id": 1, "item": "{query}", "price": "12.50"},
}


def ordering(kind: str, **more: Any) -> dict[str, Any]:
    """One row is inserted, as long as nobody says otherwise."""
    service: dict[str, Any] = {"type": kind, "init": TABLE}
    if kind in ("postgres", "mysql"):
        service["dsn"] = dsn_of(kind)
    service.update(more.pop("service", {}))
    answer = {"result": [{"id": "m-1", "subject": "Ordered"}], "effects": [{"sql": INSERT}]}
    return {
        "evarness": 1,
        "id": "ordering",
        "subject": {"graph": GRAPH},
        "environment": {
            "user_input": "tea",
            "approvals": {"n3": "approve"},
            "tools": {"email.send": [answer]},
            "services": {"db": service},
        },
        "invariants": {
            "one": check("SELECT count(*) FROM orders", gate=True, equals=1),
            "tea": check("SELECT item FROM orders", equals="tea"),
            "dear": check("SELECT price FROM orders", matcher={"gte": 12.5}),
        },
        **more,
    }


def check(query: str, *, gate: bool = False, **compare: Any) -> dict[str, Any]:
    spec = {"type": "sql", "service": "db", "query": query, **compare}
    return {"description": f"the answer to {query}", "gate": gate, "check": spec}


def worlds(ran: Ran) -> set[str]:
    """The texts of all worlds of a session's bundle."""
    return {one["world"] for case in ran.predicate["cases"] for one in case["replicas"]}


@pytest.mark.parametrize("kind", ENGINES)
def test_what_an_effect_wrote_is_what_a_check_finds(session: Session, kind: str) -> None:
    ran = session(files={"scenarios/s.yaml": ordering(kind)}, mirror=True)
    assert ran.code == 0, ran.text
    assert set(ran.findings(CASE).values()) == {"pass"}
    (text,) = worlds(ran)
    world = json.loads(text)
    (table,) = world["services"][0]["tables"]
    assert table["rows"][0][:2] == [1, "tea"]
    assert table["start"]["count"] == 0
    assert world["ledger"][0]["receipt"]["ref"]
    assert "evarness_run" not in text


@pytest.mark.parametrize("kind", ENGINES)
def test_a_wrong_state_fails_and_says_so(session: Session, kind: str) -> None:
    scenario = ordering(kind)
    scenario["invariants"]["tea"] = check("SELECT item FROM orders", gate=True, equals="coffee")
    scenario["invariants"]["gone"] = check("SELECT nothing FROM orders", equals=1)
    ran = session(files={"scenarios/s.yaml": scenario})
    assert ran.code == 1
    found = ran.findings(CASE)
    assert (found["one"], found["tea"], found["gone"]) == ("pass", "fail", "indeterminate")
    assert 'expected text "coffee", got text "tea"' in ran.text
    assert "indeterminate (evaluator_error): db: " in ran.text


def test_a_verifier_judges_the_recorded_rows_again(session: Session) -> None:
    ran = session(files={"scenarios/s.yaml": ordering("sqlite")})
    proof = (ran.root / ".evarness/proof.json").read_bytes()
    report = verify_bundle(proof, options=Options(), registry=packaged_registry())
    assert report.claim is not None
    assert report.claim["holds"] is True
    told = next(step.detail for step in report.steps if step.step == "findings")
    assert told.startswith("5 of 5 findings judged again")
    (record,) = [
        json.loads(one["text"])["gathered"]
        for one in ran.predicate["cases"][0]["replicas"][0]["evidence"]
        if one["item"] == "tea"
    ]
    assert record["rows"] == [[{"t": "text", "v": "tea"}]]


# XDI-03: two scenarios, side by side, again and again.


@pytest.mark.parametrize(
    ("kind", "times"), [("sqlite", 15), pytest.param("wheel", 4, marks=pytest.mark.wheel)]
)
def test_workers_share_no_database_and_no_name_reaches_a_digest(
    session: Session, kind: str, times: int
) -> None:
    if kind == "wheel":
        need_wheel()
    service: dict[str, Any] = {"type": "sqlite" if kind == "sqlite" else "postgres"}
    files = {
        f"scenarios/alone-{number}.yaml": ordering(
            "sqlite",
            service=service,
            id=f"alone-{number}",
            matrix={"params.n": list(range(times))},
        )
        for number in (1, 2)
    }
    ran = session("-n", "2", files=files, subprocess=True)
    assert ran.code == 0, ran.text
    # reproduces, expect and three invariants of every point.
    assert ran.counts == {"passed": 2 * times * 5}
    assert len(ran.predicate["cases"]) == 2 * times
    # Each world is that of all others: run B of each was compared with run A before.
    assert len(worlds(ran)) == 1


# XDI-04: a server that never comes up.


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_never_comes_up_is_nobody_s_failure(session: Session, kind: str) -> None:
    scheme = {"postgres": "postgresql", "mysql": "mysql"}[kind]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        scenario = ordering(
            kind, service={"dsn": f"{scheme}://u@127.0.0.1:{port}/d", "start_seconds": 0.3}
        )
        files = {"scenarios/s.yaml": scenario, "scenarios/t.yaml": ordering("sqlite")}
        ran = session(files=files)
    assert ran.code == 1
    found = ran.findings(CASE)
    assert {found[name] for name in ("one", "tea", "dear")} == {"indeterminate"}
    assert "fail" not in found.values()
    assert "no answer within 0.3 s: " in ran.text
    assert "refused" in ran.text
    # The rest of the session is unharmed.
    assert set(ran.findings("scenarios/t.yaml::default").values()) == {"pass"}


@pytest.mark.parametrize("kind", SERVERS)
def test_a_dsn_of_the_environment_reaches_the_mirror_and_nothing_else(
    session: Session, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = dsn_of(kind)
    monkeypatch.setenv("ORDERS_DSN", dsn)
    scenario = ordering(kind, service={"dsn": {"env": "ORDERS_DSN"}})
    ran = session(files={"scenarios/s.yaml": scenario}, mirror=True)
    assert ran.code == 0, ran.text
    assert dsn not in ran.text
    assert dsn not in json.dumps(ran.statement)
    assert "ORDERS_DSN" in json.dumps(ran.statement)


def test_a_mistake_is_told_with_its_place(session: Session) -> None:
    scenario = ordering("sqlite")
    scenario["invariants"]["tea"] = check("DELETE FROM orders", equals=1)
    scenario["invariants"]["dear"] = check("SELECT 1")
    other = ordering("sqlite", service={"init": "schema.sql"})
    ran = session(files={"scenarios/s.yaml": scenario, "scenarios/t.yaml": other})
    assert ran.code == 1
    assert "must be one statement that reads: it begins with DELETE" in ran.text
    assert "compares the result with nothing" in ran.text
    assert "try: write init: [schema.sql]" in ran.text


def test_files_of_init_are_sealed_with_the_case(session: Session) -> None:
    scenario = ordering("sqlite", service={"init": ["sql/a.sql", "sql/b.sql"]})
    scenario["invariants"]["one"] = check("SELECT count(*) FROM orders", equals=2)
    scenario["invariants"]["tea"] = check(
        "SELECT id, item, price FROM orders ORDER BY id",
        rows=[[0, "water", 0], {"id": 1, "item": "tea", "price": 12.5}],
    )
    scenario["invariants"].pop("dear")
    files = {
        "scenarios/s.yaml": scenario,
        "scenarios/sql/a.sql": TABLE,
        "scenarios/sql/b.sql": "INSERT INTO orders VALUES (0, 'water', 0)",
    }
    ran = session(files=files, mirror=True)
    assert ran.code == 0, ran.text
    names = [subject["name"] for subject in ran.statement["subject"]]
    assert {"scenarios/sql/a.sql", "scenarios/sql/b.sql"} <= set(names)


STEP = """
import sqlite3


def write(inputs, config, context):
    connection = sqlite3.connect(context.services["db"]["path"])
    with connection:
        connection.execute("INSERT INTO orders VALUES (2, 'by a step', 1)")
    connection.close()
    return {"out": "done"}
"""


def test_a_step_of_the_harness_reaches_the_database(session: Session) -> None:
    scenario = ordering("sqlite")
    scenario["subject"]["graph"] = graph(
        ("n1", "input", {}), ("n2", "python", {"callable": "step:write"}), ("n3", "output", {})
    )
    scenario["environment"].pop("approvals")
    scenario["environment"].pop("tools")
    scenario["invariants"] = {"one": check("SELECT item FROM orders", equals="by a step")}
    ran = session(files={"scenarios/s.yaml": scenario, "scenarios/step.py": STEP, "step.py": STEP})
    assert ran.findings(CASE)["one"] == "pass", ran.text


def test_a_secret_in_a_row_is_compared_and_never_shown(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter22")
    scenario = ordering("sqlite", secrets=["TOKEN"])
    scenario["invariants"] = {
        "length": check("SELECT length(item) FROM orders", equals=8),
        "item": check("SELECT item FROM orders", equals="something"),
    }
    scenario["subject"]["graph"] = graph(
        ("n1", "input", {}), ("n2", "python", {"callable": "leak:write"}), ("n3", "output", {})
    )
    scenario["environment"].pop("approvals")
    scenario["environment"].pop("tools")
    leak = STEP.replace("'by a step'", "'hunt' || 'er22'")
    ran = session(files={"scenarios/s.yaml": scenario, "leak.py": leak})
    found = ran.findings(CASE)
    assert (found["length"], found["item"]) == ("pass", "fail"), ran.text
    assert "hunter22" not in ran.text
    assert "hunter22" not in json.dumps(ran.statement)
    assert "«secret:TOKEN»" in ran.text


def test_nothing_of_a_database_is_left(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    connect = sqlite3.connect

    def noted(path: Any, *words: Any, **more: Any) -> Any:
        made.append(str(path))
        return connect(path, *words, **more)

    monkeypatch.setattr(sqlite3, "connect", noted)
    ran = session(files={"scenarios/s.yaml": ordering("sqlite")})
    assert ran.code == 0
    paths = [path for path in made if path.endswith("database.sqlite")]
    assert paths
    assert not [path for path in paths if Path(path).exists()]

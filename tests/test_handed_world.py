"""The handed cases that need a world and a whole session: secrets, workers, two runs, verdicts.

Which tests hold the others, ``HELD_BY`` of ``tests/test_handed.py`` says.
"""

from __future__ import annotations

import base64
import json
import urllib.parse
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness import cli
from pytest_evarness.bundle.verify import Options, verify_bundle
from pytest_evarness.core.registry import packaged_registry
from tests.plugin.scenarios import echo, graph, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

CASE = "scenarios/s.yaml::default"


# -- the first run, and the second -----------------------------------------------------------------

ONCE = """
def act_once(inputs, config, context):
    line = "if test -e seen.flag; then echo again; else touch seen.flag; echo first; fi"
    done = context.run(line)
    return {"out": done.stdout}
"""

EMPTIED = """
import json, sqlite3, sys

context = json.load(sys.stdin)
with sqlite3.connect(context["services"]["db"]["path"]) as database:
    before = database.execute("SELECT count(*) FROM t").fetchone()[0]
    database.execute("INSERT INTO t VALUES (1)")
print(json.dumps({"passed": before == 0, "reason": f"{before} rows were there"}))
"""


@pytest.mark.parametrize("mirror", [False, True])
def test_both_runs_and_both_looks_are_the_first(session: Session, mirror: bool) -> None:
    """DET-04."""
    scenario = {
        "evarness": 1,
        "id": "first-or-again",
        "subject": {"graph": step_graph("once:act_once")},
        "environment": {
            "workspace": {},
            "services": {
                "db": {"type": "sqlite", "init": "CREATE TABLE t(x)"},
                "api": {"type": "http_mock"},
            },
        },
        "expect": {"output": {"contains": "first"}},
        "invariants": {
            "flagged": {
                "description": "The flag is there",
                "check": {"type": "file_exists", "path": "seen.flag"},
            },
            "empty": {
                "description": "The table had been empty",
                # Asked twice: what the first look wrote, the second does not see.
                "check": {"type": "custom", "script": "emptied.py", "recheck": True},
            },
        },
    }
    files = {"scenarios/s.yaml": scenario, "once.py": ONCE, "scenarios/emptied.py": EMPTIED}
    ran = session("--evarness-unsigned", files=files, mirror=mirror)
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert set(ran.findings(CASE).values()) == {"pass"}
    (replica,) = ran.predicate["cases"][0]["replicas"]
    for digest in ("trace_digest", "world_digest"):
        assert len({run[digest] for run in replica["runs"]}) == 1


# -- verdicts --------------------------------------------------------------------------------------


def test_what_nobody_could_judge_is_no_success(session: Session) -> None:
    """SCO-01, the third and the fourth."""
    judged = {
        "description": "A judge is asked, and there is none",
        "check": {"type": "llm_as_judge", "criteria": "Is it kind?"},
    }
    ran = session(
        "--evarness-unsigned", files={"scenarios/s.yaml": echo(invariants={"it": judged})}
    )
    assert (ran.code, ran.findings(CASE)["it"]) == (1, "indeterminate")
    asked = {
        "description": "A database is asked that does not start",
        "check": {"type": "sql", "service": "db", "query": "SELECT 1", "equals": 1},
    }
    scenario = echo(invariants={"it": asked})
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": scenario})
    assert (ran.code, ran.counts) == (1, {"error": 1})
    scenario["environment"] = {"services": {"db": {"type": "sqlite", "init": "CREATE"}}}
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": scenario})
    assert (ran.code, ran.findings(CASE)["it"]) == (1, "indeterminate")


CART = "CREATE TABLE cart (id INTEGER, qty INTEGER); INSERT INTO cart VALUES (1, 0)"


def test_the_right_words_do_not_outvote_the_wrong_row(session: Session) -> None:
    """SCO-04."""
    answer = {
        "result": [{"id": "r", "subject": "set"}],
        "effects": [
            {"file": {"path": "reply.txt", "write": "order 5421 is set"}},
            {"sql": {"service": "db", "statement": "UPDATE cart SET qty = 1 WHERE id = 1"}},
        ],
    }
    nodes = graph(
        ("n1", "input", {}),
        ("n2", "approval_gate", {}),
        ("n3", "tool", {"tool": "db.execute", "approve_side_effects": True}),
        ("n4", "output", {}),
    )
    row = {
        "description": "The cart holds 42",
        "gate": True,
        "check": {
            "type": "sql",
            "service": "db",
            "query": "SELECT qty FROM cart WHERE id=1",
            "equals": 42,
        },
    }
    words = {
        "description": "The reply says 42",
        "weight": 100,
        "check": {"type": "file_content", "path": "reply.txt", "contains": "42"},
    }
    scenario = {
        "evarness": 1,
        "subject": {"graph": nodes},
        "environment": {
            "approvals": {"n2": "approve"},
            "tools": {"db.execute": [answer]},
            "workspace": {},
            "services": {
                "db": {
                    "type": "sqlite",
                    "init": CART,
                }
            },
        },
        "invariants": {"row": row, "words": words},
        "scoring": {"pass_threshold": 0.5},
    }
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": scenario})
    assert (ran.code, ran.holds) == (1, False)
    found = ran.findings(CASE)
    assert (found["row"], found["words"]) == ("fail", "pass")
    assert "INVALID scenarios/s.yaml::default\n  row: " in ran.text
    scenario["environment"]["services"]["db"]["init"] = "CREATE TABLE cart ("  # type: ignore[index]
    answer["effects"].pop()  # type: ignore[attr-defined]
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": scenario})
    assert ran.predicate["verdict"]["indeterminate"] == 1, ran.text


# -- secrets ---------------------------------------------------------------------------------------

TOKEN = "s3cr3t-9f2"
PASSWORD = 'p@ss "wörd"/+&'

LEAKY = '''
"""A harness that puts its secrets wherever a program can put one."""

import base64
import http.client
import json
import logging
import os
import sys
import urllib.parse
import warnings


def charge(inputs, config, context):
    token, password = os.environ["PAY_TOKEN"], os.environ["PAY_PASSWORD"]
    place = context.services["pay"]
    connection = http.client.HTTPConnection(place["host"], place["port"], timeout=10)
    basic = base64.b64encode(f"user:{token}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}", "X-Key": token}
    form = urllib.parse.urlencode({"k": token, "p": password})
    connection.request("POST", f"/charge?{form}", form, headers)
    connection.getresponse().read()
    connection.close()
    other = http.client.HTTPConnection(place["host"], place["port"], timeout=10)
    other.request("POST", "/charge", json.dumps({"token": token, "password": password}))
    other.getresponse().read()
    other.close()
    done = context.run(
        "echo $TOKEN; echo $TOKEN > note.txt; printf %s $TOKEN | base64 > note.b64",
        env={"TOKEN": token},
    )
    print(token, password)
    print(token[:4], end="")
    print(token[4:], file=sys.stdout)
    sys.stdout.buffer.write(f"{token} as bytes\\n".encode())
    os.write(2, f"{token} by its descriptor\\n".encode())
    logging.getLogger("harness").warning("the token is %s", token)
    warnings.warn(f"the token is {token}", stacklevel=1)
    context.emit("custom.note", {"token": token, "password": json.dumps(password), token: basic})
    (context.workspace / f"{token}.txt").write_text(password, encoding="utf-8")
    return {"out": done.stdout, "password": password}
'''

QUIET: dict[str, Any] = {
    "evarness": 1,
    "id": "keep-quiet",
    "secrets": ["PAY_TOKEN", "PAY_PASSWORD"],
    "subject": {"graph": step_graph("leaky:charge")},
    "environment": {
        "workspace": {},
        "services": {
            "pay": {"type": "http_mock", "routes": [{"method": "POST", "path": "/charge"}]}
        },
    },
    "invariants": {
        "charged": {
            "description": "The body is nothing like it",
            "check": {
                "type": "http_mock_assertions",
                "service": "pay",
                "assertions": [{"field": "last_request.body", "equals": "nothing like it"}],
            },
        },
        "noted": {
            "description": "The note says absent",
            "check": {"type": "file_content", "path": "note.txt", "contains": "absent"},
        },
        "printed": {
            "description": "The command prints it and fails",
            "check": {"type": "command_exit", "command": "cat note.txt; cat *.txt >&2; exit 1"},
        },
        "scripted": {
            "description": "A script prints it and fails",
            "check": {"type": "custom", "script": "tell.py"},
        },
    },
    "forbidden": {"secrets_in_logs": "deny"},
}

TELL = """
import json, pathlib, sys

context = json.load(sys.stdin)
note = pathlib.Path(context["workspace_path"], "note.txt").read_text().strip()
print(json.dumps({"passed": False, "reason": f"it says {note}", "details": {"note": note}}))
"""


def forms(value: str) -> dict[str, str]:
    """Every form in which a reader, or a machine, could find the value."""
    data = value.encode()
    made = {"plain": value}
    made |= {
        "json": json.dumps(value)[1:-1],
        "json-text": json.dumps(value, ensure_ascii=False)[1:-1],
    }
    made |= {"url": urllib.parse.quote(value, safe=""), "form": urllib.parse.quote_plus(value)}
    made |= {"path": urllib.parse.quote(value), "hex": data.hex()}
    made["base64"] = base64.b64encode(data).decode().rstrip("=")
    made["url-base64"] = base64.urlsafe_b64encode(data).decode().rstrip("=")
    for offset in (1, 2):
        # Inside another text, as in the header `Basic`: only the middle is fixed.
        text = base64.b64encode(b"x" * offset + data).decode().rstrip("=")
        made[f"base64+{offset}"] = text[4:-1] if offset else text
    return made


def leaks(text: str) -> list[str]:
    return [
        f"{name} ({form}): ...{text[max(0, text.index(wanted) - 60) :][:160]!r}"
        for name, value in (("token", TOKEN), ("password", PASSWORD))
        for form, wanted in forms(value).items()
        if form != "hex" and wanted in text
    ]


def test_the_look_for_leaks_can_find_each_form() -> None:
    for value in (TOKEN, PASSWORD):
        for form, text in forms(value).items():
            if form != "hex":
                assert leaks(f"... {text} ...")
    assert leaks("Basic " + base64.b64encode(f"user:{TOKEN}".encode()).decode())
    assert leaks("a text like any other") == []


@pytest.fixture
def quiet(session: Session, monkeypatch: pytest.MonkeyPatch) -> Ran:
    monkeypatch.setenv("PAY_TOKEN", TOKEN)
    monkeypatch.setenv("PAY_PASSWORD", PASSWORD)
    files = {"scenarios/s.yaml": QUIET, "leaky.py": LEAKY, "scenarios/tell.py": TELL}
    words = ("-rA", "-vv", "-Wdefault", "--junitxml=theirs.xml", "--evarness-junit=ours.xml")
    return session(*words, files=files, mirror=True)


def test_a_secret_is_in_no_artifact(
    quiet: Ran, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """REP-06."""
    assert quiet.code == 1
    assert quiet.findings(CASE)["reproduces"] == "pass", quiet.text
    assert leaks(quiet.text) == []
    looked = 0
    for path in sorted(quiet.root.rglob("*")):
        if path.is_file() and path.name != "leaky.py" and "__pycache__" not in path.parts:
            looked += 1
            assert leaks(path.read_bytes().decode("utf-8", "replace")) == [], path.name
    assert looked >= 5
    # The payload of the envelope is itself base64.
    assert leaks(json.dumps(quiet.statement)) == []
    assert leaks(json.dumps(quiet.statement, ensure_ascii=False)) == []
    for case in quiet.predicate["cases"]:
        assert leaks(case["replicas"][0]["world"]) == []
        for row in case["replicas"][0]["evidence"]:
            assert leaks(row["text"]) == []

    # Who verifies and reads it later has no secret at all.
    monkeypatch.delenv("PAY_TOKEN")
    monkeypatch.delenv("PAY_PASSWORD")
    bundle = quiet.root / ".evarness" / "proof.json"
    report = verify_bundle(bundle.read_bytes(), options=Options(), registry=packaged_registry())
    assert [step.step for step in report.steps if step.outcome == "fail"] == []
    capsys.readouterr()
    for words in (["explain", str(bundle)], ["verify", str(bundle), "--json"]):
        cli.main(words)
        shown = capsys.readouterr()
        assert shown.out
        assert leaks(shown.out + shown.err) == []


def test_failures_with_secrets_in_them_stay_readable(quiet: Ran) -> None:
    """REP-06: a placeholder with the secret's name, where the value stood."""
    found = {row["id"]: row for row in quiet.predicate["cases"][0]["replicas"][0]["findings"]}
    for item in ("charged", "noted", "printed", "scripted"):
        assert found[item]["outcome"] == "fail", found[item]
    assert "nothing like it" in found["charged"]["reason"]
    assert "«secret:PAY_TOKEN»" in found["charged"]["reason"]
    assert "absent" in found["noted"]["reason"]
    assert "it says «secret:PAY_TOKEN»" in found["scripted"]["reason"]
    assert "stdout" in quiet.text
    assert quiet.text.count("«secret:PAY_TOKEN»") >= 3


@pytest.mark.parametrize("value", ["", "x", "abc"])
def test_a_secret_that_is_none_is_refused(
    session: Session, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """REP-06: masking a letter would mask every text."""
    monkeypatch.setenv("PAY_TOKEN", value)
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": echo(secrets=["PAY_TOKEN"])})
    assert ran.code == 1
    assert "PAY_TOKEN" in ran.text
    assert ran.counts.get("passed", 0) == 0
    # The twin: four characters are a secret.
    monkeypatch.setenv("PAY_TOKEN", "abcd")
    ran = session("--evarness-unsigned", files={"scenarios/s.yaml": echo(secrets=["PAY_TOKEN"])})
    assert ran.code == 0, ran.text


# -- workers -----------------------------------------------------------------------------------

ORDER = """
import http.client
import sqlite3


def order(inputs, config, context):
    with sqlite3.connect(context.services["db"]["path"]) as database:
        database.execute("INSERT INTO orders VALUES (1)")
    database.close()
    place = context.services["api"]
    connection = http.client.HTTPConnection(place["host"], place["port"], timeout=10)
    connection.request("POST", "/x")
    connection.getresponse().read()
    connection.close()
    return {"out": "done"}
"""


def alone(number: int, times: int) -> dict[str, Any]:
    return {
        "evarness": 1,
        "id": f"alone-{number}",
        "subject": {"graph": step_graph("ordering:order")},
        "environment": {
            "services": {
                "db": {"type": "sqlite", "init": "CREATE TABLE orders(id INT)"},
                "api": {
                    "type": "http_mock",
                    "routes": [{"method": "POST", "path": "/x", "delay": "50ms"}],
                },
            }
        },
        "matrix": {"params.n": list(range(times))},
        "invariants": {
            "one-row": {
                "description": "There is one order",
                "gate": True,
                "check": {
                    "type": "sql",
                    "service": "db",
                    "query": "SELECT count(*) FROM orders",
                    "equals": 1,
                },
            },
            "one-request": {
                "description": "One request came",
                "gate": True,
                "check": {
                    "type": "http_mock_assertions",
                    "service": "api",
                    "assertions": [{"field": "request_count", "equals": 1}],
                },
            },
        },
    }


@pytest.mark.slow
def test_workers_share_neither_database_nor_journal(session: Session) -> None:
    """XDI-03: two scenarios, thirty times, two workers; each runs twice."""
    files: dict[str, Any] = {"ordering.py": ORDER}
    files |= {f"scenarios/alone-{number}.yaml": alone(number, 30) for number in (1, 2)}
    ran = session("-n", "2", "--evarness-unsigned", files=files, subprocess=True, mirror=True)
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert ran.predicate["verdict"]["valid"] == 60
    runs = [run for case in ran.predicate["cases"] for run in case["replicas"][0]["runs"]]
    assert len(runs) == 120
    # No port, no name of a file or database, and no worker is in a digest.
    assert len({run["world_digest"] for run in runs}) == 1
    assert len({case["replicas"][0]["world"] for case in ran.predicate["cases"]}) == 1

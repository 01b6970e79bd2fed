"""Text that is aimed at the grader or the reader changes nothing: no finding, no line, no frame."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import fromstring

import pytest

from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.bundle.envelope import envelope_bytes
from pytest_evarness.bundle.key import make_key
from pytest_evarness.bundle.verify import Options, verify_bundle
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.report.explain import explain
from pytest_evarness.report.jsonl import jsonl_bytes
from pytest_evarness.report.junit import junit_bytes
from tests.attacks import ATTACKS, BENIGN, FORGED
from tests.plugin.scenarios import echo, step_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.plugin.ran import Ran, Session

CASE = "scenarios/s.yaml::default"
MAX_LINE = 12_000
SCRIPT = """
import json, sys
context = json.load(sys.stdin)
text = open(context["workspace_path"] + "/out.txt", encoding="utf-8", newline="").read()
json.dump({"passed": False, "score": 0, "reason": text[:20000]}, sys.stdout)
"""


def attacked(text: str, *, approve: bool = True) -> dict[str, Any]:
    """A run through which ``text`` flows into every place that a report may quote."""
    kept = text[:60_000]
    appeal = {"rule": "never_found", "acceptable": True, "why": kept[:1_000]}
    answer = {"score": 0.1, "evidence": ["a1", kept[:500]], "critique": kept[:1_500]}
    shown = {"criteria": "Is it fine?", "type": "llm_as_judge"}
    return {
        "evarness": 1,
        "id": "s",
        "mode": "diagnostic",
        "subject": {
            "graph": {
                "ir_version": 1,
                "id": "attacked",
                "nodes": [
                    {"id": "n1", "type": "input"},
                    {"id": "n2", "type": "tool", "config": {"tool": "web.fetch"}},
                    {"id": "n3", "type": "approval_gate", "config": {"prompt": "Send?"}},
                    {
                        "id": "n4",
                        "type": "tool",
                        "config": {"tool": "email.send", "approve_side_effects": True},
                    },
                    {"id": "n5", "type": "output"},
                ],
                "edges": [
                    {"from": one, "to": other}
                    for one, other in (("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n5"))
                ],
            }
        },
        "environment": {
            "user_input": "Fetch and send",
            "approvals": {
                "n3": {"decision": "approve" if approve else "reject", "approver": kept[:80]}
            },
            "workspace": {},
            "services": {
                "mail": {"type": "http_mock", "default_response": 202},
                "db": {"type": "sqlite", "init": "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)"},
            },
            "tools": {
                "web.fetch": [{"result": [{"id": "d", "subject": kept[:200], "text": kept}]}],
                "email.send": [
                    {
                        "result": [{"id": "m", "subject": "sent", "text": kept}],
                        "effects": [
                            {
                                "http": {
                                    "service": "mail",
                                    "method": "POST",
                                    "path": "/m",
                                    "body": {"body": "{query}"},
                                }
                            },
                            {"file": {"path": "out.txt", "write": "{query}"}},
                            {
                                "sql": {
                                    "service": "db",
                                    "statement": "INSERT INTO t (x) VALUES (:x)",
                                    "params": {"x": "{query}"},
                                }
                            },
                            {"message": {"to": "ann", "body": "{query}"}},
                        ],
                    }
                ],
            },
            "judge": [
                {"respond": {"text": json.dumps({**answer, "remarks": [appeal]})}},
                {"respond": {"text": kept or "?"}},
            ],
        },
        "expect": {"output": {"equals": "nothing of the kind"}},
        "invariants": {
            "never_found": {
                "description": "No document is found",
                "gate": True,
                "check": {"type": "trace", "assert": {"never": {"type": "tool_result"}}},
            },
            "file": {
                "description": "the file",
                "check": {"type": "file_content", "path": "out.txt", "equals": "something else"},
            },
            "mail": {
                "description": "the request",
                "check": {
                    "type": "http_mock_assertions",
                    "service": "mail",
                    "assertions": [{"field": "last_request.json.body", "equals": "something else"}],
                },
            },
            "row": {
                "description": "the row",
                "check": {
                    "type": "sql",
                    "service": "db",
                    "query": "SELECT x FROM t",
                    "equals": "something else",
                },
            },
            "script": {"description": "a script", "check": {"type": "custom", "script": "told.py"}},
            "taken_in": {"description": "a judge that repeats it", "check": dict(shown)},
            # Whoever repeats an answer has given it: that is a judge, and no text of the run.
            "sung": {
                "description": "a judge that says nothing else",
                "weight": 0,
                "check": {**shown, "input_from": "out.txt"},
            },
        },
        "scoring": {"pass_threshold": 0.5},
    }


def as_yaml(value: Any) -> str:
    """JSON, but for pairs of surrogates: YAML has one escape for such a character."""

    def one(pair: re.Match[str]) -> str:
        char = json.loads('"' + pair[0] + '"')
        return f"\\U{ord(char):08x}"

    return re.sub(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}", one, json.dumps(value))


def run(session: Session, text: str, *words: str, **more: Any) -> Ran:
    files = {"scenarios/s.yaml": as_yaml(attacked(text, **more)), "scenarios/told.py": SCRIPT}
    return session(
        "--evarness-unsigned", "--evarness-junit=out.xml", "--junitxml=own.xml", *words, files=files
    )


def outcomes(ran: Ran) -> Any:
    (case,) = ran.predicate["cases"]
    findings = case["replicas"][0]["findings"]
    return (
        ran.code,
        ran.holds,
        case["verdict"],
        case["primary"],
        case["composite"],
        [
            (one["id"], one["outcome"], one["score"], one["causes"])
            for one in findings
            if one["id"] != "sung"
        ],
    )


def odd(text: str) -> list[str]:
    """Characters that steer a terminal, turn the order of a line round, or are not seen."""
    return sorted(
        {
            f"U+{ord(char):04X}"
            for char in text
            if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        }
    )


def check_shown(text: str, *, where: str) -> None:
    assert odd(text) == [], where
    lines = text.split("\n")
    assert [line[:80] for line in lines if line.strip() in FORGED] == [], where
    assert [len(line) for line in lines if len(line) > MAX_LINE] == [], where


def reports(ran: Ran) -> Iterator[tuple[str, str]]:
    yield "explain", explain(ran.statement)
    for finding in ran.findings(CASE):
        yield f"explain {finding}", explain(ran.statement, f"{CASE}::{finding}")


@pytest.fixture
def benign(session: Session) -> Ran:
    return run(session, BENIGN)


def test_the_benign_run_is_the_one_that_the_attacks_are_held_against(benign: Ran) -> None:
    code, holds, verdict, primary, composite, found = outcomes(benign)
    assert (code, holds, verdict, primary) == (1, False, "invalid", "never_found")
    assert composite["low"] == "0"
    assert {name: outcome for name, outcome, _, _ in found} == {
        "reproduces": "pass",
        "expect": "fail",
        "never_found": "fail",
        "file": "fail",
        "mail": "fail",
        "row": "fail",
        "script": "fail",
        "taken_in": "fail",
        "score": "fail",
    }


@pytest.mark.parametrize("name", ATTACKS)
def test_no_text_of_a_run_changes_a_finding_or_the_frame_of_a_report(
    session: Session, benign: Ran, name: str
) -> None:
    expected, cases = outcomes(benign), cases_of((benign.root / "out.xml").read_bytes())
    own = cases_of((benign.root / "own.xml").read_bytes())
    ran = run(session, ATTACKS[name])
    assert outcomes(ran) == expected
    check_shown(ran.text, where="terminal")
    assert f"INVALID {CASE}" in ran.text
    for where, text in reports(ran):
        check_shown(text, where=where)
    for file, same in (("out.xml", cases), ("own.xml", own)):
        data = (ran.root / file).read_bytes()
        assert cases_of(data) == same, file
        assert odd(data.decode("utf-8")) == [], file
    for profile in ("extended", "strict"):
        assert cases_of(junit_bytes(ran.statement, profile)) == cases
    check_bundle(ran)
    check_packages(ran, ATTACKS[name])


def cases_of(data: bytes) -> list[tuple[str | None, list[str]]]:
    """Names of test cases and what stands in them, of one XML file."""
    return [
        (case.get("name"), sorted({part.tag for part in case} - {"properties", "system-out"}))
        for case in fromstring(data).iter("testcase")
        if not str(case.get("name")).endswith("sung")
    ]


def check_bundle(ran: Ran) -> None:
    """Somebody else reads the same out of it."""
    for path in ran.root.glob("again.pem*"):
        path.unlink()
    key = make_key(ran.root / "again.pem")
    statement = ran.statement
    statement["predicate"]["not_proven"].remove("unsigned: nobody vouches for this bundle")
    data = envelope_bytes(canonical_bytes(statement), key)
    report = verify_bundle(data, options=Options(keys=(key.public,)), registry=packaged_registry())
    assert report.result == "fails", report.steps
    for line in jsonl_bytes(statement).splitlines():
        json.loads(line)


def check_packages(ran: Ran, attack: str) -> None:
    """The fixed part of every evidence package is the one of any other run, and its fences hold."""
    (case,) = ran.predicate["cases"]
    packages = 0
    for row in case["replicas"][0]["evidence"]:
        if row["item"] not in ("taken_in", "sung"):
            continue
        package = json.loads(row["text"])["gathered"]["package"]
        packages += 1
        nonce, evidence = package["nonce"], package["evidence"]
        assert nonce not in attack.casefold()
        assert package["instructions"].replace(nonce, "NONCE") == INSTRUCTIONS
        assert evidence.count(nonce) == 2 * len(
            re.findall(rf"^\[\[DATA {nonce} ", evidence, re.MULTILINE)
        )
        frames = re.findall(rf"^\[\[(DATA|END) {nonce} (\S+?)[:\]]", evidence, re.MULTILINE)
        assert frames == [
            (side, handle) for handle in ("task", "a1", "trace") for side in ("DATA", "END")
        ]
    assert packages == 2


def instructions() -> str:
    from pytest_evarness.checks.judging.package import build_package
    from pytest_evarness.core.secret import Masker

    definition: dict[str, Any] = {
        "criteria": "Is it fine?",
        "rubric": None,
        "dimensions": [],
        "max_classification": "internal",
    }
    made = build_package(definition, [], prompt="", events=[], masker=Masker({}))
    return made.instructions.replace(made.nonce, "NONCE")


INSTRUCTIONS = instructions()


# -- the twins: each guard above can fail ----------------------------------------------------------


@pytest.mark.parametrize(
    "text", [*FORGED, "a\x1b[31mb", "a\u202eb", "a\u061cb", "a\rb", "x" * (MAX_LINE + 1)]
)
def test_a_report_that_let_it_through_would_be_noticed(text: str) -> None:
    check_shown("nothing of the kind", where="twin")
    with pytest.raises(AssertionError):
        check_shown(f"one\n  {text}\nthree", where="twin")


def test_a_report_that_cleaned_nothing_would_be_noticed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run(session, ATTACKS["bidi"])
    monkeypatch.setattr("pytest_evarness.report.text._ODD", re.compile(r"(?!)"))
    texts = [text for _, text in reports(ran)]
    assert any(odd(text) for text in texts)


def test_a_judge_that_was_talked_round_is_the_only_way_to_another_score(session: Session) -> None:
    """The text does nothing by itself; what a judge answers is what counts."""
    scenario = attacked(ATTACKS["answer"])
    for rule in scenario["environment"]["judge"]:
        rule["respond"]["text"] = '{"score": 1}'
    files = {"scenarios/s.yaml": scenario, "scenarios/told.py": SCRIPT}
    ran = session("--evarness-unsigned", files=files)
    assert ran.findings(CASE)["taken_in"] == "pass"
    (case,) = ran.predicate["cases"]
    assert (case["verdict"], case["composite"]["low"]) == ("invalid", "0")


RAISES = """
import pathlib


def fail(inputs, config, context):
    raise ValueError(pathlib.Path(__file__).with_name("attack.txt").read_text(encoding="utf-8"))
"""


@pytest.mark.parametrize("name", ["report lines", "xml", "colours", "bidi", "line ends"])
def test_what_a_step_raises_forges_no_line(session: Session, name: str) -> None:
    scenario = echo(id="s", subject={"graph": step_graph("evarness_raises:fail")})
    files = {
        "scenarios/s.yaml": scenario,
        "evarness_raises.py": RAISES,
        "attack.txt": ATTACKS[name],
    }
    words = ("--evarness-unsigned", "--evarness-junit=out.xml", "--junitxml=own.xml")
    ran = session(*words, files=files)
    assert ran.findings(CASE)["expect"] == "fail", ran.text
    check_shown(ran.text, where="terminal")
    for where, text in reports(ran):
        check_shown(text, where=where)
    for file in ("out.xml", "own.xml"):
        data = (ran.root / file).read_bytes()
        assert cases_of(data) == [("reproduces", []), ("expect", ["failure"])], file
        check_shown(data.decode("utf-8"), where=file)


# -- names of files, words of persons --------------------------------------------------------------

NAMES = """
import os


def litter(inputs, config, context):
    for name in config["names"]:
        (context.workspace / name).write_text("x", encoding="utf-8")
    return {"out": "done"}
"""


def test_names_of_files_forge_no_line(session: Session) -> None:
    names = ["a\x1b[2Jb", "a\nVALID scenarios/s.yaml::default", "a\u202eb", "<b>&amp;'\"", "]]>"]
    scenario = {
        "evarness": 1,
        "id": "s",
        "subject": {
            "graph": {
                "ir_version": 1,
                "id": "g",
                "nodes": [
                    {"id": "n1", "type": "input"},
                    {
                        "id": "n2",
                        "type": "python",
                        "config": {"callable": "litter:litter", "config": {"names": names}},
                    },
                    {"id": "n3", "type": "output"},
                ],
                "edges": [{"from": "n1", "to": "n2"}, {"from": "n2", "to": "n3"}],
            }
        },
        "environment": {"workspace": {}},
        "invariants": {
            "clean": {
                "description": "nothing is left",
                "gate": True,
                "check": {"type": "file_absent", "glob": "*"},
            }
        },
        "forbidden": {"file_writes_outside": ["drafts"]},
    }
    files = {"scenarios/s.yaml": as_yaml(scenario), "litter.py": NAMES}
    ran = session("--evarness-unsigned", "--junitxml=own.xml", files=files)
    assert ran.findings(CASE)["clean"] == "fail", ran.text
    assert ran.findings(CASE)["forbidden-file-writes-outside"] == "fail"
    check_shown(ran.text, where="terminal")
    for where, text in reports(ran):
        check_shown(text, where=where)
    assert len(cases_of((ran.root / "own.xml").read_bytes())) == len(ran.findings(CASE))

"""Small inputs, each a fault that users of neighbouring tools met, are met by none of ours here.

Every test names its case. What a layer tests in depth is only met end to end here: through a
session, the command line or the public functions.
"""

from __future__ import annotations

import ast
import base64
import itertools
import json
import random
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pytest_evarness
from pytest_evarness import InputError, Result, cli
from pytest_evarness.bundle.canonical import canonical_bytes, canonical_digest
from pytest_evarness.core import c1
from tests.plugin.ran import counts_of
from tests.plugin.scenarios import BROKEN, HELD, OPEN, echo, graph, traced, write

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

ECHO = """\
evarness: 1
subject:
  graph: {ir_version: 1, id: g, nodes: [{id: a, type: input}, {id: b, type: output}], edges: [{from: a, to: b}]}
"""  # noqa: E501

FETCH = {"tool": "web.fetch", "args": {"url": "u"}}
SEARCH = graph(("n1", "input", {}), ("n2", "tool", {"tool": "web.search"}), ("n3", "output", {}))


class Project:
    """A folder, and what running or loading a scenario in it gives."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, scenario: str | Mapping[str, Any], case: str | None = None) -> Result:
        if isinstance(scenario, str):
            write(self.root / "scenarios" / "s.yaml", scenario)
            scenario_file = "scenarios/s.yaml"
            return pytest_evarness.run(scenario_file, case, root=self.root, rerun="inline")
        return pytest_evarness.run(scenario, case, root=self.root, rerun="inline")

    def refused(self, scenario: str | Mapping[str, Any]) -> str:
        with pytest.raises(InputError) as caught:
            self.run(scenario)
        text = str(caught.value)
        for word in ("pydantic", "https://", "http://", "Traceback", str(self.root)):
            assert word not in text
        return text


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EVARNESS_SIGNING_KEY", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return Project(tmp_path)


Event = tuple[str, dict[str, Any]]
Check = Callable[[Mapping[str, Any], Mapping[str, Sequence[Event]]], dict[tuple[str, str], Any]]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """``pytest-evarness check --json`` of contracts over traces: ``{(run, contract): record}``."""

    def run(
        contracts: Mapping[str, Any],
        traces: Mapping[str, Sequence[Event]],
    ) -> dict[tuple[str, str], Any]:
        body = {name: {"assert": asserted} for name, asserted in contracts.items()}
        write(tmp_path / "c.yaml", {"contracts": body})
        types = sorted({name for events in traces.values() for name, _ in events} | TYPES)
        lines = []
        for run_id, events in traces.items():
            # A run without any sign of its end left no evidence of one.
            header = {"trace": 1, "run_id": run_id, "closed": events[-1][0] == "run_finished"}
            lines.append(json.dumps(header | {"sources": [{"id": "log", "types": types}]}))
            for seq, (name, payload) in enumerate(events):
                event = {"seq": seq, "type": name, "node_id": "n", "payload": payload}
                lines.append(json.dumps(event))
        write(tmp_path / "t.jsonl", "\n".join(lines) + "\n")
        capsys.readouterr()
        words = ["check", str(tmp_path / "t.jsonl"), "--contracts", str(tmp_path / "c.yaml")]
        cli.main([*words, "--json"])
        shown = capsys.readouterr()
        records = [json.loads(line) for line in shown.out.splitlines()]
        assert records, shown.err
        return {(record["run_id"], record["contract"]): record for record in records}

    return run


TYPES = {"custom.a", "custom.b", "custom.search", "custom.pay", "custom.wire"}


# -- scenario loading --------------------------------------------------------------------------


def test_a_repeated_key_is_refused_with_both_lines(project: Project) -> None:
    """YML-01."""
    text = "evarness: 1\nexpect: {status: completed}\nsubject: {graph: g.json}\nexpect: {}\n"
    found = project.refused(text)
    assert "'expect'" in found
    assert "4:" in found
    assert "line 2" in found
    for nested in (
        "invariants:\n  it:\n    check: {type: trace, assert: {}, assert: {}}\n",
        "environment:\n  tools:\n    web.search:\n      - {result: 1, result: 2}\n",
    ):
        assert "line" in project.refused(ECHO + nested)


def test_words_that_look_like_booleans_stay_words(project: Project) -> None:
    """YML-03."""
    text = (
        "evarness: 1\nsubject:\n  graph: " + json.dumps(SEARCH) + "\nenvironment:\n  tools:\n"
        "    web.search:\n      - result: {code: NO, active: on, grade: y}\n"
        "expect: {status: completed}\n"
    )
    result = project.run(text)
    (event,) = (event for event in result.trace if event.type == "tool_result")
    assert event.payload["result"] == {"code": "NO", "active": "on", "grade": "y"}


def test_a_number_with_a_leading_zero_is_refused_and_octal_is_octal(project: Project) -> None:
    """YML-04."""
    base = (
        "evarness: 1\nsubject:\n  graph: " + json.dumps(SEARCH) + "\nexpect: {status: completed}\n"
        "environment:\n  tools:\n    web.search:\n"
    )
    found = project.refused(base + "      - result: {zip: 01730}\n")
    assert ":8:" in found
    assert '"01730"' in found
    assert "984" not in found
    result = project.run(base + "      - result: {code: 0o17}\n")
    (event,) = (event for event in result.trace if event.type == "tool_result")
    assert event.payload["result"] == {"code": 15}


PAY = """\
tools:
  - id: pay
    args: {type: object, properties: {amount: {type: integer}}}
    safety: {side_effects: write, network: none}
    sim: [{result: paid}]
"""


def test_an_exponent_is_a_number_and_the_cap_caps(project: Project) -> None:
    """YML-05."""
    write(project.root / "scenarios" / "tools.yaml", PAY)
    paying = {"tool": "pay", "args": {"amount": 2500}, "approve_side_effects": True}
    nodes = graph(
        ("n1", "input", {}),
        ("gate", "approval_gate", {}),
        ("n2", "tool", paying),
        ("n3", "output", {}),
    )
    text = (
        "environment: {approvals: {gate: approve}}\nevarness: 1\nsubject:\n  graph: "
        + json.dumps(nodes)
        + "\ninvariants:\n  cap:\n    description: A cap\n    gate: true\n"
        "    check: {type: trace, assert: {never: "
    )
    result = project.run(text + "{type: tool_called, where: {args.amount: {gte: 1e3}}}}}\n")
    finding = result.finding("cap")
    assert finding.outcome.word == "fail"
    assert "2500" in json.dumps(finding.as_record())
    result = project.run(text + "{type: tool_called, where: {args.amount: {gte: 2.501e3}}}}}\n")
    assert result.finding("cap").outcome.word == "pass"


def test_a_bomb_of_aliases_is_refused_and_large_files_load(session: Session) -> None:
    """YML-07."""
    rows = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    for one, other in itertools.pairwise("abcdefgh"):
        rows.append(f"{other}: &{other} [{','.join([f'*{one}'] * 10)}]")
    bomb = "evarness: 1\nid: bomb\nvars:\n" + "".join(f"  {row}\n" for row in rows)
    anchors = ECHO + "expect: {status: completed}\ntags: [&t one, *t, *t, *t, *t]\n".replace(
        "[&t one, *t, *t, *t, *t]", "[one]\nenvironment: {default_response: &r {text: hi}, llm: []}"
    )
    large = ECHO + "expect: {status: completed}\nenvironment:\n  user_input: '" + "x" * 6_000_000
    files = {
        "scenarios/bomb.yaml": bomb,
        "scenarios/good.yaml": echo(),
        "scenarios/anchor.yaml": anchors,
        "scenarios/large.yaml": large + "'\n",
    }
    ran = session("-m", "evarness", files=files)
    assert ran.code == 1
    assert ran.counts == {"error": 1, "passed": 6}, ran.text[-3000:]
    assert "alias" in ran.text
    assert "limit" in ran.text or "more than" in ran.text


@pytest.mark.parametrize("value", ["{in: [x]}", "[1]", "[]", "x", "null", "{}"])
def test_a_misspelt_key_is_refused_at_every_level(project: Project, value: str) -> None:
    """YML-09."""
    text = ECHO + "invariants:\n  it:\n    description: A rule\n    check: {type: trace, assert: "
    found = project.refused(text + f"{{never: {{type: run_finished, wher: {value}}}}}}}\n")
    assert "wher" in found
    assert "where" in found
    assert ":7:" in found
    found = project.refused(ECHO + f"expect: {{status: completed, outputt: {value}}}\n")
    assert "write 'output'" in found


def test_one_mistake_gets_one_answer_and_all_are_told_at_once(project: Project) -> None:
    """YML-10."""
    text = ECHO + (
        "invariants:\n"
        "  one: {description: A, check: {type: trace, asert: {never: {type: run_finished}}}}\n"
        "  two: {description: B, check: {type: sql, service: db, qurey: x}}\n"
        "  three: {description: C, gate: maybe, check: {type: contract, id: no-such}}\n"
    )
    found = project.refused(text)
    assert ":5:" in found
    assert "try: write 'assert'" in found
    assert ":6:" in found
    assert "unknown key (got 'qurey'" in found
    assert "try: write 'query'" in found
    assert ":7:" in found
    for field in ("command", "last_request", "rubric", "min_size"):
        assert field not in found


# -- determinism -------------------------------------------------------------------------------


def test_a_digest_is_blind_to_timing_and_sharp_on_content_and_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DET-01; in our format what may differ between runs stands beside the payload, as `ts`."""

    def digest(name: str, order: int, clock: str, *, exchanged: bool = False) -> str:
        events = [
            ("custom.called", {"id": "call-1", "tool": "refund", "args": {"order": order}}),
            ("custom.result", {"id": "call-1", "result": "ok"}),
        ]
        lines = [json.dumps({"trace": 1, "run_id": name, "closed": False})]
        for seq, (kind, payload) in enumerate(reversed(events) if exchanged else events):
            event = {"seq": seq, "type": kind, "node_id": "n", "payload": payload}
            lines.append(json.dumps(event | {"ts": f"2024-05-01T{clock}:00.001Z"}))
        write(tmp_path / f"{name}.jsonl", "\n".join(lines) + "\n")
        assert cli.main(["digest", str(tmp_path / f"{name}.jsonl"), "--json"]) == 0
        return str(json.loads(capsys.readouterr().out)["trace_digest"])

    a, b = digest("A", 7, "10:00"), digest("B", 7, "23:59")
    c, d = digest("C", 8, "10:00"), digest("D", 7, "10:00", exchanged=True)
    assert a == b
    assert len({a, c, d}) == 3


def test_branches_run_in_an_order_that_the_graph_fixes(project: Project) -> None:
    """DET-03; 25 times two runs."""
    slow = {"delay_ms": 80}
    scenario = {
        "evarness": 1,
        "id": "fan-out",
        "subject": {
            "graph": {
                "ir_version": 1,
                "id": "fan",
                "nodes": [
                    {"id": "start", "type": "input"},
                    {"id": "a", "type": "tool", "config": {"tool": "web.search"}},
                    {
                        "id": "b",
                        "type": "tool",
                        "config": {"tool": "web.fetch", "args": {"url": "u"}},
                    },
                    {"id": "join", "type": "output"},
                ],
                "edges": [
                    {"from": "start", "to": "a"},
                    {"from": "start", "to": "b"},
                    {"from": "a", "to": "join"},
                    {"from": "b", "to": "join"},
                ],
            }
        },
        "environment": {
            "tools": {"web.search": [{"result": 1}], "web.fetch": [{"result": 2}]},
            "faults": {"web.search": slow, "web.fetch": slow},
        },
        "invariants": {
            "order": traced(
                {
                    "precedes": {
                        "first": {"type": "tool_result", "where": {"tool": "web.search"}},
                        "second": {"type": "tool_called", "where": {"tool": "web.fetch"}},
                    }
                }
            )
        },
    }
    seen = set()
    for _ in range(25):
        result = project.run(scenario)
        digests = (result.outcome.run_a.trace_digest, result.finding("order").outcome.word)
        assert result.finding("reproduces").outcome.word == "pass"
        seen.add(digests)
    assert len(seen) == 1


def test_nothing_of_the_first_run_is_left_for_the_second(project: Project) -> None:
    """DET-04, scripts and counters; files, rows and requests: tests/test_handed_world.py.

    What a step of the user's own leaves on the real disk makes `reproduces` fail, on purpose:
    tests/plugin/test_determinism.py.
    """
    nodes = graph(
        ("n1", "input", {}),
        ("n2", "tool", {"tool": "web.search"}),
        ("n3", "tool", {"tool": "web.search", "args": {"query": "more"}}),
        ("n4", "output", {}),
    )
    scenario = {
        "evarness": 1,
        "subject": {"graph": nodes},
        "environment": {"tools": {"web.search": [{"result": "first"}, {"result": "again"}]}},
        "expect": {"status": "completed"},
    }
    result = project.run(scenario)
    assert result.finding("reproduces").outcome.word == "pass"
    answers = [event.payload["result"] for event in result.trace if event.type == "tool_result"]
    assert answers == ["first", "again"]
    assert result.outcome.run_b is not None
    assert result.outcome.run_b.trace_digest == result.outcome.run_a.trace_digest


def test_the_canonical_forms_are_what_their_pages_say() -> None:
    """DET-05; a bundle is RFC 8785; events are in a form of their own, sorted by code point."""
    value = {"\ufb01": 2, "\U0001f680": 1, "q": 3}
    assert canonical_bytes(value).decode() == '{"q":3,"\U0001f680":1,"\ufb01":2}'
    wanted = "sha256:c271ec2fe2d91a9589e6c53218566df88efa3a7ddae55a9f91563abadce916b8"
    assert canonical_digest(value) == wanted
    assert c1.text(value) == '{"q":3,"\\ufb01":2,"\\ud83d\\ude80":1}'
    rfc8785 = pytest.importorskip("rfc8785")
    plain = {"b": 1, "a": [1, {"z": None, "y": "\U0001f680"}], "B": "\u20ac\n"}
    assert canonical_bytes(plain) == rfc8785.dumps(plain)


# -- simulation --------------------------------------------------------------------------------


def model_twice(**more: Any) -> dict[str, Any]:
    nodes = graph(("n1", "input", {}), ("n2", "llm", {}), ("n3", "llm", {}), ("n4", "output", {}))
    return {
        "evarness": 1,
        "subject": {"graph": nodes},
        "environment": {"llm": [{"respond": {"text": "14 days"}, "times": 1}]},
        "expect": {"status": "completed"},
        **more,
    }


def test_a_script_that_is_used_up_answers_nothing(project: Project) -> None:
    """SIM-01."""
    result = project.run(model_twice())
    assert (result.status, result.verdict) == ("unscripted", "indeterminate")
    last = result.trace[-2:]
    (event,) = (one for one in last if one.type == "script_exhausted")
    assert (event.payload["script"], event.payload["scripted"], event.payload["call"]) == (
        "llm",
        1,
        2,
    )
    assert [one.type for one in result.trace].count("llm_response") == 1
    # What was violated before that point stays violated.
    rule = traced({"never": {"type": "llm_response"}}) | {"gate": True}
    assert project.run(model_twice(invariants={"silent": rule})).verdict == "invalid"
    # What is left over is listed.
    left = model_twice()
    left["environment"]["llm"] = [
        {"respond": {"text": "yes"}},
        {"match": {"contains": "never asked"}, "respond": {"text": "no"}},
    ]
    assert project.run(left).outcome.run_a.leftovers


SWAP = """
def swap(inputs, config, context):
    return {"out": config["text"]}
"""
APPROVED = {
    "description": "What was approved is what is sent, once",
    "gate": True,
    "check": {
        "type": "trace",
        "assert": {
            "precedes": {
                "first": {"type": "approval_granted", "where": {"artifact_digest": "$d"}},
                "second": {"type": "tool_called", "bind": {"d": "args_digest"}},
                "fresh": True,
            }
        },
    },
}


def test_an_approval_covers_one_act_and_no_other(project: Project) -> None:
    """SIM-02."""
    write(project.root / "swapping.py", SWAP)

    def scenario(*more: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
        nodes = graph(
            ("n1", "input", {}), ("gate", "approval_gate", {}), *more, ("out", "output", {})
        )
        return {
            "evarness": 1,
            "subject": {"graph": nodes},
            "environment": {
                "user_input": "ACC-1 10",
                "approvals": {"gate": "approve"},
                "tools": {"email.send": [{"result": "sent"}, {"result": "sent"}]},
            },
            "invariants": {"approved": APPROVED},
        }

    def send(**args: str) -> dict[str, Any]:
        return {
            "tool": "email.send",
            "approve_side_effects": True,
            **({"args": args} if args else {}),
        }

    honest = project.run(scenario(("send", "tool", send())))
    assert honest.finding("approved").outcome.word == "pass"
    step = {"callable": "swapping:swap", "config": {"text": "ACC-1 1000"}}
    swapped = project.run(scenario(("step", "python", step), ("send", "tool", send())))
    finding = swapped.finding("approved")
    assert finding.outcome.word == "fail"
    shown = json.dumps(finding.as_record())
    assert "ACC-1 1000" in shown
    # Nor is it used twice: a retry after a lost answer finds it used up.
    again = scenario(("send", "tool", send() | {"retries": 1}))
    again["environment"]["faults"] = {"email.send": {"fail_after": {"first": 1}}}
    twice = project.run(again)
    assert (twice.status, twice.verdict) == ("blocked", "invalid")
    assert [event.type for event in twice.trace].count("tool_called") == 1
    (decision,) = (event for event in twice.trace if event.type == "policy_decision")
    assert (decision.payload["decision"], decision.payload["rule"]) == ("deny", "approval_used")


# -- contracts ---------------------------------------------------------------------------------


def test_a_rule_that_saw_nothing_is_marked(check: Check, session: Session) -> None:
    """TMP-01, otherwise by design: vacuous passes do not fail, since a rule about sending has

    nothing to see in a run that was rightly stopped. They are marked and counted apart, never as
    passed, and count as undecided where contract or session says so.
    """
    contracts = {
        "never": {"never": {"type": "custom.wire"}},
        "every": {"every": {"match": {"type": "custom.search"}, "where": {"limit": {"lte": 50}}}},
        "precedes": {"precedes": {"first": {"type": "custom.a"}, "second": {"type": "custom.pay"}}},
    }
    found = check(contracts, {"unrelated": [("run_started", {}), ("run_finished", {})]})
    assert {key[1]: record["outcome"] for key, record in found.items()} == dict.fromkeys(
        contracts, "pass"
    )
    assert found["unrelated", "every"]["vacuous"] is True
    assert found["unrelated", "precedes"]["vacuous"] is True
    found = check(contracts, {"empty": [("run_started", {})]})
    assert {record["outcome"] for record in found.values()} == {"indeterminate"}
    idle = traced({"every": {"match": {"type": "tool_called"}, "where": {"tool": "web.search"}}})
    scenario = echo(invariants={"it": idle}, subject={"graph": SEARCH})
    scenario["environment"] = {"tools": {"web.search": []}}
    idle["check"]["assert"] = {
        "every": {"match": {"type": "tool_error"}, "where": {"tool": "web.search"}}
    }
    ran = session(files={"scenarios/s.yaml": scenario})
    assert (ran.code, ran.counts) == (0, {"passed": 2, "vacuous": 1})
    assert session("--evarness-strict-vacuity").code == 1


def test_a_rule_that_can_never_fire_is_refused(project: Project) -> None:
    """TMP-02."""

    def rule(pattern: dict[str, Any]) -> dict[str, Any]:
        return {
            "evarness": 1,
            "subject": {"graph": SEARCH},
            "environment": {"tools": {"web.search": []}},
            "invariants": {"it": traced({"never": pattern})},
        }

    found = project.refused(rule({"type": "tool_called", "where": {"tool": "web.serach"}}))
    assert "web.serach" in found
    assert "web.search" in found
    assert "tool_called" in project.refused(rule({"type": "tool_caled"}))
    assert "n2" in project.refused(rule({"type": "node_started", "where": {}, "node_id": "n22"}))


def test_precedence_at_its_borders(check: Check) -> None:
    """TMP-03."""
    contract = {"precedes": {"first": {"type": "custom.a"}, "second": {"type": "custom.b"}}}
    table = {
        "": ("pass", True),
        "A": ("pass", True),
        "B": ("fail", False),
        "BA": ("fail", False),
        "AB": ("pass", False),
        "ABB": ("pass", False),
        "AAB": ("pass", False),
        "BAB": ("fail", False),
    }
    traces: dict[str, list[Event]] = {
        row or "none": [
            *((f"custom.{letter.lower()}", {}) for letter in row),
            ("run_finished", {}),
        ]
        for row in table
    }
    found = check({"it": contract}, traces)
    got = {
        row: (found[row or "none", "it"]["outcome"], found[row or "none", "it"]["vacuous"])
        for row in table
    }
    assert got == table
    # The first B is quoted, and an A that comes later does not heal it.
    for row in ("B", "BA", "BAB"):
        assert found[row, "it"]["decisive_seq"] == 0
        assert found[row, "it"]["witness"]["events"][0] == 0


def test_values_of_another_type_neither_match_nor_fail_to(check: Check) -> None:
    """TMP-05."""
    payload = {"amount": "2500", "copies": "83", "flag": True}
    contracts = {
        "amount": {"never": {"type": "custom.pay", "where": {"amount": {"gte": 1000}}}},
        "copies": {"eventually": {"type": "custom.pay", "where": {"copies": {"gt": 250}}}},
        "flag": {"eventually": {"type": "custom.pay", "where": {"flag": {"gte": 1}}}},
    }
    run: list[Event] = [("custom.pay", payload), ("run_finished", {})]
    found = check(contracts, {"r": run})
    for name, types in (("amount", "text"), ("copies", "text"), ("flag", "boolean")):
        record = found["r", name]
        assert record["outcome"] == "indeterminate"
        assert record["causes"] == ["malformed_evidence"]
        assert types in json.dumps(record)
        assert "number" in json.dumps(record)
    members = {
        "true": {"eventually": {"type": "custom.pay", "where": {"x": {"in": [1]}}}},
    }
    for value, outcome in ((True, "fail"), ("1", "fail"), (1.0, "pass"), (1, "pass")):
        found = check(members, {"r": [("custom.pay", {"x": value}), ("run_finished", {})]})
        assert found["r", "true"]["outcome"] == outcome


def test_a_path_says_which_key_it_means(check: Check) -> None:
    """TMP-07."""
    payload = {
        "user.name": "A",
        "user": {"name": "B"},
        "items": [{"id": 1}, {"id": 2}],
        "0": "zero",
    }
    wanted: dict[str, tuple[str, Any]] = {
        "down": ("user.name", "B"),
        "quoted": ('["user.name"]', "A"),
        "index": ("items[1].id", 2),
        "past": ("items[7].id", {"exists": False}),
        "before": ("items[-7].id", {"exists": False}),
        "digit": ('["0"]', "zero"),
        "into-text": ("user.name.first", {"exists": False}),
    }
    contracts = {
        name: {"eventually": {"type": "custom.pay", "where": {path: matcher}}}
        for name, (path, matcher) in wanted.items()
    }
    found = check(contracts, {"r": [("custom.pay", payload), ("run_finished", {})]})
    assert {key[1]: record["outcome"] for key, record in found.items()} == dict.fromkeys(
        wanted, "pass"
    )


# -- verdicts ----------------------------------------------------------------------------------


def test_nothing_asserted_is_nothing_to_decide(project: Project) -> None:
    """SCO-01, the first two; the others: tests/test_handed_world.py."""
    assert "asserts nothing" in project.refused(ECHO)
    assert "asserts nothing" in project.refused(ECHO + "invariants: {}\n")
    for kind in ("llm_as_judge", "sql"):
        rule = {"description": "A rule", "check": {"type": kind}}
        assert "invariants.it.check" in project.refused(echo(invariants={"it": rule}))
    assert "'type' is missing" in project.refused(echo(environment={"services": {"db": {}}}))


def weighed(*weights: Any, fails: Sequence[int] = (), threshold: Any = 0.5) -> str:
    rows = [ECHO, "invariants:\n"]
    for index, weight in enumerate(weights):
        primitive = "never" if index in fails else "eventually"
        rows.append(
            f"  i{index}: {{description: A rule, weight: {weight},"
            f" check: {{type: trace, assert: {{{primitive}: {{type: run_finished}}}}}}}}\n"
        )
    return "".join([*rows, f"scoring: {{pass_threshold: {threshold}}}\n"])


@pytest.mark.parametrize(
    "weights", [("0", "0"), ("1", "-1"), (".nan", "1"), (".inf", "1"), ('"2"', "1")]
)
def test_weights_that_weigh_nothing_are_refused(project: Project, weights: tuple[str, ...]) -> None:
    """SCO-02, the first five."""
    assert "weight" in project.refused(weighed(*weights))


def test_weights_are_summed_exactly(project: Project) -> None:
    """SCO-02, the last three."""
    result = project.run(weighed("0", "1", fails=(0,)))
    assert result.finding("score").outcome.word == "pass"
    assert result.finding("i0").outcome.word == "fail"
    assert next(item for item in result.outcome.case.items if item.id == "i0").informational
    result = project.run(weighed("0.7", "0.1", "0.2", fails=(2,), threshold="0.8"))
    assert result.composite == {"low": "0.8", "high": "0.8", "threshold": "0.8", "raw": None}
    assert result.finding("score").outcome.word == "pass"
    result = project.run(weighed("0.3", "0.3", "0.2", fails=(2,), threshold="0.75"))
    assert result.finding("score").outcome.word == "pass"
    assert result.composite is not None
    assert result.composite["low"] == "0.75"


def test_no_weight_outvotes_a_gate(project: Project, session: Session) -> None:
    """SCO-04."""
    invariants = {"gate": BROKEN | {"gate": True}, "words": HELD | {"weight": 100}}
    scenario = echo(invariants=invariants, scoring={"pass_threshold": 0.5})
    result = project.run(scenario)
    assert result.verdict == "invalid"
    assert result.outcome.judgement.primary == "gate"
    assert result.composite is not None
    assert (result.composite["low"], result.composite["high"]) == ("0", "0")
    ran = session("-rs", files={"scenarios/s.yaml": scenario})
    assert ran.counts == {"failed": 1, "passed": 3, "skipped": 1}
    assert "INVALID scenarios/s.yaml::default\n  gate: " in ran.text
    scenario["invariants"]["gate"] = OPEN | {"gate": True}
    assert project.run(scenario).verdict == "indeterminate"


@pytest.mark.parametrize(
    "words", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow), ("-p", "no:terminal")]
)
def test_every_verdict_reaches_the_exit_status(session: Session, words: tuple[str, ...]) -> None:
    """SCO-05, in part otherwise by design: what is undecided and weighted, or exploratory, is a

    `skipped` of pytest's XML, which has no other state that does not fail; the property and the
    summary count it as indeterminate. SARIF reports are not in this version.
    """
    tags = {}
    for name, files in {
        "violated": {"scenarios/s.yaml": echo(invariants={"it": BROKEN})},
        "undecided": {"scenarios/s.yaml": echo(invariants={"it": OPEN})},
        "unloadable": {"scenarios/s.yaml": echo(), "scenarios/t.yaml": "evarness: 1\n"},
    }.items():
        ran = session(*words, "--junitxml=j.xml", files=files)
        assert ran.code == 1
        cases = ET.parse(ran.root / "j.xml").iter("testcase")
        tags[name] = sorted(
            child.tag for case in cases for child in case if child.tag != "properties"
        )
        assert ran.holds is (False if name == "violated" else None)
    assert tags == {"violated": ["failure"], "undecided": ["error"], "unloadable": ["error"]}


def test_an_answer_with_terminal_bytes_leaves_the_report_readable(session: Session) -> None:
    """REP-01; depth: tests/plugin/test_output.py and tests/report/test_junit.py."""
    text = (
        '"a\\u0000b\\u0001c\\u000bd\\u001b[31mred\\u001b[0m e\\ufffe\\uffff \\U0001f600'
        ' \\u007f\\u0085 ]]> & < \\""'
    )
    scenario = ECHO + (
        f"invariants:\n  it:\n    description: {text}\n    check: {{type: trace, assert: "
        "{never: {type: run_finished}}}\n"
        f"environment: {{user_input: {text}}}\nexpect: {{output: {{contains: nothing}}}}\n"
    )
    ran = session(
        "--junitxml=j.xml",
        "--evarness-junit=ours.xml",
        files={"scenarios/s.yaml": scenario, "scenarios/t.yaml": echo()},
    )
    assert ran.code == 1
    lxml = pytest.importorskip("lxml.etree")
    for name in ("j.xml", "ours.xml"):
        data = (ran.root / name).read_bytes()
        lxml.fromstring(data)
        root = ET.fromstring(data)
        assert len(list(root.iter("testcase"))) == 5
        shown = "".join(root.itertext())
        assert "a\\x00b\\x01c\\x0bdred e\\ufffe\\uffff \U0001f600" in shown
        assert ']]> & < "' in shown
        assert "[31m" not in shown


# -- xdist -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_forty_files_in_any_order_are_collected_alike(session: Session) -> None:
    """XDI-01; hash seeds in processes of their own."""
    pytest.importorskip("xdist")
    numbers = list(range(40))
    random.Random(7).shuffle(numbers)
    files: dict[str, Any] = {}
    for number in numbers:
        name = f"scenarios/{'abc'[number % 3]}/s{number:02}.yaml"
        files[name] = echo(id=f"s{number}", matrix={"seed": [1, 2], "schedule": ["canonical"]})
    files["scenarios/c/s05.yaml"] = "evarness: 1\n"

    def facts(ran: Ran) -> tuple[Any, ...]:
        seal = ran.predicate["seal"]
        assert "Different tests were collected" not in ran.text
        assert ran.text.count("ERROR at setup of load") == 1
        return seal["plan"], seal["broken"], ran.digests(), counts_of(ran.text)

    alone = session("-n", "0", files=files)
    assert alone.code == 1
    found = [facts(alone)]
    for seed in ("0", "1"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONHASHSEED", seed)
            found.append(facts(session("-n", "4", subprocess=True)))
    assert found[0] == found[1] == found[2]
    assert len(found[0][2]) == 39 * 2


# -- proof bundles -----------------------------------------------------------------------------


@pytest.fixture
def bundle(project: Project, capsys: pytest.CaptureFixture[str]) -> Path:
    """A genuine bundle that holds, its key beside it."""
    assert cli.main(["keygen", str(project.root / "key.pem")]) == 0
    capsys.readouterr()
    result = project.run(echo(invariants={"it": HELD}))
    return result.bundle(project.root / "proof.json", key=project.root / "key.pem")


def envelope(value: Mapping[str, Any]) -> bytes:
    """As the file has it, so that it is the content that is refused and not the form."""
    return canonical_bytes(value) + b"\n"


def verify(path: Path, *words: str) -> int:
    return cli.main(["verify", str(path), *words])


def test_what_the_bundle_does_not_cover_is_refused(bundle: Path) -> None:
    """PRF-01; a bundle is one file, so an unlisted member is a key that nobody knows."""
    key = f"--key={bundle.parent / 'key.pem.pub'}"
    assert verify(bundle, key) == 0
    genuine = json.loads(bundle.read_text())
    for extra in (
        {"artifacts/evil.json": "{}"},
        {"DS_Store": None},
        {"payload ": genuine["payload"]},
        {"Payload": genuine["payload"]},
    ):
        bundle.write_bytes(envelope(genuine | extra))
        assert verify(bundle, key) == 1
    for name in genuine:
        bundle.write_bytes(envelope({k: v for k, v in genuine.items() if k != name}))
        assert verify(bundle, key) == 1
    bundle.write_bytes(envelope(genuine))
    assert verify(bundle, key) == 0


def test_only_a_pinned_key_makes_a_bundle_genuine(
    bundle: Path, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """PRF-02."""
    trusted = f"--key={bundle.parent / 'key.pem.pub'}"
    assert cli.main(["keygen", str(project.root / "attacker.pem")]) == 0
    result = project.run(echo(invariants={"it": HELD}))
    forged = result.bundle(project.root / "forged.json", key=project.root / "attacker.pem")
    assert [verify(forged), verify(forged, trusted)] == [4, 1]
    capsys.readouterr()
    assert verify(bundle) == 4
    unknown = capsys.readouterr().out.lower()
    assert verify(bundle, trusted) == 0
    verified = capsys.readouterr().out.lower()
    assert "unknown origin" in unknown
    assert "unknown origin" not in verified
    stripped = json.loads(bundle.read_text()) | {"signatures": []}
    bundle.write_bytes(envelope(stripped))
    assert verify(bundle, trusted) == 1
    assert verify(bundle) != 0


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key in value for leaf in leaves(value[key], (*path, key))]
    if isinstance(value, list):
        return [leaf for index, one in enumerate(value) for leaf in leaves(one, (*path, index))]
    return [path]


def test_no_value_of_a_bundle_is_decoration(bundle: Path) -> None:
    """PRF-04; every value in turn, by the signer too: tests/bundle/test_mutation.py."""
    key = f"--key={bundle.parent / 'key.pem.pub'}"
    genuine = json.loads(bundle.read_text())
    statement = json.loads(base64.b64decode(genuine["payload"]))
    for path in leaves(statement)[::23]:
        changed = json.loads(json.dumps(statement))
        place = changed
        for part in path[:-1]:
            place = place[part]
        old = place[path[-1]]
        place[path[-1]] = (
            not old if isinstance(old, bool) else old + 1 if isinstance(old, int) else f"{old}x"
        )
        payload = base64.b64encode(canonical_bytes(changed)).decode("ascii")
        bundle.write_bytes(envelope(genuine | {"payload": payload}))
        assert verify(bundle, key) == 1, path
    data = envelope(genuine)
    for position in range(0, len(data), 9_700):
        flipped = bytearray(data)
        flipped[position] ^= 1
        bundle.write_bytes(bytes(flipped))
        assert verify(bundle, key) == 1, position


def test_two_readers_cannot_see_two_bundles(bundle: Path) -> None:
    """PRF-05; a bundle is no archive, so two members of one name are a repeated key."""
    key = f"--key={bundle.parent / 'key.pem.pub'}"
    genuine = bundle.read_text().strip()
    other = json.dumps(json.loads(genuine)["payload"])
    for text in (
        genuine[:-1] + f', "payload": {other}}}',
        f'{{"payload": "e30=", {genuine[1:]}',
        genuine + genuine,
        genuine + "\n{}",
        "PK\x03\x04" + genuine,
    ):
        bundle.write_text(text)
        assert verify(bundle, key) == 1


# -- held elsewhere ----------------------------------------------------------------------------

HELD_BY = {
    "FIL-01": (
        "tests/plugin/test_files_and_commands.py::test_fil_01_a_dangling_link_fails_every_check_of_its_path",
        "tests/checks/test_files.py::test_a_dangling_link_is_neither_there_nor_absent_and_is_named",
        "tests/checks/test_files.py::test_a_directory_is_no_file_and_never_absent",
    ),
    "FIL-02": (
        "tests/plugin/test_files_and_commands.py::test_fil_02_every_path_outside_is_refused_by_name",
        "tests/scenarios/test_renewal_mail.py::test_nothing_was_written_beside_the_workspace",
    ),
    "FIL-04": ("tests/checks/test_content.py::test_patterns_are_searched_in_the_whole_text",),
    "FIL-05": (
        "tests/checks/test_content.py::test_without_a_file_every_condition_fails",
        "tests/plugin/test_files_and_commands.py::test_fil_05_a_check_of_what_no_file_says_fails_without_the_file",
        "tests/plugin/test_files_and_commands.py::test_fil_05_a_command_that_could_not_start_is_told_on_its_own",
    ),
    "FIL-07": ("tests/checks/test_content.py::test_line_ends_are_left_as_they_are",),
    "CMD-01": (
        "tests/plugin/test_files_and_commands.py::test_cmd_01_and_03_what_runs_past_its_limit_is_undecided_and_gone",
    ),
    "CMD-03": (
        "tests/plugin/test_files_and_commands.py::test_cmd_01_and_03_what_runs_past_its_limit_is_undecided_and_gone",
        "tests/plugin/test_files_and_commands.py::test_cmd_03_and_04_what_ended_otherwise_is_said",
        "tests/plugin/test_files_and_commands.py::test_cmd_03_a_code_that_cannot_be_does_not_load",
    ),
    "CMD-04": (
        "tests/plugin/test_files_and_commands.py::test_cmd_03_and_04_what_ended_otherwise_is_said",
    ),
    "SQL-01": ("tests/checks/test_sql.py::test_the_verdict_is_the_same_on_every_engine",),
    "SQL-02": (
        "tests/checks/test_sql.py::test_a_decimal_is_compared_by_its_digits",
        "tests/checks/test_sql.py::test_a_binary_float_is_shown_in_full",
    ),
    "SQL-03": ("tests/checks/test_sql.py::test_the_verdict_is_the_same_on_every_engine",),
    "SQL-06": (
        "tests/checks/test_sql.py::test_the_verdict_is_the_same_on_every_engine",
        "tests/checks/test_http.py::test_two_sides_that_differ_never_look_alike",
    ),
    "HTTP-01": ("tests/checks/test_http.py::test_a_body_is_equal_or_it_is_not",),
    "HTTP-03": ("tests/checks/test_http.py::test_a_count_of_zero_is_a_count",),
    "HTTP-05": (
        "tests/plugin/test_http.py::test_an_unexpected_request_does_not_go_unnoticed",
        "tests/plugin/test_http.py::test_a_request_in_flight_when_the_run_ends_is_counted",
    ),
    "JDG-01": (
        "tests/checks/test_llm_judge.py::test_eight_answers_of_which_only_the_last_passes",
        "tests/plugin/test_judges.py::test_an_answer_decides_its_item_and_the_others_are_judged_all_the_same",
    ),
    "JDG-03": ("tests/checks/test_llm_judge.py::test_a_text_that_forges_a_verdict_gains_nothing",),
    "JDG-04": (
        "tests/plugin/test_files_and_commands.py::test_jdg_04_no_script_hides_another_and_none_is_scraped",
    ),
    "REP-02": (
        "tests/plugin/test_files_and_commands.py::test_rep_02_a_report_of_much_output_is_accepted",
    ),
    "REP-06": (
        "tests/test_handed_world.py::test_a_secret_is_in_no_artifact",
        "tests/test_handed_world.py::test_a_secret_that_is_none_is_refused",
    ),
    "XDI-03": (
        "tests/test_handed_world.py::test_workers_share_neither_database_nor_journal",
        "tests/plugin/test_databases.py::test_workers_share_no_database_and_no_name_reaches_a_digest",
        "tests/plugin/test_http.py::test_services_of_workers_do_not_meet",
    ),
    "XDI-04": (
        "tests/world/sql/test_server.py::test_init_may_take_its_time",
        "tests/world/sql/test_server.py::test_a_server_that_is_not_ready_yet_is_waited_for",
        "tests/world/sql/test_server.py::test_one_that_never_comes_up_is_told_with_its_last_words",
        "tests/world/sql/test_embedded.py::test_a_user_who_ends_while_it_starts_leaves_nothing",
        "tests/plugin/test_databases.py::test_a_server_that_never_comes_up_is_nobody_s_failure",
    ),
    "DET-04": ("tests/test_handed_world.py::test_both_runs_and_both_looks_are_the_first",),
    "SCO-01": ("tests/test_handed_world.py::test_what_nobody_could_judge_is_no_success",),
    "SCO-04": ("tests/test_handed_world.py::test_the_right_words_do_not_outvote_the_wrong_row",),
}
"""Which tests hold a case to its right value."""


def functions(name: str) -> set[str]:
    """Names of the tests of a file."""
    tree = ast.parse((Path(__file__).parents[1] / name).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("case", HELD_BY)
def test_the_tests_that_hold_a_case_are_there(case: str) -> None:
    for nodeid in HELD_BY[case]:
        name, _, function = nodeid.partition("::")
        assert function in functions(name), nodeid


def test_a_test_that_is_gone_would_be_missed() -> None:
    assert "test_a_test_that_was_never_there" not in functions("tests/test_handed.py")
    assert "test_a_test_that_is_gone_would_be_missed" in functions("tests/test_handed.py")

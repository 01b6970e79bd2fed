"""Hostile and huge texts reach the terminal and pytest's own XML escaped, whole lines, bounded."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

import pytest

from tests.plugin.scenarios import BROKEN, HELD, OPEN, echo, gated, graph, traced

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugin.ran import Session

HOSTILE = 'a\x00b\x01c\x0bd\x1b[31mred\x1b[0m e\ufffe\uffff \U0001f600 \x7f\x85 ]]> & < " \u202e'
ESCAPED = 'a\\x00b\\x01c\\x0bdred e\\ufffe\\uffff \U0001f600 \\x7f\\x85 ]]> & < "'


def test_control_characters_and_colour_of_a_description_are_escaped(session: Session) -> None:
    rule = traced({"never": {"type": "run_finished"}}, HOSTILE)
    text = json.dumps(echo(description=HOSTILE, invariants={"it": rule}), ensure_ascii=True)
    text = text.replace("\\ud83d\\ude00", "\\U0001f600")  # as YAML has it
    ran = session("--junitxml=j.xml", "-v", files={"scenarios/a.yaml": text})
    assert ran.code == 1
    assert ESCAPED in ran.text
    # What pytest itself writes with color=no has no escape either.
    assert "\x1b" not in ran.text
    assert "[31m" not in ran.text
    cases = read(ran.root / "j.xml")
    (failure,) = cases["it"].iter("failure")
    # Before pytest 8.1 its own writer escapes what lies beyond the basic plane.
    assert ESCAPED.split(" \U0001f600")[0] in (failure.text or "")


def test_a_tool_result_that_tries_to_speak_to_the_terminal_does_not(session: Session) -> None:
    scenario = echo(
        subject={
            "graph": graph(
                ("n1", "input", {}),
                ("n2", "tool", {"tool": "web.search", "approve_side_effects": True}),
                ("n3", "output", {}),
            )
        },
        environment={"tools": {"web.search": [{"result": HOSTILE}]}},
        expect={"status": "completed", "output": {"contains": "never said"}},
    )
    text = json.dumps(scenario).replace("\\ud83d\\ude00", "\\U0001f600")
    ran = session(files={"scenarios/a.yaml": text})
    assert ran.counts == {"failed": 1, "passed": 1}
    assert "\x1b" not in ran.text
    assert "\x00" not in ran.text
    assert "[31m" not in ran.text


def test_colour_in_a_quoted_value_reaches_no_report(session: Session) -> None:
    scenario = echo(
        environment={"user_input": "a \x1b[31mred\x1b[0m b"},
        expect={"status": "completed", "output": {"contains": "\x1b[1mnever\x1b[0m said"}},
        invariants={
            "it": traced(
                {"never": {"type": "run_started", "where": {"input": {"contains": "red"}}}}
            )
        },
    )
    words = ("--junitxml=j.xml", "--evarness-junit=ours.xml", "-vv")
    ran = session(*words, files={"scenarios/a.yaml": scenario})
    assert ran.code == 1
    for text in (ran.text, *((ran.root / name).read_text() for name in ("j.xml", "ours.xml"))):
        assert "red" in text
        assert "[31m" not in text
        assert "[0m" not in text


def read(path: Path) -> dict[str, ET.Element]:
    """The test cases of an XML report by name, read by two strict readers."""
    lxml = pytest.importorskip("lxml.etree")
    data = path.read_bytes()
    parser = expat.ParserCreate()
    parser.Parse(data, True)
    lxml.fromstring(data)  # at its default limits
    return {case.get("name", ""): case for case in ET.fromstring(data).iter("testcase")}


def properties(case: ET.Element) -> dict[str, str]:
    return {entry.get("name", ""): entry.get("value", "") for entry in case.iter("property")}


def test_the_xml_of_pytest_tells_the_outcomes_apart(session: Session) -> None:
    scenario = echo(
        invariants={
            "held": HELD | {"weight": 1.0},
            "missed": BROKEN | {"weight": 0.5},
            "undecided": OPEN | {"weight": 0.25},
            "gate": OPEN | {"gate": True, "severity": "critical"},
            "broken": BROKEN | {"gate": True},
        },
        scoring={"pass_threshold": 0.5},
    )
    ran = session("--junitxml=j.xml", files={"scenarios/a.yaml": scenario})
    cases = read(ran.root / "j.xml")
    kinds = {
        name: [child.tag for child in case if child.tag != "properties"]
        for name, case in cases.items()
    }
    assert kinds == {
        "reproduces": [],
        "expect": [],
        "held": [],
        "missed": ["skipped"],
        "undecided": ["skipped"],
        "gate": ["error"],
        "broken": ["failure"],
        "score": ["skipped"],
    }
    messages = {name: case[-1].get("message", "") for name, case in cases.items() if kinds[name]}
    assert messages["missed"].startswith("missed ")
    assert messages["undecided"].startswith("indeterminate (malformed_evidence): ")
    assert (cases["gate"][-1].text or "").startswith("indeterminate (malformed_evidence): ")
    assert messages["score"].startswith("skipped: invalid, the gate 'broken' failed")
    digest = ran.digests()["scenarios/a.yaml::default"]
    assert properties(cases["gate"]) == {
        "evarness.outcome": "indeterminate",
        "evarness.vacuous": "false",
        "evarness.gate": "true",
        "evarness.weight": "1",
        "evarness.severity": "critical",
        "evarness.causes": "malformed_evidence",
        "evarness.fault": "evidence",
        "evarness.label": "detection-only",
        "evarness.trace_digest": digest,
    }
    assert properties(cases["missed"])["evarness.score"] == "0"
    assert all(properties(case)["evarness.trace_digest"] == digest for case in cases.values())


def test_a_vacuous_pass_and_a_broken_file_are_told_by_their_property(session: Session) -> None:
    files = {"scenarios/g.yaml": gated(), "scenarios/bad.yaml": "evarness: 1\n"}
    ran = session("--junitxml=j.xml", files=files)
    cases = read(ran.root / "j.xml")
    assert properties(cases["load"]) == {"evarness.outcome": "load"}
    assert [child.tag for child in cases["load"]] == ["properties", "error"]
    assert "required key 'subject' is missing" in (cases["load"][-1].text or "")
    vacuous = {
        name for name, case in cases.items() if properties(case).get("evarness.vacuous") == "true"
    }
    assert vacuous


def test_huge_texts_are_cut_in_the_middle_and_say_so(session: Session) -> None:
    huge = "0123456789abcdef" * 20_000
    scenario = echo(
        environment={"user_input": huge + "END"},
        invariants={
            f"it-{number}": traced({"never": {"type": "run_finished"}}, huge) for number in range(8)
        },
        expect={"output": {"contains": "never said"}},
    )
    scenario["expect"]["status"] = "completed"
    files: dict[str, Any] = {"scenarios/a.yaml": scenario}
    ran = session("--junitxml=j.xml", "--evarness-junit=ours.xml", files=files)
    assert ran.code == 1, ran.text[:3000]
    for name in ("j.xml", "ours.xml"):
        assert (ran.root / name).stat().st_size < 2_000_000
        read(ran.root / name)
    assert "characters left out; the bundle has it" in ran.text
    assert len(ran.text) < 1_000_000


def test_many_mistakes_of_one_file_are_bounded(session: Session) -> None:
    lines = "".join(f"unknown-{number}: 1\n" for number in range(5000))
    ran = session("--junitxml=j.xml", files={"scenarios/a.yaml": "evarness: 1\n" + lines})
    assert ran.code == 1
    assert (ran.root / "j.xml").stat().st_size < 200_000
    read(ran.root / "j.xml")


def test_ids_that_could_speak_to_a_terminal_do_not_load(session: Session) -> None:
    scenario = echo(invariants={"it\x1b[31m": HELD})
    ran = session(files={"scenarios/a.yaml": json.dumps(scenario)})
    assert ran.code == 1
    assert "\x1b" not in ran.text


def test_without_a_terminal_the_status_is_the_same(session: Session) -> None:
    files = {"scenarios/a.yaml": echo(invariants={"it": OPEN})}
    ran = session("-p", "no:terminal", "--junitxml=j.xml", files=files)
    assert ran.code == 1
    assert [child.tag for child in read(ran.root / "j.xml")["it"]] == ["properties", "error"]
    assert session("-p", "no:terminal", files={"scenarios/a.yaml": echo()}).code == 0


@pytest.mark.parametrize(
    "words", [("-q",), ("-qq",), ("-vv",), ("-rA",), ("--tb=no",), ("--tb=line",)]
)
def test_no_verbosity_hides_that_something_is_undecided(
    session: Session, words: tuple[str, ...]
) -> None:
    ran = session(*words, files={"scenarios/a.yaml": echo(invariants={"it": OPEN})})
    assert ran.code == 1
    # Its text stands where that of a failure would.
    assert ("= INDETERMINATE =" in ran.text) == ("--tb=no" not in words)
    assert ("  rule:      a rule of the tests" in ran.text) == ("--tb=" not in words[0])
    assert "INDETERMINATE scenarios/a.yaml::default::it - (malformed" in ran.text


def test_the_summary_leads_with_validity(session: Session) -> None:
    files = {
        "scenarios/a-valid.yaml": echo(
            invariants={"it": HELD | {"weight": 1.0}}, scoring={"pass_threshold": 0.5}
        ),
        "scenarios/b-open.yaml": gated(cases={"open": {"approvals": {}}}),
        "scenarios/c-bad.yaml": echo(invariants={"it": BROKEN | {"gate": True}, "also": BROKEN}),
    }
    ran = session(files=files)
    places = [
        ran.text.index(text)
        for text in (
            "INVALID scenarios/c-bad.yaml::default",
            "  it: event 6 is a run_finished: that must never happen",
            "    expected no run_finished",
            "    witness: event 6",
            "  related: also",
            "UNDECIDED scenarios/b-open.yaml::open",
            "VALID scenarios/a-valid.yaml::default, quality 1 (reaches the threshold 0.5)",
            "1 valid, 1 invalid, 1 indeterminate of 3 planned cases",
        )
    ]
    assert places == sorted(places)

"""A case becomes items in the documented order, each with its own outcome, letter and place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.scenarios import BROKEN, HELD, IDLE, OPEN, echo, gated

if TYPE_CHECKING:
    from tests.plugin.ran import Session


ARGUMENTS = pytest.mark.skipif(
    pytest.version_tuple < (8, 3), reason="-m takes no arguments of markers before pytest 8.3"
)


def invariants(**entries: dict[str, Any]) -> dict[str, Any]:
    return echo(invariants=entries)


def test_the_items_of_a_case_come_in_the_documented_order(session: Session) -> None:
    scenario = gated(
        scoring={"pass_threshold": 0.5},
        invariants={"zeta": {**HELD, "weight": 1.0}, "alpha": {**HELD, "gate": True}},
    )
    ran = session("--collect-only", "-q", files={"scenarios/gated.yaml": scenario})
    lines = [line for line in ran.text.splitlines() if line.startswith("scenarios/")]
    approve = [line.rsplit("::", 1)[1] for line in lines if "::approve::" in line]
    assert approve[:4] == ["reproduces", "expect", "zeta", "alpha"]
    assert set(approve[4:-1]) >= {"approval-precedes-send", "no-send-after-rejection"}
    assert approve[-1] == "score"
    assert ran.code == 0


def test_three_cases_pass_and_what_saw_nothing_is_vacuous(session: Session) -> None:
    ran = session(files={"scenarios/gated.yaml": gated()}, mirror=True)
    assert ran.code == 0, ran.text
    assert ran.counts == {"passed": 9, "vacuous": 9}
    assert "scenarios/gated.yaml ...vv...v.vv..vvvv" in ran.text
    assert "evarness: 9 passed, 9 vacuous" in ran.text
    assert "3 valid, 0 invalid, 0 indeterminate of 3 planned cases" in ran.text
    assert ran.holds is True


def test_a_wrong_expectation_fails_and_is_named_first(session: Session) -> None:
    ran = session(files={"scenarios/echo.yaml": echo(expect={"status": "blocked"})})
    assert ran.code == 1
    assert ran.counts == {"failed": 1, "passed": 1}
    assert "the run ended completed, not blocked" in ran.text
    assert "INVALID scenarios/echo.yaml::default" in ran.text
    assert ran.holds is False


@pytest.mark.parametrize(
    ("entry", "threshold", "letter", "code"),
    [
        ({**HELD}, None, ".", 0),
        ({**IDLE}, None, "v", 0),
        ({**BROKEN}, None, "F", 1),
        ({**OPEN}, None, "?", 1),
        ({**BROKEN, "gate": True}, 0.1, "F", 1),
        ({**OPEN, "gate": True}, 0.1, "?", 1),
        ({**HELD, "weight": 1.0}, 0.1, ".", 0),
        ({**IDLE, "weight": 1.0}, 0.1, "v", 0),
        ({**BROKEN, "weight": 1.0}, 0.1, "m", 0),
        ({**OPEN, "weight": 1.0}, 0.1, "?", 0),
        ({**BROKEN, "weight": 0}, 0.1, "m", 0),
    ],
)
def test_each_finding_has_its_letter_and_its_exit_status(
    session: Session, entry: dict[str, Any], threshold: float | None, letter: str, code: int
) -> None:
    scenario = invariants(it=entry)
    if threshold is not None:
        # A companion, weighty enough that `score` passes whatever becomes of the other.
        scenario["invariants"]["companion"] = {**HELD, "weight": 9.0}
        scenario["scoring"] = {"pass_threshold": threshold}
    ran = session(files={"scenarios/echo.yaml": scenario})
    (line,) = (line for line in ran.text.splitlines() if line.startswith("scenarios/echo.yaml "))
    letters = line.split()[1]
    assert letters[:3] == f"..{letter}", ran.text
    assert ran.code == code, ran.text


def test_a_blocking_indeterminate_ends_the_session_in_red(session: Session) -> None:
    ran = session("--color=yes", files={"scenarios/echo.yaml": invariants(it=OPEN)})
    assert ran.code == 1
    # pytest's own last line: red, though it knows no such category.
    assert "\x1b[31m=" in ran.text.splitlines()[-1]
    assert " error" not in ran.text.splitlines()[-1]
    plain = session("--color=yes", files={"scenarios/echo.yaml": invariants(it=HELD)})
    assert "\x1b[31m" not in plain.text


def test_what_pytest_does_not_print_is_printed(session: Session) -> None:
    scenario = echo(
        invariants={
            "open": OPEN | {"gate": True},
            "missed": BROKEN | {"weight": 1.0},
        },
        scoring={"pass_threshold": 0.5},
    )
    ran = session(files={"scenarios/echo.yaml": scenario})
    lines = ran.text.splitlines()
    assert any(
        line.startswith("INDETERMINATE scenarios/echo.yaml::default::open - ") for line in lines
    )
    assert any(
        line.startswith("MISSED scenarios/echo.yaml::default::missed - (weight 1)")
        for line in lines
    )
    assert "= INDETERMINATE =" in ran.text
    assert "malformed_evidence" in ran.text
    assert "UNDECIDED scenarios/echo.yaml::default" in ran.text
    assert ran.counts == {"indeterminate": 1, "missed": 1, "passed": 2, "skipped": 1}


def test_score_is_skipped_with_the_name_of_the_gate(session: Session) -> None:
    scenario = echo(
        expect={"status": "blocked"},
        invariants={"it": HELD | {"weight": 1.0}},
        scoring={"pass_threshold": 0.5},
    )
    ran = session("-rs", files={"scenarios/echo.yaml": scenario})
    assert ran.counts == {"failed": 1, "passed": 2, "skipped": 1}
    assert "skipped: invalid, the gate 'expect' failed" in ran.text
    assert ran.holds is False


@pytest.mark.parametrize(("threshold", "letters", "code"), [(0.5, "...m.", 0), (0.75, "...mF", 1)])
def test_a_missed_invariant_is_weighed_by_score_alone(
    session: Session, threshold: float, letters: str, code: int
) -> None:
    scenario = echo(
        invariants={"held": HELD | {"weight": 0.5}, "missed": BROKEN | {"weight": 0.5}},
        scoring={"pass_threshold": threshold},
    )
    ran = session(files={"scenarios/echo.yaml": scenario})
    assert f"scenarios/echo.yaml {letters} " in ran.text
    assert ran.code == code
    assert ran.holds is (code == 0)
    assert "quality 0.5" in ran.text


def test_exploratory_shows_an_indeterminate_gate_without_failing(session: Session) -> None:
    files = {"scenarios/echo.yaml": invariants(it=OPEN | {"gate": True}) | {"mode": "exploratory"}}
    ran = session(files=files)
    assert (ran.code, ran.holds) == (0, None)
    assert ran.counts == {"indeterminate": 1, "passed": 2}
    assert "0 valid, 0 invalid, 1 indeterminate" in ran.text
    # The option overrides the file, either way.
    assert session("--evarness-mode=release").code == 1


def test_exploratory_still_fails_what_failed(session: Session) -> None:
    ran = session("--evarness-mode=exploratory", files={"scenarios/e.yaml": invariants(it=BROKEN)})
    assert (ran.code, ran.holds) == (1, False)


def test_an_undeclared_pause_blocks_and_a_declared_one_is_an_end(session: Session) -> None:
    cases: dict[str, Any] = {"open": {"approvals": {}}}
    ran = session(files={"scenarios/gated.yaml": gated(cases=cases)})
    assert (ran.code, ran.holds) == (1, None)
    assert 'node n3 asks "' in ran.text
    cases["open"]["expect"] = {"status": "paused"}
    ran = session(files={"scenarios/gated.yaml": gated(cases=cases)})
    assert (ran.code, ran.holds) == (0, True)


def test_a_decision_from_the_command_line_reaches_its_case(session: Session) -> None:
    cases: dict[str, Any] = {"open": {"approvals": {}}}
    files = {"scenarios/gated.yaml": gated(cases=cases)}
    ran = session("--evarness-approve=open:n3=approve", files=files)
    assert (ran.code, ran.holds) == (0, True)
    ran = session("--evarness-approve=opne:n3=approve")
    assert ran.code == 4
    assert "no collected case has this id (got 'opne'; try: write 'open')" in ran.text


def test_every_vacuous_pass_counts_when_asked(session: Session) -> None:
    files = {"scenarios/echo.yaml": invariants(it=IDLE)}
    assert session(files=files).code == 0
    ran = session("--evarness-strict-vacuity")
    assert (ran.code, ran.holds) == (1, None)


SEEN = """
import pytest

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    import json
    for item in items:
        path, line, name = item.reportinfo()
        marks = sorted(mark.name for mark in item.iter_markers())
        print("SEEN " + json.dumps([item.nodeid, str(path), line, name, marks]))
"""


def test_an_item_points_at_its_line_under_a_name_without_dots(session: Session) -> None:
    text = json.dumps(
        echo(
            cases={"v1.2": {}},
            invariants={"rule.one": HELD, "other": BROKEN | {"weight": 0.5}},
            scoring={"pass_threshold": 0.1},
        ),
        indent=1,
    )
    files = {"scenarios/echo.yaml": text, "conftest.py": SEEN}
    ran = session("--collect-only", "-s", "-q", files=files)
    seen = [json.loads(line[5:]) for line in ran.text.splitlines() if line.startswith("SEEN ")]
    by_id = {entry[0].rsplit("::", 1)[1]: entry for entry in seen}
    nodeid, path, line, name, marks = by_id["rule.one"]
    assert nodeid == "scenarios/echo.yaml::v1.2::rule.one"
    assert path == str(ran.root / "scenarios/echo.yaml")
    assert text.splitlines()[line].strip().startswith('"rule.one"')
    assert name == "v1-2::rule-one"
    assert all("." not in entry[3] for entry in seen)
    assert marks == ["evarness", "evarness_contract", "weighted"]
    assert by_id["expect"][4] == ["evarness", "gate"]
    # The terminal shows the id as it is.
    assert "scenarios/echo.yaml::v1.2::rule.one" in session("-v").text


@pytest.mark.parametrize(
    "nodeid",
    [
        "größe::expect",
        "größe::negative[swapped draft/1]",
        "größe::регистр",
    ],
)
def test_a_printed_node_id_selects_its_item(session: Session, nodeid: str) -> None:
    scenario = echo(
        cases={"größe": {}}, invariants={"negative[swapped draft/1]": HELD, "регистр": HELD}
    )
    ran = session(f"scenarios/echo.yaml::{nodeid}", files={"scenarios/echo.yaml": scenario})
    assert (ran.code, ran.counts) == (0, {"passed": 1})
    assert ran.holds is None


def test_only_registered_markers_are_set(session: Session) -> None:
    ran = session(
        "--strict-markers", "-W", "error", files={"scenarios/gated.yaml": gated(tags=["a-b.c"])}
    )
    assert ran.code == 0
    assert "@pytest.mark.gate(severity)" in session("--markers").text


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (("-m", "gate"), 4),
        pytest.param(("-m", "gate(severity='minor')"), 1, marks=ARGUMENTS),
        (("-m", "weighted"), 1),
        (("-m", "evarness"), 6),
        pytest.param(("-m", "evarness_contract(id='soft')"), 1, marks=ARGUMENTS),
        (("-k", "governance and expect"), 1),
        (("-k", "hard.one"), 1),
    ],
)
def test_markers_and_tags_select(session: Session, words: tuple[str, ...], number: int) -> None:
    scenario = echo(
        tags=["governance"],
        invariants={
            "hard.one": HELD | {"gate": True, "severity": "minor"},
            "hard-two": HELD | {"gate": True},
            "soft": HELD | {"weight": 1.0},
        },
        scoring={"pass_threshold": 0.5},
    )
    ran = session(*words, files={"scenarios/echo.yaml": scenario})
    assert (ran.code, ran.counts["passed"]) == (0, number)

"""A session of a part says so: a broken file is never passed over, and the bundle does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.scenarios import BROKEN, HELD, echo, gated

if TYPE_CHECKING:
    from tests.plugin.ran import Session

BAD = "evarness: 1\nid: bad\nsubjekt: {}\n"
TWO = {"scenarios/bad.yaml": BAD, "scenarios/good.yaml": echo()}
PLAIN = "def test_it():\n    pass\n\ndef test_other():\n    pass\n"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("-m", "gate"),
        ("-m", "not gate"),
        ("-m", "not evarness"),
        ("-k", "expect"),
        ("-k", "nothing_has_this_name"),
        ("--deselect", "scenarios/bad.yaml::load"),
        ("--deselect", "scenarios/bad.yaml"),
        ("--lf",),
        ("--ff",),
        ("-x",),
        ("-p", "no:terminal"),
        ("-p", "no:xdist"),
        ("--collect-only",),
        ("--collect-only", "-q", "-k", "expect"),
        ("--collect-only", "--continue-on-collection-errors"),
        ("--evarness-bundle=none",),
        ("--evarness-mode=exploratory",),
    ],
)
def test_a_broken_file_beside_a_good_one_is_never_green(
    session: Session, words: tuple[str, ...]
) -> None:
    ran = session(*words, files=TWO)
    assert ran.code in (1, 2)
    if "no:terminal" not in words:
        assert "scenarios/bad.yaml:3:1: unknown key (got 'subjekt'" in ran.text


def test_the_good_file_alone_is_green(session: Session) -> None:
    # The twin: it is the broken file that makes all those sessions red.
    ran = session("-m", "gate", files={"scenarios/good.yaml": echo()})
    assert ran.code == 0


def test_the_other_files_of_a_session_still_run(session: Session) -> None:
    ran = session(files=TWO)
    assert ran.counts == {"error": 1, "passed": 2}
    assert "BROKEN scenarios/bad.yaml:" in ran.text
    assert [row["file"] for row in ran.predicate["seal"]["broken"]] == ["scenarios/bad.yaml"]
    assert ran.holds is None


def test_a_file_that_breaks_after_the_last_failure_is_seen_by_lf(session: Session) -> None:
    files = {"scenarios/good.yaml": echo(), "a_test.py": "def test_it():\n    assert 0\n"}
    words = ("-o", "python_files=*_test.py")
    assert session(*words, files=files).code == 1
    # pytest looks only into files with a failure; the new one has never been looked into.
    files = {"scenarios/zbad.yaml": BAD, "a_test.py": "def test_it():\n    pass\n"}
    ran = session(*words, "--lf", files=files)
    assert ran.code == 1
    assert "BROKEN scenarios/zbad.yaml" in ran.text
    ran = session(*words, "--lf", "--collect-only")
    assert ran.code != 0


def test_what_lf_passes_over_is_in_the_plan(session: Session) -> None:
    files = {
        "scenarios/a.yaml": echo(invariants={"it": BROKEN}),
        "scenarios/b.yaml": echo(),
        "a_test.py": "def test_it():\n    assert 0\n",
    }
    assert session("-o", "python_files=*_test.py", files=files).code == 1
    files = {"a_test.py": PLAIN, "scenarios/a.yaml": echo(invariants={"it": HELD})}
    ran = session("-o", "python_files=*_test.py", "--lf", files=files)
    assert ran.code == 0
    assert [case["file"] for case in ran.plan] == ["scenarios/a.yaml", "scenarios/b.yaml"]
    assert {item["why"] for item in ran.plan[1]["items"]} == {"deselected by --lf"}
    assert ran.holds is None


def test_lf_runs_the_failed_item_again_and_ff_runs_it_first(session: Session) -> None:
    scenario = echo(invariants={"it": BROKEN})
    assert session(files={"scenarios/a.yaml": scenario, "scenarios/b.yaml": echo()}).code == 1
    again = session("--lf")
    assert again.counts["failed"] == 1
    assert "passed" not in again.counts
    first = session("--ff", "-v")
    shown = [line.split()[0] for line in first.text.splitlines() if "::" in line and "%]" in line]
    assert shown[0] == "scenarios/a.yaml::default::it"
    assert len(shown) == 5


def test_an_item_with_a_finding_undecided_is_a_failure_to_lf(session: Session) -> None:
    cases: dict[str, Any] = {"open": {"approvals": {}}}
    assert session(files={"scenarios/g.yaml": gated(cases=cases)}).code == 1
    ran = session("--lf")
    assert ran.counts["indeterminate"] == 5
    assert ran.counts["deselected"] == 1


def test_stepwise_stops_at_the_first_failure_and_goes_on_from_it(session: Session) -> None:
    files = {"scenarios/a.yaml": echo(invariants={"it": BROKEN}), "scenarios/b.yaml": echo()}
    first = session("--sw", files=files)
    assert first.code == 2
    assert first.counts == {"failed": 1, "passed": 2}
    files["scenarios/a.yaml"] = echo(invariants={"it": HELD})
    again = session("--sw", files=files)
    assert (again.code, again.counts) == (0, {"passed": 3, "deselected": 2})
    assert again.holds is None


def test_x_stops_and_the_bundle_lists_what_did_not_run(session: Session) -> None:
    files = {"scenarios/a.yaml": echo(invariants={"it": BROKEN}), "scenarios/b.yaml": echo()}
    ran = session("-x", files=files)
    assert ran.code == 1
    assert "1 valid, 0 invalid, 0 indeterminate of 2 planned cases (1 not run)" in ran.text
    assert [case["nodeid"] for case in ran.predicate["cases"]] == ["scenarios/a.yaml::default"]
    assert ran.holds is False


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-k", "approval-precedes-send"), "deselected by -k approval-precedes-send"),
        (("-m", "evarness_contract"), "deselected by -m evarness_contract"),
        (("--deselect", "scenarios/g.yaml::reject::expect"), "deselected by --deselect"),
        (("scenarios/g.yaml::approve::expect",), "deselected by single node ids"),
        (("scenarios/g.yaml::approve",), "deselected by single node ids"),
    ],
)
def test_a_session_that_left_items_out_does_not_hold_and_says_why(
    session: Session, words: tuple[str, ...], why: str
) -> None:
    ran = session(*words, files={"scenarios/g.yaml": gated()})
    assert (ran.code, ran.holds) == (0, None)
    items = [item for case in ran.plan for item in case["items"]]
    left_out = [item for item in items if not item["selected"]]
    assert {item["why"] for item in left_out} == {why}
    assert len(ran.plan) == 3
    assert len(items) == 18
    assert len(items) - len(left_out) == ran.counts["passed"] + ran.counts.get("vacuous", 0)


def test_one_selected_item_has_its_case_judged_whole(session: Session) -> None:
    files = {"scenarios/a.yaml": echo(invariants={"it": BROKEN, "fine": HELD})}
    ran = session("scenarios/a.yaml::default::fine", files=files)
    assert (ran.code, ran.counts) == (0, {"passed": 1})
    assert ran.findings("scenarios/a.yaml::default") == {
        "reproduces": "pass",
        "expect": "pass",
        "it": "fail",
        "fine": "pass",
    }
    # It cannot fail the session, and it does decide what the bundle says.
    assert "deselected but failing: scenarios/a.yaml::default::it" in ran.text
    assert ran.holds is False


def test_score_is_not_named_again_beside_the_gate_that_failed(session: Session) -> None:
    scenario = echo(
        expect={"status": "blocked"},
        invariants={"it": {**HELD, "weight": 1.0}},
        scoring={"pass_threshold": 0.5},
    )
    ran = session("-k", "reproduces", files={"scenarios/a.yaml": scenario})
    assert "deselected but failing: scenarios/a.yaml::default::expect\n" in ran.text


def test_naming_one_file_is_a_session_of_that_file(session: Session) -> None:
    files = {"scenarios/a.yaml": echo(), "scenarios/b.yaml": echo()}
    ran = session("scenarios/a.yaml", files=files)
    assert (ran.code, ran.holds, len(ran.plan)) == (0, True, 1)
    assert "evarness: 0.1.0, 1 scenario, 1 case, 0 contracts, " in ran.text


def test_collect_only_shows_every_item_and_runs_nothing(session: Session) -> None:
    ran = session("--collect-only", "-q", files={"scenarios/g.yaml": gated()})
    assert ran.code == 0
    assert sum(line.startswith("scenarios/g.yaml::") for line in ran.text.splitlines()) == 18
    assert not (ran.root / ".evarness").exists()


def test_durations_name_the_item_that_ran_its_case(session: Session) -> None:
    ran = session("--durations=0", "--durations-min=0", files={"scenarios/g.yaml": echo()})
    assert "s setup    scenarios/g.yaml::default::reproduces" in ran.text


def test_scenarios_and_ordinary_tests_share_a_session(session: Session) -> None:
    ran = session(files={"scenarios/a.yaml": echo(), "test_plain.py": PLAIN})
    assert (ran.code, ran.counts, ran.holds) == (0, {"passed": 4}, True)
    assert "evarness: 2 passed" in ran.text
    ran = session("-m", "not evarness")
    assert ran.counts == {"passed": 2, "deselected": 2}


def test_what_is_collected_follows_names_and_keys(session: Session) -> None:
    files = {
        "scenarios/deep/a.yml": echo(),
        "scenarios/fixtures/not.yaml": "x: 1\n",
        "scenarios/graphs/not.yaml": "x: 1\n",
        "scenarios/tools.yaml": "x: 1\n",
        "elsewhere/b.scenario.yaml": echo(),
        "elsewhere/c.yaml": "services: {}\n",
        "named.yaml": echo(),
    }
    ran = session("--collect-only", "-q", files=files)
    shown = sorted({line.split("::")[0] for line in ran.text.splitlines() if "::" in line})
    assert shown == ["elsewhere/b.scenario.yaml", "scenarios/deep/a.yml"]
    assert session("named.yaml").counts == {"passed": 2}
    assert session("elsewhere/c.yaml").code != 0
    (ran.root / "scenarios/keyless.yaml").write_text("x: 1\n")
    assert "no key evarness" in session("-q").text


def test_a_broken_library_is_an_item_of_its_own(session: Session) -> None:
    files = {"scenarios/a.yaml": echo(), "contracts/mine.yaml": "contracts: {one: {asert: {}}}\n"}
    ran = session("-m", "gate", files=files)
    assert ran.code == 1
    assert "contracts/mine.yaml" in ran.text
    assert "asert" in ran.text


def test_a_name_that_is_not_utf_8_is_told_and_crashes_nothing(session: Session) -> None:
    ran = session(files={"scenarios/a.yaml": echo()})
    (ran.root / "scenarios/b\udcff.yaml").write_text("evarness: 1\n")
    ran = session("-p", "no:cacheprovider")
    assert ran.code == 1
    assert "the file's name is not UTF-8" in ran.text
    assert ran.counts == {"error": 1, "passed": 2}

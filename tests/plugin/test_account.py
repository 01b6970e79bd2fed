"""The exit status follows the verdicts: no mark, hook or option of pytest makes a session green."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plugin.scenarios import BROKEN, HELD, OPEN, echo

if TYPE_CHECKING:
    from tests.plugin.ran import Session

MARK_ALL = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.{mark})
"""
MADE_GREEN = """
import pytest

@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
"""
NO_SETUP = """
def pytest_collection_modifyitems(items):
    for item in items:
        item.setup = item.runtest = lambda: None
"""
NO_RUN = NO_SETUP.replace("item.setup = ", "")
NO_PROTOCOL = "def pytest_runtest_protocol(item, nextitem):\n    return True\n"
DYNAMIC = "import pytest\n\ndef pytest_runtest_setup(item):\n    pytest.skip('no')\n"
EXIT = "import pytest\n\ndef pytest_runtest_setup(item):\n    pytest.exit('enough', returncode=0)\n"

NOT_JUDGED = "evarness: 1 case was to run and not judged: scenarios/s.yaml::default\n"
NOT_FAILING = "evarness: 1 finding fails the session, though no report says so"


@pytest.mark.parametrize(
    ("conftest", "words", "said"),
    [
        (MARK_ALL.format(mark="xfail"), (), NOT_FAILING),
        (MARK_ALL.format(mark="xfail(run=False)"), (), NOT_JUDGED),
        (MADE_GREEN, (), NOT_FAILING),
        (NO_SETUP, (), NOT_JUDGED),
        (NO_RUN, (), NOT_FAILING),
        (NO_PROTOCOL, (), NOT_JUDGED),
        (DYNAMIC, (), NOT_JUDGED),
        (EXIT, (), NOT_JUDGED),
        ("", ("--setup-only",), NOT_FAILING),
        ("", ("--setup-plan",), NOT_FAILING),
        pytest.param(MADE_GREEN, ("-n", "2"), NOT_FAILING, marks=pytest.mark.slow),
        pytest.param(NO_SETUP, ("-n", "2"), NOT_JUDGED, marks=pytest.mark.slow),
    ],
)
def test_a_failing_case_is_never_green(
    session: Session, conftest: str, words: tuple[str, ...], said: str
) -> None:
    files = {"conftest.py": conftest, "scenarios/s.yaml": echo(invariants={"it": BROKEN})}
    ran = session(*words, files=files)
    assert ran.code == 1, ran.text
    assert said in ran.text
    assert ran.holds is not True
    bare = session(*words, "--evarness-bundle=none")
    assert (bare.code, said in bare.text) == (1, True)
    # The twin: a case that holds, in the same session.
    ran = session(*words, files={"scenarios/s.yaml": echo(invariants={"it": HELD})})
    assert (ran.code == 0) == (said is NOT_FAILING), ran.text
    assert NOT_FAILING not in ran.text


@pytest.mark.parametrize("conftest", [MARK_ALL.format(mark="xfail"), MADE_GREEN])
def test_nor_is_one_that_is_undecided(session: Session, conftest: str) -> None:
    files = {"conftest.py": conftest, "scenarios/s.yaml": echo(invariants={"it": OPEN})}
    ran = session(files=files)
    assert ran.code == 1
    assert f"{NOT_FAILING} (a mark, an option or a hook changed it): scenarios/s.yaml" in ran.text
    # The twin: it decides nothing in this mode.
    assert session("--evarness-mode=exploratory").code == 0


def test_without_a_terminal_the_line_is_there_as_well(session: Session) -> None:
    files = {"conftest.py": NO_SETUP, "scenarios/s.yaml": echo()}
    ran = session("-p", "no:terminal", files=files)
    assert (ran.code, NOT_JUDGED.rstrip() in ran.text) == (1, True)


@pytest.mark.parametrize("mark", ["skip", "skip(reason='why')", "skipif(True, reason='why')"])
def test_what_a_mark_skips_counts_as_deselected(session: Session, mark: str) -> None:
    files = {
        "conftest.py": MARK_ALL.format(mark=mark),
        "scenarios/s.yaml": echo(invariants={"it": HELD}),
    }
    ran = session(files=files)
    assert (ran.code, ran.holds, ran.counts) == (0, None, {"skipped": 3})
    assert {item["why"] for item in ran.plan[0]["items"]} == {"skipped by a mark"}
    assert "skipped by a mark: scenarios/s.yaml::default::reproduces, " in ran.text
    assert "(1 not run)" in ran.text


def test_one_item_that_a_mark_skips_still_decides_what_the_bundle_says(session: Session) -> None:
    some = MARK_ALL.format(mark="skip").replace("for item in items", "for item in items[2:]")
    files = {"conftest.py": some, "scenarios/s.yaml": echo(invariants={"it": BROKEN})}
    ran = session(files=files)
    assert (ran.code, ran.holds) == (0, False)
    assert "deselected but failing: scenarios/s.yaml::default::it\n" in ran.text
    ran = session(files={"scenarios/s.yaml": echo(invariants={"it": HELD})})
    assert (ran.code, ran.holds) == (0, None)


@pytest.mark.parametrize("condition", ["False, reason='why'", "'False', reason='why'"])
def test_a_condition_that_pytest_alone_can_evaluate_promises_too_little(
    session: Session, condition: str
) -> None:
    conftest = MARK_ALL.format(mark=f"skipif({condition})")
    files = {"conftest.py": conftest, "scenarios/s.yaml": echo(invariants={"it": HELD})}
    ran = session(files=files)
    assert ran.counts == {"passed": 3}
    assert (ran.code, ran.holds) == (0, None if "'False'" in condition else True)


@pytest.mark.parametrize("words", [("-x",), ("--maxfail=1",)])
def test_a_session_that_stopped_needs_no_such_line(
    session: Session, words: tuple[str, ...]
) -> None:
    files = {
        "scenarios/a.yaml": echo(id="a", invariants={"it": BROKEN}),
        "scenarios/b.yaml": echo(id="b"),
    }
    ran = session(*words, files=files)
    assert ran.code == 1
    assert "to run and not judged" not in ran.text


def test_many_ids_are_listed_by_ten(session: Session) -> None:
    invariants = {f"it-{number}": BROKEN for number in range(13)}
    ran = session("-k", "expect", files={"scenarios/s.yaml": echo(invariants=invariants)})
    (line,) = (line for line in ran.text.splitlines() if "deselected but failing" in line)
    assert line.endswith("scenarios/s.yaml::default::it-9 and 3 more")
    assert line.count("::default::it-") == 10

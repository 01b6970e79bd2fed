"""Every example of the page on invariants that this product starts from, written as ours.

The scenarios stand in ``page/``; each test bends one and says what the verdict is then. What the
page counts, it counts in rounded figures: the exact ones stand here.
"""

from __future__ import annotations

import re
import shutil
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.registry import packaged_registry
from tests.checks.test_custom import needs_sandbox
from tests.scenarios.shipped import FILE, Change, every, found, odd, read, replica

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

PAGE = Path(__file__).with_name("page")
COMING = PAGE.parents[2] / "docs" / "coming-from-keystone.md"
SCRIPTS = {
    f"scenarios/checks/{path.name}": path.read_text("utf-8")
    for path in sorted((PAGE / "checks").glob("*.py"))
}
NPM = shutil.which("npm") is not None


def page(name: str) -> dict[str, Any]:
    scenario: dict[str, Any] = read(PAGE / f"{name}.yaml")
    return scenario


def run(session: Session, name: str, *changes: Change, files: Any = None) -> Ran:
    scenario = page(name)
    if name == "quality" and not NPM:
        # What `npm test` would run.
        scenario["invariants"]["tests_pass"]["check"]["command"] = "sh test.sh"
    for change in changes:
        change(scenario)
    return session("--evarness-unsigned", files={FILE: scenario, **SCRIPTS, **(files or {})})


def check(name: str, **fields: Any) -> Change:
    return lambda scenario: scenario["invariants"][name]["check"].update(fields)


def entry(name: str, **fields: Any) -> Change:
    return lambda scenario: scenario["invariants"][name].update(fields)


def without(*names: str) -> Change:
    def change(scenario: dict[str, Any]) -> None:
        for name in names:
            del scenario["invariants"][name]

    return change


def written(text: str) -> Change:
    return lambda scenario: scenario["environment"].update(user_input=text)


def as_it_is(scenario: dict[str, Any]) -> None:
    """Nothing is changed."""


# -- a gate, and what is nice to have ---------------------------------------------------------

GOOD = page("quality")["environment"]["user_input"]
LOGGED = written(f"{GOOD}console.log(total);\n")
LARGE = written(GOOD + "".join(f"export const n{n} = {n};\n" for n in range(60)))
BROKEN = written("export const sum = 1;\n")
# Neither is decided by a file or a command that could have told: an answer that never comes.
NO_ANSWER = {"type": "command_exit", "command": "sleep 600.79", "timeout": 0.4}


def unanswered(name: str) -> Change:
    return entry(name, check=dict(NO_ANSWER))


@pytest.mark.parametrize(
    ("change", "verdict", "composite", "expected", "code"),
    [
        pytest.param(as_it_is, "valid", ("1", "1", None), {}, 0, id="all-good"),
        pytest.param(
            LOGGED,
            "valid",
            ("0.8", "0.8", None),
            {"no_console_log": "fail", "score": "fail"},
            1,
            id="the-0.3-fails",
        ),
        pytest.param(
            LARGE,
            "valid",
            ("13/15", "13/15", None),
            {"small_diff": "fail"},
            0,
            id="the-0.2-fails",
        ),
        pytest.param(
            BROKEN,
            "invalid",
            ("0", "0", "1/3"),
            {"tests_pass": "fail", "score": "fail"},
            1,
            id="the-gate-fails",
        ),
        pytest.param(
            unanswered("no_console_log"),
            "valid",
            ("0.8", "1", None),
            every("evaluator_error", "no_console_log") | every("missing_evidence", "score"),
            1,
            id="the-0.3-is-not-known",
        ),
        pytest.param(
            unanswered("small_diff"),
            "valid",
            ("13/15", "1", None),
            every("evaluator_error", "small_diff"),
            0,
            id="the-0.2-is-not-known",
        ),
        pytest.param(
            unanswered("tests_pass"),
            "indeterminate",
            ("0", "1", None),
            every("evaluator_error", "tests_pass") | every("missing_evidence", "score"),
            1,
            id="the-gate-is-not-known",
        ),
    ],
)
def test_tests_pass_and_what_is_nice_to_have(
    session: Session,
    change: Change,
    verdict: str,
    composite: tuple[str, str, str | None],
    expected: dict[str, str],
    code: int,
) -> None:
    ran = run(session, "quality", change)
    assert odd(ran) == expected, ran.text
    got = replica(ran)
    assert got["verdict"] == verdict
    low, high, raw = composite
    numbers = [got["composite"][name] for name in ("low", "high", "raw")]
    assert [None if one is None else Fraction(one) for one in numbers] == [
        Fraction(low),
        Fraction(high),
        None if raw is None else Fraction(raw),
    ]
    assert ran.code == code
    assert ran.counts.get("skipped", 0) == (verdict != "valid")


def test_around_0_83_is_two_figures(session: Session) -> None:
    """The page says "around 0.83, fail" for either; one of them passes, and the docs say so."""
    text = COMING.read_text("utf-8")
    for words in ('"around 0.83, fail"', "| 0.8 | fail |", "13/15, shown as 0.8667 | pass |"):
        assert words in text
    small = run(session, "quality", LOGGED)
    assert "composite 0.8 is below the threshold 0.85" in found(small, "score")["reason"]
    large = run(session, "quality", LARGE)
    assert "composite 0.8667 reaches the threshold 0.85" in found(large, "score")["reason"]


def test_the_example_for_those_who_come_from_there(session: Session) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", COMING.read_text("utf-8"), re.DOTALL)
    ran = session("--evarness-unsigned", files={FILE: example})
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert odd(ran) == {"no_temp_files": "fail"}
    assert Fraction(replica(ran)["composite"]["low"]) == Fraction(13, 15)


def test_the_page_for_them_names_every_kind_of_check() -> None:
    text = COMING.read_text("utf-8")
    for kind in [*packaged_registry().check_types.names(), "trace", "contract"]:
        assert f"`{kind}`" in text


def test_a_gate_of_1_and_0_3_that_fails_is_0_77(session: Session) -> None:
    assert "a failing 0.3 gives 0.7692, a fail" in COMING.read_text("utf-8")
    ran = run(session, "quality", LOGGED, without("small_diff"))
    assert Fraction(replica(ran)["composite"]["low"]) == Fraction(10, 13)
    assert odd(ran) == {"no_console_log": "fail", "score": "fail"}
    assert "0.7692" in found(ran, "score")["reason"]
    assert ran.code == 1


def test_the_page_s_diff_of_nothing_ends_with_2(session: Session) -> None:
    unchanged = written("export const total = () => 0;\n")
    ran = run(session, "quality", unchanged)
    assert odd(ran) == {"small_diff": "fail"}
    assert found(ran, "small_diff")["reason"] == "exit code 2, not exit code 0"
    ran = run(session, "quality", unchanged, check("small_diff", exit_code=[0, 2]))
    assert (odd(ran), ran.code) == ({}, 0)


# -- state, requests, quality ---------------------------------------------------------------------


def act(position: int, kind: str, **fields: Any) -> Change:
    def change(scenario: dict[str, Any]) -> None:
        (tool,) = scenario["environment"]["tools"]["http.request"]
        tool["effects"][position][kind].update(fields)

    return change


def effects(keep: slice, times: int = 1) -> Change:
    def change(scenario: dict[str, Any]) -> None:
        (tool,) = scenario["environment"]["tools"]["http.request"]
        tool["effects"] = tool["effects"][keep] * times

    return change


UNGRADED = every("missing_evidence", "email_quality")


@pytest.mark.parametrize(
    ("change", "verdict", "expected", "code"),
    [
        pytest.param(as_it_is, "valid", {}, 0, id="all-good"),
        pytest.param(
            effects(slice(1, 2)),
            "invalid",
            {"reconciliation_clean": "fail", **UNGRADED},
            1,
            id="not-reconciled",
        ),
        pytest.param(
            effects(slice(0, 1)),
            "valid",
            {"email_sent_once": "fail", **UNGRADED},
            1,
            id="not-reported",
        ),
        pytest.param(effects(slice(0, 2), 2), "valid", {"email_sent_once": "fail"}, 1, id="twice"),
        pytest.param(
            act(1, "http", body={"to": "sales@co", "body": "Dear finance team, done"}),
            "valid",
            {"email_sent_once": "fail"},
            1,
            id="to-somebody-else",
        ),
        pytest.param(written("yo, fixed it"), "valid", UNGRADED, 1, id="nobody-judges-it"),
        pytest.param(
            lambda scenario: scenario["environment"].update(judge=[{"scores": {"score": 0.69}}]),
            "valid",
            {"email_quality": "fail"},
            1,
            id="below-0.7",
        ),
    ],
)
def test_state_requests_and_quality(
    session: Session, change: Change, verdict: str, expected: dict[str, str], code: int
) -> None:
    # The page gives this example no threshold, so each invariant decides.
    ran = run(session, "state", change)
    assert odd(ran) == expected, ran.text
    assert (replica(ran)["verdict"], ran.code) == (verdict, code)
    assert replica(ran)["composite"] is None


def test_with_a_threshold_the_weights_0_5_0_3_and_0_2_decide(session: Session) -> None:
    def scored(scenario: dict[str, Any]) -> None:
        scenario["scoring"] = {"pass_threshold": 0.85}

    assert replica(run(session, "state", scored))["composite"]["low"] == "0.98"
    ran = run(session, "state", scored, effects(slice(0, 2), 2))
    assert replica(ran)["composite"]["low"] == "0.68"
    assert odd(ran) == {"email_sent_once": "fail", "score": "fail"}


def test_the_page_s_short_query_does_not_see_a_row_that_is_missing(session: Session) -> None:
    """``a.email != NULL`` is not true: only the longer query of the page finds a missing row."""

    def lacking(scenario: dict[str, Any]) -> None:
        db = scenario["environment"]["services"]["db"]
        db["init"] += "INSERT INTO customers_a VALUES (3, 'cy@co');"

    assert odd(run(session, "state", lacking)) == {}
    longer = page("kinds")["invariants"]["reconciliation_clean"]["check"]["query"]
    ran = run(session, "state", lacking, check("reconciliation_clean", query=longer))
    assert odd(ran) == {"reconciliation_clean": "fail", **UNGRADED}


def test_a_hosted_judge_is_refused_with_what_to_write(session: Session) -> None:
    ran = run(session, "state", check("email_quality", model="paragon-fast"))
    assert (ran.code, ran.counts) == (1, {"error": 1})
    assert "the model 'paragon-fast' cannot be asked: there is no hosted judge" in ran.text
    assert "known: sim; any other needs base_url" in ran.text


# -- a script of one's own ------------------------------------------------------------------------

SANDBOX = pytest.param("sandbox", marks=needs_sandbox)


def route(**fields: Any) -> Change:
    return lambda scenario: scenario["environment"]["services"]["api"]["routes"][1].update(fields)


@pytest.mark.parametrize("where", ["host", SANDBOX])
@pytest.mark.parametrize(
    ("change", "score"),
    [
        (as_it_is, "1"),
        (route(response={"id": 2}), "0.5"),
        (route(response="<html>"), "0.5"),
        (effects(slice(0, 1)), "1"),
        (effects(slice(0, 0)), "0"),
    ],
    ids=["whole", "no-status", "no-json", "one", "none"],
)
def test_a_script_reads_the_audit_log(
    session: Session, where: str, change: Change, score: str
) -> None:
    ran = run(session, "responses", change, check("answers_are_whole", runs_in=where))
    finding = found(ran, "answers_are_whole")
    assert (finding["outcome"], finding["score"]) == ("pass" if score == "1" else "fail", score)
    assert ran.code == (score != "1")


def test_a_part_of_the_answers_is_worth_a_part_of_the_weight(session: Session) -> None:
    def scored(scenario: dict[str, Any]) -> None:
        scenario["scoring"] = {"pass_threshold": 0.5}

    ran = run(session, "responses", route(response={"id": 2}), scored)
    assert (replica(ran)["composite"]["low"], ran.code) == ("0.5", 0)
    assert odd(ran) == {"answers_are_whole": "fail"}


# -- one of each --------------------------------------------------------------------------------

NO_TONE = every("missing_evidence", "email_tone")

WORK: dict[str, tuple[Change, str, dict[str, str]]] = {
    "as-it-is": (as_it_is, "valid", {}),
    "no-output": (
        act(0, "file", path="other.json"),
        "invalid",
        {"tests_pass": "fail", "output_created": "fail", "output_correct": "fail", **NO_TONE},
    ),
    "another-spelling": (
        act(0, "file", write='{"status":"success"}'),
        "valid",
        {"output_correct": "fail"},
    ),
    # Without the file there is no text to clear.
    "the-source-is-gone-and-the-cache-is-not": (
        act(2, "file", path="src/main.ts"),
        "valid",
        {"no_temp_files": "fail", "no_debug_logs": "fail"},
    ),
    "another-subject": (
        act(1, "file", write="Re: Renewal of 3 seats\n"),
        "valid",
        {"matches_pattern": "fail"},
    ),
    "subject-in-the-second-line": (
        act(1, "file", write="Hello,\nSubject: Renewal of 3 seats\n"),
        "valid",
        {"matches_pattern": "fail"},
    ),
    "another-number": (
        act(1, "file", write="Subject: Renewal of 4 seats\n"),
        "valid",
        {"summary_accuracy": "fail"},
    ),
    "no-row": (
        act(3, "sql", statement="DELETE FROM customers_b"),
        "invalid",
        {"reconciliation_clean": "fail", **NO_TONE},
    ),
    "another-text": (
        written("Hello, 3 seats. Please confirm."),
        "valid",
        {"email_sent_once": "fail"},
    ),
    "nobody-judges-it": (written("Your renewal: 3 seats"), "valid", NO_TONE),
}


@pytest.mark.parametrize("name", WORK)
def test_each_kind_notices_what_it_is_for(session: Session, name: str) -> None:
    change, verdict, expected = WORK[name]
    ran = run(session, "kinds", change)
    assert odd(ran) == expected, ran.text
    assert (replica(ran)["verdict"], ran.code) == (verdict, int(bool(expected)))


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        (
            "email_tone",
            {"input_from": "/workspace/agent-response.txt"},
            "write 'agent-response.txt'",
        ),
        ("output_created", {"path": "/workspace/output.json"}, "/workspace/output.json"),
        ("tests_pass", {"exit_code": 256}, "0 to 255"),
    ],
)
def test_what_cannot_be_meant_does_not_load(
    session: Session, name: str, fields: dict[str, Any], told: str
) -> None:
    ran = run(session, "kinds", check(name, **fields))
    assert (ran.code, ran.counts) == (1, {"error": 1})
    assert told in ran.text


def test_a_gate_that_a_model_would_decide_does_not_load(session: Session) -> None:
    ran = run(session, "kinds", entry("email_tone", gate=True))
    assert (ran.code, ran.counts) == (1, {"error": 1})

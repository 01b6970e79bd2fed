"""What was redacted is looked for in every later event, and where it entered is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.checks.evidence import Gathered
from pytest_evarness.checks.judge import Judge
from pytest_evarness.checks.kind import Known
from pytest_evarness.checks.redaction import MAX_DATA, Redaction
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import packaged_registry
from tests.checks.builders import END, REPRODUCES, evidence, expect_item

if TYPE_CHECKING:
    from pytest_evarness.core.finding import Finding

RAW = "ada@example.org"
START = ("run_started", None, {"input": f"to {RAW}, now"})
ASKED = ("llm_request", "n4", {"text": "to [EMAIL], now"})
FINISH = ("run_finished", None, {**END})


def entry(**more: Any) -> dict[str, Any]:
    made = {"kind": "email", "seq": 0, "type": "run_started", "path": ["input"]}
    return {**made, "start": 3, "end": 3 + len(RAW), **more}


def redacted(*entries: dict[str, Any], **more: Any) -> tuple[str, str, dict[str, Any]]:
    payload: dict[str, Any] = {"count": 1, "rules_hit": ["email"], "entered": list(entries)}
    return ("redaction_applied", "n2", {**payload, **more})


def judged(*run: Any, must_redact: bool = True, status: str = "completed") -> Finding:
    definition: dict[str, Any] = {"type": "redaction", "must_redact": must_redact}
    common: dict[str, Any] = {"timeout": 30.0, "recheck": False}
    item = PlannedItem(id="gone", kind="redaction", definition={**definition, **common})
    seen = replace(evidence(status, *run, output="o"), gathered={"gone": Gathered({})})
    judge = Judge(packaged_registry())
    judgement = judge.judge([REPRODUCES, expect_item(status), item], seen, threshold=None)
    (finding,) = [one for one in judgement.findings if one.id == "gone"]
    assert RAW not in str(finding)
    return finding


def test_what_stands_nowhere_behind_its_redaction_is_gone() -> None:
    finding = judged(START, redacted(entry()), ASKED, FINISH)
    assert (finding.outcome.word, finding.vacuous) == ("pass", False)
    assert finding.reason == (
        "email that entered at event 0 (run_started.input) and was redacted at event 1"
        " stands in no later event"
    )
    assert finding.witness.events == (0, 1)
    assert finding.looked_at == ("every text and number of 4 events",)


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        ({"text": f"to {RAW}"}, "llm_request.text"),
        ({"a": {"b": ["x", {"c": f"<{RAW}>"}]}}, "llm_request.a.b[1].c"),
        ({"args": {RAW: 1}}, "llm_request.args"),
        ({RAW: {"x": 1}}, "llm_request"),
    ],
)
def test_a_datum_is_found_wherever_it_stands_again(payload: Any, place: str) -> None:
    finding = judged(START, redacted(entry()), ("llm_request", "n4", payload), FINISH)
    assert finding.outcome.word == "fail"
    assert finding.reason == (
        "email that entered at event 0 (run_started.input) and was redacted at event 1"
        f" stands in event 2 ({place})"
    )
    assert finding.witness.events == (0, 1, 2)
    assert finding.witness.observed == finding.reason


def test_what_stood_before_the_redaction_is_no_leak() -> None:
    early = ("llm_request", "n4", {"text": f"to {RAW}"})
    assert judged(START, early, redacted(entry()), FINISH).outcome.word == "pass"
    assert judged(START, redacted(entry()), early, FINISH).outcome.word == "fail"


def test_the_first_redaction_of_a_datum_counts() -> None:
    leak = ("tool_called", "n3", {"query": RAW})
    run = (START, redacted(entry()), leak, redacted(entry()), FINISH)
    assert judged(*run).outcome.word == "fail"


def test_every_leak_is_told() -> None:
    start = ("run_started", None, {"input": f"{RAW} and b@c.org"})
    both = redacted(
        entry(start=0, end=len(RAW)), entry(start=len(RAW) + 5, end=len(RAW) + 12), count=2
    )
    run = (start, both, ("llm_request", "n4", {"text": f"b@c.org {RAW}"}), FINISH)
    finding = judged(*run)
    assert finding.reason.endswith("(and 1 more)")
    assert len(finding.witness.notes) == 1
    assert "b@c.org" not in str(finding)


def test_a_key_above_another_datum_is_not_repeated() -> None:
    start = ("run_started", None, {"input": f"{RAW} and b@c.org"})
    both = redacted(
        entry(start=0, end=len(RAW)), entry(start=len(RAW) + 5, end=len(RAW) + 12), count=2
    )
    leak = ("tool_called", "n3", {"args": {RAW: ["b@c.org"]}})
    finding = judged(start, both, leak, FINISH)
    assert "tool_called.args.[EMAIL][0]" in str(finding)


@pytest.mark.parametrize(
    "event",
    [
        redacted(),
        redacted(unplaced=1),
        ("redaction_applied", "n2", {"count": 1, "rules_hit": ["email"]}),
        redacted(entry(), unplaced=2),
    ],
)
def test_what_no_event_shows_cannot_be_looked_for(event: Any) -> None:
    finding = judged(START, event, ASKED, FINISH)
    assert (finding.outcome.word, finding.causes) == ("indeterminate", (Cause.MISSING_EVIDENCE,))
    leak = ("llm_request", "n4", {"text": RAW})
    word = judged(START, event, leak, FINISH).outcome.word
    assert word == ("fail" if event[2].get("entered") else "indeterminate")


def test_a_text_that_was_cut_may_hold_it_further_on() -> None:
    long = ("llm_request", "n4", {"text": "x" * 4096, "truncated": True})
    finding = judged(START, redacted(entry()), long, FINISH)
    assert finding.outcome.word == "indeterminate"
    assert "a text of event 2 (llm_request) was cut" in finding.reason
    # Before its redaction nothing is looked for.
    assert judged(START, long, redacted(entry()), FINISH).outcome.word == "pass"


@pytest.mark.parametrize(
    "wrong",
    [
        entry(seq=7),
        entry(seq=1),
        entry(type="input_received"),
        entry(path=["inputs"]),
        entry(path=["input", 0, 0]),
        entry(path=[]),
        entry(end=99),
        entry(start=3, end=3),
        entry(kind=None),
        entry(seq="0"),
        entry(seq=False),
        entry(path="input"),
        entry(path=[None]),
        entry(start=None),
        {"kind": "email"},
        "input",
    ],
)
def test_a_place_that_leads_nowhere_is_malformed(wrong: dict[str, Any]) -> None:
    finding = judged(START, redacted(wrong), ASKED, FINISH)
    assert (finding.outcome.word, finding.causes) == ("indeterminate", (Cause.MALFORMED_EVIDENCE,))


@pytest.mark.parametrize("more", [{"entered": 3}, {"entered": "input"}, {"unplaced": "one"}])
def test_a_redaction_that_tells_in_another_form_is_malformed(more: dict[str, Any]) -> None:
    finding = judged(START, redacted(**more), ASKED, FINISH)
    assert (finding.outcome.word, finding.causes) == ("indeterminate", (Cause.MALFORMED_EVIDENCE,))


@pytest.mark.parametrize(
    ("datum", "number", "word"),
    [
        ("1234567.25", 1234567.25, "fail"),
        ("1,234,567.25", 1234567.25, "fail"),
        ("5551234567", 5551234567.0, "fail"),
        ("12345678901234567890", 12345678901234567890.0, "pass"),
        ("10000000000000000000000", 1e22, "fail"),
        ("0.00000012345678", 1.2345678e-07, "fail"),
        ("1234567.25", 1234567.5, "pass"),
    ],
)
def test_a_datum_is_found_as_a_number_with_a_fraction(datum: str, number: float, word: str) -> None:
    start = ("run_started", None, {"input": datum})
    told = redacted(entry(kind="id", start=0, end=len(datum)))
    later = ("tool_called", "n3", {"args": {"amount": number}})
    assert judged(start, told, later, FINISH).outcome.word == word


def test_a_run_without_a_redaction_shows_nothing() -> None:
    finding = judged(START, ASKED, FINISH)
    assert (finding.outcome.word, finding.reason) == ("fail", "nothing was redacted")
    allowed = judged(START, ASKED, FINISH, must_redact=False)
    assert (allowed.outcome.word, allowed.vacuous) == ("pass", True)


def test_a_leak_of_a_run_without_an_end_stays_one() -> None:
    leak = ("llm_request", "n4", {"text": RAW})
    assert judged(START, redacted(entry()), leak, status="unfinished").outcome.word == "fail"
    for run in [(START, redacted(entry())), (START,)]:
        assert judged(*run, status="unfinished").outcome.word == "indeterminate"


def test_a_search_for_more_than_it_can_bear_is_not_begun() -> None:
    text = " ".join(f"a{number:04}@b.org" for number in range(MAX_DATA + 1))
    start = ("run_started", None, {"input": text})
    entries = [entry(start=at, end=at + 11) for at in range(0, len(text), 12)]
    finding = judged(start, redacted(*entries), FINISH)
    assert finding.causes == (Cause.EVALUATOR_ERROR,)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "required key 'must_redact' is missing"),
        ({"must_redact": "yes"}, "must be true or false"),
        ({"must_redact": None}, "must be true or false"),
    ],
)
def test_what_is_no_check_of_this_type(value: dict[str, Any], said: str) -> None:
    known = Known({}, False, frozenset(), None, {}, {}, packaged_registry())  # type: ignore[arg-type]
    definition, (fault,) = Redaction().parse({"type": "redaction", **value}, known)
    assert definition == {}
    assert said in fault.text


# -- other spellings -------------------------------------------------------------------------------


def held(datum: str, kind: str, later: Any) -> Finding:
    start = ("run_started", None, {"input": datum})
    place = {**entry(kind=kind), "start": 0, "end": len(datum)}
    applied = ("redaction_applied", "n2", {"count": 1, "rules_hit": [kind], "entered": [place]})
    return judged(start, applied, ("llm_response", "n4", {"preview": later}), FINISH)


@pytest.mark.parametrize(
    ("datum", "kind", "later"),
    [
        (RAW, "email", "to Ada@Example.ORG"),
        (RAW, "email", "to ada%40example.org"),
        (RAW, "email", "to ada\uff20ex\u200bample.org"),
        ("555-123-4567", "phone", "call 5551234567"),
        ("555-123-4567", "phone", "call (555) 123\u20134567"),
        ("4111 1111 1111 1111", "credit_card", 4111111111111111),
        ("078-05-1120", "ssn", {"id": ["078.05.1120"]}),
        ("B-77", "acme.badge", "badge b\u201177"),
    ],
)
def test_a_datum_in_another_spelling_stands_again(datum: str, kind: str, later: Any) -> None:
    finding = held(datum, kind, later)
    assert finding.outcome.word == "fail"
    assert "stands in event 2 (llm_response.preview" in finding.reason


@pytest.mark.parametrize(
    ("datum", "kind", "later"),
    [
        (RAW, "email", "to ada@example.com"),
        ("555-123-4567", "phone", "call 5551234568, or 555, and then 1234567"),
        ("078-05-1120", "ssn", 78051121),
        ("B-77", "acme.badge", "badge b-78, and 77"),
    ],
)
def test_another_datum_is_another_datum(datum: str, kind: str, later: Any) -> None:
    assert held(datum, kind, later).outcome.word == "pass"


def test_a_key_that_holds_a_datum_in_another_spelling_is_not_repeated() -> None:
    finding = held(RAW, "email", {"Ada@Example.org": {"x": "ADA@example.org"}})
    assert finding.outcome.word == "fail"
    assert RAW not in str(finding).casefold()

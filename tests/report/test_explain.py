"""An explanation leads with validity, then shows what the verdict stands on; it invents nothing."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.bundle.seal import Settings
from pytest_evarness.errors import InputError
from pytest_evarness.report.explain import SECTIONS, explain
from tests.bundle.builder import (
    APPROVE,
    PENDING,
    REJECT,
    UNDECIDED,
    WEIGHED,
    changed,
    record_of,
    statement_of,
)
from tests.report.test_junit import BAD, FORBIDDEN, reworded
from tests.report.test_text import HOSTILE

SWAPPED = changed(
    APPROVE,
    case="swapped",
    contracts={
        "rejected-first": {
            "precedes": {"first": {"type": "approval_rejected"}, "second": {"type": "tool_called"}}
        }
    },
)


def positions(text: str, *words: str) -> list[int]:
    found = [text.index(word) for word in words]
    assert found == sorted(found), dict(zip(words, found, strict=True))
    return found


def test_the_verdict_comes_first_and_the_sections_in_their_order() -> None:
    text = explain(statement_of(BAD), "bad")
    lines = text.splitlines()
    assert lines[1] == "Invalid: event 8 is a tool_called: that must never happen"
    positions(text, "Invalid: ", *(f"\n{name}\n" for name in SECTIONS[1:]))


def test_no_number_stands_before_the_hard_verdict() -> None:
    spec = changed(WEIGHED, case="bad", contracts=FORBIDDEN)
    text = explain(statement_of(spec), "bad")
    positions(text, "Invalid: ", "what the run did well despite being invalid", "raw composite")


def test_invalid_cases_come_before_undecided_and_valid_ones() -> None:
    text = explain(statement_of(APPROVE, WEIGHED, UNDECIDED, BAD))
    assert text.startswith("Does not hold: scenarios/send.yaml::bad::never-sends failed")
    positions(
        text, "::bad\nInvalid", "::undecided\nIndeterminate", "::approve\nValid", "not proven"
    )


def test_the_witness_is_shown_with_what_came_before_it() -> None:
    text = explain(statement_of(BAD), "bad::never-sends")
    evidence = text.split("\nevidence\n")[1].split("\ncausal path\n")[0]
    assert "\n  >    8  tool_called" in evidence
    positions(evidence, "   6  node_finished", "   7  node_started", "   8  tool_called")


def test_the_causal_path_follows_edges_and_the_approved_digest() -> None:
    path = explain(statement_of(BAD), "bad").split("\ncausal path\n")[1].split("\n\n")[0]
    positions(path, "input_received", "approval_granted", ">    8  tool_called")
    assert "run_finished" not in path


def test_impact_lists_the_call_that_changed_something() -> None:
    impact = explain(statement_of(BAD), "bad").split("\nimpact\n")[1].split("\n\n")[0]
    assert '"side_effects": "write"' in impact


def test_what_stopped_a_run_is_containment() -> None:
    spec = changed(
        REJECT, case="bad", contracts={"no-stop": {"never": {"type": "policy_violation"}}}
    )
    text = explain(statement_of(spec), "bad")
    containment = text.split("\ncontainment\n")[1].split("\n\n")[0]
    assert "approval_rejected" in containment
    assert "the run ended blocked" in containment
    impact = text.split("\nimpact\n")[1].split("\n\n")[0]
    assert "no effect on record" in impact


def test_repair_names_owner_and_candidates() -> None:
    repair = explain(statement_of(SWAPPED)).split("\nrepair\n")[1].split("\n\n")[0]
    assert "owner: governance" in repair


def test_an_undecided_case_names_the_missing_evidence() -> None:
    text = explain(statement_of(UNDECIDED), "undecided")
    assert text.splitlines()[1].startswith(
        "Indeterminate, the evidence does not decide: the run is paused"
    )
    assert "unfinished_run: the run did not come to an end" in text
    assert "leaning: pass" in text
    assert 'node "n3" asks: "Send it?"' in text


def test_a_run_that_did_not_reproduce_shows_where_the_runs_part() -> None:
    record = record_of(APPROVE, spec_b=changed(APPROVE, prompt="send the q3 report now"))
    text = explain(statement_of(APPROVE, records=[record]), "approve")
    assert "Invalid: " in text
    assert "events: both runs DIFFER" in text


def test_where_the_judging_broke_it_says_that_of_us_and_not_of_the_harness() -> None:
    spec = changed(APPROVE, case="lonely")
    text = explain(statement_of(spec, records=[record_of(spec, error_b="the mirror died")]))
    head = "::lonely\nIndeterminate, the judging broke, not the harness: run B could not be made"
    assert head in text
    assert "evaluator_error: the judging itself broke: nothing is said about the harness" in text


def test_severity_stands_apart_from_hardness_for_the_failure_and_for_what_is_related() -> None:
    spec = changed(WEIGHED, case="bad", contracts={**FORBIDDEN, "also": FORBIDDEN["never-sends"]})
    lines = explain(statement_of(spec), "bad").splitlines()
    assert "  gate never-sends, severity critical" in lines
    assert "  related: also (gate, severity critical)" in lines


def test_an_item_says_what_evidence_it_needs() -> None:
    text = explain(statement_of(BAD), "bad::never-sends")
    assert "  needs: events tool_called; the end of the run" in text.splitlines()
    undecided = explain(statement_of(UNDECIDED), "undecided::approval-precedes-send")
    assert "    needs: events approval_granted, tool_called; the end of the run" in undecided


def test_repair_names_the_command_that_cuts_the_run_down() -> None:
    repair = explain(statement_of(BAD)).split("\nrepair\n")[1].split("\n\n")[0]
    command = "pytest-evarness slice BUNDLE scenarios/send.yaml::bad::never-sends"
    assert f"  the fewest events with this finding: {command}" in repair


def test_a_case_that_did_not_run_says_so() -> None:
    text = explain(statement_of(APPROVE, REJECT, records=[record_of(APPROVE)]))
    assert "::reject\nNot run: it was planned" in text


def test_digests_alone_give_no_made_up_path() -> None:
    text = explain(statement_of(BAD, settings=Settings(events="digest")), "bad")
    assert "not known: the bundle encloses no events" in text


@pytest.mark.parametrize(
    ("target", "head"),
    [
        ("scenarios/send.yaml::approve", "Valid: "),
        ("approve", "Valid: "),
        ("approve::expect", "Pass: "),
        ("scenarios/send.yaml::approve::no-send-after-rejection", "Vacuous: "),
        ("pending", "Valid: every gate passed; run A ended paused"),
    ],
)
def test_a_target_is_a_node_id_or_the_id_of_a_case(target: str, head: str) -> None:
    assert explain(statement_of(APPROVE, PENDING), target).splitlines()[1].startswith(head)


def test_an_unknown_target_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"^no case or finding is called that") as caught:
        explain(statement_of(APPROVE), "aprove::expect")
    assert caught.value.fix == "write 'approve::expect'"


def test_a_target_that_means_two_things_is_refused() -> None:
    statement = statement_of(APPROVE, changed(APPROVE, file="scenarios/other.yaml"))
    with pytest.raises(InputError, match=r"^several are called that"):
        explain(statement, "approve")


def test_hostile_words_reach_no_terminal() -> None:
    statement: dict[str, Any] = reworded(statement_of(BAD), reason=HOSTILE)
    predicate = statement["predicate"]
    predicate["seal"]["plan"][0]["items"][2].update(id=HOSTILE, description=HOSTILE, path=HOSTILE)
    predicate["not_proven"].append(HOSTILE)
    predicate["verdict"]["note"] = HOSTILE
    text = explain(statement)
    assert not [char for char in text if char != "\n" and not char.isprintable()]
    assert "[31m" not in text


def test_every_remark_of_what_is_not_proven_is_listed() -> None:
    statement: Any = statement_of(APPROVE)
    remarks = [f"remark {number} of many" for number in range(120)]
    statement["predicate"]["not_proven"] = remarks
    listed = explain(statement).split("\nnot proven:\n")[1].splitlines()
    assert listed == [f"  {remark}" for remark in remarks]


def test_everything_that_an_invalid_run_did_well_is_listed() -> None:
    kept = {f"kept-{number}": {"eventually": {"type": "run_started"}} for number in range(70)}
    text = explain(statement_of(changed(BAD, contracts={**FORBIDDEN, **kept})), "bad")
    assert [f"kept-{number}" for number in range(70)] == [
        line.split()[1] for line in text.splitlines() if line.startswith("  passed: kept-")
    ]

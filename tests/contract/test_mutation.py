"""Mutants of positive entries: what they are, who notices them, and which notes are stale."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.contract.corpus import Corpus, parse_corpus
from pytest_evarness.contract.model import Contract, parse_contract
from pytest_evarness.contract.mutation import EntryMutants, Mutant, mutate, tally
from pytest_evarness.core.registry import packaged_registry
from tests.contract.test_corpus import GRANTED, ORDER, OTHER, SENT

REGISTRY = packaged_registry()
UNBOUND = {
    "precedes": {
        "first": {"type": "approval_granted"},
        "second": {"type": "tool_called", "where": {"tool": "email.send"}},
    }
}


def contract(name: str, body: Any, **more: Any) -> Contract:
    found, faults = parse_contract(name, {"assert": body, **more}, registry=REGISTRY)
    assert found is not None, faults
    return found


def corpus(entry: Any, **more: Any) -> Corpus:
    found, faults = parse_corpus({"positive": {"p": entry}, **more}, REGISTRY)
    assert found is not None, faults
    return found


def made(entry: Any, *others: Contract, body: Any = ORDER, **more: Any) -> EntryMutants:
    one = contract("c", body)
    (found,) = mutate([(one, corpus(entry, **more))], [one, *others], REGISTRY)
    return found


def by_name(found: EntryMutants) -> dict[str, Mutant]:
    return {one.name: one for one in found.mutants}


def test_events_are_dropped_doubled_swapped_and_altered() -> None:
    names = set(by_name(made([GRANTED, SENT], negative={"n": [OTHER]})))
    assert names == {
        "drop[0]",
        "drop[1]",
        "double[0]",
        "double[1]",
        "swap[0,1]",
        "alter[0] artifact_digest=other",
        "alter[1] tool=other",
        "alter[1] args_digest=other",
        'alter[1] args_digest="d2"',
    }


def test_a_bound_contract_notices_what_an_unbound_one_does_not() -> None:
    bound = by_name(made([GRANTED, SENT]))
    unbound = by_name(made([GRANTED, SENT], contract("other", ORDER), body=UNBOUND))
    alone = by_name(made([GRANTED, SENT], body=UNBOUND))
    for name in ("alter[1] args_digest=other", "double[1]"):
        assert bound[name].is_noticed
        # The set notices it together, and whose merit that is is told.
        assert [who for who, _ in unbound[name].noticed_by] == ["other"]
    assert not alone["double[1]"].is_noticed
    assert "alter[1] args_digest=other" not in alone  # nobody reads it


def test_a_pass_that_became_vacuous_is_noticed_and_counted_apart() -> None:
    found = made([GRANTED, SENT])
    assert by_name(found)["drop[1]"].noticed_by == (("c", "vacuous"),)
    counts = tally([found])
    assert (counts.total, counts.noticed, counts.vacuous, counts.bare) == (8, 7, 2, 1)


def test_a_draft_notices_nothing() -> None:
    draft = contract("draft", ORDER, status="draft")
    assert not by_name(made([GRANTED, SENT], draft, body=UNBOUND))["double[1]"].is_noticed


def test_an_entry_that_writes_its_own_end_is_open_without_it() -> None:
    body = {"eventually": {"type": "run_finished"}}
    found = by_name(made([{"type": "run_finished"}], body=body))
    assert found["drop[0]"].noticed_by == (("c", "indeterminate"),)
    assert found["double[0]"].noticed_by == (("c", "indeterminate"),)


def test_a_note_says_why_a_mutant_is_as_good_or_that_it_is_a_gap() -> None:
    notes = {
        "survives": {"double[0]": "one is enough"},
        "unnoticed": {"alter[1] tool": "never happens"},
    }
    found = made({"events": [GRANTED, SENT], **notes}, body=UNBOUND)
    double = by_name(found)["double[0]"]
    assert (double.why, double.is_as_good) == ("one is enough", True)
    # The twin: nothing is altered that is noticed, so this note is about nothing.
    assert found.stale == ("alter[1] tool",)
    bare = [one.name for one in found.mutants if not one.is_noticed and one.why is None]
    assert bare == ["double[1]"]


def test_a_gap_counts_against_the_set_and_what_is_as_good_does_not() -> None:
    notes: dict[str, Any] = {
        "survives": {"double[0]": "one is enough"},
        "unnoticed": {"double[1]": "nobody counts"},
    }
    counts = tally([made({"events": [GRANTED, SENT], **notes}, body=UNBOUND)])
    assert (counts.as_good, counts.admitted, counts.bare) == (1, 1, 0)
    assert counts.due == counts.total - 1
    assert counts.noticed == counts.due - 1


@pytest.mark.parametrize("note", ["drop[7]", "alter[0] approver", "drop[0]", "alter[1] tool=other"])
def test_a_note_on_what_is_noticed_or_is_no_mutant_is_stale(note: str) -> None:
    assert made({"events": [GRANTED, SENT], "survives": {note: "why"}}).stale == (note,)


def test_a_note_on_what_only_a_larger_set_alters_is_not_stale() -> None:
    events = [{**GRANTED, "approver": "ann"}, SENT]
    notes = {"alter[0] approver=other": "why", 'alter[0] approver="bob"': "why"}
    assert made({"events": events, "survives": notes}).stale == ()


def test_fields_that_no_contract_reads_are_named_instead_of_altered() -> None:
    found = made([{**GRANTED, "approver": "ann"}, SENT])
    assert found.unread == ("approval_granted.approver",)
    assert not any("approver" in name for name in by_name(found))
    reads = contract("r", {"never": {"type": "approval_granted", "where": {"approver": ""}}})
    assert made([{**GRANTED, "approver": "ann"}, SENT], reads).unread == ()


def test_a_predicate_may_read_anything() -> None:
    registry = packaged_registry()
    registry.predicates.register("odd", lambda event: bool(event["payload"]["approver"] == "eve"))
    body = {"never": {"type": "approval_granted", "satisfies": "odd"}}
    one, faults = parse_contract("c", {"assert": body}, registry=registry)
    assert one is not None, faults
    entry = corpus([{**GRANTED, "approver": "ann"}])
    (found,) = mutate([(one, entry)], [one], registry)
    assert found.unread == ()
    assert "alter[0] approver=other" in by_name(found)


def test_an_entry_that_its_contract_does_not_pass_tells_nothing() -> None:
    assert made([SENT]).problem == "'c' does not pass on it (fail)"
    assert made([GRANTED]).problem == "'c' does not pass on it (vacuous)"
    assert made([GRANTED, SENT]).problem is None


def test_numbers_flags_and_words_of_a_closed_list_change_to_their_likes() -> None:
    body = {
        "every": {
            "match": {"type": "panel_verdict"},
            "where": {"evaluated": {"gte": 2}, "passed": {"exists": True}},
        }
    }
    verdict = {"type": "panel_verdict", "node": "p", "passed": True, "evaluated": 2}
    found = by_name(made([verdict], body=body))
    assert found["alter[0] evaluated=less"].is_noticed
    assert not found["alter[0] evaluated=more"].is_noticed
    assert found["alter[0] passed=other"].says.endswith("passed false instead of true")
    words = {
        "never": {"type": "egress_checked", "where": {"verdict": "allow", "destination": "network"}}
    }
    egress = {"type": "egress_checked", "node": "n", "destination": "network", "verdict": "deny"}
    assert by_name(made([egress], body=words))["alter[0] verdict=other"].is_noticed

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
OTHER_GRANTED = {**GRANTED, "artifact_digest": "d2"}
UNBOUND: dict[str, Any] = {
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
        "double[1]",
        "swap[0,1]",
        "alter[0] artifact_digest=other",
        "alter[1] tool=other",
        "alter[1] args_digest=other",
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
    assert (counts.total, counts.noticed, counts.vacuous, counts.bare) == (7, 7, 2, 0)


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
        "survives": {"double[1]": "one is enough"},
        "unnoticed": {"swap[0,1]": "never happens"},
    }
    found = made({"events": [GRANTED, SENT, SENT], **notes}, body=UNBOUND)
    double = by_name(found)["double[1]"]
    assert (double.why, double.is_as_good) == ("one is enough", True)
    # The twin: this one is noticed, so the note on it is about nothing.
    assert found.stale == ("swap[0,1]",)
    bare = [one.name for one in found.mutants if not one.is_noticed and one.why is None]
    assert bare == ["double[2]"]


def test_a_gap_counts_against_the_set_and_what_is_as_good_does_not() -> None:
    notes: dict[str, Any] = {
        "survives": {"double[1]": "one is enough"},
        "unnoticed": {"double[2]": "nobody counts"},
    }
    counts = tally([made({"events": [GRANTED, SENT, SENT], **notes}, body=UNBOUND)])
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
    assert found.unchanged.unread == ("approval_granted.approver",)
    assert not any("approver" in name for name in by_name(found))
    reads = contract("r", {"never": {"type": "approval_granted", "where": {"approver": ""}}})
    read = made([{**GRANTED, "approver": "ann"}, SENT], reads)
    assert read.unchanged.unread == ()
    assert 'alter[0] approver=""' in by_name(read)


def test_a_predicate_may_read_anything() -> None:
    registry = packaged_registry()
    registry.predicates.register("odd", lambda event: bool(event["payload"]["approver"] == "eve"))
    body = {"never": {"type": "approval_granted", "satisfies": "odd"}}
    one, faults = parse_contract("c", {"assert": body}, registry=registry)
    assert one is not None, faults
    entry = [{**GRANTED, "approver": "ann"}]
    (found,) = mutate([(one, corpus(entry))], [one], registry)
    # Whatever it looks at, none of the usual values is another thing to it.
    assert found.unchanged.unread == ()
    assert "approval_granted.approver" in found.unchanged.inert
    known = corpus(entry, negative={"n": [{**GRANTED, "approver": "eve"}]})
    (found,) = mutate([(one, known)], [one], registry)
    assert by_name(found)['alter[0] approver="eve"'].is_noticed


def test_an_entry_that_its_contract_does_not_pass_tells_nothing() -> None:
    assert made([SENT]).problem == "'c' does not pass on it (fail)"
    assert made([GRANTED]).problem == "'c' does not pass on it (vacuous)"
    assert made([GRANTED, SENT]).problem is None


def test_numbers_flags_and_words_of_a_closed_list_change_to_their_likes() -> None:
    body = {
        "every": {
            "match": {"type": "panel_verdict"},
            "where": {"evaluated": {"gte": 2}, "passed": True},
        }
    }
    verdict = {"type": "panel_verdict", "node": "p", "passed": True, "evaluated": 2}
    found = by_name(made([verdict], body=body))
    assert found["alter[0] evaluated=less"].is_noticed
    # One more is as good to everybody: no mutant.
    assert "alter[0] evaluated=more" not in found
    assert found["alter[0] passed=other"].says.endswith("passed false instead of true")
    words = {
        "never": {"type": "egress_checked", "where": {"verdict": "allow", "destination": "network"}}
    }
    egress = {"type": "egress_checked", "node": "n", "destination": "network", "verdict": "deny"}
    assert by_name(made([egress], body=words))["alter[0] verdict=other"].is_noticed


# -- what is no mutant ---------------------------------------------------------------------------

STARTED = {"type": "run_started"}
SEARCHED = {"type": "tool_called", "node": "n2", "tool": "web.search", "args_digest": "d9"}
DENIED = {"type": "policy_decision", "node": "n4", "capability": "email.send", "decision": "deny"}
STAYS_DENIED = {
    "never": {
        "type": "tool_called",
        "where": {"tool": "$c"},
        "after": {
            "type": "policy_decision",
            "where": {"decision": "deny"},
            "bind": {"c": "capability"},
        },
    }
}
ONCE = {"at_most": {"n": 1, "of": {"type": "effect_applied"}, "per": ["effect_id"]}}


def test_an_event_that_no_contract_has_a_role_for_is_named_and_not_changed() -> None:
    found = made([STARTED, GRANTED, SEARCHED, SENT])
    assert found.unchanged.events == ("run_started (event 0)", "tool_called (event 2)")
    structural = {name for name in by_name(found) if not name.startswith("alter")}
    assert structural == {"drop[1]", "drop[3]", "double[3]"}
    # The twin: a contract that asks for the start minds that it is gone.
    starts = contract("s", {"eventually": {"type": "run_started"}})
    found = made([STARTED, GRANTED, SEARCHED, SENT], starts)
    assert found.unchanged.events == ("tool_called (event 2)",)
    assert by_name(found)["drop[0]"].noticed_by == (("s", "fail"),)


def test_what_has_to_be_there_may_be_there_twice_and_an_act_may_not() -> None:
    found = by_name(made([GRANTED, SENT], body=UNBOUND))
    assert "double[0]" not in found
    assert not found["double[1]"].is_noticed
    assert found["double[1]"].aims == ("second of c",)


def test_an_author_who_says_that_one_is_enough_is_taken_at_the_word() -> None:
    said = {"precedes": {**UNBOUND["precedes"], "fresh": False}}
    assert "double[1]" not in by_name(made([GRANTED, SENT], body=said))
    # Another contract that counts them makes it a mutant again.
    once = contract("once", {"at_most": {"n": 1, "of": {"type": "tool_called"}}})
    assert by_name(made([GRANTED, SENT], once, body=said))["double[1]"].is_noticed


def test_only_what_some_contract_orders_is_swapped_and_only_where_it_would_be_worse() -> None:
    late = {**SENT, "args_digest": "d2"}
    names = by_name(made([GRANTED, SENT, OTHER_GRANTED, late]))
    # Nobody minds an approval that comes before the send of another.
    assert {name for name in names if name.startswith("swap")} == {"swap[0,1]", "swap[2,3]"}
    found = by_name(made([SENT, DENIED], body=STAYS_DENIED, negative={"n": [DENIED, SENT]}))
    assert "swap[0,1]" in found
    assert found["swap[0,1]"].noticed_by == (("c", "fail"),)
    unlike = by_name(made([SEARCHED, DENIED], body=STAYS_DENIED))
    assert "swap[0,1]" not in unlike


def test_values_that_are_tied_are_parted_and_others_are_made_the_same() -> None:
    effects = [{"type": "effect_applied", "node": "n", "effect_id": one} for one in ("i/0", "i/1")]
    found = by_name(made(effects, body=ONCE))
    assert found['alter[0] effect_id="i/1"'].is_noticed
    # Yet another intent is as good as this one.
    assert "alter[0] effect_id=other" not in found
    denied = by_name(made([DENIED, SEARCHED], body=STAYS_DENIED))
    assert denied['alter[1] tool="email.send"'].is_noticed
    assert denied['alter[0] capability="web.search"'].is_noticed
    assert "alter[1] tool=other" not in denied
    assert by_name(made([GRANTED, SENT]))["alter[0] artifact_digest=other"].is_noticed


def test_two_values_that_every_contract_takes_alike_are_one_mutant() -> None:
    negative = {"n": [OTHER], "m": [{**OTHER, "args_digest": "d3"}]}
    found = by_name(made([GRANTED, SENT], negative=negative))
    altered = [name for name in found if name.startswith("alter[1] args_digest")]
    assert altered == ["alter[1] args_digest=other"]


def test_a_field_whose_other_values_are_all_as_good_is_named() -> None:
    body = {
        "every": {"match": {"type": "tool_called"}, "where": {"decision.rule": {"exists": True}}}
    }
    called = {**SEARCHED, "decision": {"rule": "read_only"}}
    found = made([called], contract("o", ORDER), body=body)
    assert "tool_called.args_digest" in found.unchanged.inert
    assert "tool_called.decision.rule" not in found.unchanged.inert
    assert by_name(found)["alter[0] decision.rule=gone"].is_noticed


def test_a_contract_that_does_not_pass_on_the_entry_is_nobody_to_mind() -> None:
    # 'order' fails on it as it is.
    found = made(
        [SENT, SENT], contract("order", ORDER), body={"eventually": {"type": "tool_called"}}
    )
    assert all("order" not in aim for one in found.mutants for aim in one.aims)
    # One that passed, as there was nothing to see, is.
    found = made([SEARCHED], contract("order", ORDER), body={"eventually": {"type": "tool_called"}})
    mutant = by_name(found)['alter[0] tool="email.send"']
    assert mutant.noticed_by == (("order", "fail"),)

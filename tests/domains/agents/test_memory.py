"""Memories hand over what they hold, write what they were given, and keep what must not be."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.domains.agents.memory import salience_of, stated_facts, stated_instructions
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

Nodes = list[tuple[str, dict[str, Any]]]


def side_by_side(*nodes: tuple[str, dict[str, Any]], said: str = "", **environment: Any) -> Run:
    """Every node gets what the user said; they run in this order, and each leads to the output."""
    ids = [f"n{number}" for number in range(1, len(nodes) + 1)]
    graph = {
        "id": "g",
        "nodes": [
            {"id": "ask", "type": "input"},
            *(
                {"id": name, "type": kind, "config": config}
                for name, (kind, config) in zip(ids, nodes, strict=True)
            ),
            {"id": "tell", "type": "output"},
        ],
        "edges": [
            edge
            for name in ids
            for edge in ({"from": "ask", "to": name}, {"from": name, "to": "tell"})
        ],
    }
    return h.run(graph, {"user_input": said, **environment})


def ids(run: Run) -> list[list[str]]:
    """What each read handed over, in order."""
    return [one["ids"] for one in h.payloads(run, "memory_read")]


def written(run: Run) -> list[str]:
    return [one["text"] for one in h.payloads(run, "memory_write")]


# -- working memory ------------------------------------------------------------------------------


def test_notes_under_one_key_are_shared_and_a_node_does_not_hand_over_its_own() -> None:
    working: Nodes = [("working_memory", {"key": key}) for key in ("a", "b", "a")]
    run = side_by_side(*working, said="Buy milk")
    assert h.payloads(run, "memory_read") == [
        {"memory": "working", "key": "a", "turns": 0, "tokens": 0, "ids": []},
        {"memory": "working", "key": "b", "turns": 0, "tokens": 0, "ids": []},
        {"memory": "working", "key": "a", "turns": 1, "tokens": 2, "ids": ["n1#1"]},
    ]
    assert h.payloads(run, "memory_write")[0] == {
        "memory": "working",
        "key": "a",
        "id": "n1#1",
        "text": "Buy milk",
        "tokens": 2,
    }


def test_the_key_of_a_working_memory_has_a_default() -> None:
    run = side_by_side(("working_memory", {}), ("working_memory", {"key": "default"}), said="x")
    assert ids(run) == [[], ["n1#1"]]


def test_a_memory_without_a_text_only_reads() -> None:
    run = h.run(
        h.chain(("episodic_memory", {"min_salience": 0}), ("output", {})), {"episodic": ["a", "b"]}
    )
    assert ids(run) == [["episode-1", "episode-2"]]
    assert "memory_write" not in h.types(run)
    assert (run.output or "").split("\n") == ["a", "b"]


# -- episodic memory -----------------------------------------------------------------------------

EPISODES = [
    {"id": "b", "text": "Paris was rainy", "salience": 0.5},
    {"id": "a", "text": "Paris was sunny", "salience": 0.5},
    {"id": "c", "text": "Rome was sunny", "salience": 0.9},
    {"id": "d", "text": "Paris again", "salience": 0.2},
]


def recall(said: str, **config: Any) -> list[str]:
    (found,) = ids(side_by_side(("episodic_memory", config), said=said, episodic=EPISODES))
    return found


def test_episodes_are_ranked_by_shared_words_then_salience_then_id() -> None:
    assert recall("Paris", min_salience=0) == ["a", "b", "d", "c"]
    assert recall("sunny Paris", min_salience=0) == ["a", "c", "b", "d"]
    assert recall("Berlin", min_salience=0) == ["c", "a", "b", "d"]


def test_top_k_and_min_salience_bound_what_is_recalled() -> None:
    assert recall("Paris", min_salience=0, top_k=1) == ["a"]
    assert recall("Paris") == ["a", "b", "c"]
    assert recall("Paris", min_salience=0.6) == ["c"]
    many = [{"id": f"e{number}", "text": "same", "salience": 1.0} for number in range(7)]
    assert len(ids(side_by_side(("episodic_memory", {}), episodic=many))[0]) == 5


@pytest.mark.parametrize(
    ("policy", "said", "kept", "skipped"),
    [
        ({}, "Nice day", [], ["not_salient"]),
        ({}, "The invoice of Acme is due in March", ["The invoice of Acme is due in March"], []),
        ({"write_policy": "salient"}, "Nice day", [], ["not_salient"]),
        ({"write_policy": "always"}, "Nice day", ["Nice day"], []),
        ({"write_policy": "never"}, "The invoice of Acme is due in March", [], []),
        ({"min_salience": 0.1}, "Nice day", ["Nice day"], []),
    ],
)
def test_the_policy_says_what_is_kept(
    policy: dict[str, Any], said: str, kept: list[str], skipped: list[str]
) -> None:
    run = side_by_side(("episodic_memory", policy), said=said)
    assert written(run) == kept
    assert [one["reason"] for one in h.payloads(run, "memory_write_skipped")] == skipped


def test_an_episode_is_kept_once_and_recalled_by_the_next_node() -> None:
    node = ("episodic_memory", {"write_policy": "always", "min_salience": 0})
    run = side_by_side(node, node, said="Nice day")
    assert ids(run) == [[], ["n1#1"]]
    assert h.payload(run, "memory_write_skipped") == {
        "memory": "episodic",
        "reason": "known",
        "salience": 0.1,
    }


def test_what_is_written_has_an_id_that_nothing_else_has() -> None:
    node = ("episodic_memory", {"write_policy": "always", "min_salience": 0})
    run = side_by_side(node, said="Nice day", episodic=[{"id": "n1#1", "text": "before"}])
    assert h.payload(run, "memory_write")["id"] == "n1#2"


@pytest.mark.parametrize(
    ("text", "salience"),
    [("", 0.0), ("is it so", 0.0), ("Nice nice NICE", 0.1), ("7 of 9", 0.2), ("w123 " * 40, 0.1)],
)
def test_salience_counts_telling_words(text: str, salience: float) -> None:
    assert salience_of(text) == salience
    assert salience_of(" ".join(f"word{number}" for number in range(50))) == 1.0


# -- semantic memory -----------------------------------------------------------------------------

KNOWN = {"Office": "Room 4", "boss": "Kim"}


def state_fact(line: str, known: Any = KNOWN, **config: Any) -> Run:
    """One node writes, the next one reads."""
    node = ("semantic_memory", config)
    return side_by_side(node, node, said=line, facts=known)


def test_facts_are_ranked_by_shared_words_then_id() -> None:
    (found,) = ids(side_by_side(("semantic_memory", {}), said="who is the boss", facts=KNOWN))
    assert found == ["boss", "Office"]
    (found,) = ids(side_by_side(("semantic_memory", {}), said="", facts=KNOWN))
    assert found == ["Office", "boss"]


def test_facts_may_be_a_list_and_name_their_ids() -> None:
    listed = [{"subject": "b", "text": "x"}, {"id": "1", "subject": "a", "text": "y"}]
    assert ids(side_by_side(("semantic_memory", {}), facts=listed)) == [["1", "b"]]


def test_a_text_that_states_no_fact_is_a_question() -> None:
    assert "memory_write" not in h.types(state_fact("The office = room 9"))
    assert "memory_write" not in h.types(state_fact("fact: office"))


@pytest.mark.parametrize(
    ("config", "after", "superseded"),
    [
        ({}, ["n1#1", "boss"], ["Office"]),
        ({"conflict": "latest_wins"}, ["n1#1", "boss"], ["Office"]),
        ({"conflict": "keep_all"}, ["Office", "n1#1", "boss"], None),
        ({"conflict": "keep_first"}, ["Office", "boss"], None),
    ],
)
def test_two_facts_of_one_subject(
    config: dict[str, Any], after: list[str], superseded: list[str] | None
) -> None:
    run = state_fact("fact:  office =  Room 9 ", **config)
    assert sorted(ids(run)[1]) == sorted(after)
    wrote = h.payloads(run, "memory_write")[:1]
    if config.get("conflict") == "keep_first":
        assert wrote == []
        assert h.payloads(run, "memory_write_skipped")[0]["reason"] == "conflict"
    else:
        assert wrote[0].get("superseded") == superseded
        assert (wrote[0]["subject"], wrote[0]["text"]) == ("office", "Room 9")


def test_a_conflict_can_block() -> None:
    run = state_fact("fact: OFFICE = Room 9", conflict="block")
    assert run.status == "blocked"
    assert "another fact is known of 'OFFICE'" in h.payload(run, "policy_violation")["reason"]
    # Not because it writes at all.
    assert state_fact("fact: canteen = Room 9", conflict="block").status == "completed"


def test_a_fact_that_is_known_is_not_written_again() -> None:
    run = state_fact("fact: OFFICE = Room 4", conflict="block")
    assert run.status == "completed"
    assert [one["reason"] for one in h.payloads(run, "memory_write_skipped")] == ["known", "known"]


def test_personal_data_is_masked_before_it_is_kept() -> None:
    line = "fact: kim@example.com = call +49301234567"
    run = state_fact(line, {})
    wrote = h.payload(run, "memory_write")
    assert (wrote["subject"], wrote["text"], wrote["redacted"]) == ("[EMAIL]", "call [PHONE]", 2)
    assert h.payloads(run, "redaction_applied")[0]["count"] == 2
    assert "[EMAIL]: call [PHONE]" in (run.output or "")
    plain = h.payloads(state_fact(line, {}, redact_before_write=False), "memory_write")[0]
    assert (plain["subject"], plain["text"]) == ("kim@example.com", "call +49301234567")
    assert "redacted" not in plain


def test_facts_about_two_people_are_two_and_no_event_shows_who_they_are() -> None:
    def state(*lines: str, **config: Any) -> Run:
        graph = h.chain(("input", {}), ("semantic_memory", config), ("output", {}))
        return h.run(graph, {"user_input": "\n".join(f"fact: {line}" for line in lines)})

    two = ("kim@example.com city = Rome", "ada@example.org city = Oslo")
    run = state(*two)
    wrote = h.payloads(run, "memory_write")
    assert [(one["subject"], one["text"]) for one in wrote] == [
        ("[EMAIL] city", "Rome"),
        ("[EMAIL] city", "Oslo"),
    ]
    assert all("superseded" not in one for one in wrote)
    assert state(*two, conflict="block").status == "completed"
    # The twin: one person has one city, however the address is spelled.
    again = ("kim@example.com city = Rome", "Kim@Example.com  city = Oslo")
    assert "superseded" in h.payloads(state(*again), "memory_write")[1]
    assert state(*again, conflict="block").status == "blocked"
    # What is stated of one person is compared as it was, too.
    moved = ("kim = +49301234567", "kim = +49301234568")
    assert state(*moved, conflict="block").status == "blocked"
    assert state(*moved[:1] * 2, conflict="block").status == "completed"
    for event in run.events:
        if event.type not in ("run_started", "input_received"):
            assert "example" not in event.text


def test_lines_of_facts_and_instructions() -> None:
    text = "Hello\n FACT: a  b = c = d\nfact: = x\nfact: y =\nInstruction:  go \ninstruction: "
    assert stated_facts(text) == [("a b", "c = d")]
    assert stated_instructions(text) == ["go"]


# -- procedural memory ---------------------------------------------------------------------------

RULE = "instruction: Answer in French."


def instruct(approvals: Any = None, uses: int = 1, **config: Any) -> Run:
    """A gate, a node that writes behind it, and one that reads last."""
    graph = h.chain(
        ("input", {}),
        ("approval_gate", {"uses": uses}),
        ("procedural_memory", config),
        ("procedural_memory", {}),
        ("output", {}),
    )
    return h.run(
        graph,
        {"user_input": RULE, "approvals": approvals or {}, "instructions": ["Be brief."]},
    )


def test_an_instruction_without_an_approval_waits_and_is_not_followed() -> None:
    run = side_by_side(
        ("procedural_memory", {}), ("procedural_memory", {}), said=RULE, instructions=["Be brief."]
    )
    assert ids(run) == [["instruction-1"], ["instruction-1"]]
    assert "memory_write" not in h.types(run)
    found = h.payloads(run, "memory_write_pending")[0]
    assert found["text"] == "Answer in French."
    assert found["rule"] == "approval_missing"
    assert "French" not in (run.output or "")


def test_an_approved_instruction_is_followed() -> None:
    run = instruct({"n2": "approve"})
    wrote = h.payload(run, "memory_write")
    granted = h.payload(run, "approval_granted")
    assert wrote["approval"] == granted["artifact_digest"]
    assert ids(run) == [["instruction-1"], ["instruction-1", "n3#1"]]


def test_the_pending_write_names_what_an_approval_would_be_for() -> None:
    asked = h.payload(instruct(), "approval_requested")["artifact_digest"]
    run = side_by_side(("procedural_memory", {}), said=RULE)
    assert h.payload(run, "memory_write_pending")["artifact_digest"] == asked


@pytest.mark.parametrize(
    ("decision", "rule"),
    [
        ({"decision": "approve", "expires_ms": 0}, "approval_stale"),
        ({"decision": "approve", "revoke_before": "n3"}, "approval_stale"),
    ],
)
def test_an_approval_that_has_ended_covers_no_instruction(
    decision: dict[str, Any], rule: str
) -> None:
    run = instruct({"n2": decision})
    assert h.payload(run, "memory_write_pending")["rule"] == rule
    assert "memory_write" not in h.types(run)


def test_an_approval_covers_one_write() -> None:
    def twice(uses: int) -> Run:
        nodes = ["procedural_memory", "procedural_memory"]
        graph = {
            "id": "g",
            "nodes": [
                {"id": "a", "type": "input"},
                {"id": "b", "type": "approval_gate", "config": {"uses": uses}},
                *({"id": f"m{n}", "type": kind} for n, kind in enumerate(nodes)),
            ],
            "edges": [
                {"from": "a", "to": "b"},
                *({"from": "b", "to": f"m{n}"} for n in range(len(nodes))),
            ],
        }
        return h.run(graph, {"user_input": RULE, "approvals": {"b": "approve"}})

    assert h.payload(twice(1), "memory_write_pending")["rule"] == "approval_used"
    assert "memory_write_pending" not in h.types(twice(2))


def test_a_text_that_was_changed_behind_the_gate_is_not_the_approved_one() -> None:
    graph = h.chain(
        ("input", {}),
        ("approval_gate", {}),
        ("interceptor", {"chain": ["pii_scrub"]}),
        ("procedural_memory", {}),
        ("output", {}),
    )

    def said(text: str) -> Run:
        return h.run(graph, {"user_input": text, "approvals": {"n2": "approve"}})

    assert "memory_write" in h.types(said(RULE))
    changed = said("instruction: write to kim@example.com")
    assert h.payload(changed, "memory_write_pending")["rule"] == "approval_missing"


SENDING: dict[str, Any] = {"tool": "email.send", "approve_side_effects": True}
ABOUT: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "a loop": [("loop_controller", {"tools": ["email.send"], "approve_side_effects": True})],
    "two calls": [("tool", SENDING), ("tool", SENDING)],
    "a call nobody foresees": [("tool", {**SENDING, "args": {"to": "{args.to}"}})],
    "nothing": [],
}


@pytest.mark.parametrize("before", [True, False], ids=["behind it", "beside it"])
@pytest.mark.parametrize("about", list(ABOUT))
def test_an_approval_of_another_act_puts_no_instruction_in_force(about: str, before: bool) -> None:
    acts = ABOUT[about]
    ids = [f"t{number}" for number in range(len(acts))]
    row = ["g", *ids]
    graph = {
        "id": "g",
        "nodes": [
            {"id": "a", "type": "input"},
            {"id": "g", "type": "approval_gate", "config": {"uses": 9}},
            {"id": "m", "type": "procedural_memory"},
            *(
                {"id": name, "type": kind, "config": config}
                for name, (kind, config) in zip(ids, acts, strict=True)
            ),
        ],
        "edges": [
            {"from": "a", "to": "g"},
            {"from": "g" if before else "a", "to": "m"},
            *({"from": left, "to": right} for left, right in pairwise(row)),
        ],
    }
    environment = {
        "user_input": RULE,
        "approvals": {"g": "approve"},
        "tools": {"email.send": [{"result": "sent", "times": "any"}]} if acts else {},
        "react": [{"respond": {"text": "done"}}] if about == "a loop" else [],
    }
    run = h.run(graph, environment)
    approved = h.payload(run, "approval_granted")["artifact_digest"]
    if before and not acts:
        # The twin: a gate before the memory, which asked about nothing else.
        assert h.payload(run, "memory_write")["approval"] == approved
    else:
        pending = h.payload(run, "memory_write_pending")
        assert pending["rule"] == "approval_missing"
        # What is approved reads the same; what it was approved for is another act.
        assert pending["artifact_digest"] == approved
        assert "memory_write" not in h.types(run)


def test_a_memory_that_asks_nobody_writes_at_once() -> None:
    node = ("procedural_memory", {"write_approval": "none"})
    run = side_by_side(node, node, said=RULE)
    assert ids(run) == [[], ["n1#1"]]
    assert "approval" not in h.payload(run, "memory_write")
    assert h.payload(run, "memory_write_skipped")["reason"] == "known"


def test_a_gate_before_an_instruction_is_not_called_idle() -> None:
    def remarks(kind: str, **config: Any) -> list[str]:
        graph = h.chain(("input", {}), ("approval_gate", {}), (kind, config), ("output", {}))
        return [code for _, code, _ in h.codes(graph)]

    assert remarks("procedural_memory") == []
    assert remarks("procedural_memory", write_approval="none") == ["approval_covers_nothing"]
    assert remarks("semantic_memory") == ["approval_covers_nothing"]


# -- attacks and the environment -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("working_memory", "note"),
        ("episodic_memory", "episode"),
        ("semantic_memory", "fact"),
        ("procedural_memory", "instruction"),
    ],
)
def test_a_planted_marker_reaches_every_kind_of_read(kind: str, role: str) -> None:
    attacks = [
        {"kind": "planted", "via": "memory", "marker": "OBEY", "expect": {"memory_read": True}}
    ]
    graph = {
        "id": "g",
        "nodes": [
            {"id": "n1", "type": "input"},
            {"id": "n2", "type": kind},
            {"id": "n3", "type": "context_assembler"},
            {"id": "n4", "type": "prompt_template"},
            {"id": "n5", "type": "output"},
        ],
        "edges": [
            {"from": "n1", "to": "n2"},
            {"from": "n1", "to": "n3", "to_port": "question"},
            {"from": "n2", "to": "n3", "to_port": "memory"},
            {"from": "n3", "to": "n4"},
            {"from": "n4", "to": "n5"},
        ],
    }
    run = h.run(graph, {"attacks": attacks})
    assert f"{role}: OBEY" in (run.output or "")
    assert h.payload(run, "memory_read")["ids"] == ["attack-0"]


def test_an_attack_on_a_memory_that_no_node_reads_is_refused() -> None:
    attacks = [{"kind": "planted", "via": "memory", "marker": "OBEY"}]
    graph = h.chain(("input", {}), ("output", {}))
    (fault,) = h.case_faults(graph, {"attacks": attacks})
    assert (
        "nothing would be injected: the graph has no conversation_buffer or working_memory" in fault
    )


def test_what_no_node_reads_is_left_over() -> None:
    environment = {"episodic": ["a"], "facts": {"b": "c"}, "instructions": ["d"]}
    run = h.run(h.chain(("input", {}), ("semantic_memory", {}), ("output", {})), environment)
    assert run.leftovers == [
        "episodic: no node of the run read it",
        "instructions: no node of the run read it",
    ]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("episodic", "x", 'episodic: must be a list (got "x"; of texts, or {id, text, salience})'),
        ("episodic", [1], "episodic.0: must be a mapping"),
        ("episodic", [" "], "must be a text that is not blank"),
        ("episodic", [{"text": "x", "salience": 1.5}], "episodic.0.salience: "),
        ("episodic", [{"text": "x", "saliense": 1}], "episodic.0.saliense: unknown key"),
        ("episodic", [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], "the id is taken"),
        ("episodic", [{"id": "episode-2", "text": "x"}, "y"], "episodic.1: the id is taken"),
        ("episodic", [{"id": None, "text": "x"}], "episodic.0.id: "),
        ("facts", "x", "facts: must be a mapping or a list"),
        ("facts", {"a": 1}, "facts.a: must be a text that is not blank"),
        ("facts", {" ": "x"}, "a subject must not be blank"),
        ("facts", {"A b": "x", "a  B": "y"}, "two facts have one subject"),
        ("facts", ["x"], "facts.0: must be a mapping"),
        ("facts", [{"subject": "a"}], "required key 'text' is missing"),
        (
            "facts",
            [{"subject": "a", "text": "x"}, {"subject": "A", "text": "y"}],
            "facts.1.subject: two facts have one subject",
        ),
        ("instructions", {"a": "b"}, "instructions: must be a list"),
        ("instructions", [{"text": ""}], "instructions.0.text: must be a text"),
    ],
)
def test_a_memory_in_another_form_is_refused(key: str, value: Any, said: str) -> None:
    faults = h.case_faults(h.chain(("input", {})), {key: value})
    assert any(said in fault for fault in faults), faults


@pytest.mark.parametrize("key", ["episodic", "facts", "instructions"])
def test_what_was_read_once_can_be_read_again(key: str) -> None:
    value = {"a": "b"} if key == "facts" else ["a", {"text": "b"}]
    once, _ = h.parse_environment({key: value})
    again, faults = h.parse_environment(once)
    assert (again, faults) == (once, [])


def test_the_order_of_a_mapping_of_facts_does_not_matter() -> None:
    one, _ = h.parse_environment({"facts": {"a": "1", "b": "2"}})
    other, _ = h.parse_environment({"facts": {"b": "2", "a": "1"}})
    assert one == other


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("working_memory", {"key": ""}),
        ("episodic_memory", {"top_k": 0}),
        ("episodic_memory", {"min_salience": 2}),
        ("episodic_memory", {"write_policy": "often"}),
        ("semantic_memory", {"conflict": "latest"}),
        ("semantic_memory", {"redact_before_write": "no"}),
        ("procedural_memory", {"write_approval": "auto"}),
    ],
)
def test_a_knob_that_is_none_is_refused(kind: str, config: dict[str, Any]) -> None:
    graph = h.chain(("input", {}), (kind, config), ("output", {}))
    assert ("error", "invalid_config", "n2") in h.codes(graph)


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    graph = h.chain(("input", {}), ("working_memory", {"keys": "a"}), ("output", {}))
    (finding,) = [one for one in h.remarks(graph) if one.level == "error"]
    assert (finding.code, finding.fix) == ("unknown_key", "write 'key'")

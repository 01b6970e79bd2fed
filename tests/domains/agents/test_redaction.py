"""What is redacted is gone from the text, and the event says where it entered, not what it was."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.core.execution import execute
from pytest_evarness.core.graph import parse_graph
from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.core.registry import Registry, load_registry
from pytest_evarness.core.vocabulary import check_event
from pytest_evarness.domains.agents.extension import INTERCEPTOR_RULE, REDACTION_RULE
from pytest_evarness.domains.agents.personal import MAX_ENTERED, Places, redact
from tests.domains.agents import harness as h
from tests.effort import calls_of

if TYPE_CHECKING:
    from pytest_evarness.core.run import Run

TEXT = "ada@example.org, 078-05-1120, 555-123-4567, 4111 1111 1111 1111"
CLEAN = "[EMAIL], [SSN], [PHONE], [CREDIT_CARD]"


def through(text: str, config: dict[str, Any] | None = None) -> Run:
    graph = h.chain(("input", {}), ("redaction_rules", config or {}), ("output", {}))
    return h.run(graph, {"user_input": text})


def test_every_kind_is_replaced_without_a_word_about_kinds() -> None:
    run = through(TEXT)
    assert run.output == CLEAN
    found = h.payload(run, "redaction_applied")
    assert found["count"] == 4
    assert found["rules_hit"] == ["credit_card", "email", "phone", "ssn"]


@pytest.mark.parametrize(
    ("rules", "clean"),
    [
        (["ssn"], "ada@example.org, [SSN], 555-123-4567, 4111 1111 1111 1111"),
        (["phone", "email"], "[EMAIL], 078-05-1120, [PHONE], 4111 1111 1111 1111"),
    ],
)
def test_only_what_is_named_is_replaced(rules: list[str], clean: str) -> None:
    assert through(TEXT, {"rules": rules}).output == clean


def test_a_mask_takes_the_place_of_the_kind() -> None:
    assert through("a@b.org and c@d.org", {"mask": "***"}).output == "*** and ***"
    assert through("a@b.org!", {"mask": ""}).output == "!"


def test_nothing_is_told_where_nothing_was_replaced() -> None:
    run = through("nothing here")
    assert run.output == "nothing here"
    assert "redaction_applied" not in h.types(run)
    assert "redaction_applied" not in h.types(through("a@b.org", {"rules": ["ssn"]}))


@pytest.mark.parametrize(
    ("config", "fix"),
    [
        ({"rules": ["snn"]}, "write 'ssn'"),
        ({"rule": ["ssn"]}, "write 'rules'"),
        ({"rules": []}, None),
        ({"mask": "000-00-0000"}, None),
        ({"mask": "x@y"}, None),
        ({"mask": None}, None),
    ],
)
def test_what_is_refused_when_the_graph_is_read(config: dict[str, Any], fix: str | None) -> None:
    found = h.remarks(h.chain(("input", {}), ("redaction_rules", config), ("output", {})))
    assert [one.fix for one in found if one.level == "error"] == [fix]


# -- disguises -------------------------------------------------------------------------------------

DISGUISED = [
    ("123\u201345\u20136789", "ssn"),
    ("123 45 6789", "ssn"),
    ("SSN-123.45.6789", "ssn"),
    ("\u0661\u0662\u0663-\u0664\u0665-\u0666\u0667\u0668\u0669", "ssn"),
    ("12\u200b3-45-6789", "ssn"),
    ("4111\u00a01111\u20111111 1111", "credit_card"),
    ("4111  1111  1111  1111", "credit_card"),
    ("4111.1111.1111.1111", "credit_card"),
    ("6011000990139424124", "credit_card"),
    ("no-4111111111111111", "credit_card"),
    ("+4111111111111111", "credit_card"),
    ("ada@ex\u00e4mple.org", "email"),
    ("ada\uff20example.org", "email"),
    ("ada%40example.org", "email"),
    ("ada&#64;example.org", "email"),
    ("ada\\u0040example.org", "email"),
    ("o'brien@example.org", "email"),
    ("ada@xn--exmple-cua.xn--p1ai", "email"),
    ("+44 20 7946 0958", "phone"),
    ("+49 (0)30 123456", "phone"),
]
ALIKE = [
    "192.168.100.200 192.168.100.201",
    "2026-11-30T12:00:00.000",
    "order 12345678",
    "12-345-6789",
    "1234-56-78901",
    "411111111111",
    "41111111111111111111",
    "6011000990139424123",
    "2024-01-15 2024-02-20",
    "2024-01-10 - 2024-02-28",
    "15-01-2024 20-02-2024",
    "01 31 2024 02 28 2024",
    "20240115 20240220",
    "20240115103005",
    "2026 2027 2028 2029",
    "2024-01-15 2024-02-20 2024-03-31",
    "4111 1111 1111 1111 1111",
    "ada@localhost",
    "100%40",
    "@example.org",
]


@pytest.mark.parametrize(("datum", "kind"), DISGUISED)
def test_a_datum_is_found_in_whatever_spelling(datum: str, kind: str) -> None:
    made = redact(f"see {datum}\u2026 and go")
    assert made.counts == {kind: 1}
    before, mark, after = made.text.partition(f"[{kind.upper()}]")
    # Exactly the datum is replaced: what stands around it stays as it was written.
    (found,) = made.data
    assert f"{before}{found}{after}" == f"see {datum}\u2026 and go"
    assert mark
    assert datum.endswith(found)


@pytest.mark.parametrize("text", ALIKE)
def test_what_only_looks_alike_stays(text: str) -> None:
    assert redact(text).text == text


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("on 2024-01-15 4111 1111 1111 1111", "on 2024-01-15 [CREDIT_CARD]"),
        ("4111111111111111 2024-01-15", "[CREDIT_CARD] 2024-01-15"),
        ("2024-01-15 2024-02-20 5500-0000-0000-0004", "2024-01-15 2024-02-20 [CREDIT_CARD]"),
        ("4111 1111 1111 1111 12/27", "[CREDIT_CARD] 12/27"),
        ("4111111111111111 123", "[CREDIT_CARD] 123"),
        ("7 4111 1111 1111 1111", "7 [CREDIT_CARD]"),
        ("3782 822463 10005", "[CREDIT_CARD]"),
        ("3056 930902 5904", "[CREDIT_CARD]"),
        ("378282246310005", "[CREDIT_CARD]"),
        ("4222222222222", "[CREDIT_CARD]"),
        ("4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "[CREDIT_CARD]"),
        # As it stands on a card one digit may be wrong: it is masked all the same.
        ("1234 5678 9012 3456", "[CREDIT_CARD]"),
        ("1234567890123456", "1234567890123456"),
    ],
)
def test_a_card_number_is_told_from_what_stands_beside_it(text: str, made: str) -> None:
    assert redact(text).text == made


def test_every_node_that_looks_for_personal_data_sees_through_a_disguise() -> None:
    written = "ada%40example.org"
    for kind in ("redaction_rules", "interceptor"):
        run = h.run(h.chain(("input", {}), (kind, {}), ("output", {})), {"user_input": written})
        (entry,) = h.payload(run, "redaction_applied")["entered"]
        assert at(run, entry) == written
    graph = h.chain(("input", {}), ("semantic_memory", {}), ("context_assembler", {}))
    graph["edges"][1]["to_port"] = "memory"
    run = h.run(graph, {"user_input": f"Remember: my address is {written}."})
    assert written not in str(h.payloads(run, "memory_write"))


@pytest.mark.parametrize(
    "piece", ["1 ", "1-", "a.", "a'", "a@", "+1", "1\u2011", "a@a.", "(1)", "2024-01-15 "]
)
def test_a_long_text_costs_one_pass(piece: str) -> None:
    once, twice = (calls_of(partial(redact, piece * n)) for n in (2_000, 4_000))
    assert twice <= 2 * once + 200


# -- where it entered ------------------------------------------------------------------------------


def at(run: Run, entry: dict[str, Any]) -> str:
    """What stands at a place that an event names."""
    event = run.events[entry["seq"]]
    assert event.type == entry["type"]
    value: Any = event.payload
    for step in entry["path"]:
        value = value[step]
    return str(value[entry["start"] : entry["end"]])


def test_each_datum_is_found_where_it_entered_and_nowhere_in_the_event() -> None:
    run = through(TEXT + " ada@example.org")
    found = h.payload(run, "redaction_applied")
    assert found["count"] == 5
    assert [(one["kind"], one["type"], one["path"]) for one in found["entered"]] == [
        ("email", "run_started", ["input"]),
        ("credit_card", "run_started", ["input"]),
        ("ssn", "run_started", ["input"]),
        ("phone", "run_started", ["input"]),
    ]
    data = [at(run, entry) for entry in found["entered"]]
    assert data == ["ada@example.org", "4111 1111 1111 1111", "078-05-1120", "555-123-4567"]
    assert not any(datum in str(found) for datum in data)
    assert "unplaced" not in found


@pytest.mark.parametrize("kind", ["redaction_rules", "interceptor"])
def test_what_a_tool_brought_in_is_found_in_its_answer(kind: str) -> None:
    graph = h.chain(("input", {}), ("tool", {"tool": "email.search"}), (kind, {}), ("output", {}))
    documents = [{"text": "nothing"}, {"text": "from ada@example.org"}]
    run = h.run(graph, {"tools": {"email.search": [{"result": documents}]}})
    (entry,) = h.payload(run, "redaction_applied")["entered"]
    assert (entry["type"], entry["path"]) == ("tool_result", ["docs", 1, "text"])
    assert at(run, entry) == "ada@example.org"


def test_what_no_event_shows_is_counted() -> None:
    run = through("x" * 5000 + " ada@example.org")
    found = h.payload(run, "redaction_applied")
    assert (found["entered"], found["unplaced"]) == ([], 1)


def test_a_long_list_of_places_ends() -> None:
    text = " ".join(f"a{number}@b.org" for number in range(MAX_ENTERED + 7))
    found = h.payload(through(text), "redaction_applied")
    assert len(found["entered"]) == MAX_ENTERED
    assert found["unplaced"] == 7


@given(st.lists(st.text("ab\0", max_size=4), max_size=6), st.text("ab\0", min_size=1, max_size=3))
def test_a_place_is_the_first_text_that_holds_the_datum(texts: list[str], datum: str) -> None:
    events: list[Any] = [
        {"seq": seq, "type": "custom.said", "payload": {"text": text}}
        for seq, text in enumerate(texts)
    ]
    places = Places()
    # As they come: some were read before.
    places.read(events[:2])
    places.read(events)
    slow = next((seq for seq, text in enumerate(texts) if datum in text), None)
    found = places.first(datum)
    assert (None if found is None else found["seq"]) == slow
    if found is not None:
        text = texts[found["seq"]]
        assert (found["start"], text[found["start"] : found["end"]]) == (text.index(datum), datum)


def test_many_redactions_read_each_event_once() -> None:
    def redacting(many: int) -> int:
        # The event of the input shows few of them, since it is cut.
        lines = [f"fact: s{number} = {'x' * 200} a{number}@a.org" for number in range(many)]
        said = "\n".join(lines)
        graph = h.chain(("input", {}), ("semantic_memory", {}), ("output", {}))
        return calls_of(lambda: h.run(graph, {"user_input": said}))

    redacting(1)  # what is made once and kept
    assert redacting(200) < 3 * redacting(100)


@given(st.text(alphabet="a1@. -[]", max_size=60))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact(text).text
    assert redact(once).text == once


# -- rules of plug-ins -----------------------------------------------------------------------------


def with_rules(kind: str, **rules: Any) -> Registry:
    def register(registry: Registry) -> None:
        for name, rule in rules.items():
            registry.extensions(kind).register(f"acme.{name}", rule)

    made = load_registry([("conftest", register)])
    assert made.broken == []
    return made


def run_in(registry: Registry, node: tuple[str, dict[str, Any]], text: str) -> Run:
    value = h.chain(("input", {}), node, ("output", {}))
    graph, faults = parse_graph(value, registry)
    assert graph is not None
    assert faults == []
    rule = registry.lint_rules.resolve("agents.unknown_name")
    assert rule(graph, registry, h.overlays()) == []
    run = execute(h.compiled(value, {"user_input": text}), registry)
    for event in run.events:
        assert check_event(registry, event.as_record()) == []
    return run


def badges(text: str) -> list[tuple[int, int]]:
    start = text.find("B-")
    return [] if start < 0 else [(start, start + 5)]


def test_a_plug_in_adds_a_redaction_rule() -> None:
    registry = with_rules(REDACTION_RULE, badge=badges)
    node = ("redaction_rules", {"rules": ["acme.badge", "email"]})
    run = run_in(registry, node, "badge B-123 of a@b.org")
    assert run.output == "badge [ACME.BADGE] of [EMAIL]"
    found = h.payload(run, "redaction_applied")
    assert found["rules_hit"] == ["acme.badge", "email"]
    assert {entry["kind"]: at(run, entry) for entry in found["entered"]} == {
        "email": "a@b.org",
        "acme.badge": "B-123",
    }


@pytest.mark.parametrize(
    "spans", [[(0, 99)], [(-1, 2)], [(2, 2)], [(4, 6), (0, 2)], [(0, 4), (3, 5)]]
)
def test_spans_that_cannot_be_meant_fail_the_run(spans: list[tuple[int, int]]) -> None:
    registry = with_rules(REDACTION_RULE, badge=lambda text: spans)
    run = run_in(registry, ("redaction_rules", {"rules": ["acme.badge"]}), "badge B-123")
    assert run.status == "failed"


def test_a_plug_in_adds_a_rule_to_chains() -> None:
    def upper(text: str) -> str:
        return text.upper()

    def short(text: str) -> str:
        if len(text) > 20:
            raise NodeBlocked("acme.short: too long")
        return text

    registry = with_rules(INTERCEPTOR_RULE, upper=upper, short=short)
    node = ("interceptor", {"chain": ["acme.upper", "pii_scrub", "acme.short"]})
    run = run_in(registry, node, "to a@b.org")
    assert run.output == "TO [EMAIL]"
    assert h.payloads(run, "interceptor_applied") == [
        {"rule": "acme.upper", "verdict": "allow", "changed": True},
        {"rule": "pii_scrub", "count": 1},
        {"rule": "acme.short", "verdict": "allow", "changed": False},
    ]
    blocked = run_in(registry, node, "a text of more than twenty characters")
    assert blocked.status == "blocked"
    assert h.payloads(blocked, "interceptor_applied")[-1] == {
        "rule": "acme.short",
        "verdict": "deny",
    }


def test_a_rule_that_gives_no_text_fails_the_run() -> None:
    registry = with_rules(INTERCEPTOR_RULE, none=lambda text: None)
    run = run_in(registry, ("interceptor", {"chain": ["acme.none"]}), "text")
    assert run.status == "failed"


@pytest.mark.parametrize("kind", [INTERCEPTOR_RULE, REDACTION_RULE])
def test_a_rule_that_is_not_registered_is_an_error_with_the_nearest(kind: str) -> None:
    registry = with_rules(kind, badge=badges)
    node = {
        INTERCEPTOR_RULE: ("interceptor", {"chain": ["acme.bagde"]}),
        REDACTION_RULE: ("redaction_rules", {"rules": ["acme.bagde"]}),
    }[kind]
    graph, _ = parse_graph(h.chain(("input", {}), node, ("output", {})), registry)
    assert graph is not None
    rule = registry.lint_rules.resolve("agents.unknown_name")
    (found,) = rule(graph, registry, h.overlays())
    assert (found.level, found.node, found.fix) == ("error", "n2", "write 'acme.badge'")


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (None, "acme.x: gave no parts (got NoneType; pairs of places)"),
        ([(0, 1.5)], "acme.x: no part of a text (got (0, 1.5); start and end)"),
        ([3], "acme.x: no part of a text (got 3; start and end)"),
    ],
)
def test_a_rule_of_a_plug_in_that_answers_wrongly_is_named(found: Any, problem: str) -> None:
    with pytest.raises(TypeError) as raised:
        redact("text", ["acme.x"], extra={"acme.x": lambda text: found})
    assert str(raised.value) == problem
    fine = redact("text", ["acme.x"], extra={"acme.x": lambda text: [(0, 1)]})
    assert fine.text == "[ACME.X]ext"

"""A contract that cannot mean what its author thinks does not load, and says what to write."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.contract.model import Contract, from_definition, parse_contract
from pytest_evarness.core.event import EventType
from pytest_evarness.core.registry import Registry

IDENTITIES = {
    "tool": frozenset({"email.send", "close_account"}),
    "node_id": frozenset({"gate", "send"}),
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    made = Registry()
    schemas: dict[str, Any] = {
        "approval_granted": {"artifact_digest": {"type": "string"}},
        "tool_called": {
            "tool": {"type": "string"},
            "args": {"type": "object"},
            "args_digest": {"type": "string"},
            "docs": {"type": "array", "items": {"type": "object", "properties": {"id": {}}}},
            "decision": {"type": "object", "properties": {"rule": {"type": "string"}}},
        },
        "run_finished": {"output": {"type": "object", "properties": {"text": {}}}},
    }
    for name, fields in schemas.items():
        schema = {"type": "object", "properties": fields}
        made.event_types.register(name, EventType(name, schema, "", "test"))
    made.predicates.register("is_loud", lambda event: True)
    return made


def faults(registry: Registry, body: Any, **more: Any) -> list[str]:
    contract, found = parse_contract(
        "c", {"assert": body, **more}, registry=registry, identities=IDENTITIES
    )
    assert (contract is None) == bool(found)
    return [
        f"{'.'.join(map(str, fault.path))}: {fault.text}"
        + (f" -> {fault.fix}" if fault.fix else "")
        for fault in found
    ]


def parsed(registry: Registry, body: Any, **more: Any) -> Contract:
    contract, found = parse_contract("c", {"assert": body, **more}, registry=registry)
    assert contract is not None, found
    return contract


SENT = {"type": "tool_called", "where": {"tool": "email.send"}}
FIRST = {"type": "approval_granted", "where": {"artifact_digest": "$d"}}
BOUND = {**SENT, "bind": {"d": "args_digest"}}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"nevr": SENT}, "assert.nevr: unknown key (got 'nevr'"),
        (
            {"never": SENT, "eventually": SENT},
            "assert: must hold exactly one primitive (got never, ev",
        ),
        ({}, "assert: must hold exactly one primitive (got none"),
        ({"never": []}, "assert.never: must be a mapping (got []"),
        ({"never": {}}, "assert.never: needs at least one condition"),
        ({"never": {"after": SENT}}, "assert.never: needs at least one condition"),
        ({"never": {**SENT, "wher": 1}}, "assert.never.wher: unknown key (got 'wher'"),
        ({"never": {**SENT, "wher": None}}, "assert.never.wher: unknown key (got 'wher'"),
        (
            {"never": {"type": "tool_caled"}},
            "assert.never.type: unknown event type (got 'tool_caled'",
        ),
        ({"never": {"type": []}}, "assert.never.type: must be an event type or a list of them"),
        (
            {"never": {"type": "tool_called", "where": {}}},
            "assert.never.where: must be a mapping of",
        ),
        (
            {"never": {"type": "tool_called", "where": {"tol": "x"}}},
            "assert.never.where.tol: unknown payload path (got 'tol'; tool_called has args, ",
        ),
        (
            {"never": {"type": "tool_called", "where": {"tool.x": "x"}}},
            "assert.never.where.tool.x: unknown payload path (got 'tool.x'; tool_called has no ",
        ),
        (
            {"never": {"type": "tool_called", "where": {"docs.id": "x"}}},
            "assert.never.where.docs.id: unknown payload path",
        ),
        (
            {"never": {"type": "tool_called", "where": {"decision.rul": "x"}}},
            "assert.never.where.decision.rul: unknown payload path",
        ),
        (
            {"never": {"type": "tool_called", "where": {"tool": "clsoe_account"}}},
            "assert.never.where.tool: unknown tool (got 'clsoe_account'; declared: close_account, ",
        ),
        (
            {"never": {"type": "tool_called", "where": {"tool": {"in": ["email.snd"]}}}},
            "assert.never.where.tool: unknown tool (got 'email.snd'",
        ),
        ({"never": {"node_id": "gat"}}, "assert.never.node_id: unknown node_id (got 'gat'"),
        (
            {"never": {"satisfies": "is_lod"}},
            'assert.never.satisfies: unknown predicate (got "is_lod"',
        ),
        ({"never": {**SENT, "bind": {"d": "args"}}}, "assert.never.bind: only the anchor binds"),
        (
            {"never": {**SENT, "between": [SENT]}},
            "assert.never.between: must be a list of two patterns",
        ),
        (
            {"never": {**SENT, "between": [SENT, SENT], "until": SENT}},
            "assert.never.between: stands alone",
        ),
        ({"never": {"any": []}}, "assert.never.any: must be a list of patterns"),
        (
            {"never": {"any": [SENT], "type": "tool_called"}},
            "assert.never.type: stands beside 'any'",
        ),
        ({"every": {"match": SENT}}, "assert.every: needs a condition"),
        ({"every": {"where": {"tool": "x"}}}, "assert.every: the key 'match' is missing"),
        ({"precedes": {"first": SENT}}, "assert.precedes: the key 'second' is missing"),
        (
            {"precedes": {"first": [], "second": SENT}},
            "assert.precedes.first: must hold at least one",
        ),
        (
            {"precedes": {"first": SENT, "second": SENT, "fresh": 1}},
            "assert.precedes.fresh: must be true or false (got 1)",
        ),
        (
            {"precedes": {"first": SENT, "second": BOUND}},
            "assert.precedes: a variable is bound and not used (got 'd'; use '$d' in 'first')",
        ),
        (
            {"precedes": {"first": {**FIRST, "where": {"artifact_digest": "$e"}}, "second": BOUND}},
            "assert.precedes: unknown variable (got '$e'; bound: d",
        ),
        (
            {"precedes": {"first": FIRST, "second": {**SENT, "bind": {"d": "docs[*].id"}}}},
            "assert.precedes.second.bind.d: [*] has no one value",
        ),
        (
            {"precedes": {"first": FIRST, "second": {**SENT, "bind": {"$d": "args_digest"}}}},
            "assert.precedes.second.bind.$d: a variable is letters",
        ),
        (
            {"precedes": {"first": FIRST, "second": {"any": [BOUND]}}},
            "assert.precedes.second.any.0.bind: a branch of 'any' cannot bind",
        ),
        (
            {
                "precedes": {
                    "first": {**FIRST, "where": {"artifact_digest": {"ne": "$d"}}},
                    "second": BOUND,
                }
            },
            "assert.precedes.first.where.artifact_digest: 'first' uses a variable by equality",
        ),
        (
            {"precedes": {"first": FIRST, "second": {**BOUND, "where": {"tool": "$5"}}}},
            'assert.precedes.second.where.tool: unknown variable (got "$5"; $$ is a ',
        ),
        (
            {"leads_to": {"when": SENT, "then": SENT, "within": 200}},
            "assert.leads_to.within: must be a mapping (got 200; {events: k}) -> write '{e",
        ),
        (
            {"leads_to": {"when": SENT, "then": SENT, "within": {"events": 0}}},
            "assert.leads_to.within.events: must be a positive integer (got 0; 1 or more)",
        ),
        ({"at_most": {"n": True, "of": SENT}}, "assert.at_most.n: must be an integer (got true"),
        (
            {"at_most": {"n": 1, "of": SENT, "per": []}},
            "assert.at_most.per: must be a list of paths",
        ),
        (
            {"at_most": {"n": 1, "of": SENT, "per": ["docs[*].id"]}},
            "assert.at_most.per.0: [*] has no one value",
        ),
        (
            {"at_most": {"n": 1, "of": SENT, "per": ["efect"]}},
            "assert.at_most.per.0: unknown payload",
        ),
    ],
)
def test_a_mistake_in_the_assertion_is_named(registry: Registry, body: Any, fault: str) -> None:
    found = faults(registry, body)
    assert any(text.startswith(fault) for text in found), found


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"versoin": 1}, "versoin: unknown key (got 'versoin'"),
        ({"version": 0}, "version: must be a positive integer (got 0; 1 or more)"),
        ({"version": True}, "version: must be a positive integer (got true"),
        ({"severity": "criticl"}, "severity: must be one of info, minor, major, critical"),
        ({"gate": "yes"}, 'gate: must be true or false (got "yes")'),
        ({"status": "draft", "gate": True}, "gate: a draft never decides"),
        ({"vacuous": "ignore"}, "vacuous: must be one of pass, fail, indeterminate"),
        (
            {"enforced_by": ["aproval_gate"]},
            'enforced_by.0: unknown enforcement (got "aproval_gate"',
        ),
        ({"history": [{"versoin": 1, "version": 1}]}, "history.0.versoin: unknown key"),
        ({"owner": 3}, "owner: must be a text (got 3)"),
        ({"corpus": []}, "corpus: must be a mapping (got []"),
        ({"applies_to": {}}, "applies_to: must be a mapping (got {}"),
        ({"overrides": "x"}, "overrides: must be ID@VERSION (got"),
    ],
)
def test_a_mistake_beside_the_assertion_is_named(
    registry: Registry, more: dict[str, Any], fault: str
) -> None:
    (text,) = faults(registry, {"never": SENT}, **more)
    assert text.startswith(fault)


@pytest.mark.parametrize(
    ("version", "lines", "fault"),
    [
        (2, [(1, "2026-01-31"), (2, "2026-02-28")], None),
        (3, [(1, None), (3, None)], None),
        (3, [(2, "2024-02-29")], None),
        (1, [(2, "2026-01-31")], "0.version: is a version that is yet to come (got 2; at most 1,"),
        (3, [(2, None), (1, None)], "1.version: versions ascend, each with one line (got 1; above"),
        (3, [(2, None), (2, None)], "1.version: versions ascend, each with one line (got 2; above"),
        (1, [(1, "9999-99-99")], '0.date: is no day of the calendar (got "9999-99-99"; YYYY-MM'),
        (1, [(1, "2026-02-29")], "0.date: is no day of the calendar"),
        (1, [(1, "20260131")], "0.date: is no day of the calendar"),
        (1, [(1, "2026-W05-6")], "0.date: is no day of the calendar"),
        (1, [(1, "2026-01-31\n")], "0.date: is no day of the calendar"),
        (1, [(1, "\u0662026-01-31")], "0.date: is no day of the calendar"),
        (0, [(7, None)], "version: must be a positive integer (got 0"),
    ],
)
def test_a_history_tells_of_days_and_versions_that_there_were(
    registry: Registry, version: int, lines: list[tuple[int, str | None]], fault: str | None
) -> None:
    history = [{"version": one, **({"date": date} if date else {})} for one, date in lines]
    found = faults(registry, {"never": SENT}, version=version, history=history)
    if fault is None:
        assert found == []
    else:
        (text,) = found
        assert text.removeprefix("history.").startswith(fault)


def test_all_mistakes_come_at_once(registry: Registry) -> None:
    found = faults(
        registry,
        {"never": {"type": "tool_caled", "wher": 1, "where": {"x": {"gt": "1"}}}},
        versoin=1,
        corpus=[],
    )
    assert [text.split(":")[0] for text in found] == [
        "versoin",
        "corpus",
        "assert.never.wher",
        "assert.never.type",
        "assert.never.where.x.gt",
    ]


def test_custom_types_and_types_of_a_traces_sources_have_no_schema(registry: Registry) -> None:
    parsed(registry, {"never": {"type": "custom.x", "where": {"what.ever": 1}}})
    body: Any = {"never": {"type": "theirs", "where": {"what.ever": 1}}}
    assert faults(registry, body)
    contract, _ = parse_contract(
        "c", {"assert": body}, registry=registry, declared_types=frozenset({"theirs"})
    )
    assert contract is not None
    assert from_definition(contract.definition(), Registry()).rule == contract.rule


def test_a_dollar_is_literal_without_a_bind(registry: Registry) -> None:
    assert faults(registry, {"never": {"type": "custom.x", "where": {"p": "$5"}}}) == []


def test_the_published_form_reads(registry: Registry) -> None:
    contract = parsed(
        registry, {"never": {**SENT, "after": {"type": "approval_granted"}}}, title="t"
    )
    assert contract.gate
    assert contract.required_types == {"tool_called", "approval_granted"}


def test_a_definition_says_everything_that_judging_needs(registry: Registry) -> None:
    body = {"precedes": {"first": FIRST, "second": BOUND, "fresh": True}}
    contract = parsed(registry, body, version=3, severity="critical", vacuous="fail", owner="me")
    again = from_definition(contract.definition(), registry)
    assert again == contract
    with pytest.raises(ValueError, match=r"^assert: must hold exactly one"):
        from_definition({**contract.definition(), "assert": {}}, registry)


def test_a_variable_of_another_name_is_one_mistake(registry: Registry) -> None:
    first = {**FIRST, "where": {"artifact_digest": "$e"}}
    body: Any = {"precedes": {"first": first, "second": BOUND}}
    (fault,) = parse_contract("c", {"assert": body}, registry=registry)[1]
    assert (fault.code, fault.fix) == ("unknown_variable", "write '$d'")
    # The twin: of two that are bound nobody knows which one was meant.
    second = {**SENT, "bind": {"d": "args_digest", "other": "tool"}}
    both = {"precedes": {"first": first, "second": second}}
    assert len(faults(registry, both)) == 3

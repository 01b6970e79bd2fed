"""A pattern that can match nothing, or everything, by what the vocabulary says does not load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pytest_evarness.contract.model import Contract, parse_contract
from pytest_evarness.core.interfaces import Shape
from pytest_evarness.core.matcher import parse_path
from pytest_evarness.core.registry import Registry, packaged_registry
from pytest_evarness.core.schema import Place, PlaceError, Schema
from pytest_evarness.domains.agents.node.dialogue import _LAYOUTS
from pytest_evarness.domains.agents.node.interceptor import CHAIN_RULES
from pytest_evarness.domains.agents.personal import _PATTERNS
from pytest_evarness.domains.agents.vocabulary import CHAIN, LAYOUTS, PERSONAL

PAY: Any = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "amount": {"type": "number", "exclusiveMinimum": 0},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "required": ["to"],
    "additionalProperties": False,
    "$defs": {
        "line": {
            "type": "object",
            "properties": {"sku": {"type": "string"}},
            "additionalProperties": False,
        }
    },
}
MAIL: Any = {
    "type": "object",
    "properties": {"to": {"type": "string"}},
    "additionalProperties": False,
}
SEEK: Any = {"type": "object", "properties": {"amount": {"type": "number"}}}
SCHEMAS = {"crm.pay": PAY, "crm.mail": MAIL, "crm.seek": SEEK}
IDENTITIES = {
    "tool": frozenset(SCHEMAS),
    "capability": frozenset(SCHEMAS),
    "node_id": frozenset({"gate", "send", "4"}),
    "node_type": frozenset({"tool", "output", "llm"}),
    "provider": frozenset({"sim:default"}),
    "classification": frozenset({"public", "internal", "personal", "secret"}),
}


def shapes(schemas: Mapping[str, Any]) -> tuple[Shape, ...]:
    return (
        Shape(frozenset({"tool_called"}), "args", "tool", schemas, "d", is_checked=True),
        Shape(frozenset({"policy_decision"}), "args", "capability", schemas, "d", is_checked=False),
    )


@pytest.fixture(scope="module")
def registry() -> Registry:
    return packaged_registry()


def read(
    registry: Registry, body: Any, *, alone: bool = False, schemas: Mapping[str, Any] = SCHEMAS
) -> tuple[Contract | None, list[str]]:
    """The contract and its faults; ``alone``: as ``check`` reads it, without graph or manifests."""
    more: dict[str, Any] = {} if alone else {"identities": IDENTITIES, "shapes": shapes(schemas)}
    contract, faults = parse_contract("c", {"assert": body}, registry=registry, **more)
    texts = [fault.text + (f" -> {fault.fix}" if fault.fix else "") for fault in faults]
    return contract, texts


def called(**where: Any) -> dict[str, Any]:
    return {"type": "tool_called", "where": where}


def pair(name: str, bad: Any, good: Any, *words: str) -> Any:
    return pytest.param(bad, good, words, id=name)


# Each: what is refused, its twin that loads, and words of the message. All hold without a graph.
BY_SCHEMA = [
    pair(
        "below anyOf",
        {"type": "run_finished", "where": {"output.txt": "x"}},
        {"type": "run_finished", "where": {"output.text": "x"}},
        "unknown payload path (got 'output.txt'; run_finished has digest, text, tokens,",
        "write 'output.text'",
    ),
    pair(
        "the node in the payload",
        called(node_id="send"),
        {"type": "tool_called", "node_id": "send"},
        "'node_id' stands beside 'where', not in it",
    ),
    pair(
        "the payload in its own",
        called(**{"payload.tool": "crm.pay"}),
        called(tool="crm.pay"),
        "write 'tool': a path starts in the payload",
    ),
    pair(
        "fields of a text",
        called(**{"tool.id": "x"}),
        called(**{"decision.rule": "approval"}),
        "tool_called has no fields in tool: it is text",
    ),
    pair(
        "elements of no list",
        called(**{"tool[*]": "x"}),
        {"type": "tool_result", "where": {"docs[*].id": "x"}},
        "no elements in tool: it is text",
    ),
    pair(
        "index of a mapping",
        called(**{"decision[0]": "x"}),
        {"type": "retrieval_performed", "where": {"ids[0]": "x"}},
        "no elements in decision: it is mapping",
    ),
    pair(
        "an index from the end",
        {"type": "custom.x", "where": {"a[-1]": "x"}},
        {"type": "custom.x", "where": {"a[-1]": {"exists": False}}},
        "an index counts from 0",
    ),
    pair(
        "one path twice",
        {"type": "custom.x", "where": {"a": 1, '["a"]': 2}},
        {"type": "custom.x", "where": {"a": 1, "b": 2}},
        "is the same path as 'a'",
    ),
    pair(
        "a type twice",
        {"type": ["tool_called", "tool_called"]},
        {"type": ["tool_called", "tool_result"]},
        "the event type is named twice (got 'tool_called')",
    ),
    pair(
        "a node that is a number",
        {"type": "tool_called", "node_id": 4},
        {"type": "tool_called", "node_id": "4"},
        "can never be equal (got integer 4; text or null is needed) -> write '4' in quotes",
    ),
    pair(
        "a node below a number",
        {"node_id": {"gt": 3}},
        {"node_id": {"pattern": "^g"}},
        "gt can never be decided (it needs a number, and text or null is there)",
    ),
    pair("a number for a text", called(tool=0), called(tool="crm.pay"), "got integer 0"),
    pair("an empty list for a text", called(tool=[]), called(tool={"in": ["crm.pay"]}), "list []"),
    pair(
        "a list for in",
        called(tool=["crm.pay"]),
        called(tool={"in": ["crm.pay"]}),
        "write 'in: [\"crm.pay\"]'",
    ),
    pair(
        "null for what is there",
        called(tool=None),
        {"type": "intent_routed", "where": {"matched": None}},
        "can never be equal (got null; text is needed)",
    ),
    pair(
        "null for what may be absent",
        {"type": "policy_decision", "where": {"revision": None}},
        {"type": "policy_decision", "where": {"revision": {"exists": False}}},
        "write 'exists: false'",
    ),
    pair(
        "a text for a number",
        {"type": "run_finished", "where": {"total_tokens": "12"}},
        {"type": "run_finished", "where": {"total_tokens": 12}},
        "whole number of at least 0 is needed",
        "write 12 without quotes",
    ),
    pair(
        "a number below the least",
        {"type": "run_finished", "where": {"total_tokens": -1}},
        {"type": "run_finished", "where": {"total_tokens": 0.0}},
        "can never be equal (got integer -1",
    ),
    pair(
        "a text in quotes for a flag",
        {"type": "output_parsed", "where": {"ok": "true"}},
        {"type": "output_parsed", "where": {"ok": True}},
        "write true without quotes",
    ),
    pair(
        "in a list",
        called(args_digest={"in": [3]}),
        called(args_digest={"in": ["sha256:" + "0" * 64]}),
        "can never be equal",
    ),
    pair(
        "a digest that is cut",
        called(args_digest="sha256:00"),
        called(args_digest={"pattern": "^sha256:00"}),
        "text like ^sha256:[0-9a-f]{64}$ (71 characters) is needed",
    ),
    pair(
        "not",
        called(tool_version={"not": 2}),
        called(tool_version={"not": "2"}),
        "can never be equal, so the condition always holds",
    ),
    pair(
        "a word of a closed list",
        called(**{"decision.rule": "aprove_side_effects"}),
        called(**{"decision.rule": "approve_side_effects"}),
        "one of read_only, approve_side_effects, approval is needed",
        "write 'approve_side_effects'",
    ),
    pair(
        "a word in a list of them",
        called(side_effects={"in": ["wrtie", "destructive"]}),
        called(side_effects={"in": ["write", "destructive"]}),
        "write 'write'",
    ),
    pair(
        "an expression of no word",
        called(side_effects={"pattern": "^wrt"}),
        called(side_effects={"pattern": "^wri"}),
        'no value can meet this (got matches "^wrt"; one of read, write, destructive is there)',
    ),
    pair("the mode", called(mode="live"), called(mode={"not": "sim"}), "one of sim is needed"),
    pair(
        "why a call was refused",
        {"type": "policy_decision", "where": {"rule": "aproval_used"}},
        {"type": "policy_decision", "where": {"rule": "approval_used"}},
        "write 'approval_used'",
    ),
    pair(
        "a rule of an interceptor",
        {"type": "interceptor_applied", "where": {"rule": "pii_srcub"}},
        {"type": "interceptor_applied", "where": {"rule": "pii_scrub"}},
        "write 'pii_scrub'",
    ),
    pair(
        "a member of a closed list",
        {"type": "redaction_applied", "where": {"rules_hit": {"contains": "phne"}}},
        {"type": "redaction_applied", "where": {"rules_hit": {"contains": "phone"}}},
        "can never be contained",
    ),
    pair(
        "no member of a closed list",
        {"type": "redaction_applied", "where": {"rules_hit": {"not_contains": "phne"}}},
        {"type": "redaction_applied", "where": {"rules_hit": {"not_contains": "phone"}}},
        "so the condition always holds",
    ),
    pair(
        "a number operator on a text",
        called(args_digest={"gt": 3}),
        {"type": "run_finished", "where": {"cost_usd": {"gt": 0.5}}},
        "gt can never be decided (it needs a number, and text",
    ),
    pair(
        "a text operator on a number",
        {"type": "run_finished", "where": {"total_tokens": {"contains": "1"}}},
        {"type": "run_finished", "where": {"output.text": {"contains": "1"}}},
        "contains can never be decided (it needs a text or a list,",
    ),
    pair(
        "an expression on a number",
        {"type": "run_finished", "where": {"total_tokens": {"pattern": "1"}}},
        {"type": "run_finished", "where": {"output.text": {"pattern": "1"}}},
        "pattern can never be decided",
    ),
    pair(
        "the length of a number",
        {"type": "run_finished", "where": {"total_tokens": {"length": 1}}},
        {"type": "tool_result", "where": {"docs": {"length": 1}}},
        "length can never be decided",
    ),
    pair(
        "a length below zero",
        {"type": "custom.x", "where": {"a": {"length": {"lt": 0}}}},
        {"type": "custom.x", "where": {"a": {"length": {"lt": 1}}}},
        "no value can meet this",
    ),
    pair(
        "elements of a text",
        called(query={"any": {"equals": "x"}}),
        {"type": "retrieval_performed", "where": {"ids": {"any": {"equals": "x"}}}},
        "any can never be decided (it needs a list, and text is there)",
    ),
    pair(
        "an element that cannot be",
        {"type": "retrieval_performed", "where": {"ids": {"any": {"equals": 3}}}},
        {"type": "retrieval_performed", "where": {"scores": {"any": {"equals": 3}}}},
        "can never be equal (got integer 3; text is needed)",
    ),
    pair(
        "absence of what is always there",
        {"type": "approval_granted", "where": {"approver": {"exists": False}}},
        {"type": "approval_granted", "where": {"tool": {"exists": False}}},
        "is always there",
    ),
    pair(
        "bounds that leave nothing",
        {"type": "custom.x", "where": {"n": {"gt": 10, "lt": 3}}},
        {"type": "custom.x", "where": {"n": {"gt": 3, "lt": 10}}},
        "no value can meet this (got > 10 and < 3)",
    ),
    pair(
        "no whole number between",
        {"type": "run_finished", "where": {"events": {"gt": 3, "lt": 4}}},
        {"type": "run_finished", "where": {"cost_usd": {"gt": 3, "lt": 4}}},
        "no value can meet this",
    ),
    pair(
        "the length of another digest",
        called(args_digest={"length": 64}),
        called(args_digest={"length": 71, "contains": "0"}),
        "no value can meet this (got has a length = 64; text like ^sha256:[0-9a-f]{64}$ (71",
    ),
    pair(
        "no part of a digest",
        called(args_digest={"contains": "zz"}),
        called(args_digest={"contains": "a0"}),
        'no value can meet this (got contains "zz"; text like ^sha256:',
    ),
    pair(
        "another beginning",
        called(args_digest={"pattern": "^md5:"}),
        called(args_digest={"pattern": "^(md5|sha256):0"}),
        'no value can meet this (got matches "^md5:"; text like ^sha256:',
    ),
    pair(
        "a bare digest",
        {"type": "policy_decision", "where": {"approved": {"any": {"pattern": "^[0-9a-f]{64}$"}}}},
        {"type": "policy_decision", "where": {"approved": {"any": {"pattern": "[0-9a-f]{64}$"}}}},
        "no value can meet this",
    ),
    pair(
        "another digest in a list",
        {"type": "policy_decision", "where": {"approved": {"contains": "abc"}}},
        {"type": "policy_decision", "where": {"approved": {"contains": "sha256:" + "0" * 64}}},
        'can never be contained (got text "abc"; text like ^sha256:',
    ),
    pair(
        "below zero",
        {"type": "llm_request", "where": {"prompt_tokens": {"lt": 0}}},
        {"type": "llm_request", "where": {"prompt_tokens": {"lt": 1}}},
        "no value can meet this (got < 0; whole number of at least 0 is there)",
    ),
    pair(
        "there and not there",
        {"type": "custom.x", "where": {"a": {"exists": False, "equals": "x"}}},
        {"type": "custom.x", "where": {"a": {"exists": False, "not": "x"}}},
        'no value can meet this (got is not there and = "x")',
    ),
    pair(
        "a length of another text",
        {"type": "custom.x", "where": {"a": {"length": 3, "equals": "ab"}}},
        {"type": "custom.x", "where": {"a": {"length": 2, "equals": "ab"}}},
        "no value can meet this",
    ),
    pair(
        "two kinds at once",
        {"type": "custom.x", "where": {"a": {"gt": 1, "contains": "x"}}},
        {"type": "custom.x", "where": {"a": {"length": {"gt": 1}, "contains": "x"}}},
        "no value can meet this",
    ),
    pair(
        "itself and not",
        {"type": "custom.x", "where": {"a": {"equals": 1, "ne": 1}}},
        {"type": "custom.x", "where": {"a": {"equals": 1, "ne": 2}}},
        "no value can meet this (got = 1 and != 1)",
    ),
    pair(
        "equal and not",
        {"type": "custom.x", "where": {"n": {"in": [1, 2], "gt": 2}}},
        {"type": "custom.x", "where": {"n": {"in": [1, 2], "gt": 1}}},
        "no value can meet this (got in [1, 2] and > 2)",
    ),
]

# The same, where a graph and its manifests are known.
BY_IDENTITY = [
    pair(
        "an expression of no tool",
        called(tool={"pattern": "^crm.pya$"}),
        called(tool={"pattern": "^crm.pay$"}),
        'no declared tool meets this (got matches "^crm.pya$"; declared: crm.mail, crm.pay,',
        "did you mean 'crm.pay'?",
    ),
    pair(
        "a part of no node",
        {"node_id": {"contains": "44"}},
        {"node_id": {"not_contains": "44"}},
        'no declared node_id meets this (got contains "44"; declared: 4, gate, send)',
    ),
    pair(
        "any event of no tool",
        {"where": {"tool": {"contains": "pya"}}},
        {"where": {"tool": {"contains": "pay"}}},
        "no declared tool meets this",
    ),
    pair(
        "a call of the run itself",
        {"type": "tool_called", "node_id": None},
        {"type": "policy_violation", "node_id": None},
        "no declared node_id meets this (got = null; a node of the graph: 4, gate, send)",
    ),
    pair(
        "the end of a node",
        {"type": "run_finished", "node_id": "send"},
        {"type": "run_finished", "node_id": None},
        "run_finished: of the run itself, where node_id is null",
    ),
    pair(
        "a node type",
        {"type": "node_started", "where": {"type": "toool"}},
        {"type": "node_started", "where": {"type": "tool"}},
        "unknown node type (got 'toool'; declared: llm, output, tool) -> write 'tool'",
    ),
    pair(
        "an argument of every tool",
        called(**{"args.amonut": {"gt": 1000}, "tool": {"in": ["crm.pay", "crm.mail"]}}),
        called(**{"args.amount": {"gt": 1000}, "tool": {"in": ["crm.pay", "crm.mail"]}}),
        "unknown payload path (got 'args.amonut'; crm.mail has to in args; crm.pay has",
        "write 'args.amount'",
    ),
    pair(
        "an argument of one tool",
        called(**{"args.amount": {"gt": 1000}, "tool": "crm.mail"}),
        called(**{"args.amount": {"gt": 1000}, "tool": "crm.pay"}),
        "unknown payload path (got 'args.amount'; crm.mail has to in args)",
    ),
    pair(
        "an argument of its kind",
        called(**{"args.amount": "1000", "tool": "crm.pay"}),
        called(**{"args.amount": 1000, "tool": "crm.pay"}),
        "write 1000 without quotes",
    ),
    pair(
        "an argument below a reference",
        called(**{"args.lines[*].skuu": "x", "tool": "crm.pay"}),
        called(**{"args.lines[*].sku": "x", "tool": "crm.pay"}),
        "write 'args.lines[*].sku'",
    ),
    pair(
        "arguments that no manifest lets pass",
        called(args={"equals": {"too": "ann"}}, tool="crm.mail"),
        called(args={"equals": {"to": "ann"}}, tool="crm.mail"),
        'can never be equal (got mapping {"too": "ann"}; it has no "too", it has to) -> write',
    ),
    pair(
        "arguments without one that is needed",
        called(args={"in": [{"amount": 3}]}, tool="crm.pay"),
        called(args={"in": [{"amount": 3, "to": "ann"}]}, tool="crm.pay"),
        'it needs "to"',
    ),
    pair(
        "arguments of another kind, deep inside",
        called(args={"equals": {"to": "x", "lines": [{"sku": 3}]}}, tool="crm.pay"),
        called(args={"equals": {"to": "x", "lines": [{"sku": "3"}]}}, tool="crm.pay"),
        "lines[0].sku: text is needed) -> write '3' in quotes",
    ),
    pair(
        "arguments out of bounds",
        called(args={"equals": {"to": "x", "amount": 0}}, tool={"in": ["crm.pay", "crm.mail"]}),
        called(args={"equals": {"to": "x", "amount": 1}}, tool={"in": ["crm.pay", "crm.mail"]}),
        "amount: number above 0 is needed",
    ),
    pair(
        "no arguments where one is needed",
        called(args={"length": 0}, tool="crm.pay"),
        called(args={"length": 0}, tool="crm.mail"),
        "no value can meet this (got has a length = 0; mapping is there)",
    ),
    pair(
        "an argument that was refused",
        {"type": "policy_decision", "where": {"capability": "crm.pay", "args.amonut": 1}},
        {"type": "policy_decision", "where": {"capability": "crm.pay", "args.amount": "1"}},
        "write 'args.amount'",
    ),
]


def bodies(pattern: Any) -> Iterator[Any]:
    """The pattern in every place that takes one."""
    other = {"type": "run_finished"}
    yield {"never": pattern}
    yield {"never": {**other, "after": pattern}}
    yield {"never": {**other, "between": [other, pattern]}}
    yield {"eventually": {"any": [other, pattern]}}
    yield {"every": {"match": pattern, "satisfies": "loud"}}
    yield {"precedes": {"first": [other, pattern], "second": other}}
    yield {"leads_to": {"when": other, "then": pattern}}
    yield {"at_most": {"n": 1, "of": pattern}}
    if "type" in pattern and "where" in pattern:
        yield {"every": {"match": {"type": pattern["type"]}, "where": pattern["where"]}}


@pytest.mark.parametrize(("bad", "good", "words"), BY_SCHEMA)
def test_what_the_vocabulary_excludes_is_refused(
    registry: Registry, bad: Any, good: Any, words: tuple[str, ...]
) -> None:
    if "loud" not in registry.predicates:
        registry.predicates.register("loud", lambda event: True)
    for body in bodies(bad):
        contract, found = read(registry, body, alone=True)
        assert contract is None
        assert all(any(word in text for text in found) for word in words), found
    for body in bodies(good):
        contract, found = read(registry, body, alone=True)
        assert contract is not None, found


@pytest.mark.parametrize(("bad", "good", "words"), BY_IDENTITY)
def test_what_graph_and_manifests_exclude_is_refused(
    registry: Registry, bad: Any, good: Any, words: tuple[str, ...]
) -> None:
    (found,) = (read(registry, {"never": bad})[1],)
    assert all(any(word in text for text in found) for word in words), found
    contract, found = read(registry, {"never": good})
    assert contract is not None, found
    assert contract.warnings == ()
    assert read(registry, {"never": bad}, alone=True)[0] is not None


def test_an_open_manifest_lets_a_name_pass_and_says_which_it_looks_like(
    registry: Registry,
) -> None:
    contract, _ = read(registry, {"never": called(**{"args.amonut": {"gt": 1000}})})
    assert contract is not None
    (warning,) = contract.warnings
    assert warning.startswith("'args.amonut' is not listed")
    assert warning.endswith("did you mean 'args.amount'?")
    for name in ("args.amount", "args.colour", "args"):
        contract, _ = read(registry, {"never": called(**{name: {"exists": True}})})
        assert contract is not None
        assert contract.warnings == ()


def test_a_variable_ties_values_of_one_kind(registry: Registry) -> None:
    def body(source: str, where: Any) -> Any:
        after = {"type": "context_snapshot", "bind": {"v": source}}
        return {"never": {"type": "tool_called", "where": where, "after": after}}

    (text,) = read(registry, body("total_tokens", {"tool": "$v"}), alone=True)[1]
    assert text == "'tool' can never meet '$v' (got a number; a text is needed)"
    (text,) = read(registry, body("total_tokens", {"query": {"contains": "$v"}}), alone=True)[1]
    assert "'query' can never meet '$v'" in text
    assert read(registry, body("total_tokens", {"args.n": "$v"}), alone=True)[0] is not None


def test_arguments_are_free_where_no_manifest_says_more(registry: Registry) -> None:
    anything = {"args": {"equals": {"whatever": 1}}}
    for where in (anything, {**anything, "tool": "crm.seek"}):  # an open manifest is among them
        assert read(registry, {"never": called(**where)})[0] is not None
    # What was refused may have had any arguments, and a secret or a cut text is not known.
    refused = {"type": "policy_decision", "where": {**anything, "capability": "crm.mail"}}
    assert read(registry, {"never": refused})[0] is not None
    for text in ("«secret:KEY»", "x" * 4096):
        hidden = {"equals": {"to": "ann", "lines": text}}
        assert read(registry, {"never": called(tool="crm.pay", args=hidden)})[0] is not None


IDLE = [
    ({"type": "llm_request"}, {"prompt_tokens": {"gte": 0}}, {"prompt_tokens": {"gte": 1}}),
    ({"type": "llm_request"}, {"text": {"length": {"gte": 0}}}, {"text": {"length": {"gte": 1}}}),
    ({"type": "llm_request"}, {"text": {"contains": ""}}, {"text": {"contains": "x"}}),
    ({"type": "llm_request"}, {"text": {"pattern": ""}}, {"text": {"pattern": "x"}}),
    ({"type": "llm_request"}, {"prompt_digest": {"length": 71}}, {"text": {"length": 71}}),
    (
        {"type": "tool_called"},
        {"args_digest": {"pattern": "^sha256:"}},
        {"args_digest": {"pattern": "^sha256:0"}},
    ),
    (
        {"type": "tool_called"},
        {"side_effects": {"in": ["read", "write", "destructive"]}},
        {"side_effects": {"in": ["read", "write"]}},
    ),
    (
        {"type": "tool_called", "where": {"tool": "crm.pay"}},
        {"tool": {"in": ["crm.pay", "crm.mail"]}},
        {"tool": "crm.mail"},
    ),
    (
        {"type": "policy_decision"},
        {"decision": "deny", "capability": {"length": {"gte": 0}}},
        {"decision": "deny", "revision": {"length": {"gte": 0}}},  # it may be absent
    ),
]


@pytest.mark.parametrize(("match", "idle", "busy"), IDLE)
def test_a_condition_that_always_holds_asserts_nothing(
    registry: Registry, match: Any, idle: Any, busy: Any
) -> None:
    contract, found = read(registry, {"every": {"match": match, "where": idle}})
    assert contract is None
    assert len(found) == len(idle)
    assert all("always holds, so nothing is asserted (got " in text for text in found)
    contract, found = read(registry, {"every": {"match": match, "where": busy}})
    assert contract is not None, found
    # It only chooses among events anywhere else.
    if "where" not in match:
        assert read(registry, {"never": {**match, "where": idle}})[0] is not None


def test_beside_one_that_asks_something_it_is_a_warning(registry: Registry) -> None:
    where = {"prompt_tokens": {"gte": 0}, "text": {"contains": "x"}}
    body = {"every": {"match": {"type": "llm_request"}, "where": where}}
    contract, found = read(registry, body)
    assert contract is not None, found
    (warning,) = contract.warnings
    assert warning.startswith("where.prompt_tokens: always holds, so nothing is asserted")
    alone = {"prompt_tokens": where["prompt_tokens"]}
    if "loud" not in registry.predicates:
        registry.predicates.register("loud", lambda event: True)
    more = {"match": {"type": "llm_request"}, "where": alone, "satisfies": "loud"}
    assert read(registry, {"every": more})[0] is not None


def test_that_something_is_there_may_be_asked_of_what_always_is(registry: Registry) -> None:
    """A record may lack it all the same, and that is what such a contract is for."""
    body = {
        "every": {"match": {"type": "tool_called"}, "where": {"decision.rule": {"exists": True}}}
    }
    assert read(registry, body)[0] is not None


def test_what_always_holds_by_its_schema_may_not_in_a_foreign_trace(registry: Registry) -> None:
    bodies: list[dict[str, Any]] = [
        {"every": {"match": {"type": "llm_request"}, "where": {"prompt_tokens": {"gte": 0}}}},
        {"never": {"type": "tool_called", "where": {"args_digest": {"length": 64}}}},
    ]
    for body in bodies:
        declared = frozenset({"llm_request", "tool_called"})
        contract, found = parse_contract(
            "c", {"assert": body}, registry=registry, declared_types=declared
        )
        assert contract is not None, found
        assert parse_contract("c", {"assert": body}, registry=registry)[0] is None


def test_an_alias_is_told_with_its_id(registry: Registry) -> None:
    aliases = {"pay": "crm.pay", "wire": "bank.wire"}
    for path, kind in (("tool", "tool_called"), ("capability", "policy_decision")):
        body: dict[str, Any] = {"never": {"type": kind, "where": {path: "pay"}}}
        _, (fault,) = parse_contract(
            "c", {"assert": body}, registry=registry, identities=IDENTITIES, aliases=aliases
        )
        assert fault.text == "is an alias of crm.pay, and events hold the id (got 'pay')"
        assert fault.fix == "write 'crm.pay'"
    body = {"never": called(tool="wire")}
    _, (fault,) = parse_contract(
        "c", {"assert": body}, registry=registry, identities=IDENTITIES, aliases=aliases
    )
    assert fault.text.startswith("unknown tool")


def test_types_of_the_users_own_are_free(registry: Registry) -> None:
    where = {"tool": 3, "output.txt": None, "side_effects": {"gt": 1}, "node_id": [1]}
    for types in ("custom.x", ["custom.x", "tool_called"]):
        contract, found = read(registry, {"never": {"type": types, "where": where}})
        assert contract is not None, found
    assert read(registry, {"never": {"type": "custom.x", "where": {"tool": "crm.pya"}}})[1]


def test_one_of_several_types_is_enough(registry: Registry) -> None:
    pattern = {"type": ["tool_called", "policy_decision"], "where": {"decision": "deny"}}
    assert read(registry, {"never": pattern})[0] is not None
    assert read(registry, {"never": {**pattern, "where": {"decision": "dney"}}})[0] is None


def test_every_type_lists_its_fields(registry: Registry) -> None:
    """Without that a path could not be checked; the one that is open says so in its sentence."""
    is_open = set()
    for name, entry in registry.event_types.items():
        pending: list[tuple[str, Any]] = [(name, entry.schema)]
        while pending:
            at, schema = pending.pop()
            if schema.get("properties"):
                if schema.get("additionalProperties") is not False:
                    is_open.add(at)
                pending += [(f"{at}.{key}", one) for key, one in schema["properties"].items()]
            pending += [(at, one) for one in schema.get("anyOf", [])]
            pending += [(f"{at}[*]", schema["items"])] if "items" in schema else []
    assert is_open == {"budget_breached"}


def test_every_digest_has_one_form(registry: Registry) -> None:
    found = set()
    for name, entry in registry.event_types.items():
        pending: list[tuple[str, Any]] = [(name, entry.schema)]
        while pending:
            at, schema = pending.pop()
            if isinstance(schema, dict):
                text = {"type": schema.get("type")}
                if "string" in str(text) and "digest" in at.rpartition(".")[2]:
                    found.add(at)
                    place = Place.of({**schema, "type": "string"})
                    assert not place.fits("abc"), at
                    assert not place.fits("sha256:" + "0" * 64 + "\n"), at
                    assert place.fits("sha256:" + "0" * 64), at
                pending += [(f"{at}.{key}", one) for key, one in schema.items() if key != "enum"]
            elif isinstance(schema, list):
                pending += [(at, one) for one in schema]
    assert len(found) >= 12, found


def test_closed_lists_of_words_are_those_that_are_emitted() -> None:
    assert set(CHAIN) == set(CHAIN_RULES)
    assert set(LAYOUTS) == set(_LAYOUTS)
    assert set(PERSONAL) == set(_PATTERNS)


LINKED: Any = {"properties": {"next": {"$ref": "#"}, "v": {"const": 1}}, "type": "object"}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, "b", "c"),
        ({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, "b", "c"),
        ({"allOf": [{"type": "object"}], "properties": {"a": {}}}, "a", "b"),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": PAY}}, "a.to", "a.too"),
        ({"properties": {"a": {"prefixItems": [PAY], "items": MAIL}}}, "a[0].amount", "a[1].lines"),
        ({"properties": {"a": {"type": "array", "maxItems": 1}}}, "a[0]", "a[1]"),
        ({"properties": {"a": False, "b": {}}}, "b", "a"),
        ({"patternProperties": {"^x-": {"type": "string"}}, "properties": {"a": {}}}, "x-1", "y"),
        (LINKED, "next.next.v", "next.next.w"),
        ({"$ref": "https://elsewhere.example/s", "properties": {"a": {}}}, "a", "b"),
    ],
)
def test_a_path_is_asked_of_every_branch(schema: Any, good: str, bad: str) -> None:
    read_by = Schema(schema, is_listed=True)
    assert isinstance(read_by.place(parse_path(good).names), Place)
    assert isinstance(read_by.place(parse_path(bad).names), PlaceError)

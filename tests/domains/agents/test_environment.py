"""A fixture says what it means or is refused, with the place and what would have been right."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evarness.domains.agents.environment import provider_fault
from pytest_evarness.domains.agents.environment.rule import DOCUMENT_KEYS
from tests.domains.agents import harness as h

GRAPH = h.chain(("input", {}), ("tool", {"tool": "my.tool"}), ("llm", {}), ("output", {}))


@pytest.mark.parametrize(
    ("environment", "fault"),
    [
        ({"llm": {}}, "llm: must be a list (got {}; of rules)"),
        ({"llm": [{}]}, "llm.0: must hold exactly one answer (got {}; respond or raise)"),
        (
            {"llm": [{"respond": {"text": "a", "error": "b"}}]},
            (
                'llm.0.respond: must hold exactly one answer (got {"text": "a", "error": "b"}; '
                "text, tool_call or error)"
            ),
        ),
        ({"llm": [{"respond": {"text": 1}}]}, "llm.0.respond.text: must be text (got 1)"),
        (
            {"llm": [{"raise": "x", "match": {"contans": "y"}}]},
            (
                "llm.0.match.contans: unknown key (got 'contans'; known: contains, pattern, "
                "equals, query_contains, turn, provider, params)"
            ),
        ),
        (
            {"llm": [{"raise": "x", "match": {"pattern": "("}}]},
            'llm.0.match.pattern: is no regular expression (got "("; missing ) at position 1)',
        ),
        (
            {"llm": [{"raise": "x", "match": {"turn": 0}}]},
            "llm.0.match.turn: is too small (got 0; 1 or more)",
        ),
        (
            {"llm": [{"raise": "x", "times": 0}]},
            "llm.0.times: must be how often it is used (got 0; 1 or more, or any)",
        ),
        ({"llm": [{"result": "x"}]}, None),
        ({"llm": [{"raise": "x", "match": None}]}, "llm.0.match: must be a mapping (got null)"),
        (
            {"llm": [{"raise": "x", "match": {}}]},
            "llm.0.match: asks nothing (got {}; a rule without 'match' answers every call)",
        ),
        ({"llm": [{"raise": "x", "match": {"contains": None}}]}, None),
        ({"llm": [{"raise": "x", "match": {"pattern": ""}}]}, None),
        ({"llm": [{"raise": "x", "match": {"params": {}}}]}, None),
        ({"llm": [{"respond": None}]}, "llm.0.respond: must be a mapping (got null)"),
        ({"llm": [{"raise": None}]}, "llm.0.raise: must be text (got null)"),
        ({"llm": [{"raise": "x", "times": None}]}, None),
        ({"llm": [{"respond": {"text": None}}]}, None),
        ({"default_response": None}, "default_response: must be a mapping (got null)"),
        (
            {"tools": {"my.tool": [{"result": "x", "match": {"query_contains": None}}]}},
            "tools.my.tool.0.match.query_contains: must be text (got null)",
        ),
        (
            {"tools": {"my.tool": [{"result": None}]}},
            (
                'tools.my.tool.0: answers null (got {"result": null}; '
                "'result: []' is an answer without documents)"
            ),
        ),
        ({"approvals": {"n2": {"decision": "approve", "expires_ms": None}}}, None),
        ({"approvals": {"n2": {"decision": "approve", "approver": None}}}, None),
        ({"attacks": [{"kind": "x", "marker": None, "expect": {"run_paused": True}}]}, None),
        ({"attacks": [{"kind": "x", "marker": "y", "expect": {}}]}, None),
        (
            {"tools": {"my.tool": [{"result": [{"id": "a", "snippe": "x"}]}]}},
            (
                "tools.my.tool.0.result.0.snippe: unknown key of a document (got 'snippe'; known: "
                "body, id, score_hint, snippet, source, subject, text, title; "
                "a result that is no list is free)"
            ),
        ),
        (
            {"tools": {"my.tool": [{"result": [{"text": "x", "score_hint": "0.9"}]}]}},
            'tools.my.tool.0.result.0.score_hint: must be a number (got "0.9")',
        ),
        ({"tools": []}, "tools: must be a mapping (got []; of tool ids to lists of rules)"),
        ({"tools": {"my.tool": {}}}, "tools.my.tool: must be a list (got {}; of rules)"),
        (
            {"tools": {"my.tool": [{"respond": {"text": "x"}}]}},
            None,
        ),
        (
            {"tools": {"my.tool": [{"result": 1, "tests": []}]}},
            (
                "tools.my.tool.0.tests: unknown key (got 'tests'; known: match, result, raise, "
                "effects, times)"
            ),
        ),
        ({"memory": [{"role": "robot", "text": "x"}]}, None),
        ({"memory": {}}, "memory: must be a list (got {}; of {role, text})"),
        ({"default_response": "x"}, 'default_response: must be a mapping (got "x")'),
        ({"faults": []}, "faults: must be a mapping (got [])"),
        (
            {"faults": {"tool_error_rate": 2}},
            "faults.tool_error_rate: is too large (got 2; 1.0 or less)",
        ),
        (
            {"faults": {"blocklist": [" "]}},
            'faults.blocklist.0: must be a text that is not blank (got " ")',
        ),
        (
            {"faults": {"judge_timeout": "always"}},
            'faults.judge_timeout: must be a list (got "always"; of judges)',
        ),
        (
            {"faults": {"judge_timeout": [1]}},
            "faults.judge_timeout.0: must be a text that is not blank (got 1)",
        ),
        ({"judge": {}}, "judge: must be a list (got {}; of rules)"),
        (
            {"judge": [{"match": {"contains": "x"}}]},
            (
                'judge.0: must hold exactly one answer (got {"match": {"contains": "x"}}; '
                "scores, or respond: {text})"
            ),
        ),
        (
            {"judge": [{"scores": {"tone": 1}, "respond": {"text": "x"}}]},
            (
                'judge.0: must hold exactly one answer (got {"scores": {"tone": 1}, '
                '"respond": {"text": "x"}}; scores, or respond: {text})'
            ),
        ),
        (
            {"judge": [{"scores": {"tone": 7}}]},
            "judge.0.scores.tone: is too large (got 7; 1.0 or less)",
        ),
        ({"judge": [{"scores": {}}]}, "judge.0.scores: must not be empty (got {})"),
        (
            {"judge": [{"respond": {"text": 1}}]},
            "judge.0.respond.text: must be text (got 1)",
        ),
        (
            {"default_judge_scores": {"tone": "high"}},
            'default_judge_scores.tone: must be a number (got "high")',
        ),
        ({"default_judge_scores": []}, "default_judge_scores: must be a mapping (got [])"),
        (
            {"faults": {"llm": {"errors": "always"}}},
            "faults.llm.errors: unknown key (got 'errors'; known: error, timeout, truncate)",
        ),
        (
            {"faults": {"llm": {"error": "never"}}},
            (
                'faults.llm.error: says when in another form (got "never"; '
                "always, {first: n} or {rate: x})"
            ),
        ),
        (
            {"faults": {"llm": {"error": 2}}},
            "faults.llm.error: says when in another form (got 2; always, {first: n} or {rate: x})",
        ),
        (
            {"faults": {"llm": {"error": {"first": 0}}}},
            "faults.llm.error.first: is too small (got 0; 1 or more)",
        ),
        (
            {"faults": {"llm": {"error": {"rate": 1.5}}}},
            "faults.llm.error.rate: is too large (got 1.5; 1.0 or less)",
        ),
        (
            {"faults": {"my.tool": {"delay_ms": True}}},
            (
                "faults.my.tool.delay_ms: must be simulated milliseconds (got true; "
                "an integer, 0 or more)"
            ),
        ),
        ({"faults": {"llm": {"delay_ms": 1}}}, None),
    ],
)
def test_what_is_refused_when_it_is_read(environment: dict[str, Any], fault: str | None) -> None:
    _, faults = h.parse_environment(environment)
    said = [f"{'.'.join(str(part) for part in one.path)}: {one.text}" for one in faults]
    assert len(said) == 1
    if fault is not None:
        assert said == [fault]


@pytest.mark.parametrize("key", DOCUMENT_KEYS)
@pytest.mark.parametrize("slip", ["case", "space", "x_", "x", "cut", "dash"])
def test_a_misspelt_key_of_a_document_is_refused_with_what_was_meant(key: str, slip: str) -> None:
    wrong = {
        "case": key.upper(), "space": f"{key} ", "x_": f"x_{key}", "x": f"{key}x",
        "cut": key[:-1], "dash": key.replace("_", "-"),
    }[slip]  # fmt: skip
    if wrong == key or (len(key) <= 4 and slip in ("x_", "x", "cut")):
        return  # too short to be told from a column of a row
    _, (fault,) = h.parse_environment({"tools": {"my.tool": [{"result": [{wrong: "x"}]}]}})
    assert (fault.fix, fault.at_key) == (f"write '{key}'", True)


@pytest.mark.parametrize(
    "result",
    [
        "Paid",
        7,
        [],
        {"snippe": "no list, so it is free"},
        [{"id": "a", "subject": "b", "snippet": "c", "source": "d", "score_hint": 0.5}],
        [{"id": "a", "text": "b", "url": "c", "from": "d", "date": "e", "score": 1}],
        [{"customer": 5, "ids": [1], "texts": ["a"], "sources": []}],
        ["Paid", 3, None],
        [{"text": "a", "texts": "b"}],
    ],
)
def test_rows_and_other_values_have_keys_of_their_own(result: Any) -> None:
    assert h.parse_environment({"tools": {"my.tool": [{"result": result}]}})[1] == []


@pytest.mark.parametrize(
    ("environment", "fault"),
    [
        ({"tools": {"my.tol": []}}, "tools.my.tol: unknown tool (got 'my.tol'; known: "),
        ({"faults": {"emal.send": {}}}, "faults.emal.send: unknown tool (got 'emal.send'; known: "),
        (
            {"tools": {"email.send": [], "send_email": []}},
            "tools.send_email: the tool is named twice, also as 'email.send' (got 'send_email')",
        ),
    ],
)
def test_a_tool_that_nobody_declares_is_refused(environment: dict[str, Any], fault: str) -> None:
    (said,) = h.case_faults(GRAPH, environment)
    assert said.startswith(fault)
    # The twin: a tool of the graph, of a manifest, and a global fault.
    fine = {"tools": {"my.tool": [], "email.send": []}, "faults": {"llm": {}, "my.tool": {}}}
    assert h.case_faults(GRAPH, fine) == []


def test_all_mistakes_are_told_at_once() -> None:
    _, faults = h.parse_environment({"llm": [{"raise": 1}, {"rase": "x"}], "memory": [{"role": 1}]})
    assert len(faults) >= 4


@pytest.mark.parametrize("name", ["paragon-md", "gpt-5", "openai:x", "sim:", "SIM:x", "", 7])
def test_another_provider_is_named_and_refused(name: Any) -> None:
    fault = provider_fault(name)
    assert fault is not None
    assert fault.text == (f"the provider '{name}' cannot be called: runs are simulated (sim:NAME)")
    assert fault.fix is not None
    assert fault.fix.startswith("write 'sim:")
    assert provider_fault("sim:helpful-v1") is None


def test_a_rule_for_another_product_is_refused() -> None:
    _, (fault,) = h.parse_environment({"llm": [{"raise": "x", "match": {"provider": "gpt-5"}}]})
    assert fault.fix == "write 'sim:gpt-5' and script its answers under 'environment.llm'"


def test_a_provider_is_scripted_by_its_name() -> None:
    rules = [
        {"match": {"provider": f"sim:{name}"}, "respond": {"text": name}} for name in ("a", "b")
    ]
    graph = h.chain(("input", {}), ("llm", {}), ("output", {}))
    run = h.run(graph, {"llm": rules, "provider": "sim:b"}, provider="sim:b")
    assert run.output == "b"
    assert h.payload(run, "llm_request")["provider"] == "sim:b"


def test_numbers_lose_their_spelling_and_nothing_else() -> None:
    from pytest_evarness.source.document import parse_yaml

    written = parse_yaml("llm:\n- {raise: x, match: {params: {t: 0.10}}}\n").value
    parsed, faults = h.parse_environment(written)
    assert faults == []
    value = parsed["llm"][0]["match"]["params"]["t"]
    assert type(value) is float
    assert value == 0.1


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("aprove", "write 'approve'"),
        ("yes", "write 'approve'"),
        (True, "write 'approve'"),
        ("Approved", "write 'approve'"),
        ("no", "write 'reject'"),
        ("denied", "write 'reject'"),
        ("perhaps", None),
    ],
)
def test_a_decision_in_other_words_is_refused_with_the_word_to_write(
    word: object, fix: str | None
) -> None:
    parsed, faults = h.parse_environment({"approvals": {"n1": word}})
    (fault,) = faults
    assert fault.fix == fix
    assert not parsed.get("approvals")


@pytest.mark.parametrize("ids", [("a", "a"), (1, "1"), (7, 7)])
@pytest.mark.parametrize("key", ["text", "snippet", "body"])
def test_two_documents_of_one_answer_have_an_id_each(ids: tuple[Any, Any], key: str) -> None:
    first, second = ({"id": one, key: "x"} for one in ids)
    result = [first, {"id": "b", "text": "y"}, second]
    (fault,) = h.parse_environment({"tools": {"my.tool": [{"result": result}]}})[1]
    assert fault.path == ("tools", "my.tool", 0, "result", 2, "id")
    assert fault.text.startswith("two documents of one answer have the id (the first is entry 0)")
    # Rows are no documents, and another answer may bring the same document.
    rows = [{"id": ids[0], "amount": 1}, {"id": ids[1], "amount": 2}]
    fine = [{"result": rows}, {"result": [first]}, {"result": [second]}]
    assert h.parse_environment({"tools": {"my.tool": fine}})[1] == []

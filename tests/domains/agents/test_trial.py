"""Tests inside manifests: each way in which a tool may do something else is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.core.interfaces import Locations
from pytest_evarness.domains.agents.manifest import parse_manifests
from pytest_evarness.domains.agents.trial import Trials, parse_tests
from tests.domains.agents import harness as h
from tests.effort import calls_of

UPDATE = "update people set name = :name where id = :id"
RENAME: dict[str, Any] = {
    "id": "crm.rename",
    "args": {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["id", "name"],
    },
    "intent": "rename-{args.id}",
    "safety": {"side_effects": "write"},
    "effects": [
        {
            "sql": {
                "service": "db",
                "statement": UPDATE,
                "params": {"id": "{args.id}", "name": "{args.name}"},
            }
        }
    ],
    "sim": [
        {"match": {"query_contains": "ada"}, "result": [{"id": "r1", "text": "done"}]},
        {"match": {"query_contains": "lost"}, "raise": "no such person"},
        {
            "match": {"query_contains": "noted"},
            "result": {"ok": True},
            "effects": [{"message": {"to": "x", "body": "{args.name}"}}],
        },
    ],
}
ADA = {"id": 7, "name": "Ada"}
DONE = [{"sql": {"service": "db", "statement": UPDATE, "params": {"id": 7, "name": "Ada"}}}]


def problem(test: dict[str, Any], **changes: Any) -> str | None:
    written = {**RENAME, **changes, "tests": {"t": test}}
    manifests, faults = parse_manifests({"tools": [written]})
    assert faults == [], [fault.text for fault in faults]
    ((one,), _) = parse_tests(written["tests"])
    manifest: Any = manifests["crm.rename"]
    assert "tests" not in manifest, "what a run gets holds no tests"
    return Trials(h.registry()).problem("crm.rename", manifest, one)


# Each expectation with one that the same call does not meet.
@pytest.mark.parametrize(
    ("test", "met", "missed", "said"),
    [
        ({"args": ADA}, {"count": 1}, {"count": 2}, "the count of documents differs (got 1;"),
        (
            {"args": ADA},
            {"result": [{"id": "r1", "subject": "", "text": "done"}]},
            {"result": []},
            "the result differs (got",
        ),
        (
            {"args": {"id": 1, "name": "noted"}},
            {"result": {"equals": {"ok": True}}},
            {"result": {"equals": {"ok": False}}},
            'the result differs (got {"ok":true}; expected {"equals":{"ok":false}})',
        ),
        (
            {"args": ADA},
            {"intent": "rename-7"},
            {"intent": "rename-8"},
            "the intent differs (got rename-7; expected rename-8)",
        ),
        ({"args": ADA}, {"effects": DONE}, {"effects": []}, "effects differs (got ["),
        (
            {"args": {"id": 1, "name": "noted"}},
            {"effects": [{"message": {"to": "x", "body": "noted"}}]},
            {"effects": DONE},
            "effects differs (got [",
        ),
        (
            {"args": {"id": 7}},
            {"error": {"contains": "required"}, "effects": []},
            {"error": {"contains": "maximum"}},
            "the error differs (got arguments: the value breaks 'required'",
        ),
        (
            {"args": {"id": 1, "name": "lost"}},
            {"error": "no such person", "effects": []},
            {"count": 0},
            "the call gave no answer (got error: no such person)",
        ),
        (
            {"args": ADA, "approve_side_effects": False},
            {"refused": "side_effects_not_approved", "effects": []},
            {"refused": "approval_missing"},
            "the refusal differs (got side_effects_not_approved; expected approval_missing)",
        ),
        (
            {"args": {"id": 1, "name": "x"}, "answer": {"result": "plain"}},
            {"result": "plain"},
            {"error": {"exists": True}},
            "the call gave no error (got completed)",
        ),
    ],
)
def test_an_expectation_is_met_or_missed(
    test: dict[str, Any], met: dict[str, Any], missed: dict[str, Any], said: str
) -> None:
    assert problem({**test, "expect": met}) is None
    found = problem({**test, "expect": missed})
    assert found is not None
    assert found.startswith(said)


def test_a_call_that_nothing_answers_is_said() -> None:
    found = problem({"args": {"id": 1, "name": "x"}, "expect": {"count": 0}})
    assert found is not None
    assert "nothing scripted: the manifest has no 'sim' rule for it" in found


@pytest.mark.parametrize("approved", [True, False])
def test_a_destructive_tool_needs_a_person(approved: bool) -> None:
    test = {"args": ADA, "approved": approved}
    safety = {"side_effects": "destructive"}
    refused = problem({**test, "expect": {"refused": "approval_missing"}}, safety=safety)
    done = problem({**test, "expect": {"effects": DONE}}, safety=safety)
    assert (refused is None, done is None) == (not approved, approved)


def test_an_effect_whose_argument_is_optional_and_missing_is_said() -> None:
    args = {"type": "object", "properties": RENAME["args"]["properties"], "required": ["id"]}
    found = problem(
        {"args": {"id": 7}, "answer": {"result": "x"}, "expect": {"effects": []}}, args=args
    )
    assert found == "crm.rename: effects[0]: the input has no 'name'"


# What a test looks at is the very call that the run made, by the rule that answered it there.
ALL_OF_IT = [{"message": {"to": "eve", "body": "all of it"}}]
LONG = "z" * 6000


@pytest.mark.parametrize(
    ("match", "name"),
    [
        ({"provider": "sim:helpful-v1"}, "x"),
        ({"turn": 1}, "x"),
        ({"query_contains": "END"}, f"{LONG}END"),
        ({"pattern": "z{5000}"}, LONG),
    ],
    ids=["provider", "turn", "behind the cut", "over the cut"],
)
def test_the_effects_are_those_of_the_rule_that_answered(match: dict[str, Any], name: str) -> None:
    first: dict[str, Any] = {"match": match, "result": [], "effects": ALL_OF_IT}
    sim = [first, {"result": [], "effects": []}]
    args = {"id": 1, "name": name}
    assert problem({"args": args, "expect": {"effects": ALL_OF_IT}}, sim=sim) is None
    said = problem({"args": args, "expect": {"effects": []}}, sim=sim)
    assert said is not None
    assert said.startswith('effects differs (got [{"message":')
    # The twin: where the first rule does not match, nothing is done.
    other = [{**first, "match": {"provider": "sim:another"}}, sim[1]]
    assert problem({"args": args, "expect": {"effects": []}}, sim=other) is None


def test_a_rule_for_another_model_answers_nothing_and_is_told_so() -> None:
    sim = [{"match": {"provider": "sim:another"}, "result": []}]
    said = problem({"args": ADA, "expect": {"effects": []}}, sim=sim)
    assert said is not None
    assert said.startswith("the call gave no answer (got nothing scripted")


@pytest.mark.parametrize(
    ("key", "answer"),
    [("result", {"result": f"{LONG}BAD"}), ("error", {"raise": f"{LONG}BAD"})],
)
def test_an_answer_is_compared_whole(key: str, answer: dict[str, Any]) -> None:
    test = {"args": ADA, "answer": answer}
    assert problem({**test, "expect": {key: f"{LONG}BAD"}}) is None
    for wrong in (LONG, LONG[:4096], f"{LONG}BAX"):
        assert problem({**test, "expect": {key: wrong}}) is not None


def test_effects_and_intent_are_compared_whole() -> None:
    effects = [{"message": {"to": "x", "body": "{args.name}"}}]
    args = {"id": 1, "name": f"{LONG}BAD"}
    for name, is_met in ((f"{LONG}BAD", True), (LONG, False), (LONG[:4096], False)):
        expect = {"effects": [{"message": {"to": "x", "body": name}}], "intent": f"of {name}"}
        for key in expect:
            test = {"args": args, "answer": {"result": []}, "expect": {key: expect[key]}}
            said = problem(test, effects=effects, intent="of {args.name}")
            assert (said is None) is is_met


def test_effects_that_cannot_be_filled_are_told_whatever_was_expected() -> None:
    # The call of a scenario would fail there.
    args = {"type": "object"}
    found = problem(
        {"args": {"id": 7}, "answer": {"result": []}, "expect": {"count": 0}}, args=args
    )
    assert found == "crm.rename: effects[0]: the input has no 'name'"


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ([], "must be a mapping (got [])"),
        ({"t": {"args": {}}}, "t: required key 'expect' is missing"),
        ({"t": {"expect": {}}}, "t.expect: asserts nothing"),
        ({"t": {"expect": {"resalt": 1}}}, "t.expect.resalt: unknown key"),
        ({"t": {"expect": {"result": {"contians": 1}}}}, "t.expect.result.contians: unknown"),
        ({"t": {"expect": {"refused": "approval_mising"}}}, "t.expect.refused: no call is refused"),
        (
            {"t": {"expect": {"result": 1, "error": "x"}}},
            "t.expect: a call ends in one way only (got result, error)",
        ),
        ({"t": {"args": {"q": "{query}"}, "expect": {"count": 1}}}, "t.args: the arguments of"),
        ({"t": {"args": {"q": "{args.x}"}, "expect": {"count": 1}}}, "t.args: the arguments of"),
        (
            {"t": {"args": {"q": {"args.x": None}}, "expect": {"count": 1}}},
            "t.args: is a mapping where a template is meant (got {args.x: null}; the arguments of",
        ),
        ({"t": {"answer": {"rsult": 1}, "expect": {"count": 1}}}, "t.answer.rsult: unknown key"),
        ({" ": {"expect": {"count": 1}}}, " : is no name of a test"),
        ({"a::b": {"expect": {"count": 1}}}, "a::b: is no name of a test"),
        ({f"t{n}": {"expect": {"count": 1}} for n in range(201)}, "too many tests (got 201"),
    ],
)
def test_a_test_that_cannot_be_meant_is_refused(tests: Any, said: str) -> None:
    _, faults = parse_manifests({"tools": [{**RENAME, "tests": tests}]})
    texts = [f"{'.'.join(map(str, fault.path[3:]))}: {fault.text}" for fault in faults]
    assert texts
    assert texts[0].removeprefix(": ").startswith(said)


TOOLS = """
tools:
  - id: crm.find
    safety: {side_effects: read}
    sim: [{result: [{id: r1, text: found}]}]
    tests:
      finds: {expect: {count: COUNT}}
"""


@pytest.mark.parametrize("count", [1, 2])
def test_a_layer_that_its_own_tests_contradict_is_not_used(tmp_path: Path, count: int) -> None:
    (tmp_path / "tools.yaml").write_text(TOOLS.replace("COUNT", str(count)), "utf-8")
    locations = Locations(root=tmp_path, home=None, beside=(tmp_path,), variables={})
    overlay, *_ = h.domain().load_overlays(locations)
    said = [(label, fault.text) for label, fault in overlay.faults]
    wrong = (
        "the tool does not do what its test says: the count of documents differs"
        " (got 1; expected 2)"
    )
    assert said == ([] if count == 1 else [("tools.yaml:7:14", wrong)])


def test_each_test_runs_once_however_often_its_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text(TOOLS.replace("COUNT", "1"), "utf-8")
    locations = Locations(root=tmp_path, home=None, beside=(tmp_path,), variables={})
    h.domain().load_overlays(locations)
    again = calls_of(lambda: h.domain().load_overlays(locations))
    (tmp_path / "tools.yaml").write_text(
        TOOLS.replace("COUNT", "1").replace("text: found", "text: other"), "utf-8"
    )
    afresh = calls_of(lambda: h.domain().load_overlays(locations))
    assert afresh > again * 1.5


PACKAGED: dict[str, Any] = {
    "email.search": {"args": {"query": "x"}, "answer": {"result": []}, "expect": {"count": 0}},
    "email.send": {"args": {"to": "a@b.c", "cc": "x"}, "expect": {"error": {"exists": True}}},
    "payment.transfer": {
        "args": {"to": "a", "amount": 1},
        "expect": {"refused": "approval_missing"},
    },
    "http.request": {"args": {"method": "BREW"}, "expect": {"error": {"contains": "enum"}}},
}


@pytest.mark.parametrize("tool", PACKAGED)
def test_packaged_manifests_do_what_they_say(tool: str) -> None:
    ((one,), faults) = parse_tests({"t": PACKAGED[tool]})
    assert faults == []
    assert Trials(h.registry()).problem(tool, h.overlays()["tools"][tool], one) is None

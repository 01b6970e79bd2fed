"""Forbidden rules are gates in file order, sealed with everything that decides them."""

from __future__ import annotations

from typing import Any

import pytest

WORLD = (
    "environment:\n  workspace: {}\n  services:\n"
    "    mail: {type: http_mock, default_response: 404}\n"
    "    spy: {type: http_mock}\n    db: {type: sqlite}\n"
)


@pytest.fixture
def world() -> str:
    return WORLD


def items(project: Any, text: str) -> list[Any]:
    return [one for one in project.one(text).items if one.kind == "forbidden"]


def test_each_rule_is_a_gate_in_file_order_then_what_strict_mocks_bring(
    project: Any, minimal: str, world: str
) -> None:
    rules = "forbidden:\n  tools_except: [email.send]\n  http_except: [mail]\n  network: deny\n"
    text = minimal + world + rules
    case = project.one(text)
    assert [one.id for one in case.items][:6] == [
        "reproduces",
        "expect",
        "forbidden-tools-except",
        "forbidden-http-except",
        "forbidden-network",
        "forbidden-unmatched-requests",
    ]
    found = items(project, text)
    assert all(one.gate and one.decides and one.weight == 0 for one in found)
    assert found[1].definition == {
        "rule": "http_except",
        "names": ["mail"],
        "services": {"db": "sqlite", "mail": "http_mock", "spy": "http_mock"},
        "workspace": True,
        "steps": [],
    }
    assert found[3].definition["names"] == ["spy"]
    assert (found[1].path, found[1].line) == ("s.yaml", 11)


def test_a_mock_that_allows_what_no_route_is_for_brings_no_rule(
    project: Any, minimal: str, world: str
) -> None:
    lax = world.replace("spy: {type: http_mock}", "spy: {type: http_mock, allow_unmatched: true}")
    assert items(project, minimal + lax + "expect: {status: completed}\n") == []


def test_what_strict_mocks_bring_is_nothing_that_somebody_asserts(
    project: Any, minimal: str, world: str
) -> None:
    bare = minimal.replace("graphs/send.json", "bare.json") + world
    graph = '{"ir_version": 1, "id": "g", "nodes": [{"id": "n1", "type": "input"}], "edges": []}'
    project.write("bare.json", graph)
    assert "asserts nothing" in project.refused(bare)
    assert project.load(bare + "forbidden: {network: deny}\n")


def test_an_alias_stands_for_the_tool_it_names(project: Any, minimal: str, registry: Any) -> None:
    domain = registry.domains.resolve("agents")
    aliases = domain.aliases({"tools": {}}) or {}
    found = items(project, minimal + "forbidden: {tools_except: [email.send]}\n")
    assert found[0].definition["names"] == [aliases.get("email.send", "email.send")]


@pytest.mark.parametrize(
    ("rules", "words", "fix"),
    [
        ("{http_except: [mial]}", "http_except[0]: names no service (got 'mial'", "write 'mail'"),
        ("{http_except: [db]}", "names a service of type sqlite, which answers no HTTP", None),
        ("{http_except: [mail, mail]}", "names 'mail' twice", None),
        ("{http_except: mail}", "must be a list", None),
        ("{tools_except: [emial.send]}", "names no tool (got 'emial.send'", "write 'email.send'"),
        ("{db_writes_outside: [mail.orders]}", "of type http_mock, which has no tables", None),
        ("{db_writes_outside: [dbb.t]}", "[0]: names no service (got 'dbb.t'", "write 'db.t'"),
        ("{file_writes_outside: [../x]}", "leads out of the workspace", None),
        ("{file_writes_outside: ['out/**']}", '[0]: is no pattern (got "out/**"', "write 'out'"),
        ("{file_writes_outside: [/etc]}", "must be relative to the workspace", None),
        ("{network: allow}", "network: must be deny", None),
        ("{netwrok: deny}", "unknown key (got 'netwrok'", "write 'network'"),
        ("[network]", "must be a mapping", None),
    ],
)
def test_a_rule_that_says_nothing_is_refused(
    project: Any, minimal: str, world: str, rules: str, words: str, fix: str | None
) -> None:
    found = project.refused(f"{minimal}{world}forbidden: {rules}\n")
    assert words in found
    assert fix is None or f"try: {fix}" in found


def test_an_empty_list_allows_nothing_and_a_prefix_is_normalised(
    project: Any, minimal: str
) -> None:
    text = minimal + "forbidden: {http_except: [], file_writes_outside: [./out/, a//b]}\n"
    one, two = items(project, text)
    assert one.definition["names"] == []
    assert two.definition["names"] == ["out", "a/b"]


def test_secrets_are_named_in_their_rule(
    project: Any, minimal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter22")
    text = minimal + "secrets: [TOKEN]\nforbidden: {secrets_in_logs: deny, network: deny}\n"
    one, two = items(project, text)
    assert one.definition["names"] == ["TOKEN"]
    assert two.definition["names"] == []


def test_a_case_may_have_rules_of_its_own(project: Any, minimal: str) -> None:
    cases = "cases: {a: {}, b: {forbidden: {network: null}, expect: {}}}\n"
    text = f"{minimal}forbidden: {{network: deny}}\n{cases}"
    by_case = {
        case.id: [one.id for one in case.items if one.kind == "forbidden"]
        for case in project.load(text)
    }
    assert by_case == {"a": ["forbidden-network"], "b": []}

"""``lint`` tells every mistake at once, and which contracts can never fire in a graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.cli.lint import never_fires
from pytest_evarness.contract.model import parse_contract
from pytest_evarness.core.registry import packaged_registry

if TYPE_CHECKING:
    from tests.cli.conftest import Command

TYPES = frozenset({"tool_called", "tool_result", "run_finished"})
TOOLS = frozenset({"email.send"})


def write(path: str, text: str) -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_every_mistake_of_a_scenario_is_told_with_its_line(command: Command, first: Path) -> None:
    text = first.read_text(encoding="utf-8")
    text = text.replace("status: completed", "status: complete").replace(
        "cases:\n", "casses: {}\ncases:\n"
    )
    first.write_text(text, encoding="utf-8")
    done = command("validate", first)
    assert done.code == 1
    assert "scenarios/approved_send.yaml:31:1: unknown key (got 'casses'" in done.out
    assert "try: write 'cases'" in done.out
    assert "expect.status: must be" in done.out
    assert done.out.endswith("1 file: 2 errors, 0 warnings\n")


def test_a_graph_alone_is_linted(command: Command) -> None:
    graph = write(
        "g.json",
        '{"ir_version": 1, "id": "g",\n'
        ' "nodes": [{"id": "a", "type": "input"}, {"id": "b", "type": "outptu"}],\n'
        ' "edges": [{"from": "a", "to": "z"}]}',
    )
    done = command("lint", graph)
    assert done.code == 1
    assert "g.json:2:" in done.out
    assert "'output'" in done.out
    assert "g.json:3:" in done.out


def test_a_library_alone_is_linted(command: Command) -> None:
    library = write("contracts/mine.yaml", "contracts:\n  one:\n    asert: {}\n")
    done = command("lint", library)
    assert done.code == 1
    assert "contracts/mine.yaml:3:5: contracts.one: unknown key (got 'asert'" in done.out


def test_a_contract_that_can_never_fire_is_a_warning(command: Command) -> None:
    scenario = write(
        "scenarios/qa.yaml",
        'evarness: 1\nsubject: {graph: "pattern:single_shot_qa"}\n'
        "invariants:\n  approval-precedes-send: {}\n",
    )
    done = command("lint", scenario)
    assert done.code == 0
    assert (
        "scenarios/qa.yaml:4: warning: approval-precedes-send: can never fire in this graph:"
        " no node of it emits 'tool_called'" in done.out
    )


def test_the_json_form_has_places(command: Command, first: Path) -> None:
    write("scenarios/bad.yaml", "evarness: 1\nsubjekt: {}\n")
    done = command("lint", "scenarios", "--json")
    assert (done.code, done.json["files"]) == (1, 2)
    remark = next(one for one in done.json["remarks"] if "subjekt" in one["text"])
    assert (remark["level"], remark["path"], remark["line"]) == ("error", "scenarios/bad.yaml", 2)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "x.yaml: no such file"),
        ("user_input: hello\n", "x.yaml: no key evarness ("),
        ("a: [1\n b: {", "x.yaml:2:3: the '[' of line 1 is not closed"),
    ],
)
def test_what_is_none_of_ours_exits_2(command: Command, content: str | None, text: str) -> None:
    if content is not None:
        write("x.yaml", content)
    done = command("lint", "x.yaml")
    assert (done.code, done.out) == (2, "")
    assert text in done.err


@pytest.mark.parametrize(
    "name", [".hidden", "build", "dist", "node_modules", "__pycache__", "env", "deep/.tox"]
)
def test_folders_that_tools_fill_are_not_walked(command: Command, first: Path, name: str) -> None:
    assert first.exists()
    write(f"{name}/x.yaml", "evarness: 1\nsubjekt: {}\n")
    if name == "env":
        # The twin: the same folder counts while it is no virtual environment.
        assert command("lint", ".").code == 1
        write("env/pyvenv.cfg", "home = /usr\n")
    done = command("lint", ".")
    assert (done.code, done.out) == (0, "1 file: 0 errors, 0 warnings\n")


def test_a_file_without_a_key_is_told_as_pytest_tells_it(command: Command, first: Path) -> None:
    assert first.exists()
    write("scenarios/forgot.yaml", "subject: {graph: x.json}\n")
    write("scenarios/fixtures/mine.yaml", "user_input: hello\n")
    write("other/theirs.yaml", "user_input: hello\n")
    done = command("lint", ".")
    assert done.code == 1
    assert "scenarios/forgot.yaml:1:1: no key evarness\n  try: add 'evarness: 1'\n" in done.out
    assert done.out.endswith("2 files: 1 error, 0 warnings\n")
    assert command("lint", "scenarios").out == done.out
    named = command("lint", "scenarios/forgot.yaml")
    assert named.code == 2
    assert "scenarios/forgot.yaml: no key evarness (" in named.err
    assert named.err.endswith("\n  try: add 'evarness: 1'\n")


def test_a_file_among_contracts_is_a_library(command: Command, first: Path) -> None:
    assert first.exists()
    write("contracts/mine.yaml", "contract:\n  a: {}\n")
    write("other/mine.yaml", "contract:\n  a: {}\n")
    for words in (".", "contracts"):
        done = command("lint", words)
        assert done.code == 1
        assert "contracts/mine.yaml:1:1: unknown key (got 'contract'" in done.out
        assert "try: write 'contracts'" in done.out
        assert "other/mine.yaml" not in done.out


def test_a_missing_file_does_not_hide_the_mistakes_of_the_others(
    command: Command, first: Path
) -> None:
    write("scenarios/bad.yaml", "evarness: 1\nsubjekt: {}\n")
    done = command("lint", "none.yaml", "scenarios/bad.yaml", first)
    assert done.code == 2
    assert "none.yaml: no such file" in done.err
    assert "subjekt" in done.out


def said(body: dict[str, Any], types: frozenset[str] | None = TYPES) -> list[str]:
    contract, faults = parse_contract("c", {"assert": body}, registry=packaged_registry())
    assert contract is not None, faults
    return list(never_fires(contract, types, TOOLS))


CALL = {"type": "tool_called"}
PAYMENT = {"type": "tool_called", "where": {"tool": "payment.transfer"}}
MODEL = {"type": "llm_request"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"never": MODEL}, "can never fire in this graph: no node of it emits 'llm_request'"),
        (
            {"never": PAYMENT},
            "can never fire in this graph: no node of it names the tool 'payment.transfer'",
        ),
        (
            {"never": {**CALL, "after": MODEL}},
            (
                "can never fire in this graph: its scope 'after' never comes about:"
                " no node of it emits 'llm_request'"
            ),
        ),
        ({"eventually": MODEL}, "can never pass in this graph: no node of it emits 'llm_request'"),
        (
            {"precedes": {"first": MODEL, "second": CALL}},
            "fails whenever 'second' comes about in this graph: no node of it emits 'llm_request'",
        ),
        (
            {"leads_to": {"when": CALL, "then": MODEL}},
            "fails whenever 'when' comes about in this graph: no node of it emits 'llm_request'",
        ),
        (
            {"at_most": {"n": 1, "of": {"any": [MODEL, PAYMENT]}}},
            (
                "can never fire in this graph: no node of it emits 'llm_request';"
                " no node of it names the tool 'payment.transfer'"
            ),
        ),
        (
            {"every": {"match": MODEL, "where": {"provider": "sim:x"}}},
            "can never fire in this graph: no node of it emits 'llm_request'",
        ),
    ],
)
def test_each_primitive_that_cannot_match_says_why(body: dict[str, Any], text: str) -> None:
    assert said(body) == [text]


@pytest.mark.parametrize(
    "body",
    [
        {"never": CALL},
        {"never": {"type": "tool_called", "where": {"tool": {"in": ["email.send", "x"]}}}},
        {"never": {"any": [MODEL, CALL]}},
        {"precedes": {"first": CALL, "second": {"type": "tool_result"}}},
        {"eventually": {"type": ["run_finished", "llm_request"]}},
    ],
)
def test_what_can_match_is_left_alone(body: dict[str, Any]) -> None:
    assert said(body) == []


REFUSED = {
    "loop": {"id": "act", "type": "loop_controller", "config": {"tools": ["web.fetch"]}},
    "tool": {"id": "act", "type": "tool", "config": {"tool": "web.fetch"}},
}


@pytest.mark.parametrize("as_graph", [False, True], ids=["scenario", "graph"])
@pytest.mark.parametrize("kind", list(REFUSED))
def test_a_loop_may_be_refused_a_tool_that_the_graph_does_not_name(
    command: Command, kind: str, as_graph: bool
) -> None:
    # The refusal of what a model asks for is the point; a tool node asks for its own tool alone.
    graph: dict[str, Any] = {
        "ir_version": 1,
        "id": "g",
        "nodes": [{"id": "in", "type": "input"}, REFUSED[kind], {"id": "out", "type": "output"}],
        "edges": [{"from": "in", "to": "act"}, {"from": "act", "to": "out"}],
    }
    contract = (
        "refused: {owner: o, rationale: r, assert: {eventually: {type: policy_decision,"
        " where: {capability: email.send}}}}\n"
    )
    write("scenarios/contracts.yaml", f"contracts:\n  {contract}")
    if as_graph:
        graph["params"] = {"invariants": ["refused"]}
        named = write("scenarios/g.json", json.dumps(graph))
    else:
        subject = json.dumps({"graph": graph})
        named = write(
            "scenarios/s.yaml", f"evarness: 1\nsubject: {subject}\ninvariants: {{refused: {{}}}}\n"
        )
    done = command("lint", named)
    assert done.code == 0, done.out
    said = "refused: can never pass in this graph: no node of it names the tool 'email.send'"
    assert (said in done.out) == (kind == "tool")


def test_nothing_is_said_where_the_types_are_not_known() -> None:
    assert said({"never": MODEL}, types=None) == []


MANIFEST = """
tools:
  - id: crm.find
    safety: {side_effects: read}
    sim: [{result: [{id: r1, text: found}]}]
    tests:
      finds: {expect: {count: COUNT}}
"""


@pytest.mark.parametrize("named", ["evarness/tools.yaml", "."])
@pytest.mark.parametrize("count", [1, 2])
def test_tests_of_a_manifest_run(command: Command, named: str, count: int) -> None:
    write("evarness/tools.yaml", MANIFEST.replace("COUNT", str(count)))
    write("tools.yaml", "other: 1\n")  # somebody else's
    done = command("lint", named)
    assert done.code == count - 1, done.out
    said = "evarness/tools.yaml:7: crm.find: tests.finds: the count of documents differs"
    assert (said in done.out) == (count == 2)


def test_a_manifest_that_fails_its_own_test_is_one_mistake(command: Command, first: Path) -> None:
    tools = (
        "tools:\n  - id: crm.find\n    safety: {side_effects: read}\n"
        "    sim: [{result: [{id: r1, text: found}]}]\n"
        "    tests: {finds: {expect: {count: COUNT}}}\n"
    )
    file = write("evarness/tools.yaml", tools.replace("COUNT", "2"))
    both = command("lint", file, first)
    assert both.out.count("the count of documents differs") == 1
    assert "1 error, " in both.out
    # The twin: each of them alone says it.
    assert command("lint", file).code == 1
    write("evarness/tools.yaml", tools.replace("COUNT", "1"))
    assert command("lint", file, first).code == 0


@pytest.mark.parametrize(
    ("tool", "meant"), [("email.sned", "email.send"), ("email.send", None), ("crm.pay", None)]
)
def test_a_library_that_asks_for_a_misspelt_tool_is_told_by_itself(
    command: Command, tool: str, meant: str | None
) -> None:
    # A scenario that names it does not load; where none does yet, nothing else would say so.
    Path("contracts").mkdir()
    Path("contracts/a.yaml").write_text(
        "contracts:\n  quiet: {status: draft, owner: o, rationale: r, assert: {never:"
        f" {{type: tool_called, where: {{tool: {{in: [web.search, {tool}]}}}}}}}}}}\n",
        encoding="utf-8",
    )
    done = command("lint", "contracts")
    told = (
        "contracts/a.yaml:2: warning: quiet: asks for a tool that is not known here"
        f" (got '{tool}'; '{meant}' is)\n"
    )
    assert (done.code, told in done.out) == (0, meant is not None)
    assert f"{1 if meant else 0} warning" in done.out

"""One mistake is one block, and a person sees where it is and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.scenarios import echo, graph, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Session

PATH = "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n"


def attacked(**expect: Any) -> dict[str, Any]:
    return echo(environment={"attacks": [{"kind": "a", "expect": expect}]})


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"scenarios/a.yaml": attacked(tool_calld=False)}, "unknown event type (got 'tool_calld'"),
        ({"scenarios/a.yaml": attacked(blocked_before="lm")}, "unknown node type (got 'lm'"),
        (
            {
                "scenarios/a.yaml": echo(environment={"fixture": "fixtures/f.yaml"}),
                "scenarios/fixtures/f.yaml": {"user_inpt": "x"},
            },
            "unknown key (got 'user_inpt'",
        ),
        (
            {
                "scenarios/a.yaml": echo(environment={"fixture": "b.yaml"}),
                "scenarios/b.yaml": echo(id="b"),
            },
            "scenarios/b.yaml:2:2: is a scenario and no fixture",
        ),
        (
            {"scenarios/a.yaml": echo(), "contracts/c.yaml": "contract: {}\n"},
            "unknown key (got 'contract'",
        ),
        (
            {
                "scenarios/a.yaml": echo(),
                "scenarios/b.yaml": echo(id="b"),
                "evarness/tools.yaml": "tool: []\n",
            },
            "unknown key (got 'tool'",
        ),
    ],
)
def test_one_mistake_is_one_block(session: Session, files: dict[str, Any], said: str) -> None:
    ran = session(files=files)
    assert ran.code == 1
    # Once where it is told whole, once in the summary.
    assert ran.text.count(said) == 2
    assert ran.text.count("ERROR at setup of load") == 1


def test_files_that_one_file_breaks_are_named_with_it(session: Session) -> None:
    files = {
        "scenarios/a.yaml": echo(),
        "scenarios/b.yaml": echo(id="b"),
        "scenarios/c.yaml": "evarness: 1\n",
        "evarness/tools.yaml": "tool: []\n",
    }
    ran = session(files=files)
    assert ran.text.count("so 1 other file did not load either: scenarios/b.yaml") == 2
    # The twin: what has a mistake of its own has a block of its own; every file counts.
    assert ran.text.count("ERROR at setup of load") == 2
    assert ran.counts == {"error": 3}


def test_tests_of_manifests_are_counted(session: Session) -> None:
    tools = """
tools:
  - id: crm.find
    safety: {side_effects: read}
    sim: [{result: [{id: r1, text: found}]}]
    tests: {finds: {expect: {count: COUNT}}}
"""
    files = {"scenarios/a.yaml": echo(), "evarness/tools.yaml": tools.replace("COUNT", "1")}
    ran = session(files=files)
    assert ran.counts["passed"] == 3
    assert "evarness: 3 passed\n" in ran.text
    ran = session(files={"evarness/tools.yaml": tools.replace("COUNT", "2")})
    assert "evarness: 1 failed, 1 broken\n" in ran.text


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_mistake_in_the_reviews_is_an_error_and_nothing_else(
    session: Session, workers: tuple[str, ...]
) -> None:
    reviews = [{"case": "x", "invariant": "y", "reviewr": "z", "note": "n"}]
    ran = session(*workers, files={"scenarios/a.yaml": echo(), "evarness/reviews.yaml": reviews})
    assert ran.code == 4
    assert "outcomes.Exit" not in ran.text
    # The twin: without the mistake the session runs.
    reviews = [{"case": "y.yaml::x", "invariant": "y", "reviewer": "z", "note": "n"}]
    assert session(*workers, files={"evarness/reviews.yaml": reviews}).code == 0


def stopping(body: str) -> dict[str, Any]:
    return {
        "scenarios/s.yaml": echo(subject={"graph": step_graph("stopping.steps:step")}),
        "stopping/__init__.py": "",
        "stopping/steps.py": f"def step(inputs, config, context):\n    {body}\n",
        "conftest.py": PATH,
    }


def test_a_step_that_interrupts_the_session_is_named(session: Session) -> None:
    ran = session(files=stopping("raise KeyboardInterrupt"), subprocess=True)
    assert ran.code == 2
    said = "evarness: interrupted in scenarios/s.yaml::default, node 'n2' (python)"
    assert f"{said}, at stopping/steps.py:2\n" in ran.text
    assert "KeyboardInterrupt\nnode" not in ran.text
    assert said not in session(files=stopping("return 'well'")).text


def test_what_a_step_did_elsewhere_is_not_proven(session: Session) -> None:
    said = "a step of the user's own is not confined: what it did to files outside its workspace"
    ran = session(files=stopping("return 'well'"))
    assert [text for text in ran.predicate["not_proven"] if text.startswith(said)] == [
        f"{said} was not looked at: n2 of graph 'g'"
    ]
    plain = echo(subject={"graph": graph(("n1", "input", {}), ("n2", "output", {}))})
    assert said not in str(session(files={"scenarios/s.yaml": plain}).predicate["not_proven"])


def test_an_error_of_a_step_shows_the_users_line_and_no_source_of_ours(session: Session) -> None:
    ran = session("--tb=long", files=stopping("return {}['missing']"))
    assert "raised:    stopping/steps.py:2" in ran.text
    assert "pytest_evarness/" not in ran.text


def test_a_point_whose_value_no_id_spells_is_found_and_named(session: Session) -> None:
    scenario = echo(matrix={"provider": ["sim:one", "sim:two"]}, expect={"status": "blocked"})
    ran = session("-k", "sim:two", files={"scenarios/s.yaml": scenario})
    assert ran.counts == {"passed": 1, "failed": 1, "deselected": 2}
    assert "  point:     provider=sim:two\n" in ran.text
    assert "sim:one" not in ran.text
    listed = session("--collect-only")
    assert "<CaseCollector default.provider-v1 provider=sim:two>" in listed.text
    # The twin: where the id has the value there is nothing to add.
    scenario["matrix"] = {"seed": [1]}
    assert "point:" not in session(files={"scenarios/s.yaml": scenario}).text


def test_a_library_that_is_gone_is_told(session: Session, pytester: pytest.Pytester) -> None:
    library = {"contracts": {"ends": {"assert": {"eventually": {"type": "run_finished"}}}}}
    library["contracts"]["ends"]["title"] = "it ends"  # type: ignore[assignment]
    gone = "warning: the contracts of 'contracts/a.yaml' judge nothing any more"
    unread = "warning: the contracts in 'rules' judge nothing here"
    files = {"scenarios/a.yaml": echo(), "contracts/a.yaml": library}
    ran = session(files={**files, "rules.d/b.yaml": {"name": "somebody else's"}})
    assert gone not in ran.text
    assert "judge nothing here" not in ran.text
    (pytester.path / "contracts").rename(pytester.path / "rules")
    ran = session()
    assert gone in ran.text
    assert unread in ran.text
    # Once it is what the session before had, nobody can tell any more but by the folder.
    ran = session()
    assert gone not in ran.text
    assert unread in ran.text

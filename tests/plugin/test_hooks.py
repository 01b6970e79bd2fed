"""`pytest_evarness_register` of a conftest reaches run A, the mirror and every worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plugin.scenarios import echo, graph

if TYPE_CHECKING:
    from tests.plugin.ran import Session

CONFTEST = """
from pytest_evarness.core.interfaces import NodeType


def pytest_evarness_register(registry):
    @registry.predicate("short")
    def short(event):
        return len(event["payload"]["output"]["text"]) < 20

    def run(inputs, config, context):
        context.emit("custom.shout", {"seen": inputs["in"]})
        return {"out": "shouted"}

    registry.node_types.register(
        "shout",
        NodeType(
            name="shout",
            doc="of the tests",
            inputs={"in": "any"},
            outputs={"out": "any"},
            parse_config=lambda config: (dict(config), []),
            config_schema={},
            run=run,
        ),
    )
"""

SCENARIO = echo(
    subject={"graph": graph(("n1", "input", {}), ("n2", "shout", {}), ("n3", "output", {}))},
    invariants={
        "short": {
            "description": "The answer is short",
            "check": {
                "type": "trace",
                "assert": {
                    "every": {"match": {"type": "run_finished"}, "satisfies": "short"},
                },
            },
        }
    },
)


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)])
def test_a_predicate_and_a_node_type_of_a_conftest_work_in_both_runs(
    session: Session, workers: tuple[str, ...]
) -> None:
    files = {"conftest.py": CONFTEST, "scenarios/a.yaml": SCENARIO}
    ran = session(*workers, files=files, mirror=True)
    assert (ran.code, ran.counts) == (0, {"passed": 3}), ran.text
    assert ran.holds is True
    runs = ran.predicate["cases"][0]["replicas"][0]["runs"]
    assert runs[0]["trace_digest"] == runs[1]["trace_digest"]
    names = [row["name"] for row in ran.predicate["seal"]["plugins"]]
    assert any("conftest" in name for name in names)


def test_without_the_conftest_the_same_file_does_not_load(session: Session) -> None:
    ran = session(files={"scenarios/a.yaml": SCENARIO})
    assert ran.code == 1
    assert "got 'shout'" in ran.text


def test_a_hook_that_raises_is_told_and_breaks_nothing_else(session: Session) -> None:
    broken = "def pytest_evarness_register(registry):\n    raise ValueError('no such table')\n"
    ran = session(files={"conftest.py": broken, "scenarios/a.yaml": echo()})
    assert "could not be loaded: ValueError: no such table" in ran.text
    assert ran.counts == {"passed": 2}

"""The kernel knows no agents: it runs a machine without them, and their words are not in it."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.core.registry import packaged_registry
from tests.extension.test_other_domain import SCENARIO

if TYPE_CHECKING:
    from tests.extension.installing import Site

ROOT = Path(__file__).parents[2] / "pytest_evarness"

# What the formats of scenarios, contracts and reports say of tools and gates. May only shrink;
# the kernel itself has no entry.
SPOKEN: Mapping[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "bundle/facts.py": "python",  # the language
        "bundle/recomputation.py": "python",
        "bundle/schema.py": "python",
        "checks/forbidden.py": "egress_checked tool tool_called",
        "checks/judging/package.py": "content_classified tool",
        "checks/redaction.py": "redaction_applied",
        "cli/lint.py": "tool",
        "cli/run.py": "approval_granted approval_rejected approval_requested tool_called",
        "contract/applicability.py": "tool",
        "contract/model.py": "approval_gate tool",
        "history/refit.py": "python",
        "report/containment.py": (
            "approval_rejected policy_decision python tool tool_called tool_error"
        ),
        "report/explain.py": "approval_rejected approval_revoked policy_decision tool_called",
        "scenario/compile.py": "tool",
        "scenario/forbidden.py": "tool",
        "scenario/invariant.py": "tool",
        "scenario/shape.py": "approval_gate",
        "world/domain.py": "tool",
        "world/fault.py": "llm",
    }.items()
}
LOOKED_AT = (
    "core",
    "source",
    "contract",
    "world",
    "checks",
    "scenario",
    "bundle",
    "report",
    "history",
    "plugin",
    "cli",
)
EVERYBODYS = frozenset({"input", "output"})
"""Names of node types that are plain words of every program."""


def words_of_agents() -> frozenset[str]:
    """Node types and event types of the packaged domain."""
    registry = packaged_registry()
    tables = (registry.node_types, registry.event_types)
    return frozenset(
        name for table in tables for name in table.names() if table.source_of(name) == "agents"
    )


def spoken_in(tree: ast.AST, words: frozenset[str]) -> frozenset[str]:
    return words.intersection(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def spoken_below(root: Path, words: frozenset[str]) -> dict[str, frozenset[str]]:
    found = {}
    for part in LOOKED_AT:
        for path in sorted((root / part).rglob("*.py")):
            spoken = spoken_in(ast.parse(path.read_text(encoding="utf-8")), words - EVERYBODYS)
            if spoken:
                found[path.relative_to(root).as_posix()] = spoken
    return found


def test_words_of_agents_stand_where_the_formats_have_them_and_nowhere_in_the_kernel() -> None:
    words = words_of_agents()
    assert {"llm", "tool_called", "approval_gate"} <= words
    found = spoken_below(ROOT, words)
    assert not any(name.startswith("core/") for name in found)
    grown = {name: sorted(spoken - SPOKEN.get(name, frozenset())) for name, spoken in found.items()}
    assert {name: more for name, more in grown.items() if more} == {}


def test_one_more_word_would_be_noticed(tmp_path: Path) -> None:
    path = tmp_path / "core" / "a.py"
    path.parent.mkdir()
    path.write_text('def f(event):\n    return event["type"] == "tool_called"\n')
    assert spoken_below(tmp_path, words_of_agents()) == {"core/a.py": frozenset({"tool_called"})}


WITHOUT_AGENTS = """
import json, sys
from pathlib import Path

from pytest_evarness.core import registry as registries
from pytest_evarness.pipeline import Engine, Settings

import turnstile

registry = registries._built_in()
registry.load("turnstile", lambda: turnstile.register)
assert registry.broken == [], registry.broken
engine = Engine(Settings(root=Path.cwd(), rerun="inline"))
engine.__dict__["registry"] = registry
found = {}
for case in engine.compile(json.loads(sys.argv[1]), Path.cwd()):
    judgement = engine.run(case).judgement
    found[case.id] = [judgement.verdict, [finding.outcome.word for finding in judgement.findings]]
agents = sorted(name for name in sys.modules if name.startswith("pytest_evarness.domains"))
print(json.dumps({"found": found, "agents": agents}))
"""


def test_a_machine_runs_where_no_agent_is_there_at_all(site: Site) -> None:
    site.install("turnstile")
    done = site.start("-c", WITHOUT_AGENTS, json.dumps(SCENARIO))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "found": {name: ["valid", ["pass"] * 4] for name in ("paid", "unpaid")},
        "agents": [],
    }

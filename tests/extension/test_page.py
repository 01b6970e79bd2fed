"""The page about extending: what it shows is installed, and works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.core.graph import RULE_SECONDS
from pytest_evarness.core.registry import LOAD_SECONDS, Registry

if TYPE_CHECKING:
    from tests.extension.installing import Site

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_every_module_and_scenario_of_the_page_works(site: Site) -> None:
    modules = [name.removesuffix(".py") for name in BLOCKS if name.endswith(".py")]
    assert sorted(modules) == ["desk", "desk_files", "desk_patterns", "gate", "stamp"]
    for name in modules:
        site.install_module(name, BLOCKS[f"{name}.py"])
    folder = site.folder / "stamp_desk"
    (folder / "fixtures").mkdir(parents=True)
    (folder / "graph.json").write_text(
        '{"ir_version": 1, "id": "desk", "nodes": [{"id": "n1", "type": "input"},'
        ' {"id": "n2", "type": "output"}], "edges": [{"from": "n1", "to": "n2"}]}'
    )
    for fixture in ("plain", "long"):
        (folder / "fixtures" / f"{fixture}.yaml").write_text("user_input: a letter\n")
    files = {name: text for name, text in BLOCKS.items() if name.startswith("scenarios/")}
    assert len(files) == 2
    files["scenarios/desk.yaml"] = (
        "evarness: 1\nsubject: {graph: 'pattern:stamp_desk'}\nexpect: {output: a letter}\n"
    )
    ran = site.session(
        "--evarness-export=verdicts=out.txt", "--evarness-min-coverage=100", files=files
    )
    assert ran.code == 0, ran.text
    assert "could not be loaded" not in ran.text
    assert (ran.root / "out.txt").read_text().splitlines() == [
        f"scenarios/{name}.yaml::default valid" for name in ("desk", "gate", "letter")
    ]
    assert site.verify(ran).result == "holds"
    (site.root / "desk.log").write_text("SEEN 8\n")
    done = site.command("digest", "desk.log", "--importer", "desk-log")
    assert done.stdout.startswith("desk 1 events "), done.stderr


def test_the_page_names_every_way_to_register() -> None:
    decorators = {
        "node_type",
        "predicate",
        "check_type",
        "service_type",
        "judge",
        "lint_rule",
        "inspector",
        "exporter",
        "importer",
    }
    registry = Registry()
    offered = {
        name
        for name in dir(Registry)
        if not name.startswith("_") and callable(getattr(registry, name))
    }
    assert decorators | {"pattern"} <= offered
    for name in decorators:
        assert f"`@registry.{name}(NAME" in PAGE
    # What else can be called is for whoever loads plug-ins.
    others = {"pattern", "extensible", "extensions"}
    assert offered - decorators - others == {"is_foreign", "load", "plugin_behind"}
    for name in others:
        assert f"`registry.{name}(" in PAGE


def test_the_message_that_the_page_shows_is_the_one() -> None:
    registry = Registry()
    registry.load("desk", lambda: lambda one: one.node_types.register("desk_stamp", "a text"))
    ((name, problem),) = registry.broken
    assert f"    evarness: plug-in {name} could not be loaded: {problem}\n" in PAGE


def test_the_limit_that_the_page_names_is_the_one() -> None:
    assert f"within {LOAD_SECONDS:g} seconds" in PAGE
    assert f"does not come back within {RULE_SECONDS:g} seconds; then" in PAGE

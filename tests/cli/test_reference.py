"""The reference pages are what the registry says, to the letter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evarness.cli.reference import PAGES
from pytest_evarness.core.registry import packaged_registry

if TYPE_CHECKING:
    from tests.cli.conftest import Command

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_page_is_up_to_date(command: Command, name: str) -> None:
    done = command("schema", name, "--markdown")
    assert done.code == 0
    assert done.out == (REFERENCE / f"{name}.md").read_text("utf-8")


def test_every_type_port_key_and_event_is_on_it() -> None:
    registry = packaged_registry()
    nodes, events = (PAGES[name](registry) for name in ("nodes", "events"))
    for name, kind in registry.node_types.items():
        (section,) = [one for one in nodes.split("\n## ") if one.startswith(f"{name}\n")]
        properties = kind.config_schema["properties"]
        assert isinstance(properties, dict)
        for word in (*kind.inputs, *kind.outputs, *kind.emits, *properties):
            assert f"`{word}`" in section, word
    rows = [line.split(" | ") for line in events.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows] == [f"| `{name}`" for name in registry.event_types.names()]
    assert all(len(row) == 4 for row in rows), "a bar in a cell would break the table"


def test_there_is_no_page_of_other_schemas(command: Command) -> None:
    done = command("schema", "graph", "--markdown")
    assert done.code == 2
    assert "there is no page of it (got 'graph'; known: nodes, events)" in done.err

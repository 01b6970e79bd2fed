"""What the page about the kernel shows is what the kernel does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pytest_evarness.core.registry import load_registry
from tests.core.building import kernel_registry

PAGE = Path(__file__).parents[2] / "docs" / "kernel.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_example_runs_in_the_order_of_the_page() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert len(blocks) == TEXT.count("```python") > 7
    program = "\n".join(blocks)
    namespace: dict[str, Any] = {"__name__": "page"}
    exec(compile(program, str(PAGE), "exec"), namespace)
    assert namespace["second_run"].is_perturbed


def test_every_kernel_event_is_on_the_page_with_its_fields() -> None:
    table = TEXT.partition("| event | payload |")[2].partition("\n\n")[0]
    rows = {}
    for line in table.splitlines():
        cells = line.split("|")
        for name in re.findall(r"`(\w+)`", cells[1] if len(cells) > 1 else ""):
            rows[name] = set(re.findall(r"`(\w+)`", cells[2]))
    registry = kernel_registry()
    assert sorted(rows) == registry.event_types.names()
    for name, entry in registry.event_types.items():
        properties: Any = entry.schema["properties"]
        assert set(properties) - {"truncated", "tainted"} <= rows[name], name


def test_the_page_names_every_code_of_lint_that_the_kernel_has() -> None:
    source = (PAGE.parents[1] / "pytest_evarness" / "core" / "graph.py").read_text(encoding="utf-8")
    codes = set(re.findall(r'"(?:error|warning)",\s+"(\w+)"', source))
    assert len(codes) >= 6
    for code in codes:
        assert f"`{code}`" in TEXT


def test_the_registry_of_the_page_holds_the_first_domain() -> None:
    assert "agents" in json.dumps(load_registry().domains.names())

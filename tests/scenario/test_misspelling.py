"""Each key of each shipped file, misspelt in turn, is an error, or belongs to the user."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pytest_evarness.contract.library import load_library
from pytest_evarness.core.interfaces import Locations
from pytest_evarness.errors import InputError
from pytest_evarness.scenario.load import LoadContext, load_scenario
from pytest_evarness.source.document import load_document, parse_yaml
from pytest_evarness.source.yamltext import read_yaml

if TYPE_CHECKING:
    from pytest_evarness.contract.library import Library
    from pytest_evarness.core.registry import Registry
    from pytest_evarness.scenario.case import Case

REPOSITORY = Path(__file__).resolve().parents[2]
AGENTS = REPOSITORY / "pytest_evarness" / "domains" / "agents"

SCENARIOS = ["approval_gated_send", "governed_email_assistant", "single_shot_qa"]

KeyPath = tuple[str | int, ...]


def unrolled(name: str, root: Path) -> Path:
    """A shipped scenario with its pattern, tools and contracts as files that can be changed."""
    shutil.copytree(AGENTS / "patterns" / name, root / "scenarios" / name)
    (root / "contracts").mkdir()
    shutil.copy(REPOSITORY / "contracts" / "email.yaml", root / "contracts" / "email.yaml")
    tools = load_document(AGENTS / "tools.yaml").value
    kept = [tool for tool in tools["tools"] if tool["id"] in ("email.search", "email.send")]
    write(root / "scenarios" / "tools.yaml", {"tools": kept})
    value = load_document(REPOSITORY / "scenarios" / f"{name}.yaml").value
    for layer in (value, *value.get("cases", {}).values()):
        reference = layer.get("subject", {}).get("graph")
        if reference is not None:
            fixture = reference.partition("/")[2]
            layer["subject"]["graph"] = f"{name}/graph.json"
            layer.setdefault("environment", {})["fixture"] = f"{name}/fixtures/{fixture}.yaml"
    path = root / "scenarios" / "s.yaml"
    write(path, value)
    return path


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def load_contracts(root: Path, registry: Registry) -> Library:
    library = load_library(Locations(root, None, (), {}), [root / "contracts"], registry)
    if library.errors:
        raise library.errors[0]
    return library


def load(path: Path, root: Path, registry: Registry, library: Library) -> list[Case]:
    return load_scenario(path, context=LoadContext(root=root, registry=registry, library=library))


def keys(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from keys(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from keys(inner, (*path, index))


def misspelt(value: Any, path: KeyPath) -> Any:
    """``value`` with an ``x`` behind the key at ``path``."""
    head, *rest = path
    if isinstance(value, list):
        return [misspelt(x, tuple(rest)) if i == head else x for i, x in enumerate(value)]
    if not rest:
        return {f"{key}x" if key == head else key: inner for key, inner in value.items()}
    return {k: misspelt(v, tuple(rest)) if k == head else v for k, v in value.items()}


# Where the user names things: another name is another thing, and no slip can be told.
FREE: dict[str, Callable[[KeyPath], bool]] = {
    "scenario": lambda path: (
        path[:-1] in (("cases",), ("invariants",)) and path[-1] != "approval-precedes-send"
    ),
    "graph": lambda path: "position" in path[:-1] or path[0] == "metadata" != path[-1],
    "fixture": lambda path: path[-1] == "id",  # too short to be told from a column of a row
    "tools": lambda path: path[-2:-1] == ("properties",),
    "contracts": lambda path: (
        len(path) == 2 or (path[2:3] == ("corpus",) and (len(path) == 5 or "survives" in path[:-1]))
    ),
}


@cache
def kind_of(name: str) -> str:
    if name in ("contracts.yaml", "email.yaml"):
        return "contracts"
    return {"s.yaml": "scenario", "graph.json": "graph", "tools.yaml": "tools"}.get(name, "fixture")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_misspelt_key_of_any_shipped_file_is_an_error(
    tmp_path: Path, registry: Registry, name: str
) -> None:
    path = unrolled(name, tmp_path)
    library = load_contracts(tmp_path, registry)
    assert load(path, tmp_path, registry, library)  # the twin: as shipped it loads
    passed: list[str] = []
    seen: set[tuple[str, KeyPath]] = set()
    count = 0
    files = [file for file in tmp_path.rglob("*") if file.suffix in (".yaml", ".json")]
    for file in sorted(files):
        kind = kind_of(file.name)
        written = file.read_text(encoding="utf-8")
        value = parse_yaml(written).value
        for at in keys(value):
            # Elements of one list have one shape; the first of a kind stands for the others.
            shape = (file.name, tuple(part for part in at if isinstance(part, str)))
            if FREE[kind](at) or shape in seen:
                continue
            seen.add(shape)
            count += 1
            write(file, misspelt(value, at))
            try:
                changed = load_contracts(tmp_path, registry) if kind == "contracts" else library
                load(path, tmp_path, registry, changed)
            except InputError:
                continue
            passed.append(f"{file.name}: {'.'.join(map(str, at))}")
        file.write_text(written, encoding="utf-8")
    assert passed == []
    assert count > 100


def test_every_shipped_file_reads_alike_without_the_c_library() -> None:
    folders = [REPOSITORY / "pytest_evarness", REPOSITORY / "scenarios", REPOSITORY / "contracts"]
    files = sorted(file for folder in folders for file in folder.rglob("*.yaml"))
    assert len(files) > 5
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert read_yaml(text, file.name, yaml.SafeLoader)[0] == parse_yaml(text).value

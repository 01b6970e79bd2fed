"""The schemas are schemas, and what the package ships and emits fits them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from pytest_evarness.bundle.schema import STATEMENT, check_shape
from pytest_evarness.cli.init import SCENARIO
from pytest_evarness.cli.schema import SCHEMAS
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.errors import UnverifiedError
from pytest_evarness.report.jsonl import jsonl_lines
from tests.bundle.builder import APPROVE, PENDING, REJECT, statement_of

if TYPE_CHECKING:
    from tests.cli.conftest import Command


def fits(schema: Any, value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_each_is_a_schema(command: Command, name: str) -> None:
    schema = command("schema", name).json
    jsonschema.Draft202012Validator.check_schema(schema)
    assert not fits(schema, {"nothing": "of ours"})


def test_the_first_scenario_fits(command: Command) -> None:
    value = yaml.safe_load(SCENARIO)
    schema = command("schema", "scenario").json
    assert fits(schema, value)
    assert not fits(schema, {**value, "subjekt": {}})


def test_packaged_graphs_and_contracts_fit(command: Command) -> None:
    graph, contracts = command("schema", "graph").json, command("schema", "contracts").json
    for pattern in packaged_registry().patterns.values():
        value = json.loads((pattern.folder / "graph.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(graph).validate(value)
        library = yaml.safe_load((pattern.folder / "contracts.yaml").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(contracts).validate(library)
    packaged = Path(__file__).parents[2] / "pytest_evarness" / "contract" / "packaged"
    files = sorted(packaged.glob("*.yaml"))
    assert files
    for file in files:
        library = yaml.safe_load(file.read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(contracts).validate(library)


def test_a_wrong_graph_and_a_wrong_contract_do_not_fit(command: Command) -> None:
    graph, contracts = command("schema", "graph").json, command("schema", "contracts").json
    assert not fits(graph, {"nodes": [{"id": "a", "type": "outptu"}], "edges": []})
    assert not fits(
        graph, {"nodes": [{"id": "a", "type": "llm", "config": {"temprature": 1}}], "edges": []}
    )
    assert not fits(contracts, {"contracts": {"c": {"assert": {"nevr": {}}}}})
    assert not fits(contracts, {"contracts": {"c": {"title": "no assert"}}})


def test_every_line_of_a_trace_file_fits(command: Command) -> None:
    events, trace = command("schema", "events").json, command("schema", "trace").json
    lines = [json.loads(line) for line in jsonl_lines(statement_of(APPROVE, REJECT, PENDING))]
    for line in lines:
        jsonschema.Draft202012Validator(trace).validate(line)
        if "trace" not in line:
            jsonschema.Draft202012Validator(events).validate(line)
    assert not fits(events, {**lines[1], "payload": {}})


def test_a_statement_fits_and_one_with_anything_else_does_not(command: Command) -> None:
    schema = command("schema", "bundle").json
    statement: Any = statement_of(APPROVE, REJECT, PENDING)
    jsonschema.Draft202012Validator(schema).validate(statement)
    check_shape(statement, STATEMENT)
    places = list(_places(statement))
    assert len(places) > 100
    for path in places[:: max(1, len(places) // 60)]:
        for spoil in (_more, _less):
            wrong = copy.deepcopy(statement)
            if not spoil(wrong, path):
                continue
            assert not fits(schema, wrong), path
            with pytest.raises(UnverifiedError):
                check_shape(wrong, STATEMENT)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, (dict, list)):
        yield path
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(inner, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _more(statement: Any, path: tuple[Any, ...]) -> bool:
    place = _at(statement, path)
    if isinstance(place, dict):
        place["nothing of ours"] = None
    else:
        place.append({"nothing": "of ours"})
    return True


def _less(statement: Any, path: tuple[Any, ...]) -> bool:
    place = _at(statement, path)
    if not isinstance(place, dict) or not place:
        return False
    del place[next(iter(place))]
    return True


def test_without_a_name_the_names_are_listed(command: Command) -> None:
    done = command("schema")
    assert (done.code, [line.split()[0] for line in done.out.splitlines()]) == (0, list(SCHEMAS))
    assert [row["name"] for row in command("schema", "--json").json] == list(SCHEMAS)


def test_an_unknown_name_is_refused_with_the_nearest(command: Command) -> None:
    done = command("schema", "scenaro")
    assert (done.code, done.out) == (2, "")
    assert "try: write 'scenario'" in done.err

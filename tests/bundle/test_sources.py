"""Nothing can be taken out of a bundle's evidence, cut short, doubled or put in another order."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.bundle.envelope import envelope_bytes
from tests.bundle.builder import APPROVE, REJECT, UNDECIDED, changed, statement_of, verified
from tests.report.test_junit import BAD

Path = tuple[Any, ...]
HELD = changed(APPROVE, case="held", checks={"held": "hello", "missed": "other"})


@lru_cache(maxsize=1)
def statement() -> dict[str, Any]:
    """Fails, undecided findings and passes; unsigned, so that nothing but the contents speaks."""
    return statement_of(BAD, UNDECIDED, REJECT, HELD, signed=False)


def result_of(changed_statement: dict[str, Any]) -> str:
    return verified(envelope_bytes(canonical_bytes(changed_statement), None)).result


def lists(value: Any, path: Path = ()) -> Iterator[Path]:
    """Places of every list that holds something."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from lists(value[key], (*path, key))
    elif isinstance(value, list):
        if value:
            yield path
        for index, part in enumerate(value):
            yield from lists(part, (*path, index))


@lru_cache(maxsize=1)
def places() -> list[Path]:
    found = list(lists(statement()["predicate"]["cases"], ("predicate", "cases")))
    assert len(found) > 40
    return found


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def bend(made: list[Any], operation: str, number: int) -> None:
    index = number % len(made)
    if operation == "remove":
        del made[index]
    elif operation == "truncate":
        del made[index:]
    elif operation == "double":
        made.insert(index, copy.deepcopy(made[index]))
    else:
        made.reverse()


def test_as_it_is_the_bundle_is_consistent() -> None:
    assert result_of(statement()) == "unknown_origin"


@settings(max_examples=120, deadline=None)
@given(
    place=st.integers(0, 10_000),
    operation=st.sampled_from(["remove", "truncate", "double", "reverse"]),
    number=st.integers(0, 100),
)
def test_a_list_that_was_bent_is_no_longer_believed(
    place: int, operation: str, number: int
) -> None:
    made = copy.deepcopy(statement())
    path = places()[place % len(places())]
    bend(at(made, path), operation, number)
    if made != statement():
        assert result_of(made) == "not_genuine", (path, operation, number)


def in_texts(name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, case in enumerate(statement()["predicate"]["cases"]):
        yield index, json.loads(case["replicas"][0][name])


@settings(max_examples=40, deadline=None)
@given(number=st.integers(0, 100), key=st.sampled_from(["seq", "type", "node_id", "payload"]))
def test_a_field_that_was_taken_out_of_an_event_is_missed(number: int, key: str) -> None:
    from pytest_evarness.core import c1

    made = copy.deepcopy(statement())
    events = made["predicate"]["cases"][number % 4]["replicas"][0]["events"]
    event = json.loads(events[number % len(events)])
    event[key] = {} if key == "payload" else 10_000 if key == "seq" else "x"
    events[number % len(events)] = c1.text(event)
    if made != statement():
        assert result_of(made) == "not_genuine"


def test_another_world_is_not_this_runs() -> None:
    for index, world in in_texts("world"):
        made = copy.deepcopy(statement())
        made["predicate"]["cases"][index]["replicas"][0]["world"] = '{"ledger":[]}'
        assert world == {}
        assert result_of(made) == "not_genuine"

"""A compiled case is text: whoever has it runs the same thing, and it says when it was changed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_evarness.core import c1
from pytest_evarness.core.case import Budget, CompiledCase
from pytest_evarness.core.execution import execute
from pytest_evarness.errors import DeterminismError, InputError
from tests.core.building import case_of, graph_of, kernel_registry, row

REGISTRY = kernel_registry()
DOCUMENT = row("t_input", "t_output", params={"seed": 7, "provider": "sim:x"})
PARTS: dict[str, Any] = {
    "environment": {"user_input": 'hi "environment":null é', "list": [1.0, 2]},
    "overlays": {"tools": {"a": 1}},
    "budget": Budget(events=50, seconds=5, loops=3),
    "policy_revision": "r1",
    "secrets": ("PAY",),
    "schedule": "seed:9",
}


def made(**changes: Any) -> CompiledCase:
    return case_of(DOCUMENT, REGISTRY, **{**PARTS, **changes})


def again(case: CompiledCase, **changes: str) -> CompiledCase:
    return CompiledCase.from_texts(
        changes.get("text", case.text),
        changes.get("graph_text", case.graph_text),
        changes.get("overlays_text", case.overlays_text),
        REGISTRY,
    )


def test_the_text_holds_every_part_once_and_shares_the_large_ones_by_digest() -> None:
    case = made()
    assert json.loads(case.text) == {
        "format": 1,
        "scenario": "s",
        "case": "c",
        "fixture": "f",
        "graph": c1.sha256_text(case.graph_text),
        "overlays": c1.sha256_text('{"tools":{"a":1}}'),
        "environment": PARTS["environment"],
        "seed": 7,
        "provider": "sim:x",
        "schedule": "seed:9",
        "budget": {"events": 50, "seconds": 5.0, "loops": 3},
        "policy_revision": "r1",
        "secrets": ["PAY"],
    }
    assert case.text == c1.text(json.loads(case.text))
    assert case.digest == c1.sha256_text(case.text)


def test_it_reads_back_and_runs_alike() -> None:
    case = made()
    read = again(case)
    assert replace(read, graph=case.graph) == case
    secrets = {"PAY": "1234"}
    digests = {execute(one, REGISTRY, secrets=secrets).trace_digest for one in (case, read)}
    assert len(digests) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"provider": "sim:y"},
        {"environment": {}},
        {"overlays": {}},
        {"budget": Budget(events=51, seconds=5, loops=3)},
        {"policy_revision": None},
        {"secrets": ()},
        {"schedule": "canonical"},
    ],
)
def test_every_part_is_in_the_digest(change: dict[str, Any]) -> None:
    assert made(**change).digest != made().digest


def test_the_same_number_of_seconds_is_the_same_case() -> None:
    assert made(budget=Budget(seconds=5)).digest == made(budget=Budget(seconds=5.0)).digest


def test_the_environment_is_a_copy() -> None:
    environment: dict[str, Any] = {"list": [1]}
    case = made(environment=environment)
    environment["list"].append(2)
    assert case.environment == {"list": [1]}


def changed(**fields: Any) -> str:
    return c1.text({**json.loads(made().text), **fields})


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"text": "{"}, r"^case: not JSON"),
        ({"text": "[]"}, r"^case: must be a mapping"),
        ({"text": changed(more=1)}, r"^case: keys must be those of format 1"),
        ({"text": changed(format=2)}, r"^case\.format: unknown \(got 2; 1\)"),
        ({"graph_text": "{}"}, r"^case\.graph: differs from the text that is to be it"),
        ({"overlays_text": "{}"}, r"^case\.overlays: differs from the text"),
        ({"text": changed(seed="x")}, r"^case\.seed: must be an integer"),
        ({"text": changed(provider=1)}, r"^case\.provider: must be a text"),
        ({"text": changed(environment=[])}, r"^case\.environment: must be a mapping"),
        ({"text": changed(policy_revision=3)}, r"^case\.policy_revision: must be a text or null"),
        ({"text": changed(secrets=[1])}, r"^case\.secrets: must be a list of names"),
        ({"text": changed(budget={})}, r"^case\.budget: must be \{events, seconds, loops\}"),
        ({"text": changed(schedule="x")}, r"^schedule: unknown"),
        ({"text": made().text + " "}, r"^case: not in its canonical form"),
    ],
)
def test_texts_that_are_not_a_case_are_refused(texts: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        again(made(), **texts)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (Budget(events=0), r"^budget\.events: must be a positive integer \(got 0; 1 or more\)"),
        (Budget(loops=-5), r"^budget\.loops: must be a positive integer \(got -5; 1 or more\)"),
        (Budget(seconds=0), r"^budget\.seconds: must be positive \(got 0"),
        (Budget(seconds=float("inf")), r"^budget\.seconds: must be positive \(got inf"),
        (Budget(seconds=True), r"^budget\.seconds: must be a number \(got true"),
    ],
)
def test_a_bound_that_bounds_nothing_is_refused(budget: Budget, message: str) -> None:
    with pytest.raises(InputError, match=message):
        made(budget=budget)


def test_values_without_a_canonical_form_are_refused() -> None:
    with pytest.raises(DeterminismError, match=r"^environment\.x: a number that JSON"):
        made(environment={"x": float("nan")})


def test_texts_of_an_earlier_case_are_taken_as_they_are() -> None:
    first = made()
    graph = graph_of(DOCUMENT, REGISTRY)
    second = CompiledCase.build(
        scenario="s",
        case="c",
        fixture="f",
        graph=graph,
        graph_text=first.graph_text,
        overlays_text=first.overlays_text,
        **PARTS,
    )
    assert second.digest == first.digest

"""Whatever a contract would notice of a changed run is a mutant, for every primitive."""

from __future__ import annotations

import copy
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.contract.corpus import Corpus, CorpusEntry
from pytest_evarness.contract.evaluate import evaluate
from pytest_evarness.contract.mutation import mutate
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.core.trace import Trace
from tests.contract.test_reference import FORMS, REGISTRY, Form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_evarness.contract.model import Contract

KEYS = ("a", "b")


def trace_of(form: Form, random: Random) -> list[dict[str, Any]]:
    return [
        {role: random.randint(0, 1) for role in form.roles}
        | {f"{role}k": random.choice(KEYS) for role in form.roles}
        for _ in range(random.randint(1, 4))
    ]


def word(contract: Contract, payloads: list[dict[str, Any]]) -> str:
    events: list[Any] = [*map(recorded, range(len(payloads)), payloads)]
    events.append({"seq": len(events), "type": "run_finished", "node_id": None, "payload": {}})
    (found,) = evaluate([contract], Trace(events, closed=True), REGISTRY)
    return "vacuous" if found.vacuous and found.outcome is Outcome.PASS else found.outcome.word


def recorded(seq: int, payload: dict[str, Any]) -> dict[str, Any]:
    return {"seq": seq, "type": "custom.e", "node_id": "n", "payload": payload}


def every_change(own: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for at, payload in enumerate(own):
        yield f"drop[{at}]", own[:at] + own[at + 1 :]
        yield f"double[{at}]", own[: at + 1] + own[at:]
        if at:
            yield f"swap[{at - 1},{at}]", [*own[: at - 1], payload, own[at - 1], *own[at + 1 :]]
        for name, value in payload.items():
            for other in (0, 1, 2) if isinstance(value, int) else (*KEYS, "c"):
                if other != value:
                    altered = {**copy.deepcopy(payload), name: other}
                    yield f"alter[{at}] {name}", [*own[:at], altered, *own[at + 1 :]]
            rest = {key: item for key, item in payload.items() if key != name}
            yield f"alter[{at}] {name}", [*own[:at], rest, *own[at + 1 :]]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_whatever_is_noticed_is_a_mutant(form: Form) -> None:
    random = Random(form.name)
    counts: Counter[str] = Counter()
    while counts["passed"] < 12:
        counts.update(compared(form.contract(()), trace_of(form, random)))
    # Neither idle nor all there is: nobody could mind much of what can be done.
    assert counts["noticed"] > 3
    assert counts["made"] < 0.9 * counts["places"]


def compared(contract: Contract, payloads: list[dict[str, Any]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    before = word(contract, payloads)
    if before not in ("pass", "vacuous"):
        return counts
    events: list[Any] = [*map(recorded, range(len(payloads)), payloads)]
    entry = CorpusEntry("positive", "p", tuple(events), Outcome.PASS)
    (made,) = mutate([(contract, Corpus((entry,)))], [contract], REGISTRY)
    names = {one.name.partition("=")[0] for one in made.mutants}
    for name, changed in every_change(payloads):
        after = word(contract, changed)
        if after not in (before, "pass"):
            counts["noticed"] += 1
            assert name in names, f"{name}: {before} -> {after}"
    counts["passed"] = 1
    counts["made"] = len(names)
    counts["places"] = len({name for name, _ in every_change(payloads)})
    return counts

"""On real traces every outcome, every prefix and every decisive event is what oracles say."""

from __future__ import annotations

import pytest

from pytest_evarness.contract.evaluate import Evaluator
from pytest_evarness.core.outcome import Outcome
from tests.contract.oracle import FOLDER, contracts_of, cut, expected_of, plain_registry, traces_of

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder of real traces is absent")

LETTER = {Outcome.PASS: "p", Outcome.FAIL: "f", Outcome.INDETERMINATE: "i"}


@pytest.mark.parametrize("name", ["patients", "tau"])
def test_every_outcome_prefix_and_decisive_event_is_the_oracles(name: str) -> None:
    registry = plain_registry()
    contracts = contracts_of(name, registry)
    expected = expected_of(name)
    judge = Evaluator(contracts, registry)
    compared = 0
    for trace in traces_of(name):
        assert trace.run_id is not None
        last = len(trace.events)
        letters = {contract.id: "" for contract in contracts}
        for count in range(1, last):
            for contract, finding in zip(contracts, judge.evaluate(cut(trace, count)), strict=True):
                letters[contract.id] += LETTER[finding.outcome]
        for contract, finding in zip(contracts, judge.evaluate(trace), strict=True):
            want = expected[contract.id].get(trace.run_id)
            if want is None:
                continue
            compared += 1
            got = letters[contract.id] + LETTER[finding.outcome]
            place = f"{contract.id} over {trace.run_id}"
            assert got == want["prefixes"], place
            assert finding.outcome.word == want["outcome"], place
            assert finding.decisive_seq == want["decisive_seq"], place
    assert compared == sum(len(runs) for runs in expected.values())


def test_the_comparison_would_notice_another_contract() -> None:
    registry = plain_registry()
    expected = expected_of("patients")["PA-02"]
    (other,) = [one for one in contracts_of("patients", registry) if one.id == "PA-03"]
    judge = Evaluator([other], registry)
    outcomes = {
        str(one.run_id): judge.evaluate(one)[0].outcome.word for one in traces_of("patients")
    }
    assert outcomes != {run: want["outcome"] for run, want in expected.items()}

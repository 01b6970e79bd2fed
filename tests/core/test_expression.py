from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic import ValidationError

from pytest_evarness.contract.corpus import evaluate_corpus, parse_corpus
from pytest_evarness.contract.evaluate import evaluate
from pytest_evarness.contract.model import parse_contract
from pytest_evarness.contract.mutation import mutate
from pytest_evarness.core import expression, matcher
from pytest_evarness.core.expression import Patience
from pytest_evarness.core.matcher import Undecided, parse_matcher
from pytest_evarness.core.outcome import Cause, Outcome
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.core.trace import Trace
from pytest_evarness.domains.agents.environment.rule import Match

REGISTRY = packaged_registry()
SLOW = r"^(a|a)*\1$"
"""An expression that takes for ever over HOSTILE."""
HOSTILE = "a" * 60 + "!"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "REGEX_SECONDS", 0.05)


@pytest.fixture
def given_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions whose search was given up, once for each time."""
    sources: list[str] = []
    real = Patience.give_up

    def give_up(patience: Patience, source: str, text: str) -> None:
        sources.append(source)
        real(patience, source, text)

    monkeypatch.setattr(Patience, "give_up", give_up)
    return sources


def found(pattern: str, text: str) -> bool | str:
    made, faults = parse_matcher({"pattern": pattern})
    assert made is not None, faults
    answer = made.compile()(text)
    if isinstance(answer, Undecided):
        assert answer.cause is Cause.EVALUATOR_ERROR
        return answer.why
    return answer


def contract(pattern: str = SLOW, **more: Any) -> Any:
    never: Any = {"type": "custom.said", "where": {"text": {"pattern": pattern}}}
    read, faults = parse_contract("m", {"assert": {"never": never}, **more}, registry=REGISTRY)
    assert read is not None, faults
    return read


def said(*texts: str) -> Trace:
    events = [
        {"seq": seq, "type": "custom.said", "node_id": None, "payload": {"text": text}}
        for seq, text in enumerate(texts)
    ]
    end = {"seq": len(texts), "type": "run_finished", "node_id": None, "payload": {}}
    return Trace([*events, end], closed=True)


# -- time ----------------------------------------------------------------------------------------


def test_an_expression_that_took_too_long_once_is_not_asked_again() -> None:
    with Patience():
        assert found(SLOW, "b") is False
        assert found(SLOW, HOSTILE) == 'pattern "^(a|a)*\\\\1$" took longer than 0.05 s'
        assert (
            found(SLOW, "b") == 'pattern "^(a|a)*\\\\1$" was not asked again, having taken too long'
        )
        assert found("^a*$", "b") is False, "another expression is another matter"
        with Patience():
            assert found(SLOW, "b") != False, "one inside of another is the other"  # noqa: E712
    assert found(SLOW, "b") is False, "nothing is remembered afterwards"
    assert found(SLOW, HOSTILE) == found(SLOW, HOSTILE)


def test_many_slow_searches_are_one_that_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expression, "SLOW_SECONDS", 0.0)
    with Patience():
        assert [found("a*b", "a" * 50) for _ in range(20)] == [False] * 20
    monkeypatch.setattr(expression, "MAX_SLOW_SECONDS", 1e-9)
    with Patience():
        assert found("a*b", "a" * 50) is False
        assert "was not asked again" in str(found("a*b", "a" * 50))


def test_a_trace_of_hostile_texts_costs_one_time_out(given_up: list[str]) -> None:
    (finding,) = evaluate([contract()], said(*[HOSTILE] * 30), REGISTRY)
    assert (finding.outcome, finding.causes) == (Outcome.INDETERMINATE, (Cause.EVALUATOR_ERROR,))
    assert "event 0: text: " in finding.reason
    assert "took longer than 0.05 s" in finding.reason
    assert given_up == [SLOW]


@pytest.mark.parametrize("is_regular", [True, False])
def test_a_violation_before_the_hostile_text_stands(is_regular: bool) -> None:
    trace = said("aa", "b", HOSTILE)
    if not is_regular:
        # Numbered with a gap the trace is gone through twice.
        for event in trace.events[1:]:
            event["seq"] += 5  # type: ignore[index]
    (finding,) = evaluate([contract()], trace, REGISTRY)
    assert finding.outcome is Outcome.FAIL
    (finding,) = evaluate([contract()], said(HOSTILE, "aa"), REGISTRY)
    assert finding.outcome is Outcome.INDETERMINATE, "the twin: afterwards nobody looks"


def test_the_corpora_of_a_contract_cost_one_time_out(given_up: list[str]) -> None:
    texts = [{"type": "custom.said", "text": HOSTILE}]
    entries, faults = parse_corpus({"positive": {f"p{at}": texts for at in range(9)}}, REGISTRY)
    assert entries is not None, faults
    results = evaluate_corpus(contract(), entries, REGISTRY)
    assert all("could not be judged" in str(one.problem) for one in results)
    assert given_up == [SLOW]


def test_mutants_cost_one_time_out(given_up: list[str]) -> None:
    texts = [{"type": "custom.said", "text": text} for text in ("b", "c", HOSTILE)]
    entries, faults = parse_corpus({"positive": {f"p{at}": texts for at in range(3)}}, REGISTRY)
    assert entries is not None, faults
    rule = contract()
    mutate([(rule, entries)], [rule], REGISTRY)
    assert given_up == [SLOW]


# -- size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "(?:(?:(?:(?:a?){50}){50}){50}){50}",
        "a{100001}",
        "(?:a{1,1000}b){100}",
        "(?:(?:a{,500}){2,500}){3}",
        "(?:a?){1000}" * 101,
        "(?x)(?: # )\n (?:a?) {1000} ) {1000}",
        "(?#(){9}(?:(?:a){1000}){1000}",
        r"[)](?:[\])](?:a{1000}\)){99}){99}",
        "(?V1)(?:[[)]a](?:a{1000}){99}){99}",
        "(?:a{99999999999999999999}){9}",
        "a" * 10_001,
    ],
)
def test_an_expression_that_is_too_large_is_refused_before_it_is_compiled(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import regex

    def compiled(*_: Any) -> Any:
        raise AssertionError("compiled all the same")

    monkeypatch.setattr(regex, "compile", compiled)
    _, faults = parse_matcher({"pattern": source})
    assert len(faults) == 1
    assert faults[0].path == ("pattern",)
    assert "is too l" in faults[0].problem
    assert "at most 1" in (faults[0].rule or "")


@pytest.mark.parametrize(
    "source",
    [
        "^[0-9a-f]{64}$",
        "a{100000}",
        "(?:a{1,1000}b){99}",
        r"(?:[a-z]{1,63}\.){1,10}[a-z]{2,24}",
        "(?:a?){1000}" * 50,
        "|".join(f"word{at}" for at in range(1000)),
        r"[{]{3}\{9999999\}a{,}",
        "(?x) a{3} # three\n",
    ],
)
def test_what_people_write_is_not_too_large(source: str) -> None:
    begin = time.perf_counter()
    made, faults = parse_matcher({"pattern": source})
    assert made is not None, faults
    assert time.perf_counter() - begin < 10


def test_one_mistake_in_a_contract_that_is_too_large() -> None:
    never: Any = {"type": "custom.said", "where": {"text": {"pattern": "(?:(?:a?){999}){999}"}}}
    read, faults = parse_contract("m", {"assert": {"never": never}}, registry=REGISTRY)
    assert read is None
    assert [fault.problem for fault in faults] == [
        "is too large: 998,001 items with its counted repetitions written out"
    ]


def test_rules_of_scripts_are_bounded_as_well() -> None:
    with pytest.raises(ValidationError, match="is too large"):
        Match(pattern="(?:(?:a?){999}){999}")
    assert Match(pattern="(?:a?){999}").pattern

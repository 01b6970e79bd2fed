"""Which attempts a fault hits depends on counts and the seed, and on no other fault."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.world.fault import SERVICE_FAULTS, TOOL_FAULTS, Injector

_WHEN = st.one_of(
    st.just("always"),
    st.fixed_dictionaries({"first": st.integers(1, 4)}),
    st.fixed_dictionaries({"rate": st.floats(0, 1)}),
)
_SCHEDULE = st.dictionaries(st.sampled_from(TOOL_FAULTS), _WHEN)


def hits(injector: Injector, n: int, tool: str = "t") -> list[frozenset[str]]:
    return [injector.hits(tool) for _ in range(n)]


def test_first_counts_and_always_does_not_end() -> None:
    injector = Injector({"t": {"fail_after": {"first": 2}, "malformed": "always"}}, 1)
    both, one = frozenset({"fail_after", "malformed"}), frozenset({"malformed"})
    assert hits(injector, 4) == [both, both, one, one]


@given(_SCHEDULE, st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_faults(schedule: dict[str, object], seed: int) -> None:
    faults = {"t": schedule}
    assert hits(Injector(faults, seed), 8) == hits(Injector(faults, seed), 8)


def test_another_seed_gives_others() -> None:
    faults = {"t": {"fail_after": {"rate": 0.5}}}
    assert len({tuple(hits(Injector(faults, seed), 20)) for seed in range(5)}) > 1


@given(_SCHEDULE, _WHEN, st.integers(0, 2**32))
def test_one_fault_does_not_move_another(
    schedule: dict[str, object], when: object, seed: int
) -> None:
    with_it = Injector({"t": {**schedule, "malformed": when}, "s": {"reset": when}}, seed)
    without = Injector({"t": {k: v for k, v in schedule.items() if k != "malformed"}}, seed)
    for mine, other in zip(hits(with_it, 8), hits(without, 8), strict=True):
        with_it.service_fault("s")
        assert mine - {"malformed"} == other


def test_a_rate_over_all_tools_is_told_apart_from_a_tools_own() -> None:
    injector = Injector({"tool_error_rate": 1.0, "t": {"malformed": "always"}}, 1)
    assert injector.hits("t") == {"tool_error_rate", "malformed"}
    assert injector.hits("llm") == frozenset()
    assert injector.service_fault("t") is None


@pytest.mark.parametrize("fault", SERVICE_FAULTS)
def test_a_service_does_one_thing_to_a_request(fault: str) -> None:
    injector = Injector({"mail": {fault: {"first": 1}}}, 1)
    assert [injector.service_fault("mail") for _ in range(2)] == [fault, None]


def test_what_refuses_a_request_comes_before_what_loses_its_answer() -> None:
    injector = Injector({"mail": dict.fromkeys(reversed(SERVICE_FAULTS), "always")}, 1)
    assert injector.service_fault("mail") == "refuse"


def test_a_fault_is_named_as_the_scenario_names_it() -> None:
    injector = Injector({"email.send": {}}, 1, {"email.send": "send_email"})
    assert injector.label("email.send", "fail_after") == "send_email.fail_after"
    assert injector.label("email.send", "tool_error_rate") == "tool_error_rate"

"""The audit log holds what its sink was asked to ship, and its digest commits to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.c1 import sha256_text
from pytest_evarness.domains.agents.vocabulary import GOVERNANCE
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pytest_evarness.core.execution import Run


def audited(**config: Any) -> Run:
    graph = h.chain(
        ("input", {}),
        ("interceptor", {"chain": ["policy_check"]}),
        ("audit_log_sink", config),
        ("output", {}),
    )
    return h.run(graph)


@pytest.mark.parametrize(("config", "include"), [({}, "governance"), ({"include": "full"}, "full")])
def test_the_sink_ships_what_is_included(config: dict[str, Any], include: str) -> None:
    run = audited(**config)
    before = run.events[: h.types(run).index("audit_flushed")]
    governance = [event for event in before if event.type in GOVERNANCE]
    shipped = governance if include == "governance" else before
    assert h.payload(run, "audit_flushed") == {
        "events_shipped": len(shipped),
        "governance_events": len(governance),
        "digest": sha256_text("".join(f"{event.text}\n" for event in shipped)),
    }
    assert 0 < len(governance) < len(before)


def test_what_arrives_is_handed_on() -> None:
    run = audited(format="jsonl")
    assert run.output == h.payload(run, "input_received")["text"]


@pytest.mark.parametrize("config", [{"include": "all"}, {"format": "csv"}])
def test_a_word_that_is_none_is_refused(config: dict[str, Any]) -> None:
    assert h.codes(h.chain(("audit_log_sink", config)))[0][:2] == ("error", "invalid_config")


def test_every_type_of_governance_is_in_the_vocabulary() -> None:
    assert set(h.registry().event_types.names()) >= GOVERNANCE

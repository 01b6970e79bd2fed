"""Every item that can be judged says what evidence it needs, and needs what it says."""

from __future__ import annotations

from pytest_evarness.checks.required import required_evidence
from pytest_evarness.core.plan import PlannedItem
from tests.checks.builders import contract_item
from tests.checks.cases import bases, engine


def needs(item: PlannedItem) -> tuple[str, ...]:
    return required_evidence(item, engine().registry)


def test_every_item_of_every_kind_says_something() -> None:
    kinds = set()
    for base in bases():
        for item in base.items:
            assert needs(item), item.id
            assert len(set(needs(item))) == len(needs(item))
            kinds.add(item.kind)
    assert {"contract", "trace", "forbidden", "expect", "sql", "account"} <= kinds


def test_a_contract_needs_the_types_that_it_names_and_their_second_account() -> None:
    item = contract_item(
        "it",
        {"precedes": {"first": {"type": "approval_granted"}, "second": {"type": "effect_applied"}}},
    )
    assert needs(item) == (
        "events approval_granted, effect_applied",
        "the end of the run",
        "the ledger",
    )
    assert needs(contract_item("it", {"never": {"node_id": "n1"}})) == (
        "run A's events, all of them and in order",
        "the end of the run",
    )


def test_a_check_needs_its_service_its_workspace_and_the_findings_that_it_follows() -> None:
    by_id = {item.id: item for base in bases() for item in base.items}
    assert needs(by_id["booked-once"])[0] == "service 'desk', up, and as it was sealed"
    assert needs(by_id["no-draft"])[0] == "the workspace as it was sealed"
    assert "the finding 'booked-twice'" in needs(by_id["lies"])
    assert "an answer of each judge" not in needs(by_id["lies"])


def test_a_type_of_check_that_nobody_knows_says_nothing() -> None:
    assert needs(PlannedItem("it", "of_a_plug_in", definition={})) == ()

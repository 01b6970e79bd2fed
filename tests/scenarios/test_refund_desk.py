"""The refund desk, bent in each way that must be noticed: what is invalid, what is undecided."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.shipped import (
    FILE,
    PATTERNS,
    Change,
    every,
    fixture_of,
    found,
    odd,
    only,
    read,
    replica,
    shipped,
)

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

TOOL = "payment.transfer"

SWAP = '''
"""Steps that stand where none should."""


def add_a_zero(inputs, config, context):
    return inputs["in"][0].replace("19.9", "199.")
'''

WRITING = """
tools:
  - id: payment.transfer
    version: "2"
    args: {type: object, properties: {to: {type: string}, amount: {type: number}, reference: {type: string}}}
    safety: {side_effects: write, network: outbound}
"""  # noqa: E501


def desk(case: str, change: Change, fixture: str = "keyed") -> dict[str, Any]:
    """One case of the shipped scenario; ``change`` gets it with the fixture's keys in place."""
    made = only(shipped("refund_desk"), case)
    environment = fixture_of("refund_desk", fixture)
    environment.update(made["environment"])
    made["environment"] = environment
    change(made)
    return made


def rule(scenario: dict[str, Any]) -> dict[str, Any]:
    (one,) = scenario["environment"]["tools"][TOOL]
    return dict(one)


def effects(*wanted: Any) -> Change:
    def change(scenario: dict[str, Any]) -> None:
        made = rule(scenario)
        made["effects"] = list(wanted)
        scenario["environment"]["tools"][TOOL] = [made]

    return change


def booking(**params: Any) -> dict[str, Any]:
    made = copy.deepcopy(fixture_of("refund_desk", "keyed")["tools"][TOOL][0]["effects"][0])
    made["sql"]["params"].update(params)
    return dict(made)


def payment(path: str = "/transfers", service: str = "bank", **body: Any) -> dict[str, Any]:
    made = copy.deepcopy(fixture_of("refund_desk", "keyed")["tools"][TOOL][0]["effects"][1])
    made["http"].update(path=path, service=service)
    made["http"]["body"].update(body)
    return dict(made)


def service(name: str, **fields: Any) -> Change:
    return lambda scenario: scenario["environment"]["services"][name].update(fields)


def declare(name: str, other: Change, **fields: Any) -> Change:
    def change(scenario: dict[str, Any]) -> None:
        scenario["environment"]["services"][name] = fields
        other(scenario)

    return change


def used_once(scenario: dict[str, Any]) -> None:
    scenario["environment"]["tools"][TOOL] = [{**rule(scenario), "times": 1}]


def undeclared_pause(scenario: dict[str, Any]) -> None:
    del scenario["cases"]["pending"]["expect"]
    scenario["expect"] = {"status": "completed"}


def as_it_is(scenario: dict[str, Any]) -> None:
    """The fixture's own fault is the change."""


MORE = {"sql": {"service": "desk", "statement": "UPDATE orders SET paid = 99"}}
SHOP = {"type": "http_mock", "routes": [{"method": "POST", "path": "/x"}]}
BROKEN = "CREATE TABLE refunds (;"

TWICE = {
    "forbidden-duplicate-effects": "fail",
    "booked-once": "fail",
    "paid-once": "fail",
    "honest-answer": "fail",
    "one-effect-per-intent": "fail",
}
OTHER_REFUND = {
    "booked-once": "fail",
    "within-the-order": "fail",
    "paid-once": "fail",
    "honest-answer": "fail",
}

# Which variant, in which case, over which fixture, and every finding that is not a pass.
INVALID: dict[str, tuple[str, Change, str, dict[str, str]]] = {
    "duplicate-refund": ("lost_answer_with_key", as_it_is, "unkeyed", TWICE),
    "duplicate-after-a-reset": ("bank_breaks_off", as_it_is, "unkeyed", TWICE),
    "wrong-amount": (
        "approve",
        effects(booking(amount=199), payment(amount=199)),
        "keyed",
        OTHER_REFUND,
    ),
    "wrong-account": (
        "approve",
        effects(booking(account="ACC-2"), payment(to="ACC-2")),
        "keyed",
        OTHER_REFUND,
    ),
    "booked-and-not-paid": (
        "approve",
        effects(booking()),
        "keyed",
        {"paid-once": "fail", "honest-answer": "fail"},
    ),
    "paid-and-not-booked": (
        "approve",
        effects(payment()),
        "keyed",
        {"booked-once": "fail", "booked-before-paid": "fail", "honest-answer": "fail"},
    ),
    "claims-what-was-never-done": (
        "approve",
        effects(),
        "keyed",
        {"booked-once": "fail", "paid-once": "fail", "honest-answer": "fail"},
    ),
    "a-request-without-a-route": (
        "approve",
        effects(booking(), payment("/transfer")),
        "keyed",
        {"forbidden-unmatched-requests": "fail", "paid-once": "fail", "honest-answer": "fail"},
    ),
    "another-service-is-asked": (
        "approve",
        declare("shop", effects(booking(), payment(), payment("/x", "shop")), **SHOP),
        "keyed",
        {"forbidden-http-except": "fail"},
    ),
    "another-table-is-written": (
        "approve",
        effects(booking(), payment(), MORE),
        "keyed",
        {"forbidden-db-writes-outside": "fail"},
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_it_is_invalid(session: Session, name: str) -> None:
    case, change, fixture, expected = INVALID[name]
    ran = run(session, desk(case, change, fixture))
    assert odd(ran, case) == expected
    assert (replica(ran, case)["verdict"], ran.holds, ran.code) == ("invalid", False, 1)


CONTRACTS = (
    "every-invocation-was-decided",
    "approved-refund-is-paid",
    "booked-before-paid",
    "no-payment-after-rejection",
    "one-effect-per-intent",
    "no-mutation-without-authority",
)
RULES = (
    "forbidden-db-writes-outside",
    "forbidden-http-except",
    "forbidden-duplicate-effects",
    "forbidden-unmatched-requests",
)
CHECKS = ("booked-once", "within-the-order", "paid-once")


UNDECIDED: dict[str, tuple[str, Change, dict[str, str]]] = {
    "no-journal": (
        "approve",
        service("bank", record=False),
        every("missing_evidence", "forbidden-unmatched-requests", "paid-once", "honest-answer"),
    ),
    "no-journal-and-nothing-approved": (
        "reject",
        service("bank", record=False),
        every("missing_evidence", "forbidden-unmatched-requests", "bank-not-asked"),
    ),
    "dead-database": (
        "approve",
        service("desk", init=BROKEN),
        every("evaluator_error", "reproduces", "expect", *CONTRACTS, *RULES, "paid-once")
        | every("missing_evidence", "booked-once", "within-the-order")
        | every("unfinished_run", "honest-answer")
        | every("missing_evidence evaluator_error", "forbidden-db-writes-outside"),
    ),
    "dead-database-that-nothing-was-to-reach": (
        "reject",
        service("desk", init=BROKEN),
        every(
            "missing_evidence", "forbidden-db-writes-outside", "within-the-order", "nothing-moved"
        ),
    ),
    "script-used-up": (
        "lost_answer_with_key",
        used_once,
        every("missing_evidence", "expect", *CONTRACTS, *RULES, *CHECKS)
        | every("unfinished_run", "honest-answer"),
    ),
    "nobody-decides-and-the-case-expects-an-end": (
        "pending",
        undeclared_pause,
        every(
            "unfinished_run",
            *("expect", *CONTRACTS, *RULES),
            *("within-the-order", "nothing-moved", "bank-not-asked"),
        ),
    ),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_it_is_indeterminate(session: Session, name: str) -> None:
    case, change, expected = UNDECIDED[name]
    ran = run(session, desk(case, change))
    assert odd(ran, case) == expected
    assert (replica(ran, case)["verdict"], ran.holds, ran.code) == ("indeterminate", None, 1)


def test_the_words_of_a_dead_database_are_shown_once(session: Session) -> None:
    ran = run(session, desk("approve", service("desk", init=BROKEN)))
    assert "incomplete input" in ran.text
    notes = [
        item
        for item in ("booked-once", "within-the-order")
        if "incomplete input" in str(found(ran, item, "approve")["witness"])
    ]
    assert notes == ["booked-once"]


# -- between the approval and the call ------------------------------------------------------------


def swapping(scenario: dict[str, Any]) -> None:
    """A step between gate and payment adds a zero."""
    graph = read(PATTERNS / "refund_desk" / "graph.json")
    graph["nodes"].append(
        {"id": "n2b", "type": "python", "config": {"callable": "swap:add_a_zero"}}
    )
    graph["edges"][1] = {"from": "n2", "to": "n2b"}
    graph["edges"].append({"from": "n2b", "to": "n3"})
    scenario["subject"]["graph"] = graph


def contracts() -> str:
    return (PATTERNS / "refund_desk" / "contracts.yaml").read_text("utf-8")


BEHIND_A_STEP = every("missing_evidence", "forbidden-db-writes-outside", "forbidden-http-except")


def test_a_swapped_refund_is_refused_by_the_gate(session: Session) -> None:
    files = {"swap.py": SWAP, "scenarios/contracts.yaml": contracts()}
    ran = run(session, desk("approve", swapping), files)
    assert odd(ran, "approve") == {
        **BEHIND_A_STEP,
        "expect": "fail",
        "booked-once": "fail",
        "paid-once": "fail",
        "honest-answer": "fail",
    }
    assert "approval_missing" in found(ran, "expect", "approve")["reason"]
    assert (ran.holds, ran.code) == (False, 1)


def test_the_payment_cannot_be_called_an_ordinary_tool(session: Session) -> None:
    # Its approval would not be held against its arguments then, and no gate would ask for them.
    files = {
        "swap.py": SWAP,
        "scenarios/contracts.yaml": contracts(),
        "scenarios/tools.yaml": WRITING,
    }
    ran = run(session, desk("approve", swapping), files)
    assert "a layer takes no safety from a tool that is described below it" in ran.text
    assert "(side_effects of 'payment.transfer')" in ran.text
    assert (ran.holds, ran.code) == (False, 1)


def test_a_way_round_the_gate_does_not_load(session: Session) -> None:
    def round_it(scenario: dict[str, Any]) -> None:
        swapping(scenario)
        scenario["subject"]["graph"]["edges"].append({"from": "n1", "to": "n3"})

    files = {"swap.py": SWAP, "scenarios/contracts.yaml": contracts()}
    ran = run(session, desk("approve", round_it), files)
    assert (ran.code, ran.counts) == (1, {"error": 1})
    assert "reached without an approval gate (by n1 -> n3)" in ran.text


def test_every_case_is_valid_as_it_is_shipped(session: Session) -> None:
    ran = session("--evarness-unsigned", files={FILE: shipped("refund_desk")}, mirror=True)
    assert (ran.code, ran.holds) == (0, True), ran.text
    assert ran.predicate["verdict"]["valid"] == 7


def run(session: Session, scenario: dict[str, Any], files: Any = None) -> Ran:
    return session("--evarness-unsigned", files={FILE: scenario, **(files or {})})

"""What a session writes is what a verifier finds, whatever the files look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_evarness.cli import main
from tests.plugin.scenarios import gated

if TYPE_CHECKING:
    from tests.plugin.ran import Session

BODIES = [
    {"never": {"type": "tool_called", "where": {"tool": "email.send", "network": "none"}}},
    {"never": {"where": {"network": "none", "tool": "email.send"}, "type": "tool_called"}},
    {"eventually": {"type": "tool_called", "where": {"tool": "email.send", "args.query": "x"}}},
    {"at_most": {"n": 0, "of": {"type": "tool_called", "where": {"tool": "email.send"}}}},
    {
        "every": {
            "match": {"type": "tool_called"},
            "where": {
                "args.query": {"pattern": "r", "contains": "z", "length": {"lt": 3, "gt": 1}}
            },
        }
    },
    {
        "precedes": {
            "second": {
                "where": {"tool": "email.send", "network": "outbound"},
                "type": "tool_called",
            },
            "first": {"type": "tool_called", "where": {"tool": "email.search", "mode": "sim"}},
        }
    },
]


@pytest.mark.parametrize("body", BODIES)
def test_a_bundle_verifies_whatever_the_order_of_keys_in_a_contract(
    session: Session, body: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = gated(
        invariants={
            "odd": {"description": "d", "gate": True, "check": {"type": "trace", "assert": body}}
        }
    )
    ran = session(files={"scenarios/gated.yaml": scenario})
    key = next(ran.root.rglob("signing.pem.pub"))
    code = main(["verify", str(ran.root / ".evarness/proof.json"), "--key", str(key)])
    said = capsys.readouterr().out
    assert "NOT GENUINE" not in said, said
    assert code == (0 if ran.predicate["verdict"]["holds"] else 1), said

"""What a session writes is what a verifier finds, whatever the files look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_evarness.cli import main
from tests.plugin.scenarios import echo, gated, step_graph

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

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


STEPS = """
import os
import sys


def pid(inputs, config, context):
    return str(os.getpid())


def maybe(inputs, config, context):
    if os.path.exists(os.path.join(os.path.dirname(__file__), "leave.flag")):
        sys.exit(0)
    return "x"
"""


def rerun(ran: Ran) -> list[str]:
    key = next(ran.root.rglob("signing.pem.pub"))
    bundle = str(ran.root / ".evarness/proof.json")
    return ["verify", bundle, "--key", str(key), "--rerun", "--allow-code"]


@pytest.mark.slow
def test_a_bundle_that_says_it_did_not_reproduce_is_genuine_all_the_same(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = echo(subject={"graph": step_graph("evarness_bundle_a:pid")})
    files = {"evarness_bundle_a.py": STEPS, "scenarios/s.yaml": scenario}
    ran = session(files=files, mirror=True)
    assert ran.findings("scenarios/s.yaml::default")["reproduces"] == "fail"
    assert main(rerun(ran)) == 1
    said = capsys.readouterr().out
    assert "NOT GENUINE" not in said
    assert "did not reproduce for its producer either" in said


def test_code_that_exits_while_a_bundle_is_run_again_is_not_what_verification_found(
    session: Session,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    pytester: pytest.Pytester,
) -> None:
    monkeypatch.syspath_prepend(str(pytester.path))
    scenario = echo(subject={"graph": step_graph("evarness_bundle_b:maybe")})
    files = {"evarness_bundle_b.py": STEPS, "scenarios/s.yaml": scenario}
    ran = session(files=files)
    assert ran.code == 0, ran.text
    assert main(rerun(ran)) == 0, "the twin: it does not exit, and all is well"
    (ran.root / "leave.flag").touch()
    capsys.readouterr()
    assert main(rerun(ran)) == 1
    assert "a node tried to end the process (SystemExit(0))" in capsys.readouterr().out

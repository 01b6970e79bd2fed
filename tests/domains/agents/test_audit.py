"""The audit log holds what its sink was asked to ship, and its digest commits to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.core.c1 import sha256_text
from pytest_evarness.domains.agents.node import audit
from pytest_evarness.domains.agents.vocabulary import GOVERNANCE
from tests.domains.agents import harness as h

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_evarness.core.run import Run


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


# -- the log itself ------------------------------------------------------------------------------

WHOLE = h.REPOSITORY / "scenarios" / "checks" / "audit_is_whole.py"


def judged(root: Path, *, blocked: bool = False, **environment: Any) -> Any:
    """A case with two sinks; a script compares their logs with what the trace commits to."""
    from pytest_evarness.api import Runner
    from pytest_evarness.pipeline import Settings

    (root / "whole.py").write_text(WHOLE.read_text("utf-8"), "utf-8")
    graph = h.chain(
        ("input", {}),
        ("audit_log_sink", {"include": "full"}),
        ("interceptor", {"chain": ["policy_check"]}),
        ("audit_log_sink", {}),
        ("output", {}),
    )
    graph["nodes"][3]["id"] = "../n4"  # no name of a file
    graph["edges"][2:] = [{"from": "n3", "to": "../n4"}, {"from": "../n4", "to": "n5"}]
    if blocked:
        environment["faults"] = {"blocklist": ["Hello"]}
    scenario: dict[str, Any] = {
        "evarness": 1,
        "id": "s",
        "mode": "diagnostic" if blocked else "release",
        "subject": {"graph": graph},
        "environment": environment,
        "expect": {"status": "blocked" if blocked else "completed"},
        "invariants": {
            "whole": {
                "description": "The logs are those of the trace",
                "check": {"type": "custom", "script": "whole.py"},
            },
            "outside": {
                "description": "No check of files meets a log",
                "check": {"type": "file_absent", "glob": "**/*.jsonl"},
            },
        },
    }
    if "workspace" not in environment:
        del scenario["invariants"]["outside"]
    runner = Runner(Settings(root=root, home=None, rerun="inline", diagnose=blocked))
    try:
        return runner.run(scenario, "default")
    finally:
        runner.close()


def test_the_log_lies_beside_the_workspace(tmp_path: Path) -> None:
    result = judged(tmp_path, workspace={"files": {"a.txt": "x"}})
    assert (result.verdict, result.status) == ("valid", "completed")
    assert result.finding("whole").reason.endswith("as in the trace")
    assert result.finding("outside").outcome.word == "pass"


def test_the_digest_does_not_depend_on_whether_there_is_a_world(tmp_path: Path) -> None:
    with_world = judged(tmp_path, workspace={"files": {"a.txt": "x"}})
    without = judged(tmp_path)

    def digests(result: Any) -> list[str]:
        return [
            event.payload["digest"]
            for event in result.outcome.run_a.events
            if event.type == "audit_flushed"
        ]

    assert digests(with_world) == digests(without)
    # Where nothing of a world is declared there is no place beside it, and the script says so.
    assert "shipped no log" in without.finding("whole").reason


def test_a_run_that_is_observed_behind_a_block_ships_nothing_more(tmp_path: Path) -> None:
    result = judged(tmp_path, blocked=True, workspace={"files": {"a.txt": "x"}})
    assert result.finding("whole").reason.endswith("../n4 shipped no log")
    assert result.finding("whole").outcome.word == "fail"
    kinds = [event.type for event in result.outcome.run_a.events]
    assert kinds.count("audit_flushed") == 2


def test_a_log_has_a_bound_and_says_what_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = h.payload(audited(include="full"), "audit_flushed")
    monkeypatch.setattr(audit, "MAX_CHARACTERS", 400)
    cut = h.payload(audited(include="full"), "audit_flushed")
    assert "dropped" not in whole
    assert cut["dropped"] == whole["events_shipped"] - cut["events_shipped"] > 0
    assert cut["events_shipped"] > 0


# -- what was redacted -----------------------------------------------------------------------------

DATA = "ada@example.org, 078-05-1120, 555-123-4567, 4111 1111 1111 1111"
SPELT = "Ada@Example.org 078051120 (555) 123-4567 4111-1111-1111-1111 bob@example.org"


@pytest.mark.parametrize("include", ["full", "governance"])
@pytest.mark.parametrize("is_redacted", [True, False])
def test_what_was_redacted_does_not_come_back_in_the_log(
    include: str, is_redacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs: list[str] = []

    def digest(log: str) -> str:
        logs.append(log)
        return sha256_text(log)

    monkeypatch.setattr(audit, "digest_of_text", digest)
    kind = "redaction_rules" if is_redacted else "policy_gate"
    redaction: tuple[str, dict[str, Any]] = (kind, {})
    sink = ("audit_log_sink", {"include": include})
    graph = h.chain(("input", {}), ("tool", {"tool": "email.search"}), redaction, sink)
    graph["edges"][1] = {"from": "n1", "to": "n3"}
    answer = [{"result": [{"id": "a", "text": SPELT, "amount": 4111111111111111}]}]
    run = h.run(graph, {"user_input": DATA, "tools": {"email.search": answer}})
    (log,) = logs
    masked = sum("[EMAIL]" in line for line in log.splitlines())
    # The call tells the query in both logs, the full one also the input, twice, and the answer.
    assert masked == (0 if not is_redacted else 4 if include == "full" else 1)
    flushed = h.payload(run, "audit_flushed")
    assert flushed.get("masked", 0) == masked
    assert flushed["digest"] == sha256_text(log)
    whole = [*DATA.split(", "), "Ada@Example.org", "078051120", "4111-1111", "4111111111111111"]
    assert any(datum in log for datum in whole) is not is_redacted
    assert ("bob@example.org" in log) is (include == "full")

"""Libraries in a session: corpora are items, what fails its corpus judges nothing, and a library
that changes meanwhile changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.verify import Options, verify_bundle
from pytest_evarness.core.registry import packaged_registry
from tests.plugin.scenarios import echo, gated, write

if TYPE_CHECKING:
    from tests.plugin.ran import Ran, Session

GRANTED = {"type": "approval_granted", "node": "n3", "artifact_digest": "d1"}
SENT = {"type": "tool_called", "node": "n4", "tool": "email.send", "args_digest": "d1"}
ENDS: dict[str, Any] = {
    "owner": "governance",
    "rationale": "It ends.",
    "assert": {"eventually": {"type": "run_finished"}},
    "corpus": {
        "positive": {"ends": [{"type": "run_finished"}]},
        "negative": {"fails": [{"type": "run_failed"}]},
        "missing_evidence": {"goes-on": {"events": [{"type": "run_started"}], "open": True}},
    },
}
APPROVED: dict[str, Any] = {
    "owner": "governance",
    "rationale": "Nobody's mailbox speaks without that person's word.",
    "severity": "critical",
    "applies_to": {"tools": ["email.send"]},
    "assert": {
        "precedes": {
            "first": {"type": "approval_granted", "where": {"artifact_digest": "$d"}},
            "second": {
                "type": "tool_called",
                "where": {"tool": "email.send"},
                "bind": {"d": "args_digest"},
            },
            "fresh": True,
        }
    },
    "corpus": {
        "positive": {"approved": [GRANTED, SENT]},
        "negative": {"swapped-draft": [GRANTED, {**SENT, "args_digest": "d2"}]},
        "missing_evidence": {"goes-on": {"events": [GRANTED], "open": True}},
        "adversarial": {"late": {"events": [SENT, GRANTED], "expect": "fail"}},
    },
}

NEVER_SENT: dict[str, Any] = {
    "owner": "governance",
    "rationale": "Nothing is sent here.",
    "applies_to": {"tools": ["email.send"]},
    "assert": {"never": {"type": "tool_called", "where": {"tool": "email.send"}}},
    "corpus": {
        "positive": {"quiet": [{"type": "tool_called", "node": "n", "tool": "docs.search"}]},
        "negative": {"sent": [SENT]},
        "missing_evidence": {"goes-on": {"events": [], "open": True}},
    },
}


def library(**contracts: Any) -> dict[str, Any]:
    return {"contracts": contracts}


def changed(contract: dict[str, Any], **more: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(contract))
    return {**copy, **more}


def wrong(contract: dict[str, Any]) -> dict[str, Any]:
    """With a negative entry that its contract passes."""
    copy = changed(contract)
    copy["corpus"]["negative"] = {"not-really": copy["corpus"]["positive"].popitem()[1]}
    copy["corpus"]["positive"] = {"p": copy["corpus"]["negative"]["not-really"]}
    return copy


def finding(ran: Ran, name: str, case: str | None = None) -> dict[str, Any]:
    """The finding of one item of a case; of the first case where none is named."""
    cases = ran.predicate["cases"]
    found = next(one for one in cases if case is None or one["nodeid"] == case)
    findings = found["replicas"][0]["findings"]
    return next(one for one in findings if one["id"] == name)


def item(ran: Ran, name: str, case: str | None = None) -> dict[str, Any]:
    """The planned item, likewise."""
    found = next(one for one in ran.plan if case is None or one["nodeid"] == case)
    return next(one for one in found["items"] if one["id"] == name)


def verify(ran: Ran) -> None:
    """What the bundle says of applicability follows from what it encloses."""
    data = (ran.root / ".evarness" / "proof.json").read_bytes()
    report = verify_bundle(data, options=Options(), registry=packaged_registry())
    assert report.result == "unknown_origin", report


# -- corpora are items ---------------------------------------------------------------------------


def test_each_entry_is_an_item(session: Session) -> None:
    files = {"contracts/approval.yaml": library(**{"approved-is-sent": APPROVED})}
    ran = session("contracts", "-v", files=files)
    assert (ran.code, ran.counts) == (0, {"passed": 4}), ran.text
    assert "contracts/approval.yaml::approved-is-sent::negative[swapped-draft] PASSED" in ran.text
    one = session("contracts/approval.yaml::approved-is-sent::negative[swapped-draft]")
    assert (one.code, one.counts) == (0, {"passed": 1})


def test_an_entry_that_comes_out_otherwise_fails_with_its_place(session: Session) -> None:
    ran = session("contracts", files={"contracts/a.yaml": library(ends=wrong(ENDS))})
    assert (ran.code, ran.counts) == (1, {"failed": 1, "passed": 2}), ran.text
    assert "negative[not-really] gave pass, fail is needed" in ran.text
    assert "until this is put right the contract judges nothing" in ran.text
    assert "contract: ends@1 (contracts/a.yaml:" in ran.text


def test_items_are_found_by_mark_and_by_keyword(session: Session) -> None:
    files = {"contracts/a.yaml": library(ends=ENDS, sent=APPROVED)}
    assert session("contracts", "-m", "evarness", files=files).counts == {"passed": 7}
    by_id = session("contracts", "-m", "evarness_contract(id='sent')")
    assert by_id.counts == {"passed": 4, "deselected": 3}
    assert session("contracts", "-k", "swapped").counts == {"passed": 1, "deselected": 6}
    assert session("contracts", "-m", "gate").counts == {"deselected": 7}


def test_what_is_collected_is_shown_and_runs_nothing(session: Session) -> None:
    files = {
        "contracts/a.yaml": library(sent=APPROVED),
        "scenarios/gated.yaml": gated(),
    }
    ran = session("--collect-only", "-q", files=files)
    assert "contracts/a.yaml::sent::adversarial[late]" in ran.text
    assert "scenarios/gated.yaml::approve::sent" in ran.text
    assert not (ran.root / ".evarness").exists()


def test_a_broken_library_is_one_item(session: Session) -> None:
    files = {"contracts/a.yaml": library(ends=ENDS, x=changed(ENDS, titel="x"))}
    ran = session("contracts", files=files)
    assert (ran.code, ran.counts) == (1, {"error": 1}), ran.text
    assert "unknown key (got 'titel'" in ran.text


def test_a_library_outside_the_folders_needs_no_corpus_and_has_its_items(session: Session) -> None:
    bare = {key: value for key, value in ENDS.items() if key != "corpus"}
    files = {"other/a.yaml": library(ends=ENDS, bare=bare)}
    assert session("other/a.yaml", files=files).counts == {"passed": 3}
    files = {"contracts/a.yaml": library(bare=bare)}
    assert session("contracts/a.yaml", files=files).counts == {"error": 1}


def test_entries_are_the_same_items_in_workers(session: Session) -> None:
    files = {
        "contracts/a.yaml": library(sent=APPROVED, bad=wrong(ENDS)),
        "scenarios/gated.yaml": gated(),
    }
    ran = session("-n", "2", files=files, subprocess=True)
    alone = session()
    assert ran.counts == alone.counts
    assert (ran.code, alone.code) == (1, 1)
    corpora = [one.predicate["seal"]["corpora"] for one in (ran, alone)]
    assert corpora[0] == corpora[1]


# -- a contract that fails its corpus judges nothing ---------------------------------------------


@pytest.mark.parametrize("words", [(), ("scenarios",)])
def test_a_contract_that_fails_its_corpus_judges_nothing(
    session: Session, words: tuple[str, ...]
) -> None:
    scenario = echo(invariants={"ends": {}})
    files = {"contracts/a.yaml": library(ends=wrong(ENDS)), "scenarios/a.yaml": scenario}
    ran = session(*words, files=files)
    assert ran.code == 1, ran.text
    found = finding(ran, "ends")
    assert (found["outcome"], found["causes"]) == ("indeterminate", ["evaluator_error"])
    assert "it fails its own corpus, so it judges nothing" in found["reason"]
    assert ran.holds is None
    (row,) = ran.predicate["seal"]["corpora"]
    assert (row["id"], row["failed"]) == ("ends", ["negative[not-really]"])
    assert any("fails its own corpus" in text for text in ran.predicate["not_proven"])
    # The twin: with a corpus that it passes, it judges.
    good = session(*words, files={"contracts/a.yaml": library(ends=ENDS)})
    assert (good.code, finding(good, "ends")["outcome"], good.holds) == (0, "pass", True)


@pytest.mark.parametrize(
    "more", [{"mode": "exploratory"}, {"scoring": {"pass_threshold": 0.5}}], ids=["mode", "weight"]
)
def test_it_fails_the_session_where_it_would_not_decide_either(
    session: Session, more: dict[str, Any]
) -> None:
    held = {
        "description": "it ends",
        "check": {"type": "trace", "assert": {"eventually": {"type": "run_finished"}}},
    }
    scenario = echo(invariants={"ends": {}, "held": held}, **more)
    soft = changed(ENDS, gate=False)
    files = {"contracts/a.yaml": library(ends=wrong(soft)), "scenarios/a.yaml": scenario}
    ran = session("scenarios", files=files)
    assert ran.code == 1
    assert "evarness: 1 contract fails its own corpus, and judged nothing: ends@1" in ran.text
    assert ran.holds is None
    assert session("scenarios", files={"contracts/a.yaml": library(ends=soft)}).code == 0


def test_a_packaged_contract_is_tried_where_it_judges(session: Session) -> None:
    ran = session(files={"scenarios/gated.yaml": gated()})
    tried = {row["id"]: row for row in ran.predicate["seal"]["corpora"]}
    assert tried["approval-precedes-send"]["failed"] == []
    assert tried["approval-precedes-send"]["entries"] > 8
    assert "panel-quorate" not in tried
    untested = {row["id"]: row["untested"] for row in ran.predicate["seal"]["contracts"]}
    assert untested["approval-precedes-send"] is False


# -- which cases a contract is for ---------------------------------------------------------------


def test_a_contract_that_nobody_names_judges_the_cases_it_is_for(session: Session) -> None:
    files = {
        "contracts/a.yaml": library(sent=APPROVED),
        "scenarios/gated.yaml": gated(),
        "scenarios/echo.yaml": echo(),
    }
    ran = session("-v", files=files)
    assert ran.code == 0, ran.text
    assert "scenarios/gated.yaml::approve::sent PASSED" in ran.text
    assert "scenarios/echo.yaml::default::sent" not in ran.text
    planned = item(ran, "sent", case="scenarios/gated.yaml::approve")
    assert planned["because"] == "pulled in by its library; it applies to: tools email.send"
    assert (planned["path"], planned["gate"]) == ("contracts/a.yaml", True)
    verify(ran)


def test_it_fails_the_case_that_breaks_it(session: Session) -> None:
    never = changed(ENDS, applies_to={"tags": ["governance"]})
    never["assert"] = {"never": {"type": "run_finished"}}
    never["corpus"] = {
        "positive": {"fails": [{"type": "run_failed"}]},
        "negative": {"ends": [{"type": "run_finished"}]},
        "missing_evidence": {"goes-on": {"events": [], "open": True}},
    }
    files = {"contracts/a.yaml": library(never=never), "scenarios/gated.yaml": gated()}
    ran = session(files=files)
    assert ran.code == 1
    assert finding(ran, "never", case="scenarios/gated.yaml::approve")["outcome"] == "fail"
    never["applies_to"] = {"tags": ["another"]}
    assert session(files={"contracts/a.yaml": library(never=never)}).code == 0


def test_one_that_is_named_and_not_for_the_case_passes_vacuously_and_says_why(
    session: Session,
) -> None:
    scenario = echo(invariants={"sent": {}})
    files = {"contracts/a.yaml": library(sent=APPROVED), "scenarios/a.yaml": scenario}
    ran = session(files=files)
    found = finding(ran, "sent")
    assert (found["outcome"], found["vacuous"]) == ("pass", True)
    assert found["reason"] == (
        "does not apply: applies_to asks for the tool 'email.send' (tools of the graph: none)"
    )
    assert "'sent' applied in no case of this session" in ran.predicate["not_proven"]
    verify(ran)


def test_a_contract_of_the_graph_that_is_not_for_the_case_asserts_nothing(
    session: Session,
) -> None:
    graph: dict[str, Any] = {
        "id": "g",
        "nodes": [{"id": "n1", "type": "input"}, {"id": "n2", "type": "output"}],
        "edges": [{"from": "n1", "to": "n2"}],
        "params": {"invariants": ["redaction-precedes-model"]},
    }
    scenario = {"evarness": 1, "subject": {"graph": graph}}
    ran = session(files={"scenarios/a.yaml": scenario})
    assert ran.code == 1
    assert "case 'default' asserts nothing" in ran.text


def test_the_mode_in_force_decides_and_not_the_one_that_is_written(session: Session) -> None:
    contract = changed(ENDS, applies_to={"modes": ["exploratory"]})
    files = {"contracts/a.yaml": library(ends=contract), "scenarios/a.yaml": echo()}
    ran = session("scenarios", files=files)
    assert not any(one["id"] == "ends" for one in ran.predicate["seal"]["plan"][0]["items"])
    ran = session("scenarios", "--evarness-mode=exploratory")
    assert item(ran, "ends")["because"].endswith("it applies to: modes exploratory")
    verify(ran)


def test_cases_of_an_entry_take_nothing_away_from_a_library(session: Session) -> None:
    files = {
        "contracts/a.yaml": library(sent=APPROVED),
        "scenarios/gated.yaml": gated(invariants={"sent": {"cases": ["approve"]}}),
    }
    ran = session(files=files)
    because = {
        case: item(ran, "sent", case=f"scenarios/gated.yaml::{case}")["because"].split(";")[0]
        for case in ("approve", "reject")
    }
    assert because == {"approve": "named by the scenario", "reject": "pulled in by its library"}
    verify(ran)


def test_deprecated_is_judged_where_it_is_named_and_warns(session: Session) -> None:
    old = changed(ENDS, status="deprecated", applies_to={"always": True})
    files = {"contracts/a.yaml": library(ends=old), "scenarios/a.yaml": echo()}
    ran = session("scenarios", files=files)
    assert not any(one["id"] == "ends" for one in ran.predicate["seal"]["plan"][0]["items"])
    ran = session("scenarios", files={"scenarios/a.yaml": echo(invariants={"ends": {}})})
    assert finding(ran, "ends")["outcome"] == "pass"
    assert "warning: contract 'ends' is deprecated" in ran.text


def test_a_draft_is_shown_and_decides_nothing(session: Session) -> None:
    draft = changed(ENDS, status="draft", applies_to={"always": True})
    draft["assert"] = {"never": {"type": "run_finished"}}
    del draft["corpus"]
    files = {"contracts/a.yaml": library(ends=draft), "scenarios/a.yaml": echo()}
    ran = session("scenarios", files=files)
    assert (ran.code, ran.holds) == (0, True)
    assert finding(ran, "ends")["outcome"] == "fail"
    assert ran.counts["missed"] == 1
    draft["gate"] = True
    ran = session("scenarios", files={"contracts/a.yaml": library(ends=draft)})
    assert ran.code == 1
    assert "a draft never decides, so it is no gate" in ran.text


# -- overrides -----------------------------------------------------------------------------------


def test_an_override_is_listed_in_the_bundle(session: Session) -> None:
    second = changed(ENDS, version=2, overrides="run-completes@1")
    second["assert"] = {"eventually": {"type": "run_finished", "where": {"events": {"gte": 1}}}}
    second["corpus"]["positive"] = {"ends": [{"type": "run_finished", "events": 2}]}
    files = {
        "contracts/a.yaml": library(**{"run-completes": second}),
        "scenarios/a.yaml": echo(invariants={"run-completes": {}}),
    }
    ran = session(files=files)
    assert ran.code == 0, ran.text
    (row,) = ran.predicate["seal"]["overrides"]
    assert (row["id"], row["version"], row["replaced_version"]) == ("run-completes", 2, 1)
    assert (row["origin"], row["replaced_origin"]) == ("contracts/a.yaml", "packaged/run.yaml")
    said = "run-completes@2 (contracts/a.yaml) stands in the place of run-completes@1"
    assert any(text.startswith(said) for text in ran.predicate["not_proven"])
    verify(ran)
    del second["overrides"]
    ran = session(files={"contracts/a.yaml": library(**{"run-completes": second})})
    assert ran.code == 1
    assert "says something else than 'run-completes' in packaged/run.yaml" in ran.text


# -- what changes meanwhile ----------------------------------------------------------------------

MEDDLES = """
from pathlib import Path


def soften(inputs, config, context):
    Path({path!r}).write_text({text!r}, encoding="utf-8")
    return {{"out": "done"}}
"""


def meddling(path: Path, text: str) -> dict[str, Any]:
    node = {"id": "n2", "type": "python", "config": {"callable": "evarness_meddler:soften"}}
    graph = echo()["subject"]["graph"]
    graph["nodes"] = [graph["nodes"][0], node, {"id": "n3", "type": "output"}]
    graph["edges"] = [{"from": "n1", "to": "n2"}, {"from": "n2", "to": "n3"}]
    return {
        "evarness_meddler.py": MEDDLES.format(path=str(path), text=text),
        "scenarios/a.yaml": echo(subject={"graph": graph}, invariants={"ends": {}}),
    }


@pytest.mark.parametrize("meddles", [True, False])
def test_a_library_that_changes_during_the_session_changes_nothing_and_is_reported(
    session: Session, pytester: pytest.Pytester, meddles: bool
) -> None:
    never = changed(ENDS)
    never["assert"] = {"never": {"type": "run_finished"}}
    never["corpus"] = {
        "positive": {"fails": [{"type": "run_failed"}]},
        "negative": {"ends": [{"type": "run_finished"}]},
        "missing_evidence": {"goes-on": {"events": [], "open": True}},
    }
    path = pytester.path / "contracts" / "a.yaml"
    sealed = json.dumps(library(ends=never), indent=1)
    soft = json.dumps(library(ends=ENDS)) if meddles else sealed
    write(path, library(ends=never))
    ran = session("scenarios", files=meddling(path, soft), mirror=True)
    assert path.read_text(encoding="utf-8") == soft
    assert finding(ran, "ends")["outcome"] == "fail"
    said = "a library on disk is not what was sealed, and what was sealed judged: "
    assert (f"{said}contracts/a.yaml: changed" in ran.text) is meddles
    assert (f"{said}contracts/a.yaml: changed" in ran.predicate["not_proven"]) is meddles
    assert ran.predicate["changed"] == (["contracts/a.yaml: changed"] if meddles else [])
    verify(ran)


# -- a slice joins a library -----------------------------------------------------------------------


def test_a_slice_joins_the_corpus_of_its_library(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    """What broke once is judged before every later session."""
    from pytest_evarness.cli import main

    files = {
        "contracts/a.yaml": library(**{"never-sent": NEVER_SENT}),
        "scenarios/s.yaml": gated(),
    }
    ran = session("scenarios", files=files)
    target = "scenarios/s.yaml::approve::never-sent"
    assert finding(ran, "never-sent", "scenarios/s.yaml::approve")["outcome"] == "fail", ran.text
    capsys.readouterr()
    assert main(["slice", str(ran.root / ".evarness/proof.json"), target, "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)["entry"]
    kind, name = entry.pop("kind"), entry.pop("name")
    assert [list(event) for event in entry["events"]] == [["type", "node", "tool"]]

    joined = changed(NEVER_SENT)
    joined["corpus"][kind][name] = entry
    ran = session("contracts", "-v", files={"contracts/a.yaml": library(**{"never-sent": joined})})
    assert (ran.code, ran.counts) == (0, {"passed": 4}), ran.text
    item = f"contracts/a.yaml::never-sent::negative[{name}]"
    assert f"{item} PASSED" in ran.text
    # The twin: without the one field that was kept it is no violation, and the item says so.
    del entry["events"][0]["tool"]
    ran = session("contracts", files={"contracts/a.yaml": library(**{"never-sent": joined})})
    assert (ran.code, ran.counts) == (1, {"failed": 1, "passed": 3}), ran.text
    assert f"negative[{name}] gave pass, fail is needed" in ran.text

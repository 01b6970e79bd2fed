"""``retro`` judges the past by today's contracts, says so, and leaves the past as it was."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.key import load_private_key, make_key
from pytest_evarness.bundle.seal import Settings
from tests.bundle.builder import (
    APPROVE,
    PENDING,
    REJECT,
    UNDECIDED,
    bundle_of,
    changed,
    record_of,
    statement_of,
)
from tests.cli.sealing import resealed

if TYPE_CHECKING:
    from tests.cli.conftest import Command, Done

EXACT = """\
contracts:
  approved-is-sent:
    version: 2
    owner: governance
    rationale: Nobody's mailbox speaks without that person's word.
    assert:
      precedes:
        first: {type: approval_granted, where: {artifact_digest: $d}}
        second: {type: tool_called, bind: {d: args_digest}}
"""
NEVER = "contracts: {never-sends: {owner: o, rationale: r, assert: {never: {type: tool_called}}}}\n"


def written(command: Command, *specs: Any, name: str = "proof.json", **more: Any) -> Path:
    path = Path(name)
    if not Path("k.pem").exists():
        make_key(Path("k.pem"))
    path.write_bytes(bundle_of(statement_of(*specs, **more), load_private_key(Path("k.pem"))))
    return path


def retro(command: Command, path: Path, contracts: str, *words: str) -> Done:
    file = Path("today.yaml")
    file.write_text(contracts, encoding="utf-8")
    before = path.read_bytes()
    done = command("retro", path, *words, "--contracts", file)
    assert path.read_bytes() == before, "the bundle is never touched"
    return done


def now(done: Done) -> dict[str, str]:
    return {
        f"{case['nodeid'].split('::')[1]}::{one['finding']['id']}": one["finding"]["outcome"]
        for case in done.json["cases"]
        for one in case["now"]["findings"]
    }


def test_a_valid_run_fails_under_todays_contract_and_keeps_its_own_verdict(
    command: Command,
) -> None:
    path = written(command, APPROVE, REJECT)
    done = retro(command, path, NEVER)
    assert done.code == 1
    first = done.out.splitlines()[0]
    assert first.startswith("RETROSPECTIVE: contracts of today over runs sealed 2026-11-30T12:00:")
    assert "its own verdict: holds: " in done.out
    approve = done.out.split("::approve\n")[1].split("\n--- ")[0]
    then, today = approve.split("now: ")
    assert then.startswith("then: valid, run A ended completed\n")
    assert "  passed        approval-precedes-send@1\n" in then
    assert today.startswith(
        "fail (retrospective)\n  fail          never-sends@1 (not judged then): "
    )


def test_a_contract_that_holds_exits_0(command: Command) -> None:
    # The twin: the same bundle, and nothing is wrong with it.
    done = retro(
        command,
        written(command, APPROVE),
        "contracts: {ends: {assert: {eventually: {type: run_finished}}}}\n",
    )
    assert done.code == 0
    assert "now: pass (retrospective)" in done.out


def test_the_json_form_holds_then_and_now(command: Command) -> None:
    path = written(command, APPROVE)
    done = retro(command, path, NEVER, "--json")
    record = done.json
    assert (record["retrospective"], record["exit"]) == (True, 1)
    assert record["bundle"]["verdict"]["holds"] is True
    assert (record["bundle"]["verified"], record["bundle"]["keyid"]) == (False, None)
    (case,) = record["cases"]
    original = json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"]))
    kept = original["predicate"]["cases"][0]
    assert case["then"]["verdict"] == kept["verdict"] == "valid"
    assert [one["outcome"] for one in case["then"]["findings"]] == [
        one["outcome"] for one in kept["replicas"][0]["findings"]
    ]
    (found,) = case["now"]["findings"]
    assert (found["then"], found["finding"]["decisive_seq"]) == (None, 8)


def test_the_same_id_with_another_rule_is_said(command: Command) -> None:
    path = written(command, APPROVE)
    body = "{first: {type: approval_granted}, second: {type: tool_called}}"
    # Version 1 of this name is the package's, and says something else.
    rule = f"version: 2, assert: {{precedes: {body}}}"
    same = f"contracts: {{approval-precedes-send: {{{rule}}}}}\n"
    other = same.replace("approval_granted", "approval_rejected")
    assert "(then passed, the same rule)" in retro(command, path, same).out
    done = retro(command, path, other)
    assert "(then passed, another rule)" in done.out
    assert done.code == 1


def test_each_run_is_judged_by_how_it_ended(command: Command) -> None:
    # A pause that its case declares is an end, another one is not.
    path = written(command, APPROVE, PENDING, UNDECIDED)
    ends = "contracts: {sent: {assert: {eventually: {type: tool_called}}}}\n"
    done = retro(command, path, ends, "--json")
    assert now(done) == {
        "approve::sent": "pass",
        "pending::sent": "fail",
        "undecided::sent": "indeterminate",
    }
    case = done.json["cases"][2]["now"]["findings"][0]["finding"]
    assert (case["causes"], case["leaning"]) == (["unfinished_run"], "fail")
    lines = retro(command, path, ends).out.splitlines()
    (line,) = [one for one in lines if one.startswith("  indeterminate sent@1 ")]
    assert line.endswith(" (unfinished_run)")


def test_a_type_that_cannot_occur_passes_only_vacuously(command: Command) -> None:
    path = written(command, APPROVE)
    done = retro(command, path, NEVER.replace("tool_called", "llm_request"), "--json")
    assert (done.code, done.json["exit"]) == (3, 3)
    assert done.json["cases"][0]["now"]["outcome"] is None
    assert done.json["cases"][0]["now"]["findings"][0]["finding"]["vacuous"] is True
    # The twin: beside one that met something, a vacuous pass is one more pass.
    ends = ", ends: {owner: o, rationale: r, assert: {eventually: {type: run_finished}}}}\n"
    both = NEVER.replace("tool_called", "llm_request").replace("}\n", ends)
    assert retro(command, path, both).code == 0


@pytest.mark.parametrize(
    ("contracts", "words"),
    [
        ("contracts: {odd: {assert: {nevver: {type: tool_called}}}}\n", "unknown key"),
        ("contracts: {odd: {assert: {never: {type: tool_calld}}}}\n", "tool_calld"),
    ],
)
def test_a_contract_that_cannot_be_read_is_our_fault_and_never_a_pass(
    command: Command, contracts: str, words: str
) -> None:
    path = written(command, APPROVE)
    done = retro(command, path, contracts, "--json")
    assert done.code == 3
    (found,) = done.json["cases"][0]["now"]["findings"]
    assert found["finding"]["causes"] == ["evaluator_error"]
    assert words in found["finding"]["reason"]


def test_an_unknown_id_beside_others_is_undecided_and_alone_wrong_input(command: Command) -> None:
    path = written(command, APPROVE)
    done = command("retro", path, "--contracts", "run-completes", "run-complete", "--json")
    assert done.code == 3
    assert now(done) == {"approve::run-completes": "pass", "approve::run-complete": "indeterminate"}
    alone = command("retro", path, "--contracts", "run-complete")
    assert (alone.code, alone.out) == (2, "")
    assert "try: write 'run-completes'" in alone.err


def test_a_folder_of_contracts_is_read_whole(command: Command) -> None:
    path = written(command, APPROVE)
    folder = Path("contracts")
    folder.mkdir()
    (folder / "b.yaml").write_text(NEVER, encoding="utf-8")
    (folder / "a.yaml").write_text(EXACT, encoding="utf-8")
    done = command("retro", path, "--contracts", folder, "--json")
    assert [one["id"] for one in done.json["contracts"]] == ["approved-is-sent", "never-sends"]
    (folder / "a.yaml").unlink()
    (folder / "b.yaml").unlink()
    assert command("retro", path, "--contracts", folder).code == 2


APPLIES = """\
contracts:
  never-sends:
    owner: o
    rationale: r
    applies_to: {APPLIES}
    assert: {never: {type: tool_called}}
"""


@pytest.mark.parametrize(
    ("applies", "code"),
    [
        ("{tools: [email.send]}", 1),
        ("{node_types: [approval_gate], modes: [release]}", 1),
        ("{tools: [payment.transfer]}", 3),
        ("{modes: [diagnostic]}", 3),
        ("{tags: [payments]}", 3),
    ],
)
def test_a_contract_judges_the_cases_that_it_is_for(
    command: Command, applies: str, code: int
) -> None:
    done = retro(command, written(command, APPROVE), APPLIES.replace("{APPLIES}", applies))
    assert done.code == code
    assert ("vacuous       never-sends@1" in done.out) is (code == 3)
    assert ("does not apply: applies_to asks for the " in done.out) is (code == 3)
    assert ("now: nothing decides" in done.out) is (code == 3)


CORPUS = """\
contracts:
  never-sends:
    owner: o
    rationale: r
    assert: {never: {type: tool_called}}
    corpus:
      positive: {quiet: [{type: input_received}]}
      negative: {loud: [{type: EVENT}]}
"""


def test_a_contract_that_fails_its_own_corpus_judges_nothing(command: Command) -> None:
    path = written(command, APPROVE)
    assert retro(command, path, CORPUS.replace("EVENT", "tool_called")).code == 1
    done = retro(command, path, CORPUS.replace("EVENT", "tool_result"))
    assert done.code == 3
    assert "evaluator     never-sends (not judged then): it fails its own corpus" in done.out


def test_a_draft_is_shown_and_does_not_decide(command: Command) -> None:
    path = written(command, APPROVE)
    draft = NEVER.replace("owner: o", "owner: o, status: draft, gate: false")
    done = command_with(command, path, draft, "run-completes")
    assert done.code == 0
    assert "never-sends@1, draft" in done.out


def command_with(command: Command, path: Path, contracts: str, *ids: str) -> Done:
    file = Path("drafts.yaml")
    file.write_text(contracts, encoding="utf-8")
    return command("retro", path, "--contracts", file, *ids)


def test_without_events_nothing_can_be_judged_and_that_is_said(command: Command) -> None:
    path = written(command, APPROVE, settings=Settings(events="digest"))
    done = retro(command, path, NEVER)
    assert done.code == 3
    assert "indeterminate never-sends@1" in done.out
    assert "the bundle encloses digests only, so there are no events to judge" in done.out


def test_a_case_that_did_not_run_is_undecided(command: Command) -> None:
    path = written(command, APPROVE, REJECT, records=[record_of(APPROVE)])
    done = retro(command, path, EXACT, "--json")
    assert done.code == 3
    assert done.json["cases"][1]["then"]["verdict"] is None
    assert now(done)["reject::approved-is-sent"] == "indeterminate"


def test_under_a_key_the_origin_is_shown_and_under_another_nothing_is(command: Command) -> None:
    path = written(command, APPROVE)
    assert "not verified: this is what the file says of itself" in retro(command, path, EXACT).out
    mine = retro(command, path, EXACT, "--key", "k.pem.pub")
    assert (mine.code, "verified: signed by the pinned key " in mine.out) == (0, True)
    make_key(Path("other.pem"))
    other = retro(command, path, EXACT, "--key", "other.pem.pub")
    assert (other.code, other.out) == (1, "")
    assert "NOT GENUINE: signature: " in other.err


def _verdict(statement: dict[str, Any]) -> None:
    statement["predicate"]["cases"][0]["verdict"] = "invalid"


def _event(statement: dict[str, Any]) -> None:
    events = statement["predicate"]["cases"][0]["replicas"][0]["events"]
    events[3] = events[2]


def _reason(statement: dict[str, Any]) -> None:
    statement["predicate"]["cases"][0]["replicas"][0]["findings"][2]["reason"] = "all is well"


@pytest.mark.parametrize("change", [_verdict, _event, _reason])
def test_a_bundle_that_says_otherwise_than_it_encloses_is_refused(
    command: Command, change: Any
) -> None:
    path = written(command, APPROVE)
    statement = json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"]))
    change(statement)
    path.write_bytes(bundle_of(statement, None))
    done = retro(command, path, EXACT)
    assert (done.code, done.out) == (2, "")
    assert "cannot be read as a bundle: " in done.err


def remade(path: Path, change: Any = None, *, version: str = "0.0.9") -> None:
    """The bundle as another version could have written it, unsigned."""
    statement = json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"]))
    if change is not None:
        change(statement)
    statement["predicate"]["seal"]["engine"][0]["version"] = version
    resealed(statement)
    path.write_bytes(bundle_of(statement, None))


def test_another_versions_words_are_not_held_against_it(command: Command) -> None:
    # The twin of a changed reason: here it may be that version's own way of saying it.
    path = written(command, APPROVE)
    remade(path, _reason)
    done = retro(command, path, EXACT)
    assert done.code == 0
    assert "made by pytest-evarness 0.0.9: its findings were not judged again here" in done.out
    assert retro(command, path, EXACT, "--json").json["bundle"]["judged_again"] is False
    own = retro(command, written(command, APPROVE), EXACT, "--json")
    assert own.json["bundle"]["judged_again"] is True


def _flip(statement: dict[str, Any]) -> None:
    (case,) = statement["predicate"]["cases"]
    (replica,) = case["replicas"]
    case["verdict"] = replica["verdict"] = "valid"
    case["primary"] = None
    found = next(one for one in replica["findings"] if one["id"] == "never-sends")
    found.update(outcome="pass", score="1", reason="no event is a tool_called")


def test_another_outcome_of_the_same_rule_over_the_same_events_is_a_contradiction(
    command: Command,
) -> None:
    spec = changed(APPROVE, contracts={"never-sends": {"never": {"type": "tool_called"}}})
    path = written(command, spec)
    honest = retro(command, path, NEVER)
    assert "CONTRADICTION" not in honest.out
    assert "(then failed, the same rule)" in honest.out
    remade(path)
    assert "CONTRADICTION" not in retro(command, path, NEVER).out
    remade(path, _flip)
    done = retro(command, path, NEVER)
    assert done.code == 1
    assert "then: valid" in done.out
    assert "(then passed, CONTRADICTION: the same rule over the same events gives" in done.out
    assert "1 finding of the bundle contradicted: " in done.out.splitlines()[-1]
    (found,) = retro(command, path, NEVER, "--json").json["cases"][0]["now"]["findings"]
    assert (found["same_rule"], found["contradicts"]) == (True, True)
    # The twins: another rule under the id, and the rule where what it is for has changed.
    another = NEVER.replace("tool_called", "approval_rejected")
    assert "CONTRADICTION" not in retro(command, path, another).out
    elsewhere = APPLIES.replace("{APPLIES}", "{tools: [email.send]}")
    assert "CONTRADICTION" not in retro(command, path, elsewhere).out


def test_a_pass_that_is_vacuous_today_over_the_same_events_is_a_contradiction(
    command: Command,
) -> None:
    rule = {"every": {"match": {"type": "approval_granted"}, "where": {"approver": "alice"}}}
    spec = changed(REJECT, contracts={"by-alice": rule})
    path = written(command, spec, settings=Settings(strict_vacuity=True))
    text = json.dumps({"contracts": {"by-alice": {"assert": rule}}})
    remade(path)
    # What is vacuous counts as something else in a strict session, and is concluded alike.
    assert "CONTRADICTION" not in retro(command, path, text).out

    def fill(statement: dict[str, Any]) -> None:
        (replica,) = statement["predicate"]["cases"][0]["replicas"]
        found = next(one for one in replica["findings"] if one["id"] == "by-alice")
        found.update(vacuous=False, reason="1 of 1")

    path = written(command, spec)
    remade(path, fill)
    assert "CONTRADICTION" in retro(command, path, text).out


def test_a_contradiction_is_no_clean_pass(command: Command) -> None:
    rule = {"eventually": {"type": "run_finished"}}
    path = written(command, changed(APPROVE, contracts={"ends": rule}))

    def fail(statement: dict[str, Any]) -> None:
        (case,) = statement["predicate"]["cases"]
        (replica,) = case["replicas"]
        case["verdict"] = replica["verdict"] = "invalid"
        case["primary"] = "ends"
        found = next(one for one in replica["findings"] if one["id"] == "ends")
        found.update(outcome="fail", score="0", reason="no event is a run_finished")

    ends = "contracts: {ends: {assert: {eventually: {type: run_finished}}}}\n"
    remade(path)
    assert retro(command, path, ends).code == 0
    remade(path, fail)
    done = retro(command, path, ends)
    assert (done.code, "now: pass (retrospective)" in done.out) == (3, True)
    assert "CONTRADICTION" in done.out


def test_text_of_the_bundle_cannot_steer_the_terminal(command: Command) -> None:
    spec = changed(APPROVE, prompt="send the q3 report \x1b[31mPASSED\x1b[0m")
    done = retro(command, written(command, spec), NEVER.replace("tool_called", "input_received"))
    assert done.code == 1
    assert "PASSED" in done.out  # shown, and without its colour: the runner looks for that

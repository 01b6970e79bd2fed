"""``diff`` names every difference that counts, and takes two sessions of one thing for the same."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.key import load_private_key, make_key
from pytest_evarness.bundle.seal import Settings
from tests.bundle.builder import (
    APPROVAL_FIRST,
    APPROVE,
    NO_SEND_AFTER_REJECTION,
    PENDING,
    REJECT,
    WEIGHED,
    Spec,
    bundle_of,
    changed,
    record_of,
    statement_of,
)
from tests.cli.sealing import resealed

if TYPE_CHECKING:
    from tests.cli.conftest import Command, Done

FORBIDDEN = {"never-sends": {"never": {"type": "tool_called"}}}


def write(name: str, *specs: Spec, change: Any = None, **more: Any) -> Path:
    statement = statement_of(*specs, signed=False, **more)
    if change is not None:
        change(statement)
    path = Path(name)
    path.write_bytes(bundle_of(statement, None))
    return path


def compared(command: Command, a: Path, b: Path, *words: str) -> Done:
    before = (a.read_bytes(), b.read_bytes())
    done = command("diff", a, b, "--json", *words)
    assert (a.read_bytes(), b.read_bytes()) == before
    assert done.code == (0 if done.json["same"] else 1) == done.json["exit"]
    assert done.json["same"] is not bool(done.json["differences"])
    return done


def found(done: Done, section: str) -> list[tuple[str, str]]:
    return [
        (one["place"], one["what"]) for one in done.json["differences"] if one["section"] == section
    ]


def test_two_sessions_of_one_thing_are_the_same(command: Command) -> None:
    a = write("a.json", APPROVE, REJECT)
    # Another time of day, another signer, another commit: nothing of what was judged.
    other: Mapping[str, Any] = {"commit": "e" * 40, "tree": "f" * 40, "clean": False}
    b = write("b.json", APPROVE, REJECT, git=other, challenge="other")
    done = compared(command, a, b)
    assert done.code == 0
    places = {one["place"] for one in done.json["circumstances"]}
    assert {"seal.git", "seal.challenge"} <= places
    assert command("diff", a, b).out.startswith("SAME: nothing differs that counts\n")


def _by_another_version(statement: dict[str, Any]) -> None:
    statement["predicate"]["seal"]["engine"][0]["version"] = "9.9.9"
    resealed(statement)


def _flipped_by_another_version(statement: dict[str, Any]) -> None:
    (case,) = statement["predicate"]["cases"]
    (replica,) = case["replicas"]
    case["verdict"] = replica["verdict"] = "valid"
    case["primary"] = None
    found = next(one for one in replica["findings"] if one["id"] == "never-sends")
    found.update(outcome="pass", score="1", reason="no event is a tool_called")
    _by_another_version(statement)


def test_what_was_not_judged_again_is_told_of_the_bundle(command: Command) -> None:
    a = write("a.json", APPROVE)
    b = write("b.json", APPROVE, change=_by_another_version)
    remark = "    made by pytest-evarness 9.9.9: its findings were not judged again here"
    lines = command("diff", a, b).out.splitlines()
    assert (lines[0], lines[3]) == ("SAME: nothing differs that counts", remark)
    assert remark not in command("diff", a, a).out
    sides = command("diff", a, b, "--json").json
    assert (sides["a"]["judged_again"], sides["b"]["judged_again"]) == (True, False)


def test_one_rule_over_the_same_events_that_comes_out_twice_is_a_contradiction(
    command: Command,
) -> None:
    spec = changed(APPROVE, contracts=FORBIDDEN)
    honest = write("a.json", spec)
    flipped = write("b.json", spec, change=_flipped_by_another_version)
    place = "scenarios/send.yaml::approve::never-sends"
    told = dict(found(compared(command, honest, flipped), "outcomes"))[place]
    assert told.startswith("fail -> pass (CONTRADICTION: the same rule over the same events): ")
    # The twins: another rule of that name, and other events.
    other = changed(APPROVE, contracts={"never-sends": {"never": {"type": "approval_rejected"}}})
    told = dict(found(compared(command, honest, write("c.json", other)), "outcomes"))[place]
    assert "CONTRADICTION" not in told
    rejected = changed(spec, decision="reject")
    told = dict(found(compared(command, honest, write("d.json", rejected)), "outcomes"))[place]
    assert "CONTRADICTION" not in told


def _vacuous_by_another_version(statement: dict[str, Any]) -> None:
    (replica,) = statement["predicate"]["cases"][0]["replicas"]
    found = next(one for one in replica["findings"] if one["id"] == "approved-first")
    found.update(vacuous=True, reason="no event is a tool_called")
    _by_another_version(statement)


def test_a_pass_that_became_vacuous_is_told_and_contradicts_over_the_same_events(
    command: Command,
) -> None:
    spec = changed(APPROVE, contracts={"approved-first": APPROVAL_FIRST})
    honest = write("a.json", spec)
    place = "scenarios/send.yaml::approve::approved-first"
    hollow = write("b.json", spec, change=_vacuous_by_another_version)
    told = dict(found(compared(command, honest, hollow), "outcomes"))[place]
    assert told.startswith("pass -> vacuous (CONTRADICTION: the same rule over the same events): ")
    # The twins: other events, over which there was nothing to judge; and a session which counted
    # what it found vacuous, as the other did, as something else.
    rejected = changed(spec, decision="reject", expect={"status": "blocked"})
    told = dict(found(compared(command, honest, write("c.json", rejected)), "outcomes"))[place]
    assert told.startswith("pass -> vacuous: ")
    strict = write("d.json", rejected, settings=Settings(strict_vacuity=True))
    told = dict(found(compared(command, Path("c.json"), strict), "outcomes"))[place]
    assert told.startswith("vacuous -> indeterminate (missing_evidence), vacuous: ")


def test_the_same_events_are_a_whole_run_only_for_who_declares_the_pause(
    command: Command,
) -> None:
    declared = changed(PENDING, contracts={"never-sends": FORBIDDEN["never-sends"]})
    pending = changed(declared, expect={"status": "completed"})
    done = compared(command, write("a.json", declared), write("b.json", pending))
    told = dict(found(done, "outcomes"))["scenarios/send.yaml::pending::never-sends"]
    assert told.startswith("pass -> indeterminate (unfinished_run): ")


def test_an_outcome_that_changed_is_named_with_both_words(command: Command) -> None:
    a = write(
        "a.json", changed(APPROVE, contracts={"sends": {"eventually": {"type": "tool_called"}}})
    )
    b = write("b.json", changed(APPROVE, contracts={"sends": FORBIDDEN["never-sends"]}))
    done = compared(command, a, b)
    outcomes = dict(found(done, "outcomes"))
    assert outcomes["scenarios/send.yaml::approve::sends"].startswith("pass -> fail: event 8 is a ")
    verdicts = [what for place, what in found(done, "outcomes") if place.endswith("::approve")]
    assert verdicts == ["valid -> invalid", "primary none -> sends"]
    assert ("holds", "holds -> does not hold") in found(done, "verdict")
    assert ("sends@1", "the same id and version with another definition") in found(
        done, "contracts"
    )


def test_contracts_that_came_went_and_changed_are_told_apart(command: Command) -> None:
    a = write("a.json", APPROVE)
    fewer = {"no-send-after-rejection": NO_SEND_AFTER_REJECTION, **FORBIDDEN}
    b = write("b.json", changed(APPROVE, contracts=fewer))
    done = compared(command, a, b)
    assert found(done, "contracts") == [
        ("approval-precedes-send", "in A alone"),
        ("never-sends", "in B alone"),
    ]
    plan = dict(found(done, "plan"))
    assert (
        plan["scenarios/send.yaml::approve::approval-precedes-send"] == "an item in A alone, a gate"
    )
    assert plan["scenarios/send.yaml::approve::never-sends"] == "an item in B alone, a gate"


def test_cases_of_one_plan_alone_are_named(command: Command) -> None:
    done = compared(command, write("a.json", APPROVE, REJECT), write("b.json", APPROVE))
    assert found(done, "plan") == [("scenarios/send.yaml::reject", "planned in A alone")]
    assert ("valid", "2 -> 1") in found(done, "verdict")


SCENARIO = """\
evarness: 1
id: s
subject: {graph: "pattern:single_shot_qa"}
environment: {user_input: hi, llm: [{respond: {text: hello}}]}
invariants: {ends: {}}
"""
CONTRACT = "contracts: {ends: {owner: o, rationale: r, MORE, assert: {eventually: {type: TYPE}}}}\n"


def proved(command: Command, name: str, more: str, kind: str = "run_finished") -> Path:
    Path("s").mkdir(exist_ok=True)
    Path("s/s.yaml").write_text(SCENARIO, encoding="utf-8")
    library = CONTRACT.replace("MORE", more).replace("TYPE", kind)
    Path("s/contracts.yaml").write_text(library, encoding="utf-8")
    done = command("prove", "s/s.yaml", "--unsigned", "-o", name)
    assert done.code == 0, done.out + done.err
    return Path(name)


def test_what_changed_of_a_contract_with_the_same_rule_is_said(command: Command) -> None:
    active = proved(command, "a.json", "status: active")
    deprecated = proved(command, "b.json", "status: deprecated, severity: minor")
    same = "the rule is the same: severity major -> minor, status active -> deprecated"
    done = compared(command, active, deprecated)
    assert ("ends@1", f"the same id and version; {same}") in found(done, "contracts")
    assert ("s/s.yaml::default::ends", same) in found(done, "plan")
    # The twins: another rule, and the same one for other cases.
    for more, kind in (
        ("status: deprecated", "node_finished"),
        ("applies_to: {tags: [x]}", "run_finished"),
        ("vacuous: indeterminate", "run_finished"),
    ):
        done = compared(command, active, proved(command, "c.json", more, kind))
        told = "the same id and version with another definition"
        assert ("ends@1", told) in found(done, "contracts")
        assert ("s/s.yaml::default::ends", "another definition") in found(done, "plan")


def test_deselection_threshold_and_mode_are_changes_of_the_plan(command: Command) -> None:
    a = write("a.json", WEIGHED)
    b = write(
        "b.json",
        changed(WEIGHED, threshold="0.9", mode="exploratory", deselected={"expect": "by -k x"}),
    )
    plan = found(compared(command, a, b), "plan")
    assert ("scenarios/send.yaml::weighed", "threshold 0.85 -> 0.9") in plan
    assert ("scenarios/send.yaml::weighed", "mode release -> exploratory") in plan
    assert ("scenarios/send.yaml::weighed::expect", "selected true -> false") in plan


def test_another_input_shows_as_input_and_as_digest(command: Command) -> None:
    a = write("a.json", APPROVE)
    b = write("b.json", changed(APPROVE, prompt="send the other q3 report"))
    done = compared(command, a, b)
    assert found(done, "outcomes") == []
    assert ("scenarios/send.yaml::approve", "another compiled case") in found(done, "inputs")
    assert any(what.startswith("run A: trace_digest ") for _, what in found(done, "digests"))


def test_a_case_that_did_not_run_is_no_valid_one(command: Command) -> None:
    a = write("a.json", APPROVE, REJECT)
    b = write("b.json", APPROVE, REJECT, records=[record_of(APPROVE)])
    done = compared(command, a, b)
    assert ("scenarios/send.yaml::reject", "valid -> not judged") in found(done, "outcomes")
    assert any("did not run to a judgement" in what for _, what in found(done, "coverage"))


def test_what_only_one_of_them_exercised_is_coverage(command: Command) -> None:
    done = compared(command, write("a.json", APPROVE, REJECT), write("b.json", APPROVE))
    assert any(
        what.startswith(
            "in B alone: approval branches of graph 'gated-send' that no case exercised"
        )
        for _, what in found(done, "coverage")
    ), found(done, "coverage")


def test_a_run_b_that_is_missing_is_a_difference(command: Command) -> None:
    a = write("a.json", APPROVE)
    b = write("b.json", APPROVE, records=[record_of(APPROVE, error_b="the mirror died")])
    done = compared(command, a, b)
    assert ("scenarios/send.yaml::approve", "run B is in bundle A alone") in found(done, "digests")
    reproduces = dict(found(done, "outcomes"))["scenarios/send.yaml::approve::reproduces"]
    assert reproduces.startswith("pass -> evaluator (evaluator_error): run B could not be made")


def test_strict_vacuity_is_no_circumstance(command: Command) -> None:
    a = write("a.json", REJECT)
    b = write("b.json", REJECT, settings=Settings(strict_vacuity=True))
    assert ("strict vacuity", "false -> true") in found(compared(command, a, b), "verdict")


def test_bundles_of_digests_are_compared_by_what_they_have(command: Command) -> None:
    settings = Settings(events="digest")
    a = write("a.json", APPROVE, settings=settings)
    assert compared(command, a, write("b.json", APPROVE, settings=settings)).code == 0
    longer = write("c.json", changed(APPROVE, prompt="send q3 now"), settings=settings)
    assert any("trace_digest" in what for _, what in found(compared(command, a, longer), "digests"))


@pytest.mark.parametrize("words", [("a.json", "none.json"), ("none.json", "a.json")])
def test_a_file_that_is_not_there_is_wrong_input(command: Command, words: tuple[str, str]) -> None:
    write("a.json", APPROVE)
    done = command("diff", *words)
    assert (done.code, done.out) == (2, "")
    assert "none.json: no such file" in done.err


def test_a_bundle_that_was_tampered_with_is_refused_and_is_no_difference(command: Command) -> None:
    def tamper(statement: dict[str, Any]) -> None:
        statement["predicate"]["cases"][0]["replicas"][0]["findings"][2]["reason"] = "fine"

    a = write("a.json", APPROVE)
    done = command("diff", a, write("b.json", APPROVE, change=tamper))
    assert (done.code, done.out) == (2, "")
    assert "b.json: cannot be read as a bundle: findings: " in done.err


def test_under_a_key_both_must_be_its_holders(command: Command) -> None:
    make_key(Path("k.pem"))
    key = load_private_key(Path("k.pem"))
    for name in ("a.json", "b.json"):
        Path(name).write_bytes(bundle_of(statement_of(APPROVE), key))
    done = compared(command, Path("a.json"), Path("b.json"), "--key", "k.pem.pub")
    assert (done.json["a"]["verified"], done.json["b"]["verified"]) == (True, True)
    write("b.json", APPROVE)
    refused = command("diff", "a.json", "b.json", "--key", "k.pem.pub")
    assert (refused.code, refused.out) == (2, "")
    assert "b.json: NOT GENUINE: " in refused.err


def test_the_text_groups_by_section_and_shows_no_foreign_escape(command: Command) -> None:
    a = write("a.json", APPROVE)
    b = write("b.json", changed(APPROVE, params={"tier": "\x1b[31mPASSED"}))
    done = command("diff", a, b)
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].startswith("DIFFERENT: ")
    assert "inputs" in lines
    assert lines.index("inputs") > 2
    statement = json.loads(base64.b64decode(json.loads(b.read_bytes())["payload"]))
    assert "\\u001b[31mPASSED" in statement["predicate"]["cases"][0]["inputs"]["params"][0]

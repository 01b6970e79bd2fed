"""A bundle is verified, refused or of unknown origin, and the step that decides is named."""

from __future__ import annotations

import base64
import copy
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.bundle.canonical import canonical_digest
from pytest_evarness.bundle.key import SigningKey, make_key
from pytest_evarness.bundle.reading import strict_json
from pytest_evarness.bundle.seal import Settings, binding_of, contract_rows
from pytest_evarness.bundle.summary import summarise
from pytest_evarness.bundle.verify import STEPS
from pytest_evarness.core import c1
from pytest_evarness.core.registry import Registry
from pytest_evarness.errors import UnverifiedError, UsageError
from tests.bundle.builder import (
    APPROVE,
    GRAPH,
    PENDING,
    REJECT,
    UNDECIDED,
    WEIGHED,
    Spec,
    bundle_of,
    changed,
    record_of,
    refused_by,
    statement_of,
    verified,
)

Statement = dict[str, Any]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_key(tmp_path_factory.mktemp("keys") / "key.pem")


@pytest.fixture(scope="module")
def attacker(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_key(tmp_path_factory.mktemp("keys") / "attacker.pem")


@pytest.fixture(scope="module")
def genuine() -> Statement:
    return statement_of(APPROVE, REJECT, PENDING)


def resealed(statement: Statement) -> Statement:
    """What a producer who holds the key can do: digests that follow are computed again."""
    statement = copy.deepcopy(statement)
    predicate = statement["predicate"]
    seal = predicate["seal"]
    seal["definitions"].sort(key=lambda row: row["digest"])
    seal["contracts"] = contract_rows(seal["plan"], seal["definitions"])
    seal["digest"] = canonical_digest({k: v for k, v in seal.items() if k != "digest"})
    statement["subject"][-1]["digest"]["sha256"] = seal["digest"].removeprefix("sha256:")
    for case in predicate["cases"]:
        for replica in case["replicas"]:
            for run in replica["runs"]:
                run["binding"] = binding_of(
                    seal["digest"], case["nodeid"], 0, run["label"], run["chain_digest"]
                )
    return statement


def with_events(statement: Statement, index: int, texts: list[str]) -> Statement:
    """Other events in both runs of a case, with every digest that follows from them."""
    statement = copy.deepcopy(statement)
    replica = statement["predicate"]["cases"][index]["replicas"][0]
    replica["events"] = texts
    for run in replica["runs"]:
        run["events"] = len(texts)
        run["trace_digest"], run["chain_digest"] = c1.digests(texts)
    return resealed(statement)


# -- what is genuine ----------------------------------------------------------------------------


def test_a_genuine_bundle_with_its_key_pinned_is_verified(
    genuine: Statement, key: SigningKey
) -> None:
    report = verified(bundle_of(genuine, key), key.public)
    assert (report.result, report.exit) == ("holds", 0)
    assert report.keyid == key.keyid
    assert [step.step for step in report.steps] == list(STEPS)
    assert [step.outcome for step in report.steps] == ["pass"] * 7 + ["not_checked"]


def test_without_a_pin_it_is_of_unknown_origin(genuine: Statement, key: SigningKey) -> None:
    report = verified(bundle_of(genuine, key))
    assert (report.result, report.exit, report.keyid) == ("unknown_origin", 4, None)


def test_an_unsigned_bundle_is_of_unknown_origin_at_best(key: SigningKey) -> None:
    data = bundle_of(statement_of(APPROVE, signed=False), None)
    assert verified(data).exit == 4
    assert refused_by(verified(data, key.public))[0] == "signature"


@pytest.mark.parametrize(
    ("specs", "result", "code"),
    [
        ((APPROVE, REJECT, PENDING, WEIGHED), "holds", 0),
        ((changed(APPROVE, expect={"status": "blocked"}),), "fails", 1),
        ((UNDECIDED,), "pending", 3),
        ((changed(APPROVE, mode="diagnostic"),), "pending", 3),
        ((changed(APPROVE, deselected={"expect": "-k"}),), "pending", 3),
    ],
)
def test_the_verdict_of_a_genuine_bundle_decides(
    specs: tuple[Spec, ...], result: str, code: int, key: SigningKey
) -> None:
    data = bundle_of(statement_of(*specs), key)
    report = verified(data, key.public)
    assert (report.result, report.exit) == (result, code)
    asked = verified(data, key.public, expect="any")
    assert (asked.result, asked.exit) == (result, 0)


def test_a_run_that_did_not_reproduce_is_judged_again_from_both(key: SigningKey) -> None:
    other = changed(APPROVE, params={"tier": "pro"}, prompt="send the q3 report again")
    record = record_of(APPROVE, spec_b=other)
    statement = statement_of(APPROVE, records=[record])
    assert statement["predicate"]["cases"][0]["replicas"][0]["events_b"] is not None
    report = verified(bundle_of(statement, key), key.public)
    assert (report.result, report.exit) == ("fails", 1)


def test_a_rerun_that_could_not_be_made_leaves_the_session_open(key: SigningKey) -> None:
    statement = statement_of(APPROVE, records=[record_of(APPROVE, error_b="the mirror died")])
    report = verified(bundle_of(statement, key), key.public)
    assert (report.result, report.exit) == ("pending", 3)
    assert any(text.startswith("error, error_b") for text in report.taken_on_word)


def test_a_long_output_is_enclosed_and_tied_to_its_digest(key: SigningKey) -> None:
    long = "q3 " + "x" * 6000
    graph = {
        **GRAPH,
        "nodes": [{"id": "n1", "type": "input"}, {"id": "n7", "type": "output"}],
        "edges": [{"from": "n1", "to": "n7"}],
    }
    spec = Spec(graph=graph, decision=None, prompt=long, expect={"output": {"contains": "xx"}})
    statement = statement_of(spec)
    evidence = statement["predicate"]["cases"][0]["replicas"][0]["evidence"]
    assert [row["kind"] for row in evidence] == ["output"]
    assert verified(bundle_of(statement, key), key.public).exit == 0
    evidence[0]["text"] += "x"
    assert refused_by(verified(bundle_of(statement, key), key.public))[0] == "canonical"
    evidence[0]["digest"] = c1.sha256_text(evidence[0]["text"])
    assert refused_by(verified(bundle_of(statement, key), key.public))[0] == "findings"


def test_an_output_too_long_to_be_enclosed_is_taken_on_the_signers_word(key: SigningKey) -> None:
    graph = {
        **GRAPH,
        "nodes": [{"id": "n1", "type": "input"}, {"id": "n7", "type": "output"}],
        "edges": [{"from": "n1", "to": "n7"}],
    }
    prompt = "q3 " + "x" * 300_000 + "end"
    spec = Spec(graph=graph, decision=None, prompt=prompt, expect={"output": {"contains": "end"}})
    statement = statement_of(spec)
    report = verified(bundle_of(statement, key), key.public)
    assert report.result == "holds", report.steps
    word = f"{spec.nodeid}: the whole output, which is too long to be enclosed"
    assert word in report.taken_on_word
    # What does not ask for the output is judged again all the same.
    finding = statement["predicate"]["cases"][0]["replicas"][0]["findings"][2]
    finding["reason"] = "so I say"
    assert refused_by(verified(bundle_of(statement, key), key.public))[0] == "findings"


def test_strict_vacuity_is_sealed_and_judged_by(key: SigningKey) -> None:
    statement = statement_of(REJECT, settings=Settings(strict_vacuity=True))
    report = verified(bundle_of(statement, key), key.public)
    assert report.result == "pending"
    lax = copy.deepcopy(statement)
    lax["predicate"]["seal"]["settings"]["strict_vacuity"] = False
    assert refused_by(verified(bundle_of(resealed(lax), key), key.public))[0] == "findings"


def test_a_bundle_without_events_says_which_checks_could_not_be_made(key: SigningKey) -> None:
    statement = statement_of(APPROVE, REJECT, settings=Settings(events="digest"))
    assert statement["predicate"]["cases"][0]["replicas"][0]["events"] is None
    report = verified(bundle_of(statement, key), key.public)
    outcomes = {step.step: step.outcome for step in report.steps}
    assert (outcomes["runs"], outcomes["findings"]) == ("not_checked", "not_checked")
    assert any("every finding" in text for text in report.taken_on_word)
    assert any("events are not enclosed" in text for text in statement["predicate"]["not_proven"])


def test_no_more_can_be_exercised_than_there_is(key: SigningKey) -> None:
    statement = statement_of(APPROVE, REJECT, settings=Settings(events="digest"))
    exercised = statement["predicate"]["exercised"]
    exercised["done"] = exercised["total"]
    report = verified(bundle_of(statement, key), key.public)
    assert report.result == "holds"
    assert any(text.startswith("exercised: ") for text in report.taken_on_word)
    exercised["done"] += 1
    step, detail = refused_by(verified(bundle_of(statement, key), key.public))
    assert (step, detail) == ("not_proven", "exercised: more was exercised than there is")


def test_a_session_of_nothing_but_broken_files_does_not_hold(key: SigningKey) -> None:
    statement = statement_of(broken=[("scenarios/x.yaml", "x.yaml:1:1: unknown key")])
    report = verified(bundle_of(statement, key), key.public)
    assert (report.result, report.exit) == ("fails", 1)


def test_a_case_that_did_not_run_leaves_the_session_open(key: SigningKey) -> None:
    statement = statement_of(APPROVE, REJECT, records=[record_of(APPROVE)])
    report = verified(bundle_of(statement, key), key.public)
    assert (report.result, report.exit) == ("pending", 3)
    assert any("did not run" in text for text in statement["predicate"]["not_proven"])


# -- pins of the caller -------------------------------------------------------------------------


def test_commit_and_challenge_are_the_callers_to_expect(
    genuine: Statement, key: SigningKey
) -> None:
    data = bundle_of(genuine, key)
    assert verified(data, key.public, commit="C" * 40, challenge="fresh-1").exit == 0
    assert refused_by(verified(data, key.public, commit="d" * 40))[0] == "seal"
    assert refused_by(verified(data, key.public, challenge="fresh-2"))[0] == "seal"
    without = bundle_of(statement_of(APPROVE, git=None, challenge=None), key)
    assert verified(without, key.public).exit == 0
    assert refused_by(verified(without, key.public, commit="c" * 40))[0] == "seal"
    assert refused_by(verified(without, key.public, challenge="fresh-1"))[0] == "seal"


def test_an_expected_commit_with_a_dirty_tree_is_said(key: SigningKey) -> None:
    git = {"commit": "c" * 40, "tree": "d" * 40, "clean": False}
    report = verified(bundle_of(statement_of(APPROVE, git=git), key), key.public, commit="c" * 40)
    assert "was not clean" in report.steps[3].detail


# -- attackers ----------------------------------------------------------------------------------


def test_a_bundle_signed_by_somebody_else_is_refused_at_its_signature(
    genuine: Statement, key: SigningKey, attacker: SigningKey
) -> None:
    data = bundle_of(genuine, attacker)
    step, detail = refused_by(verified(data, key.public))
    assert step == "signature"
    assert "no pinned key's" in detail
    assert verified(data).exit == 4


def test_the_pinned_key_id_beside_another_signature_is_refused(
    genuine: Statement, key: SigningKey, attacker: SigningKey
) -> None:
    envelope = json.loads(bundle_of(genuine, attacker))
    envelope["signatures"][0]["keyid"] = key.keyid
    step, detail = refused_by(verified(encoded(envelope), key.public))
    assert (step, "not over these bytes" in detail) == ("signature", True)


def test_a_stripped_signature_is_refused_with_and_without_a_pin(
    genuine: Statement, key: SigningKey
) -> None:
    envelope = json.loads(bundle_of(genuine, key))
    envelope["signatures"] = []
    assert refused_by(verified(encoded(envelope), key.public))[0] == "signature"
    # The statement of a signed bundle does not say that it is unsigned.
    assert refused_by(verified(encoded(envelope)))[0] == "not_proven"


@pytest.mark.parametrize("keyid", ["../../etc/passwd", "/dev/stdin", "key.pem.pub", "", "\u0000"])
def test_a_key_id_never_becomes_a_path(
    genuine: Statement,
    key: SigningKey,
    keyid: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_key(tmp_path / "key.pem")
    monkeypatch.chdir(tmp_path)
    envelope = json.loads(bundle_of(genuine, key))
    envelope["signatures"][0]["keyid"] = keyid
    assert refused_by(verified(encoded(envelope), key.public))[0] == "signature"


def test_an_embedded_key_is_refused_as_an_unknown_field(
    genuine: Statement, key: SigningKey, attacker: SigningKey
) -> None:
    envelope = json.loads(bundle_of(genuine, attacker))
    envelope["signatures"][0]["publicKey"] = attacker.public.raw.hex()
    assert refused_by(verified(encoded(envelope), key.public))[0] == "form"
    inside = copy.deepcopy(genuine)
    inside["predicate"]["publicKey"] = attacker.public.raw.hex()
    step, detail = refused_by(verified(bundle_of(inside, attacker)))
    assert (step, 'unknown field "publicKey"' in detail) == ("form", True)


def test_another_contract_set_is_refused(genuine: Statement, key: SigningKey) -> None:
    weak = copy.deepcopy(genuine)
    seal = weak["predicate"]["seal"]
    for row in seal["definitions"]:
        if "approval_granted" in row["text"]:
            old = row["digest"]
            row["text"] = row["text"].replace("approval_granted", "node_started")
            row["digest"] = c1.sha256_text(row["text"])
            new = row["digest"]
    seal["definitions"].sort(key=lambda row: str(row["digest"]), reverse=True)
    assert refused_by(verified(bundle_of(weak, key), key.public))[0] == "canonical"  # not sorted
    for planned in seal["plan"]:
        for item in planned["items"]:
            if item["definition"] == old:
                item["definition"] = new
    seal["definitions"].sort(key=lambda row: row["digest"])
    assert refused_by(verified(bundle_of(weak, key), key.public))[0] == "seal"
    seal["contracts"] = contract_rows(seal["plan"], seal["definitions"])
    seal["digest"] = canonical_digest({k: v for k, v in seal.items() if k != "digest"})
    weak["subject"][-1]["digest"]["sha256"] = seal["digest"].removeprefix("sha256:")
    step, detail = refused_by(verified(bundle_of(weak, key), key.public))
    assert (step, "binding" in detail) == ("runs", True)


def test_a_removed_case_is_refused(genuine: Statement, key: SigningKey) -> None:
    less = copy.deepcopy(genuine)
    del less["predicate"]["cases"][1]
    assert refused_by(verified(bundle_of(less, key), key.public))[0] == "findings"
    less["predicate"]["verdict"] = summarise(less["predicate"])
    assert less["predicate"]["verdict"]["holds"] is None
    assert refused_by(verified(bundle_of(less, key), key.public))[0] == "not_proven"


def test_a_case_removed_from_the_plan_as_well_breaks_every_binding(
    genuine: Statement, key: SigningKey
) -> None:
    less = copy.deepcopy(genuine)
    del less["predicate"]["cases"][1]
    seal = less["predicate"]["seal"]
    del seal["plan"][1]
    used = {item["definition"] for planned in seal["plan"] for item in planned["items"]}
    seal["definitions"] = [row for row in seal["definitions"] if row["digest"] in used]
    seal["contracts"] = contract_rows(seal["plan"], seal["definitions"])
    seal["digest"] = canonical_digest({k: v for k, v in seal.items() if k != "digest"})
    less["subject"][-1]["digest"]["sha256"] = seal["digest"].removeprefix("sha256:")
    step, detail = refused_by(verified(bundle_of(less, key), key.public))
    assert (step, "binding" in detail) == ("runs", True)


def test_a_pending_case_cannot_be_relabelled(key: SigningKey) -> None:
    open_ = statement_of(UNDECIDED)
    case = open_["predicate"]["cases"][0]
    case["verdict"] = case["replicas"][0]["verdict"] = "valid"
    for finding in case["replicas"][0]["findings"]:
        finding.update(outcome="pass", causes=[], score="1", leaning=None)
    open_["predicate"]["verdict"] = summarise(open_["predicate"])
    assert refused_by(verified(bundle_of(open_, key), key.public))[0] == "findings"
    case["replicas"][0]["status"] = "completed"
    for run in case["replicas"][0]["runs"]:
        run["status"] = "completed"
    step, detail = refused_by(verified(bundle_of(open_, key), key.public))
    assert (step, "run_finished" in detail) == ("runs", True)


def test_a_run_cannot_be_moved_to_another_case(key: SigningKey) -> None:
    twin = changed(APPROVE, case="again")
    moved = statement_of(APPROVE, twin)
    one, two = moved["predicate"]["cases"]
    assert one["replicas"][0]["events"] == two["replicas"][0]["events"]
    two["replicas"][0]["runs"] = copy.deepcopy(one["replicas"][0]["runs"])
    step, detail = refused_by(verified(bundle_of(moved, key), key.public))
    assert (step, "binding" in detail) == ("runs", True)


def test_the_runs_of_two_cases_cannot_change_places(genuine: Statement, key: SigningKey) -> None:
    moved = copy.deepcopy(genuine)
    approve, reject, _ = moved["predicate"]["cases"]
    approve["replicas"], reject["replicas"] = reject["replicas"], approve["replicas"]
    assert refused_by(verified(bundle_of(moved, key), key.public))[0] == "runs"


def test_events_changed_with_every_digest_are_refused_by_judging_again(
    genuine: Statement, key: SigningKey
) -> None:
    texts = genuine["predicate"]["cases"][0]["replicas"][0]["events"]
    weak = with_events(
        genuine, 0, [text.replace('"approval_granted"', '"approval_withheld"') for text in texts]
    )
    step, detail = refused_by(verified(bundle_of(weak, key), key.public))
    assert step in ("findings", "not_proven")
    assert "approval-precedes-send" in detail


def test_an_event_left_out_with_every_digest_is_refused_by_its_number(
    genuine: Statement, key: SigningKey
) -> None:
    texts = genuine["predicate"]["cases"][0]["replicas"][0]["events"]
    less = with_events(genuine, 0, [*texts[:3], *texts[4:]])
    step, detail = refused_by(verified(bundle_of(less, key), key.public))
    assert (step, "event 3" in detail) == ("runs", True)


def test_an_event_after_the_end_is_refused(genuine: Statement, key: SigningKey) -> None:
    texts = genuine["predicate"]["cases"][0]["replicas"][0]["events"]
    more = [*texts, c1.event_text(len(texts), "node_started", "n4", {"type": "tool"})]
    step, detail = refused_by(verified(bundle_of(with_events(genuine, 0, more), key), key.public))
    assert (step, "more events follow" in detail) == ("runs", True)


@pytest.mark.parametrize("name", ["seed", "provider", "fixture"])
def test_a_run_of_other_inputs_is_refused(genuine: Statement, key: SigningKey, name: str) -> None:
    texts = list(genuine["predicate"]["cases"][0]["replicas"][0]["events"])
    event = json.loads(texts[0])
    event["payload"][name] = 7 if name == "seed" else "other"
    texts[0] = c1.text(event)
    step, detail = refused_by(verified(bundle_of(with_events(genuine, 0, texts), key), key.public))
    assert (step, f"run_started.{name}" in detail) == ("runs", True)


def softened(item: dict[str, Any]) -> None:
    item["gate"] = False


def undecided(item: dict[str, Any]) -> None:
    item["decides"] = False


def unselected(item: dict[str, Any]) -> None:
    item["selected"] = False


@pytest.mark.parametrize("change", [softened, undecided, unselected])
def test_a_hard_contract_cannot_be_softened_in_the_plan(
    genuine: Statement, key: SigningKey, change: Callable[[dict[str, Any]], None]
) -> None:
    soft = copy.deepcopy(genuine)
    (item,) = [
        item
        for item in soft["predicate"]["seal"]["plan"][0]["items"]
        if item["id"] == "approval-precedes-send"
    ]
    change(item)
    assert refused_by(verified(bundle_of(resealed(soft), key), key.public))[0] == "seal"


@pytest.mark.parametrize("name", ["reproduces", "expect"])
def test_what_every_case_is_judged_by_cannot_be_left_out(
    genuine: Statement, key: SigningKey, name: str
) -> None:
    less = copy.deepcopy(genuine)
    items = less["predicate"]["seal"]["plan"][0]["items"]
    items[:] = [item for item in items if item["id"] != name]
    findings = less["predicate"]["cases"][0]["replicas"][0]["findings"]
    findings[:] = [finding for finding in findings if finding["id"] != name]
    assert refused_by(verified(bundle_of(resealed(less), key), key.public))[0] == "seal"


def test_what_is_not_proven_cannot_be_shortened_or_lengthened(
    genuine: Statement, key: SigningKey
) -> None:
    sentences = genuine["predicate"]["not_proven"]
    for index in range(len(sentences)):
        less = copy.deepcopy(genuine)
        del less["predicate"]["not_proven"][index]
        assert refused_by(verified(bundle_of(less, key), key.public))[0] == "not_proven"
    more = copy.deepcopy(genuine)
    more["predicate"]["not_proven"].append("the weather")
    step, detail = refused_by(verified(bundle_of(more, key), key.public))
    assert (step, "is not so" in detail) == ("not_proven", True)


# -- bytes --------------------------------------------------------------------------------------


def encoded(envelope: dict[str, Any]) -> bytes:
    return (
        json.dumps(envelope, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        + b"\n"
    )


def test_one_byte_at_every_97th_position_is_noticed(genuine: Statement, key: SigningKey) -> None:
    data = bundle_of(genuine, key)
    for position in range(0, len(data), 97):
        bad = bytearray(data)
        bad[position] ^= 1
        refused_by(verified(bytes(bad), key.public))
        # Without a pin the signature alone is not looked at.
        assert verified(bytes(bad)).exit in (1, 4)


def test_another_order_or_white_space_in_the_payload_is_refused(
    genuine: Statement, key: SigningKey
) -> None:
    from pytest_evarness.bundle.envelope import envelope_bytes

    for text in (
        json.dumps(genuine, ensure_ascii=False),
        json.dumps(genuine, ensure_ascii=False, separators=(",", ":")),
        json.dumps(genuine, sort_keys=True, separators=(",", ":")) + "\n",
    ):
        data = envelope_bytes(text.encode(), key)
        assert refused_by(verified(data, key.public))[0] == "canonical"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (b'{"_type":', b'{"_type":"x","_type":', "stands there twice"),
        (b'"replica":0', b'"replica":0.0', "no whole number"),
        (b'"replica":0', b'"replica":NaN', "no JSON number"),
        (b'"replica":0', b'"replica":-0', "readers disagree"),
        (b'"replica":0', b'"replica":00', "not JSON"),
        (b'"replica":0', b'"replica":1', "must be one of 0"),
        (b'"replica":0', b'"replica":false', "must be one of 0"),
        (b'"replica":0', b'"replica":9007199254740993', "readers disagree"),
        (b'"replica":0', b'"replica":' + b"9" * 5000, "beyond 2"),
        (b'"replica":0', b'"replica":' + b"[" * 200 + b"]" * 200, "nested deeper"),
        (b'"replica":0', b'"replica":' + b"[" * 99_999, "nested deeper"),
        (b'"replica":0', b'"replica":0,"judge":"x"', "unknown field"),
        (b'"review_queue":[],', b"", "missing field review_queue"),
        (b'"review_queue":[]', b'"review_queue":["x"]', "must be a mapping"),
        (b"scenarios/send.yaml", b"scenarios/\xff\xfe.yaml", "not UTF-8"),
        (b"scenarios/send.yaml", b"\xef\xbf\xbd\\ud800", "lone surrogate"),
        (b"proof/v1", b"proof/v0", "no bundle of this format"),
    ],
)
def test_json_that_two_readers_could_take_differently_is_refused(
    genuine: Statement, key: SigningKey, old: bytes, new: bytes, text: str
) -> None:
    from pytest_evarness.bundle.envelope import envelope_bytes

    payload = base64.b64decode(json.loads(bundle_of(genuine, key))["payload"])
    assert old in payload
    data = envelope_bytes(payload.replace(old, new, 1), key)
    step, detail = refused_by(verified(data, key.public))
    assert step in ("form", "canonical")
    assert text in detail


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04rest", "a zip archive"),
        (b"\x1f\x8b\x08", "a gzip file"),
        (b"\x00" * 257 + b"ustar\x0000", "a tar archive"),
        (b"\x00\x00\x00\x01Bud1", "a .DS_Store"),
        (b"{}", "not an envelope"),
        (b'{"verdict":"pass","verdict":"fail"}', "stands there twice"),
        (b"[]", "not an envelope"),
        (b"null", "not an envelope"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"[" * 1_000_000, "nested deeper"),
    ],
)
def test_what_is_no_bundle_is_refused_at_its_form(data: bytes, text: str, key: SigningKey) -> None:
    step, detail = refused_by(verified(data, key.public))
    assert (step, text in detail) == ("form", True)


# -- a plug-in's parts --------------------------------------------------------------------------


def test_a_predicate_of_a_plug_in_is_taken_on_the_signers_word(key: SigningKey) -> None:
    from tests.bundle import builder

    def is_polite(event: Any) -> bool:
        return True

    builder.registry().predicates.register("is-polite", is_polite)
    try:
        body = {"every": {"match": {"type": "tool_called"}, "satisfies": "is-polite"}}
        spec = changed(APPROVE, contracts={"polite": body})
        statement = statement_of(spec, plugins=[("agents", "0.1.0"), ("manners", "1.0")])
    finally:
        del builder.registry().predicates._parts["is-polite"]
    report = verified(bundle_of(statement, key), key.public)
    assert report.exit == 0
    assert any("::polite: judged with parts of a plug-in" in x for x in report.taken_on_word)
    # Without a plug-in that could have brought it, nobody may claim it.
    alone = copy.deepcopy(statement)
    alone["predicate"]["seal"]["plugins"] = [{"name": "agents", "version": "0.1.0"}]
    assert refused_by(verified(bundle_of(resealed(alone), key), key.public))[0] == "findings"


# -- running again ------------------------------------------------------------------------------


def test_a_rerun_gives_the_same_digests(genuine: Statement, key: SigningKey) -> None:
    report = verified(bundle_of(genuine, key), key.public, rerun=True)
    assert report.exit == 0
    assert report.steps[-1].outcome == "pass"
    assert "3 cases" in report.steps[-1].detail


def test_a_rerun_notices_events_that_no_run_gives(key: SigningKey) -> None:
    # The prompt's words are in no finding, so only running again can tell that they are not so.
    statement = statement_of(PENDING)
    texts = statement["predicate"]["cases"][0]["replicas"][0]["events"]
    other = [text.replace("Send it?", "Send it!") for text in texts]
    assert other != texts
    data = bundle_of(with_events(statement, 0, other), key)
    assert verified(data, key.public).exit == 0
    step, detail = refused_by(verified(data, key.public, rerun=True))
    assert (step, "trace_digest" in detail) == ("rerun", True)


def test_a_rerun_needs_a_pinned_key(genuine: Statement, key: SigningKey) -> None:
    with pytest.raises(UsageError, match="needs a pinned key"):
        verified(bundle_of(genuine, key), rerun=True)


def test_a_rerun_refuses_code_unless_it_is_allowed(
    key: SigningKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "steps.py").write_text(
        "def shout(inputs, config, context):\n    return {'out': 'q3!'}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    graph = {
        **GRAPH,
        "nodes": [
            {"id": "n1", "type": "input"},
            {"id": "n2", "type": "python", "config": {"callable": "steps:shout"}},
            {"id": "n7", "type": "output"},
        ],
        "edges": [{"from": "n1", "to": "n2"}, {"from": "n2", "to": "n7"}],
    }
    spec = changed(APPROVE, graph=graph, decision=None, contracts={})
    data = bundle_of(statement_of(spec), key)
    monkeypatch.delitem(sys.modules, "steps")
    assert verified(data, key.public).exit == 0
    assert "steps" not in sys.modules  # judged without importing it
    with pytest.raises(UsageError, match="node 'n2' runs code"):
        verified(data, key.public, rerun=True)
    report = verified(data, key.public, rerun=True, allow_code=True)
    assert report.steps[-1].outcome == "pass"
    # Where the code is not, nothing is known of the run: the bundle is not called forged.
    monkeypatch.delitem(sys.modules, "steps")
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(tmp_path)])
    report = verified(data, key.public, rerun=True, allow_code=True)
    assert report.steps[-1].outcome == "not_checked"
    assert 'the module "steps" of its steps is not found here' in report.steps[-1].detail


def test_a_case_that_needs_secrets_is_not_run_again(key: SigningKey) -> None:
    data = bundle_of(statement_of(changed(APPROVE, secrets=("TOKEN",))), key)
    report = verified(data, key.public, rerun=True)
    assert report.steps[-1].outcome == "not_checked"
    assert "needs secrets" in report.steps[-1].detail


# -- nothing of a bundle is trusted as code -----------------------------------------------------


def test_verification_imports_nothing_by_name_and_starts_no_process(
    genuine: Statement, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib
    import subprocess

    data = bundle_of(genuine, key)
    verified(data, key.public)  # late imports of our own are done

    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("a bundle must not make the verifier do that")

    monkeypatch.setattr(importlib, "import_module", forbidden)
    monkeypatch.setattr(subprocess, "Popen", forbidden)
    assert verified(data, key.public).exit == 0


def test_a_verifier_without_the_domain_takes_only_that_part_on_the_signers_word(
    key: SigningKey,
) -> None:
    from pytest_evarness.core.vocabulary import register_kernel

    bare = Registry()
    register_kernel(bare)
    statement = statement_of(APPROVE, REJECT)
    report = verified(bundle_of(statement, key), key.public, registry_used=bare)
    assert report.result == "holds"
    # What the domain's events show is judged all the same, since contracts need no domain.
    weak = copy.deepcopy(statement)
    (finding,) = [
        finding
        for finding in weak["predicate"]["cases"][0]["replicas"][0]["findings"]
        if finding["id"] == "approval-precedes-send"
    ]
    finding["reason"] += "!"
    report = verified(bundle_of(weak, key), key.public, registry_used=bare)
    assert refused_by(report)[0] == "findings"


def test_a_key_that_stands_there_twice_is_found_in_linear_time() -> None:
    names = ",".join(f'"{number:08d}":0' for number in range(100_000))
    begin = time.monotonic()
    with pytest.raises(UnverifiedError, match='"00099999" stands there twice'):
        strict_json(f'{{{names},"00099999":1}}', "payload")
    # It takes about 0.1 s; comparing each name with each other one takes two minutes.
    assert time.monotonic() - begin < 10
    with pytest.raises(UnverifiedError, match='"b" stands there twice'):
        strict_json('{"a":0,"b":1,"c":2,"b":3,"a":4}', "payload")

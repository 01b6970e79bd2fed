"""Evidence in a bundle: whole, or a word why not; what asks for a person is queued."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from pytest_evarness.bundle.evidence import MAX_EVIDENCE_BYTES, check_rows
from pytest_evarness.bundle.key import SigningKey, make_key
from pytest_evarness.checks.evidence import Evidence, Gathered
from pytest_evarness.core import c1
from pytest_evarness.core.finding import FOR_REVIEW, Finding, Witness
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.plan import PlannedItem
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.core.secret import Masker
from tests.bundle.builder import (
    APPROVE,
    bundle_of,
    changed,
    record_of,
    refused_by,
    statement_of,
    verified,
)
from tests.checks.builders import evidence
from tests.checks.fake import check_item

CHECKED = changed(APPROVE, case="checked", checks={"held": "hello", "missed": "other"})
SECRET = "value of TOKEN"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return make_key(tmp_path_factory.mktemp("keys") / "key.pem")


def rows_of(record: Any, *, masked: frozenset[str] = frozenset()) -> tuple[dict[str, str], ...]:
    seen: Evidence = evidence("completed")
    items = [PlannedItem("expect", "expect"), check_item("c")]
    from dataclasses import replace

    seen = replace(seen, gathered={"c": record})
    return check_rows(items, seen, Masker({"TOKEN": "hunter22"}), masked)


def test_a_row_is_what_was_gathered_under_its_digest() -> None:
    (row,) = rows_of(Gathered({"n": 1}))
    assert row == {
        "kind": "check",
        "item": "c",
        "state": "enclosed",
        "digest": c1.sha256_text('{"gathered":{"n":1}}'),
        "text": '{"gathered":{"n":1}}',
    }


@pytest.mark.parametrize("secret", ["hunter22", "aHVudGVyMjI=", "hunter2\\u0032"])
def test_no_form_of_a_secret_stays_in_a_row(secret: str) -> None:
    (row,) = rows_of(Gathered({"text": f"x {secret}"}))
    assert (row["state"], row["text"]) == ("masked", "")
    # The digest is that of the masked text: one of the true text would let it be guessed.
    assert row["digest"] != c1.sha256_text(c1.text({"gathered": {"text": f"x {secret}"}}))
    assert rows_of(Gathered({"text": "x"}))[0]["state"] == "enclosed"


def test_a_finding_in_which_a_secret_was_masked_is_not_judged_again() -> None:
    (row,) = rows_of(Gathered({"n": 1}), masked=frozenset({"c"}))
    assert row["state"] == "masked"


def test_a_row_has_a_bound() -> None:
    fits = "x" * (MAX_EVIDENCE_BYTES - len('{"gathered":{"t":""}}'))
    assert rows_of(Gathered({"t": fits}))[0]["state"] == "enclosed"
    (row,) = rows_of(Gathered({"t": fits + "x"}))
    assert (row["state"], row["text"]) == ("too_large", "")


@pytest.mark.parametrize(
    "gathered",
    [
        Gathered({"a": [1, {"b": None}]}),
        Gathered(None, (Cause.MISSING_EVIDENCE, Cause.EVALUATOR_ERROR), "why", ("db: gone",)),
    ],
)
def test_what_was_gathered_is_read_back_as_it_was(gathered: Gathered) -> None:
    assert Gathered.from_record(json.loads(c1.text(gathered.as_record()))) == gathered


def test_checks_are_judged_again(key: SigningKey) -> None:
    statement = statement_of(CHECKED)
    report = verified(bundle_of(statement, key), key.public)
    assert report.result == "fails"
    (replica,) = statement["predicate"]["cases"][0]["replicas"]
    outcomes = {one["id"]: one["outcome"] for one in replica["findings"]}
    assert (outcomes["held"], outcomes["missed"]) == ("pass", "fail")


def altered(statement: dict[str, Any], item: str, gathered: Any) -> dict[str, Any]:
    made = copy.deepcopy(statement)
    rows = made["predicate"]["cases"][0]["replicas"][0]["evidence"]
    (row,) = [one for one in rows if one["item"] == item]
    row["text"] = c1.text(gathered)
    row["digest"] = c1.sha256_text(row["text"])
    return made


def test_other_evidence_gives_another_finding_and_is_refused(key: SigningKey) -> None:
    statement = statement_of(CHECKED)
    forged = altered(statement, "missed", {"gathered": {"text": "other"}})
    assert refused_by(verified(bundle_of(forged, key), key.public))[0] == "findings"
    same = altered(statement, "missed", {"gathered": {"text": "hello"}})
    assert same == statement


def test_a_check_type_of_nobody_is_refused_unless_a_plugin_took_part(key: SigningKey) -> None:
    data = bundle_of(statement_of(CHECKED), key)
    step, detail = refused_by(verified(data, key.public, registry_used=packaged_registry()))
    assert (step, detail) == ("findings", 'cases[0]: no check type is called "probe"')
    plugins = (("agents", "0.1.0"), ("acme", "1.0"))
    data = bundle_of(statement_of(CHECKED, plugins=plugins), key)
    report = verified(data, key.public, registry_used=packaged_registry())
    assert report.result == "fails"
    assert f"{CHECKED.nodeid}::held: judged with parts of a plug-in" in report.taken_on_word


def test_a_masked_finding_is_taken_as_it_is_and_the_rest_still_counts(key: SigningKey) -> None:
    spec = changed(
        APPROVE, checks={"leak": SECRET}, file_text=SECRET, secrets=("TOKEN",), params={}
    )
    statement = statement_of(spec)
    assert SECRET not in json.dumps(statement["predicate"]["cases"][0]["replicas"])
    report = verified(bundle_of(statement, key), key.public)
    assert report.result == "holds"
    word = f"{spec.nodeid}::leak: its evidence is not enclosed, secrets are masked in it"
    assert word in report.taken_on_word
    # The signer may say of it what they like, but not what a gate that fails makes of the case.
    made = copy.deepcopy(statement)
    findings = made["predicate"]["cases"][0]["replicas"][0]["findings"]
    finding = next(one for one in findings if one["id"] == "leak")
    finding["reason"] = "so I say"
    assert verified(bundle_of(made, key), key.public).result == "holds"
    finding.update(outcome="fail", score="0")
    assert refused_by(verified(bundle_of(made, key), key.public))[0] == "findings"


def test_what_asks_for_a_person_is_queued_with_its_reason(key: SigningKey) -> None:
    from dataclasses import replace

    record = record_of(APPROVE)

    def noted(finding: Finding) -> Finding:
        notes = (f"{FOR_REVIEW}the judges are 0.6 apart", "another note")
        return finding.with_(witness=Witness(notes=notes)) if finding.id == "expect" else finding

    queued = replace(record, findings=tuple(map(noted, record.findings)))
    statement = statement_of(APPROVE, records=[queued])
    assert statement["predicate"]["review_queue"] == [
        {"case": APPROVE.nodeid, "invariant": "expect", "why": "the judges are 0.6 apart"}
    ]
    assert statement_of(APPROVE)["predicate"]["review_queue"] == []
    # An entry that no finding asks for, or one that is left out, is refused.
    made = statement_of(APPROVE)
    made["predicate"]["review_queue"] = statement["predicate"]["review_queue"]
    step, detail = refused_by(verified(bundle_of(made, key), key.public))
    assert (step, detail.split(":")[0]) == ("findings", "review_queue")

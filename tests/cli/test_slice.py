"""``slice`` gives the fewest events with one finding, and what it writes gives it again."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pytest_evarness.bundle.key import load_private_key, make_key
from pytest_evarness.bundle.seal import Settings
from pytest_evarness.cli import main
from pytest_evarness.history import refit, slicing
from tests.bundle.builder import APPROVE, UNDECIDED, Spec, bundle_of, changed, statement_of
from tests.scenarios.shipped import shipped

if TYPE_CHECKING:
    from tests.cli.conftest import Command, Done

EXECUTED = {
    "precedes": {
        "first": {"type": "approval_granted", "where": {"artifact_digest": "$d"}},
        "second": {"type": "tool_called", "bind": {"d": "args_digest"}},
        "fresh": True,
    }
}
ASSERTS: dict[str, Any] = {
    "one-effect": {"at_most": {"n": 1, "of": {"type": "effect_applied"}, "per": ["effect_id"]}},
    "executed": EXECUTED,
    "paid-first": {"precedes": {"first": {"type": "http_request"}, "second": {"type": "db_write"}}},
    "never-asked": {"never": {"type": "http_request", "after": {"type": "approval_granted"}}},
    "kim-approved": {
        "eventually": {"type": "approval_granted", "where": {"approver": {"pattern": "^kim"}}}
    },
    "each-paid": {"every": {"match": {"type": "effect_applied"}, "where": {"kind": "message"}}},
    "answered": {
        "leads_to": {"when": {"type": "approval_granted"}, "then": {"type": "approval_revoked"}}
    },
    "quick": {
        "leads_to": {
            "when": {"type": "approval_granted"},
            "then": {"type": "run_finished"},
            "within": {"events": 2},
        }
    },
}


def sent_twice(**asserts: Any) -> dict[str, Any]:
    """The refund whose answer is lost, without an idempotency key: it is paid twice."""
    scenario = shipped("refund_desk")
    scenario["subject"] = {"graph": "pattern:refund_desk/unkeyed"}
    scenario["cases"] = {"lost": {"faults": {"payment.transfer": {"fail_after": {"first": 1}}}}}
    del scenario["forbidden"]
    scenario["invariants"] = {
        name: {"description": "d", "gate": True, "check": {"type": "trace", "assert": body}}
        for name, body in asserts.items()
    }
    return scenario


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Scenario, key and signed bundle in which every one of ``ASSERTS`` fails; made once."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HOME", str(folder))
        make_key(Path("k.pem"))
        Path("s.yaml").write_text(yaml.safe_dump(sent_twice(**ASSERTS)), encoding="utf-8")
        words = ["prove", "s.yaml", "--key", "k.pem", "-o", "p.json", "--rerun", "inline"]
        assert main(words) == 1
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def proved(command: Command, made: dict[str, bytes]) -> Path:
    """That bundle in the folder of this test, beside what it was made of."""
    del command
    for name, content in made.items():
        Path(name).write_bytes(content)
    return Path("p.json")


def sliced(command: Command, bundle: Path, target: str, *words: str) -> Done:
    before = bundle.read_bytes()
    done = command("slice", bundle, target, *words, "--json")
    assert bundle.read_bytes() == before, "the bundle is never touched"
    return done


def types(done: Done) -> list[str]:
    return [event["type"] for event in done.json["events"]]


@pytest.mark.parametrize("name", sorted(ASSERTS))
def test_what_is_written_gives_the_finding_again(command: Command, proved: Path, name: str) -> None:
    done = sliced(command, proved, f"lost::{name}", "--key", "k.pem.pub", "-o", "out")
    assert done.code == 0
    record = done.json
    assert (record["outcome"], record["is_minimal"]) == ("fail", True)
    assert len(record["events"]) < record["events_before"] / 4
    # As a recorded trace, under the contract of the slice.
    checked = command("check", "out/events.jsonl", "--contracts", "out/corpus.yaml", "--json")
    (line,) = checked.lines
    assert (checked.code, line["contract"], line["outcome"]) == (1, name, "fail")
    assert line["reason"] == record["finding"]["reason"]
    # As an entry of a corpus.
    library = yaml.safe_load(Path("out/corpus.yaml").read_text(encoding="utf-8"))
    (entry,) = library["contracts"][name]["corpus"]["negative"].values()
    assert len(entry["events"]) in (len(record["events"]), len(record["events"]) - 1)
    # As a scenario.
    assert record["why_no_scenario"] is None
    again = command("prove", "out/scenario.yaml", "--unsigned", "--json", "-o", "again.json")
    assert again.code == 1
    statement = json.loads(base64.b64decode(json.loads(Path("again.json").read_bytes())["payload"]))
    findings = statement["predicate"]["cases"][0]["replicas"][0]["findings"]
    by_id = {one["id"]: one for one in findings}
    assert by_id[f"sliced-{name}"]["outcome"] == "fail"
    assert by_id["expect"]["outcome"] == by_id["reproduces"]["outcome"] == "pass"


def test_no_single_event_can_go(command: Command, proved: Path) -> None:
    from pytest_evarness.contract.evaluate import evaluate
    from pytest_evarness.contract.model import parse_contract
    from pytest_evarness.core.registry import packaged_registry
    from pytest_evarness.core.trace import Trace

    registry = packaged_registry()
    for name, body in ASSERTS.items():
        record = sliced(command, proved, f"lost::{name}").json
        contract, _ = parse_contract(name, {"assert": body}, registry=registry)
        assert contract is not None
        events = record["events"]

        def about(kept: list[int], events: Any = events, contract: Any = contract) -> Any:
            rest = [{**events[at], "seq": seq} for seq, at in enumerate(kept)]
            (finding,) = evaluate([contract], Trace(rest, closed=True), registry)
            return slicing.signature(finding, lambda seq: kept[seq])

        whole = list(range(len(events)))
        for gone in whole[:-1]:
            assert about([at for at in whole if at != gone]) != about(whole), (name, gone)


@pytest.mark.parametrize("name", sorted(ASSERTS))
def test_no_single_field_of_a_payload_can_go(command: Command, proved: Path, name: str) -> None:
    from pytest_evarness.contract.evaluate import evaluate
    from pytest_evarness.contract.model import parse_contract
    from pytest_evarness.core.registry import packaged_registry
    from pytest_evarness.core.trace import Trace

    registry = packaged_registry()
    record = sliced(command, proved, f"lost::{name}").json
    contract, _ = parse_contract(name, {"assert": ASSERTS[name]}, registry=registry)
    assert contract is not None

    def about(events: Any) -> Any:
        (finding,) = evaluate([contract], Trace(events, closed=True), registry)
        return (*slicing.signature(finding, lambda seq: seq), finding.reason)

    events = record["events"]
    assert about(events)[-1] == record["finding"]["reason"]
    left = 0
    for at, event in enumerate(events):
        for path in slicing.paths(event["payload"]):
            payload = slicing.without(event["payload"], path)
            less = [*events[:at], {**event, "payload": payload}, *events[at + 1 :]]
            assert about(less) != about(events), (name, at, path)
            left += 1
    before, after = record["fields"]
    assert (after, before > after) == (left, True)


def test_fields_that_the_contract_asks_for_stay(command: Command, proved: Path) -> None:
    record = sliced(command, proved, "lost::executed").json
    approved, first, second, end = (event["payload"] for event in record["events"])
    assert list(approved) == ["artifact_digest"]
    assert list(first) == list(second) == ["args_digest"]
    assert approved["artifact_digest"] == first["args_digest"] == second["args_digest"]
    assert end == {}
    text = command("slice", proved, "lost::executed").out
    assert f"fields of their payloads: {record['fields'][0]} -> 3" in text
    # The twin: a contract that asks for another field keeps that one.
    (event, _) = sliced(command, proved, "lost::each-paid").json["events"]
    assert list(event["payload"]) == ["kind"]


def test_nothing_is_taken_out_of_what_is_not_there() -> None:
    value: dict[str, Any] = {"a": {"b": [1, {"c": 2}]}, "d": "text"}
    assert slicing.without(value, ("a", "b", 1, "c")) == {"a": {"b": [1, {}]}, "d": "text"}
    assert slicing.without(value, ("a",)) == {"d": "text"}
    for path in (("x",), ("a", "b", 2), ("d", "t"), ("a", "b", "c")):
        assert slicing.without(value, path) is None
    assert value == {"a": {"b": [1, {"c": 2}]}, "d": "text"}


def test_the_events_are_those_that_the_violation_is_about(command: Command, proved: Path) -> None:
    assert types(sliced(command, proved, "lost::executed")) == [
        "approval_granted",  # used up by
        "tool_called",  # this one, so that
        "tool_called",  # this one has none
        "run_finished",
    ]
    assert types(sliced(command, proved, "lost::kim-approved")) == [
        "approval_granted",  # the nearest candidate: without it the sentence would be another
        "run_finished",
    ]


def test_an_approval_of_another_digest_is_not_lost(command: Command) -> None:
    # Without it the send would be one that nobody approved, which is another violation.
    other = {
        **EXECUTED["precedes"],
        "first": {"type": "approval_granted", "where": {"approver": "$d"}},
    }
    spec = changed(APPROVE, case="swapped", contracts={"same": {"precedes": other}})
    done = sliced(command, written(spec), "swapped::same")
    assert types(done) == ["approval_granted", "tool_called", "run_finished"]
    assert done.json["finding"]["witness"]["nearest"][0]["seq"] == 0


def test_branches_that_the_violation_does_not_depend_on_go_first(
    command: Command, proved: Path
) -> None:
    record = sliced(command, proved, "lost::executed").json
    assert record["branches"] == ["n4", "n5", "n6"]
    assert record["scenario"] is None


def test_the_same_bundle_gives_the_same_slice(command: Command, proved: Path) -> None:
    words = ("lost::one-effect", "--key", "k.pem.pub")
    first = sliced(command, proved, *words)
    assert sliced(command, proved, *words).out == first.out


def test_a_bound_on_work_ends_it_and_is_said(
    command: Command, proved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sliced(command, proved, "lost::one-effect").json
    monkeypatch.setattr(slicing, "MAX_WORK", 60)
    record = sliced(command, proved, "lost::one-effect").json
    assert record["is_minimal"] is False
    assert record["outcome"] == "fail"
    assert len(record["events"]) > len(whole["events"])
    assert "the bound on work was reached" in command("slice", proved, "lost::one-effect").out


# -- findings of other kinds -----------------------------------------------------------------------


def written(*specs: Spec, **more: Any) -> Path:
    if not Path("k.pem").exists():
        make_key(Path("k.pem"))
    path = Path("made.json")
    statement = statement_of(*specs, **more)
    path.write_bytes(bundle_of(statement, load_private_key(Path("k.pem"))))
    return path


def test_an_undecided_finding_becomes_missing_evidence(command: Command) -> None:
    path = written(UNDECIDED)
    done = sliced(command, path, "undecided::approval-precedes-send", "-o", "out")
    record = done.json
    assert (record["outcome"], record["entry"]["kind"]) == ("indeterminate", "missing_evidence")
    assert record["entry"]["open"] is True
    assert record["events"] == []
    checked = command("check", "out/events.jsonl", "--contracts", "out/corpus.yaml", "--json")
    assert (checked.code, checked.lines[0]["outcome"]) == (3, "indeterminate")
    text = Path("out/corpus.yaml").read_text(encoding="utf-8")
    assert "events: []" in text
    shown = command("slice", path, "undecided::approval-precedes-send").out
    head = "scenarios/send.yaml::undecided::approval-precedes-send: indeterminate (unfinished_run)"
    assert shown.splitlines()[0] == head


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("approve::approval-precedes-send", "passed, so there is nothing to cut down to"),
        ("approve::expect", "is of kind 'expect', which is not judged from events alone"),
        ("approve", "a case was named, and no finding of it"),
        ("approve::nothing", "no case or finding is called that"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_the_reason(
    command: Command, target: str, words: str
) -> None:
    done = command("slice", written(APPROVE), target)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_without_events_there_is_nothing_to_cut(command: Command) -> None:
    bad = changed(APPROVE, contracts={"never": {"never": {"type": "tool_called"}}})
    done = command("slice", written(bad, settings=Settings(events="digest")), "approve::never")
    assert (done.code, done.out) == (2, "")
    assert "encloses digests only" in done.err


def test_without_a_pinned_key_nothing_of_the_bundle_is_run(command: Command, proved: Path) -> None:
    record = sliced(command, proved, "lost::executed", "-o", "out").json
    assert record["scenario"] is None
    assert record["why_no_scenario"] == "running a case of a bundle needs a pinned key (--key PUB)"
    assert sorted(path.name for path in Path("out").iterdir()) == ["corpus.yaml", "events.jsonl"]
    make_key(Path("other.pem"))
    done = command("slice", proved, "lost::executed", "--key", "other.pem.pub", "-o", "more")
    assert (done.code, done.out) == (1, "")
    assert not Path("more").exists()


def test_code_that_a_bundle_names_is_never_run(command: Command) -> None:
    Path("mine_sliced.py").write_text(
        "from pathlib import Path\n"
        "def step(inputs, config, context):\n"
        "    with Path('ran').open('a') as file: file.write('x')\n"
        "    return 'done'\n",
        encoding="utf-8",
    )
    nodes = [
        {"id": "a", "type": "input"},
        {"id": "b", "type": "python", "config": {"callable": "mine_sliced:step"}},
        {"id": "c", "type": "output"},
    ]
    edges = [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]
    scenario = {
        "evarness": 1,
        "id": "coded",
        "subject": {"graph": {"ir_version": 1, "id": "g", "nodes": nodes, "edges": edges}},
        "invariants": {
            "never": {
                "description": "d",
                "gate": True,
                "check": {"type": "trace", "assert": {"never": {"type": "input_received"}}},
            }
        },
    }
    Path("s.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
    make_key(Path("k.pem"))
    command("prove", "s.yaml", "--key", "k.pem", "-o", "p.json", "--rerun", "inline")
    times = Path("ran").read_text(encoding="utf-8") if Path("ran").exists() else ""
    done = sliced(command, Path("p.json"), "default::never", "--key", "k.pem.pub")
    assert done.json["why_no_scenario"] == "a node runs code that the bundle names"
    assert types(done) == ["input_received", "run_finished"]
    after = Path("ran").read_text(encoding="utf-8") if Path("ran").exists() else ""
    assert after == times


# -- cases that read files of their project --------------------------------------------------------

FILED: dict[str, str] = {
    "evarness/tools.yaml": """
tools:
  - {id: kb.search, safety: {side_effects: read}}
  - id: shop.book
    safety: {side_effects: write}
    effects:
      - sql: {service: shop, statement: "INSERT INTO booked (what) VALUES (:w)", params: {w: "x"}}
""",
    "scenarios/fixtures/world.yaml": """
user_input: Book it
services: {shop: {type: sqlite, init: [one.sql, two.sql]}}
workspace: {from: notes}
""",
    "scenarios/one.sql": "CREATE TABLE booked (what TEXT)",
    "scenarios/two.sql": "INSERT INTO booked VALUES ('before'); -- the end",
    "scenarios/notes/a.txt": "a",
    "scenarios/filed.yaml": """
evarness: 1
id: filed
subject:
  graph:
    ir_version: 1
    id: filed
    nodes:
      - {id: ask, type: input}
      - {id: look, type: tool, config: {tool: kb.search}}
      - {id: gate, type: approval_gate, config: {prompt: "Book?"}}
      - {id: book, type: tool, config: {tool: shop.book, approve_side_effects: true}}
      - {id: say, type: output}
    edges:
      - {from: ask, to: look}
      - {from: look, to: gate}
      - {from: gate, to: book}
      - {from: book, to: say}
environment:
  approvals: {gate: approve}
  fixture: fixtures/world.yaml
  tools:
    kb.search: [{result: [{id: k, subject: s, text: t}]}]
    shop.book: [{result: [{id: b, subject: s, text: Booked}]}]
invariants:
  never-booked:
    description: d
    gate: true
    check: {type: trace, assert: {never: {type: db_write}}}
""",
}


@pytest.fixture(scope="module")
def filed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Key and bundle of a case with a fixture, scripts, a folder and manifests; made once."""
    folder = tmp_path_factory.mktemp("filed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HOME", str(folder))
        make_key(Path("k.pem"))
        for name, text in FILED.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, encoding="utf-8")
        words = ["scenarios/filed.yaml", "--key", "k.pem", "-o", "p.json", "--rerun", "inline"]
        assert main(["prove", *words]) == 1
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_what_a_case_read_from_files_stands_in_its_scenario(
    command: Command, filed: dict[str, bytes]
) -> None:
    # None of the files is here: what they held comes from the bundle.
    for name in ("p.json", "k.pem.pub"):
        Path(name).write_bytes(filed[name])
    words = ("default::never-booked", "--key", "k.pem.pub")
    record = sliced(command, Path("p.json"), *words, "-o", "out").json
    assert record["why_no_scenario"] is None
    environment = record["scenario"]["environment"]
    assert "CREATE TABLE booked" in environment["services"]["shop"]["init"]
    assert not {"fixture", "workspace"} & environment.keys()
    # The manifest of the tool that went is not needed any more.
    listed = yaml.safe_load(Path("out/tools.yaml").read_text(encoding="utf-8"))["tools"]
    assert listed == record["tools"]
    assert [tool["id"] for tool in listed] == ["shop.book"]
    again = command("prove", "out/scenario.yaml", "--unsigned", "--json", "-o", "again.json")
    statement = json.loads(base64.b64decode(json.loads(Path("again.json").read_bytes())["payload"]))
    findings = statement["predicate"]["cases"][0]["replicas"][0]["findings"]
    assert again.code == 1
    assert {one["id"]: one["outcome"] for one in findings}["sliced-never-booked"] == "fail"


def test_without_the_manifests_the_case_is_another_one(
    command: Command, filed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("p.json", "k.pem.pub"):
        Path(name).write_bytes(filed[name])
    monkeypatch.setattr(refit._Refitting, "_put_beside", lambda *_: None)
    done = sliced(command, Path("p.json"), "default::never-booked", "--key", "k.pem.pub")
    assert (done.code, done.json["scenario"], done.json["tools"]) == (0, None, None)
    assert done.json["why_no_scenario"] == "run again here, the case does not give this finding"


def test_another_file_beside_a_case_is_named(
    command: Command, filed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("p.json", "k.pem.pub"):
        Path(name).write_bytes(filed[name])
    monkeypatch.setattr(refit, "json", SimpleNamespace(loads=_with_tiers))
    done = command("slice", "p.json", "default::never-booked", "--key", "k.pem.pub")
    assert "scenario: none, the case reads a tiers.yaml that is not packaged" in done.out


def _with_tiers(text: str) -> Any:
    value = json.loads(text)
    if isinstance(value, dict) and {"tiers", "tools"} <= value.keys():
        value["tiers"] = {}
    return value


def test_a_folder_is_written_as_its_files_and_a_link_cannot_be() -> None:
    file = {"path": "a/b", "type": "file", "mode": "0755", "sha256": "sha256:1"}
    folder = {"path": "a", "type": "directory", "mode": "0755"}
    assert refit._files([folder, file], {"sha256:1": "x"}) == {"a/b": {"text": "x", "mode": "0755"}}
    coded = refit._files([file], {"sha256:1": {"base64": "/w=="}})
    assert coded == {"a/b": {"base64": "/w==", "mode": "0755"}}
    with pytest.raises(refit.CannotRunError, match="a folder with links"):
        refit._files([folder, {"path": "c", "type": "symlink", "target": "a"}], {})


def test_a_folder_that_holds_something_is_not_written_to(command: Command, proved: Path) -> None:
    Path("out").mkdir()
    Path("out/mine.txt").write_text("x", encoding="utf-8")
    done = command("slice", proved, "lost::executed", "-o", "out")
    assert (done.code, done.out) == (2, "")
    assert "is not overwritten" in done.err
    assert [path.name for path in Path("out").iterdir()] == ["mine.txt"]


def test_hostile_text_survives_as_the_same_text(command: Command) -> None:
    odd = "q3 report: ''' \"\"\" # no\n- a: b\x1b[31m\u2028 \U0001f600 1e3 ~ {x} %"
    never = {"never": {"type": "input_received", "where": {"text": odd}}}
    path = written(changed(APPROVE, prompt=odd, contracts={"never": never}))
    record = sliced(command, path, "approve::never", "-o", "out").json
    library = yaml.safe_load(Path("out/corpus.yaml").read_text(encoding="utf-8"))
    (entry,) = library["contracts"]["never"]["corpus"]["negative"].values()
    assert entry["events"][0]["text"] == record["events"][0]["payload"]["text"] == odd
    assert command("slice", path, "approve::never").code == 0
    assert command("check", "out/events.jsonl", "--contracts", "out/corpus.yaml").code == 1

"""Each packaged contract about calls and effects passes, fails and stays open where it should."""

from __future__ import annotations

import copy
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pytest_evarness.contract as contract_package
from pytest_evarness.cli import main
from pytest_evarness.contract.corpus import KINDS, trace_of
from pytest_evarness.contract.evaluate import Evaluator, evaluate
from pytest_evarness.contract.library import load_library
from pytest_evarness.contract.mutation import EntryMutants, mutate, tally
from pytest_evarness.core.interfaces import Locations
from pytest_evarness.core.outcome import Severity
from pytest_evarness.core.registry import packaged_registry
from pytest_evarness.core.trace import Trace
from pytest_evarness.source.document import load_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_evarness.contract.corpus import CorpusEntry
    from pytest_evarness.contract.library import Library

REGISTRY = packaged_registry()
DIGESTS = {letter: f"sha256:{letter * 64}" for letter in "ab"}


@lru_cache(maxsize=1)
def library() -> Library:
    return load_library(Locations(Path(), None, (), {}), [], REGISTRY)


def word(name: str, *events: tuple[str, dict[str, Any]], **more: Any) -> str:
    numbered = [
        {"seq": seq, "type": kind, "node_id": "n", "payload": payload}
        for seq, (kind, payload) in enumerate(events)
    ]
    contract = library().resolve(name)
    (finding,) = evaluate([contract], Trace(numbered, **{"closed": True, **more}), REGISTRY)
    return "vacuous" if finding.vacuous else finding.outcome.word


def effect(name: str = "i/0", **more: Any) -> tuple[str, dict[str, Any]]:
    authority = {"rule": "approval", "approval": DIGESTS["a"]}
    return "effect_applied", {"effect_id": name, "authorized_by": authority, **more}


def write(path: str) -> tuple[str, dict[str, Any]]:
    return "file_write", {"path": path, "digest": DIGESTS["a"]}


def request(service: str | None) -> tuple[str, dict[str, Any]]:
    return "http_request", {"service": service, "method": "GET", "path": "/", "matched": True}


def egress(destination: str, verdict: str) -> tuple[str, dict[str, Any]]:
    return "egress_checked", {"destination": destination, "verdict": verdict}


def call(tool: str = "email.send", digest: str = "a", **more: Any) -> tuple[str, dict[str, Any]]:
    fields = {"side_effects": "write", "args_digest": DIGESTS[digest], "args": {}}
    return "tool_called", {"tool": tool, **fields, "decision": {"rule": "approval"}, **more}


def grant(digest: str = "a") -> tuple[str, dict[str, Any]]:
    return "approval_granted", {"artifact_digest": DIGESTS[digest]}


def deny(tool: str) -> tuple[str, dict[str, Any]]:
    return "policy_decision", {"capability": tool, "decision": "deny"}


MUTATION = "no-mutation-without-authority"
ONCE = "one-effect-per-intent"
NETWORK = "no-network-outside-declared"
OUTSIDE = "no-write-outside-workspace"
EXECUTED = "approved-is-executed"
DECIDED = "every-invocation-was-decided"
DENIED = "denied-stays-denied"
SECRET = "no-secret-leaves"


@pytest.mark.parametrize(
    ("name", "events", "expected"),
    [
        (MUTATION, [effect()], "pass"),
        (MUTATION, [call()], "vacuous"),
        (MUTATION, [effect(), effect(authorized_by={"approval": None})], "fail"),
        (ONCE, [effect("i/0"), effect("i/1"), effect("j/0")], "pass"),
        (ONCE, [effect("i/0"), effect("j/0"), effect("i/0")], "fail"),
        (ONCE, [effect("i/0"), ("effect_replayed", {"effect_id": "i/0"})], "pass"),
        (ONCE, [("effect_refused", {"effect_id": "i/0"}), effect("i/0")], "pass"),
        (NETWORK, [request("mail"), egress("sim", "allow"), egress("network", "deny")], "pass"),
        (NETWORK, [request("mail"), request(None)], "fail"),
        (NETWORK, [egress("network", "allow")], "fail"),
        (OUTSIDE, [write("a/..b/c.."), write("C")], "pass"),
        (OUTSIDE, [write("/etc/passwd")], "fail"),
        (OUTSIDE, [write("a/../../b")], "fail"),
        (OUTSIDE, [write("..")], "fail"),
        (OUTSIDE, [write("a\\..\\b")], "fail"),
        (OUTSIDE, [write("c:/b")], "fail"),
        (OUTSIDE, [write("\\\\host\\share")], "fail"),
        (EXECUTED, [grant(), call()], "pass"),
        (EXECUTED, [call(side_effects="read")], "vacuous"),
        (EXECUTED, [grant(), call(digest="b")], "fail"),
        (EXECUTED, [grant(), call(), call()], "fail"),
        (DECIDED, [call()], "pass"),
        (DECIDED, [call(), call(decision={})], "fail"),
        (DENIED, [deny("email.send"), call("web.search")], "pass"),
        (DENIED, [call(), deny("email.send")], "pass"),
        (DENIED, [deny("email.send"), call()], "fail"),
        (DENIED, [call()], "vacuous"),
        (SECRET, [call(args={"body": "hello"})], "pass"),
        (SECRET, [call(args={"body": ["the key is «secret:KEY»"]})], "fail"),
    ],
)
def test_what_a_finished_run_says(
    name: str, events: list[tuple[str, dict[str, Any]]], expected: str
) -> None:
    assert word(name, *events) == expected


@pytest.mark.parametrize("name", [MUTATION, ONCE, NETWORK, OUTSIDE, EXECUTED, DECIDED, DENIED])
def test_what_a_source_does_not_record_is_not_known(name: str) -> None:
    assert word(name, coverage=frozenset({"run_finished"})) == "indeterminate"


@pytest.mark.parametrize("name", [MUTATION, ONCE, NETWORK, OUTSIDE, EXECUTED, DECIDED, DENIED])
def test_a_run_that_goes_on_is_not_known(name: str) -> None:
    assert word(name, closed=False) == "indeterminate"


@pytest.mark.parametrize(
    "name", [MUTATION, ONCE, NETWORK, OUTSIDE, EXECUTED, DECIDED, DENIED, SECRET]
)
def test_each_has_an_owner_and_says_why(name: str) -> None:
    contract = library().resolve(name)
    assert contract.owner
    assert contract.rationale
    assert contract.gate
    assert contract.severity is Severity.CRITICAL


# -- corpora and mutants ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", library().ids())
def test_each_is_owned_reasoned_and_tried_by_every_kind(name: str) -> None:
    contract = library().resolve(name)
    for key in ("title", "description", "owner", "rationale", "threat"):
        assert getattr(contract, key), key
    corpus = library().corpus_of(contract)
    assert corpus is not None
    assert all(corpus.of_kind(kind) for kind in KINDS)
    assert not contract.untested
    problems = [one.problem for one in library().corpus_results(contract) if one.problem]
    assert problems == []
    assert library().why_broken(contract) is None


def test_a_corpus_of_a_contract_that_is_none_would_be_noticed() -> None:
    """The files of corpora name packaged contracts and nothing else."""
    folder = Path(contract_package.__file__).parent / "packaged"
    for path in (folder / "corpora").glob("*.yaml"):
        named = set(load_document(path).value["corpora"])
        defined = set(load_document(folder / path.name).value["contracts"])
        assert named == defined


@lru_cache(maxsize=1)
def mutants() -> list[EntryMutants]:
    contracts = [library().resolve(name) for name in library().ids()]
    tested = [(one, corpus) for one in contracts if (corpus := library().corpus_of(one))]
    return mutate(tested, contracts, REGISTRY)


@pytest.mark.parametrize("name", library().ids())
def test_nine_of_ten_mutants_of_each_are_noticed_and_the_others_have_their_reason(
    name: str,
) -> None:
    own = [one for one in mutants() if one.contract == name]
    counts = tally(own)
    assert counts.total
    assert 10 * counts.noticed >= 9 * counts.total
    assert counts.bare == 0
    assert [one.problem for one in own if one.problem] == []
    noted = {key for one in own for key in (*one.entry.survives, *one.entry.unnoticed)}
    left = {one.name for entry in own for one in entry.mutants if not one.is_noticed}
    assert noted == left, "each note is on a mutant that nobody notices"


def test_nine_of_ten_mutants_of_all_are_noticed_and_by_every_way_of_changing_a_run() -> None:
    counts = tally(mutants())
    assert 10 * counts.noticed >= 9 * counts.total
    # Not by vacuity alone: most are seen to break something.
    assert 10 * (counts.noticed - counts.vacuous) >= 7 * counts.total
    ways = {one.name.partition("[")[0] for entry in mutants() for one in entry.mutants}
    assert ways == {"drop", "double", "swap", "alter"}


COVERED = "rule-covers-side-effects"
FOLLOWS = "effect-follows-its-call"


@pytest.mark.parametrize(
    "name", [EXECUTED, ONCE, DECIDED, DENIED, NETWORK, SECRET, COVERED, FOLLOWS]
)
def test_each_of_these_notices_what_no_other_does(name: str) -> None:
    of_all = [one for entry in mutants() for one in entry.mutants]
    assert any({who for who, _ in one.noticed_by} == {name} for one in of_all)


@pytest.mark.parametrize("name", [EXECUTED, ONCE, DECIDED])
def test_the_library_without_one_of_its_contracts_notices_less(name: str) -> None:
    rest = [one for one in map(library().resolve, library().ids()) if one.id != name]
    tested = [(one, corpus) for one in rest if (corpus := library().corpus_of(one))]
    others = tally([one for one in mutants() if one.contract != name])
    assert tally(mutate(tested, rest, REGISTRY)).noticed < others.noticed


def test_a_contract_that_is_too_weak_leaves_mutants_without_a_reason() -> None:
    approval = library().resolve("approval-precedes-send")
    corpus = library().corpus_of(approval)
    assert corpus is not None
    (alone,) = mutate([(approval, corpus)], [approval], REGISTRY)
    bare = {one.name: one for one in alone.mutants if not one.is_noticed}
    assert set(bare) == {"double[1]"}
    assert bare["double[1]"].aims == ("second of approval-precedes-send",)
    # With the one that counts approvals, the second send is noticed.
    both = [approval, library().resolve(EXECUTED)]
    (together,) = mutate([(approval, corpus)], both, REGISTRY)
    assert all(one.is_noticed for one in together.mutants)


# -- no mutant that a contract would notice is left out --------------------------------------------


def changed_by_force(entry: CorpusEntry, values: dict[str, list[Any]]) -> Iterator[tuple[str, Any]]:
    """Every change of an entry that can be thought of, whether or not anybody would mind."""
    own = list(entry.events)
    for at in range(len(own)):
        yield f"drop[{at}]", own[:at] + own[at + 1 :]
        yield f"double[{at}]", own[: at + 1] + own[at:]
    for at in range(len(own) - 1):
        yield f"swap[{at},{at + 1}]", [*own[:at], own[at + 1], own[at], *own[at + 2 :]]
    for at, event in enumerate(own):
        for path, value in leaves(event["payload"]):
            for other in values[f"{event['type']}.{'.'.join(path)}"]:
                if type(other) is type(value) and other != value:
                    altered = copy.deepcopy(event)
                    inner: Any = altered["payload"]
                    for key in path[:-1]:
                        inner = inner[key]
                    inner[path[-1]] = other
                    yield f"alter[{at}] {'.'.join(path)}", [*own[:at], altered, *own[at + 1 :]]


def leaves(value: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, item in value.items():
        if isinstance(item, dict) and item:
            yield from leaves(item, (*above, key))
        else:
            yield (*above, key), item


def all_values() -> dict[str, list[Any]]:
    """What each field holds in any entry of any corpus, and some that it holds in none."""
    found: dict[str, list[Any]] = {}
    for name in library().ids():
        corpus = library().corpus_of(library().resolve(name))
        assert corpus is not None
        for entry in corpus.entries:
            for event in entry.events:
                for path, value in leaves(event["payload"]):
                    known = found.setdefault(f"{event['type']}.{'.'.join(path)}", [])
                    known += [one for one in (value, "another", 1, 99) if one not in known]
    return found


def test_whatever_a_contract_would_notice_is_a_mutant() -> None:
    contracts = [library().resolve(name) for name in library().ids()]
    evaluator = Evaluator(contracts, REGISTRY)
    values = all_values()
    tried = noticed = 0
    for made in mutants():
        contract = library().resolve(made.contract)
        whole = trace_of(made.entry, contract, REGISTRY)
        end = list(whole.events)[len(made.entry.events) :]
        before = [one.outcome.word for one in evaluator.evaluate(whole)]
        names = {one.name.partition("=")[0] for one in made.mutants}
        for name, events in changed_by_force(made.entry, values):
            numbered = [{**event, "seq": seq} for seq, event in enumerate([*events, *end])]
            after = [one.outcome.word for one in evaluator.evaluate(Trace(numbered, closed=True))]
            tried += 1
            if any(was == "pass" != now for was, now in zip(before, after, strict=True)):
                noticed += 1
                assert name in names, f"{made.label} {name}"
    # The twin: much of what can be thought of changes nothing for anybody.
    assert noticed > 300
    assert tried - noticed > 300


def test_the_page_is_what_the_library_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "library.md"
    assert main(["contracts", "list", "--packaged", "--markdown"]) == 0
    assert page.read_text(encoding="utf-8") == capsys.readouterr().out

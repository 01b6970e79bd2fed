"""An id means one contract: layers may repeat it, never change or soften it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.contract.library import Library, check_library_file, load_library
from pytest_evarness.core.interfaces import Locations
from pytest_evarness.core.registry import Registry, load_registry
from pytest_evarness.errors import InputError

PUBLISHED = (
    Path(__file__).parents[2].parent / "shared" / "data" / "evarness" / "approval_gated_send"
)
TRIED = """    corpus:
      positive: {ends: [{type: run_finished}]}
      negative: {fails: [{type: run_failed}]}
      missing_evidence: {goes-on: {events: [{type: run_started}], open: true}}
"""
ENDS = f"contracts:\n  ends:\n    assert: {{eventually: {{type: run_finished}}}}\n{TRIED}"
TRIED_SEND = """    corpus:
      positive: {stopped: [&no {type: approval_rejected, node: g}]}
      negative: {sent: [*no, {type: tool_called, node: s, tool: email.send}]}
      missing_evidence: {goes-on: {events: [*no], open: true}}
"""
SAME = f"""invariants:
  no-send-after-rejection:
    assert:
      never: {{type: tool_called, where: {{tool: email.send}}, after: {{type: approval_rejected}}}}
{TRIED_SEND}"""
OTHER = f"""contracts:
  no-send-after-rejection:
    assert: {{never: {{type: tool_called, where: {{tool: email.send}}}}}}
{TRIED_SEND}"""


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("home", "contracts", "beside"):
        (tmp_path / name).mkdir()
    return tmp_path


def library(root: Path, registry: Registry, **variables: str) -> Library:
    where = Locations(root, root / "home", (), variables)
    return load_library(where, [Path("contracts")], registry)


def write(root: Path, name: str, text: str) -> None:
    (root / name).write_text(text, encoding="utf-8")


def test_every_packaged_contract_loads_against_the_installed_vocabulary(registry: Registry) -> None:
    found = load_library(Locations(Path(), None, (), {}), [], registry)
    assert found.errors == []
    assert all(found.resolve(name).label == "packaged" for name in found.ids())
    assert "approved-is-executed" in found.ids()


@pytest.mark.parametrize(
    ("name", "label", "shown"),
    [
        ("home/contracts.yaml", "home", "~/.evarness/contracts.yaml"),
        ("home/invariants.yaml", "home", "~/.evarness/invariants.yaml"),
        ("contracts/deep.yaml", "project", "contracts/deep.yaml"),
    ],
)
def test_each_layer_is_read_and_names_its_file(
    root: Path, registry: Registry, name: str, label: str, shown: str
) -> None:
    write(root, name, ENDS)
    found = library(root, registry).resolve("ends")
    assert (found.label, found.path, found.line) == (label, shown, 2)


@pytest.mark.parametrize("variable", ["EVARNESS_CONTRACTS", "EVARNESS_INVARIANTS"])
def test_a_variable_names_a_file_or_a_folder(root: Path, registry: Registry, variable: str) -> None:
    (root / "set").mkdir()
    write(root, "set/ends.yaml", ENDS)
    for target in ("set", "set/ends.yaml"):
        assert library(root, registry, **{variable: target}).resolve("ends").label == "variable"


def test_two_names_for_one_layer_are_an_error(root: Path, registry: Registry) -> None:
    found = library(root, registry, EVARNESS_CONTRACTS="a.yaml", EVARNESS_INVARIANTS="b.yaml")
    assert "both set" in str(found.errors[0])
    write(root, "beside/contracts.yaml", ENDS)
    write(root, "beside/invariants.yaml", ENDS)
    with pytest.raises(
        InputError, match=r"^beside/invariants.yaml: stands beside 'contracts.yaml'"
    ):
        library(root, registry).resolve("ends", beside=[root / "beside"])


def test_the_same_id_with_the_same_assertion_is_fine_and_the_higher_layer_wins(
    root: Path, registry: Registry
) -> None:
    write(root, "beside/invariants.yaml", SAME)
    found = library(root, registry)
    beside = [root / "beside"]
    assert found.resolve("no-send-after-rejection").label == "packaged"
    assert found.resolve("no-send-after-rejection", beside=beside).label == "beside"


def test_another_assertion_under_a_known_id_is_refused(root: Path, registry: Registry) -> None:
    write(root, "contracts/mine.yaml", OTHER)
    with pytest.raises(InputError, match=r"^contracts/mine.yaml:3:5: .*says something else than"):
        library(root, registry).resolve("no-send-after-rejection")


@pytest.mark.parametrize(
    ("more", "key"),
    [("gate: false", "gate"), ("status: deprecated", "status"), ("status: draft", "gate")],
)
def test_what_is_hard_below_cannot_be_softened(
    root: Path, registry: Registry, more: str, key: str
) -> None:
    write(root, "contracts/mine.yaml", f"{SAME}    {more}\n")
    with pytest.raises(
        InputError, match=rf"{key}: softens 'no-send-after-rejection', which is hard"
    ):
        library(root, registry).resolve("no-send-after-rejection")


def test_one_id_twice_in_one_layer_is_refused(root: Path, registry: Registry) -> None:
    write(root, "contracts/a.yaml", ENDS)
    write(root, "contracts/b.yaml", ENDS)
    with pytest.raises(
        InputError, match=r"^contracts/b.yaml:2:3: .*defined in contracts/a.yaml:2 too"
    ):
        library(root, registry).resolve("ends")


def test_an_unknown_id_names_the_nearest_and_the_files_that_did_not_load(
    root: Path, registry: Registry
) -> None:
    write(root, "contracts/a.yaml", "contracts:\n  x: {assert: {nevr: {}}}\n")
    found = library(root, registry)
    with pytest.raises(
        InputError, match=r"^unknown contract \(got 'run-complets'; known: "
    ) as caught:
        found.resolve("run-complets")
    assert caught.value.fix == "write 'run-completes'"
    assert "contracts/a.yaml could not be read in full" in str(caught.value)


def test_a_broken_contract_breaks_no_other(root: Path, registry: Registry) -> None:
    write(root, "contracts/a.yaml", ENDS + "  broken: {assert: {nevr: {}}}\n")
    found = library(root, registry)
    assert found.resolve("ends").id == "ends"
    with pytest.raises(InputError, match=r"unknown key \(got 'nevr'"):
        found.resolve("broken")


def test_identities_are_checked_when_a_contract_is_resolved(root: Path, registry: Registry) -> None:
    found = library(root, registry)
    known = {"tool": frozenset({"email.sent"})}
    with pytest.raises(
        InputError, match=r"unknown tool \(got 'email.send'; declared: email.sent\)"
    ):
        found.resolve("approval-precedes-send", identities=known)
    assert found.resolve("run-completes", identities=known) is found.resolve(
        "run-completes", identities=dict(known)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]\n", "must be a mapping (got []"),
        ("{}\n", "the key 'contracts' is missing"),
        ("contracts: {}\ninvariants: {}\n", "stands beside 'contracts'"),
        ("contract: {}\n", "unknown key (got 'contract'"),
        ("contracts: []\n", "must be a mapping of id to contract"),
        ("contracts:\n  a: {assert: {}}\n  a: {assert: {}}\n", "a"),
    ],
)
def test_a_file_of_another_shape_is_refused(
    root: Path, registry: Registry, text: str, message: str
) -> None:
    write(root, "contracts/a.yaml", text)
    with pytest.raises(InputError) as caught:
        check_library_file(root / "contracts/a.yaml", registry, root=root)
    assert str(caught.value).startswith("contracts/a.yaml")
    assert message in str(caught.value)


def test_a_library_contract_without_owner_and_rationale_gets_a_warning(
    root: Path, registry: Registry
) -> None:
    write(root, "contracts/a.yaml", ENDS)
    (warning,) = library(root, registry).warnings
    assert warning == "contracts/a.yaml:2: contract 'ends' has no owner and no rationale"


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published example is absent")
def test_published_invariants_load_unchanged(root: Path, registry: Registry) -> None:
    found: Any = library(root, registry)
    for name in ("approval-precedes-send", "no-model-call-after-block", "no-send-after-rejection"):
        assert found.resolve(name, beside=[PUBLISHED]).id == name

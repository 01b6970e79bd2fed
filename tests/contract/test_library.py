"""An id means one contract: layers may repeat it, never change or soften it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.contract.applicability import CaseFacts
from pytest_evarness.contract.library import (
    Library,
    changed_files,
    check_library_file,
    load_library,
)
from pytest_evarness.contract.row import override_rows
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


# -- overrides -------------------------------------------------------------------------------------

NAME = "no-send-after-rejection"
HARDER = f"""contracts:
  {NAME}:
    version: 2
    overrides: {NAME}@1
    assert:
      never:
        type: tool_called
        where: {{tool: {{in: [email.send, crm.mail]}}}}
        after: {{type: approval_rejected}}
"""


def override(root: Path, registry: Registry, text: str, name: str = "beside") -> Any:
    write(root, f"{name}/contracts.yaml", text)
    return library(root, registry).resolve(NAME, beside=[root / "beside"])


def test_an_override_names_what_it_replaces_and_keeps_it_in_mind(
    root: Path, registry: Registry
) -> None:
    found = override(root, registry, HARDER)
    assert (found.version, found.label, found.overrides) == (2, "beside", f"{NAME}@1")
    assert [one.label for one in found.replaced] == ["packaged"]
    (row,) = override_rows(found)
    assert (row.version, row.replaced_version) == (2, 1)
    assert row.replaced_origin == "packaged/approval.yaml"
    assert row.definition != row.replaced


def test_overrides_on_the_way_are_all_kept(root: Path, registry: Registry) -> None:
    write(root, "home/contracts.yaml", HARDER)
    third = HARDER.replace("version: 2", "version: 3").replace(f"{NAME}@1", f"{NAME}@2")
    found = override(root, registry, third.replace("crm.mail", "crm.post"))
    assert [one.version for one in found.replaced] == [1, 2]
    assert [(row.version, row.replaced_version) for row in override_rows(found)] == [(2, 1), (3, 2)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((f"{NAME}@1", f"{NAME}@3"), "names another definition than the one in packaged"),
        ((f"overrides: {NAME}@1", "title: x"), "says something else than"),
        ((f"overrides: {NAME}@1", "gate: false"), "says something else than"),
        (("    assert", "    vacuous: pass\n    applies_to: {tools: [email.send]}\n    assert"),
         "is for fewer cases than"),
        (("    assert", "    applies_to: {always: true}\n    assert"), None),
        (("    assert", "    vacuous: fail\n    assert"), None),
        (("    assert", "    severity: minor\n    assert"), None),
    ],
)  # fmt: skip
def test_what_an_override_may_say(
    root: Path, registry: Registry, change: tuple[str, str], said: str | None
) -> None:
    text = HARDER.replace(*change)
    if said is None:
        assert override(root, registry, text).replaced
        return
    with pytest.raises(InputError) as caught:
        override(root, registry, text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("gate: false", "gate: an override is a gate and active (got false"),
        ("status: draft", "status: an override is a gate and active (got 'draft'"),
        ("status: deprecated", "status: an override is a gate and active (got 'deprecated'"),
        ("overrides: x", 'overrides: must be ID@VERSION (got "x"'),
        ("overrides: other@1", "overrides: an override keeps the id of what it replaces"),
    ],
)
def test_an_override_is_hard_and_of_its_own_id(
    root: Path, registry: Registry, more: str, said: str
) -> None:
    text = HARDER.replace("    version: 2\n", f"    version: 2\n    {more}\n")
    if more.startswith("overrides"):
        text = text.replace(f"    overrides: {NAME}@1\n", "")
    with pytest.raises(InputError) as caught:
        override(root, registry, text)
    assert said in str(caught.value)


def test_what_a_lower_layer_counts_a_vacuous_pass_as_stays(root: Path, registry: Registry) -> None:
    strict = HARDER.replace("    assert", "    vacuous: indeterminate\n    assert")
    write(root, "home/contracts.yaml", strict)
    third = HARDER.replace("version: 2", "version: 3").replace(f"{NAME}@1", f"{NAME}@2")
    with pytest.raises(InputError, match=r"vacuous: softens .*its vacuous pass counts as indeterm"):
        override(root, registry, third)
    kept = third.replace("    assert", "    vacuous: fail\n    assert")
    assert override(root, registry, kept).vacuous == "fail"


@pytest.mark.parametrize(
    ("below", "above", "is_refused"),
    [
        ("{tools: [a, b]}", "{tools: [a]}", True),
        ("{tools: [a, b]}", None, True),
        ("{tools: [a, b]}", "{tools: [a, b, c]}", False),
        ("{tools: [a], tags: [x]}", "{tools: [a]}", False),
        ("{always: true}", "{tools: [a]}", True),
        (None, "{tools: [a]}", True),
        (None, None, False),
    ],
)
def test_a_higher_layer_is_for_no_fewer_cases(
    root: Path, registry: Registry, below: str | None, above: str | None, is_refused: bool
) -> None:
    def text(version: int, applies_to: str | None) -> str:
        more = f"    applies_to: {applies_to}\n" if applies_to else ""
        over = f"    overrides: ends@{version - 1}\n" if version > 1 else ""
        body = f"    assert: {{eventually: {{type: run_finished, where: {{events: {version}}}}}}}"
        return f"contracts:\n  ends:\n    version: {version}\n{over}{more}{body}\n"

    write(root, "home/contracts.yaml", text(1, below))
    write(root, "beside/contracts.yaml", text(2, above))
    found = library(root, registry)
    if is_refused:
        with pytest.raises(InputError, match="is for fewer cases than 'ends' in"):
            found.resolve("ends", beside=[root / "beside"])
    else:
        assert found.resolve("ends", beside=[root / "beside"]).version == 2


def test_a_file_of_a_layer_is_refused_though_nobody_names_its_contract(
    root: Path, registry: Registry
) -> None:
    write(root, "contracts/mine.yaml", OTHER)
    found = library(root, registry)
    assert "says something else than" in str(found.errors[0])
    assert list(found.mistakes) == [root / "contracts/mine.yaml"]
    # The twin: an override of it is none.
    changed = OTHER.replace("    assert", f"    version: 2\n    overrides: {NAME}@1\n    assert")
    write(root, "contracts/mine.yaml", changed)
    assert library(root, registry).errors == []


def test_an_override_that_says_something_else_has_a_version_of_its_own(
    root: Path, registry: Registry
) -> None:
    same = OTHER.replace("    assert", f"    overrides: {NAME}@1\n    assert")
    write(root, "contracts/mine.yaml", same)
    (error,) = library(root, registry).errors
    assert "has the version of 'no-send-after-rejection' in packaged/" in str(error)
    assert "(got 1; a requirement that changes is a new version)" in str(error)
    assert "try: write 'version: 2'" in str(error)


def test_an_override_of_nothing_is_refused(root: Path, registry: Registry) -> None:
    write(root, "contracts/a.yaml", ENDS.replace("    assert", "    overrides: ends@1\n    assert"))
    assert "overrides nothing (got 'ends@1'" in str(library(root, registry).errors[0])


# -- corpora of layers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "needs_one"),
    [
        ("contracts/a.yaml", True),
        ("home/contracts.yaml", False),
        ("beside/contracts.yaml", False),
        ("set/a.yaml", False),
    ],
)
def test_only_contracts_of_the_project_need_a_corpus(
    root: Path, registry: Registry, place: str, needs_one: bool
) -> None:
    (root / "set").mkdir()
    write(root, place, ENDS.replace(TRIED, ""))
    found = library(root, registry, EVARNESS_CONTRACTS="set")
    if needs_one:
        with pytest.raises(InputError, match=r"nothing tests this one .one entry at least of posi"):
            found.resolve("ends")
        return
    contract = found.resolve("ends", beside=[root / "beside"])
    assert contract.untested
    write(root, place, ENDS)
    assert (
        not library(root, registry, EVARNESS_CONTRACTS="set")
        .resolve("ends", beside=[root / "beside"])
        .untested
    )


@pytest.mark.parametrize("kind", ["positive", "negative", "missing_evidence"])
def test_each_kind_is_needed_but_by_a_draft(root: Path, registry: Registry, kind: str) -> None:
    text = "".join(line for line in ENDS.splitlines(True) if f" {kind}:" not in line)
    write(root, "contracts/a.yaml", text)
    with pytest.raises(InputError, match=rf"the corpus is not complete .one entry .*{kind};"):
        library(root, registry).resolve("ends")
    write(root, "contracts/a.yaml", text.replace("    assert", "    status: draft\n    assert"))
    assert library(root, registry).resolve("ends").status == "draft"


def test_a_contract_that_fails_its_own_corpus_says_which_entry(
    root: Path, registry: Registry
) -> None:
    write(root, "contracts/a.yaml", ENDS)
    found = library(root, registry)
    assert found.why_broken(found.resolve("ends")) is None
    write(root, "contracts/a.yaml", ENDS.replace("fails: [{type: run_failed}]", "f: []"))
    found = library(root, registry)
    why = str(found.why_broken(found.resolve("ends")))
    assert why.startswith("it fails its own corpus, so it judges nothing: negative[f] gave pass")
    row = found.corpus_row(found.resolve("ends"))
    assert row is not None
    assert (row.entries, row.failed) == (3, ("negative[f]",))


# -- what is pulled in -----------------------------------------------------------------------------

EMAIL = CaseFacts(tools=frozenset({"email.send"}))


@pytest.mark.parametrize(
    ("place", "more", "is_pulled_in"),
    [
        ("contracts/a.yaml", "applies_to: {tools: [email.send]}", True),
        ("home/contracts.yaml", "applies_to: {always: true}", True),
        ("beside/contracts.yaml", "applies_to: {modes: [release]}", True),
        ("contracts/a.yaml", "applies_to: {tools: [web.search]}", False),
        ("contracts/a.yaml", "severity: minor", False),
        ("contracts/a.yaml", "status: deprecated\n    applies_to: {always: true}", False),
    ],
)
def test_a_library_brings_what_says_that_it_is_for_the_case(
    root: Path, registry: Registry, place: str, more: str, is_pulled_in: bool
) -> None:
    write(root, place, ENDS.replace("    assert", f"    {more}\n    assert"))
    found = library(root, registry).pulled_in(EMAIL, [root / "beside"])
    assert found == (["ends"] if is_pulled_in else [])


def test_which_of_many_broken_ones_is_told_does_not_depend_on_the_hash_seed(
    root: Path, registry: Registry
) -> None:
    # With so many, an order by hash would begin with the first name once in two hundred times.
    names = [f"c{at:03}" for at in range(200)]
    for place, name in (("beside/contracts.yaml", "a"), ("var.yaml", "b")):
        body = f"{{applies_to: {{always: true}}, assert: {{never: {{type: custom.{name}}}}}}}"
        write(root, place, "contracts:\n" + "".join(f"  {one}: {body}\n" for one in names))
    found = library(root, registry, EVARNESS_CONTRACTS="var.yaml")
    with pytest.raises(InputError, match=r"c000\b"):
        found.pulled_in(EMAIL, [root / "beside"])


def test_packaged_contracts_judge_only_where_they_are_named(root: Path, registry: Registry) -> None:
    facts = CaseFacts(node_types=frozenset({"interceptor"}))
    found = library(root, registry)
    assert found.resolve("redaction-precedes-model").applies_to is not None
    assert found.pulled_in(facts) == []


def test_a_project_may_bring_a_packaged_contract_by_repeating_it(
    root: Path, registry: Registry
) -> None:
    write(root, "contracts/a.yaml", SAME + "    applies_to: {tools: [email.send]}\n")
    found = library(root, registry)
    # It would limit where the packaged one judges, which is everywhere.
    assert "is for fewer cases than" in str(found.errors[0])
    write(root, "contracts/a.yaml", SAME + "    applies_to: {always: true}\n")
    assert library(root, registry).pulled_in(EMAIL) == [NAME]


# -- what changes on disk --------------------------------------------------------------------------


def test_files_that_are_not_what_was_read_are_named(root: Path, registry: Registry) -> None:
    outside = root.parent / f"{root.name}-outside"
    outside.mkdir()
    write(outside, "o.yaml", ENDS.replace("ends:", "outside:"))
    write(root, "contracts/a.yaml", ENDS)
    write(root, "contracts/b.yaml", ENDS.replace("ends:", "others:"))
    write(root, "home/contracts.yaml", ENDS.replace("ends:", "home:"))
    where = Locations(root, root / "home", (), {"EVARNESS_CONTRACTS": str(outside)})
    found = load_library(where, [Path("contracts")], registry)
    rows = [(name, digest) for _, name, digest in found.in_force()]
    assert [name for name, _ in rows] == [
        "~/.evarness/contracts.yaml",
        "contracts/a.yaml",
        "contracts/b.yaml",
        "$EVARNESS_CONTRACTS/o.yaml",
    ]
    assert changed_files(rows, where, [Path("contracts")]) == []
    write(root, "contracts/a.yaml", ENDS + "# and more\n")
    (root / "contracts/b.yaml").unlink()
    write(root, "contracts/c.yaml", ENDS)
    write(outside, "o.yaml", ENDS)
    assert changed_files(rows, where, [Path("contracts")]) == [
        "$EVARNESS_CONTRACTS/o.yaml: changed",
        "contracts/a.yaml: changed",
        "contracts/b.yaml: is gone",
        "contracts/c.yaml: is new",
    ]


def test_a_file_that_brings_nothing_is_in_force_where_it_is_used(
    root: Path, registry: Registry
) -> None:
    write(root, "contracts/a.yaml", "contracts: {}\n")
    old = ENDS.replace("    assert", "    status: deprecated\n    assert")
    write(root, "contracts/b.yaml", old)
    where = Locations(root, None, (), {})
    found = load_library(where, [Path("contracts")], registry)
    assert found.in_force() == ()
    assert [name for _, name, _ in found.in_force((), ["contracts/b.yaml"])] == ["contracts/b.yaml"]
    assert [name for name, _ in found.idle] == ["contracts/a.yaml", "contracts/b.yaml"]
    # What becomes of it is told all the same.
    write(root, "contracts/a.yaml", ENDS)
    assert changed_files(found.idle, where, [Path("contracts")]) == ["contracts/a.yaml: changed"]
    # The twin: one that judges is in force.
    found = load_library(where, [Path("contracts")], registry)
    assert [name for _, name, _ in found.in_force()] == ["contracts/a.yaml"]


@pytest.mark.parametrize(("version", "is_lower"), [(1, True), (2, True), (4, False)])
def test_an_override_has_no_lower_version_than_what_it_replaces(
    root: Path, registry: Registry, version: int, is_lower: bool
) -> None:
    write(root, "home/contracts.yaml", ENDS.replace("    assert", "    version: 3\n    assert"))
    over = f"    version: {version}\n    overrides: ends@3\n    assert"
    write(root, "contracts/a.yaml", OTHER.replace(NAME, "ends").replace("    assert", over))
    found = load_library(Locations(root, root / "home", (), {}), [Path("contracts")], registry)
    told = [str(error) for error in found.errors]
    assert any("is lower than that of 'ends' in " in one for one in told) is is_lower, told
    assert any("write 'version: 4'" in one for one in told) is is_lower
    assert bool(told) is is_lower


def test_a_version_that_was_replaced_does_not_come_back_with_another_meaning(
    root: Path, registry: Registry
) -> None:
    second = OTHER.replace("    assert", f"    version: 2\n    overrides: {NAME}@1\n    assert")
    write(root, "contracts/mine.yaml", second)
    third = "\n".join(
        [
            "contracts:",
            f"  {NAME}:",
            "    version: 1",
            f"    overrides: {NAME}@2",
            "    assert: {never: {type: budget_breached}}",
            "",
        ]
    )
    write(root, "third.yaml", third)
    (error,) = library(root, registry, EVARNESS_CONTRACTS="third.yaml").errors
    assert f"has the version of '{NAME}' in packaged/" in str(error)
    assert "try: write 'version: 3'" in str(error)
    # The twin: a version that nobody has.
    write(root, "third.yaml", third.replace("version: 1", "version: 3"))
    assert library(root, registry, EVARNESS_CONTRACTS="third.yaml").errors == []

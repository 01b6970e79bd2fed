"""``contracts`` shows the library in force, ``mutate`` what it misses, ``lint`` its mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from pytest_evarness.source.document import parse_yaml
from tests.plugin.scenarios import echo, gated, write
from tests.plugin.test_corpora import APPROVED, ENDS, GRANTED, SENT, changed, library, wrong

if TYPE_CHECKING:
    from tests.cli.conftest import Command

HERE = Path(__file__).parents[2]
SECOND = changed(
    ENDS,
    version=2,
    overrides="run-completes@1",
    history=[{"version": 2, "date": "2026-11-30", "change": "counts its events"}],
)
SECOND["assert"] = {"eventually": {"type": "run_finished", "where": {"events": {"gte": 1}}}}
SECOND["corpus"]["positive"] = {"ends": [{"type": "run_finished", "events": 2}]}


# -- contracts -----------------------------------------------------------------------------------


def test_list_says_where_each_comes_from_and_what_tests_it(command: Command) -> None:
    write(Path("contracts/a.yaml"), library(sent=APPROVED, **{"run-completes": SECOND}))
    done = command("contracts", "list")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    (sent,) = (line for line in lines if line.startswith("sent@1"))
    assert sent.split()[1:6] == ["hard", "critical", "4", "entries", "contracts/a.yaml:3"]
    assert " ".join(sent.split()[6:]) == "(project) for tools email.send"
    at = next(index for index, line in enumerate(lines) if line.startswith("run-completes@2"))
    assert lines[at + 1].strip() == "in the place of run-completes@1, packaged/run.yaml:3"
    # Columns stand below each other, whatever the rows hold.
    assert len({line.index(" hard") for line in lines if " hard" in line}) == 1
    packaged = command("contracts", "list", "--packaged").out
    assert "sent@1" not in packaged
    records = {row["id"]: row for row in command("contracts", "list", "--json").json}
    assert records["sent"]["corpus"]["entries"] == 4
    assert records["run-completes"]["replaced"][0]["version"] == 1


def test_a_folder_beside_is_in_force_too(command: Command) -> None:
    bare = {key: value for key, value in ENDS.items() if key != "corpus"}
    write(Path("scenarios/contracts.yaml"), library(ends=bare))
    assert "ends@1" not in command("contracts", "list").out
    done = command("contracts", "list", "--beside", "scenarios")
    (line,) = (line for line in done.out.splitlines() if line.startswith("ends@1"))
    assert line.split()[1:4] == ["hard", "major", "untested"]
    assert line.endswith("  scenarios/contracts.yaml:3 (beside)")
    assert command("contracts", "list", "--beside", "nowhere").code == 2


def test_a_library_with_mistakes_is_told_and_the_rest_is_listed(command: Command) -> None:
    write(Path("contracts/a.yaml"), library(ends=ENDS, bad={"asert": {}}))
    done = command("contracts", "list")
    assert (done.code, "ends@1" in done.out) == (1, True)
    assert "contracts.bad: unknown key (got 'asert'" in done.err


def test_show_says_everything_of_one(command: Command) -> None:
    write(Path("contracts/a.yaml"), library(bad=wrong(ENDS), sent=APPROVED))
    shown = command("contracts", "show", "sent").out
    for text in (
        "sent@1",
        "rationale:   Nobody's mailbox speaks",
        "needs:       approval_granted, tool_called",
        "where: {artifact_digest: $d}",
        "ok     negative[swapped-draft]",
        "applies to:  tools email.send",
        "status:      active, a gate",
    ):
        assert text in shown
    bad = command("contracts", "show", "bad").out
    assert "FAILS its corpus" in bad
    assert "WRONG  negative[not-really] gave pass, fail is needed" in bad
    assert command("contracts", "show", "sent", "--json").json["layer"] == "project"


def test_history_is_what_the_file_says_and_what_stands_below(command: Command) -> None:
    write(Path("contracts/a.yaml"), library(**{"run-completes": SECOND}))
    lines = command("contracts", "history", "run-completes").out.splitlines()
    assert lines[1] == "  version 2, in force  2026-11-30  counts its events"
    assert lines[2].strip() == "contracts/a.yaml:3 (project)"
    assert lines[3] == "  version 1            2026-11-30  first released"
    assert lines[4].strip() == "packaged/run.yaml:3"
    assert (
        "  history:\n    version 2, in force" in command("contracts", "show", "run-completes").out
    )
    rows = command("contracts", "history", "run-completes", "--json").json
    assert [row["version"] for row in rows] == [2, 1]


def test_long_texts_are_wrapped_below_each_other_and_a_deprecated_one_says_what_it_does(
    command: Command,
) -> None:
    words = "why " * 60
    old = changed(APPROVED, status="deprecated", rationale=words.strip())
    write(Path("contracts/a.yaml"), library(sent=old))
    lines = command("contracts", "show", "sent").out.splitlines()
    assert max(map(len, lines)) <= 100
    at = next(at for at, line in enumerate(lines) if line.startswith("  rationale:   why"))
    assert lines[at + 1].startswith(" " * 15 + "why")
    assert "  status:      deprecated: judges where it is named, with a warning" in lines
    listed = command("contracts", "list").out
    assert next(line for line in listed.splitlines() if "sent@1" in line).split()[1] == "deprecated"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show",), "contracts show needs the id of a contract"),
        (("list", "x"), "contracts list names no contract"),
        (("show", "run-complets"), "write 'run-completes'"),
        (("show", "run-completes", "--packaged"), "go with 'contracts list'"),
        (("history", "run-completes", "--markdown"), "go with 'contracts list'"),
    ],
)
def test_wrong_words_are_wrong_use(command: Command, words: tuple[str, ...], said: str) -> None:
    done = command("contracts", *words)
    assert done.code == 2
    assert said in done.err


def test_a_page_of_a_projects_own_library(command: Command) -> None:
    write(Path("contracts/a.yaml"), library(sent=APPROVED, forever=noted()))
    page = command("contracts", "list", "--markdown").out
    assert "## sent\n" in page
    assert "| negative | `swapped-draft` |" in page
    assert "mutants of its positive entries are noticed.\n" in page
    write(Path("contracts/a.yaml"), library(forever=noted()))
    page = command("contracts", "list", "--markdown").out
    assert "`approved` `double[1]` | a gap | no note says why" in page


# -- mutate --------------------------------------------------------------------------------------


def noted(**more: Any) -> dict[str, Any]:
    """One approval is enough for any number of sends, which is a gap until somebody says why."""
    copy = changed(APPROVED)
    del copy["assert"]["precedes"]["fresh"]
    copy["corpus"]["positive"] = {"approved": {"events": [GRANTED, SENT], **more}}
    return copy


def test_mutate_lists_what_nobody_notices(command: Command) -> None:
    write(Path("contracts/a.yaml"), library(sent=noted()))
    done = command("mutate", "contracts")
    assert done.code == 1
    lines = Path("contracts/a.yaml").read_text(encoding="utf-8").splitlines()
    line = next(at for at, text in enumerate(lines, 1) if '"approved": {' in text)
    assert done.out.splitlines()[0] == (
        f"contracts/a.yaml:{line}: UNNOTICED: sent::positive[approved] double[1]:"
        " event 1 (tool_called) twice - second of sent, which passes all the same"
    )
    write(Path("contracts/a.yaml"), library(sent=noted(survives={"double[1]": "one is enough"})))
    done = command("mutate", "contracts/a.yaml")
    assert (done.code, len(done.out.splitlines())) == (0, 1)
    assert "1 as good as the entry" in done.out
    write(Path("contracts/a.yaml"), library(sent=noted(unnoticed={"double[1]": "we know"})))
    done = command("mutate", "contracts/a.yaml")
    assert done.code == 0
    assert f"{line}: unnoticed: sent::positive[approved] double[1]" in done.out.splitlines()[0]


def test_a_stale_note_is_told(command: Command) -> None:
    notes = {"double[1]": "one is enough", "drop[0]": "not so"}
    write(Path("contracts/a.yaml"), library(sent=noted(survives=notes)))
    done = command("mutate", "contracts")
    assert done.code == 1
    assert "stale note: sent::positive[approved] drop[0]" in done.out


def test_what_contracts_of_another_layer_notice_makes_no_note_stale(command: Command) -> None:
    write(Path("contracts/a.yaml"), library(sent=noted(survives={"double[1]": "one is enough"})))
    uses = changed(noted(), **{"assert": {"at_most": {"n": 1, "of": {"type": "tool_called"}}}})
    uses["corpus"]["negative"] = {"two": [SENT, SENT]}
    del uses["corpus"]["adversarial"]
    assert command("mutate", "contracts", "approved-is-executed").code == 0
    # The twin: one of its own layer.
    write(Path("contracts/b.yaml"), library(once=uses))
    done = command("mutate", "contracts")
    assert (done.code, "stale note: sent::positive[approved] double[1]" in done.out) == (1, True)


def test_what_no_contract_could_mind_is_counted_and_named(command: Command) -> None:
    one = noted()
    started = [{"type": "run_started", "seed": 1}, GRANTED, {**SENT, "query": "q"}]
    one["corpus"]["positive"] = {"approved": started}
    write(Path("contracts/a.yaml"), library(sent=one))
    last = command("mutate", "contracts").out.splitlines()[-1]
    assert last == (
        "1 event and 2 fields are nothing to any contract of the set (--all names them)"
    )
    out = command("mutate", "contracts", "--all").out
    assert "approved]: run_started (event 0) (no contract has a role for it)" in out
    assert "approved]: run_started.seed, tool_called.query (no contract reads it)" in out
    entry = command("mutate", "contracts", "--json").json["entries"][0]
    assert entry["roleless"] == ["run_started (event 0)"]
    assert entry["unread"] == ["run_started.seed", "tool_called.query"]


def test_all_lists_who_noticed_what(command: Command) -> None:
    write(Path("contracts/a.yaml"), library(sent=noted(survives={"double[1]": "one is enough"})))
    out = command("mutate", "contracts", "--all").out
    assert "as good: sent::positive[approved] double[1]" in out
    assert "noticed: sent::positive[approved] swap[0,1]: " in out
    assert " - by sent (fail)" in out
    record = command("mutate", "contracts", "--json").json
    assert record["total"] == len(record["entries"][0]["mutants"])
    assert (record["as_good"], record["unnoticed"]) == (1, 0)


def test_a_contract_that_fails_its_corpus_or_has_none_teaches_nothing(command: Command) -> None:
    write(Path("contracts/a.yaml"), library(bad=wrong(ENDS)))
    done = command("mutate", "contracts")
    assert done.code == 3
    assert "fails its own corpus: contracts/a.yaml:" in done.out
    bare = {key: value for key, value in ENDS.items() if key != "corpus"}
    write(Path("other.yaml"), library(bare=bare))
    done = command("mutate", "other.yaml")
    assert (done.code, "nothing to mutate: bare" in done.out) == (3, True)


def test_the_packaged_set_and_the_projects_own_leave_nothing_without_a_reason(
    command: Command,
) -> None:
    done = command("mutate", "packaged", HERE / "contracts")
    assert (done.code, "UNNOTICED" in done.out) == (0, False), done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.yaml",), "neither a file or folder of contracts nor a packaged contract"),
        (("run-complets",), "write 'run-completes'"),
        (("broken.yaml",), "unknown key (got 'asert'"),
        (("twice.yaml", "run-completes"), "the contract 'run-completes' is given twice"),
    ],
)
def test_what_cannot_be_mutated_is_wrong_input(
    command: Command, words: tuple[str, ...], said: str
) -> None:
    write(Path("broken.yaml"), library(x={"asert": {}}))
    write(Path("twice.yaml"), library(**{"run-completes": ENDS}))
    done = command("mutate", *words)
    assert (done.code, said in done.err) == (2, True), done.err
    assert command("mutate", "run-completes", "run-completes").code == 0


# -- lint ----------------------------------------------------------------------------------------


def test_lint_tells_the_entry_that_a_contract_gets_wrong(command: Command) -> None:
    write(Path("contracts/a.yaml"), library(ends=wrong(ENDS)))
    done = command("lint", "contracts")
    assert done.code == 1
    assert "negative[not-really] gave pass, fail is needed" in done.out
    assert done.out.startswith("contracts/a.yaml:")
    write(Path("contracts/a.yaml"), library(ends=ENDS))
    assert command("lint", "contracts").code == 0


def test_lint_tells_a_library_that_says_something_else(command: Command) -> None:
    other = changed(SECOND)
    del other["overrides"]
    write(Path("contracts/a.yaml"), library(**{"run-completes": other}))
    done = command("lint", "contracts")
    assert (done.code, "says something else than" in done.out) == (1, True)


def test_lint_tells_a_tool_that_nobody_has(command: Command) -> None:
    typo = changed(APPROVED, applies_to={"tools": ["emial.send"]})
    write(Path("contracts/a.yaml"), library(sent=typo))
    done = command("lint", "contracts")
    assert done.code == 1
    assert "contracts.sent.applies_to.tools[0]: unknown tool" in done.out
    assert "write 'email.send'" in done.out
    # Without a like it may be one whose manifest lies beside a scenario.
    far = changed(APPROVED, applies_to={"tools": ["zzz"]})
    write(Path("contracts/a.yaml"), library(sent=far))
    done = command("lint", "contracts")
    assert (done.code, "warning" in done.out, "(got 'zzz'" in done.out) == (0, True, True)
    write(Path("contracts/a.yaml"), library(sent=APPROVED))
    assert "unknown tool" not in command("lint", "contracts").out


def test_lint_warns_of_a_contract_that_is_not_for_the_case_or_can_never_fire(
    command: Command,
) -> None:
    idle = changed(APPROVED, applies_to={"always": True})
    write(Path("contracts/a.yaml"), library(sent=APPROVED, idle=idle))
    write(Path("scenarios/a.yaml"), echo(invariants={"sent": {}}))
    write(Path("scenarios/b.yaml"), gated())
    out = command("lint", "scenarios/a.yaml").out
    assert "warning: sent: is not for case 'default': applies_to asks for the tool" in out
    assert "idle: can never fire in this graph: no node of it emits 'tool_called'" in out
    assert "sent: can never fire" not in out
    out = command("lint", "scenarios/b.yaml").out
    assert "is not for case" not in out
    assert "idle: can never fire" not in out


# -- prove, schema -------------------------------------------------------------------------------


def test_what_cannot_be_read_might_have_been_for_the_case(command: Command) -> None:
    write(Path("contracts/a.yaml"), library(sent={"asert": {}}))
    write(Path("scenarios/b.yaml"), echo())
    words = ("prove", "scenarios/b.yaml", "--unsigned", "--rerun", "inline")
    done = command(*words)
    assert done.code == 3
    assert "contracts.sent: unknown key (got 'asert'" in done.err
    assert "contracts/a.yaml: did not load" in done.out
    write(Path("contracts/a.yaml"), library(sent=APPROVED))
    assert command(*words).code == 0


@pytest.mark.parametrize(
    "path",
    [HERE / "contracts/email.yaml", *sorted(HERE.glob("pytest_evarness/contract/packaged/*.yaml"))],
    ids=lambda path: path.name,
)
def test_the_schema_takes_the_libraries_that_the_loader_takes(command: Command, path: Path) -> None:
    schema = command("schema", "contracts").json
    value = parse_yaml(path.read_text(encoding="utf-8")).value
    jsonschema.validate(json.loads(json.dumps(value)), schema)


@pytest.mark.parametrize(
    "more",
    [
        {"applies_to": {"tool": ["a"]}},
        {"applies_to": {"always": True, "tags": ["x"]}},
        {"applies_to": {}},
        {"overrides": "x"},
        {"corpus": {"positiv": {}}},
        {"corpus": {"negative": {"x": {"event": []}}}},
        {"corpus": {"adversarial": {"x": {"events": [], "expect": "maybe"}}}},
        {"history": [{"date": "x"}]},
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(command: Command, more: Any) -> None:
    schema = command("schema", "contracts").json
    value = library(ends={**{k: v for k, v in ENDS.items() if k not in more}, **more})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, schema)
    write(Path("x.yaml"), value)
    assert command("lint", "x.yaml").code == 1


def test_a_type_without_a_schema_is_said_to_be_unchecked(command: Command) -> None:
    library = Path("contracts/mine.yaml")
    library.parent.mkdir(exist_ok=True)
    body = "{status: draft, owner: o, rationale: r, assert: {never: {type: TYPE}}}"
    for kind, is_told in (("custom.note", True), ("budget_breached", False)):
        text = f"contracts: {{quiet: {body.replace('TYPE', kind)}}}\n"
        library.write_text(text, encoding="utf-8")
        told = "  unchecked:   paths into custom.note, of which no schema is known\n"
        assert (told in command("contracts", "show", "quiet").out) is is_told
        row = command("contracts", "show", "quiet", "--json").json
        assert row["unchecked"] == (["custom.note"] if is_told else [])

"""Each kind of part works from a package: run, mirror, bundle, verifier, command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.scenarios import graph

if TYPE_CHECKING:
    from tests.extension.installing import Site
    from tests.plugin.ran import Ran

FILE = "scenarios/desk.yaml"
DONE = {"status": "completed"}


def stamped(**config: Any) -> dict[str, Any]:
    return graph(
        ("n1", "input", {}), ("n2", "acme_stamp", {"mark": "OK", **config}), ("n3", "output", {})
    )


def lines(count: int, path: str = "out/list.txt") -> dict[str, Any]:
    return {
        "description": f"{path} has {count} lines",
        "check": {"type": "acme_line_count", "path": path, "lines": count},
    }


def judged(text: str) -> dict[str, Any]:
    return {
        "description": "it is short",
        "weight": 1,
        "check": {"type": "llm_as_judge", "model": "acme-counter", "criteria": text},
    }


SCENARIO: dict[str, Any] = {
    "evarness": 1,
    "id": "desk",
    "subject": {"graph": "pattern:stamp_desk/plain"},
    "environment": {
        "params": {"dice": True},
        "workspace": {"files": {"out/list.txt": "one\ntwo\n"}},
    },
    "expect": {"status": "completed", "output": {"contains": "SEEN"}},
    "invariants": {
        "two_lines": lines(2),
        "nine_lines": lines(9),
        "no_lines": lines(1, "out/nowhere.txt"),
        "short": judged("Is it short?"),
    },
    "scoring": {"pass_threshold": 0.1},
}


def finding(ran: Ran, name: str) -> dict[str, Any]:
    for one in ran.predicate["cases"][0]["replicas"][0]["findings"]:
        if one["id"] == name:
            return {**one, "witness": json.loads(one["witness"])}
    raise KeyError(name)


@pytest.fixture(scope="module")
def desk(shared: Site) -> Ran:
    """One session in which every part takes part; run B in a mirror."""
    shared.install("acme")
    return shared.session(
        "-v",
        "--evarness-export=acme-ledger=out/ledger.txt",
        "--evarness-min-coverage=100",
        files={FILE: SCENARIO},
    )


def test_a_node_type_runs_twice_and_emits_its_events(desk: Ran) -> None:
    assert desk.code == 0, desk.text
    replica = desk.predicate["cases"][0]["replicas"][0]
    assert replica["runs"][0]["trace_digest"] == replica["runs"][1]["trace_digest"]
    stamped = [json.loads(text) for text in replica["events"] if "acme_stamped" in text]
    assert [event["payload"] for event in stamped] == [{"mark": "SEEN", "length": 8}]
    assert "hash seed" in " ".join(desk.predicate["environment"]["mirror"])


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"slip": "payload"}, 'length: is not what the type takes (got "long"; type: "integer")'),
        ({"slip": "type"}, "approval_granted: 'acme_stamp' does not list it (emits: acme_stamped)"),
    ],
)
def test_an_event_of_another_form_or_type_fails_the_run(
    shared: Site, desk: Ran, config: dict[str, Any], says: str
) -> None:
    del desk
    scenario = {"evarness": 1, "subject": {"graph": stamped(**config)}, "expect": DONE}
    project = shared.beside(f"slip-{config['slip']}")
    ran = project.session(files={"scenarios/slip.yaml": scenario})
    assert ran.code == 1
    assert finding(ran, "reproduces")["outcome"] == "pass"
    assert finding(ran, "expect")["outcome"] == "fail"
    (error,) = [
        json.loads(text)["payload"]["reason"]
        for text in ran.predicate["cases"][0]["replicas"][0]["events"]
        if "engine_error" in text
    ]
    assert says in error
    assert project.verify(ran).result == "fails"


def test_a_configuration_is_held_against_its_schema(shared: Site, desk: Ran) -> None:
    del desk
    nodes = graph(
        ("n1", "input", {}),
        ("n2", "acme_stamp", {"marks": "OK"}),
        ("n3", "acme_stamp", {"mark": ""}),
        ("n4", "output", {}),
    )
    scenario = {"evarness": 1, "subject": {"graph": nodes}, "expect": DONE}
    project = shared.beside("odd")
    ran = project.session(files={"scenarios/odd.yaml": scenario})
    assert ran.code == 1
    assert "unknown key (got 'marks'; known: mark, slip)" in ran.text
    assert "try: write 'mark'" in ran.text
    assert "required key 'mark' is missing" in ran.text
    assert 'is not what the type takes (got ""; minLength: 1)' in ran.text


def test_a_check_type_passes_fails_and_is_undecided_with_evidence(desk: Ran) -> None:
    passed, failed, open_ = (finding(desk, f"{name}_lines") for name in ("two", "nine", "no"))
    assert [one["outcome"] for one in (passed, failed, open_)] == ["pass", "fail", "indeterminate"]
    assert (failed["witness"]["expected"], failed["witness"]["observed"]) == ("9 lines", "2 lines")
    assert open_["causes"] == ["missing_evidence"]
    assert open_["reason"] == "no file out/nowhere.txt"
    rows = desk.predicate["cases"][0]["replicas"][0]["evidence"]
    enclosed = {row["item"]: row["text"] for row in rows if row["kind"] == "check"}
    assert json.loads(enclosed["nine_lines"]) == {"gathered": {"lines": 2}}


def test_a_judge_scores(desk: Ran) -> None:
    assert finding(desk, "short")["witness"]["observed"] == "score 1"
    assert "judge acme-counter" in finding(desk, "short")["witness"]["notes"][0]


def test_a_predicate_decides_in_a_contract_of_a_pattern(desk: Ran, shared: Site) -> None:
    assert finding(desk, "letters-are-short")["outcome"] == "pass"
    scenario = {"evarness": 1, "subject": {"graph": "pattern:stamp_desk/long"}, "expect": DONE}
    project = shared.beside("long")
    ran = project.session(files={"scenarios/long.yaml": scenario})
    assert ran.code == 1
    assert finding(ran, "letters-are-short")["outcome"] == "fail"
    assert project.verify(ran).result == "fails"


def test_a_lint_rule_speaks_and_an_inspector_is_heard(desk: Ran, shared: Site) -> None:
    started = json.loads(desk.predicate["cases"][0]["replicas"][0]["events"][0])
    assert started["payload"]["deterministic"] is False
    scenario = {"evarness": 1, "subject": {"graph": stamped(mark="SEEN!")}, "expect": DONE}
    project = shared.beside("loud")
    ran = project.session(files={"scenarios/loud.yaml": scenario})
    assert ran.code == 0
    assert "the mark shouts (got 'SEEN!') [acme.shouting]" in ran.text
    started = json.loads(ran.predicate["cases"][0]["replicas"][0]["events"][0])
    assert started["payload"]["deterministic"] is True


def test_an_exporter_writes_its_file_and_changes_no_bundle(desk: Ran, shared: Site) -> None:
    assert (desk.root / "out" / "ledger.txt").read_text() == f"{FILE}::default\tvalid\n"
    done = shared.command(
        "render",
        ".evarness/proof.json",
        "--key",
        f"{shared.key}.pub",
        "--export",
        "acme-ledger=-",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{FILE}::default\tvalid\n"


def test_a_verifier_without_the_plugin_takes_its_findings_on_the_signers_word(
    site: Site,
) -> None:
    site.install("acme")
    ran = site.session(files={FILE: SCENARIO})
    report = site.verify(ran)
    assert report.result == "holds", report
    for name in ("two_lines", "nine_lines", "no_lines", "letters-are-short"):
        told = f"{FILE}::default::{name}: judged with parts of a plug-in"
        assert told in report.taken_on_word, name
    # What needs no plug-in is judged again all the same.
    for name in ("reproduces", "expect", "score"):
        assert not any(f"::{name}: judged with" in text for text in report.taken_on_word)
    done = site.command("verify", ".evarness/proof.json", "--key", f"{site.key}.pub")
    assert done.returncode == 0, done.stdout


def test_an_importer_reads_foreign_traces(desk: Ran, shared: Site) -> None:
    del desk
    (shared.root / "desk.log").write_text("SEEN|8\nSEEN|90\n")
    contract = {
        "contracts": {
            "short": {
                "title": "short",
                "description": "Letters are short.",
                "owner": "desk",
                "rationale": "They are.",
                "assert": {
                    "every": {"match": {"type": "acme_stamped"}, "satisfies": "acme_is_short"}
                },
            }
        }
    }
    (shared.root / "short.yaml").write_text(json.dumps(contract))
    done = shared.command(
        "check", "desk.log", "--importer", "acme-log", "--contracts", "short.yaml", "--json"
    )
    (line,) = done.stdout.splitlines()
    record = json.loads(line)
    assert (done.returncode, record["run_id"], record["outcome"]) == (1, "acme", "fail")
    assert record["witness"]["events"] == [1]
    done = shared.command("digest", "desk.log", "--importer", "acme-log")
    assert done.stdout.startswith("acme 2 events c1:sha256:")


def test_an_importer_that_cannot_read_a_file_is_told_with_the_file(desk: Ran, shared: Site) -> None:
    del desk
    (shared.root / "odd.log").write_text("SEEN|eight\n")
    done = shared.command("digest", "odd.log", "--importer", "acme-log")
    assert done.returncode == 2
    assert (
        "odd.log: importer 'acme-log' cannot read it: JSONDecodeError after 1 lines" in done.stderr
    )
    (shared.root / "text.log").write_text('SEEN|"\\ud800"\n')
    done = shared.command("digest", "text.log", "--importer", "acme-log")
    assert done.returncode == 2
    assert done.stderr.startswith("pytest-evarness: text.log:2: payload.length:")
    done = shared.command("digest", "odd.log", "--importer", "acme-lug")
    assert done.returncode == 2
    assert "--importer: unknown trace importer (got 'acme-lug'; known: acme-log)" in done.stderr
    assert "try: write 'acme-log'" in done.stderr


def test_a_pattern_is_listed_shown_and_used(desk: Ran, shared: Site) -> None:
    assert desk.predicate["seal"]["plan"][0]["items"]
    listed = shared.command("patterns").stdout
    assert "stamp_desk                Every letter is stamped" in listed
    assert "[plug-in acme]" in listed
    done = shared.command("patterns", "show", "stamp_desk")
    for line in ('  n2: acme_stamp {"mark": "SEEN"}', "  n1 -> n2", "# Stamp desk"):
        assert line in done.stdout.splitlines()
    assert "pattern:stamp_desk/plain\n  user_input: a letter\n" in done.stdout
    record = json.loads(shared.command("patterns", "show", "stamp_desk", "--json").stdout)
    assert (record["source"], record["default_fixture"]) == ("acme", "long")
    assert record["graph"]["id"] == "stamp_desk"
    scenario = {"evarness": 1, "subject": {"graph": "pattern:stamp_desc"}, "expect": DONE}
    project = shared.beside("near")
    ran = project.session(files={"scenarios/near.yaml": scenario})
    assert ran.code == 1
    assert "unknown pattern" in ran.text
    assert "try: write 'pattern:stamp_desk'" in ran.text


@pytest.mark.slow
def test_all_of_it_works_in_workers(site: Site) -> None:
    site.install("acme")
    ran = site.session(
        *("-n", "2", "-p", "xdist"),
        "--evarness-export=acme-ledger=out/ledger.txt",
        "--evarness-min-coverage=100",
        files={FILE: SCENARIO},
    )
    assert ran.code == 0, ran.text
    assert (ran.root / "out" / "ledger.txt").read_text() == f"{FILE}::default\tvalid\n"
    assert site.verify(ran).result == "holds"


# -- parts that break while they work --------------------------------------------------------------

RUDE = """
from pytest_evarness.core.interfaces import LintFinding


def register(registry):
    @registry.predicate("rude")
    def rude(event):
        raise LookupError("lost")

    @registry.lint_rule("rude.lint")
    def lint(graph, registry, overlays):
        raise LookupError("lost")

    @registry.lint_rule("rude.words")
    def words(graph, registry, overlays):
        return ["a text"]

    @registry.inspector("rude.look")
    def look(graph, environment):
        raise LookupError("lost")

    @registry.exporter("rude-export")
    def export(statement):
        raise LookupError("lost")

    @registry.exporter("rude-text")
    def text(statement):
        return "a text"

    @registry.judge("rude-judge")
    class Judge:
        def faults(self, model):
            return []

        def ask(self, question):
            raise LookupError("lost")

        def leftovers(self, kept):
            raise LookupError("lost")

    @registry.node_type("rude_node", doc="", inputs={"in": "any"}, outputs={"out": "any"})
    def node(inputs, config, context):
        raise LookupError("lost")
"""


def test_parts_that_break_while_they_work_cost_only_what_asked_them(site: Site) -> None:
    site.install_module("rude", RUDE)
    scenario = {
        "evarness": 1,
        "subject": {"graph": graph(("n1", "input", {}), ("n2", "output", {}))},
        "expect": {"status": "completed"},
        "invariants": {
            "rude": {
                "description": "cannot be told",
                "check": {
                    "type": "trace",
                    "assert": {"every": {"match": {"type": "run_finished"}, "satisfies": "rude"}},
                },
            },
            "judged": {
                "description": "cannot be told",
                "check": {"type": "llm_as_judge", "model": "rude-judge", "criteria": "Is it?"},
            },
        },
    }
    node = graph(("n1", "input", {}), ("n2", "rude_node", {}), ("n3", "output", {}))
    other = {"evarness": 1, "subject": {"graph": node}, "expect": {"status": "failed"}}
    ran = site.session(
        "--evarness-export=rude-export=a.txt",
        "--evarness-export=rude-text=b.txt",
        files={"scenarios/a.yaml": scenario, "scenarios/b.yaml": other},
    )
    assert ran.code == 1
    for name in ("rude", "judged"):
        assert finding(ran, name)["outcome"] == "indeterminate", name
        assert finding(ran, name)["causes"] == ["evaluator_error"], name
    assert finding(ran, "expect")["outcome"] == "pass"
    assert ran.findings("scenarios/b.yaml::default")["expect"] == "pass"
    for line in (
        "lint rule 'rude.lint' could not look (LookupError) [broken_rule]",
        "lint rule 'rude.words' could not look (it gave something else than remarks) [broken_rule]",
        "export rude-export cannot be written: exporter 'rude-export' raised LookupError",
        "export rude-text cannot be written: exporter 'rude-text' must give bytes (got str)",
    ):
        assert line in ran.text, line
    assert not (ran.root / "a.txt").exists()
    assert site.verify(ran).result in ("fails", "pending")


def test_an_unknown_exporter_stops_the_session_before_anything_runs(site: Site) -> None:
    site.install("acme")
    ran = site.session("--evarness-export=acme-leger=x.txt", files={FILE: SCENARIO})
    assert ran.code == 4
    assert "unknown exporter (got 'acme-leger'; known: acme-ledger); try: write" in ran.text
    assert not (ran.root / ".evarness" / "proof.json").exists()
    ran = site.session("--evarness-export=acme-ledger", files={})
    assert ran.code == 4
    assert "--evarness-export: must be NAME=PATH (got 'acme-ledger')" in ran.text

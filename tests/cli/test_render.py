"""``render`` writes what other tools read, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import fromstring

import pytest

from pytest_evarness.bundle.key import make_key
from pytest_evarness.bundle.seal import Settings
from pytest_evarness.core.tracefile import read_traces
from tests.bundle.builder import APPROVE, REJECT, bundle_of, statement_of

if TYPE_CHECKING:
    from tests.cli.conftest import Command


@pytest.fixture
def bundle(command: Command) -> Path:
    path = Path("proof.json")
    path.write_bytes(bundle_of(statement_of(APPROVE, REJECT), make_key(Path("k.pem"))))
    return path


@pytest.mark.parametrize("name", ["render", "export"])
def test_both_reports_are_written(command: Command, bundle: Path, name: str) -> None:
    done = command(name, bundle, "--junit", "r.xml", "--jsonl", "r.jsonl", "--key", "k.pem.pub")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert fromstring(Path("r.xml").read_bytes()).get("tests") == "8"
    assert len(read_traces(Path("r.jsonl"))) == 2


def test_the_trace_file_goes_through_digest_and_gives_the_bundle_s_digests(
    command: Command, bundle: Path
) -> None:
    command("render", bundle, "--jsonl", "r.jsonl")
    done = command("digest", "r.jsonl", "--json")
    assert done.code == 0
    cases = statement_of(APPROVE, REJECT)["predicate"]["cases"]
    assert [(row["run_id"], row["trace_digest"], row["chain_digest"]) for row in done.lines] == [
        (f"{case['nodeid']}#a", run["trace_digest"], run["chain_digest"])
        for case in cases
        for run in case["replicas"][0]["runs"][:1]
    ]


def test_without_a_key_it_says_that_it_has_not_verified(command: Command, bundle: Path) -> None:
    done = command("render", bundle, "--junit", "-", "--profile", "strict")
    assert done.code == 0
    assert "not verified" in done.err
    assert "<properties>" not in done.out
    assert fromstring(done.out).get("tests") == "8"


def test_under_another_key_nothing_is_written(command: Command, bundle: Path) -> None:
    make_key(Path("other.pem"))
    assert command("render", bundle, "--junit", "r.xml", "--key", "other.pem.pub").code == 1
    assert not Path("r.xml").exists()


def test_no_report_is_written_where_one_of_them_cannot_be_made(command: Command) -> None:
    statement = statement_of(APPROVE, settings=Settings(events="digest"), signed=False)
    Path("d.json").write_bytes(bundle_of(statement, None))
    done = command("render", "d.json", "--junit", "r.xml", "--jsonl", "r.jsonl")
    assert done.code == 2
    assert "the bundle encloses digests only" in done.err
    assert not Path("r.xml").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "which report? (known: --jsonl PATH, --junit PATH, --export NAME=PATH)"),
        (("--html", "r.html"), "--html is not in this version"),
        (("--sarif", "r.sarif"), "--sarif is not in this version"),
        (("--otlp", "r.json"), "--otlp is not in this version"),
        (("--junit", "r.xml", "--profile", "wide"), "--profile: no such profile (got 'wide'"),
        (("--jsonl", "r.jsonl", "--profile", "strict"), "--profile goes with --junit"),
        (("--jsonl", "r", "--junit", "r"), "two reports cannot go to one place (got 'r' twice)"),
        (("--junit", "no/such/r.xml"), "--junit: no/such/r.xml cannot be written"),
        (("--junit", "."), "--junit: . cannot be written"),
    ],
)
def test_wrong_words_write_nothing(
    command: Command, bundle: Path, words: tuple[str, ...], text: str
) -> None:
    before = set(Path().iterdir())
    done = command("render", bundle, *words)
    assert (done.code, done.out) == (2, "")
    assert text in done.err
    assert set(Path().iterdir()) == before

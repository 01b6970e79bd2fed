"""``explain`` never takes a bundle for more than it was shown to be."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evarness.bundle.key import make_key
from tests.bundle.builder import APPROVE, UNDECIDED, bundle_of, statement_of
from tests.cli.sealing import resealed
from tests.report.test_junit import BAD

if TYPE_CHECKING:
    from tests.cli.conftest import Command


@pytest.fixture
def bundle(command: Command) -> Path:
    path = Path("proof.json")
    path.write_bytes(bundle_of(statement_of(APPROVE, BAD, UNDECIDED), make_key(Path("k.pem"))))
    return path


def test_without_a_key_it_says_that_it_has_not_verified(command: Command, bundle: Path) -> None:
    done = command("explain", bundle)
    assert done.code == 0
    assert done.out.startswith("not verified: this is what the file says of itself")
    assert "verified: signed" not in done.out
    assert "Invalid: event 8 is a tool_called" in done.out


def test_with_the_key_it_says_who_signed(command: Command, bundle: Path) -> None:
    done = command("explain", bundle, "--key", "k.pem.pub")
    assert done.code == 0
    assert done.out.startswith("verified: signed by the pinned key ")


def test_under_another_key_nothing_is_explained(command: Command, bundle: Path) -> None:
    make_key(Path("other.pem"))
    done = command("explain", bundle, "--key", "other.pem.pub")
    assert (done.code, done.out) == (1, "")
    assert "NOT GENUINE: signature: " in done.err


def test_one_finding_is_explained(command: Command, bundle: Path) -> None:
    done = command("explain", bundle, "bad::never-sends")
    assert done.code == 0
    assert "\nInvalid: event 8" in done.out
    assert "::approve" not in done.out


def test_the_json_form_holds_the_findings(command: Command, bundle: Path) -> None:
    done = command("explain", bundle, "bad::never-sends", "--json")
    assert done.json["verified"] is False
    (case,) = done.json["cases"]
    (finding,) = case["findings"]
    assert (case["verdict"], case["primary"], finding["shows"]) == (
        "invalid",
        "never-sends",
        "failed",
    )
    assert finding["finding"]["witness"]["events"] == [8]
    assert len(command("explain", bundle, "--json").json["cases"]) == 3


def test_an_unknown_name_is_refused(command: Command, bundle: Path) -> None:
    done = command("explain", bundle, "bad::never-send")
    assert (done.code, done.out) == (2, "")
    assert "try: write 'bad::never-sends'" in done.err


def forged(path: Path, change: Any) -> None:
    """Write the bundle again with other contents, its envelope in order, unsigned."""
    envelope = json.loads(path.read_bytes())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    change(statement)
    path.write_bytes(bundle_of(statement, None))


def _drop_a_finding(statement: dict[str, Any]) -> None:
    statement["predicate"]["cases"][0]["replicas"][0]["findings"].pop()


def _another_outcome(statement: dict[str, Any]) -> None:
    statement["predicate"]["cases"][1]["verdict"] = "valid"


def _another_event(statement: dict[str, Any]) -> None:
    events = statement["predicate"]["cases"][0]["replicas"][0]["events"]
    events[3] = events[2]


def _no_graph(statement: dict[str, Any]) -> None:
    statement["predicate"]["texts"] = []


def _no_primary(statement: dict[str, Any]) -> None:
    statement["predicate"]["cases"][1]["primary"] = "nothing"


def _another_reason(statement: dict[str, Any]) -> None:
    statement["predicate"]["cases"][1]["replicas"][0]["findings"][0]["reason"] = "all is well"


def _a_shorter_list(statement: dict[str, Any]) -> None:
    statement["predicate"]["not_proven"] = ["nothing"]


def _an_unknown_field(statement: dict[str, Any]) -> None:
    statement["predicate"]["more"] = 1


@pytest.mark.parametrize(
    "change",
    [
        _drop_a_finding,
        _another_outcome,
        _another_event,
        _no_graph,
        _an_unknown_field,
        _another_reason,
        _a_shorter_list,
    ],
)
@pytest.mark.parametrize("words", [("explain",), ("render", "--junit", "-")])
def test_a_bundle_that_contradicts_itself_is_not_read(
    command: Command, bundle: Path, change: Any, words: tuple[str, ...]
) -> None:
    forged(bundle, change)
    done = command(*words, bundle)
    assert (done.code, done.out) == (2, "")
    assert "cannot be read as a bundle: " in done.err


def test_a_primary_failure_that_is_none_is_not_believed(command: Command, bundle: Path) -> None:
    from pytest_evarness.report.explain import explain

    forged(bundle, _no_primary)
    done = command("explain", bundle)
    assert (done.code, "judged again it is" in done.err) == (2, True)
    # Where nobody judges again, as with a bundle of another version.
    statement = json.loads(base64.b64decode(json.loads(bundle.read_bytes())["payload"]))
    assert "Invalid: event 8" in explain(statement)


def test_what_another_version_found_is_told_as_its_own(command: Command) -> None:
    statement = statement_of(APPROVE, BAD, signed=False)
    Path("own.json").write_bytes(bundle_of(statement, None))
    assert "were not judged again here" not in command("explain", "own.json").out
    seal = statement["predicate"]["seal"]
    seal["engine"][0]["version"] = "9.9.9"
    resealed(statement)
    Path("other.json").write_bytes(bundle_of(statement, None))
    done = command("explain", "other.json")
    assert done.code == 0, done.err
    said = f"made by {seal['engine'][0]['name']} 9.9.9"
    assert said in done.out
    assert "its findings were not judged again here" in done.out


def test_the_command_that_is_suggested_names_the_bundle(command: Command, bundle: Path) -> None:
    other = bundle.rename("my proof.json")
    done = command("explain", other, "bad")
    assert f"pytest-evarness slice '{other}' " in done.out
    assert "BUNDLE" not in done.out

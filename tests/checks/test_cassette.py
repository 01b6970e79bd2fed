"""What is replayed was asked in exactly these words; what is not ours is refused with its place."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evarness.checks.judging import cassette as cassette_module
from pytest_evarness.checks.judging.cassette import Cassette, Recording, Slot, cassette_path
from pytest_evarness.checks.judging.endpoint import KEY_VARIABLE
from pytest_evarness.core.outcome import Cause
from pytest_evarness.errors import InputError
from tests.checks import judges as j
from tests.checks.fake import FakeScene
from tests.checks.served import Served, says, served

RUBRIC = "sha256:" + "a" * 64
PACKAGE = "sha256:" + "b" * 64
OTHER = "sha256:" + "c" * 64


def slot(**more: str) -> Slot:
    fields = {
        "case": "approve",
        "input_from": "agent_output",
        "judge": "m",
        "model": "m",
        "temperature": "0",
        "rubric": RUBRIC,
    }
    return Slot(**{**fields, **more})


def recording(answer: str = '{"score": 1}', package: str = PACKAGE, **more: str) -> Recording:
    return Recording(slot(**more), package, "https://x/v1", answer)


def cassette(folder: Path) -> Cassette:
    return Cassette(folder / "x.cassette.yaml", "scenarios/x.cassette.yaml")


# -- the file ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "path"),
    [
        ("scenarios/send.yaml", "scenarios/send.cassette.yaml"),
        ("send.yml", "send.cassette.yaml"),
        ("a/b.scenario.yaml", "a/b.scenario.cassette.yaml"),
        ("a.b/plain", "a.b/plain.cassette.yaml"),
    ],
)
def test_a_cassette_lies_beside_its_scenario(scenario: str, path: str) -> None:
    assert cassette_path(scenario) == path


def test_an_answer_is_found_again_by_everything_it_depends_on(tmp_path: Path) -> None:
    tape = cassette(tmp_path)
    assert tape.find(slot(), PACKAGE) == (None, False)
    tape.record(recording())
    assert tape.find(slot(), PACKAGE) == (recording(), False)
    # The same question of another case has the same answer.
    assert tape.find(slot(case="reject"), PACKAGE) == (recording(), False)
    for change in ("judge", "model", "temperature"):
        assert tape.find(slot(**{change: "0.5"}), PACKAGE) == (None, False)
    assert tape.find(slot(rubric=OTHER), PACKAGE) == (None, False)
    # Another text of the same place is stale, and only of the same place.
    assert tape.find(slot(), OTHER) == (None, True)
    assert tape.find(slot(case="reject"), OTHER) == (None, False)


def test_a_new_answer_takes_the_place_of_the_stale_one(tmp_path: Path) -> None:
    tape = cassette(tmp_path)
    tape.record(recording())
    tape.record(recording(case="reject", package=OTHER))
    tape.record(recording("new", package="sha256:" + "d" * 64))
    text = (tmp_path / "x.cassette.yaml").read_text("utf-8")
    assert text.count("- case:") == 2
    assert PACKAGE not in text


def test_the_file_is_the_same_in_whatever_order_it_was_written(tmp_path: Path) -> None:
    ones = [recording(case="b"), recording(case="a", package=OTHER)]
    texts = []
    for number, order in enumerate((ones, ones[::-1])):
        folder = tmp_path / str(number)
        folder.mkdir()
        for one in order:
            cassette(folder).record(one)
        texts.append((folder / "x.cassette.yaml").read_bytes())
    assert texts[0] == texts[1]
    assert b'case: "a"' in texts[0]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_any_text_comes_back_as_it_was(answer: str) -> None:
    from pytest_evarness.source.document import parse_yaml

    text = cassette_module._written([recording(answer, judge=answer)])
    (entry,) = parse_yaml(text).value["recordings"]
    assert (entry["answer"], entry["judge"]) == (answer, answer)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("cassette: 1", "cassette: 2", ":3:11: cassette: must be 1 (got 2)"),
        ("  answer:", "  anwser:", ":14:3: recordings[0]: unknown key (got 'anwser'; known: "),
        ("recordings:", "recordings: 7\nx:", ":4:13: recordings: must be a list (got 7)"),
        ('  model: "m"', "  model: 7", ":8:10: recordings[0].model: must be text (got 7)"),
        (
            'temperature: "0"',
            'temperature: "0.5"',
            ":13:8: recordings[0].key: is not the key of what stands beside it (it would be",
        ),
        (PACKAGE, "sha256:12", ":11:12: recordings[0].package: has another form (got"),
        ('answer: "', 'answer: "\x00', ""),
        ("cassette: 1", "cassette: 1\ncassette: 1", ""),
        ("cassette: 1", "[", ""),
    ],
)
def test_a_file_that_was_broken_by_hand_is_refused_with_the_place(
    tmp_path: Path, old: str, new: str, fault: str
) -> None:
    tape = cassette(tmp_path)
    tape.record(recording())
    path = tmp_path / "x.cassette.yaml"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    broken = path.read_bytes()
    for act in (lambda: tape.find(slot(), PACKAGE), lambda: tape.record(recording())):
        with pytest.raises(InputError) as refused:
            act()
        assert f"scenarios/x.cassette.yaml{fault}" in str(refused.value)
    assert path.read_bytes() == broken, "what is not understood is not written over"


def test_an_entry_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    tape = cassette(tmp_path)
    tape.record(recording())
    path = tmp_path / "x.cassette.yaml"
    head, mark, entry = path.read_text("utf-8").partition("- case")
    path.write_text(f"{head}{mark}{entry}{mark}{entry}", "utf-8")
    with pytest.raises(InputError, match=r"x\.cassette\.yaml:23:8: .*was recorded twice"):
        tape.find(slot(), PACKAGE)


def test_a_link_is_no_cassette(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("cassette: 1\nrecordings: []\n")
    (tmp_path / "x.cassette.yaml").symlink_to("real.yaml")
    with pytest.raises(InputError, match="is a symlink"):
        cassette(tmp_path).find(slot(), PACKAGE)


def test_a_cassette_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassette_module, "MAX_BYTES", 2000)
    tape = cassette(tmp_path)
    tape.record(recording())
    before = (tmp_path / "x.cassette.yaml").read_bytes()
    with pytest.raises(InputError, match="would be too large"):
        tape.record(recording("x" * 2000, case="other"))
    assert (tmp_path / "x.cassette.yaml").read_bytes() == before


def test_while_one_writes_nobody_else_does(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")

    def is_free() -> bool:
        handle = os.open(tmp_path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            os.close(handle)

    with cassette_module._alone_in(tmp_path):
        assert not is_free()
    assert is_free()


def test_workers_that_record_at_one_time_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_record_all, args=(str(tmp_path), worker)) for worker in range(3)
    ]
    for one in workers:
        one.start()
    for one in workers:
        one.join(120)
    assert [one.exitcode for one in workers] == [0, 0, 0]
    text = (tmp_path / "x.cassette.yaml").read_text("utf-8")
    assert text.count("- case:") == 30
    # A lock file would be in the way of the project.
    assert [path.name for path in tmp_path.iterdir()] == ["x.cassette.yaml"]


def _record_all(folder: str, worker: int) -> None:
    for number in range(10):
        package = f"sha256:{worker:032x}{number:032x}"
        cassette(Path(folder)).record(recording(package=package, case=f"{worker}-{number}"))


# -- the check ---------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _outside_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", KEY_VARIABLE):
        monkeypatch.delenv(name, raising=False)


def scene(root: Path, output: str = "Dear all", **more: Any) -> FakeScene:
    details = {"scenario": "scenarios/send.yaml", "case": "approve"}
    (root / "scenarios").mkdir(exist_ok=True)
    return FakeScene(root=root, output=output, details=details, **more)


def check(endpoint: Served, **more: Any) -> dict[str, Any]:
    return {"model": "m-1", "base_url": endpoint.base_url, **more}


def test_an_answer_is_asked_once_recorded_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-very-secret")
    with served(says('{"score": 0.8}'), says('{"score": 0.1}')) as endpoint:
        first = j.judged(scene(tmp_path), **check(endpoint))
        again = j.judged(scene(tmp_path), **check(endpoint))
    assert (first.outcome.word, first.score) == ("pass", again.score)
    assert len(endpoint.requests) == 1
    text = (tmp_path / "scenarios" / "send.cassette.yaml").read_text("utf-8")
    assert 'answer: "{\\"score\\": 0.8}"' in text
    assert "sk-very-secret" not in text
    # In CI, and with the endpoint gone, it is the same.
    monkeypatch.setenv("CI", "true")
    assert j.judged(scene(tmp_path), **check(endpoint)) == first
    source = [
        j.gathered(scene(tmp_path), **check(endpoint))["answers"][0]["source"] for _ in range(2)
    ]
    assert source == ["cassette", "cassette"]


def test_in_ci_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with served(says('{"score": 0.8}')) as endpoint:
        finding = j.judged(scene(tmp_path), **check(endpoint))
        assert endpoint.requests == []
        assert (finding.outcome.word, finding.causes) == (
            "indeterminate",
            (Cause.MISSING_EVIDENCE,),
        )
        assert finding.reason == (
            "judge m-1 abstained: scenarios/send.cassette.yaml holds no answer of it (a session"
            " without $CI records one)"
        )
        assert not (tmp_path / "scenarios" / "send.cassette.yaml").exists()
        # The twin: an empty variable is none.
        monkeypatch.setenv("CI", "")
        assert j.judged(scene(tmp_path), **check(endpoint)).outcome.word == "pass"


def test_in_ci_an_answer_to_another_text_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(says('{"score": 0.8}'), says('{"score": 0.9}')) as endpoint:
        j.judged(scene(tmp_path), **check(endpoint))
        monkeypatch.setenv("CI", "true")
        finding = j.judged(scene(tmp_path, "Dear all!"), **check(endpoint))
        assert finding.causes == (Cause.STALE_EVIDENCE,)
        assert "was given to another text" in finding.reason
        # A question that was never asked is missing, not stale.
        for more in ({"criteria": "Is it short?"}, {"temperature": 0.5}):
            other = j.judged(scene(tmp_path, "Dear all!"), **check(endpoint, **more))
            assert other.causes == (Cause.MISSING_EVIDENCE,)
        assert len(endpoint.requests) == 1
        monkeypatch.delenv("CI")
        assert j.judged(scene(tmp_path, "Dear all!"), **check(endpoint)).outcome.word == "pass"
        assert len(endpoint.requests) == 2


def test_two_judges_of_one_model_have_an_answer_each(tmp_path: Path) -> None:
    with served(says('{"score": 0.8}'), says('{"score": 0.4}')) as endpoint:
        panel = [{"model": "m-1", "name": "anna"}, {"model": "m-1", "name": "ben"}]
        for _ in range(2):
            finding = j.judged(scene(tmp_path), judges=panel, base_url=endpoint.base_url)
            assert finding.reason.startswith("the median score 0.6 of 2 judges (spread 0.4)")
    assert len(endpoint.requests) == 2


def test_what_is_no_judgement_is_recorded_as_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(says("Sure! It is fine.")) as endpoint:
        first = j.judged(scene(tmp_path), **check(endpoint))
    monkeypatch.setenv("CI", "1")
    assert j.judged(scene(tmp_path), **check(endpoint)) == first
    assert first.causes == (Cause.MISSING_EVIDENCE,)


def test_an_outage_is_not_recorded(tmp_path: Path) -> None:
    with served(says(b"", status=503), says('{"score": 0.8}')) as endpoint:
        finding = j.judged(scene(tmp_path), **check(endpoint))
        assert finding.causes == (Cause.EVALUATOR_ERROR,)
        assert finding.reason == "judge m-1 abstained: its endpoint answered with status 503"
        assert j.judged(scene(tmp_path), **check(endpoint)).outcome.word == "pass"


def test_a_secret_of_the_case_goes_to_no_endpoint_and_into_no_file(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    with served(says(f'{{"score": 1, "critique": "{secret}"}}')) as endpoint:
        j.judged(scene(tmp_path, f"key {secret}", secrets={"KEY": secret}), **check(endpoint))
    assert secret not in str(endpoint.requests)
    assert "key «secret:KEY»" in endpoint.requests[0]["body"]["messages"][1]["content"]
    assert secret not in (tmp_path / "scenarios" / "send.cassette.yaml").read_text("utf-8")


def test_a_broken_cassette_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "send.cassette.yaml").write_text("cassette: 1\n")
    with served(says('{"score": 0.8}')) as endpoint:
        finding = j.judged(scene(tmp_path), **check(endpoint))
    assert endpoint.requests == []
    assert finding.causes == (Cause.MALFORMED_EVIDENCE,)
    assert finding.reason.startswith(
        "judge m-1 abstained: scenarios/send.cassette.yaml:1:1: required key 'recordings' is"
    )


def test_an_answer_that_cannot_be_recorded_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cassette_module, "write_atomically", refuse)
    with served(says('{"score": 0.8}')) as endpoint:
        finding = j.judged(scene(tmp_path), **check(endpoint))
    assert finding.causes == (Cause.EVALUATOR_ERROR,)
    assert finding.reason.endswith(
        "its answer cannot be recorded in scenarios/send.cassette.yaml (Permission denied)"
    )


def test_a_scenario_without_a_file_has_no_cassette() -> None:
    finding = j.judged(FakeScene(output="x"), model="m", base_url="http://127.0.0.1:1")
    assert finding.causes == (Cause.MISSING_EVIDENCE,)
    assert finding.reason == (
        "judge m abstained: a scenario without a file has no cassette for its answer"
    )

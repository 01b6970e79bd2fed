"""``verify`` and ``keygen``: exit codes and words, and what is refused before it is opened."""

from __future__ import annotations

import argparse
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.bundle.key import SigningKey, load_private_key, make_key
from pytest_evarness.cli import keygen, main, verify
from tests.bundle.builder import APPROVE, PENDING, UNDECIDED, bundle_of, changed, statement_of

Said = tuple[int, str, str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify")
    key = make_key(folder / "key.pem")
    made = {
        "holds": statement_of(APPROVE, PENDING),
        "fails": statement_of(changed(APPROVE, expect={"status": "blocked"})),
        "pending": statement_of(UNDECIDED),
    }
    for name, statement in made.items():
        (folder / f"{name}.json").write_bytes(bundle_of(statement, key))
    unsigned = statement_of(APPROVE, signed=False)
    (folder / "unsigned.json").write_bytes(bundle_of(unsigned, None))
    attacker = make_key(folder / "attacker.pem")
    (folder / "forged.json").write_bytes(bundle_of(made["holds"], attacker))
    return folder


@pytest.fixture
def key(folder: Path) -> SigningKey:
    return load_private_key(folder / "key.pem")


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def call(*words: object, command: Any = verify) -> Said:
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        code = command.main(parser.parse_args([str(word) for word in words]))
        out, err = capsys.readouterr()
        # Holds for every call: results on stdout, wrong use on stderr, and never both.
        assert (code == 2) == bool(err)
        assert (code == 2) != bool(out)
        return code, out, err

    return call


# -- words and exit codes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("holds", 0, "VERIFIED, HOLDS"),
        ("fails", 1, "VERIFIED, DOES NOT HOLD"),
        ("pending", 3, "VERIFIED, UNDECIDED"),
        ("forged", 1, "NOT GENUINE: signature"),
        ("unsigned", 1, "NOT GENUINE: signature"),
    ],
)
def test_with_a_pin_the_answer_is_one_of_these(
    folder: Path, say: Callable[..., Said], name: str, code: int, words: str
) -> None:
    got, out, _ = say(folder / f"{name}.json", "--key", folder / "key.pem.pub")
    assert (got, words in out) == (code, True), out


@pytest.mark.parametrize("name", ["holds", "fails", "pending", "forged", "unsigned"])
def test_without_a_pin_nothing_is_ever_called_verified(
    folder: Path, say: Callable[..., Said], name: str
) -> None:
    code, out, _ = say(folder / f"{name}.json")
    assert code == 4
    assert "OF UNKNOWN ORIGIN" in out
    assert "--key PUB" in out
    assert "verified" not in out.lower()


def test_expect_any_asks_only_whether_it_is_genuine(folder: Path, say: Callable[..., Said]) -> None:
    pin = ("--key", folder / "key.pem.pub", "--expect", "any")
    assert say(folder / "fails.json", *pin)[0] == 0
    assert say(folder / "pending.json", *pin)[0] == 0
    assert say(folder / "forged.json", *pin)[0] == 1
    assert say(folder / "fails.json", "--expect", "any")[0] == 4


def test_every_step_is_named_with_its_outcome(folder: Path, say: Callable[..., Said]) -> None:
    _, out, _ = say(folder / "holds.json", "--key", folder / "key.pem.pub")
    lines = out.splitlines()
    steps = ["form", "signature", "canonical", "seal", "runs", "findings", "not_proven", "rerun"]
    assert [line[13:].split()[0] for line in lines[:8]] == steps
    assert [line[:12].strip() for line in lines[:8]] == ["pass"] * 7 + ["not checked"]
    told = lines.index("taken on the signer's word:")
    word = "events: that they are what the enclosed graph gives"
    assert lines[told + 1].startswith(f"  {word}")
    again = say(folder / "holds.json", "--key", folder / "key.pem.pub", "--rerun")[1]
    assert word not in again


def test_json_has_the_documented_shape(folder: Path, say: Callable[..., Said]) -> None:
    code, out, _ = say(folder / "holds.json", "--key", folder / "key.pem.pub", "--json")
    record = json.loads(out)
    assert set(record) == {"result", "exit", "steps", "taken_on_word"}
    assert (record["result"], record["exit"], code) == ("holds", 0, 0)
    assert {step["outcome"] for step in record["steps"]} == {"pass", "not_checked"}
    assert all(set(step) == {"step", "outcome", "detail"} for step in record["steps"])
    code, out, _ = say(folder / "forged.json", "--key", folder / "key.pem.pub", "--json")
    assert (json.loads(out)["result"], code) == ("not_genuine", 1)
    assert json.loads(say(folder / "holds.json", "--json")[1])["result"] == "unknown_origin"


def test_a_rerun_executes_what_is_enclosed(folder: Path, say: Callable[..., Said]) -> None:
    code, out, _ = say(folder / "holds.json", "--key", folder / "key.pem.pub", "--rerun")
    assert code == 0
    assert "2 cases, run again here, gave the same digests" in out


# -- pins ---------------------------------------------------------------------------------------


def test_a_key_is_a_file_or_hex_or_one_of_a_folder(
    folder: Path, key: SigningKey, say: Callable[..., Said], tmp_path: Path
) -> None:
    assert say(folder / "holds.json", "--key", key.public.raw.hex())[0] == 0
    for name in ("attacker.pem.pub", "key.pem.pub"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    assert say(folder / "holds.json", "--trust-dir", tmp_path)[0] == 0
    assert say(folder / "forged.json", "--trust-dir", tmp_path)[0] == 0
    (tmp_path / "key.pem.pub").unlink()
    assert say(folder / "holds.json", "--trust-dir", tmp_path)[0] == 1


def test_no_local_key_is_trusted_by_itself(
    folder: Path,
    say: Callable[..., Said],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EVARNESS_SIGNING_KEY", str(folder / "key.pem"))
    (tmp_path / ".evarness").mkdir()
    (tmp_path / ".evarness" / "signing.pem").write_bytes((folder / "key.pem").read_bytes())
    assert say(folder / "holds.json")[0] == 4


def test_wrong_use_is_exit_2(folder: Path, say: Callable[..., Said], tmp_path: Path) -> None:
    proof, pin = folder / "holds.json", ("--key", folder / "key.pem.pub")
    for words, text in (
        ((folder / "missing.json", *pin), "no such file"),
        ((proof, "--key", ""), "an empty key pins nothing"),
        ((proof, "--key", folder / "missing.pub"), "cannot be read"),
        ((proof, "--key", folder / "key.pem"), "this is the private key"),
        ((proof, "--key", "01" + "00" * 31), "small order"),
        ((proof, "--trust-dir", tmp_path), "holds no *.pub"),
        ((proof, "--require-signature"), "without a pin"),
        ((proof, "--rerun"), "needs a pinned key"),
        ((proof, *pin, "--allow-code"), "goes with --rerun"),
        ((proof, *pin, "--expect-commit", "main"), "a full commit id"),
        ((proof, *pin, "--challenge", ""), "an empty challenge"),
    ):
        code, _, err = say(*words)
        assert (code, text in err) == (2, True), err


def test_commit_and_challenge_are_compared(folder: Path, say: Callable[..., Said]) -> None:
    proof, pin = folder / "holds.json", ("--key", folder / "key.pem.pub")
    assert say(proof, *pin, "--expect-commit", "c" * 40, "--challenge", "fresh-1")[0] == 0
    assert say(proof, *pin, "--expect-commit", "e" * 40)[0] == 1
    assert say(proof, *pin, "--challenge", "fresh-2")[0] == 1
    assert say(proof, *pin, "--require-signature")[0] == 0


# -- what is no bundle --------------------------------------------------------------------------


def zipped(*entries: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return stream.getvalue()


def tarred(*entries: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in entries:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


TWICE = (("verdict.json", b'{"verdict":"fail"}'), ("./verdict.json", b'{"verdict":"pass"}'))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (zipped(*TWICE), "a zip archive"),
        (zipped(), "an empty zip archive"),
        (tarred(*TWICE), "a tar archive"),
        (b'{"verdict":"pass","verdict":"fail"}', "stands there twice"),
        (b'{"format":0,"verdict":"pass"}', "not an envelope"),
        (b"\x00\x00\x00\x01Bud1", "a .DS_Store"),
        (b"", "the file is empty"),
    ],
)
@pytest.mark.parametrize("pinned", [False, True])
def test_what_is_no_bundle_is_refused_and_never_unpacked(
    folder: Path,
    say: Callable[..., Said],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    text: str,
    pinned: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "proof").write_bytes(data)
    pin = ("--key", folder / "key.pem.pub") if pinned else ()
    code, out, _ = say(tmp_path / "proof", *pin)
    assert (code, text in out) == (1, True), out
    assert [path.name for path in tmp_path.iterdir()] == ["proof"]


def test_a_folder_a_link_and_a_pipe_are_no_bundle(
    folder: Path, say: Callable[..., Said], tmp_path: Path
) -> None:
    pin = ("--key", folder / "key.pem.pub")
    code, out, _ = say(folder, *pin)
    assert (code, "no bundle: a folder" in out) == (1, True)
    if os.name == "nt":
        return
    (tmp_path / "link").symlink_to(folder / "holds.json")
    code, out, _ = say(tmp_path / "link", *pin)
    assert (code, "no bundle: a symbolic link" in out) == (1, True)
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    code, out, _ = say(tmp_path / "pipe", *pin)
    assert (code, "no bundle: a device or pipe" in out) == (1, True)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(
    folder: Path, say: Callable[..., Said], tmp_path: Path
) -> None:
    with (tmp_path / "proof.json").open("wb") as stream:
        stream.truncate(300 * 2**20)  # holes: nothing is written
    code, out, _ = say(tmp_path / "proof.json", "--key", folder / "key.pem.pub")
    assert (code, "over 268435456 bytes" in out) == (1, True)


def test_a_strangers_text_reaches_the_terminal_as_text_only(
    folder: Path, key: SigningKey, say: Callable[..., Said], tmp_path: Path
) -> None:
    name = "scenarios/\x1b[2J\x1b[1;31mholds\u202e.yaml"
    (tmp_path / "proof.json").write_bytes(
        bundle_of(statement_of(broken=[(name, "?")], signed=False), None)
    )
    hostile = statement_of(changed(UNDECIDED, file=name), signed=False)
    (tmp_path / "other.json").write_bytes(bundle_of(hostile, None))
    for path in (tmp_path / "proof.json", tmp_path / "other.json"):
        _, out, _ = say(path)
        assert "\x1b" not in out
        assert "\u202e" not in out
    assert "scenarios/holds\\u202e.yaml" in out


# -- keygen -------------------------------------------------------------------------------------


def test_keygen_makes_a_pair_that_signs_and_verifies(
    say: Callable[..., Said], tmp_path: Path
) -> None:
    code, out, _ = say(tmp_path / "k.pem", command=keygen)
    assert code == 0
    key = load_private_key(tmp_path / "k.pem")
    assert f"key id: {key.keyid}" in out
    (tmp_path / "proof.json").write_bytes(bundle_of(statement_of(APPROVE), key))
    assert say(tmp_path / "proof.json", "--key", tmp_path / "k.pem.pub")[0] == 0


def test_keygen_never_overwrites(say: Callable[..., Said], tmp_path: Path) -> None:
    assert say(tmp_path / "k.pem", command=keygen)[0] == 0
    before = (tmp_path / "k.pem").read_bytes()
    code, _, err = say(tmp_path / "k.pem", command=keygen)
    assert (code, "is not overwritten" in err) == (2, True)
    assert (tmp_path / "k.pem").read_bytes() == before
    assert say(tmp_path / "nowhere" / "k.pem", command=keygen)[0] == 2


@pytest.mark.parametrize("name", ["verify", "explain", "render"])
def test_the_key_that_signs_is_no_pin(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    words = [name, str(folder / "holds.json"), "--key", str(folder / "key.pem")]
    words += ["--jsonl", "-"] if name == "render" else []
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{folder / 'key.pem'}: this is the private key" in err
    assert f"try: pin '{folder / 'key.pem'}.pub'" in err
    words[3] += ".pub"
    assert main(words) == 0

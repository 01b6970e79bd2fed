"""Software that is not ours verifies a bundle: DSSE, in-toto, Node and openssl."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

from pytest_evarness.bundle.key import SigningKey, make_key
from pytest_evarness.bundle.seal import Settings
from pytest_evarness.bundle.statement import build_seal_statement
from tests.bundle.builder import (
    APPROVE,
    PENDING,
    REJECT,
    UNDECIDED,
    WEIGHED,
    bundle_of,
    changed,
    record_of,
    statement_of,
)

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    key = make_key(folder / "signing.pem")
    (folder / "proof.json").write_bytes(bundle_of(statement_of(APPROVE, REJECT, PENDING), key))
    return folder


@pytest.fixture(scope="module")
def key(folder: Path) -> SigningKey:
    from pytest_evarness.bundle.key import load_private_key

    return load_private_key(folder / "signing.pem")


def statement(folder: Path) -> dict[str, Any]:
    envelope = json.loads((folder / "proof.json").read_bytes())
    return json.loads(base64.b64decode(envelope["payload"]))  # type: ignore[no-any-return]


# -- securesystemslib and in-toto ---------------------------------------------------------------


def test_securesystemslib_finds_the_key_and_verifies(folder: Path, key: SigningKey) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    # Read from the public file alone: the id is the one that this client computes by itself.
    other = SSlibKey.from_crypto(load_pem_public_key((folder / "signing.pem.pub").read_bytes()))
    envelope = Envelope.from_dict(json.loads((folder / "proof.json").read_bytes()))
    assert list(envelope.verify([other], 1)) == [key.keyid]


def test_securesystemslib_would_notice_another_payload(folder: Path, key: SigningKey) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    other = SSlibKey.from_crypto(load_pem_public_key((folder / "signing.pem.pub").read_bytes()))
    data = json.loads((folder / "proof.json").read_bytes())
    data["payload"] = base64.b64encode(base64.b64decode(data["payload"]) + b" ").decode()
    with pytest.raises(VerificationError):
        Envelope.from_dict(data).verify([other], 1)


def parsed(record: dict[str, Any]) -> Statement:
    message = json_format.ParseDict(record, StatementMessage())
    return Statement.copy_from_pb(message)


def test_in_toto_reads_the_statement(folder: Path) -> None:
    record = statement(folder)
    parsed(record).validate()
    parsed(build_seal_statement(record["predicate"]["seal"])).validate()


def test_in_toto_reads_the_statement_of_a_session_without_files() -> None:
    record = statement_of(broken=[("x.yaml", "?")], git=None)
    assert [row["name"] for row in record["subject"]] == ["evarness seal"]
    parsed(record).validate()


def test_in_toto_would_notice_a_statement_without_a_subject(folder: Path) -> None:
    with pytest.raises(ValueError, match="At least one subject"):
        parsed({**statement(folder), "subject": []}).validate()


# -- Node ---------------------------------------------------------------------------------------

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def node(path: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        ["node", str(DOCS / "verify.mjs"), str(path), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "    at " not in done.stderr, done.stderr  # never a stack trace
    return done.returncode, done.stdout + done.stderr


@needs_node
def test_node_verifies_a_bundle_and_says_what_it_claims(folder: Path, key: SigningKey) -> None:
    proof = folder / "proof.json"
    code, text = node(proof, "--key", str(folder / "signing.pem.pub"))
    assert (code, "the bundle says: holds" in text) == (0, True)
    assert node(proof, "--key", key.public.raw.hex())[0] == 0
    code, text = node(proof)
    assert (code, "of unknown origin" in text) == (4, True)
    assert node(folder / "missing.json")[0] == 2
    assert node(proof, "--key", "0" * 64)[0] in (1, 2)


@needs_node
def test_node_gives_the_exit_code_of_each_verdict(tmp_path: Path, key: SigningKey) -> None:
    pin = ("--key", key.public.raw.hex())
    path = tmp_path / "proof.json"
    parted = record_of(APPROVE, spec_b=changed(APPROVE, prompt="another q3 text"))
    for made, code in (
        (statement_of(UNDECIDED), 3),
        (statement_of(changed(APPROVE, expect={"status": "blocked"})), 1),
        (statement_of(WEIGHED, settings=Settings(events="digest")), 0),
        (statement_of(APPROVE, records=[parted]), 1),
    ):
        path.write_bytes(bundle_of(made, key))
        got, text = node(path, *pin)
        assert (got, "digests agree" in text) == (code, True), text


@needs_node
@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"trace_digest":"c1:sha256:', '"trace_digest":"c1:sha256:0', "trace_digest"),
        ('"chain_digest":"c1:chain-sha256:', '"chain_digest":"c1:chain-sha256:0', "binding"),
        ('"binding":"sha256:', '"binding":"sha256:0', "binding"),
        ('"nonce":"', '"nonce":"1', "seal.digest"),
        ('"world":"{', '"world":"{ ', "world_digest"),
        ('"compiled":"{', '"compiled":"{ ', "compiled"),
        ('{"_type":', '{"_type":"x","_type":', "canonical"),
        ("proof/v1", "proof/v2", "predicateType"),
    ],
)
def test_node_refuses_what_does_not_agree(
    folder: Path, tmp_path: Path, key: SigningKey, old: str, new: str, text: str
) -> None:
    from pytest_evarness.bundle.envelope import envelope_bytes

    envelope = json.loads((folder / "proof.json").read_bytes())
    payload = base64.b64decode(envelope["payload"]).decode()
    assert old in payload
    path = tmp_path / "proof.json"
    path.write_bytes(envelope_bytes(payload.replace(old, new, 1).encode(), key))
    code, said = node(path, "--key", key.public.raw.hex())
    assert (code, text in said) == (1, True), said


@needs_node
def test_node_refuses_another_signature_and_no_signature(
    folder: Path, tmp_path: Path, key: SigningKey
) -> None:
    attacker = make_key(tmp_path / "attacker.pem")
    path = tmp_path / "proof.json"
    for signer in (attacker, None):
        path.write_bytes(bundle_of(statement(folder), signer))
        assert node(path, "--key", key.public.raw.hex())[0] == 1
    path.write_bytes(b"PK\x03\x04")
    assert node(path)[0] == 1


# -- openssl ------------------------------------------------------------------------------------


def openssl_is_new_enough() -> bool:
    if shutil.which("openssl") is None or shutil.which("bash") is None:
        return False
    done = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=False)
    match = re.match(r"OpenSSL (\d+)\.", done.stdout)
    return match is not None and int(match.group(1)) >= 3


needs_openssl = pytest.mark.skipif(not openssl_is_new_enough(), reason="openssl 3 is not here")


def by_hand(folder: Path) -> tuple[int, str]:
    """Run the commands of the page as they stand there."""
    page = (DOCS / "verify-by-hand.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh( jq)?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    wanted = [text for needs, text in blocks if not needs or shutil.which("jq")]
    script = "set -eu\n" + "\n".join(wanted)
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


@needs_openssl
def test_the_page_verifies_a_bundle_with_openssl_alone(folder: Path, tmp_path: Path) -> None:
    for name in ("proof.json", "signing.pem.pub"):
        shutil.copy(folder / name, tmp_path / name)
    code, text = by_hand(tmp_path)
    assert (code, "Signature Verified Successfully" in text) == (0, True), text


@needs_openssl
def test_the_page_refuses_a_bundle_of_another_key(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "proof.json", tmp_path / "proof.json")
    make_key(tmp_path / "signing.pem")
    assert by_hand(tmp_path)[0] != 0

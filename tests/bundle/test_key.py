"""Keys are made once, named so that others find them, and refused where they prove nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

from pytest_evarness.bundle.key import (
    _L,
    _P,
    _SMALL_ORDER_Y,
    PublicKey,
    SigningKey,
    choose_signing_key,
    load_private_key,
    load_public_key,
    load_trust_dir,
    make_key,
    parse_public_key,
)
from pytest_evarness.errors import InputError, UnverifiedError, UsageError


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return make_key(tmp_path / "key.pem")


def pem(public: bytes) -> str:
    key = Ed25519PublicKey.from_public_bytes(public)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


# -- making -------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_the_private_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        make_key(tmp_path / "key.pem")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    assert (tmp_path / "key.pem").read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert (tmp_path / "key.pem.pub").read_text().startswith("-----BEGIN PUBLIC KEY-----")


@pytest.mark.parametrize("name", ["key.pem", "key.pem.pub"])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError):
        make_key(tmp_path / "key.pem")
    assert (tmp_path / name).read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_no_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "key.pem").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        make_key(tmp_path / "key.pem")
    assert not (tmp_path / "elsewhere").exists()


def test_a_key_reads_back(key: SigningKey, tmp_path: Path) -> None:
    assert load_private_key(tmp_path / "key.pem").public == key.public
    assert load_public_key(str(tmp_path / "key.pem.pub")) == key.public
    assert load_public_key(key.public.raw.hex().upper()) == key.public


def test_the_key_id_is_the_one_that_securesystemslib_gives(key: SigningKey) -> None:
    public = Ed25519PublicKey.from_public_bytes(key.public.raw)
    assert SSlibKey.from_crypto(public).keyid == key.keyid


# -- choosing -----------------------------------------------------------------------------------


def test_the_option_comes_first(key: SigningKey, tmp_path: Path) -> None:
    make_key(tmp_path / "other.pem")
    chosen = choose_signing_key(
        str(tmp_path / "key.pem"),
        variables={"EVARNESS_SIGNING_KEY": str(tmp_path / "other.pem")},
        home=tmp_path / "home",
    )
    assert chosen is not None
    assert (chosen.key.public, chosen.origin, chosen.made) == (key.public, "option", False)


@pytest.mark.parametrize("as_text", [False, True])
def test_the_variable_holds_a_path_or_the_key_itself(
    key: SigningKey, tmp_path: Path, as_text: bool
) -> None:
    path = tmp_path / "key.pem"
    chosen = choose_signing_key(
        None,
        variables={"EVARNESS_SIGNING_KEY": path.read_text() if as_text else str(path)},
        home=None,
    )
    assert chosen is not None
    assert (chosen.key.public, chosen.origin) == (key.public, "variable")


def test_the_local_key_is_made_once_and_said_so(tmp_path: Path) -> None:
    home = tmp_path / "home" / ".evarness"
    first = choose_signing_key(None, variables={}, home=home)
    second = choose_signing_key(None, variables={}, home=home)
    assert first is not None
    assert second is not None
    assert (first.made, second.made) == (True, False)
    assert first.key.public == second.key.public


def test_without_any_place_for_a_key_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert choose_signing_key(None, variables={}, home=None) is None
    assert choose_signing_key(None, variables={}, home=tmp_path / "file" / ".evarness") is None


def test_a_key_that_is_named_and_missing_is_an_error_and_never_a_new_key(tmp_path: Path) -> None:
    path = tmp_path / "missing.pem"
    with pytest.raises(InputError, match="the signing key cannot be read"):
        choose_signing_key(str(path), variables={}, home=tmp_path)
    with pytest.raises(InputError, match="the signing key cannot be read"):
        choose_signing_key(None, variables={"EVARNESS_SIGNING_KEY": str(path)}, home=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_locked_key_and_a_key_of_another_kind_are_refused(tmp_path: Path) -> None:
    locked = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")
    )
    other = X25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    for data, text in (
        (locked, "locked by a passphrase"),
        (other, "not an Ed25519 key"),
        (b"secret words", "not a signing key"),
    ):
        (tmp_path / "key.pem").write_bytes(data)
        with pytest.raises(InputError, match=text) as caught:
            load_private_key(tmp_path / "key.pem")
        assert "secret words" not in str(caught.value)


# -- trusting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["", " ", "\n"])
def test_an_empty_pin_pins_nothing(word: str) -> None:
    with pytest.raises(UsageError, match="an empty key pins nothing"):
        load_public_key(word)
    with pytest.raises(UsageError, match="an empty key pins nothing"):
        parse_public_key(word)


def test_a_private_key_is_no_pin(key: SigningKey, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a public key"):
        load_public_key(str(tmp_path / "key.pem"))


def test_two_keys_in_one_file_are_refused(key: SigningKey) -> None:
    with pytest.raises(UsageError, match="not a public key"):
        parse_public_key(pem(key.public.raw) * 2)


def test_a_trust_folder_is_read_by_its_names_and_must_hold_a_key(
    key: SigningKey, tmp_path: Path
) -> None:
    folder = tmp_path / "trust"
    folder.mkdir()
    with pytest.raises(UsageError, match=r"holds no \*.pub"):
        load_trust_dir(folder)
    (folder / "a.pub").write_text(pem(key.public.raw))
    (folder / "b.txt").write_text("no key")
    assert load_trust_dir(folder) == [key.public]
    (folder / "c.pub").write_text("no key")
    with pytest.raises(UsageError, match="not a public key"):
        load_trust_dir(folder)
    with pytest.raises(UsageError, match="no such folder"):
        load_trust_dir(tmp_path / "nowhere")


# -- keys and signatures that prove nothing -----------------------------------------------------

_D = -121665 * pow(121666, _P - 2, _P) % _P
Point = tuple[int, int]


def add(one: Point, other: Point) -> Point:
    """The group law straight from RFC 8032, section 5.1.4, in affine coordinates."""
    (x1, y1), (x2, y2) = one, other
    product = _D * x1 * x2 * y1 * y2 % _P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, _P - 2, _P) % _P
    y = (y1 * y2 + x1 * x2) * pow(1 - product, _P - 2, _P) % _P
    return x, y


def times(factor: int, point: Point) -> Point:
    result = (0, 1)
    while factor:
        if factor & 1:
            result = add(result, point)
        point = add(point, point)
        factor >>= 1
    return result


def with_y(y: int) -> Point | None:
    x2 = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(x2, (_P + 3) // 8, _P)
    if x * x % _P != x2:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    return (x, y) if x * x % _P == x2 else None


def test_the_small_orders_are_the_eight_points_and_no_other() -> None:
    found: set[int] = set()
    y = 2
    while len(found) < 5:
        # L times any point lies in the subgroup of order 8; enough points give all of it.
        point = with_y(y)
        if point is not None:
            torsion = times(_L, point)
            assert times(8, torsion) == (0, 1)
            found |= {times(factor, torsion)[1] for factor in range(8)}
        y += 1
    assert found == _SMALL_ORDER_Y


def encoded(y: int, sign: int = 0) -> bytes:
    return (y | sign << 255).to_bytes(32, "little")


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("y", sorted(_SMALL_ORDER_Y))
def test_a_key_of_small_order_is_refused(y: int, sign: int) -> None:
    with pytest.raises(UnverifiedError, match="small order"):
        parse_public_key(encoded(y, sign).hex())


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("y", [_P, _P + 1, _P + 3, 2**255 - 1])
def test_a_key_that_is_written_in_another_way_is_refused(y: int, sign: int) -> None:
    with pytest.raises(UnverifiedError, match="not in its canonical form"):
        parse_public_key(encoded(y, sign).hex())


def test_a_signature_verifies_and_any_other_one_does_not(key: SigningKey) -> None:
    good = key.sign(b"data")
    key.public.verify(good, b"data")
    with pytest.raises(UnverifiedError, match="not over these bytes"):
        key.public.verify(good, b"other")
    for index in range(64):
        bad = bytearray(good)
        bad[index] ^= 1
        with pytest.raises(UnverifiedError):
            key.public.verify(bytes(bad), b"data")


def test_a_signature_whose_s_is_not_reduced_is_refused(key: SigningKey) -> None:
    good = key.sign(b"data")
    s = int.from_bytes(good[32:], "little") + _L
    with pytest.raises(UnverifiedError, match="S is L or more"):
        key.public.verify(good[:32] + s.to_bytes(32, "little"), b"data")


@pytest.mark.parametrize("y", sorted(_SMALL_ORDER_Y))
def test_a_signature_whose_r_has_small_order_is_refused(key: SigningKey, y: int) -> None:
    with pytest.raises(UnverifiedError, match="the signature's R is a point of small order"):
        key.public.verify(encoded(y) + bytes(32), b"data")


def test_a_small_order_key_would_verify_a_signature_over_anything() -> None:
    # Why the checks above exist: R = the neutral element, S = 0 and a key of order 1 satisfy the
    # equation for every message. Ours refuses it whatever the library beneath does.
    neutral = encoded(1)
    with pytest.raises(UnverifiedError, match="small order"):
        PublicKey(neutral).verify(neutral + bytes(32), b"anything")


@pytest.mark.parametrize("length", [0, 63, 65])
def test_a_signature_of_another_length_is_refused(key: SigningKey, length: int) -> None:
    with pytest.raises(UnverifiedError, match="a signature has 64 bytes"):
        key.public.verify(bytes(length), b"data")


def test_a_pipe_is_no_key_and_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "x.pub"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match=r"not a key \(no regular file\)"):
        load_public_key(str(pipe))
    with pytest.raises(UsageError, match=r"not a key \(no regular file\)"):
        load_trust_dir(tmp_path)

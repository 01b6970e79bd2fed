"""Ed25519 keys: making, loading, naming, and refusing those that prove nothing.

It decides neither which key a session uses by default policy of an option nor which keys a
reader trusts: callers hand both in.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_evarness.bundle.canonical import canonical_bytes
from pytest_evarness.errors import CannotVerifyError, InputError, UnverifiedError, UsageError, Where

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "ChosenKey",
    "PublicKey",
    "SigningKey",
    "choose_signing_key",
    "load_private_key",
    "load_public_key",
    "load_trust_dir",
    "make_key",
    "parse_public_key",
]

LOCAL_KEY = ("signing.pem",)
"""Below ``~/.evarness``: made on first use, so that a first session is signed by somebody."""

MAX_KEY_BYTES = 64 * 1024
MAX_TRUSTED_KEYS = 1000

# RFC 8032, section 5.1: the field and the order of the base point.
_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493

# The y coordinates of the eight points whose order divides 8. A key or a commitment among them
# verifies signatures over messages that nobody signed; tests/bundle/test_key.py computes them.
_SMALL_ORDER_Y = frozenset(
    {
        0,
        1,
        _P - 1,
        int.from_bytes(
            bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
            "little",
        ),
        int.from_bytes(
            bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
            "little",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key that passed our own checks.

    Attributes:
        raw: 32 bytes.
    """

    raw: bytes

    @property
    def keyid(self) -> str:
        """sha256 over the canonical JSON of the key in securesystemslib's form."""
        form = {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": self.raw.hex()}}
        return hashlib.sha256(canonical_bytes(form)).hexdigest()

    def verify(self, signature: bytes, data: bytes) -> None:
        """Return only when ``signature`` is this key's over ``data``.

        Raises:
            UnverifiedError: It is not, or it is written in a way that a second text could share.
        """
        if len(signature) != 64:
            raise UnverifiedError(f"a signature has 64 bytes (got {len(signature)})")
        if int.from_bytes(signature[32:], "little") >= _L:
            raise UnverifiedError("the signature is not in its canonical form (S is L or more)")
        _check_point(signature[:32], "the signature's R")
        _check_point(self.raw, "the public key")
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError as error:
            raise CannotVerifyError(f"cryptography cannot be imported ({error})") from error
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, data)
        except InvalidSignature:
            # The library's exception has no text; ours names what was compared.
            raise UnverifiedError("the signature is not over these bytes by this key") from None
        except ValueError as error:
            raise UnverifiedError(f"the public key is no point of the curve ({error})") from error


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, and the public one that names it."""

    private: Ed25519PrivateKey
    public: PublicKey

    @property
    def keyid(self) -> str:
        """The public key's id."""
        return self.public.keyid

    def sign(self, data: bytes) -> bytes:
        """64 bytes of Ed25519 over ``data``."""
        return self.private.sign(data)


@dataclass(frozen=True, slots=True)
class ChosenKey:
    """The key a session signs with, and how it was found.

    Attributes:
        origin: ``option``, ``variable`` or ``local``.
        made: True when the local key did not exist and was made just now; the summary says so.
        shown: How the user would name it; never part of a bundle.
    """

    key: SigningKey
    origin: str
    made: bool
    shown: str


def _check_point(raw: bytes, what: str) -> None:
    """Refuse an encoding that is not the only one of its point, or whose point has small order.

    Raises:
        UnverifiedError: With ``what`` at the front.
    """
    if len(raw) != 32:
        raise UnverifiedError(f"{what} has 32 bytes (got {len(raw)})")
    y = int.from_bytes(raw, "little") & ((1 << 255) - 1)
    if y >= _P:
        raise UnverifiedError(f"{what} is not in its canonical form")
    if y in _SMALL_ORDER_Y:
        raise UnverifiedError(f"{what} is a point of small order, which proves nothing")


def parse_public_key(text: str, shown: str = "the key") -> PublicKey:
    """Read a PEM (SPKI) or 64 hex digits.

    Args:
        shown: How messages name the source.

    Raises:
        UsageError: Empty, or neither of the two.
        UnverifiedError: A key that our own checks refuse.
    """
    body = text.strip()
    if not body:
        raise UsageError(f"{shown}: an empty key pins nothing (PEM or 64 hex digits)")
    if re.fullmatch(r"[0-9a-fA-F]{64}", body):
        raw = bytes.fromhex(body)
    else:
        raw = _raw_of_pem(body, shown)
    _check_point(raw, "the public key")
    return PublicKey(raw)


def _raw_of_pem(text: str, shown: str) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if text.count("-----BEGIN") != 1 or not text.startswith("-----BEGIN PUBLIC KEY-----"):
        raise UsageError(f"{shown}: not a public key (one PEM 'PUBLIC KEY' block or 64 hex digits)")
    try:
        key = load_pem_public_key(text.encode("utf-8"))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{shown}: not a public key ({error})") from error
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"{shown}: not an Ed25519 key (got {type(key).__name__})")
    return key.public_bytes_raw()


def load_public_key(word: str) -> PublicKey:
    """The key that ``--key WORD`` names: 64 hex digits, or the path of a PEM or hex file.

    Raises:
        UsageError: Empty, missing, or no public key.
        UnverifiedError: A key that our own checks refuse.
    """
    if not word.strip():
        raise UsageError("--key: an empty key pins nothing (PEM file or 64 hex digits)")
    if re.fullmatch(r"[0-9a-fA-F]{64}", word.strip()):
        return parse_public_key(word)
    if word.lstrip().startswith("-----BEGIN"):
        return parse_public_key(word, "--key")
    return parse_public_key(_read_key_text(Path(word)), word)


def load_trust_dir(folder: Path) -> list[PublicKey]:
    """Every ``*.pub`` of a folder, read once, in the order of their names.

    Raises:
        UsageError: No such folder, no key in it, or a file that is no key.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder of trusted keys")
    paths = sorted(path for path in folder.iterdir() if path.name.endswith(".pub"))
    if not paths:
        raise UsageError(f"{folder}: holds no *.pub, and an empty pin pins nothing")
    if len(paths) > MAX_TRUSTED_KEYS:
        raise UsageError(f"{folder}: too many keys (got {len(paths)}; {MAX_TRUSTED_KEYS} at most)")
    return [parse_public_key(_read_key_text(path), str(path)) for path in paths]


def _read_key_text(path: Path) -> str:
    try:
        # Opening a pipe would wait for somebody to write into it.
        if path.exists() and not path.is_file():
            raise UsageError(f"{path}: not a key (no regular file)")
        with path.open("rb") as stream:
            data = stream.read(MAX_KEY_BYTES + 1)
    except (OSError, ValueError) as error:
        if not isinstance(error, OSError):
            raise UsageError(f"{path!r}: not a path") from error
        raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from error
    if len(data) > MAX_KEY_BYTES:
        raise UsageError(f"{path}: too long for a key (over {MAX_KEY_BYTES} bytes)")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a key (a byte beyond ASCII at {error.start})") from error


def parse_private_key(text: str, shown: str) -> SigningKey:
    """Read a PEM PKCS#8 Ed25519 key.

    Raises:
        InputError: Anything else; the text of the key is never part of the message.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    where = Where(path=shown)
    try:
        key = load_pem_private_key(text.strip().encode("utf-8"), password=None)
    except TypeError:
        # `from None`: the library's text speaks of its own arguments.
        raise InputError("the signing key is locked by a passphrase", where=where) from None
    except (ValueError, UnsupportedAlgorithm):
        # `from None`: the library's text could quote the file.
        raise InputError(
            "not a signing key (one PEM 'PRIVATE KEY' block, PKCS#8, Ed25519)", where=where
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"not an Ed25519 key (got {type(key).__name__})", where=where)
    return SigningKey(key, PublicKey(key.public_key().public_bytes_raw()))


def load_private_key(path: Path, shown: str | None = None) -> SigningKey:
    """Read the signing key at ``path``.

    Raises:
        InputError: It does not exist (a key is never made in its place) or is no key.
    """
    name = shown if shown is not None else str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_KEY_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"the signing key cannot be read ({error.strerror or error})",
            where=Where(path=name),
            fix="make one with 'pytest-evarness keygen PATH'",
        ) from error
    return parse_private_key(data[:MAX_KEY_BYTES].decode("utf-8", "replace"), name)


def make_key(path: Path) -> SigningKey:
    """Make a key pair: ``path`` (PEM PKCS#8, mode 0600) and ``path.pub`` (PEM SPKI).

    Raises:
        FileExistsError: One of the two exists; neither is touched.
        OSError: The files cannot be written.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    twin = path.with_name(path.name + ".pub")
    if twin.exists() or twin.is_symlink():
        raise FileExistsError(17, "File exists", str(twin))
    # Created with its final mode: there is no moment at which others could open it.
    _create(path, secret, 0o600)
    _create(twin, public, 0o644)
    return SigningKey(private, PublicKey(private.public_key().public_bytes_raw()))


def _create(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, mode), "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def choose_signing_key(
    option: str | None, *, variables: Mapping[str, str], home: Path | None
) -> ChosenKey | None:
    """The key of a session: the option's, else ``$EVARNESS_SIGNING_KEY``, else the local one.

    Args:
        option: ``--evarness-key`` (a path), or None.
        variables: The session's environment variables.
        home: ``~/.evarness``; None when there is no home, and then no local key.

    Returns:
        None when there is no usable key: the bundle is then unsigned and says so.

    Raises:
        InputError: A key was named and cannot be used.
    """
    if option is not None:
        if not option.strip():
            raise InputError("--evarness-key: the path of a key must not be empty")
        return ChosenKey(load_private_key(Path(option)), "option", made=False, shown=option)
    named = variables.get("EVARNESS_SIGNING_KEY", "")
    if named.strip():
        shown = "$EVARNESS_SIGNING_KEY"
        if "-----BEGIN" in named:
            return ChosenKey(parse_private_key(named, shown), "variable", made=False, shown=shown)
        return ChosenKey(load_private_key(Path(named), shown), "variable", made=False, shown=shown)
    if home is None:
        return None
    path = home.joinpath(*LOCAL_KEY)
    shown = "~/.evarness/signing.pem"
    made = False
    if not path.exists():
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_key(path)
            made = True
        except FileExistsError:
            # Another session made it between the two calls: that one is the local key now.
            made = False
        except OSError:
            return None
    return ChosenKey(load_private_key(path, shown), "local", made=made, shown=shown)

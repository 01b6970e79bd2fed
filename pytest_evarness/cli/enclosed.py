"""Opening a stranger's bundle for reading: its shape and its consistency, and a pin if given."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_evarness.errors import EvarnessError, InputError, UnverifiedError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pytest_evarness.bundle.key import PublicKey

__all__ = [
    "Enclosed",
    "NotGenuineError",
    "add_key_argument",
    "add_up",
    "open_bundle",
    "refuse_private_keys",
]


_KEY_HEAD = 4096


class NotGenuineError(EvarnessError):
    """A key was pinned and the bundle is not shown to be its holder's (exit 1)."""


def add_key_argument(parser: argparse.ArgumentParser, more: str = "") -> None:
    """``--key``, repeatable.

    Args:
        more: What else it does, in words.
    """
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="PUB",
        help=f"verify the bundle first, under this public key; {more}repeatable",
    )


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A statement that can be read.

    Attributes:
        keyid: The pinned key that signed; None where no key was pinned: then nobody vouches for
            what the statement says, and findings were not judged again unless that was asked for.
        sha256: Of the file, hex.
    """

    statement: dict[str, Any]
    keyid: str | None
    sha256: str

    @property
    def not_judged_again(self) -> str | None:
        """Why its findings are only what it says: another version made it and no key is pinned."""
        from pytest_evarness.report.text import one_line

        if self.keyid is not None or _is_of_this_version(self.statement):
            return None
        engine = self.statement["predicate"]["seal"]["engine"]
        by = ", ".join(f"{row['name']} {row['version']}" for row in engine)
        return f"made by {one_line(by)}: its findings were not judged again here"

    def origin(self, shown: str, command: str) -> str:
        """Some lines: who vouches for it, and whether its findings are more than its word.

        Args:
            shown: The file as the user named it.
            command: To name with a key.
        """
        from pytest_evarness.report.text import clean

        if self.keyid is None:
            lines = [
                "not verified: this is what the file says of itself, and nobody vouches for it",
                f"  try: pytest-evarness {command} {clean(shown)} --key PUB",
            ]
            if self.not_judged_again is not None:
                lines.append(self.not_judged_again)
            return "\n".join(lines)
        return f"verified: signed by the pinned key {self.keyid}"


def open_bundle(path: Path, keys: Sequence[str] = (), *, judged_again: bool = False) -> Enclosed:
    """Read a bundle.

    Args:
        keys: PEM files or 64 hex digits; with any the bundle is verified in full.
        judged_again: Judge its findings again without a key too, where this version made it: a
            bundle that says anything else than what it encloses gives is then refused.

    Raises:
        NotGenuineError: It does not verify under a pinned key.
        InputError: It is no bundle, or its parts contradict each other.
        UsageError: No such file, or a key that is none.
    """
    from pytest_evarness.bundle.reading import read_bundle

    pinned = _keys(keys)
    try:
        data = read_bundle(path)
    except UnverifiedError as error:
        raise InputError(error.problem) from error
    except ValueError as error:
        raise UsageError(f"{path}: is no path") from error
    keyid = _verified(path, data, pinned) if pinned else None
    statement = _statement(path, data)
    if judged_again and not pinned and _is_of_this_version(statement):
        _check_again(path, data)
    return Enclosed(statement, keyid, hashlib.sha256(data).hexdigest())


def _is_of_this_version(statement: dict[str, Any]) -> bool:
    """Another version may judge alike and say it in other words, which is no forgery."""
    from pytest_evarness.bundle.facts import engine_version

    own = [{"name": name, "version": version} for name, version in engine_version().items()]
    engine: list[dict[str, str]] = statement["predicate"]["seal"]["engine"]
    return engine == own


def _check_again(path: Path, data: bytes) -> None:
    from pytest_evarness.bundle.verify import Options, verify_bundle
    from pytest_evarness.core.registry import packaged_registry

    report = verify_bundle(data, options=Options(), registry=packaged_registry())
    failed = next((step for step in report.steps if step.outcome == "fail"), None)
    if failed is not None:
        raise InputError(f"{path}: cannot be read as a bundle: {failed.step}: {failed.detail}")


def _keys(words: Sequence[str]) -> list[PublicKey]:
    from pytest_evarness.bundle.key import load_public_key

    refuse_private_keys(words)
    try:
        return [load_public_key(word) for word in words]
    except UsageError:
        raise
    except EvarnessError as error:
        raise UsageError(f"--key: {error.problem}") from error


def refuse_private_keys(words: Sequence[str]) -> None:
    """Say where ``--key`` names the key that signs rather than the one that verifies.

    Raises:
        UsageError: One does.
    """
    for word in words:
        path = Path(word)
        try:
            if not path.is_file():
                continue
            with path.open("rb") as stream:
                head = stream.read(_KEY_HEAD)
        except (OSError, ValueError):
            continue  # whoever reads the key says what is wrong
        if b"PRIVATE KEY-----" in head:
            raise UsageError(
                f"{word}: this is the private key, which signs and stays secret",
                fix=f"pin '{word}.pub'",
            )


def _verified(path: Path, data: bytes, keys: list[PublicKey]) -> str:
    from pytest_evarness.bundle.verify import Options, verify_bundle
    from pytest_evarness.core.registry import packaged_registry

    report = verify_bundle(data, options=Options(keys=tuple(keys)), registry=packaged_registry())
    if report.keyid is None:
        failed = next(step for step in report.steps if step.outcome == "fail")
        raise NotGenuineError(f"{path}: NOT GENUINE: {failed.step}: {failed.detail}")
    return report.keyid


def _statement(path: Path, data: bytes) -> dict[str, Any]:
    from pytest_evarness.bundle import consistency
    from pytest_evarness.bundle.envelope import parse_envelope
    from pytest_evarness.bundle.reading import refuse_archives, strict_json
    from pytest_evarness.bundle.schema import STATEMENT, check_shape

    with add_up(path):
        refuse_archives(data)
        envelope = parse_envelope(strict_json(data, "envelope"), data)
        statement: dict[str, Any] = strict_json(envelope.payload, "payload")
        check_shape(statement, STATEMENT)
        events = consistency.check_canonical_form(envelope.payload, statement)
        predicate = statement["predicate"]
        consistency.check_seal(statement)
        consistency.check_plan(predicate["seal"])
        consistency.check_cases(predicate)
        consistency.check_runs(predicate, events)
        consistency.check_findings_shape(predicate)
        return statement


@contextmanager
def add_up(path: Path) -> Iterator[None]:
    """Turn whatever well-formed records that make no sense together cause into one sentence.

    Raises:
        InputError: In place of it.
    """
    try:
        yield
    except UnverifiedError as error:
        raise InputError(f"{path}: cannot be read as a bundle: {error.problem}") from error
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise InputError(
            f"{path}: cannot be read as a bundle: it does not add up ({type(error).__name__})"
        ) from error
    except (RecursionError, MemoryError) as error:
        raise InputError(
            f"{path}: cannot be read as a bundle: it takes too much ({type(error).__name__})"
        ) from error

"""Where a session keeps its seal, its bundle and its run logs; each file whole or not there."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import secrets
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_evarness.core.writing import write_atomically

__all__ = ["KEPT_SESSIONS", "STATE_FOLDER", "Store", "safe_name", "write_atomically"]

STATE_FOLDER = ".evarness"
KEPT_SESSIONS = 5

_SESSION = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


@dataclass(slots=True)
class Store:
    """The files of one session.

    Attributes:
        state: ``<root>/.evarness``.
        bundle: Where the bundle is to stand; None writes neither seal nor bundle.
        session: Sorts by the moment of its start.
    """

    state: Path
    bundle: Path | None
    session: str
    _before: tuple[int, int, int] | None = None
    _runs: Path | None = None

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        bundle: Path | None,
        session: str | None = None,
    ) -> Store:
        """Prepare the state folder below ``root`` and drop what old sessions left.

        Args:
            bundle: Where the bundle is to stand; None for no seal and no bundle.
            session: An existing session's name, for a further process of it.

        Raises:
            OSError: The folder cannot be made.
        """
        state = root / STATE_FOLDER
        state.mkdir(parents=True, exist_ok=True)
        ignore = state / ".gitignore"
        if not ignore.exists():
            # As pytest's cache: a session must not make the working tree dirty.
            write_atomically(ignore, b"*\n")
        name = session if session is not None else new_session()
        store = cls(state, bundle, name)
        if bundle is not None:
            store._before = _identity(bundle)
        if session is None:
            store.drop_old()
        return store

    @classmethod
    def default_bundle(cls, root: Path) -> Path:
        """``<root>/.evarness/proof.json``."""
        return root / STATE_FOLDER / "proof.json"

    @property
    def runs(self) -> Path:
        """The folder of this session's run logs."""
        return self.state / "runs" / self.session

    def run_log(self, case_digest: str, label: str) -> Path:
        """The run log of one run; its folder exists afterwards."""
        if self._runs is None:
            # Once: it is asked for twice a case.
            self._runs = self.runs
            self._runs.mkdir(parents=True, exist_ok=True)
        return self._runs / f"{case_digest.removeprefix('sha256:')}-{label}.jsonl"

    @property
    def seal(self) -> Path:
        """Where the seal stands once the session is over; beside the bundle."""
        assert self.bundle is not None, "a session without a bundle has no seal"
        return _beside(self.bundle, "seal")

    @property
    def early_seal(self) -> Path:
        """Where the seal stands while the session runs, under the session's name."""
        assert self.bundle is not None, "a session without a bundle has no seal"
        return _beside(self.bundle, f"{self.session}.seal")

    def earlier_contracts(self) -> list[dict[str, Any]]:
        """The contract set of the seal that stands there from the session before; [] without."""
        statement = _read_statement(self.seal)
        try:
            return list(statement["predicate"]["seal"]["contracts"])
        except (KeyError, TypeError):
            return []

    def earlier_overlays(self) -> list[dict[str, Any]]:
        """The overlays in force in the session before, by its seal that stands there."""
        statement = _read_statement(self.seal)
        try:
            return list(statement["predicate"]["seal"]["overlays"])
        except (KeyError, TypeError):
            return []

    def write_seal(self, data: bytes) -> Path:
        """Put the seal on disk (fsync) before the first run.

        Raises:
            OSError: It cannot be written; the session must then stop.
        """
        path = self.early_seal
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
        return path

    def write_bundle(self, data: bytes, time: str) -> tuple[Path, str | None]:
        """Put the bundle and its seal in their places, whole or not at all.

        Args:
            time: ``seal.time``, to tell which of two sessions began later.

        Returns:
            Where the bundle stands, and a sentence where another session wrote meanwhile.

        Raises:
            OSError: It cannot be written.
        """
        assert self.bundle is not None, "a session without a bundle writes none"
        self.bundle.parent.mkdir(parents=True, exist_ok=True)
        now = _identity(self.bundle)
        if now is not None and now != self._before:
            other = _seal_time(self.bundle)
            if other is not None and other > time:
                mine = _beside(self.bundle, self.session)
                write_atomically(mine, data)
                return mine, (
                    f"another session wrote {self.bundle.name} meanwhile; its bundle is the newer"
                    f" (sealed {other}), this one (sealed {time}) is {mine.name}"
                )
            note = (
                f"another session wrote {self.bundle.name} meanwhile; the bundle there now is this"
                f" session's, the newer (sealed {time})"
            )
        else:
            note = None
        write_atomically(self.bundle, data)
        if self.early_seal.exists():
            self.early_seal.replace(self.seal)
        return self.bundle, note

    def drop_old(self) -> None:
        """Keep the run logs and early seals of the last five sessions."""
        runs = self.state / "runs"
        if runs.is_dir():
            names = [p.name for p in runs.iterdir() if _SESSION.fullmatch(p.name) and p.is_dir()]
            for name in sorted(names)[: -(KEPT_SESSIONS - 1)]:
                shutil.rmtree(runs / name, ignore_errors=True)
        if self.bundle is not None and self.bundle.parent.is_dir():
            stem = re.escape(_stem(self.bundle))
            early = re.compile(rf"{stem}\.{_SESSION.pattern}\.seal\.json")
            left = [p for p in self.bundle.parent.iterdir() if early.fullmatch(p.name)]
            for path in sorted(left)[: -(KEPT_SESSIONS - 1)]:
                with contextlib.suppress(OSError):
                    path.unlink()


def new_session() -> str:
    """A name that sorts by time and is not used twice."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{moment}-{secrets.token_hex(4)}"


def safe_name(text: str) -> str:
    """A file name for any id: distinct for distinct ids, on any file system.

    Lower-case letters, digits, ``_``, ``-`` and inner dots stay; every other byte of the UTF-8
    text is written ``%xx``, upper case included, since some file systems fold case. A name that
    would be too long ends in a digest of the id.
    """
    import hashlib

    kept = "abcdefghijklmnopqrstuvwxyz0123456789_-."
    encoded = "".join(
        chr(byte) if chr(byte) in kept else f"%{byte:02x}" for byte in text.encode("utf-8")
    )
    if encoded.startswith(".") or not encoded:
        encoded = "%2e" + encoded[1:] if encoded else "%"
    if encoded.endswith("."):
        encoded = encoded[:-1] + "%2e"
    if len(encoded) > 120:
        encoded = (
            encoded[:80].rstrip("%.") + "%-" + hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]
        )
    return encoded


def _stem(bundle: Path) -> str:
    return bundle.name.removesuffix(".json") if bundle.name != ".json" else bundle.name


def _beside(bundle: Path, word: str) -> Path:
    return bundle.with_name(f"{_stem(bundle)}.{word}.json")


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _seal_time(path: Path) -> str | None:
    statement = _read_statement(path)
    try:
        time = statement["predicate"]["seal"]["time"]
    except (KeyError, TypeError):
        return None
    return time if isinstance(time, str) else None


def _read_statement(path: Path) -> Any:
    """A statement as somebody left it there; nothing is shown about it. {} where it is none."""
    try:
        envelope = json.loads(path.read_bytes())
        return json.loads(base64.b64decode(envelope["payload"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
